/* SPDX-License-Identifier: Apache-2.0
 * draw.h -- numbers that Python's module random draws when the compiled function runs: draw.c.
 */
#ifndef GM_TRACE_DRAW_H
#define GM_TRACE_DRAW_H

#include "core/trace/recorder.h"

/* What is called or passed: an object, or what is found under a source at each call. */
typedef struct {
  PyObject *obj;
  const GmSource *source; /* NULL: obj */
} GmDrawPart;

/* One call, made before the graph runs. */
struct GmDrawCall {
  const char *name;
  uint32_t n; /* of parts: the function, then its arguments */
  const GmDrawPart *parts;
  const GmSource *result; /* a tensor of no dimensions; NULL: the value is None, or nobody's */
  bool is_float;
  int64_t lo, hi;         /* between which an integer lies */
};

/* A method of random.Random, called through the module or with its object: NULL, without a break, if the function is none. */
const GmTracker *gm_random_function_call (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);
bool gm_is_random_function (const GmTracker *f);
const GmTracker *gm_random_c_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args);
/* An existing random.Random, of no class derived from it. */
bool gm_is_random (const GmTracker *t);
/* A method that the class has from C; NULL, without a break, if self is none. */
const GmTracker *gm_random_method_call (GmRecorder *r, const GmTracker *self, PyObject *name, const GmCallArgs *args);

/* For the end of a recording: all sources that the calls use, and the calls by slots. */
void gm_draws_sources (const GmRecorder *r, GPtrArray *sources);
GmRecordDraw *gm_draws_finish (const GmRecorder *r, const uint32_t *slot_of);

#endif
