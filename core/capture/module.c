/* SPDX-License-Identifier: Apache-2.0
 * module.c -- the extension module gramme._core: its contents in one table.
 *
 * Each file of this room that exports something to Python has an initialiser here.  The order is
 * that of dependencies: errors first, the Tensor type before the API objects that add methods to
 * it.
 */
#include "core/objects/builds_py.h"
#include "core/objects/device_py.h"
#include "core/capture/callable_backend.h"
#include "core/capture/compiled_autograd.h"
#include "core/capture/control.h"
#include "core/objects/graph_object.h"
#include "core/objects/node_py.h"
#include "core/objects/api_object.h"
#include "core/objects/autograd_py.h"
#include "core/capture/bytecode_py.h"
#include "core/objects/construct.h"
#include "core/objects/dlpack.h"
#include "core/objects/function_py.h"
#include "core/objects/anomaly_py.h"
#include "core/objects/lapack_py.h"
#include "core/objects/members_py.h"
#include "core/objects/overrides.h"
#include "core/capture/planned_graph.h"
#include "core/objects/tensor_number.h"
#include "core/objects/types.h"

#include <unistd.h>

#include "core/base/threads.h"
#include "core/tensor/fence.h"
#include "core/api/api.h"
#include "core/tensor/device.h"
#include "core/tiles/tiles.h"

/* Adds the front end to the module: capture and gramme.compile.  The symbol is weak, so that an
 * extension built without the front end is a tensor library. */
int gm_py_init_frontend (PyObject *module) __attribute__ ((weak));

/* -- Functions of the process ------------------------------------------------------------------ */

static PyObject *
live_bytes (PyObject *module, PyObject *unused)
{
  return PyLong_FromSize_t (gm_alloc_live_bytes ());
}

static PyObject *
peak_bytes (PyObject *module, PyObject *unused)
{
  return PyLong_FromSize_t (gm_alloc_peak_bytes ());
}

static PyObject *
reset_peak_bytes (PyObject *module, PyObject *unused)
{
  gm_alloc_reset_peak ();
  Py_RETURN_NONE;
}

static PyObject *
manual_seed (PyObject *module, PyObject *seed)
{
  PyObject *index = PyNumber_Index (seed);
  if (!index)
    return NULL;
  uint64_t value = PyLong_AsUnsignedLongLongMask (index);
  Py_DECREF (index);
  if (PyErr_Occurred ())
    return NULL;
  gm_random_seed (value);
  Py_RETURN_NONE;
}

static PyObject *
initial_seed (PyObject *module, PyObject *unused)
{
  return PyLong_FromUnsignedLongLong (gm_random_current_seed ());
}

static PyObject *
get_rng_state (PyObject *module, PyObject *unused)
{
  int64_t two = 2;
  GmMeta meta = gm_meta_make (GM_I64, 1, &two);
  GError *error = NULL;
  GmTensor *t = gm_tensor_new (&meta, &error);
  if (!t)
    return gm_py_raise (error);
  gm_random_get_state (gm_tensor_data (t));
  return gm_py_tensor_take (t);
}

static PyObject *
set_rng_state (PyObject *module, PyObject *state)
{
  const GmTensor *t = gm_py_tensor_get (state);
  if (!t || t->meta.dtype != GM_I64 || t->meta.ndim != 1 || t->meta.sizes[0] != 2) {
    PyErr_SetString (
        PyExc_TypeError,
        "the generator's state is an int64 tensor of 2 elements, as get_rng_state() returns it");
    return NULL;
  }
  int64_t values[2];
  for (int64_t i = 0; i < 2; i++)
    values[i] = gm_tensor_get (t, &i).i;
  gm_random_set_state (values);
  Py_RETURN_NONE;
}

static PyObject *
get_num_threads (PyObject *module, PyObject *unused)
{
  return PyLong_FromUnsignedLong (gm_threads_count ());
}

static PyObject *
set_num_threads (PyObject *module, PyObject *o)
{
  long n = PyLong_AsLong (o);
  if (n == -1 && PyErr_Occurred ())
    return NULL;
  if (n < 1)
    return PyErr_Format (PyExc_RuntimeError, "the number of threads must be at least 1, not %ld",
                         n);
  gm_threads_set_count ((uint32_t) MIN (n, UINT16_MAX));
  Py_RETURN_NONE;
}

static PyObject *
set_print_options (PyObject *module, PyObject *args)
{
  GmPrintOptions o;
  long long threshold;
  if (!PyArg_ParseTuple (args, "iLiii:set_print_options", &o.precision, &threshold, &o.edge,
                         &o.line_width, &o.scientific))
    return NULL;
  if (o.precision < 0 || o.precision > 100 || threshold < 0 || o.edge < 1 || o.line_width < 1
      || o.scientific < -1 || o.scientific > 1)
    return PyErr_Format (PyExc_ValueError, "set_printoptions(): precision is 0 to 100, threshold "
                                           "is not negative, edgeitems and linewidth are "
                                           "positive, and sci_mode is True, False or None");
  o.threshold = threshold;
  gm_print_options = o;
  Py_RETURN_NONE;
}

static PyObject *
get_default_dtype (PyObject *module, PyObject *unused)
{
  return gm_py_dtype (gm_default_dtype ());
}

static PyObject *
set_default_dtype (PyObject *module, PyObject *o)
{
  GmDtype dtype;
  if (!gm_py_dtype_get (o, &dtype))
    return NULL;
  if (!gm_dtype_is_float (dtype) || !gm_dtype_computes (dtype)) {
    PyErr_Format (PyExc_TypeError,
                  "the default dtype must be a floating one that has arithmetic, not gramme.%s",
                  gm_dtypes[dtype].torch_name);
    return NULL;
  }
  gm_default_dtype_set (dtype);
  Py_RETURN_NONE;
}

static PyObject *
autocast_object (GmDtype dtype)
{
  return dtype == GM_N_DTYPES ? Py_NewRef (Py_None) : gm_py_dtype (dtype);
}

static bool
autocast_device (PyObject *name, int *device)
{
  if (PyUnicode_Check (name) && gm_device_find (PyUnicode_AsUTF8 (name), device))
    return true;
  PyErr_Format (PyExc_ValueError, "expected \"cpu\" or \"cuda\", not %R", name);
  return false;
}

static PyObject *
get_autocast (PyObject *module, PyObject *name)
{
  int device;
  return autocast_device (name, &device)
             ? autocast_object (gm_autocast_dtype (gm_autocast_mode (), device))
             : NULL;
}

static PyObject *
set_autocast (PyObject *module, PyObject *args)
{
  GmDtype dtype = GM_N_DTYPES;
  PyObject *o, *name;
  int device;
  if (!PyArg_ParseTuple (args, "OO:set_autocast", &o, &name) || !autocast_device (name, &device)
      || (o != Py_None && !gm_py_dtype_get (o, &dtype)))
    return NULL;
  if (o != Py_None && dtype != GM_BF16 && dtype != GM_F16)
    return PyErr_Format (PyExc_TypeError,
                         "autocast casts to gramme.bfloat16 or gramme.float16, not to gramme.%s",
                         gm_dtypes[dtype].torch_name);
  uint8_t old = gm_autocast_set (gm_autocast_with (gm_autocast_mode (), device, dtype));
  return autocast_object (gm_autocast_dtype (old, device));
}

static PyObject *
is_tensor (PyObject *module, PyObject *o)
{
  return PyBool_FromLong (gm_py_tensor_check (o));
}

static PyObject *
promote_types (PyObject *module, PyObject *args)
{
  PyObject *a, *b;
  GmDtype x, y;
  if (!PyArg_ParseTuple (args, "OO:promote_types", &a, &b) || !gm_py_dtype_get (a, &x)
      || !gm_py_dtype_get (b, &y))
    return NULL;
  return gm_py_dtype (gm_dtype_promote (x, y));
}

static PyObject *
float_limits (PyObject *module, PyObject *o)
{
  GmDtype dtype;
  if (!gm_py_dtype_get (o, &dtype))
    return NULL;
  if (!gm_dtype_is_float (dtype)) {
    PyErr_Format (PyExc_TypeError, "gramme.%s is not a floating dtype",
                  gm_dtypes[dtype].torch_name);
    return NULL;
  }
  return Py_BuildValue ("ddd", gm_dtype_largest (dtype), gm_dtype_epsilon (dtype),
                        gm_dtype_smallest_normal (dtype));
}

static PyObject *
refuse_draws (PyObject *module, PyObject *on)
{
  int refuse = PyObject_IsTrue (on);
  return refuse < 0 ? NULL : PyBool_FromLong (gm_draws_refuse (refuse));
}

static PyObject *
fence_raise (PyObject *module, PyObject *own)
{
  if (!PyTuple_CheckExact (own)) {
    PyErr_SetString (PyExc_TypeError, "fence_raise() takes a tuple of tensors");
    return NULL;
  }
  int n = (int) PyTuple_GET_SIZE (own);
  g_autofree GmTensor **tensors = g_new (GmTensor *, n);
  for (int i = 0; i < n; i++)
    if (!(tensors[i] = gm_py_tensor_get (PyTuple_GET_ITEM (own, i)))) {
      PyErr_SetString (PyExc_TypeError, "fence_raise() takes a tuple of tensors");
      return NULL;
    }
  gm_fence_raise (tensors, n);
  Py_RETURN_NONE;
}

static PyObject *
fence_lower (PyObject *module, PyObject *unused)
{
  if (gm_fence_lower ())
    Py_RETURN_NONE;
  PyErr_SetString (PyExc_RuntimeError, "fence_lower(): no fence stands on this thread");
  return NULL;
}

/* Initializes a lazy layer for an input; Python calls settle_lazy (layer, input).  The recorder
 * knows this function: see mode_call.c. */
static PyObject *
settle_lazy (PyObject *module, PyObject *args, PyObject *named)
{
  PyObject *settle = PyTuple_GET_SIZE (args) == 0
                         ? NULL
                         : PyObject_GetAttrString (PyTuple_GET_ITEM (args, 0), "_settle");
  PyObject *others = settle ? PyTuple_GetSlice (args, 1, PY_SSIZE_T_MAX) : NULL;
  PyObject *done = others ? PyObject_Call (settle, others, named) : NULL;
  if (PyTuple_GET_SIZE (args) == 0)
    PyErr_SetString (PyExc_TypeError, "settle_lazy() needs a layer");
  Py_XDECREF (settle);
  Py_XDECREF (others);
  return done;
}

static PyInterpreterState *owner; /* the interpreter that has initialised the module */

/* Refuses a second interpreter with an exception: the data on code objects, and the thread state
 * for callbacks, belong to a single interpreter. */
static PyObject *
check_interpreter (PyObject *module, PyObject *unused)
{
  if (PyInterpreterState_Get () != owner)
    return PyErr_Format (
        PyExc_ImportError,
        "gramme works in one interpreter of a process alone, and another one has imported it");
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
  { "check_interpreter", check_interpreter, METH_NOARGS,
    "check_interpreter()\n\nRaises ImportError in any interpreter but the first that has imported "
    "gramme." },
  { "live_bytes", live_bytes, METH_NOARGS, "live_bytes()\n\nBytes of tensor memory in use." },
  { "peak_bytes", peak_bytes, METH_NOARGS,
    "peak_bytes()\n\nThe highest live_bytes() since reset_peak_bytes()." },
  { "reset_peak_bytes", reset_peak_bytes, METH_NOARGS, "reset_peak_bytes()" },
  { "manual_seed", manual_seed, METH_O,
    "manual_seed(seed)\n\nStarts the generator of random numbers anew." },
  { "initial_seed", initial_seed, METH_NOARGS,
    "initial_seed()\n\nThe seed that the generator was started with." },
  { "get_rng_state", get_rng_state, METH_NOARGS,
    "get_rng_state()\n\nThe generator's state, an int64 tensor of 2 elements." },
  { "set_rng_state", set_rng_state, METH_O,
    "set_rng_state(state)\n\nRestores a state of get_rng_state()." },
  { "refuse_draws", refuse_draws, METH_O,
    "refuse_draws(refuse)\n\nWhether functions that draw random numbers raise RuntimeError on this "
    "thread from now on.  Returns the old value." },
  { "settle_lazy", (PyCFunction) (void (*) (void)) settle_lazy, METH_VARARGS | METH_KEYWORDS,
    "settle_lazy(layer, *args, **kwargs)\n\nlayer._settle(*args, **kwargs): a lazy layer makes its "
    "parameters for a call like this one, and becomes the plain layer." },
  { "fence_raise", fence_raise, METH_O,
    "fence_raise(own)\n\nFrom now on and until fence_lower(), a write in place on this thread to "
    "memory that exists by now raises RuntimeError, "
    "but for the memory of the tensors in the tuple `own`.  Fences nest: the newest counts." },
  { "fence_lower", fence_lower, METH_NOARGS,
    "fence_lower()\n\nTakes this thread's newest fence away.  Raises RuntimeError if there is "
    "none." },
  { "get_num_threads", get_num_threads, METH_NOARGS,
    "get_num_threads()\n\nHow many threads one operation uses at most: GRAMME_NUM_THREADS, or the "
    "cores that there are." },
  { "set_num_threads", set_num_threads, METH_O,
    "set_num_threads(n)\n\nSets how many threads one operation uses at most.  Results do not "
    "depend on it." },
  { "set_print_options", set_print_options, METH_VARARGS,
    "set_print_options(precision, threshold, edge, line_width, scientific)\n\nSee "
    "gramme.set_printoptions()." },
  { "get_default_dtype", get_default_dtype, METH_NOARGS,
    "get_default_dtype()\n\nThe dtype of new floating tensors." },
  { "set_autocast", set_autocast, METH_VARARGS,
    "set_autocast(dtype, device)\n\nWhat functions of tensors of the device, \"cpu\" or \"cuda\", "
    "cast to on this thread from now on, None: nothing.\n"
    "Returns the old value." },
  { "get_autocast", get_autocast, METH_O,
    "get_autocast(device)\n\nWhat functions of tensors of the device cast to on this thread, or "
    "None." },
  { "set_default_dtype", set_default_dtype, METH_O,
    "set_default_dtype(dtype)\n\nSets the dtype of new floating tensors." },
  { "is_tensor", is_tensor, METH_O, "is_tensor(object)\n\nWhether it is a gramme.Tensor." },
  { "promote_types", promote_types, METH_VARARGS,
    "promote_types(a, b)\n\nThe dtype of an operation on tensors of both dtypes." },
  { "float_limits", float_limits, METH_O,
    "float_limits(dtype)\n\n(largest, epsilon, smallest normal number) of a floating dtype." },
  { 0 },
};

/* Gives a process that sets no seed a random seed, of 53 bits, so that a float can hold it. */
static void
seed_of_process (void)
{
  uint64_t seed;
  if (getentropy (&seed, sizeof seed) != 0)
    seed = (uint64_t) g_get_real_time () * 0x9e3779b97f4a7c15u ^ (uint64_t) getpid ();
  gm_random_seed (seed >> 11);
}

static int
init_functions (PyObject *module)
{
  PyMethodDef *const tables[] = { functions,
                                  gm_py_construct_functions,
                                  gm_py_dlpack_functions,
                                  gm_py_autograd_functions,
                                  gm_py_node_functions,
                                  gm_py_bytecode_functions };
  for (size_t i = 0; i < G_N_ELEMENTS (tables); i++)
    if (PyModule_AddFunctions (module, tables[i]) < 0)
      return -1;
  if (PyModule_AddIntConstant (module, "DEFAULT_SEED", GM_DEFAULT_SEED) < 0)
    return -1;
  seed_of_process ();
  return PyModule_AddStringConstant (module, "__version__", PACKAGE_VERSION);
}

/* -- The module -------------------------------------------------------------------------------- */

/* Fails with an exception on a CPU without AVX2: the import fails, rather than the first
 * addition. */
static int
check_cpu (PyObject *module)
{
  const char *why = NULL;
  if (gm_tiles_get (&why))
    return 0;
  PyErr_Format (PyExc_ImportError, "gramme cannot run on this CPU: %s",
                why ? why : "unknown reason");
  return -1;
}

static int (*const initialisers[]) (PyObject *module) = {
  gm_py_init_overrides,     check_cpu,
  gm_py_init_errors,        gm_py_init_types,
  gm_py_init_tensor,        gm_py_init_number,
  gm_py_init_api,           gm_py_init_autograd,
  gm_py_init_function,      init_functions,
  gm_py_init_frontend,      gm_py_init_control,
  gm_py_init_graph,         gm_py_init_callable_backend,
  gm_py_init_planned_graph, gm_py_init_compiled_autograd,
  gm_py_init_builds,        gm_py_init_device,
  gm_py_init_lapack,        gm_py_init_anomaly,
  gm_py_init_members,
};

static struct PyModuleDef definition = {
  PyModuleDef_HEAD_INIT,
  .m_name = "gramme._core",
  .m_doc = "The C side of gramme.  Use the package gramme.",
  .m_size = -1,
};

PyMODINIT_FUNC
PyInit__core (void)
{
  PyObject *module = PyModule_Create (&definition);
  owner = PyInterpreterState_Get ();
  for (size_t i = 0; module && i < G_N_ELEMENTS (initialisers); i++)
    if (initialisers[i] && initialisers[i](module) < 0)
      Py_CLEAR (module);
  return module;
}
