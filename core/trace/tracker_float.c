/* SPDX-License-Identifier: Apache-2.0
 * tracker_float.c -- floats that are known only at run time: those that were seen to change, random
 * numbers, and floats computed of both.
 *
 * A float is the element of a tensor of the graph, f64 without dimensions; sums, differences,
 * products and quotients are nodes, whose arithmetic is Python's. A float with a source becomes an
 * input when its element is first used. The value in this call is known for a float with a source,
 * and for a float computed of such floats, of sizes and of constants (its leaves): an operation
 * that no node computes (a branch, a text, a C function) reads that value, and each leaf is fixed
 * to its value in this call. A comparison of a float with a source and a constant fixes only its
 * own result. The value of a random number is not known: reading it breaks.
 *
 * items: the element, NULL while only the source determines it; then the leaves. number: the bits
 * of the value, if there are leaves. data, with a source: the float object.
 */
#include "core/trace/kinds.h"
#include "core/guard/guard.h"
#include "core/trace/number.h"
#include "core/trace/traced_size.h"

#include <string.h>

#define EXACT_BOUND ((int64_t) 1 << 53) /* integers up to the bound are exact floats */
#define MOST_SETTLED 4                  /* recordings in which a varying float may be fixed */

static const GmTracker *
computed (GmRecorder *r, const GmTracker *element, const GmTracker *const *leaves, uint32_t n,
          double value)
{
  const GmTracker **items = gm_tracker_array (r, n + 1);
  int64_t bits = 0;
  items[0] = element;
  gm_tracker_copy (items + 1, leaves, n);
  if (n)
    memcpy (&bits, &value, sizeof bits);
  return gm_tracker (r, .kind = &gm_kind_float, .items = items, .n = n + 1, .number = bits);
}

const GmTracker *
gm_float_new (GmRecorder *r, const GmTracker *tensor)
{
  return computed (r, tensor, NULL, 0, 0);
}

/* -- Floats with a source -----------------------------------------------------------------------
 */

static const GmProfileRow *
profile_row (GmRecorder *r, PyObject *real, const GmSource *source)
{
  g_autofree char *name = g_strdup_printf ("the bits of %s", source->name);
  return gm_profile_see_value (r->request->profile, name, gm_float_bits (real));
}

const GmTracker *
gm_float_argument (GmRecorder *r, PyObject *real, const GmSource *source)
{
  if (!r->request->profile || r->request->dynamic < GM_DYNAMIC_SEEN || !gm_source_is_unique (source)
      || !profile_row (r, real, source)->size_varies[0])
    return NULL;
  gm_guard (r, TYPE, source, .obj = (PyObject *) &PyFloat_Type);
  return gm_tracker (r, .kind = &gm_kind_float, .source = source, .number = gm_float_bits (real),
                     .data = real);
}

const GmTracker *
gm_float_element (GmRecorder *r, const GmTracker *t)
{
  if (!t->source)
    return t->items[0];
  PyObject *tensor =
      gm_input_stand_in (r, (PyObject *) t->data, t->source->number, gm_host.number_object);
  return tensor ? gm_wrap (r, tensor, gm_source_part (r, t->source, GM_SOURCE_NUMBER, 0, NULL))
                : gm_record_break_exception (r);
}

/* -- The value of this call ---------------------------------------------------------------------
 */

bool
gm_float_value (const GmTracker *t, double *out)
{
  memcpy (out, &t->number, sizeof *out);
  return t->source || t->n > 1;
}

/* Guards that the leaf has its value of this call; breaks if too many recordings have fixed it. */
static void
fix (GmRecorder *r, const GmTracker *leaf)
{
  if (gm_is_size (leaf)) {
    gm_size_settled (r, leaf);
    return;
  }
  PyObject *real = (PyObject *) leaf->data;
  uint32_t most = r->request->start ? 1 : MOST_SETTLED; /* a float that is passed over a break
                                                           varies with each call */
  bool may = !r->request->resumable
             || gm_profile_settle (r->request->profile, profile_row (r, real, leaf->source), most,
                                   r->number);
  if (may)
    gm_guard (r, FLOAT, leaf->source, .index = gm_float_bits (real), .obj = real);
  else
    gm_record_break (r, GM_BREAK_UNKNOWN_NUMBER, "the value");
}

const GmTracker *
gm_float_settled (GmRecorder *r, const GmTracker *t)
{
  double value;
  if (t->kind != &gm_kind_float)
    return t;
  if (!gm_float_value (t, &value))
    return gm_record_break (r, GM_BREAK_UNKNOWN_NUMBER, "the value");
  if (t->source)
    fix (r, t);
  for (uint32_t i = 1; i < t->n; i++)
    fix (r, t->items[i]);
  if (r->stop)
    return &gm_tracker_poison;
  return t->source ? gm_tracker (r, .kind = &gm_kind_constant, .real = (PyObject *) t->data,
                                 .source = t->source)
                   : gm_from_constant_take (r, PyFloat_FromDouble (value));
}

static PyObject *
constant (GmRecorder *r, const GmTracker *t)
{
  double value;
  if (!gm_float_value (t, &value))
    return NULL;
  const GmTracker *settled = gm_float_settled (r, t);
  return r->stop ? NULL : Py_NewRef (settled->real);
}

bool
gm_float_compares (GmRecorder *r, const GmTracker *t, int op, double with, bool *holds)
{
  if (!t->source)
    return false;
  uintptr_t bits;
  G_STATIC_ASSERT (sizeof bits == sizeof with);
  memcpy (&bits, &with, sizeof bits);
  *holds = gm_float_holds (PyFloat_AS_DOUBLE ((PyObject *) t->data), op, with);
  gm_guard (r, FLOAT_COMPARES, t->source, .index = op << 1 | *holds, .ptr = (const void *) bits);
  return true;
}

/* -- Operations ----------------------------------------------------------------------------------
 */

/* Returns the size t as a float whose value this call knows; NULL: there is none. */
const GmTracker *
gm_float_of_size (GmRecorder *r, const GmTracker *t)
{
  GmSizes *s = r->graph->sizes;
  int64_t hint;
  if (!gm_sizes_has_hint (s, t->number) || !gm_sizes_hint (s, t->number, &hint)
      || ABS (hint) > EXACT_BOUND)
    return NULL;
  r->builder.where = gm_record_where (r);
  GmVal v = gm_b_full (&r->builder.base, gm_scalar_int (t->number), GM_F64, 0, NULL);
  if (v == NULL) {
    g_clear_error (&r->builder.base.error);
    return NULL;
  }
  return computed (r, gm_tensor_new_tracker (r, gm_id_from_val (v)), &t, 1, (double) hint);
}

/* Returns an operand as an unknown float or as a float constant; NULL: it cannot be used as
 * either. */
static const GmTracker *
operand (GmRecorder *r, const GmTracker *t)
{
  int64_t i;
  if (t->kind == &gm_kind_float)
    return t;
  if (gm_is_size (t))
    return gm_float_of_size (r, t);
  if (gm_is_number (t)) {
    const GmTracker *tensor = gm_number_as_tensor (r, t, GM_F64, EXACT_BOUND);
    return tensor ? gm_float_new (r, tensor) : NULL;
  }
  if (t->kind != &gm_kind_constant || PyBool_Check (t->real))
    return NULL;
  if (PyFloat_CheckExact (t->real))
    return t;
  return PyLong_CheckExact (t->real) && gm_constant_int (r, t, &i) && i >= -EXACT_BOUND
                 && i <= EXACT_BOUND
             ? gm_from_constant_take (r, PyFloat_FromDouble ((double) i))
             : NULL;
}

typedef struct {
  bool known;
  double value;
  const GmTracker *element; /* the element, as the operand of the API row */
} Side;

static Side
side_of (GmRecorder *r, const GmTracker *t)
{
  Side s = { true, 0, t };
  if (t->kind == &gm_kind_constant) {
    s.value = PyFloat_AS_DOUBLE (t->real);
    return s;
  }
  s.known = gm_float_value (t, &s.value);
  s.element = gm_float_element (r, t);
  return s;
}

/* Stores in `out` the leaves of the floats a and b, each once; returns their number. */
static uint32_t
leaves_of (const GmTracker *a, const GmTracker *b, const GmTracker **out)
{
  uint32_t n = 0;
  for (int k = 0; k < 2; k++) {
    const GmTracker *t = k ? b : a;
    for (uint32_t i = t->source ? 0 : 1; t->kind == &gm_kind_float && i < (t->source ? 1 : t->n);
         i++) {
      const GmTracker *leaf = t->source ? t : t->items[i];
      bool seen = false;
      for (uint32_t j = 0; j < n && !seen; j++)
        seen = out[j]->kind == leaf->kind && out[j]->source == leaf->source
               && out[j]->number == leaf->number;
      if (!seen)
        out[n++] = leaf;
    }
  }
  return n;
}

/* True if the divisor is zero in no call, which is guarded: for zero Python raises. */
static bool
divides (GmRecorder *r, const GmTracker *divisor)
{
  bool zero;
  if (divisor->kind == &gm_kind_constant)
    return PyFloat_AS_DOUBLE (divisor->real) != 0;
  return gm_float_compares (r, divisor, Py_EQ, 0, &zero) && !zero;
}

/* Returns the result of Python's operation on the operands' values in this call, to which they are
 * fixed; NULL: a value is not known. */
static const GmTracker *
on_values (GmRecorder *r, GmBinary op, const GmTracker *a, const GmTracker *b, bool inplace)
{
  double value;
  for (int k = 0; k < 2; k++) {
    const GmTracker *t = k ? b : a;
    if (t->kind == &gm_kind_float && !gm_float_value (t, &value))
      return NULL;
  }
  a = gm_float_settled (r, a);
  b = gm_float_settled (r, b);
  return r->stop ? &gm_tracker_poison : gm_binary (r, op, a, b, inplace);
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  const char *name = op == GM_BIN_ADD   ? "add"
                     : op == GM_BIN_SUB ? "sub"
                     : op == GM_BIN_MUL ? "mul"
                     : op == GM_BIN_DIV ? "div"
                                        : NULL;
  if (other->kind == &gm_kind_tensor)
    return NULL; /* the tensor's own method computes the result */
  const GmTracker *value = name ? operand (r, other) : NULL;
  if (r->stop)
    return &gm_tracker_poison;
  const GmTracker *a = reflected ? value : t, *b = reflected ? t : value;
  if (!value || (op == GM_BIN_DIV && !divides (r, b)))
    return on_values (r, op, reflected ? other : t, reflected ? t : other, inplace);
  Side x = side_of (r, a), y = side_of (r, b);
  const GmTracker *args[2] = { x.element, y.element };
  const GmTracker *v = gm_call_api_name (r, name, args, 2, false);
  if (r->stop)
    return &gm_tracker_poison;
  g_autofree const GmTracker **leaves = gm_tracker_array_own (a->n + b->n + 2);
  uint32_t n = x.known && y.known ? leaves_of (a, b, leaves) : 0;
  double d = op == GM_BIN_ADD   ? x.value + y.value
             : op == GM_BIN_SUB ? x.value - y.value
             : op == GM_BIN_MUL ? x.value * y.value
                                : x.value / y.value;
  return computed (r, v, leaves, n, d);
}

static const GmTracker *
unary (GmRecorder *r, GmUnary op, const GmTracker *t)
{
  if (op == GM_UN_POS)
    return t;
  if (op != GM_UN_NEG)
    return NULL;
  Side x = side_of (r, t);
  const GmTracker *v = gm_call_api_name (r, "neg", &x.element, 1, false);
  if (r->stop)
    return &gm_tracker_poison;
  g_autofree const GmTracker **leaves = gm_tracker_array_own (t->n + 2);
  uint32_t n = x.known ? leaves_of (t, t, leaves) : 0;
  return computed (r, v, leaves, n, -x.value);
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  double value;
  bool holds;
  if (other->kind == &gm_kind_tensor)
    return NULL;
  if (!gm_float_value (t, &value))
    return gm_record_break (r, GM_BREAK_UNKNOWN_NUMBER, "a comparison");
  const GmTracker *with = other->kind == &gm_kind_constant ? operand (r, other) : NULL;
  if (with && gm_float_compares (r, t, op, PyFloat_AS_DOUBLE (with->real), &holds))
    return gm_from_bool (r, holds);
  t = gm_float_settled (r, t);
  return r->stop ? &gm_tracker_poison : gm_compare (r, op, t, gm_float_settled (r, other));
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  double value;
  bool zero;
  if (!gm_float_value (t, &value))
    gm_record_break (r, GM_BREAK_UNKNOWN_NUMBER, "the truth");
  if (gm_float_compares (r, t, Py_EQ, 0, &zero))
    return !zero;
  t = gm_float_settled (r, t);
  return r->stop ? 0 : gm_truth (r, t);
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  t = gm_float_settled (r, t);
  return r->stop ? &gm_tracker_poison : gm_getattr_opt (r, t, name);
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return &PyFloat_Type;
}

/* Emits element.item (); all uses share the resulting object. */
static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_value (b, t->items[0]);
  gm_residual_emit (b, GM_INSN_LOAD_ATTR, 0,
                    gm_record_take (r, PyUnicode_InternFromString ("item")));
  gm_residual_emit (b, GM_INSN_CALL, 0, NULL);
  return true;
}

const GmTrackerKind gm_kind_float = {
  .name = "float that only the run knows",
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
