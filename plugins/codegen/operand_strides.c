/* SPDX-License-Identifier: Apache-2.0
 * operand_strides.c -- the layout of values in a step's iteration space.
 */
#include "plugins/codegen/program.h"

GrammeTileFn
codegen_tile (const CgProgram *p, uint32_t node, char *name)
{
  const GrammeNode *n = gramme_image_node (p->image, node);
  uint32_t family = gramme_op_facts (n->op).family;
  /* The dtype is that of the last operand, since the first one of `where` is a bool. */
  uint32_t operand = p->values[gramme_node_in (p->image, n, n->n_in - 1)].dtype;
  if (family == GRAMME_FAMILY_POINTWISE)
    return p->tiles->find (p->tiles->ctx, GRAMME_TILE_POINTWISE, n->op, operand, 0, name);
  if (family == GRAMME_FAMILY_CAST)
    return p->tiles->find (p->tiles->ctx, GRAMME_TILE_CAST, n->op, p->values[n->out].dtype, operand,
                           name);
  if (family == GRAMME_FAMILY_REDUCE)
    return p->tiles->find (p->tiles->ctx, GRAMME_TILE_FOLD, n->op, operand, 0, name);
  return NULL;
}

uint32_t
codegen_literal (const CgProgram *p, uint32_t value)
{
  uint32_t root = p->values[value].root;
  return p->values[root].literal && !p->values[value].recast ? root : CG_NONE;
}

static void
row_major (const CgProgram *p, uint32_t ndim, const int64_t *sizes, int64_t *strides)
{
  int64_t next = 1;
  for (uint32_t d = ndim; d-- > 0;) {
    strides[d] = next;
    next = codegen_size_mul (p->sizes, next, sizes[d]);
  }
}

/* Computes strides of `value` in terms of a row number, if each of its elements is one row of the
 * row value behind its views. Returns that row value; else CG_NONE. */
static uint32_t
follow_rows (const CgProgram *p, uint32_t step, uint32_t value, int64_t strides[8])
{
  const CgValue *v = &p->values[value];
  if (v->view_of == CG_NONE) {
    if (v->step != step || v->role != CG_ROW)
      return CG_NONE;
    row_major (p, v->ndim, v->sizes, strides);
    return value;
  }
  int64_t before[8];
  uint32_t row = follow_rows (p, step, v->view_of, before);
  if (row == CG_NONE)
    return CG_NONE;
  const CgValue *from = &p->values[v->view_of];
  const GrammeNode *n = gramme_image_node (p->image, v->node);
  switch (n->op) {
  case GRAMME_OP_detach:
    for (uint32_t d = 0; d < v->ndim; d++)
      strides[d] = before[d];
    return row;
  case GRAMME_OP_view: {
    int64_t expected[8];
    row_major (p, from->ndim, from->sizes, expected);
    for (uint32_t d = 0; d < from->ndim; d++)
      if (from->sizes[d] != 1 && before[d] != expected[d])
        return CG_NONE;
    row_major (p, v->ndim, v->sizes, strides);
    return row;
  }
  case GRAMME_OP_expand:
    for (uint32_t d = 0; d < v->ndim; d++) {
      int at = (int) d - (int) (v->ndim - from->ndim);
      if (at >= 0 && from->sizes[at] != v->sizes[d] && from->sizes[at] != 1)
        return CG_NONE; /* only the run knows which of the two it is */
      strides[d] = at < 0 || from->sizes[at] != v->sizes[d] ? 0 : before[at];
    }
    return row;
  default:
    return CG_NONE;
  }
}

uint32_t
codegen_row_value (const CgProgram *p, uint32_t step, uint32_t value, bool as_row)
{
  const CgStep *s = &p->steps[step];
  const CgValue *v = &p->values[value];
  int64_t strides[8], expected[8];
  if (s->split < 0)
    return CG_NONE;
  uint32_t row = follow_rows (p, step, value, strides);
  if (row == CG_NONE)
    return CG_NONE;
  if (as_row) { /* each element is its own row, in order */
    if (v->numel != s->rows)
      return CG_NONE;
    row_major (p, v->ndim, v->sizes, expected);
    for (uint32_t d = 0; d < v->ndim; d++)
      if (v->sizes[d] != 1 && strides[d] != expected[d])
        return CG_NONE;
    return row;
  }
  if (v->ndim > s->ndim)
    return CG_NONE;
  row_major (p, (uint32_t) s->split, s->sizes, expected);
  for (uint32_t d = 0; d < s->ndim; d++) {
    int at = (int) d - (int) (s->ndim - v->ndim);
    int64_t have = at < 0 || v->sizes[at] == 1 ? 0 : strides[at];
    int64_t want = (int) d < s->split ? expected[d] : 0;
    if (s->sizes[d] != 1 && have != want)
      return CG_NONE;
  }
  return row;
}

bool
codegen_strides (const CgProgram *p, const CgStep *s, uint32_t value, bool as_row,
                 int64_t strides[8])
{
  const CgValue *v = &p->values[value];
  if (!as_row) {
    if (v->ndim > s->ndim)
      return false;
    for (uint32_t d = 0; d < s->ndim; d++) {
      int at = (int) d - (int) (s->ndim - v->ndim);
      int64_t size = at < 0 ? 1 : v->sizes[at];
      if (size != 1 && size != s->sizes[d])
        return false;
      strides[d] = size == 1 ? 0 : v->strides[at];
    }
    return true;
  }
  /* Row operands have one element (broadcast), or one per row: match the dimensions that are not 1,
   * from the left. */
  for (uint32_t d = 0; d < 8; d++)
    strides[d] = 0;
  if (v->numel == 1)
    return true;
  if (v->numel != s->rows)
    return false;
  uint32_t at = 0;
  for (int d = 0; d < s->split; d++) {
    if (s->sizes[d] == 1)
      continue;
    while (at < v->ndim && v->sizes[at] == 1)
      at++;
    if (at == v->ndim || v->sizes[at] != s->sizes[d])
      return false;
    strides[d] = v->strides[at++];
  }
  return true;
}

bool
codegen_collapses (const CgProgram *p, const int64_t *sizes, const int64_t *strides, int from,
                   int to, int64_t *stride)
{
  int64_t run = 1;
  *stride = 0;
  bool any = false;
  for (int d = to; d-- > from;) {
    if (sizes[d] == 1)
      continue;
    if (!any)
      *stride = strides[d];
    else if (strides[d] != codegen_size_mul (p->sizes, *stride, run))
      return false;
    any = true;
    run = codegen_size_mul (p->sizes, run, sizes[d]);
  }
  return true;
}
