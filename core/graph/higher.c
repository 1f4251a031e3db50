/* SPDX-License-Identifier: Apache-2.0
 * higher.c -- calls of graphs: the table's rows, what their results are, what running one means.
 *
 * Who runs the bodies is not known here: the interpreter does it node by node, an executable with
 * what a back end made of each.  Both go through gm_higher_run, so loops, slices and the choice of a
 * branch are written once.
 */
#include "core/graph/higher.h"

#include <string.h>

#include "core/sym/sym.h"

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
  case GM_OP_while_loop: return 2;
  case GM_OP_while_loop_grad: return 3;
  case GM_OP_host_call:
  case GM_OP_gradient_hook: return 0;
  default: return 1;
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

/* -- What the results are ---------------------------------------------------------------------- */

/* The body whose outputs become results. */
static const GmGraph *
giver (const GmHigher *h)
{
  return h->op == GM_OP_while_loop ? h->bodies[1]
         : h->op == GM_OP_while_loop_grad ? h->bodies[2]
                                          : h->bodies[0];
}

static const GmMeta *
output_meta (const GmGraph *g, uint32_t i)
{
  return gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value);
}

static const GmMeta *
input_meta (const GmGraph *g, uint32_t i)
{
  return gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i));
}

static bool
is_host (const GmHigher *h)
{
  return h->op == GM_OP_host_call || h->op == GM_OP_gradient_hook;
}

/* What a hook gives: nothing. */
static GmMeta
hook_meta (void)
{
  return gm_meta_make (GM_BOOL, 1, (const int64_t[]){ 0 });
}

uint32_t
gm_higher_n_results (const GmHigher *h)
{
  if (is_host (h))
    return h->op == GM_OP_host_call ? h->n_results : 1;
  return giver (h)->outputs->len;
}

bool
gm_higher_requires_grad (const GmHigher *h, uint32_t dim)
{
  if (is_host (h))
    return h->op == GM_OP_host_call && h->results[dim].requires_grad;
  return output_meta (giver (h), dim)->requires_grad;
}

/* Of what a step gives: so many of it. */
static GmMeta
stacked (GmMeta m, int64_t length)
{
  memmove (m.sizes + 1, m.sizes, (size_t) m.ndim * sizeof *m.sizes);
  m.sizes[0] = length;
  m.ndim++;
  gm_meta_set_contiguous (&m);
  return m;
}

GmMeta
gm_higher_meta (const GmHigher *h, uint32_t dim, const GmMeta *const *in)
{
  if (is_host (h))
    return h->op == GM_OP_host_call ? h->results[dim] : hook_meta ();
  GmMeta m = *output_meta (giver (h), dim);

  if (h->op == GM_OP_scan && dim >= h->n_carried && m.ndim < GM_MAX_DIMS)
    return stacked (m, in[h->n_carried]->sizes[0]);
  gm_meta_set_contiguous (&m);
  return m;
}

static bool
refuse (const GmHigher *h, GError **error, const char *format, ...) G_GNUC_PRINTF (3, 4);
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

/* Sizes and dtype; a layout is made to fit. */
static bool
fits (const GmMeta *want, const GmMeta *have)
{
  return want->dtype == have->dtype && want->device == have->device && gm_meta_same_shape (want, have);
}

static bool
check_operand (const GmHigher *h, uint32_t i, const GmMeta *want, const GmMeta *have, GError **error)
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
  if (loop && (h->bodies[0]->outputs->len != 1 || output_meta (h->bodies[0], 0)->dtype != GM_BOOL
               || gm_meta_numel (output_meta (h->bodies[0], 0)) != 1))
    return refuse (h, error, "its test should give one bool");
  if (loop && h->bodies[1]->outputs->len != h->n_carried)
    return refuse (h, error, "its body gives %u values, but %u are carried", h->bodies[1]->outputs->len, h->n_carried);
  if (h->op == GM_OP_scan && (h->n_mapped == 0 || h->bodies[0]->outputs->len < h->n_carried))
    return refuse (h, error, "it maps over %u operands and its body gives %u values of %u carried", h->n_mapped,
                   h->bodies[0]->outputs->len, h->n_carried);
  for (uint32_t i = 0; i < h->n_carried; i++) {
    const GmGraph *body = loop ? h->bodies[1] : h->bodies[0];
    if (!fits (input_meta (body, i), output_meta (body, i)))
      return refuse (h, error, "carried value %u leaves the body as another type than it enters", i);
  }
  if (h->op != GM_OP_cond)
    return true;
  if (h->bodies[0]->outputs->len != h->bodies[1]->outputs->len)
    return refuse (h, error, "its branches give %u and %u values", h->bodies[0]->outputs->len, h->bodies[1]->outputs->len);
  for (uint32_t i = 0; i < h->bodies[0]->outputs->len; i++)
    if (!fits (output_meta (h->bodies[0], i), output_meta (h->bodies[1], i)))
      return refuse (h, error, "result %u differs between its branches", i);
  return true;
}

/* What operand i is for body b, and NULL where it is not that body's. */
static const GmMeta *
expected (const GmHigher *h, uint32_t b, uint32_t i)
{
  uint32_t skip = h->op == GM_OP_cond, n = h->bodies[b]->inputs->len;

  return i < skip || i - skip >= n ? NULL : input_meta (h->bodies[b], i - skip);
}

bool
gm_higher_check (const GmHigher *h, const GmMeta *const *in, uint32_t n_in, GError **error)
{
  uint32_t skip = h->op == GM_OP_cond;

  if (is_host (h))
    return h->op == GM_OP_host_call || n_in == 1 || refuse (h, error, "%u operands, but it takes 1", n_in);
  if (!check_bodies (h, error))
    return false;
  for (uint32_t b = 0; b < h->n_bodies; b++)
    if (h->bodies[b]->inputs->len + skip != n_in && !(h->op == GM_OP_while_loop_grad && b < 2))
      return refuse (h, error, "%u operands, but %s takes %u", n_in, h->bodies[b]->name,
                     h->bodies[b]->inputs->len + skip);
  if (skip && gm_meta_numel (in[0]) != 1)
    return refuse (h, error, "its predicate has %" G_GINT64_FORMAT " elements", gm_meta_numel (in[0]));
  for (uint32_t i = 0; i < n_in; i++)
    for (uint32_t b = 0; b < h->n_bodies; b++) {
      const GmMeta *want = expected (h, b, i);
      GmMeta have = *in[i];
      if (!want)
        continue;
      if (h->op == GM_OP_scan && i >= h->n_carried && i < h->n_carried + h->n_mapped) {
        if (have.ndim == 0 || have.sizes[0] != in[h->n_carried]->sizes[0])
          return refuse (h, error, "operand %u is mapped and has not the length of the others", i);
        memmove (have.sizes, have.sizes + 1, (size_t) --have.ndim * sizeof *have.sizes);
        have.sizes[have.ndim] = 0;
      }
      if (!check_operand (h, i, want, &have, error))
        return false;
    }
  return true;
}

/* -- Running ----------------------------------------------------------------------------------- */

typedef struct {
  const GmHigher *h;
  const int64_t *symbols; /* NULL: sizes are numbers */
  const GmHigherRunner *by;
  GError **error;
} Call;

static void
drop (GmTensor **t, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    g_clear_pointer (&t[i], gm_tensor_unref);
}

/* t with the strides of `want`: itself, the same elements under these strides, or a copy. */
static GmTensor *
laid_out (GmTensor *t, const GmMeta *want, GError **error)
{
  size_t bytes = t->meta.ndim * sizeof *want->strides;
  if (memcmp (t->meta.strides, want->strides, bytes) == 0)
    return gm_tensor_ref (t);
  if (gm_meta_is_laid_out (&t->meta, want)) { /* those of one element are any, and who compiled the body may compare them */
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

/* Results are new tensors: a body may have given out an operand, a view, or one tensor twice. */
static bool
own (Call *c, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out)
{
  for (uint32_t i = 0; i < n_out; i++) {
    GmMeta m = out[i]->meta;
    gm_meta_set_contiguous (&m);
    m.requires_grad = 0;
    bool shared = is_one_of (out[i], in, n_in) || is_one_of (out[i], out, i) || out[i]->storage->readonly;
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

/* Body b as somebody runs it, or interpreted. */
static bool
run_as_asked (Call *c, uint32_t b, const int64_t *symbols, GmTensor *const *in, GmTensor **out)
{
  return c->by ? c->by->run (c->by->data, c->h, b, symbols, in, out, c->error)
               : gm_graph_interpret_with (c->h->bodies[b], symbols, in, out, NULL, c->error);
}

static bool
meta_now (const Call *c, const GmGraph *g, const GmMeta *m, const int64_t *symbols, GmMeta *out)
{
  *out = *m;
  return !symbols || gm_graph_meta_now (g, m, symbols, out, c->error);
}

/* Body b of values in; out: its outputs, each a tensor of its own. */
static bool
run_body (Call *c, uint32_t b, GmTensor *const *in, GmTensor **out)
{
  const GmGraph *g = c->h->bodies[b];
  uint32_t n = g->inputs->len, n_out = g->outputs->len, n_symbols = c->symbols && g->sym ? gm_sym_n_symbols (g->sym) : 0;
  g_autofree GmTensor **fit = g_new0 (GmTensor *, n + 1);
  g_autofree int64_t *own_symbols = n_symbols ? g_memdup2 (c->symbols, n_symbols * sizeof *own_symbols) : NULL;
  bool good = true;

  if (own_symbols) /* some are the body's alone: its inputs say them */
    gm_graph_bind_symbols (g, in, own_symbols);
  memset (out, 0, n_out * sizeof *out);
  for (uint32_t i = 0; good && i < n; i++) {
    GmMeta want;
    good = meta_now (c, g, input_meta (g, i), own_symbols, &want) && (fit[i] = laid_out (in[i], &want, c->error)) != NULL;
  }
  good = good && run_as_asked (c, b, own_symbols, fit, out) && own (c, fit, n, out, n_out);
  drop (fit, n);
  if (!good)
    drop (out, n_out);
  return good;
}

static bool
is_true (const GmTensor *t)
{
  static const int64_t origin[GM_MAX_DIMS];
  GmScalar s = gm_tensor_get (t, origin);

  return s.kind == GM_CATEGORY_FLOAT ? s.d != 0 : s.i != 0;
}

/* 1: go on, 0: stop, -1: error. */
static int
test (Call *c, GmTensor *const *in)
{
  GmTensor *t = NULL;

  if (!run_body (c, 0, in, &t))
    return -1;
  int yes = is_true (t);
  gm_tensor_unref (t);
  return yes;
}

/* The loop from the carried values in `now`, which it replaces; seen: gets those of each step, if it
 * is not NULL. */
static bool
loop (Call *c, GmTensor **now, GPtrArray *seen)
{
  uint32_t n = c->h->n_carried;
  g_autofree GmTensor **next = g_new0 (GmTensor *, n + 1);
  int more;

  while ((more = test (c, now)) == 1) {
    if (!run_body (c, 1, now, next))
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
run_while (Call *c, GmTensor *const *in, uint32_t n_in, GmTensor **out)
{
  uint32_t n = c->h->n_carried;
  g_autofree GmTensor **now = g_new0 (GmTensor *, n_in + 1);

  for (uint32_t i = 0; i < n_in; i++)
    now[i] = gm_tensor_ref (in[i]);
  bool good = loop (c, now, NULL);
  memcpy (out, now, n * sizeof *out);
  memset (now, 0, n * sizeof *now);
  drop (now, n_in);
  if (good)
    good = own (c, in, n_in, out, n);
  if (!good)
    drop (out, n);
  return good;
}

/* Adds b to *a, which may be none. */
static bool
accumulate (GmTensor **a, GmTensor *b, GError **error)
{
  GmTensor *in[2] = { *a, b };
  GmTensor *sum = *a ? gm_op_run (GM_OP_add, in, 2, NULL, error) : gm_tensor_ref (b);

  gm_tensor_unref (*a);
  *a = sum;
  return sum != NULL;
}

/* The steps of the loop once more, then their gradients from the last to the first.  Operands of the
 * step are carried, args, gradients; its outputs: gradients of the carried values, then of args, which
 * are summed. */
static bool
run_while_grad (Call *c, GmTensor *const *in, uint32_t n_in, GmTensor **out)
{
  uint32_t n = c->h->n_carried, n_args = n_in - 2 * n, n_out = c->h->bodies[2]->outputs->len;
  g_autoptr (GPtrArray) seen = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_tensor_unref);
  g_autofree GmTensor **now = g_new0 (GmTensor *, n_in + 1), **step = g_new0 (GmTensor *, n_out + 1);

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
    if (!(good = run_body (c, 2, all, step)))
      break;
    for (uint32_t i = 0; i < n_out; i++) {
      if (i < n) {
        gm_tensor_unref (out[i]);
        out[i] = step[i];
      } else {
        good = good && accumulate (&out[i], step[i], c->error);
        gm_tensor_unref (step[i]);
      }
    }
  }
  for (uint32_t i = n; good && i < n_out; i++)
    if (!out[i]) { /* the loop made no step */
      GmMeta m;
      good = meta_now (c, c->h->bodies[2], output_meta (c->h->bodies[2], i), c->symbols, &m);
      m.requires_grad = 0;
      gm_meta_set_contiguous (&m);
      good = good && (out[i] = gm_tensor_new_zeros (&m, c->error)) != NULL;
    }
  drop (now, n_in);
  good = good && own (c, in, n_in, out, n_out);
  if (!good)
    drop (out, n_out);
  return good;
}

/* Slice k along dimension 0. */
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
scan_step (Call *c, GmTensor **now, GmTensor *const *mapped, int64_t k, GmTensor **step, GmTensor *const *stacks)
{
  const GmHigher *h = c->h;
  uint32_t n_out = h->bodies[0]->outputs->len;
  bool good;

  for (uint32_t i = 0; i < h->n_mapped; i++)
    now[h->n_carried + i] = slice_of (mapped[i], k);
  good = run_body (c, 0, now, step);
  drop (now + h->n_carried, h->n_mapped);
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
run_scan (Call *c, GmTensor *const *in, uint32_t n_in, GmTensor **out)
{
  const GmHigher *h = c->h;
  uint32_t n_out = h->bodies[0]->outputs->len, n = h->n_carried;
  int64_t length = in[n]->meta.sizes[0];
  g_autofree GmTensor **now = g_new0 (GmTensor *, n_in + 1), **step = g_new0 (GmTensor *, n_out + 1);
  bool good = true;

  memset (out, 0, n_out * sizeof *out);
  for (uint32_t i = 0; i < n_in; i++)
    if (i < n || i >= n + h->n_mapped)
      now[i] = gm_tensor_ref (in[i]);
  for (uint32_t i = n; good && i < n_out; i++) {
    GmMeta m;
    good = meta_now (c, h->bodies[0], output_meta (h->bodies[0], i), c->symbols, &m);
    m.requires_grad = 0;
    m = stacked (m, length);
    good = good && (out[i] = gm_tensor_new (&m, c->error)) != NULL;
  }
  for (int64_t k = 0; good && k < length; k++)
    good = scan_step (c, now, in + n, h->reverse ? length - 1 - k : k, step, out + n);
  for (uint32_t i = 0; good && i < n; i++)
    out[i] = g_steal_pointer (&now[i]);
  drop (now, n_in);
  good = good && own (c, in, n_in, out, n);
  if (!good)
    drop (out, n_out);
  return good;
}

bool
gm_higher_run (const GmHigher *h, const int64_t *symbols, GmTensor *const *in, uint32_t n_in, GmTensor **out,
               const GmHigherRunner *by, GError **error)
{
  Call c = { h, symbols, by, error };

  switch (h->op) {
  case GM_OP_cond: return run_body (&c, is_true (in[0]) ? 0 : 1, in + 1, out);
  case GM_OP_while_loop: return run_while (&c, in, n_in, out);
  case GM_OP_while_loop_grad: return run_while_grad (&c, in, n_in, out);
  case GM_OP_scan: return run_scan (&c, in, n_in, out);
  case GM_OP_host_call: return gm_higher_run_host (h, in, n_in, out, error);
  case GM_OP_gradient_hook: { /* only a backward has something to do for it */
    const GmMeta m = hook_meta ();
    return (out[0] = gm_tensor_new (&m, error)) != NULL;
  }
  default: return run_body (&c, 0, in, out);
  }
}
