/* SPDX-License-Identifier: Apache-2.0
 * device_copy.c -- a copy on another device, as an operation with a history.
 *
 * No op moves elements: a graph is of one device.  So the node is a function's: what arrives is
 * copied back to the input's device, by a recorded copy again if gradients of gradients are wanted.
 */
#include "core/autograd/node.h"

#include "core/tensor/device.h"

static bool
move_backward (GmAgNode *n, void *state, GmTensor *const *grads, GmTensor **result,
               bool create_graph, GError **error)
{
  result[0] = gm_autograd_to_device (grads[0], GPOINTER_TO_INT (state), error);
  return result[0] != NULL;
}

static const GmAgFunction move = { .name = "ToCopyBackward0", .backward = move_backward };

GmTensor *
gm_autograd_to_device (GmTensor *t, int device, GError **error)
{
  int from = t->meta.device;
  GmTensor *out = gm_tensor_to_device (t, device, error);
  if (out && from != device && gm_grad_enabled () && gm_tensor_requires_grad (t))
    gm_autograd_attached (gm_autograd_attach (&move, GINT_TO_POINTER (from), &t, 1, &out, 1));
  return out;
}
