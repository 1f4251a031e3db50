/* SPDX-License-Identifier: Apache-2.0
 * needed.h -- the libraries that the loader loads with a plugin, and theirs: may they be loaded?
 *
 * Their code runs with the plugin's, so the rule is the plugin's: the file and every folder on the way
 * to it belong to root or to the effective user, and nobody else can write there.  The same holds for
 * each folder of a run path, also for one that is empty or not there, since who can put a library
 * into it runs code as us.
 *
 * Libraries are found as the loader finds them: in LD_LIBRARY_PATH and the run paths, with the folders
 * for particular processors below each, then in /etc/ld.so.cache, then in the system's folders.  Where the loader
 * takes the first that fits, all that are there are checked.
 */
#ifndef GM_PLUGIN_NEEDED_H
#define GM_PLUGIN_NEEDED_H

#include "core/plugin/elf.h"

/* Checks all that the file open at fd needs, directly or not; canonical: its path without links.  False and *why: NEEDED, or
 * the row of elf.h for what the plugin's own headers say.  *digest: changes when one of the libraries is another one than it was, is gone, or has come. */
bool gm_needed_check (int fd, const char *canonical, uint64_t *digest, GmRefused *why);

#endif
