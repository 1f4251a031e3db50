/* SPDX-License-Identifier: Apache-2.0
 * call_state.h -- what this thread's Python objects tell the compiled call around them.
 */
#ifndef GM_OBJECTS_CALL_STATE_H
#define GM_OBJECTS_CALL_STATE_H

#include "core/base/thread.h"

#include <stdint.h>

/* Between these two calls nothing is captured on this thread: the compiler's own Python code. */
extern GM_THREAD int gm_hook_suspended;

static inline void
gm_hook_suspend (void)
{
  gm_hook_suspended++;
}

static inline void
gm_hook_unsuspend (void)
{
  gm_hook_suspended--;
}

/* Incremented by each call of a function of the program that a graph, or the code after it, makes.
 * A function of the program must not be called twice for one call of it. */
extern GM_THREAD uint32_t gm_failed_program_calls;
/* Incremented by each error of an operation that becomes an exception. */
extern GM_THREAD uint32_t gm_failed_operations;

#endif
