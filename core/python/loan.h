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
/* i64 or f64 without dimensions: of an int that fits, a float, or of a zero of the type.  NULL, without an exception: there is no memory. */
PyObject *gm_loan_number (PyObject *number_or_type);

extern bool gm_loans_made; /* ever: most programs make none, and pay a load for it.  Under the GIL */
guint gm_loans_count (void); /* of this thread */
void gm_loans_cut (guint n);

/* Around a call: what was lent since the mark is let go of. */
static inline guint
gm_loans_mark (void)
{
  return G_UNLIKELY (gm_loans_made) ? gm_loans_count () : 0;
}

static inline void
gm_loans_return (guint mark)
{
  if (G_UNLIKELY (gm_loans_made))
    gm_loans_cut (mark);
}

#endif
