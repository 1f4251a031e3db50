/* SPDX-License-Identifier: Apache-2.0
 * compiled_pair.h -- a back end's code of a function and of its backward, which is made when it
 * first runs.
 *
 * Many functions whose arguments require grad are never differentiated, or their backward is
 * unfolded, so the backward is a request of its own: a graph like any other, with a place of its
 * own in the cache on disk and tiers of its own.  The option backward=at-once makes both in one
 * request, for users who would rather wait then than in the first backward.
 * Threads: any may run it; gm_compiled_pair_prepare is for one at a time, and runs of the backward
 * come after it.
 */
#ifndef GM_COMPILED_PAIR_H
#define GM_COMPILED_PAIR_H

#include "core/compile.h"

/* Makes a pair for c's back end, with c's options, and returns a new reference; NULL: *error.  The
 * forward is compiled now (NULL: there is none, or another owner has its code); the backward (NULL:
 * there is none) is copied for later, or compiled now with backward=at-once. */
GmCompiledPair *gm_compiled_pair_new (const GmCompile *c, const GmGraph *forward,
                                      const GmGraph *backward, GError **error);
GmCompiledPair *gm_compiled_pair_ref (GmCompiledPair *p);
void gm_compiled_pair_unref (GmCompiledPair *p); /* NULL is fine */

/* Makes the backward's code, if it does not exist yet.  False with *error, which says that it is
 * about the backward; the call may be repeated then. */
bool gm_compiled_pair_prepare (GmCompiledPair *p, GError **error);
/* Returns the executable that runs `role` of the function, borrowed, and sets *its_role to that
 * executable's role; NULL: there is none, or none yet. */
GmExec *gm_compiled_pair_exec (const GmCompiledPair *p, int role, int *its_role);

/* Returns the executable of a plan that runs the pair; steals p. */
GmPlanExec gm_compiled_pair_plan_exec (GmCompiledPair *p);

/* Returns the fallback reason of the forward, or else that of the backward; borrowed; NULL: none.
 * The next function returns the texts of gm_exec_places_text for both. */
const char *gm_compiled_pair_fallback_reason (const GmCompiledPair *p);
char *gm_compiled_pair_places_text (const GmCompiledPair *p, bool every);

#endif
