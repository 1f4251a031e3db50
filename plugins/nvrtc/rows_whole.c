/* SPDX-License-Identifier: Apache-2.0
 * rows_whole.c -- one kernel for all phases of a row.
 *
 * Rows that begin anywhere are walked from one boundary of 16 bytes to the next; the elements
 * before and behind, fewer than 16 bytes each, are processed by the first threads, one each
 * (point.h).
 */
#include "plugins/nvrtc/rows_parts.h"

#define WARPS_BLOCK 128 /* threads of a block whose rows are shorter than it */

/* True if a warp has several rows. All of its threads then continue even if their rows do not
 * exist: those are not `live`. */
static bool
shares_warp (const Rows *r)
{
  return r->threads > 1 && r->threads < 32;
}

/* Prints the head of a loop over a thread's steps, `some` of them at a time. All but the last ones
 * are inside of the row. */
static void
put_steps (Rows *r, int64_t some)
{
  int64_t stride = (int64_t) r->threads * r->pt.lanes,
          fewest = r->pt.peels ? r->l.n - (r->pt.lanes - 1) : r->l.n, sure = fewest / stride;
  if (some < r->steps)
    put (r->t, "#pragma unroll 1\n  for (int turn = 0; turn < %lld; turn += %lld) {\n",
         (long long) r->steps, (long long) some);
  snprintf (r->on, sizeof r->on, "%s * %lld", some < r->steps ? "(turn + j)" : "j",
            (long long) stride);
  r->pt.from = "b";
  r->pt.on = r->on;
  put (r->t,
       "#pragma unroll\n  for (int j = 0; j < %lld; j++) {\n    const gm_index b = %s(gm_index) "
       "tid * %d, e = b + (gm_index) (%s);\n",
       (long long) some, r->pt.peels ? "first + " : "", r->pt.lanes, r->on);
  if (r->pt.peels || r->steps * stride != r->l.n)
    put (r->t, "    if (j < %lld || e < %s) {\n", (long long) (some - (r->steps - sure)),
         r->pt.peels ? "end" : NVZ (r->pt.u, r->l.n));
  else
    put (r->t, "    {\n");
}

static void
put_steps_end (Rows *r)
{
  put (r->t, "    }\n  }\n");
  r->pt.from = r->pt.on = NULL;
}

static void
put_round (Rows *r, uint32_t k, int64_t by)
{
  const char *elem = nv_elem (r->l.p->values[r->l.access[k].value].dtype);
  long long n = r->steps, lanes = r->pt.lanes;
  if (r->pt.form[k] == NV_VECTOR)
    put (r->t, "  GM_GO_ROUND (V%d_%s, w%u, %lld, %lld);\n", r->pt.lanes, elem, k, n,
         (long long) by);
  else
    put (r->t, "  GM_GO_ROUND (E_%s, w%u, %lld, %lld);\n", elem, k, n * lanes,
         (long long) by * lanes);
}

/* Prints the end of a turn: the registers of the next steps are moved to the front. */
static void
put_turn_end (Rows *r, const NvPass *pass, int64_t by)
{
  long long n = r->steps, lanes = r->pt.lanes;
  for (uint32_t k = 0; k < r->l.n_access; k++)
    if (nv_rows_reads_held (r, pass, k))
      put_round (r, k, by);
  for (uint32_t m = 0; m < r->l.s->n_members; m++) {
    bool kept = pass->kept & bit (m) && nv_rows_uses_kept (r, pass, m);
    if (r->pt.onto[m] && kept)
      put_round (r, r->pt.onto[m] - 1u, by);
    else if (!r->pt.onto[m] && (kept || pass->keep & bit (m)) && nv_point_is_paired (&r->pt, m))
      put (r->t, "  GM_GO_ROUND (gm_u32, c%u, %lld, %lld);\n", m, n * lanes / 2, by * lanes / 2);
    else if (!r->pt.onto[m] && (kept || pass->keep & bit (m)))
      put (r->t, "  GM_GO_ROUND (E_%s, c%u, %lld, %lld);\n",
           nv_work (r->l.p->values[loop_member (&r->l, m)->out].dtype), m, n * lanes, by * lanes);
  }
  put (r->t, "  }\n");
}

/* Prints the head of the loop over the ends of a row; elements before the vectors come first. */
static void
put_end_steps (Rows *r)
{
  put (r->t,
       "#pragma unroll\n  for (int j = 0; j < %d; j++) {\n    const gm_index at = (gm_index) (j * "
       "%d + tid), e = at < first ? at : end - first + at;\n"
       "    if (at < ends) {\n",
       r->end_steps, r->threads);
}

/* Prints the held loads before a branch that may skip some of them. */
static void
put_holds (Rows *r, const NvPass *pass, const NvPass *of_ends, bool turns)
{
  bool goes_round = turns || r->pt.peels || r->steps * r->threads * r->pt.lanes != r->l.n;
  if (!goes_round || !nv_point_holds (&r->pt, pass))
    return;
  put_steps (r, r->steps);
  nv_point_hold (&r->pt, pass);
  put_steps_end (r);
  if (r->pt.peels) {
    put_end_steps (r);
    nv_point_hold (&r->ends, of_ends);
    put (r->t, "    }\n  }\n");
  }
}

static void
put_turns (Rows *r, NvPass *pass, const NvPass *of_ends, int64_t some)
{
  char index[48];
  snprintf (index, sizeof index, "j * %d", r->pt.lanes);
  pass->index = index;
  pass->step = "j";
  put_holds (r, pass, of_ends, some < r->steps);
  put_steps (r, some);
  nv_point_pass (&r->pt, pass);
  put_steps_end (r);
  if (some < r->steps)
    put_turn_end (r, pass, some);
}

/* Prints the head of the loop over a stretch's steps. */
static void
put_stretch (Rows *r, int n, const char *end)
{
  snprintf (r->on, sizeof r->on, "j * %d", r->threads * r->pt.lanes);
  r->pt.from = "at";
  r->pt.on = r->on;
  put (r->t,
       "  for (int j = 0; j < %d; j++) {\n    const gm_index e = at + (gm_index) (%s);\n    if (e "
       "< %s) {\n",
       n, r->on, end);
}

/* Prints a loop over stretches: the vectors of one stretch are read at once, and moved to the front
 * one after the other. */
static void
put_stretches (Rows *r, NvPass *pass, int n)
{
  const char *begin = r->pt.peels ? "first + " : "",
             *end = r->pt.peels ? "end" : NVZ (r->pt.u, r->l.n);
  long long stride = (long long) r->threads * r->pt.lanes;
  bool held[CG_MAX_MEMBERS * 4] = { false }, any = false;
  for (uint32_t k = 0; k < r->l.n_access && n > 1; k++) {
    held[k] = r->pt.form[k] == NV_VECTOR && !r->l.access[k].store && !r->l.access[k].as_row
              && nv_point_reads (&r->pt, pass->compute | pass->folds, k);
    any = any || held[k];
  }
  if (!any) {
    put (r->t,
         "#pragma unroll %d\n  for (gm_index e = %s(gm_index) tid * %d; e < %s; e += %lld) {\n", n,
         begin, r->pt.lanes, end, stride);
    nv_point_pass (&r->pt, pass);
    put (r->t, "  }\n");
    return;
  }
  put (r->t,
       "#pragma unroll 1\n  for (gm_index at = %s(gm_index) tid * %d; at < %s; at += %lld) {\n",
       begin, r->pt.lanes, end, n * stride);
  for (uint32_t k = 0; k < r->l.n_access; k++)
    if (held[k]) {
      put (r->t, "  V%d_%s w%u[%d];\n", r->pt.lanes,
           nv_elem (r->l.p->values[r->l.access[k].value].dtype), k, n);
      r->pt.held[k] = NV_HOLD;
    }
  pass->step = "j";
  put (r->t, "#pragma unroll\n");
  put_stretch (r, n, end);
  nv_point_hold (&r->pt, pass);
  put_steps_end (r);
  put (r->t, "#pragma unroll 1\n");
  pass->step = "0";
  put_stretch (r, n, end);
  nv_point_pass (&r->pt, pass);
  put (r->t, "    }\n");
  for (uint32_t k = 0; k < r->l.n_access; k++)
    if (held[k]) {
      for (int i = 1; i < n; i++)
        put (r->t, "    w%u[%d] = w%u[%d];\n", k, i - 1, k, i);
      r->pt.held[k] = 0;
    }
  put (r->t, "  }\n  }\n");
  r->pt.from = r->pt.on = NULL;
}

static void
put_elements (Rows *r, int phase)
{
  NvPass pass = nv_rows_pass (r, phase), of_ends = pass;
  if (!(pass.stores | pass.folds | pass.keep))
    return;
  of_ends.index = of_ends.step = "j";
  if (shares_warp (r))
    put (r->t, "  if (live) {\n");
  if (r->walk[phase].turn)
    put_turns (r, &pass, &of_ends, r->walk[phase].turn);
  else
    put_stretches (r, &pass, r->walk[phase].stretch);
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

void
nv_rows_print_whole (Rows *r, NvUnit *u, int64_t n_rows)
{
  char label[64];
  int block = r->threads > 32 ? r->threads : WARPS_BLOCK, per_block = block / r->threads;
  nv_point_label (&r->l, label, sizeof label);
  r->t = nv_begin (u, label, (uint32_t) block, (int32_t) r->l.members[0]);
  u->k.beside = r->pt.again ? 2 : 0;
  CgSizes *sizes = u->p->sizes;
  int stride = r->threads * r->pt.lanes;
  nv_point_reach (u, &r->l,
                  codegen_size_mul (sizes, codegen_size_add (sizes, n_rows, per_block), stride));
  nv_reach (u, codegen_size_add (sizes, r->l.n, stride));
  if (per_block == 1)
    put (r->t, "  const gm_index row = GM_BLOCK;\n  const int tid = (int) GM_THREAD;\n");
  else
    put (r->t,
         "  const gm_index row%s = (gm_index) GM_BLOCK * %d + GM_THREAD / %d;\n  const int tid = "
         "(int) (GM_THREAD %% %d);\n",
         shares_warp (r) ? "_" : "", per_block, r->threads, r->threads);
  if (shares_warp (r))
    put (r->t, "  const int live = row_ < %s;\n  const gm_index row = live ? row_ : %s - 1;\n",
         NVZ (u, n_rows), NVZ (u, n_rows));
  else if (per_block > 1)
    put (r->t, "  if (row >= %s)\n    return;\n", NVZ (u, n_rows));
  nv_point_head (&r->pt, r->t, "row");
  r->ends = nv_point_ends (&r->pt);
  put_kept (r);
  for (int phase = 0; phase < r->l.n_phases; phase++) {
    uint64_t f = nv_rows_folds (r, phase);
    nv_rows_put_members (r, phase);
    nv_rows_put_accumulators (r, f);
    put_elements (r, phase);
    nv_rows_put_combine (r, f);
    nv_rows_put_results (r, f);
    nv_rows_put_stores (r, nv_rows_members (r, phase) | f,
                        shares_warp (r) ? "live && tid == 0" : "tid == 0");
  }
  nv_end (u, codegen_size_div_up (sizes, n_rows, per_block));
}
