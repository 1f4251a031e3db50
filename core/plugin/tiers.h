/* SPDX-License-Identifier: Apache-2.0
 * tiers.h -- the back end `auto`: quick code at once, better code between two calls when it is ready.
 *
 * It is no plugin: the host puts two back ends together (tiers.def).  What it gives is a GmExec like any
 * other, which runs the first one's code, and from some call on the second one's; the bits are the same, so
 * nobody can tell but by the time.
 */
#ifndef GM_PLUGIN_TIERS_H
#define GM_PLUGIN_TIERS_H

#include "core/plugin/exec.h"

/* Name and options of `auto`, as a plugin's manifest would have them. */
extern const char gm_tiers_manifest[];
/* Where a plugin has its file. */
#define GM_TIERS_FILE "(part of gramme)"

/* gm_backend_compile_how and gm_backend_check_options of `auto`. */
GmExec *gm_tiers_compile (GmBackend *b, const GmGraph *forward, const GmGraph *backward,
                          const char *const *options, const GmCompileHow *how, GError **error);
bool gm_tiers_check_options (const GmBackend *b, const char *const *options, GError **error);

/* The exec that has replaced the first one, or NULL. */
GmExec *gm_tiers_better (const GmTiers *t);
/* gm_exec_run_sized of such an exec; symbols: may be NULL. */
bool gm_tiers_run (GmTiers *t, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
                   GmTensor *const *out, int n_out, GError **error);
/* gm_exec_run_at of such an exec. */
GmRunAt gm_tiers_run_at (GmTiers *t, const int64_t *symbols, void *const *data, GError **error);
/* gm_exec_may_share of such an exec: what was promised holds for whatever runs later. */
bool gm_tiers_may_share (GmTiers *t, int role, uint32_t in, uint32_t out);
/* The exec whose code runs now, to be given back; neither waits. */
GmExec *gm_tiers_enter (GmTiers *t);
void gm_tiers_leave (GmTiers *t);
void gm_tiers_free (GmTiers *t); /* NULL is fine */

#endif
