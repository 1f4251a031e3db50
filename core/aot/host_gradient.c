/* SPDX-License-Identifier: Apache-2.0
 * host_gradient.c -- functions of the host's in a graph that is differentiated, and hooks on
 * gradients inside of it.
 *
 * The gradient of such a function is that of plain eager: it runs with gradients on over leaves
 * that stand for its operands, and the history of its results is kept until the backward, where
 * another host call walks it.  The two are tied by the call's last result, the ticket: one number
 * that no op reads, whose memory has the history as its companion.  So the history lives exactly as
 * long as the saved values of the forward, and is found whatever the plan did with the tensor.  On
 * the tape such a history may be differentiated again: the gradients that walking it returned have
 * a history in their turn, over the same leaves and over others that stand for the arriving
 * gradients, and that history is kept in the same way.
 * Invariant: a ticket is saved as it is: never computed again, and no saved-tensor hook sees it.
 *
 * A hook on the gradient of a value inside is a host call in the backward, on the sum that arrives
 * there, before the node that made the value is differentiated: that is eager's order (join.c).
 * It is an ordinary hook on the tape in a history that is unfolded (unfold_history.c).
 */
#include "core/aot/aot.h"

#include "core/aot/rerun.h"
#include "core/autograd/autograd.h"
#include "core/graph/higher.h"

#include <string.h>

/* -- Plain ------------------------------------------------------------------------------------- */

static void
unref_all (GmTensor **t, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    g_clear_pointer (&t[i], gm_tensor_unref);
}

/* Returns new aliases of the n operands, without history, in an array that the caller frees. */
static GmTensor **
aliases_of (GmTensor *const *in, uint32_t n)
{
  GmTensor **out = g_new (GmTensor *, n + 1);

  for (uint32_t i = 0; i < n; i++) {
    out[i] = gm_tensor_new_alias (in[i]);
    out[i]->meta.requires_grad = 0;
  }
  return out;
}

static GmTensor *
new_ticket (const GmHigher *h, GError **error)
{
  return gm_tensor_new_zeros (&h->results[h->n_results - 1], error);
}

/* Replaces the n results by aliases without history. */
static void
detach_all (GmTensor **out, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    GmTensor *t = gm_tensor_new_alias (out[i]);
    t->meta.requires_grad = 0;
    gm_tensor_unref (out[i]);
    out[i] = t;
  }
}

static bool
run_plain (const GmHigher *h, GmTensor *const *in, uint32_t n_in, GmTensor **out, GError **error)
{
  uint32_t n = h->n_results - h->ticket;
  g_autofree GmTensor **own = aliases_of (in, n_in);
  bool was = gm_grad_set_enabled (false);
  bool good = h->host->call (h->host->data, own, n_in, out, n, error);

  gm_grad_set_enabled (was);
  if (good)
    detach_all (out, n);
  if (good && h->ticket)
    good = (out[n] = new_ticket (h, error)) != NULL;
  unref_all (own, n_in);
  return good;
}

/* -- With a gradient --------------------------------------------------------------------------- */

/* The history of a call of a host function, kept for its backward. */
typedef struct {
  GmCompanion companion;
  uint32_t n_in, n_out;
  GmTensor **leaves;  /* owned: per operand, NULL if no gradient flows to it */
  GmTensor **results; /* owned: with history */
} Note;

static void
note_free (GmCompanion *c)
{
  Note *note = (Note *) c;

  unref_all (note->results, note->n_out);
  unref_all (note->leaves, note->n_in);
  g_free (note->results);
  g_free (note->leaves);
  g_free (note);
}

static bool
flows_to (const GmHigher *h, uint32_t operand)
{
  return operand < 64 && h->flows >> operand & 1;
}

static bool
check_history (const GmHigher *h, GmTensor *const *out, GError **error)
{
  for (uint32_t i = 0; i + 1 < h->n_results; i++)
    if (gm_tensor_requires_grad (out[i]) != h->results[i].requires_grad) {
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                   "%s: result %u %s, but when the call was recorded it %s; a function that is a "
                   "node of a graph does the same in each "
                   "call",
                   h->host->name, i,
                   gm_tensor_requires_grad (out[i]) ? "requires grad" : "requires no grad",
                   h->results[i].requires_grad ? "did" : "did not");
      return false;
    }
  return true;
}

/* Refuses a call whose history reaches other leaves than `leaves`: their gradients would be
 * lost. */
static bool
check_leaves (const GmHigher *h, GmTensor *const *leaves, uint32_t n_in, GmTensor *const *out,
              GError **error)
{
  g_autoptr (GPtrArray) found = g_ptr_array_new ();

  gm_autograd_find_leaves (out, h->n_results - 1, found);
  for (uint32_t k = 0; k < found->len; k++) {
    bool known = false;
    for (uint32_t i = 0; i < n_in; i++)
      known |= flows_to (h, i) && leaves[i] == found->pdata[k];
    if (!known) {
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                   "%s reads a tensor that requires grad and is none of its arguments, which it "
                   "did not when the call was recorded; pass "
                   "the tensor as an argument",
                   h->host->name);
      return false;
    }
  }
  return true;
}

static bool
run_noting (const GmHigher *h, GmTensor *const *in, uint32_t n_in, GmTensor **out, GError **error)
{
  uint32_t n = h->n_results - 1;
  GmTensor **leaves = aliases_of (in, n_in);
  Note *note = g_new (Note, 1);

  for (uint32_t i = 0; i < n_in; i++)
    if (flows_to (h, i))
      gm_tensor_set_requires_grad (leaves[i], true, NULL);
  bool was = gm_grad_set_enabled (true);
  bool good = h->host->call (h->host->data, leaves, n_in, out, n, error);
  gm_grad_set_enabled (was);
  good = good && check_history (h, out, error) && check_leaves (h, leaves, n_in, out, error)
         && (out[n] = new_ticket (h, error)) != NULL;
  if (!good) {
    unref_all (leaves, n_in);
    g_free (leaves);
    g_free (note);
    return false;
  }
  *note = (Note){ .companion.destroy = note_free,
                  .n_in = n_in,
                  .n_out = n,
                  .leaves = leaves,
                  .results = g_new (GmTensor *, n + 1) };
  for (uint32_t i = 0; i < n; i++)
    note->results[i] = gm_tensor_ref (out[i]);
  for (uint32_t i = 0; i < n_in; i++)
    if (!flows_to (h, i))
      g_clear_pointer (&note->leaves[i], gm_tensor_unref);
  detach_all (out, n);
  gm_tensor_set_companion (out[n], &note->companion);
  return true;
}

static const Note *
note_of (const GmHigher *h, const GmTensor *ticket, GError **error)
{
  GmCompanion *c = ticket->storage->companion;

  if (c && c->destroy == note_free)
    return (const Note *) c;
  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
               "the backward of %s: what its call left behind is gone; a back end has to give the "
               "ticket on as the tensor that it is",
               h->host->name);
  return NULL;
}

static bool
walk_history (const Note *note, GmTensor *const *grads, GmTensor *const *begun, bool create_graph,
              GmTensor **gradients, GError **error)
{
  uint32_t most = note->n_out + note->n_in;
  g_autofree GmTensor **roots = g_new (GmTensor *, most + 1),
                      **given = g_new (GmTensor *, most + 1),
                      **leaves = g_new (GmTensor *, note->n_in + 1),
                      **result = g_new0 (GmTensor *, note->n_in + 1);
  int n_roots = 0, n_leaves = 0;

  for (uint32_t i = 0; i < note->n_in; i++)
    if (begun[i] && note->leaves[i]) {
      roots[n_roots] = note->leaves[i];
      given[n_roots++] = begun[i];
    }
  for (uint32_t i = 0; i < note->n_out; i++)
    if (grads[i] && gm_tensor_requires_grad (note->results[i])) {
      roots[n_roots] = note->results[i];
      given[n_roots++] = grads[i];
    }
  for (uint32_t i = 0; i < note->n_in; i++)
    if (note->leaves[i])
      leaves[n_leaves++] = note->leaves[i];
  if (n_roots > 0 && n_leaves > 0
      && !gm_autograd_grad (roots, given, n_roots, leaves, n_leaves, true, create_graph, true,
                            result, error))
    return false;
  for (uint32_t i = 0, k = 0; i < note->n_in; i++)
    gradients[i] = note->leaves[i] ? result[k++] : NULL;
  return true;
}

/* Computes the gradients of a call for its operands.  grads: per result, NULL if none arrived;
 * begun: per operand, the sum so far of its gradient, to which terms are added, or NULL. gradients:
 * per operand, a new reference, or NULL. */
static bool
walk_note (const Note *note, GmTensor *const *grads, GmTensor *const *begun, bool create_graph,
           GmTensor **gradients, GError **error)
{
  GError *failed = NULL;
  bool good;

  if (!create_graph && gm_rerun_take (note, gradients, note->n_in, &good, error))
    return good;
  good = walk_history (note, grads, begun, create_graph, gradients, &failed);
  if (!create_graph)
    gm_rerun_note (note, gradients, note->n_in, failed);
  if (failed)
    g_propagate_error (error, failed);
  return good;
}

/* Runs the gradient of a call as a host call.  in: the ticket, then the gradients of the results
 * that `given` of h names, then the sums so far of the operands that `begun` of h names. */
static bool
run_gradient (const GmHigher *h, GmTensor *const *in, uint32_t n_in, GmTensor **out, GError **error)
{
  const Note *note = note_of (h, in[0], error);
  uint32_t at = 1, n = 0;
  bool good = true;

  if (!note)
    return false;
  g_autofree GmTensor **own = aliases_of (in, n_in), **grads = g_new0 (GmTensor *, note->n_out + 1),
                      **begun = g_new0 (GmTensor *, note->n_in + 1),
                      **gradients = g_new0 (GmTensor *, note->n_in + 1);
  for (uint32_t i = 0; i < note->n_out && at < n_in; i++)
    if (h->given >> i & 1)
      grads[i] = own[at++];
  for (uint32_t i = 0; i < note->n_in && at < n_in; i++)
    if (i < 64 && h->begun >> i & 1)
      begun[i] = own[at++];
  good = walk_note (note, grads, begun, false, gradients, error);
  for (uint32_t i = 0; good && i < note->n_in; i++) {
    if (!note->leaves[i])
      continue;
    if (!gradients[i])
      good = (gradients[i] = gm_tensor_new_zeros (&h->results[n], error)) != NULL;
    if (good)
      out[n++] = g_steal_pointer (&gradients[i]);
  }
  unref_all (gradients, note->n_in);
  if (good)
    detach_all (out, n);
  for (uint32_t i = 0; good && i < n; i++) { /* a gradient may be a tangent, as it came */
    bool same = false;
    for (uint32_t k = 1; k < n_in; k++)
      same |= out[i]->storage == in[k]->storage;
    if (!same)
      continue;
    GmTensor *copy = gm_op_run (GM_OP_copy, &out[i], 1, NULL, error);
    gm_tensor_unref (out[i]);
    good = (out[i] = copy) != NULL;
  }
  unref_all (own, n_in);
  return good;
}

/* -- Stages f and j ---------------------------------------------------------------------------- */

void
gm_host_call_prepare (GmHigher *h, bool differentiate)
{
  if (h->op == GM_OP_host_call && !h->run)
    h->run = h->ticket && differentiate ? run_noting : run_plain;
}

GmValueId
gm_host_call_ticket (const GmGraph *g, const GmNode *n)
{
  const GmHigher *h = gm_graph_higher (g, n);

  for (uint32_t k = 0; h->ticket && k < g->nodes->len; k++) {
    const GmNode *m = gm_graph_node (g, k);
    if (m->op == n->op && m->attrs->offset == n->attrs->offset
        && m->attrs->dim == (int64_t) h->n_results - 1)
      return m->out;
  }
  return GM_NO_ID;
}

bool
gm_host_call_is_ticket (const GmGraph *g, GmValueId v)
{
  uint32_t node = gm_graph_value (g, v)->node;
  const GmNode *n = node == GM_NO_ID ? NULL : gm_graph_node (g, node);

  return n && n->op == GM_OP_host_call && gm_host_call_ticket (g, n) == v;
}

static GmMeta
plain_meta (const GmMeta *like)
{
  GmMeta m = *like;

  m.requires_grad = 0;
  if (!gm_meta_is_dense (&m))
    gm_meta_set_contiguous (&m);
  return m;
}

static GmValueId
add_call (GmGraph *to, GmHigher *h, const GArray *in, uint32_t dim, uint32_t row, const char *where,
          GError **error)
{
  GmAttrs a = { .mask = 1u << GM_ATTR_DIM | 1u << GM_ATTR_OFFSET, .dim = dim, .offset = row };

  return gm_graph_add_node (to, GM_OP_host_call, (const GmValueId *) (const void *) in->data,
                            (int) in->len, &a, where, error);
}

/* True if the host call continues the existing sum of the gradient of operand k: eager adds the
 * terms one by one, not their sum. */
bool
gm_host_call_goes_on (const GmHigher *h, const GmNode *n, uint32_t k, GmVal *const grad)
{
  return h->op == GM_OP_host_call && k < 64 && h->many >> k & 1 && grad[n->in[k]];
}

bool
gm_host_call_differentiate (const GmGraph *g, const GmNode *n, GmGraph *to,
                            const GmValueId *tangents, GmVal *const grad, GmValueId *result,
                            GError **error)
{
  const GmHigher *h = gm_graph_higher (g, n);
  GmValueId ticket = gm_host_call_ticket (g, n);
  g_autoptr (GArray) in = g_array_new (FALSE, FALSE, sizeof (GmValueId));
  g_autofree GmMeta *metas = g_new (GmMeta, n->n_in + 1);
  uint32_t n_results = 0, row, dim = 0;
  uint64_t given = 0, begun = 0;

  for (uint32_t k = 0; k < n->n_in; k++)
    if (flows_to (h, k))
      metas[n_results++] = plain_meta (gm_graph_meta (g, n->in[k]));
  if (ticket == GM_NO_ID || n_results == 0)
    return true;
  g_array_append_val (in, ticket);
  for (uint32_t k = 0; k + 1 < h->n_results; k++)
    if (tangents[k] != GM_NO_ID) {
      g_array_append_val (in, tangents[k]);
      given |= UINT64_C (1) << k;
    }
  for (uint32_t k = 0; k < n->n_in; k++)
    if (gm_host_call_goes_on (h, n, k, grad)) {
      GmValueId sum = gm_id_from_val (grad[n->in[k]]);
      g_array_append_val (in, sum);
      begun |= UINT64_C (1) << k;
    }
  GmHigher *back = gm_higher_new_host_call (h->host, metas, n_results);
  back->given = given;
  back->begun = begun;
  back->run = run_gradient;
  row = gm_graph_add_higher (to, back);
  for (uint32_t k = 0; k < n->n_in; k++) {
    if (!flows_to (h, k))
      continue;
    GmValueId v = add_call (to, back, in, dim++, row, n->where, error);
    if (v == GM_NO_ID)
      return false;
    if (gm_graph_meta (g, n->in[k])->requires_grad)
      result[k] = v;
  }
  return true;
}

/* -- Hooks ------------------------------------------------------------------------------------- */

/* Calls a hook on a copy of the gradient, since the hook may change its argument in place or keep
 * it. */
static bool
run_hook (const GmHigher *h, GmTensor *const *in, uint32_t n_in, GmTensor **out, GError **error)
{
  g_autoptr (GmTensor) own = gm_op_run (GM_OP_copy, in, 1, NULL, error);
  GError *failed = NULL;

  if (!own)
    return false;
  bool was = gm_grad_set_enabled (false);
  bool good = h->host->call (h->host->data, &own, 1, out, 1, &failed);
  gm_grad_set_enabled (was);
  if (good)
    detach_all (out, 1);
  gm_rerun_note (h->host, out, 1, failed);
  if (failed)
    g_propagate_error (error, failed);
  return good;
}

static bool
is_taken_off (const GmGraph *g, GmValueId hook)
{
  for (uint32_t k = 0; k < g->nodes->len; k++) {
    const GmNode *n = gm_graph_node (g, k);
    if (n->op == GM_OP_gradient_hook && n->in[0] == hook)
      return true;
  }
  return false;
}

const GmHigher *
gm_gradient_hook_on (const GmGraph *g, uint32_t i, GmValueId v)
{
  const GmNode *n = gm_graph_node (g, i);
  const GmHigher *h = n->op == GM_OP_gradient_hook && n->in[0] == v ? gm_graph_higher (g, n) : NULL;

  return h && h->host && !is_taken_off (g, n->out) ? h : NULL;
}

bool
gm_gradient_hooks_any (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->nodes->len; i++)
    if (gm_graph_node (g, i)->op == GM_OP_gradient_hook
        && gm_gradient_hook_on (g, i, gm_graph_node (g, i)->in[0]))
      return true;
  return false;
}

GmValueId
gm_gradient_hook_add (GmGraph *to, const GmHigher *hook, GmValueId grad, const char *where,
                      GError **error)
{
  g_autoptr (GArray) in = g_array_new (FALSE, FALSE, sizeof (GmValueId));
  GmMeta m = plain_meta (gm_graph_meta (to, grad));
  GmHigher *h = gm_higher_new_host_call (hook->host, &m, 1);

  h->run = run_hook;
  g_array_append_val (in, grad);
  return add_call (to, h, in, 0, gm_graph_add_higher (to, h), where, error);
}

/* -- On the tape ------------------------------------------------------------------------------- */

bool
gm_gradient_hook_is (const GmHigher *h)
{
  return h && h->run == run_hook;
}

GmTensor *
gm_gradient_hook_call (void *data, GmTensor *grad, GError **error)
{
  GmHostFunction *f = data;
  GmTensor *out = NULL;
  bool good;

  if (gm_rerun_take (f, &out, 1, &good, error))
    return out;
  if (!f->call (f->data, &grad, 1, &out, 1, error))
    return NULL;
  if (out != grad)
    return out;
  gm_tensor_unref (out);
  return NULL;
}

static void
drop_hook (void *data)
{
  gm_host_function_unref (data);
}

void
gm_gradient_hook_register (const GmHigher *hook, GmTensor *t)
{
  gm_tensor_add_hook (t, gm_gradient_hook_call, gm_host_function_ref (hook->host), drop_hook);
}

typedef struct {
  GmHigher *h; /* of a call of a function, with its ticket (both owned); NULL: `note` is used */
  GmTensor *ticket;
  Note *note;    /* of a computation of gradients, which is itself differentiated; owned */
  GmTensor **in; /* owned: the tensors that leaves of the note stand for; NULL where no gradient
                  * flows */
  uint32_t n_in;
} Call;

static void
call_free (void *state)
{
  Call *c = state;

  g_clear_pointer (&c->ticket, gm_tensor_unref);
  g_clear_pointer (&c->h, gm_higher_unref);
  if (c->note)
    note_free (&c->note->companion);
  unref_all (c->in, c->n_in);
  g_free (c->in);
  g_free (c);
}

static void attach_call (Call *c, GmTensor **out, uint32_t n_out, uint64_t seq);

/* Returns an alias of t, without t's history, for use as an operand.  If a gradient may flow to t,
 * the alias is a leaf, and t becomes c->in[k]. */
static GmTensor *
stand_for (Call *c, GmTensor *t, uint32_t k)
{
  GmTensor *own = gm_tensor_new_alias (t);

  own->meta.requires_grad = 0;
  if (gm_tensor_requires_grad (t)) {
    gm_tensor_set_requires_grad (own, true, NULL);
    c->note->leaves[k] = gm_tensor_ref (own);
    c->in[k] = gm_tensor_ref (t);
  }
  return own;
}

/* Computes the same gradients as walk_note, and records them on the tape, so that they can be
 * differentiated: `before` and `note` are the call whose gradients they are. */
static bool
walk_again (const Call *before, const Note *note, GmTensor *const *grads, GmTensor *const *begun,
            GmTensor **gradients, GError **error)
{
  uint32_t n_all = 2 * note->n_in + note->n_out, n = 0;
  Call *c = g_new (Call, 1);
  g_autofree GmTensor **own = g_new0 (GmTensor *, n_all + 1),
                      **out = g_new (GmTensor *, note->n_in + 1);
  GmTensor **own_begun = own + note->n_out;

  *c = (Call){ .note = g_new (Note, 1), .in = g_new0 (GmTensor *, n_all + 1), .n_in = n_all };
  *c->note = (Note){ .companion.destroy = note_free,
                     .n_in = n_all,
                     .leaves = g_new0 (GmTensor *, n_all + 1),
                     .results = g_new0 (GmTensor *, note->n_in + 1) };
  for (uint32_t i = 0; i < note->n_in; i++)
    if (note->leaves[i] && before->in[i]) {
      c->note->leaves[i] = gm_tensor_ref (note->leaves[i]);
      c->in[i] = gm_tensor_ref (before->in[i]);
    }
  for (uint32_t i = 0; i < note->n_out; i++)
    own[i] = grads[i] ? stand_for (c, grads[i], note->n_in + i) : NULL;
  for (uint32_t i = 0; i < note->n_in; i++)
    own_begun[i] = begun[i] ? stand_for (c, begun[i], note->n_in + note->n_out + i) : NULL;
  bool good = walk_note (note, own, own_begun, true, gradients, error);
  unref_all (own, note->n_out + note->n_in);
  for (uint32_t i = 0; good && i < note->n_in; i++) {
    if (!gradients[i] || !gm_tensor_requires_grad (gradients[i]))
      continue;
    c->note->results[c->note->n_out++] = gradients[i];
    gradients[i] = gm_tensor_new_alias (gradients[i]);
    gradients[i]->meta.requires_grad = 0;
    out[n++] = gradients[i];
  }
  if (n > 0)
    attach_call (c, out, n, 0);
  else
    call_free (c);
  return good;
}

static bool
call_backward (GmAgNode *node, void *state, GmTensor *const *grads, GmTensor **result,
               bool create_graph, GError **error)
{
  const Call *c = state;
  const Note *note = c->note ? c->note : note_of (c->h, c->ticket, error);

  if (!note)
    return false;
  g_autofree GmTensor **begun = g_new0 (GmTensor *, note->n_in + 1);
  for (uint32_t i = 0; i < note->n_in; i++)
    if (c->h ? i < 64 && c->h->many >> i & 1 : c->in[i] != NULL) /* eager adds term by term */
      begun[i] = gm_autograd_take_arrived (node, i);
  bool good = create_graph ? walk_again (c, note, grads, begun, result, error)
                           : walk_note (note, grads, begun, false, result, error);
  unref_all (begun, note->n_in);
  return good;
}

static const GmAgFunction function = { .name = "HostCallBackward",
                                       .backward = call_backward,
                                       .release = call_free };

/* Attaches a node that owns the call c to the tape, with sequence number `seq` (0: the next), and
 * gives its n_out results `out` that history. */
static void
attach_call (Call *c, GmTensor **out, uint32_t n_out, uint64_t seq)
{
  GmAgNode *node = gm_autograd_attach (&function, c, c->in, (int) c->n_in, out, (int) n_out);

  if (seq)
    gm_autograd_place (node, seq);
}

void
gm_host_call_tie (GmTensor *const *leaves, GmTensor *const *in, uint32_t n_in,
                  GmTensor *const *results, uint32_t n_results, GmTensor **out)
{
  Call *c = g_new (Call, 1);

  *c = (Call){ .note = g_new (Note, 1), .in = g_new (GmTensor *, n_in + 1), .n_in = n_in };
  *c->note = (Note){ .companion.destroy = note_free,
                     .n_in = n_in,
                     .n_out = n_results,
                     .leaves = g_new (GmTensor *, n_in + 1),
                     .results = g_new (GmTensor *, n_results + 1) };
  for (uint32_t i = 0; i < n_in; i++) {
    c->note->leaves[i] = gm_tensor_ref (leaves[i]);
    c->in[i] = gm_tensor_ref (in[i]);
  }
  for (uint32_t i = 0; i < n_results; i++) {
    c->note->results[i] = gm_tensor_ref (results[i]);
    out[i] = gm_tensor_new_alias (results[i]);
    out[i]->meta.requires_grad = 0;
  }
  attach_call (c, out, n_results, 0);
}

void
gm_host_call_attach (GmHigher *h, GmTensor *ticket, GmTensor *const *in, uint32_t n_in,
                     GmTensor **out, uint64_t seq)
{
  Call *c = g_new (Call, 1);

  *c = (Call){ gm_higher_ref (h), ticket ? gm_tensor_ref (ticket) : NULL, NULL,
               g_new0 (GmTensor *, n_in + 1), n_in };
  for (uint32_t i = 0; i < n_in; i++)
    c->in[i] = flows_to (h, i) ? gm_tensor_ref (in[i]) : NULL;
  attach_call (c, out, h->n_results - 1, seq);
}
