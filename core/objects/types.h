/* SPDX-License-Identifier: Apache-2.0
 * types.h -- the small Python types around a tensor: gramme.dtype, gramme.device, gramme.Size.
 */
#ifndef GM_OBJECTS_TYPES_H
#define GM_OBJECTS_TYPES_H

#include "core/objects/errors.h"
#include "core/tensor/meta.h"

typedef struct {
  PyObject_HEAD GmDtype dtype;
} GmPyDtype;

extern PyTypeObject gm_py_dtype_type, gm_py_device_type, gm_py_size_type;

/* Returns the object of a dtype, which is the same each time.  New reference; cannot fail. */
PyObject *gm_py_dtype (GmDtype d);
/* Reads a dtype from a gramme.dtype or from Python's types bool, int, float.  False with an
 * exception: TypeError for other objects, NotImplementedError for reserved dtypes. */
bool gm_py_dtype_get (PyObject *o, GmDtype *out);

/* Reads the argument device=: a device object, a name, a GPU's number; 0 for None or NULL.  False
 * with an exception. */
bool gm_py_device_arg (PyObject *o, int *device);

PyObject *gm_py_size (int ndim, const int64_t *sizes); /* new gramme.Size, NULL on error */

int gm_py_init_types (PyObject *module);

#endif
