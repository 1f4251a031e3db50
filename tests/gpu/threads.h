/* SPDX-License-Identifier: Apache-2.0
 * threads.h -- a grid of blocks, run on one thread of the CPU.
 */
#ifndef GM_TESTS_GPU_THREADS_H
#define GM_TESTS_GPU_THREADS_H

#include <stdbool.h>
#include <stddef.h>

/* The variables that kernels see; as in sim.h. */
struct gm_sim {
  unsigned block, thread;
  /* Errors of the hardware's estimates: 0, or 1 and -1 for the largest allowed. */
  int ex2_error, rcp_error;
  unsigned (*down) (unsigned value, int by);
  unsigned (*from) (unsigned value, unsigned lane);
  void (*barrier) (void);
};
extern struct gm_sim gm_simulation;

/* Runs kernel (args) for every block and thread.  GM_SIM_ORDER decides the order of threads between
 * two barriers: "up", "down" or "mixed" (the default), so that a result that depends on it shows a
 * race.  GM_SIM_ESTIMATES="1,-1" are the errors above.  shared: overwritten before each block.
 * Returns NULL, or why a GPU would fail: threads have left, or wait elsewhere, when others wait at
 * a barrier. */
const char *gm_sim_run (void (*kernel) (void *const *), void *const *args, unsigned n_blocks,
                        unsigned n_threads, char *shared, size_t shared_bytes);

#endif
