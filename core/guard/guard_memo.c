/* SPDX-License-Identifier: Apache-2.0
 * guard_memo.c -- checks a whole tree of objects by reading each object once.
 *
 * The guards of a model test many properties of each of its modules: its type, attributes that it
 * has, attributes that it lacks, and their values. When all of them held, the memo remembers every
 * object that they read, with its type, its dict and the version of the dict; every list with its
 * items; every class with its version tag; every tensor. As long as these are the same, the guards
 * hold, and the records are skipped.
 *
 * Invariant: a node comes after the node of the object in which it was found. So when a node is
 * checked, the holder of its object is known to be unchanged, and the object to be alive: the memo
 * owns no references. An attribute of an unchanged dict is the same object as before, and
 * comparisons with it need not be repeated. An item of a list may be another object at the same
 * address: only the properties that its own node compares are certain (the compiler, guard_build.c,
 * makes this distinction). A tensor's shape is no attribute in a dict: remembered tensors are
 * marked, and a change of a marked one advances gm_tensor_watch_epoch.
 *
 * A change of a dict is detected by its counter, see GmTraceHost.dict_counter.
 *
 * A tree that changes at every call is not worth remembering: after each memo that never held, more
 * misses pass before the next.
 * If the host counts replaced classes and dicts (GmTraceHost.identity_epoch) and none was replaced,
 * an object below the root is the same as long as the dict in which it was found is unchanged, and
 * only the versions of the dicts are compared; if no dict of the process has changed, not even
 * these. The root may be another object at the same address, and so may an item of a list: these
 * are checked in any case, and all of a tree with lists, unless no dict has changed.
 */
#include "core/guard/guard.h"

#include "core/guard/guards.h"

typedef struct {
  PyObject *object;
  PyTypeObject *type;
  PyObject *const *where; /* address of the object's dict pointer; of `dict` itself for a node of a
                             dict; NULL for a list */
  PyObject *dict;
  bool loose; /* only the object's address is known to be the same (the root, an item of a list), or
                 its changes are not counted (a list) */
  union {
    struct {
      const uint64_t *counter; /* counter of the dict's changes; NULL: they are not counted */
      uint64_t version;
    };
    struct {
      uint32_t at, n; /* range of a list's items in `items` */
    };
  };
} Node;

/* The counter of a node's dict, and its value when the records held last. */
typedef struct {
  const uint64_t *counter;
  uint64_t version;
} Dict;

typedef struct {
  PyObject *object;
  PyTypeObject *type;
  const GmTensor *tensor; /* NULL: only the type is compared */
  bool loose;
} Leaf;

typedef struct {
  const PyTypeObject *type;
  unsigned tag;
} Class;

struct GmGuardMemo {
  uint32_t root, first, n;
  bool valid, held;        /* held: true once since the last save */
  uint32_t wait, patience; /* number of misses until the next save; its initial value after a save
                              that was in vain */
  uint64_t epoch;
  uint32_t n_shared; /* number of slots, the first ones, that other records read */
  bool told;         /* the host counts each replacement of a class or dict below the root */
  uint64_t identities, quiet; /* values of identity_epoch and dicts_quiet when the memo held last */
  PyObject *root_object;
  bool has_lists;
  uint32_t looked;   /* see gm_guard_memo_n_looked */
  PyObject **values; /* values of the slots */
  GArray *classes, *nodes, *dicts, *leaves, *items;
  GArray *loose_nodes, *loose_leaves; /* copies of the loose nodes and leaves */
};

#define MAX_PATIENCE 1024
#define MANY 24 /* comparing so many objects costs as much as a call of dicts_quiet */

GM_THREAD bool gm_guards_trust_trees;

GmGuardMemo *
gm_guard_memo_new (uint32_t root, uint32_t first, uint32_t n)
{
  GmGuardMemo *m = g_new0 (GmGuardMemo, 1);
  m->root = root;
  m->first = first;
  m->n = m->n_shared = n;
  m->values = g_new0 (PyObject *, n + 1);
  m->classes = g_array_new (FALSE, FALSE, sizeof (Class));
  m->nodes = g_array_new (FALSE, FALSE, sizeof (Node));
  m->dicts = g_array_new (FALSE, FALSE, sizeof (Dict));
  m->leaves = g_array_new (FALSE, FALSE, sizeof (Leaf));
  m->items = g_array_new (FALSE, FALSE, sizeof (PyObject *));
  m->loose_nodes = g_array_new (FALSE, FALSE, sizeof (Node));
  m->loose_leaves = g_array_new (FALSE, FALSE, sizeof (Leaf));
  return m;
}

void
gm_guard_memo_free (GmGuardMemo *m)
{
  g_free (m->values);
  g_array_free (m->classes, TRUE);
  g_array_free (m->nodes, TRUE);
  g_array_free (m->dicts, TRUE);
  g_array_free (m->leaves, TRUE);
  g_array_free (m->items, TRUE);
  g_array_free (m->loose_nodes, TRUE);
  g_array_free (m->loose_leaves, TRUE);
  g_free (m);
}

void
gm_guard_memo_share (GmGuardMemo *m, uint32_t n)
{
  m->n_shared = n;
}

void
gm_guard_memo_span (const GmGuardMemo *m, uint32_t *first, uint32_t *n)
{
  *first = m->first;
  *n = m->n;
}

/* -- The check --------------------------------------------------------------------------------- */

static bool
list_same (const GmGuardMemo *m, const Node *n)
{
  if (Py_TYPE (n->object) != n->type || PyList_GET_SIZE (n->object) != (Py_ssize_t) n->n)
    return false;
  const PyObject *const *now = (const PyObject *const *) ((PyListObject *) n->object)->ob_item;
  const PyObject *const *then = (const PyObject *const *) m->items->data + n->at;
  for (uint32_t i = 0; i < n->n; i++)
    if (now[i] != then[i])
      return false;
  return true;
}

static inline bool
node_same (const GmGuardMemo *m, const Node *n)
{
  if (G_UNLIKELY (!n->where))
    return list_same (m, n);
  return Py_TYPE (n->object) == n->type && *n->where == n->dict && *n->counter == n->version;
}

static inline bool
leaf_same (const Leaf *l)
{
  return Py_TYPE (l->object) == l->type && (!l->tensor || gm_host_tensor (l->object) == l->tensor);
}

static bool
all_same (GmGuardMemo *m, const GArray *nodes, const GArray *leaves)
{
  m->looked += nodes->len + leaves->len;
  const Node *n = (const Node *) nodes->data, *end = n + nodes->len;
  for (; n < end; n++)
    if (!node_same (m, n))
      return false;
  const Leaf *l = (const Leaf *) leaves->data, *last = l + leaves->len;
  for (; l < last; l++)
    if (!leaf_same (l))
      return false;
  return true;
}

static bool
versions_same (GmGuardMemo *m)
{
  m->looked += m->dicts->len;
  const Dict *d = (const Dict *) m->dicts->data, *end = d + m->dicts->len;
  for (; d < end; d++)
    if (*d->counter != d->version)
      return false;
  return true;
}

/* True if the remembered dicts and lists are unchanged, provided that no object has got another
 * class or dict. */
static bool
dicts_same (GmGuardMemo *m)
{
  uint64_t quiet = m->nodes->len >= MANY ? gm_host.dicts_quiet () : 0;
  if (quiet != 0 && quiet == m->quiet)
    return all_same (m, m->loose_nodes, m->loose_leaves);
  if (m->has_lists ? !all_same (m, m->nodes, m->leaves)
                   : !all_same (m, m->loose_nodes, m->loose_leaves) || !versions_same (m))
    return false;
  m->quiet = quiet;
  return true;
}

static bool
same (GmGuardMemo *m, PyObject *const *slots)
{
  if (m->root != GM_NO_ROOT && slots[m->root] != m->root_object)
    return false;
  if (m->epoch != gm_tensor_watch_epoch_get ())
    return false;
  const Class *classes = (const Class *) m->classes->data;
  m->looked = m->classes->len;
  for (guint i = 0; i < m->classes->len; i++)
    if (classes[i].type->tp_version_tag != classes[i].tag)
      return false;
  if (m->told && m->identities == *gm_host.identity_epoch)
    return dicts_same (m);
  if (!all_same (m, m->nodes, m->leaves))
    return false;
  m->identities = m->told ? *gm_host.identity_epoch : 0;
  m->quiet = 0;
  return true;
}

bool
gm_guard_memo_holds (GmGuardMemo *m, PyObject **slots)
{
  if (!m->valid)
    return false;
  bool trust = gm_guards_trust_trees && (m->root == GM_NO_ROOT || slots[m->root] == m->root_object);
  if (!trust && !same (m, slots)) {
    m->valid = false;
    m->patience = m->held ? 0 : MIN (m->patience * 2 + 1, MAX_PATIENCE);
    m->wait = m->patience;
    return false;
  }
  m->held = true;
  memcpy (slots + m->first, m->values, m->n_shared * sizeof (PyObject *));
  return true;
}

uint32_t
gm_guard_memo_n_looked (const GmGuardMemo *m)
{
  return m->valid ? m->looked : UINT32_MAX;
}

bool
gm_guard_memo_agrees (const GmGuardMemo *m, PyObject *const *slots)
{
  return memcmp (slots + m->first, m->values, m->n * sizeof (PyObject *)) == 0;
}

/* -- Remembering ------------------------------------------------------------------------------- */

static bool
add_class (GmGuardMemo *m, const PyTypeObject *type)
{
  for (guint i = 0; i < m->classes->len; i++)
    if (g_array_index (m->classes, Class, i).type == type)
      return true;
  Class c = { type, type->tp_version_tag };
  g_array_append_val (m->classes, c);
  return c.tag != 0 && (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG);
}

/* Adds a node for an object with a dict, or for a dict; false: the object cannot be remembered.
 * `where` of a dict is set later, when the array has its final place. */
static bool
add_node (GmGuardMemo *m, PyObject *o, bool is_dict, bool loose)
{
  PyObject **where = is_dict ? NULL : _PyObject_GetDictPtr (o);
  if (!is_dict && (!where || !*where || Py_TYPE (o)->tp_itemsize != 0))
    return false;
  Node n = {
    .object = o, .type = Py_TYPE (o), .where = where, .dict = is_dict ? o : *where, .loose = loose
  };
  n.counter = gm_host.dict_counter (n.dict);
  n.version = n.counter ? *n.counter : 0;
  g_array_append_val (m->nodes, n);
  return true;
}

static void
add_list (GmGuardMemo *m, PyObject *o)
{
  Node n = { .object = o, .type = Py_TYPE (o), .loose = true };
  n.at = m->items->len;
  n.n = (uint32_t) PyList_GET_SIZE (o);
  g_array_append_vals (m->items, ((PyListObject *) o)->ob_item, n.n);
  m->has_lists = true;
  g_array_append_val (m->nodes, n);
}

static void
add_leaf (GmGuardMemo *m, PyObject *o, bool is_tensor, bool loose)
{
  Leaf l = { o, Py_TYPE (o), is_tensor ? gm_host_tensor (o) : NULL, loose };
  if (l.tensor)
    gm_tensor_watch (gm_host_tensor (o));
  g_array_append_val (m->leaves, l);
}

/* Nodes that an object has already: an instance of a list or dict subclass needs one for its items
 * and one for its attributes. */
typedef enum { SEEN_TYPE = 1, SEEN_ATTRIBUTES = 2, SEEN_ITEMS = 4, LOOSE = 8 } Seen;

static bool
add (GmGuardMemo *m, const GmCheck *c, PyObject *const *slots, uint8_t *seen)
{
  PyObject *o = slots[c->in];
  bool attributes_new = !(seen[c->in] & SEEN_ATTRIBUTES), items_new = !(seen[c->in] & SEEN_ITEMS),
       loose = seen[c->in] & LOOSE;
  switch ((GmRecordKind) c->kind) {
  case GM_GUARD_CLASS_LOOKUP:
  case GM_GUARD_CLASS_DICT:
  case GM_GUARD_SUBCLASS:
  case GM_SOURCE_CLASS_ATTR:
    return add_class (m, (const PyTypeObject *) c->obj);
  case GM_SOURCE_ATTR:
  case GM_SOURCE_INSTANCE_DICT:
  case GM_GUARD_ATTR_ABSENT:
    seen[c->in] |= SEEN_ATTRIBUTES;
    return !attributes_new || add_node (m, o, false, loose);
  case GM_SOURCE_DICT_ITEM:
  case GM_GUARD_DICT_ABSENT:
  case GM_GUARD_DICT_LEN:
  case GM_GUARD_DICT_KEYS:
    seen[c->in] |= SEEN_ITEMS;
    return !items_new || add_node (m, o, true, loose);
  case GM_GUARD_LIST_LEN:
  case GM_SOURCE_LIST_ITEM:
    seen[c->in] |= SEEN_ITEMS;
    if (items_new)
      add_list (m, o);
    if (c->kind == GM_SOURCE_LIST_ITEM)
      seen[c->out] |= LOOSE;
    return true;
  case GM_GUARD_TENSOR:
    if (gm_host_tensor (o)->base) /* changes of the base's history are uncounted */
      return false;
    add_leaf (m, o, true, loose);
    return true;
  case GM_GUARD_TYPE:
    seen[c->in] |= SEEN_TYPE;
    return true;
  default: /* the identity of the object answers the record */
    return true;
  }
}

/* Fills the memo's arrays of versions and of loose nodes and leaves, once the nodes have their
 * final place; false: a dict has no version. */
static bool
finish (GmGuardMemo *m)
{
  const PyTypeObject *asked = NULL;
  m->told = gm_host.identity_epoch != NULL;
  g_array_set_size (m->dicts, 0);
  g_array_set_size (m->loose_nodes, 0);
  g_array_set_size (m->loose_leaves, 0);
  for (guint i = 0; i < m->nodes->len; i++) {
    Node *n = &g_array_index (m->nodes, Node, i);
    bool itself = n->dict == n->object;
    if (itself)
      n->where = &n->dict;
    if (n->loose)
      g_array_append_val (m->loose_nodes, *n);
    if (n->dict == NULL)
      continue;
    if (n->version == 0)
      return false;
    g_array_append_val (m->dicts, ((Dict){ n->counter, n->version }));
    if (m->told && !itself && n->type != asked)
      m->told = gm_host.identity_told (n->type);
    asked = itself ? asked : n->type;
  }
  for (guint i = 0; i < m->leaves->len; i++)
    if (g_array_index (m->leaves, Leaf, i).loose)
      g_array_append_val (m->loose_leaves, g_array_index (m->leaves, Leaf, i));
  m->identities = m->told ? *gm_host.identity_epoch : 0;
  m->quiet = 0;
  return true;
}

void
gm_guard_memo_save (GmGuardMemo *m, const GmCheck *first, const GmCheck *end,
                    PyObject *const *slots)
{
  if (m->wait > 0) {
    m->wait--;
    return;
  }
  g_array_set_size (m->classes, 0);
  g_array_set_size (m->nodes, 0);
  g_array_set_size (m->leaves, 0);
  g_array_set_size (m->items, 0);
  uint32_t n_seen = MAX (m->first + m->n, m->root == GM_NO_ROOT ? 0 : m->root + 1) + 1;
  g_autofree uint8_t *seen = g_new0 (uint8_t, n_seen);
  bool ok = true;
  m->has_lists = false;
  if (m->root != GM_NO_ROOT)
    seen[m->root] = LOOSE;
  for (const GmCheck *c = first; c < end && ok; c++)
    ok = add (m, c, slots, seen);
  for (uint32_t i = 0; i < n_seen; i++)
    if ((seen[i] & ~LOOSE) == SEEN_TYPE)
      add_leaf (m, slots[i], false, seen[i] & LOOSE);
  memcpy (m->values, slots + m->first, m->n * sizeof (PyObject *));
  m->root_object = m->root == GM_NO_ROOT ? NULL : slots[m->root];
  ok &= finish (m);
  m->epoch = gm_tensor_watch_epoch_get ();
  m->valid = ok;
  m->held = false;
  if (!ok) { /* the memo could never hold */
    m->patience = MAX_PATIENCE;
    m->wait = MAX_PATIENCE;
  }
}
