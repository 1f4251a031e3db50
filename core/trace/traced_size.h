/* SPDX-License-Identifier: Apache-2.0
 * traced_size.h -- sizes that are expressions, in the recorder: where they come from and the
 * conditions on them.
 */
#ifndef GM_TRACE_TRACED_SIZE_H
#define GM_TRACE_TRACED_SIZE_H

#include "core/trace/recorder.h"

/* Returns the tracker of a tensor's size as Python sees it: a constant int, or a symbolic
 * expression. */
const GmTracker *gm_size_tracker (GmRecorder *r, int64_t size);
/* Returns t; for a symbolic expression, returns the int of this call, to which a fact fixes it from
 * now on. */
const GmTracker *gm_size_settled (GmRecorder *r, const GmTracker *t);
static inline bool
gm_is_size (const GmTracker *t)
{
  return t->kind == &gm_kind_size;
}

/* Returns the meta with which the input `real` is recorded: `is`, but with symbols for sizes that
 * are known to change and for strides that follow from them. The user's marks are read from the
 * tensor `real`. */
GmMeta gm_size_input (GmRecorder *r, PyObject *real, const GmMeta *is, const GmSource *source);
/* Makes a symbol, *out, for the int `real`, an argument or an int found in an object, if it is
 * known to change between calls; false: it is a constant. */
bool gm_size_int (GmRecorder *r, PyObject *real, const GmSource *source, int64_t *out);

/* Returns a symbol for a size that the graph computes: the element of v, an i64 tensor without
 * dimensions that nothing else uses, from min to max. `what`: a description for messages. */
#define GM_SIZE_COUNT_MAX (INT64_C (1) << 48)
int64_t gm_size_counted (GmRecorder *r, GmValueId v, const char *what, int64_t min, int64_t max);
/* Returns a symbol of value 1 or more for a size of a body's inputs that each call of the body
 * determines: no input of the function and no element of its graph is this size. `what`: a
 * description for messages. */
int64_t gm_size_of_body (GmRecorder *r, const char *what);
bool gm_is_size_condition (const GmTracker *t);
/* Adds the condition as a fact, which each call checks once the size is known; `message`: the text
 * of the error if it does not hold, or NULL. */
void gm_size_assume (GmRecorder *r, const GmTracker *condition, const char *message);
/* Adds the fact a <= b in the way of gm_size_assume. */
void gm_size_assume_range (GmRecorder *r, int64_t a, int64_t b, const char *message);
/* Returns `question`, which only sizes that depend on data answer, with the meaning of the fact's
 * symbols and a hint: the text of a break. The caller frees it. */
char *gm_size_open_text (GmRecorder *r, const char *question, const GmSizeFact *fact);

/* True if the size, which the program has computed, is a 64-bit value in each call that the guards
 * let through. Products of tensors' sizes are assumed to fit; an expression of ints that could
 * overflow is bounded by a new fact. False: the size exceeds the bound in this call, and the caller
 * computes with Python ints. */
bool gm_size_bounded (GmRecorder *r, int64_t size);

void gm_size_init (GmRecorder *r);
uint32_t gm_size_n_symbols (const GmRecorder *r);
/* Interns, after a rollback, the sources of the symbols from number `first` on again. */
void gm_size_keep (GmRecorder *r, uint32_t first);
/* Ends the recording's sizes: replaces each symbol that has only one value by that number in the
 * graph and the guards. Returns a line for each of them, which names the fact that fixed it; in the
 * arena. Sets r->stop if the user had marked such a size as dynamic. */
const char *gm_size_settle (GmRecorder *r);

#endif
