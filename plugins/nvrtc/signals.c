/* SPDX-License-Identifier: Apache-2.0
 * signals.c -- see signals.h.
 */
#include "plugins/nvrtc/signals.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#define SIGNALS 32 /* signals that are restored; real-time signals are only used by the program */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned depth;
static struct sigaction kept[SIGNALS];
static bool known[SIGNALS];

static void *
address_of (const struct sigaction *a)
{
  union {
    void (*handler) (int);
    void *address;
  } u = { .handler = a->sa_handler };
  return u.address;
}

/* True if this handler is a function of NVIDIA's libraries. */
static bool
is_theirs (const struct sigaction *a)
{
  Dl_info info;
  if (!dladdr (address_of (a), &info) || !info.dli_fname)
    return false;
  const char *slash = strrchr (info.dli_fname, '/'), *name = slash ? slash + 1 : info.dli_fname;
  return strstr (name, "nvrtc") || strstr (name, "cuda") || strstr (name, "nvidia");
}

static bool
is_same (const struct sigaction *a, const struct sigaction *b)
{
  for (int i = 1; i < SIGNALS; i++)
    if (sigismember (&a->sa_mask, i) != sigismember (&b->sa_mask, i))
      return false;
  return address_of (a) == address_of (b) && a->sa_flags == b->sa_flags;
}

void
nv_signals_keep (void)
{
  pthread_mutex_lock (&lock);
  for (int i = 1; depth == 0 && i < SIGNALS; i++)
    known[i] = sigaction (i, NULL, &kept[i]) == 0;
  depth++;
  pthread_mutex_unlock (&lock);
}

void
nv_signals_put_back (void)
{
  struct sigaction now;
  pthread_mutex_lock (&lock);
  depth--;
  for (int i = 1; depth == 0 && i < SIGNALS; i++)
    if (known[i] && sigaction (i, NULL, &now) == 0 && !is_same (&kept[i], &now)
        && (address_of (&now) == address_of (&kept[i]) || is_theirs (&now)))
      sigaction (i, &kept[i], NULL);
  pthread_mutex_unlock (&lock);
}
