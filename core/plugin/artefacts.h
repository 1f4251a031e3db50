/* SPDX-License-Identifier: Apache-2.0
 * artefacts.h -- what a plugin has compiled, kept on disk (core/cache) through the extension gramme.serialize/1.
 *
 * The key is a digest of everything that can change the code: this gramme and the plugin, by their build ids; the plugin's
 * fingerprint; the instruction set and the processor's features; the request's flags, options, place and threads; the
 * images, which have no names and hold the digests of their constants.  A plugin without a fingerprint is never cached.
 * What becomes of a lookup is counted, and told on the log channel `cache`.
 */
#ifndef GM_PLUGIN_ARTEFACTS_H
#define GM_PLUGIN_ARTEFACTS_H

#include "core/plugin/loader.h"
#include "plugin-api/gramme-ext.h"

/* Of an opened plugin.  Zeroed: it cannot be cached. */
typedef struct {
  const GrammeSerialize *api;
  uint8_t identity[32]; /* all of the key that is the same for all requests */
} GmArtefacts;

void gm_artefacts_init (GmArtefacts *a, const GmPlugin *p, GrammeBackend *instance);

/* One request on its way through the cache. */
typedef struct GmArtefact GmArtefact;

/* NULL: this request is not to be cached, because the plugin or the user does not want it.  salt: NULL, or one more part of the
 * key. */
GmArtefact *gm_artefact_new (const GmArtefacts *a, const GmPlugin *p, GrammeBackend *instance,
                             const GrammeCompileRequest *request, const char *salt);
/* GRAMME_OK: it was there.  GRAMME_NOT_FOUND: it was not, or cannot be used.  Else what `read` answered. */
int32_t gm_artefact_load (GmArtefact *f, GrammeExecutable **out, GrammeStatus *status);
/* What was compiled for it, which counts as a miss.  Failing to store it is no error. */
void gm_artefact_save (GmArtefact *f, GrammeExecutable *e);
void gm_artefact_free (GmArtefact *f); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmArtefact, gm_artefact_free)

/* Since the process began. */
typedef struct {
  uint64_t hits, misses, stored, refused, bypassed;
} GmArtefactCounts;
GmArtefactCounts gm_artefacts_count (void);
/* A compilation that must not use the cache, and why: counted and told. */
void gm_artefacts_note_bypass (const char *why);

#endif
