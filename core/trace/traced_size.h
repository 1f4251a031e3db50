/* SPDX-License-Identifier: Apache-2.0
 * traced_size.h -- sizes that are expressions, in the recorder: where they come from and how they
 * are told apart.
 */
#ifndef GM_TRACE_TRACED_SIZE_H
#define GM_TRACE_TRACED_SIZE_H

#include "core/trace/recorder.h"

/* Returns the Python value of a tensor's size: an int, or the expression. */
const GmTracker *gm_size_tracker (GmRecorder *r, int64_t size);
/* Returns t, or for an expression the int that it is fixed to from now on. */
const GmTracker *gm_size_settled (GmRecorder *r, const GmTracker *t);
static inline bool
gm_is_size (const GmTracker *t)
{
  return t->kind == &gm_kind_size;
}

/* Returns the meta that an input is recorded with: sizes which are known to change, and strides
 * that follow from them, become symbols. The user's marks are read from the tensor `real`. */
GmMeta gm_size_input (GmRecorder *r, PyObject *real, const GmMeta *is, const GmSource *source);
/* The same for an int, an argument or an int found in an object; false: it is a constant. */
bool gm_size_int (GmRecorder *r, PyObject *real, const GmSource *source, int64_t *out);

/* Returns a symbol for a size that the graph computes: the element of v, an i64 tensor of its own
 * without dimensions, from min to max. `what`: for messages. */
#define GM_SIZE_COUNT_MAX (INT64_C (1) << 48)
int64_t gm_size_counted (GmRecorder *r, GmValueId v, const char *what, int64_t min, int64_t max);
/* Returns a symbol, 1 or more, for a size of a body's inputs that each call of the body determines.
 * No input of the function and no element of its graph has this size. */
int64_t gm_size_of_body (GmRecorder *r, const char *what);
bool gm_is_size_condition (const GmTracker *t);
/* Assumes the condition from here on; each call checks it once it knows the size. `message`: the
 * text of the error, or NULL. */
void gm_size_assume (GmRecorder *r, const GmTracker *condition, const char *message);
/* The same for a <= b. */
void gm_size_assume_range (GmRecorder *r, int64_t a, int64_t b, const char *message);
/* Returns the reason why a question that only such sizes answer cannot be recorded, and a hint.
 * Caller frees. */
char *gm_size_open_text (GmRecorder *r, const char *question, const GmSizeFact *fact);

/* True if the size, which the program computed, has a 64-bit value for each call that the guards
 * let through. Products of tensors' sizes are assumed to have one; an expression of ints that could
 * overflow is bounded by a fact. False: the value of this call is beyond the bound; the caller goes
 * on with the numbers, which Python computes. */
bool gm_size_bounded (GmRecorder *r, int64_t size);

void gm_size_init (GmRecorder *r);
uint32_t gm_size_n_symbols (const GmRecorder *r);
/* Restores, after a rollback, the sources of the symbols from `first` on in the table of
 * sources. */
void gm_size_keep (GmRecorder *r, uint32_t first);
/* Removes, at the end, each symbol that turned out to have one value from the graph and the guards.
 * Returns a line for each of them, which names the fact that fixed it. Sets r->stop if the user had
 * promised that it would not be fixed. */
const char *gm_size_settle (GmRecorder *r);

#endif
