/* SPDX-License-Identifier: Apache-2.0
 * planned_graph.c -- see planned_graph.h.
 *
 * The graph goes through the stages s to l, like the graph of a compiled function: it is
 * functionalized, joined with its gradient, cut in two, and given to the back end.  A graph of
 * numbers becomes one plan.  A graph for all sizes becomes plans (core/plan_cache.h) where these
 * can express everything that it does, else one plan for the numbers of the latest call.
 */
#include "core/objects/cpython.h"

#include "core/compile.h"
#include "core/plan_cache.h"
#include "core/plugin/registry.h"
#include "core/capture/callable_backend.h"
#include "core/capture/counters.h"
#include "core/objects/errors.h"
#include "core/objects/graph_object.h"
#include "core/capture/hook.h"
#include "core/capture/planned_graph.h"

typedef struct {
  PyObject_HEAD PyObject *graph; /* owned: gramme._core.Graph */
  const GmConfig *config;        /* owned */
  GmPlanCache *plans;            /* owned; or NULL */
  GmPlan *plan;                  /* owned; NULL: none yet */
  GmGraphNow *now; /* owned: the sizes that `plan` was made for; NULL: `plan` is for all calls */
} Planned;

/* -- Compiling --------------------------------------------------------------------------------- */

/* Returns a compilation of a copy of g with the settings of `self`, before its first stage; NULL
 * with *error.  The caller frees. */
static GmCompile *
begin (const Planned *self, const GmGraph *g, GError **error)
{
  g_autoptr (GmCompile) c = gm_compile_new ();

  gm_compile_set_graph (c, gm_graph_copy_apart (g));
  c->ask.options = (const char *const *) self->config->options;
  if (self->config->callable) {
    c->ask.make_exec = gm_callable_make_exec;
    c->ask.make_exec_data = self->config;
  } else if (!(c->ask.backend = gm_backend_get (self->config->backend, error))) {
    return NULL;
  }
  return g_steal_pointer (&c);
}

static bool
make_plan (Planned *self, const GmGraph *g, GError **error)
{
  g_autoptr (GmCompile) c = begin (self, g, error);

  if (!c || !gm_compile_run (c, 's', 'l', error))
    return false;
  gm_plan_unref (self->plan);
  self->plan = gm_plan_ref (c->lower.plan);
  return true;
}

/* Compiles the graph as far as that is possible before the first call: a graph of numbers, or
 * plans for all sizes.  False with an exception. */
static bool
make (Planned *self)
{
  const GmGraph *g = gm_py_graph_get (self->graph);
  GError *error = NULL;
  bool made = true;

  if (!gm_py_graph_sizes (self->graph)) {
    made = make_plan (self, g, &error);
  } else if (gm_plan_cache_possible (g)) {
    g_autoptr (GmCompile) c = begin (self, g, &error);
    made = c && (self->plans = gm_plan_cache_new (c, &error));
  }
  gm_count_aot (made);
  if (!made)
    gm_py_raise (error);
  return made;
}

/* -- Running ----------------------------------------------------------------------------------- */

/* Sets self->plan to a plan for the sizes of these arguments, unless the present plan is for
 * these sizes.  False with an exception. */
static bool
make_for (Planned *self, PyObject *const *args, Py_ssize_t n)
{
  GmGraphNow *now = gm_graph_sizes_now (gm_py_graph_sizes (self->graph), args, n);
  GError *error = NULL;

  if (!now)
    return false;
  if (self->plan && now == self->now) {
    gm_graph_now_unref (now);
    return true;
  }
  bool made = make_plan (self, now->graph, &error);
  gm_graph_now_unref (made ? self->now : now);
  if (made)
    self->now = now;
  else
    gm_py_raise (error);
  return made;
}

/* Stores new references to the inputs of the plan in `in`: the tensors of the arguments,
 * refreshed if they are stale views, and stand-ins for ints.  False with an exception, and without
 * references. */
static bool
take_arguments (PyObject *const *args, Py_ssize_t n, GmTensor **in)
{
  for (Py_ssize_t i = 0; i < n; i++) {
    GmTensor *t = gm_py_tensor_get (args[i]);
    if (!t && !PyLong_Check (args[i])) {
      PyErr_Format (PyExc_TypeError, "input %zd of the graph is a %.100s, not a Tensor", i,
                    Py_TYPE (args[i])->tp_name);
      while (i-- > 0)
        gm_tensor_unref (in[i]);
      return false;
    }
    if (t && t->base)
      gm_autograd_view_refresh (t);
    in[i] = t ? gm_tensor_ref (t) : gm_py_int_as_size (args[i]);
  }
  return true;
}

static PyObject *
tuple_of (GmTensor **out, Py_ssize_t n)
{
  PyObject *result = PyTuple_New (n);

  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *o = result ? gm_py_tensor_take (out[i]) : NULL;
    if (o)
      PyTuple_SET_ITEM (result, i, o);
    else if (result)
      Py_CLEAR (result);
    else
      gm_tensor_unref (out[i]);
  }
  return result;
}

static PyObject *
planned_call (PyObject *o, PyObject *args, PyObject *kwargs)
{
  Planned *self = (Planned *) o;
  const GmGraph *g = gm_py_graph_get (self->graph);
  Py_ssize_t n = PyTuple_GET_SIZE (args);
  PyObject *const *items = &PyTuple_GET_ITEM (args, 0);
  GError *error = NULL;

  if (n != (Py_ssize_t) g->inputs->len || (kwargs && PyDict_GET_SIZE (kwargs)))
    return PyErr_Format (PyExc_TypeError, "the graph takes %u tensors, %zd were given",
                         (unsigned) g->inputs->len, n);
  if (!self->plans && gm_py_graph_sizes (self->graph) && !make_for (self, items, n))
    return NULL;
  g_autofree GmTensor **in = g_new0 (GmTensor *, n + 1);
  g_autofree GmTensor **out = g_new0 (GmTensor *, g->outputs->len + 1);
  if (!take_arguments (items, n, in))
    return NULL;
  g_autoptr (GmPlan) plan =
      self->plan ? gm_plan_ref (self->plan) : NULL; /* the back end's code may call this again */
  gm_hook_suspend ();
  bool ran = self->plans ? gm_plan_cache_run (self->plans, in, (int) n, out, &error)
                         : gm_plan_check (plan, in, (int) n, &error)
                               && gm_plan_run (plan, in, (int) n, out, &error);
  gm_hook_unsuspend ();
  for (Py_ssize_t i = 0; i < n; i++)
    gm_tensor_unref (in[i]);
  return ran ? tuple_of (out, g->outputs->len) : gm_py_raise (error);
}

/* -- The type ---------------------------------------------------------------------------------- */

/* Makes a PlannedGraph (graph, backend, options).  options: NULL or "key=value" strings. */
static PyObject *
planned_new (PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *graph, *backend, *options = Py_None;

  if (!PyArg_ParseTuple (args, "OO|O:PlannedGraph", &graph, &backend, &options))
    return NULL;
  if (!gm_py_graph_get (graph))
    return PyErr_Format (PyExc_TypeError, "a back end compiles a recorded graph, not a %.100s",
                         Py_TYPE (graph)->tp_name);
  const GmConfig *config = gm_config_of (backend, options);
  Planned *self = config ? (Planned *) type->tp_alloc (type, 0) : NULL;
  if (!self) {
    gm_config_unref (config);
    return NULL;
  }
  self->graph = Py_NewRef (graph);
  self->config = config;
  if (!make (self))
    Py_CLEAR (self);
  return (PyObject *) self;
}

static void
planned_dealloc (PyObject *o)
{
  Planned *self = (Planned *) o;

  gm_plan_cache_free (self->plans);
  gm_plan_unref (self->plan);
  gm_graph_now_unref (self->now);
  gm_config_unref (self->config);
  Py_XDECREF (self->graph);
  Py_TYPE (o)->tp_free (o);
}

static PyTypeObject planned_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.PlannedGraph",
  .tp_doc = "PlannedGraph(graph, backend, options=None): the graph, compiled with that back end; "
            "called with its inputs, it returns "
            "a tuple of tensors, with gradients.",
  .tp_basicsize = sizeof (Planned),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_new = planned_new,
  .tp_call = planned_call,
  .tp_dealloc = planned_dealloc,
};

int
gm_py_init_planned_graph (PyObject *module)
{
  return PyModule_AddType (module, &planned_type);
}
