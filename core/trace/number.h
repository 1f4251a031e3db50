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
/* An integer that only the run knows as the other operand of a tensor: a tensor without dimensions,
 * of the dtype that a number of Python's takes beside that one.  NULL: it is known, or cannot be
 * one. */
const GmTracker *gm_number_operand (GmRecorder *r, const GmTracker *number, const GmMeta *beside);

/* -- tracker_float.c -- */
/* The element of a tensor of f64 without dimensions. */
const GmTracker *gm_float_new (GmRecorder *r, const GmTracker *tensor);
/* A float that was seen to change; NULL, without a break: it is a constant. */
const GmTracker *gm_float_argument (GmRecorder *r, PyObject *real, const GmSource *source);
/* An int that is an expression over sizes; NULL: the graph, or this call, has no float for it. */
const GmTracker *gm_float_of_size (GmRecorder *r, const GmTracker *size);
/* The tensor whose element the float is. */
const GmTracker *gm_float_element (GmRecorder *r, const GmTracker *t);
/* Its value in this call; false: nothing is known of it. */
bool gm_float_value (const GmTracker *t, double *out);
/* t, or for a float of this kind the constant that it is from now on; a break if nothing is known
 * of it. */
const GmTracker *gm_float_settled (GmRecorder *r, const GmTracker *t);
/* Compares it with a constant, and guards the answer alone; op: Py_LT ...  False: the float has no
 * source. */
bool gm_float_compares (GmRecorder *r, const GmTracker *t, int op, double with, bool *holds);
bool gm_is_number (const GmTracker *t);
/* A comparison of a number that what is known of it does not decide. */
bool gm_is_condition (const GmTracker *t);
/* Its truth as a value of the graph, a bool without dimensions; NULL: it is decided by a number that the element's dtype has not. */
GmVal gm_number_truth (GmRecorder *r, const GmTracker *condition);
/* It holds from here on: whoever says so has it checked at run time. */
void gm_number_assume (GmRecorder *r, const GmTracker *condition);

#endif
