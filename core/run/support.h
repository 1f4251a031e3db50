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

typedef enum {
  GM_SUPPORT_TOLD,
  GM_SUPPORT_OVERRUN, /* the plugin wrote past its rows */
  GM_SUPPORT_FAILED,  /* the plugin returned an error */
} GmSupportCode;

/* Asks the plugin.  *verdicts: one per node of the image, which the caller frees, or NULL with
 * *why, the caller's too, where the result is not GM_SUPPORT_TOLD.  op_minor: gm_op_minor, or a
 * test's. */
GmSupportCode gm_support_ask (const GmPlugin *plugin, GrammeBackend *instance,
                              const GrammeImage *image,
                              uint32_t (*op_minor) (uint32_t op, uint32_t version),
                              GmVerdict **verdicts, char **why);

#endif
