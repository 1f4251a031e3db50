/* SPDX-License-Identifier: Apache-2.0
 * packs.h -- right-hand sides of products that stay packed while a graph runs.
 *
 * A value of a graph has the same elements all through a run. So a kernel that knows the number of
 * its right-hand side in the graph finds the form that an earlier product of the same run has
 * packed. The packs belong to the thread, and end with the run. They change no bits.
 */
#ifndef GM_OPS_PACKS_H
#define GM_OPS_PACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/thread.h"
#include "core/tiles/tiles.h"

typedef struct GmPacks GmPacks;

/* The packs of the run that this thread is in; NULL: none. */
extern GM_THREAD GmPacks *gm_packs;
/* True while this thread runs a graph. */
extern GM_THREAD bool gm_packs_in_run;
/* Number, in the graph that runs, of the right-hand side of the thread's next product, plus 1; 0:
 * it is not a value of a graph. */
extern GM_THREAD uint32_t gm_packs_value;

void gm_packs_drop (void);

/* Begins a run: frees the packs of the run around it. Returns the argument for gm_packs_end. */
static inline bool
gm_packs_begin (void)
{
  bool outer = gm_packs_in_run;
  if (__builtin_expect (gm_packs != NULL, 0))
    gm_packs_drop ();
  gm_packs_in_run = true;
  return outer;
}

/* Ends a run, and frees its packs. `outer`: the result of gm_packs_begin. */
static inline void
gm_packs_end (bool outer)
{
  if (__builtin_expect (gm_packs != NULL, 0))
    gm_packs_drop ();
  gm_packs_in_run = outer;
}

/* Returns the packed right-hand side of a product, or NULL: each product packs its own.
 * value:   number of the right-hand side in the graph that runs, plus 1.
 * blocks:  gm_product_blocks (p).
 * Owner:   the packs of the run; valid until its end.
 * The first product by a right-hand side is only noted, the second packs it.  Without memory for
 * the packed form the result is NULL, too. */
const void *gm_packs_find (uint32_t value, const GmProduct *p, uint32_t blocks);

/* Returns the number of right-hand sides that were packed to be reused, in this process. */
uint64_t gm_packs_made (void);

#endif
