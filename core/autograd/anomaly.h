/* SPDX-License-Identifier: Apache-2.0
 * anomaly.h -- finding what makes a NaN in a backward: a mode of the whole process.
 *
 * With it on, each node keeps where the forward was when it was recorded, and what a node gives is looked at before it goes on.  Functions that
 * stand for many nodes are taken apart, so that the node that is named is one of the program's.  It is slow, and changes no result.
 */
#ifndef GM_AUTOGRAD_ANOMALY_H
#define GM_AUTOGRAD_ANOMALY_H

#include "core/autograd/autograd.h"
#include "core/base/thread.h"

extern bool gm_anomaly_on, gm_anomaly_checks_nan;

/* What the front end knows.  where: a line on what is being recorded, then the way there; to be freed; NULL: nobody knows.  has_nan: false with
 * an error if it could not look.  tell: that a node failed, before its error is raised; where may be NULL; false with an error. */
typedef struct {
  char *(*where) (void);
  bool (*has_nan) (GmTensor *t, GError **error);
  bool (*tell) (const char *node, const char *where, GError **error);
} GmAnomalyHost;
extern GmAnomalyHost gm_anomaly_host;

/* The function that is being taken apart: the nodes that are recorded are where it was.  NULL: none is. */
extern GM_THREAD const GmAgNode *gm_anomaly_parted;
extern GM_THREAD const GError *gm_anomaly_told; /* of the walks that are running: one that comes out of another was told of there */
void gm_anomaly_note (GmAgNode *n); /* it is being recorded */
/* After n's backward: whether it may go on.  ok: it ran.  results may have NULLs. */
bool gm_anomaly_look (const GmAgNode *n, GmTensor *const *results, bool ok, GError **error);

#endif
