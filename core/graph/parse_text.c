/* SPDX-License-Identifier: Apache-2.0
 * parse_text.c -- words, values and types of graph text.
 */
#include <stdarg.h>
#include <string.h>

#include "core/graph/parse.h"
#include "core/graph/number_text.h"
#include "core/sym/sym.h"

/* -- Errors and tokens ------------------------------------------------------------------------- */

bool
gm_parse_fail (GmParser *p, const char *place, const char *format, ...)
{
  int line = 1, column = 1;
  for (const char *c = p->text; c < place; c++) {
    column++;
    if (*c == '\n') {
      line++;
      column = 1;
    }
  }
  va_list args;
  va_start (args, format);
  g_autofree char *what = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (p->error, GM_ERROR, GM_ERROR_VALUE, "graph text, line %d, column %d: %s", line,
               column, what);
  return false;
}

void
gm_parse_skip_blanks (GmParser *p)
{
  while (*p->at == ' ' || *p->at == '\t')
    p->at++;
}

void
gm_parse_skip_lines (GmParser *p)
{
  for (;; p->at++) {
    if (*p->at == '#')
      while (*p->at && *p->at != '\n')
        p->at++;
    if (!*p->at || !g_ascii_isspace (*p->at))
      return;
  }
}

bool
gm_parse_take (GmParser *p, const char *token)
{
  gm_parse_skip_blanks (p);
  size_t n = strlen (token);
  if (strncmp (p->at, token, n))
    return false;
  p->at += n;
  return true;
}

bool
gm_parse_expect (GmParser *p, const char *token)
{
  return gm_parse_take (p, token) || gm_parse_fail (p, p->at, "expected '%s'", token);
}

size_t
gm_parse_word_length (const char *s)
{
  size_t n = 0;
  while (g_ascii_isalnum (s[n]) || s[n] == '_' || s[n] == '.')
    n++;
  return n;
}

bool
gm_parse_keyword (GmParser *p, const char *word)
{
  gm_parse_skip_blanks (p);
  size_t n = strlen (word);
  if (gm_parse_word_length (p->at) != n || strncmp (p->at, word, n))
    return false;
  p->at += n;
  return true;
}

char *
gm_parse_word (GmParser *p, const char *what)
{
  gm_parse_skip_blanks (p);
  size_t n = gm_parse_word_length (p->at);
  if (!n) {
    gm_parse_fail (p, p->at, "expected %s", what);
    return NULL;
  }
  p->at += n;
  return g_strndup (p->at - n, n);
}

/* -- Values ------------------------------------------------------------------------------------ */

/* Parses a %name and returns the name, which the caller frees; *place: where it stands.  NULL on
 * error. */
static char *
value_name (GmParser *p, const char **place)
{
  if (!gm_parse_expect (p, "%"))
    return NULL;
  *place = p->at;
  return gm_parse_word (p, "the name of a value after '%'");
}

bool
gm_parse_use (GmParser *p, GmValueId *out)
{
  const char *place;
  g_autofree char *name = value_name (p, &place);
  if (!name)
    return false;
  *out = GPOINTER_TO_UINT (g_hash_table_lookup (p->names, name)) - 1u;
  return *out != GM_NO_ID
         || gm_parse_fail (p, place, "no value %%%s has been made before this point", name);
}

bool
gm_parse_name (GmParser *p, char **out)
{
  const char *place;
  g_autofree char *name = value_name (p, &place);
  if (!name)
    return false;
  if (g_hash_table_contains (p->names, name))
    return gm_parse_fail (p, place, "the name %%%s is taken by another value", name);
  *out = g_steal_pointer (&name);
  return true;
}

void
gm_parse_define (GmParser *p, char *name, GmValueId id)
{
  g_hash_table_insert (p->names, name, GUINT_TO_POINTER (id + 1));
}

/* -- Types ------------------------------------------------------------------------------------- */

bool
gm_parse_size (GmParser *p, int64_t *out)
{
  gm_parse_skip_blanks (p);
  const char *place = p->at;
  if (g_ascii_isdigit (*place)) { /* the common case makes no GmSym */
    GmScalar s;
    const char *end = place;
    if (gm_text_read_scalar (&end, &s) && s.kind == GM_CATEGORY_INT
        && strspn (end, " \t") == strcspn (end, ",]}")) {
      *out = s.i;
      p->at = end;
      return true;
    }
  }
  g_autoptr (GError) why = NULL;
  if (!gm_sym_parse (gm_graph_sym (p->g), &p->at, out, &why))
    return gm_parse_fail (p, p->at, "%s", why->message);
  if (!gm_size_is_symbolic (*out) && *out < 0)
    return gm_parse_fail (p, place, "a size cannot be negative");
  return true;
}

bool
gm_parse_is_expression (GmParser *p)
{
  gm_parse_skip_blanks (p);
  if (g_ascii_isalpha (*p->at) || *p->at == '_' || *p->at == '(')
    return true;
  const char *end = p->at + (*p->at == '-');
  end += strspn (end, "0123456789");
  end += strspn (end, " ");
  return *end == '+' || *end == '*' || *end == '/';
}

bool
gm_parse_is_number_word (GmParser *p)
{
  static const char *const words[] = { "true", "false", "inf", "nan" };
  gm_parse_skip_blanks (p);
  for (size_t i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_has_prefix (p->at, words[i]) && !g_ascii_isalnum (p->at[strlen (words[i])])
        && p->at[strlen (words[i])] != '_')
      return true;
  return false;
}

bool
gm_parse_integer (GmParser *p, int64_t *out)
{
  gm_parse_skip_blanks (p);
  GmScalar s;
  if (!gm_text_read_scalar (&p->at, &s) || s.kind != GM_CATEGORY_INT)
    return gm_parse_fail (p, p->at, "expected an integer");
  *out = s.i;
  return true;
}

bool
gm_parse_list (GmParser *p, const char *close, bool sizes, int64_t *list, uint8_t *n)
{
  for (*n = 0; !gm_parse_take (p, close);) {
    if (*n && !gm_parse_expect (p, ","))
      return false;
    if (*n == GM_MAX_DIMS)
      return gm_parse_fail (p, p->at, "more than %d dimensions", GM_MAX_DIMS);
    if (!(sizes ? gm_parse_size (p, &list[*n]) : gm_parse_integer (p, &list[*n])))
      return false;
    ++*n;
  }
  return true;
}

bool
gm_parse_dtype (GmParser *p, uint8_t *out)
{
  gm_parse_skip_blanks (p);
  const char *place = p->at;
  g_autofree char *name = gm_parse_word (p, "a dtype such as f32");
  GmDtype d;
  if (!name)
    return false;
  if (!gm_dtype_parse (name, strlen (name), &d) || !gm_dtypes[d].live)
    return gm_parse_fail (p, place, "there are no tensors of dtype '%s'", name);
  *out = (uint8_t) d;
  return true;
}

bool
gm_parse_type (GmParser *p, GmMeta *m)
{
  memset (m, 0, sizeof *m);
  m->device = GM_DEVICE_CPU;
  if (!gm_parse_dtype (p, &m->dtype) || !gm_parse_expect (p, "[")
      || !gm_parse_list (p, "]", true, m->sizes, &m->ndim))
    return false;
  int64_t n = gm_dtype_size (m->dtype);
  for (int i = 0; i < m->ndim; i++)
    if (!gm_size_is_symbolic (m->sizes[i]) && __builtin_mul_overflow (n, MAX (m->sizes[i], 1), &n))
      return gm_parse_fail (p, p->at, "the number of bytes does not fit in 63 bits");
  gm_graph_meta_set_contiguous (p->g, m);
  if (*p->at == '{') {
    const char *place = p->at++;
    uint8_t n_strides;
    bool words = strcspn (p->at, "}") > strcspn (p->at, G_CSET_A_2_Z G_CSET_a_2_z "_");
    if (!gm_parse_list (p, "}", words, m->strides, &n_strides))
      return false;
    if (n_strides != m->ndim)
      return gm_parse_fail (p, place, "%d strides for %d dimensions", n_strides, m->ndim);
  }
  if (gm_parse_take (p, "@")) {
    if (!gm_parse_keyword (p, "cuda"))
      return gm_parse_fail (p, p->at, "expected a device: cuda");
    m->device = GM_DEVICE_CUDA;
  }
  return true;
}
