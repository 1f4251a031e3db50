/* SPDX-License-Identifier: Apache-2.0
 * test_codegen.c -- text of the code generator, compared with the reference to the bit, between
 * guard pages.
 *
 * Many random graphs go into one unit of C, so that a compiler is started once for all of them.
 * Each is printed twice: with vectors, and as the driver over tiles that tcc gets.  Inputs, outputs
 * and the workspace end where an inaccessible page begins, or begin where one ends.  In every
 * second graph all loops are divided into parts, for threads.
 *
 * GM_FUZZ_KERNELS sets the number of graphs of each kind (default 100), GM_FUZZ_SEED the first
 * seed.
 */
#include "core/run/plugin_host.h"
#include "plugins/cc/job.h"
#include "plugins/cc/cc_unit.h"
#include "core/graph/image.h"
#include "core/run/exec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/random_graph.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BATCH 32

typedef int (*Entry) (void *const *in, void *const *out, char *ws, const int64_t *sizes,
                      void *status);

/* -- Memory between guard pages ---------------------------------------------------------------- */

typedef struct {
  char *map, *data;
  size_t bytes, mapped;
} Guarded;

/* Returns memory whose first byte follows a guard page, or whose last byte precedes one. */
static Guarded
guarded_new (size_t bytes, bool at_end, size_t align)
{
  size_t page = (size_t) sysconf (_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
  Guarded g = { .bytes = bytes, .mapped = room + 2 * page };
  g.map = mmap (NULL, g.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert (g.map != MAP_FAILED);
  ck_assert (room == 0 || mprotect (g.map + page, room, PROT_READ | PROT_WRITE) == 0);
  g.data = g.map + page + (at_end ? (room - bytes) / align * align : 0);
  return g;
}

static void
guarded_free (Guarded *g)
{
  munmap (g->map, g->mapped);
}

/* -- A program of one graph -------------------------------------------------------------------- */

typedef struct {
  GmRandomGraph options;
  GmArena *arena;
  GmGraph *graph;
  GmImage *image;
  GrammeTensor *constants;
  struct {
    CgProgram program;
    CgText text;
    char prefix[32], name[32];
  } by[2]; /* vectors, tiles */
} Kernel;

static const char *const forms[] = { "vectors", "tiles" };

static void
fail_with (const Kernel *k, const char *what)
{
  g_autofree char *text = gm_graph_text (k->graph);
  ck_abort_msg ("seed %" G_GUINT64_FORMAT ": %s\n%s", k->options.seed, what, text);
}

/* Prints both texts of the graph's image. */
static void
kernel_print (Kernel *k, uint32_t number)
{
  GrammeStatus status;
  gramme_status_init (&status);
  for (int form = 0; form < 2; form++) {
    snprintf (k->by[form].prefix, sizeof k->by[form].prefix, "%c%u_", form ? 't' : 'v', number);
    snprintf (k->by[form].name, sizeof k->by[form].name, "%srun", k->by[form].prefix);
    int32_t code = codegen_build (&k->by[form].program, k->image->bytes, k->constants,
                                  gm_host_tiles (), gm_host_kernels (), &status);
    if (k->options.seed % 2)
      k->by[form].program.threads = gm_host_threads ();
    if (code != GRAMME_OK
        || codegen_print_c (&k->by[form].program, k->by[form].name, k->by[form].prefix,
                            gm_host_source (), form == 0, &k->by[form].text, &status)
               != GRAMME_OK)
      fail_with (k, status.message);
  }
}

static void
kernel_make (Kernel *k, uint32_t number)
{
  GError *error = NULL;
  k->arena = gm_arena_new ();
  k->graph = gm_random_graph (&k->options, k->arena);
  gm_fuzz_make_outputs_dense (k->graph);
  k->image = gm_image_new (k->graph, &error);
  if (!k->image)
    fail_with (k, error->message);
  uint32_t n = k->image->constants->len;
  k->constants = g_new0 (GrammeTensor, n + 1);
  for (uint32_t i = 0; i < n; i++)
    gm_exec_describe (&k->constants[i], k->image->constants->pdata[i]);
  if (k->options.seed % 2)
    g_setenv ("GM_PARTS", k->options.seed % 4 == 1 ? "2" : "5", TRUE);
  kernel_print (k, number);
}

static void
kernel_free (Kernel *k)
{
  for (int form = 0; form < 2; form++) {
    codegen_text_free (&k->by[form].text, gm_host_kernels ());
    codegen_free (&k->by[form].program);
  }
  g_free (k->constants);
  gm_image_free (k->image);
  g_clear_pointer (&k->arena, gm_arena_free);
}

static size_t
extent_bytes (const GmMeta *m)
{
  return (size_t) gm_meta_extent (m) * gm_dtype_size (m->dtype);
}

static void
kernel_run (Kernel *k, const CcCode *code, int form, bool at_end, GmRandomNumbers numbers)
{
  const GmGraph *g = k->graph;
  uint32_t n_in = g->inputs->len, n_out = g->outputs->len;
  g_autofree GmTensor **in = g_new0 (GmTensor *, n_in + 1), **want = g_new0 (GmTensor *, n_out + 1);
  g_autofree Guarded *memory = g_new0 (Guarded, n_in + n_out + 1);
  g_autofree void **from = g_new0 (void *, n_in + 1), **to = g_new0 (void *, n_out + 1);
  GError *error = NULL;
  GrammeStatus status;
  gramme_status_init (&status);
  gm_random_inputs (g, k->options.seed, numbers, in);
  if (!gm_graph_interpret (g, in, want, &error))
    fail_with (k, error->message);
  for (uint32_t i = 0; i < n_in; i++) {
    memory[i] = guarded_new (extent_bytes (&in[i]->meta), at_end, 1);
    memcpy (memory[i].data, gm_tensor_data (in[i]), memory[i].bytes);
    from[i] = memory[i].data;
  }
  for (uint32_t i = 0; i < n_out; i++) {
    memory[n_in + i] = guarded_new (extent_bytes (&want[i]->meta), at_end, 1);
    memset (memory[n_in + i].data, 0xa5, memory[n_in + i].bytes);
    to[i] = memory[n_in + i].data;
  }
  Guarded *ws = &memory[n_in + n_out];
  *ws = guarded_new (k->by[form].text.ws_bytes, at_end, 64);
  memset (ws->data, 0x5a, ws->bytes);
  Entry entry = (Entry) cc_symbol (code, k->by[form].name);
  ck_assert (entry != NULL);
  if (entry (from, to, ws->data, NULL, &status) != GRAMME_OK)
    fail_with (k, status.message);
  for (uint32_t i = 0; i < n_out; i++) {
    GmTensor *got =
        gm_tensor_new (gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value), NULL);
    g_autofree char *why = NULL;
    memcpy (gm_tensor_data (got), to[i], memory[n_in + i].bytes);
    if (!gm_random_equal (want[i], got, false, &why)) {
      g_autofree char *text = g_strdup_printf ("%s, memory %s a guard page, output %u: %s",
                                               forms[form], at_end ? "before" : "behind", i, why);
      fail_with (k, text);
    }
    gm_tensor_unref (got);
    gm_tensor_unref (want[i]);
  }
  for (uint32_t i = 0; i < n_in; i++)
    gm_tensor_unref (in[i]);
  for (uint32_t i = 0; i <= n_in + n_out; i++)
    guarded_free (&memory[i]);
}

/* -- Many in one unit -------------------------------------------------------------------------- */

static CcJob *
start (Kernel *kernels, uint32_t n, const CgSource *source, CgText *externals)
{
  g_autofree CgText **parts = g_new0 (CgText *, 2 * n);
  const GrammeSource *host = gm_host_source ();
  GrammeStatus status;
  size_t len;
  for (uint32_t i = 0; i < 2 * n; i++)
    parts[i] = &kernels[i / 2].by[i % 2].text;
  char *text = cc_unit_text (source, parts, 2 * n, externals, &len);
  ck_assert (text != NULL);
  g_autofree char *flags = g_strdup_printf ("%s %s", host->flags, CC_UNIT_FLAGS);
  const char *compiler = g_getenv ("GRAMME_CC") ? g_getenv ("GRAMME_CC") : CC_DEFAULT_COMPILER;
  gramme_status_init (&status);
  CcJob *job = cc_job_start (compiler, flags, text, len, CC_JOB_LIMIT_S, &status);
  ck_assert_msg (job != NULL, "%s", status.message);
  return job;
}

static void
run_batch (Kernel *kernels, uint32_t n, CcJob *job, CgText *externals, GmRandomNumbers numbers)
{
  GrammeStatus status;
  CcCode code;
  size_t bytes;
  gramme_status_init (&status);
  ck_assert_msg (cc_job_wait (job) == CC_JOB_DONE, "%s", cc_job_message (job));
  const void *artefact = cc_job_artefact (job, &bytes);
  int32_t result = cc_load (&code, artefact, bytes, &status);
  if (result == GRAMME_OK)
    result = cc_unit_bind (&code, externals, gm_host_source (), &status);
  for (uint32_t i = 0; i < 2 * n && result == GRAMME_OK; i++)
    result = cc_unit_bind (&code, &kernels[i / 2].by[i % 2].text, gm_host_source (), &status);
  ck_assert_msg (result == GRAMME_OK, "%s", status.message);
  for (uint32_t i = 0; i < n; i++)
    for (int form = 0; form < 2; form++)
      for (int at_end = 0; at_end < 2; at_end++)
        kernel_run (&kernels[i], &code, form, at_end, numbers);
  cc_unload (&code);
  cc_job_free (job);
}

static void
compare_many (GmRandomGraph options)
{
  uint64_t n = gm_fuzz_number ("GM_FUZZ_KERNELS", 100), first = gm_fuzz_number ("GM_FUZZ_SEED", 1);
  CgSource *source = codegen_source_new (gm_host_source ()->text);
  for (uint64_t done = 0; done < n; done += BATCH) {
    uint32_t take = n - done < BATCH ? (uint32_t) (n - done) : BATCH;
    g_autofree Kernel *kernels = g_new0 (Kernel, take);
    for (uint32_t i = 0; i < take; i++) {
      kernels[i].options = options;
      kernels[i].options.seed = first + done + i;
      kernel_make (&kernels[i], i);
    }
    CgText externals;
    CcJob *job = start (kernels, take, source, &externals);
    run_batch (kernels, take, job, &externals, GM_RANDOM_WILD);
    codegen_text_free (&externals, gm_host_kernels ());
    for (uint32_t i = 0; i < take; i++)
      kernel_free (&kernels[i]);
  }
  codegen_source_free (source);
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
                                 .families = 1u << GM_FAMILY_POINTWISE | 1u << GM_FAMILY_REDUCE
                                             | 1u << GM_FAMILY_CAST | 1u << GM_FAMILY_MOVEMENT
                                             | 1u << GM_FAMILY_CREATE });
}
END_TEST

START_TEST (kernels_of_small_dtypes_give_the_reference_bits)
{
  compare_many ((GmRandomGraph){ .strided = true,
                                 .defined_only = true,
                                 .dtypes = 1u << GM_F16 | 1u << GM_BF16 | 1u << GM_I8 | 1u << GM_I16
                                           | 1u << GM_F8E4M3 | 1u << GM_F8E5M2 });
}
END_TEST

START_TEST (kernels_over_long_rows_give_the_reference_bits)
{
  compare_many ((GmRandomGraph){ .strided = true,
                                 .defined_only = true,
                                 .wide = true,
                                 .n_nodes = 12,
                                 .families = 1u << GM_FAMILY_POINTWISE | 1u << GM_FAMILY_REDUCE
                                             | 1u << GM_FAMILY_CAST | 1u << GM_FAMILY_MOVEMENT });
}
END_TEST

START_TEST (kernels_over_far_strides_give_the_reference_bits)
{
  compare_many (
      (GmRandomGraph){ .strided = true, .far = true, .defined_only = true, .n_nodes = 8 });
}
END_TEST

/* Rows that are 2^33 bytes apart: an address computed in 32 bits would be that of another row, or
 * invalid.  Only the touched parts of the input are memory; its twin for the reference is dense. */
START_TEST (strides_beyond_32_bits_lead_to_the_right_element)
{
  enum { ROWS = 3, COLUMNS = 37 };
  const int64_t apart = (int64_t) 1 << 31; /* elements */
  const size_t mapped = ((size_t) apart * (ROWS - 1) + COLUMNS) * sizeof (float);
  float *x = mmap (NULL, mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (x == MAP_FAILED) /* a limit on addresses */
    return;
  GError *error = NULL;
  GrammeStatus status;
  gramme_status_init (&status);
  g_autoptr (GPtrArray) graphs =
      gm_graph_parse ("f (%x: f32[3, 37]) -> (%1, %2, %3) {\n  %0 = mul %x %x : f32[3, 37]\n  %1 = "
                      "sub %0 %x : f32[3, 37]\n"
                      "  %2 = sum %0 dims=[1] keepdim=false : f32[3]\n  %3 = sum %x dims=[0] "
                      "keepdim=false : f32[37]\n}\n",
                      &error);
  ck_assert_msg (graphs != NULL, "%s", error ? error->message : "");
  GmGraph *g = graphs->pdata[0];
  GmTensor *in[1], *want[3];
  gm_random_inputs (g, 7, GM_RANDOM_TAME, in);
  ck_assert (gm_graph_interpret (g, in, want, &error));
  for (int r = 0; r < ROWS; r++)
    memcpy (x + r * apart, (float *) gm_tensor_data (in[0]) + r * COLUMNS, COLUMNS * sizeof *x);
  gm_graph_meta (g, g_array_index (g->inputs, GmValueId, 0))->strides[0] = apart;
  Kernel k = { .graph = g,
               .image = gm_image_new (g, &error),
               .constants = g_new0 (GrammeTensor, 1) };
  ck_assert_msg (k.image != NULL, "%s", error ? error->message : "");
  kernel_print (&k, 0);
  CgSource *source = codegen_source_new (gm_host_source ()->text);
  CgText externals;
  CcCode code;
  size_t bytes;
  CcJob *job = start (&k, 1, source, &externals);
  ck_assert_msg (cc_job_wait (job) == CC_JOB_DONE, "%s", cc_job_message (job));
  const void *artefact = cc_job_artefact (job, &bytes);
  ck_assert (cc_load (&code, artefact, bytes, &status) == GRAMME_OK
             && cc_unit_bind (&code, &externals, gm_host_source (), &status) == GRAMME_OK);
  for (int form = 0; form < 2; form++) {
    ck_assert (cc_unit_bind (&code, &k.by[form].text, gm_host_source (), &status) == GRAMME_OK);
    g_autofree char *ws = g_malloc (k.by[form].text.ws_bytes + 1);
    void *to[3];
    float got[3][ROWS * COLUMNS];
    for (int i = 0; i < 3; i++)
      to[i] = got[i];
    Entry entry = (Entry) cc_symbol (&code, k.by[form].name);
    ck_assert_int_eq (entry ((void *[]){ x }, to, ws, NULL, &status), GRAMME_OK);
    for (int i = 0; i < 3; i++)
      ck_assert_msg (memcmp (got[i], gm_tensor_data (want[i]),
                             (size_t) gm_meta_numel (&want[i]->meta) * sizeof (float))
                         == 0,
                     "%s, output %d", forms[form], i);
  }
  cc_unload (&code);
  cc_job_free (job);
  codegen_text_free (&externals, gm_host_kernels ());
  codegen_source_free (source);
  kernel_free (&k);
  gm_tensor_unref (in[0]);
  for (int i = 0; i < 3; i++)
    gm_tensor_unref (want[i]);
  munmap (x, mapped);
}
END_TEST

/* %0 is small and not needed any more when %2 comes, which does not fit in its place; placed in the
 * order of creation a hole would stay. */
START_TEST (temporaries_take_no_more_than_what_lives_at_one_time)
{
  GError *error = NULL;
  g_autoptr (GPtrArray) graphs = gm_graph_parse (
      "f (%x: f32[64, 64], %y: f32[64, 128]) -> (%4) {\n  %0 = matmul %x %x\n  %1 = matmul %0 %y\n"
      "  %2 = matmul %x %y\n  %3 = permute %1 dims=[1, 0]\n  %4 = matmul %3 %2\n}\n",
      &error);
  ck_assert_msg (graphs != NULL, "%s", error ? error->message : "");
  Kernel k = { .graph = graphs->pdata[0],
               .image = gm_image_new (graphs->pdata[0], &error),
               .constants = g_new0 (GrammeTensor, 1) };
  ck_assert_msg (k.image != NULL, "%s", error ? error->message : "");
  kernel_print (&k, 0);
  ck_assert_uint_eq (k.by[0].program.temp_bytes, 2 * 64 * 128 * sizeof (float));
  kernel_free (&k);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("codegen");
  TCase *t = tcase_create ("kernels");
  tcase_set_timeout (t, 600);
  tcase_add_test (t, kernels_of_every_family_give_the_reference_bits);
  tcase_add_test (t, fused_kernels_give_the_reference_bits);
  tcase_add_test (t, kernels_of_small_dtypes_give_the_reference_bits);
  tcase_add_test (t, kernels_over_long_rows_give_the_reference_bits);
  tcase_add_test (t, kernels_over_far_strides_give_the_reference_bits);
  tcase_add_test (t, strides_beyond_32_bits_lead_to_the_right_element);
  tcase_add_test (t, temporaries_take_no_more_than_what_lives_at_one_time);
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
