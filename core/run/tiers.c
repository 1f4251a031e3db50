/* SPDX-License-Identifier: Apache-2.0
 * tiers.c -- see tiers.h.
 *
 * `better` is one atomic pointer.  While it is NULL, a call counts itself in and out and runs the
 * first code; once it is set, calls go there and count nothing.  The first code is freed by the
 * last call that leaves it after `better` was set, or by the thread that sets the pointer while no
 * call is inside.  No call ever waits, for a lock or for a compiler.
 *
 * The background gets copies of the graphs, since the caller's are in an arena that is freed with
 * the compilation.  A build begins with a function's second call (auto.after), since many functions
 * are called once.  If it fails, `better` becomes the first code.  Code of the second back end that
 * is in the cache on disk is used at once, and nothing is done in the background.
 */
#include "core/run/tiers.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/run/background_builds.h"
#include "core/base/yield.h"

/* The number of failures in a row after which the second back end is not used any more in this
 * process. */
#define MANY_FAILURES 3

struct GmTiers {
  gatomicrefcount refs; /* held by the exec and by the build */
  GmExec *first;        /* atomic; NULL once no call needs it any more */
  GmExec *better;       /* atomic; set once */
  uint32_t inside;      /* atomic: number of calls that may be running `first` */
  uint32_t calls, after;
  GmBackend *then;
  GmGraph *graphs[2]; /* forward, and backward or NULL; names are literals */
  char **options;     /* options of `then` */
  char *no_cache, *cache_salt;
  GmBuild *build; /* atomic */
  GArray *shared; /* Shared: pairs that gm_exec_may_share allowed before the build began; NULL:
                   * none */
};

typedef struct {
  int role;
  uint32_t in, out;
} Shared;

/* -- Choosing ---------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  bool first;
  bool out; /* atomic: not used in this process, because the back end is missing or does not
             * work */
} Tier;

static Tier table[] = {
#define FIRST(name) { #name, true, false },
#define THEN(name) { #name, false, false },
#include "core/run/tiers.def"
};

static const struct {
  int device;
  const char *name;
} device_table[] = {
#define DEVICE(device, name) { device, #name },
#include "core/run/tiers.def"
};

enum { FIRST_TIER, THEN_TIER, DEVICE_TIER, N_TIERS };

/* Marks the tier as not usable for the rest of the process, and logs the reason once. */
static void
rule_out (Tier *tier, const char *why)
{
  if (__atomic_exchange_n (&tier->out, true, __ATOMIC_RELAXED))
    return;
  const char *next = NULL;
  for (size_t i = 0; i < G_N_ELEMENTS (table); i++)
    if (!next && table[i].first && !__atomic_load_n (&table[i].out, __ATOMIC_RELAXED))
      next = table[i].name;
  gm_log_warn ("back end auto does without %s: %s; %s's code %s", tier->name, why,
               next ? next : "eager", tier->first ? "runs instead" : "stays");
}

static bool
is_exact (const GmBackend *b, GError **error)
{
  if (b->plugin->manifest->bit_exact && !b->is_auto)
    return true;
  g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
               "back end \"auto\": %s %s, so its code cannot replace other code between two calls",
               b->name, b->is_auto ? "is itself" : "does not promise eager's bits");
  return false;
}

/* Returns the back end that the user chose by name, else the first usable one of the table, whose
 * row is *row.  Borrowed.  NULL: no such back end, or *error is set. */
static GmBackend *
choose (bool first, const char *named, Tier **row, GError **error)
{
  *row = NULL;
  if (named) {
    GmBackend *b = strcmp (named, "none") == 0 && !first ? NULL : gm_backend_get (named, error);
    return b && is_exact (b, error) ? b : NULL;
  }
  for (size_t i = 0; i < G_N_ELEMENTS (table); i++) {
    g_autoptr (GError) why = NULL;
    if (table[i].first != first || __atomic_load_n (&table[i].out, __ATOMIC_RELAXED))
      continue;
    GmBackend *b = gm_backend_get (table[i].name, &why);
    *row = &table[i];
    if (b)
      return b;
    if (gm_yield_is_interrupted ()) {
      g_propagate_error (error, g_steal_pointer (&why));
      return NULL;
    }
    rule_out (&table[i], why->message);
  }
  return NULL;
}

/* -- Options ----------------------------------------------------------------------------------- */

typedef struct {
  char *first_name, *then_name;
  uint32_t after;
  bool wait;
  GPtrArray *given[N_TIERS]; /* "key=value" for each tier, NULL-terminated */
} Choice;

static void
choice_clear (Choice *c)
{
  g_free (c->first_name);
  g_free (c->then_name);
  for (int i = 0; i < N_TIERS; i++)
    g_clear_pointer (&c->given[i], g_ptr_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Choice, choice_clear)

static bool
take_own (Choice *c, const GmManifest *m, const char *key, const char *value, GError **error)
{
  if (!gm_manifest_check_option (m, key, value, error))
    return false;
  if (strcmp (key, "auto.first") == 0) {
    g_free (c->first_name);
    c->first_name = g_strdup (value);
  } else if (strcmp (key, "auto.then") == 0) {
    g_free (c->then_name);
    c->then_name = g_strdup (value);
  } else if (strcmp (key, "auto.after") == 0)
    c->after = (uint32_t) g_ascii_strtoull (value, NULL, 10);
  else
    c->wait = strcmp (value, "true") == 0 || strcmp (value, "1") == 0;
  return true;
}

/* Reads the defaults of the options from GRAMME_AUTO, which looks like "then=none,after=5". */
static bool
read_environment (Choice *c, const GmManifest *m, GError **error)
{
  const char *list = secure_getenv ("GRAMME_AUTO");
  g_auto (GStrv) words = g_strsplit (list ? list : "", ",", -1);
  for (char **w = words; *w; w++) {
    char *equals = strchr (*w, '=');
    g_autofree char *key = equals ? g_strdup_printf ("auto.%.*s", (int) (equals - *w), *w) : NULL;
    if (**w && !key) {
      g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                   "GRAMME_AUTO: \"%s\" is not of the form key=value, as in then=none,after=5", *w);
      return false;
    }
    if (key && !take_own (c, m, key, equals + 1, error)) {
      g_prefix_error (error, "GRAMME_AUTO: ");
      return false;
    }
  }
  return true;
}

static bool
read_own (Choice *c, const GmBackend *b, const char *const *options, GError **error)
{
  c->after = 2;
  for (int i = 0; i < N_TIERS; i++)
    c->given[i] = g_ptr_array_new_with_free_func (g_free);
  if (!read_environment (c, b->plugin->manifest, error))
    return false;
  for (const char *const *o = options; o && *o; o++) {
    const char *equals = strchr (*o, '=');
    g_autofree char *key = equals ? g_strndup (*o, (gsize) (equals - *o)) : NULL;
    if (key && g_str_has_prefix (key, "auto.")
        && !take_own (c, b->plugin->manifest, key, equals + 1, error))
      return false;
  }
  return true;
}

/* Appends an option to the tiers that it is for: "cc.wait=true" to the tier `cc`, "wait=true" to
 * each tier that has an option `wait`.  True if there is such a tier. */
static bool
take (Choice *c, GmBackend *const tiers[N_TIERS], const char *option, const char *key)
{
  bool taken = false;
  for (int i = 0; i < N_TIERS; i++) {
    g_autofree char *prefix = tiers[i] ? g_strconcat (tiers[i]->name, ".", NULL) : NULL;
    if (prefix && g_str_has_prefix (option, prefix)) {
      g_ptr_array_add (c->given[i], g_strdup (option + strlen (prefix)));
      return true;
    }
  }
  for (int i = 0; i < N_TIERS; i++)
    if (tiers[i] && gm_manifest_option (tiers[i]->plugin->manifest, key)) {
      g_ptr_array_add (c->given[i], g_strdup (option));
      taken = true;
    }
  return taken;
}

/* Distributes the options over the tiers, and checks them.  A device's back end is loaded only for
 * an option that no other tier has. */
static bool
hand_out (Choice *c, GmBackend *tiers[N_TIERS], const char *const *options, GError **error)
{
  for (const char *const *o = options; o && *o; o++) {
    const char *equals = strchr (*o, '=');
    g_autofree char *key = g_strndup (*o, equals ? (gsize) (equals - *o) : strlen (*o));
    bool taken = g_str_has_prefix (*o, "auto.") || take (c, tiers, *o, key);
    if (!taken && !tiers[DEVICE_TIER]
        && (tiers[DEVICE_TIER] = gm_backend_get (device_table[0].name, NULL)))
      taken = take (c, tiers, *o, key);
    if (!taken) {
      g_set_error (
          error, GM_ERROR, GM_ERROR_VALUE,
          "back end \"auto\" has no option \"%s\"; its own begin with auto. (gramme inspect "
          "auto), those of %s%s%s with its name, as in %s.KEY",
          key, tiers[0]->name, tiers[1] ? " and " : "", tiers[1] ? tiers[1]->name : "",
          tiers[0]->name);
      return false;
    }
  }
  /* Code made in the background is used when its build ends, so the back end must wait for it
   * there. */
  const GmPluginOption *wait =
      tiers[1] ? gm_manifest_option (tiers[1]->plugin->manifest, "wait") : NULL;
  if (wait && wait->type == GM_OPTION_BOOL)
    g_ptr_array_add (c->given[1], g_strdup ("wait=true"));
  for (int i = 0; i < N_TIERS; i++) {
    g_ptr_array_add (c->given[i], NULL);
    if (tiers[i]
        && !gm_backend_check_options (tiers[i], (const char *const *) c->given[i]->pdata, error))
      return false;
  }
  return true;
}

/* Reads the options of `b`, which is "auto", into c and chooses the back ends `tiers`, borrowed;
 * all but the first may be NULL.  rows[i]: the row of the table that tiers[i] comes from; NULL if
 * the user named that back end.  False with *error. */
static bool
read_options (Choice *c, const GmBackend *b, GmBackend *tiers[N_TIERS], Tier *rows[2],
              const char *const *options, GError **error)
{
  GError *failed = NULL;
  if (!read_own (c, b, options, error))
    return false;
  tiers[0] = choose (true, c->first_name, &rows[0], &failed);
  if (!failed)
    tiers[1] = choose (false, c->then_name, &rows[1], &failed);
  if (!failed && !tiers[0])
    g_set_error (&failed, GM_ERROR, GM_ERROR_BACKEND,
                 "back end \"auto\": none of the back ends that it begins with can be used; "
                 "`gramme inspect` lists them");
  if (failed) {
    g_propagate_error (error, failed);
    return false;
  }
  if (tiers[1] == tiers[0])
    tiers[1] = NULL;
  return hand_out (c, tiers, options, error);
}

bool
gm_tiers_check_options (const GmBackend *b, const char *const *options, GError **error)
{
  g_auto (Choice) c = { 0 };
  GmBackend *tiers[N_TIERS] = { NULL };
  Tier *rows[2];
  return read_options (&c, b, tiers, rows, options, error);
}

/* -- Life -------------------------------------------------------------------------------------- */

static void
unref (void *data)
{
  GmTiers *t = data;
  if (!g_atomic_ref_count_dec (&t->refs))
    return;
  gm_exec_unref (t->first);
  gm_exec_unref (t->better);
  for (int i = 0; i < 2; i++)
    g_clear_pointer (&t->graphs[i], gm_graph_free);
  g_clear_pointer (&t->shared, g_array_unref);
  g_strfreev (t->options);
  g_free (t->no_cache);
  g_free (t->cache_salt);
  g_free (t);
}

void
gm_tiers_free (GmTiers *t)
{
  if (!t)
    return;
  gm_build_drop (__atomic_exchange_n (&t->build, NULL, __ATOMIC_ACQ_REL));
  unref (t);
}

/* -- The background ---------------------------------------------------------------------------- */

/* Frees the code of the first tier.  The caller guarantees that no call runs it, or will. */
static void
free_first (GmTiers *t)
{
  gm_exec_unref (__atomic_exchange_n (&t->first, NULL, __ATOMIC_ACQ_REL));
}

/* Makes calls run `better` from now on; steals the reference. */
static void
put (GmTiers *t, GmExec *better)
{
  __atomic_store_n (&t->better, better, __ATOMIC_SEQ_CST);
  if (__atomic_load_n (&t->inside, __ATOMIC_SEQ_CST) == 0)
    free_first (t);
}

/* Counts a failed build of `then` and logs the reason `why` (NULL: a build has succeeded, so that
 * failures do not count any more).  After MANY_FAILURES in a row the tier is not used any more: a
 * missing compiler would fail for each function. */
static void
note_failure (const GmBackend *then, const char *first, const char *why)
{
  static int failures; /* atomic */
  static bool said;    /* atomic */
  Tier *row = NULL;
  for (size_t i = 0; i < G_N_ELEMENTS (table); i++)
    if (strcmp (table[i].name, then->name) == 0)
      row = &table[i];
  if (!why) {
    __atomic_store_n (&failures, -1000000, __ATOMIC_RELAXED);
    return;
  }
  if (!__atomic_exchange_n (&said, true, __ATOMIC_RELAXED))
    gm_log_warn ("back end auto: %s could not compile a function, so the code of %s "
                 "stays: %s (GRAMME_LOGS=plugins shows all such)",
                 then->name, first, why);
  else
    gm_log (GM_LOG_PLUGINS, "auto: %s", why);
  if (__atomic_add_fetch (&failures, 1, __ATOMIC_RELAXED) == MANY_FAILURES && row) {
    __atomic_store_n (&row->out, true, __ATOMIC_RELAXED);
    gm_log (GM_LOG_PLUGINS, "auto: %s is not asked any more by this process", then->name);
  }
}

static GmExec *
compile_better (GmTiers *t, const int *stop, GError **error)
{
  const GmCompileHow how = { .stop = stop, .no_cache = t->no_cache, .cache_salt = t->cache_salt };
  return gm_backend_compile_how (t->then, t->graphs[0], t->graphs[1],
                                 (const char *const *) t->options, &how, error);
}

/* True if `better` allows every pair of an input and an output for which gm_exec_may_share was true
 * before. */
static bool
keeps_promises (const GmTiers *t, GmExec *better)
{
  for (guint i = 0; t->shared && i < t->shared->len; i++) {
    const Shared *s = &g_array_index (t->shared, Shared, i);
    if (!gm_exec_may_share (better, s->role, s->in, s->out))
      return false;
  }
  return true;
}

static bool
work (void *data, const int *stop)
{
  GmTiers *t = data;
  g_autoptr (GError) error = NULL;
  gint64 start = g_get_monotonic_time ();
  g_autoptr (GmExec) better = compile_better (t, stop, &error);
  if (__atomic_load_n (stop, __ATOMIC_RELAXED))
    return false;
  bool made = better != NULL;
  /* The second back end takes less of the graph than the first, so the first code is the better
   * one. */
  const char *fallback = made ? gm_exec_fallback_reason (better) : NULL;
  if (fallback && !gm_exec_fallback_reason (t->first)) {
    note_failure (t->then, gm_exec_backend_name (t->first), fallback);
    made = false;
  } else
    note_failure (t->then, gm_exec_backend_name (t->first), made ? NULL : error->message);
  if (made && !keeps_promises (t, better)) {
    gm_log (GM_LOG_PLUGINS,
            "auto: %s's code writes outputs before it has read what lends them memory: the first "
            "one's stays",
            t->then->name);
    made = false;
  }
  if (made)
    gm_log (GM_LOG_PLUGINS, "auto: %s's code is in use, after %.1f ms", t->then->name,
            (double) (g_get_monotonic_time () - start) / 1000.0);
  put (t, made ? g_steal_pointer (&better) : gm_exec_ref (t->first));
  for (int i = 0; i < 2; i++)
    g_clear_pointer (&t->graphs[i], gm_graph_free);
  return made;
}

G_GNUC_NO_INLINE static void
start (GmTiers *t)
{
  g_atomic_ref_count_inc (&t->refs);
  __atomic_store_n (&t->build, gm_build_start (work, t, unref), __ATOMIC_RELEASE);
}

/* -- Running ----------------------------------------------------------------------------------- */

GmExec *
gm_tiers_enter (GmTiers *t)
{
  __atomic_add_fetch (&t->inside, 1, __ATOMIC_SEQ_CST);
  GmExec *better = __atomic_load_n (&t->better, __ATOMIC_SEQ_CST);
  return better ? better : __atomic_load_n (&t->first, __ATOMIC_RELAXED);
}

void
gm_tiers_leave (GmTiers *t)
{
  if (__atomic_sub_fetch (&t->inside, 1, __ATOMIC_SEQ_CST) == 0
      && __atomic_load_n (&t->better, __ATOMIC_SEQ_CST))
    free_first (t);
}

GmExec *
gm_tiers_better (const GmTiers *t)
{
  return __atomic_load_n (&t->better, __ATOMIC_ACQUIRE);
}

static void
count_call (GmTiers *t)
{
  if (__atomic_add_fetch (&t->calls, 1, __ATOMIC_RELAXED) == t->after)
    start (t);
}

bool
gm_tiers_run (GmTiers *t, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
              GmTensor *const *out, int n_out, GError **error)
{
  GmExec *better = gm_tiers_better (t);
  if (G_LIKELY (better))
    return gm_exec_run_sized (better, role, symbols, in, n_in, out, n_out, error);
  if (role == GM_EXEC_FORWARD)
    count_call (t);
  bool ok = gm_exec_run_sized (gm_tiers_enter (t), role, symbols, in, n_in, out, n_out, error);
  gm_tiers_leave (t);
  return ok;
}

GmRunAt
gm_tiers_run_at (GmTiers *t, const int64_t *symbols, void *const *data, GError **error)
{
  GmExec *better = gm_tiers_better (t);
  if (G_LIKELY (better))
    return gm_exec_run_at (better, symbols, data, error);
  count_call (t);
  GmRunAt done = gm_exec_run_at (gm_tiers_enter (t), symbols, data, error);
  gm_tiers_leave (t);
  return done;
}

bool
gm_tiers_may_share (GmTiers *t, int role, uint32_t in, uint32_t out)
{
  Shared s = { role, in, out };
  GmExec *e = gm_tiers_enter (t);
  bool ok = gm_exec_may_share (e, role, in, out);
  gm_tiers_leave (t);
  if (ok && !t->shared)
    t->shared = g_array_new (FALSE, FALSE, sizeof s);
  if (ok)
    g_array_append_val (t->shared, s);
  return ok;
}

/* -- Compiling --------------------------------------------------------------------------------- */

/* Compiles the graphs with the first tier.  If the table chose it and it does not work here, tries
 * the table's next row.  Returns a new reference, or NULL with *error set. */
static GmExec *
compile_first (GmBackend *b, GmBackend *tiers[N_TIERS], Tier *rows[2], Choice *c,
               const GmGraph *forward, const GmGraph *backward, const char *const *options,
               GError **error)
{
  for (;;) {
    GError *failed = NULL;
    GmExec *e = gm_backend_compile (tiers[0], forward, backward,
                                    (const char *const *) c->given[0]->pdata, &failed);
    if (e)
      return e;
    if (!rows[0] || rows[0] + 1 == table + G_N_ELEMENTS (table) || !rows[0][1].first
        || !g_error_matches (failed, GM_ERROR, GM_ERROR_BACKEND) || gm_yield_is_interrupted ()) {
      g_propagate_error (error, failed);
      return NULL;
    }
    rule_out (rows[0], failed->message);
    g_error_free (failed);
    choice_clear (c);
    *c = (Choice){ 0 };
    if (!read_options (c, b, tiers, rows, options, error))
      return NULL;
  }
}

static GmGraph *
keep_graph (const GmGraph *g)
{
  GmGraph *copy = g ? gm_graph_copy_apart (g) : NULL;
  if (copy)
    copy->name = g_strcmp0 (g->name, "backward") == 0 ? "backward" : "forward";
  return copy;
}

/* Makes the executable that stands for all tiers; it reports the fallback reason and compile times
 * of the first tier. */
static GmExec *
wrap (GmBackend *b, GmTiers *t)
{
  GmExec *e = g_new0 (GmExec, 1);
  g_atomic_ref_count_init (&e->refs);
  g_mutex_init (&e->run_lock);
  e->backend = b;
  e->tiers = t;
  e->fallback_reason = g_strdup (gm_exec_fallback_reason (t->first));
  e->compile_ms = gm_exec_compile_ms (t->first);
  return e;
}

/* Returns the back end for the device that values of the graph are on, borrowed; NULL: all values
 * are on the CPU, or no back end is installed for that device. */
static GmBackend *
device_tier (const GmGraph *g)
{
  for (uint32_t i = 0; g && i < g->values->len; i++)
    for (size_t k = 0; k < G_N_ELEMENTS (device_table); k++)
      if (gm_graph_meta (g, i)->device == device_table[k].device)
        return gm_backend_get (device_table[k].name, NULL);
  return NULL;
}

GmExec *
gm_tiers_compile (GmBackend *b, const GmGraph *forward, const GmGraph *backward,
                  const char *const *options, const GmCompileHow *how, GError **error)
{
  g_auto (Choice) c = { 0 };
  GmBackend *device = device_tier (forward),
            *tiers[N_TIERS] = { [DEVICE_TIER] = device ? device : device_tier (backward) };
  Tier *rows[2] = { NULL, NULL };
  device = tiers[DEVICE_TIER];
  if (!read_options (&c, b, tiers, rows, options, error))
    return NULL;
  if (device)
    return gm_backend_compile_how (device, forward, backward,
                                   (const char *const *) c.given[DEVICE_TIER]->pdata, how, error);
  if (c.wait && tiers[1]) {
    GError *failed = NULL;
    GmExec *better = gm_backend_compile_how (tiers[1], forward, backward,
                                             (const char *const *) c.given[1]->pdata, how, &failed);
    if (better || gm_yield_is_interrupted ()
        || !g_error_matches (failed, GM_ERROR, GM_ERROR_BACKEND)) {
      if (failed)
        g_propagate_error (error, failed);
      return better;
    }
    note_failure (tiers[1], tiers[0]->name, failed->message);
    g_error_free (failed);
    tiers[1] = NULL; /* as without auto.wait, the first code stays */
  }
  if (tiers[1] && !how->no_cache) { /* code that another process has compiled is used at once */
    g_autoptr (GError) not_there = NULL;
    GmExec *kept = gm_backend_compile_how (
        tiers[1], forward, backward, (const char *const *) c.given[1]->pdata,
        &(GmCompileHow){ .cached_only = true, .cache_salt = how->cache_salt }, &not_there);
    if (kept)
      return kept;
  }
  g_autoptr (GmExec) first = compile_first (b, tiers, rows, &c, forward, backward, options, error);
  if (!first || !tiers[1])
    return g_steal_pointer (&first);
  GmTiers *t = g_new0 (GmTiers, 1);
  g_atomic_ref_count_init (&t->refs);
  t->first = g_steal_pointer (&first);
  t->then = tiers[1];
  t->after = c.after;
  t->no_cache = g_strdup (how->no_cache);
  t->cache_salt = g_strdup (how->cache_salt);
  t->options = (char **) g_ptr_array_free (g_steal_pointer (&c.given[1]), FALSE);
  t->graphs[0] = keep_graph (forward);
  t->graphs[1] = keep_graph (backward);
  return wrap (b, t);
}
