/* SPDX-License-Identifier: Apache-2.0
 * autograd_py.c -- autograd from Python: backward, grad, hooks, modes.
 *
 * A hook is Python code that the engine calls in the middle of a walk.  An exception of the hook is
 * parked (errors.c), stops the walk and is raised unchanged by backward().
 */
#include "core/objects/autograd_py.h"
#include "core/objects/call_state.h"
#include "core/objects/node_py.h"

#include "core/objects/import.h"

#include <stddef.h>

GmBackwardWatch gm_py_backward_watch;

/* -- Lists of tensors -------------------------------------------------------------------------- */

enum { FEW = 4 };

/* An argument that is a tensor or a sequence of tensors (and of None, or of gradient edges, if
 * allowed), as borrowed pointers in `items`.  `keep` owns the argument itself: a tensor, or a
 * tuple. */
typedef struct {
  PyObject *keep;
  bool is_one;
  GmTensor **items, *few[FEW];
  int n;
  GPtrArray *made; /* owned tensors that stand for gradient edges; NULL: none */
} List;

static PyObject *
list_item (const List *l, int i)
{
  return l->is_one ? l->keep : PyTuple_GET_ITEM (l->keep, i);
}

/* Makes room for n items in a zeroed list; they are NULL. */
static void
list_room (List *l, int n)
{
  l->n = n;
  l->items = n < FEW ? l->few : g_new0 (GmTensor *, n + 1);
}

static bool
list_init (List *l, PyObject *o, bool none_allowed, bool edges, const char *what)
{
  *l = (List){ 0 };
  if (gm_py_tensor_check (o) || gm_py_edge_check (o)) {
    l->keep = Py_NewRef (o);
    l->is_one = true;
  } else if (PyList_Check (o)) {
    l->keep = PyList_AsTuple (o); /* a copy, since a hook may change the list */
  } else {
    l->keep = PySequence_Tuple (o);
  }
  if (!l->keep)
    return false;
  list_room (l, l->is_one ? 1 : (int) PyTuple_GET_SIZE (l->keep));
  for (int i = 0; i < l->n; i++) {
    PyObject *item = list_item (l, i);
    l->items[i] = gm_py_tensor_get (item);
    if (!l->items[i] && edges && gm_py_edge_check (item)) {
      if (!(l->items[i] = gm_py_edge_tensor (item, NULL)))
        return false;
      if (!l->made)
        l->made = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_tensor_unref);
      g_ptr_array_add (l->made, l->items[i]);
    }
    if (!l->items[i] && !(none_allowed && item == Py_None)) {
      PyErr_Format (PyExc_TypeError, "%s must be tensors, but item %d is a %s", what, i,
                    Py_TYPE (item)->tp_name);
      return false;
    }
  }
  return true;
}

static void
list_clear (List *l)
{
  if (l->items != l->few)
    g_free (l->items);
  g_clear_pointer (&l->made, g_ptr_array_unref);
  Py_CLEAR (l->keep);
}

/* Reads the argument o with the gradients of n roots into l; an item is NULL where no gradient
 * was given.  False with an exception, which calls them `what`. */
static bool
grads_init (List *l, PyObject *o, int n, const char *what)
{
  if (o == Py_None) {
    *l = (List){ 0 };
    list_room (l, n);
    return true;
  }
  if (!list_init (l, o, true, false, what))
    return false;
  if (l->n == n)
    return true;
  PyErr_Format (PyExc_RuntimeError, "got %d %s for %d tensors: give one, or None, for each", l->n,
                what, n);
  return false;
}

/* Replaces roots that are gradient edges by tensors.  An edge that does not know the meta of its
 * tensor takes the meta of its gradient in `given`.  False with an exception. */
static bool
roots_fit (List *roots, const List *given)
{
  for (int i = 0; roots->made && i < roots->n; i++) {
    PyObject *o = list_item (roots, i);
    if (gm_py_tensor_check (o) || gm_py_edge_knows (o))
      continue;
    if (!given->items[i]) {
      PyErr_Format (PyExc_RuntimeError,
                    "root %d is a gradient edge that was not taken of a tensor: give its gradient",
                    i);
      return false;
    }
    if (!(roots->items[i] = gm_py_edge_tensor (o, &given->items[i]->meta)))
      return false;
    g_ptr_array_add (roots->made, roots->items[i]);
  }
  return true;
}

/* True if all gradient edges among the inputs lead to leaves.  False with an exception: no
 * tensor has the grad that backward () would have to set. */
static bool
edges_are_leaves (const List *inputs)
{
  for (guint i = 0; inputs->made && i < inputs->made->len; i++)
    if (!gm_tensor_is_leaf (inputs->made->pdata[i])) {
      PyErr_SetString (PyExc_RuntimeError, "an edge among the inputs of backward() leads to no "
                                           "leaf: there is no tensor whose grad it could be");
      return false;
    }
  return true;
}

/* Returns the truth of the argument retain_graph, where None means create_graph; -1 with an
 * exception. */
static int
retain (PyObject *retain_graph, int create_graph)
{
  return retain_graph == Py_None ? create_graph : PyObject_IsTrue (retain_graph);
}

/* -- Walks ------------------------------------------------------------------------------------- */

static PyObject *
run_backward (PyObject *tensors, PyObject *grads, PyObject *retain_graph, int create_graph,
              PyObject *only)
{
  List roots = { 0 }, given = { 0 }, inputs = { 0 };
  GError *error = NULL;
  bool ok =
      list_init (&roots, tensors, false, true, "tensors")
      && grads_init (&given, grads, roots.n, "gradients") && roots_fit (&roots, &given)
      && (only == Py_None
          || (list_init (&inputs, only, false, true, "inputs") && edges_are_leaves (&inputs)));
  if (ok && only != Py_None && inputs.n == 0) {
    PyErr_SetString (PyExc_RuntimeError,
                     "inputs of backward() is empty: leave it out for all leaves");
    ok = false;
  }
  int keep = ok ? retain (retain_graph, create_graph) : -1;
  GmBackwardScope scope = { 0 };
  ok = keep >= 0 && gm_py_backward_watch.begin (&scope);
  if (ok
      && !(inputs.n ? gm_autograd_backward_to (roots.items, given.items, roots.n, inputs.items,
                                               inputs.n, keep, create_graph, &error)
                    : gm_autograd_backward (roots.items, given.items, roots.n, keep, create_graph,
                                            &error))) {
    gm_py_raise (error);
    ok = false;
  }
  gm_py_backward_watch.end (&scope);
  list_clear (&inputs);
  list_clear (&given);
  list_clear (&roots);
  return ok ? Py_NewRef (Py_None) : NULL;
}

PyObject *
gm_py_tensor_backward (PyObject *self, PyObject *args, PyObject *kwargs)
{
  static char *keywords[] = { "gradient", "retain_graph", "create_graph", "inputs", NULL };
  PyObject *gradient = Py_None, *retain_graph = Py_None, *inputs = Py_None;
  int create_graph = 0;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "|OOpO:backward", keywords, &gradient,
                                    &retain_graph, &create_graph, &inputs))
    return NULL;
  return run_backward (self, gradient, retain_graph, create_graph, inputs);
}

static PyObject *
autograd_backward (PyObject *module, PyObject *args, PyObject *kwargs)
{
  static char *keywords[] = { "tensors",      "grad_tensors", "retain_graph",
                              "create_graph", "inputs",       NULL };
  PyObject *tensors, *grads = Py_None, *retain_graph = Py_None, *inputs = Py_None;
  int create_graph = 0;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "O|OOpO:backward", keywords, &tensors, &grads,
                                    &retain_graph, &create_graph, &inputs))
    return NULL;
  return run_backward (tensors, grads, retain_graph, create_graph, inputs);
}

static GmTensor *
zeros_like (const GmTensor *t, GError **error)
{
  GmMeta m = t->meta;
  m.requires_grad = false;
  gm_meta_set_contiguous (&m);
  return gm_tensor_new_zeros (&m, error);
}

/* Implements grad (is_grads_batched=True) by a function of the package, which calls grad for
 * each row of grad_outputs. */
static PyObject *
call_batched (PyObject *args, PyObject *options)
{
  PyObject *functional = gm_import ("gramme.autograd.functional");
  PyObject *function = functional ? PyObject_GetAttrString (functional, "batched_grad") : NULL;
  PyObject *result = function && args && options ? PyObject_Call (function, args, options) : NULL;
  Py_XDECREF (function);
  Py_XDECREF (functional);
  Py_XDECREF (args);
  Py_XDECREF (options);
  return result;
}

static PyObject *
autograd_grad (PyObject *module, PyObject *args, PyObject *kwargs)
{
  static char *keywords[] = {
    "outputs",     "inputs",       "grad_outputs",     "retain_graph",      "create_graph",
    "only_inputs", "allow_unused", "is_grads_batched", "materialize_grads", NULL
  };
  PyObject *outputs, *inputs, *grads = Py_None, *retain_graph = Py_None, *unused = Py_None;
  int create_graph = 0, only_inputs = 1, batched = 0, materialize = 0;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "OO|OOppOpp:grad", keywords, &outputs, &inputs,
                                    &grads, &retain_graph, &create_graph, &only_inputs, &unused,
                                    &batched, &materialize))
    return NULL;
  if (batched)
    return call_batched (PyTuple_Pack (3, outputs, inputs, grads),
                         Py_BuildValue ("{sOsNsOsN}", "retain_graph", retain_graph, "create_graph",
                                        PyBool_FromLong (create_graph), "allow_unused", unused,
                                        "materialize_grads", PyBool_FromLong (materialize)));
  int allow_unused = unused == Py_None ? materialize : PyObject_IsTrue (unused);
  if (allow_unused < 0)
    return NULL;
  if (!only_inputs) {
    PyErr_SetString (PyExc_ValueError,
                     "grad(only_inputs=False): other leaves get their gradients from backward()");
    return NULL;
  }
  if (materialize && !allow_unused) {
    PyErr_SetString (PyExc_ValueError, "grad(materialize_grads=True) gives zeros for inputs that "
                                       "were not used: allow_unused=False contradicts it");
    return NULL;
  }
  List roots = { 0 }, given = { 0 }, leaves = { 0 };
  GError *error = NULL;
  bool ok = list_init (&roots, outputs, false, true, "outputs")
            && grads_init (&given, grads, roots.n, "grad_outputs") && roots_fit (&roots, &given)
            && list_init (&leaves, inputs, false, true, "inputs");
  int keep = ok ? retain (retain_graph, create_graph) : -1;
  GmBackwardScope scope = { 0 };
  ok = keep >= 0 && gm_py_backward_watch.begin (&scope);
  g_autofree GmTensor **results = g_new0 (GmTensor *, leaves.n + 1);
  if (ok
      && !gm_autograd_grad (roots.items, given.items, roots.n, leaves.items, leaves.n, keep,
                            create_graph, allow_unused, results, &error)) {
    gm_py_raise (error);
    ok = false;
  }
  gm_py_backward_watch.end (&scope);
  PyObject *tuple = ok ? PyTuple_New (leaves.n) : NULL;
  for (int i = 0; i < leaves.n; i++) {
    if (tuple && materialize && !results[i]
        && !(results[i] = zeros_like (leaves.items[i], &error))) {
      gm_py_raise (error);
      Py_CLEAR (tuple);
    }
    PyObject *o = results[i] ? gm_py_tensor_take (results[i]) : Py_NewRef (Py_None);
    if (o && tuple) {
      PyTuple_SET_ITEM (tuple, i, o);
    } else {
      Py_XDECREF (o);
      Py_CLEAR (tuple);
    }
  }
  list_clear (&leaves);
  list_clear (&given);
  list_clear (&roots);
  return tuple;
}

/* -- grad_fn ----------------------------------------------------------------------------------- */

PyObject *
gm_py_tensor_grad_fn (PyObject *self, void *closure)
{
  GmTensor *t = gm_py_tensor_get (self);
  uint32_t nr;
  GmAgNode *n = gm_tensor_grad_fn_name (t) ? gm_tensor_node (t, &nr) : NULL;
  if (!n)
    Py_RETURN_NONE;
  return gm_py_node_take (n);
}

/* -- Hooks ------------------------------------------------------------------------------------- */

typedef enum { ON_TENSOR, AFTER_ACCUMULATION, BEFORE_NODE, AFTER_NODE } HookPlace;

typedef struct {
  PyObject_HEAD GmTensor *t; /* owned; NULL once removed, and for a hook on a node */
  GmAgNode *n;               /* owned, for a hook on a node; NULL once removed */
  uint64_t id;
  HookPlace place;
} HookHandle;

static PyObject *
handle_remove (PyObject *self, PyObject *unused)
{
  HookHandle *h = (HookHandle *) self;
  GmTensor *t = g_steal_pointer (&h->t);
  GmAgNode *n = g_steal_pointer (&h->n);
  if (t && h->place == AFTER_ACCUMULATION)
    gm_tensor_remove_post_hook (t, h->id);
  else if (t)
    gm_tensor_remove_hook (h->id);
  if (n)
    gm_node_remove_hook (n, h->place == BEFORE_NODE, h->id);
  gm_tensor_unref (t);
  gm_node_unref (n);
  Py_RETURN_NONE;
}

static PyObject *
handle_enter (PyObject *self, PyObject *unused)
{
  return Py_NewRef (self);
}

static PyObject *
handle_exit (PyObject *self, PyObject *args)
{
  return handle_remove (self, NULL);
}

static void
handle_dealloc (PyObject *self)
{
  gm_tensor_unref (((HookHandle *) self)->t);
  gm_node_unref (((HookHandle *) self)->n);
  PyObject_Free (self);
}

static PyMethodDef handle_methods[] = {
  { "remove", handle_remove, METH_NOARGS,
    "remove()\n\nTakes the hook off its tensor; doing it again is harmless." },
  { "__enter__", handle_enter, METH_NOARGS, NULL },
  { "__exit__", handle_exit, METH_VARARGS, NULL },
  { 0 },
};

/* Implements __class__ of a hook's handle: isinstance () sees the class of the handles of
 * modules and optimizers. */
static PyObject *
handle_class (PyObject *self, void *closure)
{
  PyObject *module = gm_import ("gramme.utils.hooks");
  PyObject *class = module ? PyObject_GetAttrString (module, "RemovableHandle") : NULL;
  Py_XDECREF (module);
  return class;
}

static PyGetSetDef handle_getset[] = {
  { "__class__", handle_class },
  { NULL },
};

PyTypeObject gm_py_hook_handle_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.HookHandle",
  .tp_basicsize = sizeof (HookHandle),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_dealloc = handle_dealloc,
  .tp_methods = handle_methods,
  .tp_getset = handle_getset,
};

GmTensor *
gm_py_call_hook (void *data, GmTensor *grad, GError **error)
{
  PyGILState_STATE gil = PyGILState_Ensure ();
  GmTensor *replacement = NULL;
  PyObject *o = gm_py_tensor_wrap (grad);
  Py_INCREF ((PyObject *) data); /* the hook may remove itself */
  PyObject *result = o ? PyObject_CallOneArg (data, o) : NULL;
  if (result && G_UNLIKELY (gm_stretch_cache_entered ()))
    gm_py_backward_watch.hook_called (data, grad);
  Py_DECREF ((PyObject *) data);
  if (!result) {
    gm_py_error_set (error);
  } else if (gm_py_tensor_check (result)) {
    replacement = gm_tensor_ref (gm_py_tensor_get (result));
  } else if (result != Py_None) {
    PyErr_Format (PyExc_TypeError, "a hook must return a Tensor or None, not %s",
                  Py_TYPE (result)->tp_name);
    gm_py_error_set (error);
  }
  Py_XDECREF (result);
  Py_XDECREF (o);
  PyGILState_Release (gil);
  return replacement;
}

static bool
call_post_hook (void *data, GmTensor *leaf, GError **error)
{
  PyGILState_STATE gil = PyGILState_Ensure ();
  PyObject *o = gm_py_tensor_wrap (leaf);
  Py_INCREF ((PyObject *) data);
  PyObject *result = o ? PyObject_CallOneArg (data, o) : NULL;
  Py_DECREF ((PyObject *) data);
  if (result && result != Py_None)
    PyErr_Format (PyExc_RuntimeError, "a hook after accumulation must return None, not %s",
                  Py_TYPE (result)->tp_name);
  bool ok = result == Py_None;
  if (!ok)
    gm_py_error_set (error);
  Py_XDECREF (result);
  Py_XDECREF (o);
  PyGILState_Release (gil);
  return ok;
}

static void
drop_hook (void *data)
{
  if (!Py_IsInitialized ())
    return;
  PyGILState_STATE gil = PyGILState_Ensure ();
  Py_DECREF ((PyObject *) data);
  PyGILState_Release (gil);
}

static PyObject *
register_hook (PyObject *self, PyObject *hook, bool post)
{
  GmTensor *t = gm_py_tensor_get (self);
  if (!PyCallable_Check (hook)) {
    PyErr_Format (PyExc_TypeError, "a hook must be callable, not %s", Py_TYPE (hook)->tp_name);
    return NULL;
  }
  if (!gm_tensor_requires_grad (t)) {
    PyErr_SetString (
        PyExc_RuntimeError,
        "cannot register a hook on a tensor that does not require grad: no gradient will come");
    return NULL;
  }
  if (post && !gm_tensor_is_leaf (t)) {
    PyErr_SetString (PyExc_RuntimeError,
                     "post accumulate grad hooks cannot be registered on non-leaf tensors");
    return NULL;
  }
  HookHandle *h = PyObject_New (HookHandle, &gm_py_hook_handle_type);
  if (!h)
    return NULL;
  h->t = gm_tensor_ref (t);
  h->n = NULL;
  h->place = post ? AFTER_ACCUMULATION : ON_TENSOR;
  h->id = post ? gm_tensor_add_post_hook (t, call_post_hook, Py_NewRef (hook), drop_hook)
               : gm_tensor_add_hook (t, gm_py_call_hook, Py_NewRef (hook), drop_hook);
  return (PyObject *) h;
}

PyObject *
gm_py_node_handle (GmAgNode *n, bool before, uint64_t id)
{
  HookHandle *h = PyObject_New (HookHandle, &gm_py_hook_handle_type);
  if (!h)
    return NULL;
  h->t = NULL;
  h->n = gm_node_ref (n);
  h->id = id;
  h->place = before ? BEFORE_NODE : AFTER_NODE;
  return (PyObject *) h;
}

PyObject *
gm_py_tensor_register_hook (PyObject *self, PyObject *hook)
{
  return register_hook (self, hook, false);
}

PyObject *
gm_py_tensor_register_post_hook (PyObject *self, PyObject *hook)
{
  return register_hook (self, hook, true);
}

/* -- Final callbacks --------------------------------------------------------------------------- */

static bool
call_final (void *data, GError **error)
{
  PyGILState_STATE gil = PyGILState_Ensure ();
  PyObject *result = PyObject_CallNoArgs (data);
  bool ok = result || gm_py_error_set (error);
  Py_XDECREF (result);
  PyGILState_Release (gil);
  return ok;
}

static PyObject *
queue_callback (PyObject *module, PyObject *function)
{
  GError *error = NULL;
  if (!PyCallable_Check (function))
    return PyErr_Format (PyExc_TypeError, "a callback must be callable, not %s",
                         Py_TYPE (function)->tp_name);
  if (gm_autograd_queue_callback (call_final, Py_NewRef (function), drop_hook, &error))
    Py_RETURN_NONE;
  Py_DECREF (function);
  return gm_py_raise (error);
}

/* -- Saved-tensor hooks ------------------------------------------------------------------------ */

typedef struct {
  PyObject *pack, *unpack;
  PyObject *traced; /* a pair that compiled functions may make part of their graphs, or None */
} SavedHooks;

static void *
call_pack (void *data, GmTensor *t, GError **error)
{
  PyGILState_STATE gil = PyGILState_Ensure ();
  PyObject *o = gm_py_tensor_wrap (t);
  gm_failed_program_calls++;
  PyObject *packed = o ? PyObject_CallOneArg (((SavedHooks *) data)->pack, o) : NULL;
  if (!packed)
    gm_py_error_set (error);
  Py_XDECREF (o);
  PyGILState_Release (gil);
  return packed;
}

static GmTensor *
call_unpack (void *data, void *packed, GError **error)
{
  PyGILState_STATE gil = PyGILState_Ensure ();
  PyObject *o = PyObject_CallOneArg (((SavedHooks *) data)->unpack, packed);
  GmTensor *t = o ? gm_py_tensor_get (o) : NULL;
  if (t)
    gm_tensor_ref (t);
  else if (o)
    PyErr_Format (PyExc_TypeError, "an unpack hook must return a Tensor, not %s",
                  Py_TYPE (o)->tp_name);
  if (!t)
    gm_py_error_set (error);
  Py_XDECREF (o);
  PyGILState_Release (gil);
  return t;
}

static void
destroy_saved_hooks (void *data)
{
  SavedHooks *h = data;
  drop_hook (h->pack);
  drop_hook (h->unpack);
  drop_hook (h->traced);
  g_free (h);
}

static const GmSavedHooksType saved_hooks_type = { call_pack, call_unpack, drop_hook,
                                                   destroy_saved_hooks };

bool
gm_py_saved_hooks_traced (PyObject **pack, PyObject **unpack)
{
  const SavedHooks *h = gm_saved_hooks_top_of (&saved_hooks_type);
  if (!h || h->traced == Py_None)
    return false;
  *pack = PyTuple_GET_ITEM (h->traced, 0);
  *unpack = PyTuple_GET_ITEM (h->traced, 1);
  return true;
}

static PyObject *
saved_hooks_push (PyObject *module, PyObject *args)
{
  PyObject *pack, *unpack, *traced = Py_None;
  GError *error = NULL;
  if (!PyArg_ParseTuple (args, "OO|O:saved_tensors_hooks", &pack, &unpack, &traced))
    return NULL;
  if (traced != Py_None && !(PyTuple_Check (traced) && PyTuple_GET_SIZE (traced) == 2))
    return PyErr_Format (PyExc_TypeError, "what is traced is a pair or None, not %R", traced);
  SavedHooks *h = g_new (SavedHooks, 1);
  *h = (SavedHooks){ Py_NewRef (pack), Py_NewRef (unpack), Py_NewRef (traced) };
  if (gm_saved_hooks_push (&saved_hooks_type, h, &error))
    Py_RETURN_NONE;
  destroy_saved_hooks (h);
  return gm_py_raise (error);
}

static PyObject *
saved_hooks_pop (PyObject *module, PyObject *unused)
{
  gm_saved_hooks_pop ();
  Py_RETURN_NONE;
}

static PyObject *
saved_hooks_refuse (PyObject *module, PyObject *why)
{
  const char *text = why == Py_None ? NULL : PyUnicode_AsUTF8 (why);
  if (!text && PyErr_Occurred ())
    return NULL;
  const char *old = gm_saved_hooks_refuse (text);
  return old ? PyUnicode_FromString (old) : Py_NewRef (Py_None);
}

/* -- Regions that are computed again ----------------------------------------------------------- */

typedef struct {
  PyObject *function, *args, *kwargs; /* kwargs: a dict or NULL */
} Region;

static bool
region_run (void *data, GError **error)
{
  Region *r = data;
  PyGILState_STATE gil = PyGILState_Ensure ();
  gm_hook_suspend ();
  PyObject *result = PyObject_Call (r->function, r->args, r->kwargs);
  gm_hook_unsuspend ();
  bool ok = result || gm_py_error_set (error);
  Py_XDECREF (result);
  PyGILState_Release (gil);
  return ok;
}

static void
region_destroy (void *data)
{
  Region *r = data;
  if (Py_IsInitialized ()) {
    PyGILState_STATE gil = PyGILState_Ensure ();
    Py_DECREF (r->function);
    Py_DECREF (r->args);
    Py_XDECREF (r->kwargs);
    PyGILState_Release (gil);
  }
  g_free (r);
}

static void
region_watch (GmRegion *r, PyObject *o)
{
  GmTensor *t = gm_py_tensor_get (o);
  if (t)
    gm_region_watch (r, t);
}

/* Compiles and runs an operator over graphs, such as cond, when Python calls it.  The recorder
 * knows this function by its address and records the operator instead of calling it. */
static PyObject *
higher_order (PyObject *module, PyObject *args)
{
  PyObject *package = gm_import ("gramme.higher_order");
  PyObject *run = package ? PyObject_GetAttrString (package, "_eagerly") : NULL;
  PyObject *result = run ? PyObject_Call (run, args, NULL) : NULL;
  Py_XDECREF (run);
  Py_XDECREF (package);
  return result;
}

static PyObject *
checkpoint (PyObject *module, PyObject *args)
{
  PyObject *function, *positional, *keywords = NULL, *key, *value;
  if (!PyArg_ParseTuple (args, "OO!|O!:checkpoint", &function, &PyTuple_Type, &positional,
                         &PyDict_Type, &keywords))
    return NULL;
  if (!gm_grad_enabled ())
    return PyObject_Call (function, positional, keywords);
  Region *data = g_new (Region, 1);
  *data = (Region){ Py_NewRef (function), Py_NewRef (positional), Py_XNewRef (keywords) };
  GmRegion *r = gm_region_new (region_run, data, region_destroy);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (positional); i++)
    region_watch (r, PyTuple_GET_ITEM (positional, i));
  for (Py_ssize_t at = 0; keywords && PyDict_Next (keywords, &at, &key, &value);)
    region_watch (r, value);
  gm_region_open (r);
  /* Both runs must record the same, and it is not certain that both would be captured. */
  gm_hook_suspend ();
  PyObject *result = PyObject_Call (function, positional, keywords);
  gm_hook_unsuspend ();
  gm_region_close (r);
  gm_region_unref (r);
  return result;
}

/* -- grad -------------------------------------------------------------------------------------- */

PyObject *
gm_py_tensor_get_grad (PyObject *self, void *closure)
{
  GmTensor *grad = gm_tensor_grad (gm_py_tensor_get (self));
  return grad ? gm_py_tensor_wrap (grad) : Py_NewRef (Py_None);
}

int
gm_py_tensor_set_grad (PyObject *self, PyObject *value, void *closure)
{
  GmTensor *t = gm_py_tensor_get (self);
  if (!value || value == Py_None) {
    gm_tensor_set_grad (t, NULL);
    return 0;
  }
  GmTensor *grad = gm_py_tensor_get (value);
  if (!grad) {
    PyErr_Format (PyExc_TypeError, "grad must be a Tensor or None, not %s",
                  Py_TYPE (value)->tp_name);
    return -1;
  }
  if (grad == t || grad->meta.dtype != t->meta.dtype
      || !gm_meta_same_shape (&grad->meta, &t->meta)) {
    g_autofree char *want = gm_meta_text (&t->meta), *got = gm_meta_text (&grad->meta);
    PyErr_Format (
        PyExc_RuntimeError,
        "the grad of a tensor %s must be another tensor of the same shape and dtype, not %s", want,
        got);
    return -1;
  }
  gm_tensor_set_grad (t, grad);
  return 0;
}

/* -- Modes ------------------------------------------------------------------------------------- */

static PyObject *
set_grad_enabled (PyObject *module, PyObject *mode)
{
  int on = PyObject_IsTrue (mode);
  return on < 0 ? NULL : PyBool_FromLong (gm_grad_set_enabled (on));
}

static PyObject *
is_grad_enabled (PyObject *module, PyObject *unused)
{
  return PyBool_FromLong (gm_grad_enabled ());
}

PyMethodDef gm_py_autograd_functions[] = {
  { "autograd_backward", (PyCFunction) (void *) autograd_backward, METH_VARARGS | METH_KEYWORDS,
    "backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None)\n\n"
    "Adds the gradients of `tensors` to the grad of the leaves that they came from, or of `inputs` "
    "alone." },
  { "queue_callback", queue_callback, METH_O,
    "queue_callback(function)\n\nCalls function() at the end of the backward that is running, "
    "after everything else." },
  { "autograd_grad", (PyCFunction) (void *) autograd_grad, METH_VARARGS | METH_KEYWORDS,
    "grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, "
    "only_inputs=True, allow_unused=None, "
    "is_grads_batched=False, materialize_grads=False)\n\n"
    "The gradients of `outputs` with respect to `inputs`, as a tuple; touches no grad attribute.  "
    "Of an input that was not used: an error,\n"
    "None with allow_unused, zeros with materialize_grads.  is_grads_batched: grad_outputs have a "
    "dimension more in front, and so have the\n"
    "gradients, which are computed one after the other.  only_inputs is there for torch's sake and "
    "must be true." },
  { "higher_order", higher_order, METH_VARARGS,
    "higher_order(op, functions, operands, n_carried, n_mapped, reverse)\n\n"
    "What gramme.cond and its kin are made of: (spec, results)." },
  { "checkpoint", checkpoint, METH_VARARGS,
    "checkpoint(function, args, kwargs={})\n\n"
    "function(*args, **kwargs) as a region that is computed again in the backward." },
  { "saved_hooks_push", saved_hooks_push, METH_VARARGS,
    "saved_hooks_push(pack, unpack, traced=None)\n\nPuts a pair of saved-tensor hooks on this "
    "thread's stack; traced: the pair\n"
    "that a compiled function makes part of its graphs." },
  { "saved_hooks_pop", saved_hooks_pop, METH_NOARGS,
    "saved_hooks_pop()\n\nTakes the innermost pair off." },
  { "saved_hooks_refuse", saved_hooks_refuse, METH_O,
    "saved_hooks_refuse(text)\n\nA push raises RuntimeError(text) from now on; None: it does not.  "
    "Returns the old text." },
  { "set_grad_enabled", set_grad_enabled, METH_O,
    "set_grad_enabled(mode)\n\nSets this thread's grad mode; returns the old one." },
  { "is_grad_enabled", is_grad_enabled, METH_NOARGS,
    "is_grad_enabled()\n\nWhether operations are recorded on this thread." },
  { 0 },
};

int
gm_py_init_autograd (PyObject *module)
{
  return gm_py_init_node (module) < 0 || PyType_Ready (&gm_py_hook_handle_type) < 0 ? -1 : 0;
}
