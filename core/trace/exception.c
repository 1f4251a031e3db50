/* SPDX-License-Identifier: Apache-2.0
 * exception.c -- raising, and finding the handler.
 *
 * Invariant: r->pending is not NULL only while r->stop is the break that stands for it, and only
 * between the raise and the end of the instruction (of the outermost one, for frames that run
 * inside of an instruction).  So a mark never holds a pending exception.
 */
#include "core/trace/exception.h"

#include "core/trace/insn_handlers.h"

#include <stdarg.h>

/* -- Raising --------------------------------------------------------------- */

static const GmTracker *
pend (GmRecorder *r, const GmTracker *exception)
{
  g_autofree char *message = gm_exception_message (r, exception);
  gm_record_break (r, GM_BREAK_EXCEPTION_RAISED, message);
  r->pending = exception;
  return &gm_tracker_poison;
}

static const GmTracker *
load (GmRecorder *r, const GmTracker *exception, uint32_t slot)
{
  return gm_heap_load (&r->heap, gm_exception_storage (exception)->id, slot);
}

static void
store (GmRecorder *r, const GmTracker *exception, uint32_t slot, const GmTracker *value)
{
  gm_heap_store (&r->heap, gm_exception_storage (exception)->id, slot, value);
}

/* Sets the exception's __context__ to the exception that is being handled. A chain of contexts that
 * leads back to the exception is cut there. */
static void
set_context (GmRecorder *r, const GmTracker *exception)
{
  const GmTracker *handled = gm_exception_handled (r);
  if (handled == NULL || handled == exception)
    return;
  for (const GmTracker *o = handled, *c; (c = load (r, o, GM_EXC_CONTEXT)) != NULL; o = c)
    if (c == exception) {
      store (r, o, GM_EXC_CONTEXT, NULL);
      break;
    }
  store (r, exception, GM_EXC_CONTEXT, handled);
}

const GmTracker *
gm_raise_again (GmRecorder *r, const GmTracker *exception)
{
  if (r->stop)
    return &gm_tracker_poison;
  int64_t flags = load (r, exception, GM_EXC_FLAGS)->number;
  if ((flags & GM_EXC_RAISED) == 0)
    store (r, exception, GM_EXC_FLAGS,
           gm_tracker (r, .kind = &gm_kind_contents, .number = flags | GM_EXC_RAISED));
  return pend (r, exception);
}

const GmTracker *
gm_raise (GmRecorder *r, const GmTracker *exception)
{
  if (r->stop)
    return &gm_tracker_poison;
  set_context (r, exception);
  return gm_raise_again (r, exception);
}

const GmTracker *
gm_raise_value (GmRecorder *r, PyObject *type, const GmTracker *argument)
{
  if (r->stop)
    return &gm_tracker_poison;
  return gm_raise (r, gm_exception_new (r, (PyTypeObject *) type, &argument, argument ? 1 : 0));
}

const GmTracker *
gm_raise_new (GmRecorder *r, PyObject *type, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  if (r->stop)
    return &gm_tracker_poison;
  return gm_raise_value (r, type, gm_from_constant_take (r, PyUnicode_FromString (text)));
}

const GmTracker *
gm_raise_pending (GmRecorder *r)
{
  PyObject *type, *value, *tb;
  if (G_UNLIKELY (gm_interrupt_take ()))
    return gm_record_interrupt (r);
  PyErr_Fetch (&type, &value, &tb);
  PyErr_NormalizeException (&type, &value, &tb);
  Py_XDECREF (tb);
  if (type)
    gm_record_take (r, type);
  if (value)
    gm_record_take (r, value);
  if (r->stop)
    return &gm_tracker_poison;
  PyObject *args = value ? ((PyBaseExceptionObject *) value)->args : NULL;
  bool plain = args && PyTuple_CheckExact (args) && gm_exception_is_plain ((PyTypeObject *) type)
               && !gm_is_user_type ((PyTypeObject *) type);
  for (Py_ssize_t i = 0; plain && i < PyTuple_GET_SIZE (args); i++)
    plain = gm_is_constant_type (Py_TYPE (PyTuple_GET_ITEM (args, i)));
  if (!plain) { /* an exception with more state than its arguments is left to plain Python */
    PyObject *text = value ? PyObject_Str (value) : NULL;
    g_autofree char *message =
        g_strdup_printf ("%s: %s", type ? ((PyTypeObject *) type)->tp_name : "?",
                         text ? PyUnicode_AsUTF8 (text) : "");
    Py_XDECREF (text);
    PyErr_Clear ();
    return gm_record_break (r, GM_BREAK_EXCEPTION_RAISED, message);
  }
  const GmTracker *t = gm_from_constant (r, args);
  return gm_raise (r, gm_exception_new (r, (PyTypeObject *) type, t->items, t->n));
}

bool
gm_exception_caught (GmRecorder *r, PyObject *type)
{
  if (r->pending == NULL
      || !PyType_IsSubtype ((PyTypeObject *) r->pending->data, (PyTypeObject *) type))
    return false;
  r->pending = NULL;
  r->stop = NULL;
  return true;
}

/* -- Handling -------------------------------------------------------------- */

static const GmHandler *
handler_of (const GmFrame *f, uint32_t index)
{
  uint32_t k = f->code->insns[index].handler;
  return k ? &f->code->handlers[k - 1] : NULL;
}

bool
gm_exception_unwind (GmRecorder *r, const GmFrame *until, uint32_t index)
{
  const GmFrame *f = r->frame;
  const GmHandler *h;
  uint32_t depth = r->depth;
  while ((h = handler_of (f, index)) == NULL && f->level > until->level) {
    index = f->return_pc - 1;
    depth = f->return_depth;
    f = f->parent;
  }
  if (h == NULL) {
    if (until->parent) { /* the frame that runs inside of an instruction is left; the loop of the
                            instruction goes on with the search */
      r->frame = until->parent;
      r->pc = until->return_pc;
      r->depth = until->return_depth;
    }
    return false;
  }
  const GmTracker *exception = r->pending;
  r->pending = NULL;
  r->stop = NULL;
  r->frame = f;
  r->depth = depth;
  while (r->depth > h->depth)
    gm_pop (r);
  if (h->lasti)
    gm_push (r, gm_from_int (r, index));
  gm_push (r, exception);
  r->pc = h->target;
  return true;
}

const GmTracker *
gm_exception_handled (GmRecorder *r)
{
  for (const GmFrame *f = r->frame; f; f = f->parent) {
    const GmTracker *t = gm_heap_load (&r->heap, f->handled_id, 0);
    if (t)
      return t;
  }
  return NULL;
}

const GmTracker *
gm_exception_handle (GmRecorder *r, const GmTracker *exception)
{
  const GmTracker *old = gm_heap_load (&r->heap, r->frame->handled_id, 0);
  if (!r->stop)
    gm_heap_store (&r->heap, r->frame->handled_id, 0, exception);
  return old;
}

/* True if h is the handler of a `with` statement over a grad mode, which only restores the mode and
 * raises the exception again. */
static bool
is_grad_mode_exit (GmRecorder *r, const GmFrame *f, const GmHandler *h)
{
  const GmInsn *target = &f->code->insns[h->target];
  if (h->depth == 0 || h->target + 1 >= f->code->n_insns
      || target[1].op != GM_INSN_WITH_EXCEPT_START)
    return false;
  const GmTracker *exit = gm_heap_load (&r->heap, f->id, f->code->n_slots + h->depth - 1);
  return exit && exit->kind == &gm_kind_builtin && exit->n
         && exit->items[0]->kind == &gm_kind_grad_mode;
}

/* Skips a handler without PUSH_EXC_INFO, which cleans up after an inlined comprehension and raises
 * again, and tests the handler that covers it. */
bool
gm_exception_guarded (GmRecorder *r)
{
  uint32_t pc = r->pc;
  for (const GmFrame *f = r->frame; f; f = f->parent) {
    const GmHandler *h = pc ? handler_of (f, pc - 1) : NULL;
    for (; h; h = handler_of (f, h->target))
      if (f->code->insns[h->target].op == GM_INSN_PUSH_EXC_INFO && !is_grad_mode_exit (r, f, h))
        return true;
    pc = f->return_pc;
  }
  return false;
}
