/* SPDX-License-Identifier: Apache-2.0
 * guard.c -- the check of the flat program that recorded guards become (guard_build.c).
 *
 * Checking is one loop with one switch, expanded from guards.def. No statement of
 * it can run Python code or fail with an error: the compared values are of exact builtin types, and
 * hashes are known. So a guard never raises.
 */
#include "core/guard/guard.h"

#include "core/objects/given_iterator.h"
#include "core/objects/key_type.h"
#include "core/objects/set_table.h"

#include <string.h>
#include <structmember.h>

/* -- Functions of the statements ------------------------------------------- */

/* Returns item i of the deque, borrowed: the deque holds the item, so the reference that the
 * deque's C code returns is dropped. */
static inline PyObject *
deque_item (PyObject *deque, Py_ssize_t i)
{
  PyObject *item = i < Py_SIZE (deque) ? Py_TYPE (deque)->tp_as_sequence->sq_item (deque, i) : NULL;
  if (item)
    Py_DECREF (item);
  return item;
}

/* True if the bytearray `o` has the bytes of `want`, and no memoryview fixes its size. */
static bool
bytes_are (PyObject *o, PyObject *want)
{
  Py_ssize_t n = PyBytes_GET_SIZE (want);
  return ((PyByteArrayObject *) o)->ob_exports == 0 && PyByteArray_GET_SIZE (o) == n
         && memcmp (PyByteArray_AS_STRING (o), PyBytes_AS_STRING (want), (size_t) n) == 0;
}

/* True if the deque's maxlen equals `want`. The C getter makes an int, which is freed at once. */
static bool
deque_max_equals (PyObject *deque, PyObject *want)
{
  PyObject *max = PyObject_GetAttrString (deque, "maxlen");
  bool same = max
              && (max == want
                  || (PyLong_Check (max) && PyLong_Check (want)
                      && PyLong_AsLong (max) == PyLong_AsLong (want)));
  PyErr_Clear ();
  Py_XDECREF (max);
  return same;
}

/* Returns the address of the object's __dict__ pointer; NULL: the object has none. The dict of an
 * object with inline attributes is made, once per object. */
static inline PyObject **
dict_place (PyObject *o)
{
  Py_ssize_t offset = Py_TYPE (o)->tp_dictoffset;
  return offset > 0 ? (PyObject **) ((char *) o + offset) : _PyObject_GetDictPtr (o);
}

/* Returns the value of the record's key in the dict, borrowed; NULL: the key is absent. The record
 * remembers the value that was found last, and the dict's version: no other state of any dict has
 * that version, so the value is still there. */
static inline PyObject *
find (const GmCheck *c, PyObject *dict)
{
  uint64_t version = gm_dict_version (dict);
  if (version && (uint64_t) c->index == version)
    return (PyObject *) c->ptr;
  PyObject *value = gm_dict_get (dict, c->key, c->hash);
  ((GmCheck *) c)->index = (int64_t) version;
  ((GmCheck *) c)->ptr = value;
  return value;
}

/* Returns the value of the record's key in the object's __dict__, borrowed; NULL: it is absent. */
static inline PyObject *
attr_get (const GmCheck *c, PyObject *o)
{
  PyObject **dict = dict_place (o);
  return dict && *dict ? find (c, *dict) : NULL;
}

static inline bool
attr_lacks (PyObject *o, PyObject *key, Py_hash_t hash)
{
  PyObject **dict = dict_place (o);
  return !dict || !*dict || gm_dict_lacks (*dict, key, hash);
}

static inline PyObject *
instance_dict (PyObject *o)
{
  static PyObject *empty;
  PyObject **dict = _PyObject_GetDictPtr (o);
  if (dict && *dict)
    return *dict;
  return empty ? empty : (empty = PyDict_New ());
}

static inline PyObject *
cached_dict (PyObject *cache)
{
  return *(PyObject **) ((char *) cache + gm_host.cached.dict);
}

/* Looks up a key with parts (GmKeyParts) in the dict: *value is NULL if the key is absent, else
 * borrowed. False: only code of a key's class could tell. The key refers to the objects of this
 * call only during the lookup. */
static G_GNUC_NO_INLINE bool
cached_find (const GmCheck *c, PyObject *dict, PyObject *const *slots, PyObject **value)
{
  const GmKeyParts *p = c->ptr;
  *value = NULL;
  for (uint32_t i = 0; i < p->n; i++) {
    PyObject *o = slots[p->parts[i].slot];
    if (!o || !gm_is_key_part (o)
        || (p->parts[i].is_type && !gm_is_key_part ((PyObject *) Py_TYPE (o))))
      return false;
  }
  for (uint32_t i = 0; i < p->n; i++) {
    PyObject *o = slots[p->parts[i].slot];
    PyTuple_SET_ITEM (c->key, p->parts[i].at, p->parts[i].is_type ? (PyObject *) Py_TYPE (o) : o);
  }
  Py_hash_t hash = PyTuple_Type.tp_hash (c->key);
  bool known = gm_dict_has_only_strings (dict) || gm_host.dict_find (dict, c->key, hash, value);
  for (uint32_t i = 0; i < p->n; i++)
    PyTuple_SET_ITEM (c->key, p->parts[i].at, Py_None); /* the key has kept its reference to None */
  return known;
}

static inline PyObject *
cached_get (const GmCheck *c, PyObject *cache, PyObject *const *slots)
{
  PyObject *value;
  if (G_LIKELY (!c->ptr))
    value = gm_dict_get (cached_dict (cache), c->key, c->hash);
  else if (!cached_find (c, cached_dict (cache), slots, &value))
    return NULL;
  return value && c->index ? *(PyObject **) ((char *) value + c->index) : value;
}

static inline bool
cached_lacks (const GmCheck *c, PyObject *cache, PyObject *const *slots)
{
  PyObject *value;
  if (G_LIKELY (!c->ptr))
    return gm_dict_lacks (cached_dict (cache), c->key, c->hash);
  return cached_find (c, cached_dict (cache), slots, &value) && value == NULL;
}

/* Returns the version of the object's __dict__; 0: it has none. */
static inline uint64_t
attrs_version (PyObject *o)
{
  PyObject **dict = dict_place (o);
  return dict && *dict ? gm_dict_version (*dict) : 0;
}

/* Fills the slots of the loads between a MEMO record and its MEMO_SAVE from the memo. Returns the
 * last of these records, after which the check goes on. */
static inline const GmCheck *
recall (const GmCheck *memo, PyObject **slots)
{
  for (uint32_t i = 1; i <= memo->out; i++)
    slots[memo[i].out] = (PyObject *) memo[i].ptr;
  return memo + memo->index;
}

static inline void
forget (const GmCheck *memo)
{
  ((GmCheck *) memo)->hash = 0;
}

static inline void
save (GmCheck *memo, PyObject *o, PyObject **slots)
{
  PyObject **dict = dict_place (o);
  memo->hash = dict && *dict ? (Py_hash_t) gm_dict_version (*dict) : 0;
  for (uint32_t i = 1; i <= memo->out; i++)
    memo[i].ptr = slots[memo[i].out];
}

/* Saves, at a TREE_SAVE record, the state of the tree's records, which have just held, in their
 * memo. trusted: the memo has answered already, and the records must have given the same answer. */
static inline void
tree_save (const GmCheck *end, PyObject *const *slots, bool trusted)
{
  const GmCheck *tree = end - end->index;
  if (trusted)
    g_assert (gm_guard_memo_agrees (tree->ptr, slots));
  else
    gm_guard_memo_save ((GmGuardMemo *) tree->ptr, tree + 1, end, slots);
}

static inline bool
int_equals (PyObject *v, int64_t i)
{
  int overflow;
  long long x = PyLong_AsLongLongAndOverflow (v, &overflow);
  return !overflow && x == i;
}

static inline int64_t
gm_size_of_int (PyObject *v)
{
  int overflow;
  long long x = PyLong_AsLongLongAndOverflow (v, &overflow);
  return overflow || x >= INT64_C (1) << 61 ? -1 : x;
}

/* True if two ranges have the same start, stop and step: equal ranges may differ in them. */
static bool
range_equals (PyObject *a, PyObject *b)
{
  for (const PyMemberDef *m = PyRange_Type.tp_members; m->name; m++)
    if (!gm_long_equals (*(PyObject **) ((char *) a + m->offset),
                         *(PyObject **) ((char *) b + m->offset)))
      return false;
  return true;
}

/* True if two values of one exact builtin type are equal so that a program can tell them apart only
 * by their identity. */
static bool
constant_equals (PyObject *a, PyObject *b)
{
  if (PyFloat_CheckExact (a) && PyFloat_CheckExact (b))
    return gm_float_bits (a) == gm_float_bits (b);
  if (PyRange_Check (a) && PyRange_Check (b))
    return range_equals (a, b);
  if (PyComplex_CheckExact (a) && PyComplex_CheckExact (b)) { /* by bits: signs of zero, NaN */
    Py_complex x = PyComplex_AsCComplex (a), y = PyComplex_AsCComplex (b);
    return memcmp (&x, &y, sizeof x) == 0;
  }
  int same = PyObject_RichCompareBool (a, b, Py_EQ);
  if (same < 0)
    PyErr_Clear ();
  return same == 1;
}

GmApart *
gm_guard_apart_new (uint32_t n)
{
  uint32_t size = 4;
  while (size < 2 * n)
    size *= 2;
  size_t bytes = sizeof (GmApart) + size * sizeof ((GmApart *) NULL)->entries[0];
  GmApart *a = g_malloc0 (bytes + n * sizeof a->last[0]);
  a->mask = size - 1;
  a->n = n;
  a->last = (void *) ((char *) a + bytes);
  return a;
}

/* Adds the object `o`, which is in `slot`, to the table of its group, which is emptied first if
 * `first`. False if the table has the object already. */
static inline bool
apart_add (GmApart *a, bool first, const PyObject *o, uint32_t slot)
{
  a->stamp += first;
  a->n_last = first ? 0 : a->n_last;
  for (uint32_t i = (uint32_t) (((uint64_t) (uintptr_t) o * 0x9e3779b97f4a7c15u) >> 32);; i++) {
    uint32_t at = i & a->mask;
    if (a->entries[at].stamp != a->stamp) {
      a->entries[at].object = o;
      a->entries[at].stamp = a->stamp;
      a->last[a->n_last].slot = slot;
      a->last[a->n_last++].object = o;
      return true;
    }
    if (a->entries[at].object == o)
      return false;
  }
}

/* True if the slots of the group have the addresses that the last comparison has found to be all
 * different: distinct addresses suffice, whatever objects they now have. */
static inline bool
apart_as_before (const GmApart *a, PyObject *const *slots)
{
  uint32_t i = 0;
  while (i < a->n_last && slots[a->last[i].slot] == a->last[i].object)
    i++;
  return i == a->n;
}

static inline bool
memory_holds (const GmMemoryFact *fact, PyObject *a, PyObject *b)
{
  return fact->holds (fact->data, gm_host_tensor (a), gm_host_tensor (b));
}

static inline bool
call_holds (const GmCallFact *fact, const GmCallEnv *env)
{
  return fact->holds (fact->data, env);
}

/* True if the value inside of v, an instance of a subclass whose type is guarded, equals `want`.
 * Ignores overrides of the class. */
static bool
value_equals (PyObject *v, PyObject *want)
{
  if (PyUnicode_CheckExact (want))
    return gm_str_equal (v, want);
  if (PyFloat_CheckExact (want))
    return gm_float_bits (v) == gm_float_bits (want);
  if (PyLong_CheckExact (want))
    return gm_long_equals (v, want);
  return PyBytes_GET_SIZE (v) == PyBytes_GET_SIZE (want)
         && memcmp (PyBytes_AS_STRING (v), PyBytes_AS_STRING (want), (size_t) PyBytes_GET_SIZE (v))
                == 0;
}

/* True if a is the key b: a tuple or a NaN must be the same object, because iteration returns the
 * tuple, and a NaN is found by identity; other constants must be equal. */
static bool
key_equals (PyObject *a, PyObject *b)
{
  return a == b
         || (Py_TYPE (a) == Py_TYPE (b) && gm_is_constant_type (Py_TYPE (a)) && !gm_is_nan (a)
             && constant_equals (a, b));
}

static bool
dict_keys_match (PyObject *dict, PyObject *keys)
{
  Py_ssize_t n = PyTuple_GET_SIZE (keys), pos = 0, i = 0;
  if (PyDict_GET_SIZE (dict) != n)
    return false;
  PyObject *key, *value;
  while (PyDict_Next (dict, &pos, &key, &value))
    if (i >= n || !key_equals (key, PyTuple_GET_ITEM (keys, i++)))
      return false;
  return i == n;
}

/* True if an OrderedDict has the keys of the tuple `keys` in its own order, read by a C iterator,
 * the only object that is made here. */
static bool
ordered_keys_match (PyObject *dict, PyObject *keys)
{
  Py_ssize_t n = PyTuple_GET_SIZE (keys), i = 0;
  PyObject *it = PyDict_GET_SIZE (dict) == n ? PyODict_Type.tp_iter (dict) : NULL, *key;
  while (it && (key = PyIter_Next (it)) != NULL) {
    bool same = i < n && key_equals (key, PyTuple_GET_ITEM (keys, i));
    Py_DECREF (key);
    i = same ? i + 1 : n + 1;
    if (!same)
      break;
  }
  bool all = it && i == n && PyErr_Occurred () == NULL;
  PyErr_Clear ();
  Py_XDECREF (it);
  return all;
}

static bool
set_equals (PyObject *set, PyObject *want)
{
  if (PySet_GET_SIZE (set) != PySet_GET_SIZE (want))
    return false;
  Py_ssize_t pos = 0;
  PyObject *key;
  Py_hash_t hash;
  while (_PySet_NextEntry (set, &pos, &key, &hash)) {
    if (!PyUnicode_CheckExact (key) && !PyLong_CheckExact (key))
      return false;
    if (PySet_Contains (want, key) != 1)
      return false;
  }
  return true;
}

static bool
set_order_matches (PyObject *set, PyObject *want)
{
  Py_ssize_t pos = 0, i = 0, n = PyTuple_GET_SIZE (want);
  PyObject *key;
  Py_hash_t hash;
  while (_PySet_NextEntry (set, &pos, &key, &hash))
    if (i >= n || !key_equals (key, PyTuple_GET_ITEM (want, i++)))
      return false;
  return i == n;
}

/* True if this thread is handling no exception. */
static bool
handles_nothing (void)
{
  PyObject *e = PyErr_GetHandledException ();
  Py_XDECREF (e);
  return e == NULL;
}

/* True if the __name__ (which: 0) or __qualname__ (1) of a class made by Python equals `name`. */
static bool
class_name_is (PyTypeObject *type, PyObject *name, int64_t which)
{
  const PyHeapTypeObject *heap = (const PyHeapTypeObject *) type;
  return gm_str_equal (which ? heap->ht_qualname : heap->ht_name, name);
}

static inline int64_t
n_defaults (PyObject *f)
{
  PyObject *d = ((PyFunctionObject *) f)->func_defaults;
  return d ? PyTuple_GET_SIZE (d) : 0;
}

static inline bool
tensor_matches (const GmTensor *t, const GmMeta *m)
{
  if (t->base) /* refreshes a view, whose gradient history follows its base's */
    gm_host.requires_grad (t);
  if (memcmp (&t->meta, m, offsetof (GmMeta, sizes)) != 0)
    return false;
  for (int i = 0; i < m->ndim; i++)
    if ((t->meta.sizes[i] != m->sizes[i] && !gm_size_is_symbolic (m->sizes[i]))
        /* Records SIZES check symbolic strides. */
        || (t->meta.strides[i] != m->strides[i] && !gm_size_is_symbolic (m->strides[i])))
      return false;
  return true;
}

/* -- The check ------------------------------------------------------------- */

/* True: if a memo holds, its records are skipped. False: they are checked all the same, and must
 * hold. */
#ifdef GM_DEBUG_CHECKS
#define RELY_ON_MEMOS false
#else
#define RELY_ON_MEMOS true
#endif

__attribute__ ((always_inline)) static inline bool
check (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals, PyFunctionObject *func,
       PyObject **slots, uint32_t faulty, uint32_t *failed)
{
  const GmCheck *end = g->checks + g->n, *trusted = g->checks; /* a memo or a run has answered the
                                                                  records before it: all hold */
  if (G_UNLIKELY (*g->dead)) {
    if (failed)
      *failed = UINT32_MAX;
    return false;
  }
  for (const GmCheck *c = g->checks; c < end; c++) {
    if (faulty != UINT32_MAX && c == g->checks + faulty)
      goto miss;
    switch ((GmRecordKind) c->kind) {
#define v (slots[c->in])
#define OK(x)                                                                                      \
  if (G_UNLIKELY (!(x)))                                                                           \
  goto miss
#define GOT(x)                                                                                     \
  if (G_UNLIKELY ((slots[c->out] = (PyObject *) (x)) == NULL))                                     \
  goto miss
#define TRUST(n)                                                                                   \
  (RELY_ON_MEMOS || gm_guards_trust_trees) && faulty == UINT32_MAX ? (void) (c += (n))             \
                                                                   : (void) (trusted = c + (n))
#define LOAD(NAME, statement)                                                                      \
  case GM_SOURCE_##NAME:                                                                           \
    statement;                                                                                     \
    break;
#define GUARD(NAME, cost, statement, text)                                                         \
  case GM_GUARD_##NAME:                                                                            \
    statement;                                                                                     \
    break;
#include "core/guard/guards.def"
#undef v
#undef OK
#undef GOT
#undef TRUST
    case GM_N_RECORD_KINDS:
    default:
#ifdef GM_DEBUG_CHECKS
      g_assert_not_reached ();
#else
      __builtin_unreachable (); /* saves a comparison for each record */
#endif
    }
    continue;
  miss:
    g_assert (c > trusted || c == g->checks || faulty != UINT32_MAX);
    if (failed)
      *failed = (uint32_t) (c - g->checks);
    return false;
  }
  return true;
}

bool
gm_guards_check (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
                 PyFunctionObject *func, PyObject **slots)
{
  return check (g, env, locals, func, slots, UINT32_MAX, NULL);
}

bool
gm_guards_run (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
               PyFunctionObject *func, PyObject **slots, uint32_t *failed)
{
  return check (g, env, locals, func, slots, UINT32_MAX, failed);
}

bool
gm_guards_fail (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
                PyFunctionObject *func, uint32_t which)
{
  PyObject **slots = g_newa (PyObject *, g->n_slots + 1);
  return !check (g, env, locals, func, slots, which, NULL);
}

uint32_t
gm_guards_n_records (const GmGuards *g)
{
  return g->n;
}

bool
gm_guards_dead (const GmGuards *g)
{
  return *g->dead || (g->call && g->call->dead (g->call->data));
}

uint32_t
gm_guards_n_slots (const GmGuards *g)
{
  return g->n_slots;
}

bool
gm_guards_read_grad (const GmGuards *g)
{
  for (uint32_t i = 0; i < g->n; i++)
    if (g->checks[i].kind == GM_SOURCE_GRAD || g->checks[i].kind == GM_GUARD_GRAD_NONE)
      return true;
  return false;
}

const uint32_t *
gm_guards_lasting (const GmGuards *g, uint32_t *n)
{
  *n = g->lasting->len;
  return (const uint32_t *) g->lasting->data;
}

uint32_t
gm_guards_n_checks (const GmGuards *g)
{
  return g->n_guards;
}

uint32_t
gm_guards_n_looked (const GmGuards *g)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->n; i++) {
    const GmCheck *c = &g->checks[i];
    uint32_t together = c->kind == GM_SOURCE_TREE    ? gm_guard_memo_n_looked (c->ptr)
                        : c->kind == GM_SOURCE_RUN   ? gm_guard_run_n (c->ptr)
                        : c->kind == GM_SOURCE_GROUP ? (uint32_t) c->index
                                                     : UINT32_MAX;
    n += together == UINT32_MAX ? 1 : together;
    i += together == UINT32_MAX ? 0 : (uint32_t) c->index;
  }
  return n;
}
