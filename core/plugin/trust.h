/* SPDX-License-Identifier: Apache-2.0
 * trust.h -- may this file be loaded into the process?  Asked before any of its code runs.
 *
 * Who can change the file, or a folder on the way to it, can run code as us.  So the file and every
 * parent folder belong to root or to the effective user and can be written by nobody else; a sticky
 * folder such as /tmp is not enough.  Group write passes only for the owner's private group.  The
 * walk also defends against replacement between the check and the load.
 *
 * Build trees: GRAMME_PLUGIN_TRUST=/absolute/folder[:/another...] says "I vouch for what leads to this folder".
 * The walk then ends there, and group write passes below it; owners are still checked, and what
 * everybody may write is still refused.
 *
 * With raised privileges (AT_SECURE) the environment is not read at all, and only files of root in the
 * install folder pass.
 */
#ifndef GM_PLUGIN_TRUST_H
#define GM_PLUGIN_TRUST_H

#include "core/plugin/elf.h"

/* Does the process run with privileges that its caller lacks? */
bool gm_trust_is_secure_mode (void);

/* Opens the file and checks owner, mode, parents, ELF headers, and the same of the libraries that it
 * needs (needed.h).  A descriptor that the caller closes, or -1 and *why.  *canonical: the absolute
 * path without links, which is what to load (NULL if there is none); the caller frees it.  *libraries,
 * unless NULL: gm_needed_check's digest. */
int gm_trust_open (const char *path, char **canonical, uint64_t *libraries, GmRefused *why);
/* The same without the ELF headers and libraries. */
int gm_trust_open_plain (const char *path, char **canonical, GmRefused *why);

/* Checks owner, mode and parents of the file open at fd, or a folder and its parents; real: a path
 * without links.  of_system: a group may write, too.  False and *why. */
bool gm_trust_check_file (int fd, const char *real, bool of_system, GmRefused *why);
bool gm_trust_check_folder (const char *real, bool of_system, GmRefused *why);

#endif
