/* SPDX-License-Identifier: Apache-2.0
 * higher_run.c -- runs a call of graphs: the meaning of each operator.
 *
 * It does not know who runs the bodies: the interpreter does so node by node, an executable with
 * the code that a back end made of each.  Both go through gm_higher_run, so loops, slices, levels
 * and the choice of a branch are written once.
 */
#include "core/graph/higher_run.h"

#include <string.h>

#include "core/sym/sym.h"

/* -- Running ----------------------------------------------------------------------------------- */

void
gm_higher_drop (GmTensor **t, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    g_clear_pointer (&t[i], gm_tensor_unref);
}

GmTensor *
gm_higher_laid_out (GmTensor *t, const GmMeta *want, GError **error)
{
  size_t bytes = t->meta.ndim * sizeof *want->strides;
  if (memcmp (t->meta.strides, want->strides, bytes) == 0)
    return gm_tensor_ref (t);
  if (gm_meta_is_laid_out (&t->meta, want)) { /* strides of a dimension of one element are
                                               * arbitrary, and the code of a body may compare
                                               * them */
    GmMeta m = t->meta;
    memcpy (m.strides, want->strides, bytes);
    return gm_tensor_new_view (t, &m, t->offset);
  }
  GmTensor *to = gm_tensor_new (want, error);
  if (to && !gm_op_run_into (GM_OP_copy, &t, 1, NULL, to, error))
    g_clear_pointer (&to, gm_tensor_unref);
  return to;
}

static bool
is_one_of (const GmTensor *t, GmTensor *const *in, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (in[i]->storage == t->storage)
      return true;
  return false;
}

/* Replaces each output of a body that shares memory with an operand or another output, or is not
 * row-major, by a copy: a body may return an operand, a view, or one tensor twice.  False with
 * *c->error. */
static bool
own (GmHigherCall *c, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out)
{
  for (uint32_t i = 0; i < n_out; i++) {
    GmMeta m = out[i]->meta;
    gm_meta_set_contiguous (&m);
    m.requires_grad = 0;
    bool shared =
        is_one_of (out[i], in, n_in) || is_one_of (out[i], out, i) || out[i]->storage->readonly;
    if (!shared && gm_meta_is_laid_out (&out[i]->meta, &m))
      continue;
    GmTensor *to = gm_tensor_new (&m, c->error);
    bool good = to && gm_op_run_into (GM_OP_copy, &out[i], 1, NULL, to, c->error);
    gm_tensor_unref (out[i]);
    out[i] = to;
    if (!good)
      return false;
  }
  return true;
}

/* Runs body b with the caller's runner, or interprets it.  False with *c->error. */
static bool
run_as_asked (GmHigherCall *c, uint32_t b, const int64_t *symbols, GmTensor *const *in,
              GmTensor **out)
{
  return c->by ? c->by->run (c->by->data, c->h, b, symbols, in, out, c->error)
               : gm_graph_interpret_with (c->h->bodies[b], symbols, in, out, NULL, c->error);
}

static bool
meta_now (const GmHigherCall *c, const GmGraph *g, const GmMeta *m, const int64_t *symbols,
          GmMeta *out)
{
  *out = *m;
  return !symbols || gm_graph_meta_now (g, m, symbols, out, c->error);
}

/* Returns the values of the symbols for a body: those of the surrounding graph, except that the
 * body's inputs determine how many slices a block has, and all symbols where the caller gave none.
 * *made: memory that the caller frees, or NULL. */
static const int64_t *
symbols_of (const GmHigherCall *c, const GmGraph *g, GmTensor *const *in, int64_t **made)
{
  bool blocks = c->h->op == GM_OP_associative_scan || c->h->op == GM_OP_associative_scan_grad;
  uint32_t n = g->sym ? gm_sym_n_symbols (g->sym) : 0;

  if (n == 0 || (c->symbols && !blocks))
    return n ? c->symbols : NULL;
  *made = g_new0 (int64_t, n);
  if (c->symbols)
    memcpy (*made, c->symbols, n * sizeof **made);
  gm_graph_bind_symbols (g, in, *made);
  return *made;
}

bool
gm_higher_run_body (GmHigherCall *c, uint32_t b, GmTensor *const *in, GmTensor **out)
{
  const GmGraph *g = c->h->bodies[b];
  uint32_t n = g->inputs->len, n_out = g->outputs->len;
  g_autofree GmTensor **fit = g_new0 (GmTensor *, n + 1);
  g_autofree int64_t *made = NULL;
  const int64_t *symbols = symbols_of (c, g, in, &made);
  bool good = true;

  memset (out, 0, n_out * sizeof *out);
  for (uint32_t i = 0; good && i < n; i++) {
    const GmMeta *want = gm_body_input (g, i);
    GmMeta now;
    if (symbols && gm_meta_is_symbolic (want)) {
      good = gm_graph_meta_now (g, want, symbols, &now, c->error);
      want = &now;
    }
    good = good && (fit[i] = gm_higher_laid_out (in[i], want, c->error)) != NULL;
  }
  good = good && run_as_asked (c, b, symbols, fit, out) && own (c, fit, n, out, n_out);
  gm_higher_drop (fit, n);
  if (!good)
    gm_higher_drop (out, n_out);
  return good;
}

bool
gm_higher_is_true (const GmTensor *t)
{
  static const int64_t origin[GM_MAX_DIMS];
  GmScalar s = gm_tensor_get (t, origin);

  return s.kind == GM_CATEGORY_FLOAT ? s.d != 0 : s.i != 0;
}

/* Runs the loop's test on the carried values `now`.  1: go on, 0: stop, -1: error.  A test that
 * draws random numbers replaces the last carried value, the generator's state. */
static int
test (GmHigherCall *c, GmTensor **now)
{
  GmTensor *t[2] = { NULL, NULL }, **last = &now[c->h->n_carried - 1];

  if (!gm_higher_run_body (c, 0, now, t))
    return -1;
  int yes = gm_higher_is_true (t[0]);
  gm_tensor_unref (t[0]);
  if (t[1]) {
    gm_tensor_unref (*last);
    *last = t[1];
  }
  return yes;
}

/* Runs the loop from the carried values in `now`, which it replaces by those at the end; seen:
 * NULL, or gets the carried values at the start of each step.  False with *c->error. */
static bool
loop (GmHigherCall *c, GmTensor **now, GPtrArray *seen)
{
  uint32_t n = c->h->n_carried;
  g_autofree GmTensor **next = g_new0 (GmTensor *, n + 1);
  int more;

  while ((more = test (c, now)) == 1) {
    if (!gm_higher_run_body (c, 1, now, next))
      return false;
    for (uint32_t i = 0; i < n; i++) {
      if (seen)
        g_ptr_array_add (seen, now[i]);
      else
        gm_tensor_unref (now[i]);
      now[i] = next[i];
    }
  }
  return more == 0;
}

static bool
run_while (GmHigherCall *c, GmTensor *const *in, uint32_t n_in, GmTensor **out)
{
  uint32_t n = c->h->n_carried;
  g_autofree GmTensor **now = g_new0 (GmTensor *, n_in + 1);

  for (uint32_t i = 0; i < n_in; i++)
    now[i] = gm_tensor_ref (in[i]);
  bool good = loop (c, now, NULL);
  memcpy (out, now, n * sizeof *out);
  memset (now, 0, n * sizeof *now);
  gm_higher_drop (now, n_in);
  if (good)
    good = own (c, in, n_in, out, n);
  if (!good)
    gm_higher_drop (out, n);
  return good;
}

bool
gm_higher_accumulate (GmTensor **a, GmTensor *b, GError **error)
{
  GmTensor *in[2] = { *a, b };
  GmTensor *sum = *a ? gm_op_run (GM_OP_add, in, 2, NULL, error) : gm_tensor_ref (b);

  gm_tensor_unref (*a);
  *a = sum;
  return sum != NULL;
}

/* Runs the loop once more to get the carried values at each step, then bodies[2], the gradient of a
 * step, from the last step to the first.  `in`: carried values, args, gradients of the results.
 * out: new references to the gradients of the carried values, then those of args, which are summed
 * over the steps.  False with *c->error. */
static bool
run_while_grad (GmHigherCall *c, GmTensor *const *in, uint32_t n_in, GmTensor **out)
{
  uint32_t n = c->h->n_carried, n_args = n_in - 2 * n, n_out = c->h->bodies[2]->outputs->len;
  g_autoptr (GPtrArray) seen = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_tensor_unref);
  g_autofree GmTensor **now = g_new0 (GmTensor *, n_in + 1),
                      **step = g_new0 (GmTensor *, n_out + 1);

  for (uint32_t i = 0; i < n_in; i++)
    now[i] = gm_tensor_ref (in[i]);
  bool good = loop (c, now, seen);
  memset (out, 0, n_out * sizeof *out);
  for (uint32_t i = 0; i < n; i++)
    out[i] = gm_tensor_ref (in[n + n_args + i]);
  for (uint32_t k = seen->len / MAX (n, 1); good && k-- > 0;) {
    g_autofree GmTensor **all = g_new0 (GmTensor *, n_in + 1);
    for (uint32_t i = 0; i < n; i++) {
      all[i] = seen->pdata[k * n + i];
      all[n + n_args + i] = out[i];
    }
    for (uint32_t i = n; i < n + n_args; i++)
      all[i] = in[i];
    if (!(good = gm_higher_run_body (c, 2, all, step)))
      break;
    for (uint32_t i = 0; i < n_out; i++) {
      if (i < n) {
        gm_tensor_unref (out[i]);
        out[i] = step[i];
      } else {
        good = good && gm_higher_accumulate (&out[i], step[i], c->error);
        gm_tensor_unref (step[i]);
      }
    }
  }
  for (uint32_t i = n; good && i < n_out; i++)
    if (!out[i]) { /* the loop made no step */
      GmMeta m;
      good = meta_now (c, c->h->bodies[2], gm_body_output (c->h->bodies[2], i), c->symbols, &m);
      m.requires_grad = 0;
      gm_meta_set_contiguous (&m);
      good = good && (out[i] = gm_tensor_new_zeros (&m, c->error)) != NULL;
    }
  gm_higher_drop (now, n_in);
  good = good && own (c, in, n_in, out, n_out);
  if (!good)
    gm_higher_drop (out, n_out);
  return good;
}

/* Returns a new view of slice k of t along dimension 0. */
static GmTensor *
slice_of (GmTensor *t, int64_t k)
{
  GmMeta m = t->meta;

  m.ndim--;
  memmove (m.sizes, m.sizes + 1, (size_t) m.ndim * sizeof *m.sizes);
  memmove (m.strides, m.strides + 1, (size_t) m.ndim * sizeof *m.strides);
  m.sizes[m.ndim] = m.strides[m.ndim] = 0;
  return gm_tensor_new_view (t, &m, t->offset + k * t->meta.strides[0]);
}

static bool
scan_step (GmHigherCall *c, GmTensor **now, GmTensor *const *mapped, int64_t k, GmTensor **step,
           GmTensor *const *stacks)
{
  const GmHigher *h = c->h;
  uint32_t n_out = h->bodies[0]->outputs->len;
  bool good;

  for (uint32_t i = 0; i < h->n_mapped; i++)
    now[h->n_carried + i] = slice_of (mapped[i], k);
  good = gm_higher_run_body (c, 0, now, step);
  gm_higher_drop (now + h->n_carried, h->n_mapped);
  for (uint32_t i = 0; good && i < n_out; i++)
    if (i < h->n_carried) {
      gm_tensor_unref (now[i]);
      now[i] = step[i];
    } else {
      g_autoptr (GmTensor) place = slice_of (stacks[i - h->n_carried], k);
      good = gm_op_run_into (GM_OP_copy, &step[i], 1, NULL, place, c->error);
      gm_tensor_unref (step[i]);
    }
  return good;
}

static bool
run_scan (GmHigherCall *c, GmTensor *const *in, uint32_t n_in, GmTensor **out)
{
  const GmHigher *h = c->h;
  uint32_t n_out = h->bodies[0]->outputs->len, n = h->n_carried;
  int64_t length = in[n]->meta.sizes[0];
  g_autofree GmTensor **now = g_new0 (GmTensor *, n_in + 1),
                      **step = g_new0 (GmTensor *, n_out + 1);
  bool good = true;

  memset (out, 0, n_out * sizeof *out);
  for (uint32_t i = 0; i < n_in; i++)
    if (i < n || i >= n + h->n_mapped)
      now[i] = gm_tensor_ref (in[i]);
  for (uint32_t i = n; good && i < n_out; i++) {
    GmMeta m;
    good = meta_now (c, h->bodies[0], gm_body_output (h->bodies[0], i), c->symbols, &m);
    m.requires_grad = 0;
    m = gm_higher_stacked (m, length);
    good = good && (out[i] = gm_tensor_new (&m, c->error)) != NULL;
  }
  for (int64_t k = 0; good && k < length; k++)
    good = scan_step (c, now, in + n, h->reverse ? length - 1 - k : k, step, out + n);
  for (uint32_t i = 0; good && i < n; i++)
    out[i] = g_steal_pointer (&now[i]);
  gm_higher_drop (now, n_in);
  good = good && own (c, in, n_in, out, n);
  if (!good)
    gm_higher_drop (out, n_out);
  return good;
}

bool
gm_higher_run (const GmHigher *h, const int64_t *symbols, GmTensor *const *in, uint32_t n_in,
               GmTensor **out, const GmHigherRunner *by, GError **error)
{
  GmHigherCall c = { h, symbols, by, error };

  switch (h->op) {
  case GM_OP_cond:
    return gm_higher_run_body (&c, gm_higher_is_true (in[0]) ? 0 : 1, in + 1, out);
  case GM_OP_while_loop:
    return run_while (&c, in, n_in, out);
  case GM_OP_while_loop_grad:
    return run_while_grad (&c, in, n_in, out);
  case GM_OP_scan:
    return run_scan (&c, in, n_in, out);
  case GM_OP_associative_scan:
    return gm_prefixes_run (&c, in, n_in, out);
  case GM_OP_associative_scan_grad:
    return gm_prefixes_run_grad (&c, in, n_in, out);
  case GM_OP_host_call:
    return gm_higher_run_host (h, in, n_in, out, error);
  case GM_OP_gradient_hook: { /* only a backward has to run it */
    const GmMeta m = gm_higher_hook_meta ();
    return (out[0] = gm_tensor_new (&m, error)) != NULL;
  }
  default:
    return gm_higher_run_body (&c, 0, in, out);
  }
}
