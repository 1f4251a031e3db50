/* SPDX-License-Identifier: Apache-2.0
 * manifest.h -- the manifest of a plugin, parsed: the key file in its ELF note, readable without
 * running the plugin.
 *
 * Unknown keys and groups are ignored, so that a newer plugin can be listed.  Users' options are
 * checked against the options listed here.
 */
#ifndef GM_PLUGIN_MANIFEST_H
#define GM_PLUGIN_MANIFEST_H

#include "core/plugin/elf.h"

typedef enum { GM_OPTION_STRING, GM_OPTION_INT, GM_OPTION_BOOL, GM_OPTION_CHOICE } GmOptionType;

typedef struct {
  char *key, *fallback, *help; /* fallback: the default, NULL if there is none */
  char **values;               /* CHOICE: the values that may be given */
  GmOptionType type;
  int64_t min, max; /* INT */
  bool no_code;     /* changes-code=false: the option does not change compiled code */
} GmPluginOption;

typedef struct {
  char *text; /* the whole manifest, as in the file */
  char *id, *name, *version, *license;
  char **devices, **dtypes, **flags, **needs; /* never NULL */
  GPtrArray *options;                         /* GmPluginOption */
  GHashTable *reasons;                        /* GUINT_TO_POINTER (code) -> text */
  int32_t abi_major, abi_minor, min_host_minor, rank;
  bool bit_exact;
} GmManifest;

/* Parses a manifest; steals text.  NULL and *why (MANIFEST, ABI or HOST_MINOR) on failure.  A
 * manifest whose version does not fit is still returned in *partial, unless that is NULL, for
 * listings. */
GmManifest *gm_manifest_parse (char *text, GmManifest **partial, GmRefused *why);
void gm_manifest_free (GmManifest *m); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmManifest, gm_manifest_free)

bool gm_manifest_has_flag (const GmManifest *m, const char *flag);
const GmPluginOption *gm_manifest_option (const GmManifest *m, const char *key);
/* Returns the text for `reason`, which a plugin gives when it does not support a node: that of a
 * standard reason, or the plugin's own.  Borrowed. */
const char *gm_manifest_reason (const GmManifest *m, uint32_t reason);

/* True if the manifest allows the option; else sets GM_ERROR_VALUE, which names the key, similar
 * keys, and the allowed values. */
bool gm_manifest_check_option (const GmManifest *m, const char *key, const char *value,
                               GError **error);

#endif
