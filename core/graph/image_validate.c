/* SPDX-License-Identifier: Apache-2.0
 * image_validate.c -- checks that bytes are an image.  They may come from a file or another
 * process: nothing in them is believed.
 *
 * An image of this version is canonical, so nearly everything is checked by computing what a field
 * must be: tables follow each other, rows take their operands, dims and words one after the other.
 * The rest is what a graph chooses: types, operands, attributes; these must satisfy the op table
 * and the shape rules.  A value's shape is believed only after its bytes and its reach were
 * bounded, so that the shape rules cannot overflow.
 */
#include "core/graph/image_private.h"

#include <string.h>

#include "core/sym/sym.h"

#define MAX_BYTES (INT64_C (1) << 47) /* of a value, and of what its strides reach */
#define MAX_STRIDE                                                                                 \
  (INT64_C (1) << 60) /* of a dimension of one element, where a stride means nothing */

typedef struct {
  const GrammeImage *img;
  uint64_t n_refs, n_dims, n_attrs, n_words, n_slots, n_saved; /* taken so far */
  GmMeta *metas;                                               /* by row of values */
  GError **error;
} Checker;

static bool G_GNUC_PRINTF (2, 3) fail (Checker *c, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *what = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (c->error, GM_ERROR, GM_ERROR_VALUE, "these bytes are no graph image: %s", what);
  return false;
}

/* -- Header and tables ------------------------------------------------------------------------- */

static bool
check_table (Checker *c, const char *name, const GrammeTable *t, uint32_t row_bytes, uint64_t *at,
             uint64_t n)
{
  uint64_t bytes = (uint64_t) t->count * row_bytes;
  if (t->stride != row_bytes || t->reserved || t->offset != *at || bytes > n - *at)
    return fail (
        c, "the table of %s (offset %u, %u rows of %u bytes) is not where and what it should be",
        name, t->offset, t->count, t->stride);
  const uint8_t *end = (const uint8_t *) c->img + *at + bytes;
  for (; bytes % 8; bytes++)
    if (*at + bytes >= n || *end++)
      return fail (c, "unused bytes after the table of %s", name);
  *at += bytes;
  return true;
}

static bool
check_header (Checker *c, size_t n)
{
  const GrammeImage *h = c->img;
  if (n < sizeof *h || n > GRAMME_IMAGE_MAX_BYTES || h->magic != GRAMME_IMAGE_MAGIC)
    return fail (c, "they do not begin as one");
  if (h->abi_minor > GRAMME_IMAGE_MINOR || h->flags)
    return fail (c, "version 0.%u, flags %x: made by a newer gramme", h->abi_minor, h->flags);
  if (h->header_bytes != sizeof *h || h->total_bytes != n)
    return fail (c, "the header says %u + %" G_GUINT64_FORMAT " bytes, there are %zu",
                 h->header_bytes, h->total_bytes, n);
  uint64_t at = sizeof *h;
  if (!check_table (c, "values", &h->values, sizeof (GrammeValue), &at, n)
      || !check_table (c, "nodes", &h->nodes, sizeof (GrammeNode), &at, n)
      || !check_table (c, "refs", &h->refs, sizeof (uint32_t), &at, n)
      || !check_table (c, "dims", &h->dims, sizeof (int64_t), &at, n)
      || !check_table (c, "sizes", &h->sizes, sizeof (GrammeSize), &at, n)
      || !check_table (c, "attrs", &h->attrs, sizeof (GrammeAttr), &at, n)
      || !check_table (c, "payload", &h->payload, sizeof (uint64_t), &at, n)
      || !check_table (c, "constants", &h->constants, sizeof (GrammeConstant), &at, n)
      || !check_table (c, "inputs", &h->inputs, sizeof (GrammeInput), &at, n)
      || !check_table (c, "outputs", &h->outputs, sizeof (GrammeOutput), &at, n)
      || !check_table (c, "saved", &h->saved, sizeof (GrammeSaved), &at, n)
      || !check_table (c, "subgraphs", &h->subgraphs, 8, &at, n))
    return false;
  if (at != n || h->subgraphs.count)
    return fail (c, "bytes after the last table");
  if ((uint64_t) h->inputs.count + h->nodes.count != h->values.count)
    return fail (c, "%u values for %u inputs and %u nodes", h->values.count, h->inputs.count,
                 h->nodes.count);
  return true;
}

static bool
check_sizes (Checker *c)
{
  for (uint32_t i = 0; i < c->img->sizes.count; i++) {
    const GrammeSize *s = gramme_image_size (c->img, i);
    bool leaf = s->kind < GM_SYM_ADD;
    if (s->kind >= GM_N_SYM_KINDS || s->flags || s->min > s->max || s->multiple_of < 1
        || (leaf ? s->a || s->b : s->a >= i || s->b >= i) || (!leaf && s->value))
      return fail (c, "size expression %u", i);
  }
  return true;
}

/* -- Values ------------------------------------------------------------------------------------ */

static bool
row_exists (Checker *c, int64_t size)
{
  return (uint64_t) (-1 - size) < c->img->sizes.count;
}

/* True if m has symbolic sizes.  In images a size < 0 is a row, and so is a stride < 0 of a
 * value whose flags say so. */
static bool
is_symbolic (const GmMeta *m, uint32_t flags)
{
  for (int d = 0; d < m->ndim; d++)
    if (m->sizes[d] < 0 || (flags & GRAMME_VALUE_SYMBOLIC_STRIDES && m->strides[d] < 0))
      return true;
  return false;
}

/* True if the bytes and the reach of m, computed from the dimensions that are numbers, stay
 * within bounds. */
static bool
check_extent (const GmMeta *m, bool symbolic)
{
  int64_t bytes = gm_dtype_size (m->dtype), reach = 0, part;
  for (int d = 0; d < m->ndim; d++) {
    if (m->sizes[d] >= 0
        && (__builtin_mul_overflow (bytes, MAX (m->sizes[d], 1), &bytes) || bytes > MAX_BYTES))
      return false;
    if (symbolic)
      continue;
    if (m->strides[d] > MAX_STRIDE || m->strides[d] < -MAX_STRIDE)
      return false;
    int64_t stride = ABS (m->strides[d]);
    if (m->sizes[d] > 1
        && (__builtin_mul_overflow (stride, m->sizes[d] - 1, &part)
            || __builtin_add_overflow (reach, part, &reach) || reach > MAX_BYTES))
      return false;
  }
  return true;
}

static bool
check_value (Checker *c, uint32_t i, uint32_t producer, bool constant)
{
  const GrammeValue *v = gramme_image_value (c->img, i);
  GmMeta *m = &c->metas[i];
  GmDtype d;
  if (v->dtype_lanes != 1 || !gm_dtype_from_dlpack (v->dtype_code, v->dtype_bits, &d)
      || !gm_dtypes[d].live)
    return fail (c, "value %u: dtype (%u, %u, %u)", i, v->dtype_code, v->dtype_bits,
                 v->dtype_lanes);
  if (v->ndim > GM_MAX_DIMS || v->first_dim != c->n_dims || v->first_stride != c->n_dims + v->ndim
      || c->n_dims + 2 * (uint64_t) v->ndim > c->img->dims.count)
    return fail (c, "value %u: its dims", i);
  if (v->producer != producer
      || (v->device_type != GM_DEVICE_CPU && v->device_type != GM_DEVICE_CUDA) || v->reserved)
    return fail (c, "value %u: producer %u, device %d", i, v->producer, v->device_type);
  c->n_dims += 2 * (uint64_t) v->ndim;
  m->dtype = (uint8_t) d;
  m->ndim = (uint8_t) v->ndim;
  m->device = (uint8_t) v->device_type;
  for (uint32_t k = 0; k < v->ndim; k++) {
    m->sizes[k] = gramme_value_size (c->img, v, k);
    m->strides[k] = gramme_value_stride (c->img, v, k);
  }
  bool symbolic = is_symbolic (m, v->flags);
  if (v->flags
      != ((constant ? GRAMME_VALUE_CONSTANT : 0u)
          | (symbolic ? GRAMME_VALUE_SYMBOLIC_STRIDES : 0u)))
    return fail (c, "value %u: flags %x", i, v->flags);
  for (uint32_t k = 0; k < v->ndim; k++)
    if ((m->sizes[k] < 0 && !row_exists (c, m->sizes[k]))
        || (symbolic && m->strides[k] < 0 && !row_exists (c, m->strides[k])))
      return fail (c, "value %u: dimension %u names no size expression", i, k);
  return check_extent (m, symbolic) || fail (c, "value %u: more bytes than any memory has", i);
}

/* -- Attributes -------------------------------------------------------------------------------- */

static bool
read_dtype (uint64_t word, uint8_t *out)
{
  GmDtype d;
  if (word >> 16 != 1 || !gm_dtype_from_dlpack ((uint8_t) word, (uint8_t) (word >> 8), &d)
      || !gm_dtypes[d].live)
    return false;
  *out = (uint8_t) d;
  return true;
}

/* Reads a word that is a size into *out; a word < 0 is a row.  False: it is neither. */
static bool
read_size (int64_t word, int64_t *out)
{
  uint64_t row = word >= 0 ? 0 : (uint64_t) -1 - (uint64_t) word;
  if (row > UINT32_MAX)
    return false;
  *out = word >= 0 ? word : gm_size_from_row ((int64_t) row);
  return true;
}

static bool
read_scalar (const GrammeImage *img, const GrammeAttr *a, GmScalar *s)
{
  uint64_t kind = gramme_image_payload (img, a->first);
  s->kind = (uint8_t) kind;
  s->i = gramme_attr_int (img, a, 1);
  if (kind == GRAMME_SCALAR_SIZE) {
    uint64_t row = (uint64_t) s->i;
    if (row > UINT32_MAX)
      return false;
    *s = gm_scalar_int (gm_size_from_row ((int64_t) row));
    return true;
  }
  return kind <= GM_CATEGORY_FLOAT && (kind != GM_CATEGORY_BOOL || s->i == 0 || s->i == 1)
         && !gm_scalar_is_symbolic (*s);
}

static bool
read_attr (const GrammeImage *img, const GrammeAttr *a, GmAttrs *out)
{
  char *field = (char *) out + gm_attrs[a->key].offset;
  uint64_t word = a->count ? gramme_image_payload (img, a->first) : 0;
  switch (a->type) {
  case 'I':
    if (a->count == 1 && (a->key == GM_ATTR_START || a->key == GM_ATTR_STOP))
      return read_size ((int64_t) word, (int64_t *) field);
    *(int64_t *) field = (int64_t) word;
    return a->count == 1;
  case 'B':
    *(uint8_t *) field = (uint8_t) word;
    return a->count == 1 && word <= 1;
  case 'D':
    return a->count == 1 && read_dtype (word, (uint8_t *) field);
  case 'S':
    return a->count == 2 && read_scalar (img, a, (GmScalar *) field);
  case 'W':
    for (uint32_t i = 0; i < G_N_ELEMENTS (out->window) && a->count == G_N_ELEMENTS (out->window);
         i++)
      out->window[i] = gramme_attr_int (img, a, i);
    return a->count == G_N_ELEMENTS (out->window);
  default:
    if (a->count > GM_MAX_DIMS)
      return false;
    out->n_list = (uint8_t) a->count;
    for (uint32_t i = 0; i < a->count; i++) {
      out->list[i] = gramme_attr_int (img, a, i);
      if (a->key == GM_ATTR_SIZES && !read_size (out->list[i], &out->list[i]))
        return false;
    }
    return true;
  }
}

bool
gm_image_read_attrs (const GrammeImage *img, const GrammeNode *n, GmAttrs *out)
{
  memset (out, 0, sizeof *out);
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const GrammeAttr *a = gramme_image_attr (img, n->first_attr + i);
    if (a->key == 0 || a->key >= GM_N_ATTRS || a->type != (uint8_t) gm_attrs[a->key].type
        || out->mask >> a->key || !read_attr (img, a, out))
      return false; /* mask >> key: this key or a later one came before */
    out->mask |= 1u << a->key;
  }
  return true;
}

static bool
attr_row_exists (Checker *c, int64_t size)
{
  return !gm_size_is_symbolic (size) || gm_size_row (size) < c->img->sizes.count;
}

static bool
check_attrs (Checker *c, uint32_t i, const GrammeNode *n, GmAttrs *out)
{
  if (n->first_attr != c->n_attrs || n->n_attrs > c->img->attrs.count - c->n_attrs)
    return fail (c, "node %u: its attributes", i);
  for (uint32_t k = 0; k < n->n_attrs; k++) {
    const GrammeAttr *a = gramme_image_attr (c->img, n->first_attr + k);
    if (a->first != c->n_words || a->count > c->img->payload.count - c->n_words)
      return fail (c, "node %u: the words of attribute %u", i, k);
    c->n_words += a->count;
  }
  c->n_attrs += n->n_attrs;
  uint32_t need = gm_op_attr_mask ((GmOp) n->op), may = need | gm_op_attr_optional ((GmOp) n->op);
  if (!gm_image_read_attrs (c->img, n, out) || need & ~out->mask || out->mask & ~may)
    return fail (c, "node %u (%s): its attributes are not the op's", i, gm_ops[n->op].name);
  bool exist = attr_row_exists (c, out->start) && attr_row_exists (c, out->stop)
               && (!gm_scalar_is_symbolic (out->value) || attr_row_exists (c, out->value.i))
               && (!gm_scalar_is_symbolic (out->value2) || attr_row_exists (c, out->value2.i));
  for (int k = 0; out->mask & 1u << GM_ATTR_SIZES && k < out->n_list; k++)
    exist = exist && attr_row_exists (c, out->list[k]);
  return exist || fail (c, "node %u: its sizes name no size expression", i);
}

/* -- Nodes ------------------------------------------------------------------------------------- */

/* True if the largest shape to which the operands could broadcast is within bounds: the shape
 * rules multiply its sizes before they compare. */
static bool
broadcast_fits (const GmMeta *const *in, uint32_t n_in)
{
  int64_t elements = 1;
  for (int d = 1; d <= GM_MAX_DIMS; d++) {
    int64_t size = 1;
    for (uint32_t i = 0; i < n_in; i++)
      if (d <= in[i]->ndim)
        size = MAX (size, in[i]->sizes[in[i]->ndim - d]);
    if (__builtin_mul_overflow (elements, size, &elements))
      return false;
  }
  return true;
}

static bool
is_output (const Checker *c, uint32_t value)
{
  bool is = false;
  for (uint32_t i = 0; i < c->img->outputs.count && !is; i++)
    is = gramme_image_output (c->img, i)->value == value;
  return is;
}

static bool
check_types (Checker *c, uint32_t i, const GrammeNode *n, const GmAttrs *a)
{
  const GmMeta *m = &c->metas[n->out];
  bool symbolic = is_symbolic (m, gramme_image_value (c->img, n->out)->flags);
  g_autofree const GmMeta **in = g_new (const GmMeta *, n->n_in + 1u);
  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t v = gramme_node_in (c->img, n, k);
    in[k] = &c->metas[v];
    symbolic = symbolic || is_symbolic (in[k], gramme_image_value (c->img, v)->flags);
  }
  symbolic = symbolic || gm_graph_attrs_are_symbolic (a);
  if (symbolic || n->op == GM_OP_constant || gm_op_is_higher (n->op))
    return true;
  GmMeta is;
  if (!broadcast_fits (in, n->n_in)
      || !gm_op_infer ((GmOp) n->op, in, (int) n->n_in, a->mask ? a : NULL, &is, NULL)
      || (memcmp (&is, m, sizeof is)
          && !(gm_op_may_be_strided ((GmOp) n->op, &is, m) && is_output (c, n->out))))
    return fail (c, "node %u (%s): operands and result do not fit together", i, gm_ops[n->op].name);
  return true;
}

static bool
check_constant (Checker *c, uint32_t i, const GrammeNode *n, const GmAttrs *a)
{
  if (a->offset < 0 || a->offset > (int64_t) c->n_slots
      || a->offset >= (int64_t) c->img->constants.count)
    return fail (c, "node %u: constant %" G_GINT64_FORMAT, i, a->offset);
  const GrammeConstant *k = gramme_image_constant (c->img, (uint32_t) a->offset);
  const GmMeta *m = &c->metas[n->out];
  if (is_symbolic (m, 0))
    return fail (c, "node %u: a constant of symbolic size", i);
  if (a->offset == (int64_t) c->n_slots) { /* the first use of this slot */
    if (k->value != n->out || k->slot != c->n_slots
        || k->bytes != (uint64_t) gm_meta_numel (m) * gm_dtype_size (m->dtype))
      return fail (c, "constant %u", k->slot);
    c->n_slots++;
  } else if (k->value >= n->out || memcmp (&c->metas[k->value], m, sizeof *m))
    return fail (c, "node %u: its type is not that of constant %u", i, k->slot);
  return true;
}

static bool
check_node (Checker *c, uint32_t i)
{
  const GrammeNode *n = gramme_image_node (c->img, i);
  if (n->op == 0 || n->op >= GM_N_OPS || !gm_ops[n->op].name
      || gm_ops[n->op].family == GM_FAMILY_MUTATE || gm_ops[n->op].family == GM_FAMILY_CUSTOM)
    return fail (c, "node %u: there is no op %u", i, n->op);
  if (n->op_version == 0 || n->op_version > gm_ops[n->op].version || n->flags)
    return fail (c, "node %u (%s): version %u, flags %x", i, gm_ops[n->op].name, n->op_version,
                 n->flags);
  if (n->first_in != c->n_refs || n->n_in > c->img->refs.count - c->n_refs
      || (gm_ops[n->op].arity >= 0 ? n->n_in != (uint32_t) gm_ops[n->op].arity : n->n_in < 1))
    return fail (c, "node %u (%s): %u operands", i, gm_ops[n->op].name, n->n_in);
  c->n_refs += n->n_in;
  if (n->out != c->img->inputs.count + i)
    return fail (c, "node %u: makes value %u", i, n->out);
  for (uint32_t k = 0; k < n->n_in; k++)
    if (gramme_node_in (c->img, n, k) >= n->out)
      return fail (c, "node %u: operand %u is not made before it", i, k);
  GmAttrs a;
  return check_attrs (c, i, n, &a) && check_value (c, n->out, i, n->op == GM_OP_constant)
         && check_types (c, i, n, &a) && (n->op != GM_OP_constant || check_constant (c, i, n, &a));
}

static bool
check_ends (Checker *c)
{
  const GrammeImage *h = c->img;
  for (uint32_t i = 0; i < h->outputs.count; i++) {
    const GrammeOutput *o = gramme_image_output (h, i);
    if (o->value >= h->values.count || o->kind > GRAMME_OUTPUT_GRAD)
      return fail (c, "output %u: value %u, kind %u", i, o->value, o->kind);
    if (o->kind != GRAMME_OUTPUT_SAVED)
      continue;
    if (c->n_saved >= h->saved.count)
      return fail (c, "output %u is saved, but not in the table of saved ones", i);
    const GrammeSaved *s = gramme_image_saved (h, (uint32_t) c->n_saved);
    if (s->output != i || s->slot != c->n_saved || s->kind || s->reserved)
      return fail (c, "saved %u", s->slot);
    c->n_saved++;
  }
  if (c->n_refs != h->refs.count || c->n_dims != h->dims.count || c->n_attrs != h->attrs.count
      || c->n_words != h->payload.count || c->n_slots != h->constants.count
      || c->n_saved != h->saved.count)
    return fail (c, "rows that nothing uses");
  return true;
}

bool
gm_image_validate (const void *bytes, size_t n, GError **error)
{
  Checker c = { .img = bytes, .error = error };
  if ((uintptr_t) bytes % 8)
    return fail (&c, "they are not aligned to 8");
  if (!check_header (&c, n) || !check_sizes (&c))
    return false;
  g_autofree GmMeta *metas = g_new0 (GmMeta, c.img->values.count + 1u);
  c.metas = metas;
  for (uint32_t i = 0; i < c.img->inputs.count; i++) {
    const GrammeInput *in = gramme_image_input (c.img, i);
    if (in->value != i || in->flags)
      return fail (&c, "input %u", i);
    if (!check_value (&c, i, GRAMME_NONE, false))
      return false;
  }
  for (uint32_t i = 0; i < c.img->nodes.count; i++)
    if (!check_node (&c, i))
      return false;
  return check_ends (&c);
}
