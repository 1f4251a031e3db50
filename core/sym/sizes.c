/* SPDX-License-Identifier: Apache-2.0
 * sizes.c -- symbolic sizes at work.  See sizes.h.
 *
 * Each symbolic path is here, out of line: the inline functions of the header serve numbers.
 */
#include "core/sym/sizes.h"

#include <string.h>

#include "core/base/error.h"
#include "core/base/thread.h"

static GM_THREAD GmSizes *current;

GmSizes *
gm_sizes_new (void)
{
  GmSizes *s = g_new0 (GmSizes, 1);
  s->sym = gm_sym_new ();
  s->facts = gm_size_facts_new (s->sym);
  s->hints = g_array_new (FALSE, FALSE, sizeof (int64_t));
  s->named = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  s->counts = g_array_new (FALSE, FALSE, sizeof (GmSizeCount));
  s->said = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  s->refs = 1;
  return s;
}

GmSizes *
gm_sizes_ref (GmSizes *s)
{
  g_atomic_int_inc (&s->refs);
  return s;
}

void
gm_sizes_unref (GmSizes *s)
{
  if (!s || !g_atomic_int_dec_and_test (&s->refs))
    return;
  gm_size_facts_free (s->facts);
  gm_sym_free (s->sym);
  g_array_unref (s->hints);
  g_array_unref (s->counts);
  g_hash_table_unref (s->said);
  g_hash_table_unref (s->named);
  g_free (s->undecided);
  g_free (s);
}

GmSizes *
gm_sizes_copy (const GmSizes *s)
{
  GmSizes *c = g_new0 (GmSizes, 1);
  GHashTableIter it;
  void *name, *key;
  c->sym = gm_sym_copy (s->sym);
  c->facts = gm_size_facts_new (c->sym);
  for (uint32_t i = 0; i < gm_size_facts_n (s->facts); i++) {
    GmSizeFact f = gm_size_facts_nth (s->facts, i);
    gm_size_facts_add (c->facts, f.rel, f.a, f.b);
  }
  c->hints = g_array_copy (s->hints);
  c->named = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_hash_table_iter_init (&it, s->named);
  while (g_hash_table_iter_next (&it, &name, &key))
    g_hash_table_insert (c->named, g_strdup (name), g_strdup (key));
  c->counts = g_array_copy (s->counts);
  c->said = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  g_hash_table_iter_init (&it, s->said);
  while (g_hash_table_iter_next (&it, &name, &key))
    g_hash_table_insert (c->said, name, g_strdup (key));
  c->refs = 1;
  return c;
}

GmSizes *
gm_sizes_enter (GmSizes *s)
{
  GmSizes *was = current;
  current = s;
  return was;
}

GmSizes *
gm_sizes_current (void)
{
  return current;
}

GmSizesMark
gm_sizes_mark (const GmSizes *s)
{
  return (GmSizesMark){ gm_sym_n_rows (s->sym), gm_size_facts_n (s->facts) };
}

void
gm_sizes_truncate (GmSizes *s, GmSizesMark m)
{
  GmSizesMark now = gm_sizes_mark (s);
  if (now.rows == m.rows && now.facts == m.facts)
    return;
  for (uint32_t i = m.rows; i < now.rows; i++) {
    const GmSymRow *r = gm_sym_row (s->sym, i);
    if (r->kind == GM_SYM_SYMBOL)
      g_hash_table_remove (s->named, r->name);
  }
  for (uint32_t i = m.facts; i < now.facts; i++)
    g_hash_table_remove (s->said, GUINT_TO_POINTER (i + 1));
  gm_sym_truncate (s->sym, m.rows);
  gm_size_facts_truncate (s->facts, m.facts);
  if (s->hints->len > gm_sym_n_symbols (s->sym))
    g_array_set_size (s->hints, gm_sym_n_symbols (s->sym));
}

/* -- Values ------------------------------------------------------------------------------------ */

int64_t
gm_sizes_symbol (GmSizes *s, const char *name, int64_t hint)
{
  int64_t size = gm_sym_symbol (s->sym, name), none = GM_SIZE_NO_HINT;
  uint32_t i = gm_sym_row (s->sym, gm_size_row (size))->a;
  while (s->hints->len <= i)
    g_array_append_val (s->hints, none);
  g_array_index (s->hints, int64_t, i) = hint;
  return size;
}

int64_t
gm_sizes_counted (GmSizes *s, const char *what, int64_t min, int64_t max)
{
  uint32_t n = 0;
  char name[16];
  for (uint32_t i = 0; i < s->hints->len; i++)
    n += g_array_index (s->hints, int64_t, i) == GM_SIZE_NO_HINT;
  g_snprintf (name, sizeof name, "u%u", n);
  g_hash_table_insert (s->named, g_strdup (name), g_strdup (what));
  int64_t size = gm_sizes_symbol (s, name, GM_SIZE_NO_HINT);
  gm_sym_set_range (s->sym, size, min, max);
  return size;
}

#define N_NAMES 1000003 /* a prime: names are few and their numbers short */

int64_t
gm_sizes_named (GmSizes *s, const char *key, int64_t hint)
{
  uint64_t h = UINT64_C (0xcbf29ce484222325);
  for (const char *c = key; *c; c++)
    h = (h ^ (uint8_t) *c) * UINT64_C (0x100000001b3);
  for (uint32_t at = (uint32_t) (h % N_NAMES);; at = (at + 1) % N_NAMES) {
    char name[16];
    g_snprintf (name, sizeof name, "s%u", at);
    const char *taken = g_hash_table_lookup (s->named, name);
    if (taken && strcmp (taken, key))
      continue;
    if (!taken)
      g_hash_table_insert (s->named, g_strdup (name), g_strdup (key));
    return gm_sizes_symbol (s, name, hint);
  }
}

int64_t
gm_sizes_nth_symbol (const GmSizes *s, uint32_t symbol)
{
  for (uint32_t i = 0; i < gm_sym_n_rows (s->sym); i++) {
    const GmSymRow *r = gm_sym_row (s->sym, i);
    if (r->kind == GM_SYM_SYMBOL && r->a == symbol)
      return gm_size_from_row (i);
  }
  g_assert_not_reached ();
}

const char *
gm_sizes_symbol_name (const GmSizes *s, uint32_t symbol)
{
  return gm_sym_row (s->sym, gm_size_row (gm_sizes_nth_symbol (s, symbol)))->name;
}

static bool
hint_is_there (const GmSizes *s, int64_t size)
{
  if (!gm_size_is_symbolic (size))
    return true;
  const GmSymRow *r = gm_sym_row (s->sym, gm_size_row (size));
  if (r->kind == GM_SYM_CONST)
    return true;
  if (r->kind == GM_SYM_SYMBOL)
    return r->a < s->hints->len && g_array_index (s->hints, int64_t, r->a) != GM_SIZE_NO_HINT;
  return hint_is_there (s, gm_size_from_row (r->a)) && hint_is_there (s, gm_size_from_row (r->b));
}

bool
gm_sizes_uses (const GmSizes *s, int64_t size, uint32_t symbol)
{
  if (!gm_size_is_symbolic (size))
    return false;
  const GmSymRow *r = gm_sym_row (s->sym, gm_size_row (size));
  if (r->kind == GM_SYM_CONST || r->kind == GM_SYM_SYMBOL)
    return r->kind == GM_SYM_SYMBOL && r->a == symbol;
  return gm_sizes_uses (s, gm_size_from_row (r->a), symbol)
         || gm_sizes_uses (s, gm_size_from_row (r->b), symbol);
}

bool
gm_sizes_has_hint (const GmSizes *s, int64_t size)
{
  return hint_is_there (s, size);
}

bool
gm_sizes_hint (const GmSizes *s, int64_t size, int64_t *out)
{
  *out = size;
  return !gm_size_is_symbolic (size)
         || (hint_is_there (s, size)
             && gm_sym_eval (s->sym, size, (const int64_t *) s->hints->data, out, NULL));
}

bool
gm_sizes_is_number (GmSizes *s, int64_t size, int64_t *out)
{
  int64_t max;
  *out = size;
  if (!gm_size_is_symbolic (size))
    return true;
  gm_size_facts_bounds (s->facts, size, out, &max);
  return *out == max && max != INT64_MIN && max != INT64_MAX;
}

int64_t
gm_sizes_simplest (GmSizes *s, int64_t size)
{
  int64_t number;
  return gm_sizes_is_number (s, size, &number) ? number : size;
}

/* -- Questions --------------------------------------------------------------------------------- */

static bool
holds (GmRel rel, int64_t a, int64_t b)
{
  return rel == GM_REL_EQ ? a == b : rel == GM_REL_NE ? a != b : rel == GM_REL_LT ? a < b : a <= b;
}

GmTruth
gm_sizes_ask (GmSizes *s, GmRel rel, int64_t a, int64_t b)
{
  if (gm_sizes_are_numbers (a, b))
    return holds (rel, a, b) ? GM_YES : GM_NO;
  return gm_size_facts_ask (s->facts, rel, a, b);
}

GmSizeFact
gm_size_fact_not (GmSizeFact f)
{
  switch (f.rel) {
  case GM_REL_EQ:
    return (GmSizeFact){ GM_REL_NE, f.a, f.b };
  case GM_REL_NE:
    return (GmSizeFact){ GM_REL_EQ, f.a, f.b };
  case GM_REL_LT:
    return (GmSizeFact){ GM_REL_LE, f.b, f.a };
  default:
    return (GmSizeFact){ GM_REL_LT, f.b, f.a };
  }
}

/* Returns the fact or its contrary, whichever holds if each unknown size is 2. */
char *
gm_sizes_advice (const GmSizes *s, GmSizeFact f)
{
  g_autofree int64_t *now = g_new (int64_t, s->hints->len + 1);
  int64_t a, b;
  for (uint32_t i = 0; i < s->hints->len; i++) {
    now[i] = g_array_index (s->hints, int64_t, i);
    now[i] = now[i] == GM_SIZE_NO_HINT ? 2 : now[i];
  }
  if (gm_sym_eval (s->sym, f.a, now, &a, NULL) && gm_sym_eval (s->sym, f.b, now, &b, NULL)
      && !holds (f.rel, a, b))
    f = gm_size_fact_not (f);
  return gm_size_fact_text (s->sym, &f);
}

static bool
undecided (GmSizes *s, GmRel rel, int64_t a, int64_t b)
{
  if (!s->undecided) {
    s->question = (GmSizeFact){ rel, a, b };
    s->undecided = gm_size_fact_text (s->sym, &s->question);
  }
  return rel == GM_REL_NE; /* a guess: sizes differ, and neither is less */
}

bool
gm_sizes_decide (GmSizes *s, GmRel rel, int64_t a, int64_t b)
{
  int64_t x, y;
  GmTruth t = gm_sizes_ask (s, rel, a, b);
  if (t != GM_UNKNOWN)
    return t == GM_YES;
  if (s->frozen || !gm_sizes_hint (s, a, &x) || !gm_sizes_hint (s, b, &y))
    return undecided (s, rel, a, b);
  bool yes = holds (rel, x, y);
  GmSizeFact fact = { rel, a, b };
  if (!yes)
    fact = gm_size_fact_not (fact);
  if (!gm_size_facts_add (s->facts, fact.rel, fact.a, fact.b))
    return undecided (s, rel, a, b); /* hints that contradict the facts: nothing follows */
  if (s->on_fact)
    s->on_fact (s->on_fact_data, &fact);
  return yes;
}

static int64_t
sizes_op (GmSizes *s, GmSymKind kind, int64_t a, int64_t b)
{
  return gm_sym_op (s->sym, kind, a, b);
}

bool
gm_sizes_check (GmSizes *s, GError **error)
{
  if (!s || !s->undecided)
    return true;
  g_autofree char *question = g_steal_pointer (&s->undecided);
  s->n_failed++;
  g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
               "it is not known whether %s, and the shape of the result depends on it", question);
  return false;
}

/* -- With the current sizes -------------------------------------------------------------------- */

int64_t
gm_size_compute (GmSymKind kind, int64_t a, int64_t b)
{
  int64_t out = 0;
  if (current)
    return sizes_op (current, kind, a, b);
  return gm_sym_compute (kind, a, b, &out) ? out : INT64_MAX;
}

bool
gm_size_decide (GmRel rel, int64_t a, int64_t b)
{
  return current ? gm_sizes_decide (current, rel, a, b) : holds (rel, a, b);
}

int64_t
gm_size_extremum (GmSymKind kind, int64_t a, int64_t b)
{
  GmSizeFact f = { GM_REL_LE, a, b };
  if (current && gm_sizes_fact_is_open (current, &f)
      && gm_sizes_ask (current, GM_REL_LE, a, b) == GM_UNKNOWN)
    return sizes_op (current, kind, a, b);
  return gm_size_decide (GM_REL_LE, a, b) == (kind == GM_SYM_MIN) ? a : b;
}

bool
gm_size_surely (GmRel rel, int64_t a, int64_t b)
{
  return current ? gm_sizes_ask (current, rel, a, b) == GM_YES : holds (rel, a, b);
}

bool
gm_size_eq_if_known (int64_t a, int64_t b)
{
  GmSizeFact f = { GM_REL_EQ, a, b };
  if (a == b || gm_sizes_are_numbers (a, b))
    return a == b;
  return current && gm_sizes_fact_is_open (current, &f) ? gm_size_surely (GM_REL_EQ, a, b)
                                                        : gm_size_eq (a, b);
}

static bool
have_hints (const GmSizes *s, int64_t a, int64_t b)
{
  int64_t x;
  return gm_sizes_hint (s, a, &x) && gm_sizes_hint (s, b, &x);
}

/* True if both sizes have hints, and their hints are equal. */
static bool
look_equal (GmSizes *s, int64_t a, int64_t b)
{
  int64_t x, y;
  return gm_sizes_hint (s, a, &x) && gm_sizes_hint (s, b, &y) && x == y;
}

bool
gm_size_broadcast (int64_t a, int64_t b, int64_t *out)
{
  GmSizes *s = current;
  if (!s || gm_sizes_are_numbers (a, b)) {
    *out = a == 1 ? b : a;
    return a == b || a == 1 || b == 1;
  }
  GmTruth known = gm_size_facts_broadcast (s->facts, a, b, out);
  if (known != GM_UNKNOWN)
    return known == GM_YES;
  *out = a;
  if (s->frozen || !have_hints (s, a, b))
    return undecided (s, GM_REL_EQ, a, b);
  if (look_equal (s, a, b))
    return gm_sizes_decide (s, GM_REL_EQ, a, b);
  if (look_equal (s, b, 1))
    return gm_sizes_decide (s, GM_REL_EQ, b, 1);
  *out = b;
  if (look_equal (s, a, 1))
    return gm_sizes_decide (s, GM_REL_EQ, a, 1);
  /* All three are needed for the answer that they do not fit. */
  gm_sizes_decide (s, GM_REL_EQ, a, b);
  gm_sizes_decide (s, GM_REL_EQ, b, 1);
  gm_sizes_decide (s, GM_REL_EQ, a, 1);
  return false;
}

bool
gm_size_expands (int64_t a, int64_t b)
{
  GmSizes *s = current;
  if (a == 1 || a == b)
    return true;
  if (!s || gm_sizes_are_numbers (a, b))
    return false;
  if (gm_sizes_ask (s, GM_REL_EQ, a, b) == GM_YES || gm_sizes_ask (s, GM_REL_EQ, a, 1) == GM_YES)
    return true;
  if (s->frozen || !have_hints (s, a, b))
    return undecided (s, GM_REL_EQ, a, b);
  if (look_equal (s, a, b))
    return gm_sizes_decide (s, GM_REL_EQ, a, b);
  if (look_equal (s, a, 1))
    return gm_sizes_decide (s, GM_REL_EQ, a, 1);
  gm_sizes_decide (s, GM_REL_EQ, a, b);
  gm_sizes_decide (s, GM_REL_EQ, a, 1);
  return false;
}

int64_t
gm_size_at_least_1 (int64_t a)
{
  int64_t hint;
  GmSizes *s = current;
  if (!s || !gm_size_is_symbolic (a))
    return MAX (a, 1);
  GmTruth t = gm_sizes_ask (s, GM_REL_LE, 1, a);
  if (t != GM_UNKNOWN)
    return t == GM_YES ? a : 1;
  /* Without a hint the size itself is returned: a stride of 0 in a tensor without elements does no
   * harm. */
  if (s->frozen || !gm_sizes_hint (s, a, &hint))
    return a;
  return gm_sizes_decide (s, GM_REL_LE, 1, a) ? a : 1;
}

int64_t
gm_size_number (int64_t a)
{
  int64_t number;
  GmSizes *s = current;
  if (!s || !gm_size_is_symbolic (a))
    return a;
  if (gm_sizes_is_number (s, a, &number))
    return number;
  if (s->frozen || !gm_sizes_hint (s, a, &number)) {
    undecided (s, GM_REL_EQ, a, 1); /* one of the questions that this size stands for */
    return 1;
  }
  gm_sizes_decide (s, GM_REL_EQ, a, number);
  return number;
}

int64_t
gm_size_guess (int64_t a, int64_t or_else)
{
  int64_t hint;
  if (!current || !gm_size_is_symbolic (a))
    return a;
  return gm_sizes_hint (current, a, &hint) ? hint : or_else;
}

char *
gm_size_text (int64_t a)
{
  if (gm_size_is_symbolic (a) && current)
    return gm_sym_text (current->sym, a);
  return g_strdup_printf ("%" G_GINT64_FORMAT, a);
}

/* -- Text -------------------------------------------------------------------------------------- */

/* Compares two symbols by name, for sorting: this order is the same wherever the text is read
 * back. */
static int
by_name (const void *a, const void *b, void *sym)
{
  return strcmp (gm_sym_row (sym, *(const uint32_t *) a)->name,
                 gm_sym_row (sym, *(const uint32_t *) b)->name);
}

char *
gm_sizes_text (const GmSizes *s)
{
  GString *out = g_string_new (NULL);
  g_autoptr (GArray) rows = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  for (uint32_t i = 0; i < gm_sym_n_rows (s->sym); i++) {
    const GmSymRow *r = gm_sym_row (s->sym, i);
    if (r->kind == GM_SYM_SYMBOL && hint_is_there (s, gm_size_from_row (i)))
      g_array_append_val (rows, i);
  }
  g_array_sort_with_data (rows, by_name, s->sym);
  for (uint32_t k = 0; k < rows->len; k++) {
    const GmSymRow *r = gm_sym_row (s->sym, g_array_index (rows, uint32_t, k));
    g_string_append_printf (out, "%s%s = %" G_GINT64_FORMAT, out->len ? ", " : "", r->name,
                            g_array_index (s->hints, int64_t, r->a));
  }
  for (uint32_t i = 0; i < gm_size_facts_n (s->facts); i++) {
    GmSizeFact fact = gm_size_facts_nth (s->facts, i);
    g_autofree char *text = gm_size_fact_text (s->sym, &fact);
    g_string_append_printf (out, "%s%s", out->len ? ", " : "", text);
  }
  return g_string_free (out, !out->len);
}

static bool
parse_relation (const char **at, GmRel *rel, bool *swap)
{
  static const struct {
    const char *text;
    GmRel rel;
    bool swap;
  } all[] = {
    { "==", GM_REL_EQ, false }, { "!=", GM_REL_NE, false }, { "<=", GM_REL_LE, false },
    { ">=", GM_REL_LE, true },  { "<", GM_REL_LT, false },  { ">", GM_REL_LT, true },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (all); i++)
    if (g_str_has_prefix (*at, all[i].text)) {
      *rel = all[i].rel;
      *swap = all[i].swap;
      *at += strlen (all[i].text);
      return true;
    }
  return false;
}

static const char *
past_blanks (const char *at)
{
  return at + strspn (at, " \t\n");
}

static bool
fail (const char **text, const char *at, GError **error, const char *what)
{
  *text = at;
  g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "facts about sizes: %s", what);
  return false;
}

/* True if the facts contain this fact already: the graphs in a text share their facts, and each
 * graph states them. */
static bool
is_said (const GmSizes *s, GmRel rel, int64_t a, int64_t b)
{
  for (uint32_t i = 0; i < gm_size_facts_n (s->facts); i++) {
    GmSizeFact f = gm_size_facts_nth (s->facts, i);
    if (f.rel == rel && f.a == a && f.b == b)
      return true;
  }
  return false;
}

/* Parses a hint or a fact, "n = 7" or "n*2 <= m", and adds it.  False with *error. */
static bool
parse_one (GmSizes *s, const char **text, GError **error)
{
  const char *at = past_blanks (*text), *place = at;
  int64_t a, b;
  GmRel rel;
  bool swap;
  if (!gm_sym_parse (s->sym, &at, &a, error)) {
    *text = at;
    return false;
  }
  at = past_blanks (at);
  bool relation = parse_relation (&at, &rel, &swap);
  if (!relation && *at++ != '=')
    return fail (text, at - 1, error, "expected '=', '==', '!=', '<', '<=', '>' or '>='");
  if (!gm_sym_parse (s->sym, &at, &b, error)) {
    *text = at;
    return false;
  }
  if (relation) {
    if (!is_said (s, rel, swap ? b : a, swap ? a : b)
        && !gm_size_facts_add (s->facts, rel, swap ? b : a, swap ? a : b))
      return fail (text, place, error, "this contradicts those before");
  } else {
    const GmSymRow *r = gm_size_is_symbolic (a) ? gm_sym_row (s->sym, gm_size_row (a)) : NULL;
    if (!r || r->kind != GM_SYM_SYMBOL || gm_size_is_symbolic (b))
      return fail (text, place, error, "'=' gives the example value, a number, of one symbol");
    gm_sizes_symbol (s, r->name, b);
  }
  *text = at;
  return true;
}

bool
gm_sizes_parse (GmSizes *s, const char **text, GError **error)
{
  for (;;) {
    if (!parse_one (s, text, error))
      return false;
    const char *at = past_blanks (*text);
    if (*at != ',')
      return true;
    *text = at + 1;
  }
}
