/* SPDX-License-Identifier: Apache-2.0
 * functools.c -- functools.partial and functools.reduce.
 *
 * A partial object is determined by its members func, args and keywords.  The tracker of a new
 * partial keeps them as attributes, beside those of its dict, and the residual makes the object by
 * calling the class.
 */
#include "core/trace/attrs.h"
#include "core/models/models_private.h"
#include "core/trace/exception.h"
#include "core/trace/instance.h"

static const char *const members[] = { "func", "args", "keywords" };

static const GmTracker *
member (GmRecorder *r, const GmTracker *t, int i)
{
  return gm_realize (
      r, gm_getattr (r, t, gm_record_take (r, PyUnicode_InternFromString (members[i]))));
}

bool
gm_is_partial_member (PyObject *name)
{
  for (uint32_t i = 0; i < G_N_ELEMENTS (members); i++)
    if (PyUnicode_CompareWithASCIIString (name, members[i]) == 0)
      return true;
  return false;
}

/* True if the partial object has a dict: then CPython does not merge it into another partial
 * made of it. */
static bool
has_dict (GmRecorder *r, const GmTracker *t)
{
  PyObject **dict = t->real ? _PyObject_GetDictPtr (t->real) : NULL;
  const GmTracker *contents = gm_contents_of (r, t);
  bool any = dict && *dict;
  for (uint32_t i = 0; contents && i < contents->n && !any; i += 2)
    any = !gm_is_partial_member (contents->items[i]->real);
  return any;
}

/* Joins the arguments of a partial with those of a call into *all, and returns the array of its
 * values; the partial's positional arguments come first, and the call's named arguments override
 * the partial's. */
static const GmTracker *
join (GmRecorder *r, const GmTracker *before, const GmTracker *keywords, const GmCallArgs *args,
      GmCallArgs *all)
{
  const GmTracker *named = gm_dict_new (r);
  if (keywords)
    gm_call_n (r, gm_getattr (r, named, gm_record_take (r, PyUnicode_InternFromString ("update"))),
               &keywords, 1);
  for (uint32_t k = 0; k < gm_args_n_named (args); k++)
    gm_dict_store (r, named, gm_from_constant (r, PyTuple_GET_ITEM (args->names, k)),
                   args->args[args->n + k]);
  if (r->stop)
    return &gm_tracker_poison;
  const GmTracker *contents = gm_contents_of (r, named);
  uint32_t n_before = before ? before->n : 0, n_named = contents->n / 2;
  const GmTracker **items = gm_tracker_array (r, n_before + args->n + n_named);
  if (before)
    gm_tracker_copy (items, before->items, n_before);
  gm_tracker_copy (items + n_before, args->args, args->n);
  PyObject *names = gm_record_take (r, PyTuple_New (n_named));
  for (uint32_t k = 0; k < n_named; k++) {
    const GmTracker *name = gm_realize (r, contents->items[2 * k]);
    if (r->stop || name->kind != &gm_kind_constant
        || !PyUnicode_CheckExact (name->real)) /* the program may put anything in there */
      return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                              "partial() with a keyword that is no text");
    PyTuple_SET_ITEM (names, k, Py_NewRef (name->real));
    items[n_before + args->n + k] = contents->items[2 * k + 1];
  }
  *all = (GmCallArgs){ items, n_before + args->n, n_named ? names : NULL };
  return named;
}

const GmTracker *
gm_special_object_call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (gm_is_cached_function ((PyTypeObject *) t->data))
    return gm_cached_call (r, t, args);
  if (!gm_is_partial ((PyTypeObject *) t->data))
    return NULL;
  const GmTracker *func = member (r, t, 0), *before = member (r, t, 1),
                  *keywords = member (r, t, 2);
  if (r->stop || before->kind != &gm_kind_tuple || keywords->kind != &gm_kind_dict)
    return gm_record_break (r, GM_BREAK_CALL_OBJECT, "partial");
  GmCallArgs all;
  join (r, before, keywords, args, &all);
  return r->stop ? &gm_tracker_poison : gm_call (r, func, &all);
}

/* Returns partial (func, *args, **keywords), a new object; a partial of a partial is flattened.
 * Poison after a break. */
const GmTracker *
gm_partial_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  if (args->n == 0)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "partial() without a function");
  const GmTracker *func = gm_realize (r, args->args[0]), *before = NULL, *keywords = NULL;
  if (r->stop)
    return &gm_tracker_poison;
  bool callable = func->kind == &gm_kind_object
                      ? gm_class_lookup_text (r, (PyTypeObject *) func->data, "__call__") != NULL
                      : func->kind->call != NULL;
  if (!callable)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "partial() of what cannot be called");
  if (func->kind == &gm_kind_object && gm_is_partial ((PyTypeObject *) func->data)
      && !has_dict (r, func)) {
    before = member (r, func, 1);
    keywords = member (r, func, 2);
    func = member (r, func, 0);
  }
  GmCallArgs rest = { args->args + 1, args->n - 1, args->names }, all;
  const GmTracker *named = join (r, before, keywords, &rest, &all);
  const GmTracker *t = gm_object_new (r, type);
  const GmTracker *values[3] = { func, gm_tuple_new (r, all.args, all.n), named };
  for (int i = 0; i < 3 && !r->stop; i++)
    gm_attrs_set (r, t, gm_record_take (r, PyUnicode_InternFromString (members[i])), values[i]);
  return r->stop ? &gm_tracker_poison : t;
}

/* Emits code that makes the object by calling the class with the object's members. */
bool
gm_partial_build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  const GmTracker *parts[3];
  for (int i = 0; i < 3; i++)
    parts[i] = gm_attrs_get (r, t, gm_record_take (r, PyUnicode_InternFromString (members[i])));
  if (parts[0] == NULL || parts[1] == NULL || parts[2] == NULL)
    return false;
  const GmTracker *named = gm_contents_of (r, parts[2]);
  for (uint32_t i = 0; i < named->n; i += 2)
    if (named->items[i]->kind != &gm_kind_constant || !PyUnicode_CheckExact (named->items[i]->real))
      return false;
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) t->data);
  gm_residual_value (b, parts[0]);
  for (uint32_t i = 0; i < parts[1]->n; i++)
    gm_residual_value (b, parts[1]->items[i]);
  PyObject *names = named->n ? gm_record_take (r, PyTuple_New (named->n / 2)) : NULL;
  for (uint32_t i = 0; i < named->n; i += 2) {
    PyTuple_SET_ITEM (names, i / 2, Py_NewRef (named->items[i]->real));
    gm_residual_value (b, named->items[i + 1]);
  }
  gm_residual_emit (b, GM_INSN_CALL, 1 + parts[1]->n + named->n / 2, names);
  gm_residual_allocated (b, t);
  return true;
}

const GmTracker *
gm_reduce (GmRecorder *r, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "reduce", args, 2, 3))
    return &gm_tracker_poison;
  const GmTracker *it = gm_iter_or (r, args->args[1], "reduce() arg 2 must support iteration"),
                  *item;
  const GmTracker *total = args->n == 3 ? args->args[2] : gm_next (r, it);
  if (r->stop)
    return &gm_tracker_poison;
  if (total == NULL)
    return gm_raise_new (r, PyExc_TypeError, "reduce() of empty iterable with no initial value");
  while (!r->stop && (item = gm_next (r, it)) != NULL) {
    const GmTracker *pair[2] = { total, item };
    total = gm_call_n (r, args->args[0], pair, 2);
  }
  return r->stop ? &gm_tracker_poison : total;
}
