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
  bool runs;      /* an operation; else the step is only arrived at */
  uint32_t saved; /* of an operation: index, among the inputs, of the first tensor that it saved */
  uint32_t first_hook, n_hooks;
  const GmAgProgram *program; /* of a function: its backward; owned by the stretch */
} GmStretchStep;

/* A hook that is part of the stretch. */
typedef struct {
  GmHookProgram *program; /* owned */
  uint32_t captured;      /* index, among the inputs, of the first tensor that it reads */
} GmStretchHook;

/* A slot whose gradients the stretch reads or adds to. */
typedef struct {
  GmSlot *slot;
  uint32_t first;   /* number of its first gradient */
  uint32_t arrived; /* index, among the inputs, of the first gradient that was there before */
  bool inside;      /* an operation of the stretch, whose arriving gradients nothing else reads */
  GmMeta like;      /* dtype and shape of what arrives; the layout may differ */
} GmStretchPlace;

typedef struct {
  bool owned;    /* unpacked, or made here; else another owner holds it until the results are in
                  * place */
  bool gradient; /* else it was saved */
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
  bool calls_hooks; /* instead of running their programs */
  uint32_t n_operations, n_gradients;
  GError *error; /* of the step that would have come next */
};

#define GM_STRETCH_STEP(s, i) (&g_array_index ((s)->steps, GmStretchStep, (i)))
#define GM_STRETCH_PLACE(s, slot) (&g_array_index ((s)->places, GmStretchPlace, (slot)->place - 1))

/* True if the slot's node, or something behind it, was asked for. */
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
