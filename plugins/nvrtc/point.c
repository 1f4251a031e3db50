/* SPDX-License-Identifier: Apache-2.0
 * point.c -- see point.h; and kernels of loops without reductions, which are nothing but points.
 */
#include "plugins/nvrtc/point.h"

#define BLOCK 256

/* -- Access ---------------------------------------------------------------------------------------- */

static const CgValue *
value_of (const NvPoint *pt, uint32_t k)
{
  return &pt->l->p->values[pt->l->access[k].value];
}

static bool
is_multiple (const NvPoint *pt, int64_t size, int64_t n)
{
  return codegen_size_is_multiple (pt->l->p->sizes, pt->l->p->image, size, n);
}

/* Do `lanes` elements of this access lie at a multiple of their size, in every row? */
static bool
is_aligned (const NvPoint *pt, uint32_t k, int lanes)
{
  const Access *a = &pt->l->access[k];
  const CgValue *v = value_of (pt, k);
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
  if (!is_multiple (pt, l->n, lanes) && !(may_have_tail && l->n_outer == 0 && codegen_size_may_exceed (l->n, lanes)))
    return false;
  for (uint32_t k = 0; k < l->n_access; k++) {
    const Access *a = &l->access[k];
    uint32_t bytes = value_of (pt, k)->elem_bytes;
    if (a->as_row || a->inner == 0)
      continue;
    if (a->inner == 1 && (lanes * bytes > 16 || !is_aligned (pt, k, lanes)))
      return false;
    if (a->inner != 1 && a->store)
      return false;
  }
  return true;
}

void
nv_point_init (NvPoint *pt, NvUnit *u, Loop *l, int limit, bool may_have_tail)
{
  bool contiguous = false;
  *pt = (NvPoint){ .u = u, .l = l, .lanes = 1 };
  for (uint32_t k = 0; k < l->n_access; k++) {
    const Access *a = &l->access[k];
    contiguous = contiguous || (!a->as_row && a->inner == 1 && codegen_size_may_exceed (l->n, 1));
  }
  for (int lanes = limit; lanes > 1 && contiguous && pt->lanes == 1; lanes /= 2)
    if (allows (pt, lanes, may_have_tail))
      pt->lanes = lanes;
  pt->tail = !is_multiple (pt, l->n, pt->lanes);
  for (uint32_t k = 0; k < l->n_access; k++) {
    const Access *a = &l->access[k];
    pt->form[k] = a->inner == 0 && !a->store    ? NV_SPREAD
                  : a->inner == 1 && pt->lanes > 1 ? NV_VECTOR
                                                : NV_EACH;
  }
}

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

/* -- The row --------------------------------------------------------------------------------------- */

void
nv_point_head (NvPoint *pt, CgText *t, const char *row)
{
  const Loop *l = pt->l;
  pt->t = t;
  memset (pt->row_read, 0, sizeof pt->row_read);
  for (uint32_t k = 0; k < l->n_access; k++)
    pt->arg[k] = nv_arg (pt->u, l->access[k].value, l->access[k].store);
  if (l->n_outer > 0)
    put (t, "  gm_index rest = %s;\n", row);
  for (int d = l->n_outer; d-- > 0;) {
    if (d > 0)
      put (t, "  const gm_index i%d = rest %% %s;\n  rest /= %s;\n", d, NVZ (pt->u, l->outer[d]), NVZ (pt->u, l->outer[d]));
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
}

/* The expression of member m's operand `value`. */
static void
operand (NvPoint *pt, char out[256], uint32_t m, uint32_t value)
{
  int which;
  switch (loop_operand (pt->l, m, value, &which)) {
  case FROM_LITERAL:
    nv_literal (pt->u, out, 256, (uint32_t) which);
    break;
  case FROM_TILE:
    snprintf (out, 256, "m%d", which);
    break;
  case FROM_ROW:
    snprintf (out, 256, "r%d", which);
    break;
  case FROM_MEMORY:
    snprintf (out, 256, "x%d", which);
    break;
  }
}

static void
put_member (NvPoint *pt, const char *prefix, uint32_t m)
{
  const GrammeNode *n = loop_member (pt->l, m);
  char operands[3][256], value[1400];
  for (uint32_t i = 0; i < n->n_in && i < 3; i++)
    operand (pt, operands[i], m, gramme_node_in (pt->l->p->image, n, i));
  nv_apply (pt->u, value, sizeof value, n, operands);
  put (pt->t, "const E_%s %s%u = %s;\n", nv_work (pt->l->p->values[n->out].dtype), prefix, m, value);
}

void
nv_point_row_member (NvPoint *pt, uint32_t m)
{
  const GrammeNode *n = loop_member (pt->l, m);
  for (uint32_t i = 0; i < n->n_in; i++) {
    int which;
    char x[96], value[160];
    if (loop_operand (pt->l, m, gramme_node_in (pt->l->p->image, n, i), &which) != FROM_MEMORY)
      continue;
    const CgValue *v = value_of (pt, (uint32_t) which);
    snprintf (x, sizeof x, "p%u[o%d]", pt->arg[which], which);
    nv_load (value, sizeof value, v->dtype, x);
    if (!pt->row_read[which])
      put (pt->t, "  const E_%s x%d = %s;\n", nv_work (v->dtype), which, value);
    pt->row_read[which] = true;
  }
  put (pt->t, "  ");
  put_member (pt, "r", m);
}

void
nv_point_row_store (NvPoint *pt, uint32_t m)
{
  uint32_t out = loop_member (pt->l, m)->out;
  int k = loop_access (pt->l, out, true, true);
  char r[32], value[160];
  snprintf (r, sizeof r, "r%u", m);
  nv_store (value, sizeof value, pt->l->p->values[out].dtype, r);
  put (pt->t, "    p%u[o%d] = %s;\n", pt->arg[k], k, value);
}

/* -- Elements -------------------------------------------------------------------------------------- */

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

/* Where element e (+ lane) of access k is. */
static void
place (NvPoint *pt, char *out, size_t room, uint32_t k, bool guarded)
{
  const Access *a = &pt->l->access[k];
  char e[64];
  if (pt->lanes > 1 && guarded)
    snprintf (e, sizeof e, "(e + l < %s ? e + l : 0)", NVZ (pt->u, pt->l->n));
  else
    snprintf (e, sizeof e, "%s", pt->lanes == 1 ? "e" : "(e + l)");
  if (a->inner == 0)
    snprintf (out, room, "p%u[o%u]", pt->arg[k], k);
  else if (a->inner == 1)
    snprintf (out, room, "p%u[o%u + %s]", pt->arg[k], k, e);
  else
    snprintf (out, room, "p%u[o%u + %s * (gm_index) %s]", pt->arg[k], k, e, NVZ (pt->u, a->inner));
}

static void
put_load (NvPoint *pt, uint32_t k)
{
  const char *elem = nv_elem (value_of (pt, k)->dtype);
  if (pt->form[k] != NV_VECTOR)
    return;
  if (!pt->tail) {
    put (pt->t, "    const V%d_%s w%u = *(const V%d_%s *) (p%u + (o%u + e));\n", pt->lanes, elem, k,
         pt->lanes, elem, pt->arg[k], k);
    return;
  }
  put (pt->t, "    V%d_%s w%u;\n    if (full)\n      w%u = *(const V%d_%s *) (p%u + (o%u + e));\n",
       pt->lanes, elem, k, k, pt->lanes, elem, pt->arg[k], k);
  put (pt->t,
       "    else\n#pragma unroll\n      for (int l = 0; l < %d; l++)\n        w%u.e[l] = e + l < %s ? p%u[o%u + "
       "e + l] : 0;\n",
       pt->lanes, k, NVZ (pt->u, pt->l->n), pt->arg[k], k);
}

static void
put_store (NvPoint *pt, uint32_t k)
{
  const char *elem = nv_elem (value_of (pt, k)->dtype);
  if (pt->form[k] != NV_VECTOR)
    return;
  if (pt->tail)
    put (pt->t,
         "    if (!full)\n#pragma unroll\n      for (int l = 0; l < %d; l++) {\n        if (e + l < %s)\n          "
         "p%u[o%u + e + l] = y%u.e[l];\n      }\n    else\n  ",
         pt->lanes, NVZ (pt->u, pt->l->n), pt->arg[k], k, k);
  put (pt->t, "    *(V%d_%s *) (p%u + (o%u + e)) = y%u;\n", pt->lanes, elem, pt->arg[k], k, k);
}

/* What access k reads, at this lane. */
static void
put_read (NvPoint *pt, uint32_t k)
{
  const CgValue *v = value_of (pt, k);
  char memory[160], value[240];
  if (pt->form[k] == NV_VECTOR)
    snprintf (memory, sizeof memory, "w%u.e[l]", k);
  else
    place (pt, memory, sizeof memory, k, pt->tail);
  nv_load (value, sizeof value, v->dtype, memory);
  put (pt->t, "      const E_%s x%u = %s;\n", nv_work (v->dtype), k, value);
}

static void
put_write (NvPoint *pt, uint32_t m)
{
  uint32_t out = loop_member (pt->l, m)->out;
  uint32_t k = (uint32_t) loop_access (pt->l, out, false, true);
  char name[32], value[160], memory[160];
  snprintf (name, sizeof name, "m%u", m);
  nv_store (value, sizeof value, pt->l->p->values[out].dtype, name);
  if (pt->form[k] == NV_VECTOR) {
    put (pt->t, "      y%u.e[l] = %s;\n", k, value);
    return;
  }
  place (pt, memory, sizeof memory, k, false);
  put (pt->t, "      %s = %s;\n", memory, value);
}

static void
put_fold (NvPoint *pt, uint32_t m)
{
  const GrammeNode *n = loop_member (pt->l, m);
  char value[256];
  const char *work = nv_work (loop_accum_dtype (pt->l, m));
  operand (pt, value, m, gramme_node_in (pt->l->p->image, n, 0));
  nv_need_fold (pt->u, n->op, work);
  put (pt->t, "      a%u = fold_%s_%s (a%u, %s);\n", m, gramme_op_facts (n->op).name, work, m, value);
}

static bool
reads (NvPoint *pt, uint64_t members, uint32_t k)
{
  for (uint32_t m = 0; m < pt->l->s->n_members; m++)
    if (members >> m & 1 && loop_reads_full (pt->l, m) && loop_reads (pt->l, m, k))
      return true;
  return false;
}

void
nv_point_pass (NvPoint *pt, const NvPass *pass)
{
  Loop *l = pt->l;
  bool needed[CG_MAX_MEMBERS * 4] = { 0 };
  for (uint32_t k = 0; k < l->n_access; k++) {
    needed[k] = !l->access[k].store && !l->access[k].as_row && reads (pt, pass->compute | pass->folds, k);
    if (needed[k])
      put_load (pt, k);
  }
  for (uint32_t m = 0; m < l->s->n_members; m++) {
    int k = pass->stores >> m & 1 ? loop_access (l, loop_member (l, m)->out, false, true) : -1;
    if (k >= 0 && pt->form[k] == NV_VECTOR)
      put (pt->t, "    V%d_%s y%d;\n", pt->lanes, nv_elem (value_of (pt, (uint32_t) k)->dtype), k);
  }
  if (pt->lanes > 1)
    put (pt->t, "#pragma unroll\n    for (int l = 0; l < %d; l++)", pt->lanes);
  put (pt->t, "    {\n");
  for (uint32_t k = 0; k < l->n_access; k++)
    if (needed[k])
      put_read (pt, k);
  for (uint32_t m = 0; m < l->s->n_members; m++) {
    const char *lane = pt->lanes > 1 ? " + l" : "";
    if (pass->kept >> m & 1)
      put (pt->t, "      const E_%s m%u = c%u[%s%s];\n", nv_work (l->p->values[loop_member (l, m)->out].dtype),
           m, m, pass->index, lane);
    if (pass->compute >> m & 1 && !loop_is_row (l, m)) {
      put (pt->t, "      ");
      put_member (pt, "m", m);
    }
    if (pass->keep >> m & 1)
      put (pt->t, "      c%u[%s%s] = m%u;\n", m, pass->index, lane, m);
    if (pass->stores >> m & 1)
      put_write (pt, m);
    if (pass->folds >> m & 1)
      put_fold (pt, m);
  }
  put (pt->t, "    }\n");
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (pass->stores >> m & 1)
      put_store (pt, (uint32_t) loop_access (l, loop_member (l, m)->out, false, true));
}

/* -- Loops without reductions ----------------------------------------------------------------------- */

void
nv_print_points (NvUnit *u, uint32_t step)
{
  Loop l;
  NvPoint pt;
  char label[64];
  loop_plan (&l, u->p, step, true);
  nv_point_init (&pt, u, &l, 16, true);
  nv_point_label (&l, label, sizeof label);
  CgSizes *sizes = u->p->sizes;
  int64_t per_row = codegen_size_div_up (sizes, l.n, pt.lanes), points = per_row;
  for (int d = 0; d < l.n_outer; d++)
    points = codegen_size_mul (sizes, points, l.outer[d]);
  int64_t blocks = codegen_size_div_up (sizes, points, BLOCK);
  CgText *t = nv_begin (u, label, BLOCK, (int32_t) l.members[0]);
  nv_point_reach (u, &l, codegen_size_mul (sizes, blocks, BLOCK * pt.lanes));
  put (t, "  const gm_index i = (gm_index) GM_BLOCK * %d + GM_THREAD;\n  if (i >= %s)\n    return;\n", BLOCK, NVZ (u, points));
  if (l.n_outer == 0)
    put (t, "  const gm_index e = i%s;\n", pt.lanes == 1 ? "" : pt.lanes == 2 ? " * 2" : pt.lanes == 4 ? " * 4"
                                            : pt.lanes == 8                   ? " * 8"
                                                                              : " * 16");
  else
    put (t, "  const gm_index e = i %% %s * %d;\n", NVZ (u, per_row), pt.lanes);
  if (pt.tail)
    put (t, "  const int full = e + %d <= %s;\n", pt.lanes, NVZ (u, l.n));
  char row[64];
  snprintf (row, sizeof row, "i / %s", NVZ (u, per_row));
  nv_point_head (&pt, t, row);
  NvPass pass = { 0 };
  for (uint32_t m = 0; m < l.s->n_members; m++)
    if (u->p->values[loop_member (&l, m)->out].stored)
      pass.stores |= (uint64_t) 1 << m;
  pass.compute = nv_point_closure (&pt, pass.stores, 0);
  nv_point_pass (&pt, &pass);
  nv_end (u, blocks);
}
