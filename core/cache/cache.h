/* SPDX-License-Identifier: Apache-2.0
 * cache.h -- compiled artefacts on disk: bytes by key, for this user, on this machine.
 *
 * Entries are code, so a writer of entries could run code as the user.  The folder is the user's
 * alone (0700), and every entry carries a hash keyed with a secret of the user (0600, beside the
 * entries); both are checked on the opened file, and the hash over all bytes, before any of them is
 * used.  That keeps out other users, damage and mix-ups; a process of the same user is not kept
 * out.
 *
 *   folder  GRAMME_CACHE_DIR, else $XDG_CACHE_HOME/gramme/code-1, else ~/.cache/gramme/code-1
 *   off     GRAMME_CACHE=0; with raised privileges; if the folder is not as above: `why` says it
 *   size    GRAMME_CACHE_MB megabytes, 1024 by default; the least recently used entry goes first
 *
 * Writing: a temporary file, fsync, rename.  So a name is either an old whole entry or a new whole
 * one, also after a power failure; the folder itself is not synchronised, because losing an entry
 * is harmless.  Temporary files of dead processes are removed after an hour.
 *
 * There is no state in memory: each call opens the folder anew, so threads and forks need no care.
 */
#ifndef GM_CACHE_CACHE_H
#define GM_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GM_CACHE_KEY_BYTES 32
#define GM_CACHE_LABEL_BYTES 64
#define GM_CACHE_MAX_BYTES ((size_t) 256 << 20) /* per entry */

typedef struct {
  uint8_t bytes[GM_CACHE_KEY_BYTES];
} GmCacheKey;

typedef enum {
  GM_CACHE_FOUND,
  GM_CACHE_ABSENT,
  GM_CACHE_REFUSED, /* there was an entry that must not be used, for the reason *why; it has
                     * been removed */
  GM_CACHE_OFF      /* the cache is off, for the reason *why; NULL if the user wants it so */
} GmCacheResult;

typedef struct {
  void *block; /* 64-byte aligned; so is `data`, where the payload begins */
  const void *data;
  size_t bytes;
} GmCacheEntry;

/* Finds an entry, and counts this as a use of the entry.  FOUND: the caller clears *out.  *why:
 * NULL, or a text for g_free. */
GmCacheResult gm_cache_find (const GmCacheKey *key, GmCacheEntry *out, char **why);
void gm_cache_entry_clear (GmCacheEntry *e);

/* Stores an entry, and evicts entries beyond the limit.  label: text for listings.  False and *why
 * if it was not stored, which does no harm. */
bool gm_cache_store (const GmCacheKey *key, const char *label, const void *data, size_t bytes,
                     char **why);

/* Stores an entry that can be made again if it is lost, otherwise as gm_cache_store.  Cheap: does
 * not wait for the disk, and evicts nothing.  After a power failure the entry may be damaged, and
 * is refused then. */
bool gm_cache_store_hint (const GmCacheKey *key, const char *label, const void *data, size_t bytes,
                          char **why);

/* True if entries would be stored and found; else *why is the reason.  Makes the folder. */
bool gm_cache_is_on (char **why);

/* -- For people -------------------------------------------------------------------------------- */

typedef struct {
  char name[2 * GM_CACHE_KEY_BYTES + 1]; /* the key, in hexadecimal digits */
  char label[GM_CACHE_LABEL_BYTES];
  uint64_t bytes;
  int64_t used_s; /* seconds since 1970 */
  char *why;      /* NULL: good; else the reason why it is refused */
} GmCacheRow;

/* Returns the folder's path; the caller frees. */
char *gm_cache_path (void);
/* Returns an array of all *n entries, the most recently used first; with `check` their bytes are
 * checked.  NULL and *why if the cache is off.  The caller frees the array with
 * gm_cache_rows_free. */
GmCacheRow *gm_cache_list (bool check, size_t *n, char **why);
void gm_cache_rows_free (GmCacheRow *rows, size_t n);
/* Removes all entries, temporary files and the secret.  Returns the number of entries removed, with
 * *why if some remain; -1 with *why if the cache is off. */
int64_t gm_cache_clear (char **why);

#endif
