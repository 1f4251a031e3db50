/* SPDX-License-Identifier: Apache-2.0
 * comptime.c -- the objects of code that runs while recording: frames, their variables, the graph
 * so far, the guards.
 *
 * There are two small types of opaque objects; gramme/_dynamo/comptime.py gives them the names that
 * users know. No function here realizes a lazy tracker: it is answered from the object behind it,
 * so that a read neither breaks a graph nor makes a guard. When the function returns, the session
 * ends, and its objects refuse further reads.
 */
#include "core/models/tracker_control.h"

#include "core/trace/cell.h"
#include "core/objects/import.h"
#include "core/trace/number.h"
#include "core/trace/traced_size.h"

#include <string.h>

typedef struct {
  PyObject_HEAD GmRecorder *r; /* the recording; NULL: the session has ended */
} Session;

typedef struct {
  PyObject_HEAD Session *session; /* owned */
  const GmTracker *t;
} Value;

typedef struct {
  PyObject_HEAD Session *session; /* owned */
  GmFact fact;
} Fact;

static GmRecorder *
recorder (Session *s)
{
  if (!s->r)
    PyErr_SetString (PyExc_RuntimeError, "this object of comptime is of a recording that is over");
  return s->r;
}

/* Returns the user's frame at this level, 0 for the innermost, and in *pc its instruction; NULL:
 * there is no such frame.  Frames of comptime's own helpers do not count. */
static const GmFrame *
frame_at (GmRecorder *r, long level, uint32_t *pc)
{
  *pc = r->pc;
  for (const GmFrame *f = r->frame; f; *pc = f->return_pc, f = f->parent) {
    PyObject *name = PyDict_GetItemString (f->globals, "__name__");
    if (name && PyUnicode_Check (name)
        && PyUnicode_CompareWithASCIIString (name, "gramme._dynamo.comptime") == 0)
      continue;
    if (level-- == 0)
      return f;
  }
  return NULL;
}

/* Returns the realized tracker of the object if the lazy tracker t of a variable has been
 * realized since, else t. */
static const GmTracker *
settled (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *known =
      t->kind == &gm_kind_lazy ? g_hash_table_lookup (r->by_real, t->real) : NULL;
  return known && known->kind != &gm_kind_contents ? known : t;
}

/* -- Values ------------------------------------------------------------------------------------ */

PyObject *
gm_comptime_value (PyObject *session, const GmTracker *t)
{
  Value *v = PyObject_New (Value, &gm_comptime_value_type);
  if (v) {
    v->session = (Session *) Py_NewRef (session);
    v->t = settled (((Session *) session)->r, t);
  }
  return (PyObject *) v;
}

static void
value_dealloc (PyObject *o)
{
  Py_DECREF (((Value *) o)->session);
  PyObject_Free (o);
}

static PyTypeObject *
type_of (GmRecorder *r, const GmTracker *t)
{
  if (t->real)
    return Py_TYPE (t->real);
  if (t->kind == &gm_kind_tensor)
    return gm_host.tensor_type;
  return t->kind->type ? t->kind->type (r, t) : NULL;
}

static PyObject *
value_python_type (PyObject *o, PyObject *unused)
{
  GmRecorder *r = recorder (((Value *) o)->session);
  PyTypeObject *type = r ? type_of (r, ((Value *) o)->t) : NULL;
  return r ? Py_NewRef (type ? (PyObject *) type : (PyObject *) &PyBaseObject_Type) : NULL;
}

/* Implements ComptimeValue.constant (): returns (value,), or () if the value is not known. */
static PyObject *
value_constant (PyObject *o, PyObject *unused)
{
  GmRecorder *r = recorder (((Value *) o)->session);
  const GmTracker *t = ((Value *) o)->t;
  if (!r)
    return NULL;
  PyObject *c = NULL;
  if (t->kind == &gm_kind_constant
      || (t->kind == &gm_kind_lazy && gm_is_constant_type (Py_TYPE (t->real))))
    c = t->real;
  else if (t->kind == &gm_kind_tuple && t->kind->constant)
    c = gm_constant (r, t);
  return c ? PyTuple_Pack (1, c) : PyTuple_New (0);
}

/* Returns the meta of a tensor that exists or is in the graph, borrowed; NULL: t is no tensor. */
static const GmMeta *
meta_of (GmRecorder *r, const GmTracker *t)
{
  if (t->kind == &gm_kind_tensor)
    return gm_graph_meta (r->graph, (GmValueId) gm_contents_of (r, t)->number);
  if (t->real && gm_host.tensor_type && PyObject_TypeCheck (t->real, gm_host.tensor_type))
    return &gm_host_tensor (t->real)->meta;
  return NULL;
}

/* Returns a size as comptime code sees it: an int, or a ComptimeValue for an expression.  New
 * reference. */
static PyObject *
size_value (PyObject *session, int64_t size)
{
  GmRecorder *r = ((Session *) session)->r;
  const GmTracker *t = gm_size_tracker (r, size);
  return gm_is_size (t) ? gm_comptime_value (session, t) : PyLong_FromLongLong (size);
}

/* Implements ComptimeValue.meta (): returns (shape, stride, dtype, requires_grad) of a tensor,
 * else None. */
static PyObject *
value_meta (PyObject *o, PyObject *unused)
{
  GmRecorder *r = recorder (((Value *) o)->session);
  const GmMeta *m = r ? meta_of (r, ((Value *) o)->t) : NULL;
  if (!r)
    return NULL;
  if (!m)
    Py_RETURN_NONE;
  PyObject *shape = PyTuple_New (m->ndim), *stride = PyTuple_New (m->ndim);
  for (int i = 0; shape && stride && i < m->ndim; i++) {
    PyTuple_SET_ITEM (shape, i, size_value ((PyObject *) ((Value *) o)->session, m->sizes[i]));
    PyTuple_SET_ITEM (stride, i, size_value ((PyObject *) ((Value *) o)->session, m->strides[i]));
  }
  return Py_BuildValue ("(NNOO)", shape, stride, gm_host.dtype_object (m->dtype),
                        m->requires_grad ? Py_True : Py_False);
}

/* Implements ComptimeValue.place (): returns the place of a tensor in the graph, (is an input,
 * number), else None. */
static PyObject *
value_place (PyObject *o, PyObject *unused)
{
  GmRecorder *r = recorder (((Value *) o)->session);
  const GmTracker *t = ((Value *) o)->t;
  if (!r)
    return NULL;
  if (t->kind != &gm_kind_tensor)
    Py_RETURN_NONE;
  GmValueId v = (GmValueId) gm_contents_of (r, t)->number;
  uint32_t node = gm_graph_value (r->graph, v)->node;
  for (uint32_t i = 0; node == GM_NO_ID && i < r->graph->inputs->len; i++)
    if (g_array_index (r->graph->inputs, GmValueId, i) == v)
      return Py_BuildValue ("(OI)", Py_True, i);
  return Py_BuildValue ("(OI)", Py_False, node);
}

static char *
tracker_text (GmRecorder *r, const GmTracker *t)
{
  if (gm_is_call_null (t))
    return g_strdup ("NULL");
  const GmMeta *m = meta_of (r, t);
  if (m) {
    g_autofree char *shape = gm_meta_text (m);
    return g_strdup_printf ("tensor %s%s", shape, t->kind == &gm_kind_lazy ? ", not used yet" : "");
  }
  if (t->kind == &gm_kind_constant
      || (t->kind == &gm_kind_lazy && gm_is_constant_type (Py_TYPE (t->real)))) {
    PyObject *repr = PyObject_Repr (t->real);
    char *text = g_strdup_printf ("%s%s", repr ? PyUnicode_AsUTF8 (repr) : "?",
                                  t->kind == &gm_kind_lazy ? ", not used yet" : "");
    Py_XDECREF (repr);
    PyErr_Clear ();
    return text;
  }
  if (gm_is_size (t))
    return gm_sym_text (r->graph->sizes->sym, t->number);
  PyTypeObject *type = type_of (r, t);
  return g_strdup_printf ("%s %s%s%s", t->kind == &gm_kind_lazy ? "not used yet:" : t->kind->name,
                          type ? type->tp_name : "", t->source ? " from " : "",
                          t->source ? t->source->name : "");
}

static PyObject *
value_repr (PyObject *o)
{
  GmRecorder *r = ((Value *) o)->session->r;
  g_autofree char *text =
      r ? tracker_text (r, ((Value *) o)->t) : g_strdup ("of a recording that is over");
  return PyUnicode_FromString (text);
}

static PyObject *
value_is_number (PyObject *o, PyObject *unused)
{
  GmRecorder *r = recorder (((Value *) o)->session);
  return r ? PyBool_FromLong (gm_is_number (((Value *) o)->t)) : NULL;
}

/* Implements ComptimeValue.is_dynamic (): true if the number, or a size of the tensor, may
 * differ in another call of the entry. */
static PyObject *
value_is_dynamic (PyObject *o, PyObject *unused)
{
  GmRecorder *r = recorder (((Value *) o)->session);
  const GmTracker *t = ((Value *) o)->t;
  const GmMeta *m = r ? meta_of (r, t) : NULL;
  return r ? PyBool_FromLong (gm_is_number (t) || gm_is_size (t) || (m && gm_meta_is_symbolic (m)))
           : NULL;
}

static bool
append_fact (GmRecorder *r, const GmFact *fact)
{
  if (!r->facts)
    r->facts = g_array_new (FALSE, FALSE, sizeof (GmFact));
  g_array_append_val (r->facts, *fact);
  return true;
}

/* Implements ComptimeValue.fix (): notes that the size, or the sizes of the tensor, are to be
 * fixed to the values of this call once the comptime code has ended. */
static PyObject *
value_fix (PyObject *o, PyObject *unused)
{
  GmRecorder *r = recorder (((Value *) o)->session);
  const GmTracker *t = ((Value *) o)->t;
  const GmMeta *m = r ? meta_of (r, t) : NULL;
  if (!r)
    return NULL;
  if (gm_is_size (t))
    append_fact (r, &(GmFact){ t, GM_FACT_FIXED, 0 });
  for (int i = 0; m && i < m->ndim; i++) {
    const GmTracker *size = gm_size_tracker (r, m->sizes[i]);
    if (gm_is_size (size))
      append_fact (r, &(GmFact){ size, GM_FACT_FIXED, 0 });
  }
  Py_RETURN_NONE;
}

/* Implements ComptimeValue.fact (op, int): returns an object for the comparison of the number
 * with the int; op as in Py_LT ... */
static PyObject *
value_fact (PyObject *o, PyObject *args)
{
  const Value *v = (const Value *) o;
  int op;
  long long with;
  if (!recorder (v->session) || !PyArg_ParseTuple (args, "iL", &op, &with))
    return NULL;
  if (!gm_is_number (v->t) || op < Py_LT || op > Py_GE) {
    PyErr_SetString (PyExc_TypeError,
                     "this is not a number that only the run knows, or not a comparison");
    return NULL;
  }
  Fact *f = PyObject_New (Fact, &gm_comptime_fact_type);
  if (f) {
    f->session = (Session *) Py_NewRef (v->session);
    f->fact = (GmFact){ v->t, op, with };
  }
  return (PyObject *) f;
}

static PyMethodDef value_methods[] = {
  { "python_type", value_python_type, METH_NOARGS, "The type that the value has or will have." },
  { "constant", value_constant, METH_NOARGS, "(value,) if it is known, else ()." },
  { "meta", value_meta, METH_NOARGS,
    "(shape, stride, dtype, requires_grad) of a tensor, else None." },
  { "is_number", value_is_number, METH_NOARGS,
    "Whether it is an integer that only the run knows." },
  { "is_dynamic", value_is_dynamic, METH_NOARGS,
    "True if the number, or a size of the tensor, may differ in the next call." },
  { "fix", value_fix, METH_NOARGS,
    "Fixes the size, or the sizes of the tensor, at those of this call." },
  { "fact", value_fact, METH_VARARGS,
    "fact(op, int): a comparison of such a number, for gramme._check()." },
  { "place", value_place, METH_NOARGS,
    "(is an input, number) of a tensor in the graph, else None." },
  { NULL },
};

PyTypeObject gm_comptime_value_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.ComptimeValue",
  .tp_basicsize = sizeof (Value),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_dealloc = value_dealloc,
  .tp_repr = value_repr,
  .tp_methods = value_methods,
};

/* -- Facts ------------------------------------------------------------------------------------- */

static void
fact_dealloc (PyObject *o)
{
  Py_DECREF (((Fact *) o)->session);
  PyObject_Free (o);
}

static int
fact_truth (PyObject *o)
{
  PyErr_SetString (
      PyExc_TypeError,
      "only the run knows whether this comparison holds; gramme._check() takes it for granted");
  return -1;
}

static PyNumberMethods fact_number = { .nb_bool = fact_truth };

PyTypeObject gm_comptime_fact_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.ComptimeFact",
  .tp_basicsize = sizeof (Fact),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_dealloc = fact_dealloc,
  .tp_as_number = &fact_number,
};

/* Notes the fact o.  The recorder undoes all that comptime code has recorded when that ends, so
 * facts are added to the recording only after it. */
bool
gm_comptime_add_fact (PyObject *o)
{
  const Fact *f = (const Fact *) o;
  GmRecorder *r = recorder (f->session);
  if (!r)
    return false;
  return append_fact (r, &f->fact);
}

/* -- The session ------------------------------------------------------------------------------- */

PyObject *
gm_comptime_session (GmRecorder *r)
{
  if (!r->comptime) {
    Session *s = PyObject_New (Session, &gm_comptime_session_type);
    if (!s)
      return NULL;
    s->r = r;
    r->comptime = (PyObject *) s;
  }
  return Py_NewRef (r->comptime);
}

/* Returns the current value of the frame's variable; NULL: unbound. */
static const GmTracker *
variable (GmRecorder *r, const GmFrame *f, uint32_t slot)
{
  const GmTracker *t = gm_heap_load (&r->heap, f->id, slot);
  if (t && t->kind == &gm_kind_cell)
    t = gm_cell_load (r, t);
  return t == NULL || t == &gm_tracker_null ? NULL : settled (r, t);
}

static PyObject *
session_local (PyObject *o, PyObject *args)
{
  GmRecorder *r = recorder ((Session *) o);
  long level;
  PyObject *name;
  uint32_t pc;
  if (!r || !PyArg_ParseTuple (args, "lU", &level, &name))
    return NULL;
  const GmFrame *f = frame_at (r, level, &pc);
  for (uint32_t i = 0; f && i < f->code->n_slots; i++)
    if (PyUnicode_Compare (f->code->slots[i].name, name) == 0) {
      const GmTracker *t = variable (r, f, i);
      if (t)
        return gm_comptime_value (o, t);
    }
  PyErr_Format (PyExc_KeyError, "no variable %R has a value in the frame that is being recorded",
                name);
  return NULL;
}

static PyObject *
session_depth (PyObject *o, PyObject *unused)
{
  GmRecorder *r = recorder ((Session *) o);
  uint32_t pc;
  long n = 0;
  while (r && frame_at (r, n, &pc))
    n++;
  return r ? PyLong_FromLong (n) : NULL;
}

static PyObject *
session_graph (PyObject *o, PyObject *unused)
{
  GmRecorder *r = recorder ((Session *) o);
  return r ? gm_host.graph_module (r->graph) : NULL;
}

static PyObject *
session_graph_break (PyObject *o, PyObject *message)
{
  GmRecorder *r = recorder ((Session *) o);
  const char *text = r ? PyUnicode_AsUTF8 (message) : NULL;
  if (!text)
    return NULL;
  g_autofree char *why = *text ? g_strdup_printf (": %s", text) : g_strdup ("");
  gm_record_break (r, GM_BREAK_ASKED_FOR, why);
  Py_RETURN_NONE;
}

static void
add_locals (GString *s, GmRecorder *r, const GmFrame *f)
{
  for (uint32_t i = 0; i < f->code->n_slots; i++) {
    const GmTracker *t = variable (r, f, i);
    g_autofree char *text = t ? tracker_text (r, t) : NULL;
    if (t)
      g_string_append_printf (s, "%s = %s\n", PyUnicode_AsUTF8 (f->code->slots[i].name), text);
  }
}

/* Appends the stack of a frame to s; for an outer frame the stack at its call. */
static void
add_stack (GString *s, GmRecorder *r, const GmFrame *f)
{
  uint32_t depth = r->depth;
  for (const GmFrame *inner = r->frame; inner != f; inner = inner->parent)
    depth = inner->return_depth;
  for (uint32_t i = 0; i < depth; i++) {
    const GmTracker *t = gm_heap_load (&r->heap, f->id, f->code->n_slots + i);
    g_autofree char *text = t ? tracker_text (r, t) : g_strdup ("?");
    g_string_append_printf (s, "- %s\n", text);
  }
}

static void
add_backtrace (GString *s, GmRecorder *r, long level)
{
  uint32_t pc;
  long n = 0;
  while (frame_at (r, n, &pc))
    n++;
  for (; n-- > level;) {
    const GmFrame *f = frame_at (r, n, &pc);
    PyCodeObject *co = f->code->code;
    g_string_append_printf (s, "  %s:%d in %s\n", PyUnicode_AsUTF8 (co->co_filename),
                            pc ? f->code->insns[pc - 1].line : co->co_firstlineno,
                            PyUnicode_AsUTF8 (co->co_name));
  }
}

static void
add_guards (GString *s, GmRecorder *r)
{
  g_autofree uint32_t *slots = g_new (uint32_t, r->sources->len + 1);
  GmGuards *guards = gm_guards_compile (r, NULL, 0, slots);
  g_autofree char *text = gm_guards_text (guards);
  g_string_append (s, text);
  gm_guards_unref (guards);
}

/* Implements session.text (what, level): returns a text about the recording.  what: "graph",
 * "disas", "stack", "locals", "bt", "guards". */
static PyObject *
session_text (PyObject *o, PyObject *args)
{
  GmRecorder *r = recorder ((Session *) o);
  const char *what;
  long level;
  uint32_t pc;
  if (!r || !PyArg_ParseTuple (args, "sl", &what, &level))
    return NULL;
  const GmFrame *f = frame_at (r, level, &pc);
  if (!f)
    return PyErr_Format (PyExc_ValueError, "there is no frame %ld levels up", level);
  g_autoptr (GString) s = g_string_new (NULL);
  if (strcmp (what, "graph") == 0) {
    g_autofree char *text = gm_graph_text (r->graph);
    g_string_append (s, text);
  } else if (strcmp (what, "disas") == 0) {
    g_autofree char *text = gm_code_text (f->code);
    g_string_append_printf (s, "%sat instruction %u\n", text, pc ? pc - 1 : 0);
  } else if (strcmp (what, "stack") == 0)
    add_stack (s, r, f);
  else if (strcmp (what, "locals") == 0)
    add_locals (s, r, f);
  else if (strcmp (what, "bt") == 0)
    add_backtrace (s, r, level);
  else
    add_guards (s, r);
  return PyUnicode_FromString (s->str);
}

static PyMethodDef session_methods[] = {
  { "local", session_local, METH_VARARGS,
    "local(level, name) -> ComptimeValue; KeyError if it has no value." },
  { "depth", session_depth, METH_NOARGS,
    "depth() -> how many frames of the program are being recorded." },
  { "graph", session_graph, METH_NOARGS,
    "graph() -> gramme.fx.GraphModule of what has been recorded." },
  { "graph_break", session_graph_break, METH_O, "graph_break(msg)" },
  { "text", session_text, METH_VARARGS, "text(what, level) -> str" },
  { NULL },
};

PyTypeObject gm_comptime_session_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.ComptimeSession",
  .tp_basicsize = sizeof (Session),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_methods = session_methods,
};

void
gm_comptime_failed (GmRecorder *r)
{
  PyObject *type, *value, *traceback;
  PyErr_Fetch (&type, &value, &traceback);
  PyErr_NormalizeException (&type, &value, &traceback);
  if (traceback)
    PyException_SetTraceback (value, traceback);
  Py_XSETREF (r->raised, value);
  Py_XDECREF (type);
  Py_XDECREF (traceback);
}

bool
gm_comptime_run (GmRecorder *r, PyObject *fn, const GmTracker *const *values, uint32_t n)
{
  PyObject *module = gm_import ("gramme._dynamo.comptime"), *session = gm_comptime_session (r);
  PyObject *list = PyList_New (n), *result = NULL;
  for (uint32_t i = 0; list && session && i < n; i++) {
    PyObject *v = gm_comptime_value (session, values[i]);
    if (!v)
      Py_CLEAR (list);
    else
      PyList_SET_ITEM (list, i, v);
  }
  if (module && session && list)
    result = PyObject_CallMethod (module, "_run", "OOO", fn, session, list);
  if (!result)
    gm_comptime_failed (r);
  if (session)
    ((Session *) session)->r =
        NULL; /* a later call in the same recording gets a session of its own */
  Py_CLEAR (r->comptime);
  Py_XDECREF (list);
  Py_XDECREF (session);
  Py_XDECREF (module);
  Py_XDECREF (result);
  return r->raised == NULL;
}
