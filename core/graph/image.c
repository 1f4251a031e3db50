/* SPDX-License-Identifier: Apache-2.0
 * image.c -- graph to image.  The layout is described in image.h.
 *
 * Two passes over the graph: the first numbers values, sizes and constants and counts rows, the
 * second fills one zeroed block.  Both walk nodes in the same order, so the running counters of the
 * second meet the sums of the first: asserted at the end.
 */
#include "core/graph/image.h"

#include <string.h>

#include "core/sym/sym.h"

typedef struct {
  const GmGraph *g;
  uint32_t *values;    /* graph's id -> row */
  uint32_t *size_of;   /* GmSym row -> image row + 1 */
  GArray *size_rows;   /* image row -> GmSym row */
  uint32_t *symbol_of; /* symbol number -> its number in the image */
  uint32_t n_symbols;
  uint32_t *slot_of;   /* graph's constant -> slot + 1 */
  GPtrArray *slots;    /* slot -> GmTensor, borrowed */
  GArray *slot_values; /* slot -> row of values */
  uint64_t n_refs, n_dims, n_attrs, n_words,
      n_saved; /* sums of the first pass, then what has been filled */
  char *bytes;
} Writer;

#define HEADER(w) ((GrammeImage *) (w)->bytes)
#define TABLE(w, name) (HEADER (w)->name)

/* -- Numbering --------------------------------------------------------------------------------- */

static int compare_rows (const GmSym *s, uint32_t x, uint32_t y);

/* Stores the operands of a row in *a and *b, for a commutative operation in an order that does
 * not depend on names. */
static void
operands_of (const GmSym *s, uint32_t row, uint32_t *a, uint32_t *b)
{
  const GmSymRow *r = gm_sym_row (s, row);
  bool swap =
      r->kind != GM_SYM_FLOORDIV && r->kind != GM_SYM_MOD && compare_rows (s, r->a, r->b) > 0;
  *a = swap ? r->b : r->a;
  *b = swap ? r->a : r->b;
}

/* Compares two rows by structure and by the numbers of their symbols, as for sorting. */
static int
compare_rows (const GmSym *s, uint32_t x, uint32_t y)
{
  const GmSymRow *a = gm_sym_row (s, x), *b = gm_sym_row (s, y);
  if (x == y)
    return 0;
  if (a->kind != b->kind)
    return a->kind - b->kind;
  if (a->kind == GM_SYM_SYMBOL)
    return a->a < b->a ? -1 : 1;
  if (a->kind == GM_SYM_CONST)
    return a->value < b->value ? -1 : 1;
  uint32_t p[2], q[2];
  operands_of (s, x, &p[0], &p[1]);
  operands_of (s, y, &q[0], &q[1]);
  int c = compare_rows (s, p[0], q[0]);
  return c ? c : compare_rows (s, p[1], q[1]);
}

/* Gives the row its number in the image, after its operands, so that rows use earlier rows only. */
static void
number_row (Writer *w, uint32_t row)
{
  const GmSymRow *r = gm_sym_row (w->g->sym, row);
  if (w->size_of[row])
    return;
  if (r->kind == GM_SYM_SYMBOL)
    w->symbol_of[r->a] = w->n_symbols++;
  if (r->kind >= GM_SYM_ADD) {
    uint32_t a, b;
    operands_of (w->g->sym, row, &a, &b);
    number_row (w, a);
    number_row (w, b);
  }
  g_array_append_val (w->size_rows, row);
  w->size_of[row] = w->size_rows->len;
}

static void
number_sizes (Writer *w, int n, const int64_t *sizes)
{
  for (int i = 0; i < n; i++)
    if (gm_size_is_symbolic (sizes[i]) && w->g->sym)
      number_row (w, gm_size_row (sizes[i]));
}

static void
number_value (Writer *w, GmValueId v, uint32_t row)
{
  const GmMeta *m = gm_graph_meta (w->g, v);
  w->values[v] = row;
  w->n_dims += 2u * m->ndim;
  number_sizes (w, m->ndim, m->sizes);
  if (gm_graph_meta_is_symbolic (m))
    number_sizes (w, m->ndim, m->strides);
}

static uint32_t
attr_words (int key, const GmAttrs *a)
{
  char type = gm_attrs[key].type;
  return type == 'L' ? a->n_list : type == 'W' ? G_N_ELEMENTS (a->window) : type == 'S' ? 2 : 1;
}

static void
number_attrs (Writer *w, const GmAttrs *a)
{
  if (a->mask & 1u << GM_ATTR_SIZES)
    number_sizes (w, a->n_list, a->list);
  number_sizes (w, 1, &a->start);
  number_sizes (w, 1, &a->stop);
  if (gm_scalar_is_symbolic (a->value))
    number_sizes (w, 1, &a->value.i);
  if (gm_scalar_is_symbolic (a->value2))
    number_sizes (w, 1, &a->value2.i);
}

static bool
number_node (Writer *w, const GmNode *n, uint32_t row, GError **error)
{
  if (gm_ops[n->op].family == GM_FAMILY_MUTATE) {
    g_set_error (
        error, GM_ERROR, GM_ERROR_VALUE,
        "image of the graph '%s': it writes in place (%s%s%s); functionalize it first (stage f)",
        w->g->name, gm_ops[n->op].name, n->where ? " at " : "", n->where ? n->where : "");
    return false;
  }
  if (gm_ops[n->op].family == GM_FAMILY_CUSTOM) {
    g_set_error (
        error, GM_ERROR, GM_ERROR_VALUE,
        "image of the graph '%s': it has a gradient of its own (%s%s%s); differentiate and "
        "partition it first (stages j and p)",
        w->g->name, gm_ops[n->op].name, n->where ? " at " : "", n->where ? n->where : "");
    return false;
  }
  w->n_refs += n->n_in;
  for (int k = 1; n->attrs && k < GM_N_ATTRS; k++)
    if (n->attrs->mask & 1u << k) {
      w->n_attrs++;
      w->n_words += attr_words (k, n->attrs);
    }
  if (n->attrs && w->g->sym && gm_graph_attrs_are_symbolic (n->attrs))
    number_attrs (w, n->attrs);
  if (n->op == GM_OP_constant && !w->slot_of[n->attrs->offset]) {
    g_ptr_array_add (w->slots, g_ptr_array_index (w->g->constants, n->attrs->offset));
    g_array_append_val (w->slot_values, row);
    w->slot_of[n->attrs->offset] = w->slots->len;
  }
  number_value (w, n->out, row);
  return true;
}

static bool
number_all (Writer *w, GError **error)
{
  const GmGraph *g = w->g;
  for (uint32_t i = 0; i < g->inputs->len; i++)
    number_value (w, g_array_index (g->inputs, GmValueId, i), i);
  for (uint32_t i = 0; i < g->nodes->len; i++)
    if (!number_node (w, gm_graph_node (g, i), g->inputs->len + i, error))
      return false;
  for (uint32_t i = 0; i < g->outputs->len; i++)
    w->n_saved += g_array_index (g->outputs, GmGraphOutput, i).kind == GM_OUTPUT_SAVED;
  return true;
}

/* -- Layout ------------------------------------------------------------------------------------ */

static uint64_t
place (GrammeTable *t, uint64_t at, uint64_t count, uint32_t row_bytes)
{
  *t = (GrammeTable){ .offset = (uint32_t) at, .count = (uint32_t) count, .stride = row_bytes };
  return at + ((count * row_bytes + 7) & ~UINT64_C (7));
}

static bool
lay_out (Writer *w, GmImage *img, GError **error)
{
  const GmGraph *g = w->g;
  GrammeImage h = { .magic = GRAMME_IMAGE_MAGIC, .header_bytes = sizeof h };
  uint64_t at = sizeof h;
  at = place (&h.values, at, g->values->len, sizeof (GrammeValue));
  at = place (&h.nodes, at, g->nodes->len, sizeof (GrammeNode));
  at = place (&h.refs, at, w->n_refs, sizeof (uint32_t));
  at = place (&h.dims, at, w->n_dims, sizeof (int64_t));
  at = place (&h.sizes, at, w->size_rows->len, sizeof (GrammeSize));
  at = place (&h.attrs, at, w->n_attrs, sizeof (GrammeAttr));
  at = place (&h.payload, at, w->n_words, sizeof (uint64_t));
  at = place (&h.constants, at, w->slots->len, sizeof (GrammeConstant));
  at = place (&h.inputs, at, g->inputs->len, sizeof (GrammeInput));
  at = place (&h.outputs, at, g->outputs->len, sizeof (GrammeOutput));
  at = place (&h.saved, at, w->n_saved, sizeof (GrammeSaved));
  at = place (&h.subgraphs, at, 0, 8);
  h.total_bytes = at;
  if (at > GRAMME_IMAGE_MAX_BYTES) {
    g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                 "image of the graph '%s': it needs %" G_GUINT64_FORMAT
                 " bytes, at most %u are possible",
                 g->name, at, GRAMME_IMAGE_MAX_BYTES);
    return false;
  }
  w->bytes = gm_alloc ((size_t) at);
  if (!w->bytes) {
    g_set_error (error, GM_ERROR, GM_ERROR_MEMORY,
                 "image of the graph '%s': no memory for %" G_GUINT64_FORMAT " bytes", g->name, at);
    return false;
  }
  memset (w->bytes, 0, (size_t) at);
  memcpy (w->bytes, &h, sizeof h);
  img->bytes = HEADER (w);
  img->length = (size_t) at;
  w->n_refs = w->n_dims = w->n_attrs = w->n_words = w->n_saved = 0;
  return true;
}

static void *
row (Writer *w, const GrammeTable *t, uint64_t i)
{
  g_assert (i < t->count);
  return w->bytes + t->offset + i * t->stride;
}

/* -- Filling ----------------------------------------------------------------------------------- */

static int64_t
stored_size (Writer *w, int64_t size, bool may_be_row)
{
  return may_be_row && gm_size_is_symbolic (size) && w->g->sym
             ? -(int64_t) w->size_of[gm_size_row (size)] /* row -1 - word, and size_of is row + 1 */
             : size;
}

static uint32_t
fill_dims (Writer *w, int n, const int64_t *from, bool may_be_rows)
{
  uint32_t first = (uint32_t) w->n_dims;
  for (int i = 0; i < n; i++)
    *(int64_t *) row (w, &TABLE (w, dims), w->n_dims++) = stored_size (w, from[i], may_be_rows);
  return first;
}

static void
fill_value (Writer *w, GmValueId id, uint32_t producer, bool constant)
{
  const GmMeta *m = gm_graph_meta (w->g, id);
  GrammeValue *v = row (w, &TABLE (w, values), w->values[id]);
  bool symbolic = gm_graph_meta_is_symbolic (m);
  v->dtype_code = gm_dtypes[m->dtype].dlpack_code;
  v->dtype_bits = gm_dtypes[m->dtype].bits;
  v->dtype_lanes = 1;
  v->ndim = m->ndim;
  v->first_dim = fill_dims (w, m->ndim, m->sizes, true);
  v->first_stride = fill_dims (w, m->ndim, m->strides, symbolic);
  v->producer = producer;
  v->device_type = m->device;
  v->flags =
      (constant ? GRAMME_VALUE_CONSTANT : 0) | (symbolic ? GRAMME_VALUE_SYMBOLIC_STRIDES : 0);
}

static uint64_t
dtype_word (uint8_t d)
{
  return gm_dtypes[d].dlpack_code | (uint64_t) gm_dtypes[d].bits << 8 | UINT64_C (1) << 16;
}

static void
fill_attr (Writer *w, int key, const GmNode *n)
{
  const GmAttrs *a = n->attrs;
  const char *field = (const char *) a + gm_attrs[key].offset;
  GrammeAttr *to = row (w, &TABLE (w, attrs), w->n_attrs++);
  to->key = (uint32_t) key;
  to->type = (uint8_t) gm_attrs[key].type;
  to->first = (uint32_t) w->n_words;
  to->count = attr_words (key, a);
  w->n_words += to->count;
  if (!to->count)
    return;
  uint64_t *words = row (w, &TABLE (w, payload), to->first);
  switch (gm_attrs[key].type) {
  case 'I':
    words[0] = n->op == GM_OP_constant
                   ? w->slot_of[a->offset] - 1
                   : (uint64_t) stored_size (w, *(const int64_t *) field,
                                             key == GM_ATTR_START || key == GM_ATTR_STOP);
    break;
  case 'B':
    words[0] = *(const uint8_t *) field;
    break;
  case 'D':
    words[0] = dtype_word (*(const uint8_t *) field);
    break;
  case 'W':
    memcpy (words, a->window, sizeof a->window);
    break;
  case 'S':
    words[0] = ((const GmScalar *) field)->kind;
    memcpy (&words[1], &((const GmScalar *) field)->i, sizeof words[1]);
    if (w->g->sym && gm_scalar_is_symbolic (*(const GmScalar *) field)) {
      words[0] = GRAMME_SCALAR_SIZE;
      words[1] = w->size_of[gm_size_row (((const GmScalar *) field)->i)] - 1;
    }
    break;
  default:
    for (uint32_t i = 0; i < to->count; i++)
      words[i] = (uint64_t) stored_size (w, a->list[i], key == GM_ATTR_SIZES);
  }
}

static void
fill_node (Writer *w, uint32_t i)
{
  const GmNode *n = gm_graph_node (w->g, i);
  GrammeNode *to = row (w, &TABLE (w, nodes), i);
  to->op = (uint32_t) n->op;
  to->op_version = gm_ops[n->op].version;
  to->first_in = (uint32_t) w->n_refs;
  to->n_in = n->n_in;
  to->out = w->values[n->out];
  to->first_attr = (uint32_t) w->n_attrs;
  for (uint32_t k = 0; k < n->n_in; k++)
    *(uint32_t *) row (w, &TABLE (w, refs), w->n_refs++) = w->values[n->in[k]];
  for (int k = 1; n->attrs && k < GM_N_ATTRS; k++)
    if (n->attrs->mask & 1u << k)
      fill_attr (w, k, n);
  to->n_attrs = (uint32_t) w->n_attrs - to->first_attr;
  fill_value (w, n->out, i, n->op == GM_OP_constant);
}

static void
fill_size (Writer *w, uint32_t i)
{
  const GmSymRow *r = gm_sym_row (w->g->sym, g_array_index (w->size_rows, uint32_t, i));
  GrammeSize *to = row (w, &TABLE (w, sizes), i);
  to->kind = r->kind;
  if (r->kind >= GM_SYM_ADD) {
    bool ordered = r->kind == GM_SYM_FLOORDIV || r->kind == GM_SYM_MOD;
    uint32_t x = w->size_of[r->a] - 1, y = w->size_of[r->b] - 1;
    to->a = ordered ? x : MIN (x, y); /* the order of names does not matter */
    to->b = ordered ? y : MAX (x, y);
  }
  to->value = r->kind == GM_SYM_SYMBOL ? w->symbol_of[r->a] : r->value;
  to->min = r->min;
  to->max = r->max;
  to->multiple_of = r->multiple_of;
}

void
gm_image_digest (const GmTensor *t, uint8_t digest[32])
{
  g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);
  int64_t n = gm_meta_numel (&t->meta), index[GM_MAX_DIMS] = { 0 };
  size_t bytes = gm_dtype_size (t->meta.dtype), length = 32;
  if (n && gm_meta_is_contiguous (&t->meta)) {
    const uint8_t *data = gm_tensor_data (t);
    size_t left = (size_t) n * bytes;
    for (size_t some; left;
         left -= some, data += some) { /* the length has a signed type, which may be short */
      some = MIN (left, (size_t) 1 << 30);
      g_checksum_update (sum, data, (gssize) some);
    }
  } else
    for (int64_t i = 0; i < n; i++) {
      int64_t at = t->offset;
      for (int d = 0; d < t->meta.ndim; d++)
        at += index[d] * t->meta.strides[d];
      g_checksum_update (sum, (const uint8_t *) t->storage->data + at * (int64_t) bytes,
                         (gssize) bytes);
      for (int d = t->meta.ndim - 1; d >= 0 && ++index[d] == t->meta.sizes[d]; d--)
        index[d] = 0;
    }
  g_checksum_get_digest (sum, digest, &length);
}

static void
fill_constant (Writer *w, uint32_t slot)
{
  const GmTensor *t = g_ptr_array_index (w->slots, slot);
  GrammeConstant *to = row (w, &TABLE (w, constants), slot);
  to->value = g_array_index (w->slot_values, uint32_t, slot);
  to->slot = slot;
  to->bytes = (uint64_t) gm_meta_numel (&t->meta) * gm_dtype_size (t->meta.dtype);
  gm_image_digest (t, to->digest);
}

static void
fill_outputs (Writer *w)
{
  for (uint32_t i = 0; i < w->g->outputs->len; i++) {
    const GmGraphOutput *o = &g_array_index (w->g->outputs, GmGraphOutput, i);
    GrammeOutput *to = row (w, &TABLE (w, outputs), i);
    to->value = w->values[o->value];
    to->kind = o->kind == GM_OUTPUT_MUTATION
                   ? GM_OUTPUT_USER
                   : o->kind; /* the plan decides whose memory it goes to */
    if (o->kind == GM_OUTPUT_SAVED) {
      GrammeSaved *s = row (w, &TABLE (w, saved), w->n_saved);
      s->output = i;
      s->slot = (uint32_t) w->n_saved++;
    }
  }
}

static void
fill_all (Writer *w)
{
  const GmGraph *g = w->g;
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i);
    ((GrammeInput *) row (w, &TABLE (w, inputs), i))->value = i;
    fill_value (w, v, GRAMME_NONE, false);
  }
  for (uint32_t i = 0; i < g->nodes->len; i++)
    fill_node (w, i);
  for (uint32_t i = 0; i < w->size_rows->len; i++)
    fill_size (w, i);
  for (uint32_t i = 0; i < w->slots->len; i++)
    fill_constant (w, i);
  fill_outputs (w);
  g_assert (w->n_refs == TABLE (w, refs).count && w->n_dims == TABLE (w, dims).count
            && w->n_attrs == TABLE (w, attrs).count && w->n_words == TABLE (w, payload).count);
}

/* -- The whole --------------------------------------------------------------------------------- */

GmImage *
gm_image_new (const GmGraph *g, GError **error)
{
  g_return_val_if_fail (g->values->len == g->inputs->len + g->nodes->len, NULL);
  g_autoptr (GmImage) img = g_new0 (GmImage, 1);
  uint32_t sym_rows = g->sym ? gm_sym_n_rows (g->sym) : 0;
  g_autofree uint32_t *size_of = g_new0 (uint32_t, sym_rows + 1),
                      *symbol_of = g_new0 (uint32_t, sym_rows + 1),
                      *slot_of = g_new0 (uint32_t, g->constants->len + 1);
  g_autoptr (GArray) slot_values = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  g_autoptr (GArray) size_rows = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  g_autoptr (GPtrArray) slots = g_ptr_array_new ();
  img->values = g_new0 (uint32_t, g->values->len + 1);
  Writer w = { .g = g,
               .values = img->values,
               .size_of = size_of,
               .symbol_of = symbol_of,
               .size_rows = size_rows,
               .slot_of = slot_of,
               .slots = slots,
               .slot_values = slot_values };
  if (!number_all (&w, error) || !lay_out (&w, img, error))
    return NULL;
  fill_all (&w);
  img->constants = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_tensor_unref);
  for (uint32_t i = 0; i < slots->len; i++)
    g_ptr_array_add (img->constants, gm_tensor_ref (g_ptr_array_index (slots, i)));
  img->size_rows = (uint32_t *) (void *) g_array_free (g_steal_pointer (&size_rows), FALSE);
  return g_steal_pointer (&img);
}

void
gm_image_free (GmImage *img)
{
  if (!img)
    return;
  if (img->bytes)
    gm_free ((void *) img->bytes, img->length);
  g_clear_pointer (&img->constants, g_ptr_array_unref);
  g_free (img->values);
  g_free (img->size_rows);
  g_free (img);
}
