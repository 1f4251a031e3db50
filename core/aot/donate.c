/* SPDX-License-Identifier: Apache-2.0
 * donate.c -- gives memory that a call has read for the last time to a result.
 *
 * The pairs of an input and an output that may share memory are chosen when the plan, or the
 * backward's code, is made: both have one layout, the back end says that it reads the input before
 * it writes the output, and the plan does not return the input itself.  A call then tests if the
 * input belongs to the plan alone: one reference to the tensor, one to its memory, and no other way
 * to make a reference.  The new contents of an input that the function writes to are written
 * directly into that input's memory, if the back end says the same of the two.
 * Invariant: donated memory is never read again; every possible reader (a backward that is kept,
 * hooks that saw the gradient, a view, Python) holds a reference, or sets a flag.
 */
#include "core/aot/plan_private.h"

/* The least size of memory that is donated: smaller blocks come from free lists that are faster
 * than the tests here. */
enum { LEAST_BYTES = 4096 };

/* Chooses, for each output of `role`, an input whose memory it may reuse (GM_NO_ID: none); returns
 * NULL if there is no such pair.  barred: per input, true if it is needed afterwards. */
static const uint32_t *
choose (GmPlan *p, int role, const GmMeta *in, int n_in, const bool *barred, const GmMeta *out,
        int n_out)
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

/* True if no node of g can fail once the run has begun: a failing run would leave elements that it
 * has written in the caller's inputs. */
static bool
cannot_fail (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    GmFamily f = gm_ops[n->op].family;
    if (f != GM_FAMILY_POINTWISE && f != GM_FAMILY_MOVEMENT && f != GM_FAMILY_REDUCE
        && f != GM_FAMILY_CREATE && f != GM_FAMILY_SCAN && n->op != GM_OP_slice_scatter)
      return false;
  }
  return true;
}

static bool
is_saved (const GmPlan *p, bool is_input, uint32_t index)
{
  bool is = false;

  for (int i = 0; i < p->n_held; i++)
    is |= p->saved[i].is_input == is_input && p->saved[i].index == index;
  return is;
}

/* Finds mutations whose new elements the back end may write directly into the input's memory:
 * neither the old elements are read after that, nor are old or new elements saved for the
 * backward. */
static void
find_written_in_place (GmPlan *p, const GmGraph *forward)
{
  const GmFunctionalLayer *l = &p->layers.functional;
  uint32_t *places = gm_arena_newn (p->arena, uint32_t, p->n_forward + 1);

  if (!l->n_mutations || !cannot_fail (forward))
    return;
  for (int o = 0; o < p->n_forward; o++)
    places[o] = GM_NO_ID;
  for (uint32_t m = 0; m < l->n_mutations; m++) {
    uint32_t i = l->mutations[m].input.i, o = l->mutations[m].output.i;
    if (o == GM_NO_ID || is_saved (p, true, i) || is_saved (p, false, o)
        || !gm_plan_same_layout (
            gm_graph_meta (forward, g_array_index (forward->inputs, GmValueId, i)),
            &p->forward_metas[o])
        || !p->exec.may_share (p->exec.data, 0, i, o))
      continue;
    places[o] = i;
    p->written_in = places;
  }
}

void
gm_donate_plan (GmPlan *p, const GmGraph *forward)
{
  if (p->exec.may_share && !p->sizes)
    find_written_in_place (p, forward);
}

void
gm_donate_plan_backward (GmPlan *p)
{
  int n = p->n_saved + p->n_tangents;

  if (!p->exec.may_share || !p->n_backward || p->sizes || p->restore)
    return;
  g_autofree GmMeta *metas = g_new (GmMeta, n + 1);
  g_autofree bool *barred = g_new0 (bool, n + 1);

  memcpy (metas, p->saved_metas, sizeof *metas * (size_t) p->n_saved);
  memcpy (metas + p->n_saved, p->tangent_metas, sizeof *metas * (size_t) p->n_tangents);
  for (int i = 0; i < p->n_saved; i++)
    barred[i] = p->saved[i].is_input; /* owned by the caller */
  for (int i = 0; i < p->n_grads; i++)
    if (p->sources[i].is_input)
      barred[p->sources[i].index] = true;
  p->lenders = choose (p, 1, metas, n, barred, p->backward_metas, p->n_backward);
}

GmTensor *
gm_donate_take (GmTensor *t, int refs)
{
  const GmStorage *s = t->storage;

  if (g_atomic_int_get (&t->refs) != refs || g_atomic_int_get (&s->refs) != 1 || t->base
      || t->autograd || t->wrapper || t->watched || t->offset || s->release || s->readonly
      || s->companion
      || s->bytes != (size_t) gm_meta_numel (&t->meta) * gm_dtype_size (t->meta.dtype))
    return NULL;
  GmTensor *out = gm_tensor_new_alias (t);
  out->meta.requires_grad = 0;
  *gm_tensor_writes (out) = 0; /* as fresh memory has it */
  out->storage->born = gm_storage_epoch_get ();
  return out;
}

GmTensor *
gm_donate_place (GmTensor *t, bool no_grad)
{
  bool recorded = gm_grad_enabled () && !no_grad && (t->base || t->meta.requires_grad);

  return recorded || t->storage->readonly ? NULL : gm_tensor_new_alias (t);
}
