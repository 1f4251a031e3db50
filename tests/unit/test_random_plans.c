/* SPDX-License-Identifier: Apache-2.0
 * test_random_plans.c -- random graphs over shared memory, through every layer, the joint graph, a
 * partition with any budget and tags, a back end and the call plan, against the same graph run node
 * by node: all that a caller can see of inputs and results, version counters and histories
 * included, gradients and gradients of gradients, and what hooks saw, to the bit.
 *
 * GM_FUZZ_PLANS: how many; GM_FUZZ_PLANS_FROM: the first seed.  A difference is printed with its
 * seed.
 */
#include "core/compile.h"
#include "tests/fuzz/memory_graph.h"
#include "tests/unit/aot_test.h"

#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 2, ALL = GM_MEMORY_INPUTS + 8 };

typedef struct {
  int n_in, n_out;
  GmTensor *leaf[GM_MEMORY_BUFFERS], *in[GM_MEMORY_INPUTS], *out[8];
  GString *seen; /* gradients that hooks saw */
} Call;

/* -- What can be seen -------------------------------------------------------------------------- */

static void
write_elements (GString *s, const GmTensor *t)
{
  int64_t at[GM_MAX_DIMS] = { 0 };
  for (int64_t i = 0; i < gm_meta_numel (&t->meta); i++, step_index (&t->meta, at)) {
    GmScalar x = gm_tensor_get (t, at);
    if (gm_dtype_is_float (t->meta.dtype) && isnan (x.d))
      g_string_append (s, " nan");
    else
      g_string_append_printf (s, " %" G_GINT64_MODIFIER "x", (uint64_t) x.i);
  }
}

static void
describe (GString *s, GmTensor *const *ts, int n)
{
  for (int i = 0; i < n; i++) {
    const GmTensor *t = ts[i];
    g_autofree char *type = gm_meta_text (&t->meta);
    g_string_append_printf (s, "%d: object %d storage %d+%d %s strides", i, index_of (ts, n, t),
                            storage_of (ts, n, t), (int) t->offset, type);
    for (int d = 0; d < t->meta.ndim; d++)
      g_string_append_printf (s, " %d", t->meta.sizes[d] > 1 ? (int) t->meta.strides[d] : -1);
    g_string_append_printf (s, " version %u%s%s base %d:", gm_tensor_version (t),
                            gm_tensor_requires_grad (t) ? " grad" : "",
                            gm_tensor_is_leaf (t) ? " leaf" : "",
                            t->base ? index_of (ts, n, t->base) : -2);
    write_elements (s, t);
    g_string_append_c (s, '\n');
  }
}

static void
describe_gradients (GString *s, const char *what, GmTensor *const *g, int n)
{
  for (int i = 0; i < n; i++) {
    g_string_append_printf (s, "%s %d:", what, i);
    if (g[i])
      write_elements (s, g[i]);
    g_string_append_c (s, '\n');
  }
}

typedef struct {
  GString *seen;
  int number;
  bool doubles;
} Hook;

static GmTensor *
see (void *data, GmTensor *grad, GError **error)
{
  Hook *h = data;
  g_string_append_printf (h->seen, "hook %d:", h->number);
  write_elements (h->seen, grad);
  g_string_append_c (h->seen, '\n');
  return h->doubles ? gm_op_run (GM_OP_add, (GmTensor *[]){ grad, grad }, 2, NULL, error) : NULL;
}

static void
add_hook (Call *c, GmTensor *t, int number, bool doubles)
{
  Hook *h = g_new (Hook, 1);
  *h = (Hook){ c->seen, number, doubles };
  gm_tensor_add_hook (t, see, h, g_free);
}

/* -- A call ------------------------------------------------------------------------------------ */

static void
begin (Call *c, const GmMemoryGraph *m)
{
  memset (c, 0, sizeof *c);
  c->n_in = m->n_inputs;
  c->n_out = (int) m->graph->outputs->len;
  c->seen = g_string_new (NULL);
  gm_memory_graph_make (m, c->leaf, c->in);
  for (int b = 0; b < m->n_buffers; b++)
    if (c->leaf[b] && m->seed % 3 == 0)
      add_hook (c, c->leaf[b], b, m->seed % 2);
}

static void
end (Call *c)
{
  for (int i = 0; i < c->n_in; i++)
    gm_tensor_unref (c->in[i]);
  for (int i = 0; i < c->n_out; i++)
    gm_tensor_unref (c->out[i]);
  for (int b = 0; b < GM_MEMORY_BUFFERS; b++)
    gm_tensor_unref (c->leaf[b]);
  g_string_free (c->seen, TRUE);
}

/* Computes the gradients of all tensors of the call that have a history, for tangents that follow
 * from their position. */
static bool
differentiate (Call *c, GmTensor **leaves, int n_leaves, bool create, GmTensor **result)
{
  GmTensor *roots[ALL], *tangents[ALL];
  int n = 0;
  for (int i = 0; i < c->n_out + c->n_in; i++) {
    GmTensor *t = i < c->n_out ? c->out[i] : c->in[i - c->n_out];
    if (!gm_tensor_requires_grad (t) || gm_tensor_is_leaf (t))
      continue;
    roots[n] = t;
    tangents[n++] = gm_memory_tensor (&t->meta, 100 + (uint64_t) i);
  }
  bool ok = n > 0
            && gm_autograd_grad (roots, tangents, n, leaves, n_leaves, create, create, true, result,
                                 NULL);
  while (n > 0)
    gm_tensor_unref (tangents[--n]);
  return ok;
}

/* Computes gradients of gradients; false: the plain program has none. */
static bool
differentiate_twice (GmTensor **first, GmTensor **leaves, int n_leaves, GmTensor **result)
{
  GmTensor *roots[GM_MEMORY_BUFFERS], *tangents[GM_MEMORY_BUFFERS];
  int n = 0;
  for (int i = 0; i < n_leaves; i++)
    if (first[i] && gm_tensor_requires_grad (first[i])) {
      roots[n] = first[i];
      tangents[n++] = gm_memory_tensor (&first[i]->meta, 200 + (uint64_t) i);
    }
  bool ok =
      n > 0
      && gm_autograd_grad (roots, tangents, n, leaves, n_leaves, false, false, true, result, NULL);
  while (n > 0)
    gm_tensor_unref (tangents[--n]);
  return ok;
}

static void
drop (GmTensor **t, int n)
{
  for (int i = 0; i < n; i++)
    g_clear_pointer (&t[i], gm_tensor_unref);
}

/* Returns lines with everything that is visible after the run; *refused: true if there are no
 * gradients. */
static char *
look (Call *c, const GmMemoryGraph *m, bool *refused)
{
  GString *s = g_string_new (NULL);
  GmTensor *all[ALL], *leaves[GM_MEMORY_BUFFERS], *first[GM_MEMORY_BUFFERS] = { NULL },
                                                  *second[GM_MEMORY_BUFFERS] = { NULL };
  int n = 0;
  bool twice = m->seed % 4 == 0;

  memcpy (all, c->in, sizeof *all * (size_t) c->n_in);
  memcpy (all + c->n_in, c->out, sizeof *all * (size_t) c->n_out);
  describe (s, all, c->n_in + c->n_out);
  for (int i = 0; i < c->n_out && m->seed % 5 == 0; i++)
    if (gm_tensor_requires_grad (c->out[i]) && index_of (c->out, c->n_out, c->out[i]) == i
        && c->n_out == 1) /* the order of several is not promised */
      add_hook (c, c->out[i], 10 + i, true);
  for (int b = 0; b < m->n_buffers; b++)
    if (c->leaf[b])
      leaves[n++] = c->leaf[b];
  *refused = n == 0 || !differentiate (c, leaves, n, twice, first);
  describe_gradients (s, "gradient", first, n);
  if (!*refused && twice) {
    bool ok = differentiate_twice (first, leaves, n, second);
    g_string_append_printf (s, "twice %d\n", ok);
    describe_gradients (s, "second", second, n);
  }
  g_string_append (s, c->seen->str);
  drop (first, n);
  drop (second, n);
  return g_string_free (s, FALSE);
}

/* -- Both -------------------------------------------------------------------------------------- */

static struct {
  int n, refused, fails, no_gradient, merged, partitions, different;
} count;

/* Reports differences one after the other, so that a campaign finds as many as possible; the first
 * few in full. */
static void G_GNUC_PRINTF (2, 3) report (const GmMemoryGraph *m, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *what = g_strdup_vprintf (format, args), *text = gm_graph_text (m->graph);
  va_end (args);
  if (count.different++ < 5)
    fprintf (stderr, "seed %" G_GUINT64_FORMAT ": %s\n%s", m->seed, what, text);
  else
    fprintf (stderr, "seed %" G_GUINT64_FORMAT " too\n", m->seed);
}

static GmCompile *
compile (const GmMemoryGraph *m, GmGraph *g, GError **error)
{
  static const double budgets[] = { 1, 1, 0.75, 0.5, 0.25, 0 };
  GmCompile *c = gm_compile_new ();
  c->ask.backend = gm_backend_get (m->seed % 2 ? "eager" : "tcc", NULL);
  if (!c->ask.backend)
    c->ask.backend = gm_backend_get ("eager", NULL);
  c->ask.differentiate = true;
  c->ask.no_cache = g_strdup ("a test");
  c->ask.partition =
      (GmPartitionOptions){ m->seed % 3 ? GM_PARTITION_MIN_CUT : GM_PARTITION_DEFAULT,
                            budgets[m->seed % G_N_ELEMENTS (budgets)] };
  gm_compile_set_graph (c, g);
  if (gm_compile_run (c, 's', 'l', error))
    return c;
  gm_compile_free (c);
  return NULL;
}

static void
check_call (const GmMemoryGraph *m, GmPlan *plan, int call)
{
  Call want, have;
  bool want_refused, have_refused;
  GError *error = NULL;

  begin (&want, m);
  begin (&have, m);
  if (!eager_run (m->graph, want.in, want.out, NULL)) {
    count.fails++;
    want.n_out = have.n_out = 0;
  } else {
    if (!gm_plan_run (plan, have.in, have.n_in, have.out, &error)) {
      report (m, "call %d: the plan fails: %s", call, error->message);
      g_error_free (error);
      have.n_out = 0;
      end (&want);
      end (&have);
      return;
    }
    g_autofree char *a = look (&want, m, &want_refused), *b = look (&have, m, &have_refused);
    count.no_gradient += want_refused;
    char *end_a = want_refused ? strstr (a, "gradient ") : NULL,
         *end_b = want_refused ? strstr (b, "gradient ") : NULL;
    /* Gradients that the plain program refuses may be possible here: a copy was kept. */
    if (end_a && end_b)
      *end_a = *end_b = 0;
    char *no_second = strstr (a, "twice 0");
    if (no_second && strstr (b, "twice "))
      *no_second = *strstr (b, "twice ") = 0;
    if (strcmp (a, b) != 0)
      report (m, "call %d\nplain:\n%scompiled:\n%s", call, a, b);
  }
  end (&want);
  end (&have);
}

static void
check_seed (uint64_t seed)
{
  g_autoptr (GmMemoryGraph) m = gm_memory_graph_new (seed);
  g_autoptr (GError) error = NULL;

  if (!m)
    return;
  if (!gm_graph_verify (m->graph, false, &error)) {
    report (m, "%s", error->message);
    return;
  }
  g_autoptr (GmMemoryGraph) again = gm_memory_graph_new (seed);
  g_autoptr (GmCompile) c = compile (m, g_steal_pointer (&again->graph), &error);
  count.n++;
  if (!c) {
    count.refused++;
    if (!g_error_matches (error, GM_ERROR, GM_ERROR_UNSUPPORTED))
      report (m, "%s", error->message);
    return;
  }
  count.merged += c->functionalize.layers.has_bases;
  count.partitions += c->partition.backward != NULL;
  for (int call = 0, before = count.different; call < CALLS && count.different == before; call++)
    check_call (m, c->lower.plan, call);
}

START_TEST (random_graphs_over_shared_memory_do_what_they_do_node_by_node)
{
  const char *many = g_getenv ("GM_FUZZ_PLANS"), *from = g_getenv ("GM_FUZZ_PLANS_FROM");
  uint64_t first = from ? g_ascii_strtoull (from, NULL, 10) : 0,
           n = many ? g_ascii_strtoull (many, NULL, 10) : 2000;
  gint64 start = g_get_monotonic_time ();

  for (uint64_t seed = first; seed < first + n; seed++)
    check_seed (seed);
  printf ("%d graphs in %.1f s: %d refused, %d with merged inputs, %d with a backward; of their "
          "calls %d fail as "
          "they are, %d have no gradient\n",
          count.n, (double) (g_get_monotonic_time () - start) / 1e6, count.refused, count.merged,
          count.partitions, count.fails, count.no_gradient);
  ck_assert_msg (count.different == 0, "%d differ, see above", count.different);
  if (n < 1000)
    return;
  ck_assert_int_gt (count.partitions * 5, count.n);
  ck_assert_int_lt (count.refused * 2, count.n);
  ck_assert_int_lt (count.fails * 4, count.n);
  ck_assert_int_gt (count.merged * 20, count.n);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("random plans");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_add_test (t, random_graphs_over_shared_memory_do_what_they_do_node_by_node);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
