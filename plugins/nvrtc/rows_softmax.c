/* SPDX-License-Identifier: Apache-2.0
 * rows_softmax.c -- exponentials and quotients of a softmax, whose operands are restricted.
 */
#include "plugins/nvrtc/rows_parts.h"

/* True if `reader` multiplies or divides member m. */
static bool
scales (const Rows *r, uint32_t reader, uint32_t m)
{
  const GrammeNode *n = loop_member (&r->l, reader);
  return (n->op == GRAMME_OP_mul || n->op == GRAMME_OP_div)
         && gramme_node_in (r->l.p->image, n, 0) == loop_member (&r->l, m)->out;
}

/* Returns the exponentials of f32 that are only summed and scaled, as in a softmax.  They do not
 * have the CPU's bits anyway, because of the order of the sum. */
static uint64_t
find_exponentials (const Rows *r)
{
  uint64_t found = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++) {
    const GrammeNode *n = loop_member (&r->l, m);
    bool sums = false, good = n->op == GRAMME_OP_exp
                              && r->l.p->values[n->out].dtype == GRAMME_DTYPE_F32
                              && !nv_rows_is_stored (r, m);
    for (uint32_t reader = 0; good && reader < r->l.s->n_members; reader++)
      if (nv_point_is_read (&r->pt, reader, m)) {
        bool is_sum = loop_member (&r->l, reader)->op == GRAMME_OP_sum;
        sums = sums || is_sum;
        good = is_sum || scales (r, reader, m);
      }
    found |= good && sums ? bit (m) : 0;
  }
  return found;
}

static bool
stores_halves_alone (const Rows *r)
{
  for (uint32_t m = 0; m < r->l.s->n_members; m++) {
    uint32_t dtype = r->l.p->values[loop_member (&r->l, m)->out].dtype;
    if (nv_rows_is_stored (r, m) && dtype != GRAMME_DTYPE_F16 && dtype != GRAMME_DTYPE_BF16)
      return false;
  }
  return true;
}

/* Returns the member's node that makes operand i of n, if it has this op; else NULL. */
static const GrammeNode *
maker (const Rows *r, const GrammeNode *n, uint32_t i, uint32_t op)
{
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    if (loop_member (&r->l, m)->out == gramme_node_in (r->l.p->image, n, i)
        && loop_member (&r->l, m)->op == op)
      return loop_member (&r->l, m);
  return NULL;
}

/* True if the argument of exponential m is a difference from the maximum of its row. */
static bool
is_below_top (const Rows *r, uint32_t m)
{
  const GrammeNode *less = maker (r, loop_member (&r->l, m), 0, GRAMME_OP_sub),
                   *top = less ? maker (r, less, 1, GRAMME_OP_amax) : NULL;
  return top && gramme_node_in (r->l.p->image, top, 0) == gramme_node_in (r->l.p->image, less, 0);
}

/* True if n, or its divisor, is the sum of such exponentials, and the dividend is one of them. */
static bool
is_of_exponentials (const Rows *r, const GrammeNode *n, uint64_t exponentials)
{
  bool divides = n->op == GRAMME_OP_div;
  const GrammeNode *sum =
      divides || n->op == GRAMME_OP_reciprocal ? maker (r, n, n->n_in - 1, GRAMME_OP_sum) : NULL;
  for (uint32_t m = 0; sum && m < r->l.s->n_members; m++)
    if (exponentials & bit (m)
        && loop_member (&r->l, m)->out == gramme_node_in (r->l.p->image, sum, 0))
      return !divides || loop_member (&r->l, m)->out == gramme_node_in (r->l.p->image, n, 0);
  return false;
}

/* Marks the members of softmaxes. If all results of the kernel are halves, estimates that are off
 * by 2^-22 near the largest number suffice. Otherwise only subnormal numbers are lost, which do not
 * count beside the largest, 1. */
void
nv_rows_find_softmax (Rows *r)
{
  uint64_t all = find_exponentials (r), below = 0;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    below |= all & bit (m) && is_below_top (r, m) ? bit (m) : 0;
  r->pt.near = stores_halves_alone (r) ? all : 0;
  r->pt.below = below & ~r->pt.near;
  for (uint32_t m = 0; m < r->l.s->n_members; m++)
    r->pt.tame |= is_of_exponentials (r, loop_member (&r->l, m), below) ? bit (m) : 0;
}
