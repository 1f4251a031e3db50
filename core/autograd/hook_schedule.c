/* SPDX-License-Identifier: Apache-2.0
 * hook_schedule.c -- when hooks on gradients run.
 *
 * Hooks on a node's gradient run just before the node.  If one node stands for many, the hooks on
 * each of its results have a turn of their own in the walk, at the sequence number of the node that
 * makes that result, between the hooks of other nodes.  Not under compiled autograd, and not if a
 * hook waits for a gradient that is complete only inside of the function: then all of the
 * function's hooks are served inside of it, and those on other nodes cannot come between them.
 */
#include "core/autograd/backward_stretch.h"
#include "core/autograd/walk.h"
#include "core/tensor/alloc.h"

#include <string.h>

/* Returns the order in which n's hooks run or, with `results`, its results are delivered; owned by
 * n's state.  NULL: ascending, also for a function whose state a region has dropped. */
const uint32_t *
gm_walk_order_of (const GmAgNode *n, bool results)
{
  bool has = n->kind == GM_NODE_FUNCTION && n->fn->order && n->state && !n->released && !n->region;
  return G_UNLIKELY (has) ? n->fn->order (n->state, results) : NULL;
}

static bool
is_inside (const GmAgNode *n, uint32_t nr)
{
  return n->inside >> MIN (nr, 63) & 1;
}

/* True if a hook, retain_grad () or capture waits for the gradient of an output of n to which nodes
 * inside of n contribute. */
static bool
is_awaited (const GmAgNode *n, const GmSlot *s)
{
  bool is = false;
  for (guint i = 0; n->hooks && i < n->hooks->len; i++)
    is |= is_inside (n, g_array_index (n->hooks, GmAgHook, i).nr);
  for (guint i = 0; n->retained && i < n->retained->len; i++)
    is |= is_inside (n, g_array_index (n->retained, GmRetained, i).nr);
  for (int i = 0; s->captured && i < s->walk->n_captures; i++)
    is |= s->walk->captures[i].node == n && is_inside (n, s->walk->captures[i].nr);
  return is;
}

/* True if something waits for a gradient that is complete only inside of s's node.  False where a
 * walk through another function ends, and where the node is used up and its gradient is not
 * captured: there the node is like any other. */
bool
gm_walk_waits_inside (const GmWalk *w, const GmSlot *s)
{
  return s->node->inside && (!s->node->released || s->captured) && !(w->through && s->outer)
         && is_awaited (s->node, s);
}

bool
gm_autograd_is_awaited (const GmAgNode *n)
{
  return is_awaited (n, n->slot);
}

bool
gm_walk_greet (GmWalk *w, GmSlot *s, GError **error)
{
  GmAgNode *n = s->node;
  bool ok = true;
  if (s->greeted || (w->through && s->outer) || gm_walk_waits_inside (w, s))
    return true;
  const uint32_t *order = n->hooks ? gm_walk_order_of (n, false) : NULL;
  for (uint32_t k = 0; k < n->n_out && ok; k++) {
    uint32_t nr = order ? order[k] : k;
    ok = gm_hooks_run (n->hooks, nr, gm_walk_gradient (s, nr), error);
  }
  s->greeted = true;
  return ok;
}

/* -- Turns ------------------------------------------------------------------------------------- */

static bool
has_hook_at (const GmAgNode *n, uint32_t nr)
{
  for (guint i = 0; i < n->hooks->len; i++)
    if (g_array_index (n->hooks, GmAgHook, i).nr == nr)
      return true;
  return false;
}

static bool
takes_turns (const GmWalk *w, const GmSlot *s)
{
  const GmAgNode *n = s->node;

  return n->kind == GM_NODE_FUNCTION && n->fn->number && n->state && !n->released && !n->region
         && n->n_out <= 64 && !gm_stretch_runner_now && !(w->through && s->outer)
         && !gm_walk_waits_inside (w, s);
}

void
gm_walk_expect (GmWalk *w, GmSlot *s, uint32_t nr)
{
  GmAgNode *n = s->node;

  s->waiting++;
  if (G_LIKELY (!n->hooks) || (!s->expected && !takes_turns (w, s)))
    return;
  if (!s->expected)
    s->expected = g_new0 (uint32_t, n->n_out);
  if (s->expected[nr]++ == 0 && has_hook_at (n, nr)) {
    s->greetings |= 1ull << nr;
    s->waiting++; /* waits for that turn, too */
  }
}

bool
gm_walk_expect_less (GmSlot *s, uint32_t nr)
{
  s->waiting--;
  if (s->expected && --s->expected[nr] == 0 && s->greetings >> nr & 1) {
    s->greetings &= ~(1ull << nr);
    s->waiting--;
  }
  return s->waiting == 0;
}

void
gm_walk_delivered (GmWalk *w, GmSlot *s, uint32_t nr)
{
  if (--s->expected[nr] > 0 || !(s->greetings >> nr & 1))
    return;
  GmSlot *turn = gm_block_take (sizeof *turn);
  memset (turn, 0, sizeof *turn);
  turn->walk = w;
  turn->node = s->node;
  turn->seq = s->node->fn->number (s->node->state, nr);
  turn->outer = s;
  turn->turn = nr + 1;
  turn->before = w->last;
  w->last = turn;
  gm_walk_push (w, turn);
}

bool
gm_walk_take_turn (GmWalk *w, GmSlot *turn, GError **error)
{
  GmSlot *s = turn->outer;
  uint32_t nr = turn->turn - 1;

  s->greeted = true;
  if (!gm_hooks_run (s->node->hooks, nr, gm_walk_gradient (s, nr), error))
    return false;
  if (--s->waiting == 0)
    gm_walk_push (w, s);
  return true;
}
