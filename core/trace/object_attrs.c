/* SPDX-License-Identifier: Apache-2.0
 * object_attrs.c -- attributes of instances, found and stored as object.__getattribute__ and
 * object.__setattr__ do it.
 *
 * The order is: data descriptor, instance dict, other descriptor or class attribute, __getattr__.
 * Each step is guarded: the class's lookup by identity, the instance's entry by presence and value
 * or by absence.  Properties, descriptors and overridden hooks of the user's are inlined, so what
 * is replayed are the plain stores that they did, never the hooks again.
 */
#include "core/models/random_draw.h"
#include "core/trace/attrs.h"
#include "core/models/models.h"
#include "core/models/autograd_function.h"
#include "core/trace/class_made.h"
#include "core/trace/exception.h"
#include "core/models/members.h"
#include "core/trace/instance.h"

#include <structmember.h>
#include <string.h>

/* -- Class lookups --------------------------------------------------------- */

static PyObject *
lookup (GmRecorder *r, PyTypeObject *type, PyObject *name)
{
  if (G_UNLIKELY (r->made || r->classes_written) && gm_class_changed (r, type)) {
    PyObject *stored = gm_class_lookup_made (r, type, name);
    return stored ? gm_record_keep (r, stored) : NULL;
  }
  PyObject *found = _PyType_Lookup (type, name);
  if (found)
    gm_record_keep (r, found);
  gm_guard (r, CLASS_LOOKUP, NULL, .obj = (PyObject *) type, .key = name, .ptr = found);
  return found;
}

/* Looks up an attribute of the class; see instance.h. If the attribute's own class is a Python
 * class, its descriptor methods are guarded as well: they may be assigned later. */
PyObject *
gm_class_lookup (GmRecorder *r, PyTypeObject *type, PyObject *name)
{
  static const char *const protocol[] = { "__get__", "__set__", "__delete__" };
  PyObject *found = lookup (r, type, name);
  if (found && !PyType_Check (found) && !(Py_TYPE (found)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE))
    for (size_t i = 0; i < G_N_ELEMENTS (protocol); i++)
      lookup (r, Py_TYPE (found), gm_record_take (r, PyUnicode_InternFromString (protocol[i])));
  return found;
}

PyObject *
gm_class_lookup_text (GmRecorder *r, PyTypeObject *type, const char *name)
{
  return gm_class_lookup (r, type, gm_record_take (r, PyUnicode_InternFromString (name)));
}

PyObject *
gm_object_default (const char *name)
{
  return PyDict_GetItemString (gm_type_dict (&PyBaseObject_Type), name);
}

/* True if `o` is a C method for objects of a class that `type` does not derive from: calling it
 * raises. */
static bool
is_foreign (PyTypeObject *type, PyObject *o)
{
  bool typed = Py_IS_TYPE (o, &PyWrapperDescr_Type) || Py_IS_TYPE (o, &PyMethodDescr_Type);
  return typed && !PyType_IsSubtype (type, ((PyDescrObject *) o)->d_type);
}

static bool
is_c_descriptor (PyObject *o)
{
  return Py_IS_TYPE (o, &PyWrapperDescr_Type) || Py_IS_TYPE (o, &PyMethodDescr_Type)
         || Py_IS_TYPE (o, &PyGetSetDescr_Type) || Py_IS_TYPE (o, &PyMemberDescr_Type)
         || Py_IS_TYPE (o, &PyClassMethodDescr_Type) || PyCFunction_Check (o);
}

GmHow
gm_object_how (GmRecorder *r, const GmTracker *t, const char *name, PyObject **found)
{
  PyObject *o = gm_class_lookup_text (r, (PyTypeObject *) t->data, name);
  if (found)
    *found = o;
  if (o == NULL)
    return GM_HOW_ABSENT;
  if (PyFunction_Check (o))
    return GM_HOW_PYTHON;
  return is_c_descriptor (o) && !is_foreign ((PyTypeObject *) t->data, o) ? GM_HOW_C : GM_HOW_OTHER;
}

/* True if `found` is a slot wrapper of the C function `function`, such as object's or list's own
 * method. */
static bool
wraps (PyObject *found, void *function)
{
  return found && Py_IS_TYPE (found, &PyWrapperDescr_Type)
         && ((PyWrapperDescrObject *) found)->d_wrapped == function;
}

/* True if object.__getattribute__ finds the attributes of the class's instances; __getattr__ may
 * follow. */
static bool
plain_lookup (GmRecorder *r, PyTypeObject *type)
{
  if (!gm_is_user_type (type))
    return type->tp_getattro == PyObject_GenericGetAttr;
  return wraps (gm_class_lookup_text (r, type, "__getattribute__"), PyObject_GenericGetAttr);
}

/* True if `lookup`, a tp_getattro, is a C function that finds `__class__` on the type, where
 * object's own is. */
static bool
finds_own_class (getattrofunc lookup)
{
  return lookup == PyObject_GenericGetAttr || lookup == PyType_Type.tp_getattro
         || lookup == PyModule_Type.tp_getattro || lookup == PySuper_Type.tp_getattro
         || lookup == PyMethod_Type.tp_getattro || lookup == Py_GenericAliasType.tp_getattro
         || (gm_host.tensor_type && lookup == gm_host.tensor_type->tp_getattro);
}

bool
gm_type_hides_class (GmRecorder *r, PyTypeObject *type)
{
  if (!gm_is_user_type (type))
    return !finds_own_class (type->tp_getattro) || type == gm_host.hook_handle_type;
  PyObject *hook = gm_class_lookup_text (r, type, "__getattribute__");
  bool plain = hook && Py_IS_TYPE (hook, &PyWrapperDescr_Type)
               && finds_own_class ((getattrofunc) ((PyWrapperDescrObject *) hook)->d_wrapped);
  return !plain || gm_class_lookup_text (r, type, "__class__") != gm_object_default ("__class__");
}

static const GmTracker *
class_tracker (GmRecorder *r, PyTypeObject *type)
{
  return gm_wrap (r, (PyObject *) type, gm_source_const (r, (PyObject *) type, type->tp_name));
}

/* True for a C method whose result depends on the instance of a subclass, not only on the value
 * inside of it: methods of `object` about attributes and class, and __sizeof__. */
static bool
sees_instance (const PyDescrObject *found)
{
  return found->d_type == &PyBaseObject_Type
         || PyUnicode_CompareWithASCIIString (found->d_name, "__sizeof__") == 0;
}

/* True if the model of the storage can run the C method `found` of the instance's class. False for
 * a method that a C subclass of dict overrides (defaultdict's __init__ and __repr__), for a dict's
 * method of which OrderedDict has its own, and for a method that reads more than the value. */
static bool
knows_descriptor (const GmTracker *storage, PyObject *found)
{
  if (!Py_IS_TYPE (found, &PyWrapperDescr_Type) && !Py_IS_TYPE (found, &PyMethodDescr_Type))
    return true;
  if (storage->kind == &gm_kind_constant)
    return !sees_instance ((PyDescrObject *) found);
  return storage->kind != &gm_kind_dict
         || _PyType_Lookup (gm_dict_owner (storage), ((PyDescrObject *) found)->d_name) == found;
}

/* Returns t.copy () for an OrderedDict or a defaultdict, which calls its class. */
static const GmTracker *
copy_by_class (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  PyTypeObject *type = (PyTypeObject *) t->data;
  if (!gm_args_plain (r, "copy", args, 0, 0))
    return &gm_tracker_poison;
  const GmTracker *in[2] = { t, t };
  bool made = gm_is_defaultdict (type);
  if (made)
    in[0] = gm_getattr (r, t, gm_record_take (r, PyUnicode_InternFromString ("default_factory")));
  return r->stop ? &gm_tracker_poison : gm_call_n (r, class_tracker (r, type), in, made ? 2 : 1);
}

/* -- Descriptors ----------------------------------------------------------- */

static const GmTracker *
property_get (GmRecorder *r, const GmTracker *self, PyObject *property, PyObject *name)
{
  PyObject *getter = gm_record_take (r, PyObject_GetAttrString (property, "fget"));
  if (!PyFunction_Check (getter))
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), gm_type_text (r, self));
  return gm_call_n (r, gm_wrap (r, getter, gm_source_const (r, getter, PyUnicode_AsUTF8 (name))),
                    &self, 1);
}

/* Returns the value of a functools.cached_property: computes the value once and stores it beside
 * the other attributes. */
static const GmTracker *
cached_get (GmRecorder *r, const GmTracker *self, PyObject *descriptor, PyObject *name)
{
  PyObject *func = PyObject_GetAttrString (descriptor, "func"),
           *stored = PyObject_GetAttrString (descriptor, "attrname");
  const GmTracker *v = NULL;
  if (func && stored && PyFunction_Check (func) && PyUnicode_CheckExact (stored)) {
    gm_record_keep (r, func);
    v = gm_call_n (r, gm_wrap (r, func, gm_source_const (r, func, PyUnicode_AsUTF8 (name))), &self,
                   1);
    gm_object_store (r, self, gm_record_keep (r, stored), v);
  }
  PyErr_Clear ();
  Py_XDECREF (func);
  Py_XDECREF (stored);
  return v ? v : gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "object");
}

static bool
is_named (PyTypeObject *type, const char *module, const char *name)
{
  const char *dot = strrchr (type->tp_name, '.');
  if (strcmp (dot ? dot + 1 : type->tp_name, name) != 0)
    return false;
  PyObject *dict = gm_type_dict (type);
  PyObject *m = dict ? PyDict_GetItemString (dict, "__module__") : NULL;
  return m && PyUnicode_Check (m) && PyUnicode_CompareWithASCIIString (m, module) == 0;
}

/* Returns the value of a descriptor `found` of a Python class: calls __get__ (descriptor, instance
 * or None, class). */
static const GmTracker *
user_get (GmRecorder *r, PyTypeObject *type, PyObject *name, PyObject *found, const GmTracker *self)
{
  PyTypeObject *kind = Py_TYPE (found);
  PyObject *get = gm_class_lookup_text (r, kind, "__get__");
  if (get == NULL || !PyFunction_Check (get))
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), type->tp_name);
  const GmTracker *args[3] = { gm_wrap (r, found, gm_source_class_attr (r, type, name)),
                               self ? self : gm_none (r), class_tracker (r, type) };
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString ("__get__"));
  return gm_call_n (r, gm_wrap (r, get, gm_source_class_attr (r, kind, key)), args, 3);
}

/* True for a function, and for any other object that a call binds in the way of a function. */
static bool
binds_like_function (PyObject *o)
{
  PyTypeObject *kind = Py_TYPE (o);
  return PyFunction_Check (o) || gm_is_cached_function (kind)
         || (gm_host.compiled_type && (PyObject *) kind == gm_host.compiled_type)
         || (gm_host.marked_type && kind == gm_host.marked_type);
}

/* Returns the value of a classmethod that wraps `inner`: a bound method of the class. Until CPython
 * 3.12 the __get__ of `inner` is called with the class, if `inner` has one. */
static const GmTracker *
class_method_get (GmRecorder *r, PyTypeObject *type, PyObject *name, PyObject *inner,
                  const char *label)
{
  PyTypeObject *kind = Py_TYPE (inner);
  bool binds = PY_VERSION_HEX < 0x030d0000 && kind->tp_descr_get && !PyCFunction_Check (inner);
  if (binds && kind == &PyProperty_Type)
    return property_get (r, class_tracker (r, type), inner, name);
  if ((binds && !binds_like_function (inner)) || kind->tp_call == NULL)
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), type->tp_name);
  return gm_method_new (r, gm_wrap (r, inner, gm_source_const (r, inner, label)),
                        class_tracker (r, type));
}

const GmTracker *
gm_descriptor_get (GmRecorder *r, PyTypeObject *owner, PyTypeObject *type, PyObject *name,
                   PyObject *found, const GmTracker *self)
{
  const char *text = PyUnicode_AsUTF8 (name);
  PyTypeObject *kind = Py_TYPE (found);
  g_autofree char *label = g_strdup_printf ("%s.%s", owner->tp_name, text);
  const GmSource *source =
      owner == type ? gm_source_class_attr (r, type, name) : gm_source_const (r, found, label);
  if (binds_like_function (found)) {
    const GmTracker *f = gm_wrap (r, found, source);
    return self ? gm_method_new (r, f, self) : f;
  }
  if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type) {
    PyObject *inner = gm_record_take (r, PyObject_GetAttrString (found, "__func__"));
    if (kind == &PyClassMethod_Type)
      return class_method_get (r, type, name, inner, label);
    return gm_wrap (r, inner, gm_source_const (r, inner, label));
  }
  if (kind == &PyProperty_Type)
    return self ? property_get (r, self, found, name) : gm_wrap_lazy (r, found, source);
  if (kind->tp_descr_get == NULL || PyType_Check (found) || PyCFunction_Check (found)
      || (gm_host.api_type && kind == gm_host.api_type))
    return gm_wrap_lazy (r, found, source);
  if (self && is_named (kind, "functools", "cached_property"))
    return cached_get (r, self, found, name);
  if (kind == &PyClassMethodDescr_Type && (self == NULL || gm_storage (self))) { /* dict.fromkeys */
    const GmTracker *bound = gm_class_method (r, class_tracker (r, type), name);
    return bound ? bound : gm_record_break (r, GM_BREAK_ATTRIBUTE, text, type->tp_name);
  }
  if (self == NULL && (kind == &PyWrapperDescr_Type || kind == &PyMethodDescr_Type))
    return gm_wrap (r, found, source); /* list.append: a function of C */
  const GmTracker *storage = self ? gm_storage (self) : NULL;
  if (storage && storage->kind == &gm_kind_dict && strcmp (text, "copy") == 0
      && gm_dict_class_is_kept (self)
      && !(kind == &PyMethodDescr_Type && ((PyDescrObject *) found)->d_type == &PyDict_Type)) {
    static const GmMethodRow rows[] = { { "copy", copy_by_class }, { NULL, NULL } };
    bool exact = type == &PyODict_Type || gm_is_defaultdict (type);
    return exact ? gm_builtin_of (r, gm_method_row (r, rows, self, name), found, self)
                 : gm_record_break (r, GM_BREAK_CALL_METHOD, text, type->tp_name);
  }
  if (storage && is_c_descriptor (found) && storage->kind->getattr
      && knows_descriptor (storage, found)) {
    const GmTracker *v = storage->kind->getattr (r, storage, name);
    if (v && !r->stop)
      return gm_builtin_of (r, v, found, self);
    if (r->stop)
      return v;
  }
  if (gm_is_user_type (kind))
    return user_get (r, type, name, found, self);
  if (self && gm_is_members_method (found))
    return gm_builtin_of (r, gm_members_method (r, self, name), found, self);
  if (self && kind == &PyMethodDescr_Type
      && ((PyDescrObject *) found)->d_type == &PyBaseObject_Type) {
    const GmTracker *bound = gm_object_method (r, self, name);
    if (bound || r->stop)
      return bound ? gm_builtin_of (r, bound, found, self) : &gm_tracker_poison;
  }
  /* A C method without a model is returned, and a call of it breaks. */
  if (self && self->real && self->source && kind == &PyMethodDescr_Type
      && (!gm_is_user_type (type) || gm_is_random (self)))
    return gm_builtin_of (r, gm_builtin_method (r, text, self), found, self);
  return gm_record_break (r, GM_BREAK_ATTRIBUTE, text, type->tp_name);
}

const GmTracker *
gm_class_value (GmRecorder *r, PyTypeObject *type, PyObject *name, PyObject *found,
                const GmTracker *self)
{
  return gm_descriptor_get (r, type, type, name, found, self);
}

/* -- Reading --------------------------------------------------------------- */

/* True if `found` is a member descriptor of `type` under its own name. A descriptor of another
 * class would read beyond the object, where CPython raises; and the heap keeps each member under
 * one name only. */
static bool
is_own_member (PyTypeObject *type, PyObject *found, PyObject *name)
{
  const PyDescrObject *d = (PyDescrObject *) found;
  return Py_IS_TYPE (found, &PyMemberDescr_Type) && PyType_IsSubtype (type, d->d_type)
         && gm_str_equal (d->d_name, name);
}

const struct PyMemberDef *
gm_slot_of (PyObject *object, PyObject *name)
{
  PyTypeObject *type = Py_TYPE (object);
  PyObject *found = _PyType_Lookup (type, name);
  const PyMemberDef *m =
      found && is_own_member (type, found, name) ? ((PyMemberDescrObject *) found)->d_member : NULL;
  return m && m->type == T_OBJECT_EX ? m : NULL;
}

/* Returns the value of a slot of __slots__, a member of the object; raises AttributeError if it is
 * empty. */
static const GmTracker *
member_get (GmRecorder *r, const GmTracker *t, PyObject *descriptor, PyObject *name)
{
  PyMemberDef *m = ((PyMemberDescrObject *) descriptor)->d_member;
  bool own = is_own_member ((PyTypeObject *) t->data, descriptor, name);
  if (!own || (m->type != T_OBJECT_EX && m->type != T_OBJECT))
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), gm_type_text (r, t));
  const GmTracker *stored = gm_attrs_get (r, t, name);
  if (stored)
    return stored == &gm_tracker_null ? NULL : stored;
  PyObject *value = t->real ? *(PyObject **) ((char *) t->real + m->offset) : NULL;
  if (value)
    return gm_wrap_present (r, value, gm_source_member (r, t->source, m->offset, name));
  if (t->real)
    gm_guard (r, MEMBER_ABSENT, t->source, .index = m->offset, .key = name);
  return m->type == T_OBJECT ? gm_none (r) : NULL;
}

const GmTracker *
gm_instance_get (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *stored = gm_attrs_get (r, t, name);
  if (stored)
    return stored == &gm_tracker_null ? NULL : stored;
  if (t->real == NULL)
    return NULL;
  if (!gm_attrs_claim (r, t))
    return &gm_tracker_poison;
  PyObject **dict = _PyObject_GetDictPtr (t->real);
  PyObject *value = dict && *dict ? PyDict_GetItemWithError (*dict, name) : NULL;
  if (value)
    return gm_wrap_present (r, value, gm_source_attr (r, t->source, name));
  PyErr_Clear ();
  if (dict)
    gm_guard (r, ATTR_ABSENT, t->source, .key = name);
  return NULL;
}

static bool
has_dict (PyTypeObject *type)
{
  return type->tp_dictoffset != 0 || (type->tp_flags & Py_TPFLAGS_MANAGED_DICT);
}

/* Returns the item of t, an instance of a named tuple's subclass, for the field `name`; NULL: there
 * is no such field. */
static const GmTracker *
field_of (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *storage = gm_storage (t);
  PyObject *fields = storage && storage->kind == &gm_kind_tuple
                         ? gm_class_lookup_text (r, (PyTypeObject *) t->data, "_fields")
                         : NULL;
  for (Py_ssize_t i = 0;
       fields && PyTuple_CheckExact (fields) && i < PyTuple_GET_SIZE (fields) && i < storage->n;
       i++)
    if (gm_str_equal (PyTuple_GET_ITEM (fields, i), name))
      return storage->items[i];
  return NULL;
}

static const GmTracker *
data_descriptor_get (GmRecorder *r, const GmTracker *t, PyObject *found, PyObject *name)
{
  const GmTracker *storage = gm_storage (t);
  PyTypeObject *type = (PyTypeObject *) t->data;
  if (Py_IS_TYPE (found, &PyProperty_Type))
    return property_get (r, t, found, name);
  if (Py_IS_TYPE (found, &PyGetSetDescr_Type) && has_dict (type) && !gm_is_partial (type)
      && PyUnicode_CompareWithASCIIString (name, "__dict__") == 0)
    return gm_instance_dict (r, t);
  if (gm_is_namespace (type) && PyUnicode_CompareWithASCIIString (name, "__dict__") == 0)
    return gm_instance_dict (r, t);
  if (Py_IS_TYPE (found, &PyMemberDescr_Type)
      && !(storage && storage->kind == &gm_kind_exception
           && !gm_is_user_type (((PyDescrObject *) found)->d_type)))
    return member_get (r, t, found, name);
  if (gm_is_user_type (Py_TYPE (found)))
    return user_get (r, type, name, found, t);
  if (is_named (Py_TYPE (found), "collections", "_tuplegetter")
      || strcmp (Py_TYPE (found)->tp_name, "_collections._tuplegetter") == 0) {
    const GmTracker *field = field_of (r, t, name);
    if (field)
      return field;
  }
  if (storage && is_c_descriptor (found) && storage->kind->getattr)
    return storage->kind->getattr (r, storage, name);
  return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), gm_type_text (r, t));
}

const GmTracker *
gm_object_generic_get (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  PyTypeObject *type = (PyTypeObject *) t->data;
  PyObject *found = gm_class_lookup (r, type, name);
  if (found && Py_TYPE (found)->tp_descr_set)
    return data_descriptor_get (r, t, found, name);
  const GmTracker *v = gm_instance_get (r, t, name);
  if (v)
    return v;
  return found ? gm_descriptor_get (r, type, type, name, found, t) : NULL;
}

const GmTracker *
gm_object_getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  PyTypeObject *type = (PyTypeObject *) t->data;
  if ((PyObject *) type == gm_host.context_type) {
    const GmTracker *own = gm_context_getattr (r, t, name);
    if (own)
      return own;
  }
  const GmTracker *v;
  if (plain_lookup (r, type)) {
    v = gm_object_generic_get (r, t, name);
  } else { /* a hook of the user's raises if it finds nothing */
    if (gm_object_how (r, t, "__getattribute__", NULL) != GM_HOW_PYTHON)
      return gm_record_break (r, GM_BREAK_ATTRIBUTE_HOOK, type->tp_name, "__getattribute__");
    const GmTracker *arg = gm_from_constant (r, name);
    v = gm_call_special (r, t, "__getattribute__", &arg, 1);
  }
  if (r->pending) { /* after an AttributeError of a property __getattr__ is called, too */
    const GmTracker *raised = r->pending;
    GmBreakInfo *stop = r->stop;
    if (!gm_exception_caught (r, PyExc_AttributeError))
      return v;
    if (gm_class_lookup_text (r, type, "__getattr__") == NULL) { /* the absence of __getattr__ is
                                                                    guarded, too */
      r->pending = raised;
      r->stop = stop;
      return v;
    }
    v = NULL;
  }
  if (v || r->stop)
    return v;
  PyObject *hook = gm_class_lookup_text (r, type, "__getattr__");
  if (hook && PyFunction_Check (hook)) {
    PyObject *key = gm_record_take (r, PyUnicode_InternFromString ("__getattr__"));
    const GmTracker *args[2] = { t, gm_from_constant (r, name) };
    return gm_call_n (r, gm_wrap (r, hook, gm_source_class_attr (r, type, key)), args, 2);
  }
  if (gm_is_members_method (hook))
    return gm_members_get (r, t, name);
  return hook ? gm_record_break (r, GM_BREAK_ATTRIBUTE_HOOK, type->tp_name, "__getattr__") : NULL;
}

/* -- Writing --------------------------------------------------------------- */

/* Stores through a data descriptor of the user's: calls __set__ (descriptor, instance, value), or
 * __delete__. */
static void
user_set (GmRecorder *r, const GmTracker *t, PyObject *found, PyObject *name,
          const GmTracker *value)
{
  PyTypeObject *type = (PyTypeObject *) t->data, *kind = Py_TYPE (found);
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString (value ? "__set__" : "__delete__"));
  PyObject *set = gm_class_lookup (r, kind, key);
  if (set == NULL || !PyFunction_Check (set)) {
    gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, PyUnicode_AsUTF8 (name), gm_type_text (r, t));
    return;
  }
  const GmTracker *args[3] = { gm_wrap (r, found, gm_source_class_attr (r, type, name)), t, value };
  gm_call_n (r, gm_wrap (r, set, gm_source_class_attr (r, kind, key)), args, value ? 3 : 2);
}

/* Raises the AttributeError for a property without a setter (`set`) or deleter. Its text has the
 * property's own name, which may differ from the attribute's. */
static void
property_refuses (GmRecorder *r, const GmTracker *t, PyObject *property, bool set)
{
  PyTypeObject *type = (PyTypeObject *) t->data;
  PyObject *object = t->real                                     ? Py_NewRef (t->real)
                     : gm_layout_of (type) == &PyBaseObject_Type ? PyType_GenericAlloc (type, 0)
                                                                 : NULL;
  if (object && PyProperty_Type.tp_descr_set (property, object, set ? Py_None : NULL) < 0)
    gm_raise_pending (r);
  else
    gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, "a property", gm_type_text (r, t));
  PyErr_Clear ();
  Py_XDECREF (object);
}

static void
property_set (GmRecorder *r, const GmTracker *t, PyObject *found, PyObject *name,
              const GmTracker *value)
{
  PyObject *setter = gm_record_take (r, PyObject_GetAttrString (found, value ? "fset" : "fdel"));
  const GmTracker *args[2] = { t, value };
  const char *text = PyUnicode_AsUTF8 (name);
  if (PyFunction_Check (setter))
    gm_call_n (r, gm_wrap (r, setter, gm_source_const (r, setter, text)), args, value ? 2 : 1);
  else if (setter == Py_None)
    property_refuses (r, t, found, value != NULL);
  else
    gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, text, gm_type_text (r, t));
}

/* Records the effect of a store of an attribute (value NULL: deletion). If the class overrides
 * __setattr__, the replay bypasses the override; unless `assigned`: the override does nothing but
 * store. */
static void
store_effect (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value,
              bool assigned)
{
  if (assigned || ((PyTypeObject *) t->data)->tp_setattro == PyObject_GenericSetAttr) {
    const GmTracker *args[2] = { t, value };
    gm_effect (r, value ? GM_EFFECT_SETATTR : GM_EFFECT_DELATTR, NULL, name, args, value ? 2 : 1);
    return;
  }
  const GmTracker *args[3] = { t, gm_from_constant (r, name), value };
  gm_effect (r, GM_EFFECT_CALL, gm_object_default (value ? "__setattr__" : "__delattr__"), NULL,
             args, value ? 3 : 2);
}

static void
store (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value, bool assigned)
{
  PyTypeObject *type = (PyTypeObject *) t->data;
  const GmTracker *storage = gm_storage (t);
  const char *text = PyUnicode_AsUTF8 (name);
  PyObject *found = gm_class_lookup (r, type, name);
  if (r->stop)
    return;
  bool member = found && is_own_member (type, found, name)
                && ((PyMemberDescrObject *) found)->d_member->type == T_OBJECT_EX;
  if (found && Py_TYPE (found)->tp_descr_set && !member) {
    if (Py_IS_TYPE (found, &PyProperty_Type))
      property_set (r, t, found, name, value);
    else if (gm_is_user_type (Py_TYPE (found)))
      user_set (r, t, found, name, value);
    else if (storage && storage->kind->setattr)
      storage->kind->setattr (r, storage, name, value);
    else
      gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, text, gm_type_text (r, t));
    return;
  }
  if (!member && !has_dict (type)) {
    if (found)
      gm_raise_new (r, PyExc_AttributeError, "'%s' object attribute '%s' is read-only",
                    type->tp_name, text);
    else
      gm_raise_new (r, PyExc_AttributeError, "'%s' object has no attribute '%s'%s", type->tp_name,
                    text, type->tp_setattro == PyObject_GenericSetAttr ? gm_host.no_dict_text : "");
    return;
  }
  if (value == NULL
      && (member ? member_get (r, t, found, name) : gm_instance_get (r, t, name)) == NULL) {
    gm_record_break (r, GM_BREAK_ATTRIBUTE_MISSING, gm_type_text (r, t), text);
    return;
  }
  if (!gm_attrs_claim (r, t))
    return;
  gm_attrs_dropped (r, t, name);
  gm_attrs_set (r, t, name, value);
  if (t->real)
    store_effect (r, t, name, value, assigned);
}

void
gm_object_store (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  store (r, t, name, value, false);
}

void
gm_object_assign (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  store (r, t, name, value,
         gm_is_members_method (gm_class_lookup_text (r, (PyTypeObject *) t->data, "__setattr__")));
}

void
gm_object_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  PyTypeObject *type = (PyTypeObject *) t->data;
  const char *hook = value ? "__setattr__" : "__delattr__";
  if (gm_is_user_type (type) || type->tp_setattro != PyObject_GenericSetAttr) {
    PyObject *found = gm_class_lookup_text (r, type, hook);
    if (found && PyFunction_Check (found)) {
      PyObject *key = gm_record_take (r, PyUnicode_InternFromString (hook));
      const GmTracker *args[3] = { t, gm_from_constant (r, name), value };
      gm_call_n (r, gm_wrap (r, found, gm_source_class_attr (r, type, key)), args, value ? 3 : 2);
      return;
    }
    if (value && gm_is_members_method (found)) {
      gm_members_set (r, t, name, value);
      return;
    }
    if (!wraps (found, PyObject_GenericSetAttr)) {
      gm_record_break (r, GM_BREAK_ATTRIBUTE_HOOK, type->tp_name, hook);
      return;
    }
  }
  gm_object_store (r, t, name, value);
}
