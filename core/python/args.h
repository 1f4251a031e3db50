/* SPDX-License-Identifier: Apache-2.0
 * args.h -- Python values as GmArg and back.
 *
 * A conversion needs no memory of its own in the common case: list items come from a block inside
 * GmPyArgs, which lives on the caller's stack.  What is borrowed stays valid while the arguments
 * are alive and until gm_py_args_clear.
 */
#ifndef GM_PYTHON_ARGS_H
#define GM_PYTHON_ARGS_H

#include "core/ops/api.h"
#include "core/python/tensor_object.h"

typedef enum {
  GM_PY_ARGS_PLAIN = 0,
  GM_PY_ARGS_ARRAYS = 1, /* objects with a buffer (numpy arrays) become tensors that share their
                            memory: operators */
  GM_PY_ARGS_INDEX = 2,  /* as ARRAYS; lists become index tensors: subscripts */
} GmPyArgsMode;

typedef struct {
  uint8_t mode;
  uint16_t n_used, n_temps;
  GmArg items[40];
  PyObject *temps[8];   /* tensors made on the way */
  GPtrArray *more;      /* blocks of longer lists; NULL until needed */
  PyObject *more_temps; /* list; NULL until needed */
} GmPyArgs;

static inline void
gm_py_args_init (GmPyArgs *x, GmPyArgsMode mode)
{
  x->mode = (uint8_t) mode;
  x->n_used = x->n_temps = 0;
  x->more = NULL;
  x->more_temps = NULL;
}
void gm_py_args_clear (GmPyArgs *x);

/* One value.  False with an exception: TypeError for what no function takes, OverflowError for an
 * int past 64 bits. */
bool gm_py_args_add (GmPyArgs *x, PyObject *o, GmArg *out);

/* For who makes arguments of arguments.  Room for n items, NULL with an exception; and a new
 * wrapper (taken, NULL gives NULL) that stays alive until gm_py_args_clear: its tensor, or NULL
 * with an exception. */
GmArg *gm_py_args_take (GmPyArgs *x, Py_ssize_t n);
GmTensor *gm_py_args_keep (GmPyArgs *x, PyObject *wrapper);

/* A number: Python's, or a numpy scalar.  False without exception if it is none. */
bool gm_py_number (PyObject *o, GmScalar *out);

/* A result as a new Python object; tensors get their wrapper.  NULL with an exception. */
PyObject *gm_py_from_arg (const GmArg *a);
PyObject *gm_py_from_scalar (GmScalar s);
/* The named tuple type of a result's fields, "max values indices".  Borrowed, lives for ever; NULL with an exception. */
PyTypeObject *gm_py_fields_type (const char *fields);

#endif
