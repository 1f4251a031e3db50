/* SPDX-License-Identifier: Apache-2.0
 * models.h -- the models of library functions and types that the recorder's kinds call, by file.
 */
#ifndef GM_MODELS_MODELS_H
#define GM_MODELS_MODELS_H

#include "core/trace/kinds.h"

/* -- allow_in_graph.c -------------------------------------------------------------------------- */

/* Returns the result of a call of f that is a node as a whole; NULL, without a
 * break: it is to be recorded as the call of any function. */
const GmTracker *gm_host_call_record (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);

/* -- builtin_class.c --------------------------------------------------------------------------- */

/* Returns the result of a call of a builtin class: int (x), list (xs), enumerate (xs) ... NULL,
 * without a break, if there is no model of the class. */
const GmTracker *gm_builtin_class_call (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);

/* -- builtin_function.c ------------------------------------------------------------------------ */

/* Calls a function of the module builtins with this __name__. NULL: fn is
 * none. */
const GmTracker *gm_builtin_function_call (GmRecorder *r, PyObject *fn, const char *name,
                                           const GmCallArgs *args);
const GmTracker *gm_math_prod (GmRecorder *r, const GmCallArgs *args);

/* -- copying.c --------------------------------------------------------------------------------- */

/* The call of object.__reduce_ex__. */
const GmTracker *gm_object_reduce_ex (GmRecorder *r, const GmTracker *self, const GmCallArgs *args);

/* -- deepcopy.c -------------------------------------------------------------------------------- */

/* True for copy.deepcopy; and its call. */
bool gm_is_deepcopy (const GmTracker *f);
const GmTracker *gm_deepcopy (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);

/* -- dispatch.c -------------------------------------------------------------------------------- */

/* True for the function with which functools.singledispatch finds a class's function,
 * and its call. */
bool gm_is_dispatch (const GmTracker *f);
const GmTracker *gm_dispatch (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);

/* -- functools.c ------------------------------------------------------------------------------- */

/* Calls an object of a C class that has a model (functools.partial). NULL, without a break: it has
 * none. */
const GmTracker *gm_special_object_call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args);
bool gm_is_partial_member (PyObject *name); /* else an attribute in its dict */
bool gm_partial_build (GmResidualBuilder *b, const GmTracker *t);
const GmTracker *gm_reduce (GmRecorder *r, const GmCallArgs *args);

/* -- mode_call.c ------------------------------------------------------------------------------- */

/* Calls a function that reads or sets a mode. NULL: fn is none, or after a break. */
const GmTracker *gm_mode_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args);

/* -- namespace.c ------------------------------------------------------------------------------- */

bool gm_is_namespace (PyTypeObject *type);
const GmTracker *gm_namespace_compare (GmRecorder *r, int op, const GmTracker *t,
                                       const GmTracker *other);
void gm_namespace_build (GmResidualBuilder *b, const GmTracker *t);

/* -- numpy_input.c ----------------------------------------------------------------------------- */

/* Returns NULL if the argument is no array that exists. */
const GmTracker *gm_tensor_over_array (GmRecorder *r, PyObject *fn, const GmCallArgs *args);

/* -- operators.c ------------------------------------------------------------------------------- */

/* Returns `t.__getitem__`, `t.__len__` ... of a builtin kind, or NULL. */
const GmTracker *gm_operator_method (GmRecorder *r, const GmTracker *t, PyObject *name);
/* Calls a function of the module operator. NULL, without a break: it has no model. */
const GmTracker *gm_operator_function (GmRecorder *r, const char *name, const GmCallArgs *args);

/* -- sort.c ------------------------------------------------------------------------------------ */

/* Returns a new list of the sorted items for list.sort; `list` still has its own. */
const GmTracker *gm_list_sorted (GmRecorder *r, const GmTracker *list, const GmCallArgs *args);

/* -- tensor_made.c ----------------------------------------------------------------------------- */

/* Calls tensor (numbers) and the like, and is_tensor. NULL: fn is another function, or the numbers
 * are no constants. */
const GmTracker *gm_tensor_made (GmRecorder *r, PyObject *fn, const char *name,
                                 const GmCallArgs *args);

/* -- tracker_getter.c -------------------------------------------------------------------------- */

/* The objects of operator.itemgetter, attrgetter, methodcaller; functools.cmp_to_key. */
bool gm_is_getter (PyTypeObject *type);
const GmTracker *gm_wrap_getter (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_cmp_to_key (GmRecorder *r, const GmCallArgs *args);

/* -- tracker_grad_mode.c ----------------------------------------------------------------------- */

const GmTracker *gm_grad_mode_class_call (GmRecorder *r, PyObject *cls, const GmCallArgs *args);
void gm_grad_mode_enter (GmRecorder *r, const GmTracker *t); /* pushes exit and value */

/* -- tracker_scalar.c -------------------------------------------------------------------------- */

/* The scalars of numpy. */
bool gm_is_scalar (PyTypeObject *type);
const GmTracker *gm_wrap_scalar (GmRecorder *r, PyObject *real, const GmSource *source);

#endif
