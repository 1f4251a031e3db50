/* SPDX-License-Identifier: Apache-2.0
 * guard.c -- guards as they are made, and the flat program that checks them.
 *
 * A guard is appended once (guard_index knows which exist); at the end all are compiled, in order,
 * to records, each preceded by the loads that its source needs.  Checking is one loop with one
 * switch, expanded from guards.def.  Invariant: a record reads only slots that an earlier record
 * wrote.
 */
#include "core/trace/class_made.h"
#include "core/trace/guard.h"

#include "core/trace/recorder.h"

#include <string.h>

/* -- While recording ------------------------------------------------------- */

guint
gm_guard_hash (gconstpointer p)
{
  const GmGuard *g = p;
  guint h = g->kind * 131 + (g->source ? g->source->number * 31 + 1 : 0) +
            (g->other ? g->other->number * 17 + 1 : 0);
  return h + g_direct_hash (g->obj) * 3 + g_direct_hash (g->key) * 5 + (guint) g->index * 11;
}

gboolean
gm_guard_equal (gconstpointer p, gconstpointer q)
{
  const GmGuard *a = p, *b = q;
  if (a->kind == GM_GUARD_TENSOR) /* one meta per source, at entry: ptr is a copy of it */
    return b->kind == a->kind && a->source == b->source;
  return a->kind == b->kind && a->source == b->source && a->other == b->other && a->obj == b->obj &&
         a->key == b->key && a->index == b->index && a->ptr == b->ptr;
}

void
gm_guard_add (GmRecorder *r, const GmGuard *init)
{
  if (r->stop || g_hash_table_contains (r->guard_index, init))
    return;
  if (G_UNLIKELY (r->made != NULL) && init->obj && gm_class_made (r, init->obj)) {
    if (init->kind == GM_GUARD_CLASS_LOOKUP) /* what its bases answer is guarded */
      gm_class_lookup_made (r, (PyTypeObject *) init->obj, init->key);
    return;
  }
  GmGuard g = *init;
  g.line = gm_record_line (r);
  g.file = r->frame ? PyUnicode_AsUTF8 (r->frame->code->code->co_filename) : NULL;
  if (g.obj)
    gm_record_keep (r, g.obj);
  if (g.key)
    gm_record_keep (r, g.key);
  g_array_append_val (r->guards, g);
  g_hash_table_add (r->guard_index, gm_arena_copy (r->arena, &g, sizeof g));
}

/* -- What the statements use ----------------------------------------------- */

static inline PyObject *
dict_get (PyObject *dict, PyObject *key, Py_hash_t hash)
{
  return _PyDict_GetItem_KnownHash (dict, key, hash);
}

/* The deque holds the item, so the reference that its C code hands out is not needed. */
static inline PyObject *
deque_item (PyObject *deque, Py_ssize_t i)
{
  PyObject *item = i < Py_SIZE (deque) ? Py_TYPE (deque)->tp_as_sequence->sq_item (deque, i) : NULL;
  if (item)
    Py_DECREF (item);
  return item;
}

/* The getter of C makes an int, which goes again. */
static bool
deque_max_equals (PyObject *deque, PyObject *want)
{
  PyObject *max = PyObject_GetAttrString (deque, "maxlen");
  bool same = max && (max == want || (PyLong_Check (max) && PyLong_Check (want) &&
                                      PyLong_AsLong (max) == PyLong_AsLong (want)));
  PyErr_Clear ();
  Py_XDECREF (max);
  return same;
}

/* The instance dict's entry.  Making the dict of an object that keeps its attributes inline happens
 * once per object. */
static inline PyObject *
attr_get (PyObject *o, PyObject *key, Py_hash_t hash)
{
  PyObject **dict = _PyObject_GetDictPtr (o);
  return dict && *dict ? _PyDict_GetItem_KnownHash (*dict, key, hash) : NULL;
}

static inline PyObject *
instance_dict (PyObject *o)
{
  static PyObject *empty;
  PyObject **dict = _PyObject_GetDictPtr (o);
  if (dict && *dict)
    return *dict;
  return empty ? empty : (empty = PyDict_New ());
}

static inline uint64_t
attrs_version (PyObject *o)
{
  return gm_host.attrs_version (o);
}

/* The run's last record: the loop goes on behind it. */
static inline const GmCheck *
recall (const GmCheck *memo, PyObject **slots)
{
  for (uint32_t i = 1; i <= memo->out; i++)
    slots[memo[i].out] = (PyObject *) memo[i].ptr;
  return memo + memo->index;
}

static inline void
save (GmCheck *memo, uint64_t version, PyObject **slots)
{
  memo->hash = (Py_hash_t) version;
  for (uint32_t i = 1; i <= memo->out; i++)
    memo[i].ptr = slots[memo[i].out];
}

static inline bool
int_equals (PyObject *v, int64_t i)
{
  int overflow;
  long long x = PyLong_AsLongLongAndOverflow (v, &overflow);
  return !overflow && x == i;
}

static inline int64_t
float_bits (PyObject *v)
{
  int64_t bits;
  double d = PyFloat_AS_DOUBLE (v);
  memcpy (&bits, &d, sizeof bits);
  return bits;
}

/* Values of one exact builtin type. */
static bool
constant_equals (PyObject *a, PyObject *b)
{
  if (PyComplex_CheckExact (a) && PyComplex_CheckExact (b)) { /* to the bit: signs of zero, NaN */
    Py_complex x = PyComplex_AsCComplex (a), y = PyComplex_AsCComplex (b);
    return memcmp (&x, &y, sizeof x) == 0;
  }
  int same = PyObject_RichCompareBool (a, b, Py_EQ);
  if (same < 0)
    PyErr_Clear ();
  return same == 1;
}

static inline bool
memory_holds (const GmMemoryFact *fact, PyObject *a, PyObject *b)
{
  return fact->holds (fact->data, gm_host_tensor (a), gm_host_tensor (b));
}

static bool
long_equals (PyObject *a, PyObject *b)
{
  PyObject *same = PyLong_Type.tp_richcompare (a, b, Py_EQ); /* a bool: no object is made */
  bool equal = same == Py_True;
  Py_XDECREF (same);
  return equal;
}

/* The value inside of an instance of a subclass, whatever the class overrides; the type is guarded. */
static bool
value_equals (PyObject *v, PyObject *want)
{
  if (PyUnicode_CheckExact (want))
    return gm_str_equal (v, want);
  if (PyFloat_CheckExact (want))
    return float_bits (v) == float_bits (want);
  if (PyLong_CheckExact (want))
    return long_equals (v, want);
  return PyBytes_GET_SIZE (v) == PyBytes_GET_SIZE (want)
         && memcmp (PyBytes_AS_STRING (v), PyBytes_AS_STRING (want), (size_t) PyBytes_GET_SIZE (v)) == 0;
}

static bool
key_equals (PyObject *a, PyObject *b)
{
  return a == b || (Py_TYPE (a) == Py_TYPE (b) && gm_is_constant_type (Py_TYPE (a)) &&
                    constant_equals (a, b));
}

static bool
dict_keys_match (PyObject *dict, PyObject *keys)
{
  Py_ssize_t n = PyTuple_GET_SIZE (keys), pos = 0, i = 0;
  if (PyDict_GET_SIZE (dict) != n)
    return false;
  PyObject *key, *value;
  while (PyDict_Next (dict, &pos, &key, &value))
    if (i >= n || !key_equals (key, PyTuple_GET_ITEM (keys, i++)))
      return false;
  return i == n;
}

/* An OrderedDict has an order of its own, seen through an iterator of C: the one object made here.
 */
static bool
ordered_keys_match (PyObject *dict, PyObject *keys)
{
  Py_ssize_t n = PyTuple_GET_SIZE (keys), i = 0;
  PyObject *it = PyDict_GET_SIZE (dict) == n ? PyODict_Type.tp_iter (dict) : NULL, *key;
  while (it && (key = PyIter_Next (it)) != NULL) {
    bool same = i < n && key_equals (key, PyTuple_GET_ITEM (keys, i));
    Py_DECREF (key);
    i = same ? i + 1 : n + 1;
    if (!same)
      break;
  }
  bool all = it && i == n && PyErr_Occurred () == NULL;
  PyErr_Clear ();
  Py_XDECREF (it);
  return all;
}

static bool
set_equals (PyObject *set, PyObject *want)
{
  if (PySet_GET_SIZE (set) != PySet_GET_SIZE (want))
    return false;
  Py_ssize_t pos = 0;
  PyObject *key;
  Py_hash_t hash;
  while (_PySet_NextEntry (set, &pos, &key, &hash)) {
    if (!PyUnicode_CheckExact (key) && !PyLong_CheckExact (key))
      return false;
    if (PySet_Contains (want, key) != 1)
      return false;
  }
  return true;
}

static bool
set_order_matches (PyObject *set, PyObject *want)
{
  Py_ssize_t pos = 0, i = 0, n = PyTuple_GET_SIZE (want);
  PyObject *key;
  Py_hash_t hash;
  while (_PySet_NextEntry (set, &pos, &key, &hash))
    if (i >= n || !key_equals (key, PyTuple_GET_ITEM (want, i++)))
      return false;
  return i == n;
}

static inline int64_t
n_defaults (PyObject *f)
{
  PyObject *d = ((PyFunctionObject *) f)->func_defaults;
  return d ? PyTuple_GET_SIZE (d) : 0;
}

static inline bool
tensor_matches (const GmTensor *t, const GmMeta *m)
{
  if (t->base) /* a view's history follows its base's, when someone asks */
    gm_host.requires_grad (t);
  if (t == NULL || memcmp (&t->meta, m, offsetof (GmMeta, sizes)) != 0)
    return false;
  for (int i = 0; i < m->ndim; i++)
    if (t->meta.sizes[i] != m->sizes[i] || t->meta.strides[i] != m->strides[i])
      return false;
  return true;
}

/* -- The check ------------------------------------------------------------- */

static inline bool
check (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals, PyFunctionObject *func,
       PyObject **slots, uint32_t *failed)
{
  const GmCheck *end = g->checks + g->n;
  if (G_UNLIKELY (*g->dead)) {
    if (failed)
      *failed = UINT32_MAX;
    return false;
  }
  for (const GmCheck *c = g->checks; c < end; c++) {
    switch ((GmRecordKind) c->kind) {
#define v (slots[c->in])
#define OK(x)                                                                                      \
  if (G_UNLIKELY (!(x)))                                                                           \
  goto miss
#define GOT(x)                                                                                     \
  if (G_UNLIKELY ((slots[c->out] = (PyObject *) (x)) == NULL))                                     \
  goto miss
#define LOAD(NAME, statement)                                                                      \
  case GM_SOURCE_##NAME:                                                                           \
    statement;                                                                                     \
    break;
#define GUARD(NAME, cost, statement, text)                                                         \
  case GM_GUARD_##NAME:                                                                            \
    statement;                                                                                     \
    break;
#include "core/trace/guards.def"
#undef v
#undef OK
#undef GOT
    case GM_N_RECORD_KINDS:
      break;
    }
    continue;
  miss:
    if (failed)
      *failed = (uint32_t) (c - g->checks);
    return false;
  }
  return true;
}

bool
gm_guards_check (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
                 PyFunctionObject *func, PyObject **slots)
{
  return check (g, env, locals, func, slots, NULL);
}

bool
gm_guards_dead (const GmGuards *g)
{
  return *g->dead;
}

uint32_t
gm_guards_n_slots (const GmGuards *g)
{
  return g->n_slots;
}

uint32_t
gm_guards_n_checks (const GmGuards *g)
{
  return g->n_guards;
}

/* -- Text ------------------------------------------------------------------ */

static char *
value_text (PyObject *o)
{
  if (PyType_Check (o))
    return g_strdup (((PyTypeObject *) o)->tp_name);
  if (o == Py_None || gm_is_constant_type (Py_TYPE (o)) || PyAnySet_Check (o) ||
      Py_TYPE (o) == gm_host.dtype_type) {
    PyObject *text = PyObject_Repr (o);
    const char *utf8 = text ? PyUnicode_AsUTF8 (text) : NULL;
    char *s = g_strdup (utf8 ? utf8 : "?");
    PyErr_Clear ();
    Py_XDECREF (text);
    return s;
  }
  if (Py_TYPE (o) == gm_host.tensor_type && gm_host_tensor (o))
    return gm_meta_text (&gm_host_tensor (o)->meta);
  PyObject *name = PyObject_GetAttrString (o, "__name__");
  PyErr_Clear ();
  char *s = name && PyUnicode_Check (name)
                ? g_strdup_printf ("%s %s", Py_TYPE (o)->tp_name, PyUnicode_AsUTF8 (name))
                : g_strdup_printf ("a %s", Py_TYPE (o)->tp_name);
  Py_XDECREF (name);
  return s;
}

static char *
modes_text (uint32_t modes)
{
  return g_strdup_printf ("GRAD_MODE %s, FULLGRAPH %s%s, DEFAULT_DTYPE %s",
                          modes & GM_MODE_GRAD ? "on" : "off",
                          modes & GM_MODE_FULLGRAPH ? "on" : "off",
                          modes & GM_MODE_BREAK_RAISES ? ", ERROR_ON_GRAPH_BREAK" : "",
                          gm_dtypes[(modes >> GM_MODE_DTYPE_SHIFT) & 15].text);
}

static char *
memory_text (const GmMemoryFact *fact, const char *other)
{
  g_autofree char *text = fact->text (fact->data);
  return g_strdup_printf ("%s (and %s)", text, other);
}

static char *
tensor_text (const GmMeta *m)
{
  g_autofree char *shape = gm_meta_text (m);
  g_autoptr (GString) s = g_string_new (shape);
  if (!gm_meta_is_contiguous (m)) {
    g_string_append_c (s, '{');
    for (int i = 0; i < m->ndim; i++)
      g_string_append_printf (s, "%s%" G_GINT64_FORMAT, i ? ", " : "", m->strides[i]);
    g_string_append_c (s, '}');
  }
  if (m->requires_grad)
    g_string_append (s, " requires_grad");
  return g_strdup (s->str);
}

static char *
keys_text (PyObject *keys)
{
  g_autofree char *text = NULL;
  PyObject *repr = PyObject_Repr (keys);
  text = g_strdup_printf ("keys %s", repr ? PyUnicode_AsUTF8 (repr) : "?");
  PyErr_Clear ();
  Py_XDECREF (repr);
  return g_steal_pointer (&text);
}

static char *
absent_text (PyObject *key)
{
  g_autofree char *k = key ? value_text (key) : g_strdup ("");
  return g_strdup_printf ("no %s", k);
}

static char *
lookup_text (PyObject *type, PyObject *name, const void *expected)
{
  g_autofree char *value = expected ? value_text ((PyObject *) expected) : g_strdup ("nothing");
  return g_strdup_printf ("%s.%s is %s", ((PyTypeObject *) type)->tp_name, PyUnicode_AsUTF8 (name),
                          value);
}

static char *
function_text (PyObject *code)
{
  return g_strdup_printf ("function %s", PyUnicode_AsUTF8 (((PyCodeObject *) code)->co_qualname));
}

static const char *const kind_names[GM_N_RECORD_KINDS] = {
#define LOAD(NAME, ...) [GM_SOURCE_##NAME] = #NAME,
#define GUARD(NAME, ...) [GM_GUARD_##NAME] = #NAME,
#include "core/trace/guards.def"
};

static char *
expected_text (const GmCheck *c)
{
  switch ((GmRecordKind) c->kind) {
#define LOAD(NAME, statement) case GM_SOURCE_##NAME:
#include "core/trace/guards.def"
    return g_strdup ("a value");
#define GUARD(NAME, cost, statement, text)                                                         \
  case GM_GUARD_##NAME:                                                                            \
    return (text);
#include "core/trace/guards.def"
  default:
    return g_strdup ("?");
  }
}

static char *
found_text (const GmCheck *c, const GmCallEnv *env, PyObject *const *slots)
{
  switch ((GmRecordKind) c->kind) {
  case GM_GUARD_BACKEND_MATCH:
    return g_strdup ("another back end or other options");
  case GM_GUARD_MODES:
    return modes_text (env->modes);
  case GM_GUARD_TENSOR: {
    PyObject *o = slots[c->in];
    if (PyObject_TypeCheck (o, gm_host.tensor_type) && gm_host_tensor (o)) {
      g_autofree char *meta = tensor_text (&gm_host_tensor (o)->meta);
      return Py_TYPE (o) == (PyTypeObject *) c->obj
                 ? g_steal_pointer (&meta)
                 : g_strdup_printf ("%s of type %s", meta, Py_TYPE (o)->tp_name);
    }
    return g_strdup_printf ("a %s", Py_TYPE (o)->tp_name);
  }
  case GM_GUARD_TYPE:
    return g_strdup (Py_TYPE (slots[c->in])->tp_name);
  case GM_GUARD_TUPLE_LEN:
  case GM_GUARD_LIST_LEN:
    return g_strdup_printf ("len == %zd", Py_SIZE (slots[c->in]));
  case GM_GUARD_SAME:
    return g_strdup ("another object");
  case GM_GUARD_DISTINCT:
    return g_strdup ("the same object");
  case GM_GUARD_MEMORY:
    return g_strdup ("otherwise");
  case GM_GUARD_WRITABLE:
    return g_strdup ("a leaf that requires grad, a view of one, or memory that is read-only");
  case GM_GUARD_CLASS_LOOKUP:
  case GM_GUARD_CLASS_DICT:
  case GM_GUARD_GLOBAL_ABSENT:
  case GM_GUARD_ROOT_GLOBALS:
    return g_strdup ("something else");
#define LOAD(NAME, statement) case GM_SOURCE_##NAME:
#include "core/trace/guards.def"
    return g_strdup ("nothing");
  default:
    return value_text (slots[c->in]);
  }
}

char *
gm_guards_explain (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
                   PyFunctionObject *func)
{
  g_autofree PyObject **slots = g_new0 (PyObject *, g->n_slots + 1);
  uint32_t failed;
  if (check (g, env, locals, func, slots, &failed))
    return NULL;
  if (failed == UINT32_MAX)
    return g_strdup ("the death of an object that it was recorded with");
  const GmCheck *c = &g->checks[failed];
  g_autofree char *expected = expected_text (c);
  g_autofree char *found = found_text (c, env, slots);
  g_autofree char *where = g->wheres[failed] ? g_strdup_printf ("  # %s", g->wheres[failed])
                                             : g_strdup ("");
  return g_strdup_printf ("%s %s: expected %s, found %s%s", kind_names[c->kind],
                          g->sources[failed] ? g->sources[failed] : "", expected, found, where);
}

char *
gm_guards_text (const GmGuards *g)
{
  GString *s = g_string_new (NULL);
  if (*g->dead)
    g_string_append (s, "an object that it was recorded with has died\n");
  for (uint32_t i = 0; i < g->n && !*g->dead; i++) {
    const GmCheck *c = &g->checks[i];
    g_autofree char *expected = NULL;
    switch ((GmRecordKind) c->kind) {
#define LOAD(NAME, statement) case GM_SOURCE_##NAME:
#include "core/trace/guards.def"
      continue;
    case GM_GUARD_ROOT_GLOBALS:
      continue;
    case GM_GUARD_BACKEND_MATCH:
      g_string_append_printf (s, "BACKEND_MATCH('%s')\n", c->ptr2);
      continue;
    case GM_GUARD_INT:
    case GM_GUARD_FLOAT:
    case GM_GUARD_STR:
    case GM_GUARD_EQUALS:
      expected = expected_text (c);
      g_string_append_printf (s, "%s == %s", g->sources[i], expected);
      break;
    case GM_GUARD_IS:
      expected = expected_text (c);
      g_string_append_printf (s, "%s is %s", g->sources[i], expected);
      break;
    case GM_GUARD_MODES:
      expected = expected_text (c);
      g_string_append (s, expected);
      break;
    default:
      expected = expected_text (c);
      g_string_append_printf (s, "%s: %s %s", g->sources[i] ? g->sources[i] : "",
                              kind_names[c->kind], expected);
    }
    if (g->wheres[i])
      g_string_append_printf (s, "  # %s", g->wheres[i]);
    g_string_append_c (s, '\n');
  }
  return g_string_free (s, FALSE);
}

/* -- Compilation to records ------------------------------------------------ */

typedef struct {
  GmRecorder *r;
  GmGuards *g;
  GArray *checks; /* GmCheck */
  GPtrArray *sources, *wheres;
  uint32_t *slot_of;
  GHashTable *seen;   /* what is held already */
  PyObject *callback; /* of weak references */
} Compiler;

static PyObject *
object_died (PyObject *capsule, PyObject *weakref)
{
  *(bool *) PyCapsule_GetPointer (capsule, NULL) = true;
  Py_RETURN_NONE;
}

static void
flag_free (PyObject *capsule)
{
  g_rc_box_release (PyCapsule_GetPointer (capsule, NULL));
}

/* A function of Python that sets the flag. */
static PyObject *
callback_new (bool *dead)
{
  static PyMethodDef method = { "object_died", object_died, METH_O, NULL };
  PyObject *capsule = PyCapsule_New (g_rc_box_acquire (dead), NULL, flag_free);
  PyObject *callback = capsule ? PyCFunction_New (&method, capsule) : NULL;
  Py_XDECREF (capsule);
  return callback;
}

/* What dies with a program's own modules and functions is held weakly; what the guards made (constants, tuples of keys), or what cannot be referred to
 * weakly, strongly. */
static void
hold (Compiler *k, PyObject *o, bool may_be_weak)
{
  PyObject *ref = NULL;
  if (!o)
    return;
  gpointer how = g_hash_table_lookup (k->seen, o); /* 1: weakly where it can be, 2: strongly */
  if (how && (may_be_weak || GPOINTER_TO_INT (how) == 2))
    return;
  g_hash_table_insert (k->seen, o, GINT_TO_POINTER (may_be_weak ? 1 : 2));
  bool lasting = PyType_Check (o) && !(((PyTypeObject *) o)->tp_flags & Py_TPFLAGS_HEAPTYPE);
  if (may_be_weak && !lasting && PyType_SUPPORTS_WEAKREFS (Py_TYPE (o)) && k->callback)
    ref = PyWeakref_NewRef (o, k->callback);
  PyErr_Clear ();
  g_ptr_array_add (k->g->held, ref ? ref : Py_NewRef (o));
}

static void
add (Compiler *k, GmCheck c, const char *source, const char *where)
{
  /* Others' objects are the guards' own, or perhaps nobody else's. */
  bool of_program = c.kind == GM_GUARD_TYPE || c.kind == GM_GUARD_IS || c.kind == GM_GUARD_FUNCTION || c.kind == GM_GUARD_CLASS_LOOKUP ||
                    c.kind == GM_GUARD_CLASS_DICT || c.kind == GM_SOURCE_CLASS_ATTR;
  hold (k, c.obj, of_program);
  hold (k, c.key, false);
  if (c.kind == GM_GUARD_CLASS_LOOKUP || c.kind == GM_GUARD_CLASS_DICT)
    hold (k, (PyObject *) c.ptr, true);
  if (c.key && (PyUnicode_CheckExact (c.key) || gm_is_constant_type (Py_TYPE (c.key)) ||
                Py_TYPE (c.key) == gm_host.dtype_type))
    c.hash = PyObject_Hash (c.key);
  g_array_append_val (k->checks, c);
  g_ptr_array_add (k->sources, source ? g_string_chunk_insert (k->g->text, source) : NULL);
  g_ptr_array_add (k->wheres, where ? g_string_chunk_insert (k->g->text, where) : NULL);
}

static uint32_t
load (Compiler *k, const GmSource *s)
{
  if (k->slot_of[s->number] != UINT32_MAX)
    return k->slot_of[s->number];
  uint32_t in = s->base ? load (k, s->base) : 0;
  uint32_t out = k->g->n_slots++;
  k->slot_of[s->number] = out;
  add (k,
       (GmCheck){
           .kind = s->kind, .in = in, .out = out, .index = s->index, .obj = s->obj, .key = s->key },
       s->name, NULL);
  return out;
}

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
  g_ptr_array_add (to->wheres, from->wheres->pdata[i]);
}

/* Gathers what asks one object's dict where the first of it stands, loads before absences, and puts a memo around it.  Moving a
 * lookup forward is safe: the object's type is certain there already, and a lookup looks at nothing else. */
static void
gather (Compiler *k)
{
  uint32_t n = k->checks->len;
  g_autofree uint32_t *first = g_new (uint32_t, k->g->n_slots + 1), *last = g_new (uint32_t, k->g->n_slots + 1),
                      *next = g_new (uint32_t, n + 1);
  Compiler to = *k;
  to.checks = g_array_new (FALSE, TRUE, sizeof (GmCheck));
  to.sources = g_ptr_array_new ();
  to.wheres = g_ptr_array_new ();
  for (uint32_t s = 0; s < k->g->n_slots; s++)
    first[s] = UINT32_MAX;
  for (uint32_t i = 0; i < n; i++) {
    const GmCheck *c = &g_array_index (k->checks, GmCheck, i);
    next[i] = UINT32_MAX;
    if (!asks_dict (c))
      continue;
    if (first[c->in] == UINT32_MAX)
      first[c->in] = i;
    else
      next[last[c->in]] = i;
    last[c->in] = i;
  }
  for (uint32_t i = 0; i < n; i++) {
    const GmCheck *c = &g_array_index (k->checks, GmCheck, i);
    if (!asks_dict (c) || next[first[c->in]] == UINT32_MAX) {
      move (&to, k, i);
      continue;
    }
    if (first[c->in] != i)
      continue;
    uint32_t at = to.checks->len, loads = 0;
    add (&to, (GmCheck){ .kind = GM_SOURCE_MEMO, .in = c->in }, NULL, NULL);
    for (int kind = 0; kind < 2; kind++)
      for (uint32_t m = i; m != UINT32_MAX; m = next[m])
        if ((g_array_index (k->checks, GmCheck, m).kind == GM_SOURCE_ATTR) == (kind == 0)) {
          move (&to, k, m);
          loads += kind == 0;
        }
    uint32_t length = to.checks->len - at;
    add (&to, (GmCheck){ .kind = GM_SOURCE_MEMO_SAVE, .in = c->in, .index = length }, NULL, NULL);
    GmCheck *memo = &g_array_index (to.checks, GmCheck, at);
    memo->index = length;
    memo->out = loads;
  }
  g_array_free (k->checks, TRUE);
  g_ptr_array_free (k->sources, TRUE);
  g_ptr_array_free (k->wheres, TRUE);
  *k = to;
}

GmGuards *
gm_guards_new (GmRecorder *r, const GmSource *const *extra, uint32_t n_extra, uint32_t *slot_of)
{
  GmGuards *g = g_new0 (GmGuards, 1);
  g_atomic_ref_count_init (&g->refs);
  g->text = g_string_chunk_new (256);
  Compiler k = {
    r,      g, g_array_new (FALSE, TRUE, sizeof (GmCheck)), g_ptr_array_new (), g_ptr_array_new (),
    slot_of, g_hash_table_new (NULL, NULL), NULL
  };
  g->dead = g_rc_box_new0 (bool);
  g->held = g_ptr_array_new ();
  k.callback = callback_new (g->dead);
  for (uint32_t i = 0; i < r->sources->len; i++)
    slot_of[i] = UINT32_MAX;
  for (uint32_t i = 0; i < r->guards->len; i++) {
    const GmGuard *gd = &g_array_index (r->guards, GmGuard, i);
    if (gd->kind == GM_GUARD_PRESENT) {
      load (&k, gd->source);
      continue;
    }
    GmCheck c = {
      .kind = gd->kind, .index = gd->index, .obj = gd->obj, .key = gd->key, .ptr = gd->ptr
    };
    if (gd->source)
      c.in = load (&k, gd->source);
    if (gd->other) {
      c.index = load (&k, gd->other);
      c.ptr2 = g_string_chunk_insert (g->text, gd->other->name);
    }
    if (gd->kind == GM_GUARD_BACKEND_MATCH)
      c.ptr2 = g_string_chunk_insert (g->text,
                                      r->request->backend_text ? r->request->backend_text : "");
    else if (gd->kind == GM_GUARD_TENSOR)
      c.ptr = g_memdup2 (gd->ptr, sizeof (GmMeta));
    g_autofree char *where = gd->file && gd->line > 0
                                 ? g_strdup_printf ("%s:%d", gd->file, gd->line)
                                 : NULL;
    add (&k, c, gd->source ? gd->source->name : NULL, where);
    g->n_guards++;
  }
  for (uint32_t i = 0; i < n_extra; i++)
    load (&k, extra[i]);
  if (gm_host.attrs_version)
    gather (&k);
  g->n = k.checks->len;
  g->checks = (GmCheck *) g_array_free (k.checks, FALSE);
  g->sources = (char **) g_ptr_array_free (k.sources, FALSE);
  g->wheres = (char **) g_ptr_array_free (k.wheres, FALSE);
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

void
gm_guards_add_memory (GmGuards *g, uint32_t a, uint32_t b, const GmMemoryFact *fact)
{
  uint32_t n = g->n++;
  g->checks = g_renew (GmCheck, g->checks, g->n);
  g->sources = g_renew (char *, g->sources, g->n);
  g->wheres = g_renew (char *, g->wheres, g->n);
  g->checks[n] = (GmCheck){ .kind = GM_GUARD_MEMORY,
                            .in = a,
                            .index = b,
                            .ptr = g_memdup2 (fact, sizeof *fact),
                            .ptr2 = slot_name (g, b) };
  g->sources[n] = (char *) slot_name (g, a);
  g->wheres[n] = NULL;
  g->n_guards++;
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
    if (c->kind == GM_GUARD_TENSOR || c->kind == GM_GUARD_MEMORY)
      g_free ((void *) c->ptr);
  }
  for (uint32_t i = 0; i < g->held->len; i++)
    Py_DECREF ((PyObject *) g->held->pdata[i]);
  g_ptr_array_free (g->held, TRUE);
  g_rc_box_release (g->dead);
  g_free (g->checks);
  g_free (g->sources);
  g_free (g->wheres);
  g_string_chunk_free (g->text);
  g_free (g);
}
