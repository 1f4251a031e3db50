/* SPDX-License-Identifier: Apache-2.0
 * partition.h -- declarations that the files which cut a joint graph share; private to this room
 * and its tests.
 *
 *   index_rewrites.c       rewrites nodes that put one element into each row, or take one of each
 *   partition.c  marks which values belong where, and builds the two graphs
 *   choose_saved.c     which values to save: the rules, and the weights for the minimum cut
 *   mincut.c     the minimum cut
 *   budget.c     which of these to drop when memory is short
 *
 * Values are seen through `detach`: gm_cut_value returns the value that stands for another.
 */
#ifndef GM_AOT_PARTITION_H
#define GM_AOT_PARTITION_H

#include "core/aot/aot.h"
#include "core/aot/mincut.h"

enum {
  GM_CUT_FORWARD = 1,  /* the forward computes it: the function's outputs need the value, or it
                        * is saved */
  GM_CUT_TANGENT = 2,  /* computed from a tangent: only the backward can compute it */
  GM_CUT_WANTED = 4,   /* not TANGENT, and read by a TANGENT value, or a gradient itself */
  GM_CUT_BACKWARD = 8, /* an input of the backward graph, or computed there */
  GM_CUT_SAVED = 16,   /* BACKWARD, and an input of the backward graph */
  GM_CUT_OUTPUT = 32,  /* an output of the function, or of the same memory as one */
  GM_CUT_WRITTEN = 64, /* an input that is overwritten: saving it needs a copy */
  GM_CUT_PLAIN = 128,  /* the plain program computes the value, even if no output depends on it */
};

typedef struct {
  const GmGraph *g; /* the joint graph, simplified */
  const GmJoint *joint;
  const GmPartitionOptions *options;
  GmArena *arena;
  uint8_t *flags; /* per value of g */
} GmCut;

static inline const GmNode *
gm_cut_producer (const GmGraph *g, GmValueId v)
{
  uint32_t node = gm_graph_value (g, v)->node;

  return node == GM_NO_ID ? NULL : gm_graph_node (g, node);
}

static inline GmValueId
gm_cut_value (const GmGraph *g, GmValueId v)
{
  for (const GmNode *n = gm_cut_producer (g, v); n && n->op == GM_OP_detach;
       n = gm_cut_producer (g, v))
    v = n->in[0];
  return v;
}

/* True for a view, a number or a constant: there is nothing to compute, so it is never saved. */
static inline bool
gm_cut_is_free (const GmNode *n)
{
  return gm_ops[n->op].family == GM_FAMILY_MOVEMENT || gm_ops[n->op].family == GM_FAMILY_CREATE;
}

/* A value is small beside another one if it has at most 1 / GM_CUT_SMALL of its bytes. */
enum { GM_CUT_SMALL = 4 };

/* Returns the number of bytes that a back end would allocate for v. */
uint64_t gm_cut_bytes (const GmGraph *g, GmValueId v);

/* True if values are chosen by mode DEFAULT, not by the minimum cut: values that are cheap to
 * compute are saved, too. */
bool gm_cut_is_default (const GmCut *c);
/* Sets SAVED on all values that are to be saved if the backward turns out to need them.  Requires
 * all flags but BACKWARD and SAVED. */
void gm_cut_choose (GmCut *c);
/* Clears SAVED on values, the cheapest to recompute first, until the saved bytes fit the budget. */
void gm_cut_budget (GmCut *c);

/* Rewrites a simplified joint graph, which the function consumes and whose inputs from
 * first_tangent on are gradients, and returns the graph to cut; NULL on error.  map: n_map ids of
 * g's values, or GM_NO_ID, which are replaced by ids of the result.  apart: n_map flags, as in
 * gm_graph_simplify_mapped. */
GmGraph *gm_index_rewrites (GmGraph *g, uint32_t first_tangent, const bool *apart, GmValueId *map,
                            uint32_t n_map, GmArena *arena, GError **error);

/* Makes v an output of g; a copy of v, where v is an input, a view, a constant or an output
 * already. */
bool gm_cut_add_output (GmGraph *g, GmValueId v, GmOutputKind kind, GError **error);

/* Fills p with the minimum-cut problem of choose_saved.c; its arrays are in c->arena. */
void gm_cut_problem (const GmCut *c, GmCutProblem *p);
/* Sets all flags that the choice of saved values requires.  Exported for tests. */
void gm_cut_mark (GmCut *c, const GmFunctionalLayer *writes);

#endif
