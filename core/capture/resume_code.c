/* SPDX-License-Identifier: Apache-2.0
 * resume_code.c -- see resume_code.h.  A new code object is a prefix and the part of the original
 * that it can reach: a suffix.
 *
 *   COPY_FREE_VARS, RESUME, the stack      every kind; a KEPT adopts the frame object before that
 *   JUMP_FORWARD to the instruction        REST, KEPT, SPAN, LEAVE
 *   a copy of the instruction, or a call   STEP, CALL: covered by the handlers of the original
 *                                          instruction
 *   store the stack; marker, frame,        once where it falls through, once where it jumps
 *   variables, stack; RETURN
 *   the original from `low` on             its prologue a NOP, its variables renumbered; for a
 *                                          stretch only its own instructions, and those of the
 *                                          handler of a STEP or a CALL, if there is one
 *   store the stack; marker, frame,        SPAN, LEAVE, and points with a handler: for each exit,
 *   number, variables, stack; RETURN       whose first instruction in the copy is a jump to it; a
 *                                          variable without a value is caught, and returned as
 *                                          gm_resume_unbound
 *
 * Variables are renumbered: arguments first (variables, stack), other plain variables, places of
 * the stack that are no arguments, then the cells, which are free here.  If the copy raises, the
 * original's handlers run in this frame, and so does the code that follows them.
 * Sizes change (EXTENDED_ARG), so the whole is laid out until nothing grows; lines and columns are
 * written anew from the original's.  Invariant: nothing of the prefix behind the copy is covered by
 * a handler.
 */
#include "core/objects/cpython.h"

#include "core/bytecode/assemble.h"
#include "core/capture/code_cache.h"
#include "core/bytecode/handler_table.h"
#include "core/capture/hook.h"
#include "core/objects/kept_frame.h"
#include "core/bytecode/opcodes.h"
#include "core/bytecode/raw_code.h"
#include "core/capture/resume_code.h"
#include "core/capture/resume_original.h"

#include "core/trace/python_span.h"

#include <string.h>

/* -- Opcodes of this version ------------------------------------------------------------------- */

/* True where the NULL of a call lies above its callable, false where it lies below. */
#define NULL_IS_ABOVE (PY_VERSION_HEX >= 0x030d0000)

static bool
names_slot (uint8_t opcode)
{
  return gm_opcodes[opcode].how != GM_HOW_NONE
         && gm_insns[gm_opcodes[opcode].op].operand == GM_OPERAND_SLOT;
}

/* Returns the forward jump that does the same as the backward jump `opcode`; other opcodes
 * unchanged. */
static uint8_t
forward (uint8_t opcode)
{
  for (uint32_t i = 0; gm_opcodes[opcode].how == GM_HOW_BACKWARD && i < 256; i++)
    if (gm_opcodes[i].op == gm_opcodes[opcode].op && gm_opcodes[i].how == GM_HOW_FORWARD)
      return (uint8_t) i;
  return opcode;
}

/* -- Writing ----------------------------------------------------------------------------------- */

/* An entry of the new exception table: an exception of instruction `at` goes to `target` with
 * `depth` items on the stack; both are indices of `out`. */
typedef struct {
  uint32_t at, target, depth;
} Catch;

typedef struct {
  const GmCode *code; /* decoded, of the original */
  const GmOriginal *o;
  const GmResumePoint *point;
  GArray *out;  /* GmRaw; targets are indices of `out` once it is complete */
  uint32_t low; /* first instruction of the original that is copied */
  /* All instructions behind it are copied: the variables and constants are the original's. */
  bool whole;
  GArray *kept;   /* uint32_t: for a stretch, the instructions of the original that are copied; else
                     NULL */
  uint32_t first; /* index in `out` of the copied part */
  uint32_t copy_first, copy_end; /* the copy of the step, as indices of `out` */
  uint32_t n_locals, n_places;   /* numbers of plain variables and of places of the stack */
  uint32_t *slot;                /* slot of the original -> new slot */
  uint32_t *place;               /* place of the stack -> new slot */
  PyObject *consts;              /* list */
  GArray *catches;               /* Catch, ascending */
  GmPlace here;
} Writer;

static uint32_t
put (Writer *w, uint8_t opcode, uint32_t arg)
{
  GmRaw raw = { .opcode = opcode, .arg = arg, .target = -1, .place = w->here };
  g_array_append_val (w->out, raw);
  return w->out->len - 1;
}

static bool
names_const (uint8_t opcode)
{
  const GmOpcode *row = &gm_opcodes[opcode];
  return row->how == GM_HOW_KWNAMES || row->how == GM_HOW_RETURN_CONST
         || (row->how != GM_HOW_NONE && gm_insns[row->op].operand == GM_OPERAND_CONST);
}

/* Appends a constant to the new code's constants and sets *index to its place.  False with an
 * exception. */
static bool
put_in_consts (Writer *w, PyObject *o, uint32_t *index)
{
  *index = (uint32_t) PyList_GET_SIZE (w->consts);
  return PyList_Append (w->consts, o) == 0;
}

/* Returns the index in the recorder's stack of the item at depth d of the interpreter's stack:
 * where the NULL of a call lies above its callable, the recorder has the two in the other order. */
static uint32_t
entry_at (uint64_t nulls, uint32_t d)
{
  if (NULL_IS_ABOVE && gm_point_bit (nulls, d))
    return d + 1;
  if (NULL_IS_ABOVE && d > 0 && gm_point_bit (nulls, d - 1))
    return d - 1;
  return d;
}

/* Appends instructions that push a variable and delete it, so that only the stack keeps the
 * object alive, as in the original. */
static void
put_move (Writer *w, uint32_t slot)
{
  put (w, LOAD_FAST, slot);
  put (w, DELETE_FAST, slot);
}

/* Appends instructions that push the stack of the point, from the variables that hold its items. */
static void
put_stack (Writer *w)
{
  for (uint32_t d = 0; d < w->point->at.depth; d++) {
    uint32_t k = entry_at (w->point->at.nulls, d);
    if (gm_point_bit (w->point->at.nulls, k)) {
      put (w, PUSH_NULL, 0);
      continue;
    }
#if PY_VERSION_HEX >= 0x030c0000
    if (gm_point_bit (w->point->at.unbound, k)) {
      /* The recorder distinguishes it from the NULL of a call. */
      put (w, LOAD_FAST_AND_CLEAR, w->place[k]);
      continue;
    }
#endif
    put_move (w, w->place[k]);
  }
}

/* Appends instructions for the cells that an inlined comprehension keeps on the stack: their slots,
 * which have the cells so far, get the comprehension's variables, or no value. */
static void
put_away (Writer *w)
{
  const GmRecordStart *p = &w->point->at;
  for (uint32_t s = 0, cell = 0; p->away && s < w->code->n_slots; s++) {
    if (!gm_is_cell_slot (&w->code->slots[s]) || !gm_point_bit (p->away, cell++))
      continue;
    bool bound = false;
    for (uint32_t i = 0; i < p->n_locals; i++)
      if (p->locals[i] == s) {
        put_move (w, i);
        bound = true;
      }
    put (w, bound ? STORE_FAST : DELETE_FAST, w->slot[s]);
  }
}

static void
put_call_of (Writer *w, uint32_t n_args)
{
#if PY_VERSION_HEX < 0x030c0000
  put (w, PRECALL, n_args);
#endif
  put (w, CALL, n_args);
}

/* Appends a call, without arguments, of the callable in variable `slot`: the continuation of the
 * frame inside of this frame. */
static void
put_call (Writer *w, uint32_t slot)
{
  if (!NULL_IS_ABOVE)
    put (w, PUSH_NULL, 0);
  put_move (w, slot);
  if (NULL_IS_ABOVE)
    put (w, PUSH_NULL, 0);
  w->copy_first = w->out->len;
  put_call_of (w, 0);
  w->copy_end = w->out->len;
}

/* True if `next` completes the instruction that `raw` begins: the decoder makes one instruction of
 * them. */
static bool
leads (const GmRaw *raw, const GmRaw *next)
{
  const GmOpcode *a = &gm_opcodes[raw->opcode], *b = &gm_opcodes[next->opcode];
  switch (b->how) {
  case GM_HOW_CALL:
    return a->how == GM_HOW_DROP || a->how == GM_HOW_KWNAMES; /* PRECALL */
  case GM_HOW_DROP:
    return a->how == GM_HOW_KWNAMES;
  case GM_HOW_CALL_KW:
    return a->op == GM_INSN_LOAD_CONST;
  case GM_HOW_FUNCTION_FLAG:
    return a->how == GM_HOW_FUNCTION || a->how == GM_HOW_FUNCTION_FLAG;
  case GM_HOW_FORMAT_0:
    return a->op == GM_INSN_FORMAT_VALUE && a->how == GM_HOW_ALIAS;
  default:
    return false;
  }
}

/* Sets *first and *last to the original's instructions of the step that begins with decoded
 * instruction `insn`. */
static void
step_range (const Writer *w, uint32_t insn, uint32_t *first, uint32_t *last)
{
  const GmOriginal *o = w->o;
  *first = gm_original_at (o, w->code->insns[insn].step);
  *last = gm_original_at (o, w->code->insns[gm_resume_step_end (w->code, insn)].step);
  while (
      *first > 0
      && leads (&g_array_index (o->raw, GmRaw, *first - 1), &g_array_index (o->raw, GmRaw, *first)))
    --*first;
}

/* Appends a copy of the step of the point.  Returns the index in `out` of its jump, or -1 if it
 * has none; -2 with an exception. */
static int
put_step (Writer *w)
{
  uint32_t first, last;
  int jump = -1;
  step_range (w, w->point->at.insn, &first, &last);
  w->copy_first = w->out->len;
  for (uint32_t k = first; k <= last; k++) {
    GmRaw raw = g_array_index (w->o->raw, GmRaw, k);
    const GmOpcode *row = &gm_opcodes[raw.opcode];
    bool old = row->op == GM_INSN_LOAD_METHOD;
    if (old || ((row->how == GM_HOW_ATTR || row->how == GM_HOW_SUPER) && (raw.arg & 1))) {
      if (old) /* only the run time decides if it pushes NULL, so use the form that is certain */
        raw.opcode = LOAD_ATTR;
      else
        raw.arg &= ~1u;
      g_array_append_val (w->out, raw);
      put (w, PUSH_NULL, 0);
      if (!NULL_IS_ABOVE)
        put (w, SWAP, 2);
      continue;
    }
    if (names_slot (raw.opcode))
      raw.arg = w->slot[raw.arg];
    if (!w->whole && names_const (raw.opcode)
        && !put_in_consts (w, PyTuple_GET_ITEM (w->o->co->co_consts, raw.arg), &raw.arg))
      return -2;
    if (raw.target >= 0) {
      jump = (int) w->out->len;
      raw.opcode = forward (raw.opcode);
    }
    g_array_append_val (w->out, raw);
  }
  w->copy_end = w->out->len;
  return jump;
}

/* Returns the entry of the original's exception table that covers a code unit, borrowed, or
 * NULL. */
static const GmRange *
range_of_unit (const Writer *w, uint32_t unit)
{
  uint32_t lo = 0, hi = w->o->ranges->len;
  while (lo < hi) { /* the entries ascend */
    uint32_t mid = (lo + hi) / 2;
    if (g_array_index (w->o->ranges, GmRange, mid).end <= unit)
      lo = mid + 1;
    else
      hi = mid;
  }
  const GmRange *r = lo < w->o->ranges->len ? &g_array_index (w->o->ranges, GmRange, lo) : NULL;
  return r && r->start <= unit ? r : NULL;
}

/* Returns the entry of the exception table that covers the step of the point, borrowed, or NULL. */
static const GmRange *
range_of_step (const Writer *w)
{
  return range_of_unit (w, w->code->insns[w->point->at.insn].step / 2);
}

static bool
put_const (Writer *w, PyObject *o)
{
  uint32_t at = put (w, LOAD_CONST, 0);
  return put_in_consts (w, o, &g_array_index (w->out, GmRaw, at).arg);
}

/* Appends instructions that push f as the callable of a call, with its NULL; f is a function of
 * the package.  False with an exception. */
static bool
put_callable (Writer *w, PyObject *f)
{
  if (!NULL_IS_ABOVE)
    put (w, PUSH_NULL, 0);
  bool ok = put_const (w, f);
  if (NULL_IS_ABOVE)
    put (w, PUSH_NULL, 0);
  return ok;
}

/* Appends a call that makes the frame object of the function's previous part (the last argument)
 * the frame object of this frame.  False with an exception. */
static bool
put_adopt (Writer *w)
{
  bool ok = put_callable (w, gm_kept_frame_adopt);
  put_move (w, w->place[w->n_places]);
  put_call_of (w, 1);
  put (w, POP_TOP, 0);
  return ok;
}

/* Appends instructions that push the first two items of the returned tuple: marker k, and the
 * frame object if it is kept, else None.  False with an exception. */
static bool
put_marker (Writer *w, int k)
{
  bool ok = put_const (w, gm_resume_marker[k]) && put_callable (w, gm_kept_frame_ask);
  put_call_of (w, 0);
  return ok;
}

/* Appends instructions that return the marker k, the frame, and the arguments of the point
 * next[k].  False with an exception. */
static bool
put_return (Writer *w, int k)
{
  const GmRecordStart *next = &w->point->next[k]->at;
  for (uint32_t d = next->depth; d-- > 0;)
    put (w, STORE_FAST, w->place[entry_at (next->nulls, d)]);
  if (!put_marker (w, k))
    return false;
  uint32_t n = 2;
  for (uint32_t i = 0; i < next->n_locals; i++, n++)
    put (w, LOAD_FAST, w->slot[next->locals[i]]);
  for (uint32_t d = 0; d < next->depth; d++)
    if (!gm_point_bit (next->nulls | next->unbound, d)) {
      put_move (w, w->place[d]);
      n++;
    }
  put (w, BUILD_TUPLE, n);
  put (w, RETURN_VALUE, 0);
  return true;
}

/* Return the number of the original's instructions that are copied, and the index of the i-th
 * copied instruction. */
static uint32_t
n_copied (const Writer *w)
{
  return w->kept ? w->kept->len : w->o->raw->len - w->low;
}

static uint32_t
copied (const Writer *w, uint32_t i)
{
  return w->kept ? g_array_index (w->kept, uint32_t, i) : w->low + i;
}

/* Returns the index in `out` of instruction k of the original, or, if that is not copied, of the
 * next copied instruction. */
static uint32_t
place_of (const Writer *w, uint32_t k)
{
  if (!w->kept)
    return w->first + MAX (k, w->low) - w->low;
  uint32_t lo = 0, hi = w->kept->len;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (g_array_index (w->kept, uint32_t, mid) < k)
      lo = mid + 1;
    else
      hi = mid;
  }
  return w->first + lo;
}

/* Appends a copy of the original's instructions that the new code needs.  False with an
 * exception. */
static bool
put_original (Writer *w)
{
  bool prologue = !w->kept, ok = true;
  w->first = w->out->len;
  for (uint32_t k = 0; k < w->low && prologue; k++)
    prologue = g_array_index (w->o->raw, GmRaw, k).opcode != RESUME;
  for (uint32_t i = 0; i < n_copied (w) && ok; i++) {
    GmRaw raw = g_array_index (w->o->raw, GmRaw, copied (w, i));
    prologue &= raw.opcode != RESUME;
    if (prologue && (raw.opcode == MAKE_CELL || raw.opcode == COPY_FREE_VARS)) {
      raw.opcode = NOP;
      raw.arg = 0;
    }
    if (names_slot (raw.opcode))
      raw.arg = w->slot[raw.arg];
    if (raw.target >= 0)
      raw.target = (int32_t) place_of (w, (uint32_t) raw.target);
    if (w->kept && names_const (raw.opcode))
      ok = put_in_consts (w, PyTuple_GET_ITEM (w->o->co->co_consts, raw.arg), &raw.arg);
    g_array_append_val (w->out, raw);
  }
  return ok;
}

#if PY_VERSION_HEX >= 0x030c0000
#define LOAD_IF_BOUND LOAD_FAST_CHECK
#else
#define LOAD_IF_BOUND LOAD_FAST
#endif

/* Appends the end of a stretch at the exit of this number: a return of marker 2, the frame, the
 * number, the variables and the stack.  False with an exception. */
static bool
put_exit (Writer *w, uint32_t number)
{
  const GmSpanExit *e = &g_array_index (w->point->exits, GmSpanExit, number);
  uint32_t first, last, depth = 3, caught = w->catches->len;
  step_range (w, e->insn, &first, &last);
  GmRaw *raw = &g_array_index (w->out, GmRaw, place_of (w, first));
  *raw = (GmRaw){
    .opcode = JUMP_FORWARD, .target = (int32_t) w->out->len, .place = raw->place, .step = raw->step
  };
  for (uint32_t d = e->stack.depth; d-- > 0;)
    put (w, STORE_FAST, w->place[entry_at (e->stack.nulls, d)]);
  PyObject *index = PyLong_FromUnsignedLong (number);
  bool ok = index && put_marker (w, 2) && put_const (w, index);
  Py_XDECREF (index);
  for (uint32_t i = 0; i < w->point->n_slots; i++, depth++) {
    Catch catch = { .at = put (w, LOAD_IF_BOUND, w->slot[w->point->slots[i]]), .depth = depth };
    g_array_append_val (w->catches, catch);
  }
  for (uint32_t d = 0; d < e->stack.depth; d++)
    if (!gm_point_bit (e->stack.nulls | e->stack.unbound, d)) {
      put_move (w, w->place[d]);
      depth++;
    }
  put (w, BUILD_TUPLE, depth);
  put (w, RETURN_VALUE, 0);
  for (; caught < w->catches->len && ok; caught++) {
    Catch *catch = &g_array_index (w->catches, Catch, caught);
    catch->target = put (w, POP_TOP, 0);
    ok = put_const (w, gm_resume_unbound);
    uint32_t jump = put (w, JUMP_BACKWARD, 0);
    g_array_index (w->out, GmRaw, jump).target = (int32_t) catch->at + 1;
  }
  return ok;
}

/* -- Tables ------------------------------------------------------------------------------------ */

/* Appends to the exception table an entry with these bounds and target, and with the depth and
 * lasti of `r`. */
static void
put_range (GByteArray *b, uint32_t start, uint32_t end, uint32_t target, const GmRange *r)
{
  gm_handler_table_put (b, &(GmRange){ start, end, target, r->depth, r->lasti });
}

static uint32_t
new_unit (const Writer *w, uint32_t original_unit)
{
  uint32_t k = place_of (w, gm_original_at (w->o, 2 * original_unit));
  if (k < w->out->len)
    return g_array_index (w->out, GmRaw, k).start;
  const GmRaw *last = &g_array_index (w->out, GmRaw, w->out->len - 1);
  return last->start + last->units;
}

/* Appends to the exception table the entries of the original that cover parts of the stretch,
 * limited to these parts. */
static void
put_kept_ranges (Writer *w, GByteArray *b)
{
  const GmRaw *out = (GmRaw *) (void *) w->out->data;
  for (uint32_t i = 0, end; i < w->kept->len; i = end) {
    const GmRange *r = range_of_unit (w, g_array_index (w->o->raw, GmRaw, copied (w, i)).step / 2);
    end = i + 1;
    while (end < w->kept->len
           && r == range_of_unit (w, g_array_index (w->o->raw, GmRaw, copied (w, end)).step / 2))
      end++;
    if (r)
      put_range (b, out[w->first + i].start, out[w->first + end].start, new_unit (w, r->target), r);
  }
}

static PyObject *
handlers_of (Writer *w)
{
  g_autoptr (GByteArray) b = g_byte_array_new ();
  const GmRange *over = w->copy_end > w->copy_first ? range_of_step (w) : NULL;
  if (over) {
    uint32_t start = g_array_index (w->out, GmRaw, w->copy_first).start;
    uint32_t end = g_array_index (w->out, GmRaw, w->copy_end).start;
    put_range (b, start, end, new_unit (w, over->target), over);
  }
  for (uint32_t i = 0; i < w->o->ranges->len && w->whole; i++) {
    const GmRange *r = &g_array_index (w->o->ranges, GmRange, i);
    put_range (b, new_unit (w, r->start), new_unit (w, r->end), new_unit (w, r->target), r);
  }
  if (w->kept)
    put_kept_ranges (w, b);
  const GmRaw *out = (GmRaw *) (void *) w->out->data;
  for (uint32_t i = 0; i < w->catches->len; i++) {
    const Catch *c = &g_array_index (w->catches, Catch, i);
    put_range (b, out[c->at].start, out[c->at + 1].start, out[c->target].start,
               &(GmRange){ .depth = c->depth });
  }
  return PyBytes_FromStringAndSize ((char *) b->data, b->len);
}

/* -- Variables --------------------------------------------------------------------------------- */

/* Appends the name of the variable that holds place k of the stack; the user's code has no such
 * name.  The variable has no value while that code runs.  Returns true on failure, with an
 * exception. */
static bool
append_place (PyObject *names, uint32_t k)
{
  PyObject *name = PyUnicode_FromFormat ("<stack %u>", k);
  bool failed = !name || PyList_Append (names, name) < 0;
  Py_XDECREF (name);
  return failed;
}

/* Gives the original's variable `slot` the next free number, unless it is a cell or has a
 * number.  False with an exception. */
static bool
number_variable (Writer *w, PyObject *vars, uint32_t slot, uint32_t *next)
{
  const GmSlot *s = &w->code->slots[slot];
  if (gm_is_cell_slot (s) || w->slot[slot] != UINT32_MAX)
    return true;
  w->slot[slot] = (*next)++;
  return PyList_Append (vars, s->name) == 0;
}

/* Gives numbers to the variables that are no arguments: all of the original's, or those that the
 * copied instructions name.  False with an exception. */
static bool
number_others (Writer *w, PyObject *vars, uint32_t *next)
{
  bool ok = true;
  for (uint32_t i = 0; i < w->code->n_slots && ok && w->whole; i++)
    ok = number_variable (w, vars, i, next);
  for (uint32_t i = 0; w->kept && i < w->kept->len && ok; i++) {
    const GmRaw *raw = &g_array_index (w->o->raw, GmRaw, copied (w, i));
    ok = !names_slot (raw->opcode) || number_variable (w, vars, raw->arg, next);
  }
  if (w->whole || gm_point_is_span (w->point) || w->point->kind == GM_POINT_CALL)
    return ok;
  uint32_t first, last;
  step_range (w, w->point->at.insn, &first, &last);
  for (uint32_t k = first; k <= last && ok; k++) {
    const GmRaw *raw = &g_array_index (w->o->raw, GmRaw, k);
    ok = !names_slot (raw->opcode) || number_variable (w, vars, raw->arg, next);
  }
  return ok;
}

/* Numbers all variables of the new code: fills w->slot and w->place, and sets *varnames and
 * *freenames to new tuples, or to NULL with an exception. */
static void
number (Writer *w, PyObject **varnames, PyObject **freenames)
{
  const GmCode *code = w->code;
  const GmRecordStart *p = &w->point->at;
  PyObject *vars = PyList_New (0), *frees = PyList_New (0);
  uint32_t next = 0, n_places = p->depth;
  int failed = !vars || !frees;
  for (int k = 0; k < 2; k++)
    /* A stretch ends with a stack no deeper than it began with. */
    n_places = w->point->next[k] ? MAX (n_places, w->point->next[k]->at.depth) : n_places;
  memset (w->slot, 0xff, code->n_slots * sizeof (uint32_t));
  for (uint32_t i = 0; i < p->n_locals && !failed; i++, next++) {
    const GmSlot *s = &code->slots[p->locals[i]];
    if (!gm_is_cell_slot (s))
      w->slot[p->locals[i]] = next;
    failed |= gm_is_cell_slot (s) ? append_place (vars, n_places + 1 + i)
                                  : PyList_Append (vars, s->name) < 0;
  }
  w->place = g_new (uint32_t, n_places + 1);
  for (int pass = 0; pass < 2; pass++) { /* arguments, then the others */
    for (uint32_t k = 0; k < n_places && !failed; k++) {
      bool argument = k < p->depth && !gm_point_bit (p->nulls | p->unbound, k);
      if (argument != (pass == 0))
        continue;
      w->place[k] = next++;
      failed |= append_place (vars, k);
    }
    bool one_more = w->point->kind == GM_POINT_CALL || w->point->kind == GM_POINT_KEPT;
    if (pass == 0 && one_more && !failed) {
      w->place[n_places] = next++;
      failed |= append_place (vars, n_places);
    }
  }
  w->n_places = n_places;
  failed = failed || !number_others (w, vars, &next);
  w->n_locals = next;
  for (uint32_t i = 0; i < code->n_slots && !failed; i++)
    if (gm_is_cell_slot (&code->slots[i])) {
      w->slot[i] = next++;
      failed |= PyList_Append (frees, code->slots[i].name) < 0;
    }
  *varnames = failed ? NULL : PyList_AsTuple (vars);
  *freenames = failed ? NULL : PyList_AsTuple (frees);
  Py_XDECREF (vars);
  Py_XDECREF (frees);
}

/* -- A code object ----------------------------------------------------------------------------- */

/* Appends, if `jump` is FOR_ITER, the instructions at the end of the loop that its jump skips. */
static void
put_end_for (Writer *w, uint8_t jump)
{
#if PY_VERSION_HEX >= 0x030c0000
  if (jump == FOR_ITER)
    put (w, END_FOR, 0);
#endif
#if PY_VERSION_HEX >= 0x030d0000
  if (jump == FOR_ITER)
    put (w, POP_TOP, 0);
#endif
}

static int
compare_numbers (gconstpointer a, gconstpointer b)
{
  uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
  return (x > y) - (x < y);
}

/* True for an instruction that follows the end of a loop and that the decoder drops. */
static bool
is_skipped (const Writer *w, uint32_t k)
{
#if PY_VERSION_HEX >= 0x030c0000
  uint8_t opcode = g_array_index (w->o->raw, GmRaw, k).opcode;
  return opcode == END_FOR
         || (k > 0 && opcode == POP_TOP && PY_VERSION_HEX >= 0x030d0000
             && g_array_index (w->o->raw, GmRaw, k - 1).opcode == END_FOR);
#else
  return false;
#endif
}

/* Sets w->kept to the original's instructions, with their EXTENDED_ARGs, from which the
 * instructions of the stretch and the first instructions of its exits were decoded. */
static void
find_stretch (Writer *w)
{
  const GmOriginal *o = w->o;
  w->kept = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  for (uint32_t pass = 0; pass < 2; pass++) {
    const GArray *from = pass ? w->point->exits : w->point->insns;
    for (uint32_t i = 0; i < from->len; i++) {
      uint32_t insn =
          pass ? g_array_index (from, GmSpanExit, i).insn : g_array_index (from, uint32_t, i);
      uint32_t last = gm_original_at (o, w->code->insns[insn].step), first = last;
      while (first > 0
             && leads (&g_array_index (o->raw, GmRaw, first - 1),
                       &g_array_index (o->raw, GmRaw, first)))
        first--;
      while (first > 0 && is_skipped (w, first - 1))
        first--;
      for (uint32_t k = first; k <= last; k++)
        g_array_append_val (w->kept, k);
    }
  }
  g_array_sort (w->kept, compare_numbers);
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->kept->len; i++)
    if (n == 0 || g_array_index (w->kept, uint32_t, n - 1) != g_array_index (w->kept, uint32_t, i))
      g_array_index (w->kept, uint32_t, n++) = g_array_index (w->kept, uint32_t, i);
  g_array_set_size (w->kept, n);
}

/* Decides what is copied from the original: sets w->kept for a stretch, else w->low to the
 * beginning of the suffix that contains all that the point itself, or a handler of its step, can
 * reach. */
static void
find_suffix (Writer *w)
{
  if (w->point->exits) {
    find_stretch (w);
    w->low = w->o->raw->len;
  } else if (gm_point_is_rest (w->point)) {
    uint32_t first, last;
    step_range (w, w->point->at.insn, &first, &last);
    /* All of it is needed for the places of tracebacks. */
    w->low = w->point->kind == GM_POINT_KEPT ? 0 : w->o->low[first];
  } else {
    const GmRange *over = range_of_step (w);
    w->low = w->o->low[over ? gm_original_at (w->o, 2 * over->target) : w->o->raw->len];
  }
  w->whole = w->low < w->o->raw->len;
}

/* Appends the prefix: all instructions before the copy of the original.  False with an
 * exception. */
static bool
put_prefix (Writer *w, uint32_t n_free)
{
  const GmResumePoint *p = w->point;
  w->here = g_array_index (w->o->raw, GmRaw, gm_original_at (w->o, w->code->insns[p->at.insn].step))
                .place;
  if (n_free)
    put (w, COPY_FREE_VARS, n_free);
  put (w, RESUME, GM_RESUME_QUIETLY);
  if (p->kind == GM_POINT_KEPT && !put_adopt (w))
    return false;
  put_away (w);
  put_stack (w);
  if (gm_point_is_rest (p) || gm_point_is_span (p)) {
    uint32_t first, last, jump = put (w, JUMP_FORWARD, 0);
    step_range (w, p->at.insn, &first, &last);
    w->first = w->out->len;
    g_array_index (w->out, GmRaw, jump).target = (int32_t) place_of (w, first);
    return true;
  }
  int jump = -1;
  if (p->kind == GM_POINT_CALL)
    put_call (w, w->place[w->n_places]);
  else
    jump = put_step (w);
  if (jump < -1 || (p->next[0] && !put_return (w, 0)))
    return false;
  if (!p->next[0]) /* the step never falls through, but an instruction must follow it */
    put (w, NOP, 0);
  if (jump < 0)
    return true;
  g_array_index (w->out, GmRaw, (uint32_t) jump).target = (int32_t) w->out->len;
  put_end_for (w, g_array_index (w->out, GmRaw, (uint32_t) jump).opcode);
  return put_return (w, 1);
}

/* True if the variables that the point has begin with the original's arguments, all bound and
 * none a cell. */
static bool
has_arguments (const Writer *w)
{
  const GmRecordStart *at = &w->point->at;
  bool all = at->n_locals >= w->code->n_args;
  for (uint32_t i = 0; i < w->code->n_args && all; i++)
    all = at->locals[i] == i && !gm_is_cell_slot (&w->code->slots[i]);
  return all;
}

/* Makes the code object from w, a new reference, and sets *shown to a copy with the argument
 * counts of the original, which frames show, or to NULL.  NULL with an exception. */
static PyCodeObject *
new_code (Writer *w, PyObject *varnames, PyObject *freenames, PyCodeObject **shown)
{
  PyCodeObject *co = w->o->co, *made = NULL;
  PyObject *none = PyTuple_New (0), *consts = PyList_AsTuple (w->consts);
  gm_raw_lay_out (w->out);
  PyObject *bytes = gm_raw_bytes (w->out), *lines = gm_raw_lines (w->out, co->co_firstlineno),
           *handlers = handlers_of (w);
  uint32_t n_free = (uint32_t) PyTuple_GET_SIZE (freenames);
  int flags = co->co_flags & ~(CO_VARARGS | CO_VARKEYWORDS | CO_NESTED);
  flags |= CO_OPTIMIZED | CO_NEWLOCALS | (n_free ? CO_NESTED : 0);
  int stack =
      MAX ((int) w->point->at.depth + co->co_stacksize + 3, (int) (w->n_places + w->n_locals) + 6);
  /* Its frame object may become that of a KEPT, which has more variables: see kept_frame.h. */
  if (!gm_point_is_rest (w->point))
    stack = MAX (stack, (int) (2 * w->code->n_slots + w->n_places) + 2);
  if (none && consts && bytes && lines && handlers)
    made =
        GM_CODE_NEW ((int) w->point->n_args, 0, 0, (int) PyTuple_GET_SIZE (varnames), stack, flags,
                     bytes, none, co->co_names, varnames, freenames, none, co->co_filename,
                     co->co_name, co->co_qualname, co->co_firstlineno, lines, handlers);
  if (made && has_arguments (w))
    *shown = GM_CODE_NEW (co->co_argcount, co->co_posonlyargcount, co->co_kwonlyargcount,
                          (int) PyTuple_GET_SIZE (varnames), stack,
                          flags | (co->co_flags & (CO_VARARGS | CO_VARKEYWORDS)), bytes, none,
                          co->co_names, varnames, freenames, none, co->co_filename, co->co_name,
                          co->co_qualname, co->co_firstlineno, lines, handlers);
  gm_assemble_consts (*shown, consts);
  gm_assemble_consts (made, consts);
  Py_XDECREF (none);
  Py_XDECREF (consts);
  Py_XDECREF (bytes);
  Py_XDECREF (lines);
  Py_XDECREF (handlers);
  return made;
}

PyCodeObject *
gm_resume_code (GmResumePoint *point)
{
  if (point->code)
    return point->code;
  const GmOriginal *o = point->original;
  Writer w = { .code = o->code,
               .o = o,
               .point = point,
               .out = g_array_new (FALSE, FALSE, sizeof (GmRaw)),
               .catches = g_array_new (FALSE, FALSE, sizeof (Catch)) };
  PyObject *varnames = NULL, *freenames = NULL;
  PyCodeObject *shown = NULL;
  find_suffix (&w);
  w.consts = w.whole ? PySequence_List (o->co->co_consts) : PyList_New (0);
  w.slot = g_new (uint32_t, o->code->n_slots + 1);
  if (w.consts)
    number (&w, &varnames, &freenames);
  if (varnames && freenames && put_prefix (&w, (uint32_t) PyTuple_GET_SIZE (freenames))) {
    bool ok = put_original (&w);
    for (uint32_t i = 0; point->exits && i < point->exits->len && ok; i++)
      ok = put_exit (&w, i);
    point->code = ok ? new_code (&w, varnames, freenames, &shown) : NULL;
  }
  if (point->code)
    gm_hook_skip (point->code, shown);
  Py_XDECREF (shown);
  Py_XDECREF (varnames);
  Py_XDECREF (freenames);
  Py_XDECREF (w.consts);
  g_array_unref (w.out);
  g_array_unref (w.catches);
  g_clear_pointer (&w.kept, g_array_unref);
  g_free (w.slot);
  g_free (w.place);
  return point->code;
}
