/* SPDX-License-Identifier: Apache-2.0
 * control.c -- see control.h.  Marked functions and stances belong to the calling thread alone: the
 * settings of one thread change nothing in another.
 */
#include "core/objects/cpython.h"
#include <structmember.h>

#include "core/capture/code_cache.h"
#include "core/capture/control.h"
#include "core/capture/hook.h"

#include "core/models/tracker_control.h"

GM_THREAD GmControl gm_control_now;

/* -- Stances ----------------------------------------------------------------------------------- */

static const char *const stances[] = { "default", "force_eager", "eager_on_recompile",
                                       "fail_on_recompile", "eager_then_compile" };

/* Sets this thread's stance and returns the old stance. */
static PyObject *
set_stance (PyObject *module, PyObject *arg)
{
  const char *name = PyUnicode_AsUTF8 (arg);
  if (!name)
    return NULL;
  for (size_t i = 0; i < G_N_ELEMENTS (stances); i++)
    if (strcmp (name, stances[i]) == 0) {
      GmStance old = gm_control_now.stance;
      gm_control_now.stance = (GmStance) i;
      return PyUnicode_FromString (stances[old]);
    }
  return PyErr_Format (PyExc_ValueError,
                       "there is no stance %R: default, force_eager, eager_on_recompile, "
                       "fail_on_recompile, eager_then_compile",
                       arg);
}

static _Thread_local PyObject *forced_by; /* the object that set it; owned */

/* Sets the back end that this thread uses for all compiled functions: a name, a callable, or
 * None for none.  Returns the object that was set before. */
static PyObject *
set_forced (PyObject *module, PyObject *arg)
{
  const GmConfig *config = NULL;
  if (arg != Py_None) {
    const char *name = PyUnicode_Check (arg) ? PyUnicode_AsUTF8 (arg) : NULL;
    config = PyErr_Occurred () ? NULL
             : name            ? gm_config_get (name, NULL)
                               : gm_config_for (arg, NULL, NULL);
    if (!config)
      return NULL;
  }
  gm_config_unref (gm_control_now.forced);
  gm_control_now.forced = config;
  PyObject *old = forced_by ? forced_by : Py_NewRef (Py_None);
  forced_by = Py_NewRef (arg);
  return old;
}

/* Calls a compiled function as compiled, in spite of this thread's settings.  Python calls
 * call_always (compiled, *args). */
static PyObject *
call_always (PyObject *module, PyObject *const *args, Py_ssize_t n)
{
  GmControl *c = gm_control (), old = *c;
  c->stance = GM_STANCE_DEFAULT;
  c->always = true;
  c->steady = false;
  PyObject *result =
      n ? PyObject_Vectorcall (args[0], args + 1, (size_t) n - 1, NULL) : Py_NewRef (Py_None);
  c->stance = old.stance;
  c->always = old.always;
  c->steady = old.steady;
  return result;
}

/* Sets this thread's switch skip_guard_eval_unsafe (GmControl.steady) and returns its old value. */
static PyObject *
set_steady (PyObject *module, PyObject *arg)
{
  bool old = gm_control_now.steady;
  int on = PyObject_IsTrue (arg);
  if (on < 0)
    return NULL;
  gm_control_now.steady = gm_guards_trust_trees = on;
  return PyBool_FromLong (old);
}

/* -- Marked functions -------------------------------------------------------------------------- */

static PyObject *
marked_call (PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
  const GmMarked *self = (const GmMarked *) callable;
  bool off = self->kind == GM_MARK_DISABLE;
  GmHookScope scope = { 0 };
  if (off)
    scope = gm_hook_begin (NULL, NULL);
  gm_control_now.off += off;
  PyObject *result = PyObject_Vectorcall (self->fn, args, nargsf, kwnames);
  gm_control_now.off -= off;
  if (off)
    gm_hook_end (scope);
  return result;
}

/* Makes a Marked (fn, kind, reason=''), a callable that tells the recorder how to treat fn.
 * kind: "disable", "disable_one", "constant", "forbid". */
static PyObject *
marked_new (PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  static const char *const kinds[] = { "disable", "disable_one", "constant", "forbid" };
  PyObject *fn, *reason = NULL;
  const char *kind;
  if (!PyArg_ParseTuple (args, "Os|U:Marked", &fn, &kind, &reason))
    return NULL;
  size_t k = 0;
  while (k < G_N_ELEMENTS (kinds) && strcmp (kind, kinds[k]) != 0)
    k++;
  if (k == G_N_ELEMENTS (kinds) || !PyCallable_Check (fn))
    return PyErr_Format (PyExc_TypeError,
                         "only something that can be called can be marked, not a %.100s",
                         Py_TYPE (fn)->tp_name);
  GmMarked *self = (GmMarked *) type->tp_alloc (type, 0);
  if (!self)
    return NULL;
  self->vectorcall = marked_call;
  self->fn = Py_NewRef (fn);
  self->reason = reason ? Py_NewRef (reason) : PyUnicode_FromString ("");
  self->kind = (uint8_t) k;
  return (PyObject *) self;
}

static int
marked_traverse (PyObject *o, visitproc visit, void *arg)
{
  Py_VISIT (((GmMarked *) o)->fn);
  Py_VISIT (((GmMarked *) o)->dict);
  return 0;
}

static int
marked_clear (PyObject *o)
{
  Py_CLEAR (((GmMarked *) o)->fn);
  Py_CLEAR (((GmMarked *) o)->dict);
  return 0;
}

static void
marked_dealloc (PyObject *o)
{
  PyObject_GC_UnTrack (o);
  if (((GmMarked *) o)->weakrefs)
    PyObject_ClearWeakRefs (o);
  marked_clear (o);
  Py_CLEAR (((GmMarked *) o)->reason);
  Py_TYPE (o)->tp_free (o);
}

static PyObject *
marked_get (PyObject *self, PyObject *instance, PyObject *owner)
{
  return instance && instance != Py_None ? PyMethod_New (self, instance) : Py_NewRef (self);
}

static PyObject *
marked_repr (PyObject *o)
{
  static const char *const words[] = { "not compiled", "not compiled", "constant", "forbidden" };
  return PyUnicode_FromFormat ("<%s %R>", words[((GmMarked *) o)->kind], ((GmMarked *) o)->fn);
}

static PyObject *
marked_disables (PyObject *o, void *closure)
{
  return PyBool_FromLong (((GmMarked *) o)->kind <= GM_MARK_DISABLE_ONE);
}

static PyObject *
marked_recursive (PyObject *o, void *closure)
{
  return PyBool_FromLong (((GmMarked *) o)->kind != GM_MARK_DISABLE_ONE);
}

static PyGetSetDef getset[] = {
  { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict },
  { "disables", marked_disables, NULL, "True if it is never recorded." },
  { "recursive", marked_recursive, NULL, "False if what it calls may be compiled all the same." },
  { NULL },
};

static PyMemberDef members[] = {
  { "__wrapped__", T_OBJECT, offsetof (GmMarked, fn), READONLY, "The function that was marked." },
  { NULL },
};

PyTypeObject gm_py_marked_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.Marked",
  .tp_doc = "Marked(fn, kind, reason='')\n\nWhat gramme.compiler.disable and "
            "assume_constant_result return.",
  .tp_basicsize = sizeof (GmMarked),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL
              | Py_TPFLAGS_METHOD_DESCRIPTOR,
  .tp_new = marked_new,
  .tp_dealloc = marked_dealloc,
  .tp_traverse = marked_traverse,
  .tp_clear = marked_clear,
  .tp_call = PyVectorcall_Call,
  .tp_vectorcall_offset = offsetof (GmMarked, vectorcall),
  .tp_descr_get = marked_get,
  .tp_repr = marked_repr,
  .tp_getset = getset,
  .tp_members = members,
  .tp_dictoffset = offsetof (GmMarked, dict),
  .tp_weaklistoffset = offsetof (GmMarked, weakrefs),
};

static PyObject *
keep_whole (PyObject *module, PyObject *fn)
{
  if (!PyFunction_Check (fn)) {
    PyErr_Format (PyExc_TypeError, "keep_whole() takes a Python function, not a %.100s",
                  Py_TYPE (fn)->tp_name);
    return NULL;
  }
  GmCodeCache *cache = gm_code_cache_get ((PyCodeObject *) PyFunction_GET_CODE (fn));
  if (!cache)
    return NULL;
  cache->whole = true;
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
  { "set_stance", set_stance, METH_O,
    "set_stance(name) -> str: sets this thread's stance, returns the old one." },
  { "keep_whole", keep_whole, METH_O,
    "keep_whole(function): compiled functions call it, and do not record through it." },
  { "set_forced", set_forced, METH_O,
    "set_forced(backend or None): the back end of all compiled functions in this thread; returns "
    "the old one." },
  { "call_always", (PyCFunction) (void *) call_always, METH_FASTCALL,
    "call_always(compiled, *args): calls it compiled, whatever this thread wants of compiled "
    "functions." },
  { "set_steady", set_steady, METH_O,
    "set_steady(on) -> bool: sets this thread's skip_guard_eval_unsafe, returns what it was." },
  { NULL },
};

int
gm_py_init_control (PyObject *module)
{
  if (PyModule_AddType (module, &gm_py_marked_type) < 0
      || PyType_Ready (&gm_comptime_session_type) < 0 || PyType_Ready (&gm_comptime_fact_type) < 0
      || PyModule_AddType (module, &gm_comptime_value_type) < 0)
    return -1;
  return PyModule_AddFunctions (module, functions) < 0
             ? -1
             : PyModule_AddFunctions (module, gm_control_functions);
}
