/* SPDX-License-Identifier: Apache-2.0
 * sidecar.h -- the manifest of a plugin file: in its ELF note, or in a file beside it.
 *
 * Toolchains that make no notes ship libgramme-foo.so.manifest with the same text.  It is trusted as the
 * plugin is: owner, mode, parents.  One in the file and one beside it are an error, because nobody could
 * say which was meant.
 */
#ifndef GM_PLUGIN_SIDECAR_H
#define GM_PLUGIN_SIDECAR_H

#include "core/plugin/elf.h"

/* The text, which the caller frees, or NULL and *why.  fd: the plugin, open; canonical: its path. */
char *gm_manifest_read (int fd, const char *canonical, GmRefused *why);

#endif
