/* SPDX-License-Identifier: Apache-2.0
 * compiled_autograd.c -- see compiled_autograd.h.
 *
 * There is a cache of compiled stretches (GmStretchCache) for each configuration (back end and
 * options), made at its first use, and kept: leaving enable () and entering it again finds the
 * compiled code.  The cache that is entered belongs to the thread, like the grad mode.
 */
#include "core/objects/cpython.h"

#include "core/base/log.h"
#include "core/compile.h"
#include "core/plugin/registry.h"
#include "core/capture/callable_backend.h"
#include "core/capture/compiled_autograd.h"
#include "core/objects/errors.h"
#include "core/capture/hook.h"
#include "core/capture/hook_program.h"

#include "core/objects/import.h"

static GHashTable *tapes; /* GmConfig -> GmStretchCache */

/* -- Compiling --------------------------------------------------------------------------------- */

static void
tell (const GmConfig *config, const GmGraph *g, const char *again)
{
  if (again)
    gm_log (GM_LOG_RECOMPILES, "a backward is compiled again with %s: %s", config->text, again);
  if (!gm_log_on (GM_LOG_COMPILED_AUTOGRAD))
    return;
  g_autofree char *text = gm_graph_text (g);
  gm_log (GM_LOG_COMPILED_AUTOGRAD, "a stretch of a backward, for %s:\n%s", config->text, text);
}

/* Compiles the graph of a stretch of a backward pass for the cache; fits GmStretchCompile.
 * data: the GmConfig; again: why the stretch is compiled once more, or NULL.  NULL with *error. */
static GmPlan *
compile (void *data, GmGraph *g, const char *again, GError **error)
{
  const GmConfig *config = data;
  g_autoptr (GmCompile) c = gm_compile_new ();

  tell (config, g, again);
  gm_compile_set_graph (c, g);
  c->ask.options = (const char *const *) config->options;
  if (config->callable) {
    c->ask.make_exec = gm_callable_make_exec;
    c->ask.make_exec_data = config;
  } else if (!(c->ask.backend = gm_backend_get (config->backend, error))) {
    return NULL;
  }
  return gm_compile_run (c, 's', 'l', error) ? gm_plan_ref (c->lower.plan) : NULL;
}

static void
drop_config (void *config)
{
  gm_config_unref (config);
}

/* Returns the cache of compiled stretches for a configuration, made on first use; borrowed.
 * Steals the reference to `config`. */
static GmStretchCache *
tape_for (const GmConfig *config)
{
  GmStretchCache *t = g_hash_table_lookup (tapes, config);

  if (t) {
    gm_config_unref (config);
    return t;
  }
  t = gm_stretch_cache_new (compile, gm_hook_program_find, (void *) config, drop_config);
  g_hash_table_insert (tapes, (void *) config, t);
  return t;
}

void
gm_compiled_autograd_reset (void)
{
  g_autoptr (GList) all = g_hash_table_get_values (tapes);

  for (GList *l = all; l; l = l->next)
    gm_stretch_cache_reset (l->data);
}

/* -- config.compiled_autograd ------------------------------------------------------------------ */

static bool
is_wanted (void)
{
  /* switches: the dict of gramme._dynamo.config, which lives as long as the process */
  static PyObject *switches, *name;

  if (G_UNLIKELY (!switches)) {
    PyObject *modules = PyImport_GetModuleDict ();
    PyObject *config = modules ? PyDict_GetItemString (modules, "gramme._dynamo.config") : NULL;
    if (!config) /* the module is not loaded, so the switch cannot be set */
      return false;
    switches = Py_NewRef (PyModule_GetDict (config));
    name = PyUnicode_InternFromString ("compiled_autograd");
  }
  return PyDict_GetItem (switches, name) == Py_True;
}

bool
gm_compiled_autograd_on (void)
{
  return gm_stretch_cache_entered () || is_wanted ();
}

/* Returns the configuration with which a backward that begins now is compiled: that of the
 * compiled function around this call, else the default back end.  A new reference; NULL with an
 * exception. */
static const GmConfig *
config_now (void)
{
  const GmConfig *config = gm_hook_config ();

  if (config)
    return gm_config_ref (config);
  PyObject *module = gm_import ("gramme._compile");
  PyObject *backend = module ? PyObject_CallMethod (module, "backend_of", "O", Py_None) : NULL;
  const char *text = backend && PyUnicode_Check (backend) ? PyUnicode_AsUTF8 (backend) : NULL;
  if (text)
    config = gm_config_get (text, NULL);
  else if (backend && !PyErr_Occurred ())
    config = gm_config_for (backend, NULL, NULL);
  Py_XDECREF (backend);
  Py_XDECREF (module);
  return config;
}

static bool
begin (GmBackwardScope *scope)
{
  *scope = (GmBackwardScope){ 0 };
  if (G_LIKELY (!is_wanted () && !gm_stress ("tape")) || gm_stretch_cache_entered ())
    return true;
  const GmConfig *config = config_now ();
  if (!config)
    return false;
  scope->entered = true;
  scope->tape = gm_stretch_cache_ref (tape_for (config));
  gm_stretch_cache_enter (scope->tape);
  return true;
}

static void
end (GmBackwardScope *scope)
{
  if (!scope->entered)
    return;
  gm_stretch_cache_enter (NULL);
  gm_stretch_cache_unref (scope->tape);
}

/* -- The context manager ----------------------------------------------------------------------- */

typedef struct {
  PyObject_HEAD GmStretchCache *tape; /* owned: the cache of stretches to enter; NULL: none */
  GmStretchCache
      *before; /* while it is open: the previous cache, owned by the scope that entered it */
  bool open;
} CompiledAutograd;

/* Makes a CompiledAutograd (backend, options=None), a context manager.  backend: a name, a
 * callable, or None, which turns compiling of backward passes off inside of it. */
static PyObject *
scope_new (PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *backend, *options = Py_None;
  const GmConfig *config = NULL;

  if (!PyArg_ParseTuple (args, "O|O:CompiledAutograd", &backend, &options))
    return NULL;
  if (backend != Py_None && !(config = gm_config_of (backend, options)))
    return NULL;
  CompiledAutograd *self = (CompiledAutograd *) type->tp_alloc (type, 0);
  if (self && config)
    self->tape = gm_stretch_cache_ref (tape_for (config));
  else
    gm_config_unref (config);
  return (PyObject *) self;
}

static PyObject *
scope_enter (PyObject *o, PyObject *unused)
{
  CompiledAutograd *self = (CompiledAutograd *) o;

  if (self->open) {
    PyErr_SetString (PyExc_RuntimeError,
                     "this context is open already; make another one for each `with`");
    return NULL;
  }
  self->open = true;
  Py_INCREF (o);
  self->before = gm_stretch_cache_enter (self->tape);
  return Py_NewRef (o);
}

static PyObject *
scope_exit (PyObject *o, PyObject *args)
{
  CompiledAutograd *self = (CompiledAutograd *) o;

  if (self->open) {
    self->open = false;
    gm_stretch_cache_enter (self->before);
    Py_DECREF (o);
  }
  Py_RETURN_NONE;
}

static void
scope_dealloc (PyObject *o)
{
  gm_stretch_cache_unref (((CompiledAutograd *) o)->tape);
  Py_TYPE (o)->tp_free (o);
}

static PyMethodDef scope_methods[] = {
  { "__enter__", scope_enter, METH_NOARGS,
    "Backward passes of this thread go through the back end from now on." },
  { "__exit__", scope_exit, METH_VARARGS, "What was in force before is in force again." },
  { NULL },
};

static PyTypeObject scope_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.CompiledAutograd",
  .tp_doc = "CompiledAutograd(backend, options=None): see gramme._dynamo.compiled_autograd.enable.",
  .tp_basicsize = sizeof (CompiledAutograd),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_new = scope_new,
  .tp_dealloc = scope_dealloc,
  .tp_methods = scope_methods,
};

/* -- Counters ---------------------------------------------------------------------------------- */

PyObject *
gm_compiled_autograd_counts (void)
{
  GmStretchCacheCounts n = gm_stretch_cache_counts ();

  return Py_BuildValue ("{s:K,s:K,s:K,s:K}", "captures", n.captures, "recompiles", n.recompiles,
                        "hits", n.hits, "eager", n.eager);
}

static void
add_reason (void *data, const char *reason, uint64_t n)
{
  PyObject **dict = data, *number = PyLong_FromUnsignedLongLong (n);

  if (*dict && (!number || PyDict_SetItemString (*dict, reason, number) < 0))
    Py_CLEAR (*dict);
  Py_XDECREF (number);
}

PyObject *
gm_compiled_autograd_reasons (void)
{
  PyObject *dict = PyDict_New ();

  gm_stretch_cache_reasons (add_reason, &dict);
  return dict;
}

int
gm_py_init_compiled_autograd (PyObject *module)
{
  tapes = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) gm_stretch_cache_unref);
  gm_py_backward_watch = (GmBackwardWatch){ begin, end, gm_hook_program_try };
  return PyModule_AddType (module, &scope_type);
}
