/* SPDX-License-Identifier: Apache-2.0
 * api_getitem.c -- subscripts: x[key] and x[key] = value.
 *
 * A key is a tuple of ints, slices, None, one Ellipsis, bools, lists of ints and integer tensors.
 * First the basic part is applied, as views; the tensors stand at dimensions of that view. One
 * tensor is an index_select with its own shape put in. Several are broadcast and applied one after
 * the other: the first selects, each next one gathers along its dimension, so that every index is
 * checked against its own size. As in torch, their shape comes first if a dimension of the view
 * stands between them; tensors without dimensions count as ints for that rule. A bool mask in a
 * read becomes index tensors, if the builder can count the selected elements. A bool is the mask of
 * a new dimension of size 1. Writing through tensors makes one long dimension of those that they
 * index.
 */
#include "core/api/api_private.h"

#define FMT "%" G_GINT64_FORMAT

typedef struct {
  GmVal view;               /* after ints, slices and None */
  GmVal index[GM_MAX_DIMS]; /* int64 tensors, */
  int at[GM_MAX_DIMS];      /* dimension of `view` that each of them indexes */
  int n;
  GmVal mask;   /* a bool tensor, alone in the key; or NULL */
  bool nothing; /* the key is False, which selects nothing */
} Subscript;

/* -- Parsing a key ----------------------------------------------------------------------------- */

/* True if k is a tensor that acts as a mask: bool, or bytes, which torch reads as bools here. */
static bool
is_mask (GmBuilder *b, const GmArg *k)
{
  return k->kind == GM_ARG_TENSOR && (META (k->v)->dtype == GM_BOOL || META (k->v)->dtype == GM_U8);
}

/* Returns the number of dimensions of the input that the part k of a key consumes. */
static int
takes (GmBuilder *b, const GmArg *k)
{
  switch (k->kind) {
  case GM_ARG_NONE:
  case GM_ARG_ELLIPSIS:
  case GM_ARG_BOOL:
    return 0;
  case GM_ARG_TENSOR:
    return is_mask (b, k) ? META (k->v)->ndim : 1;
  default:
    return 1;
  }
}

static int64_t
slice_bound (GmBuilder *b, const GmArg *x, int64_t or_else, int64_t size)
{
  if (x->kind == GM_ARG_NONE)
    return or_else;
  int64_t i = x->i;
  if (x->kind != GM_ARG_INT && x->kind != GM_ARG_BOOL) {
    GmScalar s = { 0 };
    if (x->kind != GM_ARG_TENSOR || gm_dtype_is_float (META (x->v)->dtype)
        || !b->vt->item (b, x->v, &s))
      gm_b_fail (b, GM_ERROR_TYPE, "slice indices must be integers or None, not %s",
                 gm_arg_kind_name (x));
    i = s.i;
  }
  if (gm_size_lt (i, 0))
    i = gm_size_add (i, size);
  return gm_size_max (0, gm_size_min (i, size));
}

static GmVal
take_slice (GmBuilder *b, GmVal v, int dim, const GmArg *k)
{
  int64_t size = META (v)->sizes[dim];
  int64_t start = slice_bound (b, &k->items[0], 0, size),
          stop = slice_bound (b, &k->items[1], size, size), step = 1;
  if (k->items[2].kind == GM_ARG_INT || k->items[2].kind == GM_ARG_BOOL)
    step = gm_size_number (k->items[2].i);
  else if (k->items[2].kind != GM_ARG_NONE)
    gm_b_fail (b, GM_ERROR_TYPE, "slice indices must be integers or None, not %s",
               gm_arg_kind_name (&k->items[2]));
  if (step <= 0)
    return gm_b_fail (b, GM_ERROR_VALUE,
                      "slice step must be greater than zero, not " FMT "; use flip to reverse",
                      step);
  return gm_b_slice (b, v, dim, start, gm_size_max (start, stop), step);
}

static GmVal
take_int (GmBuilder *b, GmVal v, int dim, int64_t i)
{
  int64_t size = META (v)->sizes[dim];
  int64_t at = gm_size_lt (i, 0) ? gm_size_add (i, size) : i;
  if (gm_size_lt (at, 0) || gm_size_le (size, at)) {
    g_autofree char *index = gm_size_text (i), *all = gm_size_text (size);
    return gm_b_fail (b, GM_ERROR_INDEX, "index %s is out of bounds for dimension %d with size %s",
                      index, dim, all);
  }
  return gm_squeeze (b, gm_b_slice (b, v, dim, at, gm_size_add (at, 1), 1), dim);
}

/* Returns `index` with `size` added to negative elements, as the ops do not count from the end. */
static GmVal
wrap_index (GmBuilder *b, GmVal index, int64_t size)
{
  GmVal low = gm_b (b, lt, index, gm_b_scalar (b, gm_scalar_int (0), GM_I64));
  return gm_b (b, where, low, gm_b (b, add, index, gm_b_scalar (b, gm_scalar_int (size), GM_I64)),
               index);
}

/* Returns a constant int64 vector of n numbers. */
static GmVal
positions (GmBuilder *b, const int64_t *of, int64_t n)
{
  GmMeta m = gm_meta_make (GM_I64, 1, &n);
  GError *error = NULL;
  g_autoptr (GmTensor) t = gm_tensor_new (&m, &error);
  if (!t) {
    b->error = error;
    return NULL;
  }
  for (int64_t i = 0; i < n; i++)
    ((int64_t *) gm_tensor_data (t))[i] = of[i];
  return b->vt->constant (b, t);
}

/* Returns the int64 index of the true elements in a list of bools, the mask of dimension dim. */
static GmVal
bools_index (GmBuilder *b, const GmArg *k, int dim, int64_t size)
{
  g_autofree int64_t *at = g_new (int64_t, k->n);
  int64_t n = 0;
  if (!gm_size_eq (size, k->n))
    return gm_b_fail (b, GM_ERROR_INDEX,
                      "a list of %d bools cannot index dimension %d with size " FMT, k->n, dim,
                      gm_size_number (size));
  for (int i = 0; i < k->n; i++)
    if (k->items[i].i)
      at[n++] = i;
  return positions (b, at, n);
}

/* Returns a constant of the numbers of a list; numbers that count from the end of a size that is an
 * expression are wrapped by the graph. */
static GmVal
list_index (GmBuilder *b, const GmArg *k, int dim, int64_t size)
{
  g_autofree int64_t *at = g_new (int64_t, k->n);
  bool wrap = false;
  int n_bools = 0;
  for (int i = 0; i < k->n; i++)
    n_bools += k->items[i].kind == GM_ARG_BOOL;
  if (n_bools && n_bools == k->n)
    return bools_index (b, k, dim, size);
  for (int i = 0; i < k->n; i++) {
    const GmArg *x = &k->items[i];
    if (x->kind != GM_ARG_INT && x->kind != GM_ARG_BOOL)
      return gm_b_fail (b, GM_ERROR_INDEX,
                        "a list used as an index must hold ints, but element %d is %s", i,
                        gm_arg_kind_name (x));
    int64_t number = x->kind == GM_ARG_INT ? gm_size_number (x->i) : x->i != 0;
    if (gm_size_lt (number, gm_size_sub (0, size)) || gm_size_le (size, number))
      return gm_b_fail (b, GM_ERROR_INDEX,
                        "index " FMT " is out of bounds for dimension %d with size " FMT, number,
                        dim, gm_size_number (size));
    bool later = number < 0 && gm_size_is_symbolic (size);
    wrap |= later;
    at[i] = number < 0 && !later ? number + size : number;
  }
  GmVal index = positions (b, at, k->n);
  return wrap && index ? wrap_index (b, index, size) : index;
}

static void
add_index (Subscript *s, GmVal index, int dim)
{
  s->index[s->n] = index;
  s->at[s->n++] = dim;
}

static void
take_index (GmBuilder *b, Subscript *s, const GmArg *k, int dim)
{
  int64_t size = META (s->view)->sizes[dim];
  if (k->kind == GM_ARG_LIST) {
    add_index (s, list_index (b, k, dim, size), dim);
    return;
  }
  GmDtype d = (GmDtype) META (k->v)->dtype;
  if (gm_dtypes[d].category != GM_CATEGORY_INT)
    gm_b_fail (b, GM_ERROR_INDEX,
               "tensors used as indices must be int32, int64, uint8 or bool tensors, not %s",
               gm_dtypes[d].torch_name);
  else
    add_index (s, wrap_index (b, gm_b_cast (b, k->v, GM_I64), size), dim);
}

/* Applies a bool of the key at dim: a new dimension of size 1 (true) or 0 (false). */
static void
take_bool (GmBuilder *b, Subscript *s, const GmArg *k, int dim)
{
  static const int64_t zero, one = 1;
  bool yes = k->i != 0;
  GmVal index[GM_MAX_DIMS] = { NULL };
  if (META (s->view)->ndim == GM_MAX_DIMS || s->n == GM_MAX_DIMS) {
    gm_b_fail (b, GM_ERROR_INDEX,
               "a bool as an index makes a dimension, and a tensor has at most %d", GM_MAX_DIMS);
    return;
  }
  if (k->kind == GM_ARG_TENSOR && b->vt->count) {
    gm_mask_places (b, gm_b_view (b, k->v, 1, &one), index);
  } else {
    GmScalar here = { 0 };
    if (k->kind == GM_ARG_TENSOR && b->vt->item (b, gm_b_cast (b, k->v, GM_BOOL), &here))
      yes = here.i != 0;
    index[0] = gm_b_failed (b) ? NULL : positions (b, &zero, yes);
  }
  s->view = gm_unsqueeze (b, s->view, dim);
  add_index (s, index[0], dim);
}

static bool
parse (GmBuilder *b, GmVal v, const GmArg *key, Subscript *s, bool writes)
{
  bool is_tuple = key->kind == GM_ARG_LIST && key->is_tuple;
  const GmArg *k = is_tuple ? key->items : key;
  int n = is_tuple ? key->n : 1, ndim = META (v)->ndim, used = 0, dots = 0, dim = 0;
  *s = (Subscript){ .view = v, .nothing = n == 1 && k->kind == GM_ARG_BOOL && !k->i };
  for (int i = 0; i < n; i++) {
    used += takes (b, &k[i]);
    dots += k[i].kind == GM_ARG_ELLIPSIS;
  }
  if (used > ndim || dots > 1) {
    if (dots > 1)
      gm_b_fail (b, GM_ERROR_INDEX, "an index can only have a single ellipsis ('...')");
    else
      gm_b_fail (b, GM_ERROR_INDEX, "too many indices for tensor of dimension %d", ndim);
    return false;
  }
  for (int i = 0; i < n && !gm_b_failed (b); i++) {
    switch (k[i].kind) {
    case GM_ARG_NONE:
      s->view = gm_unsqueeze (b, s->view, dim++);
      break;
    case GM_ARG_ELLIPSIS:
      dim += ndim - used;
      break;
    case GM_ARG_INT:
      s->view = take_int (b, s->view, dim, k[i].i);
      break;
    case GM_ARG_SLICE:
      s->view = take_slice (b, s->view, dim++, &k[i]);
      break;
    case GM_ARG_BOOL:
      take_bool (b, s, &k[i], dim++);
      break;
    case GM_ARG_LIST:
      take_index (b, s, &k[i], dim++);
      break;
    case GM_ARG_TENSOR:
      if (is_mask (b, &k[i]) && META (k[i].v)->ndim == 0 && !(writes && n == 1 && b->vt->count)) {
        take_bool (b, s, &k[i], dim++);
      } else if (is_mask (b, &k[i])) {
        if (n > 1) {
          gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                     "a bool mask must be the only index; use where or masked_fill");
          return false;
        }
        s->mask = gm_b_cast (b, k[i].v, GM_BOOL);
      } else {
        take_index (b, s, &k[i], dim++);
      }
      break;
    default:
      /* a str is a sequence, but not of numbers */
      gm_b_fail (b, k[i].kind == GM_ARG_STR ? GM_ERROR_TYPE : GM_ERROR_INDEX,
                 "only integers, slices (`:`), ellipsis (`...`), None and integer or bool tensors "
                 "are valid indices, not %s",
                 gm_arg_kind_name (&k[i]));
    }
  }
  return !gm_b_failed (b);
}

/* -- Reading ----------------------------------------------------------------------------------- */

/* Selects from v along dim by one index tensor of any shape, whose dimensions replace dim. */
static GmVal
select_one (GmBuilder *b, GmVal v, int dim, GmVal index)
{
  const GmMeta *i = META (index);
  int64_t n = gm_meta_numel (i), sizes[2 * GM_MAX_DIMS];
  int k = 0;
  GmMeta x = *META (v);
  for (int d = 0; d < x.ndim; d++)
    if (d == dim)
      for (int e = 0; e < i->ndim; e++)
        sizes[k++] = i->sizes[e];
    else
      sizes[k++] = x.sizes[d];
  return gm_b_view (b, gm_index_select (b, v, dim, gm_b_reshape (b, index, 1, &n)), k, sizes);
}

/* Broadcasts the index tensors of s to one shape, stored in *shape. False after an error. */
static bool
broadcast_indices (GmBuilder *b, Subscript *s, GmMeta *shape)
{
  *shape = *META (s->index[0]);
  for (int i = 1; i < s->n; i++) {
    GmMeta both = *shape;
    GError *error = NULL;
    if (!gm_meta_broadcast (shape, META (s->index[i]), &both, &error)) {
      gm_b_fail (b, GM_ERROR_INDEX, "the index tensors do not broadcast: %s", error->message);
      g_error_free (error);
      return false;
    }
    shape->ndim = both.ndim;
    memcpy (shape->sizes, both.sizes, sizeof shape->sizes);
  }
  for (int i = 0; i < s->n; i++)
    s->index[i] = gm_b_expand (b, s->index[i], shape->ndim, shape->sizes);
  return !gm_b_failed (b);
}

/* Orders the dimensions: the indexed ones first, in order[0 .. n). Returns the number of other
 * dimensions before the indices' shape. */
static int
front_order (GmBuilder *b, const Subscript *s, int ndim, int64_t order[GM_MAX_DIMS])
{
  uint32_t indexed = 0;
  bool together = true;
  int lead = -1, last = 0, before = 0; /* index tensors without dimensions leave no dimension */
  for (int i = 0; i < s->n; i++) {
    indexed |= 1u << s->at[i];
    order[i] = s->at[i];
    if (META (s->index[i])->ndim == 0) {
      before++;
      continue;
    }
    together &= lead < 0 || s->at[i] - before == last + 1;
    last = s->at[i] - before;
    lead = lead < 0 ? last : lead;
  }
  int rest = s->n;
  for (int d = 0; d < ndim; d++)
    if (!(indexed >> d & 1))
      order[rest++] = d;
  return together ? MAX (lead, 0) : 0;
}

/* Selects by several index tensors. Their dimensions move to the front; the first is selected from,
 * each further one gathered from. */
static GmVal
select_many (GmBuilder *b, Subscript *s)
{
  GmMeta shape, x = *META (s->view);
  int64_t order[GM_MAX_DIMS];
  int lead = front_order (b, s, x.ndim, order);
  if (!broadcast_indices (b, s, &shape))
    return NULL;
  int64_t n = gm_meta_numel (&shape);
  GmVal v = gm_b_permute (b, s->view, order);
  v = gm_index_select (b, v, 0, gm_b_reshape (b, s->index[0], 1, &n));
  for (int i = 1; i < s->n && !gm_b_failed (b); i++) { /* v: [n, size of this index, ...] */
    GmMeta m = *META (v);
    int64_t ones[GM_MAX_DIMS] = { n, 1, 1, 1, 1, 1, 1, 1 };
    GmVal at = gm_b_view (b, gm_b_reshape (b, s->index[i], 1, &n), m.ndim, ones);
    m.sizes[1] = 1;
    v = gm_squeeze (b, gm_gather (b, v, 1, gm_b_expand (b, at, m.ndim, m.sizes)), 1);
  }
  if (gm_b_failed (b))
    return NULL;
  /* [n, rest] to [shape, rest], and the shape back to where the indices stood. */
  int64_t sizes[2 * GM_MAX_DIMS], back[2 * GM_MAX_DIMS];
  int k = 0;
  for (int d = 0; d < shape.ndim; d++)
    sizes[k++] = shape.sizes[d];
  for (int d = 1; d < META (v)->ndim; d++)
    sizes[k++] = META (v)->sizes[d];
  v = gm_b_view (b, v, k, sizes);
  for (int d = 0; d < k; d++)
    back[d] = d < lead ? shape.ndim + d : d < lead + shape.ndim ? d - lead : d;
  return gm_b_permute (b, v, back);
}

/* Copies the key to `list` with masks replaced by index tensors, if the builder can count their
 * elements. The caller owns `items`, the memory of the list. */
static bool
replace_masks (GmBuilder *b, const GmArg *key, GmArg *list, GArray *items)
{
  bool is_tuple = key->kind == GM_ARG_LIST && key->is_tuple, any = false;
  const GmArg *k = is_tuple ? key->items : key;
  for (int i = 0; i < (is_tuple ? key->n : 1); i++) {
    GmVal at[GM_MAX_DIMS];
    bool mask = is_mask (b, &k[i]) && META (k[i].v)->ndim > 0;
    int n = mask ? gm_mask_places (b, k[i].v, at) : 0;
    for (int d = 0; d < n; d++) {
      GmArg index = gm_tensor_arg (at[d]);
      g_array_append_val (items, index);
    }
    if (!mask)
      g_array_append_val (items, k[i]);
    any |= mask;
  }
  *list = (GmArg){ .kind = GM_ARG_LIST,
                   .is_tuple = true,
                   .n = (uint16_t) items->len,
                   .items = (GmArg *) items->data };
  return any;
}

/* True if each mask in the key has the sizes of the dimensions of v that it consumes; if not, eager
 * raises the error. */
static bool
masks_fit (GmBuilder *b, GmVal v, const GmArg *key)
{
  bool is_tuple = key->kind == GM_ARG_LIST && key->is_tuple;
  const GmArg *k = is_tuple ? key->items : key;
  int n = is_tuple ? key->n : 1, used = 0, dim = 0;
  const GmMeta *m = META (v);
  for (int i = 0; i < n; i++)
    used += takes (b, &k[i]);
  for (int i = 0; i < n; i++) {
    const GmMeta *mask = is_mask (b, &k[i]) ? META (k[i].v) : NULL;
    for (int d = 0; mask && d < mask->ndim; d++)
      if (dim + d >= m->ndim || !gm_size_eq (mask->sizes[d], m->sizes[dim + d]))
        return false;
    dim += k[i].kind == GM_ARG_ELLIPSIS ? MAX (m->ndim - used, 0) : takes (b, &k[i]);
  }
  return true;
}

RUN (getitem)
{
  Subscript s;
  GmVal v = TENSOR (0);
  if (!gm_b_failed (b) && b->vt->count) {
    g_autoptr (GArray) items = g_array_new (FALSE, FALSE, sizeof (GmArg));
    GmArg with = a[1];
    if (masks_fit (b, v, &a[1]) && replace_masks (b, &a[1], &with, items) && !gm_b_failed (b)) {
      GmArg again[GM_API_MAX_ARGS + 1];
      memcpy (again, a, sizeof again);
      again[1] = with;
      return gm_run_getitem (api, b, again);
    }
  }
  if (gm_b_failed (b) || !parse (b, v, &a[1], &s, false))
    return gm_give (NULL);
  if (s.mask) {
    b->masked = !gm_b_failed (b);
    return gm_give (
        gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                   "x[mask]: the size of the result depends on the values of the mask"));
  }
  if (s.n == 0)
    return gm_give (s.view);
  return gm_give (s.n == 1 ? select_one (b, s.view, s.at[0], s.index[0]) : select_many (b, &s));
}

/* -- Writing ----------------------------------------------------------------------------------- */

/* Returns the view with `value` written, or added, at the positions of the index tensors; at equal
 * positions the last value is written, or all are added. The indexed dimensions become a single
 * dimension, whose length is their product, and so do the others. */
static GmVal
put_at (GmBuilder *b, Subscript *s, GmVal value, bool add)
{
  GmMeta shape, x = *META (s->view);
  int64_t order[GM_MAX_DIMS], back[GM_MAX_DIMS], places = 1, each = 1;
  int lead = front_order (b, s, x.ndim, order);
  if (!broadcast_indices (b, s, &shape))
    return NULL;
  int64_t n = gm_meta_numel (&shape);
  GmVal at = NULL;
  for (int i = s->n; i-- > 0;) {
    int64_t size = x.sizes[s->at[i]];
    /* An index out of range must be an error: selecting from the positions, times their distance,
     * says so. */
    GmVal own = gm_index_select (b, gm_b_arange (b, 0, places, size, GM_I64), 0,
                                 gm_b_reshape (b, s->index[i], 1, &n));
    at = at ? gm_b (b, add, at, own) : own;
    places = gm_size_mul (places, size);
  }
  /* The value broadcasts to a shape with the indices' shape in place of their dimensions, or in
   * front. */
  int64_t sizes[2 * GM_MAX_DIMS], turn[2 * GM_MAX_DIMS];
  int k = 0, rest = x.ndim - s->n, all = shape.ndim + rest;
  if (all > GM_MAX_DIMS)
    return gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "x[indices] = value: what the indices select has %d dimensions; a tensor has at most %d",
        all, GM_MAX_DIMS);
  for (int d = 0; d < rest; d++) {
    int64_t size = x.sizes[order[s->n + d]];
    each = gm_size_mul (each, size);
    sizes[d < lead ? d : d + shape.ndim] = size;
    turn[shape.ndim + d] = d < lead ? d : d + shape.ndim;
  }
  for (; k < shape.ndim; k++) {
    sizes[lead + k] = shape.sizes[k];
    turn[k] = lead + k;
  }
  value = gm_b_permute (b, gm_b_expand (b, value, all, sizes), turn);
  value = gm_b_reshape (b, value, 2, (const int64_t[]){ n, each });
  GmVal v = gm_b_permute (b, s->view, order);
  if (gm_b_failed (b))
    return NULL;
  GmMeta front = *META (v);
  GmDtype own = (GmDtype) front.dtype, sum = own == GM_BOOL && add ? GM_U8 : own;
  v = gm_b_cast (b, gm_b_reshape (b, v, 2, (const int64_t[]){ places, each }), sum);
  at = gm_b_expand (b, gm_unsqueeze (b, at, 1), 2, (const int64_t[]){ n, each });
  v = add ? gm_scatter_add (b, v, 0, at, gm_b_cast (b, value, sum))
          : gm_scatter_replace (b, v, 0, at, value);
  for (int d = 0; d < x.ndim; d++)
    back[order[d]] = d;
  return gm_b_permute (b, gm_b_view (b, gm_b_cast (b, v, own), front.ndim, front.sizes), back);
}

/* Returns the value without leading dimensions of size 1 beyond the `ndim` of the destination,
 * which torch drops. */
static GmVal
fit_value (GmBuilder *b, GmVal value, int ndim)
{
  while (!gm_b_failed (b) && META (value)->ndim > ndim && gm_size_eq (META (value)->sizes[0], 1))
    value = gm_squeeze (b, value, 0);
  return value;
}

static GmArg
set_masked (GmBuilder *b, GmVal v, GmVal mask, GmVal value)
{
  GmMeta m = *META (mask), x = *META (v);
  bool fits = m.ndim <= x.ndim;
  for (int d = 0; fits && d < m.ndim; d++)
    fits = gm_size_eq (m.sizes[d], x.sizes[d]);
  if (!fits) {
    g_autofree char *ms = gm_shape_text (m.ndim, m.sizes), *xs = gm_shape_text (x.ndim, x.sizes);
    return gm_give (gm_b_fail (
        b, GM_ERROR_INDEX,
        "the shape of the mask %s does not match the shape of the indexed tensor %s", ms, xs));
  }
  /* The value must be the same for all positions along the mask, or its length would depend on
   * data. */
  if (META (value)->ndim > x.ndim - m.ndim && !gm_size_eq (gm_meta_numel (META (value)), 1)) {
    b->masked = !gm_b_failed (b);
    return gm_give (gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                               "x[mask] = value: the value must broadcast to the dimensions after "
                               "the mask; use where or masked_fill"));
  }
  if (META (value)->ndim == 0 || gm_size_eq (gm_meta_numel (META (value)), 1))
    value = gm_b_reshape (b, value, 0, NULL);
  for (int d = m.ndim; d < x.ndim; d++)
    m.sizes[d] = 1;
  mask = gm_b_view (b, mask, x.ndim, m.sizes);
  CHECK ();
  return gm_give (b->vt->into (b, v, GM_OP_where, (const GmVal[]){ mask, value, v }, 3, NULL));
}

/* Returns a number of the CPU on the device of `like`; other values unchanged. Ops that are not
 * elementwise need tensors of one device. */
static GmVal
beside (GmBuilder *b, GmVal value, GmVal like)
{
  const GmMeta *m = META (value);
  if (m->device == META (like)->device || m->ndim)
    return value;
  GmVal there = gm_b_full_beside (b, gm_scalar_int (0), (GmDtype) m->dtype, 0, NULL, like);
  return gm_b (b, where, gm_b_scalar (b, gm_scalar_bool (true), GM_BOOL), value, there);
}

RUN (setitem)
{
  Subscript s;
  GmVal v = TENSOR (0);
  if (gm_b_failed (b) || !parse (b, v, &a[1], &s, true))
    return gm_give (NULL);
  if (a[2].kind != GM_ARG_TENSOR && !gm_arg_is_number (&a[2]))
    return gm_give (gm_arg_fail (api, b, a, 2, "Tensor or Number"));
  GmDtype d = (GmDtype) META (v)->dtype;
  bool half = d == GM_F16 || d == GM_BF16; /* which store infinity, as x[mask] = -1e9 needs */
  GmVal value = half ? gm_as_dtype (b, &a[2], d) : gm_value_as (b, &a[2], d);
  CHECK ();
  if (s.nothing)
    return gm_give (v);
  if (s.mask)
    return set_masked (b, v, s.mask, value);
  int index_dims = 0;
  for (int i = 0; i < s.n; i++)
    index_dims = MAX (index_dims, META (s.index[i])->ndim);
  value = fit_value (b, value, META (s.view)->ndim + index_dims - s.n);
  CHECK ();
  if (s.n)
    value = put_at (b, &s, beside (b, value, v), false);
  CHECK ();
  if (!gm_check_apart (b, s.view))
    return gm_give (NULL);
  return gm_give (b->vt->into (b, s.view, GM_OP_copy, &value, 1, NULL));
}

/* Returns v with `value` written, or added, where a mask of its first dimensions holds: one value
 * for all such positions, or the next elements of the value for each. */
static GmVal
put_masked (GmBuilder *b, GmVal v, GmVal mask, GmVal value, bool add)
{
  GmMeta m = *META (mask), x = *META (v);
  bool fits = m.ndim <= x.ndim, all = META (value)->ndim <= x.ndim - m.ndim;
  for (int d = 0; fits && d < m.ndim; d++)
    fits = gm_size_eq (m.sizes[d], x.sizes[d]);
  if (!fits)
    return gm_b_fail (
        b, GM_ERROR_INDEX,
        "index_put(): the shape of the mask does not match that of the indexed tensor");
  for (int d = m.ndim; d < x.ndim; d++)
    m.sizes[d] = 1;
  m.ndim = x.ndim;
  mask = gm_b_expand (b, gm_b_view (b, mask, m.ndim, m.sizes), x.ndim, x.sizes);
  GmVal into = add ? gm_b_zeros_like (b, v) : v, put;
  if (all || gm_size_eq (gm_meta_numel (META (value)), 1))
    put = gm_b (b, where, mask, all ? value : gm_b_reshape (b, value, 0, NULL), into);
  else
    put = gm_run_masked_scatter (
              gm_api_find ("masked_scatter"), b,
              (GmArg[]){ gm_tensor_arg (into), gm_tensor_arg (mask), gm_tensor_arg (value) })
              .v;
  return add ? gm_apply2 (b, add, v, put) : put;
}

/* Returns input with values written, or added, at the positions that a list of tensors gives, one
 * for each of the first dimensions; None: all of the dimension. */
RUN (index_put)
{
  GmVal v = TENSOR (0), values = TENSOR (2);
  bool add = FLAG (3);
  CHECK ();
  GmArg none[3] = { { .kind = GM_ARG_NONE }, { .kind = GM_ARG_NONE }, { .kind = GM_ARG_NONE } },
        keys[GM_MAX_DIMS];
  if (a[1].kind != GM_ARG_LIST || a[1].n == 0 || a[1].n > GM_MAX_DIMS)
    return gm_give (gm_arg_fail (api, b, a, 1, "tuple of Tensors"));
  for (int i = 0; i < a[1].n; i++) {
    keys[i] = a[1].items[i];
    if (keys[i].kind == GM_ARG_NONE)
      keys[i] = (GmArg){ .kind = GM_ARG_SLICE, .n = 3, .items = none };
    else if (keys[i].kind != GM_ARG_TENSOR)
      return gm_give (gm_arg_fail (api, b, a, 1, "tuple of Tensors and None"));
  }
  if (META (v)->dtype != META (values)->dtype)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "index_put(): input and values must have one dtype, but have %s and %s",
        gm_dtypes[META (v)->dtype].torch_name, gm_dtypes[META (values)->dtype].torch_name));
  Subscript s;
  GmArg key = { .kind = GM_ARG_LIST, .is_tuple = true, .n = a[1].n, .items = keys };
  if (!parse (b, v, &key, &s, false))
    return gm_give (NULL);
  if (s.mask)
    return gm_give (put_masked (b, v, s.mask, values, add));
  if (s.n == 0)
    return gm_give (
        gm_b_fail (b, GM_ERROR_INDEX, "index_put(): at least one index must be a tensor"));
  return gm_give (put_at (b, &s, values, add));
}
