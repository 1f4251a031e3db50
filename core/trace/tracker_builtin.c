/* SPDX-License-Identifier: Apache-2.0
 * tracker_builtin.c -- functions and methods of C: those that have a model, those that only compute on
 * constants, and the rest.  Classes of C are in builtin_class.c.
 *
 * A tracker of this kind is a row of a kind's method table bound to a value (number 1; with a second
 * item: found in a base class, real is the descriptor and the item the object), a method of a
 * constant (number 2, real is its name), or an existing C function (number 0).  A function without a model is called only if it is known to compute from its arguments alone and all of them
 * are constants; otherwise it breaks.
 */
#include "core/tensor/device.h"
#include "core/trace/body.h"
#include "core/trace/builtin.h"
#include "core/trace/class_made.h"
#include "core/trace/control.h"
#include "core/trace/cell.h"
#include "core/trace/draw.h"
#include "core/trace/exception.h"
#include "core/trace/iterator.h"
#include "core/trace/keys.h"
#include "core/trace/number.h"
#include "core/trace/object.h"
#include "core/trace/size.h"

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
  if (bound->kind != &gm_kind_builtin || bound->number != 1)
    return bound;
  const GmTracker **items = gm_tracker_array (r, 2);
  items[0] = bound->items[0];
  items[1] = self;
  return gm_tracker (r, .kind = &gm_kind_builtin, .items = items, .n = 2, .number = 1,
                     .data = bound->data, .real = descriptor);
}

/* What C reads of an instance of a subclass of int, float, str or bytes, where the class does not
 * say it anew. */
static const GmTracker *
plain_value (GmRecorder *r, const GmTracker *t)
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

const GmTracker *
gm_builtin_fold (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  uint32_t n = args->n + gm_args_n_named (args);
  g_autofree PyObject **values = g_new0 (PyObject *, n + 1);
  for (uint32_t i = 0; i < n; i++)
    if ((values[i] = gm_constant (r, plain_value (r, args->args[i]))) == NULL)
      return NULL;
  return gm_from_constant_take (r, PyObject_Vectorcall (fn, values, args->n, args->names));
}

/* -- Functions with a model ------------------------------------------------ */

typedef const GmTracker *(*Model) (GmRecorder *r, const GmCallArgs *args);

#define PLAIN(name, min, max)                                                                      \
  if (!gm_args_plain (r, name, args, min, max))                                                    \
  return &gm_tracker_poison

static const GmTracker *
call_len (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("len", 1, 1);
  const GmTracker *t = gm_realize (r, args->args[0]);
  if (t->kind == &gm_kind_tensor && !r->stop) {
    const GmMeta *m = gm_graph_meta (r->graph, (GmValueId) gm_contents_of (r, t)->number);
    if (m->ndim)
      return gm_size_tracker (r, m->sizes[0]);
  }
  return gm_from_int (r, gm_len (r, args->args[0]));
}

static const GmTracker *
call_isinstance (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("isinstance", 2, 2);
  return gm_from_bool (r, gm_is_instance (r, args->args[0], args->args[1]));
}

static const GmTracker *
call_issubclass (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("issubclass", 2, 2);
  const GmTracker *a = gm_realize (r, args->args[0]), *b = gm_realize (r, args->args[1]);
  if (r->stop || a->kind != &gm_kind_class)
    return gm_record_break (r, GM_BREAK_CALL_C, "issubclass()");
  bool found = false;
  for (uint32_t i = 0; i < (b->kind == &gm_kind_tuple ? b->n : 1) && !found; i++) {
    const GmTracker *c = b->kind == &gm_kind_tuple ? gm_realize (r, b->items[i]) : b;
    if (r->stop || c->kind != &gm_kind_class)
      return gm_record_break (r, GM_BREAK_CALL_C, "issubclass()");
    found = gm_is_subclass (r, (PyTypeObject *) a->real, c->real, "__subclasscheck__");
  }
  return gm_from_bool (r, found);
}

static PyObject *
name_of (GmRecorder *r, const GmTracker *t)
{
  PyObject *name = gm_constant (r, t);
  if (name && PyUnicode_CheckExact (name)) {
    Py_INCREF (name); /* interned: keys of guards are compared by identity first */
    PyUnicode_InternInPlace (&name);
    return gm_record_take (r, name);
  }
  gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "an attribute name that is no constant string");
  return NULL;
}

static const GmTracker *
call_getattr (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("getattr", 2, 3);
  PyObject *name = name_of (r, args->args[1]);
  if (name == NULL)
    return &gm_tracker_poison;
  if (args->n == 2)
    return gm_getattr (r, args->args[0], name);
  const GmTracker *v = gm_getattr_opt (r, args->args[0], name);
  if (gm_exception_caught (r, PyExc_AttributeError))
    v = NULL;
  return v ? v : args->args[2];
}

static const GmTracker *
call_hasattr (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("hasattr", 2, 2);
  PyObject *name = name_of (r, args->args[1]);
  if (name == NULL)
    return &gm_tracker_poison;
  const GmTracker *v = gm_getattr_opt (r, args->args[0], name);
  if (gm_exception_caught (r, PyExc_AttributeError))
    v = NULL;
  return gm_from_bool (r, v != NULL);
}

static const GmTracker *
call_setattr (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("setattr", 3, 3);
  PyObject *name = name_of (r, args->args[1]);
  if (name)
    gm_setattr (r, args->args[0], name, args->args[2]);
  return gm_none (r);
}

static const GmTracker *
call_delattr (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("delattr", 2, 2);
  PyObject *name = name_of (r, args->args[1]);
  if (name)
    gm_setattr (r, args->args[0], name, NULL);
  return gm_none (r);
}

static const GmTracker *
call_vars (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("vars", 1, 1);
  const GmTracker *dict =
      gm_getattr_opt (r, args->args[0], gm_record_take (r, PyUnicode_InternFromString ("__dict__")));
  bool none = gm_exception_caught (r, PyExc_AttributeError) || (dict == NULL && !r->stop);
  return none ? gm_raise_new (r, PyExc_TypeError, "vars() argument must have __dict__ attribute")
              : dict;
}

static const GmTracker *
call_hash (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("hash", 1, 1);
  Py_hash_t hash;
  const GmTracker *t = gm_realize (r, args->args[0]);
  if (gm_key_hash (r, t, &hash) || (!r->stop && t->kind == &gm_kind_tuple && gm_tuple_hash (r, t, &hash))
      || (!r->stop && gm_key_hash_called (r, t, &hash)))
    return gm_from_int (r, hash);
  return gm_record_break (r, GM_BREAK_CALL_ID, "hash()");
}

static const GmTracker *
call_repr (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("repr", 1, 1);
  return gm_text_of (r, args->args[0], true);
}

static const GmTracker *
call_format (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("format", 1, 2);
  PyObject *spec = args->n == 2 ? gm_constant (r, args->args[1]) : NULL;
  if (args->n == 2 && (spec == NULL || !PyUnicode_CheckExact (spec)))
    return gm_record_break (r, GM_BREAK_CALL_C, "format");
  return gm_format (r, args->args[0], 0, spec);
}

const GmTracker *
gm_builtin_protocol (GmRecorder *r, const char *name, const GmCallArgs *args)
{
  static const struct {
    const char *name, *method;
    uint32_t max;
  } rows[] = {
    { "abs", "__abs__", 1 },     { "round", "__round__", 2 }, { "divmod", "__divmod__", 2 },
    { "pow", "__pow__", 3 },     { "floor", "__floor__", 1 }, { "ceil", "__ceil__", 1 },
    { "trunc", "__trunc__", 1 }, { "complex", "__complex__", 1 },
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
gm_builtin_with_index (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  const GmTracker **copy = gm_tracker_array_own (args->n);
  bool any = false;
  for (uint32_t i = 0; i < args->n && !r->stop; i++) {
    copy[i] = gm_realize (r, args->args[i]);
    const GmTracker *index = NULL;
    if (copy[i]->kind == &gm_kind_object && gm_value_of (copy[i]) == copy[i])
      index = gm_call_special (r, copy[i], "__index__", NULL, 0);
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

static const GmTracker *
call_abs (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("abs", 1, 1);
  const GmTracker *t = gm_realize (r, args->args[0]);
  if (t->kind == &gm_kind_tensor)
    return gm_call_api_name (r, "abs", &t, 1, false);
  if (gm_is_size (t) && !r->stop)
    return gm_truth (r, gm_compare (r, Py_LT, t, gm_from_int (r, 0))) ? gm_unary (r, GM_UN_NEG, t) : t;
  const GmTracker *own = gm_builtin_protocol (r, "abs", args);
  if (own || r->stop)
    return own ? own : &gm_tracker_poison;
  PyObject *o = gm_constant (r, plain_value (r, t));
  return o ? gm_from_constant_take (r, PyNumber_Absolute (o))
           : gm_record_break (r, GM_BREAK_UNARY, "abs()", gm_type_text (r, t));
}

/* Adds up numbers that are known as sum () does: since 3.12 it carries along what floats lose. */
static const GmTracker *
sum_known (GmRecorder *r, const GmTracker *start, PyObject *items)
{
  PyObject *sum = PyDict_GetItemString (PyEval_GetBuiltins (), "sum");
  if (r->stop || PyList_GET_SIZE (items) == 0)
    return start;
  return gm_from_constant_take (r, sum ? PyObject_CallFunctionObjArgs (sum, items, start->real, NULL) : NULL);
}

static bool
is_known_number (const GmTracker *t)
{
  return t->kind == &gm_kind_constant && (PyLong_Check (t->real) || PyFloat_CheckExact (t->real));
}

static const GmTracker *
call_sum (GmRecorder *r, const GmCallArgs *args)
{
  static const char *const names[] = { "iterable", "start" };
  const GmTracker *in[2];
  if (!gm_args_take (r, "sum", args, names, 2, in))
    return &gm_tracker_poison;
  if (args->n == 0) /* the first has no name */
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "sum() without an iterable");
  const GmTracker *total = in[1] ? in[1] : gm_from_int (r, 0), *item;
  const GmTracker *it = gm_iter (r, in[0]), *start = gm_realize (r, total);
  PyObject *known = gm_record_take (r, PyList_New (0));
  bool all_known = !r->stop && is_known_number (start);
  while (!r->stop && (item = gm_next (r, it)) != NULL) {
    const GmTracker *value = all_known ? gm_realize (r, item) : item;
    if (all_known && is_known_number (value) && PyList_Append (known, value->real) == 0)
      continue;
    if (all_known)
      total = sum_known (r, start, known);
    all_known = false;
    total = gm_binary (r, GM_BIN_ADD, total, item, false);
  }
  return all_known ? sum_known (r, start, known) : total;
}

static const GmTracker *
any_or_all (GmRecorder *r, const GmCallArgs *args, bool any)
{
  PLAIN (any ? "any" : "all", 1, 1);
  const GmTracker *it = gm_iter (r, args->args[0]), *item;
  while (!r->stop && (item = gm_next (r, it)) != NULL)
    if ((gm_truth (r, item) != 0) == any)
      return gm_from_bool (r, any);
  return gm_from_bool (r, !any);
}

static const GmTracker *
call_any (GmRecorder *r, const GmCallArgs *args)
{
  return any_or_all (r, args, true);
}

static const GmTracker *
call_all (GmRecorder *r, const GmCallArgs *args)
{
  return any_or_all (r, args, false);
}

static const GmTracker *
call_sorted (GmRecorder *r, const GmCallArgs *args)
{
  if (args->n != 1)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "sorted()");
  const GmTracker *t = gm_realize (r, args->args[0]);
  if (!r->stop && t->kind == &gm_kind_set && args->names == NULL) { /* whatever its order is */
    const GmTracker *contents = gm_contents_of (r, t);
    return gm_sorted (r, contents->items, contents->n, "sorted", args);
  }
  g_autoptr (GPtrArray) items = gm_collect (r, t);
  return items ? gm_sorted (r, (const GmTracker *const *) items->pdata, items->len, "sorted", args)
               : &gm_tracker_poison;
}

static const GmTracker *
call_min (GmRecorder *r, const GmCallArgs *args)
{
  return gm_min_or_max (r, args, false);
}

static const GmTracker *
call_max (GmRecorder *r, const GmCallArgs *args)
{
  return gm_min_or_max (r, args, true);
}

static const GmTracker *
call_iter (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("iter", 1, 2);
  return args->n == 2 ? gm_iterator_new (r, GM_ITER_CALLABLE, args->args, 2, 0)
                      : gm_iter (r, args->args[0]);
}

static const GmTracker *
call_next (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("next", 1, 2);
  const GmTracker *it = gm_realize (r, args->args[0]), *item = gm_next (r, it);
  if (item || r->stop)
    return item ? item : &gm_tracker_poison;
  if (args->n == 2)
    return args->args[1];
  bool valued = it->kind == &gm_kind_generator || it->kind == &gm_kind_object;
  const GmTracker *value = valued ? gm_realize (r, r->stopped_value) : NULL;
  return gm_raise_value (r, PyExc_StopIteration, value && value->real != Py_None ? value : NULL);
}

static const GmTracker *
call_callable (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("callable", 1, 1);
  const GmTracker *t = gm_realize (r, args->args[0]);
  if (t->kind == &gm_kind_object)
    return gm_from_bool (r, ((PyTypeObject *) t->data)->tp_call != NULL);
  return gm_from_bool (r, t->kind->call != NULL);
}

static const GmTracker *
call_print (GmRecorder *r, const GmCallArgs *args)
{
  return gm_record_break (r, GM_BREAK_CALL_PRINT, "print()");
}

static const GmTracker *
call_id (GmRecorder *r, const GmCallArgs *args)
{
  return gm_record_break (r, GM_BREAK_CALL_ID, "id()");
}

static const GmTracker *
call_is_grad_enabled (GmRecorder *r, const GmCallArgs *args)
{
  bool on = gm_grad_mode_get (r);
  gm_grad_mode_set (r, on); /* who asks is known by the journal, like who sets it: custom.c */
  return gm_from_bool (r, on);
}

/* The function below the contexts of that name: sets, and returns the old mode. */
static const GmTracker *
call_set_grad_enabled (GmRecorder *r, const GmCallArgs *args)
{
  bool old = gm_grad_mode_get (r);
  PLAIN ("set_grad_enabled", 1, 1);
  gm_grad_mode_set (r, gm_truth (r, args->args[0]));
  return gm_from_bool (r, old);
}

/* Guarded with the modes; whoever sets another breaks the graph. */
static const GmTracker *
call_get_default_dtype (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("get_default_dtype", 0, 0);
  return gm_from_constant (r, gm_host.dtype_object ((GmDtype) (r->request->env.modes >> GM_MODE_DTYPE_SHIFT & 0xff)));
}

static bool
autocast_device (GmRecorder *r, const GmTracker *t, int *device)
{
  PyObject *name = gm_constant (r, t);
  if (name && PyUnicode_CheckExact (name) && gm_device_find (PyUnicode_AsUTF8 (name), device))
    return true;
  gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "autocast on something that is no device");
  return false;
}

static const GmTracker *
autocast_now (GmRecorder *r, int device)
{
  GmDtype dtype = gm_autocast_dtype (gm_autocast_mode_get (r), device);
  return dtype == GM_N_DTYPES ? gm_none (r) : gm_from_constant (r, gm_host.dtype_object (dtype));
}

static const GmTracker *
call_get_autocast (GmRecorder *r, const GmCallArgs *args)
{
  int device;
  PLAIN ("get_autocast", 1, 1);
  return autocast_device (r, args->args[0], &device) ? autocast_now (r, device) : NULL;
}

/* The function below the context: sets, and returns the old dtype or None. */
static const GmTracker *
call_set_autocast (GmRecorder *r, const GmCallArgs *args)
{
  int device;
  PLAIN ("set_autocast", 2, 2);
  if (!autocast_device (r, args->args[1], &device))
    return NULL;
  const GmTracker *old = autocast_now (r, device);
  PyObject *dtype = gm_constant (r, args->args[0]);
  if (!dtype || (dtype != Py_None && Py_TYPE (dtype) != gm_host.dtype_type))
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "autocast to something that is no dtype");
  gm_autocast_mode_set (r, gm_autocast_with (gm_autocast_mode_get (r), device,
                                             dtype == Py_None ? GM_N_DTYPES : (GmDtype) gm_host.dtype_get (dtype)));
  return old;
}

/* os.fspath of a text is the text; other paths say it by a method. */
static const GmTracker *
call_fspath (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  const GmTracker *t = args->n == 1 && !args->names ? gm_realize (r, args->args[0]) : NULL;
  if (t && t->kind == &gm_kind_constant && (PyUnicode_CheckExact (t->real) || PyBytes_CheckExact (t->real)))
    return t;
  const GmTracker *text = t && !r->stop && t->kind == &gm_kind_object ? gm_call_special (r, t, "__fspath__", NULL, 0) : NULL;
  text = text && !r->stop ? gm_realize (r, text) : NULL;
  return text && text->kind == &gm_kind_constant && (PyUnicode_CheckExact (text->real) || PyBytes_CheckExact (text->real)) ? text : NULL;
}

/* `fold`: computes from its arguments alone; called on constants. */
static const struct {
  const char *name;
  Model model;
} functions[] = {
  { "len", call_len },
  { "isinstance", call_isinstance },
  { "issubclass", call_issubclass },
  { "getattr", call_getattr },
  { "hasattr", call_hasattr },
  { "setattr", call_setattr },
  { "abs", call_abs },
  { "sum", call_sum },
  { "any", call_any },
  { "all", call_all },
  { "iter", call_iter },
  { "next", call_next },
  { "callable", call_callable },
  { "print", call_print },
  { "id", call_id },
  { "min", call_min },
  { "max", call_max },
  { "sorted", call_sorted },
  { "divmod", NULL },
  { "pow", NULL },
  { "round", NULL },
  { "chr", NULL },
  { "ord", NULL },
  { "hex", NULL },
  { "oct", NULL },
  { "bin", NULL },
  { "repr", call_repr },
  { "format", call_format },
  { "delattr", call_delattr },
  { "vars", call_vars },
  { "hash", call_hash },
  { "ascii", NULL },
};

static const char *
module_of (PyObject *fn)
{
  PyObject *module = PyCFunction_Check (fn) ? ((PyCFunctionObject *) fn)->m_module : NULL;
  return module && PyUnicode_Check (module) ? PyUnicode_AsUTF8 (module) : "";
}

/* object.__new__, list.__new__ ...: the class to make is the first argument. */
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

/* What Counter is filled with; a class with a `get` or `__setitem__` of its own is left alone. */
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
  const GmTracker *d = plain ? gm_dict_new (r) : gm_call_n (r, cls, NULL, 0), *value = args->n == 2 ? args->args[1] : gm_none (r);
  const GmTracker *it = gm_iter (r, args->args[0]), *key;
  while (!r->stop && (key = gm_next (r, it)) != NULL) { /* one at a time: it may not be hashable */
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

/* list.append (xs, 1): a method of a class of C, called with its object. */
static const GmTracker *
call_unbound (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  PyDescrObject *d = (PyDescrObject *) fn;
  const GmTracker *self = args->n ? gm_realize (r, args->args[0]) : NULL;
  PyTypeObject *type = self ? gm_type_of (r, self) : NULL;
  if (r->stop || type == NULL || !PyType_IsSubtype (type, d->d_type))
    return NULL;
  const GmTracker *bound, *storage = gm_storage (self);
  if (d->d_type == &PyBaseObject_Type)
    bound = gm_object_method (r, self, d->d_name);
  else if (storage)
    bound = gm_getattr_opt (r, storage, d->d_name);
  else
    bound = self->kind == &gm_kind_object ? NULL : gm_getattr_opt (r, self, d->d_name);
  return bound && !r->stop
             ? gm_call (r, bound, &(GmCallArgs){ args->args + 1, args->n - 1, args->names })
             : NULL;
}

static const GmTracker *
call_function (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  const GmTracker *v = NULL;
  bool descriptor = Py_IS_TYPE (fn, &PyMethodDescr_Type) || Py_IS_TYPE (fn, &PyWrapperDescr_Type);
  const char *name = PyCFunction_Check (fn) ? ((PyCFunctionObject *) fn)->m_ml->ml_name
                     : descriptor           ? PyUnicode_AsUTF8 (((PyDescrObject *) fn)->d_name)
                                            : Py_TYPE (fn)->tp_name;
  if ((v = gm_control_call (r, fn, args)) != NULL || (v = gm_body_call (r, fn, args)) != NULL)
    return v;
  if ((v = gm_random_c_call (r, fn, args)) != NULL)
    return v;
  if (fn == gm_host.is_grad_enabled)
    return call_is_grad_enabled (r, args);
  if (fn == gm_host.set_autocast)
    return call_set_autocast (r, args);
  if (fn == gm_host.get_autocast)
    return call_get_autocast (r, args);
  if (fn == gm_host.get_default_dtype)
    return call_get_default_dtype (r, args);
  if (fn == gm_host.set_grad_mode)
    return call_set_grad_enabled (r, args);
  for (size_t i = 0; i < G_N_ELEMENTS (functions); i++)
    if (fn == PyDict_GetItemString (PyEval_GetBuiltins (), functions[i].name)) {
      v = functions[i].model ? functions[i].model (r, args) : gm_builtin_protocol (r, name, args);
      if (v == NULL && !r->stop && functions[i].model == NULL)
        v = gm_builtin_fold (r, fn, args);
      if (v == NULL && !r->stop && args->names == NULL && functions[i].model == NULL)
        v = gm_builtin_with_index (r, fn, args);
      return v ? v : gm_record_break (r, GM_BREAK_CALL_C, functions[i].name);
    }
  if (fn == gm_host.from_numpy || fn == gm_host.as_tensor || fn == gm_host.asarray)
    v = gm_tensor_over_array (r, fn, args);
  const char *module = module_of (fn);
  if (v == NULL && !r->stop && strcmp (module, "gramme._core") == 0)
    v = gm_tensor_made (r, fn, name, args);
  if (v || r->stop)
    return v ? v : &gm_tracker_poison;
  if (strcmp (module, "_stat") == 0)
    v = gm_builtin_fold (r, fn, args);
  else if (strcmp (name, "fspath") == 0 && (strcmp (module, "posix") == 0 || strcmp (module, "nt") == 0))
    v = call_fspath (r, fn, args);
  else if (strcmp (module, "math") == 0) {
    v = gm_builtin_protocol (r, name, args);
    if (v == NULL && !r->stop)
      v = gm_builtin_fold (r, fn, args);
  }
  else if (strcmp (module, "_operator") == 0)
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
  else if (strcmp (module, "sys") == 0 && strcmp (name, "getsizeof") == 0)
    return gm_record_break (r, GM_BREAK_CALL_SIZE, "getsizeof()");
  else if (strcmp (module, "gramme._core") == 0 && g_str_has_prefix (name, "autograd_"))
    return gm_record_break (r, GM_BREAK_BACKWARD, strcmp (name, "autograd_grad") == 0 ? "autograd.grad()" : "autograd.backward()");
  return v ? v : gm_record_break (r, GM_BREAK_CALL_C, name);
}

/* -- The kind -------------------------------------------------------------- */

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return t->number == 0 ? Py_TYPE (t->real) : &PyCFunction_Type;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

/* A method of an object of C that was bound before (`append = xs.append`): that object's, which is known with it.  NULL: it is no container. */
static const GmTracker *
call_bound (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  PyObject *self = t->source && PyCFunction_Check (t->real) ? PyCFunction_GET_SELF (t->real) : NULL;
  PyTypeObject *type = self ? Py_TYPE (self) : NULL;
  if (type == NULL
      || (type != &PyList_Type && type != &PyDict_Type && type != &PySet_Type && type != &PyUnicode_Type && type != &PyTuple_Type
          && strcmp (type->tp_name, "collections.deque") != 0))
    return NULL;
  PyObject *name = gm_record_take (r, PyUnicode_InternFromString (((PyCFunctionObject *) t->real)->m_ml->ml_name));
  const GmTracker *of = gm_wrap (r, self, gm_source_member (r, t->source, offsetof (PyCFunctionObject, m_self), name));
  return gm_call (r, gm_getattr (r, of, name), args);
}

/* A method that a type of C has and no table. */
static const GmTracker *
call_c_method (GmRecorder *r, const GmTracker *self, PyObject *name, const GmCallArgs *args)
{
  const GmTracker *v = self->kind == &gm_kind_object ? gm_random_method_call (r, self, name, args) : NULL;
  if (v || r->stop)
    return v ? v : &gm_tracker_poison;
  if (self->kind == &gm_kind_tensor && PyUnicode_CompareWithASCIIString (name, "backward") == 0)
    return gm_record_break (r, GM_BREAK_BACKWARD, "backward()");
  return gm_record_break (r, GM_BREAK_CALL_METHOD, PyUnicode_AsUTF8 (name), gm_type_text (r, self));
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
  if (t->items[0]->kind == &gm_kind_object || t->items[0]->kind == &gm_kind_tensor)
    return call_c_method (r, t->items[0], t->real, args);
  PyObject *method = gm_record_take (r, PyObject_GetAttr (t->items[0]->real, t->real));
  const GmTracker *v = gm_builtin_fold (r, method, args);
  if (v == NULL && args->n == 1 && !args->names && !r->stop
      && PyUnicode_CompareWithASCIIString (t->real, "join") == 0) { /* any iterable of strings */
    g_autoptr (GPtrArray) parts = gm_collect_fast (r, args->args[0], "can only join an iterable");
    if (parts == NULL)
      return &gm_tracker_poison;
    for (uint32_t i = 0; i < parts->len; i++) /* of a subclass of str C takes the text */
      parts->pdata[i] = (gpointer) gm_value_of (gm_realize (r, parts->pdata[i]));
    const GmTracker *all = gm_tuple_new (r, (const GmTracker *const *) parts->pdata, parts->len);
    v = gm_builtin_fold (r, method, &(GmCallArgs){ &all, 1, NULL });
  }
  if (v == NULL && !r->stop && PyUnicode_CheckExact (t->items[0]->real)
      && PyUnicode_CompareWithASCIIString (t->real, "format") == 0)
    v = gm_str_format (r, t->items[0]->real, args);
  return v ? v
           : gm_record_break (r, GM_BREAK_CALL_METHOD, PyUnicode_AsUTF8 (t->real),
                              gm_type_text (r, t->items[0]));
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  bool method = t->number == 1; /* a row's */
  if (PyUnicode_CompareWithASCIIString (name, "__name__") == 0 && (method || (t->number == 0 && t->real)))
    return gm_from_constant_take (r, method ? PyUnicode_InternFromString (((const GmMethodRow *) t->data)->name)
                                            : PyObject_GetAttr (t->real, name));
  return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "builtin function");
}

PyObject *
gm_builtin_method_name (GmRecorder *r, const GmTracker *t)
{
  if (t->number == 0)
    return NULL;
  return t->number == 2 ? t->real : gm_record_take (r, PyUnicode_InternFromString (((const GmMethodRow *) t->data)->name));
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  if (t->n == 2) { /* list.append.__get__ (object), whatever the object's class has made of it */
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->real);
    gm_residual_emit (b, GM_INSN_LOAD_ATTR, 0,
                      gm_record_take (gm_residual_recorder (b),
                                      PyUnicode_InternFromString ("__get__")));
    gm_residual_value (b, t->items[1]);
    gm_residual_emit (b, GM_INSN_CALL, 1, NULL);
    return true;
  }
  if (t->number) { /* a method, bound to its value */
    gm_residual_value (b, t->items[0]);
    gm_residual_emit (b, GM_INSN_LOAD_ATTR, 0, gm_builtin_method_name (gm_residual_recorder (b), t));
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
