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
  uint32_t in;         /* slot that the record reads: of a load's base, of a check's value */
  uint32_t out;        /* slot that a load fills */
  int64_t index;       /* GLOBAL, ATTR, DICT_ITEM: the dict's version when `ptr` was found */
  PyObject *obj, *key; /* operands; alive while the program is not dead */
  Py_hash_t hash;      /* hash of `key` */
  const void *ptr;     /* operand. GLOBAL, ATTR, DICT_ITEM: the value last found, borrowed; TENSOR:
                          GmMeta; CLASS_LOOKUP, CLASS_DICT: the attribute, alive as obj is, or NULL;
                          BACKEND_MATCH: the key; CACHED, CACHED_ABSENT: GmKeyParts, owned, or NULL;
                          TREE: GmGuardMemo; RUN: GmGuardRun; APART, GROUP: GmApart */
  const char *ptr2;    /* name of the operand for texts */
} GmCheck;

/* A guard program. Immutable but for what loads from dicts, MEMO and TREE records remember. The
 * interpreter's lock protects these, because no check releases it. */
struct GmGuards {
  gatomicrefcount refs;
  bool *dead; /* true once an object that the guards compare with has died, after which no call can
                 fit; a g_rc_box, shared with the callbacks of weak references */
  GPtrArray *held; /* PyObject: strong references, and weak references to the program's classes,
                      functions, modules ... */
  GmCheck *checks;
  uint32_t n, n_slots, n_guards;
  GArray *lasting;  /* uint32_t: slots that are filled after each check that holds */
  char **sources;   /* by record: name of the value that the record reads, or NULL */
  GmWhere *wheres;  /* by record: the user's line; its file is NULL if unknown */
  GPtrArray *memos; /* GmGuardMemo, of the TREE records */
  GmCallFact *call; /* of the SAVED_HOOKS record, or NULL */
  GStringChunk *text;
};

/* Runs the check as gm_guards_check does. *failed, on false: index of the record that failed;
 * UINT32_MAX if the program is dead. */
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

/* Returns the double whose bits a record stores in place of a pointer. */
static inline double
gm_float_of_bits (const void *bits)
{
  double d;
  memcpy (&d, &bits, sizeof d);
  return d;
}

/* Returns the result of comparing a with b; op: Py_LT ... */
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

/* True for a float or complex NaN, which equals nothing, though a container finds it by its
 * identity. */
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

/* True for an object that C code compares as equal to itself alone: an object of a class without
 * __eq__ and __hash__, or a tensor. */
static inline bool
gm_is_key_part (PyObject *o)
{
  const PyTypeObject *type = Py_TYPE (o), *tensor = gm_host.tensor_type;
  return (type->tp_hash == PyBaseObject_Type.tp_hash
          && type->tp_richcompare == PyBaseObject_Type.tp_richcompare)
         || (type->tp_hash == tensor->tp_hash && type->tp_richcompare == tensor->tp_richcompare);
}

/* -- Looking into a dict ----------------------------------------------------------------------- */

/* True if all keys of the dict are exact strings, whose comparison runs no code. */
static inline bool
gm_dict_has_only_strings (PyObject *dict)
{
  return ((const uint8_t *) ((PyDictObject *) dict)->ma_keys)[gm_host.dict_kind_offset] != 0;
}

/* Returns the value of `key`, a constant or an object that is compared by identity; borrowed. NULL:
 * the key is absent, or only code of a key's class, which is not run, could tell. */
static inline PyObject *
gm_dict_get (PyObject *dict, PyObject *key, Py_hash_t hash)
{
  if (G_LIKELY (gm_dict_has_only_strings (dict)))
    return PyUnicode_CheckExact (key) ? _PyDict_GetItem_KnownHash (dict, key, hash) : NULL;
  PyObject *value;
  return gm_host.dict_find (dict, key, hash, &value) ? value : NULL;
}

/* True if `key`, as in gm_dict_get, is certainly absent. */
static inline bool
gm_dict_lacks (PyObject *dict, PyObject *key, Py_hash_t hash)
{
  if (G_LIKELY (gm_dict_has_only_strings (dict)))
    return !PyUnicode_CheckExact (key) || _PyDict_GetItem_KnownHash (dict, key, hash) == NULL;
  PyObject *value;
  return gm_host.dict_find (dict, key, hash, &value) && value == NULL;
}

/* -- Versions of dicts ------------------------------------------------------------------------- */

/* Returns the dict's version, which differs for any two states of any dicts; 0 if the interpreter
 * has no versions. */
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
/* Returns a new, empty memo for records whose loads fill the slots first ... first + n - 1, and
 * which read only the object in slot `root` (or GM_NO_ROOT), objects that can be reached from it,
 * and classes. */
GmGuardMemo *gm_guard_memo_new (uint32_t root, uint32_t first, uint32_t n);
void gm_guard_memo_free (GmGuardMemo *m);
/* Declares that other records read the first n of the memo's slots, and only these. */
void gm_guard_memo_share (GmGuardMemo *m, uint32_t n);
void gm_guard_memo_span (const GmGuardMemo *m, uint32_t *first, uint32_t *n);
/* True if nothing that the memo's records read has changed since they held last; then it fills the
 * slots that other records read. */
bool gm_guard_memo_holds (GmGuardMemo *m, PyObject **slots);
/* Returns the number of classes, objects and dict versions that the last successful check of the
 * memo has compared; UINT32_MAX: the memo is empty now. */
uint32_t gm_guard_memo_n_looked (const GmGuardMemo *m);
/* True if the memo's slots have the values that the memo has stored. */
bool gm_guard_memo_agrees (const GmGuardMemo *m, PyObject *const *slots);
/* Stores in the memo the state that the records from `first` up to `end`, which have just held,
 * have read. */
void gm_guard_memo_save (GmGuardMemo *m, const GmCheck *first, const GmCheck *end,
                         PyObject *const *slots);

/* -- Objects that are all different ------------------------------------------------------------ */

/* The objects of a group, which must be all different, that the present check has met so far.
 * entries: a hash table with open addressing, in which only entries with the stamp of this check
 * count. last: the same objects in the order of the records; n_last of them, n if all were
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

/* Returns a new empty table for at most n objects; freed with g_free. */
GmApart *gm_guard_apart_new (uint32_t n);

/* -- Constants in a list, guard_run.c ---------------------------------------------------------- */

typedef struct GmGuardRun GmGuardRun;
/* True if the records `load` and `check` can become part of a run: `load` loads an item of a list
 * or tuple, and `check` only compares that item with a constant. */
bool gm_guard_run_takes (const GmCheck *load, const GmCheck *check);
/* Returns a new run for n pairs of such records, all about one container; freed with g_free. */
GmGuardRun *gm_guard_run_new (const GmCheck *pairs, uint32_t n);
bool gm_guard_run_holds (const GmGuardRun *run, PyObject *container);
uint32_t gm_guard_run_n (const GmGuardRun *run);

/* True if `callback` belongs to the weak references by which guards hold the objects that they
 * compare with. */
bool gm_guards_own_callback (PyObject *callback);

#endif
