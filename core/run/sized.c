/* SPDX-License-Identifier: Apache-2.0
 * sized.c -- see sized.h.
 *
 * Everything that follows from the symbols (the values of all sizes, whether the facts hold, the
 * layouts of the tensors, the bytes of workspace) is computed when they change.  The first
 * GM_SIZED_NUMBERS sets of numbers stay unchanged until the exec is freed, so that any number of
 * runs can read them at a time.  A run whose tensors have the layouts of the run before finds its
 * set with one comparison, and costs the same as a run with numbers.  Later sets share one memory,
 * which a run takes from the exec by an atomic exchange, like the workspace (exec.c).
 *
 * Strides are compared only where they matter: a dimension of one element may have any stride.
 */
#include "core/run/sized.h"

#include <string.h>

#include "core/base/log.h"
#include "core/plugin/status.h"
#include "core/sym/sizes.h"

#define ALIGN 64u

/* A set of numbers: all that follows from one set of values of the symbols. */
typedef struct {
  size_t bytes, workspace_bytes;
  int64_t *symbols, *values; /* values: of each row of the image */
  GmMeta *metas;             /* metas with these numbers: inputs, then outputs */
  /* Descriptions, without data, of the tensors that the executable gets; they point into metas. */
  GrammeTensor *known;
  bool kept;
} Numbers;

/* The header of a workspace.  Shifts the workspace to a place in a page where other memory begins,
 * too (alloc.c).  64 bytes further, each store of a loop from a tensor to the workspace would seem
 * to the CPU to alias the next iteration's load, since the lower 12 bits of the addresses are
 * equal, and delay it. */
typedef union {
  size_t bytes; /* size of the block, including this header */
  char aligned[512];
} Block;

typedef struct {
  const GmGraph *graph; /* owned; has the names and expressions of the sizes */
  const GmSymbolSource *sources;
  uint32_t n_symbols;
  const uint32_t *from_forward; /* per symbol of the role: its number in the forward graph, or
                                 * GM_NO_ID */
  GrammeSize *rows;             /* the rows of the image's sizes; a row that is a symbol has its
                                 * number as value */
  uint32_t n_rows;
  GmMeta *metas; /* the metas of the role, with sizes as rows of the image, not of the graph */
  /* The fields from here on are atomic. */
  Numbers *now;                    /* the numbers of the last run, if they are kept */
  Numbers *kept[GM_SIZED_NUMBERS]; /* immutable; filled from the first on, under the lock */
  Numbers *spare;                  /* NULL while a run uses it */
  Block *block;                    /* NULL while a run uses it */
} Role;

/* A specialised exec, for one set of numbers. */
typedef struct {
  int64_t *symbols;
  GmExec *exec;
  uint64_t used;
} Entry;

struct GmExecSized {
  GmArena *arena;
  Role roles[2];
  GmBackend *backend; /* not NULL: each run uses a specialised exec, made by this back end */
  char **options, *why;
  GMutex lock; /* protects the fields below */
  GArray *entries;
  uint64_t clock;
};

/* -- Making one -------------------------------------------------------------------------------- */

static uint32_t
symbol_named (const GmGraph *g, const char *name)
{
  for (uint32_t i = 0; g->sym && i < gm_sym_n_rows (g->sym); i++) {
    const GmSymRow *r = gm_sym_row (g->sym, i);
    if (r->kind == GM_SYM_SYMBOL && strcmp (r->name, name) == 0)
      return r->a;
  }
  return GM_NO_ID;
}

static void
role_init (GmExecSized *s, int role, GmGraph *g)
{
  Role *r = &s->roles[role];
  const GmGraph *forward = s->roles[GM_EXEC_FORWARD].graph;
  r->graph = g; /* freed with s */
  r->n_symbols = gm_graph_symbol_sources (r->graph, s->arena, &r->sources);
  uint32_t *from = gm_arena_newn (s->arena, uint32_t, r->n_symbols + 1);
  for (uint32_t i = 0; r->n_symbols && i < gm_sym_n_rows (r->graph->sym); i++) {
    const GmSymRow *row = gm_sym_row (r->graph->sym, i);
    if (row->kind == GM_SYM_SYMBOL)
      from[row->a] = role == GM_EXEC_FORWARD ? row->a : symbol_named (forward, row->name);
  }
  r->from_forward = from;
}

GmExecSized *
gm_sized_new (const GmGraph *forward, const GmGraph *backward)
{
  if (!gm_graph_is_symbolic (forward) && !gm_graph_is_symbolic (backward))
    return NULL;
  GmExecSized *s = g_new0 (GmExecSized, 1);
  s->arena = gm_arena_new ();
  g_mutex_init (&s->lock);
  s->entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  role_init (s, GM_EXEC_FORWARD, gm_graph_settle (forward, s->arena));
  if (backward)
    role_init (s, GM_EXEC_BACKWARD, gm_graph_settle (backward, s->arena));
  return s;
}

const GmGraph *
gm_sized_graph (const GmExecSized *s, int role)
{
  return s->roles[role].graph;
}

/* Converts a size in terms of the graph's rows into a size in terms of the image's rows. */
static int64_t
image_row (const GmImage *image, int64_t size)
{
  if (!gm_size_is_symbolic (size))
    return size;
  for (uint32_t i = 0; i < image->bytes->sizes.count; i++)
    if (image->size_rows[i] == gm_size_row (size))
      return gm_size_from_row (i);
  g_assert_not_reached (); /* an image has the sizes of all inputs and outputs */
}

void
gm_sized_set_role (GmExecSized *s, int role, const GmImage *image, const GmExecRole *from)
{
  Role *r = &s->roles[role];
  const GrammeTable *sizes = &image->bytes->sizes;
  uint32_t n = from->n_in + from->n_out;
  r->n_rows = sizes->count;
  r->rows = gm_arena_newn (s->arena, GrammeSize, r->n_rows + 1);
  for (uint32_t i = 0; i < r->n_rows; i++) {
    r->rows[i] = *gramme_image_size (image->bytes, i);
    if (r->rows[i].kind == GRAMME_SIZE_SYMBOL)
      r->rows[i].value = gm_sym_row (r->graph->sym, image->size_rows[i])->a;
  }
  r->metas = gm_arena_newn (s->arena, GmMeta, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    r->metas[i] = from->metas[i];
    for (int d = 0; d < r->metas[i].ndim; d++) {
      r->metas[i].sizes[d] = image_row (image, r->metas[i].sizes[d]);
      r->metas[i].strides[d] = image_row (image, r->metas[i].strides[d]);
    }
  }
}

void
gm_sized_specialise (GmExecSized *s, GmBackend *b, const char *const *options, char *why)
{
  s->backend = b;
  s->options = g_strdupv ((char **) options);
  s->why = why;
  gm_log (GM_LOG_DYNAMIC, "back end %s: %s; it compiles for the numbers of each call", b->name,
          why ? why : "it does not take this graph with symbolic sizes");
}

const char *
gm_sized_why (const GmExecSized *s)
{
  return !s->backend ? NULL : s->why ? s->why : "its nodes are in several clusters";
}

char *
gm_sized_places_text (GmExecSized *s, bool every)
{
  const Entry *last = NULL;
  g_mutex_lock (&s->lock);
  for (uint32_t i = 0; i < s->entries->len; i++) {
    const Entry *entry = &g_array_index (s->entries, Entry, i);
    last = !last || entry->used > last->used ? entry : last;
  }
  g_autoptr (GmExec) e = last ? gm_exec_ref (last->exec) : NULL;
  g_mutex_unlock (&s->lock);
  return e ? gm_exec_places_text (e, every) : NULL;
}

void
gm_sized_free (GmExecSized *s)
{
  if (!s)
    return;
  for (uint32_t i = 0; i < s->entries->len; i++) {
    gm_exec_unref (g_array_index (s->entries, Entry, i).exec);
    g_free (g_array_index (s->entries, Entry, i).symbols);
  }
  g_array_unref (s->entries);
  for (int role = 0; role < 2; role++) {
    Role *r = &s->roles[role];
    for (int i = 0; i < GM_SIZED_NUMBERS && r->kept[i]; i++)
      gm_free (r->kept[i], r->kept[i]->bytes);
    if (r->spare)
      gm_free (r->spare, r->spare->bytes);
    if (r->block)
      gm_free (r->block, r->block->bytes);
    gm_graph_free ((GmGraph *) s->roles[role].graph);
  }
  g_mutex_clear (&s->lock);
  g_strfreev (s->options);
  g_free (s->why);
  gm_arena_free (s->arena);
  g_free (s);
}

/* -- Symbols ----------------------------------------------------------------------------------- */

static bool
fail_symbol (const GmExec *e, const Role *r, uint32_t symbol, GError **error)
{
  const char *name = "";
  for (uint32_t i = 0; i < gm_sym_n_rows (r->graph->sym); i++) {
    const GmSymRow *row = gm_sym_row (r->graph->sym, i);
    if (row->kind == GM_SYM_SYMBOL && row->a == symbol)
      name = row->name;
  }
  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
               "compiled %s (%s): no input says what the size %s is, and no value was given for it",
               r->graph->name, e->backend->name, name);
  return false;
}

static bool
is_said (const Role *r, int64_t size)
{
  if (!gm_size_is_symbolic (size))
    return true;
  const GmSymRow *row = gm_sym_row (r->graph->sym, gm_size_row (size));
  if (row->kind == GM_SYM_SYMBOL)
    return r->sources[row->a].input != GM_NO_ID;
  return row->kind == GM_SYM_CONST
         || (is_said (r, gm_size_from_row (row->a)) && is_said (r, gm_size_from_row (row->b)));
}

/* Checks the facts about sizes that the graph relies on, as far as inputs determine them.  Not
 * called for symbols that the caller passes, which guards have checked. */
static bool
check_facts (const Role *r, const int64_t *symbols, GError **error)
{
  const GmSizes *sizes = r->graph->sizes;
  for (uint32_t i = 0; sizes && i < gm_size_facts_n (sizes->facts); i++) {
    GmSizeFact f = gm_size_facts_nth (sizes->facts, i);
    int64_t a, b;
    if (!is_said (r, f.a) || !is_said (r, f.b))
      continue;
    if (!gm_sym_eval (sizes->sym, f.a, symbols, &a, error)
        || !gm_sym_eval (sizes->sym, f.b, symbols, &b, error))
      return false;
    if (f.rel == GM_REL_EQ   ? a == b
        : f.rel == GM_REL_NE ? a != b
        : f.rel == GM_REL_LT ? a < b
                             : a <= b)
      continue;
    g_autofree char *text = gm_size_fact_text (sizes->sym, &f);
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "the compiled %s is for inputs where %s: compile again for these tensors",
                 r->graph->name, text);
    return false;
  }
  return true;
}

/* Fills `symbols`, by number of the role's graph, from `given` (by number of the forward graph, or
 * NULL) and from the tensors.  A symbol that nothing determines is 0; an error if a size needs
 * it. */
static bool
bind (const GmExec *e, const Role *r, const int64_t *given, GmTensor *const *in, int64_t *symbols,
      GError **error)
{
  for (uint32_t i = 0; i < r->n_symbols; i++) {
    const GmSymbolSource *s = &r->sources[i];
    symbols[i] = 0;
    if (given && r->from_forward[i] != GM_NO_ID) {
      symbols[i] = given[r->from_forward[i]];
    } else if (s->input != GM_NO_ID && in[s->input] && s->dim < in[s->input]->meta.ndim) {
      const GmMeta *m = &in[s->input]->meta;
      symbols[i] = s->is_stride ? m->strides[s->dim] : m->sizes[s->dim];
    } else if (s->input == GM_NO_ID) {
      for (uint32_t k = 0; k < r->n_rows; k++)
        if (r->rows[k].kind == GRAMME_SIZE_SYMBOL && r->rows[k].value == i)
          return fail_symbol (e, r, i, error);
    }
  }
  return true;
}

static bool
check_symbols (const Role *r, const int64_t *symbols, GError **error)
{
  for (uint32_t i = 0; i < r->n_rows; i++) {
    const GrammeSize *row = &r->rows[i];
    if (row->kind != GRAMME_SIZE_SYMBOL)
      continue;
    int64_t x = symbols[row->value];
    if (x >= row->min && x <= row->max && x % row->multiple_of == 0)
      continue;
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "the compiled %s is for sizes from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT
                 " that %" G_GINT64_FORMAT " divides, and one is %" G_GINT64_FORMAT
                 ": compile again for these tensors",
                 r->graph->name, row->min, row->max, row->multiple_of, x);
    return false;
  }
  return true;
}

static bool
evaluate (const Role *r, const int64_t *symbols, int64_t *values, GError **error)
{
  for (uint32_t i = 0; i < r->n_rows; i++) {
    const GrammeSize *row = &r->rows[i];
    if (row->kind == GRAMME_SIZE_CONST)
      values[i] = row->value;
    else if (row->kind == GRAMME_SIZE_SYMBOL)
      values[i] = symbols[row->value];
    else if (!gm_sym_compute ((GmSymKind) row->kind, values[row->a], values[row->b], &values[i])) {
      g_set_error (
          error, GM_ERROR, GM_ERROR_VALUE,
          "the compiled %s: a size has no 64-bit value for these inputs (of %" G_GINT64_FORMAT
          " and %" G_GINT64_FORMAT "): it divides by zero or overflows",
          r->graph->name, values[row->a], values[row->b]);
      return false;
    }
  }
  return true;
}

/* -- Numbers ----------------------------------------------------------------------------------- */

static Numbers *
numbers_new (const Role *r, const GmExecRole *x, GError **error)
{
  size_t n_all = x->n_in + x->n_out, words = (r->n_symbols + r->n_rows) * sizeof (int64_t),
         bytes = sizeof (Numbers) + words + n_all * sizeof (GmMeta)
                 + (x->n_in + x->n_inner) * sizeof (GrammeTensor);
  Numbers *n = gm_alloc (bytes);
  if (!n) {
    g_set_error (error, GM_ERROR, GM_ERROR_MEMORY, "no memory for %zu bytes of sizes", bytes);
    return NULL;
  }
  *n = (Numbers){ .bytes = bytes };
  n->symbols = (int64_t *) (n + 1);
  n->values = n->symbols + r->n_symbols;
  n->metas = (GmMeta *) (n->values + r->n_rows);
  n->known = (GrammeTensor *) (n->metas + n_all);
  return n;
}

static inline int64_t
size_now (int64_t size, const int64_t *values)
{
  return gm_size_is_symbolic (size) ? values[gm_size_row (size)] : size;
}

static void
meta_now (const GmMeta *m, const int64_t *values, GmMeta *out)
{
  *out = *m;
  for (int d = 0; d < m->ndim; d++) {
    out->sizes[d] = size_now (m->sizes[d], values);
    out->strides[d] = size_now (m->strides[d], values);
  }
}

static void
numbers_set (Numbers *n, const Role *r, const GmExecRole *x, const int64_t *symbols,
             const int64_t *values)
{
  memcpy (n->symbols, symbols, r->n_symbols * sizeof *symbols);
  memcpy (n->values, values, r->n_rows * sizeof *values);
  for (uint32_t i = 0; i < x->n_in + x->n_out; i++)
    meta_now (&r->metas[i], values, &n->metas[i]);
  for (uint32_t i = 0; i < x->n_in; i++)
    gm_exec_describe_meta (&n->known[i], &n->metas[i]);
  for (uint32_t i = 0; i < x->n_inner; i++)
    gm_exec_describe_meta (&n->known[x->n_in + i], &n->metas[x->n_in + x->inner[i]]);
}

/* Releases the numbers n (may be NULL) after a run: unless they are kept, they become the spare
 * numbers for a later run, or are freed if there are spare ones. */
static void
numbers_give (Role *r, Numbers *n)
{
  Numbers *none = NULL;
  if (n && !n->kept
      && !__atomic_compare_exchange_n (&r->spare, &none, n, false, __ATOMIC_RELEASE,
                                       __ATOMIC_RELAXED))
    gm_free (n, n->bytes);
}

/* Returns the kept numbers for these symbols, borrowed; NULL: none are kept. */
static Numbers *
numbers_find (const Role *r, const int64_t *symbols)
{
  for (int i = 0; i < GM_SIZED_NUMBERS; i++) {
    Numbers *n = __atomic_load_n (&r->kept[i], __ATOMIC_ACQUIRE);
    if (!n || memcmp (n->symbols, symbols, r->n_symbols * sizeof *symbols) == 0)
      return n;
  }
  return NULL;
}

/* Adds n to the kept numbers, if there is room; another thread may keep equal numbers at the same
 * time. */
static void
numbers_keep (GmExecSized *s, Role *r, Numbers *n)
{
  g_mutex_lock (&s->lock);
  for (int i = 0; i < GM_SIZED_NUMBERS && !n->kept; i++)
    if (!r->kept[i]) {
      n->kept = true;
      __atomic_store_n (&r->kept[i], n, __ATOMIC_RELEASE);
    }
  g_mutex_unlock (&s->lock);
}

static bool
ask_workspace (GmExec *e, int role, const int64_t *values, size_t *bytes, GError **error)
{
  GrammeStatus status;
  gm_status_clear (&status);
  uint64_t asked = 0;
  *bytes = 0;
  if (!e->executable || !e->backend->plugin->api.workspace || e->roles[role].n_inner == 0)
    return true;
  int32_t code =
      e->backend->plugin->api.workspace (e->executable, (uint32_t) role, values, &asked, &status);
  if (code == GRAMME_OK && asked > G_MAXSSIZE / 2) {
    g_set_error (error, GM_ERROR, GM_ERROR_MEMORY,
                 "no memory for the %" G_GUINT64_FORMAT " bytes that a run of back end %s needs",
                 asked, e->backend->name);
    return false;
  }
  *bytes = (size_t) (asked + ALIGN - 1) / ALIGN * ALIGN;
  if (code == GRAMME_OK)
    return true;
  gm_status_to_error (&status, code, e->backend->name, "run, for its workspace,", error);
  return false;
}

/* Returns the numbers for these symbols, kept or newly computed; numbers_give releases them.  NULL:
 * *error. */
static Numbers *
numbers_for (GmExec *e, int role, const int64_t *given, const int64_t *symbols, GError **error)
{
  Role *r = &e->sized->roles[role];
  size_t workspace;
  Numbers *n = numbers_find (r, symbols);
  if (n)
    return n;
  n = __atomic_exchange_n (&r->spare, NULL, __ATOMIC_ACQUIRE);
  if (n && memcmp (n->symbols, symbols, r->n_symbols * sizeof *symbols) == 0)
    return n;
  g_autofree int64_t *values = g_new (int64_t, r->n_rows + 1);
  if (!check_symbols (r, symbols, error) || !(given || check_facts (r, symbols, error))
      || !evaluate (r, symbols, values, error)
      || !ask_workspace (e, role, values, &workspace, error)
      || !(n || (n = numbers_new (r, &e->roles[role], error)))) {
    numbers_give (r, n);
    return NULL;
  }
  numbers_set (n, r, &e->roles[role], symbols, values);
  n->workspace_bytes = workspace;
  numbers_keep (e->sized, r, n);
  return n;
}

/* Returns a workspace of that size: that of the last run, if it is large enough, or a new one;
 * NULL: *error. */
static inline Block *
block_take (const GmExec *e, Role *r, size_t workspace_bytes, GError **error)
{
  size_t bytes = sizeof (Block) + workspace_bytes;
  Block *block = __atomic_exchange_n (&r->block, NULL, __ATOMIC_ACQUIRE);
  if (G_LIKELY (block && block->bytes >= bytes))
    return block;
  if (block)
    gm_free (block, block->bytes);
  block = gm_alloc (bytes);
  if (block)
    block->bytes = bytes;
  else
    g_set_error (error, GM_ERROR, GM_ERROR_MEMORY,
                 "no memory for the %zu bytes that a run of back end %s needs", workspace_bytes,
                 e->backend->name);
  return block;
}

static void
block_give (Role *r, Block *block)
{
  Block *none = NULL;
  if (block->bytes > GM_EXEC_KEPT_BYTES
      || !__atomic_compare_exchange_n (&r->block, &none, block, false, __ATOMIC_RELEASE,
                                       __ATOMIC_RELAXED))
    gm_free (block, block->bytes);
}

/* -- Checks ------------------------------------------------------------------------------------ */

/* True if the tensor fits m.  Sets *odd if a stride differs in a dimension of one element. */
static inline bool
fits (const GmTensor *t, const GmMeta *m, bool *odd)
{
  bool strides = true, empty = false;
  if (!t || t->meta.dtype != m->dtype || t->meta.ndim != m->ndim || t->meta.device != m->device)
    return false;
  for (int i = 0; i < m->ndim; i++) {
    int64_t size = t->meta.sizes[i];
    if (size != m->sizes[i])
      return false;
    bool same = t->meta.strides[i] == m->strides[i];
    strides = strides && (same || size == 1);
    *odd = *odd || !same;
    empty = empty || size == 0;
  }
  return strides || empty;
}

G_GNUC_NO_INLINE static bool
fail_tensor (const GmExec *e, const Role *r, const char *kind, uint32_t i, const GmTensor *t,
             const GmMeta *now, GError **error)
{
  g_autofree char *want = gm_meta_layout_text (now),
                  *have = t ? gm_meta_layout_text (&t->meta) : g_strdup ("NULL");
  g_set_error (
      error, GM_ERROR, GM_ERROR_RUNTIME,
      "compiled %s (%s): %s %u is %s, with these sizes it should be %s%s; compile again for "
      "these tensors",
      r->graph->name, e->backend->name, kind, i, have, want,
      t && t->storage->readonly ? ", writable" : "");
  return false;
}

static bool
check (const GmExec *e, int role, const Numbers *n, GmTensor *const *in, GmTensor *const *out,
       bool *odd, GError **error)
{
  const GmExecRole *x = &e->roles[role];
  const Role *r = &e->sized->roles[role];
  for (uint32_t i = 0; i < x->n_in; i++)
    if (!fits (in[i], &n->metas[i], odd))
      return fail_tensor (e, r, "input", i, in[i], &n->metas[i], error);
  for (uint32_t i = 0; i < x->n_out; i++)
    if (!fits (out[i], &n->metas[x->n_in + i], odd) || out[i]->storage->readonly)
      return fail_tensor (e, r, "output", i, out[i], &n->metas[x->n_in + i], error);
  return true;
}

/* -- Execs of numbers -------------------------------------------------------------------------- */

static GmExec *
find_entry (GmExecSized *s, const int64_t *symbols, size_t bytes)
{
  for (uint32_t i = 0; i < s->entries->len; i++) {
    Entry *entry = &g_array_index (s->entries, Entry, i);
    if (memcmp (entry->symbols, symbols, bytes) == 0) {
      entry->used = ++s->clock;
      return gm_exec_ref (entry->exec);
    }
  }
  return NULL;
}

static void
add_entry (GmExecSized *s, const int64_t *symbols, size_t bytes, GmExec *exec)
{
  Entry fresh = { g_memdup2 (symbols, bytes ? bytes : 1), gm_exec_ref (exec), ++s->clock };
  uint32_t oldest = 0;
  if (s->entries->len < GM_SIZED_KEPT) {
    g_array_append_val (s->entries, fresh);
    return;
  }
  for (uint32_t i = 1; i < s->entries->len; i++)
    if (g_array_index (s->entries, Entry, i).used < g_array_index (s->entries, Entry, oldest).used)
      oldest = i;
  Entry *gone = &g_array_index (s->entries, Entry, oldest);
  gm_exec_unref (gone->exec);
  g_free (gone->symbols);
  *gone = fresh;
}

static GmExec *
compile_numbers (GmExecSized *s, const int64_t *symbols, GError **error)
{
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GmGraph) forward = NULL, backward = NULL;
  const Role *f = &s->roles[GM_EXEC_FORWARD], *b = &s->roles[GM_EXEC_BACKWARD];
  forward = gm_graph_specialise (f->graph, symbols, arena, error);
  if (!forward)
    return NULL;
  if (b->graph) {
    g_autofree int64_t *theirs = g_new0 (int64_t, b->n_symbols + 1);
    for (uint32_t i = 0; i < b->n_symbols; i++)
      if (b->from_forward[i] != GM_NO_ID)
        theirs[i] = symbols[b->from_forward[i]];
    backward = gm_graph_specialise (b->graph, theirs, arena, error);
    if (!backward)
      return NULL;
  }
  return gm_backend_compile (s->backend, forward, backward, (const char *const *) s->options,
                             error);
}

/* Returns a new reference to the specialised exec for these symbols of the forward graph, which is
 * compiled if there is none. */
static GmExec *
exec_for (GmExecSized *s, const int64_t *symbols, GError **error)
{
  size_t bytes = s->roles[GM_EXEC_FORWARD].n_symbols * sizeof *symbols;
  g_mutex_lock (&s->lock);
  GmExec *exec = find_entry (s, symbols, bytes);
  g_mutex_unlock (&s->lock);
  if (exec)
    return exec;
  exec = compile_numbers (s, symbols, error);
  if (!exec)
    return NULL;
  g_mutex_lock (&s->lock);
  GmExec *other = find_entry (s, symbols, bytes); /* another thread may have made the same exec */
  if (other)
    gm_exec_unref (exec);
  else
    add_entry (s, symbols, bytes, exec);
  g_mutex_unlock (&s->lock);
  return other ? other : exec;
}

/* Returns a new reference to an alias of t with the strides of m, which differ only in dimensions
 * of one element. */
static GmTensor *
as_said (GmTensor *t, const GmMeta *m)
{
  GmMeta now = t->meta;
  memcpy (now.strides, m->strides, sizeof now.strides);
  return memcmp (now.strides, t->meta.strides, sizeof now.strides) == 0
             ? gm_tensor_ref (t)
             : gm_tensor_new_view (t, &now, t->offset);
}

static bool
run_numbers (GmExec *exec, int role, bool odd, GmTensor *const *in, GmTensor *const *out,
             GError **error)
{
  const GmExecRole *x = &exec->roles[role];
  uint32_t n = x->n_in + x->n_out;
  if (!odd)
    return gm_exec_run (exec, role, in, (int) x->n_in, out, (int) x->n_out, error);
  g_autofree GmTensor **said = g_new (GmTensor *, n + 1);
  for (uint32_t i = 0; i < n; i++)
    said[i] = as_said (i < x->n_in ? in[i] : out[i - x->n_in], &x->metas[i]);
  bool good = gm_exec_run (exec, role, said, (int) x->n_in, said + x->n_in, (int) x->n_out, error);
  for (uint32_t i = 0; i < n; i++)
    gm_tensor_unref (said[i]);
  return good;
}

/* Fills `forward`, by symbol of the forward graph: from `given` or, as far as they determine them,
 * from the symbols of a role. */
static void
symbols_of_forward (const GmExecSized *s, int role, const int64_t *given, const int64_t *symbols,
                    int64_t *forward)
{
  const Role *r = &s->roles[role];
  for (uint32_t i = 0; i < s->roles[GM_EXEC_FORWARD].n_symbols; i++)
    forward[i] = given ? given[i] : 0;
  for (uint32_t i = 0; i < r->n_symbols; i++)
    if (r->from_forward[i] != GM_NO_ID)
      forward[r->from_forward[i]] = symbols[i];
}

static bool
run_specialised (GmExec *e, int role, const int64_t *given, const int64_t *symbols, bool odd,
                 GmTensor *const *in, GmTensor *const *out, GError **error)
{
  GmExecSized *s = e->sized;
  int64_t *forward = g_newa (int64_t, s->roles[GM_EXEC_FORWARD].n_symbols + 1);
  symbols_of_forward (s, role, given, symbols, forward);
  GmExec *exec = exec_for (s, forward, error);
  bool good = exec && run_numbers (exec, role, odd, in, out, error);
  gm_exec_unref (exec);
  return good;
}

/* -- Running ----------------------------------------------------------------------------------- */

/* Calls the plugin's run with these descriptions of tensors, for the numbers n. */
__attribute__ ((always_inline)) static inline bool
call (GmExec *e, int role, const Numbers *n, const GrammeTensor *tensors, GError **error)
{
  const GmExecRole *x = &e->roles[role];
  Role *r = &e->sized->roles[role];
  Block *block = n->workspace_bytes ? block_take (e, r, n->workspace_bytes, error) : NULL;
  if (n->workspace_bytes && !block)
    return false;
  const GrammeRunArgs args = {
    .struct_size = sizeof args,
    .role = (uint32_t) role,
    .inputs = tensors,
    .outputs = tensors + x->n_in,
    .n_inputs = x->n_in,
    .n_outputs = x->n_inner,
    .sizes = n->values,
    .n_sizes = r->n_rows,
    .workspace = block ? block + 1 : NULL,
    .workspace_bytes = n->workspace_bytes,
  };
  GrammeStatus status;
  gm_status_clear (&status);
  int32_t code = gm_exec_call (e, e->executable, &args, &status);
  if (block)
    block_give (r, block);
  if (G_LIKELY (code == GRAMME_OK))
    return true;
  gm_status_to_error (&status, code, e->backend->name, gm_exec_run_name (e, role), error);
  return false;
}

/* Describes the tensors and calls the plugin.  odd: some strides differ from those of the
 * numbers. */
static bool
run_plugin (GmExec *e, int role, const Numbers *n, bool odd, GmTensor *const *in,
            GmTensor *const *out, GError **error)
{
  const GmExecRole *x = &e->roles[role];
  uint32_t n_tensors = x->n_in + x->n_inner;
  g_autofree GrammeTensor *tensors = g_new (GrammeTensor, n_tensors);
  for (uint32_t i = 0; i < n_tensors; i++) {
    GmTensor *t = i < x->n_in ? in[i] : out[x->inner[i - x->n_in]];
    tensors[i] = n->known[i];
    if (odd)
      gm_exec_describe_meta (&tensors[i], &t->meta);
    tensors[i].data = gm_tensor_data (t);
  }
  return call (e, role, n, tensors, error);
}

/* Runs with tensors whose layouts differ from those of the last run: determines their numbers
 * first. */
G_GNUC_NO_INLINE static bool
run_anew (GmExec *e, int role, const int64_t *given, GmTensor *const *in, GmTensor *const *out,
          GError **error)
{
  GmExecSized *s = e->sized;
  Role *r = &s->roles[role];
  int64_t *symbols = g_newa (int64_t, r->n_symbols + 1);
  bool odd = false;
  Numbers *n =
      bind (e, r, given, in, symbols, error) ? numbers_for (e, role, given, symbols, error) : NULL;
  if (!n)
    return false;
  bool good = check (e, role, n, in, out, &odd, error);
  if (good && s->backend)
    good = run_specialised (e, role, given, symbols, odd, in, out, error);
  else if (good && e->roles[role].split)
    good = gm_exec_run_split (e, &e->roles[role], symbols, in, out, error);
  else if (good && e->roles[role].n_inner > 0)
    good = run_plugin (e, role, n, odd, in, out, error);
  if (good && n->kept && !s->backend)
    __atomic_store_n (&r->now, n, __ATOMIC_RELEASE);
  numbers_give (r, n);
  return good;
}

/* True if the given symbols are those of n, the numbers of the last run. */
static inline bool
is_given (const Numbers *n, const Role *r, const int64_t *given)
{
  for (uint32_t i = 0; given && i < r->n_symbols; i++)
    if (r->from_forward[i] != GM_NO_ID && given[r->from_forward[i]] != n->symbols[i])
      return false;
  return true;
}

__attribute__ ((always_inline)) static inline bool
run (GmExec *e, int role, const int64_t *given, GmTensor *const *in, GmTensor *const *out,
     bool known_to_fit, GError **error)
{
  const GmExecRole *x = &e->roles[role];
  Role *r = &e->sized->roles[role];
  const Numbers *n = __atomic_load_n (&r->now, __ATOMIC_ACQUIRE);
  GrammeTensor tensors[GM_EXEC_STACK_TENSORS];
  if (G_LIKELY (n && is_given (n, r, given) && x->n_in + x->n_inner <= GM_EXEC_STACK_TENSORS
                && gm_exec_take (x, n->metas, n->known, in, out, x->split ? NULL : tensors,
                                 known_to_fit))) {
    if (G_UNLIKELY (x->split))
      return gm_exec_run_split (e, x, n->symbols, in, out, error);
    return x->n_inner == 0 || call (e, role, n, tensors, error);
  }
  return run_anew (e, role, given, in, out, error);
}

bool
gm_sized_run (GmExec *e, int role, const int64_t *given, GmTensor *const *in, GmTensor *const *out,
              GError **error)
{
  return run (e, role, given, in, out, false, error);
}

bool
gm_sized_run_known (GmExec *e, int role, const int64_t *given, GmTensor *const *in,
                    GmTensor *const *out, GError **error)
{
#ifdef GM_DEBUG_CHECKS
  return run (e, role, given, in, out, false, error); /* verifies the caller's claim */
#else
  return run (e, role, given, in, out, true, error);
#endif
}

bool
gm_sized_run_at (GmExec *e, const int64_t *symbols, void *const *data, GError **error)
{
  const GmExecRole *x = &e->roles[GM_EXEC_FORWARD];
  Role *r = &e->sized->roles[GM_EXEC_FORWARD];
  uint32_t n_tensors = x->n_in + x->n_inner;
  GrammeTensor tensors[GM_EXEC_STACK_TENSORS];
  Numbers *n = __atomic_load_n (&r->now, __ATOMIC_ACQUIRE);
  if (!n || !is_given (n, r, symbols)) {
    n = numbers_for (e, GM_EXEC_FORWARD, symbols, symbols, error);
    if (!n)
      return false;
  }
  for (uint32_t i = 0; i < n_tensors; i++) {
    tensors[i] = n->known[i];
    tensors[i].data = data[i];
  }
  bool good = call (e, GM_EXEC_FORWARD, n, tensors, error);
  if (n->kept)
    __atomic_store_n (&r->now, n, __ATOMIC_RELEASE);
  numbers_give (r, n);
  return good;
}
