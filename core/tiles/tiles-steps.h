/* SPDX-License-Identifier: Apache-2.0
 * tiles-steps.h -- casts, as statements over one vector's worth of elements.
 *
 * Part of tiles-casts.h, and of the source that code generators inline (source.h).
 */
/* clang-format off */

/* (from, to, lanes, statement over `in` and `out`, both unsigned char *) */
#define CV(x, type) __builtin_convertvector (x, type)
#define CASTS(ROW) \
  ROW (b1, i32, L_i32, GM_STORE (vi32, out, load_u8_32 (in))) \
  ROW (b1, i64, L_i64, GM_STORE (vi64, out, load_u8_64 (in))) \
  ROW (b1, f32, L_f32, GM_STORE (vf32, out, CV (load_u8_32 (in), vf32))) \
  ROW (b1, f64, L_f64, GM_STORE (vf64, out, CV (load_u8_32h (in), vf64))) \
  ROW (u8, b1, L_u8, store_mask_u8 (out, (vi8) (GM_LOAD (vu8, in) != 0))) \
  ROW (i32, b1, L_i32, store_mask_i32 (out, GM_LOAD (vi32, in) != 0)) \
  ROW (i32, u8, L_i32, store_u8_32 (out, GM_LOAD (vi32, in))) \
  ROW (i32, i64, L_i64, GM_STORE (vi64, out, widen_32h (GM_LOAD (vi32h, in)))) \
  ROW (i32, f32, L_i32, GM_STORE (vf32, out, CV (GM_LOAD (vi32, in), vf32))) \
  ROW (i32, f64, L_f64, GM_STORE (vf64, out, CV (GM_LOAD (vi32h, in), vf64))) \
  ROW (i64, b1, L_i64, store_mask_i64 (out, GM_LOAD (vi64, in) != 0)) \
  ROW (i64, u8, L_i64, store_u8_64 (out, GM_LOAD (vi64, in))) \
  ROW (i64, i32, L_i64, GM_STORE (vi32h, out, narrow_64 (GM_LOAD (vi64, in)))) \
  ROW (i64, f32, L_i64, GM_STORE (vf32h, out, CV (GM_LOAD (vi64, in), vf32h))) \
  ROW (i64, f64, L_i64, GM_STORE (vf64, out, CV (GM_LOAD (vi64, in), vf64))) \
  ROW (f32, b1, L_f32, store_mask_f32 (out, GM_LOAD (vf32, in) != 0)) \
  ROW (f32, u8, L_f32, store_u8_32 (out, CV (GM_LOAD (vf32, in), vi32))) \
  ROW (f32, i32, L_f32, GM_STORE (vi32, out, CV (GM_LOAD (vf32, in), vi32))) \
  ROW (f32, i64, L_f64, GM_STORE (vi64, out, CV (GM_LOAD (vf32h, in), vi64))) \
  ROW (f32, f64, L_f64, GM_STORE (vf64, out, CV (GM_LOAD (vf32h, in), vf64))) \
  ROW (f64, b1, L_f64, store_mask_f64 (out, GM_LOAD (vf64, in) != 0)) \
  ROW (f64, u8, L_f64, store_u8_32h (out, CV (GM_LOAD (vf64, in), vi32h))) \
  ROW (f64, i32, L_f64, GM_STORE (vi32h, out, CV (GM_LOAD (vf64, in), vi32h))) \
  ROW (f64, i64, L_f64, GM_STORE (vi64, out, CV (GM_LOAD (vf64, in), vi64))) \
  ROW (f64, f32, L_f64, GM_STORE (vf32h, out, CV (GM_LOAD (vf64, in), vf32h))) \
  ROW (i8, i32, L_i32, GM_STORE (vi32, out, load_i8_32 (in))) \
  ROW (i32, i8, L_i32, store_u8_32 (out, GM_LOAD (vi32, in))) \
  ROW (i16, i32, L_i32, GM_STORE (vi32, out, load_i16_32 (in))) \
  ROW (i32, i16, L_i32, store_i16_32 (out, GM_LOAD (vi32, in))) \
  ROW (f16, f32, L_f32, GM_STORE (vf32, out, load_f16 (in))) \
  ROW (f32, f16, L_f32, store_f16 (out, GM_LOAD (vf32, in))) \
  ROW (bf16, f32, L_f32, GM_STORE (vf32, out, load_bf16 (in))) \
  ROW (f32, bf16, L_f32, store_bf16 (out, GM_LOAD (vf32, in))) \
  ROW (e4m3, f32, L_f32, GM_STORE (vf32, out, load_e4m3 (in))) \
  ROW (f32, e4m3, L_f32, store_e4m3 (out, GM_LOAD (vf32, in))) \
  ROW (e5m2, f32, L_f32, GM_STORE (vf32, out, load_e5m2 (in))) \
  ROW (f32, e5m2, L_f32, store_e5m2 (out, GM_LOAD (vf32, in)))

/* (from, middle, to): two casts, in this order of definition. */
#define VIA_LARGE(ROW, T, hub) \
  ROW (T, hub, b1) ROW (b1, hub, T) ROW (T, hub, i64) ROW (i64, hub, T) ROW (T, hub, f64) ROW (f64, hub, T)
#define VIA_INT(ROW, T) VIA_LARGE (ROW, T, i32) ROW (T, i32, f32) ROW (f32, i32, T)
#define VIA_FLOAT(ROW, T) \
  VIA_LARGE (ROW, T, f32) ROW (T, f32, u8) ROW (T, f32, i32) ROW (i32, f32, T) \
  ROW (T, f32, i8) ROW (i8, f32, T) ROW (T, f32, i16) ROW (i16, f32, T)
#define VIA_EACH_OTHER(ROW, T, hub, U) ROW (T, hub, U) ROW (U, hub, T)
#define VIA(ROW) \
  VIA_INT (ROW, i8) VIA_INT (ROW, i16) VIA_EACH_OTHER (ROW, i8, i32, i16) ROW (i16, i32, u8) \
  VIA_FLOAT (ROW, f16) VIA_FLOAT (ROW, bf16) VIA_FLOAT (ROW, e4m3) VIA_FLOAT (ROW, e5m2) \
  VIA_EACH_OTHER (ROW, f16, f32, bf16) VIA_EACH_OTHER (ROW, f16, f32, e4m3) VIA_EACH_OTHER (ROW, f16, f32, e5m2) \
  VIA_EACH_OTHER (ROW, bf16, f32, e4m3) VIA_EACH_OTHER (ROW, bf16, f32, e5m2) VIA_EACH_OTHER (ROW, e4m3, f32, e5m2)
