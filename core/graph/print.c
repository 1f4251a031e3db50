/* SPDX-License-Identifier: Apache-2.0
 * print.c -- a graph as text that parse.c reads back.  The form is described in graph.h.
 *
 * A node's value is printed as its node's number.  Inputs keep their names as far as these are
 * identifiers and differ: other names are mended here, so that every graph can be printed and the
 * text can be parsed.
 */
#include <string.h>

#include "core/graph/higher.h"
#include "core/graph/number_text.h"
#include "core/sym/sym.h"

const char *const gm_node_tag_names[] = {
  [GM_TAG_NONE] = "",         [GM_TAG_SAVE] = "save",         [GM_TAG_RECOMPUTE] = "recompute",
  [GM_TAG_ITSELF] = "itself", [GM_TAG_IN_PLACE] = "in_place",
};
const char *const gm_node_mark_names[GM_N_NODE_MARKS] = { "outside_runtime", "reshape",
                                                          "contiguous" };

typedef struct {
  const GmGraph *g;
  GString *out;
  GPtrArray *names; /* by value: an input's printed name, owned; NULL for nodes */
} Printer;

/* -- Names ------------------------------------------------------------------------------------- */

static char *
clean_name (const char *name)
{
  GString *s = g_string_new (NULL);
  for (const char *c = name ? name : ""; *c; c++)
    if (g_ascii_isalnum (*c) || *c == '_' || *c == '.')
      g_string_append_c (s, *c);
    else if (s->len && s->str[s->len - 1] != '_') /* L['x'] becomes L_x */
      g_string_append_c (s, '_');
  while (s->len && s->str[s->len - 1] == '_' && name[strlen (name) - 1] != '_')
    g_string_truncate (s, s->len - 1);
  if (!s->len)
    g_string_append (s, "in");
  if (g_ascii_isdigit (s->str[0]) || s->str[0] == '.')
    g_string_prepend_c (s, '_');
  return g_string_free (s, FALSE);
}

static void
name_inputs (Printer *p)
{
  g_autoptr (GHashTable) used = g_hash_table_new (g_str_hash, g_str_equal);
  p->names = g_ptr_array_new_with_free_func (g_free);
  g_ptr_array_set_size (p->names, (gint) p->g->values->len);
  for (uint32_t i = 0; i < p->g->inputs->len; i++) {
    GmValueId v = g_array_index (p->g->inputs, GmValueId, i);
    char *base = clean_name (gm_graph_value (p->g, v)->name), *name = g_strdup (base);
    for (uint32_t k = i; g_hash_table_contains (used, name); k++) {
      g_free (name);
      name = g_strdup_printf ("%s_%u", base, k);
    }
    g_hash_table_add (used, name);
    g_free (base);
    g_ptr_array_index (p->names, v) = name;
  }
}

static void
print_value (Printer *p, GmValueId v)
{
  const char *name = v < p->names->len ? g_ptr_array_index (p->names, v) : NULL;
  if (name)
    g_string_append_printf (p->out, "%%%s", name);
  else if (v < p->g->values->len)
    g_string_append_printf (p->out, "%%%u", gm_graph_value (p->g, v)->node);
  else
    g_string_append_printf (p->out, "%%?%u", v); /* so that a broken graph can be printed, too */
}

/* -- Types ------------------------------------------------------------------------------------- */

static void
print_size (Printer *p, int64_t size)
{
  if (gm_size_is_symbolic (size) && p->g->sym) {
    g_autofree char *text = gm_sym_text (p->g->sym, size);
    g_string_append (p->out, text);
  } else
    g_string_append_printf (p->out, "%" G_GINT64_FORMAT, size);
}

/* True if m has row-major strides.  Adds no rows to g->sym: a stride that no row expresses
 * differs from every stride that m can have. */
static bool
is_row_major (const GmGraph *g, const GmMeta *m)
{
  if (!gm_graph_meta_is_symbolic (m)) {
    GmMeta c = *m;
    gm_meta_set_contiguous (&c);
    return !memcmp (c.strides, m->strides, sizeof c.strides);
  }
  if (!g->sizes)
    return true; /* the verifier will say more */
  GmSizesMark mark = gm_sizes_mark (g->sizes);
  GmMeta c = *m;
  gm_graph_meta_set_contiguous ((GmGraph *) g, &c);
  bool same = !memcmp (c.strides, m->strides, sizeof c.strides);
  gm_sizes_truncate (g->sizes, mark);
  return same;
}

static void
print_type (Printer *p, const GmMeta *m)
{
  g_string_append_printf (p->out, "%s[", m->dtype < GM_N_DTYPES ? gm_dtypes[m->dtype].text : "?");
  int ndim = MIN (m->ndim, GM_MAX_DIMS);
  for (int i = 0; i < ndim; i++) {
    g_string_append (p->out, i ? ", " : "");
    print_size (p, m->sizes[i]);
  }
  g_string_append_c (p->out, ']');
  if (!is_row_major (p->g, m)) {
    bool symbolic = gm_graph_meta_is_symbolic (m);
    for (int i = 0; i < ndim; i++) {
      g_string_append (p->out, i ? ", " : "{");
      if (symbolic)
        print_size (p, m->strides[i]);
      else
        g_string_append_printf (p->out, "%" G_GINT64_FORMAT, m->strides[i]);
    }
    g_string_append_c (p->out, '}');
  }
  if (m->device == GM_DEVICE_CUDA)
    g_string_append (p->out, "@cuda");
}

/* -- Attributes -------------------------------------------------------------------------------- */

static void
print_attr (Printer *p, int key, const GmAttrs *a)
{
  const char *field = (const char *) a + gm_attrs[key].offset;
  g_string_append_printf (p->out, " %s=", gm_attrs[key].name);
  switch (gm_attrs[key].type) {
  case 'I':
    print_size (p, *(const int64_t *) field);
    break;
  case 'B':
    g_string_append (p->out, *(const uint8_t *) field ? "true" : "false");
    break;
  case 'D':
    g_string_append (p->out, *(const uint8_t *) field < GM_N_DTYPES
                                 ? gm_dtypes[*(const uint8_t *) field].text
                                 : "?");
    break;
  case 'S':
    if (p->g->sym && gm_scalar_is_symbolic (*(const GmScalar *) field))
      print_size (p, ((const GmScalar *) field)->i);
    else
      gm_text_scalar (p->out, *(const GmScalar *) field);
    break;
  case 'L':
    g_string_append_c (p->out, '[');
    for (int i = 0; i < MIN (a->n_list, GM_MAX_DIMS); i++) {
      g_string_append (p->out, i ? ", " : "");
      if (key == GM_ATTR_SIZES)
        print_size (p, a->list[i]);
      else
        g_string_append_printf (p->out, "%" G_GINT64_FORMAT, a->list[i]);
    }
    g_string_append_c (p->out, ']');
    break;
  case 'W':
    for (size_t i = 0; i < G_N_ELEMENTS (a->window); i++)
      g_string_append_printf (p->out, "%s%" G_GINT64_FORMAT, i ? ", " : "[", a->window[i]);
    g_string_append_c (p->out, ']');
    break;
  default:
    g_assert_not_reached ();
  }
}

/* -- Constants and nodes ----------------------------------------------------------------------- */

static void
print_constant (Printer *p, uint32_t row)
{
  GmTensor *t = g_ptr_array_index (p->g->constants, row);
  GmMeta m = t->meta;
  m.requires_grad = 0;
  g_string_append_printf (p->out, "  const %u : ", row);
  print_type (p, &m);
  int64_t n = gm_meta_numel (&t->meta), index[GM_MAX_DIMS] = { 0 };
  if (n > GM_TEXT_MAX_CONSTANT) {
    g_string_append (p->out, " = ...\n");
    return;
  }
  g_string_append (p->out, " = [");
  for (int64_t i = 0; i < n; i++) {
    int64_t at = t->offset;
    for (int d = 0; d < t->meta.ndim; d++)
      at += index[d] * t->meta.strides[d];
    g_string_append (p->out, i ? ", " : "");
    gm_text_element (p->out, t->meta.dtype,
                     (const char *) t->storage->data
                         + at * (int64_t) gm_dtype_size (t->meta.dtype));
    for (int d = t->meta.ndim - 1; d >= 0 && ++index[d] == t->meta.sizes[d]; d--)
      index[d] = 0;
  }
  g_string_append (p->out, "]\n");
}

/* Returns the text after a type where requires_grad is not what the operands imply; else "". */
static const char *
grad_mark (const Printer *p, const GmNode *n, const GmMeta *m)
{
  for (uint32_t i = 0; i < n->n_in; i++)
    if (n->in[i] >= p->g->values->len)
      return "";
  bool expected = n->op < GM_N_OPS && gm_ops[n->op].name
                  && gm_graph_expects_grad (p->g, n->op, n->in, (int) n->n_in, m);
  return expected == (m->requires_grad != 0) ? "" : expected ? " no_grad" : " requires_grad";
}

static void
print_node (Printer *p, const GmNode *n)
{
  g_string_append (p->out, "  ");
  print_value (p, n->out);
  g_string_append_printf (p->out, " = %s",
                          n->op < GM_N_OPS && gm_ops[n->op].name ? gm_ops[n->op].name : "?");
  for (uint32_t i = 0; i < n->n_in; i++) {
    g_string_append_c (p->out, ' ');
    print_value (p, n->in[i]);
  }
  for (int k = 1; n->attrs && k < GM_N_ATTRS; k++)
    if (n->attrs->mask & 1u << k)
      print_attr (p, k, n->attrs);
  const GmMeta *m = gm_graph_meta (p->g, n->out);
  g_string_append (p->out, " : ");
  print_type (p, m);
  g_string_append (p->out, grad_mark (p, n, m));
  if (n->tag)
    g_string_append_printf (p->out, " !%s", n->tag < GM_N_TAGS ? gm_node_tag_names[n->tag] : "?");
  for (int k = 0; k < GM_N_NODE_MARKS; k++)
    if (n->marks >> k & 1)
      g_string_append_printf (p->out, " !%s", gm_node_mark_names[k]);
  if (n->where && *n->where)
    g_string_append_printf (p->out, "  # %s", n->where);
  g_string_append_c (p->out, '\n');
}

static void
print_distance (Printer *p, int64_t elements)
{
  g_string_append_printf (p->out, "%+" G_GINT64_FORMAT, elements);
}

static void
print_alias (Printer *p, const GmGraphAlias *a)
{
  if (a->leaf)
    g_string_append (p->out, " leaf");
  if (a->made)
    g_string_append_printf (p->out, " made %u", a->made);
  if (a->has_base_meta) {
    g_string_append (p->out, " view ");
    print_type (p, &a->base_meta);
    if (a->base_meta.requires_grad)
      g_string_append (p->out, " requires_grad ");
    print_distance (p, a->base_offset);
  }
  if (a->same != GM_NO_ID) {
    g_string_append (p->out, " is ");
    print_value (p, a->same);
  }
  if (a->shares != GM_NO_ID) {
    g_string_append (p->out, a->base != GM_NO_ID ? " view " : " aliases ");
    print_value (p, a->shares);
    print_distance (p, a->offset);
  }
}

static void
print_header (Printer *p)
{
  static const char *const kinds[] = { "", "saved ", "grad ", "mut ", "history " };
  g_autofree char *name = clean_name (p->g->name ? p->g->name : "graph");
  g_string_append_printf (p->out, "%s (", name);
  for (uint32_t i = 0; i < p->g->inputs->len; i++) {
    GmValueId v = g_array_index (p->g->inputs, GmValueId, i);
    g_string_append (p->out, i ? ", " : "");
    print_value (p, v);
    g_string_append (p->out, ": ");
    print_type (p, gm_graph_meta (p->g, v));
    if (gm_graph_meta (p->g, v)->requires_grad)
      g_string_append (p->out, " requires_grad");
    if (gm_graph_value (p->g, v)->alias)
      print_alias (p, gm_graph_value (p->g, v)->alias);
  }
  g_string_append (p->out, ") -> (");
  for (uint32_t i = 0; i < p->g->outputs->len; i++) {
    const GmGraphOutput *o = &g_array_index (p->g->outputs, GmGraphOutput, i);
    g_string_append (p->out, i ? ", " : "");
    g_string_append (p->out, kinds[MIN (o->kind, GM_OUTPUT_HISTORY)]);
    print_value (p, o->value);
  }
  g_autofree char *facts = p->g->sizes ? gm_sizes_text (p->g->sizes) : NULL;
  g_string_append_printf (p->out, ")%s%s {\n", facts ? " where " : "", facts ? facts : "");
}

/* Prints the gradients of `custom` nodes, as comments: the text form has one graph after another,
 * and none inside of another. */
static void
print_customs (Printer *p)
{
  for (uint32_t i = 0; p->g->customs && i < p->g->customs->len; i++) {
    g_autofree char *text = gm_graph_text (p->g->customs->pdata[i]);
    g_auto (GStrv) lines = g_strsplit (g_strchomp (text), "\n", -1);
    g_string_append_printf (p->out, "  # gradient of custom %u:\n", i);
    for (uint32_t k = 0; lines[k]; k++)
      g_string_append_printf (p->out, "  #   %s\n", lines[k]);
  }
}

/* Prints a row without bodies: "opaque" ticket flows=1 -> (f32[2], i64[1]) */
static void
print_host (Printer *p, const GmHigher *h)
{
  g_autofree char *name = g_strescape (h->host ? h->host->name : "", NULL);
  g_string_append_printf (p->out, " \"%s\"", name);
  if (h->ticket)
    g_string_append (p->out, " ticket");
  if (h->flows)
    g_string_append_printf (p->out, " flows=%" G_GUINT64_FORMAT, h->flows);
  if (h->many)
    g_string_append_printf (p->out, " many=%" G_GUINT64_FORMAT, h->many);
  if (h->begun)
    g_string_append_printf (p->out, " begun=%" G_GUINT64_FORMAT, h->begun);
  if (h->given)
    g_string_append_printf (p->out, " given=%" G_GUINT64_FORMAT, h->given);
  if (h->op != GM_OP_host_call)
    return;
  g_string_append (p->out, " -> (");
  for (uint32_t i = 0; i < h->n_results; i++) {
    g_string_append (p->out, i ? ", " : "");
    print_type (p, &h->results[i]);
    g_string_append (p->out, h->results[i].requires_grad ? " requires_grad" : "");
  }
  g_string_append_c (p->out, ')');
}

/* Prints the bodies of calls of graphs, before the nodes that run them. */
static void
print_highers (Printer *p)
{
  for (uint32_t i = 0; p->g->highers && i < p->g->highers->len; i++) {
    const GmHigher *h = p->g->highers->pdata[i];
    g_string_append_printf (p->out, "  higher %u = %s", i, gm_ops[h->op].name);
    if (h->n_carried)
      g_string_append_printf (p->out, " carried=%u", h->n_carried);
    if (h->n_mapped)
      g_string_append_printf (p->out, " mapped=%u", h->n_mapped);
    if (h->reverse)
      g_string_append (p->out, " reverse");
    if (gm_higher_n_bodies (h->op) == 0)
      print_host (p, h);
    for (uint32_t b = 0; b < h->n_bodies; b++) {
      g_autofree char *text = h->bodies[b] ? gm_graph_text (h->bodies[b]) : g_strdup ("?");
      g_auto (GStrv) lines = g_strsplit (g_strchomp (text), "\n", -1);
      for (uint32_t k = 0; lines[k]; k++)
        g_string_append_printf (p->out, "%s%s", k ? "\n  " : " ", lines[k]);
    }
    g_string_append_c (p->out, '\n');
  }
}

char *
gm_graph_text (const GmGraph *g)
{
  Printer p = { .g = g, .out = g_string_new (NULL) };
  name_inputs (&p);
  print_header (&p);
  for (uint32_t i = 0; i < g->constants->len; i++)
    print_constant (&p, i);
  print_highers (&p);
  for (uint32_t i = 0; i < g->nodes->len; i++)
    print_node (&p, gm_graph_node (g, i));
  print_customs (&p);
  g_string_append (p.out, "}\n");
  for (uint32_t i = 0; g->hooks && i < g->hooks->len; i++) {
    g_autofree char *text = gm_graph_text (g->hooks->pdata[i]);
    g_string_append (p.out, text);
  }
  g_ptr_array_unref (p.names);
  return g_string_free (p.out, FALSE);
}
