/* SPDX-License-Identifier: Apache-2.0
 * ext_threads.c -- the extension gramme.threads/1: one set of threads for all back ends.
 *
 * Threads are made at the first run that has work for them, and then sleep between runs.  One run
 * has them at a time; another that comes meanwhile, or one within a task, does its tasks itself, one
 * after the other: nobody waits for somebody else's work, so nothing can lock up.  The child of a
 * fork has no threads, and makes its own when it needs them.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "core/base/log.h"
#include "core/plugin/host.h"

#define MAX_THREADS 64

typedef struct {
  void (*task) (void *arg, uint32_t i);
  void *arg;
  uint32_t n, next; /* next: the first task that nobody has taken; atomic */
} Job;

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER; /* who has the threads */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, idle = PTHREAD_COND_INITIALIZER;
static uint32_t n_started, n_working;
static uint64_t round_number; /* one more for each job */
static Job *job;
static __thread bool in_task;

static uint32_t
cores (void)
{
  cpu_set_t set;
  int n = sched_getaffinity (0, sizeof set, &set) == 0 ? CPU_COUNT (&set) : 1;
  return (uint32_t) CLAMP (n, 1, MAX_THREADS);
}

static uint32_t
count (void *ctx)
{
  static uint32_t known;
  uint32_t n = __atomic_load_n (&known, __ATOMIC_RELAXED);
  if (n == 0)
    __atomic_store_n (&known, n = cores (), __ATOMIC_RELAXED);
  return n;
}

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
  pthread_mutex_lock (&lock);
  for (;;) {
    while (!job || round_number == seen)
      pthread_cond_wait (&wake, &lock);
    seen = round_number;
    Job *j = job;
    n_working++;
    pthread_mutex_unlock (&lock);
    work (j);
    pthread_mutex_lock (&lock);
    if (--n_working == 0)
      pthread_cond_signal (&idle);
  }
  return NULL;
}

/* Signals go to the program's threads. */
static void
start_threads (uint32_t want)
{
  sigset_t all, before;
  sigfillset (&all); /* signals are for the program's own threads, but what a thread does wrong is its own */
  sigdelset (&all, SIGSEGV);
  sigdelset (&all, SIGBUS);
  sigdelset (&all, SIGFPE);
  sigdelset (&all, SIGILL);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  for (pthread_t t; n_started < want; n_started++) {
    if (pthread_create (&t, NULL, thread_main, NULL) != 0)
      break; /* fewer do */
    pthread_detach (t);
  }
  pthread_sigmask (SIG_SETMASK, &before, NULL);
}

/* In the child: whoever held a lock does not exist here. */
static void
forget (void)
{
  pthread_mutex_init (&busy, NULL);
  pthread_mutex_init (&lock, NULL);
  pthread_cond_init (&wake, NULL);
  pthread_cond_init (&idle, NULL);
  n_started = n_working = 0;
  job = NULL;
}

static void
run (void *ctx, uint32_t n, void (*task) (void *arg, uint32_t i), void *arg)
{
  Job j = { task, arg, n, 0 };
  if (n < 2 || in_task || count (ctx) == 1 || pthread_mutex_trylock (&busy) != 0) {
    for (uint32_t i = 0; i < n; i++)
      task (arg, i);
    return;
  }
  pthread_mutex_lock (&lock);
  start_threads (MIN (n, count (ctx)) - 1);
  job = &j;
  round_number++;
  pthread_cond_broadcast (&wake);
  pthread_mutex_unlock (&lock);
  work (&j);
  pthread_mutex_lock (&lock);
  job = NULL; /* who wakes up late finds nothing */
  while (n_working > 0)
    pthread_cond_wait (&idle, &lock);
  pthread_mutex_unlock (&lock);
  pthread_mutex_unlock (&busy);
}

uint32_t
gm_host_threads_started (void)
{
  pthread_mutex_lock (&lock);
  uint32_t n = n_started;
  pthread_mutex_unlock (&lock);
  return n;
}

const GrammeThreads *
gm_host_threads (void)
{
  static const GrammeThreads table = { .struct_size = sizeof table, .count = count, .run = run };
  static gsize once;
  if (g_once_init_enter (&once)) {
    pthread_atfork (NULL, NULL, forget);
    g_once_init_leave (&once, 1);
  }
  return &table;
}
