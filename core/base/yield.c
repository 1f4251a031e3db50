/* SPDX-License-Identifier: Apache-2.0
 * yield.c -- see yield.h.
 */
#include "core/base/yield.h"

#include <pthread.h>

#include "core/base/thread.h"

static void *(*leave) (void);
static void (*enter) (void *left);
static bool (*interrupt) (void); /* atomic */
static GM_THREAD int allowed;
/* Number of forks between this process and the first. */
static unsigned long epoch;
static pthread_mutex_t mend = PTHREAD_MUTEX_INITIALIZER; /* for a lock whose holder is gone */

static void
in_child (void)
{
  epoch++;
  pthread_mutex_init (&mend, NULL);
}

void
gm_yield_set (void *(*to_leave) (void), void (*to_enter) (void *left))
{
  leave = to_leave;
  enter = to_enter;
  pthread_atfork (NULL, NULL, in_child);
}

bool
gm_yield_is_set (void)
{
  return leave != NULL;
}

void
gm_yield_set_interrupt (bool (*fn) (void))
{
  __atomic_store_n (&interrupt, fn, __ATOMIC_RELAXED);
}

bool
gm_yield_is_interrupted (void)
{
  bool (*fn) (void) = __atomic_load_n (&interrupt, __ATOMIC_RELAXED);
  return fn && fn ();
}

void
gm_yield_allow (void)
{
  allowed++;
}

void
gm_yield_forbid (void)
{
  allowed--;
}

void *
gm_yield_leave (void)
{
  return allowed > 0 && leave ? leave () : NULL;
}

void
gm_yield_enter (void *left)
{
  if (left)
    enter (left);
}

/* -- Locks ------------------------------------------------------------------------------------- */

/* Frees a lock whose holder was another thread of the parent process. */
static void
mend_lock (GmYieldLock *l)
{
  pthread_mutex_lock (&mend);
  unsigned long since = __atomic_load_n (&l->epoch, __ATOMIC_RELAXED);
  unsigned long holder = __atomic_load_n (&l->holder, __ATOMIC_RELAXED);
  if (since != epoch && holder != (unsigned long) pthread_self ()) {
    g_mutex_init (&l->mutex);
    __atomic_store_n (&l->epoch, epoch, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock (&mend);
}

void
gm_yield_lock (GmYieldLock *l)
{
  if (!g_mutex_trylock (&l->mutex)) {
    if (__atomic_load_n (&l->epoch, __ATOMIC_RELAXED) != epoch)
      mend_lock (l);
    void *left = leave ? leave () : NULL;
    g_mutex_lock (&l->mutex);
    gm_yield_enter (left);
  }
  __atomic_store_n (&l->holder, (unsigned long) pthread_self (), __ATOMIC_RELAXED);
  __atomic_store_n (&l->epoch, epoch, __ATOMIC_RELAXED);
}

void
gm_yield_unlock (GmYieldLock *l)
{
  g_mutex_unlock (&l->mutex);
}
