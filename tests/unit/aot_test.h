/* SPDX-License-Identifier: Apache-2.0
 * aot_test.h -- shared by the tests of core/aot: programs, and two ways to run them.
 *
 * The oracle is the plain program: each node of the recorded graph as an eager operation on
 * real tensors, writes and views included (eager_run).  The subject is a plan, whose executable
 * here runs the partitioned graphs node by node without autograd (plan_of).  check_same runs
 * both from equal inputs and compares all that a caller can see: values, strides, identity,
 * base, history, versions, contents of inputs, gradients; floats by their bits.
 */
#ifndef AOT_TEST_H
#define AOT_TEST_H

#include <check.h>
#include <math.h>
#include <string.h>

#include "core/aot/partition.h"
#include "core/aot/plan.h"
#include "core/aot/saved_hooks.h"
#include "core/autograd/autograd.h"

enum { MAX = 64 };

/* -- Programs ---------------------------------------------------------------------------------- */

G_GNUC_UNUSED static GmGraph *
graph_of (const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, &error);

  ck_assert_msg (graphs != NULL, "%s", error ? error->message : "");
  return g_ptr_array_steal_index (graphs, 0);
}

/* Returns the bytes that the forward allocates for the backward alone: its outputs of kind SAVED.
 */
G_GNUC_UNUSED static uint64_t
saved_bytes_of (const GmParts *parts)
{
  const GmGraph *f = parts->forward;
  uint64_t bytes = 0;

  for (uint32_t i = 0; i < f->outputs->len; i++) {
    const GmGraphOutput *o = &g_array_index (f->outputs, GmGraphOutput, i);
    if (o->kind == GM_OUTPUT_SAVED)
      bytes += gm_cut_bytes (f, o->value);
  }
  return bytes;
}

typedef struct {
  GRand *rand;
  GmGraphBuilder b;
  GmVal pool[MAX];
  int n;
  bool mutate;
} Maker;

static GmVal
any_value (Maker *m)
{
  return m->pool[g_rand_int_range (m->rand, 0, m->n)];
}

static void
add_view (Maker *m)
{
  GmVal v = any_value (m), r = NULL;
  const GmMeta *meta = gm_b_meta (&m->b.base, v);
  int64_t flat = gm_meta_numel (meta);

  switch (g_rand_int_range (m->rand, 0, 5)) {
  case 0:
    r = meta->ndim >= 2 ? gm_b_transpose (&m->b.base, v, 0, 1) : NULL;
    break;
  case 1:
    r = gm_meta_is_contiguous (meta) ? gm_b_view (&m->b.base, v, 1, &flat) : NULL;
    break;
  case 2:
  case 3:
    if (meta->ndim > 0) {
      int dim = g_rand_int_range (m->rand, 0, meta->ndim);
      int64_t start = g_rand_int_range (m->rand, 0, (int) meta->sizes[dim]);
      r = gm_b_slice (&m->b.base, v, dim, start, meta->sizes[dim],
                      g_rand_int_range (m->rand, 1, 3));
    }
    break;
  default:
    r = g_rand_int_range (m->rand, 0, 3) == 0 ? gm_b (&m->b.base, detach, v) : NULL;
  }
  if (r)
    m->pool[m->n++] = r;
}

static void
add_pointwise (Maker *m)
{
  static const GmOp unary[] = { GM_OP_tanh, GM_OP_neg,    GM_OP_sin,
                                GM_OP_relu, GM_OP_square, GM_OP_exp };
  static const GmOp binary[] = { GM_OP_add, GM_OP_mul, GM_OP_sub, GM_OP_maximum };
  GmVal a = any_value (m), b = any_value (m);
  const GmMeta *ma = gm_b_meta (&m->b.base, a), *mb = gm_b_meta (&m->b.base, b);

  if (gm_meta_same_shape (ma, mb) || ma->ndim == 0 || mb->ndim == 0)
    m->pool[m->n++] =
        gm_b_op (&m->b.base, binary[g_rand_int_range (m->rand, 0, 4)], (GmVal[]){ a, b }, 2, NULL);
  else if (ma->ndim == 2 && mb->ndim == 2 && ma->sizes[1] == mb->sizes[0])
    m->pool[m->n++] = gm_b (&m->b.base, matmul, a, b);
  else
    m->pool[m->n++] = gm_b_op (&m->b.base, unary[g_rand_int_range (m->rand, 0, 6)], &a, 1, NULL);
}

static void
add_write (Maker *m)
{
  GmVal dst = any_value (m), src = any_value (m), r;
  const GmMeta *md = gm_b_meta (&m->b.base, dst), *ms = gm_b_meta (&m->b.base, src);
  GmVal half = gm_b_scalar (&m->b.base, gm_scalar_float (0.5), GM_F32);

  if (gm_meta_same_shape (md, ms) && g_rand_boolean (m->rand))
    r = m->b.base.vt->into (&m->b.base, dst, GM_OP_mul, (GmVal[]){ dst, src }, 2, NULL);
  else
    r = m->b.base.vt->into (&m->b.base, dst, GM_OP_mul, (GmVal[]){ dst, half }, 2, NULL);
  if (r)
    m->pool[m->n++] = r;
}

/* Returns a random program over x, y: f32[4, 3] (x requires grad) and z: f32[3]; views, arithmetic
 * and, with `mutate`, writes. */
G_GNUC_UNUSED static GmGraph *
random_program (uint32_t seed, bool mutate)
{
  Maker m = { .rand = g_rand_new_with_seed (seed), .mutate = mutate };
  GmGraph *g = gm_graph_new ("random", NULL);
  GmMeta x = gm_meta_make (GM_F32, 2, (int64_t[]){ 4, 3 }),
         z = gm_meta_make (GM_F32, 1, (int64_t[]){ 3 });
  GmMeta y = x;

  x.requires_grad = true;
  gm_graph_builder_init (&m.b, g);
  m.pool[m.n++] = gm_val_from_id (gm_graph_add_input (g, "x", &x));
  m.pool[m.n++] = gm_val_from_id (gm_graph_add_input (g, "y", &y));
  m.pool[m.n++] = gm_val_from_id (gm_graph_add_input (g, "z", &z));
  for (int steps = g_rand_int_range (m.rand, 3, 14); steps > 0; steps--) {
    int kind = g_rand_int_range (m.rand, 0, mutate ? 3 : 2);
    (kind == 0 ? add_view : kind == 1 ? add_pointwise : add_write) (&m);
  }
  ck_assert_msg (!m.b.base.error, "%s", m.b.base.error ? m.b.base.error->message : "");
  for (int k = g_rand_int_range (m.rand, 1, 5); k > 0; k--)
    gm_graph_add_output (
        g, gm_id_from_val (g_rand_boolean (m.rand) ? m.pool[m.n - 1] : any_value (&m)),
        GM_OUTPUT_USER);
  gm_graph_builder_clear (&m.b);
  g_rand_free (m.rand);
  return g;
}

/* -- Tensors ----------------------------------------------------------------------------------- */

static void
step_index (const GmMeta *m, int64_t *at)
{
  for (int d = m->ndim; d-- > 0;) {
    if (++at[d] < m->sizes[d])
      return;
    at[d] = 0;
  }
}

/* Returns a tensor with the strides of `m`, gaps included, whose numbers follow from the seed. */
G_GNUC_UNUSED static GmTensor *
filled (const GmMeta *m, uint32_t seed)
{
  int64_t extent = gm_meta_extent (m), at[GM_MAX_DIMS] = { 0 };
  GmMeta flat = gm_meta_make (m->dtype, 1, &extent), own = *m;
  g_autoptr (GmTensor) memory = gm_tensor_new_zeros (&flat, NULL), view = NULL;
  GmTensor *t;

  own.requires_grad = 0;
  view = gm_tensor_new_view (memory, &own, 0);
  t = gm_tensor_new_alias (view); /* without a base, like a tensor from outside */
  for (int64_t i = 0; i < gm_meta_numel (m); i++, step_index (m, at)) {
    seed = seed * 1664525u + 1013904223u;
    double d = (double) (seed >> 8) / (1 << 24) * 2 - 1;
    gm_tensor_set (t, at,
                   gm_dtype_is_float (m->dtype) ? gm_scalar_float (d)
                                                : gm_scalar_int ((int64_t) (d * 4)));
  }
  return t;
}

/* True if two tensors hold the same numbers, up to `tolerance`; 0: the same bits, but with any_zero
 * 0 and -0 are equal. */
G_GNUC_UNUSED static bool
same_elements (const GmTensor *a, const GmTensor *b, bool any_zero, double tolerance)
{
  int64_t at[GM_MAX_DIMS] = { 0 };

  if (a->meta.dtype != b->meta.dtype || !gm_meta_same_shape (&a->meta, &b->meta))
    return false;
  for (int64_t i = 0; i < gm_meta_numel (&a->meta); i++, step_index (&a->meta, at)) {
    GmScalar x = gm_tensor_get (a, at), y = gm_tensor_get (b, at);
    if (memcmp (&x.i, &y.i, sizeof x.i) == 0 || (any_zero && x.d == 0 && y.d == 0))
      continue;
    double dx = gm_scalar_as_double (x), dy = gm_scalar_as_double (y),
           scale = 1 + fabs (dx) + fabs (dy);
    if (tolerance == 0 || !(fabs (dx - dy) <= tolerance * scale))
      return false;
  }
  return true;
}

/* -- The plain program ------------------------------------------------------------------------- */

/* True if n's result is only for the write behind it, with which it is one operation. */
static bool
is_written_in_place (const GmGraph *g, const GmNode *n)
{
  uint32_t next = gm_graph_value (g, n->out)->node + 1;
  const GmNode *write = next < g->nodes->len ? gm_graph_node (g, next) : NULL;

  return write && write->tag == GM_TAG_IN_PLACE && write->in[1] == n->out;
}

/* Returns a new reference to n's result. */
static GmTensor *
eager_node (const GmGraph *g, const GmNode *n, GmTensor *const *values, GError **error)
{
  const GmNode *computes =
      n->tag == GM_TAG_IN_PLACE ? gm_graph_node (g, gm_graph_value (g, n->in[1])->node) : n;
  GmTensor *operands[8], *dst = values[n->n_in ? n->in[0] : 0];

  if (n->op == GM_OP_constant)
    return gm_tensor_ref (g_ptr_array_index (g->constants, n->attrs->offset));
  for (uint32_t k = 0; k < computes->n_in; k++)
    operands[k] = values[computes->in[k]];
  if (computes == n)
    return gm_autograd_op (n->op, operands, (int) n->n_in, n->attrs, error);
  return gm_autograd_into (dst, computes->op, operands, (int) computes->n_in, computes->attrs,
                           error)
             ? gm_tensor_ref (dst)
             : NULL;
}

G_GNUC_UNUSED static bool
eager_run (const GmGraph *g, GmTensor *const *in, GmTensor **out, GError **error)
{
  GmTensor **values = g_new0 (GmTensor *, g->values->len);
  bool ok = true;

  for (uint32_t i = 0; i < g->inputs->len; i++)
    values[g_array_index (g->inputs, GmValueId, i)] = gm_tensor_ref (in[i]);
  for (uint32_t i = 0; ok && i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    bool off = gm_views_no_grad (g, n), old = off && gm_grad_set_enabled (false);

    if (!is_written_in_place (g, n))
      ok = (values[n->out] = eager_node (g, n, values, error)) != NULL;
    if (off)
      gm_grad_set_enabled (old);
  }
  for (uint32_t i = 0; ok && i < g->outputs->len; i++)
    out[i] = gm_tensor_ref (values[g_array_index (g->outputs, GmGraphOutput, i).value]);
  for (uint32_t i = 0; i < g->values->len; i++)
    gm_tensor_unref (values[i]);
  g_free (values);
  return ok;
}

/* -- The plan ---------------------------------------------------------------------------------- */

typedef struct {
  GmArena *arena;
  GmGraph *graphs[2];
  int runs[2];
  bool bare; /* runs compute nothing */
  GmGraph *functional;
  GmLayers layers;
  GmJoint joint;
  GmParts parts;
} TestExec;

/* AOT-01: checks that, behind the layers, no input overlaps one that is written as a whole. */
static void
assert_written_are_separate (const TestExec *e, GmTensor *const *in, int n_in)
{
  for (uint32_t m = 0; m < e->layers.functional.n_mutations; m++) {
    uint32_t k = e->layers.functional.mutations[m].input.i;
    for (int i = 0; i < n_in && e->layers.functional.mutations[m].output.i != GM_NO_ID; i++)
      ck_assert_msg (
          i == (int) k || in[i]->storage != in[k]->storage
              || !gm_stride_overlap (&in[i]->meta, &in[k]->meta, in[k]->offset - in[i]->offset),
          "inner inputs %d and %u overlap", i, k);
  }
}

static bool
test_exec_run (void *data, int role, GmTensor *const *in, int n_in, GmTensor *const *out, int n_out,
               GError **error)
{
  TestExec *e = data;
  const GmGraph *g = e->graphs[role];
  GmTensor *results[MAX] = { NULL };
  bool old = gm_grad_set_enabled (false), ok;

  ck_assert_int_eq (n_in, (int) g->inputs->len);
  ck_assert_int_eq (n_out, (int) g->outputs->len);
  e->runs[role]++;
  if (role == 0)
    assert_written_are_separate (e, in, n_in);
  if (e->bare)
    return true;
  for (int i = 0; i < n_in; i++) {
    GmMeta want = *gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i)), has = in[i]->meta;
    want.requires_grad = has.requires_grad = 0;
    ck_assert_msg (memcmp (&want, &has, sizeof want) == 0, "input %d of role %d is not as compiled",
                   i, role);
  }
  ok = eager_run (g, in, results, error);
  for (int i = 0; ok && i < n_out; i++) {
    GmTensor *r = results[i];
    if (r->storage->data && r->storage->data == out[i]->storage->data)
      ck_abort_msg ("output %d overlaps", i);
    ck_assert (memcmp (r->meta.strides, out[i]->meta.strides, sizeof r->meta.strides) == 0);
    ok = gm_op_run_into (GM_OP_copy, &r, 1, NULL, out[i], error);
  }
  for (int i = 0; i < n_out; i++)
    gm_tensor_unref (results[i]);
  gm_grad_set_enabled (old);
  return ok;
}

static void
test_exec_unref (void *data)
{
  TestExec *e = data;

  gm_graph_free (e->graphs[0]);
  gm_graph_free (e->graphs[1]);
  gm_graph_free (e->joint.graph);
  gm_graph_free (e->functional);
  gm_arena_free (e->arena);
  g_free (e);
}

static void
assert_verifies (const GmGraph *g)
{
  g_autoptr (GError) error = NULL;

  if (!gm_graph_verify (g, true, &error)) {
    g_autofree char *text = gm_graph_text (g);
    ck_abort_msg ("%s\n%s", error->message, text);
  }
}

/* Checks that every output is distinct and owns its memory. */
static void
assert_outputs_are_owned (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, i).value;
    ck_assert_uint_ne (gm_graph_value (g, v)->node, GM_NO_ID);
    ck_assert_uint_eq (gm_views_root (g, v), v);
    for (uint32_t k = 0; k < i; k++)
      ck_assert_uint_ne (v, g_array_index (g->outputs, GmGraphOutput, k).value);
  }
}

static GmPartitionOptions partition_options = { GM_PARTITION_DEFAULT, 1 }; /* of every plan */

static const GmInlineHooks *inline_hooks; /* of every plan; NULL: none */

/* Makes a plan from a recorded graph through all stages.  NULL and *error if the graph cannot be
 * made functional. */
G_GNUC_UNUSED static GmPlan *
plan_with (const GmGraph *g, bool differentiate, GmPlanRandom random, TestExec **exec,
           GError **error)
{
  TestExec *e = g_new0 (TestExec, 1);

  e->arena = gm_arena_new ();
  e->functional = gm_layers_apply (g, differentiate, e->arena, &e->layers, error);
  if (!e->functional) {
    gm_arena_free (e->arena);
    g_free (e);
    return NULL;
  }
  assert_verifies (e->functional);
  if (!gm_join (e->functional, e->arena, &e->joint, error)
      || !gm_partition (&e->joint, &e->layers.functional, &partition_options, e->arena, &e->parts,
                        error))
    ck_abort_msg ("%s", (*error)->message);
  if (inline_hooks && !gm_saved_hooks_inline (inline_hooks, e->arena, &e->parts, error))
    ck_abort_msg ("%s", (*error)->message);
  assert_verifies (e->joint.graph);
  assert_verifies (e->parts.forward);
  assert_outputs_are_owned (e->parts.forward);
  if (e->parts.backward) {
    assert_verifies (e->parts.backward);
    assert_outputs_are_owned (e->parts.backward);
  }
  e->graphs[0] = e->parts.forward;
  e->graphs[1] = e->parts.backward;
  if (exec)
    *exec = e;
  return gm_plan_new (&(GmPlanSpec){
      &e->layers, &e->joint, &e->parts, random, { e, test_exec_run, test_exec_unref, NULL } });
}

G_GNUC_UNUSED static GmPlan *
plan_of (const GmGraph *g, TestExec **exec)
{
  g_autoptr (GError) error = NULL;
  GmPlan *p = plan_with (g, true, (GmPlanRandom){ .used = false }, exec, &error);

  ck_assert_msg (p != NULL, "%s", error ? error->message : "");
  return p;
}

/* -- Both, compared ---------------------------------------------------------------------------- */

typedef struct {
  GmTensor *leaf[MAX], *in[MAX], *out[MAX];
  bool ok;
  GError *error;
} Run;

/* Makes the inputs: leaves, or copies of leaves where the program writes to a tensor that requires
 * grad (a leaf may not be written to). */
static void
run_begin (Run *r, const GmGraph *g, bool copies)
{
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    const GmMeta *m = gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i));
    r->leaf[i] = filled (m, i + 1);
    if (m->requires_grad)
      gm_tensor_set_requires_grad (r->leaf[i], true, NULL);
    r->in[i] = copies && m->requires_grad ? gm_autograd_op (GM_OP_copy, &r->leaf[i], 1, NULL, NULL)
                                          : gm_tensor_ref (r->leaf[i]);
  }
}

static void
run_end (Run *r)
{
  for (int i = 0; i < MAX; i++) {
    gm_tensor_unref (r->leaf[i]);
    gm_tensor_unref (r->in[i]);
    gm_tensor_unref (r->out[i]);
  }
  g_clear_error (&r->error);
}

static int
index_of (GmTensor *const *ts, int n, const GmTensor *t)
{
  for (int i = 0; i < n; i++)
    if (ts[i] == t)
      return i;
  return -1;
}

static int
storage_of (GmTensor *const *ts, int n, const GmTensor *t)
{
  for (int i = 0; i < n; i++)
    if (ts[i]->storage == t->storage)
      return i;
  return -1;
}

#define SAY(format, ...) ck_abort_msg (format "\n%s", __VA_ARGS__, text)

static void
compare_tensors (const GmTensor *want, const GmTensor *has, const char *what, uint32_t i,
                 const char *text)
{
  if (!same_elements (want, has, false, 0)) {
    g_autofree char *a = gm_tensor_text (want, NULL), *b = gm_tensor_text (has, NULL);
    SAY ("%s %u is\n%s\nnot\n%s", what, i, b, a);
  }
  for (int d = 0; d < want->meta.ndim; d++)
    if (want->meta.sizes[d] > 1 && want->meta.strides[d] != has->meta.strides[d])
      SAY ("%s %u has other strides", what, i);
  if (gm_tensor_requires_grad (want) != gm_tensor_requires_grad (has))
    SAY ("%s %u: requires_grad should be %d", what, i, gm_tensor_requires_grad (want));
}

/* Computes the gradients of all tensors with a history among the outputs and the inputs that the
 * plain program has written, for tangents that follow from their position. */
static bool
gradients (const Run *r, const Run *plain, int n_in, int n_out, GmTensor **result, GError **error)
{
  GmTensor *roots[2 * MAX], *tangents[2 * MAX], *leaves[MAX];
  int n = 0, n_leaves = 0;
  bool ok;

  for (int i = 0; i < n_out + n_in; i++) {
    GmTensor *t = i < n_out ? r->out[i] : r->in[i - n_out];
    if (!gm_tensor_requires_grad (t)
        || (i >= n_out && gm_tensor_version (plain->in[i - n_out]) == 0))
      continue;
    GmMeta m = t->meta;
    gm_meta_set_contiguous (&m);
    roots[n] = t;
    tangents[n++] = filled (&m, 100 + (uint32_t) i);
  }
  for (int i = 0; i < n_in; i++)
    if (gm_tensor_requires_grad (r->leaf[i]) && gm_tensor_is_leaf (r->leaf[i]))
      leaves[n_leaves++] = r->leaf[i];
  ok =
      n == 0 || n_leaves == 0
      || gm_autograd_grad (roots, tangents, n, leaves, n_leaves, false, false, true, result, error);
  while (n > 0)
    gm_tensor_unref (tangents[--n]);
  return ok;
}

/* True if every gradient is summed inside the compiled function.  Gradients that reach an input, or
 * a view that was made again, from outside are added there: the same numbers in another order. */
static bool
sums_inside (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    GmValueId v = gm_views_object (g, g_array_index (g->outputs, GmGraphOutput, i).value);
    if (gm_graph_value (g, gm_views_root (g, v))->node == GM_NO_ID || gm_views_root (g, v) != v)
      return false;
  }
  return true;
}

static int n_exact; /* number of comparisons of gradients by their bits */

/* Returns the tolerance for sums in another order, from the coarsest dtype in the graph. */
G_GNUC_UNUSED static double
coarseness (const GmGraph *g)
{
  double most = 1e-5;
  for (uint32_t v = 0; v < g->values->len; v++) {
    GmDtype d = (GmDtype) gm_graph_meta (g, v)->dtype;
    if (gm_dtype_is_float (d) && gm_dtypes[d].bits < 32)
      most = MAX (most, 16 * gm_dtype_epsilon (d));
  }
  return most;
}

/* Runs the program both ways, from equal inputs that exist.  Returns false for a program that the
 * plain way refuses, which is no test. */
static bool
compare_runs (const GmGraph *g, GmPlan *plan, Run want, Run has, double tolerance)
{
  int n_in = (int) g->inputs->len, n_out = (int) g->outputs->len;
  g_autofree char *text = gm_graph_text (g);
  GmTensor *want_grads[MAX] = { NULL }, *has_grads[MAX] = { NULL };

  want.ok = eager_run (g, want.in, want.out, &want.error);
  if (!want.ok) {
    run_end (&want);
    run_end (&has);
    return false;
  }
  has.ok = gm_plan_run (plan, has.in, n_in, has.out, &has.error);
  if (!has.ok)
    SAY ("the plan failed: %s", has.error->message);
  for (int i = 0; i < n_out; i++) {
    compare_tensors (want.out[i], has.out[i], "output", (uint32_t) i, text);
    if (index_of (want.in, n_in, want.out[i]) != index_of (has.in, n_in, has.out[i]))
      SAY ("output %d: is another input", i);
    if (index_of (want.out, n_out, want.out[i]) != index_of (has.out, n_out, has.out[i]))
      SAY ("output %d: identity among outputs differs", i);
    if (storage_of (want.in, n_in, want.out[i]) != storage_of (has.in, n_in, has.out[i])
        || storage_of (want.out, n_out, want.out[i]) != storage_of (has.out, n_out, has.out[i]))
      SAY ("output %d: shares other memory", i);
    if ((want.out[i]->base == NULL) != (has.out[i]->base == NULL))
      SAY ("output %d: base", i);
  }
  for (int i = 0; i < n_in; i++) {
    compare_tensors (want.in[i], has.in[i], "input", (uint32_t) i, text);
    /* a view that nobody sees may change its shape without a trace in the compiled program */
    if (!gm_metadata_applies (g)
        && (gm_tensor_version (want.in[i]) > 0) != (gm_tensor_version (has.in[i]) > 0))
      SAY ("input %d: version", i);
    if (storage_of (want.in, n_in, want.in[i]) != storage_of (has.in, n_in, has.in[i]))
      SAY ("input %d: shares other memory", i);
    if ((want.in[i]->base == NULL) != (has.in[i]->base == NULL))
      SAY ("input %d: base", i);
    if (gm_tensor_is_leaf (want.in[i]) != gm_tensor_is_leaf (has.in[i]))
      SAY ("input %d: is %sa leaf", i, gm_tensor_is_leaf (has.in[i]) ? "" : "not ");
  }
  /* A tensor that was saved and then written to: the plain program refuses its backward, the
   * compiled one may not have to. */
  bool ok = gradients (&want, &want, n_in, n_out, want_grads, NULL);
  n_exact += ok && tolerance == 0;
  if (ok && !gradients (&has, &want, n_in, n_out, has_grads, &has.error))
    SAY ("backward of the plan failed: %s", has.error->message);
  for (int i = 0; ok && i < n_in; i++) {
    if (want_grads[i] && !has_grads[i])
      SAY ("gradient %d is missing", i);
    if (want_grads[i] && !same_elements (want_grads[i], has_grads[i], true, tolerance)) {
      g_autofree char *a = gm_tensor_text (want_grads[i], NULL),
                      *b = gm_tensor_text (has_grads[i], NULL);
      SAY ("gradient %d is\n%s\nnot\n%s", i, b, a);
    }
  }
  for (int i = 0; i < MAX; i++) {
    gm_tensor_unref (want_grads[i]);
    gm_tensor_unref (has_grads[i]);
  }
  run_end (&want);
  run_end (&has);
  return ok;
}

G_GNUC_UNUSED static bool
check_same (const GmGraph *g, GmPlan *plan, bool copies)
{
  Run want = { .ok = false }, has = { .ok = false };

  run_begin (&want, g, copies);
  run_begin (&has, g, copies);
  return compare_runs (g, plan, want, has, sums_inside (g) ? 0 : coarseness (g));
}

#endif
