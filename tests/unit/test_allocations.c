/* SPDX-License-Identifier: Apache-2.0
 * test_allocations.c -- a warm call of a compiled function requests no memory from the system.
 *
 * Tensors come from lists that are filled in batches; test_plan checks that there is one allocation
 * per output.  Here calls of the system's allocator are counted, by functions of this program that
 * replace it in every library.
 */
#include "core/compile.h"
#include "core/graph/number_text.h"
#include "tests/unit/aot_test.h"

#include <errno.h>
#include <stdlib.h>

enum { WARM = 200, CALLS = 1000 };

static const char *const backends[] = { "tcc", "eager" };

/* -- The system's allocator -------------------------------------------------------------------- */

#ifndef __SANITIZE_ADDRESS__
void *__libc_malloc (size_t);
void *__libc_calloc (size_t, size_t);
void *__libc_realloc (void *, size_t);
void *__libc_memalign (size_t, size_t);

static _Thread_local uint64_t n_asked;

void *
malloc (size_t n)
{
  n_asked++;
  return __libc_malloc (n);
}

void *
calloc (size_t n, size_t size)
{
  n_asked++;
  return __libc_calloc (n, size);
}

void *
realloc (void *p, size_t n)
{
  n_asked++;
  return __libc_realloc (p, n);
}

void *
aligned_alloc (size_t align, size_t n)
{
  n_asked++;
  return __libc_memalign (align, n);
}

int
posix_memalign (void **p, size_t align, size_t n)
{
  n_asked++;
  *p = __libc_memalign (align, n);
  return *p ? 0 : ENOMEM;
}

/* -- Calls ------------------------------------------------------------------------------------- */

static GmCompile *
compiled (const char *text, const char *backend)
{
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, NULL);
  GmCompile *c = gm_compile_new ();

  c->ask.backend = gm_backend_get (backend, NULL);
  c->ask.no_cache = g_strdup ("a test");
  gm_compile_set_graph (c, g_ptr_array_steal_index (graphs, 0));
  ck_assert (gm_compile_run (c, 's', 'l', NULL));
  return c;
}

/* Returns the number of allocations in CALLS warm calls, with a backward each if `grad`. */
static uint64_t
count (const char *text, const char *backend, bool grad)
{
  GmCompile *c = compiled (text, backend);
  GmTensor *in[3], *out[4];
  uint64_t before = 0;
  bool ok = true; /* ck_assert itself allocates */
  int n_out = (int) c->functionalize.layers.n_outputs;

  for (int i = 0; i < 3; i++) {
    in[i] = filled (gm_plan_input_meta (c->lower.plan, i), (uint64_t) i + 1);
    gm_tensor_set_requires_grad (in[i], grad, NULL);
  }
  g_autoptr (GmTensor) tangent = filled (&in[0]->meta, 9);
  for (int k = 0; k < WARM + CALLS; k++) {
    if (k == WARM)
      before = n_asked;
    ok = ok && gm_plan_run (c->lower.plan, in, 3, out, NULL);
    for (int i = 0; i < 3 && grad; i++)
      gm_tensor_set_grad (in[i], NULL);
    if (grad)
      ok = ok && gm_autograd_backward (out, &tangent, 1, false, false, NULL);
    for (int i = 0; i < n_out && ok; i++)
      gm_tensor_unref (out[i]);
  }
  uint64_t asked = n_asked - before;
  ck_assert (ok);
  for (int i = 0; i < 3; i++)
    gm_tensor_unref (in[i]);
  gm_compile_free (c);
  return asked;
}

START_TEST (a_warm_call_asks_the_system_for_no_memory)
{
  static const char *const programs[] = {
    "f (%x: f32[16], %y: f32[16], %z: f32[16]) -> (%2) { \n %0 = mul %x %y \n %1 = add %0 %z \n %2 "
    "= relu %1 \n }",
    "f (%x: f32[16], %y: f32[16], %z: f32[16]) -> (%0, %1, %2) { \n %0 = mul %x %y \n %1 = add %0 "
    "%z \n %2 = sin %1 \n }",
    "f (%x: f32[16], %y: f32[16], %z: f32[16]) -> (%2) { \n %0 = mul %x %y \n %1 = copy_ %z %0 \n "
    "%2 = view %1 sizes=[4, 4] \n }",
  };

  for (size_t b = 0; b < G_N_ELEMENTS (backends); b++)
    for (size_t i = 0; i < G_N_ELEMENTS (programs); i++)
      ck_assert_msg (count (programs[i], backends[b], false) == 0, "%s asks %g times a call: %s",
                     backends[b], (double) count (programs[i], backends[b], false) / CALLS,
                     programs[i]);
}
END_TEST

START_TEST (a_warm_step_asks_the_system_for_no_memory)
{
  static const char *const program = "f (%x: f32[16] requires_grad, %y: f32[16] requires_grad, %z: "
                                     "f32[16] requires_grad) -> (%2) { \n %0 = mul %x %y \n "
                                     "%1 = add %0 %z \n %2 = relu %1 \n }";

  for (size_t b = 0; b < G_N_ELEMENTS (backends); b++)
    ck_assert_msg (count (program, backends[b], true) == 0, "%s asks %g times a step", backends[b],
                   (double) count (program, backends[b], true) / CALLS);
}
END_TEST
#endif

int
main (void)
{
  Suite *s = suite_create ("allocations");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

#ifndef __SANITIZE_ADDRESS__ /* the sanitizer has an allocator of its own */
  tcase_add_test (t, a_warm_call_asks_the_system_for_no_memory);
  tcase_add_test (t, a_warm_step_asks_the_system_for_no_memory);
#endif
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
