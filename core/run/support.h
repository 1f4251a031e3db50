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

/* Returns the first minor version of the ABI that has this version of this op.  Nodes are withheld
 * from plugins that were built against an older minor. */
uint32_t gm_op_minor (uint32_t op, uint32_t version);

typedef struct {
  bool yes;
  uint32_t cluster; /* of a node that is supported */
  uint32_t reason;  /* of a node that is not supported: GRAMME_REASON_... or a reason of the
                     * plugin's own */
} GmVerdict;

typedef enum {
  GM_SUPPORT_TOLD,
  GM_SUPPORT_OVERRUN, /* the plugin wrote past its rows */
  GM_SUPPORT_FAILED,  /* the plugin returned an error */
} GmSupportCode;

/* Asks the plugin about the nodes of the image.  For GM_SUPPORT_TOLD, *verdicts is an array, one
 * per node, which the caller frees; for any other result it is NULL and *why is the reason, which
 * the caller frees.  op_minor: gm_op_minor, or a substitute in tests. */
GmSupportCode gm_support_ask (const GmPlugin *plugin, GrammeBackend *instance,
                              const GrammeImage *image,
                              uint32_t (*op_minor) (uint32_t op, uint32_t version),
                              GmVerdict **verdicts, char **why);

#endif
