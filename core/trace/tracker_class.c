/* SPDX-License-Identifier: Apache-2.0
 * tracker_class.c -- classes: their attributes, their calls, and super.
 *
 * A class is guarded by identity.  Calling a class of the user's makes an object in the heap and
 * inlines __init__; classes with a __new__, a metaclass or a C layout of their own break.
 */
#include "core/trace/builtin.h"

#include <string.h>

const GmTracker *
gm_wrap_class (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, IS, source, .obj = real);
  const GmTracker *t = gm_tracker (r, .kind = &gm_kind_class, .real = real, .source = source);
  gm_know (r, t);
  return t;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  PyTypeObject *type = (PyTypeObject *) t->real;
  if (Py_TYPE (t->real) != &PyType_Type)
    return gm_record_break (r, GM_BREAK_ATTRIBUTE_HOOK, Py_TYPE (t->real)->tp_name,
                            "how classes work");
  if (PyUnicode_CompareWithASCIIString (name, "__name__") == 0)
    return gm_from_constant_take (r, PyObject_GetAttr (t->real, name));
  PyObject *meta = _PyType_Lookup (&PyType_Type, name);
  if (meta && Py_TYPE (meta)->tp_descr_set)
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "class");
  PyObject *found = _PyType_Lookup (type, name);
  gm_guard (r, CLASS_LOOKUP, NULL, .obj = t->real, .key = name, .ptr = found);
  if (found)
    return gm_class_value (r, type, name, gm_record_keep (r, found), NULL);
  return meta ? gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "class") : NULL;
}

/* -- Calls ----------------------------------------------------------------- */

static PyObject *
lookup (GmRecorder *r, PyTypeObject *type, const char *name, PyObject **key)
{
  *key = gm_record_take (r, PyUnicode_InternFromString (name));
  PyObject *found = _PyType_Lookup (type, *key);
  gm_guard (r, CLASS_LOOKUP, NULL, .obj = (PyObject *) type, .key = *key, .ptr = found);
  return found;
}

/* A class made by collections.namedtuple: its items by position and name. */
static const GmTracker *
named_tuple (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  PyObject *fields = PyDict_GetItemString (gm_type_dict (type), "_fields");
  PyObject *defaults = PyDict_GetItemString (gm_type_dict (type), "_field_defaults");
  uint32_t n = (uint32_t) PyTuple_GET_SIZE (fields);
  const char **names = gm_arena_newn (r->arena, const char *, n + 1);
  for (uint32_t i = 0; i < n; i++)
    names[i] = PyUnicode_AsUTF8 (PyTuple_GET_ITEM (fields, i));
  const GmTracker **items = gm_tracker_array (r, n);
  if (!gm_args_take (r, type->tp_name, args, names, n, items))
    return &gm_tracker_poison;
  for (uint32_t i = 0; i < n; i++)
    if (items[i] == NULL) {
      PyObject *value = defaults && PyDict_CheckExact (defaults)
                            ? PyDict_GetItemString (defaults, names[i])
                            : NULL;
      if (value == NULL)
        return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "a named tuple misses an item");
      items[i] = gm_wrap (r, value, gm_source_const (r, value, names[i]));
    }
  gm_record_keep (r, (PyObject *) type);
  return gm_tuple_new_of (r, type, items, n);
}

const GmTracker *
gm_class_allocate (GmRecorder *r, const GmTracker *t, const GmCallArgs *args,
                   const GmTracker **init)
{
  PyTypeObject *type = (PyTypeObject *) t->real;
  PyObject *key;
  *init = NULL;
  if (Py_TYPE (type) != &PyType_Type)
    return gm_record_break (r, GM_BREAK_CALL_CLASS, type->tp_name, "it has a metaclass");
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE))
    return gm_record_break (r, GM_BREAK_CALL_C, type->tp_name);
  if (type->tp_new != PyBaseObject_Type.tp_new)
    return gm_record_break (r, GM_BREAK_CALL_CLASS, type->tp_name,
                            PyExceptionClass_Check (t->real)
                                ? "it is an exception"
                                : "it has a __new__ or a C layout of its own");
  if (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT)
    return gm_record_break (r, GM_BREAK_CALL_CLASS, type->tp_name, "it is abstract");
  if (type->tp_del || type->tp_finalize)
    return gm_record_break (r, GM_BREAK_CALL_CLASS, type->tp_name, "it has a finalizer");
  const GmTracker *object = gm_object_new (r, type);
  PyObject *found = lookup (r, type, "__init__", &key);
  if (found && PyFunction_Check (found))
    *init = gm_method_new (r, gm_wrap (r, found, gm_source_class_attr (r, type, key)), object);
  else if (found != PyDict_GetItemString (gm_type_dict (&PyBaseObject_Type), "__init__"))
    return gm_record_break (r, GM_BREAK_CALL_CLASS, type->tp_name,
                            "its __init__ is not a Python function");
  else if (args->n || args->names)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                            "a class without __init__ takes no arguments");
  return object;
}

static const GmTracker *
call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  PyTypeObject *type = (PyTypeObject *) t->real;
  if (t->real == gm_host.no_grad || t->real == gm_host.enable_grad ||
      t->real == gm_host.set_grad_enabled)
    return gm_grad_mode_class_call (r, t->real, args);
  const GmTracker *v = gm_builtin_class_call (r, type, args);
  if (v || r->stop)
    return v ? v : &gm_tracker_poison;
  if (type->tp_base == &PyTuple_Type && PyDict_GetItemString (gm_type_dict (type), "_field_defaults") &&
      PyDict_GetItemString (gm_type_dict (type), "_fields"))
    return named_tuple (r, type, args);
  const GmTracker *init, *object = gm_class_allocate (r, t, args, &init);
  if (init && gm_realize (r, gm_call (r, init, args))->real != Py_None)
    return gm_record_break (r, GM_BREAK_EXCEPTION_RAISED,
                            "TypeError: __init__() should return None");
  return object;
}

static const GmTracker *
getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  return gm_record_break (r, GM_BREAK_SUBSCRIPT, "class", gm_type_text (r, key));
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (other->kind != &gm_kind_class || (op != Py_EQ && op != Py_NE) ||
      Py_TYPE (t->real) != &PyType_Type)
    return NULL;
  return gm_from_bool (r, (t->real == other->real) == (op == Py_EQ));
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->real);
  return true;
}

const GmTrackerKind gm_kind_class = {
  .name = "class",
  .truth = truth,
  .call = call,
  .getattr = getattr,
  .getitem = getitem,
  .compare = compare,
  .build = build,
};

/* isinstance with a class or a tuple of classes. */
bool
gm_is_instance (GmRecorder *r, const GmTracker *t, const GmTracker *cls)
{
  cls = gm_realize (r, cls);
  if (r->stop)
    return false;
  if (cls->kind == &gm_kind_tuple) {
    for (uint32_t i = 0; i < cls->n; i++)
      if (gm_is_instance (r, t, cls->items[i]))
        return true;
    return false;
  }
  PyTypeObject *type = gm_type_of (r, t);
  if (type == NULL || cls->kind != &gm_kind_class || Py_TYPE (cls->real) != &PyType_Type) {
    gm_record_break (r, GM_BREAK_CALL_C, "isinstance() with a class that decides by itself");
    return false;
  }
  return PyType_IsSubtype (type, (PyTypeObject *) cls->real);
}

/* -- super ----------------------------------------------------------------- */

const GmTracker *
gm_super_new (GmRecorder *r, PyTypeObject *type, const GmTracker *self)
{
  const GmTracker **items = gm_tracker_array (r, 1);
  items[0] = self;
  return gm_tracker (r, .kind = &gm_kind_super, .items = items, .n = 1, .real = (PyObject *) type);
}

static const GmTracker *
object_init (GmRecorder *r, const GmTracker *self, const GmCallArgs *args)
{
  return gm_args_plain (r, "object.__init__", args, 0, 0) ? gm_none (r) : &gm_tracker_poison;
}

static const GmTracker *
super_getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  static const GmMethodRow rows[] = { { "__init__", object_init }, { NULL, NULL } };
  PyTypeObject *self_type = gm_type_of (r, t->items[0]);
  PyObject *mro = self_type ? self_type->tp_mro : NULL;
  Py_ssize_t i = 0, n = mro ? PyTuple_GET_SIZE (mro) : 0;
  while (i < n && PyTuple_GET_ITEM (mro, i) != t->real)
    i++;
  for (i++; i < n; i++) {
    PyTypeObject *base = (PyTypeObject *) PyTuple_GET_ITEM (mro, i);
    PyObject *found = PyDict_GetItemWithError (gm_type_dict (base), name);
    gm_guard (r, CLASS_DICT, NULL, .obj = (PyObject *) base, .key = name, .ptr = found);
    if (found == NULL)
      continue;
    if (PyFunction_Check (found)) {
      g_autofree char *label = g_strdup_printf ("%s.%s", base->tp_name, PyUnicode_AsUTF8 (name));
      return gm_method_new (r, gm_wrap (r, found, gm_source_const (r, found, label)), t->items[0]);
    }
    const GmTracker *row = base == &PyBaseObject_Type ? gm_method_row (r, rows, t->items[0], name)
                                                      : NULL;
    return row ? row
               : gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "super object");
  }
  return NULL;
}

const GmTrackerKind gm_kind_super = { .name = "super", .getattr = super_getattr };
