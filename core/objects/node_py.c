/* SPDX-License-Identifier: Apache-2.0
 * node_py.c -- nodes of the tape as Python objects: their next nodes, hooks before and after them,
 * gradient edges.
 *
 * A node has one object as long as a reference to that exists; its hooks and its metadata belong to
 * the node, and last as long as it does.  A gradient edge names a place in a history without
 * holding elements: the node, the number of its output, and, if it was made from a tensor, that
 * tensor's meta (EdgeToken), so that a backward can begin there.
 */
#include "core/objects/node_py.h"

#include "core/objects/autograd_py.h"
#include "core/objects/errors.h"

typedef struct {
  PyObject_HEAD GmAgNode *n; /* owned */
  PyObject *weakrefs;
} Node;

PyObject *
gm_py_node_take (GmAgNode *n)
{
  GmNodeUser *u = gm_node_user (n);

  if (u->object) {
    gm_node_unref (n);
    return Py_NewRef (u->object);
  }
  Node *o = PyObject_New (Node, &gm_py_node_type);
  if (!o) {
    gm_node_unref (n);
    return NULL;
  }
  o->n = n;
  o->weakrefs = NULL;
  return u->object = (PyObject *) o;
}

static bool
node_check (PyObject *o)
{
  return Py_IS_TYPE (o, &gm_py_node_type);
}

static void
node_dealloc (PyObject *self)
{
  Node *o = (Node *) self;

  if (o->weakrefs)
    PyObject_ClearWeakRefs (self);
  gm_node_user (o->n)->object = NULL;
  gm_node_unref (o->n);
  PyObject_Free (self);
}

/* -- Attributes -------------------------------------------------------------------------------- */

static PyObject *
node_name (PyObject *self, PyObject *unused)
{
  return PyUnicode_FromString (gm_node_text (((Node *) self)->n));
}

static PyObject *
node_repr (PyObject *self)
{
  return PyUnicode_FromFormat ("<%s>", gm_node_text (((Node *) self)->n));
}

static PyObject *
node_next_functions (PyObject *self, void *closure)
{
  GmAgNode *n = ((Node *) self)->n;
  uint32_t n_edges = gm_node_n_edges (n), nr;
  PyObject *all = PyTuple_New (n_edges);

  for (uint32_t i = 0; all && i < n_edges; i++) {
    GmAgNode *to = gm_node_edge (n, i, &nr);
    PyObject *next = to ? gm_py_node_take (gm_node_ref (to)) : Py_NewRef (Py_None);
    PyObject *pair = next ? Py_BuildValue ("(NI)", next, (unsigned) nr) : NULL;
    if (!pair)
      Py_CLEAR (all);
    else
      PyTuple_SET_ITEM (all, i, pair);
  }
  return all;
}

static void
drop_object (void *o)
{
  if (!Py_IsInitialized ())
    return;
  PyGILState_STATE gil = PyGILState_Ensure ();
  Py_DECREF ((PyObject *) o);
  PyGILState_Release (gil);
}

static PyObject *
node_metadata (PyObject *self, void *closure)
{
  GmNodeUser *u = gm_node_user (((Node *) self)->n);

  if (!u->metadata) {
    u->metadata = PyDict_New ();
    u->drop_metadata = drop_object;
  }
  return Py_XNewRef ((PyObject *) u->metadata);
}

static PyObject *
node_variable (PyObject *self, void *closure)
{
  GmTensor *leaf = gm_node_leaf (((Node *) self)->n);

  if (leaf)
    return gm_py_tensor_wrap (leaf);
  PyErr_Format (PyExc_AttributeError,
                "%s has no attribute 'variable': AccumulateGrad, the node of a leaf, has",
                gm_node_text (((Node *) self)->n));
  return NULL;
}

/* -- Hooks ------------------------------------------------------------------------------------- */

static PyObject *
tuple_of (GmTensor *const *t, uint32_t n)
{
  PyObject *all = PyTuple_New (n);

  for (uint32_t i = 0; all && i < n; i++) {
    PyObject *o = t[i] ? gm_py_tensor_wrap (t[i]) : Py_NewRef (Py_None);
    if (!o)
      Py_CLEAR (all);
    else
      PyTuple_SET_ITEM (all, i, o);
  }
  return all;
}

/* Replaces *at, gradient i given to a hook, by the hook's result o: a tensor, or None, which
 * leaves it.  False with an exception. */
static bool
replace_one (GmTensor **at, PyObject *o, uint32_t i)
{
  GmTensor *t = o == Py_None ? NULL : gm_py_tensor_get (o);

  if (o != Py_None && !t) {
    PyErr_Format (PyExc_TypeError,
                  "a hook on a node gave a %.100s for gradient %u, not a Tensor or None",
                  Py_TYPE (o)->tp_name, (unsigned) i);
    return false;
  }
  if (t && !*at) {
    PyErr_Format (PyExc_RuntimeError,
                  "a hook on a node gave a Tensor for gradient %u, which is None", (unsigned) i);
    return false;
  }
  if (t && (t->meta.dtype != (*at)->meta.dtype || !gm_meta_same_shape (&t->meta, &(*at)->meta))) {
    g_autofree char *got = gm_meta_text (&t->meta), *want = gm_meta_text (&(*at)->meta);
    PyErr_Format (PyExc_RuntimeError,
                  "a hook on a node gave %s for gradient %u, which is %s; give the same shape and "
                  "dtype, or None",
                  got, (unsigned) i, want);
    return false;
  }
  if (t)
    gm_tensor_ref (t);
  gm_tensor_unref (*at);
  *at = t;
  return true;
}

static bool
replace_all (PyObject *result, GmTensor **changed, uint32_t n)
{
  if (result == Py_None)
    return true;
  if (n == 1 && gm_py_tensor_check (result))
    return replace_one (changed, result, 0);
  if (!PyTuple_Check (result) || PyTuple_GET_SIZE (result) != (Py_ssize_t) n) {
    PyErr_Format (PyExc_RuntimeError,
                  "a hook on a node has to give None or a tuple of %u gradients, not %R",
                  (unsigned) n, result);
    return false;
  }
  for (uint32_t i = 0; i < n; i++)
    if (!replace_one (&changed[i], PyTuple_GET_ITEM (result, i), i))
      return false;
  return true;
}

static bool
call (PyObject *fn, GmTensor **changed, uint32_t n, GmTensor *const *others, uint32_t n_others,
      bool after, GError **error)
{
  PyGILState_STATE gil = PyGILState_Ensure ();
  PyObject *first = tuple_of (changed, n), *second = after ? tuple_of (others, n_others) : NULL,
           *result = NULL;

  Py_INCREF (fn); /* the hook may remove itself */
  if (first && (second || !after))
    result = PyObject_CallFunctionObjArgs (fn, first, second, NULL);
  Py_DECREF (fn);
  bool ok = result && replace_all (result, changed, n);
  if (!ok)
    gm_py_error_set (error);
  Py_XDECREF (result);
  Py_XDECREF (first);
  Py_XDECREF (second);
  PyGILState_Release (gil);
  return ok;
}

static bool
call_before (void *data, GmTensor **changed, uint32_t n, GmTensor *const *others, uint32_t n_others,
             GError **error)
{
  return call (data, changed, n, others, n_others, false, error);
}

static bool
call_after (void *data, GmTensor **changed, uint32_t n, GmTensor *const *others, uint32_t n_others,
            GError **error)
{
  return call (data, changed, n, others, n_others, true, error);
}

static PyObject *
add_hook (PyObject *self, PyObject *fn, bool before)
{
  GmAgNode *n = ((Node *) self)->n;

  if (!PyCallable_Check (fn))
    return PyErr_Format (PyExc_TypeError, "a hook must be callable, not %s", Py_TYPE (fn)->tp_name);
  if (gm_node_is_apart (n)) {
    PyErr_SetString (PyExc_RuntimeError, "a backward has taken this compiled function apart into "
                                         "its operations, so a hook on it would not run any more: "
                                         "register hooks before the first backward, or on tensors");
    return NULL;
  }
  return gm_py_node_handle (
      n, before,
      gm_node_add_hook (n, before, before ? call_before : call_after, Py_NewRef (fn), drop_object));
}

static PyObject *
node_register_hook (PyObject *self, PyObject *fn)
{
  return add_hook (self, fn, false);
}

static PyObject *
node_register_prehook (PyObject *self, PyObject *fn)
{
  return add_hook (self, fn, true);
}

static PyMethodDef node_methods[] = {
  { "name", node_name, METH_NOARGS,
    "name()\n\nThe name of the backward function, such as \"MulBackward0\"." },
  { "register_hook", node_register_hook, METH_O,
    "register_hook(fn) -> handle\n\nfn(grad_inputs, grad_outputs) is called after the node has "
    "run, with tuples of gradients or None; what it\n"
    "returns, unless None, takes the place of grad_inputs." },
  { "register_prehook", node_register_prehook, METH_O,
    "register_prehook(fn) -> handle\n\nfn(grad_outputs) is called before the node runs, after the "
    "hooks on tensors; what it returns, unless\n"
    "None, takes the place of grad_outputs." },
  { 0 },
};

static PyGetSetDef node_fields[] = {
  { "next_functions", node_next_functions, NULL,
    "A pair (node, number of its output) per input; (None, 0) where nothing flows.", NULL },
  { "metadata", node_metadata, NULL,
    "A dict of the program's own, which lasts as long as the node.", NULL },
  { "variable", node_variable, NULL, "Of AccumulateGrad: the leaf.", NULL },
  { 0 },
};

PyTypeObject gm_py_node_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.GradFn",
  .tp_doc = "A node of the history of a tensor; see gramme.autograd.graph.Node.",
  .tp_basicsize = sizeof (Node),
  .tp_weaklistoffset = offsetof (Node, weakrefs),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_dealloc = node_dealloc,
  .tp_repr = node_repr,
  .tp_methods = node_methods,
  .tp_getset = node_fields,
};

/* -- Edges ------------------------------------------------------------------------------------- */

typedef struct {
  PyObject_HEAD GmMeta meta;
} EdgeToken;

static PyTypeObject token_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.EdgeToken",
  .tp_doc = "What the tensor of a gradient edge is like.",
  .tp_basicsize = sizeof (EdgeToken),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_dealloc = (destructor) PyObject_Free,
};

bool
gm_py_edge_check (PyObject *o)
{
  return PyTuple_Check (o) && PyTuple_GET_SIZE (o) >= 2 && node_check (PyTuple_GET_ITEM (o, 0))
         && PyLong_Check (PyTuple_GET_ITEM (o, 1));
}

bool
gm_py_edge_knows (PyObject *edge)
{
  return PyTuple_GET_SIZE (edge) > 2 && Py_IS_TYPE (PyTuple_GET_ITEM (edge, 2), &token_type);
}

GmTensor *
gm_py_edge_tensor (PyObject *edge, const GmMeta *like)
{
  GmAgNode *n = ((Node *) PyTuple_GET_ITEM (edge, 0))->n;
  long nr = PyLong_AsLong (PyTuple_GET_ITEM (edge, 1));

  if (nr < 0 || nr >= (long) gm_node_n_outputs (n)) {
    if (!PyErr_Occurred ())
      PyErr_Format (PyExc_IndexError, "%s has no output %ld: it has %u", gm_node_text (n), nr,
                    (unsigned) gm_node_n_outputs (n));
    return NULL;
  }
  if (!like && gm_py_edge_knows (edge))
    like = &((EdgeToken *) PyTuple_GET_ITEM (edge, 2))->meta;
  return gm_node_stand_in (n, (uint32_t) nr, like);
}

static PyObject *
gradient_edge (PyObject *module, PyObject *tensor)
{
  GmTensor *t = gm_py_tensor_get (tensor);
  uint32_t nr;

  if (!t)
    return PyErr_Format (PyExc_TypeError, "get_gradient_edge takes a Tensor, not %s",
                         Py_TYPE (tensor)->tp_name);
  GmAgNode *n = gm_tensor_node (t, &nr);
  if (!n) {
    PyErr_SetString (PyExc_RuntimeError,
                     "the tensor does not require grad: no gradient has an edge to it");
    return NULL;
  }
  PyObject *node = gm_py_node_take (n);
  EdgeToken *token = node ? PyObject_New (EdgeToken, &token_type) : NULL;
  if (!token) {
    Py_XDECREF (node);
    return NULL;
  }
  token->meta = t->meta;
  return Py_BuildValue ("(NIN)", node, (unsigned) nr, token);
}

PyMethodDef gm_py_node_functions[] = {
  { "gradient_edge", gradient_edge, METH_O,
    "gradient_edge(tensor) -> (node, number of its output, token)" },
  { 0 },
};

int
gm_py_init_node (PyObject *module)
{
  if (PyType_Ready (&token_type) < 0 || PyType_Ready (&gm_py_node_type) < 0)
    return -1;
  return PyModule_AddObjectRef (module, "GradFn", (PyObject *) &gm_py_node_type);
}
