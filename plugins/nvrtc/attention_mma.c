/* SPDX-License-Identifier: Apache-2.0
 * attention_mma.c -- the kernel of attention.h for f16 and bf16 on tensor cores (mma.cuh).
 *
 * A warp takes 16 rows of q, which stay in its registers; a block of 8 or 4 warps walks over k and
 * v, some rows at a time, which pass through shared memory; the next rows are loaded while the
 * present ones are used. Scores never leave registers: the elements of the result that a lane holds
 * are those that it needs of the weights as an operand.  Weights are rounded to the dtype for the
 * second product, and summed before that.  Of a causal mask's blocks those with the longest walk go
 * first.  (FlashAttention-2: Dao, 2023.)
 */
#include "plugins/nvrtc/attention.h"

static const char mma_text[] =
#include "plugins/nvrtc/mma.inc"
    ;

typedef struct {
  const NvAttention *a;
  NvOperand q, k, v, mask, o;
  uint32_t ndim, dtype;
  int64_t l, s;       /* rows of q, of k; may be symbolic */
  int e, width;       /* columns of q and k, of v */
  int e_room, v_room; /* rounded up to a multiple of 16 */
  int keys, step;     /* rows of k and v in shared memory at a time, and processed at a time */
  int rows, block;    /* rows of q of a block, threads of a block */
  bool folded;        /* the scale is applied to the exponential's argument, not to the scores */
} Form;

bool
nv_attention_is_mma (const NvUnit *u, const NvAttention *a)
{
  uint32_t dtype = u->p->values[a->q].dtype;
  return u->found->capability >= 80 && (dtype == GRAMME_DTYPE_F16 || dtype == GRAMME_DTYPE_BF16);
}

/* True if the scale can be applied later: a positive factor commutes with the maximum, but an added
 * mask needs scaled scores. */
static bool
is_folded (const NvUnit *u, const NvAttention *a)
{
  char text[128];
  unsigned bits = 0;
  if (a->scale == CG_NONE || a->divides || a->kind == NV_MASK_ADDED)
    return false;
  nv_literal (u, text, sizeof text, a->scale);
  return sscanf (text, "GM_F32_BITS (0x%x", &bits) == 1 && bits > 0 && bits < 0x7f800000u;
}

/* True if 8 elements along `along` can be read at once from the beginning of every row. by: the
 * stride of the other dimension. */
static bool
is_wide (const NvUnit *u, const NvOperand *o, uint32_t ndim, int64_t by, int64_t along, int n)
{
  const CgProgram *p = u->p;
  const CgValue *v = o->v;
  bool good = along == 1 && n % 8 == 0 && codegen_size_is_multiple (p->sizes, p->image, by, 8)
              && codegen_size_is_multiple (p->sizes, p->image, v->view_bytes, 16);
  for (uint32_t d = 0; d + 2 < ndim && good; d++)
    good = codegen_size_is_multiple (p->sizes, p->image, nv_broadcast_stride (v, ndim, d), 8);
  return good;
}

/* A matrix in memory, and a piece of its rows in shared memory.  There rows are `room` + 8 elements
 * apart, so that consecutive rows begin in different banks. */
typedef struct {
  const NvOperand *o;
  const char *offset, *first; /* begin of the matrix, and of the piece */
  int64_t all, by, along;     /* rows of the matrix; strides of rows and of elements */
  /* Size of the piece; room: the width rounded up to a multiple of 16. */
  int rows, width, room;
  int unroll; /* unrolling of the loop over it */
} Tile;

/* Prints the head of a loop over a tile, `step` elements at a time, which begin at x of row y.
 * Returns the condition for elements inside of the matrix. */
static const char *
put_tile_loop (NvUnit *u, const Form *f, const Tile *m, int step)
{
  CgText *t = &u->k.text;
  int across = m->room / step, pieces = m->rows * across;
  bool whole = nv_attention_is_whole (m->all, m->rows), full = m->width == m->room;
  if (f->block % across == 0 && pieces % f->block == 0) /* a thread stays in its column */
    put (t,
         "#pragma unroll %d\n  for (int c = 0; c < %d; c++) {\n    const int x = tid %% %d * %d, y "
         "= tid / %d + c * %d;\n",
         m->unroll, pieces / f->block, across, step, across, f->block / across);
  else
    put (t,
         "#pragma unroll 1\n  for (int c = tid; c < %d; c += %d) {\n    const int y = c / %d, x = "
         "c %% %d * %d;\n",
         pieces, f->block, across, across, step);
  if (!whole || !full)
    put (t, "    const int there = ");
  if (!whole)
    put (t, "%s + (gm_index) y < %s%s", m->first, NVZ (u, m->all), full ? ";\n" : " && ");
  if (!full)
    put (t, "x < %d;\n", m->width);
  put (t,
       "    const gm_index at = %s%s + (%s + (gm_index) y) * (gm_index) %s + (gm_index) x * "
       "(gm_index) %s;\n",
       whole && full ? "" : "!there ? 0 : ", m->offset, m->first, NVZ (u, m->by),
       NVZ (u, m->along));
  return whole && full ? "1" : "there";
}

/* Prints the copy of a tile into shared memory at `to`; elements beyond the matrix are 0. */
static void
put_tile (NvUnit *u, const Form *f, const char *to, const Tile *m)
{
  bool wide = is_wide (u, m->o, f->ndim, m->by, m->along, m->width);
  const char *there = put_tile_loop (u, f, m, wide ? 8 : 1);
  if (wide)
    put (&u->k.text, "    copy_16 (&%s[y * %d + x], &p%u[at], %s);\n  }\n", to, m->room + 8,
         m->o->arg, there);
  else
    put (&u->k.text, "    %s[y * %d + x] = %s ? p%u[at] : (E_f16) 0;\n  }\n", to, m->room + 8,
         there, m->o->arg);
}

/* Prints the copy of a tile from shared memory. */
static void
put_tile_back (NvUnit *u, const Form *f, const char *from, const Tile *m)
{
  bool wide = is_wide (u, m->o, f->ndim, m->by, m->along, m->width);
  const char *elem = nv_elem (f->dtype), *there = put_tile_loop (u, f, m, wide ? 8 : 1);
  if (wide)
    put (&u->k.text,
         "    if (%s)\n      *(V8_%s *) &p%u[at] = *(const V8_%s *) &%s[y * %d + x];\n  }\n", there,
         elem, m->o->arg, elem, from, m->room + 8);
  else
    put (&u->k.text, "    if (%s)\n      p%u[at] = %s[y * %d + x];\n  }\n", there, m->o->arg, from,
         m->room + 8);
}

/* Prints the loading of the warp's rows of q as operands, through the memory that keys use
 * later. */
static void
put_queries (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  put (t, "  E_f16 *const sq = sk[0];\n");
  put_tile (u, f, "sq",
            &(Tile){ &f->q, "oq", "r0", f->l, f->q.row, f->q.col, f->rows, f->e, f->e_room, 1 });
  put (t,
       "  GM_COPIES_END ();\n  GM_COPIES_WAIT (0);\n  GM_BARRIER ();\n  gm_u32 aq[%d][4];\n"
       "  const gm_place in_q = place_of_rows (sq + tid / 32 * 16 * %d, %d, lane);\n"
       "#pragma unroll\n  for (int k = 0; k < %d; k++)\n    a_of_rows (aq[k], GM_FURTHER (in_q, k "
       "* 16), %d);\n  GM_BARRIER ();\n",
       f->e_room / 16, f->e_room + 8, f->e_room + 8, f->e_room / 16, f->e_room + 8);
}

/* True if the mask has to be read from memory for each score. */
static bool
asks (const Form *f)
{
  return f->a->kind != NV_MASK_NONE && f->a->kind != NV_MASK_CAUSAL;
}

/* Prints the replacement of masked scores by minus infinity, where some of the step's keys are
 * masked for some of the warp's rows: a row sees its first `seen` keys, counted from the lane's
 * first on. */
static void
put_mask (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  bool causal = f->a->kind == NV_MASK_CAUSAL, whole = nv_attention_is_whole (f->s, f->keys);
  char i[80], s[80];
  if (asks (f)) {
    put (t,
         "#pragma unroll\n    for (int n = 0; n < %d; n++)\n#pragma unroll\n      for (int j = 0; "
         "j < 4; j++) {\n    E_f32 a = sc[n][j];\n",
         f->step / 8);
    put (t, "    const gm_index col = s0 + (gm_index) (n * 8 + 2 * t + j %% 2);\n");
    nv_attention_clamp (u, s, sizeof s, "col", f->s, f->keys);
    put (t, "    const gm_index s = %s;\n", s);
    nv_attention_mask (u, f->a, &f->mask, "(j < 2 ? om_near : om_far)");
    put (t, "    sc[n][j] = a;\n      }\n");
  }
  if (whole && !causal)
    return;
  put (t, "    if (");
  if (!whole)
    put (t, "s0 + %d > %s%s", f->step, NVZ (u, f->s), causal ? " || " : "");
  put (t, "%s) {\n", causal ? "s0 + LAST > row - (gm_index) g" : "");
  for (int h = 0; h < 2; h++) {
    snprintf (i, sizeof i, h ? "(row + 8)" : "row");
    nv_attention_clamp (u, s, sizeof s, i, f->s, f->keys);
    if (causal)
      put (t, "    const int seen%d = (int) (%s + 1 - s0) - 2 * t;\n", h, s);
    else
      put (t, "    const int seen%d = (int) (%s - s0) - 2 * t;\n", h, NVZ (u, f->s));
  }
  put (t,
       "#pragma unroll\n    for (int n = 0; n < %d; n++)\n#pragma unroll\n      for (int j = 0; j "
       "< 4; j++)\n"
       "        sc[n][j] = n * 8 + j %% 2 < (j < 2 ? seen0 : seen1) ? sc[n][j] : -GM_INF;\n    }\n",
       f->step / 8);
}

/* Prints the scores of the warp's rows and this step's keys; those that are masked or beyond the
 * end are minus infinity. */
static void
put_scores (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  put (t,
       "    E_f32 sc[%d][4];\n#pragma unroll\n    for (int n = 0; n < %d; n++)\n      sc[n][0] = "
       "sc[n][1] = sc[n][2] = sc[n][3] = 0;\n"
       "#pragma unroll\n    for (int k = 0; k < %d; k++)\n#pragma unroll\n      for (int n = 0; n "
       "< %d; n++)\n"
       "        mma_columns_%s (sc[2 * n], sc[2 * n + 1], aq[k], GM_FURTHER (in_k, n * 16 * %d + k "
       "* 16), %d);\n",
       f->step / 8, f->step / 8, f->e_room / 16, f->step / 16, nv_elem (f->dtype), f->e_room + 8,
       f->e_room + 8);
  if (!f->folded && f->a->scale != CG_NONE) {
    put (t,
         "#pragma unroll\n    for (int n = 0; n < %d; n++)\n#pragma unroll\n      for (int j = 0; "
         "j < 4; j++) {\n    E_f32 a = sc[n][j];\n",
         f->step / 8);
    nv_attention_scale (u, f->a);
    put (t, "    sc[n][j] = a;\n      }\n");
  }
  put_mask (u, f);
}

/* Prints the replacement of scores by weights, and the sums of rows g and g + 8. Weights are
 * relative to `top`, the largest score so far or an earlier one: `top` is raised, and the sums are
 * scaled down, only where a weight is 256 times its limit, which is rare. (The factor:
 * FlashAttention-4.) */
static void
put_weights (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  put (t,
       "    E_f32 now[2];\n#pragma unroll\n    for (int h = 0; h < 2; h++) {\n      now[h] = "
       "larger_f32 (sc[0][2 * h], sc[0][2 * h + 1]);\n"
       "#pragma unroll\n      for (int n = 1; n < %d; n++)\n        now[h] = larger_f32 (now[h], "
       "larger_f32 (sc[n][2 * h], sc[n][2 * h + 1]));\n"
       "      now[h] = larger_f32 (now[h], from_f32 (now[h], lane ^ 1));\n      now[h] = "
       "larger_f32 (now[h], from_f32 (now[h], lane ^ 2)) * LOG2E;\n    }\n",
       f->step / 8);
  put (t,
       "    if (GM_ANY (now[0] - top[0] > 8 || now[1] - top[1] > 8)) {\n#pragma unroll\n      for "
       "(int h = 0; h < 2; h++) {\n"
       "        const E_f32 higher = larger_f32 (now[h], top[h]), factor = higher == -GM_INF ? 1 : "
       "GM_EX2 (top[h] - higher);\n"
       "        top[h] = higher;\n        sum[h] *= factor;\n#pragma unroll\n        for (int n = "
       "0; n < %d; n++) {\n"
       "          acc[n][2 * h] *= factor;\n          acc[n][2 * h + 1] *= factor;\n        }\n    "
       "  }\n    }\n",
       f->v_room / 8);
  put (t,
       "#pragma unroll\n    for (int h = 0; h < 2; h++) {\n      const E_f32 by = top[h] == "
       "-GM_INF ? 0 : top[h];\n"
       "#pragma unroll\n      for (int n = 0; n < %d; n++)\n#pragma unroll\n        for (int j = 2 "
       "* h; j < 2 * h + 2; j++) {\n"
       "          sc[n][j] = GM_EX2 (GM_FMA (sc[n][j], LOG2E, -by));\n          sum[h] = sum[h] + "
       "sc[n][j];\n        }\n    }\n",
       f->step / 8);
}

static void
put_sums (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  const char *elem = nv_elem (f->dtype);
  put (t, "#pragma unroll\n    for (int k = 0; k < %d; k++) {\n      gm_u32 ap[4];\n",
       f->step / 16);
  for (int j = 0; j < 4; j++)
    put (t, "      ap[%d] = pair_%s (sc[2 * k + %d][%d], sc[2 * k + %d][%d]);\n", j, elem, j / 2,
         j % 2 * 2, j / 2, j % 2 * 2 + 1);
  put (t,
       "#pragma unroll\n      for (int n = 0; n < %d; n++)\n"
       "        mma_depths_%s (acc[2 * n], acc[2 * n + 1], ap, GM_FURTHER (in_v, k * 16 * %d + n * "
       "16), %d);\n    }\n",
       f->v_room / 16, elem, f->v_room + 8, f->v_room + 8);
}

/* Prints the store of the results, through the shared memory that values used. A sum is at least 1;
 * for a row that is masked completely it is 0, and 0 times infinity is NaN. */
static void
put_result (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  const char *elem = nv_elem (f->dtype);
  put (t,
       "#pragma unroll\n  for (int h = 0; h < 2; h++) {\n    sum[h] = sum[h] + from_f32 (sum[h], "
       "lane ^ 1);\n"
       "    sum[h] = sum[h] + from_f32 (sum[h], lane ^ 2);\n    const E_f32 inverse = GM_RCP "
       "(sum[h]);\n"
       "    gm_u32 *const to = (gm_u32 *) (sv[0] + (tid / 32 * 16 + g + h * 8) * %d + 2 * "
       "t);\n#pragma unroll\n    for (int n = 0; n < %d; n++)\n"
       "      to[n * 4] = pair_%s (acc[n][2 * h] * inverse, acc[n][2 * h + 1] * inverse);\n  }\n  "
       "GM_BARRIER ();\n  const E_f16 *const so = sv[0];\n",
       f->v_room + 8, f->v_room / 8, elem);
  put_tile_back (
      u, f, "so",
      &(Tile){ &f->o, "oo", "r0", f->l, f->o.row, f->o.col, f->rows, f->width, f->v_room, 1 });
}

static void
put_walk (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  bool causal = f->a->kind == NV_MASK_CAUSAL;
  put (t,
       "  E_f32 acc[%d][4], top[2] = { -GM_INF, -GM_INF }, sum[2] = { 0, 0 };\n#pragma unroll\n  "
       "for (int n = 0; n < %d; n++)\n"
       "    acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;\n",
       f->v_room / 8, f->v_room / 8);
  if (causal)
    put (t, "  const gm_index end = r0 + %d < %s ? r0 + %d : %s;\n", f->rows, NVZ (u, f->s),
         f->rows, NVZ (u, f->s));
  else
    put (t, "  const gm_index end = %s;\n", NVZ (u, f->s));
  put (t,
       "  const int pieces = (int) ((end + %d) / %d);\n#pragma unroll 1\n  for (int piece = -1; "
       "piece < pieces; piece++) {\n"
       "    if (piece + 1 < pieces) {\n      const gm_index first = (gm_index) (piece + 1) * %d;\n"
       "      E_f16 *tk = sk[(piece + 1) & 1], *tv = sv[(piece + 1) & 1];\n",
       f->keys - 1, f->keys, f->keys);
  put_tile (u, f, "tk",
            &(Tile){ &f->k, "ok", "first", f->s, f->k.col, f->k.row, f->keys, f->e, f->e_room, 2 });
  put_tile (
      u, f, "tv",
      &(Tile){ &f->v, "ov", "first", f->s, f->v.row, f->v.col, f->keys, f->width, f->v_room, 2 });
  put (t, "    }\n    GM_COPIES_END ();\n    if (piece < 0)\n      continue;\n    GM_COPIES_WAIT "
          "(1);\n    GM_BARRIER ();\n");
  put (t,
       "    gm_place in_k = place_of_columns (sk[piece & 1], %d, lane), in_v = place_of_depths "
       "(sv[piece & 1], %d, lane);\n"
       "#pragma unroll 1\n    for (int from = 0; from < %d; from += %d, in_k = GM_FURTHER (in_k, "
       "%d), in_v = GM_FURTHER (in_v, %d)) {\n"
       "    const gm_index s0 = (gm_index) piece * %d + (gm_index) from;\n",
       f->e_room + 8, f->v_room + 8, f->keys, f->step, f->step * (f->e_room + 8),
       f->step * (f->v_room + 8), f->keys);
  if (causal)
    /* None of the warp's rows sees anything that follows. */
    put (t, "    if (s0 > row - (gm_index) g + 15)\n      break;\n");
  put_scores (u, f);
  put_weights (u, f);
  put_sums (u, f);
  put (t, "    }\n    GM_BARRIER ();\n  }\n  GM_COPIES_WAIT (0);\n");
}

void
nv_print_attention_mma (NvUnit *u, const NvAttention *a)
{
  const CgProgram *p = u->p;
  const GrammeNode *n = gramme_image_node (p->image, a->node);
  const CgValue *out = &p->values[n->out];
  CgSizes *sizes = p->sizes;
  Form f = { .a = a, .ndim = out->ndim, .dtype = out->dtype, .l = out->sizes[out->ndim - 2] };
  f.s = p->values[a->k].sizes[p->values[a->k].ndim - 1];
  f.e = (int) p->values[a->q].sizes[p->values[a->q].ndim - 1];
  f.width = (int) out->sizes[out->ndim - 1];
  f.e_room = (f.e + 15) / 16 * 16;
  f.v_room = (f.width + 15) / 16 * 16;
  bool small = f.e_room <= 64 && f.v_room <= 64;
  f.keys = small ? 64 : 32; /* two pieces of both within 48 KiB */
  f.step = small ? 32 : 16; /* all of them at once would double the text, and the compiler's time */
  /* Large rows use the registers: several small blocks hide each other's waits. */
  f.rows = small ? 128 : 64;
  f.block = f.rows * 2;
  int64_t tiles = codegen_size_div_up (sizes, f.l, f.rows), blocks = tiles;
  char scale[128];
  for (uint32_t d = 0; d + 2 < f.ndim; d++)
    blocks = codegen_size_mul (sizes, blocks, out->sizes[d]);
  if (!u->has_mma)
    /* Both roles share a text. */
    put (&u->functions, "#ifndef GM_MMA_TEXT\n#define GM_MMA_TEXT\n%s#endif\n", mma_text);
  u->has_mma = true;
  CgText *t = nv_begin (u, "attention", (uint32_t) f.block, (int32_t) a->node);
  nv_reach (u, codegen_size_add (sizes, blocks,
                                 codegen_size_add (sizes, codegen_size_add (sizes, f.l, f.s),
                                                   f.rows + 2 * f.keys)));
  u->k.beside = small ? 2 : 0; /* a register more would halve the number of running blocks */
  f.q = nv_attention_operand (u, a->q, f.ndim, f.rows, false);
  f.k = nv_attention_operand (u, a->k, f.ndim, f.rows, false);
  f.v = nv_attention_operand (u, a->v, f.ndim, f.rows, false);
  if (a->kind != NV_MASK_NONE && a->kind != NV_MASK_CAUSAL)
    f.mask = nv_attention_operand (u, a->mask, f.ndim, f.rows, false);
  f.o = nv_attention_operand (u, n->out, f.ndim, f.rows, true);
  f.folded = is_folded (u, a);
  if (f.folded)
    nv_literal (u, scale, sizeof scale, a->scale);
  put (t,
       "#define LOG2E (0x1.715476p+0f * %s)\n#define LAST (gm_index) %d\n  GM_SHARED GM_ALIGN (16) "
       "E_f16 sk[2][%d], sv[2][%d];\n",
       f.folded ? scale : "1", f.step - 1, f.keys * (f.e_room + 8), f.keys * (f.v_room + 8));
  put (t,
       "  const int tid = (int) GM_THREAD, lane = tid %% 32, g = lane / 4, t = lane %% 4;\n  "
       "gm_index rest = GM_BLOCK / %s;\n",
       NVZ (u, tiles));
  put (t,
       "  const gm_index r0 = (%s - 1 - GM_BLOCK %% %s) * %d, row = r0 + (gm_index) (tid / 32 * 16 "
       "+ g);\n",
       NVZ (u, tiles), NVZ (u, tiles), f.rows);
  for (int d = (int) f.ndim - 3; d >= 0; d--)
    put (t, "  const gm_index b%d = rest %% %s;\n  rest /= %s;\n", d, NVZ (u, out->sizes[d]),
         NVZ (u, out->sizes[d]));
  nv_attention_offset (u, "oq", &f.q, f.ndim);
  nv_attention_offset (u, "ok", &f.k, f.ndim);
  nv_attention_offset (u, "ov", &f.v, f.ndim);
  nv_attention_offset (u, "oo", &f.o, f.ndim);
  if (f.mask.v) {
    char near[80], far[80];
    nv_attention_offset (u, "om", &f.mask, f.ndim);
    nv_attention_clamp (u, near, sizeof near, "row", f.l, f.rows);
    nv_attention_clamp (u, far, sizeof far, "(row + 8)", f.l, f.rows);
    put (t,
         "  const gm_index om_near = om + %s * (gm_index) %s, om_far = om + %s * (gm_index) %s;\n",
         near, NVZ (u, f.mask.row), far, NVZ (u, f.mask.row));
  }
  put_queries (u, &f);
  put_walk (u, &f);
  put_result (u, &f);
  put (t, "#undef LAST\n#undef LOG2E\n");
  nv_end (u, blocks);
}
