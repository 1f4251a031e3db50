/* SPDX-License-Identifier: Apache-2.0
 * wrapped_calls.c -- see wrapped_calls.h.
 *
 * The search reads names, not calls: every global, closure cell and attribute of a module that the
 * hook's code, or that of a function so found, can name.  It finds more than is called, and at
 * worst something is not kept.  No code of the user's runs: only dictionaries of functions and
 * modules are read.
 */
#include "core/objects/wrapped_calls.h"

#define MAX_FUNCTIONS 256

static const char mark[] = "_gramme_wrapped", hash[] = "user_cache_hash";

typedef struct {
  PyObject *seen; /* a set of function objects */
  GString *salt;
  char **why;
  const char *hook;
} Search;

static void look_at (Search *s, PyObject *o);

static PyObject *
own_attribute (PyObject *function, const char *name)
{
  PyObject *dict = ((PyFunctionObject *) function)->func_dict;
  return dict ? PyDict_GetItemString (dict, name) : NULL;
}

static void
note (Search *s, PyObject *function)
{
  PyObject *text = own_attribute (function, hash);
  const char *name = PyUnicode_AsUTF8 (((PyFunctionObject *) function)->func_qualname),
             *value = text && PyUnicode_Check (text) ? PyUnicode_AsUTF8 (text) : NULL;
  if (value)
    g_string_append_printf (s->salt, "%s=%zu:%s;", name ? name : "?", strlen (value), value);
  else if (!*s->why)
    *s->why = g_strdup_printf (
        "the saved-tensor hook %s calls %s, a function of gramme.fx.wrap without a user_cache_hash",
        s->hook, name ? name : "?");
  PyErr_Clear ();
}

/* Searches those attributes of a module whose names the code contains for wrapped functions. */
static void
look_into (Search *s, PyObject *module, PyObject *names)
{
  PyObject *dict = PyModule_GetDict (module);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (names); i++) {
    PyObject *o = PyDict_GetItemWithError (dict, PyTuple_GET_ITEM (names, i));
    if (o && PyFunction_Check (o))
      look_at (s, o);
  }
}

static void
look_at_code (Search *s, PyCodeObject *code, PyObject *globals)
{
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (code->co_names); i++) {
    PyObject *o = PyDict_GetItemWithError (globals, PyTuple_GET_ITEM (code->co_names, i));
    if (o && PyModule_CheckExact (o))
      look_into (s, o, code->co_names);
    else if (o && PyFunction_Check (o))
      look_at (s, o);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (code->co_consts); i++)
    if (PyCode_Check (PyTuple_GET_ITEM (code->co_consts, i))) /* code of functions that it makes */
      look_at_code (s, (PyCodeObject *) PyTuple_GET_ITEM (code->co_consts, i), globals);
}

static void
look_at (Search *s, PyObject *o)
{
  if (PyMethod_Check (o))
    o = PyMethod_GET_FUNCTION (o);
  if (!PyFunction_Check (o) || PySet_Contains (s->seen, o)
      || PySet_GET_SIZE (s->seen) >= MAX_FUNCTIONS)
    return;
  PySet_Add (s->seen, o);
  if (own_attribute (o, mark)) {
    note (s, o);
    return; /* the function's string stands for everything that it does itself */
  }
  PyFunctionObject *f = (PyFunctionObject *) o;
  look_at_code (s, (PyCodeObject *) f->func_code, f->func_globals);
  for (Py_ssize_t i = 0; f->func_closure && i < PyTuple_GET_SIZE (f->func_closure); i++) {
    PyObject *cell = PyTuple_GET_ITEM (f->func_closure, i),
             *held = PyCell_Check (cell) ? PyCell_GET (cell) : NULL;
    if (held && PyFunction_Check (held))
      look_at (s, held);
  }
}

void
gm_py_find_wrapped (PyObject *hook, GString *salt, char **why)
{
  PyObject *name = PyObject_GetAttrString (hook, "__qualname__");
  const char *text = name && PyUnicode_Check (name) ? PyUnicode_AsUTF8 (name) : NULL;
  Search s = { .seen = PySet_New (NULL),
               .salt = salt,
               .why = why,
               .hook = text ? text : Py_TYPE (hook)->tp_name };
  PyErr_Clear ();
  if (s.seen)
    look_at (&s, hook);
  PyErr_Clear ();
  Py_XDECREF (s.seen);
  Py_XDECREF (name);
}
