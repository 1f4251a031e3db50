/* SPDX-License-Identifier: Apache-2.0
 * point.c -- see point.h.
 */
#include "plugins/nvrtc/point.h"

#include "plugins/nvrtc/count.h"

/* -- Access ---------------------------------------------------------------------------------------- */

static const CgValue *
value_of (const NvPoint *pt, uint32_t k)
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
    if (a->as_row || a->inner == 0 || is_counted (pt, k))
      continue;
    if (a->inner == 1 && (lanes * bytes > 16 || !is_aligned (pt, k, lanes)))
      return false;
    if (a->inner != 1 && a->store)
      return false;
  }
  return true;
}

static bool
is_half (const NvPoint *pt, uint32_t value)
{
  uint32_t dtype = pt->l->p->values[value].dtype;
  return dtype == GRAMME_DTYPE_F16 || dtype == GRAMME_DTYPE_BF16;
}

static bool
has_halves (const NvPoint *pt)
{
  for (uint32_t k = 0; k < pt->l->n_access; k++)
    if (is_half (pt, pt->l->access[k].value))
      return true;
  for (uint32_t m = 0; m < pt->l->s->n_members; m++)
    if (is_half (pt, loop_member (pt->l, m)->out))
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
    contiguous = contiguous || (!a->as_row && !is_counted (pt, k) && a->inner == 1 && codegen_size_may_exceed (l->n, 1));
  }
  for (int lanes = limit; lanes > 1 && contiguous && pt->lanes == 1; lanes /= 2)
    if (allows (pt, lanes, may_have_tail))
      pt->lanes = lanes;
  pt->tail = !is_multiple (pt, l->n, pt->lanes);
  pt->pairs = pt->lanes > 1 && has_halves (pt);
  for (uint32_t k = 0; k < l->n_access; k++) {
    const Access *a = &l->access[k];
    pt->form[k] = is_counted (pt, k)            ? NV_COUNTED
                  : a->inner == 0 && !a->store  ? NV_SPREAD
                  : a->inner == 1 && pt->lanes > 1 ? NV_VECTOR
                                                : NV_EACH;
  }
}

/* The place of an access' rows in a vector, apart from what the strides add; -1: only the run knows. */
static int
phase_of (const NvPoint *pt, uint32_t k, int lanes)
{
  const CgValue *v = value_of (pt, k);
  if (codegen_is_symbolic (v->view_bytes))
    return is_multiple (pt, v->view_bytes, lanes * (int64_t) v->elem_bytes) ? 0 : -1;
  return (int) (v->view_bytes / v->elem_bytes % lanes);
}

/* Do these accesses cross boundaries at the same elements, in every row? */
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
    bool moves = l->n_outer > 0 && (a->strides[l->n_outer - 1] != 0 || l->n_outer > 1); /* the longest memory */
    if (leader < 0 || moves)
      leader = (int) k;
    while (lanes * value_of (pt, k)->elem_bytes > 16)
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
    pt->form[k] = is_counted (pt, k) ? NV_COUNTED : a->inner == 0 && !a->store ? NV_SPREAD : beside ? NV_VECTOR : NV_EACH;
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

/* The vectors between boundaries, and how many elements are not among them. */
static void
put_peeled (NvPoint *pt)
{
  const char *n = NVZ (pt->u, pt->l->n);
  put (pt->t, "  const gm_index before = (%du - (o%u + %du) %% %du) %% %du, first = before < %s ? before : %s;\n", pt->lanes, pt->leader,
       phase_of (pt, pt->leader, pt->lanes), pt->lanes, pt->lanes, n, n);
  put (pt->t, "  const gm_index end = first + (%s - first) / %du * %du, ends = first + %s - end;\n", n, pt->lanes, pt->lanes, n);
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
  if (pt->peels)
    put_peeled (pt);
}

/* -- Two at a time --------------------------------------------------------------------------------- */

/* The names and the lane of one of two neighbours; of an element that is alone. */
static const NvSide alone = { "l", "", NULL }, sides[2] = { { "l", "a", "low" }, { "(l + 1)", "b", "high" } };

/* Does access k come as h<k> of two halves? */
static bool
is_paired_access (const NvPoint *pt, uint32_t k)
{
  return pt->pairs && pt->form[k] == NV_VECTOR && is_half (pt, pt->l->access[k].value);
}

bool
nv_point_is_paired (const NvPoint *pt, uint32_t m)
{
  const GrammeNode *n = loop_member (pt->l, m);
  bool read = false;
  if (!pt->pairs || loop_is_row (pt->l, m) || !is_half (pt, n->out) || !nv_rounds (pt->u, n))
    return false;
  for (uint32_t reader = 0; reader < pt->l->s->n_members; reader++)
    read = read || nv_point_is_read (pt, reader, m);
  return pt->l->p->values[n->out].dtype == GRAMME_DTYPE_F16 || !read; /* a float is half a bf16: together they would be taken apart again */
}

/* Has the GPU an instruction that does this to two f16, rounded as the result in f32 is?  "add"; NULL: none. */
static const char *
paired_op (const NvPoint *pt, uint32_t m)
{
  const GrammeNode *n = loop_member (pt->l, m);
  if (!nv_point_is_paired (pt, m))
    return NULL;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (pt->l->p->values[gramme_node_in (pt->l->p->image, n, i)].dtype != GRAMME_DTYPE_F16)
      return NULL;
  switch (pt->l->p->values[n->out].dtype == GRAMME_DTYPE_F16 ? n->op : GRAMME_OP_cast) {
  case GRAMME_OP_add: return "add";
  case GRAMME_OP_sub: return "sub";
  case GRAMME_OP_mul: case GRAMME_OP_square: return "mul";
  case GRAMME_OP_neg: return "neg";
  case GRAMME_OP_abs: return "abs";
  default: return NULL;
  }
}

/* -- Members --------------------------------------------------------------------------------------- */

/* The expression of member m's operand `value`. */
static void
operand (const NvPoint *pt, char out[256], uint32_t m, uint32_t value, const NvSide *side)
{
  int which;
  switch (loop_operand (pt->l, m, value, &which)) {
  case FROM_LITERAL:
    nv_literal (pt->u, out, 256, (uint32_t) which);
    break;
  case FROM_TILE:
    if (nv_point_is_paired (pt, (uint32_t) which))
      snprintf (out, 256, "%s_%s (h%d)", side->half, nv_elem (pt->l->p->values[value].dtype), which);
    else
      snprintf (out, 256, "m%d%s", which, side->suffix);
    break;
  case FROM_ROW:
    snprintf (out, 256, "r%d", which);
    break;
  case FROM_MEMORY:
    snprintf (out, 256, "x%d%s", which, side->suffix);
    break;
  }
}

/* Both of it, as one word. */
static void
operand_pair (const NvPoint *pt, char out[600], uint32_t m, uint32_t value)
{
  int which, from = loop_operand (pt->l, m, value, &which);
  char both[2][256];
  if (from == FROM_TILE && nv_point_is_paired (pt, (uint32_t) which))
    snprintf (out, 600, "h%d", which);
  else if (from == FROM_MEMORY && is_paired_access (pt, (uint32_t) which))
    snprintf (out, 600, "q%d", which);
  else {
    for (int i = 0; i < 2; i++)
      operand (pt, both[i], m, value, &sides[i]);
    snprintf (out, 600, "pair_%s (%s, %s)", nv_elem (pt->l->p->values[value].dtype), both[0], both[1]);
  }
}

/* Is h<m> there, member m as the half that is stored? */
static bool
keeps_half (const NvPoint *pt, uint32_t m)
{
  return pt->l->p->values[loop_member (pt->l, m)->out].stored && !loop_is_fold (pt->l, m) && nv_rounds (pt->u, loop_member (pt->l, m));
}

static void
value_of_member (NvPoint *pt, char value[1400], uint32_t m, const NvSide *side)
{
  const GrammeNode *n = loop_member (pt->l, m);
  char operands[3][256];
  for (uint32_t i = 0; i < n->n_in && i < 3; i++)
    operand (pt, operands[i], m, gramme_node_in (pt->l->p->image, n, i), side);
  pt->u->form = pt->near >> m & 1 ? "near" : pt->below >> m & 1 ? "below" : pt->tame >> m & 1 ? "tame" : NULL;
  nv_apply (pt->u, value, 1400, n, operands);
  pt->u->form = NULL;
}

/* Member m of two neighbours. */
static void
put_pair (NvPoint *pt, uint32_t m)
{
  const GrammeNode *n = loop_member (pt->l, m);
  const char *op = paired_op (pt, m), *elem = nv_elem (pt->l->p->values[n->out].dtype);
  char value[2][1400], words[2][600];
  if (op) {
    bool two = n->n_in == 2 || n->op == GRAMME_OP_square;
    for (uint32_t i = 0; i < 2; i++)
      operand_pair (pt, words[i], m, gramme_node_in (pt->l->p->image, n, i < n->n_in ? i : 0));
    put (pt->t, "const gm_u32 h%u = pair_%s_%s (%s%s%s);\n", m, op, elem, words[0], two ? ", " : "", two ? words[1] : "");
    return;
  }
  for (int i = 0; i < 2; i++)
    value_of_member (pt, value[i], m, &sides[i]);
  if (nv_point_is_paired (pt, m)) { /* both are rounded at once */
    size_t begin = strlen ("rounded_") + strlen (elem);
    put (pt->t, "const gm_u32 h%u = pair_%s (%s, %s);\n", m, elem, value[0] + begin, value[1] + begin);
  } else {
    const char *work = nv_work (pt->l->p->values[n->out].dtype);
    put (pt->t, "const E_%s m%ua = %s, m%ub = %s;\n", work, m, value[0], m, value[1]);
  }
}

static void
put_member (NvPoint *pt, const char *prefix, uint32_t m)
{
  const GrammeNode *n = loop_member (pt->l, m);
  char value[1400];
  value_of_member (pt, value, m, &alone);
  if (keeps_half (pt, m)) { /* what is stored and what is gone on with are one conversion */
    const char *elem = nv_elem (pt->l->p->values[n->out].dtype);
    put (pt->t, "const E_%s h%u = narrow_%s%s;\n      ", elem, m, elem, value + strlen ("rounded_") + strlen (elem));
    snprintf (value, sizeof value, "widen_%s (h%u)", elem, m);
  }
  put (pt->t, "const E_%s %s%u = %s;\n", nv_work (pt->l->p->values[n->out].dtype), prefix, m, value);
}

void
nv_point_row_member (NvPoint *pt, uint32_t m)
{
  Loop *l = pt->l;
  const GrammeNode *n = loop_member (l, m);
  for (uint32_t i = 0; i < n->n_in; i++) {
    int which;
    char x[96], value[900];
    if (loop_operand (l, m, gramme_node_in (l->p->image, n, i), &which) != FROM_MEMORY)
      continue;
    const CgValue *v = value_of (pt, (uint32_t) which);
    if (pt->form[which] == NV_COUNTED) {
      snprintf (x, sizeof x, "o%d", which);
      nv_count_view (pt->u, value, sizeof value, l->access[which].value, x);
    } else {
      snprintf (x, sizeof x, "p%u[o%d]", pt->arg[which], which);
      nv_load (value, sizeof value, v->dtype, x);
    }
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
  if (keeps_half (pt, m))
    snprintf (value, sizeof value, "h%u", m);
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

/* Is this lane in the row?  With `tail` some may be beyond it; `full` says that none is. */
static const char *
lane_is_in (NvPoint *pt, const char *lane, char text[64])
{
  snprintf (text, 64, "e + %s < %s", lane, NVZ (pt->u, pt->l->n));
  return text;
}
#define IN(pt, lane) lane_is_in ((pt), (lane), (char[64]){ 0 })

/* How far behind the row's begin element e (+ lane) of access k is. */
static void
distance (NvPoint *pt, char out[256], uint32_t k, bool guarded, const char *lane)
{
  const Access *a = &pt->l->access[k];
  char e[128];
  if (pt->lanes > 1 && guarded)
    snprintf (e, sizeof e, "(full || (%s) ? e + %s : 0)", IN (pt, lane), lane);
  else if (pt->lanes > 1)
    snprintf (e, sizeof e, "(e + %s)", lane);
  else
    snprintf (e, sizeof e, "e");
  if (a->inner == 0)
    snprintf (out, 256, "o%u", k);
  else if (a->inner == 1)
    snprintf (out, 256, "o%u + %s", k, e);
  else
    snprintf (out, 256, "o%u + %s * (gm_index) %s", k, e, NVZ (pt->u, a->inner));
}

static void
place (NvPoint *pt, char *out, size_t room, uint32_t k, bool guarded, const char *lane)
{
  char at[256];
  distance (pt, at, k, guarded, lane);
  snprintf (out, room, "p%u[%s]", pt->arg[k], at);
}

/* Where access k is held in registers: a vector, or one element. */
static void
held_name (const NvPoint *pt, char out[64], uint32_t k, const NvPass *pass, const char *lane)
{
  if (pt->form[k] == NV_VECTOR && !pt->held[k])
    snprintf (out, 64, "w%u", k);
  else if (pt->form[k] == NV_VECTOR || pt->is_ends)
    snprintf (out, 64, "%c%u[%s]", pt->is_ends ? 't' : 'w', k, pass->step);
  else
    snprintf (out, 64, "w%u[%s%s%s]", k, pass->index, pt->lanes > 1 ? " + " : "", pt->lanes > 1 ? lane : "");
}

static void
put_load (NvPoint *pt, const NvPass *pass, uint32_t k)
{
  const char *elem = nv_elem (value_of (pt, k)->dtype);
  char w[64];
  if (pt->form[k] != NV_VECTOR || pt->held[k] == NV_HELD)
    return;
  held_name (pt, w, k, pass, "l");
  if (!pt->held[k])
    put (pt->t, "    V%d_%s w%u;\n", pt->lanes, elem, k);
  if (pt->tail)
    put (pt->t, "    if (full)\n  ");
  put (pt->t, is_paired_access (pt, k) ? "    %s = read_%d_%s (p%u + (o%u + e));\n" : "    %s = *(const V%d_%s *) (p%u + (o%u + e));\n", w, pt->lanes,
       elem, pt->arg[k], k);
  if (pt->tail) {
    put (pt->t, "    else\n#pragma unroll\n      for (int l = 0; l < %d; l++)\n", pt->lanes);
    if (is_paired_access (pt, k))
      put (pt->t, "        %s.p[l / 2] = (l %% 2 ? %s.p[l / 2] : 0) | (gm_u32) (%s ? p%u[o%u + e + l] : 0) << l %% 2 * 16;\n", w, w, IN (pt, "l"),
           pt->arg[k], k);
    else
      put (pt->t, "        %s.e[l] = %s ? p%u[o%u + e + l] : 0;\n", w, IN (pt, "l"), pt->arg[k], k);
  }
  if (pt->ahead)
    put (pt->t, "    if (e + %lldu < %s)\n      GM_BRING_NEAR (p%u + (o%u + e + %lldu));\n", (long long) pt->ahead, NVZ (pt->u, pt->l->n),
         pt->arg[k], k, (long long) pt->ahead);
}

static void
put_store (NvPoint *pt, uint32_t k)
{
  const char *elem = nv_elem (value_of (pt, k)->dtype);
  if (pt->form[k] != NV_VECTOR)
    return;
  if (pt->tail)
    put (pt->t,
         "    if (!full)\n#pragma unroll\n      for (int l = 0; l < %d; l++) {\n        if (%s)\n          "
         "p%u[o%u + e + l] = (E_%s) (y%u.%s);\n      }\n    else\n  ",
         pt->lanes, IN (pt, "l"), pt->arg[k], k, elem, k, is_paired_access (pt, k) ? "p[l / 2] >> l % 2 * 16" : "e[l]");
  put (pt->t, "    *(V%d_%s *) (p%u + (o%u + e)) = y%u;\n", pt->lanes, elem, pt->arg[k], k, k);
}

/* What access k reads, at this lane. */
static void
put_read (NvPoint *pt, const NvPass *pass, uint32_t k, const NvSide *side)
{
  const CgValue *v = value_of (pt, k);
  char memory[320], value[900], w[64];
  const char *work = nv_work (v->dtype);
  if (pt->form[k] == NV_COUNTED) {
    distance (pt, memory, k, false, side->lane);
    nv_count_view (pt->u, value, sizeof value, pt->l->access[k].value, memory);
    put (pt->t, "      const E_%s x%u%s = %s;\n", work, k, side->suffix, value);
    return;
  }
  if (pt->form[k] == NV_VECTOR) {
    held_name (pt, w, k, pass, side->lane);
    snprintf (memory, sizeof memory, "%s.e[%s]", w, side->lane);
  } else if (pt->held[k] != NV_HELD) {
    place (pt, memory, sizeof memory, k, pt->tail, side->lane);
  }
  if (pt->form[k] != NV_VECTOR && pt->held[k]) {
    held_name (pt, w, k, pass, side->lane);
    if (pt->held[k] == NV_HOLD)
      put (pt->t, "      %s = %s;\n", w, memory);
    snprintf (memory, sizeof memory, "%s", w);
  }
  nv_load (value, sizeof value, v->dtype, memory);
  put (pt->t, "      const E_%s x%u%s = %s;\n", work, k, side->suffix, value);
}

static void
put_read_pair (NvPoint *pt, const NvPass *pass, uint32_t k)
{
  char w[64];
  if (!is_paired_access (pt, k)) {
    for (int i = 0; i < 2; i++)
      put_read (pt, pass, k, &sides[i]);
    return;
  }
  const char *elem = nv_elem (value_of (pt, k)->dtype);
  held_name (pt, w, k, pass, "l");
  if (pt->again && pt->held[k] == NV_HELD)
    put (pt->t, "      GM_ANEW (%s.p[l / 2]);\n", w);
  put (pt->t, "      const gm_u32 q%u = %s.p[l / 2];\n      const E_f32 x%ua = low_%s (q%u), x%ub = high_%s (q%u);\n", k, w, k, elem, k, k, elem, k);
}

static void
put_write (NvPoint *pt, uint32_t m, bool computed)
{
  uint32_t out = loop_member (pt->l, m)->out;
  uint32_t k = (uint32_t) loop_access (pt->l, out, false, true);
  char name[32], value[160], memory[320];
  snprintf (name, sizeof name, "m%u", m);
  nv_store (value, sizeof value, pt->l->p->values[out].dtype, name);
  if (computed && keeps_half (pt, m))
    snprintf (value, sizeof value, "h%u", m);
  if (pt->form[k] == NV_VECTOR) {
    put (pt->t, "      y%u.e[l] = %s;\n", k, value);
    return;
  }
  place (pt, memory, sizeof memory, k, false, "l");
  put (pt->t, "      %s = %s;\n", memory, value);
}

static void
put_write_pair (NvPoint *pt, uint32_t m)
{
  uint32_t out = loop_member (pt->l, m)->out, dtype = pt->l->p->values[out].dtype;
  uint32_t k = (uint32_t) loop_access (pt->l, out, false, true);
  bool paired = nv_point_is_paired (pt, m), vector = pt->form[k] == NV_VECTOR;
  char name[32], value[160], memory[320];
  if (vector && paired)
    put (pt->t, "      y%u.p[l / 2] = h%u;\n", k, m);
  else if (vector && is_half (pt, out))
    put (pt->t, "      y%u.p[l / 2] = joined_%s (m%ua, m%ub);\n", k, nv_elem (dtype), m, m);
  for (int i = 0; i < 2 && !(vector && is_half (pt, out)); i++) {
    snprintf (name, sizeof name, "m%u%s", m, sides[i].suffix);
    nv_store (value, sizeof value, dtype, name);
    if (paired)
      snprintf (value, sizeof value, "(E_%s) (h%u%s)", nv_elem (dtype), m, i ? " >> 16" : "");
    if (vector)
      snprintf (memory, sizeof memory, "y%u.e[%s]", k, sides[i].lane);
    else
      place (pt, memory, sizeof memory, k, false, sides[i].lane);
    put (pt->t, "      %s = %s;\n", memory, value);
  }
}

bool
nv_point_is_read (const NvPoint *pt, uint32_t reader, uint32_t m)
{
  const GrammeNode *n = loop_member (pt->l, reader);
  for (uint32_t i = 0; i < n->n_in; i++)
    if (gramme_node_in (pt->l->p->image, n, i) == loop_member (pt->l, m)->out)
      return true;
  return false;
}

/* Is m of no use but to such members, all of this op? */
static bool
is_only_for (const NvPoint *pt, uint32_t m, uint32_t op)
{
  for (uint32_t reader = 0; reader < pt->l->s->n_members; reader++)
    if (nv_point_is_read (pt, reader, m) && loop_member (pt->l, reader)->op != op)
      return false;
  return !pt->l->p->values[loop_member (pt->l, m)->out].stored;
}

/* Is it the largest of a row, and only exponents are taken from there?  Then it does not matter which zero it is. */
static bool
is_top (const NvPoint *pt, uint32_t m)
{
  if (loop_member (pt->l, m)->op != GRAMME_OP_amax || loop_accum_dtype (pt->l, m) != GRAMME_DTYPE_F32 || !is_only_for (pt, m, GRAMME_OP_sub))
    return false;
  for (uint32_t reader = 0; reader < pt->l->s->n_members; reader++)
    if (nv_point_is_read (pt, reader, m) && !is_only_for (pt, reader, GRAMME_OP_exp))
      return false;
  return true;
}

const char *
nv_point_fold (NvPoint *pt, uint32_t m, char name[64])
{
  if (is_top (pt, m))
    return "larger_f32";
  snprintf (name, 64, "fold_%s_%s", gramme_op_facts (loop_member (pt->l, m)->op).name, nv_work (loop_accum_dtype (pt->l, m)));
  return name;
}

static void
put_fold (NvPoint *pt, uint32_t m, const NvSide *side)
{
  const GrammeNode *n = loop_member (pt->l, m);
  char value[256];
  const char *work = nv_work (loop_accum_dtype (pt->l, m));
  operand (pt, value, m, gramme_node_in (pt->l->p->image, n, 0), side);
  nv_need_fold (pt->u, n->op, work);
  put (pt->t, "      a%u = %s (a%u, %s);\n", m, nv_point_fold (pt, m, (char[64]){ 0 }), m, value);
}

bool
nv_point_reads (NvPoint *pt, uint64_t members, uint32_t k)
{
  for (uint32_t m = 0; m < pt->l->s->n_members; m++)
    if (members >> m & 1 && loop_reads_full (pt->l, m) && loop_reads (pt->l, m, k))
      return true;
  return false;
}

/* c<m>: of two neighbours one word, if they are halves. */
static void
put_kept (NvPoint *pt, const NvPass *pass, uint32_t m, bool read)
{
  const char *work = nv_work (pt->l->p->values[loop_member (pt->l, m)->out].dtype), *name = pt->is_ends ? "g" : "c";
  if (nv_point_is_paired (pt, m)) {
    if (read)
      put (pt->t, "      const gm_u32 h%u = c%u[(%s + l) / 2];\n", m, m, pass->index);
    else
      put (pt->t, "      c%u[(%s + l) / 2] = h%u;\n", m, pass->index, m);
    return;
  }
  for (int i = 0; i < (pt->pairs ? 2 : 1); i++) {
    const NvSide *side = pt->pairs ? &sides[i] : &alone;
    char at[96];
    if (pt->onto[m] && !pt->is_ends)
      snprintf (at, sizeof at, "w%d[%s].e[%s]", pt->onto[m] - 1, pass->step, side->lane);
    else
      snprintf (at, sizeof at, "%s%u[%s%s%s]", name, m, pass->index, pt->lanes > 1 ? " + " : "", pt->lanes > 1 ? side->lane : "");
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
    put (pt->t, "#pragma unroll\n    for (int l = 0; l < %d; l += %d)", pt->lanes, pt->pairs ? 2 : 1);
  put (pt->t, "    {\n");
  for (uint32_t k = 0; k < l->n_access; k++)
    if (needed[k] && pt->pairs)
      put_read_pair (pt, pass, k);
    else if (needed[k])
      put_read (pt, pass, k, &alone);
  for (uint32_t m = 0; m < l->s->n_members; m++) {
    if (pass->kept >> m & 1)
      put_kept (pt, pass, m, true);
    if (pass->compute >> m & 1 && !loop_is_row (l, m)) {
      put (pt->t, "      ");
      if (pt->pairs)
        put_pair (pt, m);
      else
        put_member (pt, "m", m);
    }
    if (pass->keep >> m & 1)
      put_kept (pt, pass, m, false);
    if (pass->stores >> m & 1 && pt->pairs)
      put_write_pair (pt, m);
    else if (pass->stores >> m & 1)
      put_write (pt, m, pass->compute >> m & 1);
    for (int i = 0; i < 2 && pt->pairs && pass->folds >> m & 1; i++)
      put_fold (pt, m, &sides[i]);
    if (!pt->pairs && pass->folds >> m & 1)
      put_fold (pt, m, &alone);
  }
  put (pt->t, "    }\n");
  pt->u->quick = false;
}

static NvPoint
one_by_one (const NvPoint *pt)
{
  NvPoint one = *pt;
  one.lanes = 1;
  one.tail = one.quick = one.pairs = false;
  one.ahead = 0;
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

/* What the thread has to do, one element after the other. */
static void
put_careful (const NvPoint *pt, const NvPass *pass)
{
  NvPoint one = one_by_one (pt);
  put (pt->t, "    if (odd) {\n    const gm_index first = e;\n#pragma unroll 1\n    for (int q = 0; q < %d; q++) {\n", pt->lanes);
  put (pt->t, "    const gm_index e = first + q;\n");
  if (pt->tail)
    put (pt->t, "    if (e >= %s)\n      break;\n", NVZ (pt->u, pt->l->n));
  nv_point_pass (&one, pass);
  put (pt->t, "    }\n    } else {\n");
}

static bool
begins_to_hold (NvPoint *pt, const NvPass *pass, uint32_t k)
{
  return !pt->l->access[k].store && (pt->form[k] == NV_VECTOR || pt->is_ends) && pt->held[k] == NV_HOLD
         && nv_point_reads (pt, pass->compute | pass->folds, k);
}

bool
nv_point_holds (NvPoint *pt, const NvPass *pass)
{
  for (uint32_t k = 0; k < pt->l->n_access; k++)
    if (begins_to_hold (pt, pass, k))
      return true;
  return false;
}

void
nv_point_hold (NvPoint *pt, const NvPass *pass)
{
  for (uint32_t k = 0; k < pt->l->n_access; k++)
    if (begins_to_hold (pt, pass, k)) {
      char w[64], memory[320];
      held_name (pt, w, k, pass, "l");
      place (pt, memory, sizeof memory, k, false, "l");
      if (pt->form[k] == NV_VECTOR)
        put_load (pt, pass, k);
      else
        put (pt->t, "    %s = %s;\n", w, memory);
      pt->held[k] = NV_HELD;
    }
}

void
nv_point_pass (NvPoint *pt, const NvPass *pass)
{
  Loop *l = pt->l;
  bool needed[CG_MAX_MEMBERS * 4] = { 0 };
  for (uint32_t k = 0; k < l->n_access; k++) {
    needed[k] = !l->access[k].store && !l->access[k].as_row && nv_point_reads (pt, pass->compute | pass->folds, k);
    if (needed[k])
      put_load (pt, pass, k);
  }
  for (uint32_t m = 0; m < l->s->n_members; m++) {
    int k = pass->stores >> m & 1 ? loop_access (l, loop_member (l, m)->out, false, true) : -1;
    if (k >= 0 && pt->form[k] == NV_VECTOR)
      put (pt->t, "    V%d_%s y%d;\n", pt->lanes, nv_elem (value_of (pt, (uint32_t) k)->dtype), k);
  }
  if (pt->quick)
    put (pt->t, "    int odd = 0;\n");
  put_elements (pt, pass, needed);
  if (pt->quick)
    put_careful (pt, pass);
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (pass->stores >> m & 1)
      put_store (pt, (uint32_t) loop_access (l, loop_member (l, m)->out, false, true));
  if (pt->quick)
    put (pt->t, "    }\n");
  for (uint32_t k = 0; k < l->n_access; k++)
    if (needed[k] && pt->held[k])
      pt->held[k] = NV_HELD;
}
