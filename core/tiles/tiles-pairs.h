/* SPDX-License-Identifier: Apache-2.0
 * tiles-pairs.h -- two cheap rows at once, which saves a generator of calls a store, a load and a
 * call.
 *
 * Part of tiles-impl.h, for f32.  A pair (f, g) is g (f (a, b), c), and in its second form g (c, f
 * (a, b)); rows with one operand do not read b, or c.  The rows are those of the op table, so a
 * pair has the bits of the two tiles.
 */
/* clang-format off */

/* (row, operands) */
#define FIRSTS(ROW, g, n_g) ROW (add, 2, g, n_g) ROW (sub, 2, g, n_g) ROW (mul, 2, g, n_g) ROW (neg, 1, g, n_g) ROW (relu, 1, g, n_g) ROW (square, 1, g, n_g) \
  ROW (abs, 1, g, n_g)
#define PAIRS(ROW) \
  FIRSTS (ROW, add, 2) FIRSTS (ROW, sub, 2) FIRSTS (ROW, mul, 2) FIRSTS (ROW, div, 2) FIRSTS (ROW, maximum, 2) FIRSTS (ROW, minimum, 2) \
  FIRSTS (ROW, neg, 1) FIRSTS (ROW, relu, 1) FIRSTS (ROW, square, 1)

#define LOAD_1(p, i) one
#define LOAD_2(p, i) load_f32 (p + i)
#define LOAD_PART_1(p, i, k) one
#define LOAD_PART_2(p, i, k) load_part_f32 (p + i, k, one)
#define FORM_first(g, r, c) value_##g##_f32 (r, c, c)
#define FORM_second(g, r, c) value_##g##_f32 (c, r, r)
#define PAIR(f, n_f, g, n_g, form) \
  static void pair_##f##_##g##_##form (void *out, const void *pa, const void *pb, const void *pc, size_t n) \
  { \
    float *o = out; \
    const float *xa = pa, *xb = pb, *xc = pc; \
    const vf32 one = splat_f32 (1); \
    size_t i = 0; \
    (void) xb, (void) xc, (void) one; \
    for (; i + L_f32 <= n; i += L_f32) { \
      vf32 a = load_f32 (xa + i), b = LOAD_##n_f (xb, i), c = LOAD_##n_g (xc, i), r = value_##f##_f32 (a, b, b); \
      store_f32 (o + i, FORM_##form (g, r, c)); \
    } \
    if (i < n) { \
      size_t k = n - i; \
      vf32 a = load_part_f32 (xa + i, k, one), b = LOAD_PART_##n_f (xb, i, k), c = LOAD_PART_##n_g (xc, i, k), r = value_##f##_f32 (a, b, b); \
      store_part_f32 (o + i, k, FORM_##form (g, r, c)); \
    } \
  }
#define FORMS_1(f, n_f, g, n_g) PAIR (f, n_f, g, n_g, first)
#define FORMS_2(f, n_f, g, n_g) PAIR (f, n_f, g, n_g, first) PAIR (f, n_f, g, n_g, second)
#define DEFINE(f, n_f, g, n_g) FORMS_##n_g (f, n_f, g, n_g)
PAIRS (DEFINE)
#undef FORMS_1
#undef FORMS_2

#define SECOND_1(f, g) NULL
#define SECOND_2(f, g) pair_##f##_##g##_second
#define ENTRY(f, n_f, g, n_g) { GM_TILE_OP_##f, GM_TILE_OP_##g, { pair_##f##_##g##_first, SECOND_##n_g (f, g) } },
static GmTilePointwise
look_up_pair (int first, int second, bool behind)
{
  static const struct {
    uint8_t first, second;
    GmTilePointwise forms[2];
  } pairs[] = { PAIRS (ENTRY) };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (pairs[i].first == first && pairs[i].second == second)
      return pairs[i].forms[behind];
  return NULL;
}

#undef FIRSTS
#undef PAIRS
#undef LOAD_1
#undef LOAD_2
#undef LOAD_PART_1
#undef LOAD_PART_2
#undef FORM_first
#undef FORM_second
#undef PAIR
#undef DEFINE
#undef SECOND_1
#undef SECOND_2
#undef ENTRY
