/* SPDX-License-Identifier: Apache-2.0
 * tsan_glib.c -- tells the thread sanitizer the order that GLib's locks, conditions and counters
 * make.
 *
 *   gcc -fsanitize=thread -shared -fPIC -o tsan_glib.so tsan_glib.c env G_SLICE=always-malloc
 *   LD_PRELOAD=./tsan_glib.so program     (not the programs that it starts)
 *
 * GLib is not built with the sanitizer, and its mutexes are no pthread ones, so that everything
 * that they protect would look like a race.  Here each function is called, and everything before it
 * in one thread is declared to happen before everything after it in the next thread that gets the
 * same lock or counter. Counted containers do so when a reference is released, so that the last
 * owner may free them.  Accesses under no lock are checked as before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <glib.h>
#include <stdlib.h>

__attribute__ ((constructor)) static void
be_preloaded_once (void)
{
  unsetenv ("LD_PRELOAD");
}

#undef g_once_init_enter
#undef g_once_init_leave
#undef g_atomic_ref_count_inc
#undef g_atomic_ref_count_dec

extern void __tsan_acquire (void *at);
extern void __tsan_release (void *at);

/* The real function, looked up by each thread that calls this before it is known, with the same
 * result. */
#define REAL(name)                                                                                 \
  static __typeof__ (&name) real;                                                                  \
  __typeof__ (&name) known = __atomic_load_n (&real, __ATOMIC_ACQUIRE);                            \
  if (!known) {                                                                                    \
    known = (__typeof__ (&name)) dlsym (RTLD_NEXT, #name);                                         \
    if (!known)                                                                                    \
      abort ();                                                                                    \
    __atomic_store_n (&real, known, __ATOMIC_RELEASE);                                             \
  }

/* -- Locks and conditions ---------------------------------------------------------------------- */

void
g_mutex_lock (GMutex *m)
{
  REAL (g_mutex_lock)
  known (m);
  __tsan_acquire (m);
}

gboolean
g_mutex_trylock (GMutex *m)
{
  REAL (g_mutex_trylock)
  gboolean mine = known (m);
  if (mine)
    __tsan_acquire (m);
  return mine;
}

void
g_mutex_unlock (GMutex *m)
{
  REAL (g_mutex_unlock)
  __tsan_release (m);
  known (m);
}

/* GLib itself unlocks and locks the mutex in these functions. */
void
g_cond_wait (GCond *c, GMutex *m)
{
  REAL (g_cond_wait)
  __tsan_release (m);
  known (c, m);
  __tsan_acquire (m);
}

gboolean
g_cond_wait_until (GCond *c, GMutex *m, gint64 end)
{
  REAL (g_cond_wait_until)
  __tsan_release (m);
  gboolean in_time = known (c, m, end);
  __tsan_acquire (m);
  return in_time;
}

/* -- Once -------------------------------------------------------------------------------------- */

gboolean (g_once_init_enter) (volatile void *at)
{
  REAL (g_once_init_enter)
  gboolean first = known (at);
  if (!first)
    __tsan_acquire ((void *) at);
  return first;
}

void (g_once_init_leave) (volatile void *at, gsize result)
{
  REAL (g_once_init_leave)
  __tsan_release ((void *) at);
  known (at, result);
}

/* -- Queues ------------------------------------------------------------------------------------ */

void
g_async_queue_push (GAsyncQueue *q, gpointer data)
{
  REAL (g_async_queue_push)
  __tsan_release (q);
  known (q, data);
}

gpointer
g_async_queue_pop (GAsyncQueue *q)
{
  REAL (g_async_queue_pop)
  gpointer data = known (q);
  __tsan_acquire (q);
  return data;
}

/* -- Counters ---------------------------------------------------------------------------------- */

void (g_atomic_ref_count_inc) (gatomicrefcount *n)
{
  REAL (g_atomic_ref_count_inc)
  known (n);
}

gboolean (g_atomic_ref_count_dec) (gatomicrefcount *n)
{
  REAL (g_atomic_ref_count_dec)
  __tsan_release (n);
  gboolean last = known (n);
  if (last)
    __tsan_acquire (n);
  return last;
}

#define GIVEN_UP(name, type)                                                                       \
  void name (type *p)                                                                              \
  {                                                                                                \
    REAL (name)                                                                                    \
    __tsan_release (p);                                                                            \
    __tsan_acquire (p);                                                                            \
    known (p);                                                                                     \
  }
GIVEN_UP (g_ptr_array_unref, GPtrArray)
GIVEN_UP (g_array_unref, GArray)
GIVEN_UP (g_bytes_unref, GBytes)
GIVEN_UP (g_hash_table_unref, GHashTable)
GIVEN_UP (g_key_file_unref, GKeyFile)
