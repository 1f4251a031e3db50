/* SPDX-License-Identifier: Apache-2.0
 * arena.c -- page-aligned blocks that grow, and a cursor.
 *
 * The arena's own data lies outside of the blocks, so a sealed block holds nothing that must still
 * be written.  Sealing moves the cursor to the next page: later allocations never share a page with
 * sealed memory.  With GM_STRESS=arena each allocation gets a block of its own (growth always
 * moves) and the blocks of a dead arena stay mapped without any access, so that a stale pointer
 * faults instead of reading what came after.
 */
#include "core/base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/log.h"

#define ALIGN 16
#define FIRST_BLOCK_BYTES (16 * 1024)
#define LARGEST_STEP_BYTES (1024 * 1024)
/* Limits of sealed parts, and of dead blocks that stay mapped, in a process, which has 65,530
 * mappings at most. A sealed part is a mapping, two with the part that follows it; a dead block
 * without access is another mapping. */
#define MOST_SEALED 20000
#define MOST_LEFT 16000

typedef struct {
  char *start;
  size_t bytes, used;
  size_t sealed; /* bytes from start that are read-only */
} Block;

struct GmArena {
  GArray *blocks; /* of Block; the last one is being filled */
  size_t bytes;   /* handed out */
  size_t page_bytes;
  bool protects, stressed, gave_up; /* gave_up: no more seals */
};

static int n_sealed, n_left; /* in the whole process, atomic */

static size_t
round_up (size_t n, size_t to)
{
  return (n + to - 1) / to * to;
}

static Block *
last_block (GmArena *a)
{
  return a->blocks->len ? &g_array_index (a->blocks, Block, a->blocks->len - 1) : NULL;
}

static Block *
add_block (GmArena *a, size_t at_least)
{
  Block *last = last_block (a);
  size_t bytes =
      last && !a->stressed ? MIN (last->bytes * 2, LARGEST_STEP_BYTES) : FIRST_BLOCK_BYTES;
  if (a->stressed)
    bytes = 1;
  bytes = round_up (MAX (bytes, at_least), a->page_bytes);
  void *start = NULL;
  if (a->stressed) { /* no memory of malloc, which must stay accessible */
    start = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
      g_error ("gramme: no memory for %zu bytes of a compilation's records", bytes);
  } else if (posix_memalign (&start, a->page_bytes, bytes))
    g_error ("gramme: no memory for %zu bytes of a compilation's records", bytes);
  g_array_append_val (a->blocks, ((Block){ .start = start, .bytes = bytes }));
  return last_block (a);
}

GmArena *
gm_arena_new (void)
{
  GmArena *a = g_new0 (GmArena, 1);
  a->blocks = g_array_new (FALSE, FALSE, sizeof (Block));
  a->page_bytes = (size_t) sysconf (_SC_PAGESIZE);
  a->stressed = gm_stress ("arena");
#ifdef GM_DEBUG_CHECKS
  a->protects = true;
#else
  a->protects = a->stressed;
#endif
  return a;
}

void
gm_arena_free (GmArena *a)
{
  if (!a)
    return;
  gm_arena_unseal (a);
  for (guint i = 0; i < a->blocks->len; i++) {
    Block *b = &g_array_index (a->blocks, Block, i);
    if (a->stressed && g_atomic_int_add (&n_left, 1) < MOST_LEFT) {
      madvise (b->start, b->bytes, MADV_DONTNEED);
      mprotect (b->start, b->bytes, PROT_NONE); /* leaks address space on purpose */
    } else if (a->stressed)
      munmap (b->start, b->bytes);
    else
      free (b->start);
  }
  g_array_free (a->blocks, TRUE);
  g_free (a);
}

void *
gm_arena_alloc (GmArena *a, size_t bytes)
{
  g_assert (bytes <= SIZE_MAX / 2);
  size_t need = MAX (round_up (bytes, ALIGN), ALIGN); /* empty allocations have addresses of their
                                                       * own, too */
  Block *b = last_block (a);
  if (!b || b->bytes - b->used < need || a->stressed)
    b = add_block (a, need);
  void *p = b->start + b->used;
  b->used += need;
  a->bytes += need;
  return memset (p, 0, need);
}

void *
gm_arena_copy (GmArena *a, const void *data, size_t bytes)
{
  void *p = gm_arena_alloc (a, bytes);
  if (bytes)
    memcpy (p, data, bytes);
  return p;
}

char *
gm_arena_strdup (GmArena *a, const char *s)
{
  return s ? gm_arena_copy (a, s, strlen (s) + 1) : NULL;
}

char *
gm_arena_printf (GmArena *a, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  return gm_arena_strdup (a, text);
}

size_t
gm_arena_bytes (const GmArena *a)
{
  return a->bytes;
}

/* -- Sealing ----------------------------------------------------------------------------------- */

void
gm_arena_seal (GmArena *a)
{
  if (!a->protects || a->gave_up)
    return;
  for (guint i = a->blocks->len; i-- > 0;) {
    Block *b = &g_array_index (a->blocks, Block, i);
    size_t upto = round_up (b->used, a->page_bytes);
    if (upto == b->sealed)
      continue;
    bool first = b->sealed == 0, room = !first || g_atomic_int_add (&n_sealed, 1) < MOST_SEALED;
    if (!room || mprotect (b->start + b->sealed, upto - b->sealed, PROT_READ)) {
      if (first)
        g_atomic_int_add (&n_sealed, -1);
      a->gave_up = true; /* a sealed part is a mapping, and a process has a limited number of
                          * these */
      gm_arena_unseal (a);
      return;
    }
    b->sealed = b->used = upto;
  }
}

void
gm_arena_unseal (GmArena *a)
{
  for (guint i = 0; i < a->blocks->len; i++) {
    Block *b = &g_array_index (a->blocks, Block, i);
    if (b->sealed == 0)
      continue;
    if (mprotect (b->start, b->sealed, PROT_READ | PROT_WRITE))
      g_error ("gramme: mprotect of %zu bytes failed", b->sealed);
    g_atomic_int_add (&n_sealed, -1);
    b->sealed = 0;
  }
}
