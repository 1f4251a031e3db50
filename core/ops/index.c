/* SPDX-License-Identifier: Apache-2.0
 * index.c -- elements and slices picked, added and joined by position.
 *
 * Positions are checked before anything is written, so a bad index leaves the result unchanged.
 * Sums run over the index in its order along DIM; positions on different lines write different
 * elements, so the order of lines is free. Threads share lines, or slices of the result: then each
 * reads the whole index and uses the positions within its own slices.
 */
#include "core/base/threads.h"
#include "core/ops/kernels.h"

#include <string.h>

#define ROW_MIN 16 /* slices of at least so many elements are moved as rows */

static inline void
put (char *to, const char *from, size_t elem)
{
  switch (elem) {
  case 1:
    memcpy (to, from, 1);
    break;
  case 2:
    memcpy (to, from, 2);
    break;
  case 4:
    memcpy (to, from, 4);
    break;
  default:
    memcpy (to, from, 8);
    break;
  }
}

static bool
check_index (GmOp op, const GmTensor *index, const GmTensor *x, int64_t dim, GError **error)
{
  uint64_t size = x->meta.ndim ? (uint64_t) x->meta.sizes[dim] : 1;
  GmLoop l;
  GmCursor c;
  int64_t tile[GM_TILE];
  gm_loop_init_metas (&l, 1, (const GmMeta *const[]){ &index->meta });
  gm_cursor_init (&c, &l, 0, gm_tensor_data (index));
  for (int64_t pos = 0; pos < l.numel; pos += GM_TILE) {
    size_t n = (size_t) MIN (GM_TILE, l.numel - pos);
    const int64_t *v = gm_cursor_read (&c, tile, n);
    for (size_t i = 0; i < n; i++)
      if (G_UNLIKELY ((uint64_t) v[i] >= size)) {
        g_set_error (error, GM_ERROR, GM_ERROR_INDEX,
                     "%s: index %" G_GINT64_FORMAT
                     " is out of bounds for dimension %" G_GINT64_FORMAT
                     " with size %" G_GUINT64_FORMAT,
                     gm_ops[op].name, v[i], dim, size);
        return false;
      }
  }
  return true;
}

/* -- Element by element ------------------------------------------------------------------------ */

/* Operands of a loop that computes, for each line along `dim` and each j, to[at j or index[j]] (+)=
 * from[at index[j] or j]. The loop walks all three together. */
typedef struct {
  GmTensor *walked; /* the walk is over its shape */
  GmTensor *index, *to, *from;
  bool index_to;       /* positions are of `to`, else of `from` */
  bool list;           /* the index has one dimension: the same for every line */
  GmTilePointwise add; /* NULL: store */
} Elements;

typedef struct {
  const Elements *e;
  GmLoop l; /* over lines, or over a slice */
  int64_t along[4], n;
  uint32_t parts;
} ElementsJob;

static void
elements_part (void *arg, uint32_t part)
{
  const ElementsJob *job = arg;
  const Elements *e = job->e;
  const GmLoop *l = &job->l;
  GmTensor *operands[4] = { e->walked, e->to, e->from, e->list ? e->walked : e->index };
  char *at[4];
  const ptrdiff_t *strides[4];
  int64_t position[GM_MAX_DIMS], line = l->numel * part / job->parts,
                                 stop = l->numel * (part + 1) / job->parts;
  for (int i = 0; i < 4; i++) {
    at[i] = gm_tensor_data (operands[i]);
    strides[i] = l->strides[i];
  }
  size_t elem = l->elem[1];
  ptrdiff_t to_bytes = job->along[1] * (ptrdiff_t) elem,
            from_bytes = job->along[2] * (ptrdiff_t) elem;
  int64_t index_step =
      e->list ? (e->index->meta.ndim ? e->index->meta.strides[0] : 1) : job->along[3];
  gm_loop_go (l, l->ndim, line, 4, at, position);
  for (; line < stop;
       line++, gm_odometer_next (position, l->ndim, l->sizes, 4, at, strides, l->elem)) {
    const int64_t *index = e->list ? gm_tensor_data (e->index) : (const void *) at[3];
    for (int64_t j = 0; j < job->n; j++) {
      int64_t k = index[j * index_step];
      char *to = at[1] + (e->index_to ? k : j) * to_bytes;
      const char *from = at[2] + (e->index_to ? j : k) * from_bytes;
      if (e->add)
        e->add (to, to, from, NULL, 1);
      else
        put (to, from, elem);
    }
  }
}

static void
run_elements (const Elements *e, int64_t dim)
{
  GmTensor *operands[4] = { e->walked, e->to, e->from, e->list ? e->walked : e->index };
  ElementsJob j = { .e = e, .n = e->walked->meta.ndim ? e->walked->meta.sizes[dim] : 1 };
  gm_lines_init (&j.l, 4, operands, dim, j.along);
  if (j.l.numel == 0 || j.n == 0)
    return;
  j.parts = gm_loop_parts (j.l.numel, j.l.numel * j.n);
  gm_threads_run (j.parts, elements_part, &j);
}

/* -- Slices ------------------------------------------------------------------------------------ */

static void
slices_part (void *arg, uint32_t part)
{
  const ElementsJob *job = arg;
  const Elements *e = job->e;
  const int64_t *index = gm_tensor_data (e->index);
  int64_t step = e->index->meta.strides[0], first = job->n * part / job->parts,
          stop = job->n * (part + 1) / job->parts;
  int64_t indices = e->index->meta.sizes[0];
  ptrdiff_t elem = (ptrdiff_t) job->l.elem[0];
  for (int64_t j = e->index_to ? 0 : first; j < (e->index_to ? indices : stop); j++) {
    int64_t k = index[j * step];
    if (e->index_to && (k < first || k >= stop))
      continue;
    char *to = (char *) gm_tensor_data (e->to) + (e->index_to ? k : j) * job->along[0] * elem;
    char *from = (char *) gm_tensor_data (e->from) + (e->index_to ? j : k) * job->along[2] * elem;
    gm_loop_run (&job->l, (GmLoopBody){ .pointwise = e->add },
                 e->add ? (char *const[]){ to, to, from } : (char *const[]){ to, from });
  }
}

/* Runs index_select and index_add: whole rows if they are long, else elements. walked: the tensor
 * with one slice per index. */
static void
run_slices (const Elements *e, int64_t dim)
{
  GmTensor *operands[3] = { e->to, e->to, e->from };
  ElementsJob j = { .e = e, .n = e->to->meta.ndim ? e->to->meta.sizes[dim] : 1 };
  gm_lines_init (&j.l, 3, operands, dim, j.along);
  int last = j.l.ndim - 1;
  if (j.l.sizes[last] < ROW_MIN || j.l.strides[0][last] != 1 || j.l.strides[2][last] != 1) {
    run_elements (e, dim);
    return;
  }
  if (!e->add) { /* a copy has one input: operand 1 drops out */
    j.l.n = 2;
    memcpy (j.l.strides[1], j.l.strides[2], sizeof j.l.strides[1]);
  }
  j.parts = gm_loop_parts (j.n, j.l.numel * e->index->meta.sizes[0]);
  gm_threads_run (j.parts, slices_part, &j);
}

/* Copies src into out[..., start : start + n * step : step, ...] along dim. */
static void
store_slice (const GmTensor *src, GmTensor *out, int64_t dim, int64_t start, int64_t step)
{
  GmTensor window = *out; /* borrowed for this call: nothing refs it */
  window.meta.sizes[dim] = src->meta.sizes[dim];
  if (src->meta.sizes[dim] > 1)
    window.meta.strides[dim] *= step;
  window.offset += start * out->meta.strides[dim];
  gm_copy_strided (&window, src);
}

static bool
run_require (const GmTensor *x, const GmTensor *ok, const GmAttrs *attrs, GmTensor *out,
             GError **error)
{
  static const struct {
    GmError code;
    const char *message;
  } conditions[GM_N_CONDITIONS] = {
#define CONDITION(code, NAME, error, message) [code] = { GM_ERROR_##error, message },
#include "plugin-api/gramme-ops.def"
  };
  if (!*(const uint8_t *) gm_tensor_data (ok)) {
    g_set_error_literal (error, GM_ERROR, (gint) conditions[attrs->offset].code,
                         conditions[attrs->offset].message);
    return false;
  }
  gm_copy_strided (out, x);
  return true;
}

/* -- The family -------------------------------------------------------------------------------- */

bool
gm_index_run (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GmTensor *out,
              GError **error)
{
  GmTensor *x = in[0];
  GmTilePointwise add = gm_run_tiles->pointwise (GM_OP_add, x->meta.dtype);
  int at = gm_op_index_input (op);
  if (at >= 0 && !check_index (op, in[at], x, attrs->dim, error))
    return false;

  switch (op) {
  case GM_OP_gather:
    run_elements (&(Elements){ .walked = out, .index = in[1], .to = out, .from = x }, attrs->dim);
    return true;
  case GM_OP_index_select:
    run_slices (&(Elements){ .walked = out, .index = in[1], .to = out, .from = x, .list = true },
                attrs->dim);
    return true;
  case GM_OP_scatter_add:
    gm_copy_strided (out, x);
    run_elements (&(Elements){ .walked = in[1],
                               .index = in[1],
                               .to = out,
                               .from = in[2],
                               .index_to = true,
                               .add = add },
                  attrs->dim);
    return true;
  case GM_OP_index_add:
    gm_copy_strided (out, x);
    run_slices (&(Elements){ .walked = in[2],
                             .index = in[1],
                             .to = out,
                             .from = in[2],
                             .index_to = true,
                             .list = true,
                             .add = add },
                attrs->dim);
    return true;
  case GM_OP_slice_scatter:
    gm_copy_strided (out, x);
    store_slice (in[1], out, attrs->dim, attrs->start, attrs->step);
    return true;
  case GM_OP_cat:
    for (int64_t i = 0, start = 0; i < n_in; start += in[i++]->meta.sizes[attrs->dim])
      store_slice (in[i], out, attrs->dim, start, 1);
    return true;
  case GM_OP_require:
    return run_require (x, in[1], attrs, out, error);
  case GM_OP_argsort:
    return gm_argsort_run (x, attrs, out, error);
  default:
    g_assert_not_reached ();
  }
}
