/* SPDX-License-Identifier: Apache-2.0
 * numpy.c -- imports and exports buffers; numpy arrays are their most frequent users.
 *
 * bfloat16 and the 8-bit floats have no format there: such tensors can be read as bytes, but not as
 * elements.
 * A tensor over foreign memory owns a Py_buffer, which keeps the exporter alive and its memory in
 * place until the storage dies.  A buffer over a tensor keeps the tensor's object alive.  So
 * neither side can free memory that the other reads.  numpy itself is imported only when a user
 * requests an array.  In-place writes through numpy do not advance version counters, since they are
 * not reported to us.
 */
#include "core/objects/numpy.h"
#include "core/objects/device_py.h"

#include "core/objects/import.h"

#include <string.h>

/* -- From a buffer ----------------------------------------------------------------------------- */

static bool
format_dtype (const Py_buffer *view, GmDtype *out)
{
  const char *f = view->format ? view->format : "B";
  bool native = *f != '>' && *f != '!';
  if (*f == '@' || *f == '=' || *f == '<' || *f == '>' || *f == '!' || *f == '|')
    f++;
  char c = f[0];
  int bits = (int) view->itemsize * 8;
  int code = c == '?'                           ? 6
             : c && strchr ("bhilqn", c)        ? 0
             : c && strchr ("BHILQN", c)        ? 1
             : c == 'e' || c == 'f' || c == 'd' ? 2
                                                : -1;
  if (code < 0 || f[1] || (!native && bits > 8)
      || !gm_dtype_from_dlpack ((uint8_t) code, (uint8_t) bits, out)) {
    PyErr_Format (
        PyExc_TypeError,
        "elements of format '%s' (%d bytes) have no gramme dtype; convert the array first, e.g. "
        "array.astype('float32')",
        view->format ? view->format : "B", (int) view->itemsize);
    return false;
  }
  if (!gm_dtypes[*out].live) {
    PyErr_Format (
        PyExc_TypeError,
        "gramme.%s is reserved: tensors of it cannot be made yet; convert the array first, e.g. "
        "array.astype('float32')",
        gm_dtypes[*out].torch_name);
    return false;
  }
  return true;
}

static bool
shape_meta (const Py_buffer *view, GmMeta *out)
{
  GmDtype dtype;
  if (!format_dtype (view, &dtype))
    return false;
  if (view->ndim > GM_MAX_DIMS) {
    PyErr_Format (PyExc_ValueError,
                  "an array of %d dimensions does not fit a tensor, which has at most %d",
                  view->ndim, GM_MAX_DIMS);
    return false;
  }
  int64_t sizes[GM_MAX_DIMS] = { 0 };
  for (int i = 0; i < view->ndim; i++)
    sizes[i] = view->shape[i];
  *out = gm_meta_make (dtype, view->ndim, sizes);
  return true;
}

static void
release_buffer (void *owner, void *data, size_t bytes)
{
  Py_buffer *view = owner;
  /* The storage outlives the interpreter, and the exporter is gone with that. */
  if (!Py_IsInitialized ())
    return;
  PyGILState_STATE gil = PyGILState_Ensure ();
  PyBuffer_Release (view);
  g_free (view);
  PyGILState_Release (gil);
}

/* Returns the buffer of o, writable if the exporter allows that; owned by the caller.  NULL with
 * an exception. */
static Py_buffer *
get_buffer (PyObject *o, int flags)
{
  Py_buffer *view = g_new0 (Py_buffer, 1);
  if (PyObject_GetBuffer (o, view, flags | PyBUF_WRITABLE) == 0)
    return view;
  PyErr_Clear ();
  if (PyObject_GetBuffer (o, view, flags) == 0)
    return view;
  g_free (view);
  return NULL;
}

static GmTensor *
take_buffer (Py_buffer *view, const GmMeta *meta, void *data, size_t bytes)
{
  GmTensor *t = gm_tensor_new_foreign (meta, data, bytes, view->readonly, release_buffer, view);
  if (!t) {
    release_buffer (view, data, bytes);
    PyErr_NoMemory ();
  }
  return t;
}

GmTensor *
gm_py_from_buffer (PyObject *o)
{
  Py_buffer *view = get_buffer (o, PyBUF_STRIDES | PyBUF_FORMAT);
  if (!view)
    return NULL;
  GmMeta meta;
  bool ok = shape_meta (view, &meta);
  int64_t last = 0; /* the last element that the strides reach */
  bool empty = false;
  for (int i = 0; ok && i < view->ndim; i++) {
    empty |= meta.sizes[i] == 0;
    if (!view->strides || meta.sizes[i] <= 1)
      continue;
    if (view->strides[i] < 0 || view->strides[i] % view->itemsize) {
      PyErr_Format (
          PyExc_ValueError,
          "stride %zd bytes of dimension %d (elements of %zd bytes) cannot be shared; copy the "
          "array first: gramme.tensor(array)",
          view->strides[i], i, view->itemsize);
      ok = false;
    }
    meta.strides[i] = view->strides[i] / view->itemsize;
    last += meta.strides[i] * (meta.sizes[i] - 1);
  }
  if (ok && (uintptr_t) view->buf % (uintptr_t) view->itemsize) {
    PyErr_SetString (PyExc_ValueError, "memory that is not aligned to its elements cannot be "
                                       "shared; copy it: gramme.tensor(array)");
    ok = false;
  }
  if (!ok) {
    PyBuffer_Release (view);
    g_free (view);
    return NULL;
  }
  return take_buffer (view, &meta, view->buf,
                      empty ? 0 : (size_t) (last + 1) * (size_t) view->itemsize);
}

GmTensor *
gm_py_copy_buffer (PyObject *o)
{
  Py_buffer view;
  if (PyObject_GetBuffer (o, &view, PyBUF_FULL_RO) < 0)
    return NULL;
  GmMeta meta;
  GmTensor *t = NULL;
  GError *error = NULL;
  if (shape_meta (&view, &meta)) {
    t = gm_tensor_new (&meta, &error);
    if (!t)
      gm_py_raise (error);
    else if (view.len && PyBuffer_ToContiguous (gm_tensor_data (t), &view, view.len, 'C') < 0)
      g_clear_pointer (&t, gm_tensor_unref);
  }
  PyBuffer_Release (&view);
  return t;
}

GmTensor *
gm_py_from_bytes (PyObject *o, GmDtype dtype, int64_t count, int64_t offset)
{
  Py_buffer *view = get_buffer (o, PyBUF_SIMPLE);
  if (!view)
    return NULL;
  int64_t size = gm_dtype_size (dtype), room = view->len - offset;
  bool ok = false;
  if (offset < 0 || room < 0)
    PyErr_Format (PyExc_ValueError, "offset %lld is outside the buffer of %zd bytes",
                  (long long) offset, view->len);
  else if (count < -1 || (count > 0 && count > room / size))
    PyErr_Format (PyExc_ValueError,
                  "%lld elements of %lld bytes do not fit the %lld bytes after offset %lld",
                  (long long) count, (long long) size, (long long) room, (long long) offset);
  else if (count == -1 && room % size)
    PyErr_Format (PyExc_ValueError, "%lld bytes are no whole number of elements of %lld bytes",
                  (long long) room, (long long) size);
  else if (count != 0 && room >= size
           && ((uintptr_t) view->buf + (uintptr_t) offset) % (uintptr_t) size)
    PyErr_Format (PyExc_ValueError, "offset %lld is not aligned to elements of %lld bytes",
                  (long long) offset, (long long) size);
  else
    ok = true;
  if (!ok) {
    PyBuffer_Release (view);
    g_free (view);
    return NULL;
  }
  int64_t n = count == -1 ? room / size : count;
  GmMeta meta = gm_meta_make (dtype, 1, &n);
  return take_buffer (view, &meta, (char *) view->buf + offset, (size_t) (n * size));
}

/* -- A buffer over a tensor -------------------------------------------------------------------- */

static const char *
dtype_format (GmDtype d)
{
  switch (d) {
  case GM_BOOL:
    return "?";
  case GM_U8:
    return "B";
  case GM_I8:
    return "b";
  case GM_I16:
    return "h";
  case GM_I32:
    return "i";
  case GM_I64:
    return "q";
  case GM_F16:
    return "e";
  case GM_F32:
    return "f";
  case GM_F64:
    return "d";
  default:
    return NULL;
  }
}

static const char grad_message[] = "this tensor requires grad, and an array would not record "
                                   "operations: use tensor.detach().numpy()";

static int
export_buffer (PyObject *self, Py_buffer *view, int flags)
{
  const GmTensor *t = gm_py_tensor_get (self);
  const GmMeta *m = &t->meta;
  view->obj = NULL;
  const char *format = dtype_format ((GmDtype) m->dtype), *why = NULL;
  if (!gm_py_check_here (t, PyExc_TypeError, "the buffer"))
    return -1;
  if (gm_tensor_requires_grad (t))
    why = grad_message;
  else if (!format && (flags & PyBUF_FORMAT))
    why = "this dtype has no buffer format; only its bytes can be had, without one";
  else if ((flags & PyBUF_WRITABLE) && t->storage->readonly)
    why = "the tensor's memory is read-only";
  else if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !gm_meta_is_contiguous (m))
    why = "the tensor is not contiguous";
  if (why) {
    PyErr_SetString (PyExc_BufferError, why);
    return -1;
  }
  int size = gm_dtype_size (m->dtype);
  Py_ssize_t *dims = PyMem_New (Py_ssize_t, 2 * GM_MAX_DIMS);
  if (!dims) {
    PyErr_NoMemory ();
    return -1;
  }
  for (int i = 0; i < m->ndim; i++) {
    dims[i] = (Py_ssize_t) m->sizes[i];
    dims[GM_MAX_DIMS + i] = (Py_ssize_t) m->strides[i] * size;
  }
  static char nothing;
  view->buf = t->storage->data ? gm_tensor_data (t) : &nothing;
  view->obj = Py_NewRef (self);
  view->len = (Py_ssize_t) gm_meta_numel (m) * size;
  view->itemsize = size;
  view->readonly = t->storage->readonly;
  view->ndim = flags & PyBUF_ND ? m->ndim : 1;
  view->format = flags & PyBUF_FORMAT ? (char *) format : NULL;
  view->shape = flags & PyBUF_ND ? dims : NULL;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? dims + GM_MAX_DIMS : NULL;
  view->suboffsets = NULL;
  view->internal = dims;
  return 0;
}

static void
release_export (PyObject *self, Py_buffer *view)
{
  PyMem_Free (view->internal);
}

PyBufferProcs gm_py_tensor_buffer = { export_buffer, release_export };

/* -- numpy ------------------------------------------------------------------------------------- */

/* Returns numpy.asarray (memoryview (self)[, dtype]), a new reference; NULL with an exception. */
static PyObject *
as_array (PyObject *self, PyObject *dtype)
{
  if (gm_tensor_requires_grad (gm_py_tensor_get (self))) {
    PyErr_SetString (PyExc_RuntimeError, grad_message);
    return NULL;
  }
  GmDtype own = (GmDtype) gm_py_tensor_get (self)->meta.dtype;
  if (!dtype_format (own)) {
    PyErr_Format (PyExc_TypeError,
                  "numpy has no %s; convert the tensor first: tensor.float().numpy()",
                  gm_dtypes[own].torch_name);
    return NULL;
  }
  PyObject *numpy = gm_import ("numpy");
  PyObject *view = numpy ? PyMemoryView_FromObject (self) : NULL;
  PyObject *array =
      view ? PyObject_CallMethod (numpy, "asarray", "OO", view, dtype ? dtype : Py_None) : NULL;
  Py_XDECREF (view);
  Py_XDECREF (numpy);
  return array;
}

PyObject *
gm_py_tensor_numpy (PyObject *self, PyObject *args, PyObject *kwargs)
{
  static char *keywords[] = { "force", NULL };
  int force = 0;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "|$p:numpy", keywords, &force))
    return NULL;
  if (!force)
    return as_array (self, NULL);
  PyObject *detached = gm_py_tensor_take (gm_tensor_detach (gm_py_tensor_get (self)));
  PyObject *array = detached ? as_array (detached, NULL) : NULL;
  Py_XDECREF (detached);
  return array;
}

PyObject *
gm_py_tensor_array (PyObject *self, PyObject *args, PyObject *kwargs)
{
  static char *keywords[] = { "dtype", "copy", NULL };
  PyObject *dtype = NULL, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "|OO:__array__", keywords, &dtype, &copy))
    return NULL;
  PyObject *array = as_array (self, dtype);
  if (array && copy == Py_True)
    Py_SETREF (array, PyObject_CallMethod (array, "copy", NULL));
  return array;
}
