/* SPDX-License-Identifier: Apache-2.0
 * attention_kernel.c -- the kernel of attention.h, for f32 and for GPUs without tensor cores that we use; the other is in
 * attention_mma.c.
 *
 * A block takes 32 rows of q, four threads a row, and walks over k and v 32 rows at a time, which pass through shared memory one
 * after the other.  A row keeps the largest score so far, the sum of weights relative to it, and the weighted sum of v; a larger
 * score scales both down.  A row without a visible score is 0 / 0, as it is where everything is written out.  With a causal mask the
 * walk ends at the last column that a row of the block sees.
 */
#include "plugins/nvrtc/attention.h"

#define ROWS 32
#define KEYS 32
#define PARTS 4 /* threads of a row */
#define BLOCK (ROWS * PARTS)

NvOperand
nv_attention_operand (NvUnit *u, uint32_t value, uint32_t ndim, int64_t past, bool writes)
{
  const CgValue *v = &u->p->values[value];
  CgSizes *sizes = u->p->sizes;
  NvOperand o = { nv_arg (u, value, writes), v, nv_broadcast_stride (v, ndim, ndim - 2), nv_broadcast_stride (v, ndim, ndim - 1) };
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

/* Rows first + y, of `width` elements, into shared memory; `by`, `along`: strides of rows and of elements. */
static void
put_rows (NvUnit *u, const NvOperand *o, const char *to, const char *offset, const char *first, int64_t n, int64_t width, int64_t by,
          int64_t along)
{
  char memory[200], value[280];
  snprintf (memory, sizeof memory, "p%u[%s + (%s + y) * (gm_index) %s + x * (gm_index) %s]", o->arg, offset, first, NVZ (u, by),
            NVZ (u, along));
  nv_load (value, sizeof value, o->v->dtype, memory);
  put (&u->k.text,
       "  for (int i = tid; i < %lld; i += %d) {\n    const int y = i / %lld, x = i %% %lld;\n"
       "    %s[y][x] = %s + y < %s ? %s : 0;\n  }\n",
       (long long) (32 * width), BLOCK, (long long) width, (long long) width, to, first, NVZ (u, n), value);
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
nv_attention_mask (NvUnit *u, const NvAttention *a, const NvOperand *mask)
{
  CgText *t = &u->k.text;
  char memory[200], value[280];
  if (mask->v) {
    snprintf (memory, sizeof memory, "p%u[om + i * (gm_index) %s + s * (gm_index) %s]", mask->arg, NVZ (u, mask->row), NVZ (u, mask->col));
    nv_load (value, sizeof value, mask->v->dtype, memory);
  }
  switch (a->kind) {
  case NV_MASK_KEEPS:
    put (t, "    a = !there || %s ? a : -GM_INF;\n", value);
    break;
  case NV_MASK_DROPS:
    put (t, "    a = !there || !%s ? a : -GM_INF;\n", value);
    break;
  case NV_MASK_ADDED:
    put (t, "    a = there ? a + %s : a;\n", value);
    break;
  case NV_MASK_CAUSAL:
    put (t, "    a = i >= s ? a : -GM_INF;\n");
    break;
  default:
    break;
  }
}

static void
print_floats (NvUnit *u, const NvAttention *a)
{
  const GrammeNode *n = gramme_image_node (u->p->image, a->node);
  const CgValue *out = &u->p->values[n->out];
  CgSizes *sizes = u->p->sizes;
  uint32_t ndim = out->ndim;
  int64_t l = out->sizes[ndim - 2], width = out->sizes[ndim - 1], s = u->p->values[a->k].sizes[u->p->values[a->k].ndim - 1];
  int64_t e = u->p->values[a->q].sizes[u->p->values[a->q].ndim - 1], tiles = codegen_size_div_up (sizes, l, ROWS), blocks = tiles;
  long long columns = (long long) (width + PARTS - 1) / PARTS, widest = (long long) e > columns * PARTS ? (long long) e : columns * PARTS;
  bool tail = width % PARTS != 0;
  for (uint32_t d = 0; d + 2 < ndim; d++)
    blocks = codegen_size_mul (sizes, blocks, out->sizes[d]);
  CgText *t = nv_begin (u, "attention", BLOCK, (int32_t) a->node);
  nv_reach (u, codegen_size_add (sizes, blocks, codegen_size_add (sizes, codegen_size_add (sizes, l, s), ROWS + KEYS)));
  NvOperand q = nv_attention_operand (u, a->q, ndim, KEYS, false), k = nv_attention_operand (u, a->k, ndim, KEYS, false);
  NvOperand v = nv_attention_operand (u, a->v, ndim, KEYS, false), mask = { 0 };
  NvOperand o = nv_attention_operand (u, n->out, ndim, KEYS, true);
  if (a->kind != NV_MASK_NONE && a->kind != NV_MASK_CAUSAL)
    mask = nv_attention_operand (u, a->mask, ndim, KEYS, false);
  put (t, "  GM_SHARED E_f32 sq[%d][%lld], skv[%d][%lld], sp[%d][%d];\n", ROWS, (long long) e + 1, KEYS, widest + 1, ROWS, KEYS + 1);
  put (t, "  E_f32 acc[%lld] = { 0 }, top = -GM_INF, sum = 0;\n  const int tid = (int) GM_THREAD, own = tid / %d, part = tid %% %d;\n", columns,
       PARTS, PARTS);
  put (t, "  gm_index rest = GM_BLOCK / %s;\n  const gm_index r0 = GM_BLOCK %% %s * %d, i = r0 + (gm_index) own;\n", NVZ (u, tiles),
       NVZ (u, tiles), ROWS);
  for (int d = (int) ndim - 3; d >= 0; d--)
    put (t, "  const gm_index b%d = rest %% %s;\n  rest /= %s;\n", d, NVZ (u, out->sizes[d]), NVZ (u, out->sizes[d]));
  nv_attention_offset (u, "oq", &q, ndim);
  nv_attention_offset (u, "ok", &k, ndim);
  nv_attention_offset (u, "ov", &v, ndim);
  nv_attention_offset (u, "oo", &o, ndim);
  if (mask.v)
    nv_attention_offset (u, "om", &mask, ndim);
  put_rows (u, &q, "sq", "oq", "r0", l, e, q.row, q.col);
  if (a->kind == NV_MASK_CAUSAL)
    put (t, "  const gm_index end = r0 + %d < %s ? r0 + %d : %s;\n", ROWS, NVZ (u, s), ROWS, NVZ (u, s));
  else
    put (t, "  const gm_index end = %s;\n", NVZ (u, s));
  put (t, "  for (gm_index s0 = 0; s0 < end; s0 += %d) {\n", KEYS);
  put_rows (u, &k, "skv", "ok", "s0", s, e, k.col, k.row);
  put (t,
       "  GM_BARRIER ();\n"
       "  for (int key = part; key < %d; key += %d) {\n    const gm_index s = s0 + (gm_index) key;\n"
       "    const int there = s < %s && i < %s;\n    E_f32 a = 0;\n"
       "#pragma unroll 8\n    for (int x = 0; x < %lld; x++)\n      a = mad_f32 (sq[own][x], skv[key][x], a);\n",
       KEYS, PARTS, NVZ (u, s), NVZ (u, l), (long long) e);
  nv_attention_scale (u, a);
  nv_attention_mask (u, a, &mask);
  put (t, "    sp[own][key] = s < %s ? a : -GM_INF;\n  }\n  GM_BARRIER ();\n", NVZ (u, s));
  put_rows (u, &v, "skv", "ov", "s0", s, width, v.row, v.col);
  put (t,
       "  E_f32 now = top;\n  for (int key = 0; key < %d; key++)\n    now = max_f32 (now, sp[own][key]);\n"
       "  const int none = now == -GM_INF;\n  const E_f32 factor = none ? 1 : exp_f32 (top - now);\n  GM_BARRIER ();\n"
       "  for (int key = part; key < %d; key += %d)\n    sp[own][key] = none ? 0 : exp_f32 (sp[own][key] - now);\n"
       "  GM_BARRIER ();\n  top = now;\n  sum = sum * factor;\n"
       "#pragma unroll\n  for (int c = 0; c < %lld; c++)\n    acc[c] = acc[c] * factor;\n"
       "  for (int key = 0; key < %d; key++) {\n    const E_f32 weight = sp[own][key];\n    sum = sum + weight;\n"
       "#pragma unroll\n    for (int c = 0; c < %lld; c++)\n"
       "        acc[c] = mad_f32 (weight, skv[key][part + c * %d], acc[c]);\n  }\n  GM_BARRIER ();\n  }\n",
       KEYS, KEYS, PARTS, columns, KEYS, columns, PARTS);
  char value[128], inside[64] = "";
  nv_store (value, sizeof value, out->dtype, "(acc[c] / sum)");
  if (tail)
    snprintf (inside, sizeof inside, " && part + c * %d < %lld", PARTS, (long long) width);
  put (t,
       "#pragma unroll\n  for (int c = 0; c < %lld; c++)\n    if (i < %s%s)\n"
       "      p%u[oo + i * (gm_index) %s + (gm_index) (part + c * %d) * (gm_index) %s] = %s;\n",
       columns, NVZ (u, l), inside, o.arg, NVZ (u, o.row), PARTS, NVZ (u, o.col), value);
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
