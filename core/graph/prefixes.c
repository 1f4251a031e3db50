/* SPDX-License-Identifier: Apache-2.0
 * prefixes.c -- running associative_scan and its gradient: a tree of blocks.
 *
 * Slices are combined in pairs, neighbour with neighbour.  The prefixes of the pairs are every
 * second slice of the result, and another combination computes the slices between.  So there are
 * two calls of the body for each level of the tree, each for half as many slices as the level
 * above, and the result is the same to the bit as that of gramme.higher_order._prefixes, which does
 * this in Python.  The gradient makes the tree once more and goes through its calls backwards,
 * adding in the order in which the engine would on the tape of that program.
 */
#include "core/graph/higher_run.h"

#include <string.h>

typedef struct {
  GmHigherCall *c;
  GmTensor *const *in; /* the operands */
  uint32_t m, n_args;  /* number of mapped operands, and of args, which follow them */
  GPtrArray *pairs;    /* combined pairs, m tensors for each level; NULL: not needed */
  GmTensor **sums;     /* gradients of args so far, by output of the step, or NULL */
} Tree;

/* Returns a new view of `count` slices of t along dimension 0: from, from + step ... */
static GmTensor *
some_of (GmTensor *t, int64_t from, int64_t step, int64_t count)
{
  GmMeta m = t->meta;

  m.sizes[0] = count;
  m.strides[0] *= step;
  return gm_tensor_new_view (t, &m, t->offset + from * t->meta.strides[0]);
}

static bool
set_some (GmTensor *to, int64_t from, int64_t step, GmTensor *values, GError **error)
{
  g_autoptr (GmTensor) place = some_of (to, from, step, values->meta.sizes[0]);

  return gm_op_run_into (GM_OP_copy, &values, 1, NULL, place, error);
}

static bool
add_some (GmTensor *to, int64_t from, int64_t step, GmTensor *values, GError **error)
{
  g_autoptr (GmTensor) place = some_of (to, from, step, values->meta.sizes[0]);
  g_autoptr (GmTensor) sum = gm_op_run (GM_OP_add, (GmTensor *[]){ place, values }, 2, NULL, error);

  return sum && gm_op_run_into (GM_OP_copy, &sum, 1, NULL, place, error);
}

/* Returns a new row-major tensor with the sizes of `like`, filled with zeros or not at all. */
static GmTensor *
fresh (const GmTensor *like, bool zeros, GError **error)
{
  GmMeta m = like->meta;

  gm_meta_set_contiguous (&m);
  m.requires_grad = 0;
  return zeros ? gm_tensor_new_zeros (&m, error) : gm_tensor_new (&m, error);
}

/* Combines `count` slices of a with as many of b, by body 0; with g, the gradients of the
 * result, computes the gradients of that instead, by body 1.  from_a, step_a ...: which slices.
 * out: the body's outputs, new tensors.  False with an error. */
static bool
combine (Tree *t, GmTensor *const *a, int64_t from_a, int64_t step_a, GmTensor *const *b,
         int64_t from_b, int64_t step_b, GmTensor *const *g, int64_t from_g, int64_t step_g,
         int64_t count, GmTensor **out)
{
  uint32_t m = t->m, n = 0;
  g_autofree GmTensor **in = g_new0 (GmTensor *, 3 * m + t->n_args + 1);

  for (uint32_t i = 0; i < m; i++)
    in[n++] = some_of (a[i], from_a, step_a, count);
  for (uint32_t i = 0; i < m; i++)
    in[n++] = some_of (b[i], from_b, step_b, count);
  for (uint32_t i = 0; i < t->n_args; i++)
    in[n++] = gm_tensor_ref (t->in[m + i]);
  for (uint32_t i = 0; g && i < m; i++)
    in[n++] = some_of (g[i], from_g, step_g, count);
  bool good = gm_higher_run_body (t->c, g ? 1 : 0, in, out);
  gm_higher_drop (in, n);
  return good;
}

/* Writes into to[i] the prefixes of xs[i]: slice k is the combination of slices 0 to k.  Keeps
 * the combined pairs of each level in t->pairs, for the gradient, if that is not NULL. */
static bool
prefixes (Tree *t, GmTensor *const *xs, GmTensor *const *to)
{
  uint32_t m = t->m;
  int64_t n = xs[0]->meta.sizes[0], half = n / 2, rest = (n - 1) / 2;
  GError **error = t->c->error;
  g_autofree GmTensor **made = g_new0 (GmTensor *, m + 1), **odd = g_new0 (GmTensor *, m + 1);
  bool good = true;

  if (n < 2) {
    for (uint32_t i = 0; good && i < m; i++)
      good = set_some (to[i], 0, 1, xs[i], error);
    return good;
  }
  if (!combine (t, xs, 0, 2, xs, 1, 2, NULL, 0, 0, half, made))
    return false;
  for (uint32_t i = 0; i < m; i++) {
    odd[i] = some_of (to[i], 1, 2, half);
    if (t->pairs)
      g_ptr_array_add (t->pairs, gm_tensor_ref (made[i]));
  }
  good = prefixes (t, made, odd);
  gm_higher_drop (made, m);
  for (uint32_t i = 0; good && i < m; i++) {
    g_autoptr (GmTensor) first = some_of (xs[i], 0, 1, 1);
    good = set_some (to[i], 0, 1, first, error);
  }
  if (good && rest > 0) {
    good = combine (t, odd, 0, 1, xs, 2, 2, NULL, 0, 0, rest, made);
    for (uint32_t i = 0; good && i < m; i++)
      good = set_some (to[i], 2, 2, made[i], error);
    gm_higher_drop (made, m);
  }
  gm_higher_drop (odd, m);
  return good;
}

static void
setup (Tree *t, GmHigherCall *c, GmTensor *const *in, uint32_t n_in)
{
  const GmHigher *h = c->h;
  uint32_t n_gradients = h->op == GM_OP_associative_scan_grad ? h->n_mapped : 0;

  *t = (Tree){ .c = c, .in = in, .m = h->n_mapped, .n_args = n_in - h->n_mapped - n_gradients };
}

bool
gm_prefixes_run (GmHigherCall *c, GmTensor *const *in, uint32_t n_in, GmTensor **out)
{
  Tree t;
  bool good = true;

  setup (&t, c, in, n_in);
  memset (out, 0, t.m * sizeof *out);
  for (uint32_t i = 0; good && i < t.m; i++)
    good = (out[i] = fresh (in[i], false, c->error)) != NULL;
  good = good && prefixes (&t, in, out);
  if (!good)
    gm_higher_drop (out, t.m);
  return good;
}

/* -- The gradient ------------------------------------------------------------------------------ */

/* Adds the gradients of args in `step` to t->sums, and releases them.  step: the outputs of body
 * 1, gradients of blocks before gradients of args. */
static bool
add_args (Tree *t, GmTensor **step)
{
  uint32_t n = t->c->h->bodies[1]->outputs->len - 2 * t->m;
  bool good = true;

  for (uint32_t i = 0; i < n; i++) {
    good = good && gm_higher_accumulate (&t->sums[i], step[2 * t->m + i], t->c->error);
    g_clear_pointer (&step[2 * t->m + i], gm_tensor_unref);
  }
  return good;
}

/* Adds to `to`, which starts as zeros, the gradients of xs, given the gradients g of their
 * prefixes ys.  level: depth in the tree.  False with an error. */
static bool
back (Tree *t, uint32_t level, GmTensor *const *xs, GmTensor *const *ys, GmTensor *const *g,
      GmTensor *const *to)
{
  uint32_t m = t->m;
  int64_t n = xs[0]->meta.sizes[0], half = n / 2, rest = (n - 1) / 2;
  GError **error = t->c->error;
  g_autofree GmTensor **step = g_new0 (GmTensor *, t->c->h->bodies[1]->outputs->len + 1),
                      **odd = g_new0 (GmTensor *, m + 1), **g_odd = g_new0 (GmTensor *, m + 1),
                      **g_pairs = g_new0 (GmTensor *, m + 1);
  bool good = true;

  if (n < 2) {
    for (uint32_t i = 0; good && i < m; i++)
      good = set_some (to[i], 0, 1, g[i], error);
    return good;
  }
  GmTensor **pairs = (GmTensor **) t->pairs->pdata + level * m;
  for (uint32_t i = 0; good && i < m; i++) {
    g_autoptr (GmTensor) first = some_of (g[i], 0, 1, 1), there = some_of (g[i], 1, 2, half);
    odd[i] = some_of (ys[i], 1, 2, half);
    good = (g_odd[i] = fresh (pairs[i], false, error))
           && (g_pairs[i] = fresh (pairs[i], true, error))
           && set_some (g_odd[i], 0, 1, there, error) && set_some (to[i], 0, 1, first, error);
  }
  if (good && rest > 0) {
    good = combine (t, odd, 0, 1, xs, 2, 2, g, 2, 2, rest, step) && add_args (t, step);
    for (uint32_t i = 0; good && i < m; i++)
      good =
          add_some (g_odd[i], 0, 1, step[i], error) && set_some (to[i], 2, 2, step[m + i], error);
    gm_higher_drop (step, 2 * m);
  }
  good = good && back (t, level + 1, pairs, odd, g_odd, g_pairs);
  if (good) {
    good = combine (t, xs, 0, 2, xs, 1, 2, g_pairs, 0, 1, half, step) && add_args (t, step);
    for (uint32_t i = 0; good && i < m; i++)
      good = add_some (to[i], 0, 2, step[i], error) && add_some (to[i], 1, 2, step[m + i], error);
    gm_higher_drop (step, 2 * m);
  }
  gm_higher_drop (odd, m);
  gm_higher_drop (g_odd, m);
  gm_higher_drop (g_pairs, m);
  return good;
}

/* Sets each gradient of args that is still NULL, because no block was combined, to zeros. */
static bool
fill_args (Tree *t)
{
  uint32_t n = t->c->h->bodies[1]->outputs->len - 2 * t->m, k = 0;
  bool good = true;

  for (uint32_t i = 0; good && i < t->n_args && k < n; i++) {
    if (!gm_body_input (t->c->h->bodies[1], 2 * t->m + i)->requires_grad)
      continue;
    if (!t->sums[k])
      good = (t->sums[k] = fresh (t->in[t->m + i], true, t->c->error)) != NULL;
    k++;
  }
  return good;
}

bool
gm_prefixes_run_grad (GmHigherCall *c, GmTensor *const *in, uint32_t n_in, GmTensor **out)
{
  Tree t;
  g_autoptr (GPtrArray) pairs = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_tensor_unref);
  uint32_t m = c->h->n_mapped, n_out = c->h->bodies[1]->outputs->len - m;
  g_autofree GmTensor **ys = g_new0 (GmTensor *, m + 1);
  bool good = true;

  setup (&t, c, in, n_in);
  t.pairs = pairs;
  memset (out, 0, n_out * sizeof *out);
  t.sums = out + m;
  for (uint32_t i = 0; good && i < m; i++)
    good = (ys[i] = fresh (in[i], false, c->error)) && (out[i] = fresh (in[i], true, c->error));
  good =
      good && prefixes (&t, in, ys) && back (&t, 0, in, ys, in + n_in - m, out) && fill_args (&t);
  gm_higher_drop (ys, m);
  if (!good)
    gm_higher_drop (out, n_out);
  return good;
}
