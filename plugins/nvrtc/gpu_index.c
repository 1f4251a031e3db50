/* SPDX-License-Identifier: Apache-2.0
 * gpu_index.c -- picks, adds and joins elements and slices by position.
 *
 * Each read of a position checks it: one that is out of range stores its node and its value in the
 * error word, and element 0 is used instead; the run fails (run.c).  Sums at positions are made by
 * a thread for each line along DIM, in the index's order: no atomics, the same bits in every run,
 * and the CPU's.
 */
#include "plugins/nvrtc/calls.h"

static uint32_t
input (const NvUnit *u, const GrammeNode *n, uint32_t i)
{
  return gramme_node_in (u->p->image, n, i);
}

static int
dim_of (const NvUnit *u, const GrammeNode *n, const CgValue *v)
{
  return v->ndim ? (int) gramme_node_int (u->p->image, n, GRAMME_ATTR_DIM, 0) : -1;
}

/* Prints `k` = the position at `offset` of the index, checked. */
static void
put_position (NvUnit *u, CgText *t, uint32_t node, uint32_t index, const char *offset, int64_t size)
{
  uint32_t e = nv_arg_error (u), p = nv_arg (u, index, false);
  put (t,
       "    E_i64 position = p%u[%s];\n    if ((gm_u64) position >= (gm_u64) %s) {\n      "
       "GM_REPORT (p%u, %lld, position);\n"
       "      position = 0;\n    }\n    const gm_index k = (gm_index) position;\n",
       p, offset, NVZ (u, size), e, (long long) node + 1);
}

/* Prints the offset in the index for the point (or for j on a line): an index of the walked shape,
 * or a list. */
static void
index_offset (NvUnit *u, char *out, size_t room, const CgValue *index, bool list, uint32_t ndim,
              int dim, const char *j)
{
  if (list)
    snprintf (out, room, "%s * (gm_index) %s", dim < 0 ? "0" : j,
              NVZ (u, index->ndim ? index->strides[0] : 0));
  else
    nv_call_offset (u, out, room, index, ndim, dim, j);
}

/* Prints the kernel of gather or index_select (`list`): a thread for each element of the result. */
static void
print_pick (NvUnit *u, uint32_t node, bool list)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t x = input (u, n, 0), index = input (u, n, 1), values[3] = { x, index, n->out };
  const CgValue *vx = &u->p->values[x], *out = &u->p->values[n->out];
  int dim = dim_of (u, n, vx);
  char j[16], at[512], from[512], to[512];
  if (!nv_call_begin (u, gramme_op_facts (n->op).name, node, out, -1, values, 3))
    return;
  CgText *t = &u->k.text;
  snprintf (j, sizeof j, "d%d", dim);
  index_offset (u, at, sizeof at, &u->p->values[index], list, out->ndim, dim, j);
  put (t, "  {\n");
  put_position (u, t, node, index, at, dim < 0 ? 1 : vx->sizes[dim]);
  nv_call_offset (u, from, sizeof from, vx, out->ndim, dim, "k");
  nv_call_offset (u, to, sizeof to, out, out->ndim, -1, "");
  uint32_t a = nv_arg (u, x, false), b = nv_arg (u, n->out, true);
  put (t, "    p%u[%s] = p%u[%s];\n    (void) k;\n  }\n", b, to, a, from);
  nv_call_end (u, out, -1);
}

/* Prints the loop that copies the line of x to the result's.  dim -1: one element. */
static void
put_line_copy (NvUnit *u, CgText *t, uint32_t x, uint32_t out, int dim)
{
  const CgValue *vx = &u->p->values[x], *vo = &u->p->values[out];
  char from[512], to[512];
  nv_call_offset (u, from, sizeof from, vx, vo->ndim, dim, "j");
  nv_call_offset (u, to, sizeof to, vo, vo->ndim, dim, "j");
  put (t, "  for (gm_index j = 0; j < %s; j++)\n    p%u[%s] = p%u[%s];\n",
       NVZ (u, dim < 0 ? 1 : vo->sizes[dim]), nv_arg (u, out, true), to, nv_arg (u, x, false),
       from);
}

/* Prints the kernel of scatter_add or index_add (`list`). The index may have fewer lines than the
 * result: lines outside of it are only copied. */
static void
print_add (NvUnit *u, uint32_t node, bool list)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t x = input (u, n, 0), index = input (u, n, 1), src = input (u, n, 2),
           values[4] = { x, index, src, n->out };
  const CgValue *out = &u->p->values[n->out], *vs = &u->p->values[src],
                *walked = list ? vs : &u->p->values[index];
  int dim = dim_of (u, n, out);
  const char *w = nv_work (out->dtype);
  char at[512], from[512], to[512], memory[600], old[700], added[700], sum[1500], value[1600];
  if (!nv_call_begin (u, gramme_op_facts (n->op).name, node, out, dim, values, 4))
    return;
  CgText *t = &u->k.text;
  put_line_copy (u, t, x, n->out, dim);
  if (walked->numel != 0) {
    for (uint32_t d = 0; d < out->ndim; d++)
      if ((int) d != dim
          && (codegen_is_symbolic (walked->sizes[d]) || codegen_is_symbolic (out->sizes[d])
              || walked->sizes[d] < out->sizes[d])
          && walked->sizes[d] != out->sizes[d])
        put (t, "  if (d%u >= %s)\n    return;\n", d, NVZ (u, walked->sizes[d]));
    /* Offsets within the walked shape: a size of 1 is one line, not a broadcast; its coordinate is
     * 0 here. */
    put (t, "  for (gm_index j = 0; j < %s; j++) {\n", NVZ (u, dim < 0 ? 1 : walked->sizes[dim]));
    index_offset (u, at, sizeof at, &u->p->values[index], list, out->ndim, dim, "j");
    put_position (u, t, node, index, at, dim < 0 ? 1 : out->sizes[dim]);
    nv_call_offset (u, from, sizeof from, vs, out->ndim, dim, "j");
    nv_call_offset (u, to, sizeof to, out, out->ndim, dim, "k");
    uint32_t b = nv_arg (u, n->out, true);
    snprintf (memory, sizeof memory, "p%u[at]", b);
    nv_load (old, sizeof old, out->dtype, memory);
    snprintf (memory, sizeof memory, "p%u[%s]", nv_arg (u, src, false), from);
    nv_load (added, sizeof added, vs->dtype, memory);
    nv_need_value (u, GRAMME_OP_add, w);
    snprintf (sum, sizeof sum, "op_add_%s (%s, %s)", w, old, added);
    nv_store (value, sizeof value, out->dtype, sum);
    put (t, "    (void) k;\n    const gm_index at = %s;\n    p%u[at] = %s;\n  }\n", to, b, value);
  }
  nv_call_end (u, out, dim);
}

/* Prints a kernel with a thread for each element of src, which is stored at start + step * its
 * place along dim. */
static void
put_store_slice (NvUnit *u, uint32_t node, const char *label, uint32_t src, uint32_t out, int dim,
                 int64_t start, int64_t step)
{
  const CgValue *vs = &u->p->values[src], *vo = &u->p->values[out];
  uint32_t values[2] = { src, out };
  char from[512], to[512], place[96];
  if (!nv_call_begin (u, label, node, vs, -1, values, 2))
    return;
  snprintf (place, sizeof place, "(d%d * (gm_index) %s + (gm_index) %s)", dim, NVZ (u, step),
            NVZ (u, start));
  nv_call_offset (u, from, sizeof from, vs, vs->ndim, -1, "");
  nv_call_offset (u, to, sizeof to, vo, vo->ndim, dim, place);
  uint32_t a = nv_arg (u, src, false), b = nv_arg (u, out, true);
  put (&u->k.text, "  p%u[%s] = p%u[%s];\n", b, to, a, from);
  nv_call_end (u, vs, -1);
}

static void
print_slice_scatter (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  int dim = dim_of (u, n, &u->p->values[n->out]);
  put_store_slice (u, node, "slice_scatter_copy", input (u, n, 0), n->out, dim, 0, 1);
  put_store_slice (u, node, "slice_scatter", input (u, n, 1), n->out, dim,
                   codegen_size_read (u->p->sizes, u->p->image,
                                      gramme_node_int (u->p->image, n, GRAMME_ATTR_START, 0), true),
                   gramme_node_int (u->p->image, n, GRAMME_ATTR_STEP, 1));
}

static void
print_cat (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  int dim = dim_of (u, n, &u->p->values[n->out]);
  int64_t start = 0;
  for (uint32_t i = 0; i < n->n_in; i++) {
    uint32_t in = input (u, n, i);
    put_store_slice (u, node, "cat", in, n->out, dim, start, 1);
    start = codegen_size_add (u->p->sizes, start, u->p->values[in].sizes[dim]);
  }
}

/* Prints the kernel of argsort. An element's place is the number of elements before it: exact,
 * stable, and n^2 comparisons for a line. */
static void
print_argsort (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t in = input (u, n, 0), values[2] = { in, n->out };
  const CgValue *x = &u->p->values[in], *out = &u->p->values[n->out];
  int dim = dim_of (u, n, x);
  bool descending = gramme_node_int (u->p->image, n, GRAMME_ATTR_DESCENDING, 0) != 0;
  const char *w = nv_work (x->dtype);
  char from[512], to[512], j[16], memory[600], own[700], other[700];
  bool eight = x->dtype == GRAMME_DTYPE_F8E4M3 || x->dtype == GRAMME_DTYPE_F8E5M2;
  if (eight)
    w = "f32";
  if (!nv_call_begin (u, "argsort", node, x, -1, values, 2))
    return;
  CgText *t = &u->k.text;
  snprintf (j, sizeof j, "d%d", dim);
  for (int i = 0; i < 2; i++) {
    char *value = i ? other : own;
    nv_call_offset (u, from, sizeof from, x, x->ndim, dim, i ? "j" : j);
    snprintf (memory, sizeof memory, "p%u[%s]", nv_arg (u, in, false), from);
    if (eight)
      snprintf (value, sizeof own, "widen_%s (%s)", nv_elem (x->dtype), memory);
    else
      nv_load (value, sizeof own, x->dtype, memory);
  }
  put (t,
       "  const E_%s v = %s;\n  gm_index place = 0;\n  for (gm_index j = 0; j < %s; j++) {\n    "
       "const E_%s o = %s;\n"
       "    const int before = %s, same = v != v ? o != o : o == v;\n"
       "    place += before || (same && j < %s);\n  }\n",
       w, own, NVZ (u, dim < 0 ? 1 : x->sizes[dim]), w, other,
       descending ? "v == v && (o != o || o > v)" : "o == o && (v != v || o < v)",
       dim < 0 ? "0" : j);
  nv_call_offset (u, to, sizeof to, out, out->ndim, dim, "place");
  put (t, "  p%u[%s] = (E_i64) %s;\n", nv_arg (u, n->out, true), to, dim < 0 ? "0" : j);
  nv_call_end (u, x, -1);
}

/* Prints the kernel of require, in which a thread for each element checks the condition. In the
 * error word the condition's code takes the place of the position, and the node is counted below 0.
 */
static void
print_require (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t x = input (u, n, 0), ok = input (u, n, 1), values[3] = { x, ok, n->out };
  const CgValue *out = &u->p->values[n->out];
  char from[512], to[512];
  if (!nv_call_begin (u, "require", node, out, -1, values, 3))
    return;
  nv_call_offset (u, from, sizeof from, &u->p->values[x], out->ndim, -1, "");
  nv_call_offset (u, to, sizeof to, out, out->ndim, -1, "");
  uint32_t a = nv_arg (u, x, false), b = nv_arg (u, n->out, true), c = nv_arg (u, ok, false),
           e = nv_arg_error (u);
  put (&u->k.text,
       "  if (!p%u[0]) {\n    GM_REPORT (p%u, %lld, %lld);\n  }\n  p%u[%s] = p%u[%s];\n", c, e,
       -1 - (long long) node, (long long) gramme_node_int (u->p->image, n, GRAMME_ATTR_OFFSET, 0),
       b, to, a, from);
  nv_call_end (u, out, -1);
}

void
nv_print_index (NvUnit *u, uint32_t node)
{
  switch (gramme_image_node (u->p->image, node)->op) {
  case GRAMME_OP_gather:
    print_pick (u, node, false);
    return;
  case GRAMME_OP_index_select:
    print_pick (u, node, true);
    return;
  case GRAMME_OP_scatter_add:
    print_add (u, node, false);
    return;
  case GRAMME_OP_index_add:
    print_add (u, node, true);
    return;
  case GRAMME_OP_slice_scatter:
    print_slice_scatter (u, node);
    return;
  case GRAMME_OP_cat:
    print_cat (u, node);
    return;
  case GRAMME_OP_argsort:
    print_argsort (u, node);
    return;
  case GRAMME_OP_require:
    print_require (u, node);
    return;
  default:
    nv_fail (u, GRAMME_UNSUPPORTED, (int32_t) node, "there is no kernel for this operator");
  }
}
