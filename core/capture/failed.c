/* SPDX-License-Identifier: Apache-2.0
 * failed.c -- a region whose graph fails is run again, as plain Python.
 *
 * A region does nothing to the program's objects before its graph has finished: effects are
 * replayed then.  So when the graph fails, the little that was done is undone, and the frame runs
 * as plain Python from the region's entry: everything before the failing line happens, nothing
 * after it does, and the traceback has the program's frames, lines and locals.
 *
 *   action of a region before effects    how it is undone
 *   draws of gramme's generator          the plan, or the back end in Python, sets the state
 *                                        (plan_call.c)
 *   draws of Python's random             each generator's state is kept before its first draw
 *                                        (entry_draws.c)
 *   in-place writes to arguments         a plan makes them after all that may fail; memory is only
 *                                        donated to a graph that cannot fail (donate.c); a back end
 *                                        in Python that is given the recorded graph writes while it
 *                                        runs: copies are kept (callable_backend.c)
 *   refreshes of views, node numbers     the plain run refreshes and numbers again, invisibly
 *   calls of the program's functions     the result or exception of each is kept, and the hook on
 *   (allow_in_graph)                     frames returns it in the place of the call; its gradient
 *                                        history, which leads to stand-ins for the arguments, is
 *                                        tied to the arguments of the plain run
 *
 *   not done twice                       the exception is raised, with the state before the region
 *   hooks of saved tensors that were     plain Python calls them at other places:
 *   called                               gm_failed_program_calls
 *   KeyboardInterrupt, SystemExit        raised as if they had come before the region
 *   exceptions of a back end in Python   raised for the program; an operation that fails in the
 *                                        back end counts as the graph's failure
 *   BackendError                         raised: the user must know that the back end cannot run
 *   cond, scan ... outside of            always run as a graph: bodies have no effects but those of
 *   compiled code                        the graph
 *
 * A graph may fail where plain Python does not: for lack of the memory that fusing or saving took.
 * Then the call's result is right, and a warning is given.
 */
#include "core/capture/failed.h"

#include "core/aot/aot.h"
#include "core/autograd/autograd.h"
#include "core/base/log.h"
#include "core/capture/control.h"
#include "core/objects/errors.h"
#include "core/capture/frontend.h"
#include "core/objects/tensor_object.h"

static char *
exception_text (void)
{
  PyObject *type, *value, *traceback;

  PyErr_Fetch (&type, &value, &traceback);
  PyErr_NormalizeException (&type, &value, &traceback);
  PyObject *text = value ? PyObject_Str (value) : NULL;
  const char *said = text ? PyUnicode_AsUTF8 (text) : NULL;
  bool known = type && PyType_Check (type);
  char *all = g_strdup_printf ("%s: %s", known ? ((PyTypeObject *) type)->tp_name : "an exception",
                               said ? said : "");
  PyErr_Clear ();
  Py_XDECREF (text);
  Py_XDECREF (type);
  Py_XDECREF (value);
  Py_XDECREF (traceback);
  return all;
}

/* -- Running again ----------------------------------------------------------------------------- */

PyObject *
gm_failed (PyObject *name, GmFailedMark mark, bool in_python, GmCallNotes *notes, GmCallEnd *end)
{
  bool again = !gm_control ()->always && PyErr_ExceptionMatches (PyExc_Exception)
               && !PyErr_ExceptionMatches (gm_py_backend_error)
               && gm_call_notes_are_whole (notes, gm_failed_program_calls - mark.program_calls)
               && (!in_python || mark.operations != gm_failed_operations);

  if (!again)
    return NULL;
  *end = (GmCallEnd){ .kind = GM_CALL_AGAIN, .why = exception_text () };
  if (notes)
    end->notes.calls = g_steal_pointer (&notes->calls);
  gm_log (GM_LOG_GRAPH_BREAKS, "%s: its graph failed (%s); this call runs again, as plain Python",
          PyUnicode_AsUTF8 (name), end->why);
  return NULL;
}

void
gm_failed_again_begin (GmCallEnd *end)
{
  end->notes.around = gm_call_notes_given_out;
  gm_call_notes_given_out = &end->notes;
}

PyObject *
gm_failed_again_end (GmCallEnd *end, PyObject *name, PyObject *result)
{
  g_autofree char *why = g_steal_pointer (&end->why);

  gm_call_notes_given_out = end->notes.around;
  if (end->notes.calls) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch (&type, &value, &traceback);
    g_clear_pointer (&end->notes.calls, g_array_unref);
    PyErr_Restore (type, value, traceback);
  }
  if (result
      && PyErr_WarnFormat (gm_py_break_warning, 1,
                           "the compiled code of %U() failed where plain Python did not, so "
                           "this call's result is plain Python's; what failed was: %s",
                           name, why)
             < 0)
    Py_CLEAR (result);
  return result;
}
