/* SPDX-License-Identifier: Apache-2.0
 * anomaly.c -- see anomaly.h.
 */
#include "core/autograd/anomaly.h"

#include "core/autograd/node.h"
#include "core/base/error.h"

#include <string.h>

bool gm_anomaly_on, gm_anomaly_checks_nan;
GmAnomalyHost gm_anomaly_host;
GM_THREAD const GmAgNode *gm_anomaly_parted;
GM_THREAD const GError *gm_anomaly_told;

void
gm_anomaly_note (GmAgNode *n)
{
  const GmAgNode *of = gm_anomaly_parted;
  char *where = of                      ? g_strdup (of->user ? of->user->where : NULL)
                : gm_anomaly_host.where ? gm_anomaly_host.where ()
                                        : NULL;
  if (!where)
    return;
  GmNodeUser *u = gm_node_user (n);
  g_free (u->where);
  u->where = where;
}

bool
gm_anomaly_look (const GmAgNode *n, GmTensor *const *results, bool ok, GError **error)
{
  const char *where = n->user ? n->user->where : NULL;

  for (uint32_t i = 0; i < n->n_in && ok && gm_anomaly_checks_nan && gm_anomaly_host.has_nan; i++) {
    GError *problem = NULL;
    bool bad = results[i] && gm_anomaly_host.has_nan (results[i], &problem);
    ok = !problem && !bad;
    if (problem)
      g_propagate_error (error, problem);
    else if (bad)
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                   "Function '%s' returned nan values in its %uth output.%s%.*s", gm_node_name (n),
                   i, where ? "\nThe forward was at " : "", where ? (int) strcspn (where, "\n") : 0,
                   where ? where : "");
  }
  if (!ok && error && *error && gm_anomaly_told != *error && gm_anomaly_host.tell) {
    GError *raised = NULL;
    gm_anomaly_told = *error;
    if (!gm_anomaly_host.tell (gm_node_name (n), where, &raised)) { /* a warning that is an error */
      g_clear_error (error);
      g_propagate_error (error, raised);
      gm_anomaly_told = *error;
    }
  }
  return ok;
}
