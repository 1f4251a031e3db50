/* SPDX-License-Identifier: Apache-2.0
 * entry_draws.h -- random numbers that an entry draws before its graph runs.
 */
#ifndef GM_CAPTURE_ENTRY_DRAWS_H
#define GM_CAPTURE_ENTRY_DRAWS_H

#include "core/trace/trace.h"

typedef struct GmDraws GmDraws;
GmDraws *gm_entry_draws_new (const GmRecordDraw *draws, uint32_t n); /* NULL: there are none */
void gm_entry_draws_free (GmDraws *d);                               /* NULL is fine */
/* The states that the generators had before the draws. */
typedef struct GmDrawn GmDrawn;
/* Makes all draws of `d` in their order and puts the numbers into the slots as borrowed objects,
 * which live until the call ends.  False with an exception.  In both cases the caller frees *drawn
 * with gm_entry_draws_drop. */
bool gm_entry_draws_make (const GmDraws *d, PyObject **slots, GmDrawn **drawn);
/* Restores the generators to their states before the draws; a pending exception is kept. */
void gm_entry_draws_put_back (const GmDrawn *drawn); /* NULL is fine */
void gm_entry_draws_drop (GmDrawn *drawn);           /* NULL is fine */

#endif
