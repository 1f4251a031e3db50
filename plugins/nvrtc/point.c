/* SPDX-License-Identifier: Apache-2.0
 * point.c -- see point.h: the forms of accesses, where rows begin, and the passes over them.
 */
#include "plugins/nvrtc/point_parts.h"

#include "plugins/nvrtc/count.h"

/* -- Access ------------------------------------------------------------------------------------ */

const CgValue *
nv_point_value (const NvPoint *pt, uint32_t k)
{
  return &pt->l->p->values[pt->l->access[k].value];
}

static bool
is_counted (const NvPoint *pt, uint32_t k)
{
  return nv_counts (pt->u, pt->l->access[k].value);
}

static bool
is_multiple (const NvPoint *pt, int64_t size, int64_t n)
{
  return codegen_size_is_multiple (pt->l->p->sizes, pt->l->p->image, size, n);
}

/* True if `lanes` elements of this access begin at a multiple of their size, in every row. */
static bool
is_aligned (const NvPoint *pt, uint32_t k, int lanes)
{
  const Access *a = &pt->l->access[k];
  const CgValue *v = nv_point_value (pt, k);
  if (!is_multiple (pt, v->view_bytes, lanes * (int64_t) v->elem_bytes))
    return false;
  for (int d = 0; d < pt->l->n_outer; d++)
    if (!is_multiple (pt, a->strides[d], lanes))
      return false;
  return true;
}

static bool
allows (const NvPoint *pt, int lanes, bool may_have_tail)
{
  const Loop *l = pt->l;
  if (!is_multiple (pt, l->n, lanes)
      && !(may_have_tail && l->n_outer == 0 && codegen_size_may_exceed (l->n, lanes)))
    return false;
  for (uint32_t k = 0; k < l->n_access; k++) {
    const Access *a = &l->access[k];
    uint32_t bytes = nv_point_value (pt, k)->elem_bytes;
    if (a->as_row || a->inner == 0 || is_counted (pt, k))
      continue;
    if (a->inner == 1 && (lanes * bytes > 16 || !is_aligned (pt, k, lanes)))
      return false;
    if (a->inner != 1 && a->store)
      return false;
  }
  return true;
}

bool
nv_point_is_half (const NvPoint *pt, uint32_t value)
{
  uint32_t dtype = pt->l->p->values[value].dtype;
  return dtype == GRAMME_DTYPE_F16 || dtype == GRAMME_DTYPE_BF16;
}

static bool
has_halves (const NvPoint *pt)
{
  for (uint32_t k = 0; k < pt->l->n_access; k++)
    if (nv_point_is_half (pt, pt->l->access[k].value))
      return true;
  for (uint32_t m = 0; m < pt->l->s->n_members; m++)
    if (nv_point_is_half (pt, loop_member (pt->l, m)->out))
      return true;
  return false;
}

void
nv_point_init (NvPoint *pt, NvUnit *u, Loop *l, int limit, bool may_have_tail)
{
  bool contiguous = false;
  *pt = (NvPoint){ .u = u, .l = l, .lanes = 1 };
  for (uint32_t k = 0; k < l->n_access; k++) {
    const Access *a = &l->access[k];
    contiguous = contiguous
                 || (!a->as_row && !is_counted (pt, k) && a->inner == 1
                     && codegen_size_may_exceed (l->n, 1));
  }
  for (int lanes = limit; lanes > 1 && contiguous && pt->lanes == 1; lanes /= 2)
    if (allows (pt, lanes, may_have_tail))
      pt->lanes = lanes;
  pt->tail = !is_multiple (pt, l->n, pt->lanes);
  pt->pairs = pt->lanes > 1 && has_halves (pt);
  for (uint32_t k = 0; k < l->n_access; k++) {
    const Access *a = &l->access[k];
    pt->form[k] = is_counted (pt, k)               ? NV_COUNTED
                  : a->inner == 0 && !a->store     ? NV_SPREAD
                  : a->inner == 1 && pt->lanes > 1 ? NV_VECTOR
                                                   : NV_EACH;
  }
}

/* Returns the position within a vector at which an access's rows begin, apart from the strides'
 * part; -1: only the run knows. */
static int
phase_of (const NvPoint *pt, uint32_t k, int lanes)
{
  const CgValue *v = nv_point_value (pt, k);
  if (codegen_is_symbolic (v->view_bytes))
    return is_multiple (pt, v->view_bytes, lanes * (int64_t) v->elem_bytes) ? 0 : -1;
  return (int) (v->view_bytes / v->elem_bytes % lanes);
}

/* True if these accesses cross vector boundaries at the same elements, in every row. */
static bool
is_beside (const NvPoint *pt, uint32_t a, uint32_t b, int lanes)
{
  int phase = phase_of (pt, a, lanes);
  bool same = phase >= 0 && phase == phase_of (pt, b, lanes);
  for (int d = 0; d < pt->l->n_outer && same; d++) {
    int64_t x = pt->l->access[a].strides[d], y = pt->l->access[b].strides[d];
    same = x == y || (is_multiple (pt, x, lanes) && is_multiple (pt, y, lanes))
           || (!codegen_is_symbolic (x) && !codegen_is_symbolic (y) && (x - y) % lanes == 0);
  }
  return same;
}

void
nv_point_peel (NvPoint *pt, int limit)
{
  const Loop *l = pt->l;
  int leader = -1, lanes = limit;
  for (uint32_t k = 0; k < l->n_access; k++) {
    const Access *a = &l->access[k];
    if (a->as_row || a->inner != 1 || is_counted (pt, k))
      continue;
    /* The access to the largest memory. */
    bool moves = l->n_outer > 0 && (a->strides[l->n_outer - 1] != 0 || l->n_outer > 1);
    if (leader < 0 || moves)
      leader = (int) k;
    while (lanes * nv_point_value (pt, k)->elem_bytes > 16)
      lanes /= 2;
  }
  if (leader < 0 || lanes <= pt->lanes || phase_of (pt, (uint32_t) leader, lanes) < 0)
    return;
  pt->lanes = lanes;
  pt->leader = (uint32_t) leader;
  pt->peels = true;
  pt->tail = false;
  pt->pairs = has_halves (pt);
  for (uint32_t k = 0; k < l->n_access; k++) {
    const Access *a = &l->access[k];
    bool beside = a->inner == 1 && !a->as_row && is_beside (pt, (uint32_t) leader, k, lanes);
    pt->form[k] = is_counted (pt, k)           ? NV_COUNTED
                  : a->inner == 0 && !a->store ? NV_SPREAD
                  : beside                     ? NV_VECTOR
                                               : NV_EACH;
  }
}

static NvPoint
one_by_one (const NvPoint *pt)
{
  NvPoint one = *pt;
  one.lanes = 1;
  one.tail = one.quick = one.pairs = false;
  one.ahead = 0;
  one.from = one.on = NULL;
  for (uint32_t k = 0; k < pt->l->n_access; k++)
    one.form[k] = pt->form[k] == NV_VECTOR ? NV_EACH : pt->form[k];
  return one;
}

NvPoint
nv_point_ends (const NvPoint *pt)
{
  NvPoint ends = one_by_one (pt);
  ends.is_ends = true;
  return ends;
}

bool
nv_point_is_paired_access (const NvPoint *pt, uint32_t k)
{
  return pt->pairs && pt->form[k] == NV_VECTOR && nv_point_is_half (pt, pt->l->access[k].value);
}

/* -- The row ----------------------------------------------------------------------------------- */

void
nv_point_reach (NvUnit *u, const Loop *l, int64_t points)
{
  nv_reach (u, points);
  for (uint32_t k = 0; k < l->n_access; k++)
    nv_reach (u, nv_extent (u, &l->p->values[l->access[k].value]));
}

void
nv_point_label (const Loop *l, char *out, size_t room)
{
  size_t len = 0;
  out[0] = 0;
  for (uint32_t m = 0; m < l->s->n_members && len < 36; m++) {
    len += (size_t) snprintf (out + len, room - len, "%s%s", m ? "_" : "",
                              gramme_op_facts (loop_member (l, m)->op).name);
    if (len >= room)
      break;
  }
}

/* Prints the range of vectors between boundaries, and the number of elements outside of it. */
static void
put_peeled (NvPoint *pt)
{
  const char *n = NVZ (pt->u, pt->l->n);
  put (pt->t,
       "  const gm_index before = (%du - (o%u + %du) %% %du) %% %du, first = before < %s ? before "
       ": %s;\n",
       pt->lanes, pt->leader, phase_of (pt, pt->leader, pt->lanes), pt->lanes, pt->lanes, n, n);
  put (pt->t, "  const gm_index end = first + (%s - first) / %du * %du, ends = first + %s - end;\n",
       n, pt->lanes, pt->lanes, n);
}

void
nv_point_head (NvPoint *pt, CgText *t, const char *row)
{
  const Loop *l = pt->l;
  pt->t = t;
  memset (pt->row_read, 0, sizeof pt->row_read);
  for (uint32_t k = 0; k < l->n_access; k++)
    if (pt->form[k] != NV_COUNTED)
      pt->arg[k] = nv_arg (pt->u, l->access[k].value, l->access[k].store);
  if (l->n_outer > 0)
    put (t, "  gm_index rest = %s;\n", row);
  for (int d = l->n_outer; d-- > 0;) {
    if (d > 0)
      put (t, "  const gm_index i%d = rest %% %s;\n  rest /= %s;\n", d, NVZ (pt->u, l->outer[d]),
           NVZ (pt->u, l->outer[d]));
    else
      put (t, "  const gm_index i0 = rest;\n");
  }
  for (uint32_t k = 0; k < l->n_access; k++) {
    bool any = false;
    put (t, "  const gm_index o%u = ", k);
    for (int d = 0; d < l->n_outer; d++)
      if (l->access[k].strides[d]) {
        put (t, "%si%d * (gm_index) %s", any ? " + " : "", d, NVZ (pt->u, l->access[k].strides[d]));
        any = true;
      }
    put (t, "%s;\n", any ? "" : "0");
  }
  if (pt->peels)
    put_peeled (pt);
}

/* -- Passes ------------------------------------------------------------------------------------ */

bool
nv_point_is_read (const NvPoint *pt, uint32_t reader, uint32_t m)
{
  const GrammeNode *n = loop_member (pt->l, reader);
  for (uint32_t i = 0; i < n->n_in; i++)
    if (gramme_node_in (pt->l->p->image, n, i) == loop_member (pt->l, m)->out)
      return true;
  return false;
}

bool
nv_point_reads (NvPoint *pt, uint64_t members, uint32_t k)
{
  for (uint32_t m = 0; m < pt->l->s->n_members; m++)
    if (members >> m & 1 && loop_reads_full (pt->l, m) && loop_reads (pt->l, m, k))
      return true;
  return false;
}

uint64_t
nv_point_closure (NvPoint *pt, uint64_t roots, uint64_t kept)
{
  const Loop *l = pt->l;
  uint64_t all = roots;
  for (uint32_t m = l->s->n_members; m-- > 0;) {
    const GrammeNode *n = loop_member (l, m);
    for (uint32_t i = 0; all >> m & 1 && i < n->n_in; i++) {
      int which;
      if (loop_operand (pt->l, m, gramme_node_in (l->p->image, n, i), &which) == FROM_TILE
          && !(kept >> which & 1))
        all |= (uint64_t) 1 << which;
    }
  }
  return all;
}

/* Prints c<m>: one word for two neighbours, if they are halves. */
static void
put_kept (NvPoint *pt, const NvPass *pass, uint32_t m, bool read)
{
  const char *work = nv_work (pt->l->p->values[loop_member (pt->l, m)->out].dtype),
             *name = pt->is_ends ? "g" : "c";
  if (nv_point_is_paired (pt, m)) {
    if (read)
      put (pt->t, "      const gm_u32 h%u = c%u[(%s + l) / 2];\n", m, m, pass->index);
    else
      put (pt->t, "      c%u[(%s + l) / 2] = h%u;\n", m, pass->index, m);
    return;
  }
  for (int i = 0; i < (pt->pairs ? 2 : 1); i++) {
    const NvSide *side = pt->pairs ? &nv_point_sides[i] : &nv_point_alone;
    char at[96];
    if (pt->onto[m] && !pt->is_ends)
      snprintf (at, sizeof at, "w%d[%s].e[%s]", pt->onto[m] - 1, pass->step, side->lane);
    else
      snprintf (at, sizeof at, "%s%u[%s%s%s]", name, m, pass->index, pt->lanes > 1 ? " + " : "",
                pt->lanes > 1 ? side->lane : "");
    if (read)
      put (pt->t, "      const E_%s m%u%s = %s;\n", work, m, side->suffix, at);
    else
      put (pt->t, "      %s = m%u%s;\n", at, m, side->suffix);
  }
}

static void
put_elements (NvPoint *pt, const NvPass *pass, const bool *needed)
{
  Loop *l = pt->l;
  pt->u->quick = pt->quick;
  if (pt->lanes > 1)
    put (pt->t, "#pragma unroll\n    for (int l = 0; l < %d; l += %d)", pt->lanes,
         pt->pairs ? 2 : 1);
  put (pt->t, "    {\n");
  for (uint32_t k = 0; k < l->n_access; k++)
    if (needed[k] && pt->pairs)
      nv_point_put_read_pair (pt, pass, k);
    else if (needed[k])
      nv_point_put_read (pt, pass, k, &nv_point_alone);
  for (uint32_t m = 0; m < l->s->n_members; m++) {
    if (pass->kept >> m & 1)
      put_kept (pt, pass, m, true);
    if (pass->compute >> m & 1 && !loop_is_row (l, m)) {
      put (pt->t, "      ");
      if (pt->pairs)
        nv_point_put_pair (pt, m);
      else
        nv_point_put_member (pt, "m", m);
    }
    if (pass->keep >> m & 1)
      put_kept (pt, pass, m, false);
    if (pass->stores >> m & 1 && pt->pairs)
      nv_point_put_write_pair (pt, m);
    else if (pass->stores >> m & 1)
      nv_point_put_write (pt, m, pass->compute >> m & 1);
    for (int i = 0; i < 2 && pt->pairs && pass->folds >> m & 1; i++)
      nv_point_put_fold (pt, m, &nv_point_sides[i]);
    if (!pt->pairs && pass->folds >> m & 1)
      nv_point_put_fold (pt, m, &nv_point_alone);
  }
  put (pt->t, "    }\n");
  pt->u->quick = false;
}

/* Prints the thread's work, one element after the other. */
static void
put_careful (const NvPoint *pt, const NvPass *pass)
{
  NvPoint one = one_by_one (pt);
  put (pt->t,
       "    if (odd) {\n    const gm_index first = e;\n#pragma unroll 1\n    for (int q = 0; q < "
       "%d; q++) {\n",
       pt->lanes);
  put (pt->t, "    const gm_index e = first + q;\n");
  if (pt->tail)
    put (pt->t, "    if (e >= %s)\n      break;\n", NVZ (pt->u, pt->l->n));
  nv_point_pass (&one, pass);
  put (pt->t, "    }\n    } else {\n");
}

void
nv_point_pass (NvPoint *pt, const NvPass *pass)
{
  Loop *l = pt->l;
  bool needed[CG_MAX_MEMBERS * 4] = { 0 };
  for (uint32_t k = 0; k < l->n_access; k++) {
    needed[k] = !l->access[k].store && !l->access[k].as_row
                && nv_point_reads (pt, pass->compute | pass->folds, k);
    if (needed[k])
      nv_point_put_load (pt, pass, k);
  }
  for (uint32_t m = 0; m < l->s->n_members; m++) {
    int k = pass->stores >> m & 1 ? loop_access (l, loop_member (l, m)->out, false, true) : -1;
    if (k >= 0 && pt->form[k] == NV_VECTOR)
      put (pt->t, "    V%d_%s y%d;\n", pt->lanes,
           nv_elem (nv_point_value (pt, (uint32_t) k)->dtype), k);
  }
  if (pt->quick)
    put (pt->t, "    int odd = 0;\n");
  put_elements (pt, pass, needed);
  if (pt->quick)
    put_careful (pt, pass);
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (pass->stores >> m & 1)
      nv_point_put_store (pt, (uint32_t) loop_access (l, loop_member (l, m)->out, false, true));
  if (pt->quick)
    put (pt->t, "    }\n");
  for (uint32_t k = 0; k < l->n_access; k++)
    if (needed[k] && pt->held[k])
      pt->held[k] = NV_HELD;
}
