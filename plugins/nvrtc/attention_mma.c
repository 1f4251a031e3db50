/* SPDX-License-Identifier: Apache-2.0
 * attention_mma.c -- the kernel of attention.h for f16 and bf16 on tensor cores (mma.cuh).
 *
 * A warp takes 16 rows of q, which stay in its registers; a block of 8 or 4 warps walks over k and v, whose rows pass through shared
 * memory, the next ones on their way while the present ones are worked on.  Scores never leave registers: what a lane holds of
 * them as a result is what it needs of the weights as an operand.  Weights are rounded to the dtype for the second product, and
 * summed before that.  Of a causal mask's blocks those with the longest walk go first.  (FlashAttention-2: Dao, 2023.)
 */
#include "plugins/nvrtc/attention.h"

static const char mma_text[] =
#include "plugins/nvrtc/mma.inc"
    ;

typedef struct {
  const NvAttention *a;
  NvOperand q, k, v, mask, o;
  uint32_t ndim, dtype;
  int64_t l, s;        /* rows of q, of k: sizes */
  int e, width;        /* columns of q and k, of v */
  int e_room, v_room;  /* up to a multiple of 16 */
  int keys;            /* rows of k and v at a time */
  int rows, block;     /* of q, threads: of a block */
  bool folded;         /* scores are not scaled: the exponential's argument is */
} Form;

bool
nv_attention_is_mma (const NvUnit *u, const NvAttention *a)
{
  uint32_t dtype = u->p->values[a->q].dtype;
  return u->found->capability >= 80 && (dtype == GRAMME_DTYPE_F16 || dtype == GRAMME_DTYPE_BF16);
}

/* A factor that is positive commutes with the maximum; a mask that is added wants scores as they are. */
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

/* Can 8 elements along `along` be read at once, wherever they begin?  by: the stride of the other dimension. */
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

/* Rows `first` + y of `width` elements into shared memory at `to`, whose rows are `room` and 8 more apart; what is beyond is 0. */
static void
put_tile (NvUnit *u, const Form *f, const char *to, const char *offset, const NvOperand *o, int64_t by, int64_t along, int width, int room)
{
  CgText *t = &u->k.text;
  bool wide = is_wide (u, o, f->ndim, by, along, width);
  int step = wide ? 8 : 1;
  int across = room / step, pieces = f->keys * across;
  if (f->block % across == 0 && pieces % f->block == 0) /* a thread stays in its column */
    put (t,
         "#pragma unroll\n      for (int c = 0; c < %d; c++) {\n        const int x = tid %% %d * %d, y = tid / %d + c * %d;\n", pieces / f->block,
         across, step, across, f->block / across);
  else
    put (t, "      for (int c = tid; c < %d; c += %d) {\n        const int y = c / %d, x = c %% %d * %d;\n", pieces, f->block, across, across, step);
  put (t, "        const int there = first + (gm_index) y < %s && x < %d;\n", NVZ (u, f->s), width);
  put (t, "        const gm_index at = there ? %s + (first + (gm_index) y) * (gm_index) %s + (gm_index) x * (gm_index) %s : 0;\n", offset,
       NVZ (u, by), NVZ (u, along));
  if (wide)
    put (t, "        copy_16 (&%s[y * %d + x], &p%u[at], there);\n      }\n", to, room + 8, o->arg);
  else
    put (t, "        %s[y * %d + x] = there ? p%u[at] : (E_f16) 0;\n      }\n", to, room + 8, o->arg);
}

/* The rows of q that are the warp's, as operands. */
static void
put_queries (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  put (t, "  gm_u32 aq[%d][4];\n#pragma unroll\n  for (int k = 0; k < %d; k++)\n#pragma unroll\n    for (int j = 0; j < 4; j++) {\n",
       f->e_room / 16, f->e_room / 16);
  put (t, "      const gm_index r = row + (gm_index) (j %% 2 * 8);\n      const int x = k * 16 + j / 2 * 8 + 2 * t;\n      aq[k][j] = 0;\n");
  for (int half = 0; half < 2; half++)
    put (t,
         "      if (r < %s && x + %d < %d)\n"
         "        aq[k][j] |= (gm_u32) p%u[oq + r * (gm_index) %s + (gm_index) (x + %d) * (gm_index) %s] << %d;\n",
         NVZ (u, f->l), half, f->e, f->q.arg, NVZ (u, f->q.row), half, NVZ (u, f->q.col), 16 * half);
  put (t, "    }\n");
}

/* Scores of the warp's rows and this piece's keys; those that are masked or beyond the end are minus infinity. */
static void
put_scores (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  const char *elem = nv_elem (f->dtype);
  put (t, "    E_f32 sc[%d][4];\n#pragma unroll\n    for (int n = 0; n < %d; n++)\n      sc[n][0] = sc[n][1] = sc[n][2] = sc[n][3] = 0;\n",
       f->keys / 8, f->keys / 8);
  put (t,
       "#pragma unroll\n    for (int k = 0; k < %d; k++)\n#pragma unroll\n      for (int n = 0; n < %d; n++) {\n        gm_u32 b[4];\n"
       "        b_of_columns (b, &ks[n * 16 * %d + k * 16], %d, lane);\n        mma_%s (sc[2 * n], aq[k], b[0], b[1]);\n"
       "        mma_%s (sc[2 * n + 1], aq[k], b[2], b[3]);\n      }\n",
       f->e_room / 16, f->keys / 16, f->e_room + 8, f->e_room + 8, elem, elem);
  /* Where all of the piece is seen by all of the warp's rows there is nothing to ask. */
  bool asks = f->a->kind != NV_MASK_NONE && f->a->kind != NV_MASK_CAUSAL;
  put (t, "    const int whole = %ss0 + %d <= %s%s;\n", asks ? "0 && " : "", f->keys, NVZ (u, f->s),
       f->a->kind == NV_MASK_CAUSAL ? " && s0 + (gm_index) (LAST) <= row - (gm_index) g" : "");
  static const char all[] = "#pragma unroll\n    for (int n = 0; n < %d; n++)\n#pragma unroll\n      for (int j = 0; j < 4; j++) {\n    E_f32 a = sc[n][j];\n";
  if (!f->folded) {
    put (t, all, f->keys / 8);
    nv_attention_scale (u, f->a);
    put (t, "    sc[n][j] = a;\n      }\n");
  }
  put (t, "    if (!whole) {\n");
  put (t, all, f->keys / 8);
  put (t,
       "    const gm_index i = row + (gm_index) (j / 2 * 8), s = s0 + (gm_index) (n * 8 + 2 * t + j %% 2);\n"
       "    const int there = i < %s && s < %s;\n    (void) there;\n",
       NVZ (u, f->l), NVZ (u, f->s));
  nv_attention_mask (u, f->a, &f->mask);
  put (t, "    sc[n][j] = s < %s ? a : -GM_INF;\n      }\n    }\n", NVZ (u, f->s));
}

/* The running maximum and sum of rows g and g + 8, and weights in place of scores. */
static void
put_weights (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  put (t,
       "#pragma unroll\n    for (int h = 0; h < 2; h++) {\n      E_f32 now = top[h];\n#pragma unroll\n      for (int n = 0; n < %d; n++)\n"
       "        now = larger_f32 (now, larger_f32 (sc[n][2 * h], sc[n][2 * h + 1]));\n"
       "      now = larger_f32 (now, from_f32 (now, lane ^ 1));\n      now = larger_f32 (now, from_f32 (now, lane ^ 2));\n"
       "      const int none = now == -GM_INF;\n      const E_f32 by = none ? 0 : now * LOG2E;\n"
       "      const E_f32 factor = none ? 1 : GM_EX2 (GM_FMA (top[h], LOG2E, -by));\n"
       "      top[h] = now;\n      sum[h] = sum[h] * factor;\n",
       f->keys / 8);
  put (t,
       "#pragma unroll\n      for (int n = 0; n < %d; n++) {\n        acc[n][2 * h] *= factor;\n        acc[n][2 * h + 1] *= factor;\n      }\n"
       "#pragma unroll\n      for (int n = 0; n < %d; n++)\n#pragma unroll\n        for (int j = 2 * h; j < 2 * h + 2; j++) {\n"
       "          sc[n][j] = GM_EX2 (GM_FMA (sc[n][j], LOG2E, -by));\n          sum[h] = sum[h] + sc[n][j];\n        }\n    }\n",
       f->v_room / 8, f->keys / 8);
}

static void
put_sums (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  const char *elem = nv_elem (f->dtype);
  put (t, "#pragma unroll\n    for (int k = 0; k < %d; k++) {\n      gm_u32 ap[4];\n", f->keys / 16);
  for (int j = 0; j < 4; j++)
    put (t, "      ap[%d] = pair_%s (sc[2 * k + %d][%d], sc[2 * k + %d][%d]);\n", j, elem, j / 2, j % 2 * 2, j / 2, j % 2 * 2 + 1);
  put (t,
       "#pragma unroll\n      for (int n = 0; n < %d; n++) {\n        gm_u32 b[4];\n        b_of_depths (b, &vs[k * 16 * %d + n * 16], %d, lane);\n"
       "        mma_%s (acc[2 * n], ap, b[0], b[1]);\n        mma_%s (acc[2 * n + 1], ap, b[2], b[3]);\n      }\n    }\n",
       f->v_room / 16, f->v_room + 8, f->v_room + 8, elem, elem);
}

static void
put_result (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  char value[128];
  nv_store (value, sizeof value, f->dtype, "(acc[n][j] / sum[j / 2])");
  put (t,
       "#pragma unroll\n  for (int h = 0; h < 2; h++) {\n    sum[h] = sum[h] + from_f32 (sum[h], lane ^ 1);\n"
       "    sum[h] = sum[h] + from_f32 (sum[h], lane ^ 2);\n  }\n"
       "#pragma unroll\n  for (int n = 0; n < %d; n++)\n#pragma unroll\n    for (int j = 0; j < 4; j++) {\n"
       "      const gm_index i = row + (gm_index) (j / 2 * 8);\n      const int x = n * 8 + 2 * t + j %% 2;\n"
       "      if (i < %s && x < %d)\n        p%u[oo + i * (gm_index) %s + (gm_index) x * (gm_index) %s] = %s;\n    }\n",
       f->v_room / 8, NVZ (u, f->l), f->width, f->o.arg, NVZ (u, f->o.row), NVZ (u, f->o.col), value);
}

static void
put_walk (NvUnit *u, const Form *f)
{
  CgText *t = &u->k.text;
  put (t,
       "  E_f32 acc[%d][4], top[2] = { -GM_INF, -GM_INF }, sum[2] = { 0, 0 };\n#pragma unroll\n  for (int n = 0; n < %d; n++)\n"
       "    acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;\n",
       f->v_room / 8, f->v_room / 8);
  if (f->a->kind == NV_MASK_CAUSAL)
    put (t, "  const gm_index end = r0 + %d < %s ? r0 + %d : %s;\n", f->rows, NVZ (u, f->s), f->rows, NVZ (u, f->s));
  else
    put (t, "  const gm_index end = %s;\n", NVZ (u, f->s));
  put (t,
       "  const int pieces = (int) ((end + %d) / %d);\n  for (int piece = -1; piece < pieces; piece++) {\n"
       "    if (piece + 1 < pieces) {\n      const gm_index first = (gm_index) (piece + 1) * %d;\n"
       "      E_f16 *tk = sk[(piece + 1) %% 2], *tv = sv[(piece + 1) %% 2];\n",
       f->keys - 1, f->keys, f->keys);
  put_tile (u, f, "tk", "ok", &f->k, f->k.col, f->k.row, f->e, f->e_room);
  put_tile (u, f, "tv", "ov", &f->v, f->v.row, f->v.col, f->width, f->v_room);
  put (t, "    }\n    GM_COPIES_END ();\n    if (piece < 0)\n      continue;\n    GM_COPIES_WAIT_1 ();\n    GM_BARRIER ();\n");
  put (t, "    const gm_index s0 = (gm_index) piece * %d;\n    const E_f16 *ks = sk[piece %% 2], *vs = sv[piece %% 2];\n", f->keys);
  if (f->a->kind == NV_MASK_CAUSAL)
    put (t, "    if (s0 <= row - (gm_index) g + 15) {\n"); /* else none of the warp's rows sees any of it */
  put_scores (u, f);
  put_weights (u, f);
  put_sums (u, f);
  put (t, "%s    GM_BARRIER ();\n  }\n  GM_COPIES_WAIT_0 ();\n", f->a->kind == NV_MASK_CAUSAL ? "    }\n" : "");
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
  f.rows = small ? 128 : 64; /* what is large takes the registers: several small blocks hide each other's waits */
  f.block = f.rows * 2;
  int64_t tiles = codegen_size_div_up (sizes, f.l, f.rows), blocks = tiles;
  char scale[128];
  for (uint32_t d = 0; d + 2 < f.ndim; d++)
    blocks = codegen_size_mul (sizes, blocks, out->sizes[d]);
  if (!u->has_mma)
    put (&u->functions, "#ifndef GM_MMA_TEXT\n#define GM_MMA_TEXT\n%s#endif\n", mma_text); /* both roles share a text */
  u->has_mma = true;
  CgText *t = nv_begin (u, "attention", (uint32_t) f.block, (int32_t) a->node);
  nv_reach (u, codegen_size_add (sizes, blocks, codegen_size_add (sizes, codegen_size_add (sizes, f.l, f.s), f.rows + 2 * f.keys)));
  u->k.beside = small ? 2 : 0; /* a register more would halve what runs */
  f.q = nv_attention_operand (u, a->q, f.ndim, f.rows, false);
  f.k = nv_attention_operand (u, a->k, f.ndim, f.rows, false);
  f.v = nv_attention_operand (u, a->v, f.ndim, f.rows, false);
  if (a->kind != NV_MASK_NONE && a->kind != NV_MASK_CAUSAL)
    f.mask = nv_attention_operand (u, a->mask, f.ndim, f.rows, false);
  f.o = nv_attention_operand (u, n->out, f.ndim, f.rows, true);
  f.folded = is_folded (u, a);
  if (f.folded)
    nv_literal (u, scale, sizeof scale, a->scale);
  put (t, "#define LOG2E (0x1.715476p+0f * %s)\n#define LAST %d\n  GM_SHARED GM_ALIGN (16) E_f16 sk[2][%d], sv[2][%d];\n", f.folded ? scale : "1", f.keys - 1,
       f.keys * (f.e_room + 8), f.keys * (f.v_room + 8));
  put (t, "  const int tid = (int) GM_THREAD, lane = tid %% 32, g = lane / 4, t = lane %% 4;\n  gm_index rest = GM_BLOCK / %s;\n", NVZ (u, tiles));
  put (t, "  const gm_index r0 = (%s - 1 - GM_BLOCK %% %s) * %d, row = r0 + (gm_index) (tid / 32 * 16 + g);\n", NVZ (u, tiles), NVZ (u, tiles), f.rows);
  for (int d = (int) f.ndim - 3; d >= 0; d--)
    put (t, "  const gm_index b%d = rest %% %s;\n  rest /= %s;\n", d, NVZ (u, out->sizes[d]), NVZ (u, out->sizes[d]));
  nv_attention_offset (u, "oq", &f.q, f.ndim);
  nv_attention_offset (u, "ok", &f.k, f.ndim);
  nv_attention_offset (u, "ov", &f.v, f.ndim);
  nv_attention_offset (u, "oo", &f.o, f.ndim);
  if (f.mask.v)
    nv_attention_offset (u, "om", &f.mask, f.ndim);
  put_queries (u, &f);
  put_walk (u, &f);
  put_result (u, &f);
  put (t, "#undef LAST\n#undef LOG2E\n");
  nv_end (u, blocks);
}
