/* SPDX-License-Identifier: Apache-2.0
 * backward_stretch_emit.c -- emits a stretch as a program: for a builder that records, or operation
 * by operation.
 *
 * Gradients are added in the order in which the engine adds them: step after step, and within a
 * step edge after edge.
 * Requires: a stretch that was collected (backward_stretch.c).
 * Breaks: nothing; the walk is as it was.
 */
#include "core/autograd/backward_stretch_private.h"

typedef GmStretchStep Step;
typedef GmStretchHook Hook;
typedef GmStretchPlace Place;

/* Applies the programs of the step's hooks to *grad, the gradient that arrives at the step. */
static void
emit_hooks (const GmStretch *s, const Step *step, GmBuilder *b, const GmVal *inputs, GmVal *grad)
{
  for (uint32_t i = 0; i < step->n_hooks && !gm_b_failed (b); i++) {
    const Hook *h = &g_array_index (s->hooks, Hook, step->first_hook + i);
    if (!gm_meta_same_layout (gm_b_meta (b, *grad), &h->program->grad)) {
      gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                 "a hook is known for gradients of another dtype, shape or layout");
      return;
    }
    GmVal replaced = h->program->emit (h->program, b, *grad, inputs + h->captured);
    *grad = replaced ? replaced : *grad;
  }
}

/* Calls the step's hooks on *grad; for an executing builder. */
static void
call_hooks (const Step *step, GmBuilder *b, GmVal *grad)
{
  GmTensor *g = gm_tensor_ref (gm_tensor_from_val (*grad));

  if (gm_hooks_run (gm_stretch_hooks_of (step->slot->node), 0, &g, &b->error))
    *grad = b->vt->constant (b, g); /* the builder keeps it */
  gm_tensor_unref (g);
}

/* Adds `gradient`, which may be NULL, to the sum at the slot that edge i of the step's node leads
 * to. values: per gradient of the stretch. */
static void
send (const GmStretch *s, const Step *step, uint32_t i, GmBuilder *b, GmVal gradient, GmVal *values)
{
  const GmAgNode *n = step->slot->node;
  GmSlot *to = gm_stretch_target (s, n, i);

  if (!to || !gradient)
    return;
  GmVal *sum = &values[GM_STRETCH_PLACE (s, to)->first + n->edges[i].nr];
  *sum = *sum ? gm_b (b, add, *sum, gradient) : gradient;
}

/* Computes the gradients of the operands of the step's operator, and adds them to `values`. */
static void
emit_operation (const GmStretch *s, const Step *step, GmBuilder *b, const GmVal *inputs,
                GmVal *values)
{
  const GmAgNode *n = step->slot->node;
  GmVal grad = values[GM_STRETCH_PLACE (s, step->slot)->first], in[n->n_in + 1],
        result[n->n_in + 1], out = NULL;
  const GmMeta *metas[n->n_in + 1], *meta = gm_b_meta (b, grad);
  bool need[n->n_in + 1];
  uint32_t at = step->saved;

  for (uint32_t i = 0; i < n->n_in; i++) {
    in[i] = i < GM_NODE_INLINE && n->saved_in[i].t ? inputs[at++] : NULL;
    metas[i] = n->extra ? &n->extra->in[i] : meta;
    need[i] = gm_stretch_target (s, n, i) != NULL;
    result[i] = NULL;
  }
  if (n->saved_out.t)
    out = inputs[at];
  gm_op_gradient (&(GmGradient){ .b = b,
                                 .op = (GmOp) n->op,
                                 .n_in = (int) n->n_in,
                                 .in = in,
                                 .out = out,
                                 .in_meta = metas,
                                 .out_meta = meta,
                                 .attrs = n->extra ? &n->extra->attrs : NULL,
                                 .grad = grad,
                                 .need = need,
                                 .result = result });
  for (uint32_t i = 0; i < n->n_in; i++)
    send (s, step, i, b, result[i], values);
}

/* Calls the backward of the step's function for its results; for an executing builder. */
static void
call_function (const Step *step, GmBuilder *b, GmVal *result)
{
  const GmAgNode *n = step->slot->node;
  GmSlot *slot = step->slot;
  g_autofree GmTensor **out = g_new0 (GmTensor *, n->n_in + 1);

  n->fn->backward (slot->node, n->state, slot->many ? slot->many : &slot->one, out, false,
                   &b->error);
  for (uint32_t i = 0; i < n->n_in; i++) {
    result[i] = out[i] ? b->vt->constant (b, out[i]) : NULL;
    gm_tensor_unref (out[i]);
  }
}

/* Computes the results of the step's function, and adds them to `values`. */
static void
emit_function (const GmStretch *s, const Step *step, GmBuilder *b, const GmVal *inputs,
               GmVal *values)
{
  const GmAgNode *n = step->slot->node;
  g_autofree GmVal *result = g_new0 (GmVal, n->n_in + 1);

  if (s->calls_hooks)
    call_function (step, b, result);
  else
    step->program->emit (step->program, b, inputs + step->saved, result);
  for (uint32_t k = 0; k < n->n_in && !gm_b_failed (b); k++) {
    uint32_t i = step->program->order ? step->program->order[k] : k;
    send (s, step, i, b, result[i], values);
  }
}

/* Fills `values`, per gradient of the stretch, with the gradients that had arrived before it. */
static void
take_arrived (const GmStretch *s, const GmVal *in, GmVal *values)
{
  for (guint i = 0; i < s->places->len; i++) {
    const Place *p = &g_array_index (s->places, Place, i);
    uint32_t at = p->arrived;
    for (uint32_t nr = 0; nr < p->slot->node->n_out; nr++)
      values[p->first + nr] = *gm_walk_gradient (p->slot, nr) ? in[at++] : NULL;
  }
}

void
gm_stretch_emit (const GmStretch *s, GmBuilder *b, const GmVal *in, GmVal *out, bool *ran,
                 void (*note) (GmBuilder *b, const char *name))
{
  g_autofree GmVal *values = g_new0 (GmVal, s->n_gradients + 1);
  g_autofree GmVal *before = g_new0 (GmVal, s->n_gradients + 1);

  take_arrived (s, in, values);
  take_arrived (s, in, before);
  for (guint i = 0; i < s->steps->len && !gm_b_failed (b); i++) {
    const Step *step = GM_STRETCH_STEP (s, i);
    GmVal *grad = &values[GM_STRETCH_PLACE (s, step->slot)->first];
    if (note)
      note (b, NULL);
    if (*grad && step->n_hooks > 0)
      s->calls_hooks ? call_hooks (step, b, grad) : emit_hooks (s, step, b, in, grad);
    ran[i] = step->runs && (*grad || step->program);
    if (!ran[i] || gm_b_failed (b))
      continue;
    if (note)
      note (b, gm_node_name (step->slot->node));
    if (step->program)
      emit_function (s, step, b, in, values);
    else
      emit_operation (s, step, b, in, values);
  }
  for (guint i = 0; i < s->places->len && !gm_b_failed (b); i++) {
    const Place *p = &g_array_index (s->places, Place, i);
    for (uint32_t k = p->first; !p->inside && k < p->first + p->slot->node->n_out; k++)
      out[k] = values[k] == before[k] ? NULL : values[k];
  }
}

typedef struct {
  GmEagerBuilder eager;
  const char *name; /* of the node whose gradient is computed; NULL: a hook runs */
} Named;

static void
note_name (GmBuilder *b, const char *name)
{
  ((Named *) b)->name = name;
}

bool
gm_stretch_run_eagerly (void *data, GmStretch *s, GmTensor **out, bool *ran, GError **error)
{
  g_autofree GmVal *values = g_new0 (GmVal, s->n_gradients + 1);
  Named b = { .name = NULL };
  bool ok;

  (void) data;
  s->calls_hooks = true;
  gm_eager_builder_init (&b.eager);
  gm_stretch_emit (s, &b.eager.base, (const GmVal *) s->inputs->pdata, values, ran, note_name);
  ok = !gm_b_failed (&b.eager.base);
  if (!ok)
    g_propagate_prefixed_error (error, g_steal_pointer (&b.eager.base.error), "%s%s",
                                b.name ? b.name : "", b.name ? ": " : "");
  for (uint32_t k = 0; ok && k < s->n_gradients; k++)
    out[k] = values[k] ? gm_tensor_ref (gm_tensor_from_val (values[k])) : NULL;
  gm_eager_builder_clear (&b.eager);
  return ok;
}
