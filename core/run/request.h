/* SPDX-License-Identifier: Apache-2.0
 * request.h -- one compile request: graphs as images, their names and constants; and its failure.
 */
#ifndef GM_RUN_REQUEST_H
#define GM_RUN_REQUEST_H

#include "core/graph/image.h"
#include "core/run/exec.h"
#include "core/run/plugin_host.h"

/* A graph of a request, with its image.  Zeroed: no graph. */
typedef struct {
  const GmGraph *graph; /* borrowed */
  GmImage *image;
  GrammeDebug debug;
} GmRequestPart;

bool gm_request_part_init (GmRequestPart *p, const GmGraph *g, GError **error);
void gm_request_part_clear (GmRequestPart *p);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (GmRequestPart, gm_request_part_clear)

typedef struct {
  GmBackend *backend;
  GmRequestPart *parts[2];        /* by role; the second may be NULL */
  const GArray *options;          /* GrammeOption */
  const char *const *option_list; /* the same options as "key=value" strings, for compiling the
                                   * graphs of bodies */
  GmCompileJob *job;
  uint32_t region, n_regions; /* (0, 1): the whole graph */
  const GmCompileHow *how;    /* NULL: default settings, without the cache on disk */
} GmRequest;

/* Loads the code from the cache on disk, or else has the plugin compile it, and returns the code of
 * the answer: the plugin's, or the host's own.  *out is the executable, owned by the caller, for
 * GRAMME_OK, else NULL; `status` has the message. */
int32_t gm_request_compile (const GmRequest *q, GrammeExecutable **out, GrammeStatus *status);

/* True if the host runs the graph itself after this answer of the plugin. */
static inline bool
gm_request_falls_back (int32_t code)
{
  return code == GRAMME_UNSUPPORTED || code == GRAMME_INTERNAL || code == GRAMME_DEADLINE;
}

/* Sets *bytes to the workspace for one run of a role, a multiple of 64; 0 if the plugin has no such
 * function.  Returns the plugin's answer. */
int32_t gm_request_workspace (GmBackend *b, GrammeExecutable *e, uint32_t role, size_t *bytes,
                              GrammeStatus *status);

#endif
