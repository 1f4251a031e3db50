/* SPDX-License-Identifier: Apache-2.0
 * code_cache.c -- see code_cache.h.  The cache is in the code object's extra slot, which frees it
 * with the code.
 */
#include "core/objects/cpython.h"

#include "core/compiled_pair.h"
#include "core/capture/callable_backend.h"
#include "core/capture/counters.h"
#include "core/bytecode/decode.h"
#include "core/objects/errors.h"
#include "core/capture/resume_call.h"
#include "core/capture/resume_code.h"
#include "core/capture/entry_draws.h"
#include "core/capture/resume_original.h"

#include <string.h>

static Py_ssize_t extra_index = -1;
static GHashTable *live_caches; /* set of GmCodeCache */
static GHashTable *configs;     /* key -> GmConfig, for live ones */

/* -- Configurations ---------------------------------------------------------------------------- */

static int
compare_strings (const void *a, const void *b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

static GmConfig *
intern (const char *backend, char **options, const void *callable)
{
  g_auto (GStrv) sorted = options && options[0] ? g_strdupv (options) : NULL;
  if (sorted)
    qsort (sorted, g_strv_length (sorted), sizeof (char *), compare_strings);
  g_autofree char *joined = sorted ? g_strjoinv (", ", sorted) : NULL;
  g_autofree char *text = joined ? g_strdup_printf ("%s(%s)", backend, joined) : g_strdup (backend);
  g_autofree char *key = callable ? g_strdup_printf ("%s at %p", text, callable) : g_strdup (text);
  GmConfig *config = g_hash_table_lookup (configs, key);
  if (config)
    return config;
  config = g_new0 (GmConfig, 1);
  config->refs = 1;
  config->backend = g_strdup (backend);
  config->key = g_strdup (key);
  config->options = g_steal_pointer (&sorted);
  config->text = g_steal_pointer (&text);
  g_hash_table_insert (configs, config->key, config);
  return config;
}

const GmConfig *
gm_config_get (const char *backend, char **options)
{
  GmConfig *config = intern (backend, options, NULL);
  config->refs++; /* the table's own reference is never released */
  return config;
}

/* Returns the configuration of a back end in Python.  The address of `callable` is part of its
 * key, since two callables of the same name are two back ends; no other object can have that
 * address while the configuration lives. */
const GmConfig *
gm_config_for (PyObject *callable, PyObject *kwargs, char **options)
{
  PyObject *named = PyObject_GetAttrString (callable, "__name__");
  if (!named)
    PyErr_Clear ();
  const char *name =
      named && PyUnicode_Check (named) ? PyUnicode_AsUTF8 (named) : Py_TYPE (callable)->tp_name;
  GmConfig *config = name ? intern (name, options, callable) : NULL;
  Py_XDECREF (named);
  if (!config)
    return NULL;
  if (config->callable) {
    config->refs++;
    return config;
  }
  config->callable = Py_NewRef (callable);
  config->kwargs = Py_XNewRef (kwargs);
  return config;
}

const GmConfig *
gm_config_of (PyObject *backend, PyObject *options)
{
  g_auto (GStrv) list = NULL;

  if (options != Py_None && !PyList_Check (options)) {
    PyErr_Format (PyExc_TypeError,
                  "options must be a list of \"key=value\" strings or None, not %.100s",
                  Py_TYPE (options)->tp_name);
    return NULL;
  }
  Py_ssize_t n = options == Py_None ? 0 : PyList_GET_SIZE (options);
  list = options == Py_None ? NULL : g_new0 (char *, n + 1);
  for (Py_ssize_t i = 0; i < n; i++) {
    const char *text = PyUnicode_AsUTF8 (PyList_GET_ITEM (options, i));
    if (!text)
      return NULL;
    list[i] = g_strdup (text);
  }
  const char *name = PyUnicode_Check (backend) ? PyUnicode_AsUTF8 (backend) : NULL;
  if (PyErr_Occurred ())
    return NULL;
  return name ? gm_config_get (name, list) : gm_config_for (backend, NULL, list);
}

const GmConfig *
gm_config_ref (const GmConfig *config)
{
  ((GmConfig *) config)->refs++;
  return config;
}

void
gm_config_unref (const GmConfig *shared)
{
  GmConfig *config = (GmConfig *) shared;
  if (!config || --config->refs > 0)
    return;
  g_hash_table_remove (configs, config->key);
  PyObject *callable = config->callable, *kwargs = config->kwargs;
  g_free (config->key);
  g_free (config->backend);
  g_strfreev (config->options);
  g_free (config->text);
  g_free (config);
  Py_XDECREF (callable);
  Py_XDECREF (kwargs);
}

/* -- Entries ----------------------------------------------------------------------------------- */

GmEntry *
gm_entry_ref (GmEntry *e)
{
  e->refs++;
  return e;
}

void
gm_entry_unref (GmEntry *e)
{
  if (!e || --e->refs > 0)
    return;
  gm_count_retired (e->hits);
  gm_guards_unref (e->guards);
  if (e->plan)
    gm_plan_unref (e->plan);
  gm_plan_cache_free (e->plans);
  gm_entry_draws_free (e->draws);
  if (e->ret)
    gm_return_free (e->ret);
  Py_XDECREF (e->residual);
  gm_continuation_free (e->rest);
  g_free (e->input_slots);
  g_free (e->ints);
  gm_read_order_clear (&e->looks);
  g_free (e->in_slots);
  gm_graph_free (e->graph);
  g_free (e->reason);
  gm_compiled_pair_unref (e->pair);
  g_free (e->fixed);
  gm_callable_direct_free (e->direct);
  gm_config_unref (e->config);
  g_free (e);
}

/* Visits the objects of an entry for the garbage collector.  Constants of the long ending's code
 * object are visited only while nothing else refers to that code object. */
static int
entry_traverse (const GmEntry *e, visitproc visit, void *arg)
{
  int stopped = gm_guards_traverse (e->guards, visit, arg);
  if (!stopped && e->ret)
    stopped = gm_return_traverse (e->ret, visit, arg);
  if (!stopped)
    stopped = gm_continuation_traverse (e->rest, visit, arg);
  if (!stopped && e->residual && Py_REFCNT (e->residual) == 1)
    Py_VISIT (e->residual->co_consts);
  return stopped;
}

/* -- Caches ------------------------------------------------------------------------------------ */

static GmSnapshot *
snapshot_new (uint32_t n)
{
  GmSnapshot *s = g_malloc0 (sizeof (GmSnapshot) + n * sizeof (GmEntry *));
  s->n = n;
  return s;
}

static void
snapshot_free (GmSnapshot *s)
{
  for (uint32_t i = 0; i < s->n; i++)
    gm_entry_unref (s->entries[i]);
  g_free (s);
}

static void
break_clear (void *data)
{
  g_free (((GmBreakRecord *) data)->text);
  gm_config_unref (((GmBreakRecord *) data)->config);
}

void
gm_code_cache_free (GmCodeCache *cache)
{
  if (!cache)
    return;
  g_hash_table_remove (live_caches, cache);
  gm_original_close (g_steal_pointer (&cache->original));
  snapshot_free (cache->snapshot);
  if (!cache->point)
    gm_code_free (cache->decoded);
  g_array_free (cache->breaks, TRUE);
  Py_XDECREF (cache->shown);
  gm_profile_free (cache->profile);
  g_clear_pointer (&cache->instances, g_ptr_array_unref);
  g_clear_pointer (&cache->hook_programs, g_ptr_array_unref);
  g_free (cache);
}

static void
cache_free (void *data)
{
  gm_code_cache_free (data);
}

static GmCodeCache *
cache_new (PyCodeObject *code)
{
  GmCodeCache *cache = g_new0 (GmCodeCache, 1);
  cache->code = code;
  cache->snapshot = snapshot_new (0);
  cache->profile = gm_profile_new ();
  cache->breaks = g_array_new (FALSE, TRUE, sizeof (GmBreakRecord));
  g_array_set_clear_func (cache->breaks, break_clear);
  g_hash_table_add (live_caches, cache);
  return cache;
}

GmCodeCache *
gm_code_cache_new (const GmResumePoint *point)
{
  GmCodeCache *cache = cache_new (point->original->co);
  cache->point = point;
  cache->decoded = point->original->code;
  return cache;
}

GmCodeCache *
gm_code_cache_get (PyCodeObject *code)
{
  void *extra = NULL;
  if (GM_CODE_GET_EXTRA (code, extra_index, &extra) < 0)
    return NULL;
  if (extra)
    return extra;
  GmCodeCache *cache = cache_new (code);
  if (GM_CODE_SET_EXTRA (code, extra_index, cache) < 0) {
    cache_free (cache);
    return NULL;
  }
  return cache;
}

bool
gm_code_is_whole (PyCodeObject *code)
{
  void *extra = NULL;
  return GM_CODE_GET_EXTRA (code, extra_index, &extra) == 0 && extra
         && ((const GmCodeCache *) extra)->whole;
}

GmCacheWalk
gm_cache_walk (GmCodeCache *first)
{
  static uint64_t number;
  first->walk = ++number;
  first->after = NULL;
  return (GmCacheWalk){ first, number };
}

void
gm_cache_walk_add (GmCacheWalk *walk, GmCodeCache *cache)
{
  if (cache->walk == walk->number)
    return;
  cache->walk = walk->number;
  cache->after = NULL;
  walk->last = walk->last->after = cache;
}

/* Links the cache and the caches of the resume functions that its entries lead to into a list by
 * `after`, and makes `visitor` their visitor where they have none.  Below a cache that has another
 * visitor the walk ends. */
static void
walk_visited (GmCodeCache *cache, const void *visitor)
{
  GmCacheWalk walk = gm_cache_walk (cache);
  for (GmCodeCache *part = cache; part; part = part->after) {
    if (!part->visitor)
      part->visitor = visitor;
    for (uint32_t i = 0; i < part->snapshot->n && part->visitor == visitor; i++)
      gm_continuation_caches (part->snapshot->entries[i]->rest, &walk);
  }
}

int
gm_code_cache_traverse (GmCodeCache *cache, const void *visitor, visitproc visit, void *arg)
{
  int stopped = 0;
  walk_visited (cache, visitor);
  for (const GmCodeCache *part = cache; part; part = part->after)
    for (uint32_t i = 0; i < part->snapshot->n && part->visitor == visitor && !stopped; i++)
      stopped = entry_traverse (part->snapshot->entries[i], visit, arg);
  return stopped;
}

void
gm_code_cache_leave (GmCodeCache *cache, const void *visitor)
{
  walk_visited (cache, visitor);
  for (GmCodeCache *part = cache; part; part = part->after)
    if (part->visitor == visitor)
      part->visitor = NULL;
}

const GmCode *
gm_code_cache_decode (PyCodeObject *code, GError **error)
{
  GmCodeCache *cache = gm_code_cache_get (code);
  if (!cache) {
    gm_py_error_set (error);
    return NULL;
  }
  if (!cache->decoded)
    cache->decoded = gm_decode_new (code, error);
  return cache->decoded;
}

/* Replaces the cache's snapshot of entries by `next` and frees the old snapshot at once: a
 * thread that still used it would hold the GIL, or has a reference to the entry that it chose. */
static void
publish (GmCodeCache *cache, GmSnapshot *next)
{
  GmSnapshot *old = cache->snapshot;
  cache->snapshot = next;
  snapshot_free (old);
}

void
gm_code_cache_add (GmCodeCache *cache, GmEntry *entry)
{
  const GmSnapshot *old = cache->snapshot;
  GmSnapshot *next = snapshot_new (old->n + 1);
  /* The newest first, since a call like the one just compiled is likely to come again. */
  next->entries[0] = entry;
  for (uint32_t i = 0; i < old->n; i++)
    next->entries[i + 1] = gm_entry_ref (old->entries[i]);
  publish (cache, next);
}

void
gm_code_cache_prune (GmCodeCache *cache)
{
  const GmSnapshot *old = cache->snapshot;
  uint32_t n = 0;
  for (uint32_t i = 0; i < old->n; i++)
    n += !gm_guards_dead (old->entries[i]->guards);
  if (n == old->n)
    return;
  GmSnapshot *next = snapshot_new (n);
  n = 0;
  for (uint32_t i = 0; i < old->n; i++)
    if (!gm_guards_dead (old->entries[i]->guards))
      next->entries[n++] = gm_entry_ref (old->entries[i]);
  publish (cache, next);
}

uint32_t
gm_code_cache_count (const GmCodeCache *cache, const GmConfig *config)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < cache->snapshot->n; i++)
    n += cache->snapshot->entries[i]->config == config;
  return n;
}

uint64_t
gm_code_cache_hits (void)
{
  uint64_t n = 0;
  GHashTableIter it;
  void *key;
  g_hash_table_iter_init (&it, live_caches);
  while (g_hash_table_iter_next (&it, &key, NULL)) {
    const GmSnapshot *s = ((const GmCodeCache *) key)->snapshot;
    for (uint32_t i = 0; i < s->n; i++)
      n += s->entries[i]->hits;
  }
  return n;
}

void
gm_code_cache_reset (GmCodeCache *cache)
{
  publish (cache, snapshot_new (0));
  g_array_set_size (cache->breaks, 0);
  gm_profile_free (cache->profile);
  cache->profile = gm_profile_new ();
  cache->profile_read = false;
  g_clear_pointer (&cache->instances, g_ptr_array_unref);
  g_clear_pointer (&cache->hook_programs, g_ptr_array_unref);
  cache->hook_tries = 0;
  cache->misses = 0;
  cache->limit_warned = cache->called = false;
  if (!cache->original || !cache->original->points)
    return;
  g_autoptr (GPtrArray) parts = gm_resume_table_caches (cache->original->points);
  for (uint32_t i = 0; i < parts->len; i++)
    gm_code_cache_reset (parts->pdata[i]);
}

void
gm_code_cache_reset_all (void)
{
  /* Freeing entries can free code objects, and so caches: walk a copy, and look each cache up
   * again. */
  g_autoptr (GList) all = g_hash_table_get_keys (live_caches);
  for (GList *l = all; l; l = l->next)
    if (g_hash_table_contains (live_caches, l->data))
      gm_code_cache_reset (l->data);
}

bool
gm_code_cache_foreach (bool (*fn) (GmCodeCache *cache, const GmConfig *config, void *data),
                       void *data)
{
  g_autoptr (GList) caches = g_hash_table_get_keys (live_caches),
                    all = g_hash_table_get_values (configs);
  bool ok = true;
  /* fn may run code that drops the last reference to a cache. */
  for (GList *k = all; k; k = k->next)
    gm_config_ref (k->data);
  for (GList *l = caches; l && ok; l = l->next)
    for (GList *k = all; k && ok; k = k->next) {
      GmCodeCache *cache = l->data;
      const GmConfig *config = k->data;
      if (!g_hash_table_contains (live_caches, cache))
        break;
      bool any = gm_code_cache_count (cache, config) > 0;
      for (uint32_t i = 0; i < cache->breaks->len && !any; i++)
        any = g_array_index (cache->breaks, GmBreakRecord, i).config == config;
      ok = !any || fn (cache, config, data);
    }
  for (GList *k = all; k; k = k->next)
    gm_config_unref (k->data);
  return ok;
}

int
gm_py_init_code_cache (void)
{
  configs = g_hash_table_new (g_str_hash, g_str_equal);
  live_caches = g_hash_table_new (NULL, NULL);
  extra_index = GM_CODE_EXTRA_INDEX (cache_free);
  if (extra_index < 0) {
    PyErr_SetString (PyExc_RuntimeError,
                     "no slot is left on code objects: too many tools use them in this process");
    return -1;
  }
  return 0;
}
