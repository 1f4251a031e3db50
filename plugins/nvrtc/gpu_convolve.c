/* SPDX-License-Identifier: Apache-2.0
 * gpu_convolve.c -- convolutions, their gradients, and pools.
 *
 * x [n, channels, space], weight [out, channels of a group, kernel], y [n, out, space]: element p
 * of y meets element p * stride - pad + k * dilation of x.  These are three sums of products, each
 * a matrix of blocks (tile.h), whose elements are read in place: no matrix of patches is written.
 *
 *                        rows         columns                 summed over
 *      result            out          n, place of y           channel, place of the kernel
 *      gradient of x     channel      n, place of x           out, place of the kernel
 *      ... of weight     out          channel, kernel         n, place of y
 *
 * Sums are made in f32 (f64 for f64) in order: whole numbers give the CPU's bits, others are near.
 * Pools have the CPU's bits: the best place of a window is its first, and gradients of a place are
 * added in the windows' order.
 */
#include "plugins/nvrtc/calls.h"
#include "plugins/nvrtc/tile.h"

#define SPACE 3

/* An image or a weight, with dimensions of size 1 inserted before its space. */
typedef struct {
  uint32_t arg, dtype;
  int64_t sizes[2 + SPACE], strides[2 + SPACE];
} Image;

typedef struct {
  NvUnit *u;
  const GrammeNode *n;
  int64_t kernel[SPACE], stride[SPACE], pad[SPACE], dilation[SPACE];
  int64_t groups;
} Window;

static Image
image (NvUnit *u, uint32_t value, bool writes)
{
  const CgValue *v = &u->p->values[value];
  Image m = { .arg = nv_arg (u, value, writes), .dtype = v->dtype };
  for (uint32_t d = 0; d < 2 + SPACE; d++) {
    int own = d < 2 ? (int) d : (int) d - (int) (2 + SPACE - v->ndim);
    bool there = own >= (d < 2 ? 0 : 2);
    m.sizes[d] = there ? v->sizes[own] : 1;
    m.strides[d] = there ? v->strides[own] : 0;
  }
  nv_reach (u, nv_extent (u, v));
  return m;
}

/* Returns n as a divisor in text, or 1 for 0: such text runs only where there are elements. */
static long long
at_least_one (int64_t n)
{
  return n > 0 ? (long long) n : 1;
}

static Window
window (NvUnit *u, const GrammeNode *n)
{
  Window w = { .u = u, .n = n, .groups = 1 };
  const GrammeAttr *a = gramme_node_attr (u->p->image, n, GRAMME_ATTR_WINDOW);
  for (uint32_t d = 0; d < SPACE; d++) {
    w.kernel[d] = gramme_attr_int (u->p->image, a, d);
    w.stride[d] = gramme_attr_int (u->p->image, a, SPACE + d);
    w.pad[d] = gramme_attr_int (u->p->image, a, 2 * SPACE + d);
    w.dilation[d] = gramme_attr_int (u->p->image, a, 3 * SPACE + d);
  }
  return w;
}

/* Prints signed coordinates, since intermediate ones may be negative. */
static void
put_signed (NvUnit *u, const Window *w, CgText *t)
{
  int64_t most = u->k.most;
  for (int d = 0; d < SPACE; d++)
    most += w->kernel[d] * w->dilation[d] + w->pad[d] + w->stride[d];
  put (t, "  typedef %s gm_int;\n", most < INT32_MAX ? "int" : "long long");
}

/* Prints <name>0 ... from the linear index `from`; the first dimension comes last, and is the
 * quotient that remains. */
static void
put_split (CgText *t, const char *name, const char *from, const int64_t *sizes, int n)
{
  put (t, "        gm_index %s_ = %s;\n", name, from);
  for (int d = n; d-- > 0;)
    if (d > 0)
      put (t, "        const gm_index %s%d = %s_ %% %lldu;\n        %s_ /= %lldu;\n", name, d, name,
           at_least_one (sizes[d]), name, at_least_one (sizes[d]));
    else
      put (t, "        const gm_index %s0 = %s_;\n", name, name);
}

/* Prints to `out` the element of an image at `n`, `channel` and the coordinates <at>0 to 2. */
static void
element (char *out, size_t room, const Image *m, const char *n, const char *channel, const char *at)
{
  size_t len =
      (size_t) snprintf (out, room, "p%u[(%s) * (gm_index) %lld + (%s) * (gm_index) %lld", m->arg,
                         n, (long long) m->strides[0], channel, (long long) m->strides[1]);
  for (int d = 0; d < SPACE; d++)
    if (m->sizes[2 + d] > 1)
      len += (size_t) snprintf (out + len, room - len, " + (gm_index) %s%d * (gm_index) %lld", at,
                                d, (long long) m->strides[2 + d]);
  snprintf (out + len, room - len, "]");
}

static void
put_load (CgText *t, const Image *m, const char *indent, const char *condition, const char *n,
          const char *channel, const char *at)
{
  char memory[400], value[480];
  element (memory, sizeof memory, m, n, channel, at);
  nv_load (value, sizeof value, m->dtype, memory);
  put (t, "%s%sv = %s;\n", indent, condition, value);
}

/* Prints x's coordinates x0 ... at which y's y<d> meets the kernel's t<d>, and the test that they
 * are inside. */
static void
put_meet (CgText *t, const Window *w, const Image *x)
{
  for (int d = 0; d < SPACE; d++)
    put (t, "        const gm_int x%d = (gm_int) y%d * %lld + (gm_int) t%d * %lld - %lld;\n", d, d,
         (long long) w->stride[d], d, (long long) w->dilation[d], (long long) w->pad[d]);
  put (t,
       "        const int inside = x0 >= 0 && x0 < %lld && x1 >= 0 && x1 < %lld && x2 >= 0 && x2 < "
       "%lld;\n",
       (long long) x->sizes[2], (long long) x->sizes[3], (long long) x->sizes[4]);
}

static void
put_store (CgText *t, const Image *m, const char *n, const char *channel, const char *at)
{
  char memory[400], value[480];
  element (memory, sizeof memory, m, n, channel, at);
  nv_store (value, sizeof value, m->dtype, "acc[y][x]");
  put (t, "        %s = %s;\n", memory, value);
}

/* Prints n and y0 to y2, or ch and t0 to t2, from a linear index. */
static void
put_places (CgText *t, const char *first, const char *name, const char *from, const int64_t *space)
{
  char all[16];
  int64_t sizes[1 + SPACE] = { 0, space[0], space[1], space[2] };
  snprintf (all, sizeof all, "%s_at", first);
  put_split (t, all, from, sizes, 1 + SPACE);
  put (t, "        const gm_index %s = %s0;\n", first, all);
  for (int d = 0; d < SPACE; d++)
    put (t, "        const gm_index %s%d = %s%d; (void) %s%d;\n", name, d, all, d + 1, name, d);
}

static void
print_result (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t in[2] = { gramme_node_in (u->p->image, n, 0), gramme_node_in (u->p->image, n, 1) };
  const CgValue *vx = &u->p->values[in[0]], *vw = &u->p->values[in[1]], *vy = &u->p->values[n->out];
  Window w = window (u, n);
  int64_t channels = vw->sizes[1], kernel = w.kernel[0] * w.kernel[1] * w.kernel[2], places = 1;
  w.groups = channels ? vx->sizes[1] / channels : 1;
  int64_t out = w.groups ? vw->sizes[0] / w.groups : 0;
  for (uint32_t d = 2; d < vy->ndim; d++)
    places *= vy->sizes[d];
  NvTile t = { .label = "convolve",
               .work = nv_work (vy->dtype),
               .node = node,
               .rows = out,
               .cols = vy->sizes[0] * places,
               .depth = vx->numel ? channels * kernel : 0,
               .batches = w.groups };
  nv_tile_begin (u, &t);
  Image x = image (u, in[0], false), weight = image (u, in[1], false), y = image (u, n->out, true);
  put_signed (u, &w, &t.head);
  put (&t.head, "  const gm_index first_o = rest * %lldu, first_c = rest * %lldu;\n",
       (long long) out, (long long) channels);
  put_places (&t.a, "ch", "t", "c", w.kernel);
  put_load (&t.a, &weight, "        ", "", "first_o + r", "ch", "t");
  put_places (&t.b, "ch", "t", "r", w.kernel);
  put_places (&t.b, "n", "y", "c", y.sizes + 2);
  put_meet (&t.b, &w, &x);
  put_load (&t.b, &x, "        ", "if (inside)\n          ", "n", "first_c + ch", "x");
  put_places (&t.store, "n", "y", "c", y.sizes + 2);
  put_store (&t.store, &y, "n", "first_o + r", "y");
  nv_tile_end (u, &t);
}

static void
print_input_gradient (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t in[2] = { gramme_node_in (u->p->image, n, 0), gramme_node_in (u->p->image, n, 1) };
  const CgValue *vg = &u->p->values[in[0]], *vw = &u->p->values[in[1]], *vx = &u->p->values[n->out];
  Window w = window (u, n);
  int64_t channels = vw->sizes[1], kernel = w.kernel[0] * w.kernel[1] * w.kernel[2], places = 1;
  w.groups = channels ? vx->sizes[1] / channels : 1;
  int64_t out = w.groups ? vw->sizes[0] / w.groups : 0;
  for (uint32_t d = 2; d < vx->ndim; d++)
    places *= vx->sizes[d];
  NvTile t = { .label = "convolve_input",
               .work = nv_work (vx->dtype),
               .node = node,
               .rows = channels,
               .cols = vx->sizes[0] * places,
               .depth = vg->numel ? out * kernel : 0,
               .batches = w.groups };
  nv_tile_begin (u, &t);
  Image g = image (u, in[0], false), weight = image (u, in[1], false), x = image (u, n->out, true);
  put_signed (u, &w, &t.head);
  put (&t.head, "  const gm_index first_o = rest * %lldu, first_c = rest * %lldu;\n",
       (long long) out, (long long) channels);
  put_places (&t.a, "o", "t", "c", w.kernel);
  put_load (&t.a, &weight, "        ", "", "first_o + o", "r", "t");
  put_places (&t.b, "o", "t", "r", w.kernel);
  put_places (&t.b, "n", "x", "c", x.sizes + 2);
  for (int d = 0; d < SPACE; d++) /* s<d>: the step over y, times the stride */
    put (
        &t.b,
        "        const gm_int s%d = (gm_int) x%d + %lld - (gm_int) t%d * %lld, y%d = s%d / %lld;\n",
        d, d, (long long) w.pad[d], d, (long long) w.dilation[d], d, d, (long long) w.stride[d]);
  put (&t.b, "        const int met = s0 >= 0 && s1 >= 0 && s2 >= 0");
  for (int d = 0; d < SPACE; d++)
    put (&t.b, " && y%d < %lld && y%d * %lld == s%d", d, (long long) g.sizes[2 + d], d,
         (long long) w.stride[d], d);
  put (&t.b, ";\n");
  put_load (&t.b, &g, "        ", "if (met)\n          ", "n", "first_o + o", "y");
  put_places (&t.store, "n", "x", "c", x.sizes + 2);
  put_store (&t.store, &x, "n", "first_c + r", "x");
  nv_tile_end (u, &t);
}

static void
print_weight_gradient (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t in[2] = { gramme_node_in (u->p->image, n, 0), gramme_node_in (u->p->image, n, 1) };
  const CgValue *vx = &u->p->values[in[0]], *vg = &u->p->values[in[1]], *vw = &u->p->values[n->out];
  Window w = window (u, n);
  int64_t channels = vw->sizes[1], kernel = w.kernel[0] * w.kernel[1] * w.kernel[2], places = 1;
  w.groups = channels ? vx->sizes[1] / channels : 1;
  int64_t out = w.groups ? vw->sizes[0] / w.groups : 0;
  for (uint32_t d = 2; d < vg->ndim; d++)
    places *= vg->sizes[d];
  NvTile t = { .label = "convolve_weight",
               .work = nv_work (vw->dtype),
               .node = node,
               .rows = out,
               .cols = channels * kernel,
               .depth = vx->numel ? vg->sizes[0] * places : 0,
               .batches = w.groups,
               .a_down = false,
               .b_down = true };
  nv_tile_begin (u, &t);
  Image x = image (u, in[0], false), g = image (u, in[1], false), weight = image (u, n->out, true);
  put_signed (u, &w, &t.head);
  put (&t.head, "  const gm_index first_o = rest * %lldu, first_c = rest * %lldu;\n",
       (long long) out, (long long) channels);
  put_places (&t.a, "n", "y", "c", g.sizes + 2);
  put_load (&t.a, &g, "        ", "", "n", "first_o + r", "y");
  put_places (&t.b, "n", "y", "r", g.sizes + 2);
  put_places (&t.b, "ch", "t", "c", w.kernel);
  put_meet (&t.b, &w, &x);
  put_load (&t.b, &x, "        ", "if (inside)\n          ", "n", "first_c + ch", "x");
  put_places (&t.store, "ch", "t", "c", w.kernel);
  put_store (&t.store, &weight, "first_o + r", "ch", "t");
  nv_tile_end (u, &t);
}

/* -- Pools ------------------------------------------------------------------------------------- */

/* Prints a loop over the window's places inside of x, for the window at n, channel, y0 to y2.
 * Leaves x's best element in `best`, and in `at` its place in the channel, or -1. */
static void
put_best (CgText *t, const Window *w, const Image *x)
{
  const char *work = nv_work (x->dtype);
  put (t, "  E_%s best = 0;\n  E_i64 at = -1;\n", work);
  for (int d = 0; d < SPACE; d++)
    put (t, "  for (gm_int t%d = 0; t%d < %lld; t%d++)\n", d, d, (long long) w->kernel[d], d);
  put (t, "  {\n");
  put_meet (t, w, x);
  put (t, "    E_%s v = 0;\n    if (!inside)\n      continue;\n", work);
  put_load (t, x, "    ", "", "n", "ch", "x");
  put (t,
       "    if (at < 0 || (best == best && (v != v || v > best))) {\n      best = v;\n"
       "      at = ((E_i64) x0 * %lld + x1) * %lld + x2;\n    }\n  }\n",
       (long long) x->sizes[3], (long long) x->sizes[4]);
}

/* Prints n, ch and <name>0 to 2 of point i of this image. */
static void
put_point (CgText *t, const Image *m, const char *name)
{
  put_split (t, "point", "i", m->sizes, 2 + SPACE);
  put (t, "  const gm_index n = point0, ch = point1; (void) n; (void) ch;\n");
  for (int d = 0; d < SPACE; d++)
    put (t, "  const gm_index %s%d = point%d; (void) %s%d;\n", name, d, d + 2, name, d);
}

static void
begin_points (NvUnit *u, const char *label, uint32_t node, int64_t n)
{
  nv_begin (u, label, NV_CALL_BLOCK, (int32_t) node);
  nv_reach (u, n + NV_CALL_BLOCK);
}

static void
put_points (NvUnit *u, const Window *w, int64_t n)
{
  CgText *t = &u->k.text;
  put_signed (u, w, t);
  put (t,
       "  const gm_index i = (gm_index) GM_BLOCK * %d + GM_THREAD;\n  if (i >= %lldu)\n    "
       "return;\n",
       NV_CALL_BLOCK, (long long) n);
}

static void
print_pick (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t in[2] = { gramme_node_in (u->p->image, n, 0), gramme_node_in (u->p->image, n, 1) };
  const CgValue *out = &u->p->values[n->out];
  const char *work = nv_work (out->dtype);
  char memory[400], value[480], result[160];
  Window w = window (u, n);
  begin_points (u, "window_pick", node, out->numel);
  Image x = image (u, in[0], false), v = image (u, in[1], false), y = image (u, n->out, true);
  CgText *t = &u->k.text;
  put_points (u, &w, out->numel);
  put_point (t, &y, "y");
  put_best (t, &w, &x);
  put (t,
       "  E_%s picked = LOWEST_%s;\n  if (at >= 0) {\n    const gm_index s2 = (gm_index) at %% "
       "%lldu, s1 = (gm_index) at / %lldu %% %lldu, "
       "s0 = (gm_index) at / %lldu;\n    (void) s0; (void) s1; (void) s2;\n",
       work, work, at_least_one (x.sizes[4]), at_least_one (x.sizes[4]), at_least_one (x.sizes[3]),
       at_least_one (x.sizes[3] * x.sizes[4]));
  element (memory, sizeof memory, &v, "n", "ch", "s");
  nv_load (value, sizeof value, v.dtype, memory);
  put (t, "    picked = %s;\n  }\n", value);
  element (memory, sizeof memory, &y, "n", "ch", "y");
  nv_store (result, sizeof result, out->dtype, "picked");
  put (t, "  %s = %s;\n", memory, result);
  nv_end (u, codegen_size_div_up (u->p->sizes, out->numel, NV_CALL_BLOCK));
}

/* Prints two kernels: one finds the best place of each window, the other adds up the gradients of
 * each place. */
static void
print_spread (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  uint32_t in[2] = { gramme_node_in (u->p->image, n, 0), gramme_node_in (u->p->image, n, 1) };
  const CgValue *vg = &u->p->values[in[1]], *out = &u->p->values[n->out];
  const char *work = nv_work (out->dtype);
  char memory[400], value[480], result[160];
  Window w = window (u, n);
  NvArg places = nv_scratch (u, vg->numel ? vg->numel * 8 : 8);
  CgText *t = &u->k.text;
  Image x, g;
  if (vg->numel) {
    begin_points (u, "window_places", node, vg->numel);
    x = image (u, in[0], false);
    g = image (u, in[1], false);
    uint32_t to = nv_arg_scratch (u, places, "i64", true);
    put_points (u, &w, vg->numel);
    put_point (t, &g, "y");
    put_best (t, &w, &x);
    put (t, "  p%u[i] = at;\n", to);
    nv_end (u, codegen_size_div_up (u->p->sizes, vg->numel, NV_CALL_BLOCK));
  }
  begin_points (u, "window_spread", node, out->numel + vg->numel);
  g = image (u, in[1], false);
  Image y = image (u, n->out, true);
  uint32_t from = nv_arg_scratch (u, places, "i64", false);
  put_points (u, &w, out->numel);
  put_point (t, &y, "x");
  put (t, "  E_%s sum = 0;\n  const E_i64 own = ((E_i64) x0 * %lld + x1) * %lld + x2;\n", work,
       (long long) y.sizes[3], (long long) y.sizes[4]);
  for (int d = 0; d < SPACE; d++)
    put (t,
         "  const gm_int end%d = ((gm_int) x%d + %lld) / %lld, over%d = (gm_int) x%d + %lld - "
         "%lld;\n"
         "  const gm_int first%d = over%d > 0 ? (over%d + %lld) / %lld : 0, last%d = end%d < %lld "
         "? end%d : %lld;\n",
         d, d, (long long) w.pad[d], (long long) w.stride[d], d, d, (long long) w.pad[d],
         (long long) ((w.kernel[d] - 1) * w.dilation[d]), d, d, d, (long long) (w.stride[d] - 1),
         (long long) w.stride[d], d, d, (long long) (g.sizes[2 + d] - 1), d,
         (long long) (g.sizes[2 + d] - 1));
  for (int d = 0; d < SPACE; d++)
    put (t, "  for (gm_int y%d = first%d; y%d <= last%d; y%d++)\n", d, d, d, d, d);
  put (t,
       "    if (p%u[(((n * %lldu + ch) * %lldu + (gm_index) y0) * %lldu + (gm_index) y1) * %lldu + "
       "(gm_index) y2] == own)\n",
       from, (long long) g.sizes[1], (long long) g.sizes[2], (long long) g.sizes[3],
       (long long) g.sizes[4]);
  element (memory, sizeof memory, &g, "n", "ch", "y");
  nv_load (value, sizeof value, g.dtype, memory);
  put (t, "      sum = sum + %s;\n", value);
  element (memory, sizeof memory, &y, "n", "ch", "x");
  nv_store (result, sizeof result, out->dtype, "sum");
  put (t, "  %s = %s;\n", memory, result);
  nv_end (u, codegen_size_div_up (u->p->sizes, out->numel, NV_CALL_BLOCK));
}

void
nv_print_convolve (NvUnit *u, uint32_t node)
{
  switch (gramme_image_node (u->p->image, node)->op) {
  case GRAMME_OP_convolve:
    print_result (u, node);
    return;
  case GRAMME_OP_convolve_input:
    print_input_gradient (u, node);
    return;
  case GRAMME_OP_convolve_weight:
    print_weight_gradient (u, node);
    return;
  case GRAMME_OP_window_pick:
    print_pick (u, node);
    return;
  case GRAMME_OP_window_spread:
    print_spread (u, node);
    return;
  default:
    nv_fail (u, GRAMME_UNSUPPORTED, (int32_t) node, "there is no kernel for this operator");
  }
}
