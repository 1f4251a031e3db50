/* SPDX-License-Identifier: Apache-2.0
 * rows.c -- loops with reductions over their trailing dimensions: sums, softmax, layer norm.
 *
 * A row is walked once for each phase (loop_plan.h): reductions of a phase are complete before the
 * next one begins.  The threads of a row depend on its length:
 *
 *      <= 16       a thread
 *      longer      8, 16 or 32 threads, or a block of up to 1024, which combines its warps through
 *                  shared memory: each reads two times 16 bytes, so that enough requests are in
 *                  flight; more elements would be unrolled to more text, which takes compile time
 *      few rows that are very long: many blocks (rows_split.c)
 *
 * Reductions are combined in a tree over lanes; the order depends on the sizes alone, so results
 * are reproducible, but sums of floats do not have the CPU's bits.
 */
#include "plugins/nvrtc/rows_parts.h"

#define BYTES_OF_THREAD 32 /* bytes of a row in memory */
#define SYMBOLIC_BLOCK 128 /* threads for a row whose length only the run knows */
#define SPLIT_FROM 65536   /* elements of a row */
#define SPLIT_ROWS 64      /* so many rows keep the GPU busy without splitting */

/* Returns the number of threads for a row.  bytes: of an element of the widest memory that is
 * accessed at every point. */
static int
threads_for (int64_t n, uint32_t bytes)
{
  if (codegen_is_symbolic (n))
    return SYMBOLIC_BLOCK;
  int threads = 8;
  while (threads < 1024 && threads * BYTES_OF_THREAD < n * bytes)
    threads *= 2;
  return n <= 16 ? 1 : threads;
}

static uint32_t
widest (const Loop *l)
{
  uint32_t most = 1;
  for (uint32_t k = 0; k < l->n_access; k++) {
    uint32_t bytes = l->p->values[l->access[k].value].elem_bytes;
    if (!l->access[k].as_row && l->access[k].inner == 1 && bytes > most)
      most = bytes;
  }
  return most;
}

void
nv_print_rows (NvUnit *u, uint32_t step)
{
  Rows r = { 0 };
  int64_t n_rows = u->p->steps[step].rows;
  loop_plan (&r.l, u->p, step, true);
  if (u->p->steps[step].rows == 0)
    return;
  int limit = 16;
  r.threads = threads_for (r.l.n, widest (&r.l));
  bool number = !codegen_is_symbolic (r.l.n);
  while (number && limit > 1 && (int64_t) limit * r.threads > r.l.n)
    limit /= 2;
  nv_point_init (&r.pt, u, &r.l, limit, false);
  if (number && r.l.n >= SPLIT_FROM && !codegen_is_symbolic (n_rows) && n_rows <= SPLIT_ROWS) {
    nv_rows_print_split (&r, u, n_rows);
    return;
  }
  if (r.threads > 1)
    nv_point_peel (&r.pt, limit);
  if (r.pt.peels && r.threads == 64)
    r.threads = 32; /* such rows take long anyway: avoid a barrier */
  nv_rows_find_softmax (&r);
  nv_rows_plan_kept (&r, number);
  nv_rows_plan_walk (&r);
  nv_rows_print_whole (&r, u, n_rows);
}
