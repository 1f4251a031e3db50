/* SPDX-License-Identifier: Apache-2.0
 * dlpack.c -- import and export through DLPack, unversioned and versioned (1.x).
 *
 * A capsule named "dltensor" owns its managed tensor until a consumer renames it to
 * "used_dltensor"; then the consumer owns it, and must call the deleter once.  A capsule that was
 * not consumed runs the deleter when it dies.  Source: DLPack 1.0, include/dlpack/dlpack.h, and the
 * Python specification of its documentation.  The structures are an ABI: their layout is checked
 * below the declarations.
 *
 * Memory of a GPU goes with an order of work.  A consumer names its stream, which is made to wait
 * for the work that the tensor's own stream has been given; an import names the current stream.  A
 * foreign tensor is released only after its work has finished.
 */
#include "core/objects/dlpack.h"
#include "core/run/gpu.h"
#include "core/objects/device_py.h"
#include "core/tensor/device.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
  int32_t type, id;
} Device;

typedef struct {
  void *data;
  Device device;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides; /* in elements; NULL strides: row-major */
  uint64_t byte_offset;
} DlTensor;

typedef struct Managed {
  DlTensor tensor;
  void *context;
  void (*deleter) (struct Managed *self);
} Managed;

typedef struct ManagedVersioned {
  uint32_t major, minor;
  void *context;
  void (*deleter) (struct ManagedVersioned *self);
  uint64_t flags;
  DlTensor tensor;
} ManagedVersioned;

#define FLAG_READ_ONLY 1u
#define FLAG_IS_COPIED 2u

static_assert (sizeof (DlTensor) == 48 && offsetof (DlTensor, shape) == 24, "DLPack's DLTensor");
static_assert (sizeof (Managed) == 64 && offsetof (ManagedVersioned, tensor) == 32,
               "DLPack's managed tensors");

/* -- Export ------------------------------------------------------------------------------------ */

/* The block behind an exported capsule: the managed tensor and what it points to. */
typedef struct {
  union {
    Managed plain;
    ManagedVersioned versioned;
  };
  /* owned.  Reference counts are atomic: deleters need no GIL for that, but the last one may free
   * buffers */
  GmTensor *t;
  int64_t sizes[GM_MAX_DIMS], strides[GM_MAX_DIMS];
} Export;

static void
delete_export (Export *x)
{
  gm_tensor_unref (x->t);
  g_free (x);
}

static void
delete_plain (Managed *self)
{
  delete_export (self->context);
}

static void
delete_versioned (ManagedVersioned *self)
{
  delete_export (self->context);
}

static void
destroy_capsule (PyObject *capsule)
{
  if (PyCapsule_IsValid (capsule, "dltensor")) {
    Managed *m = PyCapsule_GetPointer (capsule, "dltensor");
    m->deleter (m);
  } else if (PyCapsule_IsValid (capsule, "dltensor_versioned")) {
    ManagedVersioned *m = PyCapsule_GetPointer (capsule, "dltensor_versioned");
    m->deleter (m);
  }
}

static void
describe (Export *x, DlTensor *d)
{
  const GmTensor *t = x->t;
  const GmDtypeInfo *info = &gm_dtypes[t->meta.dtype];
  memcpy (x->sizes, t->meta.sizes, sizeof x->sizes);
  memcpy (x->strides, t->meta.strides, sizeof x->strides);
  *d = (DlTensor){ .data = t->storage->data ? gm_tensor_data (t) : NULL,
                   .device = { t->meta.device, 0 },
                   .ndim = t->meta.ndim,
                   .code = info->dlpack_code,
                   .bits = info->bits,
                   .lanes = 1,
                   .shape = x->sizes,
                   .strides = x->strides };
}

/* Returns 1 if `max_version`, None or (major, minor), asks for a versioned capsule, 0 if not, -1
 * with an exception. */
static int
wants_versioned (PyObject *max_version)
{
  if (max_version == Py_None)
    return 0;
  int major, minor;
  if (!PyTuple_Check (max_version) || !PyArg_ParseTuple (max_version, "ii", &major, &minor)) {
    PyErr_SetString (PyExc_TypeError, "max_version must be a tuple (major, minor)");
    return -1;
  }
  return major >= 1;
}

/* Makes the consumer's stream wait for the current stream.  `stream`: None or 1: the driver's
 * default stream; 2: that of each thread; -1: no waiting; other ints are handles.  False with an
 * exception.  Source: Python array API, __dlpack__. */
static bool
order_streams (PyObject *stream)
{
  GError *error = NULL;
  long long handle = stream == Py_None ? 1 : PyLong_AsLongLong (stream);
  if (handle == -1 && PyErr_Occurred ())
    return false;
  if (handle == 0 || handle < -1) {
    PyErr_Format (PyExc_ValueError,
                  "__dlpack__(stream=%lld): a stream is None, -1, 1, 2 or a handle", handle);
    return false;
  }
  void *own = gm_gpu_stream_current (false);
  if (handle == -1 || (void *) (uintptr_t) handle == own)
    return true;
  void *event = gm_gpu_event_new (NULL, &error);
  bool good = event && gm_gpu_event_wait ((void *) (uintptr_t) handle, event, &error);
  if (event)
    gm_gpu_event_free (event);
  if (!good)
    gm_py_raise (error);
  return good;
}

PyObject *
gm_py_tensor_dlpack (PyObject *self, PyObject *args, PyObject *kwargs)
{
  static char *keywords[] = { "stream", "max_version", "dl_device", "copy", NULL };
  PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "|$OOOO:__dlpack__", keywords, &stream,
                                    &max_version, &device, &copy))
    return NULL;
  GmTensor *t = gm_py_tensor_get (self);
  int versioned = wants_versioned (max_version), device_type = t->meta.device, device_id = 0;
  bool here = t->meta.device == GM_DEVICE_CPU;
  if (versioned < 0
      || (device != Py_None && !PyArg_ParseTuple (device, "ii", &device_type, &device_id)))
    return NULL;
  const char *why = gm_tensor_requires_grad (t)
                        ? "this tensor requires grad, and others would not record operations: use "
                          "tensor.detach()"
                    : here && stream != Py_None ? "a tensor on the CPU has no stream: pass None"
                    : device_type != t->meta.device || device_id != 0
                        ? "a tensor is handed out where it is: move it with tensor.to() before"
                    : t->storage->readonly && !versioned && copy != Py_True
                        ? "the tensor's memory is read-only, which an unversioned DLPack capsule "
                          "cannot say: use max_version=(1, 0)"
                        : NULL;
  if (why) {
    PyErr_SetString (PyExc_BufferError, why);
    return NULL;
  }
  GError *error = NULL;
  GmTensor *given =
      copy == Py_True ? gm_op_run (GM_OP_copy, &t, 1, NULL, &error) : gm_tensor_ref (t);
  if (!given)
    return gm_py_raise (error);
  if (!here && !order_streams (stream)) {
    gm_tensor_unref (given);
    return NULL;
  }
  Export *x = g_new0 (Export, 1);
  x->t = given;
  if (versioned) {
    describe (x, &x->versioned.tensor);
    x->versioned.major = 1;
    x->versioned.context = x;
    x->versioned.deleter = delete_versioned;
    x->versioned.flags =
        (given->storage->readonly ? FLAG_READ_ONLY : 0) | (copy == Py_True ? FLAG_IS_COPIED : 0);
  } else {
    describe (x, &x->plain.tensor);
    x->plain.context = x;
    x->plain.deleter = delete_plain;
  }
  PyObject *capsule =
      PyCapsule_New (x, versioned ? "dltensor_versioned" : "dltensor", destroy_capsule);
  if (!capsule)
    delete_export (x);
  return capsule;
}

PyObject *
gm_py_tensor_dlpack_device (PyObject *self, PyObject *unused)
{
  return Py_BuildValue ("(ii)", (int) gm_py_tensor_get (self)->meta.device, 0);
}

/* -- Import ------------------------------------------------------------------------------------ */

/* Waits until the device has finished its work, which may still use the tensor's memory. */
static void
wait_for_work (const DlTensor *d)
{
  g_autoptr (GError) error = NULL;
  const GmDevice *device =
      d->device.type != GM_DEVICE_CPU ? gm_device_get (GM_DEVICE_CUDA, &error) : NULL;
  if (device)
    device->synchronize (&error); /* if that fails, nothing runs any more */
}

static void
release_plain (void *owner, void *data, size_t bytes)
{
  Managed *m = owner;
  PyGILState_STATE gil = PyGILState_Ensure (); /* producers written in Python expect the GIL */
  wait_for_work (&m->tensor);
  if (m->deleter)
    m->deleter (m);
  PyGILState_Release (gil);
}

static void
release_versioned (void *owner, void *data, size_t bytes)
{
  ManagedVersioned *m = owner;
  PyGILState_STATE gil = PyGILState_Ensure ();
  wait_for_work (&m->tensor);
  if (m->deleter)
    m->deleter (m);
  PyGILState_Release (gil);
}

/* Checks device and rank, and converts the dtype to *dtype; false with BufferError if there is
 * no equivalent. */
static bool
read_kind (const DlTensor *d, GmDtype *dtype)
{
  if (d->device.type != GM_DEVICE_CPU && !(d->device.type == GM_DEVICE_CUDA && d->device.id == 0))
    PyErr_Format (PyExc_BufferError,
                  "the tensor is on DLPack device %d:%d; the CPU (1) and the first CUDA device "
                  "(2:0) can be shared",
                  d->device.type, d->device.id);
  else if (d->lanes != 1 || !gm_dtype_from_dlpack (d->code, d->bits, dtype)
           || !gm_dtypes[*dtype].live)
    PyErr_Format (PyExc_BufferError, "DLPack dtype code %d, %d bits, %d lanes has no gramme dtype",
                  d->code, d->bits, d->lanes);
  else if (d->ndim < 0 || d->ndim > GM_MAX_DIMS)
    PyErr_Format (PyExc_BufferError, "%d dimensions do not fit a tensor, which has at most %d",
                  d->ndim, GM_MAX_DIMS);
  else
    return true;
  return false;
}

/* Reads sizes and strides of the capsule into *meta, in elements; false if they are not valid.
 * *last: offset of the last element that the tensor reaches, -1: no element. */
static bool
read_layout (const DlTensor *d, GmMeta *meta, int64_t *last)
{
  int64_t numel = 1, reach;
  bool empty = false;
  *last = 0;
  for (int i = 0; i < d->ndim; i++) {
    meta->sizes[i] = d->shape[i];
    if (d->shape[i] < 0)
      return false;
    empty |= d->shape[i] == 0;
  }
  for (int i = 0; i < d->ndim && !empty; i++)
    if (__builtin_mul_overflow (numel, d->shape[i], &numel))
      return false;
  gm_meta_set_contiguous (meta);
  for (int i = 0; i < d->ndim && !empty; i++) {
    if (d->strides && meta->sizes[i] > 1)
      meta->strides[i] = d->strides[i];
    if (meta->strides[i] < 0
        || __builtin_mul_overflow (meta->strides[i], meta->sizes[i] - 1, &reach)
        || __builtin_add_overflow (*last, reach, last))
      return false;
  }
  if (empty)
    *last = -1;
  return true;
}

/* True if the system has mapped each page of the bytes.  Which object the pages belong to cannot
 * be found out. */
static bool
is_mapped (uintptr_t begin, size_t bytes)
{
  uintptr_t page = (uintptr_t) sysconf (_SC_PAGESIZE), from = begin / page * page;
  return bytes == 0 || msync ((void *) from, begin + bytes - from, MS_ASYNC) == 0
         || errno != ENOMEM;
}

/* Reads a foreign tensor's meta, its first element's address and the bytes that the elements reach;
 * false with BufferError.  A capsule may contain anything, so each field is checked before it is
 * used, and memory of the CPU must be mapped. */
static bool
read_tensor (const DlTensor *d, GmMeta *meta, char **data, size_t *bytes)
{
  GmDtype dtype;
  int64_t last;
  uintptr_t begin;
  if (!read_kind (d, &dtype))
    return false;
  *meta = gm_meta_make (dtype, 0, NULL);
  meta->device = (uint8_t) d->device.type;
  meta->ndim = (uint8_t) d->ndim;
  size_t size = gm_dtype_size (dtype);
  if (d->ndim > 0 && !d->shape)
    PyErr_Format (PyExc_BufferError, "the capsule says %d dimensions, and has no shape (NULL)",
                  d->ndim);
  else if (!read_layout (d, meta, &last) || (uint64_t) (last + 1) > PTRDIFF_MAX / size)
    PyErr_SetString (PyExc_BufferError,
                     "the tensor has negative strides or sizes that do not fit memory");
  else if (last >= 0 && !d->data)
    PyErr_SetString (PyExc_BufferError,
                     "the capsule says that there are elements, and has no memory for them (NULL)");
  else if (__builtin_add_overflow ((uintptr_t) d->data, d->byte_offset, &begin)
           || begin > UINTPTR_MAX - (uintptr_t) (last + 1) * size
           || (d->device.type == GM_DEVICE_CPU && d->byte_offset > 0
               && !is_mapped (begin, (size_t) (last + 1) * size)))
    PyErr_Format (PyExc_BufferError, "a byte offset of %llu does not lie in memory",
                  (unsigned long long) d->byte_offset);
  else if (d->device.type == GM_DEVICE_CPU && !is_mapped (begin, (size_t) (last + 1) * size))
    PyErr_SetString (PyExc_BufferError, "the sizes and strides reach past the end of memory");
  else if (begin % size != 0 && last >= 0)
    PyErr_SetString (PyExc_BufferError,
                     "memory that is not aligned to its elements cannot be shared: copy it before");
  else {
    *bytes = (size_t) (last + 1) * size;
    *data = (char *) begin;
    return true;
  }
  return false;
}

static PyObject *
from_capsule (PyObject *capsule)
{
  bool versioned = PyCapsule_IsValid (capsule, "dltensor_versioned");
  if (!versioned && !PyCapsule_IsValid (capsule, "dltensor")) {
    PyErr_SetString (
        PyExc_ValueError,
        "this is no DLPack capsule, or it was consumed before: each can be taken once");
    return NULL;
  }
  void *owner = PyCapsule_GetPointer (capsule, versioned ? "dltensor_versioned" : "dltensor");
  const ManagedVersioned *v = versioned ? owner : NULL;
  if (v && v->major > 1) {
    PyErr_Format (PyExc_BufferError,
                  "DLPack version %u.%u is newer than 1.x, which is understood here", v->major,
                  v->minor);
    return NULL;
  }
  const DlTensor *d = versioned ? &v->tensor : &((Managed *) owner)->tensor;
  GmMeta meta;
  char *data;
  size_t bytes;
  if (!read_tensor (d, &meta, &data, &bytes))
    return NULL;
  GmTensor *t = gm_tensor_new_foreign (&meta, data, bytes, v && (v->flags & FLAG_READ_ONLY),
                                       versioned ? release_versioned : release_plain, owner);
  if (!t)
    return PyErr_NoMemory ();
  PyCapsule_SetName (capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
  return gm_py_tensor_take (t);
}

/* Sets *out to the handle of the current stream, a new reference, if the object is on a GPU,
 * else to NULL.  False with an exception. */
static bool
ask_stream (PyObject *o, PyObject **out)
{
  int type = GM_DEVICE_CPU, id = 0;
  GError *error = NULL;
  PyObject *where = PyObject_CallMethod (o, "__dlpack_device__", NULL);
  *out = NULL;
  if (!where
      && PyErr_ExceptionMatches (PyExc_AttributeError)) { /* a producer that knows only the CPU */
    PyErr_Clear ();
    return true;
  }
  bool good = where && PyTuple_Check (where) && PyArg_ParseTuple (where, "ii", &type, &id);
  if (where && !good && !PyErr_Occurred ())
    PyErr_SetString (PyExc_TypeError, "__dlpack_device__() has to give a tuple of two numbers");
  Py_XDECREF (where);
  if (!good || type != GM_DEVICE_CUDA)
    return good;
  if (!gm_device_get (GM_DEVICE_CUDA, &error))
    return gm_py_raise (error) != NULL;
  *out = PyLong_FromVoidPtr (gm_gpu_stream_current (false));
  return *out != NULL;
}

static PyObject *
from_dlpack (PyObject *module, PyObject *o)
{
  if (PyCapsule_CheckExact (o))
    return from_capsule (o);
  PyObject *method = PyObject_GetAttrString (o, "__dlpack__");
  if (!method) {
    PyErr_Format (PyExc_TypeError,
                  "from_dlpack() takes a DLPack capsule or an object with __dlpack__, not %s",
                  Py_TYPE (o)->tp_name);
    return NULL;
  }
  PyObject *none = PyTuple_New (0), *version = NULL, *stream = NULL, *capsule = NULL;
  if (!none || !ask_stream (o, &stream)) {
    Py_XDECREF (none);
    Py_DECREF (method);
    return NULL;
  }
  version = stream ? Py_BuildValue ("{s(ii)sO}", "max_version", 1, 0, "stream", stream)
                   : Py_BuildValue ("{s(ii)}", "max_version", 1, 0);
  if (version)
    capsule = PyObject_Call (method, none, version);
  if (!capsule && version
      && PyErr_ExceptionMatches (PyExc_TypeError)) { /* a producer from before version 1 */
    PyErr_Clear ();
    if (PyDict_DelItemString (version, "max_version") == 0)
      capsule = PyObject_Call (method, none, version);
  }
  Py_XDECREF (stream);
  Py_XDECREF (none);
  Py_XDECREF (version);
  Py_DECREF (method);
  PyObject *result = capsule ? from_capsule (capsule) : NULL;
  Py_XDECREF (capsule);
  return result;
}

PyMethodDef gm_py_dlpack_functions[] = {
  { "from_dlpack", from_dlpack, METH_O,
    "from_dlpack(object)\n\nA tensor that shares the memory of a DLPack capsule or of an object "
    "with __dlpack__.\n"
    "The capsule is consumed: ValueError for one that was consumed before.  Raises BufferError for "
    "memory of other devices than the CPU and "
    "CUDA's first, for an unknown dtype, and for a description that cannot be one of memory: no "
    "shape, no elements where there should be "
    "some, negative strides, sizes or an offset past the end of the address space." },
  { 0 },
};
