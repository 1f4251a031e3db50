/* SPDX-License-Identifier: Apache-2.0
 * tracker_generator.c -- generators that the region makes: a frame that is left and entered again.
 *
 * The frame's variables and stack are a heap object, like those of every frame; a generator adds
 * its phase, the instruction after the yield and the stack's depth, in one number of its own heap
 * slot. Each resumption is a nested run of the loop, so bodies run lazily, interleaved as in
 * Python. A generator does not leave the region. If one is suspended inside of a block at the end
 * of the region, Python would close it when it is dropped, which runs the block's end: that breaks.
 */
#include "core/trace/exception.h"
#include "core/trace/iterator.h"
#include "core/trace/insn_handlers.h"

typedef enum { NEW, SUSPENDED, RUNNING, DONE } Phase;

#define PHASE(state) ((Phase) ((state) >> 56))
#define PC(state) ((uint32_t) ((state) &0xffffffffu))
#define DEPTH(state) ((uint32_t) ((state) >> 32) & 0xffffffu)

static int64_t
state_of (GmRecorder *r, const GmTracker *t)
{
  return gm_contents_of (r, t)->number;
}

/* Stores the generator's state, also while an exception is pending. */
static void
set_state (GmRecorder *r, const GmTracker *t, Phase phase, uint32_t pc, uint32_t depth)
{
  int64_t state = ((int64_t) phase << 56) | ((int64_t) depth << 32) | pc;
  gm_heap_store (&r->heap, t->id, 0, gm_tracker (r, .kind = &gm_kind_contents, .number = state));
}

const GmTracker *
gm_generator_new (GmRecorder *r)
{
  const GmFrame *f = r->frame;
  uint32_t id = gm_heap_add (&r->heap, 1);
  GmFrame *own = gm_arena_copy (r->arena, f, sizeof *f);
  own->handled_id = gm_heap_add (&r->heap, 1);
  const GmTracker *t =
      gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_generator, .id = id, .data = own });
  own->generator = t;
  set_state (r, t, NEW, r->pc, r->depth);
  const GmTracker *others = gm_heap_load (&r->heap, r->generators_id, 0);
  const GmTracker *list[2] = { t, others };
  gm_heap_store (&r->heap, r->generators_id, 0, gm_contents (r, list, others ? 2 : 1));
  return t;
}

void
gm_generator_yield (GmRecorder *r, const GmTracker *value)
{
  const GmFrame *f = r->frame;
  if (r->stop)
    return;
  set_state (r, f->generator, SUSPENDED, r->pc, r->depth);
  r->frame = f->parent;
  r->pc = f->return_pc;
  r->depth = f->return_depth;
  r->stopped_value = value;
}

/* -- Running --------------------------------------------------------------- */

/* Replaces a pending StopIteration, which leaves a generator's body, by a RuntimeError, because it
 * would be taken for the generator's end. Since 3.12 the generator's own code does this. */
static void
stop_iteration_to_error (GmRecorder *r)
{
  const GmTracker *stop = r->pending;
  if (gm_exception_caught (r, PyExc_StopIteration))
    gm_raise_again (r, gm_exception_from_stop (r, stop));
}

const GmTracker *
gm_exception_from_stop (GmRecorder *r, const GmTracker *stop)
{
  const GmTracker *text =
      gm_from_constant_take (r, PyUnicode_FromString ("generator raised StopIteration"));
  const GmTracker *error = gm_exception_new (r, (PyTypeObject *) PyExc_RuntimeError, &text, 1);
  PyObject *cause = gm_record_take (r, PyUnicode_InternFromString ("__cause__"));
  gm_setattr (r, error, cause, stop);
  gm_heap_store (&r->heap, gm_exception_storage (error)->id, GM_EXC_CONTEXT, stop);
  return error;
}

/* Resumes the generator after its yield, with `value`, or with the exception `thrown` raised there
 * (value NULL). Returns the next yielded value; NULL as gm_generator_send. */
static const GmTracker *
resume (GmRecorder *r, const GmTracker *t, const GmTracker *value, const GmTracker *thrown)
{
  int64_t state = state_of (r, t);
  const GmFrame *own = t->data;
  if (r->stop)
    return NULL;
  if (PHASE (state) == RUNNING) {
    gm_raise_new (r, PyExc_ValueError, "generator already executing");
    return NULL;
  }
  if (PHASE (state) == NEW && thrown)
    set_state (r, t, DONE, 0, 0);
  if (PHASE (state) == DONE || (PHASE (state) == NEW && thrown)) {
    r->stopped_value = gm_none (r);
    if (thrown)
      gm_raise (r, thrown);
    return NULL;
  }
  if (PHASE (state) == NEW && gm_realize (r, value)->real != Py_None) {
    gm_raise_new (r, PyExc_TypeError, "can't send non-None value to a just-started generator");
    return NULL;
  }
  if (r->frame->level + 1 >= GM_MAX_DEPTH) {
    gm_record_break (r, GM_BREAK_RECURSION, G_STRINGIFY (GM_MAX_DEPTH));
    return NULL;
  }
  GmFrame *f = gm_arena_copy (r->arena, own, sizeof *own);
  f->parent = r->frame;
  f->level = r->frame->level + 1;
  f->return_pc = r->pc;
  f->return_depth = r->depth;
  f->after = GM_AFTER_STOP;
  set_state (r, t, RUNNING, 0, 0);
  r->frame = f;
  r->pc = PC (state);
  r->depth = DEPTH (state);
  bool runs = true;
  if (thrown) {
    gm_push (r, gm_none (r)); /* handlers expect the value of the yield on the stack */
    gm_raise (r, thrown);
    runs = gm_exception_unwind (r, f, r->pc - 1);
  } else {
    gm_push (r, value);
  }
  if (runs)
    gm_record_loop (r, f, NULL);
  if (r->stop) {
    set_state (r, t, DONE, 0, 0);
    if (r->pending)
      stop_iteration_to_error (r);
    return NULL;
  }
  if (PHASE (state_of (r, t)) == SUSPENDED)
    return r->stopped_value;
  set_state (r, t, DONE, 0, 0);
  return NULL;
}

const GmTracker *
gm_generator_send (GmRecorder *r, const GmTracker *t, const GmTracker *value)
{
  return resume (r, t, value, NULL);
}

/* Returns the iterator to which a suspended generator delegates by `yield from`, and *send, its
 * SEND instruction; NULL: there is none. */
static const GmTracker *
delegate (GmRecorder *r, const GmTracker *t, const GmInsn **send)
{
  const GmFrame *f = t->data;
  int64_t state = state_of (r, t);
  if (PHASE (state) != SUSPENDED || PC (state) >= f->code->n_insns)
    return NULL;
  const GmInsn *i = &f->code->insns[PC (state)];
  while (i->op == GM_INSN_NOP)
    i++;
  if (i->op != GM_INSN_JUMP || f->code->insns[i->target].op != GM_INSN_SEND)
    return NULL;
  *send = &f->code->insns[i->target];
  return gm_heap_load (&r->heap, f->id, f->code->n_slots + DEPTH (state) - 1);
}

static const GmTracker *throw_into (GmRecorder *r, const GmTracker *t, const GmTracker *exception);

/* Resumes generator t after `send`, with `value` as the result of the inner iterator, which has
 * ended. */
static const GmTracker *
leave_delegate (GmRecorder *r, const GmTracker *t, const GmInsn *send, const GmTracker *value)
{
  uint32_t depth = DEPTH (state_of (r, t));
  set_state (r, t, SUSPENDED, send->target, depth - 1);
  return resume (r, t, value, NULL);
}

static const GmTracker *close_generator (GmRecorder *r, const GmTracker *t);

static const GmTracker *
throw_into (GmRecorder *r, const GmTracker *t, const GmTracker *exception)
{
  const GmInsn *send;
  const GmTracker *inner = delegate (r, t, &send);
  if (inner == NULL)
    return resume (r, t, NULL, exception);
  if (inner->kind == &gm_kind_object || send->target == 0)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "throw", "generator");
  if (inner->kind != &gm_kind_generator) /* the iterator has no throw (): the exception is raised at
                                            the outer generator's yield */
    return resume (r, t, NULL, exception);
  if (PyType_IsSubtype ((PyTypeObject *) exception->data, (PyTypeObject *) PyExc_GeneratorExit)) {
    close_generator (r, inner);
    const GmTracker *raised = r->pending;
    if (raised && gm_exception_caught (r, PyExc_BaseException))
      exception = raised;
    return resume (r, t, NULL, exception);
  }
  const GmTracker *value = throw_into (r, inner, exception);
  if (value)
    return value;
  if (!r->stop)
    return leave_delegate (r, t, send, r->stopped_value);
  const GmTracker *raised = r->pending;
  if (raised == NULL || !gm_exception_caught (r, PyExc_BaseException))
    return NULL;
  return resume (r, t, NULL, raised);
}

static const GmTracker *
close_generator (GmRecorder *r, const GmTracker *t)
{
  Phase phase = PHASE (state_of (r, t));
  if (phase == DONE || phase == NEW) {
    set_state (r, t, DONE, 0, 0);
    return gm_none (r);
  }
  const GmTracker *value =
      throw_into (r, t, gm_exception_new (r, (PyTypeObject *) PyExc_GeneratorExit, NULL, 0));
  if (value && !r->stop)
    return gm_raise_new (r, PyExc_RuntimeError, "generator ignored GeneratorExit");
  bool returned = !r->stop; /* since 3.13 close () returns the generator's value */
  if (r->pending && !gm_exception_caught (r, PyExc_GeneratorExit))
    gm_exception_caught (r, PyExc_StopIteration);
  return r->stop                                    ? &gm_tracker_poison
         : returned && PY_VERSION_HEX >= 0x030d0000 ? r->stopped_value
                                                    : gm_none (r);
}

/* -- Methods --------------------------------------------------------------- */

/* Returns the result of send () or throw (): `value`, if the generator has yielded it; its end
 * (NULL) raises a StopIteration with the value returned. */
static const GmTracker *
or_stop (GmRecorder *r, const GmTracker *value)
{
  if (value || r->stop)
    return value ? value : &gm_tracker_poison;
  const GmTracker *result = r->stopped_value;
  return gm_raise_value (r, PyExc_StopIteration,
                         gm_realize (r, result)->real == Py_None ? NULL : result);
}

static const GmTracker *
method_send (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "send", args, 1, 1))
    return &gm_tracker_poison;
  return or_stop (r, resume (r, t, args->args[0], NULL));
}

static const GmTracker *
method_next (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "__next__", args, 0, 0))
    return &gm_tracker_poison;
  return or_stop (r, resume (r, t, gm_none (r), NULL));
}

static const GmTracker *
method_throw (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (args->n < 1 || args->n > 3 || args->names)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "throw", "generator");
  const GmTracker *e = gm_realize (r, args->args[0]);
  if (args->n > 1 && e->kind == &gm_kind_class) /* throw (type, value, traceback) */
    e = gm_realize (r, args->args[1]);
  if (!r->stop && e->kind == &gm_kind_class && PyExceptionClass_Check (e->real))
    e = gm_realize (r, gm_call_n (r, e, NULL, 0));
  if (r->stop || gm_exception_storage (e) == NULL)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "throw", "generator");
  return or_stop (r, throw_into (r, t, e));
}

static const GmTracker *
method_close (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "close", args, 0, 0) ? close_generator (r, t) : &gm_tracker_poison;
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  static const GmMethodRow rows[] = { { "send", method_send },
                                      { "throw", method_throw },
                                      { "close", method_close },
                                      { "__next__", method_next },
                                      { NULL, NULL } };
  const GmTracker *bound = gm_method_row (r, rows, t, name);
  if (bound || _PyType_Lookup (&PyGen_Type, name) == NULL)
    return bound;
  return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "generator");
}

static const GmTracker *
next (GmRecorder *r, const GmTracker *t)
{
  return resume (r, t, gm_none (r), NULL);
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  return t;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return &PyGen_Type;
}

const GmTrackerKind gm_kind_generator = {
  .name = "generator", .type = type, .truth = truth, .iter = iter, .next = next, .getattr = getattr
};

/* -- The end --------------------------------------------------------------- */

bool
gm_generator_holds (GmRecorder *r, const GmTracker *t, uint32_t *depth)
{
  *depth = DEPTH (state_of (r, t));
  return PHASE (state_of (r, t)) != DONE;
}

void
gm_generators_finish (GmRecorder *r)
{
  const GmTracker *list = gm_heap_load (&r->heap, r->generators_id, 0);
  for (; list && !r->stop; list = list->n > 1 ? list->items[1] : NULL) {
    const GmTracker *t = list->items[0];
    const GmFrame *f = t->data;
    int64_t state = state_of (r, t);
    const GmInsn *i = PHASE (state) == SUSPENDED ? &f->code->insns[PC (state) - 1] : NULL;
    if (i == NULL || i->handler == 0)
      continue;
    const GmInsn *target = &f->code->insns[f->code->handlers[i->handler - 1].target];
    if (target->op == GM_INSN_PUSH_EXC_INFO || target->op == GM_INSN_COPY)
      gm_record_break (r, GM_BREAK_GENERATOR, PyUnicode_AsUTF8 (f->code->code->co_name));
  }
}
