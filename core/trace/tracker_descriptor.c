/* SPDX-License-Identifier: Apache-2.0
 * tracker_descriptor.c -- property, classmethod and staticmethod objects made in the region.
 *
 * Items are the arguments of the class: fget, fset, fdel, doc, or the one function; `data` is the
 * class. In a class a real descriptor of stand-ins represents them, see class_made.c, so that
 * lookups need no case for them.
 */
#include "core/trace/kinds.h"
#include "core/trace/class_made.h"

static const GmTracker *
descriptor (GmRecorder *r, PyTypeObject *type, const GmTracker *const *items, uint32_t n)
{
  const GmTracker **copy = gm_tracker_array (r, n);
  gm_tracker_copy (copy, items, n);
  return gm_tracker (r, .kind = &gm_kind_descriptor, .items = copy, .n = n, .data = type);
}

const GmTracker *
gm_descriptor_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  static const char *const names[] = { "fget", "fset", "fdel", "doc" };
  const GmTracker *in[4];
  if (type == &PyClassMethod_Type || type == &PyStaticMethod_Type) {
    if (!gm_args_plain (r, type->tp_name, args, 1, 1))
      return &gm_tracker_poison;
    in[0] = gm_realize (r, args->args[0]);
    return descriptor (r, type, in, 1);
  }
  if (type != &PyProperty_Type)
    return NULL;
  if (!gm_args_take (r, "property", args, names, 4, in))
    return &gm_tracker_poison;
  for (int i = 0; i < 4; i++)
    in[i] = in[i] ? gm_realize (r, in[i]) : gm_none (r);
  return descriptor (r, type, in, 4);
}

PyObject *
gm_descriptor_stand_in (GmRecorder *r, const GmTracker *t)
{
  PyObject *parts[4] = { NULL };
  for (uint32_t i = 0; i < t->n; i++)
    if ((parts[i] = gm_stand_in_for (r, t->items[i])) == NULL)
      return NULL;
  return PyObject_CallFunctionObjArgs ((PyObject *) t->data, parts[0], parts[1], parts[2], parts[3],
                                       NULL);
}

/* Returns the result of property.getter, setter or deleter: a new property with the function `part`
 * replaced by the argument. */
static const GmTracker *
with_part (GmRecorder *r, const GmTracker *t, const GmCallArgs *args, int part)
{
  const GmTracker *items[4];
  if (!gm_args_plain (r, "setter", args, 1, 1))
    return &gm_tracker_poison;
  gm_tracker_copy (items, t->items, 4);
  items[part] = gm_realize (r, args->args[0]);
  return descriptor (r, (PyTypeObject *) t->data, items, 4);
}

static const GmTracker *
with_getter (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return with_part (r, t, args, 0);
}

static const GmTracker *
with_setter (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return with_part (r, t, args, 1);
}

static const GmTracker *
with_deleter (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return with_part (r, t, args, 2);
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return (PyTypeObject *) t->data;
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  static const GmMethodRow rows[] = { { "getter", with_getter },
                                      { "setter", with_setter },
                                      { "deleter", with_deleter },
                                      { NULL, NULL } };
  static const char *const parts[] = { "fget", "fset", "fdel" };
  const char *text = PyUnicode_AsUTF8 (name);
  const GmTracker *bound = t->n == 4 ? gm_method_row (r, rows, t, name) : NULL;
  for (uint32_t i = 0; bound == NULL && i + 1 < t->n; i++)
    if (strcmp (text, parts[i]) == 0)
      bound = t->items[i];
  if (t->n == 1 && (strcmp (text, "__func__") == 0 || strcmp (text, "__wrapped__") == 0))
    bound = t->items[0];
  return bound ? bound : gm_record_break (r, GM_BREAK_ATTRIBUTE, text, gm_type_text (r, t));
}

static const GmTracker *
call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return t->data == &PyStaticMethod_Type
             ? gm_call (r, t->items[0], args)
             : gm_record_break (r, GM_BREAK_CALL_OBJECT, gm_type_text (r, t));
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  uint32_t n = t->n;
  if (gm_residual_cached (b, t))
    return true;
  if (n == 4 && t->items[3]->real == Py_None) /* doc is given, which may be None */
    n = 3;
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) t->data);
  for (uint32_t i = 0; i < n; i++)
    gm_residual_value (b, t->items[i]);
  gm_residual_emit (b, GM_INSN_CALL, n, NULL);
  gm_residual_allocated (b, t);
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_descriptor = {
  .name = "descriptor",
  .type = type,
  .call = call,
  .getattr = getattr,
  .build = build,
};
