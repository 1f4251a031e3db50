/* SPDX-License-Identifier: Apache-2.0
 * alloc.c -- memory for tensors: caching, by size class, 64-byte aligned.
 *
 * A training step asks for the same sizes again and again, and a fresh page costs more than most
 * kernels that write it.  So freed blocks are kept, by class:
 *
 *      class             8 of 64 bytes up to 512, then 8 to each doubling: at most 1/8 is wasted
 *      small, <= 64 KiB  a list per thread and class, no lock; refilled from and flushed to the
 *                        central list in batches; carved from chunks, which are never returned
 *      large             central lists under the lock; 2 MiB and more are mapped at 2 MiB
 *                        boundaries for huge pages; cached bytes stay below 5/4 of the largest
 *                        number of bytes that was ever live, or 256 MiB
 *
 * So a step that frees all that it took finds all of it again: its blocks are together up to 1/8
 * larger than what was asked for, and each class keeps the most that was live of it at a time.
 *
 * Blocks of 4 KiB and more start at multiples of 512 bytes.  A load that lies where a store just
 * before it lies, but in another page, waits for that store: with a result that starts one or two
 * cache lines behind an operand, as malloc would have it, that is every load.  Larger blocks start
 * at another such place of a page each time, so that many streams do not fight for one set of the
 * cache; gm_free finds the mapped or allocated address by rounding down.
 * Fork: the lock is held across it, so a child finds the lists whole.
 * Under AddressSanitizer nothing is cached, so that it sees every use after free.
 * Rejected: malloc with mallopt.  It knows neither alignment nor huge pages, and returns big blocks
 * to the system at once.
 */
#include "core/tensor/alloc.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "core/base/thread.h"
#include "core/tensor/tensor.h"

#define N_SMALL 64 /* number of classes up to SMALL_MAX */
#define SMALL_MAX (64 * 1024)
#define N_CLASSES 312 /* up to 2^47 bytes */
#define LARGEST ((size_t) 1 << 46)
#define CHUNK_BYTES ((size_t) 1024 * 1024)
#define HUGE_BYTES ((size_t) 2 * 1024 * 1024)
#define START_STEP 512
#define STEP_FROM 4096 /* classes from here on are multiples of START_STEP */
#define PAGE ((size_t) 4096)
#define N_SHIFTS (PAGE / START_STEP)
#define CACHE_FLOOR ((size_t) 256 * 1024 * 1024)

#ifdef __SANITIZE_ADDRESS__
#define CACHING 0
#else
#define CACHING 1
#endif

typedef struct Block {
  struct Block *next;
} Block;

typedef struct {
  Block *head;
  uint32_t n, limit; /* above limit, half is flushed */
} ThreadList;

typedef struct ThreadCache {
  ThreadList lists[N_SMALL];
  int64_t uncounted; /* bytes taken less bytes freed that live_bytes lacks; only its thread writes
                      * it */
  struct ThreadCache *next;
} ThreadCache;

static GM_THREAD ThreadCache *thread_cache;
static GM_THREAD bool thread_is_ending;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static Block *central[N_CLASSES];
static char *chunk, *chunk_end;
static size_t cached_bytes; /* bytes in central lists of large classes */
static uint32_t next_shift;
static size_t most_bytes; /* RAM and swap: the upper bound of memory that can be backed */

static ThreadCache *caches;                          /* of the live threads, under the lock */
static size_t live_bytes, peak_bytes, highest_bytes; /* highest: never reset */
static int64_t calls_until_failure;                  /* 0: none */

/* -- Size classes ------------------------------------------------------------------------------ */

static inline unsigned
class_of (size_t bytes)
{
  if (bytes <= 512)
    return bytes ? (unsigned) ((bytes - 1) >> 6) : 0;
  unsigned top = 63 - (unsigned) __builtin_clzll (bytes - 1); /* 2^top <= bytes - 1 < 2^(top + 1) */
  return (top - 8) * 8 + (unsigned) ((bytes - 1) >> (top - 3) & 7);
}

static inline size_t
class_bytes (unsigned c)
{
  if (c < 8)
    return (size_t) (c + 1) << 6;
  return (size_t) (8 + (c & 7) + 1) << (c / 8 + 5);
}

G_STATIC_ASSERT (N_SMALL == (15 - 8) * 8 + 7 + 1); /* class_of (SMALL_MAX) + 1 */

/* -- Small blocks ------------------------------------------------------------------------------ */

static uint32_t
batch_of (unsigned c)
{
  return (uint32_t) CLAMP (32 * 1024 / class_bytes (c), 1, 64);
}

/* Takes up to n blocks of class c from the central list, as a chain; at least one block unless
 * memory is out (NULL). Under the lock. */
static Block *
central_take (unsigned c, uint32_t n)
{
  Block *chain = NULL;
  size_t bytes = class_bytes (c);
  for (uint32_t i = 0; i < n; i++) {
    Block *b = central[c];
    if (b)
      central[c] = b->next;
    else {
      if (chunk && bytes >= STEP_FROM)
        chunk += -(uintptr_t) chunk % START_STEP; /* a chunk ends at such a place */
      if ((size_t) (chunk_end - chunk) < bytes) {
        if (chain)
          break; /* these blocks are enough; the next call starts the chunk */
        void *fresh;
        if (posix_memalign (&fresh, PAGE, CHUNK_BYTES))
          break;
        chunk = fresh;
        chunk_end = chunk + CHUNK_BYTES;
      }
      b = (Block *) chunk;
      chunk += bytes;
    }
    b->next = chain;
    chain = b;
  }
  return chain;
}

static void
thread_list_flush (ThreadList *l, unsigned c, uint32_t keep)
{
  pthread_mutex_lock (&lock);
  while (l->n > keep) {
    Block *b = l->head;
    l->head = b->next;
    l->n--;
    b->next = central[c];
    central[c] = b;
  }
  pthread_mutex_unlock (&lock);
}

static void
thread_end (void *data)
{
  ThreadCache *tc = data;
  thread_cache = NULL;
  thread_is_ending = true; /* later destructors of this thread use the central lists */
  for (unsigned c = 0; c < N_SMALL; c++)
    thread_list_flush (&tc->lists[c], c, 0);
  pthread_mutex_lock (&lock);
  ThreadCache **at = &caches;
  while (*at != tc)
    at = &(*at)->next;
  *at = tc->next;
  __atomic_add_fetch (&live_bytes, (size_t) tc->uncounted, __ATOMIC_RELAXED);
  pthread_mutex_unlock (&lock);
  free (tc);
}

static void
lock_take (void)
{
  pthread_mutex_lock (&lock);
}
static void
lock_give (void)
{
  pthread_mutex_unlock (&lock);
}

static void
start (void)
{
  pthread_key_create (&thread_key, thread_end);
  pthread_atfork (lock_take, lock_give, lock_give);
  struct sysinfo si;
  most_bytes = sysinfo (&si) == 0 ? (si.totalram + si.totalswap) * si.mem_unit : SIZE_MAX;
  const char *k = g_getenv ("GM_FAIL_ALLOC");
  if (k)
    gm_alloc_fail_at (g_ascii_strtoull (k, NULL, 10));
}

/* Reads GM_FAIL_ALLOC before the first allocation is counted. */
__attribute__ ((constructor)) static void
start_early (void)
{
  pthread_once (&once, start);
}

static ThreadCache *
thread_cache_get (void)
{
  if (G_LIKELY (thread_cache))
    return thread_cache;
  pthread_once (&once, start);
  if (thread_is_ending)
    return NULL;
  ThreadCache *tc = calloc (1, sizeof *tc);
  if (!tc)
    return NULL;
  for (unsigned c = 0; c < N_SMALL; c++)
    tc->lists[c].limit = 2 * batch_of (c);
  if (pthread_setspecific (thread_key, tc)) {
    free (tc);
    return NULL;
  }
  pthread_mutex_lock (&lock);
  tc->next = caches;
  caches = tc;
  pthread_mutex_unlock (&lock);
  return thread_cache = tc;
}

static void *
small_take_slow (unsigned c)
{
  if (!CACHING) {
    void *p;
    return posix_memalign (&p, GM_ALLOC_ALIGN, class_bytes (c)) ? NULL : p;
  }
  ThreadCache *tc = thread_cache_get ();
  pthread_mutex_lock (&lock);
  Block *b = central_take (c, tc ? batch_of (c) : 1);
  pthread_mutex_unlock (&lock);
  if (!b || !tc)
    return b;
  ThreadList *l = &tc->lists[c];
  for (Block *p = b->next; p; p = p->next)
    l->n++;
  l->head = b->next;
  return b;
}

static inline void *
small_take (unsigned c)
{
  ThreadCache *tc = thread_cache;
  if (CACHING && G_LIKELY (tc)) {
    ThreadList *l = &tc->lists[c];
    Block *b = l->head;
    if (G_LIKELY (b)) {
      l->head = b->next;
      l->n--;
      return b;
    }
  }
  return small_take_slow (c);
}

static void
small_give_slow (Block *b, unsigned c)
{
  if (!CACHING) {
    free (b);
    return;
  }
  ThreadCache *tc = thread_cache_get ();
  if (!tc) {
    pthread_mutex_lock (&lock);
    b->next = central[c];
    central[c] = b;
    pthread_mutex_unlock (&lock);
    return;
  }
  ThreadList *l = &tc->lists[c];
  b->next = l->head;
  l->head = b;
  if (++l->n > l->limit)
    thread_list_flush (l, c, l->limit / 2);
}

static inline void
small_give (void *p, unsigned c)
{
  ThreadCache *tc = thread_cache;
  Block *b = p;
  if (CACHING && G_LIKELY (tc && tc->lists[c].n < tc->lists[c].limit)) {
    b->next = tc->lists[c].head;
    tc->lists[c].head = b;
    tc->lists[c].n++;
    return;
  }
  small_give_slow (b, c);
}

void *
gm_block_take (size_t bytes)
{
  g_assert (bytes <= SMALL_MAX);
  void *p = small_take (class_of (bytes));
  if (G_UNLIKELY (!p))
    g_error ("gramme: no memory for %zu bytes of bookkeeping", bytes);
  return p;
}

void
gm_block_give (void *p, size_t bytes)
{
  small_give (p, class_of (bytes));
}

/* -- Large blocks ------------------------------------------------------------------------------ */

static bool
is_mapped (unsigned c)
{
  return class_bytes (c) >= HUGE_BYTES;
}

static size_t
mapped_bytes (unsigned c)
{
  return (class_bytes (c) + 2 * PAGE - 1) & ~(PAGE - 1);
}

static void *
mapping_of (void *p)
{
  return (void *) ((uintptr_t) p & ~(uintptr_t) (HUGE_BYTES - 1));
}

static void
large_release (void *p, unsigned c)
{
  if (is_mapped (c))
    munmap (mapping_of (p), mapped_bytes (c));
  else
    free ((void *) ((uintptr_t) p & ~(PAGE - 1)));
}

/* Returns the next start within a page.  0 under the sanitizer, which sees what comes behind a
 * block: a shift would hide it. */
static size_t
next_start (void)
{
  return CACHING ? __atomic_fetch_add (&next_shift, 1, __ATOMIC_RELAXED) % N_SHIFTS * START_STEP
                 : 0;
}

static void *
large_fresh (unsigned c)
{
  void *p;
  if (!is_mapped (c)) {
    size_t shift = next_start ();
    return posix_memalign (&p, PAGE, class_bytes (c) + shift) ? NULL : (char *) p + shift;
  }
  size_t bytes = mapped_bytes (c);
  char *raw =
      mmap (NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED)
    return NULL;
  char *at = mapping_of (raw + HUGE_BYTES - 1);
  if (at > raw)
    munmap (raw, (size_t) (at - raw));
  munmap (at + bytes, (size_t) (raw + HUGE_BYTES - at));
  madvise (at, bytes, MADV_HUGEPAGE); /* a hint: kernels without it are only slower */
  return at + next_start ();
}

/* Returns cached blocks to the system, the largest classes first, until at most `keep` bytes are
 * cached. */
static size_t
trim_to (size_t keep)
{
  size_t given = 0;
  pthread_mutex_lock (&lock);
  for (unsigned c = N_CLASSES; c-- > N_SMALL && cached_bytes > keep;)
    while (central[c] && cached_bytes > keep) {
      Block *b = central[c];
      central[c] = b->next;
      cached_bytes -= class_bytes (c);
      given += class_bytes (c);
      large_release (b, c);
    }
  pthread_mutex_unlock (&lock);
  return given;
}

size_t
gm_alloc_trim (void)
{
  return trim_to (0);
}

/* Returns the limit of the bytes that are live or cached when a new block is taken from the system:
 * half more than were ever live, so that the steps of a loop, whose blocks differ in their times,
 * find theirs. */
static size_t
most_held (void)
{
  return MAX (CACHE_FLOOR, __atomic_load_n (&highest_bytes, __ATOMIC_RELAXED) / 2 * 3);
}

static void *
large_take (size_t bytes)
{
  pthread_once (&once, start);
  if (bytes > LARGEST || bytes > most_bytes)
    return NULL;
  /* Below 0 while this thread has not yet reported memory of which other threads have reported the
   * release. */
  int64_t live = (int64_t) __atomic_load_n (&live_bytes, __ATOMIC_RELAXED);
  if (live > 0 && (size_t) live > most_bytes - bytes)
    return NULL;
  unsigned c = class_of (bytes);
  pthread_mutex_lock (&lock);
  Block *b = central[c];
  if (b) {
    central[c] = b->next;
    cached_bytes -= class_bytes (c);
  }
  pthread_mutex_unlock (&lock);
  if (b)
    return b;
  /* Cached blocks of other sizes would stay beside the new one, as after a change of the model. */
  size_t used = (size_t) MAX (live, 0) + class_bytes (c), most = most_held ();
  if (used + __atomic_load_n (&cached_bytes, __ATOMIC_RELAXED) > most)
    trim_to (most > used ? most - used : 0);
  void *p = large_fresh (c);
  if (!p && trim_to (0))
    p = large_fresh (c);
  return p;
}

static void
large_give (void *p, unsigned c)
{
  if (!CACHING) {
    large_release (p, c);
    return;
  }
  Block *b = p;
  pthread_mutex_lock (&lock);
  b->next = central[c];
  central[c] = b;
  cached_bytes += class_bytes (c);
  size_t keep = MAX (CACHE_FLOOR, __atomic_load_n (&highest_bytes, __ATOMIC_RELAXED) / 4 * 5);
  bool over = cached_bytes > keep;
  pthread_mutex_unlock (&lock);
  if (over)
    trim_to (keep / 2);
}

/* -- The interface ----------------------------------------------------------------------------- */

static inline void
raise_to (size_t *mark, size_t value)
{
  size_t old = __atomic_load_n (mark, __ATOMIC_RELAXED);
  while (G_UNLIKELY (value > old))
    if (__atomic_compare_exchange_n (mark, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return;
}

/* Bound of the bytes that a thread counts for itself before it adds them to the shared sum. An
 * atomic sum for each small block would cost as much as the block. So a peak is exact with one
 * thread, and off by that much for each further thread. */
#define UNCOUNTED_MAX (64 * 1024)

static inline void
count (int64_t bytes)
{
  ThreadCache *tc = thread_cache;
  size_t live;
  if (G_LIKELY (tc && bytes <= SMALL_MAX && bytes >= -SMALL_MAX)) {
    int64_t uncounted = tc->uncounted + bytes;
    bool too_many = uncounted > UNCOUNTED_MAX || uncounted < -UNCOUNTED_MAX;
    __atomic_store_n (&tc->uncounted, too_many ? 0 : uncounted, __ATOMIC_RELAXED);
    live = G_UNLIKELY (too_many)
               ? __atomic_add_fetch (&live_bytes, (size_t) uncounted, __ATOMIC_RELAXED)
               : __atomic_load_n (&live_bytes, __ATOMIC_RELAXED) + (size_t) uncounted;
  } else {
    live = __atomic_add_fetch (&live_bytes, (size_t) bytes, __ATOMIC_RELAXED)
           + (size_t) (tc ? tc->uncounted : 0);
  }
  if (bytes > 0 && (int64_t) live > 0) { /* below 0 if this thread freed memory that other threads
                                          * have not reported yet */
    raise_to (&peak_bytes, live);
    raise_to (&highest_bytes, live);
  }
}

static bool
fails_now (void)
{
  return __atomic_fetch_sub (&calls_until_failure, 1, __ATOMIC_RELAXED) == 1;
}

static inline bool
must_fail (void)
{
  /* Counts down to 0 and stays: only positive values are counted. */
  return G_UNLIKELY (__atomic_load_n (&calls_until_failure, __ATOMIC_RELAXED) > 0) && fails_now ();
}

void *
gm_alloc_behind (size_t head, size_t bytes)
{
  void *p = must_fail () ? NULL : small_take (class_of (head + bytes));
  if (G_LIKELY (p != NULL))
    count ((int64_t) bytes);
  return p;
}

void
gm_free_behind (void *p, size_t head, size_t bytes)
{
  count (-(int64_t) bytes);
  small_give (p, class_of (head + bytes));
}

void *
gm_alloc (size_t bytes)
{
  if (must_fail ())
    return NULL;
  void *p = G_LIKELY (bytes <= SMALL_MAX) ? small_take (class_of (bytes)) : large_take (bytes);
  if (G_UNLIKELY (!p))
    return NULL;
  count ((int64_t) bytes);
  return p;
}

void
gm_free (void *p, size_t bytes)
{
  if (!p)
    return;
  count (-(int64_t) bytes);
  if (G_LIKELY (bytes <= SMALL_MAX))
    small_give (p, class_of (bytes));
  else
    large_give (p, class_of (bytes));
}

size_t
gm_alloc_live_bytes (void)
{
  pthread_mutex_lock (&lock);
  size_t live = __atomic_load_n (&live_bytes, __ATOMIC_RELAXED);
  for (const ThreadCache *tc = caches; tc; tc = tc->next)
    live += (size_t) __atomic_load_n (&tc->uncounted, __ATOMIC_RELAXED);
  pthread_mutex_unlock (&lock);
  return live;
}

size_t
gm_alloc_peak_bytes (void)
{
  return __atomic_load_n (&peak_bytes, __ATOMIC_RELAXED);
}

void
gm_alloc_reset_peak (void)
{
  __atomic_store_n (&peak_bytes, gm_alloc_live_bytes (), __ATOMIC_RELAXED);
}

void
gm_alloc_fail_at (uint64_t k)
{
  __atomic_store_n (&calls_until_failure, (int64_t) MIN (k, (uint64_t) INT64_MAX),
                    __ATOMIC_RELAXED);
}
