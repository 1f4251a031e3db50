/* SPDX-License-Identifier: Apache-2.0
 * random_draw.h -- numbers that Python's module random draws when the compiled function runs:
 * random_draw.c.
 */
#ifndef GM_MODELS_RANDOM_DRAW_H
#define GM_MODELS_RANDOM_DRAW_H

#include "core/trace/recorder.h"

/* A function or an argument of a call: an object, or the value of a source at each call. */
typedef struct {
  PyObject *obj;
  const GmSource *source; /* NULL: obj */
} GmDrawPart;

/* One call, made before the graph runs. */
struct GmDrawCall {
  const char *name;
  uint32_t n; /* number of parts: the function, then its arguments */
  const GmDrawPart *parts;
  const GmSource *result; /* a tensor without dimensions; NULL: the value is None, or unused */
  bool is_float;
  int64_t lo, hi; /* bounds of an integer */
};

/* Calls a method of random.Random through the module or its object: NULL, without a break, if the
 * function is no such method. */
const GmTracker *gm_random_function_call (GmRecorder *r, const GmTracker *f,
                                          const GmCallArgs *args);
bool gm_is_random_function (const GmTracker *f);
const GmTracker *gm_random_c_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args);
/* True for an existing object of the class random.Random itself. */
bool gm_is_random (const GmTracker *t);
/* Calls a method that random.Random has from C; NULL, without a break, if self is no
 * random.Random. */
const GmTracker *gm_random_method_call (GmRecorder *r, const GmTracker *self, PyObject *name,
                                        const GmCallArgs *args);

/* For the end of a recording: gm_random_draws_sources appends all sources that the calls use,
 * gm_random_draws_finish returns the calls by slots. */
void gm_random_draws_sources (const GmRecorder *r, GPtrArray *sources);
GmRecordDraw *gm_random_draws_finish (const GmRecorder *r, const uint32_t *slot_of);

#endif
