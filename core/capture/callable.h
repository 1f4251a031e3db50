/* SPDX-License-Identifier: Apache-2.0
 * callable.h -- gramme.compile's result: a C callable that checks guards and runs plans.
 */
#ifndef GM_CAPTURE_CALLABLE_H
#define GM_CAPTURE_CALLABLE_H

#include "core/capture/code_cache.h"
#include "core/capture/failed.h"

/* A function to call: the object of gramme.compile without its Python side, or a resume function.
 * All pointers are borrowed. */
typedef struct {
  PyFunctionObject *func;
  GmCodeCache *cache; /* of func's code */
  const GmConfig *config;
  bool fullgraph;
  /* True if the hook found the function, so that the program has not asked for it: no warnings. */
  bool hooked;
} GmTarget;

typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyFunctionObject *func; /* owned */
  PyObject *self;         /* of a bound method, owned; else NULL */
  /* The object given to gramme.compile, which is called when no entry fits. */
  PyObject *original;
  /* Cache of func's code object when it was last looked up; func keeps the code alive. */
  GmCodeCache *cache;
  PyCodeObject *code;     /* the code object that `cache` belongs to, owned */
  const GmConfig *config; /* owned */
  bool fullgraph;
  PyObject *dict, *weakrefs;
} GmCompiled;

extern PyTypeObject gm_py_compiled_type;

/* True for entries that run_simple can run, see callable.c.  Value of GmEntry.simple. */
bool gm_entry_is_simple (const GmEntry *e);
/* Returns the modes of a call made now, as guards compare them. */
GmCallEnv gm_target_env (const GmTarget *target);
/* Calls with bound arguments: the first entry that fits, or a new one.  Returns a new reference;
 * NULL with an exception, with the rest of the call in *tail, or with *end saying that the plain
 * function is to be called.  *end need not be initialized. */
struct GmTail;
PyObject *gm_target_call (const GmTarget *target, PyObject *const *locals, struct GmTail *tail,
                          GmCallEnd *end);

/* Returns a tensor of that size, which stands for an int in a graph with symbols: a new reference.
 * Its elements have no memory and are never read. */
GmTensor *gm_py_int_as_size (PyObject *o);

int gm_py_init_callable (PyObject *module);

#endif
