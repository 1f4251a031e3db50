/* SPDX-License-Identifier: Apache-2.0
 * compiler_py.c -- functions about compilation: the installed back ends, and all compiled functions
 * of the process.
 */
#include "core/objects/cpython.h"

#include "core/capture/compiler_py.h"

#include "core/plugin/registry.h"
#include "core/capture/code_cache.h"
#include "core/capture/compiled_autograd.h"
#include "core/capture/counters.h"
#include "core/objects/errors.h"
#include "core/capture/report.h"

static PyObject *
list_backends (PyObject *module, PyObject *unused)
{
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  PyObject *names = PyList_New (0);
  for (uint32_t i = 0; names && i < plugins->len; i++) {
    const GmPluginInfo *info = plugins->pdata[i];
    if (info->refused.code)
      continue;
    PyObject *name = PyUnicode_FromString (info->name);
    if (!name || PyList_Append (names, name) < 0)
      Py_CLEAR (names);
    Py_XDECREF (name);
  }
  if (names && PyList_Sort (names) < 0)
    Py_CLEAR (names);
  return names;
}

static PyObject *
check_backend (PyObject *module, PyObject *arg)
{
  const char *name = PyUnicode_AsUTF8 (arg);
  if (!name)
    return NULL;
  GError *error = NULL;
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  if (!gm_registry_find (plugins, name, &error))
    return gm_py_raise (error);
  Py_RETURN_NONE;
}

static PyObject *
backend_options (PyObject *module, PyObject *arg)
{
  const char *name = PyUnicode_AsUTF8 (arg);
  GError *error = NULL;
  if (!name)
    return NULL;
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  const GmPluginInfo *info = gm_registry_find (plugins, name, &error);
  if (!info)
    return gm_py_raise (error);
  PyObject *keys = PyList_New (0);
  for (uint32_t i = 0; keys && info->manifest && i < info->manifest->options->len; i++) {
    const GmPluginOption *option = info->manifest->options->pdata[i];
    PyObject *key = PyUnicode_FromString (option->key);
    if (!key || PyList_Append (keys, key) < 0)
      Py_CLEAR (keys);
    Py_XDECREF (key);
  }
  return keys;
}

static PyObject *
reset_all (PyObject *module, PyObject *unused)
{
  gm_code_cache_reset_all ();
  gm_compiled_autograd_reset ();
  gm_counters_reset ();
  Py_RETURN_NONE;
}

static bool
add_report (GmCodeCache *cache, const GmConfig *config, void *data)
{
  if (cache->point) /* a resume function, which is listed with the function that it belongs to */
    return true;
  PyObject *status = gm_report_status (cache, config), *entries = gm_report_entries (cache, config);
  PyObject *row =
      status && entries ? Py_BuildValue ("(OOO)", cache->code->co_qualname, status, entries) : NULL;
  int r = row ? PyList_Append (data, row) : -1;
  Py_XDECREF (row);
  Py_XDECREF (status);
  Py_XDECREF (entries);
  return r == 0;
}

static PyObject *
live_functions (PyObject *module, PyObject *unused)
{
  PyObject *list = PyList_New (0);
  if (list && !gm_code_cache_foreach (add_report, list))
    Py_CLEAR (list);
  return list;
}

static PyObject *
code_entries (PyObject *module, PyObject *code)
{
  if (!PyCode_Check (code))
    return PyErr_Format (PyExc_TypeError, "code_entries() takes a code object, not %s",
                         Py_TYPE (code)->tp_name);
  GmCodeCache *cache = gm_code_cache_get ((PyCodeObject *) code);
  return cache ? gm_report_own_entries (cache) : NULL;
}

static PyMethodDef functions[] = {
  { "code_entries", code_entries, METH_O,
    "code_entries(code) -> list of dicts: the entries of a code object, the newest first." },
  { "list_backends", list_backends, METH_NOARGS,
    "list_backends() -> list of str: installed and usable, nothing is loaded." },
  { "backend_options", backend_options, METH_O,
    "backend_options(name) -> list of str: the keys of its options, nothing is loaded." },
  { "check_backend", check_backend, METH_O,
    "check_backend(name): ValueError, with names that are near, unless it is installed and "
    "trusted." },
  { "reset_all", reset_all, METH_NOARGS,
    "reset_all(): forgets all compiled entries of the process." },
  { "live_functions", live_functions, METH_NOARGS,
    "live_functions() -> list of (name, status, entries) of all compiled functions." },
  { NULL },
};

int
gm_py_init_compiler (PyObject *module)
{
  return PyModule_AddFunctions (module, functions);
}
