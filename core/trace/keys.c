/* SPDX-License-Identifier: Apache-2.0
 * keys.c -- keys of dicts and elements of sets: which values may be keys, and when two are equal.
 *
 * A key is a constant, an object that is equal to itself alone, or an object whose class has a
 * Python __hash__ and __eq__: these are inlined, and must change nothing, for the residual runs
 * them again when it makes the dict or set. As in CPython the stored key's __eq__ is called, and
 * only if the hashes are equal.
 */
#include "core/trace/class_made.h"
#include "core/trace/contents.h"
#include "core/trace/exception.h"
#include "core/guard/guard.h"
#include "core/trace/keys.h"
#include "core/trace/instance.h"

#include <math.h>
#include <string.h>

/* True for an object that equals nothing but itself: its class has object's __eq__, and object's or
 * Enum's __hash__. */
static bool
is_identity_object (GmRecorder *r, const GmTracker *k)
{
  PyObject *eq, *hash;
  if (k->kind != &gm_kind_object || gm_storage (k))
    return false;
  gm_object_how (r, k, "__eq__", &eq);
  gm_object_how (r, k, "__hash__", &hash);
  return eq == gm_object_default ("__eq__")
         && (hash == gm_object_default ("__hash__") || gm_is_enum_hash (hash));
}

/* True for a method-wrapper: a slot of a type that is bound to an object, as x.__str__ is. CPython
 * 3.13 hides the type, which is taken from such an object; the type is static, and the same for the
 * whole process. */
static bool
is_method_wrapper (PyObject *o)
{
  static PyTypeObject *type;
  if (!type) {
    PyObject *bound = PyObject_GetAttrString (Py_None, "__str__");
    if (bound)
      type = Py_TYPE (bound);
    else
      PyErr_Clear (); /* no memory */
    Py_XDECREF (bound);
  }
  return type && Py_IS_TYPE (o, type);
}

/* True for a C function that is bound to an object: each attribute read makes another such
 * function, equal to the others. */
static bool
is_bound (const GmTracker *k)
{
  if (k->real == NULL)
    return true;
  PyObject *self = PyCFunction_Check (k->real) ? PyCFunction_GET_SELF (k->real) : NULL;
  return is_method_wrapper (k->real) || (self && !PyModule_Check (self));
}

bool
gm_key_is_identity (GmRecorder *r, const GmTracker *k)
{
  return is_identity_object (r, k) || k->kind == &gm_kind_tensor || k->kind == &gm_kind_function
         || k->kind == &gm_kind_class || k->kind == &gm_kind_module
         || (k->kind == &gm_kind_builtin && !is_bound (k));
}

PyObject *
gm_key_value (GmRecorder *r, const GmTracker *k)
{
  const GmTracker *value = gm_value_of (k);
  PyObject *hash, *eq;
  if (value != k
      && (gm_object_how (r, k, "__hash__", &hash) != GM_HOW_C
          || gm_object_how (r, k, "__eq__", &eq) != GM_HOW_C
          || hash == gm_object_default ("__hash__") || eq == gm_object_default ("__eq__")))
    return NULL;
  PyObject *o = gm_constant (r, value);
  bool nan = value != k && o && PyFloat_Check (o)
             && isnan (PyFloat_AS_DOUBLE (o)); /* the object equals itself, the NaN does not */
  return nan ? NULL : o;
}

/* -- Keys of the user's ---------------------------------------------------- */

/* Breaks if an object older than `m` was changed, or an effect was recorded since n_effects:
 * __hash__ or __eq__ of k has side effects. The first read of an old container writes to a slot
 * that was NULL, which is no change. */
static void
check_unchanged (GmRecorder *r, GmHeapMark m, uint32_t n_effects, const GmTracker *k)
{
  bool same = r->effects->len == n_effects;
  for (uint32_t i = m.writes; i < r->heap.journal.len && same; i++) {
    const GmWrite *w = &r->heap.journal.writes[i];
    same = w->container >= m.objects || w->old == 0;
  }
  if (!same)
    gm_record_break (r, GM_BREAK_ATTRIBUTE_HOOK, gm_type_text (r, k),
                     "__hash__ or __eq__ with side effects");
}

bool
gm_key_hash_called (GmRecorder *r, const GmTracker *k, Py_hash_t *hash)
{
  if (k->kind != &gm_kind_object || gm_object_how (r, k, "__hash__", NULL) != GM_HOW_PYTHON)
    return false;
  GmHeapMark m = gm_heap_mark (&r->heap);
  uint32_t n_effects = r->effects->len;
  const GmTracker *v = gm_call_special (r, k, "__hash__", NULL, 0);
  PyObject *o = v && !r->stop ? gm_constant (r, v) : NULL;
  if (o == NULL || !PyLong_Check (o))
    return false;
  check_unchanged (r, m, n_effects, k);
  *hash = PyLong_Type.tp_hash (o);
  if (PyLong_CheckExact (o)) { /* as slot_tp_hash: an int that fits is used unchanged */
    Py_ssize_t h = PyLong_AsSsize_t (o);
    if (h == -1 && PyErr_Occurred ())
      PyErr_Clear ();
    else
      *hash = h;
  }
  if (*hash == -1)
    *hash = -2;
  return !r->stop;
}

static bool
user_hash (GmRecorder *r, const GmTracker *k, Py_hash_t *hash)
{
  return k->kind == &gm_kind_object && gm_object_how (r, k, "__eq__", NULL) == GM_HOW_PYTHON
         && gm_key_hash_called (r, k, hash);
}

void
gm_key_guard_nan (GmRecorder *r, const GmTracker *t)
{
  PyObject *real = t->kind == &gm_kind_float ? (PyObject *) t->data : t->real;
  if (real && t->source && gm_is_nan (real))
    gm_guard (r, IS, t->source, .obj = real);
  for (uint32_t i = 0; t->kind == &gm_kind_tuple && i < t->n && !r->stop; i++)
    gm_key_guard_nan (r, gm_realize (r, t->items[i]));
}

bool
gm_key_hash (GmRecorder *r, const GmTracker *k, Py_hash_t *hash)
{
  k = gm_realize (r, k);
  gm_key_guard_nan (r, k);
  if (r->stop)
    return false;
  PyObject *o = gm_key_value (r, k);
  if (o == NULL)
    return user_hash (r, k, hash);
  *hash = PyObject_Hash (o);
  if (*hash != -1)
    return true;
  gm_record_break_exception (r);
  return false;
}

/* -- Lookups of keys ------------------------------------------------------- */

bool
gm_key_known (GmRecorder *r, const GmTracker *key)
{
  Py_hash_t hash;
  key = gm_realize (r, key);
  if (r->stop)
    return false;
  if (gm_key_is_identity (r, key) || gm_key_hash (r, key, &hash))
    return true;
  bool unhashable = key->kind == &gm_kind_list || key->kind == &gm_kind_dict
                    || (key->kind == &gm_kind_set && !key->number);
  if (!r->stop && unhashable)
    gm_raise_new (r, PyExc_TypeError, "unhashable type: '%s'", gm_type_text (r, key));
  return false;
}

/* True if a lookup of `key` would find the entry of `stored`. gm_key_known is true for both, and
 * neither is compared by identity. `value`: gm_key_value of `key`. */
static bool
equals (GmRecorder *r, const GmTracker *stored, const GmTracker *key, PyObject *value)
{
  PyObject *x = value ? gm_key_value (r, stored) : NULL;
  if (x) {
    int same = PyObject_RichCompareBool (x, value, Py_EQ);
    if (same < 0)
      gm_record_break_exception (r);
    return same == 1;
  }
  if (!gm_key_still (r, stored)) { /* the table has the key's old hash */
    gm_record_break (r, GM_BREAK_SUBSCRIPT, "dict or set with a key that has changed",
                     gm_type_text (r, key));
    return false;
  }
  Py_hash_t a, b;
  if (!gm_key_hash (r, stored, &a) || !gm_key_hash (r, key, &b)) {
    gm_record_break (r, GM_BREAK_SUBSCRIPT, "dict or set", gm_type_text (r, key));
    return false;
  }
  if (a != b)
    return false;
  gm_told_apart (r, stored, key); /* identity is tested before equality */
  GmHeapMark m = gm_heap_mark (&r->heap);
  uint32_t n_effects = r->effects->len;
  bool same = gm_truth (r, gm_compare (r, Py_EQ, stored, key)) != 0;
  check_unchanged (r, m, n_effects, key);
  return same && !r->stop;
}

bool
gm_key_is_apart (const GmTracker *key, const GmTracker *item)
{
  return item->real && item->source && item->kind == key->kind
         && Py_TYPE (item->real) == Py_TYPE (key->real)
         && (item->source->kind != GM_SOURCE_CONST || key->source->kind != GM_SOURCE_CONST);
}

/* Guards that `key`, which a lookup did not find, is none of the keys in the contents. These were
 * looked up themselves when they were stored, and the keys of an existing dict are distinct
 * objects, so all of the keys are distinct. */
static void
guard_apart (GmRecorder *r, const GmTracker *contents, uint32_t stride, const GmTracker *key)
{
  bool any = false, constant = false;
  if (key->real == NULL || key->source == NULL || gm_is_guarded_as_itself (key))
    return;
  for (uint32_t i = 0; i < contents->n; i += stride)
    if (gm_key_is_apart (key, contents->items[i])) {
      bool of_dict = contents->items[i]->source->kind == GM_SOURCE_CONST;
      constant |= of_dict;
      any |= !of_dict;
    }
  /* A guard on the key's identity replaces a guard for each key of an existing dict. */
  if (constant && key->source->kind != GM_SOURCE_CONST)
    gm_guard (r, IS, key->source, .obj = key->real);
  if (any) {
    const GmKeyApart apart = { key, contents, stride };
    gm_guard (r, APART, key->source, .ptr = gm_arena_copy (r->arena, &apart, sizeof apart));
  }
}

void
gm_key_apart_again (GmRecorder *r, const GmKeyApart *apart)
{
  const GmSource *key = gm_source_again (r, apart->key->source);
  for (uint32_t i = 0; i < apart->contents->n; i += apart->stride)
    if (gm_key_is_apart (apart->key, apart->contents->items[i]))
      gm_guard (r, DISTINCT, key, .other = gm_source_again (r, apart->contents->items[i]->source));
}

int64_t
gm_key_find (GmRecorder *r, const GmTracker *contents, uint32_t stride, const GmTracker *key)
{
  int64_t at = -1;
  key = gm_realize (r, key);
  if (r->stop)
    return -1;
  bool itself = gm_key_is_identity (r, key);
  if (r->stop)
    return -1;
  if (!gm_contents_find (r, contents, stride, key, &at)) {
    PyObject *value = itself || contents->n == 0 ? NULL : gm_key_value (r, key);
    for (uint32_t i = 0; i < contents->n && at < 0 && !r->stop; i += stride) {
      const GmTracker *stored = gm_realize (r, contents->items[i]);
      if (stored == key
          || (!itself && !gm_key_is_identity (r, stored) && equals (r, stored, key, value)))
        at = i;
    }
  }
  if (itself && at < 0)
    guard_apart (r, contents, stride, key);
  return r->stop ? -1 : at;
}

bool
gm_key_can_be_built (GmRecorder *r, const GmTracker *key)
{
  return key->kind != &gm_kind_object || gm_value_of (key) != key || gm_key_is_identity (r, key)
         || gm_class_made (r, (PyObject *) key->data) == NULL;
}

/* -- Until the residual stores it ------------------------------------------ */

/* The state at the time when a key with a Python __hash__ was stored. */
typedef struct {
  GmHeapMark heap;
  uint32_t n_effects;
  bool captures; /* __hash__ or __eq__ reads captured variables, which the residual fills late */
} Stored;

static bool
captures (GmRecorder *r, const GmTracker *k, const char *name)
{
  PyObject *found = NULL;
  if (r->made && g_hash_table_contains (r->made, k->data)) /* a class made in the region */
    return true;
  return gm_object_how (r, k, name, &found) == GM_HOW_PYTHON && PyFunction_Check (found)
         && PyFunction_GET_CLOSURE (found) != NULL;
}

static bool
runs_code (GmRecorder *r, const GmTracker *k)
{
  return k->kind == &gm_kind_object && !is_identity_object (r, k);
}

void
gm_key_stored (GmRecorder *r, const GmTracker *key)
{
  key = gm_realize (r, key);
  if (r->stop || !runs_code (r, key))
    return;
  const Stored *old = g_hash_table_lookup (r->user_keys, key);
  if (old && old->heap.writes <= r->heap.journal.len) /* the first store counts, unless it was
                                                         undone */
    return;
  Stored *s = gm_arena_new0 (r->arena, Stored);
  bool any = captures (r, key, "__hash__") || captures (r, key, "__eq__");
  *s = (Stored){ gm_heap_mark (&r->heap), r->effects->len, any };
  g_hash_table_insert (r->user_keys, (gpointer) key, s);
}

bool
gm_key_still (GmRecorder *r, const GmTracker *key)
{
  const Stored *s = g_hash_table_lookup (r->user_keys, key);
  if (s == NULL) /* the key runs no code, or existed before the region and was not stored */
    return true;
  if (s->captures || r->effects->len != s->n_effects)
    return false;
  for (uint32_t i = s->heap.writes; i < r->heap.journal.len; i++)
    if (r->heap.journal.writes[i].container == key->id)
      return false;
  return true;
}

/* -- Dicts that exist ------------------------------------------------------ */

bool
gm_dict_keys_are_plain (GmRecorder *r, PyObject *dict)
{
  if (gm_dict_has_only_strings (dict) || dict == r->plain_keys)
    return true;
  Py_ssize_t pos = 0;
  PyObject *key, *value;
  while (PyDict_Next (dict, &pos, &key, &value))
    if (!gm_key_is_plain (Py_TYPE (key)))
      return false;
  r->plain_keys = dict; /* the dict is unchanged while recording */
  return true;
}
