/* SPDX-License-Identifier: Apache-2.0
 * rows_keep.c -- what a thread keeps in registers from one phase of a row to the next.
 *
 * What later phases read at every point is kept, memory as it came and members that cost more than a few instructions, where there are
 * registers enough; else it is computed again from memory: the same bits.
 */
#include "plugins/nvrtc/rows_parts.h"

#define KEPT_REGISTERS 64  /* of a thread, for what crosses phases */
#define KEPT_OF_1024 40    /* of 1024 threads of a block each has 64 in all */
#define CHEAP 3            /* instructions: what costs more is kept, not done again */
#define CHEAP_OF_WIDE 4    /* where a block has two elements of each of its 1024 threads' registers, and what is kept would be twice as wide */
#define KEPT_OF_TWO 18     /* registers, where two blocks of 1024 threads share a multiprocessor, and each thread has 32 */
#define UNROLLED 168       /* instructions: more of one pass take a compiler too long, */
#define TURN 128           /* and a loop takes so many at a time */

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
NvPass
nv_rows_pass (Rows *r, int phase)
{
  NvPass pass = { .stores = nv_rows_full_stores (r, phase), .folds = nv_rows_folds (r, phase) };
  for (uint32_t m = 0; r->keeps && m < r->l.s->n_members; m++)
    if (r->crossing & bit (m)) {
      pass.keep |= r->l.phases[m] == phase ? bit (m) : 0;
      pass.kept |= r->l.phases[m] < phase ? bit (m) : 0;
    }
  pass.compute = nv_point_closure (&r->pt, pass.stores | pass.folds | pass.keep, pass.kept);
  return pass;
}

bool
nv_rows_uses_kept (Rows *r, const NvPass *pass, uint32_t m)
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
    passes[phase] = nv_rows_pass (r, phase);
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
      if (phase > r->l.phases[m] && nv_rows_uses_kept (r, &passes[phase], m))
        last = phase;
    for (int phase = r->l.phases[m]; phase < last; phase++)
      live[phase] += nv_point_is_paired (&r->pt, m) ? elements / 2 + r->end_steps : (elements + r->end_steps) * (bytes_of_member (r, m) > 4 ? 2 : 1);
  }
  for (int phase = 0; phase < r->l.n_phases; phase++)
    most = live[phase] > most ? live[phase] : most;
  return most;
}

/* Is access k in registers before this pass, which reads it? */
bool
nv_rows_reads_held (Rows *r, const NvPass *pass, int phase, uint32_t k)
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
    if (!nv_rows_reads_held (r, pass, phase, k) || r->last[k] != phase || r->pt.form[k] != NV_VECTOR || r->pt.pairs
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
  NvPass pass = nv_rows_pass (r, phase);
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

void
nv_rows_plan_kept (Rows *r, bool number)
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
