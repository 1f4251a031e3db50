/* SPDX-License-Identifier: Apache-2.0
 * guard.c -- guards as they are made, and the flat program that checks them.
 *
 * A guard is appended once (guard_index knows which exist); at the end all are compiled, in order,
 * to records, each preceded by the loads that its source needs.  Checking is one loop with one
 * switch, expanded from guards.def.  Invariant: a record reads only slots that an earlier record
 * wrote.
 */
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

/* The instance dict's entry.  Making the dict of an object that keeps its attributes inline happens
 * once per object. */
static inline PyObject *
attr_get (PyObject *o, PyObject *key, Py_hash_t hash)
{
  PyObject **dict = _PyObject_GetDictPtr (o);
  return dict && *dict ? _PyDict_GetItem_KnownHash (*dict, key, hash) : NULL;
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
  int same = PyObject_RichCompareBool (a, b, Py_EQ);
  if (same < 0)
    PyErr_Clear ();
  return same == 1;
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

static inline int64_t
n_defaults (PyObject *f)
{
  PyObject *d = ((PyFunctionObject *) f)->func_defaults;
  return d ? PyTuple_GET_SIZE (d) : 0;
}

static inline bool
tensor_matches (const GmTensor *t, const GmMeta *m)
{
  if (t == NULL || memcmp (&t->meta, m, offsetof (GmMeta, sizes)) != 0)
    return false;
  size_t bytes = m->ndim * sizeof (int64_t);
  return memcmp (t->meta.sizes, m->sizes, bytes) == 0 &&
         memcmp (t->meta.strides, m->strides, bytes) == 0;
}

/* -- The check ------------------------------------------------------------- */

static inline bool
check (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals, PyFunctionObject *func,
       PyObject **slots, uint32_t *failed)
{
  const GmCheck *end = g->checks + g->n;
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
  return g_strdup_printf ("GRAD_MODE %s, FULLGRAPH %s, DEFAULT_DTYPE %s",
                          modes & GM_MODE_GRAD ? "on" : "off",
                          modes & GM_MODE_FULLGRAPH ? "on" : "off",
                          gm_dtypes[(modes >> GM_MODE_DTYPE_SHIFT) & 15].text);
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
  case GM_GUARD_NO_OVERLAP:
    return g_strdup ("shared memory");
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
  for (uint32_t i = 0; i < g->n; i++) {
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
} Compiler;

static void
add (Compiler *k, GmCheck c, const char *source, const char *where)
{
  Py_XINCREF (c.obj);
  Py_XINCREF (c.key);
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

GmGuards *
gm_guards_new (GmRecorder *r, const GmSource *const *extra, uint32_t n_extra, uint32_t *slot_of)
{
  GmGuards *g = g_new0 (GmGuards, 1);
  g_atomic_ref_count_init (&g->refs);
  g->text = g_string_chunk_new (256);
  Compiler k = {
    r,      g, g_array_new (FALSE, TRUE, sizeof (GmCheck)), g_ptr_array_new (), g_ptr_array_new (),
    slot_of
  };
  for (uint32_t i = 0; i < r->sources->len; i++)
    slot_of[i] = UINT32_MAX;
  for (uint32_t i = 0; i < r->guards->len; i++) {
    const GmGuard *gd = &g_array_index (r->guards, GmGuard, i);
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
    else if (gd->kind == GM_GUARD_CLASS_LOOKUP || gd->kind == GM_GUARD_CLASS_DICT)
      Py_XINCREF ((PyObject *) gd->ptr);
    g_autofree char *where = gd->file && gd->line > 0
                                 ? g_strdup_printf ("%s:%d", gd->file, gd->line)
                                 : NULL;
    add (&k, c, gd->source ? gd->source->name : NULL, where);
    g->n_guards++;
  }
  for (uint32_t i = 0; i < n_extra; i++)
    load (&k, extra[i]);
  g->n = k.checks->len;
  g->checks = (GmCheck *) g_array_free (k.checks, FALSE);
  g->sources = (char **) g_ptr_array_free (k.sources, FALSE);
  g->wheres = (char **) g_ptr_array_free (k.wheres, FALSE);
  return g;
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
    Py_XDECREF (c->obj);
    Py_XDECREF (c->key);
    if (c->kind == GM_GUARD_TENSOR)
      g_free ((void *) c->ptr);
    else if (c->kind == GM_GUARD_CLASS_LOOKUP || c->kind == GM_GUARD_CLASS_DICT)
      Py_XDECREF ((PyObject *) c->ptr);
  }
  g_free (g->checks);
  g_free (g->sources);
  g_free (g->wheres);
  g_string_chunk_free (g->text);
  g_free (g);
}
