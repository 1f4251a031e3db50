/* SPDX-License-Identifier: Apache-2.0
 * sym_text.c -- size expressions as text and back: "n*2 + 1".
 *
 * Two levels of precedence, sums over products, left to right; min and max are calls.  A negative
 * constant in a sum is printed as a subtraction.  Parsing what was printed gives the same row in
 * the same GmSym.
 */
#include "core/base/error.h"
#include "core/sym/sym_private.h"

#include <string.h>

/* -- Printing ---------------------------------------------------------------------------------- */

enum { SUM, PRODUCT, ATOM };

static void
print (const GmSym *s, GString *out, uint32_t row, int level)
{
  const GmSymRow *r = gm_sym_row (s, row);
  const char *between = NULL;
  int own = PRODUCT;
  switch ((GmSymKind) r->kind) {
  case GM_SYM_CONST:
    g_string_append_printf (out, "%" G_GINT64_FORMAT, r->value);
    return;
  case GM_SYM_SYMBOL:
    g_string_append (out, r->name);
    return;
  case GM_SYM_MIN:
  case GM_SYM_MAX:
    g_string_append (out, r->kind == GM_SYM_MIN ? "min(" : "max(");
    print (s, out, r->a, SUM);
    g_string_append (out, ", ");
    print (s, out, r->b, SUM);
    g_string_append_c (out, ')');
    return;
  case GM_SYM_ADD:
    own = SUM;
    between = " + ";
    break;
  case GM_SYM_MUL:
    between = "*";
    break;
  case GM_SYM_FLOORDIV:
    between = "//";
    break;
  case GM_SYM_MOD:
    between = "%";
    break;
  default:
    g_assert_not_reached ();
  }
  if (own < level)
    g_string_append_c (out, '(');
  print (s, out, r->a, own);
  const GmSymRow *b = gm_sym_row (s, r->b);
  if (r->kind == GM_SYM_ADD && b->kind == GM_SYM_CONST && b->value < 0 && b->value > INT64_MIN) {
    g_string_append_printf (out, " - %" G_GINT64_FORMAT, -b->value);
  } else {
    g_string_append (out, between);
    print (s, out, r->b, own + 1);
  }
  if (own < level)
    g_string_append_c (out, ')');
}

char *
gm_sym_text (const GmSym *s, int64_t size)
{
  if (!gm_size_is_symbolic (size))
    return g_strdup_printf ("%" G_GINT64_FORMAT, size);
  GString *out = g_string_new (NULL);
  print (s, out, gm_size_row (size), SUM);
  return g_string_free (out, FALSE);
}

/* -- Parsing ----------------------------------------------------------------------------------- */

/* Depth up to which expressions in a text may nest: a text from a file must not overflow the
 * stack. */
#define MAX_DEPTH 100

typedef struct {
  GmSym *s;
  const char *at;
  int depth;
  GError **error;
} Parser;

static bool parse_sum (Parser *p, int64_t *out);

static void
skip_blanks (Parser *p)
{
  while (*p->at == ' ' || *p->at == '\t')
    p->at++;
}

static bool
fail (Parser *p, const char *what)
{
  g_set_error (p->error, GM_ERROR, GM_ERROR_VALUE, "size expression: %s", what);
  return false;
}

static bool
expect (Parser *p, char c, const char *what)
{
  skip_blanks (p);
  if (*p->at != c)
    return fail (p, what);
  p->at++;
  return true;
}

static bool
parse_number (Parser *p, bool negative, int64_t *out)
{
  int64_t v = 0; /* accumulated as a negative number, as the negative range is larger */
  if (!g_ascii_isdigit (*p->at))
    return fail (p, "expected a number");
  for (; g_ascii_isdigit (*p->at); p->at++)
    if (__builtin_mul_overflow (v, 10, &v) || __builtin_sub_overflow (v, *p->at - '0', &v))
      return fail (p, "the number needs more than 64 bits");
  if (!negative && __builtin_sub_overflow (0, v, &v))
    return fail (p, "the number needs more than 64 bits");
  *out = gm_sym_const (p->s, v);
  return true;
}

static bool
parse_call (Parser *p, GmSymKind kind, int64_t *out)
{
  int64_t a, b;
  if (!expect (p, '(', "expected '(' after min or max") || !parse_sum (p, &a))
    return false;
  if (!expect (p, ',', "expected ',' between two sizes") || !parse_sum (p, &b))
    return false;
  if (!expect (p, ')', "expected ')' after two sizes"))
    return false;
  *out = gm_sym_op (p->s, kind, a, b);
  return true;
}

static bool
parse_atom (Parser *p, int64_t *out)
{
  skip_blanks (p);
  if (g_ascii_isdigit (*p->at))
    return parse_number (p, false, out);
  if (*p->at == '-') {
    p->at++;
    skip_blanks (p);
    return parse_number (p, true, out);
  }
  if (*p->at == '(') {
    p->at++;
    return parse_sum (p, out) && expect (p, ')', "expected ')'");
  }
  if (g_ascii_isalpha (*p->at) || *p->at == '_') {
    const char *start = p->at;
    while (g_ascii_isalnum (*p->at) || *p->at == '_')
      p->at++;
    g_autofree char *name = g_strndup (start, (gsize) (p->at - start));
    if (!strcmp (name, "min"))
      return parse_call (p, GM_SYM_MIN, out);
    if (!strcmp (name, "max"))
      return parse_call (p, GM_SYM_MAX, out);
    *out = gm_sym_symbol (p->s, name);
    return true;
  }
  return fail (p, "expected a number, a name or '('");
}

static bool
parse_product (Parser *p, int64_t *out)
{
  if (!parse_atom (p, out))
    return false;
  for (;;) {
    skip_blanks (p);
    GmSymKind kind;
    if (*p->at == '*')
      kind = GM_SYM_MUL;
    else if (p->at[0] == '/' && p->at[1] == '/')
      kind = GM_SYM_FLOORDIV;
    else if (*p->at == '%')
      kind = GM_SYM_MOD;
    else
      return true;
    p->at += kind == GM_SYM_FLOORDIV ? 2 : 1;
    int64_t b;
    if (!parse_atom (p, &b))
      return false;
    *out = gm_sym_op (p->s, kind, *out, b);
  }
}

static bool
parse_sum (Parser *p, int64_t *out)
{
  if (++p->depth > MAX_DEPTH)
    return fail (p, "too many parentheses inside each other");
  if (!parse_product (p, out))
    return false;
  for (;;) {
    skip_blanks (p);
    char c = *p->at;
    if (c != '+' && c != '-') {
      p->depth--;
      return true;
    }
    p->at++;
    int64_t b;
    if (!parse_product (p, &b))
      return false;
    if (c == '-')
      b = gm_sym_op (p->s, GM_SYM_MUL, b, gm_sym_const (p->s, -1));
    *out = gm_sym_op (p->s, GM_SYM_ADD, *out, b);
  }
}

bool
gm_sym_parse (GmSym *s, const char **text, int64_t *out, GError **error)
{
  Parser p = { s, *text, 0, error };
  bool ok = parse_sum (&p, out);
  *text = p.at;
  return ok;
}
