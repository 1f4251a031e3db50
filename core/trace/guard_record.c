/* SPDX-License-Identifier: Apache-2.0
 * guard_record.c -- guards as they are recorded.
 *
 * A guard is appended once (guard_index has the existing ones); at the end core/guard/guard_build.c
 * compiles them to records.
 */
#include "core/trace/class_made.h"
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
