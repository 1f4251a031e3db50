/* SPDX-License-Identifier: Apache-2.0
 * tracker_float.c -- floats that only the run knows: what is drawn at random, or comes over a break, and what is computed of it.
 *
 * A float is the element of a tensor of the graph, f64 without dimensions; sums, differences, products and quotients by a known
 * number are nodes, whose arithmetic is Python's.  Its value cannot be asked.  Leaving the region it is the element.
 */
#include "core/trace/number.h"

#include <math.h>

#define EXACT_BOUND ((int64_t) 1 << 53) /* integers up to it are floats */

const GmTracker *
gm_float_new (GmRecorder *r, const GmTracker *tensor)
{
  const GmTracker **items = gm_tracker_array (r, 1);
  items[0] = tensor;
  return gm_tracker (r, .kind = &gm_kind_float, .items = items, .n = 1);
}

const GmTracker *
gm_float_argument (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, TYPE, source, .obj = (PyObject *) &PyFloat_Type);
  uint32_t place = r->graph->inputs->len;
  PyObject *tensor = gm_input_stand_in (r, real, place, gm_host.number_object);
  return tensor ? gm_float_new (r, gm_wrap (r, tensor, gm_source_part (r, source, GM_SOURCE_NUMBER, place, NULL))) : gm_wrap_lazy (r, real, source);
}

/* An operand as a tensor of f64, or as a known float; NULL: it is neither. */
static const GmTracker *
operand (GmRecorder *r, const GmTracker *t)
{
  int64_t i;
  if (t->kind == &gm_kind_float)
    return t->items[0];
  if (gm_is_number (t))
    return gm_number_as_tensor (r, t, GM_F64, EXACT_BOUND);
  if (t->kind != &gm_kind_constant || PyBool_Check (t->real))
    return NULL;
  if (PyFloat_CheckExact (t->real))
    return t;
  return PyLong_CheckExact (t->real) && gm_constant_int (r, t, &i) && i >= -EXACT_BOUND && i <= EXACT_BOUND
             ? gm_from_constant_take (r, PyFloat_FromDouble ((double) i))
             : NULL;
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected, bool inplace)
{
  const char *name = op == GM_BIN_ADD ? "add" : op == GM_BIN_SUB ? "sub" : op == GM_BIN_MUL ? "mul" : op == GM_BIN_DIV ? "div" : NULL;
  const GmTracker *value = name ? operand (r, other) : NULL;
  if (!value || r->stop)
    return NULL;
  bool divisible = !reflected && value->kind == &gm_kind_constant && PyFloat_AS_DOUBLE (value->real) != 0;
  if (op == GM_BIN_DIV && !divisible) /* a division by zero raises */
    return NULL;
  const GmTracker *args[2] = { reflected ? value : t->items[0], reflected ? t->items[0] : value };
  const GmTracker *v = gm_call_api_name (r, name, args, 2, false);
  return r->stop ? v : gm_float_new (r, v);
}

static const GmTracker *
unary (GmRecorder *r, GmUnary op, const GmTracker *t)
{
  if (op == GM_UN_POS)
    return t;
  if (op != GM_UN_NEG)
    return NULL;
  const GmTracker *v = gm_call_api_name (r, "neg", t->items, 1, false);
  return r->stop ? v : gm_float_new (r, v);
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  return other->kind == &gm_kind_tensor ? NULL : gm_record_break (r, GM_BREAK_UNKNOWN_NUMBER, "a comparison");
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  gm_record_break (r, GM_BREAK_UNKNOWN_NUMBER, "the truth");
  return 0;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return &PyFloat_Type;
}

/* element.item (), one object wherever it is used. */
static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_value (b, t->items[0]);
  gm_residual_emit (b, GM_INSN_LOAD_ATTR, 0, gm_record_take (r, PyUnicode_InternFromString ("item")));
  gm_residual_emit (b, GM_INSN_CALL, 0, NULL);
  return true;
}

const GmTrackerKind gm_kind_float = {
  .name = "float that only the run knows",
  .type = type,
  .truth = truth,
  .binary = binary,
  .unary = unary,
  .compare = compare,
  .build = build,
  .builds_anew = true,
};
