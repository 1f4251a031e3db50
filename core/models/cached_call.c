/* SPDX-License-Identifier: Apache-2.0
 * cached_call.c -- calls of functions that remember their results: functools.cache,
 * functools.lru_cache.
 *
 * A hit returns the remembered object and is counted; a miss runs the function and remembers its
 * result. The cache's own dict determines which of them a call is, and a guard reads the dict at
 * every call: so a hit is a value of the program like an attribute, and a miss is the function,
 * inlined. The other actions of the cache, counting, ordering, remembering, are replayed as
 * effects, by calls of the cache itself.
 * Each key has one small object of the recorder's (an anchor) per recording, which has in the heap
 * what the region has stored under the key, so that a rollback undoes it.
 * A key is made of constants and of objects that equal themselves alone.  A guard looks up the
 * objects of its own call, so that another object is another key and no reason to record again;
 * that two keys of the region differ is guarded.
 * Left to Python, as a break: keys that hold anything else; a full cache that would have to drop a
 * result; and a miss that makes a history of autograd: a region's history is shared by all of its
 * tensors, and its first backward would free it for the remembered ones.
 */
#include "core/models/models_private.h"
#include "core/trace/exception.h"
#include "core/guard/guard.h"
#include "core/trace/keys.h"
#include "core/trace/number.h"
#include "core/trace/traced_size.h"

#include <math.h>
#include <string.h>

typedef struct {
  GmRecorder *r;
  const GmTracker *t; /* the cached function */
  const GmCallArgs *args;
  Py_ssize_t maxsize; /* -1: no limit */
  bool typed;
  PyObject *dict;
  GmKeyParts *parts; /* places of objects in the key, or NULL */
} Cached;

static const GmTracker *
leave (const Cached *c)
{
  PyObject *inner = PyObject_GetAttrString (c->t->real, "__wrapped__"),
           *name = inner ? PyObject_GetAttrString (inner, "__qualname__") : NULL;
  const char *text = name && PyUnicode_Check (name) ? PyUnicode_AsUTF8 (name) : NULL;
  PyErr_Clear ();
  gm_record_break (c->r, GM_BREAK_CACHED_CALL, text ? text : "a function");
  Py_XDECREF (inner);
  Py_XDECREF (name);
  return &gm_tracker_poison;
}

/* -- Keys -------------------------------------------------------------------------------------- */

/* Returns the argument t as a constant or a tuple of constants, whose comparisons run no code of
 * the user's; borrowed.  NULL: t is not constant, or after a break. */
static PyObject *
constant_argument (GmRecorder *r, const GmTracker *t)
{
  t = gm_float_settled (r, gm_size_settled (r, gm_realize (r, t)));
  if (r->stop || (t->kind != &gm_kind_constant && t->kind != &gm_kind_tuple))
    return NULL;
  if (t->kind == &gm_kind_tuple) {
    bool plain = !t->number && (!t->data || t->data == gm_host.size_type);
    PyObject *tuple = plain ? gm_record_take (r, PyTuple_New (t->n)) : NULL;
    for (uint32_t i = 0; tuple && i < t->n; i++) {
      PyObject *item = constant_argument (r, t->items[i]);
      if (item == NULL)
        return NULL;
      PyTuple_SET_ITEM (tuple, i, Py_NewRef (item));
    }
    return tuple; /* a Size is equal to it */
  }
  bool nan = PyFloat_CheckExact (t->real) ? isnan (PyFloat_AS_DOUBLE (t->real))
                                          : PyComplex_CheckExact (t->real);
  return gm_is_constant_type (Py_TYPE (t->real)) && !nan ? t->real : NULL;
}

/* Returns the argument t as an object that is equal only to itself and that a source finds at
 * each call, borrowed.  NULL: t is no such object, or after a break. */
static PyObject *
object_argument (const Cached *c, const GmTracker *t)
{
  GmRecorder *r = c->r;
  t = gm_realize (r, t);
  if (r->stop || !t->real || !t->source || !gm_is_key_part (t->real) || !gm_key_is_identity (r, t))
    return NULL;
  if (c->typed && !gm_is_key_part ((PyObject *) Py_TYPE (t->real)))
    return NULL; /* the class is in the key, too, and its metaclass has a __hash__ or __eq__ */
  return t->real;
}

static void
add_part (const Cached *c, uint32_t at, uint32_t argument, bool is_type)
{
  const GmTracker *t = gm_realize (c->r, c->args->args[argument]);
  c->parts->parts[c->parts->n].source = t->source;
  c->parts->parts[c->parts->n].at = at;
  c->parts->parts[c->parts->n++].is_type = is_type;
}

/* Returns the key as functools makes it, borrowed: a lone str or int is its own key.  NULL: an
 * argument is neither a constant nor an object that is equal only to itself.  Fills c->parts with
 * the places of such objects in the key. */
static PyObject *
key_of (Cached *c)
{
  GmRecorder *r = c->r;
  uint32_t n = c->args->n, n_named = gm_args_n_named (c->args), all = n + n_named, at = 0;
  g_autofree PyObject **values = g_new0 (PyObject *, all + 1);
  g_autofree bool *is_part = g_new0 (bool, all + 1);
  for (uint32_t i = 0; i < all; i++) {
    if ((values[i] = constant_argument (r, c->args->args[i])) != NULL)
      continue;
    if (r->stop || (values[i] = object_argument (c, c->args->args[i])) == NULL)
      return NULL;
    is_part[i] = true;
    if (!c->parts)
      c->parts = gm_arena_alloc (r->arena, sizeof *c->parts + 2 * all * sizeof c->parts->parts[0]);
  }
  if (all == 1 && n == 1 && !c->typed
      && (PyUnicode_CheckExact (values[0]) || PyLong_CheckExact (values[0])))
    return values[0];
  PyObject *key =
      gm_record_take (r, PyTuple_New (n + (n_named ? 1 + 2 * n_named : 0) + (c->typed ? all : 0)));
  for (uint32_t i = 0; i < n; i++) {
    if (is_part[i])
      add_part (c, at, i, false);
    PyTuple_SET_ITEM (key, at++, Py_NewRef (values[i]));
  }
  if (n_named)
    PyTuple_SET_ITEM (key, at++, Py_NewRef (gm_host.cached.mark (c->t->real)));
  for (uint32_t i = 0; i < n_named; i++) {
    PyTuple_SET_ITEM (key, at++, Py_NewRef (PyTuple_GET_ITEM (c->args->names, i)));
    if (is_part[n + i])
      add_part (c, at, n + i, false);
    PyTuple_SET_ITEM (key, at++, Py_NewRef (values[n + i]));
  }
  for (uint32_t i = 0; c->typed && i < all; i++) {
    if (is_part[i])
      add_part (c, at, i, true);
    PyTypeObject *type = is_part[i] ? NULL : gm_type_of (r, gm_realize (r, c->args->args[i]));
    PyTuple_SET_ITEM (key, at++, Py_NewRef ((PyObject *) (type ? type : Py_TYPE (values[i]))));
  }
  return key;
}

/* Returns the key that guards keep, borrowed: a copy of the key with None in the place of
 * objects, the same copy each time for `entry`, the key's anchor. */
static PyObject *
key_for_guards (const Cached *c, PyObject *entry)
{
  GmRecorder *r = c->r;
  PyObject *key = PyTuple_GET_ITEM (entry, 1),
           *of = c->parts ? gm_record_take (r, PyTuple_Pack (2, entry, Py_None)) : NULL;
  PyObject *found = of ? PyDict_GetItem (r->cached_keys, of) : NULL;
  if (!c->parts || found)
    return c->parts ? found : key;
  PyObject *all = gm_record_take (r, PyTuple_New (PyTuple_GET_SIZE (key)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (key); i++)
    PyTuple_SET_ITEM (all, i, Py_NewRef (PyTuple_GET_ITEM (key, i)));
  for (uint32_t i = 0; i < c->parts->n; i++)
    Py_SETREF (PyTuple_GET_ITEM (all, c->parts->parts[i].at), Py_NewRef (Py_None));
  PyDict_SetItem (r->cached_keys, of, all);
  return all;
}

/* Adds a guard that two different keys used by the region are different in each call: if they
 * differ in objects alone, the guard says that two of these objects are distinct. */
static void
guard_apart (const Cached *c, PyObject *key, PyObject *other)
{
  GmRecorder *r = c->r;
  const GmTracker *a = NULL, *b = NULL;
  if (key == other || !PyTuple_CheckExact (key) || !PyTuple_CheckExact (other)
      || PyTuple_GET_SIZE (key) != PyTuple_GET_SIZE (other))
    return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (key); i++) {
    PyObject *x = PyTuple_GET_ITEM (key, i), *y = PyTuple_GET_ITEM (other, i);
    if (x == y)
      continue;
    if (!gm_is_key_part (x) || !gm_is_key_part (y)) {
      if (gm_is_key_part (x) || gm_is_key_part (y) || PyObject_RichCompareBool (x, y, Py_EQ) == 0)
        return;
    } else if (!a) {
      a = g_hash_table_lookup (r->by_real, x);
      b = g_hash_table_lookup (r->by_real, y);
      if (!a || !b || !a->source || !b->source)
        a = b = NULL; /* the other key is of a step that was undone */
    }
  }
  if (a && a->source != b->source)
    gm_guard (r, DISTINCT, a->source, .other = b->source);
}

static void
guard_all_apart (const Cached *c, PyObject *entry)
{
  Py_ssize_t at = 0;
  PyObject *other, *same;
  while (PyDict_Next (c->r->cached_keys, &at, &other, &same))
    if (other == same && other != entry && PyTuple_GET_SIZE (other) == 2
        && PyObject_RichCompareBool (PyTuple_GET_ITEM (other, 0), PyTuple_GET_ITEM (entry, 0),
                                     Py_EQ)
               == 1)
      guard_apart (c, PyTuple_GET_ITEM (entry, 1), PyTuple_GET_ITEM (other, 1));
}

/* -- Results that the region has put into a cache ---------------------------------------------- */

/* Returns the tracker of the anchor `o`, made on first use; the anchor's contents are in the
 * heap. */
static const GmTracker *
anchor (GmRecorder *r, PyObject *o)
{
  const GmTracker *t = g_hash_table_lookup (r->by_real, o);
  if (t)
    return t;
  t = gm_tracker_add (
      r, &(GmTracker){ .kind = &gm_kind_contents, .real = o, .id = gm_heap_add (&r->heap, 1) });
  gm_know (r, t);
  return t;
}

/* Returns the anchor of a key, the tuple (address of the cache, key), the same object for all
 * equal keys; borrowed.  key NULL: the anchor of the cache itself. */
static PyObject *
anchor_object (const Cached *c, PyObject *key)
{
  GmRecorder *r = c->r;
  if (r->cached_keys == NULL)
    r->cached_keys = gm_record_take (r, PyDict_New ());
  PyObject *address = PyLong_FromVoidPtr (c->t->real),
           *o = key ? PyTuple_Pack (2, address, key) : PyTuple_Pack (1, address);
  Py_XDECREF (address);
  PyObject *first = o ? PyDict_SetDefault (r->cached_keys, o, o) : NULL;
  Py_XDECREF (o);
  return first;
}

/* Returns the number of results that the region has stored in the cache so far. */
static Py_ssize_t
n_put (const Cached *c)
{
  const GmTracker *n = gm_contents_of (c->r, anchor (c->r, anchor_object (c, NULL)));
  return n ? (Py_ssize_t) n->number : 0;
}

static void
put (const Cached *c, PyObject *entry, const GmTracker *result)
{
  GmRecorder *r = c->r;
  gm_contents_set (r, anchor (r, entry), result);
  gm_contents_set (r, anchor (r, anchor_object (c, NULL)),
                   gm_tracker (r, .kind = &gm_kind_contents, .number = n_put (c) + 1));
}

/* -- The call ---------------------------------------------------------------------------------- */

/* Returns the tuple of the names of the call's keyword arguments, the same object for all equal
 * tuples: a call that unpacks a dict makes a new tuple each time that it is recorded.  Borrowed. */
static PyObject *
names_of (const Cached *c)
{
  PyObject *names = PyDict_SetDefault (c->r->cached_keys, c->args->names, c->args->names);
  if (names == NULL)
    PyErr_Clear ();
  return names ? names : gm_record_keep (c->r, c->args->names);
}

/* Records an effect on the cache: the call fn (cache, [result,] names or None, *args) after the
 * graph. */
static void
replay (const Cached *c, PyObject *fn, const GmTracker *result)
{
  GmRecorder *r = c->r;
  uint32_t n = c->args->n + gm_args_n_named (c->args), at = 0;
  const GmTracker **all = gm_tracker_array (r, n + 3);
  all[at++] = c->t;
  if (result)
    all[at++] = result;
  all[at++] = c->args->names ? gm_tracker (r, .kind = &gm_kind_constant, .real = names_of (c))
                             : gm_none (r);
  gm_tracker_copy (all + at, c->args->args, n);
  gm_effect (r, GM_EFFECT_CALL, fn, NULL, all, at + n);
}

static bool
makes_history (GmRecorder *r, uint32_t first)
{
  for (uint32_t v = first; v < r->graph->values->len; v++)
    if (gm_graph_value (r->graph, v)->node != GM_NO_ID
        && gm_graph_meta (r->graph, v)->requires_grad)
      return true;
  return false;
}

static const GmTracker *
miss (const Cached *c, PyObject *entry)
{
  GmRecorder *r = c->r;
  uint32_t first = r->graph->values->len;
  gm_effect (r, GM_EFFECT_CALL, gm_host.cached.missed, NULL, &c->t, 1);
  PyObject *name = gm_record_take (r, PyUnicode_InternFromString ("__wrapped__"));
  PyObject *real = *(PyObject **) ((char *) c->t->real + gm_host.cached.func);
  const GmTracker *func =
      gm_wrap (r, real, gm_source_member (r, c->t->source, (int64_t) gm_host.cached.func, name));
  const GmTracker *result = gm_call (r, func, c->args);
  if (r->stop || entry == NULL)
    return r->stop ? &gm_tracker_poison : result;
  if (makes_history (r, first) || gm_contents_of (r, anchor (r, entry))) /* ... or a nested call has
                                                                            stored it */
    return leave (c);
  put (c, entry, result);
  replay (c, gm_host.cached.remember, result);
  return result;
}

const GmTracker *
gm_cached_call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  Cached c = { .r = r, .t = t, .args = args };
  if (t->real == NULL || t->source == NULL || !gm_host.cached.known)
    return leave (&c);
  c.maxsize = *(Py_ssize_t *) ((char *) t->real + gm_host.cached.maxsize);
  c.typed = *(int *) ((char *) t->real + gm_host.cached.typed) != 0;
  c.dict = *(PyObject **) ((char *) t->real + gm_host.cached.dict);
  if (c.maxsize == 0) {
    gm_guard (r, IS, t->source, .obj = t->real);
    return miss (&c, NULL);
  }
  PyObject *key = key_of (&c), *entry = r->stop || key == NULL ? NULL : anchor_object (&c, key);
  Py_hash_t hash = entry ? PyObject_Hash (key) : -1;
  if (entry == NULL || hash == -1) {
    PyErr_Clear ();
    return r->stop ? &gm_tracker_poison : leave (&c);
  }
  key = PyTuple_GET_ITEM (entry, 1);
  const GmTracker *made = gm_contents_of (r, anchor (r, entry));
  PyObject *found = made ? NULL : gm_dict_get (c.dict, key, hash);
  Py_ssize_t room = c.maxsize - 1 - n_put (&c);
  if (!made && !found
      && (!gm_dict_lacks (c.dict, key, hash) || (c.maxsize > 0 && PyDict_GET_SIZE (c.dict) > room)))
    return leave (&c); /* another entry has to go first */
  gm_guard (r, IS, t->source, .obj = t->real);
  if (c.parts)
    guard_all_apart (&c, entry);
  if (found) {
    size_t in_link = c.maxsize > 0 ? gm_host.cached.result : 0;
    PyObject *result = in_link ? *(PyObject **) ((char *) found + in_link) : found;
    made = gm_wrap_present (
        r, result,
        gm_source_cached (r, t->source, (int64_t) in_link, key_for_guards (&c, entry), c.parts));
  }
  if (made) {
    replay (&c, gm_host.cached.again, NULL);
    return r->stop ? &gm_tracker_poison : made;
  }
  gm_guard (r, CACHED_ABSENT, t->source, .key = key_for_guards (&c, entry), .ptr = c.parts);
  if (c.maxsize > 0)
    gm_guard (r, CACHED_ROOM, t->source, .index = room);
  return miss (&c, entry);
}
