/* SPDX-License-Identifier: Apache-2.0
 * errors.c -- GError to Python exception, in one table.
 *
 * Lower rooms know no Python: they fail with a GError, and the last C function before the
 * interpreter passes it to gm_py_raise.  Where such a room calls back into Python (hooks), an
 * exception is parked here and a GError of a private domain carries it outwards.  One exception is
 * parked at a time: an engine stops at the first error, and a second one that arrives while the
 * first is still parked replaces it, as a raise in an `except` block would.
 *
 * An exception that a signal's handler raises while a plugin compiles is parked by
 * core/objects/interrupt.c: the plugin is told to stop, and the exception replaces the plugin's
 * error.  If the plugin continues without an error, the exception is raised at the next
 * instruction.
 */
#include "core/objects/cpython.h"
#include <internal/pycore_runtime.h>

#include "core/objects/errors.h"

#include "core/base/yield.h"
#include "core/objects/call_state.h"

PyObject *gm_py_backend_error, *gm_py_dimension_error;

typedef struct {
  PyObject *type, *value, *traceback;
} Parked;

static Parked parked;

static void
restore (Parked *p)
{
  PyErr_Restore (p->type, p->value, p->traceback);
  *p = (Parked){ NULL };
}

static GQuark
parked_quark (void)
{
  static GQuark quark;
  if (!quark)
    quark = g_quark_from_static_string ("gm-python-exception");
  return quark;
}

bool
gm_py_error_set (GError **error)
{
  PyObject *type, *value, *traceback;
  if (gm_interrupt_take ()) {
    /* gm_py_raise prefers it to any error, and it is parked again if this one is not raised */
    g_set_error_literal (error, parked_quark (), 0, "a signal's handler raised");
    return false;
  }
  PyErr_Fetch (&type, &value, &traceback);
  if (!error) { /* the caller does not want the error */
    Py_XDECREF (type);
    Py_XDECREF (value);
    Py_XDECREF (traceback);
    return false;
  }
  Py_XSETREF (parked.type, type);
  Py_XSETREF (parked.value, value);
  Py_XSETREF (parked.traceback, traceback);
  g_set_error_literal (error, parked_quark (), 0, "a Python callback raised");
  return false;
}

static PyObject *
exception_of (const GError *error)
{
  if (error->domain != GM_ERROR)
    return error->domain == G_FILE_ERROR ? PyExc_OSError : PyExc_RuntimeError;
  switch ((GmError) error->code) {
  case GM_ERROR_TYPE:
    return PyExc_TypeError;
  case GM_ERROR_VALUE:
  case GM_ERROR_NO_BACKEND:
    return PyExc_ValueError;
  case GM_ERROR_INDEX:
    return PyExc_IndexError;
  case GM_ERROR_RUNTIME:
    return PyExc_RuntimeError;
  case GM_ERROR_MEMORY:
    return PyExc_MemoryError;
  case GM_ERROR_UNSUPPORTED:
    return PyExc_NotImplementedError;
  case GM_ERROR_BACKEND:
    return gm_py_backend_error;
  case GM_ERROR_IO:
    return PyExc_OSError;
  }
  return PyExc_RuntimeError;
}

PyObject *
gm_py_raise (GError *error)
{
  g_assert (error);
  if (!gm_interrupt_raise ()) {
    if (error->domain == parked_quark () && parked.type) {
      restore (&parked);
    } else {
      gm_failed_operations++;
      PyErr_SetString (exception_of (error), error->message);
    }
  }
  g_error_free (error);
  return NULL;
}

/* -- Signals during a compile ------------------------------------------------------------------ */

/* True if the compilation has to stop because of a signal.  Plugins call this now and then
 * (progress), also in threads of theirs, where signals cannot be seen. */
static bool
is_interrupted (void)
{
  return PyGILState_Check () && gm_interrupt_poll ();
}

static bool
is_main_thread (void)
{
  return PyThread_get_thread_ident () == _PyRuntime.main_thread;
}

/* -- Waiting ----------------------------------------------------------------------------------- */

static void *
leave (void)
{
  return PyGILState_Check () ? PyEval_SaveThread () : NULL;
}

static void
enter (void *left)
{
  PyEval_RestoreThread (left);
}

/* -- Classes ----------------------------------------------------------------------------------- */

PyObject *gm_py_dynamo_error, *gm_py_recompile_error, *gm_py_limit_error;

/* Exception classes of the library; the class in row 0 is the base of the others. */
static const struct {
  PyObject **made;
  const char *name, *doc;
} dynamo_errors[] = {
  { &gm_py_dynamo_error, "TorchDynamoException",
    "What a compiled function raises that its plain function does not." },
  { &gm_py_recompile_error, "RecompileError",
    "A function would have to be compiled again, and a switch or a stance forbids it." },
  { &gm_py_limit_error, "FailOnRecompileLimitHit",
    "A function has as many entries as it may have, and fail_on_recompile_limit_hit is set." },
};

int
gm_py_init_errors (PyObject *module)
{
  gm_yield_set (leave, enter);
  if (gm_interrupt_init (is_main_thread) < 0)
    return -1;
  gm_yield_set_interrupt (is_interrupted);
  gm_py_backend_error = PyErr_NewExceptionWithDoc (
      "gramme.compiler.BackendError",
      "A back end refused a graph, or compiling or running through it failed.", PyExc_RuntimeError,
      NULL);
  PyObject *both = PyTuple_Pack (2, PyExc_RuntimeError, PyExc_AttributeError);
  gm_py_dimension_error =
      both ? PyErr_NewExceptionWithDoc (
          "gramme._core.DimensionError",
          "A tensor with so many dimensions, or of this dtype, has no such attribute.", both, NULL)
           : NULL;
  Py_XDECREF (both);
  if (!gm_py_backend_error || !gm_py_dimension_error
      || PyModule_AddObjectRef (module, "DimensionError", gm_py_dimension_error) < 0)
    return -1;
  for (size_t i = 0; i < sizeof dynamo_errors / sizeof *dynamo_errors; i++) {
    g_autofree char *name = g_strdup_printf ("gramme._dynamo.exc.%s", dynamo_errors[i].name);
    PyObject *base = i ? gm_py_dynamo_error : PyExc_RuntimeError;
    *dynamo_errors[i].made = PyErr_NewExceptionWithDoc (name, dynamo_errors[i].doc, base, NULL);
    if (!*dynamo_errors[i].made
        || PyModule_AddObjectRef (module, dynamo_errors[i].name, *dynamo_errors[i].made) < 0)
      return -1;
  }
  return PyModule_AddObjectRef (module, "BackendError", gm_py_backend_error);
}
