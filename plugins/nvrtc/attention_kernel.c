/* SPDX-License-Identifier: Apache-2.0
 * attention_kernel.c -- the kernel of attention.h for f32 and for GPUs whose tensor cores we do not
 * use; the other kernel is in attention_mma.c.
 *
 * A block takes 64 rows of q, or 32 where those do not fit, and walks over k and v 32 rows at a
 * time, which pass through shared memory one after the other.  A thread has a tile of scores, and
 * of results: several rows by several columns, far apart, so that values from shared memory are
 * used more than once and neighbours read from different banks.  For each row the largest score so
 * far, the sum of weights relative to it, and the weighted sum of v are kept; a larger score scales
 * both sums down.  A row without a visible score is 0 / 0, as in the written-out form.  With a
 * causal mask the walk ends at the last column that a row of the block sees.
 */
#include "plugins/nvrtc/attention.h"

#define KEYS 32
#define BLOCK 128
#define ACROSS 8              /* threads along keys and along columns */
#define DOWN (BLOCK / ACROSS) /* along rows */
#define SHARED_BYTES 49152    /* available to a block on every GPU */

NvOperand
nv_attention_operand (NvUnit *u, uint32_t value, uint32_t ndim, int64_t past, bool writes)
{
  const CgValue *v = &u->p->values[value];
  CgSizes *sizes = u->p->sizes;
  NvOperand o = { nv_arg (u, value, writes), v, nv_broadcast_stride (v, ndim, ndim - 2),
                  nv_broadcast_stride (v, ndim, ndim - 1) };
  int64_t beside = codegen_size_mul (sizes, codegen_size_add (sizes, o.row, o.col), past);
  nv_reach (u, codegen_size_add (sizes, nv_extent (u, v), beside));
  return o;
}

void
nv_attention_offset (NvUnit *u, const char *name, const NvOperand *o, uint32_t ndim)
{
  CgText *t = &u->k.text;
  put (t, "  const gm_index %s = 0", name);
  for (uint32_t d = 0; d + 2 < ndim; d++)
    if (nv_broadcast_stride (o->v, ndim, d))
      put (t, " + b%u * (gm_index) %s", d, NVZ (u, nv_broadcast_stride (o->v, ndim, d)));
  put (t, ";\n");
}

bool
nv_attention_is_whole (int64_t n, int rows)
{
  return !codegen_is_symbolic (n) && n % rows == 0;
}

void
nv_attention_clamp (NvUnit *u, char *out, size_t room, const char *n, int64_t all, int rows)
{
  if (nv_attention_is_whole (all, rows))
    snprintf (out, room, "%s", n);
  else
    snprintf (out, room, "(%s < %s ? %s : %s - 1)", n, NVZ (u, all), n, NVZ (u, all));
}

/* Prints code that copies `rows` rows of operand o from `first` on, of `width` elements, into the
 * shared array `to`; `by`, `along`: strides of rows and of elements.  float32 is copied
 * asynchronously, and has arrived after the next GM_COPIES_END and GM_COPIES_WAIT. */
static void
put_rows (NvUnit *u, const NvOperand *o, const char *to, const char *offset, int rows,
          const char *first, int64_t n, int64_t width, int64_t by, int64_t along)
{
  CgText *t = &u->k.text;
  char memory[64], value[280], there[80] = "";
  long long elements = rows * (long long) width;
  bool copies = o->v->dtype == GRAMME_DTYPE_F32;
  put (t, "#pragma unroll %d\n  for (int j = 0; j < %lld; j++) {\n", copies ? 1 : 4,
       (elements + BLOCK - 1) / BLOCK);
  if (BLOCK % width == 0) /* a thread stays in its column */
    put (t, "    const int y = j * %d + tid / %d, x = tid %% %d;\n", (int) (BLOCK / width),
         (int) width, (int) width);
  else
    put (t, "    const int place = j * %d + tid, y = place / %d, x = place %% %d;\n", BLOCK,
         (int) width, (int) width);
  if (elements % BLOCK)
    put (t, "    if (y >= %d)\n      break;\n", rows);
  if (!nv_attention_is_whole (n, rows)) {
    put (t, "    const int there = %s + (gm_index) y < %s;\n", first, NVZ (u, n));
    snprintf (there, sizeof there, "there");
  }
  put (t,
       "    const gm_index at = %s%s + (%s + (gm_index) y) * (gm_index) %s + (gm_index) x * "
       "(gm_index) %s;\n",
       *there ? "!there ? 0 : " : "", offset, first, NVZ (u, by), NVZ (u, along));
  snprintf (memory, sizeof memory, "p%u[at]", o->arg);
  nv_load (value, sizeof value, o->v->dtype, memory);
  if (copies)
    put (t, "    copy_4 (&%s[y][x], &%s, %s);\n  }\n", to, memory, *there ? there : "1");
  else
    put (t, "    %s[y][x] = %s%s;\n  }\n", to, *there ? "!there ? 0 : " : "", value);
}

void
nv_attention_scale (NvUnit *u, const NvAttention *a)
{
  char literal[128];
  if (a->scale == CG_NONE)
    return;
  nv_literal (u, literal, sizeof literal, a->scale);
  put (&u->k.text, "    a = a %s %s;\n", a->divides ? "/" : "*", literal);
}

void
nv_attention_mask (NvUnit *u, const NvAttention *a, const NvOperand *mask, const char *row)
{
  CgText *t = &u->k.text;
  char memory[200], value[280];
  if (mask->v) {
    snprintf (memory, sizeof memory, "p%u[%s + s * (gm_index) %s]", mask->arg, row,
              NVZ (u, mask->col));
    nv_load (value, sizeof value, mask->v->dtype, memory);
  }
  switch (a->kind) {
  case NV_MASK_KEEPS:
    put (t, "    a = %s ? a : -GM_INF;\n", value);
    break;
  case NV_MASK_DROPS:
    put (t, "    a = %s ? -GM_INF : a;\n", value);
    break;
  case NV_MASK_ADDED:
    put (t, "    a = a + %s;\n", value);
    break;
  case NV_MASK_CAUSAL:
    put (t, "    a = i >= s ? a : -GM_INF;\n");
    break;
  default:
    break;
  }
}

/* The kernel's shape.  Rows of q and k, and of v, are padded so that consecutive rows begin in
 * different banks. */
typedef struct {
  /* Rows of q, keys, elements of a row of q, of v; the last two are numbers. */
  int64_t l, s, e, width;
  int rows;          /* rows of a block */
  int parts;         /* threads that make the weights of a row */
  long long columns; /* columns of a thread: some may lie beyond the width */
  long long q_pitch, kv_pitch;
} Shape;

static Shape
shape_of (const NvUnit *u, const NvAttention *a)
{
  const CgProgram *p = u->p;
  const CgValue *out = &p->values[gramme_image_node (p->image, a->node)->out],
                *q = &p->values[a->q], *k = &p->values[a->k];
  Shape h = { .l = out->sizes[out->ndim - 2],
              .width = out->sizes[out->ndim - 1],
              .s = k->sizes[k->ndim - 1],
              .e = q->sizes[q->ndim - 1] };
  h.columns = (long long) (h.width + ACROSS - 1) / ACROSS;
  h.q_pitch = (long long) h.e | 1;
  h.kv_pitch = ((long long) h.e > h.columns * ACROSS ? (long long) h.e : h.columns * ACROSS) | 1;
  long long floats = 64 * h.q_pitch + KEYS * h.kv_pitch + 64 * (KEYS + 1) + 64;
  h.rows = floats * 4 <= SHARED_BYTES && (codegen_is_symbolic (h.l) || h.l > 32) ? 64 : 32;
  h.parts = BLOCK / h.rows;
  return h;
}

/* Prints sp = a tile of scores. */
static void
put_scores (NvUnit *u, const Shape *h)
{
  CgText *t = &u->k.text;
  put (t,
       "  E_f32 scores[%d][%d] = { { 0 } };\n"
       "#pragma unroll 2\n  for (int x = 0; x < %lld; x++) {\n    E_f32 k[%d];\n"
       "#pragma unroll\n    for (int z = 0; z < %d; z++)\n      k[z] = skv[across + z * %d][x];\n"
       "#pragma unroll\n    for (int y = 0; y < %d; y++) {\n      const E_f32 q = sq[down + y * "
       "%d][x];\n"
       "#pragma unroll\n      for (int z = 0; z < %d; z++)\n        scores[y][z] = mad_f32 (q, "
       "k[z], scores[y][z]);\n    }\n  }\n",
       h->rows / DOWN, KEYS / ACROSS, (long long) h->e, KEYS / ACROSS, KEYS / ACROSS, ACROSS,
       h->rows / DOWN, DOWN, KEYS / ACROSS);
  put (t,
       "#pragma unroll\n  for (int y = 0; y < %d; y++)\n#pragma unroll\n    for (int z = 0; z < "
       "%d; z++)\n"
       "      sp[down + y * %d][across + z * %d] = scores[y][z];\n",
       h->rows / DOWN, KEYS / ACROSS, DOWN, ACROSS);
}

/* Prints sp = scores, masked, and then weights relative to the largest score so far; sf = the
 * factor that scales down earlier weights.  Neighbours share a row. */
static void
put_weights (NvUnit *u, const NvAttention *a, const Shape *h, const NvOperand *mask)
{
  CgText *t = &u->k.text;
  char i[80], s[80];
  put (t,
       "  E_f32 now = top;\n#pragma unroll 1\n  for (int key = part; key < %d; key += %d) {\n    "
       "E_f32 a = sp[own][key];\n"
       "    const gm_index row = r0 + (gm_index) own, col = s0 + (gm_index) key;\n    (void) "
       "row;\n    (void) col;\n",
       KEYS, h->parts);
  nv_attention_scale (u, a);
  if (a->kind == NV_MASK_CAUSAL)
    put (t, "    const gm_index i = row, s = col;\n");
  else if (mask->v) {
    nv_attention_clamp (u, i, sizeof i, "row", h->l, h->rows);
    nv_attention_clamp (u, s, sizeof s, "col", h->s, KEYS);
    put (t, "    const gm_index from = om + %s * (gm_index) %s, s = %s;\n", i, NVZ (u, mask->row),
         s);
  }
  nv_attention_mask (u, a, mask, "from");
  if (!nv_attention_is_whole (h->s, KEYS))
    put (t, "    a = col < %s ? a : -GM_INF;\n", NVZ (u, h->s));
  put (t, "    sp[own][key] = a;\n    now = larger_f32 (now, a);\n  }\n");
  for (int by = 1; by < h->parts; by *= 2)
    put (t, "  now = larger_f32 (now, from_f32 (now, (tid ^ %d) %% 32));\n", by);
  put (t,
       "  const int none = now == -GM_INF;\n  if (part == 0)\n    sf[own] = none ? 1 : "
       "below_exp_f32 (top - now);\n  top = now;\n"
       "#pragma unroll 1\n  for (int key = part; key < %d; key += %d)\n    sp[own][key] = none ? 0 "
       ": below_exp_f32 (sp[own][key] - now);\n"
       "  GM_COPIES_END ();\n  GM_COPIES_WAIT (0);\n  GM_BARRIER ();\n",
       KEYS, h->parts);
}

/* Prints the update of acc and sum for a tile of results. */
static void
put_results (NvUnit *u, const Shape *h)
{
  int rows = h->rows / DOWN;
  put (&u->k.text,
       "#pragma unroll\n  for (int y = 0; y < %d; y++) {\n    const E_f32 factor = sf[down + y * "
       "%d];\n    sum[y] = sum[y] * factor;\n"
       "#pragma unroll\n    for (int c = 0; c < %lld; c++)\n      acc[y][c] = acc[y][c] * "
       "factor;\n  }\n",
       rows, DOWN, h->columns);
  put (&u->k.text,
       "#pragma unroll 1\n  for (int key = 0; key < %d; key++) {\n    E_f32 v[%lld];\n"
       "#pragma unroll\n    for (int c = 0; c < %lld; c++)\n      v[c] = skv[key][across + c * "
       "%d];\n"
       "#pragma unroll\n    for (int y = 0; y < %d; y++) {\n      const E_f32 weight = sp[down + y "
       "* %d][key];\n      sum[y] = sum[y] + weight;\n"
       "#pragma unroll\n      for (int c = 0; c < %lld; c++)\n        acc[y][c] = mad_f32 (weight, "
       "v[c], acc[y][c]);\n    }\n  }\n",
       KEYS, h->columns, h->columns, ACROSS, rows, DOWN, h->columns);
}

static void
print_floats (NvUnit *u, const NvAttention *a)
{
  const GrammeNode *n = gramme_image_node (u->p->image, a->node);
  const CgValue *out = &u->p->values[n->out];
  CgSizes *sizes = u->p->sizes;
  uint32_t ndim = out->ndim;
  Shape h = shape_of (u, a);
  int64_t tiles = codegen_size_div_up (sizes, h.l, h.rows), blocks = tiles;
  for (uint32_t d = 0; d + 2 < ndim; d++)
    blocks = codegen_size_mul (sizes, blocks, out->sizes[d]);
  CgText *t = nv_begin (u, "attention", BLOCK, (int32_t) a->node);
  nv_reach (u, codegen_size_add (
                   sizes, blocks,
                   codegen_size_add (sizes, codegen_size_add (sizes, h.l, h.s), h.rows + KEYS)));
  NvOperand q = nv_attention_operand (u, a->q, ndim, h.rows, false),
            k = nv_attention_operand (u, a->k, ndim, KEYS, false);
  NvOperand v = nv_attention_operand (u, a->v, ndim, KEYS, false), mask = { 0 };
  NvOperand o = nv_attention_operand (u, n->out, ndim, h.rows, true);
  if (a->kind != NV_MASK_NONE && a->kind != NV_MASK_CAUSAL)
    mask = nv_attention_operand (u, a->mask, ndim, h.rows, false);
  put (t, "  GM_SHARED E_f32 sq[%d][%lld], skv[%d][%lld], sp[%d][%d], sf[%d];\n", h.rows, h.q_pitch,
       KEYS, h.kv_pitch, h.rows, KEYS + 1, h.rows);
  put (t,
       "  E_f32 acc[%d][%lld] = { { 0 } }, sum[%d] = { 0 }, top = -GM_INF;\n"
       "  const int tid = (int) GM_THREAD, across = tid %% %d, down = tid / %d, own = tid / %d, "
       "part = tid %% %d;\n",
       h.rows / DOWN, h.columns, h.rows / DOWN, ACROSS, ACROSS, h.parts, h.parts);
  put (t, "  gm_index rest = GM_BLOCK / %s;\n  const gm_index r0 = GM_BLOCK %% %s * %d;\n",
       NVZ (u, tiles), NVZ (u, tiles), h.rows);
  for (int d = (int) ndim - 3; d >= 0; d--)
    put (t, "  const gm_index b%d = rest %% %s;\n  rest /= %s;\n", d, NVZ (u, out->sizes[d]),
         NVZ (u, out->sizes[d]));
  nv_attention_offset (u, "oq", &q, ndim);
  nv_attention_offset (u, "ok", &k, ndim);
  nv_attention_offset (u, "ov", &v, ndim);
  nv_attention_offset (u, "oo", &o, ndim);
  if (mask.v)
    nv_attention_offset (u, "om", &mask, ndim);
  put_rows (u, &q, "sq", "oq", h.rows, "r0", h.l, h.e, q.row, q.col);
  if (a->kind == NV_MASK_CAUSAL)
    put (t, "  const gm_index end = r0 + %d < %s ? r0 + %d : %s;\n", h.rows, NVZ (u, h.s), h.rows,
         NVZ (u, h.s));
  else
    put (t, "  const gm_index end = %s;\n", NVZ (u, h.s));
  put (t, "  for (gm_index s0 = 0; s0 < end; s0 += %d) {\n", KEYS);
  put_rows (u, &k, "skv", "ok", KEYS, "s0", h.s, h.e, k.col, k.row);
  put (t, "  GM_COPIES_END ();\n  GM_COPIES_WAIT (0);\n  GM_BARRIER ();\n");
  put_scores (u, &h);
  put (t, "  GM_BARRIER ();\n");
  put_rows (u, &v, "skv", "ov", KEYS, "s0", h.s, h.width, v.row, v.col);
  put_weights (u, a, &h, &mask);
  put_results (u, &h);
  put (t, "  GM_BARRIER ();\n  }\n");
  char value[128], inside[64] = "";
  /* A sum is at least 1; for a row without a visible score it is 0, and 0 times infinity is NaN. */
  nv_store (value, sizeof value, out->dtype, "(acc[y][c] * inverse)");
  if (h.width % ACROSS != 0)
    snprintf (inside, sizeof inside, "if (across + c * %d < %lld)\n        ", ACROSS,
              (long long) h.width);
  put (t,
       "#pragma unroll\n  for (int y = 0; y < %d; y++) {\n    const gm_index i = r0 + (gm_index) "
       "(down + y * %d);\n"
       "    const E_f32 inverse = GM_RCP (sum[y]);\n    E_%s *const to = p%u + (oo + i * "
       "(gm_index) %s + (gm_index) across * (gm_index) %s);\n"
       "    if (i < %s)\n#pragma unroll\n      for (int c = 0; c < %lld; c++)\n        %sto[c * %d "
       "* (gm_index) %s] = %s;\n  }\n",
       h.rows / DOWN, DOWN, nv_elem (out->dtype), o.arg, NVZ (u, o.row), NVZ (u, o.col),
       NVZ (u, h.l), h.columns, inside, ACROSS, NVZ (u, o.col), value);
  nv_end (u, blocks);
}

void
nv_print_attention (NvUnit *u, const NvAttention *a)
{
  if (nv_attention_is_mma (u, a))
    nv_print_attention_mma (u, a);
  else
    print_floats (u, a);
}
