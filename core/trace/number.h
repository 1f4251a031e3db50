/* SPDX-License-Identifier: Apache-2.0
 * number.h -- integers that only the run knows, and conditions on them: tracker_number.c.
 */
#ifndef GM_TRACE_NUMBER_H
#define GM_TRACE_NUMBER_H

#include "core/trace/recorder.h"

/* Returns the number that is the element of a tensor which nothing else can change; dtype is an
 * integer one. */
const GmTracker *gm_number_new (GmRecorder *r, const GmTracker *tensor, GmDtype dtype);
/* Returns item () or int () of a tensor as a number, or breaks with `what` in the message. */
const GmTracker *gm_tensor_item (GmRecorder *r, const GmTracker *tensor, const char *what);
/* The same for a number with known bounds. */
const GmTracker *gm_number_between (GmRecorder *r, const GmTracker *tensor, int64_t lo, int64_t hi);
/* Returns the number's value as a tensor without dimensions; NULL, without a break: the value may
 * exceed `bound`, or is no value of the dtype. */
const GmTracker *gm_number_as_tensor (GmRecorder *r, const GmTracker *number, GmDtype dtype,
                                      int64_t bound);
/* Returns the number's value as a size, an expression over a size that the graph computes. */
int64_t gm_number_as_size (GmRecorder *r, const GmTracker *number);
/* Returns a number as the other operand of a tensor: a tensor without dimensions, of the dtype that
 * a Python number takes beside that tensor. NULL: the number is a constant, or cannot be an
 * operand. */
const GmTracker *gm_number_operand (GmRecorder *r, const GmTracker *number, const GmMeta *beside);

/* -- tracker_float.c -- */
/* Returns the float that is the element of an f64 tensor without dimensions. */
const GmTracker *gm_float_new (GmRecorder *r, const GmTracker *tensor);
/* Returns the tracker of a float argument that was seen to change; NULL, without a break: it is a
 * constant. */
const GmTracker *gm_float_argument (GmRecorder *r, PyObject *real, const GmSource *source);
/* Returns an int that is an expression over sizes as a float; NULL: the graph, or this call, has no
 * float for it. */
const GmTracker *gm_float_of_size (GmRecorder *r, const GmTracker *size);
/* Returns the tensor whose element the float is. */
const GmTracker *gm_float_element (GmRecorder *r, const GmTracker *t);
/* Reads the float's value in this call; false: it is not known. */
bool gm_float_value (const GmTracker *t, double *out);
/* Returns t, or for a float of this kind the constant that it is fixed to from now on; breaks if
 * its value is not known. */
const GmTracker *gm_float_settled (GmRecorder *r, const GmTracker *t);
/* Compares the float with a constant, and guards only the result; op: Py_LT ... False: the float
 * has no source. */
bool gm_float_compares (GmRecorder *r, const GmTracker *t, int op, double with, bool *holds);
bool gm_is_number (const GmTracker *t);
/* True for a comparison of a number that the known facts do not decide. */
bool gm_is_condition (const GmTracker *t);
/* Returns the condition's truth as a value of the graph, a bool without dimensions; NULL: the
 * condition has the same truth for all numbers of the element's dtype. */
GmVal gm_number_truth (GmRecorder *r, const GmTracker *condition);
/* Assumes the condition from here on; the caller has it checked at run time. */
void gm_number_assume (GmRecorder *r, const GmTracker *condition);

#endif
