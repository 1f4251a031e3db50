/* SPDX-License-Identifier: Apache-2.0
 * tracker_class.c -- classes: their attributes, their calls, and super.
 *
 * A class is guarded by identity.  Calling a class of the user's makes an object in the heap and
 * inlines __new__ and __init__; a metaclass with a __call__ or a C layout without a model breaks.
 */
#include "core/trace/attrs.h"
#include "core/models/models.h"
#include "core/trace/class_made.h"
#include "core/trace/exception.h"
#include "core/trace/instance.h"

#include <string.h>

const GmTracker *
gm_wrap_class (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, IS, source, .obj = real);
  uint32_t id = gm_heap_add (&r->heap, 1);
  const GmTracker *t = gm_tracker_add (
      r, &(GmTracker){ .kind = &gm_kind_class, .real = real, .source = source, .id = id });
  gm_know (r, t);
  return t;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  PyTypeObject *meta = Py_TYPE (t->real);
  if (meta != &PyType_Type
      && (gm_class_lookup_text (r, meta, "__bool__") || gm_class_lookup_text (r, meta, "__len__")))
    gm_record_break (r, GM_BREAK_TRUTH, "class with a metaclass");
  return 1;
}

/* Returns the Python method `name` of the metaclass of t, bound to the class t; NULL: there is
 * none, and type's own method is used. */
static const GmTracker *
meta_method (GmRecorder *r, const GmTracker *t, const char *name)
{
  PyTypeObject *meta = Py_TYPE (t->real);
  if (meta == &PyType_Type)
    return NULL;
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString (name));
  PyObject *found = gm_class_lookup (r, meta, key);
  if (found == NULL || !PyFunction_Check (found))
    return NULL;
  return gm_method_new (r, gm_wrap (r, found, gm_source_class_attr (r, meta, key)), t);
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  PyTypeObject *type = (PyTypeObject *) t->real, *metatype = Py_TYPE (t->real);
  const char *text = PyUnicode_AsUTF8 (name);
  if (metatype->tp_getattro != PyType_Type.tp_getattro
      && gm_class_lookup_text (r, metatype, "__getattribute__")
             != PyDict_GetItemString (gm_type_dict (&PyType_Type), "__getattribute__"))
    return gm_record_break (r, GM_BREAK_ATTRIBUTE_HOOK, metatype->tp_name, "how classes work");
  PyObject *meta = gm_class_lookup (r, metatype, name);
  /* A data descriptor of the metaclass, such as a property, comes before type's own attribute. */
  bool says = meta && Py_TYPE (meta)->tp_descr_set
              && meta != PyDict_GetItem (gm_type_dict (&PyType_Type), name);
  if (!says && (strcmp (text, "__name__") == 0 || strcmp (text, "__qualname__") == 0)) {
    PyObject *value = gm_record_take (r, PyObject_GetAttr (t->real, name));
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE)
      gm_guard (r, CLASS_NAME, NULL, .obj = t->real, .key = value, .index = text[2] == 'q');
    return gm_from_constant (r, value);
  }
  if (!says && strcmp (text, "__module__") == 0) {
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) /* part of its name, which stays */
      return gm_from_constant_take (r, PyObject_GetAttr (t->real, name));
    PyObject *module = gm_class_lookup (r, type, name);
    if (module && PyUnicode_CheckExact (module))
      return gm_from_constant (r, module);
  }
  if (!says && strcmp (text, "__doc__") == 0) {
    PyObject *doc = gm_class_lookup (r, type, name);
    if (doc && (doc == Py_None || PyUnicode_CheckExact (doc)))
      return gm_from_constant (r, doc);
  }
  if (meta && Py_TYPE (meta)->tp_descr_set) {
    if (Py_IS_TYPE (meta, &PyProperty_Type))
      return gm_descriptor_get (r, metatype, metatype, name, meta, t);
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, text, "class");
  }
  PyObject *found = gm_class_lookup (r, type, name);
  if (found)
    return gm_descriptor_get (r, type, type, name, found, NULL);
  if (meta && PyFunction_Check (meta))
    return gm_method_new (r, gm_wrap (r, meta, gm_source_class_attr (r, metatype, name)), t);
  if (meta && Py_TYPE (meta)->tp_descr_get == NULL)
    return gm_wrap_lazy (r, meta, gm_source_class_attr (r, metatype, name));
  if (meta)
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, text, "class");
  const GmTracker *hook = meta_method (r, t, "__getattr__");
  const GmTracker *arg = hook ? gm_from_constant (r, name) : NULL;
  return hook ? gm_call_n (r, hook, &arg, 1) : NULL;
}

/* -- Calls ----------------------------------------------------------------- */

/* Returns a new instance of a class made by collections.namedtuple, from items given by position
 * and name. */
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

/* True for a class that C code has made with PyType_FromSpec: a heap type, but no Python class. */
static bool
is_made_in_c (PyTypeObject *type)
{
  for (; type && (type->tp_flags & Py_TPFLAGS_HEAPTYPE); type = type->tp_base) {
    PyObject *new = PyDict_GetItemString (gm_type_dict (type), "__new__");
    if (type->tp_flags & Py_TPFLAGS_DISALLOW_INSTANTIATION)
      return true;
    if (new &&PyCFunction_Check (new) && PyCFunction_GET_SELF (new) == (PyObject *) type)
      return true;
  }
  return false;
}

/* Returns the reason why instances of the class cannot be made while recording, static; NULL: they
 * can. */
static const char *
refusal (GmRecorder *r, PyTypeObject *type)
{
  PyTypeObject *layout = gm_layout_of (type);
  bool user = gm_is_user_type (type);
  if (user)
    gm_class_lookup_text (r, type, "__abstractmethods__"); /* the flag follows this attribute */
  if (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT)
    return "it is abstract";
  if (type->tp_del || type->tp_finalize || (user && gm_class_lookup_text (r, type, "__del__")))
    return "it has a finalizer";
  if (is_made_in_c (type))
    return "its __new__ is C code";
  if (PyType_IsSubtype (type, (PyTypeObject *) PyExc_BaseException))
    return gm_exception_is_plain (type) ? NULL : "it holds more than an exception's arguments";
  if (layout == &PyBaseObject_Type || layout == &PyList_Type || layout == &PyDict_Type
      || layout == &PySet_Type || layout == &PyTuple_Type || layout == &PyODict_Type
      || layout == &PyLong_Type || layout == &PyFloat_Type || layout == &PyUnicode_Type
      || layout == &PyBytes_Type || gm_is_defaultdict (layout))
    return NULL;
  return "it has a C layout of its own";
}

bool
gm_is_tensor_subclass (PyTypeObject *type)
{
  return type != gm_host.tensor_type && PyType_IsSubtype (type, gm_host.tensor_type);
}

/* Returns the result of object.__new__, list.__new__ ... */
const GmTracker *
gm_class_new_instance (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  const char *why = refusal (r, type);
  if (why && gm_is_tensor_subclass (type))
    return gm_record_break (r, GM_BREAK_MAKES_SUBCLASS, type->tp_name);
  if (why)
    return gm_record_break (r, GM_BREAK_CALL_CLASS, type->tp_name, why);
  if (PyType_IsSubtype (type, (PyTypeObject *) PyExc_BaseException)) {
    return gm_exception_new (r, type, args->args, args->n);
  }
  bool any = args->n > 0 || args->names;
  if (any && gm_layout_of (type) == &PyBaseObject_Type
      && (type->tp_new != PyBaseObject_Type.tp_new || type->tp_init == PyBaseObject_Type.tp_init))
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                            "object.__new__() takes no argument but the class");
  if (gm_layout_of (type) == &PyTuple_Type && (args->n > 1 || args->names))
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                            "tuple.__new__() takes one iterable and no named argument");
  const GmTracker *storage = gm_storage_new (r, type, args);
  return r->stop ? &gm_tracker_poison : gm_object_new_with (r, type, storage);
}

/* Runs the model of the C __init__ `found` on the object, with the arguments. */
static void
builtin_init (GmRecorder *r, PyTypeObject *type, const GmTracker *object, PyObject *found,
              const GmCallArgs *args)
{
  const GmTracker *storage = gm_storage (object);
  if (found == gm_object_default ("__init__")) {
    PyObject *new = gm_class_lookup_text (r, type, "__new__");
    if ((args->n || args->names) && new == gm_object_default ("__new__"))
      gm_raise_new (r, PyExc_TypeError, "%s() takes no arguments", type->tp_name);
    return;
  }
  if (storage == NULL || storage->kind == &gm_kind_tuple || storage->kind == &gm_kind_constant) {
    gm_record_break (r, GM_BREAK_CALL_CLASS, type->tp_name,
                     "its __init__ is not a Python function");
    return;
  }
  if (storage->kind == &gm_kind_exception && args->names) {
    gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "named arguments of an exception");
    return;
  }
  bool dict = storage->kind == &gm_kind_dict;
  if (storage->kind != &gm_kind_exception
      && (args->n > (dict && gm_is_defaultdict (gm_layout_of (type)) ? 2 : 1)
          || (args->names && !dict))) {
    gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "a container's __init__ takes one iterable");
    return;
  }
  GmCallArgs rest = *args;
  if (gm_is_defaultdict (gm_layout_of (type))) { /* defaultdict takes the factory first */
    PyObject *name = gm_record_take (r, PyUnicode_InternFromString ("default_factory"));
    const GmTracker *factory = args->n ? gm_realize (r, args->args[0]) : gm_none (r);
    PyTypeObject *kind = gm_type_of (r, factory);
    if (r->stop)
      return;
    bool callable =
        kind ? gm_class_lookup_text (r, kind, "__call__") != NULL : factory->kind->call != NULL;
    if (factory->real != Py_None && !callable) {
      gm_raise_new (r, PyExc_TypeError, "first argument must be callable or None");
      return;
    }
    gm_attrs_set (r, object, name, factory);
    if (args->n) {
      rest.args++;
      rest.n--;
    }
  }
  PyObject *init = gm_record_take (r, PyUnicode_InternFromString ("__init__"));
  gm_call (r, gm_getattr (r, storage, init), &rest);
}

const GmTracker *
gm_class_allocate (GmRecorder *r, const GmTracker *t, const GmCallArgs *args,
                   const GmTracker **init)
{
  PyTypeObject *type = (PyTypeObject *) t->real;
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString ("__new__")), *found;
  const GmTracker *object;
  *init = NULL;
  if (!gm_is_user_type (type) && !PyExceptionClass_Check (t->real) && type != &PyODict_Type
      && !gm_is_defaultdict (type))
    return gm_record_break (r, GM_BREAK_CALL_C, type->tp_name);
  if (Py_TYPE (type) != &PyType_Type)
    gm_class_lookup_text (r, Py_TYPE (type), "__call__");
  found = gm_class_lookup (r, type, key);
  if (found && !PyCFunction_Check (found) && !PyFunction_Check (found)
      && !Py_IS_TYPE (found, &PyStaticMethod_Type))
    return gm_record_break (r, GM_BREAK_CALL_CLASS, type->tp_name,
                            "its __new__ is not a Python function");
  if (found
      && !PyCFunction_Check (
          found)) { /* a __new__ of the user's, which is no staticmethod if it was assigned later */
    const GmTracker *make = gm_class_value (r, type, key, found, NULL);
    uint32_t n = args->n + gm_args_n_named (args);
    const GmTracker **all = gm_tracker_array (r, n + 1);
    all[0] = t;
    gm_tracker_copy (all + 1, args->args, n);
    object = gm_realize (r, gm_call (r, make, &(GmCallArgs){ all, args->n + 1, args->names }));
    PyTypeObject *got = r->stop ? NULL : gm_type_of (r, object);
    if (r->stop || got == NULL || !PyType_IsSubtype (got, type))
      return got || r->stop ? object
                            : gm_record_break (r, GM_BREAK_CALL_CLASS, type->tp_name,
                                               "its __new__ gives something else");
    type = got;
  } else {
    object = gm_class_new_instance (r, type, args);
  }
  if (r->stop || object->kind != &gm_kind_object)
    return r->stop ? &gm_tracker_poison : object;
  key = gm_record_take (r, PyUnicode_InternFromString ("__init__"));
  found = gm_class_lookup (r, type, key);
  if (found && PyFunction_Check (found))
    *init = gm_method_new (r, gm_wrap (r, found, gm_source_class_attr (r, type, key)), object);
  else
    builtin_init (r, type, object, found, args);
  return object;
}

/* Returns a new object as type.__call__ makes it, for a metaclass that calls super ().__call__
 * (). */
static const GmTracker *
type_call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  const GmTracker *init, *object = gm_class_allocate (r, t, args, &init);
  if (init && gm_realize (r, gm_call (r, init, args))->real != Py_None && !r->stop)
    return gm_record_break (r, GM_BREAK_EXCEPTION_RAISED,
                            "TypeError: __init__() should return None");
  return object;
}

static const GmTracker *
call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  PyTypeObject *type = (PyTypeObject *) t->real;
  if (t->real == gm_host.no_grad || t->real == gm_host.enable_grad
      || t->real == gm_host.set_grad_enabled)
    return gm_grad_mode_class_call (r, t->real, args);
  const GmTracker *v = gm_builtin_class_call (r, type, args);
  if (v || r->stop)
    return v ? v : &gm_tracker_poison;
  if (type->tp_base == &PyTuple_Type
      && PyDict_GetItemString (gm_type_dict (type), "_field_defaults")
      && gm_is_named_tuple (r, type))
    return named_tuple (r, type, args);
  if (type == gm_host.size_type && type != &PyTuple_Type && args->n == 1 && !args->names) {
    g_autoptr (GPtrArray) items = gm_collect (r, args->args[0]);
    return items ? gm_tuple_new_of (r, type, (const GmTracker *const *) items->pdata, items->len)
                 : &gm_tracker_poison;
  }
  v = meta_method (r, t, "__call__");
  if (v)
    return gm_call (r, v, args);
  if (Py_TYPE (type)->tp_call != PyType_Type.tp_call)
    return gm_record_break (r, GM_BREAK_CALL_CLASS, type->tp_name,
                            "its metaclass decides how it is called");
  return type_call (r, t, args);
}

static const GmTracker *
getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  const GmTracker *method = meta_method (r, t, "__getitem__");
  PyObject *name = gm_record_take (r, PyUnicode_InternFromString ("__class_getitem__"));
  PyObject *found = gm_class_lookup (r, (PyTypeObject *) t->real, name);
  PyObject *inner = found && Py_IS_TYPE (found, &PyClassMethod_Type)
                        ? gm_record_take (r, PyObject_GetAttrString (found, "__func__"))
                        : NULL;
  if (method == NULL && inner && PyFunction_Check (inner))
    method = getattr (r, t, name);
  return method ? gm_call_n (r, method, &key, 1)
                : gm_record_break (r, GM_BREAK_SUBSCRIPT, "class", gm_type_text (r, key));
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *method = meta_method (r, t, "__iter__");
  return method ? gm_iter (r, gm_call_n (r, method, NULL, 0))
                : gm_record_break (r, GM_BREAK_ITERATION, "class");
}

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *method = meta_method (r, t, "__len__");
  int64_t n = 0;
  if (method == NULL || !gm_constant_int (r, gm_call_n (r, method, NULL, 0), &n))
    gm_record_break (r, GM_BREAK_LENGTH, "class");
  return n;
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  const GmTracker *method = meta_method (r, t, "__contains__");
  return method ? gm_from_bool (r, gm_truth (r, gm_call_n (r, method, &item, 1)))
                : gm_record_break (r, GM_BREAK_CONTAINS, "class");
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (other->kind != &gm_kind_class || (op != Py_EQ && op != Py_NE)
      || Py_TYPE (t->real) != &PyType_Type)
    return NULL;
  return gm_from_bool (r, (t->real == other->real) == (op == Py_EQ));
}

/* Returns unions such as int | str, for classes whose metaclass is type. */
static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  bool none = other->real == Py_None;
  if (op != GM_BIN_OR || reflected || t->data || Py_TYPE (t->real) != &PyType_Type
      || !(none
           || (other->kind == &gm_kind_class && !other->data
               && Py_TYPE (other->real) == &PyType_Type)))
    return NULL;
  PyObject *both = PyNumber_Or (t->real, other->real);
  if (both == NULL)
    return gm_record_break_exception (r);
  if (PyType_Check (both)) { /* int | int is int */
    gm_record_take (r, both);
    return both == t->real ? t : other;
  }
  return gm_tracker (r, .kind = &gm_kind_constant, .real = gm_record_take (r, both));
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  if (t->data)
    return gm_class_made_build (b, t);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->real);
  return true;
}

const GmTrackerKind gm_kind_class = {
  .name = "class",
  .truth = truth,
  .iter = iter,
  .call = call,
  .getattr = getattr,
  .setattr = gm_class_setattr,
  .getitem = getitem,
  .len = len,
  .contains = contains,
  .compare = compare,
  .binary = binary,
  .build = build,
};

/* Returns the truth (1, 0) of the result of the Python method `hook` of the metaclass of `cls` for
 * the object `of`; 0 after a break; -1: there is no such method. */
static int
metaclass_says (GmRecorder *r, const GmTracker *cls, const char *hook, const GmTracker *of)
{
  if (Py_TYPE (cls->real) == &PyType_Type || strcmp (Py_TYPE (cls->real)->tp_name, "ABCMeta") == 0)
    return -1; /* gm_is_subclass has models of these metaclasses */
  const GmTracker *v = gm_call_special (r, cls, hook, &of, 1);
  return v ? gm_truth (r, v) != 0 : r->stop ? 0 : -1;
}

/* Returns the class `t.__class__`, borrowed; `type` if that is no class, or if there is no such
 * attribute and it is not `needed`. NULL after a break or an exception. */
static PyTypeObject *
class_said (GmRecorder *r, const GmTracker *t, PyTypeObject *type, bool needed)
{
  if (!gm_type_hides_class (r, type) || r->stop)
    return r->stop ? NULL : type;
  const GmTracker *v =
      gm_getattr_opt (r, t, gm_record_take (r, PyUnicode_InternFromString ("__class__")));
  if (!needed && gm_exception_caught (r, PyExc_AttributeError))
    return type;
  v = r->stop || v == NULL ? NULL : gm_realize (r, v);
  if (r->stop)
    return NULL;
  return v && v->kind == &gm_kind_class ? (PyTypeObject *) v->real : type;
}

/* True if isinstance (t, cls), for one class whose metaclass has no Python hook: an object is an
 * instance of its type, and of its __class__. For an abstract class __class__ is always read, and
 * first. False also after a break. */
static bool
is_instance (GmRecorder *r, const GmTracker *t, PyTypeObject *type, const GmTracker *cls)
{
  PyTypeObject *meta = Py_TYPE (cls->real);
  bool abstract = meta != &PyType_Type
                  && gm_class_lookup_text (r, meta, "__instancecheck__")
                         != PyDict_GetItemString (gm_type_dict (&PyType_Type), "__instancecheck__");
  bool plain = !abstract && gm_is_subclass (r, type, cls->real, "__instancecheck__");
  PyTypeObject *said = plain || r->stop ? NULL : class_said (r, t, type, abstract);
  if (said == NULL)
    return plain && !r->stop;
  if ((abstract || said != type) && gm_is_subclass (r, said, cls->real, "__instancecheck__"))
    return true;
  return abstract && said != type && !r->stop
         && gm_is_subclass (r, type, cls->real, "__instancecheck__");
}

/* True if isinstance (t, cls), where cls is a class or a tuple of classes. False also after a
 * break. */
bool
gm_is_instance (GmRecorder *r, const GmTracker *t, const GmTracker *cls)
{
  cls = gm_realize (r, cls);
  if (r->stop)
    return false;
  if (cls->kind == &gm_kind_tuple) {
    if (r->nesting >= GM_MAX_NESTING) {
      gm_record_break (r, GM_BREAK_CALL_C, "isinstance() with a deep tuple of classes");
      return false;
    }
    r->nesting++;
    bool any = false;
    for (uint32_t i = 0; i < cls->n && !any && !r->stop; i++)
      any = gm_is_instance (r, t, cls->items[i]);
    r->nesting--;
    return any;
  }
  if ((cls->kind == &gm_kind_object || cls->kind == &gm_kind_constant) && cls->real
      && strcmp (Py_TYPE (cls->real)->tp_name, "types.UnionType") == 0) {
    PyObject *parts = gm_record_take (r, PyObject_GetAttrString (cls->real, "__args__"));
    if (cls->source)
      gm_guard (r, IS, cls->source, .obj = cls->real);
    return gm_is_instance (r, t, gm_wrap (r, parts, gm_source_const (r, parts, "__args__")));
  }
  PyTypeObject *type = gm_type_only (r, t);
  if (type == NULL || cls->kind != &gm_kind_class) {
    gm_record_break (r, GM_BREAK_CALL_C, "isinstance() with a class that decides by itself");
    return false;
  }
  if (type == (PyTypeObject *) cls->real) /* no hook is called */
    return true;
  int said = metaclass_says (r, cls, "__instancecheck__", t);
  return said < 0 ? !r->stop && is_instance (r, t, type, cls) : said;
}

/* True if `type` is a subclass of `cls` by `hook`, __subclasscheck__ or __instancecheck__ (for the
 * type of an object). False also after a break. */
bool
gm_is_subclass (GmRecorder *r, PyTypeObject *type, PyObject *cls, const char *hook)
{
  bool plain = PyType_IsSubtype (type, (PyTypeObject *) cls);
  PyTypeObject *meta = Py_TYPE (cls);
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !gm_class_made (r, cls)) /* its bases can change */
    gm_guard (r, SUBCLASS, NULL, .obj = (PyObject *) type, .ptr = gm_record_keep (r, cls),
              .index = plain);
  if (meta == &PyType_Type)
    return plain;
  PyObject *found = gm_class_lookup_text (r, meta, hook);
  if (found == PyDict_GetItemString (gm_type_dict (&PyType_Type), hook))
    return plain;
  PyObject *module = PyObject_GetAttrString (cls, "__module__");
  const char *where = module && PyUnicode_Check (module) ? PyUnicode_AsUTF8 (module) : "";
  bool abc = strcmp (meta->tp_name, "ABCMeta") == 0;
  bool library = abc && (strcmp (where, "collections.abc") == 0 || strcmp (where, "numbers") == 0);
  int answer = -1;
  if (library) /* the hooks of the library's classes read the methods of the type */
    answer = PyObject_IsSubclass ((PyObject *) type, cls);
  else if (abc && plain
           && gm_class_lookup_text (r, (PyTypeObject *) cls, "__subclasshook__")
                  == gm_object_default ("__subclasshook__"))
    answer = 1;
  PyErr_Clear ();
  Py_XDECREF (module);
  if (answer < 0)
    gm_record_break (r, GM_BREAK_CALL_C, "isinstance() with a class that decides by itself");
  return answer > 0;
}

/* -- super ----------------------------------------------------------------- */

/* Returns super (type, self), where `self` is an instance, or a class in a classmethod. */
const GmTracker *
gm_super_new (GmRecorder *r, PyTypeObject *type, const GmTracker *self)
{
  const GmTracker **items = gm_tracker_array (r, 1);
  items[0] = self;
  return gm_tracker (r, .kind = &gm_kind_super, .items = items, .n = 1, .real = (PyObject *) type,
                     .number = gm_class_made (r, (PyObject *) type) != NULL);
}

static const GmTracker *
object_init (GmRecorder *r, const GmTracker *self, const GmCallArgs *args)
{
  return gm_args_plain (r, "object.__init__", args, 0, 0) ? gm_none (r) : &gm_tracker_poison;
}

static const GmTracker *
object_setattr (GmRecorder *r, const GmTracker *self, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "__setattr__", args, 2, 2))
    return &gm_tracker_poison;
  PyObject *name = gm_constant (r, args->args[0]);
  if (name == NULL || !PyUnicode_CheckExact (name) || self->kind != &gm_kind_object)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "__setattr__", gm_type_text (r, self));
  Py_INCREF (name);
  PyUnicode_InternInPlace (&name);
  gm_object_store (r, self, gm_record_take (r, name), args->args[1]);
  return gm_none (r);
}

static const GmTracker *
object_delattr (GmRecorder *r, const GmTracker *self, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "__delattr__", args, 1, 1))
    return &gm_tracker_poison;
  PyObject *name = gm_constant (r, args->args[0]);
  if (name == NULL || !PyUnicode_CheckExact (name) || self->kind != &gm_kind_object)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "__delattr__", gm_type_text (r, self));
  gm_object_store (r, self, name, NULL);
  return gm_none (r);
}

static const GmTracker *
object_getattribute (GmRecorder *r, const GmTracker *self, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "__getattribute__", args, 1, 1))
    return &gm_tracker_poison;
  PyObject *name = gm_constant (r, args->args[0]);
  if (name == NULL || !PyUnicode_CheckExact (name) || self->kind != &gm_kind_object)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "__getattribute__", gm_type_text (r, self));
  Py_INCREF (name);
  PyUnicode_InternInPlace (&name);
  gm_record_take (r, name);
  const GmTracker *v = gm_object_generic_get (r, self, name);
  if (v || r->stop)
    return v ? v : &gm_tracker_poison;
  return gm_raise_no_attribute (r, (PyTypeObject *) self->data, name);
}

/* Returns the method `name` of the class `object`, bound to self; NULL: it has no model. */
const GmTracker *
gm_object_method (GmRecorder *r, const GmTracker *self, PyObject *name)
{
  static const GmMethodRow rows[] = { { "__init__", object_init },
                                      { "__setattr__", object_setattr },
                                      { "__delattr__", object_delattr },
                                      { "__getattribute__", object_getattribute },
                                      { "__reduce_ex__", gm_object_reduce_ex },
                                      { NULL, NULL } };
  return gm_method_row (r, rows, self, name);
}

static const GmTracker *
super_getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *self = gm_realize (r, t->items[0]);
  PyTypeObject *self_type = gm_type_of (r, self);
  bool class_bound = self->kind == &gm_kind_class
                     && PyType_IsSubtype ((PyTypeObject *) self->real, (PyTypeObject *) t->real);
  if (class_bound)
    self_type = (PyTypeObject *) self->real;
  PyObject *mro = self_type ? self_type->tp_mro : NULL;
  Py_ssize_t i = 0, n = mro ? PyTuple_GET_SIZE (mro) : 0;
  while (i < n && PyTuple_GET_ITEM (mro, i) != t->real)
    i++;
  for (i++; i < n; i++) {
    PyTypeObject *base = (PyTypeObject *) PyTuple_GET_ITEM (mro, i);
    PyObject *found = gm_class_own (r, base, name);
    if (found == NULL)
      continue;
    gm_record_keep (r, found);
    static const GmMethodRow of_type[] = { { "__call__", type_call }, { NULL, NULL } };
    const GmTracker *call = base == &PyType_Type && self->kind == &gm_kind_class && !class_bound
                                ? gm_method_row (r, of_type, self, name)
                                : NULL;
    if (call)
      return gm_builtin_of (r, call, found, self);
    if (base == &PyBaseObject_Type && !class_bound) {
      const GmTracker *row = gm_object_method (r, self, name);
      if (row)
        return gm_builtin_of (r, row, found, self);
    }
    if (PyUnicode_CompareWithASCIIString (name, "__new__") == 0 && PyCFunction_Check (found))
      return gm_wrap (r, found, gm_source_const (r, found, "__new__"));
    return gm_descriptor_get (r, base, self_type, name, found, class_bound ? NULL : self);
  }
  return NULL;
}

static bool
super_build (GmResidualBuilder *b, const GmTracker *t)
{
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) &PySuper_Type);
  gm_residual_class (b, (PyTypeObject *) t->real);
  gm_residual_value (b, t->items[0]);
  gm_residual_emit (b, GM_INSN_CALL, 2, NULL);
  return true;
}

static PyTypeObject *
super_type (GmRecorder *r, const GmTracker *t)
{
  return &PySuper_Type;
}

const GmTrackerKind gm_kind_super = { .name = "super",
                                      .type = super_type,
                                      .getattr = super_getattr,
                                      .build = super_build,
                                      .builds_anew = true };
