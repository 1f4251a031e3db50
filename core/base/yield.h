/* SPDX-License-Identifier: Apache-2.0
 * yield.h -- lets other threads run while a thread waits.
 *
 * A language that embeds this library may have a lock of its own that a thread holds while it is in
 * the library, as Python has. A thread that waits for a compiler, or for another thread, releases
 * that lock while it waits: else no other thread of the language could run, and the wait might
 * never end.
 */
#ifndef GM_BASE_YIELD_H
#define GM_BASE_YIELD_H

#include <stdbool.h>

#include <glib.h>

/* Sets the functions of the language. leave: releases its lock and returns a value for enter; NULL
 * if the thread does not hold the lock. enter: takes the lock again. */
void gm_yield_set (void *(*leave) (void), void (*enter) (void *left));
/* True if gm_yield_set was called. */
bool gm_yield_is_set (void);

/* Sets the language's function that work of some length asks in between: true stops the work.
 * core/objects checks for a pending signal there.  NULL: the work never stops. */
void gm_yield_set_interrupt (bool (*fn) (void));
/* Calls that function: true if the work on this thread is to stop. */
bool gm_yield_is_interrupted (void);

/* From here to gm_yield_forbid the calling thread refers to nothing that other threads could free,
 * so it may leave.  Calls nest. */
void gm_yield_allow (void);
void gm_yield_forbid (void);

/* Releases the language's lock if that is allowed; the result is for gm_yield_enter. */
void *gm_yield_leave (void);
void gm_yield_enter (void *left);

/* A lock that its holder may keep while other threads run: a thread that waits for it releases the
 * language's lock, even if gm_yield_allow was not called. In the child of a fork, a lock that
 * another thread of the parent held is free, so its holder must write the guarded data last of all.
 * Zeroed: free. */
typedef struct {
  GMutex mutex;
  unsigned long holder, epoch; /* epoch: number of forks between the first process and the
                                * holder's */
} GmYieldLock;
void gm_yield_lock (GmYieldLock *l);
void gm_yield_unlock (GmYieldLock *l);

#endif
