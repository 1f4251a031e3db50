/* SPDX-License-Identifier: Apache-2.0
 * hook.c -- see hook.h.
 *
 * The hook sees each Python frame bound and not yet running.  A frame that may be worth capturing
 * (the user's code, a tensor among the arguments) is called like a compiled function; then its
 * value is returned and the frame never runs.  All others go to the previous function at once.
 * Invariant: the hook is installed if and only if some scope with a configuration is open.
 */
#include "core/objects/cpython.h"
#if PY_VERSION_HEX >= 0x030d0000
#include <internal/pycore_ceval.h>
#endif
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_pystate.h>

#include "core/capture/hook.h"
#include "core/capture/resume_call.h"
#include "core/objects/tensor_object.h"
#include "core/capture/trace_host.h"

#include "core/objects/import.h"

#include <pthread.h>
#include <string.h>

/* -- Frames by version ------------------------------------------------------------------------- */

/* Access a frame that has not run; FRAME_SET_CODE steals the reference. */
#if PY_VERSION_HEX >= 0x030d0000
#define FRAME_CODE(f) ((PyCodeObject *) (f)->f_executable)
#define FRAME_SET_CODE(f, code)                                                                    \
  ((f)->f_executable = (code), (f)->instr_ptr = _PyCode_CODE (FRAME_CODE (f)))
#else
#define FRAME_CODE(f) ((f)->f_code)
#define FRAME_SET_CODE(f, code)                                                                    \
  ((f)->f_code = (PyCodeObject *) (code), (f)->prev_instr = _PyCode_CODE (FRAME_CODE (f)) - 1)
#endif

#if PY_VERSION_HEX < 0x030c0000

#define FRAME_FUNC(f) ((f)->f_func)

bool
gm_hook_is_traced (const PyCodeObject *code)
{
  return _PyThreadState_GET ()->cframe->use_tracing;
}

/* Clears the variables of a frame that has not run.  The caller of the hook pops the frame
 * itself. */
static void
frame_drop (PyThreadState *ts, struct _PyInterpreterFrame *f)
{
  for (int i = 0; i < f->f_code->co_nlocalsplus; i++)
    Py_CLEAR (f->localsplus[i]);
}

#else

#define FRAME_FUNC(f) ((PyFunctionObject *) (f)->f_funcobj)

/* Returns the bits of the monitoring tools that are registered for some event; `tools` has, for
 * each of n events, the bits of its tools. */
static unsigned
tools_of (const uint8_t *tools, size_t n)
{
  unsigned any = 0;
  for (size_t i = 0; i < n; i++)
    any |= tools[i];
  return any;
}

/* True if a tracer or profiler sees the frames of `code`.  The monitoring tools behind settrace
 * and setprofile count only for threads that have set a function: they stay registered in the
 * interpreter when a thread with such a function ends, until the next function is set. */
bool
gm_hook_is_traced (const PyCodeObject *code)
{
  enum { BY_THREAD = 1 << PY_MONITORING_SYS_TRACE_ID | 1 << PY_MONITORING_SYS_PROFILE_ID };
  const _Py_GlobalMonitors *all = &PyInterpreterState_Get ()->monitors;
  const _Py_LocalMonitors *own =
      code && code->_co_monitoring ? &code->_co_monitoring->local_monitors : NULL;
  unsigned tools = tools_of (all->tools, G_N_ELEMENTS (all->tools));
  if (G_UNLIKELY (own != NULL))
    tools |= tools_of (own->tools, G_N_ELEMENTS (own->tools));
  if (G_LIKELY (tools == 0))
    return false;
  const PyThreadState *ts = PyThreadState_Get ();
  return tools & ~(unsigned) BY_THREAD || ts->c_tracefunc || ts->c_profilefunc;
}

/* Drops a frame that has not run: its references, and its place on the thread's stack of frames. */
static void
frame_drop (PyThreadState *ts, struct _PyInterpreterFrame *f)
{
#if PY_VERSION_HEX >= 0x030d0000
  _PyEval_FrameClearAndPop (ts, f);
#else /* the same, which this version does not export */
  PyCodeObject *code = f->f_code;
  for (int i = 0; i < f->stacktop; i++)
    Py_XDECREF (f->localsplus[i]);
  Py_XDECREF (f->f_locals);
  Py_DECREF (f->f_funcobj);
  Py_DECREF (code);
  _PyStackChunk *chunk = ts->datastack_chunk, *previous = chunk->previous;
  if ((PyObject **) f != &chunk->data[0]) {
    ts->datastack_top = (PyObject **) f;
    return;
  }
  ts->datastack_top = &previous->data[previous->top];
  ts->datastack_chunk = previous;
  ts->datastack_limit = (PyObject **) ((char *) previous + previous->size);
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator (&arena);
  arena.free (arena.ctx, chunk, chunk->size);
#endif
}

#endif

/* -- Depth ------------------------------------------------------------------------------------- */

/* Returns the address below which the thread's C stack must not be used (the stack grows down),
 * cached for each thread.  NULL if the stack's bounds cannot be found out, as without /proc. */
static char *
stack_low (void)
{
  enum { MARGIN_BYTES = 2 << 20 };
  static __thread bool asked;
  static __thread char *low;
  if (G_LIKELY (asked))
    return low;
  asked = true;
  pthread_attr_t attr;
  void *base;
  size_t size_bytes;
  if (pthread_getattr_np (pthread_self (), &attr) != 0)
    return NULL;
  if (pthread_attr_getstack (&attr, &base, &size_bytes) == 0)
    low = (char *) base + MIN (MARGIN_BYTES, size_bytes / 4);
  pthread_attr_destroy (&attr);
  return low;
}

/* True if the stack is nearly used up; where stack_low is NULL the stack counts as large enough. */
bool
gm_hook_stack_is_low (void)
{
  return (char *) __builtin_frame_address (0) < stack_low ();
}

/* Raises the interpreter's limit on nested C calls a little if it is nearly used up while the C
 * stack has room; returns the amount, for depth_return.  Since 3.12 calls that go through C are
 * counted apart, whatever the size of the thread's stack, and 3.12.1 ends at 750 of them.  A frame
 * that passes the hook, or that a compiled function enters, is such a call, and would be none in
 * the plain program.  The limit on Python's own recursion stays. */
static int
depth_lend (PyThreadState *ts)
{
#if PY_VERSION_HEX >= 0x030c0000
  enum { LOW = 1000, LENT = 10 };
  if (G_LIKELY (ts->c_recursion_remaining > LOW) || !stack_low () || gm_hook_stack_is_low ())
    return 0;
  ts->c_recursion_remaining += LENT;
  return LENT;
#else
  return 0;
#endif
}

static void
depth_return (PyThreadState *ts, int lent)
{
#if PY_VERSION_HEX >= 0x030c0000
  ts->c_recursion_remaining -= lent;
#endif
}

static GM_THREAD struct {
  const GmConfig *config;
  PyCodeObject *pass;
  PyObject *release; /* tuple whose items are dropped when `pass` passes, or NULL */
  uint32_t first, n;
  bool all; /* capture every function */
} thread;

static uint32_t n_scopes, n_captured; /* under the GIL */
static char *library;                 /* the folder of the standard library */
static PyTypeObject *module_type; /* gramme.nn.Module, borrowed; NULL until the package is there */

/* -- Deciding what to capture ------------------------------------------------------------------ */

typedef enum { HOOK_UNKNOWN, HOOK_SKIP, HOOK_CANDIDATE } HookState;

static bool
is_ours (PyObject *globals)
{
  PyObject *name = PyDict_GetItemString (globals, "__name__");
  const char *s = name && PyUnicode_Check (name) ? PyUnicode_AsUTF8 (name) : NULL;
  return s && g_str_has_prefix (s, "gramme") && (s[6] == 0 || s[6] == '.')
         && !g_str_has_prefix (s, "gramme.nn");
}

static HookState
judge (PyCodeObject *code, PyObject *globals)
{
  const char *file = PyUnicode_AsUTF8 (code->co_filename);
  const int unfit = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR,
            needed = CO_OPTIMIZED | CO_NEWLOCALS;
  if ((code->co_flags & unfit) || (code->co_flags & needed) != needed)
    return HOOK_SKIP;
  if (!file || g_str_has_prefix (file, "<frozen") || (library && g_str_has_prefix (file, library))
      || is_ours (globals))
    return HOOK_SKIP;
  return HOOK_CANDIDATE;
}

/* Decides if functions of this code are captured while every function is, the user's or a
 * library's.  The machinery of imports is left out, since it runs wherever the first use of a name
 * happens. */
static G_GNUC_UNUSED HookState
judge_for_all (PyCodeObject *code, PyObject *globals)
{
  const char *file = PyUnicode_AsUTF8 (code->co_filename);
  const int unfit = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR,
            needed = CO_OPTIMIZED | CO_NEWLOCALS;
  if ((code->co_flags & unfit) || (code->co_flags & needed) != needed)
    return HOOK_SKIP;
  if (!file || g_str_has_prefix (file, "<frozen importlib") || strstr (file, "/importlib/")
      || is_ours (globals))
    return HOOK_SKIP;
  return HOOK_CANDIDATE;
}

#define MAX_LOOK 8 /* items of a container among the arguments */

static bool
holds_tensor (PyObject *o, int depth)
{
  if (!o)
    return false;
  if (gm_py_tensor_check (o) || (module_type && PyObject_TypeCheck (o, module_type)))
    return true;
  if (depth == 0)
    return false;
  if (PyTuple_Check (o) || PyList_Check (o)) {
    Py_ssize_t n = MIN (MAX_LOOK, Py_SIZE (o));
    for (Py_ssize_t i = 0; i < n; i++)
      if (holds_tensor (PySequence_Fast_GET_ITEM (o, i), depth - 1))
        return true;
  } else if (PyDict_Check (o)) {
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    for (int i = 0; i < MAX_LOOK && PyDict_Next (o, &pos, &key, &value); i++)
      if (holds_tensor (value, depth - 1))
        return true;
  }
  return false;
}

/* -- The hook ---------------------------------------------------------------------------------- */

static _PyFrameEvalFunction before;
static PyObject *evaluate (PyThreadState *ts, struct _PyInterpreterFrame *f, int throwflag);

/* Replaces n items of thread.release from `first` on, arguments that the passing frame has taken
 * over, by None, so that the objects die when the frame drops them. */
static void
release (void)
{
  PyObject *tuple = thread.release;
  thread.release = NULL;
  for (uint32_t i = 0; tuple && i < thread.n; i++) {
    PyObject **item = &PyTuple_GET_ITEM (tuple, thread.first + i);
    Py_SETREF (*item, Py_NewRef (Py_None)); /* the frame has another reference: nothing dies here */
  }
}

/* Makes the frame of a resume function show, to code that reads a frame's arguments by its code
 * object, only the arguments of the original function: a resume function has more. */
static void
show_arguments (struct _PyInterpreterFrame *f, PyCodeObject *code)
{
  const GmCodeCache *cache = gm_code_cache_get (code);
  PyCodeObject *shown = cache ? cache->shown : NULL;
  if (!cache)
    PyErr_Clear ();
  if (!shown)
    return;
  FRAME_SET_CODE (f, Py_NewRef (shown));
  Py_DECREF (code);
}

/* Returns the cache of the frame's code, borrowed, if the frame is to be captured, else NULL. */
static GmCodeCache *
candidate (PyThreadState *ts, struct _PyInterpreterFrame *f)
{
  PyCodeObject *code = FRAME_CODE (f);
  if (f->owner != FRAME_OWNED_BY_THREAD || f->f_locals || gm_hook_is_traced (code))
    return NULL;
  GmCodeCache *cache = gm_code_cache_get (code);
  if (!cache) {
    PyErr_Clear ();
    return NULL;
  }
  if (thread.all) {
    if (cache->hook_all == HOOK_UNKNOWN)
      cache->hook_all = judge_for_all (code, f->f_globals);
    return cache->hook_all == HOOK_CANDIDATE ? cache : NULL;
  }
  if (cache->hook == HOOK_UNKNOWN)
    cache->hook = judge (code, f->f_globals);
  if (cache->hook == HOOK_SKIP)
    return NULL;
  bool any = false;
  uint32_t n = (uint32_t) (code->co_argcount + code->co_kwonlyargcount)
               + !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
  for (uint32_t i = 0; i < n && !any; i++)
    any = holds_tensor (f->localsplus[i], 1);
  return any ? cache : NULL;
}

static PyObject *
run_frame (PyThreadState *ts, struct _PyInterpreterFrame *f, int throwflag)
{
  int lent = depth_lend (ts);
  PyObject *result = before (ts, f, throwflag);
  depth_return (ts, lent);
  return result;
}

/* Runs the frame without capturing anything that it calls. */
static PyObject *
run_whole (PyThreadState *ts, struct _PyInterpreterFrame *f, int throwflag)
{
  gm_hook_suspended++;
  PyObject *result = run_frame (ts, f, throwflag);
  gm_hook_suspended--;
  return result;
}

/* Runs the frame with the hook taken out, so that calls of Python functions take no C stack:
 * where the C stack is nearly used up, a recursion goes as deep as in the plain program. */
static PyObject *
run_unhooked (PyThreadState *ts, struct _PyInterpreterFrame *f, int throwflag)
{
  PyInterpreterState *interp = PyInterpreterState_Get ();
  _PyInterpreterState_SetEvalFrameFunc (interp, before);
  PyObject *result = before (ts, f, throwflag);
  if (n_scopes > 0)
    _PyInterpreterState_SetEvalFrameFunc (interp, evaluate);
  return result;
}

/* True if a graph that has failed made this call already: *result is then its result, and the
 * frame is dropped without running. */
static bool
is_given_out (PyThreadState *ts, struct _PyInterpreterFrame *f, PyObject **result)
{
  bool is = gm_call_notes_give_out (FRAME_CODE (f), f->localsplus, result);
  if (is)
    frame_drop (ts, f);
  return is;
}

static PyObject *
run_again (PyThreadState *ts, struct _PyInterpreterFrame *f, GmCallEnd *end)
{
  /* A reference of its own, since the frame is gone after the run. */
  PyObject *name = Py_NewRef (FRAME_CODE (f)->co_qualname);
  GmHookScope scope = gm_hook_begin (NULL, NULL);
  gm_failed_again_begin (end);
  PyObject *result = run_frame (ts, f, 0);
  result = gm_failed_again_end (end, name, result);
  gm_hook_end (scope);
  Py_DECREF (name);
  return result;
}

static PyObject *
evaluate (PyThreadState *ts, struct _PyInterpreterFrame *f, int throwflag)
{
  const GmConfig *config = thread.config;
  GmCodeCache *cache = NULL;
  PyObject *result;
  if (gm_hook_stack_is_low ())
    return run_unhooked (ts, f, throwflag);
  if (G_UNLIKELY (gm_call_notes_given_out != NULL) && !throwflag && is_given_out (ts, f, &result))
    return result;
  if (FRAME_CODE (f) == thread.pass && !gm_hook_suspended && !throwflag) {
    thread.pass = NULL;
    release ();
    show_arguments (f, FRAME_CODE (f));
    return run_frame (ts, f, 0);
  }
  if (config && !gm_hook_suspended && gm_code_is_whole (FRAME_CODE (f)))
    return run_whole (ts, f, throwflag);
  if (config && !gm_hook_suspended && !throwflag)
    cache = candidate (ts, f);
  g_autoptr (GError) error = NULL;
  if (!cache || (!cache->decoded && !gm_code_cache_decode (cache->code, &error)))
    return run_frame (ts, f, throwflag);
  GmTarget target = { .func = FRAME_FUNC (f), .cache = cache, .config = config, .hooked = true };
  GmTail tail = { 0 };
  GmCallEnd end;
  result = gm_target_call (&target, f->localsplus, &tail, &end);
  if (end.kind == GM_CALL_PLAIN)
    return run_frame (ts, f, 0);
  if (G_UNLIKELY (end.kind == GM_CALL_AGAIN))
    return run_again (ts, f, &end);
  const GmSnapshot *s = cache->snapshot;
  if (!thread.all && s->n == 1 && s->entries[0]->n_nodes == 0 && !s->entries[0]->rest)
    cache->hook = HOOK_SKIP; /* the code computes nothing with tensors */
  n_captured++;
  frame_drop (ts, f); /* the rest of the call has all it needs of the frame */
  return gm_tail_pending (&tail) ? gm_tail_run (config, &tail) : result;
}

static void
install (bool on)
{
  PyInterpreterState *interp = PyInterpreterState_Get ();
  if (on)
    before = _PyInterpreterState_GetEvalFrameFunc (interp);
  _PyInterpreterState_SetEvalFrameFunc (interp, on ? evaluate : before);
}

/* -- Scopes ------------------------------------------------------------------------------------ */

GmHookScope
gm_hook_begin (const GmConfig *config, PyCodeObject *pass)
{
  GmHookScope old = { thread.config, thread.pass, thread.release,
                      thread.first,  thread.n,    depth_lend (PyThreadState_Get ()) };
  thread.config = config;
  thread.pass = pass;
  thread.release = NULL;
  if (n_scopes++ == 0)
    install (true);
  return old;
}

const GmConfig *
gm_hook_config (void)
{
  return thread.config;
}

void
gm_hook_end (GmHookScope scope)
{
  thread.config = scope.config;
  thread.pass = scope.pass;
  thread.release = scope.release;
  thread.first = scope.first;
  thread.n = scope.n;
  depth_return (PyThreadState_Get (), scope.lent);
  if (--n_scopes == 0)
    install (false);
}

void
gm_hook_release (PyObject *tuple, uint32_t first, uint32_t n)
{
  thread.release = tuple;
  thread.first = first;
  thread.n = n;
}

void
gm_hook_skip (PyCodeObject *code, PyCodeObject *shown)
{
  GmCodeCache *cache = gm_code_cache_get (code);
  if (!cache) {
    PyErr_Clear ();
    return;
  }
  cache->hook = cache->hook_all = HOOK_SKIP;
  cache->shown = (PyCodeObject *) Py_XNewRef (shown);
}

void
gm_hook_set_module (PyObject *type)
{
  module_type = type && PyType_Check (type) ? (PyTypeObject *) type : NULL;
}

bool
gm_hook_is_module (PyObject *o)
{
  return module_type && PyObject_TypeCheck (o, module_type);
}

bool
gm_hook_all (void)
{
  return thread.all;
}

/* -- Capturing every function ------------------------------------------------------------------ */

typedef struct {
  PyObject_HEAD const GmConfig *config; /* owned */
  GmHookScope before;
  bool all_before, open;
} CaptureAll;

/* Makes a CaptureAll (backend), which captures every function while it is entered.  backend: a
 * name or a callable. */
static PyObject *
capture_all_new (PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *backend;
  if (!PyArg_ParseTuple (args, "O:CaptureAll", &backend))
    return NULL;
  const char *name = PyUnicode_Check (backend) ? PyUnicode_AsUTF8 (backend) : NULL;
  if (PyErr_Occurred () || !gm_trace_host_tell ())
    return NULL;
  const GmConfig *config = name ? gm_config_get (name, NULL) : gm_config_for (backend, NULL, NULL);
  CaptureAll *self = config ? (CaptureAll *) type->tp_alloc (type, 0) : NULL;
  if (!self) {
    gm_config_unref (config);
    return NULL;
  }
  self->config = config;
  return (PyObject *) self;
}

static PyObject *
capture_all_enter (PyObject *o, PyObject *unused)
{
  CaptureAll *self = (CaptureAll *) o;
  if (self->open) {
    PyErr_SetString (PyExc_RuntimeError,
                     "this capture_all() is open already; make another one for each `with`");
    return NULL;
  }
  self->open = true;
  Py_INCREF (o); /* its configuration is in use */
  self->all_before = thread.all;
  self->before = gm_hook_begin (self->config, NULL);
  thread.all = true;
  return Py_NewRef (o);
}

static PyObject *
capture_all_exit (PyObject *o, PyObject *args)
{
  CaptureAll *self = (CaptureAll *) o;
  if (self->open) {
    self->open = false;
    gm_hook_end (self->before);
    thread.all = self->all_before;
    Py_DECREF (o);
  }
  Py_RETURN_NONE;
}

static void
capture_all_dealloc (PyObject *o)
{
  gm_config_unref (((CaptureAll *) o)->config);
  Py_TYPE (o)->tp_free (o);
}

static PyMethodDef capture_all_methods[] = {
  { "__enter__", capture_all_enter, METH_NOARGS,
    "Captures every function that this thread calls from now on." },
  { "__exit__", capture_all_exit, METH_VARARGS, "What was in force before is in force again." },
  { NULL },
};

static PyTypeObject capture_all_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.CaptureAll",
  .tp_doc = "CaptureAll(backend): see gramme._dynamo.capture_all.",
  .tp_basicsize = sizeof (CaptureAll),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_new = capture_all_new,
  .tp_dealloc = capture_all_dealloc,
  .tp_methods = capture_all_methods,
};

/* -- The module's functions -------------------------------------------------------------------- */

static PyObject *
hook_state (PyObject *module, PyObject *unused)
{
  return Py_BuildValue ("(II)", n_scopes, n_captured);
}

static PyMethodDef functions[] = {
  { "hook_state", hook_state, METH_NOARGS,
    "hook_state() -> (scopes that are open now, calls of inner functions that were captured)." },
  { NULL },
};

int
gm_py_init_hook (PyObject *module)
{
  PyObject *os = gm_import ("os"), *file = os ? PyObject_GetAttrString (os, "__file__") : NULL;
  const char *path = file && PyUnicode_Check (file) ? PyUnicode_AsUTF8 (file) : NULL;
  if (path) {
    g_autofree char *folder = g_path_get_dirname (path);
    library = g_strconcat (folder, "/", NULL);
  }
  Py_XDECREF (file);
  Py_XDECREF (os);
  PyErr_Clear (); /* without a file all library code is a candidate */
  if (PyModule_AddType (module, &capture_all_type) < 0)
    return -1;
  return PyModule_AddFunctions (module, functions);
}
