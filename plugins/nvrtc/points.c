/* SPDX-License-Identifier: Apache-2.0
 * points.c -- kernels of loops without reductions, which consist of points alone (point.h).
 */
#include "plugins/nvrtc/point.h"

#define BLOCK 256

/* Number of vectors that all multiprocessors of a large GPU process at a time. */
#define AHEAD ((int64_t) 1 << 18)

/* True if computing takes as long as memory, so that too few threads wait for memory at a time: the
 * memory of the next blocks is then prefetched. */
static bool
is_costly (const NvPoint *pt, uint64_t members)
{
  uint32_t n = 0;
  for (uint32_t m = 0; m < pt->l->s->n_members; m++)
    n += members >> m & 1 && nv_is_costly (loop_member (pt->l, m)->op);
  return n >= 2;
}

void
nv_print_points (NvUnit *u, uint32_t step)
{
  Loop l;
  NvPoint pt;
  char label[64];
  loop_plan (&l, u->p, step, true);
  nv_point_init (&pt, u, &l, 16, true);
  nv_point_label (&l, label, sizeof label);
  CgSizes *sizes = u->p->sizes;
  int64_t per_row = codegen_size_div_up (sizes, l.n, pt.lanes), points = per_row;
  for (int d = 0; d < l.n_outer; d++)
    points = codegen_size_mul (sizes, points, l.outer[d]);
  int64_t blocks = codegen_size_div_up (sizes, points, BLOCK);
  CgText *t = nv_begin (u, label, BLOCK, (int32_t) l.members[0]);
  nv_point_reach (u, &l, codegen_size_mul (sizes, blocks, BLOCK * pt.lanes));
  put (t,
       "  const gm_index i = (gm_index) GM_BLOCK * %d + GM_THREAD;\n  if (i >= %s)\n    return;\n",
       BLOCK, NVZ (u, points));
  if (l.n_outer == 0)
    put (t, "  const gm_index e = i%s;\n",
         pt.lanes == 1   ? ""
         : pt.lanes == 2 ? " * 2"
         : pt.lanes == 4 ? " * 4"
         : pt.lanes == 8 ? " * 8"
                         : " * 16");
  else
    put (t, "  const gm_index e = i %% %s * %d;\n", NVZ (u, per_row), pt.lanes);
  if (pt.tail)
    put (t, "  const int full = e + %d <= %s;\n", pt.lanes, NVZ (u, l.n));
  char row[64];
  snprintf (row, sizeof row, "i / %s", NVZ (u, per_row));
  nv_point_head (&pt, t, row);
  NvPass pass = { 0 };
  for (uint32_t m = 0; m < l.s->n_members; m++)
    if (u->p->values[loop_member (&l, m)->out].stored)
      pass.stores |= (uint64_t) 1 << m;
  pass.compute = nv_point_closure (&pt, pass.stores, 0);
  for (uint32_t m = 0; m < l.s->n_members; m++)
    pt.quick =
        pt.quick || (pt.lanes > 1 && pass.compute >> m & 1 && nv_is_quick (u, loop_member (&l, m)));
  if (l.n_outer == 0 && pt.lanes > 1 && is_costly (&pt, pass.compute)) {
    pt.ahead = AHEAD * pt.lanes;
    nv_reach (u, codegen_size_add (sizes, l.n, 2 * pt.ahead));
  }
  nv_point_pass (&pt, &pass);
  nv_end (u, blocks);
}
