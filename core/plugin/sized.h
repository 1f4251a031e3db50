/* SPDX-License-Identifier: Apache-2.0
 * sized.h -- an exec whose graphs have symbolic sizes: numbers for them at each run.
 *
 * A plugin that takes nodes of symbolic sizes compiles once and is given the values of the image's
 * sizes at each run.  For one that does not, the graphs are specialised: an exec of numbers for each set
 * of them that occurs, of which the latest are kept.
 */
#ifndef GM_PLUGIN_SIZED_H
#define GM_PLUGIN_SIZED_H

#include "core/graph/image.h"
#include "core/plugin/exec.h"

/* Execs of numbers that one exec keeps. */
#define GM_SIZED_KEPT 32
/* Sets of numbers that one kernel for all sizes keeps. */
#define GM_SIZED_NUMBERS 16

/* NULL: all sizes are numbers.  Copies what it needs of the graphs; backward may be NULL. */
GmExecSized *gm_sized_new (const GmGraph *forward, const GmGraph *backward);
/* The graph to compile for a role: with sizes as simple as facts allow.  NULL: there is none. */
const GmGraph *gm_sized_graph (const GmExecSized *s, int role);
/* The sizes of a role as its image has them. */
void gm_sized_set_role (GmExecSized *s, int role, const GmImage *image, const GmExecRole *r);
/* From now on each run is one of numbers.  why: taken; for the log. */
void gm_sized_specialise (GmExecSized *s, GmBackend *b, const char *const *options, char *why);
/* NULL: one code serves all sizes; else why each run is one of numbers.  Borrowed. */
const char *gm_sized_why (const GmExecSized *s);
/* The text of gm_exec_places_text for the numbers that ran last; NULL: none did.  The caller frees. */
char *gm_sized_places_text (GmExecSized *s, bool every);
void gm_sized_free (GmExecSized *s); /* NULL is fine */

/* As gm_exec_run, whose caller has counted the tensors.  symbols: by symbol number of the forward
 * graph; NULL: what the inputs say. */
bool gm_sized_run (GmExec *e, int role, const int64_t *symbols, GmTensor *const *in,
                   GmTensor *const *out, GError **error);
/* As gm_exec_run_at, of an exec that gm_exec_runs_at. */
bool gm_sized_run_at (GmExec *e, const int64_t *symbols, void *const *data, GError **error);
/* As gm_exec_run_known; symbols: all that matter. */
bool gm_sized_run_known (GmExec *e, int role, const int64_t *symbols, GmTensor *const *in, GmTensor *const *out, GError **error);

#endif
