/* SPDX-License-Identifier: Apache-2.0
 * ext_kernels.c -- the extension gramme.kernels/0: eager's kernels, one node of an image at a time.
 *
 * A kernel is a decoded node: op, attributes, and the metas of inputs and result.  Running a kernel
 * puts tensor headers for the caller's memory on the stack and calls the op's eager kernel, so its
 * bits equal eager's because the code is the same.  The headers start with one reference that
 * belongs to the stack and is never dropped; a kernel gives back every reference that it takes
 * before it returns.
 *
 * A kernel of symbolic sizes holds metas and attributes with rows of the image's table in the place
 * of numbers, as core/sym has them.  run_sized fills numbers into a copy, which is kept: a run with
 * the numbers of the run before does not check them again.
 */
#include <string.h>

#include "core/ops/ops.h"
#include "core/ops/packs.h"
#include "core/run/plugin_host.h"
#include "core/plugin/status.h"
#include "core/graph/graph.h"
#include "core/tiles/tiles.h"

/* The number of tensors on the stack: enough for the operands and the result of nearly all ops;
 * `cat` of many operands allocates. */
#define STACK_TENSORS 8

struct GrammeKernel {
  GmOp op;
  uint32_t n_in;
  uint32_t right; /* of matmul: 1 + the number of the value that owns the second operand's
                   * memory; else 0 */
  bool has_attrs, symbolic, symbolic_attrs;
  /* atomic: of a symbolic kernel, a copy of it with the numbers of the last run; NULL while a run
   * uses that copy */
  GrammeKernel *numbers;
  /* At most one of the next two is set: the op is then this tile, over n contiguous elements. */
  GmTilePointwise tile;
  GmTileCast cast;
  size_t n;
  GmAttrs attrs;
  GmMeta metas[]; /* n_in, then the result's */
};

/* The header of a tensor whose memory is the caller's. */
typedef struct {
  GmTensor tensor;
  GmStorage storage;
} Header;

/* -- Decoding ---------------------------------------------------------------------------------- */

static bool
decode_dtype (uint32_t triple, uint8_t *out)
{
  GmDtype d;
  if (triple >> 16 != 1 || !gm_dtype_from_dlpack ((uint8_t) triple, (uint8_t) (triple >> 8), &d)
      || !gm_dtypes[d].live)
    return false;
  *out = (uint8_t) d;
  return true;
}

/* Converts a size as the image stores it into a size of core/sym, a number or a row. */
static int64_t
decode_size (GrammeKernel *k, int64_t stored, bool may_be_row)
{
  if (stored >= 0 || !may_be_row)
    return stored;
  k->symbolic = true;
  return gm_size_from_row (-1 - stored);
}

static bool
decode_meta (GrammeKernel *k, const GrammeImage *image, uint32_t value, GmMeta *out)
{
  const GrammeValue *v = gramme_image_value (image, value);
  memset (out, 0, sizeof *out);
  if (v->ndim > GM_MAX_DIMS || !decode_dtype (GRAMME_DTYPE_OF (v), &out->dtype))
    return false;
  out->ndim = (uint8_t) v->ndim;
  out->device = GM_DEVICE_CPU;
  for (uint32_t i = 0; i < v->ndim; i++) {
    out->sizes[i] = decode_size (k, gramme_value_size (image, v, i), true);
    out->strides[i] = decode_size (k, gramme_value_stride (image, v, i),
                                   v->flags & GRAMME_VALUE_SYMBOLIC_STRIDES);
  }
  return true;
}

/* True if the value is on the CPU, where kernels run.  The start of a view is the same on all
 * devices. */
static bool
is_here (const GrammeImage *image, uint32_t value)
{
  return gramme_image_value (image, value)->device_type == GM_DEVICE_CPU;
}

static bool
decode_attr (GrammeKernel *k, const GrammeImage *image, const GrammeAttr *a)
{
  GmAttrs *out = &k->attrs;
  if (a->key >= GM_N_ATTRS || !gm_attrs[a->key].name || (char) a->type != gm_attrs[a->key].type)
    return false;
  char *field = (char *) out + gm_attrs[a->key].offset;
  out->mask |= 1u << a->key;
  switch (a->type) {
  case GRAMME_TYPE_I:
    *(int64_t *) field = decode_size (k, gramme_attr_int (image, a, 0),
                                      a->key == GRAMME_ATTR_START || a->key == GRAMME_ATTR_STOP);
    return true;
  case GRAMME_TYPE_B:
    *(uint8_t *) field = gramme_attr_int (image, a, 0) != 0;
    return true;
  case GRAMME_TYPE_D:
    return decode_dtype ((uint32_t) gramme_attr_int (image, a, 0), (uint8_t *) field);
  case GRAMME_TYPE_S: {
    GmScalar s = { .kind = (uint8_t) gramme_attr_scalar_kind (image, a) };
    if (s.kind == GRAMME_SCALAR_FLOAT)
      s.d = gramme_attr_scalar_double (image, a);
    else
      s.i = gramme_attr_int (image, a, 1);
    if (s.kind == GRAMME_SCALAR_SIZE)
      s = gm_scalar_int (decode_size (k, -1 - s.i, true));
    *(GmScalar *) field = s;
    return s.kind <= GRAMME_SCALAR_FLOAT;
  }
  case GRAMME_TYPE_W:
    for (uint32_t i = 0; i < G_N_ELEMENTS (out->window) && a->count == G_N_ELEMENTS (out->window);
         i++)
      out->window[i] = gramme_attr_int (image, a, i);
    return a->count == G_N_ELEMENTS (out->window);
  case GRAMME_TYPE_L:
    if (a->count > GM_MAX_DIMS)
      return false;
    out->n_list = (uint8_t) a->count;
    for (uint32_t i = 0; i < a->count; i++)
      out->list[i] = decode_size (k, gramme_attr_int (image, a, i), a->key == GRAMME_ATTR_SIZES);
    return true;
  }
  return false;
}

/* Returns the value that owns the memory of a value: the root of its views. */
static uint32_t
root_of (const GrammeImage *image, uint32_t value)
{
  for (;;) {
    uint32_t producer = gramme_image_value (image, value)->producer;
    const GrammeNode *n = producer == GRAMME_NONE ? NULL : gramme_image_node (image, producer);
    if (!n || n->op >= GM_N_OPS || gm_ops[n->op].family != GM_FAMILY_MOVEMENT || n->n_in != 1)
      return value;
    value = gramme_node_in (image, n, 0);
  }
}

static int32_t
decode (const GrammeImage *image, uint32_t node, GrammeKernel **out, GrammeStatus *status)
{
  const GrammeNode *n = gramme_image_node (image, node);
  if (n->op >= GM_N_OPS || !gm_ops[n->op].name || n->op_version > gm_ops[n->op].version)
    return gm_status_set (status, GRAMME_UNSUPPORTED, (int32_t) node, "op %u version %u is unknown",
                          n->op, n->op_version);
  g_autofree GrammeKernel *k =
      g_malloc0 (sizeof *k + (n->n_in + 1) * sizeof (GmMeta)); /* sized by the program's text */
  k->op = (GmOp) n->op;
  k->n_in = n->n_in;
  k->has_attrs = n->n_attrs > 0;
  for (uint32_t i = 0; i < n->n_attrs; i++)
    if (!decode_attr (k, image, gramme_image_attr (image, n->first_attr + i)))
      return gm_status_set (status, GRAMME_UNSUPPORTED, (int32_t) node,
                            "attribute %u of %s is unknown", i, gm_ops[k->op].name);
  for (uint32_t i = 0; i <= n->n_in; i++)
    if (!decode_meta (k, image, i < n->n_in ? gramme_node_in (image, n, i) : n->out, &k->metas[i])
        || (gm_ops[k->op].family != GM_FAMILY_MOVEMENT
            && !is_here (image, i < n->n_in ? gramme_node_in (image, n, i) : n->out)))
      return gm_status_set (status, GRAMME_UNSUPPORTED, (int32_t) node,
                            "%s: operand %u has a dtype, device or size that eager does not run",
                            gm_ops[k->op].name, i);
  if (k->op == GM_OP_matmul && n->n_in == 2)
    k->right = 1 + root_of (image, gramme_node_in (image, n, 1));
  *out = g_steal_pointer (&k);
  return GRAMME_OK;
}

/* Checks that the result's meta in the image is the one that the op infers.  A run does not repeat
 * this check. */
static int32_t
check_result (const GrammeKernel *k, int32_t node, GrammeStatus *status)
{
  const GmMeta **in = g_newa (const GmMeta *, k->n_in + 1);
  GmMeta inferred;
  g_autoptr (GError) error = NULL;
  for (uint32_t i = 0; i < k->n_in; i++)
    in[i] = &k->metas[i];
  if (!gm_op_infer (k->op, in, (int) k->n_in, k->has_attrs ? &k->attrs : NULL, &inferred, &error))
    return gm_status_set (status, GRAMME_INVALID, node, "%s", error->message);
  if (inferred.dtype != k->metas[k->n_in].dtype
      || !gm_meta_same_shape (&inferred, &k->metas[k->n_in]))
    return gm_status_set (status, GRAMME_INVALID, node,
                          "%s: its result has another shape or dtype than the image says",
                          gm_ops[k->op].name);
  return GRAMME_OK;
}

/* Sets the tile of k, if k is an elementwise op whose operands all have the layout of the result,
 * without gaps. */
static void
find_tile (GrammeKernel *k)
{
  const char *why;
  const GmTiles *tiles = gm_tiles_get (&why);
  const GmMeta *out = &k->metas[k->n_in];
  if (!tiles || k->n_in == 0 || k->n_in > 3 || !gm_meta_is_dense (out))
    return;
  for (uint32_t i = 0; i < k->n_in; i++)
    if (!gm_meta_same_shape (&k->metas[i], out)
        || memcmp (k->metas[i].strides, out->strides, sizeof out->strides) != 0)
      return;
  k->n = (size_t) gm_meta_numel (out);
  if (gm_ops[k->op].family == GM_FAMILY_POINTWISE && !k->has_attrs)
    k->tile = tiles->pointwise (
        k->op, k->metas[k->n_in - 1].dtype); /* of the last operand: `where` has a mask first */
  else if (gm_ops[k->op].family == GM_FAMILY_CAST)
    k->cast = tiles->cast (k->metas[0].dtype, out->dtype);
}

static bool
is_kernel_op (GmOp op)
{
  return op != GM_OP_constant && gm_ops[op].family != GM_FAMILY_MOVEMENT
         && (gm_ops[op].family < GM_FAMILY_MUTATE || gm_ops[op].family == GM_FAMILY_CONVOLVE);
}

static int32_t
kernels_prepare (void *ctx, const GrammeImage *image, uint32_t node, GrammeKernel **out,
                 GrammeStatus *status)
{
  g_autofree GrammeKernel *k = NULL;
  int32_t code = decode (image, node, &k, status);
  if (code != GRAMME_OK)
    return code;
  if (!is_kernel_op (k->op))
    return gm_status_set (status, GRAMME_INVALID, (int32_t) node,
                          "%s computes nothing: it is a view or a constant", gm_ops[k->op].name);
  k->symbolic_attrs = k->symbolic && gm_graph_attrs_are_symbolic (&k->attrs);
  if (!k->symbolic) {
    code = check_result (k, (int32_t) node, status);
    if (code != GRAMME_OK)
      return code;
    find_tile (k);
  }
  *out = g_steal_pointer (&k);
  return GRAMME_OK;
}

static int32_t
kernels_prepare_copy (void *ctx, const GrammeImage *image, uint32_t from, uint32_t to,
                      GrammeKernel **out, GrammeStatus *status)
{
  g_autofree GrammeKernel *k = g_malloc0 (sizeof *k + 2 * sizeof (GmMeta));
  k->op = GM_OP_copy;
  k->n_in = 1;
  if (!decode_meta (k, image, from, &k->metas[0]) || !decode_meta (k, image, to, &k->metas[1])
      || !is_here (image, from) || !is_here (image, to))
    return gm_status_set (status, GRAMME_UNSUPPORTED, -1,
                          "values %u and %u cannot be copied by eager", from, to);
  int32_t code = k->symbolic ? GRAMME_OK : check_result (k, -1, status);
  if (code == GRAMME_OK)
    *out = g_steal_pointer (&k);
  return code;
}

static size_t
kernel_bytes (const GrammeKernel *k)
{
  return sizeof *k + (k->n_in + 1) * sizeof (GmMeta);
}

static void
kernels_release (GrammeKernel *k)
{
  if (k && k->numbers)
    gm_free (k->numbers, kernel_bytes (k));
  g_free (k);
}

/* -- Running ----------------------------------------------------------------------------------- */

static inline void
header_init (Header *h, const GmMeta *meta, void *data)
{
  h->storage.version = 0;
  h->storage.data = data;
  h->storage.bytes = (size_t) gm_meta_extent (meta) * gm_dtype_size (meta->dtype);
  h->storage.readonly = false;
  h->storage.release = NULL;
  h->storage.owner = NULL;
  g_atomic_ref_count_init (&h->storage.refs);
  h->tensor.meta = *meta;
  h->tensor.offset = 0;
  h->tensor.storage = &h->storage;
  h->tensor.base = NULL;
  h->tensor.counter = NULL;
  h->tensor.autograd = NULL;
  h->tensor.wrapper = NULL;
  g_atomic_ref_count_init (&h->tensor.refs);
}

static int32_t
run_on (const GrammeKernel *k, Header *headers, GmTensor **tensors, void *const *data,
        GrammeStatus *status)
{
  for (uint32_t i = 0; i <= k->n_in; i++) {
    header_init (&headers[i], &k->metas[i], data[i]);
    tensors[i] = &headers[i].tensor;
  }
  GError *error = NULL;
  gm_packs_value = gm_packs_in_run ? k->right : 0;
  bool good = gm_op_run_into (k->op, tensors, (int) k->n_in, k->has_attrs ? &k->attrs : NULL,
                              tensors[k->n_in], &error);
  gm_packs_value = 0;
  if (good)
    return GRAMME_OK;
  return gm_status_take_error (status, error);
}

static int32_t
kernels_run (GrammeKernel *k, void *const *data, GrammeStatus *status)
{
  if (k->tile) {
    k->tile (data[k->n_in], data[0], k->n_in > 1 ? data[1] : NULL, k->n_in > 2 ? data[2] : NULL,
             k->n);
    return GRAMME_OK;
  }
  if (k->cast) {
    k->cast (data[1], data[0], k->n);
    return GRAMME_OK;
  }
  if (k->symbolic)
    return gm_status_set (status, GRAMME_STATE, -1,
                          "%s has symbolic sizes: it is run by run_sized, with numbers",
                          gm_ops[k->op].name);
  if (k->n_in < STACK_TENSORS) {
    Header headers[STACK_TENSORS];
    GmTensor *tensors[STACK_TENSORS];
    return run_on (k, headers, tensors, data, status);
  }
  size_t n = k->n_in + 1, bytes = n * (sizeof (Header) + sizeof (GmTensor *));
  Header *headers = gm_alloc (bytes);
  if (!headers)
    return gm_status_set (status, GRAMME_NO_MEMORY, -1, "no memory for %zu operands of %s", n,
                          gm_ops[k->op].name);
  int32_t code = run_on (k, headers, (GmTensor **) (headers + n), data, status);
  gm_free (headers, bytes);
  return code;
}

static int64_t
size_now (int64_t size, const int64_t *sizes)
{
  return gm_size_is_symbolic (size) ? sizes[gm_size_row (size)] : size;
}

static void
attrs_now (GmAttrs *a, const int64_t *sizes)
{
  for (int i = 0; a->mask & 1u << GM_ATTR_SIZES && i < a->n_list; i++)
    a->list[i] = size_now (a->list[i], sizes);
  a->start = size_now (a->start, sizes);
  a->stop = size_now (a->stop, sizes);
  if (gm_scalar_is_symbolic (a->value))
    a->value.i = size_now (a->value.i, sizes);
  if (gm_scalar_is_symbolic (a->value2))
    a->value2.i = size_now (a->value2.i, sizes);
}

/* Computes the numbers of k's sizes in the copy `now`.  Returns false if `now` had the same numbers
 * before. */
static bool
take_numbers (const GrammeKernel *k, const int64_t *sizes, GrammeKernel *now)
{
  int64_t differ = 0;
  for (uint32_t i = 0; i <= k->n_in; i++)
    for (int d = 0; d < k->metas[i].ndim; d++) {
      int64_t size = size_now (k->metas[i].sizes[d], sizes),
              stride = size_now (k->metas[i].strides[d], sizes);
      differ |= (now->metas[i].sizes[d] ^ size) | (now->metas[i].strides[d] ^ stride);
      now->metas[i].sizes[d] = size;
      now->metas[i].strides[d] = stride;
    }
  if (!k->symbolic_attrs)
    return differ != 0;
  GmAttrs attrs;
  memcpy (&attrs, &k->attrs, sizeof attrs);
  attrs_now (&attrs, sizes);
  differ |= memcmp (&attrs, &now->attrs, sizeof attrs);
  memcpy (&now->attrs, &attrs, sizeof attrs);
  return differ != 0;
}

static int32_t
kernels_run_sized (GrammeKernel *k, void *const *data, const int64_t *sizes, GrammeStatus *status)
{
  if (!k->symbolic)
    return kernels_run (k, data, status);
  GrammeKernel *now = __atomic_exchange_n (&k->numbers, NULL, __ATOMIC_ACQUIRE), *none = NULL;
  bool fresh = !now;
  if (fresh && !(now = gm_alloc (kernel_bytes (k))))
    return gm_status_set (status, GRAMME_NO_MEMORY, -1, "no memory for %u operands of %s", k->n_in,
                          gm_ops[k->op].name);
  if (fresh) {
    memcpy (now, k, kernel_bytes (k));
    now->symbolic = false;
    now->numbers = NULL;
  }
  int32_t code = GRAMME_OK;
  if (take_numbers (k, sizes, now) || fresh) {
    now->tile = NULL;
    now->cast = NULL;
    code = check_result (now, -1, status);
    if (code == GRAMME_OK)
      find_tile (now);
  }
  bool checked = code == GRAMME_OK;
  if (checked)
    code = kernels_run (now, data, status);
  if (!checked
      || !__atomic_compare_exchange_n (&k->numbers, &none, now, false, __ATOMIC_RELEASE,
                                       __ATOMIC_RELAXED))
    gm_free (now, kernel_bytes (k));
  return code;
}

/* -- Unprepared -------------------------------------------------------------------------------- */

/* Replaces the strides in *meta, from the image, by those of the tensor t. */
static bool
take_tensor (GmMeta *meta, const GrammeTensor *t)
{
  uint8_t dtype;
  if (!decode_dtype (GRAMME_DTYPE_OF (t), &dtype) || dtype != meta->dtype || t->ndim != meta->ndim
      || t->device_type != GM_DEVICE_CPU)
    return false;
  if (memcmp (t->shape, meta->sizes, meta->ndim * sizeof (int64_t)) != 0)
    return false;
  memcpy (meta->strides, t->strides, meta->ndim * sizeof (int64_t));
  return true;
}

static int32_t
kernels_run_node (void *ctx, const GrammeImage *image, uint32_t node, const GrammeTensor *in,
                  uint32_t n_in, const GrammeTensor *out, GrammeStatus *status)
{
  g_autofree GrammeKernel *k = NULL;
  int32_t code = kernels_prepare (ctx, image, node, &k, status);
  if (code != GRAMME_OK)
    return code;
  if (k->symbolic)
    return gm_status_set (status, GRAMME_UNSUPPORTED, (int32_t) node,
                          "%s has symbolic sizes: prepare it and use run_sized",
                          gm_ops[k->op].name);
  k->tile = NULL; /* the tiles were found for the image's strides, but the tensors have their own */
  k->cast = NULL;
  if (n_in != k->n_in)
    return gm_status_set (status, GRAMME_INVALID, (int32_t) node,
                          "%s takes %u inputs, %u were given", gm_ops[k->op].name, k->n_in, n_in);
  g_autofree void **data = g_new (void *, n_in + 1);
  for (uint32_t i = 0; i <= n_in; i++) {
    const GrammeTensor *t = i < n_in ? &in[i] : out;
    if (!take_tensor (&k->metas[i], t))
      return gm_status_set (status, GRAMME_INVALID, (int32_t) node,
                            "%s: tensor %u has another shape or dtype than the image's value",
                            gm_ops[k->op].name, i);
    data[i] = (char *) t->data + t->byte_offset;
  }
  return kernels_run (k, data, status);
}

static int32_t
kernels_view_offset (void *ctx, const GrammeImage *image, uint32_t node, int64_t *bytes,
                     GrammeStatus *status)
{
  g_autofree GrammeKernel *k = NULL;
  int32_t code = decode (image, node, &k, status);
  if (code != GRAMME_OK)
    return code;
  if (gm_ops[k->op].family != GM_FAMILY_MOVEMENT || k->n_in != 1)
    return gm_status_set (status, GRAMME_INVALID, (int32_t) node, "%s is no view",
                          gm_ops[k->op].name);
  if (k->symbolic)
    return gm_status_set (status, GRAMME_UNSUPPORTED, (int32_t) node,
                          "%s has symbolic sizes: where it begins shows at the run",
                          gm_ops[k->op].name);
  Header h;
  header_init (&h, &k->metas[0], NULL); /* views do not read the data */
  GmTensor *in = &h.tensor;
  GError *error = NULL;
  GmTensor *view = gm_op_run (k->op, &in, 1, k->has_attrs ? &k->attrs : NULL, &error);
  if (!view)
    return gm_status_take_error (status, error);
  bool same = memcmp (view->meta.strides, k->metas[1].strides, sizeof view->meta.strides) == 0
              && gm_meta_same_shape (&view->meta, &k->metas[1]);
  *bytes = view->offset * (int64_t) gm_dtype_size (view->meta.dtype);
  gm_tensor_unref (view);
  if (!same)
    return gm_status_set (status, GRAMME_INVALID, (int32_t) node,
                          "%s: the image's strides are not the view's", gm_ops[k->op].name);
  return GRAMME_OK;
}

const GrammeKernels *
gm_host_kernels (void)
{
  static const GrammeKernels table = {
    .struct_size = sizeof table,
    .run_node = kernels_run_node,
    .prepare = kernels_prepare,
    .prepare_copy = kernels_prepare_copy,
    .run = kernels_run,
    .release = kernels_release,
    .view_offset = kernels_view_offset,
    .run_sized = kernels_run_sized,
  };
  return &table;
}
