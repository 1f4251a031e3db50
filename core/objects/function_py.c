/* SPDX-License-Identifier: Apache-2.0
 * function_py.c -- gramme.autograd.Function: operations whose backward is Python code.
 *
 * apply() runs forward() without recording and gives its results one node, whose state is the
 * context object that both sides get.  Tensors saved in the context are kept like those of every
 * node (saved.c): through the hooks, with their version, and never as the result itself, which
 * would hold the node that holds it.
 * Invariant: a context has a node only as long as that node lives; the node owns the context.
 */
#include "core/objects/function_py.h"
#include "core/objects/types.h"

#include <stddef.h>
#include <string.h>

typedef struct {
  GmSaved saved;
  int output; /* number of the function's result that was saved; -1: no result */
} Item;

typedef struct {
  PyObject_HEAD PyObject *dict, *weakrefs;
  PyObject *to_save; /* argument of save_for_backward, until forward has returned */
  /* Arguments of mark_dirty, mark_non_differentiable: tuples, or NULL. */
  PyObject *dirty, *plain;
  PyObject *needs_input_grad;
  PyObject *function; /* the class */
  char materialize;
  bool freed;
  int n_items, n_outputs;
  Item *items;
  GmMeta *outputs; /* metas of the results; dtype GM_N_DTYPES for a result that is not a tensor */
  GmAgNode *node;  /* borrowed, the node owns the context; NULL: no node */
} Context;

static PyTypeObject context_type;

/* -- The context ------------------------------------------------------------------------------- */

static void
drop_items (Context *c)
{
  for (int i = 0; i < c->n_items; i++)
    if (c->items[i].saved.t)
      gm_saved_clear (&c->items[i].saved);
  g_clear_pointer (&c->items, g_free);
  c->n_items = 0;
}

static int
context_traverse (PyObject *self, visitproc visit, void *arg)
{
  Context *c = (Context *) self;
  Py_VISIT (c->dict);
  Py_VISIT (c->to_save);
  Py_VISIT (c->dirty);
  Py_VISIT (c->plain);
  Py_VISIT (c->function);
  return 0;
}

static int
context_clear (PyObject *self)
{
  Context *c = (Context *) self;
  Py_CLEAR (c->dict);
  Py_CLEAR (c->to_save);
  Py_CLEAR (c->dirty);
  Py_CLEAR (c->plain);
  return 0;
}

static void
context_dealloc (PyObject *self)
{
  Context *c = (Context *) self;
  PyObject_GC_UnTrack (self);
  if (c->weakrefs)
    PyObject_ClearWeakRefs (self);
  context_clear (self);
  Py_CLEAR (c->function);
  Py_CLEAR (c->needs_input_grad);
  drop_items (c);
  g_free (c->outputs);
  PyObject_GC_Del (self);
}

static PyObject *
keep_tuple (PyObject **place, PyObject *args)
{
  Py_XSETREF (*place, Py_NewRef (args));
  Py_RETURN_NONE;
}

static PyObject *
context_save (PyObject *self, PyObject *args)
{
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (args); i++) {
    PyObject *o = PyTuple_GET_ITEM (args, i);
    if (o != Py_None && !gm_py_tensor_check (o))
      return PyErr_Format (
          PyExc_TypeError,
          "save_for_backward can only save tensors and None, but argument %zd is of "
          "type %s: keep other things as attributes of the context",
          i, Py_TYPE (o)->tp_name);
  }
  return keep_tuple (&((Context *) self)->to_save, args);
}

static PyObject *
context_dirty (PyObject *self, PyObject *args)
{
  return keep_tuple (&((Context *) self)->dirty, args);
}

static PyObject *
context_plain (PyObject *self, PyObject *args)
{
  return keep_tuple (&((Context *) self)->plain, args);
}

static PyObject *
context_materialize (PyObject *self, PyObject *value)
{
  int on = PyObject_IsTrue (value);
  if (on < 0)
    return NULL;
  ((Context *) self)->materialize = (char) on;
  Py_RETURN_NONE;
}

static bool
same_version (const Context *c, int i)
{
  const GmSaved *s = &c->items[i].saved;
  if (s->is_packed || gm_tensor_version (s->t) == s->version)
    return true;
  g_autofree char *who = g_strdup_printf ("the backward of %s",
                                          ((PyTypeObject *) c->function)->tp_name),
                  *which = g_strdup_printf ("saved tensor %d", i);
  GError *error = NULL;
  gm_fail_changed (who, which, s->t, s->version, &error);
  gm_py_raise (error);
  return false;
}

static PyObject *
item_get (Context *c, int i)
{
  const Item *item = &c->items[i];
  if (!item->saved.t)
    return Py_NewRef (Py_None);
  if (!same_version (c, i))
    return NULL;
  GError *error = NULL;
  GmTensor *t = gm_saved_get (&item->saved, &error);
  if (!t)
    return gm_py_raise (error);
  if (item->output >= 0 && c->node) {
    GmTensor *result = gm_autograd_as_output (t, c->node, item->output);
    gm_tensor_unref (t);
    t = result;
  }
  return gm_py_tensor_take (t);
}

static PyObject *
context_saved (PyObject *self, void *closure)
{
  Context *c = (Context *) self;
  if (c->freed)
    return PyErr_Format (
        PyExc_RuntimeError,
        "what %s saved was freed by a backward; pass retain_graph=True to it if you "
        "need it twice",
        ((PyTypeObject *) c->function)->tp_name);
  if (c->to_save) /* before forward has returned */
    return Py_NewRef (c->to_save);
  PyObject *all = PyTuple_New (c->n_items);
  for (int i = 0; all && i < c->n_items; i++) {
    PyObject *o = item_get (c, i);
    if (o)
      PyTuple_SET_ITEM (all, i, o);
    else
      Py_CLEAR (all);
  }
  return all;
}

static PyObject *
context_needs (PyObject *self, void *closure)
{
  PyObject *needs = ((Context *) self)->needs_input_grad;
  return Py_NewRef (needs ? needs : Py_None);
}

static PyMethodDef context_methods[] = {
  { "save_for_backward", context_save, METH_VARARGS,
    "save_for_backward(*tensors)\n\nKeeps tensors (or None) for backward, once, in forward or "
    "setup_context." },
  { "mark_dirty", context_dirty, METH_VARARGS,
    "mark_dirty(*tensors)\n\nSays that forward changed these inputs in place; they must be among "
    "its results." },
  { "mark_non_differentiable", context_plain, METH_VARARGS,
    "mark_non_differentiable(*tensors)\n\nSays that these results have no gradient." },
  { "set_materialize_grads", context_materialize, METH_O,
    "set_materialize_grads(value)\n\nWhether backward gets zeros (the default) or None where no "
    "gradient arrived." },
  { 0 },
};

static PyGetSetDef context_getset[] = {
  { "saved_tensors", context_saved, NULL, "What save_for_backward kept, as a tuple.", NULL },
  { "needs_input_grad", context_needs, NULL, "One bool per argument of apply().", NULL },
  { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
  { 0 },
};

static PyTypeObject context_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme.autograd.function.FunctionCtx",
  .tp_doc = "What forward and backward of a Function share: saved tensors, marks, and attributes "
            "of the user's.",
  .tp_basicsize = sizeof (Context),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_dictoffset = offsetof (Context, dict),
  .tp_weaklistoffset = offsetof (Context, weakrefs),
  .tp_traverse = context_traverse,
  .tp_clear = context_clear,
  .tp_dealloc = context_dealloc,
  .tp_methods = context_methods,
  .tp_getset = context_getset,
};

/* -- Backward ---------------------------------------------------------------------------------- */

static PyObject *
zeros_like (const GmMeta *m)
{
  GmMeta dense = *m;
  GError *error = NULL;
  gm_meta_set_contiguous (&dense);
  dense.requires_grad = 0;
  GmTensor *t = gm_tensor_new_zeros (&dense, &error);
  return t ? gm_py_tensor_take (t) : gm_py_raise (error);
}

/* Returns the tuple of arguments for backward: the context and a gradient for each result.  New
 * reference, NULL with an exception. */
static PyObject *
gradients_in (Context *c, GmTensor *const *grads)
{
  PyObject *args = PyTuple_New (c->n_outputs + 1);
  if (!args)
    return NULL;
  PyTuple_SET_ITEM (args, 0, Py_NewRef ((PyObject *) c));
  for (int i = 0; i < c->n_outputs; i++) {
    PyObject *o = grads[i] ? gm_py_tensor_wrap (grads[i])
                  : c->materialize && c->outputs[i].dtype < GM_N_DTYPES
                      ? zeros_like (&c->outputs[i])
                      : Py_NewRef (Py_None);
    if (!o) {
      Py_DECREF (args);
      return NULL;
    }
    PyTuple_SET_ITEM (args, i + 1, o);
  }
  return args;
}

static bool
broadcasts_to (const GmMeta *from, const GmMeta *to)
{
  int lead = to->ndim - from->ndim;
  for (int d = 0; lead >= 0 && d < from->ndim; d++)
    if (from->sizes[d] != 1 && from->sizes[d] != to->sizes[lead + d])
      return false;
  return lead >= 0;
}

/* Converts backward's result o for argument i, which has the meta `want`: o is None, or a tensor
 * of that shape, which is cast to the dtype; a tensor to whose larger shape `want` broadcasts is
 * summed. Stores a new reference, or NULL, in *result; false with an exception. */
static bool
gradient_out (const Context *c, PyObject *o, Py_ssize_t i, const GmMeta *want, GmTensor **result)
{
  const char *name = ((PyTypeObject *) c->function)->tp_name;
  GmTensor *t = gm_py_tensor_get (o);
  if (o == Py_None)
    return true;
  if (!t) {
    PyErr_Format (PyExc_TypeError,
                  "backward of %s returned %s as gradient %zd; return a Tensor or None", name,
                  Py_TYPE (o)->tp_name, i);
    return false;
  }
  if (PyTuple_GET_ITEM (c->needs_input_grad, i) != Py_True)
    return true;
  if (!gm_meta_same_shape (&t->meta, want) && broadcasts_to (want, &t->meta)) {
    PyObject *size = gm_py_size (want->ndim, want->sizes);
    PyObject *sum = size ? PyObject_CallMethod (o, "sum_to_size", "O", size) : NULL;
    bool ok = sum && gradient_out (c, sum, i, want, result);
    Py_XDECREF (sum);
    Py_XDECREF (size);
    return ok;
  }
  if (!gm_meta_same_shape (&t->meta, want)) {
    g_autofree char *have = gm_meta_text (&t->meta), *expected = gm_meta_text (want);
    PyErr_Format (PyExc_RuntimeError,
                  "backward of %s returned a gradient of %s for argument %zd, which is %s", name,
                  have, i, expected);
    return false;
  }
  if (t->meta.dtype == want->dtype) {
    *result = gm_tensor_ref (t);
    return true;
  }
  GError *error = NULL;
  GmAttrs to = { .mask = 1u << GM_ATTR_DTYPE, .dtype = want->dtype };
  *result = gm_autograd_op (GM_OP_cast, &t, 1, &to, &error);
  if (!*result)
    gm_py_raise (error);
  return *result != NULL;
}

typedef struct {
  Context *c; /* owned */
  int n;
  GmMeta in[]; /* metas of the arguments that are tensors */
} State;

static bool
gradients_out (State *s, PyObject *value, GmTensor **result)
{
  Context *c = s->c;
  PyObject *all = PyTuple_Check (value) ? Py_NewRef (value) : PyTuple_Pack (1, value);
  Py_ssize_t n = all ? PyTuple_GET_SIZE (all) : 0, want = s->n;
  bool ok = all != NULL;
  for (Py_ssize_t i = want; ok && i < n; i++)
    if (PyTuple_GET_ITEM (all, i) != Py_None)
      ok = false;
  if (all && (n < want || !ok)) {
    PyErr_Format (PyExc_RuntimeError,
                  "backward of %s returned %zd gradients for %zd arguments of apply()",
                  ((PyTypeObject *) c->function)->tp_name, n, want);
    ok = false;
  }
  for (Py_ssize_t i = 0; ok && i < want; i++)
    ok = gradient_out (c, PyTuple_GET_ITEM (all, i), i, &s->in[i], &result[i]);
  for (Py_ssize_t i = 0; !ok && i < want; i++)
    g_clear_pointer (&result[i], gm_tensor_unref);
  Py_XDECREF (all);
  return ok;
}

static bool
function_backward (GmAgNode *n, void *state, GmTensor *const *grads, GmTensor **result,
                   bool create_graph, GError **error)
{
  State *s = state;
  PyGILState_STATE gil = PyGILState_Ensure ();
  Context *c = (Context *) Py_NewRef ((PyObject *) s->c);
  bool mode = gm_grad_set_enabled (create_graph);
  PyObject *backward = PyObject_GetAttrString (c->function, "backward"),
           *args = backward ? gradients_in (c, grads) : NULL;
  PyObject *value = args ? PyObject_Call (backward, args, NULL) : NULL;
  gm_grad_set_enabled (mode);
  bool ok = value && gradients_out (s, value, result);
  if (!ok)
    gm_py_error_set (error);
  Py_XDECREF (value);
  Py_XDECREF (args);
  Py_XDECREF (backward);
  Py_DECREF (c);
  PyGILState_Release (gil);
  return ok;
}

static void
function_release (void *state)
{
  State *s = state;
  if (Py_IsInitialized ()) {
    PyGILState_STATE gil = PyGILState_Ensure ();
    drop_items (s->c);
    s->c->freed = true;
    s->c->node = NULL;
    Py_DECREF (s->c);
    PyGILState_Release (gil);
  }
  g_free (s);
}

/* -- apply ------------------------------------------------------------------------------------- */

static Context *
context_new (PyObject *function, PyObject *args)
{
  Context *c = PyObject_GC_New (Context, &context_type);
  if (!c)
    return NULL;
  memset ((char *) c + sizeof (PyObject), 0, sizeof *c - sizeof (PyObject));
  c->materialize = 1;
  c->function = Py_NewRef (function);
  PyObject_GC_Track ((PyObject *) c);
  Py_ssize_t n = PyTuple_GET_SIZE (args);
  c->needs_input_grad = PyTuple_New (n);
  for (Py_ssize_t i = 0; c->needs_input_grad && i < n; i++) {
    GmTensor *t = gm_py_tensor_get (PyTuple_GET_ITEM (args, i));
    PyTuple_SET_ITEM (c->needs_input_grad, i, PyBool_FromLong (t && gm_tensor_requires_grad (t)));
  }
  if (c->needs_input_grad)
    return c;
  Py_DECREF (c);
  return NULL;
}

static bool
in_tuple (PyObject *tuple, PyObject *o)
{
  for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE (tuple); i++)
    if (PyTuple_GET_ITEM (tuple, i) == o)
      return true;
  return false;
}

static Py_ssize_t
place_in (PyObject *tuple, PyObject *o)
{
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (tuple); i++)
    if (PyTuple_GET_ITEM (tuple, i) == o)
      return i;
  return -1;
}

/* Runs forward (ctx, *args), or, with a setup_context, forward (*args) and then setup (ctx,
 * args, result).  Returns the result, a new reference; NULL with an exception. */
static PyObject *
run_forward (PyObject *function, Context *c, PyObject *args, PyObject *setup)
{
  PyObject *forward = PyObject_GetAttrString (function, "forward"), *all = NULL, *result = NULL;
  if (forward && setup != Py_None) {
    result = PyObject_Call (forward, args, NULL);
    PyObject *none =
        result ? PyObject_CallFunctionObjArgs (setup, (PyObject *) c, args, result, NULL) : NULL;
    if (!none)
      Py_CLEAR (result);
    Py_XDECREF (none);
  } else if (forward && (all = PyTuple_New (PyTuple_GET_SIZE (args) + 1))) {
    PyTuple_SET_ITEM (all, 0, Py_NewRef ((PyObject *) c));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (args); i++)
      PyTuple_SET_ITEM (all, i + 1, Py_NewRef (PyTuple_GET_ITEM (args, i)));
    result = PyObject_Call (forward, all, NULL);
  }
  Py_XDECREF (all);
  Py_XDECREF (forward);
  return result;
}

static bool
check_dirty (Context *c, PyObject *args, PyObject *results)
{
  const char *name = ((PyTypeObject *) c->function)->tp_name;
  for (Py_ssize_t i = 0; c->dirty && i < PyTuple_GET_SIZE (c->dirty); i++) {
    PyObject *o = PyTuple_GET_ITEM (c->dirty, i);
    GmTensor *t = gm_py_tensor_get (o);
    if (!t || place_in (args, o) < 0 || place_in (results, o) < 0) {
      PyErr_Format (
          PyExc_RuntimeError,
          "%s marks something as dirty that is not both an argument and a result of forward", name);
      return false;
    }
    if (gm_grad_enabled () && gm_tensor_requires_grad (t) && gm_tensor_is_leaf (t)) {
      PyErr_Format (
          PyExc_RuntimeError,
          "a leaf that requires grad was changed in place by %s: change a clone () instead", name);
      return false;
    }
  }
  return true;
}

/* Returns the tuple of results for the caller, and in fresh[...] new references to the tensors
 * that get a gradient history.  An argument that is returned unchanged becomes a view of itself, so
 * that it can have a history of its own. */
static PyObject *
wrap_results (Context *c, PyObject *args, PyObject *results, GmTensor **fresh)
{
  Py_ssize_t n = PyTuple_GET_SIZE (results);
  PyObject *out = PyTuple_New (n);
  for (Py_ssize_t i = 0; out && i < n; i++) {
    PyObject *o = PyTuple_GET_ITEM (results, i), *mine = Py_NewRef (o);
    GmTensor *t = gm_py_tensor_get (o);
    if (t && in_tuple (c->dirty, o)) {
      fresh[i] = gm_tensor_new_alias (t);
    } else if (t && place_in (args, o) >= 0) {
      Py_DECREF (mine);
      mine = gm_py_tensor_take (gm_tensor_new_alias (t));
      fresh[i] = mine ? gm_tensor_ref (gm_py_tensor_get (mine)) : NULL;
    } else if (t) {
      fresh[i] = gm_tensor_ref (t);
    }
    if (!mine)
      Py_CLEAR (out);
    else
      PyTuple_SET_ITEM (out, i, mine);
  }
  return out;
}

/* Saves the tensors given to save_for_backward in the context.  The caller has attached the
 * results to their node before.  False with an exception. */
static bool
save (Context *c, PyObject *results, PyObject *before)
{
  PyObject *list = c->to_save;
  GError *error = NULL;
  c->to_save = NULL;
  c->n_items = list ? (int) PyTuple_GET_SIZE (list) : 0;
  c->items = g_new0 (Item, c->n_items + 1);
  bool ok = true;
  for (int i = 0; ok && i < c->n_items; i++) {
    Item *item = &c->items[i];
    PyObject *o = PyTuple_GET_ITEM (list, i);
    GmTensor *t = gm_py_tensor_get (o);
    item->output = -1;
    if (!t)
      continue;
    Py_ssize_t at = place_in (before, o);
    /* A result that is not an argument returned unchanged. */
    bool own = at >= 0 && PyTuple_GET_ITEM (results, at) == o;
    item->output = own && c->node && !in_tuple (c->plain, o) ? (int) at : -1;
    item->saved = (GmSaved){ .t = own ? gm_tensor_new_alias (t) : gm_autograd_freeze (t),
                             .version = gm_tensor_version (t) };
    ok = gm_saved_pack (&item->saved, &error);
  }
  if (!ok)
    gm_py_raise (error);
  Py_XDECREF (list);
  return ok;
}

static const GmAgFunction *
function_type (PyObject *function)
{
  static GHashTable *known; /* name -> GmAgFunction; never freed, since nodes point to them */
  g_autofree char *name = g_strdup_printf ("%sBackward", ((PyTypeObject *) function)->tp_name);
  if (!known)
    known = g_hash_table_new (g_str_hash, g_str_equal);
  GmAgFunction *f = g_hash_table_lookup (known, name);
  if (!f) {
    f = g_new (GmAgFunction, 1);
    *f = (GmAgFunction){ g_intern_string (name), function_backward, function_release };
    g_hash_table_insert (known, (void *) f->name, f);
  }
  return f;
}

/* Makes the node of the call, which ties all results to the arguments.  False with an exception. */
static bool
attach (PyObject *function, Context *c, PyObject *args, PyObject *results, GmTensor **fresh)
{
  int n = (int) PyTuple_GET_SIZE (args);
  g_autofree GmTensor **in = g_new0 (GmTensor *, n + 1),
                      **outs = g_new0 (GmTensor *, c->n_outputs + 1);
  State *s = g_malloc (sizeof *s + sizeof (GmMeta) * (size_t) n);
  bool any = false;
  s->c = (Context *) Py_NewRef ((PyObject *) c);
  s->n = n;
  for (int i = 0; i < n; i++) {
    in[i] = gm_py_tensor_get (PyTuple_GET_ITEM (args, i));
    if (in[i])
      s->in[i] = in[i]->meta;
  }
  for (int i = 0; i < c->n_outputs; i++)
    if (fresh[i] && gm_dtype_is_float (fresh[i]->meta.dtype)
        && !in_tuple (c->plain, PyTuple_GET_ITEM (results, i))) {
      outs[i] = fresh[i];
      any = true;
    }
  if (!any) {
    Py_DECREF (c);
    g_free (s);
    return true;
  }
  c->node = gm_autograd_attach (function_type (function), s, in, n, outs, c->n_outputs);
  GError *error = NULL;
  for (int i = 0; i < c->n_outputs; i++) {
    PyObject *o = PyTuple_GET_ITEM (results, i);
    if (outs[i] && in_tuple (c->dirty, o)
        && !gm_autograd_set (gm_py_tensor_get (o), fresh[i], &error)) {
      gm_py_raise (error);
      return false;
    }
  }
  return true;
}

static void
note_outputs (Context *c, PyObject *results)
{
  c->n_outputs = (int) PyTuple_GET_SIZE (results);
  c->outputs = g_new0 (GmMeta, c->n_outputs + 1);
  for (int i = 0; i < c->n_outputs; i++) {
    GmTensor *t = gm_py_tensor_get (PyTuple_GET_ITEM (results, i));
    if (t)
      c->outputs[i] = t->meta;
    else
      c->outputs[i].dtype = GM_N_DTYPES;
  }
}

static PyObject *
finish (PyObject *function, Context *c, PyObject *args, PyObject *before, bool record)
{
  note_outputs (c, before);
  g_autofree GmTensor **fresh = g_new0 (GmTensor *, c->n_outputs + 1);
  PyObject *results = check_dirty (c, args, before) ? wrap_results (c, args, before, fresh) : NULL;
  bool ok = results && (!record || attach (function, c, args, results, fresh));
  if (ok && record && c->node)
    ok = save (c, results, before);
  else
    Py_CLEAR (c->to_save);
  for (int i = 0; i < c->n_outputs; i++)
    gm_tensor_unref (fresh[i]);
  if (!ok)
    Py_CLEAR (results);
  return results;
}

static PyObject *
function_apply (PyObject *module, PyObject *all)
{
  PyObject *function, *setup, *args;
  if (!PyArg_ParseTuple (all, "O!OO!:apply", &PyType_Type, &function, &setup, &PyTuple_Type, &args))
    return NULL;
  Context *c = context_new (function, args);
  if (!c)
    return NULL;
  bool mode = gm_grad_set_enabled (false),
       record = mode && place_in (c->needs_input_grad, Py_True) >= 0;
  PyObject *value = run_forward (function, c, args, setup), *result = NULL;
  gm_grad_set_enabled (mode);
  PyObject *before =
      value ? PyTuple_Check (value) ? Py_NewRef (value) : PyTuple_Pack (1, value) : NULL;
  PyObject *results = before ? finish (function, c, args, before, record) : NULL;
  if (results)
    result =
        PyTuple_Check (value) ? Py_NewRef (results) : Py_NewRef (PyTuple_GET_ITEM (results, 0));
  Py_XDECREF (results);
  Py_XDECREF (before);
  Py_XDECREF (value);
  Py_DECREF (c);
  return result;
}

static PyMethodDef functions[] = {
  { "function_apply", function_apply, METH_VARARGS,
    "function_apply(function, setup_context, args)\n\nRuns a Function: setup_context is None where "
    "forward takes the context." },
  { 0 },
};

int
gm_py_init_function (PyObject *module)
{
  if (PyType_Ready (&context_type) < 0 || PyModule_AddFunctions (module, functions) < 0)
    return -1;
  return PyModule_AddObjectRef (module, "FunctionCtx", (PyObject *) &context_type);
}
