/* SPDX-License-Identifier: Apache-2.0
 * builtin_function.c -- functions of the module builtins: those that have a model, and those that
 * only compute on constants.
 */
#include "core/models/models_private.h"
#include "core/trace/exception.h"
#include "core/trace/iterator.h"
#include "core/trace/keys.h"
#include "core/trace/number.h"
#include "core/trace/instance.h"
#include "core/trace/traced_size.h"

#include <math.h>
#include <string.h>

typedef const GmTracker *(*Model) (GmRecorder *r, const GmCallArgs *args);

#define PLAIN(name, min, max)                                                                      \
  if (!gm_args_plain (r, name, args, min, max))                                                    \
  return &gm_tracker_poison

static const GmTracker *
call_len (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("len", 1, 1);
  const GmTracker *t = gm_realize (r, args->args[0]);
  if (t->kind == &gm_kind_tensor && !r->stop) {
    const GmMeta *m = gm_graph_meta (r->graph, (GmValueId) gm_contents_of (r, t)->number);
    if (m->ndim)
      return gm_size_tracker (r, m->sizes[0]);
  }
  return gm_from_int (r, gm_len (r, args->args[0]));
}

static const GmTracker *
call_isinstance (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("isinstance", 2, 2);
  return gm_from_bool (r, gm_is_instance (r, args->args[0], args->args[1]));
}

static const GmTracker *
call_issubclass (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("issubclass", 2, 2);
  const GmTracker *a = gm_realize (r, args->args[0]), *b = gm_realize (r, args->args[1]);
  if (r->stop || a->kind != &gm_kind_class)
    return gm_record_break (r, GM_BREAK_CALL_C, "issubclass()");
  bool found = false;
  for (uint32_t i = 0; i < (b->kind == &gm_kind_tuple ? b->n : 1) && !found; i++) {
    const GmTracker *c = b->kind == &gm_kind_tuple ? gm_realize (r, b->items[i]) : b;
    if (r->stop || c->kind != &gm_kind_class)
      return gm_record_break (r, GM_BREAK_CALL_C, "issubclass()");
    found = gm_is_subclass (r, (PyTypeObject *) a->real, c->real, "__subclasscheck__");
  }
  return gm_from_bool (r, found);
}

static PyObject *
name_of (GmRecorder *r, const GmTracker *t)
{
  PyObject *name = gm_constant (r, t);
  if (name && PyUnicode_CheckExact (name)) {
    Py_INCREF (name); /* interned: keys of guards are compared by identity first */
    PyUnicode_InternInPlace (&name);
    return gm_record_take (r, name);
  }
  gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "an attribute name that is no constant string");
  return NULL;
}

static const GmTracker *
call_getattr (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("getattr", 2, 3);
  PyObject *name = name_of (r, args->args[1]);
  if (name == NULL)
    return &gm_tracker_poison;
  if (args->n == 2)
    return gm_getattr (r, args->args[0], name);
  const GmTracker *v = gm_getattr_opt (r, args->args[0], name);
  if (gm_exception_caught (r, PyExc_AttributeError))
    v = NULL;
  return v ? v : args->args[2];
}

/* True if the attribute `name` of t is a method written in C, so that reading it cannot fail. */
static bool
has_c_method (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  PyTypeObject *type = t->kind == &gm_kind_object   ? (PyTypeObject *) t->data
                       : t->kind == &gm_kind_tensor ? gm_type_of (r, t)
                                                    : NULL;
  if (type == NULL || (type->tp_getattro != PyObject_GenericGetAttr && type != gm_host.tensor_type))
    return false;
  PyObject *found = gm_class_lookup (r, type, name);
  return found
         && (Py_IS_TYPE (found, &PyWrapperDescr_Type) || Py_IS_TYPE (found, &PyMethodDescr_Type));
}

static const GmTracker *
call_hasattr (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("hasattr", 2, 2);
  PyObject *name = name_of (r, args->args[1]);
  if (name == NULL)
    return &gm_tracker_poison;
  const GmTracker *t = gm_realize (r, args->args[0]);
  if (!r->stop && has_c_method (r, t, name))
    return gm_from_bool (r, true);
  const GmTracker *v = gm_getattr_opt (r, t, name);
  if (gm_exception_caught (r, PyExc_AttributeError))
    v = NULL;
  return gm_from_bool (r, v != NULL);
}

static const GmTracker *
call_setattr (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("setattr", 3, 3);
  PyObject *name = name_of (r, args->args[1]);
  if (name)
    gm_setattr (r, args->args[0], name, args->args[2]);
  return gm_none (r);
}

static const GmTracker *
call_delattr (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("delattr", 2, 2);
  PyObject *name = name_of (r, args->args[1]);
  if (name)
    gm_setattr (r, args->args[0], name, NULL);
  return gm_none (r);
}

/* True if the code may read its variables by locals () or a similar function more than once.
 * Until 3.12 a frame has only one dict of its variables, which keeps the program's own entries: a
 * second read in the same function may find them. */
static bool
may_look_again (const GmCode *code)
{
  static const char *const names[] = { "locals", "vars", "dir", "eval", "exec" };
  uint32_t looks = 0;
  for (uint32_t i = 0; i < code->n_insns && PY_VERSION_HEX < 0x030d0000; i++) {
    const GmInsn *insn = &code->insns[i];
    for (size_t k = 0; k < G_N_ELEMENTS (names) && insn->op == GM_INSN_LOAD_GLOBAL; k++)
      looks += PyUnicode_CompareWithASCIIString (insn->obj, names[k]) == 0;
    looks += gm_insns[insn->op].operand == GM_OPERAND_JUMP && insn->target <= i;
  }
  return looks > 1;
}

static const GmTracker *
call_locals (GmRecorder *r, const GmCallArgs *args)
{
  return args->n < 2 && may_look_again (r->frame->code)
             ? gm_record_break (r, GM_BREAK_CALL_LOCALS, "locals(), vars(), eval() or exec()")
             : NULL;
}

static const GmTracker *
call_vars (GmRecorder *r, const GmCallArgs *args)
{
  if (args->n == 0 && call_locals (r, args))
    return &gm_tracker_poison;
  PLAIN ("vars", 1, 1);
  const GmTracker *dict = gm_getattr_opt (
      r, args->args[0], gm_record_take (r, PyUnicode_InternFromString ("__dict__")));
  bool none = gm_exception_caught (r, PyExc_AttributeError) || (dict == NULL && !r->stop);
  return none ? gm_raise_new (r, PyExc_TypeError, "vars() argument must have __dict__ attribute")
              : dict;
}

static const GmTracker *
call_hash (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("hash", 1, 1);
  Py_hash_t hash;
  const GmTracker *t = gm_realize (r, args->args[0]);
  if (!r->stop && t->kind == &gm_kind_constant && PyFloat_Check (t->real)
      && isnan (PyFloat_AS_DOUBLE (t->real)))
    return gm_record_break (r, GM_BREAK_CALL_ID, "hash() of NaN"); /* it depends on the object */
  if (gm_key_hash (r, t, &hash)
      || (!r->stop && t->kind == &gm_kind_tuple && gm_tuple_hash (r, t, &hash))
      || (!r->stop && gm_key_hash_called (r, t, &hash)))
    return gm_from_int (r, hash);
  return gm_record_break (r, GM_BREAK_CALL_ID, "hash()");
}

static const GmTracker *
call_repr (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("repr", 1, 1);
  return gm_text_of (r, args->args[0], true);
}

static const GmTracker *
call_format (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("format", 1, 2);
  PyObject *spec = args->n == 2 ? gm_constant (r, args->args[1]) : NULL;
  if (args->n == 2 && (spec == NULL || !PyUnicode_CheckExact (spec)))
    return gm_record_break (r, GM_BREAK_CALL_C, "format");
  return gm_format (r, args->args[0], 0, spec);
}

static const GmTracker *
call_abs (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("abs", 1, 1);
  const GmTracker *t = gm_realize (r, args->args[0]);
  if (t->kind == &gm_kind_tensor)
    return gm_call_api_name (r, "abs", &t, 1, false);
  if (gm_is_size (t) && !r->stop)
    return gm_truth (r, gm_compare (r, Py_LT, t, gm_from_int (r, 0))) ? gm_unary (r, GM_UN_NEG, t)
                                                                      : t;
  const GmTracker *own = gm_builtin_protocol (r, "abs", args);
  if (own || r->stop)
    return own ? own : &gm_tracker_poison;
  PyObject *o = gm_constant (r, gm_builtin_plain_value (r, t));
  return o ? gm_from_constant_take (r, PyNumber_Absolute (o))
           : gm_record_break (r, GM_BREAK_UNARY, "abs()", gm_type_text (r, t));
}

/* Returns start + the known numbers in the list `items`, computed by CPython's sum (), which
 * since 3.12 compensates for the rounding of floats. */
static const GmTracker *
sum_known (GmRecorder *r, const GmTracker *start, PyObject *items)
{
  PyObject *sum = PyDict_GetItemString (PyEval_GetBuiltins (), "sum");
  if (r->stop || PyList_GET_SIZE (items) == 0)
    return start;
  return gm_from_constant_take (
      r, sum ? PyObject_CallFunctionObjArgs (sum, items, start->real, NULL) : NULL);
}

static bool
is_known_number (const GmTracker *t)
{
  return t->kind == &gm_kind_constant && (PyLong_Check (t->real) || PyFloat_CheckExact (t->real));
}

/* Returns t as sum () reads it: since 3.12 a float is fixed to its value in this call, since sum
 * () compensates for rounding and an addition in the graph does not. */
static const GmTracker *
summand (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, t);
  return PY_VERSION_HEX >= 0x030C0000 ? gm_float_settled (r, t) : t;
}

static const GmTracker *
call_sum (GmRecorder *r, const GmCallArgs *args)
{
  static const char *const names[] = { "iterable", "start" };
  const GmTracker *in[2];
  if (!gm_args_take (r, "sum", args, names, 2, in))
    return &gm_tracker_poison;
  if (args->n == 0) /* the first argument has no name */
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "sum() without an iterable");
  const GmTracker *total = in[1] ? in[1] : gm_from_int (r, 0), *item;
  const GmTracker *it = gm_iter (r, in[0]), *start = summand (r, total);
  PyObject *known = gm_record_take (r, PyList_New (0));
  const GmTracker *text = r->stop ? start : gm_value_of (start);
  if (text->kind == &gm_kind_constant
      && (PyUnicode_Check (text->real) || PyBytes_Check (text->real)))
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "sum() of texts");
  bool all_known = !r->stop && is_known_number (start);
  while (!r->stop && (item = gm_next (r, it)) != NULL) {
    const GmTracker *value = all_known ? summand (r, item) : item;
    if (all_known && is_known_number (value) && PyList_Append (known, value->real) == 0)
      continue;
    if (all_known)
      total = sum_known (r, start, known);
    all_known = false;
    total = gm_binary (r, GM_BIN_ADD, total, item, false);
  }
  return all_known ? sum_known (r, start, known) : total;
}

/* Returns math.prod (iterable, start=1); poison after a break. */
const GmTracker *
gm_math_prod (GmRecorder *r, const GmCallArgs *args)
{
  const GmTracker *total = gm_from_int (r, 1), *item;
  bool start =
      gm_args_n_named (args) == 1
      && PyUnicode_CompareWithASCIIString (PyTuple_GET_ITEM (args->names, 0), "start") == 0;
  if (args->n != 1 || (args->names && !start))
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                            "prod() of more than an iterable and a start");
  if (start)
    total = args->args[1];
  const GmTracker *it = gm_iter (r, args->args[0]);
  while (!r->stop && (item = gm_next (r, it)) != NULL)
    total = gm_binary (r, GM_BIN_MUL, total, item, false);
  return total;
}

static const GmTracker *
any_or_all (GmRecorder *r, const GmCallArgs *args, bool any)
{
  PLAIN (any ? "any" : "all", 1, 1);
  const GmTracker *it = gm_iter (r, args->args[0]), *item;
  while (!r->stop && (item = gm_next (r, it)) != NULL)
    if ((gm_truth (r, item) != 0) == any)
      return gm_from_bool (r, any);
  return gm_from_bool (r, !any);
}

static const GmTracker *
call_any (GmRecorder *r, const GmCallArgs *args)
{
  return any_or_all (r, args, true);
}

static const GmTracker *
call_all (GmRecorder *r, const GmCallArgs *args)
{
  return any_or_all (r, args, false);
}

static const GmTracker *
call_sorted (GmRecorder *r, const GmCallArgs *args)
{
  if (args->n != 1)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "sorted()");
  const GmTracker *t = gm_realize (r, args->args[0]);
  const GmTracker *contents =
      !r->stop && t->kind == &gm_kind_set && args->names == NULL ? gm_contents_of (r, t) : NULL;
  if (contents && gm_sorts_alike (contents->items, contents->n))
    return gm_sorted (r, contents->items, contents->n, "sorted", args);
  g_autoptr (GPtrArray) items = gm_collect (r, t);
  return items ? gm_sorted (r, (const GmTracker *const *) items->pdata, items->len, "sorted", args)
               : &gm_tracker_poison;
}

static const GmTracker *
call_min (GmRecorder *r, const GmCallArgs *args)
{
  return gm_min_or_max (r, args, false);
}

static const GmTracker *
call_max (GmRecorder *r, const GmCallArgs *args)
{
  return gm_min_or_max (r, args, true);
}

static const GmTracker *
call_iter (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("iter", 1, 2);
  return args->n == 2 ? gm_iterator_new (r, GM_ITER_CALLABLE, args->args, 2, 0)
                      : gm_iter (r, args->args[0]);
}

static const GmTracker *
call_next (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("next", 1, 2);
  const GmTracker *it = gm_realize (r, args->args[0]), *item = gm_next (r, it);
  if (item || r->stop)
    return item ? item : &gm_tracker_poison;
  if (args->n == 2)
    return args->args[1];
  bool valued = it->kind == &gm_kind_generator || it->kind == &gm_kind_object;
  const GmTracker *value = valued ? gm_realize (r, r->stopped_value) : NULL;
  return gm_raise_value (r, PyExc_StopIteration, value && value->real != Py_None ? value : NULL);
}

static const GmTracker *
call_callable (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("callable", 1, 1);
  const GmTracker *t = gm_realize (r, args->args[0]);
  if (t->kind == &gm_kind_object)
    return gm_from_bool (r, gm_class_lookup_text (r, (PyTypeObject *) t->data, "__call__") != NULL);
  return gm_from_bool (r, t->kind->call != NULL);
}

static const GmTracker *
call_print (GmRecorder *r, const GmCallArgs *args)
{
  return gm_record_break (r, GM_BREAK_CALL_PRINT, "print()");
}

static const GmTracker *
call_id (GmRecorder *r, const GmCallArgs *args)
{
  return gm_record_break (r, GM_BREAK_CALL_ID, "id()");
}

static const GmTracker *
call_divmod (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("divmod", 2, 2);
  return gm_divmod (r, args->args[0], args->args[1]);
}

/* Returns pow (): of two arguments, as the operator does; of three, by the first operand's
 * method alone. */
static const GmTracker *
call_pow (GmRecorder *r, const GmCallArgs *args)
{
  static const char *const names[] = { "base", "exp", "mod" };
  const GmTracker *in[3];
  if (!gm_args_take (r, "pow", args, names, 3, in))
    return &gm_tracker_poison;
  if (in[0] == NULL || in[1] == NULL)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "pow()");
  bool exact = true;
  for (int i = 0; i < 3; i++) {
    in[i] = in[i] ? gm_realize (r, in[i]) : gm_none (r);
    exact = exact && in[i]->kind == &gm_kind_constant;
  }
  if (r->stop || exact)
    return r->stop ? &gm_tracker_poison
                   : gm_builtin_fold (r, PyDict_GetItemString (PyEval_GetBuiltins (), "pow"),
                                      &(GmCallArgs){ in, 3, NULL });
  if (in[2]->real == Py_None)
    return gm_binary (r, GM_BIN_POW, in[0], in[1], false);
  const GmTracker *v =
      in[0]->kind == &gm_kind_object ? gm_call_special (r, in[0], "__pow__", in + 1, 2) : NULL;
  return v && !r->stop && gm_realize (r, v)->real == Py_NotImplemented ? NULL : v;
}

static const GmTracker *
call_round (GmRecorder *r, const GmCallArgs *args)
{
  static const char *const names[] = { "number", "ndigits" };
  const GmTracker *in[2];
  if (!gm_args_take (r, "round", args, names, 2, in))
    return &gm_tracker_poison;
  if (in[0] == NULL)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "round()");
  bool digits =
      in[1] && gm_realize (r, in[1])->real != Py_None; /* None is the same as no argument */
  GmCallArgs plain = { in, digits ? 2 : 1, NULL };
  const GmTracker *v = r->stop ? &gm_tracker_poison : gm_builtin_protocol (r, "round", &plain);
  return v || r->stop
             ? v
             : gm_builtin_fold (r, PyDict_GetItemString (PyEval_GetBuiltins (), "round"), &plain);
}

/* Builtin functions without a model of their own that compute from their argument alone: they
 * are called on constants.  index: true if the argument may have an __index__. */
static const struct {
  const char *name;
  Model model;
  bool index;
} functions[] = {
  { "len", call_len },
  { "isinstance", call_isinstance },
  { "issubclass", call_issubclass },
  { "getattr", call_getattr },
  { "hasattr", call_hasattr },
  { "setattr", call_setattr },
  { "abs", call_abs },
  { "sum", call_sum },
  { "any", call_any },
  { "all", call_all },
  { "iter", call_iter },
  { "next", call_next },
  { "callable", call_callable },
  { "print", call_print },
  { "id", call_id },
  { "min", call_min },
  { "max", call_max },
  { "sorted", call_sorted },
  { "divmod", call_divmod },
  { "pow", call_pow },
  { "round", call_round },
  { "chr", NULL, true },
  { "ord", NULL },
  { "hex", NULL, true },
  { "oct", NULL, true },
  { "bin", NULL, true },
  { "repr", call_repr },
  { "format", call_format },
  { "delattr", call_delattr },
  { "vars", call_vars },
  { "locals", call_locals },
  { "eval", call_locals },
  { "exec", call_locals },
  { "hash", call_hash },
  { "ascii", gm_ascii },
};

const GmTracker *
gm_builtin_function_call (GmRecorder *r, PyObject *fn, const char *name, const GmCallArgs *args)
{
  for (size_t i = 0; i < G_N_ELEMENTS (functions); i++)
    if (fn == PyDict_GetItemString (PyEval_GetBuiltins (), functions[i].name)) {
      const GmTracker *v =
          functions[i].model ? functions[i].model (r, args) : gm_builtin_fold (r, fn, args);
      if (v == NULL && !r->stop && args->names == NULL && functions[i].index)
        v = gm_builtin_with_index (r, fn, args);
      return v ? v : gm_record_break (r, GM_BREAK_CALL_C, functions[i].name);
    }
  return NULL;
}
