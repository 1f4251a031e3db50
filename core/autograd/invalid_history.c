/* SPDX-License-Identifier: Apache-2.0
 * invalid_history.c -- the node of a history whose gradient can't be computed any more.
 *
 * When such a node is made, a value that its gradient would read has been written to, or its memory
 * has been left.  That is no error yet: a walk may never come there, and plain Python does not
 * check before it does.
 */
#include "core/autograd/node.h"

/* -- Versions ---------------------------------------------------------------------------------- */

void
gm_fail_changed (const char *who, const char *which, const GmTensor *t, uint32_t version,
                 GError **error)
{
  g_autofree char *text = gm_meta_text (&t->meta);

  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
               "a tensor that %s needs was changed by an in-place operation: %s%s%s%s is at "
               "version %u; expected version %u.  Change a "
               "clone () instead, or change it after backward",
               who, which ? which : "", which ? ", " : "", text, which ? "," : "",
               gm_tensor_version (t), version);
}

uint32_t *
gm_versions (GmTensor *const *t, uint32_t n)
{
  uint32_t *versions = g_new (uint32_t, n + 1);

  for (uint32_t i = 0; i < n; i++)
    versions[i] = gm_tensor_version (t[i]);
  return versions;
}

bool
gm_unchanged (GmTensor *const *t, const uint32_t *versions, uint32_t n, const char *who,
              GError **error)
{
  for (uint32_t i = 0; i < n; i++)
    if (gm_tensor_version (t[i]) != versions[i]) {
      gm_fail_changed (who, NULL, t[i], versions[i], error);
      return false;
    }
  return true;
}

/* -- The node ---------------------------------------------------------------------------------- */

static bool
refuse (GmAgNode *n, void *state, GmTensor *const *grads, GmTensor **result, bool create_graph,
        GError **error)
{
  (void) n, (void) grads, (void) result, (void) create_graph;
  g_set_error_literal (error, GM_ERROR, GM_ERROR_RUNTIME, state);
  return false;
}

static const GmAgFunction lost = { .name = "LostBackward0", .backward = refuse, .release = g_free };

void
gm_autograd_lose (GmTensor *const *outs, int n_outs, GmTensor *const *in, int n_in, uint64_t seq,
                  const char *why)
{
  GmAgNode *n = gm_autograd_attach (&lost, g_strdup (why), in, n_in, outs, n_outs);

  if (seq)
    gm_autograd_place (n, seq);
}
