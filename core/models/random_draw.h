/* SPDX-License-Identifier: Apache-2.0
 * random_draw.h -- numbers that Python's module random draws when the compiled function runs:
 * random_draw.c.
 */
#ifndef GM_MODELS_RANDOM_DRAW_H
#define GM_MODELS_RANDOM_DRAW_H

#include "core/trace/recorder.h"

/* The function or an argument of a call: a constant object, or the value of a source at each
 * call. */
typedef struct {
  PyObject *obj;
  const GmSource *source; /* NULL: obj */
} GmDrawPart;

/* A call of the module random that is made before the graph runs. */
struct GmDrawCall {
  const char *name;
  uint32_t n; /* number of parts: the function, then its arguments */
  const GmDrawPart *parts;
  const GmSource *result; /* a tensor without dimensions; NULL: the value is None, or unused */
  bool is_float;
  int64_t lo, hi; /* bounds of an integer */
};

/* Record a call of the module random: gm_random_function_call of a Python function for which
 * gm_is_random_function is true, gm_random_c_call of a C function (NULL, without a break: fn is no
 * method of a random.Random).  Both return poison after a break. */
const GmTracker *gm_random_function_call (GmRecorder *r, const GmTracker *f,
                                          const GmCallArgs *args);
bool gm_is_random_function (const GmTracker *f);
const GmTracker *gm_random_c_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args);
/* True if t is an existing object of the class random.Random itself, not of a subclass. */
bool gm_is_random (const GmTracker *t);
/* Records a call of a method that random.Random inherits from its C class; NULL, without a
 * break, if self is no random.Random. */
const GmTracker *gm_random_method_call (GmRecorder *r, const GmTracker *self, PyObject *name,
                                        const GmCallArgs *args);

/* End of a recording: gm_random_draws_sources appends all sources that the calls use,
 * gm_random_draws_finish returns the calls with slots in the place of the sources. */
void gm_random_draws_sources (const GmRecorder *r, GPtrArray *sources);
GmRecordDraw *gm_random_draws_finish (const GmRecorder *r, const uint32_t *slot_of);

#endif
