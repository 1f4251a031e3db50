/* SPDX-License-Identifier: Apache-2.0
 * guard_record.c -- guards as they are recorded.
 *
 * A guard is appended once (guard_index has the existing ones).  At the end the guards APART of
 * single look-ups are gathered to groups, and core/guard/guard_build.c compiles all to records.
 */
#include "core/trace/class_made.h"
#include "core/trace/keys.h"
#include "core/trace/recorder.h"

guint
gm_guard_hash (gconstpointer p)
{
  const GmGuard *g = p;
  guint h = g->kind * 131 + (g->source ? g->source->number * 31 + 1 : 0)
            + (g->other ? g->other->number * 17 + 1 : 0);
  return h + g_direct_hash (g->obj) * 3 + g_direct_hash (g->key) * 5 + (guint) g->index * 11;
}

gboolean
gm_guard_equal (gconstpointer p, gconstpointer q)
{
  const GmGuard *a = p, *b = q;
  if (a->kind == GM_GUARD_TENSOR) /* one meta per source, at entry: ptr is a copy of it */
    return b->kind == a->kind && a->source == b->source;
  return a->kind == b->kind && a->source == b->source && a->other == b->other && a->obj == b->obj
         && a->key == b->key && a->index == b->index && a->ptr == b->ptr;
}

void
gm_guard_add (GmRecorder *r, const GmGuard *init)
{
  if (r->stop || g_hash_table_contains (r->guard_index, init))
    return;
  if (G_UNLIKELY (r->made != NULL) && init->obj && gm_class_made (r, init->obj)) {
    if (init->kind == GM_GUARD_CLASS_LOOKUP) /* the lookup in its bases is guarded */
      gm_class_lookup_made (r, (PyTypeObject *) init->obj, init->key);
    return;
  }
  GmGuard g = *init;
  g.line = gm_record_line (r);
  g.file = r->frame ? PyUnicode_AsUTF8 (r->frame->code->code->co_filename) : NULL;
  if (g.obj)
    gm_record_keep (r, g.obj);
  if (g.key)
    gm_record_keep (r, g.key);
  g_array_append_val (r->guards, g);
  g_hash_table_add (r->guard_index, gm_arena_copy (r->arena, &g, sizeof g));
}

/* -- Objects that are all different ------------------------------------------------------------ */

static uint32_t
leader (uint32_t *of, uint32_t i)
{
  while (of[i] != i)
    i = of[i] = of[of[i]];
  return i;
}

/* Writes the guards APART of single look-ups as groups: a guard for each object that must be
 * another one than all others of its group, those of one group beside each other, `index` being the
 * group's number from 1 on; for a group of two, one guard DISTINCT.  Objects that were each
 * compared with a third come into one group with that: all trackers are of different objects, so
 * the guards hold of the call at hand. */
static void
group_apart (GmRecorder *r)
{
  GArray *all = r->guards;
  uint32_t n_sources = r->sources->len, n_kept = 0, n_groups = 0;
  g_autofree uint32_t *of = NULL, *count = NULL, *group = NULL;
  g_autoptr (GArray) first = NULL; /* GmGuard: the lookup that put a source into a group */
  for (uint32_t i = 0; i < all->len; i++) {
    const GmGuard g = g_array_index (all, GmGuard, i);
    if (g.kind != GM_GUARD_APART) {
      g_array_index (all, GmGuard, n_kept++) = g;
      continue;
    }
    if (of == NULL) {
      of = g_new (uint32_t, n_sources);
      first = g_array_new (FALSE, TRUE, sizeof (GmGuard));
      g_array_set_size (first, n_sources);
      for (uint32_t s = 0; s < n_sources; s++)
        of[s] = s;
    }
    const GmKeyApart *apart = g.ptr;
    for (uint32_t k = 0; k < apart->contents->n; k += apart->stride) {
      const GmTracker *item = apart->contents->items[k];
      if (!gm_key_is_apart (apart->key, item))
        continue;
      uint32_t pair[] = { g.source->number, item->source->number };
      for (int side = 0; side < 2; side++)
        if (g_array_index (first, GmGuard, pair[side]).source == NULL)
          g_array_index (first, GmGuard, pair[side]) =
              (GmGuard){ .kind = GM_GUARD_APART,
                         .source = r->sources->pdata[pair[side]],
                         .line = g.line,
                         .file = g.file };
      of[leader (of, pair[0])] = leader (of, pair[1]);
    }
  }
  g_array_set_size (all, n_kept);
  if (of == NULL)
    return;
  count = g_new0 (uint32_t, n_sources);
  group = g_new0 (uint32_t, n_sources);
  for (uint32_t s = 0; s < n_sources; s++)
    count[leader (of, s)]++;
  for (uint32_t s = 0; s < n_sources; s++) { /* sources in order, groups in the order of their first
                                                source */
    uint32_t l = leader (of, s);
    if (count[l] < 2 || group[l])
      continue;
    group[l] = ++n_groups;
    uint32_t from = all->len;
    for (uint32_t m = s; m < n_sources; m++)
      if (leader (of, m) == l) {
        GmGuard g = g_array_index (first, GmGuard, m);
        g.index = n_groups;
        g_array_append_val (all, g);
      }
    if (count[l] == 2) {
      GmGuard *pair = &g_array_index (all, GmGuard, from);
      pair[0].kind = GM_GUARD_DISTINCT;
      pair[0].other = pair[1].source;
      pair[0].index = 0;
      g_array_set_size (all, from + 1);
    }
  }
}

GmGuards *
gm_guards_compile (GmRecorder *r, const GmSource *const *extra, uint32_t n_extra, uint32_t *slot_of)
{
  group_apart (r);
  const GmGuardSet set = { r->guards, r->sources, r->request->func, r->request->backend_text };
  return gm_guards_new (&set, extra, n_extra, slot_of);
}
