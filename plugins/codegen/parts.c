/* SPDX-License-Identifier: Apache-2.0
 * parts.c -- see parts.h.
 *
 * Such a loop is printed as a function, of which each call computes some of the rows, or a stretch of elements where there are no rows.  Rows and
 * elements do not depend on each other, and a row is always computed by one part alone: so the bits are the same for every number of parts and
 * threads.  How many parts there are follows from the loop alone; who computes them is the host's affair (gramme.threads/1).
 * Invariant: parts write different memory: different rows, or elements, and scratch of their own behind the program's temporaries.
 * Sizes that the run gives are left alone: the function would need them.
 * GM_PARTS=n, for tests: every loop that can be done in parts is done in n.
 */
#include "plugins/codegen/parts.h"

#include <stdlib.h>

#define MOST_PARTS 8 /* more than threads: one that comes late, or stands still, leaves its parts to the others */
/* In units of about 0.03 ns: what is worth waking a thread for, and what a part should have at least. */
#define WORTH_PARTS 4000000.0
#define PART_WORK 500000.0

void
codegen_run_parts (const GrammeThreads *threads, unsigned n, void (*part) (void *, unsigned), void *arg)
{
  threads->run (threads->ctx, n, part, arg);
}

/* Per element. */
static double
work_of (uint32_t op)
{
  enum { NO_TYPES, ARITH, FLOAT, COMPARE, LOGICAL, BITWISE, SELECT };
  static const uint8_t row_types[128] = {
#define POINTWISE(code, version, name, n, types, ...) [code] = types,
#include <gramme-ops.def>
  };
  return op < 128 && row_types[op] == FLOAT ? 6 : 1;
}

void
codegen_parts_plan (Loop *l, const CgText *t)
{
  double rows = 1, work = 0;
  l->n_parts = 0;
  if (!l->p->threads || t->sized || l->unfit || codegen_is_symbolic (l->n) || codegen_is_symbolic (l->buffer_bytes))
    return;
  for (int d = 0; d < l->n_outer; d++)
    rows *= (double) l->outer[d];
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (loop_reads_full (l, m))
      work += work_of (loop_member (l, m)->op);
  for (uint32_t k = 0; k < l->n_access; k++)
    work += l->access[k].as_row || l->access[k].inner == 0 ? 0 : 0.5 * l->p->values[l->access[k].value].elem_bytes;
  work *= rows * (double) l->n;
  int64_t tile = l->p->tiles->tile_elems;
  int64_t most = l->n_outer > 0 ? l->outer[0] : l->s->split < 0 ? (l->n + tile - 1) / tile : 1;
  const char *asked = getenv ("GM_PARTS");
  if ((work < WORTH_PARTS && !asked) || most < 2)
    return;
  double n = asked ? atof (asked) : work / PART_WORK;
  l->n_parts = n > MOST_PARTS ? MOST_PARTS : (uint32_t) n;
  if ((int64_t) l->n_parts > most)
    l->n_parts = (uint32_t) most;
}

void
codegen_parts_begin (CgText *t, const Loop *l, CgText *outside)
{
  if (!l->n_parts)
    return;
  *outside = (CgText){ .text = t->text, .len = t->len, .room = t->room };
  t->text = NULL;
  t->len = t->room = 0;
}

/* The function goes before the one that is being printed, which calls it. */
void
codegen_parts_end (CgText *t, const Loop *l, CgText *outside, uint64_t scratch_bytes)
{
  if (!l->n_parts)
    return;
  CgText f = { .text = t->functions, .len = t->functions_len, .room = t->functions_room };
  unsigned tile = l->p->tiles->tile_elems, n = l->n_parts;
  unsigned long long scratch = (scratch_bytes + 127) / 64 * 64;
  put (&f, "static void %spart%u (void *arg, unsigned part)\n{\n", t->prefix, l->step);
  put (&f, "  char *const *in = ((char *const **) arg)[0], *const *out = ((char *const **) arg)[1], *ws = ((char **) arg)[2];\n");
  put (&f, "  char *sc = ws + %llu + part * %lluul;\n", (unsigned long long) l->p->temp_bytes, scratch);
  if (l->n_outer > 0) {
    put (&f, "  const long lo = %lldl * part / %u, hi = %lldl * (part + 1l) / %u;\n", (long long) l->outer[0], n, (long long) l->outer[0], n);
  } else {
    long long tiles = (l->n + tile - 1) / tile;
    put (&f, "  const long lo = %lldl * part / %u * %u, to = %lldl * (part + 1l) / %u * %u;\n", tiles, n, tile, tiles, n, tile);
    put (&f, "  const long len = (to < %lldl ? to : %lldl) - lo;\n", (long long) l->n, (long long) l->n);
  }
  put (&f, "  (void) in; (void) out; (void) sc; (void) ws;\n%s}\n", t->text ? t->text : "");
  f.oom = f.oom || t->oom;
  free (t->text);
  t->functions = f.text;
  t->functions_len = f.len;
  t->functions_room = f.room;
  t->text = outside->text;
  t->len = outside->len;
  t->room = outside->room;
  t->oom = f.oom;
  add_symbol (t, "gm_run_parts", CG_SYMBOL_RUN_PARTS, (const void *) (uintptr_t) codegen_run_parts);
  add_symbol (t, "gm_threads", 0, l->p->threads);
  put (t, "  { /* %u, in parts */\n    void *part[3] = { (void *) in, (void *) out, ws };\n", l->step);
  put (t, "    gm_run_parts (gm_threads, %u, %spart%u, part);\n  }\n", n, t->prefix, l->step);
  uint64_t bytes = l->p->temp_bytes + n * scratch;
  if (t->ws_bytes < bytes)
    t->ws_bytes = bytes;
}
