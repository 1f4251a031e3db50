/* SPDX-License-Identifier: Apache-2.0
 * autograd_function.c -- autograd.Function while recording: both sides in the graph.
 *
 * forward is a body whose nodes require no grad. backward is recorded right after it, as a body
 * over stand-ins for the incoming gradients; its nodes are moved out into a graph of their own, and
 * `custom` nodes tie the results to the arguments (graph.h). A context made in the region never
 * leaves it; the calls on an existing context are replayed when the graph has run.
 * Breaks if the two sides cannot be recorded at once: for an in-place operation or a random number
 * in backward, a result that is an argument, gradients that may be None.
 */
#include "core/models/autograd_function.h"

#include "core/graph/checks.h"
#include "core/trace/attrs.h"
#include "core/models/body.h"
#include "core/models/models.h"

#include <string.h>

/* -- Contexts ---------------------------------------------------------------------------------- */

/* Names under which the recorder keeps the state of a new context, beside the program's
 * attributes; no program can spell them. */
#define SAVED " saved"
#define PLAIN " non-differentiable"
#define DIRTY " dirty"
#define NEEDS " needs"
#define NO_ZEROS " none for zeros"

static PyObject *
interned (GmRecorder *r, const char *name)
{
  return gm_record_take (r, PyUnicode_InternFromString (name));
}

static const GmTracker *
hidden (GmRecorder *r, const GmTracker *ctx, const char *name)
{
  return gm_attrs_get (r, ctx, interned (r, name));
}

static void
hide (GmRecorder *r, const GmTracker *ctx, const char *name, const GmTracker *value)
{
  gm_attrs_set (r, ctx, interned (r, name), value);
}

/* Records a call of a method of the context ctx: for a context made in the region, keeps the
 * arguments under `name`; for an existing context, adds an effect that calls the method after the
 * graph. */
static const GmTracker *
tell (GmRecorder *r, const GmTracker *ctx, const char *method, const char *name,
      const GmCallArgs *args)
{
  if (args->names)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                            "a method of a context with named arguments");
  if (ctx->real) {
    const GmTracker **all = gm_tracker_array (r, args->n + 1);
    all[0] = ctx;
    gm_tracker_copy (all + 1, args->args, args->n);
    gm_effect (r, GM_EFFECT_CALL,
               PyDict_GetItemString (((PyTypeObject *) gm_host.context_type)->tp_dict, method),
               NULL, all, args->n + 1);
  } else {
    hide (r, ctx, name, gm_tuple_new (r, args->args, args->n));
  }
  return gm_none (r);
}

static const GmTracker *
save_for_backward (GmRecorder *r, const GmTracker *ctx, const GmCallArgs *args)
{
  for (uint32_t i = 0; i < args->n; i++) {
    const GmTracker *t = gm_realize (r, args->args[i]);
    if (r->stop)
      return &gm_tracker_poison;
    if (t->kind != &gm_kind_tensor && t->real != Py_None)
      return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                              "save_for_backward() of something that is no tensor");
  }
  return tell (r, ctx, "save_for_backward", SAVED, args);
}

static const GmTracker *
mark_dirty (GmRecorder *r, const GmTracker *ctx, const GmCallArgs *args)
{
  return tell (r, ctx, "mark_dirty", DIRTY, args);
}

static const GmTracker *
mark_non_differentiable (GmRecorder *r, const GmTracker *ctx, const GmCallArgs *args)
{
  return tell (r, ctx, "mark_non_differentiable", PLAIN, args);
}

static const GmTracker *
set_materialize_grads (GmRecorder *r, const GmTracker *ctx, const GmCallArgs *args)
{
  if (ctx->real || args->n != 1)
    return tell (r, ctx, "set_materialize_grads", NO_ZEROS, args);
  hide (r, ctx, NO_ZEROS, gm_from_bool (r, !gm_truth (r, args->args[0])));
  return gm_none (r);
}

const GmTracker *
gm_context_getattr (GmRecorder *r, const GmTracker *ctx, PyObject *name)
{
  static const GmMethodRow rows[] = { { "save_for_backward", save_for_backward },
                                      { "mark_dirty", mark_dirty },
                                      { "mark_non_differentiable", mark_non_differentiable },
                                      { "set_materialize_grads", set_materialize_grads },
                                      { NULL, NULL } };
  const GmTracker *bound = gm_method_row (r, rows, ctx, name);
  if (bound)
    return bound;
  bool saved = PyUnicode_CompareWithASCIIString (name, "saved_tensors") == 0;
  if (!saved && PyUnicode_CompareWithASCIIString (name, "needs_input_grad") != 0)
    return NULL;
  if (ctx->real)
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name),
                            "context of an autograd.Function");
  const GmTracker *v = hidden (r, ctx, saved ? SAVED : NEEDS);
  return v ? v : gm_tuple_new (r, NULL, 0);
}

/* -- Forward ----------------------------------------------------------------------------------- */

typedef struct {
  GmRecorder *r;
  PyTypeObject *function;
  const char *op; /* "Square.forward" */
  const GmTracker *cls, *setup, *ctx;
  const GmTracker *const *args;
  uint32_t n_args;
  const GmTracker *const *results;
  uint32_t n_results;
  GHashTable *changed; /* a set: heap objects that forward changed and that existed before */
} Call;

static GmValueId
value_of (GmRecorder *r, const GmTracker *tensor)
{
  return (GmValueId) gm_contents_of (r, tensor)->number;
}

static const GmMeta *
meta_of (GmRecorder *r, const GmTracker *tensor)
{
  return gm_graph_meta (r->graph, value_of (r, tensor));
}

static bool
needs_grad (GmRecorder *r, const GmTracker *t)
{
  return t->kind == &gm_kind_tensor && meta_of (r, t)->requires_grad;
}

/* Returns function.name (ctx, *args), run with gradients off.  changed: NULL, or a set that gets
 * the objects that the call changes; NULL forbids changes.  Returns poison after a break. */
static const GmTracker *
run_side (Call *c, const char *name, const GmTracker *ctx, const GmTracker *const *args, uint32_t n,
          GHashTable *changed)
{
  GmRecorder *r = c->r;
  const GmTracker *fn = gm_getattr (r, c->cls, interned (r, name));
  g_autofree const GmTracker **all = gm_tracker_array_own (n + 1);
  uint32_t at = 0;
  if (r->stop)
    return &gm_tracker_poison;
  if (ctx)
    all[at++] = ctx;
  for (uint32_t i = 0; i < n; i++)
    all[at++] = args[i];
  g_autofree char *op = g_strdup_printf ("%s.%s", c->function->tp_name, name);
  bool mode = gm_grad_mode_get (r);
  gm_grad_mode_set (r, false);
  const GmTracker *v =
      gm_body_run_once (r, op, fn, &(GmCallArgs){ all, at, NULL }, c->ctx->id, changed);
  if (!r->stop)
    gm_grad_mode_set (r, mode);
  return r->stop ? &gm_tracker_poison : gm_realize (r, v);
}

static const GmTracker *
run_forward (Call *c)
{
  GmRecorder *r = c->r;
  if (c->setup->real == Py_None)
    return run_side (c, "forward", c->ctx, c->args, c->n_args, c->changed);
  const GmTracker *v = run_side (c, "forward", NULL, c->args, c->n_args, c->changed);
  if (r->stop)
    return v;
  const GmTracker *more[2] = { gm_tuple_new (r, c->args, c->n_args), v };
  run_side (c, "setup_context", c->ctx, more, 2, c->changed);
  return v;
}

static bool
in_tuple (const GmTracker *tuple, const GmTracker *t)
{
  for (uint32_t i = 0; tuple && i < tuple->n; i++)
    if (tuple->items[i] == t)
      return true;
  return false;
}

/* True if the result t of forward gets a gradient: it is a tensor of floats, and not among
 * `plain`, the results named by mark_non_differentiable (NULL: none). */
static bool
is_tied (Call *c, const GmTracker *plain, const GmTracker *t)
{
  return t->kind == &gm_kind_tensor && gm_dtype_is_float (meta_of (c->r, t)->dtype)
         && !in_tuple (plain, t);
}

static const GmTracker *
refuse (Call *c, const char *why)
{
  return gm_record_break (c->r, GM_BREAK_CUSTOM, c->function->tp_name, why);
}

/* False, with a break, if nodes cannot tie the results of forward to its arguments.  *n_tied:
 * number of results that get a gradient. */
static bool
look_at_results (Call *c, uint32_t *n_tied)
{
  GmRecorder *r = c->r;
  const GmTracker *plain = hidden (r, c->ctx, PLAIN);
  *n_tied = 0;
  for (uint32_t i = 0; i < c->n_results; i++) {
    const GmTracker *t = c->results[i];
    if (t->kind != &gm_kind_tensor)
      continue;
    for (uint32_t k = 0; k < c->n_args; k++)
      if (c->args[k]->kind == &gm_kind_tensor && value_of (r, c->args[k]) == value_of (r, t)) {
        refuse (c, "an argument is a result");
        return false;
      }
    for (uint32_t k = 0; k < i; k++)
      if (c->results[k]->kind == &gm_kind_tensor
          && value_of (r, c->results[k]) == value_of (r, t)) {
        refuse (c, "one tensor is two results");
        return false;
      }
    if (gm_graph_value (r->graph, value_of (r, t))->node == GM_NO_ID) {
      refuse (c, "a result is a tensor that existed before");
      return false;
    }
    *n_tied += is_tied (c, plain, t);
  }
  const GmTracker *none = hidden (r, c->ctx, NO_ZEROS);
  if (none && none->real == Py_True && *n_tied > 1) {
    refuse (c, "gradients that did not arrive are to be None (set_materialize_grads)");
    return false;
  }
  if (hidden (r, c->ctx, DIRTY)) {
    refuse (c, "an argument is changed in place (mark_dirty)");
    return false;
  }
  return true;
}

/* -- Backward ---------------------------------------------------------------------------------- */

/* Recording of backward: the last nodes of the recorder's graph. */
typedef struct {
  uint32_t first;       /* first node of backward */
  GmValueId *gradients; /* stand-ins, one per tied result */
  uint32_t n_gradients;
  GArray *captured;       /* GmValueId: earlier values of the graph that backward reads */
  GArray *args, *results; /* GmValueId: arguments that get a gradient, and the gradients */
} Backward;

static void
backward_clear (Backward *w)
{
  g_free (w->gradients);
  g_array_unref (w->captured);
  g_array_unref (w->args);
  g_array_unref (w->results);
}

static const GmTracker *
stand_in (GmRecorder *r, const GmMeta *like)
{
  GmVal v = gm_b_full_like (&r->builder.base, gm_scalar_float (0), (GmDtype) like->dtype, like);
  return v ? gm_tensor_new_tracker (r, gm_id_from_val (v)) : gm_none (r);
}

/* Returns the arguments with which backward is recorded, without the context: stand-ins for the
 * gradients of the results, None for a result that is no tensor.  Fills w->gradients. */
static const GmTracker **
gradients_in (Call *c, Backward *w)
{
  GmRecorder *r = c->r;
  const GmTracker **in = gm_tracker_array (r, c->n_results), *plain = hidden (r, c->ctx, PLAIN);
  for (uint32_t i = 0; i < c->n_results; i++) {
    const GmTracker *t = c->results[i];
    if (t->kind != &gm_kind_tensor) {
      in[i] = gm_none (r);
      continue;
    }
    in[i] = stand_in (r, meta_of (r, t));
    if (is_tied (c, plain, t))
      w->gradients[w->n_gradients++] = value_of (r, in[i]);
  }
  return in;
}

/* Reads v, the return value of backward: fills w->args with the arguments that get a gradient,
 * and w->results with the gradients.  False after a break. */
static bool
gradients_out (Call *c, Backward *w, const GmTracker *v)
{
  GmRecorder *r = c->r;
  const GmTracker *const *items = v->kind == &gm_kind_tuple ? v->items : &v;
  uint32_t n = v->kind == &gm_kind_tuple ? v->n : 1;
  if (n != c->n_args) {
    refuse (c, "backward returns another number of gradients than there are arguments");
    return false;
  }
  for (uint32_t i = 0; i < n; i++) {
    const GmTracker *t = gm_realize (r, items[i]);
    if (r->stop)
      return false;
    if (t->real == Py_None || !needs_grad (r, c->args[i]))
      continue;
    if (t->kind != &gm_kind_tensor || !gm_meta_same_shape (meta_of (r, t), meta_of (r, c->args[i]))
        || meta_of (r, t)->dtype != meta_of (r, c->args[i])->dtype) {
      refuse (c, "backward returns a gradient that does not fit its argument");
      return false;
    }
    GmValueId arg = value_of (r, c->args[i]), result = value_of (r, t);
    g_array_append_val (w->args, arg);
    g_array_append_val (w->results, result);
  }
  return true;
}

/* Returns the value in `to`, the graph of backward, that stands for v of the recorder's graph; a
 * value that `map` does not have becomes an input of `to` and is captured. */
static GmValueId
map_value (const GmRecorder *r, Backward *w, GHashTable *map, GmGraph *to, GmValueId v)
{
  void *known;
  if (g_hash_table_lookup_extended (map, GUINT_TO_POINTER (v), NULL, &known))
    return GPOINTER_TO_UINT (known);
  g_autofree char *name = g_strdup_printf ("captured%u", w->captured->len);
  GmMeta m = *gm_graph_meta (r->graph, v);
  m.requires_grad = 0;
  GmValueId id = gm_graph_add_input (to, gm_arena_strdup (to->arena, name), &m);
  g_array_append_val (w->captured, v);
  g_hash_table_insert (map, GUINT_TO_POINTER (v), GUINT_TO_POINTER (id));
  return id;
}

/* True if v is computed by backward itself.  Constants count as part of the whole graph. */
static bool
is_own (const GmRecorder *r, const Backward *w, GmValueId v)
{
  uint32_t node = gm_graph_value (r->graph, v)->node;
  return node != GM_NO_ID && node >= w->first
         && gm_graph_node (r->graph, node)->op != GM_OP_constant;
}

/* Returns an array with true for each live node of backward: nodes that may fail, and nodes that
 * the results or a live node need.  Values of nodes that may fail and that nothing reads go to
 * `checks` (GmValueId).  The caller frees. */
static bool *
find_live (const GmRecorder *r, const Backward *w, GArray *checks)
{
  uint32_t n = r->graph->nodes->len - w->first;
  bool *live = g_new0 (bool, n + 1);
  for (uint32_t i = 0; i < w->results->len; i++) {
    GmValueId v = g_array_index (w->results, GmValueId, i);
    if (is_own (r, w, v))
      live[gm_graph_value (r->graph, v)->node - w->first] = true;
  }
  for (uint32_t i = n; i-- > 0;) {
    const GmNode *m = gm_graph_node (r->graph, w->first + i);
    if (!live[i] && gm_graph_needs_check (r->graph, m)) {
      live[i] = true;
      g_array_append_val (checks, m->out);
    }
    for (uint32_t k = 0; live[i] && k < m->n_in; k++)
      if (is_own (r, w, m->in[k]))
        live[gm_graph_value (r->graph, m->in[k])->node - w->first] = true;
  }
  return live;
}

/* Returns the nodes of backward as a graph of its own, owned by the caller; NULL after a break.
 * Finds the captured values before it adds a node, since they are inputs, and inputs come before
 * nodes. */
static GmGraph *
take_out (Call *c, Backward *w)
{
  GmRecorder *r = c->r;
  GmGraph *to = gm_graph_new_like (r->graph, "backward", NULL);
  g_autoptr (GHashTable) map = g_hash_table_new (NULL, NULL);
  g_autoptr (GArray) checks = g_array_new (FALSE, FALSE, sizeof (GmValueId));
  g_autofree bool *live = find_live (r, w, checks);
  for (uint32_t i = 0; i < checks->len; i++) {
    uint32_t made = gm_graph_value (r->graph, g_array_index (checks, GmValueId, i))->node;
    if (gm_op_is_higher (gm_graph_node (r->graph, made)->op)) {
      refuse (c, "backward reads no result of a call of graphs that may fail");
      gm_graph_free (to);
      return NULL;
    }
  }
  for (uint32_t i = 0; i < w->n_gradients; i++) {
    g_autofree char *name = g_strdup_printf ("gradient%u", i);
    GmMeta m = *gm_graph_meta (r->graph, w->gradients[i]);
    g_hash_table_insert (
        map, GUINT_TO_POINTER (w->gradients[i]),
        GUINT_TO_POINTER (gm_graph_add_input (to, gm_arena_strdup (to->arena, name), &m)));
  }
  for (uint32_t i = w->first; i < r->graph->nodes->len; i++) {
    const GmNode *n = gm_graph_node (r->graph, i);
    for (uint32_t k = 0; live[i - w->first] && k < n->n_in; k++)
      if (!is_own (r, w, n->in[k]))
        map_value (r, w, map, to, n->in[k]);
  }
  for (uint32_t i = 0; i < w->results->len; i++)
    if (!is_own (r, w, g_array_index (w->results, GmValueId, i)))
      map_value (r, w, map, to, g_array_index (w->results, GmValueId, i));
  for (uint32_t i = w->first; i < r->graph->nodes->len; i++) {
    const GmNode *n = gm_graph_node (r->graph, i);
    if (!live[i - w->first] || n->op == GM_OP_constant
        || g_hash_table_contains (map, GUINT_TO_POINTER (n->out)))
      continue;
    g_autofree GmValueId *in = g_new (GmValueId, n->n_in + 1);
    for (uint32_t k = 0; k < n->n_in; k++)
      in[k] = map_value (r, w, map, to, n->in[k]);
    const char *where = n->where ? gm_arena_strdup (to->arena, n->where) : NULL;
    GmValueId v = gm_graph_add_known (to, n->op, in, (int) n->n_in, n->attrs, where,
                                      gm_graph_meta (r->graph, n->out));
    gm_graph_mark_like (to, v, n);
    g_hash_table_insert (map, GUINT_TO_POINTER (n->out), GUINT_TO_POINTER (v));
  }
  for (uint32_t i = 0; i < w->results->len; i++)
    gm_graph_add_output (to, map_value (r, w, map, to, g_array_index (w->results, GmValueId, i)),
                         GM_OUTPUT_GRAD);
  for (uint32_t i = 0; i < checks->len; i++)
    gm_graph_add_output (to, map_value (r, w, map, to, g_array_index (checks, GmValueId, i)),
                         GM_OUTPUT_USER);
  return to;
}

static bool
is_functional (Call *c, uint32_t first)
{
  for (uint32_t i = first; i < c->r->graph->nodes->len; i++) {
    GmFamily family = (GmFamily) gm_ops[gm_graph_node (c->r->graph, i)->op].family;
    if (family == GM_FAMILY_MUTATE || family == GM_FAMILY_RANDOM) {
      refuse (c, family == GM_FAMILY_MUTATE ? "backward changes a tensor in place"
                                            : "backward draws random numbers");
      return false;
    }
  }
  return true;
}

/* True if the program has read or set the grad mode since the mark; run_side itself sets it off
 * and back, which are two writes. */
static bool
asked_for_mode (const GmRecorder *r, GmJournalMark since)
{
  uint32_t n = 0;
  for (uint32_t i = since; i < r->heap.journal.len; i++)
    n += r->heap.journal.writes[i].container == r->modes_id && r->heap.journal.writes[i].key == 0;
  return n > 2;
}

/* Returns how often the function can be differentiated: once if its backward is marked by
 * once_differentiable. */
static GmTwice
how_often (const Call *c, GmJournalMark since)
{
  PyObject *found = _PyType_Lookup (c->function, interned (c->r, "backward"));
  PyObject *fn = found && Py_IS_TYPE (found, &PyStaticMethod_Type)
                     ? PyObject_GetAttrString (found, "__func__")
                     : Py_XNewRef (found);
  PyObject *dict = fn && PyFunction_Check (fn) ? ((PyFunctionObject *) fn)->func_dict : NULL;
  bool once = dict && PyDict_GetItemString (dict, "_once_differentiable") == Py_True;
  Py_XDECREF (fn);
  PyErr_Clear ();
  return once ? GM_ONCE : asked_for_mode (c->r, since) ? GM_TWICE_UNKNOWN : GM_TWICE;
}

/* Stores in the graph of backward, for each of its inputs, the number of the function's result
 * that it is, or -1. */
static void
note_results (Call *c, const Backward *w, GmGraph *backward)
{
  GmRecorder *r = c->r;
  const GmTracker *plain = hidden (r, c->ctx, PLAIN);
  int32_t *result_of =
              gm_arena_alloc (backward->arena, (backward->inputs->len + 1) * sizeof *result_of),
          number = 0;
  memset (result_of, -1, backward->inputs->len * sizeof *result_of);
  for (uint32_t i = 0; i < c->n_results; i++) {
    const GmTracker *t = c->results[i];
    if (!is_tied (c, plain, t))
      continue;
    for (uint32_t k = 0; k < w->captured->len; k++)
      if (g_array_index (w->captured, GmValueId, k) == value_of (r, t))
        result_of[w->n_gradients + k] = number;
    number++;
  }
  backward->result_of = result_of;
}

/* Records backward and returns its graph, owned by the caller; NULL after a break.  w gets the
 * values that it reads and the arguments that get a gradient. */
static GmGraph *
record_backward (Call *c, Backward *w)
{
  GmRecorder *r = c->r;
  GmGraphMark before = gm_graph_mark (r->graph);
  uint32_t n_inputs = r->inputs->len;
  GmJournalMark since = gm_journal_mark (&r->heap.journal);
  w->first = r->graph->nodes->len;
  const GmTracker **in = gradients_in (c, w);
  bool seen = false;
  if (g_hash_table_size (c->changed) > 0) {
    r->heap.watched = c->changed;
    r->heap.seen = &seen;
  }
  bool inner = r->builder.base.gradient, asked;
  GmValueId from = r->strides.from;
  r->builder.base.gradient = true;
  r->strides.from = MIN (from, before.values);
  r->strides.asked = false;
  const GmTracker *v = run_side (c, "backward", c->ctx, in, c->n_results, NULL);
  asked = r->strides.asked;
  r->builder.base.gradient = inner;
  r->strides.from = from;
  r->heap.watched = NULL;
  if (asked && !r->stop)
    refuse (c, "backward asks how a gradient lies in memory, and it may lie otherwise when it "
               "arrives; use reshape() or contiguous() without asking");
  if (seen && !r->stop) /* when it runs, another call may have changed the object again */
    refuse (c, "backward reads what forward changes");
  if (r->stop || !is_functional (c, w->first) || !gradients_out (c, w, v))
    return NULL;
  GmGraph *backward = take_out (c, w);
  if (!backward)
    return NULL;
  backward->twice = how_often (c, since);
  note_results (c, w, backward);
  bool keeps = r->inputs->len != n_inputs; /* it read tensors that were not read before: they are
                                              inputs now */
  for (uint32_t i = 0; i < w->captured->len; i++)
    keeps |= g_array_index (w->captured, GmValueId, i) >= before.values;
  if (r->graph->sizes) /* the graph taken out consists of these expressions */
    before.sizes = gm_sizes_mark (r->graph->sizes);
  if (!keeps)
    gm_graph_truncate (r->graph, &before);
  return backward;
}

/* -- Results ----------------------------------------------------------------------------------- */

/* Returns the results that the program gets, tied to the arguments by `custom` nodes whose
 * gradient is row `row` of the graph's table. */
static const GmTracker *
tie (Call *c, const Backward *w, uint32_t row, const GmTracker *value)
{
  GmRecorder *r = c->r;
  const GmTracker **out = gm_tracker_array (r, c->n_results), *plain = hidden (r, c->ctx, PLAIN);
  uint32_t n_in = 1 + w->args->len + w->captured->len, number = 0;
  g_autofree GmVal *in = g_new (GmVal, n_in);
  for (uint32_t i = 0; i < w->args->len; i++)
    in[1 + i] = gm_val_from_id (g_array_index (w->args, GmValueId, i));
  for (uint32_t i = 0; i < w->captured->len; i++)
    in[1 + w->args->len + i] = gm_val_from_id (g_array_index (w->captured, GmValueId, i));
  for (uint32_t i = 0; i < c->n_results; i++) {
    const GmTracker *t = out[i] = c->results[i];
    if (!is_tied (c, plain, t))
      continue;
    GmAttrs at = { .mask = 1u << GM_ATTR_DIM | 1u << GM_ATTR_OFFSET,
                   .dim = (int) number++,
                   .offset = row };
    in[0] = gm_val_from_id (value_of (r, t));
    GmVal v = gm_b_op (&r->builder.base, GM_OP_custom, in, (int) n_in, &at);
    if (!v) {
      gm_record_break (r, GM_BREAK_TENSOR_ERROR, c->function->tp_name,
                       r->builder.base.error->message);
      g_clear_error (&r->builder.base.error);
      return &gm_tracker_poison;
    }
    out[i] = gm_tensor_new_tracker (r, gm_id_from_val (v));
  }
  return value->kind == &gm_kind_tuple ? gm_tuple_new (r, out, c->n_results) : out[0];
}

static const GmTracker *
differentiate (Call *c, const GmTracker *value)
{
  GmRecorder *r = c->r;
  uint32_t n_tied;
  const GmTracker **results = gm_tracker_array (r, value->kind == &gm_kind_tuple ? value->n : 1);
  c->n_results = value->kind == &gm_kind_tuple ? value->n : 1;
  for (uint32_t i = 0; i < c->n_results; i++)
    results[i] = gm_realize (r, value->kind == &gm_kind_tuple ? value->items[i] : value);
  c->results = results;
  if (r->stop || !look_at_results (c, &n_tied))
    return &gm_tracker_poison;
  if (n_tied == 0)
    return value;
  Backward w = { .gradients = g_new (GmValueId, c->n_results + 1),
                 .captured = g_array_new (FALSE, FALSE, sizeof (GmValueId)),
                 .args = g_array_new (FALSE, FALSE, sizeof (GmValueId)),
                 .results = g_array_new (FALSE, FALSE, sizeof (GmValueId)) };
  r->builder.where = gm_record_where (r);
  GmGraph *backward = record_backward (c, &w);
  const GmTracker *v = &gm_tracker_poison;
  if (backward && w.args->len == 0) { /* no gradient flows: eager handles a result that requires
                                         grad without a gradient */
    gm_graph_free (backward);
    refuse (c, "backward gives no gradient at all");
  } else if (backward) {
    v = tie (c, &w, gm_graph_add_custom (r->graph, backward), value);
  }
  backward_clear (&w);
  return v;
}

const GmTracker *
gm_custom_apply (GmRecorder *r, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "apply", args, 3, 3))
    return &gm_tracker_poison;
  const GmTracker *cls = gm_realize (r, args->args[0]), *setup = gm_realize (r, args->args[1]);
  GmCallArgs inner;
  if (r->stop || !gm_args_unpack (r, args->args[2], NULL, &inner))
    return &gm_tracker_poison;
  if (cls->kind != &gm_kind_class)
    return gm_record_break (r, GM_BREAK_CALL_C, "function_apply");
  PyObject *whole =
      PyDict_GetItemString (gm_type_dict ((PyTypeObject *) cls->real), "_gramme_whole");
  if (whole) { /* allow_in_graph: a static method */
    PyObject *apply = gm_record_take (r, PyObject_GetAttrString (whole, "__func__"));
    const GmTracker *v =
        gm_host_call_record (r, gm_wrap (r, apply, gm_source_const (r, apply, "apply")), &inner);
    if (v)
      return v;
  }
  const GmTracker **values = gm_tracker_array (r, inner.n), **needs = gm_tracker_array (r, inner.n);
  bool any = false;
  for (uint32_t i = 0; i < inner.n; i++) {
    values[i] = gm_realize (r, inner.args[i]);
    if (r->stop)
      return &gm_tracker_poison;
    needs[i] = gm_from_bool (r, needs_grad (r, values[i]));
    any |= needs_grad (r, values[i]);
  }
  g_autoptr (GHashTable) changed = g_hash_table_new (NULL, NULL);
  Call c = { .r = r,
             .changed = changed,
             .function = (PyTypeObject *) cls->real,
             .cls = cls,
             .setup = setup,
             .args = values,
             .n_args = inner.n };
  c.ctx = gm_object_new (r, (PyTypeObject *) gm_host.context_type);
  hide (r, c.ctx, NEEDS, gm_tuple_new (r, needs, inner.n));
  const GmTracker *value = run_forward (&c);
  return r->stop || !any || !gm_grad_mode_get (r) ? value : differentiate (&c, value);
}
