/* SPDX-License-Identifier: Apache-2.0
 * partition.c -- the joint graph, cut into forward and backward.
 *
 * The forward is what the function's outputs need; the backward is what the gradients need
 * beside it; saved is where the one reads the other.  What is saved, the first that fits:
 *   an input that is not written to   saved as it is: no copy, no memory
 *   a view, a number, a constant      never saved: made again in the backward, views from their base
 *   anything else                     saved, once, and not again if it is an output already
 * Nothing that costs arithmetic is recomputed.  Order is that of inputs and nodes: equal
 * graphs, equal cuts.
 *
 * Here gradients are settled, so merging equal nodes is allowed at last, and a detach is only
 * another name for its operand.  Invariant of both results: every output is the result of a
 * node that owns its memory, no value is given out twice, so a back end may write each output
 * straight into the tensor that it is given.
 */
#include "core/aot/aot.h"

#include <string.h>

enum { FORWARD = 1, BACKWARD = 2, SAVED = 4 };

typedef struct {
  const GmGraph *g; /* the joint graph, simplified */
  const GmJoint *joint;
  const GmFunctionalLayer *writes;
  uint8_t *flags;  /* per value of g */
  GmValueId *fmap; /* per value: in the forward graph */
  GmValueId *bmap; /* per value: in the backward graph */
  GmArena *arena;
  GmParts *parts;
} Cut;

static const GmNode *
producer (const GmGraph *g, GmValueId v)
{
  uint32_t node = gm_graph_value (g, v)->node;

  return node == GM_NO_ID ? NULL : gm_graph_node (g, node);
}

static GmValueId
resolve (const GmGraph *g, GmValueId v)
{
  for (const GmNode *n = producer (g, v); n && n->op == GM_OP_detach; n = producer (g, v))
    v = n->in[0];
  return v;
}

static bool
is_free (const GmNode *n)
{
  return gm_ops[n->op].family == GM_FAMILY_MOVEMENT || gm_ops[n->op].family == GM_FAMILY_CREATE;
}

static GmValueId
output_of (const Cut *c, uint32_t i)
{
  return resolve (c->g, g_array_index (c->g->outputs, GmGraphOutput, i).value);
}

/* -- What goes where --------------------------------------------------------------------------- */

static void
mark_forward (Cut *c)
{
  for (uint32_t i = 0; i < c->joint->n_outputs; i++)
    c->flags[output_of (c, i)] |= FORWARD;
  for (uint32_t i = c->g->nodes->len; i-- > 0;) {
    const GmNode *n = gm_graph_node (c->g, i);
    for (uint32_t k = 0; c->flags[n->out] & FORWARD && k < n->n_in; k++)
      c->flags[resolve (c->g, n->in[k])] |= FORWARD;
  }
}

/* Requires: mark_forward.  A value of the forward that the backward reads is SAVED unless it is
 * free to make again. */
static void
mark_backward (Cut *c)
{
  for (uint32_t i = c->joint->n_outputs; i < c->g->outputs->len; i++)
    c->flags[output_of (c, i)] |= BACKWARD;
  for (uint32_t i = c->g->nodes->len; i-- > 0;) {
    const GmNode *n = gm_graph_node (c->g, i);

    if (!(c->flags[n->out] & BACKWARD))
      continue;
    if (c->flags[n->out] & FORWARD && !is_free (n)) {
      c->flags[n->out] |= SAVED;
      continue;
    }
    for (uint32_t k = 0; k < n->n_in; k++)
      c->flags[resolve (c->g, n->in[k])] |= BACKWARD;
  }
  for (uint32_t i = 0; i < c->joint->n_inputs; i++) {
    GmValueId v = g_array_index (c->g->inputs, GmValueId, i);
    if (c->flags[v] & BACKWARD)
      c->flags[v] |= SAVED;
  }
}

/* -- The two graphs ---------------------------------------------------------------------------- */

static bool
copy_node (const Cut *c, GmGraph *to, const GmNode *n, GmValueId *map, GError **error)
{
  for (uint32_t k = 0; k < n->n_in; k++)
    map[n->in[k]] = map[resolve (c->g, n->in[k])];
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

/* Gives v out; through a copy where v is an input, a view, a constant or an output already. */
static bool
add_owned_output (GmGraph *g, GmValueId v, GmOutputKind kind, GError **error)
{
  const GmNode *n = producer (g, v);

  if (!n || gm_ops[n->op].family == GM_FAMILY_MOVEMENT || n->op == GM_OP_constant ||
      find_output (g, v) != GM_NO_ID)
    v = gm_graph_add_node (g, GM_OP_copy, &v, 1, NULL, n ? n->where : NULL, error);
  if (v == GM_NO_ID)
    return false;
  gm_graph_add_output (g, v, kind);
  return true;
}

static bool
build_forward (Cut *c, GError **error)
{
  GmGraph *f = c->parts->forward;

  for (uint32_t i = 0; i < c->joint->n_inputs; i++) {
    GmValueId v = g_array_index (c->g->inputs, GmValueId, i);
    c->fmap[v] = gm_graph_add_input (f, gm_graph_value (c->g, v)->name, gm_graph_meta (c->g, v));
  }
  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (c->g, i);
    if (c->flags[n->out] & FORWARD && !copy_node (c, f, n, c->fmap, error))
      return false;
  }
  for (uint32_t i = 0; i < c->joint->n_outputs; i++)
    if (!add_owned_output (f, c->fmap[output_of (c, i)],
                           g_array_index (c->g->outputs, GmGraphOutput, i).kind, error))
      return false;
  return true;
}

static bool
is_written (const Cut *c, uint32_t input)
{
  for (uint32_t i = 0; c->writes && i < c->writes->n_mutations; i++)
    if (c->writes->mutations[i].input.i == input)
      return true;
  return false;
}

/* Makes v an output of the forward, unless it is one, and the next input of the backward. */
static bool
save (Cut *c, GmValueId v, const char *name, GmSavedValue *saved, GError **error)
{
  GmGraph *f = c->parts->forward, *b = c->parts->backward;
  uint32_t index = find_output (f, c->fmap[v]);

  if (index == GM_NO_ID) {
    index = f->outputs->len;
    if (!add_owned_output (f, c->fmap[v], GM_OUTPUT_SAVED, error))
      return false;
  }
  GmValueId out = g_array_index (f->outputs, GmGraphOutput, index).value;
  c->bmap[v] = gm_graph_add_input (b, name, gm_graph_meta (f, out));
  saved[c->parts->n_saved++] = (GmSavedValue){ false, index };
  return true;
}

static bool
add_saved (Cut *c, GError **error)
{
  GmGraph *b = c->parts->backward;
  GmSavedValue *saved = gm_arena_newn (c->arena, GmSavedValue, c->g->values->len);

  c->parts->saved = saved;
  for (uint32_t i = 0; i < c->joint->n_inputs; i++) {
    GmValueId v = g_array_index (c->g->inputs, GmValueId, i);
    const char *name = gm_graph_value (c->g, v)->name;

    if (!(c->flags[v] & SAVED))
      continue;
    if (is_written (c, i)) {
      if (!save (c, v, name, saved, error))
        return false;
    } else {
      c->bmap[v] = gm_graph_add_input (b, name, gm_graph_meta (c->g, v));
      saved[c->parts->n_saved++] = (GmSavedValue){ true, i };
    }
  }
  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    GmValueId v = gm_graph_node (c->g, i)->out;
    if (c->flags[v] & SAVED &&
        !save (c, v, gm_copy_fresh_name (c->g, "saved", c->parts->n_saved), saved, error))
      return false;
  }
  return true;
}

static void
add_tangents (Cut *c)
{
  uint32_t *tangents = gm_arena_newn (c->arena, uint32_t, c->joint->n_tangents);

  c->parts->tangents = tangents;
  for (uint32_t i = 0; i < c->joint->n_tangents; i++) {
    GmValueId v = g_array_index (c->g->inputs, GmValueId, c->joint->n_inputs + i);
    if (!(c->flags[v] & BACKWARD))
      continue;
    c->bmap[v] = gm_graph_add_input (c->parts->backward, gm_graph_value (c->g, v)->name,
                                     gm_graph_meta (c->g, v));
    tangents[c->parts->n_tangents++] = i;
  }
}

static bool
add_gradients (Cut *c, GError **error)
{
  GmGraph *b = c->parts->backward;
  GmGradSource *sources = gm_arena_newn (c->arena, GmGradSource, c->joint->n_grads);

  c->parts->sources = sources;
  c->parts->n_grads = c->joint->n_grads;
  for (uint32_t i = 0; i < c->joint->n_grads; i++) {
    GmValueId v = c->bmap[output_of (c, c->joint->n_outputs + i)];
    uint32_t index = find_output (b, v);

    /* a tangent that is a gradient needs no copy */
    for (uint32_t k = 0; k < c->parts->n_tangents; k++)
      if (g_array_index (b->inputs, GmValueId, c->parts->n_saved + k) == v)
        sources[i] = (GmGradSource){ true, c->parts->n_saved + k };
    if (sources[i].is_input)
      continue;
    sources[i].index = index != GM_NO_ID ? index : b->outputs->len;
    if (index == GM_NO_ID && !add_owned_output (b, v, GM_OUTPUT_GRAD, error))
      return false;
  }
  return true;
}

static bool
build_backward (Cut *c, GError **error)
{
  if (!add_saved (c, error))
    return false;
  add_tangents (c);
  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (c->g, i);
    if (c->flags[n->out] & BACKWARD && !(c->flags[n->out] & SAVED) &&
        !copy_node (c, c->parts->backward, n, c->bmap, error))
      return false;
  }
  return add_gradients (c, error);
}

bool
gm_partition (const GmJoint *joint, const GmFunctionalLayer *writes, GmArena *arena, GmParts *parts,
              GError **error)
{
  g_autoptr (GmGraph) g =
    gm_graph_simplify (joint->graph, GM_SIMPLIFY_DEAD | GM_SIMPLIFY_FOLD | GM_SIMPLIFY_CSE, arena);
  uint32_t n = g->values->len;
  Cut c = { .g = g,
            .joint = joint,
            .writes = writes,
            .flags = gm_arena_newn (arena, uint8_t, n),
            .fmap = gm_arena_newn (arena, GmValueId, n),
            .bmap = gm_arena_newn (arena, GmValueId, n),
            .arena = arena,
            .parts = parts };

  g_assert (g->inputs->len == joint->graph->inputs->len &&
            g->outputs->len == joint->graph->outputs->len);
  *parts = (GmParts){ .forward = gm_graph_new ("forward", arena), .n_outputs = joint->n_outputs };
  if (joint->n_grads > 0)
    parts->backward = gm_graph_new ("backward", arena);
  mark_forward (&c);
  mark_backward (&c);
  if (build_forward (&c, error) && (!parts->backward || build_backward (&c, error)))
    return true;
  g_clear_pointer (&parts->forward, gm_graph_free);
  g_clear_pointer (&parts->backward, gm_graph_free);
  return false;
}
