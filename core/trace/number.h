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
/* The same where its bounds are known. */
const GmTracker *gm_number_between (GmRecorder *r, const GmTracker *tensor, int64_t lo, int64_t hi);
/* Its value as a tensor without dimensions; NULL, without a break: it may be larger than `bound`, or no value of the dtype. */
const GmTracker *gm_number_as_tensor (GmRecorder *r, const GmTracker *number, GmDtype dtype, int64_t bound);
/* Its value as a size, an expression over one that the graph computes. */
int64_t gm_number_as_size (GmRecorder *r, const GmTracker *number);
/* A number that only the run knows, this kind or a float, as the other operand of a tensor: a tensor without dimensions, of the dtype that
 * a number of Python's takes beside that one.  NULL: it is known, or cannot be one. */
const GmTracker *gm_number_operand (GmRecorder *r, const GmTracker *number, const GmMeta *beside);
/* The element of a tensor of f64 without dimensions: tracker_float.c. */
const GmTracker *gm_float_new (GmRecorder *r, const GmTracker *tensor);
/* A float that is another one at each call. */
const GmTracker *gm_float_argument (GmRecorder *r, PyObject *real, const GmSource *source);
bool gm_is_number (const GmTracker *t);
/* A comparison of a number that what is known of it does not decide. */
bool gm_is_condition (const GmTracker *t);
/* Its truth as a value of the graph, a bool without dimensions; NULL: it is decided by a number that the element's dtype has not. */
GmVal gm_number_truth (GmRecorder *r, const GmTracker *condition);
/* It holds from here on: whoever says so has it checked at run time. */
void gm_number_assume (GmRecorder *r, const GmTracker *condition);

#endif
