/* SPDX-License-Identifier: Apache-2.0
 * artefacts.h -- compiled code of plugins, kept on disk (core/cache) through the extension
 * gramme.serialize/1.
 *
 * The key is a digest of everything that can change the code: this gramme and the plugin, by their
 * build ids; the plugin's fingerprint; the instruction set and the processor's features; the
 * request's flags, options, place and threads; the images, which have no names and hold the digests
 * of their constants.  A plugin without a fingerprint is never cached. The result of each lookup is
 * counted, and logged on the channel `cache`.
 */
#ifndef GM_RUN_ARTEFACTS_H
#define GM_RUN_ARTEFACTS_H

#include "core/plugin/loader.h"
#include "plugin-api/gramme-ext.h"

/* The parts of the key that belong to an opened plugin.  Zeroed: the plugin's code cannot be
 * cached. */
typedef struct {
  const GrammeSerialize *api;
  uint8_t identity[32]; /* digest of the parts of the key that are the same for all requests */
} GmArtefacts;

void gm_artefacts_init (GmArtefacts *a, const GmPlugin *p, GrammeBackend *instance);

/* The state of the disk cache for one compile request, from lookup to store. */
typedef struct GmArtefact GmArtefact;

/* Returns the cache's state for one request, which the caller frees.  NULL: this request is not to
 * be cached, because the plugin or the user does not want that.  salt: NULL, or one more part of
 * the key. */
GmArtefact *gm_artefact_new (const GmArtefacts *a, const GmPlugin *p, GrammeBackend *instance,
                             const GrammeCompileRequest *request, const char *salt);
/* Loads the code for the request from the cache.  GRAMME_OK: *out is the executable, owned by the
 * caller.  GRAMME_NOT_FOUND: the cache has no code for this request, or none that can be used.  Any
 * other code is the answer of the plugin's `read`, with `status` set. */
int32_t gm_artefact_load (GmArtefact *f, GrammeExecutable **out, GrammeStatus *status);
/* Stores the executable that was compiled after a miss, and counts the miss.  Failing to store is
 * no error. */
void gm_artefact_save (GmArtefact *f, GrammeExecutable *e);
void gm_artefact_free (GmArtefact *f); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmArtefact, gm_artefact_free)

/* Numbers of hits, misses and so on since the process began. */
typedef struct {
  uint64_t hits, misses, stored, refused, bypassed;
} GmArtefactCounts;
GmArtefactCounts gm_artefacts_count (void);
/* Counts and logs a compilation that must not use the cache; `why` is the reason. */
void gm_artefacts_note_bypass (const char *why);

#endif
