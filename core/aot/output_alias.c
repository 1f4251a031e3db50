/* SPDX-License-Identifier: Apache-2.0
 * output_alias.c -- outputs that share memory with inputs, intermediates or each other.
 *
 * What a caller can see of a view is more than its numbers: writing to it writes to its base,
 * its strides are not row-major, and its history says "a view of".  So no view is ever computed
 * and returned.  The graph gives out the *root*, the tensor that owns the memory, once however
 * many outputs look at it, and the views are taken again on the real tensor after the call.  A
 * view that two outputs share is taken once: equal objects stay one object. An output that is
 * an input is that input.
 * Requires: a recorded graph, in which MOVEMENT ops are the views (simplified at most by dead
 * code: folding a view of a view would lose the object in between).
 * Rejected: as_strided from recorded offsets.  The history would show an op that the program
 * never called.
 */
#include "core/aot/aot.h"
#include "core/autograd/autograd.h"

#include <string.h>

/* -- Graph ------------------------------------------------------------------------------------- */

typedef struct {
  const GmGraph *g;
  GmGraph *out;
  GmArena *arena;
  uint32_t *slot; /* per value of g: its slot, or GM_NO_ID */
  GArray *roots;  /* GmValueId: the inner outputs */
  GArray *replays; /* GmReplay; slots of other replays are their index + REPLAY */
} Rewrite;

/* Slots of replays are numbered after the roots, whose number is known at the end only. */
#define REPLAY 0x80000000u

/* Whether the caller can reach `root` from the output `v` with its history. */
static bool
is_attached (const GmGraph *g, GmValueId v)
{
  for (GmValueId o = gm_views_object (g, v), parent; (parent = gm_views_parent (g, o)) != GM_NO_ID;
       o = parent) {
    const GmNode *n = gm_graph_node (g, gm_graph_value (g, o)->node);
    if (n->op == GM_OP_detach || gm_views_no_grad (g, n))
      return false;
  }
  return true;
}

/* The slot of an object; what it is a view of gets one first. */
static uint32_t
slot_of (Rewrite *r, GmValueId object)
{
  GmValueId parent = gm_views_parent (r->g, object);

  if (r->slot[object] != GM_NO_ID)
    return r->slot[object];
  if (parent == GM_NO_ID) {
    r->slot[object] = r->g->inputs->len + r->roots->len;
    g_array_append_val (r->roots, object);
  } else {
    const GmNode *n = gm_graph_node (r->g, gm_graph_value (r->g, object)->node);
    GmReplay replay = { .op = n->op,
                        .no_grad = gm_views_no_grad (r->g, n),
                        .slot = slot_of (r, parent) };

    if (n->attrs)
      replay.attrs = *n->attrs;
    r->slot[object] = REPLAY + r->replays->len;
    g_array_append_val (r->replays, replay);
  }
  return r->slot[object];
}

static uint32_t
final_slot (const Rewrite *r, uint32_t slot)
{
  return slot >= REPLAY ? slot - REPLAY + r->g->inputs->len + r->roots->len : slot;
}

static bool
add_roots (Rewrite *r, GError **error)
{
  for (uint32_t k = 0; k < r->roots->len; k++) {
    GmValueId root = g_array_index (r->roots, GmValueId, k);
    bool attached = false;

    for (uint32_t i = 0; i < r->g->outputs->len && !attached; i++) {
      GmValueId v = g_array_index (r->g->outputs, GmGraphOutput, i).value;
      attached = gm_views_root (r->g, v) == root && is_attached (r->g, v);
    }
    if (!attached && gm_graph_meta (r->g, root)->requires_grad) {
      root = gm_graph_add_node (r->out, GM_OP_detach, &root, 1, NULL, NULL, error);
      if (root == GM_NO_ID)
        return false;
    }
    gm_graph_add_output (r->out, root, GM_OUTPUT_USER);
  }
  return true;
}

GmGraph *
gm_output_alias (const GmGraph *g, GmArena *arena, GmAliasLayer *layer, GError **error)
{
  g_autoptr (GmGraph) out = gm_graph_new (g->name, arena);
  uint32_t n_outer = g->outputs->len;
  uint32_t *slots = gm_arena_newn (arena, uint32_t, n_outer);
  Rewrite r = { g,
                out,
                arena,
                gm_arena_newn (arena, uint32_t, g->values->len),
                g_array_new (FALSE, FALSE, sizeof (GmValueId)),
                g_array_new (FALSE, FALSE, sizeof (GmReplay)) };
  bool ok;

  gm_graph_share_tables (out, g);
  memset (r.slot, 0xff, sizeof *r.slot * g->values->len);
  for (uint32_t i = 0; i < g->inputs->len; i++)
    r.slot[g_array_index (g->inputs, GmValueId, i)] = i;
  for (uint32_t i = 0; i < n_outer; i++)
    slots[i] =
      slot_of (&r, gm_views_object (g, g_array_index (g->outputs, GmGraphOutput, i).value));
  for (uint32_t i = 0; i < n_outer; i++)
    slots[i] = final_slot (&r, slots[i]);
  for (uint32_t k = 0; k < r.replays->len; k++) {
    GmReplay *replay = &g_array_index (r.replays, GmReplay, k);
    replay->slot = final_slot (&r, replay->slot);
  }
  *layer = (GmAliasLayer){
    .n_inputs = g->inputs->len,
    .n_inner = r.roots->len,
    .n_outer = n_outer,
    .n_replays = r.replays->len,
    .replays = gm_arena_copy (arena, r.replays->data, r.replays->len * sizeof (GmReplay)),
    .slots = slots,
  };
  ok = gm_copy_values (out, g, error) && add_roots (&r, error);
  g_array_unref (r.roots);
  g_array_unref (r.replays);
  return ok ? g_steal_pointer (&out) : NULL;
}

/* -- Run time ---------------------------------------------------------------------------------- */

bool
gm_output_alias_replay (const GmAliasLayer *l, GmTensor *const *inputs, GmTensor *const *inner,
                        GmTensor **outer, GError **error)
{
  GmTensor *made[l->n_replays + 1]; /* + 1: C has no empty arrays */
  uint32_t n_made = 0, n_in = l->n_inputs, n_owned = n_in + l->n_inner;
  bool ok = true;

#define SLOT(s) \
  ((s) < n_in ? inputs[s] : (s) < n_owned ? inner[(s) - n_in] : made[(s) - n_owned])
  for (; n_made < l->n_replays; n_made++) {
    const GmReplay *r = &l->replays[n_made];
    GmTensor *in = SLOT (r->slot);

    bool grad = r->no_grad && gm_grad_set_enabled (false);
    made[n_made] = gm_autograd_op (r->op, &in, 1, &r->attrs, error);
    if (grad)
      gm_grad_set_enabled (true);
    if (!made[n_made]) {
      ok = false;
      break;
    }
  }
  if (ok)
    for (uint32_t i = 0; i < l->n_outer; i++)
      outer[i] = gm_tensor_ref (SLOT (l->slots[i]));
#undef SLOT
  while (n_made > 0)
    gm_tensor_unref (made[--n_made]);
  return ok;
}
