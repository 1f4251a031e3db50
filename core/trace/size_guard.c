/* SPDX-License-Identifier: Apache-2.0
 * size_guard.c -- facts about sizes, flat: see size_guard.h.
 *
 * A check is a row of registers: first the loads, then operations on earlier registers in the order of
 * the expression's rows, each once.  An operation that overflows or divides by zero makes the fact not
 * hold.  No Python object is made.
 */
#include "core/trace/size_guard.h"

#include "core/trace/trace.h"

#include <string.h>

#define MAX_REGISTERS 32

typedef struct {
  uint8_t kind; /* GmSymKind */
  uint8_t a, b; /* registers */
} Op;

struct GmSizeCheck {
  uint8_t rel, a, b; /* GmRel, registers */
  uint8_t n_loads, n_ops;
  GmSizeLoad loads[MAX_REGISTERS];
  Op ops[MAX_REGISTERS];
  char *text;
};

/* -- Making ------------------------------------------------------------------------------------ */

typedef struct {
  const GmSizes *s;
  const GmSizeLoad *loads;
  GmSizeCheck *c;
  int register_of[2 * MAX_REGISTERS];
  uint32_t rows[2 * MAX_REGISTERS]; /* expressions that have a register */
  uint32_t n;
  bool fits;
} Builder;

static int
add_load (Builder *b, const GmSizeLoad *load)
{
  for (int i = 0; i < b->c->n_loads; i++)
    if (!memcmp (&b->c->loads[i], load, sizeof *load))
      return i;
  if (b->c->n_loads == MAX_REGISTERS / 2) {
    b->fits = false;
    return 0;
  }
  b->c->loads[b->c->n_loads] = *load;
  return b->c->n_loads++;
}

/* All leaves first: the loads come before the operations. */
static void
load_leaves (Builder *b, int64_t size)
{
  if (!gm_size_is_symbolic (size)) {
    add_load (b, &(GmSizeLoad){ .kind = GM_SIZE_LOAD_NUMBER, .value = size });
    return;
  }
  const GmSymRow *r = gm_sym_row (b->s->sym, gm_size_row (size));
  if (r->kind == GM_SYM_SYMBOL)
    add_load (b, &b->loads[r->a]);
  else if (r->kind == GM_SYM_CONST)
    add_load (b, &(GmSizeLoad){ .kind = GM_SIZE_LOAD_NUMBER, .value = r->value });
  else {
    load_leaves (b, gm_size_from_row (r->a));
    load_leaves (b, gm_size_from_row (r->b));
  }
}

static int
emit (Builder *b, int64_t size)
{
  if (!gm_size_is_symbolic (size))
    return add_load (b, &(GmSizeLoad){ .kind = GM_SIZE_LOAD_NUMBER, .value = size });
  uint32_t row = gm_size_row (size);
  const GmSymRow *r = gm_sym_row (b->s->sym, row);
  if (r->kind == GM_SYM_SYMBOL)
    return add_load (b, &b->loads[r->a]);
  if (r->kind == GM_SYM_CONST)
    return add_load (b, &(GmSizeLoad){ .kind = GM_SIZE_LOAD_NUMBER, .value = r->value });
  for (uint32_t i = 0; i < b->n; i++)
    if (b->rows[i] == row)
      return b->register_of[i];
  Op op = { r->kind, (uint8_t) emit (b, gm_size_from_row (r->a)), (uint8_t) emit (b, gm_size_from_row (r->b)) };
  if (b->c->n_ops + b->c->n_loads >= MAX_REGISTERS) {
    b->fits = false;
    return 0;
  }
  int at = b->c->n_loads + b->c->n_ops;
  b->c->ops[b->c->n_ops++] = op;
  b->rows[b->n] = row;
  b->register_of[b->n++] = at;
  return at;
}

/* The text with what symbols stand for in place of their names: "2 <= L['x'].size(0)". */
static char *
readable (const GmSizes *s, char *text)
{
  GString *out = g_string_new (NULL);
  for (const char *c = text; *c;) {
    size_t n = 0;
    while (g_ascii_isalnum (c[n]) || c[n] == '_')
      n++;
    g_autofree char *word = g_strndup (c, n);
    const char *key = n ? g_hash_table_lookup (s->named, word) : NULL;
    if (n == 0)
      g_string_append_c (out, *c++);
    else
      g_string_append (out, key ? key : word);
    c += n;
  }
  g_free (text);
  return g_string_free (out, FALSE);
}

/* A fact too long for the registers cannot be checked: it never holds. */
static void
give_up (GmSizeCheck *c)
{
  c->n_ops = 0;
  c->n_loads = 1;
  c->loads[0] = (GmSizeLoad){ .kind = GM_SIZE_LOAD_NUMBER };
  c->rel = GM_REL_NE;
  c->a = c->b = 0;
}

GmSizeCheck *
gm_size_check_new (const GmSizes *s, const GmSizeFact *fact, const GmSizeLoad *loads)
{
  GmSizeCheck *c = g_new0 (GmSizeCheck, 1);
  Builder b = { .s = s, .loads = loads, .c = c, .fits = true };
  c->rel = (uint8_t) fact->rel;
  load_leaves (&b, fact->a);
  load_leaves (&b, fact->b);
  c->a = (uint8_t) emit (&b, fact->a);
  c->b = (uint8_t) emit (&b, fact->b);
  c->text = readable (s, gm_size_fact_text (s->sym, fact));
  bool open = !b.fits;
  for (int i = 0; i < c->n_loads; i++)
    open |= c->loads[i].kind != GM_SIZE_LOAD_NUMBER;
  if (!b.fits)
    give_up (c);
  if (open)
    return c;
  gm_size_check_free (c);
  return NULL;
}

GmSizeCheck *
gm_size_check_new_stride (const GmSizes *s, int64_t stride, const GmSizeLoad *own,
                          const GmSizeLoad *loads)
{
  GmSizeCheck *c = g_new0 (GmSizeCheck, 1);
  Builder b = { .s = s, .loads = loads, .c = c, .fits = true };
  c->rel = GM_REL_EQ;
  c->a = (uint8_t) add_load (&b, own);
  load_leaves (&b, stride);
  c->b = (uint8_t) emit (&b, stride);
  g_autofree char *text = gm_sym_text (s->sym, stride);
  c->text = readable (s, g_strdup_printf ("stride(%u) == %s", own->dim, text));
  if (!b.fits)
    give_up (c);
  return c;
}

void
gm_size_check_free (GmSizeCheck *c)
{
  g_free (c->text);
  g_free (c);
}

/* -- Checking ---------------------------------------------------------------------------------- */

static inline int64_t
value_of (const GmSizeLoad *l, PyObject *const *slots)
{
  if (l->kind == GM_SIZE_LOAD_NUMBER)
    return l->value;
  PyObject *o = slots[l->slot];
  if (PyLong_CheckExact (o))
    return PyLong_AsLongLong (o); /* an earlier record has made sure that it fits */
  const GmMeta *m = &gm_host_tensor (o)->meta;
  return l->kind == GM_SIZE_LOAD_SIZE ? m->sizes[l->dim] : m->strides[l->dim];
}

/* The two numbers that are compared; false: one cannot be computed. */
static inline bool
compute_sides (const GmSizeCheck *c, PyObject *const *slots, int64_t *a, int64_t *b)
{
  int64_t v[MAX_REGISTERS];
  for (int i = 0; i < c->n_loads; i++)
    v[i] = value_of (&c->loads[i], slots);
  for (int i = 0; i < c->n_ops; i++) {
    const Op *op = &c->ops[i];
    if (!gm_sym_compute (op->kind, v[op->a], v[op->b], &v[c->n_loads + i]))
      return false;
  }
  *a = v[c->a];
  *b = v[c->b];
  return true;
}

bool
gm_size_check_holds (const GmSizeCheck *c, PyObject *const *slots)
{
  int64_t a, b;
  if (G_LIKELY (c->n_ops == 0)) { /* what most say: two sizes, or a size and a number */
    a = value_of (&c->loads[c->a], slots);
    b = value_of (&c->loads[c->b], slots);
  } else if (!compute_sides (c, slots, &a, &b))
    return false;
  switch ((GmRel) c->rel) {
  case GM_REL_EQ: return a == b;
  case GM_REL_NE: return a != b;
  case GM_REL_LT: return a < b;
  default: return a <= b;
  }
}

char *
gm_size_check_text (const GmSizeCheck *c)
{
  return g_strdup (c->text);
}

char *
gm_size_check_found (const GmSizeCheck *c, PyObject *const *slots)
{
  int64_t a, b;
  if (!compute_sides (c, slots, &a, &b))
    return g_strdup ("numbers that are too large");
  return g_strdup_printf ("%" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, a, b);
}
