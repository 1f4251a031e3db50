/* SPDX-License-Identifier: Apache-2.0
 * cc_folder.h -- a folder of mode 0700, below TMPDIR or /tmp, and files in it.
 *
 * No other user can put a file there, so a file that is loaded from it is the one that was written.
 * The process that makes the folder holds a lock on it, which the kernel releases when the process
 * ends, however it ends.  A folder whose lock is free is a leftover, which the next process that
 * runs cc_folder_reap removes.
 */
#ifndef GM_CC_CC_FOLDER_H
#define GM_CC_CC_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#define CC_FOLDER_BYTES 512

typedef struct {
  char path[CC_FOLDER_BYTES];
  int fd; /* -1: no folder */
} CcFolder;
#define CC_FOLDER_NONE ((CcFolder){ .fd = -1 })

/* All of these functions set errno on failure. */
bool cc_folder_make (CcFolder *folder);
bool cc_write_all (int fd, const void *data, size_t bytes);
bool cc_folder_write (const CcFolder *folder, const char *name, const void *data, size_t bytes);
/* Returns the contents of a file, up to `most` bytes, from malloc; NULL if the file cannot be read.
 */
void *cc_folder_read (const CcFolder *folder, const char *name, size_t most, size_t *bytes);
/* Removes the folder with all its contents, whichever process wrote them.  The descriptor stays
 * open. */
void cc_folder_delete (const CcFolder *folder);
/* Removes the folder and closes the descriptor. */
void cc_folder_remove (CcFolder *folder);
/* Removes the folders that ended processes of this user have left behind.  Thread: any. */
void cc_folder_reap (void);

#endif
