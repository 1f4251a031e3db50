/* SPDX-License-Identifier: Apache-2.0
 * args.h -- Python values as GmArg and back.
 *
 * A conversion allocates nothing in the common case: list items come from a block inside GmPyArgs,
 * which lives on the caller's stack.  Borrowed values stay valid while the arguments are alive and
 * until gm_py_args_clear.
 */
#ifndef GM_OBJECTS_ARGS_H
#define GM_OBJECTS_ARGS_H

#include "core/api/api.h"
#include "core/objects/tensor_object.h"

typedef enum {
  GM_PY_ARGS_PLAIN = 0,
  /* Objects with a buffer (numpy arrays) become tensors that share their memory: for operators. */
  GM_PY_ARGS_ARRAYS = 1,
  GM_PY_ARGS_INDEX = 2, /* for subscripts: like ARRAYS, and lists become index tensors */
} GmPyArgsMode;

typedef struct {
  uint8_t mode;
  uint16_t n_used, n_temps;
  GmArg items[40];
  PyObject *temps[8];   /* tensors made during the conversion */
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

/* Converts an argument to *out.  False with an exception: TypeError for a value that no function
 * accepts, OverflowError for an int that does not fit into 64 bits. */
bool gm_py_args_add (GmPyArgs *x, PyObject *o, GmArg *out);

/* Returns room for n more items, which lives until gm_py_args_clear, for code that makes further
 * arguments; NULL with an exception. */
GmArg *gm_py_args_take (GmPyArgs *x, Py_ssize_t n);
/* Keeps `wrapper` (steals the reference; NULL gives NULL) until gm_py_args_clear.  Returns its
 * tensor, borrowed, or NULL with an exception. */
GmTensor *gm_py_args_keep (GmPyArgs *x, PyObject *wrapper);

/* Reads a Python number or a numpy scalar into *out.  False without an exception if o is
 * neither. */
bool gm_py_number (PyObject *o, GmScalar *out);

/* Returns the result of a row as a new Python object; tensors get their wrapper.  NULL with an
 * exception. */
PyObject *gm_py_from_arg (const GmArg *a);
PyObject *gm_py_from_scalar (GmScalar s);
/* Returns the named tuple type for a result's fields, such as "max values indices".  Borrowed,
 * never freed; NULL with an exception. */
PyTypeObject *gm_py_fields_type (const char *fields);

#endif
