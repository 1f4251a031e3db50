/* SPDX-License-Identifier: Apache-2.0
 * resume.c -- the places where a recording may break off, and the state that the rest of the
 * function needs.
 *
 * Before each step of the root's loop a mark is taken. A break goes back to the mark of its own
 * step: all that was recorded until there stays, and is finished like a whole function that returns
 * one tuple, the variables, stack and cells of each frame, innermost first. core/capture makes the
 * resume functions. If the state cannot be rebuilt, or an exception is being handled, the recording
 * is cut at the last line where it can, Python executes the lines up to the next one at which a
 * resume function can start, and the resume function goes on there.
 * A frame of the user's keeps all variables that are bound, as in plain Python, even if the code
 * does not read them again: a debugger, a traceback or a called function finds them by name. A
 * frame that cannot be left so, a frame with very many variables and the package's own frames keep
 * the live variables, and values that are passed on anyway, or have a weak reference. A dead tensor
 * with a history would cost time in each backward: it is kept if it is passed on anyway, if the
 * step that breaks raises, or if an inlined function reads frames.
 * Invariant: a value of the package's own frames that is dead at the break is neither an output of
 * the graph nor in the tuple.
 * Rejected: recording once more from the start up to the break; it cost time for each break.
 * Rejected: to keep dead variables only if the step that breaks reads frames; later parts may read
 * them, too, and this is not known before.
 */
#include "core/base/log.h"
#include "core/trace/attrs.h"
#include "core/trace/kinds.h"
#include "core/trace/cell.h"
#include "core/trace/lifetime.h"
#include "core/bytecode/liveness.h"
#include "core/trace/instance.h"
#include "core/trace/recorder.h"
#include "core/trace/python_span.h"

/* -- Marks ----------------------------------------------------------------- */

/* Keeps the present mark as a place where a stretch may begin (see python_span.h): the newest for
 * each frame, and several for the root, as a value that cannot be rebuilt may have been made in
 * another line. */
static void
mark_line (GmRecorder *r, const GmFrame *f, const GmInsn *i)
{
  GmMark *line = &r->lines[MIN (f->level, GM_MAX_DEPTH)];
  if (i->line < 0 || (line->frame == f && f->code->insns[line->pc].line == i->line) || f->generator
      || gm_heap_load (&r->heap, f->handled_id, 0))
    return;
  *line = r->mark;
  if (f->level == 0)
    r->statements[r->n_statements++ % GM_N_STATEMENTS] = r->mark;
}

bool
gm_resume_mark (GmRecorder *r)
{
  const GmFrame *f = r->frame;
  const GmInsn *i = &f->code->insns[r->pc];
  if (r->marked && r->pc > 0 && i[-1].step == i->step) /* the instruction continues the same step */
    return false;
  r->mark = gm_record_mark (r);
  r->marked = true;
  mark_line (r, f, i);
  r->n_steps++;
  return r->break_every && r->n_steps > r->break_every && (r->n_steps - 1) % r->break_every == 0;
}

/* -- The state of the frames ----------------------------------------------- */

static const uint32_t generator_flags = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

/* Returns the cell in a cell slot; NULL: the cell is on the stack, because an inlined comprehension
 * has a variable of the same name. */
static const GmTracker *
cell_in (GmRecorder *r, const GmFrame *f, uint32_t slot)
{
  const GmTracker *t = gm_heap_load (&r->heap, f->id, slot);
  t = t ? gm_realize (r, t) : NULL;
  return t && t->kind == &gm_kind_cell ? t : NULL;
}

/* True for an existing object whose death a weak reference or a finalizer may observe: it must live
 * as long as the variable, which costs nothing. A tensor has no finalizer. */
static bool
is_seen_to_die (const GmTracker *t)
{
  if (!t->source || !t->real)
    return false;
  if (PyObject_TypeCheck (t->real, gm_host.tensor_type))
    return *PyObject_GET_WEAKREFS_LISTPTR (t->real) != NULL;
  return PyObject_IS_GC (t->real);
}

/* True if t is an operand of the instruction that breaks, which may make a weak reference to it.
 * Operands exist then, whether the variable is kept or not. */
static bool
is_operand (GmRecorder *r, const GmFrame *f, uint32_t depth, const GmTracker *t)
{
  for (uint32_t k = 0; k < depth; k++)
    if (gm_heap_load (&r->heap, f->id, f->code->n_slots + k) == t)
      return true;
  return f != r->frame && is_operand (r, r->frame, r->depth, t);
}

/* True if the step at `insn` reads an undefined name: its NameError suggests similar names, among
 * them the names of the frame's variables. */
static bool
finds_no_name (GmRecorder *r, const GmFrame *f, uint32_t insn)
{
  const GmCode *code = f->code;
  const GmInsn *i = &code->insns[insn];
  while (i->op == GM_INSN_PUSH_NULL && insn + 1 < code->n_insns && i[1].step == i->step)
    i++, insn++;
  if (i->op == GM_INSN_LOAD_FAST)
    return gm_heap_load (&r->heap, f->id, i->arg) == NULL;
  return i->op == GM_INSN_LOAD_GLOBAL && gm_global_load (r, f->globals, i->obj) == NULL
         && gm_global_load (r, f->builtins, i->obj) == NULL;
}

/* A function with more variables than this keeps only the live ones: keeping all at each break
 * would take quadratic time in functions with many breaks. */
#define MAX_KEPT_VARIABLES 250

/* The dead variables that a break keeps: none; tensors without a gradient history and other values
 * that cost no time in the backward; all; all in any frame, however many. */
typedef enum { KEEP_LIVE, KEEP_CHEAP, KEEP_ALL, KEEP_WHOLE } Keep;

/* True if t is a tensor with a gradient history that the region has made, or a new object that
 * refers to one, down to `nesting` levels: as an output of the graph the tensor would take part in
 * each backward. passed: values that are outputs anyway. */
static bool
has_history (GmRecorder *r, const GmTracker *t, GHashTable *passed, int nesting)
{
  if (t == NULL || t->source || t->real || g_hash_table_contains (passed, t))
    return false;
  if (t->kind == &gm_kind_tensor)
    return gm_graph_meta (r->graph, (GmValueId) gm_contents_of (r, t)->number)->requires_grad;
  bool any = false;
  for (uint32_t i = 0; i < t->n && nesting > 0 && !any; i++)
    any = has_history (r, t->items[i], passed, nesting - 1);
  uint32_t n = t->id != GM_NO_OBJECT && nesting > 0
                   ? g_array_index (r->heap.objects, GmHeapObject, t->id).n
                   : 0;
  for (uint32_t k = 0; k < n && !any; k++)
    any = has_history (r, gm_heap_load (&r->heap, t->id, k), passed, nesting - 1);
  return any;
}

/* Returns the set of the values that are passed on in any case: the live variables and the stacks
 * of all frames. */
static GHashTable *
find_passed (GmRecorder *r)
{
  GHashTable *passed = g_hash_table_new (NULL, NULL);
  uint32_t insn = r->pc, depth = r->depth;

  for (const GmFrame *f = r->frame; f;
       insn = f->return_pc - 1, depth = f->return_depth, f = f->parent) {
    const GmLiveness *live = gm_liveness_get (f->code);
    for (uint32_t s = 0; s < f->code->n_slots + depth; s++) {
      const GmTracker *t = gm_heap_load (&r->heap, f->id, s);
      if (t && (s >= f->code->n_slots || gm_liveness_live (live, insn, s)))
        g_hash_table_add (passed, (gpointer) t);
    }
  }
  return passed;
}

/* The choice of the dead variables that are kept. */
typedef struct {
  Keep keep;
  GHashTable *passed; /* result of find_passed */
} Kept;

/* Stores in `locals` the slots of the frame's bound variables that are live at `insn`, or kept
 * although they are dead; returns their number. */
static uint32_t
bound_locals (GmRecorder *r, const GmFrame *f, uint32_t insn, uint32_t depth, Kept kept,
              uint32_t *locals)
{
  enum { NESTING = 4 };
  const GmCode *code = f->code;
  const GmLiveness *live = gm_liveness_get (code);
  bool all = f == r->frame ? finds_no_name (r, f, insn) : gm_liveness_sees_frame (r->frame->code);
  bool ours = gm_frame_is_ours (f);
  if (kept.keep != KEEP_WHOLE && (code->n_slots > MAX_KEPT_VARIABLES || ours))
    kept.keep = KEEP_LIVE;
  uint32_t n = 0;
  for (uint32_t s = 0; s < code->n_slots; s++) {
    const GmTracker *t = gm_heap_load (&r->heap, f->id, s);
    bool held = t && (all || is_seen_to_die (t) || is_operand (r, f, depth, t));
    held = held || (t && !ours && g_hash_table_contains (kept.passed, t)) || kept.keep >= KEEP_ALL
           || (kept.keep == KEEP_CHEAP && !has_history (r, t, kept.passed, NESTING));
    if (t == NULL || t == &gm_tracker_null || (!gm_liveness_live (live, insn, s) && !held)
        || (gm_is_cell_slot (&code->slots[s]) && cell_in (r, f, s)))
      continue;
    locals[n++] = s;
  }
  return n;
}

/* Returns, for a bound C method on the stack that waits for its call, the function of its class,
 * and *self: CPython has the function and the object on the stack, and the function's name is in
 * the message if the call fails. NULL: there is none, or it is not certain. For a method of an
 * object that is not an instance of a container's class, only at the call itself, because a resume
 * function handles such methods better as bound ones. */
static const GmTracker *
unbound_method (GmRecorder *r, const GmInsn *i, uint32_t entries_above, const GmTracker *bound,
                const GmTracker **self)
{
  bool called = i->op == GM_INSN_CALL && entries_above == i->arg + 1;
  PyObject *name = bound->kind == &gm_kind_builtin ? gm_builtin_method_name (r, bound) : NULL;
  if (name == NULL)
    return NULL;
  const GmTracker *of = bound->items[0];
  bool container =
      of->kind == &gm_kind_list || of->kind == &gm_kind_dict || of->kind == &gm_kind_set;
  if (!called && !container && bound->n != 2)
    return NULL;
  const GmTracker *owner = bound->n == 2 ? bound->items[1]
                           : container   ? gm_storage_owner (r, of)
                                         : NULL;
  *self = owner ? owner : of;
  PyTypeObject *type = bound->n == 2 ? NULL : gm_type_of (r, *self);
  PyObject *found = bound->n == 2 ? bound->real
                    : type        ? _PyType_Lookup (type, name)
                                  : NULL; /* n == 2: a method of an instance of a subclass */
  return found && Py_IS_TYPE (found, &PyMethodDescr_Type)
             ? gm_tracker (r, .kind = &gm_kind_builtin, .real = found)
             : NULL;
}

/* Appends to `values` the values of the frame that a resume function needs at `insn`, and fills
 * *out; false if the frame cannot be left and resumed there. */
static bool
frame_state (GmRecorder *r, const GmFrame *f, uint32_t insn, uint32_t depth, Kept kept,
             GPtrArray *values, GmBreakFrame *out)
{
  const GmCode *code = f->code;
  const GmLiveness *live = gm_liveness_get (code);
  bool prologue =
      code->insns[insn].op == GM_INSN_MAKE_CELL || code->insns[insn].op == GM_INSN_COPY_FREE_VARS;
  if (depth > 64 || prologue || (code->flags & generator_flags)
      || gm_liveness_handling (live, insn))
    return false;
  uint32_t *locals = gm_arena_newn (r->arena, uint32_t, code->n_slots + 1);
  *out = (GmBreakFrame){
    .code = code, .globals = f->globals, .insn = insn, .depth = depth, .locals = locals
  };
  out->n_locals = bound_locals (r, f, insn, depth, kept, locals);
  for (uint32_t i = 0; i < out->n_locals; i++)
    g_ptr_array_add (values, (gpointer) gm_heap_load (&r->heap, f->id, locals[i]));
  for (uint32_t k = 0; k < depth; k++) {
    const GmTracker *t = gm_heap_load (&r->heap, f->id, code->n_slots + k);
    const GmTracker *self, *function = NULL;
    if (t == &gm_tracker_null_method && f == r->frame)
      function = unbound_method (r, &code->insns[insn], depth - k - 1,
                                 gm_heap_load (&r->heap, f->id, code->n_slots + k + 1), &self);
    if (function) {
      out->n_stack += 2;
      g_ptr_array_add (values, (gpointer) function);
      g_ptr_array_add (values, (gpointer) self);
      k++;
      continue;
    }
    if (t->kind == &gm_kind_null) {
      *(t == &gm_tracker_unbound ? &out->unbound : &out->nulls) |= 1ull << k;
      continue;
    }
    out->n_stack++;
    g_ptr_array_add (values, (gpointer) t);
  }
  for (uint32_t s = 0; s < code->n_slots; s++) {
    if (!gm_is_cell_slot (&code->slots[s]))
      continue;
    const GmTracker *t = cell_in (r, f, s);
    if (t == NULL && out->n_cells >= 64)
      return false;
    if (t == NULL)
      out->away |= 1ull << out->n_cells;
    /* A resume function has the variable as a free variable, and would raise NameError instead of
     * UnboundLocalError. */
    if (t && (code->slots[s].kind & GM_SLOT_CELL) && (f->level > 0 || !r->request->start)
        && gm_liveness_finds_empty (code, insn, s, gm_contents_of (r, t) == &gm_tracker_null))
      return false;
    out->n_cells++;
    g_ptr_array_add (values, (gpointer) (t ? t : gm_cell_new (r, NULL)));
  }
  return r->stop == NULL;
}

/* Returns a description of all frames from the current one to the root, and appends their values to
 * `values`; NULL if a frame cannot be resumed. */
static GmBreakPoint *
describe (GmRecorder *r, GmResumeMode mode, Keep keep, GPtrArray *values)
{
  GmBreakPoint *point = gm_arena_new0 (r->arena, GmBreakPoint);
  GmBreakFrame *frames = gm_arena_newn (r->arena, GmBreakFrame, r->frame->level + 1);
  point->mode = mode;
  point->frames = frames;
  uint32_t insn = r->pc, depth = r->depth;
  g_autoptr (GHashTable) passed = find_passed (r);
  /* An exception that is being handled is no value of the frame: a resume function would not have
   * it. */
  const GmTracker *handled = gm_heap_load (&r->heap, r->frame->handled_id, 0);
  if (handled != NULL && handled != &gm_tracker_null && handled->real != Py_None)
    return NULL;
  if (gm_fence_trace_is_crossed (r))
    return NULL;
  for (const GmFrame *f = r->frame; f; f = f->parent) {
    if (f->generator)
      return NULL;
    GmBreakFrame *out = &frames[point->n_frames++];
    if (!frame_state (r, f, insn, depth, (Kept){ keep, passed }, values, out))
      return NULL;
    if (f->parent == NULL)
      break;
    if (f->after != GM_AFTER_PUSH && f->after != GM_AFTER_INIT)
      return NULL;
    if (f->after == GM_AFTER_INIT) {
      out->init = true;
      g_ptr_array_add (values, (gpointer) f->init_object);
    }
    insn = f->return_pc - 1;
    depth = f->return_depth;
  }
  return point;
}

/* -- Breaking off ---------------------------------------------------------- */

/* True if resuming at the point gains something. False for a stretch in a function that reads
 * frames, and for a stretch that is all of the rest of the function, if nothing was recorded before
 * it. */
static bool
is_of_use (const GmRecorder *r, const GmBreakPoint *point)
{
  const GmBreakFrame *f = &point->frames[0];
  if (point->mode >= GM_RESUME_SPAN && gm_liveness_sees_frame (f->code))
    return false;
  if (point->mode < GM_RESUME_SPAN || r->graph->nodes->len > 0 || point->n_frames > 1)
    return true;
  GmRecordStart start = { .insn = f->insn,
                          .depth = f->depth,
                          .nulls = f->nulls,
                          .unbound = f->unbound,
                          .n_locals = f->n_locals,
                          .locals = f->locals };
  g_autoptr (GArray) exits =
      gm_python_span_exits (f->code, &start, point->mode == GM_RESUME_LEAVE, NULL);
  return exits->len > 0;
}

/* Rolls back to the mark and ends the recording there, with a description of the frames and the
 * dead variables of `keep`; fills rec. may_lose: number of objects with an observable death that
 * may be dropped. False, with r as at the mark, if that fails. */
static bool
resume_with (GmRecorder *r, const GmMark *mark, GmResumeMode mode, Keep keep, uint32_t may_lose,
             GmRecording *rec)
{
  gm_record_rollback (r, mark);
  r->stop = NULL;
  r->pending = NULL;
  r->nesting = 0;
  g_autoptr (GPtrArray) values = g_ptr_array_new ();
  GmBreakPoint *point = describe (r, mode, keep, values);
  if (point == NULL || !is_of_use (r, point)
      || (r->lifetime && gm_lifetime_lost (r, values) > may_lose))
    return false;
  const GmTracker *whole = gm_tuple_new (r, (const GmTracker *const *) values->pdata, values->len);
  r->frame = NULL;
  gm_residual_finish (r, whole, rec);
  if (r->stop) {
    gm_record_rollback (r, mark);
    r->stop = NULL;
    return false;
  }
  rec->point = point;
  return true;
}

static bool
is_looked_at (const GmRecorder *r)
{
  bool looked_at = false;
  for (const GmFrame *f = r->frame; f && !looked_at; f = f->parent)
    looked_at = gm_liveness_sees_frame (f->code);
  return looked_at;
}

/* Ends the recording at the mark as resume_with does, with the dead variables that the break `why`
 * (or NULL) calls for, else without dead variables if a value of theirs cannot be built. */
static bool
resume_for (GmRecorder *r, const GmMark *mark, GmResumeMode mode, const GmBreakInfo *why,
            GmRecording *rec)
{
  bool shown = why && (gm_breaks[why->id].shows_frames || is_looked_at (r));
  uint32_t may_lose = why && why->drops_one;
  return resume_with (r, mark, mode, shown ? KEEP_ALL : KEEP_CHEAP, may_lose, rec)
         || (r->lifetime && resume_with (r, mark, mode, KEEP_WHOLE, may_lose, rec))
         || resume_with (r, mark, mode, KEEP_LIVE, may_lose, rec);
}

bool
gm_resume_at (GmRecorder *r, const GmMark *mark, GmResumeMode mode, GmRecording *rec)
{
  return resume_for (r, mark, mode, NULL, rec);
}

/* True for breaks that would occur again after the instruction, or that are faults of the recorder:
 * nothing is resumed. */
static bool
is_final (GmBreak id)
{
  return id == GM_BREAK_LOOP_LIMIT || id == GM_BREAK_GRAPH_LIMIT || id == GM_BREAK_MEMORY_LIMIT
         || id == GM_BREAK_CALL_SIZE || id == GM_BREAK_CALL_LOCALS || id == GM_BREAK_CELLS_SEEN
         || id == GM_BREAK_STATE_DIFFERS || id == GM_BREAK_GUARD_FAILED_AT_BIRTH;
}

/* Ends the recording at the start of a line that the frames or the root have reached, trying the
 * newest first. */
static bool
resume_at_line (GmRecorder *r, GmResumeMode mode, const GmBreakInfo *why, GmRecording *rec)
{
  uint32_t newest = r->n_executed; /* there is no way back to what a rollback has undone */
  bool done = false;
  for (const GmFrame *f = r->frame, *parent; f && !done; f = parent) {
    const GmMark line = r->lines[MIN (f->level, GM_MAX_DEPTH)];
    parent = f->parent;
    if (line.frame == f && line.n_executed <= newest) {
      newest = line.n_executed;
      done = resume_for (r, &line, mode, why, rec);
    }
  }
  for (uint32_t k = 0; !done && k < MIN (r->n_statements, GM_N_STATEMENTS); k++) {
    const GmMark line = r->statements[(r->n_statements - 1 - k) % GM_N_STATEMENTS];
    if (line.n_executed < newest)
      done = resume_for (r, &line, mode, why, rec);
  }
  return done;
}

/* Ends the recording so that the rest of the function runs as plain Python. A tracer sees the
 * frames that exist when it starts: from the line that calls the tracer on, the function is in one
 * Python frame. */
static bool
resume_plain (GmRecorder *r, const GmBreakInfo *why, GmRecording *rec)
{
  const GmMark line = r->lines[0];
  return line.frame && resume_for (r, &line, GM_RESUME_PLAIN, why, rec);
}

void
gm_resume_after_break (GmRecorder *r, GmRecording *rec)
{
  GmBreakInfo *why = r->stop;
  if (is_final (why->id) || !r->marked)
    return;
  bool leave = why->id == GM_BREAK_TRY_BLOCK; /* the rest of the block would break again */
  bool traced = why->id == GM_BREAK_TRACER;
  GmMark mark = r->mark;
  bool done = traced ? resume_plain (r, why, rec)
                     : !leave && resume_for (r, &mark, GM_RESUME_AFTER, why, rec);
  done =
      done || (!traced && resume_at_line (r, leave ? GM_RESUME_LEAVE : GM_RESUME_SPAN, why, rec));
  if (done)
    rec->broke = why;
  else
    r->stop = why;
}
