/* SPDX-License-Identifier: Apache-2.0
 * anomaly_py.c -- C functions behind gramme.autograd.anomaly_mode: the program's current place, and
 * warnings.
 */
#include "core/objects/anomaly_py.h"

#include "core/autograd/anomaly.h"
#include "core/objects/errors.h"
#include "core/objects/call_state.h"
#include "core/objects/tensor_object.h"

#include "core/objects/import.h"

/* Calls anomaly_mode.name (*args) of the package without capturing it; steals `args` (NULL:
 * fails). Returns a new reference, or NULL with an exception. */
static PyObject *
call (const char *name, PyObject *args)
{
  gm_hook_suspend ();
  PyObject *module = args ? gm_import ("gramme.autograd.anomaly_mode") : NULL;
  PyObject *fn = module ? PyObject_GetAttrString (module, name) : NULL;
  PyObject *result = fn ? PyObject_CallObject (fn, args) : NULL;
  gm_hook_unsuspend ();
  Py_XDECREF (fn);
  Py_XDECREF (module);
  Py_XDECREF (args);
  return result;
}

static char *
where (void)
{
  PyGILState_STATE gil = PyGILState_Ensure ();
  PyObject *text = call ("_where", PyTuple_New (0));
  const char *utf8 = text ? PyUnicode_AsUTF8 (text) : NULL;
  char *copy = g_strdup (utf8);

  PyErr_Clear ();
  Py_XDECREF (text);
  PyGILState_Release (gil);
  return copy;
}

static bool
has_nan (GmTensor *t, GError **error)
{
  PyGILState_STATE gil = PyGILState_Ensure ();
  PyObject *result = call ("_has_nan", Py_BuildValue ("(N)", gm_py_tensor_wrap (t)));
  bool bad = result == Py_True;

  if (!result)
    gm_py_error_set (error);
  Py_XDECREF (result);
  PyGILState_Release (gil);
  return bad;
}

static bool
tell (const char *node, const char *text, GError **error)
{
  PyGILState_STATE gil = PyGILState_Ensure ();
  PyObject *type, *value, *traceback, *result;

  PyErr_Fetch (&type, &value, &traceback);
  result = call ("_tell", Py_BuildValue ("(sz)", node, text));
  bool ok = result != NULL;
  if (ok) {
    PyErr_Restore (type, value, traceback);
  } else {
    gm_py_error_set (error);
    Py_XDECREF (type);
    Py_XDECREF (value);
    Py_XDECREF (traceback);
  }
  Py_XDECREF (result);
  PyGILState_Release (gil);
  return ok;
}

static PyObject *
set_anomaly (PyObject *module, PyObject *args)
{
  int on, checks_nan;
  if (!PyArg_ParseTuple (args, "pp:set_anomaly", &on, &checks_nan))
    return NULL;
  gm_anomaly_host = (GmAnomalyHost){ where, has_nan, tell };
  gm_anomaly_on = on;
  gm_anomaly_checks_nan = checks_nan;
  Py_RETURN_NONE;
}

static PyObject *
get_anomaly (PyObject *module, PyObject *unused)
{
  return Py_BuildValue ("(NN)", PyBool_FromLong (gm_anomaly_on),
                        PyBool_FromLong (gm_anomaly_checks_nan));
}

static PyMethodDef functions[] = {
  { "set_anomaly", set_anomaly, METH_VARARGS,
    "set_anomaly(on, check_nan)\n\nSee gramme.autograd.anomaly_mode." },
  { "get_anomaly", get_anomaly, METH_NOARGS, "get_anomaly()\n\n(on, check_nan)" },
  { 0 },
};

int
gm_py_init_anomaly (PyObject *module)
{
  return PyModule_AddFunctions (module, functions);
}
