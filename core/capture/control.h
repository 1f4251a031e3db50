/* SPDX-License-Identifier: Apache-2.0
 * control.h -- this thread's settings for compiled functions, and the type of marked functions.
 */
#ifndef GM_CAPTURE_CONTROL_H
#define GM_CAPTURE_CONTROL_H

#include "core/autograd/anomaly.h"
#include "core/base/thread.h"
#include "core/objects/errors.h"

typedef enum {
  GM_STANCE_DEFAULT,
  GM_STANCE_FORCE_EAGER,
  GM_STANCE_EAGER_ON_RECOMPILE,
  GM_STANCE_FAIL_ON_RECOMPILE,
  GM_STANCE_EAGER_THEN_COMPILE
} GmStance;

/* Settings of the calling thread for compiled functions. */
typedef struct {
  uint32_t off; /* nesting of functions that are not to be compiled; not 0: nothing is compiled */
  GmStance stance;
  /* force_backend: the configuration used in place of each function's own; owned, or NULL */
  const struct GmConfig *forced;
  /* True in a compiled function that the package itself uses to run code: no setting of the
   * thread disables the function */
  bool always;
  /* skip_guard_eval_unsafe: the program promises that no new entries are needed and that the
   * objects that guards have checked do not change */
  bool steady;
} GmControl;
extern GM_THREAD GmControl gm_control_now;

static inline GmControl *
gm_control (void)
{
  return &gm_control_now;
}

/* True if this thread runs compiled functions as plain Python now. */
static inline bool
gm_control_is_plain (void)
{
  const GmControl *c = gm_control ();
  return !c->always && (c->off || c->stance == GM_STANCE_FORCE_EAGER || gm_anomaly_on);
}

extern PyTypeObject gm_py_marked_type;
int gm_py_init_control (PyObject *module);

#endif
