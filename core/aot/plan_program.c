/* SPDX-License-Identifier: Apache-2.0
 * plan_program.c -- the compiled backward as a program, so that hooks on gradients inside of a
 * function are traced.
 *
 * In a plan such a hook is an opaque call.  While compiled autograd is on, the hook's own program
 * (backward_stretch.h) takes its place, and the backward around it becomes a part of the stretch,
 * which is compiled as one graph.
 * Invariant: the program returns what the compiled backward returns, in the same layouts; where
 * that backward would not run as it is (unfold_history.c), where a hook is no program, or where the
 * graph has a node that a builder does not know, there is none.
 * Rejected: all compiled functions.  Without hooks the existing backward already does the same.
 */
#include "core/aot/plan_private.h"
#include "core/autograd/backward_stretch.h"
#include "core/graph/higher.h"

typedef struct {
  GmAgProgram base;
  GmPlan *plan; /* owned */
  const GmGraph *g;
  GmGraph *numbers;  /* owned: g for numbers, where g is made for symbols */
  GPtrArray *inputs; /* owned GmTensor: base.in */
  GPtrArray *hooks;  /* GmHookProgram, per host call, in the order of the nodes */
  GArray *first;     /* uint32_t, per host call: the number of the first input that its hook's
                      * program reads */
  GmMeta *results;
} Program;

static void
unref_hook (void *p)
{
  gm_hook_program_unref (p);
}

static void
program_free (GmAgProgram *base)
{
  Program *p = (Program *) base;

  g_ptr_array_unref (p->hooks);
  g_ptr_array_unref (p->inputs);
  g_array_unref (p->first);
  g_free (p->results);
  gm_graph_free (p->numbers);
  gm_plan_unref (p->plan);
  g_free (p);
}

/* -- Emitting ---------------------------------------------------------------------------------- */

/* Appends the program of hook k to b, applied to a copy of `grad`, whose memory the hook may write
 * to, and checks that the result has the meta `want`.  Returns the result. */
static GmVal
emit_hook (const Program *p, uint32_t k, GmBuilder *b, GmVal grad, const GmMeta *want,
           const GmVal *in)
{
  const GmHookProgram *h = g_ptr_array_index (p->hooks, k);

  if (!gm_meta_same_layout (gm_b_meta (b, grad), &h->grad))
    grad = gm_b (b, copy, grad);
  if (gm_b_failed (b))
    return NULL;
  bool fits = gm_meta_same_layout (gm_b_meta (b, grad), &h->grad);
  GmVal replaced = fits ? h->emit (h, b, grad, in + g_array_index (p->first, uint32_t, k)) : NULL;
  grad = replaced ? replaced : grad;
  if (!gm_b_failed (b) && (!fits || !gm_meta_same_layout (gm_b_meta (b, grad), want)))
    return gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                      "a hook inside of a compiled function is known for gradients of another "
                      "layout, or gives one");
  return grad;
}

static void
emit (const GmAgProgram *base, GmBuilder *b, const GmVal *in, GmVal *result)
{
  const Program *p = (const Program *) base;
  const GmGraph *g = p->g;
  g_autofree GmVal *map = g_new0 (GmVal, g->values->len + 1);
  uint32_t n_hooks = 0;

  for (uint32_t i = 0; i < g->inputs->len; i++)
    map[g_array_index (g->inputs, GmValueId, i)] = in[i];
  for (uint32_t k = 0; k < g->nodes->len && !gm_b_failed (b); k++) {
    const GmNode *n = gm_graph_node (g, k);
    g_autofree GmVal *operands = g_new (GmVal, n->n_in + 1);
    for (uint32_t i = 0; i < n->n_in; i++)
      operands[i] = map[n->in[i]];
    if (n->op == GM_OP_constant)
      map[n->out] = b->vt->constant (b, g_ptr_array_index (g->constants, n->attrs->offset));
    else if (n->op == GM_OP_host_call)
      map[n->out] = emit_hook (p, n_hooks++, b, operands[0], gm_graph_meta (g, n->out), in);
    else
      map[n->out] = gm_b_op (b, n->op, operands, (int) n->n_in, n->attrs);
  }
  for (int i = 0; i < p->plan->n_grads && !gm_b_failed (b); i++) {
    GmGradSource s = p->plan->sources[i];
    result[i] =
        s.is_input ? in[s.index] : map[g_array_index (g->outputs, GmGraphOutput, s.index).value];
  }
}

/* -- Making ------------------------------------------------------------------------------------ */

static bool
take_hook (Program *p, const GmNode *n, GByteArray *structure)
{
  const GmHigher *h = gm_graph_higher (p->g, n);
  g_autoptr (GPtrArray) captured = g_ptr_array_new ();
  uint32_t first = p->inputs->len, n_captured;
  GmHookProgram *hook =
      gm_gradient_hook_is (h) ? gm_stretch_runner_now->find_hook (
          gm_gradient_hook_call, h->host, gm_graph_meta (p->g, n->in[0]), captured)
                              : NULL;

  n_captured = captured->len;
  for (uint32_t i = 0; i < n_captured; i++)
    g_ptr_array_add (p->inputs, captured->pdata[i]);
  if (!hook)
    return false;
  g_ptr_array_add (p->hooks, hook);
  g_array_append_val (p->first, first);
  g_byte_array_append (structure, (const uint8_t *) &hook->id, sizeof hook->id);
  g_byte_array_append (structure, (const uint8_t *) &n_captured, sizeof n_captured);
  return true;
}

/* Checks that a builder can express all nodes, makes the programs of their hooks, and appends the
 * bytes that identify them to `structure`.  False if it cannot. */
static bool
take_nodes (Program *p, GByteArray *structure)
{
  for (uint32_t k = 0; k < p->g->nodes->len; k++) {
    const GmNode *n = gm_graph_node (p->g, k);
    uint8_t family = gm_ops[n->op].family;
    bool ok = n->op == GM_OP_host_call ? take_hook (p, n, structure)
                                       : !gm_op_is_higher (n->op) && family != GM_FAMILY_CUSTOM
                                             && family != GM_FAMILY_MUTATE;
    if (!ok)
      return false;
  }
  return true;
}

static void
describe (const GmPlan *p, GByteArray *structure)
{
  g_byte_array_append (structure, (const uint8_t *) &p->id, sizeof p->id);
  if (p->symbols)
    g_byte_array_append (structure, (const uint8_t *) p->symbols,
                         (guint) (sizeof *p->symbols * gm_sym_n_symbols (p->of->sizes->sym)));
}

static void
unref_tensor (void *t)
{
  gm_tensor_unref (t);
}

GmAgProgram *
gm_plan_program (GmPlan *plan, GmTensor *const *in, GByteArray *structure, GError **error)
{
  Program *p = g_new0 (Program, 1);

  p->base.emit = emit;
  p->base.free = program_free;
  p->plan = gm_plan_ref (plan);
  p->inputs = g_ptr_array_new_with_free_func (unref_tensor);
  p->hooks = g_ptr_array_new_with_free_func (unref_hook);
  p->first = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  if (plan->of)
    p->numbers = gm_graph_specialise (plan->backward, plan->symbols, NULL, error);
  p->g = plan->of ? p->numbers : plan->backward;
  for (int i = 0; i < plan->n_saved + plan->n_tangents; i++)
    g_ptr_array_add (p->inputs, in[i]);
  describe (plan, structure);
  if (!p->g || !take_nodes (p, structure)) {
    program_free (&p->base);
    return NULL;
  }
  p->results = g_new (GmMeta, plan->n_grads + 1);
  for (int i = 0; i < plan->n_grads; i++) {
    GmGradSource s = plan->sources[i];
    p->results[i] = *gm_graph_meta (
        p->g, s.is_input ? g_array_index (p->g->inputs, GmValueId, s.index)
                         : g_array_index (p->g->outputs, GmGraphOutput, s.index).value);
  }
  p->base.in = (GmTensor **) p->inputs->pdata;
  p->base.n_in = p->inputs->len;
  p->base.results = p->results;
  p->base.order = plan->grad_order;
  p->base.n_operations = p->g->nodes->len;
  return &p->base;
}
