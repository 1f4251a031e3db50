/* SPDX-License-Identifier: Apache-2.0
 * host_node.c -- functions that a graph names and cannot look into.
 *
 * A host call is a node like any other for code that moves values; it is never passed to a back
 * end, and rewrites neither move it past another call, nor merge, drop or repeat it
 * (gm_op_has_effects).  The metas of its results were stated when it was recorded.  All nodes that
 * read them depend on these metas, so the results of each call are compared with them, and a
 * difference is an error that names the function.  Results are new memory, laid out as stated; a
 * result that is an operand, or a part of an operand, is refused, because the program would see
 * that they share memory.
 */
#include "core/graph/higher.h"

GmHostFunction *
gm_host_function_new (const char *name,
                      bool (*call) (void *data, GmTensor *const *in, uint32_t n_in, GmTensor **out,
                                    uint32_t n_out, GError **error),
                      void *data, void (*destroy) (void *data))
{
  GmHostFunction *f = g_new (GmHostFunction, 1);

  *f = (GmHostFunction){ .name = g_strdup (name), .call = call, .destroy = destroy, .data = data };
  g_atomic_ref_count_init (&f->refs);
  return f;
}

GmHostFunction *
gm_host_function_ref (GmHostFunction *f)
{
  g_atomic_ref_count_inc (&f->refs);
  return f;
}

void
gm_host_function_unref (GmHostFunction *f)
{
  if (!f || !g_atomic_ref_count_dec (&f->refs))
    return;
  if (f->destroy)
    f->destroy (f->data);
  g_free (f->name);
  g_free (f);
}

GmHigher *
gm_higher_new_host_call (GmHostFunction *f, const GmMeta *results, uint32_t n_results)
{
  GmHigher *h = gm_higher_new (GM_OP_host_call);

  h->host = f ? gm_host_function_ref (f) : NULL;
  h->n_results = n_results;
  h->results = g_memdup2 (results, n_results * sizeof *results);
  return h;
}

static bool
is_part_of (const GmTensor *t, GmTensor *const *in, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (in[i]->storage == t->storage && t->storage->bytes > 0)
      return true;
  return false;
}

/* Compares *t, result i of a call, with the meta that was stated, and replaces it by a copy
 * where its layout differs or it shares memory with an earlier result.  False with *error. */
static bool
check_result (const GmHigher *h, uint32_t i, GmTensor *const *in, uint32_t n_in,
              GmTensor *const *out, GmTensor **t, GError **error)
{
  const GmMeta *want = &h->results[i];

  if ((*t)->meta.dtype != want->dtype || (*t)->meta.device != want->device
      || !gm_meta_same_shape (&(*t)->meta, want)) {
    GmMeta said = *want, is = (*t)->meta;
    said.requires_grad = is.requires_grad = 0;
    g_autofree char *a = gm_meta_text (&said), *b = gm_meta_text (&is);
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "%s: result %u is %s, but it was %s when the call was recorded; a function that "
                 "is a node of a graph gives tensors "
                 "of the same dtype and shape in each call",
                 h->host->name, i, b, a);
    return false;
  }
  if (is_part_of (*t, in, n_in)) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "%s: result %u lies in the memory of an argument; a function that is a node of a "
                 "graph gives new tensors",
                 h->host->name, i);
    return false;
  }
  if (gm_meta_is_laid_out (&(*t)->meta, want) && !is_part_of (*t, out, i))
    return true;
  GmTensor *to = gm_tensor_new (want, error);
  if (to && !gm_op_run_into (GM_OP_copy, t, 1, NULL, to, error))
    g_clear_pointer (&to, gm_tensor_unref);
  gm_tensor_unref (*t);
  return (*t = to) != NULL;
}

/* Returns zeros that stand for a host call's last result, the ticket, when no gradient was
 * recorded. */
static GmTensor *
no_ticket (const GmMeta *m, GError **error)
{
  return gm_tensor_new_zeros (m, error);
}

bool
gm_higher_run_host (const GmHigher *h, GmTensor *const *in, uint32_t n_in, GmTensor **out,
                    GError **error)
{
  uint32_t n = h->n_results - h->ticket;

  for (uint32_t i = 0; i < h->n_results; i++)
    out[i] = NULL;
  if (!h->host || !h->host->call) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "the host's function %s is not there: the graph was read from a text",
                 h->host ? h->host->name : "of this node");
    return false;
  }
  bool good = h->run ? h->run (h, in, n_in, out, error)
                     : h->host->call (h->host->data, in, n_in, out, n, error);
  if (good && h->ticket && !h->run)
    good = (out[n] = no_ticket (&h->results[n], error)) != NULL;
  for (uint32_t i = 0; good && i < n; i++)
    good = check_result (h, i, in, n_in, out, &out[i], error);
  for (uint32_t i = 0; !good && i < h->n_results; i++)
    g_clear_pointer (&out[i], gm_tensor_unref);
  return good;
}
