/* SPDX-License-Identifier: Apache-2.0
 * construct.c -- gramme.tensor, as_tensor and their relatives.
 *
 * Nested sequences are read twice: the first pass finds the shape (from the first items) and the
 * widest kind of number, the second stores elements and checks that every list is as long as the
 * first of its depth.  A list can change meanwhile (its items may run Python code), so the second
 * pass trusts no length of the first.
 */
#include "core/objects/construct.h"

#include "core/objects/args.h"
#include "core/objects/device_py.h"
#include "core/objects/numpy.h"
#include "core/objects/types.h"
#include "core/tensor/device.h"

/* -- Nested sequences -------------------------------------------------------------------------- */

static bool
is_sequence (PyObject *o)
{
  return PyList_Check (o) || PyTuple_Check (o) || PyRange_Check (o)
         || (PySequence_Check (o) && !PyUnicode_Check (o) && !PyBytes_Check (o)
             && !PyObject_CheckBuffer (o));
}

/* Returns the number o itself, or for an array or tensor in a list the nested list of its
 * numbers. New reference; NULL with an exception. */
static PyObject *
plain_item (PyObject *o)
{
  if (gm_py_tensor_check (o)
      || (PyObject_CheckBuffer (o) && !PyBytes_Check (o) && PyObject_HasAttrString (o, "tolist")
          && PyObject_HasAttrString (o, "shape")))
    return PyObject_CallMethod (o, "tolist", NULL);
  return Py_NewRef (o);
}

typedef struct {
  int ndim;
  int64_t sizes[GM_MAX_DIMS];
  GmCategory category;
  bool any; /* true if an element was found */
} Found;

static bool
look (PyObject *data, int depth, Found *f)
{
  PyObject *o = plain_item (data);
  if (!o)
    return false;
  bool ok = false;
  GmScalar s;
  if (is_sequence (o)) {
    PyObject *fast = depth < GM_MAX_DIMS ? PySequence_Fast (o, "expected a sequence") : NULL;
    if (depth >= GM_MAX_DIMS)
      PyErr_Format (PyExc_ValueError, "the data is nested more than %d deep", GM_MAX_DIMS);
    ok = fast != NULL;
    if (ok && depth == f->ndim) {
      f->sizes[depth] = PySequence_Fast_GET_SIZE (fast);
      f->ndim++;
    }
    for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE (fast); i++)
      ok = look (PySequence_Fast_GET_ITEM (fast, i), depth + 1, f);
    Py_XDECREF (fast);
  } else if (gm_py_number (o, &s)) {
    ok = true;
    f->any = true;
    f->category = MAX (f->category, s.kind);
  } else if (!PyErr_Occurred ()) {
    PyErr_Format (
        PyExc_TypeError,
        "cannot make a tensor of a %s: expected numbers, nested lists of numbers or an array",
        Py_TYPE (o)->tp_name);
  }
  Py_DECREF (o);
  return ok;
}

typedef struct {
  const GmMeta *meta;
  char *next, *end;
  size_t step;
} Store;

static bool
store (PyObject *data, int depth, Store *w)
{
  if (depth == w->meta->ndim) {
    if (w->meta->dtype == GM_F32 && PyFloat_CheckExact (data)) {
      *(float *) w->next = (float) PyFloat_AS_DOUBLE (data);
      w->next += w->step;
      return true;
    }
    PyObject *o = plain_item (data);
    GmScalar s;
    bool ok = o && gm_py_number (o, &s);
    if (o && !ok && !PyErr_Occurred ())
      PyErr_Format (PyExc_ValueError,
                    "expected a number at depth %d, got a %s: the lists are uneven", depth,
                    Py_TYPE (o)->tp_name);
    Py_XDECREF (o);
    GError *error = NULL;
    /* A number out of a floating dtype's range becomes infinity here, as in torch. */
    bool to_integer = gm_dtypes[w->meta->dtype].category == GM_CATEGORY_INT;
    if (ok && to_integer && !gm_scalar_fits (s, (GmDtype) w->meta->dtype, &error)) {
      gm_py_raise (error);
      ok = false;
    }
    if (ok) {
      g_assert (w->next < w->end);
      gm_scalar_store (s, (GmDtype) w->meta->dtype, w->next);
      w->next += w->step;
    }
    return ok;
  }
  PyObject *o = plain_item (data);
  PyObject *fast = o && is_sequence (o) ? PySequence_Fast (o, "expected a sequence") : NULL;
  bool ok = fast != NULL;
  if (o && !fast && !PyErr_Occurred ())
    PyErr_Format (PyExc_ValueError,
                  "expected a list of %lld items at depth %d, got a %s: the lists are uneven",
                  (long long) w->meta->sizes[depth], depth, Py_TYPE (o)->tp_name);
  if (ok && PySequence_Fast_GET_SIZE (fast) != w->meta->sizes[depth]) {
    PyErr_Format (PyExc_ValueError,
                  "expected a list of %lld items at depth %d, got %zd: the lists are uneven",
                  (long long) w->meta->sizes[depth], depth, PySequence_Fast_GET_SIZE (fast));
    ok = false;
  }
  for (int64_t i = 0; ok && i < w->meta->sizes[depth]; i++) {
    if (i >= PySequence_Fast_GET_SIZE (fast)) {
      PyErr_SetString (PyExc_RuntimeError, "a list changed its length while it was read");
      ok = false;
    } else {
      ok = store (PySequence_Fast_GET_ITEM (fast, i), depth + 1, w);
    }
  }
  Py_XDECREF (fast);
  Py_XDECREF (o);
  return ok;
}

static GmTensor *
from_nested (PyObject *data, const GmDtype *dtype, GmDtype dtype_if_empty)
{
  Found f = { 0 };
  if (!look (data, 0, &f))
    return NULL;
  GmDtype d = dtype                             ? *dtype
              : !f.any                          ? dtype_if_empty
              : f.category == GM_CATEGORY_FLOAT ? gm_default_dtype ()
              : f.category == GM_CATEGORY_INT   ? GM_I64
                                                : GM_BOOL;
  GmMeta meta = gm_meta_make (d, f.ndim, f.sizes);
  GError *error = NULL;
  GmTensor *t = gm_tensor_new (&meta, &error);
  if (!t) {
    gm_py_raise (error);
    return NULL;
  }
  size_t size = gm_dtype_size (d);
  char *first = gm_tensor_data (t);
  Store w = { .meta = &t->meta,
              .next = first,
              .end = first + size * (size_t) gm_meta_numel (&meta),
              .step = size };
  if (!store (data, 0, &w)) {
    gm_tensor_unref (t);
    return NULL;
  }
  return t;
}

/* -- Everything -------------------------------------------------------------------------------- */

GmTensor *
gm_py_construct_cast (GmTensor *t, GmDtype dtype, bool copy)
{
  if (!t || (t->meta.dtype == dtype && !copy))
    return t;
  GmAttrs attrs = { .mask = 1u << GM_ATTR_DTYPE, .dtype = (uint8_t) dtype };
  GError *error = NULL;
  GmMeta meta = t->meta;
  meta.dtype = (uint8_t) dtype;
  gm_meta_set_contiguous (&meta);
  GmTensor *result = gm_tensor_new (&meta, &error);
  bool same = t->meta.dtype == dtype;
  if (result
      && !gm_op_run_into (same ? GM_OP_copy : GM_OP_cast, &t, 1, same ? NULL : &attrs, result,
                          &error)) {
    gm_tensor_unref (result);
    result = NULL;
  }
  gm_tensor_unref (t);
  if (!result)
    gm_py_raise (error);
  return result;
}

GmTensor *
gm_py_construct (PyObject *data, const GmDtype *dtype)
{
  GmTensor *t = gm_py_tensor_get (data);
  if (t)
    return gm_py_construct_cast (gm_tensor_ref (t), dtype ? *dtype : (GmDtype) t->meta.dtype, true);
  if (PyObject_CheckBuffer (data) && !PyBytes_Check (data) && !PyByteArray_Check (data)) {
    GmTensor *copy = gm_py_copy_buffer (data);
    return dtype ? gm_py_construct_cast (copy, *dtype, false) : copy;
  }
  return from_nested (data, dtype, gm_default_dtype ());
}

GmTensor *
gm_py_construct_index (PyObject *list)
{
  return from_nested (list, NULL, GM_I64);
}

/* -- Functions --------------------------------------------------------------------------------- */

static bool
parse_dtype (PyObject *o, GmDtype *dtype, const GmDtype **out)
{
  *out = NULL;
  if (!o || o == Py_None)
    return true;
  *out = dtype;
  return gm_py_dtype_get (o, dtype);
}

/* Returns t on a device: t itself if it is there already; steals t.  NULL with an exception. */
static GmTensor *
put_on (GmTensor *t, int device)
{
  GError *error = NULL;
  if (!t || t->meta.device == device)
    return t;
  GmTensor *there = gm_tensor_to_device (t, device, &error);
  gm_tensor_unref (t);
  if (!there)
    gm_py_raise (error);
  return there;
}

/* Reads the argument device= into *device.  Without it, the device is that of `data`, if that is
 * a tensor, else the default.  False with an exception. */
static bool
parse_device (PyObject *o, PyObject *data, int *device)
{
  GmTensor *t = gm_py_tensor_get (data);
  if (!gm_py_device_arg (o, device))
    return false;
  if (!*device)
    *device = t ? t->meta.device : gm_default_device ();
  return true;
}

static PyObject *
tensor (PyObject *module, PyObject *args, PyObject *kwargs)
{
  static char *keywords[] = { "data", "dtype", "device", "requires_grad", "pin_memory", NULL };
  PyObject *data, *dtype_object = NULL, *device = Py_None;
  int requires_grad = 0, where;
  int pin_memory = 0; /* ignored, since copies to a GPU work from any memory of the CPU */
  GmDtype dtype;
  const GmDtype *wanted;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "O|$OOpp:tensor", keywords, &data, &dtype_object,
                                    &device, &requires_grad, &pin_memory)
      || !parse_dtype (dtype_object, &dtype, &wanted) || !parse_device (device, data, &where))
    return NULL;
  GmTensor *t = put_on (gm_py_construct (data, wanted), where);
  GError *error = NULL;
  if (t && requires_grad && !gm_tensor_set_requires_grad (t, true, &error)) {
    gm_tensor_unref (t);
    return gm_py_raise (error);
  }
  return gm_py_tensor_take (t);
}

static PyObject *
as_tensor (PyObject *module, PyObject *args, PyObject *kwargs)
{
  static char *keywords[] = { "data", "dtype", "device", NULL };
  PyObject *data, *dtype_object = NULL, *device = Py_None;
  GmDtype dtype;
  const GmDtype *wanted;
  int where;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "O|OO:as_tensor", keywords, &data, &dtype_object,
                                    &device)
      || !parse_dtype (dtype_object, &dtype, &wanted) || !parse_device (device, data, &where))
    return NULL;
  GmTensor *t = gm_py_tensor_get (data);
  if (t && wanted && t->meta.dtype != *wanted) { /* recorded, like a cast */
    GmAttrs attrs = { .mask = 1u << GM_ATTR_DTYPE, .dtype = (uint8_t) *wanted };
    GError *error = NULL;
    GmTensor *cast = gm_autograd_op (GM_OP_cast, &t, 1, &attrs, &error);
    GmTensor *there = cast ? gm_autograd_to_device (cast, where, &error) : NULL;
    gm_tensor_unref (cast);
    return there ? gm_py_tensor_take (there) : gm_py_raise (error);
  }
  if (t)
    return gm_py_tensor_move (data, where);
  if (PyObject_CheckBuffer (data) && !PyBytes_Check (data) && !PyByteArray_Check (data)) {
    t = gm_py_from_buffer (data);
    return gm_py_tensor_take (
        put_on (wanted ? gm_py_construct_cast (t, *wanted, false) : t, where));
  }
  return gm_py_tensor_take (put_on (gm_py_construct (data, wanted), where));
}

static PyObject *
from_numpy (PyObject *module, PyObject *array)
{
  if (!PyObject_CheckBuffer (array)) {
    PyErr_Format (PyExc_TypeError,
                  "from_numpy() takes a numpy array or another object with a buffer, not %s",
                  Py_TYPE (array)->tp_name);
    return NULL;
  }
  return gm_py_tensor_take (gm_py_from_buffer (array));
}

static PyObject *
frombuffer (PyObject *module, PyObject *args, PyObject *kwargs)
{
  static char *keywords[] = { "buffer", "dtype", "count", "offset", "requires_grad", NULL };
  PyObject *buffer, *dtype_object = Py_None;
  long long count = -1, offset = 0;
  int requires_grad = 0;
  GmDtype dtype;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "O|$OLLp:frombuffer", keywords, &buffer,
                                    &dtype_object, &count, &offset, &requires_grad)
      || !gm_py_dtype_get (dtype_object, &dtype))
    return NULL;
  GmTensor *t = gm_py_from_bytes (buffer, dtype, count, offset);
  GError *error = NULL;
  if (t && requires_grad && !gm_tensor_set_requires_grad (t, true, &error)) {
    gm_tensor_unref (t);
    return gm_py_raise (error);
  }
  return gm_py_tensor_take (t);
}

PyMethodDef gm_py_construct_functions[] = {
  { "tensor", (PyCFunction) (void *) tensor, METH_VARARGS | METH_KEYWORDS,
    "tensor(data, *, dtype=None, device=None, requires_grad=False)\n\n"
    "A new tensor with a copy of `data`: a number, nested lists of numbers, an array or a "
    "tensor.\n"
    "dtype: bool, int64 or the default dtype for Python data; the array's own otherwise.\n"
    "Raises ValueError for uneven lists, TypeError for what is no number." },
  { "as_tensor", (PyCFunction) (void *) as_tensor, METH_VARARGS | METH_KEYWORDS,
    "as_tensor(data, dtype=None, device=None)\n\nAs tensor(), but shares memory with `data` where "
    "it can." },
  { "asarray", (PyCFunction) (void *) as_tensor, METH_VARARGS | METH_KEYWORDS,
    "asarray(data, dtype=None, device=None)\n\nThe same as as_tensor()." },
  { "from_numpy", from_numpy, METH_O,
    "from_numpy(array)\n\nA tensor that shares the array's memory.  A read-only array gives a "
    "tensor that refuses in-place\n"
    "operations." },
  { "frombuffer", (PyCFunction) (void *) frombuffer, METH_VARARGS | METH_KEYWORDS,
    "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n\n"
    "A 1-d tensor over the buffer's memory: `count` elements (-1: all that fit) from byte "
    "`offset`." },
  { 0 },
};
