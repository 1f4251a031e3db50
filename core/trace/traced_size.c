/* SPDX-License-Identifier: Apache-2.0
 * traced_size.c -- chooses the sizes that become symbols in a recording, and at its end replaces
 * symbols that have only one value by numbers.
 *
 * A size is a symbol if the user marked it, if the request says so, or if the profile saw it
 * change; strides that are products of sizes follow from them. An int that was seen to change is a
 * symbol as well, bound by an input that only has a size. Each comparison of sizes adds a fact
 * (core/sym/sizes.h); here the line of the user's that caused it is recorded.
 * Invariant: after gm_size_settle each symbol of the graph has more than one value by the facts,
 * and is the size of an input.
 */
#include "core/trace/traced_size.h"
#include "core/graph/higher.h"

#include <string.h>

/* -- Symbols ----------------------------------------------------------------------------------- */

/* A symbol of a size; its index is the symbol's number. A rollback leaves rows, which are written
 * over. */
typedef struct {
  const GmSource *source;
  const char *name;  /* "L['x'].size(0)" */
  PyObject *value;   /* the value of an int; else NULL */
  bool promised;     /* by mark_dynamic: an error is raised if the symbol has only one value */
  GmValueId counted; /* the graph's value whose element is the size; else GM_NO_ID */
} Symbol;

void
gm_size_init (GmRecorder *r)
{
  r->symbols = g_array_new (FALSE, TRUE, sizeof (Symbol));
  r->size_places = g_array_new (FALSE, TRUE, sizeof (GmWhere));
}

static void
note_fact (void *data, const GmSizeFact *fact)
{
  GmRecorder *r = data;
  uint32_t i = gm_size_facts_n (r->graph->sizes->facts) - 1;
  (void) fact;
  g_array_set_size (r->size_places, i);
  GmWhere p = { r->frame ? PyUnicode_AsUTF8 (r->frame->code->code->co_filename) : NULL,
                gm_record_line (r) };
  g_array_append_val (r->size_places, p);
}

static GmSizes *
sizes_for (GmRecorder *r)
{
  if (!r->graph->sizes) {
    GmSizes *s = gm_graph_sizes (r->graph);
    s->on_fact = note_fact;
    s->on_fact_data = r;
    gm_sizes_enter (s);
  }
  return r->graph->sizes;
}

static int64_t
symbol_new (GmRecorder *r, const GmSource *source, const char *name, PyObject *value, int64_t hint,
            bool promised)
{
  GmSizes *s = sizes_for (r);
  int64_t size = gm_sizes_named (s, name, hint);
  uint32_t i = gm_sym_row (s->sym, gm_size_row (size))->a;
  Symbol symbol = { source, gm_arena_strdup (r->arena, name), value, promised, GM_NO_ID };
  if (r->symbols->len < i + 1)
    g_array_set_size (r->symbols, i + 1);
  g_array_index (r->symbols, Symbol, i) = symbol;
  return size;
}

uint32_t
gm_size_n_symbols (const GmRecorder *r)
{
  return r->graph->sizes ? gm_sym_n_symbols (r->graph->sizes->sym) : 0;
}

void
gm_size_keep (GmRecorder *r, uint32_t first)
{
  for (uint32_t i = first; i < gm_size_n_symbols (r); i++) {
    Symbol *s = &g_array_index (r->symbols, Symbol, i);
    s->source = gm_source_again (r, s->source);
  }
}

/* Returns the symbol of an earlier value of the graph that computes the same as v; -1: there is
 * none, or a value was written in place. */
static int64_t
counted_before (GmRecorder *r, GmValueId v)
{
  GmSizes *s = r->graph->sizes;
  for (uint32_t i = 0; s && r->mutated->len == 0 && i < gm_sym_n_symbols (s->sym); i++) {
    GmValueId old = g_array_index (r->symbols, Symbol, i).counted;
    if (old != GM_NO_ID && gm_graph_computes_same (r->graph, old, v, 16))
      return gm_sizes_nth_symbol (s, i);
  }
  return -1;
}

static int64_t
open_symbol (GmRecorder *r, const char *name, int64_t min, int64_t max, GmValueId counted)
{
  GmSizes *s = r->graph->sizes;
  int64_t size = gm_sizes_counted (s, name, min, max);
  uint32_t i = gm_sym_row (s->sym, gm_size_row (size))->a;
  Symbol symbol = { .name = gm_arena_strdup (r->arena, name), .counted = counted };
  if (r->symbols->len < i + 1)
    g_array_set_size (r->symbols, i + 1);
  g_array_index (r->symbols, Symbol, i) = symbol;
  return size;
}

/* -- Sizes that stay in 64 bits ---------------------------------------------------------------- */

#define MOST_OF_AN_INT ((INT64_C (1) << 61) - 1) /* the guard SIZE lets no larger ints through */
#define MOST_OF_A_TENSOR (INT64_C (1) << 47) /* largest number of elements in an address space */
#define FAR_AWAY ((__int128) 1 << 100)

/* Returns an upper bound of the size's magnitude, computed from its operands. *budget: number of
 * rows that may still be read; *any_int: set to true if an int of the program's is an operand. */
static __int128
magnitude (const GmRecorder *r, int64_t size, uint32_t *budget, bool *any_int)
{
  GmSizes *s = r->graph->sizes;
  int64_t min, max;
  if (!gm_size_is_symbolic (size))
    return size < 0 ? -(__int128) size : size;
  if (*budget == 0)
    return FAR_AWAY;
  --*budget;
  const GmSymRow *row = gm_sym_row (s->sym, gm_size_row (size));
  __int128 own, a = 0, b = 0;
  if (row->kind == GM_SYM_CONST)
    return row->value < 0 ? -(__int128) row->value : row->value;
  if (row->kind != GM_SYM_SYMBOL) {
    a = magnitude (r, gm_size_from_row (row->a), budget, any_int);
    b = magnitude (r, gm_size_from_row (row->b), budget, any_int);
  }
  switch (row->kind) {
  case GM_SYM_SYMBOL:
    *any_int |= g_array_index (r->symbols, Symbol, row->a).value != NULL;
    own = g_array_index (r->symbols, Symbol, row->a).value ? MOST_OF_AN_INT : MOST_OF_A_TENSOR;
    break;
  case GM_SYM_ADD:
    own = a + b;
    break;
  case GM_SYM_MUL:
    own = a == 0 || b <= FAR_AWAY / a ? a * b : FAR_AWAY;
    break;
  case GM_SYM_FLOORDIV:
    own = a + 1;
    break;
  case GM_SYM_MOD:
    own = b;
    break;
  default:
    own = MAX (a, b);
  }
  if (own <= MOST_OF_AN_INT) /* the facts need not be read */
    return own;
  gm_size_facts_bounds (s->facts, size, &min, &max);
  if (min == INT64_MIN || max == INT64_MAX)
    return MIN (own, FAR_AWAY);
  return MIN (own, MAX (max < 0 ? -(__int128) max : max, min < 0 ? -(__int128) min : min));
}

bool
gm_size_bounded (GmRecorder *r, int64_t size)
{
  GmSizes *s = r->graph->sizes;
  uint32_t budget = 64;
  bool any_int = false;
  int64_t hint;
  if (!gm_size_is_symbolic (size) || !gm_sizes_has_hint (s, size)
      || magnitude (r, size, &budget, &any_int) < INT64_MAX || (budget > 0 && !any_int))
    return true;
  return gm_sizes_hint (s, size, &hint) && ABS (hint) <= MOST_OF_AN_INT
         && gm_size_le (size, MOST_OF_AN_INT) && gm_size_le (-MOST_OF_AN_INT, size);
}

int64_t
gm_size_counted (GmRecorder *r, GmValueId v, const char *what, int64_t min, int64_t max)
{
  int64_t before = counted_before (r, v);
  if (before != -1)
    return before;
  sizes_for (r);
  const char *where = gm_record_where (r);
  g_autofree char *name = where ? g_strdup_printf ("%s at %s", what, where) : g_strdup (what);
  return open_symbol (r, name, min, max, v);
}

int64_t
gm_size_of_body (GmRecorder *r, const char *what)
{
  sizes_for (r);
  return open_symbol (r, what, 1, GM_SIZE_COUNT_MAX, GM_NO_ID);
}

/* Returns the text of a break, "it is not known whether u0 == 1 ...": `question`, the meaning of
 * its symbols, and a hint. The caller frees it. */
char *
gm_size_open_text (GmRecorder *r, const char *question, const GmSizeFact *fact)
{
  GmSizes *s = r->graph->sizes;
  GString *out = g_string_new (question);
  g_autofree char *advice = gm_sizes_advice (s, *fact);
  const char *sep = ", where ";
  for (uint32_t i = 0; i < gm_sym_n_symbols (s->sym); i++) {
    const Symbol *symbol = &g_array_index (r->symbols, Symbol, i);
    const char *name = gm_sizes_symbol_name (s, i);
    if (symbol->source || !(gm_sizes_uses (s, fact->a, i) || gm_sizes_uses (s, fact->b, i)))
      continue;
    g_string_append_printf (out, "%s%s is %s", sep, name, symbol->name);
    sep = ", ";
  }
  g_string_append_printf (out, "; gramme._check (%s) before it would say", advice);
  return g_string_free (out, FALSE);
}

/* Adds the fact a <= b, with `name` for messages. False, with a break: the sizes of this call
 * contradict it. */
static bool
assume (GmRecorder *r, int64_t a, int64_t b, const char *name)
{
  GmSizes *s = r->graph->sizes;
  if (gm_sizes_ask (s, GM_REL_LE, a, b) == GM_YES)
    return true;
  int64_t x = 0, y = 0;
  gm_sizes_hint (s, a, &x);
  gm_sizes_hint (s, b, &y);
  if (x <= y && gm_size_facts_add (s->facts, GM_REL_LE, a, b)) {
    note_fact (r, NULL);
    return true;
  }
  g_autofree char *text = gm_size_fact_text (s->sym, &(GmSizeFact){ GM_REL_LE, a, b });
  gm_record_break (r, GM_BREAK_SIZE_PROMISE, name, text);
  return false;
}

/* -- Marks of the user ------------------------------------------------------------------------- */

typedef enum { MARK_NONE, MARK_STATIC, MARK_MAYBE, MARK_DYNAMIC } MarkKind;

typedef struct {
  MarkKind kind;
  int64_t min, max; /* INT64_MIN, INT64_MAX: no bound */
} SizeMark;

static int64_t
bound (PyObject *o, int64_t or_else)
{
  int64_t v = o && PyLong_Check (o) ? PyLong_AsLongLong (o) : or_else;
  PyErr_Clear ();
  return v;
}

/* True if the tensor has the attribute _gramme_sizes: {dim: (kind, min, max)}, which
 * gramme.compiler sets. */
static bool
has_marks (PyObject *real)
{
  PyObject **dict = _PyObject_GetDictPtr (real);
  return dict && *dict && PyDict_GetItemString (*dict, "_gramme_sizes");
}

static SizeMark
mark_of (PyObject *real, uint32_t d)
{
  SizeMark none = { MARK_NONE, INT64_MIN, INT64_MAX };
  PyObject **dict = _PyObject_GetDictPtr (real);
  PyObject *marks = dict && *dict ? PyDict_GetItemString (*dict, "_gramme_sizes") : NULL;
  PyObject *key = marks && PyDict_CheckExact (marks) ? PyLong_FromUnsignedLong (d) : NULL;
  PyObject *mark = key ? PyDict_GetItemWithError (marks, key) : NULL;
  Py_XDECREF (key);
  PyErr_Clear ();
  if (!mark || !PyTuple_CheckExact (mark) || PyTuple_GET_SIZE (mark) != 3)
    return none;
  int64_t kind = bound (PyTuple_GET_ITEM (mark, 0), MARK_NONE);
  return (SizeMark){ (MarkKind) CLAMP (kind, MARK_NONE, MARK_DYNAMIC),
                     bound (PyTuple_GET_ITEM (mark, 1), INT64_MIN),
                     bound (PyTuple_GET_ITEM (mark, 2), INT64_MAX) };
}

/* -- Tensors ----------------------------------------------------------------------------------- */

/* True for parameters and buffers: each module has its own, so that different sizes of them do not
 * show that a size changes. Always false if the request says that they may change. */
static bool
is_of_module (const GmRecorder *r, PyObject *real, const GmSource *source)
{
  if (r->request->dynamic_parameters)
    return false;
  return Py_TYPE (real) == gm_host.parameter_type || gm_source_is_member (source);
}

/* True if size d of the input is to be recorded as a symbol. */
static bool
is_symbol (GmRecorder *r, PyObject *real, const GmSource *source, const GmProfileRow *row,
           uint32_t d, const SizeMark *mark)
{
  bool small = row->sizes[d] == 0 || row->sizes[d] == 1;
  if (mark->kind == MARK_STATIC || r->request->dynamic == GM_DYNAMIC_NEVER)
    return false;
  if (mark->kind == MARK_DYNAMIC)
    return true;
  if (mark->kind == MARK_NONE && is_of_module (r, real, source))
    return false;
  if (mark->kind == MARK_NONE && r->request->dynamic == GM_DYNAMIC_MARKED)
    return false;
  if (mark->kind == MARK_NONE && r->request->dynamic == GM_DYNAMIC_SEEN && !row->size_varies[d])
    return false;
  if (!small || row->size_varies[d] == GM_VARIES_ALL)
    return true;
  return !gm_profile_special (r->request->profile, row, d, r->number);
}

static int64_t
size_symbol (GmRecorder *r, const GmSource *source, const GmProfileRow *row, uint32_t d,
             const SizeMark *mark)
{
  g_autofree char *name = g_strdup_printf ("%s.size(%u)", source->name, d);
  bool general = row->size_varies[d] == GM_VARIES_ALL || row->sizes[d] < 2;
  int64_t size = symbol_new (r, source, name, NULL, row->sizes[d], mark->kind == MARK_DYNAMIC);
  if (mark->min != INT64_MIN || !general)
    assume (r, MAX (mark->min, general ? 0 : 2), size, name);
  if (mark->max != INT64_MAX)
    assume (r, size, mark->max, name);
  return size;
}

/* Sets the strides of m, the innermost first: a stride that equals 1 or the span of a dimension
 * inside of it in this call becomes that expression, any other becomes a symbol of its own if it
 * was seen to vary. */
static void
set_strides (GmRecorder *r, const GmSource *source, const GmProfileRow *row, const GmMeta *is,
             GmMeta *m)
{
  struct {
    int64_t value, size;
  } spans[GM_MAX_DIMS + 1] = { { 1, 1 } };
  int64_t order[GM_MAX_DIMS];
  int n = 1;
  gm_meta_order (is, order);
  for (int k = is->ndim; k-- > 0;) {
    int d = (int) order[k], i = n;
    while (i > 0 && spans[i - 1].value != is->strides[d])
      i--;
    if (i > 0)
      m->strides[d] = spans[i - 1].size;
    else if (row->stride_varies[d] && is->strides[d] > 1) {
      g_autofree char *name = g_strdup_printf ("%s.stride(%d)", source->name, d);
      m->strides[d] = symbol_new (r, source, name, NULL, is->strides[d], false);
    }
    spans[n].value = is->sizes[d] * is->strides[d];
    spans[n++].size = gm_size_mul (m->sizes[d], m->strides[d]);
  }
}

GmMeta
gm_size_input (GmRecorder *r, PyObject *real, const GmMeta *is, const GmSource *source)
{
  GmMeta m = *is;
  if (!r->request->profile || r->request->dynamic == GM_DYNAMIC_NEVER
      || (is_of_module (r, real, source) && !has_marks (real)))
    return m;
  const GmProfileRow *row =
      gm_profile_see (r->request->profile, source->name, is->ndim, is->sizes, is->strides);
  bool any = false;
  for (uint32_t d = 0; d < is->ndim && !r->stop; d++) {
    SizeMark mark = mark_of (real, d);
    if (!is_symbol (r, real, source, row, d, &mark))
      continue;
    m.sizes[d] = size_symbol (r, source, row, d, &mark);
    any = true;
  }
  for (int d = 0; d < is->ndim && r->request->dynamic >= GM_DYNAMIC_SEEN; d++)
    any |= row->stride_varies[d] && !is_of_module (r, real, source);
  if (any && !r->stop) {
    sizes_for (r);
    set_strides (r, source, row, is, &m);
  }
  return m;
}

/* -- Ints -------------------------------------------------------------------------------------- */

bool
gm_size_int (GmRecorder *r, PyObject *real, const GmSource *source, int64_t *out)
{
  int overflow;
  int64_t value = PyLong_AsLongLongAndOverflow (real, &overflow);
  if (!r->request->profile || r->request->dynamic == GM_DYNAMIC_NEVER || overflow || value < 0
      || value >= INT64_C (1) << 40 || !gm_source_is_unique (source))
    return false;
  bool argument = source->kind == GM_SOURCE_LOCAL;
  const GmProfileRow *row =
      argument ? gm_profile_see (r->request->profile, source->name, 1, &value, NULL)
               : gm_profile_see_value (r->request->profile, source->name, value);
  SizeMark none = { MARK_NONE, INT64_MIN, INT64_MAX };
  if ((!argument && !row->size_varies[0]) || !is_symbol (r, real, source, row, 0, &none))
    return false;
  *out = symbol_new (r, source, source->name, real, value, false);
  if (row->size_varies[0] != GM_VARIES_ALL)
    assume (r, 2, *out, source->name);
  return !r->stop;
}

/* -- The end ----------------------------------------------------------------------------------- */

/* Returns the place in the program that made the first fact which leaves the symbol only one value,
 * with the fact: "FILE:LINE needs ...". The caller frees it. */
static char *
fixed_by (GmRecorder *r, uint32_t symbol)
{
  GmSizes *sizes = r->graph->sizes;
  g_autoptr (GmSizeFacts) facts = gm_size_facts_new (sizes->sym);
  int64_t size = gm_sizes_nth_symbol (sizes, symbol), min, max;
  for (uint32_t i = 0; i < gm_size_facts_n (sizes->facts); i++) {
    GmSizeFact f = gm_size_facts_nth (sizes->facts, i);
    gm_size_facts_add (facts, f.rel, f.a, f.b);
    gm_size_facts_bounds (facts, size, &min, &max);
    if (min != max)
      continue;
    const GmWhere *p = i < r->size_places->len ? &g_array_index (r->size_places, GmWhere, i) : NULL;
    g_autofree char *text = gm_size_fact_text (sizes->sym, &f);
    return p && p->file ? g_strdup_printf ("%s:%d needs %s", p->file, p->line, text)
                        : g_steal_pointer (&text);
  }
  return g_strdup ("it is fixed");
}

/* Ends the recording with an error, because a size that the user had marked as dynamic has only one
 * value; the message names the place. */
static void
blame (GmRecorder *r, uint32_t symbol)
{
  const Symbol *s = &g_array_index (r->symbols, Symbol, symbol);
  g_autofree char *fixed = fixed_by (r, symbol);
  PyErr_Format (PyExc_RuntimeError,
                "mark_dynamic: %s was to stay open, but the function is compiled for %lld alone: "
                "%s. Remove the mark, or use "
                "maybe_mark_dynamic, which does not insist",
                s->name, (long long) g_array_index (r->graph->sizes->hints, int64_t, symbol),
                fixed);
  PyObject *type, *value, *trace;
  PyErr_Fetch (&type, &value, &trace);
  PyErr_NormalizeException (&type, &value, &trace);
  Py_XDECREF (type);
  Py_XDECREF (trace);
  if (!r->raised)
    r->raised = value;
  else
    Py_XDECREF (value);
  gm_record_break (r, GM_BREAK_SIZE_PROMISE, s->name, "it has one value");
}

static void
settle_meta (GmSizes *s, GmMeta *m)
{
  for (int d = 0; d < m->ndim; d++) {
    m->sizes[d] = gm_sizes_simplest (s, m->sizes[d]);
    m->strides[d] = gm_sizes_simplest (s, m->strides[d]);
  }
}

static void
settle_values (GmSizes *s, GmGraph *g)
{
  for (uint32_t v = 0; v < g->values->len; v++)
    settle_meta (s, gm_graph_meta (g, v));
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    GmNode *n = gm_graph_node (g, i);
    if (!gm_graph_attrs_are_symbolic (n->attrs))
      continue;
    GmAttrs *a = gm_arena_copy (g->arena, n->attrs, sizeof *a);
    for (int k = 0; a->mask & 1u << GM_ATTR_SIZES && k < a->n_list; k++)
      a->list[k] = gm_sizes_simplest (s, a->list[k]);
    a->start = gm_sizes_simplest (s, a->start);
    a->stop = gm_sizes_simplest (s, a->stop);
    if (a->value.kind == GM_CATEGORY_INT)
      a->value.i = gm_sizes_simplest (s, a->value.i);
    if (a->value2.kind == GM_CATEGORY_INT)
      a->value2.i = gm_sizes_simplest (s, a->value2.i);
    n->attrs = a;
  }
}

/* Replaces sizes that have one value by numbers, in the graph, its custom gradients and the bodies
 * of its calls, whose sizes are those of the graph around them. */
static void
settle_whole (GmSizes *s, GmGraph *g)
{
  settle_values (s, g);
  for (uint32_t i = 0; g->customs && i < g->customs->len; i++)
    settle_values (s, g->customs->pdata[i]);
  for (uint32_t i = 0; g->highers && i < g->highers->len; i++) {
    const GmHigher *h = g->highers->pdata[i];
    for (uint32_t b = 0; b < h->n_bodies; b++)
      settle_whole (s, h->bodies[b]);
  }
}

static void
settle_graph (GmRecorder *r)
{
  GmGraph *g = r->graph;
  settle_whole (g->sizes, g);
  for (uint32_t i = 0; i < r->guards->len; i++) {
    GmGuard *guard = &g_array_index (r->guards, GmGuard, i);
    if (guard->kind != GM_GUARD_TENSOR || !gm_meta_is_symbolic (guard->ptr))
      continue;
    GmMeta *m = gm_arena_copy (r->arena, guard->ptr, sizeof *m);
    settle_meta (g->sizes, m);
    guard->ptr = m;
  }
}

/* Guards an int with a symbol: by its value if the symbol has only one; else adds an input, whose
 * elements are never read, that has the int as its size. */
static void
settle_int (GmRecorder *r, const Symbol *s, int64_t size)
{
  int64_t number;
  if (gm_sizes_is_number (r->graph->sizes, size, &number)) {
    gm_guard (r, INT, s->source, .obj = s->value, .index = number);
    return;
  }
  gm_guard (r, SIZE, s->source);
  GmMeta m = { .dtype = GM_U8, .ndim = 1, .device = GM_DEVICE_CPU, .sizes = { size } };
  const GmTracker *t =
      gm_tracker (r, .kind = &gm_kind_size, .source = s->source, .real = s->value, .number = size);
  GmInput in = {
    gm_graph_add_input (r->graph, gm_sym_row (r->graph->sym, gm_size_row (size))->name, &m), t
  };
  g_array_append_val (r->inputs, in);
}

/* Adds the values whose elements are sizes (gm_size_counted) as the last outputs of the graph. */
static void
give_counts (GmRecorder *r)
{
  GmSizes *s = r->graph->sizes;
  for (uint32_t i = 0; i < gm_sym_n_symbols (s->sym); i++) {
    const Symbol *symbol = &g_array_index (r->symbols, Symbol, i);
    if (symbol->counted == GM_NO_ID)
      continue;
    GmSizeCount count = { i, r->graph->outputs->len };
    gm_graph_add_output (r->graph, symbol->counted, GM_OUTPUT_USER);
    g_array_append_val (s->counts, count);
  }
}

const char *
gm_size_settle (GmRecorder *r)
{
  GmSizes *s = r->graph->sizes;
  g_autoptr (GString) fixed = g_string_new (NULL);
  if (!s || r->stop)
    return "";
  give_counts (r);
  for (uint32_t i = 0; i < gm_sym_n_symbols (s->sym); i++) {
    const Symbol *symbol = &g_array_index (r->symbols, Symbol, i);
    int64_t size = gm_sizes_nth_symbol (s, i), number;
    if (symbol->promised && gm_sizes_is_number (s, size, &number)) {
      blame (r, i);
      return "";
    }
    if (gm_sizes_is_number (s, size, &number)) {
      g_autofree char *where = fixed_by (r, i);
      g_string_append_printf (fixed, "%s == %" G_GINT64_FORMAT ": %s\n", symbol->name, number,
                              where);
    }
    if (symbol->value)
      settle_int (r, symbol, size);
  }
  settle_graph (r);
  s->on_fact = NULL; /* the sizes outlive the recorder */
  int64_t draws;
  if (gm_sizes_is_number (s, r->builder.rng_taken, &draws))
    r->builder.rng_taken = draws;
  /* Without symbols guards compare the numbers, and facts are not needed. Bodies count as symbolic,
   * whatever is in them. */
  if (!s->counts->len && !gm_size_is_symbolic (r->builder.rng_taken)
      && !gm_graph_is_symbolic (r->graph) && !(r->graph->highers && r->graph->highers->len)) {
    gm_sizes_enter (NULL);
    g_clear_pointer (&r->graph->sizes, gm_sizes_unref);
    r->graph->sym = NULL;
  }
  return gm_arena_strdup (r->arena, fixed->str);
}
