/* SPDX-License-Identifier: Apache-2.0
 * folder.h -- a folder of mode 0700, below TMPDIR or /tmp, and files in it.
 *
 * Nobody else can put a file there, so what is loaded from it is what was written.
 */
#ifndef CC_FOLDER_H
#define CC_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#define CC_FOLDER_BYTES 512

/* All of these leave errno. */
bool cc_folder_make (char path[CC_FOLDER_BYTES]);
bool cc_write_all (int fd, const void *data, size_t bytes);
bool cc_folder_write (const char *folder, const char *name, const void *data, size_t bytes);
/* Up to `most` bytes, of malloc; NULL: cannot be read. */
void *cc_folder_read (const char *folder, const char *name, size_t most, size_t *bytes);
void cc_folder_remove (const char *folder, const char *const *names, size_t n);

#endif
