/* SPDX-License-Identifier: Apache-2.0
 * columns.c -- reductions over leading dimensions: a matrix of n_rows x width becomes one row.
 *
 * A block takes 32 neighbouring columns, so that a warp reads one piece of memory; its eight warps
 * take every eighth row, and shared memory combines them.  With many rows and few columns there are
 * two kernels: the first writes a row of partial results for each chunk of rows, the second reduces
 * those.
 */
#include "plugins/nvrtc/gpu_unit.h"

#define COLUMNS 32
#define WARPS 8
#define CHUNK_ROWS 64 /* rows of a chunk, at least */
/* Number of blocks that keep a GPU busy: 8 running on each of 128 multiprocessors. */
#define BUSY 1024
#define SYMBOLIC_CHUNKS 32 /* chunks where only the run knows the number of rows */

typedef struct {
  int64_t rows, width, stride, chunk; /* chunk: rows of a block */
} Shape;

/* Prints the body of both kernels. `read` converts an element to a worked value and `write` the
 * reverse, to memory `out`. */
static void
put_body (NvUnit *u, CgText *t, const char *op, const char *w, Shape s, const char *read,
          const char *out, const char *write)
{
  int64_t blocks = codegen_size_div_up (u->p->sizes, s.width, COLUMNS);
  put (t,
       "  const gm_index column = (gm_index) (GM_BLOCK %% %s) * %d + GM_THREAD %% %d, chunk = "
       "GM_BLOCK / %s;\n"
       "  const gm_index warp = GM_THREAD / %d;\n"
       "  GM_SHARED E_%s s[%d][%d];\n"
       "  E_%s a = init_%s_%s ();\n"
       "  if (column < %s) {\n"
       "    const gm_index end = (chunk + 1) * %s < %s ? (chunk + 1) * %s : %s;\n"
       "    for (gm_index row = chunk * %s + warp; row < end; row += %d) {\n"
       "      const gm_index at = row * (gm_index) %s + column;\n"
       "      a = fold_%s_%s (a, %s);\n"
       "    }\n"
       "  }\n"
       "  s[warp][GM_THREAD %% %d] = a;\n"
       "  GM_BARRIER ();\n"
       "  if (warp == 0 && column < %s) {\n"
       "#pragma unroll\n"
       "    for (int k = 1; k < %d; k++)\n"
       "      a = fold_%s_%s (a, s[k][GM_THREAD %% %d]);\n"
       "    %s = %s;\n"
       "  }\n",
       NVZ (u, blocks), COLUMNS, COLUMNS, NVZ (u, blocks), COLUMNS, w, WARPS, COLUMNS, w, op, w,
       NVZ (u, s.width), NVZ (u, s.chunk), NVZ (u, s.rows), NVZ (u, s.chunk), NVZ (u, s.rows),
       NVZ (u, s.chunk), WARPS, NVZ (u, s.stride), op, w, read, COLUMNS, NVZ (u, s.width), WARPS,
       op, w, COLUMNS, out, write);
}

void
nv_print_columns (NvUnit *u, uint32_t step)
{
  const CgStep *s = &u->p->steps[step];
  const GrammeNode *n = gramme_image_node (u->p->image, s->node);
  uint32_t in = gramme_node_in (u->p->image, n, 0), from = u->p->values[in].dtype;
  const CgValue *out = &u->p->values[n->out];
  const char *op = gramme_op_facts (n->op).name, *w = nv_work (gramme_tile_accumulator (from));
  CgSizes *sizes = u->p->sizes;
  int64_t blocks = codegen_size_div_up (sizes, s->width, COLUMNS), chunks = 1;
  char memory[64], read[128], write[128], label[80];
  if (s->width == 0)
    return;
  nv_need_fold (u, n->op, w);
  if (codegen_is_symbolic (s->n_rows)) { /* assumed to be many */
    if (!codegen_is_symbolic (blocks) && blocks < BUSY)
      chunks = BUSY / blocks < SYMBOLIC_CHUNKS ? BUSY / blocks : SYMBOLIC_CHUNKS;
  } else if (s->n_rows >= 4 * CHUNK_ROWS && !codegen_is_symbolic (blocks) && blocks < BUSY) {
    chunks = (s->n_rows + CHUNK_ROWS - 1) / CHUNK_ROWS;
    chunks = chunks > BUSY / blocks ? BUSY / blocks : chunks;
  }
  Shape shape = { s->n_rows, s->width, s->row_stride,
                  codegen_size_div_up (sizes, s->n_rows, chunks) };
  if (!codegen_is_symbolic (s->n_rows))
    chunks = s->n_rows ? (s->n_rows + shape.chunk - 1) / shape.chunk : 1;
  nv_store (write, sizeof write, out->dtype, "a");
  NvArg partial = chunks > 1 ? nv_scratch (u, chunks * s->width * 8) : (NvArg){ 0 };

  snprintf (label, sizeof label, "%s_columns", op);
  CgText *t = nv_begin (u, label, COLUMNS * WARPS, (int32_t) s->node);
  int64_t counted = codegen_size_add (
      sizes, codegen_size_add (sizes, s->width, COLUMNS),
      codegen_size_add (sizes, s->n_rows, codegen_size_mul (sizes, shape.chunk, 2)));
  nv_reach (u, codegen_size_add (sizes, nv_extent (u, &u->p->values[in]), counted));
  snprintf (memory, sizeof memory, "p%u[at]", nv_arg (u, in, false));
  nv_load (read, sizeof read, from, memory);
  if (chunks == 1) {
    snprintf (memory, sizeof memory, "p%u[column]", nv_arg (u, n->out, true));
    put_body (u, t, op, w, shape, read, memory, write);
    nv_end (u, blocks);
    return;
  }
  snprintf (memory, sizeof memory, "p%u[chunk * %s + column]", nv_arg_scratch (u, partial, w, true),
            NVZ (u, s->width));
  put_body (u, t, op, w, shape, read, memory, "a");
  nv_end (u, blocks * chunks);

  snprintf (label, sizeof label, "%s_partial_columns", op);
  t = nv_begin (u, label, COLUMNS * WARPS, (int32_t) s->node);
  nv_reach (u, chunks * s->width + blocks * COLUMNS);
  snprintf (read, sizeof read, "p%u[at]", nv_arg_scratch (u, partial, w, false));
  snprintf (memory, sizeof memory, "p%u[column]", nv_arg (u, n->out, true));
  put_body (u, t, op, w, (Shape){ chunks, s->width, s->width, chunks }, read, memory, write);
  nv_end (u, blocks);
}
