/* SPDX-License-Identifier: Apache-2.0
 * plan.c -- makes plans and answers questions about them.  Calling a plan is in plan_call.c, its
 * backward in plan_history.c.
 *
 * Everything that a call needs to know is worked out here once, and lies in the plan's arena.
 */
#include "core/aot/hook_order.h"
#include "core/aot/plan_private.h"
#include "core/graph/higher.h"
#include "core/tensor/alloc.h"

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
  bool same = alias->n_replays == 0 && l->functional.n_mutations == 0 && !l->functional.n_writes
              && alias->n_outer == alias->n_inner && l->n_outputs == alias->n_outer
              && !l->has_metadata && !l->has_dedupe && !l->has_bases;

  for (uint32_t i = 0; same && i < alias->n_outer; i++)
    same = alias->slots[i] == alias->n_inputs + i;
  return same;
}

#define KEEP(array, n) gm_arena_copy (p->arena, (array), sizeof *(array) * (size_t) (n))

/* Copies the facts about overlaps, renumbered from the recorded graph's inputs to those that
 * callers pass: the generator's state shares memory with no input. */
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

/* Sets p->histories: per history of the layers, the number of its tangent, or -1. */
static void
find_histories (GmPlan *p, const GmJoint *joint)
{
  const GmFunctionalLayer *l = &p->layers.functional;
  int *nr = gm_arena_newn (p->arena, int, l->n_histories);

  for (uint32_t i = 0; i < l->n_histories; i++) {
    nr[i] = -1;
    for (uint32_t t = 0; t < joint->n_tangents && l->histories[i].i != GM_NO_ID; t++)
      if (joint->tangents[t].i == l->histories[i].i)
        nr[i] = (int) t;
  }
  p->histories = nr;
}

static void
copy_layers (GmPlan *p, const GmLayers *from)
{
  GmLayers *l = &p->layers;

  *l = *from;
  l->inputs = KEEP (l->inputs, l->n_inputs);
  l->looks = NULL; /* set by find_looks */
  l->alias.replays = KEEP (l->alias.replays, l->alias.n_replays);
  l->alias.slots = KEEP (l->alias.slots, l->alias.n_outer);
  l->functional.mutations = KEEP (l->functional.mutations, l->functional.n_mutations);
  l->functional.histories = KEEP (l->functional.histories, l->functional.n_histories);
  l->functional.late = KEEP (l->functional.late, l->functional.n_histories);
  l->functional.looks = KEEP (l->functional.looks, l->functional.n_histories);
  l->functional.places = KEEP (l->functional.places, l->functional.n_histories);
  l->functional.taken = KEEP (l->functional.taken, l->functional.n_histories);
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
    l->bases.histories = KEEP (l->bases.histories, l->bases.n_histories);
  }
  copy_overlaps (p, from);
}

/* Sets p->looks: per input that the program reads, the node of g, the functional graph, before
 * which it is first read. */
static void
find_looks (GmPlan *p, const GmLayers *from, const GmGraph *g)
{
  GmPlanLook *looks = gm_arena_newn (p->arena, GmPlanLook, from->n_looks + 1);
  uint32_t k = 0;

  if (!g)
    return;
  for (uint32_t i = 0; i < from->n_looks; i++) {
    while (k < g->nodes->len && gm_graph_node (g, k)->step < from->looks[i].step)
      k++;
    looks[i] = (GmPlanLook){ from->looks[i].input, k };
  }
  p->looks = looks;
  p->unfold.n_looks = from->n_looks;
  p->unfold.n_nodes = g->nodes->len;
}

static bool
shares_grads (const GmPlan *p)
{
  int n = 0;

  for (int i = 0; i < p->n_grads; i++)
    n += !p->sources[i].is_input;
  return n != p->n_backward;
}

/* Returns, per value of g, true if a value at which gradients arrive was computed from it.  The
 * caller frees the array. */
static bool *
find_read (const GmGraph *g, const GmJoint *joint)
{
  bool *read = g_new0 (bool, g->values->len + 1);
  g_autofree bool *arrives = g_new0 (bool, g->values->len + 1);

  for (uint32_t t = 0; t < joint->n_tangents; t++)
    arrives[g_array_index (g->outputs, GmGraphOutput, joint->tangents[t].i).value] = true;
  for (uint32_t k = g->nodes->len; k-- > 0;) {
    const GmNode *n = gm_graph_node (g, k);
    bool on = arrives[n->out] || read[n->out] || n->op == GM_OP_gradient_hook;
    for (uint32_t i = 0; i < n->n_in && on; i++)
      read[n->in[i]] = true;
  }
  return read;
}

/* True if a plain backward can be repeated, because no operation in it has saved values to use up.
 * A write's history is used up, even if it saves nothing (inplace.c). */
static bool
keeps_nothing (const GmGraph *g, const GmJoint *joint, const bool *read)
{
  g_autofree bool *arrives = g_new0 (bool, g->values->len + 1);

  for (uint32_t t = 0; t < joint->n_tangents; t++)
    arrives[g_array_index (g->outputs, GmGraphOutput, joint->tangents[t].i).value] = true;
  for (uint32_t k = 0; k < g->nodes->len; k++) {
    const GmNode *n = gm_graph_node (g, k);
    uint32_t flow = 0;
    for (uint32_t i = 0; i < n->n_in && gm_graph_meta (g, n->out)->requires_grad; i++)
      if (gm_graph_meta (g, n->in[i])->requires_grad && gm_op_is_differentiable (n->op, (int) i))
        flow |= 1u << MIN (i, 30);
    bool other = n->op == GM_OP_custom || n->op == GM_OP_slice_scatter || gm_op_is_higher (n->op);
    if (flow && (arrives[n->out] || read[n->out])
        && (other || gm_op_saves (n->op, (int) n->n_in, flow)))
      return false;
  }
  return true;
}

/* True if there is a gradient hook on v, or on a view that v was taken of, up to the root. */
static bool
is_hooked (const GmGraph *g, GmValueId v)
{
  for (GmValueId parent;; v = parent) {
    parent = gm_views_parent (g, v);
    for (uint32_t k = 0; k < g->nodes->len; k++)
      if (gm_gradient_hook_on (g, k, v))
        return true;
    if (parent == GM_NO_ID || gm_views_parent (g, parent) == GM_NO_ID)
      return false;
  }
}

static void
hold (GmPlan *p, GmSavedValue *saved, uint32_t *places, GmValueId v, GmSavedValue where)
{
  places[v] = (uint32_t) p->n_held;
  saved[p->n_held++] = where;
}

/* Adds to the values that a call holds those that plain gradients read, according to the op table,
 * and the compiled backward does not: results, if these gradients read them directly, as the plain
 * program keeps them (but not those of a checkpoint); and inputs, from which the rest can be
 * recomputed. */
static void
hold_what_is_there (GmPlan *p, uint32_t *places)
{
  const GmGraph *g = p->graph;
  GmSavedValue *saved = gm_arena_newn (p->arena, GmSavedValue,
                                       (size_t) p->n_saved + g->outputs->len + g->inputs->len + 1);
  g_autofree uint32_t *all = g_new0 (uint32_t, g->values->len + 1);
  GmUnfold kept = p->unfold;
  kept.places = all;
  g_autofree bool *reads = gm_unfold_reads (&kept), *written = g_new0 (bool, g->inputs->len + 1);

  memcpy (saved, p->saved, (size_t) p->n_saved * sizeof *saved);
  p->saved = saved;
  for (uint32_t o = 0; o < g->outputs->len; o++) {
    const GmGraphOutput *output = &g_array_index (g->outputs, GmGraphOutput, o);
    uint32_t made = gm_graph_value (g, output->value)->node;
    if (output->kind == GM_OUTPUT_USER && reads[output->value] && places[output->value] == GM_NO_ID
        && made != GM_NO_ID && gm_graph_node (g, made)->tag != GM_TAG_RECOMPUTE)
      hold (p, saved, places, output->value, (GmSavedValue){ false, o });
  }
  for (uint32_t m = 0; m < p->layers.functional.n_mutations; m++)
    written[p->layers.functional.mutations[m].input.i] = true;
  g_autofree bool *needed = gm_unfold_reads (&p->unfold);
  for (int only_needed = 0; only_needed < 2; only_needed++) {
    for (uint32_t i = 0; i < g->inputs->len; i++) {
      GmValueId v = g_array_index (g->inputs, GmValueId, i);
      if ((only_needed ? needed : reads)[v] && places[v] == GM_NO_ID && !written[i])
        hold (p, saved, places, v, (GmSavedValue){ true, i });
    }
    if (!only_needed)
      p->n_watched = p->n_held;
  }
}

/* Finds the early views: inputs that are merged with their base and were views before the call.
 * The nodes that take them in the graph get the sequence numbers of that time, ahead of other reads
 * of the base. */
static void
find_early (GmPlan *p)
{
  const GmBaseLayer *l = &p->layers.bases;
  const GmGraph *g = p->graph;
  uint32_t n = p->layers.has_bases ? l->n_histories : 0,
           *inputs = gm_arena_newn (p->arena, uint32_t, n + 1),
           *early = gm_arena_newn (p->arena, uint32_t, g->nodes->len + 1);

  for (uint32_t k = 0; k < n; k++) {
    uint32_t at =
        l->histories[k].is_base ? GM_NO_ID : p->layers.functional.taken[l->first_history + k];
    if (at == GM_NO_ID || !gm_graph_meta (g, gm_graph_node (g, at)->out)->requires_grad)
      continue;
    inputs[p->n_early++] = l->histories[k].index;
    GmValueId base = gm_graph_node (g, at)->out;
    for (; at != GM_NO_ID; at = gm_graph_value (g, base)->node) {
      early[at] = (uint32_t) p->n_early;
      base = gm_graph_node (g, at)->in[0];
    }
    for (int i = 0; i < p->n_grads; i++)
      if (g_array_index (g->inputs, GmValueId, p->grad_of[i].i) == base)
        p->reaches_back |= 1ull << MIN (i, 63);
  }
  p->early = inputs;
  p->unfold.early = p->n_early ? early : NULL;
}

/* True if sizes of the plan are symbols.  Views that are taken again depend on inputs and outputs,
 * so their attributes need no test. */
static bool
is_sized (const GmPlanSpec *s)
{
  for (uint32_t i = 0; i < s->layers->n_inputs; i++)
    if (gm_meta_is_symbolic (&s->layers->inputs[i]))
      return true;
  return s->exec.begin || gm_graph_is_symbolic (s->parts->forward)
         || gm_graph_is_symbolic (s->parts->backward);
}

static void
keep_graph (GmPlan *p, const GmPlanSpec *s)
{
  if (!s->graph)
    return;
  /* A copy, under the same numbers.  Where facts have made all sizes numbers, the sizes of its
   * bodies are numbers, too. */
  p->graph = s->graph->sizes && !is_sized (s) ? gm_graph_settle (s->graph, p->arena)
                                              : gm_graph_simplify (s->graph, 0, p->arena);
  g_assert (p->graph->values->len == s->graph->values->len);
  uint32_t *places = KEEP (s->parts->places, s->graph->values->len);
  p->unfold = (GmUnfold){ p->graph,         places, p->tangent_of, p->grad_of, s->joint->n_tangents,
                          s->joint->n_grads };
  p->unfold.is_packed = s->parts->restore != NULL;
  p->has_hooks = gm_gradient_hooks_any (p->graph);
  if (p->has_hooks)
    p->backward = gm_graph_simplify (s->parts->backward, 0, p->arena);
  p->calls_program = p->has_hooks;
  p->reads_strides = gm_custom_reads_strides (p->graph);
  p->lays_out = gm_layouts_differ (p, s->joint);
  for (uint32_t i = 0; i < p->graph->nodes->len; i++) {
    const GmNode *n = gm_graph_node (p->graph, i);
    p->calls_program |= n->op == GM_OP_host_call && gm_graph_higher (p->graph, n)->ticket;
  }
  hold_what_is_there (p, places);
  find_early (p);
  g_autofree bool *read = find_read (p->graph, s->joint);
  p->keeps_nothing = !p->has_hooks && keeps_nothing (p->graph, s->joint, read);
  for (uint32_t t = 0; t < s->joint->n_tangents; t++) {
    const GmGraphOutput *o =
        &g_array_index (p->graph->outputs, GmGraphOutput, s->joint->tangents[t].i);
    if (gm_graph_value (p->graph, o->value)->node != GM_NO_ID && read[o->value])
      p->read_inside |= 1ull << MIN (t, 63);
    if (p->has_hooks && is_hooked (p->graph, o->value))
      p->hooked |= 1ull << MIN (t, 63);
  }
}

GmPlan *
gm_plan_new (const GmPlanSpec *s)
{
  static uint64_t next_id = 1;
  GmPlan *p = g_new0 (GmPlan, 1);
  const GmParts *parts = s->parts;

  p->id = __atomic_fetch_add (&next_id, 1, __ATOMIC_RELAXED);
  g_atomic_ref_count_init (&p->refs);
  p->arena = gm_arena_new ();
  p->random = s->random;
  p->exec = s->exec;
  copy_layers (p, s->layers);
  find_histories (p, s->joint);
  p->n_inputs = (int) s->layers->n_inputs;
  p->n_inner = (int) s->joint->n_inputs;
  p->n_function = (int) s->joint->n_elements;
  p->n_forward = (int) parts->forward->outputs->len;
  p->forward_metas = output_metas (p, parts->forward);
  if (parts->backward) {
    p->n_held = p->n_watched = p->n_saved = (int) parts->n_saved;
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
      gm_hook_order_find (s->graph, s->joint, p->arena, &p->hook_order, &p->grad_order);
  }

  find_looks (p, s->layers, s->graph);
  p->direct = is_direct (p);
  p->shares_grads = shares_grads (p);
  if (parts->forward->sizes && is_sized (s))
    p->sizes = gm_sizes_ref (parts->forward->sizes);
  if (parts->restore)
    p->restore = gm_graph_simplify (parts->restore, 0, p->arena);
  gm_donate_plan (p, parts->forward);
  if (p->exec.prepare && p->n_backward > 0) {
    p->first = g_new0 (GmPlanFirst, 1);
  } else {
    gm_donate_plan_backward (p);
  }
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
  if (p->layouts)
    g_ptr_array_unref (p->layouts);
  if (p->of) { /* which has all but the arena */
    gm_arena_free (p->arena);
    gm_plan_unref (p->of);
    g_free (p);
    return;
  }
  gm_sizes_unref (p->sizes);
  if (p->exec.data)
    p->exec.unref (p->exec.data);
  if (p->first)
    g_mutex_clear (&p->first->lock.mutex);
  g_free (p->first);
  gm_graph_free (p->graph);
  gm_graph_free (p->backward);
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

const GmMeta *
gm_plan_input_meta (const GmPlan *p, int i)
{
  return &p->layers.inputs[i + (p->random.used && (uint32_t) i >= p->random.input.i)];
}

const GmOverlap *
gm_plan_overlaps (const GmPlan *p, uint32_t *n)
{
  *n = p->layers.n_overlaps;
  return p->layers.overlaps;
}

bool
gm_plan_check_overlaps (const GmPlan *p, GmTensor *const *inputs, int code, GError **error)
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
    if (gm_plan_same_layout (&inputs[i]->meta, want))
      continue;
    g_autofree char *has = gm_meta_text (&inputs[i]->meta), *wants = gm_meta_text (want);
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "input %d of the compiled function was compiled as %s, but is %s%s: compile again "
                 "for the new shape",
                 i, wants, has, strcmp (has, wants) == 0 ? " with other strides" : "");
    return false;
  }
  return gm_plan_check_overlaps (p, inputs, GM_ERROR_RUNTIME, error);
}
