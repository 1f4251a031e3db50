/* SPDX-License-Identifier: Apache-2.0
 * tiles.c -- chooses the instruction set of this process.
 *
 * The choice is the widest table that the processor can run, or the one that GRAMME_ISA names.  It
 * is made once, so that all results of a process come from one table, although every table gives
 * the same bits.
 */
#include "core/tiles/tiles.h"

#include <cpuid.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/tiles/tiles-tables.h"

/* True if the processor has F16C, for which gcc 12's __builtin_cpu_supports has no name: CPUID leaf
 * 1, ECX bit 29. */
static bool
has_f16c (void)
{
  unsigned a, b, c, d;
  return __get_cpuid (1, &a, &b, &c, &d) && (c >> 29 & 1);
}

static bool
has_avx2 (void)
{
  return __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma") && has_f16c ();
}

static bool
has_avx512 (void)
{
  return has_avx2 () && __builtin_cpu_supports ("avx512f") && __builtin_cpu_supports ("avx512vl")
         && __builtin_cpu_supports ("avx512bw") && __builtin_cpu_supports ("avx512dq");
}

const GmTiles *
gm_tiles_for (const char *isa)
{
  if (!strcmp (isa, gm_tiles_avx512.isa))
    return has_avx512 () ? &gm_tiles_avx512 : NULL;
  if (!strcmp (isa, gm_tiles_avx2.isa))
    return has_avx2 () ? &gm_tiles_avx2 : NULL;
  return NULL;
}

static const GmTiles *
choose (const char **why)
{
  const char *wanted = getenv ("GRAMME_ISA");
  if (wanted && *wanted) {
    const GmTiles *t = gm_tiles_for (wanted);
    if (!t)
      *why = "GRAMME_ISA names an instruction set that this processor or this build lacks; unset "
             "it, or use avx2 or avx512";
    return t;
  }
  const GmTiles *t = gm_tiles_for ("avx512");
  if (!t)
    t = gm_tiles_for ("avx2");
  if (!t)
    *why = "this processor lacks AVX2, FMA or F16C, which gramme's arithmetic needs";
  return t;
}

const GmTiles *
gm_tiles_get (const char **why)
{
  /* No lock: two threads that choose at once write the same. */
  static const GmTiles *chosen;
  const GmTiles *t = __atomic_load_n (&chosen, __ATOMIC_ACQUIRE);
  if (t)
    return t;
  const char *reason = NULL;
  t = choose (&reason);
  if (why)
    *why = reason;
  __atomic_store_n (&chosen, t, __ATOMIC_RELEASE);
  return t;
}
