/* SPDX-License-Identifier: Apache-2.0
 * tracker_object.c -- instances of Python classes, existing or made in the region: operations
 * through the methods of the class.
 *
 * An operation that the class does in Python is inlined; one that it leaves to the list, dict, set,
 * tuple or exception inside goes to the storage; any other operation of C breaks.  Attributes are
 * object_attrs.c, storage is subclass.c.
 */
#include "core/trace/attrs.h"
#include "core/models/models.h"
#include "core/trace/exception.h"
#include "core/trace/iterator.h"
#include "core/trace/instance.h"

#include <string.h>

static const GmTracker *
object_add (GmRecorder *r, PyObject *real, const GmSource *source, PyTypeObject *type,
            const GmTracker *storage)
{
  const GmTracker **items = gm_tracker_array (r, 1);
  items[0] = storage;
  uint32_t id = gm_heap_add (&r->heap, GM_N_OBJECT_SLOTS);
  gm_record_keep (r, (PyObject *) type);
  return gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_object,
                                          .real = real,
                                          .source = source,
                                          .items = items,
                                          .n = storage != NULL,
                                          .id = id,
                                          .data = type });
}

const GmTracker *
gm_wrap_object (GmRecorder *r, PyObject *real, const GmSource *source)
{
  PyTypeObject *type = Py_TYPE (real);
  PyObject **dict = PyDict_Check (real) ? _PyObject_GetDictPtr (real) : NULL;
  if (dict && *dict == real) /* the object's __dict__ is itself: one state in two places */
    return gm_record_break (r, GM_BREAK_VALUE_KIND, type->tp_name);
  gm_guard (r, TYPE, source, .obj = (PyObject *) type);
  const GmTracker *storage = gm_storage_wrap (r, real, source);
  if (r->stop)
    return &gm_tracker_poison;
  const GmTracker *t = object_add (r, real, source, type, storage);
  gm_know (r, t);
  return t;
}

const GmTracker *
gm_object_new_with (GmRecorder *r, PyTypeObject *type, const GmTracker *storage)
{
  const GmTracker *t = object_add (r, NULL, NULL, type, storage);
  gm_contents_set (r, t, gm_contents (r, NULL, 0));
  if (storage && storage->real == NULL
      && (storage->kind == &gm_kind_list || storage->kind == &gm_kind_dict
          || storage->kind == &gm_kind_set))
    gm_heap_store (&r->heap, storage->id, GM_SLOT_OWNER, t);
  return t;
}

const GmTracker *
gm_object_new (GmRecorder *r, PyTypeObject *type)
{
  return gm_object_new_with (r, type, NULL);
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return (PyTypeObject *) t->data;
}

/* Calls the class's method `name` on t with n arguments, if it is a Python function, and returns
 * the result. NULL, with *how: it is absent or a C function, and the caller goes on. */
static const GmTracker *
special (GmRecorder *r, const GmTracker *t, const char *name, const GmTracker *const *args,
         uint32_t n, GmHow *how)
{
  PyObject *found;
  *how = gm_object_how (r, t, name, &found);
  if (r->stop)
    return &gm_tracker_poison;
  if (*how == GM_HOW_OTHER)
    return gm_record_break (r, GM_BREAK_ATTRIBUTE_HOOK, gm_type_text (r, t), name);
  if (*how != GM_HOW_PYTHON)
    return NULL;
  PyTypeObject *type = (PyTypeObject *) t->data;
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString (name));
  const GmTracker **all = gm_tracker_array (r, n + 1);
  all[0] = t;
  gm_tracker_copy (all + 1, args, n);
  return gm_realize (
      r, gm_call_n (r, gm_wrap (r, found, gm_source_class_attr (r, type, key)), all, n + 1));
}

/* Returns the storage of t, for an operation `name` that the class leaves to C; NULL after a break:
 * the operation has no model. */
static const GmTracker *
left_to_storage (GmRecorder *r, const GmTracker *t, const char *name)
{
  const GmTracker *storage = gm_storage (t);
  if (storage && storage->kind != &gm_kind_exception)
    return storage;
  gm_record_break (r, GM_BREAK_CALL_METHOD, name, gm_type_text (r, t));
  return NULL;
}

/* -- Truth, length, iteration ---------------------------------------------- */

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  GmHow how;
  int64_t n = 0;
  const GmTracker *v = special (r, t, "__len__", NULL, 0, &how);
  if (r->stop)
    return 0;
  if (v) {
    if (!gm_constant_int (r, v, &n) || n < 0)
      gm_record_break (r, GM_BREAK_LENGTH, gm_type_text (r, t));
    return n;
  }
  if (how == GM_HOW_ABSENT) {
    gm_raise_new (r, PyExc_TypeError, "object of type '%s' has no len()",
                  ((PyTypeObject *) t->data)->tp_name);
    return 0;
  }
  const GmTracker *storage = left_to_storage (r, t, "__len__");
  return storage ? gm_len (r, storage) : 0;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  GmHow how;
  const GmTracker *v = special (r, t, "__bool__", NULL, 0, &how);
  if (r->stop)
    return 0;
  if (v) {
    if (v->kind == &gm_kind_constant && PyBool_Check (v->real))
      return v->real == Py_True;
    gm_record_break (r, GM_BREAK_TRUTH, gm_type_text (r, t));
    return 0;
  }
  if (how == GM_HOW_C && gm_value_of (t) != t)
    return gm_truth (r, gm_storage (t));
  if (how == GM_HOW_C) {
    gm_record_break (r, GM_BREAK_TRUTH, gm_type_text (r, t));
    return 0;
  }
  if (gm_object_how (r, t, "__len__", NULL) == GM_HOW_ABSENT)
    return 1;
  return len (r, t) != 0;
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  GmHow how;
  const GmTracker *v = special (r, t, "__iter__", NULL, 0, &how);
  if (r->stop)
    return &gm_tracker_poison;
  if (v) {
    if (v->kind->next
        && (v->kind != &gm_kind_object || gm_object_how (r, v, "__next__", NULL) == GM_HOW_PYTHON))
      return v;
    return gm_record_break (r, GM_BREAK_ITERATION, gm_type_text (r, t));
  }
  if (how == GM_HOW_ABSENT) {
    if (gm_object_how (r, t, "__getitem__", NULL) == GM_HOW_PYTHON)
      return gm_iterator_new (r, GM_ITER_GETITEM, &t, 1, 0);
    return gm_raise_new (r, PyExc_TypeError, "'%s' object is not iterable",
                         ((PyTypeObject *) t->data)->tp_name);
  }
  const GmTracker *storage = left_to_storage (r, t, "__iter__");
  return storage ? gm_iter (r, storage) : &gm_tracker_poison;
}

static const GmTracker *
next (GmRecorder *r, const GmTracker *t)
{
  GmHow how;
  const GmTracker *v = special (r, t, "__next__", NULL, 0, &how);
  const GmTracker *raised = r->pending;
  if (raised && gm_exception_caught (r, PyExc_StopIteration)) {
    const GmTracker *args = gm_heap_load (&r->heap, gm_exception_storage (raised)->id, GM_EXC_ARGS);
    r->stopped_value = args->n ? args->items[0] : gm_none (r);
    return NULL;
  }
  if (v || r->stop)
    return v;
  if (how == GM_HOW_ABSENT)
    gm_raise_new (r, PyExc_TypeError, "'%s' object is not an iterator",
                  ((PyTypeObject *) t->data)->tp_name);
  else
    gm_record_break (r, GM_BREAK_ITERATION, gm_type_text (r, t));
  return NULL;
}

/* -- Calls and items ------------------------------------------------------- */

const GmTracker *
gm_object_call_method (GmRecorder *r, const GmTracker *t)
{
  PyTypeObject *type = (PyTypeObject *) t->data;
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString ("__call__"));
  PyObject *found = gm_class_lookup (r, type, key);
  if (found && PyFunction_Check (found))
    return gm_method_new (r, gm_wrap (r, found, gm_source_class_attr (r, type, key)), t);
  if (found == NULL)
    return gm_raise_new (r, PyExc_TypeError, "'%s' object is not callable", type->tp_name);
  return gm_record_break (r, GM_BREAK_CALL_OBJECT, gm_type_text (r, t));
}

static const GmTracker *
call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  const GmTracker *special = gm_special_object_call (r, t, args);
  if (special || r->stop)
    return special ? special : &gm_tracker_poison;
  const GmTracker *method = gm_object_call_method (r, t);
  return r->stop ? &gm_tracker_poison : gm_call (r, method, args);
}

const GmTracker *
gm_object_missing (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  GmHow how;
  const GmTracker *v = special (r, t, "__missing__", &key, 1, &how);
  if (v || r->stop)
    return v ? v : &gm_tracker_poison;
  if (how == GM_HOW_ABSENT)
    return gm_raise_value (r, PyExc_KeyError, key);
  PyObject *name = gm_record_take (r, PyUnicode_InternFromString ("default_factory"));
  const GmTracker *factory = gm_realize (r, gm_getattr (r, t, name));
  if (r->stop)
    return &gm_tracker_poison;
  if (factory->real == Py_None)
    return gm_raise_value (r, PyExc_KeyError, key);
  v = gm_call_n (r, factory, NULL, 0);
  if (!r->stop)
    gm_setitem (r, t, key, v);
  return v;
}

static const GmTracker *
getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  GmHow how;
  const GmTracker *v = special (r, t, "__getitem__", &key, 1, &how);
  if (v || r->stop)
    return v ? v : &gm_tracker_poison;
  if (how == GM_HOW_ABSENT)
    return gm_raise_new (r, PyExc_TypeError, "'%s' object is not subscriptable",
                         ((PyTypeObject *) t->data)->tp_name);
  const GmTracker *storage = left_to_storage (r, t, "__getitem__");
  if (storage == NULL)
    return &gm_tracker_poison;
  if (storage->kind != &gm_kind_dict)
    return gm_getitem (r, storage, key);
  v = gm_dict_lookup (r, storage, key);
  return v || r->stop ? v : gm_object_missing (r, t, key);
}

static void
setitem (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value)
{
  const GmTracker *args[2] = { key, value };
  const char *name = value ? "__setitem__" : "__delitem__";
  GmHow how;
  if (special (r, t, name, args, value ? 2 : 1, &how) || r->stop)
    return;
  const GmTracker *storage = how == GM_HOW_C ? left_to_storage (r, t, name) : NULL;
  if (storage)
    gm_setitem (r, storage, key, value);
  else
    gm_record_break (r, GM_BREAK_SUBSCRIPT_STORE, gm_type_text (r, t), gm_type_text (r, key));
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  GmHow how;
  const GmTracker *v = special (r, t, "__contains__", &item, 1, &how);
  if (r->stop)
    return &gm_tracker_poison;
  if (v)
    return gm_from_bool (r, gm_truth (r, v));
  if (how == GM_HOW_C) {
    const GmTracker *storage = left_to_storage (r, t, "__contains__");
    return storage ? gm_contains (r, storage, item) : &gm_tracker_poison;
  }
  const GmTracker *it = gm_iter_searched (r, t), *x;
  while (!r->stop && (x = gm_next (r, it)) != NULL)
    if (gm_same_or_equal (r, x, item))
      return gm_from_bool (r, true);
  return gm_from_bool (r, false);
}

/* -- Operators ------------------------------------------------------------- */

static const GmTracker *
storage_or_self (const GmTracker *t)
{
  const GmTracker *storage = gm_storage (t);
  return storage && storage->kind != &gm_kind_exception ? storage : t;
}

static const GmTracker *
declined (const GmTracker *v)
{
  return v && v->real == Py_NotImplemented ? NULL : v;
}

/* Turns a pending TypeError into a break, so that Python raises it: the error of the container
 * inside would name the container's class, not the object's. */
static void
leave_type_error (GmRecorder *r)
{
  if (r->pending
      && PyType_IsSubtype ((PyTypeObject *) r->pending->data, (PyTypeObject *) PyExc_TypeError))
    r->pending = NULL;
}

static const GmTracker *
one_operator (GmRecorder *r, GmBinary op, const char *name, const GmTracker *t,
              const GmTracker *other, bool reflected, bool inplace)
{
  GmHow how;
  const GmTracker *v = special (r, t, name, &other, 1, &how);
  if (v || r->stop || how == GM_HOW_ABSENT)
    return r->stop ? &gm_tracker_poison : declined (v);
  const GmTracker *storage = left_to_storage (r, t, name);
  if (storage == NULL)
    return &gm_tracker_poison;
  if (storage->kind->binary == NULL)
    return NULL;
  if (storage->kind == &gm_kind_dict && !inplace && gm_dict_class_is_kept (t))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, name, gm_type_text (r, t));
  v = storage->kind->binary (r, op, storage, storage_or_self (gm_realize (r, other)), reflected,
                             inplace);
  leave_type_error (r);
  if (v == storage
      && v->kind == &gm_kind_tuple) /* tuple * 1 is the tuple itself, but not for a subclass */
    return gm_tuple_new (r, v->items, v->n);
  return v == storage ? t : v;
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  static const char *const names[GM_N_BIN + 1] = {
    "add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
    "or",  "pow", "rshift",   "sub",    "truediv", "xor", "divmod",
  };
  char name[32];
  if (inplace && !reflected) {
    g_snprintf (name, sizeof name, "__i%s__", names[op]);
    const GmTracker *v = one_operator (r, op, name, t, other, false, true);
    if (v || r->stop)
      return v;
  }
  bool object = other->kind == &gm_kind_object;
  if (reflected && object && other->data == t->data)
    return NULL; /* an object of the same class, whose method was called already */
  g_snprintf (name, sizeof name, "__r%s__", names[op]);
  if (!reflected && object && other->data != t->data
      && PyType_IsSubtype ((PyTypeObject *) other->data, (PyTypeObject *) t->data)) {
    PyObject *own = gm_class_lookup_text (r, (PyTypeObject *) t->data, name),
             *theirs = gm_class_lookup_text (r, (PyTypeObject *) other->data, name);
    if (theirs && theirs != own) { /* the reflected method of a subclass comes first */
      const GmTracker *v = one_operator (r, op, name, other, t, true, false);
      if (v || r->stop)
        return v;
    }
  }
  if (!reflected)
    g_snprintf (name, sizeof name, "__%s__", names[op]);
  const GmTracker *number = gm_value_of (t), *value = gm_value_of (other);
  if (inplace && op == GM_BIN_MUL && number != t && PyNumber_Check (number->real)
      && value->kind == &gm_kind_constant && PySequence_Check (value->real)
      && gm_object_how (r, t, name, NULL) == GM_HOW_C)
    return NULL; /* see gm_binary */
  return one_operator (r, op, name, t, other, reflected, false);
}

static const GmTracker *
unary (GmRecorder *r, GmUnary op, const GmTracker *t)
{
  static const char *const names[] = { "__pos__", "__neg__", "__invert__" };
  GmHow how;
  const GmTracker *v = special (r, t, names[op], NULL, 0, &how);
  return v == NULL && how == GM_HOW_C && gm_value_of (t) != t ? gm_unary (r, op, gm_storage (t))
                                                              : v;
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  static const char *const names[] = { "__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__" };
  GmHow how;
  PyObject *found;
  const GmTracker *v = special (r, t, names[op], &other, 1, &how);
  if (r->stop)
    return &gm_tracker_poison;
  if (v)
    return declined (v);
  how = gm_object_how (r, t, names[op], &found);
  if (found == gm_object_default (names[op])) {
    if (op == Py_EQ)
      return t == other ? gm_from_bool (r, true) : NULL;
    if (op != Py_NE)
      return NULL;
    v = compare (r, Py_EQ, t, other); /* object.__ne__ inverts __eq__ */
    return v && !r->stop ? gm_from_bool (r, !gm_truth (r, v)) : v;
  }
  if (gm_is_namespace ((PyTypeObject *) t->data))
    return gm_namespace_compare (r, op, t, other);
  const GmTracker *storage = left_to_storage (r, t, names[op]);
  if (storage == NULL)
    return &gm_tracker_poison;
  v = storage->kind->compare
          ? storage->kind->compare (r, op, storage, storage_or_self (gm_realize (r, other)))
          : NULL;
  leave_type_error (r);
  return v;
}

/* Emits a store of the attribute in the object's dict, or in the slot of that name, past the
 * class's hooks, which have run while recording. */
static void
store_attribute (GmResidualBuilder *b, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  GmRecorder *r = gm_residual_recorder (b);
  PyTypeObject *type = (PyTypeObject *) t->data;
  PyObject *found = gm_class_lookup (r, type, name);
  if (found && Py_TYPE (found)->tp_descr_set && !Py_IS_TYPE (found, &PyMemberDescr_Type)
      && !Py_IS_TYPE (found, &PyGetSetDescr_Type)) {
    gm_residual_value (b, value);
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, gm_object_default ("__getattribute__"));
    gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0,
                      gm_record_take (r, PyUnicode_InternFromString ("__dict__")));
    gm_residual_emit (b, GM_INSN_CALL, 2, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, name);
    gm_residual_emit (b, GM_INSN_STORE_SUBSCR, 0, NULL);
    return;
  }
  if (type->tp_setattro == PyObject_GenericSetAttr) {
    gm_residual_value (b, value);
    gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
    gm_residual_emit (b, GM_INSN_STORE_ATTR, 0, name);
    return;
  }
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, gm_object_default ("__setattr__"));
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, name);
  gm_residual_value (b, value);
  gm_residual_emit (b, GM_INSN_CALL, 3, NULL);
  gm_residual_emit (b, GM_INSN_POP_TOP, 0, NULL);
}

/* Emits the object: an allocation without __new__ and __init__, which have run while recording, and
 * stores of its attributes. */
static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  if (gm_residual_cached (b, t))
    return true;
  GmRecorder *r = gm_residual_recorder (b);
  bool partial = gm_is_partial ((PyTypeObject *) t->data);
  if (partial && !gm_partial_build (b, t))
    return false;
  if (partial)
    ;
  else if (gm_is_namespace ((PyTypeObject *) t->data))
    gm_namespace_build (b, t);
  else if (!gm_storage_build (b, t))
    return false;
  const GmTracker *contents = gm_contents_of (r, t);
  for (uint32_t i = 0; i < contents->n; i += 2)
    if (contents->items[i + 1] != &gm_tracker_null
        && !(partial && gm_is_partial_member (contents->items[i]->real)))
      store_attribute (b, t, contents->items[i]->real, contents->items[i + 1]);
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_object = {
  .name = "object",
  .type = type,
  .truth = truth,
  .iter = iter,
  .next = next,
  .call = call,
  .getattr = gm_object_getattr,
  .setattr = gm_object_setattr,
  .getitem = getitem,
  .setitem = setitem,
  .binary = binary,
  .unary = unary,
  .compare = compare,
  .len = len,
  .contains = contains,
  .build = build,
};
