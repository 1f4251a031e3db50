/* SPDX-License-Identifier: Apache-2.0
 * insn_exception.c -- raise, handlers, `with`, yield.
 *
 * The stack of a handler has, from below: the index of the instruction that raised, if RERAISE
 * needs the index; the exception that was handled before (None: none); the exception.
 */
#include "core/models/models.h"
#include "core/trace/exception.h"
#include "core/trace/insn_handlers.h"
#include "core/trace/instance.h"

/* Returns the exception instance to raise for `t`, an instance or a class, which is called. Breaks
 * for an instance that existed before the region; any other value raises a TypeError with the
 * message `complaint`. */
static const GmTracker *
instance_of (GmRecorder *r, const GmTracker *t, const char *complaint)
{
  t = gm_realize (r, t);
  if (!r->stop && t->kind == &gm_kind_class && PyExceptionClass_Check (t->real))
    t = gm_realize (r, gm_call_n (r, t, NULL, 0));
  if (r->stop || gm_exception_storage (t))
    return t;
  PyTypeObject *type = gm_type_of (r, t);
  if (type && PyExceptionClass_Check (type)) /* an existing exception: raising changes it */
    return gm_record_break (r, GM_BREAK_SIDE_EFFECT, "raising an exception made before");
  return gm_raise_new (r, PyExc_TypeError, "%s", complaint);
}

void
gm_insn_raise_varargs (GmRecorder *r, const GmInsn *i)
{
  if (i->arg == 0) {
    const GmTracker *handled = gm_exception_handled (r);
    if (handled)
      gm_raise_again (r, handled);
    else
      gm_record_break (r, GM_BREAK_EXCEPTION_RAISED, "raise of what the caller handles");
    return;
  }
  const GmTracker *cause = i->arg == 2 ? gm_pop (r) : NULL;
  const GmTracker *e = instance_of (r, gm_pop (r), "exceptions must derive from BaseException");
  if (cause && !r->stop) {
    PyObject *name = gm_record_take (r, PyUnicode_InternFromString ("__cause__"));
    cause = gm_realize (r, cause);
    if (cause->real != Py_None)
      cause = instance_of (r, cause, "exception causes must derive from BaseException");
    gm_setattr (r, e, name, cause);
  }
  if (!r->stop)
    gm_raise (r, e);
}

void
gm_insn_reraise (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *e = gm_pop (r);
  if (!r->stop && !gm_exception_storage (e)) /* the recording began in the clean-up of a handler */
    gm_record_break (r, GM_BREAK_SIDE_EFFECT, "raising an exception made before");
  else if (!r->stop)
    gm_raise_again (r, e);
}

void
gm_insn_push_exc_info (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *e = gm_pop (r), *old = gm_exception_handle (r, e);
  gm_push (r, old ? old : gm_none (r));
  gm_push (r, e);
}

void
gm_insn_pop_except (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *old = gm_pop (r);
  gm_exception_handle (r, old->real == Py_None ? NULL : old);
}

/* True if an exception of `type` matches `cls`, a class or a tuple of classes, in an except clause.
 * False after a break. */
static bool
matches (GmRecorder *r, PyTypeObject *type, const GmTracker *cls)
{
  cls = gm_realize (r, cls);
  if (r->stop)
    return false;
  if (cls->kind == &gm_kind_tuple) {
    bool found = false;
    for (uint32_t k = 0; k < cls->n && !r->stop; k++)
      found |= matches (r, type, cls->items[k]);
    return found;
  }
  if (cls->kind == &gm_kind_class && PyExceptionClass_Check (cls->real))
    return PyType_IsSubtype (type, (PyTypeObject *) cls->real);
  gm_raise_new (r, PyExc_TypeError,
                "catching classes that do not inherit from BaseException is not allowed");
  return false;
}

void
gm_insn_check_exc_match (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *cls = gm_pop (r), *e = gm_peek (r, 1);
  bool found = !r->stop && matches (r, gm_type_of (r, e), cls);
  gm_push (r, gm_from_bool (r, found));
}

/* -- with ------------------------------------------------------------------ */

static const GmTracker *
special (GmRecorder *r, const GmTracker *t, const char *name)
{
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString (name));
  PyTypeObject *type = gm_type_of (r, t);
  if (t->kind == &gm_kind_hook_handle)
    return gm_getattr_opt (r, t, key);
  if (type == NULL || t->kind != &gm_kind_object)
    return NULL;
  PyObject *found = gm_class_lookup (r, type, key);
  return found ? gm_class_value (r, type, key, found, t) : NULL;
}

void
gm_insn_before_with (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *t = gm_realize (r, gm_pop (r));
  if (r->stop)
    return;
  if (t->kind == &gm_kind_grad_mode) {
    gm_grad_mode_enter (r, t);
    return;
  }
  const GmTracker *enter = special (r, t, "__enter__"), *exit = special (r, t, "__exit__");
  if (enter == NULL || exit == NULL) {
    gm_record_break (r, GM_BREAK_WITH_BLOCK, gm_type_text (r, t));
    return;
  }
  gm_push (r, exit);
  gm_push (r, gm_call_n (r, enter, NULL, 0));
}

/* WITH_EXCEPT_START: calls exit (type, value, traceback), where the traceback is an opaque
 * tracker. */
void
gm_insn_with_except_start (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *e = gm_peek (r, 1), *exit = gm_peek (r, 4);
  if (r->stop)
    return;
  PyObject *type = (PyObject *) gm_type_of (r, e);
  const GmTracker *args[3] = {
    gm_wrap (r, type, gm_source_const (r, type, ((PyTypeObject *) type)->tp_name)), e,
    gm_tracker (r, .kind = &gm_kind_traceback)
  };
  gm_push (r, gm_call_n (r, exit, args, 3));
}

const GmTrackerKind gm_kind_traceback = { .name = "traceback" };

/* -- Generators ------------------------------------------------------------ */

/* RETURN_GENERATOR: leaves the frame and returns a new generator, whose first resumption continues
 * after this instruction. */
void
gm_insn_return_generator (GmRecorder *r, const GmInsn *i)
{
  gm_frame_leave (r, gm_generator_new (r));
}

void
gm_insn_yield_value (GmRecorder *r, const GmInsn *i)
{
  gm_generator_yield (r, gm_pop (r));
}

void
gm_insn_get_yield_from_iter (GmRecorder *r, const GmInsn *i)
{
  gm_push (r, gm_iter (r, gm_pop (r)));
}

void
gm_insn_end_send (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *value = gm_pop (r);
  gm_pop (r);
  gm_push (r, value);
}

static bool
is_stop (GmRecorder *r, const GmTracker *e)
{
  PyTypeObject *type = gm_type_of (r, e);
  return type && PyType_IsSubtype (type, (PyTypeObject *) PyExc_StopIteration);
}

/* CLEANUP_THROW: handles an exception that the iterator of a `yield from` raised after a throw: its
 * StopIteration, or another exception. */
void
gm_insn_cleanup_throw (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *e = gm_pop (r);
  gm_pop (r);
  gm_pop (r);
  if (!is_stop (r, e)) {
    gm_raise_again (r, e);
    return;
  }
  PyObject *name = gm_record_take (r, PyUnicode_InternFromString ("value"));
  gm_push (r, gm_none (r));
  gm_push (r, gm_getattr (r, e, name));
}

void
gm_insn_stop_iteration_error (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *e = gm_pop (r);
  gm_push (r, is_stop (r, e) ? gm_exception_from_stop (r, e) : e);
}

/* SEND. Stack: iterator, value -> iterator, value yielded. At the iterator's end: its result
 * instead, and a jump. */
void
gm_insn_send (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *value = gm_pop (r), *it = gm_peek (r, 1), *got;
  if (r->stop)
    return;
  bool generator = it->kind == &gm_kind_generator;
  bool none = gm_realize (r, value)->real == Py_None;
  if (generator)
    got = gm_generator_send (r, it, value);
  else if (none)
    got = gm_next (r, it);
  else
    got = gm_call_n (r, gm_getattr (r, it, gm_record_take (r, PyUnicode_InternFromString ("send"))),
                     &value, 1);
  if (got) {
    gm_push (r, got);
  } else if (!r->stop) {
    gm_pop (r);
    gm_push (r, generator || it->kind == &gm_kind_object ? r->stopped_value : gm_none (r));
    r->pc = i->target;
  }
}
