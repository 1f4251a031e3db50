/* SPDX-License-Identifier: Apache-2.0
 * parts.c -- see parts.h.
 *
 * Such a loop is printed as a function, of which each call computes some of the rows, or a stretch of elements where there are no rows.  Rows and
 * elements do not depend on each other, and a row is always computed by one part alone: so the bits are the same for every number of parts and
 * threads.  How many parts there are follows from the loop alone; who computes them is the host's affair (gramme.threads/1).
 * Invariant: parts write different memory: different rows, or elements, and scratch of their own behind the program's temporaries.
 * Where the run gives the sizes, it also tells whether there is enough to do: then there are parts, else one.  Buffers of a row lie
 * with what else is of symbolic size, one for each part.
 * GM_PARTS=n, for tests: every loop that can be done in parts is done in n.
 */
#include "plugins/codegen/parts.h"

#include <stdlib.h>

#define MOST_PARTS 8 /* more than threads: one that comes late, or stands still, leaves its parts to the others */
/* In units of about 0.03 ns: what is worth waking a thread for, and what a part should have at least. */
#define WORTH_PARTS 4000000.0
#define PART_WORK 500000.0
/* What the scratch of all parts of a loop of symbolic sizes may take: a small run has it, too, and leaves it to the next (core/plugin/exec.h). */
#define SIZED_SCRATCH_BYTES 49152u
#define MOST_DYNAMIC_PARTS 4 /* each with buffers that are as long as a row */

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

/* Of one element. */
static double
work_each (const Loop *l)
{
  double work = 0;
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (loop_reads_full (l, m))
      work += work_of (loop_member (l, m)->op);
  for (uint32_t k = 0; k < l->n_access; k++)
    work += l->access[k].as_row || l->access[k].inner == 0 ? 0 : 0.5 * l->p->values[l->access[k].value].elem_bytes;
  return work;
}

static bool
is_sized (const Loop *l)
{
  bool sized = codegen_is_symbolic (l->n);
  for (int d = 0; d < l->n_outer; d++)
    sized = sized || codegen_is_symbolic (l->outer[d]);
  return sized;
}

void
codegen_parts_plan (Loop *l, const CgText *t)
{
  double rows = 1, work = work_each (l);
  const char *asked = getenv ("GM_PARTS");
  l->n_parts = 0;
  if (!l->p->threads || l->unfit)
    return;
  if (is_sized (l)) {
    bool can = work > 0 && (l->n_outer > 0 ? codegen_size_may_exceed (l->outer[0], 1) : l->s->split < 0);
    uint32_t n = asked ? (uint32_t) atoi (asked) : codegen_is_symbolic (l->buffer_bytes) ? MOST_DYNAMIC_PARTS : MOST_PARTS;
    l->n_parts = !can || n < 2 ? 0 : n > MOST_PARTS ? MOST_PARTS : n;
    return;
  }
  for (int d = 0; d < l->n_outer; d++)
    rows *= (double) l->outer[d];
  work *= rows * (double) l->n;
  int64_t tile = l->p->tiles->tile_elems;
  int64_t most = l->n_outer > 0 ? l->outer[0] : l->s->split < 0 ? (l->n + tile - 1) / tile : 1;
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
  const char *rows = SIZE (l->p, l->n_outer > 0 ? l->outer[0] : 0), *all = SIZE (l->p, l->n); /* from now on put_sizes has them */
  unsigned tile = l->p->tiles->tile_elems, n = l->n_parts;
  bool sized = is_sized (l), dynamic = codegen_is_symbolic (l->buffer_bytes);
  CgSizes *sizes = l->p->sizes;
  int64_t buffers = dynamic ? codegen_size_align (sizes, l->buffer_bytes, 64) : 0;
  unsigned long long scratch = (scratch_bytes + (dynamic ? 0 : (uint64_t) l->buffer_bytes) + 127) / 64 * 64;
  if (sized && n > SIZED_SCRATCH_BYTES / scratch)
    n = SIZED_SCRATCH_BYTES / scratch ? (unsigned) (SIZED_SCRATCH_BYTES / scratch) : 1;
  if (sized && l->n_outer > 0 && !codegen_is_symbolic (l->outer[0]) && (int64_t) n > l->outer[0])
    n = (unsigned) l->outer[0];
  put (&f, "static void %spart%u (void *arg, unsigned part)\n{\n", t->prefix, l->step);
  put (&f, "  void *const *given = arg;\n  char *const *in = given[0], *const *out = given[1], *ws = given[2];\n");
  put (&f, "  char *sc = ws + %llu + part * %lluul;\n", (unsigned long long) l->p->temp_bytes, scratch);
  if (t->sized) {
    put (&f, "  const long *sz = given[3];\n  char *dyn = given[4];\n");
    if (dynamic)
      put (&f, "  char *sd = dyn + (long) given[6] + part * (long) given[7];\n");
    put_sizes (&f, l->p);
  }
  put (&f, sized ? "  const long nth = part, parts = (long) given[5];\n" : "  const long nth = part, parts = %u;\n", n);
  if (l->n_outer > 0) {
    put (&f, "  const long lo = parts > 1 ? %s * nth / parts : 0, hi = parts > 1 ? %s * (nth + 1) / parts : %s;\n", rows, rows, rows);
  } else {
    put (&f, "  const long tiles = (%s + %u) / %u, lo = parts > 1 ? tiles * nth / parts * %u : 0;\n", all, tile - 1, tile, tile);
    put (&f, "  const long to = parts > 1 ? tiles * (nth + 1) / parts * %u : %s, len = (to < %s ? to : %s) - lo;\n", tile, all, all, all);
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
  put (t, "  { /* %u, in parts */\n", l->step);
  if (sized) { /* as many elements as are worth it */
    put (t, "    const long parts = %s", SIZE (l->p, l->n));
    for (int d = 0; d < l->n_outer; d++)
      put (t, " * %s", SIZE (l->p, l->outer[d]));
    put (t, " >= %lld ? %u : 1;\n", getenv ("GM_PARTS") ? 0ll : (long long) (WORTH_PARTS / work_each (l)), n);
  }
  put (t, "    void *part[] = { (void *) in, (void *) out, ws");
  if (t->sized)
    put (t, ", (void *) sz, dyn, (void *) (long) %s, (void *) (long) %s, (void *) (long) %s", sized ? "parts" : "0",
         dynamic ? SIZE (l->p, l->p->dynamic_bytes) : "0", dynamic ? SIZE (l->p, buffers) : "0");
  put (t, " };\n");
  if (sized)
    put (t, "    if (parts > 1)\n      gm_run_parts (gm_threads, parts, %spart%u, part);\n    else\n      %spart%u (part, 0);\n  }\n", t->prefix, l->step, t->prefix, l->step);
  else
    put (t, "    gm_run_parts (gm_threads, %u, %spart%u, part);\n  }\n", n, t->prefix, l->step);
  uint64_t bytes = l->p->temp_bytes + n * scratch;
  if (t->ws_bytes < bytes)
    t->ws_bytes = bytes;
  if (dynamic)
    t->dynamic_bytes = codegen_size_max (sizes, t->dynamic_bytes,
                                         codegen_size_add (sizes, l->p->dynamic_bytes, codegen_size_mul (sizes, buffers, n)));
}
