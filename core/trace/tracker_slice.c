/* SPDX-License-Identifier: Apache-2.0
 * tracker_slice.c -- slice objects: three items.
 */
#include "core/trace/recorder.h"

const GmTracker *
gm_slice_new (GmRecorder *r, const GmTracker *start, const GmTracker *stop, const GmTracker *step)
{
  const GmTracker **items = gm_tracker_array (r, 3);
  items[0] = start;
  items[1] = stop;
  items[2] = step;
  return gm_tracker (r, .kind = &gm_kind_slice, .items = items, .n = 3);
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return &PySlice_Type;
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  static const char *const names[] = { "start", "stop", "step" };
  for (int i = 0; i < 3; i++)
    if (PyUnicode_CompareWithASCIIString (name, names[i]) == 0)
      return t->items[i];
  return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "slice");
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

static PyObject *
constant (GmRecorder *r, const GmTracker *t)
{
  PyObject *parts[3];
  for (int i = 0; i < 3; i++)
    if ((parts[i] = gm_constant (r, t->items[i])) == NULL)
      return NULL;
  return PySlice_New (parts[0], parts[1], parts[2]);
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  for (int i = 0; i < 3; i++)
    gm_residual_value (b, t->items[i]);
  gm_residual_emit (b, GM_INSN_BUILD_SLICE, 3, NULL);
  return true;
}

const GmTrackerKind gm_kind_slice = {
  .name = "slice",
  .type = type,
  .truth = truth,
  .getattr = getattr,
  .constant = constant,
  .build = build,
  .builds_anew = true,
};
