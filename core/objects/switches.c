/* SPDX-License-Identifier: Apache-2.0
 * switches.c -- see switches.h.
 */
#include "core/objects/switches.h"
#include "core/objects/import.h"

#include <string.h>

#define DYNAMO "gramme._dynamo.config"
#define FUNCTORCH "gramme._functorch.config"

PyObject *
gm_switch_value (const char *module, const char *name)
{
  PyObject *config = gm_import (module);
  PyObject *value = config ? PyObject_GetAttrString (config, name) : NULL;
  PyErr_Clear ();
  Py_XDECREF (config);
  return value;
}

bool
gm_switch_is_true (const char *name)
{
  PyObject *value = gm_switch_value (DYNAMO, name);
  bool yes = value == Py_True;
  Py_XDECREF (value);
  return yes;
}

long
gm_switch_number (const char *name, long otherwise)
{
  PyObject *value = gm_switch_value (DYNAMO, name);
  long number = value && PyLong_Check (value) ? PyLong_AsLong (value) : otherwise;
  PyErr_Clear ();
  Py_XDECREF (value);
  return MAX (number, 0);
}

/* -- Options ----------------------------------------------------------------------------------- */

static bool
says (char *const *options, const char *key)
{
  size_t n = strlen (key);
  for (char *const *o = options; o && *o; o++)
    if (!strncmp (*o, key, n) && (*o)[n] == '=')
      return true;
  return false;
}

/* True if gramme._functorch.config has not been imported, so that its switches have their
 * initial values. */
static bool
is_untouched (void)
{
  PyObject *modules = PyImport_GetModuleDict ();
  return !modules || !PyDict_GetItemString (modules, FUNCTORCH);
}

char **
gm_switch_options (char *const *options)
{
  g_autoptr (GPtrArray) all = g_ptr_array_new ();
  PyObject *budget = NULL, *filter = NULL;
  if (!is_untouched ()) {
    budget = gm_switch_value (FUNCTORCH, "activation_memory_budget");
    filter = gm_switch_value (FUNCTORCH, "saved_tensors_hooks_filtering_mode");
  }
  double part = budget ? PyFloat_AsDouble (budget) : 1;
  PyErr_Clear ();
  if (part != 1 && !says (options, "partition") && !says (options, "memory-budget")) {
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    g_ptr_array_add (
        all, g_strdup_printf ("memory-budget=%s", g_ascii_dtostr (number, sizeof number, part)));
  }
  const char *mode = filter && PyUnicode_Check (filter) ? PyUnicode_AsUTF8 (filter) : NULL;
  PyErr_Clear ();
  if (mode && !says (options, "saved-tensors-hooks-filtering-mode"))
    g_ptr_array_add (all, g_strdup_printf ("saved-tensors-hooks-filtering-mode=%s", mode));
  Py_XDECREF (budget);
  Py_XDECREF (filter);
  if (all->len == 0 && !(options && *options))
    return NULL;
  for (char *const *o = options; o && *o; o++)
    g_ptr_array_add (all, g_strdup (*o));
  g_ptr_array_add (all, NULL);
  return (char **) g_ptr_array_steal (all, NULL);
}
