/* SPDX-License-Identifier: Apache-2.0
 * higher_order.c -- functions that become bodies of an operator over graphs.
 *
 * A body is traced at a mark: inlined as any call, its nodes moved out into a graph of their own,
 * and the recorder rolled back, so that nothing of it stays: no node, no input that it was the
 * first to read, no object. Sizes and the facts about them stay: the body consists of them. Guards,
 * and the inputs that the body reads, found by their sources, are added again after the rollback.
 * The changes of a body outside of itself must be the same for all bodies of a call, because one
 * stands for all; then the first is run once more, only for its changes.
 *
 * The generator's state goes through bodies as a value: each is traced with a stand-in for it,
 * beside those for carried values, and returns the state at its end. If no body draws, the state is
 * left out again.
 *
 *   mark, trace, take out, roll back, touch     for each body
 *   merge                                       changes, nodes
 */
#include "core/models/higher_order.h"
#include "core/models/higher_private.h"

#include <string.h>

#include "core/base/log.h"
#include "core/graph/higher.h"
#include "core/models/body.h"
#include "core/trace/keys.h"
#include "core/trace/traced_size.h"

static void
body_clear (GmHigherBody *b)
{
  gm_graph_free (b->graph);
  if (b->slots)
    g_array_unref (b->slots);
  gm_effect_state_free (b->effects);
}

static const char *
op_name (const GmHigherTrace *c)
{
  return gm_ops[c->op].name;
}

const GmTracker *
gm_higher_refuse (const GmHigherTrace *c, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *what = g_strdup_vprintf (format, args);
  va_end (args);
  return gm_record_break (c->r, GM_BREAK_HIGHER, op_name (c), what);
}

static GmValueId
value_of (GmRecorder *r, const GmTracker *tensor)
{
  return (GmValueId) gm_contents_of (r, tensor)->number;
}

/* -- Tracing a body ---------------------------------------------------------------------------- */

static GmValueId
stand_in (GmRecorder *r, const GmMeta *like)
{
  GmVal v = gm_b_full_like (&r->builder.base,
                            gm_dtype_is_float ((GmDtype) like->dtype) ? gm_scalar_float (0)
                                                                      : gm_scalar_int (0),
                            (GmDtype) like->dtype, like);
  return v ? gm_id_from_val (v) : GM_NO_ID;
}

/* Returns the meta, row-major, of the stand-in for argument i of a body: a block of c->block slices
 * if that is not 0; else that of a carried value, or of a slice of a mapped one.  grad: NULL, or by
 * argument true if its stand-in requires grad even if its operand does not. */
static GmMeta
stand_in_meta (const GmHigherTrace *c, uint32_t i, const bool *grad)
{
  GmMeta m = *gm_graph_meta (c->r->graph, value_of (c->r, c->operands[i % c->n_operands]));
  if (c->block)
    m.sizes[0] = c->block;
  else if (i >= c->n_carried) {
    memmove (m.sizes, m.sizes + 1, (size_t) --m.ndim * sizeof *m.sizes);
    m.sizes[m.ndim] = 0;
  }
  memset (m.strides, 0, sizeof m.strides);
  gm_meta_set_contiguous (&m);
  m.requires_grad = m.requires_grad || (grad && grad[i]);
  return m;
}

/* Adds to the graph a stand-in for the random generator's state and returns its value; GM_NO_ID
 * on failure. */
static GmValueId
state_stand_in (GmRecorder *r)
{
  GmMeta m = gm_meta_make (GM_I64, 1, (const int64_t[]){ 2 });
  return stand_in (r, &m);
}

/* Reads the body's return value (spec, tensors), which the package's own code has packed: sets
 * b->spec, *results (owned by the caller) and *n.  False after a break. */
static bool
read_results (GmHigherTrace *c, GmHigherBody *b, const GmTracker *value, GmValueId **results,
              uint32_t *n)
{
  GmRecorder *r = c->r;
  const GmTracker *v = gm_realize (r, value);
  if (r->stop || v->kind != &gm_kind_tuple || v->n != 2)
    return r->stop ? false
                   : (gm_higher_refuse (c, "%s gives something that is no tensor", b->name), false);
  const GmTracker *tensors = gm_realize (r, v->items[1]);
  PyObject *spec = r->stop ? NULL : gm_constant (r, gm_realize (r, v->items[0]));
  if (!spec || r->stop || tensors->kind != &gm_kind_tuple)
    return r->stop ? false
                   : (gm_higher_refuse (
                          c, "%s gives something that is neither a tensor nor a constant", b->name),
                      false);
  b->spec = gm_record_take (r, spec);
  *n = tensors->n;
  *results = g_new (GmValueId, tensors->n + 2); /* one more: see add_state */
  for (uint32_t i = 0; i < tensors->n; i++) {
    const GmTracker *t = gm_realize (r, tensors->items[i]);
    if (r->stop || t->kind != &gm_kind_tensor)
      return r->stop
                 ? false
                 : (gm_higher_refuse (c, "%s gives something that is no tensor", b->name), false);
    (*results)[i] = value_of (r, t);
  }
  return true;
}

/* True if a node from first_node on has the stand-in of the generator's state as an operand,
 * even if it draws no numbers because it has no elements. */
static bool
draws (const GmRecorder *r, GmValueId stand_in, uint32_t first_node)
{
  for (uint32_t i = first_node; i < r->graph->nodes->len; i++) {
    const GmNode *n = gm_graph_node (r->graph, i);
    for (uint32_t k = 0; k < n->n_in; k++)
      if (n->in[k] == stand_in)
        return true;
  }
  return false;
}

/* Inserts the generator's state at the end of the body into its results: after the carried
 * values, or after the result of a loop's test.  False after a break. */
static bool
add_state (GmHigherTrace *c, GmHigherBody *b, GmValueId stand_in, uint32_t first_node,
           GmValueId *results, uint32_t *n)
{
  GmRecorder *r = c->r;
  bool drew = draws (r, stand_in, first_node);
  if (c->block)
    return !drew || (gm_higher_refuse (c, "%s draws random numbers", b->name), false);
  GmVal state = gm_graph_builder_state (&r->builder);
  uint32_t at = b->state_at = MIN (c->n_carried, *n);
  memmove (results + at + 1, results + at, (*n - at) * sizeof *results);
  results[at] = gm_id_from_val (state);
  ++*n;
  c->draws |= drew;
  return state != NULL;
}

/* A tensor that a body reads, with its source. */
typedef struct {
  PyObject *real;
  const GmSource *source;
} Found;

/* Returns the tensors (Found) that the body was the first to read and whose sizes are symbols,
 * since the body may have read only the sizes; the caller frees. */
static GArray *
symbolic_inputs (const GmHigherTrace *c)
{
  GArray *all = g_array_new (FALSE, FALSE, sizeof (Found));
  for (uint32_t i = c->mark.inputs; i < c->r->inputs->len; i++) {
    const GmInput *in = &g_array_index (c->r->inputs, GmInput, i);
    const GmTracker *t = in->tracker;
    if (t && t->real && t->source
        && gm_graph_meta_is_symbolic (gm_graph_meta (c->r->graph, in->value)))
      g_array_append_val (all, ((Found){ t->real, t->source }));
  }
  return all;
}

/* Adds again, after the rollback, the guards of a body and the inputs that it was the first to
 * read.  The other bodies may reach these inputs by other names: their sizes are then the same
 * symbols.  Guards come first, since an input may be in a cell of a function, which a guard is
 * about.  False after a break. */
static bool
touch (GmHigherTrace *c, const GArray *inputs, const GArray *guards)
{
  GmRecorder *r = c->r;
  for (uint32_t i = 0; i < guards->len && !r->stop; i++) {
    GmGuard g = g_array_index (guards, GmGuard, i);
    if (g.kind == GM_GUARD_APART) {
      gm_key_apart_again (r, g.ptr);
      continue;
    }
    g.source = gm_source_again (r, g.source);
    g.other = gm_source_again (r, g.other);
    if (g.kind == GM_GUARD_CACHED_ABSENT)
      g.ptr = gm_source_parts_again (r, g.ptr);
    gm_guard_add (r, &g);
  }
  for (uint32_t i = 0; i < inputs->len && !r->stop; i++) {
    const Found *f = &g_array_index (inputs, Found, i);
    gm_wrap (r, f->real, gm_source_again (r, f->source));
  }
  for (uint32_t i = 0; i < c->captured->len && !r->stop; i++) {
    GmHigherCaptured *k = &g_array_index (c->captured, GmHigherCaptured, i);
    if (k->value != GM_NO_ID)
      continue;
    const GmTracker *t = gm_wrap (r, k->real, gm_source_again (r, k->source));
    if (!r->stop)
      k->value = value_of (r, t);
  }
  return r->stop == NULL;
}

/* Traces b->fn into b->graph and rolls the recorder back.  grad: NULL, or by argument true if
 * its stand-in requires grad even if its operand does not.  False after a break. */
static bool
trace (GmHigherTrace *c, GmHigherBody *b, const bool *grad)
{
  GmRecorder *r = c->r;
  gm_log (GM_LOG_TRACE_CALL, "%s: checkpoint, tracing %s", op_name (c), b->name);
  g_autofree GmValueId *stand_ins = g_new (GmValueId, b->n_stand_ins + 2), *results = NULL;
  const GmTracker **args = gm_tracker_array (r, b->n_stand_ins);
  uint32_t n_results = 0;
  uint32_t n_symbols = gm_size_n_symbols (r);
  GmValueId state = state_stand_in (r);
  bool ok = state != GM_NO_ID;
  b->n_own = 0;
  for (uint32_t i = 0; ok && i <= b->n_stand_ins; i++) {
    if (i == c->n_carried && !c->block)
      stand_ins[b->n_own++] = state;
    if (i == b->n_stand_ins)
      break;
    GmMeta m = stand_in_meta (c, i, grad);
    GmValueId v = stand_in (r, &m);
    ok = v != GM_NO_ID;
    if (!ok)
      break;
    gm_graph_meta (r->graph, v)->requires_grad = m.requires_grad;
    stand_ins[b->n_own++] = v;
    args[i] = gm_tensor_new_tracker (r, v);
  }
  r->builder.rng = state;
  r->builder.rng_taken = 0;
  uint32_t first_node = r->graph->nodes->len;
  r->n_bodies++, r->n_graphs++;
  const GmTracker *value =
      ok ? gm_call (r, b->fn, &(GmCallArgs){ args, b->n_stand_ins, NULL }) : &gm_tracker_poison;
  r->n_bodies--, r->n_graphs--;
  ok = ok && !r->stop && read_results (c, b, value, &results, &n_results)
       && add_state (c, b, state, first_node, results, &n_results)
       && gm_higher_look_at_changes (c, b)
       && gm_higher_take_out (c, b, stand_ins, first_node, results, n_results);
  if (!ok)
    return false; /* the break rolls back to a mark of its own */
  g_autoptr (GArray) guards = g_array_new (FALSE, FALSE, sizeof (GmGuard)),
                     inputs = symbolic_inputs (c);
  for (uint32_t i = c->mark.guards; i < r->guards->len; i++)
    g_array_append_val (guards, g_array_index (r->guards, GmGuard, i));
  gm_log (GM_LOG_TRACE_CALL, "%s: rollback of %s", op_name (c), b->name);
  if (r->graph->sizes) /* the body's metas consist of these expressions, and rely on these facts */
    c->mark.graph.sizes = gm_sizes_mark (r->graph->sizes);
  gm_record_rollback (r, &c->mark);
  gm_size_keep (r, n_symbols);
  if (!touch (c, inputs, guards))
    return false;
  c->mark = gm_record_mark (r);
  return true;
}

/* -- Merging ----------------------------------------------------------------------------------- */

/* Returns the body's graph with the inputs of all bodies of the call, and inputs before nodes;
 * without the generator's state if no body draws. */
static GmGraph *
with_all_inputs (const GmHigherTrace *c, GmHigherBody *b)
{
  gm_higher_add_inputs (c, b);
  if (!c->draws && !c->block) {
    g_array_remove_index (b->graph->inputs, c->n_carried);
    g_array_remove_index (b->graph->outputs, b->state_at);
  }
  return gm_graph_simplify (b->graph, GM_SIMPLIFY_DEAD, NULL);
}

static const GmMeta *
result_meta (const GmHigherBody *b, uint32_t i)
{
  return gm_graph_meta (b->graph, g_array_index (b->graph->outputs, GmGraphOutput, i).value);
}

static char *
meta_text (const GmMeta *m)
{
  g_autofree char *layout = gm_meta_layout_text (m);
  return g_strdup_printf ("%s%s", layout, m->requires_grad ? ", requires grad" : "");
}

/* True if the two metas agree.  Sizes that agree in this call agree in each call: a guard is
 * added. */
static bool
same_result (const GmMeta *m, const GmMeta *n)
{
  bool same = m->dtype == n->dtype && m->ndim == n->ndim && m->device == n->device
              && m->requires_grad == n->requires_grad;
  for (int d = 0; same && d < m->ndim; d++)
    same = gm_size_eq (m->sizes[d], n->sizes[d]) && gm_size_eq (m->strides[d], n->strides[d]);
  return same;
}

static bool
same_results (const GmHigherTrace *c, const GmHigherBody *a, const GmHigherBody *b)
{
  GmRecorder *r = c->r;
  if (a->graph->outputs->len != b->graph->outputs->len
      || PyObject_RichCompareBool (a->spec, b->spec, Py_EQ) != 1) {
    PyErr_Clear ();
    PyObject *one = PyObject_Repr (a->spec), *two = PyObject_Repr (b->spec);
    gm_higher_refuse (
        c, "its functions return values of different structure: %s in %s, %s in %s (* is a tensor)",
        one ? PyUnicode_AsUTF8 (one) : "?", a->name, two ? PyUnicode_AsUTF8 (two) : "?", b->name);
    Py_XDECREF (one);
    Py_XDECREF (two);
    PyErr_Clear ();
    return false;
  }
  for (uint32_t i = 0; i < a->graph->outputs->len; i++) {
    const GmMeta *m = result_meta (a, i), *n = result_meta (b, i);
    if (!same_result (m, n)) {
      g_autofree char *one = meta_text (m), *two = meta_text (n);
      gm_higher_refuse (c, "result %u is %s in %s, and %s in %s", i - 1, one, a->name, two,
                        b->name);
      return false;
    }
  }
  return r->stop == NULL;
}

/* Records the changes that the bodies make outside of themselves: runs the body b again, only
 * for its changes, which are the same for all bodies. */
static void
change_once (GmHigherTrace *c, const GmHigherBody *b)
{
  GmRecorder *r = c->r;
  const GmTracker **args = gm_tracker_array (r, b->n_stand_ins);
  if (b->slots->len == 0 && !gm_effects_any (b->effects))
    return;
  GmGraphMark before = gm_graph_mark (r->graph);
  GmValueId rng = r->builder.rng;
  int64_t taken = r->builder.rng_taken;
  g_assert (b->n_stand_ins == 0);
  r->n_bodies++, r->n_graphs++;
  gm_call (r, b->fn, &(GmCallArgs){ args, 0, NULL });
  r->n_bodies--, r->n_graphs--;
  r->builder.rng = rng; /* the call's node has advanced the generator already */
  r->builder.rng_taken = taken;
  if (!r->stop && r->graph->inputs->len == before.inputs)
    gm_graph_truncate (r->graph, &before);
}

/* Fills `in` with the operands of the call, with the generator's state in its place, and returns
 * their number. */
static uint32_t
append_operands (const GmHigherTrace *c, GmVal *in)
{
  uint32_t n = 0, place = c->op == GM_OP_cond ? 1 : c->n_carried;
  for (uint32_t i = 0; i <= c->n_operands; i++) {
    if (i == place && c->draws)
      in[n++] = gm_api_random_state (c->r);
    if (i < c->n_operands)
      in[n++] = gm_val_from_id (value_of (c->r, c->operands[i]));
  }
  for (uint32_t i = 0; i < c->captured->len; i++)
    in[n++] = gm_val_from_id (g_array_index (c->captured, GmHigherCaptured, i).value);
  return n;
}

/* Adds the operator's nodes, one for each result, and returns the pair (spec, results) for the
 * package's code; poison after a break. */
static const GmTracker *
add_nodes (GmHigherTrace *c, GmHigher *h, PyObject *spec)
{
  GmRecorder *r = c->r;
  g_autofree GmVal *in = g_new (GmVal, c->n_operands + c->captured->len + 2);
  uint32_t n_in = append_operands (c, in), n = gm_higher_n_results (h), n_given = 0;
  uint32_t row = gm_graph_add_higher (r->graph, h);
  const GmTracker **results = gm_tracker_array (r, n);
  r->builder.where = gm_record_where (r);
  for (uint32_t i = 0; i < n; i++) {
    GmAttrs at = { .mask = 1u << GM_ATTR_DIM | 1u << GM_ATTR_OFFSET, .dim = i, .offset = row };
    GmVal v = gm_b_op (&r->builder.base, c->op, in, (int) n_in, &at);
    if (!v) {
      g_autoptr (GError) why = g_steal_pointer (&r->builder.base.error);
      return gm_higher_refuse (c, "%s", why->message);
    }
    if (!c->draws || i != c->n_carried) {
      results[n_given++] = gm_tensor_new_tracker (r, gm_id_from_val (v));
      continue;
    }
    r->builder.rng = gm_id_from_val (v); /* the state after the call */
    r->builder.rng_taken = 0;
  }
  const GmTracker *both[2] = { gm_from_constant (r, spec), gm_tuple_new (r, results, n_given) };
  return gm_tuple_new (r, both, 2);
}

/* -- The operators ----------------------------------------------------------------------------- */

/* Returns the name of a body for the graph: cond_true_0, cond_true_1 in the order of the calls.
 * Lives as long as the recording. */
static const char *
body_name (const GmHigherTrace *c, const char *what)
{
  GmRecorder *r = c->r;
  uint32_t n = 0;
  for (uint32_t i = 0; r->graph->highers && i < r->graph->highers->len; i++)
    n += ((const GmHigher *) r->graph->highers->pdata[i])->op == c->op;
  return gm_arena_printf (r->arena, "%s%s%s_%u", op_name (c), *what ? "_" : "", what, n);
}

static const GmTracker *
merge (GmHigherTrace *c, GmHigherBody *bodies, uint32_t n)
{
  GmRecorder *r = c->r;
  gm_log (GM_LOG_TRACE_CALL, "%s: merge", op_name (c));
  for (uint32_t i = 0; i < n; i++)
    bodies[i].name = gm_arena_strdup (r->arena, bodies[i].name);
  GmHigher *h = gm_higher_new (c->op);
  h->n_carried = c->n_carried + (c->draws && (c->op == GM_OP_while_loop || c->op == GM_OP_scan));
  h->n_mapped = c->n_mapped;
  h->reverse = c->reverse;
  for (uint32_t i = 0; i < n; i++)
    h->bodies[i] = with_all_inputs (c, &bodies[i]);
  return add_nodes (c, h, bodies[n - 1].spec);
}

static const GmTracker *
call_cond (GmHigherTrace *c, GmHigherBody *bodies)
{
  bodies[0].name = body_name (c, "true");
  bodies[1].name = body_name (c, "false");
  if (!trace (c, &bodies[0], NULL) || !trace (c, &bodies[1], NULL)
      || !same_results (c, &bodies[0], &bodies[1])
      || !gm_higher_same_changes (c, &bodies[0], &bodies[1]))
    return &gm_tracker_poison;
  const GmTracker *result = merge (c, bodies, 2);
  if (!c->r->stop)
    change_once (c, &bodies[0]);
  return c->r->stop ? &gm_tracker_poison : result;
}

static bool
changes_nothing (const GmHigherTrace *c, const GmHigherBody *b)
{
  if (b->slots->len == 0 && !gm_effects_any (b->effects))
    return true;
  gm_higher_refuse (c, "%s changes an object outside of it, and how often it runs is not known",
                    b->name);
  return false;
}

/* Traces the body of a loop, twice if necessary: a carried value requires grad if a step returns
 * a value that does; then the body is traced again.  False after a break. */
static bool
trace_loop (GmHigherTrace *c, GmHigherBody *b)
{
  g_autofree bool *grad = g_new0 (bool, b->n_stand_ins + 1);
  for (bool again = true; again;) {
    again = false;
    if (!trace (c, b, grad) || !changes_nothing (c, b))
      return false;
    if (b->state_at < c->n_carried)
      return gm_higher_refuse (c, "%s gives %u tensors, but %u are carried", b->name, b->state_at,
                               c->n_carried),
             false;
    for (uint32_t i = 0; i < c->n_carried; i++) {
      const GmMeta *in = gm_graph_meta (b->graph, g_array_index (b->graph->inputs, GmValueId, i)),
                   *out = result_meta (b, i);
      if (in->dtype != out->dtype || !gm_meta_same_shape (in, out)) {
        g_autofree char *one = gm_meta_text (in), *two = gm_meta_text (out);
        return gm_higher_refuse (c, "carried value %u goes into %s as %s and comes out as %s", i,
                                 b->name, one, two),
               false;
      }
      again |= out->requires_grad && !in->requires_grad;
      grad[i] = in->requires_grad || out->requires_grad;
    }
    if (again)
      body_clear (b),
          *b = (GmHigherBody){ .name = b->name, .fn = b->fn, .n_stand_ins = b->n_stand_ins };
  }
  return true;
}

static const GmTracker *
call_while (GmHigherTrace *c, GmHigherBody *bodies)
{
  bodies[0].name = body_name (c, "cond");
  bodies[1].name = body_name (c, "body");
  bodies[0].n_stand_ins = bodies[1].n_stand_ins = c->n_carried;
  if (!trace_loop (c, &bodies[1]))
    return &gm_tracker_poison;
  g_autofree bool *grad = g_new0 (bool, c->n_carried + 1);
  for (uint32_t i = 0; i < c->n_carried; i++)
    grad[i] = gm_graph_meta (bodies[1].graph, g_array_index (bodies[1].graph->inputs, GmValueId, i))
                  ->requires_grad;
  if (!trace (c, &bodies[0], grad) || !changes_nothing (c, &bodies[0]))
    return &gm_tracker_poison;
  if (bodies[0].graph->outputs->len != 2 || result_meta (&bodies[0], 0)->dtype != GM_BOOL
      || gm_meta_numel (result_meta (&bodies[0], 0)) != 1)
    return gm_higher_refuse (c, "%s should give one tensor of dtype bool with one element",
                             bodies[0].name);
  return merge (c, bodies, 2);
}

static const GmTracker *
call_scan (GmHigherTrace *c, GmHigherBody *bodies)
{
  bodies[0].name = body_name (c, "combine");
  bodies[0].n_stand_ins = c->n_carried + c->n_mapped;
  int64_t length = -1;
  for (uint32_t i = c->n_carried; i < c->n_operands; i++) {
    const GmMeta *m = gm_graph_meta (c->r->graph, value_of (c->r, c->operands[i]));
    if (m->ndim == 0 || (i > c->n_carried && !gm_size_eq (m->sizes[0], length)))
      return gm_higher_refuse (
          c, "what it maps over has to be tensors of one length in that dimension");
    length = m->sizes[0];
  }
  return trace_loop (c, &bodies[0]) ? merge (c, bodies, 1) : &gm_tracker_poison;
}

/* Records associative_scan and returns its results.  A block requires grad if the combined block
 * does. */
static const GmTracker *
call_prefixes (GmHigherTrace *c, GmHigherBody *bodies)
{
  GmRecorder *r = c->r;
  uint32_t m = c->n_mapped;
  bodies[0].name = body_name (c, "combine");
  bodies[0].n_stand_ins = 2 * m;
  g_autofree bool *grad = g_new0 (bool, 2 * m + 1);
  for (uint32_t i = 0; i < m; i++) {
    const GmMeta *x = gm_graph_meta (r->graph, value_of (r, c->operands[i]));
    if (x->ndim == 0
        || !gm_size_eq (x->sizes[0],
                        gm_graph_meta (r->graph, value_of (r, c->operands[0]))->sizes[0]))
      return gm_higher_refuse (
          c, "what it combines has to be tensors of one length in that dimension");
    grad[i] = grad[m + i] = x->requires_grad;
  }
  c->block = gm_size_of_body (r, "how many slices combine_fn is given at a time");
  c->mark = gm_record_mark (r);
  for (bool again = true; again;) {
    again = false;
    if (!trace (c, &bodies[0], grad) || !changes_nothing (c, &bodies[0]))
      return &gm_tracker_poison;
    if (bodies[0].graph->outputs->len != m)
      return gm_higher_refuse (c, "%s gives %u tensors of %u", bodies[0].name,
                               bodies[0].graph->outputs->len, m);
    for (uint32_t i = 0; i < m; i++) {
      const GmMeta *in = gm_graph_meta (bodies[0].graph,
                                        g_array_index (bodies[0].graph->inputs, GmValueId, i)),
                   *out = result_meta (&bodies[0], i);
      if (in->dtype != out->dtype || !gm_meta_same_shape (in, out)) {
        g_autofree char *one = gm_meta_text (in), *two = gm_meta_text (out);
        return gm_higher_refuse (c, "value %u goes into %s as %s and comes out as %s", i,
                                 bodies[0].name, one, two);
      }
      again |= out->requires_grad && !grad[i];
      grad[i] = grad[m + i] = grad[i] || out->requires_grad;
    }
    if (again)
      body_clear (&bodies[0]),
          bodies[0] =
              (GmHigherBody){ .name = bodies[0].name, .fn = bodies[0].fn, .n_stand_ins = 2 * m };
  }
  return merge (c, bodies, 1);
}

static const GmTracker *
call_subgraph (GmHigherTrace *c, GmHigherBody *bodies)
{
  bodies[0].name = body_name (c, "");
  if (!trace (c, &bodies[0], NULL))
    return &gm_tracker_poison;
  const GmTracker *result = merge (c, bodies, 1);
  if (!c->r->stop)
    change_once (c, &bodies[0]);
  return c->r->stop ? &gm_tracker_poison : result;
}

static bool
read_count (GmRecorder *r, const GmTracker *t, uint32_t *out)
{
  int64_t n = 0;
  bool ok = gm_constant_int (r, gm_realize (r, t), &n) && n >= 0 && n < UINT16_MAX;
  *out = (uint32_t) n;
  return ok;
}

static bool
read_operands (GmHigherTrace *c, const GmTracker *list)
{
  GmRecorder *r = c->r;
  const GmTracker **operands = gm_tracker_array (r, list->n);
  for (uint32_t i = 0; i < list->n; i++) {
    operands[i] = gm_realize (r, list->items[i]);
    if (r->stop || operands[i]->kind != &gm_kind_tensor)
      return r->stop ? false : (gm_higher_refuse (c, "operand %u is no tensor", i), false);
  }
  c->operands = operands;
  c->n_operands = list->n;
  return true;
}

const GmTracker *
gm_higher_record (GmRecorder *r, const GmCallArgs *args)
{
  GmHigherTrace c = { .r = r };
  GmHigherBody bodies[2] = { 0 };
  if (!gm_args_plain (r, "higher_order", args, 6, 6))
    return &gm_tracker_poison;
  const GmTracker *name = gm_realize (r, args->args[0]), *functions = gm_realize (r, args->args[1]),
                  *operands = gm_realize (r, args->args[2]),
                  *reverse = gm_realize (r, args->args[5]);
  if (r->stop)
    return &gm_tracker_poison;
  const char *text = name->kind == &gm_kind_constant && PyUnicode_Check (name->real)
                         ? PyUnicode_AsUTF8 (name->real)
                         : "";
  c.op = gm_op_find (text, strlen (text));
  if (c.op == GM_OP_NONE || !gm_op_is_higher (c.op) || functions->kind != &gm_kind_tuple
      || operands->kind != &gm_kind_tuple || !read_count (r, args->args[3], &c.n_carried)
      || !read_count (r, args->args[4], &c.n_mapped) || functions->n != gm_higher_n_bodies (c.op)
      || functions->n > 2
      || (c.op == GM_OP_associative_scan
          && (c.n_carried || c.n_mapped != operands->n || !c.n_mapped)))
    return gm_record_break (r, GM_BREAK_CALL_C, "higher_order");
  c.reverse = reverse->real == Py_True;
  if (!read_operands (&c, operands))
    return &gm_tracker_poison;
  for (uint32_t i = 0; i < functions->n; i++)
    bodies[i].fn = gm_realize (r, functions->items[i]);
  c.mark = gm_record_mark (r);
  c.captured = g_array_new (FALSE, FALSE, sizeof (GmHigherCaptured));
  const GmTracker *v = r->stop                          ? &gm_tracker_poison
                       : c.op == GM_OP_cond             ? call_cond (&c, bodies)
                       : c.op == GM_OP_while_loop       ? call_while (&c, bodies)
                       : c.op == GM_OP_scan             ? call_scan (&c, bodies)
                       : c.op == GM_OP_associative_scan ? call_prefixes (&c, bodies)
                                                        : call_subgraph (&c, bodies);
  body_clear (&bodies[0]);
  body_clear (&bodies[1]);
  g_array_unref (c.captured);
  return r->stop ? &gm_tracker_poison : v;
}
