/* SPDX-License-Identifier: Apache-2.0
 * threads.c -- see threads.h.
 *
 * Threads are started by the first run that has work for them, and sleep between runs. Only one run
 * has them at a time; a second run at that time, or a run within a task, does its tasks itself, one
 * after the other: no run waits for another run's work, so no deadlock is possible. The child of a
 * fork has no threads, and starts its own when it needs them. Tasks are computed in the caller's
 * floating-point mode, on whatever thread. Rejected: libgomp. A child of a fork hangs in it for
 * ever, and its regions stall when another process takes the core.
 */
#include "core/base/threads.h"
#include "core/base/environment.h"

#include <glib.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#define MAX_THREADS 64

typedef struct {
  void (*task) (void *arg, uint32_t i);
  void *arg;
  uint32_t n, next;  /* next: the first task that is not taken; atomic */
  uint32_t n_wanted; /* threads that may still join, under the lock */
  unsigned mode;     /* the caller's MXCSR */
} Job;

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER; /* held by the run that has the threads */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, idle = PTHREAD_COND_INITIALIZER;
static uint32_t n_started, n_working;
static uint64_t round_number; /* incremented for each job */
static Job *job;
static __thread bool in_task;
static uint32_t asked_for; /* 0: not set; atomic */

/* -- Number of threads ------------------------------------------------------------------------- */

static uint32_t
cores (void)
{
  cpu_set_t set;
  int n = sched_getaffinity (0, sizeof set, &set) == 0 ? CPU_COUNT (&set) : 1;
  return (uint32_t) CLAMP (n, 1, MAX_THREADS);
}

uint32_t
gm_threads_count (void)
{
  uint32_t n = __atomic_load_n (&asked_for, __ATOMIC_RELAXED);
  if (G_LIKELY (n > 0))
    return n;
  gm_threads_set_count (
      (uint32_t) gm_environment_number ("GRAMME_NUM_THREADS", 1, MAX_THREADS, cores ()));
  return gm_threads_count ();
}

void
gm_threads_set_count (uint32_t n)
{
  __atomic_store_n (&asked_for, CLAMP (n, 1, MAX_THREADS), __ATOMIC_RELAXED);
}

/* -- Work -------------------------------------------------------------------------------------- */

static void
work (Job *j)
{
  in_task = true;
  for (;;) {
    uint32_t i = __atomic_fetch_add (&j->next, 1, __ATOMIC_RELAXED);
    if (i >= j->n)
      break;
    j->task (j->arg, i);
  }
  in_task = false;
}

static void *
thread_main (void *unused)
{
  uint64_t seen = 0;
  (void) unused;
  pthread_mutex_lock (&lock);
  for (;;) {
    while (!job || round_number == seen)
      pthread_cond_wait (&wake, &lock);
    seen = round_number;
    Job *j = job;
    if (j->n_wanted == 0)
      continue;
    j->n_wanted--;
    n_working++;
    pthread_mutex_unlock (&lock);
    __builtin_ia32_ldmxcsr (j->mode);
    work (j);
    pthread_mutex_lock (&lock);
    if (--n_working == 0)
      pthread_cond_signal (&idle);
  }
  return NULL;
}

/* Starts threads.  They block signals, which are for the program's own threads, except signals for
 * a thread's own faults. */
static void
start_threads (uint32_t want)
{
  sigset_t all, before;
  if (n_started >= want)
    return;
  sigfillset (&all);
  sigdelset (&all, SIGSEGV);
  sigdelset (&all, SIGBUS);
  sigdelset (&all, SIGFPE);
  sigdelset (&all, SIGILL);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  for (pthread_t t; n_started < want; n_started++) {
    if (pthread_create (&t, NULL, thread_main, NULL) != 0)
      break; /* fewer threads do the work */
    pthread_detach (t);
  }
  pthread_sigmask (SIG_SETMASK, &before, NULL);
}

/* Resets the state in the child of a fork, where the threads that held locks do not exist. */
static void
forget (void)
{
  pthread_mutex_init (&busy, NULL);
  pthread_mutex_init (&lock, NULL);
  pthread_cond_init (&wake, NULL);
  pthread_cond_init (&idle, NULL);
  n_started = n_working = 0;
  job = NULL;
  in_task = false;
}

static void
watch_forks (void)
{
  pthread_atfork (NULL, NULL, forget);
}

void
gm_threads_run (uint32_t n, void (*task) (void *arg, uint32_t i), void *arg)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  uint32_t count = gm_threads_count ();
  if (n < 2 || in_task || count == 1 || pthread_mutex_trylock (&busy) != 0) {
    for (uint32_t i = 0; i < n; i++)
      task (arg, i);
    return;
  }
  pthread_once (&once, watch_forks);
  Job j = { .task = task,
            .arg = arg,
            .n = n,
            .n_wanted = MIN (n, count) - 1,
            .mode = __builtin_ia32_stmxcsr () };
  pthread_mutex_lock (&lock);
  start_threads (j.n_wanted);
  job = &j;
  round_number++;
  if (j.n_wanted == 1)
    pthread_cond_signal (&wake);
  else
    pthread_cond_broadcast (&wake);
  pthread_mutex_unlock (&lock);
  work (&j);
  pthread_mutex_lock (&lock);
  job = NULL; /* a thread that wakes up late finds no job */
  while (n_working > 0)
    pthread_cond_wait (&idle, &lock);
  pthread_mutex_unlock (&lock);
  pthread_mutex_unlock (&busy);
}

uint32_t
gm_threads_started (void)
{
  pthread_mutex_lock (&lock);
  uint32_t n = n_started;
  pthread_mutex_unlock (&lock);
  return n;
}
