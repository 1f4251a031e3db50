/* SPDX-License-Identifier: Apache-2.0
 * bench.c -- kernels on tensors of a GPU, against the bandwidth of a copy on the same GPU: rows of
 * a Markdown table.
 *
 *   tests/gpu/bench [SCALE]     rows of the cases times SCALE (default 1; 0.001 on a simulated GPU)
 *
 * Each case is launched many times in a row and waited for once; the minimum of 5 such rounds
 * counts.  Inputs are random numbers, as zeros would flatter.  "host" is what a call takes on the
 * CPU, the launches in it not waited for.  "compile" is without the cache on disk, "from disk" all
 * that compiling takes when it has the code.
 */
#include "core/run/backend.h"
#include "core/tensor/device.h"

#include <stdio.h>
#include <stdlib.h>

#define CALLS 50
#define ROUNDS 5

#define POINTWISE(T)                                                                               \
  "f (%x: " T "[R, 4096]@cuda) -> (%5) {\n %0 = sigmoid %x\n %1 = mul %x %0\n %2 = tanh %x\n %3 "  \
  "= add %2 %2\n %5 = add %1 %3\n}"
/* Halves come and go as such; between that all is f32, as in gramme.softmax and
 * gramme.layer_norm. */
#define SOFTMAX(T, N, WIDEN, NARROW)                                                               \
  "f (%x: " T "[R, " N "]@cuda) -> (%9) {\n %a = " WIDEN                                           \
  " %0 = amax %a dims=[1] keepdim=true\n %1 = sub %a %0\n %2 = exp %1\n"                           \
  " %3 = sum %2 dims=[1] keepdim=true\n %4 = reciprocal %3\n %8 = mul %2 %4\n %9 = " NARROW "}"
/* %n: 1 / N. */
#define LAYER_NORM(T, N, WIDEN, NARROW)                                                            \
  "f (%x: " T "[R, " N "]@cuda, %n: f32[1]@cuda) -> (%9) {\n %a = " WIDEN                          \
  " %0 = sum %a dims=[1] keepdim=true\n"                                                           \
  " %2 = mul %0 %n\n %3 = sub %a %2\n %4 = square %3\n %5 = sum %4 dims=[1] keepdim=true\n %6 = "  \
  "mul %5 %n\n %7 = rsqrt %6\n"                                                                    \
  " %8 = mul %3 %7\n %9 = " NARROW "}"
#define F32(KIND, N) KIND ("f32", N, "neg %x\n", "neg %8\n")
#define BF16(KIND, N) KIND ("bf16", N, "cast %x dtype=f32\n", "cast %8 dtype=bf16\n")

static const struct {
  const char *name, *text; /* R: the rows */
  int64_t rows;
  double bytes_per_row; /* read and written at least; 0: a product, flops_per_row counts */
  double flops_per_row;
} cases[] = {
  { "x * sigmoid(x) + 2 tanh(x), f32", POINTWISE ("f32"), 16384, 4096 * 8, 0 },
  { "the same, bf16", POINTWISE ("bf16"), 16384, 4096 * 4, 0 },
  { "the same, f16", POINTWISE ("f16"), 16384, 4096 * 4, 0 },
  { "add, f16", "f (%x: f16[R, 4096]@cuda, %y: f16[R, 4096]@cuda) -> (%0) {\n %0 = add %x %y\n}",
    16384, 4096 * 6, 0 },
  { "softmax over 128, f32", F32 (SOFTMAX, "128"), 524288, 128 * 8, 0 },
  { "softmax over 1023, f32", F32 (SOFTMAX, "1023"), 65536, 1023 * 8, 0 },
  { "softmax over 4096, f32", F32 (SOFTMAX, "4096"), 16384, 4096 * 8, 0 },
  { "softmax over 32768, f32", F32 (SOFTMAX, "32768"), 2112, 32768 * 8, 0 },
  { "softmax over 128, bf16", BF16 (SOFTMAX, "128"), 524288, 128 * 4, 0 },
  { "softmax over 1023, bf16", BF16 (SOFTMAX, "1023"), 65536, 1023 * 4, 0 },
  { "softmax over 4096, bf16", BF16 (SOFTMAX, "4096"), 16384, 4096 * 4, 0 },
  { "softmax over 32768, bf16", BF16 (SOFTMAX, "32768"), 2112, 32768 * 4, 0 },
  { "layer norm over 128, f32", F32 (LAYER_NORM, "128"), 524288, 128 * 8, 0 },
  { "layer norm over 1023, f32", F32 (LAYER_NORM, "1023"), 65536, 1023 * 8, 0 },
  { "layer norm over 4096, f32", F32 (LAYER_NORM, "4096"), 16384, 4096 * 8, 0 },
  { "layer norm over 32768, f32", F32 (LAYER_NORM, "32768"), 2112, 32768 * 8, 0 },
  { "layer norm over 1023, bf16", BF16 (LAYER_NORM, "1023"), 65536, 1023 * 4, 0 },
  { "layer norm over 4096, bf16", BF16 (LAYER_NORM, "4096"), 16384, 4096 * 4, 0 },
  { "layer norm over 32768, bf16", BF16 (LAYER_NORM, "32768"), 2112, 32768 * 4, 0 },
  { "sum of columns, f32",
    "f (%x: f32[R, 1024]@cuda) -> (%0) {\n %0 = sum %x dims=[0] keepdim=false\n}", 65536, 1024 * 4,
    0 },
  { "sum of all, f32",
    "f (%x: f32[R, 1024]@cuda) -> (%0) {\n %0 = sum %x dims=[0, 1] keepdim=false\n}", 65536,
    1024 * 4, 0 },
  { "matmul by 1024 x 1024, f32",
    "f (%a: f32[R, 1024]@cuda, %b: f32[1024, 1024]@cuda) -> (%0) {\n %0 = matmul %a %b\n}", 4096, 0,
    2.0 * 1024 * 1024 },
};

static GError *error;

static void
must (bool good)
{
  if (good)
    return;
  fprintf (stderr, "bench: %s\n", error ? error->message : "failed");
  exit (1);
}

static double
seconds (void)
{
  return (double) g_get_monotonic_time () / 1e6;
}

/* Bytes read and written by a copy on the device, a second. */
static double
copy_bandwidth (const GmDevice *d, int64_t rows)
{
  int64_t n = rows * 4096;
  GmMeta m = gm_meta_make (GM_F32, 1, &n);
  m.device = GM_DEVICE_CUDA;
  GmTensor *a = gm_tensor_new_zeros (&m, &error), *b = a ? gm_tensor_new_zeros (&m, &error) : NULL;
  must (b != NULL);
  double best = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    must (d->synchronize (&error));
    double start = seconds ();
    for (int i = 0; i < CALLS; i++)
      must (d->copy (b->storage->data, GM_DEVICE_CUDA, a->storage->data, GM_DEVICE_CUDA,
                     a->storage->bytes, &error));
    must (d->synchronize (&error));
    best = MIN (best, seconds () - start);
  }
  double bytes = 2.0 * (double) a->storage->bytes * CALLS;
  gm_tensor_unref (a);
  gm_tensor_unref (b);
  return bytes / best;
}

/* Random bits that are floats between 1 and 2, or between -2 and -1. */
static GmTensor *
random_input (const GmMeta *m)
{
  GmMeta here = *m;
  here.device = GM_DEVICE_CPU;
  GmTensor *t = gm_tensor_new (&here, &error);
  must (t != NULL);
  uint32_t state = 1, *words = t->storage->data;
  bool wide = here.dtype == GM_F32;
  uint32_t fraction = here.dtype == GM_BF16 ? 0x807f : here.dtype == GM_F16 ? 0x83ff : 0x807fffff;
  uint32_t one = here.dtype == GM_BF16 ? 0x3f80 : here.dtype == GM_F16 ? 0x3c00 : 0x3f800000;
  for (uint64_t i = 0, n = (uint64_t) gm_meta_numel (&here); i < n; i++) {
    state = state * 1664525 + 1013904223;
    uint32_t bits = ((wide ? state : state >> 16) & fraction) | one;
    if (wide)
      words[i] = bits;
    else
      ((uint16_t *) words)[i] = (uint16_t) bits;
  }
  GmTensor *there = gm_tensor_to_device (t, GM_DEVICE_CUDA, &error);
  must (there != NULL);
  gm_tensor_unref (t);
  return there;
}

/* Milliseconds of compiling what the cache on disk has and of the first run, which loads it. */
static double
from_disk (GmBackend *b, const GmGraph *g, const GmDevice *d, GmTensor *const *in, GmTensor *out)
{
  double best = 1e9;
  for (int i = 0; i < 4; i++) {
    double start = seconds ();
    g_autoptr (GmExec) e = gm_backend_compile (b, g, NULL, NULL, &error);
    must (e && gm_exec_run (e, GM_EXEC_FORWARD, in, (int) g->inputs->len, &out, 1, &error)
          && d->synchronize (&error));
    if (i > 0) /* the first stores it */
      best = MIN (best, seconds () - start);
  }
  return best * 1e3;
}

static void
run_case (size_t k, double scale, const GmDevice *d, double bandwidth)
{
  int64_t rows = MAX (1, (int64_t) ((double) cases[k].rows * scale));
  g_autofree char *number = g_strdup_printf ("%" G_GINT64_FORMAT, rows);
  g_auto (GStrv) parts = g_strsplit (cases[k].text, "R", -1);
  g_autofree char *text = g_strjoinv (number, parts);
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, &error);
  must (graphs != NULL);
  const GmGraph *g = graphs->pdata[0];
  GmBackend *b = gm_backend_get ("nvrtc", &error);
  must (b != NULL);
  g_autoptr (GmExec) e = gm_backend_compile_how (
      b, g, NULL, NULL, &(GmCompileHow){ .no_cache = "it is timed" }, &error);
  must (e != NULL);
  GmTensor *in[2] = { NULL },
           *out = gm_tensor_new (
               gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, 0).value), &error);
  must (out != NULL);
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    in[i] = random_input (gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i)));
  }
  double best = 1e9, host = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    must (d->synchronize (&error));
    double start = seconds ();
    for (int i = 0; i < CALLS; i++)
      must (gm_exec_run (e, GM_EXEC_FORWARD, in, (int) g->inputs->len, &out, 1, &error));
    host = MIN (host, seconds () - start);
    must (d->synchronize (&error));
    best = MIN (best, seconds () - start);
  }
  double per_call = best / CALLS, bytes = cases[k].bytes_per_row * (double) rows;
  printf ("| %s, %s rows | %.1f us | ", cases[k].name, number, per_call * 1e6);
  if (bytes > 0)
    printf ("%.0f GB/s | %.0f %% |", bytes / per_call / 1e9, 100 * bytes / per_call / bandwidth);
  else
    printf ("%.1f TFLOP/s | - |", cases[k].flops_per_row * (double) rows / per_call / 1e12);
  printf (" %.2f us | %.1f ms | %.2f ms |\n", host / CALLS * 1e6, gm_exec_compile_ms (e),
          from_disk (b, g, d, in, out));
  for (uint32_t i = 0; i < g->inputs->len; i++)
    gm_tensor_unref (in[i]);
  gm_tensor_unref (out);
}

int
main (int argc, char **argv)
{
  double scale = argc > 1 ? g_ascii_strtod (argv[1], NULL) : 1;
  const GmDevice *d = gm_device_get (GM_DEVICE_CUDA, &error);
  must (d != NULL && scale > 0);
  double bandwidth = copy_bandwidth (d, MAX (1, (int64_t) (16384 * scale)));
  printf ("| case | a call | | of a copy's | host | compile | from disk "
          "|\n|---|---|---|---|---|---|---|\n");
  printf ("| a copy on the device | - | %.0f GB/s | 100 %% | - | - | - |\n", bandwidth / 1e9);
  for (size_t k = 0; k < G_N_ELEMENTS (cases); k++)
    run_case (k, scale, d, bandwidth);
  return 0;
}
