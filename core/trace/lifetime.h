/* SPDX-License-Identifier: Apache-2.0
 * lifetime.h -- objects whose death a program can tell: by a finalizer, a weak reference, the end
 * of a generator's blocks.
 */
#ifndef GM_TRACE_LIFETIME_H
#define GM_TRACE_LIFETIME_H

#include "core/trace/recorder.h"

/* Notes the arguments of a part that goes on in a function's middle whose death could be told: sets
 * r->lifetime, or leaves it NULL if there are none.  r->frame is the part's own, not entered yet. */
void gm_lifetime_begin (GmRecorder *r);
void gm_lifetime_free (GmLifetime *l); /* NULL is fine */
/* Breaks if the step that was just recorded has dropped such an argument, or if it has ended the
 * part and the arguments would not die in the order of plain Python; r->lifetime must not be NULL. */
void gm_lifetime_check (GmRecorder *r);
/* How many of them the frames hold that a break would lose which leaves these values (GmTracker);
 * r->lifetime must not be NULL. */
uint32_t gm_lifetime_lost (GmRecorder *r, const GPtrArray *left);

#endif
