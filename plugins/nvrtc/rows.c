/* SPDX-License-Identifier: Apache-2.0
 * rows.c -- loops with reductions over their trailing dimensions: sums, softmax, layer norm.
 *
 * A row is walked once for each phase (loop_plan.h): reductions of a phase are complete before the next one begins.  Who takes a
 * row follows from its length:
 *
 *      <= 16       a thread
 *      <= 1024     a warp; four to a block
 *      longer      a block, which combines its warps through shared memory
 *      few rows that are very long: SPLIT.  Many blocks take a row, phase by phase: one kernel to a phase leaves a partial result
 *                  of each block in the workspace, and every block of the next one combines them again, all in the same order.
 *
 * What later phases read at every point is kept in registers where that is few, else computed again from memory: the same bits.
 * Reductions are combined in a tree over lanes; the order depends on the sizes alone, so results repeat, but sums of floats are
 * not the CPU's to the last bit.
 */
#include "plugins/nvrtc/point.h"

#define WARPS_BLOCK 128    /* threads of a block whose rows are smaller than it */
#define KEPT_REGISTERS 64  /* of a thread, for what crosses phases */
#define SPLIT_BLOCK 256
#define SYMBOLIC_BLOCK 128 /* threads of a row whose length only the run knows */
#define SPLIT_FROM 65536   /* elements of a row */
#define SPLIT_ROWS 64      /* with so many rows the GPU is busy without */

typedef struct {
  NvPoint pt;
  Loop l;
  CgText *t;
  int threads;     /* of a row: 1, 32, or a block */
  int64_t steps;   /* of a thread through a row: a number only if `keeps` */
  bool keeps;      /* crossing members are in c<m> */
  uint64_t crossing;
  int64_t chunks, chunk; /* SPLIT: blocks of a row, elements of each */
  NvArg partial[CG_MAX_MEMBERS];
} Rows;

static uint64_t
bit (uint32_t m)
{
  return (uint64_t) 1 << m;
}

/* -- Which members --------------------------------------------------------------------------------- */

static bool
is_stored (const Rows *r, uint32_t m)
{
  return r->l.p->values[loop_member (&r->l, m)->out].stored;
}

/* At every point, in this phase. */
static uint64_t
full_stores (const Rows *r, int phase)
{
  uint64_t all = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (r->l.phases[m] == phase && !loop_is_row (&r->l, m) && is_stored (r, m))
      all |= bit (m);
  return all;
}

static uint64_t
folds (const Rows *r, int phase)
{
  uint64_t all = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (r->l.phases[m] == phase && loop_is_fold (&r->l, m))
      all |= bit (m);
  return all;
}

/* Row members that are no reductions. */
static uint64_t
row_members (const Rows *r, int phase)
{
  uint64_t all = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (r->l.phases[m] == phase && loop_is_row (&r->l, m) && !loop_is_fold (&r->l, m))
      all |= bit (m);
  return all;
}

static uint64_t
stored_of (const Rows *r, uint64_t members)
{
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (!is_stored (r, m))
      members &= ~bit (m);
  return members;
}

/* -- Reductions ------------------------------------------------------------------------------------ */

static const char *
fold_work (const Rows *r, uint32_t m)
{
  return nv_work (loop_accum_dtype (&r->l, m));
}

static const char *
fold_name (const Rows *r, uint32_t m)
{
  return gramme_op_facts (loop_member (&r->l, m)->op).name;
}

static void
put_accumulators (Rows *r, uint64_t members)
{
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m)) {
      const char *w = fold_work (r, m);
      nv_need_fold (r->pt.u, loop_member (&r->l, m)->op, w);
      put (r->t, "  E_%s a%u = init_%s_%s ();\n", w, m, fold_name (r, m), w);
    }
}

/* a<m> of each thread become one value, which all threads of the row have. */
static void
put_combine (Rows *r, uint64_t members)
{
  bool any = members != 0;
  if (r->threads == 1 || !any)
    return;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m)) {
      const char *w = fold_work (r, m);
      put (r->t, "#pragma unroll\n  for (int d = 16; d > 0; d /= 2)\n    a%u = fold_%s_%s (a%u, down_%s (a%u, d));\n", m,
           fold_name (r, m), w, m, w, m);
      if (r->threads == 32)
        put (r->t, "  a%u = lane0_%s (a%u);\n", m, w, m);
      else
        put (r->t, "  GM_SHARED E_%s s%u[%d];\n  if (tid %% 32 == 0)\n    s%u[tid / 32] = a%u;\n", w, m, r->threads / 32, m, m);
    }
  if (r->threads == 32)
    return;
  put (r->t, "  GM_BARRIER ();\n");
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m))
      put (r->t, "  a%u = s%u[0];\n#pragma unroll\n  for (int w = 1; w < %d; w++)\n    a%u = fold_%s_%s (a%u, s%u[w]);\n", m, m,
           r->threads / 32, m, fold_name (r, m), fold_work (r, m), m, m);
}

/* r<m> from a<m>. */
static void
put_results (Rows *r, uint64_t members)
{
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m)) {
      uint32_t dtype = r->l.p->values[loop_member (&r->l, m)->out].dtype;
      if (loop_casts_at_end (&r->l, m))
        put (r->t, "  const E_f32 r%u = rounded_%s (a%u);\n", m, nv_elem (dtype), m);
      else
        put (r->t, "  const E_%s r%u = a%u;\n", nv_work (dtype), m, m);
    }
}

static void
put_row_stores (Rows *r, uint64_t members, const char *who)
{
  members = stored_of (r, members);
  if (!members)
    return;
  put (r->t, "  if (%s) {\n", who);
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m))
      nv_point_row_store (&r->pt, m);
  put (r->t, "  }\n");
}

static void
put_row_members (Rows *r, int phase)
{
  uint64_t members = row_members (r, phase);
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m))
      nv_point_row_member (&r->pt, m);
}

/* -- One kernel for all phases ---------------------------------------------------------------------- */

static void
put_elements (Rows *r, int phase)
{
  NvPass pass = { .stores = full_stores (r, phase), .folds = folds (r, phase) };
  int lanes = r->pt.lanes;
  char index[48];
  if (r->keeps)
    for (uint32_t m = 0; m < r->l.s->n_members; m++)
      if (r->crossing & bit (m)) {
        pass.keep |= r->l.phases[m] == phase ? bit (m) : 0;
        pass.kept |= r->l.phases[m] < phase ? bit (m) : 0;
      }
  if (!(pass.stores | pass.folds | pass.keep))
    return;
  pass.compute = nv_point_closure (&r->pt, pass.stores | pass.folds | pass.keep, pass.kept);
  snprintf (index, sizeof index, "j * %d", lanes);
  pass.index = index;
  if (r->keeps) {
    put (r->t, "#pragma unroll\n  for (int j = 0; j < %lld; j++) {\n    const gm_index e = (gm_index) (j * %d + tid) * %d;\n",
         (long long) r->steps, r->threads, lanes);
    if (r->steps * r->threads * lanes != r->l.n)
      put (r->t, "    if (e < %s) {\n", NVZ (r->pt.u, r->l.n));
    else
      put (r->t, "    {\n");
    nv_point_pass (&r->pt, &pass);
    put (r->t, "    }\n  }\n");
  } else {
    put (r->t, "  for (gm_index e = (gm_index) tid * %d; e < %s; e += %d) {\n", lanes, NVZ (r->pt.u, r->l.n), lanes * r->threads);
    nv_point_pass (&r->pt, &pass);
    put (r->t, "  }\n");
  }
}

static void
print_whole (Rows *r, NvUnit *u, int64_t n_rows)
{
  char label[64];
  int block = r->threads > 32 ? r->threads : WARPS_BLOCK, per_block = block / r->threads;
  nv_point_label (&r->l, label, sizeof label);
  r->t = nv_begin (u, label, (uint32_t) block, (int32_t) r->l.members[0]);
  CgSizes *sizes = u->p->sizes;
  int stride = r->threads * r->pt.lanes;
  nv_point_reach (u, &r->l, codegen_size_mul (sizes, codegen_size_add (sizes, n_rows, per_block), stride));
  nv_reach (u, codegen_size_add (sizes, r->l.n, stride));
  if (per_block == 1)
    put (r->t, "  const gm_index row = GM_BLOCK;\n  const int tid = (int) GM_THREAD;\n");
  else
    put (r->t,
         "  const gm_index row = (gm_index) GM_BLOCK * %d + GM_THREAD / %d;\n  const int tid = (int) (GM_THREAD %% %d);\n"
         "  if (row >= %s)\n    return;\n",
         per_block, r->threads, r->threads, NVZ (u, n_rows));
  nv_point_head (&r->pt, r->t, "row");
  for (uint32_t m = 0; r->keeps && m < r->l.s->n_members; m++)
    if (r->crossing & bit (m))
      put (r->t, "  E_%s c%u[%lld];\n", nv_work (r->l.p->values[loop_member (&r->l, m)->out].dtype), m,
           (long long) (r->steps * r->pt.lanes));
  for (int phase = 0; phase < r->l.n_phases; phase++) {
    uint64_t f = folds (r, phase);
    put_row_members (r, phase);
    put_accumulators (r, f);
    put_elements (r, phase);
    put_combine (r, f);
    put_results (r, f);
    put_row_stores (r, row_members (r, phase) | f, "tid == 0");
  }
  nv_end (u, codegen_size_div_up (sizes, n_rows, per_block));
}

/* -- A kernel to a phase ----------------------------------------------------------------------------- */

static void
print_split_phase (Rows *r, NvUnit *u, int64_t n_rows, int phase)
{
  bool last = phase == r->l.n_phases;
  uint64_t f = last ? 0 : folds (r, phase), stores = last ? 0 : full_stores (r, phase);
  uint64_t row = (last ? 0 : row_members (r, phase)) | (phase > 0 ? folds (r, phase - 1) : 0);
  char label[64], name[80];
  if (!(f | stores | stored_of (r, row)))
    return;
  nv_point_label (&r->l, label, sizeof label);
  snprintf (name, sizeof name, "p%d_%s", phase, label);
  r->t = nv_begin (u, name, SPLIT_BLOCK, (int32_t) r->l.members[0]);
  nv_point_reach (u, &r->l, n_rows * r->chunks * r->chunk);
  int64_t chunks = f | stores ? r->chunks : 1;
  put (r->t, "  const gm_index row = GM_BLOCK / %lldu, chunk = GM_BLOCK %% %lldu;\n  const int tid = (int) GM_THREAD;\n",
       (long long) chunks, (long long) chunks);
  nv_point_head (&r->pt, r->t, "row");
  for (int before = 0; before < phase; before++) {
    uint64_t done = folds (r, before);
    put_row_members (r, before);
    put_accumulators (r, done);
    for (uint32_t m = 0; m < r->l.s->n_members; m++)
      if (done & bit (m))
        put (r->t, "  if (tid < %lld)\n    a%u = p%u[row * %lldu + tid];\n", (long long) r->chunks, m,
             nv_arg_scratch (u, r->partial[m], fold_work (r, m), false), (long long) r->chunks);
    put_combine (r, done);
    put_results (r, done);
  }
  if (!last)
    put_row_members (r, phase);
  put_row_stores (r, row, "tid == 0 && chunk == 0");
  put_accumulators (r, f);
  if (f | stores) {
    NvPass pass = { .stores = stores, .folds = f, .compute = nv_point_closure (&r->pt, stores | f, 0) };
    put (r->t,
         "  const gm_index end = (chunk + 1) * %lldu < %lldu ? (chunk + 1) * %lldu : %lldu;\n"
         "  for (gm_index e = chunk * %lldu + (gm_index) tid * %d; e < end; e += %d) {\n",
         (long long) r->chunk, (long long) r->l.n, (long long) r->chunk, (long long) r->l.n, (long long) r->chunk,
         r->pt.lanes, r->pt.lanes * SPLIT_BLOCK);
    nv_point_pass (&r->pt, &pass);
    put (r->t, "  }\n");
  }
  put_combine (r, f);
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (f & bit (m))
      put (r->t, "  if (tid == 0)\n    p%u[row * %lldu + chunk] = a%u;\n",
           nv_arg_scratch (u, r->partial[m], fold_work (r, m), true), (long long) r->chunks, m);
  nv_end (u, n_rows * chunks);
}

static void
print_split (Rows *r, NvUnit *u, int64_t n_rows)
{
  int64_t unit = (int64_t) SPLIT_BLOCK * r->pt.lanes, wanted = 1024 / n_rows, n = r->l.n;
  if (wanted > n / 8192)
    wanted = n / 8192;
  if (wanted > SPLIT_BLOCK)
    wanted = SPLIT_BLOCK; /* every block reads all partial results, one to a thread */
  r->chunk = ((n + wanted - 1) / wanted + unit - 1) / unit * unit;
  r->chunks = (n + r->chunk - 1) / r->chunk;
  r->threads = SPLIT_BLOCK;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (loop_is_fold (&r->l, m))
      r->partial[m] = nv_scratch (u, n_rows * r->chunks * 8);
  for (int phase = 0; phase <= r->l.n_phases; phase++)
    print_split_phase (r, u, n_rows, phase);
}

/* -- The step ---------------------------------------------------------------------------------------- */

static int
threads_for (int64_t n)
{
  if (codegen_is_symbolic (n))
    return SYMBOLIC_BLOCK;
  return n <= 16 ? 1 : n <= 1024 ? 32 : n <= 4096 ? 128 : n <= 8192 ? 256 : n <= 16384 ? 512 : 1024;
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
  r.threads = threads_for (r.l.n);
  bool number = !codegen_is_symbolic (r.l.n);
  while (number && limit > 1 && (int64_t) limit * r.threads > r.l.n)
    limit /= 2;
  nv_point_init (&r.pt, u, &r.l, limit, false);
  if (number && r.l.n >= SPLIT_FROM && !codegen_is_symbolic (n_rows) && n_rows <= SPLIT_ROWS) {
    print_split (&r, u, n_rows);
    return;
  }
  int64_t stride = (int64_t) r.threads * r.pt.lanes, n_crossing = 0;
  r.steps = number ? (r.l.n + stride - 1) / stride : INT32_MAX;
  for (uint32_t m = 0; m < r.l.s->n_members; m++)
    if (!loop_is_row (&r.l, m) && loop_crosses (&r.l, m)) {
      r.crossing |= bit (m);
      n_crossing += (number ? r.steps : 0) * r.pt.lanes * (r.l.p->values[loop_member (&r.l, m)->out].elem_bytes > 4 ? 2 : 1);
    }
  r.keeps = r.steps <= 16 && n_crossing <= KEPT_REGISTERS;
  print_whole (&r, u, n_rows);
}
