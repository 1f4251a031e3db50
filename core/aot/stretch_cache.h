/* SPDX-License-Identifier: Apache-2.0
 * stretch_cache.h -- stretches of a backward as graphs, compiled and kept: compiled autograd.
 *
 * A cache serves one back end and its options.  While it is entered on a thread, backward
 * passes of that thread run through it: each stretch (core/autograd/backward_stretch.h) becomes a
 * graph the first time that one of its structure and shape is seen, and a plan, which later such
 * stretches run.
 * Threads: a cache may be entered on several threads at once.
 */
#ifndef GM_AOT_STRETCH_CACHE_H
#define GM_AOT_STRETCH_CACHE_H

#include "core/aot/plan.h"
#include "core/autograd/backward_stretch.h"

typedef struct GmStretchCache GmStretchCache;

typedef struct {
  uint64_t captures;   /* stretches that became a plan */
  uint64_t recompiles; /* of the captures: a plan for the same operations on other shapes existed
                        * already */
  uint64_t hits;       /* stretches that ran an existing plan */
  uint64_t eager;      /* stretches that ran operation by operation */
} GmStretchCacheCounts;

/* The largest number of plans for the same operations on different shapes; further stretches of
 * them run operation by operation. */
#define GM_TAPE_MAX_SHAPES 8

/* Makes a plan of g, which it consumes; g has inputs that require grad if its results must have
 * histories.  recompiles: the reason why an existing plan does not fit, or NULL.  Returns NULL with
 * *error set: for GM_ERROR_UNSUPPORTED such stretches run operation by operation from then on, any
 * other error is that of the backward. */
typedef GmPlan *(*GmStretchCompile) (void *data, GmGraph *g, const char *recompiles,
                                     GError **error);

/* Makes a cache.  compile and find_hook get `data`; find_hook: as in
 * core/autograd/backward_stretch.h, NULL: no hook can be recorded, all are called.  destroy frees
 * `data` with the cache. */
GmStretchCache *gm_stretch_cache_new (GmStretchCompile compile, GmHookFind find_hook, void *data,
                                      void (*destroy) (void *data));
GmStretchCache *gm_stretch_cache_ref (GmStretchCache *t);
void gm_stretch_cache_unref (GmStretchCache *t); /* NULL is fine */
/* Drops all plans of t. */
void gm_stretch_cache_reset (GmStretchCache *t);
/* Makes this thread use the cache t from now on; NULL: no cache.  Returns the former cache,
 * borrowed, which the caller enters again later; both must stay alive until then. */
GmStretchCache *gm_stretch_cache_enter (GmStretchCache *t);
bool gm_stretch_cache_entered (void); /* on this thread */
/* Returns the numbers of captured stretches, hits and so on in this process since the last
 * reset. */
GmStretchCacheCounts gm_stretch_cache_counts (void);
void gm_stretch_cache_counts_reset (void);
/* Calls fn (data, reason, n) for each reason why a stretch was recompiled or ran operation by
 * operation; n is the number of such stretches. */
void gm_stretch_cache_reasons (void (*fn) (void *data, const char *reason, uint64_t n), void *data);

#endif
