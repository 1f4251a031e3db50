/* SPDX-License-Identifier: Apache-2.0
 * tensor_made.c -- tensor, as_tensor and asarray of numbers, and is_tensor.
 *
 * The function itself is called once on the numbers, while recording: the result is a constant of
 * the graph, and each call gets a copy, because each call makes another tensor.
 */
#include "core/models/models.h"
#include "core/trace/instance.h"
#include "core/tensor/device.h"

#include <string.h>

/* Returns an argument as a new object if it is made of numbers or names a dtype or device; else
 * NULL. */
static PyObject *
argument (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, t);
  if (r->stop)
    return NULL;
  if (t->kind == &gm_kind_constant)
    return t->real;
  PyObject *o = t->kind == &gm_kind_list || t->kind == &gm_kind_tuple ? gm_constant (r, t) : NULL;
  return r->stop ? NULL : o;
}

/* Returns the result of a real call fn (*args) on constants, a new reference; NULL if an
 * argument is not constant, or with an exception. */
static PyObject *
call_now (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  uint32_t n_named = args->names ? (uint32_t) PyTuple_GET_SIZE (args->names) : 0;
  g_autofree PyObject **all = g_new0 (PyObject *, args->n + n_named + 1);
  for (uint32_t i = 0; i < args->n + n_named; i++)
    if (!(all[i] = argument (r, args->args[i])))
      return NULL;
  return PyObject_Vectorcall (fn, all, args->n, args->names);
}

/* Returns the tensor t of another device: a constant on the CPU, and nodes that copy it to the
 * device.  NULL after a break. */
static const GmTracker *
made_there (GmRecorder *r, const char *name, GmTensor *t)
{
  GmBuilder *b = &r->builder.base;
  g_autoptr (GmTensor) here = gm_tensor_to_device (t, GM_DEVICE_CPU, &b->error);
  b->device = t->meta.device;
  GmVal v = here ? b->vt->constant (b, here) : NULL;
  b->device = 0;
  if (v)
    return gm_tensor_new_tracker (r, gm_id_from_val (v));
  gm_record_break (r, GM_BREAK_TENSOR_ERROR, name, b->error->message);
  g_clear_error (&b->error);
  return NULL;
}

/* Returns the result of tensor (t) for a tensor t: a row-major copy without a gradient history. */
static const GmTracker *
copied (GmRecorder *r, const GmTracker *t)
{
  static PyObject *named, *format;
  if (!named)
    named = Py_BuildValue ("(s)", "memory_format"),
    format = PyUnicode_InternFromString ("contiguous_format");
  const GmTracker *all[] = { gm_call_api_name (r, "detach", &t, 1, false),
                             gm_from_constant (r, format) };
  return r->stop ? &gm_tracker_poison
                 : gm_call_api (r, gm_api_find ("clone"), false, &(GmCallArgs){ all, 1, named });
}

const GmTracker *
gm_tensor_made (GmRecorder *r, PyObject *fn, const char *name, const GmCallArgs *args)
{
  if (strcmp (name, "is_tensor") == 0 && args->n == 1 && !args->names) {
    const GmTracker *t = gm_realize (r, args->args[0]);
    return r->stop ? NULL : gm_from_bool (r, t->kind == &gm_kind_tensor);
  }
  if (strcmp (name, "tensor") != 0 && strcmp (name, "as_tensor") != 0
      && strcmp (name, "asarray") != 0)
    return NULL;
  if (strcmp (name, "tensor") == 0 && args->n == 1 && !args->names
      && gm_realize (r, args->args[0])->kind == &gm_kind_tensor)
    return copied (r, gm_realize (r, args->args[0]));
  PyObject *o = call_now (r, fn, args);
  if (o == NULL) {
    if (PyErr_Occurred ())
      gm_record_break_exception (r);
    return NULL;
  }
  gm_record_take (r, o);
  GmTensor *t = PyObject_TypeCheck (o, gm_host.tensor_type) ? gm_host_tensor (o) : NULL;
  if (t == NULL || gm_host.requires_grad (t))
    return NULL; /* requires_grad=True makes a new leaf */
  r->builder.where = gm_record_where (r);
  if (t->meta.device != GM_DEVICE_CPU)
    return made_there (r, name, t);
  GmValueId v = gm_graph_add_constant (r->graph, t, r->builder.where);
  GmVal copy = gm_b (&r->builder.base, copy, gm_val_from_id (v));
  return copy ? gm_tensor_new_tracker (r, gm_id_from_val (copy)) : NULL;
}
