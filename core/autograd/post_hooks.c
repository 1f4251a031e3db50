/* SPDX-License-Identifier: Apache-2.0
 * post_hooks.c -- hooks that are called once a leaf's gradient has been added up.
 *
 * A post hook hangs on the leaf itself, gets the leaf and changes no gradient on its way: it may
 * step an optimiser and drop the gradient, while the backward goes on elsewhere.  Hooks run in the
 * order of their registration; a hook that an earlier one removes no longer runs.
 */
#include "core/autograd/node.h"

static int
place_of (const GArray *hooks, uint64_t id)
{
  for (guint i = 0; hooks && i < hooks->len; i++)
    if (g_array_index (hooks, GmPostHook, i).id == id)
      return (int) i;
  return -1;
}

uint64_t
gm_tensor_add_post_hook (GmTensor *leaf, GmTensorPostHook hook, void *data,
                         void (*destroy) (void *data))
{
  static uint64_t next_id = 1;
  g_return_val_if_fail (gm_tensor_is_leaf (leaf), 0);
  GmAutograd *ag = gm_ag_get (leaf);
  if (!ag->post_hooks)
    ag->post_hooks = g_array_new (FALSE, FALSE, sizeof (GmPostHook));
  GmPostHook h = { __atomic_fetch_add (&next_id, 1, __ATOMIC_RELAXED), hook, data, destroy };
  g_array_append_val (ag->post_hooks, h);
  return h.id;
}

bool
gm_tensor_remove_post_hook (GmTensor *leaf, uint64_t id)
{
  GArray *hooks = leaf->autograd ? leaf->autograd->post_hooks : NULL;
  int i = place_of (hooks, id);
  if (i < 0)
    return false;
  GmPostHook h = g_array_index (hooks, GmPostHook, i);
  g_array_remove_index (hooks, (guint) i);
  if (h.destroy)
    h.destroy (h.data);
  return true;
}

bool
gm_post_hooks_run (GmTensor *leaf, GError **error)
{
  GArray *hooks = leaf->autograd->post_hooks;
  if (!hooks)
    return true;
  guint n = hooks->len;
  g_autofree GmPostHook *now = g_memdup2 (hooks->data, n * sizeof (GmPostHook));
  for (guint i = 0; i < n; i++)
    if (place_of (leaf->autograd->post_hooks, now[i].id) >= 0
        && !now[i].fn (now[i].data, leaf, error))
      return false;
  return true;
}

void
gm_post_hooks_free (GArray *hooks)
{
  for (guint i = 0; hooks && i < hooks->len; i++) {
    GmPostHook *h = &g_array_index (hooks, GmPostHook, i);
    if (h->destroy)
      h->destroy (h->data);
  }
  if (hooks)
    g_array_unref (hooks);
}
