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
/* The same for an int; false: it is a constant. */
bool gm_size_int (GmRecorder *r, PyObject *real, const GmSource *source, int64_t *out);

void gm_size_init (GmRecorder *r);
/* At the end: a symbol that turned out to have one value leaves the graph and the guards.  Sets r->stop if the user had promised
 * that it would not. */
void gm_size_settle (GmRecorder *r);

#endif
