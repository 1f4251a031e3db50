/* SPDX-License-Identifier: Apache-2.0
 * rerun.h -- results of the program's functions in a compiled backward that failed: rerun.c.
 */
#ifndef GM_AOT_RERUN_H
#define GM_AOT_RERUN_H

#include "core/tensor/tensor.h"

/* The results of the program's functions (hooks, and backwards of host functions) in one run of a
 * compiled backward on this thread, so that the plain backward need not call them again.  Zeroed
 * before it begins. */
typedef struct GmRerun GmRerun;
struct GmRerun {
  GmRerun *around;
  GArray *calls; /* NULL: no calls were noted */
  bool again;    /* the plain backward runs, and takes the noted results */
};

/* Starts noting the results of the program's functions on this thread in *r; gm_rerun_end stops it
 * and frees them. */
void gm_rerun_begin (GmRerun *r);
void gm_rerun_end (GmRerun *r);
/* True if the last noted call has failed, and so ended the run. */
bool gm_rerun_has_failed (const GmRerun *r);

/* Notes that the function identified by the address `of` has been called and has returned n results
 * (borrowed, NULL where there is none); or, if error is not NULL, that it has failed (the error is
 * copied). */
void gm_rerun_note (const void *of, GmTensor *const *results, uint32_t n, const GError *error);
/* True if the plain backward runs, and a call of the function identified by `of` was noted and not
 * taken yet; then takes the oldest such call: fills `results` with new references to its n results,
 * or sets *ok to false and *error to its error. */
bool gm_rerun_take (const void *of, GmTensor **results, uint32_t n, bool *ok, GError **error);

#endif
