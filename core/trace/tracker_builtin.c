/* SPDX-License-Identifier: Apache-2.0
 * tracker_builtin.c -- functions and methods of C: those that have a model, those that only compute
 * on constants, and the rest.  Classes of C are in builtin_class.c, functions of the module
 * builtins in builtin_function.c.
 *
 * A tracker of this kind is an existing C function (number 0), a row of a kind's method table bound
 * to a value (number 1), or a method of a constant (number 2; `real` is its name). A method that
 * was found in a base class has a second item, the object, and `real` is the descriptor. A function
 * without a model is called only if it is known to compute from its arguments alone and all of them
 * are constants; otherwise it breaks.
 */
#include "core/models/body.h"
#include "core/models/models.h"
#include "core/trace/class_made.h"
#include "core/models/tracker_control.h"
#include "core/models/random_draw.h"
#include "core/trace/exception.h"
#include "core/trace/iterator.h"
#include "core/models/members.h"
#include "core/trace/instance.h"

#include <string.h>

const GmTracker *
gm_wrap_builtin (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, IS, source, .obj = real);
  const GmTracker *t = gm_tracker (r, .kind = &gm_kind_builtin, .real = real, .source = source);
  gm_know (r, t);
  return t;
}

const GmTracker *
gm_builtin_method (GmRecorder *r, const char *name, const GmTracker *self)
{
  const GmTracker **items = gm_tracker_array (r, 1);
  items[0] = self;
  return gm_tracker (r, .kind = &gm_kind_builtin, .items = items, .n = 1, .number = 2,
                     .real = gm_record_take (r, PyUnicode_InternFromString (name)));
}

const GmTracker *
gm_builtin_of (GmRecorder *r, const GmTracker *bound, PyObject *descriptor, const GmTracker *self)
{
  if (bound->kind != &gm_kind_builtin || bound->number == 0)
    return bound;
  const GmTracker **items = gm_tracker_array (r, 2);
  items[0] = bound->items[0];
  items[1] = self;
  return gm_tracker (r, .kind = &gm_kind_builtin, .items = items, .n = 2, .number = bound->number,
                     .data = bound->data, .real = descriptor);
}

const GmTracker *
gm_builtin_plain_value (GmRecorder *r, const GmTracker *t)
{
  static const char *const hooks[] = { "__index__", "__int__", "__float__", "__round__" };
  t = gm_realize (r, t);
  if (r->stop || gm_value_of (t) == t)
    return t;
  for (size_t i = 0; i < G_N_ELEMENTS (hooks); i++)
    if (gm_object_how (r, t, hooks[i], NULL) == GM_HOW_PYTHON)
      return t;
  return gm_storage (t);
}

/* True if a call of `fn` may call a handler of the program's (codecs.register_error) for text that
 * cannot be encoded or decoded: one of the n arguments names such a handler. The handler sees each
 * call, so that the call cannot be run while recording. */
static bool
asks_handler (PyObject *fn, PyObject *const *values, uint32_t n)
{
  const char *name = PyCFunction_Check (fn) ? ((PyCFunctionObject *) fn)->m_ml->ml_name : "";
  bool codes = fn == (PyObject *) &PyUnicode_Type || fn == (PyObject *) &PyBytes_Type
               || strcmp (name, "encode") == 0 || strcmp (name, "decode") == 0;
  bool asks = false;
  for (uint32_t i = 0; codes && i < n && !asks; i++) {
    const char *text = PyUnicode_CheckExact (values[i]) ? PyUnicode_AsUTF8 (values[i]) : NULL;
    PyObject *handler = text ? PyCodec_LookupError (text) : NULL;
    asks = handler && !PyCFunction_Check (handler);
    Py_XDECREF (handler);
    PyErr_Clear ();
  }
  return asks;
}

const GmTracker *
gm_builtin_fold (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  uint32_t n = args->n + gm_args_n_named (args);
  g_autofree PyObject **values = g_new0 (PyObject *, n + 1);
  for (uint32_t i = 0; i < n; i++)
    if ((values[i] = gm_constant (r, gm_builtin_plain_value (r, args->args[i]))) == NULL)
      return NULL;
  if (asks_handler (fn, values, n))
    return NULL;
  return gm_from_constant_take (r, PyObject_Vectorcall (fn, values, args->n, args->names));
}

/* -- Functions -------------------------------------------------------------- */

const GmTracker *
gm_builtin_protocol (GmRecorder *r, const char *name, const GmCallArgs *args)
{
  static const struct {
    const char *name, *method;
    uint32_t max;
  } rows[] = {
    { "abs", "__abs__", 1 },   { "round", "__round__", 2 }, { "floor", "__floor__", 1 },
    { "ceil", "__ceil__", 1 }, { "trunc", "__trunc__", 1 }, { "complex", "__complex__", 1 },
  };
  const GmTracker *t = args->n ? gm_realize (r, args->args[0]) : NULL;
  if (t == NULL || t->kind != &gm_kind_object || args->names)
    return NULL;
  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++) {
    if (strcmp (rows[i].name, name) != 0 || args->n > rows[i].max)
      continue;
    const GmTracker *v = gm_call_special (r, t, rows[i].method, args->args + 1, args->n - 1);
    return v && !r->stop && gm_realize (r, v)->real == Py_NotImplemented ? NULL : v;
  }
  return NULL;
}

const GmTracker *
gm_index_called (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *v = gm_call_special (r, t, "__index__", NULL, 0);
  PyTypeObject *type = v && !r->stop ? gm_type_of (r, v) : NULL;
  if (v == NULL || r->stop || type == &PyLong_Type)
    return v;
  return gm_record_break (r, GM_BREAK_CALL_METHOD, "__index__",
                          gm_type_text (r, t)); /* the result would be a warning or a TypeError */
}

const GmTracker *
gm_builtin_with_index (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  const GmTracker **copy = gm_tracker_array_own (args->n);
  bool any = false;
  for (uint32_t i = 0; i < args->n && !r->stop; i++) {
    copy[i] = gm_realize (r, args->args[i]);
    const GmTracker *index = NULL;
    if (copy[i]->kind == &gm_kind_object && gm_value_of (copy[i]) == copy[i])
      index = gm_index_called (r, copy[i]);
    else if (copy[i]->kind == &gm_kind_scalar && PyLong_CheckExact (copy[i]->items[0]->real))
      index = copy[i]->items[0];
    any |= index != NULL;
    if (index)
      copy[i] = index;
  }
  const GmTracker *v =
      any && !r->stop ? gm_builtin_fold (r, fn, &(GmCallArgs){ copy, args->n, NULL }) : NULL;
  g_free (copy);
  return v;
}

/* Returns os.fspath (path): a str or bytes itself; for another object the result of its
 * __fspath__. */
static const GmTracker *
call_fspath (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  const GmTracker *t = args->n == 1 && !args->names ? gm_realize (r, args->args[0]) : NULL;
  if (t && t->kind == &gm_kind_constant
      && (PyUnicode_CheckExact (t->real) || PyBytes_CheckExact (t->real)))
    return t;
  const GmTracker *text = t && !r->stop && t->kind == &gm_kind_object
                              ? gm_call_special (r, t, "__fspath__", NULL, 0)
                              : NULL;
  text = text && !r->stop ? gm_realize (r, text) : NULL;
  return text && text->kind == &gm_kind_constant
                 && (PyUnicode_CheckExact (text->real) || PyBytes_CheckExact (text->real))
             ? text
             : NULL;
}

#define PLAIN(name, min, max)                                                                      \
  if (!gm_args_plain (r, name, args, min, max))                                                    \
  return &gm_tracker_poison

static const char *
module_of (PyObject *fn)
{
  PyObject *module = PyCFunction_Check (fn) ? ((PyCFunctionObject *) fn)->m_module : NULL;
  return module && PyUnicode_Check (module) ? PyUnicode_AsUTF8 (module) : "";
}

/* Calls `fn`, the __new__ of object, list ...; the class of the new instance is the first
 * argument. */
static const GmTracker *
call_new (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  const GmTracker *cls = args->n ? gm_realize (r, args->args[0]) : NULL;
  PyObject *base = PyCFunction_GET_SELF (fn);
  if (r->stop || cls == NULL || cls->kind != &gm_kind_class || base == NULL || !PyType_Check (base)
      || !PyType_IsSubtype ((PyTypeObject *) cls->real, (PyTypeObject *) base))
    return NULL;
  PyTypeObject *type = (PyTypeObject *) cls->real;
  if (!gm_is_user_type (type))
    return NULL;
  if (args->n == 2 && gm_is_named_tuple (r, type)) { /* a named tuple's own __new__ */
    g_autoptr (GPtrArray) items = gm_collect (r, args->args[1]);
    return items ? gm_tuple_new_of (r, type, (const GmTracker *const *) items->pdata, items->len)
                 : &gm_tracker_poison;
  }
  return gm_class_new_instance (r, type, &(GmCallArgs){ args->args + 1, args->n - 1, args->names });
}

/* Runs collections._count_elements, which fills a Counter. A class with a `get` or `__setitem__` of
 * its own has no model. */
static const GmTracker *
call_count_elements (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("_count_elements", 2, 2);
  const GmTracker *t = gm_realize (r, args->args[0]);
  const GmTracker *dict = gm_storage (t);
  if (r->stop || dict == NULL || dict->kind != &gm_kind_dict
      || gm_object_how (r, t, "get", NULL) != GM_HOW_C
      || gm_object_how (r, t, "__setitem__", NULL) != GM_HOW_C)
    return NULL;
  const GmTracker *it = gm_iter (r, args->args[1]), *item, *one = gm_from_int (r, 1);
  while (!r->stop && (item = gm_next (r, it)) != NULL) {
    const GmTracker *n = gm_dict_lookup (r, dict, item);
    gm_setitem (r, dict, item, n ? gm_binary (r, GM_BIN_ADD, n, one, false) : one);
  }
  return gm_none (r);
}

/* -- Class methods of C ---------------------------------------------------- */

static const GmTracker *
chain_from_iterable (GmRecorder *r, const GmTracker *cls, const GmCallArgs *args)
{
  PLAIN ("from_iterable", 1, 1);
  return gm_iterator_chain (r, args->args[0]);
}

static const GmTracker *
dict_fromkeys (GmRecorder *r, const GmTracker *cls, const GmCallArgs *args)
{
  PLAIN ("fromkeys", 1, 2);
  bool plain = cls->real == (PyObject *) &PyDict_Type;
  const GmTracker *d = plain ? gm_dict_new (r) : gm_call_n (r, cls, NULL, 0),
                  *value = args->n == 2 ? args->args[1] : gm_none (r);
  const GmTracker *it = gm_iter (r, args->args[0]), *key;
  while (!r->stop && (key = gm_next (r, it)) != NULL) { /* one at a time: a key may not be
                                                           hashable */
    if (plain)
      gm_dict_store (r, d, key, value);
    else
      gm_setitem (r, d, key, value);
  }
  return d;
}

const GmTracker *
gm_class_method (GmRecorder *r, const GmTracker *cls, PyObject *name)
{
  static const GmMethodRow chain[] = { { "from_iterable", chain_from_iterable }, { NULL, NULL } };
  static const GmMethodRow dict[] = { { "fromkeys", dict_fromkeys }, { NULL, NULL } };
  if (PyType_IsSubtype ((PyTypeObject *) cls->real, &PyDict_Type))
    return gm_method_row (r, dict, cls, name);
  return strcmp (((PyTypeObject *) cls->real)->tp_name, "itertools.chain") == 0
             ? gm_method_row (r, chain, cls, name)
             : NULL;
}

/* Calls an unbound C method with its object as the first argument, such as list.append (xs, 1). */
static const GmTracker *
call_unbound (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  PyDescrObject *d = (PyDescrObject *) fn;
  const GmTracker *self = args->n ? gm_realize (r, args->args[0]) : NULL;
  PyTypeObject *type = self ? gm_type_of (r, self) : NULL;
  if (r->stop || type == NULL || !PyType_IsSubtype (type, d->d_type))
    return NULL;
  const GmTracker *bound, *storage = gm_storage (self);
  if (gm_is_members_method (fn))
    bound = gm_members_method (r, self, d->d_name);
  else if (d->d_type == &PyBaseObject_Type)
    bound = gm_object_method (r, self, d->d_name);
  else if (storage && storage->kind == &gm_kind_dict) /* OrderedDict.copy is not dict.copy */
    bound = gm_class_value (r, type, d->d_name, fn, self);
  else if (storage)
    bound = gm_getattr_opt (r, storage, d->d_name);
  else
    bound = self->kind == &gm_kind_object ? NULL : gm_getattr_opt (r, self, d->d_name);
  return bound && !r->stop
             ? gm_call (r, bound, &(GmCallArgs){ args->args + 1, args->n - 1, args->names })
             : NULL;
}

/* Returns sys.exc_info () or sys.exception (). */
static const GmTracker *
call_exc_info (GmRecorder *r, const char *name, const GmCallArgs *args)
{
  static const char *const parts[] = { "__class__", NULL, "__traceback__" };
  PLAIN (name, 0, 0);
  const GmTracker *handled = gm_exception_handled (r), *items[3];
  PyObject *outside = handled ? NULL : PyErr_GetHandledException ();
  if (outside) {
    Py_DECREF (outside);
    return gm_record_break (r, GM_BREAK_CALL_C, name);
  }
  if (handled == NULL)
    gm_guard (r, HANDLES_NOTHING, NULL, .obj = NULL);
  for (int i = 0; i < 3; i++)
    items[i] = handled == NULL ? gm_none (r)
               : parts[i]      ? gm_getattr (r, handled,
                                             gm_record_take (r, PyUnicode_InternFromString (parts[i])))
                               : handled;
  return strcmp (name, "exception") == 0 ? items[1] : gm_tuple_new (r, items, 3);
}

/* True if `fn` is a C function by which tracers and debuggers start, such as sys.settrace. */
static bool
starts_tracer (PyObject *fn, const char *name)
{
  static const char *const names[] = { "breakpoint", "breakpointhook", "settrace", "setprofile" };
  const char *module = module_of (fn);
  for (size_t i = 0; i < G_N_ELEMENTS (names); i++)
    if (strcmp (name, names[i]) == 0)
      return strcmp (module, "sys") == 0 || strcmp (module, "builtins") == 0;
  return false;
}

/* Breaks because C function `name` has no model; the break is another one if an argument is a
 * subclass of Tensor, of which the function makes a tensor. */
static const GmTracker *
no_model (GmRecorder *r, const char *name, const GmCallArgs *args)
{
  for (uint32_t i = 0; i < args->n; i++) {
    const GmTracker *t = args->args[i];
    if (t->real && PyType_Check (t->real) && gm_is_tensor_subclass ((PyTypeObject *) t->real))
      return gm_record_break (r, GM_BREAK_MAKES_SUBCLASS, ((PyTypeObject *) t->real)->tp_name);
  }
  return gm_record_break (r, GM_BREAK_CALL_C, name);
}

static const GmTracker *
call_function (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  const GmTracker *v = NULL;
  bool descriptor = Py_IS_TYPE (fn, &PyMethodDescr_Type) || Py_IS_TYPE (fn, &PyWrapperDescr_Type);
  const char *name = PyCFunction_Check (fn) ? ((PyCFunctionObject *) fn)->m_ml->ml_name
                     : descriptor           ? PyUnicode_AsUTF8 (((PyDescrObject *) fn)->d_name)
                                            : Py_TYPE (fn)->tp_name;
  if (starts_tracer (fn, name))
    return gm_record_break (r, GM_BREAK_TRACER, name);
  if ((v = gm_control_call (r, fn, args)) != NULL || (v = gm_body_call (r, fn, args)) != NULL)
    return v;
  if ((v = gm_random_c_call (r, fn, args)) != NULL)
    return v;
  if ((v = gm_mode_call (r, fn, args)) != NULL || r->stop)
    return v ? v : &gm_tracker_poison;
  if ((v = gm_builtin_function_call (r, fn, name, args)) != NULL)
    return v;
  if (fn == gm_host.from_numpy || fn == gm_host.as_tensor || fn == gm_host.asarray)
    v = gm_tensor_over_array (r, fn, args);
  const char *module = module_of (fn);
  if (v == NULL && !r->stop && strcmp (module, "gramme._core") == 0)
    v = gm_tensor_made (r, fn, name, args);
  if (v || r->stop)
    return v ? v : &gm_tracker_poison;
  if (strcmp (module, "_stat") == 0)
    v = gm_builtin_fold (r, fn, args);
  else if (strcmp (name, "fspath") == 0
           && (strcmp (module, "posix") == 0 || strcmp (module, "nt") == 0))
    v = call_fspath (r, fn, args);
  else if (strcmp (module, "math") == 0) {
    v = strcmp (name, "prod") == 0 ? gm_math_prod (r, args) : gm_builtin_protocol (r, name, args);
    if (v == NULL && !r->stop)
      v = gm_builtin_fold (r, fn, args);
  } else if (strcmp (module, "_operator") == 0)
    v = gm_operator_function (r, name, args);
  else if (strcmp (module, "_functools") == 0 && strcmp (name, "reduce") == 0)
    v = gm_reduce (r, args);
  else if (strcmp (module, "_functools") == 0 && strcmp (name, "cmp_to_key") == 0)
    v = gm_cmp_to_key (r, args);
  else if (strcmp (module, "_collections") == 0 && strcmp (name, "_count_elements") == 0)
    v = call_count_elements (r, args);
  else if (strcmp (module, "builtins") == 0 && strcmp (name, "__build_class__") == 0)
    v = gm_class_statement (r, args);
  else if (PyCFunction_Check (fn) && strcmp (name, "__new__") == 0)
    v = call_new (r, fn, args);
  else if (Py_IS_TYPE (fn, &PyMethodDescr_Type) || Py_IS_TYPE (fn, &PyWrapperDescr_Type))
    v = call_unbound (r, fn, args);
  else if (strcmp (module, "sys") == 0
           && (strcmp (name, "exc_info") == 0 || strcmp (name, "exception") == 0))
    v = call_exc_info (r, name, args);
  else if (strcmp (module, "sys") == 0 && strcmp (name, "getsizeof") == 0)
    return gm_record_break (r, GM_BREAK_CALL_SIZE, "getsizeof()");
  else if (strcmp (module, "gramme._core") == 0 && g_str_has_prefix (name, "autograd_"))
    return gm_record_break (r, GM_BREAK_BACKWARD,
                            strcmp (name, "autograd_grad") == 0 ? "autograd.grad()"
                                                                : "autograd.backward()");
  return v ? v : no_model (r, name, args);
}

/* -- The kind -------------------------------------------------------------- */

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  if (t->number == 0)
    return Py_TYPE (t->real);
  PyTypeObject *of = t->n == 2 ? NULL : gm_type_of (r, t->items[0]);
  PyObject *found = of          ? _PyType_Lookup (of, gm_builtin_method_name (r, t))
                    : t->n == 2 ? t->real
                                : NULL;
  return found && Py_IS_TYPE (found, &PyWrapperDescr_Type) ? gm_host.method_wrapper_type
                                                           : &PyCFunction_Type;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

/* Calls t, a C method that was bound to an object before the region (`append = xs.append`), as the
 * method of that object. NULL: the object is of no type with a model of its methods. */
static const GmTracker *
call_bound (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  PyObject *self = t->source && PyCFunction_Check (t->real) ? PyCFunction_GET_SELF (t->real) : NULL;
  PyTypeObject *type = self ? Py_TYPE (self) : NULL;
  if (type == NULL
      || (type != &PyList_Type && type != &PyDict_Type && type != &PySet_Type
          && type != &PyUnicode_Type && type != &PyTuple_Type
          && strcmp (type->tp_name, "collections.deque") != 0))
    return NULL;
  PyObject *name = gm_record_take (
      r, PyUnicode_InternFromString (((PyCFunctionObject *) t->real)->m_ml->ml_name));
  const GmTracker *of = gm_wrap (
      r, self, gm_source_member (r, t->source, offsetof (PyCFunctionObject, m_self), name));
  return gm_call (r, gm_getattr (r, of, name), args);
}

/* Calls a method of a C type that is in no method table. */
static const GmTracker *
call_c_method (GmRecorder *r, const GmTracker *self, PyObject *name, const GmCallArgs *args)
{
  const GmTracker *v =
      self->kind == &gm_kind_object ? gm_random_method_call (r, self, name, args) : NULL;
  if (v || r->stop)
    return v ? v : &gm_tracker_poison;
  if (self->kind == &gm_kind_tensor && PyUnicode_CompareWithASCIIString (name, "backward") == 0)
    return gm_record_break (r, GM_BREAK_BACKWARD, "backward()");
  return gm_record_break (r, GM_BREAK_CALL_METHOD, PyUnicode_AsUTF8 (name), gm_type_text (r, self));
}

/* True if no argument is an instance of a Python class, whose methods may replace those of the
 * value inside. */
static bool
are_exact (GmRecorder *r, const GmCallArgs *args)
{
  for (uint32_t i = 0; i < args->n + gm_args_n_named (args) && !r->stop; i++)
    if (gm_realize (r, args->args[i])->kind == &gm_kind_object)
      return false;
  return true;
}

static const GmTracker *
call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (t->number == 1)
    return ((const GmMethodRow *) t->data)->run (r, t->items[0], args);
  const GmTracker *bound = t->number == 0 ? call_bound (r, t, args) : NULL;
  if (bound)
    return bound;
  if (t->number == 0)
    return call_function (r, t->real, args);
  PyObject *name = gm_builtin_method_name (r, t);
  if (t->items[0]->kind == &gm_kind_object || t->items[0]->kind == &gm_kind_tensor)
    return call_c_method (r, t->items[0], name, args);
  if (t->items[0]->kind == &gm_kind_bytearray)
    return gm_bytearray_call (r, t->items[0], name, args);
  PyObject *method = gm_record_take (r, PyObject_GetAttr (t->items[0]->real, name));
  bool format = PyUnicode_CheckExact (t->items[0]->real)
                && PyUnicode_CompareWithASCIIString (name, "format") == 0;
  const GmTracker *v = format && !are_exact (r, args) ? NULL : gm_builtin_fold (r, method, args);
  if (v == NULL && args->n == 1 && !args->names && !r->stop
      && PyUnicode_CompareWithASCIIString (name, "join") == 0) { /* takes any iterable of strings */
    g_autoptr (GPtrArray) parts = gm_collect_fast (r, args->args[0], "can only join an iterable");
    if (parts == NULL)
      return &gm_tracker_poison;
    for (uint32_t i = 0; i < parts->len; i++) /* C reads the text inside of an instance of a
                                                 subclass of str */
      parts->pdata[i] = (gpointer) gm_value_of (gm_realize (r, parts->pdata[i]));
    const GmTracker *all = gm_tuple_new (r, (const GmTracker *const *) parts->pdata, parts->len);
    v = gm_builtin_fold (r, method, &(GmCallArgs){ &all, 1, NULL });
  }
  if (v == NULL && !r->stop && format)
    v = gm_str_format (r, t->items[0]->real, args);
  return v ? v
           : gm_record_break (r, GM_BREAK_CALL_METHOD, PyUnicode_AsUTF8 (name),
                              gm_type_text (r, t->items[0]));
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  bool method = t->number == 1; /* a method of a table's row */
  if (PyUnicode_CompareWithASCIIString (name, "__name__") == 0
      && (method || (t->number == 0 && t->real)))
    return gm_from_constant_take (
        r, method ? PyUnicode_InternFromString (((const GmMethodRow *) t->data)->name)
                  : PyObject_GetAttr (t->real, name));
  return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "builtin function");
}

PyObject *
gm_builtin_method_name (GmRecorder *r, const GmTracker *t)
{
  if (t->number == 0)
    return NULL;
  if (t->number == 2)
    return t->n == 2 ? ((PyDescrObject *) t->real)->d_name : t->real;
  return gm_record_take (r, PyUnicode_InternFromString (((const GmMethodRow *) t->data)->name));
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  if (t->n == 2) {
    /* list.append.__get__ (object, list), which bypasses overrides of the object's class. Some C
     * methods need the class, which CPython reads without a test that it was given. */
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->real);
    gm_residual_emit (
        b, GM_INSN_LOAD_ATTR, 0,
        gm_record_take (gm_residual_recorder (b), PyUnicode_InternFromString ("__get__")));
    gm_residual_value (b, t->items[1]);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) PyDescr_TYPE (t->real));
    gm_residual_emit (b, GM_INSN_CALL, 2, NULL);
    return true;
  }
  if (t->number) { /* a method, bound to its value */
    gm_residual_value (b, t->items[0]);
    gm_residual_emit (b, GM_INSN_LOAD_ATTR, 0,
                      gm_builtin_method_name (gm_residual_recorder (b), t));
    return true;
  }
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->real);
  return true;
}

const GmTrackerKind gm_kind_builtin = {
  .name = "builtin function",
  .type = type,
  .truth = truth,
  .call = call,
  .getattr = getattr,
  .build = build,
  .builds_anew = true, /* a bound one */
};
