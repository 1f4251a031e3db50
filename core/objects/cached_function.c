/* SPDX-License-Identifier: Apache-2.0
 * cached_function.c -- see cached_function.h.
 *
 * The object of _functoolsmodule.c has no interface to find a remembered result without counting a
 * hit, so its fields are read directly.  Their layout is tested once, on a cache of ours; if
 * anything differs from what is expected, no result is found.
 */
#include "core/objects/cached_function.h"

#include "core/objects/import.h"

#include <string.h>

/* An item of the object that functools.lru_cache returns; 3.11, 3.12 and 3.13 have the same
 * layout. */
typedef struct Link {
  PyObject_HEAD struct Link *prev, *next;
  Py_hash_t hash;
  PyObject *key, *result;
} Link;

typedef struct {
  Link root;
  void *wrapper;
  int typed;
  PyObject *cache;
  Py_ssize_t hits;
  PyObject *func;
  Py_ssize_t maxsize, misses;
  PyObject *mark;
} Cache;

static PyObject *
mark_of (PyObject *cache)
{
  return ((Cache *) cache)->mark;
}

/* -- Replaying calls --------------------------------------------------------------------------- */

static PyObject *
again (PyObject *module, PyObject *const *args, Py_ssize_t n)
{
  return PyObject_Vectorcall (args[0], args + 2,
                              (size_t) (n - 2)
                                  - (args[1] == Py_None ? 0 : (size_t) PyTuple_GET_SIZE (args[1])),
                              args[1] == Py_None ? NULL : args[1]);
}

static PyObject *
missed (PyObject *module, PyObject *const *args, Py_ssize_t n)
{
  ((Cache *) args[0])->misses++;
  Py_RETURN_NONE;
}

static PyObject *
give (PyObject *result, PyObject *args, PyObject *named)
{
  return Py_NewRef (result);
}

/* Implements `remember` of GmCachedHost: calls the cache with a function in the place of its own
 * that returns the given result, and restores the counts.  No other code can call the cache
 * meanwhile: the arguments are constants, and garbage collection is off. */
static PyObject *
remember (PyObject *module, PyObject *const *args, Py_ssize_t n)
{
  static PyMethodDef method = { "give", (PyCFunction) (void (*) (void)) give,
                                METH_VARARGS | METH_KEYWORDS, NULL };
  Cache *cache = (Cache *) args[0];
  PyObject *names = args[2] == Py_None ? NULL : args[2],
           *function = PyCFunction_New (&method, args[1]), *own = cache->func;
  if (function == NULL)
    return NULL;
  Py_ssize_t hits = cache->hits, misses = cache->misses;
  int collects = PyGC_Disable ();
  cache->func = function;
  PyObject *result =
      PyObject_Vectorcall ((PyObject *) cache, args + 3,
                           (size_t) (n - 3 - (names ? PyTuple_GET_SIZE (names) : 0)), names);
  cache->func = own;
  cache->hits = hits;
  cache->misses = misses;
  if (collects)
    PyGC_Enable ();
  Py_DECREF (function);
  return result;
}

/* -- Testing the layout of the fields ---------------------------------------------------------- */

/* Returns functools.lru_cache (maxsize, typed) (int) after two calls with "7", to test the
 * layout; a new reference, NULL on failure.  maxsize < 0: None. */
static Cache *
sample (int maxsize, bool typed)
{
  PyObject *functools = gm_import ("functools"), *decorate = NULL, *cache = NULL;
  PyObject *size = maxsize < 0 ? Py_NewRef (Py_None) : PyLong_FromLong (maxsize);
  if (functools && size)
    decorate = PyObject_CallMethod (functools, "lru_cache", "OO", size, typed ? Py_True : Py_False);
  if (decorate)
    cache = PyObject_CallOneArg (decorate, (PyObject *) &PyLong_Type);
  for (int i = 0; cache && i < 2; i++) {
    PyObject *result = PyObject_CallFunction (cache, "s", "7");
    if (result == NULL)
      Py_CLEAR (cache);
    Py_XDECREF (result);
  }
  Py_XDECREF (functools);
  Py_XDECREF (size);
  Py_XDECREF (decorate);
  PyErr_Clear ();
  return (Cache *) cache;
}

static bool
is_seven (PyObject *o)
{
  return o && PyLong_CheckExact (o) && PyLong_AsLong (o) == 7;
}

static bool
is_as_known (int maxsize, bool typed)
{
  Cache *c = sample (maxsize, typed);
  bool ok = c && strcmp (Py_TYPE (c)->tp_name, "functools._lru_cache_wrapper") == 0
            && Py_TYPE (c)->tp_basicsize >= (Py_ssize_t) sizeof (Cache)
            && c->func == (PyObject *) &PyLong_Type && c->maxsize == maxsize && c->typed == typed
            && c->hits == (maxsize != 0) && c->misses == (maxsize ? 1 : 2) && c->cache
            && PyDict_CheckExact (c->cache) && PyDict_GET_SIZE (c->cache) == (maxsize != 0)
            && c->mark && Py_TYPE (c->mark) == &PyBaseObject_Type;
  PyObject *key, *value;
  Py_ssize_t pos = 0;
  if (ok && PyDict_Next (c->cache, &pos, &key, &value)) {
    const Link *link = (const Link *) value;
    bool linked = maxsize > 0 && Py_TYPE (value)->tp_basicsize == sizeof (Link);
    ok =
        PyUnicode_CheckExact (key) == !typed
        && (maxsize < 0 ? is_seven (value) : linked && link->key == key && is_seven (link->result));
  }
  Py_XDECREF (c);
  return ok;
}

GmCachedHost
gm_cached_host (void)
{
  static PyMethodDef methods[] = {
    { "cached_call", (PyCFunction) (void (*) (void)) again, METH_FASTCALL, NULL },
    { "cached_missed", (PyCFunction) (void (*) (void)) missed, METH_FASTCALL, NULL },
    { "cached_remember", (PyCFunction) (void (*) (void)) remember, METH_FASTCALL, NULL },
  };
  GmCachedHost host = { .dict = offsetof (Cache, cache),
                        .result = offsetof (Link, result),
                        .func = offsetof (Cache, func),
                        .maxsize = offsetof (Cache, maxsize),
                        .typed = offsetof (Cache, typed),
                        .mark = mark_of };
  host.again = PyCFunction_New (&methods[0], NULL);
  host.missed = PyCFunction_New (&methods[1], NULL);
  host.remember = PyCFunction_New (&methods[2], NULL);
  host.known = host.again && host.missed && host.remember && is_as_known (-1, false)
               && is_as_known (4, false) && is_as_known (4, true) && is_as_known (0, false);
  PyErr_Clear ();
  return host;
}
