/* SPDX-License-Identifier: Apache-2.0
 * tracker_object.c -- instances of Python classes, existing or made in the region, and modules.
 *
 * Attributes are found as object.__getattribute__ finds them: data descriptor, instance dict, other
 * descriptor or class attribute, __getattr__.  Each step is guarded: the class's lookup by
 * identity, the instance's entry by presence and value or by absence.  Stores go to the heap and,
 * for existing objects, to the effects.  A class that overrides how attributes work breaks.
 */
#include "core/trace/attrs.h"

#include <structmember.h>
#include <string.h>

const GmTracker *
gm_wrap_object (GmRecorder *r, PyObject *real, const GmSource *source)
{
  PyTypeObject *type = Py_TYPE (real);
  gm_guard (r, TYPE, source, .obj = (PyObject *) type);
  uint32_t id = gm_heap_add (&r->heap, 1);
  const GmTracker *t = gm_tracker_add (
      r, &(GmTracker){
             .kind = &gm_kind_object, .real = real, .source = source, .id = id, .data = type });
  gm_know (r, t);
  return t;
}

const GmTracker *
gm_object_new (GmRecorder *r, PyTypeObject *type)
{
  uint32_t id = gm_heap_add (&r->heap, 1);
  const GmTracker *t = gm_tracker_add (
      r, &(GmTracker){ .kind = &gm_kind_object, .id = id, .data = type });
  gm_record_keep (r, (PyObject *) type);
  gm_contents_set (r, t, gm_contents (r, NULL, 0));
  return t;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return (PyTypeObject *) t->data;
}

/* -- Class lookups --------------------------------------------------------- */

/* The attribute of the class, guarded; NULL if there is none. */
static PyObject *
class_lookup (GmRecorder *r, PyTypeObject *type, PyObject *name)
{
  PyObject *found = _PyType_Lookup (type, name);
  if (found)
    gm_record_keep (r, found);
  gm_guard (r, CLASS_LOOKUP, NULL, .obj = (PyObject *) type, .key = name, .ptr = found);
  return found;
}

static PyObject *
class_lookup_text (GmRecorder *r, PyTypeObject *type, const char *name)
{
  return class_lookup (r, type, gm_record_take (r, PyUnicode_InternFromString (name)));
}

/* True if attributes of the class are found in the usual way, but for __getattr__. */
static bool
plain_lookup (GmRecorder *r, PyTypeObject *type)
{
  if (type->tp_getattro == PyObject_GenericGetAttr)
    return true;
  PyObject *generic = PyDict_GetItemString (gm_type_dict (&PyBaseObject_Type), "__getattribute__");
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
         class_lookup_text (r, type, "__getattribute__") == generic;
}

/* What a class attribute is when it is read through an instance (self) or the class (self NULL);
 * `owner` for classmethods. */
const GmTracker *
gm_class_value (GmRecorder *r, PyTypeObject *type, PyObject *name, PyObject *found,
                const GmTracker *self)
{
  const char *text = PyUnicode_AsUTF8 (name);
  if (PyFunction_Check (found)) {
    const GmTracker *f = gm_wrap (r, found, gm_source_class_attr (r, type, name));
    return self ? gm_method_new (r, f, self) : f;
  }
  if (Py_IS_TYPE (found, &PyStaticMethod_Type) || Py_IS_TYPE (found, &PyClassMethod_Type)) {
    PyObject *inner = gm_record_take (r, PyObject_GetAttrString (found, "__func__"));
    g_autofree char *label = g_strdup_printf ("%s.%s", type->tp_name, text);
    const GmTracker *f = gm_wrap (r, inner, gm_source_const (r, inner, label));
    if (Py_IS_TYPE (found, &PyStaticMethod_Type))
      return f;
    return gm_method_new (
        r, f,
        gm_wrap (r, (PyObject *) type, gm_source_const (r, (PyObject *) type, type->tp_name)));
  }
  if (Py_TYPE (found)->tp_descr_get == NULL || PyType_Check (found) || PyCFunction_Check (found) ||
      (gm_host.api_type && Py_TYPE (found) == gm_host.api_type))
    return gm_wrap_lazy (r, found, gm_source_class_attr (r, type, name));
  if ((gm_host.compiled_type && (PyObject *) Py_TYPE (found) == gm_host.compiled_type) ||
      (gm_host.marked_type && Py_TYPE (found) == gm_host.marked_type)) {
    const GmTracker *f = gm_wrap (r, found, gm_source_class_attr (r, type, name));
    return self ? gm_method_new (r, f, self) : f;
  }
  return gm_record_break (r, GM_BREAK_ATTRIBUTE, text, type->tp_name);
}

/* -- Reading --------------------------------------------------------------- */

static const GmTracker *
property_get (GmRecorder *r, const GmTracker *t, PyObject *property, const char *name)
{
  PyObject *getter = gm_record_take (r, PyObject_GetAttrString (property, "fget"));
  if (!PyFunction_Check (getter))
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, name, gm_type_text (r, t));
  const GmTracker *f = gm_wrap (r, getter, gm_source_const (r, getter, name));
  return gm_call_n (r, f, &t, 1);
}

/* A slot of __slots__: a place in the object. */
static const GmTracker *
member_get (GmRecorder *r, const GmTracker *t, PyObject *descriptor, PyObject *name)
{
  PyMemberDef *m = ((PyMemberDescrObject *) descriptor)->d_member;
  if (m->type != T_OBJECT_EX)
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), gm_type_text (r, t));
  const GmTracker *stored = gm_attrs_get (r, t, name);
  if (stored)
    return stored == &gm_tracker_null ? NULL : stored;
  PyObject *value = t->real ? *(PyObject **) ((char *) t->real + m->offset) : NULL;
  if (value)
    return gm_wrap_present (r, value, gm_source_member (r, t->source, m->offset, name));
  if (t->real)
    gm_guard (r, MEMBER_ABSENT, t->source, .index = m->offset, .key = name);
  return NULL;
}

static const GmTracker *
instance_get (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *stored = gm_attrs_get (r, t, name);
  if (stored)
    return stored == &gm_tracker_null ? NULL : stored;
  if (t->real == NULL)
    return NULL;
  PyObject **dict = _PyObject_GetDictPtr (t->real);
  PyObject *value = dict && *dict ? PyDict_GetItemWithError (*dict, name) : NULL;
  if (value)
    return gm_wrap_present (r, value, gm_source_attr (r, t->source, name));
  PyErr_Clear ();
  gm_guard (r, ATTR_ABSENT, t->source, .key = name);
  return NULL;
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  PyTypeObject *type = (PyTypeObject *) t->data;
  const char *text = PyUnicode_AsUTF8 (name);
  if (!plain_lookup (r, type))
    return gm_record_break (r, GM_BREAK_ATTRIBUTE_HOOK, type->tp_name, "__getattribute__");
  PyObject *found = class_lookup (r, type, name);
  if (found && Py_TYPE (found)->tp_descr_set) {
    if (Py_IS_TYPE (found, &PyProperty_Type))
      return property_get (r, t, found, text);
    if (Py_IS_TYPE (found, &PyMemberDescr_Type))
      return member_get (r, t, found, name);
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, text, gm_type_text (r, t));
  }
  const GmTracker *v = instance_get (r, t, name);
  if (v)
    return v;
  if (found)
    return gm_class_value (r, type, name, found, t);
  PyObject *hook = class_lookup_text (r, type, "__getattr__");
  if (hook && PyFunction_Check (hook)) {
    PyObject *key = gm_record_take (r, PyUnicode_InternFromString ("__getattr__"));
    const GmTracker *args[2] = { t, gm_from_constant (r, name) };
    return gm_call_n (r, gm_wrap (r, hook, gm_source_class_attr (r, type, key)), args, 2);
  }
  return hook ? gm_record_break (r, GM_BREAK_ATTRIBUTE_HOOK, type->tp_name, "__getattr__") : NULL;
}

/* -- Writing --------------------------------------------------------------- */

static bool
has_dict (PyTypeObject *type)
{
  return type->tp_dictoffset != 0 || (type->tp_flags & Py_TPFLAGS_MANAGED_DICT);
}

static void
setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  PyTypeObject *type = (PyTypeObject *) t->data;
  const char *text = PyUnicode_AsUTF8 (name);
  if (type->tp_setattro != PyObject_GenericSetAttr) {
    gm_record_break (r, GM_BREAK_ATTRIBUTE_HOOK, type->tp_name, "__setattr__");
    return;
  }
  PyObject *found = class_lookup (r, type, name);
  if (found && Py_IS_TYPE (found, &PyProperty_Type)) {
    PyObject *setter = gm_record_take (r, PyObject_GetAttrString (found, value ? "fset" : "fdel"));
    const GmTracker *args[2] = { t, value };
    if (PyFunction_Check (setter))
      gm_call_n (r, gm_wrap (r, setter, gm_source_const (r, setter, text)), args, value ? 2 : 1);
    else
      gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, text, gm_type_text (r, t));
    return;
  }
  bool member = found && Py_IS_TYPE (found, &PyMemberDescr_Type) &&
                ((PyMemberDescrObject *) found)->d_member->type == T_OBJECT_EX;
  if ((found && Py_TYPE (found)->tp_descr_set && !member) || (!member && !has_dict (type))) {
    gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, text, gm_type_text (r, t));
    return;
  }
  if (value == NULL &&
      (member ? member_get (r, t, found, name) : instance_get (r, t, name)) == NULL) {
    gm_record_break (r, GM_BREAK_ATTRIBUTE_MISSING, gm_type_text (r, t), text);
    return;
  }
  gm_attrs_set (r, t, name, value);
  if (t->real) {
    const GmTracker *args[2] = { t, value };
    gm_effect (r, value ? GM_EFFECT_SETATTR : GM_EFFECT_DELATTR, NULL, name, args, value ? 2 : 1);
  }
}

/* -- Operations through the class's methods -------------------------------- */

static const GmTracker *
special (GmRecorder *r, const GmTracker *t, const char *name, const GmTracker *const *args,
         uint32_t n)
{
  const GmTracker *v = gm_call_special (r, t, name, args, n);
  return v && v->real == Py_NotImplemented ? NULL : v;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  PyTypeObject *type = (PyTypeObject *) t->data;
  if (type->tp_as_number && type->tp_as_number->nb_bool) {
    const GmTracker *v = special (r, t, "__bool__", NULL, 0);
    return v ? gm_truth (r, v) : (gm_record_break (r, GM_BREAK_TRUTH, gm_type_text (r, t)), 0);
  }
  class_lookup_text (r, type, "__bool__");
  if ((type->tp_as_mapping && type->tp_as_mapping->mp_length) ||
      (type->tp_as_sequence && type->tp_as_sequence->sq_length))
    return gm_len (r, t) != 0;
  class_lookup_text (r, type, "__len__");
  return 1;
}

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *v = special (r, t, "__len__", NULL, 0);
  int64_t n = 0;
  if (v == NULL || !gm_constant_int (r, v, &n) || n < 0)
    gm_record_break (r, GM_BREAK_LENGTH, gm_type_text (r, t));
  return n;
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *v = special (r, t, "__iter__", NULL, 0);
  if (v == NULL || gm_realize (r, v)->kind == &gm_kind_object)
    return gm_record_break (r, GM_BREAK_ITERATION, gm_type_text (r, t));
  return gm_iter (r, v);
}

static const GmTracker *
call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  PyTypeObject *type = (PyTypeObject *) t->data;
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString ("__call__"));
  PyObject *found = class_lookup (r, type, key);
  if (found == NULL || !PyFunction_Check (found))
    return gm_record_break (r, GM_BREAK_CALL_OBJECT, gm_type_text (r, t));
  return gm_call (r, gm_method_new (r, gm_wrap (r, found, gm_source_class_attr (r, type, key)), t),
                  args);
}

static const GmTracker *
getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  const GmTracker *v = special (r, t, "__getitem__", &key, 1);
  return v ? v
           : gm_record_break (r, GM_BREAK_SUBSCRIPT, gm_type_text (r, t), gm_type_text (r, key));
}

static void
setitem (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value)
{
  const GmTracker *args[2] = { key, value };
  if (special (r, t, value ? "__setitem__" : "__delitem__", args, value ? 2 : 1) == NULL)
    gm_record_break (r, GM_BREAK_SUBSCRIPT_STORE, gm_type_text (r, t), gm_type_text (r, key));
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  const GmTracker *v = special (r, t, "__contains__", &item, 1);
  return v ? gm_from_bool (r, gm_truth (r, v))
           : gm_record_break (r, GM_BREAK_CONTAINS, gm_type_text (r, t));
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  static const char *const names[GM_N_BIN] = {
    "add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
    "or",  "pow", "rshift",   "sub",    "truediv", "xor",
  };
  char name[32];
  if (!reflected && other->kind == &gm_kind_object && other->data != t->data &&
      PyType_IsSubtype ((PyTypeObject *) other->data, (PyTypeObject *) t->data))
    return NULL; /* the reflected method of a subclass comes first: the caller asks it, or breaks */
  if (inplace && !reflected) {
    g_snprintf (name, sizeof name, "__i%s__", names[op]);
    const GmTracker *v = special (r, t, name, &other, 1);
    if (v || r->stop)
      return v;
  }
  g_snprintf (name, sizeof name, reflected ? "__r%s__" : "__%s__", names[op]);
  return special (r, t, name, &other, 1);
}

static const GmTracker *
unary (GmRecorder *r, GmUnary op, const GmTracker *t)
{
  static const char *const names[] = { "__pos__", "__neg__", "__invert__" };
  return special (r, t, names[op], NULL, 0);
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  static const char *const names[] = { "__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__" };
  PyTypeObject *type = (PyTypeObject *) t->data;
  if (type->tp_richcompare == PyBaseObject_Type.tp_richcompare && (op == Py_EQ || op == Py_NE)) {
    class_lookup_text (r, type, names[op]);
    if (other->kind == &gm_kind_object &&
        ((PyTypeObject *) other->data)->tp_richcompare != PyBaseObject_Type.tp_richcompare)
      return NULL;
    const GmTracker *same = gm_is (r, t, other);
    return op == Py_EQ || r->stop ? same : gm_from_bool (r, !gm_truth (r, same));
  }
  const GmTracker *v = special (r, t, names[op], &other, 1);
  if (v == NULL && op == Py_NE && !r->stop) { /* object.__ne__ inverts __eq__ */
    v = special (r, t, "__eq__", &other, 1);
    return v ? gm_from_bool (r, !gm_truth (r, v)) : NULL;
  }
  return v;
}

/* Allocated without its __init__ or __new__, then filled: both have run while recording. */
static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  if (gm_residual_cached (b, t))
    return true;
  GmRecorder *r = gm_residual_recorder (b);
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (
      b, GM_INSN_LOAD_CONST, 0,
      gm_record_take (r, PyObject_GetAttrString ((PyObject *) &PyBaseObject_Type, "__new__")));
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) t->data);
  gm_residual_emit (b, GM_INSN_CALL, 1, NULL);
  gm_residual_allocated (b, t);
  const GmTracker *contents = gm_contents_of (r, t);
  for (uint32_t i = 0; i < contents->n; i += 2)
    if (contents->items[i + 1] != &gm_tracker_null) {
      gm_residual_value (b, contents->items[i + 1]);
      gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
      gm_residual_emit (b, GM_INSN_STORE_ATTR, 0, contents->items[i]->real);
    }
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_object = {
  .name = "object",
  .type = type,
  .truth = truth,
  .iter = iter,
  .call = call,
  .getattr = getattr,
  .setattr = setattr,
  .getitem = getitem,
  .setitem = setitem,
  .binary = binary,
  .unary = unary,
  .compare = compare,
  .len = len,
  .contains = contains,
  .build = build,
};

/* -- Modules --------------------------------------------------------------- */

const GmTracker *
gm_wrap_module (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, IS, source, .obj = real);
  const GmTracker *t = gm_tracker (r, .kind = &gm_kind_module, .real = real, .source = source);
  gm_know (r, t);
  return t;
}

static const GmTracker *
module_getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *v = gm_global_load (r, PyModule_GetDict (t->real), name);
  if (v)
    return v;
  return gm_record_break (r, GM_BREAK_ATTRIBUTE_MISSING, "module", PyUnicode_AsUTF8 (name));
}

static void
module_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  if (value)
    gm_global_store (r, PyModule_GetDict (t->real), name, value);
  else
    gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, PyUnicode_AsUTF8 (name), "module");
}

static int
module_truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

const GmTrackerKind gm_kind_module = {
  .name = "module",
  .truth = module_truth,
  .getattr = module_getattr,
  .setattr = module_setattr,
};
