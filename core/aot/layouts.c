/* SPDX-License-Identifier: Apache-2.0
 * layouts.c -- the strides of a compiled function's gradients, where arriving gradients have other
 * strides than it was compiled for.
 *
 * The compiled backward reads gradients that are laid out like the results; a gradient that arrives
 * otherwise is copied.  The elements of its results are the plain backward's, and the strides would
 * be those of the copies.  So the joint graph is made once more for the strides that arrive, for
 * the sake of its metas alone, and the results are laid out as these say.  A gradient that is
 * passed on is the tensor that arrived.  The answers are kept with the plan: a program has few
 * kinds of such calls.
 * Rejected: a backward compiled for each layout; it costs a compilation where a copy does.
 */
#include "core/aot/plan_private.h"

#include <string.h>

enum { MAX_KNOWN = 8, NOT_PASSED = -1, UNKNOWN = -2 };

typedef struct {
  GmMeta *arrived; /* per tangent of the joint graph; dtype GM_N_DTYPES: none */
  GmMeta *given;   /* per gradient */
  int *passed;     /* per gradient: the tangent that it is, NOT_PASSED, or UNKNOWN */
} Layouts;

static void
layouts_free (gpointer data)
{
  Layouts *l = data;

  g_free (l->arrived);
  g_free (l->given);
  g_free (l->passed);
  g_free (l);
}

bool
gm_layouts_are_planned (const GmPlan *p, GmTensor *const *grads)
{
  for (int i = 0; i < p->n_tangents; i++) {
    const GmTensor *t = grads[p->tangents[i]];
    if (t && !gm_plan_same_layout (&t->meta, &p->tangent_metas[i]))
      return false;
  }
  return true;
}

static const GmMeta *
output_meta (const GmJoint *j, uint32_t i)
{
  return gm_graph_meta (j->graph, g_array_index (j->graph->outputs, GmGraphOutput, i).value);
}

bool
gm_layouts_differ (const GmPlan *p, const GmJoint *joint)
{
  uint32_t n_before = joint->graph->outputs->len - joint->n_grads;
  bool differ = false;

  for (int i = 0; i < p->n_grads && !differ; i++) {
    GmGradSource s = p->sources[i];
    int k = (int) s.index - p->n_saved;
    const GmMeta *is = !s.is_input ? &p->backward_metas[s.index]
                       : k < 0     ? &p->saved_metas[s.index]
                                   : &p->tangent_metas[k];
    differ = !gm_plan_same_layout (is, output_meta (joint, n_before + (uint32_t) i));
  }
  return differ;
}

static GmMeta
arrived_as (const GmTensor *t)
{
  GmMeta m = { .dtype = GM_N_DTYPES };

  if (!t)
    return m;
  m = t->meta;
  m.requires_grad = 0;
  return m;
}

static bool
is_same (const GmMeta *a, const GmMeta *b)
{
  if (a->dtype != b->dtype || a->dtype == GM_N_DTYPES)
    return a->dtype == b->dtype;
  return gm_meta_same_layout (a, b) && a->device == b->device;
}

static const Layouts *
find (const GmPlan *p, GmTensor *const *grads)
{
  for (guint k = 0; p->layouts && k < p->layouts->len; k++) {
    const Layouts *l = g_ptr_array_index (p->layouts, k);
    bool same = true;
    for (int i = 0; same && i < p->n_joint_tangents; i++) {
      GmMeta m = arrived_as (grads[i]);
      same = is_same (&m, &l->arrived[i]);
    }
    if (same)
      return l;
  }
  return NULL;
}

/* Stores in l, for each gradient of p, its meta in the joint graph j, and the tangent that it is,
 * if it is one. */
static void
note_given (const GmPlan *p, const GmJoint *j, Layouts *l)
{
  uint32_t n_given = j->graph->outputs->len - j->n_grads;

  for (uint32_t k = 0; k < j->n_grads; k++)
    for (int i = 0; i < p->n_grads; i++) {
      if (p->grad_of[i].i != j->grads[k].i)
        continue;
      GmValueId v = g_array_index (j->graph->outputs, GmGraphOutput, n_given + k).value;
      l->given[i] = *gm_graph_meta (j->graph, v);
      l->passed[i] = NOT_PASSED;
      for (uint32_t t = 0, at = 0; t < (uint32_t) p->n_joint_tangents; t++) {
        if (l->arrived[t].dtype == GM_N_DTYPES)
          continue;
        if (g_array_index (j->graph->inputs, GmValueId, j->n_inputs + at) == v)
          l->passed[i] = (int) t;
        at++;
      }
    }
}

static Layouts *
work_out (GmPlan *p, GmTensor *const *grads)
{
  Layouts *l = g_new0 (Layouts, 1);
  g_autoptr (GmGraph) numbers = p->of ? gm_plan_graph_now (p, NULL) : NULL;
  GmArena *arena = gm_arena_new ();
  GmJoint joint;

  l->arrived = g_new (GmMeta, (gsize) p->n_joint_tangents + 1);
  l->given = g_new0 (GmMeta, (gsize) p->n_grads + 1);
  l->passed = g_new (int, (gsize) p->n_grads + 1);
  for (int i = 0; i < p->n_joint_tangents; i++)
    l->arrived[i] = arrived_as (grads[i]);
  for (int i = 0; i < p->n_grads; i++)
    l->passed[i] = UNKNOWN;
  const GmGraph *g = p->of ? numbers : p->graph;
  if (g && gm_join_arrived (g, l->arrived, arena, &joint, NULL)) {
    note_given (p, &joint, l);
    gm_graph_free (joint.graph);
  }
  gm_arena_free (arena);
  return l;
}

/* Returns a new reference to a tensor with the elements of t in the layout of `want`; where `want`
 * has a stride of 0, they repeat.  NULL: *error. */
static GmTensor *
laid_out (GmTensor *t, const GmMeta *want, GError **error)
{
  GmMeta once = *want, from = t->meta;
  int64_t extent;

  for (int d = 0; d < want->ndim; d++)
    if (want->strides[d] == 0 && want->sizes[d] > 1)
      once.sizes[d] = from.sizes[d] = 1;
  extent = gm_meta_extent (&once);
  GmMeta flat = gm_meta_make ((GmDtype) want->dtype, 1, &extent);
  flat.device = want->device;
  g_autoptr (GmTensor) memory = gm_tensor_new_zeros (&flat, error);
  if (!memory)
    return NULL;
  GmTensor *out = gm_tensor_new_alias (memory);
  out->meta = *want;
  if (gm_meta_numel (want) == 0)
    return out;
  g_autoptr (GmTensor) to = gm_tensor_new_alias (memory), source = gm_tensor_new_alias (t);
  to->meta = once;
  source->meta = from;
  GmTensor *const in[] = { to, source };
  g_autoptr (GmTensor) done = gm_op_run (GM_OP_copy_, in, 2, NULL, error);
  if (!done)
    g_clear_pointer (&out, gm_tensor_unref);
  return out;
}

bool
gm_layouts_give (GmPlan *p, GmTensor *const *grads, GmTensor **result, GError **error)
{
  const Layouts *l = find (p, grads);

  if (!p->graph)
    return true;
  if (!l) {
    if (!p->layouts)
      p->layouts = g_ptr_array_new_with_free_func (layouts_free);
    if (p->layouts->len == MAX_KNOWN)
      g_ptr_array_remove_index (p->layouts, 0);
    g_ptr_array_add (p->layouts, work_out (p, grads));
    l = g_ptr_array_index (p->layouts, p->layouts->len - 1);
  }
  for (int i = 0; i < p->n_grads; i++) {
    const GmMeta *want = &l->given[i];
    if (!result[i] || l->passed[i] == UNKNOWN || !gm_meta_same_shape (&result[i]->meta, want)
        || result[i]->meta.dtype != want->dtype
        || (l->passed[i] < 0 && gm_plan_same_layout (&result[i]->meta, want)))
      continue;
    GmTensor *t = l->passed[i] >= 0 ? gm_tensor_new_alias (grads[l->passed[i]])
                                    : laid_out (result[i], want, error);
    if (!t)
      return false;
    t->meta.requires_grad = 0;
    gm_tensor_unref (result[i]);
    result[i] = t;
  }
  return true;
}
