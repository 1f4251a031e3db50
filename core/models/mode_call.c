/* SPDX-License-Identifier: Apache-2.0
 * mode_call.c -- the functions that read and set the modes of the library: gradients, autocast, the
 * default dtype; and the one that makes a lazy layer's parameters.
 */
#include "core/tensor/device.h"
#include "core/models/models.h"

#define PLAIN(name, min, max)                                                                      \
  if (!gm_args_plain (r, name, args, min, max))                                                    \
  return &gm_tracker_poison

static const GmTracker *
call_is_grad_enabled (GmRecorder *r, const GmCallArgs *args)
{
  bool on = gm_grad_mode_get (r);
  gm_grad_mode_set (r, on); /* the journal records reads of the mode, like writes */
  return gm_from_bool (r, on);
}

/* Calls set_grad_enabled of gramme._core, which the package's contexts use: sets the mode and
 * returns the old mode. */
static const GmTracker *
call_set_grad_enabled (GmRecorder *r, const GmCallArgs *args)
{
  bool old = gm_grad_mode_get (r);
  PLAIN ("set_grad_enabled", 1, 1);
  gm_grad_mode_set (r, gm_truth (r, args->args[0]));
  return gm_from_bool (r, old);
}

/* Returns the default dtype, which is guarded with the modes; a call that sets another dtype
 * breaks the graph. */
static const GmTracker *
call_get_default_dtype (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("get_default_dtype", 0, 0);
  return gm_from_constant (
      r, gm_host.dtype_object ((GmDtype) (r->request->env.modes >> GM_MODE_DTYPE_SHIFT & 0xff)));
}

static bool
autocast_device (GmRecorder *r, const GmTracker *t, int *device)
{
  PyObject *name = gm_constant (r, t);
  if (name && PyUnicode_CheckExact (name) && gm_device_find (PyUnicode_AsUTF8 (name), device))
    return true;
  gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "autocast on something that is no device");
  return false;
}

static const GmTracker *
autocast_now (GmRecorder *r, int device)
{
  GmDtype dtype = gm_autocast_dtype (gm_autocast_mode_get (r), device);
  return dtype == GM_N_DTYPES ? gm_none (r) : gm_from_constant (r, gm_host.dtype_object (dtype));
}

static const GmTracker *
call_get_autocast (GmRecorder *r, const GmCallArgs *args)
{
  int device;
  PLAIN ("get_autocast", 1, 1);
  return autocast_device (r, args->args[0], &device) ? autocast_now (r, device) : NULL;
}

/* Calls the C function below the context autocast: sets the dtype that autocast casts to and
 * returns the old dtype or None. */
static const GmTracker *
call_set_autocast (GmRecorder *r, const GmCallArgs *args)
{
  int device;
  PLAIN ("set_autocast", 2, 2);
  if (!autocast_device (r, args->args[1], &device))
    return NULL;
  const GmTracker *old = autocast_now (r, device);
  PyObject *dtype = gm_constant (r, args->args[0]);
  if (!dtype
      || (dtype != Py_None
          && (Py_TYPE (dtype) != gm_host.dtype_type || gm_host.dtype_get (dtype) == GM_N_DTYPES)))
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "autocast to something that is no dtype");
  gm_autocast_mode_set (
      r, gm_autocast_with (gm_autocast_mode_get (r), device,
                           dtype == Py_None ? GM_N_DTYPES : (GmDtype) gm_host.dtype_get (dtype)));
  return old;
}

static const GmTracker *
call_refuse_draws (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("refuse_draws", 1, 1);
  bool old = gm_refuses_draws_get (r);
  gm_refuses_draws_set (r, gm_truth (r, args->args[0]));
  return gm_from_bool (r, old);
}

static const GmTracker *
call_fence_raise (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("fence_raise", 1, 1);
  const GmTracker *own = gm_realize (r, args->args[0]);
  if (r->stop || own->kind != &gm_kind_tuple)
    return NULL;
  for (uint32_t i = 0; i < own->n; i++)
    if (gm_realize (r, own->items[i])->kind != &gm_kind_tensor)
      return NULL;
  gm_fence_trace_raise (r, own);
  return gm_none (r);
}

static const GmTracker *
call_fence_lower (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("fence_lower", 0, 0);
  gm_fence_trace_lower (r);
  return gm_none (r);
}

/* Ends the recording at a lazy layer that has no parameters yet, for a whole function cannot
 * break where a layer becomes another one.  The layer makes its parameters for its input, and the
 * function is recorded once more.  The order differs from plain Python's only if the program has
 * drawn random numbers before, since making parameters draws. */
static const GmTracker *
call_settle_lazy (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("settle_lazy", 2, 2);
  const GmTracker *layer = gm_realize (r, args->args[0]), *input = gm_realize (r, args->args[1]);
  if (r->stop || !(r->request->env.modes & GM_MODE_FULLGRAPH))
    return NULL;
  bool first = r->builder.rng == GM_NO_ID && r->draws->len == 0 && r->n_bodies == 0;
  if (first && layer->real && input->kind == &gm_kind_tensor) {
    r->layer_input = *gm_graph_meta (r->graph, (GmValueId) gm_contents_of (r, input)->number);
    if (!gm_meta_is_symbolic (&r->layer_input))
      r->layer = layer->real;
  }
  return gm_record_break (r, GM_BREAK_LAZY_LAYER, gm_type_of (r, layer)->tp_name);
}

const GmTracker *
gm_mode_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  if (fn == gm_host.is_grad_enabled)
    return call_is_grad_enabled (r, args);
  if (fn == gm_host.set_autocast)
    return call_set_autocast (r, args);
  if (fn == gm_host.get_autocast)
    return call_get_autocast (r, args);
  if (fn == gm_host.refuse_draws)
    return call_refuse_draws (r, args);
  if (fn == gm_host.fence_raise)
    return call_fence_raise (r, args);
  if (fn == gm_host.fence_lower)
    return call_fence_lower (r, args);
  if (fn == gm_host.settle_lazy)
    return call_settle_lazy (r, args);
  if (fn == gm_host.get_default_dtype)
    return call_get_default_dtype (r, args);
  if (fn == gm_host.set_grad_mode)
    return call_set_grad_enabled (r, args);
  return NULL;
}
