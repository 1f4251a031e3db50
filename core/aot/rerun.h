/* SPDX-License-Identifier: Apache-2.0
 * rerun.h -- results of the program's functions in a compiled backward that failed: rerun.c.
 */
#ifndef GM_AOT_RERUN_H
#define GM_AOT_RERUN_H

#include "core/tensor/tensor.h"

/* One run of a compiled backward on this thread.  Zeroed before it begins. */
typedef struct GmRerun GmRerun;
struct GmRerun {
  GmRerun *around;
  GArray *calls; /* NULL: none yet */
  bool again;    /* the plain backward runs, and gets the noted results */
};

/* Begins and ends the span in which this thread notes in *r the results of the program's
 * functions. */
void gm_rerun_begin (GmRerun *r);
void gm_rerun_end (GmRerun *r);
/* True if the run ended because the last of these functions failed. */
bool gm_rerun_has_failed (const GmRerun *r);

/* Notes that a function has been called for `of`, and returned n results (borrowed, NULL where
 * there is none), or the error, which is copied; error NULL: it has not failed. */
void gm_rerun_note (const void *of, GmTensor *const *results, uint32_t n, const GError *error);
/* True if a call for `of` is noted that was not taken before; takes the first: results are what it
 * returned, new references, or *ok is false and the error is set. */
bool gm_rerun_take (const void *of, GmTensor **results, uint32_t n, bool *ok, GError **error);

#endif
