/* SPDX-License-Identifier: Apache-2.0
 * plan_cache.h -- the plans of one recorded graph whose sizes are symbols.
 *
 * The recording and its guards serve all sizes; so does the plan that the stages make of it, up to
 * the assumptions that they had to make: for sizes that do not fit, they run once more, with these
 * as the example.  A call runs a plan of numbers that is made of a form that fits; the latest of
 * these plans are kept.
 * Threads: one at a time.
 */
#ifndef GM_PLAN_CACHE_H
#define GM_PLAN_CACHE_H

#include "core/compile.h"

typedef struct GmPlanCache GmPlanCache;

#define GM_PLANS_KEPT 32 /* largest number of plans of numbers */
#define GM_PLANS_FORMS 8 /* largest number of plans of symbols (forms) */

/* Makes the cache for c's recorded graph, which is copied, with c's options, and its first plan:
 * the stages s to l run, and c gets their times and the resulting code.  NULL with *error on
 * failure. */
GmPlanCache *gm_plan_cache_new (GmCompile *c, GError **error);
void gm_plan_cache_free (GmPlanCache *p);                /* NULL is fine */
uint32_t gm_plan_cache_n_outputs (const GmPlanCache *p); /* outputs of a call: without those that
                                                          * only say how large a tensor is */
/* Runs the function as gm_plan_run does, with the plan for the sizes of these inputs, which is made
 * if there is none. */
bool gm_plan_cache_run (GmPlanCache *p, GmTensor *const *inputs, int n, GmTensor **outputs,
                        GError **error);
/* Returns a text with a line for each time that the stages ran: the assumptions about sizes that
 * the recording leaves open, "" if there are none; or that the plan is for the numbers of a call,
 * and why.  Borrowed until the next run. */
const char *gm_plan_cache_made (const GmPlanCache *p);
/* Returns the assumptions about where inputs lie that all plans make, whatever their sizes, in the
 * form of gm_plan_overlaps.  Borrowed. */
const GmOverlap *gm_plan_cache_overlaps (const GmPlanCache *p, uint32_t *n);
/* True if plans for all sizes can express the graph: it does not write to memory while inputs share
 * memory. */
bool gm_plan_cache_possible (const GmGraph *g);

#endif
