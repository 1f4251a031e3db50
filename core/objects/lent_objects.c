/* SPDX-License-Identifier: Apache-2.0
 * lent_objects.c -- the objects that live until a call ends: see call_objects.h.
 */
#include "core/objects/call_objects.h"

static _Thread_local GPtrArray *lent; /* PyObject, owned */
bool gm_call_objects_made;

PyObject *
gm_call_object_lend (PyObject *o)
{
  if (o == NULL) {
    PyErr_Clear ();
    return NULL;
  }
  if (lent == NULL)
    lent = g_ptr_array_new ();
  gm_call_objects_made = true;
  g_ptr_array_add (lent, o);
  return o;
}

guint
gm_call_objects_count (void)
{
  return lent ? lent->len : 0;
}

void
gm_call_objects_cut (guint n)
{
  while (lent && lent->len > n) {
    PyObject *o = g_ptr_array_remove_index (lent, lent->len - 1);
    Py_DECREF (o);
  }
}
