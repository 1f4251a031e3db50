/* SPDX-License-Identifier: Apache-2.0
 * test_nvrtc.c -- the back end nvrtc on a simulated GPU (tests/gpu), against the reference.
 *
 * The generated text is the one for a GPU; kernels run on the CPU, in three orders of threads and
 * blocks. Where the arithmetic is the same, bits must be equal.  Sums of floats have another order:
 * graphs with them get whole numbers, whose sums are exact in any order, so their bits must be
 * equal, too; fixed forms (softmax, layer norm ...) are compared with a tolerance.
 *
 * GM_FUZZ_GPU sets the number of graphs of each kind (default 40), GM_FUZZ_SEED the first seed;
 * GM_FUZZ_FLOATS=16384 tests the functions that the prelude defines on all floats (default 8: every
 * 2048th).
 */
#include "core/ops/ops.h"
#include "core/run/backend.h"
#include "core/run/sized.h"
#include "core/sym/sizes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/random_graph.h"
#include "tests/fuzz/symbolic_graph.h"
#include "tests/gpu/forms.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const orders[] = { "up", "down", "mixed" };

static void
fail_with (uint64_t seed, const GmGraph *g, const char *what)
{
  g_autofree char *text = gm_graph_text (g);
  ck_abort_msg ("seed %" G_GUINT64_FORMAT ": %s\n%s", seed, what, text);
}

/* -- One graph --------------------------------------------------------------------------------- */

/* True if `got` is near `want`, element by element, within `tolerance` of the largest magnitude; 0:
 * the same bits. */
static bool
is_near (const GmTensor *want, const GmTensor *got, double tolerance, char **why)
{
  const GmMeta *m = &want->meta;
  if (tolerance == 0)
    return gm_random_equal (want, got, false, why);
  int64_t index[GM_MAX_DIMS] = { 0 };
  double largest = 1;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t i = 0, n = gm_meta_numel (m); i < n; i++) {
      GmScalar a = gm_tensor_get (want, index), b = gm_tensor_get (got, index);
      double x = gm_scalar_as_double (a), y = gm_scalar_as_double (b);
      if (pass == 0 && isfinite (x))
        largest = MAX (largest, fabs (x));
      else if (pass == 1
               && !(x == y || (x != x && y != y) || fabs (x - y) <= tolerance * largest)) {
        *why = g_strdup_printf (
            "element %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT ": %.9g and %.9g", i, n, x, y);
        return false;
      }
      for (int d = m->ndim - 1; d >= 0 && ++index[d] == m->sizes[d]; d--)
        index[d] = 0;
    }
  return true;
}

static void
compare (const GmGraph *g, uint64_t seed, GmTensor **in, double tolerance)
{
  uint32_t n_in = g->inputs->len, n_out = g->outputs->len;
  g_autofree GmTensor **want = g_new0 (GmTensor *, n_out + 1);
  GError *error = NULL;
  if (!gm_graph_interpret (g, in, want, &error))
    fail_with (seed, g, error->message);
  GmBackend *b = gm_backend_get ("nvrtc", &error);
  ck_assert_msg (b != NULL, "%s", error ? error->message : "");
  g_autoptr (GmExec) e = gm_backend_compile (b, g, NULL, NULL, &error);
  if (!e)
    fail_with (seed, g, error->message);
  if (gm_exec_fallback_reason (e))
    fail_with (seed, g, gm_exec_fallback_reason (e));
  for (size_t order = 0; order < G_N_ELEMENTS (orders); order++) {
    g_setenv ("GM_SIM_ORDER", orders[order], TRUE);
    g_autofree GmTensor **got = g_new0 (GmTensor *, n_out + 1);
    for (uint32_t i = 0; i < n_out; i++) {
      got[i] = gm_tensor_new (gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value),
                              NULL);
      if (got[i]->storage->bytes)
        memset (got[i]->storage->data, 0xa5, got[i]->storage->bytes);
    }
    if (!gm_exec_run (e, 0, in, (int) n_in, got, (int) n_out, &error))
      fail_with (seed, g, error->message);
    for (uint32_t i = 0; i < n_out; i++) {
      g_autofree char *why = NULL;
      if (!is_near (want[i], got[i], tolerance, &why)) {
        g_autofree char *text =
            g_strdup_printf ("output %u, threads %s: %s", i, orders[order], why);
        fail_with (seed, g, text);
      }
      gm_tensor_unref (got[i]);
    }
  }
  for (uint32_t i = 0; i < n_out; i++)
    gm_tensor_unref (want[i]);
}

static void
free_inputs (const GmGraph *g, GmTensor **in)
{
  for (uint32_t i = 0; i < g->inputs->len; i++)
    gm_tensor_unref (in[i]);
}

/* -- Graphs without sums of floats ------------------------------------------------------------- */

static bool
adds_floats (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if ((n->op == GM_OP_sum || n->op == GM_OP_prod || n->op == GM_OP_matmul)
        && gm_dtype_is_float (gm_graph_meta (g, n->out)->dtype))
      return true;
  }
  return false;
}

static void
compare_many (GmRandomGraph options)
{
  uint64_t n = gm_fuzz_number ("GM_FUZZ_GPU", 40), seed = gm_fuzz_number ("GM_FUZZ_SEED", 1);
  for (uint64_t done = 0; done < n; seed++) {
    g_autoptr (GmArena) arena = gm_arena_new ();
    options.seed = seed;
    g_autoptr (GmGraph) g = gm_random_graph (&options, arena);
    if (adds_floats (g))
      continue;
    gm_fuzz_make_outputs_dense (g);
    g_autofree GmTensor **in = g_new0 (GmTensor *, g->inputs->len + 1);
    gm_random_inputs (g, seed, GM_RANDOM_WILD, in);
    compare (g, seed, in, 0);
    free_inputs (g, in);
    done++;
  }
}

START_TEST (kernels_of_every_family_give_the_reference_bits)
{
  compare_many ((GmRandomGraph){ .strided = true, .defined_only = true });
}
END_TEST

START_TEST (fused_kernels_give_the_reference_bits)
{
  compare_many ((GmRandomGraph){ .strided = true,
                                 .defined_only = true,
                                 .wide = true,
                                 .families = 1u << GM_FAMILY_POINTWISE | 1u << GM_FAMILY_REDUCE
                                             | 1u << GM_FAMILY_CAST | 1u << GM_FAMILY_MOVEMENT
                                             | 1u << GM_FAMILY_CREATE });
}
END_TEST

START_TEST (kernels_of_small_dtypes_give_the_reference_bits)
{
  compare_many ((GmRandomGraph){ .strided = true,
                                 .dtypes = 1u << GM_F16 | 1u << GM_BF16 | 1u << GM_I8 | 1u << GM_I16
                                           | 1u << GM_F8E4M3 | 1u << GM_F8E5M2 | 1u << GM_U8 });
}
END_TEST

/* -- Whole numbers ----------------------------------------------------------------------------- */

/* True if all ops' results are whole numbers if their operands are. */
static bool
stays_whole (const GmGraph *g)
{
  bool sums = false;
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    switch (n->op) {
    case GM_OP_sum:
    case GM_OP_matmul:
      sums = sums || gm_dtype_is_float (gm_graph_meta (g, n->out)->dtype);
      break;
    case GM_OP_add:
    case GM_OP_sub:
    case GM_OP_mul:
    case GM_OP_neg:
    case GM_OP_abs:
    case GM_OP_sign:
    case GM_OP_square:
    case GM_OP_maximum:
    case GM_OP_minimum:
    case GM_OP_relu:
    case GM_OP_where:
    case GM_OP_copy:
    case GM_OP_eq:
    case GM_OP_ne:
    case GM_OP_lt:
    case GM_OP_le:
    case GM_OP_gt:
    case GM_OP_ge:
    case GM_OP_logical_and:
    case GM_OP_logical_or:
    case GM_OP_logical_not:
    case GM_OP_amax:
    case GM_OP_amin:
    case GM_OP_any:
    case GM_OP_all:
    case GM_OP_cast:
    case GM_OP_cumsum:
    case GM_OP_scatter_add:
    case GM_OP_gather:
    case GM_OP_index_select:
    case GM_OP_cat:
    case GM_OP_index_add:
    case GM_OP_constant:
      break;
    default:
      if (gm_ops[n->op].family != GM_FAMILY_MOVEMENT)
        return false;
    }
  }
  return sums;
}

/* Rounds floats and keeps them small; false: a result of the reference is too large to be exact. */
static void
make_whole (GmTensor *t)
{
  if (!gm_dtype_is_float (t->meta.dtype))
    return;
  int64_t index[GM_MAX_DIMS] = { 0 };
  for (int64_t i = 0, n = gm_meta_numel (&t->meta); i < n; i++) {
    double x = gm_scalar_as_double (gm_tensor_get (t, index));
    int64_t at = t->offset;
    for (int d = 0; d < t->meta.ndim; d++)
      at += index[d] * t->meta.strides[d];
    gm_scalar_store (gm_scalar_float (trunc (x)), (GmDtype) t->meta.dtype,
                     (char *) t->storage->data + at * (int64_t) gm_dtype_size (t->meta.dtype));
    for (int d = t->meta.ndim - 1; d >= 0 && ++index[d] == t->meta.sizes[d]; d--)
      index[d] = 0;
  }
}

/* True if no value of the reference exceeds the bounds beyond which a float has gaps. */
static bool
is_exact (const GmGraph *g, GmTensor **in)
{
  g_autofree GmTensor **all = g_new0 (GmTensor *, g->nodes->len + 1);
  GmGraph every = *g;
  bool good = true;
  every.outputs = g_array_new (FALSE, FALSE, sizeof (GmGraphOutput));
  for (uint32_t i = 0; i < g->nodes->len; i++)
    g_array_append_val (every.outputs, ((GmGraphOutput){ .value = gm_graph_node (g, i)->out }));
  good = gm_graph_interpret (&every, in, all, NULL);
  for (uint32_t k = 0; k < g->nodes->len; k++) {
    GmTensor *t = all[k];
    if (!t)
      continue;
    double most = t->meta.dtype == GM_F64   ? 1e12
                  : t->meta.dtype == GM_F32 ? 1e6
                  : t->meta.dtype == GM_F16 ? 1000
                                            : 100;
    int64_t index[GM_MAX_DIMS] = { 0 };
    for (int64_t i = 0, n = gm_dtype_is_float (t->meta.dtype) ? gm_meta_numel (&t->meta) : 0; i < n;
         i++) {
      double x = gm_scalar_as_double (gm_tensor_get (t, index));
      good = good && fabs (x) <= most && x == trunc (x);
      for (int d = t->meta.ndim - 1; d >= 0 && ++index[d] == t->meta.sizes[d]; d--)
        index[d] = 0;
    }
    gm_tensor_unref (t);
  }
  g_array_unref (every.outputs);
  return good;
}

START_TEST (sums_of_whole_numbers_give_the_reference_bits)
{
  uint64_t n = gm_fuzz_number ("GM_FUZZ_GPU", 40), seed = gm_fuzz_number ("GM_FUZZ_SEED", 1);
  for (uint64_t done = 0; done < n; seed++) {
    g_autoptr (GmArena) arena = gm_arena_new ();
    GmRandomGraph options = {
      .seed = seed, .strided = true, .defined_only = true, .wide = seed % 2 != 0, .n_nodes = 5
    };
    options.families = 1u << GM_FAMILY_POINTWISE | 1u << GM_FAMILY_REDUCE | 1u << GM_FAMILY_MOVEMENT
                       | 1u << GM_FAMILY_CONTRACT;
    options.dtypes = 1u << GM_F32 | 1u << GM_F64 | 1u << GM_F16 | 1u << GM_I32;
    g_autoptr (GmGraph) g = gm_random_graph (&options, arena);
    if (!stays_whole (g))
      continue;
    gm_fuzz_make_outputs_dense (g);
    g_autofree GmTensor **in = g_new0 (GmTensor *, g->inputs->len + 1);
    gm_random_inputs (g, seed, GM_RANDOM_TAME, in);
    for (uint32_t i = 0; i < g->inputs->len; i++)
      make_whole (in[i]);
    if (is_exact (g, in)) {
      compare (g, seed, in, 0);
      done++;
    }
    free_inputs (g, in);
  }
}
END_TEST

/* -- Fixed forms ------------------------------------------------------------------------------- */

START_TEST (rows_of_every_length_are_near_the_reference)
{
  GError *error = NULL;
  g_autoptr (GPtrArray) graphs = gm_graph_parse (forms[_i].text, &error);
  ck_assert_msg (graphs != NULL, "%s", error ? error->message : "");
  GmGraph *g = graphs->pdata[0];
  g_autofree GmTensor **in = g_new0 (GmTensor *, g->inputs->len + 1);
  gm_random_inputs (g, 7, GM_RANDOM_TAME, in);
  compare (g, (uint64_t) _i, in, forms[_i].tolerance);
  free_inputs (g, in);
}
END_TEST

/* Rows with infinities and without numbers, and with exponentials that are subnormal. */
START_TEST (softmax_of_extremes_is_near_the_reference)
{
  GError *error = NULL;
  g_autoptr (GPtrArray) graphs = gm_graph_parse (SOFTMAX ("f32", "6", "512"), &error);
  ck_assert_msg (graphs != NULL, "%s", error ? error->message : "");
  GmGraph *g = graphs->pdata[0];
  GmTensor *x = gm_tensor_new (gm_graph_meta (g, g_array_index (g->inputs, GmValueId, 0)), NULL);
  float *rows = x->storage->data;
  for (int i = 0; i < 512; i++) {
    rows[i] = i % 3 ? (float) i / 100 : -INFINITY;
    rows[512 + i] = -INFINITY;
    rows[1024 + i] = i == 77 ? NAN : (float) i;
    rows[1536 + i] = i == 200 ? INFINITY : -(float) i;
    rows[2048 + i] = -(float) i / 2;
    rows[2560 + i] = i % 2 ? 0.0f : -0.0f;
  }
  compare (g, 0, &x, 1e-6);
  gm_tensor_unref (x);
}
END_TEST

/* -- Functions that the prelude writes out ----------------------------------------------------- */

#define FLOATS (1 << 18)

/* Arguments where the functions' formulas change: 16384 floats around each are tested. */
static const float turns[] = {
  0,       -0.0f,    0.55f,    -0.55f,    10, -10,  87,        -87,
  87.336f, -87.336f, 88.7228f, -88.7228f, 89, -104, -103.972f, INFINITY
};

/* Fills in set `which` of FLOATS floats each: set 0 has those around the turns, sets 1 to 16384 all
 * floats, far apart in each set. */
static void
fill_floats (uint32_t *bits, uint64_t which)
{
  uint32_t each = FLOATS / G_N_ELEMENTS (turns), offset = (uint32_t) (which * 1021 % 16384);
  for (uint32_t i = 0; i < FLOATS; i++) {
    uint32_t at;
    memcpy (&at, &turns[i / each], sizeof at);
    bits[i] = which ? i * 16384 + offset : at + i % each - each / 2;
  }
}

START_TEST (functions_of_floats_have_the_cpus_bits)
{
  static const char *const names[] = { "exp", "tanh", "sigmoid", "reciprocal" };
  GError *error = NULL;
  uint64_t n = gm_fuzz_number ("GM_FUZZ_FLOATS", 8);
  g_autoptr (GPtrArray) graphs =
      gm_graph_parse ("f (%x: f32[262144]) -> (%0, %1, %2, %3) {\n %0 = exp %x\n %1 = tanh %x\n"
                      " %2 = sigmoid %x\n %3 = reciprocal %x\n}",
                      &error);
  ck_assert_msg (graphs != NULL, "%s", error ? error->message : "");
  GmGraph *g = graphs->pdata[0];
  g_autoptr (GmExec) e =
      gm_backend_compile (gm_backend_get ("nvrtc", &error), g, NULL, NULL, &error);
  ck_assert_msg (e && !gm_exec_fallback_reason (e), "%s", error ? error->message : "");
  GmTensor *x, *want[4], *got[4];
  x = gm_tensor_new (gm_graph_meta (g, g_array_index (g->inputs, GmValueId, 0)), NULL);
  for (int k = 0; k < 4; k++)
    got[k] = gm_tensor_new (&x->meta, NULL);
  for (uint64_t which = 0; which <= n; which++) {
    fill_floats (x->storage->data, which);
    ck_assert (gm_graph_interpret (g, &x, want, &error));
    ck_assert_msg (gm_exec_run (e, 0, &x, 1, got, 4, &error), "%s", error ? error->message : "");
    for (int k = 0; k < 4; k++) {
      const float *in = x->storage->data, *a = want[k]->storage->data, *b = got[k]->storage->data;
      for (uint32_t i = 0; i < FLOATS; i++)
        if (memcmp (&a[i], &b[i], sizeof *a) && !(isnan (a[i]) && isnan (b[i])))
          ck_abort_msg ("%s (%a): %a is wanted, %a comes out", names[k], in[i], a[i], b[i]);
      gm_tensor_unref (want[k]);
    }
  }
  gm_tensor_unref (x);
  for (int k = 0; k < 4; k++)
    gm_tensor_unref (got[k]);
}
END_TEST

/* Checks that a graph with one input or two has the interpreter's bits, except for which NaN. */
static void
halves_are_equal (const GmGraph *g, GmExec *e, GmTensor *const *in, const char *what)
{
  GError *error = NULL;
  GmTensor *want[8] = { NULL }, *got[8] = { NULL };
  uint32_t n = g->outputs->len;
  ck_assert (gm_graph_interpret (g, in, want, &error));
  for (uint32_t k = 0; k < n; k++)
    got[k] = gm_tensor_new (&want[k]->meta, NULL);
  ck_assert_msg (gm_exec_run (e, 0, in, (int) g->inputs->len, got, (int) n, &error), "%s",
                 error ? error->message : "");
  int64_t numel = gm_meta_numel (&want[0]->meta);
  bool bf16 = want[0]->meta.dtype == GM_BF16;
  for (uint32_t k = 0; k < n; k++) {
    const uint16_t *a = want[k]->storage->data, *b = got[k]->storage->data,
                   infinity = bf16 ? 0x7f80 : 0x7c00;
    for (int64_t i = 0; i < numel; i++)
      if (a[i] != b[i] && !((a[i] & 0x7fff) > infinity && (b[i] & 0x7fff) > infinity)) {
        const uint16_t *x = in[0]->storage->data, *y = in[g->inputs->len - 1]->storage->data;
        ck_abort_msg ("%s, output %u, of 0x%04x and 0x%04x: 0x%04x is wanted, 0x%04x comes out",
                      what, k, x[i], y[i], a[i], b[i]);
      }
    gm_tensor_unref (want[k]);
    gm_tensor_unref (got[k]);
  }
}

static GmExec *
compiled_halves (const char *text, const char *dtype, GPtrArray **graphs)
{
  GError *error = NULL;
  g_auto (GStrv) parts = g_strsplit (text, "HALF", -1);
  g_autofree char *whole = g_strjoinv (dtype, parts);
  *graphs = gm_graph_parse (whole, &error);
  ck_assert_msg (*graphs != NULL, "%s", error ? error->message : "");
  GmExec *e = gm_backend_compile (gm_backend_get ("nvrtc", &error), (*graphs)->pdata[0], NULL, NULL,
                                  &error);
  ck_assert_msg (e && !gm_exec_fallback_reason (e), "%s", error ? error->message : "");
  return e;
}

static const char *const half_names[] = { "bf16", "f16" };

START_TEST (functions_of_halves_have_the_cpus_bits)
{
  const char *dtype = half_names[_i];
  g_autoptr (GPtrArray) graphs = NULL;
  g_autoptr (GmExec) e = compiled_halves ("f (%x: HALF[65536]) -> (%0, %1, %2, %3, %4) {\n %0 = "
                                          "exp %x\n %1 = tanh %x\n %2 = sigmoid %x\n"
                                          " %3 = reciprocal %x\n %4 = mul %x %2\n}",
                                          dtype, &graphs);
  const GmGraph *g = graphs->pdata[0];
  GmTensor *x = gm_tensor_new (gm_graph_meta (g, g_array_index (g->inputs, GmValueId, 0)), NULL);
  for (uint32_t i = 0; i < 65536; i++)
    ((uint16_t *) x->storage->data)[i] = (uint16_t) i;
  halves_are_equal (g, e, &x, dtype);
  gm_tensor_unref (x);
}
END_TEST

/* The bits are the same for all errors of the hardware's estimates: all results are the same
 * function of them in one direction. */
START_TEST (functions_of_halves_have_the_cpus_bits_for_all_estimates)
{
  static const char *const errors[] = {
    "1,1", "1,-1", "-1,1", "-1,-1", "0,1", "0,-1", "1,0", "-1,0"
  };
  g_autoptr (GPtrArray) graphs = NULL;
  g_autoptr (GmExec) e =
      compiled_halves ("f (%x: HALF[65536]) -> (%0, %1) {\n %0 = tanh %x\n %1 = sigmoid %x\n}",
                       half_names[_i], &graphs);
  const GmGraph *g = graphs->pdata[0];
  GmTensor *x = gm_tensor_new (gm_graph_meta (g, g_array_index (g->inputs, GmValueId, 0)), NULL);
  for (uint32_t i = 0; i < 65536; i++)
    ((uint16_t *) x->storage->data)[i] = (uint16_t) i;
  for (size_t i = 0; i < G_N_ELEMENTS (errors); i++) {
    g_setenv ("GM_SIM_ESTIMATES", errors[i], TRUE);
    halves_are_equal (g, e, &x, errors[i]);
  }
  g_unsetenv ("GM_SIM_ESTIMATES");
  gm_tensor_unref (x);
}
END_TEST

/* All pairs of fractions of normal numbers, then rows of all halves divided by halves of all
 * magnitudes. */
START_TEST (quotients_of_halves_have_the_cpus_bits)
{
  const char *dtype = half_names[_i];
  int bits = _i == 0 ? 7 : 10;
  uint32_t one = _i == 0 ? 0x3f80 : 0x3c00;
  uint64_t n = gm_fuzz_number ("GM_FUZZ_FLOATS", 8) / 8 * 24;
  g_autoptr (GPtrArray) graphs = NULL;
  g_autoptr (GmExec) e = compiled_halves (
      "f (%x: HALF[65536], %y: HALF[65536]) -> (%0) {\n %0 = div %x %y\n}", dtype, &graphs);
  const GmGraph *g = graphs->pdata[0];
  GmTensor *in[2];
  for (int k = 0; k < 2; k++)
    in[k] = gm_tensor_new (gm_graph_meta (g, g_array_index (g->inputs, GmValueId, 0)), NULL);
  uint16_t *x = in[0]->storage->data, *y = in[1]->storage->data;
  for (uint32_t from = 0, all = 1u << (2 * bits); from < all; from += 65536) {
    for (uint32_t i = 0; i < 65536; i++) {
      x[i] = (uint16_t) (one + ((from + i) & ((1u << bits) - 1)));
      y[i] = (uint16_t) (one + ((from + i) >> bits & ((1u << bits) - 1)));
    }
    halves_are_equal (g, e, in, dtype);
  }
  for (uint64_t row = 0; row < n; row++) {
    for (uint32_t i = 0; i < 65536; i++) {
      x[i] = (uint16_t) i;
      y[i] = n > 65536 ? (uint16_t) row : (uint16_t) (row * 40503u * 7 + (i & 1 ? i * 25173u : 0));
    }
    halves_are_equal (g, e, in, dtype);
  }
  gm_tensor_unref (in[0]);
  gm_tensor_unref (in[1]);
}
END_TEST

/* -- Convolutions and pools -------------------------------------------------------------------- */

/* Returns a graph of one node of the family, of random geometry; NULL: the numbers fit no
 * shapes. */
static GmGraph *
random_window (GmOp op, GmDtype dtype, uint64_t seed)
{
  GRand *r = g_rand_new_with_seed ((guint32) (seed * 2654435761u));
  int space = g_rand_int_range (r, 1, 4);
  int64_t groups = g_rand_int_range (r, 1, 4), channels = groups * g_rand_int_range (r, 1, 4),
          out = groups * g_rand_int_range (r, 1, 5);
  int64_t x[5] = { g_rand_int_range (r, 1, 4), channels }, w[5] = { out, channels / groups },
          y[5] = { x[0], out };
  GmAttrs a = { .mask = 1u << GM_ATTR_SIZES | 1u << GM_ATTR_WINDOW, .n_list = 2 + space };
  bool pool = op == GM_OP_window_pick || op == GM_OP_window_spread, fits = true;
  for (int d = 0; d < 3; d++)
    a.window[d] = a.window[3 + d] = a.window[9 + d] = 1;
  for (int d = 0; d < space; d++) {
    int k = 3 - space + d;
    a.window[k] = g_rand_int_range (r, 1, 4);
    a.window[3 + k] = g_rand_int_range (r, 1, 4);
    a.window[6 + k] = g_rand_int_range (r, 0, 3);
    a.window[9 + k] = g_rand_int_range (r, 1, 3);
    x[2 + d] = g_rand_int_range (r, 1, 12);
    w[2 + d] = a.window[k];
    int64_t left = x[2 + d] + 2 * a.window[6 + k] - (a.window[k] - 1) * a.window[9 + k] - 1;
    y[2 + d] = left < 0 ? 0 : left / a.window[3 + k] + 1;
    fits = fits && left >= 0;
  }
  g_rand_free (r);
  if (!fits)
    return NULL;
  if (pool)
    y[1] = x[1];
  const int64_t *in[2] = { op == GM_OP_convolve_input ? y : x,
                           op == GM_OP_convolve_weight || op == GM_OP_window_spread ? y
                           : op == GM_OP_window_pick                                ? x
                                                                                    : w };
  memcpy (a.list,
          op == GM_OP_convolve || op == GM_OP_window_pick ? y
          : op == GM_OP_convolve_weight                   ? w
                                                          : x,
          sizeof x);
  GmGraph *g = gm_graph_new ("window", NULL);
  GmValueId values[2];
  for (int i = 0; i < 2; i++) {
    GmMeta m = gm_meta_make (dtype, 2 + space, in[i]);
    if (seed % 3 == 0 && i == 0) { /* its last dimension is outermost in memory */
      int64_t stride = 1;
      for (int d = 1 + space; d >= 0; d--) {
        m.strides[(d + space) % (2 + space)] = stride;
        stride *= m.sizes[(d + space) % (2 + space)] ? m.sizes[(d + space) % (2 + space)] : 1;
      }
    }
    values[i] = gm_graph_add_input (g, NULL, &m);
  }
  GError *error = NULL;
  GmValueId v = gm_graph_add_node (g, op, values, 2, &a, NULL, &error);
  ck_assert_msg (!error, "%s", error ? error->message : "");
  gm_graph_add_output (g, v, GM_OUTPUT_USER);
  return g;
}

static void
compare_windows (GmOp op, GmDtype dtype, bool whole)
{
  uint64_t n = gm_fuzz_number ("GM_FUZZ_GPU", 40) / 4, seed = gm_fuzz_number ("GM_FUZZ_SEED", 1);
  for (uint64_t done = 0; done < n; seed++) {
    g_autoptr (GmGraph) g = random_window (op, dtype, seed);
    if (!g)
      continue;
    GmTensor *in[2];
    gm_random_inputs (g, seed, whole ? GM_RANDOM_TAME : GM_RANDOM_WILD, in);
    for (int i = 0; i < 2 && whole; i++)
      make_whole (in[i]);
    compare (g, seed, in, 0);
    free_inputs (g, in);
    done++;
  }
}

static const GmDtype window_dtypes[] = { GM_F32, GM_F64, GM_F16, GM_BF16 };

START_TEST (convolutions_of_whole_numbers_give_the_reference_bits)
{
  compare_windows (GM_OP_convolve, window_dtypes[_i], true);
  compare_windows (GM_OP_convolve_input, window_dtypes[_i], true);
  compare_windows (GM_OP_convolve_weight, window_dtypes[_i], true);
}
END_TEST

START_TEST (pools_give_the_reference_bits)
{
  compare_windows (GM_OP_window_pick, window_dtypes[_i], false);
  compare_windows (GM_OP_window_spread, window_dtypes[_i], false);
}
END_TEST

/* -- Sizes that only a run knows --------------------------------------------------------------- */

#define MAX_ELEMENTS 30000
#define SIZED_RUNS 5

static bool
is_small (const GmGraph *g)
{
  for (uint32_t v = 0; v < g->values->len; v++)
    if (gm_meta_numel (gm_graph_meta (g, v)) > MAX_ELEMENTS)
      return false;
  /* Dense for the example does not mean dense for all. */
  for (uint32_t i = 0; i < g->outputs->len; i++)
    if (!gm_meta_is_dense (gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value)))
      return false;
  return true;
}

/* Runs one set of sizes; false: they were too large, or positions were out of range. */
static bool
run_sized (uint64_t seed, const GmGraph *g, GmExec *e, const int64_t *symbols, double tolerance)
{
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (GmGraph) now = gm_graph_specialise (g, symbols, arena, &error);
  ck_assert_msg (now != NULL, "%s", error ? error->message : "");
  if (!is_small (now))
    return false;
  uint32_t n_in = g->inputs->len, n_out = g->outputs->len;
  g_autofree GmTensor **in = g_new0 (GmTensor *, n_in + 1), **want = g_new0 (GmTensor *, n_out + 1),
                      **got = g_new0 (GmTensor *, n_out + 1);
  gm_random_inputs (now, seed, tolerance > 0 ? GM_RANDOM_TAME : GM_RANDOM_WILD, in);
  bool good = gm_graph_interpret (now, in, want, NULL);
  for (uint32_t i = 0; i < n_out && good; i++) {
    got[i] = gm_tensor_new (
        gm_graph_meta (now, g_array_index (now->outputs, GmGraphOutput, i).value), NULL);
    if (got[i]->storage->bytes)
      memset (got[i]->storage->data, 0xa5, got[i]->storage->bytes);
  }
  if (good && !gm_exec_run_sized (e, 0, symbols, in, (int) n_in, got, (int) n_out, &error))
    fail_with (seed, now, error->message);
  for (uint32_t i = 0; i < n_out && good; i++) {
    g_autofree char *why = NULL;
    if (!is_near (want[i], got[i], tolerance, &why))
      fail_with (seed, now, why);
  }
  for (uint32_t i = 0; i < n_in; i++)
    gm_tensor_unref (in[i]);
  for (uint32_t i = 0; i < n_out && good; i++) {
    gm_tensor_unref (want[i]);
    gm_tensor_unref (got[i]);
  }
  return good;
}

/* Compares one compiled function with the reference; returns the number of its runs. */
static int
compare_symbolic (const GmGraph *g, uint64_t seed, int n_runs, double tolerance)
{
  g_autoptr (GError) error = NULL;
  uint64_t state = seed;
  int runs = 0;
  g_autoptr (GmExec) e = gm_backend_compile (gm_backend_get ("nvrtc", NULL), g, NULL, NULL, &error);
  if (!e)
    fail_with (seed, g, error->message);
  if (gm_exec_fallback_reason (e))
    fail_with (seed, g, gm_exec_fallback_reason (e));
  if (e->sized && gm_sized_why (e->sized))
    fail_with (seed, g, gm_sized_why (e->sized));
  g_autofree int64_t *symbols = g_new0 (int64_t, gm_sym_n_symbols (g->sym) + 1);
  memcpy (symbols, g->sizes->hints->data, gm_sym_n_symbols (g->sym) * sizeof *symbols);
  for (int k = 0; k < n_runs; k++) {
    g_setenv ("GM_SIM_ORDER", orders[k % G_N_ELEMENTS (orders)], TRUE);
    runs += run_sized (seed, g, e, symbols, tolerance);
    gm_symbolic_draw (g, &state, symbols);
  }
  return runs;
}

static int
compare_sized (const GmRandomGraph *options)
{
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GmGraph) plain = gm_random_graph (options, arena);
  if (adds_floats (plain))
    return 0;
  gm_fuzz_make_outputs_dense (plain);
  g_autoptr (GmGraph) g = gm_symbolic_graph (plain, options->seed, arena);
  return g ? compare_symbolic (g, options->seed, SIZED_RUNS, 0) : 0;
}

static void
compare_many_sized (GmRandomGraph options)
{
  uint64_t n = gm_fuzz_number ("GM_FUZZ_GPU", 40), seed = gm_fuzz_number ("GM_FUZZ_SEED", 1);
  int runs = 0;
  for (uint64_t end = seed + n; seed < end; seed++) {
    options.seed = seed;
    runs += compare_sized (&options);
  }
  ck_assert_msg (runs > (int) n / 2, "only %d runs of %d graphs", runs, (int) n);
}

/* SYM-02: one kernel serves the sizes that come after those it was made for. */
START_TEST (kernels_of_every_family_serve_all_sizes)
{
  compare_many_sized ((GmRandomGraph){ .strided = true, .defined_only = true });
}
END_TEST

START_TEST (fused_kernels_serve_all_sizes)
{
  compare_many_sized ((GmRandomGraph){
      .strided = true,
      .defined_only = true,
      .wide = true,
      .families = 1u << GM_FAMILY_POINTWISE | 1u << GM_FAMILY_REDUCE | 1u << GM_FAMILY_CAST
                  | 1u << GM_FAMILY_MOVEMENT | 1u << GM_FAMILY_CREATE });
}
END_TEST

/* The forms with any number of rows and columns; the largest of them are only compiled. */
START_TEST (rows_and_columns_of_any_length_are_near_the_reference)
{
  g_autoptr (GPtrArray) graphs = gm_graph_parse (forms[_i].text, NULL);
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GmGraph) g = gm_symbolic_graph (graphs->pdata[0], 5, arena);
  if (!g) /* convolutions have numbers alone */
    return;
  compare_symbolic (g, (uint64_t) _i, 8, MAX (forms[_i].tolerance, 1e-12));
}
END_TEST

/* Runs the kernels for indices that do not fit in 32 bits. */
START_TEST (kernels_with_wide_indices_have_the_same_bits)
{
  g_setenv ("GM_FAKE_WIDE", "1", TRUE);
  compare_many_sized ((GmRandomGraph){ .strided = true, .defined_only = true });
  g_unsetenv ("GM_FAKE_WIDE");
}
END_TEST

/* -- Attention --------------------------------------------------------------------------------- */

typedef enum { PLAIN, DIVIDED, CAUSAL, KEEPS, DROPS, ADDED } Mask;

static const struct {
  const char *dtype;
  int batch, heads, rows, keys, head, width;
  Mask mask;
  double tolerance;
} attentions[] = {
  { "f32", 2, 3, 20, 20, 16, 16, PLAIN, 1e-5 },
  { "f32", 1, 2, 70, 33, 64, 64, DIVIDED, 1e-5 },
  { "f32", 2, 2, 70, 70, 32, 32, CAUSAL, 1e-5 },
  { "f32", 1, 1, 40, 90, 128, 128, CAUSAL, 1e-5 },
  { "f32", 2, 3, 33, 65, 17, 30, KEEPS, 1e-5 },
  { "f32", 1, 3, 5, 100, 8, 3, DROPS, 1e-5 },
  { "f32", 2, 2, 64, 64, 40, 128, ADDED, 1e-5 },
  { "f16", 2, 2, 50, 50, 64, 64, CAUSAL, 4e-3 },
  { "bf16", 2, 1, 31, 64, 128, 64, ADDED, 3e-2 },
  { "f16", 1, 2, 33, 40, 16, 16, KEEPS, 4e-3 },
  /* Several blocks and pieces; rows that are not read 16 bytes at a time. */
  { "f16", 1, 2, 200, 200, 64, 64, CAUSAL, 4e-3 },
  { "bf16", 1, 1, 150, 130, 17, 30, KEEPS, 3e-2 },
  { "f16", 1, 1, 20, 70, 8, 3, DROPS, 4e-3 },
  { "bf16", 1, 2, 64, 64, 128, 128, PLAIN, 3e-2 },
  { "f16", 1, 1, 129, 70, 40, 96, ADDED, 4e-3 },
  { "bf16", 1, 2, 70, 33, 64, 64, DIVIDED, 3e-2 },
};

/* Returns the text of scaled_dot_product_attention; k is passed unchanged, as rows of keys. */
static char *
attention_text (size_t which)
{
  const __typeof__ (attentions[0]) *a = &attentions[which];
  bool half = strcmp (a->dtype, "f32") != 0;
  GString *s = g_string_new ("forward (");
  g_string_append_printf (
      s, "%%q: %s[%d, %d, %d, %d], %%k: %s[%d, %d, %d, %d], %%v: %s[%d, %d, %d, %d]", a->dtype,
      a->batch, a->heads, a->rows, a->head, a->dtype, a->batch, a->heads, a->keys, a->head,
      a->dtype, a->batch, a->heads, a->keys, a->width);
  if (a->mask == KEEPS)
    g_string_append_printf (s, ", %%m: b1[%d, %d]", a->rows, a->keys);
  if (a->mask == DROPS)
    g_string_append_printf (s, ", %%m: b1[%d, 1, 1, %d]", a->batch, a->keys);
  if (a->mask == ADDED)
    g_string_append_printf (s, ", %%m: %s[%d, %d, %d]", a->dtype, a->heads, a->rows, a->keys);
  g_string_append_printf (
      s,
      ") -> (%%20) {\n %%0 = permute %%k dims=[0, 1, 3, 2]\n %%1 = matmul %%q %%0\n"
      " %%2 = full sizes=[] dtype=%s value=%s\n %%3 = %s %%1 %%2\n %%7 = full sizes=[] dtype=%s "
      "value=-inf\n",
      a->dtype, a->mask == DIVIDED ? "4.0" : "0.25", a->mask == DIVIDED ? "div" : "mul", a->dtype);
  if (a->mask == CAUSAL)
    g_string_append_printf (
        s,
        " %%4 = arange sizes=[%d] dtype=i64 value=0 value2=1\n %%5 = view %%4 sizes=[%d, 1]\n"
        " %%21 = arange sizes=[%d] dtype=i64 value=0 value2=1\n %%6 = ge %%5 %%21\n %%8 = where "
        "%%6 %%3 %%7\n",
        a->rows, a->rows, a->keys);
  else if (a->mask == KEEPS)
    g_string_append (s, " %8 = where %m %3 %7\n");
  else if (a->mask == DROPS)
    g_string_append (s, " %8 = where %m %7 %3\n");
  else if (a->mask == ADDED)
    g_string_append (s, " %8 = add %3 %m\n");
  const char *scores = a->mask == PLAIN || a->mask == DIVIDED ? "%3" : "%8";
  if (half)
    g_string_append_printf (s, " %%9 = cast %s dtype=f32\n", scores);
  scores = half ? "%9" : scores;
  g_string_append_printf (
      s,
      " %%10 = amax %s dims=[3] keepdim=true\n %%11 = sub %s %%10\n %%12 = exp %%11\n"
      " %%13 = sum %%12 dims=[3] keepdim=true\n %%14 = div %%12 %%13\n",
      scores, scores);
  if (half)
    g_string_append_printf (s, " %%15 = cast %%14 dtype=%s\n", a->dtype);
  g_string_append_printf (s, " %%20 = matmul %s %%v\n}\n", half ? "%15" : "%14");
  return g_string_free (s, FALSE);
}

/* Returns the number of kernels of this name. */
static int
count_kernels (const GmGraph *g, const char *what)
{
  static const char *const options[] = { "keep-text=true", NULL };
  GError *error = NULL;
  g_autoptr (GmExec) e =
      gm_backend_compile (gm_backend_get ("nvrtc", NULL), g, NULL, options, &error);
  ck_assert_msg (e != NULL, "%s", error ? error->message : "");
  g_autofree char *text = gm_exec_text (e, "cuda", &error);
  int n = 0;
  for (const char *at = text; (at = strstr (at, "\nGM_KERNEL (f")); at++)
    n++;
  return strstr (text, what) ? n : 0;
}

/* The numbers of an arange, read by loops, with the number of kernels of each case. */
static const struct {
  const char *text;
  int kernels;
} counted[] = {
  /* Classes, compared with a target: the gradient of a classifier's loss. */
  { "forward (%t: i64[5, 1], %x: f32[5, 130], %g: f32[5, 1]) -> (%6) {\n %0 = cast %t dtype=i32\n"
    " %1 = arange sizes=[130] dtype=i32 value=0 value2=1\n %2 = view %1 sizes=[1, 130]\n %3 = eq "
    "%2 %0\n"
    " %4 = full sizes=[] dtype=f32 value=0.0\n %5 = where %3 %g %4\n %6 = sub %5 %x\n}\n",
    1 },
  { "forward (%x: f32[7, 65]) -> (%3, %4) {\n %0 = arange sizes=[65] dtype=f32 value=9 value2=-2\n "
    "%1 = mul %x %0\n"
    " %2 = arange sizes=[7] dtype=f32 value=3 value2=2\n %5 = view %2 sizes=[7, 1]\n %3 = amax %1 "
    "dims=[1] keepdim=true\n"
    " %6 = mul %3 %5\n %4 = add %1 %6\n}\n",
    1 },
  { "forward (%x: i64[6, 4]) -> (%4, %8) {\n %0 = arange sizes=[48] dtype=i64 value=-7 value2=3\n"
    " %1 = slice %0 dim=0 start=5 stop=47 step=1\n %9 = slice %1 dim=0 start=0 stop=24 step=1\n %2 "
    "= view %9 sizes=[4, 6]\n"
    " %3 = permute %2 dims=[1, 0]\n %4 = add %x %3\n %5 = slice %0 dim=0 start=0 stop=48 step=2\n "
    "%6 = view %5 sizes=[6, 4]\n"
    " %7 = full sizes=[] dtype=i64 value=2\n %10 = mul %6 %7\n %8 = sub %x %10\n}\n",
    1 },
  { "forward (%x: f16[40]) -> (%2) {\n %0 = arange sizes=[40] dtype=f16 value=8 value2=-1\n %1 = "
    "arange sizes=[40] dtype=f16 value=1 value2=1\n"
    " %3 = mul %x %0\n %2 = add %3 %1\n}\n",
    1 },
  { "forward (%x: f32[40]) -> (%1) {\n %0 = arange sizes=[40] dtype=f32 value=0.5 value2=0.1\n %1 "
    "= mul %x %0\n}\n",
    2 },
  /* A result, also read by position: there it is stored, by its own kernel. */
  { "forward (%x: i64[30]) -> (%0, %1) {\n %0 = arange sizes=[30] dtype=i64 value=0 value2=1\n %1 "
    "= add %x %0\n}\n",
    2 },
  { "forward (%x: f32[9, 3]) -> (%2, %3) {\n %0 = arange sizes=[4] dtype=i64 value=0 value2=2\n %2 "
    "= index_select %x %0 dim=0\n"
    " %1 = full sizes=[] dtype=i64 value=1\n %3 = add %0 %1\n}\n",
    3 },
};

START_TEST (numbers_in_order_are_computed_where_they_are_read)
{
  GError *error = NULL;
  g_autoptr (GPtrArray) graphs = gm_graph_parse (counted[_i].text, &error);
  ck_assert_msg (graphs != NULL, "%s\n%s", error ? error->message : "", counted[_i].text);
  GmGraph *g = graphs->pdata[0];
  ck_assert_int_eq (count_kernels (g, "GM_KERNEL"), counted[_i].kernels);
  g_autofree GmTensor **in = g_new0 (GmTensor *, g->inputs->len + 1);
  gm_random_inputs (g, 7, GM_RANDOM_TAME, in);
  for (uint32_t i = 0; i < g->inputs->len; i++)
    if (in[i]->meta.dtype == GM_I64 && in[i]->meta.sizes[0] == 5) /* one of them in the row */
      ((int64_t *) gm_tensor_data (in[i]))[0] = 129;
  compare (g, (uint64_t) _i, in, 0);
  free_inputs (g, in);
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GmGraph) sized = gm_symbolic_graph (g, 5, arena);
  if (sized)
    compare_symbolic (sized, (uint64_t) _i, 8, 0);
}
END_TEST

START_TEST (attention_is_one_kernel_and_near_the_reference)
{
  GError *error = NULL;
  g_autofree char *text = attention_text ((size_t) _i);
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, &error);
  ck_assert_msg (graphs != NULL, "%s\n%s", error ? error->message : "", text);
  GmGraph *g = graphs->pdata[0];
  /* No kernel makes a causal mask, or the numbers that it compares, either. */
  ck_assert_int_eq (count_kernels (g, "_attention, "), 1);
  g_autofree GmTensor **in = g_new0 (GmTensor *, g->inputs->len + 1);
  gm_random_inputs (g, 7, GM_RANDOM_TAME, in);
  compare (g, (uint64_t) _i, in, attentions[_i].tolerance);
  free_inputs (g, in);
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GmGraph) sized = gm_symbolic_graph (g, 3, arena);
  if (sized)
    compare_symbolic (sized, (uint64_t) _i, 3, attentions[_i].tolerance);
}
END_TEST

/* Scores of even rows rise from -32 to 32, key by key, so that the reference of the weights has to
 * change again and again; those of odd rows fall.  Row 3 is infinite.  With a mask, row 0 sees
 * nothing, and row 1 only the last key: before that there is no reference for the weights.  Rows 0
 * and 3 are NaN then. */
START_TEST (attention_follows_scores_that_rise_and_fall)
{
  GError *error = NULL;
  const __typeof__ (attentions[0]) *a = &attentions[_i];
  g_autofree char *text = attention_text ((size_t) _i);
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, &error);
  ck_assert_msg (graphs != NULL, "%s\n%s", error ? error->message : "", text);
  GmGraph *g = graphs->pdata[0];
  g_autofree GmTensor **in = g_new0 (GmTensor *, g->inputs->len + 1);
  gm_random_inputs (g, 7, GM_RANDOM_TAME, in);
  int64_t at[4];
  for (at[0] = 0; at[0] < a->batch; at[0]++)
    for (at[1] = 0; at[1] < a->heads; at[1]++)
      for (at[3] = 0; at[3] < a->head; at[3]++) {
        /* Only the first elements count: whole numbers, which no dtype rounds. */
        for (at[2] = 0; at[2] < a->rows; at[2]++)
          gm_tensor_set (in[0], at,
                         gm_scalar_float (at[3]        ? 0
                                          : at[2] == 3 ? INFINITY
                                          : at[2] % 2  ? -1
                                                       : 1));
        for (at[2] = 0; at[2] < a->keys; at[2]++)
          gm_tensor_set (in[1], at, gm_scalar_float (at[3] ? 0 : 4 * (at[2] * 64 / a->keys - 32)));
      }
  for (int64_t i = 0; a->mask == KEEPS && i < a->keys; i++)
    for (int64_t row = 0; row < 2; row++)
      gm_tensor_set (in[3], (int64_t[]){ row, i }, gm_scalar_bool (row == 1 && i == a->keys - 1));
  for (at[0] = 0; a->mask == ADDED && at[0] < a->heads; at[0]++)
    for (at[1] = 0; at[1] < a->rows; at[1]++)
      for (at[2] = 0; at[2] < a->keys; at[2]++)
        gm_tensor_set (in[3], at, gm_scalar_float (at[1] % 5 - at[2] % 3));
  compare (g, (uint64_t) _i, in, a->tolerance);
  free_inputs (g, in);
}
END_TEST

/* An attention whose weights are a result, so that they have to be stored. */
START_TEST (attention_whose_weights_are_wanted_stays_written_out)
{
  GError *error = NULL;
  g_autofree char *text = attention_text (0);
  GString *s = g_string_new (text);
  g_string_replace (s, "(%20)", "(%20, %14)", 1);
  g_autoptr (GPtrArray) graphs = gm_graph_parse (s->str, &error);
  g_string_free (s, TRUE);
  GmGraph *g = graphs->pdata[0];
  ck_assert_int_eq (count_kernels (g, "_attention, "), 0);
  g_autofree GmTensor **in = g_new0 (GmTensor *, g->inputs->len + 1);
  gm_random_inputs (g, 7, GM_RANDOM_TAME, in);
  compare (g, 0, in, 1e-5);
  free_inputs (g, in);
}
END_TEST

/* The old compiler knows fewer options. */
START_TEST (an_old_compiler_compiles)
{
  g_setenv ("GM_FAKE_OLD_COMPILER", "1", TRUE);
  g_autoptr (GPtrArray) graphs =
      gm_graph_parse ("f (%x: f32[70]) -> (%0) {\n %0 = neg %x\n}", NULL);
  for (uint64_t again = 0; again < 2; again++) {
    GmTensor *in;
    gm_random_inputs (graphs->pdata[0], again, GM_RANDOM_WILD, &in);
    compare (graphs->pdata[0], again, &in, 0);
    gm_tensor_unref (in);
  }
}
END_TEST

int
main (void)
{
  /* A real GPU's elementary functions have other bits: exact tests and those with a tolerance
   * remain. */
  bool real = g_getenv ("GM_REAL_GPU") != NULL;
  g_setenv ("GRAMME_CACHE", "0", FALSE);
  g_setenv ("GRAMME_CUBLASLT", "/nonexistent", FALSE); /* kernels are tested here */
  if (!real) {
    g_setenv ("GRAMME_CUDA_DRIVER", GM_FAKE_CUDA, FALSE);
    g_setenv ("GRAMME_NVRTC", GM_FAKE_CUDA, FALSE);
    g_setenv ("GRAMME_CUDA_MEMORY", "exact", FALSE);
  }
  Suite *s = suite_create ("nvrtc");
  TCase *t = tcase_create ("on a simulated GPU");
  tcase_set_timeout (t, 600);
  tcase_add_loop_test (t, rows_of_every_length_are_near_the_reference, 0, G_N_ELEMENTS (forms));
  if (!real) {
    tcase_add_test (t, kernels_of_every_family_give_the_reference_bits);
    tcase_add_test (t, fused_kernels_give_the_reference_bits);
    tcase_add_test (t, kernels_of_small_dtypes_give_the_reference_bits);
    tcase_add_loop_test (t, rows_and_columns_of_any_length_are_near_the_reference, 0,
                         G_N_ELEMENTS (forms));
    tcase_add_test (t, kernels_of_every_family_serve_all_sizes);
    tcase_add_test (t, fused_kernels_serve_all_sizes);
    tcase_add_test (t, kernels_with_wide_indices_have_the_same_bits);
    tcase_add_test (t, an_old_compiler_compiles);
  }
  tcase_add_loop_test (t, numbers_in_order_are_computed_where_they_are_read, 0,
                       G_N_ELEMENTS (counted));
  tcase_add_loop_test (t, attention_is_one_kernel_and_near_the_reference, 0,
                       G_N_ELEMENTS (attentions));
  tcase_add_loop_test (t, attention_follows_scores_that_rise_and_fall, 0,
                       G_N_ELEMENTS (attentions));
  tcase_add_test (t, attention_whose_weights_are_wanted_stays_written_out);
  tcase_add_loop_test (t, convolutions_of_whole_numbers_give_the_reference_bits, 0,
                       G_N_ELEMENTS (window_dtypes));
  tcase_add_loop_test (t, pools_give_the_reference_bits, 0, G_N_ELEMENTS (window_dtypes));
  tcase_add_test (t, sums_of_whole_numbers_give_the_reference_bits);
  suite_add_tcase (s, t);
  t = tcase_create ("functions"); /* CK_RUN_CASE=functions: these alone */
  tcase_set_timeout (t, 3600);
  tcase_add_test (t, functions_of_floats_have_the_cpus_bits);
  tcase_add_loop_test (t, functions_of_halves_have_the_cpus_bits, 0, 2);
  tcase_add_test (t, softmax_of_extremes_is_near_the_reference);
  tcase_add_loop_test (t, functions_of_halves_have_the_cpus_bits_for_all_estimates, 0, 2);
  tcase_add_loop_test (t, quotients_of_halves_have_the_cpus_bits, 0, 2);
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  if (real)
    srunner_set_fork_status (sr, CK_NOFORK); /* a driver does not survive a fork */
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
