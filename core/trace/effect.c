/* SPDX-License-Identifier: Apache-2.0
 * effect.c -- side effects on objects that existed before the region: recorded, merged, compared.
 *
 * Effects are an append-only list in the order of the program; their results are in the heap.
 * Operations are replayed: a dict gets new keys in the program's order. Only stores to one place
 * (attribute, global, captured variable) are merged, into the last value at the time of the first,
 * since nothing can read the place in between.
 * A state is the list of effects since some moment, as texts and hashes: the two branches of an
 * operator are compared by their states after the recorder has been rolled back.
 */
#include "core/guard/guard.h"
#include "core/models/body.h"
#include "core/trace/instance.h"
#include "core/trace/recorder.h"

#include <structmember.h>

/* -- Places ---------------------------------------------------------------- */

/* True for an effect on a place (attribute, global, captured variable), whose stores can be
 * merged. */
static bool
has_place (const GmEffect *e)
{
  return e->kind == GM_EFFECT_SETATTR || e->kind == GM_EFFECT_DELATTR || e->kind == GM_EFFECT_GLOBAL
         || e->kind == GM_EFFECT_CELL;
}

static bool
deletes (const GmEffect *e)
{
  return e->kind == GM_EFFECT_DELATTR
         || (e->kind == GM_EFFECT_CELL && e->args[1] == &gm_tracker_null)
         || (e->kind == GM_EFFECT_GLOBAL && e->args[0] == &gm_tracker_null);
}

/* Returns the member descriptor of the entry of __slots__ that the effect stores to; NULL: it
 * stores elsewhere. */
static const PyMemberDef *
slot_of (const GmEffect *e)
{
  bool attribute = (e->kind == GM_EFFECT_SETATTR || e->kind == GM_EFFECT_DELATTR)
                   && e->args[0]->kind == &gm_kind_object && e->args[0]->real;
  return attribute ? gm_slot_of (e->args[0]->real, e->name) : NULL;
}

/* True if the place of the effect, a global or an attribute, was unbound before the region. */
static bool
held_nothing (const GmEffect *e)
{
  const GmTracker *t = e->args[0];
  const PyMemberDef *slot = slot_of (e);
  if (e->kind == GM_EFFECT_GLOBAL)
    return !PyDict_Contains (e->fn, e->name);
  if (!t->source)
    return false;
  if (slot)
    return *(PyObject **) ((char *) t->real + slot->offset) == NULL;
  if (e->kind == GM_EFFECT_CELL || t->kind != &gm_kind_object || !t->real)
    return false;
  PyObject **dict = _PyObject_GetDictPtr (t->real);
  return dict && *dict && !PyDict_Contains (*dict, e->name)
         && _PyType_Lookup (Py_TYPE (t->real), e->name) == NULL;
}

/* Guards that the place of the effect is unbound when the region begins: then a store and a
 * deletion in the region are both left out of the replay. */
static void
guard_nothing (GmRecorder *r, const GmEffect *e)
{
  const PyMemberDef *slot = slot_of (e);
  if (e->kind == GM_EFFECT_GLOBAL)
    gm_guard (r, GLOBAL_ABSENT, NULL, .obj = e->fn, .key = e->name);
  else if (slot)
    gm_guard (r, MEMBER_ABSENT, e->args[0]->source, .index = slot->offset, .key = e->name);
  else
    gm_guard (r, ATTR_ABSENT, e->args[0]->source, .key = e->name);
}

/* -- Noting ---------------------------------------------------------------- */

void
gm_effect (GmRecorder *r, GmEffectKind kind, PyObject *fn, PyObject *name,
           const GmTracker *const *args, uint32_t n)
{
  if (r->stop)
    return;
  const GmTracker **copy = gm_tracker_array (r, n);
  gm_tracker_copy (copy, args, n);
  GmEffect e = { .kind = kind,
                 .fn = fn,
                 .name = name,
                 .args = copy,
                 .n = n,
                 .line = gm_record_line (r),
                 .stack = r->request->effect_stacks ? gm_record_stack (r) : NULL };
  if (fn)
    gm_record_keep (r, fn);
  if (name)
    gm_record_keep (r, name);
  if (has_place (&e) && deletes (&e) && held_nothing (&e))
    guard_nothing (r, &e);
  g_array_append_val (r->effects, e);
}

void
gm_effect_item (GmRecorder *r, PyTypeObject *owner, const GmTracker *t, const GmTracker *key,
                const GmTracker *value)
{
  const GmTracker *args[3] = { t, key, value };
  uint32_t n = value ? 3 : 2;
  if (t->real == NULL)
    return;
  if (Py_TYPE (t->real) == owner) {
    gm_effect (r, value ? GM_EFFECT_SETITEM : GM_EFFECT_DELITEM, NULL, NULL, args, n);
    return;
  }
  PyObject *method =
      PyDict_GetItemString (gm_type_dict (owner), value ? "__setitem__" : "__delitem__");
  gm_effect (r, GM_EFFECT_CALL, method, NULL, args, n);
}

static const GmEffect *
effect_at (GmRecorder *r, uint32_t i)
{
  return &g_array_index (r->effects, GmEffect, i);
}

/* -- Merging --------------------------------------------------------------- */

/* The effects on one place: indices of the first and the last of them, and what keeps them from
 * being merged. */
typedef struct {
  uint32_t first, last;
  bool any_delete;
  bool mixed; /* effects that are never merged change the place, too */
} Place;

/* Returns the object whose attribute e->args[1] the effect changes by another way than SETATTR or
 * DELATTR: by a call of object.__setattr__ or object.__delattr__, or as an item of its __dict__.
 * NULL for other effects. An effect of this sort is never merged. */
static const GmTracker *
changed_otherwise (const GmEffect *e)
{
  if (e->kind == GM_EFFECT_CALL
      && (e->fn == gm_object_default ("__setattr__") || e->fn == gm_object_default ("__delattr__")))
    return e->args[0];
  bool item = e->kind == GM_EFFECT_SETITEM || e->kind == GM_EFFECT_DELITEM;
  const GmTracker *dict = item ? e->args[0] : NULL; /* of an object, if it has an item */
  return dict && dict->kind == &gm_kind_dict && dict->n ? dict->items[0] : NULL;
}

static gconstpointer
holder (const GmEffect *e)
{
  return e->kind == GM_EFFECT_GLOBAL ? (gconstpointer) e->fn : e->args[0];
}

static guint
place_hash (gconstpointer p)
{
  const GmEffect *e = p;
  guint h = g_direct_hash (holder (e));
  return e->name ? h * 31 + (guint) PyObject_Hash (e->name) : h;
}

static gboolean
place_equal (gconstpointer x, gconstpointer y)
{
  const GmEffect *a = x, *b = y;
  bool attribute = a->kind == GM_EFFECT_SETATTR || a->kind == GM_EFFECT_DELATTR;
  bool other = b->kind == GM_EFFECT_SETATTR || b->kind == GM_EFFECT_DELATTR;
  return holder (a) == holder (b) && attribute == other && (attribute || a->kind == b->kind)
         && (a->name == NULL || gm_str_equal (a->name, b->name));
}

static GHashTable *
places (GmRecorder *r)
{
  GHashTable *table = g_hash_table_new_full (place_hash, place_equal, NULL, g_free);
  for (uint32_t i = 0; i < r->effects->len; i++) {
    const GmEffect *e = effect_at (r, i);
    if (!has_place (e))
      continue;
    Place *p = g_hash_table_lookup (table, e);
    if (p == NULL) {
      p = g_new0 (Place, 1);
      p->first = i;
      g_hash_table_insert (table, (gpointer) e, p);
    }
    p->last = i;
    p->any_delete |= deletes (e);
  }
  for (uint32_t i = 0; i < r->effects->len; i++) {
    const GmEffect *e = effect_at (r, i);
    const GmTracker *object = changed_otherwise (e);
    PyObject *name = object ? e->args[1]->real : NULL;
    if (!name || !PyUnicode_Check (name))
      continue;
    GmEffect same = { .kind = GM_EFFECT_SETATTR, .args = &object, .name = name };
    Place *p = g_hash_table_lookup (table, &same);
    if (p)
      p->mixed = true;
  }
  return table;
}

/* True if the place of the effect `last` was unbound before the region and is unbound afterwards;
 * gm_effect has guarded the former. */
static bool
leaves_nothing (const GmEffect *last)
{
  return deletes (last) && held_nothing (last);
}

/* Returns the effect to replay at the time of effect i; NULL: none. Stores to a place are merged
 * into the last one, at the time of the first, unless the place has deletions or is mixed. */
static const GmEffect *
merged (GmRecorder *r, GHashTable *table, uint32_t i)
{
  const GmEffect *e = effect_at (r, i);
  if (e->kind == GM_EFFECT_HOOK)
    return e->n == 1 || gm_hook_is_live (r, e->args[2]) ? e : NULL;
  if (!has_place (e))
    return e;
  const Place *p = g_hash_table_lookup (table, e);
  const GmEffect *last = effect_at (r, p->last);
  if (p->mixed)
    return e;
  if (p->any_delete)
    return leaves_nothing (last) ? NULL : e;
  return p->first == i ? last : NULL;
}

static GPtrArray *
merged_since (GmRecorder *r, uint32_t from)
{
  g_autoptr (GHashTable) table = places (r);
  GPtrArray *list = g_ptr_array_new ();
  for (uint32_t i = from; i < r->effects->len; i++) {
    const GmEffect *e = merged (r, table, i);
    if (e)
      g_ptr_array_add (list, (gpointer) e);
  }
  return list;
}

GPtrArray *
gm_effects_merged (GmRecorder *r)
{
  return merged_since (r, 0);
}

/* -- Places that hold in the end what they held before the region -------------- */

/* Returns the value that the place of the effect had before the region (borrowed), and its source;
 * NULL: there was none, or a descriptor computes it. The value of an attribute may be the class's
 * own: if a program sets such a flag on an instance and sets it back, the instance has no attribute
 * of its own before and after. */
static PyObject *
held_at (GmRecorder *r, const GmEffect *e, const GmSource **source)
{
  const GmTracker *t = e->args[0];
  PyObject **dict, *old;
  *source = NULL;
  if (e->kind == GM_EFFECT_GLOBAL) {
    old = PyDict_GetItemWithError (e->fn, e->name);
    *source = old ? gm_source_global (r, e->fn, e->name) : NULL;
  } else if (e->kind == GM_EFFECT_CELL) {
    old = t->real && t->source ? PyCell_GET (t->real) : NULL;
    *source = old ? gm_source_part (r, t->source, GM_SOURCE_CONTENTS, 0, NULL) : NULL;
  } else {
    bool plain = t->kind == &gm_kind_object && t->real && t->source;
    const PyMemberDef *slot = plain ? slot_of (e) : NULL;
    if (slot && (old = *(PyObject **) ((char *) t->real + slot->offset)) != NULL) {
      *source = gm_source_member (r, t->source, slot->offset, e->name);
      return old;
    }
    dict = plain ? _PyObject_GetDictPtr (t->real) : NULL;
    old = dict && *dict ? PyDict_GetItemWithError (*dict, e->name) : NULL;
    *source = old ? gm_source_attr (r, t->source, e->name) : NULL;
    if (dict && !old && (old = gm_class_lookup (r, (PyTypeObject *) t->data, e->name)) != NULL
        && !Py_TYPE (old)->tp_descr_get) {
      gm_guard (r, ATTR_ABSENT, t->source, .key = e->name);
      *source = gm_source_class_attr (r, (PyTypeObject *) t->data, e->name);
    }
  }
  PyErr_Clear ();
  return *source ? old : NULL;
}

static const GmTracker *
stored (const GmEffect *e)
{
  return e->kind == GM_EFFECT_GLOBAL ? e->args[0] : e->args[1];
}

/* True if t is a constant equal to `old`, and of a type whose equal values a program cannot tell
 * apart; floats must have the same bits. */
static bool
is_same_constant (const GmTracker *t, PyObject *old)
{
  PyTypeObject *type = Py_TYPE (old);
  if (type == &PyFloat_Type)
    return t->kind == &gm_kind_constant && Py_TYPE (t->real) == type
           && gm_float_bits (t->real) == gm_float_bits (old);
  bool exact = type == &PyBool_Type || type == &PyLong_Type || type == &PyUnicode_Type
               || type == &PyBytes_Type || old == Py_None;
  return t->kind == &gm_kind_constant && exact && Py_TYPE (t->real) == type
         && PyObject_RichCompareBool (t->real, old, Py_EQ) == 1;
}

bool
gm_effect_restores (GmRecorder *r, const GmEffect *e)
{
  const GmSource *source;
  if (!has_place (e) || deletes (e))
    return false;
  PyObject *old = held_at (r, e, &source);
  if (!old)
    return false;
  if (stored (e)->real == old && stored (e)->source == source
      && source->kind != GM_SOURCE_CLASS_ATTR)
    return true; /* the object itself, whatever it is */
  const GmTracker *now = gm_realize (r, stored (e));
  if (r->stop || !is_same_constant (now, old))
    return false;
  const GmTracker *t = gm_realize (r, gm_wrap (r, old, source)); /* adds a guard */
  return !r->stop && t->kind == &gm_kind_constant;
}

/* True if the place has no order among others, as a slot or cell has none: deleting its value and
 * storing it again changes nothing. */
static bool
is_unordered (const GmEffect *e)
{
  return e->kind == GM_EFFECT_CELL || slot_of (e);
}

/* True if the place of the effect has, at the end, the value that it had before the region. */
static bool
is_put_back (GmRecorder *r, GHashTable *table, const GmEffect *e)
{
  const Place *p = has_place (e) ? g_hash_table_lookup (table, e) : NULL;
  return p && !p->mixed && (!p->any_delete || is_unordered (e))
         && gm_effect_restores (r, effect_at (r, p->last));
}

/* -- Questions ------------------------------------------------------------- */

bool
gm_has_pending_mutation (GmRecorder *r, const GmTracker *t)
{
  g_autoptr (GPtrArray) list = gm_effects_merged (r);
  const GmTracker *inside = gm_storage (t);
  for (uint32_t i = 0; i < list->len; i++) {
    const GmEffect *e = list->pdata[i];
    if (e->kind == GM_EFFECT_GLOBAL || e->kind == GM_EFFECT_HOOK)
      continue;
    if (e->args[0] == t || e->args[0] == inside)
      return true;
  }
  return false;
}

bool
gm_is_modified (GmRecorder *r, const GmTracker *t)
{
  bool made_here = t->real == NULL && t->id != GM_NO_OBJECT;
  return made_here || gm_has_pending_mutation (r, t);
}

/* -- Text ------------------------------------------------------------------ */

static char *
value_text (GmRecorder *r, const GmTracker *t)
{
  if (t == &gm_tracker_null)
    return g_strdup ("nothing");
  if (t->kind == &gm_kind_constant) {
    PyObject *repr = PyObject_Repr (t->real);
    char *text = g_strdup_printf ("%.60s", repr ? PyUnicode_AsUTF8 (repr) : "?");
    Py_XDECREF (repr);
    PyErr_Clear ();
    return text;
  }
  if (t->source)
    return g_strdup (t->source->name);
  if (t->kind == &gm_kind_tensor) {
    g_autofree char *meta =
        gm_meta_text (gm_graph_meta (r->graph, (GmValueId) gm_contents_of (r, t)->number));
    return g_strdup_printf ("a tensor %s", meta);
  }
  return g_strdup_printf ("a new %s", gm_type_text (r, t));
}

static char *
object_text (GmRecorder *r, const GmEffect *e)
{
  const char *name = e->name ? PyUnicode_AsUTF8 (e->name) : "";
  if (e->kind == GM_EFFECT_GLOBAL)
    return g_strdup_printf ("the global %s", name);
  g_autofree char *on = value_text (r, e->args[0]);
  return e->kind == GM_EFFECT_SETATTR || e->kind == GM_EFFECT_DELATTR
             ? g_strdup_printf ("%s.%s", on, name)
             : g_steal_pointer (&on);
}

static char *
list_text (GmRecorder *r, const GmTracker *const *args, uint32_t n)
{
  GString *s = g_string_new (NULL);
  for (uint32_t i = 0; i < n; i++) {
    g_autofree char *text = value_text (r, args[i]);
    g_string_append_printf (s, "%s%s", i ? ", " : "", text);
  }
  return g_string_free (s, FALSE);
}

/* Returns the text of the operation, such as "= 3" or "append (1)". The caller frees it. */
static char *
action_text (GmRecorder *r, const GmEffect *e)
{
  g_autofree char *first = e->n > 1 ? value_text (r, e->args[1]) : NULL;
  g_autofree char *rest = e->n > 1 ? list_text (r, e->args + 1, e->n - 1) : g_strdup ("");
  switch (e->kind) {
  case GM_EFFECT_CALL: {
    PyObject *name = PyObject_GetAttrString (e->fn, "__name__");
    char *text = g_strdup_printf ("%s (%s)", name ? PyUnicode_AsUTF8 (name) : "a call", rest);
    Py_XDECREF (name);
    PyErr_Clear ();
    return text;
  }
  case GM_EFFECT_SETITEM: {
    g_autofree char *value = value_text (r, e->args[2]);
    return g_strdup_printf ("[%s] = %s", first, value);
  }
  case GM_EFFECT_DELITEM:
    return g_strdup_printf ("del [%s]", first);
  case GM_EFFECT_GLOBAL: {
    g_autofree char *value = value_text (r, e->args[0]);
    return deletes (e) ? g_strdup ("del") : g_strdup_printf ("= %s", value);
  }
  case GM_EFFECT_HOOK:
    return g_strdup_printf ("%s (%s)", PyUnicode_AsUTF8 (e->name), first ? first : "");
  default:
    return deletes (e) ? g_strdup ("del") : g_strdup_printf ("= %s", first);
  }
}

char *
gm_recording_effects_text (const GmRecording *rec)
{
  static const char *const what[] = {
    [GM_EFFECT_CALL] = "a call",
    [GM_EFFECT_SETITEM] = "an item is stored",
    [GM_EFFECT_DELITEM] = "an item is deleted",
    [GM_EFFECT_SETATTR] = "an attribute",
    [GM_EFFECT_DELATTR] = "an attribute is deleted",
    [GM_EFFECT_GLOBAL] = "a global",
    [GM_EFFECT_CELL] = "a captured variable",
    [GM_EFFECT_HOOK] = "a hook by",
  };
  GmRecorder *r = rec->owner;
  GString *s = g_string_new (NULL);
  for (uint32_t i = 0; i < r->effects->len; i++) {
    const GmEffect *e = effect_at (r, i);
    if (e->kind == GM_EFFECT_HOOK && e->n == 3 && !gm_hook_is_live (r, e->args[2]))
      continue;
    if (e->n && e->args[0]->kind == &gm_kind_number)
      continue; /* a check changes nothing */
    const char *on = e->n && e->args[0]->source ? e->args[0]->source->name : NULL;
    g_string_append_printf (s, "%s%s%s%s%s, line %d\n%s", what[e->kind], e->name ? " " : "",
                            e->name ? PyUnicode_AsUTF8 (e->name) : "", on ? " of " : "",
                            on ? on : "", e->line, e->stack ? e->stack : "");
  }
  return g_string_free (s, FALSE);
}

/* -- States ---------------------------------------------------------------- */

typedef struct {
  char *object, *action; /* owned */
  char *was;             /* owned: text of the value of the place before the region; or NULL */
  uint64_t hash;         /* structural hash of object and operation */
} Deed;

struct GmEffectState {
  GArray *deeds; /* Deed, in order */
};

static void
deed_clear (gpointer p)
{
  Deed *d = p;
  g_free (d->object);
  g_free (d->action);
  g_free (d->was);
}

static char *
was_text (GmRecorder *r, const GmEffect *e)
{
  const GmSource *source;
  PyObject *old = has_place (e) ? held_at (r, e, &source) : NULL;
  PyObject *repr =
      old && (PyLong_Check (old) || PyUnicode_Check (old) || PyFloat_Check (old) || old == Py_None)
          ? PyObject_Repr (old)
          : NULL;
  char *text = repr ? g_strdup_printf ("%.60s", PyUnicode_AsUTF8 (repr)) : NULL;
  Py_XDECREF (repr);
  PyErr_Clear ();
  return text;
}

/* True if the effect changes a container whose contents are, at the end, those at the mark. */
static bool
is_taken_back (GmRecorder *r, const GmMark *m, const GmEffect *e)
{
  bool of_container =
      e->kind == GM_EFFECT_CALL || e->kind == GM_EFFECT_SETITEM || e->kind == GM_EFFECT_DELITEM;
  return of_container && e->n > 0 && gm_body_leaves (r, m->heap, e->args[0]);
}

GmEffectState *
gm_effects_state (GmRecorder *r, const GmMark *m)
{
  GmEffectState *s = g_new0 (GmEffectState, 1);
  s->deeds = g_array_new (FALSE, TRUE, sizeof (Deed));
  g_array_set_clear_func (s->deeds, deed_clear);
  g_autoptr (GPtrArray) list = merged_since (r, m->effects);
  g_autoptr (GHashTable) table = places (r);
  for (uint32_t i = 0; i < list->len; i++) {
    const GmEffect *e = list->pdata[i];
    if (is_put_back (r, table, e) || is_taken_back (r, m, e))
      continue;
    Deed d = { object_text (r, e), action_text (r, e), was_text (r, e),
               gm_record_effect_hash (r, e) };
    g_array_append_val (s->deeds, d);
  }
  return s;
}

bool
gm_effects_any (const GmEffectState *s)
{
  return s->deeds->len > 0;
}

void
gm_effect_state_free (GmEffectState *s)
{
  if (s == NULL)
    return;
  g_array_unref (s->deeds);
  g_free (s);
}

/* Returns the k-th effect of `s` (from 0) on the object of that name; NULL: there are fewer. */
static const Deed *
deed_on (const GmEffectState *s, const char *object, uint32_t k)
{
  for (uint32_t i = 0; i < s->deeds->len; i++) {
    const Deed *d = &g_array_index (s->deeds, Deed, i);
    if (strcmp (d->object, object) == 0 && k-- == 0)
      return d;
  }
  return NULL;
}

/* Returns a sentence on the first effect of `a` without an equal counterpart in `b`; NULL: each
 * effect has a counterpart. The caller frees the text. */
static char *
difference (const GmEffectState *a, const GmEffectState *b, const char *a_name, const char *b_name)
{
  for (uint32_t i = 0; i < a->deeds->len; i++) {
    const Deed *d = &g_array_index (a->deeds, Deed, i);
    uint32_t k = 0;
    for (uint32_t j = 0; j < i; j++)
      k += strcmp (g_array_index (a->deeds, Deed, j).object, d->object) == 0;
    const Deed *other = deed_on (b, d->object, k);
    const char *was = d->was ? d->was : "", *which = d->was ? ", which was " : "";
    if (other == NULL)
      return g_strdup_printf ("%s%s%s: %s in the %s, nothing in the %s", d->object, which, was,
                              d->action, a_name, b_name);
    if (other->hash != d->hash)
      return g_strdup_printf ("%s%s%s: %s in the %s, %s in the %s%s", d->object, which, was,
                              d->action, a_name, other->action, b_name,
                              strcmp (d->action, other->action) ? "" : " (another object)");
  }
  return NULL;
}

char *
gm_effects_diff (const GmEffectState *first, const GmEffectState *second)
{
  char *text = difference (first, second, "first", "second");
  return text ? text : difference (second, first, "second", "first");
}
