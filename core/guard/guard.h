/* SPDX-License-Identifier: Apache-2.0
 * guard.h -- the flat guard program.  Its meaning, record by record, is guards.def.
 */
#ifndef GM_GUARD_GUARD_H
#define GM_GUARD_GUARD_H

#include "core/guard/size_guard.h"
#include "core/guard/value_source.h"

#include <math.h>

typedef struct {
  uint8_t kind;        /* GmRecordKind */
  uint32_t in;         /* the slot that the record reads: a load's base, a check's value */
  uint32_t out;        /* a load's slot */
  int64_t index;       /* GLOBAL, ATTR, DICT_ITEM: the dict's version when `ptr` was found */
  PyObject *obj, *key; /* alive while the program is not dead */
  Py_hash_t hash;      /* of key */
  const void *ptr;     /* GLOBAL, ATTR, DICT_ITEM: the value last found, borrowed; TENSOR: GmMeta;
                          CLASS_LOOKUP, CLASS_DICT: as obj, or NULL; BACKEND_MATCH: the key; CACHED,
                          CACHED_ABSENT: GmKeyParts, owned, or NULL; TREE:
                          GmGuardMemo; RUN: GmGuardRun; APART, GROUP: GmApart */
  const char *ptr2;    /* a name for texts */
} GmCheck;

/* Immutable but for the memory of loads from dicts, MEMO and TREE records, which the interpreter's
 * lock protects: no check gives it up. */
struct GmGuards {
  gatomicrefcount refs;
  bool *dead;      /* an object that the guards compare with has died: no call can fit; a g_rc_box,
                      shared with weak references */
  GPtrArray *held; /* PyObject: strong references, and weak ones to classes, functions, modules ...
                      of the program's */
  GmCheck *checks;
  uint32_t n, n_slots, n_guards;
  GArray *lasting;  /* uint32_t: slots that are filled after each check that holds */
  char **sources;   /* per record: name of the value that it reads, or NULL */
  GmWhere *wheres;  /* per record: the user's line; file is NULL if unknown */
  GPtrArray *memos; /* GmGuardMemo, of the TREE records */
  GmCallFact *call; /* of the SAVED_HOOKS record, or NULL */
  GStringChunk *text;
};

/* Runs gm_guards_check. *failed: the record that failed, UINT32_MAX if the program is dead. */
bool gm_guards_run (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
                    PyFunctionObject *func, PyObject **slots, uint32_t *failed);

/* -- Comparing --------------------------------------------------------------------------------- */

static inline int64_t
gm_float_bits (PyObject *v)
{
  int64_t bits;
  double d = PyFloat_AS_DOUBLE (v);
  memcpy (&bits, &d, sizeof bits);
  return bits;
}

/* Returns the double that a record stores in place of an address. */
static inline double
gm_float_of_bits (const void *bits)
{
  double d;
  memcpy (&d, &bits, sizeof d);
  return d;
}

/* op: Py_LT ... */
static inline bool
gm_float_holds (double a, int op, double b)
{
  switch (op) {
  case Py_LT:
    return a < b;
  case Py_LE:
    return a <= b;
  case Py_EQ:
    return a == b;
  case Py_NE:
    return a != b;
  case Py_GT:
    return a > b;
  default:
    return a >= b;
  }
}

/* True for a NaN, which is equal to nothing; a container finds a NaN by its identity all the
 * same. */
static inline bool
gm_is_nan (PyObject *v)
{
  if (PyFloat_CheckExact (v))
    return isnan (PyFloat_AS_DOUBLE (v));
  if (!PyComplex_CheckExact (v))
    return false;
  Py_complex c = PyComplex_AsCComplex (v);
  return isnan (c.real) || isnan (c.imag);
}

static inline bool
gm_long_equals (PyObject *a, PyObject *b)
{
  PyObject *same = PyLong_Type.tp_richcompare (a, b, Py_EQ); /* a bool: no object is made */
  bool equal = same == Py_True;
  Py_XDECREF (same);
  return equal;
}

/* True for an object that equals itself alone, by code in C: an object of a class without __eq__
 * and __hash__, a tensor. */
static inline bool
gm_is_key_part (PyObject *o)
{
  const PyTypeObject *type = Py_TYPE (o), *tensor = gm_host.tensor_type;
  return (type->tp_hash == PyBaseObject_Type.tp_hash
          && type->tp_richcompare == PyBaseObject_Type.tp_richcompare)
         || (type->tp_hash == tensor->tp_hash && type->tp_richcompare == tensor->tp_richcompare);
}

/* -- Looking into a dict ----------------------------------------------------------------------- */

/* True if all keys are exact strings, which run no code when they are compared. */
static inline bool
gm_dict_has_only_strings (PyObject *dict)
{
  return ((const uint8_t *) ((PyDictObject *) dict)->ma_keys)[gm_host.dict_kind_offset] != 0;
}

/* Returns the value of a key that is a constant or is compared by identity; borrowed. NULL: the key
 * is absent, or only code of a key's class could tell, which is not run. */
static inline PyObject *
gm_dict_get (PyObject *dict, PyObject *key, Py_hash_t hash)
{
  if (G_LIKELY (gm_dict_has_only_strings (dict)))
    return PyUnicode_CheckExact (key) ? _PyDict_GetItem_KnownHash (dict, key, hash) : NULL;
  PyObject *value;
  return gm_host.dict_find (dict, key, hash, &value) ? value : NULL;
}

/* True if such a key is certainly absent. */
static inline bool
gm_dict_lacks (PyObject *dict, PyObject *key, Py_hash_t hash)
{
  if (G_LIKELY (gm_dict_has_only_strings (dict)))
    return !PyUnicode_CheckExact (key) || _PyDict_GetItem_KnownHash (dict, key, hash) == NULL;
  PyObject *value;
  return gm_host.dict_find (dict, key, hash, &value) && value == NULL;
}

/* -- Versions of dicts ------------------------------------------------------------------------- */

/* Returns the dict's version, which no two states of any dict share; 0 if the interpreter has no
 * versions. */
static inline uint64_t
gm_dict_version (PyObject *dict)
{
  return gm_host.dict_version_offset
             ? *(const uint64_t *) ((const char *) dict + gm_host.dict_version_offset)
             : 0;
}

/* -- A tree's memory, guard_memo.c ------------------------------------------------------------- */

typedef struct GmGuardMemo GmGuardMemo;
#define GM_NO_ROOT UINT32_MAX
/* Returns a memo of records whose loads fill the slots first ... first + n - 1, and which read only
 * the object in slot `root` (or GM_NO_ROOT), the objects that can be reached from it, and
 * classes. */
GmGuardMemo *gm_guard_memo_new (uint32_t root, uint32_t first, uint32_t n);
void gm_guard_memo_free (GmGuardMemo *m);
/* Declares the first `n` slots to be read by other records. */
void gm_guard_memo_share (GmGuardMemo *m, uint32_t n);
void gm_guard_memo_span (const GmGuardMemo *m, uint32_t *first, uint32_t *n);
/* True if all that the records read is as it was when they held last; then the slots that other
 * records read are filled. */
bool gm_guard_memo_holds (GmGuardMemo *m, PyObject **slots);
/* Returns the number of classes, objects and dict versions that the last check which held has
 * compared; UINT32_MAX: the memo is empty now. */
uint32_t gm_guard_memo_n_looked (const GmGuardMemo *m);
/* True if the slots have the values that the memo filled in. */
bool gm_guard_memo_agrees (const GmGuardMemo *m, PyObject *const *slots);
/* Remembers the records from `first` up to `end`, which have just held. */
void gm_guard_memo_save (GmGuardMemo *m, const GmCheck *first, const GmCheck *end,
                         PyObject *const *slots);

/* -- Objects that are all different ------------------------------------------------------------ */

/* The objects of a group that a check has met so far: a table with open addressing, of which only
 * entries with the table's own stamp count; and the same in their order, n of them if all were
 * different. */
typedef struct {
  uint64_t stamp;
  uint32_t mask, n, n_last;
  struct {
    const PyObject *object;
    uint32_t slot;
  } * last;
  struct {
    const PyObject *object;
    uint64_t stamp;
  } entries[];
} GmApart;

/* Returns an empty table for at most n objects; freed with g_free. */
GmApart *gm_guard_apart_new (uint32_t n);

/* -- Constants in a list, guard_run.c ---------------------------------------------------------- */

typedef struct GmGuardRun GmGuardRun;
/* True if a run can stand for the two records: the first loads an item, and the second only
 * compares it. */
bool gm_guard_run_takes (const GmCheck *load, const GmCheck *check);
/* Returns a run of n such pairs, all of one container; freed with g_free. */
GmGuardRun *gm_guard_run_new (const GmCheck *pairs, uint32_t n);
bool gm_guard_run_holds (const GmGuardRun *run, PyObject *container);
uint32_t gm_guard_run_n (const GmGuardRun *run);

/* True for the callback of the weak references by which guards hold what they compare with. */
bool gm_guards_own_callback (PyObject *callback);

#endif
