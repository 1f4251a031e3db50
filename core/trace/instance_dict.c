/* SPDX-License-Identifier: Apache-2.0
 * instance_dict.c -- `x.__dict__` and `vars (x)`: the attributes of an object or a function, as a
 * dict.
 *
 * The dict is a dict tracker whose one item is the object; the state stays with the object's
 * attributes, and the dict's contents in the heap are made of them whenever the whole dict is read.
 * Stores go to the attributes, past __setattr__ and descriptors.
 * Invariant: an object has at most one such dict tracker.
 */
#include "core/trace/attrs.h"
#include "core/trace/class_made.h"
#include "core/trace/instance.h"

#include <string.h>

const GmTracker *
gm_instance_dict (GmRecorder *r, const GmTracker *t)
{
  PyObject **real = t->real ? _PyObject_GetDictPtr (t->real) : NULL;
  const GmTracker *dict = gm_heap_load (&r->heap, t->id, GM_SLOT_INSTANCE_DICT);
  const GmTracker *known = real && *real ? g_hash_table_lookup (r->by_real, *real) : NULL;
  if (known && (known->kind != &gm_kind_contents || !known->number)) /* gm_attrs_claim made this
                                                                        dict */
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, "__dict__", gm_type_text (r, t));
  if (!gm_attrs_claim (r, t))
    return &gm_tracker_poison;
  if (dict == NULL) {
    const GmTracker **items = gm_tracker_array (r, 1);
    items[0] = t;
    uint32_t id = gm_heap_add (&r->heap, 1);
    dict =
        gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_dict, .items = items, .n = 1, .id = id });
    gm_heap_store (&r->heap, t->id, GM_SLOT_INSTANCE_DICT, dict);
  }
  return dict;
}

/* True for an attribute that is kept in a member of the object (a slot, or a function's own
 * member), not in its dict. */
static bool
is_member (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  PyTypeObject *type = gm_type_of (r, t);
  PyObject *found = _PyType_Lookup (type, name);
  return (found
          && (Py_IS_TYPE (found, &PyMemberDescr_Type) || Py_IS_TYPE (found, &PyGetSetDescr_Type)))
         || (type == &PyFunction_Type
             && PyUnicode_CompareWithASCIIString (name, "__module__") == 0);
}

static int64_t
find (GPtrArray *all, PyObject *name)
{
  for (uint32_t i = 0; i < all->len; i += 2)
    if (gm_str_equal (((const GmTracker *) all->pdata[i])->real, name))
      return i;
  return -1;
}

/* Appends the names and values of the object's real dict to `all`, and guards the dict's keys;
 * false after a break. */
static bool
add_real (GmRecorder *r, const GmTracker *t, GPtrArray *all)
{
  PyObject **dict = _PyObject_GetDictPtr (t->real), *key, *value;
  Py_ssize_t pos = 0, n = dict && *dict ? PyDict_GET_SIZE (*dict) : 0;
  PyObject *keys = gm_record_take (r, PyTuple_New (n));
  for (Py_ssize_t i = 0; i < n && PyDict_Next (*dict, &pos, &key, &value); i++) {
    if (!PyUnicode_CheckExact (key)) {
      gm_record_break (r, GM_BREAK_ATTRIBUTE, "__dict__", gm_type_text (r, t));
      return false;
    }
    PyTuple_SET_ITEM (keys, i, Py_NewRef (key));
    g_ptr_array_add (all, (gpointer) gm_from_constant (r, key));
    g_ptr_array_add (all, (gpointer) gm_wrap_lazy (r, value, gm_source_attr (r, t->source, key)));
  }
  gm_guard (r, DICT_KEYS, gm_source_part (r, t->source, GM_SOURCE_INSTANCE_DICT, 0, NULL),
            .obj = keys);
  return true;
}

const GmTracker *
gm_instance_dict_contents (GmRecorder *r, const GmTracker *dict)
{
  const GmTracker *t = dict->items[0], *stored = gm_contents_of (r, t);
  g_autoptr (GPtrArray) all = g_ptr_array_new ();
  if (t->real && !add_real (r, t, all))
    return &gm_tracker_poison;
  if (t->real && stored && stored->number)
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, "__dict__", gm_type_text (r, t));
  for (uint32_t i = 0; stored && i < stored->n; i += 2) {
    const GmTracker *name = stored->items[i], *value = stored->items[i + 1];
    int64_t at = find (all, name->real);
    if (is_member (r, t, name->real))
      continue;
    if (value == &gm_tracker_null && at >= 0)
      g_ptr_array_remove_range (all, (guint) at, 2);
    else if (at >= 0)
      all->pdata[at + 1] = (gpointer) value;
    else if (value != &gm_tracker_null) {
      g_ptr_array_add (all, (gpointer) name);
      g_ptr_array_add (all, (gpointer) value);
    }
  }
  const GmTracker *contents = gm_contents (r, (const GmTracker *const *) all->pdata, all->len);
  gm_contents_set (r, dict, contents);
  return contents;
}

const GmTracker *
gm_instance_dict_get (GmRecorder *r, const GmTracker *dict, PyObject *name)
{
  const GmTracker *t = dict->items[0];
  return is_member (r, t, name) ? NULL : gm_instance_get (r, t, name);
}

void
gm_instance_dict_store (GmRecorder *r, const GmTracker *dict, const GmTracker *key,
                        const GmTracker *value)
{
  const GmTracker *t = dict->items[0];
  PyTypeObject *type = gm_type_of (r, t);
  PyObject *name = gm_constant (r, key);
  if (r->stop)
    return;
  if (name == NULL || !PyUnicode_CheckExact (name) || is_member (r, t, name)) {
    gm_record_break (r, GM_BREAK_SUBSCRIPT_STORE, "__dict__", gm_type_text (r, key));
    return;
  }
  Py_INCREF (name);
  PyUnicode_InternInPlace (&name);
  gm_record_take (r, name);
  PyObject *found = gm_class_lookup (r, type, name);
  bool plain = type->tp_setattro == PyObject_GenericSetAttr
               && (found == NULL || Py_TYPE (found)->tp_descr_set == NULL);
  gm_attrs_dropped (r, t, name);
  gm_attrs_set (r, t, name, value);
  if (t->real == NULL)
    return;
  if (plain) { /* stored in the same way as other attributes, so that the last store wins */
    const GmTracker *args[2] = { t, value };
    gm_effect (r, value ? GM_EFFECT_SETATTR : GM_EFFECT_DELATTR, NULL, name, args, value ? 2 : 1);
  } else {
    const GmTracker *args[3] = { dict, key, value };
    gm_effect (r, value ? GM_EFFECT_SETITEM : GM_EFFECT_DELITEM, NULL, NULL, args, value ? 3 : 2);
  }
}

bool
gm_instance_dict_build (GmResidualBuilder *b, const GmTracker *dict)
{
  GmRecorder *r = gm_residual_recorder (b);
  gm_residual_value (b, dict->items[0]);
  gm_residual_emit (b, GM_INSN_LOAD_ATTR, 0,
                    gm_record_take (r, PyUnicode_InternFromString ("__dict__")));
  return true;
}
