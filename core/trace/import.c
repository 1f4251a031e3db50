/* SPDX-License-Identifier: Apache-2.0
 * import.c -- see import.h.
 */
#include "core/trace/import.h"

PyObject *
gm_import (const char *name)
{
  /* With a name to import from it, the module itself is returned, else the package around it. */
  PyObject *from = Py_BuildValue ("(s)", "__name__");
  PyObject *module = from ? PyImport_ImportModuleLevel (name, NULL, NULL, from, 0) : NULL;
  Py_XDECREF (from);
  return module;
}
