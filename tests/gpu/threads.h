/* SPDX-License-Identifier: Apache-2.0
 * threads.h -- a grid of blocks, run on one thread of the CPU.
 */
#ifndef GM_TESTS_GPU_THREADS_H
#define GM_TESTS_GPU_THREADS_H

#include <stdbool.h>
#include <stddef.h>

/* What kernels see; as in sim.h. */
struct gm_sim {
  unsigned block, thread;
  int ex2_error, rcp_error; /* of the hardware's estimates: 0, or 1 and -1 for the most that is allowed */
  unsigned (*down) (unsigned value, int by);
  unsigned (*from) (unsigned value, unsigned lane);
  void (*barrier) (void);
};
extern struct gm_sim gm_simulation;

/* Runs kernel (args) for every block and thread.  Which thread goes first between two barriers is GM_SIM_ORDER's choice: "up",
 * "down" or "mixed" (the default): a race shows as a result that depends on it.
 * GM_SIM_ESTIMATES="1,-1" are the errors above.  shared: spoilt before each block.
 * NULL, or what no GPU would take: threads that left, or that wait elsewhere, when others wait at a barrier. */
const char *gm_sim_run (void (*kernel) (void *const *), void *const *args, unsigned n_blocks, unsigned n_threads, char *shared,
                        size_t shared_bytes);

#endif
