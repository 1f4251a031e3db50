/* SPDX-License-Identifier: Apache-2.0
 * compiled_pair.h -- a back end's code of a function and of its backward, which is made when it
 * first runs.
 *
 * Many functions whose arguments require grad are never differentiated, or their backward is
 * unfolded, so the backward is a request of its own: a graph like any other, with a place of its
 * own in the cache on disk and tiers of its own.  The option backward=at-once makes both in one
 * request, for users who would rather wait then than in the first backward.
 * Threads: any may run it; gm_pair_prepare is for one at a time, and runs of the backward come
 * after it.
 */
#ifndef GM_COMPILED_PAIR_H
#define GM_COMPILED_PAIR_H

#include "core/compile.h"

/* Makes a pair for c's back end, by c's options.  forward: NULL if there is none, or another owner
 * has its code.  backward: copied; NULL: there is none.  Returns a new reference. */
GmPair *gm_pair_new (const GmCompile *c, const GmGraph *forward, const GmGraph *backward, GError **error);
GmPair *gm_pair_ref (GmPair *p);
void gm_pair_unref (GmPair *p); /* NULL is fine */

/* Makes the backward's code, if it does not exist.  After an error, which says that it is the
 * backward's, the call may be repeated. */
bool gm_pair_prepare (GmPair *p, GError **error);
/* Returns the executable that runs a role, as *its_role of it; NULL: there is none, or not yet.
 * Borrowed. */
GmExec *gm_pair_exec (const GmPair *p, int role, int *its_role);

/* Returns a plan's executable for the pair; steals p. */
GmPlanExec gm_pair_plan_exec (GmPair *p);

/* Return the same as those of GmExec, for both. */
const char *gm_pair_fallback_reason (const GmPair *p);
char *gm_pair_places_text (const GmPair *p, bool every);

#endif
