/* SPDX-License-Identifier: Apache-2.0
 * failed.c -- a region whose graph fails is run again, as plain Python.
 *
 * A region does to the program's objects nothing before its graph is through: effects are replayed then.  So when the graph fails,
 * what little was done is put back, and the frame runs as plain Python from the region's entry: what stands before the failing line
 * happens, what stands behind it does not, and the traceback has the program's frames, lines and locals.
 *
 *      what a region does before its effects        how it is put back
 *      draws of gramme's generator                  the plan, or the back end in Python, sets the state (plan_call.c)
 *      draws of Python's random                     each generator's state is kept before its first draw (draws.c)
 *      in-place writes to arguments                 a plan makes them after all that may fail; memory is only lent to a graph that
 *                                                   cannot fail (donate.c); a back end in Python that is given the recorded graph
 *                                                   writes as it goes: copies are kept (callable_backend.c)
 *      looks at views, numbers of nodes             the plain run looks and numbers again: nothing is seen of it
 *
 *      what cannot be done twice                    the exception goes out as it is, the state is that of before the region
 *      functions of the program's that were called  allow_in_graph, pack hooks: gm_failed_program_calls
 *      KeyboardInterrupt, SystemExit                it comes as if it had come before the region
 *      what a back end in Python raised of its own  the program's to see; an operation that fails in it is the graph's
 *      cond and its kin outside of compiled code    run as a graph always: bodies have no effects but those of the graph
 *
 * A graph may fail where plain Python does not: memory that fusing or saving took, a fault of a back end.  Then the call is right,
 * and a warning tells, once for each function.
 */
#include "core/python/failed.h"

#include "core/base/log.h"
#include "core/python/control.h"
#include "core/python/frontend.h"

GM_THREAD uint32_t gm_failed_program_calls, gm_failed_operations;

static char *
exception_text (void)
{
  PyObject *type, *value, *traceback;

  PyErr_Fetch (&type, &value, &traceback);
  PyErr_NormalizeException (&type, &value, &traceback);
  PyObject *text = value ? PyObject_Str (value) : NULL;
  const char *said = text ? PyUnicode_AsUTF8 (text) : NULL;
  char *all = g_strdup_printf ("%s: %s", type && PyType_Check (type) ? ((PyTypeObject *) type)->tp_name : "an exception", said ? said : "");
  PyErr_Clear ();
  Py_XDECREF (text);
  Py_XDECREF (type);
  Py_XDECREF (value);
  Py_XDECREF (traceback);
  return all;
}

PyObject *
gm_failed (PyObject *name, GmFailedMark mark, bool in_python, GmCallEnd *end)
{
  bool again = !gm_control ()->always && PyErr_ExceptionMatches (PyExc_Exception) && mark.program_calls == gm_failed_program_calls
               && (!in_python || mark.operations != gm_failed_operations);

  if (!again)
    return NULL;
  *end = (GmCallEnd){ GM_CALL_AGAIN, exception_text () };
  gm_log (GM_LOG_GRAPH_BREAKS, "%s: its graph failed (%s); this call runs again, as plain Python", PyUnicode_AsUTF8 (name), end->why);
  return NULL;
}

PyObject *
gm_failed_again (GmCallEnd *end, PyObject *name, PyObject *result)
{
  g_autofree char *why = g_steal_pointer (&end->why);

  if (result && PyErr_WarnFormat (gm_py_break_warning, 1,
                                  "the compiled code of %U() failed where plain Python did not, so this call's result is plain Python's; what "
                                  "failed was: %s",
                                  name, why) < 0)
    Py_CLEAR (result);
  return result;
}
