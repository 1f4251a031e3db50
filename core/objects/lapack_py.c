/* SPDX-License-Identifier: Apache-2.0
 * lapack_py.c -- the C function behind gramme.linalg: one factorization of each matrix of a batch.
 *
 * gramme.linalg handles shapes, gradients and errors; this is the call alone.  On stand-ins, whose
 * numbers have no meaning (core/objects/host_function.h), no factorization fails.
 */
#include "core/objects/lapack_py.h"

#include "core/ops/lapack.h"
#include "core/objects/errors.h"
#include "core/objects/host_function.h"
#include "core/objects/tensor_object.h"

#include <string.h>

/* Implements lapack (name, a, other, flags): returns (results, number of the first matrix that
 * failed, LAPACK's info for it or 0). */
static PyObject *
lapack (PyObject *module, PyObject *args)
{
  const char *name;
  PyObject *first, *second;
  int flags, op = 0;
  if (!PyArg_ParseTuple (args, "sO!Oi:lapack", &name, &gm_py_tensor_type, &first, &second, &flags))
    return NULL;
  while (op < GM_N_LAPACK && strcmp (gm_lapack_names[op], name) != 0)
    op++;
  const GmTensor *a = gm_py_tensor_get (first),
                 *other = second == Py_None ? NULL : gm_py_tensor_get (second);
  if (op == GM_N_LAPACK || (second != Py_None && !other))
    return PyErr_Format (PyExc_TypeError, "lapack() takes the name of a factorization and tensors");
  GmTensor *out[3];
  GError *error = NULL;
  int64_t n = a->meta.ndim ? a->meta.sizes[0] : 0, failed = 0;
  g_autofree int64_t *info = g_try_new0 (int64_t, n + 1);
  if (!info)
    return PyErr_NoMemory ();
  int n_out = gm_lapack_run ((GmLapackOp) op, a, other, flags, out, info, &error);
  if (n_out == 0)
    return gm_py_raise (error);
  while (failed < n && info[failed] == 0)
    failed++;
  int64_t what = failed < n && !gm_py_host_is_trying () ? info[failed] : 0;
  PyObject *results = PyTuple_New (n_out);
  for (int i = 0; i < n_out; i++) {
    PyObject *o = gm_py_tensor_take (out[i]);
    if (results && o) {
      PyTuple_SET_ITEM (results, i, o);
    } else {
      Py_CLEAR (results);
      Py_XDECREF (o);
    }
  }
  return results ? Py_BuildValue ("NLL", results, (long long) failed, (long long) what) : NULL;
}

static PyMethodDef functions[] = {
  { "lapack", lapack, METH_VARARGS,
    "lapack(name, a, other, flags)\n\nSee gramme.linalg, and core/ops/lapack.h." },
  { 0 },
};

int
gm_py_init_lapack (PyObject *module)
{
  return PyModule_AddFunctions (module, functions);
}
