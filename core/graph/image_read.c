/* SPDX-License-Identifier: Apache-2.0
 * image_read.c -- image to graph.  Everything was validated, so this only copies; the new graph
 * makes the same image again, though symbols have new names: s0 and so on.
 *
 * Size expressions are made as they stand in the image, row by row.  If folding changes one of
 * them, the image was not made by gm_image_new and is refused.
 */
#include <string.h>

#include "core/graph/image_private.h"
#include "core/sym/sym.h"

static GmMeta
read_meta (const GrammeImage *img, uint32_t i, const int64_t *sizes)
{
  const GrammeValue *v = gramme_image_value (img, i);
  GmMeta m = { .ndim = (uint8_t) v->ndim, .device = (uint8_t) v->device_type };
  GmDtype d = GM_F32;
  gm_dtype_from_dlpack (v->dtype_code, v->dtype_bits, &d);
  m.dtype = (uint8_t) d;
  for (uint32_t k = 0; k < v->ndim; k++) {
    int64_t size = gramme_value_size (img, v, k), stride = gramme_value_stride (img, v, k);
    m.sizes[k] = size < 0 ? sizes[-1 - size] : size;
    m.strides[k] =
        stride < 0 && v->flags & GRAMME_VALUE_SYMBOLIC_STRIDES ? sizes[-1 - stride] : stride;
  }
  return m;
}

/* Fills sizes[i] with row i of the image as a size of the graph's GmSym.  False with *error. */
static bool
read_sizes (const GrammeImage *img, GmGraph *g, int64_t *sizes, GError **error)
{
  for (uint32_t i = 0; i < img->sizes.count; i++) {
    const GrammeSize *s = gramme_image_size (img, i);
    GmSym *sym = gm_graph_sym (g);
    uint32_t before = gm_sym_n_rows (sym);
    if (s->kind == GM_SYM_CONST)
      sizes[i] = gm_sym_const (sym, s->value);
    else if (s->kind == GM_SYM_SYMBOL) {
      g_autofree char *name = g_strdup_printf ("s%" G_GINT64_FORMAT, s->value);
      sizes[i] = gm_sym_symbol (sym, name);
      gm_sym_assume (sym, sizes[i], s->min, s->max, s->multiple_of);
    } else
      sizes[i] = gm_sym_op (sym, (GmSymKind) s->kind, sizes[s->a], sizes[s->b]);
    bool number = s->kind == GM_SYM_CONST; /* becomes a row only inside an expression */
    if (!number && (!gm_size_is_symbolic (sizes[i]) || gm_sym_n_rows (sym) == before)) {
      g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                   "this graph image is not canonical: size expression %u could be folded", i);
      return false;
    }
  }
  return true;
}

static bool
check_constants (const GrammeImage *img, GmTensor *const *constants, uint32_t n, GError **error)
{
  if (n != img->constants.count) {
    g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "this graph image needs %u constants, not %u",
                 img->constants.count, n);
    return false;
  }
  for (uint32_t i = 0; i < n; i++) {
    const GrammeConstant *k = gramme_image_constant (img, i);
    GmMeta m = read_meta (img, k->value, NULL), is = constants[i]->meta;
    uint8_t digest[32];
    is.requires_grad = 0;
    bool same = !memcmp (&m, &is, sizeof m);
    if (same) {
      gm_image_digest (constants[i], digest);
      same = !memcmp (digest, k->digest, sizeof digest);
    }
    if (!same) {
      g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                   "constant %u of this graph image is another tensor than the one given", i);
      return false;
    }
  }
  return true;
}

/* Returns the graph's size for a size that gm_image_read_attrs has read, which may be a row of
 * the image. */
static int64_t
size_of (int64_t size, const int64_t *sizes)
{
  return gm_size_is_symbolic (size) ? sizes[gm_size_row (size)] : size;
}

static void
read_node (const GrammeImage *img, uint32_t i, GmGraph *g, const int64_t *sizes)
{
  const GrammeNode *n = gramme_image_node (img, i);
  GmAttrs a;
  gm_image_read_attrs (img, n, &a);
  int64_t *may_be_rows[] = { &a.start, &a.stop, &a.value.i, &a.value2.i };
  for (size_t k = 0; k < G_N_ELEMENTS (may_be_rows); k++)
    if (k < 2 || gm_scalar_is_symbolic (k == 2 ? a.value : a.value2))
      *may_be_rows[k] = size_of (*may_be_rows[k], sizes);
  for (int k = 0; a.mask & 1u << GM_ATTR_SIZES && k < a.n_list; k++)
    a.list[k] = size_of (a.list[k], sizes);
  g_autofree GmValueId *in = g_new (GmValueId, n->n_in + 1u);
  for (uint32_t k = 0; k < n->n_in; k++)
    in[k] = gramme_node_in (img, n, k);
  GmMeta m = read_meta (img, n->out, sizes);
  gm_graph_add_known (g, (GmOp) n->op, in, (int) n->n_in, &a, NULL, &m);
}

GmGraph *
gm_image_read (const void *bytes, size_t n, GmTensor *const *constants, uint32_t n_constants,
               GError **error)
{
  const GrammeImage *img = bytes;
  if (!gm_image_validate (bytes, n, error) || !check_constants (img, constants, n_constants, error))
    return NULL;
  g_autoptr (GmGraph) g = gm_graph_new ("image", NULL);
  g_autofree int64_t *sizes = g_new0 (int64_t, img->sizes.count + 1u);
  if (!read_sizes (img, g, sizes, error))
    return NULL;
  for (uint32_t i = 0; i < n_constants; i++)
    g_ptr_array_add (g->constants, gm_tensor_ref (constants[i]));
  for (uint32_t i = 0; i < img->inputs.count; i++) {
    GmMeta m = read_meta (img, i, sizes);
    g_autofree char *name = g_strdup_printf ("x%u", i);
    gm_graph_add_input (g, name, &m);
  }
  for (uint32_t i = 0; i < img->nodes.count; i++)
    read_node (img, i, g, sizes);
  for (uint32_t i = 0; i < img->outputs.count; i++) {
    const GrammeOutput *o = gramme_image_output (img, i);
    gm_graph_add_output (g, o->value, (GmOutputKind) o->kind);
  }
  /* A row may turn out to be a number, and then the shape rules apply where the validator could not
   * use them. */
  if (img->sizes.count && !gm_graph_verify (g, true, error))
    return NULL;
  return g_steal_pointer (&g);
}
