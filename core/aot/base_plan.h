/* SPDX-License-Identifier: Apache-2.0
 * base_plan.h -- which inputs become views of which base: what base_plan.c has decided, and synthetic_base.c makes.
 */
#ifndef GM_AOT_BASE_PLAN_H
#define GM_AOT_BASE_PLAN_H

#include "core/aot/facts.h"

typedef struct {
  uint32_t group;   /* inputs of one storage have one; GM_NO_ID: nothing is known */
  int64_t position; /* of the first element, in elements after that of the group's first input */
  bool written, gets_grad; /* gets_grad: something that requires grad is written to it */
  bool rewrites; /* what is written to it goes into the history of what it is a view of */
  uint32_t base;           /* its component among those that are merged, or GM_NO_ID */
} GmBaseMember;

typedef struct {
  bool whole; /* several that overlap are written: all of it is copied back */
  GmBaseKind kind;
  uint32_t
      input; /* CALLER: it is that input; OF: what that one is a view of; RAW: the first member */
  int64_t position; /* of the base's first element, in the group */
  GmMeta meta;
} GmBaseChoice;

struct GmBasePlan {
  const GmGraph *g;
  uint32_t n, n_bases;
  GmBaseMember *members; /* per input */
  GmBaseChoice *bases;     /* in the order of their first members */
};

/* Of an input of the graph, by number; a value that is none has the number GM_NO_ID. */
static inline GmValueId
gm_base_value (const GmGraph *g, uint32_t input)
{
  return g_array_index (g->inputs, GmValueId, input);
}

static inline const GmMeta *
gm_base_meta (const GmGraph *g, uint32_t input)
{
  return gm_graph_meta (g, gm_base_value (g, input));
}

static inline const char *
gm_base_name (const GmGraph *g, uint32_t input)
{
  const char *name = gm_graph_value (g, gm_base_value (g, input))->name;

  return name ? name : "?";
}

static inline uint32_t
gm_base_index (const GmGraph *g, GmValueId v)
{
  for (uint32_t i = 0; i < g->inputs->len; i++)
    if (gm_base_value (g, i) == v)
      return i;
  return GM_NO_ID;
}

/* When i's history was made, among those of the inputs; 0: nobody knows. */
uint32_t gm_base_made (const GmBasePlan *p, uint32_t i);
/* Member i as a view of its base. */
GmVal gm_base_member_view (GmBuilder *b, const GmBasePlan *p, uint32_t i, GmVal base);

#endif
