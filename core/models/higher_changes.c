/* SPDX-License-Identifier: Apache-2.0
 * higher_changes.c -- the changes that a body makes outside of itself, read from the journal's tail
 * before it is rolled back.
 *
 * A slot of an object that existed before the body is changed if its last value differs from its
 * first value, which the first row of the journal since the mark has.  Both bodies of a call must
 * make the same changes, and no body may keep a tensor that it computed in an object that existed
 * before.
 */
#include "core/models/higher_private.h"

#include "core/graph/higher.h"
#include "core/models/body.h"

/* True if t holds a tensor that the body computed: the rollback after the body removes such
 * tensors. */
static bool
holds_new_tensor (const GmHigherTrace *c, const GmTracker *t)
{
  return gm_body_holds_new_tensor (c->r, t, c->mark.graph.values, c->mark.heap.objects);
}

static bool
same_value (const GmHigherTrace *c, const GmTracker *a, const GmTracker *b)
{
  if (a == b)
    return true;
  if (!a || !b || a->kind != b->kind || a->number != b->number)
    return false;
  if (a->kind == &gm_kind_constant)
    return Py_TYPE (a->real) == Py_TYPE (b->real)
           && PyObject_RichCompareBool (a->real, b->real, Py_EQ) == 1;
  if (a->kind == &gm_kind_contents || a->id == GM_NO_OBJECT) {
    bool same = a->n == b->n && a->real == b->real && a->kind != &gm_kind_function;
    for (uint32_t i = 0; same && i < a->n; i++)
      same = same_value (c, a->items[i], b->items[i]);
    return same;
  }
  return a->id == b->id && a->id < c->mark.heap.objects;
}

/* Returns the last effect that stores to this name of the heap object, borrowed, or NULL. */
static const GmEffect *
last_store (const GmRecorder *r, uint32_t object, PyObject *name)
{
  for (uint32_t i = r->effects->len; i-- > 0;) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    const GmTracker *t = e->kind == GM_EFFECT_GLOBAL ? g_hash_table_lookup (r->by_real, e->fn)
                         : e->n                      ? e->args[0]
                                                     : NULL;
    if (t && t->id == object && e->name && gm_str_equal (e->name, name))
      return e;
  }
  return NULL;
}

/* True if each name stored on an object or a module has its former value: the value stored
 * before the body or, in an object that existed before the region, an equal constant. */
static bool
same_names (const GmHigherTrace *c, uint32_t object, const GmTracker *before, const GmTracker *now)
{
  if (!before || !now || before->kind != &gm_kind_contents || now->kind != &gm_kind_contents
      || now->n % 2)
    return false;
  for (uint32_t i = 0; i < now->n; i += 2) {
    const GmTracker *name = now->items[i], *old = NULL;
    if (!name || !name->real || !PyUnicode_CheckExact (name->real))
      return false;
    for (uint32_t k = 0; !old && k + 1 < before->n; k += 2)
      if (before->items[k]->real && PyUnicode_CheckExact (before->items[k]->real)
          && gm_str_equal (before->items[k]->real, name->real))
        old = before->items[k + 1];
    const GmEffect *e = old ? NULL : last_store (c->r, object, name->real);
    if (old ? !same_value (c, old, now->items[i + 1]) : !e || !gm_effect_restores (c->r, e))
      return false;
  }
  return true;
}

/* Returns the slots (GmHigherSlot) of objects that existed before the body and that it left with
 * another value; the caller frees.  The effects of a body are compared apart: they are on objects
 * that existed before the region. */
static GArray *
changed_slots (const GmHigherTrace *c)
{
  GmRecorder *r = c->r;
  GArray *all = g_array_new (FALSE, FALSE, sizeof (GmHigherSlot));
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL); /* the first write has the old
                                                                  value */
  for (uint32_t i = c->mark.heap.writes; i < r->heap.journal.len; i++) {
    const GmWrite *w = &r->heap.journal.writes[i];
    uint32_t object = (uint32_t) w->container, key = (uint32_t) w->key;
    if (object >= c->mark.heap.objects || gm_body_is_own_state (r, object)
        || !g_hash_table_add (seen, (gpointer) ((uintptr_t) object << 32 | key)))
      continue;
    GmHigherSlot s = { object, key, (const GmTracker *) w->old,
                       gm_heap_load (&r->heap, object, key) };
    if (s.before != NULL && !same_value (c, s.before, s.now)
        && !gm_body_same_contents (r, s.before, s.now)
        && !(key == 0 && same_names (c, object, s.before, s.now)))
      g_array_append_val (all, s);
  }
  return all;
}

bool
gm_higher_look_at_changes (const GmHigherTrace *c, GmHigherBody *b)
{
  GmRecorder *r = c->r;
  b->slots = changed_slots (c);
  b->effects = gm_effects_state (r, &c->mark);
  if (r->draws->len > c->mark.draws) /* those are made before the graph */
    return gm_higher_refuse (c, "%s draws from Python's module random", b->name), false;
  for (uint32_t i = c->mark.mutated; i < r->mutated->len; i++)
    if (g_array_index (r->mutated, GmValueId, i) < c->mark.graph.values) {
      gm_higher_refuse (c, "%s writes to a tensor that was made outside of it", b->name);
      return false;
    }
  for (uint32_t i = c->mark.effects; i < r->effects->len; i++) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    bool held = e->kind == GM_EFFECT_HOOK;
    for (uint32_t k = 0; !held && k < e->n; k++)
      held = holds_new_tensor (c, e->args[k]);
    if (held) {
      gm_higher_refuse (c,
                        e->kind == GM_EFFECT_HOOK
                            ? "%s registers a hook"
                            : "%s stores a tensor that it computed in an object outside of it",
                        b->name);
      return false;
    }
  }
  for (uint32_t i = 0; i < b->slots->len; i++) {
    const GmHigherSlot *s = &g_array_index (b->slots, GmHigherSlot, i);
    if (s->object == r->modes_id
        || (s->now && s->now->kind == &gm_kind_contents && holds_new_tensor (c, s->now))) {
      gm_higher_refuse (c,
                        s->object == r->modes_id
                            ? "%s leaves the grad mode or autocast changed"
                            : "%s stores a tensor that it computed in an object outside of it",
                        b->name);
      return false;
    }
  }
  return true;
}

static const GmHigherSlot *
find_slot (const GmHigherBody *b, const GmHigherSlot *like)
{
  for (uint32_t i = 0; i < b->slots->len; i++) {
    const GmHigherSlot *s = &g_array_index (b->slots, GmHigherSlot, i);
    if (s->object == like->object && s->key == like->key)
      return s;
  }
  return NULL;
}

static char *
value_text (GmRecorder *r, const GmTracker *t)
{
  if (t && t->kind == &gm_kind_constant) {
    PyObject *repr = PyObject_Repr (t->real);
    char *text = g_strdup (repr ? PyUnicode_AsUTF8 (repr) : Py_TYPE (t->real)->tp_name);
    Py_XDECREF (repr);
    PyErr_Clear ();
    return text;
  }
  if (!t || t->kind != &gm_kind_contents)
    return g_strdup (t ? gm_type_text (r, t) : "nothing");
  g_autoptr (GString) s = g_string_new ("[");
  for (uint32_t i = 0; i < t->n; i++) {
    g_autofree char *item = value_text (r, t->items[i]);
    g_string_append_printf (s, "%s%s", i ? ", " : "", item);
  }
  g_string_append_c (s, ']');
  return g_strdup (s->str);
}

/* Returns a text that names the variable whose cell is this heap object, in a frame that is
 * being recorded; NULL: there is no such variable.  The caller frees. */
static char *
variable_text (const GmRecorder *r, uint32_t object)
{
  for (const GmFrame *f = r->frame; f; f = f->parent) {
    for (uint32_t i = 0; i < f->code->n_slots; i++) {
      const GmTracker *t = gm_heap_load (&r->heap, f->id, i);
      if (t && t->kind == &gm_kind_cell && t->id == object)
        return g_strdup_printf ("the variable %s around it",
                                PyUnicode_AsUTF8 (f->code->slots[i].name));
    }
  }
  return NULL;
}

/* Returns a sentence about a slot that a changed and b did not change in the same way; NULL:
 * there is none.  The caller frees. */
static char *
slot_difference (const GmHigherTrace *c, const GmHigherBody *a, const GmHigherBody *b)
{
  for (uint32_t i = 0; i < a->slots->len; i++) {
    const GmHigherSlot *s = &g_array_index (a->slots, GmHigherSlot, i), *t = find_slot (b, s);
    if (t && same_value (c, s->now, t->now))
      continue;
    g_autofree char *before = value_text (c->r, s->before), *one = value_text (c->r, s->now),
                    *two = value_text (c->r, t ? t->now : s->before);
    g_autofree char *variable = variable_text (c->r, s->object);
    return g_strdup_printf ("%s, which was %s: %s after %s, %s after %s",
                            variable ? variable : "an object around it", before, one, a->name, two,
                            b->name);
  }
  return NULL;
}

bool
gm_higher_same_changes (const GmHigherTrace *c, const GmHigherBody *a, const GmHigherBody *b)
{
  g_autofree char *effects = gm_effects_diff (a->effects, b->effects);
  g_autofree char *slots = effects ? NULL : slot_difference (c, a, b);
  if (!effects && !slots)
    slots = slot_difference (c, b, a);
  if (effects || slots)
    gm_higher_refuse (c, "its functions do not change the same (%s, %s): %s", a->name, b->name,
                      effects ? effects : slots);
  return !effects && !slots;
}
