/* SPDX-License-Identifier: Apache-2.0
 * folder.h -- a folder of mode 0700, below TMPDIR or /tmp, and files in it.
 *
 * Nobody else can put a file there, so what is loaded from it is what was written.  Its maker
 * holds a lock on it, which the kernel drops when the process ends, however it ends: a folder
 * that nobody holds is a leftover, and the next process that looks removes it.
 */
#ifndef CC_FOLDER_H
#define CC_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#define CC_FOLDER_BYTES 512

typedef struct {
  char path[CC_FOLDER_BYTES];
  int fd; /* -1: there is none */
} CcFolder;
#define CC_FOLDER_NONE ((CcFolder){ .fd = -1 })

/* All of these leave errno. */
bool cc_folder_make (CcFolder *folder);
bool cc_write_all (int fd, const void *data, size_t bytes);
bool cc_folder_write (const CcFolder *folder, const char *name, const void *data, size_t bytes);
/* Up to `most` bytes, of malloc; NULL: cannot be read. */
void *cc_folder_read (const CcFolder *folder, const char *name, size_t most, size_t *bytes);
/* Removes the folder with all that is in it, whoever put it there.  The descriptor stays open. */
void cc_folder_delete (const CcFolder *folder);
/* Deletes it and closes the descriptor. */
void cc_folder_remove (CcFolder *folder);
/* Removes the folders that processes of this user have left behind.  Thread: any. */
void cc_folder_reap (void);

#endif
