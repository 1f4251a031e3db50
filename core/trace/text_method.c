/* SPDX-License-Identifier: Apache-2.0
 * text_method.c -- str (), repr () and format () while recording: of constants, and of objects
 * whose class has a Python method for it. An address in a text would differ from call to call: that
 * breaks.
 */
#include "core/trace/kinds.h"
#include "core/trace/exception.h"
#include "core/objects/import.h"
#include "core/trace/instance.h"

#include <string.h>

/* Calls the Python method `found`, a __str__ or __repr__, of t and returns its text. `asked`: the
 * function's name for the TypeError of another result, as str () may call __repr__. */
static const GmTracker *
method_text (GmRecorder *r, const GmTracker *t, const char *name, PyObject *found,
             const char *asked)
{
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString (name));
  const GmTracker *method = gm_class_value (r, (PyTypeObject *) t->data, key, found, t);
  const GmTracker *v = gm_realize (r, gm_call_n (r, method, NULL, 0));
  if (r->stop || (v->kind == &gm_kind_constant && PyUnicode_CheckExact (v->real)))
    return v;
  if (v->kind == &gm_kind_object) /* an instance of a subclass of str, or a value whose type Python
                                     names in its TypeError */
    return gm_record_break (r, GM_BREAK_CALL_METHOD, name, gm_type_text (r, t));
  return gm_raise_new (r, PyExc_TypeError, "%s returned non-string (type %s)", asked,
                       gm_type_text (r, v));
}

/* Returns repr () of a list, tuple or dict that holds objects, made from their texts. */
static const GmTracker *
container_text (GmRecorder *r, const GmTracker *t)
{
  bool dict = t->kind == &gm_kind_dict, tuple = t->kind == &gm_kind_tuple,
       size = tuple && t->data && t->data == gm_host.size_type;
  if (dict)
    gm_dict_contents (r, t);
  else
    gm_len (r, t); /* loads all contents of the container */
  const GmTracker *contents = tuple ? t : gm_contents_of (r, t);
  if (r->stop || r->nesting >= GM_MAX_NESTING || contents == NULL
      || (tuple && !size && (t->data || t->number)))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "__repr__", gm_type_text (r, t));
  g_autoptr (GString) s = g_string_new (dict ? "{" : size ? "gramme.Size([" : tuple ? "(" : "[");
  r->nesting++;
  for (uint32_t i = 0; i < contents->n && !r->stop; i++) {
    const GmTracker *part = gm_text_of (r, contents->items[i], true);
    if (!r->stop)
      g_string_append_printf (s, "%s%s",
                              i == 0          ? ""
                              : dict && i % 2 ? ": "
                                              : ", ",
                              PyUnicode_AsUTF8 (part->real));
  }
  r->nesting--;
  g_string_append (s, dict ? "}" : size ? "])" : tuple ? (t->n == 1 ? ",)" : ")") : "]");
  return r->stop
             ? &gm_tracker_poison
             : gm_from_constant_take (r, PyUnicode_FromStringAndSize (s->str, (Py_ssize_t) s->len));
}

static bool
is_plain_class (const GmTracker *t)
{
  return t->kind == &gm_kind_class && Py_IS_TYPE (t->real, &PyType_Type);
}

/* Returns the text of a class, as type.__repr__ makes it. */
static const GmTracker *
class_text (GmRecorder *r, const GmTracker *t)
{
  const char *parts[2], *name = "__module__";
  bool builtin = false;
  for (int i = 0; i < 2; i++) {
    const GmTracker *part =
        gm_realize (r, gm_getattr (r, t, gm_record_take (r, PyUnicode_InternFromString (name))));
    if (r->stop || part->kind != &gm_kind_constant || !PyUnicode_CheckExact (part->real))
      return gm_record_break (r, GM_BREAK_CALL_METHOD, "__repr__", gm_type_text (r, t));
    parts[i] = PyUnicode_AsUTF8 (part->real);
    builtin = strcmp (parts[0], "builtins") == 0;
    name = builtin ? "__name__" : "__qualname__";
  }
  return gm_from_constant_take (r,
                                PyUnicode_FromFormat ("<class '%s%s%s'>", builtin ? "" : parts[0],
                                                      builtin ? "" : ".", parts[1]));
}

/* True if `found`, a C method, is a method of the value's own class: it reads the value inside of
 * t, an instance of a subclass. */
static bool
is_of_value (const GmTracker *t, PyObject *found)
{
  return Py_IS_TYPE (found, &PyWrapperDescr_Type)
         && ((PyDescrObject *) found)->d_type == Py_TYPE (gm_storage (t)->real);
}

const GmTracker *
gm_text_of (GmRecorder *r, const GmTracker *t, bool repr)
{
  t = gm_realize (r, t);
  if (r->stop)
    return &gm_tracker_poison;
  PyObject *found, *o = gm_constant (r, t);
  if (o)
    return gm_from_constant_take (r, repr ? PyObject_Repr (o) : PyObject_Str (o));
  if (gm_value_of (t) != t) {
    GmHow how = gm_object_how (r, t, repr ? "__repr__" : "__str__", &found);
    if (how == GM_HOW_C && found == gm_object_default ("__str__"))
      how = gm_object_how (r, t, "__repr__", &found);
    if (how == GM_HOW_C && is_of_value (t, found))
      return gm_from_constant_take (r, PyObject_CallOneArg (found, gm_storage (t)->real));
  }
  if (t->kind == &gm_kind_tuple && !t->number && t->data
      && gm_is_user_type ((PyTypeObject *) t->data)) { /* a named tuple */
    found = repr ? NULL : gm_class_lookup_text (r, (PyTypeObject *) t->data, "__str__");
    if (found && PyFunction_Check (found))
      return method_text (r, t, "__str__", found, "__str__");
    found = gm_class_lookup_text (r, (PyTypeObject *) t->data, "__repr__");
    if (found && PyFunction_Check (found))
      return method_text (r, t, "__repr__", found, repr ? "__repr__" : "__str__");
  }
  if (t->kind == &gm_kind_list || t->kind == &gm_kind_tuple || t->kind == &gm_kind_dict)
    return container_text (r, t);
  if (t->kind == &gm_kind_object) {
    if (!repr && gm_object_how (r, t, "__str__", &found) == GM_HOW_PYTHON)
      return method_text (r, t, "__str__", found, "__str__");
    bool inherited = repr || found == gm_object_default ("__str__");
    if (inherited && gm_object_how (r, t, "__repr__", &found) == GM_HOW_PYTHON)
      return method_text (r, t, "__repr__", found, repr ? "__repr__" : "__str__");
    if (!inherited && gm_exception_storage (t))
      return gm_exception_text (r, t);
    PyObject *base = gm_type_dict (((PyTypeObject *) PyExc_BaseException));
    if (inherited && gm_exception_storage (t) && found == PyDict_GetItemString (base, "__repr__"))
      return gm_exception_repr (r, t);
  }
  if (is_plain_class (t))
    return class_text (r, t);
  return gm_record_break (r, GM_BREAK_CALL_METHOD, repr ? "__repr__" : "__str__",
                          gm_type_text (r, t));
}

/* Calls the Python __format__ `found` of t with `spec` and returns its text. */
static const GmTracker *
method_format (GmRecorder *r, const GmTracker *t, PyObject *found, PyObject *spec)
{
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString ("__format__"));
  const GmTracker *arg =
      gm_from_constant (r, spec ? spec : gm_record_take (r, PyUnicode_FromString ("")));
  const GmTracker *v = gm_realize (
      r, gm_call_n (r, gm_class_value (r, (PyTypeObject *) t->data, key, found, t), &arg, 1));
  PyTypeObject *type = r->stop ? NULL : gm_type_of (r, v);
  if (r->stop || (type && PyType_IsSubtype (type, &PyUnicode_Type)))
    return r->stop ? &gm_tracker_poison : v;
  return gm_record_break (r, GM_BREAK_EXCEPTION_RAISED, "TypeError: __format__ must return a str");
}

/* Returns format (t, spec) of an object. An instance of a subclass of a number or str is formatted
 * as the value inside; without a spec the result is str () of the whole object. */
static const GmTracker *
object_format (GmRecorder *r, const GmTracker *t, PyObject *spec)
{
  PyObject *found;
  bool plain = spec == NULL || PyUnicode_GET_LENGTH (spec) == 0;
  GmHow how = gm_object_how (r, t, "__format__", &found);
  if (how == GM_HOW_PYTHON)
    return method_format (r, t, found, spec);
  bool of_value = how == GM_HOW_C && gm_value_of (t) != t && Py_IS_TYPE (found, &PyMethodDescr_Type)
                  && ((PyDescrObject *) found)->d_type == Py_TYPE (gm_storage (t)->real);
  if (plain && (of_value || found == gm_object_default ("__format__")))
    return gm_text_of (r, t, false);
  return of_value ? gm_from_constant_take (r, PyObject_Format (gm_storage (t)->real, spec))
                  : gm_record_break (r, GM_BREAK_CALL_METHOD, "__format__", gm_type_text (r, t));
}

/* Returns ascii (t). */
static const GmTracker *
ascii_of (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, gm_text_of (r, t, true));
  PyObject *text = r->stop ? NULL : gm_constant (r, t);
  if (text == NULL || !PyUnicode_CheckExact (text))
    return gm_record_break (r, GM_BREAK_CALL_C, "ascii");
  PyObject *bytes = PyUnicode_AsEncodedString (text, "ascii", "backslashreplace");
  PyObject *v = bytes ? PyUnicode_FromEncodedObject (bytes, "ascii", NULL) : NULL;
  Py_XDECREF (bytes);
  return gm_from_constant_take (r, v);
}

/* Returns format (t, spec), where t is first converted: 0 not at all, 1 by str (), 2 by repr (), 3
 * by ascii (). */
const GmTracker *
gm_format (GmRecorder *r, const GmTracker *t, int conversion, PyObject *spec)
{
  t = gm_realize (r, t);
  if (conversion && !r->stop)
    t = gm_realize (r, conversion == 3 ? ascii_of (r, t) : gm_text_of (r, t, conversion == 2));
  if (r->stop)
    return &gm_tracker_poison;
  PyObject *o = gm_constant (r, t);
  if (o)
    return gm_from_constant_take (r, PyObject_Format (o, spec));
  if (r->stop)
    return &gm_tracker_poison;
  bool by_text = t->kind == &gm_kind_list || t->kind == &gm_kind_tuple || t->kind == &gm_kind_dict
                 || is_plain_class (t);
  if (by_text && (spec == NULL || PyUnicode_GET_LENGTH (spec) == 0))
    return gm_text_of (r, t, false);
  return t->kind == &gm_kind_object
             ? object_format (r, t, spec)
             : gm_record_break (r, GM_BREAK_CALL_METHOD, "__format__", gm_type_text (r, t));
}

/* Returns the result of the call ascii (*args). */
const GmTracker *
gm_ascii (GmRecorder *r, const GmCallArgs *args)
{
  return gm_args_plain (r, "ascii", args, 1, 1) ? ascii_of (r, args->args[0]) : &gm_tracker_poison;
}

/* -- Formats that name their values ------------------------------------------------------------ */

/* Returns format % values, or NULL if there is no model. *ran: set to true if code of the user's
 * was inlined, after which no other model may be tried. */
static const GmTracker *
percent (GmRecorder *r, const GmTracker *format, const GmTracker *values, bool *ran)
{
  bool tuple = values->kind == &gm_kind_tuple && !values->number;
  if (!PyUnicode_CheckExact (format->real) || values->kind == &gm_kind_dict
      || (values->kind == &gm_kind_tuple && !tuple))
    return NULL;
  const char *s = PyUnicode_AsUTF8 (format->real);
  g_autofree const GmTracker **items = gm_tracker_array_own (tuple ? values->n : 1);
  uint32_t n = tuple ? values->n : 1, at = 0;
  gm_tracker_copy (items, tuple ? values->items : &values, n);
  g_autoptr (GString) simple = g_string_new (NULL);
  for (; s && *s && !r->stop; s++) {
    g_string_append_c (simple, *s);
    if (*s != '%')
      continue;
    size_t options = strspn (s + 1, "#0- +.123456789");
    char kind = s[1 + options];
    if (kind == 0 || strchr ("(*hlL", kind) || (kind == '%' && options))
      return NULL;
    g_string_append_len (simple, s + 1, (gssize) options);
    s += 1 + options;
    if (kind != '%') {
      if (at == n)
        return NULL;
      const GmTracker **item = &items[at++];
      if (gm_constant (r, *item) == NULL) {
        if (r->stop || (kind != 's' && kind != 'r'))
          return r->stop ? &gm_tracker_poison : NULL;
        *ran = true;
        *item = gm_text_of (r, *item, kind == 'r');
        kind = 's';
      }
    }
    g_string_append_c (simple, kind);
  }
  if (r->stop)
    return &gm_tracker_poison;
  PyObject *all = s && at == n ? gm_constant (r, gm_tuple_new (r, items, n)) : NULL;
  PyObject *text =
      all ? gm_record_take (r, PyUnicode_FromStringAndSize (simple->str, (Py_ssize_t) simple->len))
          : NULL;
  return text ? gm_from_constant_take (r, PyUnicode_Format (text, all)) : NULL;
}

/* Returns format % values; the values of %s and %r that are no constants are replaced by their
 * texts. NULL, without a break: no model. */
const GmTracker *
gm_percent (GmRecorder *r, const GmTracker *format, const GmTracker *values)
{
  bool ran = false;
  const GmTracker *v = percent (r, format, values, &ran);
  return v || !ran ? v
                   : gm_record_break (r, GM_BREAK_OPERATOR, "%", "str", gm_type_text (r, values));
}

/* Returns the argument that a field {}, {0} or {name} names. *next counts the fields without a
 * name; *numbered: set by a field with a number. NULL: no model, or an error. */
static const GmTracker *
field_value (const char *name, const GmCallArgs *args, int64_t *next, bool *numbered)
{
  if (*name == 0 || g_ascii_isdigit (*name)) {
    char *end = (char *) name;
    bool own = *name != 0;
    if (own && *next > 0)
      return NULL; /* fields with and without numbers together are an error in Python */
    if (!own && *numbered)
      return NULL;
    *numbered |= own;
    uint64_t i = own ? g_ascii_strtoull (name, &end, 10) : (uint64_t) (*next)++;
    return *end == 0 && i < args->n ? args->args[i] : NULL;
  }
  for (uint32_t k = 0; k < gm_args_n_named (args); k++)
    if (PyUnicode_CompareWithASCIIString (PyTuple_GET_ITEM (args->names, k), name) == 0)
      return args->args[args->n + k];
  return NULL;
}

/* Returns format.format (*args) if each field names a whole argument. NULL, without a break: no
 * model. */
const GmTracker *
gm_str_format (GmRecorder *r, PyObject *format, const GmCallArgs *args)
{
  PyObject *module = gm_import ("_string");
  PyObject *parsed = module ? PyObject_CallMethod (module, "formatter_parser", "O", format) : NULL;
  PyObject *parts =
      parsed ? PySequence_List (parsed) : NULL; /* errors of the format are found here */
  Py_XDECREF (parsed);
  Py_XDECREF (module);
  if (parts == NULL) {
    PyErr_Clear ();
    return NULL;
  }
  gm_record_take (r, parts);
  g_autoptr (GString) s = g_string_new (NULL);
  int64_t next = 0;
  bool numbered = false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE (parts) && !r->stop; i++) {
    PyObject *part = PyList_GET_ITEM (parts, i), *spec = PyTuple_GET_ITEM (part, 2);
    const char *literal = PyUnicode_AsUTF8 (PyTuple_GET_ITEM (part, 0));
    if (literal == NULL) { /* a lone surrogate */
      PyErr_Clear ();
      return NULL;
    }
    g_string_append (s, literal);
    if (PyTuple_GET_ITEM (part, 1) == Py_None)
      continue;
    const char *name = PyUnicode_AsUTF8 (PyTuple_GET_ITEM (part, 1));
    const GmTracker *value = name ? field_value (name, args, &next, &numbered) : NULL;
    PyObject *how = PyTuple_GET_ITEM (part, 3);
    Py_UCS4 c = how == Py_None ? 0 : PyUnicode_READ_CHAR (how, 0);
    if (value == NULL || PyUnicode_FindChar (spec, '{', 0, PyUnicode_GET_LENGTH (spec), 1) >= 0
        || !(c == 0 || c == 's' || c == 'r' || c == 'a')) {
      PyErr_Clear ();
      return NULL;
    }
    const GmTracker *text = gm_format (r, value,
                                       c == 's'   ? 1
                                       : c == 'r' ? 2
                                       : c == 'a' ? 3
                                                  : 0,
                                       spec);
    PyObject *o = r->stop ? NULL : gm_constant (r, text);
    const char *utf8 = o && PyUnicode_Check (o) ? PyUnicode_AsUTF8 (o) : NULL;
    if (utf8 == NULL) {
      PyErr_Clear ();
      return r->stop ? &gm_tracker_poison : NULL;
    }
    g_string_append (s, utf8);
  }
  return r->stop
             ? &gm_tracker_poison
             : gm_from_constant_take (r, PyUnicode_FromStringAndSize (s->str, (Py_ssize_t) s->len));
}
