/* SPDX-License-Identifier: Apache-2.0
 * text.c -- str (), repr () and format () while recording: of constants, and of objects whose class
 * says in Python how they look.  An address in a text would differ from call to call: that breaks.
 */
#include "core/trace/builtin.h"
#include "core/trace/exception.h"
#include "core/trace/object.h"

static const GmTracker *
method_text (GmRecorder *r, const GmTracker *t, const char *name, PyObject *found)
{
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString (name));
  const GmTracker *method = gm_class_value (r, (PyTypeObject *) t->data, key, found, t);
  const GmTracker *v = gm_realize (r, gm_call_n (r, method, NULL, 0));
  if (r->stop || (v->kind == &gm_kind_constant && PyUnicode_CheckExact (v->real)))
    return v;
  return gm_raise_new (r, PyExc_TypeError, "%s returned non-string (type %s)", name,
                       gm_type_text (r, v));
}

/* Of a list, tuple or dict that holds objects: the texts of what it holds. */
static const GmTracker *
container_text (GmRecorder *r, const GmTracker *t)
{
  bool dict = t->kind == &gm_kind_dict, tuple = t->kind == &gm_kind_tuple;
  gm_len (r, t); /* loads it whole */
  const GmTracker *contents = tuple ? t : gm_contents_of (r, t);
  if (r->stop || r->nesting >= GM_MAX_NESTING || contents == NULL || (tuple && (t->data || t->number)))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "__repr__", gm_type_text (r, t));
  g_autoptr (GString) s = g_string_new (dict ? "{" : tuple ? "(" : "[");
  r->nesting++;
  for (uint32_t i = 0; i < contents->n && !r->stop; i++) {
    const GmTracker *part = gm_text_of (r, contents->items[i], true);
    if (!r->stop)
      g_string_append_printf (s, "%s%s", i == 0 ? "" : dict && i % 2 ? ": " : ", ",
                              PyUnicode_AsUTF8 (part->real));
  }
  r->nesting--;
  g_string_append (s, dict ? "}" : tuple ? (t->n == 1 ? ",)" : ")") : "]");
  return r->stop ? &gm_tracker_poison
                 : gm_from_constant_take (r, PyUnicode_FromStringAndSize (s->str, (Py_ssize_t) s->len));
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
    PyObject *value = gm_storage (t)->real;
    if (how == GM_HOW_C && found != gm_object_default ("__str__"))
      return gm_from_constant_take (r, PyObject_CallOneArg (found, value));
  }
  if (t->kind == &gm_kind_list || t->kind == &gm_kind_tuple || t->kind == &gm_kind_dict)
    return container_text (r, t);
  if (t->kind == &gm_kind_object) {
    if (!repr && gm_object_how (r, t, "__str__", &found) == GM_HOW_PYTHON)
      return method_text (r, t, "__str__", found);
    bool inherited = repr || found == gm_object_default ("__str__");
    if (inherited && gm_object_how (r, t, "__repr__", &found) == GM_HOW_PYTHON)
      return method_text (r, t, "__repr__", found);
    if (!inherited && gm_exception_storage (t))
      return gm_exception_text (r, t);
    PyObject *base = gm_type_dict (((PyTypeObject *) PyExc_BaseException));
    if (inherited && gm_exception_storage (t) && found == PyDict_GetItemString (base, "__repr__"))
      return gm_exception_repr (r, t);
  }
  return gm_record_break (r, GM_BREAK_CALL_METHOD, repr ? "__repr__" : "__str__",
                          gm_type_text (r, t));
}

/* format (t, spec) after the conversion 0, 1 str, 2 repr, 3 ascii. */
const GmTracker *
gm_format (GmRecorder *r, const GmTracker *t, int conversion, PyObject *spec)
{
  t = gm_realize (r, t);
  if (r->stop)
    return &gm_tracker_poison;
  if (conversion == 1 || conversion == 2)
    t = gm_text_of (r, t, conversion == 2);
  PyObject *found, *o = gm_constant (r, t);
  if (o && conversion == 3)
    o = gm_record_take (r, PyObject_ASCII (o));
  if (o)
    return gm_from_constant_take (r, PyObject_Format (o, spec));
  bool container = t->kind == &gm_kind_list || t->kind == &gm_kind_tuple || t->kind == &gm_kind_dict;
  if (!r->stop && container && conversion == 0 && (spec == NULL || PyUnicode_GET_LENGTH (spec) == 0))
    return gm_text_of (r, t, false);
  if (!r->stop && t->kind == &gm_kind_object && conversion != 3) {
    if (gm_object_how (r, t, "__format__", &found) == GM_HOW_PYTHON) {
      PyObject *key = gm_record_take (r, PyUnicode_InternFromString ("__format__"));
      const GmTracker *arg =
          gm_from_constant (r, spec ? spec : gm_record_take (r, PyUnicode_FromString ("")));
      return gm_call_n (r, gm_class_value (r, (PyTypeObject *) t->data, key, found, t), &arg, 1);
    }
    if (gm_value_of (t) != t && gm_object_how (r, t, "__format__", &found) == GM_HOW_C
        && found != gm_object_default ("__format__"))
      return gm_from_constant_take (r, PyObject_Format (gm_storage (t)->real, spec));
    if (found == gm_object_default ("__format__")
        && (spec == NULL || PyUnicode_GET_LENGTH (spec) == 0))
      return gm_text_of (r, t, false);
  }
  return gm_record_break (r, GM_BREAK_CALL_METHOD, "__format__", gm_type_text (r, t));
}
