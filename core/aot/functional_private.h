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
  GmVal *now;        /* per object of g: its current value in the new graph */
  uint32_t *seen;    /* per object: the number of writes to its root when `now` was taken */
  uint32_t *writes;  /* per root: the number of writes to it so far */
  uint32_t *counted; /* per root, and per x.data: the number of writes that its version counts */
  uint32_t *taken;   /* per view: the number of writes to its root when the view was taken */
  GmVal *first;      /* per view: its value when the view was taken */
  GmVal *peeked;     /* per view: its value as read without a refresh, when the number of writes was
                        `peeked_at` */
  uint32_t *peeked_at;
  GmVal *written; /* per object: the value that its last write stored, or NULL */
  uint32_t *when; /* per object: the number of writes to its root after that write */
  bool *quiet;    /* per input that requires grad: its elements were written with gradients off, so
                     that its history is no longer that of its value in `now` */
  GmVal *before_quiet; /* per object: its last value with a history, before a write with gradients
                          off */
  bool differentiate;
} GmFunctionalRewrite;

/* Decides, as the last step of the rewrite, which histories the caller's tensors have after the
 * call: made in the graph, or by a later refresh.  Fills `layer`.  Errors are left in r->b. */
void gm_functional_histories (GmFunctionalRewrite *r, GmArena *arena, GmFunctionalLayer *layer);

#endif
