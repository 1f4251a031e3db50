/* SPDX-License-Identifier: Apache-2.0
 * tensor_methods.c -- Tensor's attributes and the methods that are no row of the API table.
 *
 * Methods that compute are rows of that table (api_object.c adds them); the methods here return
 * properties of a tensor, convert it to a Python object, or are about its place in autograd.
 */
#include "core/tensor/storage.h"
#include "core/objects/args.h"
#include "core/objects/device_py.h"
#include "core/objects/autograd_py.h"
#include "core/objects/construct.h"
#include "core/objects/dlpack.h"
#include "core/objects/numpy.h"
#include "core/objects/tensor_number.h"
#include "core/objects/types.h"
#include "core/objects/overrides.h"

#include "core/objects/import.h"

#define T(self) gm_py_tensor_get (self)

/* -- Shape and memory -------------------------------------------------------------------------- */

/* Returns the number of a dimension that o counts from either end; -1 with IndexError. */
static int
wrap_dim (const GmTensor *t, PyObject *o)
{
  Py_ssize_t dim = PyNumber_AsSsize_t (o, PyExc_IndexError), ndim = t->meta.ndim;
  if (dim == -1 && PyErr_Occurred ())
    return -1;
  if (dim >= -ndim && dim < ndim)
    return (int) (dim < 0 ? dim + ndim : dim);
  PyErr_Format (PyExc_IndexError, "dimension %zd is out of range for a tensor of %zd dimensions",
                dim, ndim);
  return -1;
}

/* Implements size () and, if `strides` is true, stride (): without arguments all of them, with
 * dim one of them. */
static PyObject *
per_dim (PyObject *self, PyObject *args, PyObject *kwargs, bool strides)
{
  static char *keywords[] = { "dim", NULL };
  PyObject *dim = Py_None;
  const GmTensor *t = T (self);
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "|O", keywords, &dim))
    return NULL;
  if (dim != Py_None) {
    int i = wrap_dim (t, dim);
    return i < 0 ? NULL : PyLong_FromLongLong (strides ? t->meta.strides[i] : t->meta.sizes[i]);
  }
  if (!strides)
    return gm_py_size (t->meta.ndim, t->meta.sizes);
  PyObject *tuple = PyTuple_New (t->meta.ndim);
  for (int i = 0; tuple && i < t->meta.ndim; i++) {
    PyObject *n = PyLong_FromLongLong (t->meta.strides[i]);
    if (n)
      PyTuple_SET_ITEM (tuple, i, n);
    else
      Py_CLEAR (tuple);
  }
  return tuple;
}

static PyObject *
size (PyObject *s, PyObject *a, PyObject *k)
{
  return per_dim (s, a, k, false);
}
static PyObject *
stride (PyObject *s, PyObject *a, PyObject *k)
{
  return per_dim (s, a, k, true);
}
static PyObject *
dim (PyObject *s, PyObject *u)
{
  return PyLong_FromLong (T (s)->meta.ndim);
}
static PyObject *
numel (PyObject *s, PyObject *u)
{
  return PyLong_FromLongLong (gm_meta_numel (&T (s)->meta));
}
static PyObject *
element_size (PyObject *s, PyObject *u)
{
  return PyLong_FromLong (gm_dtype_size (T (s)->meta.dtype));
}
static PyObject *
storage_offset (PyObject *s, PyObject *u)
{
  return PyLong_FromLongLong (T (s)->offset);
}
static PyObject *
is_contiguous (PyObject *s, PyObject *args, PyObject *kwargs)
{
  static char *keywords[] = { "memory_format", NULL };
  const char *format = NULL;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "|$z:is_contiguous", keywords, &format))
    return NULL;
  static const char *const known[] = { "contiguous_format", "preserve_format", "channels_last",
                                       "channels_last_3d", NULL };
  if (format && !g_strv_contains (known, format))
    return PyErr_Format (PyExc_RuntimeError,
                         "is_contiguous(): memory_format is contiguous_format, preserve_format, "
                         "channels_last or channels_last_3d, not %s",
                         format);
  return PyBool_FromLong (gm_meta_is_in_format (&T (s)->meta, format));
}
static PyObject *
is_floating_point (PyObject *s, PyObject *u)
{
  return PyBool_FromLong (gm_dtype_is_float (T (s)->meta.dtype));
}
static PyObject *
to_cuda (PyObject *s, PyObject *args)
{
  PyObject *device = NULL;
  int number = GM_DEVICE_CUDA;
  if (!PyArg_ParseTuple (args, "|O:cuda", &device)
      || (device && device != Py_None && !gm_py_device_get (device, &number)))
    return NULL;
  return gm_py_tensor_move (s, number);
}
static PyObject *
data_ptr (PyObject *s, PyObject *u)
{
  return PyLong_FromVoidPtr (T (s)->storage->data ? gm_tensor_data (T (s)) : NULL);
}

static PyObject *
get_shape (PyObject *s, void *c)
{
  return gm_py_size (T (s)->meta.ndim, T (s)->meta.sizes);
}
static PyObject *
get_dtype (PyObject *s, void *c)
{
  return gm_py_dtype ((GmDtype) T (s)->meta.dtype);
}
static PyObject *
get_device (PyObject *s, void *c)
{
  return gm_py_device (T (s)->meta.device);
}
static PyObject *
get_is_cuda (PyObject *s, void *c)
{
  return PyBool_FromLong (T (s)->meta.device == GM_DEVICE_CUDA);
}
static PyObject *
get_is_cpu (PyObject *s, void *c)
{
  return PyBool_FromLong (T (s)->meta.device == GM_DEVICE_CPU);
}
static PyObject *
get_false (PyObject *s, void *c)
{
  Py_RETURN_FALSE;
}
static PyObject *
get_layout (PyObject *s, void *c)
{
  return PyUnicode_InternFromString ("strided"); /* gramme.strided */
}
static PyObject *
get_imag (PyObject *s, void *c)
{
  PyErr_SetString (
      gm_py_dimension_error,
      "imag is not implemented for tensors with non-complex dtypes, and there are no others");
  return NULL;
}
static PyObject *
get_self (PyObject *s, void *c)
{
  return Py_NewRef (s);
}
static PyObject *
get_ndim (PyObject *s, void *c)
{
  return dim (s, NULL);
}
static PyObject *
get_itemsize (PyObject *s, void *c)
{
  return element_size (s, NULL);
}
static PyObject *
get_nbytes (PyObject *s, void *c)
{
  return PyLong_FromLongLong (gm_meta_numel (&T (s)->meta) * gm_dtype_size (T (s)->meta.dtype));
}
static PyObject *
get_version (PyObject *s, void *c)
{
  return PyLong_FromUnsignedLong (gm_tensor_version (T (s)));
}
static PyObject *
get_base (PyObject *s, void *c)
{
  return T (s)->base ? gm_py_tensor_wrap (T (s)->base) : Py_NewRef (Py_None);
}

/* -- Views with reversed dimensions ------------------------------------------------------------ */

static PyObject *
transposed (PyObject *self, int first)
{
  GmTensor *t = T (self);
  int n = t->meta.ndim;
  GmAttrs attrs = { .mask = 1u << GM_ATTR_DIMS, .n_list = (uint8_t) n };
  for (int i = 0; i < n; i++)
    attrs.list[i] = i < first ? i : n - 1 - (i - first);
  GError *error = NULL;
  GmTensor *result = gm_autograd_op (GM_OP_permute, &t, 1, &attrs, &error);
  return result ? gm_py_tensor_take (result) : gm_py_raise (error);
}

static PyObject *
get_T (PyObject *self, void *closure)
{
  return transposed (self, 0);
}

static PyObject *
get_mT (PyObject *self, void *closure)
{
  if (T (self)->meta.ndim >= 2)
    return transposed (self, T (self)->meta.ndim - 2);
  PyErr_Format (gm_py_dimension_error, "mT needs a tensor of at least 2 dimensions, not %d",
                T (self)->meta.ndim);
  return NULL;
}

/* -- To Python --------------------------------------------------------------------------------- */

static PyObject *
item (PyObject *self, PyObject *unused)
{
  GmScalar s;
  return gm_py_tensor_scalar (self, PyExc_RuntimeError, "item()", &s) ? gm_py_from_scalar (s)
                                                                      : NULL;
}

static PyObject *
list_from (const GmTensor *t, int depth, int64_t *index)
{
  if (depth == t->meta.ndim)
    return gm_py_from_scalar (gm_tensor_get (t, index));
  PyObject *list = PyList_New ((Py_ssize_t) t->meta.sizes[depth]);
  for (index[depth] = 0; list && index[depth] < t->meta.sizes[depth]; index[depth]++) {
    PyObject *o = list_from (t, depth + 1, index);
    if (o)
      PyList_SET_ITEM (list, (Py_ssize_t) index[depth], o);
    else
      Py_CLEAR (list);
  }
  return list;
}

static PyObject *
tolist (PyObject *self, PyObject *unused)
{
  return list_from (T (self), 0, (int64_t[GM_MAX_DIMS]){ 0 });
}

static PyObject *
format (PyObject *self, PyObject *spec)
{
  if (T (self)->meta.ndim || !PyUnicode_Check (spec) || PyUnicode_GET_LENGTH (spec) == 0)
    return PyObject_CallMethod ((PyObject *) &PyBaseObject_Type, "__format__", "OO", self, spec);
  PyObject *number = item (self, NULL);
  PyObject *text = number ? PyObject_Format (number, spec) : NULL;
  Py_XDECREF (number);
  return text;
}

/* -- Conversions ------------------------------------------------------------------------------- */

static PyObject *
cast (PyObject *self, GmDtype dtype)
{
  GmTensor *t = T (self);
  if (t->meta.dtype == dtype)
    return Py_NewRef (self);
  GmAttrs attrs = { .mask = 1u << GM_ATTR_DTYPE, .dtype = (uint8_t) dtype };
  GError *error = NULL;
  GmTensor *result = gm_autograd_op (GM_OP_cast, &t, 1, &attrs, &error);
  return result ? gm_py_tensor_take (result) : gm_py_raise (error);
}

static PyObject *
type (PyObject *self, PyObject *args)
{
  PyObject *wanted = Py_None;
  GmDtype dtype;
  if (!PyArg_ParseTuple (args, "|O:type", &wanted))
    return NULL;
  if (PyUnicode_Check (wanted)) {
    const char *name = PyUnicode_AsUTF8 (wanted);
    if (!name || (dtype = gm_dtype_of_tensor_name (name)) != GM_N_DTYPES)
      return name ? cast (self, dtype) : NULL;
    return PyErr_Format (PyExc_ValueError, "type(): there are no tensors of type '%s'", name);
  }
  if (PyType_Check (wanted)
      && PyObject_HasAttrString (wanted, "dtype")) { /* gramme.FloatTensor ... */
    PyObject *own = PyObject_GetAttrString (wanted, "dtype");
    PyObject *result = own && gm_py_dtype_get (own, &dtype) ? cast (self, dtype) : NULL;
    Py_XDECREF (own);
    return result;
  }
  if (wanted != Py_None)
    return gm_py_dtype_get (wanted, &dtype) ? cast (self, dtype) : NULL;
  return PyUnicode_FromFormat ("gramme.%s", gm_dtype_tensor_name (T (self)->meta.dtype));
}

/* Implements __deepcopy__: returns a copy of a leaf with all attributes that the user has set on
 * it. */
static PyObject *
deepcopy (PyObject *self, PyObject *memo)
{
  GmTensor *t = T (self);
  if (!gm_tensor_is_leaf (t)) {
    PyErr_SetString (PyExc_RuntimeError,
                     "only tensors without history can be deep-copied: use detach() first");
    return NULL;
  }
  GError *error = NULL;
  GmTensor *copy = gm_op_run (GM_OP_copy, &t, 1, NULL, &error);
  if (!copy || (gm_tensor_requires_grad (t) && !gm_tensor_set_requires_grad (copy, true, &error))) {
    gm_tensor_unref (copy);
    return gm_py_raise (error);
  }
  PyObject *o = gm_py_tensor_take_as (Py_TYPE (self), copy);
  PyObject *key = o ? PyLong_FromVoidPtr (self) : NULL;
  bool ok = key && (memo == Py_None || PyObject_SetItem (memo, key, o) == 0);
  Py_XDECREF (key);
  PyObject *dict = ((GmPyTensor *) self)->dict;
  if (ok && dict && PyDict_GET_SIZE (dict)) {
    PyObject *module = gm_import ("copy");
    PyObject *attributes =
        module ? PyObject_CallMethod (module, "deepcopy", "OO", dict, memo) : NULL;
    ok = attributes && PyObject_SetAttrString (o, "__dict__", attributes) == 0;
    Py_XDECREF (attributes);
    Py_XDECREF (module);
  }
  if (!ok)
    Py_CLEAR (o);
  return o;
}

/* Calls the function `by` of gramme.serialization, which implements pickle and copy for tensors
 * in Python. */
static PyObject *
serialized (PyObject *self, const char *by)
{
  PyObject *module = gm_import ("gramme.serialization");
  PyObject *result = module ? PyObject_CallMethod (module, by, "O", self) : NULL;
  Py_XDECREF (module);
  return result;
}

static PyObject *
reduce (PyObject *self, PyObject *protocol)
{
  return serialized (self, "_reduce");
}

static PyObject *
copy (PyObject *self, PyObject *unused)
{
  return serialized (self, "_copy");
}

/* -- Autograd ---------------------------------------------------------------------------------- */

static PyObject *
retain_grad (PyObject *self, PyObject *unused)
{
  if (!gm_tensor_requires_grad (T (self))) {
    PyErr_SetString (PyExc_RuntimeError,
                     "cannot retain the grad of a tensor that does not require grad");
    return NULL;
  }
  gm_tensor_retain_grad (T (self));
  Py_RETURN_NONE;
}

static PyObject *
get_requires_grad (PyObject *self, void *closure)
{
  return PyBool_FromLong (gm_tensor_requires_grad (T (self)));
}

static int
set_requires_grad (PyObject *self, PyObject *value, void *closure)
{
  int on = value ? PyObject_IsTrue (value) : 0;
  GError *error = NULL;
  if (on < 0)
    return -1;
  if (gm_tensor_set_requires_grad (T (self), on, &error))
    return 0;
  gm_py_raise (error);
  return -1;
}

static PyObject *
requires_grad_ (PyObject *self, PyObject *args, PyObject *kwargs)
{
  static char *keywords[] = { "requires_grad", NULL };
  PyObject *on = Py_True;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "|O:requires_grad_", keywords, &on)
      || set_requires_grad (self, on, NULL) < 0)
    return NULL;
  return Py_NewRef (self);
}

static PyObject *
detach_ (PyObject *self, PyObject *u)
{
  GError *error = NULL;
  if (gm_autograd_cut_off (T (self), &error))
    return Py_NewRef (self);
  gm_py_raise (error);
  return NULL;
}

static PyObject *
get_is_leaf (PyObject *self, void *closure)
{
  return PyBool_FromLong (gm_tensor_is_leaf (T (self)));
}

static PyObject *
get_retains_grad (PyObject *self, void *closure)
{
  GmTensor *t = T (self);
  return PyBool_FromLong (!gm_tensor_is_leaf (t) && gm_tensor_grad (t));
}

static PyObject *
get_data (PyObject *self, void *closure)
{
  GmTensor *alias = gm_tensor_new_alias (T (self));
  gm_tensor_count_apart (alias);
  return gm_py_tensor_take (alias);
}

/* Implements the setter of `data`: makes self a tensor over the memory of `value`; its place in
 * autograd is kept. */
static int
set_data (PyObject *self, PyObject *value, void *closure)
{
  GmTensor *t = T (self), *from = value ? gm_py_tensor_get (value) : NULL;
  if (!from) {
    PyErr_SetString (PyExc_TypeError, "data must be a Tensor");
    return -1;
  }
  if (gm_tensor_requires_grad (t) && !gm_dtype_is_float (from->meta.dtype)) {
    PyErr_SetString (
        PyExc_RuntimeError,
        "data set to a tensor that requires gradients must be floating point or complex dtype");
    return -1;
  }
  gm_autograd_set_data (t, from);
  return 0;
}

/* Implements _storage_bytes (): returns the tensor's storage as a tensor of uint8 over the same
 * memory, and a number that identifies the storage. */
static PyObject *
storage_bytes (PyObject *self, PyObject *unused)
{
  GmTensor *all = gm_tensor_new_alias (T (self));
  int64_t n = (int64_t) all->storage->bytes;
  int device = all->meta.device;
  all->meta = gm_meta_make (GM_U8, 1, &n);
  all->meta.device = (uint8_t) device;
  all->offset = 0;
  void *which = all->storage;
  PyObject *bytes = gm_py_tensor_take (all);
  return bytes ? Py_BuildValue ("(NN)", bytes, PyLong_FromVoidPtr (which)) : NULL;
}

/* Implements _storage_grow (bytes): makes the tensor's storage at least that large. */
static PyObject *
storage_grow (PyObject *self, PyObject *bytes)
{
  GError *error = NULL;
  size_t n = PyLong_AsSize_t (bytes);
  if (n == (size_t) -1 && PyErr_Occurred ())
    return NULL;
  if (!gm_storage_grow (T (self), n, &error))
    return gm_py_raise (error);
  Py_RETURN_NONE;
}

/* Implements _make_subclass (cls, data, requires_grad=False): returns another object, of type
 * cls, over the memory of `data`. */
static PyObject *
make_subclass (PyObject *unused, PyObject *args)
{
  PyObject *cls, *data;
  int requires_grad = 0;
  if (!PyArg_ParseTuple (args, "O!O!|p:_make_subclass", &PyType_Type, &cls, &gm_py_tensor_type,
                         &data, &requires_grad))
    return NULL;
  if (!PyType_IsSubtype ((PyTypeObject *) cls, &gm_py_tensor_type)) {
    PyErr_Format (PyExc_TypeError, "%R is no subclass of gramme.Tensor", cls);
    return NULL;
  }
  GmTensor *t = gm_tensor_new_alias (T (data));
  GError *error = NULL;
  if (t && !gm_tensor_set_requires_grad (t, requires_grad, &error)) {
    gm_tensor_unref (t);
    return gm_py_raise (error);
  }
  return gm_py_tensor_take_as ((PyTypeObject *) cls, t);
}

/* -- Tables ------------------------------------------------------------------------------------ */

#define KEYWORDS(f) (PyCFunction) (void *) f, METH_VARARGS | METH_KEYWORDS

PyMethodDef gm_py_tensor_methods[] = {
  { "size", KEYWORDS (size), "size(dim=None)\n\nThe shape, or the size of one dimension." },
  { "stride", KEYWORDS (stride),
    "stride(dim=None)\n\nThe strides in elements, or that of one dimension." },
  { "dim", dim, METH_NOARGS, "dim()\n\nThe number of dimensions." },
  { "ndimension", dim, METH_NOARGS, "ndimension()\n\nThe same as dim()." },
  { "numel", numel, METH_NOARGS, "numel()\n\nThe number of elements." },
  { "nelement", numel, METH_NOARGS, "nelement()\n\nThe same as numel()." },
  { "element_size", element_size, METH_NOARGS, "element_size()\n\nBytes of one element." },
  { "storage_offset", storage_offset, METH_NOARGS,
    "storage_offset()\n\nElements from the start of the storage to the first." },
  { "is_contiguous", (PyCFunction) (void *) is_contiguous, METH_VARARGS | METH_KEYWORDS,
    "is_contiguous(*, memory_format=gramme.contiguous_format)\n\nTrue if elements lie in row-major "
    "order without gaps; for channels_last\n"
    "(4 dimensions) and channels_last_3d (5), with the channels, dimension 1, as the last ones.  "
    "Errors: RuntimeError for another format." },
  { "is_floating_point", is_floating_point, METH_NOARGS,
    "is_floating_point()\n\nWhether the dtype is a floating one." },
  { "data_ptr", data_ptr, METH_NOARGS, "data_ptr()\n\nThe address of the first element." },
  { "item", item, METH_NOARGS,
    "item()\n\nThe one element as a Python number.  RuntimeError for more or fewer than one." },
  { "tolist", tolist, METH_NOARGS,
    "tolist()\n\nNested lists of Python numbers; a number for a 0-d tensor." },
  { "__format__", format, METH_O, NULL },
  { "type", type, METH_VARARGS,
    "type(dtype=None)\n\nThe name of the tensor's type, or a cast; dtype may be a name such as "
    "\"FloatTensor\"." },
  { "__deepcopy__", deepcopy, METH_O, NULL },
  { "__copy__", copy, METH_NOARGS, NULL },
  { "__reduce_ex__", reduce, METH_O, NULL },
  { "retain_grad", retain_grad, METH_NOARGS,
    "retain_grad()\n\nKeeps the gradient of a result in its grad, as of a leaf." },
  { "detach_", detach_, METH_NOARGS,
    "detach_()\n\nCuts the tensor itself off from what it was computed from.  Errors: RuntimeError "
    "for a view." },
  { "requires_grad_", KEYWORDS (requires_grad_),
    "requires_grad_(requires_grad=True)\n\nSets requires_grad; returns the tensor." },
  { "register_hook", gm_py_tensor_register_hook, METH_O,
    "register_hook(hook)\n\nhook(grad) is called when the gradient is known and may return "
    "another one.\n"
    "The result's remove() takes the hook off." },
  { "register_post_accumulate_grad_hook", gm_py_tensor_register_post_hook, METH_O,
    "register_post_accumulate_grad_hook(hook)\n\nhook(tensor) is called after a gradient was added "
    "to the grad of this leaf.\n"
    "The result's remove() takes the hook off." },
  { "backward", KEYWORDS (gm_py_tensor_backward),
    "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)\n\n"
    "Adds the gradients of this tensor to the grad of the leaves that it came from.\n"
    "gradient: of this tensor's shape; None for a tensor of one element." },
  { "cuda", to_cuda, METH_VARARGS,
    "cuda(device=None)\n\nThe tensor's elements on device 'cuda'; itself if it is there." },
  { "numpy", KEYWORDS (gm_py_tensor_numpy),
    "numpy(*, force=False)\n\nA numpy array that shares the memory." },
  { "__array__", KEYWORDS (gm_py_tensor_array), NULL },
  { "__dlpack__", KEYWORDS (gm_py_tensor_dlpack), NULL },
  { "__dlpack_device__", gm_py_tensor_dlpack_device, METH_NOARGS, NULL },
  { "_storage_bytes", storage_bytes, METH_NOARGS, NULL },
  { "_storage_grow", storage_grow, METH_O, NULL },
  { "_make_subclass", make_subclass, METH_VARARGS | METH_STATIC, NULL },
  { "__init_subclass__", KEYWORDS (gm_py_tensor_init_subclass) | METH_CLASS, NULL },
  { 0 },
};

PyGetSetDef gm_py_tensor_getset[] = {
  { "shape", get_shape, NULL, "The sizes, as a gramme.Size.", NULL },
  { "dtype", get_dtype, NULL, "The elements' type.", NULL },
  { "device", get_device, NULL, "Where the memory is.", NULL },
  { "is_cuda", get_is_cuda, NULL, "Whether the memory is a GPU's.", NULL },
  { "is_cpu", get_is_cpu, NULL, "Whether the memory is the CPU's.", NULL },
  { "is_sparse", get_false, NULL, "False: all tensors are strided.", NULL },
  { "is_quantized", get_false, NULL, "False: there are no quantized dtypes.", NULL },
  { "is_meta", get_false, NULL, "False: all tensors have memory.", NULL },
  { "is_nested", get_false, NULL, "False: there are no nested tensors.", NULL },
  { "is_sparse_csr", get_false, NULL, "False: all tensors are strided.", NULL },
  { "is_mps", get_false, NULL, "False: there is no such device.", NULL },
  { "is_xpu", get_false, NULL, "False: there is no such device.", NULL },
  { "layout", get_layout, NULL, "gramme.strided: all tensors are.", NULL },
  { "imag", get_imag, NULL, "RuntimeError: there are no complex dtypes.", NULL },
  { "real", get_self, NULL, "The tensor itself: there are no complex dtypes.", NULL },
  { "ndim", get_ndim, NULL, "The number of dimensions.", NULL },
  { "itemsize", get_itemsize, NULL, "Bytes of one element.", NULL },
  { "nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL },
  { "T", get_T, NULL, "A view with the dimensions reversed.", NULL },
  { "mT", get_mT, NULL, "A view with the last two dimensions exchanged.", NULL },
  { "H", get_T, NULL, "The same as T: there are no complex dtypes.", NULL },
  { "mH", get_mT, NULL, "The same as mT: there are no complex dtypes.", NULL },
  { "grad", gm_py_tensor_get_grad, gm_py_tensor_set_grad, "The accumulated gradient, or None.",
    NULL },
  { "requires_grad", get_requires_grad, set_requires_grad,
    "Whether operations on the tensor are recorded.", NULL },
  { "is_leaf", get_is_leaf, NULL, "Whether the tensor has no history.", NULL },
  { "retains_grad", get_retains_grad, NULL, "Whether a result keeps its gradient.", NULL },
  { "grad_fn", gm_py_tensor_grad_fn, NULL, "What made the tensor, or None for leaves.", NULL },
  { "data", get_data, set_data, "The same memory without autograd; setting it replaces the memory.",
    NULL },
  { "_version", get_version, NULL, "Counts in-place changes of the memory.", NULL },
  { "_base", get_base, NULL, "The tensor that this is a view of, or None.", NULL },
  { 0 },
};
