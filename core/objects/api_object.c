/* SPDX-License-Identifier: Apache-2.0
 * api_object.c -- calling a row of the API table from Python.
 *
 * There are two ways through.  A POINTWISE row whose arguments are tensors of one dtype that its op
 * computes in needs no binding and no promotion: it goes straight to the tape.  All other calls
 * become GmArg values and go through gm_api_call, which binds, promotes and checks.  Both end in
 * the same op, so the short way must only ever be taken where the long one would change nothing;
 * `direct` says for which dtypes that is so.
 */
#include "core/objects/api_object.h"
#include "core/objects/device_py.h"

#include "core/objects/args.h"
#include "core/objects/overrides.h"
#include "core/objects/types.h"

#include "core/objects/import.h"

#include <stddef.h>
#include <string.h>

/* -- The short way ----------------------------------------------------------------------------- */

/* For each op a set of dtypes, bit d for dtype d: operands of such a dtype go straight to the
 * op. */
static uint16_t direct[GM_N_OPS];

static void
fill_direct (void)
{
  for (int op = 0; op < GM_N_OPS; op++)
    for (int d = 0; d < GM_N_DTYPES && gm_ops[op].name; d++) {
      GmCategory category = gm_dtypes[d].category;
      bool ok = false;
      if (gm_ops[op].family == GM_FAMILY_POINTWISE)
        switch ((GmTypes) gm_ops[op].types) {
        case GM_TYPES_ARITH:
        case GM_TYPES_COMPARE:
          ok = category != GM_CATEGORY_BOOL;
          break;
        case GM_TYPES_FLOAT:
          ok = category == GM_CATEGORY_FLOAT;
          break;
        case GM_TYPES_LOGICAL:
          ok = category == GM_CATEGORY_BOOL;
          break;
        case GM_TYPES_BITWISE:
          ok = category != GM_CATEGORY_FLOAT;
          break;
        case GM_TYPES_SELECT:
        case GM_TYPES_ANY:
          break;
        }
      if ((op == GM_OP_floor_divide || op == GM_OP_remainder || op == GM_OP_pow)
          && category != GM_CATEGORY_FLOAT)
        ok = false; /* division by zero and negative powers of integers are checked on the long way
                     */
      if (ok && gm_op_accepts ((GmOp) op, (GmDtype) d))
        direct[op] |= (uint16_t) (1u << d);
    }
}

GmOp
gm_py_api_op (const GmApi *api)
{
  GmOp op = api->op ? api->op : gm_op_find (api->name, strlen (api->name));
  return gm_ops[op].family == GM_FAMILY_POINTWISE ? op : GM_OP_NONE;
}

static inline bool
is_direct (GmOp op, GmTensor *const *in, int n)
{
  uint8_t dtype = in[0]->meta.dtype;
  if (!(direct[op] >> dtype & 1))
    return false;
  for (int i = 1; i < n; i++)
    if (in[i]->meta.dtype != dtype)
      return false;
  return true;
}

static PyObject *
run_direct (GmOp op, bool inplace, GmTensor *const *in, int n)
{
  GError *error = NULL;
  if (inplace)
    return gm_autograd_into (in[0], op, in, n, NULL, &error) ? gm_py_tensor_wrap (in[0])
                                                             : gm_py_raise (error);
  GmTensor *t = gm_autograd_op (op, in, n, NULL, &error);
  return t ? gm_py_tensor_take (t) : gm_py_raise (error);
}

/* Runs a binary op on t and a Python number, converted to the dtype of t, as promotion demands
 * for every floating tensor and real number.  Returns a new reference; NULL with an exception, or
 * without an exception where gm_api_call has to handle the operands. */
static PyObject *
run_direct_number (GmOp op, bool inplace, GmTensor *t, PyObject *number, bool number_first)
{
  GmScalar s;
  if (!gm_dtype_is_float (t->meta.dtype) || op == GM_OP_pow || !is_direct (op, &t, 1))
    return NULL;
  if (PyFloat_CheckExact (number)) {
    s = gm_scalar_float (PyFloat_AS_DOUBLE (number));
  } else if (PyLong_CheckExact (number)) {
    int overflow;
    s = gm_scalar_int (PyLong_AsLongLongAndOverflow (number, &overflow));
    if (overflow)
      return NULL;
  } else {
    return NULL;
  }
  GError *error = NULL;
  GmTensor *scalar = gm_tensor_new_scalar (s, (GmDtype) t->meta.dtype, &error);
  if (!scalar)
    return gm_py_raise (error);
  GmTensor *in[2] = { number_first ? scalar : t, number_first ? t : scalar };
  PyObject *result = run_direct (op, inplace, in, 2);
  gm_tensor_unref (scalar);
  return result;
}

/* -- The long way ------------------------------------------------------------------------------ */

/* Warns, as torch does, for each tensor in `out` (the argument out=) that had elements and whose
 * shape differs from that in `before`.  False, with an exception: the warning is an error. */
static bool
tell_resized (const GmArg *out, const GmMeta *before)
{
  const GmArg *all = out->kind == GM_ARG_LIST ? out->items : out;
  for (int i = 0; i < (out->kind == GM_ARG_LIST ? out->n : 1); i++) {
    const GmMeta *now = all[i].kind == GM_ARG_TENSOR ? &gm_tensor_from_val (all[i].v)->meta : NULL;
    if (!now || gm_meta_same_shape (now, &before[i]) || gm_meta_numel (&before[i]) == 0)
      continue;
    g_autofree char *was = gm_shape_text (before[i].ndim, before[i].sizes);
    g_autofree char *is = gm_shape_text (now->ndim, now->sizes);
    if (PyErr_WarnFormat (PyExc_UserWarning, 1,
                          "An output with one or more elements was resized since it had shape %s, "
                          "which does not match "
                          "the required output shape %s. Pass a tensor of that shape, or resize it "
                          "to 0 elements first",
                          was, is))
      return false;
  }
  return true;
}

/* Returns an array with the metas of the tensors in an argument, a tensor or a list of tensors,
 * of which there are few.  The caller frees. */
static GmMeta *
metas_of (const GmArg *out)
{
  const GmArg *all = out->kind == GM_ARG_LIST ? out->items : out;
  int n = out->kind == GM_ARG_LIST ? out->n : 1;
  GmMeta *metas = g_new0 (GmMeta, n + 1);
  for (int i = 0; i < n; i++)
    if (all[i].kind == GM_ARG_TENSOR)
      metas[i] = gm_tensor_from_val (all[i].v)->meta;
  return metas;
}

static PyObject *
run_bound (const GmApi *api, bool inplace, const GmArg *args, int n, const char *const *names,
           const GmArg *keywords, int n_keywords)
{
  GmEagerBuilder b;
  const GmArg *out = NULL;
  for (int k = 0; k < n_keywords && !out; k++)
    out = strcmp (names[k], "out") == 0 ? &keywords[k] : NULL;
  g_autofree GmMeta *before = out ? metas_of (out) : NULL;
  gm_eager_builder_init (&b);
  GmArg r = gm_api_call (api, inplace, &b.base, args, n, names, keywords, n_keywords);
  PyObject *result;
  if (b.base.error)
    result = gm_py_raise (g_steal_pointer (&b.base.error));
  else
    result = out && !tell_resized (out, before) ? NULL : gm_py_from_arg (&r);
  gm_arg_clear (&r);
  gm_eager_builder_clear (&b);
  return result;
}

PyObject *
gm_py_api_run (const GmApi *api, bool inplace, const GmArg *args, int n)
{
  return run_bound (api, inplace, args, n, NULL, NULL, 0);
}

PyObject *
gm_py_api_unary (const GmApi *api, GmOp op, PyObject *a)
{
  PyObject *result;
  if (G_UNLIKELY (gm_py_overrides) && gm_py_override_operator (api, false, a, NULL, &result))
    return result;
  GmTensor *t = gm_py_tensor_get (a);
  if (is_direct (op, &t, 1))
    return run_direct (op, false, &t, 1);
  GmArg arg = { .kind = GM_ARG_TENSOR, .v = gm_val_from_tensor (t) };
  return gm_py_api_run (api, false, &arg, 1);
}

PyObject *
gm_py_api_binary (const GmApi *api, GmOp op, bool inplace, PyObject *a, PyObject *b)
{
  PyObject *result = NULL;
  if (G_UNLIKELY (gm_py_overrides) && gm_py_override_operator (api, inplace, a, b, &result))
    return result;
  GmTensor *in[2] = { gm_py_tensor_get (a), gm_py_tensor_get (b) };
  if (in[0] && in[1] && is_direct (op, in, 2))
    return run_direct (op, inplace, in, 2);
  if (op && (!in[0] != !in[1])) {
    result = run_direct_number (op, inplace, in[0] ? in[0] : in[1], in[0] ? b : a, !in[0]);
    if (result || PyErr_Occurred ())
      return result;
  }
  GmPyArgs x;
  gm_py_args_init (&x, GM_PY_ARGS_ARRAYS);
  GmArg args[2];
  if (gm_py_args_add (&x, a, &args[0]) && gm_py_args_add (&x, b, &args[1])) {
    GmArgKind other = in[0] ? args[1].kind : args[0].kind;
    if (other == GM_ARG_TENSOR || other == GM_ARG_INT || other == GM_ARG_FLOAT
        || other == GM_ARG_BOOL)
      result = run_bound (api, inplace, args, 2, NULL, NULL, 0);
    else
      result = Py_NewRef (Py_NotImplemented);
  } else if (PyErr_ExceptionMatches (PyExc_TypeError)) {
    PyErr_Clear (); /* Python tries the other operand, then raises an error that names both types */
    if (!(gm_py_is_override (a) || gm_py_is_override (b))
        || !gm_py_override_operator (api, inplace, a, b, &result))
      result = Py_NewRef (Py_NotImplemented);
  }
  gm_py_args_clear (&x);
  return result;
}

/* -- Calls ------------------------------------------------------------------------------------- */

#define MAX_POSITIONAL 32

static bool
row_has (const GmApi *api, const char *name)
{
  for (int i = 0; i < api->n_args; i++)
    if (strcmp (api->arg_names[i], name) == 0)
      return true;
  return false;
}

/* Value of the argument requires_grad= of functions that make tensors.  No builder can act on
 * it, since the flag belongs to the tape. */
typedef struct {
  bool requires_grad;
} Extra;

/* Reads the keyword argument `name` if it is requires_grad= and the row has it.  Returns 1 if it
 * was read, 0 if not, -1 with an exception. */
static int
take_extra (const GmApi *api, const char *name, PyObject *value, Extra *extra)
{
  if (strcmp (name, "requires_grad") == 0 && row_has (api, name)) {
    int yes = PyObject_IsTrue (value);
    extra->requires_grad = yes == 1;
    return yes < 0 ? -1 : 1;
  }
  return 0;
}

static PyObject *call_long (const GmPyApi *self, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames);

/* True if the call is x.to (...) or x.cpu () and moves the tensor to another device, which this
 * function then does, before the row gets the rest of the arguments: *result is the value to
 * return, NULL with an exception.  False, with nothing done: the row can handle the call. */
static bool
moves (const GmPyApi *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
       PyObject **result)
{
  bool to = strcmp (self->api->name, "to") == 0, cpu = strcmp (self->api->name, "cpu") == 0;
  Py_ssize_t n_names = kwnames ? PyTuple_GET_SIZE (kwnames) : 0, n = 0;
  GmTensor *t = (to || cpu) && nargs > 0 ? gm_py_tensor_get (args[0]) : NULL;
  if (!t)
    return false;
  int from = t->meta.device, device = cpu ? GM_DEVICE_CPU : from;
  bool said = false; /* true if a device is among the arguments, which the row must not get */
  PyObject *rest[MAX_POSITIONAL];
  *result = NULL;
  for (Py_ssize_t i = 1; i < nargs + n_names && n + 1 < MAX_POSITIONAL; i++) {
    bool named =
        i >= nargs
        && PyUnicode_CompareWithASCIIString (PyTuple_GET_ITEM (kwnames, i - nargs), "device") == 0;
    if (named ? args[i] != Py_None
              : i < nargs
                    && (PyUnicode_Check (args[i]) || PyLong_CheckExact (args[i])
                        || Py_TYPE (args[i]) == &gm_py_device_type)) {
      if (!gm_py_device_get (args[i], &device))
        return true;
      said = true;
    } else if (i < nargs && gm_py_tensor_get (args[i])) {
      device = gm_py_tensor_get (args[i])->meta.device;
      rest[++n] = args[i];
    } else if (i < nargs) {
      rest[++n] = args[i];
    }
  }
  if (device == from && (!said || from == GM_DEVICE_CPU))
    return false; /* the row can do everything */
  PyObject *moved = gm_py_tensor_move (args[0], device);
  if (!moved || (n == 0 && n_names == 0)) {
    *result = moved;
    return true;
  }
  /* Keywords but `device` mean the same for the row: dtype, copy, non_blocking. */
  PyObject *names = PyTuple_New (0), *all[MAX_POSITIONAL];
  rest[0] = moved;
  memcpy (all, rest, sizeof (PyObject *) * (size_t) (n + 1));
  Py_ssize_t total = n + 1;
  for (Py_ssize_t i = 0; i < n_names && names && total < MAX_POSITIONAL; i++) {
    PyObject *name = PyTuple_GET_ITEM (kwnames, i);
    if (PyUnicode_CompareWithASCIIString (name, "device") == 0)
      continue;
    PyObject *longer = PyTuple_Pack (1, name),
             *joined = longer ? PySequence_Concat (names, longer) : NULL;
    Py_XDECREF (longer);
    Py_DECREF (names);
    names = joined;
    all[total++] = args[nargs + i];
  }
  if (names)
    *result = total == 1 ? Py_NewRef (moved) : call_long (self, all, n + 1, names);
  Py_XDECREF (names);
  Py_DECREF (moved);
  return true;
}

/* True if the pending exception is a TypeError for an argument and the argument's class, which
 * is no tensor class, overrides the call by __torch_function__: then *result is the value to
 * return, NULL with an exception.  False: the exception is kept. */
static bool
asks_another (const GmPyApi *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
              PyObject **result)
{
  if (!PyErr_ExceptionMatches (PyExc_TypeError))
    return false;
  PyObject *type, *value, *traceback;
  PyErr_Fetch (&type, &value, &traceback);
  bool taken = gm_py_override_call ((PyObject *) self, args, nargs, kwnames, result);
  if (!taken) {
    PyErr_Restore (type, value, traceback);
    return false;
  }
  Py_XDECREF (type);
  Py_XDECREF (value);
  Py_XDECREF (traceback);
  return true;
}

static PyObject *
call_long (const GmPyApi *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  const GmApi *api = self->api;
  PyObject *moved;
  if (moves (self, args, nargs, kwnames, &moved))
    return moved;
  Py_ssize_t n_names = kwnames ? PyTuple_GET_SIZE (kwnames) : 0;
  if (nargs > MAX_POSITIONAL || n_names > GM_API_MAX_ARGS) {
    PyErr_Format (PyExc_TypeError, "%s() got %zd arguments; it is %s(%s)", api->name,
                  nargs + n_names, api->name, api->signature);
    return NULL;
  }
  GmPyArgs x;
  gm_py_args_init (&x, GM_PY_ARGS_PLAIN);
  GmArg positional[MAX_POSITIONAL], keywords[GM_API_MAX_ARGS];
  const char *names[GM_API_MAX_ARGS];
  positional[0].kind = keywords[0].kind = GM_ARG_ABSENT;
  names[0] = NULL;
  Extra extra = { 0 };
  bool ok = true;
  int n_keywords = 0;
  for (Py_ssize_t i = 0; i < nargs && ok; i++)
    ok = gm_py_args_add (&x, args[i], &positional[i]);
  for (Py_ssize_t i = 0; i < n_names && ok; i++) {
    const char *name = PyUnicode_AsUTF8 (PyTuple_GET_ITEM (kwnames, i));
    int taken = name ? take_extra (api, name, args[nargs + i], &extra) : -1;
    ok = taken >= 0;
    if (taken == 0) {
      names[n_keywords] = name;
      ok = gm_py_args_add (&x, args[nargs + i], &keywords[n_keywords++]);
    }
  }
  PyObject *result =
      ok ? run_bound (api, self->inplace, positional, (int) nargs, names, keywords, n_keywords)
         : NULL;
  gm_py_args_clear (&x);
  if (!ok && asks_another (self, args, nargs, kwnames, &result))
    return result;
  if (result && extra.requires_grad) {
    GmTensor *t = gm_py_tensor_get (result);
    GError *error = NULL;
    if (t && !gm_tensor_set_requires_grad (t, true, &error)) {
      Py_DECREF (result);
      return gm_py_raise (error);
    }
  }
  return result;
}

static PyObject *
vectorcall (PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
  const GmPyApi *self = (const GmPyApi *) callable;
  const GmApi *api = self->api;
  Py_ssize_t nargs = PyVectorcall_NARGS (nargsf);
  PyObject *taken;
  if (G_UNLIKELY (gm_py_overrides) && gm_py_override_call (callable, args, nargs, kwnames, &taken))
    return taken;
  if (self->op && nargs == gm_ops[self->op].arity
      && (!kwnames || PyTuple_GET_SIZE (kwnames) == 0)) {
    GmTensor *in[3] = { NULL };
    int n = 0;
    while (n < nargs && (in[n] = gm_py_tensor_get (args[n])))
      n++;
    if (n == nargs && is_direct (self->op, in, n))
      return run_direct (self->op, self->inplace, in, n);
  }
  if (Py_TYPE (callable) == &gm_py_api_method_type
      && (nargs < 1 || !gm_py_tensor_check (args[0]))) {
    PyErr_Format (PyExc_TypeError, "Tensor.%s%s() needs a Tensor as its first argument", api->name,
                  self->inplace ? "_" : "");
    return NULL;
  }
  return call_long (self, args, nargs, kwnames);
}

/* -- The objects ------------------------------------------------------------------------------- */

static PyObject *
api_name (PyObject *self, void *closure)
{
  const GmPyApi *o = (const GmPyApi *) self;
  return PyUnicode_FromFormat ("%s%s", o->api->name, o->inplace ? "_" : "");
}

static PyObject *
api_qualname (PyObject *self, void *closure)
{
  const GmPyApi *o = (const GmPyApi *) self;
  bool method = Py_TYPE (self) == &gm_py_api_method_type;
  return PyUnicode_FromFormat ("%s%s%s", method ? "Tensor." : "", o->api->name,
                               o->inplace ? "_" : "");
}

static PyObject *
api_module (PyObject *self, void *closure)
{
  const GmPyApi *o = (const GmPyApi *) self;
  bool nn = Py_TYPE (self) == &gm_py_api_function_type && !(o->api->where & GM_API_FUNCTION);
  return PyUnicode_FromString (nn ? "gramme.nn.functional" : "gramme");
}

static PyObject *
api_doc (PyObject *self, void *closure)
{
  const GmPyApi *o = (const GmPyApi *) self;
  return PyUnicode_FromFormat ("%s%s(%s)\n\n%s%s", o->api->name, o->inplace ? "_" : "",
                               o->api->signature, o->api->doc ? o->api->doc : "",
                               o->inplace ? "\nThe result is written into the first argument."
                                          : "");
}

static PyObject *
api_text_signature (PyObject *self, void *closure)
{
  return PyUnicode_FromFormat ("(%s)", ((const GmPyApi *) self)->api->signature);
}

/* Implements __signature__: returns an inspect.Signature.  The row's text is a lambda's
 * parameter list, so Python itself parses it. */
static PyObject *
api_signature (PyObject *self, void *closure)
{
  PyObject *inspect = gm_import ("inspect");
  PyObject *globals = PyDict_New ();
  PyObject *text =
      PyUnicode_FromFormat ("lambda %s: None", ((const GmPyApi *) self)->api->signature);
  PyObject *lambda = NULL, *signature = NULL;
  if (inspect && globals && text
      && PyDict_SetItemString (globals, "__builtins__", PyEval_GetBuiltins ()) == 0) {
    const char *source = PyUnicode_AsUTF8 (text);
    lambda = source ? PyRun_String (source, Py_eval_input, globals, globals) : NULL;
    if (!lambda
        && PyErr_ExceptionMatches (PyExc_SyntaxError)) /* torch has an argument named `from` */
      PyErr_SetString (PyExc_AttributeError, "__signature__");
  }
  if (lambda)
    signature = PyObject_CallMethod (inspect, "signature", "O", lambda);
  Py_XDECREF (lambda);
  Py_XDECREF (text);
  Py_XDECREF (globals);
  Py_XDECREF (inspect);
  return signature;
}

static PyObject *
api_repr (PyObject *self)
{
  const GmPyApi *o = (const GmPyApi *) self;
  bool method = Py_TYPE (self) == &gm_py_api_method_type;
  return PyUnicode_FromFormat ("<gramme %s %s%s%s>", method ? "method" : "function",
                               method ? "Tensor." : "", o->api->name, o->inplace ? "_" : "");
}

static PyObject *
api_reduce (PyObject *self, PyObject *unused)
{
  /* A global of its module, so that copy and deepcopy keep the object. */
  return api_qualname (self, NULL);
}

static PyObject *
bind (PyObject *self, PyObject *object, PyObject *type)
{
  return object && object != Py_None ? PyMethod_New (self, object) : Py_NewRef (self);
}

static PyGetSetDef api_getset[] = {
  { "__name__", api_name, NULL, NULL, NULL },
  { "__qualname__", api_qualname, NULL, NULL, NULL },
  { "__module__", api_module, NULL, NULL, NULL },
  { "__doc__", api_doc, NULL, NULL, NULL },
  { "__text_signature__", api_text_signature, NULL, NULL, NULL },
  { "__signature__", api_signature, NULL, NULL, NULL },
  { 0 },
};

static PyMethodDef api_methods[] = {
  { "__reduce__", api_reduce, METH_NOARGS, NULL },
  { 0 },
};

PyTypeObject gm_py_api_function_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.ApiFunction",
  .tp_basicsize = sizeof (GmPyApi),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_vectorcall_offset = offsetof (GmPyApi, vectorcall),
  .tp_call = PyVectorcall_Call,
  .tp_repr = api_repr,
  .tp_getset = api_getset,
  .tp_methods = api_methods,
};

PyTypeObject gm_py_api_method_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.ApiMethod",
  .tp_basicsize = sizeof (GmPyApi),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION
              | Py_TPFLAGS_METHOD_DESCRIPTOR,
  .tp_vectorcall_offset = offsetof (GmPyApi, vectorcall),
  .tp_call = PyVectorcall_Call,
  .tp_repr = api_repr,
  .tp_getset = api_getset,
  .tp_methods = api_methods,
  .tp_descr_get = bind,
};

/* Adds the callable object of a row to `dict`, under its name.  Returns -1 with an exception. */
static int
add (PyObject *dict, PyTypeObject *type, const GmApi *api, bool inplace)
{
  GmPyApi *o = PyObject_New (GmPyApi, type);
  if (!o)
    return -1;
  o->vectorcall = vectorcall;
  o->api = api;
  o->inplace = inplace;
  o->op = gm_py_api_op (api);
  g_autofree char *name = g_strconcat (api->name, inplace ? "_" : "", NULL);
  int bad = PyDict_SetItemString (dict, name, (PyObject *) o);
  Py_DECREF (o);
  return bad;
}

/* Makes the Python functions in `dict` methods of Tensor, beside the rows'.  The package calls
 * add_methods (dict) while it is imported, and again when it is reloaded, which replaces them. */
static PyObject *
add_methods (PyObject *module, PyObject *dict)
{
  static PyObject *added; /* a set of the names */
  PyObject *name, *function, *methods = gm_py_tensor_type.tp_dict;
  Py_ssize_t at = 0;
  if (!PyDict_Check (dict)) {
    PyErr_SetString (PyExc_TypeError, "add_methods() takes a dict of names and functions");
    return NULL;
  }
  if (!added && !(added = PySet_New (NULL)))
    return NULL;
  while (PyDict_Next (dict, &at, &name, &function)) {
    int there = PyDict_Contains (methods, name), ours = PySet_Contains (added, name);
    if (there > 0 && ours == 0)
      return PyErr_Format (PyExc_ValueError, "Tensor.%U is there already", name);
    if (there < 0 || ours < 0 || PyDict_SetItem (methods, name, function) < 0
        || PySet_Add (added, name) < 0)
      return NULL;
  }
  PyType_Modified (&gm_py_tensor_type);
  Py_RETURN_NONE;
}

static PyMethodDef functions_of_api[] = {
  { "add_methods", add_methods, METH_O, NULL },
  { 0 },
};

int
gm_py_init_api (PyObject *module)
{
  fill_direct ();
  if (PyType_Ready (&gm_py_api_function_type) < 0 || PyType_Ready (&gm_py_api_method_type) < 0
      || PyModule_AddType (module, &gm_py_api_function_type) < 0
      || PyModule_AddType (module, &gm_py_api_method_type) < 0
      || PyModule_AddFunctions (module, functions_of_api) < 0)
    return -1;
  PyObject *functions = PyDict_New (), *nn = PyDict_New (), *methods = gm_py_tensor_type.tp_dict;
  int bad = !functions || !nn;
  size_t n;
  const GmApi *rows = gm_api_rows (&n);
  for (size_t i = 0; i < n && !bad; i++) {
    const GmApi *api = &rows[i];
    if (api->where & GM_API_FUNCTION)
      bad |= add (functions, &gm_py_api_function_type, api, false);
    if (api->where & GM_API_NN)
      bad |= add (nn, &gm_py_api_function_type, api, false);
    if (api->where & GM_API_METHOD)
      bad |= add (methods, &gm_py_api_method_type, api, false);
    if (api->where & GM_API_INPLACE)
      bad |= add (methods, &gm_py_api_method_type, api, true);
    bool writes = api->where & GM_API_INPLACE && !(api->where & GM_API_RESHAPES);
    if (writes && api->where & GM_API_FUNCTION)
      bad |= add (functions, &gm_py_api_function_type, api, true);
    if (writes && api->where & GM_API_NN)
      bad |= add (nn, &gm_py_api_function_type, api, true);
  }
  PyType_Modified (&gm_py_tensor_type);
  if (!bad)
    bad = PyModule_AddObjectRef (module, "functions", functions)
          | PyModule_AddObjectRef (module, "nn_functions", nn);
  Py_XDECREF (functions);
  Py_XDECREF (nn);
  return bad ? -1 : 0;
}
