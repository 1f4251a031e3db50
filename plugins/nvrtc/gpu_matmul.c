/* SPDX-License-Identifier: Apache-2.0
 * gpu_matmul.c -- matrix products by tiles (tile.h).
 *
 * Where the library has products (product.h), only those that it does not support come here.
 * Strides are in the text, so transposed operands need no copy: pieces are loaded along the
 * dimension whose stride is 1.  Batches broadcast.
 */
#include "plugins/nvrtc/calls.h"
#include "plugins/nvrtc/product.h"
#include "plugins/nvrtc/tile.h"

typedef struct {
  uint32_t value, arg;
  const CgValue *v;
  int64_t row, col; /* strides */
} Matrix;

/* Returns the description of a matrix, an argument of the kernel. Its indices go up to a tile
 * beyond its end, where nothing is read. */
static Matrix
matrix (NvUnit *u, uint32_t value, bool writes)
{
  CgSizes *sizes = u->p->sizes;
  const CgValue *v = &u->p->values[value];
  Matrix m = { value, nv_arg (u, value, writes), v, v->strides[v->ndim - 2],
               v->strides[v->ndim - 1] };
  int64_t beside = codegen_size_mul (sizes, codegen_size_add (sizes, m.row, m.col), NV_TILE);
  nv_reach (u, codegen_size_add (sizes, nv_extent (u, v), beside));
  return m;
}

/* Prints the offset of the batch in terms of the result's coordinates b<d>. */
static void
put_batch_offset (NvUnit *u, CgText *t, const char *name, const Matrix *m, uint32_t ndim)
{
  put (t, "  const gm_index %s = 0", name);
  for (uint32_t d = 0; d + 2 < ndim; d++) {
    int own = (int) d - (int) (ndim - m->v->ndim);
    if (own >= 0 && m->v->sizes[own] != 1 && m->v->strides[own])
      put (t, " + b%u * (gm_index) %s", d, NVZ (u, m->v->strides[own]));
  }
  put (t, ";\n");
}

/* Prints the element at (r, c). */
static void
element (NvUnit *u, char *out, size_t room, const Matrix *m, const char *base)
{
  snprintf (out, room, "p%u[%s + r * (gm_index) %s + c * (gm_index) %s]", m->arg, base,
            NVZ (u, m->row), NVZ (u, m->col));
}

static void
put_load (NvUnit *u, CgText *t, const Matrix *m, const char *base)
{
  char memory[160], value[240];
  element (u, memory, sizeof memory, m, base);
  nv_load (value, sizeof value, m->v->dtype, memory);
  put (t, "        v = %s;\n", value);
}

void
nv_print_matmul (NvUnit *u, uint32_t node)
{
  if (u->found->library && nv_print_product (u, node, NULL))
    return;
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t in[2] = { gramme_node_in (u->p->image, n, 0), gramme_node_in (u->p->image, n, 1) };
  const CgValue *out = &u->p->values[n->out];
  uint32_t ndim = out->ndim;
  char memory[160], value[240];
  NvTile tile = { .label = "matmul",
                  .work = nv_work (out->dtype),
                  .node = node,
                  .rows = out->sizes[ndim - 2],
                  .cols = out->sizes[ndim - 1],
                  .depth = u->p->values[in[0]].sizes[u->p->values[in[0]].ndim - 1],
                  .batches = 1 };
  for (uint32_t d = 0; d + 2 < ndim; d++)
    tile.batches = codegen_size_mul (u->p->sizes, tile.batches, out->sizes[d]);
  nv_tile_begin (u, &tile);
  Matrix a = matrix (u, in[0], false), b = matrix (u, in[1], false), c = matrix (u, n->out, true);
  for (int d = (int) ndim - 3; d >= 0; d--)
    put (&tile.head, "  const gm_index b%d = rest %% %s;\n  rest /= %s;\n", d,
         NVZ (u, out->sizes[d]), NVZ (u, out->sizes[d]));
  put_batch_offset (u, &tile.head, "oa", &a, ndim);
  put_batch_offset (u, &tile.head, "ob", &b, ndim);
  put_batch_offset (u, &tile.head, "oc", &c, ndim);
  tile.a_down = a.row == 1 && a.col != 1;
  tile.b_down = b.row == 1 && b.col != 1;
  put_load (u, &tile.a, &a, "oa");
  put_load (u, &tile.b, &b, "ob");
  element (u, memory, sizeof memory, &c, "oc");
  nv_store (value, sizeof value, out->dtype, "acc[y][x]");
  put (&tile.store, "        %s = %s;\n", memory, value);
  nv_tile_end (u, &tile);
}
