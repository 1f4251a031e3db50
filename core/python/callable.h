/* SPDX-License-Identifier: Apache-2.0
 * callable.h -- gramme.compile's result: a C callable that checks guards and runs plans.
 */
#ifndef GM_PYTHON_CALLABLE_H
#define GM_PYTHON_CALLABLE_H

#include "core/python/code_cache.h"

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

/* The modes of a call made now through `self`, as guards compare them. */
GmCallEnv gm_compiled_env (const GmCompiled *self);

int gm_py_init_callable (PyObject *module);

#endif
