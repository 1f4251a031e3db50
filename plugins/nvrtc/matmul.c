/* SPDX-License-Identifier: Apache-2.0
 * matmul.c -- matrix products by tiles in shared memory.
 *
 * A block of 256 threads makes a tile of 64 x 64 elements, a thread 4 x 4 of them.  Pieces of 64 x 16 of a and 16 x 64 of b pass
 * through shared memory; what lies outside of a matrix reads as 0.  Strides are numbers in the text, so transposed operands need no
 * copy: pieces are loaded along the dimension whose stride is 1.  Batches broadcast.  f16 and bf16 are multiplied and summed in
 * f32 and rounded once; floats with fma, the sum over k in order.
 */
#include "plugins/nvrtc/calls.h"

#define TILE 64
#define DEPTH 16
#define BLOCK 256

typedef struct {
  uint32_t value, arg;
  const CgValue *v;
  int64_t row, col; /* strides */
} Matrix;

static Matrix
matrix (NvUnit *u, uint32_t value, bool writes)
{
  const CgValue *v = &u->p->values[value];
  return (Matrix){ value, nv_arg (u, value, writes), v, v->strides[v->ndim - 2], v->strides[v->ndim - 1] };
}

/* Offset of the batch in terms of coordinates b<d> of the result. */
static void
put_batch_offset (CgText *t, const char *name, const Matrix *m, uint32_t ndim)
{
  put (t, "  const gm_index %s = 0", name);
  for (uint32_t d = 0; d + 2 < ndim; d++) {
    int own = (int) d - (int) (ndim - m->v->ndim);
    if (own >= 0 && m->v->sizes[own] != 1 && m->v->strides[own])
      put (t, " + b%u * (gm_index) %lld", d, (long long) m->v->strides[own]);
  }
  put (t, ";\n");
}

/* One piece into shared memory: rows x cols at (r0, c0) of m; element (y, x) of it goes to the place `s`. */
static void
put_piece (CgText *t, const Matrix *m, const char *s, const char *base, int rows, int cols, const char *r0, const char *c0,
           int64_t all_rows, int64_t all_cols)
{
  char memory[160], value[240];
  bool along_rows = m->row == 1 && m->col != 1; /* neighbouring threads take neighbouring rows */
  snprintf (memory, sizeof memory, "p%u[%s + r * (gm_index) %lld + c * (gm_index) %lld]", m->arg, base, (long long) m->row,
            (long long) m->col);
  nv_load (value, sizeof value, m->v->dtype, memory);
  put (t, "#pragma unroll\n    for (int q = tid; q < %d; q += %d) {\n", rows * cols, BLOCK);
  put (t, "      const int y = %s, x = %s;\n", along_rows ? "q % ROWS" : "q / COLS", along_rows ? "q / ROWS" : "q % COLS");
  put (t, "      const gm_index r = %s + y, c = %s + x;\n", r0, c0);
  put (t, "      %s = r < %lldu && c < %lldu ? %s : 0;\n    }\n", s, (long long) all_rows, (long long) all_cols, value);
}

void
nv_print_matmul (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t in[3] = { gramme_node_in (u->p->image, n, 0), gramme_node_in (u->p->image, n, 1), n->out };
  const CgValue *out = &u->p->values[n->out];
  uint32_t ndim = out->ndim;
  int64_t rows = out->sizes[ndim - 2], cols = out->sizes[ndim - 1], batches = 1, most = 0;
  int64_t depth = u->p->values[in[0]].sizes[u->p->values[in[0]].ndim - 1];
  const char *w = nv_work (out->dtype);
  for (uint32_t d = 0; d + 2 < ndim; d++)
    batches *= out->sizes[d];
  for (int i = 0; i < 3; i++) {
    int64_t extent = nv_extent (&u->p->values[in[i]]) + TILE * TILE;
    most = extent > most ? extent : most;
  }
  int64_t down = (rows + TILE - 1) / TILE, across = (cols + TILE - 1) / TILE;
  CgText *t = nv_begin (u, "matmul", BLOCK, (int32_t) node);
  u->k.index = nv_index_type (most);
  Matrix a = matrix (u, in[0], false), b = matrix (u, in[1], false), c = matrix (u, n->out, true);
  put (t, "  GM_SHARED E_%s sa[%d][%d], sb[%d][%d];\n", w, DEPTH, TILE + 1, DEPTH, TILE + 1);
  put (t, "  E_%s acc[4][4] = { { 0 } };\n  const int tid = (int) GM_THREAD, ty = tid / 16, tx = tid %% 16;\n", w);
  put (t, "  gm_index rest = GM_BLOCK / %lldu;\n", (long long) (down * across));
  put (t, "  const gm_index tile = GM_BLOCK %% %lldu, r0 = tile / %lldu * %d, c0 = tile %% %lldu * %d;\n",
       (long long) (down * across), (long long) across, TILE, (long long) across, TILE);
  for (int d = (int) ndim - 3; d >= 0; d--)
    put (t, "  const gm_index b%d = rest %% %lldu;\n  rest /= %lldu;\n", d, (long long) out->sizes[d],
         (long long) out->sizes[d]);
  put_batch_offset (t, "oa", &a, ndim);
  put_batch_offset (t, "ob", &b, ndim);
  put_batch_offset (t, "oc", &c, ndim);
  put (t, "  for (gm_index k0 = 0; k0 < %lldu; k0 += %d) {\n", (long long) depth, DEPTH);
  put (t, "#define ROWS %d\n#define COLS %d\n", TILE, DEPTH);
  put_piece (t, &a, "sa[x][y]", "oa", TILE, DEPTH, "r0", "k0", rows, depth);
  put (t, "#undef ROWS\n#undef COLS\n#define ROWS %d\n#define COLS %d\n", DEPTH, TILE);
  put_piece (t, &b, "sb[y][x]", "ob", DEPTH, TILE, "k0", "c0", depth, cols);
  put (t, "#undef ROWS\n#undef COLS\n    GM_BARRIER ();\n");
  put (t,
       "#pragma unroll\n    for (int k = 0; k < %d; k++)\n#pragma unroll\n      for (int y = 0; y < 4; y++)\n"
       "#pragma unroll\n        for (int x = 0; x < 4; x++)\n"
       "          acc[y][x] = mad_%s (sa[k][ty + y * 16], sb[k][tx + x * 16], acc[y][x]);\n    GM_BARRIER ();\n  }\n",
       DEPTH, w);
  char value[128];
  nv_store (value, sizeof value, out->dtype, "acc[y][x]");
  put (t,
       "#pragma unroll\n  for (int y = 0; y < 4; y++)\n#pragma unroll\n    for (int x = 0; x < 4; x++) {\n"
       "      const gm_index r = r0 + ty + y * 16, c = c0 + tx + x * 16;\n      if (r < %lldu && c < %lldu)\n"
       "        p%u[oc + r * (gm_index) %lld + c * (gm_index) %lld] = %s;\n    }\n",
       (long long) rows, (long long) cols, c.arg, (long long) c.row, (long long) c.col, value);
  nv_end (u, (uint64_t) (down * across * batches));
}
