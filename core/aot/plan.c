/* SPDX-License-Identifier: Apache-2.0
 * plan.c -- one call of a compiled function, from the caller's tensors to the caller's tensors.
 *
 * From the outside in and out again:
 *   the generator's state joins the inputs                                        (enter_random)
 *     outputs are allocated, the back end runs
 *     outputs that require grad get the compiled backward as their history        (attach)
 *     mutated inputs are written                                                  (functionalize.c)
 *   outputs that are views are taken                                              (output_alias.c)
 *
 * The common case (nothing mutated, no views, no gradients) allocates the tensors that the
 * caller gets and nothing else.  Pointers live on the stack, in arrays whose lengths the plan
 * knows.
 * Invariant: a saved tensor is an alias without history, never the tensor that the caller
 * holds, so no reference goes round in a circle.
 */
#include "core/aot/plan.h"

#include "core/autograd/autograd.h"
#include "core/tensor/alloc.h"

#include <string.h>

struct GmPlan {
  gatomicrefcount refs;
  GmArena *arena; /* owns all arrays below */
  GmAliasLayer alias;
  GmFunctionalLayer functional;
  GmPlanRandom random;
  GmPlanExec exec;
  bool direct;         /* the caller's outputs are the function's, one to one */
  int n_inputs;        /* inner: with the generator's state */
  int n_function;      /* outputs of the function (user outputs and mutations) */
  int n_forward;       /* outputs of the forward: those, then what is saved */
  int n_saved, n_tangents, n_grads, n_backward;
  int n_joint_tangents;
  bool shares_grads; /* some output of the backward is the gradient of several inputs */
  const GmMeta *in_metas, *forward_metas, *backward_metas; /* of the outputs, but for in_metas */
  const GmMeta *tangent_metas;                              /* n_tangents */
  const GmSavedValue *saved;
  const uint32_t *tangents;
  const GmGradSource *sources;
  const GmInnerOutput *tangent_of;
  const GmInnerInput *grad_of;
};

/* -- Making one -------------------------------------------------------------------------------- */

static const GmMeta *
input_metas (GmPlan *p, const GmGraph *g, uint32_t from, uint32_t n)
{
  GmMeta *m = gm_arena_newn (p->arena, GmMeta, n);

  for (uint32_t i = 0; i < n; i++)
    m[i] = *gm_graph_meta (g, g_array_index (g->inputs, GmValueId, from + i));
  return m;
}

static const GmMeta *
output_metas (GmPlan *p, const GmGraph *g)
{
  GmMeta *m = gm_arena_newn (p->arena, GmMeta, g->outputs->len);

  for (uint32_t i = 0; i < g->outputs->len; i++)
    m[i] = *gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value);
  return m;
}

static bool
is_direct (const GmPlan *p)
{
  bool same = p->alias.n_replays == 0 && p->functional.n_mutations == 0 &&
              p->alias.n_outer == p->alias.n_inner && p->n_forward == p->n_function;

  for (uint32_t i = 0; same && i < p->alias.n_outer; i++)
    same = p->alias.slots[i] == p->alias.n_inputs + i;
  return same;
}

static bool
shares_grads (const GmPlan *p)
{
  int n = 0;

  for (int i = 0; i < p->n_grads; i++)
    n += !p->sources[i].is_input;
  return n != p->n_backward;
}

GmPlan *
gm_plan_new (const GmPlanSpec *s)
{
  GmPlan *p = g_new0 (GmPlan, 1);
  const GmParts *parts = s->parts;

  g_atomic_ref_count_init (&p->refs);
  p->arena = gm_arena_new ();
#define KEEP(array, n) gm_arena_copy (p->arena, (array), sizeof *(array) * (size_t) (n))
  p->alias = *s->alias;
  p->alias.replays = KEEP (s->alias->replays, s->alias->n_replays);
  p->alias.slots = KEEP (s->alias->slots, s->alias->n_outer);
  p->functional = *s->functional;
  p->functional.mutations = KEEP (s->functional->mutations, s->functional->n_mutations);
  p->random = s->random;
  p->exec = s->exec;
  p->n_inputs = (int) s->joint->n_inputs;
  p->n_function = (int) s->joint->n_outputs;
  p->n_forward = (int) parts->forward->outputs->len;
  p->in_metas = input_metas (p, parts->forward, 0, s->joint->n_inputs);
  p->forward_metas = output_metas (p, parts->forward);
  if (parts->backward) {
    p->n_saved = (int) parts->n_saved;
    p->n_tangents = (int) parts->n_tangents;
    p->n_grads = (int) parts->n_grads;
    p->n_joint_tangents = (int) s->joint->n_tangents;
    p->n_backward = (int) parts->backward->outputs->len;
    p->backward_metas = output_metas (p, parts->backward);
    p->tangent_metas = input_metas (p, parts->backward, parts->n_saved, parts->n_tangents);
    p->saved = KEEP (parts->saved, parts->n_saved);
    p->tangents = KEEP (parts->tangents, parts->n_tangents);
    p->sources = KEEP (parts->sources, parts->n_grads);
    p->tangent_of = KEEP (s->joint->tangents, s->joint->n_tangents);
    p->grad_of = KEEP (s->joint->grads, s->joint->n_grads);
  }
#undef KEEP
  p->direct = is_direct (p);
  p->shares_grads = shares_grads (p);
  return p;
}

GmPlan *
gm_plan_ref (GmPlan *p)
{
  g_atomic_ref_count_inc (&p->refs);
  return p;
}

void
gm_plan_unref (GmPlan *p)
{
  if (!p || !g_atomic_ref_count_dec (&p->refs))
    return;
  if (p->exec.data)
    p->exec.unref (p->exec.data);
  gm_arena_free (p->arena);
  g_free (p);
}

/* -- Asking one -------------------------------------------------------------------------------- */

int
gm_plan_n_inputs (const GmPlan *p)
{
  return p->n_inputs - p->random.used;
}

int
gm_plan_n_outputs (const GmPlan *p)
{
  return (int) p->alias.n_outer;
}

bool
gm_plan_has_backward (const GmPlan *p)
{
  return p->n_grads > 0;
}

const GmMeta *
gm_plan_input_meta (const GmPlan *p, int i)
{
  return &p->in_metas[i + (p->random.used && (uint32_t) i >= p->random.input.i)];
}

static bool
same_layout (const GmMeta *a, const GmMeta *b)
{
  if (a->dtype != b->dtype || a->ndim != b->ndim || a->device != b->device)
    return false;
  return memcmp (a->sizes, b->sizes, sizeof *a->sizes * a->ndim) == 0 &&
         memcmp (a->strides, b->strides, sizeof *a->strides * a->ndim) == 0;
}

bool
gm_plan_check (const GmPlan *p, GmTensor *const *inputs, int n, GError **error)
{
  if (n != gm_plan_n_inputs (p)) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "the compiled function takes %d tensors, %d were given", gm_plan_n_inputs (p), n);
    return false;
  }
  for (int i = 0; i < n; i++) {
    const GmMeta *want = gm_plan_input_meta (p, i);
    if (same_layout (&inputs[i]->meta, want))
      continue;
    g_autofree char *has = gm_meta_text (&inputs[i]->meta), *wants = gm_meta_text (want);
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "input %d of the compiled function was compiled as %s, but is %s%s: compile again "
                 "for the new shape",
                 i, wants, has, strcmp (has, wants) == 0 ? " with other strides" : "");
    return false;
  }
  return true;
}

/* -- Backward ---------------------------------------------------------------------------------- */

typedef struct {
  GmPlan *plan;
  struct { GmTensor *t; uint32_t version; } saved[];
} History;

/* From the lists that tensors' headers come from, unless it is huge. */
enum { MAX_BLOCK = 4096 };

static size_t
history_bytes (const GmPlan *p)
{
  return sizeof (History) + sizeof ((History *) 0)->saved[0] * (size_t) p->n_saved;
}

static void
history_free (void *data)
{
  History *h = data;

  GmPlan *p = h->plan;
  size_t bytes = history_bytes (p);

  for (int i = 0; i < p->n_saved; i++)
    gm_tensor_unref (h->saved[i].t);
  gm_plan_unref (p);
  if (bytes <= MAX_BLOCK)
    gm_block_give (h, bytes);
  else
    g_free (h);
}

static bool
check_versions (const History *h, GError **error)
{
  for (int i = 0; i < h->plan->n_saved; i++) {
    uint32_t now = gm_tensor_version (h->saved[i].t);
    if (now == h->saved[i].version)
      continue;
    g_autofree char *text = gm_meta_text (&h->saved[i].t->meta);
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "a tensor that the backward of the compiled function needs was changed by an "
                 "in-place operation: %s is at version %u; expected version %u.  Change a clone () "
                 "instead, or change it after backward",
                 text, now, h->saved[i].version);
    return false;
  }
  return true;
}

/* The gradient of an output that got none: zeros, and negative ones, because x + -0 is x for every x,
 * -0 included, so that a sum has the bits that it has where nothing arrived. */
static GmTensor *
no_gradient (const GmMeta *want, GError **error)
{
  GmAttrs attrs = { .mask = 1u << GM_ATTR_SIZES | 1u << GM_ATTR_DTYPE | 1u << GM_ATTR_VALUE,
                    .n_list = want->ndim,
                    .dtype = want->dtype,
                    .value = gm_scalar_float (-0.0) };
  GmTensor *t = gm_tensor_new (want, error);

  memcpy (attrs.list, want->sizes, sizeof attrs.list);
  if (t && !gm_op_run_into (GM_OP_full, NULL, 0, &attrs, t, error))
    g_clear_pointer (&t, gm_tensor_unref);
  return t;
}

/* The gradient as the compiled backward expects it: there, and laid out like the output.  A new
 * reference. */
static GmTensor *
tangent (const GmMeta *want, GmTensor *g, GError **error)
{
  GmTensor *t;

  if (!g)
    return no_gradient (want, error);
  if (same_layout (&g->meta, want))
    return gm_tensor_ref (g);
  t = gm_tensor_new (want, error);
  if (t && !gm_op_run_into (GM_OP_copy, &g, 1, NULL, t, error))
    g_clear_pointer (&t, gm_tensor_unref);
  return t;
}

static bool
allocate (const GmMeta *metas, int n, GmTensor **out, GError **error)
{
  for (int i = 0; i < n; i++) {
    out[i] = gm_tensor_new (&metas[i], error);
    if (!out[i]) {
      while (i > 0)
        gm_tensor_unref (out[--i]);
      return false;
    }
  }
  return true;
}

static void
unref_all (GmTensor **t, int n)
{
  for (int i = 0; i < n; i++)
    gm_tensor_unref (t[i]);
}

static bool
run_backward (GmPlan *p, GmTensor *const *in, GmTensor **result, GError **error)
{
  GmTensor *out[p->n_backward + 1];

  if (!allocate (p->backward_metas, p->n_backward, out, error))
    return false;
  if (p->n_backward > 0 &&
      !p->exec.run (p->exec.data, 1, in, p->n_saved + p->n_tangents, out, p->n_backward, error)) {
    unref_all (out, p->n_backward);
    return false;
  }
  for (int i = 0; i < p->n_grads; i++) {
    GmGradSource s = p->sources[i];
    result[i] = s.is_input ? in[s.index] : out[s.index];
    if (s.is_input || p->shares_grads)
      gm_tensor_ref (result[i]);
  }
  if (p->shares_grads)
    unref_all (out, p->n_backward);
  return true;
}

static bool
compiled_backward (GmAgNode *n, void *data, GmTensor *const *grads, GmTensor **result,
                   bool create_graph, GError **error)
{
  History *h = data;
  GmPlan *p = h->plan;
  GmTensor *in[p->n_saved + p->n_tangents + 1];
  int n_in = 0;
  bool ok = true;

  (void) n;
  if (create_graph) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "double backward (create_graph=True) through a compiled function is not "
                 "supported: call the function without compile, its "
                 "eager form can be differentiated twice");
    return false;
  }
  if (!check_versions (h, error))
    return false;
  for (; n_in < p->n_saved; n_in++)
    in[n_in] = h->saved[n_in].t;
  for (int i = 0; ok && i < p->n_tangents; i++) {
    in[n_in] = tangent (&p->tangent_metas[i], grads[p->tangents[i]], error);
    ok = in[n_in] != NULL;
    n_in += ok;
  }
  ok = ok && run_backward (p, in, result, error);
  unref_all (in + p->n_saved, n_in - p->n_saved);
  return ok;
}

static const GmAgFunction compiled_function = {
  .name = "CompiledBackward",
  .backward = compiled_backward,
  .release = history_free,
};

/* -- Forward ----------------------------------------------------------------------------------- */

/* Gives the outputs that have a tangent their history.  Versions are noted by the caller, after
 * the writes. */
static History *
attach (GmPlan *p, GmTensor *const *in, GmTensor *const *out)
{
  size_t bytes = history_bytes (p);
  History *h = bytes <= MAX_BLOCK ? gm_block_take (bytes) : g_malloc (bytes);
  GmTensor *edges[p->n_grads + 1], *outs[p->n_joint_tangents + 1];

  h->plan = gm_plan_ref (p);
  for (int i = 0; i < p->n_saved; i++)
    h->saved[i].t =
      gm_tensor_new_alias (p->saved[i].is_input ? in[p->saved[i].index] : out[p->saved[i].index]);
  for (int i = 0; i < p->n_grads; i++)
    edges[i] = in[p->grad_of[i].i];
  for (int i = 0; i < p->n_joint_tangents; i++)
    outs[i] = out[p->tangent_of[i].i];
  gm_autograd_attach (&compiled_function, h, edges, p->n_grads, outs, p->n_joint_tangents);
  return h;
}

/* What was written to an input must not have been read through another one: the graph took them
 * for separate memory. */
static bool
check_overlap (const GmPlan *p, GmTensor *const *in, GError **error)
{
  for (uint32_t m = 0; m < p->functional.n_mutations; m++) {
    int written = (int) p->functional.mutations[m].input.i;
    for (int i = 0; i < p->n_inputs; i++) {
      if (i == written || in[i]->storage != in[written]->storage ||
          !gm_tensor_may_overlap (in[i], in[written]))
        continue;
      g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                   "the compiled function writes to input %d, which may share memory with input "
                   "%d: pass a clone () of one of them, or do not compile this function",
                   written, i);
      return false;
    }
  }
  return true;
}

/* From real inputs, the generator's state among them, to the caller's outputs. */
static bool
run (GmPlan *p, GmTensor *const *in, GmTensor **outputs, GError **error)
{
  GmTensor *out[p->n_forward + 1];
  History *h = NULL;
  bool ok;

  if (!check_overlap (p, in, error) || !allocate (p->forward_metas, p->n_forward, out, error))
    return false;
  ok = !p->n_forward || p->exec.run (p->exec.data, 0, in, p->n_inputs, out, p->n_forward, error);
  if (ok && p->n_grads > 0)
    h = attach (p, in, out);
  ok = ok && gm_functionalize_write_back (&p->functional, in, out, error);
  for (int i = 0; h && i < p->n_saved; i++)
    h->saved[i].version = gm_tensor_version (h->saved[i].t);
  ok = ok && gm_output_alias_replay (&p->alias, in, out, outputs, error);
  unref_all (out, p->n_forward);
  return ok;
}

static bool
run_direct (GmPlan *p, GmTensor *const *in, GmTensor **outputs, GError **error)
{
  if (!allocate (p->forward_metas, p->n_forward, outputs, error))
    return false;
  if (p->n_forward > 0 &&
      !p->exec.run (p->exec.data, 0, in, p->n_inputs, outputs, p->n_forward, error)) {
    unref_all (outputs, p->n_forward);
    return false;
  }
  if (p->n_grads > 0) {
    History *h = attach (p, in, outputs);
    for (int i = 0; i < p->n_saved; i++)
      h->saved[i].version = gm_tensor_version (h->saved[i].t);
  }
  return true;
}

/* The inputs with the generator's state in its place. */
static GmTensor *
enter_random (const GmPlan *p, GmTensor *const *inputs, GmTensor **in, GError **error)
{
  int64_t *state;
  GmTensor *t = gm_tensor_new (&p->in_metas[p->random.input.i], error);

  if (!t)
    return NULL;
  state = gm_tensor_data (t);
  state[0] = (int64_t) gm_random_current_seed ();
  state[1] = (int64_t) gm_random_take (p->random.draws);
  for (int i = 0, k = 0; i < p->n_inputs; i++)
    in[i] = i == (int) p->random.input.i ? t : inputs[k++];
  return t;
}

bool
gm_plan_run (GmPlan *p, GmTensor *const *inputs, int n, GmTensor **outputs, GError **error)
{
  bool ok;

  g_assert (n == gm_plan_n_inputs (p));
  if (!p->random.used) {
    ok = p->direct ? run_direct (p, inputs, outputs, error) : run (p, inputs, outputs, error);
  } else {
    GmTensor *in[p->n_inputs];
    GmTensor *state = enter_random (p, inputs, in, error);
    ok = state && run (p, in, outputs, error);
    gm_tensor_unref (state);
  }
  if (!ok)
    memset (outputs, 0, sizeof *outputs * p->alias.n_outer);
  return ok;
}
