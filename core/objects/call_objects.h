/* SPDX-License-Identifier: Apache-2.0
 * call_objects.h -- objects that live until the end of the compiled function's call in which they
 * were made.
 */
#ifndef GM_OBJECTS_CALL_OBJECTS_H
#define GM_OBJECTS_CALL_OBJECTS_H

#include <glib.h>

#include "core/objects/cpython.h"
#include "core/tensor/tensor.h"

/* Keeps an object, whose reference is stolen, until the end of the present call
 * (gm_call_objects_return), and returns it, borrowed; NULL, without an exception, for NULL. */
PyObject *gm_call_object_lend (PyObject *o);

/* Returns the gradient of a tensor as an object, borrowed until the end of the present call;
 * NULL: there is none. */
PyObject *gm_call_object_grad (GmTensor *t);

/* Returns a new tensor over the memory of a numpy array, borrowed until the end of the present
 * call; NULL: it cannot be made. */
PyObject *gm_call_object_array (PyObject *array);
/* Returns a tensor i64 or f64 without dimensions for an int that fits or a float, or, for the
 * type int or float, a zero; borrowed until the end of the present call.  NULL, without an
 * exception: there is no memory. */
PyObject *gm_call_object_number (PyObject *number_or_type);

/* True once a thread has kept an object: most programs never do, and then a call pays only for
 * loading this flag.  Under the GIL. */
extern bool gm_call_objects_made;
guint gm_call_objects_count (void); /* number of loans of this thread */
void gm_call_objects_cut (guint n);

/* Enclose a call: gm_call_objects_return releases the objects that this thread has kept since
 * the mark. */
static inline guint
gm_call_objects_mark (void)
{
  return G_UNLIKELY (gm_call_objects_made) ? gm_call_objects_count () : 0;
}

static inline void
gm_call_objects_return (guint mark)
{
  if (G_UNLIKELY (gm_call_objects_made))
    gm_call_objects_cut (mark);
}

#endif
