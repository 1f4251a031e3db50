/* SPDX-License-Identifier: Apache-2.0
 * anomaly.h -- finding what makes a NaN in a backward: a mode of the whole process.
 *
 * With it on, each node keeps where the forward was when it was recorded, and what a node returns
 * is checked before it goes on.  Functions that stand for many nodes are unfolded, so that the node
 * that is named is one of the program's.  The mode is slow, and changes no result.
 */
#ifndef GM_AUTOGRAD_ANOMALY_H
#define GM_AUTOGRAD_ANOMALY_H

#include "core/autograd/autograd.h"
#include "core/base/thread.h"

extern bool gm_anomaly_on, gm_anomaly_checks_nan;

/* The front end's functions.  where: returns a line on what is being recorded, then the way there;
 * the caller frees; NULL if unknown.  has_nan: false with an error if it could not check.  tell:
 * reports that a node failed, before its error is raised; where may be NULL; false with an
 * error. */
typedef struct {
  char *(*where) (void);
  bool (*has_nan) (GmTensor *t, GError **error);
  bool (*tell) (const char *node, const char *where, GError **error);
} GmAnomalyHost;
extern GmAnomalyHost gm_anomaly_host;

/* The function that is being unfolded: nodes recorded meanwhile get its place in the forward.
 * NULL: none is. */
extern GM_THREAD const GmAgNode *gm_anomaly_parted;
extern GM_THREAD const GError *gm_anomaly_told; /* error of the running walks that was told already:
                                                 * one walk may pass on the error of a walk inside
                                                 * of it */
void gm_anomaly_note (GmAgNode *n);             /* n is being recorded */
/* Checks what n's backward returned; false: it may not go on.  ok: the backward succeeded.  results
 * may have NULLs. */
bool gm_anomaly_look (const GmAgNode *n, GmTensor *const *results, bool ok, GError **error);

#endif
