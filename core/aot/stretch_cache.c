/* SPDX-License-Identifier: Apache-2.0
 * stretch_cache.c -- see stretch_cache.h.
 *
 * An entry is found by the bytes that describe the stretch: all of them are compared, so two that
 * differ in anything that the program depends on are never taken for each other.  The presence and
 * contents of a `grad` are no part of that: a stretch ends before gradients are added up.  An entry
 * never changes once it is in the table.  A stretch of one operation is not worth a plan: it runs
 * as it is.  With create_graph the inputs have histories, and the plan's results have one, as the
 * results of any compiled function: it is unfolded where it matters (unfold_history.c).
 * Rejected: additions to `grad` in the graph.  The plan would compute the sum and copy it back,
 * where the engine adds in place.
 */
#include "core/aot/stretch_cache.h"

#include <string.h>

enum { WORTH_IT = 2 }; /* operations */

typedef struct {
  gatomicrefcount refs;
  GBytes *structure, *shape;
  uint64_t hash; /* of structure and shape together */
  GmPlan *plan;  /* NULL: operation by operation, because of `why` */
  char *why;
  uint32_t n_alike; /* number of entries with the same structure, this one included, when it was
                     * made */
  uint32_t n_outputs, n_steps, n_inputs;
  uint32_t *outputs; /* per output of the stretch: output of the plan, or GM_NO_ID */
  bool *ran;         /* per step of the stretch: it ran */
  GmMeta *inputs;
} Entry;

struct GmStretchCache {
  gatomicrefcount refs;
  GmStretchCompile compile;
  void *data;
  void (*destroy) (void *data);
  GMutex lock;        /* of the table */
  GHashTable *table;  /* Entry, as its own key */
  GHashTable *shapes; /* structure -> Entry, the last with that structure */
  GmStretchRunner runner;
};

static GmStretchCacheCounts counts; /* atomic, one by one */
static GMutex reasons_lock;
static GHashTable *reasons; /* text -> count */

/* -- Entries ----------------------------------------------------------------------------------- */

static uint64_t
mix (uint64_t h, const void *data, size_t bytes)
{
  const char *p = data;
  uint64_t word;

  for (; bytes > 0; p += sizeof word, bytes -= MIN (bytes, sizeof word)) {
    word = bytes;
    memcpy (&word, p, MIN (bytes, sizeof word));
    h = (h ^ word) * UINT64_C (0x9e3779b97f4a7c15);
    h ^= h >> 29;
  }
  return h;
}

static guint
entry_hash (gconstpointer e)
{
  return (guint) ((const Entry *) e)->hash;
}

static gboolean
entry_equal (gconstpointer a, gconstpointer b)
{
  const Entry *x = a, *y = b;

  return x->hash == y->hash && g_bytes_equal (x->structure, y->structure)
         && g_bytes_equal (x->shape, y->shape);
}

static Entry *
entry_ref (Entry *e)
{
  if (e)
    g_atomic_ref_count_inc (&e->refs);
  return e;
}

static void
entry_unref (void *data)
{
  Entry *e = data;

  if (!e || !g_atomic_ref_count_dec (&e->refs))
    return;
  g_bytes_unref (e->structure);
  g_bytes_unref (e->shape);
  gm_plan_unref (e->plan);
  g_free (e->why);
  g_free (e->outputs);
  g_free (e->ran);
  g_free (e->inputs);
  g_free (e);
}

/* Returns a key that compares equal to the entry of the stretch s; borrows its bytes from s. */
static Entry
key_of (const GmStretch *s)
{
  const GByteArray *structure = gm_stretch_structure (s), *shape = gm_stretch_shape (s);
  Entry key = { .structure = g_bytes_new_static (structure->data, structure->len),
                .shape = g_bytes_new_static (shape->data, shape->len) };

  key.hash = mix (mix (1, structure->data, structure->len), shape->data, shape->len);
  return key;
}

static void
key_clear (Entry *key)
{
  g_bytes_unref (key->structure);
  g_bytes_unref (key->shape);
}

/* -- Counting ---------------------------------------------------------------------------------- */

#define COUNT(what) __atomic_fetch_add (&counts.what, 1, __ATOMIC_RELAXED)

static void
count_reason (const char *text)
{
  g_mutex_lock (&reasons_lock);
  if (!reasons)
    reasons = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  uint64_t *n = g_hash_table_lookup (reasons, text);
  if (!n) {
    n = g_new0 (uint64_t, 1);
    g_hash_table_insert (reasons, g_strdup (text), n);
  }
  ++*n;
  g_mutex_unlock (&reasons_lock);
}

GmStretchCacheCounts
gm_stretch_cache_counts (void)
{
  return counts;
}

void
gm_stretch_cache_counts_reset (void)
{
  counts = (GmStretchCacheCounts){ 0 };
  g_mutex_lock (&reasons_lock);
  if (reasons)
    g_hash_table_remove_all (reasons);
  g_mutex_unlock (&reasons_lock);
}

void
gm_stretch_cache_reasons (void (*fn) (void *data, const char *reason, uint64_t n), void *data)
{
  GHashTableIter it;
  void *text, *n;

  g_mutex_lock (&reasons_lock);
  if (reasons) {
    g_hash_table_iter_init (&it, reasons);
    while (g_hash_table_iter_next (&it, &text, &n))
      fn (data, text, *(uint64_t *) n);
  }
  g_mutex_unlock (&reasons_lock);
}

/* -- Capturing --------------------------------------------------------------------------------- */

static void
note_where (GmBuilder *b, const char *name)
{
  ((GmGraphBuilder *) b)->where = name; /* interned, or a constant */
}

/* Returns, as text that the caller frees, the difference between s and the last stretch of the same
 * operations; NULL: there was none. */
static char *
why_again (GmStretchCache *t, Entry *e, const GmStretch *s)
{
  g_mutex_lock (&t->lock);
  Entry *old = entry_ref (g_hash_table_lookup (t->shapes, e->structure));
  g_mutex_unlock (&t->lock);
  char *text = NULL;

  e->n_alike = 1 + (old ? old->n_alike : 0);
  for (uint32_t i = 0; old && i < e->n_inputs && i < old->n_inputs && !text; i++) {
    if (memcmp (&old->inputs[i], &e->inputs[i], sizeof *e->inputs) == 0)
      continue;
    g_autofree char *was = gm_meta_text (&old->inputs[i]), *now = gm_meta_text (&e->inputs[i]),
                    *name = gm_stretch_input_name (s, i);
    bool layout = strcmp (was, now) == 0;
    text = layout ? g_strdup_printf (
               "%s is %s with other strides, or requires grad and did not, or the other way round",
               name, now)
                  : g_strdup_printf ("%s was %s and is %s", name, was, now);
  }
  if (old && !text)
    text = g_strdup ("an operation has other attributes");
  entry_unref (old);
  return text;
}

static Entry *
entry_new (const GmStretch *s, const Entry *key)
{
  Entry *e = g_new0 (Entry, 1);
  const GByteArray *structure = gm_stretch_structure (s), *shape = gm_stretch_shape (s);
  GmTensor *const *in = gm_stretch_inputs (s, &e->n_inputs);

  g_atomic_ref_count_init (&e->refs);
  e->structure = g_bytes_new (structure->data, structure->len);
  e->shape = g_bytes_new (shape->data, shape->len);
  e->hash = key->hash;
  e->n_outputs = gm_stretch_n_outputs (s);
  e->n_steps = gm_stretch_n_steps (s);
  e->outputs = g_new (uint32_t, e->n_outputs + 1);
  e->ran = g_new0 (bool, e->n_steps + 1);
  e->inputs = g_new (GmMeta, e->n_inputs + 1);
  for (uint32_t i = 0; i < e->n_inputs; i++)
    e->inputs[i] = in[i]->meta;
  return e;
}

/* Returns the stretch s as a new graph, and notes its outputs in e. */
static GmGraph *
capture (const GmStretch *s, Entry *e, GError **error)
{
  g_autoptr (GmGraph) g = gm_graph_new ("tape", NULL);
  g_autofree GmVal *in = g_new (GmVal, e->n_inputs + 1), *out = g_new0 (GmVal, e->n_outputs + 1);
  GmGraphBuilder b;

  for (uint32_t i = 0; i < e->n_inputs; i++) {
    g_autofree char *name = gm_stretch_input_name (s, i);
    GmMeta m = e->inputs[i];
    m.requires_grad = m.requires_grad && gm_stretch_creates_graph (s);
    in[i] = gm_val_from_id (gm_graph_add_input (g, gm_arena_strdup (g->arena, name), &m));
  }
  gm_graph_builder_init (&b, g);
  gm_stretch_emit (s, &b.base, in, out, e->ran, note_where);
  bool ok = !gm_b_failed (&b.base);
  if (!ok)
    g_propagate_error (error, g_steal_pointer (&b.base.error));
  for (uint32_t k = 0; ok && k < e->n_outputs; k++) {
    e->outputs[k] = out[k] ? g->outputs->len : GM_NO_ID;
    if (out[k])
      gm_graph_add_output (g, gm_id_from_val (out[k]), GM_OUTPUT_USER);
  }
  gm_graph_builder_clear (&b);
  return ok ? g_steal_pointer (&g) : NULL;
}

/* Makes an entry for s and adds it to the table.  Returns the entry, borrowed; NULL: *error. */
static Entry *
entry_make (GmStretchCache *t, const GmStretch *s, const Entry *key, GError **error)
{
  Entry *e = entry_new (s, key);
  g_autofree char *again = why_again (t, e, s);
  g_autoptr (GError) failure = NULL;
  GmGraph *g = capture (s, e, &failure);

  if (g)
    e->plan = t->compile (t->data, g, again, &failure);
  if (!e->plan && !g_error_matches (failure, GM_ERROR, GM_ERROR_UNSUPPORTED)) {
    g_propagate_error (error, g_steal_pointer (&failure));
    entry_unref (e);
    return NULL;
  }
  if (e->plan) {
    COUNT (captures);
    if (again) {
      COUNT (recompiles);
      count_reason (again);
    }
  } else {
    e->why = g_strdup (failure->message);
  }
  g_mutex_lock (&t->lock);
  g_hash_table_replace (t->table, e, e);
  g_hash_table_replace (t->shapes, e->structure, entry_ref (e));
  entry_ref (e);
  g_mutex_unlock (&t->lock);
  return e;
}

/* -- Running ----------------------------------------------------------------------------------- */

/* Returns the entry of the stretch s, NULL if there is none.  *full: there is none, and the limit
 * of entries for its operations is reached. */
static Entry *
find (GmStretchCache *t, GmStretch *s, bool *full, GError **error)
{
  Entry key = key_of (s);

  g_mutex_lock (&t->lock);
  Entry *e = entry_ref (g_hash_table_lookup (t->table, &key));
  const Entry *last = e ? NULL : g_hash_table_lookup (t->shapes, key.structure);
  *full = last && last->n_alike >= GM_TAPE_MAX_SHAPES;
  g_mutex_unlock (&t->lock);
  if (e && e->plan)
    COUNT (hits);
  if (!e && !*full)
    e = entry_make (t, s, &key, error);
  key_clear (&key);
  return e;
}

static bool
run_plan (const Entry *e, const GmStretch *s, GmTensor **out, bool *ran, GError **error)
{
  uint32_t n;
  GmTensor *const *in = gm_stretch_inputs (s, &n);
  g_autofree GmTensor **results = g_new0 (GmTensor *, e->n_outputs + 1);

  if (!gm_plan_run (e->plan, in, (int) n, results, error))
    return false;
  for (uint32_t k = 0; k < e->n_outputs; k++)
    out[k] = e->outputs[k] == GM_NO_ID ? NULL : results[e->outputs[k]];
  memcpy (ran, e->ran, e->n_steps * sizeof *ran);
  return true;
}

static bool
run_eagerly (const char *why, GmStretch *s, GmTensor **out, bool *ran, GError **error)
{
  COUNT (eager);
  count_reason (why);
  return gm_stretch_run_eagerly (NULL, s, out, ran, error);
}

static bool
run (void *data, GmStretch *s, GmTensor **out, bool *ran, GError **error)
{
  bool full;

  if (gm_stretch_creates_graph (s) && gm_saved_hooks_top ())
    return run_eagerly (
        "create_graph=True under saved-tensor hooks: they see what each operation saves", s, out,
        ran, error);
  if (gm_stretch_n_operations (s) < WORTH_IT)
    return run_eagerly ("a single operation", s, out, ran, error);
  Entry *e = find (data, s, &full, error);
  if (full)
    return run_eagerly (
        "the recompile limit: the same operations have plans for other shapes already", s, out, ran,
        error);
  if (!e)
    return false;
  bool ok = e->plan ? run_plan (e, s, out, ran, error) : run_eagerly (e->why, s, out, ran, error);
  entry_unref (e);
  return ok;
}

/* -- Life -------------------------------------------------------------------------------------- */

GmStretchCache *
gm_stretch_cache_new (GmStretchCompile compile, GmHookFind find_hook, void *data,
                      void (*destroy) (void *data))
{
  GmStretchCache *t = g_new0 (GmStretchCache, 1);

  g_atomic_ref_count_init (&t->refs);
  t->compile = compile;
  t->data = data;
  t->destroy = destroy;
  g_mutex_init (&t->lock);
  t->table = g_hash_table_new_full (entry_hash, entry_equal, entry_unref, NULL);
  t->shapes = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, NULL, entry_unref);
  t->runner = (GmStretchRunner){ run, t, find_hook };
  return t;
}

GmStretchCache *
gm_stretch_cache_ref (GmStretchCache *t)
{
  g_atomic_ref_count_inc (&t->refs);
  return t;
}

void
gm_stretch_cache_unref (GmStretchCache *t)
{
  if (!t || !g_atomic_ref_count_dec (&t->refs))
    return;
  g_hash_table_unref (t->shapes);
  g_hash_table_unref (t->table);
  g_mutex_clear (&t->lock);
  if (t->destroy)
    t->destroy (t->data);
  g_free (t);
}

void
gm_stretch_cache_reset (GmStretchCache *t)
{
  g_mutex_lock (&t->lock);
  GHashTable *table = t->table, *shapes = t->shapes;
  t->table = g_hash_table_new_full (entry_hash, entry_equal, entry_unref, NULL);
  t->shapes = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, NULL, entry_unref);
  g_mutex_unlock (&t->lock);
  g_hash_table_unref (shapes); /* a back end in Python may run code now */
  g_hash_table_unref (table);
}

GmStretchCache *
gm_stretch_cache_enter (GmStretchCache *t)
{
  const GmStretchRunner *old = gm_stretch_runner_now;

  gm_stretch_runner_now = t ? &t->runner : NULL;
  return old ? old->data : NULL;
}

bool
gm_stretch_cache_entered (void)
{
  return gm_stretch_runner_now != NULL;
}
