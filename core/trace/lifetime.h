/* SPDX-License-Identifier: Apache-2.0
 * lifetime.h -- objects whose death a program can tell: by a finalizer, a weak reference, the end
 * of a generator's blocks.
 */
#ifndef GM_TRACE_LIFETIME_H
#define GM_TRACE_LIFETIME_H

#include "core/trace/recorder.h"

/* Records the arguments of a resume function whose death the program could notice: sets
 * r->lifetime, or leaves it NULL if there are none. r->frame is the function's own, not entered
 * yet. */
void gm_lifetime_begin (GmRecorder *r);
void gm_lifetime_free (GmLifetime *l); /* NULL is fine */
/* Breaks if the step that was just recorded has dropped such an argument, or has ended the function
 * and the arguments would not die in the order of plain Python; r->lifetime must not be NULL. */
void gm_lifetime_check (GmRecorder *r);
/* Returns the number of such arguments that the frames hold and that a break which leaves these
 * values (GmTracker) would drop; r->lifetime must not be NULL. */
uint32_t gm_lifetime_lost (GmRecorder *r, const GPtrArray *left);

#endif
