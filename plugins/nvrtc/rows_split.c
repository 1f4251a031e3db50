/* SPDX-License-Identifier: Apache-2.0
 * rows_split.c -- few rows that are very long: many blocks take a row, phase by phase.
 *
 * A kernel for each phase writes a partial result of each block to the workspace, and every block
 * of the next phase combines them again, all in the same order.
 */
#include "plugins/nvrtc/rows_parts.h"

#define SPLIT_BLOCK 256

static void
print_split_phase (Rows *r, NvUnit *u, int64_t n_rows, int phase)
{
  bool last = phase == r->l.n_phases;
  uint64_t f = last ? 0 : nv_rows_folds (r, phase),
           stores = last ? 0 : nv_rows_full_stores (r, phase);
  uint64_t row =
      (last ? 0 : nv_rows_members (r, phase)) | (phase > 0 ? nv_rows_folds (r, phase - 1) : 0);
  char label[64], name[80];
  if (!(f | stores | nv_rows_stored_of (r, row)))
    return;
  nv_point_label (&r->l, label, sizeof label);
  snprintf (name, sizeof name, "p%d_%s", phase, label);
  r->t = nv_begin (u, name, SPLIT_BLOCK, (int32_t) r->l.members[0]);
  nv_point_reach (u, &r->l, n_rows * r->chunks * r->chunk);
  int64_t chunks = f | stores ? r->chunks : 1;
  put (r->t,
       "  const gm_index row = GM_BLOCK / %lldu, chunk = GM_BLOCK %% %lldu;\n  const int tid = "
       "(int) GM_THREAD;\n",
       (long long) chunks, (long long) chunks);
  nv_point_head (&r->pt, r->t, "row");
  for (int before = 0; before < phase; before++) {
    uint64_t done = nv_rows_folds (r, before);
    nv_rows_put_members (r, before);
    nv_rows_put_accumulators (r, done);
    for (uint32_t m = 0; m < r->l.s->n_members; m++)
      if (done & bit (m))
        put (r->t, "  if (tid < %lld)\n    a%u = p%u[row * %lldu + tid];\n", (long long) r->chunks,
             m, nv_arg_scratch (u, r->partial[m], nv_rows_fold_work (r, m), false),
             (long long) r->chunks);
    nv_rows_put_combine (r, done);
    nv_rows_put_results (r, done);
  }
  if (!last)
    nv_rows_put_members (r, phase);
  nv_rows_put_stores (r, row, "tid == 0 && chunk == 0");
  nv_rows_put_accumulators (r, f);
  if (f | stores) {
    NvPass pass = { .stores = stores,
                    .folds = f,
                    .compute = nv_point_closure (&r->pt, stores | f, 0) };
    put (r->t,
         "  const gm_index end = (chunk + 1) * %lldu < %lldu ? (chunk + 1) * %lldu : %lldu;\n"
         "  for (gm_index e = chunk * %lldu + (gm_index) tid * %d; e < end; e += %d) {\n",
         (long long) r->chunk, (long long) r->l.n, (long long) r->chunk, (long long) r->l.n,
         (long long) r->chunk, r->pt.lanes, r->pt.lanes * SPLIT_BLOCK);
    nv_point_pass (&r->pt, &pass);
    put (r->t, "  }\n");
  }
  nv_rows_put_combine (r, f);
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (f & bit (m))
      put (r->t, "  if (tid == 0)\n    p%u[row * %lldu + chunk] = a%u;\n",
           nv_arg_scratch (u, r->partial[m], nv_rows_fold_work (r, m), true), (long long) r->chunks,
           m);
  nv_end (u, n_rows * chunks);
}

void
nv_rows_print_split (Rows *r, NvUnit *u, int64_t n_rows)
{
  int64_t unit = (int64_t) SPLIT_BLOCK * r->pt.lanes, wanted = 1024 / n_rows, n = r->l.n;
  if (wanted > n / 8192)
    wanted = n / 8192;
  if (wanted > SPLIT_BLOCK)
    wanted = SPLIT_BLOCK; /* every block reads all partial results, one in each thread */
  r->chunk = ((n + wanted - 1) / wanted + unit - 1) / unit * unit;
  r->chunks = (n + r->chunk - 1) / r->chunk;
  r->threads = SPLIT_BLOCK;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (loop_is_fold (&r->l, m))
      r->partial[m] = nv_scratch (u, n_rows * r->chunks * 8);
  for (int phase = 0; phase <= r->l.n_phases; phase++)
    print_split_phase (r, u, n_rows, phase);
}
