/* SPDX-License-Identifier: Apache-2.0
 * size.h -- sizes that are expressions, in the recorder: where they come from and how they are told apart.
 */
#ifndef GM_TRACE_SIZE_H
#define GM_TRACE_SIZE_H

#include "core/trace/recorder.h"

/* What a size of a tensor is in Python: an int, or the expression. */
const GmTracker *gm_size_tracker (GmRecorder *r, int64_t size);
/* t, or for an expression the int that it is from now on. */
const GmTracker *gm_size_settled (GmRecorder *r, const GmTracker *t);
static inline bool
gm_is_size (const GmTracker *t)
{
  return t->kind == &gm_kind_size;
}

/* The meta that an input is recorded with: sizes, and strides that follow from them, which are known
 * to change become symbols.  `marks`: what the user said of the tensor. */
GmMeta gm_size_input (GmRecorder *r, PyObject *real, const GmMeta *is, const GmSource *source);
/* The same for an int, an argument or one that is found in an object; false: it is a constant. */
bool gm_size_int (GmRecorder *r, PyObject *real, const GmSource *source, int64_t *out);

/* A size that the graph computes: the element of v, an i64 of its own without dimensions, from min to max.  `what`: for people. */
#define GM_SIZE_COUNT_MAX (INT64_C (1) << 48)
int64_t gm_size_counted (GmRecorder *r, GmValueId v, const char *what, int64_t min, int64_t max);
/* A size of a body's inputs that each of its calls says: 1 or more.  No input of the function says it, and no element of its graph. */
int64_t gm_size_of_body (GmRecorder *r, const char *what);
/* A comparison of such sizes that nothing decides yet; NULL: it is decided, or about others. */
const GmTracker *gm_size_condition (GmRecorder *r, int op, const GmTracker *a, const GmTracker *b);
bool gm_is_size_condition (const GmTracker *t);
/* It holds from here on, and each call checks it when it knows the size; `message`: what the error says, or NULL. */
void gm_size_assume (GmRecorder *r, const GmTracker *condition, const char *message);
/* The same for a <= b. */
void gm_size_assume_range (GmRecorder *r, int64_t a, int64_t b, const char *message);
/* Why something that only such sizes say cannot be recorded, and what would help.  Caller frees. */
char *gm_size_open_text (GmRecorder *r, const char *question, const GmSizeFact *fact);

/* True if the size, which the program computed, has a 64-bit value for each call that the guards let
 * through.  Products of sizes of tensors are taken to have one; an expression of ints that could have
 * none is bounded by a fact.  False: the value of this call is beyond the bound; the caller goes on
 * with the numbers, which Python computes. */
bool gm_size_bounded (GmRecorder *r, int64_t size);

void gm_size_init (GmRecorder *r);
uint32_t gm_size_n_symbols (const GmRecorder *r);
/* A rollback has left the symbols from `first` on: where they come from is in the table of sources again. */
void gm_size_keep (GmRecorder *r, uint32_t first);
/* At the end: a symbol that turned out to have one value leaves the graph and the guards.  A line for each that did, which says what fixed
 * it.  Sets r->stop if the user had promised that it would not. */
const char *gm_size_settle (GmRecorder *r);

#endif
