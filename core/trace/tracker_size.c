/* SPDX-License-Identifier: Apache-2.0
 * tracker_size.c -- ints that are expressions over sizes: the items of x.shape if a size is a
 * symbol.
 *
 * `number` is the size, a row of the graph's GmSizes. Sums, products, floor quotients and
 * remainders are expressions again; a comparison is decided at once, by the facts or by the
 * example, and is a plain bool. Any other operation that reads the value (an index, a format, a C
 * function) gets the example's, and the size is fixed to that number. When it leaves the region it
 * is an element that the graph computes.
 */
#include "core/trace/kinds.h"
#include "core/trace/number.h"
#include "core/trace/traced_size.h"

#include <string.h>

static GmSizes *
sizes_of (GmRecorder *r)
{
  return r->graph->sizes;
}

/* True if the last question about sizes was decided; false, with a break: the answer depends on
 * data. */
static bool
decided (GmRecorder *r)
{
  g_autoptr (GError) open = NULL;
  if (gm_sizes_check (sizes_of (r), &open))
    return true;
  g_autofree char *text = gm_size_open_text (r, open->message, &sizes_of (r)->question);
  gm_record_break (r, GM_BREAK_DATA_DEPENDENT_SIZE, text);
  return false;
}

/* -- Comparisons that data decides ------------------------------------------------------------- */

static const GmTrackerKind kind_condition;

bool
gm_is_size_condition (const GmTracker *t)
{
  return t->kind == &kind_condition;
}

static int64_t
side_of (GmRecorder *r, const GmTracker *t)
{
  int64_t i = 0;
  if (t->kind == &gm_kind_size)
    return t->number;
  gm_constant_int (r, t, &i);
  return i;
}

static GmSizeFact
fact_of (GmRecorder *r, int op, const GmTracker *x, const GmTracker *y)
{
  int64_t a = side_of (r, x), b = side_of (r, y);
  return op == Py_EQ   ? (GmSizeFact){ GM_REL_EQ, a, b }
         : op == Py_NE ? (GmSizeFact){ GM_REL_NE, a, b }
         : op == Py_LT ? (GmSizeFact){ GM_REL_LT, a, b }
         : op == Py_LE ? (GmSizeFact){ GM_REL_LE, a, b }
         : op == Py_GT ? (GmSizeFact){ GM_REL_LT, b, a }
                       : (GmSizeFact){ GM_REL_LE, b, a };
}

/* Returns a comparison of such sizes that no fact decides yet; NULL: it is decided, or about other
 * sizes. */
static const GmTracker *
condition_of (GmRecorder *r, int op, const GmTracker *a, const GmTracker *b)
{
  GmSizeFact fact = fact_of (r, op, a, b);
  if (!gm_sizes_fact_is_open (sizes_of (r), &fact)
      || gm_sizes_ask (sizes_of (r), fact.rel, fact.a, fact.b) != GM_UNKNOWN)
    return NULL;
  const GmTracker **items = gm_tracker_array (r, 2);
  items[0] = a;
  items[1] = b;
  return gm_tracker (r, .kind = &kind_condition, .items = items, .n = 2, .number = op);
}

static void
take_for_granted (GmRecorder *r, GmSizeFact f, const char *message)
{
  GmSizes *s = sizes_of (r);
  if (gm_sizes_ask (s, f.rel, f.a, f.b) == GM_YES)
    return;
  if (!gm_size_facts_add (s->facts, f.rel, f.a, f.b)) {
    gm_record_break (r, GM_BREAK_EXCEPTION_RAISED, "gramme._check() of what is false");
    return;
  }
  if (s->on_fact)
    s->on_fact (s->on_fact_data, &f);
  if (message)
    g_hash_table_insert (s->said, GUINT_TO_POINTER (gm_size_facts_n (s->facts)),
                         g_strdup (message));
}

void
gm_size_assume (GmRecorder *r, const GmTracker *t, const char *message)
{
  take_for_granted (r, fact_of (r, (int) t->number, t->items[0], t->items[1]), message);
}

void
gm_size_assume_range (GmRecorder *r, int64_t a, int64_t b, const char *message)
{
  take_for_granted (r, (GmSizeFact){ GM_REL_LE, a, b }, message);
}

static int
condition_truth (GmRecorder *r, const GmTracker *t)
{
  GmSizeFact f = fact_of (r, (int) t->number, t->items[0], t->items[1]);
  GmTruth known = gm_sizes_ask (sizes_of (r), f.rel, f.a, f.b);
  if (known != GM_UNKNOWN)
    return known == GM_YES;
  g_autofree char *fact = gm_size_fact_text (sizes_of (r)->sym, &f);
  g_autofree char *question = g_strdup_printf ("a branch on %s", fact),
                  *text = gm_size_open_text (r, question, &f);
  gm_record_break (r, GM_BREAK_DATA_DEPENDENT_SIZE, text);
  return 0;
}

static PyTypeObject *
condition_type (GmRecorder *r, const GmTracker *t)
{
  return &PyBool_Type;
}

static bool
condition_build (GmResidualBuilder *b, const GmTracker *t)
{
  gm_residual_value (b, t->items[0]);
  gm_residual_value (b, t->items[1]);
  gm_residual_emit (b, GM_INSN_COMPARE_OP, (uint32_t) t->number, NULL);
  return true;
}

static const GmTrackerKind kind_condition = {
  .name = "comparison of sizes",
  .type = condition_type,
  .truth = condition_truth,
  .build = condition_build,
  .builds_anew = true,
};

/* -- Sizes ------------------------------------------------------------------------------------- */

const GmTracker *
gm_size_tracker (GmRecorder *r, int64_t size)
{
  int64_t number;
  if (!sizes_of (r) || gm_sizes_is_number (sizes_of (r), size, &number))
    return gm_from_int (r, sizes_of (r) ? number : size);
  return gm_tracker (r, .kind = &gm_kind_size, .number = size);
}

const GmTracker *
gm_size_settled (GmRecorder *r, const GmTracker *t)
{
  if (!gm_is_size (t))
    return t;
  int64_t number = gm_size_number (t->number);
  return decided (r) ? gm_from_int (r, number) : &gm_tracker_poison;
}

static PyObject *
constant (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *number = gm_size_settled (r, t);
  return r->stop ? NULL : Py_NewRef (number->real);
}

/* Stores the int operand t as a size; false: it is no int, or does not fit 62 bits. */
static bool
operand (GmRecorder *r, const GmTracker *t, int64_t *out)
{
  if (gm_is_size (t)) {
    *out = t->number;
    return true;
  }
  return t->kind == &gm_kind_constant && (PyLong_CheckExact (t->real) || PyBool_Check (t->real))
         && gm_constant_int (r, t, out) && *out < INT64_C (1) << 61 && *out > -(INT64_C (1) << 61);
}

#define MOST_OF_A_FLOAT                                                                            \
  (INT64_C (1) << 53) /* integers of at most this magnitude are exact floats, and quotients of     \
                         them are those of the floats */

/* Returns the size t as a float, for its operation with the float `other`, or for its true division
 * by the int `other`; NULL: the result is no float, or the number of this call is needed. */
static const GmTracker *
as_float (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected)
{
  bool with_float = other->kind == &gm_kind_constant && PyFloat_CheckExact (other->real),
       arithmetic = op == GM_BIN_ADD || op == GM_BIN_SUB || op == GM_BIN_MUL;
  int64_t divisor;
  if (with_float && (arithmetic || op == GM_BIN_DIV))
    return gm_float_of_size (r, t);
  bool exact = op == GM_BIN_DIV && !reflected && other->kind == &gm_kind_constant
               && PyLong_CheckExact (other->real) && gm_constant_int (r, other, &divisor)
               && ABS (divisor) <= MOST_OF_A_FLOAT && gm_sizes_has_hint (sizes_of (r), t->number)
               && gm_size_le (t->number, MOST_OF_A_FLOAT)
               && gm_size_le (-MOST_OF_A_FLOAT, t->number);
  return exact ? gm_float_of_size (r, t) : NULL;
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  int64_t a = t->number, b;
  if (other->kind == &gm_kind_tensor || other->kind == &gm_kind_float)
    return NULL; /* the other operand's method decides */
  const GmTracker *number = as_float (r, op, t, other, reflected);
  if (number)
    return gm_binary (r, op, reflected ? other : number, reflected ? number : other, inplace);
  GmSymKind kind = op == GM_BIN_ADD || op == GM_BIN_SUB ? GM_SYM_ADD
                   : op == GM_BIN_MUL                   ? GM_SYM_MUL
                   : op == GM_BIN_FLOORDIV              ? GM_SYM_FLOORDIV
                   : op == GM_BIN_MOD                   ? GM_SYM_MOD
                                                        : GM_N_SYM_KINDS;
  if (kind < GM_N_SYM_KINDS && operand (r, other, &b)) {
    if (reflected) {
      int64_t swap = a;
      a = b;
      b = swap;
    }
    bool divides = kind == GM_SYM_FLOORDIV || kind == GM_SYM_MOD;
    if (op == GM_BIN_SUB)
      b = gm_size_mul (b, -1);
    if (!divides || !gm_size_eq (b, 0)) {
      int64_t v = gm_size_compute (kind, a, b);
      bool bounded = gm_size_bounded (r, v);
      if (!decided (r))
        return &gm_tracker_poison;
      if (bounded)
        return gm_size_tracker (r, v);
    }
  }
  t = gm_size_settled (r, t);
  other = gm_size_settled (r, other);
  return r->stop ? &gm_tracker_poison
                 : gm_binary (r, op, reflected ? other : t, reflected ? t : other, inplace);
}

static const GmTracker *
unary (GmRecorder *r, GmUnary op, const GmTracker *t)
{
  if (op == GM_UN_POS)
    return t;
  int64_t minus = gm_size_mul (t->number, -1);
  return gm_size_tracker (r, op == GM_UN_NEG ? minus : gm_size_add (minus, -1));
}

/* True for a value that equals no int. Values such as an IntEnum, a numpy scalar or an object with
 * an __eq__ are compared by their methods: false. */
static bool
differs_from_ints (const GmTracker *t)
{
  if (t->kind == &gm_kind_constant)
    return !PyNumber_Check (t->real);
  return t->kind == &gm_kind_list || t->kind == &gm_kind_tuple || t->kind == &gm_kind_dict
         || t->kind == &gm_kind_set || t->kind == &gm_kind_function || t->kind == &gm_kind_module;
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  int64_t a = t->number, b;
  if (other->kind == &gm_kind_tensor || other->kind == &gm_kind_float)
    return NULL;
  if (!operand (r, other, &b)) {
    if (differs_from_ints (other))
      return op == Py_EQ || op == Py_NE ? gm_from_bool (r, op == Py_NE) : NULL;
    t = gm_size_settled (r, t);
    return r->stop ? &gm_tracker_poison : gm_compare (r, op, t, other);
  }
  const GmTracker *open = condition_of (r, op, t, other);
  if (open)
    return open;
  bool holds = op == Py_EQ   ? gm_size_eq (a, b)
               : op == Py_NE ? !gm_size_eq (a, b)
               : op == Py_LT ? gm_size_lt (a, b)
               : op == Py_LE ? gm_size_le (a, b)
               : op == Py_GT ? gm_size_lt (b, a)
                             : gm_size_le (b, a);
  return decided (r) ? gm_from_bool (r, holds) : &gm_tracker_poison;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  bool zero = gm_size_eq (t->number, 0);
  return decided (r) && !zero;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return &PyLong_Type;
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  t = gm_size_settled (r, t);
  return r->stop ? &gm_tracker_poison : gm_getattr_opt (r, t, name);
}

/* Emits item () of a tensor by which the graph returns the size. */
static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  r->builder.where = NULL;
  GmVal v = gm_b_full (&r->builder.base, gm_scalar_int (t->number), GM_I64, 0, NULL);
  if (v == NULL) {
    g_clear_error (&r->builder.base.error);
    return false;
  }
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_value (b, gm_tensor_new_tracker (r, gm_id_from_val (v)));
  gm_residual_emit (b, GM_INSN_LOAD_ATTR, 0,
                    gm_record_take (r, PyUnicode_InternFromString ("item")));
  gm_residual_emit (b, GM_INSN_CALL, 0, NULL);
  return true;
}

const GmTrackerKind gm_kind_size = {
  .name = "size",
  .type = type,
  .truth = truth,
  .getattr = getattr,
  .binary = binary,
  .unary = unary,
  .compare = compare,
  .constant = constant,
  .build = build,
  .builds_anew = true,
};
