/* SPDX-License-Identifier: Apache-2.0
 * plan.c -- one call of a compiled function, from the caller's tensors to the caller's tensors.
 *
 * From the outside in and out again:
 *   overlaps are as they were                                                     (overlap.c)
 *   the generator's state joins the inputs                                        (enter_random)
 *   inputs are merged                                               (dedupe.c, synthetic_base.c)
 *     outputs are allocated, the back end runs
 *     outputs that require grad get the compiled backward as their history        (attach)
 *   mutated inputs are written                             (functionalize.c, synthetic_base.c)
 *   outputs that are views are taken                                              (output_alias.c)
 *   tensors become others                                                         (metadata.c)
 *
 * The common case (nothing mutated, no views, no gradients) allocates the tensors that the
 * caller gets and nothing else.  Pointers live on the stack, in arrays whose lengths the plan
 * knows.
 * Invariant: a saved tensor is an alias without history, never the tensor that the caller
 * holds, so no reference goes round in a circle.
 */
#include "core/aot/plan.h"

#include "core/aot/unfold.h"
#include "core/tensor/alloc.h"

#include <string.h>

struct GmPlan {
  gatomicrefcount refs;
  GmArena *arena;   /* owns all arrays below */
  GmLayers layers;  /* overlaps numbered as callers pass inputs */
  const bool *keep; /* per input of the recorded graph: needed after the forward */
  GmPlanRandom random;
  GmPlanExec exec;
  bool direct;    /* the caller's outputs are the function's, one to one */
  int n_inputs;   /* of the recorded graph: with the generator's state */
  int n_inner;    /* of the forward */
  int n_function; /* outputs of the function (user outputs and mutations) */
  int n_forward;  /* outputs of the forward: those, then what is saved */
  int n_saved, n_tangents, n_grads, n_backward;
  int n_held; /* of a history: n_saved, then inputs that the plain backward reads and this one not */
  const uint32_t *held; /* which inputs of the forward; n_held - n_saved */
  int n_joint_tangents;
  GmGraph *restore;  /* owned: of GmParts.  Hooks are in the graphs: none is called.  NULL: they are not */
  bool shares_grads; /* some output of the backward is the gradient of several inputs */
  const GmMeta *forward_metas, *backward_metas; /* of the outputs */
  const GmMeta *tangent_metas;                  /* n_tangents */
  const GmMeta *saved_metas;                    /* n_saved */
  const GmSavedValue *saved;
  const uint32_t *tangents;
  const GmGradSource *sources;
  const GmInnerOutput *tangent_of;
  const GmInnerInput *grad_of;
  const uint32_t *n_terms; /* per gradient */
  const uint32_t *hook_order, *grad_order; /* tangents and gradients as eager's nodes have them; NULL: as they are */
  uint64_t read_inside;    /* tangents, by bit, of values that the function goes on with */
  GmGraph *graph;          /* owned; NULL: no backward but the compiled one */
  GmUnfold unfold;
};

/* -- Making one -------------------------------------------------------------------------------- */

static const GmMeta *
input_metas (GmPlan *p, const GmGraph *g, uint32_t from, uint32_t n)
{
  GmMeta *m = gm_arena_newn (p->arena, GmMeta, n);

  for (uint32_t i = 0; i < n; i++)
    m[i] = *gm_graph_meta (g, g_array_index (g->inputs, GmValueId, from + i));
  return m;
}

static const GmMeta *
output_metas (GmPlan *p, const GmGraph *g)
{
  GmMeta *m = gm_arena_newn (p->arena, GmMeta, g->outputs->len);

  for (uint32_t i = 0; i < g->outputs->len; i++)
    m[i] = *gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value);
  return m;
}

static bool
is_direct (const GmPlan *p)
{
  const GmLayers *l = &p->layers;
  const GmAliasLayer *alias = &l->alias;
  bool same = alias->n_replays == 0 && l->functional.n_mutations == 0
              && !l->functional.n_writes
              && alias->n_outer == alias->n_inner && p->n_forward == p->n_function
              && !l->has_metadata && !l->has_dedupe && !l->has_bases;

  for (uint32_t i = 0; same && i < alias->n_outer; i++)
    same = alias->slots[i] == alias->n_inputs + i;
  return same;
}

#define KEEP(array, n) gm_arena_copy (p->arena, (array), sizeof *(array) * (size_t) (n))

/* What was found about the recorded graph's inputs, about the caller's: the generator's state
 * shares memory with nothing. */
static void
copy_overlaps (GmPlan *p, const GmLayers *from)
{
  GmOverlap *o = KEEP (from->overlaps, from->n_overlaps);
  uint32_t n = 0, state = p->random.used ? p->random.input.i : GM_NO_ID;

  for (uint32_t i = 0; i < from->n_overlaps; i++) {
    if (o[i].a.i == state || o[i].b.i == state)
      continue;
    o[n] = o[i];
    o[n].a.i -= o[i].a.i > state;
    o[n++].b.i -= o[i].b.i > state;
  }
  p->layers.overlaps = o;
  p->layers.n_overlaps = n;
}

static void
copy_layers (GmPlan *p, const GmLayers *from)
{
  GmLayers *l = &p->layers;

  *l = *from;
  l->inputs = KEEP (l->inputs, l->n_inputs);
  l->alias.replays = KEEP (l->alias.replays, l->alias.n_replays);
  l->alias.slots = KEEP (l->alias.slots, l->alias.n_outer);
  l->functional.mutations = KEEP (l->functional.mutations, l->functional.n_mutations);
  if (l->functional.n_writes)
    l->functional.n_writes = KEEP (l->functional.n_writes, l->functional.n_outer);
  if (l->has_metadata)
    l->metadata.renamed = KEEP (l->metadata.renamed, l->metadata.n_renamed);
  if (l->has_metadata)
    l->metadata.touched = KEEP (l->metadata.touched, l->metadata.n_touched);
  if (l->has_dedupe)
    l->dedupe.from = KEEP (l->dedupe.from, l->dedupe.n_inner);
  if (l->has_bases) {
    l->bases.sources = KEEP (l->bases.sources, l->bases.n_inner);
    l->bases.pieces = KEEP (l->bases.pieces, l->bases.n_pieces);
    l->bases.first = KEEP (l->bases.first, l->bases.n_inner + 1);
    l->bases.outer = KEEP (l->bases.outer, l->bases.n_outer);
    l->bases.in_pieces = KEEP (l->bases.in_pieces, l->bases.n_inner);
  }
  copy_overlaps (p, from);
}

/* The recorded graph's inputs that inner input i is made of are needed after the forward. */
static void
keep_inner (const GmPlan *p, bool *keep, uint32_t i)
{
  const GmLayers *l = &p->layers;
  uint32_t from = l->has_bases ? l->bases.first[i] : i,
           to = l->has_bases ? l->bases.first[i + 1] : i + 1;

  for (; from < to; from++) {
    uint32_t k = l->has_bases ? l->bases.outer[from].i : from;
    keep[l->has_dedupe ? l->dedupe.from[k].i : k] = true;
  }
}

static void
find_kept (GmPlan *p, const GmPlanSpec *s)
{
  const GmLayers *l = &p->layers;
  bool *keep = gm_arena_newn (p->arena, bool, l->n_inputs);

  for (uint32_t i = 0; i < l->functional.n_mutations; i++)
    keep_inner (p, keep, l->functional.mutations[i].input.i);
  for (uint32_t i = 0; i < s->joint->n_grads; i++)
    keep_inner (p, keep, s->joint->grads[i].i);
  for (uint32_t i = 0; s->parts->backward && i < s->parts->n_saved; i++)
    if (s->parts->saved[i].is_input)
      keep_inner (p, keep, s->parts->saved[i].index);
  for (int i = p->n_saved; i < p->n_held; i++)
    keep_inner (p, keep, p->held[i - p->n_saved]);
  for (uint32_t i = 0; i < l->alias.n_outer + l->alias.n_replays; i++) {
    uint32_t slot =
        i < l->alias.n_outer ? l->alias.slots[i] : l->alias.replays[i - l->alias.n_outer].slot;
    if (slot < l->alias.n_inputs)
      keep[l->has_dedupe ? l->dedupe.from[slot].i : slot] = true;
  }
  for (uint32_t i = 0; l->has_metadata && i < l->metadata.n_renamed; i++)
    if (l->metadata.renamed[i].is_input)
      keep[l->metadata.renamed[i].input.i] = true;
  p->keep = keep;
}

static bool
shares_grads (const GmPlan *p)
{
  int n = 0;

  for (int i = 0; i < p->n_grads; i++)
    n += !p->sources[i].is_input;
  return n != p->n_backward;
}

/* -- Eager's order ----------------------------------------------------------------------------- */

typedef struct {
  int64_t when; /* in eager: large first */
  uint32_t i;
} Turn;

static int
by_turn (const void *a, const void *b)
{
  const Turn *x = a, *y = b;

  return x->when != y->when ? (x->when < y->when) - (x->when > y->when) : (x->i > y->i) - (x->i < y->i);
}

static const uint32_t *
sorted (GmPlan *p, Turn *turns, uint32_t n)
{
  uint32_t *order = gm_arena_newn (p->arena, uint32_t, n);
  bool same = true;

  qsort (turns, n, sizeof *turns, by_turn);
  for (uint32_t k = 0; k < n; k++) {
    order[k] = turns[k].i;
    same = same && order[k] == k;
  }
  return same ? NULL : order;
}

/* A result's gradient is complete when its node is the next one; an argument's, when the first operation that
 * reads it has been passed, and its last operand there. */
static void
find_order (GmPlan *p, const GmPlanSpec *s)
{
  const GmGraph *g = s->graph;
  uint32_t n = MAX (s->joint->n_tangents, s->joint->n_grads);
  g_autofree Turn *turns = g_new0 (Turn, n + 1);
  g_autofree int64_t *first = g_new (int64_t, g->values->len + 1);

  for (uint32_t k = 0; k < s->joint->n_tangents; k++) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, s->joint->tangents[k].i).value;
    uint32_t node = gm_graph_value (g, v)->node;
    turns[k] = (Turn){ node == GM_NO_ID ? -1 : (int64_t) node, k };
  }
  p->hook_order = sorted (p, turns, s->joint->n_tangents);
  for (GmValueId v = 0; v < g->values->len; v++)
    first[v] = -1;
  for (uint32_t k = g->nodes->len; k-- > 0;) {
    const GmNode *m = gm_graph_node (g, k);
    for (uint32_t i = 0; i < m->n_in; i++)
      if (gm_graph_meta (g, m->out)->requires_grad && gm_op_is_differentiable (m->op, (int) i))
        first[m->in[i]] = (int64_t) k * 1024 + 1023 - MIN (i, 1023);
  }
  for (uint32_t k = 0; k < s->joint->n_grads; k++)
    turns[k] = (Turn){ first[g_array_index (g->inputs, GmValueId, s->joint->grads[k].i)], k };
  p->grad_order = sorted (p, turns, s->joint->n_grads);
}

static bool
is_read (const GmGraph *g, GmValueId v)
{
  bool is = false;

  for (uint32_t k = 0; k < g->nodes->len; k++) {
    const GmNode *n = gm_graph_node (g, k);
    for (uint32_t i = 0; i < n->n_in; i++)
      is |= n->in[i] == v;
  }
  return is;
}

/* Inputs that gradients read, as rows of the op table say, where the compiled backward does with
 * something else. */
static void
hold_inputs (GmPlan *p, uint32_t *places)
{
  const GmGraph *g = p->graph;
  uint32_t *held = gm_arena_newn (p->arena, uint32_t, g->inputs->len);
  g_autofree bool *needed = gm_unfold_reads (&p->unfold), *written = g_new0 (bool, g->inputs->len + 1);

  for (uint32_t m = 0; m < p->layers.functional.n_mutations; m++)
    written[p->layers.functional.mutations[m].input.i] = true;
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i);
    if (!needed[v] || places[v] != GM_NO_ID || written[i])
      continue;
    held[p->n_held - p->n_saved] = i;
    places[v] = (uint32_t) p->n_held++;
  }
  p->held = held;
}

static void
keep_graph (GmPlan *p, const GmPlanSpec *s)
{
  if (!s->graph)
    return;
  p->graph = gm_graph_simplify (s->graph, 0, p->arena); /* a copy, under the same numbers */
  g_assert (p->graph->values->len == s->graph->values->len);
  uint32_t *places = KEEP (s->parts->places, s->graph->values->len);
  p->unfold = (GmUnfold){ p->graph, places, p->tangent_of, p->grad_of, s->joint->n_tangents,
                          s->joint->n_grads };
  hold_inputs (p, places);
  for (uint32_t t = 0; t < s->joint->n_tangents; t++) {
    const GmGraphOutput *o = &g_array_index (p->graph->outputs, GmGraphOutput, s->joint->tangents[t].i);
    if (is_read (p->graph, o->value))
      p->read_inside |= 1ull << MIN (t, 63);
  }
}

GmPlan *
gm_plan_new (const GmPlanSpec *s)
{
  GmPlan *p = g_new0 (GmPlan, 1);
  const GmParts *parts = s->parts;

  g_atomic_ref_count_init (&p->refs);
  p->arena = gm_arena_new ();
  p->random = s->random;
  p->exec = s->exec;
  copy_layers (p, s->layers);
  p->n_inputs = (int) s->layers->n_inputs;
  p->n_inner = (int) s->joint->n_inputs;
  p->n_function = (int) s->joint->n_outputs;
  p->n_forward = (int) parts->forward->outputs->len;
  p->forward_metas = output_metas (p, parts->forward);
  if (parts->backward) {
    p->n_held = p->n_saved = (int) parts->n_saved;
    p->n_tangents = (int) parts->n_tangents;
    p->n_grads = (int) parts->n_grads;
    p->n_joint_tangents = (int) s->joint->n_tangents;
    p->n_backward = (int) parts->backward->outputs->len;
    p->backward_metas = output_metas (p, parts->backward);
    p->tangent_metas = input_metas (p, parts->backward, parts->n_saved, parts->n_tangents);
    p->saved_metas = input_metas (p, parts->backward, 0, parts->n_saved);
    p->saved = KEEP (parts->saved, parts->n_saved);
    p->tangents = KEEP (parts->tangents, parts->n_tangents);
    p->sources = KEEP (parts->sources, parts->n_grads);
    p->tangent_of = KEEP (s->joint->tangents, s->joint->n_tangents);
    p->grad_of = KEEP (s->joint->grads, s->joint->n_grads);
    p->n_terms = KEEP (s->joint->n_terms, s->joint->n_grads);
    keep_graph (p, s);
    if (s->graph)
      find_order (p, s);
  }

  find_kept (p, s);
  p->direct = is_direct (p);
  p->shares_grads = shares_grads (p);
  if (parts->restore)
    p->restore = gm_graph_simplify (parts->restore, 0, p->arena);
  return p;
}

GmPlan *
gm_plan_ref (GmPlan *p)
{
  g_atomic_ref_count_inc (&p->refs);
  return p;
}

void
gm_plan_unref (GmPlan *p)
{
  if (!p || !g_atomic_ref_count_dec (&p->refs))
    return;
  if (p->exec.data)
    p->exec.unref (p->exec.data);
  gm_graph_free (p->graph);
  gm_graph_free (p->restore);
  gm_arena_free (p->arena);
  g_free (p);
}

/* -- Asking one -------------------------------------------------------------------------------- */

int
gm_plan_n_inputs (const GmPlan *p)
{
  return p->n_inputs - p->random.used;
}

int
gm_plan_n_outputs (const GmPlan *p)
{
  return (int) p->layers.n_outputs;
}

bool
gm_plan_has_backward (const GmPlan *p)
{
  return p->n_grads > 0;
}

const GmMeta *
gm_plan_input_meta (const GmPlan *p, int i)
{
  return &p->layers.inputs[i + (p->random.used && (uint32_t) i >= p->random.input.i)];
}

static bool
same_layout (const GmMeta *a, const GmMeta *b)
{
  if (a->dtype != b->dtype || a->ndim != b->ndim || a->device != b->device)
    return false;
  return memcmp (a->sizes, b->sizes, sizeof *a->sizes * a->ndim) == 0
         && memcmp (a->strides, b->strides, sizeof *a->strides * a->ndim) == 0;
}

const GmOverlap *
gm_plan_overlaps (const GmPlan *p, uint32_t *n)
{
  *n = p->layers.n_overlaps;
  return p->layers.overlaps;
}

static bool
check_overlaps (const GmPlan *p, GmTensor *const *inputs, int code, GError **error)
{
  for (uint32_t i = 0; i < p->layers.n_overlaps; i++) {
    const GmOverlap *o = &p->layers.overlaps[i];
    if (gm_overlap_holds (o, inputs))
      continue;
    g_autofree char *text = gm_overlap_text (o);
    g_set_error (error, GM_ERROR, code,
                 "the compiled function is for calls where %s, because it changes one of the "
                 "tensors in place, and here it is otherwise: compile again for such inputs, or "
                 "pass a clone ()",
                 text);
    return false;
  }
  return true;
}

bool
gm_plan_check (const GmPlan *p, GmTensor *const *inputs, int n, GError **error)
{
  if (n != gm_plan_n_inputs (p)) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "the compiled function takes %d tensors, %d were given", gm_plan_n_inputs (p), n);
    return false;
  }
  for (int i = 0; i < n; i++) {
    const GmMeta *want = gm_plan_input_meta (p, i);
    if (same_layout (&inputs[i]->meta, want))
      continue;
    g_autofree char *has = gm_meta_text (&inputs[i]->meta), *wants = gm_meta_text (want);
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "input %d of the compiled function was compiled as %s, but is %s%s: compile again "
                 "for the new shape",
                 i, wants, has, strcmp (has, wants) == 0 ? " with other strides" : "");
    return false;
  }
  return check_overlaps (p, inputs, GM_ERROR_RUNTIME, error);
}

/* -- Backward ---------------------------------------------------------------------------------- */

typedef struct {
  GmPlan *plan;
  GmAgNode *node; /* that owns this */
  uint64_t seq; /* the number of the first operation, were they recorded one by one */
  GmSaved saved[];
} History;

/* From the lists that tensors' headers come from, unless it is huge. */
enum { MAX_BLOCK = 4096 };

static size_t
history_bytes (const GmPlan *p)
{
  return sizeof (History) + sizeof ((History *) 0)->saved[0] * (size_t) p->n_held;
}

static void
history_free (void *data)
{
  History *h = data;

  GmPlan *p = h->plan;
  size_t bytes = history_bytes (p);

  for (int i = 0; i < p->n_held; i++)
    gm_saved_clear (&h->saved[i]);
  gm_plan_unref (p);
  if (bytes <= MAX_BLOCK)
    gm_block_give (h, bytes);
  else
    g_free (h);
}

static bool
is_unchanged (const History *h)
{
  for (int i = 0; i < h->plan->n_saved; i++)
    if (!h->saved[i].is_packed && gm_tensor_version (h->saved[i].t) != h->saved[i].version)
      return false;
  return true;
}

/* Whether the compiled backward would do something else than the plain one (unfold.c). */
static bool
needs_unfolding (const History *h, const GmAgNode *n, GmTensor *const *grads, bool create_graph)
{
  return create_graph || gm_autograd_is_awaited (n) || gm_autograd_order_matters (n, h->plan->n_terms)
         || !gm_unfold_can_fill (&h->plan->unfold, grads) || !is_unchanged (h);
}

static bool
check_versions (const History *h, GError **error)
{
  for (int i = 0; i < h->plan->n_saved; i++) {
    if (h->saved[i].is_packed)
      continue;
    uint32_t now = gm_tensor_version (h->saved[i].t);
    if (now == h->saved[i].version)
      continue;
    g_autofree char *text = gm_meta_text (&h->saved[i].t->meta);
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "a tensor that the backward of the compiled function needs was changed by an "
                 "in-place operation: %s is at version %u; expected version %u.  Change a clone () "
                 "instead, or change it after backward",
                 text, now, h->saved[i].version);
    return false;
  }
  return true;
}

/* The gradient of an output that got none: zeros, and negative ones, because x + -0 is x for every
 * x, -0 included, so that a sum has the bits that it has where nothing arrived. */
static GmTensor *
no_gradient (const GmMeta *want, GError **error)
{
  GmAttrs attrs = { .mask = 1u << GM_ATTR_SIZES | 1u << GM_ATTR_DTYPE | 1u << GM_ATTR_VALUE,
                    .n_list = want->ndim,
                    .dtype = want->dtype,
                    .value = gm_scalar_float (-0.0) };
  GmTensor *t = gm_tensor_new (want, error);

  memcpy (attrs.list, want->sizes, sizeof attrs.list);
  if (t && !gm_op_run_into (GM_OP_full, NULL, 0, &attrs, t, error))
    g_clear_pointer (&t, gm_tensor_unref);
  return t;
}

/* The gradient as the compiled backward expects it: there, and laid out like the output.  A new
 * reference. */
static GmTensor *
tangent (const GmMeta *want, GmTensor *g, GError **error)
{
  GmTensor *t;

  if (!g)
    return no_gradient (want, error);
  if (same_layout (&g->meta, want))
    return gm_tensor_ref (g);
  t = gm_tensor_new (want, error);
  if (t && !gm_op_run_into (GM_OP_copy, &g, 1, NULL, t, error))
    g_clear_pointer (&t, gm_tensor_unref);
  return t;
}

static bool
allocate (const GmMeta *metas, int n, GmTensor **out, GError **error)
{
  for (int i = 0; i < n; i++) {
    out[i] = gm_tensor_new (&metas[i], error);
    if (!out[i]) {
      while (i > 0)
        gm_tensor_unref (out[--i]);
      return false;
    }
  }
  return true;
}

static void
unref_all (GmTensor **t, int n)
{
  for (int i = 0; i < n; i++)
    gm_tensor_unref (t[i]);
}

static bool
run_backward (GmPlan *p, GmTensor *const *in, GmTensor **result, GError **error)
{
  GmTensor *out[p->n_backward + 1];

  if (!allocate (p->backward_metas, p->n_backward, out, error))
    return false;
  if (p->n_backward > 0
      && !p->exec.run (p->exec.data, 1, in, p->n_saved + p->n_tangents, out, p->n_backward,
                       error)) {
    unref_all (out, p->n_backward);
    return false;
  }
  for (int i = 0; i < p->n_grads; i++) {
    GmGradSource s = p->sources[i];
    result[i] = s.is_input ? in[s.index] : out[s.index];
    if (s.is_input || p->shares_grads)
      gm_tensor_ref (result[i]);
  }
  if (p->shares_grads)
    unref_all (out, p->n_backward);
  return true;
}

static void
drop_unpacked (const History *h, GmTensor **in, int n)
{
  for (int i = 0; i < n; i++)
    if (h->saved[i].is_packed)
      gm_tensor_unref (in[i]);
}

/* What unpack made, laid out as the compiled backward expects it. */
static GmTensor *
unpack_as (const GmSaved *s, const GmMeta *want, GError **error)
{
  GmTensor *t = gm_saved_get (s, error), *fit = NULL;

  if (!t)
    return NULL;
  if (t->meta.dtype == want->dtype && gm_meta_same_shape (&t->meta, want)) {
    fit = tangent (want, t, error);
  } else {
    g_autofree char *have = gm_meta_text (&t->meta), *expected = gm_meta_text (want);
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "an unpack hook gave %s for a tensor that was saved as %s; give back the shape and "
                 "the dtype that pack was called with",
                 have, expected);
  }
  gm_tensor_unref (t);
  return fit;
}

/* The saved tensors, borrowed but for those that were packed. */
static bool
unpack_saved (const History *h, GmTensor **in, GError **error)
{
  const GmPlan *p = h->plan;

  for (int i = 0; i < p->n_saved; i++) {
    const GmSaved *s = &h->saved[i];
    in[i] = G_LIKELY (!s->is_packed) ? s->t : unpack_as (s, &p->saved_metas[i], error);
    if (!in[i]) {
      drop_unpacked (h, in, i);
      return false;
    }
  }
  return true;
}

/* The backward as the plain one would be, with what hooks in the graphs give back. */
static bool
unfold (History *h, GmAgNode *n, GmTensor *const *grads, GmTensor **result, bool create_graph,
        GError **error)
{
  const GmPlan *p = h->plan;

  if (!p->restore)
    return gm_unfold_backward (&p->unfold, n, h->saved, h->seq, grads, create_graph, result, error);
  int n_kept = (int) p->restore->outputs->len;
  GmTensor *in[p->n_saved + 1], *out[n_kept + 1];
  GmSaved kept[n_kept + 1];

  if (!check_versions (h, error))
    return false;
  for (int i = 0; i < p->n_saved; i++)
    in[i] = h->saved[i].t;
  if (!gm_graph_interpret (p->restore, in, out, error))
    return false;
  for (int i = 0; i < n_kept; i++)
    kept[i] = (GmSaved){ .t = out[i], .version = gm_tensor_version (out[i]) };
  bool ok = gm_unfold_backward (&p->unfold, n, kept, h->seq, grads, create_graph, result, error);
  unref_all (out, n_kept);
  return ok;
}

static bool
compiled_backward (GmAgNode *n, void *data, GmTensor *const *grads, GmTensor **result,
                   bool create_graph, GError **error)
{
  History *h = data;
  GmPlan *p = h->plan;
  GmTensor *in[p->n_saved + p->n_tangents + 1];
  int n_in = 0;
  bool ok = true;

  if (p->graph && needs_unfolding (h, n, grads, create_graph))
    return unfold (h, n, grads, result, create_graph, error);
  if (create_graph) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "double backward (create_graph=True) through this compiled function is not "
                 "supported: call the function without compile, its eager form can be "
                 "differentiated twice");
    return false;
  }
  if (!check_versions (h, error))
    return false;
  if (!unpack_saved (h, in, error))
    return false;
  n_in = p->n_saved;
  for (int i = 0; ok && i < p->n_tangents; i++) {
    in[n_in] = tangent (&p->tangent_metas[i], grads[p->tangents[i]], error);
    ok = in[n_in] != NULL;
    n_in += ok;
  }
  ok = ok && run_backward (p, in, result, error);
  unref_all (in + p->n_saved, n_in - p->n_saved);
  drop_unpacked (h, in, p->n_saved);
  return ok;
}

static const uint32_t *
compiled_order (const void *data, bool results)
{
  const GmPlan *p = ((const History *) data)->plan;

  return results ? p->grad_order : p->hook_order;
}

static const GmAgFunction compiled_function = {
  .name = "CompiledBackward",
  .backward = compiled_backward,
  .release = history_free,
  .order = compiled_order,
  .again = true,
};

/* -- Forward ----------------------------------------------------------------------------------- */

/* Gives the outputs that have a tangent their history.  Versions are noted by the caller, after
 * the writes. */
static History *
attach (GmPlan *p, GmTensor *const *in, GmTensor *const *out)
{
  size_t bytes = history_bytes (p);
  History *h = bytes <= MAX_BLOCK ? gm_block_take (bytes) : g_malloc (bytes);
  GmTensor *edges[p->n_grads + 1], *outs[p->n_joint_tangents + 1];

  h->plan = gm_plan_ref (p);
  h->seq = gm_autograd_reserve (p->graph ? p->graph->nodes->len : 0);
  for (int i = 0; i < p->n_saved; i++)
    h->saved[i] = (GmSaved){ .t = gm_tensor_new_alias (p->saved[i].is_input ? in[p->saved[i].index]
                                                                           : out[p->saved[i].index]) };
  for (int i = p->n_saved; i < p->n_held; i++)
    h->saved[i] = (GmSaved){ .t = gm_tensor_new_alias (in[p->held[i - p->n_saved]]) };
  for (int i = 0; i < p->n_grads; i++)
    edges[i] = in[p->grad_of[i].i];
  for (int i = 0; i < p->n_joint_tangents; i++)
    outs[i] = out[p->tangent_of[i].i];
  h->node = gm_autograd_attach (&compiled_function, h, edges, p->n_grads, outs, p->n_joint_tangents);
  if (p->graph)
    gm_autograd_wait_inside (h->node, p->read_inside);
  return h;
}

/* The end of a forward: the writes are done.  h may be gone afterwards. */
static void
note_versions (History *h)
{
  for (int i = 0; i < h->plan->n_held; i++)
    if (!h->saved[i].is_packed)
      h->saved[i].version = gm_tensor_version (h->saved[i].t);
  gm_autograd_attached (h->node);
}

/* Hands what the forward saved to the hooks, in order. */
static bool
pack_saved (History *h, GError **error)
{
  if (G_LIKELY (gm_saved_hooks_top () == NULL) || h->plan->restore)
    return true;
  for (int i = 0; i < h->plan->n_saved; i++)
    if (!gm_saved_pack (&h->saved[i], error))
      return false;
  return true;
}

/* The inputs of a call: the recorded graph's, and those of each layer further in, borrowed but for
 * `owned`, the bases. */
typedef struct {
  GmTensor *const *recorded, **single, **inner;
  int n_owned;
} Inputs;

static void
enter_layers (const GmPlan *p, Inputs *in)
{
  const GmLayers *l = &p->layers;

  if (l->has_dedupe)
    gm_dedupe_enter (&l->dedupe, in->recorded, in->single);
  else
    memcpy (in->single, in->recorded, sizeof *in->single * l->n_inputs);
  if (l->has_bases) {
    gm_synthetic_base_enter (&l->bases, in->single, in->inner);
    in->n_owned = (int) l->bases.n_bases;
  } else {
    memcpy (in->inner, in->single, sizeof *in->inner * (size_t) p->n_inner);
  }
}

static bool
leave_all (const GmPlan *p, const Inputs *in, GmTensor *const *out, GmTensor **outputs,
           GError **error)
{
  const GmLayers *l = &p->layers;
  GmTensor *results[l->alias.n_outer + 1], **given = l->has_metadata ? results : outputs;

  if (!gm_functionalize_write_back (&l->functional, in->inner, out, error)
      || (l->has_bases && !gm_synthetic_base_leave (&l->bases, in->single, out, error))
      || !gm_output_alias_replay (&l->alias, in->single, out, given, error))
    return false;
  return !l->has_metadata
         || gm_metadata_leave (&l->metadata, in->recorded, results, outputs, error);
}

/* After the forward: writes, views, shapes.  The mode of the call may be another one than that of
 * the statements, which the layers know where it matters. */
static bool
leave_layers (const GmPlan *p, const Inputs *in, GmTensor *const *out, GmTensor **outputs,
              GError **error)
{
  bool was = gm_grad_set_enabled (p->layers.differentiate || gm_grad_enabled ());
  bool ok = leave_all (p, in, out, outputs, error);

  gm_grad_set_enabled (was);
  return ok;
}

/* A boxed call's references to inputs: drops those that nobody needs any more. */
static void
drop_inputs (const GmPlan *p, GmTensor **boxed, bool all)
{
  for (int i = 0; boxed && i < p->n_inputs; i++)
    if (all || !p->keep[i])
      g_clear_pointer (&boxed[i], gm_tensor_unref);
}

/* boxed: NULL, or references that the caller has given away. */
static bool
run_forward (GmPlan *p, const Inputs *in, GmTensor **boxed, GmTensor *const *out, GError **error)
{
  GmTensor *given[p->n_inner + 1];
  bool ok;

  if (!p->n_forward)
    return true;
  if (!boxed || !p->exec.run_boxed)
    return p->exec.run (p->exec.data, 0, in->inner, p->n_inner, out, p->n_forward, error);
  for (int i = 0; i < p->n_inner; i++)
    given[i] = gm_tensor_ref (in->inner[i]);
  drop_inputs (p, boxed, false);
  ok = p->exec.run_boxed (p->exec.data, given, p->n_inner, out, p->n_forward, error);
  for (int i = 0; i < p->n_inner; i++)
    gm_tensor_unref (given[i]);
  return ok;
}

/* From the recorded graph's inputs to the caller's outputs. */
static bool
run (GmPlan *p, GmTensor *const *recorded, GmTensor **boxed, GmTensor **outputs, GError **error)
{
  GmTensor *out[p->n_forward + 1], *single[p->n_inputs + 1], *inner[p->n_inner + 1];
  Inputs in = { recorded, single, inner, 0 };
  History *h = NULL;
  bool ok;

  if (!allocate (p->forward_metas, p->n_forward, out, error))
    return false;
  enter_layers (p, &in);
  ok = run_forward (p, &in, boxed, out, error);
  drop_inputs (p, boxed, false);
  if (ok && p->n_grads > 0) {
    h = attach (p, inner, out);
    ok = pack_saved (h, error);
  }
  ok = ok && leave_layers (p, &in, out, outputs, error);
  if (h && ok)
    note_versions (h);
  unref_all (inner, in.n_owned);
  unref_all (out, p->n_forward);
  return ok;
}

static bool
run_direct (GmPlan *p, GmTensor *const *in, GmTensor **outputs, GError **error)
{
  if (!allocate (p->forward_metas, p->n_forward, outputs, error))
    return false;
  if (p->n_forward > 0
      && !p->exec.run (p->exec.data, 0, in, p->n_inner, outputs, p->n_forward, error)) {
    unref_all (outputs, p->n_forward);
    return false;
  }
  if (p->n_grads > 0) {
    History *h = attach (p, in, outputs);
    if (!pack_saved (h, error)) {
      unref_all (outputs, p->n_forward);
      return false;
    }
    note_versions (h);
  }
  return true;
}

/* The inputs with the generator's state in its place. */
static GmTensor *
enter_random (const GmPlan *p, GmTensor *const *inputs, GmTensor **in, GError **error)
{
  int64_t *state;
  GmTensor *t = gm_tensor_new (&p->layers.inputs[p->random.input.i], error);

  if (!t)
    return NULL;
  state = gm_tensor_data (t);
  state[0] = (int64_t) gm_random_current_seed ();
  state[1] = (int64_t) gm_random_take (p->random.draws);
  for (int i = 0, k = 0; i < p->n_inputs; i++)
    in[i] = i == (int) p->random.input.i ? t : inputs[k++];
  return t;
}

static bool
run_checked (GmPlan *p, GmTensor *const *inputs, GmTensor **boxed, GmTensor **outputs,
             GError **error)
{
  if (!check_overlaps (p, inputs, GM_ERROR_UNSUPPORTED, error))
    return false;
  if (p->direct && !boxed && !p->random.used)
    return run_direct (p, inputs, outputs, error);
  if (!p->random.used)
    return run (p, inputs, boxed, outputs, error);
  GmTensor *in[p->n_inputs];
  GmTensor *state = enter_random (p, inputs, in, error);
  if (!state)
    return false;
  if (!boxed) {
    bool ok = run (p, in, NULL, outputs, error);
    gm_tensor_unref (state);
    return ok;
  }
  /* with the state among them, the references stand in other places */
  GmTensor *given[p->n_inputs];
  memcpy (given, in, sizeof given);
  memset (boxed, 0, sizeof *boxed * (size_t) gm_plan_n_inputs (p));
  bool ok = run (p, in, given, outputs, error);
  drop_inputs (p, given, true);
  return ok;
}

bool
gm_plan_run (GmPlan *p, GmTensor *const *inputs, int n, GmTensor **outputs, GError **error)
{
  bool ok;

  g_assert (n == gm_plan_n_inputs (p));
  if (p->direct && !p->random.used)
    ok = run_direct (p, inputs, outputs, error);
  else
    ok = run_checked (p, inputs, NULL, outputs, error);
  if (!ok)
    memset (outputs, 0, sizeof *outputs * p->layers.n_outputs);
  return ok;
}

bool
gm_plan_run_boxed (GmPlan *p, GmTensor **inputs, int n, GmTensor **outputs, GError **error)
{
  GmTensor *borrowed[n + 1], *boxed[n + 1];
  bool ok;

  g_assert (n == gm_plan_n_inputs (p));
  memcpy (borrowed, inputs, sizeof *inputs * (size_t) n);
  memcpy (boxed, inputs, sizeof *inputs * (size_t) n);
  memset (inputs, 0, sizeof *inputs * (size_t) n);
  ok = run_checked (p, borrowed, boxed, outputs, error);
  for (int i = 0; i < n; i++)
    gm_tensor_unref (boxed[i]);
  if (!ok)
    memset (outputs, 0, sizeof *outputs * p->layers.n_outputs);
  return ok;
}
