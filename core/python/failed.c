/* SPDX-License-Identifier: Apache-2.0
 * failed.c -- a region whose graph fails is run again, as plain Python.
 *
 * A region does to the program's objects nothing before its graph is through: effects are replayed
 * then.  So when the graph fails, what little was done is put back, and the frame runs as plain
 * Python from the region's entry: what stands before the failing line happens, what stands behind
 * it does not, and the traceback has the program's frames, lines and locals.
 *
 *   what a region does before effects    how it is put back
 *   draws of gramme's generator          the plan, or the back end in Python, sets the state
 *                                        (plan_call.c)
 *   draws of Python's random             each generator's state is kept before its first draw
 *                                        (draws.c)
 *   in-place writes to arguments         a plan makes them after all that may fail; memory is only
 *                                        lent to a graph that cannot fail (donate.c); a back end in
 *                                        Python that is given the recorded graph writes as it goes:
 *                                        copies are kept (callable_backend.c)
 *   looks at views, numbers of nodes     the plain run looks and numbers again: nothing is seen
 *   calls of the program's functions     what each gave, or raised, is noted, and the hook on
 *   (allow_in_graph)                     frames hands it out in the place of the call
 *
 *   what cannot be done twice            the exception goes out, the state is that of before
 *   such calls whose results have a      it leads to stand-ins of the graph's, not to the arguments
 *   history                              of the plain run
 *   hooks of saved tensors that were     plain Python calls them at other places:
 *   called                               gm_failed_program_calls
 *   KeyboardInterrupt, SystemExit        it comes as if it had come before the region
 *   what a back end in Python raised of  the program's to see; an operation that fails in it is the
 *   its own                              graph's
 *   BackendError                         a back end that cannot run at all is the user's to know
 *   cond and its kin outside of          run as a graph always: bodies have no effects but those of
 *   compiled code                        the graph
 *
 * A graph may fail where plain Python does not: memory that fusing or saving took.  Then the call
 * is right, and a warning tells.
 */
#include "core/python/failed.h"

#include "core/autograd/autograd.h"
#include "core/base/log.h"
#include "core/python/control.h"
#include "core/python/errors.h"
#include "core/python/frontend.h"
#include "core/python/tensor_object.h"

GM_THREAD uint32_t gm_failed_program_calls, gm_failed_operations;

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

/* -- Calls that a graph has made --------------------------------------------------------------- */

typedef struct {
  PyObject *code, *result;            /* owned; result: NULL: it raised ... */
  PyObject *type, *value, *traceback; /* ... this, owned */
} Noted;

static GM_THREAD GmCallNotes *noting;
GM_THREAD GmCallNotes *gm_failed_given_out;

static void
noted_clear (gpointer p)
{
  Noted *c = p;

  Py_XDECREF (c->code);
  Py_XDECREF (c->result);
  Py_XDECREF (c->type);
  Py_XDECREF (c->value);
  Py_XDECREF (c->traceback);
}

void
gm_call_notes_begin (GmCallNotes *notes)
{
  *notes = (GmCallNotes){ .around = noting };
  noting = notes;
}

void
gm_call_notes_end (GmCallNotes *notes)
{
  noting = notes->around;
  g_clear_pointer (&notes->calls, g_array_unref);
}

void
gm_call_note (PyObject *fn, PyObject *result)
{
  Noted c = { PyFunction_Check (fn) ? Py_NewRef (PyFunction_GET_CODE (fn)) : NULL,
              Py_XNewRef (result) };

  if (!noting)
    return noted_clear (&c);
  if (!noting->calls) {
    noting->calls = g_array_new (FALSE, FALSE, sizeof (Noted));
    g_array_set_clear_func (noting->calls, noted_clear);
  }
  if (!result) {
    PyErr_Fetch (&c.type, &c.value, &c.traceback);
    PyErr_NormalizeException (&c.type, &c.value, &c.traceback);
    PyErr_Restore (Py_XNewRef (c.type), Py_XNewRef (c.value), Py_XNewRef (c.traceback));
  }
  g_array_append_val (noting->calls, c);
}

static bool
has_history (PyObject *result)
{
  if (result && gm_py_tensor_check (result))
    return gm_tensor_requires_grad (gm_py_tensor_get (result));
  bool is = false, many = result && (PyTuple_Check (result) || PyList_Check (result));
  for (Py_ssize_t i = 0; many && i < PySequence_Fast_GET_SIZE (result); i++)
    is |= has_history (PySequence_Fast_GET_ITEM (result, i));
  return is;
}

/* True if each call of the program's functions since then can be handed out. */
static bool
can_give_out (const GmCallNotes *notes, GmFailedMark mark)
{
  uint32_t n = notes && notes->calls ? notes->calls->len : 0;

  for (uint32_t i = 0; i < n; i++) {
    const Noted *c = &g_array_index (notes->calls, Noted, i);
    if (!c->code || has_history (c->result))
      return false;
  }
  return gm_failed_program_calls - mark.program_calls == n;
}

bool
gm_failed_give_out (PyObject *code, PyObject **result)
{
  GmCallNotes *notes = gm_failed_given_out;
  bool any = notes->calls && notes->next < notes->calls->len;
  Noted *c = any ? &g_array_index (notes->calls, Noted, notes->next) : NULL;

  if (!c || c->code != code)
    return false;
  notes->next++;
  *result = g_steal_pointer (&c->result);
  if (!*result)
    PyErr_Restore (g_steal_pointer (&c->type), g_steal_pointer (&c->value),
                   g_steal_pointer (&c->traceback));
  return true;
}

/* -- Running again ----------------------------------------------------------------------------- */

PyObject *
gm_failed (PyObject *name, GmFailedMark mark, bool in_python, GmCallNotes *notes, GmCallEnd *end)
{
  bool again = !gm_control ()->always && PyErr_ExceptionMatches (PyExc_Exception)
               && !PyErr_ExceptionMatches (gm_py_backend_error)
               && can_give_out (notes, mark)
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
  end->notes.around = gm_failed_given_out;
  gm_failed_given_out = &end->notes;
}

PyObject *
gm_failed_again_end (GmCallEnd *end, PyObject *name, PyObject *result)
{
  g_autofree char *why = g_steal_pointer (&end->why);

  gm_failed_given_out = end->notes.around;
  if (end->notes.calls) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch (&type, &value, &traceback);
    g_clear_pointer (&end->notes.calls, g_array_unref);
    PyErr_Restore (type, value, traceback);
  }
  if (result && PyErr_WarnFormat (gm_py_break_warning, 1,
                                  "the compiled code of %U() failed where plain Python did not, so "
                                  "this call's result is plain Python's; what failed was: %s",
                                  name, why) < 0)
    Py_CLEAR (result);
  return result;
}
