/* SPDX-License-Identifier: Apache-2.0
 * support.h -- a plugin's verdicts on the nodes of an image, checked by the host.
 *
 * A plugin's answer is not believed blindly: a node that is newer than the plugin's headers is
 * withheld whatever it says, an invalid verdict is a NO, and the answers of a plugin that writes
 * past its rows are ignored.  Every NO has a reason.
 */
#ifndef GM_RUN_SUPPORT_H
#define GM_RUN_SUPPORT_H

#include "core/graph/image.h"
#include "core/plugin/loader.h"

/* Returns the first minor of the ABI in which this version of this op could be sent.  Nodes are
 * withheld from plugins that were built against an older minor. */
uint32_t gm_op_minor (uint32_t op, uint32_t version);

typedef struct {
  bool yes;
  uint32_t cluster; /* if yes */
  uint32_t reason;  /* if not: GRAMME_REASON_... or the plugin's own */
} GmVerdict;

/* Asks the plugin.  Returns one verdict per node of the image, which the caller frees.  NULL and
 * *why (the caller frees): the plugin cannot be asked.  op_minor: gm_op_minor, or a test's. */
GmVerdict *gm_support_ask (const GmPlugin *plugin, GrammeBackend *instance,
                           const GrammeImage *image,
                           uint32_t (*op_minor) (uint32_t op, uint32_t version), char **why);

#endif
