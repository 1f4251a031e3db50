/* SPDX-License-Identifier: Apache-2.0
 * quarantine.h -- results of trying plugins, remembered from one process to the next.
 *
 * A key file, gramme/plugins-1.ini in the user's cache folder, replaced by rename.  A row belongs
 * to one version of a file with the libraries that it needs: the file is tried again when one of
 * the libraries was added, removed or replaced, or when its size, time, inode or gramme has
 * changed.  A refusal for a reason that lies outside of the file holds until something is
 * installed, and one that may be temporary holds for a minute.  If the file cannot be written, only
 * this process remembers the results.  A process with raised privileges neither reads nor writes
 * the file.
 */
#ifndef GM_PLUGIN_QUARANTINE_H
#define GM_PLUGIN_QUARANTINE_H

#include "core/plugin/elf.h"

typedef struct {
  uint64_t device, inode, size;
  int64_t mtime_ns, ctime_ns;
  uint64_t libraries; /* the digest of gm_trust_open */
} GmFileKey;
void gm_file_key_of (int fd, uint64_t libraries, GmFileKey *key);

typedef enum { GM_TRIED_NOT, GM_TRIED_GOOD, GM_TRIED_BAD } GmTried;

/* Returns the recorded result of trying the file; NOT if there is none.  canonical: a path without
 * links.  BAD: *why is set. */
GmTried gm_quarantine_find (const char *canonical, const GmFileKey *key, GmRefused *why);
/* Records the result for a file: refused if why->code is set, else good. */
void gm_quarantine_note (const char *canonical, const GmFileKey *key, const GmRefused *why);
/* Removes the result for the file.  False: there was none. */
bool gm_quarantine_forget (const char *canonical);
/* Sets *when to the time when the file was tried ("2026-11-22 03:45:12"), NULL if never, and
 * *output to what it printed, NULL if nothing.  The caller frees both. */
void gm_quarantine_details (const char *canonical, char **when, char **output);
/* Sets the output of a plugin's trial, which the next gm_quarantine_note of this thread stores with
 * its result. */
void gm_quarantine_set_output (const char *text);
/* Returns the path of the key file, for messages; the caller frees.  NULL: there is none. */
char *gm_quarantine_path (void);

#endif
