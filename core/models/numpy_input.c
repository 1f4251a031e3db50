/* SPDX-License-Identifier: Apache-2.0
 * numpy_input.c -- from_numpy, as_tensor and asarray of existing numpy arrays: inputs that the
 * guard program makes at each call.
 *
 * Each call makes another tensor, hence the number in its source. The tensor that stands for it
 * while recording is made once for an array and a place among the inputs: a second recording after
 * a rollback finds the same one.
 */
#include "core/models/models.h"
#include "core/trace/instance.h"

#include <string.h>

PyObject *
gm_input_stand_in (GmRecorder *r, PyObject *of, Py_ssize_t place, PyObject *(*make) (PyObject *of))
{
  if (r->stand_ins_made == NULL)
    r->stand_ins_made = PyList_New (0);
  for (Py_ssize_t i = 0; r->stand_ins_made && i < PyList_GET_SIZE (r->stand_ins_made); i++) {
    PyObject *row = PyList_GET_ITEM (r->stand_ins_made, i);
    if (PyTuple_GET_ITEM (row, 0) == of && PyLong_AsSsize_t (PyTuple_GET_ITEM (row, 1)) == place)
      return PyTuple_GET_ITEM (row, 2);
  }
  PyObject *tensor = make (of);
  PyObject *row = tensor && r->stand_ins_made ? Py_BuildValue ("OnO", of, place, tensor) : NULL;
  if (row == NULL || PyList_Append (r->stand_ins_made, row) < 0) {
    PyErr_Clear ();
    tensor = NULL;
  }
  Py_XDECREF (row);
  return tensor;
}

const GmTracker *
gm_tensor_over_array (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  const GmTracker *t = args->n == 1 && !args->names ? gm_realize (r, args->args[0]) : NULL;
  if (t == NULL || r->stop)
    return NULL;
  if (t->kind == &gm_kind_tensor && fn != gm_host.from_numpy)
    return t;
  bool array = t->kind == &gm_kind_object && t->real && t->source
               && strcmp (Py_TYPE (t->real)->tp_name, "numpy.ndarray") == 0
               && !gm_is_user_type (Py_TYPE (t->real));
  PyObject *real =
      array ? gm_input_stand_in (r, t->real, r->graph->inputs->len, gm_host.array_object) : NULL;
  return real ? gm_wrap (
             r, real,
             gm_source_part (r, t->source, GM_SOURCE_ARRAY, (int64_t) r->graph->inputs->len, NULL))
              : NULL;
}
