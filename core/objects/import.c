/* SPDX-License-Identifier: Apache-2.0
 * import.c -- see import.h.
 */
#include "core/objects/import.h"

PyObject *
gm_import (const char *name)
{
  /* A loaded module is returned without reading an attribute of it: a module of switches computes
   * its attributes in Python code, where a signal's handler may raise. */
  PyObject *key = PyUnicode_FromString (name), *there = key ? PyImport_GetModule (key) : NULL;
  Py_XDECREF (key);
  if (there || PyErr_Occurred ())
    return there;
  /* With a non-empty fromlist, __import__ returns the module itself, else its top-level package. */
  PyObject *from = Py_BuildValue ("(s)", "__name__");
  PyObject *module = from ? PyImport_ImportModuleLevel (name, NULL, NULL, from, 0) : NULL;
  Py_XDECREF (from);
  return module;
}
