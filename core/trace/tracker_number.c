/* SPDX-License-Identifier: Apache-2.0
 * tracker_number.c -- integers that are known only at run time: results of item (), and numbers and
 * comparisons computed of them.
 *
 * A number is a * x + b, where x is the element of a tensor of the graph and a, b are known. The
 * bounds of x are in the heap, since checks on the way narrow them; all numbers of one x share
 * them. A comparison that the bounds decide is a constant; any other is a condition, a * x + b
 * compared with 0, whose truth cannot be read. When a number or a condition leaves the region,
 * Python computes it from the element, so it is not limited to 64 bits; a and b that do not fit
 * break.
 * Invariant: the conditions that narrow the bounds are checked when the call ends, before its value
 * is made.
 */
#include "core/trace/number.h"
#include "core/trace/traced_size.h"

#define VALUE 6 /* value of `number` for a number; 0 to 5 (Py_LT ...): a condition */

__extension__ typedef __int128 Wide;

enum { TENSOR, BOUNDS, FACTOR, TERM, N_ITEMS };

static int64_t
integer (const GmTracker *t)
{
  return PyLong_AsLongLong (t->real);
}

static int64_t
factor (const GmTracker *t)
{
  return integer (t->items[FACTOR]);
}

static int64_t
term (const GmTracker *t)
{
  return integer (t->items[TERM]);
}

/* -- Bounds ------------------------------------------------------------------------------------ */

static void
bounds_get (GmRecorder *r, const GmTracker *t, Wide *lo, Wide *hi)
{
  const GmTracker *c = gm_contents_of (r, t->items[BOUNDS]);
  *lo = integer (c->items[0]);
  *hi = integer (c->items[1]);
}

static void
bounds_set (GmRecorder *r, const GmTracker *bounds, int64_t lo, int64_t hi)
{
  const GmTracker *items[2] = { gm_from_int (r, lo), gm_from_int (r, hi) };
  gm_contents_set (r, bounds, gm_contents (r, items, 2));
}

/* Returns the result, 0 or 1, of comparing each number from lo to hi with 0 by `op`; -1: it depends
 * on the number. */
static int
decided (int op, Wide lo, Wide hi)
{
  switch (op) {
  case Py_LT:
    return hi < 0 ? 1 : lo >= 0 ? 0 : -1;
  case Py_LE:
    return hi <= 0 ? 1 : lo > 0 ? 0 : -1;
  case Py_GT:
    return lo > 0 ? 1 : hi <= 0 ? 0 : -1;
  case Py_GE:
    return lo >= 0 ? 1 : hi < 0 ? 0 : -1;
  case Py_EQ:
    return lo == 0 && hi == 0 ? 1 : lo > 0 || hi < 0 ? 0 : -1;
  default:
    return lo > 0 || hi < 0 ? 1 : lo == 0 && hi == 0 ? 0 : -1;
  }
}

static int
decide (GmRecorder *r, const GmTracker *t, int op, int64_t a, int64_t b)
{
  Wide lo, hi;
  bounds_get (r, t, &lo, &hi);
  Wide low = (a < 0 ? hi : lo) * a + b, high = (a < 0 ? lo : hi) * a + b;
  return decided (op, low, high);
}

static Wide
floor_div (Wide x, Wide y) /* requires y > 0 */
{
  return x / y - (x % y < 0);
}

void
gm_number_assume (GmRecorder *r, const GmTracker *condition)
{
  int op = (int) condition->number;
  Wide a = factor (condition), b = term (condition), lo, hi;
  bounds_get (r, condition, &lo, &hi);
  if (op == Py_NE) {
    bool whole = b % a == 0;
    lo += whole && lo == -b / a;
    hi -= whole && hi == -b / a;
  }
  if (a < 0) { /* rewrites the condition with -a */
    static const int swapped[] = { Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE };
    a = -a;
    b = -b;
    op = swapped[op];
  }
  if (op == Py_LT || op == Py_LE || op == Py_EQ)
    hi = MIN (hi, floor_div (-b - (op == Py_LT), a));
  if (op == Py_GT || op == Py_GE || op == Py_EQ)
    lo = MAX (lo, -floor_div (b - (op == Py_GT), a));
  if (lo <= hi) /* otherwise the condition never holds, and its check fails */
    bounds_set (r, condition->items[BOUNDS], (int64_t) lo, (int64_t) hi);
}

/* -- Making ------------------------------------------------------------------------------------ */

static const GmTracker *
make (GmRecorder *r, const GmTracker *of, int64_t what, int64_t a, int64_t b)
{
  const GmTracker **items = gm_tracker_array (r, N_ITEMS);
  items[TENSOR] = of->items[TENSOR];
  items[BOUNDS] = of->items[BOUNDS];
  items[FACTOR] = gm_from_int (r, a);
  items[TERM] = gm_from_int (r, b);
  return gm_tracker (r, .kind = &gm_kind_number, .items = items, .n = N_ITEMS, .number = what);
}

const GmTracker *
gm_number_between (GmRecorder *r, const GmTracker *tensor, int64_t lo, int64_t hi)
{
  uint32_t id = gm_heap_add (&r->heap, 1);
  const GmTracker *bounds = gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_contents, .id = id });
  const GmTracker *items[N_ITEMS] = { tensor, bounds };
  bounds_set (r, bounds, lo, hi);
  return make (r, &(GmTracker){ .items = items }, VALUE, 1, 0);
}

const GmTracker *
gm_number_new (GmRecorder *r, const GmTracker *tensor, GmDtype dtype)
{
  int bits = 8 * (int) gm_dtype_size (dtype);
  int64_t hi = dtype == GM_U8 ? UINT8_MAX : (int64_t) (UINT64_MAX >> (65 - bits));
  return gm_number_between (r, tensor, dtype == GM_U8 ? 0 : -hi - 1, hi);
}

bool
gm_is_number (const GmTracker *t)
{
  return t->kind == &gm_kind_number && t->number == VALUE;
}

bool
gm_is_condition (const GmTracker *t)
{
  return t->kind == &gm_kind_number && t->number != VALUE;
}

/* -- As a tensor ------------------------------------------------------------------------------- */

static GmVal
value_of (GmRecorder *r, const GmTracker *tensor)
{
  return gm_val_from_id ((GmValueId) gm_contents_of (r, tensor)->number);
}

static const GmTracker *
cast (GmRecorder *r, const GmTracker *tensor, GmDtype dtype)
{
  GmVal in = value_of (r, tensor), v = gm_b_cast (&r->builder.base, in, dtype);
  return v == in ? tensor : gm_tensor_new_tracker (r, gm_id_from_val (v));
}

/* True if every integer from lo to hi is a value of the dtype. */
static bool
holds (GmDtype dtype, Wide lo, Wide hi)
{
  if (gm_dtypes[dtype].category != GM_CATEGORY_INT)
    return gm_dtypes[dtype].category == GM_CATEGORY_FLOAT;
  int64_t top =
      dtype == GM_U8 ? UINT8_MAX : (int64_t) (UINT64_MAX >> (65 - 8 * (int) gm_dtype_size (dtype)));
  return lo >= (dtype == GM_U8 ? 0 : -(Wide) top - 1) && hi <= top;
}

GmVal
gm_number_truth (GmRecorder *r, const GmTracker *t)
{
  static const GmOp ops[] = { GM_OP_lt, GM_OP_le, GM_OP_eq, GM_OP_ne, GM_OP_gt, GM_OP_ge };
  static const int swapped[] = { Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE };
  GmVal x = value_of (r, t->items[TENSOR]);
  GmDtype dtype = (GmDtype) gm_b_meta (&r->builder.base, x)->dtype;
  int op = factor (t) < 0 ? swapped[t->number] : (int) t->number;
  Wide a = factor (t), b = term (t), limit = -(a < 0 ? -b : b); /* |a| * x is compared with limit */
  a = a < 0 ? -a : a;
  bool exact = limit % a == 0,
       up = op == Py_LT || op == Py_GE; /* x < ceiling, x >= ceiling, x <= floor, x > floor */
  if (!exact && (op == Py_EQ || op == Py_NE))
    return NULL;
  limit = up ? -floor_div (-limit, a) : floor_div (limit, a);
  if (!holds (dtype, limit, limit))
    return NULL;
  GmVal in[2] = { x, gm_b_scalar (&r->builder.base, gm_scalar_int ((int64_t) limit), dtype) };
  return gm_b_op (&r->builder.base, ops[op], in, 2, NULL);
}

const GmTracker *
gm_number_as_tensor (GmRecorder *r, const GmTracker *t, GmDtype dtype, int64_t bound)
{
  Wide lo, hi, a = factor (t), b = term (t);
  bounds_get (r, t, &lo, &hi);
  Wide low = (a < 0 ? hi : lo) * a + b, high = (a < 0 ? lo : hi) * a + b;
  bool product = holds (GM_I64, lo * a, lo * a) && holds (GM_I64, hi * a, hi * a);
  if (!product || !holds (GM_I64, low, high) || !holds (dtype, low, high) || low < -(Wide) bound
      || high > bound)
    return NULL;
  const GmTracker *args[2] = { cast (r, t->items[TENSOR], GM_I64), t->items[FACTOR] };
  if (a != 1)
    args[0] = gm_call_api_name (r, "mul", args, 2, false);
  args[1] = t->items[TERM];
  if (b != 0)
    args[0] = gm_call_api_name (r, "add", args, 2, false);
  return r->stop ? args[0] : cast (r, args[0], dtype);
}

const GmTracker *
gm_number_operand (GmRecorder *r, const GmTracker *t, const GmMeta *beside)
{
  GmCategory category = gm_dtypes[beside->dtype].category;
  if (!gm_is_number (t))
    return NULL;
  return gm_number_as_tensor (r, t, category == GM_CATEGORY_BOOL ? GM_I64 : (GmDtype) beside->dtype,
                              INT64_MAX);
}

/* -- As a size --------------------------------------------------------------------------------- */

/* True if the condition bounds its element on the given side, from below or above. */
static bool
bounds_side (const GmTracker *condition, bool below)
{
  int op = (int) condition->number;
  bool greater = op == Py_GT || op == Py_GE;
  return op == Py_EQ || op == Py_NE || (greater == (factor (condition) > 0)) == below;
}

/* Returns the message of the last recorded check that bounds the element of t, from below if
 * `below`, else from above; borrowed.  NULL: there is none, or its message is no constant. */
static const char *
said_of (GmRecorder *r, const GmTracker *t, bool below)
{
  const char *said = NULL;
  for (uint32_t i = 0; i < r->effects->len; i++) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    bool check = e->kind == GM_EFFECT_CALL && e->n == 2 && gm_is_condition (e->args[0])
                 && e->args[0]->items[BOUNDS] == t->items[BOUNDS];
    if (check && bounds_side (e->args[0], below))
      said = e->args[1]->kind == &gm_kind_constant && PyUnicode_Check (e->args[1]->real)
                 ? PyUnicode_AsUTF8 (e->args[1]->real)
                 : NULL;
  }
  return said;
}

/* Returns the number as a size; see number.h. The number's bounds become facts of the size, because
 * they are checked before a tensor of this size is made, not only when the call ends. */
int64_t
gm_number_as_size (GmRecorder *r, const GmTracker *t)
{
  Wide lo, hi;
  GmVal own = value_of (r, cast (r, t->items[TENSOR], GM_I64));
  own = gm_b_op (&r->builder.base, GM_OP_copy, &own, 1, NULL);
  if (!own) {
    gm_record_break (r, GM_BREAK_TENSOR_ERROR, "item", r->builder.base.error->message);
    g_clear_error (&r->builder.base.error);
    return 0;
  }
  bounds_get (r, t, &lo, &hi);
  int64_t u = gm_size_counted (r, gm_id_from_val (own), "item()", INT64_MIN, INT64_MAX);
  if (lo != INT64_MIN)
    gm_size_assume_range (r, (int64_t) lo, u, said_of (r, t, true));
  if (hi != INT64_MAX)
    gm_size_assume_range (r, u, (int64_t) hi, said_of (r, t, false));
  return gm_size_add (gm_size_mul (u, factor (t)), term (t));
}

/* -- Operations -------------------------------------------------------------------------------- */

static const GmTracker *
affine (GmRecorder *r, const GmTracker *of, int64_t a, int64_t b)
{
  return a ? make (r, of, VALUE, a, b) : gm_from_int (r, b);
}

/* Reads the operand `other` as a * x + b, where x is the element of t; false: it has another
 * form. */
static bool
operand (GmRecorder *r, const GmTracker *t, const GmTracker *other, int64_t *a, int64_t *b)
{
  if (gm_is_number (other) && other->items[BOUNDS] == t->items[BOUNDS]) {
    *a = factor (other);
    *b = term (other);
    return true;
  }
  *a = 0;
  return other->kind == &gm_kind_constant && gm_constant_int (r, other, b);
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  int64_t a, b, x = 0, y = 0;
  if (!gm_is_number (t) || !operand (r, t, other, &a, &b))
    return NULL;
  int64_t c = factor (t), d = term (t);
  bool fits = false;
  if (op == GM_BIN_ADD)
    fits = !__builtin_add_overflow (c, a, &x) && !__builtin_add_overflow (d, b, &y);
  else if (op == GM_BIN_SUB && reflected)
    fits = !__builtin_sub_overflow (a, c, &x) && !__builtin_sub_overflow (b, d, &y);
  else if (op == GM_BIN_SUB)
    fits = !__builtin_sub_overflow (c, a, &x) && !__builtin_sub_overflow (d, b, &y);
  else if (op == GM_BIN_MUL && a == 0)
    fits = !__builtin_mul_overflow (c, b, &x) && !__builtin_mul_overflow (d, b, &y);
  return fits ? affine (r, t, x, y) : NULL;
}

static const GmTracker *
unary (GmRecorder *r, GmUnary op, const GmTracker *t)
{
  int64_t a, b;
  if (!gm_is_number (t))
    return NULL;
  if (op == GM_UN_POS)
    return t;
  if (__builtin_sub_overflow (0, factor (t), &a)
      || __builtin_sub_overflow (op == GM_UN_INVERT ? -1 : 0, term (t), &b))
    return NULL;
  return affine (r, t, a, b);
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  int64_t a, b, x, y;
  if (!gm_is_number (t) || !operand (r, t, other, &a, &b))
    return NULL;
  if (__builtin_sub_overflow (factor (t), a, &x) || __builtin_sub_overflow (term (t), b, &y))
    return NULL;
  int known = decide (r, t, op, x, y);
  return known >= 0 ? gm_from_bool (r, known) : make (r, t, op, x, y);
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  int known = decide (r, t, gm_is_number (t) ? Py_NE : (int) t->number, factor (t), term (t));
  if (known < 0)
    gm_record_break (r, GM_BREAK_DATA_DEPENDENT_BRANCH,
                     gm_is_number (t) ? "a number" : "a comparison of a number");
  return known > 0;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return gm_is_number (t) ? &PyLong_Type : &PyBool_Type;
}

/* Emits element.item () * a + b, for a condition also its comparison with 0; all uses share the
 * resulting object. */
static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  if (gm_residual_cached (b, t))
    return true;
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_value (b, t->items[TENSOR]);
  gm_residual_emit (b, GM_INSN_LOAD_ATTR, 0,
                    gm_record_take (r, PyUnicode_InternFromString ("item")));
  gm_residual_emit (b, GM_INSN_CALL, 0, NULL);
  if (factor (t) != 1) {
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->items[FACTOR]->real);
    gm_residual_emit (b, GM_INSN_BINARY_OP, GM_BIN_MUL, NULL);
  }
  if (term (t) != 0) {
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->items[TERM]->real);
    gm_residual_emit (b, GM_INSN_BINARY_OP, GM_BIN_ADD, NULL);
  }
  if (gm_is_condition (t)) {
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, gm_from_int (r, 0)->real);
    gm_residual_emit (b, GM_INSN_COMPARE_OP, (uint32_t) t->number, NULL);
  }
  gm_residual_allocated (b, t);
  return gm_residual_cached (b, t);
}

const GmTrackerKind gm_kind_number = {
  .name = "number",
  .type = type,
  .truth = truth,
  .binary = binary,
  .unary = unary,
  .compare = compare,
  .build = build,
};
