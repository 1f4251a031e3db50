/* SPDX-License-Identifier: Apache-2.0
 * kept_frame.c -- see kept_frame.h.
 *
 * In plain Python a caught exception that is kept (in a list, say) keeps the frame of the function that caught it, and with it all that the
 * function's variables hold, now and when it has returned.  A function that is taken up in its middle has several frames: the one that
 * caught the exception would hold what its variables were, and nothing would hold what they become.  So if the frame is kept, the rest runs
 * in a frame of its own as plain Python, which the kept one holds in the place of its variables.
 * Invariant: a frame that nothing keeps is never made an object here.
 */
#include "core/python/cpython.h"
#include <internal/pycore_frame.h>

#include "core/python/kept_frame.h"

PyObject *gm_kept_frame_ask, *gm_kept_frame_follow;

static struct _PyInterpreterFrame *
running (void)
{
  PyThreadState *ts = PyThreadState_Get ();
#if PY_VERSION_HEX >= 0x030d0000
  return ts->current_frame;
#else
  return ts->cframe->current_frame;
#endif
}

static PyObject *
ask (PyObject *module, PyObject *unused)
{
  PyFrameObject *f = running ()->frame_obj;
  return Py_NewRef (f && Py_REFCNT (f) > 1 ? (PyObject *) f : Py_None);
}

static PyObject *
follow (PyObject *module, PyObject *old)
{
  struct _PyInterpreterFrame *f = ((PyFrameObject *) old)->f_frame;
  PyCodeObject *code = PyFrame_GetCode ((PyFrameObject *) old);
  int n = code->co_nlocals;
  Py_DECREF (code);
  for (int i = 0; i < n; i++)
    Py_CLEAR (f->localsplus[i]);
  if (n > 0)
    f->localsplus[n - 1] = Py_XNewRef (PyEval_GetFrame ());
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
  { "ask", ask, METH_NOARGS, "ask() -> the frame that calls this, if something keeps it, or None." },
  { "follow", follow, METH_O, "follow(old): `old` keeps the frame that calls this in the place of its variables." },
};

int
gm_py_init_kept_frame (void)
{
  gm_kept_frame_ask = PyCFunction_New (&methods[0], NULL);
  gm_kept_frame_follow = PyCFunction_New (&methods[1], NULL);
  return gm_kept_frame_ask && gm_kept_frame_follow ? 0 : -1;
}
