/* SPDX-License-Identifier: Apache-2.0
 * tracker.c -- dispatch of operations on trackers to their kinds, and the kinds that represent no
 * Python value.
 *
 * Each operation realizes lazy trackers first, so kinds never meet one; a kind without an entry
 * breaks with the operation's row.
 */
#include "core/trace/kinds.h"
#include "core/trace/instance.h"
#include "core/trace/list_items.h"
#include "core/trace/key_table.h"
#include "core/trace/exception.h"
#include "core/guard/guard.h"
#include "core/trace/keys.h"
#include "core/trace/number.h"
#include "core/trace/traced_size.h"

#include <string.h>

/* -- Making ---------------------------------------------------------------- */

const GmTracker *
gm_tracker_add (GmRecorder *r, const GmTracker *init)
{
  return gm_arena_copy (r->arena, init, sizeof *init);
}

const GmTracker **
gm_tracker_array (GmRecorder *r, uint32_t n)
{
  gm_record_limit_memory (r); /* also within one instruction: set (range (100000)) */
  return gm_arena_newn (r->arena, const GmTracker *, n ? n : 1);
}

const GmTracker *
gm_contents_of (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_heap_load (&r->heap, t->id, 0);
  return contents == NULL                   ? NULL
         : contents->kind == &gm_kind_table ? gm_key_table_contents (r, contents)
         : contents->kind == &gm_kind_row   ? gm_list_items_contents (r, contents)
                                            : contents;
}

void
gm_contents_set (GmRecorder *r, const GmTracker *t, const GmTracker *contents)
{
  if (!r->stop)
    gm_heap_store (&r->heap, t->id, 0, contents);
}

/* -- Internal kinds -------------------------------------------------------- */

static bool
build_null (GmResidualBuilder *b, const GmTracker *t)
{
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  return true;
}

const GmTrackerKind gm_kind_null = { .name = "NULL", .build = build_null };
const GmTrackerKind gm_kind_poison = { .name = "poison" };
const GmTrackerKind gm_kind_lazy = { .name = "lazy" };
const GmTrackerKind gm_kind_contents = { .name = "contents" };

const GmTracker gm_tracker_null = { .kind = &gm_kind_null, .id = GM_NO_OBJECT };
const GmTracker gm_tracker_null_method = { .kind = &gm_kind_null, .id = GM_NO_OBJECT, .number = 2 };
const GmTracker gm_tracker_unbound = { .kind = &gm_kind_null, .id = GM_NO_OBJECT, .number = 1 };
const GmTracker gm_tracker_poison = { .kind = &gm_kind_poison, .id = GM_NO_OBJECT };

#define POISON (&gm_tracker_poison)

/* -- Dispatch -------------------------------------------------------------- */

PyTypeObject *
gm_type_of (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, t);
  if (t->kind->type)
    return t->kind->type (r, t);
  return t->real ? Py_TYPE (t->real) : NULL;
}

PyTypeObject *
gm_type_only (GmRecorder *r, const GmTracker *t)
{
  if (t->kind != &gm_kind_lazy || g_hash_table_contains (r->by_real, t->real)
      || t->source->kind == GM_SOURCE_CONST
      || PyType_IsSubtype (Py_TYPE (t->real), gm_host.tensor_type))
    return gm_type_of (r, t);
  gm_guard (r, TYPE, t->source, .obj = (PyObject *) Py_TYPE (t->real));
  return Py_TYPE (t->real);
}

const char *
gm_type_text (GmRecorder *r, const GmTracker *t)
{
  PyTypeObject *type = gm_type_of (r, t);
  if (type == NULL)
    return t->kind->name;
  const char *dot = strrchr (type->tp_name, '.');
  return dot ? dot + 1 : type->tp_name;
}

int
gm_truth (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, t);
  if (r->stop)
    return 0;
  if (t->kind->truth)
    return t->kind->truth (r, t);
  if (t->kind->len)
    return gm_len (r, t) != 0;
  gm_record_break (r, GM_BREAK_TRUTH, gm_type_text (r, t));
  return 0;
}

const GmTracker *
gm_iter (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, t);
  if (r->stop)
    return POISON;
  if (t->kind->iter)
    return t->kind->iter (r, t);
  return gm_record_break (r, GM_BREAK_ITERATION, gm_type_text (r, t));
}

const GmTracker *
gm_next (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, t);
  if (r->stop)
    return NULL;
  if (t->kind->next == NULL) {
    gm_record_break (r, GM_BREAK_ITERATION, gm_type_text (r, t));
    return NULL;
  }
  const GmTracker *item = t->kind->next (r, t);
  return r->stop ? NULL : item;
}

bool
gm_iterates_alone (const GmTracker *t)
{
  const GmTrackerKind *const kinds[] = { &gm_kind_list,  &gm_kind_tuple, &gm_kind_dict,
                                         &gm_kind_set,   &gm_kind_view,  &gm_kind_constant,
                                         &gm_kind_tensor };
  for (uint32_t i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (t->kind == kinds[i])
      return true;
  return false;
}

const GmTracker *
gm_call (GmRecorder *r, const GmTracker *f, const GmCallArgs *args)
{
  f = gm_realize (r, f);
  if (r->stop)
    return POISON;
  if (f->kind->call)
    return f->kind->call (r, f, args);
  return gm_record_break (r, GM_BREAK_CALL_OBJECT, gm_type_text (r, f));
}

const GmTracker *
gm_call_n (GmRecorder *r, const GmTracker *f, const GmTracker *const *args, uint32_t n)
{
  return gm_call (r, f, &(GmCallArgs){ args, n, NULL });
}

const GmTracker *
gm_getattr_opt (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  t = gm_realize (r, t);
  if (r->stop)
    return POISON;
  if (PyUnicode_CompareWithASCIIString (name, "__class__") == 0) {
    PyTypeObject *type = gm_type_of (r, t);
    if (type && !gm_type_hides_class (r, type) && !r->stop)
      return gm_wrap (r, (PyObject *) type, gm_source_const (r, (PyObject *) type, type->tp_name));
  }
  if (t->kind->getattr)
    return t->kind->getattr (r, t, name);
  return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), gm_type_text (r, t));
}

const GmTracker *
gm_raise_no_attribute (GmRecorder *r, PyTypeObject *type, PyObject *name)
{
  PyObject *found = _PyType_Lookup (type, name);
  const char *owner = type->tp_name;
  if (found && Py_IS_TYPE (found, &PyMemberDescr_Type)) /* an empty slot */
    owner = PyUnicode_AsUTF8 (gm_record_take (r, gm_host.slot_owner_name (type)));
  return gm_raise_new (r, PyExc_AttributeError, "'%s' object has no attribute '%s'", owner,
                       PyUnicode_AsUTF8 (name));
}

const GmTracker *
gm_getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *v = gm_getattr_opt (r, t, name);
  if (v)
    return v;
  if (r->stop)
    return POISON;
  t = gm_realize (r, t);
  const char *text = PyUnicode_AsUTF8 (name);
  PyTypeObject *type = gm_type_of (r, t);
  if (t->kind == &gm_kind_module) {
    PyObject *module = PyDict_GetItemString (PyModule_GetDict (t->real), "__name__");
    if (module && PyUnicode_Check (module))
      return gm_raise_new (r, PyExc_AttributeError, "module '%s' has no attribute '%s'",
                           PyUnicode_AsUTF8 (module), text);
  }
  if (t->kind == &gm_kind_class)
    return gm_raise_new (r, PyExc_AttributeError, "type object '%s' has no attribute '%s'",
                         ((PyTypeObject *) t->real)->tp_name, text);
  if (type == NULL || t->kind == &gm_kind_tensor)
    return gm_record_break (r, GM_BREAK_ATTRIBUTE_MISSING, gm_type_text (r, t), text);
  return gm_raise_no_attribute (r, type, name);
}

void
gm_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  t = gm_realize (r, t);
  if (r->stop)
    return;
  if (t->kind->setattr)
    t->kind->setattr (r, t, name, value);
  else
    gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, PyUnicode_AsUTF8 (name), gm_type_text (r, t));
}

/* Returns the int to use for `key` as an index: the result of the Python __index__ of an object, or
 * the number inside of a value; other keys unchanged. */
static const GmTracker *
index_of (GmRecorder *r, const GmTracker *key)
{
  key = gm_realize (r, key);
  if (key->kind == &gm_kind_scalar && PyLong_CheckExact (key->items[0]->real))
    return key->items[0];
  if (r->stop || key->kind != &gm_kind_object || gm_value_of (key) != key)
    return gm_value_of (key); /* C code reads the number inside an instance of a subclass of int,
                                 and does not call its __index__ */
  const GmTracker *index = gm_index_called (r, key);
  return index ? index : key;
}

const GmTracker *
gm_getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  t = gm_realize (r, t);
  if (r->stop)
    return POISON;
  if (t->kind == &gm_kind_list || t->kind == &gm_kind_tuple || t->kind == &gm_kind_constant)
    key = index_of (r, key);
  if (t->kind->getitem && !r->stop)
    return t->kind->getitem (r, t, key);
  return gm_record_break (r, GM_BREAK_SUBSCRIPT, gm_type_text (r, t), gm_type_text (r, key));
}

void
gm_setitem (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value)
{
  t = gm_realize (r, t);
  if (r->stop)
    return;
  if (t->kind->setitem)
    t->kind->setitem (r, t, key, value);
  else
    gm_record_break (r, GM_BREAK_SUBSCRIPT_STORE, gm_type_text (r, t), gm_type_text (r, key));
}

static const char *const binary_names[GM_N_BIN] = { "+", "&",  "//", "<<", "@", "*", "%",
                                                    "|", "**", ">>", "-",  "/", "^" };

const GmTracker *
gm_binary (GmRecorder *r, GmBinary op, const GmTracker *a, const GmTracker *b, bool inplace)
{
  a = gm_realize (r, a);
  b = gm_realize (r, b);
  if (r->stop)
    return POISON;
  const GmTracker *v = NULL;
  if (b->kind == &gm_kind_tensor && a->kind != &gm_kind_tensor && a->kind->binary == NULL)
    v = b->kind->binary (r, op, b, a, true, false);
  if (v == NULL && a->kind->binary)
    v = a->kind->binary (r, op, a, b, false, inplace);
  PyTypeObject *right = v == NULL && inplace && op == GM_BIN_MUL && a->kind == &gm_kind_object
                            ? gm_type_of (r, b)
                            : NULL;
  /* in place, the right operand is not repeated if the left one is of a Python class */
  bool repeats = right && right->tp_as_sequence && right->tp_as_sequence->sq_repeat;
  if (v == NULL && !r->stop && b->kind->binary && !repeats)
    v = b->kind->binary (r, op, b, a, true, false);
  if (v)
    return v;
  const GmTracker *x = gm_value_of (a), *y = gm_value_of (b); /* both sides have declined the
                                                                 objects themselves */
  bool tensor = a->kind == &gm_kind_tensor || b->kind == &gm_kind_tensor;
  if (!r->stop && tensor && (x != a || y != b))
    return gm_binary (r, op, x, y, inplace);
  return gm_record_break (r, GM_BREAK_OPERATOR, binary_names[op], gm_type_text (r, a),
                          gm_type_text (r, b));
}

static bool
takes_divmod (const GmTracker *t)
{
  return t->kind == &gm_kind_object || t->kind == &gm_kind_constant;
}

const GmTracker *
gm_divmod (GmRecorder *r, const GmTracker *a, const GmTracker *b)
{
  a = gm_realize (r, a);
  b = gm_realize (r, b);
  if (r->stop || !takes_divmod (a) || !takes_divmod (b))
    return r->stop ? POISON : NULL;
  const GmTracker *v = a->kind->binary (r, GM_BIN_DIVMOD, a, b, false, false);
  if (v == NULL && !r->stop && b->kind == &gm_kind_object)
    v = b->kind->binary (r, GM_BIN_DIVMOD, b, a, true, false);
  return v;
}

const GmTracker *
gm_unary (GmRecorder *r, GmUnary op, const GmTracker *t)
{
  static const char *const names[] = { "+", "-", "~" };
  t = gm_realize (r, t);
  if (r->stop)
    return POISON;
  const GmTracker *v = t->kind->unary ? t->kind->unary (r, op, t) : NULL;
  if (v)
    return v;
  return gm_record_break (r, GM_BREAK_UNARY, names[op], gm_type_text (r, t));
}

/* True for a kind whose `compare` does all that the type's comparison does; its NULL means
 * NotImplemented. */
static bool
compares_fully (const GmTracker *t)
{
  return t->kind == &gm_kind_constant || t->kind == &gm_kind_list || t->kind == &gm_kind_tuple
         || t->kind == &gm_kind_dict || t->kind == &gm_kind_object || t->kind == &gm_kind_function
         || t->kind == &gm_kind_module || t->kind == &gm_kind_generator
         || t->kind == &gm_kind_iterator || t->kind == &gm_kind_given_iterator
         || t->kind == &gm_kind_set || t->kind == &gm_kind_deque || t->kind == &gm_kind_bytearray
         || (t->kind == &gm_kind_class && Py_TYPE (t->real) == &PyType_Type);
}

bool
gm_is_guarded_as_itself (const GmTracker *t)
{
  return t->kind == &gm_kind_class || t->kind == &gm_kind_builtin || t->kind == &gm_kind_module;
}

void
gm_told_apart (GmRecorder *r, const GmTracker *a, const GmTracker *b)
{
  if (a->source == NULL || b->source == NULL || gm_is_guarded_as_itself (a))
    return;
  if (a->source->kind != GM_SOURCE_CONST || b->source->kind != GM_SOURCE_CONST)
    gm_guard (r, DISTINCT, a->source, .other = b->source);
}

/* True if a and b are NaNs; then their identities are guarded. */
static bool
nans (GmRecorder *r, const GmTracker *a, const GmTracker *b)
{
  if (a->kind != &gm_kind_constant || b->kind != &gm_kind_constant || !gm_is_nan (a->real)
      || !gm_is_nan (b->real))
    return false;
  gm_key_guard_nan (r, a);
  gm_key_guard_nan (r, b);
  return true;
}

static bool
is_float (const GmTracker *t)
{
  return t->kind == &gm_kind_float
         || (t->kind == &gm_kind_constant && PyFloat_CheckExact (t->real));
}

static bool
may_be_nan (const GmTracker *t)
{
  return t->kind == &gm_kind_float || (t->kind == &gm_kind_constant && gm_is_nan (t->real));
}

bool
gm_same_or_equal (GmRecorder *r, const GmTracker *a, const GmTracker *b)
{
  a = gm_realize (r, a);
  b = gm_realize (r, b);
  if (r->stop || a == b)
    return !r->stop;
  if (may_be_nan (a) && may_be_nan (b)) {
    a = gm_float_settled (r, a);
    b = gm_float_settled (r, b);
  }
  if (r->stop)
    return false;
  if (nans (r, a, b))
    return a->real == b->real && !r->stop;
  if (a->kind == b->kind && a->kind == &gm_kind_object) /* an object is not compared with itself */
    gm_told_apart (r, a, b);
  return gm_truth (r, gm_compare (r, Py_EQ, a, b)) && !r->stop;
}

bool
gm_contents_still (GmRecorder *r, const GmTracker *t, const GmTracker *contents)
{
  if (!r->stop && gm_contents_of (r, t) != contents)
    gm_record_break (r, GM_BREAK_SIDE_EFFECT,
                     "a container that changes while its items are compared");
  return !r->stop;
}

/* Compares the builtin value t with the value inside of `object`, an instance of a subclass. NULL:
 * the comparison is not implemented for them. */
static const GmTracker *
compare_inside (GmRecorder *r, int op, const GmTracker *t, const GmTracker *object)
{
  const GmTracker *inside = gm_storage (object);
  if (inside == NULL || t->kind == &gm_kind_object || inside->kind != t->kind || !t->kind->compare)
    return NULL;
  if (t->kind != &gm_kind_constant)
    return t->kind->compare (r, op, t, inside);
  richcmpfunc own = Py_TYPE (t->real)->tp_richcompare; /* not RichCompare, which would call the
                                                          other's method, too */
  PyObject *v = own ? own (t->real, inside->real, op) : Py_NewRef (Py_NotImplemented);
  if (v != Py_NotImplemented)
    return gm_from_constant_take (r, v);
  Py_DECREF (v);
  return NULL;
}

/* True for an instance of a subclass of a C class without a model: the result of comparing a
 * builtin value with it is not known. */
static bool
is_opaque (const GmTracker *t)
{
  return t->kind == &gm_kind_object && gm_storage (t) == NULL
         && gm_layout_of ((PyTypeObject *) t->data) != &PyBaseObject_Type;
}

const GmTracker *
gm_compare (GmRecorder *r, int op, const GmTracker *a, const GmTracker *b)
{
  static const char *const names[] = { "<", "<=", "==", "!=", ">", ">=" };
  static const int swapped[] = { Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE };
  a = gm_realize (r, a);
  b = gm_realize (r, b);
  if (r->stop)
    return POISON;
  if (r->nesting >= GM_MAX_NESTING)
    return gm_record_break (r, GM_BREAK_OPERATOR, names[op], gm_type_text (r, a),
                            gm_type_text (r, b));
  const GmTracker *v = NULL;
  r->nesting++;
  bool swap = a->kind == &gm_kind_object && b->kind == &gm_kind_object && a->data != b->data
              && PyType_IsSubtype ((PyTypeObject *) b->data, (PyTypeObject *) a->data);
  if (swap) /* the method of a subclass comes first */
    v = b->kind->compare (r, swapped[op], b, a);
  if (v == NULL && !r->stop && a->kind->compare)
    v = a->kind->compare (r, op, a, b);
  if (v == NULL && !r->stop && b->kind->compare && !swap)
    v = b->kind->compare (r, swapped[op], b, a);
  if (v == NULL && !r->stop)
    v = compare_inside (r, op, a, b);
  if (v == NULL && !r->stop)
    v = compare_inside (r, swapped[op], b, a);
  r->nesting--;
  if (v)
    return v;
  /* Without an implementation on either side, == and != compare identity. */
  bool inside = (is_opaque (a) && b->kind != &gm_kind_object)
                || (is_opaque (b) && a->kind != &gm_kind_object);
  if (!r->stop && (op == Py_EQ || op == Py_NE)
      && (a->real == Py_None || b->real == Py_None
          || (!inside && compares_fully (a) && compares_fully (b)))) {
    v = gm_is (r, a, b);
    return r->stop ? POISON : gm_from_bool (r, (v->real == Py_True) == (op == Py_EQ));
  }
  return gm_record_break (r, GM_BREAK_OPERATOR, names[op], gm_type_text (r, a),
                          gm_type_text (r, b));
}

static bool
is_singleton (PyObject *o)
{
  return o == Py_None || o == Py_True || o == Py_False || o == Py_Ellipsis || o == Py_NotImplemented
         || Py_TYPE (o) == gm_host.dtype_type;
}

static bool
is_int (const GmTracker *t)
{
  return gm_is_size (t) || (t->kind == &gm_kind_constant && PyLong_CheckExact (t->real));
}

/* Returns a is b for two constants or ints of one type. Different values are different objects;
 * CPython has one object for each int from -5 to 256; for other equal values the identity is not
 * known: a break. */
static const GmTracker *
is_by_value (GmRecorder *r, const GmTracker *a, const GmTracker *b)
{
  int64_t value;
  if (a->source && a->source == b->source)
    return gm_from_bool (r, true);
  bool compares = (is_int (a) && is_int (b))
                  || (PyUnicode_CheckExact (a->real) && PyUnicode_CheckExact (b->real));
  bool equal = !compares || gm_truth (r, gm_compare (r, Py_EQ, a, b)) != 0;
  if (r->stop)
    return POISON;
  if (!equal)
    return gm_from_bool (r, false);
  if (compares && is_int (a) && gm_constant_int (r, a, &value) && value >= -5 && value <= 256)
    return gm_from_bool (r, true);
  return gm_record_break (r, GM_BREAK_IDENTITY, gm_type_text (r, a), gm_type_text (r, b));
}

const GmTracker *
gm_is (GmRecorder *r, const GmTracker *a, const GmTracker *b)
{
  for (int side = 0; side < 2; side++) { /* `x is None` needs only the type */
    const GmTracker *x = side ? b : a, *y = side ? a : b;
    if (x->kind == &gm_kind_lazy && y->kind == &gm_kind_constant && is_singleton (y->real)) {
      if (x->real == y->real)
        gm_guard (r, IS, x->source, .obj = y->real);
      else if (Py_TYPE (x->real) == Py_TYPE (y->real))
        gm_guard (r, IS, x->source, .obj = x->real);
      else
        gm_guard (r, TYPE, x->source, .obj = (PyObject *) Py_TYPE (x->real));
      return gm_from_bool (r, x->real == y->real);
    }
  }
  a = gm_realize (r, a);
  b = gm_realize (r, b);
  if (a != b && is_float (a) && is_float (b)) {
    a = gm_float_settled (r, a);
    b = gm_float_settled (r, b);
  }
  if (r->stop)
    return POISON;
  if (a == b && a->kind != &gm_kind_constant)
    return gm_from_bool (r, true);
  if (a->kind == &gm_kind_constant && b->kind == &gm_kind_constant) {
    if (Py_TYPE (a->real) != Py_TYPE (b->real) || is_singleton (a->real) || is_singleton (b->real))
      return gm_from_bool (r, a->real == b->real);
    if (nans (r, a, b))
      return gm_from_bool (r, a->real == b->real);
    return is_by_value (r, a, b);
  }
  if (is_int (a) && is_int (b))
    return is_by_value (r, a, b);
  if ((a->kind == &gm_kind_number || b->kind == &gm_kind_number)
      && gm_type_of (r, a) == gm_type_of (r, b))
    return gm_record_break (r, GM_BREAK_IDENTITY, gm_type_text (r, a), gm_type_text (r, b));
  if (a->kind != b->kind)
    return gm_from_bool (r, false);
  if (a->kind == &gm_kind_method || a->kind == &gm_kind_api || a->kind == &gm_kind_slice
      || a->kind == &gm_kind_view)
    return gm_record_break (r, GM_BREAK_IDENTITY, gm_type_text (r, a), gm_type_text (r, b));
  if ((a->kind == &gm_kind_tuple && (a->n == 0 || b->n == 0)))
    return gm_record_break (r, GM_BREAK_IDENTITY, "tuple", "tuple");
  gm_told_apart (r, a, b);
  return gm_from_bool (r, false);
}

int64_t
gm_len (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, t);
  if (r->stop)
    return 0;
  if (t->kind->len)
    return t->kind->len (r, t);
  gm_record_break (r, GM_BREAK_LENGTH, gm_type_text (r, t));
  return 0;
}

const GmTracker *
gm_contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  t = gm_realize (r, t);
  if (r->stop)
    return POISON;
  if (t->kind->contains)
    return t->kind->contains (r, t, item);
  if (t->kind->next) { /* an iterator is read until the item is found */
    const GmTracker *x;
    while (!r->stop && (x = gm_next (r, t)) != NULL)
      if (gm_same_or_equal (r, x, item))
        return gm_from_bool (r, true);
    return gm_from_bool (r, false);
  }
  return gm_record_break (r, GM_BREAK_CONTAINS, gm_type_text (r, t));
}

PyObject *
gm_constant (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, t);
  if (r->stop || t->kind->constant == NULL)
    return NULL;
  if (t->kind == &gm_kind_constant) /* the recorder keeps it */
    return t->real;
  if (r->nesting >= GM_MAX_NESTING)
    return NULL;
  r->nesting++;
  PyObject *o = t->kind->constant (r, t);
  r->nesting--;
  return o ? gm_record_take (r, o) : NULL;
}

bool
gm_constant_int (GmRecorder *r, const GmTracker *t, int64_t *out)
{
  t = gm_size_settled (r, gm_value_of (gm_realize (r, t)));
  if (r->stop || t->kind != &gm_kind_constant || !PyLong_Check (t->real))
    return false;
  int overflow;
  *out = PyLong_AsLongLongAndOverflow (t->real, &overflow);
  return !overflow;
}

const GmTracker *
gm_call_special (GmRecorder *r, const GmTracker *t, const char *name, const GmTracker *const *args,
                 uint32_t n)
{
  PyTypeObject *type = gm_type_of (r, t);
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString (name));
  if (type == NULL)
    return NULL;
  PyObject *found = gm_class_lookup (r, type, key);
  if (found == NULL || found == Py_None)
    return NULL;
  if (!PyFunction_Check (found))
    return NULL;
  const GmTracker *f = gm_wrap (r, found, gm_source_class_attr (r, type, key));
  const GmTracker **all = gm_tracker_array (r, n + 1);
  all[0] = t;
  gm_tracker_copy (all + 1, args, n);
  return gm_call_n (r, f, all, n + 1);
}
