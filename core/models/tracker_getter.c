/* SPDX-License-Identifier: Apache-2.0
 * tracker_getter.c -- C callables that only keep their arguments: operator.itemgetter, attrgetter,
 * methodcaller, and functools.cmp_to_key with its keys.
 *
 * The tracker's items are the arguments, positional arguments first; `data` has the class and the
 * names of the named arguments, and is NULL for cmp_to_key.  The arguments of an existing object
 * are read by __reduce__, and the object is guarded by identity.  For cmp_to_key `number` tells the
 * function that makes keys from a key, whose items are the comparison and the value.
 */
#include "core/models/models_private.h"
#include "core/trace/exception.h"

#include <string.h>

enum { GETTER, KEY_MAKER, KEY };

typedef struct {
  PyTypeObject *type;
  PyObject *names; /* names of a methodcaller's named arguments: a tuple of str, or NULL */
} Getter;

static bool
is_named (PyTypeObject *type, const char *name)
{
  const char *dot = strrchr (type->tp_name, '.');
  return strncmp (type->tp_name, "operator.", 9) == 0 && strcmp (dot + 1, name) == 0;
}

bool
gm_is_getter (PyTypeObject *type)
{
  return is_named (type, "itemgetter") || is_named (type, "attrgetter")
         || is_named (type, "methodcaller");
}

static PyTypeObject *
class_of (const GmTracker *t)
{
  return ((const Getter *) t->data)->type;
}

static const GmTracker *
make_key (GmRecorder *r, const GmTracker *const *items, uint32_t n, int number)
{
  const GmTracker **copy = gm_tracker_array (r, n);
  gm_tracker_copy (copy, items, n);
  return gm_tracker (r, .kind = &gm_kind_getter, .items = copy, .n = n, .number = number);
}

/* Returns a tracker for a getter of this type with these arguments.  real: an existing object,
 * with its source; NULL: a new getter. */
static const GmTracker *
make_getter (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args, PyObject *real,
             const GmSource *source)
{
  uint32_t n = args->n + gm_args_n_named (args);
  const GmTracker **copy = gm_tracker_array (r, n);
  gm_tracker_copy (copy, args->args, n);
  Getter g = { type, args->names ? gm_record_keep (r, args->names) : NULL };
  gm_record_keep (r, (PyObject *) type);
  return gm_tracker (r, .kind = &gm_kind_getter, .real = real, .source = source, .items = copy,
                     .n = n, .data = gm_arena_copy (r->arena, &g, sizeof g), .number = GETTER);
}

const GmTracker *
gm_getter_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  if (args->n == 0 || (args->names && !is_named (type, "methodcaller")))
    return gm_record_break (r, GM_BREAK_CALL_C, type->tp_name);
  for (uint32_t i = 0; i < args->n && !is_named (type, "itemgetter"); i++) {
    PyObject *name = gm_constant (r, args->args[i]);
    if (r->stop || name == NULL || !PyUnicode_CheckExact (name))
      return gm_record_break (r, GM_BREAK_CALL_C, type->tp_name);
    if (is_named (type, "methodcaller"))
      break;
  }
  return make_getter (r, type, args, NULL, NULL);
}

/* Reads the tuple that __reduce__ returned for a getter.  If a call of `type` makes it: *rest
 * are the arguments.  If a call of a partial of `type` does: *first are the partial's arguments,
 * *named its keywords, *rest the arguments after them.  False: the result has another form. */
static bool
read_reduced (PyObject *reduced, PyTypeObject *type, PyObject **first, PyObject **rest,
              PyObject **named)
{
  if (reduced == NULL || !PyTuple_CheckExact (reduced) || PyTuple_GET_SIZE (reduced) != 2)
    return false;
  PyObject *made_by = PyTuple_GET_ITEM (reduced, 0);
  *first = *named = NULL;
  *rest = PyTuple_GET_ITEM (reduced, 1);
  if (!PyTuple_CheckExact (*rest))
    return false;
  if (made_by == (PyObject *) type)
    return PyTuple_GET_SIZE (*rest) > 0;
  if (!gm_is_partial (Py_TYPE (made_by)))
    return false;
  PyObject *func = PyObject_GetAttrString (made_by, "func");
  *first = PyObject_GetAttrString (made_by, "args");
  *named = PyObject_GetAttrString (made_by, "keywords");
  bool good = func == (PyObject *) type && *first && PyTuple_CheckExact (*first)
              && PyTuple_GET_SIZE (*first) > 0 && *named && PyDict_CheckExact (*named);
  Py_XDECREF (func);
  if (!good) {
    Py_CLEAR (*first);
    Py_CLEAR (*named);
  }
  return good;
}

const GmTracker *
gm_wrap_getter (GmRecorder *r, PyObject *real, const GmSource *source)
{
  PyObject *reduced = PyObject_CallMethod (real, "__reduce__", NULL), *first, *rest, *named;
  bool good = read_reduced (reduced, Py_TYPE (real), &first, &rest, &named);
  if (reduced)
    gm_record_take (r, reduced);
  PyErr_Clear ();
  if (!good)
    return gm_record_break (r, GM_BREAK_CALL_OBJECT, Py_TYPE (real)->tp_name);
  PyObject *values = first ? PySequence_Concat (first, rest) : Py_NewRef (rest), *names = NULL;
  gm_record_take (r, values);
  if (first) {
    gm_record_take (r, first);
    gm_record_take (r, named);
    names = PyDict_GET_SIZE (named) ? gm_record_take (r, PySequence_Tuple (named)) : NULL;
  }
  gm_guard (r, IS, source, .obj = real);
  uint32_t n = (uint32_t) PyTuple_GET_SIZE (values),
           n_named = names ? (uint32_t) PyTuple_GET_SIZE (names) : 0;
  g_autofree const GmTracker **items = gm_tracker_array_own (n + n_named);
  for (uint32_t i = 0; i < n + n_named && !r->stop; i++) {
    PyObject *value = i < n ? PyTuple_GET_ITEM (values, i)
                            : PyDict_GetItemWithError (named, PyTuple_GET_ITEM (names, i - n));
    items[i] = gm_wrap (r, value, gm_source_const (r, value, "an argument"));
  }
  if (r->stop)
    return &gm_tracker_poison;
  const GmTracker *t =
      make_getter (r, Py_TYPE (real), &(GmCallArgs){ items, n, names }, real, source);
  gm_know (r, t);
  return t;
}

const GmTracker *
gm_cmp_to_key (GmRecorder *r, const GmCallArgs *args)
{
  return gm_args_plain (r, "cmp_to_key", args, 1, 1) ? make_key (r, args->args, 1, KEY_MAKER)
                                                     : &gm_tracker_poison;
}

/* -- Calls ----------------------------------------------------------------- */

/* Returns t.a.b.c for `path`, a string of names between dots; poison after a break. */
static const GmTracker *
get_path (GmRecorder *r, const GmTracker *t, PyObject *path)
{
  g_auto (GStrv) names = g_strsplit (PyUnicode_AsUTF8 (path), ".", -1);
  for (char **name = names; *name && !r->stop; name++)
    t = gm_getattr (r, t, gm_record_take (r, PyUnicode_InternFromString (*name)));
  return t;
}

static const GmTracker *
call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, t->kind->name, args, 1, 1))
    return &gm_tracker_poison;
  const GmTracker *of = args->args[0], *items[2] = { t->items[0], of };
  if (t->number == KEY_MAKER)
    return make_key (r, items, 2, KEY);
  if (t->number == KEY)
    return gm_record_break (r, GM_BREAK_CALL_OBJECT, "key of cmp_to_key");
  PyTypeObject *type = class_of (t);
  if (is_named (type, "methodcaller")) { /* its name is one attribute, even with dots in it */
    PyObject *name = gm_record_keep (r, gm_constant (r, t->items[0])),
             *names = ((const Getter *) t->data)->names;
    GmCallArgs rest = { t->items + 1, t->n - 1, names };
    rest.n -= gm_args_n_named (&rest);
    return gm_call (r, gm_getattr (r, of, name), &rest);
  }
  g_autofree const GmTracker **out = gm_tracker_array_own (t->n);
  for (uint32_t i = 0; i < t->n && !r->stop; i++)
    out[i] = is_named (type, "itemgetter") ? gm_getitem (r, of, t->items[i])
                                           : get_path (r, of, gm_constant (r, t->items[i]));
  if (r->stop)
    return &gm_tracker_poison;
  return t->n == 1 ? out[0] : gm_tuple_new (r, out, t->n);
}

/* Compares two keys of cmp_to_key by `op`: calls the user's function on the two values and
 * compares the result with 0.  NULL: t or `other` is no key. */
static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (t->number != KEY || other->kind != &gm_kind_getter || other->number != KEY)
    return NULL;
  const GmTracker *pair[2] = { t->items[1], other->items[1] };
  return gm_compare (r, op, gm_call_n (r, t->items[0], pair, 2), gm_from_int (r, 0));
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return t->data ? class_of (t) : NULL;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  if (gm_residual_cached (b, t))
    return true;
  if (t->data == NULL)
    return false;
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) class_of (t));
  for (uint32_t i = 0; i < t->n; i++)
    gm_residual_value (b, t->items[i]);
  gm_residual_emit (b, GM_INSN_CALL, t->n, ((const Getter *) t->data)->names);
  gm_residual_allocated (b, t);
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_getter = {
  .name = "getter",
  .type = type,
  .truth = truth,
  .call = call,
  .compare = compare,
  .build = build,
};
