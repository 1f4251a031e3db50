/* SPDX-License-Identifier: Apache-2.0
 * private.h -- declarations that the files of this room share.
 */
#ifndef GM_CACHE_PRIVATE_H
#define GM_CACHE_PRIVATE_H

#include "core/cache/cache.h"

#include <sys/stat.h>

#include <glib.h>

#define GM_CACHE_SECRET_BYTES 32
#define GM_CACHE_TEMPORARY "tmp-" /* prefix of the names of files that are being written */
#define GM_CACHE_SECRET "secret"

/* Returns the folder as a descriptor that the caller closes; -1: *why, NULL if the user wants no
 * cache.  secret NULL: not needed, and not made. */
int gm_cache_open (bool make, uint8_t secret[GM_CACHE_SECRET_BYTES], char **why);

/* Opens a file of the folder: a regular file of the user's, writable by no other user.  Returns a
 * descriptor, or -1: *why, NULL if there is none. */
int gm_cache_open_file (int folder, const char *name, struct stat *st, char **why);
/* Reads all of it; NULL: *why. */
void *gm_cache_read_file (int fd, size_t bytes, char **why);
/* Writes `n` pieces to a new file and gives it the name, in one step.  replace: also where the name
 * exists.  durable: waits until the disk has it. */
typedef struct {
  const void *data;
  size_t bytes;
} GmCachePiece;
bool gm_cache_write_file (int folder, const char *name, const GmCachePiece *pieces, size_t n,
                          bool replace, bool durable, char **why);

/* Opens, reads and checks one entry.  label may be NULL. */
GmCacheResult gm_cache_read_entry (int folder, const char *name,
                                   const uint8_t secret[GM_CACHE_SECRET_BYTES], GmCacheEntry *out,
                                   char label[GM_CACHE_LABEL_BYTES], char **why);
/* True for an entry's name: 64 hexadecimal digits. */
bool gm_cache_is_entry_name (const char *name);

/* Removes the least recently used entries until the rest, and `more` bytes, are within the limit;
 * and old temporary files. */
void gm_cache_make_room (int folder, uint64_t more);

/* Sets *why unless it is set or NULL; returns false. */
bool gm_cache_fail (char **why, const char *format, ...) G_GNUC_PRINTF (2, 3);

#endif
