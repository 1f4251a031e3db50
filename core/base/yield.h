/* SPDX-License-Identifier: Apache-2.0
 * yield.h -- other threads' turn while one waits.
 *
 * A language that embeds this library may have a lock of its own that a thread holds while it is
 * in here, as Python has.  A thread that waits for a compiler, or for another thread, gives that
 * lock up meanwhile: else nobody else runs, and the thread that is waited for never comes.
 */
#ifndef GM_BASE_YIELD_H
#define GM_BASE_YIELD_H

#include <stdbool.h>

#include <glib.h>

/* leave: gives the language's lock up; NULL if the thread does not hold it.  enter: takes it
 * again, with what leave gave. */
void gm_yield_set (void *(*leave) (void), void (*enter) (void *left));
/* True if there is such a language. */
bool gm_yield_is_set (void);

/* From here to gm_yield_forbid the calling thread refers to nothing that other threads could
 * take away, so it may leave.  They nest. */
void gm_yield_allow (void);
void gm_yield_forbid (void);

/* Leaves if that is allowed; what it gives is for gm_yield_enter. */
void *gm_yield_leave (void);
void gm_yield_enter (void *left);

/* A lock that its holder may keep while other threads get a turn: whoever waits for it leaves,
 * whatever is allowed.  In the child of a fork a lock is free that another thread of the
 * parent's held, so what it guards is written last of all that its holder does.  Zeroed: free. */
typedef struct {
  GMutex mutex;
  unsigned long holder, epoch; /* epoch: which fork's child the holder is in */
} GmYieldLock;
void gm_yield_lock (GmYieldLock *l);
void gm_yield_unlock (GmYieldLock *l);

#endif
