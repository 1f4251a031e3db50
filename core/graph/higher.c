/* SPDX-License-Identifier: Apache-2.0
 * higher.c -- calls of graphs: the table's rows, and the metas of their results.
 */
#include "core/graph/higher.h"

#include <string.h>

/* -- Rows -------------------------------------------------------------------------------------- */

GmHigher *
gm_higher_new (GmOp op)
{
  GmHigher *h = g_new0 (GmHigher, 1);
  g_assert (gm_op_is_higher (op));
  h->op = op;
  h->n_bodies = (uint8_t) gm_higher_n_bodies (op);
  g_atomic_ref_count_init (&h->refs);
  return h;
}

GmHigher *
gm_higher_new_like (const GmHigher *from)
{
  GmHigher *h = gm_higher_new (from->op);

  h->n_carried = from->n_carried;
  h->n_mapped = from->n_mapped;
  h->reverse = from->reverse;
  h->host = from->host ? gm_host_function_ref (from->host) : NULL;
  h->n_results = from->n_results;
  h->results = g_memdup2 (from->results, from->n_results * sizeof *from->results);
  h->ticket = from->ticket;
  h->flows = from->flows;
  h->many = from->many;
  h->given = from->given;
  h->begun = from->begun;
  h->run = from->run;
  return h;
}

GmHigher *
gm_higher_ref (GmHigher *h)
{
  g_atomic_ref_count_inc (&h->refs);
  return h;
}

void
gm_higher_unref (GmHigher *h)
{
  if (!h || !g_atomic_ref_count_dec (&h->refs))
    return;
  for (uint32_t i = 0; i < h->n_bodies; i++)
    gm_graph_free (h->bodies[i]);
  gm_host_function_unref (h->host);
  g_free (h->results);
  g_free (h);
}

uint32_t
gm_higher_n_bodies (GmOp op)
{
  switch (op) {
  case GM_OP_cond:
  case GM_OP_associative_scan_grad:
  case GM_OP_while_loop:
    return 2;
  case GM_OP_while_loop_grad:
    return 3;
  case GM_OP_host_call:
  case GM_OP_gradient_hook:
    return 0;
  default:
    return 1;
  }
}

uint32_t
gm_graph_add_higher (GmGraph *g, GmHigher *h)
{
  if (!g->highers)
    g->highers = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_higher_unref);
  g_ptr_array_add (g->highers, h);
  return g->highers->len - 1;
}

const GmHigher *
gm_graph_higher (const GmGraph *g, const GmNode *n)
{
  int64_t row = n->attrs ? n->attrs->offset : -1;

  return g->highers && row >= 0 && row < g->highers->len ? g->highers->pdata[row] : NULL;
}

void
gm_graph_share_highers (GmGraph *to, const GmGraph *from)
{
  g_clear_pointer (&to->highers, g_ptr_array_unref);
  to->highers = from->highers ? g_ptr_array_ref (from->highers) : NULL;
}

void
gm_graph_own_highers (GmGraph *g)
{
  GPtrArray *own = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_higher_unref);

  for (uint32_t i = 0; g->highers && i < g->highers->len; i++)
    g_ptr_array_add (own, gm_higher_ref (g->highers->pdata[i]));
  if (g->highers)
    g_ptr_array_unref (g->highers);
  g->highers = own;
}

void
gm_graph_compact_highers (GmGraph *g)
{
  GPtrArray *old = g->highers;
  uint32_t n = old ? old->len : 0;
  g_autofree uint32_t *row_of = g_new (uint32_t, n + 1);

  if (n == 0)
    return;
  memset (row_of, 0xff, n * sizeof *row_of);
  g->highers = NULL;
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    GmNode *node = gm_graph_node (g, i);
    if (!gm_op_is_higher (node->op))
      continue;
    int64_t row = node->attrs->offset;
    if (row_of[row] == UINT32_MAX)
      row_of[row] = gm_graph_add_higher (g, gm_higher_ref (old->pdata[row]));
    if (row_of[row] == row)
      continue;
    GmAttrs *a = gm_arena_copy (g->arena, node->attrs, sizeof *a);
    a->offset = row_of[row];
    node->attrs = a;
  }
  g_ptr_array_unref (old);
}

void
gm_graph_set_higher (GmGraph *g, uint32_t row, GmHigher *h)
{
  gm_higher_unref (g->highers->pdata[row]);
  g->highers->pdata[row] = h;
}

/* -- Metas of the results ---------------------------------------------------------------------- */

/* Returns the body whose outputs become the results of the call, borrowed. */
static const GmGraph *
giver (const GmHigher *h)
{
  return h->op == GM_OP_while_loop || h->op == GM_OP_associative_scan_grad ? h->bodies[1]
         : h->op == GM_OP_while_loop_grad                                  ? h->bodies[2]
                                                                           : h->bodies[0];
}

static bool
is_host (const GmHigher *h)
{
  return h->op == GM_OP_host_call || h->op == GM_OP_gradient_hook;
}

/* Returns the number of outputs of that body beyond the results of the call: the body of a
 * scan's gradient gives gradients of the first and of the second blocks, the call only one gradient
 * for each mapped operand. */
static uint32_t
n_inner_outputs (const GmHigher *h)
{
  return h->op == GM_OP_associative_scan_grad ? h->n_mapped : 0;
}

static bool
is_prefixes (const GmHigher *h)
{
  return h->op == GM_OP_associative_scan || h->op == GM_OP_associative_scan_grad;
}

uint32_t
gm_higher_n_results (const GmHigher *h)
{
  if (is_host (h))
    return h->op == GM_OP_host_call ? h->n_results : 1;
  return giver (h)->outputs->len - n_inner_outputs (h);
}

bool
gm_higher_requires_grad (const GmHigher *h, uint32_t dim)
{
  if (is_host (h))
    return h->op == GM_OP_host_call && h->results[dim].requires_grad;
  return gm_body_output (giver (h), n_inner_outputs (h) + dim)->requires_grad;
}

GmMeta
gm_higher_meta (const GmHigher *h, uint32_t dim, const GmMeta *const *in)
{
  if (is_host (h))
    return h->op == GM_OP_host_call ? h->results[dim] : gm_higher_hook_meta ();
  GmMeta m = *gm_body_output (giver (h), n_inner_outputs (h) + dim);

  if (is_prefixes (h) && dim < h->n_mapped)
    m.sizes[0] = in[dim]->sizes[0];
  if (h->op == GM_OP_scan && dim >= h->n_carried && m.ndim < GM_MAX_DIMS)
    return gm_higher_stacked (m, in[h->n_carried]->sizes[0]);
  gm_meta_set_contiguous (&m);
  return m;
}

static bool refuse (const GmHigher *h, GError **error, const char *format, ...)
    G_GNUC_PRINTF (3, 4);
static bool
refuse (const GmHigher *h, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *what = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "%s: %s", gm_ops[h->op].name, what);
  return false;
}

/* True if the operand has the wanted dtype, device and sizes; its layout can be changed to fit. */
static bool
fits (const GmMeta *want, const GmMeta *have)
{
  return want->dtype == have->dtype && want->device == have->device
         && gm_meta_same_shape (want, have);
}

static bool
check_operand (const GmHigher *h, uint32_t i, const GmMeta *want, const GmMeta *have,
               GError **error)
{
  if (fits (want, have))
    return true;
  g_autofree char *a = gm_meta_text (want), *b = gm_meta_text (have);
  return refuse (h, error, "operand %u should be %s, but is %s", i, a, b);
}

static bool
check_bodies (const GmHigher *h, GError **error)
{
  for (uint32_t i = 0; i < h->n_bodies; i++)
    if (!h->bodies[i])
      return refuse (h, error, "body %u is missing", i);
  bool loop = h->op == GM_OP_while_loop || h->op == GM_OP_while_loop_grad;
  uint32_t n_said = loop ? h->bodies[0]->outputs->len : 0;
  if (loop
      && (n_said < 1 || n_said > 2 || gm_body_output (h->bodies[0], 0)->dtype != GM_BOOL
          || gm_meta_numel (gm_body_output (h->bodies[0], 0)) != 1))
    return refuse (h, error, "its test should give one bool");
  if (n_said == 2
      && (!h->n_carried
          || !fits (gm_body_input (h->bodies[0], h->n_carried - 1),
                    gm_body_output (h->bodies[0], 1))))
    return refuse (h, error, "what its test gives beside a bool should be the last carried value");
  if (loop && h->bodies[1]->outputs->len != h->n_carried)
    return refuse (h, error, "its body gives %u values, but %u are carried",
                   h->bodies[1]->outputs->len, h->n_carried);
  if (h->op == GM_OP_scan && (h->n_mapped == 0 || h->bodies[0]->outputs->len < h->n_carried))
    return refuse (h, error, "it maps over %u operands and its body gives %u values of %u carried",
                   h->n_mapped, h->bodies[0]->outputs->len, h->n_carried);
  if (is_prefixes (h)
      && (h->n_mapped == 0 || h->bodies[0]->inputs->len < 2 * h->n_mapped
          || h->bodies[0]->outputs->len != h->n_mapped))
    return refuse (h, error,
                   "it combines blocks of %u operands, and its body takes %u values and gives %u",
                   h->n_mapped, h->bodies[0]->inputs->len, h->bodies[0]->outputs->len);
  if (h->op == GM_OP_associative_scan_grad && h->bodies[1]->outputs->len < 2 * h->n_mapped)
    return refuse (h, error, "its step gives %u gradients of %u blocks", h->bodies[1]->outputs->len,
                   2 * h->n_mapped);
  for (uint32_t i = 0; i < h->n_carried; i++) {
    const GmGraph *body = loop ? h->bodies[1] : h->bodies[0];
    if (!fits (gm_body_input (body, i), gm_body_output (body, i)))
      return refuse (h, error, "carried value %u leaves the body as another type than it enters",
                     i);
  }
  if (h->op != GM_OP_cond)
    return true;
  if (h->bodies[0]->outputs->len != h->bodies[1]->outputs->len)
    return refuse (h, error, "its branches give %u and %u values", h->bodies[0]->outputs->len,
                   h->bodies[1]->outputs->len);
  for (uint32_t i = 0; i < h->bodies[0]->outputs->len; i++)
    if (!fits (gm_body_output (h->bodies[0], i), gm_body_output (h->bodies[1], i)))
      return refuse (h, error, "result %u differs between its branches", i);
  return true;
}

/* Returns the meta that body b expects of operand i of the call; NULL if that body does not get
 * the operand. */
static const GmMeta *
expected (const GmHigher *h, uint32_t b, uint32_t i)
{
  uint32_t skip = h->op == GM_OP_cond, n = h->bodies[b]->inputs->len;

  return i < skip || i - skip >= n ? NULL : gm_body_input (h->bodies[b], i - skip);
}

/* Checks the operands of an associative_scan or of its gradient against each body: mapped
 * operand i becomes inputs i and n_mapped + i of the bodies; args and gradients come after both.
 * False with *error. */
static bool
check_prefixes (const GmHigher *h, const GmMeta *const *in, uint32_t n_in, GError **error)
{
  for (uint32_t b = 0; b < h->n_bodies; b++) {
    const GmGraph *body = h->bodies[b];
    uint32_t m = h->n_mapped, n = body->inputs->len - m;
    if (b + 1u == h->n_bodies ? n != n_in : n > n_in)
      return refuse (h, error, "%u operands, but %s takes %u", n_in, body->name, n);
    for (uint32_t i = 0; i < n; i++) {
      GmMeta have = *in[i];
      const GmMeta *want = gm_body_input (body, i < m ? i : i + m);
      bool block = i < m || i >= n_in - (h->op == GM_OP_associative_scan_grad ? m : 0);
      if (block && (have.ndim == 0 || !gm_size_eq (have.sizes[0], in[0]->sizes[0])))
        return refuse (h, error, "operand %u is mapped and has not the length of the others", i);
      if (block && want->ndim > 0)
        have.sizes[0] = want->sizes[0];
      if (!check_operand (h, i, want, &have, error)
          || (i < m && !check_operand (h, i, gm_body_input (body, m + i), &have, error)))
        return false;
    }
  }
  return true;
}

bool
gm_higher_check (const GmHigher *h, const GmMeta *const *in, uint32_t n_in, GError **error)
{
  uint32_t skip = h->op == GM_OP_cond;

  if (is_host (h))
    return h->op == GM_OP_host_call || n_in == 1
           || refuse (h, error, "%u operands, but it takes 1", n_in);
  if (!check_bodies (h, error))
    return false;
  if (is_prefixes (h))
    return check_prefixes (h, in, n_in, error);
  for (uint32_t b = 0; b < h->n_bodies; b++)
    if (h->bodies[b]->inputs->len + skip != n_in && !(h->op == GM_OP_while_loop_grad && b < 2))
      return refuse (h, error, "%u operands, but %s takes %u", n_in, h->bodies[b]->name,
                     h->bodies[b]->inputs->len + skip);
  if (skip && gm_meta_numel (in[0]) != 1)
    return refuse (h, error, "its predicate has %" G_GINT64_FORMAT " elements",
                   gm_meta_numel (in[0]));
  for (uint32_t i = 0; i < n_in; i++)
    for (uint32_t b = 0; b < h->n_bodies; b++) {
      const GmMeta *want = expected (h, b, i);
      GmMeta have = *in[i];
      if (!want)
        continue;
      if (h->op == GM_OP_scan && i >= h->n_carried && i < h->n_carried + h->n_mapped) {
        if (have.ndim == 0 || !gm_size_eq (have.sizes[0], in[h->n_carried]->sizes[0]))
          return refuse (h, error, "operand %u is mapped and has not the length of the others", i);
        memmove (have.sizes, have.sizes + 1, (size_t) --have.ndim * sizeof *have.sizes);
        have.sizes[have.ndim] = 0;
      }
      if (!check_operand (h, i, want, &have, error))
        return false;
    }
  return true;
}
