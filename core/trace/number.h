/* SPDX-License-Identifier: Apache-2.0
 * number.h -- integers that only the run knows, and conditions on them: tracker_number.c.
 */
#ifndef GM_TRACE_NUMBER_H
#define GM_TRACE_NUMBER_H

#include "core/trace/recorder.h"

/* The element of a tensor that nobody else can change; dtype is one of integers. */
const GmTracker *gm_number_new (GmRecorder *r, const GmTracker *tensor, GmDtype dtype);
/* item () or int () of a tensor: its number, or a break that says `what`. */
const GmTracker *gm_tensor_item (GmRecorder *r, const GmTracker *tensor, const char *what);
bool gm_is_number (const GmTracker *t);
/* A comparison of a number that what is known of it does not decide. */
bool gm_is_condition (const GmTracker *t);
/* It holds from here on: whoever says so has it checked at run time. */
void gm_number_assume (GmRecorder *r, const GmTracker *condition);

#endif
