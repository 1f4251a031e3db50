/* SPDX-License-Identifier: Apache-2.0
 * draws.h -- numbers that an entry draws before its graph runs: draws.c.
 */
#ifndef GM_PYTHON_DRAWS_H
#define GM_PYTHON_DRAWS_H

#include "core/trace/trace.h"

typedef struct GmDraws GmDraws;
GmDraws *gm_draws_new (const GmRecordDraw *draws, uint32_t n); /* NULL: there are none */
void gm_draws_free (GmDraws *d);                               /* NULL is fine */
/* The generators that were drawn from, as they were before. */
typedef struct GmDrawn GmDrawn;
/* Calls all in their order and puts what they give into the slots, on loan until the call ends.  False with an exception.  Either
 * way *drawn is the caller's, to be freed. */
bool gm_draws_make (const GmDraws *d, PyObject **slots, GmDrawn **drawn);
/* Sets the generators to what they were; an exception that is set stays. */
void gm_drawn_put_back (const GmDrawn *drawn); /* NULL is fine */
void gm_drawn_free (GmDrawn *drawn);           /* NULL is fine */

#endif
