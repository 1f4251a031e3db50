/* SPDX-License-Identifier: Apache-2.0
 * sidecar.h -- the manifest of a plugin file: in its ELF note, or in a file beside it.
 *
 * Toolchains that make no notes ship libgramme-foo.so.manifest with the same text.  The file is
 * trusted under the same rules as the plugin: owner, mode, parents.  A plugin with both a note and
 * a file is an error, because it would be ambiguous which is meant.
 */
#ifndef GM_PLUGIN_SIDECAR_H
#define GM_PLUGIN_SIDECAR_H

#include "core/plugin/elf.h"

/* Returns the manifest's text, which the caller frees; NULL and *why on failure.  fd: the plugin,
 * open; canonical: its path. */
char *gm_manifest_read (int fd, const char *canonical, GmRefused *why);

#endif
