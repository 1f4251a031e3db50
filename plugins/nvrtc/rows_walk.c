/* SPDX-License-Identifier: Apache-2.0
 * rows_walk.c -- the walk of a thread through its steps of a row, phase by phase.
 *
 * A GPU overlaps unrolled steps best, but the compiler's time grows with the text.  Where all
 * phases together would exceed BUDGET, the longest ones become loops: over turns of a few steps, at
 * whose end the kept registers are rotated, so that the turn's part is always in the same ones; or
 * over stretches, where nothing is kept.
 */
#include "plugins/nvrtc/rows_parts.h"

#define BUDGET 760   /* instructions; estimates of their parts follow: */
#define OF_PHASE 110 /* for each phase, without its elements: combining the threads, */
#define OF_LOOP 60   /* for each loop around turns, */
#define OF_BRANCH 6  /* for each step that may lie outside of its row, */
#define OF_VECTOR 6  /* for each access of a vector, */
#define OF_ELEMENT 5 /* for each single element, */
/* instructions for each op that nv_rows_cost only knows as costly: a compiler takes long for
 * functions. */
#define OF_COSTLY 18
#define COSTLY 8
#define TURN 192      /* instructions of a turn, where it is short enough */
#define FEW_STEPS 8   /* steps at a time where nothing is kept */
#define ON_ITS_WAY 32 /* bytes that each of 1024 threads reads at once */
#define ALONE 4       /* elements that are read at once, where there are no vectors */

/* -- The amount of text ------------------------------------------------------------------------ */

static bool
reads (Rows *r, const NvPass *pass, uint32_t k)
{
  const Access *a = &r->l.access[k];
  return !a->store && !a->as_row && a->inner != 0
         && nv_point_reads (&r->pt, pass->compute | pass->folds, k);
}

/* Estimates the instructions of a step, and of a step over the ends of a row. */
static void
count_step (Rows *r, const NvPass *pass, int64_t *step, int64_t *end)
{
  int64_t members = 0, vectors = 0, elements = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++) {
    int cost = pass->compute & bit (m) && !loop_is_row (&r->l, m) ? nv_rows_cost (r, m) : 0;
    members += (cost < COSTLY ? cost : OF_COSTLY) + (pass->folds & bit (m) ? 1 : 0);
    if (pass->stores & bit (m))
      *(r->pt.form[loop_access (&r->l, loop_member (&r->l, m)->out, false, true)] == NV_VECTOR
            ? &vectors
            : &elements) += 1;
  }
  for (uint32_t k = 0; k < r->l.n_access; k++)
    if (reads (r, pass, k) && !r->pt.held[k])
      *(r->pt.form[k] == NV_VECTOR ? &vectors : &elements) += 1;
  *step = (members + elements * OF_ELEMENT) * r->pt.lanes + vectors * OF_VECTOR
          + (r->pt.peels ? OF_BRANCH : 0);
  *end = r->pt.peels ? members + (elements + vectors) * OF_ELEMENT + OF_BRANCH : 0;
}

/* -- Turns ------------------------------------------------------------------------------------- */

/* Lets values that this pass keeps use the registers of accesses that it reads for the last
 * time. */
static void
find_onto (Rows *r, const NvPass *pass, int phase)
{
  for (uint32_t k = 0; k < r->l.n_access; k++) {
    uint32_t m = 0;
    if (!nv_rows_reads_held (r, pass, k) || r->first[k] == phase || r->last[k] != phase
        || r->pt.form[k] != NV_VECTOR || r->pt.pairs
        || r->l.p->values[r->l.access[k].value].dtype != GRAMME_DTYPE_F32)
      continue;
    while (m < r->l.s->n_members
           && (!(pass->keep & bit (m)) || r->pt.onto[m]
               || r->l.p->values[loop_member (&r->l, m)->out].dtype != GRAMME_DTYPE_F32))
      m++;
    if (m < r->l.s->n_members)
      r->pt.onto[m] = (uint8_t) (k + 1);
  }
}

static int64_t
of_access (const Rows *r, uint32_t k)
{
  int64_t bytes = r->l.p->values[r->l.access[k].value].elem_bytes,
          elements = r->steps * r->pt.lanes;
  return r->pt.form[k] == NV_VECTOR ? (elements * bytes + 3) / 4 : elements * ((bytes + 3) / 4);
}

static int64_t
of_member (const Rows *r, uint32_t m)
{
  int64_t elements = r->steps * r->pt.lanes;
  return nv_point_is_paired (&r->pt, m) ? elements / 2
                                        : elements * (nv_rows_bytes (r, m) > 4 ? 2 : 1);
}

/* Returns the registers of all held or kept values, for all phases. */
static int64_t
count_all (const Rows *r)
{
  int64_t all = 0;
  for (uint32_t k = 0; k < r->l.n_access; k++)
    all += r->pt.held[k] ? of_access (r, k) : 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    all += r->crossing & bit (m) && !r->pt.onto[m] ? of_member (r, m) : 0;
  return all;
}

/* Returns the registers that this pass shares with another one. */
static int64_t
count_registers (Rows *r, const NvPass *pass)
{
  int64_t all = 0;
  for (uint32_t k = 0; k < r->l.n_access; k++)
    all += nv_rows_reads_held (r, pass, k) ? of_access (r, k) : 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    all += pass->keep & bit (m) || (pass->kept & bit (m) && nv_rows_uses_kept (r, pass, m))
               ? of_member (r, m)
               : 0;
  return all;
}

/* -- Memory requests in flight ----------------------------------------------------------------- */

/* Returns the bytes of vectors that a step reads, without those that are held. */
static uint32_t
count_bytes (Rows *r, const NvPass *pass)
{
  uint32_t bytes = 0;
  for (uint32_t k = 0; k < r->l.n_access; k++)
    if (reads (r, pass, k) && r->pt.form[k] == NV_VECTOR && !r->pt.held[k])
      bytes += r->l.p->values[r->l.access[k].value].elem_bytes * (uint32_t) r->pt.lanes;
  return bytes;
}

/* Returns the number of steps that have to read at once to keep enough memory requests in flight: a
 * multiprocessor has room for one block of 1024 threads, or for 2048 threads of smaller blocks. */
static int
at_once (const Rows *r, uint32_t bytes)
{
  return bytes >= ON_ITS_WAY || r->threads < 1024 ? 1 : 2;
}

/* -- The plan ---------------------------------------------------------------------------------- */

typedef struct {
  NvPass pass;
  int64_t step;      /* instructions of a step */
  int64_t registers; /* registers that are rotated */
  int64_t least;     /* steps of a turn, at least */
} Phase;

static int64_t
count_walk (const Rows *r, const Phase *phase, NvWalk walk)
{
  return phase->step * (walk.turn ? walk.turn : 1)
         + (walk.turn && walk.turn < r->steps ? phase->registers + OF_LOOP : 0);
}

/* Returns the next shorter walk of a phase; the same if there is none. */
static NvWalk
shorter (const Rows *r, const Phase *phase, NvWalk walk)
{
  /* Rotating takes time: try large turns first. */
  int64_t most = walk.turn < r->steps ? 1 : r->steps / 4;
  if (walk.turn <= 1)
    return walk;
  if (phase->registers == 0)
    return (NvWalk){ 0, walk.stretch };
  most = most > phase->least ? most : phase->least;
  while (most > phase->least && (phase->step * most > TURN || r->steps % most))
    most--;
  return r->steps % most == 0 && most < walk.turn ? (NvWalk){ most, walk.stretch } : walk;
}

/* Replaces the walk of one phase by the next shorter one, where that saves most. False: none can be
 * shortened. */
static bool
shorten (Rows *r, Phase *phases)
{
  int64_t most = 0;
  int best = -1;
  for (int i = 0; i < r->l.n_phases; i++) {
    int64_t saved = count_walk (r, &phases[i], r->walk[i])
                    - count_walk (r, &phases[i], shorter (r, &phases[i], r->walk[i]));
    if (saved > most) {
      most = saved;
      best = i;
    }
  }
  if (best < 0)
    return false;
  NvWalk less = shorter (r, &phases[best], r->walk[best]);
  if (less.turn && r->walk[best].turn == r->steps)
    find_onto (r, &phases[best].pass, best);
  if (!less.turn || count_all (r) <= nv_rows_room (r))
    r->walk[best] = less;
  else
    phases[best].registers = INT32_MAX; /* there are not enough registers for this */
  return true;
}

void
nv_rows_plan_walk (Rows *r)
{
  Phase phases[CG_MAX_MEMBERS + 1] = { 0 };
  int64_t fixed = 0, all;
  for (int i = 0; i < r->l.n_phases; i++) {
    int64_t end;
    phases[i].pass = nv_rows_pass (r, i);
    count_step (r, &phases[i].pass, &phases[i].step, &end);
    phases[i].registers = count_registers (r, &phases[i].pass);
    fixed += OF_PHASE + end * r->end_steps;
    uint32_t bytes = count_bytes (r, &phases[i].pass);
    phases[i].least = bytes ? at_once (r, bytes) : 1;
    bool in_stretches = !r->keeps || (phases[i].registers == 0 && r->steps > FEW_STEPS);
    r->walk[i] = (NvWalk){ in_stretches ? 0 : r->steps, bytes ? at_once (r, bytes) : ALONE };
  }
  do {
    all = fixed;
    for (int i = 0; i < r->l.n_phases; i++)
      all += count_walk (r, &phases[i], r->walk[i]);
  } while (r->keeps && all > BUDGET && shorten (r, phases));
}
