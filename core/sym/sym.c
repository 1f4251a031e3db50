/* SPDX-License-Identifier: Apache-2.0
 * sym.c -- the rows of size expressions: consing, folding, evaluation.
 *
 * A row's identity is (kind, a, b, value); symbols are told apart by their number.  `slots` is an
 * open-addressing table of row + 1 with linear probing, rebuilt when it grows or when rows are
 * truncated.  Text is in sym_text.c.
 */
#include "core/sym/sym.h"

#include <string.h>

#include "core/base/error.h"
#include "core/sym/sym_private.h"

GmSym *
gm_sym_new (void)
{
  GmSym *s = g_new0 (GmSym, 1);
  s->rows = g_array_new (FALSE, FALSE, sizeof (GmSymRow));
  s->n_slots = 16;
  s->slots = g_new0 (uint32_t, s->n_slots);
  return s;
}

void
gm_sym_free (GmSym *s)
{
  if (!s)
    return;
  gm_sym_truncate (s, 0);
  g_clear_pointer (&s->named, g_hash_table_unref);
  g_array_unref (s->rows);
  g_free (s->slots);
  g_free (s);
}

uint32_t
gm_sym_n_rows (const GmSym *s)
{
  return s->rows->len;
}

const GmSymRow *
gm_sym_row (const GmSym *s, uint32_t row)
{
  g_assert (row < s->rows->len);
  return &g_array_index (s->rows, GmSymRow, row);
}

uint32_t
gm_sym_n_symbols (const GmSym *s)
{
  return s->n_symbols;
}

/* -- Consing ----------------------------------------------------------------------------------- */

static uint32_t
hash_row (const GmSymRow *r)
{
  uint64_t h = r->kind + 1;
  h = (h ^ r->a) * UINT64_C (0x9e3779b97f4a7c15);
  h = (h ^ r->b ^ h >> 29) * UINT64_C (0x9e3779b97f4a7c15);
  h = (h ^ (uint64_t) r->value ^ h >> 32) * UINT64_C (0x9e3779b97f4a7c15);
  return (uint32_t) (h >> 32);
}

static bool
same_row (const GmSymRow *x, const GmSymRow *y)
{
  return x->kind == y->kind && x->a == y->a && x->b == y->b && x->value == y->value;
}

static void
rebuild_slots (GmSym *s)
{
  while (s->n_slots < s->rows->len * 2 + 2)
    s->n_slots *= 2;
  g_free (s->slots);
  s->slots = g_new0 (uint32_t, s->n_slots);
  for (uint32_t i = 0; i < s->rows->len; i++) {
    uint32_t at = hash_row (gm_sym_row (s, i)) & (s->n_slots - 1);
    while (s->slots[at])
      at = (at + 1) & (s->n_slots - 1);
    s->slots[at] = i + 1;
  }
}

static uint32_t
cons (GmSym *s, const GmSymRow *r)
{
  uint32_t at = hash_row (r) & (s->n_slots - 1);
  for (; s->slots[at]; at = (at + 1) & (s->n_slots - 1))
    if (same_row (gm_sym_row (s, s->slots[at] - 1), r))
      return s->slots[at] - 1;
  g_array_append_vals (s->rows, r, 1);
  s->slots[at] = s->rows->len;
  if (s->rows->len * 2 > s->n_slots)
    rebuild_slots (s);
  return s->rows->len - 1;
}

void
gm_sym_truncate (GmSym *s, uint32_t n_rows)
{
  g_assert (n_rows <= s->rows->len);
  if (n_rows == s->rows->len)
    return;
  for (uint32_t i = n_rows; i < s->rows->len; i++) {
    const GmSymRow *r = gm_sym_row (s, i);
    if (r->kind == GM_SYM_SYMBOL) {
      if (s->named)
        g_hash_table_remove (s->named, r->name);
      g_free ((char *) r->name);
      s->n_symbols--;
    }
  }
  g_array_set_size (s->rows, n_rows);
  rebuild_slots (s);
}

GmSym *
gm_sym_copy (const GmSym *s)
{
  GmSym *c = gm_sym_new ();
  g_array_append_vals (c->rows, s->rows->data, s->rows->len);
  for (uint32_t i = 0; i < c->rows->len; i++) {
    GmSymRow *r = &g_array_index (c->rows, GmSymRow, i);
    if (r->kind == GM_SYM_SYMBOL)
      r->name = g_strdup (r->name);
  }
  c->n_symbols = s->n_symbols;
  rebuild_slots (c);
  return c;
}

#define FEW 16

/* Returns 1 + the row of the symbol of this name; 0: there is none. */
static uint32_t
find_symbol (GmSym *s, const char *name)
{
  if (s->named)
    return GPOINTER_TO_UINT (g_hash_table_lookup (s->named, name));
  uint32_t found = 0;
  if (s->n_symbols >= FEW)
    s->named = g_hash_table_new (g_str_hash, g_str_equal);
  for (uint32_t i = 0; i < s->rows->len && (s->named || !found); i++) {
    const GmSymRow *r = gm_sym_row (s, i);
    if (r->kind != GM_SYM_SYMBOL)
      continue;
    if (s->named)
      g_hash_table_insert (s->named, (char *) r->name, GUINT_TO_POINTER (i + 1));
    if (!strcmp (r->name, name))
      found = i + 1;
  }
  return found;
}

int64_t
gm_sym_symbol (GmSym *s, const char *name)
{
  uint32_t found = find_symbol (s, name);
  if (found)
    return gm_size_from_row (found - 1);
  GmSymRow r = { .kind = GM_SYM_SYMBOL, .a = s->n_symbols++, .name = g_strdup (name) };
  r.max = INT64_MAX;
  r.multiple_of = 1;
  uint32_t row = cons (s, &r);
  if (s->named)
    g_hash_table_insert (s->named, (char *) r.name, GUINT_TO_POINTER (row + 1));
  return gm_size_from_row (row);
}

bool
gm_sym_assume (GmSym *s, int64_t symbol, int64_t min, int64_t max, int64_t multiple_of)
{
  g_return_val_if_fail (gm_size_is_symbolic (symbol) && multiple_of > 0, false);
  GmSymRow *r = &g_array_index (s->rows, GmSymRow, gm_size_row (symbol));
  g_return_val_if_fail (r->kind == GM_SYM_SYMBOL, false);
  min = MAX (min, r->min);
  max = MIN (max, r->max);
  if (min > max)
    return false;
  r->min = min;
  r->max = max;
  if (multiple_of % r->multiple_of == 0) /* other pairs: the weaker, earlier fact stays true */
    r->multiple_of = multiple_of;
  return true;
}

void
gm_sym_set_range (GmSym *s, int64_t symbol, int64_t min, int64_t max)
{
  GmSymRow *r = &g_array_index (s->rows, GmSymRow, gm_size_row (symbol));
  g_return_if_fail (gm_size_is_symbolic (symbol) && r->kind == GM_SYM_SYMBOL && min <= max);
  r->min = min;
  r->max = max;
}

static uint32_t
row_of (GmSym *s, int64_t size)
{
  if (gm_size_is_symbolic (size))
    return gm_size_row (size);
  GmSymRow r = { .kind = GM_SYM_CONST, .value = size, .min = size, .max = size, .multiple_of = 1 };
  return cons (s, &r);
}

int64_t
gm_sym_const (GmSym *s, int64_t value)
{
  if (!gm_size_is_symbolic (value))
    return value;
  GmSymRow r = {
    .kind = GM_SYM_CONST, .value = value, .min = value, .max = value, .multiple_of = 1
  };
  return gm_size_from_row (cons (s, &r));
}

/* -- Folding ----------------------------------------------------------------------------------- */

bool
gm_sym_compute (GmSymKind kind, int64_t a, int64_t b, int64_t *out)
{
  switch (kind) {
  case GM_SYM_ADD:
    return !__builtin_add_overflow (a, b, out);
  case GM_SYM_MUL:
    return !__builtin_mul_overflow (a, b, out);
  case GM_SYM_FLOORDIV:
  case GM_SYM_MOD: {
    if (b == 0 || (a == INT64_MIN && b == -1))
      return false;
    int64_t q = a / b, m = a % b;
    if (m && (m < 0) != (b < 0)) {
      q--;
      m += b;
    }
    *out = kind == GM_SYM_MOD ? m : q;
    return true;
  }
  case GM_SYM_MIN:
    *out = MIN (a, b);
    return true;
  case GM_SYM_MAX:
    *out = MAX (a, b);
    return true;
  default:
    g_assert_not_reached ();
  }
}

static bool
is_const (const GmSym *s, int64_t size, int64_t *value)
{
  if (!gm_size_is_symbolic (size)) {
    *value = size;
    return true;
  }
  const GmSymRow *r = gm_sym_row (s, gm_size_row (size));
  *value = r->value;
  return r->kind == GM_SYM_CONST;
}

/* Splits x into *base `kind` *c, with a constant c: x itself has this form, or *c is the neutral
 * number of `kind` (ADD or MUL). */
static void
split (const GmSym *s, GmSymKind kind, int64_t x, int64_t *base, int64_t *c)
{
  *base = x;
  *c = kind == GM_SYM_MUL;
  if (gm_size_is_symbolic (x)) {
    const GmSymRow *r = gm_sym_row (s, gm_size_row (x));
    int64_t v;
    if (r->kind == kind && is_const (s, gm_size_from_row (r->b), &v)) {
      *base = gm_size_from_row (r->a);
      *c = v;
    }
  }
}

static int64_t
make (GmSym *s, GmSymKind kind, int64_t a, int64_t b)
{
  GmSymRow r = { .kind = kind,
                 .a = row_of (s, a),
                 .b = row_of (s, b),
                 .min = INT64_MIN,
                 .max = INT64_MAX,
                 .multiple_of = 1 };
  return gm_size_from_row (cons (s, &r));
}

/* Compares two expressions, for sorting, by their structure and names, not by when their rows
 * were made: so text that is read back makes the same text. */
static int
compare (const GmSym *s, uint32_t x, uint32_t y)
{
  const GmSymRow *a = gm_sym_row (s, x), *b = gm_sym_row (s, y);
  if (x == y)
    return 0;
  if (a->kind != b->kind)
    return a->kind - b->kind;
  if (a->kind == GM_SYM_SYMBOL)
    return strcmp (a->name, b->name);
  if (a->kind == GM_SYM_CONST)
    return a->value < b->value ? -1 : 1;
  int c = compare (s, a->a, b->a);
  return c ? c : compare (s, a->b, b->b);
}

int64_t
gm_sym_op (GmSym *s, GmSymKind kind, int64_t a, int64_t b)
{
  int64_t ca = 0, cb = 0, v;
  bool ka = is_const (s, a, &ca), kb = is_const (s, b, &cb);
  if (ka && kb && gm_sym_compute (kind, ca, cb, &v))
    return gm_sym_const (s, v);
  bool commutes = kind != GM_SYM_FLOORDIV && kind != GM_SYM_MOD;
  if (commutes
      && ((ka && !kb) || (!ka && !kb && compare (s, gm_size_row (a), gm_size_row (b)) > 0))) {
    int64_t t = a; /* constants second: one spelling for both orders */
    a = b;
    b = t;
    bool k = ka;
    ka = kb;
    kb = k;
    cb = ca;
  }
  if ((kind == GM_SYM_MIN || kind == GM_SYM_MAX) && a == b)
    return a;
  if (kind == GM_SYM_ADD && !kb) { /* x * c + x * d */
    int64_t base_a, base_b, fa, fb;
    split (s, GM_SYM_MUL, a, &base_a, &fa);
    split (s, GM_SYM_MUL, b, &base_b, &fb);
    if (base_a == base_b && gm_sym_compute (GM_SYM_ADD, fa, fb, &v))
      return gm_sym_op (s, GM_SYM_MUL, base_a, gm_sym_const (s, v));
  }
  if (!kb || ka)
    return make (s, kind, a, b);
  if (kind == GM_SYM_MUL && cb == 0)
    return 0;
  if (kind == GM_SYM_MOD && cb == 1)
    return 0;
  if ((kind == GM_SYM_ADD && cb == 0)
      || ((kind == GM_SYM_MUL || kind == GM_SYM_FLOORDIV) && cb == 1))
    return a;
  if (kind == GM_SYM_ADD || kind == GM_SYM_MUL) { /* (x + c) + d */
    int64_t base, c;
    split (s, kind, a, &base, &c);
    if (base != a && gm_sym_compute (kind, c, cb, &v))
      return gm_sym_op (s, kind, base, gm_sym_const (s, v));
  }
  return make (s, kind, a, b);
}

/* -- Evaluation -------------------------------------------------------------------------------- */

/* Number of rows up to which they are evaluated on the C stack. */
#define FEW_ROWS 64u

static bool
eval_row (const GmSym *s, uint32_t row, const int64_t *symbols, const int64_t *values, int64_t *out,
          GError **error)
{
  const GmSymRow *r = gm_sym_row (s, row);
  if (r->kind == GM_SYM_CONST)
    *out = r->value;
  else if (r->kind == GM_SYM_SYMBOL)
    *out = symbols[r->a];
  else if (!gm_sym_compute (r->kind, values[r->a], values[r->b], out)) {
    g_autofree char *text = gm_sym_text (s, gm_size_from_row (row));
    g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                 "the size %s has no 64-bit value for these sizes (%" G_GINT64_FORMAT
                 " and %" G_GINT64_FORMAT "): it divides by zero or overflows",
                 text, values[r->a], values[r->b]);
    return false;
  }
  return true;
}

void
gm_sym_eval_known (const GmSym *s, const int64_t *symbols, int64_t *values, bool *known)
{
  for (uint32_t i = 0; i < s->rows->len; i++) {
    const GmSymRow *r = gm_sym_row (s, i);
    known[i] = true;
    if (r->kind == GM_SYM_CONST)
      values[i] = r->value;
    else if (r->kind == GM_SYM_SYMBOL)
      values[i] = symbols[r->a];
    else
      known[i] = known[r->a] && known[r->b]
                 && gm_sym_compute (r->kind, values[r->a], values[r->b], &values[i]);
  }
}

/* Marks and evaluates only the rows that `size` needs: a row that cannot be computed is an error
 * only if it is needed.  Most sizes of a run are symbols by themselves, and the rows of most graphs
 * are few. */
bool
gm_sym_eval (const GmSym *s, int64_t size, const int64_t *symbols, int64_t *out, GError **error)
{
  if (!gm_size_is_symbolic (size)) {
    *out = size;
    return true;
  }
  uint32_t n = gm_size_row (size) + 1;
  const GmSymRow *last = gm_sym_row (s, n - 1);
  if (last->kind == GM_SYM_SYMBOL) {
    *out = symbols[last->a];
    return true;
  }
  bool few_needed[FEW_ROWS];
  int64_t few_values[FEW_ROWS];
  g_autofree bool *many_needed = n > FEW_ROWS ? g_new (bool, n) : NULL;
  g_autofree int64_t *many_values = n > FEW_ROWS ? g_new (int64_t, n) : NULL;
  bool *needed = n > FEW_ROWS ? many_needed : few_needed;
  int64_t *values = n > FEW_ROWS ? many_values : few_values;
  memset (needed, 0, n * sizeof *needed);
  needed[n - 1] = true;
  for (uint32_t i = n; i-- > 0;) {
    const GmSymRow *r = gm_sym_row (s, i);
    if (needed[i] && r->kind >= GM_SYM_ADD)
      needed[r->a] = needed[r->b] = true;
  }
  for (uint32_t i = 0; i < n; i++)
    if (needed[i] && !eval_row (s, i, symbols, values, &values[i], error))
      return false;
  *out = values[n - 1];
  return true;
}
