/* SPDX-License-Identifier: Apache-2.0
 * body.c -- functions that a higher-order operator runs.
 *
 * Such a function may run more or fewer times than in the program, or at another time: a
 * checkpointed one runs once more in the backward. So it may read anything, but must leave existing
 * objects as they were: the journal's tail lists the writes, and each object in it is compared with
 * its former contents. Setting a flag and setting it back is no effect.
 * Rejected: to refuse the store itself; then every context manager that keeps state would break.
 */
#include "core/models/body.h"

#include "core/guard/guard.h"
#include "core/trace/attrs.h"
#include "core/models/autograd_function.h"
#include "core/models/higher_order.h"
#include "core/objects/set_table.h"
#include "core/trace/instance.h"
#include "core/trace/set.h"

#include <string.h>
#include <structmember.h>

typedef struct {
  GmRecorder *r;
  uint32_t values, objects;
} NewTensor;

static bool
holds_new_tensor (const NewTensor *c, const GmTracker *t, int depth)
{
  GmRecorder *r = c->r;
  if (t == NULL || depth > 8)
    return t != NULL;
  if (t->kind == &gm_kind_tensor) {
    GmValueId v = (GmValueId) gm_contents_of (r, t)->number;
    return v >= c->values && gm_graph_value (r->graph, v)->node != GM_NO_ID;
  }
  for (uint32_t i = 0; i < t->n; i++)
    if (holds_new_tensor (c, t->items[i], depth + 1))
      return true;
  if (t->id == GM_NO_OBJECT || t->id < c->objects || t->source)
    return false;
  const GmTracker *contents = gm_heap_load (&r->heap, t->id, 0);
  return contents && contents != t && holds_new_tensor (c, contents, depth + 1);
}

bool
gm_body_holds_new_tensor (GmRecorder *r, const GmTracker *t, uint32_t values, uint32_t objects)
{
  return holds_new_tensor (&(NewTensor){ r, values, objects }, t, 0);
}

/* -- Changes ----------------------------------------------------------------------------------- */

/* True if a and b are the same value.  Realizes both if they are not the same tracker: a value
 * that existed before is then guarded to be what it is. */
static bool
same_value (GmRecorder *r, const GmTracker *a, const GmTracker *b)
{
  if (a == b)
    return true;
  if (!a || !b)
    return false;
  a = gm_realize (r, a);
  b = gm_realize (r, b);
  if (r->stop || a->kind != b->kind)
    return a == b && !r->stop;
  if (a->kind == &gm_kind_constant)
    return Py_TYPE (a->real) == Py_TYPE (b->real)
           && (a->real == b->real
               || (PyUnicode_CheckExact (a->real) && gm_str_equal (a->real, b->real))
               || (PyFloat_CheckExact (a->real)
                   && gm_float_bits (a->real) == gm_float_bits (b->real))
               || (PyLong_CheckExact (a->real)
                   && PyObject_RichCompareBool (a->real, b->real, Py_EQ) == 1));
  return a->id == b->id && a->id != GM_NO_OBJECT;
}

/* True if both are NULL or the same object, or are equal bytes, as the contents of a bytearray
 * are. */
static bool
same_real (PyObject *a, PyObject *b)
{
  return a == b
         || (a && b && PyBytes_CheckExact (a) && PyBytes_CheckExact (b)
             && PyObject_RichCompareBool (a, b, Py_EQ) == 1);
}

static bool
same_contents (GmRecorder *r, const GmTracker *a, const GmTracker *b)
{
  if (a == b)
    return true;
  if (!a || !b)
    return false;
  if (a->kind != &gm_kind_contents || b->kind != &gm_kind_contents)
    return same_value (r, a, b);
  if (a->n != b->n || a->number != b->number || !same_real (a->real, b->real))
    return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (!same_value (r, a->items[i], b->items[i]))
      return false;
  return true;
}

/* Returns the attribute `name` of an object, or the global if `owner` is a dict, as it was
 * before the region, borrowed; NULL if there was none. */
static PyObject *
real_value (PyObject *owner, PyObject *name)
{
  if (!owner)
    return NULL;
  if (PyDict_Check (owner))
    return PyDict_GetItemWithError (owner, name);
  PyObject **dict = _PyObject_GetDictPtr (owner);
  const PyMemberDef *slot = gm_slot_of (owner, name);
  if (slot)
    return *(PyObject **) ((char *) owner + slot->offset);
  return dict && *dict ? PyDict_GetItemWithError (*dict, name) : NULL;
}

static bool
is_real (const GmTracker *t, PyObject *value)
{
  if (t == &gm_tracker_null)
    return value == NULL;
  if (!value || !t->real)
    return false;
  if (t->real == value)
    return true;
  if (t->kind != &gm_kind_constant || Py_TYPE (t->real) != Py_TYPE (value))
    return false;
  if (PyFloat_CheckExact (value))
    return gm_float_bits (t->real) == gm_float_bits (value);
  return (PyLong_CheckExact (value) || PyUnicode_CheckExact (value))
         && PyObject_RichCompareBool (t->real, value, Py_EQ) == 1;
}

static const GmTracker *
named (const GmTracker *contents, PyObject *name)
{
  for (uint32_t i = 0; contents && i < contents->n; i += 2)
    if (gm_str_equal (contents->items[i]->real, name))
      return contents->items[i + 1];
  return NULL;
}

static char *
value_text (GmRecorder *r, const GmTracker *t, PyObject *real)
{
  if (!t && !real)
    return g_strdup ("nothing");
  PyObject *o = t ? t->real : real;
  if (t == &gm_tracker_null)
    return g_strdup ("nothing");
  if (o && (!t || t->kind == &gm_kind_constant)) {
    PyObject *repr = PyObject_Repr (o);
    char *text = g_strdup (repr ? PyUnicode_AsUTF8 (repr) : Py_TYPE (o)->tp_name);
    Py_XDECREF (repr);
    PyErr_Clear ();
    return text;
  }
  return g_strdup_printf ("a %s", gm_type_text (r, t));
}

/* Returns a text for the first name whose value in `now` differs from that in `before`, with
 * both values; NULL: all are the same.  `before` and `now` have only stored names and values; all
 * others are those of the real object or dict `owner`.  The caller frees. */
static char *
changed_name (GmRecorder *r, const GmTracker *before, const GmTracker *now, PyObject *owner)
{
  for (uint32_t i = 0; now && i + 1 < now->n; i += 2) {
    PyObject *name = now->items[i]->real;
    const GmTracker *old = named (before, name), *value = now->items[i + 1];
    PyObject *real = old ? NULL : real_value (owner, name);
    if (old ? same_value (r, old, value) : is_real (value, real))
      continue;
    g_autofree char *from = value_text (r, old, real), *to = value_text (r, value, NULL);
    return g_strdup_printf ("%s from %s to %s", PyUnicode_AsUTF8 (name), from, to);
  }
  return NULL;
}

/* -- Which object it was ----------------------------------------------------------------------- */

static const GmEffect *
effect_on (const GmRecorder *r, uint32_t from, uint32_t object)
{
  for (uint32_t i = from; i < r->effects->len; i++) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    if (e->kind != GM_EFFECT_GLOBAL && e->n && e->args[0]->id == object)
      return e;
  }
  return NULL;
}

/* Returns the real object of the tracker that has this kind and this heap object, borrowed, if
 * it existed before the recording; NULL otherwise. */
static PyObject *
real_with (const GmRecorder *r, const GmTrackerKind *kind, uint32_t object)
{
  for (uint32_t i = 0; i < r->wrapped->len; i++) {
    const GmTracker *t = r->wrapped->pdata[i];
    if (t->kind == kind && t->id == object)
      return t->real;
  }
  return NULL;
}

/* True if the set has again the table with which it came to the region, which is guarded: the order
 * of what is added later depends on it, and to add an element and discard it leaves a gap. */
static bool
has_own_table (GmRecorder *r, const GmTracker *t, const GmTracker *before)
{
  PyObject *now = t->source && !t->number && !before->number ? gm_set_exact (r, t) : NULL;
  if (!now || gm_set_state (gm_record_take (r, now)) != gm_set_state (t->real))
    return false;
  PyObject *a = gm_record_take (r, gm_set_elements (t->real)),
           *b = gm_record_take (r, gm_set_elements (now));
  bool same = PyTuple_GET_SIZE (a) == PyTuple_GET_SIZE (b);
  for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE (a); i++)
    same = same_value (r, gm_from_constant (r, PyTuple_GET_ITEM (a, i)),
                       gm_from_constant (r, PyTuple_GET_ITEM (b, i)));
  if (same && !r->stop) {
    gm_set_see_table (r, t);
    gm_guard (r, SET_STATE, t->source, .index = gm_set_state (t->real));
  }
  return same && !r->stop;
}

/* Returns a text that names the change of the object; NULL: it is unchanged. The caller frees
 * it. */
static char *
change_of (GmRecorder *r, const GmTracker *before, uint32_t from, uint32_t object)
{
  const GmTracker *now = gm_heap_load (&r->heap, object, 0);
  PyObject *globals = real_with (r, &gm_kind_contents, object);
  const GmEffect *e = effect_on (r, from, object);
  const GmTracker *t = e ? e->args[0] : NULL;

  if (same_contents (r, before, now)
      || (before && t && t->kind == &gm_kind_set && has_own_table (r, t, before)))
    return NULL;
  if (!before && !e && real_with (r, &gm_kind_cell, object)) /* the first read of a variable of an
                                                                enclosing function */
    return NULL;
  if (globals) {
    g_autofree char *name = changed_name (r, before, now, globals);
    return name ? g_strdup_printf ("the global %s", name) : NULL;
  }
  if (t && t->kind == &gm_kind_object
      && (e->kind == GM_EFFECT_SETATTR || e->kind == GM_EFFECT_DELATTR)) {
    g_autofree char *name = changed_name (r, before, now, t->real);
    return name ? g_strdup_printf ("the attribute %s of a %s", name, gm_type_text (r, t)) : NULL;
  }
  if (e && e->kind == GM_EFFECT_CELL) {
    g_autofree char *from_text = value_text (r, before, NULL), *to = value_text (r, now, NULL);
    return g_strdup_printf ("a variable of a function around it, from %s to %s", from_text, to);
  }
  return t ? g_strdup_printf ("a %s", gm_type_text (r, t))
           : g_strdup ("an object that was made outside of it");
}

bool
gm_body_is_own_state (const GmRecorder *r, uint32_t object)
{
  if (object == r->generators_id)
    return true;
  for (const GmFrame *f = r->frame; f; f = f->parent)
    if (object == f->id || object == f->handled_id)
      return true;
  return false;
}

/* A slot of the heap: an object and a key in it. */
typedef struct {
  uint32_t object, key;
} Slot;

/* Returns the value that the slot had at the mark; for a container that was read for the first
 * time since the mark, the contents that were read.  For names stored on an object read since then,
 * NULL: there were none.  from: number of effects at the mark. */
static const GmTracker *
held_before (const GmRecorder *r, GmHeapMark m, uint32_t from, Slot s)
{
  const GmEffect *e = effect_on (r, from, s.object);
  if (s.object >= m.objects && (e == NULL || e->args[0]->kind == &gm_kind_object))
    return NULL;
  for (uint32_t i = m.writes; i < r->heap.journal.len; i++) {
    const GmWrite *w = &r->heap.journal.writes[i];
    if (w->container == s.object && w->key == s.key && (w->old || s.object < m.objects))
      return (const GmTracker *) w->old;
  }
  return NULL;
}

bool
gm_body_same_contents (GmRecorder *r, const GmTracker *before, const GmTracker *now)
{
  return same_contents (r, before, now) && !r->stop;
}

/* Returns the oldest contents of the object that were replaced since the mark; NULL: none were.
 * Contents that were read only after the mark are what the object held before. */
static const GmTracker *
first_replaced (const GmRecorder *r, GmHeapMark m, uint32_t object)
{
  for (uint32_t i = m.writes; i < r->heap.journal.len; i++) {
    const GmWrite *w = &r->heap.journal.writes[i];
    if (w->container == object && w->key == GM_SLOT_CONTENTS && w->old)
      return (const GmTracker *) w->old;
  }
  return NULL;
}

bool
gm_body_leaves (GmRecorder *r, GmHeapMark m, const GmTracker *t)
{
  bool alone = t->kind == &gm_kind_list || t->kind == &gm_kind_deque
               || t->kind == &gm_kind_bytearray || t->kind == &gm_kind_set
               || (t->kind == &gm_kind_dict && t->n == 0);
  const GmTracker *before = alone ? first_replaced (r, m, t->id) : NULL;

  if (before && t->kind == &gm_kind_set)
    return has_own_table (r, t, before);
  return before && gm_body_same_contents (r, before, gm_contents_of (r, t));
}

static void
add_slot (GArray *all, GHashTable *seen, uint32_t object, uint32_t key)
{
  Slot s = { object, key };
  if (g_hash_table_add (seen, (gpointer) ((uintptr_t) object << 32 | key)))
    g_array_append_val (all, s);
}

/* Returns the slots of existing objects that were written since the mark, owned by the caller:
 * from the journal for objects older than the mark, and the contents of younger heap objects that
 * have an effect. */
static GArray *
written_slots (const GmRecorder *r, GmHeapMark m, uint32_t from, uint32_t exempt)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  GArray *all = g_array_new (FALSE, FALSE, sizeof (Slot));
  for (uint32_t i = m.writes; i < r->heap.journal.len; i++) {
    const GmWrite *w = &r->heap.journal.writes[i];
    uint32_t object = (uint32_t) w->container;
    if (object < m.objects && object != exempt && !gm_body_is_own_state (r, object))
      add_slot (all, seen, object, (uint32_t) w->key);
  }
  for (uint32_t i = from; i < r->effects->len; i++) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    const GmTracker *t = e->kind == GM_EFFECT_GLOBAL ? g_hash_table_lookup (r->by_real, e->fn)
                         : e->n                      ? e->args[0]
                                                     : NULL;
    if (t && t->id != GM_NO_OBJECT && t->id >= m.objects && t->id != exempt)
      add_slot (all, seen, t->id, 0);
  }
  return all;
}

/* Returns a text that names the change of the slot since the mark; NULL: it is unchanged.  The
 * caller frees. */
static char *
slot_change (GmRecorder *r, GmHeapMark m, uint32_t from, Slot s)
{
  static const char *const modes[] = { "the grad mode",
                                       "whether a graph break is an error",
                                       "what autocast casts to",
                                       "whether random numbers may be drawn",
                                       "the memory that may be written",
                                       "the memory that may be written" };
  const GmTracker *before = held_before (r, m, from, s),
                  *now = gm_heap_load (&r->heap, s.object, s.key);
  if (s.object == r->modes_id)
    return same_contents (r, before, now) ? NULL : g_strdup (modes[s.key]);
  if (s.key == 0)
    return change_of (r, before, from, s.object);
  bool looked_at = before == NULL && now && now->kind == &gm_kind_dict
                   && now->n; /* its __dict__ (instance_dict.c) */
  return looked_at || same_contents (r, before, now)
             ? NULL
             : g_strdup ("an object that was made outside of it");
}

/* State of the recorder at the start of a body. */
typedef struct {
  GmHeapMark heap;
  uint32_t effects, draws, values;
} Start;

/* True if the body `op` left only changes that it may leave; else false, with a break.  once:
 * NULL for a body that may change nothing; else a set that gets the heap objects that it changed.
 * exempt: see gm_body_run. */
static bool
check (GmRecorder *r, const char *op, const Start *start, uint32_t exempt, GHashTable *once)
{
  uint32_t from = start->effects;
  if (r->draws->len != start->draws)
    gm_record_break (r, GM_BREAK_BODY_EFFECT, op, "the state of the module random");
  g_autoptr (GArray) slots = written_slots (r, start->heap, from, exempt);
  for (uint32_t i = 0; i < slots->len && !r->stop; i++) {
    Slot s = g_array_index (slots, Slot, i);
    g_autofree char *what = slot_change (r, start->heap, from, s);
    bool is_mode = s.object == r->modes_id;
    if (what && once && !is_mode)
      g_hash_table_add (once, GUINT_TO_POINTER (s.object));
    const GmTracker *now = gm_heap_load (&r->heap, s.object, s.key);
    bool keeps = once && gm_body_holds_new_tensor (r, now, start->values, start->heap.objects);
    if (what && (!once || is_mode || keeps))
      gm_record_break (r, GM_BREAK_BODY_EFFECT, op, what);
  }
  for (uint32_t i = from; once && i < r->effects->len && !r->stop; i++) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    for (uint32_t k = 0; k < e->n && !r->stop; k++)
      if (gm_body_holds_new_tensor (r, e->args[k], start->values, start->heap.objects))
        gm_record_break (r, GM_BREAK_BODY_EFFECT, op, "an object by a tensor that it made");
  }
  for (uint32_t i = from; i < r->effects->len && !r->stop;
       i++) /* each run would register one more */
    if (g_array_index (r->effects, GmEffect, i).kind == GM_EFFECT_HOOK)
      gm_record_break (r, GM_BREAK_BODY_EFFECT, op, "the hooks of a tensor");
  return r->stop == NULL;
}

const GmTracker *
gm_body_run_once (GmRecorder *r, const char *op, const GmTracker *fn, const GmCallArgs *args,
                  uint32_t exempt, GHashTable *changed)
{
  Start start = { gm_heap_mark (&r->heap), r->effects->len, r->draws->len, r->graph->values->len };
  r->n_bodies++;
  const GmTracker *result = gm_call (r, fn, args);
  r->n_bodies--;
  return !r->stop && check (r, op, &start, exempt, changed) ? result : &gm_tracker_poison;
}

/* Returns fn (*args) as the body of `op` ("checkpoint"): inlined; breaks if it leaves anything
 * changed that existed before. exempt: a heap object that fn may change, or GM_NO_OBJECT. */
static const GmTracker *
run_body (GmRecorder *r, const char *op, const GmTracker *fn, const GmCallArgs *args,
          uint32_t exempt)
{
  return gm_body_run_once (r, op, fn, args, exempt, NULL);
}

/* -- checkpoint -------------------------------------------------------------------------------- */

/* Records checkpoint (function, args, kwargs): the backward computes the values of the function
 * again.  Returns its result; poison after a break. */
static const GmTracker *
call_checkpoint (GmRecorder *r, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "checkpoint", args, 2, 3))
    return &gm_tracker_poison;
  GmCallArgs inner;
  if (!gm_args_unpack (r, args->args[1], args->n > 2 ? args->args[2] : NULL, &inner))
    return &gm_tracker_poison;
  if (!gm_grad_mode_get (r))
    return gm_call (r, args->args[0], &inner);
  GmNodeTag tag = r->builder.tag;
  r->builder.tag = GM_TAG_RECOMPUTE;
  const GmTracker *result = run_body (r, "checkpoint", args->args[0], &inner, GM_NO_OBJECT);
  r->builder.tag = tag;
  return result;
}

const GmTracker *
gm_body_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  if (fn == gm_host.checkpoint)
    return call_checkpoint (r, args);
  if (fn == gm_host.function_apply)
    return gm_custom_apply (r, args);
  if (fn == gm_host.higher_order)
    return gm_higher_record (r, args);
  return NULL;
}
