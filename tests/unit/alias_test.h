/* SPDX-License-Identifier: Apache-2.0
 * alias_test.h -- inputs that share memory, for the tests of the layers that deal with them.
 *
 * A world is a set of inputs that follows from a seed: tensors of their own, views of one or two
 * buffers, a tensor twice.  Made twice it gives two equal sets, one for the plain program and one
 * for the compiled one.
 */
#ifndef ALIAS_TEST_H
#define ALIAS_TEST_H

#include "tests/unit/aot_test.h"

/* Returns a view made by one op. */
static GmTensor *
view_by (GmTensor *t, GmOp op, const char *attrs)
{
  GmAttrs a;
  g_autoptr (GError) error = NULL;

  ck_assert (gm_graph_parse_attrs (attrs, &a, NULL));
  GmTensor *v = gm_autograd_op (op, &t, 1, a.mask ? &a : NULL, &error);
  ck_assert_msg (v != NULL, "%s", error ? error->message : "");
  return v;
}

/* -- Written by hand --------------------------------------------------------------------------- */

/* An input: a view of a buffer, or a tensor of its own. */
typedef struct {
  int buffer; /* 0 or 1, or -1: a tensor of its own */
  GmOp op;    /* NONE: the buffer itself */
  const char *attrs;
  int same; /* 1 + the number of the earlier input that it is; 0: none */
} InputSpec;

typedef struct {
  const char *buffers[2]; /* "f32[8]"; a buffer that requires grad is the copy of a leaf */
  bool grad;
  InputSpec inputs[8];
  int n;
} World;

static GmMeta
meta_of_text (const char *type)
{
  g_autofree char *text = g_strdup_printf ("g (%%x: %s) -> () { }", type);
  g_autoptr (GmGraph) g = graph_of (text);

  return *gm_graph_meta (g, 0);
}

G_GNUC_UNUSED static Run
world_begin (const World *w)
{
  Run r = { .ok = false };
  GmTensor *buffers[2] = { NULL };

  for (int k = 0; k < 2 && w->buffers[k]; k++) {
    GmMeta m = meta_of_text (w->buffers[k]);
    r.leaf[k] = filled (&m, 50 + (uint32_t) k);
    if (w->grad)
      gm_tensor_set_requires_grad (r.leaf[k], true, NULL);
    buffers[k] = gm_autograd_op (GM_OP_copy, &r.leaf[k], 1, NULL, NULL);
  }
  for (int i = 0; i < w->n; i++) {
    const InputSpec *s = &w->inputs[i];
    GmMeta m;
    if (s->same) {
      r.in[i] = gm_tensor_ref (r.in[s->same - 1]);
    } else if (s->buffer < 0) {
      m = meta_of_text (s->attrs);
      r.in[i] = filled (&m, (uint32_t) i);
    } else {
      r.in[i] = s->op ? view_by (buffers[s->buffer], s->op, s->attrs)
                      : gm_tensor_ref (buffers[s->buffer]);
    }
  }
  for (int i = 0; i < MAX; i++)
    if (!r.leaf[i])
      r.leaf[i] = gm_tensor_new_scalar (gm_scalar_int (0), GM_F32, NULL);
  gm_tensor_unref (buffers[0]);
  gm_tensor_unref (buffers[1]);
  return r;
}

/* Returns the plan of a graph for inputs like those of the world; NULL with *error if there is
 * none. */
G_GNUC_UNUSED static GmPlan *
world_plan (const World *w, GmGraph *g, TestExec **exec, GError **error)
{
  Run r = world_begin (w);

  ck_assert_uint_eq (g->inputs->len, (guint) w->n);
  gm_overlap_describe (g, r.in);
  GmPlan *p = plan_with (g, true, (GmPlanRandom){ .used = false }, exec, error);
  if (p) {
    g_autoptr (GError) why = NULL;
    ck_assert_msg (gm_plan_check (p, r.in, w->n, &why), "%s", why ? why->message : "");
  }
  run_end (&r);
  return p;
}

/* Runs the text's program, plain and compiled, on the world's inputs, and compares. */
G_GNUC_UNUSED static void
check_world (const World *w, const char *text)
{
  g_autoptr (GmGraph) g = graph_of (text);
  g_autoptr (GError) error = NULL;
  g_autoptr (GmPlan) p = world_plan (w, g, NULL, &error);

  ck_assert_msg (p != NULL, "%s", error ? error->message : "");
  ck_assert_msg (compare_runs (g, p, world_begin (w), world_begin (w), w->grad ? 1e-5 : 0),
                 "the plain program fails: %s", text);
}

/* -- At random --------------------------------------------------------------------------------- */

static const InputSpec some_views[] = {
  { 0, GM_OP_NONE, "", 0 },
  { 0, GM_OP_permute, "dims=[1, 0]", 0 },
  { 0, GM_OP_view, "sizes=[24]", 0 },
  { 0, GM_OP_slice, "dim=0 start=1 stop=3 step=1", 0 },
  { 0, GM_OP_slice, "dim=0 start=0 stop=4 step=2", 0 },
  { 0, GM_OP_slice, "dim=1 start=0 stop=3 step=1", 0 },
  { 0, GM_OP_slice, "dim=1 start=2 stop=6 step=1", 0 },
  { 0, GM_OP_slice, "dim=1 start=3 stop=6 step=1", 0 },
  { 1, GM_OP_NONE, "", 0 },
  { 1, GM_OP_slice, "dim=0 start=0 stop=4 step=1", 0 },
  { 1, GM_OP_slice, "dim=0 start=2 stop=6 step=1", 0 },
  { 1, GM_OP_view, "sizes=[2, 3]", 0 },
  { -1, GM_OP_NONE, "f32[4, 3]", 0 },
  { -1, GM_OP_NONE, "f32[6]", 0 },
};

G_GNUC_UNUSED static World
random_world (GRand *rand)
{
  World w = { .buffers = { "f32[4, 6]", "f32[6]" }, .grad = g_rand_int_range (rand, 0, 3) == 0 };

  w.n = g_rand_int_range (rand, 2, 6);
  for (int i = 0; i < w.n; i++) {
    w.inputs[i] = some_views[g_rand_int_range (rand, 0, G_N_ELEMENTS (some_views))];
    if (i > 0 && g_rand_int_range (rand, 0, 8) == 0)
      w.inputs[i].same = 1 + g_rand_int_range (rand, 0, i);
  }
  return w;
}

static GmValueId
object_id (const GmGraph *g, GmVal v)
{
  GmValueId id = gm_views_object (g, gm_id_from_val (v));
  const GmGraphAlias *a = gm_graph_value (g, id)->alias;

  return a && a->same != GM_NO_ID ? a->same : id;
}

/* Makes a tensor change its shape, or become another; its older names are dropped. */
static void
add_set (Maker *m)
{
  GmBuilder *b = &m->b.base;
  GmVal dst = any_value (m), src = dst;
  const GmMeta *meta = gm_b_meta (b, dst);
  int64_t sizes[GM_MAX_DIMS] = { 1 }, flat = gm_meta_numel (meta);
  int kind = g_rand_int_range (m->rand, 0, 7);

  if (kind < 3 && meta->ndim >= 2) {
    src = gm_b_transpose (b, dst, 0, 1);
  } else if (kind < 4 && meta->ndim < 4) {
    memcpy (sizes + 1, meta->sizes, sizeof (int64_t) * meta->ndim);
    src = gm_b_view (b, dst, meta->ndim + 1, sizes);
  } else if (kind < 6 && gm_meta_is_contiguous (meta)) {
    src = gm_b_view (b, dst, 1, &flat);
  } else if (kind == 6) {
    src = any_value (m);
  }
  if (src == dst || gm_b_meta (b, src)->dtype != meta->dtype)
    return;
  GmValueId object = object_id (m->b.graph, dst);
  GmVal now = gm_b_set (b, dst, src);
  for (int i = 0; i < m->n; i++)
    if (object_id (m->b.graph, m->pool[i]) == object)
      m->pool[i] = now;
}

/* Returns a program over the world's inputs, with views, writes and changes of shape. */
G_GNUC_UNUSED static GmGraph *
random_world_program (GRand *rand, const World *w)
{
  Maker m = { .rand = rand, .mutate = true };
  GmGraph *g = gm_graph_new ("random", NULL);
  Run r = world_begin (w);

  gm_graph_builder_init (&m.b, g);
  m.b.may_set = true;
  for (int i = 0; i < w->n; i++) {
    g_autofree char *name = g_strdup_printf ("x%d", i);
    GmMeta meta = r.in[i]->meta;
    meta.requires_grad = gm_tensor_requires_grad (r.in[i]);
    m.pool[m.n++] = gm_val_from_id (gm_graph_add_input (g, name, &meta));
  }
  gm_overlap_describe (g, r.in);
  for (int i = 0; i < w->n; i++)
    if (w->inputs[i].same)
      m.pool[i] = m.pool[w->inputs[i].same - 1];
  for (int steps = g_rand_int_range (rand, 2, 10); steps > 0; steps--) {
    int kind = g_rand_int_range (rand, 0, 7);
    (kind < 2 ? add_write : kind < 4 ? add_view : kind < 6 ? add_pointwise : add_set) (&m);
  }
  ck_assert_msg (!m.b.base.error, "%s", m.b.base.error ? m.b.base.error->message : "");
  for (int k = g_rand_int_range (rand, 0, 4); k > 0; k--)
    gm_graph_add_output (g, gm_id_from_val (any_value (&m)), GM_OUTPUT_USER);
  gm_graph_builder_clear (&m.b);
  run_end (&r);
  return g;
}

#endif
