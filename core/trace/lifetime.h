/* SPDX-License-Identifier: Apache-2.0
 * lifetime.h -- objects whose death a program can tell: by a finalizer, a weak reference, the end
 * of a generator's blocks.
 */
#ifndef GM_TRACE_LIFETIME_H
#define GM_TRACE_LIFETIME_H

#include "core/trace/recorder.h"

/* Notes argument i of a part that goes on in a function's middle, if its death could be told: it
 * stands under key `home` of the root's frame. */
void gm_lifetime_add (GmRecorder *r, uint32_t i, uint32_t home);
/* Breaks if the step that was just recorded has dropped such an argument; r->mortals must not be
 * NULL. */
void gm_lifetime_check (GmRecorder *r);

#endif
