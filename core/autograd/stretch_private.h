/* SPDX-License-Identifier: Apache-2.0
 * stretch_private.h -- the inside of a stretch, for what collects one (stretch.c) and what makes a program of it (stretch_emit.c).
 */
#ifndef GM_AUTOGRAD_STRETCH_PRIVATE_H
#define GM_AUTOGRAD_STRETCH_PRIVATE_H

#include "core/autograd/stretch.h"
#include "core/autograd/walk.h"

typedef struct {
  GmSlot *slot;
  bool runs;      /* an operation; else something only arrives there */
  uint32_t saved; /* of an operation: the first of what it reads among the inputs */
  uint32_t first_hook, n_hooks;
  const GmAgProgram *program; /* of a function: its backward; the stretch's */
} GmStretchStep;

/* A hook that is part of the stretch. */
typedef struct {
  GmHookProgram *program; /* owned */
  uint32_t captured;      /* the first of what it reads, among the inputs */
} GmStretchHook;

/* A slot that a gradient of the stretch starts from or goes to. */
typedef struct {
  GmSlot *slot;
  uint32_t first;   /* its first gradient */
  uint32_t arrived; /* the first of those that were there before, among the inputs */
  bool inside;      /* an operation of the stretch, and nobody else looks at what arrives there */
  GmMeta like;      /* dtype and shape of what arrives; the layout may be another */
} GmStretchPlace;

typedef struct {
  bool owned;    /* unpacked, or made here; else something holds it until the stretch has landed */
  bool gradient; /* else it was saved */
} GmStretchOrigin;

struct GmStretch {
  GmWalk *w;
  GArray *steps;     /* GmStretchStep */
  GArray *places;    /* GmStretchPlace; slot->place - 1 is the slot's */
  GPtrArray *inputs; /* GmTensor */
  GArray *origins;   /* GmStretchOrigin, per input */
  GArray *hooks;     /* GmStretchHook */
  GPtrArray *programs; /* GmAgProgram */
  GByteArray *structure, *shape;
  bool calls_hooks; /* instead of running their programs */
  uint32_t n_operations, n_gradients;
  GError *error; /* of what would have come next */
};

#define GM_STRETCH_STEP(s, i) (&g_array_index ((s)->steps, GmStretchStep, (i)))
#define GM_STRETCH_PLACE(s, slot) (&g_array_index ((s)->places, GmStretchPlace, (slot)->place - 1))

/* Whether something that was asked for is there or behind. */
static inline bool
gm_stretch_is_wanted (const GmSlot *slot)
{
  return slot->needed || slot->captured;
}

/* Where edge i of n leads to in this walk, NULL if nobody wants to know. */
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
