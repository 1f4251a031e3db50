/* SPDX-License-Identifier: Apache-2.0
 * device_py.c -- see device_py.h.
 */
#include "core/objects/cpython.h"

#include "core/autograd/autograd.h"
#include "core/run/gpu.h"
#include "core/objects/device_py.h"
#include "core/objects/errors.h"
#include "core/objects/tensor_object.h"
#include "core/tensor/device.h"

PyObject *
gm_py_tensor_move (PyObject *self, int device)
{
  GmTensor *t = gm_py_tensor_get (self);
  GError *error = NULL;
  if (t->meta.device == device)
    return Py_NewRef (self);
  GmTensor *moved;
  Py_BEGIN_ALLOW_THREADS moved = gm_autograd_to_device (t, device, &error);
  Py_END_ALLOW_THREADS return moved ? gm_py_tensor_take (moved) : gm_py_raise (error);
}

bool
gm_py_check_here (const GmTensor *t, PyObject *type, const char *what)
{
  if (t->meta.device == GM_DEVICE_CPU)
    return true;
  PyErr_Format (
      type, "%s of a tensor on device '%s': its memory is not the CPU's; use tensor.cpu() first",
      what, gm_device_name (t->meta.device));
  return false;
}

/* -- gramme.cuda ------------------------------------------------------------------------------- */

static bool
has_device (void)
{
  GError *error = NULL;
  return gm_device_get (GM_DEVICE_CUDA, &error) != NULL || gm_py_raise (error);
}

/* Implements cuda.available: returns (True, ""), or (False, why). */
static PyObject *
cuda_available (PyObject *module, PyObject *unused)
{
  g_autoptr (GError) error = NULL;
  bool good = gm_device_get (GM_DEVICE_CUDA, &error) != NULL;
  return Py_BuildValue ("(Os)", good ? Py_True : Py_False, good ? "" : error->message);
}

static PyObject *
cuda_synchronize (PyObject *module, PyObject *unused)
{
  GError *error = NULL;
  const GmDevice *d = gm_device_get (GM_DEVICE_CUDA, &error);
  bool good = d != NULL;
  Py_BEGIN_ALLOW_THREADS good = good && d->synchronize (&error);
  Py_END_ALLOW_THREADS return good ? Py_NewRef (Py_None) : gm_py_raise (error);
}

static PyObject *
cuda_memory (PyObject *module, PyObject *unused)
{
  uint64_t count[3] = { 0 };
  gm_gpu_memory (count);
  return Py_BuildValue ("(KKK)", (unsigned long long) count[0], (unsigned long long) count[1],
                        (unsigned long long) count[2]);
}

static PyObject *
cuda_name (PyObject *module, PyObject *unused)
{
  GError *error = NULL;
  const char *name = gm_device_get (GM_DEVICE_CUDA, &error) ? gm_gpu_full_name () : NULL;
  return name ? PyUnicode_FromString (name) : gm_py_raise (error);
}

static PyObject *
cuda_is_open (PyObject *module, PyObject *unused)
{
  return PyBool_FromLong (gm_gpu_is_open ());
}

static PyObject *
cuda_reset_peak (PyObject *module, PyObject *unused)
{
  gm_gpu_reset_peak ();
  Py_RETURN_NONE;
}

static PyObject *
cuda_total_memory (PyObject *module, PyObject *unused)
{
  return has_device () ? PyLong_FromUnsignedLongLong (gm_gpu_total_memory ()) : NULL;
}

static PyObject *
cuda_capability (PyObject *module, PyObject *unused)
{
  GError *error = NULL;
  int capability[2];
  if (!has_device ())
    return NULL;
  return gm_gpu_capability (capability, &error)
             ? Py_BuildValue ("(ii)", capability[0], capability[1])
             : gm_py_raise (error);
}

/* -- Streams and events, whose handles are numbers --------------------------------------------- */

static PyObject *
none_or_raise (bool good, GError *error)
{
  return good ? Py_NewRef (Py_None) : gm_py_raise (error);
}

static PyObject *
stream_new (PyObject *module, PyObject *unused)
{
  GError *error = NULL;
  void *stream = has_device () ? gm_gpu_stream_new (&error) : NULL;
  return stream ? PyLong_FromVoidPtr (stream) : error ? gm_py_raise (error) : NULL;
}

static PyObject *
stream_free (PyObject *module, PyObject *stream)
{
  void *handle = PyLong_AsVoidPtr (stream);
  if (!PyErr_Occurred ())
    gm_gpu_stream_free (handle);
  return PyErr_Occurred () ? NULL : Py_NewRef (Py_None);
}

static PyObject *
stream_current (PyObject *module, PyObject *own)
{
  int is_own = PyObject_IsTrue (own);
  return is_own < 0 || !has_device () ? NULL : PyLong_FromVoidPtr (gm_gpu_stream_current (is_own));
}

static PyObject *
stream_use (PyObject *module, PyObject *stream)
{
  GError *error = NULL;
  void *handle = PyLong_AsVoidPtr (stream);
  return PyErr_Occurred () || !has_device ()
             ? NULL
             : none_or_raise (gm_gpu_stream_use (handle, &error), error);
}

static PyObject *
stream_synchronize (PyObject *module, PyObject *stream)
{
  GError *error = NULL;
  void *handle = PyLong_AsVoidPtr (stream);
  bool good;
  if (PyErr_Occurred () || !has_device ())
    return NULL;
  Py_BEGIN_ALLOW_THREADS good = gm_gpu_stream_synchronize (handle, &error);
  Py_END_ALLOW_THREADS return none_or_raise (good, error);
}

static PyObject *
event_new (PyObject *module, PyObject *stream)
{
  GError *error = NULL;
  void *handle = PyLong_AsVoidPtr (stream),
       *event = PyErr_Occurred () || !has_device () ? NULL : gm_gpu_event_new (handle, &error);
  return event ? PyLong_FromVoidPtr (event) : error ? gm_py_raise (error) : NULL;
}

static PyObject *
event_free (PyObject *module, PyObject *event)
{
  void *handle = PyLong_AsVoidPtr (event);
  if (!PyErr_Occurred ())
    gm_gpu_event_free (handle);
  return PyErr_Occurred () ? NULL : Py_NewRef (Py_None);
}

static PyObject *
event_wait (PyObject *module, PyObject *args)
{
  GError *error = NULL;
  unsigned long long stream, event;
  if (!PyArg_ParseTuple (args, "KK", &stream, &event))
    return NULL;
  return none_or_raise (
      gm_gpu_event_wait ((void *) (uintptr_t) stream, (void *) (uintptr_t) event, &error), error);
}

static PyObject *
stream_query (PyObject *module, PyObject *event)
{
  GError *error = NULL;
  bool done = false;
  void *handle = PyLong_AsVoidPtr (event);
  if (PyErr_Occurred ())
    return NULL;
  return gm_gpu_stream_query (handle, &done, &error) ? PyBool_FromLong (done) : gm_py_raise (error);
}

static PyObject *
event_query (PyObject *module, PyObject *event)
{
  GError *error = NULL;
  bool done = false;
  void *handle = PyLong_AsVoidPtr (event);
  if (PyErr_Occurred ())
    return NULL;
  return gm_gpu_event_query (handle, &done, &error) ? PyBool_FromLong (done) : gm_py_raise (error);
}

static PyObject *
event_finish (PyObject *module, PyObject *event)
{
  GError *error = NULL;
  void *handle = PyLong_AsVoidPtr (event);
  bool good;
  if (PyErr_Occurred ())
    return NULL;
  Py_BEGIN_ALLOW_THREADS good = gm_gpu_event_finish (handle, &error);
  Py_END_ALLOW_THREADS return none_or_raise (good, error);
}

static PyObject *
event_elapsed (PyObject *module, PyObject *args)
{
  GError *error = NULL;
  unsigned long long from, to;
  double ms;
  if (!PyArg_ParseTuple (args, "KK", &from, &to))
    return NULL;
  return gm_gpu_event_elapsed ((void *) (uintptr_t) from, (void *) (uintptr_t) to, &ms, &error)
             ? PyFloat_FromDouble (ms)
             : gm_py_raise (error);
}

/* Declares that a stream uses the storage's memory, so that the allocator does not reuse it
 * before the stream is done. */
static PyObject *
tensor_keep (PyObject *module, PyObject *args)
{
  GError *error = NULL;
  PyObject *tensor;
  unsigned long long stream;
  if (!PyArg_ParseTuple (args, "OK", &tensor, &stream))
    return NULL;
  GmTensor *t = gm_py_tensor_check (tensor) ? gm_py_tensor_get (tensor) : NULL;
  if (!t || t->meta.device == GM_DEVICE_CPU) {
    PyErr_SetString (PyExc_TypeError, "record_stream() takes a tensor on device 'cuda'");
    return NULL;
  }
  return none_or_raise (gm_gpu_keep (t->storage->data, (void *) (uintptr_t) stream, &error), error);
}

static PyMethodDef functions[] = {
  { "cuda_available", cuda_available, METH_NOARGS, "cuda_available() -> (bool, why not)" },
  { "cuda_synchronize", cuda_synchronize, METH_NOARGS,
    "cuda_synchronize(): waits for all work of the device." },
  { "cuda_memory", cuda_memory, METH_NOARGS,
    "cuda_memory() -> (in use, cached, most in use): bytes." },
  { "cuda_name", cuda_name, METH_NOARGS, "cuda_name() -> str: the device's name." },
  { "cuda_is_open", cuda_is_open, METH_NOARGS, "cuda_is_open() -> bool" },
  { "cuda_reset_peak", cuda_reset_peak, METH_NOARGS,
    "cuda_reset_peak(): the most in use is that from now on." },
  { "cuda_total_memory", cuda_total_memory, METH_NOARGS,
    "cuda_total_memory() -> int: bytes that the device has." },
  { "cuda_capability", cuda_capability, METH_NOARGS, "cuda_capability() -> (major, minor)" },
  { "cuda_stream_new", stream_new, METH_NOARGS, "cuda_stream_new() -> int: a stream's handle." },
  { "cuda_stream_free", stream_free, METH_O, "cuda_stream_free(stream)" },
  { "cuda_stream_current", stream_current, METH_O,
    "cuda_stream_current(own) -> int: this thread's stream, or the device's own." },
  { "cuda_stream_use", stream_use, METH_O,
    "cuda_stream_use(stream): this thread's work goes there; 0: the device's own." },
  { "cuda_stream_query", stream_query, METH_O, "cuda_stream_query(stream) -> bool" },
  { "cuda_stream_synchronize", stream_synchronize, METH_O, "cuda_stream_synchronize(stream)" },
  { "cuda_event_new", event_new, METH_O,
    "cuda_event_new(stream) -> int: an event that fires when the stream has come so far." },
  { "cuda_event_free", event_free, METH_O, "cuda_event_free(event)" },
  { "cuda_event_wait", event_wait, METH_VARARGS,
    "cuda_event_wait(stream, event): the stream waits." },
  { "cuda_event_query", event_query, METH_O, "cuda_event_query(event) -> bool" },
  { "cuda_event_finish", event_finish, METH_O, "cuda_event_finish(event): waits." },
  { "cuda_event_elapsed", event_elapsed, METH_VARARGS,
    "cuda_event_elapsed(from, to) -> float: milliseconds." },
  { "cuda_keep", tensor_keep, METH_VARARGS,
    "cuda_keep(tensor, stream): the stream uses the tensor's memory." },
  { NULL },
};

int
gm_py_init_device (PyObject *module)
{
  return PyModule_AddFunctions (module, functions);
}
