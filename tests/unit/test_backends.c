/* SPDX-License-Identifier: Apache-2.0
 * test_backends.c -- every installed back end against the reference, to the bit, on random graphs.
 *
 * GM_FUZZ_GRAPHS sets the number of graphs per back end and kind (default 400), GM_FUZZ_SEED the
 * first seed: a failure prints the seed, the graph and the first element that differs.
 */
#include "core/base/log.h"
#include "core/run/backend.h"
#include "core/plugin/registry.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/random_graph.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *backends[] = { "eager", "tcc", "cc" };

static void
fail_with (const char *backend, uint64_t seed, const GmGraph *g, const char *what)
{
  g_autofree char *text = gm_graph_text (g);
  ck_abort_msg ("back end %s, seed %" G_GUINT64_FORMAT ": %s\n%s", backend, seed, what, text);
}

/* Compares layouts.  An output is memory of its own: one that repeats or skips elements becomes a
 * copy, as the layers above do. */
static bool
same_layout (const GmMeta *a, const GmMeta *b)
{
  return a->dtype == b->dtype && gm_meta_same_shape (a, b)
         && memcmp (a->strides, b->strides, sizeof *a->strides * a->ndim) == 0;
}

static uint64_t n_lent; /* number of pairs, in all graphs */

/* Returns output i in the memory of an input that the back end permits and that is not used by
 * another output; NULL if there is none. */
static GmTensor *
lent_memory (GmExec *e, GmTensor *const *in, uint32_t n_in, bool *lent, uint32_t i,
             const GmMeta *want)
{
  for (uint32_t k = 0; k < n_in; k++)
    if (!lent[k] && !in[k]->offset && same_layout (&in[k]->meta, want) && gm_meta_numel (want) > 1
        && gm_exec_may_share (e, 0, k, i)) {
      lent[k] = true;
      n_lent++;
      return gm_tensor_new_alias (in[k]);
    }
  return NULL;
}

/* Runs a graph with the reference, then with the back end twice (the second run finds a used
 * workspace), then with outputs in the memory of inputs. */
static void
compare_one (const char *name, const GmRandomGraph *options, GmRandomNumbers numbers)
{
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GmGraph) g = gm_random_graph (options, arena);
  gm_fuzz_make_outputs_dense (g);
  uint32_t n_in = g->inputs->len, n_out = g->outputs->len;
  GmTensor **in = g_new0 (GmTensor *, n_in + 1), **want = g_new0 (GmTensor *, n_out + 1),
           **got = g_new0 (GmTensor *, n_out + 1);
  GError *error = NULL;
  gm_random_inputs (g, options->seed, numbers, in);
  if (!gm_graph_interpret (g, in, want, &error))
    fail_with (name, options->seed, g, error->message);
  for (uint32_t i = 0; i < n_out;
       i++) { /* views of inputs would change with these, when they are lent */
    GmTensor *copy = gm_op_run (GM_OP_copy, &want[i], 1, NULL, &error);
    gm_tensor_unref (want[i]);
    want[i] = copy;
  }
  GmBackend *b = gm_backend_get (name, &error);
  ck_assert_msg (b != NULL, "%s", error ? error->message : "");
  GmExec *e = gm_backend_compile (b, g, NULL, NULL, &error);
  if (!e)
    fail_with (name, options->seed, g, error->message);
  if (gm_exec_fallback_reason (e))
    fail_with (name, options->seed, g, gm_exec_fallback_reason (e));
  g_autofree bool *lent = g_new0 (bool, n_in + 1);
  for (int round = 0; round < 3; round++) {
    for (uint32_t i = 0; i < n_out; i++) {
      const GmMeta *m = gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value);
      gm_tensor_unref (got[i]);
      got[i] = round == 2 ? lent_memory (e, in, n_in, lent, i, m) : NULL;
      if (got[i])
        continue;
      got[i] = gm_tensor_new (m, &error);
      if (got[i]->storage->bytes)
        memset (got[i]->storage->data, 0xa5, got[i]->storage->bytes);
    }
    if (!gm_exec_run (e, 0, in, (int) n_in, got, (int) n_out, &error))
      fail_with (name, options->seed, g, error->message);
    for (uint32_t i = 0; i < n_out; i++) {
      g_autofree char *why = NULL;
      if (!gm_random_equal (want[i], got[i], false, &why)) {
        g_autofree char *text = g_strdup_printf ("output %u differs in run %d: %s", i, round, why);
        fail_with (name, options->seed, g, text);
      }
    }
  }
  gm_exec_unref (e);
  for (uint32_t i = 0; i < n_in; i++)
    gm_tensor_unref (in[i]);
  for (uint32_t i = 0; i < n_out; i++) {
    gm_tensor_unref (want[i]);
    gm_tensor_unref (got[i]);
  }
  g_free (in);
  g_free (want);
  g_free (got);
}

static void
compare_many (const char *name, GmRandomGraph options, GmRandomNumbers numbers)
{
  uint64_t n = gm_fuzz_number ("GM_FUZZ_GRAPHS", 400), first = gm_fuzz_number ("GM_FUZZ_SEED", 1);
  if (strcmp (name, "tcc") == 0)
    n *= 42; /* 50,000 with the default */
  if (strcmp (name, "cc") == 0)
    n = (n + 19) / 20; /* each needs a compiler; test_codegen.c has many in one unit */
  if (!gm_fuzz_has_backend (name))
    return;
  for (uint64_t seed = first; seed < first + n; seed++) {
    options.seed = seed;
    compare_one (name, &options, numbers);
  }
  ck_assert_msg (n < 100 || n_lent > n / 20,
                 "only %" G_GUINT64_FORMAT " outputs could lie where inputs do", n_lent);
}

START_TEST (every_family_gives_the_reference_bits)
{
  compare_many (backends[_i], (GmRandomGraph){ .strided = true, .defined_only = true },
                GM_RANDOM_WILD);
}
END_TEST

START_TEST (pointwise_chains_and_reductions_give_the_reference_bits)
{
  compare_many (backends[_i],
                (GmRandomGraph){ .strided = true,
                                 .defined_only = true,
                                 .families = 1u << GM_FAMILY_POINTWISE | 1u << GM_FAMILY_REDUCE
                                             | 1u << GM_FAMILY_CAST | 1u << GM_FAMILY_MOVEMENT
                                             | 1u << GM_FAMILY_CREATE },
                GM_RANDOM_WILD);
}
END_TEST

/* Mostly values that are rounded after each op, or wrap early. */
START_TEST (small_dtypes_give_the_reference_bits)
{
  uint32_t small =
      1u << GM_F16 | 1u << GM_BF16 | 1u << GM_I8 | 1u << GM_I16 | 1u << GM_F8E4M3 | 1u << GM_F8E5M2;
  compare_many (backends[_i],
                (GmRandomGraph){ .strided = true, .defined_only = true, .dtypes = small },
                GM_RANDOM_WILD);
}
END_TEST

/* Rows longer than a tile, in one and in several dimensions: written out, since random shapes are
 * small. */
static const char *const long_rows[] = {
  "forward (%x: f32[3, 1300]) -> (%5, %1) {\n"
  "  %0 = amax %x dims=[1] keepdim=true : f32[3, 1]\n"
  "  %1 = sub %x %0 : f32[3, 1300]\n"
  "  %2 = exp %1 : f32[3, 1300]\n"
  "  %3 = sum %2 dims=[1] keepdim=true : f32[3, 1]\n"
  "  %4 = log %3 : f32[3, 1]\n"
  "  %5 = sub %1 %4 : f32[3, 1300]\n"
  "}\n",
  "forward (%x: f32[5, 512]) -> (%5) {\n"
  "  %0 = amax %x dims=[1] keepdim=true : f32[5, 1]\n"
  "  %1 = sub %x %0 : f32[5, 512]\n"
  "  %2 = exp %1 : f32[5, 512]\n"
  "  %3 = sum %2 dims=[1] keepdim=true : f32[5, 1]\n"
  "  %4 = log %3 : f32[5, 1]\n"
  "  %5 = sub %1 %4 : f32[5, 512]\n"
  "}\n",
  /* Members at each point lie in the output's memory until the output is written; rows in pairs. */
  "forward (%x: f32[3, 1300], %w: f32[1300]) -> (%7) {\n"
  "  %0 = amax %x dims=[1] keepdim=true : f32[3, 1]\n"
  "  %1 = sub %x %0 : f32[3, 1300]\n"
  "  %2 = exp %1 : f32[3, 1300]\n"
  "  %3 = sum %2 dims=[1] keepdim=true : f32[3, 1]\n"
  "  %4 = reciprocal %3 : f32[3, 1]\n"
  "  %5 = mul %2 %4 : f32[3, 1300]\n"
  "  %6 = add %w %5 : f32[3, 1300]\n"
  "  %7 = relu %6 : f32[3, 1300]\n"
  "}\n",
  "forward (%x: f32[3000], %y: f32[3000]) -> (%5) {\n"
  "  %0 = mul %x %y : f32[3000]\n"
  "  %1 = sub %y %0 : f32[3000]\n"
  "  %2 = relu %1 : f32[3000]\n"
  "  %3 = div %x %2 : f32[3000]\n"
  "  %4 = square %3 : f32[3000]\n"
  "  %5 = sub %4 %4 : f32[3000]\n"
  "}\n",
  "forward (%x: f32[1100, 70], %w: f32[70]) -> (%1, %2, %3) {\n"
  "  %0 = mul %x %w : f32[1100, 70]\n"
  "  %1 = sum %0 dims=[0] keepdim=false : f32[70]\n"
  "  %2 = sum %0 dims=[0, 1] keepdim=false : f32[]\n"
  "  %3 = sum %0 dims=[1] keepdim=false : f32[1100]\n"
  "}\n",
  "forward (%x: f16[3, 1300]) -> (%6, %1, %3) {\n"
  "  %0 = amax %x dims=[1] keepdim=true : f16[3, 1]\n"
  "  %1 = sub %x %0 : f16[3, 1300]\n"
  "  %2 = exp %1 : f16[3, 1300]\n"
  "  %3 = sum %2 dims=[1] keepdim=true : f16[3, 1]\n"
  "  %4 = log %3 : f16[3, 1]\n"
  "  %5 = sub %1 %4 : f16[3, 1300]\n"
  "  %6 = tanh %5 : f16[3, 1300]\n"
  "}\n",
  "forward (%x: bf16[5, 512]) -> (%3) {\n"
  "  %0 = exp %x : bf16[5, 512]\n"
  "  %1 = sum %0 dims=[1] keepdim=true : bf16[5, 1]\n"
  "  %2 = log %1 : bf16[5, 1]\n"
  "  %3 = sub %x %2 : bf16[5, 512]\n"
  "}\n",
  "forward (%x: bf16[1100, 700], %w: bf16[700]) -> (%1, %2, %3) {\n"
  "  %0 = mul %x %w : bf16[1100, 700]\n"
  "  %1 = sum %0 dims=[0] keepdim=false : bf16[700]\n"
  "  %2 = sum %0 dims=[0, 1] keepdim=false : bf16[]\n"
  "  %3 = sum %0 dims=[1] keepdim=false : bf16[1100]\n"
  "}\n",
  "forward (%x: i16[40, 600], %y: i8[40, 600]) -> (%2, %3, %4) {\n"
  "  %0 = cast %y dtype=i16 : i16[40, 600]\n"
  "  %1 = mul %x %0 : i16[40, 600]\n"
  "  %2 = sum %1 dims=[1] keepdim=false : i16[40]\n"
  "  %3 = prod %y dims=[1] keepdim=false : i8[40]\n"
  "  %4 = amax %1 dims=[0] keepdim=false : i16[600]\n"
  "}\n",
  "forward (%x: f64[2, 30, 40]) -> (%3, %2) {\n"
  "  %0 = tanh %x : f64[2, 30, 40]\n"
  "  %1 = square %0 : f64[2, 30, 40]\n"
  "  %2 = sum %1 dims=[1, 2] keepdim=false : f64[2]\n"
  "  %3 = sqrt %2 : f64[2]\n"
  "}\n",
};

static void
compare_text (const char *name, const char *text)
{
  GError *error = NULL;
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, &error);
  ck_assert_msg (graphs != NULL, "%s", error ? error->message : "");
  GmGraph *g = graphs->pdata[0];
  GmTensor *in[4], *want[4], *got[4];
  gm_random_inputs (g, 7, GM_RANDOM_TAME, in);
  ck_assert (gm_graph_interpret (g, in, want, &error));
  GmExec *e = gm_backend_compile (gm_backend_get (name, NULL), g, NULL, NULL, &error);
  ck_assert_msg (e != NULL, "%s", error ? error->message : "");
  for (uint32_t i = 0; i < g->outputs->len; i++)
    got[i] =
        gm_tensor_new (gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value), NULL);
  ck_assert (gm_exec_run (e, 0, in, (int) g->inputs->len, got, (int) g->outputs->len, &error));
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    g_autofree char *why = NULL;
    ck_assert_msg (gm_random_equal (want[i], got[i], true, &why), "%s, output %u: %s\n%s", name, i,
                   why, text);
    gm_tensor_unref (want[i]);
    gm_tensor_unref (got[i]);
  }
  for (uint32_t i = 0; i < g->inputs->len; i++)
    gm_tensor_unref (in[i]);
  gm_exec_unref (e);
}

START_TEST (rows_longer_than_a_tile_give_the_reference_bits)
{
  if (!gm_fuzz_has_backend (backends[_i]))
    return;
  for (size_t i = 0; i < G_N_ELEMENTS (long_rows); i++)
    compare_text (backends[_i], long_rows[i]);
}
END_TEST

/* A result may use the place of an operand that is not read any more, if that is read element by
 * element. */
START_TEST (eager_writes_over_what_it_has_read)
{
  static const struct {
    const char *text;
    uint64_t places; /* number of places of 4096 bytes */
  } cases[] = {
    { "f (%x: f32[32, 32]) -> (%4) { \n %0 = sin %x \n %1 = tanh %0 \n %2 = mul %1 %x \n %3 = exp "
      "%2 \n "
      "%4 = neg %3 \n }",
      1 },
    { "f (%x: f32[32, 32]) -> (%3) { \n %0 = sin %x \n %1 = tanh %0 \n %2 = mul %1 %0 \n %3 = neg "
      "%2 \n }",
      2 },
    /* read twice, once across: not over it */
    { "f (%x: f32[32, 32]) -> (%3) { \n %0 = sin %x \n %1 = permute %0 dims=[1, 0] \n %2 = add %0 "
      "%1 \n "
      "%3 = neg %2 \n }",
      2 },
    /* not element by element */
    { "f (%x: f32[32, 32]) -> (%2) { \n %0 = sin %x \n %1 = matmul %0 %0 \n %2 = neg %1 \n }", 2 },
    { "f (%x: f32[32, 32]) -> (%2) { \n %0 = sin %x \n %1 = cumsum %0 dim=0 reverse=false \n %2 = "
      "neg %1 \n }",
      2 },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (GPtrArray) graphs = gm_graph_parse (cases[i].text, &error);
    ck_assert_msg (graphs != NULL, "%s", error ? error->message : "");
    GmBackend *b = gm_backend_get ("eager", NULL);
    ck_assert_ptr_nonnull (b);
    g_autoptr (GmExec) e = gm_backend_compile (b, graphs->pdata[0], NULL, NULL, NULL);
    ck_assert_msg (gm_exec_workspace_bytes (e, 0) / 4096 == cases[i].places,
                   "%s\n%" G_GUINT64_FORMAT " bytes", cases[i].text,
                   gm_exec_workspace_bytes (e, 0));
    compare_text ("eager", cases[i].text);
  }
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("backends");
  TCase *t = tcase_create ("against the reference");
  tcase_set_timeout (t, 600);
  tcase_add_loop_test (t, every_family_gives_the_reference_bits, 0, G_N_ELEMENTS (backends));
  tcase_add_loop_test (t, pointwise_chains_and_reductions_give_the_reference_bits, 0,
                       G_N_ELEMENTS (backends));
  tcase_add_loop_test (t, small_dtypes_give_the_reference_bits, 0, G_N_ELEMENTS (backends));
  tcase_add_loop_test (t, rows_longer_than_a_tile_give_the_reference_bits, 0,
                       G_N_ELEMENTS (backends));
  tcase_add_test (t, eager_writes_over_what_it_has_read);
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
