/* SPDX-License-Identifier: Apache-2.0
 * test_ptx.c -- NVRTC's code of generated kernels: all of them compile, and the code is as
 * expected.
 *
 * No GPU is needed, but NVRTC is: without it this is skipped.  GM_FUZZ_PTX sets the number of
 * random graphs of each kind (default 12).
 */
#include "core/run/backend.h"
#include "tests/fuzz/random_graph.h"
#include "tests/gpu/forms.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARCH "arch=sm_90"

static GmExec *
compile (const GmGraph *g, const char *arch, GError **error)
{
  const char *options[] = { arch, "keep-text=true", NULL };
  GmBackend *b = gm_backend_get ("nvrtc", error);
  GmExec *e = b ? gm_backend_compile (b, g, NULL, options, error) : NULL;
  if (e && gm_exec_fallback_reason (e)) {
    g_autofree char *text = gm_graph_text (g);
    ck_abort_msg ("%s\n%s", gm_exec_fallback_reason (e), text);
  }
  return e;
}

static GmGraph *
parse (const char *text)
{
  GError *error = NULL;
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, &error);
  ck_assert_msg (graphs != NULL, "%s", error ? error->message : "");
  return g_ptr_array_steal_index (graphs, 0);
}

static char *
ptx_of (const GmGraph *g)
{
  GError *error = NULL;
  g_autoptr (GmExec) e = compile (g, ARCH, &error);
  ck_assert_msg (e != NULL, "%s", error ? error->message : "");
  char *ptx = gm_exec_text (e, "ptx", &error);
  ck_assert_msg (ptx != NULL, "%s", error ? error->message : "");
  return ptx;
}

static int
count (const char *text, const char *what)
{
  int n = 0;
  for (const char *at = text; (at = strstr (at, what)); at += strlen (what))
    n++;
  return n;
}

/* -- Everything compiles, without memory of its own for each thread ---------------------------- */

START_TEST (forms_compile_without_local_memory)
{
  g_autoptr (GmGraph) g = parse (forms[_i].text);
  g_autofree char *ptx = ptx_of (g);
  ck_assert_int_gt (count (ptx, ".entry"), 0);
  ck_assert_msg (!strstr (ptx, ".local"), "%s", forms[_i].text);
}
END_TEST

static void
compile_many (GmRandomGraph options)
{
  const char *text = g_getenv ("GM_FUZZ_PTX");
  uint64_t n = text ? g_ascii_strtoull (text, NULL, 10) : 12;
  for (uint64_t seed = 1; seed <= n; seed++) {
    g_autoptr (GmArena) arena = gm_arena_new ();
    GError *error = NULL;
    options.seed = seed;
    g_autoptr (GmGraph) g = gm_random_graph (&options, arena);
    g_autoptr (GmExec) e = compile (g, ARCH, &error);
    if (!e) {
      g_autofree char *shown = gm_graph_text (g);
      ck_abort_msg ("seed %" G_GUINT64_FORMAT ": %s\n%s", seed, error->message, shown);
    }
  }
}

START_TEST (graphs_of_every_family_compile)
{
  compile_many ((GmRandomGraph){ .strided = true });
}
END_TEST

START_TEST (fused_graphs_compile)
{
  compile_many ((GmRandomGraph){ .strided = true,
                                 .wide = true,
                                 .families = 1u << GM_FAMILY_POINTWISE | 1u << GM_FAMILY_REDUCE
                                             | 1u << GM_FAMILY_CAST | 1u << GM_FAMILY_MOVEMENT
                                             | 1u << GM_FAMILY_CREATE });
}
END_TEST

START_TEST (graphs_of_small_dtypes_compile)
{
  compile_many ((GmRandomGraph){ .strided = true,
                                 .dtypes = 1u << GM_F16 | 1u << GM_BF16 | 1u << GM_I8 | 1u << GM_I16
                                           | 1u << GM_F8E4M3 | 1u << GM_F8E5M2 });
}
END_TEST

/* -- The code itself --------------------------------------------------------------------------- */

/* Pointwise kernels, with their numbers of 16-byte reads and writes. */
static const struct {
  const char *text, *load, *store;
  int n_loads, n_stores;
} pointwise[] = {
  { "f (%x: f32[1000, 64], %y: f32[1000, 64]) -> (%1) {\n %0 = mul %x %y\n %1 = tanh %0\n}",
    "ld.global.nc.v4.f32", "st.global.v4", 2, 1 },
  /* a tail: the last thread's elements one by one */
  { "f (%x: f32[1003], %y: f32[1003]) -> (%0) {\n %0 = add %x %y\n}", "ld.global.nc.v4.f32",
    "st.global.v4", 2, 1 },
  /* a row vector is broadcast */
  { "f (%x: f32[128, 64], %w: f32[64]) -> (%0) {\n %0 = add %x %w\n}", "ld.global.nc.v4.f32",
    "st.global.v4", 2, 1 },
  { "f (%x: f64[1000], %y: f64[1000]) -> (%0) {\n %0 = add %x %y\n}", "ld.global.nc.v2.f64",
    "st.global.v2.f64", 2, 1 },
  /* eight elements at once */
  { "f (%x: f16[1024]) -> (%0) {\n %0 = neg %x\n}", "ld.global.nc.v4", "st.global.v4", 1, 1 },
  { "f (%x: bf16[1024]) -> (%0) {\n %0 = exp %x\n}", "ld.global.nc.v4", "st.global.v4", 1, 1 },
  { "f (%x: u8[4096]) -> (%0) {\n %0 = add %x %x\n}", "ld.global.nc.v4", "st.global.v4", 1, 1 },
  /* one column is cut off: rows begin anywhere, so no wide access is right */
  { "f (%x: f32[100, 63]) -> (%1) {\n %0 = slice %x dim=1 start=1 stop=61 step=1\n %1 = neg %0\n}",
    "ld.global.nc.f32", "st.global.f32", 1, 1 },
};

START_TEST (pointwise_kernels_read_and_write_16_bytes)
{
  g_autoptr (GmGraph) g = parse (pointwise[_i].text);
  g_autofree char *ptx = ptx_of (g);
  ck_assert_int_eq (count (ptx, ".entry"), 1);
  ck_assert_msg (count (ptx, pointwise[_i].load) >= pointwise[_i].n_loads, "%s: no %s in\n%.3000s",
                 pointwise[_i].text, pointwise[_i].load, strstr (ptx, ".entry"));
  ck_assert_msg (count (ptx, pointwise[_i].store) >= pointwise[_i].n_stores,
                 "%s: no %s in\n%.3000s", pointwise[_i].text, pointwise[_i].store,
                 strstr (ptx, ".entry"));
  ck_assert (!strstr (ptx, ".local"));
  /* Accesses of four elements have fewer than 16 bytes. */
  ck_assert (!strstr (ptx, ".v4.u8") && !strstr (ptx, ".v4.u16"));
  ck_assert_msg (!strstr (ptx, "fma.rn.f32") || strstr (pointwise[_i].text, "tanh")
                     || strstr (pointwise[_i].text, "exp"),
                 "a contraction that nobody wrote");
}
END_TEST

/* Only explicit fma are fma in the code. */
START_TEST (products_and_sums_are_not_contracted)
{
  g_autoptr (GmGraph) g = parse ("f (%x: f32[1024], %y: f32[1024], %z: f32[1024]) -> (%1) {\n %0 = "
                                 "mul %x %y\n %1 = add %0 %z\n}");
  g_autofree char *ptx = ptx_of (g);
  ck_assert (strstr (ptx, "mul.rn.f32") || strstr (ptx, "mul.f32"));
  ck_assert (strstr (ptx, "add.rn.f32") || strstr (ptx, "add.f32"));
  ck_assert_ptr_null (strstr (ptx, "fma"));
}
END_TEST

/* Slow instructions (conversions and roundings, at an eighth of the rate) and branches on operands
 * (divisions) do not occur in exp and tanh, and in a kernel with sigmoid only in its careful form,
 * which occurs once. */
START_TEST (elementary_functions_take_fast_instructions)
{
  static const struct {
    const char *op;
    int reciprocals, divisions;
  } functions[] = { { "exp", 0, 0 }, { "tanh", 4, 0 }, { "sigmoid", 4, 1 } };
  for (size_t i = 0; i < G_N_ELEMENTS (functions); i++) {
    g_autofree char *text =
        g_strdup_printf ("f (%%x: f32[1024]) -> (%%0) {\n %%0 = %s %%x\n}", functions[i].op);
    g_autoptr (GmGraph) g = parse (text);
    g_autofree char *ptx = ptx_of (g);
    ck_assert_msg (!strstr (ptx, "cvt.r") && !strstr (ptx, "div."), "%s", functions[i].op);
    ck_assert_msg (count (ptx, "rcp.approx.ftz") == functions[i].reciprocals, "%s: %d",
                   functions[i].op, count (ptx, "rcp.approx.ftz"));
    ck_assert_msg (count (ptx, "rcp.rn.f32") == functions[i].divisions, "%s: %d", functions[i].op,
                   count (ptx, "rcp.rn.f32"));
  }
}
END_TEST

/* Softmax and layer norm are one kernel, which reads a row once and in wide accesses wherever it
 * begins. */
static const struct {
  const char *text, *load, *store;
  int n_loads; /* limit of the reads of x, and of weights where they have the same layout */
} rows[] = {
  { SOFTMAX ("f32", "1024", "1000"), "ld.global.nc.v4", "st.global.v4", 8 },
  { SOFTMAX ("f32", "1024", "1023"), "ld.global.nc.v4", "st.global.v4", 8 },
  { SOFTMAX ("bf16", "1024", "1023"), "ld.global.nc.v4", "st.global.v4", 4 },
  { SOFTMAX ("f32", "1024", "32768"), "ld.global.nc.v4", "st.global.v4", 8 },
  { SOFTMAX ("bf16", "1024", "32768"), "ld.global.nc.v4", "st.global.v4", 4 },
  { LAYER_NORM ("f32", "1024", "1023"), "ld.global.nc.v4", "st.global.v4", 8 },
  { HALF_LAYER_NORM ("bf16", "1024", "1024"), "ld.global.nc.v4", "st.global.v4", 12 },
  { HALF_LAYER_NORM ("f16", "1024", "1023"), "ld.global.nc.v4", "st.global.v4", 4 },
  { HALF_LAYER_NORM ("bf16", "1024", "32768"), "ld.global.nc.v4", "st.global.v4", 12 },
  { HALF_SOFTMAX ("bf16", "1024", "32768"), "ld.global.nc.v4", "st.global.v4", 4 },
  { HALF_SOFTMAX ("f16", "1024", "32768"), "ld.global.nc.v4", "st.global.v4", 4 },
  { LAYER_NORM ("f32", "1024", "32767"), "ld.global.nc.v4", "st.global.v4", 8 },
  { HALF_LAYER_NORM ("bf16", "1024", "32767"), "ld.global.nc.v4", "st.global.v4", 4 },
};

START_TEST (rows_are_read_once_in_wide_accesses)
{
  g_autoptr (GmGraph) g = parse (rows[_i].text);
  g_autofree char *ptx = ptx_of (g);
  ck_assert_msg (count (ptx, ".entry") == 1, "%d kernels: %s", count (ptx, ".entry"),
                 rows[_i].text);
  ck_assert_msg (!strstr (ptx, ".local"), "%s", rows[_i].text);
  int n = count (ptx, rows[_i].load);
  ck_assert_msg (n > 0 && n <= rows[_i].n_loads, "%d wide reads: %s", n, rows[_i].text);
  ck_assert_msg (strstr (ptx, rows[_i].store) != NULL, "no wide write: %s", rows[_i].text);
}
END_TEST

/* A thread reads and writes at most one single element of a row that begins anywhere: the text for
 * more, and for elements that may be outside, took half of the compile. */
START_TEST (ends_of_rows_are_one_element_of_a_thread)
{
  static const char *const texts[] = { SOFTMAX ("f32", "1024", "1023"),
                                       SOFTMAX ("bf16", "1024", "1023"),
                                       SOFTMAX ("f32", "1024", "333"),
                                       SOFTMAX ("bf16", "1024", "4097") };
  g_autoptr (GmGraph) g = parse (texts[_i]);
  g_autofree char *ptx = ptx_of (g);
  int wide = count (ptx, "ld.global.nc.v4"), wide_stores = count (ptx, "st.global.v4");
  ck_assert_msg (count (ptx, "ld.global.") == wide + 1, "%d reads, %d wide: %s",
                 count (ptx, "ld.global."), wide, texts[_i]);
  ck_assert_msg (count (ptx, "st.global.") == wide_stores + 1, "%d writes, %d wide: %s",
                 count (ptx, "st.global."), wide_stores, texts[_i]);
}
END_TEST

/* A half is rounded once and stored in its rounded form, two at a time where that is no more work:
 * eight elements' conversions. */
START_TEST (halves_are_converted_once)
{
  static const struct {
    const char *type;
    /* bf16: the first is also needed as a float at once, the second is only stored; f16: the second
     * is added without conversion */
    int n;
  } types[] = { { "bf16", 8 + 4 }, { "f16", 4 } };
  for (size_t i = 0; i < G_N_ELEMENTS (types); i++) {
    g_autofree char *text = g_strdup_printf (
        "f (%%x: %s[1024]) -> (%%0, %%1) {\n %%0 = exp %%x\n %%1 = add %%0 %%x\n}", types[i].type);
    g_autofree char *narrow = g_strdup_printf ("cvt.rn.%sx2.f32", types[i].type);
    g_autoptr (GmGraph) g = parse (text);
    g_autofree char *ptx = ptx_of (g);
    /* Takes four times as long. */
    g_autofree char *alone = g_strdup_printf ("cvt.rn.%s.f32", types[i].type);
    ck_assert_msg (count (ptx, narrow) == types[i].n && !strstr (ptx, alone), "%s: %d",
                   types[i].type, count (ptx, narrow));
  }
}
END_TEST

/* Eight elements of x sigmoid(x) + 2 tanh(x) take less time than a GPU needs to copy them: 31
 * instructions each. */
START_TEST (functions_of_halves_are_short)
{
  static const struct {
    const char *what;
    int most[2];                               /* limits for bf16, f16 */
  } counts[] = { { "ex2.approx", { 16, 16 } }, /* the assembler makes one of two */
                 { "rcp.approx", { 16, 16 } },   { "cvt.rn.f16x2", { 0, 8 } },
                 { "cvt.rn.bf16x2", { 36, 0 } }, { "mul.rn.f16x2", { 0, 4 } },
                 { "add.rn.f16x2", { 0, 8 } },   { "fma.rn.f32", { 56, 112 } },
                 { "mul.rn.f32", { 32, 24 } },   { "add.rn.f32", { 16, 8 } } };
  g_autofree char *text = g_strdup_printf (
      "f (%%x: %s[65536]) -> (%%4) {\n %%0 = sigmoid %%x\n %%1 = mul %%x %%0\n %%2 = tanh %%x\n"
      " %%3 = add %%2 %%2\n %%4 = add %%1 %%3\n}",
      _i ? "f16" : "bf16");
  g_autoptr (GmGraph) g = parse (text);
  g_autofree char *ptx = ptx_of (g);
  for (size_t i = 0; i < G_N_ELEMENTS (counts); i++)
    ck_assert_msg (count (ptx, counts[i].what) <= counts[i].most[_i], "%d of %s",
                   count (ptx, counts[i].what), counts[i].what);
}
END_TEST

/* Two blocks share a multiprocessor where each has a row of 32768 halves: one reads while the other
 * computes. */
START_TEST (two_wide_rows_of_halves_are_in_work)
{
  static const char *const texts[] = { HALF_SOFTMAX ("bf16", "1024", "32768"),
                                       HALF_SOFTMAX ("f16", "1024", "32768"),
                                       HALF_LAYER_NORM ("bf16", "1024", "32768"),
                                       SOFTMAX ("f32", "1024", "32768") };
  bool halves = _i < 3;
  g_autoptr (GmGraph) g = parse (texts[_i]);
  g_autofree char *ptx = ptx_of (g);
  ck_assert_msg (!strstr (ptx, ".local"), "%s", texts[_i]);
  ck_assert_msg ((strstr (ptx, ".minnctapersm 2") != NULL) == halves, "%s", texts[_i]);
}
END_TEST

/* A thread's 32 exponentials of f32, 8 fma each, are a loop over 8 of them, since the text of all
 * took too much compile time.  No array is indexed by a value that only the run knows, which would
 * be memory. */
START_TEST (much_of_a_row_is_taken_in_turns)
{
  static const char *const texts[] = {
    SCALED_SOFTMAX ("f32", "1024", "32768"), SOFTMAX ("f32", "1024", "32768"),
    SOFTMAX ("f32", "1024", "30000"),        SCALED_SOFTMAX ("f32", "1024", "32767"),
    GATED_SOFTMAX ("f32", "1024", "20480"),  GATED_SOFTMAX ("f16", "1024", "32768")
  };
  static const int most[] = { 96, 192, 192, 96, 128, 96 };
  g_autoptr (GmGraph) g = parse (texts[_i]);
  g_autofree char *ptx = ptx_of (g);
  ck_assert_msg (!strstr (ptx, ".local"), "%s", texts[_i]);
  ck_assert_msg (count (ptx, "fma.rn.f32") <= most[_i], "%d of fma.rn.f32: %s",
                 count (ptx, "fma.rn.f32"), texts[_i]);
}
END_TEST

/* Returns the number of lines of the code. */
static int
count_instructions (const char *ptx)
{
  return count (ptx, ";\n");
}

/* The text of a row has a budget, whatever its length and the values that are stored, since it
 * determines the compiler's time.  `most` is a little above the present number; with all steps
 * unrolled these would be a quarter more to four times as many. */
static const struct {
  const char *text;
  int most;
} budgets[] = {
  { SOFTMAX ("f32", "1024", "100000"), 500 },
  { LAYER_NORM ("f32", "1024", "100000"), 340 },
  { LAYER_NORM ("f32", "1024", "32767"), 500 },
  { HALF_LAYER_NORM ("bf16", "1024", "1023"), 500 },
  { HALF_LAYER_NORM ("f16", "1024", "32767"), 580 },
  { TRAINED_LOG_SOFTMAX ("f16", "1024", "1023"), 720 },
  { TRAINED_LOG_SOFTMAX ("bf16", "1024", "32767"), 670 },
  { TRAINED_LOG_SOFTMAX ("f32", "1024", "32768"), 680 },
};

START_TEST (text_of_rows_has_a_budget)
{
  g_autoptr (GmGraph) g = parse (budgets[_i].text);
  g_autofree char *ptx = ptx_of (g);
  ck_assert_msg (count (ptx, ".entry") == 1, "%d kernels: %s", count (ptx, ".entry"),
                 budgets[_i].text);
  ck_assert_msg (!strstr (ptx, ".local"), "%s", budgets[_i].text);
  ck_assert_msg (count_instructions (ptx) <= budgets[_i].most, "%d instructions: %s",
                 count_instructions (ptx), budgets[_i].text);
}
END_TEST

/* Every phase reads a row again, two times 16 bytes at once, if a thread has too few registers for
 * its part of the row. */
START_TEST (long_rows_are_read_two_vectors_at_a_time)
{
  static const char *const texts[] = { SOFTMAX ("f32", "1024", "100000"),
                                       SOFTMAX ("f32", "1024", "99999"),
                                       HALF_SOFTMAX ("bf16", "1024", "100000") };
  g_autoptr (GmGraph) g = parse (texts[_i]);
  g_autofree char *ptx = ptx_of (g);
  ck_assert_msg (count (ptx, "ld.global.nc.v4") == 3 * 2, "%d wide reads: %s",
                 count (ptx, "ld.global.nc.v4"), texts[_i]);
  ck_assert_msg (count (ptx, "st.global.v4") == 1, "%d wide writes: %s",
                 count (ptx, "st.global.v4"), texts[_i]);
}
END_TEST

/* The steps of a thread are constant offsets from one address of each memory. */
START_TEST (steps_of_a_row_share_an_address)
{
  static const char *const texts[] = { SOFTMAX ("f32", "1024", "4096"),
                                       SOFTMAX ("f32", "1024", "1023"),
                                       HALF_LAYER_NORM ("bf16", "1024", "4096") };
  /* x and the result, and the same for the ends; weights and a bias */
  static const int most[] = { 2, 4, 4 };
  g_autoptr (GmGraph) g = parse (texts[_i]);
  g_autofree char *ptx = ptx_of (g);
  int n = count (ptx, "mul.wide.u32");
  ck_assert_msg (n <= most[_i], "%d addresses: %s", n, texts[_i]);
}
END_TEST

/* Exponentials are the hardware's estimates where a softmax ends in halves, and in no other
 * case. */
static const struct {
  const char *text;
  bool estimates;
} exponentials[] = {
#define TOP                                                                                        \
  "%0 = amax %a dims=[1] keepdim=true\n %1 = sub %a %0\n %2 = exp %1\n %3 = sum %2 dims=[1] "      \
  "keepdim=true\n"
  { "f (%x: bf16[64, 512]) -> (%5) {\n %a = cast %x dtype=f32\n " TOP
    " %4 = div %2 %3\n %5 = cast %4 dtype=bf16\n}",
    true },
  { "f (%x: f16[64, 512]) -> (%6) {\n %a = cast %x dtype=f32\n " TOP
    " %4 = reciprocal %3\n %5 = mul %2 %4\n %6 = cast %5 dtype=f16\n}",
    true },
  { "f (%a: f32[64, 512]) -> (%4) {\n " TOP " %4 = div %2 %3\n}", false },
  { "f (%x: bf16[64, 512]) -> (%3, %5) {\n %a = cast %x dtype=f32\n " TOP
    " %4 = div %2 %3\n %5 = cast %4 dtype=bf16\n}",
    false },
  { "f (%x: bf16[64, 512]) -> (%5, %6) {\n %a = cast %x dtype=f32\n " TOP
    " %4 = div %2 %3\n %5 = cast %4 dtype=bf16\n %6 = cast %2 dtype=bf16\n}",
    false },
#undef TOP
};

START_TEST (softmax_of_halves_alone_estimates)
{
  g_autoptr (GmGraph) g = parse (exponentials[_i].text);
  g_autofree char *ptx = ptx_of (g);
  ck_assert_msg (count (ptx, ".entry") == 1, "%d kernels: %s", count (ptx, ".entry"),
                 exponentials[_i].text);
  ck_assert_msg ((strstr (ptx, "ex2.approx") != NULL) == exponentials[_i].estimates, "%s",
                 exponentials[_i].text);
}
END_TEST

/* Checks the registers, if the toolkit's assembler is installed. */
START_TEST (kernels_take_few_registers)
{
  g_autofree char *ptxas = g_find_program_in_path ("ptxas"), *out = NULL, *err = NULL;
  if (!ptxas) {
    fprintf (stderr, "SKIPPED: registers are not counted: there is no ptxas\n");
    return;
  }
  size_t n_pointwise = G_N_ELEMENTS (pointwise);
  for (size_t i = 0; i < n_pointwise + G_N_ELEMENTS (rows); i++) {
    const char *graph = i < n_pointwise ? pointwise[i].text : rows[i - n_pointwise].text;
    g_autoptr (GmGraph) g = parse (graph);
    g_autofree char *ptx = ptx_of (g), *file = NULL;
    int fd = g_file_open_tmp ("gramme-XXXXXX.ptx", &file, NULL);
    ck_assert_int_ge (fd, 0);
    ck_assert (g_file_set_contents (file, ptx, -1, NULL));
    g_autofree char *cubin = g_strconcat (file, ".cubin", NULL);
    char *argv[] = { ptxas, "-v", "-arch", "sm_90", "-o", cubin, file, NULL };
    int status, registers = 0;
    g_free (out);
    g_free (err);
    ck_assert (g_spawn_sync (NULL, argv, NULL, 0, NULL, NULL, &out, &err, &status, NULL));
    if (strstr (err, "Unsupported .version")) { /* ptxas is older than the compiler */
      fprintf (stderr, "SKIPPED: registers are not counted: ptxas is older than NVRTC\n");
      remove (file);
      close (fd);
      return;
    }
    const char *used = strstr (err, "Used ");
    ck_assert_msg (status == 0 && used && sscanf (used, "Used %d registers", &registers) == 1,
                   "%s%s", out, err);
    ck_assert_msg (registers <= (i < n_pointwise ? 64 : 80), "%d registers: %s", registers, graph);
    const char *spills = strstr (err, " bytes stack frame, ");
    int spilled = -1,
        allowed =
            i < n_pointwise ? 0
            : strstr (ptx, ".minnctapersm")
                ? 48
                : 16; /* a few bytes of wide bodies for more warps; ptxas of CUDA 13.0 spills 44 */
    ck_assert_msg (
        spills && sscanf (spills, " bytes stack frame, %d bytes spill stores", &spilled) == 1, "%s",
        err);
    ck_assert_msg (spilled <= allowed, "%s%s", graph, err);
    remove (file);
    remove (cubin);
    close (fd);
  }
}
END_TEST

/* One kernel for all sizes: two forms, with indices of 32 and of 64 bits. */
static const struct {
  const char *text, *load;
  int n_loads; /* in both forms */
} symbolic[] = {
  { "f (%x: f32[n], %y: f32[n]) -> (%0) {\n %0 = add %x %y\n}", "ld.global.nc.v4.f32", 4 },
  { "f (%x: f32[n, 64], %w: f32[64]) -> (%1) {\n %0 = mul %x %w\n %1 = tanh %0\n}",
    "ld.global.nc.v4.f32", 4 },
  { "f (%x: f16[n, m]) -> (%0) {\n %0 = neg %x\n}", "ld.global.nc.v4", 2 },
  { "f (%x: f32[n, 512]) -> (%0) {\n %0 = sum %x dims=[1] keepdim=false\n}", "ld.global.nc.v4.f32",
    2 },
  { "f (%x: f32[n, m]) -> (%0) {\n %0 = sum %x dims=[1] keepdim=false\n}", "ld.global.nc.v4.f32",
    2 },
  { "f (%x: f32[n, k], %y: f32[k, m]) -> (%0) {\n %0 = matmul %x %y\n}", "fma.rn.f32", 32 },
};

START_TEST (kernels_of_all_sizes_have_two_index_types_and_wide_accesses)
{
  g_autoptr (GmGraph) g = parse (symbolic[_i].text);
  g_autofree char *ptx = ptx_of (g);
  ck_assert_int_eq (count (ptx, ".entry"), 2);
  ck_assert_int_eq (count (ptx, "_64("), 1);
  ck_assert_msg (count (ptx, symbolic[_i].load) >= symbolic[_i].n_loads, "%s: too few %s",
                 symbolic[_i].text, symbolic[_i].load);
  ck_assert_msg (!strstr (ptx, ".local"), "%s", symbolic[_i].text);
}
END_TEST

/* -- Architectures ----------------------------------------------------------------------------- */

START_TEST (architectures_are_named)
{
  static const char *const good[] = { "arch=sm_75", "arch=sm_80", "arch=sm_90", "arch=compute_90" };
  static const char *const bad[] = { "arch=sm_60", "arch=hopper", "arch=sm_", "arch=sm_9000" };
  g_autoptr (GmGraph) g = parse ("f (%x: bf16[64]) -> (%0) {\n %0 = neg %x\n}");
  for (size_t i = 0; i < G_N_ELEMENTS (good); i++) {
    GError *error = NULL;
    g_autoptr (GmExec) e = compile (g, good[i], &error);
    ck_assert_msg (e != NULL, "%s: %s", good[i], error ? error->message : "");
  }
  for (size_t i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;
    ck_assert_ptr_null (compile (g, bad[i], &error));
    ck_assert_msg (strstr (error->message, "option arch") && strstr (error->message, "90"), "%s",
                   error->message);
  }
}
END_TEST

/* A run reports the missing driver, and the process lives. */
START_TEST (a_run_without_a_driver_is_an_error)
{
  GError *error = NULL;
  g_autoptr (GmGraph) g = parse ("f (%x: f32[64]) -> (%0) {\n %0 = neg %x\n}");
  g_autoptr (GmExec) e = compile (g, ARCH, &error);
  GmTensor *in[1], *out[1];
  ck_assert_ptr_nonnull (e);
  gm_random_inputs (g, 1, GM_RANDOM_TAME, in);
  out[0] = gm_tensor_new (&in[0]->meta, NULL);
  ck_assert (!gm_exec_run (e, 0, in, 1, out, 1, &error));
  ck_assert_msg (strstr (error->message, "/nonexistent/libcuda.so"), "%s", error->message);
  g_clear_error (&error);
  /* For the GPU of this machine, which has none. */
  ck_assert_ptr_null (compile (g, "arch=", &error));
  ck_assert_msg (strstr (error->message, "/nonexistent/libcuda.so"), "%s", error->message);
  g_clear_error (&error);
  gm_tensor_unref (in[0]);
  gm_tensor_unref (out[0]);
}
END_TEST

/* Called outside of a test, so without assertions. */
static bool
has_compiler (void)
{
  static const char *const options[] = { ARCH, NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) graphs =
      gm_graph_parse ("f (%x: f32[4]) -> (%0) {\n %0 = neg %x\n}", &error);
  GmBackend *b = graphs ? gm_backend_get ("nvrtc", &error) : NULL;
  g_autoptr (GmExec) e = b ? gm_backend_compile (b, graphs->pdata[0], NULL, options, &error) : NULL;
  if (!e)
    fprintf (stderr, "SKIPPED: %s\n", error->message);
  return e != NULL;
}

int
main (void)
{
  g_setenv ("GRAMME_CUDA_DRIVER", "/nonexistent/libcuda.so", TRUE);
  g_setenv ("GRAMME_CACHE", "0", FALSE);
  if (!has_compiler ())
    return 77;
  Suite *s = suite_create ("ptx");
  TCase *t = tcase_create ("of generated kernels");
  tcase_set_timeout (t, 600);
  tcase_add_loop_test (t, forms_compile_without_local_memory, 0, G_N_ELEMENTS (forms));
  tcase_add_loop_test (t, pointwise_kernels_read_and_write_16_bytes, 0, G_N_ELEMENTS (pointwise));
  tcase_add_loop_test (t, kernels_of_all_sizes_have_two_index_types_and_wide_accesses, 0,
                       G_N_ELEMENTS (symbolic));
  tcase_add_loop_test (t, rows_are_read_once_in_wide_accesses, 0, G_N_ELEMENTS (rows));
  tcase_add_loop_test (t, ends_of_rows_are_one_element_of_a_thread, 0, 4);
  tcase_add_test (t, halves_are_converted_once);
  tcase_add_loop_test (t, functions_of_halves_are_short, 0, 2);
  tcase_add_loop_test (t, two_wide_rows_of_halves_are_in_work, 0, 4);
  tcase_add_loop_test (t, much_of_a_row_is_taken_in_turns, 0, 6);
  tcase_add_loop_test (t, text_of_rows_has_a_budget, 0, G_N_ELEMENTS (budgets));
  tcase_add_loop_test (t, long_rows_are_read_two_vectors_at_a_time, 0, 3);
  tcase_add_loop_test (t, steps_of_a_row_share_an_address, 0, 3);
  tcase_add_loop_test (t, softmax_of_halves_alone_estimates, 0, G_N_ELEMENTS (exponentials));
  tcase_add_test (t, products_and_sums_are_not_contracted);
  tcase_add_test (t, elementary_functions_take_fast_instructions);
  tcase_add_test (t, kernels_take_few_registers);
  tcase_add_test (t, graphs_of_every_family_compile);
  tcase_add_test (t, fused_graphs_compile);
  tcase_add_test (t, graphs_of_small_dtypes_compile);
  tcase_add_test (t, architectures_are_named);
  tcase_add_test (t, a_run_without_a_driver_is_an_error);
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  /* The back end is open, and the child of a fork could not use it. */
  srunner_set_fork_status (sr, CK_NOFORK);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
