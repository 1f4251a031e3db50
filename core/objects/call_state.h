/* SPDX-License-Identifier: Apache-2.0
 * call_state.h -- what this thread's Python objects tell the compiled call around them.
 */
#ifndef GM_OBJECTS_CALL_STATE_H
#define GM_OBJECTS_CALL_STATE_H

#include "core/base/thread.h"

#include <stdint.h>

/* Nesting of gm_hook_suspend: not 0 while nothing is captured on this thread, as in the
 * compiler's own Python code. */
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

/* Number of calls of the program's functions that graphs, or the code after them, have made on
 * this thread.  It tells if a failed graph has called such a function, which must not be called
 * twice. */
extern GM_THREAD uint32_t gm_failed_program_calls;
/* Number of errors of operations that became exceptions on this thread. */
extern GM_THREAD uint32_t gm_failed_operations;

#endif
