/* SPDX-License-Identifier: Apache-2.0
 * recorder.c -- the loop over instructions, marks and rollback, the sticky break.
 *
 * Invariant: after gm_record_rollback (r, m) everything that gm_record_hash sees equals what it saw
 * when m was taken. GM_STRESS=rollback tests it: each instruction is executed, undone, executed
 * again, and the hashes are compared.
 */
#include "core/models/random_draw.h"
#include "core/trace/number.h"
#include "core/trace/kinds.h"
#include "core/trace/class_made.h"
#include "core/trace/recorder.h"
#include "core/objects/set_table.h"

#include "core/base/log.h"
#include "core/base/yield.h"
#include "core/trace/exception.h"
#include "core/trace/insn_handlers.h"
#include "core/trace/lifetime.h"
#include "core/trace/traced_size.h"

#include <stdarg.h>
#include <string.h>

/* -- Marks ----------------------------------------------------------------- */

/* Returns the mark of the recorder's present state. Compiled without vectorisation: the lengths lie
 * apart in memory, and gathering them into vectors takes longer than storing them one by one. */
__attribute__ ((optimize ("no-tree-slp-vectorize"))) GmMark
gm_record_mark (const GmRecorder *r)
{
  GmGraphMark graph = gm_graph_mark (r->graph); /* comes first: with sizes this is a call, across
                                                   which the other fields would have to be kept */
  return (GmMark){
    .frame = r->frame,
    .pc = r->pc,
    .depth = r->depth,
    .n_executed = r->n_executed,
    .n_frames = r->n_frames,
    .heap = gm_heap_mark (&r->heap),
    .guards = r->guards->len,
    .effects = r->effects->len,
    .inputs = r->inputs->len,
    .sources = r->sources->len,
    .wrapped = r->wrapped->len,
    .mutated = r->mutated->len,
    .draws = r->draws->len,
    .looks = r->looks->len,
    .graph = graph,
    .rng = r->builder.rng,
    .rng_taken = r->builder.rng_taken,
  };
}

/* Cuts the array to n items. Tests first, because between most marks nothing is appended, and the
 * test costs less than a call that does nothing. */
static inline void
cut (GArray *a, uint32_t n)
{
  if (G_UNLIKELY (a->len != n))
    g_array_set_size (a, n);
}

/* Cuts the arrays that have an index to their lengths at the mark, and removes their entries from
 * the indices. */
static void
cut_indices (GmRecorder *r, const GmMark *m)
{
  for (uint32_t i = m->guards; i < r->guards->len; i++)
    g_hash_table_remove (r->guard_index, &g_array_index (r->guards, GmGuard, i));
  for (uint32_t i = m->sources; i < r->sources->len; i++)
    g_hash_table_remove (r->source_index, r->sources->pdata[i]);
  for (uint32_t i = m->wrapped; i < r->wrapped->len; i++)
    g_hash_table_remove (r->by_real, ((const GmTracker *) r->wrapped->pdata[i])->real);
  g_array_set_size (r->guards, m->guards);
  g_ptr_array_set_size (r->sources, (int) m->sources);
  g_ptr_array_set_size (r->wrapped, (int) m->wrapped);
}

void
gm_record_rollback (GmRecorder *r, const GmMark *m)
{
  gm_heap_rollback (&r->heap, &m->heap);
  if (G_UNLIKELY (r->guards->len != m->guards || r->sources->len != m->sources
                  || r->wrapped->len != m->wrapped))
    cut_indices (r, m);
  cut (r->effects, m->effects);
  cut (r->inputs, m->inputs);
  cut (r->mutated, m->mutated);
  cut (r->draws, m->draws);
  cut (r->looks, m->looks);
  gm_graph_truncate (r->graph, &m->graph);
  r->builder.rng = m->rng;
  r->builder.rng_taken = m->rng_taken;
  r->frame = m->frame;
  r->pc = m->pc;
  r->depth = m->depth;
  r->n_executed = m->n_executed;
  r->n_frames = m->n_frames;
}

/* -- Structural hash ------------------------------------------------------- */

static uint64_t
mix (uint64_t h, uint64_t x)
{
  h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdu;
}

static uint64_t
hash_value (PyObject *o)
{
  uint64_t h = (uintptr_t) Py_TYPE (o);
  if (PyFloat_CheckExact (o)) { /* a NaN hashes by address */
    double d = PyFloat_AS_DOUBLE (o);
    uint64_t bits;
    memcpy (&bits, &d, sizeof bits);
    return mix (h, bits);
  }
  if (PyComplex_CheckExact (o)) {
    Py_complex c = PyComplex_AsCComplex (o);
    uint64_t bits[2];
    memcpy (bits, &c, sizeof bits);
    return mix (mix (h, bits[0]), bits[1]);
  }
  if (PyLong_CheckExact (o) || PyUnicode_CheckExact (o) || PyBytes_CheckExact (o)
      || PyRange_Check (o) || strcmp (Py_TYPE (o)->tp_name, "types.UnionType") == 0)
    return mix (h, (uint64_t) PyObject_Hash (o));
  return mix (h, (uintptr_t) o);
}

static uint64_t
hash_source (const GmSource *s)
{
  return s ? mix (mix (s->number + 1, s->kind), (uint64_t) s->index) : 0;
}

static uint64_t
hash_tracker (const GmTracker *t)
{
  if (t == NULL)
    return 1;
  uint64_t h = (uintptr_t) t->kind;
  h = mix (h, hash_source (t->source));
  h = mix (h, t->id);
  h = mix (h, (uint64_t) t->number);
  bool value = t->kind == &gm_kind_set && t->source == NULL; /* its elements are in the heap */
  value |= t->kind == &gm_kind_class && t->data;             /* a new class's shadow is made anew */
  value |= t->kind == &gm_kind_super && t->number;
  /* The real set is only a carrier of its table: the elements are items, too. */
  if (t->real && t->kind == &gm_kind_contents
      && (PyFrozenSet_CheckExact (t->real) || PySet_CheckExact (t->real)))
    h = mix (h, (uint64_t) gm_set_state (t->real));
  else if (t->real && !value)
    h = mix (h, t->kind == &gm_kind_constant || PyBytes_CheckExact (t->real) ? hash_value (t->real)
                                                                             : (uintptr_t) t->real);
  h = mix (h, t->n);
  for (uint32_t i = 0; i < t->n; i++)
    h = mix (h, hash_tracker (t->items[i]));
  return h;
}

uint64_t
gm_record_hash (const GmRecorder *r)
{
  uint64_t h =
      mix ((uintptr_t) r->frame ? r->frame->id + 1 : 0, ((uint64_t) r->pc << 32) | r->depth);
  h = mix (h, r->heap.objects->len);
  for (uint32_t i = 0; i < r->heap.slots->len; i++)
    h = mix (h, hash_tracker (r->heap.slots->pdata[i]));
  for (uint32_t i = 0; i < r->guards->len; i++) {
    GmGuard g = g_array_index (r->guards, GmGuard, i);
    if (g.kind == GM_GUARD_DICT_KEYS || g.kind == GM_GUARD_ORDERED_KEYS
        || g.kind == GM_GUARD_SET_ORDER || g.kind == GM_GUARD_VALUE
        || g.kind == GM_GUARD_SET_EQUALS) { /* obj is a collection made for the guard, hashed by
                                               value */
      h = mix (h, (uint64_t) PyObject_Hash (g.obj));
      g.obj = NULL;
    } else if (g.obj && gm_is_constant_type (Py_TYPE (g.obj))) {
      h = mix (h, hash_value (g.obj));
      g.obj = NULL;
    }
    h = mix (h, gm_guard_hash (&g));
  }
  for (uint32_t i = 0; i < r->effects->len; i++) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    h = mix (mix (h, e->kind), (uintptr_t) e->name ^ (uintptr_t) e->fn);
    for (uint32_t k = 0; k < e->n; k++)
      h = mix (h, hash_tracker (e->args[k]));
  }
  GmSizesMark sizes = r->graph->sizes ? gm_sizes_mark (r->graph->sizes) : (GmSizesMark){ 0 };
  h = mix (mix (h, sizes.rows), sizes.facts); /* made with the first symbol; a rollback empties it
                                                 and keeps it */
  for (uint32_t i = 0; i < r->sources->len; i++)
    h = mix (h, g_str_hash (((const GmSource *) r->sources->pdata[i])->name));
  for (uint32_t i = 0; i < r->inputs->len; i++) {
    const GmInput *in = &g_array_index (r->inputs, GmInput, i);
    h = mix (mix (h, in->value), g_str_hash (gm_graph_value (r->graph, in->value)->name));
  }
  for (uint32_t i = 0; i < r->mutated->len; i++)
    h = mix (h, g_array_index (r->mutated, GmValueId, i));
  for (uint32_t i = 0; i < r->looks->len; i++)
    h = mix (h, g_array_index (r->looks, GmGraphLook, i).input);
  for (uint32_t i = 0; i < r->draws->len; i++)
    h = mix (h, g_str_hash (g_array_index (r->draws, struct GmDrawCall, i).name));
  h = mix (h, r->wrapped->len);
  h = mix (h, mix (r->builder.rng, (uint64_t) r->builder.rng_taken));
  return mix (h, gm_graph_hash (r->graph));
}

/* -- Hash of an effect ----------------------------------------------------- */

typedef struct {
  GmRecorder *r;
  GHashTable *seen; /* new objects -> 1 + their rank */
} Deep;

static uint64_t
hash_deep (Deep *d, const GmTracker *t)
{
  if (t == NULL)
    return 1;
  uint64_t h = (uintptr_t) t->kind;
  if (t->source)
    return mix (h, g_str_hash (t->source->name));
  if (t->kind == &gm_kind_constant)
    return mix (h, hash_value (t->real));
  h = mix (mix (h, (uint64_t) t->number), (uintptr_t) t->real);
  if (t->id != GM_NO_OBJECT) {
    uint32_t k = GPOINTER_TO_UINT (g_hash_table_lookup (d->seen, t));
    if (k)
      return mix (h, k);
    g_hash_table_insert (d->seen, (gpointer) t, GUINT_TO_POINTER (g_hash_table_size (d->seen) + 1));
    const GmHeapObject *o = &g_array_index (d->r->heap.objects, GmHeapObject, t->id);
    for (uint32_t i = 0; i < o->n; i++)
      h = mix (h, hash_deep (d, gm_heap_load (&d->r->heap, t->id, i)));
  }
  for (uint32_t i = 0; i < t->n; i++)
    h = mix (h, hash_deep (d, t->items[i]));
  return h;
}

uint64_t
gm_record_effect_hash (GmRecorder *r, const GmEffect *e)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  Deep d = { r, seen };
  uint64_t h = mix (e->kind, (uintptr_t) e->fn);
  if (e->name)
    h = mix (h, (uint64_t) PyObject_Hash (e->name));
  for (uint32_t i = 0; i < e->n; i++)
    h = mix (h, hash_deep (&d, e->args[i]));
  return h;
}

/* -- Breaks and kept objects ----------------------------------------------- */

static const GmInsn *
current_insn (const GmRecorder *r)
{
  if (r->frame == NULL || r->pc == 0)
    return NULL;
  return &r->frame->code->insns[r->pc - 1];
}

int
gm_record_line (const GmRecorder *r)
{
  const GmInsn *i = current_insn (r);
  return i ? i->line : -1;
}

/* Returns "file:line in function" of a frame that continues at pc; in the arena. */
static const char *
place_text (GmRecorder *r, const GmFrame *f, uint32_t pc)
{
  const char *file = PyUnicode_AsUTF8 (f->code->code->co_filename);
  const char *slash = strrchr (file, '/');
  int line = pc > 0 ? f->code->insns[pc - 1].line : -1;
  return gm_arena_printf (r->graph->arena, "%s:%d", slash ? slash + 1 : file, line);
}

const char *
gm_record_stack (GmRecorder *r)
{
  const GmFrame *chain[GM_MAX_DEPTH + 2];
  uint32_t pcs[GM_MAX_DEPTH + 2], n = 0;
  uint32_t pc = r->pc;
  for (const GmFrame *f = r->frame; f && n < G_N_ELEMENTS (chain); f = f->parent) {
    chain[n] = f;
    pcs[n++] = pc;
    pc = f->return_pc;
  }
  g_autoptr (GString) s = g_string_new (NULL);
  for (uint32_t repeats = 0; n-- > 0;) {
    PyCodeObject *co = chain[n]->code->code;
    if (n > 0 && chain[n - 1]->code == chain[n]->code && pcs[n - 1] == pcs[n]) {
      repeats++;
      continue;
    }
    g_string_append_printf (s, "  %s:%d in %s", PyUnicode_AsUTF8 (co->co_filename),
                            pcs[n] ? chain[n]->code->insns[pcs[n] - 1].line : co->co_firstlineno,
                            PyUnicode_AsUTF8 (co->co_name));
    if (repeats)
      g_string_append_printf (s, ", %u times", repeats + 1);
    g_string_append_c (s, '\n');
    repeats = 0;
  }
  return gm_arena_strdup (r->arena, s->str);
}

bool
gm_frame_is_ours (const GmFrame *f)
{
  PyObject *name = PyDict_GetItemString (f->globals, "__name__");
  const char *text = name && PyUnicode_Check (name) ? PyUnicode_AsUTF8 (name) : NULL;
  return text && (strcmp (text, "gramme") == 0 || strncmp (text, "gramme.", 7) == 0);
}

/* Returns the innermost frame that is not of gramme's own code, because messages name the user's
 * lines, and sets *pc to the instruction after its present one. The current frame if there is
 * none. */
static const GmFrame *
users_frame (const GmRecorder *r, uint32_t *pc)
{
  *pc = r->pc;
  for (const GmFrame *f = r->frame; f; f = f->parent) {
    if (!gm_frame_is_ours (f))
      return f;
    *pc = f->return_pc;
  }
  *pc = r->pc;
  return r->frame;
}

const char *
gm_record_where (GmRecorder *r)
{
  if (!r->frame)
    return NULL;
  uint32_t pc;
  const GmFrame *f = users_frame (r, &pc);
  const char *inner = place_text (r, r->frame, r->pc);
  return f == r->frame ? inner
                       : gm_arena_printf (r->graph->arena, "%s (%s)", place_text (r, f, pc), inner);
}

/* Fills in line and columns of the instruction before `pc`, which is the present one. */
static void
place_of (GmBreakInfo *b, const GmCode *code, uint32_t pc)
{
  b->line = code->code->co_firstlineno;
  b->col = b->end_line = b->end_col = -1;
  const GmInsn *i = pc > 0 && pc <= code->n_insns ? &code->insns[pc - 1] : NULL;
  if (i == NULL || i->line < 0)
    return;
  b->line = i->line;
  b->col = i->col;
  b->end_line = i->end_line;
  b->end_col = i->end_col;
}

/* The value of `stop` after an interrupt: the recording is dropped without a message, and the call
 * runs as plain Python. */
static GmBreakInfo interrupted = { .message = "a signal's handler has raised an exception" };

const GmTracker *
gm_record_interrupt (GmRecorder *r)
{
  if (!r->stop)
    r->stop = &interrupted;
  r->interrupted = true;
  return &gm_tracker_poison;
}

const GmTracker *
gm_record_break (GmRecorder *r, GmBreak why, ...)
{
  if (r->stop) /* the first break is the cause of later ones */
    return &gm_tracker_poison;
  PyErr_Clear ();
  if (G_UNLIKELY (gm_interrupt_is_parked ())) /* the reason is then an exception of a signal's
                                                 handler */
    return gm_record_interrupt (r);
  va_list args;
  va_start (args, why);
  g_autofree char *message = g_strdup_vprintf (gm_breaks[why].message, args);
  va_end (args);
  GmBreakInfo *b = gm_arena_new0 (r->arena, GmBreakInfo);
  b->id = why;
  b->message = gm_arena_strdup (r->arena, message);
  b->hint = gm_breaks[why].hint;
  b->error = gm_break_raises_get (r) || why == GM_BREAK_FORBIDDEN;
  if (r->frame) {
    uint32_t pc;
    const GmFrame *f = users_frame (r, &pc);
    b->file = gm_arena_strdup (r->arena, PyUnicode_AsUTF8 (f->code->code->co_filename));
    b->function = gm_arena_strdup (r->arena, PyUnicode_AsUTF8 (f->code->code->co_name));
    place_of (b, f->code, pc);
    b->stack = gm_record_stack (r);
  } else { /* the function has returned: the break is in the end of the call */
    PyCodeObject *code = r->request->code->code;
    b->file = gm_arena_strdup (r->arena, PyUnicode_AsUTF8 (code->co_filename));
    b->function = gm_arena_strdup (r->arena, PyUnicode_AsUTF8 (code->co_name));
    place_of (b, r->request->code, r->pc);
  }
  r->stop = b;
  return &gm_tracker_poison;
}

const GmTracker *
gm_record_break_exception (GmRecorder *r)
{
  return gm_raise_pending (r);
}

#define MAX_MIB 128
#define MAX_BYTES ((size_t) MAX_MIB << 20)

void
gm_record_limit_memory (GmRecorder *r)
{
  if (G_UNLIKELY (gm_arena_bytes (r->arena) + r->kept_bytes > MAX_BYTES))
    gm_record_break (r, GM_BREAK_MEMORY_LIMIT, G_STRINGIFY (MAX_MIB));
}

bool
gm_record_limit_items (GmRecorder *r, Py_ssize_t n)
{
  if (G_UNLIKELY (gm_arena_bytes (r->arena) + r->kept_bytes + (size_t) n * sizeof (GmTracker)
                  > MAX_BYTES))
    gm_record_break (r, GM_BREAK_MEMORY_LIMIT, G_STRINGIFY (MAX_MIB));
  return !r->stop;
}

#define MAX_TRIPS 1000000

void
gm_record_limit_trips (GmRecorder *r, uint32_t n)
{
  uint32_t max = r->request->max_insns ? r->request->max_insns : MAX_TRIPS;
  if (G_LIKELY (n <= max))
    return;
  g_autofree char *text = g_strdup_printf ("%u", max);
  gm_record_break (r, GM_BREAK_LOOP_LIMIT, text);
}

PyObject *
gm_record_keep (GmRecorder *r, PyObject *o)
{
  return gm_record_take (r, Py_NewRef (o));
}

PyObject *
gm_record_take (GmRecorder *r, PyObject *o)
{
  g_ptr_array_add (r->refs, o);
  if (PyBytes_CheckExact (o))
    r->kept_bytes += (size_t) PyBytes_GET_SIZE (o);
  else if (PyTuple_CheckExact (o)) /* lookups of single keys make many tuples */
    r->kept_bytes += sizeof (PyTupleObject) + (size_t) PyTuple_GET_SIZE (o) * sizeof (PyObject *);
  else if (PyUnicode_CheckExact (o) && gm_str_ready (o))
    r->kept_bytes += (size_t) PyUnicode_GET_LENGTH (o) * PyUnicode_KIND (o);
  return o;
}

/* -- Stack and variables --------------------------------------------------- */

void
gm_push (GmRecorder *r, const GmTracker *t)
{
  if (r->stop)
    return;
  g_assert (t != NULL);
  gm_heap_store (&r->heap, r->frame->id, r->frame->code->n_slots + r->depth++, t);
}

const GmTracker *
gm_pop (GmRecorder *r)
{
  if (r->stop)
    return &gm_tracker_poison;
  g_assert (r->depth > 0);
  uint32_t key = r->frame->code->n_slots + --r->depth;
  const GmTracker *t = gm_heap_load (&r->heap, r->frame->id, key);
  gm_heap_store (&r->heap, r->frame->id, key, NULL);
  return t;
}

const GmTracker *
gm_peek (GmRecorder *r, uint32_t from_top)
{
  if (r->stop)
    return &gm_tracker_poison;
  g_assert (from_top >= 1 && from_top <= r->depth);
  return gm_heap_load (&r->heap, r->frame->id, r->frame->code->n_slots + r->depth - from_top);
}

void
gm_poke (GmRecorder *r, uint32_t from_top, const GmTracker *t)
{
  if (r->stop)
    return;
  g_assert (from_top >= 1 && from_top <= r->depth);
  gm_heap_store (&r->heap, r->frame->id, r->frame->code->n_slots + r->depth - from_top, t);
}

const GmTracker *
gm_local (GmRecorder *r, uint32_t slot)
{
  return gm_heap_load (&r->heap, r->frame->id, slot);
}

void
gm_local_set (GmRecorder *r, uint32_t slot, const GmTracker *t)
{
  if (!r->stop)
    gm_heap_store (&r->heap, r->frame->id, slot, t);
}

bool
gm_grad_mode_get (const GmRecorder *r)
{
  return gm_heap_load (&r->heap, r->modes_id, 0)->number != 0;
}

void
gm_grad_mode_set (GmRecorder *r, bool on)
{
  gm_heap_store (&r->heap, r->modes_id, 0, gm_tracker (r, .kind = &gm_kind_contents, .number = on));
}

uint8_t
gm_autocast_mode_get (const GmRecorder *r)
{
  return (uint8_t) gm_heap_load (&r->heap, r->modes_id, 2)->number;
}

void
gm_autocast_mode_set (GmRecorder *r, uint8_t mode)
{
  gm_heap_store (&r->heap, r->modes_id, 2,
                 gm_tracker (r, .kind = &gm_kind_contents, .number = mode));
}

bool
gm_refuses_draws_get (const GmRecorder *r)
{
  return gm_heap_load (&r->heap, r->modes_id, 3)->number != 0;
}

void
gm_refuses_draws_set (GmRecorder *r, bool on)
{
  gm_heap_store (&r->heap, r->modes_id, 3, gm_tracker (r, .kind = &gm_kind_contents, .number = on));
}

bool
gm_break_raises_get (const GmRecorder *r)
{
  return gm_heap_load (&r->heap, r->modes_id, 1)->number != 0;
}

void
gm_break_raises_set (GmRecorder *r, bool on)
{
  gm_heap_store (&r->heap, r->modes_id, 1, gm_tracker (r, .kind = &gm_kind_contents, .number = on));
}

/* -- The loop -------------------------------------------------------------- */

typedef void (*Handler) (GmRecorder *r, const GmInsn *i);
static const Handler handlers[GM_N_INSNS] = {
#define INSN(NAME, handler, ...) [GM_INSN_##NAME] = gm_insn_##handler,
#include "core/bytecode/insns.def"
};

static void
execute (GmRecorder *r, const GmFrame *until)
{
  const GmFrame *f = r->frame;
  g_assert (r->pc < f->code->n_insns);
  const GmInsn *i = &f->code->insns[r->pc++];
  r->n_executed++;
  uint32_t depth = r->depth;
  uint32_t next = r->pc;
  handlers[i->op](r, i);
  if (G_UNLIKELY (r->pending != NULL))
    gm_exception_unwind (r, until, r->frame == f ? next - 1 : r->pc - 1);
  else if (!r->stop && r->frame == f)
    g_assert_cmpint (r->depth, ==, (int) depth + gm_insn_effect (i->op, i->arg, r->pc != next));
}

static void
execute_twice (GmRecorder *r, const GmFrame *until)
{
  GmMark m = gm_record_mark (r);
  const char *name = gm_insns[r->frame->code->insns[r->pc].op].name;
  uint64_t before = gm_record_hash (r);
  execute (r, until);
  if (r->stop)
    return;
  uint64_t once = gm_record_hash (r);
  gm_record_rollback (r, &m);
  if (gm_record_hash (r) != before) {
    gm_record_break (r, GM_BREAK_STATE_DIFFERS, name);
    return;
  }
  execute (r, until);
  if (!r->stop && gm_record_hash (r) != once)
    gm_record_break (r, GM_BREAK_STATE_DIFFERS, name);
}

#define POLL_EVERY 64    /* instructions, some 0.1 ms, between checks for signals */
#define YIELD_EVERY 4096 /* some 5 ms, as the interpreter does: other threads get a turn */

void
gm_record_loop (GmRecorder *r, const GmFrame *until, GmRecording *rec)
{
  uint32_t max_nodes = r->request->max_nodes ? r->request->max_nodes : 100000;
  bool seal = gm_stress ("arena");
  while (!r->stop && r->frame && r->frame->level >= until->level) {
    if (G_UNLIKELY (++r->polls % POLL_EVERY == 0)) {
      if (r->polls % YIELD_EVERY == 0)
        gm_yield_enter (gm_yield_leave ()); /* the guards are checked before the entry runs */
      if (gm_interrupt_poll ()) {
        gm_record_interrupt (r);
        break;
      }
    }
    if (rec && gm_resume_mark (r)) {
      GmMark here = r->mark;
      if (gm_resume_at (r, &here, GM_RESUME_AT, rec))
        return;
    }
    if (r->stress)
      execute_twice (r, until);
    else
      execute (r, until);
    if (G_UNLIKELY (r->lifetime != NULL) && rec && !r->stop)
      gm_lifetime_check (r);
    if (seal)
      gm_arena_seal (r->arena);
    gm_record_limit_trips (r, r->n_executed);
    gm_record_limit_memory (r);
    if (G_UNLIKELY (r->graph->nodes->len > max_nodes)) {
      g_autofree char *n = g_strdup_printf ("%u", max_nodes);
      gm_record_break (r, GM_BREAK_GRAPH_LIMIT, n);
    }
  }
}

/* -- Entry ----------------------------------------------------------------- */

static void
unref_object (gpointer o)
{
  Py_DECREF ((PyObject *) o);
}

static void
recorder_init (GmRecorder *r, const GmRecordRequest *req)
{
  static uint64_t last_number;
  r->number = ++last_number;
  r->request = req;
  r->arena = gm_arena_new ();
  gm_heap_init (&r->heap);
  r->guards = g_array_new (FALSE, TRUE, sizeof (GmGuard));
  r->effects = g_array_new (FALSE, TRUE, sizeof (GmEffect));
  r->inputs = g_array_new (FALSE, TRUE, sizeof (GmInput));
  r->draws = g_array_new (FALSE, TRUE, sizeof (struct GmDrawCall));
  r->looks = g_array_new (FALSE, TRUE, sizeof (GmGraphLook));
  r->mutated = g_array_new (FALSE, TRUE, sizeof (GmValueId));
  gm_size_init (r);
  r->sources = g_ptr_array_new ();
  r->wrapped = g_ptr_array_new ();
  r->refs = g_ptr_array_new_with_free_func (unref_object);
  r->buffers = g_ptr_array_new_with_free_func (g_free);
  r->by_real = g_hash_table_new (NULL, NULL);
  r->user_keys = g_hash_table_new (NULL, NULL);
  r->source_index = g_hash_table_new (gm_source_hash, gm_source_equal);
  r->guard_index = g_hash_table_new_full (gm_guard_hash, gm_guard_equal, NULL, NULL);
  r->graph = gm_graph_new ("graph", NULL); /* the graph outlives the recorder: later stages take
                                              it */
  r->stress = gm_stress ("rollback");
  r->break_every = req->resumable ? gm_stress_number ("break") : 0;
  gm_api_builder_init (r);
  r->modes_id = gm_heap_add (&r->heap, 6);
  r->generators_id = gm_heap_add (&r->heap, 1);
  r->strides.from = GM_NO_ID;
  gm_grad_mode_set (r, (req->env.modes & GM_MODE_GRAD) != 0);
  gm_break_raises_set (r, (req->env.modes & GM_MODE_BREAK_RAISES) != 0);
  gm_autocast_mode_set (r, (uint8_t) (req->env.modes >> GM_MODE_AUTOCAST_SHIFT));
  gm_refuses_draws_set (r, (req->env.modes & GM_MODE_REFUSES_DRAWS) != 0);
  gm_fence_trace_init (r);
}

static void
recorder_free (void *data)
{
  GmRecorder *r = data;
  gm_graph_builder_clear (&r->builder);
  g_clear_pointer (&r->graph, gm_graph_free);
  gm_heap_clear (&r->heap);
  g_array_unref (r->guards);
  g_array_unref (r->effects);
  g_array_unref (r->inputs);
  g_array_unref (r->mutated);
  g_array_unref (r->symbols);
  g_array_unref (r->size_places);
  g_ptr_array_unref (r->sources);
  g_ptr_array_unref (r->wrapped);
  g_hash_table_unref (r->by_real);
  g_hash_table_unref (r->user_keys);
  Py_CLEAR (r->stand_ins_made);
  g_array_unref (r->draws);
  g_array_unref (r->looks);
  g_hash_table_unref (r->source_index);
  g_hash_table_unref (r->guard_index);
  Py_XDECREF (r->raised);
  Py_XDECREF (r->comptime);
  g_clear_pointer (&r->facts, g_array_unref);
  gm_lifetime_free (r->lifetime);
  g_clear_pointer (&r->comptime_done, g_array_unref);
  g_ptr_array_unref (r->refs);
  gm_classes_free (r);
  g_ptr_array_unref (r->buffers);
  gm_arena_free (r->arena);
  g_free (r);
}

/* Returns a lazy tracker of argument i of a resume function, a value that the break has passed
 * on. */
static const GmTracker *
left_value (GmRecorder *r, uint32_t i)
{
  return gm_wrap_lazy (r, r->request->locals[i], gm_source_local (r, i));
}

/* Enters the root frame of a resume function: variables, stack and cells become those at the
 * break. */
static void
enter_middle (GmRecorder *r, const GmRecordStart *start)
{
  const GmCode *code = r->frame->code;
  uint32_t next = 0, cell = 0;
  gm_lifetime_begin (r);
  for (; next < start->n_locals; next++)
    gm_local_set (r, start->locals[next], left_value (r, next));
  for (uint32_t k = 0; k < start->depth; k++) {
    if (start->nulls >> k & 1 || start->unbound >> k & 1) {
      gm_push (r, start->nulls >> k & 1 ? &gm_tracker_null : &gm_tracker_unbound);
      continue;
    }
    gm_push (r, left_value (r, next));
    next++;
  }
  for (uint32_t s = 0; s < code->n_slots; s++) {
    if (!gm_is_cell_slot (&code->slots[s]))
      continue;
    if (cell >= 64 || !(start->away >> cell & 1))
      gm_local_set (r, s, gm_function_cell (r, NULL, cell));
    cell++;
  }
  r->pc = start->insn;
}

/* Enters the root frame of a function from its start: arguments are lazy; the prologue's MAKE_CELL
 * and COPY_FREE_VARS make the cells. */
static void
enter_root (GmRecorder *r)
{
  const GmRecordRequest *req = r->request;
  const GmCode *code = req->code;
  GmFrame *f = gm_arena_new0 (r->arena, GmFrame);
  f->code = code;
  f->globals = req->func->func_globals;
  f->builtins = req->func->func_builtins;
  f->id = gm_heap_add (&r->heap, code->n_slots + code->stack_size);
  f->handled_id = gm_heap_add (&r->heap, 1);
  f->after = GM_AFTER_STOP;
  r->frame = f;
  if (req->start) {
    enter_middle (r, req->start);
    return;
  }
  for (uint32_t i = 0; i < code->n_args; i++)
    gm_local_set (r, i, gm_wrap_lazy (r, req->locals[i], gm_source_local (r, i)));
}

GmRecording *
gm_record_function (const GmRecordRequest *req)
{
  GmRecorder *r = g_new0 (GmRecorder, 1);
  GmSizes *was = gm_sizes_enter (NULL); /* symbols come with the first input that has one */
  recorder_init (r, req);
  GmRecording *rec = g_new0 (GmRecording, 1);
  rec->owner = r;
  gm_guard (r, BACKEND_MATCH, NULL, .ptr = req->env.backend, .obj = NULL);
  gm_guard (r, MODES, NULL, .index = req->env.modes);
  gm_guard (r, ROOT_GLOBALS, NULL, .obj = req->func->func_globals, .key = req->func->func_builtins);
  enter_root (r);
  if (req->code->flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR))
    gm_record_break (r, GM_BREAK_GENERATOR, PyUnicode_AsUTF8 (req->code->code->co_name));
  const GmFrame *root = r->frame;
  gm_record_loop (r, root, rec);
  if (!r->stop && rec->point == NULL) {
    r->frame = NULL;
    gm_residual_finish (r, r->stopped_value, rec);
  }
  if (r->stop && req->resumable && !r->raised && !r->stop->error && !r->interrupted)
    gm_resume_after_break (r, rec);
  if (G_UNLIKELY (r->interrupted && r->stop))
    r->stop = &interrupted; /* the search for a place to resume may have set another break */
  rec->stop = r->stop;
  rec->raised = r->raised;
  rec->layer = r->layer;
  rec->layer_input = r->layer_input;
  rec->n_insns_executed = r->n_executed;
  rec->n_frames_inlined = r->n_frames;
  gm_sizes_enter (was);
  return rec;
}

void
gm_recording_free (GmRecording *rec)
{
  if (rec == NULL)
    return;
  g_clear_pointer (&rec->graph, gm_graph_free);
  gm_guards_unref (rec->guards);
  gm_return_free (rec->ret);
  recorder_free (rec->owner);
  g_free (rec);
}
