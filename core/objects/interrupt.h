/* SPDX-License-Identifier: Apache-2.0
 * interrupt.h -- signals while a function is compiled, and what their handlers raise.
 *
 * Python runs a signal's handler between two instructions of the program.  While a function is
 * recorded and compiled there are none, so the handlers are run where gm_interrupt_poll is
 * called.  An exception that a handler raises belongs to no operation that happens to run: it is
 * parked, the compilation stops, the call runs as plain Python, and there the exception comes at
 * the first instruction, where the program's own handlers see it.
 *
 * Requires: the GIL.  Handlers run on the main thread alone, as in Python; on all others nothing
 * is ever parked.
 */
#ifndef GM_OBJECTS_INTERRUPT_H
#define GM_OBJECTS_INTERRUPT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

/* Runs the handlers of the signals that have arrived.  True if an exception is parked: then the
 * caller stops its work. */
bool gm_interrupt_poll (void);
/* Parks the current exception if a signal's handler has raised it.  False, and the exception
 * stays as it is, if it has another origin or there is none. */
bool gm_interrupt_take (void);
/* True if an exception is parked. */
bool gm_interrupt_is_parked (void);
/* Makes the parked exception the current one.  False if there is none. */
bool gm_interrupt_raise (void);

/* Runs the handlers of the signals that have arrived, and keeps a parked exception parked until
 * gm_interrupt_release.  Calls nest. */
void gm_interrupt_hold (void);
void gm_interrupt_release (void);

/* Drops the current exception; but an exception of a signal's handler is parked.  Code of the
 * recorder and around it has this in the place of PyErr_Clear, and gm_interrupt_restore, which
 * parks such an exception before another one takes its place, in the place of PyErr_Restore: an
 * exception of the program's own may be dropped there, an interrupt never. */
void gm_interrupt_clear (void);
/* Makes this exception the current one, as PyErr_Restore does; steals the references. */
void gm_interrupt_restore (PyObject *type, PyObject *value, PyObject *traceback);
#define PyErr_Clear gm_interrupt_clear
#define PyErr_Restore gm_interrupt_restore

/* Initializes this file when the module is loaded.  is_main: true on the thread on which Python
 * runs handlers.  -1 with an exception. */
int gm_interrupt_init (bool (*is_main) (void));

#endif
