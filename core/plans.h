/* SPDX-License-Identifier: Apache-2.0
 * plans.h -- the plans of one recorded graph whose sizes are symbols.
 *
 * The recording and its guards serve all sizes; so does the plan that the stages make of it, but for what
 * they had to take for granted: for sizes that do not fit, they run once more, with these as the example.
 * A call runs a plan of numbers that is made of one that fits; the latest of them are kept.
 * Threads: one at a time.
 */
#ifndef GM_PLANS_H
#define GM_PLANS_H

#include "core/compile.h"

typedef struct GmPlans GmPlans;

#define GM_PLANS_KEPT 32 /* plans of numbers */
#define GM_PLANS_FORMS 8 /* plans of symbols */

/* Of c's recorded graph, of which a copy is made, with what c was asked for.  The stages s to l run, and c gets their times and
 * the code that came of them.  NULL on an error. */
GmPlans *gm_plans_new (GmCompile *c, GError **error);
void gm_plans_free (GmPlans *p); /* NULL is fine */
uint32_t gm_plans_n_outputs (const GmPlans *p); /* what a call gives: without what only says how large something is */
/* As gm_plan_run, with the plan for inputs like these. */
bool gm_plans_run (GmPlans *p, GmTensor *const *inputs, int n, GmTensor **outputs, GError **error);
/* A line for each time that the stages ran: what they took for granted of sizes that the recording leaves open, "" if nothing; or that it
 * was for the numbers of a call, and why.  Borrowed; until the next run. */
const char *gm_plans_made (const GmPlans *p);
/* What the plans take for granted about where inputs lie, whatever their sizes: as gm_plan_overlaps. */
const GmOverlap *gm_plans_overlaps (const GmPlans *p, uint32_t *n);
/* Whether plans for all sizes say all that the graph does: no gradient is given by the
 * program, and what is written to shares no memory. */
bool gm_plans_possible (const GmGraph *g);

#endif
