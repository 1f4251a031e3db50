/* SPDX-License-Identifier: Apache-2.0
 * callable_backend.c -- see callable_backend.h.
 *
 * Results of a callable are not trusted: their number, type, shape and dtype are compared with the
 * graph's before any other code sees them.  Every failure while it compiles becomes one exception,
 * with the back end's name, the first exception as its cause, and `inner_exception`.
 */
#include "core/objects/cpython.h"

#include "core/capture/callable_backend.h"

#include "core/autograd/autograd.h"
#include "core/graph/checks.h"

#include "core/objects/graph_object.h"

#include <unistd.h>

PyObject *gm_py_backend_failed;

/* -- Failures ---------------------------------------------------------------------------------- */

/* Replaces the pending exception by a BackendCompilerFailed that names the back end and has the
 * exception as its cause.  KeyboardInterrupt and the like pass unchanged. */
static void
raise_failed (const char *name)
{
  PyObject *type, *inner, *traceback;
  if (!PyErr_ExceptionMatches (PyExc_Exception))
    return;
  PyErr_Fetch (&type, &inner, &traceback);
  PyErr_NormalizeException (&type, &inner, &traceback);
  if (traceback)
    PyException_SetTraceback (inner, traceback);
  PyObject *text = PyUnicode_FromFormat (
      "the back end %s failed: %s: %S\n  it was called with a graph and example inputs, "
      "and must return a callable; gramme.compile(f, backend=\"eager\") leaves it out",
      name, ((PyTypeObject *) type)->tp_name, inner);
  PyObject *failed = text ? PyObject_CallOneArg (gm_py_backend_failed, text) : NULL;
  PyObject *named = failed ? PyUnicode_FromString (name) : NULL;
  if (named && PyObject_SetAttrString (failed, "backend_name", named) == 0
      && PyObject_SetAttrString (failed, "inner_exception", inner) == 0) {
    PyException_SetCause (failed, Py_NewRef (inner));
    PyErr_SetObject (gm_py_backend_failed, failed);
  }
  Py_XDECREF (named);
  Py_XDECREF (failed);
  Py_XDECREF (text);
  Py_XDECREF (type);
  Py_XDECREF (inner);
  Py_XDECREF (traceback);
}

/* -- Compiling --------------------------------------------------------------------------------- */

bool
gm_callable_is_aot (PyObject *fn)
{
  PyObject *mark = PyObject_GetAttrString (fn, "aot");
  bool aot = mark && PyObject_IsTrue (mark) == 1;
  Py_XDECREF (mark);
  PyErr_Clear ();
  return aot;
}

/* Returns the callable's own method named `role`, or the callable itself if it has no such
 * method or `role` is NULL; a new reference, NULL with an exception. */
static PyObject *
compiler_for (PyObject *callable, const char *role)
{
  PyObject *own = role ? PyObject_GetAttrString (callable, role) : NULL;
  if (own || !PyErr_Occurred ())
    return own ? own : Py_NewRef (callable);
  if (!PyErr_ExceptionMatches (PyExc_AttributeError))
    return NULL;
  PyErr_Clear ();
  return Py_NewRef (callable);
}

/* Calls fn (graph, examples, **options), the back end of `config`, and returns the callable that
 * it returns, a new reference; steals `examples`.  role: "compile_forward", "compile_backward",
 * "compile_inference", or NULL; if the back end has a method of this name, that is called instead
 * of fn.  core: NULL, or set to the graph object, a new reference, and to NULL if all its sizes are
 * numbers.  NULL with BackendCompilerFailed. */
static PyObject *
call_backend (const GmConfig *config, const char *role, const GmGraph *graph, PyObject *examples,
              PyObject **core)
{
  PyObject *fn = examples ? compiler_for (config->callable, role) : NULL;
  PyObject *module = fn ? gm_py_graph_module (graph) : NULL, *made = NULL;
  PyObject *args = module ? PyTuple_Pack (2, module, examples) : NULL;
  if (args)
    made = PyObject_Call (fn, args, config->kwargs);
  if (made && !PyCallable_Check (made)) {
    PyErr_Format (PyExc_TypeError, "it returned a %.100s, which cannot be called",
                  Py_TYPE (made)->tp_name);
    Py_CLEAR (made);
  }
  if (made && core) {
    *core = PyObject_GetAttrString (module, "_core");
    if (*core && !gm_py_graph_sizes (*core)) /* all its sizes turned out to be numbers */
      Py_CLEAR (*core);
  }
  Py_XDECREF (args);
  Py_XDECREF (module);
  Py_XDECREF (examples);
  Py_XDECREF (fn);
  if (!made)
    raise_failed (config->text);
  return made;
}

static PyObject *
random_state (uint64_t draws)
{
  GError *error = NULL;
  GmMeta m = gm_meta_make (GM_I64, 1, (const int64_t[]){ 2 });
  GmTensor *t = gm_tensor_new (&m, &error);
  if (!t)
    return gm_py_raise (error);
  int64_t *words = gm_tensor_data (t);
  words[0] = (int64_t) gm_random_current_seed ();
  words[1] = (int64_t) gm_random_take (draws);
  return gm_py_tensor_take (t);
}

static PyObject *
inputs_list (const GmDirect *d, PyObject *const *slots, uint64_t draws)
{
  PyObject *list = PyList_New (d->n_inputs);
  for (uint32_t i = 0; list && i < d->n_inputs; i++) {
    PyObject *o =
        d->slots[i] == GM_SLOT_RNG ? random_state (draws) : Py_NewRef (slots[d->slots[i]]);
    if (!o)
      Py_CLEAR (list);
    else
      PyList_SET_ITEM (list, i, o);
  }
  return list;
}

GmDirect *
gm_callable_compile (const GmConfig *config, const GmRecording *rec, const GmGraph *graph,
                     PyObject *const *slots)
{
  GmDirect *d = g_new0 (GmDirect, 1);
  d->name = g_strdup (config->text);
  d->n_inputs = rec->n_inputs;
  d->slots = g_new (uint32_t, rec->n_inputs + 1);
  for (uint32_t i = 0; i < rec->n_inputs; i++)
    d->slots[i] = rec->inputs[i].slot;
  d->may_fail = gm_graph_may_fail (graph);
  for (uint32_t i = 0; i < graph->nodes->len; i++)
    d->changes_shapes |= gm_graph_node (graph, i)->op == GM_OP_set_;
  d->written = g_new (uint32_t, rec->n_inputs + 1);
  for (uint32_t i = 0; i < rec->n_inputs; i++)
    if (rec->inputs[i].mutated)
      d->written[d->n_written++] = i;
  d->rng_draws = rec->rng_taken;
  d->rng_output = rec->rng_output;
  d->n_outputs = graph->outputs->len;
  d->outputs = g_new (GmMeta, d->n_outputs + 1);
  for (uint32_t i = 0; i < d->n_outputs; i++)
    d->outputs[i] = *gm_graph_meta (graph, g_array_index (graph->outputs, GmGraphOutput, i).value);
  /* The example for the generator's state draws nothing, since compiling must not change what the
   * program computes. */
  d->fn = call_backend (config, NULL, graph, inputs_list (d, slots, 0),
                        gm_graph_is_symbolic (graph) ? &d->graph : NULL);
  if (!d->fn)
    g_clear_pointer (&d, gm_callable_direct_free);
  return d;
}

void
gm_callable_direct_free (GmDirect *d)
{
  if (!d)
    return;
  Py_XDECREF (d->fn);
  Py_XDECREF (d->graph);
  g_free (d->name);
  g_free (d->slots);
  g_free (d->written);
  g_free (d->outputs);
  g_free (d);
}

/* -- Running ----------------------------------------------------------------------------------- */

static bool
same_value (const GmTensor *t, const GmMeta *m)
{
  return t->meta.dtype == m->dtype && t->meta.ndim == m->ndim
         && memcmp (t->meta.sizes, m->sizes, m->ndim * sizeof (int64_t)) == 0;
}

/* Checks what the back end's code returned, and returns it as a fast sequence of n tensors that
 * have the expected metas; steals `result`.  NULL with an exception, also if `result` is NULL. */
static PyObject *
check_results (const char *name, PyObject *result, const GmMeta *metas, uint32_t n)
{
  if (!result)
    return NULL;
  if (!PyTuple_Check (result) && !PyList_Check (result)) {
    PyErr_Format (gm_py_backend_error,
                  "what the back end %s compiled must return a tuple of %u tensors, not a %.100s",
                  name, (unsigned) n, Py_TYPE (result)->tp_name);
    goto failed;
  }
  if (PySequence_Fast_GET_SIZE (result) != (Py_ssize_t) n) {
    PyErr_Format (gm_py_backend_error,
                  "what the back end %s compiled must return %u tensors, not %zd", name,
                  (unsigned) n, PySequence_Fast_GET_SIZE (result));
    goto failed;
  }
  for (uint32_t i = 0; i < n; i++) {
    PyObject *o = PySequence_Fast_GET_ITEM (result, i);
    const GmTensor *t = gm_py_tensor_get (o);
    if (t && same_value (t, &metas[i]))
      continue;
    g_autofree char *want = gm_meta_text (&metas[i]),
                    *have = t ? gm_meta_text (&t->meta) : g_strdup (Py_TYPE (o)->tp_name);
    PyErr_Format (gm_py_backend_error,
                  "result %u of what the back end %s compiled is %s, the graph's is %s",
                  (unsigned) i, name, have, want);
    goto failed;
  }
  return result;
failed:
  Py_DECREF (result);
  return NULL;
}

/* Computes, for the sizes of a call, the metas of the results (`outputs`) and the number of
 * random numbers that the graph draws (`draws`).  False with an exception. */
static bool
settle_results (const GmDirect *d, const GmGraphNow *now, GmMeta *outputs, int64_t *draws)
{
  const GmGraph *g = gm_py_graph_get (d->graph);
  GError *error = NULL;
  for (uint32_t i = 0; i < d->n_outputs; i++)
    outputs[i] =
        *gm_graph_meta (now->graph, g_array_index (now->graph->outputs, GmGraphOutput, i).value);
  if (gm_sym_eval (g->sym, d->rng_draws, now->symbols, draws, &error))
    return true;
  gm_py_raise (error);
  return false;
}

static PyObject *
call_sized (const GmDirect *d, PyObject *const *slots)
{
  GmGraphSizes *sizes = gm_py_graph_sizes (d->graph);
  g_autofree GmMeta *outputs = g_new (GmMeta, d->n_outputs + 1);
  int64_t draws = 0;
  PyObject *result = NULL, *list = inputs_list (d, slots, 0);
  GmGraphNow *now =
      list ? gm_graph_sizes_now (sizes, &PyList_GET_ITEM (list, 0), d->n_inputs) : NULL;
  if (now && settle_results (d, now, outputs, &draws)) {
    Py_SETREF (list, inputs_list (d, slots, (uint64_t) draws));
    result = list ? gm_py_graph_call (d->graph, now, d->fn, &PyList_GET_ITEM (list, 0), d->n_inputs)
                  : NULL;
    result = check_results (d->name, result, outputs, d->n_outputs);
  }
  gm_graph_now_unref (now);
  Py_XDECREF (list);
  return result;
}

static PyObject *
call_plain (const GmDirect *d, PyObject *const *slots)
{
  PyObject *list = inputs_list (d, slots, (uint64_t) d->rng_draws);
  PyObject *result =
      list ? PyObject_Vectorcall (d->fn, &PyList_GET_ITEM (list, 0), d->n_inputs, NULL) : NULL;
  Py_XDECREF (list);
  return check_results (d->name, result, d->outputs, d->n_outputs);
}

/* Former state of a tensor that a graph writes to while it runs. */
typedef struct {
  GmTensor *copy; /* owned; NULL: the tensor cannot be restored */
  uint32_t writes;
} Before;

static GmTensor *
written (const GmDirect *d, PyObject *const *slots, uint32_t k)
{
  return gm_py_tensor_get (slots[d->slots[d->written[k]]]);
}

/* Stores in before[k] a copy of each tensor that the graph writes to, for put_back.  The copy is
 * left out where it is not needed (the graph never fails, or fails for shapes alone) and where it
 * would not help (the graph gives the tensor a gradient history or other memory). */
static void
keep_written (const GmDirect *d, PyObject *const *slots, Before *before)
{
  for (uint32_t k = 0; k < d->n_written; k++) {
    GmTensor *t = written (d, slots, k);
    bool can = d->may_fail && !d->changes_shapes && gm_tensor_is_leaf (t)
               && (!t->base || !gm_tensor_requires_grad (t->base));
    before[k] =
        (Before){ can ? gm_op_run (GM_OP_copy, &t, 1, NULL, NULL) : NULL, *gm_tensor_writes (t) };
  }
}

/* Restores the tensors that a failed graph has written to from their copies.  False if a tensor
 * could not be restored. */
static bool
put_back (const GmDirect *d, PyObject *const *slots, const Before *before)
{
  bool all = true;
  for (uint32_t k = 0; k < d->n_written; k++) {
    GmTensor *t = written (d, slots, k);
    if (*gm_tensor_writes (t) == before[k].writes)
      continue; /* the graph failed before it wrote to this tensor */
    bool done = before[k].copy && gm_tensor_is_leaf (t)
                && gm_op_run_into (GM_OP_copy, &before[k].copy, 1, NULL, t, NULL);
    if (done)
      *gm_tensor_writes (t) = before[k].writes;
    all &= done;
  }
  return all;
}

bool
gm_callable_direct_run (const GmDirect *d, PyObject *const *slots, PyObject **outputs, bool *undone)
{
  int64_t before[2];
  g_autofree Before *kept = d->n_written ? g_new (Before, d->n_written) : NULL;
  gm_random_get_state (before);
  keep_written (d, slots, kept);
  PyObject *result = d->graph ? call_sized (d, slots) : call_plain (d, slots);
  if (!result) {
    gm_random_set_state (before);
    *undone = put_back (d, slots, kept);
  }
  for (uint32_t k = 0; k < d->n_written; k++)
    gm_tensor_unref (kept[k].copy);
  if (!result)
    return false;
  for (uint32_t i = 0; i < d->n_outputs; i++)
    outputs[i] = Py_NewRef (PySequence_Fast_GET_ITEM (result, i));
  Py_DECREF (result);
  if (d->rng_output != GM_NO_ID) {
    GmScalar after =
        gm_tensor_get (gm_py_tensor_get (outputs[d->rng_output]), (const int64_t[]){ 1 });
    gm_random_take ((uint64_t) (after.i - before[1]));
  }
  return true;
}

/* -- Forward and backward through a plan ------------------------------------------------------- */

typedef struct {
  PyObject *fn[2];        /* by role; NULL: none */
  PyObject *graph[2];     /* by role: the graph object if it has symbolic sizes; else NULL */
  const GmConfig *config; /* owned */
  GmGraph *backward;      /* the backward graph while it is not compiled yet; or NULL */
  /* Held by the thread that compiles the backward, which may release the GIL; NULL: no thread has
   * to. */
  PyThread_type_lock lock;
  unsigned long maker; /* the thread that compiles the backward, or 0 */
  pid_t maker_pid;     /* the process of `maker` */
} Exec;

static void
exec_unref (void *data)
{
  Exec *x = data;
  PyGILState_STATE gil = PyGILState_Ensure ();
  for (int role = 0; role < 2; role++) {
    Py_XDECREF (x->fn[role]);
    Py_XDECREF (x->graph[role]);
  }
  gm_config_unref (x->config);
  PyGILState_Release (gil);
  gm_graph_free (x->backward);
  if (x->lock)
    PyThread_free_lock (x->lock);
  g_free (x);
}

/* Returns a tensor of zeros with the meta `like`, as an example input for a back end; where the
 * strides leave gaps or elements overlap, a view of a larger tensor.  NULL with *error. */
static GmTensor *
example_of (const GmMeta *like, GError **error)
{
  GmMeta m = *like;

  m.requires_grad = 0;
  if (gm_meta_is_dense (&m))
    return gm_tensor_new_zeros (&m, error);
  GmMeta whole = gm_meta_make ((GmDtype) m.dtype, 1, (const int64_t[]){ gm_meta_extent (&m) });
  whole.device = m.device;
  g_autoptr (GmTensor) t = gm_tensor_new_zeros (&whole, error);
  return t ? gm_tensor_new_view (t, &m, 0) : NULL;
}

static PyObject *
examples_of (const GmGraph *g)
{
  PyObject *list = PyList_New (g->inputs->len);
  const int64_t *hints = gm_graph_is_symbolic (g) ? (const int64_t *) g->sizes->hints->data : NULL;
  for (uint32_t i = 0; list && i < g->inputs->len; i++) {
    GError *error = NULL;
    GmMeta m = *gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i));
    GmTensor *t =
        hints && !gm_graph_meta_now (g, &m, hints, &m, &error) ? NULL : example_of (&m, &error);
    PyObject *o = t ? gm_py_tensor_take (t) : gm_py_raise (error);
    if (!o)
      Py_CLEAR (list);
    else
      PyList_SET_ITEM (list, i, o);
  }
  return list;
}

/* Compiles the graph of `role` (0: forward, 1: backward) and keeps the callable in x; `name` is
 * passed as `role` to call_backend.  False with an exception. */
static bool
make_role (Exec *x, int role, const char *name, const GmGraph *g)
{
  PyObject *graph = NULL, *fn = call_backend (x->config, name, g, examples_of (g),
                                              gm_graph_is_symbolic (g) ? &graph : NULL);
  if (!fn)
    return false;
  x->graph[role] = graph;
  x->fn[role] = fn;
  return true;
}

#define WAIT_US 50000

/* Takes x->lock, which the thread that compiles the backward holds.  Waits without the GIL,
 * which that thread needs, and handles signals.  In the child of a fork, a lock held by a thread
 * that does not exist any more is replaced.  False with an exception. */
static bool
take_lock (Exec *x)
{
  if (PyThread_acquire_lock (x->lock, NOWAIT_LOCK))
    return true;
  for (;;) {
    PyLockStatus status;
    if (x->maker && x->maker_pid != getpid ()) {
      x->lock = PyThread_allocate_lock (); /* the old lock cannot be freed while it is held */
      x->maker = 0;
    }
    Py_BEGIN_ALLOW_THREADS status = PyThread_acquire_lock_timed (x->lock, WAIT_US, 0);
    Py_END_ALLOW_THREADS if (status == PY_LOCK_ACQUIRED) return true;
    if (PyErr_CheckSignals () < 0)
      return false;
  }
}

/* Compiles the backward at its first use, once for all threads.  False with an exception, also
 * if this thread is compiling it already. */
static bool
make_backward (Exec *x)
{
  unsigned long me = PyThread_get_thread_ident ();
  if (x->maker == me && x->maker_pid == getpid ()) {
    PyErr_Format (
        gm_py_backend_error,
        "the back end %s runs, while it compiles a backward, what needs that very backward",
        x->config->text);
    return false;
  }
  if (!take_lock (x))
    return false;
  x->maker = me;
  x->maker_pid = getpid ();
  bool made = x->fn[1] || make_role (x, 1, "compile_backward", x->backward);
  if (made)
    g_clear_pointer (&x->backward, gm_graph_free);
  x->maker = 0;
  PyThread_release_lock (x->lock);
  return made;
}

/* Runs the callable of `role` as part of a plan, which has allocated the outputs: the results
 * are copied there.  Takes the GIL.  Gradients are off meanwhile, since the plan itself records the
 * node of the gradient. */
static bool
exec_run_sized (void *data, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
                GmTensor *const *out, int n_out, GError **error)
{
  Exec *x = data;
  PyGILState_STATE gil = PyGILState_Ensure ();
  bool was = gm_grad_set_enabled (false), ok = false;
  PyObject *result = NULL, *args = x->fn[role] || make_backward (x) ? PyTuple_New (n_in) : NULL;
  g_autofree GmMeta *metas = g_new (GmMeta, n_out + 1);
  for (int i = 0; args && i < n_in; i++) {
    /* An alias: a back end in Python may keep or wrap its arguments, and must not touch the plan's
     * own tensors. */
    PyObject *o = gm_py_tensor_take (gm_tensor_detach (in[i]));
    if (!o)
      Py_CLEAR (args);
    else
      PyTuple_SET_ITEM (args, i, o);
  }
  for (int i = 0; i < n_out; i++)
    metas[i] = out[i]->meta;
  PyObject *graph = symbols ? x->graph[role] : NULL;
  GmGraphNow *now = args && graph ? gm_graph_sizes_at (gm_py_graph_sizes (graph), symbols) : NULL;
  if (args && !graph == !now) {
    result = gm_py_graph_call (graph, now, x->fn[role], &PyTuple_GET_ITEM (args, 0), n_in);
    result = check_results (x->config->text, result, metas, (uint32_t) n_out);
  }
  gm_graph_now_unref (now);
  if (result) {
    ok = true;
    for (int i = 0; ok && i < n_out; i++) {
      GmTensor *t = gm_py_tensor_get (PySequence_Fast_GET_ITEM (result, i));
      gm_tensor_share_companion (out[i], t);
      ok = gm_op_run_into (GM_OP_copy, &t, 1, NULL, out[i], error);
    }
  } else
    gm_py_error_set (error);
  Py_XDECREF (result);
  Py_XDECREF (args);
  gm_grad_set_enabled (was);
  PyGILState_Release (gil);
  return ok;
}

static bool
exec_run (void *data, int role, GmTensor *const *in, int n_in, GmTensor *const *out, int n_out,
          GError **error)
{
  return exec_run_sized (data, role, NULL, in, n_in, out, n_out, error);
}

bool
gm_callable_make_exec (const void *data, const GmGraph *forward, const GmGraph *backward,
                       bool at_once, GmPlanExec *out, GError **error)
{
  Exec *x = g_new0 (Exec, 1);
  x->config = gm_config_ref (data);
  bool made =
      !forward || make_role (x, 0, backward ? "compile_forward" : "compile_inference", forward);
  if (made && backward && at_once) {
    made = make_role (x, 1, "compile_backward", backward);
  } else if (made && backward) {
    x->backward = gm_graph_copy_apart (backward);
    x->lock = PyThread_allocate_lock ();
    if (!(made = x->lock != NULL))
      PyErr_NoMemory ();
  }
  if (!made) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch (&type, &value, &traceback); /* dropping the first callable may run Python code */
    exec_unref (x);
    PyErr_Restore (type, value, traceback);
    return gm_py_error_set (error);
  }
  *out =
      (GmPlanExec){ .data = x, .run = exec_run, .unref = exec_unref, .run_sized = exec_run_sized };
  return true;
}

int
gm_py_init_callable_backend (PyObject *module)
{
  PyObject *bases = PyTuple_Pack (2, gm_py_dynamo_error, gm_py_backend_error);
  gm_py_backend_failed =
      !bases
          ? NULL
          : PyErr_NewExceptionWithDoc ("gramme.compiler.BackendCompilerFailed",
                                       "A back end written in Python raised while it compiled.  "
                                       "backend_name: its name; inner_exception: what it raised.",
                                       bases, NULL);
  Py_XDECREF (bases);
  return gm_py_backend_failed
             ? PyModule_AddObjectRef (module, "BackendCompilerFailed", gm_py_backend_failed)
             : -1;
}
