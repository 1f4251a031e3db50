/* SPDX-License-Identifier: Apache-2.0
 * insn_match.c -- the match statement: tests for sequences, mappings, and instances with
 * attributes.
 */
#include "core/trace/kinds.h"
#include "core/trace/exception.h"
#include "core/trace/insn_handlers.h"
#include "core/trace/keys.h"

/* Pushes whether the subject's type has the type flag that CPython tests for sequences or mappings;
 * classes of the user's inherit the flag. */
static void
push_flag (GmRecorder *r, unsigned long flag)
{
  const GmTracker *t = gm_realize (r, gm_peek (r, 1));
  PyTypeObject *type = gm_type_of (r, t);
  if (type == NULL && !r->stop)
    gm_record_break (r, GM_BREAK_UNSUPPORTED_INSN, "match on a value of this kind");
  gm_push (r, gm_from_bool (r, type && (type->tp_flags & flag)));
}

void
gm_insn_match_sequence (GmRecorder *r, const GmInsn *i)
{
  push_flag (r, Py_TPFLAGS_SEQUENCE);
}

void
gm_insn_match_mapping (GmRecorder *r, const GmInsn *i)
{
  push_flag (r, Py_TPFLAGS_MAPPING);
}

/* MATCH_KEYS. Stack: subject, keys -> subject, keys, tuple of values or None. Calls subject.get, as
 * CPython does. */
void
gm_insn_match_keys (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *keys = gm_realize (r, gm_peek (r, 1)), *subject = gm_realize (r, gm_peek (r, 2));
  if (r->stop)
    return;
  if (keys->kind != &gm_kind_tuple || subject->kind != &gm_kind_dict) {
    gm_record_break (r, GM_BREAK_UNSUPPORTED_INSN, "match of the keys of what is no dict");
    return;
  }
  g_autofree const GmTracker **values = gm_tracker_array_own (keys->n);
  for (uint32_t k = 0; k < keys->n && !r->stop; k++) {
    const GmTracker *before =
        gm_tracker (r, .kind = &gm_kind_contents, .items = keys->items, .n = k);
    if (k > 0 && gm_key_known (r, keys->items[k])
        && gm_key_find (r, before, 1, keys->items[k]) >= 0)
      gm_record_break (r, GM_BREAK_EXCEPTION_RAISED,
                       "ValueError: mapping pattern checks duplicate key");
    if (!r->stop && (values[k] = gm_dict_lookup (r, subject, keys->items[k])) == NULL) {
      gm_push (r, gm_none (r));
      return;
    }
  }
  gm_push (r, gm_tuple_new (r, values, keys->n));
}

/* Returns the attribute of t, or NULL, with the AttributeError cleared, if there is none. */
static const GmTracker *
attribute (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *v = gm_getattr_opt (r, t, name);
  return gm_exception_caught (r, PyExc_AttributeError) ? NULL : v;
}

/* True for a builtin class for which a single positional pattern matches the subject itself. */
static bool
matches_itself (PyTypeObject *type)
{
  return (type->tp_flags & _Py_TPFLAGS_MATCH_SELF) != 0;
}

/* MATCH_CLASS. Stack: subject, class, names of the keyword patterns -> tuple of attributes or None.
 * arg: number of positional patterns. */
void
gm_insn_match_class (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *names = gm_realize (r, gm_pop (r)), *cls = gm_realize (r, gm_pop (r)),
                  *subject = gm_realize (r, gm_pop (r));
  if (r->stop)
    return;
  if (cls->kind != &gm_kind_class || names->kind != &gm_kind_tuple) {
    gm_record_break (r, GM_BREAK_EXCEPTION_RAISED,
                     "TypeError: called match pattern must be a class");
    return;
  }
  bool instance = gm_is_instance (r, subject, cls);
  if (!instance || r->stop) {
    gm_push (r, gm_none (r));
    return;
  }
  g_autoptr (GPtrArray) values = g_ptr_array_new (), seen = g_ptr_array_new ();
  uint32_t n = i->arg;
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString ("__match_args__"));
  const GmTracker *fields = n ? attribute (r, cls, key) : NULL;
  fields = fields ? gm_realize (r, fields) : NULL;
  bool itself = n == 1 && fields == NULL && matches_itself ((PyTypeObject *) cls->real);
  if (n && !itself && !r->stop
      && (fields == NULL || fields->kind != &gm_kind_tuple || fields->n < n)) {
    gm_record_break (r, GM_BREAK_EXCEPTION_RAISED, "TypeError: too many positional sub-patterns");
    return;
  }
  if (itself)
    g_ptr_array_add (values, (gpointer) subject);
  for (uint32_t k = 0; k < (itself ? 0 : n) + names->n && !r->stop; k++) {
    uint32_t at = itself ? k : k - n;
    PyObject *name = gm_constant (r, !itself && k < n ? fields->items[k] : names->items[at]);
    if (name == NULL || !PyUnicode_CheckExact (name)) {
      gm_record_break (r, GM_BREAK_UNSUPPORTED_INSN, "match with names that are no strings");
      return;
    }
    for (uint32_t j = 0; j < seen->len; j++)
      if (gm_str_equal (seen->pdata[j], name)) {
        gm_record_break (r, GM_BREAK_EXCEPTION_RAISED,
                         "TypeError: multiple sub-patterns for an attribute");
        return;
      }
    g_ptr_array_add (seen, name);
    const GmTracker *v = attribute (r, subject, name);
    if (v == NULL && !r->stop) {
      gm_push (r, gm_none (r));
      return;
    }
    g_ptr_array_add (values, (gpointer) v);
  }
  gm_push (r, gm_tuple_new (r, (const GmTracker *const *) values->pdata, values->len));
}
