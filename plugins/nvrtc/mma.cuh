/* SPDX-License-Identifier: Apache-2.0
 * mma.cuh -- products of small matrices by a warp (tensor cores), of f16 and bf16 in f32.  Printed once into a unit that uses them.
 *
 * A warp has 32 lanes; g is lane / 4, t is lane % 4.  Of a 16 x 16 matrix a, a lane has four pairs: rows g and g + 8 of columns
 * 2t and 2t + 1, then of columns 2t + 8 and 2t + 9.  Of a 16 x 8 matrix b (depth x columns) two: depths 2t and 2t + 1, then 8 further
 * on, of column g.  Of the 16 x 8 result four numbers: row g, columns 2t and 2t + 1, then row g + 8.  (PTX ISA, mma.m16n8k16.)
 * Needs compute capability 8.0.
 */

#ifndef GM_SIM

#define GM_MMA(T, NAME)                                                                                                     \
  GM_FN void mma_##T (float *c, const gm_u32 *a, gm_u32 b0, gm_u32 b1)                                                      \
  {                                                                                                                         \
    asm volatile ("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "        \
                  "{%8, %9}, {%0, %1, %2, %3};"                                                                             \
                  : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                          \
                  : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                          \
  }
GM_MMA (f16, "f16")
GM_MMA (bf16, "bf16")

GM_FN void
load_4 (gm_u32 *r, const E_f16 *row)
{
  gm_u32 at = (gm_u32) __cvta_generic_to_shared (row);
  asm volatile ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
GM_FN void
load_4_turned (gm_u32 *r, const E_f16 *row)
{
  gm_u32 at = (gm_u32) __cvta_generic_to_shared (row);
  asm volatile ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
/* b's pairs for two neighbouring results, from 16 rows of columns, 16 deep: `tile` is dense along the depth. */
GM_FN void
b_of_columns (gm_u32 *r, const E_f16 *tile, int ld, int lane)
{
  load_4 (r, tile + (lane % 8 + lane / 16 * 8) * ld + lane / 8 % 2 * 8);
}
/* The same from 16 rows of depth, 16 columns wide: `tile` is dense along the columns. */
GM_FN void
b_of_depths (gm_u32 *r, const E_f16 *tile, int ld, int lane)
{
  load_4_turned (r, tile + (lane % 8 + lane / 8 % 2 * 8) * ld + lane / 16 * 8);
}

/* 16 bytes into shared memory, which are there after copied (...) and a barrier; zeros, if it is not there to be read. */
GM_FN void
copy_16 (E_f16 *to, const E_f16 *from, int there)
{
  asm volatile ("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"((gm_u32) __cvta_generic_to_shared (to)), "l"(from), "r"(there ? 16 : 0));
}
#define GM_COPIES_END() asm volatile ("cp.async.commit_group;" : :)
/* All groups but the youngest, or all. */
#define GM_COPIES_WAIT_1() asm volatile ("cp.async.wait_group 1;" : : : "memory")
#define GM_COPIES_WAIT_0() asm volatile ("cp.async.wait_group 0;" : : : "memory")

#else

#define GM_MMA(T)                                                                                                           \
  GM_FN void mma_##T (float *c, const gm_u32 *a, gm_u32 b0, gm_u32 b1)                                                      \
  {                                                                                                                         \
    const gm_u32 b[2] = { b0, b1 };                                                                                         \
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
GM_MMA (f16)
GM_MMA (bf16)

GM_FN void
b_of_columns (gm_u32 *r, const E_f16 *tile, int ld, int lane)
{
  for (int i = 0; i < 4; i++) {
    const E_f16 *at = tile + (lane / 4 + i / 2 * 8) * ld + lane % 4 * 2 + i % 2 * 8;
    r[i] = (gm_u32) at[0] | (gm_u32) at[1] << 16;
  }
}
GM_FN void
b_of_depths (gm_u32 *r, const E_f16 *tile, int ld, int lane)
{
  for (int i = 0; i < 4; i++) {
    const E_f16 *at = tile + (lane % 4 * 2 + i % 2 * 8) * ld + lane / 4 + i / 2 * 8;
    r[i] = (gm_u32) at[0] | (gm_u32) at[ld] << 16;
  }
}
GM_FN void
copy_16 (E_f16 *to, const E_f16 *from, int there)
{
  for (int i = 0; i < 8; i++)
    to[i] = there ? from[i] : 0;
}
#define GM_COPIES_END()
#define GM_COPIES_WAIT_1()
#define GM_COPIES_WAIT_0()

#endif
