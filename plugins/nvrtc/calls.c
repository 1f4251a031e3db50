/* SPDX-License-Identifier: Apache-2.0
 * calls.c -- see calls.h; and the nodes that no loop contains: copies, odd reductions, positions of
 * extremes, sums along a line, random numbers, sequences.
 */
#include "plugins/nvrtc/calls.h"
#include "plugins/nvrtc/count.h"

/* -- Points ------------------------------------------------------------------------------------ */

static int64_t
points_of (NvUnit *u, const CgValue *space, int skip)
{
  int64_t n = 1;
  for (uint32_t d = 0; d < space->ndim; d++)
    if ((int) d != skip)
      n = codegen_size_mul (u->p->sizes, n, space->sizes[d]);
  return n;
}

bool
nv_call_begin (NvUnit *u, const char *label, uint32_t node, const CgValue *space, int skip,
               const uint32_t *values, uint32_t n_values)
{
  int64_t n = points_of (u, space, skip);
  if (n == 0)
    return false;
  CgText *t = nv_begin (u, label, NV_CALL_BLOCK, (int32_t) node);
  nv_reach (u, codegen_size_add (u->p->sizes, n, NV_CALL_BLOCK));
  if (skip >= 0)
    nv_reach (u, space->sizes[skip]);
  for (uint32_t i = 0; i < n_values; i++)
    nv_reach (u, nv_extent (u, &u->p->values[values[i]]));
  put (t,
       "  const gm_index i = (gm_index) GM_BLOCK * %d + GM_THREAD;\n  if (i >= %s)\n    return;\n  "
       "gm_index rest = i;\n",
       NV_CALL_BLOCK, NVZ (u, n));
  for (int d = (int) space->ndim; d-- > 0;)
    if (d != skip)
      put (t, "  const gm_index d%d = rest %% %s;\n  rest /= %s;\n", d, NVZ (u, space->sizes[d]),
           NVZ (u, space->sizes[d]));
  return true;
}

void
nv_call_end (NvUnit *u, const CgValue *space, int skip)
{
  nv_end (u, codegen_size_div_up (u->p->sizes, points_of (u, space, skip), NV_CALL_BLOCK));
}

void
nv_call_offset (NvUnit *u, char *out, size_t room, const CgValue *v, uint32_t ndim, int at,
                const char *name)
{
  size_t len = (size_t) snprintf (out, room, "(gm_index) 0");
  for (uint32_t d = 0; d < ndim && len < room; d++) {
    int own = (int) d - (int) (ndim - v->ndim);
    char coordinate[32];
    if (own < 0 || v->sizes[own] == 1 || v->strides[own] == 0)
      continue;
    snprintf (coordinate, sizeof coordinate, "d%u", d);
    len += (size_t) snprintf (out + len, room - len, " + %s * (gm_index) %s",
                              (int) d == at ? name : coordinate, NVZ (u, v->strides[own]));
  }
}

/* Prints the statement that writes `worked` to element `offset` of the node's result. */
static void
put_result (NvUnit *u, CgText *t, const GrammeNode *n, const char *offset, const char *worked)
{
  char value[1800];
  nv_store (value, sizeof value, u->p->values[n->out].dtype, worked);
  put (t, "  p%u[%s] = %s;\n", nv_arg (u, n->out, true), offset, value);
}

/* -- Copies and pointwise nodes ---------------------------------------------------------------- */

void
nv_print_copy (NvUnit *u, uint32_t step)
{
  const CgStep *s = &u->p->steps[step];
  /* The output has the same geometry, from its own first element. */
  CgValue to = u->p->values[s->from];
  char from[512], out[512];
  if (!nv_call_begin (u, "copy", CG_NONE, &to, -1, &s->from, 1))
    return;
  CgText *t = &u->k.text;
  nv_call_offset (u, from, sizeof from, &u->p->values[s->from], to.ndim, -1, "");
  nv_call_offset (u, out, sizeof out, &to, to.ndim, -1, "");
  uint32_t a = nv_arg (u, s->from, false), b = nv_arg_output (u, s->to, to.dtype);
  put (t, "  p%u[%s] = p%u[%s];\n", b, out, a, from);
  nv_call_end (u, &to, -1);
}

static void
print_pointwise (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  const CgValue *out = &u->p->values[n->out];
  char operands[3][256], offset[512], memory[600], value[1400];
  uint32_t values[4] = { n->out };
  for (uint32_t i = 0; i < n->n_in && i < 3; i++)
    values[i + 1] = gramme_node_in (u->p->image, n, i);
  if (!nv_call_begin (u, gramme_op_facts (n->op).name, node, out, -1, values,
                      1 + (n->n_in < 3 ? n->n_in : 3)))
    return;
  CgText *t = &u->k.text;
  for (uint32_t i = 0; i < n->n_in && i < 3; i++) {
    uint32_t in = gramme_node_in (u->p->image, n, i);
    nv_call_offset (u, offset, sizeof offset, &u->p->values[in], out->ndim, -1, "");
    snprintf (memory, sizeof memory, "p%u[%s]", nv_arg (u, in, false), offset);
    nv_load (value, sizeof value, u->p->values[in].dtype, memory);
    put (t, "  const E_%s x%u = %s;\n", nv_work (u->p->values[in].dtype), i, value);
    snprintf (operands[i], sizeof operands[i], "x%u", i);
  }
  nv_apply (u, value, sizeof value, n, operands);
  nv_call_offset (u, offset, sizeof offset, out, out->ndim, -1, "");
  put_result (u, t, n, offset, value);
  nv_call_end (u, out, -1);
}

/* -- Reductions over any dimensions ------------------------------------------------------------ */

static uint32_t
reduced_dims (const NvUnit *u, const GrammeNode *n, uint32_t ndim)
{
  const GrammeAttr *dims = gramme_node_attr (u->p->image, n, GRAMME_ATTR_DIMS);
  uint32_t mask = 0;
  if (!dims || dims->count == 0)
    return (1u << ndim) - 1;
  for (uint32_t i = 0; i < dims->count; i++) {
    int64_t d = gramme_attr_int (u->p->image, dims, i);
    mask |= 1u << (d < 0 ? d + ndim : d);
  }
  return mask;
}

/* Prints loops over x's reduced dimensions, with coordinates q<d>; those of the kept dimensions are
 * the result's.  Returns x's offset in `offset`. */
static int
put_reduced_loops (NvUnit *u, CgText *t, const CgValue *x, const CgValue *out, uint32_t mask,
                   char *offset, size_t room)
{
  bool keepdim = out->ndim == x->ndim;
  int loops = 0, kept = 0;
  size_t len = (size_t) snprintf (offset, room, "(gm_index) 0");
  for (uint32_t d = 0; d < x->ndim; d++) {
    if (mask >> d & 1) {
      put (t, "  for (gm_index q%u = 0; q%u < %s; q%u++)\n", d, d, NVZ (u, x->sizes[d]), d);
      len += (size_t) snprintf (offset + len, room - len, " + q%u * (gm_index) %s", d,
                                NVZ (u, x->strides[d]));
      loops++;
    } else {
      len += (size_t) snprintf (offset + len, room - len, " + d%d * (gm_index) %s",
                                keepdim ? (int) d : kept, NVZ (u, x->strides[d]));
      kept++;
    }
  }
  return loops;
}

static void
print_reduce (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t in = gramme_node_in (u->p->image, n, 0);
  const CgValue *x = &u->p->values[in], *out = &u->p->values[n->out];
  const char *op = gramme_op_facts (n->op).name, *w = nv_work (gramme_tile_accumulator (x->dtype));
  char offset[512], memory[600], value[700];
  if (!nv_call_begin (u, op, node, out, -1, &in, 1))
    return;
  CgText *t = &u->k.text;
  nv_need_fold (u, n->op, w);
  put (t, "  E_%s a = init_%s_%s ();\n", w, op, w);
  put_reduced_loops (u, t, x, out, reduced_dims (u, n, x->ndim), offset, sizeof offset);
  snprintf (memory, sizeof memory, "p%u[%s]", nv_arg (u, in, false), offset);
  nv_load (value, sizeof value, x->dtype, memory);
  put (t, "    a = fold_%s_%s (a, %s);\n", op, w, value);
  nv_call_offset (u, offset, sizeof offset, out, out->ndim, -1, "");
  put_result (u, t, n, offset, "a");
  nv_call_end (u, out, -1);
}

/* Prints the kernel of the position of an extreme: the first best element wins; a NaN is better
 * than any number. */
static void
print_argreduce (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t in = gramme_node_in (u->p->image, n, 0);
  const CgValue *x = &u->p->values[in], *out = &u->p->values[n->out];
  const GrammeAttr *dim = gramme_node_attr (u->p->image, n, GRAMME_ATTR_DIM);
  const char *w = nv_work (x->dtype), *better = n->op == GRAMME_OP_argmax ? ">" : "<";
  uint32_t mask = dim ? 1u << gramme_attr_int (u->p->image, dim, 0) : (1u << x->ndim) - 1;
  char offset[512], memory[600], value[700];
  if (!nv_call_begin (u, gramme_op_facts (n->op).name, node, out, -1, &in, 1))
    return;
  CgText *t = &u->k.text;
  put (t, "  E_%s best = 0;\n  E_i64 at = -1, k = 0;\n", w);
  put_reduced_loops (u, t, x, out, x->ndim ? mask : 0, offset, sizeof offset);
  snprintf (memory, sizeof memory, "p%u[%s]", nv_arg (u, in, false), offset);
  nv_load (value, sizeof value, x->dtype, memory);
  put (t,
       "  {\n    const E_%s v = %s;\n    if (at < 0 || (best == best && (v != v || v %s best))) {\n"
       "      best = v;\n      at = k;\n    }\n    k++;\n  }\n",
       w, value, better);
  nv_call_offset (u, offset, sizeof offset, out, out->ndim, -1, "");
  put_result (u, t, n, offset, "at");
  nv_call_end (u, out, -1);
}

/* -- Along a line ------------------------------------------------------------------------------ */

/* Prints the kernel of running sums or products. A thread takes a line. Stored values are rounded,
 * but the carried one is not: float64 for float32. */
static void
print_scan (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t in = gramme_node_in (u->p->image, n, 0);
  const CgValue *x = &u->p->values[in], *out = &u->p->values[n->out];
  int dim = x->ndim ? (int) gramme_node_int (u->p->image, n, GRAMME_ATTR_DIM, 0) : -1;
  bool reverse = gramme_node_int (u->p->image, n, GRAMME_ATTR_REVERSE, 0) != 0;
  uint32_t op = n->op == GRAMME_OP_cumprod ? GRAMME_OP_mul : GRAMME_OP_add;
  const char *w = x->dtype == GRAMME_DTYPE_F32 ? "f64" : nv_work (x->dtype);
  int64_t size = dim < 0 ? 1 : x->sizes[dim];
  char offset[512], memory[600], value[700];
  if (size == 0 || !nv_call_begin (u, gramme_op_facts (n->op).name, node, x, dim, &in, 1))
    return;
  CgText *t = &u->k.text;
  nv_need_value (u, op, w);
  put (t, "  E_%s a = %d;\n  for (gm_index j = 0; j < %s; j++) {\n", w, op == GRAMME_OP_mul,
       NVZ (u, size));
  if (reverse)
    put (t, "    const gm_index k = %s - 1u - j;\n", NVZ (u, size));
  else
    put (t, "    const gm_index k = j;\n");
  nv_call_offset (u, offset, sizeof offset, x, x->ndim, dim, "k");
  snprintf (memory, sizeof memory, "p%u[%s]", nv_arg (u, in, false), offset);
  nv_load (value, sizeof value, x->dtype, memory);
  put (t, "    a = op_%s_%s (a, %s);\n  ", gramme_op_facts (op).name, w, value);
  nv_call_offset (u, offset, sizeof offset, out, x->ndim, dim, "k");
  put_result (u, t, n, offset, "a");
  put (t, "  }\n");
  nv_call_end (u, x, dim);
}

/* -- Without operands -------------------------------------------------------------------------- */

static void
print_random (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t state = gramme_node_in (u->p->image, n, 0);
  const CgValue *out = &u->p->values[n->out];
  long long offset = (long long) gramme_node_int (u->p->image, n, GRAMME_ATTR_OFFSET, 0);
  char at[512], value[512];
  if (!nv_call_begin (u, gramme_op_facts (n->op).name, node, out, -1, &n->out, 1))
    return;
  CgText *t = &u->k.text;
  uint32_t p = nv_arg (u, state, false);
  nv_call_offset (u, at, sizeof at, out, out->ndim, -1, "");
  snprintf (value, sizeof value,
            "%s_%s ((gm_u64) p%u[0], (gm_u64) p%u[%s] + (gm_u64) %lldll + i / 4, (int) (i %% 4))",
            gramme_op_facts (n->op).name, nv_work (out->dtype), p, p,
            NVZ (u, u->p->values[state].strides[0]), offset);
  put_result (u, t, n, at, value);
  nv_call_end (u, out, -1);
}

static void
print_arange (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  const CgValue *out = &u->p->values[n->out];
  char offset[512], value[900];
  if (nv_counts (u, n->out) || !nv_call_begin (u, "arange", node, out, -1, &n->out, 1))
    return;
  nv_count_text (u, value, sizeof value, node, "i");
  nv_call_offset (u, offset, sizeof offset, out, out->ndim, -1, "");
  put_result (u, &u->k.text, n, offset, value);
  nv_call_end (u, out, -1);
}

/* Prints a fill for a shape, or a value, that only the run knows: other fills are literals, or
 * constants. */
static void
print_full (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  const CgValue *out = &u->p->values[n->out];
  char offset[512], size[64], value[600];
  if (!nv_call_begin (u, "full", node, out, -1, &n->out, 1))
    return;
  if (out->literal) {
    nv_literal (u, value, sizeof value, n->out);
  } else {
    nv_scalar_text (u, size, sizeof size, gramme_node_attr (u->p->image, n, GRAMME_ATTR_VALUE),
                    false);
    nv_cast (value, sizeof value, GRAMME_DTYPE_I64, out->dtype, size);
  }
  nv_call_offset (u, offset, sizeof offset, out, out->ndim, -1, "");
  put_result (u, &u->k.text, n, offset, value);
  nv_call_end (u, out, -1);
}

/* -- The node ---------------------------------------------------------------------------------- */

void
nv_print_call (NvUnit *u, uint32_t step)
{
  uint32_t node = u->p->steps[step].node;
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  if (u->p->values[n->out].numel == 0)
    return;
  switch (gramme_op_facts (n->op).family) {
  case GRAMME_FAMILY_POINTWISE:
  case GRAMME_FAMILY_CAST:
    print_pointwise (u, node);
    return;
  case GRAMME_FAMILY_REDUCE:
    print_reduce (u, node);
    return;
  case GRAMME_FAMILY_ARGREDUCE:
    print_argreduce (u, node);
    return;
  case GRAMME_FAMILY_SCAN:
    print_scan (u, node);
    return;
  case GRAMME_FAMILY_RANDOM:
    print_random (u, node);
    return;
  case GRAMME_FAMILY_CONTRACT:
    nv_print_matmul (u, node);
    return;
  case GRAMME_FAMILY_INDEX:
    nv_print_index (u, node);
    return;
  case GRAMME_FAMILY_CONVOLVE:
    nv_print_convolve (u, node);
    return;
  default:
    if (n->op == GRAMME_OP_arange)
      print_arange (u, node);
    else if (n->op == GRAMME_OP_full)
      print_full (u, node);
    else
      nv_fail (u, GRAMME_UNSUPPORTED, (int32_t) node, "there is no kernel for this operator");
  }
}
