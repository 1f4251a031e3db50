/* SPDX-License-Identifier: Apache-2.0
 * verify.c -- checks that a graph is valid: what every stage may rely on, and must leave behind.
 *
 * Every value is an input or the one result of one node; operands are made before they are used;
 * attributes are those of the op's row; a result's meta is what the shape rules say.  Sizes that
 * are not numbers: see graph.h.  Each check is a rule (rules.def), named at the end of its message.
 */
#include <stdarg.h>
#include <string.h>

#include "core/graph/alias.h"
#include "core/graph/higher.h"
#include "core/graph/rules.h"
#include "core/sym/sym.h"

const GmRuleRow gm_rules[GM_N_RULES] = {
  { NULL, NULL },
#define RULE(id, name, what) { name, what },
#include "core/graph/rules.def"
};

typedef struct {
  const GmGraph *g;
  uint32_t node; /* the node being checked, or GM_NO_ID */
  GError **error;
} Verifier;

static bool G_GNUC_PRINTF (3, 4) fail (Verifier *v, GmRule rule, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *what = g_strdup_vprintf (format, args);
  va_end (args);
  const char *name = v->g->name ? v->g->name : "?";
  if (v->node == GM_NO_ID) {
    g_set_error (v->error, GM_ERROR, GM_ERROR_VALUE, "graph '%s': %s [%s]", name, what,
                 gm_rules[rule].name);
    return false;
  }
  const GmNode *n = gm_graph_node (v->g, v->node);
  const char *op = n->op < GM_N_OPS && gm_ops[n->op].name ? gm_ops[n->op].name : "?";
  g_set_error (v->error, GM_ERROR, GM_ERROR_VALUE, "graph '%s', node %%%u (%s)%s%s: %s [%s]", name,
               v->node, op, n->where ? " from " : "", n->where ? n->where : "", what,
               gm_rules[rule].name);
  return false;
}

/* -- Values ------------------------------------------------------------------------------------ */

static bool
check_size (Verifier *v, int64_t size)
{
  uint32_t rows = v->g->sym ? gm_sym_n_rows (v->g->sym) : 0;
  if (!gm_size_is_symbolic (size))
    return size >= 0
           || fail (v, GM_RULE_SIZE_NEGATIVE, "the size %" G_GINT64_FORMAT " is negative", size);
  if (gm_size_row (size) >= rows)
    return fail (v, GM_RULE_SIZE_ROW,
                 "size %" G_GINT64_FORMAT " is no row of the graph's %u size expressions", size,
                 rows);
  const GmSymRow *r = gm_sym_row (v->g->sym, gm_size_row (size));
  return r->kind != GM_SYM_CONST
         || fail (v, GM_RULE_SIZE_NUMBER, "a size that is the number %" G_GINT64_FORMAT, r->value);
}

static bool
check_meta (Verifier *v, const GmMeta *m)
{
  if (m->dtype >= GM_N_DTYPES || !gm_dtypes[m->dtype].live)
    return fail (v, GM_RULE_DTYPE, "dtype %d does not exist", m->dtype);
  if (m->ndim > GM_MAX_DIMS)
    return fail (v, GM_RULE_DIMENSIONS, "%d dimensions", m->ndim);
  if (m->device != GM_DEVICE_CPU && m->device != GM_DEVICE_CUDA)
    return fail (v, GM_RULE_DEVICE, "device %d does not exist", m->device);
  if (m->requires_grad > gm_dtype_is_float (m->dtype))
    return fail (v, GM_RULE_GRAD_DTYPE, "a tensor of dtype %s cannot require grad",
                 gm_dtypes[m->dtype].text);
  for (int i = 0; i < GM_MAX_DIMS; i++) {
    if (i >= m->ndim && (m->sizes[i] || m->strides[i]))
      return fail (v, GM_RULE_UNUSED_DIMENSION, "unused dimension %d is not zero", i);
    if (!check_size (v, m->sizes[i])
        || (gm_size_is_symbolic (m->strides[i]) && !check_size (v, m->strides[i])))
      return false;
  }
  return true;
}

static bool
check_inputs (Verifier *v)
{
  const GmGraph *g = v->g;
  uint32_t without_node = 0;
  for (uint32_t i = 0; i < g->values->len; i++)
    without_node += gm_graph_value (g, i)->node == GM_NO_ID;
  if (without_node != g->inputs->len)
    return fail (v, GM_RULE_INPUT_COUNT, "%u inputs, but %u values that no node makes",
                 g->inputs->len, without_node);
  g_autofree bool *seen = g_new0 (bool, g->values->len + 1);
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId id = g_array_index (g->inputs, GmValueId, i);
    if (id >= g->values->len || gm_graph_value (g, id)->node != GM_NO_ID || seen[id])
      return fail (v,
                   id >= g->values->len ? GM_RULE_INPUT_EXISTS
                   : seen[id]           ? GM_RULE_INPUT_ONCE
                                        : GM_RULE_INPUT_UNMADE,
                   "input %u is value %u, which %s", i, id,
                   id >= g->values->len ? "does not exist"
                   : seen[id]           ? "is one already"
                                        : "a node makes");
    seen[id] = true;
    if (!check_meta (v, gm_graph_meta (g, id)))
      return false;
  }
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId id = g_array_index (g->inputs, GmValueId, i);
    const char *problem;
    GmRule rule = gm_graph_alias_problem (g, id, &problem);
    if (rule != GM_RULE_NONE)
      return fail (v, rule, "input %u (%s) %s", i, gm_graph_value (g, id)->name, problem);
  }
  return true;
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static bool
check_attrs (Verifier *v, const GmNode *n)
{
  static const GmAttrs none;
  const GmAttrs *a = n->attrs ? n->attrs : &none;
  uint32_t need = gm_op_attr_mask (n->op), may = need | gm_op_attr_optional (n->op);
  if (need & ~a->mask || a->mask & ~may) {
    for (int k = 1; k < GM_N_ATTRS; k++)
      if ((need & ~a->mask) >> k & 1)
        return fail (v, GM_RULE_ATTRIBUTE_MISSING, "the attribute %s is missing", gm_attrs[k].name);
      else if ((a->mask & ~may) >> k & 1)
        return fail (v, GM_RULE_ATTRIBUTE_FOREIGN, "the op has no attribute %s", gm_attrs[k].name);
    return fail (v, GM_RULE_ATTRIBUTE_KEY, "attributes with unknown keys: mask %x", a->mask);
  }
  if (a->n_list > GM_MAX_DIMS)
    return fail (v, GM_RULE_ATTRIBUTE_LIST, "a list of %d", a->n_list);
  for (int i = 0; a->mask & 1u << GM_ATTR_SIZES && i < a->n_list; i++)
    if (!check_size (v, a->list[i]))
      return false;
  return true;
}

static bool
is_output (const GmGraph *g, GmValueId v)
{
  bool is = false;
  for (uint32_t i = 0; i < g->outputs->len && !is; i++)
    is = g_array_index (g->outputs, GmGraphOutput, i).value == v;
  return is;
}

static bool
check_constant (Verifier *v, const GmNode *n, const GmMeta *m)
{
  if (n->attrs->offset < 0 || n->attrs->offset >= (int64_t) v->g->constants->len)
    return fail (v, GM_RULE_CONSTANT_ROW, "row %" G_GINT64_FORMAT " of %u constants",
                 n->attrs->offset, v->g->constants->len);
  const GmTensor *t = g_ptr_array_index (v->g->constants, n->attrs->offset);
  GmMeta is = t->meta;
  is.requires_grad = m->requires_grad;
  return !memcmp (&is, m, sizeof is)
         || fail (v, GM_RULE_CONSTANT_TYPE, "its type is not that of the constant");
}

/* Checks a result whose sizes the shape rules and facts leave open.  Sizes that an attribute
 * asks for are the result's; the size of an operand of a POINTWISE or CAST op, aligned at the end,
 * is the result's or 1; nothing else is known. */
static bool
check_open (Verifier *v, const GmNode *n, const GmMeta *m)
{
  GmFamily family = gm_ops[n->op].family;
  if (n->attrs && n->attrs->mask & 1u << GM_ATTR_SIZES
      && (n->attrs->n_list != m->ndim
          || memcmp (n->attrs->list, m->sizes, sizeof *m->sizes * m->ndim)))
    return fail (v, GM_RULE_OPEN_SIZES, "the result has other sizes than the attribute");
  if (family != GM_FAMILY_POINTWISE && family != GM_FAMILY_CAST)
    return true;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const GmMeta *x = gm_graph_meta (v->g, n->in[i]);
    int shift = m->ndim - x->ndim;
    for (int d = 0; d < x->ndim; d++)
      if (shift < 0 || (x->sizes[d] != m->sizes[d + shift] && x->sizes[d] != 1))
        return fail (v, GM_RULE_OPEN_OPERAND, "dimension %d of operand %u does not fit the result",
                     d, i);
  }
  return true;
}

/* Checks the result of a node of a call of graphs; the graphs themselves are checked once for
 * each row, with the first node. */
static bool
check_higher (Verifier *v, const GmNode *n, const GmMeta *const *in, const GmMeta *m)
{
  const GmHigher *h = gm_graph_higher (v->g, n);
  g_autoptr (GError) why = NULL;
  if (!h || h->op != n->op)
    return fail (v, GM_RULE_HIGHER_ROW, "the graph has no row for it");
  if (!gm_higher_check (h, in, n->n_in, &why))
    return fail (v, GM_RULE_HIGHER_FITS, "%s", why->message);
  if (n->attrs->dim < 0 || n->attrs->dim >= (int64_t) gm_higher_n_results (h))
    return fail (v, GM_RULE_HIGHER_RESULT, "result %" G_GINT64_FORMAT " of %u", n->attrs->dim,
                 gm_higher_n_results (h));
  GmMeta is = gm_higher_meta (h, (uint32_t) n->attrs->dim, in);
  is.requires_grad = m->requires_grad;
  if (!gm_graph_same_meta (v->g, &is, m))
    return fail (v, GM_RULE_HIGHER_TYPE, "the result is not what its bodies give");
  for (uint32_t b = 0; b < h->n_bodies; b++)
    if (!gm_graph_verify (h->bodies[b], false, &why))
      return fail (v, GM_RULE_HIGHER_BODY, "in a body: %s", why->message);
  return true;
}

/* Checks a node of a function with a gradient of its own; the gradient itself is checked with
 * the first result. */
static bool
check_custom (Verifier *v, const GmNode *n)
{
  const GmGraph *backward = gm_graph_custom (v->g, n);
  g_autoptr (GError) why = NULL;
  if (!backward)
    return fail (v, GM_RULE_CUSTOM_ROW, "the graph has no gradient for it");
  uint32_t n_args = gm_graph_custom_n_args (backward);
  if (n->n_in < 1 + n_args || n->n_in - 1 - n_args > backward->inputs->len || n->attrs->dim < 0
      || n->attrs->dim >= (int64_t) gm_graph_custom_n_results (v->g, n))
    return fail (v, GM_RULE_CUSTOM_OPERANDS, "%u operands do not fit its gradient", n->n_in);
  return n->attrs->dim > 0 || gm_graph_verify (backward, true, &why)
         || fail (v, GM_RULE_CUSTOM_BODY, "in its gradient: %s", why->message);
}

static bool
check_result (Verifier *v, const GmNode *n)
{
  const GmGraph *g = v->g;
  const GmMeta *m = gm_graph_meta (g, n->out);
  g_autofree const GmMeta **in = g_new (const GmMeta *, n->n_in + 1);
  for (uint32_t i = 0; i < n->n_in; i++)
    in[i] = gm_graph_meta (g, n->in[i]);
  if (!check_meta (v, m))
    return false;
  if (m->requires_grad && n->op != GM_OP_constant
      && !gm_graph_expects_grad (g, n->op, n->in, (int) n->n_in, m))
    return fail (v, GM_RULE_RESULT_GRAD,
                 "the result requires grad, but no operand from which it could have that");
  if (n->op == GM_OP_constant)
    return check_constant (v, n, m);
  if (gm_op_is_higher (n->op))
    return check_higher (v, n, in, m);
  GmMeta is;
  g_autoptr (GError) why = NULL;
  bool ok = gm_op_infer (n->op, in, (int) n->n_in, n->attrs, &is, &why);
  if (g->sizes && !gm_sizes_check (g->sizes, NULL))
    return check_open (v, n, m);
  if (!ok)
    return fail (v, GM_RULE_OPERANDS_FIT, "%s", why->message);
  is.requires_grad = m->requires_grad;
  if (!gm_graph_same_meta (g, &is, m)
      && !(gm_op_may_be_strided (n->op, &is, m) && is_output (g, n->out))) {
    g_autofree char *a = gm_meta_text (&is), *b = gm_meta_text (m),
                    *sa = gm_shape_text (is.ndim, is.strides),
                    *sb = gm_shape_text (m->ndim, m->strides);
    return fail (v, GM_RULE_RESULT_TYPE,
                 "the result should be %s with strides %s, the graph has %s with strides %s", a, sa,
                 b, sb);
  }
  return true;
}

static bool
check_node (Verifier *v, bool functional)
{
  const GmGraph *g = v->g;
  const GmNode *n = gm_graph_node (g, v->node);
  if (n->op <= GM_OP_NONE || n->op >= GM_N_OPS || !gm_ops[n->op].name)
    return fail (v, GM_RULE_OP, "there is no op with code %d", (int) n->op);
  if (functional && gm_ops[n->op].family == GM_FAMILY_MUTATE)
    return fail (v, GM_RULE_FUNCTIONAL, "a write in place in a graph that should have none");
  if (n->op == GM_OP_custom && !check_custom (v, n))
    return false;
  if (n->tag >= GM_N_TAGS)
    return fail (v, GM_RULE_TAG, "there is no tag %d", n->tag);
  if (n->tag == GM_TAG_IN_PLACE && n->op != GM_OP_copy_)
    return fail (v, GM_RULE_IN_PLACE, "it is marked as a write in place, and writes nothing");
  int arity = gm_ops[n->op].arity;
  if (arity >= 0 ? n->n_in != (uint32_t) arity : n->n_in < 1)
    return fail (v, GM_RULE_ARITY, "%u operands", n->n_in);
  for (uint32_t i = 0; i < n->n_in; i++) {
    if (n->in[i] >= g->values->len)
      return fail (v, GM_RULE_OPERAND_EXISTS, "operand %u is value %u of %u", i, n->in[i],
                   g->values->len);
    uint32_t made = gm_graph_value (g, n->in[i])->node;
    if (made != GM_NO_ID && made >= v->node)
      return fail (v, GM_RULE_OPERAND_ORDER, "operand %u is made by node %u, which comes later", i,
                   made);
  }
  if (n->out >= g->values->len || gm_graph_value (g, n->out)->node != v->node)
    return fail (v, GM_RULE_RESULT_MAKER,
                 "its result is value %u, which does not name it as its maker", n->out);
  return check_attrs (v, n) && check_result (v, n);
}

/* Checks that histories come after all other outputs but gradients: so an output with elements
 * has the same index as the result of a call. */
static bool
check_outputs (Verifier *v, bool functional)
{
  const GmGraph *g = v->g;
  bool histories = false;
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    const GmGraphOutput *o = &g_array_index (g->outputs, GmGraphOutput, i);
    if (o->value >= g->values->len)
      return fail (v, GM_RULE_OUTPUT_EXISTS, "output %u is value %u of %u", i, o->value,
                   g->values->len);
    if (o->kind > GM_OUTPUT_HISTORY)
      return fail (v, GM_RULE_OUTPUT_KIND, "output %u is of kind %d", i, o->kind);
    histories |= o->kind == GM_OUTPUT_HISTORY;
    if (histories && o->kind != GM_OUTPUT_HISTORY && o->kind != GM_OUTPUT_GRAD)
      return fail (v, GM_RULE_HISTORY_LAST, "output %u comes after a history", i);
    if (functional && o->kind == GM_OUTPUT_HISTORY && !gm_graph_meta (g, o->value)->requires_grad)
      return fail (v, GM_RULE_HISTORY_GRAD,
                   "output %u is the history of what does not require grad", i);
  }
  return true;
}

/* -- Names of tensors that became others ------------------------------------------------------- */

/* Checks that no node and no output uses an older value of a tensor after set_, which gives the
 * tensor another shape: the older value's meta is wrong. */
static bool
check_names (Verifier *v)
{
  const GmGraph *g = v->g;
  g_autofree GmValueId *object = g_new (GmValueId, g->values->len + 1),
                       *latest = g_new0 (GmValueId, g->values->len + 1);
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId id = g_array_index (g->inputs, GmValueId, i);
    const GmGraphAlias *a = gm_graph_value (g, id)->alias;
    object[id] = a && a->same != GM_NO_ID ? a->same : id;
  }
  for (v->node = 0; v->node < g->nodes->len; v->node++) {
    const GmNode *n = gm_graph_node (g, v->node);
    bool mutates = gm_ops[n->op].family == GM_FAMILY_MUTATE;
    for (uint32_t k = 0; k < n->n_in; k++)
      if (n->in[k] < latest[object[n->in[k]]])
        return fail (v, GM_RULE_NAME_OPERAND,
                     "operand %u names a tensor that set_ has changed since: use the result of "
                     "that",
                     k);
    object[n->out] = mutates ? object[n->in[0]] : n->out;
    if (n->op == GM_OP_set_)
      latest[object[n->out]] = n->out;
  }
  v->node = GM_NO_ID;
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    GmValueId id = g_array_index (g->outputs, GmGraphOutput, i).value;
    if (id < latest[object[id]])
      return fail (v, GM_RULE_NAME_OUTPUT,
                   "output %u names a tensor that set_ has changed since: use the result of "
                   "that",
                   i);
  }
  return true;
}

static bool
has_set (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->nodes->len; i++)
    if (gm_graph_node (g, i)->op == GM_OP_set_)
      return true;
  return false;
}

static bool
verify (Verifier *v, bool functional)
{
  const GmGraph *g = v->g;
  if (g->values->len != g->inputs->len + g->nodes->len)
    return fail (v, GM_RULE_VALUE_COUNT, "%u values for %u inputs and %u nodes", g->values->len,
                 g->inputs->len, g->nodes->len);
  if (!check_inputs (v))
    return false;
  for (v->node = 0; v->node < g->nodes->len; v->node++)
    if (!check_node (v, functional))
      return false;
  v->node = GM_NO_ID;
  return check_outputs (v, functional) && (!has_set (g) || check_names (v));
}

bool
gm_graph_verify (const GmGraph *g, bool functional, GError **error)
{
  Verifier v = { .g = g, .node = GM_NO_ID, .error = error };
  GmSizes *s = g->sizes;
  if (!s)
    return verify (&v, functional);
  GmSizes *was = gm_sizes_enter (s);
  bool frozen = s->frozen;
  s->frozen = true;
  bool ok = verify (&v, functional);
  s->frozen = frozen;
  gm_sizes_enter (was);
  return ok;
}

bool
gm_graph_verify_outputs (const GmGraph *g, GError **error)
{
  Verifier v = { .g = g, .node = GM_NO_ID, .error = error };

  for (uint32_t i = 0; i < g->outputs->len; i++) {
    GmValueId id = g_array_index (g->outputs, GmGraphOutput, i).value;
    uint32_t node = gm_graph_value (g, id)->node;
    if (node == GM_NO_ID)
      return fail (&v, GM_RULE_PART_OUTPUT_MADE,
                   "output %u is an input: a back end would have to copy it", i);
    const GmNode *n = gm_graph_node (g, node);
    if (gm_ops[n->op].family == GM_FAMILY_MOVEMENT || n->op == GM_OP_constant)
      return fail (&v, GM_RULE_PART_OUTPUT_OWNS,
                   "output %u is a %s, which has no memory of its own", i, gm_ops[n->op].name);
    for (uint32_t k = 0; k < i; k++)
      if (g_array_index (g->outputs, GmGraphOutput, k).value == id)
        return fail (&v, GM_RULE_PART_OUTPUT_ONCE, "outputs %u and %u are one value", k, i);
  }
  return true;
}
