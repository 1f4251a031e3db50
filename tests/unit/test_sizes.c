/* SPDX-License-Identifier: Apache-2.0
 * Sizes that are expressions, in shape rules, in torch's functions and in gradients: the resulting
 * sizes, and the facts that are needed; then random programs, whose shapes must be those of the
 * same program recorded with numbers, for all values for which the facts hold.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "core/graph/graph.h"
#include "core/api/api.h"

/* -- One line of a graph ----------------------------------------------------------------------- */

/* Returns the result of `node` over `inputs`, as "type where facts"; or the error. */
static char *
result_of (const char *inputs, const char *facts, const char *node)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text =
      g_strdup_printf ("g (%s) -> (%%0) where %s {\n  %%0 = %s\n}\n", inputs, facts, node);
  g_autoptr (GPtrArray) gs = gm_graph_parse (text, &error);
  if (!gs)
    return g_strdup (error->message);
  GmGraph *g = gs->pdata[0];
  ck_assert_msg (gm_graph_verify (g, true, &error), "%s: %s", text, error ? error->message : "");
  g_autofree char *printed = gm_graph_text (g);
  g_autoptr (GPtrArray) again = gm_graph_parse (printed, &error);
  ck_assert_msg (again != NULL, "%s: %s", printed, error ? error->message : "");
  g_autofree char *twice = gm_graph_text (again->pdata[0]);
  ck_assert_str_eq (printed, twice);
  const char *type = strstr (printed, " : "), *where = strstr (printed, " where ");
  g_autofree char *t = g_strndup (type + 3, strcspn (type + 3, "\n"));
  g_autofree char *w = g_strndup (where + 7, strcspn (where + 7, "{") - 1);
  return g_strdup_printf ("%s where %s", t, w);
}

START_TEST (shape_rules_take_expressions)
{
  static const struct {
    const char *inputs, *facts, *node, *want;
  } cases[] = {
    /* no facts where nothing is symbolic */
    { "%x: f32[n, 64]", "n = 7", "tanh %x", "f32[n, 64] where n = 7" },
    { "%x: f32[n, 64], %y: f32[64]", "n = 7", "add %x %y", "f32[n, 64] where n = 7" },
    { "%x: f32[n, 64], %y: f32[n, 1]", "n = 7", "add %x %y", "f32[n, 64] where n = 7" },
    { "%x: f32[n, 64], %w: f32[64, 10]", "n = 7", "matmul %x %w", "f32[n, 10] where n = 7" },
    { "%x: f32[n, 64]", "n = 7", "permute %x dims=[1, 0]", "f32[64, n]{1, 64} where n = 7" },
    { "%x: f32[n, 64]", "n = 7", "sum %x dims=[1] keepdim=true", "f32[n, 1] where n = 7" },
    { "%x: f32[n, 64]", "n = 7", "view %x sizes=[n, 8, 8]", "f32[n, 8, 8] where n = 7" },
    { "%x: f32[n, 64]", "n = 7", "view %x sizes=[n*64]", "f32[n*64] where n = 7" },
    { "%x: f32[n, 64]", "n = 7", "slice %x dim=1 start=8 stop=16 step=1",
      "f32[n, 8]{64, 1} where n = 7" },
    { "%x: f32[n, 4], %y: f32[n, 5]", "n = 7", "cat %x %y dim=1", "f32[n, 9] where n = 7" },
    { "%x: f32[n, 4], %y: f32[m, 4]", "m = 3, n = 7", "cat %x %y dim=0",
      "f32[m + n, 4] where m = 3, n = 7" },
    { "%x: f32[1, 4]", "n = 7", "expand %x sizes=[n, 4]", "f32[n, 4]{0, 1} where n = 7" },
    /* the example decides, and only necessary facts are made */
    { "%x: f32[n, 64], %y: f32[m, 64]", "m = 7, n = 7", "add %x %y",
      "f32[n, 64] where m = 7, n = 7, n == m" },
    { "%x: f32[n, 64], %y: f32[m, 64]", "m = 1, n = 7", "add %x %y",
      "f32[n, 64] where m = 1, n = 7, m == 1" },
    { "%x: f32[n, 64], %w: f32[k, 10]", "k = 64, n = 7", "matmul %x %w",
      "f32[n, 10] where k = 64, n = 7, 64 == k" },
    { "%x: f32[n, 64]", "n = 7", "slice %x dim=0 start=2 stop=n step=2",
      "f32[(n - 1)//2, 64]{128, 1} where n = 7, 2 <= n" },
    { "%x: f32[n]", "n = 8", "view %x sizes=[4, n//4]",
      "f32[4, n//4] where n = 8, n//4*4 == n, 1 <= n//4" },
    { "%x: f32[64, n]", "n = 7", "sum %x dims=[0] keepdim=false", "f32[n] where n = 7" },
    { "%x: f32[64, n]", "n = 7", "slice %x dim=1 start=0 stop=1 step=1",
      "f32[64, 1]{n, 1} where n = 7, 1 <= n" },
    { "%x: f32[n, 0]", "n = 7", "amax %x dims=[0] keepdim=false", "f32[0] where n = 7, n != 0" },
    /* shapes that do not fit */
    { "%x: f32[n, 64], %y: f32[m, 64]", "m = 3, n = 7", "add %x %y", "cannot be broadcast" },
    { "%x: f32[n, 64], %w: f32[65, 10]", "n = 7", "matmul %x %w", "shapes [n, 64] and [65, 10]" },
    { "%x: f32[n, 64]", "n = 7", "view %x sizes=[n, 63]", "[n, 63] has n*63" },
    { "%x: f32[n, 64], %y: f32[m, 64]", "2 <= n", "add %x %y", "it is not known whether" },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *got = result_of (cases[i].inputs, cases[i].facts, cases[i].node);
    bool whole = strstr (cases[i].want, " where ") != NULL;
    ck_assert_msg (whole ? !strcmp (got, cases[i].want) : strstr (got, cases[i].want) != NULL,
                   "%s\n  over %s where %s\n  gives %s\n  not   %s", cases[i].node, cases[i].inputs,
                   cases[i].facts, got, cases[i].want);
  }
}
END_TEST

START_TEST (a_size_that_facts_make_a_number_is_one)
{
  g_autofree char *got = result_of ("%x: f32[n, 4], %y: f32[n, 4]", "n = 7, n == 7", "add %x %y");
  ck_assert_str_eq (got, "f32[7, 4] where n = 7, n == 7");
}
END_TEST

START_TEST (facts_are_part_of_the_mark)
{
  g_autoptr (GPtrArray) gs =
      gm_graph_parse ("g (%x: f32[n], %y: f32[m]) -> () where m = 7, n = 7 {\n}\n", NULL);
  GmGraph *g = gs->pdata[0];
  g_autofree char *before = gm_graph_text (g);
  GmGraphMark mark = gm_graph_mark (g);
  ck_assert_uint_ne (gm_graph_add_node (g, GM_OP_add, (GmValueId[]){ 0, 1 }, 2, NULL, NULL, NULL),
                     GM_NO_ID);
  g_autofree char *with = gm_graph_text (g);
  ck_assert_ptr_nonnull (strstr (with, "n == m"));
  gm_graph_truncate (g, &mark);
  g_autofree char *after = gm_graph_text (g);
  ck_assert_str_eq (before, after);
  ck_assert_uint_ne (gm_graph_add_node (g, GM_OP_add, (GmValueId[]){ 0, 1 }, 2, NULL, NULL, NULL),
                     GM_NO_ID);
  g_autofree char *again = gm_graph_text (g);
  ck_assert_str_eq (with, again);
}
END_TEST

/* -- Names ------------------------------------------------------------------------------------- */

static void
give_names (char **keys, int n, bool backwards, char **names)
{
  g_autoptr (GmSizes) s = gm_sizes_new ();
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  for (int k = 0; k < n; k++) {
    int i = backwards ? n - 1 - k : k;
    int64_t size = gm_sizes_named (s, keys[i], 3);
    names[i] = gm_sym_text (s->sym, size);
    ck_assert_msg (g_hash_table_add (seen, names[i]), "%s is taken", names[i]);
    ck_assert_int_eq (gm_sizes_named (s, keys[i], 3), size);
  }
}

/* Returns the name that the hash of a key alone gives. */
static char *
own_name (const char *key)
{
  g_autoptr (GmSizes) s = gm_sizes_new ();
  return gm_sym_text (s->sym, gm_sizes_named (s, key, 3));
}

/* SYM-06, SYM-07: 100,000 random sources that live at the same time, in two orders. */
START_TEST (no_two_sources_share_a_symbol)
{
  enum { N = 100000 };
  char **keys = g_new (char *, N), **names[3];
  int moved = 0, met = 0;
  uint64_t state = 7;
  for (int i = 0; i < N; i++) {
    state = state * UINT64_C (6364136223846793005) + 1442695040888963407;
    keys[i] = g_strdup_printf ("L['%c%x'].a%d.size(%d)", 'a' + (int) (state >> 60),
                               (unsigned) (state >> 20), i, i % 8);
  }
  for (int k = 0; k < 3; k++) {
    names[k] = g_new (char *, N);
    give_names (keys, N, k == 2, names[k]);
  }
  for (int i = 0; i < N; i++) {
    g_autofree char *own = own_name (keys[i]);
    ck_assert_str_eq (names[0][i], names[1][i]); /* the same order, the same names */
    bool same = strcmp (names[0][i], names[2][i]) == 0;
    moved += !same;
    met += strcmp (names[0][i], own) || strcmp (names[2][i], own);
    /* A source without a collision, in either order, has the name of its hash, whatever other
     * sources exist. */
    ck_assert (same || strcmp (names[0][i], own) || strcmp (names[2][i], own));
  }
  ck_assert_int_gt (moved, 0);   /* probing was needed ... */
  ck_assert_int_lt (met, N / 5); /* ... by few sources */
  for (int k = 0; k < 3; k++) {
    for (int i = 0; i < N; i++)
      g_free (names[k][i]);
    g_free (names[k]);
  }
  for (int i = 0; i < N; i++)
    g_free (keys[i]);
  g_free (keys);
}
END_TEST

/* -- Random programs --------------------------------------------------------------------------- */

enum { N_SYMBOLS = 2, N_STEPS = 6, N_VALUES = 24 };

static uint64_t seed;

static uint32_t
draw (uint32_t n)
{
  seed = seed * UINT64_C (6364136223846793005) + 1442695040888963407;
  return (uint32_t) (seed >> 33) % n;
}

typedef struct {
  GmGraphBuilder b;
  GmGraph *g;
  int64_t size[N_SYMBOLS];
  GmVal v[N_STEPS + 4];
  int n;
} Program;

static GmArg
call (Program *p, const char *name, const GmArg *a, int n)
{
  const GmApi *api = gm_api_find (name);
  ck_assert_msg (api != NULL, "%s", name);
  return gm_api_call (api, false, &p->b.base, a, n, NULL, NULL, 0);
}

#define T(value) ((GmArg){ .kind = GM_ARG_TENSOR, .v = (value) })
#define I(number) ((GmArg){ .kind = GM_ARG_INT, .i = (number) })
#define LIST(...)                                                                                  \
  ((GmArg){ .kind = GM_ARG_LIST,                                                                   \
            .n = sizeof ((GmArg[]){ __VA_ARGS__ }) / sizeof (GmArg),                               \
            .items = (GmArg[]){ __VA_ARGS__ } })

/* Makes one step over existing values; the same draws make the same step, whatever the sizes. */
static void
step (Program *p)
{
  GmVal x = p->v[draw ((uint32_t) p->n)], y = p->v[draw ((uint32_t) p->n)];
  int64_t s = p->size[draw (N_SYMBOLS)];
  uint32_t what = draw (16);
  GmArg r = { 0 };
  switch (what) {
  case 0:
    r = call (p, "add", (GmArg[]){ T (x), T (y) }, 2);
    break;
  case 1:
    r = call (p, "mul", (GmArg[]){ T (x), I (s) }, 2);
    break;
  case 2:
    r = call (p, "matmul", (GmArg[]){ T (x), T (y) }, 2);
    break;
  case 3:
    r = call (p, "transpose", (GmArg[]){ T (x), I (0), I (-1) }, 3);
    break;
  case 4:
    r = call (p, "reshape", (GmArg[]){ T (x), LIST (I (-1)) }, 2);
    break;
  case 5:
    r = call (p, "reshape", (GmArg[]){ T (x), LIST (I (s), I (-1)) }, 2);
    break;
  case 6:
    r = call (p, "mean", (GmArg[]){ T (x), I (-1), { .kind = GM_ARG_BOOL, .i = draw (2) } }, 3);
    break;
  case 7:
    r = call (p, "softmax", (GmArg[]){ T (x), I (-1) }, 2);
    break;
  case 8:
    r = call (p, "cat", (GmArg[]){ LIST (T (x), T (y)), I (0) }, 2);
    break;
  case 9:
    r = call (p, "unsqueeze", (GmArg[]){ T (x), I (0) }, 2);
    break;
  case 10:
    r = call (p, "expand", (GmArg[]){ T (x), LIST (I (s), I (-1), I (-1)) }, 2);
    break;
  case 11: {
    GmArg part = { .kind = GM_ARG_SLICE, .n = 3, .items = (GmArg[]){ I (1), { 0 }, { 0 } } };
    r = call (p, "getitem", (GmArg[]){ T (x), part }, 2);
    break;
  }
  case 12:
    r = call (p, "getitem", (GmArg[]){ T (x), I (-1) }, 2);
    break;
  case 13:
    r = call (p, "tril", (GmArg[]){ T (x) }, 1);
    break;
  case 14:
    r = call (p, "var", (GmArg[]){ T (x), I (0) }, 2);
    break;
  default:
    r = call (p, "flatten", (GmArg[]){ T (x) }, 1);
    break;
  }
  if (p->b.base.error)
    g_clear_error (&p->b.base.error); /* shapes do not fit: the step is left out */
  else if (r.kind == GM_ARG_TENSOR)
    p->v[p->n++] = r.v;
}

/* Records the program of `from` with these sizes: symbols with hints, or numbers. */
static void
record (Program *p, uint64_t from, const int64_t *hints, bool symbolic)
{
  memset (p, 0, sizeof *p);
  p->g = gm_graph_new ("g", NULL);
  for (int i = 0; i < N_SYMBOLS; i++) {
    char name[2] = { (char) ('m' + i), 0 };
    p->size[i] = symbolic ? gm_sizes_symbol (gm_graph_sizes (p->g), name, hints[i]) : hints[i];
  }
  gm_graph_builder_init (&p->b, p->g);
  GmMeta m[3] = { { .dtype = GM_F32, .ndim = 2, .device = GM_DEVICE_CPU } };
  m[1] = m[2] = m[0];
  m[0].sizes[0] = p->size[0], m[0].sizes[1] = 4;
  m[1].sizes[0] = p->size[1], m[1].sizes[1] = p->size[0];
  m[2].sizes[0] = 4, m[2].sizes[1] = p->size[1];
  for (int i = 0; i < 3; i++) {
    gm_graph_meta_set_contiguous (p->g, &m[i]);
    p->v[p->n++] = gm_val_from_id (gm_graph_add_input (p->g, "x", &m[i]));
  }
  seed = from;
  for (int i = 0; i < N_STEPS; i++)
    step (p);
}

static void
clear (Program *p)
{
  gm_graph_builder_clear (&p->b);
  gm_graph_free (p->g);
}

static bool
facts_hold (const GmSizes *s, const int64_t *values)
{
  for (uint32_t i = 0; i < gm_size_facts_n (s->facts); i++) {
    GmSizeFact f = gm_size_facts_nth (s->facts, i);
    int64_t a, b;
    if (!gm_sym_eval (s->sym, f.a, values, &a, NULL) || !gm_sym_eval (s->sym, f.b, values, &b, NULL)
        || !(f.rel == GM_REL_EQ   ? a == b
             : f.rel == GM_REL_NE ? a != b
             : f.rel == GM_REL_LT ? a < b
                                  : a <= b))
      return false;
  }
  return true;
}

/* Checks that each step of the symbolic program has for these values the shape that it has with
 * numbers.  (It may be another node: what changes nothing for a size of 1 is a view for a size that
 * may be 1.) */
static void
compare (Program *s, Program *p, const int64_t *values, const char *what)
{
  for (int i = 0; i < MIN (s->n, p->n); i++) {
    GmMeta m = *gm_graph_meta (s->g, gm_id_from_val (s->v[i])),
           *n = gm_graph_meta (p->g, gm_id_from_val (p->v[i]));
    for (int d = 0; d < m.ndim; d++) {
      ck_assert (gm_sym_eval (s->g->sym, m.sizes[d], values, &m.sizes[d], NULL));
      ck_assert (gm_sym_eval (s->g->sym, m.strides[d], values, &m.strides[d], NULL));
      if (n->sizes[d] == 1 || gm_meta_numel (n) == 0) /* any stride is right */
        m.strides[d] = n->strides[d];
    }
    if (memcmp (&m, n, sizeof m)) {
      g_autofree char *a = gm_graph_text (s->g), *b = gm_graph_text (p->g);
      ck_abort_msg ("%s: value %d differs\n%s%s", what, i, a, b);
    }
  }
  ck_assert_msg (s->n == p->n, "%s: %d results, with numbers %d", what, s->n, p->n);
}

START_TEST (programs_of_expressions_are_those_of_numbers)
{
  enum { PROGRAMS = 3000 };
  uint32_t hit = 0, facts = 0;
  for (uint64_t k = 0; k < PROGRAMS; k++) {
    Program s, p;
    int64_t hints[N_SYMBOLS];
    seed = k * 977 + 5;
    for (int i = 0; i < N_SYMBOLS; i++) {
      draw (2);
      hints[i] = (int64_t) draw (8);
    }
    record (&s, k, hints, true);
    g_autoptr (GError) error = NULL;
    ck_assert_msg (gm_graph_verify (s.g, true, &error), "%s", error ? error->message : "");
    ck_assert_msg (facts_hold (s.g->sizes, hints), "program %u", (unsigned) k);
    facts += gm_size_facts_n (s.g->sizes->facts);
    for (int t = 0; t < N_VALUES; t++) {
      int64_t values[N_SYMBOLS];
      for (int i = 0; i < N_SYMBOLS; i++) {
        seed = k * 31 + (uint64_t) t * 7 + (uint64_t) i;
        draw (2);
        values[i] = t ? (int64_t) draw (9) : hints[i];
      }
      if (!facts_hold (s.g->sizes, values))
        continue;
      char what[80];
      snprintf (what, sizeof what, "program %u with m=%d, n=%d", (unsigned) k, (int) values[0],
                (int) values[1]);
      record (&p, k, values, false);
      compare (&s, &p, values, what);
      clear (&p);
      hit++;
    }
    clear (&s);
  }
  printf ("%d programs with %u facts, compared for %u sizes\n", PROGRAMS, facts, hit);
  ck_assert_uint_gt (hit, PROGRAMS * 2);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("sizes");
  TCase *t = tcase_create ("sizes");
  tcase_set_timeout (t, 120);
  tcase_add_test (t, shape_rules_take_expressions);
  tcase_add_test (t, a_size_that_facts_make_a_number_is_one);
  tcase_add_test (t, facts_are_part_of_the_mark);
  tcase_add_test (t, no_two_sources_share_a_symbol);
  tcase_add_test (t, programs_of_expressions_are_those_of_numbers);
  suite_add_tcase (suite, t);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
