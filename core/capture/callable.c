/* SPDX-License-Identifier: Apache-2.0
 * callable.c -- the steady state of a compiled function.
 *
 * A call binds its arguments, walks the entries on the code object, and runs the first one whose
 * guards hold: no frame, no Python code.  A miss goes to gm_frontend_compile; a function that
 * cannot be traced runs as the plain function it was.  Nothing here is process-wide: grad mode and
 * the default dtype are the calling thread's, configuration is this object's.
 */
#include "core/objects/cpython.h"
#include <structmember.h>

#include "core/autograd/autograd.h"
#include "core/base/log.h"
#include "core/objects/autograd_py.h"
#include "core/bytecode/bind.h"
#include "core/capture/callable.h"
#include "core/capture/callable_backend.h"
#include "core/capture/compiled_autograd.h"
#include "core/capture/entry_draws.h"
#include "core/capture/control.h"
#include "core/capture/frontend.h"
#include "core/capture/hook.h"
#include "core/objects/call_objects.h"
#include "core/objects/overrides.h"
#include "core/capture/report.h"
#include "core/capture/resume_call.h"
#include "core/objects/tensor_object.h"
#include "core/capture/trace_host.h"
#include "core/tensor/device.h"
#include "core/models/tracker_control.h"

GmCallEnv
gm_target_env (const GmTarget *target)
{
  GmCallEnv env = { .backend = target->config,
                    .modes =
                        (gm_grad_enabled () ? GM_MODE_GRAD : 0)
                        | (target->fullgraph ? GM_MODE_FULLGRAPH : 0)
                        | (gm_break_raises_now ? GM_MODE_BREAK_RAISES : 0)
                        | (gm_draws_refused () ? GM_MODE_REFUSES_DRAWS : 0)
                        | (uint32_t) gm_default_dtype () << GM_MODE_DTYPE_SHIFT
                        | (uint32_t) gm_autocast_mode () << GM_MODE_AUTOCAST_SHIFT
                        | (gm_py_overrides && gm_py_function_mode_on () ? GM_MODE_FUNCTION_MODE : 0)
                        | (gm_default_device () == GM_DEVICE_CPU
                               ? 0
                               : (uint32_t) gm_default_device () << GM_MODE_DEVICE_SHIFT) };
  /* Under compiled autograd, pairs of hooks are called, marked or not.  The mode guards the entry
   * on that switch, too. */
  if (G_UNLIKELY (gm_saved_hooks_top () != NULL) && (env.modes & GM_MODE_GRAD)
      && !gm_compiled_autograd_on () && gm_py_saved_hooks_traced (&env.pack, &env.unpack))
    env.modes |= GM_MODE_SAVED_HOOKS;
  return env;
}

/* -- Running an entry -------------------------------------------------------------------------- */

static PyObject *
finish_long (const GmTarget *target, GmEntry *e, PyObject **slots, PyObject **outputs)
{
  PyObject *fn = PyFunction_New ((PyObject *) e->residual, target->func->func_globals);
  if (!fn)
    return NULL;
  if (e->residual->co_nfreevars)
    ((PyFunctionObject *) fn)->func_closure = Py_XNewRef (target->func->func_closure);
  uint32_t n = e->n_in_slots + e->n_outputs;
  PyObject **args = g_newa (PyObject *, n + 1);
  for (uint32_t i = 0; i < e->n_in_slots; i++)
    args[i] = Py_NewRef (slots[e->in_slots[i]]);
  memcpy (args + e->n_in_slots, outputs, e->n_outputs * sizeof (PyObject *));
  gm_hook_suspend (); /* the ending's code was recorded already */
  /* No signal's handler may run between the graph and the end of its effects. */
  gm_interrupt_hold ();
  PyObject *result = PyObject_Vectorcall (fn, args, n, NULL);
  gm_interrupt_release ();
  gm_hook_unsuspend ();
  for (uint32_t i = 0; i < e->n_in_slots; i++)
    Py_DECREF (args[i]);
  Py_DECREF (fn);
  return result;
}

GmTensor *
gm_py_int_as_size (PyObject *o)
{
  static GmTensor *one;
  if (!one) {
    GmMeta m = gm_meta_make (GM_U8, 0, NULL);
    one = gm_tensor_new_zeros (&m, NULL);
  }
  GmMeta m = {
    .dtype = GM_U8, .ndim = 1, .device = GM_DEVICE_CPU, .sizes = { PyLong_AsLongLong (o) }
  };
  return gm_tensor_new_view (one, &m, 0);
}

/* True if run_simple can run the entry, as for most entries: all inputs are tensors, it has a
 * plan or plans for all sizes, and the only output is the value that the call returns. */
bool
gm_entry_is_simple (const GmEntry *e)
{
  return (e->plan || e->plans) && !e->direct && !e->draws && e->n_ints == 0 && e->n_outputs == 1
         && !e->config->callable && !e->sets_grad && !e->calls_program && !e->rest && e->ret
         && e->ret->kind == GM_RETURN_OUTPUT;
}

static PyObject *
run_simple (const GmTarget *target, GmEntry *e, PyObject **slots, GmCallEnd *end)
{
  /* A simple entry has no back end in Python. */
  GmFailedMark mark = { .program_calls = gm_failed_program_calls };
  GmTensor **in = g_newa (GmTensor *, e->n_inputs + 1), *out;
  for (uint32_t i = 0; i < e->n_inputs; i++)
    in[i] = ((GmPyTensor *) slots[e->input_slots[i]])->t;
  GError *error = NULL;
  gm_entry_ref (e); /* a hook of the program's may reset the cache */
  gm_hook_suspend ();
  bool ran = e->plans ? gm_plan_cache_run (e->plans, in, (int) e->n_inputs, &out, &error)
                      : gm_plan_run (e->plan, in, (int) e->n_inputs, &out, &error);
  gm_hook_unsuspend ();
  gm_entry_unref (e);
  if (G_LIKELY (ran))
    return gm_py_tensor_take (out);
  gm_py_raise (error);
  return gm_failed (target->func->func_qualname, mark, false, NULL, end);
}

/* Refreshes the stale views among the inputs of `e` in the order in which the program reads
 * them.  False, without an exception: the entry must not be used and the call has to run as plain
 * Python. */
static inline bool
look (const GmTarget *target, const GmEntry *e, PyObject **slots)
{
  if (e->looks.n == 0)
    return true;
  GmTensor **in = g_newa (GmTensor *, e->n_inputs + 1);
  for (uint32_t i = 0; i < e->looks.n; i++)
    in[e->looks.inputs[i]] = ((GmPyTensor *) slots[e->input_slots[e->looks.inputs[i]]])->t;
  if (G_LIKELY (gm_read_order_take (&e->looks, in)))
    return true;
  gm_log (GM_LOG_GRAPH_BREAKS,
          "%s: this call is plain Python's: a view that gets its history in it is read after what "
          "it is a view of",
          PyUnicode_AsUTF8 (target->func->func_qualname));
  return false;
}

/* Runs an entry whose guards hold.  slots are borrowed from objects that the arguments keep
 * alive; the plan runs no Python code.  Returns as gm_target_call does. */
static PyObject *
run_entry (const GmTarget *target, GmEntry *e, PyObject **slots, GmTail *tail, GmCallEnd *end)
{
  GmFailedMark mark = gm_failed_mark ();
  GmDrawn *drawn = NULL;
  GmCallNotes notes;
  bool failed = true, undone = true; /* failed: true before the first effect */
  gm_entry_ref (e);                  /* Python code in the ending may reset the cache */
  if (G_UNLIKELY (e->calls_program))
    gm_call_notes_begin (&notes);
  PyObject **outputs = g_newa (PyObject *, e->n_outputs + 1);
  PyObject *result = NULL;
  uint32_t n_wrapped = 0;
  uint32_t n_held = 0;
  const uint32_t *held = NULL;
  if (G_UNLIKELY (e->config->callable != NULL || e->draws != NULL))
    held = gm_guards_lasting (e->guards, &n_held);
  for (uint32_t i = 0; i < n_held; i++) /* Python code may drop the objects that keep them alive */
    Py_INCREF (slots[held[i]]);
  PyObject **held_slots = slots;
  if (G_UNLIKELY (e->draws != NULL)) {
    slots = memcpy (g_newa (PyObject *, gm_guards_n_slots (e->guards) + 1), slots,
                    gm_guards_n_slots (e->guards) * sizeof (PyObject *));
    if (!gm_entry_draws_make (e->draws, slots, &drawn))
      goto out;
  }
  if (e->direct) {
    gm_hook_suspend ();
    bool ran = gm_callable_direct_run (e->direct, slots, outputs, &undone);
    gm_hook_unsuspend ();
    if (!ran)
      goto out;
    failed = false;
    n_wrapped = e->n_outputs;
  } else if (e->plan || e->plans) {
    GmTensor **in = g_newa (GmTensor *, e->n_inputs + 1),
             **out = g_newa (GmTensor *, e->n_outputs + 1);
    for (uint32_t i = 0; i < e->n_inputs; i++)
      in[i] = ((GmPyTensor *) slots[e->input_slots[i]])->t;
    for (uint32_t i = 0; i < e->n_ints; i++) /* these inputs are ints */
      in[e->ints[i]] = gm_py_int_as_size (slots[e->input_slots[e->ints[i]]]);
    GError *error = NULL;
    gm_hook_suspend (); /* a back end may be Python code */
    bool ran = G_UNLIKELY (e->plans)
                   ? gm_plan_cache_run (e->plans, in, (int) e->n_inputs, out, &error)
                   : gm_plan_run (e->plan, in, (int) e->n_inputs, out, &error);
    gm_hook_unsuspend ();
    for (uint32_t i = 0; i < e->n_ints; i++)
      gm_tensor_unref (in[e->ints[i]]);
    if (!ran) {
      gm_py_raise (error);
      goto out;
    }
    failed = false;
    for (; n_wrapped < e->n_outputs; n_wrapped++) {
      outputs[n_wrapped] = gm_py_tensor_take (out[n_wrapped]);
      if (!outputs[n_wrapped]) {
        for (uint32_t k = n_wrapped + 1; k < e->n_outputs; k++)
          gm_tensor_unref (out[k]);
        goto out;
      }
    }
  }
  failed = false;
  result =
      e->ret ? gm_return_build (e->ret, slots, outputs) : finish_long (target, e, slots, outputs);
out:
  while (n_wrapped > 0)
    Py_DECREF (outputs[--n_wrapped]);
  for (uint32_t i = 0; i < n_held; i++)
    Py_DECREF (held_slots[held[i]]);
  if (result && e->sets_grad)
    gm_grad_set_enabled (e->grad);
  if (result && e->rest)
    gm_tail_continue (tail, e, target->func->func_globals, g_steal_pointer (&result));
  if (G_UNLIKELY (failed)) {
    gm_entry_draws_put_back (drawn);
    if (undone)
      gm_failed (target->func->func_qualname, mark, e->config->callable != NULL,
                 e->calls_program ? &notes : NULL, end);
  }
  if (G_UNLIKELY (e->calls_program))
    gm_call_notes_end (&notes);
  if (G_UNLIKELY (drawn != NULL))
    gm_entry_draws_drop (drawn);
  gm_entry_unref (e);
  return result;
}

/* -- The call ---------------------------------------------------------------------------------- */

static PyObject *
call_plain (GmCompiled *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
  return PyObject_Vectorcall (self->original, args, nargsf, kwnames);
}

static void
leave_cache (GmCompiled *self)
{
  if (self->cache && self->cache->visitor == self)
    gm_code_cache_leave (self->cache, self);
  self->cache = NULL;
}

static GmCodeCache *
find_cache (GmCompiled *self, PyCodeObject *code)
{
  GmCodeCache *cache = gm_code_cache_get (code);
  if (!cache)
    return NULL;
  leave_cache (self);
  Py_INCREF (code);
  Py_XSETREF (self->code, code);
  if (!cache->visitor)
    cache->visitor = self;
  return self->cache = cache;
}

/* Returns the cache of the function's current code, borrowed; NULL with an exception.  The
 * program may replace __code__, and entries belong to the code, not to the function. */
static GmCodeCache *
cache_of (GmCompiled *self)
{
  PyCodeObject *code = (PyCodeObject *) self->func->func_code;
  return G_LIKELY (code == self->code) ? self->cache : find_cache (self, code);
}

/* True if an entry whose guards hold is to be skipped, for the test mode GM_STRESS=guards: each
 * of the entry's records is made to fail once, e->to_fail counts down. */
static bool
passed_over (GmEntry *e, const GmTarget *target, const GmCallEnv *env, PyObject *const *locals)
{
  if (G_LIKELY (e->to_fail == 0) || gm_control ()->stance == GM_STANCE_FAIL_ON_RECOMPILE
      || gm_control ()->steady)
    return false;
  return gm_guards_fail (e->guards, env, locals, target->func, --e->to_fail);
}

/* True for the first call with this cache, and notes that there was a call.  The stance
 * eager_then_compile runs the first call as plain Python. */
static bool
is_first_call (GmCodeCache *cache)
{
  bool first = !cache->point && !cache->called;
  cache->called = true;
  return first;
}

static inline PyObject *
call_target (const GmTarget *target, PyObject *const *locals, GmTail *tail, GmCallEnd *end)
{
  static const GmCallEnd plainly = { GM_CALL_PLAIN, NULL };
  GmTarget forced;
  if (G_UNLIKELY (gm_control ()->forced != NULL)) {
    forced = *target;
    forced.config = gm_control ()->forced;
    target = &forced;
  }
  GmCallEnv env = gm_target_env (target);
  GmEntry *hit = NULL;
  PyObject **slots = NULL;
  const GmSnapshot *s = target->cache->snapshot;
  const GmControl *control = gm_control ();
  if (G_UNLIKELY (gm_control_is_plain ())) {
    *end = plainly;
    return NULL;
  }
  for (uint32_t i = 0; i < s->n && !hit; i++) {
    GmEntry *e = s->entries[i];
    if (e->config != target->config)
      continue;
    slots = g_newa (PyObject *, gm_guards_n_slots (e->guards) + 1);
    if (gm_guards_check (e->guards, &env, locals, target->func, slots)
        && !passed_over (e, target, &env, locals))
      hit = e;
  }
  if (hit && G_UNLIKELY (!look (target, hit, slots))) {
    *end = plainly;
    return NULL;
  }
  if (hit) {
    hit->hits++;
    return hit->simple ? run_simple (target, hit, slots, end)
                       : run_entry (target, hit, slots, tail, end);
  }
  if (G_UNLIKELY (control->stance == GM_STANCE_FAIL_ON_RECOMPILE || control->steady))
    return gm_frontend_refuse (target, &env, locals);
  bool plain = control->stance == GM_STANCE_EAGER_THEN_COMPILE
                   ? is_first_call (target->cache)
                   : control->stance != GM_STANCE_DEFAULT;
  if (!plain) {
    hit = gm_frontend_compile (target, &env, locals);
    if (hit && gm_interrupt_poll ())
      g_clear_pointer (&hit, gm_entry_unref);
    if (!hit && PyErr_Occurred ())
      return NULL;
  }
  PyObject *result = NULL;
  if (hit) {
    slots = g_newa (PyObject *, gm_guards_n_slots (hit->guards) + 1);
    bool fresh = gm_guards_check (hit->guards, &env, locals, target->func, slots);
    /* The recorder checked the guards on this very frame; but code that ran since (a back end in
     * Python, a handler of signals or warnings, another thread) may have changed the objects that
     * they are about, or let an object die. */
    plain = !fresh || !look (target, hit, slots);
    result = !plain ? run_entry (target, hit, slots, tail, end) : NULL;
    gm_entry_unref (hit);
  }
  if (!hit || plain)
    *end = plainly;
  return result;
}

PyObject *
gm_target_call (const GmTarget *target, PyObject *const *locals, GmTail *tail, GmCallEnd *end)
{
  guint mark = gm_call_objects_mark ();
  *end = (GmCallEnd){ GM_CALL_DONE, NULL };
  PyObject *result = call_target (target, locals, tail, end);
  gm_call_objects_return (mark);
  return result;
}

static PyObject *
call_compiled (GmCompiled *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
  if (G_UNLIKELY (gm_control_is_plain ()
                  || gm_hook_is_traced ((PyCodeObject *) self->func->func_code)))
    return call_plain (self, args, nargsf, kwnames);
  GmCodeCache *cache = cache_of (self);
  if (!cache)
    return NULL;
  if (G_UNLIKELY (!cache->decoded)) {
    g_autoptr (GError) error = NULL;
    if (!gm_code_cache_decode (cache->code, &error))
      return call_plain (self, args, nargsf, kwnames);
  }
  GmBound bound;
  if (!gm_bind (&bound, cache->decoded, self->func, self->self, args,
                (size_t) PyVectorcall_NARGS (nargsf), kwnames))
    return call_plain (self, args, nargsf, kwnames);
  GmTarget target = { self->func, cache, self->config, self->fullgraph, false };
  GmTail tail = { 0 };
  GmCallEnd end;
  PyObject *result = gm_target_call (&target, bound.locals, &tail, &end);
  gm_bind_clear (&bound);
  if (G_UNLIKELY (end.kind != GM_CALL_DONE)) {
    bool again = end.kind == GM_CALL_AGAIN;
    GmHookScope scope = gm_hook_begin (again ? NULL : self->config, self->code);
    if (again)
      gm_failed_again_begin (&end);
    result = call_plain (self, args, nargsf, kwnames);
    if (again)
      result = gm_failed_again_end (&end, self->func->func_qualname, result);
    gm_hook_end (scope);
    return result;
  }
  if (G_UNLIKELY (gm_tail_pending (&tail)))
    return gm_tail_run (self->config, &tail);
  return result;
}

/* Calls the function; the type's vectorcall.  An error about code that cannot be compiled is
 * raised between two parts of a function, where no __exit__ of error_on_graph_break runs, so this
 * restores that switch. */
static PyObject *
compiled_call (PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
  bool raises = gm_break_raises_now;
  PyObject *result = call_compiled ((GmCompiled *) callable, args, nargsf, kwnames);
  if (G_UNLIKELY (!result))
    gm_break_raises_now = raises;
  return result;
}

/* -- The type ---------------------------------------------------------------------------------- */

static int
compiled_traverse (PyObject *o, visitproc visit, void *arg)
{
  GmCompiled *self = (GmCompiled *) o;
  Py_VISIT (self->func);
  Py_VISIT (self->self);
  Py_VISIT (self->original);
  Py_VISIT (self->dict);
  return self->cache ? gm_code_cache_traverse (self->cache, self, visit, arg) : 0;
}

static int
compiled_clear (PyObject *o)
{
  GmCompiled *self = (GmCompiled *) o;
  leave_cache (self);
  Py_CLEAR (self->func);
  Py_CLEAR (self->self);
  Py_CLEAR (self->original);
  Py_CLEAR (self->code);
  Py_CLEAR (self->dict);
  g_clear_pointer (&self->config, gm_config_unref);
  return 0;
}

static void
compiled_dealloc (PyObject *o)
{
  PyObject_GC_UnTrack (o);
  if (((GmCompiled *) o)->weakrefs)
    PyObject_ClearWeakRefs (o);
  compiled_clear (o);
  Py_TYPE (o)->tp_free (o);
}

/* Makes a CompiledFunction (fn, backend, options=None, fullgraph=False, kwargs=None).  options:
 * a list of "key=value"; kwargs: keyword arguments of a back end that is a callable. */
static PyObject *
compiled_new (PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  static char *names[] = { "fn", "backend", "options", "fullgraph", "kwargs", NULL };
  PyObject *fn, *backend, *options = Py_None, *extra = Py_None;
  int fullgraph = 0;
  if (!PyArg_ParseTupleAndKeywords (args, kwargs, "OO|OpO", names, &fn, &backend, &options,
                                    &fullgraph, &extra))
    return NULL;
  PyObject *func = PyMethod_Check (fn) ? PyMethod_GET_FUNCTION (fn) : fn;
  if (!PyFunction_Check (func)) {
    PyErr_Format (PyExc_TypeError,
                  "gramme.compile() takes a Python function, method or nn.Module, not %.100s",
                  Py_TYPE (fn)->tp_name);
    return NULL;
  }
  g_auto (GStrv) list = NULL;
  if (options != Py_None) {
    PyObject *fast = PySequence_Fast (options, "options must be a list of 'key=value' strings");
    if (!fast)
      return NULL;
    Py_ssize_t n = PySequence_Fast_GET_SIZE (fast);
    list = g_new0 (char *, n + 1);
    for (Py_ssize_t i = 0; i < n; i++) {
      const char *text = PyUnicode_AsUTF8 (PySequence_Fast_GET_ITEM (fast, i));
      if (!text) {
        Py_DECREF (fast);
        return NULL;
      }
      list[i] = g_strdup (text);
    }
    Py_DECREF (fast);
  }
  const char *text = PyUnicode_Check (backend) ? PyUnicode_AsUTF8 (backend) : NULL;
  if (PyErr_Occurred ())
    return NULL;
  if (!gm_trace_host_tell ())
    return NULL;
  const GmConfig *config = text ? gm_config_get (text, list)
                                : gm_config_for (backend, extra == Py_None ? NULL : extra, list);
  GmCompiled *self = config ? (GmCompiled *) type->tp_alloc (type, 0) : NULL;
  if (!self) {
    gm_config_unref (config);
    return NULL;
  }
  self->vectorcall = compiled_call;
  self->original = Py_NewRef (fn);
  self->func = (PyFunctionObject *) Py_NewRef (func);
  self->self = PyMethod_Check (fn) ? Py_NewRef (PyMethod_GET_SELF (fn)) : NULL;
  self->config = config;
  self->fullgraph = fullgraph;
  return (PyObject *) self;
}

static PyObject *
compiled_get (PyObject *self, PyObject *instance, PyObject *owner)
{
  if (!instance || instance == Py_None)
    return Py_NewRef (self);
  return PyMethod_New (self, instance);
}

static PyObject *
compiled_repr (PyObject *o)
{
  GmCompiled *self = (GmCompiled *) o;
  return PyUnicode_FromFormat ("<compiled %R, back end %s>", self->original, self->config->text);
}

/* Implements __reduce__ for pickle and copy: returns the function's qualified name, as for a
 * plain function, or the value of its attribute __reduced__ if it has one. */
static PyObject *
compiled_reduce (PyObject *o, PyObject *unused)
{
  PyObject *dict = ((GmCompiled *) o)->dict,
           *said = dict ? PyDict_GetItemString (dict, "__reduced__") : NULL;
  return said ? Py_NewRef (said) : PyObject_GetAttrString (o, "__qualname__");
}

static PyObject *
compiled_reset (PyObject *o, PyObject *unused)
{
  GmCodeCache *cache = cache_of ((GmCompiled *) o);
  if (!cache)
    return NULL;
  gm_code_cache_reset (cache);
  Py_RETURN_NONE;
}

static PyObject *
compiled_status (PyObject *o, PyObject *unused)
{
  GmCompiled *self = (GmCompiled *) o;
  GmCodeCache *cache = cache_of (self);
  if (cache)
    gm_code_cache_prune (cache);
  return cache ? gm_report_status (cache, self->config) : NULL;
}

static PyObject *
compiled_entries (PyObject *o, PyObject *unused)
{
  GmCompiled *self = (GmCompiled *) o;
  GmCodeCache *cache = cache_of (self);
  if (cache)
    gm_code_cache_prune (cache);
  return cache ? gm_report_entries (cache, self->config) : NULL;
}

/* Measures how long the guards of this function's entries take; for benchmarks and tests.
 * Python calls measure_guards (times, changing, *args). */
static PyObject *
compiled_measure_guards (PyObject *o, PyObject *const *args, Py_ssize_t n)
{
  GmCompiled *self = (GmCompiled *) o;
  GmCodeCache *cache = cache_of (self);
  Py_ssize_t times = n > 1 ? PyLong_AsSsize_t (args[0]) : 0;
  int changing = n > 1 ? PyObject_IsTrue (args[1]) : 0;
  GmBound bound;
  if (!cache || changing < 0 || (times < 1 && PyErr_Occurred ()))
    return NULL;
  if (times < 1 || !cache->decoded
      || !gm_bind (&bound, cache->decoded, self->func, self->self, args + 2, (size_t) n - 2,
                   NULL)) {
    PyErr_SetString (
        PyExc_ValueError,
        "measure_guards(times, changing, *args) needs arguments of a call that has been made");
    return NULL;
  }
  GmTarget target = { self->func, cache, self->config, self->fullgraph, false };
  GmCallEnv env = gm_target_env (&target);
  guint mark = gm_call_objects_mark ();
  PyObject *result = NULL, *other = PyDict_New ();
  for (uint32_t i = 0; other && i < cache->snapshot->n && !result; i++) {
    const GmEntry *e = cache->snapshot->entries[i];
    PyObject **slots = g_new (PyObject *, gm_guards_n_slots (e->guards) + 1);
    /* Touching a page for the first time takes longer than a check. */
    memset (slots, 0, gm_guards_n_slots (e->guards) * sizeof *slots);
    gint64 start_us = g_get_monotonic_time ();
    Py_ssize_t k = 0;
    while (k < times && e->config == self->config
           && (!changing || PyDict_SetItem (other, Py_None, k & 1 ? Py_True : Py_False) == 0)
           && gm_guards_check (e->guards, &env, bound.locals, self->func, slots))
      k++;
    if (k == times)
      result = Py_BuildValue ("dI",
                              (double) (g_get_monotonic_time () - start_us) * 1000 / (double) times,
                              gm_guards_n_looked (e->guards));
    g_free (slots);
  }
  gm_call_objects_return (mark);
  gm_bind_clear (&bound);
  Py_XDECREF (other);
  return result || PyErr_Occurred ()
             ? result
             : PyErr_Format (PyExc_ValueError, "no entry fits these arguments");
}

static PyObject *
get_backend (PyObject *o, void *closure)
{
  return PyUnicode_FromString (((GmCompiled *) o)->config->text);
}

static PyMethodDef methods[] = {
  { "status", compiled_status, METH_NOARGS,
    "status() -> dict\n\nWhat this function's back end and options have led to so far: graphs "
    "(compiled entries), hits, misses,\n"
    "breaks (reports of what could not be traced), nodes, compile_ms in all, and stages, the "
    "milliseconds of each stage by its\n"
    "letter (d decode, r record, s simplify, f functionalize, j join, p partition, l lower, a "
    "assemble)." },
  { "entries", compiled_entries, METH_NOARGS,
    "entries() -> list of dict\n\nOne dict per compiled entry, newest first: graph (text), key "
    "(equal for equal graphs), guards (text),\n"
    "reason (why a new entry was needed), fallback (why the host runs it or a part of it instead "
    "of the back end, or None),\n"
    "places (which nodes run where and why), hits, effects, stages,\n"
    "code (what ends the call, where that needs bytecode, or None)." },
  { "measure_guards", (PyCFunction) (void (*) (void)) compiled_measure_guards, METH_FASTCALL,
    "measure_guards(times, changing, *args) -> (float, int)\n\nOf the entry that fits: nanoseconds "
    "of one check of all guards, over `times`\n"
    "checks in a row; and how many things such a check looks at.  changing: before each a dict is "
    "written to that the function does not know, as\n"
    "most programs do." },
  { "__reduce__", compiled_reduce, METH_NOARGS, NULL },
  { "reset", compiled_reset, METH_NOARGS,
    "reset()\n\nForgets all that was compiled for this function's code." },
  { NULL },
};

static PyGetSetDef getset[] = {
  { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict },
  { "backend", get_backend, NULL, "The back end's name, with the options." },
  { NULL },
};

static PyMemberDef members[] = {
  { "__wrapped__", T_OBJECT, offsetof (GmCompiled, original), READONLY,
    "The function that was given to gramme.compile." },
  { NULL },
};

PyTypeObject gm_py_compiled_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.CompiledFunction",
  .tp_doc = "CompiledFunction(fn, backend, options=None, fullgraph=False)\n\nWhat gramme.compile "
            "returns.",
  .tp_basicsize = sizeof (GmCompiled),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL
              | Py_TPFLAGS_METHOD_DESCRIPTOR,
  .tp_new = compiled_new,
  .tp_dealloc = compiled_dealloc,
  .tp_traverse = compiled_traverse,
  .tp_clear = compiled_clear,
  .tp_call = PyVectorcall_Call,
  .tp_vectorcall_offset = offsetof (GmCompiled, vectorcall),
  .tp_descr_get = compiled_get,
  .tp_repr = compiled_repr,
  .tp_methods = methods,
  .tp_getset = getset,
  .tp_members = members,
  .tp_dictoffset = offsetof (GmCompiled, dict),
  .tp_weaklistoffset = offsetof (GmCompiled, weakrefs),
  .tp_getattro = PyObject_GenericGetAttr,
  .tp_setattro = PyObject_GenericSetAttr,
};

int
gm_py_init_callable (PyObject *module)
{
  return PyModule_AddType (module, &gm_py_compiled_type);
}
