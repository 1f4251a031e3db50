/* SPDX-License-Identifier: Apache-2.0
 * output_alias.c -- outputs that share memory with inputs, intermediates or each other.
 *
 * A caller can see more of a view than its numbers: writing to it writes to its base, its strides
 * are not row-major, and its history says "a view of".  So no view is ever computed and returned.
 * The graph outputs the *root*, the tensor that owns the memory, once however many outputs share
 * it, and the views are taken again on the real tensor after the call.  A view that two outputs
 * share is taken once: equal objects stay one object.  An output that is an input is that input.
 * Where the function itself reads the view, or the tensor that it is a view of, its gradient is
 * summed inside, in eager's order: it leaves the graph as a history.
 * Requires: a recorded graph, in which MOVEMENT ops are the views (simplified at most by dead code:
 * folding a view of a view would lose the object in between).
 * Rejected: as_strided from recorded offsets.  The history would show an op that the program never
 * called.
 */
#include "core/aot/layer_facts.h"
#include "core/autograd/autograd.h"

#include <string.h>

/* -- Graph ------------------------------------------------------------------------------------- */

typedef struct {
  const GmGraph *g;
  GmGraph *out;
  GmArena *arena;
  uint32_t *slot;    /* per value of g: its slot, or GM_NO_ID */
  GArray *roots;     /* GmValueId: the inner outputs */
  GArray *replays;   /* GmReplay; slots of other replays are their index + REPLAY */
  GArray *histories; /* GmValueId: views whose history is made inside */
  bool *needed;      /* per value: a view that is taken again */
} Rewrite;

/* Added to the slot numbers of replays while the number of roots, which come first, is not
 * known. */
#define REPLAY 0x80000000u

/* True if the output `v` has a history through which the caller can reach the root of its views: no
 * detach and no view without a history lies between. */
static bool
is_attached (const GmGraph *g, GmValueId v)
{
  for (GmValueId o = gm_views_object (g, v), parent; (parent = gm_views_parent (g, o)) != GM_NO_ID;
       o = parent) {
    const GmNode *n = gm_graph_node (g, gm_graph_value (g, o)->node);
    if (gm_op_detaches (n->op) || gm_views_no_grad (g, n))
      return false;
  }
  return true;
}

/* Gives the object's root a slot, and marks the views on the way to it as needed. */
static void
need (Rewrite *r, GmValueId object)
{
  for (GmValueId parent; (parent = gm_views_parent (r->g, object)) != GM_NO_ID; object = parent)
    r->needed[object] = true;
  if (r->slot[object] != GM_NO_ID)
    return;
  r->slot[object] = r->g->inputs->len + r->roots->len;
  g_array_append_val (r->roots, object);
}

/* True if a gradient of the view `object` flows on to its base, so that the view has a place in the
 * order of reads, and its history may be made inside of the function. */
static bool
has_history (const Rewrite *r, GmValueId object)
{
  return gm_graph_meta (r->g, object)->requires_grad && is_attached (r->g, object);
}

/* Returns the number of writes by the function to the x.data `object`, or to a view of it. */
static uint32_t
count_writes (const GmGraph *g, GmValueId object)
{
  uint32_t n = 0;

  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *write = gm_graph_node (g, i);
    n += gm_ops[write->op].family == GM_FAMILY_MUTATE
         && gm_views_counter (g, write->in[0]) == object;
  }
  return n;
}

/* Appends a replay for each needed view, in the order in which the program took them: gradients are
 * added in the order of their histories. */
static void
add_replays (Rewrite *r)
{
  for (GmValueId v = 0; v < r->g->values->len; v++) {
    if (!r->needed[v])
      continue;
    const GmNode *n = gm_graph_node (r->g, gm_graph_value (r->g, v)->node);
    GmReplay replay = { .op = n->op,
                        .no_grad = gm_views_no_grad (r->g, n),
                        .history = GM_NO_ID,
                        .slot = r->slot[gm_views_parent (r->g, v)] };

    if (n->attrs)
      replay.attrs = *n->attrs;
    if (n->op == GM_OP_data)
      replay.n_writes = count_writes (r->g, v);
    if (has_history (r, v)) {
      replay.history = r->histories->len;
      g_array_append_val (r->histories, v);
    }
    r->slot[v] = REPLAY + r->replays->len;
    g_array_append_val (r->replays, replay);
  }
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
  g_autoptr (GmGraph) out = gm_graph_new_like (g, g->name, arena);
  uint32_t n_outer = g->outputs->len;
  uint32_t *slots = gm_arena_newn (arena, uint32_t, n_outer);
  Rewrite r = { g,
                out,
                arena,
                gm_arena_newn (arena, uint32_t, g->values->len),
                g_array_new (FALSE, FALSE, sizeof (GmValueId)),
                g_array_new (FALSE, FALSE, sizeof (GmReplay)),
                g_array_new (FALSE, FALSE, sizeof (GmValueId)),
                gm_arena_newn (arena, bool, g->values->len) };
  bool ok;

  gm_graph_share_tables (out, g);
  memset (r.slot, 0xff, sizeof *r.slot * g->values->len);
  for (uint32_t i = 0; i < g->inputs->len; i++)
    r.slot[g_array_index (g->inputs, GmValueId, i)] = i;
  for (uint32_t i = 0; i < n_outer; i++)
    need (&r, gm_views_object (g, g_array_index (g->outputs, GmGraphOutput, i).value));
  add_replays (&r);
  for (uint32_t i = 0; i < n_outer; i++) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, i).value;
    slots[i] = final_slot (&r, r.slot[gm_views_object (g, v)]);
  }
  for (uint32_t k = 0; k < r.replays->len; k++) {
    GmReplay *replay = &g_array_index (r.replays, GmReplay, k);
    replay->slot = final_slot (&r, replay->slot);
  }
  *layer = (GmAliasLayer){
    .n_inputs = g->inputs->len,
    .n_inner = r.roots->len,
    .n_outer = n_outer,
    .n_replays = r.replays->len,
    .n_histories = r.histories->len,
    .replays = gm_arena_copy (arena, r.replays->data, r.replays->len * sizeof (GmReplay)),
    .slots = slots,
  };
  ok = gm_copy_values (out, g, error) && add_roots (&r, error);
  for (uint32_t k = 0; ok && k < r.histories->len; k++)
    gm_graph_add_output (out, g_array_index (r.histories, GmValueId, k), GM_OUTPUT_HISTORY);
  g_array_unref (r.histories);
  g_array_unref (r.roots);
  g_array_unref (r.replays);
  return ok ? g_steal_pointer (&out) : NULL;
}

/* -- Expected facts about the result ----------------------------------------------------------- */

/* Predicts the outputs: roots that are no inputs, in new memory, then views whose history is made
 * inside of the function. */
GmFacts *
gm_output_alias_expect (const GmGraph *g, const GmAliasLayer *l, GmArena *arena)
{
  const GmFacts *before = gm_layer_facts_derive (g, arena);
  uint32_t first = l->n_inputs + l->n_inner;
  GmFacts *f = gm_layer_facts_new (arena, before->n_inputs, l->n_inner + l->n_histories);

  g_assert (before->n_inputs == l->n_inputs && before->n_outputs == l->n_outer);
  for (uint32_t i = 0; i < l->n_inputs; i++)
    f->inputs[i] = before->inputs[i];
  for (uint32_t i = 0; i < l->n_outer; i++) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, i).value, o = gm_views_object (g, v);
    uint32_t slot = l->slots[i];
    for (; slot >= first; slot = l->replays[slot - first].slot, o = gm_views_parent (g, o)) {
      const GmReplay *r = &l->replays[slot - first];
      if (r->history != GM_NO_ID)
        f->outputs[l->n_inner + r->history] =
            (GmOutputFact){ .meta = *gm_graph_meta (g, o), .kind = GM_OUTPUT_HISTORY };
    }
    if (slot < l->n_inputs)
      continue;
    GmOutputFact *root = &f->outputs[slot - l->n_inputs];
    bool attached = root->meta.requires_grad || is_attached (g, v);
    root->meta = *gm_graph_meta (g, o);
    root->meta.requires_grad &= attached;
  }
  return f;
}

/* -- Run time ---------------------------------------------------------------------------------- */

/* True if taking the view again, here, makes its history: it is made neither inside of the
 * function, nor by a later refresh. */
static bool
is_recorded (const GmReplay *r, const GmHistories *h)
{
  return !h->node || r->history == GM_NO_ID || (h->of[r->history] < 0 && !h->late[r->history]);
}

/* Sets recorded, per replay, to true if it is taken with a history.  Taking a view with its history
 * refreshes its base, which may be too soon: eager makes postponed histories in the order of
 * refreshes. */
static void
find_recorded (const GmAliasLayer *l, const GmHistories *h, bool *recorded)
{
  uint32_t first = l->n_inputs + l->n_inner;

  for (uint32_t k = 0; k < l->n_replays; k++)
    recorded[k] = false;
  for (uint32_t i = 0; i < l->n_outer; i++)
    if (l->slots[i] >= first)
      recorded[l->slots[i] - first] = is_recorded (&l->replays[l->slots[i] - first], h);
  for (uint32_t k = l->n_replays; k-- > 0;)
    if (recorded[k] && l->replays[k].slot >= first) {
      uint32_t of = l->replays[k].slot - first;
      recorded[of] |= is_recorded (&l->replays[of], h);
    }
}

/* Gives t's new history the sequence number that it has where the function takes the view. */
static void
place (const GmHistories *h, uint32_t history, GmTensor *t)
{
  if (h->places && h->places[history] != GM_NO_ID)
    gm_autograd_place_within (t, h->node, h->first + h->every * h->places[history]);
}

/* Refreshes the views numbered below `end` in the order of reads. */
static void
look_until (const GmHistories *h, uint32_t end)
{
  for (uint32_t k = 0; k < end; k++) {
    GmTensor *t = g_steal_pointer (&h->looked[h->looks[k]]);
    if (!t)
      continue;
    bool late = gm_autograd_is_late (t);
    gm_tensor_requires_grad (t); /* refreshes it */
    if (late)
      place (h, h->looks[k], t);
    gm_tensor_unref (t);
  }
}

void
gm_histories_look (const GmHistories *h)
{
  look_until (h, h->n);
}

/* Refreshes, before a view is taken, with a history, of the tensor `of`, all views that the program
 * read before. */
static void
look_before (const GmHistories *h, const GmReplay *r, const GmTensor *of)
{
  for (uint32_t k = h->n; k-- > 0;)
    if (h->looks[k] == r->history || h->looked[h->looks[k]] == of) {
      look_until (h, h->looks[k] == r->history ? k : k + 1);
      return;
    }
}

bool
gm_output_alias_replay (const GmAliasLayer *l, GmTensor *const *inputs, GmTensor *const *inner,
                        const GmHistories *histories, GmTensor **outer, GError **error)
{
  GmTensor *made[l->n_replays + 1]; /* + 1: C has no empty arrays */
  uint32_t n_made = 0, n_in = l->n_inputs, n_owned = n_in + l->n_inner;
  bool ok = true, recorded[l->n_replays + 1];

  find_recorded (l, histories, recorded);

#define SLOT(s) ((s) < n_in ? inputs[s] : (s) < n_owned ? inner[(s) -n_in] : made[(s) -n_owned])
  for (; n_made < l->n_replays; n_made++) {
    const GmReplay *r = &l->replays[n_made];
    GmTensor *in = SLOT (r->slot);

    /* these take a view without a refresh */
    if (recorded[n_made] && !gm_op_detaches (r->op) && !r->no_grad)
      look_before (histories, r, in);
    bool grad = (r->no_grad || !recorded[n_made]) && gm_grad_set_enabled (false);
    made[n_made] = gm_autograd_op (r->op, &in, 1, &r->attrs, error);
    if (grad)
      gm_grad_set_enabled (true);
    if (!made[n_made]) {
      ok = false;
      break;
    }
    if (r->op == GM_OP_data)
      *gm_tensor_writes (made[n_made]) = r->n_writes;
    bool has = histories->node && r->history != GM_NO_ID,
         placed = histories->places && r->history != GM_NO_ID;
    if (has && histories->late[r->history] && histories->of[r->history] < 0) {
      gm_autograd_make_late (made[n_made]);
      if (histories->late[r->history] == GM_LATE_NOW)
        histories->looked[r->history] = gm_tensor_ref (made[n_made]);
    } else if (has && histories->of[r->history] >= 0)
      gm_autograd_give_history (made[n_made], histories->node, histories->of[r->history]);
    else if (placed && recorded[n_made])
      place (histories, r->history, made[n_made]);
  }
  if (ok)
    for (uint32_t i = 0; i < l->n_outer; i++)
      outer[i] = gm_tensor_ref (SLOT (l->slots[i]));
#undef SLOT
  while (n_made > 0)
    gm_tensor_unref (made[--n_made]);
  return ok;
}
