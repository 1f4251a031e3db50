/* SPDX-License-Identifier: Apache-2.0
 * higher_run.h -- a call of graphs while it runs: declarations shared by higher_run.c and
 * prefixes.c.
 */
#ifndef GM_GRAPH_HIGHER_RUN_H
#define GM_GRAPH_HIGHER_RUN_H

#include "core/graph/higher.h"

typedef struct {
  const GmHigher *h;
  const int64_t *symbols; /* of the graph around it; NULL: sizes are numbers */
  const GmHigherRunner *by;
  GError **error;
} GmHigherCall;

/* Runs body b on `in`; out: its outputs, each a new tensor with memory of its own; nothing on
 * error. */
bool gm_higher_run_body (GmHigherCall *c, uint32_t b, GmTensor *const *in, GmTensor **out);
/* Adds b to the sum *a, which may be NULL: then *a becomes b.  False with *error. */
bool gm_higher_accumulate (GmTensor **a, GmTensor *b, GError **error);
void gm_higher_drop (GmTensor **t, uint32_t n);

/* Runs associative_scan or its gradient (prefixes.c).  out: new tensors; nothing on error. */
bool gm_prefixes_run (GmHigherCall *c, GmTensor *const *in, uint32_t n_in, GmTensor **out);
bool gm_prefixes_run_grad (GmHigherCall *c, GmTensor *const *in, uint32_t n_in, GmTensor **out);

#endif
