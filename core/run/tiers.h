/* SPDX-License-Identifier: Apache-2.0
 * tiers.h -- the back end `auto`: quick code at once, better code between two calls when it is
 * ready.
 *
 * `auto` is not a plugin: the host combines two back ends (tiers.def).  Its GmExec runs the first
 * back end's code, and from some call on the second's.  The bits are the same, so the only
 * difference is time.
 */
#ifndef GM_RUN_TIERS_H
#define GM_RUN_TIERS_H

#include "core/run/exec.h"

/* gm_backend_compile_how and gm_backend_check_options for `auto`. */
GmExec *gm_tiers_compile (GmBackend *b, const GmGraph *forward, const GmGraph *backward,
                          const char *const *options, const GmCompileHow *how, GError **error);
bool gm_tiers_check_options (const GmBackend *b, const char *const *options, GError **error);

/* Returns the exec of the second back end if it has replaced the first one's, else NULL.
 * Borrowed. */
GmExec *gm_tiers_better (const GmTiers *t);
/* Runs a role as gm_exec_run_sized, with the code of the current tier; symbols: may be NULL. */
bool gm_tiers_run (GmTiers *t, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
                   GmTensor *const *out, int n_out, GError **error);
/* Runs the forward as gm_exec_run_at, with the code of the current tier. */
GmRunAt gm_tiers_run_at (GmTiers *t, const int64_t *symbols, void *const *data, GError **error);
/* True if all code that may run from now on allows that input `in` and output `out` share memory:
 * see gm_exec_may_share. */
bool gm_tiers_may_share (GmTiers *t, int role, uint32_t in, uint32_t out);
/* Returns the exec whose code is current; it stays valid until gm_tiers_leave.  Neither function
 * waits. */
GmExec *gm_tiers_enter (GmTiers *t);
void gm_tiers_leave (GmTiers *t);
void gm_tiers_free (GmTiers *t); /* NULL is fine */

#endif
