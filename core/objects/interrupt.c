/* SPDX-License-Identifier: Apache-2.0
 * interrupt.c -- see interrupt.h.
 *
 * Only one exception is parked at a time, the first to be raised.  A pending call raises it again:
 * the interpreter makes such calls on the main thread, where it would have run the handler.  If
 * that happens inside of Python code that the compiler itself runs (a warning, an import), the code
 * that drops the exception there parks it again.
 */
#include "core/objects/interrupt.h"

#include "core/base/thread.h"
#include "core/objects/import.h"

#undef PyErr_Clear
#undef PyErr_Restore

static struct {
  PyObject *type, *value, *traceback;
} parked;
static PyObject *getsignal; /* of the module _signal */
static PyObject *call_name; /* "__call__" */

static GM_THREAD int held;
static bool (*is_main_thread) (void);

static int
raise_later (void *unused)
{
  return !held && gm_interrupt_raise () ? -1 : 0;
}

static void
park (void)
{
  if (parked.type)
    PyErr_Clear ();
  else
    PyErr_Fetch (&parked.type, &parked.value, &parked.traceback);
  Py_AddPendingCall (raise_later, NULL);
}

/* -- The origin of an exception ---------------------------------------------------------------- */

/* Returns the code that runs when `callable` is called, borrowed from it; NULL: it is not
 * written in Python. */
static PyCodeObject *
code_of (PyObject *callable)
{
  if (PyMethod_Check (callable))
    callable = PyMethod_GET_FUNCTION (callable);
  if (!PyFunction_Check (callable))
    callable = _PyType_Lookup (Py_TYPE (callable), call_name);
  return callable && PyFunction_Check (callable) ? (PyCodeObject *) PyFunction_GET_CODE (callable)
                                                 : NULL;
}

/* Returns the function or object that a functools.partial wraps, or `handler` itself if it is
 * none. New reference. */
static PyObject *
behind_partial (PyObject *handler)
{
  bool is_partial = strcmp (Py_TYPE (handler)->tp_name, "functools.partial") == 0;
  PyObject *func = is_partial ? PyObject_GetAttrString (handler, "func") : NULL;
  if (!func)
    PyErr_Clear ();
  return func ? func : Py_NewRef (handler);
}

/* True if a frame of the traceback belongs to the handler of a signal. */
static bool
has_handler (PyObject *traceback)
{
  for (int number = 1; number < 65; number++) {
    PyObject *handler = PyObject_CallFunction (getsignal, "i", number);
    if (!handler)
      PyErr_Clear ();
    if (!handler || PyLong_Check (handler) || handler == Py_None) {
      Py_XDECREF (handler);
      continue;
    }
    Py_SETREF (handler, behind_partial (handler));
    PyCodeObject *code = code_of (handler);
    bool found = false;
    PyTracebackObject *t = (PyTracebackObject *) traceback;
    for (; code && t && !found; t = t->tb_next) {
      PyCodeObject *its = PyFrame_GetCode (t->tb_frame);
      found = its == code;
      Py_DECREF (its);
    }
    Py_DECREF (handler);
    if (found)
      return true;
  }
  return false;
}

/* -- The interface ----------------------------------------------------------------------------- */

void
gm_interrupt_hold (void)
{
  gm_interrupt_poll ();
  held++;
}

void
gm_interrupt_release (void)
{
  if (--held == 0 && gm_interrupt_is_parked ())
    Py_AddPendingCall (raise_later, NULL);
}

bool
gm_interrupt_poll (void)
{
  if (gm_interrupt_is_parked ()) {
    Py_AddPendingCall (raise_later, NULL); /* once more: the queue may have been full */
    return true;
  }
  if (PyErr_Occurred () || PyErr_CheckSignals () == 0)
    return false;
  park ();
  return true;
}

bool
gm_interrupt_take (void)
{
  PyObject *type = PyErr_Occurred (), *value, *traceback;
  if (!type || !is_main_thread || !is_main_thread ())
    return false;
  bool is_it = PyErr_GivenExceptionMatches (type, PyExc_KeyboardInterrupt);
  if (!is_it) {
    PyErr_Fetch (&type, &value, &traceback);
    is_it = traceback && has_handler (traceback);
    PyErr_Restore (type, value, traceback);
  }
  if (is_it)
    park ();
  return is_it;
}

bool
gm_interrupt_is_parked (void)
{
  return parked.type && is_main_thread ();
}

bool
gm_interrupt_raise (void)
{
  if (!gm_interrupt_is_parked ())
    return false;
  PyErr_Restore (parked.type, parked.value, parked.traceback);
  parked.type = parked.value = parked.traceback = NULL;
  return true;
}

void
gm_interrupt_clear (void)
{
  if (PyErr_Occurred () && !gm_interrupt_take ())
    PyErr_Clear ();
}

void
gm_interrupt_restore (PyObject *type, PyObject *value, PyObject *traceback)
{
  gm_interrupt_clear ();
  PyErr_Restore (type, value, traceback);
}

int
gm_interrupt_init (bool (*is_main) (void))
{
  is_main_thread = is_main;
  PyObject *module = gm_import ("_signal");
  getsignal = module ? PyObject_GetAttrString (module, "getsignal") : NULL;
  call_name = PyUnicode_InternFromString ("__call__");
  Py_XDECREF (module);
  return getsignal && call_name ? 0 : -1;
}
