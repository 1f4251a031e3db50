/* SPDX-License-Identifier: Apache-2.0
 * iterated.c -- a value whose iterator exists already, for zip and the like in a replay: iter () of
 * it is the iterator itself, of any class.
 */
#include "core/trace/iterator.h"

typedef struct {
  PyObject_HEAD PyObject *iterator;
} Iterated;

static PyObject *
iterated_new (PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *iterator;
  Iterated *self =
      PyArg_ParseTuple (args, "O", &iterator) ? (Iterated *) type->tp_alloc (type, 0) : NULL;
  if (self)
    self->iterator = Py_NewRef (iterator);
  return (PyObject *) self;
}

static void
iterated_free (PyObject *self)
{
  Py_DECREF (((Iterated *) self)->iterator);
  Py_TYPE (self)->tp_free (self);
}

static PyObject *
iterated_iter (PyObject *self)
{
  return Py_NewRef (((Iterated *) self)->iterator);
}

PyTypeObject *
gm_iterated_type (void)
{
  static PyTypeObject type = {
    PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.Iterated",
    .tp_basicsize = sizeof (Iterated),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = iterated_new,
    .tp_dealloc = iterated_free,
    .tp_iter = iterated_iter,
  };
  if (PyType_Ready (&type) < 0)
    PyErr_Clear ();
  return &type;
}
