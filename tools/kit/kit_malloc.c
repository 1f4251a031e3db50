/* SPDX-License-Identifier: Apache-2.0
 * kit_malloc.c -- the program's malloc and calloc: the C library's, but the n-th call from a range
 * of code may fail.
 *
 * Shared objects use a program's definition, so a plugin's calls come here; the return address
 * tells the caller.  So only requests of the plugin itself fail, and not those of GLib or the host
 * on its behalf, which would abort.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static const char *volatile range_from, *volatile range_to;
static uint64_t fail_at, n_calls; /* n_calls is atomic */

void kit_malloc_fail (const void *from, const void *to, uint64_t at);
uint64_t kit_malloc_count (void);

void
kit_malloc_fail (const void *from, const void *to, uint64_t at)
{
  range_to = NULL;
  __atomic_store_n (&n_calls, 0, __ATOMIC_SEQ_CST);
  fail_at = at;
  range_from = from;
  range_to = to;
}

uint64_t
kit_malloc_count (void)
{
  return __atomic_load_n (&n_calls, __ATOMIC_SEQ_CST);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)

extern void *__libc_malloc (size_t bytes);
extern void *__libc_calloc (size_t n, size_t bytes);

static int
fails (const void *caller)
{
  const char *at = caller;
  if (__builtin_expect (!range_to, 1) || at < range_from || at >= range_to)
    return 0;
  return __atomic_add_fetch (&n_calls, 1, __ATOMIC_SEQ_CST) == fail_at;
}

__attribute__ ((visibility ("default"))) void *
malloc (size_t bytes)
{
  return fails (__builtin_return_address (0)) ? NULL : __libc_malloc (bytes);
}

__attribute__ ((visibility ("default"))) void *
calloc (size_t n, size_t bytes)
{
  return fails (__builtin_return_address (0)) ? NULL : __libc_calloc (n, bytes);
}

#endif
