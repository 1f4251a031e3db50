/* SPDX-License-Identifier: Apache-2.0
 * higher_stages.c -- cond, while_loop, scan and invoke_subgraph in stages f and j.
 *
 * Stage f makes the bodies functional, each by itself: a body writes only to tensors of its own,
 * and every output is a tensor of its own.  Stage j: the gradient of such a call is such a call.
 * Its bodies are the gradients of the bodies, made by joining them, and they read the operands that
 * the bodies read: no value of a body is saved, all are computed again.  So the gradient of a cond
 * is a cond over the same predicate; of a scan, a scan that notes what was carried into each step,
 * and a scan that goes back; of a while_loop and of an associative_scan an operator of its own,
 * because the number of steps is known only when it runs.
 */
#include "core/aot/aot.h"

#include <string.h>

#include "core/graph/higher.h"

static GmValueId
input_of (const GmGraph *g, uint32_t i)
{
  return g_array_index (g->inputs, GmValueId, i);
}

static GmValueId
output_of (const GmGraph *g, uint32_t i)
{
  return g_array_index (g->outputs, GmGraphOutput, i).value;
}

static bool
needs_grad (const GmGraph *g, GmValueId v)
{
  return gm_graph_meta (g, v)->requires_grad;
}

/* -- Stage f ----------------------------------------------------------------------------------- */

/* True if output i of g is the result of a node that makes new memory, and is not output before
 * number i. */
static bool
is_own (const GmGraph *g, uint32_t i)
{
  GmValueId v = output_of (g, i);
  uint32_t node = gm_graph_value (g, v)->node;

  for (uint32_t k = 0; k < i; k++)
    if (output_of (g, k) == v)
      return false;
  return node != GM_NO_ID && gm_graph_node (g, node)->op != GM_OP_constant
         && gm_ops[gm_graph_node (g, node)->op].family != GM_FAMILY_MOVEMENT;
}

static bool
own_outputs (GmGraph *g, GError **error)
{
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    if (is_own (g, i))
      continue;
    GmValueId v = output_of (g, i);
    GmValueId copy = gm_graph_add_node (g, GM_OP_copy, &v, 1, NULL, NULL, error);
    if (copy == GM_NO_ID)
      return false;
    gm_graph_meta (g, copy)->requires_grad = gm_graph_meta (g, v)->requires_grad;
    g_array_index (g->outputs, GmGraphOutput, i).value = copy;
  }
  return true;
}

/* Copies the program lines of g's nodes into g's arena: they are strings of another arena, which
 * may be freed. */
static void
keep_places (GmGraph *g)
{
  const char *from = NULL, *to = NULL;

  for (uint32_t i = 0; i < g->nodes->len; i++) {
    GmNode *n = gm_graph_node (g, i);
    if (n->where != from) {
      from = n->where;
      to = from ? gm_arena_strdup (g->arena, from) : NULL;
    }
    n->where = to;
  }
}

static GmGraph *
prepare_body (const GmGraph *body, bool differentiate, GError **error)
{
  GmArena *arena = gm_arena_new ();
  GmFunctionalLayer layer;
  GmGraph *g = gm_functionalize (body, differentiate, NULL, arena, &layer, error);

  if (!g) {
    gm_arena_free (arena);
    return NULL;
  }
  g->owns_arena = true;
  keep_places (g);
  if (layer.n_mutations) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "%s writes to %s, which was made outside of it: return the new value instead",
                 body->name,
                 gm_graph_value (body, input_of (body, layer.mutations[0].input.i))->name);
  } else if (own_outputs (g, error) && gm_higher_prepare (g, differentiate, error)) {
    return g;
  }
  gm_graph_free (g);
  return NULL;
}

bool
gm_higher_prepare (GmGraph *g, bool differentiate, GError **error)
{
  if (!g->highers || g->highers->len == 0)
    return true;
  gm_graph_own_highers (g);
  for (uint32_t i = 0; i < g->highers->len; i++) {
    const GmHigher *from = g->highers->pdata[i];
    g_autoptr (GmHigher) h = gm_higher_new_like (from);
    for (uint32_t b = 0; b < h->n_bodies; b++)
      if (!(h->bodies[b] = prepare_body (from->bodies[b], differentiate, error)))
        return false;
    gm_host_call_prepare (h, differentiate);
    gm_graph_set_higher (g, i, g_steal_pointer (&h));
  }
  return true;
}

/* -- Stage p ----------------------------------------------------------------------------------- */

static bool
has_customs (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->nodes->len; i++)
    if (gm_graph_node (g, i)->op == GM_OP_custom)
      return true;
  return false;
}

/* True if a body contains a function that brings its gradient. */
static bool
brings_gradients (const GmHigher *h)
{
  for (uint32_t b = 0; b < h->n_bodies; b++) {
    const GmGraph *g = h->bodies[b];
    if (has_customs (g))
      return true;
    for (uint32_t i = 0; g->highers && i < g->highers->len; i++)
      if (brings_gradients (g->highers->pdata[i]))
        return true;
  }
  return false;
}

bool
gm_higher_is_once (const GmHigher *h)
{
  if (h->op == GM_OP_host_call || brings_gradients (h))
    return true;
  for (uint32_t b = 0; b < h->n_bodies; b++) {
    const GPtrArray *rows = h->bodies[b]->highers;
    for (uint32_t i = 0; rows && i < rows->len; i++)
      if (gm_higher_is_once (rows->pdata[i]))
        return true;
  }
  return false;
}

void
gm_higher_drop_customs (GmGraph *g)
{
  bool any = false;

  for (uint32_t i = 0; g->highers && i < g->highers->len; i++)
    any = any || brings_gradients (g->highers->pdata[i]);
  if (!any)
    return;
  gm_graph_own_highers (g);
  for (uint32_t i = 0; i < g->highers->len; i++) {
    const GmHigher *from = g->highers->pdata[i];
    if (!brings_gradients (from))
      continue;
    GmHigher *h = gm_higher_new_like (from);
    for (uint32_t b = 0; b < h->n_bodies; b++) {
      GmGraph *body = h->bodies[b] = gm_graph_simplify (
          from->bodies[b], GM_SIMPLIFY_DEAD | GM_SIMPLIFY_FOLD | GM_SIMPLIFY_CSE, NULL);
      for (uint32_t k = 0; k < body->nodes->len; k++)
        gm_graph_meta (body, gm_graph_node (body, k)->out)->requires_grad = 0;
      g_clear_pointer (&body->customs, g_ptr_array_unref);
      gm_higher_drop_customs (body);
    }
    gm_graph_set_higher (g, i, h);
  }
}

/* -- The gradient of a body -------------------------------------------------------------------- */

/* Appends the nodes of `from` to `to`.  map[id]: the id in `to` of value `id` of `from`; the caller
 * sets it for inputs, the function for results. */
static bool
inline_nodes (GmGraph *to, const GmGraph *from, GmValueId *map, GError **error)
{
  g_autofree uint32_t *rows = g_new0 (uint32_t, (from->highers ? from->highers->len : 0) + 1);

  for (uint32_t i = 0; from->highers && i < from->highers->len; i++)
    rows[i] = gm_graph_add_higher (to, gm_higher_ref (from->highers->pdata[i]));
  for (uint32_t i = 0; i < from->nodes->len; i++) {
    const GmNode *n = gm_graph_node (from, i);
    GmNode at = *n;
    GmAttrs attrs;
    if (gm_op_is_higher (n->op)) {
      attrs = *n->attrs;
      attrs.offset = rows[attrs.offset];
      at.attrs = &attrs;
    }
    at.where = n->where ? gm_arena_strdup (to->arena, n->where) : NULL;
    map[n->out] = gm_copy_node (to, from, &at, map, error);
    if (map[n->out] == GM_NO_ID)
      return false;
  }
  return true;
}

static GmValueId
add_zeros (GmGraph *g, const GmMeta *like)
{
  GmAttrs a = gm_attrs_full (like, gm_dtype_is_float ((GmDtype) like->dtype) ? gm_scalar_float (0)
                                                                             : gm_scalar_int (0));

  return gm_graph_add_node (g, GM_OP_full, NULL, 0, &a, NULL, NULL);
}

/* Marks the values of g, the gradient of `body`, that require grad, in case g is differentiated in
 * turn: those that required grad in the body, and the arriving gradients. */
static void
expect_grad (GmGraph *g, const GmGraph *body)
{
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmMeta *m = gm_graph_meta (g, input_of (g, i));
    m->requires_grad = i < body->inputs->len ? needs_grad (body, input_of (body, i))
                                             : gm_dtype_is_float ((GmDtype) m->dtype);
  }
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    GmMeta *m = gm_graph_meta (g, n->out);
    m->requires_grad =
        n->op != GM_OP_constant && gm_graph_expects_grad (g, n->op, n->in, (int) n->n_in, m);
  }
}

/* Returns the gradient of `body` as a graph in a new arena of its own, NULL on error.  Its inputs
 * are those of the body, then a gradient for each output that requires grad; its outputs are a
 * gradient for each input that requires grad. */
static GmGraph *
gradient_of (const GmGraph *body, GError **error)
{
  g_autoptr (GmArena) scratch = gm_arena_new ();
  GmJoint joint;

  if (!gm_join_body (body, scratch, &joint, error))
    return NULL;
  g_autoptr (GmGraph) all = joint.graph;
  g_autoptr (GArray) outputs = g_array_new (FALSE, FALSE, sizeof (GmGraphOutput));
  for (uint32_t i = 0, k = 0; i < body->inputs->len; i++) {
    GmValueId in = input_of (body, i);
    GmGraphOutput o = { .kind = GM_OUTPUT_GRAD };
    if (!needs_grad (body, in))
      continue;
    o.value = k < joint.n_grads && joint.grads[k].i == i
                  ? output_of (all, joint.n_outputs + k++)
                  : add_zeros (all, gm_graph_meta (body, in));
    g_array_append_val (outputs, o);
  }
  g_array_unref (g_steal_pointer (&all->outputs));
  all->outputs = g_steal_pointer (&outputs);
  all->name = gm_arena_printf (scratch, "%s_backward", body->name);
  /* A gradient that the program brings is contained in it; there is no second derivative
   * (higher_tape.c), so the table of customs stays behind. */
  GmGraph *own = gm_graph_simplify (
      all, GM_SIMPLIFY_DEAD | (has_customs (all) ? GM_SIMPLIFY_FOLD | GM_SIMPLIFY_CSE : 0), NULL);
  expect_grad (own, body);
  if (own_outputs (own, error))
    return own;
  gm_graph_free (own);
  return NULL;
}

/* -- Calls ------------------------------------------------------------------------------------- */

/* A call of an operator with bodies, and all that is needed to append its gradient, which is such a
 * call, too, to `to`. */
typedef struct {
  const GmGraph *g;
  const GmNode *n;
  const GmHigher *h;
  GmGraph *to;
  const GmValueId *in; /* the operands, in `to` */
  GmValueId *tangents; /* per result: its gradient in `to`; GM_NO_ID: the result requires no
                        * grad */
  GError **error;
} Call;

static bool
is_of (const GmGraph *g, uint32_t i, const GmNode *n)
{
  const GmNode *m = gm_graph_node (g, i);

  return m->op == n->op && m->attrs->offset == n->attrs->offset;
}

bool
gm_higher_is_next (const GmGraph *g, uint32_t i, GmVal *const grad)
{
  const GmNode *n = gm_graph_node (g, i);

  for (uint32_t k = 0; k < i; k++)
    if (is_of (g, k, n))
      return false;
  for (; i < g->nodes->len; i++)
    if (is_of (g, i, n) && grad[gm_graph_node (g, i)->out])
      return true;
  return false;
}

/* Returns the body of h whose outputs are the results of the call; borrowed. */
static const GmGraph *
giver (const GmHigher *h)
{
  return h->bodies[h->op == GM_OP_while_loop];
}

/* Appends result `dim` of a call, with the bodies in row `row` of the table and operands `in`, to
 * c->to. */
static GmValueId
add_result (const Call *c, uint32_t row, GmOp op, uint32_t dim, const GArray *in)
{
  GmAttrs a = { .mask = 1u << GM_ATTR_DIM | 1u << GM_ATTR_OFFSET, .dim = dim, .offset = row };

  return gm_graph_add_node (c->to, op, (const GmValueId *) (void *) in->data, (int) in->len, &a,
                            c->n->where, c->error);
}

static void
append_tangents (const Call *c, GArray *in, uint32_t from, uint32_t to)
{
  for (uint32_t i = from; i < to; i++)
    if (c->tangents[i] != GM_NO_ID)
      g_array_append_val (in, c->tangents[i]);
}

/* Appends the results of the call `row` to c->to, in their order, and sets result[k] to them for
 * each operand k >= first_operand that requires grad. */
static bool
take_gradients (const Call *c, uint32_t row, GmOp op, const GArray *in, uint32_t first_operand,
                GmValueId *result)
{
  for (uint32_t i = first_operand, dim = 0; i < c->n->n_in; i++) {
    const GmGraph *body = giver (c->h);
    if (!needs_grad (body, input_of (body, i - first_operand)))
      continue;
    if (needs_grad (c->g, c->n->in[i])
        && (result[i] = add_result (c, row, op, dim, in)) == GM_NO_ID)
      return false;
    dim++;
  }
  return true;
}

/* -- cond, invoke_subgraph --------------------------------------------------------------------- */

static bool
differentiate_branches (const Call *c, GmValueId *result)
{
  uint32_t skip = c->h->op == GM_OP_cond;
  g_autoptr (GmHigher) h = gm_higher_new (c->h->op);
  g_autoptr (GArray) in = g_array_new (FALSE, FALSE, sizeof (GmValueId));

  for (uint32_t b = 0; b < h->n_bodies; b++)
    if (!(h->bodies[b] = gradient_of (c->h->bodies[b], c->error)))
      return false;
  g_array_append_vals (in, c->in, c->n->n_in);
  append_tangents (c, in, 0, gm_higher_n_results (c->h));
  uint32_t row = gm_graph_add_higher (c->to, gm_higher_ref (h));
  return take_gradients (c, row, h->op, in, skip, result);
}

/* -- while_loop -------------------------------------------------------------------------------- */

/* Returns one step backwards as a body of while_loop_grad or associative_scan_grad.  It takes
 * gradients for all results of `body`, and returns gradients for its first n_values inputs even if
 * an input has none, so that operands and results follow from their numbers alone: a gradient that
 * does not exist is passed through. */
static GmGraph *
step_back (const GmGraph *body, uint32_t n_values, GError **error)
{
  uint32_t n_results = body->outputs->len;
  g_autoptr (GmGraph) of = gradient_of (body, error);
  if (!of)
    return NULL;
  GmGraph *to = gm_graph_new_like (of, of->name, NULL);
  g_autofree GmValueId *map = g_new (GmValueId, of->values->len + 1),
                       *gradient = g_new (GmValueId, n_results + 1);
  uint32_t n = body->inputs->len, k = n;

  for (uint32_t i = 0; i < n; i++)
    map[input_of (of, i)] = gm_graph_add_input (to, gm_graph_value (body, input_of (body, i))->name,
                                                gm_graph_meta (body, input_of (body, i)));
  for (uint32_t i = 0; i < n_results; i++) {
    GmMeta m = *gm_graph_meta (body, output_of (body, i));
    m.requires_grad = 0;
    gm_graph_meta_set_contiguous (to, &m);
    gradient[i] = gm_graph_add_input (to, gm_copy_fresh_name (to, "gradient", i), &m);
    if (needs_grad (body, output_of (body, i)))
      map[input_of (of, k++)] = gradient[i];
  }
  if (!inline_nodes (to, of, map, error)) {
    gm_graph_free (to);
    return NULL;
  }
  k = 0;
  for (uint32_t i = 0; i < n; i++) {
    bool has = needs_grad (body, input_of (body, i));
    if (has)
      gm_graph_add_output (to, map[output_of (of, k++)], GM_OUTPUT_GRAD);
    else if (i < n_values)
      gm_graph_add_output (to, gradient[i % n_results], GM_OUTPUT_GRAD);
  }
  if (own_outputs (to, error))
    return to;
  gm_graph_free (to);
  return NULL;
}

static GmGraph *
copy_of (const GmGraph *body)
{
  return gm_graph_simplify (body, GM_SIMPLIFY_DEAD, NULL);
}

static bool
differentiate_while (const Call *c, GmValueId *result)
{
  const GmHigher *from = c->h;
  const GmGraph *body = from->bodies[1];
  g_autoptr (GmHigher) h = gm_higher_new (GM_OP_while_loop_grad);
  g_autoptr (GArray) in = g_array_new (FALSE, FALSE, sizeof (GmValueId));

  h->n_carried = from->n_carried;
  h->bodies[0] = copy_of (from->bodies[0]);
  h->bodies[1] = copy_of (body);
  if (!(h->bodies[2] = step_back (from->bodies[1], from->n_carried, c->error)))
    return false;
  g_array_append_vals (in, c->in, c->n->n_in);
  for (uint32_t i = 0; i < h->n_carried; i++) {
    GmValueId t = c->tangents[i] != GM_NO_ID
                      ? c->tangents[i]
                      : add_zeros (c->to, gm_graph_meta (body, output_of (body, i)));
    g_array_append_val (in, t);
  }
  uint32_t row = gm_graph_add_higher (c->to, gm_higher_ref (h)), dim = 0;
  for (uint32_t i = 0; i < c->n->n_in; i++) {
    bool has = needs_grad (body, input_of (body, i));
    if (has && needs_grad (c->g, c->n->in[i])
        && (result[i] = add_result (c, row, h->op, dim, in)) == GM_NO_ID)
      return false;
    dim += has || i < h->n_carried;
  }
  return true;
}

/* -- scan -------------------------------------------------------------------------------------- */

/* Returns the body of a scan whose stacked results are the values that were carried into each step
 * of h. */
static GmGraph *
noting_body (const GmHigher *h, GError **error)
{
  const GmGraph *body = h->bodies[0];
  GmGraph *to = copy_of (body);

  g_array_set_size (to->outputs, h->n_carried);
  for (uint32_t i = 0; i < h->n_carried; i++)
    gm_graph_add_output (to, input_of (to, i), GM_OUTPUT_USER);
  g_autoptr (GmGraph) old = to;
  to = copy_of (old);
  if (own_outputs (to, error))
    return to;
  gm_graph_free (to);
  return NULL;
}

/* Returns one step backwards of the scan h.  Carried: gradients of the carried values, and sums of
 * the gradients of args.  Mapped: the mapped operands, the values carried into the step, and
 * gradients of the results that the step stacked.  The rest: args. */
static GmGraph *
scan_back (const GmHigher *h, GError **error)
{
  const GmGraph *body = h->bodies[0];
  uint32_t n = h->n_carried, m = h->n_mapped, n_in = body->inputs->len, n_out = body->outputs->len,
           k = n_in;
  g_autoptr (GmGraph) of = gradient_of (body, error);
  if (!of)
    return NULL;
  GmGraph *to = gm_graph_new_like (of, of->name, NULL);
  g_autofree GmValueId *map = g_new (GmValueId, of->values->len + 1),
                       *sums = g_new (GmValueId, n_in + 1),
                       *gradient = g_new (GmValueId, n_out + 1);
  const char *name;

  for (uint32_t i = 0; i < n_out; i++) { /* in the order in which `of` takes them */
    GmMeta meta = *gm_graph_meta (body, output_of (body, i));
    gradient[i] = GM_NO_ID;
    meta.requires_grad = 1;
    gm_meta_set_contiguous (&meta);
    if (i < n && needs_grad (body, output_of (body, i)))
      gradient[i] = gm_graph_add_input (to, gm_copy_fresh_name (to, "gradient", i), &meta);
  }
  for (uint32_t i = n + m; i < n_in; i++) {
    GmMeta meta = *gm_graph_meta (body, input_of (body, i));
    meta.requires_grad = 1;
    gm_meta_set_contiguous (&meta);
    if (needs_grad (body, input_of (body, i)))
      sums[i] = gm_graph_add_input (to, gm_copy_fresh_name (to, "sum", i), &meta);
  }
#define ADD_INPUT(i)                                                                               \
  (name = gm_graph_value (body, input_of (body, i))->name,                                         \
   map[input_of (of, i)] =                                                                         \
       gm_graph_add_input (to, name, gm_graph_meta (body, input_of (body, i))))
  for (uint32_t i = n; i < n + m; i++)
    ADD_INPUT (i);
  for (uint32_t i = 0; i < n; i++)
    ADD_INPUT (i);
  for (uint32_t i = n; i < n_out; i++)
    if (needs_grad (body, output_of (body, i))) {
      GmMeta meta = *gm_graph_meta (body, output_of (body, i));
      meta.requires_grad = 1;
      gm_meta_set_contiguous (&meta);
      gradient[i] = gm_graph_add_input (to, gm_copy_fresh_name (to, "gradient", i), &meta);
    }
  for (uint32_t i = n + m; i < n_in; i++)
    ADD_INPUT (i);
#undef ADD_INPUT
  for (uint32_t i = 0; i < n_out; i++)
    if (gradient[i] != GM_NO_ID)
      map[input_of (of, k++)] = gradient[i];
  bool good = inline_nodes (to, of, map, error);
  k = 0;
  g_autofree GmValueId *gives = g_new0 (GmValueId, n_in + 1);
  for (uint32_t i = 0; good && i < n_in; i++)
    if (needs_grad (body, input_of (body, i)))
      gives[i] = map[output_of (of, k++)];
  for (uint32_t i = 0; good && i < n; i++)
    if (needs_grad (body, input_of (body, i)))
      gm_graph_add_output (to, gives[i], GM_OUTPUT_GRAD);
  for (uint32_t i = n + m; good && i < n_in; i++)
    if (needs_grad (body, input_of (body, i))) {
      GmValueId two[2] = { sums[i], gives[i] },
                sum = gm_graph_add_node (to, GM_OP_add, two, 2, NULL, NULL, error);
      good = sum != GM_NO_ID;
      if (good)
        gm_graph_add_output (to, sum, GM_OUTPUT_GRAD);
    }
  for (uint32_t i = n; good && i < n + m; i++)
    if (needs_grad (body, input_of (body, i)))
      gm_graph_add_output (to, gives[i], GM_OUTPUT_GRAD);
  if (good && own_outputs (to, error))
    return to;
  gm_graph_free (to);
  return NULL;
}

static bool
differentiate_scan (const Call *c, GmValueId *result)
{
  const GmHigher *from = c->h;
  const GmGraph *body = from->bodies[0];
  uint32_t n = from->n_carried, m = from->n_mapped, n_out = body->outputs->len;
  g_autoptr (GmHigher) noting = gm_higher_new (GM_OP_scan), h = gm_higher_new (GM_OP_scan);
  g_autoptr (GArray) in = g_array_new (FALSE, FALSE, sizeof (GmValueId)),
                     back = g_array_new (FALSE, FALSE, sizeof (GmValueId));

  noting->n_carried = n;
  noting->n_mapped = m;
  noting->reverse = from->reverse;
  h->reverse = !from->reverse;
  if (!(noting->bodies[0] = noting_body (from, c->error))
      || !(h->bodies[0] = scan_back (from, c->error)))
    return false;
  g_array_append_vals (in, c->in, c->n->n_in);
  append_tangents (c, back, 0, n);
  for (uint32_t i = n + m; i < c->n->n_in; i++)
    if (needs_grad (body, input_of (body, i))) {
      GmValueId zero = add_zeros (c->to, gm_graph_meta (body, input_of (body, i)));
      g_array_append_val (back, zero);
    }
  h->n_carried = back->len;
  g_array_append_vals (back, c->in + n, m);
  uint32_t row = gm_graph_add_higher (c->to, gm_higher_ref (noting));
  for (uint32_t i = 0; i < n; i++) {
    GmValueId v = add_result (c, row, GM_OP_scan, n + i, in);
    if (v == GM_NO_ID)
      return false;
    gm_graph_meta (c->to, v)->requires_grad = false;
    g_array_append_val (back, v);
  }
  append_tangents (c, back, n, n_out);
  h->n_mapped = back->len - h->n_carried;
  g_array_append_vals (back, c->in + n + m, c->n->n_in - n - m);
  row = gm_graph_add_higher (c->to, gm_higher_ref (h));
  for (uint32_t i = 0, carried = 0, stack = h->n_carried; i < c->n->n_in; i++) {
    if (!needs_grad (body, input_of (body, i)))
      continue;
    uint32_t dim = i >= n && i < n + m ? stack++ : carried++;
    if (needs_grad (c->g, c->n->in[i])
        && (result[i] = add_result (c, row, GM_OP_scan, dim, back)) == GM_NO_ID)
      return false;
  }
  return true;
}

/* -- associative_scan -------------------------------------------------------------------------- */

static bool
differentiate_prefixes (const Call *c, GmValueId *result)
{
  const GmHigher *from = c->h;
  const GmGraph *body = from->bodies[0];
  uint32_t m = from->n_mapped;
  g_autoptr (GmHigher) h = gm_higher_new (GM_OP_associative_scan_grad);
  g_autoptr (GArray) in = g_array_new (FALSE, FALSE, sizeof (GmValueId));

  h->n_mapped = m;
  h->bodies[0] = copy_of (body);
  if (!(h->bodies[1] = step_back (body, 2 * m, c->error)))
    return false;
  g_array_append_vals (in, c->in, c->n->n_in);
  for (uint32_t i = 0; i < m; i++) {
    GmMeta like = *gm_graph_meta (c->g, c->n->in[i]);
    gm_graph_meta_set_contiguous (c->to, &like);
    GmValueId t = c->tangents[i] != GM_NO_ID ? c->tangents[i] : add_zeros (c->to, &like);
    g_array_append_val (in, t);
  }
  uint32_t row = gm_graph_add_higher (c->to, gm_higher_ref (h)), dim = m;
  for (uint32_t i = 0; i < c->n->n_in; i++) {
    bool has = needs_grad (body, input_of (body, i < m ? i : m + i));
    if (has && needs_grad (c->g, c->n->in[i])
        && (result[i] = add_result (c, row, h->op, i < m ? i : dim, in)) == GM_NO_ID)
      return false;
    dim += has && i >= m;
  }
  return true;
}

/* -- The entry --------------------------------------------------------------------------------- */

bool
gm_higher_differentiate (const GmGraph *g, uint32_t i, GmGraph *to, GmVal *const grad,
                         GmValueId *result, GError **error)
{
  const GmNode *n = gm_graph_node (g, i);
  const GmHigher *h = gm_graph_higher (g, n);
  bool host = h->op == GM_OP_host_call;
  bool prefixes = h->op == GM_OP_associative_scan_grad;
  const GmGraph *body = h->op == GM_OP_while_loop_grad || prefixes || host ? NULL : giver (h);

  if (!body && !host) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 prefixes ? "the second derivative of an associative_scan whose length changes is "
                            "not supported: use scan, or mark_static the length"
                          : "the second derivative of a while_loop is not supported: use scan, or "
                            "a loop in Python");
    return false;
  }
  uint32_t n_results = gm_higher_n_results (h);
  g_autofree GmValueId *tangents = g_new (GmValueId, n_results + 1);
  g_autofree const GmMeta **metas = g_new (const GmMeta *, n->n_in + 1);
  Call c = { g, n, h, to, n->in, tangents, error };

  for (uint32_t k = 0; k < n->n_in; k++) {
    result[k] = GM_NO_ID;
    metas[k] = gm_graph_meta (g, n->in[k]);
  }
  for (uint32_t k = 0; k < n_results; k++)
    tangents[k] = GM_NO_ID;
  for (uint32_t k = i; k < g->nodes->len; k++)
    if (is_of (g, k, n) && grad[gm_graph_node (g, k)->out])
      tangents[gm_graph_node (g, k)->attrs->dim] = gm_id_from_val (grad[gm_graph_node (g, k)->out]);
  if (host)
    return gm_host_call_differentiate (g, n, to, tangents, grad, result, error);
  for (uint32_t k = 0; k < n_results; k++) {
    bool has = needs_grad (body, output_of (body, k));
    GmMeta m = gm_higher_meta (h, k, metas);
    if (!has)
      tangents[k] = GM_NO_ID;
    else if (tangents[k] == GM_NO_ID)
      tangents[k] = add_zeros (to, &m);
  }
  return h->op == GM_OP_while_loop         ? differentiate_while (&c, result)
         : h->op == GM_OP_scan             ? differentiate_scan (&c, result)
         : h->op == GM_OP_associative_scan ? differentiate_prefixes (&c, result)
                                           : differentiate_branches (&c, result);
}
