/* SPDX-License-Identifier: Apache-2.0
 * wrap.c -- from an existing object and its source to a tracker; objects known by identity.
 *
 * Invariant: one existing object with identity has one tracker, whatever the paths to it; a second
 * path costs a SAME guard.  A tracker other than a lazy one exists only after the guards that make
 * its kind and type certain.
 */
#include "core/models/models.h"
#include "core/trace/class_made.h"
#include "core/models/tracker_control.h"

#include <string.h>

const GmTracker *
gm_known (GmRecorder *r, PyObject *real, const GmSource *source)
{
  const GmTracker *t = g_hash_table_lookup (r->by_real, real);
  if (t && t->kind == &gm_kind_contents && t->number) /* an object's own dict: gm_attrs_claim */
    return gm_record_break (r, GM_BREAK_DICT_OF_OBJECT, "object");
  if (t && t->kind == &gm_kind_contents) /* a module's globals, which attrs.c keeps as names */
    return gm_record_break (r, GM_BREAK_GLOBALS_FOREIGN,
                            "code that uses a module's dict as a value");
  if (t == NULL || source == NULL || t->source == source || t->source == NULL)
    return t;
  if (t->kind == &gm_kind_class || t->kind == &gm_kind_builtin || t->kind == &gm_kind_module
      || t->kind == &gm_kind_api)
    gm_guard (r, IS, source, .obj = real);
  else
    gm_guard (r, SAME, source, .other = t->source);
  return t;
}

void
gm_know (GmRecorder *r, const GmTracker *t)
{
  g_assert (t->real);
  gm_record_keep (r, t->real);
  g_hash_table_insert (r->by_real, t->real, (gpointer) t);
  g_ptr_array_add (r->wrapped, (gpointer) t);
}

const GmTracker *
gm_wrap_lazy (GmRecorder *r, PyObject *real, const GmSource *source)
{
  const GmTracker *stands_for = gm_stand_in (r, real);
  if (G_UNLIKELY (stands_for != NULL))
    return stands_for;
  gm_record_keep (r, real);
  return gm_tracker (r, .kind = &gm_kind_lazy, .real = real, .source = source);
}

const GmTracker *
gm_wrap_present (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard_add (r, &(GmGuard){ .kind = GM_GUARD_PRESENT, .source = source });
  return gm_wrap_lazy (r, real, source);
}

static bool
is_builtin_callable (PyObject *o)
{
  return PyCFunction_Check (o) || Py_IS_TYPE (o, &PyMethodDescr_Type)
         || Py_IS_TYPE (o, &PyWrapperDescr_Type) || Py_IS_TYPE (o, &PyClassMethodDescr_Type)
         || Py_IS_TYPE (o, gm_host.method_wrapper_type);
}

/* Returns the tracker of the function that `real`, a compiled function, wraps, and guards `real`:
 * called from a compiled function, it is inlined like that function. */
static const GmTracker *
wrap_compiled (GmRecorder *r, PyObject *real, const GmSource *source)
{
  PyObject *inner = PyObject_GetAttrString (real, "__wrapped__");
  if (inner == NULL)
    return gm_record_break_exception (r);
  gm_record_take (r, inner);
  gm_guard (r, IS, source, .obj = real);
  if (!PyFunction_Check (inner))
    return gm_record_break (r, GM_BREAK_CALL_OBJECT, Py_TYPE (inner)->tp_name);
  return gm_wrap (r, inner, gm_source_const (r, inner, source->name));
}

const GmTracker *
gm_wrap (GmRecorder *r, PyObject *real, const GmSource *source)
{
  g_assert (source != NULL);
  if (r->stop)
    return &gm_tracker_poison;
  const GmTracker *stands_for = gm_stand_in (r, real);
  if (G_UNLIKELY (stands_for != NULL))
    return stands_for;
  PyTypeObject *type = Py_TYPE (real);
  if (gm_is_constant_type (type) || type == gm_host.dtype_type
      || (gm_host.device_type && type == gm_host.device_type))
    return gm_wrap_constant (r, real, source);
  const GmTracker *t = gm_known (r, real, source);
  if (t)
    return t;
  if (gm_host.tensor_type && PyType_IsSubtype (type, gm_host.tensor_type))
    return gm_wrap_tensor (r, real, source);
  if (PyTuple_Check (real))
    return gm_wrap_tuple (r, real, source);
  if (type == &PyList_Type)
    return gm_wrap_list (r, real, source);
  if (type == &PyDict_Type)
    return gm_wrap_dict (r, real, source);
  if (type == &PySet_Type || type == &PyFrozenSet_Type)
    return gm_wrap_set (r, real, source);
  if (strcmp (type->tp_name, "collections.deque") == 0 && !gm_is_user_type (type))
    return gm_wrap_deque (r, real, source);
  if (type == &PyByteArray_Type)
    return gm_wrap_bytearray (r, real, source);
  if (type == &PyFunction_Type)
    return gm_wrap_function (r, real, source);
  if (type == &PyMethod_Type)
    return gm_wrap_method (r, real, source);
  if (gm_host.api_type && (type == gm_host.api_type || type == gm_host.api_method_type))
    return gm_wrap_api (r, real, source);
  if (gm_host.compiled_type && (PyObject *) type == gm_host.compiled_type)
    return wrap_compiled (r, real, source);
  if (gm_host.hook_handle_type && type == gm_host.hook_handle_type)
    return gm_wrap_hook_handle (r, real, source);
  if (gm_host.marked_type && type == gm_host.marked_type)
    return gm_wrap_marked (r, real, source);
  if (is_builtin_callable (real))
    return gm_wrap_builtin (r, real, source);
  if (PyType_Check (real))
    return gm_wrap_class (r, real, source);
  if (type == &PyModule_Type)
    return gm_wrap_module (r, real, source);
  if (type == &PySlice_Type)
    return gm_wrap_slice (r, real, source);
  if (type == &PyCell_Type)
    return gm_wrap_cell (r, real, source);
  if (gm_is_given_iterator (type))
    return gm_wrap_given_iterator (r, real, source);
  if (gm_is_getter (type))
    return gm_wrap_getter (r, real, source);
  if (gm_is_scalar (type))
    return gm_wrap_scalar (r, real, source);
  return gm_wrap_object (r, real, source);
}

const GmTracker *
gm_realize (GmRecorder *r, const GmTracker *t)
{
  if (t->kind != &gm_kind_lazy)
    return t;
  return gm_wrap (r, t->real, t->source);
}
