/* SPDX-License-Identifier: Apache-2.0
 * tracker_slice.c -- slice objects: three items, which never change.
 */
#include "core/trace/kinds.h"

const GmTracker *
gm_slice_new (GmRecorder *r, const GmTracker *start, const GmTracker *stop, const GmTracker *step)
{
  const GmTracker **items = gm_tracker_array (r, 3);
  items[0] = start;
  items[1] = stop;
  items[2] = step;
  return gm_tracker (r, .kind = &gm_kind_slice, .items = items, .n = 3);
}

const GmTracker *
gm_wrap_slice (GmRecorder *r, PyObject *real, const GmSource *source)
{
  static const char *const names[] = { "start", "stop", "step" };
  static const size_t places[] = { offsetof (PySliceObject, start), offsetof (PySliceObject, stop),
                                   offsetof (PySliceObject, step) };
  gm_guard (r, TYPE, source, .obj = (PyObject *) &PySlice_Type);
  const GmTracker **items = gm_tracker_array (r, 3);
  for (int i = 0; i < 3; i++) {
    PyObject *name = gm_record_take (r, PyUnicode_InternFromString (names[i]));
    items[i] = gm_wrap_lazy (r, *(PyObject **) ((char *) real + places[i]),
                             gm_source_member (r, source, (int64_t) places[i], name));
  }
  const GmTracker *t = gm_tracker (r, .kind = &gm_kind_slice, .real = real, .source = source,
                                   .items = items, .n = 3);
  gm_know (r, t);
  return t;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return &PySlice_Type;
}

static const GmTracker *
method_indices (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  PyObject *slice = gm_constant (r, t),
           *method = slice ? gm_record_take (r, PyObject_GetAttrString (slice, "indices")) : NULL;
  const GmTracker *v = method ? gm_builtin_fold (r, method, args) : NULL;
  return v || r->stop ? v : gm_record_break (r, GM_BREAK_CALL_METHOD, "indices", "slice");
}

static const GmMethodRow methods[] = { { "indices", method_indices }, { NULL, NULL } };

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  static const char *const names[] = { "start", "stop", "step" };
  for (int i = 0; i < 3; i++)
    if (PyUnicode_CompareWithASCIIString (name, names[i]) == 0)
      return t->items[i];
  const GmTracker *bound = gm_method_row (r, methods, t, name);
  if (bound || _PyType_Lookup (&PySlice_Type, name) == NULL)
    return bound;
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

/* Compares slices as tuples of their parts. */
static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (other->kind != &gm_kind_slice)
    return NULL;
  return gm_compare (r, op, gm_tuple_new (r, t->items, 3), gm_tuple_new (r, other->items, 3));
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
  .compare = compare,
  .constant = constant,
  .build = build,
  .builds_anew = true,
};
