/* SPDX-License-Identifier: Apache-2.0
 * overrides.c -- __torch_function__.
 *
 * A class with this method is asked before a function runs: type (argument).__torch_function__
 * (func, types, args, kwargs), where func is the function that the program called: a function of
 * gramme, a method of Tensor, or the __get__ of one of its attributes.  Functions and methods of
 * the API table and operators check their arguments when they are called.  Attributes and the
 * methods written in C are found through the tp_getattro that such a class gets when it is made, so
 * plain tensors read theirs as before.  Functions written in Python are covered by the functions
 * that they call.
 *
 * The order is torch's: the innermost mode; then arguments from left to right, those of subclasses
 * before those of their bases, one for each class.  A result of NotImplemented passes the call on.
 */
#include "core/objects/overrides.h"

#include <stddef.h>
#include <string.h>

#include "core/base/thread.h"

#define MAX_ASKED 16

bool gm_py_overrides;

static GM_THREAD bool off;         /* true: no class is asked, as in DisableTorchFunctionSubclass */
static GM_THREAD PyObject *modes;  /* a list, or NULL; the innermost is the last */
static PyObject *name_of_function; /* "__torch_function__" */
static PyObject *name_of_dispatch; /* "__torch_dispatch__" */
/* Function object that disables overrides: a class whose __torch_function__ it is counts as a
 * plain Tensor. */
static PyObject *disabled;

/* -- Finding overrides ------------------------------------------------------------------------- */

bool
gm_py_is_override (PyObject *o)
{
  PyTypeObject *type = Py_TYPE (o);
  if (type == &gm_py_tensor_type || type == &PyLong_Type || type == &PyFloat_Type
      || type == &PyBool_Type || type == &PyTuple_Type || type == &PyList_Type
      || type == &PyUnicode_Type || o == Py_None)
    return false;
  PyObject *found = off ? NULL : _PyType_Lookup (type, name_of_function);
  return found && found != disabled;
}

bool
gm_py_function_mode_on (void)
{
  return modes && PyList_GET_SIZE (modes) > 0;
}

typedef struct {
  PyObject *items[MAX_ASKED]; /* borrowed */
  int n;
} Asked;

static void
add_asked (Asked *asked, PyObject *o)
{
  if (!gm_py_is_override (o) || asked->n == MAX_ASKED)
    return;
  int at = asked->n;
  for (int i = asked->n - 1; i >= 0; i--) {
    if (Py_TYPE (asked->items[i]) == Py_TYPE (o))
      return;
    if (PyType_IsSubtype (Py_TYPE (o), Py_TYPE (asked->items[i])))
      at = i;
  }
  memmove (asked->items + at + 1, asked->items + at,
           (size_t) (asked->n - at) * sizeof *asked->items);
  asked->items[at] = o;
  asked->n++;
}

static void
ask (Asked *asked, PyObject *o)
{
  if (!PyTuple_Check (o) && !PyList_Check (o)) {
    add_asked (asked, o);
    return;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE (o); i++)
    add_asked (asked, PySequence_Fast_GET_ITEM (o, i));
}

/* -- Calling overrides ------------------------------------------------------------------------- */

/* Calls the innermost mode's __torch_function__; the mode does not see the calls that this
 * makes. New reference, NULL with an exception. */
static PyObject *
call_mode (PyObject *func, PyObject *types, PyObject *args, PyObject *kwargs)
{
  Py_ssize_t n = PyList_GET_SIZE (modes);
  PyObject *mode = Py_NewRef (PyList_GET_ITEM (modes, n - 1));
  if (PyList_SetSlice (modes, n - 1, n, NULL) < 0) {
    Py_DECREF (mode);
    return NULL;
  }
  PyObject *method = PyObject_GetAttr (mode, name_of_function);
  PyObject *result =
      method ? PyObject_CallFunctionObjArgs (method, func, types, args, kwargs, NULL) : NULL;
  PyObject *type, *value, *traceback;
  PyErr_Fetch (&type, &value, &traceback);
  int bad = PyList_Append (modes, mode);
  if (bad) {
    Py_XDECREF (type);
    Py_XDECREF (value);
    Py_XDECREF (traceback);
    Py_CLEAR (result);
  } else {
    PyErr_Restore (type, value, traceback);
  }
  Py_XDECREF (method);
  Py_DECREF (mode);
  return result;
}

static PyObject *
refused (PyObject *func, PyObject *types)
{
  PyErr_Format (
      PyExc_TypeError,
      "no implementation of __torch_function__ was found for %R on types that have one: %R", func,
      types);
  return NULL;
}

/* Calls the mode, then the overriding arguments in `asked`, until a result is not
 * NotImplemented. New reference, NULL with an exception. */
static PyObject *
dispatch (PyObject *func, const Asked *asked, PyObject *args, PyObject *kwargs)
{
  PyObject *types = PyTuple_New (asked->n), *result = NULL;
  Asked kept = *asked;
  for (int i = 0; types && i < kept.n; i++) {
    PyTuple_SET_ITEM (types, i, Py_NewRef ((PyObject *) Py_TYPE (kept.items[i])));
    Py_INCREF (kept.items[i]);
  }
  if (!types)
    return NULL;
  if (gm_py_function_mode_on ())
    result = call_mode (func, types, args, kwargs);
  for (int i = 0; i < kept.n && (result == Py_NotImplemented || (!result && !PyErr_Occurred ()));
       i++) {
    Py_CLEAR (result);
    PyObject *method = PyObject_GetAttr (kept.items[i], name_of_function);
    result = method ? PyObject_CallFunctionObjArgs (method, func, types, args, kwargs, NULL) : NULL;
    Py_XDECREF (method);
  }
  if (result == Py_NotImplemented) {
    Py_DECREF (result);
    result = refused (func, types);
  }
  for (int i = 0; i < kept.n; i++)
    Py_DECREF (kept.items[i]);
  Py_DECREF (types);
  return result;
}

bool
gm_py_override_call (PyObject *func, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                     PyObject **result)
{
  Py_ssize_t n_names = kwnames ? PyTuple_GET_SIZE (kwnames) : 0;
  Asked asked = { .n = 0 };
  for (Py_ssize_t i = 0; i < nargs + n_names; i++)
    ask (&asked, args[i]);
  if (asked.n == 0 && !gm_py_function_mode_on ())
    return false;
  PyObject *positional = PyTuple_New (nargs), *kwargs = PyDict_New ();
  *result = NULL;
  for (Py_ssize_t i = 0; positional && i < nargs; i++)
    PyTuple_SET_ITEM (positional, i, Py_NewRef (args[i]));
  int bad = !positional || !kwargs;
  for (Py_ssize_t i = 0; i < n_names && !bad; i++)
    bad = PyDict_SetItem (kwargs, PyTuple_GET_ITEM (kwnames, i), args[nargs + i]) < 0;
  if (!bad)
    *result = dispatch (func, &asked, positional, kwargs);
  Py_XDECREF (positional);
  Py_XDECREF (kwargs);
  return true;
}

/* -- Operators --------------------------------------------------------------------------------- */

/* Rows whose operator is a method of another name; the last column is the name of the right
 * operand's method. */
static const struct {
  const char *row, *method, *inplace, *reflected;
} operators[] = {
  { "sub", "sub", "sub_", "__rsub__" },
  { "div", "div", "div_", "__rtruediv__" },
  { "floor_divide", "__floordiv__", "floor_divide_", "__rfloordiv__" },
  { "remainder", "remainder", "remainder_", "__rmod__" },
  { "pow", "__pow__", "__ipow__", "__rpow__" },
  { "matmul", "matmul", "matmul", "__rmatmul__" },
  { "bitwise_left_shift", "__lshift__", "__ilshift__", "__rlshift__" },
  { "bitwise_right_shift", "__rshift__", "__irshift__", "__rrshift__" },
  { "bitwise_and", "__and__", "__iand__", "__rand__" },
  { "bitwise_or", "__or__", "__ior__", "__ror__" },
  { "bitwise_xor", "__xor__", "__ixor__", "__rxor__" },
  { "bitwise_not", "__invert__", "__invert__", "__invert__" },
};

/* Returns the method of Tensor that does the same as an operator, borrowed.  reflected: the
 * method of the right operand. */
static PyObject *
method_of (const GmApi *api, bool inplace, bool reflected)
{
  g_autofree char *usual = g_strconcat (api->name, inplace ? "_" : "", NULL);
  const char *name = usual;
  for (size_t i = 0; i < G_N_ELEMENTS (operators); i++)
    if (strcmp (api->name, operators[i].row) == 0)
      name = reflected ? operators[i].reflected
             : inplace ? operators[i].inplace
                       : operators[i].method;
  PyObject *method = PyDict_GetItemString (gm_py_tensor_type.tp_dict, name);
  if (!method)
    PyErr_Format (PyExc_SystemError, "Tensor has no method %s, which an operator is", name);
  return method;
}

bool
gm_py_override_operator (const GmApi *api, bool inplace, PyObject *a, PyObject *b,
                         PyObject **result)
{
  if (!gm_py_function_mode_on () && !gm_py_is_override (a) && !(b && gm_py_is_override (b))
      && !(b && (PyTuple_Check (b) || PyList_Check (b))))
    return false;
  bool reflected = b && !gm_py_tensor_check (a) && gm_py_tensor_check (b);
  PyObject *args[2] = { reflected ? b : a, reflected ? a : b };
  PyObject *method = method_of (api, inplace, reflected);
  *result = NULL;
  return !method || gm_py_override_call (method, args, b ? 2 : 1, NULL, result);
}

bool
gm_py_override_subscript (PyObject *const *args, int n, PyObject **result)
{
  PyObject *method =
      PyDict_GetItemString (gm_py_tensor_type.tp_dict, n == 3 ? "__setitem__" : "__getitem__");
  return gm_py_override_call (method, args, n, NULL, result);
}

/* -- Attributes of such classes ---------------------------------------------------------------- */

/* A method of Tensor written in C, bound to an instance of a class that may override calls. */
typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *method;
} Asking;

static PyObject *
asking_call (PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
  PyObject *method = ((Asking *) self)->method, *result;
  Py_ssize_t nargs = PyVectorcall_NARGS (nargsf);
  if (gm_py_override_call (method, args, nargs, kwnames, &result))
    return result;
  return PyObject_Vectorcall (method, args, (size_t) nargs, kwnames);
}

static void
asking_dealloc (PyObject *self)
{
  Py_DECREF (((Asking *) self)->method);
  PyObject_Free (self);
}

static PyTypeObject asking_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.AskingMethod",
  .tp_basicsize = sizeof (Asking),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_vectorcall_offset = offsetof (Asking, vectorcall),
  .tp_call = PyVectorcall_Call,
  .tp_dealloc = asking_dealloc,
};

static PyObject *
bound_asking (PyObject *method, PyObject *self)
{
  Asking *o = PyObject_New (Asking, &asking_type);
  if (!o)
    return NULL;
  o->vectorcall = asking_call;
  o->method = Py_NewRef (method);
  PyObject *bound = PyMethod_New ((PyObject *) o, self);
  Py_DECREF (o);
  return bound;
}

static PyObject *
asking_getattro (PyObject *self, PyObject *name)
{
  PyObject *found = gm_py_is_override (self) ? _PyType_Lookup (Py_TYPE (self), name) : NULL;
  bool attribute = found && Py_IS_TYPE (found, &PyGetSetDescr_Type),
       method = found && Py_IS_TYPE (found, &PyMethodDescr_Type);
  if ((!attribute && !method) || ((PyDescrObject *) found)->d_type != &gm_py_tensor_type
      || strcmp (PyUnicode_AsUTF8 (name), "__dict__") == 0)
    return PyObject_GenericGetAttr (self, name);
  if (method)
    return bound_asking (found, self);
  PyObject *get = PyObject_GetAttrString (found, "__get__"), *result = NULL;
  if (get && !gm_py_override_call (get, &self, 1, NULL, &result))
    result = PyObject_GenericGetAttr (self, name);
  Py_XDECREF (get);
  return result;
}

PyObject *
gm_py_tensor_init_subclass (PyObject *cls, PyObject *args, PyObject *kwargs)
{
  PyTypeObject *type = (PyTypeObject *) cls;
  PyObject *dispatch = _PyType_Lookup (type, name_of_dispatch);
  if (dispatch && dispatch != Py_None)
    return PyErr_Format (
        PyExc_NotImplementedError,
        "class %s has a __torch_dispatch__, which would never be called: functions of gramme ask "
        "__torch_function__ alone; define "
        "that instead, it gets the function, the types, the arguments and the named ones, too",
        type->tp_name);
  if (_PyType_Lookup (type, name_of_function) != disabled) {
    gm_py_overrides = true;
    if (type->tp_getattro == PyObject_GenericGetAttr)
      type->tp_getattro = asking_getattro;
  }
  PyObject *super =
      PyObject_CallFunctionObjArgs ((PyObject *) &PySuper_Type, &gm_py_tensor_type, cls, NULL);
  PyObject *next = super ? PyObject_GetAttrString (super, "__init_subclass__") : NULL;
  PyObject *result = next ? PyObject_Call (next, args, kwargs) : NULL;
  Py_XDECREF (next);
  Py_XDECREF (super);
  return result;
}

/* -- For the package --------------------------------------------------------------------------- */

static PyObject *
call_off (PyObject *func, PyObject *args, PyObject *kwargs)
{
  bool before = off;
  off = true;
  PyObject *result = PyObject_Call (func, args, kwargs);
  off = before;
  return result;
}

/* Calls func (*args, **kwargs) as for plain tensors; `types` is ignored.  The package exports
 * this as disabled_torch_function, to be used as __torch_function__. */
static PyObject *
disabled_torch_function (PyObject *module, PyObject *all, PyObject *named)
{
  static char *keywords[] = { "func", "types", "args", "kwargs", NULL };
  PyObject *func, *types, *args = NULL, *kwargs = NULL;
  if (!PyArg_ParseTupleAndKeywords (all, named, "OO|O!O:_disabled_torch_function_impl", keywords,
                                    &func, &types, &PyTuple_Type, &args, &kwargs))
    return NULL;
  PyObject *none = args ? NULL : PyTuple_New (0);
  PyObject *result = call_off (func, args ? args : none, kwargs == Py_None ? NULL : kwargs);
  Py_XDECREF (none);
  return result;
}

static PyObject *
disable_overrides (PyObject *module, PyObject *on)
{
  int yes = PyObject_IsTrue (on);
  if (yes < 0)
    return NULL;
  bool before = off;
  off = yes;
  return PyBool_FromLong (before);
}

static PyObject *
push_function_mode (PyObject *module, PyObject *mode)
{
  if (!modes && !(modes = PyList_New (0)))
    return NULL;
  gm_py_overrides = true;
  return PyList_Append (modes, mode) < 0 ? NULL : Py_NewRef (Py_None);
}

static PyObject *
pop_function_mode (PyObject *module, PyObject *unused)
{
  if (!gm_py_function_mode_on ()) {
    PyErr_SetString (PyExc_RuntimeError, "no mode of this thread is active that could be left");
    return NULL;
  }
  Py_ssize_t n = PyList_GET_SIZE (modes);
  PyObject *mode = Py_NewRef (PyList_GET_ITEM (modes, n - 1));
  if (PyList_SetSlice (modes, n - 1, n, NULL) < 0)
    Py_CLEAR (mode);
  return mode;
}

static PyObject *
function_modes (PyObject *module, PyObject *unused)
{
  return modes ? PyList_AsTuple (modes) : PyTuple_New (0);
}

/* Implements has_torch_function (args): returns True if an item of the iterable overrides calls. */
static PyObject *
has_torch_function (PyObject *module, PyObject *args)
{
  PyObject *fast = PySequence_Fast (args, "has_torch_function() takes the arguments in a tuple");
  if (!fast)
    return NULL;
  bool found = gm_py_function_mode_on ();
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE (fast) && !found; i++)
    found = gm_py_is_override (PySequence_Fast_GET_ITEM (fast, i));
  Py_DECREF (fast);
  return PyBool_FromLong (found);
}

/* Implements handle_torch_function (public_api, relevant_args, *args, **kwargs): calls the
 * overrides of the relevant arguments. */
static PyObject *
handle_torch_function (PyObject *module, PyObject *all, PyObject *kwargs)
{
  if (PyTuple_GET_SIZE (all) < 2) {
    PyErr_SetString (PyExc_TypeError, "handle_torch_function() takes a function, the arguments "
                                      "that are asked, and those of the call");
    return NULL;
  }
  PyObject *func = PyTuple_GET_ITEM (all, 0);
  PyObject *fast =
      PySequence_Fast (PyTuple_GET_ITEM (all, 1),
                       "handle_torch_function() takes the arguments that are asked in a tuple");
  PyObject *args = fast ? PyTuple_GetSlice (all, 2, PyTuple_GET_SIZE (all)) : NULL, *result = NULL;
  PyObject *named = args ? kwargs ? Py_NewRef (kwargs) : PyDict_New () : NULL;
  Asked asked = { .n = 0 };
  for (Py_ssize_t i = 0; named && i < PySequence_Fast_GET_SIZE (fast); i++)
    add_asked (&asked, PySequence_Fast_GET_ITEM (fast, i));
  if (named && asked.n == 0 && !gm_py_function_mode_on ()) {
    PyObject *none = PyTuple_New (0);
    result = none ? refused (func, none) : NULL;
    Py_XDECREF (none);
  } else if (named) {
    result = dispatch (func, &asked, args, named);
  }
  Py_XDECREF (named);
  Py_XDECREF (args);
  Py_XDECREF (fast);
  return result;
}

/* Implements rewrap (tensor, cls): returns another object, of the class cls, for a view of the
 * tensor with its gradient history. */
static PyObject *
rewrap (PyObject *module, PyObject *args)
{
  PyObject *cls, *tensor;
  if (!PyArg_ParseTuple (args, "O!O!:as_subclass", &gm_py_tensor_type, &tensor, &PyType_Type, &cls))
    return NULL;
  if (!PyType_IsSubtype ((PyTypeObject *) cls, &gm_py_tensor_type)) {
    PyErr_Format (PyExc_TypeError, "%R is no subclass of gramme.Tensor", cls);
    return NULL;
  }
  bool before = off;
  off = true;
  PyObject *view = PyObject_CallMethod (tensor, "view_as", "O", tensor);
  off = before;
  GmTensor *t = view && gm_py_tensor_check (view) ? gm_tensor_ref (((GmPyTensor *) view)->t) : NULL;
  Py_XDECREF (view);
  if (!t)
    return NULL;
  if (t->wrapper) { /* another owner keeps the view's object */
    gm_tensor_unref (t);
    PyErr_SetString (PyExc_RuntimeError, "as_subclass(): the tensor's view has an object already");
    return NULL;
  }
  return gm_py_tensor_take_as ((PyTypeObject *) cls, t);
}

static PyMethodDef functions[] = {
  { "_disabled_torch_function_impl", (PyCFunction) (void (*) (void)) disabled_torch_function,
    METH_VARARGS | METH_KEYWORDS,
    "As a class's __torch_function__: its instances are computed with as plain tensors." },
  { "disable_overrides", disable_overrides, METH_O,
    "disable_overrides(on)\n\nWhether no class's __torch_function__ is asked on this thread from "
    "now on.  Returns the old value." },
  { "push_function_mode", push_function_mode, METH_O,
    "push_function_mode(mode)\n\nIts __torch_function__ sees the calls of this thread." },
  { "pop_function_mode", pop_function_mode, METH_NOARGS,
    "pop_function_mode()\n\nTakes the innermost mode off, and returns it." },
  { "function_modes", function_modes, METH_NOARGS,
    "function_modes()\n\nThe modes of this thread, the innermost last." },
  { "has_torch_function", has_torch_function, METH_O,
    "has_torch_function(args)\n\nWhether a mode is active, or one of these has a "
    "__torch_function__ that is heard." },
  { "handle_torch_function", (PyCFunction) (void (*) (void)) handle_torch_function,
    METH_VARARGS | METH_KEYWORDS,
    "handle_torch_function(public_api, relevant_args, *args, **kwargs)\n\n"
    "What the __torch_function__ of the mode, or of one of relevant_args, returns for "
    "public_api(*args, **kwargs).\n"
    "Errors: TypeError if all return NotImplemented." },
  { "rewrap", rewrap, METH_VARARGS,
    "rewrap(tensor, cls)\n\nA view of the tensor, with its history, as an object of a subclass." },
  { 0 },
};

int
gm_py_init_overrides (PyObject *module)
{
  name_of_function = PyUnicode_InternFromString ("__torch_function__");
  name_of_dispatch = PyUnicode_InternFromString ("__torch_dispatch__");
  if (!name_of_function || !name_of_dispatch || PyType_Ready (&asking_type) < 0
      || PyModule_AddFunctions (module, functions) < 0)
    return -1;
  disabled = PyObject_GetAttrString (module, "_disabled_torch_function_impl");
  return disabled ? 0 : -1;
}
