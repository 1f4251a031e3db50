/* SPDX-License-Identifier: Apache-2.0
 * allow_in_graph.c -- functions that become one node (allow_in_graph): the recorder never records
 * through them.
 *
 * The function is called once while recording, on tensors of the same shapes, dtypes and layouts as
 * its arguments, to learn the metas of its results; the results of each call of the compiled
 * function are compared with these (core/graph/host_node.c).  Sizes of its arguments are numbers
 * from then on, because the metas of the results are known only for these.  A function that returns
 * a view is recorded like any function: a node makes memory of its own.  Any other call that cannot
 * be a node is a break with a reason; then the function runs as Python between two graphs, with the
 * same result.
 */
#include "core/models/models.h"

enum { MOST = 62 }; /* the most arguments, and results: a bit each */

typedef struct {
  GmRecorder *r;
  const char *name;
  const GmTracker *f;
  uint32_t n, n_tensors;
  const GmTracker **tensors;
  PyObject **values; /* NULL: a tensor ... */
  uint8_t *which;    /* ... with this operand number: a tensor given twice is a single operand */
  PyObject *names;
} Call;

static const GmTracker *
refuse (const Call *c, const char *why)
{
  return gm_record_break (c->r, GM_BREAK_KEPT_WHOLE, c->name, why);
}

static bool
read_arguments (Call *c, const GmCallArgs *args)
{
  GmRecorder *r = c->r;
  for (uint32_t i = 0; i < c->n; i++) {
    const GmTracker *t = gm_realize (r, args->args[i]);
    if (r->stop)
      return false;
    if (t->kind == &gm_kind_tensor) {
      uint32_t k = 0;
      while (k < c->n_tensors && c->tensors[k] != t)
        k++;
      if (k == c->n_tensors)
        c->tensors[c->n_tensors++] = t;
      c->which[i] = (uint8_t) MIN (k, 255);
      c->values[i] = NULL;
      continue;
    }
    c->values[i] = gm_constant (r, t);
    if (r->stop)
      return false;
    if (!c->values[i])
      return refuse (c, "an argument is neither a tensor nor a constant"), false;
  }
  if (c->n_tensors == 0 || c->n_tensors > MOST)
    return refuse (c, c->n_tensors ? "it has too many arguments" : "no argument is a tensor"),
           false;
  return true;
}

/* Returns the meta of the tensor t with its sizes fixed to the numbers of this call, which is
 * guarded. */
static GmMeta
meta_of (GmRecorder *r, const GmTracker *t)
{
  GmMeta m = *gm_graph_meta (r->graph, (GmValueId) gm_contents_of (r, t)->number);
  for (int d = 0; d < m.ndim; d++) {
    m.sizes[d] = gm_size_number (m.sizes[d]);
    m.strides[d] = gm_size_number (m.strides[d]);
  }
  return m;
}

static const GmTracker *
add_nodes (Call *c, GmHostFunction *f, const GmHostTrial *trial)
{
  GmRecorder *r = c->r;
  bool ticket = false;
  g_autofree GmMeta *metas = g_new (GmMeta, trial->n + 1);
  for (uint32_t i = 0; i < trial->n; i++) {
    metas[i] = trial->metas[i];
    ticket |= metas[i].requires_grad;
  }
  metas[trial->n] = gm_meta_make (GM_I64, 1, (const int64_t[]){ 1 });
  GmHigher *h = gm_higher_new_host_call (f, metas, trial->n + ticket);
  h->ticket = ticket;
  h->flows = ticket ? trial->flows : 0;
  h->many = ticket ? trial->many : 0;
  uint32_t row = gm_graph_add_higher (r->graph, h);
  g_autofree GmVal *in = g_new (GmVal, c->n_tensors + 1);
  for (uint32_t i = 0; i < c->n_tensors; i++)
    in[i] = gm_val_from_id ((GmValueId) gm_contents_of (r, c->tensors[i])->number);
  const GmTracker **results = gm_tracker_array (r, trial->n + 1);
  r->builder.where = gm_record_where (r);
  for (uint32_t i = 0; i < trial->n + ticket; i++) {
    GmAttrs at = { .mask = 1u << GM_ATTR_DIM | 1u << GM_ATTR_OFFSET, .dim = i, .offset = row };
    GmVal v = gm_b_op (&r->builder.base, GM_OP_host_call, in, (int) c->n_tensors, &at);
    if (!v) {
      g_autoptr (GError) why = g_steal_pointer (&r->builder.base.error);
      return refuse (c, why->message);
    }
    if (i < trial->n)
      results[i] = gm_tensor_new_tracker (r, gm_id_from_val (v));
  }
  return trial->container == 't'   ? gm_tuple_new (r, results, trial->n)
         : trial->container == 'l' ? gm_list_new (r, results, trial->n)
                                   : results[0];
}

static const GmTracker *
call (Call *c)
{
  GmRecorder *r = c->r;
  bool grad = gm_grad_mode_get (r);
  g_autofree GmMeta *metas = g_new (GmMeta, c->n_tensors + 1);
  g_autofree char *why = NULL;
  GmHostTrial trial = { 0 };
  for (uint32_t i = 0; i < c->n_tensors; i++)
    metas[i] = meta_of (r, c->tensors[i]);
  if (r->stop)
    return &gm_tracker_poison;
  g_autoptr (GmHostFunction) f =
      gm_host.host_function (c->f->real, c->values, c->which, c->n, c->names);
  if (!f)
    return gm_record_break_exception (r);
  if (!gm_host.host_try (f, metas, c->n_tensors, grad, &trial, &why))
    return trial.shares ? NULL : refuse (c, why);
  gm_guard (r, IS, c->f->source, .obj = c->f->real);
  const GmTracker *v =
      trial.n > MOST ? refuse (c, "it gives too many tensors") : add_nodes (c, f, &trial);
  g_free (trial.metas);
  return v;
}

const GmTracker *
gm_host_call_record (GmRecorder *r, const GmTracker *f, const GmCallArgs *args)
{
  Call c = { .r = r, .f = f, .n = args->n + gm_args_n_named (args), .names = args->names };
  PyFunctionObject *function = (PyFunctionObject *) f->real;
  g_autofree const GmTracker **tensors = gm_tracker_array_own (c.n + 1);
  g_autofree PyObject **values = g_new0 (PyObject *, c.n + 1);
  g_autofree uint8_t *which = g_new0 (uint8_t, c.n + 1);
  c.which = which;
  c.name = PyUnicode_AsUTF8 (function->func_qualname);
  c.tensors = tensors;
  c.values = values;
  if (!f->source)
    return refuse (&c, "it was made in the function that is recorded");
  if (r->n_bodies > r->n_graphs) /* a checkpoint would call the function again, and its history is
                                    kept for one backward */
    return refuse (&c, "it is called in a checkpoint, or in an autograd.Function");
  if (gm_autocast_mode_get (r))
    return refuse (&c, "autocast is on");
  return read_arguments (&c, args) ? call (&c) : &gm_tracker_poison;
}
