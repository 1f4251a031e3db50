/* SPDX-License-Identifier: Apache-2.0
 * loop_plan.c -- see loop_plan.h.
 */
#include "plugins/codegen/loop_plan.h"

const GrammeNode *
loop_member (const Loop *l, uint32_t m)
{
  return gramme_image_node (l->p->image, l->members[m]);
}

static uint32_t
through_detach (const Loop *l, uint32_t value)
{
  while (l->p->values[value].view_of != CG_NONE
         && gramme_image_node (l->p->image, l->p->values[value].node)->op == GRAMME_OP_detach)
    value = l->p->values[value].view_of;
  return value;
}

/* Returns the number of the member that makes this value, or -1. */
static int
maker (const Loop *l, uint32_t value)
{
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (loop_member (l, m)->out == value)
      return (int) m;
  return -1;
}

bool
loop_is_row (const Loop *l, uint32_t m)
{
  return l->p->values[loop_member (l, m)->out].role == CG_ROW;
}

bool
loop_is_fold (const Loop *l, uint32_t m)
{
  return gramme_op_facts (loop_member (l, m)->op).family == GRAMME_FAMILY_REDUCE;
}

/* True if member m reads its operands at every point, not once a row. */
bool
loop_reads_full (const Loop *l, uint32_t m)
{
  return !loop_is_row (l, m) || loop_is_fold (l, m);
}

uint32_t
loop_accum_dtype (const Loop *l, uint32_t m)
{
  return gramme_tile_accumulator (l->p->values[loop_member (l, m)->out].dtype);
}

bool
codegen_folds_wide (const CgProgram *p, const GrammeNode *n, int64_t length)
{
  return n->op == GRAMME_OP_sum && p->values[n->out].dtype == GRAMME_DTYPE_F32
         && codegen_size_may_exceed (length, p->tiles->tile_elems);
}

uint32_t
loop_fold_dtype (const Loop *l, uint32_t m)
{
  return codegen_folds_wide (l->p, loop_member (l, m), l->n) ? GRAMME_DTYPE_F64
                                                             : loop_accum_dtype (l, m);
}

bool
loop_casts_at_end (const Loop *l, uint32_t m)
{
  return loop_is_fold (l, m)
         && loop_fold_dtype (l, m) != l->p->values[loop_member (l, m)->out].dtype;
}

int
loop_access (Loop *l, uint32_t value, bool as_row, bool store)
{
  for (uint32_t i = 0; i < l->n_access; i++)
    if (l->access[i].value == value && l->access[i].as_row == as_row && l->access[i].store == store)
      return (int) i;
  Access *a = &l->access[l->n_access];
  *a = (Access){ .value = value, .as_row = as_row, .store = store, .tile = -1 };
  l->unfit = !codegen_strides (l->p, l->s, value, as_row, a->strides) || l->unfit;
  return (int) l->n_access++;
}

From
loop_operand (Loop *l, uint32_t m, uint32_t value, int *which)
{
  uint32_t literal = codegen_literal (l->p, value), inside = through_detach (l, value);
  if (literal != CG_NONE) {
    *which = (int) literal;
    return FROM_LITERAL;
  }
  bool full = loop_reads_full (l, m);
  *which = maker (l, inside);
  if (*which >= 0 && full && !loop_is_row (l, (uint32_t) *which))
    return FROM_TILE;
  uint32_t row = codegen_row_value (l->p, l->step, value, !full);
  if (row != CG_NONE) {
    *which = maker (l, row);
    return FROM_ROW;
  }
  *which = loop_access (l, value, !full, false);
  return FROM_MEMORY;
}

bool
loop_reads (Loop *l, uint32_t m, uint32_t k)
{
  const GrammeNode *n = loop_member (l, m);
  int which;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (loop_operand (l, m, gramme_node_in (l->p->image, n, i), &which) == FROM_MEMORY
        && which == (int) k)
      return true;
  return false;
}

bool
loop_crosses (Loop *l, uint32_t m)
{
  for (uint32_t r = m + 1; r < l->s->n_members; r++) {
    const GrammeNode *n = loop_member (l, r);
    for (uint32_t i = 0; l->phases[r] > l->phases[m] && i < n->n_in; i++) {
      int which;
      if (loop_operand (l, r, gramme_node_in (l->p->image, n, i), &which) == FROM_TILE
          && which == (int) m)
        return true;
    }
  }
  return false;
}

bool
loop_remakes (Loop *l, uint32_t m)
{
  const GrammeNode *n = loop_member (l, m);
  if (!l->vectors || loop_is_row (l, m) || l->p->values[n->out].stored)
    return false;
  switch (n->op) {
  case GRAMME_OP_add:
  case GRAMME_OP_sub:
  case GRAMME_OP_mul:
  case GRAMME_OP_neg:
  case GRAMME_OP_square:
    break;
  default:
    return false;
  }
  for (uint32_t i = 0; i < n->n_in; i++) {
    int which;
    if (loop_operand (l, m, gramme_node_in (l->p->image, n, i), &which) == FROM_TILE
        && !loop_remakes (l, (uint32_t) which))
      return false;
  }
  return true;
}

bool
loop_remake_reads (Loop *l, uint32_t m, uint32_t k)
{
  const GrammeNode *n = loop_member (l, m);
  int which;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (loop_operand (l, m, gramme_node_in (l->p->image, n, i), &which) == FROM_TILE
        && loop_remake_reads (l, (uint32_t) which, k))
      return true;
  return loop_reads (l, m, k);
}

/* Sorts the members by phase: row values that need no reduction, members at every point that use
 * those, row values of their reductions, and so on.  The order within a phase is kept. */
static void
plan_phases (Loop *l)
{
  uint32_t n = l->s->n_members, by_phase[CG_MAX_MEMBERS], filled = 0;
  int after[CG_MAX_MEMBERS], phases[CG_MAX_MEMBERS]; /* after: the first phase that may read it */
  memcpy (l->members, l->s->members, sizeof l->members);
  for (uint32_t m = 0; m < n; m++) {
    const GrammeNode *node = loop_member (l, m);
    phases[m] = 0;
    for (uint32_t i = 0; i < node->n_in; i++) {
      uint32_t value = gramme_node_in (l->p->image, node, i);
      int from = maker (l, l->p->values[value].root);
      if (from >= 0 && phases[m] < after[from])
        phases[m] = after[from];
    }
    after[m] = phases[m] + loop_is_fold (l, m);
    if (l->n_phases <= phases[m])
      l->n_phases = phases[m] + 1;
  }
  for (int key = 0; key < 2 * l->n_phases; key++)
    for (uint32_t m = 0; m < n; m++)
      if (2 * phases[m] + loop_reads_full (l, m) == key)
        by_phase[filled++] = m;
  for (uint32_t m = 0; m < n; m++) {
    l->members[m] = l->s->members[by_phase[m]];
    l->phases[m] = phases[by_phase[m]];
  }
}

static void
collect (Loop *l)
{
  int which;
  for (uint32_t m = 0; m < l->s->n_members; m++) {
    const GrammeNode *n = loop_member (l, m);
    for (uint32_t i = 0; i < n->n_in; i++)
      loop_operand (l, m, gramme_node_in (l->p->image, n, i), &which);
    if (l->p->values[n->out].stored)
      loop_access (l, n->out, loop_is_row (l, m), true);
  }
}

/* Sorts the dimensions of a loop without a split so that the first store's memory is walked in
 * order. The order of points does not matter where nothing is reduced. */
static void
sort_dims (Loop *l, int64_t *sizes, int n)
{
  const int64_t *key = NULL;
  for (uint32_t i = 0; i < l->n_access && !key; i++)
    if (l->access[i].store)
      key = l->access[i].strides;
  for (int i = 1; key && i < n; i++)
    for (int d = i;
         d > 0
         && codegen_size_guess (l->p->sizes, key[d - 1]) < codegen_size_guess (l->p->sizes, key[d]);
         d--) {
      int64_t size = sizes[d];
      sizes[d] = sizes[d - 1];
      sizes[d - 1] = size;
      for (uint32_t k = 0; k < l->n_access; k++) {
        int64_t stride = l->access[k].strides[d];
        l->access[k].strides[d] = l->access[k].strides[d - 1];
        l->access[k].strides[d - 1] = stride;
      }
    }
}

/* Merges dimensions [0, n) where all accesses allow it; returns the number of merged dimensions. */
static int
merge_dims (Loop *l, int64_t *sizes, int n)
{
  int left = 0;
  for (int d = 0; d < n; d++) {
    if (sizes[d] == 1)
      continue;
    bool merges = left > 0;
    for (uint32_t k = 0; k < l->n_access && merges; k++)
      merges = l->access[k].strides[left - 1]
               == codegen_size_mul (l->p->sizes, l->access[k].strides[d], sizes[d]);
    int to = merges ? left - 1 : left++;
    sizes[to] = merges ? codegen_size_mul (l->p->sizes, sizes[to], sizes[d]) : sizes[d];
    for (uint32_t k = 0; k < l->n_access; k++)
      l->access[k].strides[to] = l->access[k].strides[d];
  }
  return left;
}

static void
plan_dims (Loop *l)
{
  int64_t sizes[8];
  const CgStep *s = l->s;
  memcpy (sizes, s->sizes, sizeof sizes);
  if (s->split >= 0) {
    for (uint32_t k = 0; k < l->n_access; k++)
      if (!l->access[k].as_row)
        codegen_collapses (l->p, s->sizes, l->access[k].strides, s->split, (int) s->ndim,
                           &l->access[k].inner);
    l->n_outer = merge_dims (l, sizes, s->split);
    l->n = s->inner;
  } else {
    sort_dims (l, sizes, (int) s->ndim);
    int left = merge_dims (l, sizes, (int) s->ndim);
    l->n_outer = left > 0 ? left - 1 : 0;
    l->n = left > 0 ? sizes[left - 1] : 1;
    for (uint32_t k = 0; k < l->n_access; k++)
      l->access[k].inner = left > 0 ? l->access[k].strides[left - 1] : 0;
  }
  memcpy (l->outer, sizes, sizeof sizes);
  for (uint32_t k = 0; k < l->n_access; k++) {
    Access *a = &l->access[k];
    a->everywhere = !a->store && (a->inner == 0 || l->n == 1);
    for (int d = 0; d < l->n_outer; d++)
      a->everywhere = a->everywhere && a->strides[d] == 0;
  }
}

static bool
is_direct (const Loop *l, const Access *a)
{
  return a->as_row || a->inner == 1 || l->n == 1;
}

static int
take_tile (Loop *l)
{
  for (int i = 0; i < l->n_tiles; i++)
    if (!l->tile_used[i]) {
      l->tile_used[i] = 1;
      return i;
    }
  l->tile_used[l->n_tiles] = 1;
  return l->n_tiles++;
}

/* Returns the last member that reads member m's tile. */
static uint32_t
last_reader (Loop *l, uint32_t m)
{
  uint32_t last = m;
  for (uint32_t r = m + 1; r < l->s->n_members; r++) {
    const GrammeNode *n = loop_member (l, r);
    for (uint32_t i = 0; i < n->n_in; i++)
      if (through_detach (l, gramme_node_in (l->p->image, n, i)) == loop_member (l, m)->out)
        last = r;
  }
  return last;
}

/* True if a member reads row value m at every point. */
static bool
is_spread (Loop *l, uint32_t m)
{
  for (uint32_t r = m + 1; r < l->s->n_members; r++) {
    const GrammeNode *n = loop_member (l, r);
    for (uint32_t i = 0; loop_reads_full (l, r) && i < n->n_in; i++) {
      int which;
      if (loop_operand (l, r, gramme_node_in (l->p->image, n, i), &which) == FROM_ROW
          && which == (int) m)
        return true;
    }
  }
  return false;
}

/* Returns the store whose memory can hold member m's row until the last member that reads m
 * overwrites it there, point by point; or -1. So a row is brought into the caches once, and the
 * memory of the store is requested while there is something to compute. A loop with rows never
 * stores to memory that it reads (buffer_reuse.c). */
static int
lender_of (Loop *l, uint32_t m)
{
  uint32_t bytes = l->p->values[loop_member (l, m)->out].elem_bytes;
  if (l->vectors && bytes < 4) /* there are no masks: a short step would use buffers on the stack */
    return -1;
  for (uint32_t w = last_reader (l, m); w < l->s->n_members; w++) {
    uint32_t value = loop_member (l, w)->out;
    if (l->phases[w] <= l->phases[m] || loop_is_row (l, w) || !l->p->values[value].stored
        || l->p->values[value].elem_bytes != bytes)
      continue;
    int k = loop_access (l, value, false, true);
    bool lent = false;
    for (uint32_t i = 0; i < m; i++)
      lent = lent || l->lenders[i] == k;
    if (!lent && is_direct (l, &l->access[k]))
      return k;
  }
  return -1;
}

GrammeTileFn
loop_pair (Loop *l, uint32_t m, char *name)
{
  const CgProgram *p = l->p;
  const GrammeNode *first = loop_member (l, m),
                   *second = m + 1 < l->s->n_members ? loop_member (l, m + 1) : NULL;
  const CgValue *made = &p->values[first->out];
  int which, reads = 0;
  uint32_t behind = 0;
  if (l->vectors || !second || made->stored || l->phases[m] != l->phases[m + 1]
      || last_reader (l, m) != m + 1 || loop_is_row (l, m) || loop_is_row (l, m + 1)
      || gramme_op_facts (first->op).family != GRAMME_FAMILY_POINTWISE
      || gramme_op_facts (second->op).family != GRAMME_FAMILY_POINTWISE || first->n_in > 2
      || second->n_in > 2 || p->values[gramme_node_in (p->image, first, 0)].dtype != made->dtype
      || p->values[second->out].dtype != made->dtype)
    return NULL;
  for (uint32_t i = 0; i < second->n_in; i++)
    if (loop_operand (l, m + 1, gramme_node_in (p->image, second, i), &which) == FROM_TILE
        && which == (int) m) {
      behind = i > 0 ? GRAMME_TILE_BEHIND : 0;
      reads++;
    }
  return reads == 1 ? p->tiles->find (p->tiles->ctx, GRAMME_TILE_PAIR, first->op, made->dtype,
                                      second->op | behind, name)
                    : NULL;
}

/* Assigns tiles.  Gathered operands, and row values spread over a tile, keep theirs; members' tiles
 * are reused after the last reader. */
static void
plan_tiles (Loop *l)
{
  const CgStep *s = l->s;
  bool outlives = l->vectors || codegen_size_may_exceed (l->n, l->p->tiles->tile_elems);
  for (uint32_t k = 0; k < l->n_access; k++)
    if (!l->access[k].store && !is_direct (l, &l->access[k]))
      l->access[k].tile = take_tile (l);
  for (uint32_t m = 0; m < s->n_members; m++) {
    l->tiles[m] = l->rows[m] = l->accums[m] = l->spread[m] = -1;
    l->buffers[m] = LOOP_NO_BUFFER;
    l->lenders[m] = -1;
    l->pairs[m] = m > 0 && l->pairs[m - 1] ? NULL : loop_pair (l, m, NULL);
    if (loop_is_row (l, m))
      l->rows[m] = l->accums[m] = l->n_rows++;
    if (loop_casts_at_end (l, m))
      l->accums[m] = l->n_rows++;
  }
  for (uint32_t m = 0; m < s->n_members; m++) {
    const GrammeNode *n = loop_member (l, m);
    if (loop_is_row (l, m) && is_spread (l, m))
      l->spread[m] =
          /* Already here, since it is written when the row is done, not when it is read. */
          take_tile (l);
    if (!loop_is_row (l, m)) {
      int store = l->p->values[n->out].stored ? loop_access (l, n->out, false, true) : -1;
      bool direct = store >= 0 && is_direct (l, &l->access[store]);
      bool kept = !direct && outlives && loop_crosses (l, m) && !loop_remakes (l, m);
      if (kept && store < 0)
        l->lenders[m] = lender_of (l, m);
      if (l->lenders[m] >= 0) {
        direct = true;
      } else if (kept) {
        int64_t row = codegen_size_mul (l->p->sizes, l->n, l->p->values[n->out].elem_bytes);
        l->buffers[m] = l->buffer_bytes;
        row = codegen_size_align (l->p->sizes, codegen_size_add (l->p->sizes, row, 192), 64);
        l->buffer_bytes = codegen_size_add (l->p->sizes, l->buffer_bytes, row);
      } else if (!direct) {
        l->tiles[m] = take_tile (l);
        if (store >= 0)
          l->access[store].tile = l->tiles[m];
      }
    }
    for (uint32_t k = 0; k <= m; k++)
      if (l->tiles[k] >= 0 && last_reader (l, k) == m)
        l->tile_used[l->tiles[k]] = 0;
  }
  /* A single member that uses no tile needs no chunks, since its primitive takes any length. */
  bool tiles = l->n_tiles > 0 || s->n_members > 1 || s->split >= 0;
  const GrammeNode *only = loop_member (l, 0);
  for (uint32_t i = 0; i < only->n_in && !tiles; i++)
    tiles = codegen_literal (l->p, gramme_node_in (l->p->image, only, i)) != CG_NONE;
  l->chunked = tiles && codegen_size_may_exceed (l->n, l->p->tiles->tile_elems);
}

void
loop_plan (Loop *l, const CgProgram *p, uint32_t step, bool vectors)
{
  *l = (Loop){ .p = p, .step = step, .s = &p->steps[step], .vectors = vectors };
  plan_phases (l);
  collect (l);
  plan_dims (l);
  plan_tiles (l);
  if (vectors)
    l->n_tiles = l->n_rows = 0;
}

void
loop_put_head (CgText *t, const Loop *l)
{
  put (t, "  { /* %u:", l->step);
  for (uint32_t m = 0; m < l->s->n_members; m++)
    put (t, " %s", gramme_op_facts (loop_member (l, m)->op).name);
  put (t, " over");
  for (uint32_t d = 0; d < l->s->ndim; d++)
    put (t, " %s%s", SIZE (l->p, l->s->sizes[d]), (int) d + 1 == l->s->split ? " |" : "");
  put (t, " */\n");
  for (int d = 0; d < l->n_outer; d++)
    if (d == 0 && l->n_parts)
      put (t, "  for (long i0 = lo; i0 < hi; i0++)\n");
    else
      put (t, "  for (long i%d = 0; i%d < %s; i%d++)\n", d, d, SIZE (l->p, l->outer[d]), d);
  put (t, "  {\n");
  for (uint32_t k = 0; k < l->n_access; k++) {
    const Access *a = &l->access[k];
    put (t, "    char *p%u = ", k);
    put_address (t, l->p, a->value);
    for (int d = 0; d < l->n_outer; d++)
      if (a->strides[d])
        put (t, " + i%d * %s", d, BYTES (l->p, a->strides[d], l->p->values[a->value].elem_bytes));
    if (l->n_parts && l->n_outer == 0 && a->inner != 0)
      put (t, " + lo * %s", BYTES (l->p, a->inner, l->p->values[a->value].elem_bytes));
    put (t, ";\n");
  }
}

void
loop_put_scratch (CgText *t, const Loop *l, uint64_t offset)
{
  if (l->n_parts)
    put (t, "sc + %llu", (unsigned long long) (offset - l->p->temp_bytes));
  else
    put (t, "ws + %llu", (unsigned long long) offset);
}

/* Prints the place of a buffer; dynamic buffers come after the program's own temporaries of
 * symbolic size. */
void
loop_put_buffer (CgText *t, const Loop *l, uint32_t m, uint64_t fixed)
{
  if (codegen_is_symbolic (l->buffer_bytes) && l->n_parts)
    put (t, "sd + %s", SIZE (l->p, l->buffers[m]));
  else if (codegen_is_symbolic (l->buffer_bytes))
    put (t, "dyn + %s",
         SIZE (l->p, codegen_size_add (l->p->sizes, l->p->dynamic_bytes, l->buffers[m])));
  else
    loop_put_scratch (t, l, fixed + (uint64_t) l->buffers[m]);
}

void
loop_take_buffers (CgText *t, const Loop *l, uint64_t fixed)
{
  bool dynamic = codegen_is_symbolic (l->buffer_bytes);
  uint64_t bytes = fixed + (dynamic ? 0 : (uint64_t) l->buffer_bytes);
  if (l->n_parts) /* each part has its own buffers */
    return;
  if (t->ws_bytes < bytes)
    t->ws_bytes = bytes;
  if (dynamic)
    t->dynamic_bytes =
        codegen_size_max (l->p->sizes, t->dynamic_bytes,
                          codegen_size_add (l->p->sizes, l->p->dynamic_bytes, l->buffer_bytes));
}
