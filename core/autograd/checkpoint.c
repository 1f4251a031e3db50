/* SPDX-License-Identifier: Apache-2.0
 * checkpoint.c -- regions that keep nothing for the backward: they run a second time instead.
 *
 * While a region is open on this thread, every node that is recorded hands what it saved to the
 * region, which drops it and notes the node's place.  When the engine comes to the first such node,
 * the region runs again, from the same state of the generator: the same operations record nodes in
 * the same order, and what these save is moved to the places of the first ones.  History, order of
 * the gradients and so their bits are those of the program without regions.
 *
 * Not dropped: leaves that require grad and other tensors with a history from before the region.
 * They cost nothing while the program holds them, and their versions are checked as always; those
 * of the arguments (gm_region_watch) are, too.  So a change since then is an error, and gives no
 * wrong gradient.
 * Invariant: a region is either open (first run), or filling (second run), or at rest.
 */
#include "core/autograd/node.h"

#include "core/api/api.h"
#include "core/ops/ops.h"

#include <string.h>

typedef struct {
  uint8_t op;
  uint8_t dropped; /* bit i: saved_in[i]; bit GM_NODE_INLINE: saved_out */
  GmSaved saved[GM_NODE_INLINE + 1];
  const GmAgFunction *fn; /* of a function's node; else NULL */
  void *state;            /* the state of the function's node that was recorded in the second
                           * run */
  uint32_t n_in;
} Place;

/* An argument of the region, and an alias that keeps what the argument was. */
typedef struct {
  GmTensor *t, *was;
  uint32_t version;
} Watched;

struct GmRegion {
  uint32_t refs; /* atomic */
  GmRegionRun run;
  void (*destroy) (void *data);
  void *data;
  int64_t random[2];  /* the generator's state at the start */
  uint8_t autocast;   /* at the start */
  uint64_t first_seq; /* smallest sequence number of the region's nodes */
  GArray *places;     /* Place, in the order of recording */
  GArray *watched;    /* Watched: tensors that the second run will read */
  uint32_t n_filled;  /* in the second run: number of nodes recorded so far */
  bool filling, filled;
  const char *differs; /* name of the first operation of the second run that differs from the
                        * first run; NULL: none does */
  GmRegion *outer;     /* while open or filling */
  GmSavedHooks *hooks; /* the thread's hooks before open: saved-tensor hooks from outside see
                        * nothing of the region */
};

GM_THREAD GmRegion *gm_region_now;

GmRegion *
gm_region_new (GmRegionRun run, void *data, void (*destroy) (void *data))
{
  GmRegion *r = g_new0 (GmRegion, 1);
  GmAgNode *marker = gm_node_new (GM_NODE_OP, 0);

  r->refs = 1;
  r->run = run;
  r->data = data;
  r->destroy = destroy;
  r->first_seq = marker->seq;
  r->places = g_array_new (FALSE, TRUE, sizeof (Place));
  r->watched = g_array_new (FALSE, FALSE, sizeof (Watched));
  gm_node_unref (marker);
  return r;
}

static GmRegion *
region_ref (GmRegion *r)
{
  __atomic_fetch_add (&r->refs, 1, __ATOMIC_RELAXED);
  return r;
}

static void
place_clear (Place *p)
{
  for (int i = 0; i <= GM_NODE_INLINE; i++)
    g_clear_pointer (&p->saved[i].t, gm_tensor_unref);
  if (p->state)
    p->fn->release (p->state);
  p->state = NULL;
}

void
gm_region_unref (GmRegion *r)
{
  if (!r || __atomic_sub_fetch (&r->refs, 1, __ATOMIC_ACQ_REL))
    return;
  for (guint i = 0; i < r->places->len; i++)
    place_clear (&g_array_index (r->places, Place, i));
  for (guint i = 0; i < r->watched->len; i++) {
    gm_tensor_unref (g_array_index (r->watched, Watched, i).t);
    gm_tensor_unref (g_array_index (r->watched, Watched, i).was);
  }
  g_array_unref (r->watched);
  g_array_unref (r->places);
  if (r->destroy)
    r->destroy (r->data);
  g_free (r);
}

void
gm_region_watch (GmRegion *r, GmTensor *t)
{
  Watched w = { gm_tensor_ref (t), gm_tensor_new_alias (t), *gm_tensor_writes (t) };

  g_array_append_val (r->watched, w);
}

void
gm_region_open (GmRegion *r)
{
  gm_random_get_state (r->random);
  r->autocast = gm_autocast_mode ();
  r->outer = gm_region_now;
  gm_region_now = r;
  r->hooks = gm_saved_hooks_now;
  gm_saved_hooks_now = NULL;
}

void
gm_region_close (GmRegion *r)
{
  g_assert (gm_region_now == r);
  gm_region_now = r->outer;
  r->outer = NULL;
  gm_saved_hooks_now = r->hooks;
  r->hooks = NULL;
}

/* -- Recording --------------------------------------------------------------------------------- */

static GmSaved *
saved_of (GmAgNode *n, int i)
{
  return i < GM_NODE_INLINE ? &n->saved_in[i] : &n->saved_out;
}

/* True if the second run recomputes input i of n, so that it need not be kept. */
static bool
may_drop (const GmRegion *r, const GmAgNode *n, int i)
{
  const GmAgNode *from = n->edges[i].node;

  return !from || (from->kind != GM_NODE_LEAF && from->seq >= r->first_seq);
}

static void
drop_function (GmRegion *r, GmAgNode *n)
{
  Place place = { .fn = n->fn, .n_in = n->n_in };

  if (n->fn->again) {
    n->fn->release (n->state);
    n->state = NULL;
    n->region = region_ref (r);
    n->place = r->places->len;
  }
  g_array_append_val (r->places, place);
}

static void
fill_function (GmRegion *r, GmAgNode *n)
{
  Place *place =
      r->n_filled < r->places->len ? &g_array_index (r->places, Place, r->n_filled) : NULL;

  r->n_filled++;
  if (!place || place->fn != n->fn || place->n_in != n->n_in) {
    r->differs = r->differs ? r->differs : n->fn->name;
  } else if (n->fn->again && !place->state) {
    place->state = g_steal_pointer (&n->state);
    n->released = true;
  }
}

static void
drop (GmRegion *r, GmAgNode *n)
{
  Place place = { .op = n->op };

  for (int i = 0; i <= GM_NODE_INLINE; i++) {
    GmSaved *s = saved_of (n, i);
    if (!s->t || s->is_packed || (i < GM_NODE_INLINE && !may_drop (r, n, i)))
      continue;
    place.dropped |= 1u << i;
    g_clear_pointer (&s->t, gm_tensor_unref);
  }
  if (place.dropped) {
    n->region = region_ref (r);
    n->place = r->places->len;
  }
  g_array_append_val (r->places, place);
}

static void
fill (GmRegion *r, GmAgNode *n)
{
  Place *place =
      r->n_filled < r->places->len ? &g_array_index (r->places, Place, r->n_filled) : NULL;

  r->n_filled++;
  if (!place || place->fn || place->op != n->op) {
    r->differs = r->differs ? r->differs : gm_ops[n->op].name;
    return;
  }
  for (int i = 0; i <= GM_NODE_INLINE; i++) {
    GmSaved *s = saved_of (n, i);
    if (!(place->dropped >> i & 1))
      continue;
    if (s->t && !s->is_packed && !place->saved[i].t)
      place->saved[i] = (GmSaved){ .t = gm_tensor_new_alias (s->t), .version = s->version };
    else if (!s->t || s->is_packed)
      r->differs = gm_ops[n->op].name;
  }
}

void
gm_region_take (GmAgNode *n)
{
  GmRegion *r = gm_region_now;

  if (n->kind == GM_NODE_FUNCTION)
    r->filling ? fill_function (r, n) : drop_function (r, n);
  else
    r->filling ? fill (r, n) : drop (r, n);
}

/* -- The second run ---------------------------------------------------------------------------- */

static bool
check_second_run (const GmRegion *r, GError **error)
{
  if (!r->differs && r->n_filled == r->places->len)
    return true;
  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
               "a checkpointed function did something else when it ran again for the backward: it "
               "recorded %u operations at first and %u now%s%s.  It must depend on nothing but its "
               "arguments, and must not change what it reads",
               r->places->len, r->n_filled, r->differs ? ", and they differ at " : "",
               r->differs ? r->differs : "");
  return false;
}

static bool
is_as_it_was (const Watched *w)
{
  const GmMeta *a = &w->t->meta, *b = &w->was->meta;

  return w->t->storage == w->was->storage && w->t->offset == w->was->offset
         && gm_meta_same_shape (a, b) && memcmp (a->strides, b->strides, sizeof a->strides) == 0;
}

static bool
check_watched (const GmRegion *r, GError **error)
{
  for (guint i = 0; i < r->watched->len; i++) {
    const Watched *w = &g_array_index (r->watched, Watched, i);
    uint32_t now = *gm_tensor_writes (w->was);
    if (now == w->version && is_as_it_was (w))
      continue;
    g_autofree char *text = gm_meta_text (&w->was->meta), *is = gm_meta_text (&w->t->meta);
    g_autofree char *how =
        now != w->version
            ? g_strdup_printf ("is at version %u; expected version %u", now, w->version)
            : g_strdup_printf ("was given another shape or memory, as %s", is);
    g_set_error (
        error, GM_ERROR, GM_ERROR_RUNTIME,
        "an argument of a checkpointed function was changed by an in-place operation, and the "
        "function has to run on it again: %s %s.  Change a clone () instead, or change it after "
        "backward",
        text, how);
    return false;
  }
  return true;
}

static bool
run_again (GmRegion *r, GError **error)
{
  int64_t random[2];

  if (!check_watched (r, error))
    return false;
  bool grad = gm_grad_set_enabled (true), ok;
  uint8_t autocast = gm_autocast_set (r->autocast);
  gm_random_get_state (random);
  gm_random_set_state (r->random);
  r->filling = true;
  r->n_filled = 0;
  r->differs = NULL;
  r->outer = gm_region_now;
  r->hooks = gm_saved_hooks_now;
  gm_region_now = r;
  gm_saved_hooks_now = NULL;
  ok = r->run (r->data, error);
  gm_region_close (r);
  r->filling = false;
  gm_random_set_state (random);
  gm_grad_set_enabled (grad);
  gm_autocast_set (autocast);
  ok = ok && check_second_run (r, error);
  r->filled = ok;
  for (guint i = 0; !ok && i < r->places->len; i++)
    place_clear (&g_array_index (r->places, Place, i));
  return ok;
}

bool
gm_region_is_ready (const GmAgNode *n)
{
  return !n->region || n->region->filled;
}

bool
gm_region_give (GmAgNode *n, GError **error)
{
  GmRegion *r = n->region;

  if (!r->filled && !run_again (r, error))
    return false;
  Place *place = &g_array_index (r->places, Place, n->place);
  if (place->fn)
    n->state = g_steal_pointer (&place->state);
  for (int i = 0; i <= GM_NODE_INLINE; i++)
    if (place->dropped >> i & 1)
      *saved_of (n, i) = (GmSaved){ .t = g_steal_pointer (&place->saved[i].t),
                                    .version = place->saved[i].version };
  n->region = NULL;
  gm_region_unref (r);
  return true;
}
