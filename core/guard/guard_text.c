/* SPDX-License-Identifier: Apache-2.0
 * guard_text.c -- texts of guards: one line for each, and the first that fails with the expected
 * and the found value.
 *
 * Only reports come here, so objects may be made; no code of the user's runs (a value of a type
 * that is not builtin is named by its type).
 */
#include "core/guard/guard.h"

#include "core/tensor/device.h"
#include "core/objects/key_type.h"

/* -- Values ---------------------------------------------------------------- */

/* True for a set of constants, whose text runs no code of the user's. */
static bool
of_constants (PyObject *set)
{
  if (!PyAnySet_CheckExact (set))
    return false;
  Py_ssize_t pos = 0;
  PyObject *key;
  Py_hash_t hash;
  while (_PySet_NextEntry (set, &pos, &key, &hash))
    if (!gm_is_constant_type (Py_TYPE (key)))
      return false;
  return true;
}

/* Returns the text of a numpy scalar: its type, and the number inside. The caller frees it. */
static char *
number_text (PyObject *o)
{
  bool integer = strstr (Py_TYPE (o)->tp_name, "int") != NULL;
  PyObject *plain = integer ? PyNumber_Index (o) : PyNumber_Float (o);
  PyObject *text = plain ? PyObject_Repr (plain) : NULL;
  const char *utf8 = text ? PyUnicode_AsUTF8 (text) : NULL;
  char *s = g_strdup_printf ("%s %s", Py_TYPE (o)->tp_name, utf8 ? utf8 : "?");
  PyErr_Clear ();
  Py_XDECREF (text);
  Py_XDECREF (plain);
  return s;
}

static char *
value_text (PyObject *o)
{
  if (PyType_Check (o))
    return g_strdup (((PyTypeObject *) o)->tp_name);
  if (o == Py_None || gm_is_constant_type (Py_TYPE (o)) || of_constants (o)
      || Py_TYPE (o) == gm_host.dtype_type) {
    PyObject *text = PyObject_Repr (o);
    const char *utf8 = text ? PyUnicode_AsUTF8 (text) : NULL;
    char *s = g_strdup (utf8 ? utf8 : "?");
    PyErr_Clear ();
    Py_XDECREF (text);
    return s;
  }
  if (Py_TYPE (o) == gm_host.tensor_type && gm_host_tensor (o))
    return gm_meta_text (&gm_host_tensor (o)->meta);
  bool named = PyFunction_Check (o) || PyCFunction_Check (o) || PyModule_CheckExact (o)
               || Py_TYPE (o) == &PyMethodDescr_Type || Py_TYPE (o) == &PyWrapperDescr_Type
               || Py_TYPE (o) == gm_host.api_type;
  PyObject *name = named ? PyObject_GetAttrString (o, "__name__") : NULL;
  PyErr_Clear ();
  char *s = name && PyUnicode_Check (name)
                ? g_strdup_printf ("%s %s", Py_TYPE (o)->tp_name, PyUnicode_AsUTF8 (name))
                : g_strdup_printf ("a %s", Py_TYPE (o)->tp_name);
  Py_XDECREF (name);
  return s;
}

static char *
autocast_text (uint32_t modes, int device)
{
  GmDtype dtype = gm_autocast_dtype ((uint8_t) (modes >> GM_MODE_AUTOCAST_SHIFT), device);
  return dtype == GM_N_DTYPES
             ? g_strdup ("")
             : g_strdup_printf (", AUTOCAST %s %s", gm_device_name (device), gm_dtypes[dtype].text);
}

static char *
modes_text (uint32_t modes)
{
  g_autofree char *cpu = autocast_text (modes, GM_DEVICE_CPU),
                  *cuda = autocast_text (modes, GM_DEVICE_CUDA);
  return g_strdup_printf ("GRAD_MODE %s, FULLGRAPH %s%s%s%s%s, DEFAULT_DTYPE %s%s%s%s",
                          modes & GM_MODE_GRAD ? "on" : "off",
                          modes & GM_MODE_FULLGRAPH ? "on" : "off",
                          modes & GM_MODE_BREAK_RAISES ? ", ERROR_ON_GRAPH_BREAK" : "",
                          modes & GM_MODE_SAVED_HOOKS ? ", SAVED_TENSORS_HOOKS inlineable" : "",
                          modes & GM_MODE_REFUSES_DRAWS ? ", DRAWS refused" : "",
                          modes & GM_MODE_FUNCTION_MODE ? ", TORCH_FUNCTION_MODE" : "",
                          gm_dtypes[(modes >> GM_MODE_DTYPE_SHIFT) & 15].text, cpu, cuda,
                          modes >> GM_MODE_DEVICE_SHIFT ? ", DEFAULT_DEVICE cuda" : "");
}

static char *
memory_text (const GmMemoryFact *fact, const char *other)
{
  g_autofree char *text = fact->text (fact->data);
  return g_strdup_printf ("%s (and %s)", text, other);
}

static char *
call_text (const GmCallFact *fact)
{
  return fact->text (fact->data);
}

static char *
tensor_text (const GmMeta *m, const char *symbolic)
{
  if (symbolic)
    return g_strdup (symbolic);
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
  g_autoptr (GString) s = g_string_new ("keys (");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (keys); i++) {
    g_autofree char *key = value_text (PyTuple_GET_ITEM (keys, i));
    g_string_append_printf (s, "%s%s", i ? ", " : "", key);
  }
  return g_strdup_printf (PyTuple_GET_SIZE (keys) == 1 ? "%s,)" : "%s)", s->str);
}

static char *
compares_text (double with, int64_t index)
{
  static const char *const names[] = { "<", "<=", "==", "!=", ">", ">=" };
  PyObject *o = PyFloat_FromDouble (with);
  g_autofree char *value = o ? value_text (o) : g_strdup ("?");
  Py_XDECREF (o);
  return g_strdup_printf ("a float that is %s%s %s", index & 1 ? "" : "not ", names[index >> 1],
                          value);
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
#include "core/guard/guards.def"
};

static char *
expected_text (const GmCheck *c)
{
  switch ((GmRecordKind) c->kind) {
#define LOAD(NAME, statement) case GM_SOURCE_##NAME:
#include "core/guard/guards.def"
    return g_strdup ("a value");
#define GUARD(NAME, cost, statement, text)                                                         \
  case GM_GUARD_##NAME:                                                                            \
    return (text);
#include "core/guard/guards.def"
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
      g_autofree char *meta = tensor_text (&gm_host_tensor (o)->meta, NULL);
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
  case GM_GUARD_DICT_LEN:
    return g_strdup_printf ("len == %zd", PyDict_GET_SIZE (slots[c->in]));
  case GM_GUARD_SIZES:
    return gm_size_check_found (c->ptr, slots);
  case GM_GUARD_SAME:
    return g_strdup ("another object");
  case GM_GUARD_DISTINCT:
    return g_strdup ("the same object");
  case GM_GUARD_APART:
    return g_strdup ("one of them");
  case GM_GUARD_MEMORY:
    return g_strdup ("otherwise");
  case GM_GUARD_HANDLES_NOTHING:
    return g_strdup ("an exception");
  case GM_GUARD_SAVED_HOOKS:
    return g_strdup ("another pair, or something else that they read");
  case GM_GUARD_WRITABLE:
    return g_strdup ("a leaf that requires grad, a view of one, or memory that is read-only");
  case GM_GUARD_CLASS_LOOKUP:
  case GM_GUARD_CLASS_DICT:
  case GM_GUARD_CLASS_NAME:
  case GM_GUARD_SUBCLASS:
  case GM_GUARD_GLOBAL_ABSENT:
  case GM_GUARD_ROOT_GLOBALS:
    return g_strdup ("something else");
#define LOAD(NAME, statement) case GM_SOURCE_##NAME:
#include "core/guard/guards.def"
    return g_strdup ("nothing");
  default:
    return value_text (slots[c->in]);
  }
}

static char *
where_text (const GmWhere *w)
{
  return w->file ? g_strdup_printf ("  # %s:%d", w->file, w->line) : g_strdup ("");
}

char *
gm_guards_explain (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
                   PyFunctionObject *func)
{
  g_autofree PyObject **slots = g_new0 (PyObject *, g->n_slots + 1);
  uint32_t failed;
  if (gm_guards_run (g, env, locals, func, slots, &failed))
    return NULL;
  if (failed == UINT32_MAX)
    return g_strdup ("the death of an object that it was recorded with");
  const GmCheck *c = &g->checks[failed];
  g_autofree char *expected = expected_text (c);
  g_autofree char *found = found_text (c, env, slots);
  g_autofree char *where = where_text (&g->wheres[failed]);
  return g_strdup_printf ("%s %s: expected %s, found %s%s", kind_names[c->kind],
                          g->sources[failed] ? g->sources[failed] : "", expected, found, where);
}

static const bool is_lookup[] = {
#define LOOKUP(NAME) [GM_GUARD_##NAME] = true,
#include "core/guard/guards.def"
};

/* Returns the text of the guard of record i for users, without its place in the program; NULL for a
 * load, and for a guard of no interest. The caller frees it. */
static char *
row_text (const GmGuards *g, uint32_t i)
{
  const GmCheck *c = &g->checks[i];
  g_autofree char *expected = NULL;
  switch ((GmRecordKind) c->kind) {
#define LOAD(NAME, statement) case GM_SOURCE_##NAME:
#include "core/guard/guards.def"
    return NULL;
  case GM_GUARD_ROOT_GLOBALS:
    return NULL;
  case GM_GUARD_BACKEND_MATCH:
    return g_strdup_printf ("BACKEND_MATCH('%s')", (const char *) c->ptr2);
  case GM_GUARD_INT:
  case GM_GUARD_FLOAT:
  case GM_GUARD_STR:
  case GM_GUARD_EQUALS:
    expected = expected_text (c);
    return g_strdup_printf ("%s == %s", g->sources[i], expected);
  case GM_GUARD_IS:
    expected = expected_text (c);
    return g_strdup_printf ("%s is %s", g->sources[i], expected);
  case GM_GUARD_MODES:
    return expected_text (c);
  default:
    expected = expected_text (c);
    return g_strdup_printf ("%s%s%s %s", g->sources[i] && *g->sources[i] ? g->sources[i] : "",
                            g->sources[i] && *g->sources[i] ? ": " : "", kind_names[c->kind],
                            expected);
  }
}

/* Returns a new array with the number of the record that loads each slot. The caller frees it. */
static uint32_t *
loads_of (const GmGuards *g)
{
  uint32_t *load = g_new0 (uint32_t, g->n_slots + 1);
  for (uint32_t i = 0; i < g->n; i++)
    if (g->checks[i].kind < GM_GUARD_BACKEND_MATCH && g->sources[i])
      load[g->checks[i].out] = i;
  return load;
}

/* True if record i reads an argument other than self, or a value that is found through such an
 * argument. */
static bool
is_of_argument (const GmGuards *g, uint32_t i, const uint32_t *load)
{
  const GmCheck *c = &g->checks[i];
  if (!g->sources[i])
    return false;
  if (c->kind >= GM_GUARD_BACKEND_MATCH)
    c = &g->checks[load[c->in]];
  while (gm_source_has_base (c->kind))
    c = &g->checks[load[c->in]];
  return (c->kind == GM_SOURCE_LOCAL || c->kind == GM_SOURCE_FREE)
         && !(c->key && PyUnicode_CompareWithASCIIString (c->key, "self") == 0);
}

bool
gm_guards_foreach (const GmGuards *g, bool (*row) (const GmGuardRow *row, void *data), void *data)
{
  if (*g->dead)
    return row (&(GmGuardRow){ .kind = "", .text = "an object that it was recorded with has died" },
                data);
  g_autofree uint32_t *load = loads_of (g);
  for (uint32_t i = 0; i < g->n; i++) {
    g_autofree char *text = row_text (g, i);
    uint8_t kind = g->checks[i].kind;
    if (text
        && !row (&(GmGuardRow){ .kind = kind_names[kind],
                                .source = g->sources[i],
                                .text = text,
                                .where = g->wheres[i],
                                .is_lookup = kind < G_N_ELEMENTS (is_lookup) && is_lookup[kind],
                                .of_argument = is_of_argument (g, i, load) },
                 data))
      return false;
  }
  return true;
}

static bool
add_line (const GmGuardRow *row, void *data)
{
  g_autofree char *where = where_text (&row->where);
  g_string_append_printf (data, "%s%s\n", row->text, where);
  return true;
}

char *
gm_guards_text (const GmGuards *g)
{
  GString *s = g_string_new (NULL);
  gm_guards_foreach (g, add_line, s);
  return g_string_free (s, FALSE);
}
