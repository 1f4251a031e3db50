/* SPDX-License-Identifier: Apache-2.0
 * fence_trace.c -- vmap's fences (core/tensor/fence.h) while a function is recorded.
 *
 * A fence forbids writes to memory that all examples of a vmap share.  A fence that is raised in
 * the region is a list in the heap, beside the modes: the number of values that the graph had
 * then, and which of these values are the example's own.  A write to an older value breaks the
 * graph, since plain Python refuses it.  A fence raised before the region is checked by the guard
 * WRITABLE, on the tensor itself, at each call.
 *
 * Invariant: a region ends below a fence only in the frame that has raised the fence.  Otherwise a
 * tensor made by an example would look as old as shared tensors, once the graph has run.  A break
 * in the example's function goes back to the line that calls it, and Python executes that line.
 */
#include "core/tensor/fence.h"
#include "core/trace/recorder.h"

/* Items of a fence's contents: the example's own values follow at FIRST_VALUE. */
enum { OUTER, OWN, LEVEL, FIRST_VALUE };
/* Slots of the recorder's modes object that fences use. */
enum { SLOT_FENCES = 4, SLOT_LOWERED };

static const GmTracker *
number_new (GmRecorder *r, int64_t number)
{
  return gm_tracker (r, .kind = &gm_kind_contents, .number = number);
}

static const GmTracker *
innermost (const GmRecorder *r)
{
  return gm_heap_load (&r->heap, r->modes_id, SLOT_FENCES);
}

static int64_t
lowered (const GmRecorder *r)
{
  return gm_heap_load (&r->heap, r->modes_id, SLOT_LOWERED)->number;
}

void
gm_fence_trace_init (GmRecorder *r)
{
  gm_heap_store (&r->heap, r->modes_id, SLOT_FENCES, &gm_tracker_null);
  gm_heap_store (&r->heap, r->modes_id, SLOT_LOWERED, number_new (r, 0));
}

void
gm_fence_trace_raise (GmRecorder *r, const GmTracker *own)
{
  const GmTracker **items = gm_tracker_array (r, FIRST_VALUE + own->n);
  items[OUTER] = innermost (r);
  items[OWN] = own;
  items[LEVEL] = number_new (r, r->frame->level);
  for (uint32_t i = 0; i < own->n; i++) {
    const GmTracker *t = gm_realize (r, own->items[i]);
    items[FIRST_VALUE + i] = number_new (r, gm_contents_of (r, t)->number);
  }
  const GmTracker *f =
      gm_tracker (r, .kind = &gm_kind_contents, .items = items, .n = FIRST_VALUE + own->n,
                  .number = r->graph->values->len, .data = r->graph);
  gm_heap_store (&r->heap, r->modes_id, SLOT_FENCES, f);
}

void
gm_fence_trace_lower (GmRecorder *r)
{
  const GmTracker *f = innermost (r);
  if (f == &gm_tracker_null)
    gm_heap_store (&r->heap, r->modes_id, SLOT_LOWERED, number_new (r, lowered (r) + 1));
  else
    gm_heap_store (&r->heap, r->modes_id, SLOT_FENCES, f->items[OUTER]);
}

bool
gm_fence_trace_refuses (const GmRecorder *r, GmValueId v)
{
  const GmTracker *f = innermost (r);
  if (f == &gm_tracker_null)
    return false;
  for (;;) {
    for (uint32_t i = FIRST_VALUE; i < f->n && f->data == r->graph; i++)
      if (f->items[i]->number == v)
        return false;
    uint32_t node = gm_graph_value (r->graph, v)->node;
    if (node == GM_NO_ID)
      return true;
    const GmNode *n = gm_graph_node (r->graph, node);
    uint8_t family = gm_ops[n->op].family;
    if (family != GM_FAMILY_MOVEMENT && family != GM_FAMILY_MUTATE)
      return f->data == r->graph && v < f->number; /* in the graph of a body all values are new */
    v = n->in[0];
  }
}

bool
gm_fence_trace_is_crossed (const GmRecorder *r)
{
  for (const GmTracker *f = innermost (r); f != &gm_tracker_null; f = f->items[OUTER])
    if (f->items[LEVEL]->number < r->frame->level)
      return true;
  return false;
}

static void
raise_again (GmRecorder *r, const GmTracker *f)
{
  if (f == &gm_tracker_null)
    return;
  raise_again (r, f->items[OUTER]);
  gm_effect (r, GM_EFFECT_CALL, gm_host.fence_raise, NULL, &f->items[OWN], 1);
}

void
gm_fence_trace_leave (GmRecorder *r)
{
  for (int64_t n = lowered (r); n > 0; n--)
    gm_effect (r, GM_EFFECT_CALL, gm_host.fence_lower, NULL, NULL, 0);
  raise_again (r, innermost (r));
}
