/* SPDX-License-Identifier: Apache-2.0
 * partition.c -- the joint graph, cut into forward and backward.
 *
 * The forward computes what the function's outputs need, and what is saved; the backward computes
 * what the gradients need beside that.  choose_saved.c chooses the saved values; whatever it
 * chooses:
 *
 *   an input that is not written to   is saved as it is: no copy, no memory
 *   a view, a number, a constant      is never saved: made again in the backward
 *   any other saved value             is saved once, and not again if it is an output already
 *   a needed value that is not saved  is computed again, just before the first node that reads it;
 *                                     twice, if a matrix product would keep it in memory (forget)
 *
 * Both graphs keep the order of the joint graph, the backward's the order of the eager engine; so
 * results have the same bits whatever is saved.  Equal graphs, equal cuts.
 *
 * Here gradients are complete, so merging equal nodes is allowed at last, and a detach is only
 * another name for its operand.
 * Invariant of both results: every output is the result of a node that owns its memory, and no
 * value is output twice, so a back end may write each output straight into the tensor that it is
 * given.
 */
#include "core/aot/partition.h"
#include "core/aot/unfold_history.h"

#include "core/graph/higher.h"

#include <string.h>

typedef struct {
  GmCut cut;
  GmValueId *fmap;    /* per value: its id in the forward graph */
  GmValueId *bmap;    /* per value: its id in the backward graph, or GM_NO_ID */
  uint32_t *saved_as; /* per SAVED value: its number among the saved values */
  GArray *stack;      /* GmValueId: values still to be computed */
  GArray *again;      /* GmValueId: values that are recomputed for the present node, in order */
  GmParts *parts;
  GmGradSource *sources;           /* parts->sources, while they are written */
  const GmFunctionalLayer *writes; /* NULL: none */
} Build;

static GmValueId
output_of (const GmCut *c, uint32_t i)
{
  return gm_cut_value (c->g, g_array_index (c->g->outputs, GmGraphOutput, i).value);
}

/* -- Marking ----------------------------------------------------------------------------------- */

/* Sets FORWARD on everything that FORWARD values are computed from. */
static void
spread_forward (GmCut *c)
{
  for (uint32_t i = c->g->nodes->len; i-- > 0;) {
    const GmNode *n = gm_graph_node (c->g, i);
    for (uint32_t k = 0; c->flags[n->out] & GM_CUT_FORWARD && k < n->n_in; k++)
      c->flags[gm_cut_value (c->g, n->in[k])] |= GM_CUT_FORWARD;
  }
}

static void
mark_written (GmCut *c, const GmFunctionalLayer *writes)
{
  for (uint32_t i = 0; writes && i < writes->n_mutations; i++)
    c->flags[g_array_index (c->g->inputs, GmValueId, writes->mutations[i].input.i)] |=
        GM_CUT_WRITTEN;
}

static void
mark_tangents (GmCut *c)
{
  for (uint32_t i = c->joint->n_inputs; i < c->g->inputs->len; i++)
    c->flags[g_array_index (c->g->inputs, GmValueId, i)] |= GM_CUT_TANGENT;
  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (c->g, i);
    for (uint32_t k = 0; k < n->n_in; k++)
      c->flags[n->out] |= c->flags[gm_cut_value (c->g, n->in[k])] & GM_CUT_TANGENT;
  }
}

/* Sets WANTED.  Nodes that no gradient needs have been removed, so every TANGENT node runs in the
 * backward. */
static void
mark_wanted (GmCut *c)
{
  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (c->g, i);
    for (uint32_t k = 0; c->flags[n->out] & GM_CUT_TANGENT && k < n->n_in; k++) {
      GmValueId v = gm_cut_value (c->g, n->in[k]);
      c->flags[v] |= c->flags[v] & GM_CUT_TANGENT ? GM_CUT_BACKWARD : GM_CUT_WANTED;
    }
  }
  for (uint32_t i = c->joint->n_outputs; i < c->g->outputs->len; i++) {
    GmValueId v = output_of (c, i);
    c->flags[v] |= c->flags[v] & GM_CUT_TANGENT ? GM_CUT_BACKWARD : GM_CUT_WANTED;
  }
}

/* Sets `flags` on values that must not be computed twice, or must not be left out, unless they
 * depend on a tangent: the forward computes them. */
static void
mark_effects (GmCut *c, uint8_t flags)
{
  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (c->g, i);
    if (gm_op_has_effects (n->op) && !(c->flags[n->out] & GM_CUT_TANGENT))
      c->flags[n->out] |= flags;
  }
}

void
gm_cut_mark (GmCut *c, const GmFunctionalLayer *writes)
{
  mark_written (c, writes);
  for (uint32_t i = 0; i < c->joint->n_elements; i++)
    c->flags[output_of (c, i)] |= GM_CUT_FORWARD | GM_CUT_OUTPUT;
  mark_tangents (c);
  mark_effects (c, GM_CUT_FORWARD);
  spread_forward (c);
  mark_wanted (c);
}

/* Sets BACKWARD on WANTED values and on all that these are computed from, from readers to operands,
 * up to values that are SAVED or inputs.  Inputs that it meets become SAVED; values that it does
 * not meet are SAVED no more. */
static void
demand (GmCut *c)
{
  const GmGraph *g = c->g;

  for (uint32_t v = 0; v < g->values->len; v++)
    if (!(c->flags[v] & GM_CUT_TANGENT)) {
      c->flags[v] &= (uint8_t) ~GM_CUT_BACKWARD;
      if (c->flags[v] & GM_CUT_WANTED)
        c->flags[v] |= GM_CUT_BACKWARD;
    }
  mark_effects (c, GM_CUT_SAVED);
  for (uint32_t i = g->nodes->len; i-- > 0;) {
    const GmNode *n = gm_graph_node (g, i);
    uint8_t flags = c->flags[n->out];
    bool computed = flags & GM_CUT_BACKWARD && !(flags & (GM_CUT_TANGENT | GM_CUT_SAVED));
    for (uint32_t k = 0; computed && k < n->n_in; k++)
      c->flags[gm_cut_value (g, n->in[k])] |= GM_CUT_BACKWARD;
  }
  for (uint32_t i = 0; i < c->joint->n_inputs; i++)
    c->flags[g_array_index (g->inputs, GmValueId, i)] |= GM_CUT_SAVED;
  for (uint32_t v = 0; v < g->values->len; v++)
    if (!(c->flags[v] & GM_CUT_BACKWARD))
      c->flags[v] &= (uint8_t) ~GM_CUT_SAVED;
}

static void
decide (GmCut *c)
{
  gm_cut_choose (c);
  demand (c);
  if (c->options->memory_budget < 1) {
    gm_cut_budget (c);
    demand (c);
  }
  for (uint32_t v = 0; v < c->g->values->len; v++)
    if (c->flags[v] & GM_CUT_SAVED)
      c->flags[v] |= GM_CUT_FORWARD;
  spread_forward (c);
}

/* -- The two graphs ---------------------------------------------------------------------------- */

static bool
copy_node (const GmCut *c, GmGraph *to, const GmNode *n, GmValueId *map, GError **error)
{
  for (uint32_t k = 0; k < n->n_in; k++)
    map[n->in[k]] = map[gm_cut_value (c->g, n->in[k])];
  map[n->out] = gm_copy_node (to, c->g, n, map, error);
  return map[n->out] != GM_NO_ID;
}

static uint32_t
find_output (const GmGraph *g, GmValueId v)
{
  for (uint32_t i = 0; i < g->outputs->len; i++)
    if (g_array_index (g->outputs, GmGraphOutput, i).value == v)
      return i;
  return GM_NO_ID;
}

bool
gm_cut_add_output (GmGraph *g, GmValueId v, GmOutputKind kind, GError **error)
{
  const GmNode *n = gm_cut_producer (g, v);

  if (!n || gm_ops[n->op].family == GM_FAMILY_MOVEMENT || n->op == GM_OP_constant
      || find_output (g, v) != GM_NO_ID)
    v = gm_graph_add_node (g, GM_OP_copy, &v, 1, NULL, n ? n->where : NULL, error);
  if (v == GM_NO_ID)
    return false;
  gm_graph_add_output (g, v, kind);
  return true;
}

static bool
build_forward (Build *b, GError **error)
{
  GmGraph *f = b->parts->forward;
  const GmCut *c = &b->cut;

  for (uint32_t i = 0; i < c->joint->n_inputs; i++) {
    GmValueId v = g_array_index (c->g->inputs, GmValueId, i);
    b->fmap[v] = gm_graph_add_input (f, gm_graph_value (c->g, v)->name, gm_graph_meta (c->g, v));
  }
  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (c->g, i);
    if (c->flags[n->out] & GM_CUT_FORWARD && !copy_node (c, f, n, b->fmap, error))
      return false;
  }
  for (uint32_t i = 0; i < c->joint->n_elements; i++)
    if (!gm_cut_add_output (f, b->fmap[output_of (c, i)],
                            g_array_index (c->g->outputs, GmGraphOutput, i).kind, error))
      return false;
  return true;
}

/* True if the output holds the contents of a write: in the plain program it is separate from the
 * saved tensor, so a later write to the output does not change what was saved. */
static bool
is_written_output (const GmFunctionalLayer *w, uint32_t output)
{
  return w && w->n_writes && output < w->n_outer && w->n_writes[output] > 0;
}

/* Makes v an output of the forward, unless it is an output already, and the next input of the
 * backward, called `name`; appends it to `saved`. */
static bool
save (Build *b, GmValueId v, const char *name, GmSavedValue *saved, GError **error)
{
  GmGraph *f = b->parts->forward;
  uint32_t index = find_output (f, b->fmap[v]);

  if (index == GM_NO_ID || is_written_output (b->writes, index)) {
    index = f->outputs->len;
    if (!gm_cut_add_output (f, b->fmap[v], GM_OUTPUT_SAVED, error))
      return false;
  }
  GmValueId out = g_array_index (f->outputs, GmGraphOutput, index).value;
  b->bmap[v] = gm_graph_add_input (b->parts->backward, name, gm_graph_meta (f, out));
  b->saved_as[v] = b->parts->n_saved;
  saved[b->parts->n_saved++] = (GmSavedValue){ false, index };
  return true;
}

static bool
add_saved (Build *b, GError **error)
{
  const GmCut *c = &b->cut;
  GmSavedValue *saved = gm_arena_newn (c->arena, GmSavedValue, c->g->values->len);

  b->parts->saved = saved;
  for (uint32_t i = 0; i < c->joint->n_inputs; i++) {
    GmValueId v = g_array_index (c->g->inputs, GmValueId, i);
    const char *name = gm_graph_value (c->g, v)->name;

    if (!(c->flags[v] & GM_CUT_SAVED))
      continue;
    if (c->flags[v] & GM_CUT_WRITTEN) {
      if (!save (b, v, name, saved, error))
        return false;
    } else {
      b->bmap[v] = gm_graph_add_input (b->parts->backward, name, gm_graph_meta (c->g, v));
      b->saved_as[v] = b->parts->n_saved;
      saved[b->parts->n_saved++] = (GmSavedValue){ true, i };
    }
  }
  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    GmValueId v = gm_graph_node (c->g, i)->out;
    if (c->flags[v] & GM_CUT_SAVED
        && !save (b, v, gm_copy_fresh_name (c->g, "saved", b->parts->n_saved), saved, error))
      return false;
  }
  return true;
}

/* Returns, per value of the joint graph as it was before simplification (map: its id now), its
 * number among the saved values, or GM_NO_ID.  In the arena. */
static const uint32_t *
find_places (const Build *b, const GmValueId *map)
{
  uint32_t n = b->cut.joint->graph->values->len;
  uint32_t *places = gm_arena_newn (b->cut.arena, uint32_t, n);

  for (uint32_t v = 0; v < n; v++) {
    GmValueId now = map[v] == GM_NO_ID ? GM_NO_ID : gm_cut_value (b->cut.g, map[v]);
    bool saved = now != GM_NO_ID && b->cut.flags[now] & GM_CUT_SAVED;
    places[v] = saved ? b->saved_as[now] : GM_NO_ID;
  }
  return places;
}

static void
add_tangents (Build *b)
{
  const GmCut *c = &b->cut;
  uint32_t *tangents = gm_arena_newn (c->arena, uint32_t, c->joint->n_tangents);

  b->parts->tangents = tangents;
  for (uint32_t i = 0; i < c->joint->n_tangents; i++) {
    GmValueId v = g_array_index (c->g->inputs, GmValueId, c->joint->n_inputs + i);
    if (!(c->flags[v] & GM_CUT_BACKWARD))
      continue;
    b->bmap[v] = gm_graph_add_input (b->parts->backward, gm_graph_value (c->g, v)->name,
                                     gm_graph_meta (c->g, v));
    tangents[b->parts->n_tangents++] = i;
  }
}

/* Pushes the operands of n that the backward does not have yet onto b->stack; returns true if there
 * were any. */
static bool
push_missing (Build *b, const GmNode *n)
{
  guint before = b->stack->len;

  for (uint32_t k = 0; k < n->n_in; k++) {
    GmValueId v = gm_cut_value (b->cut.g, n->in[k]);
    if (b->bmap[v] == GM_NO_ID)
      g_array_append_val (b->stack, v);
  }
  return b->stack->len > before;
}

/* Appends v to the backward, after all values that it needs and that are not there yet. */
static bool
compute (Build *b, GmValueId v, GError **error)
{
  g_array_append_val (b->stack, v);
  while (b->stack->len > 0) {
    v = g_array_index (b->stack, GmValueId, b->stack->len - 1);
    const GmNode *n = gm_cut_producer (b->cut.g, v);
    if (b->bmap[v] == GM_NO_ID && push_missing (b, n))
      continue;
    g_array_set_size (b->stack, b->stack->len - 1);
    if (b->bmap[v] != GM_NO_ID)
      continue;
    if (!copy_node (&b->cut, b->parts->backward, n, b->bmap, error))
      return false;
    if (!(b->cut.flags[v] & GM_CUT_TANGENT))
      g_array_append_val (b->again, v);
  }
  return true;
}

/* True if n reads v, or a view of it. */
static bool
reads (const GmGraph *g, const GmNode *n, GmValueId v)
{
  for (uint32_t k = 0; k < n->n_in; k++) {
    GmValueId in = gm_cut_value (g, n->in[k]);
    for (const GmNode *m;
         in != v && (m = gm_cut_producer (g, in)) && gm_ops[m->op].family == GM_FAMILY_MOVEMENT;)
      in = gm_cut_value (g, m->in[0]);
    if (in == v)
      return true;
  }
  return false;
}

/* Forgets the operands of a matrix product after it has read them.  The product needs them in
 * memory, and a value with a later reader would have to stay there; it is recomputed for that
 * reader instead.  Values that are small, or are no elementwise operation, are kept, and so are
 * tagged values. */
static void
forget (Build *b, const GmNode *reader)
{
  const GmGraph *g = b->cut.g;

  for (guint i = 0; i < b->again->len; i++) {
    GmValueId v = g_array_index (b->again, GmValueId, i);
    const GmNode *n = gm_cut_producer (g, v);
    uint8_t family = gm_ops[n->op].family;

    if (n->tag != GM_TAG_NONE || reads (g, reader, v))
      continue;
    if (family == GM_FAMILY_MOVEMENT
            ? b->bmap[gm_cut_value (g, n->in[0])] == GM_NO_ID
            : (family == GM_FAMILY_POINTWISE || family == GM_FAMILY_CAST)
                  && gm_cut_bytes (g, v) * GM_CUT_SMALL >= gm_cut_bytes (g, reader->in[0]))
      b->bmap[v] = GM_NO_ID;
  }
}

/* Makes gradient i, whose value the backward has, an output of the backward, unless it is a tangent
 * or an output already. */
static bool
add_gradient (Build *b, uint32_t i, GError **error)
{
  GmGraph *to = b->parts->backward;
  GmGradSource *source = &b->sources[i];
  GmValueId v = output_of (&b->cut, b->cut.joint->n_outputs + i);

  for (uint32_t k = 0; k < b->parts->n_tangents; k++)
    if (g_array_index (to->inputs, GmValueId, b->parts->n_saved + k) == b->bmap[v])
      *source = (GmGradSource){ true, b->parts->n_saved + k };
  for (uint32_t k = 0; k < i && !source->is_input; k++)
    if (output_of (&b->cut, b->cut.joint->n_outputs + k) == v) {
      *source = b->sources[k];
      return true;
    }
  if (source->is_input)
    return true;
  source->index = to->outputs->len;
  return gm_cut_add_output (to, b->bmap[v], GM_OUTPUT_GRAD, error);
}

/* Makes v, as soon as it is computed, an output for each gradient that it is.  A gradient that is a
 * view is copied, so that its base need not stay in memory until the end. */
static bool
add_gradients_of (Build *b, GmValueId v, GError **error)
{
  const GmCut *c = &b->cut;

  for (uint32_t i = 0; i < c->joint->n_grads; i++)
    if (output_of (c, c->joint->n_outputs + i) == v && !add_gradient (b, i, error))
      return false;
  return true;
}

/* Adds the gradients that no node of the backward computes: tangents that pass through, and
 * gradients that depend on no tangent. */
static bool
add_other_gradients (Build *b, GError **error)
{
  const GmCut *c = &b->cut;

  for (uint32_t i = 0; i < c->joint->n_grads; i++) {
    GmValueId v = output_of (c, c->joint->n_outputs + i);
    bool done = c->flags[v] & GM_CUT_TANGENT && gm_cut_producer (c->g, v);
    if (!done && (!compute (b, v, error) || !add_gradient (b, i, error)))
      return false;
  }
  return true;
}

static bool
build_backward (Build *b, GError **error)
{
  const GmCut *c = &b->cut;
  /* per value: true if it is a gradient */
  g_autofree bool *grads = g_new0 (bool, c->g->values->len + 1);

  b->parts->n_grads = c->joint->n_grads;
  b->parts->sources = b->sources = gm_arena_newn (c->arena, GmGradSource, c->joint->n_grads);
  for (uint32_t i = 0; i < c->joint->n_grads; i++)
    grads[output_of (c, c->joint->n_outputs + i)] = true;
  if (!add_saved (b, error))
    return false;
  add_tangents (b);
  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (c->g, i);
    if (!(c->flags[n->out] & GM_CUT_TANGENT) || n->op == GM_OP_detach)
      continue;
    g_array_set_size (b->again, 0);
    if (!compute (b, n->out, error) || (grads[n->out] && !add_gradients_of (b, n->out, error)))
      return false;
    if (gm_ops[n->op].family == GM_FAMILY_CONTRACT)
      forget (b, n);
  }
  return add_other_gradients (b, error);
}

static bool
check_options (const GmPartitionOptions *o, GError **error)
{
  if (o->memory_budget >= 0 && o->memory_budget <= 1)
    return true;
  g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "memory-budget=%g: it is a number from 0 to 1",
               o->memory_budget);
  return false;
}

/* Sets PLAIN on the values that the function itself computes, without those of its gradient. */
static void
mark_plain (GmCut *c, const GmValueId *map)
{
  uint32_t n = c->joint->n_tangents > 0
                   ? g_array_index (c->joint->graph->inputs, GmValueId, c->joint->n_inputs)
                   : 0;

  for (uint32_t v = 0; v < n; v++)
    if (map[v] != GM_NO_ID)
      c->flags[gm_cut_value (c->g, map[v])] |= GM_CUT_PLAIN;
}

/* Returns, per value, true if an unfolded backward (unfold_history.c) reads it.  places: per value,
 * its index among the saved tensors, or GM_NO_ID.  The caller owns the array. */
static bool *
unfolded_reads (const GmJoint *joint, const uint32_t *places)
{
  GmUnfold u = { joint->graph,      places,        joint->tangents, joint->grads,
                 joint->n_tangents, joint->n_grads };

  return gm_unfold_reads (&u);
}

/* Saves results of host functions that an unfolded backward (unfold_history.c) may read: host
 * functions are not called again for that. */
static void
keep_effects (GmCut *c, const GmValueId *map)
{
  const GmGraph *g = c->joint->graph;
  bool any = false;

  for (uint32_t i = 0; i < g->nodes->len; i++)
    any |= gm_op_has_effects (gm_graph_node (g, i)->op);
  if (!any)
    return;
  g_autofree uint32_t *places = g_new (uint32_t, g->values->len + 1);
  memset (places, 0xff, g->values->len * sizeof *places);
  g_autofree bool *reads = unfolded_reads (c->joint, places);
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (!gm_op_has_effects (n->op) || !reads[n->out] || map[n->out] == GM_NO_ID)
      continue;
    GmValueId v = gm_cut_value (c->g, map[n->out]);
    if (!(c->flags[v] & GM_CUT_TANGENT))
      c->flags[v] |= GM_CUT_SAVED | GM_CUT_FORWARD;
  }
  spread_forward (c);
}

/* Returns, per value, true if plain gradients read it and it must not be merged with equal outputs:
 * the caller may write to the outputs before the backward runs.  The caller frees the array. */
static bool *
find_apart (const GmJoint *joint)
{
  const GmGraph *g = joint->graph;
  g_autofree uint32_t *all = g_new0 (uint32_t, g->values->len + 1);
  bool *apart = unfolded_reads (joint, all);

  for (uint32_t i = g->nodes->len; i-- > 0;) {
    const GmNode *n = gm_graph_node (g, i);
    if (gm_ops[n->op].family == GM_FAMILY_MOVEMENT && apart[n->out])
      apart[n->in[0]] = true;
  }
  return apart;
}

/* Saves values that plain gradients read and the forward computes, though the compiled backward
 * does not need them, if they would have to be recomputed from tensors that the caller may write to
 * before an unfolded backward (unfold_history.c).  apart: the result of find_apart. */
static void
keep_frail (GmCut *c, const GmFunctionalLayer *writes, const bool *apart, const GmValueId *map)
{
  const GmGraph *g = c->g;
  g_autofree bool *read = g_new0 (bool, g->values->len + 1),
                  *frail = g_new0 (bool, g->values->len + 1);

  for (uint32_t v = 0; v < c->joint->graph->values->len; v++)
    if (apart[v] && map[v] != GM_NO_ID)
      read[gm_cut_value (g, map[v])] = true;
  for (uint32_t i = 0; i < c->joint->n_inputs; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i);
    /* the saved value is a copy */
    frail[v] = !(c->flags[v] & GM_CUT_SAVED && c->flags[v] & GM_CUT_WRITTEN);
  }
  for (uint32_t i = 0; i < c->joint->n_elements; i++)
    frail[output_of (c, i)] = !is_written_output (writes, i);
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    GmValueId v = n->out;
    if (c->flags[v] & (GM_CUT_OUTPUT | GM_CUT_SAVED | GM_CUT_TANGENT))
      continue;
    for (uint32_t k = 0; k < n->n_in; k++)
      frail[v] |= frail[gm_cut_value (g, n->in[k])];
    if (!read[v] || !frail[v] || !(c->flags[v] & GM_CUT_FORWARD) || gm_cut_is_free (n)
        || n->tag == GM_TAG_RECOMPUTE)
      continue;
    c->flags[v] |= GM_CUT_SAVED;
    frail[v] = false;
  }
}

/* Cuts the joint graph into `parts`.  also: per input of the function, true if it is saved even if
 * the backward does not read it. */
static bool
cut (const GmJoint *joint, const GmFunctionalLayer *writes, const GmPartitionOptions *options,
     const bool *also, GmArena *arena, GmParts *parts, GError **error)
{
  GmValueId *map = gm_arena_newn (arena, GmValueId, joint->graph->values->len);
  g_autofree bool *apart = find_apart (joint);
  g_autoptr (GmGraph) g = gm_index_rewrites (
      gm_graph_simplify_mapped (joint->graph, GM_SIMPLIFY_DEAD | GM_SIMPLIFY_FOLD | GM_SIMPLIFY_CSE,
                                arena, apart, map),
      joint->n_inputs, apart, map, joint->graph->values->len, arena, error);
  if (!g)
    return false;
  g_autoptr (GArray) stack = g_array_new (FALSE, FALSE, sizeof (GmValueId));
  g_autoptr (GArray) again = g_array_new (FALSE, FALSE, sizeof (GmValueId));
  uint32_t n = g->values->len;
  Build b = { .cut = { g, joint, options, arena, gm_arena_newn (arena, uint8_t, n) },
              .fmap = gm_arena_newn (arena, GmValueId, n),
              .bmap = gm_arena_newn (arena, GmValueId, n),
              .saved_as = gm_arena_newn (arena, uint32_t, n),
              .stack = stack,
              .again = again,
              .parts = parts,
              .writes = writes };

  g_assert (g->inputs->len == joint->graph->inputs->len
            && g->outputs->len == joint->graph->outputs->len);
  *parts = (GmParts){ .n_outputs = joint->n_elements };
  memset (b.bmap, 0xff, n * sizeof *b.bmap);
  parts->forward = gm_graph_new_like (joint->graph, "forward", arena);
  gm_graph_share_highers (parts->forward, joint->graph);
  if (joint->n_grads > 0) {
    parts->backward = gm_graph_new_like (joint->graph, "backward", arena);
    gm_graph_share_highers (parts->backward, joint->graph);
  }
  gm_cut_mark (&b.cut, writes);
  mark_plain (&b.cut, map);
  if (parts->backward) {
    decide (&b.cut);
    keep_effects (&b.cut, map);
    if (gm_cut_is_default (&b.cut) && options->memory_budget == 1)
      keep_frail (&b.cut, writes, apart, map);
  }
  for (uint32_t i = 0; parts->backward && also && i < joint->n_inputs; i++)
    if (also[i])
      b.cut.flags[g_array_index (g->inputs, GmValueId, i)] |= GM_CUT_SAVED | GM_CUT_FORWARD;
  if (build_forward (&b, error) && (!parts->backward || build_backward (&b, error))) {
    parts->places = parts->backward ? find_places (&b, map) : NULL;
    GmGraph *both[] = { parts->forward, parts->backward };
    for (int i = 0; i < 2 && both[i]; i++) {
      gm_graph_compact_highers (both[i]);
      gm_higher_drop_customs (both[i]);
    }
    return true;
  }
  g_clear_pointer (&parts->forward, gm_graph_free);
  g_clear_pointer (&parts->backward, gm_graph_free);
  return false;
}

/* Sets lost, per input, to true if it is overwritten, not saved, and read by an unfolded backward
 * (unfold_history.c): then it would be lost.  Returns true if there is such an input. */
static bool
find_lost (const GmJoint *joint, const GmFunctionalLayer *writes, const GmParts *parts, bool *lost)
{
  g_autofree bool *reads = unfolded_reads (joint, parts->places);
  bool any = false;

  for (uint32_t m = 0; m < writes->n_mutations; m++) {
    uint32_t i = writes->mutations[m].input.i;
    GmValueId v = g_array_index (joint->graph->inputs, GmValueId, i);
    any |= lost[i] = reads[v] && parts->places[v] == GM_NO_ID;
  }
  return any;
}

bool
gm_partition (const GmJoint *joint, const GmFunctionalLayer *writes,
              const GmPartitionOptions *options, GmArena *arena, GmParts *parts, GError **error)
{
  static const GmPartitionOptions plain = { GM_PARTITION_DEFAULT, 1 };
  g_autofree bool *lost = g_new0 (bool, joint->n_inputs + 1);

  options = options ? options : &plain;
  *parts = (GmParts){ .n_outputs = joint->n_elements };
  if (!check_options (options, error) || !cut (joint, writes, options, NULL, arena, parts, error))
    return false;
  if (!writes || !writes->n_mutations || !parts->backward
      || !find_lost (joint, writes, parts, lost))
    return true;
  gm_graph_free (parts->forward);
  gm_graph_free (parts->backward);
  return cut (joint, writes, options, lost, arena, parts, error);
}
