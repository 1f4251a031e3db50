/* SPDX-License-Identifier: Apache-2.0
 * simplify.h -- declarations shared by the rewrites of stages s and p; private to this room.
 *
 * A rewrite changes a node in place, to other operands and attributes with the same result, or
 * replaces a value by an earlier one.  So the work is a copy of the node array and a map of values;
 * no rewrite makes a new node, and dead nodes fall out at the end.
 */
#ifndef GM_GRAPH_SIMPLIFY_H
#define GM_GRAPH_SIMPLIFY_H

#include "core/graph/graph.h"

typedef struct {
  const GmGraph *g;
  GmArena *arena;
  uint32_t what;
  bool mutates;    /* some node writes in place */
  GmNode *nodes;   /* copies; operands are looked up through `same` */
  GmValueId *same; /* by value: the value that stands for it, itself unless replaced; always final,
                    * never a chain */
  bool *output;    /* by value: true if an output is this value */
  bool *escapes;   /* by value: its memory may be an input's, a constant's or an output's */
  const bool *apart; /* by value: no equal value of such memory may replace it; or NULL */
} GmSimplifyWork;

/* Rewrites node i in place if a rule applies (fold.c).  Returns the earlier value that stands
 * for its result, or GM_NO_ID if the node stays.  The caller has replaced the node's operands by
 * the values that stand for them. */
GmValueId gm_fold_node (GmSimplifyWork *w, uint32_t i);
/* True if the two values have the same dtype, sizes, strides, device and requires_grad. */
bool gm_simplify_same_meta (const GmSimplifyWork *w, GmValueId a, GmValueId b);

#endif
