/* SPDX-License-Identifier: Apache-2.0
 * sized.h -- an exec whose graphs have symbolic sizes, which get numbers at each run.
 *
 * A plugin that takes nodes of symbolic sizes compiles once and is given the values of the image's
 * sizes at each run.  For other plugins the graphs are specialised: there is an exec for each set
 * of numbers that occurs, of which the latest are kept.
 */
#ifndef GM_RUN_SIZED_H
#define GM_RUN_SIZED_H

#include "core/graph/image.h"
#include "core/run/exec.h"

/* The number of specialised execs that are kept for one exec. */
#define GM_SIZED_KEPT 32
/* The number of sets of numbers that are kept for an exec with code for all sizes. */
#define GM_SIZED_NUMBERS 16

/* Makes the part of an exec that belongs to symbolic sizes; NULL if all sizes are numbers.  Copies
 * what it needs of the graphs; backward may be NULL. */
GmExecSized *gm_sized_new (const GmGraph *forward, const GmGraph *backward);
/* Returns the graph to compile for a role, with sizes as simple as the facts allow; borrowed. NULL:
 * there is no such role. */
const GmGraph *gm_sized_graph (const GmExecSized *s, int role);
/* Stores the sizes of a role, in the order in which its image lists them. */
void gm_sized_set_role (GmExecSized *s, int role, const GmImage *image, const GmExecRole *r);
/* Switches to specialised execs: each further run uses code for its own numbers.  why: the reason,
 * for the log; owned from here on; NULL: a general text. */
void gm_sized_specialise (GmExecSized *s, GmBackend *b, const char *const *options, char *why);
/* Returns NULL if the same code serves all sizes, else the reason why each run uses a specialised
 * exec.  Borrowed. */
const char *gm_sized_why (const GmExecSized *s);
/* Returns the text of gm_exec_places_text for the specialised exec that ran last; NULL: none has
 * run.  The caller frees. */
char *gm_sized_places_text (GmExecSized *s, bool every);
void gm_sized_free (GmExecSized *s); /* NULL is fine */

/* Runs a role as gm_exec_run, for a caller who has checked the number of tensors.  symbols: values,
 * by symbol number of the forward graph; NULL: determined by the inputs. */
bool gm_sized_run (GmExec *e, int role, const int64_t *symbols, GmTensor *const *in,
                   GmTensor *const *out, GError **error);
/* Runs the forward as gm_exec_run_at, for an exec for which gm_exec_runs_at is true. */
bool gm_sized_run_at (GmExec *e, const int64_t *symbols, void *const *data, GError **error);
/* Runs a role as gm_exec_run_known.  symbols: the values of all symbols that the graph needs. */
bool gm_sized_run_known (GmExec *e, int role, const int64_t *symbols, GmTensor *const *in,
                         GmTensor *const *out, GError **error);

#endif
