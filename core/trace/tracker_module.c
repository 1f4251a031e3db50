/* SPDX-License-Identifier: Apache-2.0
 * tracker_module.c -- Python modules: guarded by identity; their attributes are the globals of
 * attrs.c.
 */
#include "core/trace/attrs.h"
#include "core/trace/exception.h"

const GmTracker *
gm_wrap_module (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, IS, source, .obj = real);
  const GmTracker *t = gm_tracker (r, .kind = &gm_kind_module, .real = real, .source = source);
  gm_know (r, t);
  return t;
}

/* Has the module's __getattr__ load `name`, for a module of gramme's own, so that it is among the
 * module's globals, where later programs find it, too. */
static void
find_late (PyObject *module, PyObject *name)
{
  PyObject *dict = PyModule_GetDict (module);
  const char *of = PyModule_GetName (module);
  if (!of || strncmp (of, "gramme", 6) != 0 || (of[6] && of[6] != '.')) {
    PyErr_Clear ();
    return;
  }
  if (PyDict_GetItemWithError (dict, name) || !PyDict_GetItemString (dict, "__getattr__"))
    return;
  PyObject *found = PyObject_GetAttr (module, name);
  bool interrupted = !found && PyErr_ExceptionMatches (PyExc_KeyboardInterrupt);
  PyErr_Clear (); /* the program's own read raises the error */
  if (interrupted)
    PyErr_SetInterrupt ();
  Py_XDECREF (found);
}

static const GmTracker *
module_getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  find_late (t->real, name);
  const GmTracker *v = gm_global_load (r, PyModule_GetDict (t->real), name);
  if (v)
    return v;
  PyObject *dict = PyModule_GetDict (t->real),
           *hook = gm_record_take (r, PyUnicode_InternFromString ("__getattr__"));
  if (_PyType_Lookup (&PyModule_Type, name) || PyDict_GetItemWithError (dict, hook))
    return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "module");
  gm_guard (r, GLOBAL_ABSENT, NULL, .obj = dict, .key = hook);
  return NULL;
}

static void
module_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  PyObject *found =
      _PyType_Lookup (&PyModule_Type, name); /* attributes such as __class__ are no globals */
  if (value && !(found && Py_TYPE (found)->tp_descr_set))
    gm_global_store (r, PyModule_GetDict (t->real), name, value);
  else
    gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, PyUnicode_AsUTF8 (name), "module");
}

static int
module_truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

const GmTrackerKind gm_kind_module = {
  .name = "module",
  .truth = module_truth,
  .getattr = module_getattr,
  .setattr = module_setattr,
};
