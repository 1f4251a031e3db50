/* SPDX-License-Identifier: Apache-2.0
 * control.h -- what this thread wants of compiled functions, and the type of marked functions.
 */
#ifndef GM_PYTHON_CONTROL_H
#define GM_PYTHON_CONTROL_H

#include "core/autograd/anomaly.h"
#include "core/base/thread.h"
#include "core/python/errors.h"

typedef enum { GM_STANCE_DEFAULT, GM_STANCE_FORCE_EAGER, GM_STANCE_EAGER_ON_RECOMPILE, GM_STANCE_FAIL_ON_RECOMPILE, GM_STANCE_EAGER_THEN_COMPILE } GmStance;

/* Of the calling thread. */
typedef struct {
  uint32_t off; /* nesting of functions that are not to be compiled: nothing is while it is not 0 */
  GmStance stance;
  const struct GmConfig *forced; /* force_backend: instead of every function's own; owned, or NULL */
  bool always; /* the compiled function that is called is the package's own way to run something: nothing keeps it from being compiled */
  bool steady; /* skip_guard_eval_unsafe: the entries that exist are enough, and the objects that they know do not change */
} GmControl;
extern GM_THREAD GmControl gm_control_now;

static inline GmControl *
gm_control (void)
{
  return &gm_control_now;
}

/* Whether compiled functions run as plain Python now. */
static inline bool
gm_control_is_plain (void)
{
  const GmControl *c = gm_control ();
  return !c->always && (c->off || c->stance == GM_STANCE_FORCE_EAGER || gm_anomaly_on);
}

extern PyTypeObject gm_py_marked_type;
int gm_py_init_control (PyObject *module);

#endif
