/* SPDX-License-Identifier: Apache-2.0
 * types.c -- gramme.dtype, gramme.device and gramme.Size.
 *
 * A dtype is a singleton, so `is` and `==` agree and a guard can compare pointers.  dtypes.def says
 * which are live: the objects of the others exist, so that programs can name them, and using one
 * raises an error that says that it is reserved.
 */
#include "core/objects/types.h"

#include "core/objects/device_py.h"
#include "core/tensor/device.h"
#include "core/base/thread.h"

#include <string.h>

/* -- dtype ------------------------------------------------------------------------------------- */

static GmPyDtype dtypes[GM_N_DTYPES];

/* Dtypes of torch that no tensor here has; they exist so that programs can name and compare
 * them. Their objects have numbers from GM_N_DTYPES on. */
#define NO_COMPLEX "there are no complex tensors: keep real and imaginary part as two tensors"
#define NO_UNSIGNED "the one unsigned dtype is uint8: use a signed one with more bits"
#define NO_QUANTIZED "there are no quantized tensors: keep integers and their scale as two tensors"
#define NO_FLOAT8 "the floating dtypes of 8 bits are float8_e4m3fn and float8_e5m2"
static const struct {
  const char *name, *instead;
  int bytes;
  bool is_float, is_complex, is_signed;
} alone[] = {
  { "complex32", NO_COMPLEX, 4, false, true, true },
  { "complex64", NO_COMPLEX, 8, false, true, true },
  { "complex128", NO_COMPLEX, 16, false, true, true },
  { "uint16", NO_UNSIGNED, 2, false, false, false },
  { "uint32", NO_UNSIGNED, 4, false, false, false },
  { "uint64", NO_UNSIGNED, 8, false, false, false },
  { "qint8", NO_QUANTIZED, 1, false, false, true },
  { "quint8", NO_QUANTIZED, 1, false, false, false },
  { "qint32", NO_QUANTIZED, 4, false, false, true },
  { "float8_e4m3fnuz", NO_FLOAT8, 1, true, false, true },
  { "float8_e5m2fnuz", NO_FLOAT8, 1, true, false, true },
  { "float8_e8m0fnu", NO_FLOAT8, 1, true, false, false },
};
static GmPyDtype names_alone[G_N_ELEMENTS (alone)];

/* Returns the row of `alone` (dtypes that no tensor has) for a dtype object; NULL for a dtype
 * that tensors have. */
static inline __typeof__ (&alone[0])
alone_of (PyObject *o)
{
  GmDtype d = ((GmPyDtype *) o)->dtype;
  return d < GM_N_DTYPES ? NULL : &alone[d - GM_N_DTYPES];
}

PyObject *
gm_py_dtype (GmDtype d)
{
  return Py_NewRef ((PyObject *) &dtypes[d]);
}

bool
gm_py_dtype_get (PyObject *o, GmDtype *out)
{
  if (Py_TYPE (o) == &gm_py_dtype_type) {
    GmDtype d = ((GmPyDtype *) o)->dtype;
    if (alone_of (o)) {
      PyErr_Format (PyExc_NotImplementedError, "gramme.%s is a name alone: %s", alone_of (o)->name,
                    alone_of (o)->instead);
      return false;
    }
    if (!gm_dtypes[d].live) {
      PyErr_Format (
          PyExc_NotImplementedError,
          "gramme.%s is reserved: tensors of it cannot be made yet; use float32 or float64",
          gm_dtypes[d].torch_name);
      return false;
    }
    *out = d;
    return true;
  }
  if (o == (PyObject *) &PyFloat_Type)
    *out = GM_F64;
  else if (o == (PyObject *) &PyLong_Type)
    *out = GM_I64;
  else if (o == (PyObject *) &PyBool_Type)
    *out = GM_BOOL;
  else {
    PyErr_Format (PyExc_TypeError, "dtype must be a gramme.dtype such as gramme.float32, not %s",
                  Py_TYPE (o)->tp_name);
    return false;
  }
  return true;
}

static const char *
name_of_dtype (PyObject *self)
{
  return alone_of (self) ? alone_of (self)->name
                         : gm_dtypes[((GmPyDtype *) self)->dtype].torch_name;
}

static PyObject *
dtype_repr (PyObject *self)
{
  return PyUnicode_FromFormat ("gramme.%s", name_of_dtype (self));
}

static PyObject *
dtype_name (PyObject *self, void *closure)
{
  return PyUnicode_FromString (name_of_dtype (self));
}

static PyObject *
dtype_is_complex (PyObject *self, void *closure)
{
  return PyBool_FromLong (alone_of (self) && alone_of (self)->is_complex);
}

static PyObject *
dtype_is_floating_point (PyObject *self, void *closure)
{
  if (alone_of (self))
    return PyBool_FromLong (alone_of (self)->is_float);
  return PyBool_FromLong (gm_dtype_is_float (((GmPyDtype *) self)->dtype));
}

static PyObject *
dtype_is_signed (PyObject *self, void *closure)
{
  GmDtype d = ((GmPyDtype *) self)->dtype;
  return PyBool_FromLong (alone_of (self) ? alone_of (self)->is_signed
                                          : d != GM_BOOL && d != GM_U8);
}

static PyObject *
dtype_itemsize (PyObject *self, void *closure)
{
  return PyLong_FromLong (alone_of (self) ? alone_of (self)->bytes
                                          : (int) gm_dtype_size (((GmPyDtype *) self)->dtype));
}

static PyObject *
dtype_reduce (PyObject *self, PyObject *unused)
{
  /* A string means "the global of this name in the type's module": copy and pickle keep the
   * singleton. */
  return dtype_name (self, NULL);
}

static PyGetSetDef dtype_getset[] = {
  { "name", dtype_name, NULL, "The name after \"gramme.\".", NULL },
  { "is_floating_point", dtype_is_floating_point, NULL, "Whether it is a floating dtype.", NULL },
  { "is_complex", dtype_is_complex, NULL, "True for names of complex dtypes, which no tensor has.",
    NULL },
  { "is_signed", dtype_is_signed, NULL, "Whether it has negative values.", NULL },
  { "itemsize", dtype_itemsize, NULL, "Bytes of one element.", NULL },
  { 0 },
};

static PyMethodDef dtype_methods[] = {
  { "__reduce__", dtype_reduce, METH_NOARGS, NULL },
  { 0 },
};

PyTypeObject gm_py_dtype_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme.dtype",
  .tp_doc =
      "The type of a tensor's elements.  Each is a singleton: gramme.float32, gramme.int64 ...",
  .tp_basicsize = sizeof (GmPyDtype),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_repr = dtype_repr,
  .tp_getset = dtype_getset,
  .tp_methods = dtype_methods,
};

/* Second names that torch has for dtypes. */
static const struct {
  const char *alias;
  GmDtype dtype;
} aliases[] = {
  { "float", GM_F32 }, { "double", GM_F64 }, { "half", GM_F16 },
  { "long", GM_I64 },  { "int", GM_I32 },    { "short", GM_I16 },
};

static int
add_dtypes (PyObject *module)
{
  PyObject *names = PyDict_New ();
  if (!names)
    return -1;
  int bad = 0;
  for (int d = 0; d < GM_N_DTYPES && !bad; d++) {
    PyObject_Init ((PyObject *) &dtypes[d], &gm_py_dtype_type);
    dtypes[d].dtype = (GmDtype) d;
    bad = PyDict_SetItemString (names, gm_dtypes[d].torch_name, (PyObject *) &dtypes[d]);
  }
  for (size_t i = 0; i < G_N_ELEMENTS (aliases) && !bad; i++)
    bad = PyDict_SetItemString (names, aliases[i].alias, (PyObject *) &dtypes[aliases[i].dtype]);
  PyObject *others = bad ? NULL : PyDict_New ();
  bad = !others;
  for (size_t i = 0; i < G_N_ELEMENTS (alone) && !bad; i++) {
    PyObject_Init ((PyObject *) &names_alone[i], &gm_py_dtype_type);
    names_alone[i].dtype = (GmDtype) (GM_N_DTYPES + i);
    bad = PyDict_SetItemString (others, alone[i].name, (PyObject *) &names_alone[i]);
  }
  if (!bad)
    bad = PyModule_AddObjectRef (module, "dtypes", names)
          | PyModule_AddObjectRef (module, "dtype_names", others);
  Py_XDECREF (others);
  Py_DECREF (names);
  return bad;
}

/* -- device ------------------------------------------------------------------------------------ */

/* The object of a device, a singleton for each device. */
typedef struct {
  PyObject_HEAD int device;
} Device;

static PyObject *cpu, *cuda;

PyObject *
gm_py_device (int device)
{
  return Py_NewRef (device == GM_DEVICE_CPU ? cpu : cuda);
}

static const char *
name_of (PyObject *self)
{
  return gm_device_name (((Device *) self)->device);
}

bool
gm_py_device_get (PyObject *o, int *device)
{
  if (Py_TYPE (o) == &gm_py_device_type) {
    *device = ((Device *) o)->device;
    return true;
  }
  if (PyLong_CheckExact (o)) { /* a GPU's number */
    long number = PyLong_AsLong (o);
    if (PyErr_Occurred ())
      return false;
    *device = GM_DEVICE_CUDA;
    if (number != 0)
      PyErr_Format (PyExc_RuntimeError, "there is no device 'cuda:%ld': one GPU is used, 'cuda:0'",
                    number);
    return number == 0;
  }
  if (!PyUnicode_Check (o)) {
    PyErr_Format (PyExc_TypeError, "device must be a gramme.device or a name such as 'cpu', not %s",
                  Py_TYPE (o)->tp_name);
    return false;
  }
  const char *name = PyUnicode_AsUTF8 (o);
  if (!name)
    return false;
  if (!gm_device_find (name, device)) {
    PyErr_Format (PyExc_RuntimeError, "there is no device '%U': %s", o, gm_device_instead (name));
    return false;
  }
  return true;
}

bool
gm_py_device_arg (PyObject *o, int *device)
{
  *device = 0;
  return !o || o == Py_None || gm_py_device_get (o, device);
}

static PyObject *
device_new (PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  static char *keywords[] = { "type", "index", NULL };
  PyObject *name, *index = Py_None;
  int device;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "O|O:device", keywords, &name, &index)
      || !gm_py_device_get (name, &device))
    return NULL;
  if (index != Py_None && !(PyLong_Check (index) && PyLong_AsLong (index) == 0)) {
    PyErr_Format (PyExc_RuntimeError,
                  "there is no device '%s:%S': one of each kind is used, number 0",
                  gm_device_name (device), index);
    return NULL;
  }
  return gm_py_device (device);
}

/* -- The default device: `with device:`, and gramme.set_default_device ------------------------- */

static GM_THREAD GArray *entered; /* the previous defaults of the blocks that are open */

static PyObject *
device_enter (PyObject *self, PyObject *unused)
{
  int before = gm_default_device ();
  if (!entered)
    entered = g_array_new (FALSE, FALSE, sizeof before);
  g_array_append_val (entered, before);
  gm_default_device_set (((Device *) self)->device);
  return Py_NewRef (self);
}

static PyObject *
device_exit (PyObject *self, PyObject *args)
{
  if (!entered || entered->len == 0) {
    PyErr_SetString (PyExc_RuntimeError,
                     "this thread has entered no block of a device that it could leave");
    return NULL;
  }
  gm_default_device_set (g_array_index (entered, int, entered->len - 1));
  g_array_set_size (entered, entered->len - 1);
  Py_RETURN_NONE;
}

static PyObject *
set_default_device (PyObject *module, PyObject *o)
{
  int device = GM_DEVICE_CPU;
  if (o != Py_None && !gm_py_device_get (o, &device))
    return NULL;
  gm_default_device_set (device);
  Py_RETURN_NONE;
}

static PyObject *
get_default_device (PyObject *module, PyObject *unused)
{
  return gm_py_device (gm_default_device ());
}

static PyMethodDef default_functions[] = {
  { "get_default_device", get_default_device, METH_NOARGS,
    "get_default_device()\n\nWhere new tensors lie if nothing is said." },
  { "set_default_device", set_default_device, METH_O,
    "set_default_device(device)\n\nSays where new tensors of this thread lie; None: on the CPU." },
  { 0 },
};

/* -- The type ---------------------------------------------------------------------------------- */

static PyObject *
device_repr (PyObject *self)
{
  return PyUnicode_FromFormat ("device(type='%s')", name_of (self));
}

static PyObject *
device_str (PyObject *self)
{
  return PyUnicode_FromString (name_of (self));
}

static PyObject *
device_get_type (PyObject *self, void *closure)
{
  return device_str (self);
}

static PyObject *
device_index (PyObject *self, void *closure)
{
  if (((Device *) self)->device != GM_DEVICE_CPU)
    return PyLong_FromLong (0);
  Py_RETURN_NONE;
}

static PyObject *
device_reduce (PyObject *self, PyObject *unused)
{
  return Py_BuildValue ("O(s)", (PyObject *) &gm_py_device_type, name_of (self));
}

static PyGetSetDef device_getset[] = {
  { "type", device_get_type, NULL, "The kind of device: \"cpu\" or \"cuda\".", NULL },
  { "index", device_index, NULL, "Which of several; None for the CPU.", NULL },
  { 0 },
};

static PyMethodDef device_methods[] = {
  { "__reduce__", device_reduce, METH_NOARGS, NULL },
  { "__enter__", device_enter, METH_NOARGS,
    "New tensors of this thread lie there, until the block is left." },
  { "__exit__", device_exit, METH_VARARGS, NULL },
  { 0 },
};

PyTypeObject gm_py_device_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme.device",
  .tp_doc = "device(type)\n\nWhere a tensor's memory is: \"cpu\" or \"cuda\".",
  .tp_basicsize = sizeof (Device),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_new = device_new,
  .tp_repr = device_repr,
  .tp_str = device_str,
  .tp_getset = device_getset,
  .tp_methods = device_methods,
};

/* -- Size -------------------------------------------------------------------------------------- */

PyObject *
gm_py_size (int ndim, const int64_t *sizes)
{
  PyObject *o = gm_py_size_type.tp_alloc (&gm_py_size_type, ndim);
  if (!o)
    return NULL;
  for (int i = 0; i < ndim; i++) {
    PyObject *n = PyLong_FromLongLong (sizes[i]);
    if (!n) {
      Py_DECREF (o);
      return NULL;
    }
    PyTuple_SET_ITEM (o, i, n);
  }
  return o;
}

static PyObject *
size_repr (PyObject *self)
{
  PyObject *list = PySequence_List (self);
  PyObject *text = list ? PyUnicode_FromFormat ("gramme.Size(%R)", list) : NULL;
  Py_XDECREF (list);
  return text;
}

static PyObject *
size_numel (PyObject *self, PyObject *unused)
{
  int64_t n = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (self); i++) {
    int64_t size = PyLong_AsLongLong (PyTuple_GET_ITEM (self, i));
    if (size == -1 && PyErr_Occurred ())
      return NULL;
    if (__builtin_mul_overflow (n, size, &n)) {
      PyErr_SetString (PyExc_OverflowError, "the number of elements does not fit 64 bits");
      return NULL;
    }
  }
  return PyLong_FromLongLong (n);
}

/* Returns the result of a function of tuple as a Size; steals `tuple`.  NULL with an exception:
 * TypeError unless all items are ints. */
static PyObject *
as_size (PyObject *tuple)
{
  if (!tuple || !PyTuple_CheckExact (tuple))
    return tuple;
  Py_ssize_t n = PyTuple_GET_SIZE (tuple);
  PyObject *o = gm_py_size_type.tp_alloc (&gm_py_size_type, n);
  for (Py_ssize_t i = 0; o && i < n; i++) {
    PyObject *item = PyTuple_GET_ITEM (tuple, i);
    if (!PyLong_Check (item)) {
      PyErr_Format (PyExc_TypeError, "a gramme.Size has ints, and item %zd is a %.100s", i,
                    Py_TYPE (item)->tp_name);
      Py_CLEAR (o);
    } else {
      PyTuple_SET_ITEM (o, i, Py_NewRef (item));
    }
  }
  Py_DECREF (tuple);
  return o;
}

static PyObject *
size_subscript (PyObject *self, PyObject *key)
{
  return as_size (PyTuple_Type.tp_as_mapping->mp_subscript (self, key));
}

/* Concatenates a Size with a Size or tuple, also in the opposite order; returns a Size. */
static PyObject *
size_add (PyObject *a, PyObject *b)
{
  if (!PyTuple_Check (a) || !PyTuple_Check (b))
    return Py_NewRef (Py_NotImplemented);
  return as_size (PyTuple_Type.tp_as_sequence->sq_concat (a, b));
}

static PyObject *
size_concat (PyObject *self, PyObject *other)
{
  return as_size (PyTuple_Type.tp_as_sequence->sq_concat (self, other));
}

static PyObject *
size_repeat (PyObject *self, Py_ssize_t n)
{
  return as_size (PyTuple_Type.tp_as_sequence->sq_repeat (self, n));
}

static PyNumberMethods size_number = { .nb_add = size_add };
static PySequenceMethods size_sequence = { .sq_concat = size_concat, .sq_repeat = size_repeat };
static PyMappingMethods size_mapping = { .mp_subscript = size_subscript };

static PyMethodDef size_methods[] = {
  { "numel", size_numel, METH_NOARGS, "numel()\n\nThe product of the sizes." },
  { 0 },
};

PyTypeObject gm_py_size_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme.Size",
  .tp_doc = "A tensor's shape: a tuple of ints.  Slices, sums and multiples of one are Sizes, too.",
  .tp_as_number = &size_number,
  .tp_as_sequence = &size_sequence,
  .tp_as_mapping = &size_mapping,
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
  .tp_base = &PyTuple_Type,
  .tp_repr = size_repr,
  .tp_methods = size_methods,
};

int
gm_py_init_types (PyObject *module)
{
  PyTypeObject *const types[] = { &gm_py_dtype_type, &gm_py_device_type, &gm_py_size_type };
  for (size_t i = 0; i < G_N_ELEMENTS (types); i++)
    if (PyType_Ready (types[i]) < 0 || PyModule_AddType (module, types[i]) < 0)
      return -1;
  cpu = gm_py_device_type.tp_alloc (&gm_py_device_type, 0);
  cuda = gm_py_device_type.tp_alloc (&gm_py_device_type, 0);
  if (!cpu || !cuda)
    return -1;
  ((Device *) cpu)->device = GM_DEVICE_CPU;
  ((Device *) cuda)->device = GM_DEVICE_CUDA;
  return PyModule_AddFunctions (module, default_functions) < 0 ? -1 : add_dtypes (module);
}
