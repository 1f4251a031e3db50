/* SPDX-License-Identifier: Apache-2.0
 * parse.c -- graph text to graphs, by recursive descent.  The form is described in graph.h.
 *
 * Every value's meta comes from the shape rules where these apply, and the type in the text is
 * compared with it; where a size is symbolic the text is believed.  The first error ends parsing,
 * with line and column of the place where it was found.
 */
#include <string.h>

#include "core/graph/higher.h"
#include "core/graph/parse.h"
#include "core/graph/number_text.h"
#include "core/sym/sym.h"

/* -- Header ------------------------------------------------------------------------------------ */

static bool
parse_inputs (GmParser *p)
{
  g_autoptr (GArray) aliases = gm_parse_aliases_new ();
  if (!gm_parse_expect (p, "("))
    return false;
  for (bool first = true; !gm_parse_take (p, ")"); first = false) {
    g_autofree char *name = NULL;
    GmMeta m;
    if ((!first && !gm_parse_expect (p, ",")) || !gm_parse_name (p, &name)
        || !gm_parse_expect (p, ":") || !gm_parse_type (p, &m))
      return false;
    const char *place = p->at;
    m.requires_grad = gm_parse_keyword (p, "requires_grad");
    if (m.requires_grad && !gm_dtype_is_float (m.dtype))
      return gm_parse_fail (p, place, "only a floating point tensor can require grad");
    GmValueId id = gm_graph_add_input (p->g, name, &m);
    gm_parse_define (p, g_steal_pointer (&name), id);
    if (!gm_parse_alias (p, id, aliases))
      return false;
  }
  return gm_parse_resolve_aliases (p, aliases);
}

/* Skips the list of outputs, and sets *start to its beginning: it stands before the nodes that
 * make the values, and is read after the body. */
static bool
skip_outputs (GmParser *p, const char **start)
{
  if (!gm_parse_expect (p, "->") || !gm_parse_expect (p, "("))
    return false;
  *start = p->at;
  const char *end = strpbrk (p->at, ")\n");
  if (!end || *end != ')')
    return gm_parse_fail (p, p->at, "expected ')' after the outputs");
  p->at = end + 1;
  return true;
}

static bool
parse_outputs (GmParser *p)
{
  for (bool first = true; !gm_parse_take (p, ")"); first = false) {
    if (!first && !gm_parse_expect (p, ","))
      return false;
    GmOutputKind kind = gm_parse_keyword (p, "saved")     ? GM_OUTPUT_SAVED
                        : gm_parse_keyword (p, "grad")    ? GM_OUTPUT_GRAD
                        : gm_parse_keyword (p, "mut")     ? GM_OUTPUT_MUTATION
                        : gm_parse_keyword (p, "history") ? GM_OUTPUT_HISTORY
                                                          : GM_OUTPUT_USER;
    GmValueId v;
    if (!gm_parse_use (p, &v))
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

/* True if no stride is negative or so large that a few elements of text would take much memory. */
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
parse_elements (GmParser *p, GmTensor *t)
{
  int64_t n = gm_meta_numel (&t->meta), index[GM_MAX_DIMS] = { 0 };
  if (!gm_parse_expect (p, "["))
    return false;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = t->offset;
    for (int d = 0; d < t->meta.ndim; d++)
      at += index[d] * t->meta.strides[d];
    if (i && !gm_parse_expect (p, ","))
      return false;
    gm_parse_skip_lines (p);
    if (!gm_text_read_element (&p->at, t->meta.dtype,
                               (char *) t->storage->data
                                   + at * (int64_t) gm_dtype_size (t->meta.dtype)))
      return gm_parse_fail (p, p->at,
                            "expected element %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
                            ", a number of dtype %s",
                            i, n, gm_dtypes[t->meta.dtype].text);
    for (int d = t->meta.ndim - 1; d >= 0 && ++index[d] == t->meta.sizes[d]; d--)
      index[d] = 0;
  }
  return gm_parse_expect (p, "]");
}

static bool
parse_constant (GmParser *p)
{
  gm_parse_skip_blanks (p);
  const char *place = p->at;
  int64_t row;
  GmMeta m;
  if (!gm_parse_integer (p, &row) || !gm_parse_expect (p, ":") || !gm_parse_type (p, &m)
      || !gm_parse_expect (p, "="))
    return false;
  if (row != (int64_t) p->g->constants->len)
    return gm_parse_fail (p, place, "constants are numbered in order: expected %u",
                          p->g->constants->len);
  if (gm_parse_take (p, "..."))
    return gm_parse_fail (p, place,
                          "the elements of constant %" G_GINT64_FORMAT
                          " were left out of the text; write them in [ ]",
                          row);
  if (gm_graph_meta_is_symbolic (&m) || m.device != GM_DEVICE_CPU
      || gm_meta_numel (&m) > GM_TEXT_MAX_CONSTANT || !strides_are_sane (&m))
    return gm_parse_fail (
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
parse_attr_value (GmParser *p, int key, GmAttrs *a)
{
  char *field = (char *) a + gm_attrs[key].offset;
  gm_parse_skip_blanks (p);
  switch (gm_attrs[key].type) {
  case 'I':
    return GM_ATTRS_OF_SIZES >> key & 1 && gm_parse_is_expression (p)
               ? gm_parse_size (p, (int64_t *) field)
               : gm_parse_integer (p, (int64_t *) field);
  case 'B':
    if (gm_parse_keyword (p, "true"))
      *(uint8_t *) field = 1;
    else if (!gm_parse_keyword (p, "false"))
      return gm_parse_fail (p, p->at, "expected true or false");
    return true;
  case 'D':
    return gm_parse_dtype (p, (uint8_t *) field);
  case 'S':
    if (p->g && gm_parse_is_expression (p) && !gm_parse_is_number_word (p)) {
      ((GmScalar *) field)->kind = GM_CATEGORY_INT;
      return gm_parse_size (p, &((GmScalar *) field)->i);
    }
    return gm_text_read_scalar (&p->at, (GmScalar *) field)
           || gm_parse_fail (p, p->at, "expected a number, true or false");
  case 'L':
    return gm_parse_expect (p, "[")
           && gm_parse_list (p, "]", key == GM_ATTR_SIZES, a->list, &a->n_list);
  case 'W':
    for (size_t i = 0; i < G_N_ELEMENTS (a->window); i++)
      if (!gm_parse_expect (p, i ? "," : "[") || !gm_parse_integer (p, &a->window[i]))
        return false;
    return gm_parse_expect (p, "]");
  default:
    g_assert_not_reached ();
  }
}

/* True if an attribute comes next: a word and '='. */
static bool
at_attr (GmParser *p)
{
  gm_parse_skip_blanks (p);
  size_t n = gm_parse_word_length (p->at);
  return n && p->at[n] == '=';
}

static bool
parse_attr (GmParser *p, GmAttrs *a)
{
  const char *place = p->at;
  g_autofree char *name = gm_parse_word (p, "an attribute");
  p->at++; /* '=' */
  for (int k = 1; k < GM_N_ATTRS; k++)
    if (!strcmp (gm_attrs[k].name, name)) {
      if (a->mask & 1u << k)
        return gm_parse_fail (p, place, "the attribute %s is given twice", name);
      a->mask |= 1u << k;
      return parse_attr_value (p, k, a);
    }
  return gm_parse_fail (p, place, "there is no attribute '%s'", name);
}

static char *
parse_where (GmParser *p)
{
  if (!gm_parse_take (p, "#"))
    return NULL;
  gm_parse_skip_blanks (p);
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
  uint8_t marks;
  const char *where, *place;
} NodeText;

static bool
add_constant_node (GmParser *p, const NodeText *t, GmValueId *out)
{
  if (t->attrs.mask != 1u << GM_ATTR_OFFSET || t->attrs.offset < 0
      || t->attrs.offset >= (int64_t) p->g->constants->len)
    return gm_parse_fail (
        p, t->place,
        "constant needs one attribute, offset: a row of the constants above (there are %u)",
        p->g->constants->len);
  *out =
      gm_graph_add_constant (p->g, g_ptr_array_index (p->g->constants, t->attrs.offset), t->where);
  return true;
}

/* Adds a node with the meta that the shape rules give, or, where these cannot tell, with the
 * meta in the text. */
static bool
add_node (GmParser *p, NodeText *t, GmValueId *out)
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
    return gm_parse_fail (p, t->place, "%s", why->message);
  if (!t->has_type)
    return gm_parse_fail (p, t->place, "%s; write its type", why->message);
  if (gm_ops[t->op].arity >= 0 && gm_ops[t->op].arity != n_in)
    return gm_parse_fail (p, t->place, "%s takes %d inputs, not %d", gm_ops[t->op].name,
                          gm_ops[t->op].arity, n_in);
  t->said.requires_grad = gm_graph_expects_grad (p->g, t->op, in, n_in, &t->said);
  *out = gm_graph_add_known (p->g, t->op, in, n_in, t->attrs.mask ? &t->attrs : NULL, t->where,
                             &t->said);
  return true;
}

static bool
check_said (GmParser *p, const NodeText *t, GmValueId id)
{
  GmMeta *m = gm_graph_meta (p->g, id), said = t->said;
  said.requires_grad = m->requires_grad;
  if (t->has_type && !gm_graph_same_meta (p->g, m, &said)) {
    GmSizes *was = gm_sizes_enter (p->g->sizes);
    g_autofree char *is = gm_meta_text (m), *strides = gm_shape_text (m->ndim, m->strides);
    gm_sizes_enter (was);
    return gm_parse_fail (p, t->place,
                          "the result of %s is %s with strides %s, not what the text says",
                          gm_ops[t->op].name, is, strides);
  }
  if (t->grad && !gm_dtype_is_float (m->dtype))
    return gm_parse_fail (p, t->place, "only a floating point tensor can require grad");
  if (t->no_grad || t->grad)
    m->requires_grad = t->grad;
  return true;
}

static bool
parse_node_text (GmParser *p, NodeText *t)
{
  gm_parse_skip_blanks (p);
  t->place = p->at;
  g_autofree char *op = gm_parse_word (p, "an op");
  if (!op)
    return false;
  t->op = gm_op_find (op, strlen (op));
  if (t->op == GM_OP_NONE)
    return gm_parse_fail (p, t->place, "there is no op '%s'", op);
  for (gm_parse_skip_blanks (p); *p->at == '%'; gm_parse_skip_blanks (p)) {
    GmValueId v;
    if (!gm_parse_use (p, &v))
      return false;
    g_array_append_val (t->in, v);
  }
  while (at_attr (p))
    if (!parse_attr (p, &t->attrs))
      return false;
  if (gm_parse_take (p, ":")) {
    t->has_type = true;
    if (!gm_parse_type (p, &t->said))
      return false;
  }
  t->no_grad = gm_parse_keyword (p, "no_grad");
  t->grad = !t->no_grad && gm_parse_keyword (p, "requires_grad");
  for (const char *mark = p->at; gm_parse_take (p, "!"); mark = p->at) {
    int k = GM_TAG_NONE + 1, m = 0;
    while (k < GM_N_TAGS && !gm_parse_keyword (p, gm_node_tag_names[k]))
      k++;
    while (k == GM_N_TAGS && m < GM_N_NODE_MARKS && !gm_parse_keyword (p, gm_node_mark_names[m]))
      m++;
    if (m == GM_N_NODE_MARKS || (k < GM_N_TAGS && t->tag != GM_TAG_NONE))
      return gm_parse_fail (p, mark, "expected a tag: !save, !recompute, !itself or !in_place");
    if (k < GM_N_TAGS)
      t->tag = k;
    else
      t->marks |= (uint8_t) (1u << m);
  }
  t->where = parse_where (p);
  gm_parse_skip_blanks (p);
  return !*p->at || *p->at == '\n' || *p->at == '\r' || *p->at == '}'
         || gm_parse_fail (p, p->at, "expected the end of the line");
}

static bool
parse_node (GmParser *p)
{
  g_autoptr (GArray) in = g_array_new (FALSE, FALSE, sizeof (GmValueId));
  NodeText t = { .in = in };
  g_autofree char *name = NULL;
  GmValueId id = GM_NO_ID;
  if (!gm_parse_name (p, &name) || !gm_parse_expect (p, "=") || !parse_node_text (p, &t)
      || !add_node (p, &t, &id) || !check_said (p, &t, id))
    return false;
  gm_graph_mark_like (p->g, id, &(GmNode){ .tag = (uint8_t) t.tag, .marks = t.marks });
  gm_parse_define (p, g_steal_pointer (&name), id);
  return true;
}

/* -- Graphs ------------------------------------------------------------------------------------ */

static bool parse_one (GmParser *p, GmGraph **out);

static bool
parse_count (GmParser *p, uint32_t *out)
{
  int64_t n;
  const char *place = p->at;
  if (!gm_parse_expect (p, "=") || !gm_parse_integer (p, &n))
    return false;
  *out = (uint32_t) n;
  return (n >= 0 && n <= 4096) || gm_parse_fail (p, place, "expected a number of values");
}

static bool
parse_bits (GmParser *p, uint64_t *out)
{
  int64_t n;
  if (!gm_parse_expect (p, "=") || !gm_parse_integer (p, &n))
    return false;
  *out = (uint64_t) n;
  return true;
}

/* Parses "opaque" or another quoted name, which stands for a function that a text cannot
 * contain. */
static bool
parse_host_name (GmParser *p, GmHigher *h)
{
  if (!gm_parse_expect (p, "\""))
    return false;
  const char *start = p->at;
  while (*p->at && *p->at != '\n' && *p->at != '"')
    p->at += p->at[0] == '\\' && p->at[1] ? 2 : 1;
  g_autofree char *quoted = g_strndup (start, (gsize) (p->at - start)),
                  *name = g_strcompress (quoted);
  h->host = gm_host_function_new (name, NULL, NULL, NULL);
  return gm_parse_expect (p, "\"");
}

static bool
parse_host_results (GmParser *p, GmHigher *h)
{
  g_autoptr (GArray) results = g_array_new (FALSE, FALSE, sizeof (GmMeta));
  if (!gm_parse_expect (p, "->") || !gm_parse_expect (p, "("))
    return false;
  for (bool first = true; !gm_parse_take (p, ")"); first = false) {
    GmMeta m;
    if ((!first && !gm_parse_expect (p, ",")) || !gm_parse_type (p, &m))
      return false;
    m.requires_grad =
        gm_parse_keyword (p, "requires_grad") && gm_dtype_is_float ((GmDtype) m.dtype);
    g_array_append_val (results, m);
  }
  h->n_results = results->len;
  h->results = g_memdup2 (results->data, results->len * sizeof (GmMeta));
  return h->n_results > h->ticket
         || gm_parse_fail (p, p->at, "a function of the host's that gives nothing is no node");
}

/* Parses: host_call "opaque" [ticket] [flows=N] [many=N] [begun=N] [given=N] -> (f32[2]
 * requires_grad, i64[1]); gradient_hook "double" */
static bool
parse_host (GmParser *p, GmHigher *h)
{
  if (!parse_host_name (p, h))
    return false;
  h->ticket = gm_parse_keyword (p, "ticket");
  if ((gm_parse_keyword (p, "flows") && !parse_bits (p, &h->flows))
      || (gm_parse_keyword (p, "many") && !parse_bits (p, &h->many))
      || (gm_parse_keyword (p, "begun") && !parse_bits (p, &h->begun))
      || (gm_parse_keyword (p, "given") && !parse_bits (p, &h->given)))
    return false;
  return h->op != GM_OP_host_call || parse_host_results (p, h);
}

/* Parses a row of the table of calls: higher 0 = cond name (...) -> (...) { ... } name (...) ->
 * (...) { ... } */
static bool
parse_higher (GmParser *p)
{
  gm_parse_skip_blanks (p);
  const char *place = p->at;
  int64_t row;
  if (!gm_parse_integer (p, &row) || !gm_parse_expect (p, "="))
    return false;
  if (row != (p->g->highers ? (int64_t) p->g->highers->len : 0))
    return gm_parse_fail (p, place, "calls of graphs are numbered in order: expected %u",
                          p->g->highers ? p->g->highers->len : 0);
  gm_parse_skip_blanks (p);
  place = p->at;
  g_autofree char *name = gm_parse_word (p, "an operator over graphs, such as cond");
  if (!name)
    return false;
  GmOp op = gm_op_find (name, strlen (name));
  if (op == GM_OP_NONE || !gm_op_is_higher (op))
    return gm_parse_fail (p, place, "'%s' is no operator over graphs", name);
  g_autoptr (GmHigher) h = gm_higher_new (op);
  for (bool more = true; more;) {
    if (gm_parse_keyword (p, "reverse"))
      h->reverse = true;
    else if (gm_parse_keyword (p, "carried"))
      more = parse_count (p, &h->n_carried);
    else if (gm_parse_keyword (p, "mapped"))
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
    gm_parse_skip_lines (p);
    if (!parse_one (p, &h->bodies[b]))
      return false;
  }
  if (h->n_carried + h->n_mapped > h->bodies[h->n_bodies - 1]->inputs->len)
    return gm_parse_fail (p, place, "it carries and maps %u values, but its body takes %u",
                          h->n_carried + h->n_mapped, h->bodies[h->n_bodies - 1]->inputs->len);
  gm_graph_add_higher (p->g, g_steal_pointer (&h));
  return true;
}

static bool
parse_body (GmParser *p)
{
  if (!gm_parse_expect (p, "{"))
    return false;
  for (;;) {
    gm_parse_skip_lines (p);
    if (gm_parse_take (p, "}"))
      return true;
    if (!*p->at)
      return gm_parse_fail (p, p->at, "the text ends inside the graph '%s'; expected '}'",
                            p->g->name);
    if (!(gm_parse_keyword (p, "const")    ? parse_constant (p)
          : gm_parse_keyword (p, "higher") ? parse_higher (p)
                                           : parse_node (p)))
      return false;
  }
}

static bool
parse_facts (GmParser *p)
{
  if (!gm_parse_keyword (p, "where"))
    return true;
  g_autoptr (GError) why = NULL;
  return gm_sizes_parse (gm_graph_sizes (p->g), &p->at, &why)
         || gm_parse_fail (p, p->at, "%s", why->message);
}

static bool
parse_graph (GmParser *p, GPtrArray *out)
{
  g_autofree char *name = gm_parse_word (p, "the name of a graph");
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

/* Parses a graph, also inside of another graph; its names are its own. */
static bool
parse_one (GmParser *p, GmGraph **out)
{
  g_autoptr (GPtrArray) one = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_graph_free);
  if (p->depth == 16)
    return gm_parse_fail (p, p->at, "graphs inside of graphs, more than 16 deep");
  GmParser inner = *p;
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
  GmParser p = { .text = text, .at = text, .error = error };
  for (gm_parse_skip_lines (&p); *p.at; gm_parse_skip_lines (&p)) {
    p.names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
    bool ok = parse_graph (&p, out);
    g_hash_table_unref (p.names);
    if (!ok)
      return NULL;
  }
  if (!out->len) {
    gm_parse_fail (&p, p.at,
                   "there is no graph here; it looks like: graph (%%x: f32[2]) -> (%%0) { ... }");
    return NULL;
  }
  return g_steal_pointer (&out);
}

bool
gm_graph_parse_attrs (const char *text, GmAttrs *out, GError **error)
{
  GmParser p = { .text = text, .at = text, .error = error };
  *out = (GmAttrs){ 0 };
  while (at_attr (&p))
    if (!parse_attr (&p, out))
      return false;
  gm_parse_skip_lines (&p);
  return !*p.at || gm_parse_fail (&p, p.at, "expected an attribute, such as dim=1");
}
