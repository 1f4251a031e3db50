/* SPDX-License-Identifier: Apache-2.0
 * draws.h -- numbers that an entry draws before its graph runs: draws.c.
 */
#ifndef GM_PYTHON_DRAWS_H
#define GM_PYTHON_DRAWS_H

#include "core/trace/trace.h"

typedef struct GmDraws GmDraws;
GmDraws *gm_draws_new (const GmRecordDraw *draws, uint32_t n); /* NULL: there are none */
void gm_draws_free (GmDraws *d);                               /* NULL is fine */
/* Calls all in their order and puts what they give into the slots, on loan until the call ends.  False with an exception. */
bool gm_draws_make (const GmDraws *d, PyObject **slots);

#endif
