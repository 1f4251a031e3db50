/* SPDX-License-Identifier: Apache-2.0
 * point_value.c -- the value of a member at a point, as an expression of its operands; for two
 * neighbours at a time, where there are halves.
 */
#include "plugins/nvrtc/point_parts.h"

#include "plugins/nvrtc/count.h"

const NvSide nv_point_alone = { "l", "", NULL },
             nv_point_sides[2] = { { "l", "a", "low" }, { "(l + 1)", "b", "high" } };

/* -- Pairs of neighbours ----------------------------------------------------------------------- */

bool
nv_point_is_paired (const NvPoint *pt, uint32_t m)
{
  const GrammeNode *n = loop_member (pt->l, m);
  bool read = false;
  if (!pt->pairs || loop_is_row (pt->l, m) || !nv_point_is_half (pt, n->out)
      || !nv_rounds (pt->u, n))
    return false;
  for (uint32_t reader = 0; reader < pt->l->s->n_members; reader++)
    read = read || nv_point_is_read (pt, reader, m);
  /* A bf16 is the upper half of a float: a pair would be split again. */
  return pt->l->p->values[n->out].dtype == GRAMME_DTYPE_F16 || !read;
}

/* Returns the GPU's instruction that applies this op to two f16, rounded like the result in f32:
 * "add"; NULL: there is none. */
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
  case GRAMME_OP_add:
    return "add";
  case GRAMME_OP_sub:
    return "sub";
  case GRAMME_OP_mul:
  case GRAMME_OP_square:
    return "mul";
  case GRAMME_OP_neg:
    return "neg";
  case GRAMME_OP_abs:
    return "abs";
  default:
    return NULL;
  }
}

/* -- Members ----------------------------------------------------------------------------------- */

/* Prints the expression of member m's operand `value`. */
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
      snprintf (out, 256, "%s_%s (h%d)", side->half, nv_elem (pt->l->p->values[value].dtype),
                which);
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

/* Prints both neighbours' operand as one word. */
static void
operand_pair (const NvPoint *pt, char out[600], uint32_t m, uint32_t value)
{
  int which, from = loop_operand (pt->l, m, value, &which);
  char both[2][256];
  if (from == FROM_TILE && nv_point_is_paired (pt, (uint32_t) which))
    snprintf (out, 600, "h%d", which);
  else if (from == FROM_MEMORY && nv_point_is_paired_access (pt, (uint32_t) which))
    snprintf (out, 600, "q%d", which);
  else {
    for (int i = 0; i < 2; i++)
      operand (pt, both[i], m, value, &nv_point_sides[i]);
    snprintf (out, 600, "pair_%s (%s, %s)", nv_elem (pt->l->p->values[value].dtype), both[0],
              both[1]);
  }
}

bool
nv_point_keeps_half (const NvPoint *pt, uint32_t m)
{
  return pt->l->p->values[loop_member (pt->l, m)->out].stored && !loop_is_fold (pt->l, m)
         && nv_rounds (pt->u, loop_member (pt->l, m));
}

static void
value_of_member (NvPoint *pt, char value[1400], uint32_t m, const NvSide *side)
{
  const GrammeNode *n = loop_member (pt->l, m);
  char operands[3][256];
  for (uint32_t i = 0; i < n->n_in && i < 3; i++)
    operand (pt, operands[i], m, gramme_node_in (pt->l->p->image, n, i), side);
  pt->u->form = pt->near >> m & 1    ? "near"
                : pt->below >> m & 1 ? "below"
                : pt->tame >> m & 1  ? "tame"
                                     : NULL;
  nv_apply (pt->u, value, 1400, n, operands);
  pt->u->form = NULL;
}

void
nv_point_put_pair (NvPoint *pt, uint32_t m)
{
  const GrammeNode *n = loop_member (pt->l, m);
  const char *op = paired_op (pt, m), *elem = nv_elem (pt->l->p->values[n->out].dtype);
  char value[2][1400], words[2][600];
  if (op) {
    bool two = n->n_in == 2 || n->op == GRAMME_OP_square;
    for (uint32_t i = 0; i < 2; i++)
      operand_pair (pt, words[i], m, gramme_node_in (pt->l->p->image, n, i < n->n_in ? i : 0));
    put (pt->t, "const gm_u32 h%u = pair_%s_%s (%s%s%s);\n", m, op, elem, words[0], two ? ", " : "",
         two ? words[1] : "");
    return;
  }
  for (int i = 0; i < 2; i++)
    value_of_member (pt, value[i], m, &nv_point_sides[i]);
  if (nv_point_is_paired (pt, m)) { /* both are rounded at once */
    size_t begin = strlen ("rounded_") + strlen (elem);
    put (pt->t, "const gm_u32 h%u = pair_%s (%s, %s);\n", m, elem, value[0] + begin,
         value[1] + begin);
  } else {
    const char *work = nv_work (pt->l->p->values[n->out].dtype);
    put (pt->t, "const E_%s m%ua = %s, m%ub = %s;\n", work, m, value[0], m, value[1]);
  }
}

void
nv_point_put_member (NvPoint *pt, const char *prefix, uint32_t m)
{
  const GrammeNode *n = loop_member (pt->l, m);
  char value[1400];
  value_of_member (pt, value, m, &nv_point_alone);
  if (nv_point_keeps_half (pt, m)) {
    /* The stored value and the value for later members are one conversion. */
    const char *elem = nv_elem (pt->l->p->values[n->out].dtype);
    put (pt->t, "const E_%s h%u = narrow_%s%s;\n      ", elem, m, elem,
         value + strlen ("rounded_") + strlen (elem));
    snprintf (value, sizeof value, "widen_%s (h%u)", elem, m);
  }
  put (pt->t, "const E_%s %s%u = %s;\n", nv_work (pt->l->p->values[n->out].dtype), prefix, m,
       value);
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
    const CgValue *v = nv_point_value (pt, (uint32_t) which);
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
  nv_point_put_member (pt, "r", m);
}

void
nv_point_row_store (NvPoint *pt, uint32_t m)
{
  uint32_t out = loop_member (pt->l, m)->out;
  int k = loop_access (pt->l, out, true, true);
  char r[32], value[160];
  snprintf (r, sizeof r, "r%u", m);
  nv_store (value, sizeof value, pt->l->p->values[out].dtype, r);
  if (nv_point_keeps_half (pt, m))
    snprintf (value, sizeof value, "h%u", m);
  put (pt->t, "    p%u[o%d] = %s;\n", pt->arg[k], k, value);
}

/* -- Reductions -------------------------------------------------------------------------------- */

/* True if m is used only by members of this op. */
static bool
is_only_for (const NvPoint *pt, uint32_t m, uint32_t op)
{
  for (uint32_t reader = 0; reader < pt->l->s->n_members; reader++)
    if (nv_point_is_read (pt, reader, m) && loop_member (pt->l, reader)->op != op)
      return false;
  return !pt->l->p->values[loop_member (pt->l, m)->out].stored;
}

/* True if m is the maximum of a row, and is only subtracted from exponents, so that the sign of a
 * zero does not matter. */
static bool
is_top (const NvPoint *pt, uint32_t m)
{
  if (loop_member (pt->l, m)->op != GRAMME_OP_amax
      || loop_accum_dtype (pt->l, m) != GRAMME_DTYPE_F32 || !is_only_for (pt, m, GRAMME_OP_sub))
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
  snprintf (name, 64, "fold_%s_%s", gramme_op_facts (loop_member (pt->l, m)->op).name,
            nv_work (loop_accum_dtype (pt->l, m)));
  return name;
}

void
nv_point_put_fold (NvPoint *pt, uint32_t m, const NvSide *side)
{
  const GrammeNode *n = loop_member (pt->l, m);
  char value[256];
  const char *work = nv_work (loop_accum_dtype (pt->l, m));
  operand (pt, value, m, gramme_node_in (pt->l->p->image, n, 0), side);
  nv_need_fold (pt->u, n->op, work);
  put (pt->t, "      a%u = %s (a%u, %s);\n", m, nv_point_fold (pt, m, (char[64]){ 0 }), m, value);
}
