/* SPDX-License-Identifier: Apache-2.0
 * test_host_call.c -- host functions as nodes, and hooks on gradients inside, from C: their order,
 * the number of their calls, their results and gradients.
 */
#include "core/graph/higher.h"
#include "tests/unit/aot_test.h"

/* -- Functions --------------------------------------------------------------------------------- */

static GString *ran; /* a letter for each call, in order */

/* Computes x * x, with history if gradients are on; data: its letter. */
static bool
square (void *data, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out,
        GError **error)
{
  GmTensor *two[2] = { in[0], in[0] };

  (void) n_in, (void) n_out;
  g_string_append_c (ran, *(const char *) data);
  return (out[0] = gm_autograd_op (GM_OP_mul, two, 2, NULL, error)) != NULL;
}

static bool
give_back (void *data, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out,
           GError **error)
{
  out[0] = gm_tensor_ref (in[0]);
  return true;
}

static bool
give_longer (void *data, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out,
             GError **error)
{
  GmMeta m = gm_meta_make (GM_F32, 1, (const int64_t[]){ 9 });

  return (out[0] = gm_tensor_new_zeros (&m, error)) != NULL;
}

static bool
give_up (void *data, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out,
         GError **error)
{
  g_set_error_literal (error, GM_ERROR, GM_ERROR_RUNTIME, "not today");
  return false;
}

/* A hook that triples the gradient, or keeps it. */
static bool
triple (void *data, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out,
        GError **error)
{
  GmTensor *two[2] = { in[0], in[0] };

  g_string_append_c (ran, *(const char *) data);
  g_autoptr (GmTensor) twice = gm_op_run (GM_OP_add, two, 2, NULL, error);
  two[0] = twice;
  return twice && (out[0] = gm_op_run (GM_OP_add, two, 2, NULL, error)) != NULL;
}

static bool
only_note (void *data, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out,
           GError **error)
{
  g_string_append_c (ran, *(const char *) data);
  out[0] = gm_tensor_ref (in[0]);
  return true;
}

typedef bool (*Function) (void *data, GmTensor *const *in, uint32_t n_in, GmTensor **out,
                          uint32_t n_out, GError **error);

/* Returns the graph of a text whose host functions are these, in the order of the rows. */
static GmGraph *
graph_with (const char *text, const Function *functions, const char *letters)
{
  GmGraph *g = graph_of (text);

  for (uint32_t i = 0; letters[i]; i++) {
    GmHigher *h = g->highers->pdata[i];
    g_autofree char *name = g_strdup (h->host->name);
    gm_host_function_unref (h->host);
    h->host = functions[i] ? gm_host_function_new (name, functions[i], (void *) (letters + i), NULL)
                           : NULL;
  }
  return g;
}

/* -- Running ----------------------------------------------------------------------------------- */

typedef struct {
  GmArena *arena;
  GmGraph *functional;
  GmLayers layers;
  GmJoint joint;
  GmParts parts;
} Exec;

static bool
exec_run (void *data, int role, GmTensor *const *in, int n_in, GmTensor *const *out, int n_out,
          GError **error)
{
  Exec *e = data;
  GmTensor *made[MAX] = { NULL };
  bool ok = gm_graph_interpret (role ? e->parts.backward : e->parts.forward, in, made, error);

  for (int i = 0; i < n_out; i++) {
    if (ok) {
      gm_tensor_share_companion (out[i], made[i]);
      ok = gm_op_run_into (GM_OP_copy, &made[i], 1, NULL, out[i], error);
    }
    gm_tensor_unref (made[i]);
  }
  return ok;
}

static void
exec_unref (void *data)
{
  Exec *e = data;

  gm_graph_free (e->parts.forward);
  gm_graph_free (e->parts.backward);
  gm_graph_free (e->joint.graph);
  gm_graph_free (e->functional);
  gm_arena_free (e->arena);
  g_free (e);
}

static GmPlan *
compile (const GmGraph *g, const GmPartitionOptions *options, Exec **exec)
{
  g_autoptr (GError) error = NULL;
  Exec *e = *exec = g_new0 (Exec, 1);

  e->arena = gm_arena_new ();
  e->functional = gm_layers_apply (g, true, e->arena, &e->layers, &error);
  ck_assert_msg (e->functional != NULL, "%s", error ? error->message : "");
  ck_assert (gm_join (e->functional, e->arena, &e->joint, &error));
  ck_assert (gm_partition (&e->joint, &e->layers.functional, options, e->arena, &e->parts, &error));
  assert_verifies (e->joint.graph);
  assert_verifies (e->parts.forward);
  if (e->parts.backward)
    assert_verifies (e->parts.backward);
  return gm_plan_new (&(GmPlanSpec){ &e->layers,
                                     &e->joint,
                                     &e->parts,
                                     { 0 },
                                     { e, exec_run, exec_unref, NULL },
                                     .graph = e->functional });
}

static GmTensor *
leaf (uint32_t seed)
{
  GmMeta m = gm_meta_make (GM_F32, 1, (const int64_t[]){ 4 });
  GmTensor *t = filled (&m, seed);

  gm_tensor_set_requires_grad (t, true, NULL);
  return t;
}

static void
assert_equal (const GmTensor *a, const GmTensor *b)
{
  ck_assert (gm_meta_same_shape (&a->meta, &b->meta));
  ck_assert_mem_eq (gm_tensor_data (a), gm_tensor_data (b), a->storage->bytes);
}

static GmTensor *
op (GmOp what, GmTensor *a, GmTensor *b)
{
  GmTensor *in[2] = { a, b };
  g_autoptr (GError) error = NULL;
  GmTensor *t = gm_autograd_op (what, in, b ? 2 : 1, NULL, &error);

  ck_assert_msg (t != NULL, "%s", error ? error->message : "");
  return t;
}

static GmTensor *
gradient (GmTensor *root, GmTensor *of, GmTensor *tangent, bool retain)
{
  g_autoptr (GError) error = NULL;
  GmTensor *grad = NULL;

  ck_assert_msg (gm_autograd_grad (&root, &tangent, 1, &of, 1, retain, false, false, &grad, &error),
                 "%s", error ? error->message : "");
  return grad;
}

static const GmPartitionOptions all_options[] = { { GM_PARTITION_DEFAULT, 1 },
                                                  { GM_PARTITION_DEFAULT, 0 },
                                                  { GM_PARTITION_MIN_CUT, 1 },
                                                  { GM_PARTITION_MIN_CUT, 0 } };

/* -- Calls ------------------------------------------------------------------------------------- */

#define ONE_CALL                                                                                   \
  "graph (%x: f32[4] requires_grad) -> (%4) {\n"                                                   \
  "  higher 0 = host_call \"square\" ticket flows=1 many=1 -> (f32[4] requires_grad, i64[1])\n"    \
  "  %0 = sin %x : f32[4]\n"                                                                       \
  "  %1 = host_call %0 dim=0 offset=0 : f32[4]\n"                                                  \
  "  %2 = host_call %0 dim=1 offset=0 : i64[1]\n"                                                  \
  "  %3 = mul %1 %0 : f32[4]\n"                                                                    \
  "  %4 = exp %3 : f32[4]\n"                                                                       \
  "}\n"

START_TEST (gradient_is_that_of_plain_eager_and_nothing_runs_twice)
{
  g_autoptr (GmGraph) g = graph_with (ONE_CALL, (const Function[]){ square }, "s");

  for (size_t k = 0; k < G_N_ELEMENTS (all_options); k++) {
    Exec *e;
    GmPlan *p = compile (g, &all_options[k], &e);
    g_autoptr (GmTensor) x = leaf (1), tangent = leaf (2);
    g_autoptr (GError) error = NULL;
    GmTensor *y = NULL;
    g_string_truncate (ran, 0);
    ck_assert_msg (gm_plan_run (p, &x, 1, &y, &error), "%s", error ? error->message : "");
    ck_assert_str_eq (ran->str, "s");
    g_autoptr (GmTensor) sin = op (GM_OP_sin, x, NULL), sq = op (GM_OP_mul, sin, sin),
                         prod = op (GM_OP_mul, sq, sin), want = op (GM_OP_exp, prod, NULL);
    assert_equal (y, want);
    gm_tensor_set_requires_grad (tangent, false, NULL);
    for (int again = 0; again < 2; again++) {
      g_autoptr (GmTensor) a = gradient (y, x, tangent, true),
                           b = gradient (want, x, tangent, true);
      assert_equal (a, b);
    }
    ck_assert_str_eq (ran->str, "s");
    gm_tensor_unref (y);
    gm_plan_unref (p);
  }
}
END_TEST

START_TEST (calls_are_neither_dropped_nor_merged)
{
  g_autoptr (GmGraph) g = graph_with ("graph (%x: f32[4]) -> (%3) {\n"
                                      "  higher 0 = host_call \"a\" -> (f32[4])\n"
                                      "  higher 1 = host_call \"b\" -> (f32[4])\n"
                                      "  %0 = host_call %x dim=0 offset=0 : f32[4]\n"
                                      "  %1 = host_call %x dim=0 offset=1 : f32[4]\n"
                                      "  %2 = sin %x : f32[4]\n"
                                      "  %3 = exp %x : f32[4]\n"
                                      "}\n",
                                      (const Function[]){ square, square }, "ab");
  g_autoptr (GmGraph) s =
      gm_graph_simplify (g, GM_SIMPLIFY_DEAD | GM_SIMPLIFY_FOLD | GM_SIMPLIFY_CSE, NULL);
  g_autoptr (GmTensor) x = leaf (1);
  GmTensor *out = NULL;

  ck_assert_uint_eq (s->nodes->len, 3);
  g_string_truncate (ran, 0);
  ck_assert (gm_graph_interpret (s, &x, &out, NULL));
  ck_assert_str_eq (ran->str, "ab");
  gm_tensor_unref (out);
}
END_TEST

/* -- What a call may give ---------------------------------------------------------------------- */

static void
assert_fails (Function f, const char *says)
{
  g_autoptr (GmGraph) g = graph_with ("graph (%x: f32[4]) -> (%0) {\n"
                                      "  higher 0 = host_call \"odd one\" -> (f32[4])\n"
                                      "  %0 = host_call %x dim=0 offset=0 : f32[4]\n"
                                      "}\n",
                                      (const Function[]){ f }, "o");
  g_autoptr (GmTensor) x = leaf (1);
  g_autoptr (GError) error = NULL;
  GmTensor *out = NULL;

  ck_assert (!gm_graph_interpret (g, &x, &out, &error));
  ck_assert_msg (strstr (error->message, says) != NULL, "%s", error->message);
}

START_TEST (results_are_compared_with_what_was_stated)
{
  assert_fails (give_longer, "odd one: result 0 is f32[9], but it was f32[4]");
  assert_fails (give_back, "odd one: result 0 lies in the memory of an argument");
  assert_fails (give_up, "not today");
  assert_fails (NULL, "is not there");
}
END_TEST

START_TEST (text_is_read_back)
{
  g_autoptr (GmGraph) g = graph_of (ONE_CALL), again = NULL;
  g_autofree char *text = gm_graph_text (g), *second = NULL;

  ck_assert_msg (
      strstr (
          text,
          "higher 0 = host_call \"square\" ticket flows=1 many=1 -> (f32[4] requires_grad, i64[1])")
          != NULL,
      "%s", text);
  again = graph_of (text);
  second = gm_graph_text (again);
  ck_assert_str_eq (text, second);
}
END_TEST

START_TEST (hash_tells_functions_apart)
{
  g_autoptr (GmGraph) a = graph_with (ONE_CALL, (const Function[]){ square }, "s"),
                      b = graph_with (ONE_CALL, (const Function[]){ square }, "s");
  GmHostFunction *fa = ((GmHigher *) a->highers->pdata[0])->host,
                 *fb = ((GmHigher *) b->highers->pdata[0])->host;

  ck_assert_uint_ne (gm_graph_hash (a), gm_graph_hash (b));
  fa->key = fb->key = 7;
  ck_assert_uint_eq (gm_graph_hash (a), gm_graph_hash (b));
}
END_TEST

/* -- Hooks: HOOK-23 ---------------------------------------------------------------------------- */

#define HOOKED                                                                                     \
  "graph (%x: f32[4] requires_grad) -> (%6) {\n"                                                   \
  "  higher 0 = gradient_hook \"note\"\n"                                                          \
  "  higher 1 = gradient_hook \"triple\"\n"                                                        \
  "  higher 2 = gradient_hook \"gone\"\n"                                                          \
  "  higher 3 = gradient_hook \"off\"\n"                                                           \
  "  %0 = sin %x : f32[4]\n"                                                                       \
  "  %1 = exp %0 : f32[4]\n"                                                                       \
  "  %2 = gradient_hook %0 dim=0 offset=0 : bool[0]\n"                                             \
  "  %3 = gradient_hook %0 dim=0 offset=1 : bool[0]\n"                                             \
  "  %4 = gradient_hook %1 dim=0 offset=2 : bool[0]\n"                                             \
  "  %5 = gradient_hook %4 dim=0 offset=3 : bool[0]\n"                                             \
  "  %6 = mul %1 %0 : f32[4]\n"                                                                    \
  "}\n"

START_TEST (hooks_see_the_whole_gradient_in_their_order)
{
  g_autoptr (GmGraph) g =
      graph_with (HOOKED, (const Function[]){ only_note, triple, only_note, NULL }, "nt!-");

  for (size_t k = 0; k < G_N_ELEMENTS (all_options); k++) {
    Exec *e;
    GmPlan *p = compile (g, &all_options[k], &e);
    g_autoptr (GmTensor) x = leaf (1), tangent = leaf (2);
    GmTensor *y = NULL;
    gm_tensor_set_requires_grad (tangent, false, NULL);
    ck_assert (gm_plan_run (p, &x, 1, &y, NULL));
    g_autoptr (GmTensor) sin = op (GM_OP_sin, x, NULL), exp = op (GM_OP_exp, sin, NULL),
                         want = op (GM_OP_mul, exp, sin);
    gm_gradient_hook_register (g->highers->pdata[0], sin);
    gm_gradient_hook_register (g->highers->pdata[1], sin);
    g_string_truncate (ran, 0);
    g_autoptr (GmTensor) b = gradient (want, x, tangent, true);
    ck_assert_str_eq (ran->str, "nt");
    g_string_truncate (ran, 0);
    g_autoptr (GmTensor) a = gradient (y, x, tangent, true);
    ck_assert_str_eq (ran->str, "nt");
    assert_equal (a, b);
    ck_assert (gm_gradient_hooks_any (e->functional));
    gm_tensor_unref (y);
    gm_plan_unref (p);
  }
}
END_TEST

START_TEST (hook_23_the_backward_has_one_node_around_each_hook)
{
  g_autoptr (GmGraph) g =
      graph_with (HOOKED, (const Function[]){ only_note, triple, only_note, NULL }, "nt!-");
  Exec *e;
  GmPlan *p = compile (g, &all_options[0], &e);
  uint32_t n_forward = 0, n_backward = 0;

  for (uint32_t i = 0; i < e->parts.forward->nodes->len; i++)
    n_forward += gm_op_is_higher (gm_graph_node (e->parts.forward, i)->op);
  for (uint32_t i = 0; i < e->parts.backward->nodes->len; i++)
    n_backward += gm_graph_node (e->parts.backward, i)->op == GM_OP_host_call;
  ck_assert_uint_eq (n_forward, 0);
  ck_assert_uint_eq (n_backward, 2);
  gm_plan_unref (p);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("host calls");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  ran = g_string_new (NULL);
  tcase_add_test (t, gradient_is_that_of_plain_eager_and_nothing_runs_twice);
  tcase_add_test (t, calls_are_neither_dropped_nor_merged);
  tcase_add_test (t, results_are_compared_with_what_was_stated);
  tcase_add_test (t, text_is_read_back);
  tcase_add_test (t, hash_tells_functions_apart);
  tcase_add_test (t, hooks_see_the_whole_gradient_in_their_order);
  tcase_add_test (t, hook_23_the_backward_has_one_node_around_each_hook);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  g_string_free (ran, TRUE);
  return failures ? 1 : 0;
}
