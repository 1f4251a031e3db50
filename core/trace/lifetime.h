/* SPDX-License-Identifier: Apache-2.0
 * lifetime.h -- objects whose death a program can notice: by a finalizer, a weak reference, the end
 * of a generator's blocks.
 */
#ifndef GM_TRACE_LIFETIME_H
#define GM_TRACE_LIFETIME_H

#include "core/trace/recorder.h"

/* Finds the arguments of a resume function whose death the program could notice: sets r->lifetime,
 * or leaves it NULL if there are none. r->frame is the function's own frame, not entered yet. */
void gm_lifetime_begin (GmRecorder *r);
void gm_lifetime_free (GmLifetime *l); /* NULL is fine */
/* Breaks if the step that was just recorded has dropped an argument of gm_lifetime_begin, or has
 * ended the function and the arguments would not die in the order of plain Python. r->lifetime must
 * not be NULL. */
void gm_lifetime_check (GmRecorder *r);
/* Returns the number of arguments of gm_lifetime_begin that the frames hold now, and that a break
 * which passes on only the values `left` (GmTracker) would drop. r->lifetime must not be NULL. */
uint32_t gm_lifetime_lost (GmRecorder *r, const GPtrArray *left);

#endif
