/* SPDX-License-Identifier: Apache-2.0
 * resume_point.c -- the points at which a code object is resumed, and the points that they lead to.
 *
 * A point's key is in terms of the original code, from which the rest of a function is recorded,
 * too: so all paths to one place share one point, and the time that a break takes does not depend
 * on how much comes after it.  Invariant: a point that continues has, when it is made, the points
 * at which it continues.
 */
#include "core/objects/cpython.h"

#include "core/capture/code_cache.h"
#include "core/capture/resume_code.h"
#include "core/capture/resume_original.h"
#include "core/trace/python_span.h"

#include <string.h>

PyObject *gm_resume_marker[3], *gm_resume_unbound;

/* -- Points ------------------------------------------------------------------------------------ */

static guint
point_hash (gconstpointer p)
{
  const GmResumePoint *point = p;
  const GmRecordStart *a = &point->at;
  uint64_t bits = a->nulls ^ a->unbound << 1 ^ a->away << 2;
  guint h =
      point->kind + 7 * a->insn + 131 * a->depth + 31 * (guint) bits + 17 * (guint) (bits >> 32);
  for (uint32_t i = 0; i < a->n_locals; i++)
    h = h * 33 + a->locals[i];
  return h;
}

static gboolean
point_equal (gconstpointer p, gconstpointer q)
{
  const GmRecordStart *a = &((const GmResumePoint *) p)->at, *b = &((const GmResumePoint *) q)->at;
  return ((const GmResumePoint *) p)->kind == ((const GmResumePoint *) q)->kind
         && a->insn == b->insn && a->depth == b->depth && a->nulls == b->nulls
         && a->unbound == b->unbound && a->away == b->away && a->n_locals == b->n_locals
         && (a->n_locals == 0
             || memcmp (a->locals, b->locals, a->n_locals * sizeof (uint32_t)) == 0);
}

GmResumePoint *
gm_resume_point_ref (GmResumePoint *point)
{
  g_atomic_ref_count_inc (&point->refs);
  return point;
}

void
gm_resume_point_unref (GmResumePoint *point)
{
  if (!point || !g_atomic_ref_count_dec (&point->refs))
    return;
  for (int k = 0; k < 2; k++)
    gm_resume_point_unref (point->next[k]);
  g_clear_pointer (&point->exits, g_array_unref);
  g_clear_pointer (&point->insns, g_array_unref);
  g_clear_pointer (&point->rests, g_ptr_array_unref);
  g_free (point->slots);
  Py_XDECREF (point->code);
  gm_code_cache_free (point->cache);
  gm_original_unref (point->original);
  g_free ((void *) point->at.locals);
  g_free (point);
}

GPtrArray *
gm_resume_table_caches (GHashTable *table)
{
  GPtrArray *caches = g_ptr_array_new ();
  GHashTableIter iter;
  void *value;
  g_hash_table_iter_init (&iter, table);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (((const GmResumePoint *) value)->cache)
      g_ptr_array_add (caches, ((const GmResumePoint *) value)->cache);
  return caches;
}

void
gm_resume_table_free (GHashTable *table)
{
  if (!table)
    return;
  g_autoptr (GPtrArray) caches = gm_resume_table_caches (table);
  for (uint32_t i = 0; i < caches->len; i++)
    /* The cache's entries may hold the point that holds the cache. */
    gm_code_cache_reset (caches->pdata[i]);
  g_hash_table_unref (table);
}

static GmResumePoint *point_get (GmOriginal *o, GmPointKind kind, const GmRecordStart *key,
                                 const char **why);

/* Returns the instruction that execution reaches from `insn` through unconditional jumps, so
 * that all paths to it share the point. */
static uint32_t
hop (const GmCode *code, uint32_t insn)
{
  for (uint32_t hops = 0; code->insns[insn].op == GM_INSN_JUMP && hops < 8; hops++)
    insn = code->insns[insn].target;
  return insn;
}

/* Updates `bound`, a byte for each slot that says if the variable has a value, for the execution
 * of instruction i.  stack: the stack before it. */
static void
note_bound (const GmInsn *i, GmStackShape stack, uint8_t *bound)
{
  /* A variable that was unbound before a comprehension. */
  bool restores = stack.depth > 0 && gm_point_bit (stack.unbound, stack.depth - 1);
  if (i->op == GM_INSN_STORE_FAST)
    bound[i->arg] = !restores;
  else if (i->op == GM_INSN_DELETE_FAST || i->op == GM_INSN_LOAD_FAST_AND_CLEAR)
    bound[i->arg] = false;
}

static GmResumePoint *
next_point (GmOriginal *o, const GmRecordStart *p, uint32_t insn, GmStackShape stack,
            const uint8_t *bound, const char **why)
{
  const GmCode *code = o->code;
  g_autofree uint32_t *locals = g_new (uint32_t, code->n_slots + 1);
  GmRecordStart key = { .insn = insn,
                        .depth = stack.depth,
                        .nulls = stack.nulls,
                        .unbound = stack.unbound,
                        .away = p->away,
                        .locals = locals };
  if (stack.depth > 63 || insn >= code->n_insns) {
    *why = "the stack is too deep";
    return NULL;
  }
  key.insn = hop (code, insn);
  /* Also variables that are not read any more, since they keep their objects alive. */
  for (uint32_t s = 0; s < code->n_slots; s++)
    if (bound[s])
      locals[key.n_locals++] = s;
  return point_get (o, GM_POINT_REST, &key, why);
}

uint32_t
gm_resume_step_end (const GmCode *code, uint32_t insn)
{
  const GmInsn *insns = code->insns;
  uint32_t k = insn;
  while (k + 1 < code->n_insns && insns[k + 1].step == insns[k].step)
    k++;
  bool jumps = insns[k].op == GM_INSN_TO_BOOL && k + 1 < code->n_insns
               && (insns[k + 1].op == GM_INSN_POP_JUMP_IF_FALSE
                   || insns[k + 1].op == GM_INSN_POP_JUMP_IF_TRUE);
  return jumps ? k + 1 : k;
}

/* Sets p->next: makes the points at which a step or a call continues.  False with *why, or with
 * an exception and *why NULL. */
static bool
make_next (GmResumePoint *p, const char **why)
{
  GmOriginal *o = p->original;
  const GmInsn *insns = o->code->insns;
  const GmRecordStart *at = &p->at;
  GmStackShape stack = { at->depth, at->nulls, at->unbound };
  g_autofree uint8_t *bound = g_new0 (uint8_t, o->code->n_slots + 1);
  uint32_t k = at->insn;
  for (uint32_t i = 0; i < at->n_locals; i++)
    bound[at->locals[i]] = true;
  if (p->kind == GM_POINT_CALL) {
    stack.depth++;
    p->next[0] = next_point (o, at, k + 1, stack, bound, why);
    return p->next[0] != NULL;
  }
  for (uint32_t end = gm_resume_step_end (o->code, k); k < end; k++) {
    note_bound (&insns[k], stack, bound);
    stack = gm_stack_after (at, &insns[k], stack, false);
  }
  const GmInsn *i = &insns[k];
  note_bound (i, stack, bound);
  if (i->op == GM_INSN_RETURN_VALUE || i->op == GM_INSN_RAISE_VARARGS || i->op == GM_INSN_RERAISE)
    return true;
  p->next[0] = next_point (o, at, k + 1, gm_stack_after (at, i, stack, false), bound, why);
  if (!p->next[0])
    return false;
  if (gm_insns[i->op].operand != GM_OPERAND_JUMP)
    return true;
  p->next[1] = next_point (o, at, i->target, gm_stack_after (at, i, stack, true), bound, why);
  return p->next[1] != NULL;
}

/* -- Stretches --------------------------------------------------------------------------------- */

static int
compare_numbers (gconstpointer a, gconstpointer b)
{
  uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
  return (x > y) - (x < y);
}

static void
note_store (const GmCode *code, uint32_t k, uint8_t *own)
{
  if (code->insns[k].op == GM_INSN_STORE_FAST)
    own[code->insns[k].arg] = true;
}

/* Sets p->slots to the plain variables that an exit has to hand on: those of the point, and
 * those that are written on the way. */
static void
find_slots (GmResumePoint *p)
{
  const GmCode *code = p->original->code;
  g_autofree uint8_t *own = g_new0 (uint8_t, code->n_slots + 1);
  g_array_sort (p->insns, compare_numbers);
  p->rests = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_resume_point_unref);
  for (uint32_t i = 0; i < p->at.n_locals; i++)
    own[p->at.locals[i]] = true;
  for (uint32_t i = 0; i < p->insns->len; i++)
    note_store (code, g_array_index (p->insns, uint32_t, i), own);
  for (uint32_t k = p->at.insn, end = gm_resume_step_end (code, k);
       k <= end && !gm_point_is_span (p); k++)
    note_store (code, k, own);
  p->slots = g_new (uint32_t, code->n_slots + 1);
  for (uint32_t s = 0; s < code->n_slots; s++)
    if (own[s] && !gm_is_cell_slot (&code->slots[s]))
      p->slots[p->n_slots++] = s;
}

static bool
make_span (GmResumePoint *p, const char **why)
{
  if (p->at.away) {
    *why = "it is in the middle of a comprehension";
    return false;
  }
  p->insns = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  p->exits = gm_python_span_exits (p->original->code, &p->at, p->kind == GM_POINT_LEAVE, p->insns);
  find_slots (p);
  return true;
}

/* Sets p->exits to the exits of the handler that covers a step or a call that raises; after
 * these exits the rest is recorded again. */
static void
make_handler (GmResumePoint *p)
{
  const GmCode *code = p->original->code;
  if (code->insns[p->at.insn].handler == 0 || p->at.away)
    return;
  p->insns = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  p->exits = gm_python_span_handler_exits (code, &p->at, p->insns);
  find_slots (p);
}

/* Returns a tuple of the items from `from` on that are values (not gm_resume_unbound), followed
 * by the frame if there is one; a new reference, NULL with an exception.  The items are moved, so
 * that the rest of the function drops them. */
static PyObject *
move_values (PyObject **items, uint32_t from, uint32_t n, PyObject *frame)
{
  uint32_t n_values = 0, at = 0;
  for (uint32_t i = from; i < n; i++)
    n_values += items[i] != gm_resume_unbound;
  PyObject *out = PyTuple_New (n_values + (frame != NULL));
  for (uint32_t i = from; out && i < n; i++)
    if (items[i] != gm_resume_unbound) {
      PyTuple_SET_ITEM (out, at++, items[i]);
      items[i] = Py_NewRef (Py_None);
    }
  if (out && frame)
    PyTuple_SET_ITEM (out, at, Py_NewRef (frame));
  return out;
}

/* Returns the point after the exit of a stretch that `items`, the tuple returned by the stretch,
 * names; a new reference, NULL with an exception. */
static GmResumePoint *
point_behind (GmResumePoint *p, PyObject **items, GmPointKind kind)
{
  const GmSpanExit *exit = &g_array_index (p->exits, GmSpanExit, PyLong_AsUnsignedLong (items[2]));
  g_autofree uint32_t *locals = g_new (uint32_t, p->n_slots + 1);
  GmRecordStart key = { .insn = hop (p->original->code, exit->insn),
                        .depth = exit->stack.depth,
                        .nulls = exit->stack.nulls,
                        .unbound = exit->stack.unbound,
                        .locals = locals };
  for (uint32_t i = 0; i < p->n_slots; i++)
    if (items[3 + i] != gm_resume_unbound)
      locals[key.n_locals++] = p->slots[i];
  const char *why = NULL;
  GmResumePoint *next = point_get (p->original, kind, &key, &why);
  if (next && kind == GM_POINT_REST && !g_ptr_array_find (p->rests, next, NULL))
    g_ptr_array_add (p->rests, gm_resume_point_ref (next));
  return next;
}

GmResumePoint *
gm_resume_point_after (GmResumePoint *p, int marker, PyObject *result, PyObject **args,
                       uint32_t *first)
{
  PyObject **items = &PyTuple_GET_ITEM (result, 0), *frame = items[1] == Py_None ? NULL : items[1];
  uint32_t n = (uint32_t) PyTuple_GET_SIZE (result);
  const char *why = NULL;
  GmResumePoint *next = NULL;
  *first = 0;
  if (marker == 2) {
    /* A handler may have run: the frame is in a tuple if tracebacks may refer to it. */
    PyObject *raised = frame ? PyTuple_Pack (1, frame) : NULL;
    next = point_behind (p, items, frame ? GM_POINT_KEPT : GM_POINT_REST);
    *args = next && (raised || !frame) ? move_values (items, 3, n, raised) : NULL;
    Py_XDECREF (raised);
  } else if (frame) {
    next = point_get (p->original, GM_POINT_KEPT, &p->next[marker]->at, &why);
    *args = next ? move_values (items, 2, n, frame) : NULL;
  } else {
    next = gm_resume_point_ref (p->next[marker]);
    *args = Py_NewRef (result);
    *first = 2;
  }
  if (next && *args)
    return next;
  gm_resume_point_unref (next);
  return NULL;
}

static GmResumePoint *
point_get (GmOriginal *o, GmPointKind kind, const GmRecordStart *key, const char **why)
{
  if (!o->points && o->cache)
    o->points = g_hash_table_new_full (point_hash, point_equal, NULL,
                                       (GDestroyNotify) gm_resume_point_unref);
  GmResumePoint *p =
      o->points ? g_hash_table_lookup (o->points, &(GmResumePoint){ .kind = kind, .at = *key })
                : NULL;
  if (p)
    return gm_resume_point_ref (p);
  p = g_new0 (GmResumePoint, 1);
  p->kind = kind;
  p->original = gm_original_ref (o);
  p->at = *key;
  p->at.locals = g_memdup2 (key->locals, key->n_locals * sizeof (uint32_t));
  g_atomic_ref_count_init (&p->refs);
  p->n_args = key->n_locals + (kind == GM_POINT_CALL || kind == GM_POINT_KEPT);
  for (uint32_t k = 0; k < key->depth; k++)
    p->n_args += !gm_point_bit (key->nulls | key->unbound, k);
  bool ok = true;
  if (kind == GM_POINT_REST)
    p->cache = gm_code_cache_new (p);
  else if (kind != GM_POINT_KEPT)
    ok = gm_point_is_span (p) ? make_span (p, why) : make_next (p, why);
  if (ok && (kind == GM_POINT_STEP || kind == GM_POINT_CALL))
    make_handler (p);
  ok = ok && (kind == GM_POINT_REST || gm_resume_code (p));
  if (!ok) {
    gm_resume_point_unref (p);
    return NULL;
  }
  if (o->points) /* the function exists */
    g_hash_table_insert (o->points, p, gm_resume_point_ref (p));
  return p;
}

/* True if super () may be called without arguments in code that has no positional parameter: it
 * reads the first argument of the code that runs, and a resume function always has one, which would
 * be wrong. */
static bool
may_ask_super_without_self (const GmCode *code)
{
  for (Py_ssize_t i = 0; code->n_pos == 0 && i < PyTuple_GET_SIZE (code->code->co_names); i++)
    if (PyUnicode_CompareWithASCIIString (PyTuple_GET_ITEM (code->code->co_names, i), "super") == 0)
      return true;
  return false;
}

GmResumePoint *
gm_resume_point_get (const GmBreakFrame *frame, GmPointKind kind, const char **why)
{
  *why = NULL;
  GmOriginal *o = gm_original_get (frame->code);
  if (!o)
    return NULL;
  const GmCode *code = o->code;
  *why = o->cache ? o->why : "the function that it belongs to is gone";
  if (may_ask_super_without_self (code))
    *why = "super() without a first argument";
  if (code->n_slots > 0 && (code->slots[0].kind & GM_SLOT_CELL))
    for (uint32_t i = 0; i < code->n_free; i++)
      if (PyUnicode_CompareWithASCIIString (code->slots[code->first_free + i].name, "__class__")
          == 0)
        *why = "super() needs a first argument that is no cell";
  if (*why)
    return NULL;
  GmRecordStart key = { .insn = frame->insn,
                        .depth = frame->depth,
                        .nulls = frame->nulls,
                        .unbound = frame->unbound,
                        .away = frame->away,
                        .n_locals = frame->n_locals,
                        .locals = frame->locals };
  return point_get (o, kind, &key, why);
}

int
gm_py_init_resume_point (void)
{
  for (int k = 0; k < 3; k++) {
    gm_resume_marker[k] = PyObject_CallNoArgs ((PyObject *) &PyBaseObject_Type);
    if (!gm_resume_marker[k])
      return -1;
  }
  gm_resume_unbound = PyObject_CallNoArgs ((PyObject *) &PyBaseObject_Type);
  return gm_resume_unbound ? 0 : -1;
}
