/* SPDX-License-Identifier: Apache-2.0
 * tracker_control.c -- functions with a meaning for the recorder: graph_break, is_compiling,
 * comptime, marked functions, and stand-ins for C functions.
 *
 * They are recognized by address, so that no name can hide them. While nothing is recorded each is
 * an ordinary function with the result for plain Python: nothing, False, the fallback, the function
 * itself.
 */
#include "core/models/tracker_control.h"

#include "core/models/models.h"
#include "core/trace/cell.h"
#include "core/trace/exception.h"
#include "core/objects/import.h"
#include "core/trace/number.h"
#include "core/trace/traced_size.h"

/* -- As plain Python sees them ----------------------------------------------------------------- */

static PyObject *substitutes; /* dict: C callable -> Python function */
GM_THREAD bool gm_break_raises_now;

static PyObject *
py_graph_break (PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
  Py_RETURN_NONE;
}

static PyObject *
py_is_compiling (PyObject *module, PyObject *unused)
{
  Py_RETURN_FALSE;
}

static PyObject *
py_is_symbolic (PyObject *module, PyObject *size)
{
  Py_RETURN_FALSE;
}

static PyObject *
py_comptime (PyObject *module, PyObject *const *args, Py_ssize_t n)
{
  if (n < 2) {
    PyErr_SetString (PyExc_TypeError, "comptime() takes a function and its fallback");
    return NULL;
  }
  if (args[1] == Py_None)
    Py_RETURN_NONE;
  return PyObject_Vectorcall (args[1], args + 2, (size_t) n - 2, NULL);
}

static PyObject *
py_substitute (PyObject *module, PyObject *const *args, Py_ssize_t n)
{
  if (n != 2 || !PyFunction_Check (args[1])) {
    PyErr_SetString (PyExc_TypeError, "substitute() takes a callable and a Python function");
    return NULL;
  }
  if (!substitutes && !(substitutes = PyDict_New ()))
    return NULL;
  if (PyDict_SetItem (substitutes, args[0], args[1]) < 0)
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *
py_error_on_break (PyObject *module, PyObject *on)
{
  bool old = gm_break_raises_now;
  gm_break_raises_now = on == Py_True;
  return PyBool_FromLong (old);
}

static PyObject *
py_check (PyObject *module, PyObject *args, PyObject *kwargs)
{
  static char *names[] = { "cond", "message", NULL };
  PyObject *cond, *message = Py_None;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "O|O:_check", names, &cond, &message))
    return NULL;
  if (Py_IS_TYPE (cond, &gm_comptime_fact_type)) {
    if (!gm_comptime_add_fact (cond))
      return NULL;
    Py_RETURN_NONE;
  }
  int holds = PyObject_IsTrue (cond);
  if (holds < 0)
    return NULL;
  if (holds)
    Py_RETURN_NONE;
  PyObject *text = PyCallable_Check (message) ? PyObject_CallNoArgs (message) : Py_NewRef (message);
  if (text == Py_None)
    PyErr_SetString (PyExc_RuntimeError, "gramme._check: the condition does not hold");
  else if (text)
    PyErr_Format (PyExc_RuntimeError, "%S", text);
  Py_XDECREF (text);
  return NULL;
}

#define FAST(f) ((PyCFunction) (void (*) (void)) (f))
PyMethodDef gm_control_functions[] = {
  { "graph_break", FAST (py_graph_break), METH_FASTCALL | METH_KEYWORDS,
    "graph_break(msg='')\n\nThe graph that is being recorded ends here, and a new one begins after "
    "it.  Nothing in plain Python." },
  { "is_compiling", py_is_compiling, METH_NOARGS,
    "is_compiling()\n\nTrue inside a function while it is being recorded, else False." },
  { "is_symbolic", py_is_symbolic, METH_O,
    "is_symbolic(size)\n\nTrue where a size is recorded that stays open, so that a loop over it "
    "would fix it, else False." },
  { "comptime", FAST (py_comptime), METH_FASTCALL,
    "comptime(fn, fallback, *values)\n\nSee gramme._dynamo.comptime." },
  { "error_on_break", py_error_on_break, METH_O,
    "error_on_break(on) -> bool\n\nWhether a graph break is an error from now on, in this thread.  "
    "Returns what it was." },
  { "_check", FAST (py_check), METH_VARARGS | METH_KEYWORDS,
    "_check(cond, message=None)\n\nRuntimeError if cond is false.  While recording, a comparison "
    "of a number that only the run knows holds from "
    "here on, and is\nchecked when the call ends.  In comptime code the same for a comparison of "
    "as_fake() of such a number." },
  { "substitute", FAST (py_substitute), METH_FASTCALL,
    "substitute(original, stand_in)\n\nCalls of `original`, a function of C, are recorded as calls "
    "of `stand_in`." },
  { "probe", gm_py_probe, METH_VARARGS,
    "probe(what, name, out)\n\nFor tests of the recorder; nothing in plain Python." },
  { NULL },
};

/* -- As the recorder sees them ----------------------------------------------------------------- */

static PyObject *
cell_for (GmRecorder *r, PyObject *session, const GmTracker *cell)
{
  const GmTracker *t = gm_cell_load (r, cell);
  if (t == NULL || t == &gm_tracker_null)
    return PyCell_New (NULL);
  /* An existing object is passed itself, so that comptime code can talk to the program; a tensor is
   * passed as a value, with the graph's knowledge of it. */
  bool known =
      t->real && !(gm_host.tensor_type && PyObject_TypeCheck (t->real, gm_host.tensor_type));
  PyObject *value = known ? Py_NewRef (t->real) : gm_comptime_value (session, t);
  PyObject *made = value ? PyCell_New (value) : NULL;
  Py_XDECREF (value);
  return made;
}

/* Returns a function that can be called now, for the function t; a new reference, NULL if t is
 * no function or with an exception.  A function made while recording gets its free variables as the
 * recorder knows them: existing objects unchanged, all other values as comptime values. */
static PyObject *
callable_of (GmRecorder *r, const GmTracker *t)
{
  if (t->real)
    return Py_NewRef (t->real);
  PyObject *globals, *builtins;
  const GmCode *code =
      t->kind == &gm_kind_function ? gm_function_code (r, t, &globals, &builtins) : NULL;
  if (!code)
    return NULL;
  PyObject *fn = PyFunction_New ((PyObject *) code->code, globals),
           *closure = PyTuple_New (code->n_free);
  PyObject *session = gm_comptime_session (r);
  for (uint32_t i = 0; fn && closure && session && i < code->n_free; i++) {
    PyObject *cell = cell_for (r, session, gm_function_cell (r, t, i));
    if (!cell)
      Py_CLEAR (closure);
    else
      PyTuple_SET_ITEM (closure, i, cell);
  }
  if (!fn || !closure || !session || (code->n_free && PyFunction_SetClosure (fn, closure) < 0))
    Py_CLEAR (fn);
  Py_XDECREF (closure);
  Py_XDECREF (session);
  return fn;
}

/* -- Facts about numbers ----------------------------------------------------------------------- */

/* Assumes that the condition holds from here on.  The call checks it at its end by calling
 * `check` with the condition and the message, so the message has to be constant. */
static void
take_for_granted (GmRecorder *r, PyObject *check, const GmTracker *condition,
                  const GmTracker *message)
{
  const GmTracker *args[2] = { condition, message };
  gm_effect (r, GM_EFFECT_CALL, check, NULL, args, 2);
  gm_number_assume (r, condition);
}

static const GmTracker *
call_check (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  static const char *const names[] = { "cond", "message" };
  const GmTracker *given[2];
  if (!gm_args_take (r, "_check", args, names, 2, given))
    return &gm_tracker_poison;
  const GmTracker *cond = given[0] ? gm_realize (r, given[0]) : NULL;
  const GmTracker *message = given[1] ? gm_realize (r, given[1]) : gm_none (r);
  if (r->stop)
    return &gm_tracker_poison;
  if (cond && gm_is_size_condition (cond) && message->kind == &gm_kind_constant) {
    PyObject *text = message->real == Py_None ? NULL : PyObject_Str (message->real);
    gm_size_assume (r, cond, text ? PyUnicode_AsUTF8 (text) : NULL);
    Py_XDECREF (text);
    return r->stop ? &gm_tracker_poison : gm_none (r);
  }
  if (cond && gm_is_condition (cond) && message->kind == &gm_kind_constant) {
    if (gm_exception_guarded (r))
      return gm_record_break (r, GM_BREAK_TRY_BLOCK, "_check()");
    take_for_granted (r, fn, cond, message);
    return gm_none (r);
  }
  if (cond && gm_truth (r, cond))
    return gm_none (r);
  return gm_record_break (r, GM_BREAK_EXCEPTION_RAISED, "gramme._check() of what is false");
}

/* Adds the facts that comptime code declared, in their order: a later fact may follow from
 * earlier facts, or contradict them, which breaks. */
static void
add_facts (GmRecorder *r)
{
  PyObject *module = r->facts && r->facts->len ? gm_import ("gramme._core") : NULL;
  PyObject *check = module ? PyObject_GetAttrString (module, "_check") : NULL;
  for (uint32_t i = 0; check && i < r->facts->len && !r->stop; i++) {
    static const char *const signs[] = { "<", "<=", "==", "!=", ">", ">=" };
    const GmFact *f = &g_array_index (r->facts, GmFact, i);
    if (f->op == GM_FACT_FIXED) {
      gm_size_settled (r, f->number);
      continue;
    }
    const GmTracker *cond = gm_compare (r, f->op, f->number, gm_from_int (r, f->with));
    if (r->stop)
      break;
    if (gm_is_condition (cond)) {
      PyObject *text =
          PyUnicode_FromFormat ("a fact that comptime code added does not hold: number %s %lld",
                                signs[f->op], (long long) f->with);
      take_for_granted (r, check, cond, gm_from_constant_take (r, text));
    } else if (cond->real == Py_False) {
      PyErr_SetString (PyExc_RuntimeError,
                       "a fact that comptime code added contradicts what is known of the number");
      gm_comptime_failed (r);
      gm_record_break (r, GM_BREAK_COMPTIME_RAISED);
    }
  }
  PyErr_Clear ();
  Py_XDECREF (check);
  Py_XDECREF (module);
}

/* True if the recorder has been in this same state at a comptime call before, so that the call
 * has run before its instruction was undone: comptime code runs only once per compilation. Else
 * notes that it runs now. */
static bool
has_run (GmRecorder *r)
{
  uint64_t state = gm_record_hash (r);
  if (!r->comptime_done)
    r->comptime_done = g_array_new (FALSE, FALSE, sizeof state);
  for (uint32_t i = 0; i < r->comptime_done->len; i++)
    if (g_array_index (r->comptime_done, uint64_t, i) == state)
      return true;
  g_array_append_val (r->comptime_done, state);
  return false;
}

static const GmTracker *
call_comptime (GmRecorder *r, const GmCallArgs *args)
{
  if (args->n < 2 || args->names)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                            "comptime() takes a function and its fallback");
  if (r->stress && has_run (r)) {
    add_facts (r);
    return r->stop ? &gm_tracker_poison : gm_none (r);
  }
  g_clear_pointer (&r->facts, g_array_unref);
  GmMark before = gm_record_mark (r); /* reads of the recording are undone */
  PyObject *fn = callable_of (r, args->args[0]);
  if (!fn) {
    PyErr_Clear ();
    return gm_record_break (r, GM_BREAK_CALL_OBJECT, "what comptime() was given");
  }
  if (!gm_comptime_run (r, fn, args->args + 2, args->n - 2))
    gm_record_break (r, GM_BREAK_COMPTIME_RAISED);
  gm_record_rollback (r, &before);
  Py_DECREF (fn);
  if (!r->stop)
    add_facts (r);
  return r->stop ? &gm_tracker_poison : gm_none (r);
}

static const GmTracker *
call_substitute (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  PyObject *to = substitutes ? PyDict_GetItemWithError (substitutes, fn) : NULL;
  PyErr_Clear ();
  if (!to)
    return NULL;
  return gm_call (
      r,
      gm_wrap (r, to,
               gm_source_const (r, to, PyUnicode_AsUTF8 (((PyFunctionObject *) to)->func_name))),
      args);
}

/* Sets the mode error_on_graph_break for the instructions recorded from here on, and returns the
 * old mode.  An effect sets the thread's mode at the same place, since the rest after a break is
 * recorded separately. */
static const GmTracker *
call_error_on_break (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  PyObject *on = gm_constant (r, args->args[0]);
  if (!on || !PyBool_Check (on))
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                            "error_on_graph_break() with something other than True or False");
  const GmTracker *old = gm_from_bool (r, gm_break_raises_get (r));
  const GmTracker **items = gm_tracker_array (r, 1);
  items[0] = gm_from_bool (r, on == Py_True);
  gm_effect (r, GM_EFFECT_CALL, fn, NULL, items, 1);
  gm_break_raises_set (r, on == Py_True);
  return old;
}

const GmTracker *
gm_control_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  PyCFunction address = PyCFunction_Check (fn) ? PyCFunction_GET_FUNCTION (fn) : NULL;
  if (address == FAST (py_graph_break)) {
    PyObject *message =
        args->n + gm_args_n_named (args) == 1 ? gm_constant (r, args->args[0]) : NULL;
    g_autofree char *why =
        message && PyUnicode_Check (message) && PyUnicode_GET_LENGTH (message) > 0
            ? g_strdup_printf (": %s", PyUnicode_AsUTF8 (message))
            : g_strdup ("");
    return gm_record_break (r, GM_BREAK_ASKED_FOR, why);
  }
  if (address == py_is_compiling)
    return gm_from_bool (r, true);
  if (address == py_is_symbolic && args->n == 1 && !args->names) {
    const GmTracker *size = gm_realize (r, args->args[0]);
    return r->stop ? &gm_tracker_poison : gm_from_bool (r, gm_is_size (size));
  }
  if (address == py_error_on_break && args->n == 1 && !args->names)
    return call_error_on_break (r, fn, args);
  if (address == FAST (py_check))
    return call_check (r, fn, args);
  if (address == FAST (py_comptime))
    return call_comptime (r, args);
  if (address == gm_py_probe)
    return gm_probe_call (r, args);
  return call_substitute (r, fn, args);
}

/* -- Marked functions -------------------------------------------------------------------------- */

const GmTracker *
gm_wrap_marked (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, IS, source, .obj = real);
  const GmTracker *t = gm_tracker (r, .kind = &gm_kind_control, .real = real, .source = source);
  gm_know (r, t);
  return t;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return Py_TYPE (t->real);
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

/* Calls a function marked as constant, and returns its result as a constant.  The mark promises
 * that the result depends on the arguments alone, which must be known. */
static const GmTracker *
call_constant (GmRecorder *r, const GmMarked *m, const GmCallArgs *args)
{
  uint32_t n = args->n + gm_args_n_named (args);
  PyObject **values = g_newa (PyObject *, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    const GmTracker *t = gm_realize (r, args->args[i]);
    values[i] = gm_constant (r, t);
    if (!values[i] && t->real && t->kind == &gm_kind_object) { /* self: its identity, not its
                                                                  attributes */
      gm_guard (r, IS, t->source, .obj = t->real);
      values[i] = t->real;
    }
    if (r->stop)
      return &gm_tracker_poison;
    if (!values[i])
      return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                              "an argument of a function marked with assume_constant_result is not "
                              "known while recording");
  }
  PyObject *result = PyObject_Vectorcall (m->fn, values, args->n, args->names);
  if (!result)
    return gm_record_break_exception (r);
  gm_record_take (r, result);
  return gm_wrap (r, result, gm_source_const (r, result, "a constant result"));
}

static const GmTracker *
call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  const GmMarked *m = (const GmMarked *) t->real;
  if (m->kind == GM_MARK_CONSTANT)
    return call_constant (r, m, args);
  PyObject *name = PyObject_GetAttrString (m->fn, "__qualname__");
  const char *text =
      name && PyUnicode_Check (name) ? PyUnicode_AsUTF8 (name) : Py_TYPE (m->fn)->tp_name;
  const char *reason = PyUnicode_AsUTF8 (m->reason);
  g_autofree char *why = reason && *reason ? g_strdup_printf (": %s", reason) : g_strdup ("");
  if (m->kind == GM_MARK_FORBID)
    gm_record_break (r, GM_BREAK_FORBIDDEN, text);
  else
    gm_record_break (r, GM_BREAK_DISABLED, text, why);
  PyErr_Clear ();
  Py_XDECREF (name);
  return &gm_tracker_poison;
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->real);
  return true;
}

const GmTrackerKind gm_kind_control = {
  .name = "marked function", .type = type, .truth = truth, .call = call, .build = build
};
