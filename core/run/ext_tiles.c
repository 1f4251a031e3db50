/* SPDX-License-Identifier: Apache-2.0
 * ext_tiles.c -- the extensions gramme.tiles/0, the tile primitives by kind, op and dtype, and
 * gramme.source/0, their text.
 *
 * The function types of gramme-ext.h repeat those of tiles.h, because a plugin sees nothing of
 * core/; the assignments to `Typed` below make the compiler compare them.  Where a primitive takes
 * a dtype as its first argument, a wrapper per dtype stands in, so that plugins need not know this
 * host's codes.
 */
#include "core/base/log.h"
#include "core/ops/ops.h"
#include "core/run/plugin_host.h"
#include "core/tiles/tiles.h"

#include <stdio.h>

static const GmTiles *tiles; /* set before the table is handed out */

/* -- One function per dtype -------------------------------------------------------------------- */

#define RANDOM_WRAPPERS(NAME)                                                                      \
  static void uniform_##NAME (void *out, uint64_t seed, uint64_t offset, uint64_t first, size_t n) \
  {                                                                                                \
    tiles->uniform (out, GM_##NAME, seed, offset, first, n);                                       \
  }                                                                                                \
  static void normal_##NAME (void *out, uint64_t seed, uint64_t offset, uint64_t first, size_t n)  \
  {                                                                                                \
    tiles->normal (out, GM_##NAME, seed, offset, first, n);                                        \
  }
RANDOM_WRAPPERS (F32)
RANDOM_WRAPPERS (F64)

#define DTYPE(code, NAME, ...)                                                                     \
  static void matmul_##NAME (int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row_stride, \
                             int64_t a_col_stride, const void *b, int64_t b_row_stride,            \
                             int64_t b_col_stride, void *c, int64_t ldc)                           \
  {                                                                                                \
    gm_tile_matmul (GM_##NAME, m, n, k, a, a_row_stride, a_col_stride, b, b_row_stride,            \
                    b_col_stride, c, ldc);                                                         \
  }
#include "core/tensor/dtypes.def"

static const GrammeTileMatmul matmuls[GM_N_DTYPES] = {
#define DTYPE(code, NAME, ...) [GM_##NAME] = matmul_##NAME,
#include "core/tensor/dtypes.def"
};

/* -- Finding ----------------------------------------------------------------------------------- */

static bool
dtype_find (uint32_t dtype, GmDtype *out)
{
  return dtype >> 16 == 1 && gm_dtype_from_dlpack ((uint8_t) dtype, (uint8_t) (dtype >> 8), out)
         && gm_dtypes[*out].live;
}

static void
tile_name (char *name, const char *kind, const char *op, const char *from, const char *dtype)
{
  if (name)
    snprintf (name, GRAMME_TILE_NAME_BYTES, "gm_tile%s%s%s%s%s%s%s%s", *kind ? "_" : "", kind,
              *op ? "_" : "", op, *from ? "_" : "", from, *dtype ? "_" : "", dtype);
}

/* A function pointer, of its own type and of the plugin's type.  Unlike a cast, the union lets gcc
 * check each member's type against tiles.h. */
typedef union {
  GrammeTilePointwise pointwise;
  GrammeTileCast cast;
  GrammeTileFold fold;
  GrammeTileFoldColumns fold_columns;
  GrammeTileArgFold arg_fold;
  GrammeTileGather gather;
  GrammeTileScatter scatter;
  GrammeTileRandom random;
  GrammeTileMatmul matmul;
  GrammeTileFn any;
} Typed;

static GrammeTileFn
find (void *ctx, uint32_t kind, uint32_t op, uint32_t dtype, uint32_t from, char *name)
{
  const GmTiles *t = ctx;
  Typed f = { .any = NULL };
  GmDtype d = GM_BOOL, s = GM_BOOL;
  bool strided = kind == GRAMME_TILE_GATHER || kind == GRAMME_TILE_SCATTER;
  if (!strided && !dtype_find (dtype, &d))
    return NULL;
  if (kind == GRAMME_TILE_CAST && !dtype_find (from, &s))
    return NULL;
  uint32_t second = from & ~GRAMME_TILE_BEHIND;
  if (kind == GRAMME_TILE_PAIR && (d != GM_F32 || second >= GM_N_OPS || !gm_ops[second].name))
    return NULL;
  bool with_op = kind == GRAMME_TILE_POINTWISE || kind == GRAMME_TILE_PAIR
                 || (kind >= GRAMME_TILE_FOLD && kind <= GRAMME_TILE_ARG_FOLD);
  if (with_op && (op >= GM_N_OPS || !gm_ops[op].name))
    return NULL;
  const char *op_name = with_op ? gm_ops[op].name : "", *d_name = strided ? "" : gm_dtypes[d].text;

  switch (kind) {
  case GRAMME_TILE_POINTWISE:
    f.pointwise = t->pointwise ((int) op, d);
    tile_name (name, "", op_name, "", d_name);
    break;
  case GRAMME_TILE_PAIR:
    f.pointwise = t->pair ((int) op, (int) second, from & GRAMME_TILE_BEHIND);
    tile_name (name, from & GRAMME_TILE_BEHIND ? "pair_behind" : "pair", op_name,
               gm_ops[second].name, d_name);
    break;
  case GRAMME_TILE_CAST:
    f.cast = t->cast (s, d);
    tile_name (name, "cast", "", gm_dtypes[s].text, d_name);
    break;
  case GRAMME_TILE_FOLD:
    f.fold = from == GRAMME_TILE_WIDE ? t->fold_wide ((int) op, d) : t->fold ((int) op, d);
    tile_name (name, from == GRAMME_TILE_WIDE ? "fold_wide" : "fold", op_name, "", d_name);
    break;
  case GRAMME_TILE_FOLD_COLUMNS:
    f.fold_columns = from == GRAMME_TILE_WIDE ? t->fold_columns_wide ((int) op, d)
                                              : t->fold_columns ((int) op, d);
    tile_name (name, from == GRAMME_TILE_WIDE ? "fold_columns_wide" : "fold_columns", op_name, "",
               d_name);
    break;
  case GRAMME_TILE_ARG_FOLD:
    f.arg_fold = t->arg_fold ((int) op, d);
    tile_name (name, "arg_fold", op_name, "", d_name);
    break;
  case GRAMME_TILE_GATHER:
    f.gather = t->gather;
    tile_name (name, "gather", "", "", "");
    break;
  case GRAMME_TILE_SCATTER:
    f.scatter = t->scatter;
    tile_name (name, "scatter", "", "", "");
    break;
  case GRAMME_TILE_UNIFORM:
    f.random = d == GM_F32 ? uniform_F32 : d == GM_F64 ? uniform_F64 : NULL;
    tile_name (name, "uniform", "", "", d_name);
    break;
  case GRAMME_TILE_NORMAL:
    f.random = d == GM_F32 ? normal_F32 : d == GM_F64 ? normal_F64 : NULL;
    tile_name (name, "normal", "", "", d_name);
    break;
  case GRAMME_TILE_MATMUL:
    f.matmul = d == GM_BOOL || gm_dtype_compute (d) != d ? NULL : matmuls[d];
    tile_name (name, "matmul", "", "", d_name);
    break;
  }
  return f.any;
}

static int32_t
reduce_init (void *ctx, uint32_t op, uint32_t dtype, void *out)
{
  const GmTiles *t = ctx;
  GmDtype d;
  if (op >= GM_N_OPS || gm_ops[op].family != GM_FAMILY_REDUCE || !dtype_find (dtype, &d)
      || !t->fold ((int) op, d))
    return GRAMME_NOT_FOUND;
  t->reduce_init ((int) op, d, out);
  return GRAMME_OK;
}

const GrammeTiles *
gm_host_tiles (void)
{
  static GrammeTiles table;
  static gsize once;
  if (g_once_init_enter (&once)) {
    const char *why = NULL;
    tiles = gm_tiles_get (&why);
    if (tiles)
      table = (GrammeTiles){ sizeof table, GM_TILE, (void *) tiles, tiles->isa, find, reduce_init };
    else
      gm_log (GM_LOG_PLUGINS, "%s: %s", GRAMME_TILES_ID, why);
    g_once_init_leave (&once, 1);
  }
  return table.ctx ? &table : NULL;
}

static void *
find_external (void *ctx, const char *name)
{
  return ((const GmTiles *) ctx)->external (name);
}

const GrammeSource *
gm_host_source (void)
{
  static GrammeSource table;
  static gsize once;
  if (!gm_host_tiles ())
    return NULL;
  if (g_once_init_enter (&once)) {
    table = (GrammeSource){ sizeof table,   (uint32_t) tiles->vector_bytes,
                            (void *) tiles, tiles->source,
                            tiles->flags,   find_external };
    g_once_init_leave (&once, 1);
  }
  return &table;
}
