/* SPDX-License-Identifier: Apache-2.0
 * attrs.c -- stored names in the heap; globals.
 *
 * The globals of a module and the attributes of the module object are one thing here, keyed by the
 * dict.
 */
#include "core/trace/attrs.h"
#include "core/trace/keys.h"

const GmTracker *
gm_attrs_get (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *contents = gm_contents_of (r, t);
  for (uint32_t i = 0; contents && i < contents->n; i += 2)
    if (gm_str_equal (contents->items[i]->real, name))
      return contents->items[i + 1];
  return NULL;
}

void
gm_attrs_dropped (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  PyObject **dict = t->real ? _PyObject_GetDictPtr (t->real) : NULL;
  PyObject *old = dict && *dict ? PyDict_GetItemWithError (*dict, name) : NULL;
  if (old)
    gm_dropped_object (r, old);
  if (t->real)
    gm_dropped (r, gm_attrs_get (r, t, name));
}

void
gm_attrs_set (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  const GmTracker *old = gm_contents_of (r, t);
  uint32_t n = old ? old->n : 0, at = 0;
  while (at < n && !gm_str_equal (old->items[at]->real, name))
    at += 2;
  if (at < n && old->items[at + 1] == &gm_tracker_null
      && value) { /* deleted and set again: the name moves to the end */
    const GmTracker **moved = gm_tracker_array (r, n);
    gm_tracker_copy (moved, old->items, at);
    gm_tracker_copy (moved + at, old->items + at + 2, n - at - 2);
    moved[n - 2] = old->items[at];
    moved[n - 1] = value;
    gm_contents_set (
        r, t, gm_tracker (r, .kind = &gm_kind_contents, .items = moved, .n = n, .number = 1));
    return;
  }
  uint32_t total = at < n ? n : n + 2;
  const GmTracker **items = gm_tracker_array (r, total);
  if (old)
    gm_tracker_copy (items, old->items, n);
  items[at] = at < n ? old->items[at] : gm_from_constant (r, name);
  items[at + 1] = value ? value : &gm_tracker_null;
  gm_contents_set (r, t,
                   gm_tracker (r, .kind = &gm_kind_contents, .items = items, .n = total,
                               .number = old ? old->number : 0));
}

bool
gm_attrs_claim (GmRecorder *r, const GmTracker *object)
{
  PyObject **dict = object->real ? _PyObject_GetDictPtr (object->real) : NULL;
  if (dict == NULL || *dict == NULL || r->stop)
    return !r->stop;
  const GmTracker *t = g_hash_table_lookup (r->by_real, *dict);
  if (t && t->kind != &gm_kind_contents)
    gm_record_break (r, GM_BREAK_DICT_OF_OBJECT, gm_type_text (r, object));
  else if (t == NULL && !gm_dict_keys_are_plain (r, *dict))
    gm_record_break (r, GM_BREAK_NAMES_FOREIGN, gm_type_text (r, object));
  else if (t == NULL)
    gm_know (r, gm_tracker (r, .kind = &gm_kind_contents, .real = *dict, .number = 1));
  return !r->stop;
}

/* -- Globals --------------------------------------------------------------- */

static const GmTracker *
globals_of (GmRecorder *r, PyObject *dict)
{
  const GmTracker *t = g_hash_table_lookup (r->by_real, dict);
  if (t && (t->kind != &gm_kind_contents || t->number)) {
    gm_record_break (r, GM_BREAK_GLOBALS_FOREIGN, "a function whose globals are used as a dict");
    return NULL;
  }
  if (t)
    return t;
  if (!gm_dict_keys_are_plain (r, dict)) {
    gm_record_break (r, GM_BREAK_NAMES_FOREIGN, "a module");
    return NULL;
  }
  uint32_t id = gm_heap_add (&r->heap, 1);
  t = gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_contents, .real = dict, .id = id });
  gm_know (r, t);
  return t;
}

const GmTracker *
gm_global_load (GmRecorder *r, PyObject *dict, PyObject *name)
{
  const GmTracker *globals = globals_of (r, dict);
  if (globals == NULL)
    return &gm_tracker_poison;
  const GmTracker *stored = gm_attrs_get (r, globals, name);
  if (stored)
    return stored == &gm_tracker_null ? NULL : stored;
  PyObject *value = PyDict_GetItemWithError (dict, name);
  if (value)
    return gm_wrap_present (r, value, gm_source_global (r, dict, name));
  PyErr_Clear ();
  gm_guard (r, GLOBAL_ABSENT, NULL, .obj = dict, .key = name);
  return NULL;
}

void
gm_global_store (GmRecorder *r, PyObject *dict, PyObject *name, const GmTracker *value)
{
  const GmTracker *globals = globals_of (r, dict);
  if (globals == NULL)
    return;
  PyObject *old = PyDict_GetItemWithError (dict, name);
  if (old)
    gm_dropped_object (r, old);
  gm_dropped (r, gm_attrs_get (r, globals, name));
  gm_attrs_set (r, globals, name, value);
  if (value == NULL)
    value = &gm_tracker_null;
  gm_effect (r, GM_EFFECT_GLOBAL, dict, name, &value, 1);
}
