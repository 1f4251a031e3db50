/* SPDX-License-Identifier: Apache-2.0
 * callable.h -- gramme.compile's result: a C callable that checks guards and runs plans.
 */
#ifndef GM_PYTHON_CALLABLE_H
#define GM_PYTHON_CALLABLE_H

#include "core/python/code_cache.h"
#include "core/python/failed.h"

/* What is called: the object of gramme.compile without its Python side, or a resume function.  All borrowed. */
typedef struct {
  PyFunctionObject *func;
  GmCodeCache *cache; /* of func's code */
  const GmConfig *config;
  bool fullgraph;
  bool hooked; /* nobody asked for it by name: found by the hook, so no warnings */
} GmTarget;

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyFunctionObject *func; /* owned */
  PyObject *self;         /* of a bound method, owned; or NULL */
  PyObject *original;     /* what was given to gramme.compile: called when nothing fits */
  GmCodeCache *cache;     /* of func's code object when it was last looked up; func keeps the code alive */
  PyCodeObject *code;     /* the code object that `cache` belongs to, owned */
  const GmConfig *config; /* owned */
  bool fullgraph;
  PyObject *dict, *weakrefs;
} GmCompiled;

extern PyTypeObject gm_py_compiled_type;

bool gm_entry_is_simple (const GmEntry *e); /* for GmEntry.simple */
/* The modes of a call made now, as guards compare them. */
GmCallEnv gm_target_env (const GmTarget *target);
/* Calls with bound arguments: the first entry that fits, or a new one.  New reference; NULL with an exception, or with the rest in *tail; or
 * NULL with *end saying that the plain function is to be called.  *end need not be initialized. */
struct GmTail;
PyObject *gm_target_call (const GmTarget *target, PyObject *const *locals, struct GmTail *tail, GmCallEnd *end);

/* An int that a graph of symbols takes: a tensor whose size it is.  No memory belongs to its elements, and nobody reads them. */
GmTensor *gm_py_int_as_size (PyObject *o);

int gm_py_init_callable (PyObject *module);

#endif
