/* SPDX-License-Identifier: Apache-2.0
 * test_host.c -- services of the host for plugins: memory, tiles by name, kernels prepared and not.
 */
#include <check.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/graph/image.h"
#include "core/base/threads.h"
#include "core/ops/packs.h"
#include "core/base/yield.h"
#include "core/run/plugin_host.h"
#include "core/plugin/status.h"
#include "core/tiles/tiles.h"
#include "plugin-api/gramme-plugin-util.h"

START_TEST (the_table_is_complete_and_of_this_version)
{
  const GrammeHost *h = gm_host_new ("org.example.test");
  ck_assert_uint_eq (h->struct_size, sizeof *h);
  ck_assert_uint_eq (h->abi_minor, GRAMME_ABI_MINOR);
  ck_assert (GRAMME_HAS_FN (h, GrammeHost, log) && GRAMME_HAS_FN (h, GrammeHost, get_extension));
  ck_assert_ptr_eq (h->get_extension (h->ctx, GRAMME_KERNELS_ID), gm_host_kernels ());
  ck_assert_ptr_eq (h->get_extension (h->ctx, GRAMME_TILES_ID), gm_host_tiles ());
  ck_assert_ptr_eq (h->get_extension (h->ctx, GRAMME_THREADS_ID), gm_host_threads ());
  static const char *const wrong[] = {
    "", "gramme.tiles", "gramme.tiles/", "gramme.tiles/1", "gramme.tiles/00", "GRAMME.TILES/0"
  };
  for (unsigned i = 0; i < G_N_ELEMENTS (wrong); i++)
    ck_assert_ptr_null (h->get_extension (h->ctx, wrong[i]));
  ck_assert_ptr_null (h->get_extension (h->ctx, NULL));
}
END_TEST

START_TEST (memory_has_the_alignment_asked_for)
{
  const GrammeHost *h = gm_host_new ("org.example.test");
  size_t before = gm_alloc_live_bytes ();
  for (size_t align = 1; align <= 1u << 16; align *= 2) {
    char *p = h->alloc (h->ctx, 100, align);
    ck_assert_ptr_nonnull (p);
    ck_assert_uint_eq ((uintptr_t) p % align, 0);
    memset (p, 1, 100);
    h->free (h->ctx, p, 100, align);
  }
  ck_assert_uint_eq (gm_alloc_live_bytes (), before);
  ck_assert_ptr_null (h->alloc (h->ctx, SIZE_MAX - 8, 4096));
  ck_assert_ptr_null (h->alloc (h->ctx, 8, 96)); /* no power of two */
  void *nothing = h->alloc (h->ctx, 0, 1);
  ck_assert_ptr_nonnull (nothing);
  h->free (h->ctx, nothing, 0, 1);
  h->free (h->ctx, NULL, 100, 64);
}
END_TEST

static int stop_calls;
static bool
stop_at_second (void)
{
  return ++stop_calls >= 2;
}

/* GPP-17, the host's side of it. */
START_TEST (progress_asks_whether_to_stop_and_diagnostics_are_kept)
{
  const GrammeHost *h = gm_host_new ("org.example.test");
  GmCompileJob job;
  gm_compile_job_init (&job);
  ck_assert_int_eq (h->progress (&job, "parse", 1, 2), 0);
  gm_yield_set_interrupt (stop_at_second);
  ck_assert_int_eq (h->progress (&job, "parse", 1, 2), 0);
  ck_assert_int_eq (h->progress (&job, "parse", 2, 2), 1);
  gm_yield_set_interrupt (NULL);
  h->diag (&job, 0, -1, "one", 3);
  h->diag (&job, 0, 7, "two\n", 4);
  h->diag (&job, 0, -1, "bad \xff byte", 10);
  ck_assert_ptr_nonnull (strstr (job.diagnostics->str, "one\nnode 7: two\nbad "));
  ck_assert (g_utf8_validate (job.diagnostics->str, -1, NULL));
  gm_compile_job_clear (&job);
}
END_TEST

/* -- Threads ----------------------------------------------------------------------------------- */

static void
count_task (void *arg, uint32_t i)
{
  __atomic_add_fetch (&((uint32_t *) arg)[i], 1, __ATOMIC_RELAXED);
}

static void
nested_task (void *arg, uint32_t i)
{
  const GrammeThreads *t = gm_host_threads ();
  t->run (t->ctx, 10, count_task, (uint32_t *) arg + 10 * i);
}

/* Runs a graph without Check's assertions, whose lock may be held when the child is made. */
static bool
all_run_once (void)
{
  const GrammeThreads *t = gm_host_threads ();
  bool good = true;
  for (uint32_t n = 0; n <= 200; n += 1 + n / 3) {
    uint32_t hits[200] = { 0 };
    t->run (t->ctx, n, count_task, hits);
    for (uint32_t i = 0; i < 200; i++)
      good = good && hits[i] == (i < n);
  }
  return good;
}

static void *
run_in_thread (void *unused)
{
  bool good = true;
  for (int i = 0; i < 50; i++)
    good = good && all_run_once ();
  return GINT_TO_POINTER (good);
}

START_TEST (every_task_runs_once_also_nested_at_once_and_after_a_fork)
{
  const GrammeThreads *t = gm_host_threads ();
  ck_assert_uint_ge (t->count (t->ctx), 1);
  ck_assert (all_run_once ());
  uint32_t hits[200] = { 0 };
  t->run (t->ctx, 20, nested_task, hits);
  for (uint32_t i = 0; i < 200; i++)
    ck_assert_uint_eq (hits[i], 1);
  GThread *others[4];
  for (int i = 0; i < 4; i++)
    others[i] = g_thread_new ("run", run_in_thread, NULL);
#ifndef __SANITIZE_THREAD__ /* the sanitizer cannot follow a fork while there are threads */
  pid_t child = fork ();    /* a run of another thread may hold the locks now */
  if (child == 0) {
    alarm (20);
    _exit (all_run_once () ? 0 : 1);
  }
  int status = -1;
  ck_assert_int_eq (waitpid (child, &status, 0), child);
  ck_assert_int_eq (status, 0);
#endif
  for (int i = 0; i < 4; i++)
    ck_assert (g_thread_join (others[i]) != NULL);
  ck_assert_uint_lt (gm_threads_started (), t->count (t->ctx));
}
END_TEST

/* -- Tiles ------------------------------------------------------------------------------------- */

static const uint32_t dtypes[] = {
#define DTYPE(code, NAME, ...) GRAMME_DTYPE_##NAME,
#include "core/tensor/dtypes.def"
};
static const int codes[] = {
#define DTYPE(code, NAME, ...) GM_##NAME,
#include "core/tensor/dtypes.def"
};

START_TEST (the_abi_names_every_dtype_and_what_it_is_accumulated_in)
{
  for (unsigned d = 0; d < G_N_ELEMENTS (dtypes); d++) {
    const GmDtypeInfo *info = &gm_dtypes[codes[d]];
    ck_assert_uint_eq (dtypes[d], GRAMME_DTYPE (info->dlpack_code, info->bits));
    ck_assert_uint_eq (GRAMME_DTYPE_BYTES (dtypes[d]), info->size_bytes);
    if (gm_dtype_computes (codes[d])) {
      const GmDtypeInfo *in = &gm_dtypes[gm_dtype_compute (codes[d])];
      ck_assert_uint_eq (gramme_tile_accumulator (dtypes[d]),
                         GRAMME_DTYPE (in->dlpack_code, in->bits));
    }
  }
}
END_TEST

START_TEST (tiles_are_the_hosts_and_their_names_are_unique_identifiers)
{
  const GrammeTiles *t = gm_host_tiles ();
  const char *why;
  const GmTiles *own = gm_tiles_get (&why);
  g_autoptr (GHashTable) names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  ck_assert_ptr_nonnull (t);
  ck_assert_uint_eq (t->tile_elems, GM_TILE);
  ck_assert_str_eq (t->isa, own->isa);
  for (uint32_t kind = GRAMME_TILE_POINTWISE; kind <= GRAMME_TILE_MATMUL; kind++)
    for (uint32_t op = 0; op < 130; op++)
      for (unsigned d = 0; d < G_N_ELEMENTS (dtypes); d++) {
        char name[GRAMME_TILE_NAME_BYTES] = "";
        GrammeTileFn f = t->find (t->ctx, kind, op, dtypes[d], GRAMME_DTYPE_F32, name);
        if (kind == GRAMME_TILE_POINTWISE && op < GM_N_OPS && gm_ops[op].name)
          ck_assert (f == (GrammeTileFn) own->pointwise ((int) op, codes[d]));
        if (kind == GRAMME_TILE_FOLD && op < GM_N_OPS && gm_ops[op].name)
          ck_assert (f == (GrammeTileFn) own->fold ((int) op, codes[d]));
        if (kind == GRAMME_TILE_CAST)
          ck_assert (f == (GrammeTileFn) own->cast (GM_F32, codes[d]));
        if (!f)
          continue;
        ck_assert (g_str_has_prefix (name, "gm_tile_"));
        for (const char *c = name; *c; c++)
          ck_assert (g_ascii_isalnum (*c) || *c == '_');
        void *known = g_hash_table_lookup (names, name);
        ck_assert_msg (!known || known == (void *) f, "%s names two primitives", name);
        g_hash_table_insert (names, g_strdup (name), (void *) f);
      }
  ck_assert_uint_gt (g_hash_table_size (names), 200);
  ck_assert (!t->find (t->ctx, GRAMME_TILE_POINTWISE, GRAMME_OP_add, GRAMME_DTYPE_F8E4M3, 0, NULL));
  ck_assert (!t->find (t->ctx, GRAMME_TILE_MATMUL, 0, GRAMME_DTYPE_F16, 0, NULL));
  ck_assert (t->find (t->ctx, GRAMME_TILE_POINTWISE, GRAMME_OP_add, 0, 0, NULL) == NULL);
  ck_assert (t->find (t->ctx, 99, GRAMME_OP_add, GRAMME_DTYPE_F32, 0, NULL) == NULL);
}
END_TEST

START_TEST (tiles_with_a_dtype_of_their_own_compute)
{
  const GrammeTiles *t = gm_host_tiles ();
  GrammeTileMatmul matmul =
      (GrammeTileMatmul) t->find (t->ctx, GRAMME_TILE_MATMUL, 0, GRAMME_DTYPE_F64, 0, NULL);
  const double a[6] = { 1, 2, 3, 4, 5, 6 }, b[6] = { 1, 0, 2, 1, 0, 3 };
  double c[4], want[4] = { 5, 11, 14, 23 };
  matmul (2, 2, 3, a, 3, 1, b, 2, 1, c, 2);
  ck_assert_mem_eq (c, want, sizeof c);

  float zero = 7, low = 7;
  ck_assert_int_eq (t->reduce_init (t->ctx, GRAMME_OP_sum, GRAMME_DTYPE_F32, &zero), GRAMME_OK);
  ck_assert_int_eq (t->reduce_init (t->ctx, GRAMME_OP_amax, GRAMME_DTYPE_F32, &low), GRAMME_OK);
  ck_assert_int_eq (t->reduce_init (t->ctx, GRAMME_OP_add, GRAMME_DTYPE_F32, &low),
                    GRAMME_NOT_FOUND);
  ck_assert (zero == 0 && isinf (low) && low < 0);

  GrammeTileRandom uniform =
      (GrammeTileRandom) t->find (t->ctx, GRAMME_TILE_UNIFORM, 0, GRAMME_DTYPE_F32, 0, NULL);
  float x[8], y[4];
  uniform (x, 42, 1, 0, 8);
  uniform (y, 42, 1, 4, 4);
  ck_assert_mem_eq (x + 4, y, sizeof y);
  ck_assert (t->find (t->ctx, GRAMME_TILE_UNIFORM, 0, GRAMME_DTYPE_I32, 0, NULL) == NULL);
}
END_TEST

/* -- Kernels ----------------------------------------------------------------------------------- */

static GrammeTensor
tensor (float *data, int64_t *shape, int64_t *strides)
{
  return (GrammeTensor){ .data = data,
                         .device_type = 1,
                         .ndim = 2,
                         .dtype_code = 2,
                         .dtype_bits = 32,
                         .dtype_lanes = 1,
                         .shape = shape,
                         .strides = strides };
}

START_TEST (a_node_runs_unprepared_on_other_strides_than_the_images)
{
  g_autoptr (GPtrArray) graphs = gm_graph_parse ("g (%x: f32[2, 3], %y: f32[2, 3]) -> (%1) {\n %0 "
                                                 "= sub %x %y\n %1 = permute %0 dims=[1, 0]\n}",
                                                 NULL);
  g_autoptr (GmImage) image = gm_image_new (graphs->pdata[0], NULL);
  const GrammeKernels *k = gm_host_kernels ();
  float x[6] = { 1, 2, 3, 4, 5, 6 }, y[6] = { 10, 20, 30, 40, 50, 60 }, out[6] = { 0 };
  int64_t shape[2] = { 2, 3 }, rows[2] = { 3, 1 }, columns[2] = { 1, 2 }, wrong[2] = { 3, 2 };
  GrammeTensor in[2] = { tensor (x, shape, rows), tensor (y, shape, columns) },
               result = tensor (out, shape, columns);
  GrammeStatus status;
  gm_status_clear (&status);
  ck_assert_int_eq (k->run_node (k->ctx, image->bytes, 0, in, 2, &result, &status), GRAMME_OK);
  const float want[6] = { 1 - 10, 4 - 20, 2 - 30, 5 - 40, 3 - 50, 6 - 60 };
  ck_assert_mem_eq (out, want, sizeof out);

  ck_assert_int_eq (k->run_node (k->ctx, image->bytes, 0, in, 1, &result, &status), GRAMME_INVALID);
  in[0].shape = wrong;
  ck_assert_int_eq (k->run_node (k->ctx, image->bytes, 0, in, 2, &result, &status), GRAMME_INVALID);
  ck_assert_ptr_nonnull (strstr (status.message, "tensor 0"));
  ck_assert_int_eq (k->run_node (k->ctx, image->bytes, 1, in, 1, &result, NULL),
                    GRAMME_INVALID); /* a view: nothing to run */
}
END_TEST

START_TEST (a_prepared_kernel_outlives_the_image)
{
  g_autoptr (GPtrArray) graphs =
      gm_graph_parse ("g (%x: f32[2, 3]) -> (%0) {\n %0 = sum %x dims=[1] keepdim=false\n}", NULL);
  GmImage *image = gm_image_new (graphs->pdata[0], NULL);
  const GrammeKernels *k = gm_host_kernels ();
  GrammeKernel *kernel;
  ck_assert_int_eq (k->prepare (k->ctx, image->bytes, 0, &kernel, NULL), GRAMME_OK);
  gm_image_free (image);
  float x[6] = { 1, 2, 3, 4, 5, 6 }, out[2];
  void *data[2] = { x, out };
  ck_assert_int_eq (k->run (kernel, data, NULL), GRAMME_OK);
  ck_assert (out[0] == 6 && out[1] == 15);
  k->release (kernel);
}
END_TEST

/* One right-hand side, and two views of one value that lie at different places; twice, with other
 * numbers in the memory of the first. */
START_TEST (a_right_hand_side_is_packed_once_in_a_run_and_never_for_the_next_run)
{
  g_autoptr (GPtrArray) graphs = gm_graph_parse (
      "g (%x: f32[16, 64], %w: f32[96, 128]) -> (%5, %6, %7, %8) {\n"
      " %0 = slice %w dim=1 start=0 stop=64 step=1\n %1 = slice %w dim=1 start=64 stop=128 step=1\n"
      " %2 = permute %0 dims=[1, 0]\n %3 = permute %1 dims=[1, 0]\n %4 = permute %0 dims=[1, 0]\n"
      " %5 = matmul %x %2\n %6 = matmul %x %3\n %7 = matmul %x %4\n %8 = matmul %x %2\n}",
      NULL);
  g_autoptr (GmImage) image = gm_image_new (graphs->pdata[0], NULL);
  const GrammeKernels *k = gm_host_kernels ();
  static float x[16 * 64], w[96 * 128], out[16 * 96], want[16 * 96];
  GrammeKernel *kernels[4];
  for (uint32_t i = 0; i < 4; i++)
    ck_assert_int_eq (k->prepare (k->ctx, image->bytes, 5 + i, &kernels[i], NULL), GRAMME_OK);
  static const bool second[4] = { false, true, false, false };
  size_t before = gm_alloc_live_bytes ();
  for (int run = 0; run < 3; run++) {
    for (size_t i = 0; i < G_N_ELEMENTS (x); i++)
      x[i] = (float) (i * 7 % 13) - 6.5f;
    for (size_t i = 0; i < G_N_ELEMENTS (w); i++)
      w[i] = (float) (i * 31 % (17 + (size_t) run)) / 8;
    uint64_t made = gm_packs_made ();
    bool outer = run < 2 ? gm_packs_begin () : false; /* the third is no run: nothing is kept */
    for (int i = 0; i < 4; i++) {
      const float *from = second[i] ? w + 64 : w;
      gm_tile_matmul (GM_F32, 16, 96, 64, x, 64, 1, from, 1, 128, want, 96);
      memset (out, 0xff, sizeof out);
      ck_assert_int_eq (k->run (kernels[i], (void *[]){ x, (void *) from, out }, NULL), GRAMME_OK);
      ck_assert_mem_eq (out, want, sizeof out);
    }
    if (run < 2)
      gm_packs_end (outer);
    ck_assert_uint_eq (gm_packs_made () - made, run < 2 ? 1 : 0);
    ck_assert_uint_eq (gm_alloc_live_bytes (), before);
  }
  for (int i = 0; i < 4; i++)
    k->release (kernels[i]);
}
END_TEST

START_TEST (view_offsets_are_in_bytes)
{
  g_autoptr (GPtrArray) graphs = gm_graph_parse (
      "g (%x: f64[4, 6]) -> (%0, %1) {\n %0 = slice %x dim=1 start=2 stop=6 step=3\n"
      " %1 = slice %x dim=0 start=3 stop=4 step=1\n %2 = permute %x dims=[1, 0]\n %3 = exp %x\n}",
      NULL);
  g_autoptr (GmImage) image = gm_image_new (graphs->pdata[0], NULL);
  const GrammeKernels *k = gm_host_kernels ();
  int64_t offset;
  ck_assert_int_eq (k->view_offset (k->ctx, image->bytes, 0, &offset, NULL), GRAMME_OK);
  ck_assert_int_eq (offset, 2 * 8);
  ck_assert_int_eq (k->view_offset (k->ctx, image->bytes, 1, &offset, NULL), GRAMME_OK);
  ck_assert_int_eq (offset, 3 * 6 * 8);
  ck_assert_int_eq (k->view_offset (k->ctx, image->bytes, 2, &offset, NULL), GRAMME_OK);
  ck_assert_int_eq (offset, 0);
  ck_assert_int_eq (k->view_offset (k->ctx, image->bytes, 3, &offset, NULL), GRAMME_INVALID);
}
END_TEST

/* GPP-2, the host's own helper. */
START_TEST (a_short_status_is_not_written_past_its_end)
{
  struct {
    uint32_t struct_size;
    char rest[28];
  } small = { .struct_size = 32 };
  memset (small.rest, 'x', sizeof small.rest);
  char before[28];
  memcpy (before, small.rest, sizeof before);
  ck_assert_int_eq (
      gramme_fail ((GrammeStatus *) (void *) &small, GRAMME_INVALID, -1, "a long message"),
      GRAMME_INVALID);
  ck_assert_int_eq (
      gm_status_set ((GrammeStatus *) (void *) &small, GRAMME_INVALID, -1, "a long message"),
      GRAMME_INVALID);
  ck_assert_mem_eq (small.rest, before, sizeof before);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("host");
  TCase *t = tcase_create ("host");
  tcase_add_test (t, the_table_is_complete_and_of_this_version);
  tcase_add_test (t, memory_has_the_alignment_asked_for);
  tcase_add_test (t, progress_asks_whether_to_stop_and_diagnostics_are_kept);
  tcase_add_test (t, every_task_runs_once_also_nested_at_once_and_after_a_fork);
  tcase_add_test (t, the_abi_names_every_dtype_and_what_it_is_accumulated_in);
  tcase_add_test (t, tiles_are_the_hosts_and_their_names_are_unique_identifiers);
  tcase_add_test (t, tiles_with_a_dtype_of_their_own_compute);
  tcase_add_test (t, a_node_runs_unprepared_on_other_strides_than_the_images);
  tcase_add_test (t, a_prepared_kernel_outlives_the_image);
  tcase_add_test (t, a_right_hand_side_is_packed_once_in_a_run_and_never_for_the_next_run);
  tcase_add_test (t, view_offsets_are_in_bytes);
  tcase_add_test (t, a_short_status_is_not_written_past_its_end);
  suite_add_tcase (s, t);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failures = srunner_ntests_failed (r);
  srunner_free (r);
  return failures ? 1 : 0;
}
