/* SPDX-License-Identifier: Apache-2.0
 * threads.h -- one set of threads for all work that can be done in parts.
 */
#ifndef GM_BASE_THREADS_H
#define GM_BASE_THREADS_H

#include <stdint.h>

/* Returns the greatest number of tasks that run at once, the caller's thread included; never 0.
 * GRAMME_NUM_THREADS, or the cores that the process may use. */
uint32_t gm_threads_count (void);
/* Sets the number that gm_threads_count returns. n: at least 1; a number above the maximum becomes
 * the maximum. */
void gm_threads_set_count (uint32_t n);

/* Calls task (arg, i) once for each i < n, in any order, on the calling thread and others, and
 * returns when all have returned. Within a task, and while another run has the threads, the tasks
 * run one after the other on the calling thread. The result of a task must not depend on the thread
 * that runs it. */
void gm_threads_run (uint32_t n, void (*task) (void *arg, uint32_t i), void *arg);

/* Returns the number of threads that were started since the last fork. */
uint32_t gm_threads_started (void);

#endif
