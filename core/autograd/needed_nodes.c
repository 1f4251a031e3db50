/* SPDX-License-Identifier: Apache-2.0
 * needed_nodes.c -- walks for some gradients only: which nodes lead to these, and which are left
 * out.
 *
 * A node is needed if a gradient that was asked for lies behind it.  If one node stands for many,
 * this may hold for some of its results only: nodes that have read only the other results do not
 * contribute, so they do not run, and no node waits for them.
 */
#include "core/autograd/walk.h"

void
gm_walk_find_leads (GmWalk *w, GmSlot *s)
{
  const GmAgNode *n = s->node;
  bool some = n->fn->leads && n->state && !n->released && !n->region && !s->expected;

  if (!some || !gm_walk_asks (w) || !(s->needed || s->captured))
    return;
  w->some_lead = s->some_lead = true;
  s->leads = n->fn->leads (n, n->state);
}

void
gm_walk_leave_out (GmWalk *w)
{
  GmSlot *idle = NULL; /* linked through `reader`, which has no other use by now */

  for (GmSlot *s = w->last; s; s = s->before)
    if (s->visited && !s->needed) {
      s->reader = idle;
      idle = s;
    }
  while (idle) {
    const GmAgNode *n = idle->node;
    idle = idle->reader;
    for (uint32_t i = 0; i < n->n_in; i++) {
      GmSlot *to = n->edges[i].node ? gm_walk_slot (w, n->edges[i].node) : NULL;
      if (!to || !gm_walk_expect_less (to, n->edges[i].nr) || !to->needed)
        continue;
      to->needed = false;
      to->reader = idle;
      idle = to;
    }
  }
}

/* -- Asked from within a walk ------------------------------------------------------------------ */

bool
gm_autograd_wants (const GmAgNode *n, uint32_t i)
{
  const GmSlot *s =
      n->slot && n->edges[i].node ? gm_walk_slot (n->slot->walk, n->edges[i].node) : NULL;

  return s && gm_walk_leads_on (s, n->edges[i].nr);
}

bool
gm_autograd_wants_all (const GmAgNode *n)
{
  bool all = true;

  if (!n->slot || !gm_walk_asks (n->slot->walk))
    return true;
  for (uint32_t i = 0; i < n->n_in && all; i++)
    all = !n->edges[i].node || gm_autograd_wants (n, i);
  return all;
}

bool
gm_autograd_wants_output (const GmAgNode *n, uint32_t nr)
{
  const GmSlot *s = n->slot;
  bool is = false;

  for (int i = 0; s->captured && i < s->walk->n_captures && !is; i++)
    is = s->walk->captures[i].node == n && s->walk->captures[i].nr == nr;
  return is;
}
