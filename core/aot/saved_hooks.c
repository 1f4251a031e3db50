/* SPDX-License-Identifier: Apache-2.0
 * saved_hooks.c -- saved-tensor hooks, as nodes: pack at the forward's end, unpack at the
 * backward's beginning.
 *
 * partition.c, which knows of no hooks, has decided which tensors are saved.  Each saved tensor
 * that the filter lets through is passed to hooks->trace once, as the meta that it really has, and
 * comes back as two bodies.  Of the outputs of pack
 *
 *   a value that reads the tensor     is an output of the forward and an input of the backward,
 *                                     in the place of the tensor
 *   the tensor itself                 is saved as it was, without a copy
 *   a value that does not read it     is made again in the backward, not saved
 *
 * All unpack bodies come first in the backward, in the order of the saved tensors.  Moving one to
 * its first reader is left to the back end.
 * Invariant: the function's outputs, the tangents and the gradients keep their number and order.
 */
#include "core/aot/saved_hooks.h"

#include "core/graph/higher.h"

#include "core/aot/partition.h"
#include "core/base/log.h"

#include <string.h>

/* One saved tensor, and the bodies of its hooks. */
typedef struct {
  GmGraph *pack, *unpack; /* NULL: the hooks do not see the tensor */
  uint32_t first;         /* number of its first input of the new backward */
  bool *baked;            /* per output of pack: it is recomputed in the backward, not saved */
} Hooked;

typedef struct {
  const GmInlineHooks *hooks;
  const GmParts *old;
  GmGraph *forward, *backward, *restore;
  GmArena *arena;
  Hooked *hooked;  /* per old saved tensor */
  GArray *saved;   /* GmSavedValue: the new saved values */
  GmValueId *bmap; /* per value of the old backward: in the new one */
  bool called;     /* hooks->trace returned no bodies: nothing is inlined, hooks are called at
                    * each run */
} Inline;

static GmValueId
output_value (const GmGraph *g, uint32_t i)
{
  return g_array_index (g->outputs, GmGraphOutput, i).value;
}

static GmValueId
input_value (const GmGraph *g, uint32_t i)
{
  return g_array_index (g->inputs, GmValueId, i);
}

/* -- Bodies ------------------------------------------------------------------------------------ */

static bool
sees (const Inline *in, const GmSavedValue *s)
{
  switch (in->hooks->filter) {
  case GM_HOOKED_DONATED:
    return !s->is_input && s->index >= in->old->n_outputs;
  case GM_HOOKED_NO_STATIC:
    return !s->is_input || !in->hooks->is_static || !in->hooks->is_static[s->index];
  case GM_HOOKED_ALL:
    return true;
  }
  g_assert_not_reached ();
}

static bool
refuse (GError **error, const GmMeta *saved, const char *what)
{
  g_autofree char *text = gm_meta_text (saved);

  g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "cannot compile saved-tensor hooks for %s: %s",
               text, what);
  return false;
}

static bool
fits (const GmMeta *saved, const GmGraph *pack, const GmGraph *unpack, GError **error)
{
  if (pack->inputs->len != 1)
    return refuse (error, saved, "pack takes one tensor, and this one takes another number");
  if (unpack->outputs->len != 1)
    return refuse (error, saved, "unpack gives back one tensor, and this one another number");
  if (pack->outputs->len != unpack->inputs->len)
    return refuse (error, saved, "unpack has to take as many values as pack gives back");
  for (uint32_t i = 0; i < unpack->inputs->len; i++) {
    const GmMeta *given = gm_graph_meta (pack, output_value (pack, i)),
                 *taken = gm_graph_meta (unpack, input_value (unpack, i));
    if (given->dtype != taken->dtype || !gm_meta_same_shape (given, taken))
      return refuse (error, saved, "unpack takes another shape or dtype than pack gives back");
  }
  const GmMeta *back = gm_graph_meta (unpack, output_value (unpack, 0));
  if (back->dtype == saved->dtype && gm_meta_same_shape (back, saved))
    return true;
  g_autofree char *text = gm_meta_text (back),
                  *what = g_strdup_printf ("unpack gives back %s; give back the shape and the "
                                           "dtype that pack was called with",
                                           text);
  return refuse (error, saved, what);
}

/* Replaces *g by a functional graph of the same outputs, allocated in `arena`; frees the old
 * one. */
static bool
make_functional (GmGraph **g, GmArena *arena, GError **error)
{
  g_autoptr (GmGraph) recorded = g_steal_pointer (g);
  GmFunctionalLayer layer = { 0 };

  *g = gm_functionalize (recorded, false, NULL, arena, &layer, error);
  if (!*g || layer.n_mutations == 0)
    return *g != NULL;
  g_clear_pointer (g, gm_graph_free);
  g_set_error_literal (
      error, GM_ERROR, GM_ERROR_UNSUPPORTED,
      "Saved tensors hooks with inputs mutations are not allowed: the program still "
      "uses the tensor; change a clone () instead");
  return false;
}

static void
log_graph (const char *what, const GmGraph *g)
{
  g_autofree char *text = gm_log_on (GM_LOG_AOT_GRAPHS) ? gm_graph_text (g) : NULL;

  if (text)
    gm_log (GM_LOG_AOT_GRAPHS, "%s:\n%s", what, text);
}

static bool
trace (Inline *in, Hooked *h, GmMeta saved, GError **error)
{
  GmSizes *was = gm_sizes_enter (in->forward->sizes);

  saved.requires_grad = 0;
  bool ok = in->hooks->trace (in->hooks->data, &saved, in->arena, &h->pack, &h->unpack, error);
  in->called = ok && !h->pack;
  ok = ok && !in->called && make_functional (&h->pack, in->arena, error)
       && make_functional (&h->unpack, in->arena, error)
       && fits (&saved, h->pack, h->unpack, error);
  gm_sizes_enter (was);
  if (!ok)
    return false;
  log_graph ("saved-tensor hooks, pack", h->pack);
  log_graph ("saved-tensor hooks, unpack", h->unpack);
  return true;
}

/* Returns, per value of pack, true if it depends on pack's input.  In the arena. */
static bool *
find_readers (const GmGraph *pack, GmArena *arena)
{
  bool *reads = gm_arena_newn (arena, bool, pack->values->len);

  reads[input_value (pack, 0)] = true;
  for (uint32_t i = 0; i < pack->nodes->len; i++) {
    const GmNode *n = gm_graph_node (pack, i);
    for (uint32_t k = 0; k < n->n_in; k++)
      reads[n->out] |= reads[n->in[k]];
  }
  return reads;
}

/* Appends the nodes of g to `to`, except those whose results are true in `except` (per value; NULL:
 * none is excepted).  map: as in gm_copy_nodes. */
static bool
add_nodes (GmGraph *to, const GmGraph *g, GmValueId *map, const bool *except, GError **error)
{
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (except && except[n->out])
      continue;
    map[n->out] = gm_copy_node (to, g, n, map, error);
    if (map[n->out] == GM_NO_ID)
      return false;
  }
  return true;
}

/* -- The forward ------------------------------------------------------------------------------- */

/* Appends s to the saved values; `old`: the id in the old backward of the input that it replaces,
 * or GM_NO_ID. */
static void
carry (Inline *in, GmSavedValue s, GmValueId old)
{
  uint32_t n = in->saved->len;
  const GmMeta *m = gm_graph_meta (in->forward, s.is_input ? input_value (in->forward, s.index)
                                                           : output_value (in->forward, s.index));
  const char *name = old == GM_NO_ID ? gm_copy_fresh_name (in->old->backward, "packed", n)
                                     : gm_graph_value (in->old->backward, old)->name;

  gm_graph_add_input (in->backward, name, m);
  g_array_append_val (in->saved, s);
}

/* Appends the tensor s, which is value v of the forward, to the saved values as it is, without
 * hooks. */
static void
carry_plain (Inline *in, GmSavedValue s, GmValueId v, GmValueId old)
{
  if (!s.is_input && s.index >= in->old->n_outputs) {
    s.index = in->forward->outputs->len;
    gm_graph_add_output (in->forward, v, GM_OUTPUT_SAVED);
  }
  carry (in, s, old);
}

static bool
pack_one (Inline *in, uint32_t i, GError **error)
{
  GmSavedValue s = in->old->saved[i];
  Hooked *h = &in->hooked[i];
  GmValueId v = s.is_input ? input_value (in->forward, s.index)
                           : output_value (in->old->forward, s.index),
            old = input_value (in->old->backward, i);

  h->first = in->saved->len;
  if (!sees (in, &s) || gm_host_call_is_ticket (in->forward, v)) {
    carry_plain (in, s, v, old);
    return true;
  }
  if (!trace (in, h, *gm_graph_meta (in->forward, v), error))
    return false;
  GmValueId *map = gm_arena_newn (in->arena, GmValueId, h->pack->values->len);
  bool *reads = find_readers (h->pack, in->arena), carried = false;
  map[input_value (h->pack, 0)] = v;
  h->baked = gm_arena_newn (in->arena, bool, h->pack->outputs->len);
  if (!add_nodes (in->forward, h->pack, map, NULL, error))
    return false;
  for (uint32_t k = 0; k < h->pack->outputs->len; k++) {
    GmValueId p = output_value (h->pack, k);
    h->baked[k] = !reads[p];
    if (h->baked[k])
      continue;
    if (map[p] == v && !carried) {
      carry_plain (in, s, v, old);
      carried = true;
      continue;
    }
    if (!gm_cut_add_output (in->forward, map[p], GM_OUTPUT_SAVED, error))
      return false;
    carry (in, (GmSavedValue){ false, in->forward->outputs->len - 1 }, GM_NO_ID);
  }
  return true;
}

static bool
build_forward (Inline *in, GError **error)
{
  const GmGraph *old = in->old->forward;

  if (!gm_copy_values (in->forward, old, error))
    return false;
  for (uint32_t i = 0; i < in->old->n_outputs; i++)
    gm_graph_add_output (in->forward, output_value (old, i),
                         g_array_index (old->outputs, GmGraphOutput, i).kind);
  for (uint32_t i = 0; i < in->old->n_saved; i++)
    if (!pack_one (in, i, error))
      return false;
  return true;
}

/* -- The backward ------------------------------------------------------------------------------ */

/* Appends unpack of the i-th saved tensor to `to`, the backward or `restore`.  Returns its result;
 * GM_NO_ID with *error set on failure. */
static GmValueId
unpack_one (Inline *in, GmGraph *to, uint32_t i, GError **error)
{
  Hooked *h = &in->hooked[i];
  uint32_t next = h->first;

  if (!h->unpack)
    return input_value (to, next);
  GmValueId *made = gm_arena_newn (in->arena, GmValueId, h->pack->values->len),
            *map = gm_arena_newn (in->arena, GmValueId, h->unpack->values->len);
  if (!add_nodes (to, h->pack, made, find_readers (h->pack, in->arena), error))
    return GM_NO_ID;
  for (uint32_t k = 0; k < h->unpack->inputs->len; k++)
    map[input_value (h->unpack, k)] =
        h->baked[k] ? made[output_value (h->pack, k)] : input_value (to, next++);
  return add_nodes (to, h->unpack, map, NULL, error) ? map[output_value (h->unpack, 0)] : GM_NO_ID;
}

static bool
build_backward (Inline *in, GError **error)
{
  const GmGraph *old = in->old->backward;

  for (uint32_t i = 0; i < in->old->n_tangents; i++) {
    GmValueId v = input_value (old, in->old->n_saved + i);
    in->bmap[v] =
        gm_graph_add_input (in->backward, gm_graph_value (old, v)->name, gm_graph_meta (old, v));
  }
  for (uint32_t i = 0; i < in->old->n_saved; i++) {
    GmValueId v = unpack_one (in, in->backward, i, error);
    if (v == GM_NO_ID)
      return false;
    in->bmap[input_value (old, i)] = v;
  }
  if (!add_nodes (in->backward, old, in->bmap, NULL, error))
    return false;
  for (uint32_t i = 0; i < old->outputs->len; i++)
    gm_graph_add_output (in->backward, in->bmap[output_value (old, i)],
                         g_array_index (old->outputs, GmGraphOutput, i).kind);
  return true;
}

/* Builds the graph `restore` of GmParts, which computes the values that would be saved without
 * hooks: a backward that is unfolded reads them. */
static bool
build_restore (Inline *in, GError **error)
{
  for (uint32_t i = 0; i < in->saved->len; i++) {
    const GmGraphValue *v = gm_graph_value (in->backward, input_value (in->backward, i));
    gm_graph_add_input (in->restore, v->name, &v->meta);
  }
  for (uint32_t i = 0; i < in->old->n_saved; i++) {
    GmValueId v = unpack_one (in, in->restore, i, error);
    if (v == GM_NO_ID)
      return false;
    gm_graph_add_output (in->restore, v, GM_OUTPUT_USER);
  }
  return true;
}

/* -- Together ---------------------------------------------------------------------------------- */

/* Returns the gradients' sources, where those that are tangents have their number among the new
 * backward's inputs. */
static const GmGradSource *
shifted_sources (const Inline *in)
{
  GmGradSource *s = gm_arena_newn (in->arena, GmGradSource, in->old->n_grads);

  for (uint32_t i = 0; i < in->old->n_grads; i++) {
    s[i] = in->old->sources[i];
    if (s[i].is_input)
      s[i].index = s[i].index - in->old->n_saved + in->saved->len;
  }
  return s;
}

static void
finish (Inline *in, GmParts *parts)
{
  log_graph ("forward before saved-tensor hooks", parts->forward);
  log_graph ("backward before saved-tensor hooks", parts->backward);
  parts->sources = shifted_sources (in);
  g_clear_pointer (&parts->forward, gm_graph_free);
  g_clear_pointer (&parts->backward, gm_graph_free);
  g_clear_pointer (&parts->restore, gm_graph_free);
  parts->forward = gm_graph_simplify (in->forward, GM_SIMPLIFY_DEAD, in->arena);
  parts->backward = gm_graph_simplify (in->backward, GM_SIMPLIFY_DEAD, in->arena);
  parts->n_saved = in->saved->len;
  parts->saved = gm_arena_copy (in->arena, in->saved->data, sizeof (GmSavedValue) * in->saved->len);
  parts->restore = gm_graph_simplify (in->restore, GM_SIMPLIFY_DEAD, in->arena);
  log_graph ("forward after saved-tensor hooks", parts->forward);
  log_graph ("backward after saved-tensor hooks", parts->backward);
}

bool
gm_saved_hooks_inline (const GmInlineHooks *hooks, GmArena *arena, GmParts *parts, GError **error)
{
  if (!parts->backward)
    return true;
  g_autoptr (GmGraph) forward = gm_graph_new_like (parts->forward, parts->forward->name, arena),
                      backward = gm_graph_new_like (parts->backward, parts->backward->name, arena),
                      restore = gm_graph_new_like (parts->forward, "restore", arena);
  gm_graph_share_highers (forward, parts->forward);
  gm_graph_share_highers (backward, parts->backward);
  gm_graph_share_highers (restore, parts->forward);
  g_autoptr (GArray) saved = g_array_new (FALSE, FALSE, sizeof (GmSavedValue));
  Inline in = { .hooks = hooks,
                .old = parts,
                .forward = forward,
                .backward = backward,
                .restore = restore,
                .arena = arena,
                .hooked = gm_arena_newn (arena, Hooked, parts->n_saved),
                .saved = saved,
                .bmap = gm_arena_newn (arena, GmValueId, parts->backward->values->len) };

  bool ok = build_forward (&in, error) && build_backward (&in, error) && build_restore (&in, error);
  for (uint32_t i = 0; i < parts->n_saved; i++) {
    g_clear_pointer (&in.hooked[i].pack, gm_graph_free);
    g_clear_pointer (&in.hooked[i].unpack, gm_graph_free);
  }
  if (ok)
    finish (&in, parts);
  return ok || in.called;
}

/* -- Bodies that are graphs -------------------------------------------------------------------- */

/* Returns a copy of g over inputs of these metas, in `arena`, each node inferred again, with the
 * thread's current sizes. */
static GmGraph *
retrace (const GmGraph *g, const GmMeta *inputs, GmArena *arena, GError **error)
{
  g_autoptr (GmGraph) to = gm_graph_new (g->name, arena);
  const GmMeta **metas = gm_arena_newn (arena, const GmMeta *, g->inputs->len + 1);
  GmSizes *now = gm_sizes_current ();
  GmValueId *map = gm_arena_newn (arena, GmValueId, g->values->len);

  if (now) {
    to->sizes = gm_sizes_ref (now);
    to->sym = now->sym;
  }
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId v = input_value (g, i);
    map[v] = gm_graph_add_input (to, gm_graph_value (g, v)->name, &inputs[i]);
    metas[i] = &inputs[i];
  }
  const GmCopySizes *sizes = gm_copy_sizes_new (g, metas, arena);
  if (!sizes) {
    refuse (error, &inputs[0], "the hook was recorded for tensors of other sizes");
    return NULL;
  }
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    GmNode n = *gm_graph_node (g, i);
    GmAttrs attrs = { 0 };
    if (gm_graph_attrs_are_symbolic (n.attrs)) {
      if (!gm_copy_attrs (sizes, n.attrs, &attrs, error))
        return NULL;
      n.attrs = &attrs;
    }
    map[n.out] = gm_copy_node (to, g, &n, map, error);
    if (map[n.out] == GM_NO_ID)
      return NULL;
  }
  for (uint32_t i = 0; i < g->outputs->len; i++)
    gm_graph_add_output (to, map[output_value (g, i)], GM_OUTPUT_USER);
  return g_steal_pointer (&to);
}

bool
gm_saved_hooks_retrace (void *data, const GmMeta *saved, GmArena *arena, GmGraph **pack,
                        GmGraph **unpack, GError **error)
{
  const GmHookGraphs *h = data;

  if (h->pack->inputs->len != 1)
    return refuse (error, saved, "pack takes one tensor, and this one takes another number");
  if (h->pack->outputs->len != h->unpack->inputs->len)
    return refuse (error, saved, "unpack has to take as many values as pack gives back");
  *pack = retrace (h->pack, saved, arena, error);
  if (!*pack)
    return false;
  GmMeta *packed = gm_arena_newn (arena, GmMeta, (*pack)->outputs->len);
  for (uint32_t i = 0; i < (*pack)->outputs->len; i++)
    packed[i] = *gm_graph_meta (*pack, output_value (*pack, i));
  *unpack = retrace (h->unpack, packed, arena, error);
  if (!*unpack)
    g_clear_pointer (pack, gm_graph_free);
  return *unpack != NULL;
}
