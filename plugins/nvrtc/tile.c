/* SPDX-License-Identifier: Apache-2.0
 * tile.c -- see tile.h.
 */
#include "plugins/nvrtc/tile.h"

#include <stdlib.h>

#define DEPTH 16

static int64_t
tiles_of (NvUnit *u, const NvTile *t, int64_t *across)
{
  CgSizes *sizes = u->p->sizes;
  *across = codegen_size_div_up (sizes, t->cols, NV_TILE);
  return codegen_size_mul (sizes, codegen_size_div_up (sizes, t->rows, NV_TILE), *across);
}

void
nv_tile_begin (NvUnit *u, NvTile *t)
{
  CgSizes *sizes = u->p->sizes;
  int64_t across, blocks = codegen_size_mul (sizes, tiles_of (u, t, &across), t->batches);
  nv_begin (u, t->label, NV_TILE_BLOCK, (int32_t) t->node);
  nv_reach (u, codegen_size_add (sizes, blocks, NV_TILE));
  nv_reach (u, codegen_size_add (sizes, t->depth, 2 * DEPTH));
  nv_reach (u, codegen_size_add (sizes, codegen_size_add (sizes, t->rows, t->cols), 2 * NV_TILE));
}

/* Prints the copy of a piece of rows x cols at (r0, c0) of a matrix of all_rows x all_cols, into
 * shared memory at `place`, in terms of y and x; `element` is the statement that reads an element,
 * and elements outside are 0. */
static void
put_piece (CgText *t, const char *work, const char *element, bool down, const char *place, int rows,
           int cols, const char *r0, const char *c0, const char *all_rows, const char *all_cols)
{
  put (t, "#pragma unroll\n    for (int q = tid; q < %d; q += %d) {\n", rows * cols, NV_TILE_BLOCK);
  if (down)
    put (t, "      const int y = q %% %d, x = q / %d;\n", rows, rows);
  else
    put (t, "      const int y = q / %d, x = q %% %d;\n", cols, cols);
  put (t,
       "      const gm_index r = %s + y, c = %s + x;\n      E_%s v = 0;\n      if (r < %s && c < "
       "%s) {\n%s      }\n      %s = v;\n    }\n",
       r0, c0, work, all_rows, all_cols, element, place);
}

static const char *
text_of (NvUnit *u, const CgText *t)
{
  u->oom = u->oom || t->oom;
  return t->text ? t->text : "";
}

void
nv_tile_end (NvUnit *u, NvTile *tile)
{
  CgText *t = &u->k.text;
  const char *w = tile->work;
  int64_t across, tiles = tiles_of (u, tile, &across);
  put (t, "  GM_SHARED E_%s sa[%d][%d], sb[%d][%d];\n", w, DEPTH, NV_TILE + 1, DEPTH, NV_TILE + 1);
  put (t,
       "  E_%s acc[4][4] = { { 0 } };\n  const int tid = (int) GM_THREAD, ty = tid / 16, tx = tid "
       "%% 16;\n",
       w);
  put (t, "  gm_index rest = GM_BLOCK / %s;\n", NVZ (u, tiles));
  put (t, "  const gm_index tile = GM_BLOCK %% %s, r0 = tile / %s * %d, c0 = tile %% %s * %d;\n",
       NVZ (u, tiles), NVZ (u, across), NV_TILE, NVZ (u, across), NV_TILE);
  put (t, "%s  for (gm_index k0 = 0; k0 < %s; k0 += %d) {\n", text_of (u, &tile->head),
       NVZ (u, tile->depth), DEPTH);
  put_piece (t, w, text_of (u, &tile->a), tile->a_down, "sa[x][y]", NV_TILE, DEPTH, "r0", "k0",
             NVZ (u, tile->rows), NVZ (u, tile->depth));
  put_piece (t, w, text_of (u, &tile->b), tile->b_down, "sb[y][x]", DEPTH, NV_TILE, "k0", "c0",
             NVZ (u, tile->depth), NVZ (u, tile->cols));
  put (t,
       "    GM_BARRIER ();\n#pragma unroll\n    for (int k = 0; k < %d; k++)\n#pragma unroll\n     "
       " for (int y = 0; y < 4; y++)\n"
       "#pragma unroll\n        for (int x = 0; x < 4; x++)\n"
       "          acc[y][x] = mad_%s (sa[k][ty + y * 16], sb[k][tx + x * 16], acc[y][x]);\n    "
       "GM_BARRIER ();\n  }\n",
       DEPTH, w);
  put (t,
       "#pragma unroll\n  for (int y = 0; y < 4; y++)\n#pragma unroll\n    for (int x = 0; x < 4; "
       "x++) {\n"
       "      const gm_index r = r0 + ty + y * 16, c = c0 + tx + x * 16;\n      if (r < %s && c < "
       "%s) {\n%s      }\n    }\n",
       NVZ (u, tile->rows), NVZ (u, tile->cols), text_of (u, &tile->store));
  nv_end (u, codegen_size_mul (u->p->sizes, tiles, tile->batches));
  free (tile->head.text);
  free (tile->a.text);
  free (tile->b.text);
  free (tile->store.text);
}
