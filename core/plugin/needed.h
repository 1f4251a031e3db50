/* SPDX-License-Identifier: Apache-2.0
 * needed.h -- checks the libraries that the loader loads with a plugin, directly or indirectly.
 *
 * Their code runs with the plugin's, so the same rule applies: the file and every folder on the way
 * to it belong to root or to the effective user, and no other user can write there.  The rule also
 * holds for each folder of a run path, even if it is empty or missing, since a user who can put a
 * library into it can run code in this process.
 *
 * Libraries are found as the loader finds them: in LD_LIBRARY_PATH and the run paths, with the
 * folders for particular processors below each, then in /etc/ld.so.cache, then in the system's
 * folders.  Where the loader takes the first that fits, all that are there are checked.
 */
#ifndef GM_PLUGIN_NEEDED_H
#define GM_PLUGIN_NEEDED_H

#include "core/plugin/elf.h"

/* Checks all libraries that the file open at fd needs, directly or not; canonical: its path without
 * links.  False and *why (NEEDED, or a row for an error in the plugin's own headers) if one must
 * not be loaded.  *digest changes when one of the libraries is replaced, removed or added. */
bool gm_needed_check (int fd, const char *canonical, uint64_t *digest, GmRefused *why);

#endif
