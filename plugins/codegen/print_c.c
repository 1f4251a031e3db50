/* SPDX-License-Identifier: Apache-2.0
 * print_c.c -- see print_c.h.
 *
 * A loop is printed from three lists: operands (memory that it reads), members (tile calls, in order) and stores.  Its outer dimensions
 * are merged where all operands and stores allow it and become `for` loops; the inner one is walked in chunks of a tile.  Where memory is
 * contiguous along the inner dimension, tiles are not copied: primitives read and write memory directly.
 */
#include "plugins/codegen/print_c.h"

#include <stdlib.h>

#define TILE_BYTES (512 * 8 + 64) /* of a slot; the odd size keeps slots from sharing cache sets */
#define ROW_BYTES 64

/* -- Text and symbols --------------------------------------------------------------------------------------------- */

static void GRAMME_PRINTF (2, 3)
put (CgText *t, const char *format, ...)
{
  for (;;) {
    va_list args;
    va_start (args, format);
    size_t left = t->room - t->len;
    int n = vsnprintf (t->text ? t->text + t->len : NULL, t->text ? left : 0, format, args);
    va_end (args);
    if (t->oom)
      return;
    if (t->text && (size_t) n < left) {
      t->len += (size_t) n;
      return;
    }
    size_t room = (t->room + (size_t) n + 1) * 2 + 4096;
    char *text = realloc (t->text, room);
    if (!text) {
      t->oom = true;
      return;
    }
    t->text = text;
    t->room = room;
  }
}

static void
add_symbol (CgText *t, const char *name, uint32_t kind, const void *address)
{
  for (uint32_t i = 0; i < t->n_symbols; i++)
    if (strcmp (t->symbols[i].name, name) == 0)
      return;
  if (t->n_symbols == t->symbol_room) {
    uint32_t room = t->symbol_room * 2 + 16;
    CgSymbol *symbols = realloc (t->symbols, room * sizeof (CgSymbol));
    if (!symbols) {
      t->oom = true;
      return;
    }
    t->symbols = symbols;
    t->symbol_room = room;
  }
  CgSymbol *s = &t->symbols[t->n_symbols++];
  snprintf (s->name, sizeof s->name, "%s", name);
  s->kind = kind;
  s->address = address;
}

/* Adds the primitive and leaves its name in `name`. */
static void
add_tile (CgText *t, const CgProgram *p, uint32_t kind, uint32_t op, uint32_t dtype, char name[GRAMME_TILE_NAME_BYTES])
{
  GrammeTileFn fn = p->tiles->find (p->tiles->ctx, kind, op, dtype, 0, name);
  add_symbol (t, name, kind, (const void *) (uintptr_t) fn);
}

/* A tile's worth of one value, as the symbol k<index>. */
static uint32_t
add_fill (CgText *t, const CgProgram *p, uint64_t bits, uint32_t elem_bytes)
{
  for (uint32_t i = 0; i < t->n_fills; i++)
    if (t->fill_bits[i] == bits && t->fill_elems[i] == elem_bytes)
      return i;
  if (t->n_fills == t->fill_room) {
    uint32_t room = t->fill_room * 2 + 16;
    void **fills = realloc (t->fills, room * sizeof (void *));
    t->fills = fills ? fills : t->fills;
    uint64_t *fill_bits = realloc (t->fill_bits, room * sizeof (uint64_t));
    t->fill_bits = fill_bits ? fill_bits : t->fill_bits;
    uint32_t *elems = realloc (t->fill_elems, room * sizeof (uint32_t));
    t->fill_elems = elems ? elems : t->fill_elems;
    if (!fills || !fill_bits || !elems) {
      t->oom = true;
      return 0;
    }
    t->fill_room = room;
  }
  void *data = aligned_alloc (64, (size_t) p->tiles->tile_elems * 8);
  if (!data) {
    t->oom = true;
    return 0;
  }
  GrammeTileFn gather = p->tiles->find (p->tiles->ctx, GRAMME_TILE_GATHER, 0, 0, 0, NULL);
  ((GrammeTileGather) gather) (data, &bits, 0, p->tiles->tile_elems, elem_bytes);
  char name[GRAMME_TILE_NAME_BYTES];
  snprintf (name, sizeof name, "k%u", t->n_fills);
  add_symbol (t, name, 0, data);
  t->fills[t->n_fills] = data;
  t->fill_bits[t->n_fills] = bits;
  t->fill_elems[t->n_fills] = elem_bytes;
  return t->n_fills++;
}

/* The address of a value's first element. */
static void
put_address (CgText *t, const CgProgram *p, uint32_t value)
{
  const CgValue *v = &p->values[value], *root = &p->values[v->root];
  switch (root->memory) {
  case CG_MEMORY_INPUT:
    put (t, "in[%u]", root->index);
    break;
  case CG_MEMORY_OUTPUT:
    put (t, "out[%u]", root->index);
    break;
  case CG_MEMORY_CONST: {
    char name[GRAMME_TILE_NAME_BYTES];
    snprintf (name, sizeof name, "c%u", root->index);
    add_symbol (t, name, 0, p->consts[root->index].data);
    put (t, "c%u", root->index);
    break;
  }
  default:
    put (t, "ws + %llu", (unsigned long long) root->offset);
  }
  if (v->view_bytes)
    put (t, " + %lld", (long long) v->view_bytes);
}

/* -- A loop's plan ------------------------------------------------------------------------------------------------ */

typedef struct {
  uint32_t value;
  bool as_row, store;
  int64_t strides[8]; /* over the loop's dimensions, then over the merged ones */
  int64_t inner;      /* stride along the inner dimension */
  int tile;           /* slot it is gathered into, or scattered from; -1: memory is used directly */
  bool everywhere;    /* the same element at all points: gathered once */
} Access;

typedef struct {
  const CgProgram *p;
  CgText *t;
  uint32_t step;
  const CgStep *s;
  Access access[CG_MAX_MEMBERS * 4];
  uint32_t n_access;
  int n_outer;
  int64_t outer[8], n; /* merged outer dimensions; length of the inner one */
  bool chunked;
  uint8_t tile_used[CG_MAX_MEMBERS * 4];
  int n_tiles, n_rows;
  /* per member, slots or -1: its tile, its row's element, and that one spread over a tile */
  int tiles[CG_MAX_MEMBERS], rows[CG_MAX_MEMBERS], spread[CG_MAX_MEMBERS];
} Loop;

static const GrammeNode *
member (const Loop *l, uint32_t m)
{
  return gramme_image_node (l->p->image, l->s->members[m]);
}

static uint32_t
through_detach (const Loop *l, uint32_t value)
{
  while (l->p->values[value].view_of != CG_NONE
         && gramme_image_node (l->p->image, l->p->values[value].node)->op == GRAMME_OP_detach)
    value = l->p->values[value].view_of;
  return value;
}

/* The member that makes this value, or -1. */
static int
maker (const Loop *l, uint32_t value)
{
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (member (l, m)->out == value)
      return (int) m;
  return -1;
}

static bool
is_row (const Loop *l, uint32_t m)
{
  return l->p->values[member (l, m)->out].role == CG_ROW;
}

static bool
is_fold (const Loop *l, uint32_t m)
{
  return gramme_op_facts (member (l, m)->op).family == GRAMME_FAMILY_REDUCE;
}

/* Does member m read its operands at every point (and not once a row)? */
static bool
reads_full (const Loop *l, uint32_t m)
{
  return !is_row (l, m) || is_fold (l, m);
}

static int
find_access (Loop *l, uint32_t value, bool as_row, bool store)
{
  for (uint32_t i = 0; i < l->n_access; i++)
    if (l->access[i].value == value && l->access[i].as_row == as_row && l->access[i].store == store)
      return (int) i;
  Access *a = &l->access[l->n_access];
  *a = (Access){ .value = value, .as_row = as_row, .store = store, .tile = -1 };
  codegen_strides (l->p, l->s, value, as_row, a->strides);
  return (int) l->n_access++;
}

/* What operand `value` of member m is. */
typedef enum { FROM_LITERAL, FROM_TILE, FROM_ROW, FROM_MEMORY } From;
static From
operand_kind (Loop *l, uint32_t m, uint32_t value, int *which)
{
  uint32_t literal = codegen_literal (l->p, value), inside = through_detach (l, value);
  if (literal != CG_NONE) {
    *which = (int) add_fill (l->t, l->p, l->p->values[literal].bits, l->p->values[literal].elem_bytes);
    return FROM_LITERAL;
  }
  bool full = reads_full (l, m);
  *which = maker (l, inside);
  if (*which >= 0 && full && !is_row (l, (uint32_t) *which))
    return FROM_TILE;
  uint32_t row = codegen_row_value (l->p, l->step, value, !full);
  if (row != CG_NONE) {
    *which = maker (l, row);
    return FROM_ROW;
  }
  *which = find_access (l, value, !full, false);
  return FROM_MEMORY;
}

static void
collect (Loop *l)
{
  int which;
  for (uint32_t m = 0; m < l->s->n_members; m++) {
    const GrammeNode *n = member (l, m);
    for (uint32_t i = 0; i < n->n_in; i++)
      operand_kind (l, m, gramme_node_in (l->p->image, n, i), &which);
    if (l->p->values[n->out].stored)
      find_access (l, n->out, is_row (l, m), true);
  }
}

/* Sorts the dimensions of a loop without a split so that the first store's memory is walked in order: the order of points does not
 * matter where nothing is reduced. */
static void
sort_dims (Loop *l, int64_t *sizes, int n)
{
  const int64_t *key = NULL;
  for (uint32_t i = 0; i < l->n_access && !key; i++)
    if (l->access[i].store)
      key = l->access[i].strides;
  for (int i = 1; key && i < n; i++)
    for (int d = i; d > 0 && key[d - 1] < key[d]; d--) {
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

/* Merges dimensions [0, n) where all accesses allow it; returns how many are left. */
static int
merge_dims (Loop *l, int64_t *sizes, int n)
{
  int left = 0;
  for (int d = 0; d < n; d++) {
    if (sizes[d] == 1)
      continue;
    bool merges = left > 0;
    for (uint32_t k = 0; k < l->n_access && merges; k++)
      merges = l->access[k].strides[left - 1] == l->access[k].strides[d] * sizes[d];
    int to = merges ? left - 1 : left++;
    sizes[to] = merges ? sizes[to] * sizes[d] : sizes[d];
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
        codegen_collapses (s->sizes, l->access[k].strides, s->split, (int) s->ndim, &l->access[k].inner);
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

/* The last member that reads member m's tile. */
static uint32_t
last_reader (Loop *l, uint32_t m)
{
  uint32_t last = m;
  for (uint32_t r = m + 1; r < l->s->n_members; r++) {
    const GrammeNode *n = member (l, r);
    for (uint32_t i = 0; i < n->n_in; i++)
      if (through_detach (l, gramme_node_in (l->p->image, n, i)) == member (l, m)->out)
        last = r;
  }
  return last;
}

/* Does a member read row value m at every point? */
static bool
is_spread (Loop *l, uint32_t m)
{
  for (uint32_t r = m + 1; r < l->s->n_members; r++) {
    const GrammeNode *n = member (l, r);
    for (uint32_t i = 0; reads_full (l, r) && i < n->n_in; i++) {
      int which;
      if (operand_kind (l, r, gramme_node_in (l->p->image, n, i), &which) == FROM_ROW && which == (int) m)
        return true;
    }
  }
  return false;
}

/* Slots: gathered operands and row values spread over a tile keep theirs; members' tiles are reused after the last reader. */
static void
plan_tiles (Loop *l)
{
  const CgStep *s = l->s;
  for (uint32_t k = 0; k < l->n_access; k++)
    if (!l->access[k].store && !is_direct (l, &l->access[k]))
      l->access[k].tile = take_tile (l);
  for (uint32_t m = 0; m < s->n_members; m++) {
    l->tiles[m] = l->rows[m] = l->spread[m] = -1;
    if (is_row (l, m))
      l->rows[m] = l->n_rows++;
  }
  for (uint32_t m = 0; m < s->n_members; m++) {
    const GrammeNode *n = member (l, m);
    if (is_row (l, m) && is_spread (l, m))
      l->spread[m] = take_tile (l); /* now: it is written when the row is done, not when it is read */
    if (!is_row (l, m)) {
      int store = l->p->values[n->out].stored ? find_access (l, n->out, false, true) : -1;
      if (store < 0 || !is_direct (l, &l->access[store])) {
        l->tiles[m] = take_tile (l);
        if (store >= 0)
          l->access[store].tile = l->tiles[m];
      }
    }
    for (uint32_t k = 0; k <= m; k++)
      if (l->tiles[k] >= 0 && last_reader (l, k) == m)
        l->tile_used[l->tiles[k]] = 0;
  }
  /* One member that touches no tile needs no chunks: its primitive takes any length. */
  bool tiles = l->n_tiles > 0 || s->n_members > 1 || s->split >= 0;
  const GrammeNode *only = member (l, 0);
  for (uint32_t i = 0; i < only->n_in && !tiles; i++)
    tiles = codegen_literal (l->p, gramme_node_in (l->p->image, only, i)) != CG_NONE;
  l->chunked = tiles && l->n > (int64_t) l->p->tiles->tile_elems;
}

/* -- Printing a loop ---------------------------------------------------------------------------------------------- */

static void
put_tile (Loop *l, int slot)
{
  put (l->t, "ws + %llu", (unsigned long long) (l->p->temp_bytes + (uint64_t) slot * TILE_BYTES));
}

static void
put_row (Loop *l, uint32_t m)
{
  put (l->t, "ws + %llu",
       (unsigned long long) (l->p->temp_bytes + (uint64_t) l->n_tiles * TILE_BYTES + (uint64_t) l->rows[m] * ROW_BYTES));
}

/* Where access k's elements of this chunk are. */
static void
put_chunk (Loop *l, uint32_t k)
{
  const Access *a = &l->access[k];
  int64_t step = (int64_t) l->p->values[a->value].elem_bytes * (a->as_row ? 0 : a->inner);
  put (l->t, "p%u", k);
  if (l->chunked && step)
    put (l->t, " + j * %lld", (long long) step);
}

static void
put_length (Loop *l)
{
  if (l->chunked)
    put (l->t, "n");
  else
    put (l->t, "%lld", (long long) l->n);
}

static void
put_gather (Loop *l, uint32_t k, bool in_chunk)
{
  const Access *a = &l->access[k];
  uint32_t tile_elems = l->p->tiles->tile_elems;
  char name[GRAMME_TILE_NAME_BYTES];
  add_tile (l->t, l->p, GRAMME_TILE_GATHER, 0, 0, name);
  put (l->t, "    %s (", name);
  put_tile (l, a->tile);
  put (l->t, ", ");
  if (in_chunk)
    put_chunk (l, k);
  else
    put (l->t, "p%u", k);
  put (l->t, ", %lld, ", (long long) a->inner);
  if (in_chunk)
    put_length (l);
  else
    put (l->t, "%lld", (long long) (l->n < (int64_t) tile_elems ? l->n : tile_elems));
  put (l->t, ", %u);\n", l->p->values[a->value].elem_bytes);
}

static void
put_operand (Loop *l, uint32_t m, uint32_t value)
{
  int which;
  switch (operand_kind (l, m, value, &which)) {
  case FROM_LITERAL:
    put (l->t, "k%d", which);
    return;
  case FROM_TILE:
    if (l->tiles[which] >= 0) {
      put_tile (l, l->tiles[which]);
      return;
    }
    put_chunk (l, (uint32_t) find_access (l, member (l, (uint32_t) which)->out, false, true));
    return;
  case FROM_ROW:
    if (reads_full (l, m))
      put_tile (l, l->spread[which]);
    else
      put_row (l, (uint32_t) which);
    return;
  case FROM_MEMORY:
    if (l->access[which].tile >= 0)
      put_tile (l, l->access[which].tile);
    else if (reads_full (l, m))
      put_chunk (l, (uint32_t) which);
    else
      put (l->t, "p%d", which);
    return;
  }
}

/* Copies a row value to memory, and over a tile for members that read it at every point. */
static void
put_row_done (Loop *l, uint32_t m)
{
  const CgValue *v = &l->p->values[member (l, m)->out];
  static const char *const types[] = { [1] = "unsigned char", [2] = "unsigned short", [4] = "unsigned", [8] = "unsigned long" };
  if (v->stored) {
    put (l->t, "    *(%s *) p%d = *(%s *) (", types[v->elem_bytes], find_access (l, member (l, m)->out, true, true),
         types[v->elem_bytes]);
    put_row (l, m);
    put (l->t, ");\n");
  }
  if (l->spread[m] >= 0) {
    char name[GRAMME_TILE_NAME_BYTES];
    add_tile (l->t, l->p, GRAMME_TILE_GATHER, 0, 0, name);
    put (l->t, "    %s (", name);
    put_tile (l, l->spread[m]);
    put (l->t, ", ");
    put_row (l, m);
    put (l->t, ", 0, %lld, %u);\n", (long long) l->n, v->elem_bytes);
  }
}

static void
put_member (Loop *l, uint32_t m)
{
  const GrammeNode *n = member (l, m);
  const CgValue *v = &l->p->values[n->out];
  char name[GRAMME_TILE_NAME_BYTES];
  uint32_t family = gramme_op_facts (n->op).family;
  GrammeTileFn fn = codegen_tile (l->p, l->s->members[m], name);
  uint32_t kind = family == GRAMME_FAMILY_POINTWISE ? GRAMME_TILE_POINTWISE
                  : family == GRAMME_FAMILY_CAST    ? GRAMME_TILE_CAST
                                                    : GRAMME_TILE_FOLD;
  add_symbol (l->t, name, kind, (const void *) (uintptr_t) fn);
  put (l->t, "    %s (", name);
  if (is_row (l, m))
    put_row (l, m);
  else if (l->tiles[m] >= 0)
    put_tile (l, l->tiles[m]);
  else
    put_chunk (l, (uint32_t) find_access (l, n->out, false, true));
  for (uint32_t i = 0; i < n->n_in; i++) {
    put (l->t, ", ");
    put_operand (l, m, gramme_node_in (l->p->image, n, i));
  }
  for (uint32_t i = n->n_in; family == GRAMME_FAMILY_POINTWISE && i < 3; i++)
    put (l->t, ", 0");
  put (l->t, ", ");
  if (reads_full (l, m))
    put_length (l);
  else
    put (l->t, "1");
  put (l->t, ");\n");
  int store = v->stored && !is_row (l, m) ? find_access (l, n->out, false, true) : -1;
  if (store >= 0 && l->tiles[m] >= 0) {
    add_tile (l->t, l->p, GRAMME_TILE_SCATTER, 0, 0, name);
    put (l->t, "    %s (", name);
    put_chunk (l, (uint32_t) store);
    put (l->t, ", %lld, ", (long long) l->access[store].inner);
    put_tile (l, l->tiles[m]);
    put (l->t, ", ");
    put_length (l);
    put (l->t, ", %u);\n", v->elem_bytes);
  }
  /* A fold over several chunks is done after the last one. */
  if (is_row (l, m) && !(is_fold (l, m) && l->chunked))
    put_row_done (l, m);
}

static void
put_pointers (Loop *l)
{
  for (uint32_t k = 0; k < l->n_access; k++) {
    const Access *a = &l->access[k];
    put (l->t, "    char *p%u = ", k);
    put_address (l->t, l->p, a->value);
    for (int d = 0; d < l->n_outer; d++)
      if (a->strides[d])
        put (l->t, " + i%d * %lld", d, (long long) (a->strides[d] * l->p->values[a->value].elem_bytes));
    put (l->t, ";\n");
  }
}

static void
put_fold_starts (Loop *l)
{
  for (uint32_t m = 0; m < l->s->n_members; m++) {
    if (!is_fold (l, m))
      continue;
    const CgValue *v = &l->p->values[member (l, m)->out];
    uint64_t bits = 0;
    l->p->tiles->reduce_init (l->p->tiles->ctx, member (l, m)->op, v->dtype, &bits);
    put (l->t, v->elem_bytes == 8 ? "    *(unsigned long *) (" : v->elem_bytes == 4 ? "    *(unsigned *) (" : "    *(unsigned char *) (");
    put_row (l, m);
    put (l->t, ") = 0x%llxul;\n", (unsigned long long) bits);
  }
}

static void
put_loop (CgText *t, const CgProgram *p, uint32_t step)
{
  Loop *l = calloc (1, sizeof (Loop));
  if (!l) {
    t->oom = true;
    return;
  }
  l->p = p;
  l->t = t;
  l->step = step;
  l->s = &p->steps[step];
  collect (l);
  plan_dims (l);
  plan_tiles (l);

  put (t, "  { /* %u:", step);
  for (uint32_t m = 0; m < l->s->n_members; m++)
    put (t, " %s", gramme_op_facts (member (l, m)->op).name);
  put (t, " over");
  for (uint32_t d = 0; d < l->s->ndim; d++)
    put (t, " %lld%s", (long long) l->s->sizes[d], (int) d + 1 == l->s->split ? " |" : "");
  put (t, " */\n");
  for (int d = 0; d < l->n_outer; d++)
    put (t, "  for (long i%d = 0; i%d < %lld; i%d++)\n", d, d, (long long) l->outer[d], d);
  put (t, "  {\n");
  put_pointers (l);
  put_fold_starts (l);
  for (uint32_t k = 0; k < l->n_access; k++)
    if (l->access[k].tile >= 0 && !l->access[k].store && l->access[k].inner == 0) {
      /* What is the same at all points is gathered at the first one. */
      if (l->access[k].everywhere && l->n_outer > 0) {
        put (t, "    if (!(i0");
        for (int d = 1; d < l->n_outer; d++)
          put (t, " | i%d", d);
        put (t, "))\n  ");
      }
      put_gather (l, k, false);
    }
  if (l->chunked)
    put (t, "    for (unsigned long j = 0; j < %lld; j += %u) {\n    unsigned long n = %lld - j < %u ? %lld - j : %u;\n",
         (long long) l->n, p->tiles->tile_elems, (long long) l->n, p->tiles->tile_elems, (long long) l->n, p->tiles->tile_elems);
  for (uint32_t k = 0; k < l->n_access; k++)
    if (l->access[k].tile >= 0 && !l->access[k].store && l->access[k].inner != 0)
      put_gather (l, k, true);
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (!l->chunked || reads_full (l, m))
      put_member (l, m);
  if (l->chunked) {
    put (t, "    }\n");
    for (uint32_t m = 0; m < l->s->n_members; m++) {
      if (is_fold (l, m))
        put_row_done (l, m);
      else if (is_row (l, m))
        put_member (l, m);
    }
  }
  put (t, "  }\n  }\n");
  uint64_t bytes = p->temp_bytes + (uint64_t) l->n_tiles * TILE_BYTES + (uint64_t) l->n_rows * ROW_BYTES;
  if (t->ws_bytes < bytes)
    t->ws_bytes = bytes;
  free (l);
}

/* -- Other steps ---------------------------------------------------------------------------------------------------- */

static void
put_columns (CgText *t, const CgProgram *p, uint32_t step)
{
  const CgStep *s = &p->steps[step];
  const GrammeNode *n = gramme_image_node (p->image, s->node);
  uint32_t from = gramme_node_in (p->image, n, 0), elem = p->values[from].elem_bytes;
  uint32_t tile = p->tiles->tile_elems;
  char gather[GRAMME_TILE_NAME_BYTES], fold[GRAMME_TILE_NAME_BYTES];
  uint64_t bits = 0;
  p->tiles->reduce_init (p->tiles->ctx, n->op, p->values[from].dtype, &bits);
  uint32_t fill = add_fill (t, p, bits, elem);
  add_tile (t, p, GRAMME_TILE_GATHER, 0, 0, gather);
  add_tile (t, p, GRAMME_TILE_FOLD_COLUMNS, n->op, p->values[from].dtype, fold);
  put (t, "  { /* %u: %s of %lld columns */\n    char *x = ", step, gramme_op_facts (n->op).name, (long long) s->width);
  put_address (t, p, from);
  put (t, ", *y = ");
  put_address (t, p, n->out);
  put (t, ";\n    %s (y, k%u, 0, %lld, %u);\n", gather, fill, (long long) s->width, elem);
  put (t, "    for (unsigned long r = 0; r < %lld; r += %u)\n", (long long) s->n_rows, tile);
  put (t, "      %s (y, x + r * %lld, %lld, %lld - r < %u ? %lld - r : %u, %lld);\n  }\n", fold,
       (long long) s->row_stride * elem, (long long) s->row_stride * elem, (long long) s->n_rows, tile, (long long) s->n_rows, tile,
       (long long) s->width);
}

static GrammeKernel **
next_kernel (CgText *t)
{
  GrammeKernel **kernels = realloc (t->kernels, (t->n_kernels + 1) * sizeof *kernels);
  if (!kernels) {
    t->oom = true;
    return NULL;
  }
  t->kernels = kernels;
  t->kernels[t->n_kernels] = NULL;
  return &t->kernels[t->n_kernels++];
}

static void
put_call (CgText *t, const CgProgram *p, uint32_t step)
{
  const CgStep *s = &p->steps[step];
  GrammeKernel **kernel = next_kernel (t);
  char name[GRAMME_TILE_NAME_BYTES];
  if (!kernel || t->code)
    return;
  uint32_t n_in = 1;
  if (s->kind == CG_COPY) {
    t->code = p->kernels->prepare_copy (p->kernels->ctx, p->image, s->from, s->from, kernel, t->status);
    put (t, "  { /* %u: copy to output %u */\n", step, s->to);
  } else {
    const GrammeNode *n = gramme_image_node (p->image, s->node);
    n_in = n->n_in;
    t->code = p->kernels->prepare (p->kernels->ctx, p->image, s->node, kernel, t->status);
    put (t, "  { /* %u: %s */\n", step, gramme_op_facts (n->op).name);
  }
  if (t->code)
    return;
  snprintf (name, sizeof name, "h%u", t->n_kernels - 1);
  add_symbol (t, name, 0, *kernel);
  put (t, "    char *d[%u];\n", n_in + 1);
  for (uint32_t i = 0; i < n_in; i++) {
    put (t, "    d[%u] = ", i);
    put_address (t, p, s->kind == CG_COPY ? s->from : gramme_node_in (p->image, gramme_image_node (p->image, s->node), i));
    put (t, ";\n");
  }
  put (t, "    d[%u] = ", n_in);
  if (s->kind == CG_COPY)
    put (t, "out[%u]", s->to);
  else
    put_address (t, p, gramme_image_node (p->image, s->node)->out);
  put (t, ";\n    if ((code = gm_run_kernel (%s, d, status)))\n      return code;\n  }\n", name);
}

/* -- All of it ------------------------------------------------------------------------------------------------------ */

static void
put_declarations (CgText *t)
{
  put (t, "_Static_assert (sizeof (unsigned long) == 8 && sizeof (char *) == 8 && sizeof (unsigned) == 4, \"LP64\");\n");
  /* Whole prototypes: an argument's upper half is only defined if the callee's type is known. */
  static const char *const parameters[] = {
    [GRAMME_TILE_POINTWISE] = "void *, const void *, const void *, const void *, unsigned long",
    [GRAMME_TILE_CAST] = "void *, const void *, unsigned long",
    [GRAMME_TILE_FOLD] = "void *, const void *, unsigned long",
    [GRAMME_TILE_FOLD_COLUMNS] = "void *, const void *, long, unsigned long, unsigned long",
    [GRAMME_TILE_GATHER] = "void *, const void *, long, unsigned long, unsigned long",
    [GRAMME_TILE_SCATTER] = "void *, long, const void *, unsigned long, unsigned long",
  };
  for (uint32_t i = 0; i < t->n_symbols; i++) {
    const CgSymbol *s = &t->symbols[i];
    if (s->kind == 0)
      put (t, "extern char %s[];\n", s->name);
    else if (s->kind == CG_SYMBOL_RUN)
      put (t, "int %s (void *kernel, void *data, void *status);\n", s->name);
    else
      put (t, "void %s (%s);\n", s->name, parameters[s->kind]);
  }
}

int32_t
codegen_print_c (const CgProgram *p, const char *name, CgText *out, GrammeStatus *status)
{
  CgText body = { .status = status, .ws_bytes = p->temp_bytes };
  add_symbol (&body, "gm_run_kernel", CG_SYMBOL_RUN, (const void *) (uintptr_t) p->kernels->run);
  put (&body, "int\n%s (char *const *in, char *const *out, char *ws, void *status)\n{\n  int code = 0;\n", name);
  for (uint32_t s = 0; s < p->n_steps && !body.code; s++) {
    if (p->steps[s].kind == CG_LOOP)
      put_loop (&body, p, s);
    else if (p->steps[s].kind == CG_COLUMNS)
      put_columns (&body, p, s);
    else
      put_call (&body, p, s);
  }
  put (&body, "  return code;\n}\n");
  CgText head = { .symbols = body.symbols, .n_symbols = body.n_symbols };
  put_declarations (&head);
  put (&head, "%s", body.text ? body.text : "");
  free (body.text);
  body.text = head.text;
  body.len = head.len;
  body.oom = body.oom || head.oom;
  *out = body;
  if (body.oom)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory for the text of a graph of %u nodes", p->image->nodes.count);
  return body.code;
}

void
codegen_text_free (CgText *t, const GrammeKernels *kernels)
{
  for (uint32_t i = 0; i < t->n_kernels; i++)
    if (t->kernels[i])
      kernels->release (t->kernels[i]);
  for (uint32_t i = 0; i < t->n_fills; i++)
    free (t->fills[i]);
  free (t->text);
  free (t->symbols);
  free (t->kernels);
  free (t->fills);
  free (t->fill_bits);
  free (t->fill_elems);
  *t = (CgText){ 0 };
}
