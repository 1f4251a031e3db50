/* SPDX-License-Identifier: Apache-2.0
 * overrides.h -- __torch_function__: subclasses of Tensor, other objects and modes that take part
 * in calls.
 */
#ifndef GM_PYTHON_OVERRIDES_H
#define GM_PYTHON_OVERRIDES_H

#include "core/python/api_object.h"

/* True once the process has a class of tensors, or has entered a mode, that may take part: until
 * then a call pays for this look alone. */
extern bool gm_py_overrides;

/* True if a mode or an argument (also an item of a tuple or list) takes the call of `func` over:
 * *result is what to return, NULL with an exception.  args: the positional ones, then those named
 * by kwnames, as in a vectorcall. */
bool gm_py_override_call (PyObject *func, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **result);
/* The same of an operator on a, and b if it is not NULL: func is the method of Tensor that says
 * the same. */
bool gm_py_override_operator (const GmApi *api, bool inplace, PyObject *a, PyObject *b, PyObject **result);
/* The same of a subscript, read or written: self, key and, if n is 3, the value. */
bool gm_py_override_subscript (PyObject *const *args, int n, PyObject **result);
/* True if `o` is no plain tensor and its class has a __torch_function__ that is heard. */
bool gm_py_is_override (PyObject *o);
/* True while a mode of this thread sees calls. */
bool gm_py_function_mode_on (void);

/* Tensor.__init_subclass__. */
PyObject *gm_py_tensor_init_subclass (PyObject *cls, PyObject *args, PyObject *kwargs);

int gm_py_init_overrides (PyObject *module);

#endif
