/* SPDX-License-Identifier: Apache-2.0
 * quarantine.h -- what came of trying a plugin, remembered from one process to the next.
 *
 * A key file, gramme/plugins-1.ini in the user's cache folder, replaced by rename.  A row belongs to a
 * file as it is, with the libraries that it needs: where one of them has come, has gone or is another, or
 * the file has another size, time, inode or gramme, it is tried again.  A refusal for a reason
 * that lies outside of the file holds until something is installed, and one that may lie in the moment holds
 * for a minute.  What cannot be written is remembered by this process.  A process with raised privileges neither reads nor writes it.
 */
#ifndef GM_PLUGIN_QUARANTINE_H
#define GM_PLUGIN_QUARANTINE_H

#include "core/plugin/elf.h"

typedef struct {
  uint64_t device, inode, size;
  int64_t mtime_ns, ctime_ns;
  uint64_t libraries; /* gm_trust_open's */
} GmFileKey;
void gm_file_key_of (int fd, uint64_t libraries, GmFileKey *key);

typedef enum { GM_TRIED_NOT, GM_TRIED_GOOD, GM_TRIED_BAD } GmTried;

/* canonical: a path without links.  BAD: *why is set. */
GmTried gm_quarantine_find (const char *canonical, const GmFileKey *key, GmRefused *why);
/* Refused if why->code is set; else it is good. */
void gm_quarantine_note (const char *canonical, const GmFileKey *key, const GmRefused *why);
/* Forgets what is known of the file.  False: nothing was. */
bool gm_quarantine_forget (const char *canonical);
/* When it was tried ("2026-11-22 03:45:12"), and what it printed; NULL: never, nothing.  Free both. */
void gm_quarantine_details (const char *canonical, char **when, char **output);
/* What a plugin printed while it was tried, kept with the next note of this thread's. */
void gm_quarantine_set_output (const char *text);
/* Names the file for messages; the caller frees.  NULL: there is none. */
char *gm_quarantine_path (void);

#endif
