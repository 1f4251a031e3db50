/* SPDX-License-Identifier: Apache-2.0
 * bind.c -- CPython's rules for binding arguments, without running the function.
 *
 * The order of the slots: positional (and positional-only), keyword-only, the tuple of *args, the
 * dict of **kw.
 */
#include "core/objects/cpython.h"

#include "core/bytecode/bind.h"

/* Returns the slot of the parameter that a keyword names, or -1.  Names are interned nearly
 * always, so identity is tried before equality. */
static int
slot_of (const GmCode *code, PyObject *name)
{
  uint32_t first = code->n_posonly, end = code->n_pos + code->n_kwonly;
  for (uint32_t i = first; i < end; i++)
    if (code->slots[i].name == name)
      return (int) i;
  for (uint32_t i = first; i < end; i++)
    if (PyUnicode_Compare (code->slots[i].name, name) == 0)
      return (int) i;
  return -1;
}

static bool
fill_defaults (GmBound *b, const GmCode *code, PyFunctionObject *func)
{
  Py_ssize_t n_defaults = func->func_defaults ? PyTuple_GET_SIZE (func->func_defaults) : 0;
  for (uint32_t i = 0; i < code->n_pos; i++) {
    if (b->room[i])
      continue;
    Py_ssize_t k = (Py_ssize_t) i - ((Py_ssize_t) code->n_pos - n_defaults);
    if (k < 0)
      return false;
    b->room[i] = PyTuple_GET_ITEM (func->func_defaults, k);
  }
  for (uint32_t i = code->n_pos; i < code->n_pos + code->n_kwonly; i++) {
    if (b->room[i])
      continue;
    PyObject *value = func->func_kwdefaults
                          ? PyDict_GetItemWithError (func->func_kwdefaults, code->slots[i].name)
                          : NULL;
    if (!value) {
      PyErr_Clear ();
      return false;
    }
    b->room[i] = value;
  }
  return true;
}

static bool
bind_general (GmBound *b, const GmCode *code, PyFunctionObject *func, PyObject *self_or_null,
              PyObject *const *args, size_t n_args, PyObject *kwnames)
{
  if (code->n_args > GM_BIND_MAX_ARGS)
    return false;
  for (uint32_t i = 0; i < code->n_args; i++)
    b->room[i] = NULL;
  size_t n_self = self_or_null != NULL, n_given = n_args + n_self,
         n_pos = MIN (n_given, (size_t) code->n_pos);
  if (n_given > code->n_pos && !code->varargs)
    return false;
  for (size_t i = 0; i < n_pos; i++)
    b->room[i] = i < n_self ? self_or_null : args[i - n_self];
  uint32_t next = code->n_pos + code->n_kwonly;
  if (code->varargs) {
    b->rest = PyTuple_New ((Py_ssize_t) (n_given - n_pos));
    if (!b->rest)
      goto failed;
    for (size_t i = n_pos; i < n_given; i++)
      PyTuple_SET_ITEM (b->rest, (Py_ssize_t) (i - n_pos),
                        Py_NewRef (i < n_self ? self_or_null : args[i - n_self]));
    b->room[next++] = b->rest;
  }
  if (code->varkw) {
    b->keywords = PyDict_New ();
    if (!b->keywords)
      goto failed;
    b->room[next++] = b->keywords;
  }
  Py_ssize_t n_kw = kwnames ? PyTuple_GET_SIZE (kwnames) : 0;
  for (Py_ssize_t k = 0; k < n_kw; k++) {
    PyObject *name = PyTuple_GET_ITEM (kwnames, k), *value = args[n_args + (size_t) k];
    int slot = slot_of (code, name);
    if (slot >= 0) {
      if (b->room[slot])
        goto failed;
      b->room[slot] = value;
    } else if (!b->keywords || PyDict_SetItem (b->keywords, name, value) < 0) {
      goto failed;
    }
  }
  if (!fill_defaults (b, code, func))
    goto failed;
  b->locals = b->room;
  return true;
failed:
  PyErr_Clear ();
  gm_bind_clear (b);
  return false;
}

bool
gm_bind (GmBound *b, const GmCode *code, PyFunctionObject *func, PyObject *self_or_null,
         PyObject *const *args, size_t n_args, PyObject *kwnames)
{
  b->rest = b->keywords = NULL;
  if (!self_or_null && !kwnames && n_args == code->n_pos && code->n_args == code->n_pos) {
    b->locals = args;
    return true;
  }
  return bind_general (b, code, func, self_or_null, args, n_args, kwnames);
}

void
gm_bind_clear (GmBound *b)
{
  Py_CLEAR (b->rest);
  Py_CLEAR (b->keywords);
}
