/* SPDX-License-Identifier: Apache-2.0
 * tracker_getter.c -- callables of C that only remember their arguments: operator.itemgetter,
 * attrgetter, methodcaller, and functools.cmp_to_key with its keys.
 *
 * Items are the arguments; `data` is the class, NULL for cmp_to_key's.  An existing itemgetter or
 * attrgetter says by __reduce__ what it holds, and is guarded by identity.
 * cmp_to_key: number 1 is the function that makes keys, 2 a key: the comparison and the value.
 */
#include "core/trace/builtin.h"
#include "core/trace/exception.h"

#include <string.h>

enum { GETTER, KEY_MAKER, KEY };

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

static const GmTracker *
make_getter (GmRecorder *r, PyTypeObject *type, const GmTracker *const *items, uint32_t n, int number)
{
  const GmTracker **copy = gm_tracker_array (r, n);
  gm_tracker_copy (copy, items, n);
  if (type)
    gm_record_keep (r, (PyObject *) type);
  return gm_tracker (r, .kind = &gm_kind_getter, .items = copy, .n = n, .data = type,
                     .number = number);
}

const GmTracker *
gm_getter_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  if (args->n == 0 || args->names)
    return gm_record_break (r, GM_BREAK_CALL_C, type->tp_name);
  for (uint32_t i = 0; i < args->n && !is_named (type, "itemgetter"); i++) {
    PyObject *name = gm_constant (r, args->args[i]);
    if (r->stop || name == NULL || !PyUnicode_CheckExact (name))
      return gm_record_break (r, GM_BREAK_CALL_C, type->tp_name);
    if (is_named (type, "methodcaller"))
      break;
  }
  return make_getter (r, type, args->args, args->n, GETTER);
}

const GmTracker *
gm_wrap_getter (GmRecorder *r, PyObject *real, const GmSource *source)
{
  PyObject *reduced = PyObject_CallMethod (real, "__reduce__", NULL);
  PyObject *values = reduced && PyTuple_CheckExact (reduced) && PyTuple_GET_SIZE (reduced) == 2
                         ? PyTuple_GET_ITEM (reduced, 1)
                         : NULL;
  if (reduced)
    gm_record_take (r, reduced);
  PyErr_Clear ();
  if (values == NULL || !PyTuple_CheckExact (values))
    return gm_record_break (r, GM_BREAK_CALL_OBJECT, Py_TYPE (real)->tp_name);
  gm_guard (r, IS, source, .obj = real);
  uint32_t n = (uint32_t) PyTuple_GET_SIZE (values);
  const GmTracker **items = gm_tracker_array (r, n);
  for (uint32_t i = 0; i < n; i++) {
    PyObject *value = PyTuple_GET_ITEM (values, i);
    items[i] = gm_wrap (r, value, gm_source_const (r, value, "an argument"));
  }
  if (r->stop)
    return &gm_tracker_poison;
  const GmTracker *t = gm_tracker (r, .kind = &gm_kind_getter, .real = real, .source = source,
                                   .items = items, .n = n, .data = Py_TYPE (real));
  gm_know (r, t);
  return t;
}

const GmTracker *
gm_cmp_to_key (GmRecorder *r, const GmCallArgs *args)
{
  return gm_args_plain (r, "cmp_to_key", args, 1, 1) ? make_getter (r, NULL, args->args, 1, KEY_MAKER)
                                                     : &gm_tracker_poison;
}

/* -- Calls ----------------------------------------------------------------- */

/* a.b.c, names between dots. */
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
    return make_getter (r, NULL, items, 2, KEY);
  if (t->number == KEY)
    return gm_record_break (r, GM_BREAK_CALL_OBJECT, "key of cmp_to_key");
  PyTypeObject *type = (PyTypeObject *) t->data;
  if (is_named (type, "methodcaller"))
    return gm_call_n (r, get_path (r, of, gm_constant (r, t->items[0])), t->items + 1, t->n - 1);
  g_autofree const GmTracker **out = gm_tracker_array_own (t->n);
  for (uint32_t i = 0; i < t->n && !r->stop; i++)
    out[i] = is_named (type, "itemgetter") ? gm_getitem (r, of, t->items[i])
                                           : get_path (r, of, gm_constant (r, t->items[i]));
  if (r->stop)
    return &gm_tracker_poison;
  return t->n == 1 ? out[0] : gm_tuple_new (r, out, t->n);
}

/* Keys: what the user's function says of the two values, compared with 0. */
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
  return (PyTypeObject *) t->data;
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
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) t->data);
  for (uint32_t i = 0; i < t->n; i++)
    gm_residual_value (b, t->items[i]);
  gm_residual_emit (b, GM_INSN_CALL, t->n, NULL);
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
