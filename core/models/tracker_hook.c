/* SPDX-License-Identifier: Apache-2.0
 * tracker_hook.c -- hooks that a program registers on its tensors, and their handles.
 *
 * A hook on an argument is no part of the graph: the gradient that reaches the argument is the same
 * no matter when before the backward the hook is registered. So a registration is a side effect,
 * replayed after the graph on the real tensor, and the handle is a new object that is built by
 * registering; if an earlier effect needs the handle, all earlier hooks are registered first,
 * because hooks run in their order. A handle's heap slot tells if its hook was removed: then
 * nothing is replayed, unless the handle itself lives on.
 * A tensor that the function makes is inside of the graph, where no real tensor would see the
 * gradient: there a hook that existed before is a node (gradient_hook), and its removal another
 * node on that; a hook that was made in the region breaks.
 * Invariant: a tensor without a source has no registration to replay.
 */
#include "core/trace/exception.h"
#include "core/objects/import.h"

enum { LIVE = 1 };

static const GmTracker *
state (GmRecorder *r, bool live)
{
  return gm_tracker (r, .kind = &gm_kind_contents, .number = live ? LIVE : 0);
}

bool
gm_hook_is_live (const GmRecorder *r, const GmTracker *handle)
{
  return gm_heap_load (&r->heap, handle->id, 0)->number == LIVE;
}

bool
gm_hook_pending (GmRecorder *r, GmValueId input)
{
  for (uint32_t i = 0; i < r->effects->len; i++) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    if (e->kind == GM_EFFECT_HOOK
        && gm_inputs_share (r, (GmValueId) gm_contents_of (r, e->args[0])->number, input)
        && (e->n == 1 || gm_hook_is_live (r, e->args[2])))
      return true;
  }
  return false;
}

/* -- Registering ----------------------------------------------------------- */

static bool
is_written (GmRecorder *r, GmValueId value)
{
  bool written = gm_graph_value (r->graph, value)->node != GM_NO_ID;
  for (uint32_t i = 0; i < r->mutated->len; i++)
    written |= gm_inputs_share (r, g_array_index (r->mutated, GmValueId, i), value);
  return written;
}

/* Adds a hook on `value` as a node of the graph, with the function's address, which is guarded.
 * Returns the handle, whose number is the node's value plus 1; poison after a break. */
static const GmTracker *
add_node (GmRecorder *r, GmValueId value, GmHostFunction *host)
{
  GmHigher *h = gm_higher_new (GM_OP_gradient_hook);
  h->host = host;
  GmAttrs at = { .mask = 1u << GM_ATTR_DIM | 1u << GM_ATTR_OFFSET,
                 .offset = gm_graph_add_higher (r->graph, h) };
  GmVal in = gm_val_from_id (value);
  r->builder.where = gm_record_where (r);
  GmVal v = gm_b_op (&r->builder.base, GM_OP_gradient_hook, &in, 1, &at);
  if (!v) {
    gm_record_break (r, GM_BREAK_TENSOR_ERROR, "register_hook", r->builder.base.error->message);
    g_clear_error (&r->builder.base.error);
    return &gm_tracker_poison;
  }
  uint32_t id = gm_heap_add (&r->heap, 1);
  const GmTracker *handle = gm_tracker_add (
      r, &(GmTracker){
             .kind = &gm_kind_hook_handle, .id = id, .number = (int64_t) gm_id_from_val (v) + 1 });
  gm_contents_set (r, handle, state (r, true));
  return handle;
}

static bool
is_inside (GmRecorder *r, const GmTracker *t, const GmTracker *fn, const char *name)
{
  return !t->source && fn->source && fn->real && r->n_bodies == 0 && gm_host.host_hook
         && strcmp (name, "register_hook") == 0
         && gm_graph_meta (r->graph, (GmValueId) gm_contents_of (r, t)->number)->requires_grad;
}

/* True if a hook registered on the real tensor will see the intended gradient.  False, with a
 * break or with an exception of the program (`refusal` is its text). */
static bool
may_register (GmRecorder *r, const GmTracker *t, const char *name, const char *refusal)
{
  GmValueId value = (GmValueId) gm_contents_of (r, t)->number;
  if (!gm_graph_meta (r->graph, value)->requires_grad)
    gm_raise_new (r, PyExc_RuntimeError, "%s", refusal);
  else if (t->source == NULL || t->real == NULL)
    gm_record_break (r, GM_BREAK_TENSOR_HOOK, name, "makes");
  else if (is_written (r, value))
    gm_record_break (r, GM_BREAK_TENSOR_HOOK, name, "has changed in place");
  return !r->stop;
}

static bool
is_callable (GmRecorder *r, const GmTracker *fn)
{
  PyTypeObject *type = gm_type_of (r, fn);
  if (type == NULL || r->stop)
    return false;
  if (type->tp_call == NULL)
    gm_raise_new (r, PyExc_TypeError, "a hook must be callable, not %s", type->tp_name);
  return !r->stop;
}

static const GmTracker *
register_one (GmRecorder *r, const GmTracker *t, const GmCallArgs *args, const char *name)
{
  if (!gm_args_plain (r, name, args, 1, 1))
    return &gm_tracker_poison;
  const GmTracker *fn = gm_realize (r, args->args[0]);
  if (r->stop || !is_callable (r, fn))
    return &gm_tracker_poison;
  if (is_inside (r, t, fn, name)) {
    gm_guard (r, IS, fn->source, .obj = fn->real);
    GmHostFunction *host = gm_host.host_hook (fn->real);
    if (!host) /* while a compiled backward runs, no leaf has got its gradient yet */
      return gm_record_break (r, GM_BREAK_TENSOR_HOOK, "a hook that may read .grad", "makes");
    return add_node (r, (GmValueId) gm_contents_of (r, t)->number, host);
  }
  if (!may_register (
          r, t, name,
          "cannot register a hook on a tensor that does not require grad: no gradient will come"))
    return &gm_tracker_poison;
  if (fn->source && fn->real)
    gm_guard (r, IS, fn->source, .obj = fn->real);
  gm_tensor_look (r, t);
  const GmTracker **items = gm_tracker_array (r, 2);
  items[0] = t;
  items[1] = fn;
  uint32_t id = gm_heap_add (&r->heap, 1);
  const GmTracker *handle = gm_tracker_add (
      r, &(GmTracker){ .kind = &gm_kind_hook_handle, .items = items, .n = 2, .id = id });
  gm_contents_set (r, handle, state (r, true));
  const GmTracker *parts[3] = { t, fn, handle };
  PyObject *method = gm_record_take (r, PyUnicode_InternFromString (name));
  gm_effect (r, GM_EFFECT_HOOK, NULL, method, parts, 3);
  return handle;
}

static const GmTracker *
register_hook (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return register_one (r, t, args, "register_hook");
}

static bool
is_leaf (GmRecorder *r, PyObject *tensor)
{
  PyObject *yes = PyObject_GetAttrString (tensor, "is_leaf");
  return yes && gm_record_take (r, yes) == Py_True;
}

/* Registers a hook on a leaf that runs after its gradient was accumulated, and returns the
 * handle. That the tensor is a leaf is not guarded: for another tensor the replay raises what eager
 * raises. */
static const GmTracker *
register_post_hook (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  const char *name = "register_post_accumulate_grad_hook";
  if (gm_exception_guarded (r))
    return gm_record_break (r, GM_BREAK_TRY_BLOCK, name);
  if (t->real && !is_leaf (r, t->real))
    return gm_raise_new (r, PyExc_RuntimeError,
                         "post accumulate grad hooks cannot be registered on non-leaf tensors");
  return register_one (r, t, args, name);
}

static const GmTracker *
retain_grad (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "retain_grad", args, 0, 0)
      || !may_register (r, t, "retain_grad",
                        "cannot retain the grad of a tensor that does not require grad"))
    return &gm_tracker_poison;
  gm_tensor_look (r, t);
  PyObject *method = gm_record_take (r, PyUnicode_InternFromString ("retain_grad"));
  gm_effect (r, GM_EFFECT_HOOK, NULL, method, &t, 1);
  return gm_none (r);
}

const GmTracker *
gm_hook_method (GmRecorder *r, const GmTracker *tensor, PyObject *name)
{
  static const GmMethodRow rows[] = {
    { "register_hook", register_hook },
    { "register_post_accumulate_grad_hook", register_post_hook },
    { "retain_grad", retain_grad },
    { NULL, NULL },
  };
  return gm_method_row (r, rows, tensor, name);
}

/* -- Handles --------------------------------------------------------------- */

/* Removes the hook of a handle; a second call does nothing. */
static const GmTracker *
handle_remove (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (t->real) {
    PyObject *fn = PyDict_GetItemString (gm_type_dict (Py_TYPE (t->real)), "remove");
    gm_effect (r, GM_EFFECT_CALL, fn, NULL, &t, 1);
  } else {
    if (t->number && gm_hook_is_live (r, t))
      add_node (r, (GmValueId) (t->number - 1), NULL);
    if (!r->stop)
      gm_contents_set (r, t, state (r, false));
  }
  return gm_none (r);
}

static const GmTracker *
handle_enter (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return t;
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  static const GmMethodRow rows[] = {
    { "remove", handle_remove },
    { "__enter__", handle_enter },
    { "__exit__", handle_remove },
    { NULL, NULL },
  };
  if (PyUnicode_CompareWithASCIIString (name, "__class__") == 0) { /* the class of other handles */
    PyObject *module = gm_import ("gramme.utils.hooks");
    PyObject *class = module ? PyObject_GetAttrString (module, "RemovableHandle") : NULL;
    Py_XDECREF (module);
    if (class == NULL)
      return gm_record_break_exception (r);
    gm_record_take (r, class);
    return gm_wrap (r, class, gm_source_const (r, class, "RemovableHandle"));
  }
  const GmTracker *bound = gm_method_row (r, rows, t, name);
  return bound ? bound
               : gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "hook handle");
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return gm_host.hook_handle_type;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

const GmTracker *
gm_wrap_hook_handle (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, TYPE, source, .obj = (PyObject *) Py_TYPE (real));
  const GmTracker *t = gm_tracker (r, .kind = &gm_kind_hook_handle, .real = real, .source = source);
  gm_know (r, t);
  return t;
}

/* -- Code ------------------------------------------------------------------ */

static void
emit_call (GmResidualBuilder *b, const GmTracker *self, PyObject *method, const GmTracker *argument)
{
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_value (b, self);
  gm_residual_emit (b, GM_INSN_LOAD_ATTR, 0, method);
  if (argument)
    gm_residual_value (b, argument);
  gm_residual_emit (b, GM_INSN_CALL, argument != NULL, NULL);
}

static const GmEffect *
registration (GmRecorder *r, const GmTracker *handle)
{
  for (uint32_t i = 0; i < r->effects->len; i++) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    if (e->kind == GM_EFFECT_HOOK && e->n == 3 && e->args[2] == handle)
      return e;
  }
  g_assert_not_reached ();
}

void
gm_hook_emit (GmResidualBuilder *b, const GmTracker *handle)
{
  GmRecorder *r = gm_residual_recorder (b);
  const GmEffect *last = registration (r, handle);
  const GmEffect *first = &g_array_index (r->effects, GmEffect, 0);
  for (const GmEffect *e = first; e <= last && !r->stop; e++) {
    if (e->kind != GM_EFFECT_HOOK || e->n != 3 || e->args[0] != last->args[0]
        || gm_residual_is_built (b, e->args[2]) || (e != last && !gm_hook_is_live (r, e->args[2])))
      continue;
    g_assert (e->args[0]->source != NULL && e->args[0]->real != NULL);
    emit_call (b, e->args[0], e->name, e->args[1]);
    gm_residual_allocated (b, e->args[2]);
  }
}

void
gm_hook_emit_retain (GmResidualBuilder *b, const GmTracker *tensor, PyObject *method)
{
  g_assert (tensor->source != NULL && tensor->real != NULL);
  emit_call (b, tensor, method, NULL);
  gm_residual_emit (b, GM_INSN_POP_TOP, 0, NULL);
}

/* Emits code for a handle whose hook was removed: the hook is registered and removed again, so
 * that the handle is as real as others. */
static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  if (t->number)
    return false; /* there is no tensor to remove the hook from */
  if (gm_residual_cached (b, t))
    return true;
  gm_hook_emit (b, t);
  if (!gm_hook_is_live (r, t)) {
    emit_call (b, t, gm_record_take (r, PyUnicode_InternFromString ("remove")), NULL);
    gm_residual_emit (b, GM_INSN_POP_TOP, 0, NULL);
  }
  return gm_residual_cached (b, t);
}

const GmTrackerKind gm_kind_hook_handle = {
  .name = "hook handle",
  .type = type,
  .truth = truth,
  .getattr = getattr,
  .build = build,
};
