/* SPDX-License-Identifier: Apache-2.0
 * base_plan.h -- which inputs become views of which base: decided by base_plan.c, built by
 * synthetic_base.c.
 */
#ifndef GM_AOT_BASE_PLAN_H
#define GM_AOT_BASE_PLAN_H

#include "core/aot/layer_facts.h"

typedef struct {
  uint32_t group;   /* number of the group of inputs that share a storage; GM_NO_ID: unknown */
  int64_t position; /* of the input's first element, counted from that of the group's first
                     * input */
  bool written, gets_grad; /* written: the function writes to the input; gets_grad: a value that
                            * requires grad is written to it */
  bool rewrites;           /* writes to the input change the history of its base */
  uint32_t base;           /* number of the base that the input becomes a view of, or GM_NO_ID */
} GmBaseMember;

typedef struct {
  bool whole; /* members that overlap are written, so all of the base is copied back */
  GmBaseKind kind;
  uint32_t input; /* CALLER: the base is that input; OF: that input's base; RAW: the first member */
  int64_t position; /* of the base's first element, in the group */
  GmMeta meta;
} GmBaseChoice;

struct GmBasePlan {
  const GmGraph *g;
  uint32_t n, n_bases;
  GmBaseMember *members; /* per input */
  GmBaseChoice *bases;   /* in the order of their first members */
};

/* Returns the value that is input number `input` of the graph. */
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

/* Returns the position of input i's history among the histories of the inputs, by the time when
 * they were made; 0: unknown. */
uint32_t gm_base_made (const GmBasePlan *p, uint32_t i);
/* Returns member i as a view of its base, whose value is `base`. */
GmVal gm_base_member_view (GmBuilder *b, const GmBasePlan *p, uint32_t i, GmVal base);

#endif
