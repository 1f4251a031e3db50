/* SPDX-License-Identifier: Apache-2.0
 * rows_members.c -- the members of a phase, and members with one value per row: reductions and
 * values made from them.
 */
#include "plugins/nvrtc/rows_parts.h"

/* -- Selecting members ------------------------------------------------------------------------- */

bool
nv_rows_is_stored (const Rows *r, uint32_t m)
{
  return r->l.p->values[loop_member (&r->l, m)->out].stored;
}

/* Returns the members that are stored at every point, in this phase. */
uint64_t
nv_rows_full_stores (const Rows *r, int phase)
{
  uint64_t all = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (r->l.phases[m] == phase && !loop_is_row (&r->l, m) && nv_rows_is_stored (r, m))
      all |= bit (m);
  return all;
}

uint64_t
nv_rows_folds (const Rows *r, int phase)
{
  uint64_t all = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (r->l.phases[m] == phase && loop_is_fold (&r->l, m))
      all |= bit (m);
  return all;
}

/* Returns the row members that are not reductions. */
uint64_t
nv_rows_members (const Rows *r, int phase)
{
  uint64_t all = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (r->l.phases[m] == phase && loop_is_row (&r->l, m) && !loop_is_fold (&r->l, m))
      all |= bit (m);
  return all;
}

uint64_t
nv_rows_stored_of (const Rows *r, uint64_t members)
{
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (!nv_rows_is_stored (r, m))
      members &= ~bit (m);
  return members;
}

/* -- Reductions -------------------------------------------------------------------------------- */

const char *
nv_rows_fold_work (const Rows *r, uint32_t m)
{
  return nv_work (loop_accum_dtype (&r->l, m));
}

/* Returns the name of the folding function, for arguments of `put`. */
#define FOLD(r, m) nv_point_fold (&(r)->pt, (m), (char[64]){ 0 })

void
nv_rows_put_accumulators (Rows *r, uint64_t members)
{
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m)) {
      const char *w = nv_rows_fold_work (r, m);
      nv_need_fold (r->pt.u, loop_member (&r->l, m)->op, w);
      put (r->t, "  E_%s a%u = init_%s_%s ();\n", w, m,
           gramme_op_facts (loop_member (&r->l, m)->op).name, w);
    }
}

/* Prints the combination of all threads' a<m> into one value, in all threads of the row. */
void
nv_rows_put_combine (Rows *r, uint64_t members)
{
  bool any = members != 0;
  if (r->threads == 1 || !any)
    return;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m)) {
      const char *w = nv_rows_fold_work (r, m);
      put (r->t,
           "#pragma unroll\n  for (int d = %d; d > 0; d /= 2)\n    a%u = %s (a%u, down_%s (a%u, "
           "d));\n",
           (r->threads < 32 ? r->threads : 32) / 2, m, FOLD (r, m), m, w, m);
      if (r->threads == 32)
        put (r->t, "  a%u = from_%s (a%u, 0);\n", m, w, m);
      else if (r->threads < 32)
        put (r->t, "  a%u = from_%s (a%u, (int) (GM_THREAD %% 32) - tid);\n", m, w, m);
      else
        put (r->t, "  GM_SHARED E_%s s%u[%d];\n  if (tid %% 32 == 0)\n    s%u[tid / 32] = a%u;\n",
             w, m, r->threads / 32, m, m);
    }
  if (r->threads <= 32)
    return;
  put (r->t, "  GM_BARRIER ();\n");
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m))
      put (r->t,
           "  a%u = s%u[tid %% %d];\n#pragma unroll\n  for (int d = %d; d > 0; d /= 2)\n    a%u = "
           "%s (a%u, down_%s (a%u, d));\n"
           "  a%u = from_%s (a%u, 0);\n",
           m, m, r->threads / 32, r->threads / 64, m, FOLD (r, m), m, nv_rows_fold_work (r, m), m,
           m, nv_rows_fold_work (r, m), m);
}

/* Prints r<m> from a<m>. */
void
nv_rows_put_results (Rows *r, uint64_t members)
{
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m)) {
      uint32_t dtype = r->l.p->values[loop_member (&r->l, m)->out].dtype;
      if (loop_accum_dtype (&r->l, m) != dtype)
        put (r->t, "  const E_f32 r%u = rounded_%s (a%u);\n", m, nv_elem (dtype), m);
      else
        put (r->t, "  const E_%s r%u = a%u;\n", nv_work (dtype), m, m);
    }
}

void
nv_rows_put_stores (Rows *r, uint64_t members, const char *who)
{
  members = nv_rows_stored_of (r, members);
  if (!members)
    return;
  put (r->t, "  if (%s) {\n", who);
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m))
      nv_point_row_store (&r->pt, m);
  put (r->t, "  }\n");
}

void
nv_rows_put_members (Rows *r, int phase)
{
  uint64_t members = nv_rows_members (r, phase);
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (members & bit (m))
      nv_point_row_member (&r->pt, m);
}
