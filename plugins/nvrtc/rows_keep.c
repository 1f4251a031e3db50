/* SPDX-License-Identifier: Apache-2.0
 * rows_keep.c -- values that a thread keeps in registers from one phase of a row to the next.
 *
 * Values that later phases read at every point are kept where there are enough registers:
 * unconverted memory, and members that cost more than a few instructions.  Others are computed
 * again from memory, with the same bits.
 */
#include "plugins/nvrtc/rows_parts.h"

#define KEPT_REGISTERS 64 /* registers of a thread for values that cross phases */
/* KEPT_REGISTERS for blocks of 1024 threads, each of which has 64 registers. */
#define KEPT_OF_1024 40
#define CHEAP 3 /* instructions: members that cost more are kept, not recomputed */
/* CHEAP for blocks with two elements for each of 1024 threads' registers, in which kept values
 * would be twice as wide. */
#define CHEAP_OF_WIDE 4
/* KEPT_REGISTERS where two blocks of 1024 threads share a multiprocessor, and each thread has 32
 * registers. */
#define KEPT_OF_TWO 18

int64_t
nv_rows_room (const Rows *r)
{
  return r->threads >= 1024 ? KEPT_OF_1024 : KEPT_REGISTERS;
}

int
nv_rows_cost (Rows *r, uint32_t m)
{
  const GrammeNode *n = loop_member (&r->l, m);
  int cost = 8;
  switch (n->op) {
  case GRAMME_OP_add:
  case GRAMME_OP_sub:
  case GRAMME_OP_mul:
  case GRAMME_OP_neg:
  case GRAMME_OP_abs:
  case GRAMME_OP_square:
  case GRAMME_OP_copy:
  case GRAMME_OP_where:
  case GRAMME_OP_eq:
  case GRAMME_OP_ne:
  case GRAMME_OP_lt:
  case GRAMME_OP_le:
  case GRAMME_OP_gt:
  case GRAMME_OP_ge:
  case GRAMME_OP_logical_not:
    cost = 1 + nv_rounds (r->pt.u, n);
    break;
  case GRAMME_OP_cast: {
    uint32_t from = r->l.p->values[gramme_node_in (r->l.p->image, n, 0)].dtype,
             to = r->l.p->values[n->out].dtype;
    bool f32 = from == GRAMME_DTYPE_F32 || to == GRAMME_DTYPE_F32;
    if (f32 && (nv_rounds (r->pt.u, n) || strcmp (nv_work (from), nv_work (to)) == 0))
      cost = 1;
    break;
  }
  default:
    cost = r->pt.near & bit (m) ? 2 : r->pt.tame & bit (m) ? 3 : cost;
    break;
  }
  return cost;
}

/* Returns the cost of a member with that of its operands. */
static int
cost_of_all (Rows *r, uint32_t m, const int *costs)
{
  const GrammeNode *n = loop_member (&r->l, m);
  int cost = nv_rows_cost (r, m), which;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (loop_operand (&r->l, m, gramme_node_in (r->l.p->image, n, i), &which) == FROM_TILE
        && !(r->crossing & bit ((uint32_t) which)))
      cost += costs[which];
  return cost;
}

/* Finds the members that later phases read and do not recompute. */
static void
find_crossing (Rows *r)
{
  int costs[CG_MAX_MEMBERS] = { 0 };
  r->crossing = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++) {
    if (loop_is_row (&r->l, m))
      continue;
    costs[m] = cost_of_all (r, m, costs);
    if (loop_crosses (&r->l, m)
        && costs[m] > (r->threads >= 1024 && r->pt.pairs ? CHEAP_OF_WIDE : CHEAP))
      r->crossing |= bit (m);
  }
}

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
      if (loop_operand (&r->l, reader, gramme_node_in (r->l.p->image, n, i), &which) == FROM_TILE
          && which == (int) m)
        return true;
  }
  return pass->stores >> m & 1;
}

uint32_t
nv_rows_bytes (const Rows *r, uint32_t m)
{
  return r->l.p->values[loop_member (&r->l, m)->out].elem_bytes;
}

/* Returns the number of registers of a thread that are kept from one phase to the next, at the
 * phase that keeps most.  Sets r->pt.held anew: if `holds`, accesses that more than one phase reads
 * are marked NV_HOLD and counted, with their first and last phase in r->first and r->last. */
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
      if (!a->store && !a->as_row && a->inner != 0 && r->pt.form[k] != NV_COUNTED
          && nv_point_reads (&r->pt, passes[phase].compute | passes[phase].folds, k)) {
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
      live[phase] +=
          (r->pt.form[k] == NV_VECTOR ? (elements * bytes + 3) / 4 : elements * ((bytes + 3) / 4))
          + r->end_steps * ((bytes + 3) / 4);
  }
  for (uint32_t m = 0; m < r->l.s->n_members; m++) {
    int last = r->l.phases[m];
    for (int phase = last; r->crossing & bit (m) && phase < r->l.n_phases; phase++)
      if (phase > r->l.phases[m] && nv_rows_uses_kept (r, &passes[phase], m))
        last = phase;
    for (int phase = r->l.phases[m]; phase < last; phase++)
      live[phase] += nv_point_is_paired (&r->pt, m)
                         ? elements / 2 + r->end_steps
                         : (elements + r->end_steps) * (nv_rows_bytes (r, m) > 4 ? 2 : 1);
  }
  for (int phase = 0; phase < r->l.n_phases; phase++)
    most = live[phase] > most ? live[phase] : most;
  return most;
}

bool
nv_rows_reads_held (Rows *r, const NvPass *pass, uint32_t k)
{
  return r->pt.held[k] && nv_point_reads (&r->pt, pass->compute | pass->folds, k);
}

/* True if an access does not have the row's layout, so that it needs an address and a register for
 * each element. */
static bool
reads_one_by_one (const Rows *r)
{
  for (uint32_t k = 0; k < r->l.n_access; k++)
    if (!r->l.access[k].store && !r->l.access[k].as_row && r->pt.form[k] == NV_EACH)
      return true;
  return false;
}

void
nv_rows_plan_kept (Rows *r, bool number)
{
  int64_t room = nv_rows_room (r), stride = (int64_t) r->threads * r->pt.lanes;
  /* Number of elements processed as vectors. */
  int64_t by_vectors = r->pt.peels ? r->l.n / r->pt.lanes * r->pt.lanes : r->l.n;
  r->steps = number ? (by_vectors + stride - 1) / stride : INT32_MAX;
  r->end_steps = r->pt.peels ? (2 * (r->pt.lanes - 1) + r->threads - 1) / r->threads : 0;
  r->keeps = r->steps <= 32;
  find_crossing (r);
  int64_t kept = r->keeps ? count_kept (r, true) : 0;
  r->pt.again =
      r->keeps && r->threads >= 1024 && r->pt.pairs && kept <= KEPT_OF_TWO && !reads_one_by_one (r);
  if (r->keeps && kept > room)
    r->keeps = count_kept (r, false) <= room;
  if (!r->keeps)
    memset (r->pt.held, 0, sizeof r->pt.held);
}
