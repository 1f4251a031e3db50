/* SPDX-License-Identifier: Apache-2.0
 * tiles-impl.h -- all tile primitives for one instruction set.
 *
 * tiles_avx2.c and tiles_avx512.c define GM_ISA_* and include this file, which defines one GmTiles,
 * named by GM_TILES_TABLE.  The arithmetic rows come from gramme-ops.def (tiles-rows.h, once per
 * element type); casts, random numbers and strided copies follow.
 */
/* clang-format off */
#include "core/tiles/op_codes.h"
#include "core/tiles/prelude.h"
#include "core/tiles/tiles.h"

enum {
#define DTYPE(code, NAME, text, ...) GM_TILE_CODE_##NAME = code,
#include "core/tensor/dtypes.def"
  GM_TILE_DTYPES,
  GM_TILE_b1 = GM_TILE_CODE_BOOL,
  GM_TILE_u8 = GM_TILE_CODE_U8,
  GM_TILE_i8 = GM_TILE_CODE_I8,
  GM_TILE_i16 = GM_TILE_CODE_I16,
  GM_TILE_i32 = GM_TILE_CODE_I32,
  GM_TILE_i64 = GM_TILE_CODE_I64,
  GM_TILE_e4m3 = GM_TILE_CODE_F8E4M3,
  GM_TILE_e5m2 = GM_TILE_CODE_F8E5M2,
  GM_TILE_f16 = GM_TILE_CODE_F16,
  GM_TILE_bf16 = GM_TILE_CODE_BF16,
  GM_TILE_f32 = GM_TILE_CODE_F32,
  GM_TILE_f64 = GM_TILE_CODE_F64,
};

/* -- Rows, type by type ------------------------------------------------------------------------ */

enum {
#define NAMED(code, version, name, ...) GM_TILE_OP_##name = code,
#define POINTWISE NAMED
#define REDUCE NAMED
#define ARGREDUCE NAMED
#define SCAN NAMED
#include "plugin-api/gramme-ops.def"
#undef NAMED
};

#define GM_EACH_TYPE "core/tiles/tiles-rows.h"
#include "core/tiles/tiles-types.h"
#undef GM_EACH_TYPE

#include "core/tiles/tiles-casts.h"
#include "core/tiles/tiles-random.h"
#include "core/tiles/tiles-scan.h"

/* -- Products with windows --------------------------------------------------------------------- */

#ifdef GM_ISA_AVX512
GM_INLINE vf64 fma_f64 (vf64 a, vf64 b, vf64 c) { return __builtin_ia32_vfmaddpd512_mask (a, b, c, (char) -1, 4); }
#else
GM_INLINE vf64 fma_f64 (vf64 a, vf64 b, vf64 c) { return __builtin_ia32_vfmaddpd256 (a, b, c); }
#endif

typedef int32_t B_f32;
typedef int64_t B_f64;

/* Vectors for transposing squares of four or two lanes. */
typedef float gm_v4sf __attribute__ ((vector_size (16)));
typedef double gm_v2df __attribute__ ((vector_size (16)));
typedef int gm_v4si __attribute__ ((vector_size (16)));
GM_INLINE void
turn_square_f32 (const gm_v4sf *a, gm_v4sf *b)
{
  const gm_v4si low = { 0, 4, 1, 5 }, high = { 2, 6, 3, 7 }, first = { 0, 1, 4, 5 }, second = { 2, 3, 6, 7 };
  gm_v4sf p = __builtin_shuffle (a[0], a[1], low), q = __builtin_shuffle (a[2], a[3], low);
  gm_v4sf r = __builtin_shuffle (a[0], a[1], high), s = __builtin_shuffle (a[2], a[3], high);
  b[0] = __builtin_shuffle (p, q, first);
  b[1] = __builtin_shuffle (p, q, second);
  b[2] = __builtin_shuffle (r, s, first);
  b[3] = __builtin_shuffle (r, s, second);
}
GM_INLINE void
turn_square_f64 (const gm_v2df *a, gm_v2df *b)
{
  b[0] = __builtin_shuffle (a[0], a[1], (gm_v2di){ 0, 2 });
  b[1] = __builtin_shuffle (a[0], a[1], (gm_v2di){ 1, 3 });
}

#define GM_T f32
#include "core/tiles/tiles-convolve.h"
#include "core/tiles/tiles-product.h"
#undef GM_T
#define GM_T f64
#include "core/tiles/tiles-convolve.h"
#include "core/tiles/tiles-product.h"
#undef GM_T

static const GmConvolveTiles *
look_up_convolve (int dtype)
{
  return dtype == GM_TILE_f32 ? &convolve_f32 : dtype == GM_TILE_f64 ? &convolve_f64 : NULL;
}

static const GmFewTiles *
look_up_few_rows (int dtype)
{
  return dtype == GM_TILE_f32 ? &few_f32 : dtype == GM_TILE_f64 ? &few_f64 : NULL;
}

/* -- Strided copies ---------------------------------------------------------------------------- */

#define STRIDED(bits) \
  static void gather_##bits (uint##bits##_t *out, const uint##bits##_t *in, ptrdiff_t stride, size_t n) \
  { \
    for (size_t i = 0; i < n; i++) \
      out[i] = in[(ptrdiff_t) i * stride]; \
  } \
  static void scatter_##bits (uint##bits##_t *out, ptrdiff_t stride, const uint##bits##_t *in, size_t n) \
  { \
    for (size_t i = 0; i < n; i++) \
      out[(ptrdiff_t) i * stride] = in[i]; \
  } \
  static void fill_##bits (uint##bits##_t *out, const uint##bits##_t *in, size_t n) \
  { \
    const uint##bits##_t x = *in; \
    const vu##bits all = (vu##bits){ 0 } + x; \
    size_t i = 0; \
    for (; i + sizeof all / sizeof x <= n; i += sizeof all / sizeof x) \
      GM_STORE (vu##bits, out + i, all); \
    for (; i < n; i++) \
      out[i] = x; \
  }
STRIDED (8)
STRIDED (16)
STRIDED (32)
STRIDED (64)
#undef STRIDED

#define BY_SIZE(elem_bytes, f) \
  switch (elem_bytes) { \
  case 1: f (8); break; \
  case 2: f (16); break; \
  case 4: f (32); break; \
  case 8: f (64); break; \
  }

static void
gather (void *out, const void *in, ptrdiff_t in_stride, size_t n, size_t elem_bytes)
{
#define FILL(bits) fill_##bits (out, in, n)
#define GATHER(bits) gather_##bits (out, in, in_stride, n)
  if (n == 0)
    return;
  if (in_stride == 1)
    memcpy (out, in, n * elem_bytes);
  else if (in_stride == 0)
    BY_SIZE (elem_bytes, FILL)
  else
    BY_SIZE (elem_bytes, GATHER)
#undef FILL
#undef GATHER
}

static void
scatter (void *out, ptrdiff_t out_stride, const void *in, size_t n, size_t elem_bytes)
{
#define SCATTER(bits) scatter_##bits (out, out_stride, in, n)
  if (n == 0)
    return;
  if (out_stride == 1)
    memcpy (out, in, n * elem_bytes);
  else
    BY_SIZE (elem_bytes, SCATTER)
#undef SCATTER
}
#undef BY_SIZE

/* -- Look-up ----------------------------------------------------------------------------------- */

#include "core/tiles/tiles-pairs.h"

/* True for rows that mean the same for bytes of 0 or 1 as for other bytes: bool uses those of
 * u8. */
static bool
shared_with_u8 (int op)
{
  switch (op) {
#define SHARED_ARITH(code)
#define SHARED_FLOAT(code)
#define SHARED_LOGICAL(code)
#define SHARED_COMPARE(code) case code:
#define SHARED_BITWISE(code) case code:
#define SHARED_SELECT(code) case code:
#define POINTWISE(code, version, name, n, types, ...) SHARED_##types (code)
#define ARGREDUCE(code, ...) case code:
#include "plugin-api/gramme-ops.def"
  case GM_TILE_OP_copy:
  case GM_TILE_OP_maximum:
  case GM_TILE_OP_minimum:
  case GM_TILE_OP_amax:
  case GM_TILE_OP_amin:
    return true;
  default:
    return false;
  }
}

/* True for rows without arithmetic, which move elements of any type as bytes. */
static bool
moves (int op)
{
  switch (op) {
#define MOVES_ARITH(code)
#define MOVES_FLOAT(code)
#define MOVES_LOGICAL(code)
#define MOVES_COMPARE(code)
#define MOVES_BITWISE(code)
#define MOVES_SELECT(code) case code:
#define POINTWISE(code, version, name, n, types, ...) MOVES_##types (code)
#include "plugin-api/gramme-ops.def"
  case GM_TILE_OP_copy:
    return true;
  default:
    return false;
  }
}

#define LOOK_UP(Type, table) \
  static Type look_up_##table (int op, int dtype) \
  { \
    if (op < 0 || op >= (int) GM_OP_CODES) \
      return NULL; \
    switch (dtype) { \
    case GM_TILE_f32: return table##_f32[op]; \
    case GM_TILE_f64: return table##_f64[op]; \
    case GM_TILE_f16: return moves (op) ? table##_i16[op] : table##_f16[op]; \
    case GM_TILE_bf16: return moves (op) ? table##_i16[op] : table##_bf16[op]; \
    case GM_TILE_e4m3: \
    case GM_TILE_e5m2: return moves (op) ? table##_u8[op] : NULL; \
    case GM_TILE_i8: return table##_i8[op]; \
    case GM_TILE_i16: return table##_i16[op]; \
    case GM_TILE_i32: return table##_i32[op]; \
    case GM_TILE_i64: return table##_i64[op]; \
    case GM_TILE_u8: return table##_u8[op]; \
    case GM_TILE_b1: return shared_with_u8 (op) ? table##_u8[op] : table##_b1[op]; \
    default: return NULL; \
    } \
  }
LOOK_UP (GmTilePointwise, pointwise)
LOOK_UP (GmTileFold, fold)
LOOK_UP (GmTileFoldColumns, fold_columns)
LOOK_UP (GmTileArgFold, arg_fold)
#undef LOOK_UP

static GmTileCast
look_up_cast (int from, int to)
{
  return from >= 0 && from < GM_TILE_DTYPES && to >= 0 && to < GM_TILE_DTYPES ? casts[from][to] : NULL;
}

static void
reduce_init (int op, int dtype, void *out)
{
  switch (dtype) {
  case GM_TILE_f32: reduce_init_f32 (op, out); break;
  case GM_TILE_f64: reduce_init_f64 (op, out); break;
  case GM_TILE_f16: reduce_init_f16 (op, out); break;
  case GM_TILE_bf16: reduce_init_bf16 (op, out); break;
  case GM_TILE_i8: reduce_init_i8 (op, out); break;
  case GM_TILE_i16: reduce_init_i16 (op, out); break;
  case GM_TILE_i32: reduce_init_i32 (op, out); break;
  case GM_TILE_i64: reduce_init_i64 (op, out); break;
  case GM_TILE_u8: reduce_init_u8 (op, out); break;
  case GM_TILE_b1:
    if (op == GM_TILE_OP_amin)
      *(uint8_t *) out = 1; /* the neutral element of u8 would not be a bool */
    else if (!reduce_init_b1 (op, out))
      reduce_init_u8 (op, out);
    break;
  }
}

/* -- Functions that the source of these tiles refers to ---------------------------------------- */

static const struct {
  const char *name;
  void *address;
} externals[] = {
#define TEXT_(name) #name
#define TEXT(name) TEXT_ (name)
#define EXTERNAL(f) { TEXT (f), (void *) f },
#define ONLY_F64(f) EXTERNAL (GM_SLEEF_f64 (f))
#define BOTH(f) EXTERNAL (GM_SLEEF_f32 (f)) EXTERNAL (GM_SLEEF_f64 (f))
  GM_ELEMENTARY (BOTH, BOTH, ONLY_F64) BOTH (tan) BOTH (sinh) BOTH (cosh) BOTH (log1p) BOTH (pow)
  EXTERNAL (GM_FMOD_f32) EXTERNAL (GM_FMOD_f64) { "gm_fmodf", (void *) fmodf }, { "gm_fmod", (void *) fmod },
#undef TEXT_
#undef TEXT
#undef EXTERNAL
#undef BOTH
#undef ONLY_F64
};

static void *
external (const char *name)
{
  for (size_t i = 0; i < sizeof externals / sizeof *externals; i++)
    if (strcmp (externals[i].name, name) == 0)
      return externals[i].address;
  return NULL;
}

static const char source[] =
#ifdef GM_ISA_AVX512
#include "core/tiles/source_avx512.inc"
#else
#include "core/tiles/source_avx2.inc"
#endif
;

const GmTiles GM_TILES_TABLE = {
  .isa = GM_TILES_ISA,
  .pointwise = look_up_pointwise,
  .pair = look_up_pair,
  .cast = look_up_cast,
  .fold = look_up_fold,
  .fold_columns = look_up_fold_columns,
  .arg_fold = look_up_arg_fold,
  .fold_wide = look_up_fold_wide,
  .fold_columns_wide = look_up_fold_columns_wide,
  .scan = look_up_scan,
  .scan_line = look_up_scan_line,
  .reduce_init = reduce_init,
  .gather = gather,
  .scatter = scatter,
  .uniform = uniform,
  .normal = normal,
  .philox = philox,
  .convolve = look_up_convolve,
  .few_rows = look_up_few_rows,
  .vector_bytes = GM_VECTOR_BYTES,
  .flags = GM_TILES_FLAGS,
  .source = source,
  .external = external,
};
