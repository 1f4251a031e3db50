/* SPDX-License-Identifier: Apache-2.0
 * overrides.h -- __torch_function__: subclasses of Tensor, other objects and modes that can
 * override calls.
 */
#ifndef GM_OBJECTS_OVERRIDES_H
#define GM_OBJECTS_OVERRIDES_H

#include "core/objects/api_object.h"

/* True once the process has a class of tensors that may override calls, or has entered a mode.
 * Until then a call pays only for reading this flag. */
extern bool gm_py_overrides;

/* True if a mode or an argument (also an item of a tuple or list) overrides the call of `func`:
 * *result is the value to return, NULL with an exception.  args: positional arguments, then those
 * named by kwnames, as in a vectorcall. */
bool gm_py_override_call (PyObject *func, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames, PyObject **result);
/* Does the same as gm_py_override_call for an operator on a, and on b if it is not NULL: func is
 * the equivalent method of Tensor. */
bool gm_py_override_operator (const GmApi *api, bool inplace, PyObject *a, PyObject *b,
                              PyObject **result);
/* Does the same as gm_py_override_call for a subscript, read or written; args: self, key and, if
 * n is 3, the value. */
bool gm_py_override_subscript (PyObject *const *args, int n, PyObject **result);
/* True if `o` is not a plain tensor and its class has a __torch_function__ that is not disabled. */
bool gm_py_is_override (PyObject *o);
/* True while a __torch_function__ mode of this thread sees calls. */
bool gm_py_function_mode_on (void);

/* Implements Tensor.__init_subclass__. */
PyObject *gm_py_tensor_init_subclass (PyObject *cls, PyObject *args, PyObject *kwargs);

int gm_py_init_overrides (PyObject *module);

#endif
