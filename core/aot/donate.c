/* SPDX-License-Identifier: Apache-2.0
 * donate.c -- memory that a call has read for the last time becomes that of what it makes.
 *
 * Who may lend to whom is decided with the plan: an input of the code and an output of one layout, of which the back end says that
 * it has read the one before it writes the other, and that is nothing the plan gives on as it is.  Whether that input is the plan's
 * alone is known at the call: one reference to the tensor, one to its memory, and nobody who could make another.
 * Invariant: what was lent is never read again; whoever might want to (a backward that is kept, hooks that saw the
 * gradient, a view, Python) holds a reference, or says so.
 */
#include "core/aot/plan_private.h"

/* Smaller blocks come from lists that are faster than all questions here. */
enum { LEAST_BYTES = 4096 };

/* Per output the input that lends to it, or GM_NO_ID; NULL: none does.  barred: per input, it is needed afterwards. */
static const uint32_t *
choose (GmPlan *p, int role, const GmMeta *in, int n_in, const bool *barred, const GmMeta *out, int n_out)
{
  uint32_t *lenders = gm_arena_newn (p->arena, uint32_t, n_out + 1);
  g_autofree bool *lent = g_new0 (bool, n_in + 1);
  bool any = false;

  for (int o = 0; o < n_out; o++) {
    lenders[o] = GM_NO_ID;
    if (gm_meta_numel (&out[o]) * (int64_t) gm_dtype_size (out[o].dtype) < LEAST_BYTES)
      continue;
    for (int i = 0; i < n_in && lenders[o] == GM_NO_ID; i++)
      if (!barred[i] && !lent[i] && gm_plan_same_layout (&in[i], &out[o])
          && p->exec.may_share (p->exec.data, role, (uint32_t) i, (uint32_t) o)) {
        lenders[o] = (uint32_t) i;
        any = lent[i] = true;
      }
  }
  return any ? lenders : NULL;
}

void
gm_donate_plan (GmPlan *p)
{
  int n = p->n_saved + p->n_tangents;
  if (!p->exec.may_share || !p->n_backward || p->sizes || p->restore)
    return;
  g_autofree GmMeta *metas = g_new (GmMeta, n + 1);
  g_autofree bool *barred = g_new0 (bool, n + 1);

  memcpy (metas, p->saved_metas, sizeof *metas * (size_t) p->n_saved);
  memcpy (metas + p->n_saved, p->tangent_metas, sizeof *metas * (size_t) p->n_tangents);
  for (int i = 0; i < p->n_saved; i++)
    barred[i] = p->saved[i].is_input; /* the caller's */
  for (int i = 0; i < p->n_grads; i++)
    if (p->sources[i].is_input)
      barred[p->sources[i].index] = true;
  p->lenders = choose (p, 1, metas, n, barred, p->backward_metas, p->n_backward);
}

GmTensor *
gm_donate_take (GmTensor *t, int refs)
{
  const GmStorage *s = t->storage;

  if (g_atomic_int_get (&t->refs) != refs || g_atomic_int_get (&s->refs) != 1 || t->base || t->autograd || t->wrapper || t->watched
      || t->offset || s->release || s->readonly || s->companion
      || s->bytes != (size_t) gm_meta_numel (&t->meta) * gm_dtype_size (t->meta.dtype))
    return NULL;
  GmTensor *out = gm_tensor_new_alias (t);
  out->meta.requires_grad = 0;
  out->storage->version = 0; /* as fresh memory has it */
  return out;
}
