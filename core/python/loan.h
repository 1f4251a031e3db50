/* SPDX-License-Identifier: Apache-2.0
 * loan.h -- objects that live until the end of the call of a compiled function in which they were made.
 */
#ifndef GM_PYTHON_LOAN_H
#define GM_PYTHON_LOAN_H

#include <glib.h>

#include "core/python/cpython.h"
#include "core/tensor/tensor.h"

/* The gradient of a tensor as an object, borrowed until the loans are returned; NULL: there is none. */
PyObject *gm_loan_grad (GmTensor *t);

/* A new tensor over the memory of an array, the same way; NULL: it cannot be. */
PyObject *gm_loan_array (PyObject *array);

/* Around a call: what was lent since the mark is let go of.  Of this thread. */
guint gm_loans_mark (void);
void gm_loans_return (guint mark);

#endif
