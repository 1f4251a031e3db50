/* SPDX-License-Identifier: Apache-2.0
 * tensor_object.h -- gramme.Tensor: the Python object of a tensor, the same one while Python holds
 * it.
 *
 * Requires: the GIL, everywhere.
 */
#ifndef GM_OBJECTS_TENSOR_OBJECT_H
#define GM_OBJECTS_TENSOR_OBJECT_H

#include "core/autograd/autograd.h"
#include "core/objects/errors.h"

typedef struct {
  PyObject_HEAD GmTensor
      *t; /* owned; t->wrapper points back.  NULL only while the object is made or dies */
  PyObject *dict, *weakrefs;
} GmPyTensor;

extern PyTypeObject gm_py_tensor_type;

static inline bool
gm_py_tensor_check (PyObject *o)
{
  return Py_TYPE (o) == &gm_py_tensor_type || PyType_IsSubtype (Py_TYPE (o), &gm_py_tensor_type);
}

/* Returns the tensor of an object, borrowed; NULL, without an exception, if o is not a tensor. */
static inline GmTensor *
gm_py_tensor_get (PyObject *o)
{
  return gm_py_tensor_check (o) ? ((GmPyTensor *) o)->t : NULL;
}

/* Returns the Python object of t, the same object as long as it lives.  New reference; NULL with
 * MemoryError. */
PyObject *gm_py_tensor_wrap (GmTensor *t);
/* Does the same as gm_py_tensor_wrap, and steals the caller's reference to t.  NULL gives NULL. */
PyObject *gm_py_tensor_take (GmTensor *t);
/* Returns a new object of a subclass for a tensor that has no object yet; steals the reference. */
PyObject *gm_py_tensor_take_as (PyTypeObject *type, GmTensor *t);

/* Slots and attribute tables of the type, each defined in the file with its name. */
extern PyNumberMethods gm_py_tensor_number;
extern PyMappingMethods gm_py_tensor_mapping;
extern PySequenceMethods gm_py_tensor_sequence;
extern PyBufferProcs gm_py_tensor_buffer;
extern PyMethodDef gm_py_tensor_methods[];
extern PyGetSetDef gm_py_tensor_getset[];
PyObject *gm_py_tensor_compare (PyObject *a, PyObject *b, int op);
PyObject *gm_py_tensor_iter (PyObject *self);

int gm_py_init_tensor (PyObject *module);

#endif
