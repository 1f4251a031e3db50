/* SPDX-License-Identifier: Apache-2.0
 * rows.c -- loops with reductions over their trailing dimensions: sums, softmax, layer norm.
 *
 * A row is walked once for each phase (loop_plan.h): reductions of a phase are complete before the next one begins.  Who takes a
 * row follows from its length:
 *
 *      <= 16       a thread
 *      longer      8, 16 or 32 threads, or a block of up to 1024, which combines its warps through shared memory: each reads two times 16
 *                  bytes, so that enough is on its way at a time; more elements are unrolled to more text, which takes a compile its
 *                  time
 *      few rows that are very long: SPLIT.  Many blocks take a row, phase by phase: one kernel to a phase leaves a partial result
 *                  of each block in the workspace, and every block of the next one combines them again, all in the same order.
 *
 * What later phases read at every point is kept in registers, memory as it came and members that cost more than a few
 * instructions, where there are enough; else it is computed again from memory: the same bits.  Rows that begin anywhere are walked
 * from one boundary of 16 bytes to the next; what lies before and behind, fewer than 16 bytes each, is one element of each of the first
 * threads (point.h).
 * Reductions are combined in a tree over lanes; the order depends on the sizes alone, so results repeat, but sums of floats are
 * not the CPU's to the last bit.
 */
#include "plugins/nvrtc/point.h"

#define WARPS_BLOCK 128    /* threads of a block whose rows are smaller than it */
#define KEPT_REGISTERS 64  /* of a thread, for what crosses phases */
#define KEPT_OF_1024 40    /* of 1024 threads of a block each has 64 in all */
#define CHEAP 3            /* instructions: what costs more is kept, not done again */
#define CHEAP_OF_WIDE 4    /* where a block has two elements of each of its 1024 threads' registers, and what is kept would be twice as wide */
#define KEPT_OF_TWO 18     /* registers, where two blocks of 1024 threads share a multiprocessor, and each thread has 32 */
#define UNROLLED 168       /* instructions: more of one pass take a compiler too long, */
#define TURN 128           /* and a loop takes so many at a time */
#define SPLIT_BLOCK 256
#define BYTES_OF_THREAD 32 /* that it reads of a row */
#define SYMBOLIC_BLOCK 128 /* threads of a row whose length only the run knows */
#define SPLIT_FROM 65536   /* elements of a row */
#define SPLIT_ROWS 64      /* with so many rows the GPU is busy without */

typedef struct {
  NvPoint pt, ends; /* ends: where rows begin anywhere */
  Loop l;
  CgText *t;
  int threads;     /* of a row: 1, 8 to 32, or a block */
  int64_t steps;   /* of a thread through a row: a number only if `keeps` */
  bool keeps;      /* crossing members are in c<m>, and memory of several phases in w<k> */
  uint64_t crossing;
  int first[CG_MAX_MEMBERS * 4], last[CG_MAX_MEMBERS * 4]; /* the phases that read what is held of an access */
  int64_t some[CG_MAX_MEMBERS + 1]; /* steps that are unrolled in a phase */
  int end_steps;   /* of a thread through the ends */
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

/* For arguments of `put`. */
#define FOLD(r, m) nv_point_fold (&(r)->pt, (m), (char[64]){ 0 })

static void
put_accumulators (Rows *r, uint64_t members)
{
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m)) {
      const char *w = fold_work (r, m);
      nv_need_fold (r->pt.u, loop_member (&r->l, m)->op, w);
      put (r->t, "  E_%s a%u = init_%s_%s ();\n", w, m, gramme_op_facts (loop_member (&r->l, m)->op).name, w);
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
      put (r->t, "#pragma unroll\n  for (int d = %d; d > 0; d /= 2)\n    a%u = %s (a%u, down_%s (a%u, d));\n", (r->threads < 32 ? r->threads : 32) / 2, m,
           FOLD (r, m), m, w, m);
      if (r->threads == 32)
        put (r->t, "  a%u = from_%s (a%u, 0);\n", m, w, m);
      else if (r->threads < 32)
        put (r->t, "  a%u = from_%s (a%u, (int) (GM_THREAD %% 32) - tid);\n", m, w, m);
      else
        put (r->t, "  GM_SHARED E_%s s%u[%d];\n  if (tid %% 32 == 0)\n    s%u[tid / 32] = a%u;\n", w, m, r->threads / 32, m, m);
    }
  if (r->threads <= 32)
    return;
  put (r->t, "  GM_BARRIER ();\n");
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m))
      put (r->t,
           "  a%u = s%u[tid %% %d];\n#pragma unroll\n  for (int d = %d; d > 0; d /= 2)\n    a%u = %s (a%u, down_%s (a%u, d));\n"
           "  a%u = from_%s (a%u, 0);\n",
           m, m, r->threads / 32, r->threads / 64, m, FOLD (r, m), m, fold_work (r, m), m, m, fold_work (r, m), m);
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

/* -- Estimates --------------------------------------------------------------------------------------- */

/* Is member m multiplied or divided there? */
static bool
scales (const Rows *r, uint32_t reader, uint32_t m)
{
  const GrammeNode *n = loop_member (&r->l, reader);
  return (n->op == GRAMME_OP_mul || n->op == GRAMME_OP_div) && gramme_node_in (r->l.p->image, n, 0) == loop_member (&r->l, m)->out;
}

/* Exponentials of f32 that are summed and scaled, no more: a softmax.  Its bits are not the CPU's anyway, for the order of the sum. */
static uint64_t
find_exponentials (const Rows *r)
{
  uint64_t found = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++) {
    const GrammeNode *n = loop_member (&r->l, m);
    bool sums = false, good = n->op == GRAMME_OP_exp && r->l.p->values[n->out].dtype == GRAMME_DTYPE_F32 && !is_stored (r, m);
    for (uint32_t reader = 0; good && reader < r->l.s->n_members; reader++)
      if (nv_point_is_read (&r->pt, reader, m)) {
        bool is_sum = loop_member (&r->l, reader)->op == GRAMME_OP_sum;
        sums = sums || is_sum;
        good = is_sum || scales (r, reader, m);
      }
    found |= good && sums ? bit (m) : 0;
  }
  return found;
}

static bool
stores_halves_alone (const Rows *r)
{
  for (uint32_t m = 0; m < r->l.s->n_members; m++) {
    uint32_t dtype = r->l.p->values[loop_member (&r->l, m)->out].dtype;
    if (is_stored (r, m) && dtype != GRAMME_DTYPE_F16 && dtype != GRAMME_DTYPE_BF16)
      return false;
  }
  return true;
}

/* The node of a member of this op that makes m's operand i; NULL: that is something else. */
static const GrammeNode *
maker (const Rows *r, const GrammeNode *n, uint32_t i, uint32_t op)
{
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (loop_member (&r->l, m)->out == gramme_node_in (r->l.p->image, n, i) && loop_member (&r->l, m)->op == op)
      return loop_member (&r->l, m);
  return NULL;
}

/* Is exponential m of what is less than the largest of the same? */
static bool
is_below_top (const Rows *r, uint32_t m)
{
  const GrammeNode *less = maker (r, loop_member (&r->l, m), 0, GRAMME_OP_sub), *top = less ? maker (r, less, 1, GRAMME_OP_amax) : NULL;
  return top && gramme_node_in (r->l.p->image, top, 0) == gramme_node_in (r->l.p->image, less, 0);
}

/* Is n, or its divisor, the sum of such exponentials, and what is divided one of them? */
static bool
is_of_exponentials (const Rows *r, const GrammeNode *n, uint64_t exponentials)
{
  bool divides = n->op == GRAMME_OP_div;
  const GrammeNode *sum = divides || n->op == GRAMME_OP_reciprocal ? maker (r, n, n->n_in - 1, GRAMME_OP_sum) : NULL;
  for (uint32_t m = 0; sum && m < r->l.s->n_members; m++)
    if (exponentials & bit (m) && loop_member (&r->l, m)->out == gramme_node_in (r->l.p->image, sum, 0))
      return !divides || loop_member (&r->l, m)->out == gramme_node_in (r->l.p->image, n, 0);
  return false;
}

/* Where all that leaves the kernel is halves, estimates that are off by 2^-22 near the largest are as good.  Else it is what is no subnormal
 * number that counts beside the largest, which is 1. */
static void
find_softmax (Rows *r)
{
  uint64_t all = find_exponentials (r), below = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    below |= all & bit (m) && is_below_top (r, m) ? bit (m) : 0;
  r->pt.near = stores_halves_alone (r) ? all : 0;
  r->pt.below = below & ~r->pt.near;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    r->pt.tame |= is_of_exponentials (r, loop_member (&r->l, m), below) ? bit (m) : 0;
}

/* -- What is kept ---------------------------------------------------------------------------------- */

/* About how many instructions member m is, with what it is made of. */
static int
cost_of (Rows *r, uint32_t m, const int *costs)
{
  const GrammeNode *n = loop_member (&r->l, m);
  int cost = 8, which;
  switch (n->op) {
  case GRAMME_OP_add: case GRAMME_OP_sub: case GRAMME_OP_mul: case GRAMME_OP_neg: case GRAMME_OP_abs: case GRAMME_OP_square:
  case GRAMME_OP_copy: case GRAMME_OP_where: case GRAMME_OP_eq: case GRAMME_OP_ne: case GRAMME_OP_lt: case GRAMME_OP_le:
  case GRAMME_OP_gt: case GRAMME_OP_ge: case GRAMME_OP_logical_not:
    cost = 1 + nv_rounds (r->pt.u, n);
    break;
  case GRAMME_OP_cast: {
    uint32_t from = r->l.p->values[gramme_node_in (r->l.p->image, n, 0)].dtype, to = r->l.p->values[n->out].dtype;
    bool f32 = from == GRAMME_DTYPE_F32 || to == GRAMME_DTYPE_F32;
    if (f32 && (nv_rounds (r->pt.u, n) || strcmp (nv_work (from), nv_work (to)) == 0))
      cost = 1;
    break;
  }
  default:
    cost = r->pt.near & bit (m) ? 2 : r->pt.tame & bit (m) ? 3 : cost;
    break;
  }
  for (uint32_t i = 0; i < n->n_in; i++)
    if (loop_operand (&r->l, m, gramme_node_in (r->l.p->image, n, i), &which) == FROM_TILE && !(r->crossing & bit ((uint32_t) which)))
      cost += costs[which];
  return cost;
}

/* Members that later phases read and that are not made again there. */
static void
find_crossing (Rows *r)
{
  int costs[CG_MAX_MEMBERS] = { 0 };
  r->crossing = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++) {
    if (loop_is_row (&r->l, m))
      continue;
    costs[m] = cost_of (r, m, costs);
    if (loop_crosses (&r->l, m) && costs[m] > (r->threads >= 1024 && r->pt.pairs ? CHEAP_OF_WIDE : CHEAP))
      r->crossing |= bit (m);
  }
}

/* What is computed at every point in a phase, and what is there from earlier ones. */
static NvPass
pass_of (Rows *r, int phase)
{
  NvPass pass = { .stores = full_stores (r, phase), .folds = folds (r, phase) };
  for (uint32_t m = 0; r->keeps && m < r->l.s->n_members; m++)
    if (r->crossing & bit (m)) {
      pass.keep |= r->l.phases[m] == phase ? bit (m) : 0;
      pass.kept |= r->l.phases[m] < phase ? bit (m) : 0;
    }
  pass.compute = nv_point_closure (&r->pt, pass.stores | pass.folds | pass.keep, pass.kept);
  return pass;
}

static bool
uses_kept (Rows *r, const NvPass *pass, uint32_t m)
{
  for (uint32_t reader = 0; reader < r->l.s->n_members; reader++) {
    const GrammeNode *n = loop_member (&r->l, reader);
    int which;
    for (uint32_t i = 0; pass->compute >> reader & 1 && i < n->n_in; i++)
      if (loop_operand (&r->l, reader, gramme_node_in (r->l.p->image, n, i), &which) == FROM_TILE && which == (int) m)
        return true;
  }
  return pass->stores >> m & 1;
}

static uint32_t
bytes_of_member (const Rows *r, uint32_t m)
{
  return r->l.p->values[loop_member (&r->l, m)->out].elem_bytes;
}

/* Registers of what goes from some phase to the next, where that is most.  Marks the accesses to hold if `holds`. */
static int64_t
count_kept (Rows *r, bool holds)
{
  int64_t live[CG_MAX_MEMBERS + 1] = { 0 }, most = 0, elements = r->steps * r->pt.lanes;
  NvPass passes[CG_MAX_MEMBERS + 1];
  for (int phase = 0; phase < r->l.n_phases; phase++)
    passes[phase] = pass_of (r, phase);
  for (uint32_t k = 0; k < r->l.n_access; k++) {
    const Access *a = &r->l.access[k];
    int first = -1, last = -1;
    r->pt.held[k] = 0;
    for (int phase = 0; phase < r->l.n_phases; phase++)
      if (!a->store && !a->as_row && a->inner != 0 && r->pt.form[k] != NV_COUNTED && nv_point_reads (&r->pt, passes[phase].compute | passes[phase].folds, k)) {
        first = first < 0 ? phase : first;
        last = phase;
      }
    if (!holds || first == last)
      continue;
    r->pt.held[k] = NV_HOLD;
    r->first[k] = first;
    r->last[k] = last;
    int64_t bytes = r->l.p->values[a->value].elem_bytes;
    for (int phase = first; phase < last; phase++)
      live[phase] += (r->pt.form[k] == NV_VECTOR ? (elements * bytes + 3) / 4 : elements * ((bytes + 3) / 4)) + r->end_steps * ((bytes + 3) / 4);
  }
  for (uint32_t m = 0; m < r->l.s->n_members; m++) {
    int last = r->l.phases[m];
    for (int phase = last; r->crossing & bit (m) && phase < r->l.n_phases; phase++)
      if (phase > r->l.phases[m] && uses_kept (r, &passes[phase], m))
        last = phase;
    for (int phase = r->l.phases[m]; phase < last; phase++)
      live[phase] += nv_point_is_paired (&r->pt, m) ? elements / 2 + r->end_steps : (elements + r->end_steps) * (bytes_of_member (r, m) > 4 ? 2 : 1);
  }
  for (int phase = 0; phase < r->l.n_phases; phase++)
    most = live[phase] > most ? live[phase] : most;
  return most;
}

/* Is access k in registers before this pass, which reads it? */
static bool
reads_held (Rows *r, const NvPass *pass, int phase, uint32_t k)
{
  return r->pt.held[k] && r->first[k] < phase && nv_point_reads (&r->pt, pass->compute | pass->folds, k);
}

/* Does this pass read memory?  Then it begins to read all at once. */
static bool
reads_memory (Rows *r, const NvPass *pass, int phase)
{
  for (uint32_t k = 0; k < r->l.n_access; k++) {
    const Access *a = &r->l.access[k];
    if (!a->store && !a->as_row && a->inner != 0 && r->pt.form[k] != NV_COUNTED && !(r->pt.held[k] && r->first[k] < phase)
        && nv_point_reads (&r->pt, pass->compute | pass->folds, k))
      return true;
  }
  return false;
}

/* What this pass keeps takes the registers of what it reads for the last time. */
static void
find_onto (Rows *r, const NvPass *pass, int phase)
{
  for (uint32_t k = 0; k < r->l.n_access; k++) {
    uint32_t m = 0;
    if (!reads_held (r, pass, phase, k) || r->last[k] != phase || r->pt.form[k] != NV_VECTOR || r->pt.pairs
        || r->l.p->values[r->l.access[k].value].dtype != GRAMME_DTYPE_F32)
      continue;
    while (m < r->l.s->n_members
           && (!(pass->keep & bit (m)) || r->pt.onto[m] || r->l.p->values[loop_member (&r->l, m)->out].dtype != GRAMME_DTYPE_F32))
      m++;
    if (m < r->l.s->n_members)
      r->pt.onto[m] = (uint8_t) (k + 1);
  }
}

/* Registers of all that is held or kept, whichever phase it is for. */
static int64_t
count_all (const Rows *r)
{
  int64_t all = 0, elements = r->steps * r->pt.lanes;
  for (uint32_t k = 0; k < r->l.n_access; k++) {
    int64_t bytes = r->l.p->values[r->l.access[k].value].elem_bytes;
    all += !r->pt.held[k] ? 0 : r->pt.form[k] == NV_VECTOR ? (elements * bytes + 3) / 4 : elements * ((bytes + 3) / 4);
  }
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (r->crossing & bit (m) && !r->pt.onto[m])
      all += nv_point_is_paired (&r->pt, m) ? elements / 2 : elements * (bytes_of_member (r, m) > 4 ? 2 : 1);
  return all;
}

/* A thread's steps are unrolled, as registers have no index.  Where that would be much text, a loop takes a part of them at a time, and what
 * it keeps goes round, so that the part is always in the same registers. */
static void
plan_turns (Rows *r, int phase, int64_t room)
{
  static const int alone[CG_MAX_MEMBERS]; /* zeros: what a member is made of is not counted with it */
  NvPass pass = pass_of (r, phase);
  int64_t work = 0, some = r->steps;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (pass.compute & bit (m) && !loop_is_row (&r->l, m))
      work += cost_of (r, m, alone) * r->pt.lanes;
  r->some[phase] = r->steps;
  if (r->threads < 1024 || work * some <= UNROLLED || reads_memory (r, &pass, phase))
    return;
  while (some > 1 && (work * some > TURN || r->steps % some))
    some--;
  find_onto (r, &pass, phase);
  if (count_all (r) <= room)
    r->some[phase] = some;
}

static void
plan_kept (Rows *r, bool number)
{
  int64_t room = r->threads >= 1024 ? KEPT_OF_1024 : KEPT_REGISTERS, stride = (int64_t) r->threads * r->pt.lanes;
  int64_t by_vectors = r->pt.peels ? r->l.n / r->pt.lanes * r->pt.lanes : r->l.n; /* most */
  r->steps = number ? (by_vectors + stride - 1) / stride : INT32_MAX;
  r->end_steps = r->pt.peels ? (2 * (r->pt.lanes - 1) + r->threads - 1) / r->threads : 0;
  r->keeps = r->steps <= 32;
  find_crossing (r);
  int64_t kept = r->keeps ? count_kept (r, true) : 0;
  r->pt.again = r->keeps && r->threads >= 1024 && r->pt.pairs && kept <= KEPT_OF_TWO;
  if (r->keeps && kept > room)
    r->keeps = count_kept (r, false) <= room;
  if (!r->keeps)
    memset (r->pt.held, 0, sizeof r->pt.held);
  for (int phase = 0; r->keeps && phase < r->l.n_phases; phase++)
    plan_turns (r, phase, room);
}

/* -- One kernel for all phases ---------------------------------------------------------------------- */

/* Is a warp at several rows?  Then all of it goes on where some rows are none: they are not `live`. */
static bool
shares_warp (const Rows *r)
{
  return r->threads > 1 && r->threads < 32;
}

/* The beginning of a loop over a thread's steps, `some` of them at a time; those in the middle lie inside of the row. */
static void
put_steps (Rows *r, int64_t some)
{
  int64_t stride = (int64_t) r->threads * r->pt.lanes, fewest = r->pt.peels ? r->l.n - (r->pt.lanes - 1) : r->l.n;
  const char *step = some < r->steps ? "(turn + j)" : "j";
  if (some < r->steps)
    put (r->t, "#pragma unroll 1\n  for (int turn = 0; turn < %lld; turn += %lld) {\n", (long long) r->steps, (long long) some);
  put (r->t, "#pragma unroll\n  for (int j = 0; j < %lld; j++) {\n    const gm_index e = %s(gm_index) (%s * %d + tid) * %d;\n", (long long) some,
       r->pt.peels ? "first + " : "", step, r->threads, r->pt.lanes);
  if (r->pt.peels || r->steps * stride != r->l.n)
    put (r->t, "    if (%s < %lld || e < %s) {\n", step, (long long) (fewest / stride), r->pt.peels ? "end" : NVZ (r->pt.u, r->l.n));
  else
    put (r->t, "    {\n");
}

static void
put_round (Rows *r, uint32_t k, int64_t by)
{
  const char *elem = nv_elem (r->l.p->values[r->l.access[k].value].dtype);
  long long n = r->steps, lanes = r->pt.lanes;
  if (r->pt.form[k] == NV_VECTOR)
    put (r->t, "  GM_GO_ROUND (V%d_%s, w%u, %lld, %lld);\n", r->pt.lanes, elem, k, n, (long long) by);
  else
    put (r->t, "  GM_GO_ROUND (E_%s, w%u, %lld, %lld);\n", elem, k, n * lanes, (long long) by * lanes);
}

/* The end of a turn: the next ones come to the front. */
static void
put_turn_end (Rows *r, const NvPass *pass, int phase)
{
  long long n = r->steps, by = r->some[phase], lanes = r->pt.lanes;
  for (uint32_t k = 0; k < r->l.n_access; k++)
    if (reads_held (r, pass, phase, k))
      put_round (r, k, by);
  for (uint32_t m = 0; m < r->l.s->n_members; m++) {
    bool kept = pass->kept & bit (m) && uses_kept (r, pass, m);
    if (r->pt.onto[m] && kept)
      put_round (r, r->pt.onto[m] - 1u, by);
    else if (!r->pt.onto[m] && (kept || pass->keep & bit (m)) && nv_point_is_paired (&r->pt, m))
      put (r->t, "  GM_GO_ROUND (gm_u32, c%u, %lld, %lld);\n", m, n * lanes / 2, by * lanes / 2);
    else if (!r->pt.onto[m] && (kept || pass->keep & bit (m)))
      put (r->t, "  GM_GO_ROUND (E_%s, c%u, %lld, %lld);\n", nv_work (r->l.p->values[loop_member (&r->l, m)->out].dtype), m, n * lanes, by * lanes);
  }
  put (r->t, "  }\n");
}

/* The same for the ends: those before come first. */
static void
put_end_steps (Rows *r)
{
  put (r->t,
       "#pragma unroll\n  for (int j = 0; j < %d; j++) {\n    const gm_index at = (gm_index) (j * %d + tid), e = at < first ? at : end - first + at;\n"
       "    if (at < ends) {\n",
       r->end_steps, r->threads);
}

/* Before what may go round a part of the loads, all that are held are begun. */
static void
put_holds (Rows *r, const NvPass *pass, const NvPass *of_ends)
{
  bool goes_round = r->pt.peels || r->steps * r->threads * r->pt.lanes != r->l.n;
  if (!goes_round || !nv_point_holds (&r->pt, pass))
    return;
  put_steps (r, r->steps);
  nv_point_hold (&r->pt, pass);
  put (r->t, "    }\n  }\n");
  if (r->pt.peels) {
    put_end_steps (r);
    nv_point_hold (&r->ends, of_ends);
    put (r->t, "    }\n  }\n");
  }
}

static void
put_elements (Rows *r, int phase)
{
  NvPass pass = pass_of (r, phase), of_ends = pass;
  int lanes = r->pt.lanes;
  char index[48];
  if (!(pass.stores | pass.folds | pass.keep))
    return;
  snprintf (index, sizeof index, "j * %d", lanes);
  pass.index = index;
  of_ends.index = pass.step = of_ends.step = "j";
  if (shares_warp (r))
    put (r->t, "  if (live) {\n");
  if (r->keeps) {
    put_holds (r, &pass, &of_ends);
    put_steps (r, r->some[phase]);
    nv_point_pass (&r->pt, &pass);
    put (r->t, "    }\n  }\n");
    if (r->some[phase] < r->steps)
      put_turn_end (r, &pass, phase);
  } else {
    put (r->t, "  for (gm_index e = %s(gm_index) tid * %d; e < %s; e += %lld) {\n", r->pt.peels ? "first + " : "", lanes,
         r->pt.peels ? "end" : NVZ (r->pt.u, r->l.n), (long long) r->threads * lanes);
    nv_point_pass (&r->pt, &pass);
    put (r->t, "  }\n");
  }
  if (r->pt.peels) {
    put_end_steps (r);
    nv_point_pass (&r->ends, &of_ends);
    put (r->t, "    }\n  }\n");
  }
  if (shares_warp (r))
    put (r->t, "  }\n");
}

static void
put_kept (Rows *r)
{
  for (uint32_t k = 0; k < r->l.n_access; k++) {
    const char *elem = nv_elem (r->l.p->values[r->l.access[k].value].dtype);
    if (r->pt.held[k] && r->pt.form[k] == NV_VECTOR)
      put (r->t, "  V%d_%s w%u[%lld];\n", r->pt.lanes, elem, k, (long long) r->steps);
    else if (r->pt.held[k])
      put (r->t, "  E_%s w%u[%lld];\n", elem, k, (long long) r->steps * r->pt.lanes);
    if (r->pt.held[k] && r->pt.peels)
      put (r->t, "  E_%s t%u[%d];\n", elem, k, r->end_steps);
  }
  for (uint32_t m = 0; r->keeps && m < r->l.s->n_members; m++)
    if (r->crossing & bit (m)) {
      const char *work = nv_work (r->l.p->values[loop_member (&r->l, m)->out].dtype);
      int64_t elements = r->steps * r->pt.lanes;
      if (nv_point_is_paired (&r->pt, m))
        put (r->t, "  gm_u32 c%u[%lld];\n", m, (long long) elements / 2);
      else if (!r->pt.onto[m])
        put (r->t, "  E_%s c%u[%lld];\n", work, m, (long long) elements);
      if (r->pt.peels)
        put (r->t, "  E_%s g%u[%d];\n", work, m, r->end_steps);
    }
}

static void
print_whole (Rows *r, NvUnit *u, int64_t n_rows)
{
  char label[64];
  int block = r->threads > 32 ? r->threads : WARPS_BLOCK, per_block = block / r->threads;
  nv_point_label (&r->l, label, sizeof label);
  r->t = nv_begin (u, label, (uint32_t) block, (int32_t) r->l.members[0]);
  u->k.beside = r->pt.again ? 2 : 0;
  CgSizes *sizes = u->p->sizes;
  int stride = r->threads * r->pt.lanes;
  nv_point_reach (u, &r->l, codegen_size_mul (sizes, codegen_size_add (sizes, n_rows, per_block), stride));
  nv_reach (u, codegen_size_add (sizes, r->l.n, stride));
  if (per_block == 1)
    put (r->t, "  const gm_index row = GM_BLOCK;\n  const int tid = (int) GM_THREAD;\n");
  else
    put (r->t,
         "  const gm_index row%s = (gm_index) GM_BLOCK * %d + GM_THREAD / %d;\n  const int tid = (int) (GM_THREAD %% %d);\n",
         shares_warp (r) ? "_" : "", per_block, r->threads, r->threads);
  if (shares_warp (r))
    put (r->t, "  const int live = row_ < %s;\n  const gm_index row = live ? row_ : %s - 1;\n", NVZ (u, n_rows), NVZ (u, n_rows));
  else if (per_block > 1)
    put (r->t, "  if (row >= %s)\n    return;\n", NVZ (u, n_rows));
  nv_point_head (&r->pt, r->t, "row");
  r->ends = nv_point_ends (&r->pt);
  put_kept (r);
  for (int phase = 0; phase < r->l.n_phases; phase++) {
    uint64_t f = folds (r, phase);
    put_row_members (r, phase);
    put_accumulators (r, f);
    put_elements (r, phase);
    put_combine (r, f);
    put_results (r, f);
    put_row_stores (r, row_members (r, phase) | f, shares_warp (r) ? "live && tid == 0" : "tid == 0");
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

/* bytes: of an element of the widest memory that is read at every point. */
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
bytes_read (const Loop *l)
{
  uint32_t most = 1;
  for (uint32_t k = 0; k < l->n_access; k++) {
    uint32_t bytes = l->p->values[l->access[k].value].elem_bytes;
    if (!l->access[k].store && !l->access[k].as_row && l->access[k].inner == 1 && bytes > most)
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
  r.threads = threads_for (r.l.n, bytes_read (&r.l));
  bool number = !codegen_is_symbolic (r.l.n);
  while (number && limit > 1 && (int64_t) limit * r.threads > r.l.n)
    limit /= 2;
  nv_point_init (&r.pt, u, &r.l, limit, false);
  if (number && r.l.n >= SPLIT_FROM && !codegen_is_symbolic (n_rows) && n_rows <= SPLIT_ROWS) {
    print_split (&r, u, n_rows);
    return;
  }
  if (r.threads > 1)
    nv_point_peel (&r.pt, limit);
  if (r.pt.peels && r.threads == 64)
    r.threads = 32; /* such rows take long as it is: without a barrier */
  find_softmax (&r);
  plan_kept (&r, number);
  print_whole (&r, u, n_rows);
}
