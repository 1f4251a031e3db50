/* SPDX-License-Identifier: Apache-2.0
 * parts.c -- see parts.h.
 *
 * A loop that is divided is printed as a function, of which each call computes some of the rows, or
 * a range of elements where there are no rows; a second function makes that call for a thread.
 * Rows and elements do not depend on each other, and a row is always computed by one part alone: so
 * the bits are the same for every number of parts and threads.  The number of parts depends on the
 * loop alone; the host assigns parts to threads (gramme.threads/1).
 * Invariant: parts write different memory: different rows, or elements, and scratch of their own
 * behind the program's temporaries.
 * Where sizes are only known in a run, the run also decides if there is enough work for parts; else
 * the function is called for the whole loop, which costs one call.  Buffers of a row are with the
 * other temporaries of symbolic size, one for each part.
 * An optimising compiler gets such a function twice where rows have a symbolic length: once for
 * rows of one block, whose loops it unrolls.  A simple compiler gets the tiles of a short loop at
 * the call itself, without the function, since for up to one tile of elements the call would be a
 * good part of the whole.
 * GM_PARTS=n, for tests: every loop that can be divided has n parts.
 */
#include "plugins/codegen/parts.h"

#include <stdlib.h>

/* Number of parts, more than there are threads: a thread that is late, or stopped, leaves its parts
 * to others */
#define MOST_PARTS 8
/* In units of about 0.03 ns: work for which waking a thread pays, which takes about 10 us, and
 * minimum of a part. */
#define WORTH_PARTS 1500000.0
#define PART_WORK 250000.0
/* Limit for the scratch of all parts of a loop of symbolic sizes: a small run has it, too, and
 * leaves it to the next (core/run/exec.h). */
#define SIZED_SCRATCH_BYTES 49152u
#define MOST_DYNAMIC_PARTS 4 /* limit where each part has buffers as long as a row */

void
codegen_run_parts (const GrammeThreads *threads, unsigned n, void (*part) (void *, unsigned),
                   void *arg)
{
  threads->run (threads->ctx, n, part, arg);
}

/* Returns the work of an op per element, in the units of WORTH_PARTS. */
static double
work_of (uint32_t op)
{
  enum { NO_TYPES, ARITH, FLOAT, COMPARE, LOGICAL, BITWISE, SELECT };
  static const uint8_t row_types[GRAMME_OP_NEXT] = {
#define POINTWISE(code, version, name, n, types, ...) [code] = types,
#include <gramme-ops.def>
  };
  return op < GRAMME_OP_NEXT && row_types[op] == FLOAT ? 6 : 1;
}

/* Returns the work of the loop for one element. */
static double
work_each (const Loop *l)
{
  double work = 0;
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (loop_reads_full (l, m))
      work += work_of (loop_member (l, m)->op);
  for (uint32_t k = 0; k < l->n_access; k++)
    work += l->access[k].as_row || l->access[k].inner == 0
                ? 0
                : 0.5 * l->p->values[l->access[k].value].elem_bytes;
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
    bool can =
        work > 0 && (l->n_outer > 0 ? codegen_size_may_exceed (l->outer[0], 1) : l->s->split < 0);
    uint32_t n = asked                                   ? (uint32_t) atoi (asked)
                 : codegen_is_symbolic (l->buffer_bytes) ? MOST_DYNAMIC_PARTS
                                                         : MOST_PARTS;
    l->n_parts = !can || n < 2 ? 0 : n > MOST_PARTS ? MOST_PARTS : n;
    if (l->n_parts)
      codegen_scope_begin (l->p, CG_SCOPE_LOOP);
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
  if (l->n_parts)
    codegen_scope_begin (l->p, CG_SCOPE_LOOP);
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

/* -- The functions ----------------------------------------------------------------------------- */

typedef struct {
  Loop *l;
  unsigned n; /* number of parts */
  bool sized, dynamic;
  int64_t buffers;  /* bytes of a part's buffers, if they are dynamic */
  uint64_t scratch; /* bytes of a part's scratch */
} Parts;

static void
put_parameters (CgText *f, const CgText *t, const Parts *s, const char *name, const char *more)
{
  put (f, "%s%u (char *const *in, char *const *out, char *ws, char *sc, long lo, long %s", name,
       s->l->step, s->l->n_outer > 0 ? "hi" : "len");
  put (f, "%s%s%s)\n{\n", t->sized ? ", const long *sz, char *dyn" : "",
       s->dynamic ? ", char *sd" : "", more);
}

/* True if there is a separate function for rows of one block. */
static bool
is_split_by_length (const CgText *t, const Loop *l)
{
  bool folds = false;
  for (uint32_t m = 0; m < l->s->n_members; m++)
    folds = folds || loop_is_fold (l, m);
  return t->source && folds && l->n_outer > 0 && codegen_is_symbolic (l->n);
}

/* Prints the function that computes rows, or elements, from lo on. */
static void
put_work (CgText *f, const CgText *t, const Parts *s)
{
  const Loop *l = s->l;
  bool split = is_split_by_length (t, l);
  const char *n = SIZE (l->p, split ? l->n : 0);
  unsigned tile = l->p->tiles->tile_elems;
  put (f, split ? "static inline __attribute__ ((always_inline)) void %s" : "static void %s",
       t->prefix);
  put_parameters (f, t, s, split ? "rows" : "loop", split ? ", int one_block" : "");
  if (t->sized)
    put_sizes (f, l->p);
  put (f, "  (void) in; (void) out; (void) sc; (void) ws;\n");
  if (split)
    put (f, "  if (one_block && (%s < 1 || %s > %u))\n    __builtin_unreachable ();\n", n, n, tile);
  put (f, "%s}\n", t->text ? t->text : "");
  if (!split)
    return;
  put (f, "static void %s", t->prefix);
  put_parameters (f, t, s, "loop", "");
  put_sizes (f, l->p);
  for (int one = 1; one >= 0; one--) {
    put (f, one ? "  if (%s >= 1 && %s <= %u)\n" : "  else\n", n, n, tile);
    put (f, "    %srows%u (in, out, ws, sc, lo, hi, sz, dyn%s, %d);\n", t->prefix, l->step,
         s->dynamic ? ", sd" : "", one);
  }
  put (f, "}\n");
}

/* Prints the function that a thread calls, which finds the part's rows, or elements. */
static void
put_thread (CgText *f, const CgText *t, const Parts *s)
{
  const Loop *l = s->l;
  unsigned tile = l->p->tiles->tile_elems;
  codegen_scope_begin (l->p, CG_SCOPE_LOOP);
  const char *rows = SIZE (l->p, l->n_outer > 0 ? l->outer[0] : 0),
             *all = SIZE (l->p, l->n_outer > 0 ? 0 : l->n);
  put (
      f,
      "static void %spart%u (void *arg, unsigned part)\n{\n  char **given = arg, *ws = given[2];\n",
      t->prefix, l->step);
  if (t->sized) {
    put (f, "  const long *sz = (const long *) given[3];\n");
    put_sizes (f, l->p);
  }
  put (f, "  const long nth = part, parts = %u;\n", s->n);
  if (l->n_outer > 0)
    put (f, "  const long lo = %s * nth / parts, to = %s * (nth + 1) / parts;\n", rows, rows);
  else
    put (f,
         "  const long tiles = (%s + %u) / %u, lo = tiles * nth / parts * %u, end = tiles * (nth + "
         "1) / parts * %u, to = (end < %s ? end : %s) - lo;\n",
         all, tile - 1, tile, tile, tile, all, all);
  put (f,
       "  %sloop%u ((char *const *) given[0], (char *const *) given[1], ws, ws + %llu + part * "
       "%lluul, lo, to",
       t->prefix, l->step, (unsigned long long) l->p->temp_bytes, (unsigned long long) s->scratch);
  put (f, "%s%s);\n}\n", t->sized ? ", sz, given[4]" : "",
       s->dynamic ? ", given[4] + (long) given[5] + nth * (long) given[6]" : "");
}

#define FEW_MEMBERS                                                                                \
  8 /* for more members the call is a small part of the time, and the text long                    \
     */

/* True if there is a separate text for one tile alone. */
static bool
has_short_form (const Parts *s)
{
  const Loop *l = s->l;
  return s->sized && !s->dynamic && l->n_outer == 0 && l->chunked && l->s->n_members <= FEW_MEMBERS
         && !getenv ("GM_PARTS");
}

/* Prints, in the program, the call of all parts, or of the whole loop. */
static void
put_calls (CgText *t, const Parts *s, CodegenPutTile put_one)
{
  Loop *l = s->l;
  const CgProgram *p = l->p;
  put (t, "  { /* %u, in parts */\n", l->step);
  if (put_one && has_short_form (s)) {
    put (t, "    if (%s <= %u)\n", SIZE (p, l->n), p->tiles->tile_elems);
    uint32_t parts = l->n_parts;
    l->chunked = false;
    l->n_parts = 0;
    put_one (t, l);
    l->chunked = true;
    l->n_parts = parts;
    put (t, "    else\n");
  }
  if (s->sized && s->n > 1) { /* number of elements from which on parts pay */
    put (t, "    if (%s", SIZE (p, l->n));
    for (int d = 0; d < l->n_outer; d++)
      put (t, " * %s", SIZE (p, l->outer[d]));
    put (t, " >= %lld)\n", getenv ("GM_PARTS") ? 0ll : (long long) (WORTH_PARTS / work_each (l)));
  }
  if (s->n > 1 || !s->sized) {
    put (t, "    {\n    void *part[] = { (void *) in, (void *) out, ws");
    if (t->sized)
      put (t, ", (void *) sz, dyn");
    if (s->dynamic)
      put (t, ", (void *) (long) %s, (void *) (long) %s", SIZE (p, p->dynamic_bytes),
           SIZE (p, s->buffers));
    put (t, " };\n    gm_run_parts (gm_threads, %u, %spart%u, part);\n    }\n", s->n, t->prefix,
         l->step);
    add_symbol (t, "gm_run_parts", CG_SYMBOL_RUN_PARTS,
                (const void *) (uintptr_t) codegen_run_parts);
    add_symbol (t, "gm_threads", 0, p->threads);
  }
  if (s->sized) {
    put (t, "%s    %sloop%u (in, out, ws, ws + %llu, 0, %s", s->n > 1 ? "    else\n  " : "",
         t->prefix, l->step, (unsigned long long) p->temp_bytes,
         SIZE (p, l->n_outer > 0 ? l->outer[0] : l->n));
    put (t, "%s", t->sized ? ", sz, dyn" : "");
    if (s->dynamic)
      put (t, ", dyn + %s", SIZE (p, p->dynamic_bytes));
    put (t, ");\n");
  }
  put (t, "  }\n");
}

/* Ends the printing of a divided loop: inserts the functions before the program's, which calls
 * them. */
void
codegen_parts_end (CgText *t, Loop *l, CgText *outside, uint64_t scratch_bytes,
                   CodegenPutTile put_one)
{
  if (!l->n_parts)
    return;
  CgText f = { .text = t->functions, .len = t->functions_len, .room = t->functions_room };
  CgSizes *sizes = l->p->sizes;
  Parts s = { l, l->n_parts, is_sized (l), codegen_is_symbolic (l->buffer_bytes), 0, 0 };
  s.buffers = s.dynamic ? codegen_size_align (sizes, l->buffer_bytes, 64) : 0;
  s.scratch = scratch_bytes + (s.dynamic ? 0 : (uint64_t) l->buffer_bytes);
  if (s.scratch > 0)
    s.scratch = (s.scratch + 127) / 64 * 64;
  if (s.sized && s.n * s.scratch > SIZED_SCRATCH_BYTES)
    s.n = SIZED_SCRATCH_BYTES / s.scratch ? (unsigned) (SIZED_SCRATCH_BYTES / s.scratch) : 1;
  if (s.sized && l->n_outer > 0 && !codegen_is_symbolic (l->outer[0])
      && (int64_t) s.n > l->outer[0])
    s.n = (unsigned) l->outer[0];
  put_work (&f, t, &s);
  if (s.n > 1 || !s.sized)
    put_thread (&f, t, &s);
  codegen_scope_begin (l->p, CG_SCOPE_PROGRAM);
  f.oom = f.oom || t->oom;
  free (t->text);
  t->functions = f.text;
  t->functions_len = f.len;
  t->functions_room = f.room;
  t->text = outside->text;
  t->len = outside->len;
  t->room = outside->room;
  t->oom = f.oom;
  put_calls (t, &s, put_one);
  uint64_t bytes = l->p->temp_bytes + s.n * s.scratch;
  if (t->ws_bytes < bytes)
    t->ws_bytes = bytes;
  if (s.dynamic)
    t->dynamic_bytes = codegen_size_max (
        sizes, t->dynamic_bytes,
        codegen_size_add (sizes, l->p->dynamic_bytes, codegen_size_mul (sizes, s.buffers, s.n)));
}
