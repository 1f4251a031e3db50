/* SPDX-License-Identifier: Apache-2.0
 * entry_draws.c -- the calls of Python's module random with which a compiled call begins.
 *
 * Each is the same call that the program makes, so the generator advances in the same way and
 * returns Python's numbers.  A number becomes a tensor, which is an input of the graph and is
 * converted back by the ending.  The recording has made sure that no call raises because of its
 * arguments.
 */
#include "core/objects/cpython.h"

#include "core/capture/entry_draws.h"
#include "core/objects/call_objects.h"

#include <string.h>

struct GmDraws {
  uint32_t n;
  GmRecordDraw calls[];
};

GmDraws *
gm_entry_draws_new (const GmRecordDraw *draws, uint32_t n)
{
  if (n == 0)
    return NULL;
  GmDraws *d = g_malloc (sizeof *d + n * sizeof (GmRecordDraw));
  d->n = n;
  for (uint32_t i = 0; i < n; i++) {
    d->calls[i] = draws[i];
    d->calls[i].name = g_strdup (draws[i].name);
    d->calls[i].parts = g_memdup2 (draws[i].parts, draws[i].n * sizeof *draws[i].parts);
    for (uint32_t k = 0; k < draws[i].n; k++)
      Py_XINCREF (draws[i].parts[k].obj);
  }
  return d;
}

void
gm_entry_draws_free (GmDraws *d)
{
  for (uint32_t i = 0; d && i < d->n; i++) {
    for (uint32_t k = 0; k < d->calls[i].n; k++)
      Py_XDECREF (d->calls[i].parts[k].obj);
    g_free ((void *) d->calls[i].parts);
    g_free ((void *) d->calls[i].name);
  }
  g_free (d);
}

/* True if the number that random returned has the type, and for an int the range, that the
 * recording assumed. */
static bool
is_expected (const GmRecordDraw *c, PyObject *number)
{
  int overflow = 1;
  if (c->is_float)
    return PyFloat_CheckExact (number);
  int64_t i = PyLong_CheckExact (number) ? PyLong_AsLongLongAndOverflow (number, &overflow) : 0;
  return !overflow && i >= c->lo && i <= c->hi;
}

static bool
draw (const GmRecordDraw *c, PyObject **slots)
{
  PyObject *parts[8];
  g_assert (c->n <= G_N_ELEMENTS (parts));
  for (uint32_t k = 0; k < c->n; k++)
    parts[k] = c->parts[k].obj ? c->parts[k].obj : slots[c->parts[k].slot];
  PyObject *number = PyObject_Vectorcall (parts[0], parts + 1, c->n - 1, NULL);
  bool good = number != NULL;
  if (good && c->gives && !is_expected (c, number)) {
    PyErr_Format (PyExc_RuntimeError,
                  "random.%s() gave %R to a compiled function: the module random was changed "
                  "meanwhile; call gramme.compiler.reset()",
                  c->name, number);
    good = false;
  }
  if (good && c->gives && (slots[c->slot] = gm_call_object_number (number)) == NULL) {
    PyErr_NoMemory ();
    good = false;
  }
  Py_XDECREF (number);
  return good;
}

/* -- The generators ---------------------------------------------------------------------------- */

/* The state of one generator: the numbers of its C struct, and its attribute gauss_next. */
typedef struct Kept {
  struct Kept *next;
  PyObject *generator, *gauss_next; /* owned; gauss_next: NULL if there was none */
  size_t bytes;
  char words[];
} Kept;

struct GmDrawn {
  Kept *first;
};

static void *
words_of (PyObject *generator)
{
  return (char *) generator + sizeof (PyObject);
}

/* Returns the generator whose method the call `c` runs, borrowed; always an exact random.Random,
 * since core/models/random_draw.c records no other. */
static PyObject *
generator_of (const GmRecordDraw *c, PyObject **slots)
{
  PyObject *fn = c->parts[0].obj ? c->parts[0].obj : slots[c->parts[0].slot];
  if (PyCFunction_Check (fn))
    return PyCFunction_GET_SELF (fn);
  return c->parts[1].obj ? c->parts[1].obj : slots[c->parts[1].slot];
}

static void
keep (GmDrawn *drawn, PyObject *generator)
{
  for (const Kept *k = drawn->first; k; k = k->next)
    if (k->generator == generator)
      return;
  size_t bytes = (size_t) Py_TYPE (generator)->tp_base->tp_basicsize - sizeof (PyObject);
  Kept *k = g_malloc (sizeof *k + bytes);
  *k = (Kept){ drawn->first, Py_NewRef (generator),
               PyObject_GetAttrString (generator, "gauss_next"), bytes };
  PyErr_Clear ();
  memcpy (k->words, words_of (generator), bytes);
  drawn->first = k;
}

void
gm_entry_draws_put_back (const GmDrawn *drawn)
{
  PyObject *type, *value, *traceback;
  PyErr_Fetch (&type, &value, &traceback);
  for (const Kept *k = drawn ? drawn->first : NULL; k; k = k->next) {
    memcpy (words_of (k->generator), k->words, k->bytes);
    if (PyObject_SetAttrString (k->generator, "gauss_next", k->gauss_next) < 0)
      PyErr_Clear ();
  }
  PyErr_Restore (type, value, traceback);
}

void
gm_entry_draws_drop (GmDrawn *drawn)
{
  if (!drawn)
    return;
  for (Kept *k = drawn->first, *next; k; k = next) {
    next = k->next;
    Py_DECREF (k->generator);
    Py_XDECREF (k->gauss_next);
    g_free (k);
  }
  g_free (drawn);
}

bool
gm_entry_draws_make (const GmDraws *d, PyObject **slots, GmDrawn **drawn)
{
  *drawn = g_new0 (GmDrawn, 1);
  for (uint32_t i = 0; i < d->n; i++) {
    keep (*drawn, generator_of (&d->calls[i], slots));
    if (!draw (&d->calls[i], slots))
      return false;
  }
  return true;
}
