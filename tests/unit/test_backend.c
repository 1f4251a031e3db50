/* SPDX-License-Identifier: Apache-2.0
 * test_backend.c -- graphs through the boundary: the eager plugin against the interpreter, bit by
 * bit; fallback; errors; repeated runs.
 *
 * Needs the plugins eager and null, from GRAMME_PLUGIN_PATH or the install folder.
 */
#include <math.h>

#include "core/base/error.h"
#include "core/run/backend.h"
#include "tests/plugin/hostile.h"

/* -- Helpers ----------------------------------------------------------------------------------- */

static GmGraph *
parse (const char *text, GPtrArray **owner)
{
  g_autoptr (GError) error = NULL;
  *owner = gm_graph_parse (text, &error);
  ck_assert_msg (*owner, "%s", error ? error->message : "");
  return (*owner)->pdata[0];
}

static GmBackend *
backend (const char *name)
{
  g_autoptr (GError) error = NULL;
  GmBackend *b = gm_backend_get (name, &error);
  ck_assert_msg (b, "%s", error ? error->message : "");
  return b;
}

/* Returns a tensor of small numbers, different in each element, with some special floats. */
static GmTensor *
filled (const GmMeta *m, unsigned seed)
{
  GmTensor *t = gm_tensor_new (m, NULL);
  ck_assert_ptr_nonnull (t);
  static const double special[] = { NAN, INFINITY, -INFINITY, -0.0, 1e-41, 3e38 };
  int64_t index[GM_MAX_DIMS] = { 0 }, n = gm_meta_numel (m);
  for (int64_t i = 0; i < n; i++) {
    unsigned r = (unsigned) i * 2654435761u + seed * 40503u;
    double x = (double) (r >> 8 & 0xffff) / 9973.0 - 3.0;
    if (gm_dtypes[m->dtype].category != GM_CATEGORY_FLOAT)
      gm_tensor_set (
          t, index,
          gm_scalar_int (m->dtype == GM_BOOL ? (int64_t) (r >> 9 & 1) : (int64_t) (r >> 9 & 3)));
    else
      gm_tensor_set (t, index, gm_scalar_float (r % 41 == 7 ? special[i % 6] : x));
    for (int d = m->ndim - 1; d >= 0 && ++index[d] == m->sizes[d]; d--)
      index[d] = 0;
  }
  return t;
}

static void
same_bits (const GmTensor *a, const GmTensor *b, const char *what)
{
  ck_assert_int_eq (a->meta.dtype, b->meta.dtype);
  ck_assert (gm_meta_same_shape (&a->meta, &b->meta));
  size_t size = gm_dtype_size (a->meta.dtype);
  int64_t index[GM_MAX_DIMS] = { 0 }, n = gm_meta_numel (&a->meta);
  for (int64_t i = 0; i < n; i++) {
    int64_t at_a = 0, at_b = 0;
    for (int d = 0; d < a->meta.ndim; d++) {
      at_a += index[d] * a->meta.strides[d];
      at_b += index[d] * b->meta.strides[d];
    }
    const char *x = (const char *) gm_tensor_data (a) + at_a * (int64_t) size,
               *y = (const char *) gm_tensor_data (b) + at_b * (int64_t) size;
    ck_assert_msg (memcmp (x, y, size) == 0, "%s: element %d differs: %.17g, %.17g", what, (int) i,
                   gm_scalar_as_double (gm_scalar_load (a->meta.dtype, x)),
                   gm_scalar_as_double (gm_scalar_load (b->meta.dtype, y)));
    for (int d = a->meta.ndim - 1; d >= 0 && ++index[d] == a->meta.sizes[d]; d--)
      index[d] = 0;
  }
}

/* Returns memory for an output, filled with a pattern that would show if it were not written. */
static GmTensor *
output_for (const GmGraph *g, uint32_t i)
{
  const GmMeta *m = gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value);
  GmMeta line = gm_meta_make (m->dtype, 1, (const int64_t[]){ gm_meta_extent (m) });
  g_autoptr (GmTensor) memory = gm_tensor_new (&line, NULL);
  ck_assert_ptr_nonnull (memory);
  if (memory->storage->bytes)
    memset (memory->storage->data, 0xa5, memory->storage->bytes);
  return gm_tensor_new_view (memory, m, 0); /* strides with gaps are possible, too */
}

typedef struct {
  GmTensor **in, **out, **want;
  int n_in, n_out;
} Io;

static Io
io_new (const GmGraph *g)
{
  Io io = { .n_in = (int) g->inputs->len, .n_out = (int) g->outputs->len };
  io.in = g_new0 (GmTensor *, io.n_in + 1);
  io.out = g_new0 (GmTensor *, io.n_out + 1);
  io.want = g_new0 (GmTensor *, io.n_out + 1);
  for (int i = 0; i < io.n_in; i++)
    io.in[i] =
        filled (gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i)), (unsigned) i + 1);
  for (int i = 0; i < io.n_out; i++)
    io.out[i] = output_for (g, (uint32_t) i);
  g_autoptr (GError) error = NULL;
  ck_assert_msg (gm_graph_interpret (g, io.in, io.want, &error), "%s", error ? error->message : "");
  return io;
}

static void
io_clear (Io *io)
{
  for (int i = 0; i < io->n_in; i++)
    gm_tensor_unref (io->in[i]);
  for (int i = 0; i < io->n_out; i++) {
    gm_tensor_unref (io->out[i]);
    gm_tensor_unref (io->want[i]);
  }
  g_free (io->in);
  g_free (io->out);
  g_free (io->want);
}

static void
run_and_compare (GmExec *e, int role, Io *io, const char *what)
{
  g_autoptr (GError) error = NULL;
  ck_assert_msg (gm_exec_run (e, role, io->in, io->n_in, io->out, io->n_out, &error), "%s: %s",
                 what, error ? error->message : "");
  for (int i = 0; i < io->n_out; i++)
    same_bits (io->out[i], io->want[i], what);
}

/* Compiles and runs twice: the second run finds the first one's workspace, full of its values. */
static void
check_graph (const char *name, const char *text, bool falls_back)
{
  GPtrArray *owner;
  GmGraph *g = parse (text, &owner);
  g_autoptr (GError) error = NULL;
  g_autoptr (GmExec) e = gm_backend_compile (backend (name), g, NULL, NULL, &error);
  ck_assert_msg (e, "%s\n%s", error ? error->message : "", text);
  ck_assert_msg ((gm_exec_fallback_reason (e) != NULL) == falls_back, "%s",
                 gm_exec_fallback_reason (e));
  Io io = io_new (g);
  run_and_compare (e, GM_EXEC_FORWARD, &io, text);
  run_and_compare (e, GM_EXEC_FORWARD, &io, text);
  io_clear (&io);
  g_ptr_array_unref (owner);
}

/* -- Graphs ------------------------------------------------------------------------------------ */

static const char *const graphs[] = {
  /* a chain, with temporaries that die */
  "forward (%x: f32[5, 7], %y: f32[7]) -> (%4) {\n %0 = mul %x %y\n %1 = tanh %0\n %2 = add %1 "
  "%x\n %3 = exp %2\n %4 = sub %3 %1\n}",
  /* matrix products of a transposed operand, reductions */
  "forward (%x: f32[33, 64], %w: f32[10, 64]) -> (%1, %2, %3) {\n %0 = permute %w dims=[1, 0]\n %1 "
  "= matmul %x %0\n"
  " %2 = sum %1 dims=[1] keepdim=true\n %3 = argmax %1 dim=1 keepdim=false\n}",
  /* an output that is a view of all of a temporary: no copy; of a part: a copy; of an input: a copy
   * */
  "forward (%x: f32[6, 4]) -> (%1, %4, %5, %7) {\n %0 = neg %x\n %1 = permute %0 dims=[1, 0]\n %2 "
  "= exp %x\n"
  " %3 = slice %2 dim=0 start=1 stop=6 step=2\n %4 = slice %3 dim=1 start=1 stop=3 step=1\n %5 = "
  "view %x sizes=[3, 8]\n"
  " %6 = relu %x\n %7 = view %6 sizes=[24]\n}",
  /* one temporary, two outputs: itself and a view of it */
  "forward (%x: f64[4, 3]) -> (%1, %0, %2) {\n %0 = sqrt %x\n %1 = permute %0 dims=[1, 0]\n %2 = "
  "detach %0\n}",
  /* outputs that are inputs, and one value twice */
  "forward (%x: i64[4], %y: f32[2]) -> (%x, %0, %0, %y, %x) {\n %0 = mul %x %x\n}",
  /* nothing to compute */
  "forward (%x: f32[3]) -> (%x) {\n}",
  /* expanded operands, empty tensors, scalars */
  "forward (%x: f32[3, 1], %e: f32[0, 3], %s: f32[]) -> (%1, %2, %3) {\n %0 = expand %x sizes=[3, "
  "5]\n %1 = mul %0 %s\n"
  " %2 = sum %e dims=[0] keepdim=false\n %3 = exp %e\n}",
  /* created values and casts */
  "forward (%x: i32[4]) -> (%3, %4) {\n %0 = full sizes=[4] dtype=f32 value=2.5\n %1 = arange "
  "sizes=[4] dtype=f32 value=0.0 value2=0.5\n"
  " %2 = cast %x dtype=f32\n %3 = add %2 %1\n %4 = mul %0 %3\n}",
  /* constants, also as an output through a view */
  "forward (%x: f32[2]) -> (%1, %2) {\n const 0 : f32[2] = [1.5, -2.0]\n %0 = constant offset=0 : "
  "f32[2]\n %1 = add %x %0\n"
  " %2 = view %0 sizes=[2, 1]\n}",
  /* indices from data, a selection, a random op */
  "forward (%x: f32[5, 4], %i: i64[3], %c: b1[3, 4], %r: i64[2]) -> (%1, %2, %3) {\n %0 = "
  "index_select %x %i dim=0\n"
  " %1 = where %c %0 %0\n %2 = index_add %x %i %0 dim=0\n %3 = uniform %r sizes=[9] dtype=f32 "
  "offset=3\n}",
  /* many operands: more than a kernel keeps on the stack */
  "forward (%a: f32[2], %b: f32[1]) -> (%1) {\n %0 = exp %a\n %1 = cat %a %b %0 %a %b %0 %a %b %0 "
  "%a %b %0 dim=0\n}",
  /* a slice that is repeated has as many elements as its root, and is not it */
  "forward (%x: f32[4]) -> (%4) {\n %0 = neg %x\n %1 = slice %0 dim=0 start=0 stop=4 step=3\n %2 = "
  "expand %1 sizes=[2, 2]\n"
  " %3 = exp %x\n %4 = mul %2 %2\n}",
};

START_TEST (the_eager_plugin_gives_the_interpreters_bits)
{
  check_graph ("eager", graphs[_i], false);
}
END_TEST

/* GPH-4.  It has no workspace, no fingerprint, no device_info and no extensions. */
START_TEST (the_null_plugin_sends_everything_back)
{
  bool computes = strchr (graphs[_i], '=') != NULL;
  check_graph ("null", graphs[_i], computes);
}
END_TEST

START_TEST (forward_and_backward_are_two_roles_of_one_exec)
{
  GPtrArray *f_owner, *b_owner;
  GmGraph *f = parse (
      "forward (%x: f32[8, 3], %w: f32[3, 2]) -> (%2, saved %1) {\n const 0 : f32[2] = [0.5, "
      "-0.5]\n"
      " %c = constant offset=0 : f32[2]\n %0 = matmul %x %w\n %1 = tanh %0\n %2 = mul %1 %c\n}",
      &f_owner);
  GmGraph *b = parse ("backward (%y: f32[8, 2], %x: f32[8, 3], %g: f32[8, 2]) -> (grad %5) {\n "
                      "const 0 : f32[2] = [2.0, 3.0]\n"
                      " %c = constant offset=0 : f32[2]\n %0 = mul %y %y\n %1 = mul %c %g\n %2 = "
                      "sub %g %0\n %3 = mul %1 %2\n"
                      " %4 = permute %x dims=[1, 0]\n %5 = matmul %4 %3\n}",
                      &b_owner);
  g_autoptr (GError) error = NULL;
  g_autoptr (GmExec) e = gm_backend_compile (backend ("eager"), f, b, NULL, &error);
  ck_assert_msg (e, "%s", error ? error->message : "");
  Io fio = io_new (f), bio = io_new (b);
  run_and_compare (e, GM_EXEC_FORWARD, &fio, "forward");
  run_and_compare (e, GM_EXEC_BACKWARD, &bio, "backward");
  ck_assert (gm_exec_compile_ms (e) > 0);
  ck_assert_str_eq (gm_exec_backend_name (e), "eager");
  io_clear (&fio);
  io_clear (&bio);
  g_ptr_array_unref (f_owner);
  g_ptr_array_unref (b_owner);
}
END_TEST

/* -- Memory ------------------------------------------------------------------------------------ */

static char *
long_chain (int n)
{
  GString *text = g_string_new (NULL);
  g_string_printf (text, "forward (%%x: f32[1024]) -> (%%%d) {\n %%0 = neg %%x\n", n - 1);
  for (int i = 1; i < n; i++)
    g_string_append_printf (text, " %%%d = add %%%d %%x\n", i, i - 1);
  g_string_append (text, "}");
  return g_string_free (text, FALSE);
}

START_TEST (temporaries_share_memory)
{
  g_autofree char *text = long_chain (100);
  GPtrArray *owner;
  GmGraph *g = parse (text, &owner);
  g_autoptr (GmExec) e = gm_backend_compile (backend ("eager"), g, NULL, NULL, NULL);
  ck_assert_ptr_nonnull (e);
  ck_assert_uint_gt (gm_exec_workspace_bytes (e, GM_EXEC_FORWARD), 0);
  /* two values of 4 KiB at a time, and the tables of addresses */
  ck_assert_uint_lt (gm_exec_workspace_bytes (e, GM_EXEC_FORWARD), 3 * 4096);
  g_ptr_array_unref (owner);
  check_graph ("eager", text, false);
}
END_TEST

START_TEST (runs_keep_no_memory)
{
  GPtrArray *owner;
  GmGraph *g = parse (graphs[0], &owner);
  size_t empty = gm_alloc_live_bytes ();
  GmExec *e = gm_backend_compile (backend ("eager"), g, NULL, NULL, NULL);
  Io io = io_new (g);
  run_and_compare (e, GM_EXEC_FORWARD, &io, "first");
  size_t before = gm_alloc_live_bytes ();
  for (int i = 0; i < 1000; i++)
    ck_assert (gm_exec_run (e, GM_EXEC_FORWARD, io.in, io.n_in, io.out, io.n_out, NULL));
  ck_assert_uint_eq (gm_alloc_live_bytes (), before);
  io_clear (&io);
  gm_exec_unref (e);
  ck_assert_uint_eq (gm_alloc_live_bytes (), empty);
  g_ptr_array_unref (owner);
}
END_TEST

typedef struct {
  GmExec *exec;
  const GmGraph *graph;
} Shared;

static void *
run_often (void *data)
{
  Shared *s = data;
  Io io = io_new (s->graph);
  for (int i = 0; i < 500; i++)
    run_and_compare (s->exec, GM_EXEC_FORWARD, &io, "in a thread");
  io_clear (&io);
  return NULL;
}

START_TEST (one_exec_runs_in_many_threads)
{
  GPtrArray *owner;
  GmGraph *g = parse (graphs[0], &owner);
  GThread *threads[6];
  Shared s = { gm_backend_compile (backend ("eager"), g, NULL, NULL, NULL), g };
  for (int i = 0; i < 6; i++)
    threads[i] = g_thread_new ("run", run_often, &s);
  for (int i = 0; i < 6; i++)
    g_thread_join (threads[i]);
  gm_exec_unref (s.exec);
  g_ptr_array_unref (owner);
}
END_TEST

START_TEST (more_tensors_than_the_stack_holds)
{
  GString *head = g_string_new ("forward ("), *body = g_string_new ("%0 = add %x0 %x1\n");
  for (int i = 0; i < 40; i++) {
    g_string_append_printf (head, "%s%%x%d: f32[3]", i ? ", " : "", i);
    if (i > 0)
      g_string_append_printf (body, "%%%d = add %%%d %%x%d\n", i, i - 1, i);
  }
  g_autofree char *text = g_strdup_printf ("%s) -> (%%39) {\n%s}", head->str, body->str);
  g_string_free (head, TRUE);
  g_string_free (body, TRUE);
  check_graph ("eager", text, false);
}
END_TEST

/* -- Refusals and failures --------------------------------------------------------------------- */

START_TEST (the_reason_of_a_fallback_names_op_and_cause)
{
  GPtrArray *owner;
  GmGraph *g = parse (
      "forward (%x: f32[3]) -> (%1) {\n %0 = exp %x  # train.py:12\n %1 = tanh %0\n}", &owner);
  uint64_t before = gm_backend_fallbacks ();
  g_autoptr (GmExec) e = gm_backend_compile (backend ("null"), g, NULL, NULL, NULL);
  const char *why = gm_exec_fallback_reason (e);
  ck_assert_ptr_nonnull (strstr (why, "exp at train.py:12"));
  ck_assert_ptr_nonnull (strstr (why, "does not know this operator"));
  ck_assert_uint_eq (gm_backend_fallbacks (), before + 1);
  g_ptr_array_unref (owner);
}
END_TEST

/* GPH-13. */
START_TEST (options_are_checked_before_the_plugin_sees_them)
{
  GPtrArray *owner;
  GmGraph *g = parse (graphs[0], &owner);
  static const struct {
    const char *option, *mentions;
  } bad[] = { { "leevl=1", "did you mean \"level\"" },
              { "level=9", "from 0 to 3" },
              { "level", "key=value" },
              { "=1", "key=value" } };
  for (unsigned i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;
    const char *const options[] = { bad[i].option, NULL };
    ck_assert_ptr_null (gm_backend_compile (backend ("null"), g, NULL, options, &error));
    ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_VALUE));
    ck_assert_msg (strstr (error->message, bad[i].mentions), "%s", error->message);
    ck_assert (!gm_backend_check_options (backend ("null"), options, NULL));
  }
  const char *const good[] = { "level=2", NULL };
  g_autoptr (GmExec) e = gm_backend_compile (backend ("null"), g, NULL, good, NULL);
  ck_assert_ptr_nonnull (e);
  g_ptr_array_unref (owner);
}
END_TEST

static void
run_fails (GmExec *e, int role, GmTensor **in, int n_in, GmTensor **out, int n_out, GmError code,
           const char *mentions)
{
  g_autoptr (GError) error = NULL;
  ck_assert (!gm_exec_run (e, role, in, n_in, out, n_out, &error));
  ck_assert_msg (g_error_matches (error, GM_ERROR, (int) code), "%s", error->message);
  ck_assert_msg (strstr (error->message, mentions), "\"%s\" does not mention \"%s\"",
                 error->message, mentions);
}

/* GPH-13. */
START_TEST (tensors_that_do_not_fit_never_reach_the_plugin)
{
  GPtrArray *owner;
  GmGraph *g = parse (graphs[0], &owner);
  g_autoptr (GmExec) e = gm_backend_compile (backend ("eager"), g, NULL, NULL, NULL);
  Io io = io_new (g);
  GmTensor *good = io.in[0], *good_out = io.out[0];
  GmMeta wide = gm_meta_make (GM_F32, 2, (const int64_t[]){ 5, 8 }),
         other = gm_meta_make (GM_F64, 2, (const int64_t[]){ 5, 7 });
  GmMeta turned = gm_meta_make (GM_F32, 2, (const int64_t[]){ 5, 7 });
  turned.strides[0] = 1;
  turned.strides[1] = 5;
  const GmMeta *metas[] = { &wide, &other, &turned };
  static const char *const mentions[] = { "[5, 8]", "f64[5, 7]", "[1, 5]" };
  for (int i = 0; i < 3; i++) {
    g_autoptr (GmTensor) t = gm_tensor_new_zeros (metas[i], NULL);
    io.in[0] = t;
    run_fails (e, 0, io.in, io.n_in, io.out, io.n_out, GM_ERROR_RUNTIME, mentions[i]);
    io.in[0] = good;
    io.out[0] = t;
    run_fails (e, 0, io.in, io.n_in, io.out, io.n_out, GM_ERROR_RUNTIME, mentions[i]);
    io.out[0] = good_out;
  }
  io.in[0] = NULL;
  run_fails (e, 0, io.in, io.n_in, io.out, io.n_out, GM_ERROR_RUNTIME, "NULL");
  io.in[0] = good;
  io.out[0]->storage->readonly = true;
  run_fails (e, 0, io.in, io.n_in, io.out, io.n_out, GM_ERROR_RUNTIME, "writable");
  io.out[0]->storage->readonly = false;
  run_fails (e, 0, io.in, 1, io.out, io.n_out, GM_ERROR_RUNTIME, "got 1 inputs");
  run_fails (e, 1, io.in, io.n_in, io.out, io.n_out, GM_ERROR_RUNTIME, "without one");
  io_clear (&io);
  g_ptr_array_unref (owner);
}
END_TEST

START_TEST (an_index_out_of_range_is_eagers_error)
{
  GPtrArray *owner;
  GmGraph *g = parse (
      "forward (%x: f32[5], %i: i64[1]) -> (%0) {\n %0 = index_select %x %i dim=0\n}", &owner);
  g_autoptr (GmExec) e = gm_backend_compile (backend ("eager"), g, NULL, NULL, NULL);
  Io io = io_new (g);
  gm_tensor_set (io.in[1], (const int64_t[]){ 0 }, gm_scalar_int (7));
  run_fails (e, 0, io.in, io.n_in, io.out, io.n_out, GM_ERROR_INDEX, "7");
  io_clear (&io);
  g_ptr_array_unref (owner);
}
END_TEST

typedef struct {
  const char *define;
  bool compiles, falls_back;
  GmError error; /* of compile or of run */
  const char *mentions;
} Failure;

static const Failure failures[] = {
  { "RUN_FAILS", true, false, GM_ERROR_BACKEND, "caught fire" },
  { "RUN_INDEX", true, false, GM_ERROR_INDEX, "index 7" },
  { "COMPILE_FAILS", false, false, GM_ERROR_BACKEND, "apt-get install gcc" },
  { "UNTERMINATED", false, false, GM_ERROR_BACKEND, "a tool that it needs" },
  { "COMPILE_INTERNAL", true, true, GM_ERROR_BACKEND, "a bug" },
  { "SUPPORT_FAILS", true, true, GM_ERROR_BACKEND, "lost its tables" },
  { "LIES", true, true, GM_ERROR_BACKEND, "second thoughts" },
};

/* GPH-16. */
START_TEST (failures_of_a_plugin_are_raised_or_run_in_eager)
{
  const Failure *f = &failures[_i];
  hostile_setup ();
  g_autofree char *file = hostile_build (f->define, f->define, NULL);
  hostile_search (file);
  GPtrArray *owner;
  GmGraph *g = parse (graphs[0], &owner);
  g_autoptr (GError) error = NULL;
  g_autoptr (GmExec) e = gm_backend_compile (backend ("hostile"), g, NULL, NULL, &error);
  ck_assert_int_eq (e != NULL, f->compiles);
  if (!f->compiles) {
    ck_assert (g_error_matches (error, GM_ERROR, (int) f->error));
    ck_assert_msg (strstr (error->message, f->mentions), "%s", error->message);
  } else if (f->falls_back) {
    ck_assert_msg (strstr (gm_exec_fallback_reason (e), f->mentions), "%s",
                   gm_exec_fallback_reason (e));
    Io io = io_new (g);
    run_and_compare (e, GM_EXEC_FORWARD, &io, f->define);
    io_clear (&io);
  } else {
    Io io = io_new (g);
    run_fails (e, 0, io.in, io.n_in, io.out, io.n_out, f->error, f->mentions);
    io_clear (&io);
  }
  g_ptr_array_unref (owner);
  hostile_teardown ();
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("backend");
  TCase *t = tcase_create ("backend");
  tcase_set_timeout (t, 60);
  tcase_add_loop_test (t, the_eager_plugin_gives_the_interpreters_bits, 0, G_N_ELEMENTS (graphs));
  tcase_add_loop_test (t, the_null_plugin_sends_everything_back, 0, G_N_ELEMENTS (graphs));
  tcase_add_test (t, forward_and_backward_are_two_roles_of_one_exec);
  tcase_add_test (t, temporaries_share_memory);
  tcase_add_test (t, runs_keep_no_memory);
  tcase_add_test (t, one_exec_runs_in_many_threads);
  tcase_add_test (t, more_tensors_than_the_stack_holds);
  tcase_add_test (t, the_reason_of_a_fallback_names_op_and_cause);
  tcase_add_test (t, options_are_checked_before_the_plugin_sees_them);
  tcase_add_test (t, tensors_that_do_not_fit_never_reach_the_plugin);
  tcase_add_test (t, an_index_out_of_range_is_eagers_error);
  tcase_add_loop_test (t, failures_of_a_plugin_are_raised_or_run_in_eager, 0,
                       G_N_ELEMENTS (failures));
  suite_add_tcase (s, t);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failed = srunner_ntests_failed (r);
  srunner_free (r);
  return failed ? 1 : 0;
}
