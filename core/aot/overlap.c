/* SPDX-License-Identifier: Apache-2.0
 * overlap.c -- how the memory of inputs lies to each other: what a compilation may rely on, and
 * whether a call keeps to it.
 *
 * A compiled function is right for inputs whose memory lies as it did when it was compiled, as far
 * as that mattered.  Layers note here what mattered, pair by pair; the front end guards it, and a
 * call that differs is compiled anew.  Nothing here reads elements.
 */
#include "core/aot/aot.h"
#include "core/autograd/autograd.h"

#include <string.h>

void
gm_overlap_add (GArray *overlaps, GmOverlapKind kind, GmOuterInput a, GmOuterInput b,
                int64_t offset, const GmMeta *base)
{
  GmOverlap o = { kind, a, b, offset, base ? *base : (GmMeta){ 0 } };

  g_array_append_val (overlaps, o);
}

bool
gm_overlap_holds (const GmOverlap *o, GmTensor *const *inputs)
{
  const GmTensor *a = inputs[o->a.i], *b = inputs[o->b.i];

  switch (o->kind) {
  case GM_OVERLAP_SAME:
    return a == b;
  case GM_OVERLAP_DISTINCT:
    return a != b;
  case GM_OVERLAP_APART:
    return !gm_tensor_may_overlap (a, b);
  case GM_OVERLAP_AT:
    return a->storage == b->storage && b->offset - a->offset == o->offset;
  case GM_OVERLAP_VIEW:
    return gm_tensor_view_base (b) == a && b->offset - a->offset == o->offset
           && !gm_tensor_is_awaited (b);
  case GM_OVERLAP_NO_VIEW:
    return !gm_tensor_view_base (b);
  case GM_OVERLAP_ONE_BASE:
    return gm_tensor_view_base (a) && gm_tensor_view_base (a) == gm_tensor_view_base (b)
           && !gm_tensor_is_awaited (a) && !gm_tensor_is_awaited (b);
  case GM_OVERLAP_MADE:
    return gm_tensor_history_number (b) > gm_tensor_history_number (a)
           || (o->offset && a != b && /* looked at in that order */ gm_autograd_is_late (a)
               && gm_autograd_is_late (b));
  case GM_OVERLAP_BASE: {
    const GmTensor *base = gm_tensor_view_base (b);
    return base && b->offset - base->offset == o->offset
           && memcmp (&base->meta, &o->base, sizeof base->meta) == 0 && !gm_tensor_is_awaited (b);
  }
  }
  g_assert_not_reached ();
}

char *
gm_overlap_text (const GmOverlap *o)
{
  g_autofree char *two = g_strdup_printf ("inputs %u and %u", o->a.i, o->b.i);
  g_autofree char *one = g_strdup_printf ("input %u", o->b.i), *base = NULL;

  switch (o->kind) {
  case GM_OVERLAP_SAME:
    return g_strconcat (two, " are one tensor", NULL);
  case GM_OVERLAP_DISTINCT:
    return g_strconcat (two, " are two tensors", NULL);
  case GM_OVERLAP_APART:
    return g_strconcat (two, " have no byte in common", NULL);
  case GM_OVERLAP_AT:
    return g_strdup_printf ("%s share memory, the second %" G_GINT64_FORMAT
                            " elements after the first",
                            two, o->offset);
  case GM_OVERLAP_VIEW:
    return g_strdup_printf ("input %u is a view of input %u, %" G_GINT64_FORMAT " elements into it",
                            o->b.i, o->a.i, o->offset);
  case GM_OVERLAP_NO_VIEW:
    return g_strconcat (one, " is no view", NULL);
  case GM_OVERLAP_ONE_BASE:
    return g_strconcat (two, " are views of one tensor", NULL);
  case GM_OVERLAP_MADE:
    return g_strdup_printf ("the history of input %u was made after that of input %u", o->b.i,
                            o->a.i);
  case GM_OVERLAP_BASE:
    base = gm_meta_text (&o->base);
    return g_strdup_printf ("%s is a view of a tensor %s%s, %" G_GINT64_FORMAT " elements into it",
                            one, base, o->base.requires_grad ? " that requires grad" : "",
                            o->offset);
  }
  g_assert_not_reached ();
}

/* -- Facts about real inputs ------------------------------------------------------------------- */

/* Returns how the memory of input i relates to the inputs before it, and to its base.  No base is
 * stated for a view with a hook on its gradient: the hook would miss gradients that go to the base
 * directly. */
static GmGraphAlias
relation (const GmGraph *g, GmTensor *const *t, uint32_t i)
{
  GmGraphAlias a = { .same = GM_NO_ID, .shares = GM_NO_ID, .base = GM_NO_ID };
  GmTensor *base = gm_tensor_is_awaited (t[i]) ? NULL : gm_tensor_view_base (t[i]);

  /* does not refresh it */
  a.leaf = gm_tensor_history_number (t[i]) == 0 && gm_tensor_would_require_grad (t[i]);
  for (uint32_t k = 0; k < i; k++)
    if (t[k] == t[i]) {
      a.same = g_array_index (g->inputs, GmValueId, k);
      return a;
    }
  for (uint32_t k = 0; k < g->inputs->len && base; k++)
    if (t[k] == base) {
      a.base = a.shares = g_array_index (g->inputs, GmValueId, k);
      a.offset = t[i]->offset - base->offset;
      return a;
    }
  if (base && base->meta.dtype == t[i]->meta.dtype) {
    a.has_base_meta = true;
    a.base_meta = base->meta;
    a.base_offset = t[i]->offset - base->offset;
  }
  for (uint32_t k = 0; k < i; k++)
    if (t[k] && t[k]->storage == t[i]->storage && (t[k]->storage->data || t[k] == t[i])) {
      a.shares = g_array_index (g->inputs, GmValueId, k);
      a.offset = t[i]->offset - t[k]->offset;
      break;
    }
  return a;
}

static uint32_t
look_at (const GmGraph *g, uint32_t i)
{
  return gm_graph_value (g, g_array_index (g->inputs, GmValueId, i))->look.nth;
}

/* Returns 1 + the position of view i's history, by age, among the histories of the views that are
 * inputs; 0: input i is no view with a history. */
static uint32_t
age (const GmGraph *g, GmTensor *const *t, uint32_t i)
{
  uint64_t number = gm_tensor_view_base (t[i]) ? gm_tensor_history_number (t[i]) : 0;
  uint32_t before = 0;

  for (uint32_t k = 0; k < g->inputs->len && number; k++) {
    uint64_t other = t[k] && gm_tensor_view_base (t[k]) ? gm_tensor_history_number (t[k]) : 0;
    bool both_late = other == number && other == UINT64_MAX;
    if (k != i && other)
      before +=
          both_late ? gm_read_order_before (look_at (g, k), k, look_at (g, i), i) : other < number;
  }
  return number ? before + 1 : 0;
}

void
gm_overlap_describe (GmGraph *g, GmTensor *const *inputs)
{
  gm_read_order_note_nodes (g);
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmGraphAlias a = { .same = GM_NO_ID, .shares = GM_NO_ID, .base = GM_NO_ID };
    bool says = false;
    if (inputs[i]) {
      a = relation (g, inputs, i);
      a.made = a.same == GM_NO_ID ? age (g, inputs, i) : 0;
      says = a.same != GM_NO_ID || a.shares != GM_NO_ID || a.has_base_meta || a.leaf;
    }
    gm_graph_set_alias (g, g_array_index (g->inputs, GmValueId, i), says ? &a : NULL);
  }
}
