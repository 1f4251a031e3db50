/* SPDX-License-Identifier: Apache-2.0
 * backward_stretch_private.h -- the inside of a stretch, for the collector (backward_stretch.c) and
 * the emitter (backward_stretch_emit.c).
 */
#ifndef GM_AUTOGRAD_BACKWARD_STRETCH_PRIVATE_H
#define GM_AUTOGRAD_BACKWARD_STRETCH_PRIVATE_H

#include "core/autograd/backward_stretch.h"
#include "core/autograd/walk.h"

typedef struct {
  GmSlot *slot;
  bool runs;      /* true: its node runs as part of the stretch; false: gradients only arrive at
                   * it */
  uint32_t saved; /* of a step that runs: number, among the inputs, of the first tensor that its
                   * node saved */
  uint32_t first_hook, n_hooks;
  const GmAgProgram *program; /* of a function's node: its backward; owned by the stretch */
} GmStretchStep;

/* A hook whose program is part of the stretch. */
typedef struct {
  GmHookProgram *program; /* owned */
  uint32_t captured;      /* number, among the inputs, of the first tensor that it reads */
} GmStretchHook;

/* A slot of the walk whose gradients the stretch reads or adds to. */
typedef struct {
  GmSlot *slot;
  uint32_t first;   /* number of its first gradient */
  uint32_t arrived; /* number, among the inputs, of the first gradient that had arrived before
                     * the stretch */
  bool inside;      /* its node runs in the stretch, and nothing else reads its gradients */
  GmMeta like;      /* dtype and shape of the gradient that arrives; its layout may differ */
} GmStretchPlace;

typedef struct {
  bool owned;    /* the stretch holds a reference, because the tensor was unpacked or made here;
                  * false: borrowed from an owner that keeps it until the results are in
                  * place */
  bool gradient; /* true: a gradient that has arrived; false: a saved tensor */
} GmStretchOrigin;

struct GmStretch {
  GmWalk *w;
  GArray *steps;       /* GmStretchStep */
  GArray *places;      /* GmStretchPlace; slot->place - 1 is the slot's */
  GPtrArray *inputs;   /* GmTensor */
  GArray *origins;     /* GmStretchOrigin, per input */
  GArray *hooks;       /* GmStretchHook */
  GPtrArray *programs; /* GmAgProgram */
  GByteArray *structure, *shape;
  bool calls_hooks; /* hooks are called, their programs are not run */
  uint32_t n_operations, n_gradients;
  GError *error; /* of the step that could not be taken, which ends the stretch */
};

#define GM_STRETCH_STEP(s, i) (&g_array_index ((s)->steps, GmStretchStep, (i)))
#define GM_STRETCH_PLACE(s, slot) (&g_array_index ((s)->places, GmStretchPlace, (slot)->place - 1))

/* True if a gradient was asked for at the slot's node, or behind it. */
static inline bool
gm_stretch_is_wanted (const GmSlot *slot)
{
  return slot->needed || slot->captured;
}

/* Returns the slot that edge i of n leads to in this walk, NULL if its gradient is not wanted. */
static inline GmSlot *
gm_stretch_target (const GmStretch *s, const GmAgNode *n, uint32_t i)
{
  GmSlot *to = n->edges[i].node ? gm_walk_slot (s->w, n->edges[i].node) : NULL;

  return to && gm_walk_leads_on (to, n->edges[i].nr) ? to : NULL;
}

static inline const GArray *
gm_stretch_hooks_of (const GmAgNode *n)
{
  const GmAutograd *leaf = n->kind == GM_NODE_LEAF ? n->saved_in[0].t->autograd : NULL;

  return leaf ? leaf->hooks : n->hooks;
}

#endif
