/* SPDX-License-Identifier: Apache-2.0
 * hook.h -- functions that a broken call reaches from Python are captured as well.
 *
 * PEP 523: while a call runs as Python that was meant to be compiled, frames of this thread pass through here.  The hook is installed only
 * while some thread needs it, so the rest of the process pays nothing.
 */
#ifndef GM_PYTHON_HOOK_H
#define GM_PYTHON_HOOK_H

#include "core/base/thread.h"
#include "core/python/callable.h"

/* What was in force before; on the caller's C stack. */
typedef struct {
  const GmConfig *config;
  PyCodeObject *pass;
  PyObject *release;
  uint32_t first, n;
  int lent; /* of the interpreter's depth of calls */
} GmHookScope;

/* Frames that this thread enters from now on are captured with `config`, but for the next one of `pass` (borrowed, or NULL): the
 * function that is about to run as Python.  NULL config: nothing is captured, as in code that the user has excluded. */
GmHookScope gm_hook_begin (const GmConfig *config, PyCodeObject *pass);
/* Of the compiled function that runs now as Python, as a whole or in part; borrowed, NULL: none. */
const GmConfig *gm_hook_config (void);
void gm_hook_end (GmHookScope scope);
/* After gm_hook_begin: the frame that passes has references of its own; then these items of a tuple (borrowed, used by nobody else) are
 * dropped, so that its objects die when the frame drops them. */
void gm_hook_release (PyObject *tuple, uint32_t first, uint32_t n);

/* Between these two nothing is captured on this thread: the compiler's own Python code. */
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

/* Whether this thread captures every function: nobody asked for one by name. */
bool gm_hook_all (void);

/* Whether this thread's stack ends soon: whoever would go on with C frames leaves the work to plain frames, which take none of it. */
bool gm_hook_stack_is_low (void);
/* True if a tracer or a profiler of this thread, or since 3.12 a tool of sys.monitoring, sees the frames of `code` (NULL: of any code): what it
 * sees must be the program's own code. */
bool gm_hook_is_traced (const PyCodeObject *code);

/* Frames of this code object run as they are.  shown: the code that they have then, of the same variables and instructions, or NULL: itself. */
void gm_hook_skip (PyCodeObject *code, PyCodeObject *shown);

/* gramme.nn.Module (borrowed; it lives as long as the process): calls that take one may be captured. */
void gm_hook_set_module (PyObject *type);

bool gm_hook_is_module (PyObject *o);

int gm_py_init_hook (PyObject *module);

#endif
