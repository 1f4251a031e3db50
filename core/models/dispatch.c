/* SPDX-License-Identifier: Apache-2.0
 * dispatch.c -- functools.singledispatch: finds the function for a class.
 *
 * The library's dispatch () reads first a cache with weak keys, which a recording cannot guard. The
 * cache's contents follow from the registry, a dict of classes: the first class of the MRO that is
 * a key. An abstract class in the registry may apply to subclasses that are only registered with
 * it; then only an entry of the class itself counts, and any other call is left to Python.
 */
#include "core/models/models.h"
#include "core/trace/cell.h"
#include "core/trace/instance.h"

static bool
is_of_functools (PyObject *function)
{
  PyObject *module = PyDict_GetItemString (PyFunction_GET_GLOBALS (function), "__name__");
  return module && PyUnicode_Check (module)
         && PyUnicode_CompareWithASCIIString (module, "functools") == 0;
}

bool
gm_is_dispatch (const GmTracker *f)
{
  if (f->kind != &gm_kind_function || f->real == NULL)
    return false;
  PyObject *qualname = ((PyCodeObject *) PyFunction_GET_CODE (f->real))->co_qualname;
  return PyUnicode_CompareWithASCIIString (qualname, "singledispatch.<locals>.dispatch") == 0
         && is_of_functools (f->real);
}

/* Returns the dict named `registry` in the closure of f; NULL after a break, or if it is no
 * dict. */
static const GmTracker *
registry_of (GmRecorder *r, const GmTracker *f)
{
  PyObject *names =
      gm_record_take (r, PyObject_GetAttrString (PyFunction_GET_CODE (f->real), "co_freevars"));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE (names); i++)
    if (PyUnicode_CompareWithASCIIString (PyTuple_GET_ITEM (names, i), "registry") == 0) {
      const GmTracker *t = gm_cell_load (r, gm_function_cell (r, f, (uint32_t) i));
      t = t ? gm_realize (r, t) : NULL;
      return t && !r->stop && t->kind == &gm_kind_dict ? t : NULL;
    }
  return NULL;
}

static const GmTracker *
entry_of (GmRecorder *r, const GmTracker *registry, PyTypeObject *type)
{
  return gm_dict_lookup (
      r, registry,
      gm_wrap (r, (PyObject *) type, gm_source_const (r, (PyObject *) type, type->tp_name)));
}

static bool
any_abstract (GmRecorder *r, const GmTracker *registry)
{
  const GmTracker *contents = gm_dict_contents (r, registry);
  bool any = r->stop;
  for (uint32_t i = 0; !any && i < contents->n; i += 2) {
    const GmTracker *cls = gm_realize (r, contents->items[i]);
    any = r->stop || cls->kind != &gm_kind_class || Py_TYPE (cls->real) != &PyType_Type;
  }
  return any;
}

const GmTracker *
gm_dispatch (GmRecorder *r, const GmTracker *f, const GmCallArgs *args)
{
  const GmTracker *cls = args->n == 1 && !args->names ? gm_realize (r, args->args[0]) : NULL;
  const GmTracker *registry =
      cls && !r->stop && cls->kind == &gm_kind_class ? registry_of (r, f) : NULL;
  const GmTracker *found = registry ? entry_of (r, registry, (PyTypeObject *) cls->real) : NULL;
  if (registry == NULL || found || r->stop)
    return found && !r->stop ? found : gm_record_break (r, GM_BREAK_LEFT_TO_PYTHON, "dispatch");
  if (any_abstract (r, registry))
    return gm_record_break (r, GM_BREAK_LEFT_TO_PYTHON, "dispatch");
  PyObject *mro = ((PyTypeObject *) cls->real)->tp_mro;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE (mro) && !found && !r->stop; i++) {
    PyObject *base = PyTuple_GET_ITEM (mro, i);
    gm_is_subclass (r, (PyTypeObject *) cls->real, base, "__subclasscheck__"); /* guards that it is
                                                                                  a subclass */
    found = r->stop ? NULL : entry_of (r, registry, (PyTypeObject *) base);
  }
  return found && !r->stop ? found : gm_record_break (r, GM_BREAK_LEFT_TO_PYTHON, "dispatch");
}
