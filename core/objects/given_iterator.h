/* SPDX-License-Identifier: Apache-2.0
 * given_iterator.h -- CPython's own iterators, read without advancing them.
 *
 * The layouts are those of CPython 3.11 to 3.13. An iterator over a list, tuple, str or bytes keeps
 * an index and the object, one over a dict or set its place in the table; a range's and a count's
 * are numbers. Requires: the GIL.
 */
#ifndef GM_OBJECTS_GIVEN_ITERATOR_H
#define GM_OBJECTS_GIVEN_ITERATOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

/* Says where the items of an iterator come from. */
typedef enum {
  GM_GIVEN_NOT,      /* only by running it */
  GM_GIVEN_INDEXED,  /* in a list or tuple, also backwards */
  GM_GIVEN_TEXT,     /* made of a str or bytes */
  GM_GIVEN_TABLE,    /* in a dict or set */
  GM_GIVEN_PAIRS,    /* keys and values of a dict */
  GM_GIVEN_NUMBERS,  /* a range, itertools.count */
  GM_GIVEN_NUMBERED, /* enumerate: a number, and an item of another iterator */
  GM_GIVEN_OF_OTHERS /* zip, map, filter: nothing but items of other iterators */
} GmGivenKind;

/* Result of a look-up of an item.  UNTOLD: the iterator would raise, as it does when its dict
 * has changed since it was made. */
typedef enum { GM_GIVEN_ITEM, GM_GIVEN_END, GM_GIVEN_UNTOLD } GmGivenAnswer;

/* Layout of CPython's iterator over a list or tuple. */
typedef struct {
  PyObject_HEAD Py_ssize_t index;
  PyObject *sequence; /* NULL once it has ended */
} GmGivenIterator;

/* Returns where items of iterators of this exact type come from. */
GmGivenKind gm_given_kind (PyTypeObject *type);

/* Returns a number for the variant of the iterator, where its type has several: zip (2: strict),
 * enumerate and count (0: their numbers are large, or the step is not 1).  0: its items cannot be
 * told without running it. */
int gm_given_form (PyObject *iterator);

/* Returns the offset, in the iterator's memory, of the pointer to the object that it walks; 0:
 * the type keeps no such object. */
Py_ssize_t gm_given_sequence_offset (PyTypeObject *type);

/* Finds the item that the iterator gives after `skipped` others, without advancing it; for PAIRS
 * the key or, if `value` is true, the value; for NUMBERED the number.  *item is borrowed from the
 * iterator's object, or lives until the end of this call (call_objects.h). */
GmGivenAnswer gm_given_find (PyObject *iterator, int64_t skipped, bool value, PyObject **item);

/* Returns the tuple of iterators of a zip or map, or the iterator of a filter or enumerate, and
 * in *function the function of a map or filter, else NULL; both borrowed.  *offset and
 * *function_offset get the places of these pointers in the object's memory. */
PyObject *gm_given_others (PyObject *iterator, PyObject **function, Py_ssize_t *offset,
                           Py_ssize_t *function_offset);

/* Advances an iterator, and drops the item.  Of an enumerate only the number is advanced: the
 * caller advances the iterator that it enumerates.  Returns 0; -1 with an exception. */
int gm_given_step (PyObject *iterator);

/* Returns the item of gm_given_find, borrowed; NULL: there is none, or it cannot be told. */
static inline PyObject *
gm_given_item (PyObject *iterator, int64_t skipped, bool value)
{
  PyObject *item = NULL;
  if (!Py_IS_TYPE (iterator, &PyListIter_Type))
    return gm_given_find (iterator, skipped, value, &item) == GM_GIVEN_ITEM ? item : NULL;
  PyObject *of = ((GmGivenIterator *) iterator)->sequence;
  int64_t i = ((GmGivenIterator *) iterator)->index + skipped;
  return of && i < PyList_GET_SIZE (of) ? PyList_GET_ITEM (of, i) : NULL;
}

/* True if the iterator ends after `skipped` items. */
static inline bool
gm_given_ends (PyObject *iterator, int64_t skipped)
{
  PyObject *item;
  return gm_given_find (iterator, skipped, false, &item) == GM_GIVEN_END;
}

#endif
