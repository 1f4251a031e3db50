/* SPDX-License-Identifier: Apache-2.0
 * trace_host.c -- the recorder's table of functions about Python, the package and this CPython.
 *
 * core/trace knows neither the layout of the package's objects nor that of a CPython version's; it
 * uses GmTraceHost, which is filled here from the files that know.
 */
#include "core/capture/trace_host.h"

#include "core/objects/api_object.h"
#include "core/objects/args.h"
#include "core/objects/autograd_py.h"
#include "core/objects/cached_function.h"
#include "core/capture/callable.h"
#include "core/capture/callable_backend.h"
#include "core/capture/control.h"
#include "core/objects/device_py.h"
#include "core/objects/dict_find.h"
#include "core/objects/dict_version.h"
#include "core/objects/graph_object.h"
#include "core/capture/hook.h"
#include "core/objects/host_function.h"
#include "core/objects/call_objects.h"
#include "core/objects/types.h"

#include "core/objects/import.h"

static const GmApi *
api_get (PyObject *o, bool *inplace)
{
  *inplace = ((GmPyApi *) o)->inplace;
  return ((GmPyApi *) o)->api;
}

static GmDtype
dtype_get (PyObject *o)
{
  GmDtype d = GM_N_DTYPES;
  if (Py_TYPE (o) == &gm_py_dtype_type)
    return MIN (((GmPyDtype *) o)->dtype, GM_N_DTYPES); /* GM_N_DTYPES: a name that no tensor has */
  if (PyType_Check (o) && !gm_py_dtype_get (o, &d))
    PyErr_Clear ();
  return d;
}

static PyObject *
dtype_object (GmDtype d)
{
  PyObject *o = gm_py_dtype (d);
  Py_DECREF (o); /* the one object of a dtype lives for ever */
  return o;
}

static PyObject *
device_object (int device)
{
  PyObject *o = gm_py_device (device);
  Py_DECREF (o); /* the one object of a device lives for ever */
  return o;
}

static PyObject *
fields_type (const char *fields)
{
  PyTypeObject *type = gm_py_fields_type (fields);
  PyErr_Clear ();
  return (PyObject *) type;
}

/* Returns an attribute of the package, borrowed, since the package lives as long as the process;
 * NULL, without an exception, if it is not there. */
static PyObject *
package_attr (const char *module, const char *name)
{
  PyObject *m = gm_import (module);
  PyObject *o = m ? PyObject_GetAttrString (m, name) : NULL;
  Py_XDECREF (m);
  PyErr_Clear ();
  Py_XDECREF (o);
  return o;
}

static PyObject *
slot_owner_name (PyTypeObject *type)
{
  return GM_SLOT_OWNER_NAME (type);
}

static PyObject *
type_dict (PyTypeObject *type)
{
  PyObject *dict = GM_TYPE_GET_DICT (type);
  Py_XDECREF (dict); /* the type keeps it */
  return dict;
}

/* Imports the modules that recording needs.  False with an exception. */
static bool
load_modules (void)
{
  PyObject *ready = gm_import ("gramme._ready");
  PyObject *loaded = ready ? PyObject_CallMethod (ready, "load", NULL) : NULL;
  bool good = loaded != NULL;
  Py_XDECREF (ready);
  Py_XDECREF (loaded);
  return good;
}

/* Fills the table only once.  Importing lets other threads run, and another thread may call
 * this, too: both fill in the same values. */
bool
gm_trace_host_tell (void)
{
  static bool done;
  if (done)
    return true;
  if (!load_modules ())
    return false;
  done = true;
  gm_hook_set_module (package_attr ("gramme.nn", "Module"));
  PyObject *wrapper = PyObject_GetAttrString (Py_None, "__repr__");
  gm_trace_set_host (&(GmTraceHost){
      .tensor_type = &gm_py_tensor_type,
      .tensor_offset = offsetof (GmPyTensor, t),
      .parameter_type = (PyTypeObject *) package_attr ("gramme.nn", "Parameter"),
      .members_type = (PyTypeObject *) package_attr ("gramme.nn", "Module"),
      .api_type = &gm_py_api_function_type,
      .api_method_type = &gm_py_api_method_type,
      .api_get = api_get,
      .dtype_type = (PyTypeObject *) Py_TYPE (dtype_object (GM_F32)),
      .dtype_get = dtype_get,
      .dtype_object = dtype_object,
      .device_type = &gm_py_device_type,
      .device_object = device_object,
      .size_type = &gm_py_size_type,
      .no_grad = package_attr ("gramme", "no_grad"),
      .enable_grad = package_attr ("gramme", "enable_grad"),
      .set_grad_enabled = package_attr ("gramme", "set_grad_enabled"),
      .is_grad_enabled = package_attr ("gramme", "is_grad_enabled"),
      .set_grad_mode = package_attr ("gramme._core", "set_grad_enabled"),
      .set_autocast = package_attr ("gramme._core", "set_autocast"),
      .get_autocast = package_attr ("gramme._core", "get_autocast"),
      .refuse_draws = package_attr ("gramme._core", "refuse_draws"),
      .settle_lazy = package_attr ("gramme._core", "settle_lazy"),
      .fence_raise = package_attr ("gramme._core", "fence_raise"),
      .fence_lower = package_attr ("gramme._core", "fence_lower"),
      .get_default_dtype = package_attr ("gramme", "get_default_dtype"),
      .higher_order = package_attr ("gramme._core", "higher_order"),
      .checkpoint = package_attr ("gramme._core", "checkpoint"),
      .function_apply = package_attr ("gramme._core", "function_apply"),
      .context_type = package_attr ("gramme._core", "FunctionCtx"),
      .fields_type = fields_type,
      .requires_grad = gm_tensor_would_require_grad,
      .may_write = gm_autograd_may_write,
      .grad = gm_tensor_grad,
      .grad_object = gm_call_object_grad,
      .array_object = gm_call_object_array,
      .number_object = gm_call_object_number,
      .from_numpy = package_attr ("gramme._core", "from_numpy"),
      .as_tensor = package_attr ("gramme._core", "as_tensor"),
      .asarray = package_attr ("gramme._core", "asarray"),
      .type_dict = type_dict,
      .method_wrapper_type = Py_TYPE (wrapper),
      .marked_type = &gm_py_marked_type,
      .graph_module = gm_py_graph_module,
      .hook_handle_type = &gm_py_hook_handle_type,
      .compiled_type = (PyObject *) &gm_py_compiled_type,
      .decode = gm_code_cache_decode,
      .is_whole = gm_code_is_whole,
      .host_function = gm_py_host_function,
      .host_hook = gm_py_host_hook,
      .host_try = gm_py_host_try,
      .slot_owner_name = slot_owner_name,
      .no_dict_text = GM_NO_DICT_TEXT,
      .type_params_offset = GM_TYPE_PARAMS_OFFSET,
      .dict_version_offset = gm_dict_version_offset (),
      .counts_dicts = gm_counts_dicts (),
      .dict_counter = gm_dict_counter,
      .dict_kind_offset = gm_dict_kind_offset (),
      .dict_find = gm_dict_find,
      .identity_told = gm_identity_told,
      .dicts_quiet = gm_dicts_quiet,
      .cached = gm_cached_host (),
  });
  /* Uses dicts of types, which the host's table finds since 3.12. */
  gm_host.identity_epoch = gm_identity_epoch ();
  Py_DECREF (wrapper);
  return true;
}
