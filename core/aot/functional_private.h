/* SPDX-License-Identifier: Apache-2.0
 * functional_private.h -- the state of a functionalization, for functionalize.c and
 * functional_histories.c.
 */
#ifndef GM_AOT_FUNCTIONAL_PRIVATE_H
#define GM_AOT_FUNCTIONAL_PRIVATE_H

#include "core/aot/aot.h"

typedef struct {
  const GmGraph *g;
  GmGraphBuilder b;  /* appends to the new graph */
  GmVal *now;        /* per object of g: its value in the new graph */
  uint32_t *seen;    /* per object: the count of writes to its root when `now` was taken */
  uint32_t *writes;  /* per root: the count */
  uint32_t *counted; /* per root, and per x.data: the writes that its version counts */
  uint32_t *taken;   /* per view: the count of writes to its root when it was taken */
  GmVal *first;      /* per view: its value when it was taken */
  GmVal *peeked;     /* per view: its value as read without a refresh, at the count of writes
                      * `peeked_at` */
  uint32_t *peeked_at;
  GmVal *written; /* per object: the value that its last write stored, or NULL */
  uint32_t *when; /* per object: the count of writes to its root after that write */
  bool *quiet;    /* per input that requires grad: its elements were written with gradients off,
                   * so its history is no longer that of its value here */
  GmVal *before_quiet; /* per object: its value with a history, before a write with gradients off */
  bool differentiate;
} GmFunctionalRewrite;

/* Decides, as the last step, which histories the caller's tensors end with: made in the graph or by
 * a later refresh.  Errors are r->b's. */
void gm_functional_histories (GmFunctionalRewrite *r, GmArena *arena, GmFunctionalLayer *layer);

#endif
