/* SPDX-License-Identifier: Apache-2.0
 * trust.h -- decides if a file may be loaded into the process, before any of its code runs.
 *
 * A user who can change the file, or a folder on the way to it, can run code as us.  So the file
 * and every parent folder must belong to root or to the effective user and must not be writable by
 * any other user; a sticky folder such as /tmp is not enough.  Group write passes only for the
 * owner's private group.  The walk also defends against replacement between the check and the load.
 *
 * Build trees: GRAMME_PLUGIN_TRUST=/absolute/folder[:/another...] says "I vouch for what leads to
 * this folder". The walk then ends there, and group write passes below it; owners are still
 * checked, and what everybody may write is still refused.
 *
 * With raised privileges (AT_SECURE) the environment is not read at all, and only files of root in
 * the install folder pass.
 */
#ifndef GM_PLUGIN_TRUST_H
#define GM_PLUGIN_TRUST_H

#include "core/plugin/elf.h"

/* True if the process runs with privileges that its caller lacks (setuid and the like). */
bool gm_trust_is_secure_mode (void);

/* Opens the file after checking owner, mode, parents, ELF headers, and those of the libraries that
 * it needs (needed.h).  Returns a descriptor that the caller closes, or -1 and *why.  *canonical:
 * the absolute path without links, which is the path to load (NULL if there is none); the caller
 * frees it.  *libraries, unless NULL: the digest of gm_needed_check. */
int gm_trust_open (const char *path, char **canonical, uint64_t *libraries, GmRefused *why);
/* Opens the file as gm_trust_open does, without checking ELF headers and libraries. */
int gm_trust_open_plain (const char *path, char **canonical, GmRefused *why);

/* True if the owner, mode and parents of the file or folder open at fd are trusted; else false and
 * *why.  real: its path without links.  of_system: a group may write, too. */
bool gm_trust_check_file (int fd, const char *real, bool of_system, GmRefused *why);
bool gm_trust_check_folder (const char *real, bool of_system, GmRefused *why);

#endif
