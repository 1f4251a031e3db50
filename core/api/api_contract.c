/* SPDX-License-Identifier: Apache-2.0
 * api_contract.c -- products that name their dimensions: einsum, tensordot, and functions made of
 * them.
 *
 * All become matrix products. Of two operands, the dimensions that both have and the result keeps
 * are the batch; dimensions that both have and neither the result nor a later operand needs are
 * summed over; the others are rows and columns. More operands are multiplied from left to right.
 */
#include "core/api/api_private.h"

/* A tensor with a letter for each dimension; letters are numbers below MAX_LETTERS. */
#define MAX_LETTERS 64

typedef struct {
  GmVal v;
  int n;
  uint8_t letter[GM_MAX_DIMS];
} Named;

static int
place_of (const Named *x, int letter)
{
  for (int i = 0; i < x->n; i++)
    if (x->letter[i] == letter)
      return i;
  return -1;
}

/* Returns x in the order of `letters`; letters that x lacks become dimensions of size 1. */
static GmVal
arranged (GmBuilder *b, const Named *x, const uint8_t *letters, int n)
{
  int64_t dims[GM_MAX_DIMS], sizes[GM_MAX_DIMS];
  int k = 0;
  for (int i = 0; i < n; i++) {
    int at = place_of (x, letters[i]);
    sizes[i] = at < 0 ? 1 : META (x->v)->sizes[at];
    if (at >= 0)
      dims[k++] = at;
  }
  return gm_b_view (b, gm_b_permute (b, x->v, dims), n, sizes);
}

/* Sums x over the dimensions whose letter is not in `keep`, in place. */
static void
sum_out (GmBuilder *b, Named *x, uint64_t keep)
{
  int64_t dims[GM_MAX_DIMS];
  int n = 0, k = 0;
  for (int i = 0; i < x->n; i++)
    if (keep >> x->letter[i] & 1)
      x->letter[k++] = x->letter[i];
    else
      dims[n++] = i;
  x->n = k;
  if (n)
    x->v = gm_b_reduce (b, GM_OP_sum, x->v, dims, n, false);
}

static uint64_t
letters_of (const Named *x)
{
  uint64_t mask = 0;
  for (int i = 0; i < x->n; i++)
    mask |= UINT64_C (1) << x->letter[i];
  return mask;
}

/* Returns the product of x and y, whose dimensions are the letters `keep`; letters that are not in
 * `keep` are summed over. */
static Named
multiply (const GmApi *api, GmBuilder *b, Named x, Named y, uint64_t keep)
{
  sum_out (b, &x, keep | letters_of (&y));
  sum_out (b, &y, keep | letters_of (&x));
  if (gm_b_failed (b))
    return x;
  uint64_t both = letters_of (&x) & letters_of (&y);
  uint8_t order[4][GM_MAX_DIMS * 2]; /* batch, rows, summed, columns */
  int n[4] = { 0 };
  int64_t size[4] = { 1, 1, 1, 1 }, wide[MAX_LETTERS];
  for (int side = 0; side < 2; side++) {
    const Named *o = side ? &y : &x;
    for (int i = 0; i < o->n; i++) {
      int l = o->letter[i];
      int64_t s = META (o->v)->sizes[i];
      bool shared = both >> l & 1;
      int kind = !shared ? (side ? 3 : 1) : keep >> l & 1 ? 0 : 2;
      if (shared && side) { /* one of the two sizes may be 1 */
        wide[l] = gm_size_eq (wide[l], 1) ? s : wide[l];
        continue;
      }
      wide[l] = s;
      order[kind][n[kind]++] = (uint8_t) l;
    }
  }
  Named out = { .n = n[0] + n[1] + n[3] };
  if (out.n > GM_MAX_DIMS || n[0] + n[1] + n[2] > GM_MAX_DIMS || n[0] + n[2] + n[3] > GM_MAX_DIMS) {
    gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): a product on the way has more than %d dimensions",
               api->name, GM_MAX_DIMS);
    return out;
  }
  uint8_t letters[2][GM_MAX_DIMS * 3];
  int64_t full[2][GM_MAX_DIMS * 3], sizes[GM_MAX_DIMS];
  static const int kinds[2][3] = { { 0, 1, 2 }, { 0, 2, 3 } };
  for (int side = 0, k; side < 2; side++) {
    k = 0;
    for (int j = 0; j < 3; j++)
      for (int i = 0; i < n[kinds[side][j]]; i++) {
        letters[side][k] = order[kinds[side][j]][i];
        full[side][k] = wide[letters[side][k]];
        k++;
      }
  }
  for (int kind = 0; kind < 4; kind++)
    for (int i = 0; i < n[kind]; i++)
      size[kind] = gm_size_mul (size[kind], wide[order[kind][i]]);
  GmVal in[2] = { arranged (b, &x, letters[0], n[0] + n[1] + n[2]),
                  arranged (b, &y, letters[1], n[0] + n[2] + n[3]) };
  for (int side = 0; side < 2; side++) {
    in[side] = gm_b_expand (b, in[side], n[0] + n[2] + (side ? n[3] : n[1]), full[side]);
    if (n[2]) /* a product of matrices */
      in[side] = gm_b_reshape (
          b, in[side], 3, (const int64_t[]){ size[0], size[side ? 2 : 1], size[side ? 3 : 2] });
    else /* nothing is summed: [batch, rows, 1] times [batch, 1, columns] */
      in[side] = gm_b_reshape (
          b, in[side], 3, (const int64_t[]){ size[0], side ? 1 : size[1], side ? size[3] : 1 });
  }
  int k = 0;
  for (int kind = 0; kind < 4; kind++)
    for (int i = 0; i < n[kind] && kind != 2; i++) {
      out.letter[k] = order[kind][i];
      sizes[k++] = wide[order[kind][i]];
    }
  if (gm_b_failed (b))
    return out;
  out.v = n[2] ? gm_matmul (api, b, in[0], in[1]) : gm_apply2 (b, mul, in[0], in[1]);
  out.v = gm_b_reshape (b, out.v, out.n, sizes);
  return out;
}

/* -- einsum ------------------------------------------------------------------------------------ */

typedef struct {
  const GmApi *api;
  GmBuilder *b;
  int64_t size[MAX_LETTERS];
  int ellipsis; /* the most dimensions of "..." */
} Sum;

static int
letter_of (char c)
{
  return c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= 'A' && c <= 'Z' ? c - 'A' : -1;
}

/* Reads the letters of one part of the equation and returns their number, < 0 after an error;
 * dots[0] is the position of "...", or -1. */
static int
read_letters (Sum *s, const char *text, const char *end, uint8_t *letters, int *dots)
{
  int n = 0;
  *dots = -1;
  for (const char *p = text; p < end && !gm_b_failed (s->b); p++) {
    if (*p == ' ')
      continue;
    if (p + 2 < end && p[0] == '.' && p[1] == '.' && p[2] == '.' && *dots < 0) {
      *dots = n;
      p += 2;
      continue;
    }
    int l = letter_of (*p);
    if (l < 0 || n == GM_MAX_DIMS)
      gm_b_fail (
          s->b, GM_ERROR_RUNTIME,
          l < 0 ? "einsum(): invalid subscript given: '%c'; subscripts are letters and one '...'"
                : "einsum(): too many subscripts at '%c'",
          *p);
    else
      letters[n++] = (uint8_t) l;
  }
  return n;
}

/* Replaces dimensions i and j of x, which have the same letter, by their diagonal, in the position
 * of i. */
static void
take_diagonal (GmBuilder *b, Named *x, int i, int j)
{
  int64_t dims[GM_MAX_DIMS];
  int last = x->n - 2;
  GmVal line = gm_diagonal (b, x->v, 0, i, j); /* the last dimension, and goes back */
  for (int d = 0; d <= last; d++)
    dims[d] = d < i ? d : d == i ? last : d - 1;
  x->v = gm_b_permute (b, line, dims);
  for (int d = j; d < x->n - 1; d++)
    x->letter[d] = x->letter[d + 1];
  x->n--;
}

static void
name_operand (Sum *s, Named *x, int which, const uint8_t *letters, int n, int dots)
{
  GmBuilder *b = s->b;
  const GmMeta *m = META (x->v);
  int rest = m->ndim - n;
  if (rest < 0 || (rest > 0 && dots < 0)) {
    gm_b_fail (b, GM_ERROR_RUNTIME,
               "einsum(): the subscripts of operand %d are %d, but it has %d dimensions", which, n,
               m->ndim);
    return;
  }
  for (int i = 0; i < m->ndim; i++)
    x->letter[i] = dots < 0 || i < dots ? letters[i]
                   : i < dots + rest    ? (uint8_t) (52 + (rest - 1 - (i - dots)))
                                        : letters[i - rest];
  x->n = m->ndim;
  if (dots >= 0)
    s->ellipsis = MAX (s->ellipsis, rest);
  for (int i = 0; i < x->n && !gm_b_failed (b); i++)
    for (int j = x->n - 1; j > i && !gm_b_failed (b); j--)
      if (x->letter[i] == x->letter[j]) {
        if (!gm_size_eq (META (x->v)->sizes[i], META (x->v)->sizes[j]))
          gm_b_fail (b, GM_ERROR_RUNTIME,
                     "einsum(): a subscript is repeated in operand %d, but its dimensions have "
                     "different sizes",
                     which);
        else
          take_diagonal (b, x, i, j);
      }
  for (int i = 0; i < x->n && !gm_b_failed (b); i++) {
    int64_t *size = &s->size[x->letter[i]], own = META (x->v)->sizes[i];
    if (*size < 0 || (!gm_size_is_symbolic (*size) && *size == 1))
      *size = own;
    else if (!gm_size_eq (own, 1) && !gm_size_eq (*size, own)) {
      g_autofree char *one = gm_size_text (own), *two = gm_size_text (*size);
      gm_b_fail (b, GM_ERROR_RUNTIME,
                 "einsum(): dimension %d of operand %d has size %s, which does not broadcast with "
                 "%s seen before",
                 i, which, one, two);
    }
  }
}

/* Reads the letters of the result, given behind "->", or those that appear once, in order, after
 * "..."; returns their number. */
static int
read_result (Sum *s, const char *equation, const char *arrow, uint8_t *out)
{
  uint8_t letters[GM_MAX_DIMS];
  int n = 0, k = 0, dots = -1;
  if (arrow)
    n = read_letters (s, arrow + 2, arrow + strlen (arrow), letters, &dots);
  else {
    int seen[MAX_LETTERS] = { 0 };
    for (const char *p = equation; *p; p++)
      if (letter_of (*p) >= 0)
        seen[letter_of (*p)]++;
    dots = 0;
    for (int l = 0; l < 52; l++)
      if (seen[l] == 1 && n < GM_MAX_DIMS)
        letters[n++] = (uint8_t) l;
  }
  int wide = dots >= 0 ? s->ellipsis : 0;
  if (n + wide > GM_MAX_DIMS) {
    gm_b_fail (s->b, GM_ERROR_RUNTIME, "einsum(): the result has more than %d dimensions",
               GM_MAX_DIMS);
    return 0;
  }
  for (int i = 0; i <= n; i++) {
    for (int d = 0; i == dots && d < wide; d++)
      out[k++] = (uint8_t) (52 + wide - 1 - d);
    if (i < n)
      out[k++] = letters[i];
  }
  for (int i = 0; i < k && !gm_b_failed (s->b); i++) {
    for (int j = 0; j < i; j++)
      if (out[i] == out[j])
        gm_b_fail (s->b, GM_ERROR_RUNTIME,
                   "einsum(): a subscript appears more than once in the output");
    if (s->size[out[i]] == -1)
      gm_b_fail (s->b, GM_ERROR_RUNTIME,
                 "einsum(): a subscript of the output does not appear in any operand");
  }
  return k;
}

RUN (einsum)
{
  const char *equation = STR (0);
  int n = 0;
  g_autofree GmVal *in = gm_arg_tensors (api, b, a, 1, &n);
  CHECK ();
  Sum s = { .api = api, .b = b };
  for (int l = 0; l < MAX_LETTERS; l++)
    s.size[l] = -1;
  GmDtype d = gm_result_type (b, a[1].items, n);
  g_autofree Named *x = g_new0 (Named, n + 1);
  const char *arrow = strstr (equation, "->"), *p = equation,
             *end = arrow ? arrow : equation + strlen (equation);
  int parts = 1;
  for (const char *q = equation; q < end; q++)
    parts += *q == ',';
  if (parts != n)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "einsum(): the equation has %d operands, but %d were given", parts,
                               n));
  for (int i = 0; i < n && !gm_b_failed (b); i++) {
    const char *comma = memchr (p, ',', (size_t) (end - p)), *stop = comma ? comma : end;
    uint8_t letters[GM_MAX_DIMS];
    int dots, k = read_letters (&s, p, stop, letters, &dots);
    CHECK ();
    x[i].v = gm_b_cast (b, in[i], d);
    name_operand (&s, &x[i], i, letters, k, dots);
    p = stop + 1;
  }
  CHECK ();
  uint8_t out[GM_MAX_DIMS];
  int k = read_result (&s, equation, arrow, out);
  CHECK ();
  uint64_t result = 0;
  for (int i = 0; i < k; i++)
    result |= UINT64_C (1) << out[i];
  Named y = x[0];
  for (int i = 1; i < n && !gm_b_failed (b); i++) {
    uint64_t later = result;
    for (int j = i + 1; j < n; j++)
      later |= letters_of (&x[j]);
    y = multiply (api, b, y, x[i], later);
  }
  CHECK ();
  sum_out (b, &y, result);
  CHECK ();
  GmVal v = arranged (b, &y, out, k);
  int64_t sizes[GM_MAX_DIMS];
  for (int i = 0; i < k; i++)
    sizes[i] = s.size[out[i]];
  return gm_give (gm_b_expand (b, v, k, sizes));
}

/* -- Two operands ------------------------------------------------------------------------------ */

RUN (tensordot)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  CHECK ();
  int64_t first[GM_MAX_DIMS], second[GM_MAX_DIMS];
  int nx = META (x)->ndim, ny = META (y)->ndim, n, k;
  if (a[2].kind == GM_ARG_LIST && a[2].n == 2 && a[2].items[0].kind == GM_ARG_LIST) {
    GmArg lists[2][3] = { { [2] = a[2].items[0] }, { [2] = a[2].items[1] } };
    n = gm_arg_ints (api, b, lists[0], 2, first);
    k = gm_arg_ints (api, b, lists[1], 2, second);
  } else {
    n = k = (int) INT (2);
    CHECK ();
    if (n < 0 || n > nx || n > ny)
      return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                                 "tensordot(): dims is %d for tensors of %d and %d dimensions", n,
                                 nx, ny));
    for (int i = 0; i < n; i++) {
      first[i] = nx - n + i;
      second[i] = i;
    }
  }
  CHECK ();
  if (n != k)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "tensordot(): both dimension lists should have same length, but have %d and %d", n, k));
  Named l = { .v = x, .n = nx }, r = { .v = y, .n = ny };
  for (int i = 0; i < nx; i++)
    l.letter[i] = (uint8_t) i;
  for (int i = 0; i < ny; i++)
    r.letter[i] = (uint8_t) (GM_MAX_DIMS + i);
  uint64_t keep = letters_of (&l) | letters_of (&r);
  for (int i = 0; i < n; i++) {
    int at = gm_wrap_dim (api, b, first[i], nx), to = gm_wrap_dim (api, b, second[i], ny);
    CHECK ();
    if (!gm_size_eq (META (x)->sizes[at], META (y)->sizes[to]))
      return gm_give (gm_b_fail (
          b, GM_ERROR_RUNTIME,
          "tensordot(): dimension %d of the first and %d of the second tensor have different sizes",
          at, to));
    keep &= ~(UINT64_C (1) << l.letter[at] | UINT64_C (1) << r.letter[to]);
    r.letter[to] = l.letter[at];
  }
  return gm_give (multiply (api, b, l, r, keep).v);
}

/* Multiplies the last dimensions and sums over them. */
RUN (inner)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  CHECK ();
  int nx = META (x)->ndim, ny = META (y)->ndim;
  if (nx == 0 || ny == 0)
    return gm_give (gm_apply2 (b, mul, x, y));
  if (!gm_size_eq (META (x)->sizes[nx - 1], META (y)->sizes[ny - 1])) {
    g_autofree char *one = gm_shape_text (nx, META (x)->sizes),
                    *two = gm_shape_text (ny, META (y)->sizes);
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "inner(): the last dimensions of shapes %s and %s must be equal",
                               one, two));
  }
  Named l = { .v = x, .n = nx }, r = { .v = y, .n = ny };
  for (int i = 0; i < nx; i++)
    l.letter[i] = (uint8_t) i;
  for (int i = 0; i < ny; i++)
    r.letter[i] = (uint8_t) (GM_MAX_DIMS + i);
  uint64_t keep = (letters_of (&l) | letters_of (&r))
                  & ~(UINT64_C (1) << (nx - 1) | UINT64_C (1) << (GM_MAX_DIMS + ny - 1));
  r.letter[ny - 1] = (uint8_t) (nx - 1);
  return gm_give (multiply (api, b, l, r, keep).v);
}

/* Multiplies each element of x by all of y: sizes [a, c] and [b, d] give [a b, c d]. */
RUN (kron)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  CHECK ();
  GmMeta mx = *META (x), my = *META (y);
  int n = MAX (mx.ndim, my.ndim);
  int64_t left[GM_MAX_DIMS * 2], right[GM_MAX_DIMS * 2], sizes[GM_MAX_DIMS];
  if (2 * n > GM_MAX_DIMS)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "kron(): takes tensors of at most %d dimensions", GM_MAX_DIMS / 2));
  for (int d = 0; d < n; d++) {
    int dx = d - (n - mx.ndim), dy = d - (n - my.ndim);
    left[2 * d] = dx < 0 ? 1 : mx.sizes[dx];
    right[2 * d + 1] = dy < 0 ? 1 : my.sizes[dy];
    left[2 * d + 1] = right[2 * d] = 1;
    sizes[d] = gm_size_mul (left[2 * d], right[2 * d + 1]);
  }
  GmVal p = gm_apply2 (b, mul, gm_b_reshape (b, x, 2 * n, left), gm_b_reshape (b, y, 2 * n, right));
  return gm_give (gm_b_reshape (b, p, n, sizes));
}

RUN (cross)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  CHECK ();
  GmMeta mx = *META (x), my = *META (y), shape;
  if (!gm_meta_broadcast (&mx, &my, &shape, &b->error))
    return gm_give (NULL);
  int dim = -1;
  if (IS_NONE (2)) {
    for (int d = shape.ndim - 1; d >= 0; d--)
      dim = gm_size_eq (shape.sizes[d], 3) ? d : dim;
  } else
    dim = gm_arg_dim (api, b, a, 2, shape.ndim);
  CHECK ();
  if (dim < 0 || shape.ndim == 0 || !gm_size_eq (shape.sizes[dim], 3))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "cross(): inputs need a dimension of size 3"));
  x = gm_b_expand (b, x, shape.ndim, shape.sizes);
  y = gm_b_expand (b, y, shape.ndim, shape.sizes);
  GmVal part[2][3], out[3];
  for (int i = 0; i < 3; i++) {
    part[0][i] = gm_b_slice (b, x, dim, i, i + 1, 1);
    part[1][i] = gm_b_slice (b, y, dim, i, i + 1, 1);
  }
  for (int i = 0; i < 3; i++) {
    int j = (i + 1) % 3, k = (i + 2) % 3;
    GmVal p = gm_apply2 (b, mul, part[0][j], part[1][k]);
    GmVal q = gm_apply2 (b, mul, part[0][k], part[1][j]);
    out[i] = gm_apply2 (b, sub, p, q);
  }
  CHECK ();
  return gm_give (gm_cat (b, out, 3, dim));
}

/* Computes output[..., k] = x[..., i] weight[k, i, j] y[..., j] + bias[k]. */
RUN (bilinear)
{
  GmVal x = TENSOR (0), y = TENSOR (1), w = TENSOR (2), bias = OPTIONAL_TENSOR (3);
  CHECK ();
  GmMeta mx = *META (x), my = *META (y), mw = *META (w);
  bool fits = mx.ndim >= 1 && mx.ndim == my.ndim && mw.ndim == 3
              && gm_size_eq (mx.sizes[mx.ndim - 1], mw.sizes[1])
              && gm_size_eq (my.sizes[my.ndim - 1], mw.sizes[2]);
  for (int d = 0; fits && d < mx.ndim - 1; d++)
    fits = gm_size_eq (mx.sizes[d], my.sizes[d]);
  if (!fits) {
    g_autofree char *one = gm_meta_text (&mx), *two = gm_meta_text (&my),
                    *three = gm_meta_text (&mw);
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME,
                   "bilinear(): inputs %s and %s do not go with a weight %s [out, in1, in2]", one,
                   two, three));
  }
  int64_t rows = 1, n1 = mw.sizes[1], n2 = mw.sizes[2], out = mw.sizes[0];
  for (int d = 0; d < mx.ndim - 1; d++)
    rows = gm_size_mul (rows, mx.sizes[d]);
  x = gm_b_reshape (b, x, 2, (const int64_t[]){ rows, n1 });
  y = gm_b_reshape (b, y, 3, (const int64_t[]){ rows, 1, n2 });
  /* [rows, i] x [i, k j], then the products with y summed over j */
  GmVal flat = gm_b_reshape (b, gm_b_permute (b, w, (const int64_t[]){ 1, 0, 2 }), 2,
                             (const int64_t[]){ n1, gm_size_mul (out, n2) });
  GmVal p = gm_b_reshape (b, gm_matmul (api, b, x, flat), 3, (const int64_t[]){ rows, out, n2 });
  int64_t last = 2;
  GmVal v = gm_b_reduce (b, GM_OP_sum, gm_apply2 (b, mul, p, y), &last, 1, false);
  mx.sizes[mx.ndim - 1] = out;
  v = gm_b_reshape (b, v, mx.ndim, mx.sizes);
  return gm_give (bias ? gm_apply2 (b, add, v, bias) : v);
}

/* -- beta * input + alpha * product ------------------------------------------------------------ */

static GmVal
shaped (const GmApi *api, GmBuilder *b, GmArg *a, int i, int ndim)
{
  GmVal v = TENSOR (i);
  if (v && META (v)->ndim != ndim)
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "%s(): argument '%s' must have %d dimensions, but has %d", api->name,
                      api->arg_names[i], ndim, META (v)->ndim);
  return v;
}

/* True if the dtype of argument 0 holds beta and alpha (arguments 3 and 4) exactly as numbers of
 * its own: addmv and addr compute with them in halves; else sets an error. */
static bool
factors_fit (GmBuilder *b, const GmArg *a)
{
  GmDtype d =
      gm_b_failed (b) || a[0].kind != GM_ARG_TENSOR ? GM_F64 : (GmDtype) META (a[0].v)->dtype;
  return gm_number_fits (b, &a[3], d) && gm_number_fits (b, &a[4], d);
}

RUN (addmv)
{
  GmVal x = shaped (api, b, a, 1, 2), y = shaped (api, b, a, 2, 1);
  factors_fit (b, a);
  CHECK ();
  return gm_add_product (api, b, a, gm_matmul (api, b, x, y));
}

RUN (addr)
{
  GmVal x = shaped (api, b, a, 1, 1), y = shaped (api, b, a, 2, 1);
  factors_fit (b, a);
  CHECK ();
  bool whole = a[0].kind == GM_ARG_TENSOR && !gm_dtype_is_float (META (a[0].v)->dtype);
  if ((a[3].kind == GM_ARG_BOOL || a[4].kind == GM_ARG_BOOL)
      && !(whole && META (a[0].v)->dtype == GM_BOOL))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "addr(): boolean alpha and beta are for boolean results only"));
  if (whole && (a[3].kind == GM_ARG_FLOAT || a[4].kind == GM_ARG_FLOAT))
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "addr(): for integral input tensors, alpha and beta must not be floating point numbers"));
  return gm_add_product (api, b, a, gm_apply2 (b, mul, gm_unsqueeze (b, x, 1), y));
}

RUN (addbmm)
{
  GmVal x = shaped (api, b, a, 1, 3), y = shaped (api, b, a, 2, 3);
  CHECK ();
  int64_t batch = 0;
  return gm_add_product (api, b, a,
                         gm_b_reduce (b, GM_OP_sum, gm_matmul (api, b, x, y), &batch, 1, false));
}

RUN (vdot)
{
  GmVal x = shaped (api, b, a, 0, 1), y = shaped (api, b, a, 1, 1);
  CHECK ();
  return gm_give (gm_matmul (api, b, x, y));
}

RUN (chain_matmul)
{
  int n = 0;
  g_autofree GmVal *v = gm_arg_tensors (api, b, a, 0, &n);
  CHECK ();
  for (int i = 1; i < n && !gm_b_failed (b); i++)
    v[0] = gm_matmul (api, b, v[0], v[i]);
  return gm_give (gm_b_failed (b) ? NULL : v[0]);
}

/* Squares repeatedly: about 2 log2 (n) products. */
RUN (matrix_power)
{
  GmVal x = TENSOR (0);
  int64_t n = INT (1);
  CHECK ();
  GmMeta m = *META (x);
  if (m.ndim < 2 || !gm_size_eq (m.sizes[m.ndim - 1], m.sizes[m.ndim - 2]))
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "matrix_power(): the input must be square matrices"));
  if (n < 0)
    return gm_give (
        gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                   "matrix_power(): negative powers need an inverse, which there is not yet"));
  if (n == 0) {
    int64_t k = m.sizes[m.ndim - 1];
    GmVal hit = gm_b (b, eq, gm_unsqueeze (b, gm_b_arange (b, 0, 1, k, GM_I64), 1),
                      gm_b_arange (b, 0, 1, k, GM_I64));
    return gm_give (gm_apply1 (
        b, copy, gm_b_expand (b, gm_b_cast (b, hit, (GmDtype) m.dtype), m.ndim, m.sizes)));
  }
  GmVal power = x, out = NULL;
  for (; n && !gm_b_failed (b); n >>= 1) {
    if (n & 1)
      out = out ? gm_matmul (api, b, out, power) : power;
    if (n > 1)
      power = gm_matmul (api, b, power, power);
  }
  return gm_give (gm_b_failed (b) ? NULL : out == x ? gm_b (b, copy, x) : out);
}

RUN (trace)
{
  GmVal x = shaped (api, b, a, 0, 2);
  CHECK ();
  GmDtype d = (GmDtype) META (x)->dtype;
  int64_t rows = META (x)->sizes[0], cols = META (x)->sizes[1];
  GmVal hit = gm_b (b, eq, gm_unsqueeze (b, gm_b_arange (b, 0, 1, rows, GM_I64), 1),
                    gm_b_arange (b, 0, 1, cols, GM_I64));
  GmDtype to = gm_dtype_is_float (d) ? d : GM_I64;
  GmVal line = gm_b (b, where, hit, gm_b_cast (b, x, to), gm_b_scalar (b, gm_scalar_int (0), to));
  return gm_give (gm_b_reduce (b, GM_OP_sum, line, NULL, 0, false));
}

/* -- Distances --------------------------------------------------------------------------------- */

/* Returns the p-norm of all differences of rows: [..., p, m] and [..., r, m] give [..., p, r]. */
RUN (cdist)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  double p = FLOAT (2);
  CHECK ();
  int nx = META (x)->ndim, ny = META (y)->ndim;
  if (nx < 2 || ny < 2 || !gm_size_eq (META (x)->sizes[nx - 1], META (y)->sizes[ny - 1]))
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "cdist(): x1 and x2 must have at least two dimensions, and the last of one size"));
  if (!(p >= 0))
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "cdist(): p must not be negative, but is %g", p));
  GmVal d = gm_apply2 (b, sub, gm_unsqueeze (b, x, nx - 1), gm_unsqueeze (b, y, ny - 2));
  CHECK ();
  int64_t last = META (d)->ndim - 1;
  return gm_give (gm_norm (b, d, p, &last, 1, false));
}

RUN (pairwise_distance)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  double p = FLOAT (2), eps = FLOAT (3);
  bool keepdim = FLAG (4);
  CHECK ();
  GmVal d = gm_apply_num (b, add, gm_apply2 (b, sub, x, y), eps);
  CHECK ();
  int64_t last = META (d)->ndim - 1;
  return gm_give (gm_norm (b, d, p, &last, META (d)->ndim ? 1 : 0, keepdim));
}

/* Returns the upper triangle of cdist (x, x), as a vector. */
RUN (pdist)
{
  GmVal x = shaped (api, b, a, 0, 2);
  double p = FLOAT (1);
  CHECK ();
  int64_t n = gm_size_number (META (x)->sizes[0]), pairs = n * (n - 1) / 2, m = META (x)->sizes[1];
  if (pairs == 0)
    return gm_give (gm_b_full (b, gm_scalar_float (0), (GmDtype) META (x)->dtype, 1, &pairs));
  g_autofree GmVal *parts = g_new (GmVal, n);
  for (int64_t i = 0; i + 1 < n && !gm_b_failed (b); i++)
    parts[i] = gm_b (
        b, sub,
        gm_b_expand (b, gm_b_slice (b, x, 0, i, i + 1, 1), 2, (const int64_t[]){ n - 1 - i, m }),
        gm_b_slice (b, x, 0, i + 1, n, 1));
  CHECK ();
  GmVal d = n == 2 ? parts[0] : gm_cat (b, parts, (int) n - 1, 0);
  int64_t last = 1;
  return gm_give (gm_norm (b, d, p, &last, 1, false));
}

RUN (dist)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  double p = FLOAT (2);
  CHECK ();
  GmVal d = gm_apply2 (b, sub, x, y);
  CHECK ();
  if (!gm_dtype_is_float (META (d)->dtype))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "dist(): takes floating dtypes, not %s; cast the inputs first",
                               gm_dtypes[META (d)->dtype].torch_name));
  return gm_give (gm_norm (b, d, p, NULL, 0, false));
}
