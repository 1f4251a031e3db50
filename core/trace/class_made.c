/* SPDX-License-Identifier: Apache-2.0
 * class_made.c -- classes made by a class statement in the region.
 *
 * The body is run into a dict tracker. Then a shadow is made: a real class with the same name,
 * bases and slots, so that MRO, layout and lookups are CPython's own; only the recorder sees it,
 * and it is cleared with the recorder. The attributes of the class are in the heap, like those of
 * an object; for a value that is no constant the shadow and all lookups hold a stand-in (a function
 * without a closure, a property of such functions, an object), which gm_wrap turns back into the
 * value's tracker. The residual makes the class by calling `type` with the attributes at the end.
 * Stores of the region to existing classes are in the heap likewise.
 * Invariant: no guard and no residual names a shadow or a stand-in.
 * Metaclasses, __init_subclass__, __set_name__ and bases that are no classes break.
 */
#include "core/trace/class_made.h"
#include "core/trace/attrs.h"
#include "core/trace/cell.h"
#include "core/trace/instance.h"

#include <string.h>

const GmTracker *
gm_class_made (const GmRecorder *r, PyObject *type)
{
  return r->made ? g_hash_table_lookup (r->made, type) : NULL;
}

const GmTracker *
gm_stand_in (const GmRecorder *r, PyObject *o)
{
  const GmTracker *t = r->made ? g_hash_table_lookup (r->made, o) : NULL;
  return t || r->stand_ins == NULL ? t : g_hash_table_lookup (r->stand_ins, o);
}

/* -- Stand-ins ------------------------------------------------------------- */

static PyObject *
function_stand_in (GmRecorder *r, const GmTracker *f)
{
  PyObject *globals, *builtins;
  const GmCode *code = gm_function_code (r, f, &globals, &builtins);
  return code ? PyFunction_New ((PyObject *) code->code, globals) : NULL;
}

/* Returns a new real tuple equal to the tuple `constant`, to represent a class attribute: C code
 * reads __slots__ and __match_args__. */
static PyObject *
tuple_stand_in (PyObject *constant)
{
  PyObject *copy = PyTuple_New (PyTuple_GET_SIZE (constant));
  for (Py_ssize_t i = 0; copy && i < PyTuple_GET_SIZE (constant); i++)
    PyTuple_SET_ITEM (copy, i, Py_NewRef (PyTuple_GET_ITEM (constant, i)));
  return copy;
}

PyObject *
gm_stand_in_for (GmRecorder *r, const GmTracker *value)
{
  value = gm_realize (r, value);
  if (r->stop)
    return NULL;
  if (value->kind == &gm_kind_constant)
    return value->real;
  PyTypeObject *type = gm_type_of (r, value);
  bool plain = type && type->tp_descr_get == NULL && type->tp_descr_set == NULL
               && gm_class_lookup_text (r, type, "__set_name__") == NULL;
  PyObject *o = r->stand_in_of ? g_hash_table_lookup (r->stand_in_of, value) : NULL, *constant;
  if (o)
    return o;
  if (value->kind == &gm_kind_function)
    o = function_stand_in (r, value);
  else if (value->kind == &gm_kind_descriptor)
    o = gm_descriptor_stand_in (r, value);
  else if (value->kind == &gm_kind_tuple && value->n && value->data == NULL
           && (constant = gm_constant (r, value)) != NULL)
    o = tuple_stand_in (constant);
  else if (plain)
    o = PyObject_CallNoArgs ((PyObject *) &PyBaseObject_Type);
  if (o == NULL) {
    PyErr_Clear ();
    gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, gm_type_text (r, value), "class");
    return NULL;
  }
  gm_record_take (r, o);
  if (r->stand_ins == NULL) {
    r->stand_ins = g_hash_table_new (NULL, NULL);
    r->stand_in_of = g_hash_table_new (NULL, NULL);
  }
  g_hash_table_insert (r->stand_ins, o, (gpointer) value);
  g_hash_table_insert (r->stand_in_of, (gpointer) value, o);
  return o;
}

/* -- Lookups --------------------------------------------------------------- */

static const GmTracker *
class_tracker (GmRecorder *r, PyTypeObject *type)
{
  const GmTracker *t = gm_class_made (r, (PyObject *) type);
  if (t == NULL && (t = g_hash_table_lookup (r->by_real, type)) && t->kind != &gm_kind_class)
    return NULL;
  return t;
}

bool
gm_class_changed (GmRecorder *r, PyTypeObject *type)
{
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (type->tp_mro); i++) {
    const GmTracker *t = class_tracker (r, (PyTypeObject *) PyTuple_GET_ITEM (type->tp_mro, i));
    if (t && (t->data || gm_contents_of (r, t)))
      return true;
  }
  return false;
}

PyObject *
gm_class_own (GmRecorder *r, PyTypeObject *type, PyObject *name)
{
  const GmTracker *t = class_tracker (r, type);
  const GmTracker *stored = t ? gm_attrs_get (r, t, name) : NULL;
  if (stored)
    return stored == &gm_tracker_null ? NULL : gm_stand_in_for (r, stored);
  PyObject *found = PyDict_GetItemWithError (gm_type_dict (type), name);
  gm_guard (r, CLASS_DICT, NULL, .obj = (PyObject *) type, .key = name, .ptr = found);
  return found;
}

PyObject *
gm_class_lookup_made (GmRecorder *r, PyTypeObject *type, PyObject *name)
{
  PyObject *mro = type->tp_mro, *found = NULL;
  for (Py_ssize_t i = 0; found == NULL && !r->stop && i < PyTuple_GET_SIZE (mro); i++) {
    PyTypeObject *base = (PyTypeObject *) PyTuple_GET_ITEM (mro, i);
    found = gm_class_own (r, base, name);
  }
  return found;
}

static bool
is_dunder (PyObject *name)
{
  const char *s = PyUnicode_AsUTF8 (name);
  size_t n = strlen (s);
  return n > 4 && strncmp (s, "__", 2) == 0 && strcmp (s + n - 2, "__") == 0;
}

/* Stores the class attribute `name` in the heap (value NULL: deletes it). Breaks for names with two
 * underscores, which change how C code treats the class. */
void
gm_class_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  PyTypeObject *type = (PyTypeObject *) t->real, *meta = Py_TYPE (type);
  const char *text = PyUnicode_AsUTF8 (name);
  if (!gm_is_user_type (type) || is_dunder (name) || meta->tp_setattro != PyType_Type.tp_setattro
      || gm_class_lookup (r, meta, name)) {
    gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, text, "class");
    return;
  }
  if (value ? gm_stand_in_for (r, value) == NULL : gm_class_own (r, type, name) == NULL) {
    gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, text, "class");
    return;
  }
  r->classes_written = true;
  gm_attrs_set (r, t, name, value);
  const GmTracker *args[2] = { t, value };
  if (t->data == NULL)
    gm_effect (r, value ? GM_EFFECT_SETATTR : GM_EFFECT_DELATTR, NULL, name, args, value ? 2 : 1);
}

/* -- Making ---------------------------------------------------------------- */

/* The data of the tracker of a class made in the region. */
typedef struct {
  PyObject *name;
  const GmTracker *names; /* the namespace after the body has run: contents of a dict */
} Made;

static const GmTracker *
refuse (GmRecorder *r, const char *why)
{
  return gm_record_break (r, GM_BREAK_CLASS_STATEMENT, why);
}

/* Returns the bases, which are realized in place, as a tuple of real classes and shadows, which the
 * recorder owns; NULL after a break. */
static PyObject *
bases_of (GmRecorder *r, const GmTracker **bases, uint32_t n)
{
  PyObject *tuple = gm_record_take (r, PyTuple_New (n)), *init;
  for (uint32_t i = 0; i < n; i++) {
    bases[i] = gm_realize (r, bases[i]);
    if (r->stop || bases[i]->kind != &gm_kind_class) {
      refuse (r, ": a base is no class");
      return NULL;
    }
    PyTypeObject *base = (PyTypeObject *) bases[i]->real;
    init = gm_class_lookup_text (r, base, "__init_subclass__");
    if (Py_TYPE (base) != &PyType_Type || init != gm_object_default ("__init_subclass__")) {
      refuse (r, ": a base has a metaclass or an __init_subclass__");
      return NULL;
    }
    PyTuple_SET_ITEM (tuple, i, Py_NewRef (base));
  }
  return tuple;
}

static bool
is_named (const GmTracker *name, const char *text)
{
  return PyUnicode_CompareWithASCIIString (name->real, text) == 0;
}

/* Returns the namespace with which type.__new__ makes the shadow, a dict that the recorder owns;
 * NULL after a break. */
static PyObject *
shadow_dict (GmRecorder *r, const GmTracker *names)
{
  PyObject *dict = gm_record_take (r, PyDict_New ());
  for (uint32_t i = 0; i < names->n; i += 2) {
    const GmTracker *key = names->items[i];
    if (is_named (key, "__classcell__"))
      continue;
    PyObject *o = gm_stand_in_for (r, names->items[i + 1]);
    if (o == NULL)
      return NULL;
    if (is_named (key, "__slots__") && !PyTuple_CheckExact (o) && !PyUnicode_CheckExact (o)) {
      refuse (r, ": its __slots__ is no tuple of constants");
      return NULL;
    }
    PyDict_SetItem (dict, key->real, o);
  }
  return dict;
}

static const GmTracker *
make (GmRecorder *r, PyObject *name, const GmTracker **bases, uint32_t n, const GmTracker *names)
{
  PyObject *tuple = bases_of (r, bases, n);
  PyObject *dict = tuple ? shadow_dict (r, names) : NULL;
  if (dict == NULL)
    return &gm_tracker_poison;
  PyObject *type =
      PyObject_CallFunctionObjArgs ((PyObject *) &PyType_Type, name, tuple, dict, NULL);
  if (type == NULL)
    return refuse (r, ": plain Python says why it cannot be");
  if (r->made == NULL)
    r->made = g_hash_table_new (NULL, NULL);
  uint32_t id = gm_heap_add (&r->heap, 1);
  const GmTracker **items = gm_tracker_array (r, n);
  gm_tracker_copy (items, bases, n);
  Made made = { gm_record_keep (r, name), names };
  const GmTracker *t =
      gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_class,
                                       .real = type,
                                       .items = items,
                                       .n = n,
                                       .id = id,
                                       .data = gm_arena_copy (r->arena, &made, sizeof made) });
  g_hash_table_insert (r->made, type, (gpointer) t);
  for (uint32_t i = 0; i < names->n; i += 2) {
    const GmTracker *key = names->items[i], *value = names->items[i + 1];
    if (is_named (key, "__classcell__"))
      gm_cell_store (r, gm_realize (r, value), t);
    else
      gm_attrs_set (r, t, key->real, value);
  }
  return t;
}

const GmTracker *
gm_class_statement (GmRecorder *r, const GmCallArgs *args)
{
  if (args->n < 2)
    return NULL;
  const GmTracker *body = gm_realize (r, args->args[0]);
  PyObject *name = gm_constant (r, args->args[1]);
  if (r->stop || body->kind != &gm_kind_function || name == NULL || !PyUnicode_CheckExact (name))
    return NULL;
  if (args->names)
    return refuse (r, " with keyword arguments");
  uint32_t n = args->n - 2;
  g_autofree const GmTracker **bases = gm_tracker_array_own (n);
  gm_tracker_copy (bases, args->args + 2, n);
  if (bases_of (r, bases, n) == NULL)
    return &gm_tracker_poison;
  const GmTracker *names = gm_dict_new (r);
  if (!gm_frame_enter (r, body, &(GmCallArgs){ NULL, 0, NULL }, GM_AFTER_STOP, NULL))
    return &gm_tracker_poison;
  ((GmFrame *) r->frame)->names = names;
  gm_record_loop (r, r->frame, NULL);
  return r->stop ? &gm_tracker_poison : make (r, name, bases, n, gm_contents_of (r, names));
}

/* -- Building -------------------------------------------------------------- */

void
gm_residual_class (GmResidualBuilder *b, PyTypeObject *type)
{
  const GmTracker *t = gm_class_made (gm_residual_recorder (b), (PyObject *) type);
  if (t)
    gm_residual_value (b, t);
  else
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) type);
}

/* True for a value that may refer to the class: the residual stores it after making the class, and
 * the namespace has None in its place. */
static bool
is_late (const GmTracker *name, const GmTracker *value)
{
  return !is_dunder (name->real)
         && (value->kind == &gm_kind_list || value->kind == &gm_kind_dict
             || value->kind == &gm_kind_object || value->kind == &gm_kind_tuple
             || value->kind == &gm_kind_class || value->kind == &gm_kind_set);
}

/* Returns the index, in the contents of the class's attributes, after the names that the class body
 * has bound: later names were stored afterwards. */
static uint32_t
first_added (const GmTracker *names, const GmTracker *contents)
{
  uint32_t i = 0;
  for (uint32_t k = 0; k < names->n && i < contents->n; k += 2)
    if (gm_str_equal (names->items[k]->real, contents->items[i]->real))
      i += 2;
  return i;
}

/* Emits type (name, bases, {...}). */
bool
gm_class_made_build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  if (gm_residual_cached (b, t))
    return true;
  const Made *made = t->data;
  const GmTracker *contents = gm_contents_of (r, t);
  uint32_t n = 0, added = first_added (made->names, contents);
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) &PyType_Type);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, made->name);
  for (uint32_t i = 0; i < t->n; i++)
    gm_residual_value (b, t->items[i]);
  gm_residual_emit (b, GM_INSN_BUILD_TUPLE, t->n, NULL);
  for (uint32_t i = 0; i < added; i += 2) {
    const GmTracker *name = contents->items[i], *value = contents->items[i + 1];
    if (value == &gm_tracker_null)
      continue;
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, name->real);
    if (is_late (name, value))
      gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, Py_None);
    else
      gm_residual_value (b, value);
    n++;
  }
  gm_residual_emit (b, GM_INSN_BUILD_MAP, n, NULL);
  gm_residual_emit (b, GM_INSN_CALL, 3, NULL);
  gm_residual_allocated (b, t);
  gm_residual_fill_late (b, t); /* the class may hold an instance of itself, and is being built */
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

void
gm_class_made_fill (GmResidualBuilder *b, const GmTracker *t)
{
  const Made *made = t->data;
  const GmTracker *contents = gm_contents_of (gm_residual_recorder (b), t);
  uint32_t added = first_added (made->names, contents);
  for (uint32_t i = 0; i < contents->n; i += 2) {
    const GmTracker *name = contents->items[i], *value = contents->items[i + 1];
    if (value == &gm_tracker_null || (i < added && !is_late (name, value)))
      continue;
    gm_residual_value (b, value);
    gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
    gm_residual_emit (b, GM_INSN_STORE_ATTR, 0, name->real);
  }
}

/* -- The end --------------------------------------------------------------- */

/* Clears the shadows' references. A class refers to itself by its MRO: without this, a shadow would
 * stay among its bases' subclasses until a garbage collection. */
void
gm_classes_free (GmRecorder *r)
{
  if (r->made) {
    GHashTableIter it;
    gpointer type;
    g_hash_table_iter_init (&it, r->made);
    while (g_hash_table_iter_next (&it, &type, NULL))
      PyType_Type.tp_clear ((PyObject *) type);
    g_hash_table_iter_init (&it, r->made);
    while (g_hash_table_iter_next (&it, &type, NULL))
      Py_DECREF ((PyObject *) type);
  }
  g_clear_pointer (&r->made, g_hash_table_unref);
  g_clear_pointer (&r->stand_ins, g_hash_table_unref);
  g_clear_pointer (&r->stand_in_of, g_hash_table_unref);
}
