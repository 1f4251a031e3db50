/* SPDX-License-Identifier: Apache-2.0
 * fpu.h -- this thread's floating-point mode, which a plugin's code may not leave changed.
 *
 * A library that is linked with fast-math flushes denormals to zero when it is loaded, and that may
 * happen in the middle of a run.  All later results of the thread would change, the program's own
 * included.  So the mode is compared around every call that computes or compiles; around a run this
 * costs two or three nanoseconds.
 */
#ifndef GM_PLUGIN_FPU_H
#define GM_PLUGIN_FPU_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

#include "plugin-api/gramme-plugin.h"

/* A floating-point mode: MXCSR without its sticky flags, and the x87 control word (0 where there is
 * none). */
typedef struct {
  uint32_t mxcsr;
  uint16_t x87;
} GmFpuControl;

#if defined(__x86_64__)
static inline GmFpuControl
gm_fpu_get (void)
{
  GmFpuControl c;
  __asm__ volatile("stmxcsr %0" : "=m"(c.mxcsr));
  __asm__ volatile("fnstcw %0" : "=m"(c.x87));
  c.mxcsr &= ~0x3fu; /* the flags that computing sets */
  return c;
}

static inline void
gm_fpu_set (GmFpuControl c)
{
  __asm__ volatile("ldmxcsr %0" : : "m"(c.mxcsr));
  __asm__ volatile("fldcw %0" : : "m"(c.x87));
}

/* True if sums are rounded to nearest, and denormals are neither flushed when they are made nor
 * read as zeros. */
static inline bool
gm_fpu_is_standard (void)
{
  float least = FLT_MIN, more = 1.5f * FLT_MIN, one = 1, half = 0x1.8p-24f, quarter = 0x1p-25f;
  __asm__ volatile("" : "+x"(least), "+x"(more), "+x"(one), "+x"(half), "+x"(quarter));
  float denormal = more - least;
  return (denormal + denormal == least) & (one + half != one) & (one + quarter == one);
}

/* Returns what gm_fpu_get returns, but with an MXCSR of 0 where the mode is the standard one: on
 * AMD processors, reading the register waits for all pending computations, which takes ten times as
 * long as six sums. */
static inline GmFpuControl
gm_fpu_look (void)
{
  GmFpuControl c = { 0 };
  if (__builtin_expect (!gm_fpu_is_standard (), 0))
    return gm_fpu_get ();
  __asm__ volatile("fnstcw %0" : "=m"(c.x87));
  return c;
}

/* Returns the complete mode for `before`, a result of gm_fpu_look: MXCSR is filled in where it is
 * 0. */
static inline GmFpuControl
gm_fpu_exact (GmFpuControl before)
{
  if (before.mxcsr == 0)
    before.mxcsr = gm_fpu_get ().mxcsr & ~0xe040u; /* rounding, flushed results, flushed operands */
  return before;
}
#else
#include <fpu_control.h>

static inline GmFpuControl
gm_fpu_get (void)
{
  fpu_control_t word;
  _FPU_GETCW (word);
  return (GmFpuControl){ .mxcsr = (uint32_t) word };
}

static inline void
gm_fpu_set (GmFpuControl c)
{
  fpu_control_t word = c.mxcsr;
  _FPU_SETCW (word);
}

#define gm_fpu_look gm_fpu_get
#define gm_fpu_exact(before) (before)
#endif

static inline bool
gm_fpu_equal (GmFpuControl a, GmFpuControl b)
{
  return a.mxcsr == b.mxcsr && a.x87 == b.x87;
}

struct GmPlugin;
/* Restores the mode `before`, a result of gm_fpu_look, after a plugin has changed it.  The first
 * time for a plugin, warns and records the plugin as refused: this process continues to use it,
 * since its results are right again, and later processes do not.  when: such as "in a run".
 * Thread: any. */
void gm_fpu_restore (const struct GmPlugin *p, GmFpuControl before, const char *when);

#endif
