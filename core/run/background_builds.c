/* SPDX-License-Identifier: Apache-2.0
 * background_builds.c -- see background_builds.h.
 *
 * One list, in the order of starting, holds all builds that wait or run.  A thread takes the first
 * build that waits, and ends when there is none, so an idle program has no thread of ours and may
 * fork freely.  The lock is held across a fork, so that a child finds the list whole; builds that
 * were running wait again there. GLib before 2.76 has locks in its allocator that no fork handler
 * holds: a program that forks while builds run sets G_SLICE=always-malloc before it loads GLib, as
 * the Python package does (gramme/__init__.py).
 *
 * Rejected: g_thread_pool.  It keeps threads, and a child of a fork would believe that it has them.
 */
#include "core/run/background_builds.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The nice value of build threads: with it they get a tenth of the processor time of the threads
 * that the user waits for. */
#define NICE 10
#define EXIT_WAIT_US 2000000 /* time to wait at exit for builds that were told to stop */

struct GmBuild {
  gatomicrefcount refs; /* held by the list and by the owner */
  int stop;             /* atomic */
  bool running, listed; /* protected by the lock */
  GmBuildWork work;
  void *data;
  void (*release) (void *data);
  GmBuild *next, *previous;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed; /* uses the monotonic clock */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static GmBuild *head, *tail;
static uint32_t n_threads;
static GmBuildCounts counts;
static bool closing;

/* -- The list, under the lock ------------------------------------------------------------------ */

static void
append (GmBuild *b)
{
  b->previous = tail;
  b->next = NULL;
  if (tail)
    tail->next = b;
  else
    head = b;
  tail = b;
  b->listed = true;
}

static void
take_out (GmBuild *b)
{
  if (b->previous)
    b->previous->next = b->next;
  else
    head = b->next;
  if (b->next)
    b->next->previous = b->previous;
  else
    tail = b->previous;
  b->listed = false;
}

static GmBuild *
first_waiting (void)
{
  for (GmBuild *b = head; b; b = b->next)
    if (!b->running)
      return b;
  return NULL;
}

/* -- Life -------------------------------------------------------------------------------------- */

static void
unref (GmBuild *b)
{
  if (g_atomic_ref_count_dec (&b->refs))
    g_free (b);
}

static void
release (GmBuild *b)
{
  b->release (b->data);
  unref (b);
}

/* -- Threads ----------------------------------------------------------------------------------- */

static void *
thread_main (void *unused)
{
  /* Applies to this thread and to processes that it starts. */
  setpriority (PRIO_PROCESS, (id_t) syscall (SYS_gettid), NICE);
  pthread_mutex_lock (&lock);
  for (GmBuild *b; !closing && (b = first_waiting ()) != NULL;) {
    b->running = true;
    counts.waiting--;
    counts.running++;
    pthread_mutex_unlock (&lock);
    bool made = b->work (b->data, &b->stop);
    pthread_mutex_lock (&lock);
    counts.running--;
    if (__atomic_load_n (&b->stop, __ATOMIC_RELAXED))
      counts.dropped++;
    else if (made)
      counts.made++;
    else
      counts.failed++;
    take_out (b);
    pthread_cond_broadcast (&changed);
    pthread_mutex_unlock (&lock);
    release (b);
    pthread_mutex_lock (&lock);
  }
  n_threads--;
  pthread_cond_broadcast (&changed);
  pthread_mutex_unlock (&lock);
  return NULL;
}

/* Starts a build thread, with all signals blocked: they must interrupt the program's own threads.
 * The caller holds the lock. */
static void
start_thread (void)
{
  pthread_t thread;
  pthread_attr_t attr;
  sigset_t all, before;
  if (n_threads >= g_get_num_processors () || n_threads >= counts.waiting + counts.running)
    return;
  sigfillset (&all);
  pthread_attr_init (&attr);
  pthread_attr_setdetachstate (&attr, PTHREAD_CREATE_DETACHED);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  if (pthread_create (&thread, &attr, thread_main, NULL) == 0)
    n_threads++; /* if creating the thread failed, the next gm_build_start tries again */
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  pthread_attr_destroy (&attr);
}

/* -- Fork and exit ----------------------------------------------------------------------------- */

static void
before_fork (void)
{
  pthread_mutex_lock (&lock);
}

static void
after_fork (void)
{
  pthread_mutex_unlock (&lock);
}

static void
init_changed (void)
{
  pthread_condattr_t attr;
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&changed, &attr);
  pthread_condattr_destroy (&attr);
}

/* Prepares the list in the child of a fork, which has none of the parent's threads.  Builds that
 * were running wait again, and start from the beginning. */
static void
in_child (void)
{
  n_threads = 0;
  counts = (GmBuildCounts){ 0 };
  for (GmBuild *b = head; b; b = b->next) {
    b->running = false;
    counts.waiting++;
  }
  init_changed ();
  pthread_mutex_unlock (&lock);
}

static struct timespec
deadline_after (int64_t us)
{
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  int64_t ns = t.tv_nsec + us % 1000000 * 1000;
  t.tv_sec += us / 1000000 + ns / 1000000000;
  t.tv_nsec = ns % 1000000000;
  return t;
}

/* Stops the builds when the process ends: neither their compiler processes nor their temporary
 * folders may outlive it. */
static void
at_exit (void)
{
  struct timespec deadline = deadline_after (EXIT_WAIT_US);
  pthread_mutex_lock (&lock);
  closing = true;
  for (GmBuild *b = head; b; b = b->next)
    __atomic_store_n (&b->stop, 1, __ATOMIC_RELAXED);
  while (n_threads > 0 && pthread_cond_timedwait (&changed, &lock, &deadline) == 0)
    ;
  pthread_mutex_unlock (&lock);
}

static void
init (void)
{
  init_changed ();
  pthread_atfork (before_fork, after_fork, in_child);
  atexit (at_exit);
}

/* -- The interface ----------------------------------------------------------------------------- */

GmBuild *
gm_build_start (GmBuildWork work, void *data, void (*release_data) (void *data))
{
  pthread_once (&once, init);
  GmBuild *b = g_new0 (GmBuild, 1);
  g_atomic_ref_count_init (&b->refs);
  g_atomic_ref_count_inc (&b->refs);
  b->work = work;
  b->data = data;
  b->release = release_data;
  pthread_mutex_lock (&lock);
  append (b);
  counts.waiting++;
  if (!closing)
    start_thread ();
  pthread_mutex_unlock (&lock);
  return b;
}

void
gm_build_drop (GmBuild *b)
{
  if (!b)
    return;
  pthread_mutex_lock (&lock);
  bool waits = b->listed && !b->running;
  if (waits) {
    take_out (b);
    counts.waiting--;
    counts.dropped++;
    pthread_cond_broadcast (&changed);
  }
  __atomic_store_n (&b->stop, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock (&lock);
  if (waits)
    release (b);
  unref (b);
}

GmBuildCounts
gm_builds_count (void)
{
  pthread_mutex_lock (&lock);
  GmBuildCounts now = counts;
  pthread_mutex_unlock (&lock);
  return now;
}

bool
gm_builds_wait (int64_t timeout_us)
{
  pthread_once (&once, init);
  struct timespec deadline = deadline_after (timeout_us < 0 ? 0 : timeout_us);
  bool in_time = true;
  pthread_mutex_lock (&lock);
  if (!closing)
    start_thread (); /* in the child of a fork, builds may be waiting although no thread runs */
  while (counts.waiting + counts.running > 0 && in_time)
    in_time = timeout_us < 0 ? pthread_cond_wait (&changed, &lock) == 0
                             : pthread_cond_timedwait (&changed, &lock, &deadline) == 0;
  bool idle = counts.waiting + counts.running == 0;
  pthread_mutex_unlock (&lock);
  return idle;
}
