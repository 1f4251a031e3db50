/* SPDX-License-Identifier: Apache-2.0
 * size_guard.c -- facts about sizes, flat: see size_guard.h.
 *
 * A check is a row of registers: first the loads, then operations on earlier registers in the order
 * of the expression's rows, each once.  An operation that overflows or divides by zero makes the
 * fact not hold.  No Python object is made.
 */
#include "core/guard/size_guard.h"

#include "core/guard/guards.h"

#include <string.h>

typedef struct {
  uint32_t kind; /* GmSymKind */
  uint32_t a, b; /* registers */
} Op;

struct GmSizeCheck {
  uint32_t rel, a, b; /* GmRel, registers */
  uint32_t n_loads, n_ops;
  GmSizeLoad *loads;
  Op *ops;
  char *text;
};

/* -- Making ------------------------------------------------------------------------------------ */

/* Flag of a register in the builder that is the result of an operation; without the flag the
 * register is a load. */
#define OPERATION (UINT32_C (1) << 31)
#define NO_REGISTER UINT32_MAX

typedef struct {
  const GmSizes *s;
  const GmSizeLoad *from; /* loads, by number of the symbol */
  GArray *loads, *ops;
  uint32_t *of; /* registers, by row of the expressions, or NO_REGISTER */
} Builder;

static void
builder_init (Builder *b, const GmSizes *s, const GmSizeLoad *from)
{
  uint32_t n = gm_sym_n_rows (s->sym);

  *b = (Builder){ s, from, g_array_new (FALSE, FALSE, sizeof (GmSizeLoad)),
                  g_array_new (FALSE, FALSE, sizeof (Op)), g_new (uint32_t, n + 1) };
  memset (b->of, 0xff, (n + 1) * sizeof *b->of);
}

static uint32_t
add_load (Builder *b, const GmSizeLoad *load)
{
  for (uint32_t i = 0; i < b->loads->len; i++)
    if (!memcmp (&g_array_index (b->loads, GmSizeLoad, i), load, sizeof *load))
      return i;
  g_array_append_val (b->loads, *load);
  return b->loads->len - 1;
}

static uint32_t
emit (Builder *b, int64_t size)
{
  if (!gm_size_is_symbolic (size))
    return add_load (b, &(GmSizeLoad){ .kind = GM_SIZE_LOAD_NUMBER, .value = size });
  uint32_t row = gm_size_row (size);
  const GmSymRow *r = gm_sym_row (b->s->sym, row);
  if (r->kind == GM_SYM_SYMBOL)
    return add_load (b, &b->from[r->a]);
  if (r->kind == GM_SYM_CONST)
    return add_load (b, &(GmSizeLoad){ .kind = GM_SIZE_LOAD_NUMBER, .value = r->value });
  if (b->of[row] == NO_REGISTER) {
    Op op = { r->kind, emit (b, gm_size_from_row (r->a)), emit (b, gm_size_from_row (r->b)) };
    b->of[row] = b->ops->len | OPERATION;
    g_array_append_val (b->ops, op);
  }
  return b->of[row];
}

static uint32_t
register_of (const Builder *b, uint32_t at)
{
  return at & OPERATION ? b->loads->len + (at & ~OPERATION) : at;
}

/* Moves loads and operations of the builder, which is cleared, into c, and numbers all registers,
 * among them c->a and c->b. */
static void
finish (Builder *b, GmSizeCheck *c)
{
  c->a = register_of (b, c->a);
  c->b = register_of (b, c->b);
  for (uint32_t i = 0; i < b->ops->len; i++) {
    Op *op = &g_array_index (b->ops, Op, i);
    op->a = register_of (b, op->a);
    op->b = register_of (b, op->b);
  }
  c->n_loads = b->loads->len;
  c->n_ops = b->ops->len;
  c->loads = (GmSizeLoad *) (void *) g_array_free (b->loads, FALSE);
  c->ops = (Op *) (void *) g_array_free (b->ops, FALSE);
  g_free (b->of);
}

/* Returns `text`, which is freed, with the sources of symbols in place of their names: "2 <=
 * L['x'].size(0)". The caller frees the result. */
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

GmSizeCheck *
gm_size_check_new (const GmSizes *s, const GmSizeFact *fact, const GmSizeLoad *loads)
{
  GmSizeCheck *c = g_new0 (GmSizeCheck, 1);
  Builder b;
  bool open = false;
  builder_init (&b, s, loads);
  c->rel = fact->rel;
  c->a = emit (&b, fact->a);
  c->b = emit (&b, fact->b);
  c->text = readable (s, gm_size_fact_text (s->sym, fact));
  finish (&b, c);
  for (uint32_t i = 0; i < c->n_loads; i++)
    open |= c->loads[i].kind != GM_SIZE_LOAD_NUMBER;
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
  Builder b;
  builder_init (&b, s, loads);
  c->rel = GM_REL_EQ;
  c->a = add_load (&b, own);
  c->b = emit (&b, stride);
  g_autofree char *text = gm_sym_text (s->sym, stride);
  c->text = readable (s, g_strdup_printf ("stride(%u) == %s", own->dim, text));
  finish (&b, c);
  return c;
}

void
gm_size_check_free (GmSizeCheck *c)
{
  g_free (c->loads);
  g_free (c->ops);
  g_free (c->text);
  g_free (c);
}

/* -- Checking ---------------------------------------------------------------------------------- */

#define FEW_REGISTERS 32 /* checks with at most so many registers have them on the stack */

static inline int64_t
value_of (const GmSizeLoad *l, PyObject *const *slots)
{
  if (l->kind == GM_SIZE_LOAD_NUMBER)
    return l->value;
  PyObject *o = slots[l->slot];
  if (PyLong_CheckExact (o))
    return PyLong_AsLongLong (o); /* an earlier record has checked that the int fits */
  const GmMeta *m = &gm_host_tensor (o)->meta;
  return l->kind == GM_SIZE_LOAD_SIZE ? m->sizes[l->dim] : m->strides[l->dim];
}

/* Computes the numbers on both sides of the check's comparison; false: a number cannot be computed.
 * Not inline: each check would begin with the set-up of the registers. */
G_GNUC_NO_INLINE static bool
compute_sides (const GmSizeCheck *c, PyObject *const *slots, int64_t *a, int64_t *b)
{
  int64_t few[FEW_REGISTERS], *v = few;
  g_autofree int64_t *many = NULL;
  if (G_UNLIKELY (c->n_loads + c->n_ops > FEW_REGISTERS))
    v = many = g_new (int64_t, c->n_loads + c->n_ops);
  for (uint32_t i = 0; i < c->n_loads; i++)
    v[i] = value_of (&c->loads[i], slots);
  for (uint32_t i = 0; i < c->n_ops; i++) {
    const Op *op = &c->ops[i];
    if (!gm_sym_compute ((GmSymKind) op->kind, v[op->a], v[op->b], &v[c->n_loads + i]))
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
  if (G_LIKELY (c->n_ops == 0)) { /* most checks compare two sizes, or a size and a number */
    a = value_of (&c->loads[c->a], slots);
    b = value_of (&c->loads[c->b], slots);
  } else if (!compute_sides (c, slots, &a, &b))
    return false;
  switch ((GmRel) c->rel) {
  case GM_REL_EQ:
    return a == b;
  case GM_REL_NE:
    return a != b;
  case GM_REL_LT:
    return a < b;
  default:
    return a <= b;
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
