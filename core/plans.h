/* SPDX-License-Identifier: Apache-2.0
 * plans.h -- the plans of one recorded graph whose sizes are symbols: one for each set of sizes that its
 * calls have, of which the latest are kept.
 *
 * The recording and its guards serve all sizes; gradients, views and what else the layers do are settled
 * for numbers, when a call first brings them.  Threads: one at a time.
 */
#ifndef GM_PLANS_H
#define GM_PLANS_H

#include "core/compile.h"

typedef struct GmPlans GmPlans;

#define GM_PLANS_KEPT 32

/* Of c's recorded graph, of which a copy is made, with what c was asked for. */
GmPlans *gm_plans_new (const GmCompile *c);
void gm_plans_free (GmPlans *p); /* NULL is fine */
/* The plan for inputs like these (the caller's, as gm_plan_run takes them), borrowed until the next call.  NULL on an error. */
GmPlan *gm_plans_get (GmPlans *p, GmTensor *const *inputs, GError **error);
/* Whether plans of numbers say all that the graph does: nothing in it is written to, and no gradient is given by the program. */
bool gm_plans_possible (const GmGraph *g);

#endif
