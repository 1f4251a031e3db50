/* SPDX-License-Identifier: Apache-2.0
 * tape.h -- stretches of a backward as graphs, compiled and kept: compiled autograd.
 *
 * A tape is a cache for one back end and its options.  While it is entered on a thread, backward passes of that thread run through it: each
 * stretch (core/autograd/stretch.h) becomes a graph the first time that its like is seen, and a plan, which later ones run.
 * Threads: a tape may be entered on several at once.
 */
#ifndef GM_AOT_TAPE_H
#define GM_AOT_TAPE_H

#include "core/aot/plan.h"
#include "core/autograd/stretch.h"

typedef struct GmTape GmTape;

typedef struct {
  uint64_t captures;   /* stretches that became a plan */
  uint64_t recompiles; /* of those: the same operations on other shapes were there already */
  uint64_t hits;       /* stretches that ran a plan which was there */
  uint64_t eager;      /* stretches that ran operation by operation */
} GmTapeCounts;

/* Of the same operations, on different shapes: more of them run operation by operation. */
#define GM_TAPE_MAX_SHAPES 8

/* Makes a plan of g (taken); inputs that require grad: its results have histories.  NULL: *error; GM_ERROR_UNSUPPORTED: then such
 * stretches run operation by operation from now on, any other error is the backward's.
 * recompiles: why a plan that is there does not do, or NULL. */
typedef GmPlan *(*GmTapeCompile) (void *data, GmGraph *g, const char *recompiles, GError **error);

/* find_hook: as in core/autograd/stretch.h; NULL: all hooks have to be called. */
GmTape *gm_tape_new (GmTapeCompile compile, GmHookFind find_hook, void *data, void (*destroy) (void *data));
GmTape *gm_tape_ref (GmTape *t);
void gm_tape_unref (GmTape *t); /* NULL is fine */
/* Drops all plans. */
void gm_tape_reset (GmTape *t);
/* t is used on this thread from now on, NULL: none.  The one before: put it back, with the same t kept alive until then. */
GmTape *gm_tape_enter (GmTape *t);
bool gm_tape_entered (void); /* on this thread */
/* Of the process since the last reset. */
GmTapeCounts gm_tape_counts (void);
void gm_tape_counts_reset (void);
/* Reasons of recompiles and of running operation by operation, with how often: fn (data, reason, n). */
void gm_tape_reasons (void (*fn) (void *data, const char *reason, uint64_t n), void *data);

#endif
