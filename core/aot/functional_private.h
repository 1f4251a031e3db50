/* SPDX-License-Identifier: Apache-2.0
 * functional_private.h -- a functionalization on its way, for functionalize.c and functional_histories.c.
 */
#ifndef GM_AOT_FUNCTIONAL_PRIVATE_H
#define GM_AOT_FUNCTIONAL_PRIVATE_H

#include "core/aot/aot.h"

typedef struct {
  const GmGraph *g;
  GmGraphBuilder b; /* appends to the new graph */
  GmVal *now;       /* per object of g: its value in the new graph */
  uint32_t *seen;   /* per object: the count of writes to its root when `now` was taken */
  uint32_t *writes; /* per root: the count */
  uint32_t *counted; /* per root, and per x.data: the writes that its version counts */
  uint32_t *taken;  /* per view: the count of writes to its root when it was taken */
  GmVal *first;     /* per view: its value when it was taken */
  GmVal *peeked;    /* per view: its value as read by who does not look, at the count of writes `peeked_at` */
  uint32_t *peeked_at;
  GmVal *written;   /* per object: what the last write to it stored, or NULL */
  uint32_t *when;   /* per object: the count of writes to its root after that */
  bool *quiet;      /* per input that requires grad: its elements were written behind autograd's
                       back, so its history is no longer that of its value here */
  GmVal *before_quiet; /* per object: its value with a history, before a write that was quiet */
  bool differentiate;
} GmFunctionalRewrite;

/* Last of all: which histories the caller's tensors end with, made in the graph or when somebody looks.  Errors are r->b's. */
void gm_functional_histories (GmFunctionalRewrite *r, GmArena *arena, GmFunctionalLayer *layer);

#endif
