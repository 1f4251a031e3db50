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

/* Returns the cache's folder as a descriptor that the caller closes; -1: *why, NULL if the user
 * wants no cache.  make: the folder is made if it is missing.  secret NULL: the secret is neither
 * read nor made. */
int gm_cache_open (bool make, uint8_t secret[GM_CACHE_SECRET_BYTES], char **why);

/* Opens a file of the folder, which must be a regular file of the user's, writable by no other
 * user.  Returns a descriptor that the caller closes, or -1: *why, NULL if there is no such file.
 */
int gm_cache_open_file (int folder, const char *name, struct stat *st, char **why);
/* Returns the `bytes` bytes of a file, to be freed with free (); NULL: *why. */
void *gm_cache_read_file (int fd, size_t bytes, char **why);
/* The pieces and the flags of gm_cache_write_file, which writes a new file and gives it its name in
 * one step.  replace: even if the name exists; durable: waits until the disk has the file. */
typedef struct {
  const void *data;
  size_t bytes;
} GmCachePiece;
bool gm_cache_write_file (int folder, const char *name, const GmCachePiece *pieces, size_t n,
                          bool replace, bool durable, char **why);

/* Opens, reads and checks the entry `name`; the caller clears *out.  label may be NULL. */
GmCacheResult gm_cache_read_entry (int folder, const char *name,
                                   const uint8_t secret[GM_CACHE_SECRET_BYTES], GmCacheEntry *out,
                                   char label[GM_CACHE_LABEL_BYTES], char **why);
/* True if `name` is that of an entry: 64 hexadecimal digits. */
bool gm_cache_is_entry_name (const char *name);

/* Removes old temporary files, and the least recently used entries until the others, with `more`
 * further bytes, are within the limit. */
void gm_cache_make_room (int folder, uint64_t more);

/* Sets *why to the text, unless why is NULL or *why is set; returns false. */
bool gm_cache_fail (char **why, const char *format, ...) G_GNUC_PRINTF (2, 3);

#endif
