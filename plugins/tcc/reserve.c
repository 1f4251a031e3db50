/* SPDX-License-Identifier: Apache-2.0
 * reserve.c -- memory for libtcc when the C library has none.
 *
 * libtcc ends the process when malloc returns NULL.  The linker's --wrap sends malloc, calloc,
 * realloc and free of this plugin here: requests that the C library refuses while libtcc works are
 * met from a reserve of address space, whose pages cost nothing until then.  Memory from the
 * reserve is never used again, so the reserve lasts for a compile or two, and after that there is
 * an error instead of a compile.
 */
#include "plugins/tcc/reserve.h"

#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <sys/mman.h>

#define BYTES ((size_t) 64 << 20)
#define ENOUGH ((size_t) 32 << 20) /* bytes for one compile */
#define HEAD 16                    /* bytes before each block, for its size */

extern void *__real_malloc (size_t bytes);
extern void *__real_calloc (size_t n, size_t bytes);
extern void *__real_realloc (void *p, size_t bytes);
extern void __real_free (void *p);
void *__wrap_malloc (size_t bytes);
void *__wrap_calloc (size_t n, size_t bytes);
void *__wrap_realloc (void *p, size_t bytes);
void __wrap_free (void *p);

/* The reserve and its state. Protected by the lock of jit.c, like all of libtcc. */
static char *reserve;
static size_t used;
static __thread bool inside;

bool
tcc_reserve_begin (void)
{
  if (!reserve) {
    void *p = mmap (NULL, BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    reserve = p == MAP_FAILED ? NULL : p;
  }
  inside = reserve && BYTES - used >= ENOUGH;
  return inside;
}

void
tcc_reserve_end (void)
{
  inside = false;
}

static bool
is_ours (const void *p)
{
  return reserve && (const char *) p >= reserve && (const char *) p < reserve + BYTES;
}

static void *
take (size_t bytes)
{
  size_t whole = ((bytes + 15) & ~(size_t) 15) + HEAD;
  if (!inside || whole < bytes || whole > BYTES - used)
    return NULL;
  char *block = reserve + used;
  used += whole;
  memcpy (block, &bytes, sizeof bytes);
  return block + HEAD;
}

void *
__wrap_malloc (size_t bytes)
{
  void *p = __real_malloc (bytes);
  return p || bytes == 0 ? p : take (bytes);
}

void * /* fresh pages of the reserve are zero, and each is used once */
__wrap_calloc (size_t n, size_t bytes)
{
  size_t all;
  void *p = __real_calloc (n, bytes);
  return p || __builtin_mul_overflow (n, bytes, &all) || all == 0 ? p : take (all);
}

void
__wrap_free (void *p)
{
  if (!is_ours (p))
    __real_free (p);
}

void *
__wrap_realloc (void *p, size_t bytes)
{
  void *made = is_ours (p) ? NULL : __real_realloc (p, bytes);
  if (made || bytes == 0)
    return made;
  size_t held = 0;
  if (is_ours (p))
    memcpy (&held, (char *) p - HEAD, sizeof held);
  else if (p)
    held = malloc_usable_size (p);
  made = __wrap_malloc (bytes);
  if (made && p)
    memcpy (made, p, held < bytes ? held : bytes);
  if (made)
    __wrap_free (p);
  return made;
}
