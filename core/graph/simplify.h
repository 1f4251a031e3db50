/* SPDX-License-Identifier: Apache-2.0
 * simplify.h -- what the files of stage s share; private to this room.
 *
 * A rewrite changes a node in place, to other operands and attributes with the same result, or says
 * that a value is another, earlier one.  So the work is a copy of the node array and a map of
 * values; no rewrite makes a new node, and dead ones fall out at the end.
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
  GmValueId *same; /* by value: the one that stands for it, itself unless replaced; always final,
                      never a chain */
  bool *output;    /* by value: some output is this value */
  bool *escapes;   /* by value: its memory may be an input's, a constant's or an output's */
  const bool *apart; /* by value: its memory must be none of those; NULL: no value's */
} GmSimplifyWork;

/* fold.c: node i's value is that of an earlier one (returned), or the node was rewritten or left
 * alone (GM_NO_ID).  Its operands are already looked up. */
GmValueId gm_fold_node (GmSimplifyWork *w, uint32_t i);
/* Whether the two results have one type: dtype, sizes, strides, device; and requires_grad. */
bool gm_simplify_same_meta (const GmSimplifyWork *w, GmValueId a, GmValueId b);

#endif
