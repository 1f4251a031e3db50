/* SPDX-License-Identifier: Apache-2.0
 * resume_call.c -- see resume_call.h.
 *
 * The innermost frame's function executes the step that broke, in its own Python frame with its own
 * handlers, and returns the values with which the rest of the function starts.  The rest is a
 * compiled function: it is called from here, outside of all handlers, so a raise is handled once,
 * and tracebacks show one frame for each of the user's.  The function of a caller's frame calls a
 * Chain, which runs the frames inside of it and returns their value.
 */
#include "core/objects/cpython.h"

#include "core/capture/callable.h"
#include "core/capture/hook.h"
#include "core/capture/resume_call.h"
#include "core/capture/resume_original.h"

typedef struct {
  GmResumePoint *point;
  /* NULL: the called function's own, which are not held: they hold the function, its code holds
   * this, and the cycle would never be freed */
  PyObject *globals;
  uint32_t first, n_args, n_cells; /* places of variables and cells in the tuple of values */
  bool init, plain;
} Part;

struct GmContinuation {
  uint32_t n;
  Part parts[]; /* a part for each frame, the innermost first */
};

/* -- Making ------------------------------------------------------------------------------------ */

GmContinuation *
gm_continuation_new (const GmBreakPoint *point, PyObject *globals, const char **why)
{
  GmContinuation *c = g_malloc0 (sizeof *c + point->n_frames * sizeof (Part));
  uint32_t next = 0;
  for (uint32_t i = 0; i < point->n_frames; i++) {
    const GmBreakFrame *f = &point->frames[i];
    static const GmPointKind kinds[] = {
      [GM_RESUME_AFTER] = GM_POINT_STEP,  [GM_RESUME_AT] = GM_POINT_REST,
      [GM_RESUME_PLAIN] = GM_POINT_REST,  [GM_RESUME_SPAN] = GM_POINT_SPAN,
      [GM_RESUME_LEAVE] = GM_POINT_LEAVE,
    };
    GmPointKind kind = i > 0 ? GM_POINT_CALL : kinds[point->mode];
    Part *p = &c->parts[i];
    p->point = gm_resume_point_get (f, kind, why);
    /* Then only the plain rest is left. */
    p->plain = !p->point && *why && (kind == GM_POINT_SPAN || kind == GM_POINT_LEAVE);
    if (p->plain)
      p->point = gm_resume_point_get (f, GM_POINT_REST, why);
    p->plain |= point->mode == GM_RESUME_PLAIN;
    if (!p->point) {
      gm_continuation_free (c);
      return NULL;
    }
    p->globals = f->globals == globals ? NULL : Py_NewRef (f->globals);
    p->first = next;
    p->n_args = f->n_locals + f->n_stack;
    p->n_cells = f->n_cells;
    p->init = f->init;
    next += p->n_args + p->n_cells + p->init;
    c->n++;
  }
  return c;
}

void
gm_continuation_free (GmContinuation *c)
{
  for (uint32_t i = 0; c && i < c->n; i++) {
    gm_resume_point_unref (c->parts[i].point);
    Py_XDECREF (c->parts[i].globals);
  }
  g_free (c);
}

int
gm_continuation_traverse (const GmContinuation *c, visitproc visit, void *arg)
{
  for (uint32_t i = 0; c && i < c->n; i++)
    Py_VISIT (c->parts[i].globals);
  return 0;
}

void
gm_continuation_caches (const GmContinuation *c, GmCacheWalk *walk)
{
  for (uint32_t i = 0; c && i < c->n; i++) {
    const GmResumePoint *p = c->parts[i].point, *rests[3] = { p, p->next[0], p->next[1] };
    for (int k = 0; k < 3; k++)
      if (rests[k] && rests[k]->cache)
        gm_cache_walk_add (walk, rests[k]->cache);
    for (uint32_t k = 0; p->rests && k < p->rests->len; k++)
      gm_cache_walk_add (walk, ((const GmResumePoint *) p->rests->pdata[k])->cache);
  }
}

/* -- Running ----------------------------------------------------------------------------------- */

/* Returns a function made of these parts, a new reference; NULL with an exception.  The function
 * is not kept, since it would keep its globals alive. */
static PyObject *
function_of (PyCodeObject *code, PyObject *globals, PyObject *closure)
{
  PyObject *f = code ? PyFunction_New ((PyObject *) code, globals) : NULL;
  if (f && closure)
    ((PyFunctionObject *) f)->func_closure = Py_NewRef (closure);
  return f;
}

void
gm_tail_continue (GmTail *tail, GmEntry *e, PyObject *globals, PyObject *values)
{
  if (Py_REFCNT (values) > 1) { /* a constant of the entry, whose items must not be dropped */
    PyObject *copy = PyTuple_New (PyTuple_GET_SIZE (values));
    for (Py_ssize_t i = 0; copy && i < PyTuple_GET_SIZE (values); i++)
      PyTuple_SET_ITEM (copy, i, Py_NewRef (PyTuple_GET_ITEM (values, i)));
    Py_SETREF (values, copy);
  }
  if (values)
    *tail = (GmTail){ .entry = gm_entry_ref (e), .globals = Py_NewRef (globals), .args = values };
}

static void
drop_items (PyObject *args, Py_ssize_t first, Py_ssize_t n)
{
  for (Py_ssize_t i = first; i < first + n; i++)
    Py_SETREF (PyTuple_GET_ITEM (args, i), Py_NewRef (Py_None));
}

/* Replaces the items of the tuple by None in their order, if no other code has a reference, and
 * releases it.  The variables of a frame die in their order, cells last, but a tuple's items in the
 * opposite order.  NULL is fine. */
static void
drop_in_order (PyObject *args)
{
  if (args && Py_REFCNT (args) == 1)
    drop_items (args, 0, PyTuple_GET_SIZE (args));
  Py_XDECREF (args);
}

/* Releases all that *tail owns, and empties it.  The variables of the frame die now, even if the
 * tuple that holds them lives until the frames outside have ended. */
static void
tail_clear (GmTail *tail)
{
  if (tail->point && tail->args)
    drop_items (tail->args, tail->first, tail->point->n_args);
  gm_resume_point_unref (tail->point);
  gm_entry_unref (tail->entry);
  Py_XDECREF (tail->globals);
  drop_in_order (tail->args);
  drop_in_order (tail->closure);
  *tail = (GmTail){ 0 };
}

static PyObject *run_part (GmEntry *e, uint32_t k, PyObject *globals, PyObject *values,
                           GmTail *tail);

static PyObject *
run_tail_once (const GmConfig *config, GmTail *now, GmTail *next)
{
  if (now->entry)
    return run_part (now->entry, now->entry->rest->n - 1, now->globals, now->args, next);
  PyObject *const *locals = &PyTuple_GET_ITEM (now->args, now->first);
  PyObject *f = NULL, *result = NULL;
  /* Plain frames take no C stack and handle the interrupt; the part before may have started a
   * tracer. */
  bool plain = now->plain || gm_interrupt_is_parked () || gm_hook_stack_is_low ()
               || gm_hook_is_traced (NULL);
  GmCallEnd end = { plain ? GM_CALL_PLAIN : GM_CALL_DONE };
  if (end.kind == GM_CALL_DONE) {
    /* The function only carries its globals and its closure, and is never run. */
    f = function_of (now->point->original->co, now->globals, now->closure);
    if (!f)
      return NULL;
    GmTarget target = { (PyFunctionObject *) f, now->point->cache, config, false, false };
    result = gm_target_call (&target, locals, next, &end);
    Py_DECREF (f);
    if (end.kind == GM_CALL_DONE)
      return result;
  }
  bool again = end.kind == GM_CALL_AGAIN;
  f = function_of (gm_resume_code (now->point), now->globals, now->closure);
  if (f) {
    GmHookScope scope = gm_hook_begin (again ? NULL : config, now->point->code);
    gm_hook_release (now->args, now->first, now->point->n_args);
    if (G_UNLIKELY (again))
      gm_failed_again_begin (&end);
    result = PyObject_Vectorcall (f, locals, now->point->n_args, NULL);
    if (G_UNLIKELY (again))
      result = gm_failed_again_end (&end, now->point->original->co->co_qualname, result);
    gm_hook_end (scope);
    Py_DECREF (f);
  }
  return result;
}

PyObject *
gm_tail_run (const GmConfig *config, GmTail *tail)
{
  PyObject *result = NULL;
  while (gm_tail_pending (tail)) {
    GmTail now = *tail;
    *tail = (GmTail){ 0 };
    result = run_tail_once (config, &now, tail);
    tail_clear (&now);
  }
  return result;
}

/* -- Frames inside of frames ------------------------------------------------------------------- */

typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  GmEntry *entry;
  uint32_t part;
  PyObject *globals, *values;
} Chain;

static PyTypeObject chain_type;
static PyObject *chain_call (PyObject *o, PyObject *const *unused, size_t n, PyObject *names);

/* Returns a tuple of the frame's cells, moved out of `values`; a new reference, NULL with an
 * exception.  The values live until the frames outside have ended, too, but a frame's cells must
 * die with the frame. */
static PyObject *
closure_of (const Part *p, PyObject *values)
{
  PyObject *closure = PyTuple_New (p->n_cells);
  for (uint32_t i = 0; closure && i < p->n_cells; i++) {
    PyObject **cell = &PyTuple_GET_ITEM (values, p->first + p->n_args + i);
    PyTuple_SET_ITEM (closure, i, *cell);
    *cell = Py_NewRef (Py_None);
  }
  return closure;
}

/* Returns the number of the marker that `result` begins with: 0 if a step fell through, 1 if it
 * jumped, 2 for a stretch or a handler; -1 if `result` is no such tuple or NULL. */
static int
marker_of (PyObject *result)
{
  if (!result || !PyTuple_CheckExact (result) || PyTuple_GET_SIZE (result) == 0)
    return -1;
  for (int k = 0; k < 3; k++)
    if (PyTuple_GET_ITEM (result, 0) == gm_resume_marker[k])
      return k;
  return -1;
}

static PyObject *
call_part (GmEntry *e, uint32_t k, PyObject *globals, PyObject *values, PyObject *closure)
{
  const Part *p = &e->rest->parts[k];
  PyObject *f = function_of (p->point->code, p->globals ? p->globals : globals, closure);
  if (!f)
    return NULL;
  PyObject **items = &PyTuple_GET_ITEM (values, p->first), *result = NULL;
  GmHookScope scope = gm_hook_begin (e->config, p->point->code);
  gm_hook_release (values, p->first, p->n_args);
  if (k == 0) {
    result = PyObject_Vectorcall (f, items, p->n_args, NULL);
  } else {
    Chain *chain = PyObject_New (Chain, &chain_type);
    PyObject **args = g_newa (PyObject *, p->n_args + 1);
    for (uint32_t i = 0; i < p->n_args; i++)
      args[i] = items[i];
    args[p->n_args] = (PyObject *) chain;
    if (chain) {
      chain->vectorcall = chain_call;
      chain->entry = gm_entry_ref (e);
      chain->part = k - 1;
      chain->globals = Py_NewRef (globals);
      chain->values = Py_NewRef (values);
      result = PyObject_Vectorcall (f, args, p->n_args + 1, NULL);
      Py_DECREF (chain);
    }
  }
  gm_hook_end (scope);
  Py_DECREF (f);
  return result;
}

static PyObject *
run_part (GmEntry *e, uint32_t k, PyObject *globals, PyObject *values, GmTail *tail)
{
  const Part *p = &e->rest->parts[k];
  PyObject *closure = NULL, *result = NULL, *own = p->globals ? p->globals : globals;
  if (p->n_cells && !(closure = closure_of (p, values)))
    return NULL;
  if (p->point->kind == GM_POINT_REST) {
    *tail = (GmTail){ .point = gm_resume_point_ref (p->point),
                      .globals = Py_NewRef (own),
                      .closure = closure,
                      .args = Py_NewRef (values),
                      .first = p->first,
                      .plain = p->plain };
    return NULL;
  }
  result = call_part (e, k, globals, values, closure);
  int marker = marker_of (result);
  if (marker < 0) {
    drop_in_order (closure);
    return result;
  }
  PyObject *args = NULL;
  uint32_t first;
  GmResumePoint *next = gm_resume_point_after (p->point, marker, result, &args, &first);
  Py_DECREF (result);
  if (!next) {
    Py_XDECREF (closure);
    return NULL;
  }
  *tail = (GmTail){ .point = next,
                    .globals = Py_NewRef (own),
                    .closure = closure,
                    .args = args,
                    .first = first,
                    .plain = next->kind == GM_POINT_KEPT };
  return NULL;
}

static PyObject *
chain_call (PyObject *o, PyObject *const *unused, size_t n, PyObject *names)
{
  Chain *chain = (Chain *) o;
  const Part *p = &chain->entry->rest->parts[chain->part];
  GmTail tail = { 0 };
  PyObject *result = run_part (chain->entry, chain->part, chain->globals, chain->values, &tail);
  if (gm_tail_pending (&tail))
    result = gm_tail_run (chain->entry->config, &tail);
  if (!result || !p->init)
    return result;
  bool none = result == Py_None;
  if (!none)
    PyErr_Format (PyExc_TypeError, "__init__() should return None, not '%.200s'",
                  Py_TYPE (result)->tp_name);
  Py_DECREF (result);
  return none ? Py_NewRef (PyTuple_GET_ITEM (chain->values, p->first + p->n_args + p->n_cells))
              : NULL;
}

static void
chain_dealloc (PyObject *o)
{
  Chain *chain = (Chain *) o;
  gm_entry_unref (chain->entry);
  Py_XDECREF (chain->globals);
  Py_XDECREF (chain->values);
  PyObject_Free (o);
}

static PyTypeObject chain_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme._core.Chain",
  .tp_doc = "The frames inside of a frame that a graph break has left.",
  .tp_basicsize = sizeof (Chain),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_dealloc = chain_dealloc,
  .tp_call = PyVectorcall_Call,
  .tp_vectorcall_offset = offsetof (Chain, vectorcall),
};

int
gm_py_init_resume_call (void)
{
  return PyType_Ready (&chain_type);
}
