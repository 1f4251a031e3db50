/* SPDX-License-Identifier: Apache-2.0
 * given_iterator.c -- see given_iterator.h.
 */
#include "core/objects/cpython.h"
#include "core/objects/given_iterator.h"
#include "core/objects/import.h"

#include "core/objects/call_objects.h"
#include "core/objects/python_host.h"

#include <stddef.h>
#include <string.h>

/* -- Layouts ----------------------------------------------------------------------------------- */

typedef struct {
  PyObject_HEAD PyObject *dict;
  Py_ssize_t used, at;
  PyObject *result;
  Py_ssize_t left;
} DictIterator;

typedef struct {
  PyObject_HEAD PyObject *set;
  Py_ssize_t used, at, left;
} SetIterator;

typedef struct {
  PyObject_HEAD GM_RANGE_ITERATOR_INDEX long start, step, n;
} RangeIterator;

typedef struct {
  PyObject_HEAD Py_ssize_t number;
  PyObject *large, *step;
} Count;

typedef struct {
  PyObject_HEAD Py_ssize_t number;
  PyObject *of, *result, *large;
} Enumerate;

typedef struct {
  PyObject_HEAD Py_ssize_t n;
  PyObject *iterators, *result;
  int strict;
} Zip;

typedef struct {
  PyObject_HEAD PyObject *iterators, *function;
} Map;

typedef struct {
  PyObject_HEAD PyObject *function, *of;
} Filter;

/* -- Types ------------------------------------------------------------------------------------- */

typedef struct {
  PyTypeObject *type;
  GmGivenKind kind;
  Py_ssize_t sequence; /* offset of what the iterator walks, or 0 */
} Row;

/* Returns the type of iter (o), which CPython keeps in a static variable, borrowed; steals o. */
static PyTypeObject *
iterator_type (PyObject *o)
{
  PyObject *it = o ? PyObject_GetIter (o) : NULL;
  PyTypeObject *type = it ? Py_TYPE (it) : NULL;
  PyErr_Clear ();
  Py_XDECREF (it);
  Py_XDECREF (o);
  return type;
}

static PyTypeObject *
count_type (void)
{
  PyObject *module = gm_import ("itertools"),
           *type = module ? PyObject_GetAttrString (module, "count") : NULL;
  PyErr_Clear ();
  Py_XDECREF (module);
  return (PyTypeObject *) type; /* lives as long as the process */
}

/* Returns the row about an iterator type, or NULL. */
static const Row *
row_of (const PyTypeObject *type)
{
  static Row rows[20];
  static size_t n;
  if (n == 0) {
    const Py_ssize_t listed = offsetof (GmGivenIterator, sequence);
    const Row all[] = {
      { &PyListIter_Type, GM_GIVEN_INDEXED, listed },
      { &PyTupleIter_Type, GM_GIVEN_INDEXED, listed },
      { &PyListRevIter_Type, GM_GIVEN_INDEXED, listed },
      { &PyDictIterKey_Type, GM_GIVEN_TABLE, offsetof (DictIterator, dict) },
      { &PyDictIterValue_Type, GM_GIVEN_TABLE, offsetof (DictIterator, dict) },
      { &PyDictIterItem_Type, GM_GIVEN_PAIRS, offsetof (DictIterator, dict) },
      { iterator_type (PySet_New (NULL)), GM_GIVEN_TABLE, offsetof (SetIterator, set) },
      { &PyRangeIter_Type, GM_GIVEN_NUMBERS, 0 },
      { iterator_type (PyUnicode_FromString ("a")), GM_GIVEN_TEXT, listed },
      { iterator_type (PyUnicode_FromOrdinal (0x394)), GM_GIVEN_TEXT, listed },
      { &PyBytesIter_Type, GM_GIVEN_TEXT, listed },
      { count_type (), GM_GIVEN_NUMBERS, 0 },
      { &PyEnum_Type, GM_GIVEN_NUMBERED, 0 },
      { &PyZip_Type, GM_GIVEN_OF_OTHERS, 0 },
      { &PyMap_Type, GM_GIVEN_OF_OTHERS, 0 },
      { &PyFilter_Type, GM_GIVEN_OF_OTHERS, 0 },
    };
    G_STATIC_ASSERT (sizeof all <= sizeof rows);
    memcpy (rows, all, sizeof all);
    n = G_N_ELEMENTS (all);
  }
  for (size_t i = 0; i < n; i++)
    if (rows[i].type == type)
      return &rows[i];
  return NULL;
}

GmGivenKind
gm_given_kind (PyTypeObject *type)
{
  const Row *row = type->tp_iternext ? row_of (type) : NULL;
  return row ? row->kind : GM_GIVEN_NOT;
}

Py_ssize_t
gm_given_sequence_offset (PyTypeObject *type)
{
  const Row *row = row_of (type);
  return row ? row->sequence : 0;
}

/* -- Items ------------------------------------------------------------------------------------- */

#define MAX_NUMBER ((int64_t) 1 << 60) /* numbers beyond are left to Python */

static bool
is_small (int64_t i)
{
  return i > -MAX_NUMBER && i < MAX_NUMBER;
}

int
gm_given_form (PyObject *iterator)
{
  if (Py_IS_TYPE (iterator, &PyZip_Type))
    return ((Zip *) iterator)->strict ? 2 : 1;
  if (Py_IS_TYPE (iterator, &PyEnum_Type)) {
    const Enumerate *e = (Enumerate *) iterator;
    return e->large == NULL && is_small (e->number);
  }
  if (Py_IS_TYPE (iterator, &PyRangeIter_Type)
      || gm_given_kind (Py_TYPE (iterator)) != GM_GIVEN_NUMBERS)
    return 1;
  const Count *c = (Count *) iterator;
  return c->large == NULL && is_small (c->number) && PyLong_CheckExact (c->step)
         && PyLong_AsLong (c->step) == 1;
}

static GmGivenAnswer
made (PyObject *o, PyObject **item)
{
  *item = gm_call_object_lend (o);
  return *item ? GM_GIVEN_ITEM : GM_GIVEN_UNTOLD;
}

static GmGivenAnswer
find_number (PyObject *iterator, int64_t skipped, PyObject **item)
{
  if (!Py_IS_TYPE (iterator, &PyRangeIter_Type))
    return made (PyLong_FromLongLong (((Count *) iterator)->number + skipped), item);
  const RangeIterator *r = (RangeIterator *) iterator;
  int64_t at = skipped + GM_RANGE_ITERATOR_AT (r), first = r->start, number, way;
  if (at >= r->n)
    return GM_GIVEN_END;
  if (__builtin_mul_overflow (at, (int64_t) r->step, &way)
      || __builtin_add_overflow (first, way, &number))
    return GM_GIVEN_UNTOLD;
  return made (PyLong_FromLongLong (number), item);
}

static GmGivenAnswer
find_in_dict (PyObject *iterator, int64_t skipped, bool value, PyObject **item)
{
  const DictIterator *it = (DictIterator *) iterator;
  PyObject *found[2] = { NULL, NULL };
  Py_ssize_t at = it->at;
  if (it->dict == NULL)
    return GM_GIVEN_END;
  if (it->used != PyDict_GET_SIZE (it->dict))
    return GM_GIVEN_UNTOLD;
  for (int64_t i = 0; i <= skipped; i++)
    if (!PyDict_Next (it->dict, &at, &found[0], &found[1]))
      return GM_GIVEN_END;
  if (it->left <= skipped)
    return GM_GIVEN_UNTOLD; /* keys have come and gone, and the iterator notices */
  *item = found[value || Py_IS_TYPE (iterator, &PyDictIterValue_Type)];
  return GM_GIVEN_ITEM;
}

static GmGivenAnswer
find_in_set (PyObject *iterator, int64_t skipped, PyObject **item)
{
  const SetIterator *it = (SetIterator *) iterator;
  Py_ssize_t at = it->at;
  Py_hash_t hash;
  if (it->set == NULL)
    return GM_GIVEN_END;
  if (it->used != PySet_GET_SIZE (it->set))
    return GM_GIVEN_UNTOLD;
  for (int64_t i = 0; i <= skipped; i++)
    if (!_PySet_NextEntry (it->set, &at, item, &hash))
      return GM_GIVEN_END;
  return GM_GIVEN_ITEM;
}

static GmGivenAnswer
find_at_index (PyObject *iterator, int64_t skipped, PyObject **item)
{
  const GmGivenIterator *it = (GmGivenIterator *) iterator;
  PyObject *of = it->sequence;
  bool back = Py_IS_TYPE (iterator, &PyListRevIter_Type);
  int64_t i = back ? it->index - skipped : it->index + skipped;
  if (!of || i < 0 || i >= (PyUnicode_Check (of) ? PyUnicode_GET_LENGTH (of) : Py_SIZE (of)))
    return GM_GIVEN_END;
  if (PyUnicode_Check (of))
    return made (PyUnicode_FromOrdinal ((int) PyUnicode_READ_CHAR (of, i)), item);
  if (PyBytes_Check (of))
    return made (PyLong_FromLong ((unsigned char) PyBytes_AS_STRING (of)[i]), item);
  *item = PyList_Check (of) ? PyList_GET_ITEM (of, i) : PyTuple_GET_ITEM (of, i);
  return GM_GIVEN_ITEM;
}

GmGivenAnswer
gm_given_find (PyObject *iterator, int64_t skipped, bool value, PyObject **item)
{
  switch (gm_given_kind (Py_TYPE (iterator))) {
  case GM_GIVEN_INDEXED:
  case GM_GIVEN_TEXT:
    return find_at_index (iterator, skipped, item);
  case GM_GIVEN_TABLE:
  case GM_GIVEN_PAIRS:
    return Py_IS_TYPE (iterator, &PyDictIterKey_Type)
                   || Py_IS_TYPE (iterator, &PyDictIterValue_Type)
                   || Py_IS_TYPE (iterator, &PyDictIterItem_Type)
               ? find_in_dict (iterator, skipped, value, item)
               : find_in_set (iterator, skipped, item);
  case GM_GIVEN_NUMBERS:
    return find_number (iterator, skipped, item);
  case GM_GIVEN_NUMBERED:
    return made (PyLong_FromLongLong (((Enumerate *) iterator)->number + skipped), item);
  default:
    return GM_GIVEN_UNTOLD;
  }
}

/* -- Iterators over others --------------------------------------------------------------------- */

PyObject *
gm_given_others (PyObject *iterator, PyObject **function, Py_ssize_t *offset,
                 Py_ssize_t *function_offset)
{
  const PyTypeObject *type = Py_TYPE (iterator);
  *function_offset = type == &PyMap_Type      ? (Py_ssize_t) offsetof (Map, function)
                     : type == &PyFilter_Type ? (Py_ssize_t) offsetof (Filter, function)
                                              : 0;
  *offset = (Py_ssize_t) (type == &PyZip_Type      ? offsetof (Zip, iterators)
                          : type == &PyMap_Type    ? offsetof (Map, iterators)
                          : type == &PyFilter_Type ? offsetof (Filter, of)
                                                   : offsetof (Enumerate, of));
  *function = *function_offset ? *(PyObject **) ((char *) iterator + *function_offset) : NULL;
  return *(PyObject **) ((char *) iterator + *offset);
}

int
gm_given_step (PyObject *iterator)
{
  if (Py_IS_TYPE (iterator, &PyEnum_Type)) {
    ((Enumerate *) iterator)->number++;
    return 0;
  }
  PyObject *item = Py_TYPE (iterator)->tp_iternext (iterator);
  Py_XDECREF (item);
  return PyErr_Occurred () ? -1 : 0;
}
