/* SPDX-License-Identifier: Apache-2.0
 * graph_object.c -- a recorded graph as a Python object: its nodes as plain data, and a way to run
 * it.
 *
 * Running goes through the tape, op by op, so that gradients flow through a graph exactly as they
 * do through the function it was recorded from.  The graph is a copy and immutable, so a reference
 * to it keeps nothing of a compilation alive.  gramme.fx makes the objects that users see from the
 * result of `nodes`.
 */
#include "core/aot/aot.h"
#include "core/graph/higher.h"
#include "core/objects/graph_object.h"

#include <string.h>

#include "core/objects/args.h"
#include "core/objects/host_function.h"
#include "core/objects/types.h"

#include "core/objects/import.h"

typedef struct {
  PyObject_HEAD GmGraph *g; /* owned */
  GmGraphSizes *sizes;      /* NULL: all sizes are numbers */
  /* For running nodes one by one: the results of a call with several nodes, kept from its first
   * node until the others need them. */
  GmTensor **given; /* owned, by value: results that run_part keeps; NULL: none yet */
} GmPyGraph;

/* -- Reading ----------------------------------------------------------------------------------- */

/* Returns a size as a Python object: an int, or a gramme.fx.SymInt, which has a value only while
 * the graph runs.  New reference. */
static PyObject *
size_object (PyObject *self, int64_t size)
{
  if (!gm_size_is_symbolic (size))
    return PyLong_FromLongLong (size);
  PyObject *fx = gm_import ("gramme.fx");
  g_autofree char *text = gm_sym_text (((GmPyGraph *) self)->g->sym, size);
  PyObject *made =
      fx ? PyObject_CallMethod (fx, "SymInt", "OLs", self, (long long) size, text) : NULL;
  Py_XDECREF (fx);
  return made;
}

static PyObject *
ints (PyObject *self, int n, const int64_t *list)
{
  PyObject *t = PyTuple_New (n);
  for (int i = 0; t && i < n; i++) {
    PyObject *o = size_object (self, list[i]);
    if (!o)
      Py_CLEAR (t);
    else
      PyTuple_SET_ITEM (t, i, o);
  }
  return t;
}

/* Returns a new dict {"shape", "stride", "dtype", "requires_grad", "where"} about a value. */
static PyObject *
meta_dict (PyObject *self, const GmMeta *m, const char *where)
{
  PyObject *shape =
      gm_meta_is_symbolic (m) ? ints (self, m->ndim, m->sizes) : gm_py_size (m->ndim, m->sizes);
  return Py_BuildValue ("{s:N,s:N,s:N,s:N,s:z}", "shape", shape, "stride",
                        ints (self, m->ndim, m->strides), "dtype", gm_py_dtype (m->dtype),
                        "requires_grad", PyBool_FromLong (m->requires_grad), "where",
                        where && *where ? where : NULL);
}

static PyObject *
attr_value (PyObject *self, int key, const GmAttrs *a)
{
  const char *field = (const char *) a + gm_attrs[key].offset;
  switch (gm_attrs[key].type) {
  case 'I':
    return size_object (self, *(const int64_t *) field);
  case 'B':
    return PyBool_FromLong (*(const uint8_t *) field);
  case 'D':
    return gm_py_dtype (*(const uint8_t *) field);
  case 'S':
    return gm_scalar_is_symbolic (*(const GmScalar *) field)
               ? size_object (self, ((const GmScalar *) field)->i)
               : gm_py_from_scalar (*(const GmScalar *) field);
  case 'W':
    return ints (self, G_N_ELEMENTS (a->window), a->window);
  default:
    return ints (self, a->n_list, a->list);
  }
}

static PyObject *
attrs_dict (PyObject *self, const GmAttrs *a)
{
  PyObject *d = PyDict_New ();
  for (int k = 1; d && a && k < GM_N_ATTRS; k++) {
    if (!(a->mask & 1u << k))
      continue;
    PyObject *v = attr_value (self, k, a);
    if (!v || PyDict_SetItemString (d, gm_attrs[k].name, v) < 0)
      Py_CLEAR (d);
    Py_XDECREF (v);
  }
  return d;
}

/* Returns a unique name for value v: an input keeps its name; a node, or a second input of the
 * same name, is called by its value's number. */
static PyObject *
value_name (const GmGraph *g, GmValueId v)
{
  const GmGraphValue *value = gm_graph_value (g, v);
  if (value->node != GM_NO_ID)
    return PyUnicode_FromFormat ("%s_%u", gm_ops[gm_graph_node (g, value->node)->op].name,
                                 (unsigned) value->node);
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId other = g_array_index (g->inputs, GmValueId, i);
    if (other != v && g_strcmp0 (gm_graph_value (g, other)->name, value->name) == 0 && other < v)
      return PyUnicode_FromFormat ("%s_%u", value->name, (unsigned) v);
  }
  return PyUnicode_FromString (value->name ? value->name : "input");
}

static PyObject *
names_of (const GmGraph *g, const GmValueId *values, uint32_t n)
{
  PyObject *t = PyTuple_New (n);
  for (uint32_t i = 0; t && i < n; i++) {
    PyObject *name = value_name (g, values[i]);
    if (!name)
      Py_CLEAR (t);
    else
      PyTuple_SET_ITEM (t, i, name);
  }
  return t;
}

/* Appends the tuple (op, name, target, args, attrs, meta) to `list`.  function: NULL, or a
 * Python function that is the target.  Steals the references of all arguments but `list`.  -1 with
 * an exception. */
static int
append_row (PyObject *list, const char *op, PyObject *name, const char *target, PyObject *args,
            PyObject *attrs, PyObject *meta, PyObject *function)
{
  PyObject *row = !(name && args && attrs && meta) ? NULL
                  : function ? Py_BuildValue ("(sOOOOO)", op, name, function, args, attrs, meta)
                             : Py_BuildValue ("(sOsOOO)", op, name, target, args, attrs, meta);
  int r = row ? PyList_Append (list, row) : -1;
  Py_XDECREF (row);
  Py_XDECREF (name);
  Py_XDECREF (args);
  Py_XDECREF (attrs);
  Py_XDECREF (meta);
  return r;
}

static PyObject *
graph_nodes (PyObject *self, PyObject *unused)
{
  const GmGraph *g = ((GmPyGraph *) self)->g;
  PyObject *list = PyList_New (0);
  int bad = !list;
  for (uint32_t i = 0; i < g->inputs->len && !bad; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i);
    bad = append_row (list, "placeholder", value_name (g, v),
                      gm_graph_value (g, v)->name ? gm_graph_value (g, v)->name : "input",
                      PyTuple_New (0), PyDict_New (), meta_dict (self, gm_graph_meta (g, v), NULL),
                      NULL);
  }
  for (uint32_t i = 0; i < g->nodes->len && !bad; i++) {
    const GmNode *n = gm_graph_node (g, i);
    PyObject *attrs = attrs_dict (self, n->op == GM_OP_constant ? NULL : n->attrs);
    if (attrs && n->op == GM_OP_constant) {
      PyObject *t = gm_py_tensor_wrap (g_ptr_array_index (g->constants, n->attrs->offset));
      if (!t || PyDict_SetItemString (attrs, "tensor", t) < 0)
        Py_CLEAR (attrs);
      Py_XDECREF (t);
    }
    bad = append_row (
        list, "call_function", value_name (g, n->out), gm_ops[n->op].name,
        names_of (g, n->in, n->n_in), attrs, meta_dict (self, gm_graph_meta (g, n->out), n->where),
        n->op == GM_OP_host_call ? gm_py_host_callable (gm_graph_higher (g, n)->host) : NULL);
  }
  g_autofree GmValueId *out = g_new (GmValueId, g->outputs->len + 1);
  for (uint32_t i = 0; i < g->outputs->len; i++)
    out[i] = g_array_index (g->outputs, GmGraphOutput, i).value;
  if (!bad)
    bad = append_row (list, "output", PyUnicode_FromString ("output"), "output",
                      names_of (g, out, g->outputs->len), PyDict_New (), PyDict_New (), NULL);
  if (bad)
    Py_CLEAR (list);
  return list;
}

static PyObject *
graph_text (PyObject *self, PyObject *unused)
{
  g_autofree char *text = gm_graph_text (((GmPyGraph *) self)->g);
  return PyUnicode_FromString (text);
}

/* -- Running ----------------------------------------------------------------------------------- */

/* Runs node n, a call of graphs with several results, and returns the result that n stands for.
 * values: NULL, or an array by value that gets the other results.  NULL with *error. */
static GmTensor *
run_higher (const GmGraph *g, const GmNode *n, GmTensor *const *in, GmTensor **values,
            GError **error)
{
  uint32_t n_out = gm_higher_n_results (gm_graph_higher (g, n));
  g_autofree GmTensor **out = g_new0 (GmTensor *, n_out + 1);
  if (!gm_higher_call (g, n, in, out, error))
    return NULL;
  GmTensor *t = gm_tensor_ref (out[n->attrs->dim]);
  for (uint32_t k = 0; values && k < g->nodes->len; k++) {
    /* The call gives its other results, too. */
    const GmNode *m = gm_graph_node (g, k);
    if (m != n && m->op == n->op && m->attrs->offset == n->attrs->offset && !values[m->out])
      values[m->out] = gm_tensor_ref (out[m->attrs->dim]);
  }
  for (uint32_t k = 0; k < n_out; k++)
    gm_tensor_unref (out[k]);
  return t;
}

/* Runs one node on the tape and returns its result, a new reference; NULL with *error.  A node
 * that was recorded while gradients were off runs without them, since its result would require grad
 * otherwise.  values: as for run_higher. */
static GmTensor *
run_node (const GmGraph *g, const GmNode *n, GmTensor *const *in, GmTensor **values, GError **error)
{
  const GmMeta *m = gm_graph_meta (g, n->out);
  if (n->op == GM_OP_constant)
    return gm_tensor_ref (g_ptr_array_index (g->constants, n->attrs->offset));
  if (n->op == GM_OP_custom)
    return gm_custom_run (g, n, in, values);
  if (gm_op_is_higher (n->op))
    return run_higher (g, n, in, values, error);
  bool off = !m->requires_grad && gm_graph_expects_grad (g, n->op, n->in, (int) n->n_in, m);
  bool was = off ? gm_grad_set_enabled (false) : false;
  GmTensor *t = gm_autograd_op (n->op, in, (int) n->n_in, n->attrs, error);
  if (off)
    gm_grad_set_enabled (was);
  return t;
}

static bool
run_nodes (const GmGraph *g, GmTensor **values, GError **error)
{
  g_autofree uint32_t *last_use = g_new0 (uint32_t, g->values->len + 1);
  for (uint32_t i = 0; i < g->nodes->len; i++)
    for (uint32_t k = 0; k < gm_graph_node (g, i)->n_in; k++)
      last_use[gm_graph_node (g, i)->in[k]] = i;
  for (uint32_t i = 0; i < g->outputs->len; i++)
    last_use[g_array_index (g->outputs, GmGraphOutput, i).value] = GM_NO_ID;
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    g_autofree GmTensor **in = g_new (GmTensor *, n->n_in + 1);
    for (uint32_t k = 0; k < n->n_in; k++)
      in[k] = values[n->in[k]];
    if (!values[n->out] || n->op == GM_OP_custom)
      values[n->out] = run_node (g, n, in, values, error);
    if (!values[n->out]) {
      g_prefix_error (error, "%s%s%s: ", gm_ops[n->op].name, n->where ? " from " : "",
                      n->where ? n->where : "");
      return false;
    }
    for (uint32_t k = 0; k < n->n_in; k++)
      if (last_use[n->in[k]] == i)
        g_clear_pointer (&values[n->in[k]], gm_tensor_unref);
  }
  return true;
}

/* True if the input is an int that determines a size, and no node reads it; o: the argument
 * given. */
static bool
is_int_of_size (const GmGraph *g, uint32_t input, PyObject *o)
{
  const GmMeta *m = gm_graph_meta (g, g_array_index (g->inputs, GmValueId, input));
  return PyLong_Check (o) && m->dtype == GM_U8 && m->ndim == 1;
}

static PyObject *
run_graph (const GmGraph *g, PyObject *const *args, Py_ssize_t n)
{
  g_autofree GmTensor **values = g_new0 (GmTensor *, g->values->len + 1);
  PyObject *result = NULL;
  GError *error = NULL;
  for (Py_ssize_t i = 0; i < n; i++) {
    GmTensor *t = gm_py_tensor_get (args[i]);
    if (!t && is_int_of_size (g, (uint32_t) i, args[i]))
      continue;
    if (!t) {
      PyErr_Format (PyExc_TypeError, "input %zd of the graph is a %.100s, not a Tensor", i,
                    Py_TYPE (args[i])->tp_name);
      goto out;
    }
    values[g_array_index (g->inputs, GmValueId, i)] = gm_tensor_ref (t);
  }
  if (!run_nodes (g, values, &error)) {
    gm_py_raise (error);
    goto out;
  }
  result = PyTuple_New (g->outputs->len);
  for (uint32_t i = 0; result && i < g->outputs->len; i++) {
    PyObject *o = gm_py_tensor_wrap (values[g_array_index (g->outputs, GmGraphOutput, i).value]);
    if (!o)
      Py_CLEAR (result);
    else
      PyTuple_SET_ITEM (result, i, o);
  }
out:
  for (uint32_t v = 0; v < g->values->len; v++)
    gm_tensor_unref (values[v]);
  return result;
}

static PyObject *
graph_run (PyObject *self, PyObject *const *args, Py_ssize_t n)
{
  GmPyGraph *o = (GmPyGraph *) self;
  if (n != (Py_ssize_t) o->g->inputs->len)
    return PyErr_Format (PyExc_TypeError, "the graph takes %u tensors, %zd were given",
                         (unsigned) o->g->inputs->len, n);
  if (!o->sizes)
    return run_graph (o->g, args, n);
  GmGraphNow *now = gm_graph_sizes_now (o->sizes, args, n);
  PyObject *result = now ? run_graph (now->graph, args, n) : NULL;
  gm_graph_now_unref (now);
  return result;
}

/* Implements graph.call (f, *inputs): returns f (*inputs), and the graph's sizes are those of
 * the inputs meanwhile. */
static PyObject *
graph_call (PyObject *self, PyObject *const *args, Py_ssize_t n)
{
  GmPyGraph *o = (GmPyGraph *) self;
  if (n < 1)
    return PyErr_Format (PyExc_TypeError, "call() takes a function");
  if (!o->sizes)
    return PyObject_Vectorcall (args[0], args + 1, (size_t) n - 1, NULL);
  GmGraphNow *now = gm_graph_sizes_now (o->sizes, args + 1, n - 1);
  PyObject *result = now ? gm_py_graph_call (self, now, args[0], args + 1, n - 1) : NULL;
  gm_graph_now_unref (now);
  return result;
}

PyObject *
gm_py_graph_call (PyObject *graph, const GmGraphNow *now, PyObject *fn, PyObject *const *args,
                  Py_ssize_t n)
{
  GmGraphEntered entered;
  if (now)
    gm_graph_sizes_enter (((GmPyGraph *) graph)->sizes, now, &entered);
  PyObject *result = PyObject_Vectorcall (fn, args, (size_t) n, NULL);
  if (now)
    gm_graph_sizes_leave ();
  return result;
}

/* Implements graph.size (row): returns the current value of a size expression. */
static PyObject *
graph_size (PyObject *self, PyObject *row)
{
  GmPyGraph *o = (GmPyGraph *) self;
  int64_t size = PyLong_AsLongLong (row), value;
  const GmGraphNow *now = o->sizes ? gm_graph_sizes_entered (o->sizes) : NULL;
  GError *error = NULL;
  if (size == -1 && PyErr_Occurred ())
    return NULL;
  if (!now) {
    g_autofree char *text = gm_size_is_symbolic (size) ? gm_sym_text (o->g->sym, size) : NULL;
    return PyErr_Format (
        PyExc_TypeError,
        "the size %s is a number while the graph runs alone: one graph serves all sizes. "
        "gramme.compile(f, dynamic=False) gives a graph of numbers for each set of them",
        text ? text : "");
  }
  return gm_sym_eval (o->g->sym, size, now->symbols, &value, &error) ? PyLong_FromLongLong (value)
                                                                     : gm_py_raise (error);
}

/* Runs node n, which is one of the results of a call with several.  The caller runs these nodes
 * in their order: the call itself runs at the node of result 0, and the other results wait in
 * self->given.  A new reference, NULL with *error. */
static GmTensor *
run_part (GmPyGraph *self, const GmGraph *g, const GmNode *n, GmTensor *const *in, GError **error)
{
  if (!self->given)
    self->given = g_new0 (GmTensor *, g->values->len + 1);
  bool waits = n->attrs->dim > 0 && self->given[n->out];
  if (waits && n->op != GM_OP_custom)
    return g_steal_pointer (&self->given[n->out]);
  for (uint32_t k = 0; k < g->nodes->len && !waits; k++) {
    const GmNode *m = gm_graph_node (g, k);
    if (m->op == n->op && m->attrs->offset == n->attrs->offset)
      g_clear_pointer (&self->given[m->out], gm_tensor_unref);
  }
  return run_node (g, n, in, self->given, error);
}

/* Implements run_op (i, *inputs): runs node i alone, for interpreters written in Python. */
static PyObject *
graph_run_node (PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
  GmPyGraph *o = (GmPyGraph *) self;
  const GmGraphNow *now = o->sizes ? gm_graph_sizes_entered (o->sizes) : NULL;
  const GmGraph *g = now ? now->graph : o->g;
  if (o->sizes && !now)
    return PyErr_Format (PyExc_RuntimeError, "a node of a graph for all sizes runs while the graph "
                                             "does: in what the back end returned, in "
                                             "module(...), or in Interpreter.run()");
  Py_ssize_t i = n_args > 0 ? PyLong_AsSsize_t (args[0]) : -1;
  if (i < 0 || i >= (Py_ssize_t) g->nodes->len)
    return PyErr_Occurred () ? NULL
                             : PyErr_Format (PyExc_IndexError, "the graph has no node %zd", i);
  const GmNode *n = gm_graph_node (g, i);
  if (n_args - 1 != (Py_ssize_t) n->n_in)
    return PyErr_Format (PyExc_TypeError, "%s takes %u tensors, %zd were given", gm_ops[n->op].name,
                         (unsigned) n->n_in, n_args - 1);
  g_autofree GmTensor **in = g_new (GmTensor *, n->n_in + 1);
  for (uint32_t k = 0; k < n->n_in; k++)
    if (!(in[k] = gm_py_tensor_get (args[1 + k])))
      return PyErr_Format (PyExc_TypeError, "operand %u of %s is no Tensor", (unsigned) k,
                           gm_ops[n->op].name);
  GError *error = NULL;
  GmTensor *t = gm_op_has_effects (n->op) || n->op == GM_OP_custom
                    ? run_part (o, g, n, in, &error)
                    : run_node (g, n, in, NULL, &error);
  return t ? gm_py_tensor_take (t) : gm_py_raise (error);
}

/* -- The type ---------------------------------------------------------------------------------- */

static void
graph_dealloc (PyObject *self)
{
  GmPyGraph *o = (GmPyGraph *) self;
  for (uint32_t v = 0; o->given && v < o->g->values->len; v++)
    gm_tensor_unref (o->given[v]);
  g_free (o->given);
  gm_graph_sizes_free (o->sizes);
  g_clear_pointer (&o->g, gm_graph_free);
  Py_TYPE (self)->tp_free (self);
}

static PyMethodDef graph_methods[] = {
  { "nodes", graph_nodes, METH_NOARGS,
    "nodes() -> list of (op, name, target, args, attrs, meta), in execution order: placeholders, "
    "calls, one output." },
  { "text", graph_text, METH_NOARGS, "text() -> str: the graph as `gramme opt` reads it." },
  { "run", (PyCFunction) (void (*) (void)) graph_run, METH_FASTCALL,
    "run(*tensors) -> tuple of tensors: executes node by node; gradients flow through." },
  { "run_node", (PyCFunction) (void (*) (void)) graph_run_node, METH_FASTCALL,
    "run_node(i, *tensors) -> tensor: executes call i of the graph." },
  { "call", (PyCFunction) (void (*) (void)) graph_call, METH_FASTCALL,
    "call(f, *inputs): f(*inputs), while the graph's sizes are those that the inputs say." },
  { "size", graph_size, METH_O,
    "size(row) -> int: what a symbolic size is now; TypeError while the graph does not run." },
  { 0 },
};

static PyTypeObject graph_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.Graph",
  .tp_doc = "A recorded graph; see gramme.fx.GraphModule.",
  .tp_basicsize = sizeof (GmPyGraph),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_dealloc = graph_dealloc,
  .tp_methods = graph_methods,
};

/* Returns a new object with a copy of g, or NULL with an exception. */
static PyObject *
graph_new (const GmGraph *g)
{
  GmPyGraph *self = PyObject_New (GmPyGraph, &graph_type);
  if (!self)
    return NULL;
  self->given = NULL;
  /* Replaces symbols whose values are known, since no input determines them. */
  self->g = gm_graph_settle (g, NULL);
  self->sizes = gm_graph_sizes_new (self->g);
  return (PyObject *) self;
}

const GmGraph *
gm_py_graph_get (PyObject *o)
{
  return Py_IS_TYPE (o, &graph_type) ? ((GmPyGraph *) o)->g : NULL;
}

GmGraphSizes *
gm_py_graph_sizes (PyObject *o)
{
  return ((GmPyGraph *) o)->sizes;
}

static bool
add_graph (PyObject *module, const GmGraph *part)
{
  PyObject *made = gm_py_graph_module (part);
  bool ok = made && PyObject_SetAttrString (module, part->name, made) == 0;
  Py_XDECREF (made);
  return ok;
}

/* Adds the graphs inside of g, by their names, as attributes of `module`: its saved-tensor
 * hooks, and the bodies of its operators over graphs.  False with an exception. */
static bool
add_graphs (PyObject *module, const GmGraph *g)
{
  bool ok = true;
  for (uint32_t i = 0; ok && g->hooks && i < g->hooks->len; i++)
    ok = add_graph (module, g->hooks->pdata[i]);
  for (uint32_t i = 0; ok && g->highers && i < g->highers->len; i++) {
    const GmHigher *h = g->highers->pdata[i];
    for (uint32_t b = 0; ok && b < h->n_bodies; b++)
      ok = !h->bodies[b] || !h->bodies[b]->name || add_graph (module, h->bodies[b]);
  }
  return ok;
}

PyObject *
gm_py_graph_module (const GmGraph *g)
{
  PyObject *fx = gm_import ("gramme.fx"), *graph = fx ? graph_new (g) : NULL;
  PyObject *made = graph ? PyObject_CallMethod (fx, "GraphModule", "O", graph) : NULL;
  if (made && !add_graphs (made, g))
    Py_CLEAR (made);
  Py_XDECREF (graph);
  Py_XDECREF (fx);
  return made;
}

int
gm_py_init_graph (PyObject *module)
{
  return PyModule_AddType (module, &graph_type);
}
