/* SPDX-License-Identifier: Apache-2.0
 * tracker_exception.c -- the storage of an exception object made while recording.
 *
 * The object itself is of the kind `object`, with the attributes and methods of its class; its
 * storage has arguments, context, cause and flags, in the heap. Classes whose C layout holds more
 * than BaseException's (OSError, SyntaxError, the groups ...) have no model. An exception that was
 * raised has a traceback, which the recorder cannot make: it does not leave the region.
 */
#include "core/trace/kinds.h"
#include "core/trace/exception.h"

#include <string.h>

bool
gm_exception_is_plain (PyTypeObject *type)
{
  static PyObject **const exact[] = { /* constructors that only keep args in further members */
                                      &PyExc_StopIteration, &PyExc_AttributeError, &PyExc_NameError
  };
  PyTypeObject *base = (PyTypeObject *) PyExc_BaseException;
  if (!PyType_IsSubtype (type, base) || type->tp_new != base->tp_new)
    return false;
  for (PyTypeObject *t = type; t; t = t->tp_base) {
    if (gm_is_user_type (t))
      continue;
    if (t->tp_init == base->tp_init)
      return true;
    for (size_t i = 0; i < G_N_ELEMENTS (exact); i++)
      if ((PyObject *) t == *exact[i])
        return true;
    return (PyObject *) t == PyExc_UnboundLocalError;
  }
  return false;
}

const GmTracker *
gm_exception_storage (const GmTracker *t)
{
  const GmTracker *s = gm_storage (t);
  return s && s->kind == &gm_kind_exception ? s : NULL;
}

static void
set_args (GmRecorder *r, const GmTracker *storage, const GmTracker *args)
{
  if (!r->stop)
    gm_heap_store (&r->heap, storage->id, GM_EXC_ARGS, args);
}

const GmTracker *
gm_exception_new (GmRecorder *r, PyTypeObject *type, const GmTracker *const *args, uint32_t n)
{
  if (r->stop)
    return &gm_tracker_poison;
  uint32_t id = gm_heap_add (&r->heap, GM_EXC_N);
  const GmTracker *storage =
      gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_exception, .id = id, .data = type });
  set_args (r, storage, gm_tuple_new (r, args, n));
  gm_heap_store (&r->heap, id, GM_EXC_FLAGS, gm_tracker (r, .kind = &gm_kind_contents));
  return gm_object_new_with (r, type, storage);
}

static const GmTracker *
args_of (GmRecorder *r, const GmTracker *storage)
{
  return gm_heap_load (&r->heap, storage->id, GM_EXC_ARGS);
}

/* -- Texts ----------------------------------------------------------------- */

/* Returns the nearest C class of `type`, which determines the exception's text. */
static PyTypeObject *
builtin_base (PyTypeObject *type)
{
  while (gm_is_user_type (type))
    type = type->tp_base;
  return type;
}

/* Returns a real exception of the same C class with the same arguments, a new reference; NULL: an
 * argument is no constant. */
static PyObject *
real_one (GmRecorder *r, const GmTracker *t)
{
  PyObject *args = gm_constant (r, args_of (r, gm_exception_storage (t)));
  return args ? PyObject_CallObject ((PyObject *) builtin_base ((PyTypeObject *) t->data), args)
              : NULL;
}

const GmTracker *
gm_exception_text (GmRecorder *r, const GmTracker *t)
{
  PyObject *real = real_one (r, t);
  if (real == NULL) {
    PyErr_Clear ();
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "__str__", gm_type_text (r, t));
  }
  return gm_from_constant_take (r, PyObject_Str (gm_record_take (r, real)));
}

/* Returns repr (t) of an exception: Name (argument) or Name (arguments ...). */
const GmTracker *
gm_exception_repr (GmRecorder *r, const GmTracker *t)
{
  PyObject *args = gm_constant (r, args_of (r, gm_exception_storage (t)));
  if (args == NULL)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "__repr__", gm_type_text (r, t));
  const char *name = gm_type_text (r, t);
  return gm_from_constant_take (
      r, PyTuple_GET_SIZE (args) == 1
             ? PyUnicode_FromFormat ("%s(%R)", name, PyTuple_GET_ITEM (args, 0))
             : PyUnicode_FromFormat ("%s%R", name, args));
}

char *
gm_exception_message (GmRecorder *r, const GmTracker *t)
{
  PyObject *real = real_one (r, t), *text = real ? PyObject_Str (real) : NULL;
  const char *utf8 = text ? PyUnicode_AsUTF8 (text) : NULL;
  char *s = utf8 && *utf8 ? g_strdup_printf ("%s: %s", ((PyTypeObject *) t->data)->tp_name, utf8)
                          : g_strdup (((PyTypeObject *) t->data)->tp_name);
  PyErr_Clear ();
  Py_XDECREF (text);
  Py_XDECREF (real);
  return s;
}

/* -- Attributes and methods of BaseException ------------------------------- */

static const GmTracker *
method_init (GmRecorder *r, const GmTracker *storage, const GmCallArgs *args)
{
  if (args->names)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "named arguments of an exception");
  set_args (r, storage, gm_tuple_new (r, args->args, args->n));
  return gm_none (r);
}

static const GmTracker *
or_none (GmRecorder *r, const GmTracker *t)
{
  return t ? t : gm_none (r);
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  static const GmMethodRow rows[] = { { "__init__", method_init }, { NULL, NULL } };
  const char *s = PyUnicode_AsUTF8 (name);
  PyTypeObject *type = (PyTypeObject *) t->data;
  const GmTracker *args = args_of (r, t);
  if (strcmp (s, "args") == 0)
    return args;
  if (strcmp (s, "value") == 0 && PyType_IsSubtype (type, (PyTypeObject *) PyExc_StopIteration))
    return args->n ? args->items[0] : gm_none (r);
  if (strcmp (s, "__cause__") == 0)
    return or_none (r, gm_heap_load (&r->heap, t->id, GM_EXC_CAUSE));
  if (strcmp (s, "__suppress_context__") == 0)
    return gm_from_bool (r, (gm_heap_load (&r->heap, t->id, GM_EXC_FLAGS)->number & GM_EXC_SUPPRESS)
                                != 0);
  if (strcmp (s, "__context__") == 0) { /* NULL: a caller of the root may handle an exception */
    const GmTracker *context = gm_heap_load (&r->heap, t->id, GM_EXC_CONTEXT);
    if (context)
      return context;
  }
  const GmTracker *bound = gm_method_row (r, rows, t, name);
  return bound ? bound : gm_record_break (r, GM_BREAK_ATTRIBUTE, s, type->tp_name);
}

/* True if storing `value` as the traceback of t changes nothing that a program can see: None, or a
 * traceback that only the recorder knows, for an exception that was raised here and so has such a
 * traceback already. Reading it breaks. */
static bool
is_unseen_traceback (GmRecorder *r, const GmTracker *t, const GmTracker *value)
{
  return value->real == Py_None
         || (value->kind == &gm_kind_traceback
             && (gm_heap_load (&r->heap, t->id, GM_EXC_FLAGS)->number & GM_EXC_RAISED));
}

static void
setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  const char *s = PyUnicode_AsUTF8 (name);
  value = value ? gm_realize (r, value) : NULL;
  if (r->stop || (strcmp (s, "__traceback__") == 0 && value && is_unseen_traceback (r, t, value)))
    return;
  if (strcmp (s, "__cause__") == 0 && value
      && (value->real == Py_None || gm_exception_storage (value))) {
    int64_t flags = gm_heap_load (&r->heap, t->id, GM_EXC_FLAGS)->number;
    gm_heap_store (&r->heap, t->id, GM_EXC_CAUSE, value->real == Py_None ? NULL : value);
    gm_heap_store (&r->heap, t->id, GM_EXC_FLAGS,
                   gm_tracker (r, .kind = &gm_kind_contents, .number = flags | GM_EXC_SUPPRESS));
    return;
  }
  if (strcmp (s, "args") == 0 && value && value->kind == &gm_kind_tuple && value->data == NULL) {
    set_args (r, t, value);
    return;
  }
  gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, s, ((PyTypeObject *) t->data)->tp_name);
}

/* Emits the pushes of the exception's args, which are operands of type.__new__; gm_storage_build
 * emits the function and the class before them and the call after them.  False, with nothing
 * emitted, if the exception has flags, as one that was raised has: it cannot leave the region. */
static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  if (gm_heap_load (&r->heap, t->id, GM_EXC_FLAGS)->number)
    return false;
  const GmTracker *args = args_of (r, t);
  for (uint32_t i = 0; i < args->n; i++)
    gm_residual_value (b, args->items[i]);
  return true;
}

const GmTrackerKind gm_kind_exception = {
  .name = "exception", .getattr = getattr, .setattr = setattr, .build = build
};
