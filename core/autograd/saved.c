/* SPDX-License-Identifier: Apache-2.0
 * saved.c -- what a node keeps of a tensor, and hooks that keep something else in its place.
 *
 * Hooks stand on a stack of this thread; the innermost pair sees every tensor that is saved while
 * it stands there.  It gets an alias without history, so that what it makes of the tensor is no
 * part of the program's graph and no circle of references arises.  A packed tensor has no version:
 * the hook decides if it keeps a copy.  Neither function is called with hooks or recording on: they
 * would save in turn.
 * Rejected: hooks as a property of nodes; a node would have to know the stack of an earlier time.
 */
#include "core/autograd/node.h"

struct GmSavedHooks {
  uint32_t refs; /* atomic: one for the stack, one per packed tensor */
  const GmSavedHooksType *type;
  void *data;
  GmSavedHooks *outer; /* the next pair on the stack, while this pair is on it */
};

struct GmPacked {
  GmSavedHooks *hooks; /* owned */
  void *object;
};

GM_THREAD GmSavedHooks *gm_saved_hooks_now;
bool gm_saved_hooks_used;
static _Thread_local const char *refusal;

/* -- The stack --------------------------------------------------------------------------------- */

static void
hooks_unref (GmSavedHooks *h)
{
  if (__atomic_sub_fetch (&h->refs, 1, __ATOMIC_ACQ_REL))
    return;
  if (h->type->destroy)
    h->type->destroy (h->data);
  g_free (h);
}

bool
gm_saved_hooks_push (const GmSavedHooksType *type, void *data, GError **error)
{
  if (refusal) {
    g_set_error_literal (error, GM_ERROR, GM_ERROR_RUNTIME, refusal);
    return false;
  }
  GmSavedHooks *h = g_new (GmSavedHooks, 1);
  *h = (GmSavedHooks){ .refs = 1, .type = type, .data = data, .outer = gm_saved_hooks_now };
  gm_saved_hooks_now = h;
  __atomic_store_n (&gm_saved_hooks_used, true, __ATOMIC_RELAXED);
  return true;
}

bool
gm_saved_hooks_pop (void)
{
  GmSavedHooks *h = gm_saved_hooks_now;

  if (!h)
    return false;
  gm_saved_hooks_now = h->outer;
  hooks_unref (h);
  return true;
}

const void *
gm_saved_hooks_innermost (void)
{
  return gm_saved_hooks_now ? gm_saved_hooks_now->data : NULL;
}

const void *
gm_saved_hooks_top_of (const GmSavedHooksType *type)
{
  GmSavedHooks *h = gm_saved_hooks_now;

  return h && h->type == type ? h->data : NULL;
}

const char *
gm_saved_hooks_refuse (const char *why)
{
  const char *old = refusal;

  refusal = why ? g_intern_string (why) : NULL;
  return old;
}

/* -- Packing ----------------------------------------------------------------------------------- */

bool
gm_saved_pack (GmSaved *s, GError **error)
{
  GmSavedHooks *h = gm_saved_hooks_now;

  if (!s->t || s->is_packed || !h)
    return true;
  GmTensor *alias = gm_tensor_new_alias (s->t);
  uint32_t version = *gm_tensor_writes (alias);
  bool grad = gm_grad_set_enabled (false);
  gm_saved_hooks_now = NULL;
  void *object = h->type->pack (h->data, alias, error);
  gm_saved_hooks_now = h;
  gm_grad_set_enabled (grad);
  if (object && *gm_tensor_writes (alias) != version) {
    g_set_error_literal (
        error, GM_ERROR, GM_ERROR_RUNTIME,
        "a pack hook changed the tensor that it was given in place, and the program "
        "still uses it: change a clone () instead");
    h->type->drop (object);
    object = NULL;
  }
  gm_tensor_unref (alias);
  if (!object)
    return false;
  gm_tensor_unref (s->t);
  s->packed = g_new (GmPacked, 1);
  *s->packed = (GmPacked){ h, object };
  s->is_packed = true;
  __atomic_fetch_add (&h->refs, 1, __ATOMIC_RELAXED);
  return true;
}

GmTensor *
gm_saved_get (const GmSaved *s, GError **error)
{
  if (!s->is_packed)
    return gm_tensor_ref (s->t);
  GmSavedHooks *now = gm_saved_hooks_now, *h = s->packed->hooks;
  bool grad = gm_grad_set_enabled (false);
  gm_saved_hooks_now = NULL;
  GmTensor *t = h->type->unpack (h->data, s->packed->object, error);
  gm_saved_hooks_now = now;
  gm_grad_set_enabled (grad);
  return t;
}

void
gm_saved_clear (GmSaved *s)
{
  if (s->is_packed) {
    s->packed->hooks->type->drop (s->packed->object);
    hooks_unref (s->packed->hooks);
    g_free (s->packed);
  } else {
    gm_tensor_unref (s->t);
  }
  *s = (GmSaved){ 0 };
}
