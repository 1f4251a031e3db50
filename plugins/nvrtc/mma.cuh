/* SPDX-License-Identifier: Apache-2.0
 * mma.cuh -- products of small matrices by a warp (tensor cores), of f16 and bf16 in f32.  Printed once into a unit that uses them.
 *
 * A warp has 32 lanes; g is lane / 4, t is lane % 4.  Of a 16 x 16 matrix a, a lane has four pairs: rows g and g + 8 of columns
 * 2t and 2t + 1, then of columns 2t + 8 and 2t + 9.  Of a 16 x 8 matrix b (depth x columns) two: depths 2t and 2t + 1, then 8 further
 * on, of column g.  Of the 16 x 8 result four numbers: row g, columns 2t and 2t + 1, then row g + 8.  (PTX ISA, mma.m16n8k16.)
 * Needs compute capability 8.0.
 */

#ifndef GM_SIM

/* A lane's place in a tile in shared memory: one number, so that what lies further on costs an addition at most. */
typedef gm_u32 gm_place;
#define GM_FURTHER(place, elements) ((place) + 2u * (gm_u32) (elements))
GM_FN gm_place
place_of (const E_f16 *tile)
{
  return (gm_u32) __cvta_generic_to_shared (tile);
}
/* Returns where a lane reads its part of the 16 x 16 matrix a, whose rows lie `ld` apart. */
GM_FN gm_place
place_of_rows (const E_f16 *tile, int ld, int lane)
{
  return place_of (tile + lane % 16 * ld + lane / 16 * 8);
}
/* Returns where a lane reads its part of b for two neighbouring results: 16 columns, 16 deep; the tile is dense along
 * the depth, its columns lie `ld` apart. */
GM_FN gm_place
place_of_columns (const E_f16 *tile, int ld, int lane)
{
  return place_of (tile + (lane % 8 + lane / 16 * 8) * ld + lane / 8 % 2 * 8);
}
/* The same of a tile that is dense along the columns: 16 deep, depths lie `ld` apart, 16 columns. */
GM_FN gm_place
place_of_depths (const E_f16 *tile, int ld, int lane)
{
  return place_of (tile + (lane % 8 + lane / 8 % 2 * 8) * ld + lane / 16 * 8);
}

GM_FN void
a_of_rows (gm_u32 *a, gm_place at, int ld)
{
  (void) ld;
  asm volatile ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at));
}

/* c += a b and d += a b', where b' is the next 8 columns.  One statement: compilers take their time for each. */
#define GM_MMA(T, NAME, FORM, LOAD)                                                                                         \
  GM_FN void mma_##FORM##_##T (float *c, float *d, const gm_u32 *a, gm_place at, int ld)                                    \
  {                                                                                                                         \
    (void) ld;                                                                                                              \
    asm volatile ("{\n.reg .b32 b0, b1, b2, b3;\n" LOAD " {b0, b1, b2, b3}, [%12];\n"                                       \
                  "mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0, %1, %2, %3}, {%8, %9, %10, %11}, "      \
                  "{b0, b1}, {%0, %1, %2, %3};\n"                                                                           \
                  "mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%4, %5, %6, %7}, {%8, %9, %10, %11}, "      \
                  "{b2, b3}, {%4, %5, %6, %7};\n}"                                                                          \
                  : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])          \
                  : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(at));                                                   \
  }
#define GM_LDMATRIX "ldmatrix.sync.aligned.m8n8.x4"
GM_MMA (f16, "f16", columns, GM_LDMATRIX ".shared.b16")
GM_MMA (bf16, "bf16", columns, GM_LDMATRIX ".shared.b16")
GM_MMA (f16, "f16", depths, GM_LDMATRIX ".trans.shared.b16")
GM_MMA (bf16, "bf16", depths, GM_LDMATRIX ".trans.shared.b16")

#define GM_ANY(condition) __any_sync (0xffffffffu, condition)

#else

/* The tile itself: who reads what is worked out where it is read. */
typedef const E_f16 *gm_place;
#define GM_FURTHER(place, elements) ((place) + (elements))
#define place_of_rows(tile, ld, lane) (tile)
#define place_of_columns(tile, ld, lane) (tile)
#define place_of_depths(tile, ld, lane) (tile)

GM_FN void
a_of_rows (gm_u32 *a, gm_place at, int ld)
{
  int lane = (int) (GM_THREAD % 32);
  for (int i = 0; i < 4; i++) {
    const E_f16 *pair = at + (lane / 4 + i % 2 * 8) * ld + lane % 4 * 2 + i / 2 * 8;
    a[i] = (gm_u32) pair[0] | (gm_u32) pair[1] << 16;
  }
}

#define GM_ONE_MMA(T)                                                                                                       \
  GM_FN void one_mma_##T (float *c, const gm_u32 *a, const gm_u32 *b)                                                       \
  {                                                                                                                         \
    int lane = (int) (GM_THREAD % 32), g = lane / 4, t = lane % 4;                                                          \
    for (int part = 0; part < 2; part++)                                                                                    \
      for (int u = 0; u < 4; u++) {                                                                                         \
        gm_u32 near = gm_sim->from (a[2 * part], (unsigned) (g * 4 + u)), far = gm_sim->from (a[2 * part + 1], (unsigned) (g * 4 + u)); \
        gm_u32 left = gm_sim->from (b[part], (unsigned) (2 * t * 4 + u)), right = gm_sim->from (b[part], (unsigned) ((2 * t + 1) * 4 + u)); \
        for (int half = 0; half < 32; half += 16) {                                                                         \
          float x = widen_##T ((unsigned short) (near >> half)), y = widen_##T ((unsigned short) (far >> half));            \
          float l = widen_##T ((unsigned short) (left >> half)), r = widen_##T ((unsigned short) (right >> half));          \
          c[0] += x * l;                                                                                                    \
          c[1] += x * r;                                                                                                    \
          c[2] += y * l;                                                                                                    \
          c[3] += y * r;                                                                                                    \
        }                                                                                                                   \
      }                                                                                                                     \
  }
#define GM_MMA(T, FORM)                                                                                                     \
  GM_FN void mma_##FORM##_##T (float *c, float *d, const gm_u32 *a, gm_place at, int ld)                                    \
  {                                                                                                                         \
    gm_u32 b[4];                                                                                                            \
    b_of_##FORM (b, at, ld);                                                                                                \
    one_mma_##T (c, a, b);                                                                                                  \
    one_mma_##T (d, a, b + 2);                                                                                              \
  }

GM_FN void
b_of_columns (gm_u32 *r, const E_f16 *tile, int ld)
{
  int lane = (int) (GM_THREAD % 32);
  for (int i = 0; i < 4; i++) {
    const E_f16 *at = tile + (lane / 4 + i / 2 * 8) * ld + lane % 4 * 2 + i % 2 * 8;
    r[i] = (gm_u32) at[0] | (gm_u32) at[1] << 16;
  }
}
GM_FN void
b_of_depths (gm_u32 *r, const E_f16 *tile, int ld)
{
  int lane = (int) (GM_THREAD % 32);
  for (int i = 0; i < 4; i++) {
    const E_f16 *at = tile + (lane % 4 * 2 + i % 2 * 8) * ld + lane / 4 + i / 2 * 8;
    r[i] = (gm_u32) at[0] | (gm_u32) at[ld] << 16;
  }
}
GM_ONE_MMA (f16)
GM_ONE_MMA (bf16)
GM_MMA (f16, columns)
GM_MMA (bf16, columns)
GM_MMA (f16, depths)
GM_MMA (bf16, depths)

GM_FN int
GM_ANY (int condition)
{
  int any = 0;
  for (unsigned lane = 0; lane < 32; lane++)
    any |= (int) gm_sim->from ((unsigned) condition, lane);
  return any;
}

#endif
