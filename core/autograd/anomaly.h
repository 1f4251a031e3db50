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

/* Functions of the front end.  where: returns text on the operation that is being recorded, and the
 * call stack that leads to it; the caller frees; NULL if unknown.  has_nan: true if t has a NaN;
 * false with *error set if it could not check.  tell: reports that a node failed, before its error
 * is raised; `where` may be NULL; false with *error set on failure. */
typedef struct {
  char *(*where) (void);
  bool (*has_nan) (GmTensor *t, GError **error);
  bool (*tell) (const char *node, const char *where, GError **error);
} GmAnomalyHost;
extern GmAnomalyHost gm_anomaly_host;

/* The function that is being unfolded on this thread: nodes recorded meanwhile get its place in the
 * forward.  NULL: none is being unfolded. */
extern GM_THREAD const GmAgNode *gm_anomaly_parted;
extern GM_THREAD const GError *gm_anomaly_told; /* the error of a running walk that was reported
                                                 * already, so that a walk around it, which
                                                 * passes the error on, does not report it
                                                 * again */
void gm_anomaly_note (GmAgNode *n);             /* Stores in n, which is being recorded, where
                                                 * the forward is. */
/* Checks the gradients that n's backward returned (entries of `results` may be NULL) for NaN, and
 * reports a failure.  ok: the backward succeeded.  False with *error set if the walk must stop. */
bool gm_anomaly_look (const GmAgNode *n, GmTensor *const *results, bool ok, GError **error);

#endif
