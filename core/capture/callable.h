/* SPDX-License-Identifier: Apache-2.0
 * callable.h -- gramme.compile's result: a C callable that checks guards and runs plans.
 */
#ifndef GM_CAPTURE_CALLABLE_H
#define GM_CAPTURE_CALLABLE_H

#include "core/capture/code_cache.h"
#include "core/capture/failed.h"

/* A function that can be called: what is left of an object of gramme.compile without its Python
 * side, or a resume function.  All pointers are borrowed. */
typedef struct {
  PyFunctionObject *func;
  GmCodeCache *cache; /* the cache of func's code object */
  const GmConfig *config;
  bool fullgraph;
  /* True if the hook of hook.h found the function: the program has not asked to compile it, so
   * there are no warnings. */
  bool hooked;
} GmTarget;

typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyFunctionObject *func; /* owned */
  PyObject *self;         /* of a bound method, owned; else NULL */
  /* The object given to gramme.compile, which is called when no entry fits. */
  PyObject *original;
  /* Borrowed: cache of `code`, the code object that func had at the last call. */
  GmCodeCache *cache;
  PyCodeObject *code;     /* the code object that `cache` belongs to, owned */
  const GmConfig *config; /* owned */
  bool fullgraph;
  PyObject *dict, *weakrefs;
} GmCompiled;

extern PyTypeObject gm_py_compiled_type;

/* True if run_simple of callable.c can run the entry.  The result is kept in GmEntry.simple. */
bool gm_entry_is_simple (const GmEntry *e);
/* Returns the modes of a call of `target` made now, as guards compare them. */
GmCallEnv gm_target_env (const GmTarget *target);
/* Calls `target` with bound arguments: runs the first entry whose guards hold, or compiles a new
 * entry and runs that.  Returns a new reference to the value, or NULL: with an exception, or with
 * the rest of the call in *tail, which the caller has to run, or with *end, which says that the
 * caller has to run the plain function.  *end need not be initialized. */
struct GmTail;
PyObject *gm_target_call (const GmTarget *target, PyObject *const *locals, struct GmTail *tail,
                          GmCallEnd *end);

/* Returns a tensor with o elements, for an int object `o` (not negative); a new reference.  It
 * stands for an int input in a graph with symbols.  Its elements have no memory and are never
 * read. */
GmTensor *gm_py_int_as_size (PyObject *o);

int gm_py_init_callable (PyObject *module);

#endif
