/* SPDX-License-Identifier: Apache-2.0
 * plan_call.c -- one call of a compiled function, from the caller's tensors to the caller's
 * tensors.
 *
 * From the outside in and out again:
 *   overlaps are as they were                                                     (overlap.c)
 *   the generator's state joins the inputs                                        (enter_random)
 *   inputs are merged                                               (dedupe.c, synthetic_base.c)
 *     outputs are allocated, the back end runs
 *     outputs that require grad get the compiled backward as their history  (plan_history.c)
 *   mutated inputs are written                             (functionalize.c, synthetic_base.c)
 *   outputs that are views are taken                                              (output_alias.c)
 *   tensors become others                                                         (metadata.c)
 *
 * The common case (nothing mutated, no views, no gradients) allocates the tensors that the caller
 * gets and nothing else.  Pointers live on the stack, in arrays whose lengths the plan knows.
 */
#include "core/aot/plan_private.h"

/* The inputs of a call: those of the recorded graph, and those of each layer further in; borrowed,
 * except for `owned`, the bases. */
typedef struct {
  GmTensor *const *recorded, **single, **inner;
  int n_owned;
} Inputs;

static void
enter_layers (const GmPlan *p, Inputs *in)
{
  const GmLayers *l = &p->layers;

  if (l->has_dedupe)
    gm_dedupe_enter (&l->dedupe, in->recorded, in->single);
  else
    memcpy (in->single, in->recorded, sizeof *in->single * l->n_inputs);
  if (l->has_bases) {
    gm_synthetic_base_enter (&l->bases, in->single, in->inner);
    in->n_owned = (int) l->bases.n_bases;
  } else {
    memcpy (in->inner, in->single, sizeof *in->inner * (size_t) p->n_inner);
  }
}

static bool
leave_all (const GmPlan *p, const Inputs *in, GmTensor *const *out, const GmHistories *histories,
           GmTensor **outputs, GError **error)
{
  const GmLayers *l = &p->layers;
  GmTensor *results[l->alias.n_outer + 1], **given = l->has_metadata ? results : outputs;
  bool ok =
      gm_functionalize_write_back (&l->functional, in->inner, out, error)
      && (!l->has_bases
          || gm_synthetic_base_leave (&l->bases, in->single, in->inner, out, histories, error))
      && gm_output_alias_replay (&l->alias, in->single, out, histories, given, error);
  gm_histories_look (histories);
  return ok
         && (!l->has_metadata
             || gm_metadata_leave (&l->metadata, in->recorded, results, outputs, error));
}

/* Runs the layers' part after the forward: writes, views, changes of shape, into `outputs`.  The
 * grad mode of the call may differ from that of single statements, which the layers know. */
static bool
leave_layers (const GmPlan *p, const Inputs *in, GmTensor *const *out, GmHistory *h, uint64_t first,
              GmTensor **outputs, GError **error)
{
  const GmFunctionalLayer *l = &p->layers.functional;
  GmTensor *looked[l->n_histories + 1];
  GmHistories histories = { h ? gm_history_node (h) : NULL,
                            p->histories,
                            l->late,
                            l->n_histories,
                            l->looks,
                            looked,
                            first,
                            1 + (uint64_t) p->unfold.n_looks,
                            first ? l->places : NULL };

  memset (looked, 0, sizeof looked);
  bool was = gm_grad_set_enabled (p->layers.differentiate || gm_grad_enabled ());
  bool ok = leave_all (p, in, out, &histories, outputs, error);

  gm_grad_set_enabled (was);
  return ok;
}

/* Completes a call after the forward: gives the forward's outputs `out` their history, then runs
 * the layers' part into `outputs`. */
static bool
end (GmPlan *p, const Inputs *in, GmTensor *const *out, GmTensor **outputs, GError **error)
{
  GmHistory *h =
      p->n_grads > 0 ? gm_history_attach (p, in->recorded, in->single, in->inner, out) : NULL;
  uint64_t first = h ? gm_history_first (h) : gm_plan_place_looks (p, in->recorded);
  bool ok =
      (!h || gm_history_pack (h, error)) && leave_layers (p, in, out, h, first, outputs, error);

  if (h)
    gm_history_end (h, ok);
  return ok;
}

static bool
allocate_forward (const GmPlan *p, GmTensor *const *inner, GmTensor **out, GError **error)
{
  const GmFunctionalLayer *l = &p->layers.functional;
  /* hooks run behind the forward, and may raise: nothing is written before */
  bool packs = gm_saved_hooks_top () != NULL && !p->restore;

  if (!p->written_in || packs)
    return gm_plan_allocate (p->forward_metas, p->n_forward, out, error);
  memset (out, 0, sizeof *out * (size_t) p->n_forward);
  for (uint32_t m = 0; m < l->n_mutations; m++) {
    uint32_t o = l->mutations[m].output.i;
    if (o != GM_NO_ID && p->written_in[o] != GM_NO_ID)
      out[o] = gm_donate_place (inner[p->written_in[o]], l->mutations[m].no_grad);
  }
  for (int o = 0; o < p->n_forward; o++)
    if (!out[o] && !(out[o] = gm_tensor_new (&p->forward_metas[o], error))) {
      gm_plan_unref_all (out, p->n_forward);
      return false;
    }
  return true;
}

/* Runs the function on the recorded graph's inputs; outputs: new references for the caller. */
static bool
run (GmPlan *p, GmTensor *const *recorded, GmTensor **outputs, GError **error)
{
  GmTensor *out[p->n_forward + 1], *single[p->n_inputs + 1], *inner[p->n_inner + 1];
  Inputs in = { recorded, single, inner, 0 };
  bool ok;

  enter_layers (p, &in);
  if (!allocate_forward (p, inner, out, error)) {
    gm_plan_unref_all (inner, in.n_owned);
    return false;
  }
  ok = (!p->n_forward || gm_plan_execute (p, 0, inner, p->n_inner, out, p->n_forward, error))
       && end (p, &in, out, outputs, error);
  gm_plan_unref_all (inner, in.n_owned);
  gm_plan_unref_all (out, p->n_forward);
  return ok;
}

static bool
run_direct (GmPlan *p, GmTensor *const *in, GmTensor **outputs, GError **error)
{
  GmTensor *out[p->n_forward + 1];
  int n_given = (int) p->layers.n_outputs;

  if (!gm_plan_allocate (p->forward_metas, p->n_forward, out, error))
    return false;
  bool ok =
      p->n_forward == 0 || gm_plan_execute_known (p, 0, in, p->n_inner, out, p->n_forward, error);
  if (ok && p->n_grads > 0) {
    GmHistory *h = gm_history_attach (p, in, in, in, out);
    ok = gm_history_pack (h, error);
    gm_history_end (h, ok);
  }
  if (ok)
    memcpy (outputs, out, sizeof *out * (size_t) n_given);
  gm_plan_unref_all (out + (ok ? n_given : 0), p->n_forward - (ok ? n_given : 0));
  return ok;
}

/* Returns the generator's state, of which `draws` draws are taken (0: they are taken when the
 * number is known), and fills `in` with the caller's inputs and that state.  A new reference, NULL
 * on error. */
static GmTensor *
enter_random (const GmPlan *p, int64_t draws, GmTensor *const *inputs, GmTensor **in,
              GError **error)
{
  int64_t *state;
  GmTensor *t = gm_tensor_new (&p->layers.inputs[p->random.input.i], error);

  if (!t)
    return NULL;
  state = gm_tensor_data (t);
  state[0] = (int64_t) gm_random_current_seed ();
  state[1] = (int64_t) gm_random_take ((uint64_t) draws);
  for (int i = 0, k = 0; i < p->n_inputs; i++)
    in[i] = i == (int) p->random.input.i ? t : inputs[k++];
  return t;
}

/* Sets the generator back to `state`, so that nothing has been drawn. */
static void
undo_random (const GmTensor *state)
{
  gm_random_set_state (gm_tensor_data (state));
}

/* Advances the generator, whose state before was {seed, first}, by as many draws as the graph's
 * output for its new state says. */
static void
leave_random (const GmPlan *p, int64_t first, GmTensor *const *outputs)
{
  if (p->random.given_out)
    gm_random_take (
        (uint64_t) (((const int64_t *) gm_tensor_data (outputs[p->random.output]))[1] - first));
}

static bool
run_checked (GmPlan *p, GmTensor *const *inputs, GmTensor **outputs, GError **error)
{
  if (!gm_plan_check_overlaps (p, inputs, GM_ERROR_UNSUPPORTED, error))
    return false;
  if (p->direct && !p->random.used)
    return run_direct (p, inputs, outputs, error);
  if (!p->random.used)
    return run (p, inputs, outputs, error);
  GmTensor *in[p->n_inputs];
  GmTensor *state = enter_random (p, p->random.draws, inputs, in, error);
  if (!state)
    return false;
  int64_t first = ((const int64_t *) gm_tensor_data (state))[1];
  bool ok = run (p, in, outputs, error);
  if (ok)
    leave_random (p, first, outputs);
  else
    undo_random (state);
  gm_tensor_unref (state);
  return ok;
}

/* -- Calls that begin before all sizes are known ----------------------------------------------- */

bool
gm_plan_is_counted (const GmPlan *p)
{
  return p->exec.begin != NULL;
}

bool
gm_plan_is_of (const GmPlan *p, const GmPlan *form)
{
  return p == form || p->of == form;
}

void
gm_plan_begun_clear (GmPlanBegun *b, bool keep_state)
{
  for (uint32_t i = 0; i < b->n_made; i++)
    gm_tensor_unref (b->made[i]);
  g_clear_pointer (&b->made, g_free);
  b->n_made = 0;
  if (!keep_state)
    g_clear_pointer (&b->state, gm_tensor_unref);
}

/* Fills `in` with the recorded graph's inputs: the caller's, and the generator's state in b;
 * borrowed. */
static void
with_state (const GmPlan *p, GmTensor *const *inputs, const GmPlanBegun *b, GmTensor **in)
{
  for (int i = 0, k = 0; i < p->n_inputs; i++)
    in[i] = p->random.used && i == (int) p->random.input.i ? b->state : inputs[k++];
}

bool
gm_plan_begin (GmPlan *p, GmTensor *const *inputs, int64_t *symbols, GmPlanBegun *b, GError **error)
{
  GmTensor *recorded[p->n_inputs + 1], *single[p->n_inputs + 1], *inner[p->n_inner + 1];
  Inputs in = { recorded, single, inner, 0 };
  if (p->random.used && !b->state && !(b->state = enter_random (p, 0, inputs, recorded, error)))
    return false;
  with_state (p, inputs, b, recorded);
  enter_layers (p, &in);
  b->made = g_new0 (GmTensor *, p->exec.n_made + 1);
  bool ok = p->exec.begin (p->exec.data, symbols, inner, b->made, error);
  gm_plan_unref_all (inner, in.n_owned);
  if (ok)
    b->n_made = p->exec.n_made;
  else
    g_clear_pointer (&b->made, g_free);
  return ok;
}

/* Finishes a forward that exec.begin has begun (b); out: new references to all of its outputs. */
static bool
run_rest (const GmPlan *p, GmTensor *const *inner, const GmPlanBegun *b, GmTensor **out,
          GError **error)
{
  GmTensor *in[p->n_inner + (int) b->n_made + 1], *rest[p->n_forward + 1];
  int n = 0, done = 0;
  memcpy (in, inner, sizeof *in * (size_t) p->n_inner);
  memcpy (in + p->n_inner, b->made, sizeof *in * b->n_made);
  for (; done < p->n_forward; done++) {
    uint32_t made = p->exec.made[done];
    out[done] = made != GM_NO_ID ? gm_tensor_ref (b->made[made])
                                 : gm_tensor_new (&p->forward_metas[done], error);
    if (!out[done])
      break;
    if (made == GM_NO_ID)
      rest[n++] = out[done];
  }
  if (done == p->n_forward
      && p->exec.run_sized (p->exec.data, 0, p->symbols, in, p->n_inner + (int) b->n_made, rest, n,
                            error))
    return true;
  gm_plan_unref_all (out, done);
  return false;
}

bool
gm_plan_run_begun (GmPlan *p, GmTensor *const *inputs, const GmPlanBegun *b, GmTensor **outputs,
                   GError **error)
{
  GmTensor *recorded[p->n_inputs + 1], *out[p->n_forward + 1], *single[p->n_inputs + 1],
      *inner[p->n_inner + 1];
  Inputs in = { recorded, single, inner, 0 };
  bool ok = gm_plan_check_overlaps (p, inputs, GM_ERROR_UNSUPPORTED, error);

  memset (outputs, 0, sizeof *outputs * p->layers.n_outputs);
  if (!ok)
    return false;
  if (p->random.used)
    gm_random_take ((uint64_t) p->random.draws);
  with_state (p, inputs, b, recorded);
  enter_layers (p, &in);
  if (!run_rest (p, inner, b, out, error)) {
    gm_plan_unref_all (inner, in.n_owned);
    if (p->random.used)
      undo_random (b->state);
    return false;
  }
  ok = end (p, &in, out, outputs, error);
  gm_plan_unref_all (inner, in.n_owned);
  gm_plan_unref_all (out, p->n_forward);
  if (ok && p->random.used)
    leave_random (p, ((const int64_t *) gm_tensor_data (b->state))[1], outputs);
  if (!ok && p->random.used)
    undo_random (b->state);
  if (!ok)
    memset (outputs, 0, sizeof *outputs * p->layers.n_outputs);
  return ok;
}

bool
gm_plan_run (GmPlan *p, GmTensor *const *inputs, int n, GmTensor **outputs, GError **error)
{
  bool ok;

  g_assert (n == gm_plan_n_inputs (p) && !p->sizes);
  if (p->direct && !p->random.used)
    ok = run_direct (p, inputs, outputs, error);
  else
    ok = run_checked (p, inputs, outputs, error);
  if (!ok)
    memset (outputs, 0, sizeof *outputs * p->layers.n_outputs);
  return ok;
}
