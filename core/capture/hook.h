/* SPDX-License-Identifier: Apache-2.0
 * hook.h -- captures functions that Python code calls after a break, too.
 *
 * PEP 523: while a call runs as Python that was meant to be compiled, the frames of this thread
 * pass through this hook.  It is installed only while some thread needs it, so the rest of the
 * process pays nothing.
 */
#ifndef GM_CAPTURE_HOOK_H
#define GM_CAPTURE_HOOK_H

#include "core/base/thread.h"
#include "core/capture/callable.h"
#include "core/objects/call_state.h"

/* The thread's settings before a scope of the hook, which gm_hook_end restores; on the caller's
 * C stack. */
typedef struct {
  const GmConfig *config;
  PyCodeObject *pass;
  PyObject *release;
  uint32_t first, n;
  int lent; /* amount by which the limit on nested C calls was raised, see depth_lend */
} GmHookScope;

/* Makes this thread capture the frames that it enters with `config`, except the next frame of
 * `pass` (borrowed, or NULL), the function that is about to run as Python.  NULL config: nothing is
 * captured, as in code that the user has excluded. */
GmHookScope gm_hook_begin (const GmConfig *config, PyCodeObject *pass);
/* Returns the configuration of the innermost compiled function of which this thread now runs the
 * whole or a part as Python; borrowed, NULL: none. */
const GmConfig *gm_hook_config (void);
void gm_hook_end (GmHookScope scope);
/* Makes the frame that passes the hook next the only owner of n items of `tuple` (borrowed, used
 * by no other code): they are dropped from the tuple as soon as the frame has references of its
 * own, so that the objects die when the frame drops them.  Call it after gm_hook_begin. */
void gm_hook_release (PyObject *tuple, uint32_t first, uint32_t n);

/* True if this thread captures every function, although the program named none. */
bool gm_hook_all (void);

/* True if this thread's stack is nearly used up.  Work that would continue in C frames is then left
 * to plain frames, which use none of it. */
bool gm_hook_stack_is_low (void);
/* True if a tracer or a profiler of this thread, or since 3.12 a tool of sys.monitoring, sees the
 * frames of `code` (NULL: of any code): it must see the program's own code. */
bool gm_hook_is_traced (const PyCodeObject *code);

/* Makes frames of this code object run uncaptured.  shown: code with the same variables and
 * instructions, which such frames show as theirs; NULL: their own. */
void gm_hook_skip (PyCodeObject *code, PyCodeObject *shown);

/* Sets gramme.nn.Module (borrowed; it lives as long as the process).  From then on, calls with a
 * module among the arguments may be captured. */
void gm_hook_set_module (PyObject *type);

bool gm_hook_is_module (PyObject *o);

int gm_py_init_hook (PyObject *module);

#endif
