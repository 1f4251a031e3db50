/* SPDX-License-Identifier: Apache-2.0
 * number.h -- integers that are known only at run time, and conditions on them: tracker_number.c.
 */
#ifndef GM_TRACE_NUMBER_H
#define GM_TRACE_NUMBER_H

#include "core/trace/recorder.h"

/* Returns a tracker of the number that is the element of `tensor`, whose dtype is an integer dtype
 * and which nothing else can change. */
const GmTracker *gm_number_new (GmRecorder *r, const GmTracker *tensor, GmDtype dtype);
/* Returns the result of item () or int () of a tensor as a number, or breaks with `what` in the
 * message. */
const GmTracker *gm_tensor_item (GmRecorder *r, const GmTracker *tensor, const char *what);
/* Returns the element of a tensor as gm_number_new does, for a number that is known to be in lo ...
 * hi. */
const GmTracker *gm_number_between (GmRecorder *r, const GmTracker *tensor, int64_t lo, int64_t hi);
/* Returns the number's value as a tensor without dimensions; NULL, without a break: the value may
 * exceed `bound` in magnitude, or may be no value of the dtype. */
const GmTracker *gm_number_as_tensor (GmRecorder *r, const GmTracker *number, GmDtype dtype,
                                      int64_t bound);
/* Returns the number's value as a size: a symbolic expression over a size that the graph
 * computes. */
int64_t gm_number_as_size (GmRecorder *r, const GmTracker *number);
/* Returns the number as the operand of a tensor with meta `beside`: a tensor without dimensions, of
 * the dtype that a Python number takes there. NULL: `number` is a constant, or cannot be an
 * operand. */
const GmTracker *gm_number_operand (GmRecorder *r, const GmTracker *number, const GmMeta *beside);

/* -- tracker_float.c -- */
/* Returns a tracker of the float that is the element of `tensor`, an f64 tensor without
 * dimensions. */
const GmTracker *gm_float_new (GmRecorder *r, const GmTracker *tensor);
/* Returns the tracker of the float `real` as an unknown float, if the profile has seen it change
 * between calls; NULL, without a break: the float is a constant. */
const GmTracker *gm_float_argument (GmRecorder *r, PyObject *real, const GmSource *source);
/* Returns `size`, an int that is an expression over sizes, as a float; NULL: the number of this
 * call is not known or not exact as a float, or the graph cannot compute the float. */
const GmTracker *gm_float_of_size (GmRecorder *r, const GmTracker *size);
/* Returns the tensor whose element is the float t; makes a float with a source an input of the
 * graph. */
const GmTracker *gm_float_element (GmRecorder *r, const GmTracker *t);
/* Stores the value that the float has in this call; false: the value is not known. */
bool gm_float_value (const GmTracker *t, double *out);
/* Returns t; for an unknown float, returns the constant of this call, to which a guard fixes it.
 * Breaks if the value is not known. */
const GmTracker *gm_float_settled (GmRecorder *r, const GmTracker *t);
/* Compares the float t with the constant `with` (op: Py_LT ...) and guards only the result, *holds.
 * False: t has no source, so nothing is guarded. */
bool gm_float_compares (GmRecorder *r, const GmTracker *t, int op, double with, bool *holds);
bool gm_is_number (const GmTracker *t);
/* True for a condition: a comparison of a number that the known bounds do not decide. */
bool gm_is_condition (const GmTracker *t);
/* Returns the condition's truth as a value of the graph, a bool tensor without dimensions; NULL:
 * the condition has the same truth for all numbers of the element's dtype. */
GmVal gm_number_truth (GmRecorder *r, const GmTracker *condition);
/* Narrows the number's bounds as if the condition held; the caller records a check of the condition
 * at run time. */
void gm_number_assume (GmRecorder *r, const GmTracker *condition);

#endif
