/* SPDX-License-Identifier: Apache-2.0
 * tensor_object.c -- the life of a gramme.Tensor.
 *
 * Invariant: t->wrapper is the one object of t or NULL, so `p.grad is p.grad` holds and attributes
 * that users set on a tensor stay.  The object owns the tensor, not the other way round: when
 * Python drops the object while autograd still holds the tensor, the object dies and a later one is
 * new.
 *
 * Most tensors are temporaries without attributes.  For them only the header is touched: objects
 * come from a free list, and the garbage collector learns of an object only when it gets a
 * __dict__, the one thing through which it can be part of a cycle.
 */
#include "core/objects/tensor_object.h"

#include "core/objects/construct.h"
#include "core/objects/types.h"

#include <stddef.h>

/* -- Objects ----------------------------------------------------------------------------------- */

#define FREE_MAX 256
static GmPyTensor *free_list[FREE_MAX];
static int n_free;

static PyObject *
new_object (void)
{
  GmPyTensor *o;
  if (n_free) {
    o = free_list[--n_free];
    PyObject_Init ((PyObject *) o, &gm_py_tensor_type);
  } else {
    o = PyObject_GC_New (GmPyTensor, &gm_py_tensor_type);
    if (!o)
      return NULL;
  }
  o->t = NULL;
  o->dict = o->weakrefs = NULL;
  return (PyObject *) o;
}

static inline PyObject *
adopt (PyObject *o, GmTensor *t)
{
  if (!o) {
    gm_tensor_unref (t);
    return NULL;
  }
  ((GmPyTensor *) o)->t = t;
  t->wrapper = o;
  return o;
}

PyObject *
gm_py_tensor_take (GmTensor *t)
{
  if (!t)
    return NULL;
  if (t->wrapper) {
    PyObject *o = Py_NewRef ((PyObject *) t->wrapper);
    gm_tensor_unref (t);
    return o;
  }
  return adopt (new_object (), t);
}

PyObject *
gm_py_tensor_wrap (GmTensor *t)
{
  return t->wrapper ? Py_NewRef ((PyObject *) t->wrapper)
                    : adopt (new_object (), gm_tensor_ref (t));
}

PyObject *
gm_py_tensor_take_as (PyTypeObject *type, GmTensor *t)
{
  if (!t)
    return NULL;
  g_assert (!t->wrapper);
  return adopt (type == &gm_py_tensor_type ? new_object () : type->tp_alloc (type, 0), t);
}

static void
dealloc (PyObject *self)
{
  GmPyTensor *o = (GmPyTensor *) self;
  GmTensor *t = o->t;
  if (PyObject_GC_IsTracked (self))
    PyObject_GC_UnTrack (self);
  if (t)
    t->wrapper = NULL; /* first: callbacks below must not find a dying object */
  o->t = NULL;
  if (o->weakrefs)
    PyObject_ClearWeakRefs (self);
  Py_CLEAR (o->dict);
  if (Py_TYPE (self) == &gm_py_tensor_type && n_free < FREE_MAX)
    free_list[n_free++] = o;
  else
    Py_TYPE (self)->tp_free (self);
  gm_tensor_unref (t); /* last: it may free a whole tape, which may come back here */
}

static int
traverse (PyObject *self, visitproc visit, void *arg)
{
  Py_VISIT (((GmPyTensor *) self)->dict);
  return 0;
}

static int
clear (PyObject *self)
{
  Py_CLEAR (((GmPyTensor *) self)->dict);
  return 0;
}

static void
track_if_needed (PyObject *self)
{
  if (((GmPyTensor *) self)->dict && !PyObject_GC_IsTracked (self))
    PyObject_GC_Track (self);
}

static int
set_attribute (PyObject *self, PyObject *name, PyObject *value)
{
  int bad = PyObject_GenericSetAttr (self, name, value);
  track_if_needed (self);
  return bad;
}

static PyObject *
get_dict (PyObject *self, void *closure)
{
  PyObject *dict = PyObject_GenericGetDict (self, closure);
  track_if_needed (self);
  return dict;
}

static PyGetSetDef dict_getset = { "__dict__", get_dict, PyObject_GenericSetDict, NULL, NULL };

/* -- Text, identity, construction -------------------------------------------------------------- */

static PyObject *
repr (PyObject *self)
{
  GmTensor *t = gm_py_tensor_get (self);
  const char *grad_fn = gm_tensor_grad_fn_name (t);
  g_autofree char *suffix = grad_fn ? g_strdup_printf (", grad_fn=<%s>", grad_fn)
                            : gm_tensor_requires_grad (t) ? g_strdup (", requires_grad=True")
                                                          : NULL;
  g_autofree char *text = gm_tensor_text (t, suffix);
  return PyUnicode_FromString (text);
}

static Py_hash_t
hash (PyObject *self)
{
  return (Py_hash_t) ((uintptr_t) self >> 4); /* identity: == is elementwise */
}

/* Implements Tensor (n, ...): returns a tensor of these sizes, all of them ints. */
static PyObject *
new_of_sizes (PyTypeObject *type, PyObject *args)
{
  Py_ssize_t n = PyTuple_GET_SIZE (args);
  int64_t sizes[GM_MAX_DIMS] = { 0 };
  if (n > GM_MAX_DIMS)
    return PyErr_Format (PyExc_RuntimeError, "a tensor has at most %d dimensions, not %zd",
                         GM_MAX_DIMS, n);
  for (Py_ssize_t i = 0; i < n; i++) {
    sizes[i] = PyLong_AsLongLong (PyTuple_GET_ITEM (args, i));
    if (sizes[i] < 0)
      return PyErr_Occurred ()
                 ? NULL
                 : PyErr_Format (PyExc_RuntimeError, "a tensor has no negative size: %lld",
                                 (long long) sizes[i]);
  }
  GmAttrs attrs = { .mask = 1u << GM_ATTR_SIZES | 1u << GM_ATTR_DTYPE | 1u << GM_ATTR_VALUE,
                    .n_list = (uint8_t) (n ? n : 1),
                    .dtype = (uint8_t) gm_default_dtype (),
                    .value = gm_scalar_float (0) };
  memcpy (attrs.list, sizes, sizeof sizes);
  GError *error = NULL;
  GmTensor *t = gm_op_run (GM_OP_full, NULL, 0, &attrs, &error);
  return t ? gm_py_tensor_take_as (type, t) : gm_py_raise (error);
}

/* Implements Tensor (data), Tensor (sizes ...) and Tensor (): makes a tensor of the default
 * dtype, like torch's legacy constructor; gramme.tensor (data) infers the dtype. */
static PyObject *
tensor_new (PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *data;
  if (type != &gm_py_tensor_type && PyTuple_GET_SIZE (args) == 1
      && gm_py_tensor_check (PyTuple_GET_ITEM (args, 0)))
    return gm_py_tensor_take_as (
        type, gm_tensor_new_alias (gm_py_tensor_get (PyTuple_GET_ITEM (args, 0))));
  bool ints = !kwargs || PyDict_GET_SIZE (kwargs) == 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (args) && ints; i++)
    ints = PyLong_CheckExact (PyTuple_GET_ITEM (args, i));
  if (ints)
    return new_of_sizes (type, args);
  if (PyTuple_GET_SIZE (args) == 1 && Py_TYPE (PyTuple_GET_ITEM (args, 0)) == &gm_py_size_type)
    return new_of_sizes (type, PyTuple_GET_ITEM (args, 0));
  if ((kwargs && PyDict_GET_SIZE (kwargs)) || !PyArg_ParseTuple (args, "O:Tensor", &data)) {
    PyErr_SetString (PyExc_TypeError, "Tensor(data) takes one argument, or sizes; gramme.tensor(), "
                                      "gramme.zeros() and others take more");
    return NULL;
  }
  GmDtype dtype = gm_default_dtype ();
  return gm_py_tensor_take_as (type, gm_py_construct (data, &dtype));
}

PyTypeObject gm_py_tensor_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme.Tensor",
  .tp_doc = "A strided array of numbers of one dtype.\n\nMade by gramme.tensor(data), "
            "gramme.zeros(sizes), "
            "gramme.from_numpy(array) and others.",
  .tp_basicsize = sizeof (GmPyTensor),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
  .tp_new = tensor_new,
  .tp_free = PyObject_GC_Del,
  .tp_dealloc = dealloc,
  .tp_traverse = traverse,
  .tp_clear = clear,
  .tp_setattro = set_attribute,
  .tp_dictoffset = offsetof (GmPyTensor, dict),
  .tp_weaklistoffset = offsetof (GmPyTensor, weakrefs),
  .tp_repr = repr,
  .tp_hash = hash,
  .tp_richcompare = gm_py_tensor_compare,
  .tp_iter = gm_py_tensor_iter,
  .tp_as_number = &gm_py_tensor_number,
  .tp_as_mapping = &gm_py_tensor_mapping,
  .tp_as_sequence = &gm_py_tensor_sequence,
  .tp_as_buffer = &gm_py_tensor_buffer,
  .tp_methods = gm_py_tensor_methods,
  .tp_getset = gm_py_tensor_getset,
};

int
gm_py_init_tensor (PyObject *module)
{
  if (PyType_Ready (&gm_py_tensor_type) < 0)
    return -1;
  PyObject *dict = PyDescr_NewGetSet (&gm_py_tensor_type, &dict_getset);
  PyObject *priority = PyLong_FromLong (1000); /* makes numpy leave `array + tensor` to Tensor */
  int bad = !dict || !priority
            || PyDict_SetItemString (gm_py_tensor_type.tp_dict, "__dict__", dict) < 0
            || PyDict_SetItemString (gm_py_tensor_type.tp_dict, "__array_priority__", priority) < 0;
  Py_XDECREF (dict);
  Py_XDECREF (priority);
  return bad ? -1 : PyModule_AddType (module, &gm_py_tensor_type);
}
