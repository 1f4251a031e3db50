/* SPDX-License-Identifier: Apache-2.0
 * api_object.h -- the Python callables of the rows of gm_api_rows.
 *
 * gramme.<name> and gramme.nn.functional.<name> are ApiFunction objects, Tensor.<name> and
 * Tensor.<name>_ are ApiMethod, a subtype that binds.  The recorder reads `api` and `inplace`, and
 * needs no name.
 */
#ifndef GM_OBJECTS_API_OBJECT_H
#define GM_OBJECTS_API_OBJECT_H

#include "core/api/api.h"
#include "core/objects/tensor_object.h"

typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  const GmApi *api;
  bool inplace; /* true for the "name_" form */
  GmOp op;      /* the POINTWISE op that computes the row for tensors of one dtype, or GM_OP_NONE */
} GmPyApi;

extern PyTypeObject gm_py_api_function_type, gm_py_api_method_type;

/* Calls a row with values that are GmArg already.  Returns a new reference, or NULL with an
 * exception. */
PyObject *gm_py_api_run (const GmApi *api, bool inplace, const GmArg *args, int n);
/* Returns the POINTWISE op that does the same as the row for arguments that are all tensors of
 * the same dtype; GM_OP_NONE if there is no such op. */
GmOp gm_py_api_op (const GmApi *api);
/* Calls an operator's row with two Python values, of which at least one is a tensor.  Returns a new
 * reference; Py_NotImplemented if a tensor cannot compute with the other value; NULL with an
 * exception. */
PyObject *gm_py_api_binary (const GmApi *api, GmOp op, bool inplace, PyObject *a, PyObject *b);
PyObject *gm_py_api_unary (const GmApi *api, GmOp op, PyObject *a);

int gm_py_init_api (PyObject *module);

#endif
