/* SPDX-License-Identifier: Apache-2.0
 * guard_build.c -- compiles recorded guards to the flat program.
 *
 * Each guard becomes a record, preceded by the loads that its source needs; each source is loaded
 * once. The records of a tree of objects below one root are adjacent, so that one memo
 * (guard_memo.c) can answer for all of them; the others follow.
 * Invariant: a record reads only slots that an earlier record wrote, and a property that an earlier
 * record has checked for it (a type, a length) belongs to the same tree, or comes before all trees.
 */
#include "core/guard/guard.h"
#include "core/guard/recorded_guard.h"
#include "core/objects/key_type.h"

/* -- The tree of each guard -------------------------------------------------------------------- */

typedef enum { PLACE_REST, PLACE_ROOT, PLACE_TREE } PlaceKind;

typedef struct {
  bool known;
  uint8_t kind; /* PlaceKind */
  bool pinned;  /* while the tree's memo holds, the value is the same object, and not only an object
                   at the same address */
  bool typed, sized; /* records of the same tree have checked the value's type, its length */
  uint32_t root;     /* number of the root's source; GM_NO_ROOT below classes and constants */
  uint32_t group;    /* of a root: number of its tree, from 1 on; 0: none yet */
} Place;

static Place *
place_of (const GmSource *s, Place *places)
{
  Place *p = &places[s->number];
  if (p->known)
    return p;
  p->known = true;
  const Place *base = s->base ? place_of (s->base, places) : NULL;
  bool fits, pinned;
  switch ((GmRecordKind) s->kind) {
  case GM_SOURCE_LOCAL:
  case GM_SOURCE_FREE:
  case GM_SOURCE_GLOBAL:
    p->kind = PLACE_ROOT;
    p->root = s->number;
    return p;
  case GM_SOURCE_CONST:
  case GM_SOURCE_CLASS_ATTR:
    *p = (Place){ true, PLACE_TREE, .pinned = true, .root = GM_NO_ROOT };
    return p;
  case GM_SOURCE_ATTR:
  case GM_SOURCE_INSTANCE_DICT:
    fits = pinned = base->kind != PLACE_REST;
    break;
  case GM_SOURCE_DICT_ITEM:
    fits = pinned = base->kind != PLACE_REST && base->typed;
    break;
  case GM_SOURCE_LIST_ITEM:
    fits = base->kind != PLACE_REST && base->sized;
    pinned = false;
    break;
  case GM_SOURCE_TUPLE_ITEM:
    fits = pinned = base->pinned && base->sized;
    break;
  case GM_SOURCE_METHOD_FUNC:
  case GM_SOURCE_METHOD_SELF:
    fits = pinned = base->pinned && base->typed;
    break;
  default:
    fits = pinned = false;
  }
  if (fits)
    *p = (Place){ true, PLACE_TREE, .pinned = pinned, .root = base->root };
  return p;
}

/* True if the memo of a tree can answer the guard, so that its record can be in the tree; *root:
 * the tree's root. Notes in `places` which types and lengths the tree checks. */
static bool
in_tree (const GmGuard *g, Place *places, uint32_t *root)
{
  *root = GM_NO_ROOT;
  if (g->kind == GM_GUARD_CLASS_LOOKUP || g->kind == GM_GUARD_CLASS_DICT
      || g->kind == GM_GUARD_SUBCLASS)
    return true;
  if (!g->source)
    return false;
  Place *p = place_of (g->source, places);
  bool below = p->kind != PLACE_REST;
  *root = p->root;
  switch ((GmRecordKind) g->kind) {
  case GM_GUARD_TYPE:
    p->typed |= below;
    return below;
  case GM_GUARD_PRESENT:
    return p->kind == PLACE_TREE;
  case GM_GUARD_IS:
  case GM_GUARD_ATTR_ABSENT:
    return below;
  case GM_GUARD_TENSOR:
    if (p->kind == PLACE_ROOT) /* each call has another tensor, so that there is no tree */
      p->kind = PLACE_REST;
    return p->kind == PLACE_TREE;
  case GM_GUARD_EQUALS:
    return p->pinned && gm_is_constant_type (Py_TYPE (g->obj));
  case GM_GUARD_INT:
  case GM_GUARD_FLOAT:
  case GM_GUARD_STR:
  case GM_GUARD_VALUE:
    return p->pinned;
  case GM_GUARD_TUPLE_LEN:
    p->sized |= p->pinned && p->typed;
    return p->pinned && p->typed;
  case GM_GUARD_LIST_LEN:
    p->sized |= below && p->typed;
    return below && p->typed;
  case GM_GUARD_DICT_LEN:
  case GM_GUARD_DICT_KEYS:
  case GM_GUARD_DICT_ABSENT:
    return below && p->typed;
  case GM_GUARD_SAME:
  case GM_GUARD_DISTINCT: {
    const Place *other = place_of (g->other, places);
    return p->kind == PLACE_TREE && other->kind == PLACE_TREE && p->root == other->root;
  }
  default:
    return false;
  }
}

/* -- Groups of objects that are all different -------------------------------------------------- */

/* Returns the number of guards of the group that begins with the i-th guard. *in_tree: all objects
 * of the group are in one tree, whose root is *root. */
static uint32_t
group_of (const GmGuardSet *r, uint32_t i, Place *places, bool *in_tree, uint32_t *root)
{
  uint32_t n = 0;
  *in_tree = true;
  for (uint32_t k = i; k < r->guards->len; k++, n++) {
    const GmGuard *g = &g_array_index (r->guards, GmGuard, k);
    if (g->kind != GM_GUARD_APART || g->index != g_array_index (r->guards, GmGuard, i).index)
      break;
    const Place *p = place_of (g->source, places);
    *in_tree &= p->kind == PLACE_TREE && (n == 0 || p->root == *root);
    *root = p->root;
  }
  return n;
}

/* -- Objects that the program needs ------------------------------------------------------------ */

typedef struct {
  const GmGuardSet *r;
  GmGuards *g;
  GArray *checks; /* GmCheck */
  GPtrArray *sources;
  GArray *wheres; /* GmWhere */
  uint32_t *slot_of;
  GHashTable *seen;   /* objects that the guards hold already */
  PyObject *callback; /* callback for weak references, see callback_new */
  int64_t group;      /* number of the last group of distinct objects; apart: its table */
  GmApart *apart;
  bool in_tree; /* records that are added now belong to a tree, and are skipped with it */
} Compiler;

static PyObject *
object_died (PyObject *capsule, PyObject *weakref)
{
  *(bool *) PyCapsule_GetPointer (capsule, NULL) = true;
  Py_RETURN_NONE;
}

bool
gm_guards_own_callback (PyObject *callback)
{
  return PyCFunction_Check (callback) && PyCFunction_GET_FUNCTION (callback) == object_died;
}

static void
flag_free (PyObject *capsule)
{
  g_rc_box_release (PyCapsule_GetPointer (capsule, NULL));
}

/* Returns a new Python function that sets *dead, the callback of weak references. */
static PyObject *
callback_new (bool *dead)
{
  static PyMethodDef method = { "object_died", object_died, METH_O, NULL };
  PyObject *capsule = PyCapsule_New (g_rc_box_acquire (dead), NULL, flag_free);
  PyObject *callback = capsule ? PyCFunction_New (&method, capsule) : NULL;
  Py_XDECREF (capsule);
  return callback;
}

/* Takes a reference to `o`, an object that a record compares with: a weak reference (may_be_weak)
 * to an object that dies with a program's own modules and functions; a strong reference to an
 * object that the guards have made (constants, tuples of keys) or that allows no weak reference.
 * The globals and builtins of the function itself are not held: ROOT_GLOBALS, the first record,
 * checks that they are those of the called function, which keeps them. */
static void
hold (Compiler *k, PyObject *o, bool may_be_weak)
{
  PyObject *ref = NULL;
  const PyFunctionObject *func = k->r->func;
  if (!o || o == func->func_globals || o == func->func_builtins)
    return;
  gpointer how = g_hash_table_lookup (k->seen, o); /* 1: held weakly where possible, 2: strongly */
  if (how && (may_be_weak || GPOINTER_TO_INT (how) == 2))
    return;
  g_hash_table_insert (k->seen, o, GINT_TO_POINTER (may_be_weak ? 1 : 2));
  bool lasting = PyType_Check (o) && !(((PyTypeObject *) o)->tp_flags & Py_TPFLAGS_HEAPTYPE);
  if (may_be_weak && !lasting && PyType_SUPPORTS_WEAKREFS (Py_TYPE (o)) && k->callback)
    ref = PyWeakref_NewRef (o, k->callback);
  PyErr_Clear ();
  g_ptr_array_add (k->g->held, ref ? ref : Py_NewRef (o));
}

/* -- Records ----------------------------------------------------------------------------------- */

static void
add (Compiler *k, GmCheck c, const char *source, GmWhere where)
{
  /* The objects of all other records belong to the guards, or may have no other owner. */
  bool of_program = c.kind == GM_GUARD_TYPE || c.kind == GM_GUARD_IS || c.kind == GM_GUARD_FUNCTION
                    || c.kind == GM_GUARD_CLASS_LOOKUP || c.kind == GM_GUARD_CLASS_DICT
                    || c.kind == GM_GUARD_CLASS_NAME || c.kind == GM_GUARD_SUBCLASS
                    || c.kind == GM_SOURCE_CLASS_ATTR;
  if (c.kind == GM_SOURCE_CONST) /* an attribute of a class: a getter, the function of a static
                                           method */
    of_program = PyFunction_Check (c.obj) || PyType_Check (c.obj) || PyModule_Check (c.obj);
  hold (k, c.obj, of_program);
  hold (k, c.key, false);
  if (c.kind == GM_GUARD_CLASS_LOOKUP || c.kind == GM_GUARD_CLASS_DICT
      || c.kind == GM_GUARD_SUBCLASS)
    hold (k, (PyObject *) c.ptr, true);
  bool of_cache = c.kind == GM_SOURCE_CACHED
                  || c.kind == GM_GUARD_CACHED_ABSENT; /* constants, single or in a tuple */
  if (c.key && (of_cache || gm_key_kind (c.key) != GM_KEY_OTHER))
    c.hash = PyObject_Hash (c.key);
  g_array_append_val (k->checks, c);
  g_ptr_array_add (k->sources, source ? g_string_chunk_insert (k->g->text, source) : NULL);
  g_array_append_val (k->wheres, where);
}

static uint32_t load (Compiler *k, const GmSource *s);

/* Loads the objects of the parts, and returns a copy of the parts with their slots, freed with
 * g_free; NULL for NULL. */
static GmKeyParts *
load_parts (Compiler *k, const GmKeyParts *parts)
{
  GmKeyParts *p =
      parts ? g_memdup2 (parts, sizeof *parts + parts->n * sizeof parts->parts[0]) : NULL;
  for (uint32_t i = 0; p && i < p->n; i++)
    p->parts[i].slot = load (k, p->parts[i].source);
  return p;
}

static uint32_t
load (Compiler *k, const GmSource *s)
{
  if (k->slot_of[s->number] != UINT32_MAX)
    return k->slot_of[s->number];
  uint32_t in = s->base ? load (k, s->base) : 0;
  const GmKeyParts *parts = load_parts (k, s->parts);
  uint32_t out = k->g->n_slots++;
  k->slot_of[s->number] = out;
  add (k,
       (GmCheck){ .kind = s->kind,
                  .in = in,
                  .out = out,
                  .index = s->index,
                  .obj = s->obj,
                  .key = s->key,
                  .ptr = parts },
       s->name, (GmWhere){ 0 });
  return out;
}

/* Adds the loads of all objects of the group that gd begins, and begins its records APART, between
 * which no other record may come. */
static void
begin_group (Compiler *k, const GmGuard *gd)
{
  uint32_t n = 0;
  const GmGuard *end = &g_array_index (k->r->guards, GmGuard, k->r->guards->len);
  const GmGuard *g = gd;
  for (; g < end && g->kind == GM_GUARD_APART && g->index == gd->index; g++, n++)
    load (k, g->source);
  k->apart = gm_guard_apart_new (n);
  if (!k->in_tree)
    add (k,
         (GmCheck){
             .kind = GM_SOURCE_GROUP, .in = load (k, gd->source), .index = n, .ptr = k->apart },
         NULL, (GmWhere){ 0 });
}

static void
add_guard (Compiler *k, const GmGuard *gd)
{
  GmGuards *g = k->g;
  if (gd->kind == GM_GUARD_PRESENT) {
    load (k, gd->source);
    return;
  }
  GmCheck c = {
    .kind = gd->kind, .index = gd->index, .obj = gd->obj, .key = gd->key, .ptr = gd->ptr
  };
  if (gd->kind == GM_GUARD_APART && gd->index != k->group)
    begin_group (k, gd);
  if (gd->source)
    c.in = load (k, gd->source);
  if (gd->other) {
    c.index = load (k, gd->other);
    c.ptr2 = g_string_chunk_insert (g->text, gd->other->name);
  }
  if (gd->kind == GM_GUARD_APART) {
    c.ptr = k->apart;
    c.index = k->group != gd->index;
    k->group = gd->index;
  }
  if (gd->kind == GM_GUARD_BACKEND_MATCH)
    c.ptr2 = g_string_chunk_insert (g->text, k->r->backend_text ? k->r->backend_text : "");
  else if (gd->kind == GM_GUARD_CACHED_ABSENT)
    c.ptr = load_parts (k, gd->ptr);
  else if (gd->kind == GM_GUARD_TENSOR)
    c.ptr = g_memdup2 (gd->ptr, sizeof (GmMeta));
  GmWhere where = { 0 };
  if (gd->file && gd->line > 0)
    where = (GmWhere){ g_string_chunk_insert_const (g->text, gd->file), gd->line };
  add (k, c, gd->source ? gd->source->name : NULL, where);
  g->n_guards++;
}

/* -- One dict's lookups together --------------------------------------------------------------- */

static bool
asks_dict (const GmCheck *c)
{
  return c->kind == GM_SOURCE_ATTR || c->kind == GM_GUARD_ATTR_ABSENT;
}

static void
move (Compiler *to, const Compiler *from, uint32_t i)
{
  g_array_append_val (to->checks, g_array_index (from->checks, GmCheck, i));
  g_ptr_array_add (to->sources, from->sources->pdata[i]);
  g_array_append_val (to->wheres, g_array_index (from->wheres, GmWhere, i));
}

/* Returns a copy of the compiler without records, which is used in place of k from now on. */
static Compiler
another (const Compiler *k)
{
  Compiler to = *k;
  to.checks = g_array_new (FALSE, TRUE, sizeof (GmCheck));
  to.sources = g_ptr_array_new ();
  to.wheres = g_array_new (FALSE, TRUE, sizeof (GmWhere));
  return to;
}

static void
become (Compiler *k, const Compiler *to)
{
  g_array_free (k->checks, TRUE);
  g_ptr_array_free (k->sources, TRUE);
  g_array_free (k->wheres, TRUE);
  *k = *to;
}

/* Moves all records from index `from` on that look names up in one object's dict to the first of
 * them, loads before absences, and puts a memo (MEMO, MEMO_SAVE) around them. Moving a lookup
 * forward is safe: the object's type is checked there already, and a lookup reads nothing else. */
static void
gather (Compiler *k, uint32_t from)
{
  uint32_t n = k->checks->len;
  g_autofree uint32_t *first = g_new (uint32_t, k->g->n_slots + 1),
                      *last = g_new (uint32_t, k->g->n_slots + 1), *next = g_new (uint32_t, n + 1);
  if (!gm_host.dict_version_offset)
    return;
  Compiler to = another (k);
  for (uint32_t s = 0; s < k->g->n_slots; s++)
    first[s] = UINT32_MAX;
  for (uint32_t i = 0; i < n; i++) {
    const GmCheck *c = &g_array_index (k->checks, GmCheck, i);
    next[i] = UINT32_MAX;
    if (i < from || !asks_dict (c))
      continue;
    if (first[c->in] == UINT32_MAX)
      first[c->in] = i;
    else
      next[last[c->in]] = i;
    last[c->in] = i;
  }
  for (uint32_t i = 0; i < n; i++) {
    const GmCheck *c = &g_array_index (k->checks, GmCheck, i);
    if (i < from || !asks_dict (c) || next[first[c->in]] == UINT32_MAX) {
      move (&to, k, i);
      continue;
    }
    if (first[c->in] != i)
      continue;
    uint32_t at = to.checks->len, loads = 0;
    add (&to, (GmCheck){ .kind = GM_SOURCE_MEMO, .in = c->in }, NULL, (GmWhere){ 0 });
    for (int kind = 0; kind < 2; kind++)
      for (uint32_t m = i; m != UINT32_MAX; m = next[m])
        if ((g_array_index (k->checks, GmCheck, m).kind == GM_SOURCE_ATTR) == (kind == 0)) {
          move (&to, k, m);
          loads += kind == 0;
        }
    uint32_t length = to.checks->len - at;
    add (&to, (GmCheck){ .kind = GM_SOURCE_MEMO_SAVE, .in = c->in, .index = length }, NULL,
         (GmWhere){ 0 });
    GmCheck *memo = &g_array_index (to.checks, GmCheck, at);
    memo->index = length;
    memo->out = loads;
  }
  become (k, &to);
}

/* -- One list's constants together ------------------------------------------------------------- */

static bool
is_load (const GmCheck *c)
{
  return c->kind < GM_SOURCE_MEMO;
}

static bool
looks_at_two (const GmCheck *c)
{
  return c->kind == GM_GUARD_SAME || c->kind == GM_GUARD_DISTINCT;
}

static GmKeyParts *
parts_of (const GmCheck *c)
{
  return c->kind == GM_SOURCE_CACHED || c->kind == GM_GUARD_CACHED_ABSENT ? (GmKeyParts *) c->ptr
                                                                          : NULL;
}

static uint32_t
n_read (const GmCheck *c)
{
  const GmKeyParts *p = parts_of (c);
  return p ? 1 + p->n : looks_at_two (c) ? 2 : 1;
}

/* Returns the number of the i-th slot that the record reads. */
static uint32_t
slot_read (const GmCheck *c, uint32_t i)
{
  const GmKeyParts *p = parts_of (c);
  return i == 0 ? c->in : p ? p->parts[i - 1].slot : (uint32_t) c->index;
}

#define FEW_ITEMS 4 /* comparing so few items costs no more than a run */

/* Returns a new array with the only record that reads each slot; 0, which reads no slot, if no
 * record does or several do. */
static uint32_t *
only_users (const Compiler *k, const GmSource *const *extra, uint32_t n_extra)
{
  uint32_t *user = g_new0 (uint32_t, k->g->n_slots + 1);
  g_autofree bool *used = g_new0 (bool, k->g->n_slots + 1);
  for (uint32_t i = 0; i < n_extra; i++)
    used[k->slot_of[extra[i]->number]] = true;
  for (uint32_t i = 0; i < k->checks->len; i++) {
    const GmCheck *c = &g_array_index (k->checks, GmCheck, i);
    for (uint32_t n = 0; n < n_read (c); n++) {
      uint32_t slot = slot_read (c, n);
      user[slot] = used[slot] ? 0 : i;
      used[slot] = true;
    }
  }
  return user;
}

/* Moves all records from index `from` on that compare constants of one list or tuple to the first
 * of them, each next to its load, and puts a RUN before them. Moving them forward is safe: type and
 * length are checked there already, and no other record reads such an item. */
static void
gather_items (Compiler *k, uint32_t from, const GmSource *const *extra, uint32_t n_extra)
{
  uint32_t n = k->checks->len, n_slots = k->g->n_slots + 1;
  g_autofree uint32_t *user = only_users (k, extra, n_extra), *first = g_new0 (uint32_t, n_slots),
                      *last = g_new0 (uint32_t, n_slots), *count = g_new0 (uint32_t, n_slots),
                      *next = g_new0 (uint32_t, n + 1);
  g_autofree bool *taken = g_new0 (bool, n + 1);
  for (uint32_t i = from; i < n; i++) {
    const GmCheck *c = &g_array_index (k->checks, GmCheck, i);
    uint32_t check = is_load (c) ? user[c->out] : 0;
    if (check == 0 || !gm_guard_run_takes (c, &g_array_index (k->checks, GmCheck, check)))
      continue;
    taken[i] = taken[check] = true;
    if (count[c->in]++ == 0)
      first[c->in] = i;
    else
      next[last[c->in]] = i;
    last[c->in] = i;
  }
  for (uint32_t i = from; i < n; i++) {
    const GmCheck *c = &g_array_index (k->checks, GmCheck, i);
    if (taken[i] && is_load (c) && count[c->in] < FEW_ITEMS)
      taken[i] = taken[user[c->out]] = false;
  }
  Compiler to = another (k);
  for (uint32_t i = 0; i < n; i++) {
    const GmCheck *c = &g_array_index (k->checks, GmCheck, i);
    if (!taken[i])
      move (&to, k, i);
    if (!taken[i] || !is_load (c) || first[c->in] != i)
      continue;
    uint32_t at = to.checks->len, pairs = count[c->in];
    add (&to, (GmCheck){ .kind = GM_SOURCE_RUN, .in = c->in, .index = 2 * pairs }, NULL,
         (GmWhere){ 0 });
    for (uint32_t m = i; m != 0; m = next[m]) {
      move (&to, k, m);
      move (&to, k, user[g_array_index (k->checks, GmCheck, m).out]);
    }
    g_array_index (to.checks, GmCheck, at).ptr =
        gm_guard_run_new (&g_array_index (to.checks, GmCheck, at + 1), pairs);
  }
  become (k, &to);
}

/* -- The program ------------------------------------------------------------------------------- */

#define SMALL_TREE 4 /* checking so few records costs no more than a memo */

typedef struct {
  const GmSource *const *extra;
  uint32_t n_extra;
  Place *places;
  uint32_t classes; /* number of the tree without a root, as in Place.group */
  GPtrArray *trees; /* Tree, in the order in which the recorder met them */
} Plan;

typedef struct {
  uint32_t root;
  GArray *guards; /* uint32_t: indices of the tree's guards */
} Tree;

static void
tree_free (void *data)
{
  g_array_free (((Tree *) data)->guards, TRUE);
  g_free (data);
}

static void
give (Plan *p, uint32_t root, uint32_t guard)
{
  uint32_t *group = root == GM_NO_ROOT ? &p->classes : &p->places[root].group;
  if (*group == 0) {
    Tree *t = g_new (Tree, 1);
    *t = (Tree){ root, g_array_new (FALSE, FALSE, sizeof (uint32_t)) };
    g_ptr_array_add (p->trees, t);
    *group = p->trees->len;
  }
  g_array_append_val (((Tree *) p->trees->pdata[*group - 1])->guards, guard);
}

static void
add_tree (Compiler *k, const Plan *p, const Tree *t)
{
  uint32_t root = t->root, root_slot = GM_NO_ROOT;
  if (root != GM_NO_ROOT)
    root_slot = load (k, k->r->sources->pdata[root]);
  uint32_t from = k->checks->len, first = k->g->n_slots;
  add (k, (GmCheck){ .kind = GM_SOURCE_TREE }, NULL, (GmWhere){ 0 });
  k->in_tree = true;
  for (uint32_t i = 0; i < t->guards->len; i++)
    add_guard (k, &g_array_index (k->r->guards, GmGuard, g_array_index (t->guards, uint32_t, i)));
  k->in_tree = false;
  for (uint32_t i = 0; i < p->n_extra; i++) {
    const Place *place = place_of (p->extra[i], p->places);
    if (place->kind == PLACE_TREE && place->root == root)
      load (k, p->extra[i]);
  }
  gather (k, from + 1);
  uint32_t length = k->checks->len - from;
  if (length <= SMALL_TREE || !gm_host.counts_dicts) {
    g_array_remove_index (k->checks, from);
    g_ptr_array_remove_index (k->sources, from);
    g_array_remove_index (k->wheres, from);
    return;
  }
  add (k, (GmCheck){ .kind = GM_SOURCE_TREE_SAVE, .index = length }, NULL, (GmWhere){ 0 });
  GmGuardMemo *memo = gm_guard_memo_new (root_slot, first, k->g->n_slots - first);
  g_ptr_array_add (k->g->memos, memo);
  GmCheck *tree = &g_array_index (k->checks, GmCheck, from);
  tree->index = length;
  tree->ptr = memo;
}

/* -- Slots by the trees that read them --------------------------------------------------------- */

/* The trees, by number from 1 on (0: none), that fill each slot and to which each record
 * belongs. */
typedef struct {
  uint32_t *of_slot, *of_record;
  bool *shared;  /* slots that records outside of their tree read */
  bool *skipped; /* slots that a run need not fill */
  uint32_t *now; /* new numbers of the slots */
} Numbers;

static void
use (Numbers *k, uint32_t slot, uint32_t record)
{
  k->shared[slot] |= k->of_slot[slot] != k->of_record[record];
}

/* Renumbers the slots of each tree so that the slots which other records read come first; the
 * tree's memo fills only these. */
static void
renumber (GmGuards *g, const GmGuardSet *r, const GmSource *const *extra, uint32_t n_extra,
          uint32_t *slot_of)
{
  uint32_t n = g->n_slots + 1, tree = 0, first, n_own;
  Numbers k = { g_new0 (uint32_t, n), g_new0 (uint32_t, g->n + 1), g_new0 (bool, n),
                g_new0 (bool, n), g_new (uint32_t, n) };
  for (uint32_t i = 0; i < g->n; i++)
    if (g->checks[i].kind == GM_SOURCE_TREE) {
      gm_guard_memo_span (g->checks[i].ptr, &first, &n_own);
      tree++;
      for (uint32_t s = first; s < first + n_own; s++)
        k.of_slot[s] = tree;
      for (uint32_t c = i; c <= i + g->checks[i].index; c++)
        k.of_record[c] = tree;
    } else if (g->checks[i].kind == GM_SOURCE_RUN)
      for (uint32_t c = i + 1; c <= i + g->checks[i].index; c += 2)
        k.skipped[g->checks[c].out] = true;
  for (uint32_t i = 0; i < g->n; i++) {
    const GmCheck *c = &g->checks[i];
    if (c->kind == GM_SOURCE_TREE || c->kind == GM_SOURCE_TREE_SAVE)
      continue;
    for (uint32_t s = 0; s < n_read (c); s++)
      use (&k, slot_read (c, s), i);
  }
  for (uint32_t i = 0; i < n_extra; i++)
    k.shared[slot_of[extra[i]->number]] = true;
  for (uint32_t s = 0; s < n; s++)
    k.now[s] = s;
  for (uint32_t i = 0; i < g->n; i++)
    if (g->checks[i].kind == GM_SOURCE_TREE) {
      gm_guard_memo_span (g->checks[i].ptr, &first, &n_own);
      uint32_t next = first;
      for (int shared = 1; shared >= 0; shared--) {
        for (uint32_t s = first; s < first + n_own; s++)
          if (k.shared[s] == shared)
            k.now[s] = next++;
        if (shared)
          gm_guard_memo_share ((GmGuardMemo *) g->checks[i].ptr, next - first);
      }
    }
  for (uint32_t i = 0; i < g->n; i++) {
    GmCheck *c = &g->checks[i];
    c->in = k.now[c->in];
    if (is_load (c))
      c->out = k.now[c->out];
    if (looks_at_two (c))
      c->index = k.now[c->index];
    GmKeyParts *parts = parts_of (c);
    for (uint32_t s = 0; parts && s < parts->n; s++)
      parts->parts[s].slot = k.now[parts->parts[s].slot];
  }
  for (uint32_t i = 0; i < r->sources->len; i++)
    if (slot_of[i] != UINT32_MAX)
      slot_of[i] = k.now[slot_of[i]];
  for (uint32_t s = 0; s + 1 < n; s++)
    if (!k.skipped[s] && (k.of_slot[s] == 0 || k.shared[s]))
      g_array_append_val (g->lasting, k.now[s]);
  g_free (k.of_slot);
  g_free (k.of_record);
  g_free (k.shared);
  g_free (k.skipped);
  g_free (k.now);
}

GmGuards *
gm_guards_new (const GmGuardSet *r, const GmSource *const *extra, uint32_t n_extra,
               uint32_t *slot_of)
{
  GmGuards *g = g_new0 (GmGuards, 1);
  g_atomic_ref_count_init (&g->refs);
  g->text = g_string_chunk_new (256);
  g->dead = g_rc_box_new0 (bool);
  g->held = g_ptr_array_new ();
  g->lasting = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  g->memos = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_guard_memo_free);
  Compiler k = { .r = r,
                 .g = g,
                 .checks = g_array_new (FALSE, TRUE, sizeof (GmCheck)),
                 .sources = g_ptr_array_new (),
                 .wheres = g_array_new (FALSE, TRUE, sizeof (GmWhere)),
                 .slot_of = slot_of,
                 .seen = g_hash_table_new (NULL, NULL),
                 .callback = callback_new (g->dead) };
  Plan p = { .extra = extra,
             .n_extra = n_extra,
             .places = g_new0 (Place, r->sources->len + 1),
             .trees = g_ptr_array_new_with_free_func (tree_free) };
  g_autoptr (GArray) rest = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  for (uint32_t i = 0; i < r->sources->len; i++)
    slot_of[i] = UINT32_MAX;
  bool first = true; /* BACKEND_MATCH, MODES, ROOT_GLOBALS: before all else */
  for (uint32_t i = 0, root; i < r->guards->len; i++) {
    const GmGuard *gd = &g_array_index (r->guards, GmGuard, i);
    if (gd->kind == GM_GUARD_APART) {
      bool below;
      for (uint32_t end = i + group_of (r, i, p.places, &below, &root); i < end; i++)
        if (below)
          give (&p, root, i);
        else
          g_array_append_val (rest, i);
      i--;
    } else if (in_tree (gd, p.places, &root))
      give (&p, root, i);
    else if (first && !gd->source)
      add_guard (&k, gd);
    else
      g_array_append_val (rest, i);
    first &= !gd->source;
  }
  for (uint32_t i = 0; i < p.trees->len; i++)
    add_tree (&k, &p, p.trees->pdata[i]);
  uint32_t from = k.checks->len;
  for (uint32_t i = 0; i < rest->len; i++)
    add_guard (&k, &g_array_index (r->guards, GmGuard, g_array_index (rest, uint32_t, i)));
  for (uint32_t i = 0; i < n_extra; i++)
    load (&k, extra[i]);
  gather (&k, from);
  gather_items (&k, from, extra, n_extra);
  g->n = k.checks->len;
  g->checks = (GmCheck *) g_array_free (k.checks, FALSE);
  g->sources = (char **) g_ptr_array_free (k.sources, FALSE);
  g->wheres = (GmWhere *) g_array_free (k.wheres, FALSE);
  renumber (g, r, extra, n_extra, slot_of);
  g_free (p.places);
  g_ptr_array_free (p.trees, TRUE);
  g_hash_table_unref (k.seen);
  Py_XDECREF (k.callback);
  PyErr_Clear ();
  return g;
}

static const char *
slot_name (const GmGuards *g, uint32_t slot)
{
  for (uint32_t i = 0; i < g->n; i++)
    if (g->checks[i].kind < GM_GUARD_BACKEND_MATCH && g->checks[i].out == slot && g->sources[i])
      return g->sources[i];
  return "?";
}

/* Appends a record about the value named `source` to a finished program, and returns it. */
static GmCheck *
append (GmGuards *g, const char *source)
{
  uint32_t n = g->n++;
  g->checks = g_renew (GmCheck, g->checks, g->n);
  g->sources = g_renew (char *, g->sources, g->n);
  g->wheres = g_renew (GmWhere, g->wheres, g->n);
  g->sources[n] = (char *) source;
  g->wheres[n] = (GmWhere){ 0 };
  g->n_guards++;
  return &g->checks[n];
}

void
gm_guards_add_memory (GmGuards *g, uint32_t a, uint32_t b, const GmMemoryFact *fact)
{
  *append (g, slot_name (g, a)) = (GmCheck){ .kind = GM_GUARD_MEMORY,
                                             .in = a,
                                             .index = b,
                                             .ptr = g_memdup2 (fact, sizeof *fact),
                                             .ptr2 = slot_name (g, b) };
}

/* Returns the place from which checks read the symbol `size`: the first input that has it as a
 * size, else as a stride; else the number `or_else`. */
static GmSizeLoad
load_of (const GmGuardSizes *of, int64_t size, int64_t or_else)
{
  for (int strides = 0; strides < 2; strides++)
    for (uint32_t i = 0; i < of->n_inputs; i++) {
      const GmMeta *m = gm_graph_meta (of->graph, g_array_index (of->graph->inputs, GmValueId, i));
      for (int d = 0; d < m->ndim && of->inputs[i].slot != GM_SLOT_RNG; d++)
        if ((strides ? m->strides[d] : m->sizes[d]) == size)
          return (GmSizeLoad){ .kind = strides ? GM_SIZE_LOAD_STRIDE : GM_SIZE_LOAD_SIZE,
                               .slot = of->inputs[i].slot,
                               .dim = (uint8_t) d };
    }
  return (GmSizeLoad){ .kind = GM_SIZE_LOAD_NUMBER, .value = or_else };
}

/* Adds, for each input's stride that is an expression, a check that the stride equals the
 * expression. */
static void
add_strides (GmGuards *g, const GmGuardSizes *of, const GmSizeLoad *loads)
{
  const GmGraph *graph = of->graph;
  for (uint32_t i = 0; i < of->n_inputs; i++) {
    const GmMeta *m = gm_graph_meta (graph, g_array_index (graph->inputs, GmValueId, i));
    for (int d = 0; d < m->ndim && of->inputs[i].slot != GM_SLOT_RNG; d++) {
      int64_t stride = m->strides[d];
      if (!gm_size_is_symbolic (stride))
        continue;
      GmSizeLoad own = { .kind = GM_SIZE_LOAD_STRIDE,
                         .slot = of->inputs[i].slot,
                         .dim = (uint8_t) d };
      const GmSymRow *row = gm_sym_row (graph->sym, gm_size_row (stride));
      if (row->kind == GM_SYM_SYMBOL && !memcmp (&loads[row->a], &own, sizeof own))
        continue;
      *append (g, slot_name (g, own.slot)) =
          (GmCheck){ .kind = GM_GUARD_SIZES,
                     .ptr = gm_size_check_new_stride (graph->sizes, stride, &own, loads) };
    }
  }
}

/* Sets needed[i] for each fact that needs a guard, because no other guarded fact implies it. Facts
 * that each call checks about data do not count as such: a call that violates them may not get that
 * far. */
static void
find_needed (const GmSizes *s, bool *needed)
{
  uint32_t n = gm_size_facts_n (s->facts), k = 0;
  g_autoptr (GmSizeFacts) closed = gm_size_facts_new (s->sym);
  g_autofree uint32_t *from = g_new (uint32_t, n + 1);
  g_autofree bool *own = g_new0 (bool, n + 1);
  if (!s->counts->len) {
    gm_size_facts_needed (s->facts, needed);
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    GmSizeFact f = gm_size_facts_nth (s->facts, i);
    if (gm_sizes_fact_is_open (s, &f))
      continue;
    gm_size_facts_add (closed, f.rel, f.a, f.b);
    if (gm_size_facts_n (closed) > k)
      from[k++] = i;
  }
  gm_size_facts_needed (closed, own);
  for (uint32_t i = 0; i < k; i++)
    needed[from[i]] = own[i];
}

void
gm_guards_add_sizes (GmGuards *g, const GmGuardSizes *of)
{
  GmSizes *s = of->graph->sizes;
  if (!s)
    return;
  uint32_t n = gm_size_facts_n (s->facts);
  g_autofree bool *needed = g_new0 (bool, n + 1);
  g_autofree GmSizeLoad *loads = g_new0 (GmSizeLoad, gm_sym_n_symbols (s->sym) + 1);
  for (uint32_t i = 0; i < gm_sym_n_symbols (s->sym); i++) {
    int64_t size = gm_sizes_nth_symbol (s, i), number = 0;
    bool fixed = gm_sizes_is_number (s, size, &number);
    loads[i] = load_of (of, fixed ? GM_SIZE_NO_HINT : size, number);
    if (!fixed && loads[i].kind == GM_SIZE_LOAD_NUMBER)
      loads[i].value = i < s->hints->len ? g_array_index (s->hints, int64_t, i) : 0;
  }
  for (uint32_t i = 0; i < g->n; i++)
    if (g->checks[i].kind == GM_GUARD_TENSOR && gm_meta_is_symbolic (g->checks[i].ptr)) {
      GmSizes *was = gm_sizes_enter (s);
      g_autofree char *text = gm_meta_text (g->checks[i].ptr);
      gm_sizes_enter (was);
      g->checks[i].ptr2 = g_string_chunk_insert (g->text, text);
    }
  add_strides (g, of, loads);
  find_needed (s, needed);
  for (uint32_t i = 0; i < n; i++) {
    GmSizeFact fact = gm_size_facts_nth (s->facts, i);
    GmSizeCheck *check = needed[i] ? gm_size_check_new (s, &fact, loads) : NULL;
    if (!check)
      continue;
    *append (g, NULL) = (GmCheck){ .kind = GM_GUARD_SIZES, .ptr = check };
    const GmWhere *p = i < of->n_places ? &of->places[i] : NULL;
    if (p && p->file && p->line > 0)
      g->wheres[g->n - 1] = (GmWhere){ g_string_chunk_insert_const (g->text, p->file), p->line };
  }
}

void
gm_guards_add_call (GmGuards *g, const GmCallFact *fact)
{
  g_assert (!g->call);
  g->call = g_memdup2 (fact, sizeof *fact);
  *append (g, "saved_tensors_hooks") = (GmCheck){ .kind = GM_GUARD_SAVED_HOOKS, .ptr = g->call };
}

int
gm_guards_traverse (const GmGuards *g, visitproc visit, void *arg)
{
  for (uint32_t i = 0; i < g->held->len; i++) {
    PyObject *o = g->held->pdata[i];
    if (!PyWeakref_Check (o)) /* weak references are not visited: an unreachable one would not
                                 report the death of its object */
      Py_VISIT (o);
  }
  return 0;
}

GmGuards *
gm_guards_ref (GmGuards *g)
{
  g_atomic_ref_count_inc (&g->refs);
  return g;
}

void
gm_guards_unref (GmGuards *g)
{
  if (g == NULL || !g_atomic_ref_count_dec (&g->refs))
    return;
  for (uint32_t i = 0; i < g->n; i++) {
    GmCheck *c = &g->checks[i];
    if (c->kind == GM_GUARD_MEMORY)
      g_free (((const GmMemoryFact *) c->ptr)->data);
    if (c->kind == GM_GUARD_SIZES)
      gm_size_check_free ((GmSizeCheck *) c->ptr);
    bool of_group = c->kind == GM_GUARD_APART && c->index != 0; /* the first has the table */
    if (c->kind == GM_GUARD_TENSOR || c->kind == GM_GUARD_MEMORY || c->kind == GM_SOURCE_RUN
        || of_group || parts_of (c))
      g_free ((void *) c->ptr);
  }
  for (uint32_t i = 0; i < g->held->len; i++)
    Py_DECREF ((PyObject *) g->held->pdata[i]);
  if (g->call)
    g->call->destroy (g->call->data);
  g_free (g->call);
  g_ptr_array_free (g->held, TRUE);
  g_array_free (g->lasting, TRUE);
  g_ptr_array_free (g->memos, TRUE);
  g_rc_box_release (g->dead);
  g_free (g->checks);
  g_free (g->sources);
  g_free (g->wheres);
  g_string_chunk_free (g->text);
  g_free (g);
}
