/* SPDX-License-Identifier: Apache-2.0
 * parse.c -- graph text to graphs, by recursive descent.  The form is described in graph.h.
 *
 * Every value's meta comes from the shape rules where these apply, and what the text says is
 * compared with it; where a size is symbolic the text is believed.  The first error ends it, with
 * line and column of the place where it was found.
 */
#include <stdarg.h>
#include <string.h>

#include "core/graph/alias.h"
#include "core/graph/higher.h"
#include "core/graph/text.h"
#include "core/sym/sym.h"

typedef struct {
  const char *text, *at;
  GmGraph *g;
  GHashTable *names; /* owned text -> value id + 1 */
  int depth; /* graphs around this one */
  const GmGraph *around; /* the innermost of them, or NULL */
  GError **error;
} Parser;

/* -- Errors and tokens ------------------------------------------------------------------------- */

static bool G_GNUC_PRINTF (3, 4) fail_at (Parser *p, const char *place, const char *format, ...)
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

static void
skip_blanks (Parser *p)
{
  while (*p->at == ' ' || *p->at == '\t')
    p->at++;
}

/* Blanks, ends of lines and comments. */
static void
skip_lines (Parser *p)
{
  for (;; p->at++) {
    if (*p->at == '#')
      while (*p->at && *p->at != '\n')
        p->at++;
    if (!*p->at || !g_ascii_isspace (*p->at))
      return;
  }
}

static bool
take (Parser *p, const char *token)
{
  skip_blanks (p);
  size_t n = strlen (token);
  if (strncmp (p->at, token, n))
    return false;
  p->at += n;
  return true;
}

static bool
expect (Parser *p, const char *token)
{
  return take (p, token) || fail_at (p, p->at, "expected '%s'", token);
}

static size_t
word_length (const char *s)
{
  size_t n = 0;
  while (g_ascii_isalnum (s[n]) || s[n] == '_' || s[n] == '.')
    n++;
  return n;
}

static bool
take_keyword (Parser *p, const char *word)
{
  skip_blanks (p);
  size_t n = strlen (word);
  if (word_length (p->at) != n || strncmp (p->at, word, n))
    return false;
  p->at += n;
  return true;
}

static char *
take_word (Parser *p, const char *what)
{
  skip_blanks (p);
  size_t n = word_length (p->at);
  if (!n) {
    fail_at (p, p->at, "expected %s", what);
    return NULL;
  }
  p->at += n;
  return g_strndup (p->at - n, n);
}

/* -- Values ------------------------------------------------------------------------------------ */

static bool
parse_use (Parser *p, GmValueId *out)
{
  if (!expect (p, "%"))
    return false;
  const char *place = p->at;
  g_autofree char *name = take_word (p, "the name of a value after '%'");
  if (!name)
    return false;
  *out = GPOINTER_TO_UINT (g_hash_table_lookup (p->names, name)) - 1u;
  return *out != GM_NO_ID
      || fail_at (p, place, "no value %%%s has been made before this point", name);
}

static bool
parse_name (Parser *p, char **out)
{
  if (!expect (p, "%"))
    return false;
  const char *place = p->at;
  g_autofree char *name = take_word (p, "the name of a value after '%'");
  if (!name)
    return false;
  if (g_hash_table_contains (p->names, name))
    return fail_at (p, place, "the name %%%s is taken by another value", name);
  *out = g_steal_pointer (&name);
  return true;
}

static void
define (Parser *p, char *name, GmValueId id)
{
  g_hash_table_insert (p->names, name, GUINT_TO_POINTER (id + 1));
}

/* -- Types ------------------------------------------------------------------------------------- */

static bool
parse_size (Parser *p, int64_t *out)
{
  skip_blanks (p);
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
    return fail_at (p, p->at, "%s", why->message);
  if (!gm_size_is_symbolic (*out) && *out < 0)
    return fail_at (p, place, "a size cannot be negative");
  return true;
}

/* An attribute that may be an expression, which then does not begin or does not end as a number. */
static bool
is_expression (Parser *p)
{
  skip_blanks (p);
  if (g_ascii_isalpha (*p->at) || *p->at == '_' || *p->at == '(')
    return true;
  const char *end = p->at + (*p->at == '-');
  end += strspn (end, "0123456789");
  end += strspn (end, " ");
  return *end == '+' || *end == '*' || *end == '/';
}

static bool
is_word_of_numbers (Parser *p)
{
  static const char *const words[] = { "true", "false", "inf", "nan" };
  skip_blanks (p);
  for (size_t i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_has_prefix (p->at, words[i]) && !g_ascii_isalnum (p->at[strlen (words[i])])
        && p->at[strlen (words[i])] != '_')
      return true;
  return false;
}

static bool
parse_integer (Parser *p, int64_t *out)
{
  skip_blanks (p);
  GmScalar s;
  if (!gm_text_read_scalar (&p->at, &s) || s.kind != GM_CATEGORY_INT)
    return fail_at (p, p->at, "expected an integer");
  *out = s.i;
  return true;
}

/* After the opening bracket, up to the closing one. */
static bool
parse_list (Parser *p, const char *close, bool sizes, int64_t *list, uint8_t *n)
{
  for (*n = 0; !take (p, close);) {
    if (*n && !expect (p, ","))
      return false;
    if (*n == GM_MAX_DIMS)
      return fail_at (p, p->at, "more than %d dimensions", GM_MAX_DIMS);
    if (!(sizes ? parse_size (p, &list[*n]) : parse_integer (p, &list[*n])))
      return false;
    ++*n;
  }
  return true;
}

static bool
parse_dtype (Parser *p, uint8_t *out)
{
  skip_blanks (p);
  const char *place = p->at;
  g_autofree char *name = take_word (p, "a dtype such as f32");
  GmDtype d;
  if (!name)
    return false;
  if (!gm_dtype_parse (name, strlen (name), &d) || !gm_dtypes[d].live)
    return fail_at (p, place, "there are no tensors of dtype '%s'", name);
  *out = (uint8_t) d;
  return true;
}

static bool
parse_type (Parser *p, GmMeta *m)
{
  memset (m, 0, sizeof *m);
  m->device = GM_DEVICE_CPU;
  if (!parse_dtype (p, &m->dtype) || !expect (p, "[")
      || !parse_list (p, "]", true, m->sizes, &m->ndim))
    return false;
  int64_t n = gm_dtype_size (m->dtype);
  for (int i = 0; i < m->ndim; i++)
    if (!gm_size_is_symbolic (m->sizes[i]) && __builtin_mul_overflow (n, MAX (m->sizes[i], 1), &n))
      return fail_at (p, p->at, "the number of bytes does not fit in 63 bits");
  gm_graph_meta_set_contiguous (p->g, m);
  if (*p->at == '{') {
    const char *place = p->at++;
    uint8_t n_strides;
    bool words = strcspn (p->at, "}") > strcspn (p->at, G_CSET_A_2_Z G_CSET_a_2_z "_");
    if (!parse_list (p, "}", words, m->strides, &n_strides))
      return false;
    if (n_strides != m->ndim)
      return fail_at (p, place, "%d strides for %d dimensions", n_strides, m->ndim);
  }
  if (take (p, "@")) {
    if (!take_keyword (p, "cuda"))
      return fail_at (p, p->at, "expected a device: cuda");
    m->device = GM_DEVICE_CUDA;
  }
  return true;
}

/* -- Memory of inputs: is %a, aliases %a+4, view %a+4, view f32[8]+4; made 2 -------------------- */

/* An input may name one that comes later: looked up when all are there. */
typedef struct {
  GmValueId input;
  GmGraphAlias alias;
  char *same, *shares; /* owned names */
  bool is_base;
  const char *place;
} AliasText;

static void
alias_text_clear (void *data)
{
  AliasText *t = data;
  g_free (t->same);
  g_free (t->shares);
}

static bool
parse_distance (Parser *p, int64_t *out)
{
  skip_blanks (p);
  const char *place = p->at;
  bool minus = *place == '-';
  if (*place != '+' && !minus)
    return fail_at (p, place, "expected a distance in elements, such as +4");
  p->at++;
  if (!g_ascii_isdigit (*p->at) || !parse_integer (p, out))
    return fail_at (p, place, "expected a distance in elements, such as +4");
  *out = minus ? -*out : *out;
  return true;
}

static bool
parse_other (Parser *p, char **name, int64_t *distance)
{
  g_clear_pointer (name, g_free);
  return expect (p, "%") && (*name = take_word (p, "the name of an input after '%'")) &&
         (!distance || parse_distance (p, distance));
}

static bool
parse_base (Parser *p, AliasText *t)
{
  skip_blanks (p);
  if (*p->at == '%') {
    t->is_base = true;
    return parse_other (p, &t->shares, &t->alias.offset);
  }
  t->alias.has_base_meta = true;
  if (!parse_type (p, &t->alias.base_meta))
    return false;
  t->alias.base_meta.requires_grad = take_keyword (p, "requires_grad");
  return parse_distance (p, &t->alias.base_offset);
}

static bool
parse_made (Parser *p, uint32_t *made)
{
  const char *place = p->at;
  int64_t number;
  if (!parse_integer (p, &number))
    return false;
  *made = (uint32_t) number;
  return (number > 0 && number < UINT32_MAX) || fail_at (p, place, "expected a number from 1 on");
}

static bool
parse_alias (Parser *p, GmValueId input, GArray *texts)
{
  AliasText t = {.input = input,
                  .alias = { .same = GM_NO_ID, .shares = GM_NO_ID, .base = GM_NO_ID },
                  .place = p->at };
  bool ok = true, any = false;
  for (bool more = true; ok && more; any |= more) {
    if (take_keyword (p, "leaf"))
      t.alias.leaf = true;
    else if (take_keyword (p, "made"))
      ok = parse_made (p, &t.alias.made);
    else if (take_keyword (p, "is"))
      ok = parse_other (p, &t.same, NULL);
    else if (take_keyword (p, "aliases"))
      ok = parse_other (p, &t.shares, &t.alias.offset);
    else if (take_keyword (p, "view"))
      ok = parse_base (p, &t);
    else
      more = false;
  }
  if (any && ok)
    g_array_append_val (texts, t);
  else
    alias_text_clear (&t);
  return ok;
}

static bool
find_input (Parser *p, const AliasText *t, const char *name, GmValueId *out)
{
  if (!name)
    return true;
  *out = GPOINTER_TO_UINT (g_hash_table_lookup (p->names, name)) - 1u;
  return *out != GM_NO_ID || fail_at (p, t->place, "there is no input %%%s", name);
}

static bool
resolve_aliases (Parser *p, GArray *texts)
{
  for (guint i = 0; i < texts->len; i++) {
    AliasText *t = &g_array_index (texts, AliasText, i);
    if (!find_input (p, t, t->same, &t->alias.same) ||
        !find_input (p, t, t->shares, &t->alias.shares))
      return false;
    t->alias.base = t->is_base ? t->alias.shares : GM_NO_ID;
    gm_graph_set_alias (p->g, t->input, &t->alias);
  }
  for (guint i = 0; i < texts->len; i++) {
    const AliasText *t = &g_array_index (texts, AliasText, i);
    const char *problem;
    if (gm_graph_alias_problem (p->g, t->input, &problem) != GM_RULE_NONE)
      return fail_at (p, t->place, "the input %s", problem);
  }
  return true;
}

/* -- Header ------------------------------------------------------------------------------------ */

static bool
parse_inputs (Parser *p)
{
  g_autoptr (GArray) texts = g_array_new (FALSE, FALSE, sizeof (AliasText));
  g_array_set_clear_func (texts, alias_text_clear);
  if (!expect (p, "("))
    return false;
  for (bool first = true; !take (p, ")"); first = false) {
    g_autofree char *name = NULL;
    GmMeta m;
    if ((!first && !expect (p, ",")) || !parse_name (p, &name) || !expect (p, ":")
        || !parse_type (p, &m))
      return false;
    const char *place = p->at;
    m.requires_grad = take_keyword (p, "requires_grad");
    if (m.requires_grad && !gm_dtype_is_float (m.dtype))
      return fail_at (p, place, "only a floating point tensor can require grad");
    GmValueId id = gm_graph_add_input (p->g, name, &m);
    define (p, g_steal_pointer (&name), id);
    if (!parse_alias (p, id, texts))
      return false;
  }
  return resolve_aliases (p, texts);
}

/* Outputs stand before the nodes that make them: skipped here, read after the body. */
static bool
skip_outputs (Parser *p, const char **start)
{
  if (!expect (p, "->") || !expect (p, "("))
    return false;
  *start = p->at;
  const char *end = strpbrk (p->at, ")\n");
  if (!end || *end != ')')
    return fail_at (p, p->at, "expected ')' after the outputs");
  p->at = end + 1;
  return true;
}

static bool
parse_outputs (Parser *p)
{
  for (bool first = true; !take (p, ")"); first = false) {
    if (!first && !expect (p, ","))
      return false;
    GmOutputKind kind = take_keyword (p, "saved") ? GM_OUTPUT_SAVED
                      : take_keyword (p, "grad")  ? GM_OUTPUT_GRAD
                      : take_keyword (p, "mut")   ? GM_OUTPUT_MUTATION
                      : take_keyword (p, "history") ? GM_OUTPUT_HISTORY
                                                    : GM_OUTPUT_USER;
    GmValueId v;
    if (!parse_use (p, &v))
      return false;
    gm_graph_add_output (p->g, v, kind);
  }
  return true;
}

/* -- Constants --------------------------------------------------------------------------------- */

static GmTensor *
new_constant (const GmMeta *m, GError **error)
{
  if (gm_meta_is_dense (m))
    return gm_tensor_new_zeros (m, error);
  int64_t extent = gm_meta_extent (m);
  GmMeta flat = gm_meta_make (m->dtype, 1, &extent);
  g_autoptr (GmTensor) whole = gm_tensor_new_zeros (&flat, error);
  return whole ? gm_tensor_new_view (whole, m, 0) : NULL;
}

/* Forward only, and not so far that a few elements of text take much memory. */
static bool
strides_are_sane (const GmMeta *m)
{
  int64_t extent = 1;
  for (int i = 0; i < m->ndim; i++)
    if (m->sizes[i] > 1) {
      if (m->strides[i] < 0 || m->strides[i] > GM_TEXT_MAX_CONSTANT)
        return false;
      extent += m->strides[i] * (m->sizes[i] - 1);
    }
  return extent <= 16 * GM_TEXT_MAX_CONSTANT;
}

static bool
parse_elements (Parser *p, GmTensor *t)
{
  int64_t n = gm_meta_numel (&t->meta), index[GM_MAX_DIMS] = { 0 };
  if (!expect (p, "["))
    return false;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = t->offset;
    for (int d = 0; d < t->meta.ndim; d++)
      at += index[d] * t->meta.strides[d];
    if (i && !expect (p, ","))
      return false;
    skip_lines (p);
    if (!gm_text_read_element (&p->at, t->meta.dtype,
                               (char *) t->storage->data
                                   + at * (int64_t) gm_dtype_size (t->meta.dtype)))
      return fail_at (p, p->at,
                      "expected element %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
                      ", a number of dtype %s",
                      i, n, gm_dtypes[t->meta.dtype].text);
    for (int d = t->meta.ndim - 1; d >= 0 && ++index[d] == t->meta.sizes[d]; d--)
      index[d] = 0;
  }
  return expect (p, "]");
}

static bool
parse_constant (Parser *p)
{
  skip_blanks (p);
  const char *place = p->at;
  int64_t row;
  GmMeta m;
  if (!parse_integer (p, &row) || !expect (p, ":") || !parse_type (p, &m) || !expect (p, "="))
    return false;
  if (row != (int64_t) p->g->constants->len)
    return fail_at (p, place, "constants are numbered in order: expected %u", p->g->constants->len);
  if (take (p, "..."))
    return fail_at (p, place,
                    "the elements of constant %" G_GINT64_FORMAT
                    " were left out of the text; write them in [ ]",
                    row);
  if (gm_graph_meta_is_symbolic (&m) || m.device != GM_DEVICE_CPU
      || gm_meta_numel (&m) > GM_TEXT_MAX_CONSTANT || !strides_are_sane (&m))
    return fail_at (
        p, place,
        "a constant is on the CPU, has at most %d elements and strides that are not negative",
        GM_TEXT_MAX_CONSTANT);
  g_autoptr (GmTensor) t = new_constant (&m, p->error);
  if (!t || !parse_elements (p, t))
    return false;
  g_ptr_array_add (p->g->constants, g_steal_pointer (&t));
  return true;
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static bool
parse_attr_value (Parser *p, int key, GmAttrs *a)
{
  char *field = (char *) a + gm_attrs[key].offset;
  skip_blanks (p);
  switch (gm_attrs[key].type) {
  case 'I':
    return GM_ATTRS_OF_SIZES >> key & 1 && is_expression (p) ? parse_size (p, (int64_t *) field)
                                                              : parse_integer (p, (int64_t *) field);
  case 'B':
    if (take_keyword (p, "true"))
      *(uint8_t *) field = 1;
    else if (!take_keyword (p, "false"))
      return fail_at (p, p->at, "expected true or false");
    return true;
  case 'D': return parse_dtype (p, (uint8_t *) field);
  case 'S':
    if (p->g && is_expression (p) && !is_word_of_numbers (p)) {
      ((GmScalar *) field)->kind = GM_CATEGORY_INT;
      return parse_size (p, &((GmScalar *) field)->i);
    }
    return gm_text_read_scalar (&p->at, (GmScalar *) field)
        || fail_at (p, p->at, "expected a number, true or false");
  case 'L':
    return expect (p, "[") && parse_list (p, "]", key == GM_ATTR_SIZES, a->list, &a->n_list);
  case 'W':
    for (size_t i = 0; i < G_N_ELEMENTS (a->window); i++)
      if (!expect (p, i ? "," : "[") || !parse_integer (p, &a->window[i]))
        return false;
    return expect (p, "]");
  default: g_assert_not_reached ();
  }
}

/* Whether an attribute stands here: a word and '='. */
static bool
at_attr (Parser *p)
{
  skip_blanks (p);
  size_t n = word_length (p->at);
  return n && p->at[n] == '=';
}

static bool
parse_attr (Parser *p, GmAttrs *a)
{
  const char *place = p->at;
  g_autofree char *name = take_word (p, "an attribute");
  p->at++; /* '=' */
  for (int k = 1; k < GM_N_ATTRS; k++)
    if (!strcmp (gm_attrs[k].name, name)) {
      if (a->mask & 1u << k)
        return fail_at (p, place, "the attribute %s is given twice", name);
      a->mask |= 1u << k;
      return parse_attr_value (p, k, a);
    }
  return fail_at (p, place, "there is no attribute '%s'", name);
}

static char *
parse_where (Parser *p)
{
  if (!take (p, "#"))
    return NULL;
  skip_blanks (p);
  size_t n = strcspn (p->at, "\n");
  g_autofree char *s = g_strndup (p->at, n);
  p->at += n;
  g_strchomp (s);
  return *s ? gm_arena_strdup (p->g->arena, s) : NULL;
}

typedef struct {
  GmOp op;
  GArray *in; /* GmValueId */
  GmAttrs attrs;
  GmMeta said;
  bool has_type, no_grad, grad;
  GmNodeTag tag;
  const char *where, *place;
} NodeText;

static bool
add_constant_node (Parser *p, const NodeText *t, GmValueId *out)
{
  if (t->attrs.mask != 1u << GM_ATTR_OFFSET || t->attrs.offset < 0
      || t->attrs.offset >= (int64_t) p->g->constants->len)
    return fail_at (
        p, t->place,
        "constant needs one attribute, offset: a row of the constants above (there are %u)",
        p->g->constants->len);
  *out =
      gm_graph_add_constant (p->g, g_ptr_array_index (p->g->constants, t->attrs.offset), t->where);
  return true;
}

/* What the shape rules say; what the text says where they cannot. */
static bool
add_node (Parser *p, NodeText *t, GmValueId *out)
{
  const GmValueId *in = (const GmValueId *) t->in->data;
  int n_in = (int) t->in->len;
  if (t->op == GM_OP_constant)
    return add_constant_node (p, t, out);
  g_autoptr (GError) why = NULL;
  *out =
      gm_graph_add_node (p->g, t->op, in, n_in, t->attrs.mask ? &t->attrs : NULL, t->where, &why);
  if (*out != GM_NO_ID)
    return true;
  if (!g_error_matches (why, GM_ERROR, GM_ERROR_UNSUPPORTED) || !p->g->sym)
    return fail_at (p, t->place, "%s", why->message);
  if (!t->has_type)
    return fail_at (p, t->place, "%s; write its type", why->message);
  if (gm_ops[t->op].arity >= 0 && gm_ops[t->op].arity != n_in)
    return fail_at (p, t->place, "%s takes %d inputs, not %d", gm_ops[t->op].name,
                    gm_ops[t->op].arity, n_in);
  t->said.requires_grad = gm_graph_expects_grad (p->g, t->op, in, n_in, &t->said);
  *out = gm_graph_add_known (p->g, t->op, in, n_in, t->attrs.mask ? &t->attrs : NULL, t->where,
                             &t->said);
  return true;
}

static bool
check_said (Parser *p, const NodeText *t, GmValueId id)
{
  GmMeta *m = gm_graph_meta (p->g, id), said = t->said;
  said.requires_grad = m->requires_grad;
  if (t->has_type && !gm_graph_same_meta (p->g, m, &said)) {
    GmSizes *was = gm_sizes_enter (p->g->sizes);
    g_autofree char *is = gm_meta_text (m), *strides = gm_shape_text (m->ndim, m->strides);
    gm_sizes_enter (was);
    return fail_at (p, t->place, "the result of %s is %s with strides %s, not what the text says",
                    gm_ops[t->op].name, is, strides);
  }
  if (t->grad && !gm_dtype_is_float (m->dtype))
    return fail_at (p, t->place, "only a floating point tensor can require grad");
  if (t->no_grad || t->grad)
    m->requires_grad = t->grad;
  return true;
}

static bool
parse_node_text (Parser *p, NodeText *t)
{
  skip_blanks (p);
  t->place = p->at;
  g_autofree char *op = take_word (p, "an op");
  if (!op)
    return false;
  t->op = gm_op_find (op, strlen (op));
  if (t->op == GM_OP_NONE)
    return fail_at (p, t->place, "there is no op '%s'", op);
  for (skip_blanks (p); *p->at == '%'; skip_blanks (p)) {
    GmValueId v;
    if (!parse_use (p, &v))
      return false;
    g_array_append_val (t->in, v);
  }
  while (at_attr (p))
    if (!parse_attr (p, &t->attrs))
      return false;
  if (take (p, ":")) {
    t->has_type = true;
    if (!parse_type (p, &t->said))
      return false;
  }
  t->no_grad = take_keyword (p, "no_grad");
  t->grad = !t->no_grad && take_keyword (p, "requires_grad");
  const char *mark = p->at;
  if (take (p, "!")) {
    for (int k = GM_TAG_NONE + 1; k < GM_N_TAGS && t->tag == GM_TAG_NONE; k++)
      t->tag = take_keyword (p, gm_node_tag_names[k]) ? k : GM_TAG_NONE;
    if (t->tag == GM_TAG_NONE)
      return fail_at (p, mark, "expected a tag: !save, !recompute, !itself or !in_place");
  }
  t->where = parse_where (p);
  skip_blanks (p);
  return !*p->at || *p->at == '\n' || *p->at == '\r' || *p->at == '}'
      || fail_at (p, p->at, "expected the end of the line");
}

static bool
parse_node (Parser *p)
{
  g_autoptr (GArray) in = g_array_new (FALSE, FALSE, sizeof (GmValueId));
  NodeText t = { .in = in };
  g_autofree char *name = NULL;
  GmValueId id = GM_NO_ID;
  if (!parse_name (p, &name) || !expect (p, "=") || !parse_node_text (p, &t)
      || !add_node (p, &t, &id) || !check_said (p, &t, id))
    return false;
  gm_graph_set_tag (p->g, id, t.tag);
  define (p, g_steal_pointer (&name), id);
  return true;
}

/* -- Graphs ------------------------------------------------------------------------------------ */

static bool parse_one (Parser *p, GmGraph **out);

static bool
parse_count (Parser *p, uint32_t *out)
{
  int64_t n;
  const char *place = p->at;
  if (!expect (p, "=") || !parse_integer (p, &n))
    return false;
  *out = (uint32_t) n;
  return (n >= 0 && n <= 4096) || fail_at (p, place, "expected a number of values");
}

static bool
parse_bits (Parser *p, uint64_t *out)
{
  int64_t n;
  if (!expect (p, "=") || !parse_integer (p, &n))
    return false;
  *out = (uint64_t) n;
  return true;
}

/* "opaque": a name, which stands for a function that the text does not have. */
static bool
parse_host_name (Parser *p, GmHigher *h)
{
  if (!expect (p, "\""))
    return false;
  const char *start = p->at;
  while (*p->at && *p->at != '\n' && *p->at != '"')
    p->at += p->at[0] == '\\' && p->at[1] ? 2 : 1;
  g_autofree char *quoted = g_strndup (start, (gsize) (p->at - start)), *name = g_strcompress (quoted);
  h->host = gm_host_function_new (name, NULL, NULL, NULL);
  return expect (p, "\"");
}

static bool
parse_host_results (Parser *p, GmHigher *h)
{
  g_autoptr (GArray) results = g_array_new (FALSE, FALSE, sizeof (GmMeta));
  if (!expect (p, "->") || !expect (p, "("))
    return false;
  for (bool first = true; !take (p, ")"); first = false) {
    GmMeta m;
    if ((!first && !expect (p, ",")) || !parse_type (p, &m))
      return false;
    m.requires_grad = take_keyword (p, "requires_grad") && gm_dtype_is_float ((GmDtype) m.dtype);
    g_array_append_val (results, m);
  }
  h->n_results = results->len;
  h->results = g_memdup2 (results->data, results->len * sizeof (GmMeta));
  return h->n_results > h->ticket || fail_at (p, p->at, "a function of the host's that gives nothing is no node");
}

/* host_call "opaque" [ticket] [flows=N] [many=N] [begun=N] [given=N] -> (f32[2] requires_grad, i64[1]); gradient_hook "double" */
static bool
parse_host (Parser *p, GmHigher *h)
{
  if (!parse_host_name (p, h))
    return false;
  h->ticket = take_keyword (p, "ticket");
  if ((take_keyword (p, "flows") && !parse_bits (p, &h->flows)) || (take_keyword (p, "many") && !parse_bits (p, &h->many))
      || (take_keyword (p, "begun") && !parse_bits (p, &h->begun)) || (take_keyword (p, "given") && !parse_bits (p, &h->given)))
    return false;
  return h->op != GM_OP_host_call || parse_host_results (p, h);
}

/* higher 0 = cond name (...) -> (...) { ... } name (...) -> (...) { ... } */
static bool
parse_higher (Parser *p)
{
  skip_blanks (p);
  const char *place = p->at;
  int64_t row;
  if (!parse_integer (p, &row) || !expect (p, "="))
    return false;
  if (row != (p->g->highers ? (int64_t) p->g->highers->len : 0))
    return fail_at (p, place, "calls of graphs are numbered in order: expected %u",
                    p->g->highers ? p->g->highers->len : 0);
  skip_blanks (p);
  place = p->at;
  g_autofree char *name = take_word (p, "an operator over graphs, such as cond");
  if (!name)
    return false;
  GmOp op = gm_op_find (name, strlen (name));
  if (op == GM_OP_NONE || !gm_op_is_higher (op))
    return fail_at (p, place, "'%s' is no operator over graphs", name);
  g_autoptr (GmHigher) h = gm_higher_new (op);
  for (bool more = true; more;) {
    if (take_keyword (p, "reverse"))
      h->reverse = true;
    else if (take_keyword (p, "carried"))
      more = parse_count (p, &h->n_carried);
    else if (take_keyword (p, "mapped"))
      more = parse_count (p, &h->n_mapped);
    else
      break;
    if (!more)
      return false;
  }
  if (h->n_bodies == 0) {
    if (!parse_host (p, h))
      return false;
    gm_graph_add_higher (p->g, g_steal_pointer (&h));
    return true;
  }
  for (uint32_t b = 0; b < h->n_bodies; b++) {
    skip_lines (p);
    if (!parse_one (p, &h->bodies[b]))
      return false;
  }
  if (h->n_carried + h->n_mapped > h->bodies[h->n_bodies - 1]->inputs->len)
    return fail_at (p, place, "it carries and maps %u values, but its body takes %u",
                    h->n_carried + h->n_mapped, h->bodies[h->n_bodies - 1]->inputs->len);
  gm_graph_add_higher (p->g, g_steal_pointer (&h));
  return true;
}

static bool
parse_body (Parser *p)
{
  if (!expect (p, "{"))
    return false;
  for (;;) {
    skip_lines (p);
    if (take (p, "}"))
      return true;
    if (!*p->at)
      return fail_at (p, p->at, "the text ends inside the graph '%s'; expected '}'", p->g->name);
    if (!(take_keyword (p, "const")    ? parse_constant (p)
          : take_keyword (p, "higher") ? parse_higher (p)
                                       : parse_node (p)))
      return false;
  }
}

static bool
parse_facts (Parser *p)
{
  if (!take_keyword (p, "where"))
    return true;
  g_autoptr (GError) why = NULL;
  return gm_sizes_parse (gm_graph_sizes (p->g), &p->at, &why) || fail_at (p, p->at, "%s", why->message);
}

static bool
parse_graph (Parser *p, GPtrArray *out)
{
  g_autofree char *name = take_word (p, "the name of a graph");
  if (!name)
    return false;
  p->g = gm_graph_new (name, NULL);
  g_ptr_array_add (out, p->g);
  if (p->around)
    gm_graph_share_sizes (p->g, p->around);
  const char *outputs, *end;
  if (!parse_inputs (p) || !skip_outputs (p, &outputs) || !parse_facts (p) || !parse_body (p))
    return false;
  end = p->at;
  p->at = outputs;
  if (!parse_outputs (p))
    return false;
  p->at = end;
  return true;
}

/* A graph inside of another one: names of its own. */
static bool
parse_one (Parser *p, GmGraph **out)
{
  g_autoptr (GPtrArray) one = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_graph_free);
  if (p->depth == 16)
    return fail_at (p, p->at, "graphs inside of graphs, more than 16 deep");
  Parser inner = *p;
  inner.depth++;
  inner.around = p->g;
  inner.names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  bool ok = parse_graph (&inner, one);
  g_hash_table_unref (inner.names);
  p->at = inner.at;
  if (ok)
    *out = g_ptr_array_steal_index (one, 0);
  return ok;
}

GPtrArray *
gm_graph_parse (const char *text, GError **error)
{
  g_autoptr (GPtrArray) out = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_graph_free);
  Parser p = { .text = text, .at = text, .error = error };
  for (skip_lines (&p); *p.at; skip_lines (&p)) {
    p.names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
    bool ok = parse_graph (&p, out);
    g_hash_table_unref (p.names);
    if (!ok)
      return NULL;
  }
  if (!out->len) {
    fail_at (&p, p.at,
             "there is no graph here; it looks like: graph (%%x: f32[2]) -> (%%0) { ... }");
    return NULL;
  }
  return g_steal_pointer (&out);
}

bool
gm_graph_parse_attrs (const char *text, GmAttrs *out, GError **error)
{
  Parser p = { .text = text, .at = text, .error = error };
  *out = (GmAttrs){ 0 };
  while (at_attr (&p))
    if (!parse_attr (&p, out))
      return false;
  skip_lines (&p);
  return !*p.at || fail_at (&p, p.at, "expected an attribute, such as dim=1");
}
