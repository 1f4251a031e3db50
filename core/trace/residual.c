/* SPDX-License-Identifier: Apache-2.0
 * residual.c -- what remains of a call after its graph has run: side effects, new objects, the
 * value returned.
 *
 * Everything that existed before is loaded by the guard program, before the first effect, and
 * passed to the residual as an argument; so effects replay in the order in which they were
 * recorded, and none can change what another one reads. A new object is built once, at its first
 * use, from what it holds at the end; objects are allocated before they are filled, so they may
 * refer to each other. Objects that nothing refers to any more are never built. A residual without
 * effects whose value is a tree is a GmReturn, which needs no bytecode.
 */
#include "core/graph/checks.h"
#include "core/tensor/device.h"
#include "core/trace/class_made.h"
#include "core/models/random_draw.h"
#include "core/objects/given_iterator.h"
#include "core/trace/exception.h"
#include "core/guard/guard.h"
#include "core/trace/number.h"
#include "core/trace/recorder.h"
#include "core/trace/traced_size.h"

#include <string.h>

/* The class of a variable, in the upper bits of an operand, until all variables are known and
 * numbered; the lower bits are an index in the class. */
typedef enum {
  VAR_IN = 1u << 24,
  VAR_OUT = 2u << 24,
  VAR_TEMP = 3u << 24,
  VAR_CELL = 4u << 24,
  VAR_FREE = 5u << 24
} VarClass;
#define VAR_CLASS(x) ((x) &0xff000000u)
#define VAR_INDEX(x) ((x) &0x00ffffffu)

struct GmResidualBuilder {
  GmRecorder *r;
  GArray *insns;       /* GmInsn */
  GPtrArray *sources;  /* GmSource: the arguments */
  GPtrArray *outputs;  /* GmTracker: tensors made in the region */
  GHashTable *temps;   /* GmTracker -> 1 + index */
  GHashTable *cells;   /* GmTracker -> 1 + index */
  GPtrArray *unfilled; /* GmTracker: cells and classes whose contents are still to be stored */
  GHashTable *busy;    /* tuples being built: a tuple cannot be allocated before its items */
  int depth, max_depth, line;
  uint32_t nesting; /* nesting of the value that is being built */
};

#define MAX_NESTING 2000 /* nested values: the C stack is deep enough for them */

GmRecorder *
gm_residual_recorder (GmResidualBuilder *b)
{
  return b->r;
}

void
gm_residual_emit (GmResidualBuilder *b, GmInsnOp op, uint32_t arg, PyObject *obj)
{
  GmInsn i = { .op = (uint8_t) op,
               .arg = arg,
               .obj = obj,
               .line = b->line,
               .col = -1,
               .end_line = -1,
               .end_col = -1 };
  if (obj)
    gm_record_keep (b->r, obj);
  g_array_append_val (b->insns, i);
  b->depth += gm_insn_effect (op, arg, false);
  b->max_depth = MAX (b->max_depth, b->depth);
}

static uint32_t
index_in (GPtrArray *list, gconstpointer p)
{
  for (uint32_t i = 0; i < list->len; i++)
    if (list->pdata[i] == p)
      return i;
  g_ptr_array_add (list, (gpointer) p);
  return list->len - 1;
}

uint32_t
gm_residual_output (GmResidualBuilder *b, const GmTracker *tensor)
{
  return VAR_OUT | index_in (b->outputs, tensor);
}

bool
gm_residual_cached (GmResidualBuilder *b, const GmTracker *t)
{
  uint32_t k = GPOINTER_TO_UINT (g_hash_table_lookup (b->temps, t));
  if (k)
    gm_residual_emit (b, GM_INSN_LOAD_FAST, VAR_TEMP | (k - 1), NULL);
  return k != 0;
}

bool
gm_residual_is_built (GmResidualBuilder *b, const GmTracker *t)
{
  return g_hash_table_contains (b->temps, t);
}

void
gm_residual_allocated (GmResidualBuilder *b, const GmTracker *t)
{
  uint32_t k = g_hash_table_size (b->temps);
  g_hash_table_insert (b->temps, (gpointer) t, GUINT_TO_POINTER (k + 1));
  gm_residual_emit (b, GM_INSN_STORE_FAST, VAR_TEMP | k, NULL);
}

uint32_t
gm_residual_temp (GmResidualBuilder *b, const GmTracker *t)
{
  return VAR_TEMP | (GPOINTER_TO_UINT (g_hash_table_lookup (b->temps, t)) - 1);
}

uint32_t
gm_residual_cell (GmResidualBuilder *b, const GmTracker *cell)
{
  uint32_t k = GPOINTER_TO_UINT (g_hash_table_lookup (b->cells, cell));
  if (k == 0) {
    k = g_hash_table_size (b->cells) + 1;
    g_hash_table_insert (b->cells, (gpointer) cell, GUINT_TO_POINTER (k));
    g_ptr_array_add (b->unfilled, (gpointer) cell);
  }
  return VAR_CELL | (k - 1);
}

void
gm_residual_value (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = b->r;
  if (r->stop)
    return;
  const GmSource *s = t->source;
  if (s && s->kind == GM_SOURCE_FREE_CELL) {
    gm_residual_emit (b, GM_INSN_LOAD_CLOSURE, VAR_FREE | (uint32_t) s->index, NULL);
    return;
  }
  if (s && s->kind == GM_SOURCE_CONST && t->real) {
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->real);
    return;
  }
  if (s) {
    gm_residual_emit (b, GM_INSN_LOAD_FAST, VAR_IN | index_in (b->sources, s), NULL);
    return;
  }
  bool tuple = t->kind == &gm_kind_tuple, anew = t->kind->builds_anew;
  if (anew && gm_residual_cached (b, t))
    return;
  if (b->nesting == MAX_NESTING) {
    gm_record_break (r, GM_BREAK_ESCAPE, "value that is nested so deep");
    return;
  }
  b->nesting++;
  if ((tuple && !g_hash_table_add (b->busy, (gpointer) t)) || t->kind->build == NULL
      || !t->kind->build (b, t))
    gm_record_break (r, GM_BREAK_ESCAPE, gm_type_text (r, t));
  if (anew && !r->stop) {
    gm_residual_allocated (b, t);
    gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  }
  if (tuple)
    g_hash_table_remove (b->busy, t);
  b->nesting--;
}

/* -- Effects --------------------------------------------------------------- */

static void
emit_cell_store (GmResidualBuilder *b, const GmEffect *e)
{
  const GmTracker *cell = e->args[0];
  bool del = e->args[1] == &gm_tracker_null;
  if (!del)
    gm_residual_value (b, e->args[1]);
  if (cell->source->kind == GM_SOURCE_FREE_CELL) {
    gm_residual_emit (b, del ? GM_INSN_DELETE_DEREF : GM_INSN_STORE_DEREF,
                      VAR_FREE | (uint32_t) cell->source->index, NULL);
    return;
  }
  gm_residual_value (b, cell);
  PyObject *name = gm_record_take (b->r, PyUnicode_InternFromString ("cell_contents"));
  gm_residual_emit (b, del ? GM_INSN_DELETE_ATTR : GM_INSN_STORE_ATTR, 0, name);
}

static void
emit_global (GmResidualBuilder *b, const GmEffect *e)
{
  bool del = e->args[0] == &gm_tracker_null;
  if (!del)
    gm_residual_value (b, e->args[0]);
  if (e->fn == b->r->request->func->func_globals) {
    gm_residual_emit (b, del ? GM_INSN_DELETE_GLOBAL : GM_INSN_STORE_GLOBAL, 0, e->name);
    return;
  }
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, e->fn);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, e->name);
  gm_residual_emit (b, del ? GM_INSN_DELETE_SUBSCR : GM_INSN_STORE_SUBSCR, 0, NULL);
}

static void
emit_effect (GmResidualBuilder *b, const GmEffect *e)
{
  b->line = e->line;
  switch (e->kind) {
  case GM_EFFECT_CALL:
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, e->fn);
    for (uint32_t k = 0; k < e->n; k++)
      gm_residual_value (b, e->args[k]);
    gm_residual_emit (b, GM_INSN_CALL, e->n, NULL);
    gm_residual_emit (b, GM_INSN_POP_TOP, 0, NULL);
    break;
  case GM_EFFECT_SETITEM:
    gm_residual_value (b, e->args[2]);
    gm_residual_value (b, e->args[0]);
    gm_residual_value (b, e->args[1]);
    gm_residual_emit (b, GM_INSN_STORE_SUBSCR, 0, NULL);
    break;
  case GM_EFFECT_DELITEM:
    gm_residual_value (b, e->args[0]);
    gm_residual_value (b, e->args[1]);
    gm_residual_emit (b, GM_INSN_DELETE_SUBSCR, 0, NULL);
    break;
  case GM_EFFECT_SETATTR:
    gm_residual_value (b, e->args[1]);
    gm_residual_value (b, e->args[0]);
    gm_residual_emit (b, GM_INSN_STORE_ATTR, 0, e->name);
    break;
  case GM_EFFECT_DELATTR:
    gm_residual_value (b, e->args[0]);
    gm_residual_emit (b, GM_INSN_DELETE_ATTR, 0, e->name);
    break;
  case GM_EFFECT_GLOBAL:
    emit_global (b, e);
    break;
  case GM_EFFECT_CELL:
    emit_cell_store (b, e);
    break;
  case GM_EFFECT_HOOK:
    if (e->n == 1)
      gm_hook_emit_retain (b, e->args[0], e->name);
    else
      gm_hook_emit (b, e->args[2]);
    break;
  }
}

void
gm_residual_fill_late (GmResidualBuilder *b, const GmTracker *t)
{
  g_ptr_array_add (b->unfilled, (gpointer) t);
}

/* Emits the stores of the contents of new cells and classes, once all functions that capture them
 * can be built. */
static void
fill_cells (GmResidualBuilder *b)
{
  for (uint32_t i = 0; i < b->unfilled->len && !b->r->stop; i++) { /* the array grows meanwhile */
    const GmTracker *cell = b->unfilled->pdata[i], *contents = gm_contents_of (b->r, cell);
    if (cell->kind == &gm_kind_class) {
      gm_class_made_fill (b, cell);
      continue;
    }
    if (contents == &gm_tracker_null)
      continue;
    gm_residual_value (b, contents);
    gm_residual_emit (b, GM_INSN_STORE_DEREF, gm_residual_cell (b, cell), NULL);
  }
}

/* -- Numbering ------------------------------------------------------------- */

static void
add_slots (GmRecorder *r, GmSlot *slots, uint32_t first, uint32_t n, const char *stem, uint8_t kind)
{
  for (uint32_t i = 0; i < n; i++) {
    g_autofree char *name = g_strdup_printf ("%s%u", stem, i);
    slots[first + i] = (GmSlot){ gm_record_take (r, PyUnicode_InternFromString (name)), kind };
  }
}

static GmResidual *
number (GmResidualBuilder *b)
{
  GmRecorder *r = b->r;
  GmResidual *res = gm_arena_new0 (r->arena, GmResidual);
  uint32_t n_in = b->sources->len, n_out = b->outputs->len, n_temp = g_hash_table_size (b->temps),
           n_cell = g_hash_table_size (b->cells);
  uint32_t first[6] = {
    0, 0, n_in, n_in + n_out, n_in + n_out + n_temp, n_in + n_out + n_temp + n_cell
  };
  res->n_in_slots = n_in;
  res->n_args = n_in + n_out;
  res->n_free = gm_root_n_free (r);
  res->first_free = first[5];
  res->n_slots = first[5] + res->n_free;
  res->slots = gm_arena_newn (r->arena, GmSlot, res->n_slots + 1);
  add_slots (r, res->slots, first[1], n_in, "in", GM_SLOT_ARG | GM_SLOT_LOCAL);
  add_slots (r, res->slots, first[2], n_out, "out", GM_SLOT_ARG | GM_SLOT_LOCAL);
  add_slots (r, res->slots, first[3], n_temp, "t", GM_SLOT_LOCAL);
  add_slots (r, res->slots, first[4], n_cell, "c", GM_SLOT_CELL);
  /* A cell has no name of the user's, since functions that capture it know it by position. */
  for (uint32_t i = 0; i < res->n_free; i++)
    res->slots[res->first_free + i] = (GmSlot){ gm_root_free_slot (r, i)->name, GM_SLOT_FREE };
  res->n_insns = b->insns->len;
  res->insns = gm_arena_copy (r->arena, b->insns->data, b->insns->len * sizeof (GmInsn));
  for (uint32_t i = 0; i < res->n_insns; i++)
    if (gm_insns[res->insns[i].op].operand == GM_OPERAND_SLOT)
      res->insns[i].arg =
          first[VAR_CLASS (res->insns[i].arg) >> 24] + VAR_INDEX (res->insns[i].arg);
  res->stack_size = (uint32_t) b->max_depth + 2;
  return res;
}

/* -- The short form -------------------------------------------------------- */

typedef struct {
  GmResidualBuilder *b;
  GHashTable *seen; /* containers met so far: a container that occurs twice needs the long form */
} Tree;

static bool
to_tree (Tree *k, const GmTracker *t, GmReturn *out)
{
  GmRecorder *r = k->b->r;
  const GmSource *s = t->source;
  if (s && s->kind != GM_SOURCE_CONST) {
    *out = (GmReturn){ .kind = GM_RETURN_SLOT, .index = index_in (k->b->sources, s) };
    return true;
  }
  if (t->kind == &gm_kind_constant || (s && t->real)) {
    *out = (GmReturn){ .kind = GM_RETURN_CONST, .obj = Py_NewRef (t->real) };
    return true;
  }
  if (t->kind == &gm_kind_tensor && gm_tensor_has_attributes (r, t))
    return false;
  if (t->kind == &gm_kind_tensor) {
    *out =
        (GmReturn){ .kind = GM_RETURN_OUTPUT, .index = VAR_INDEX (gm_residual_output (k->b, t)) };
    return true;
  }
  const GmTracker *contents = t;
  bool size = t->kind == &gm_kind_tuple && t->data == gm_host.size_type
              && gm_host.size_type != &PyTuple_Type;
  if (t->kind == &gm_kind_tuple && t->data == NULL && t->number == 0)
    out->kind = GM_RETURN_TUPLE;
  else if (size && t->number == 0)
    out->kind = GM_RETURN_SIZE;
  else if (t->kind == &gm_kind_list)
    out->kind = GM_RETURN_LIST;
  else if (t->kind == &gm_kind_dict && t->n == 0)
    out->kind = GM_RETURN_DICT;
  else
    return false;
  if (t->n == 0 && t->kind == &gm_kind_tuple && !size) { /* CPython has only one empty tuple */
    *out = (GmReturn){ .kind = GM_RETURN_CONST, .obj = PyTuple_New (0) };
    return true;
  }
  if (t->kind != &gm_kind_tuple)
    contents = gm_contents_of (r, t);
  if (!g_hash_table_add (k->seen, (gpointer) t))
    return false;
  out->items = g_new0 (GmReturn, MAX (contents->n, 1));
  for (uint32_t i = 0; i < contents->n; i++) {
    out->n = i + 1;
    if (!to_tree (k, contents->items[i], &out->items[i]))
      return false;
  }
  out->n = contents->n;
  return true;
}

static GmReturn *
short_form (GmResidualBuilder *b, const GmTracker *value)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  GmReturn *ret = g_new0 (GmReturn, 1);
  if (to_tree (&(Tree){ b, seen }, value, ret))
    return ret;
  gm_return_free (ret);
  g_ptr_array_set_size (b->sources, 0);
  g_ptr_array_set_size (b->outputs, 0);
  return NULL;
}

static void
slots_in_tree (GmReturn *ret, const uint32_t *slots)
{
  if (ret->kind == GM_RETURN_SLOT)
    ret->index = slots[ret->index];
  for (uint32_t i = 0; i < ret->n; i++)
    slots_in_tree (&ret->items[i], slots);
}

/* -- Guards for mutation --------------------------------------------------- */

static bool
is_mutated (const GmRecorder *r, GmValueId value)
{
  for (uint32_t i = 0; i < r->mutated->len; i++)
    if (g_array_index (r->mutated, GmValueId, i) == value)
      return true;
  return false;
}

/* True if the object has a dict for its attributes, and it is not `dict`. */
static bool
has_own_dict (PyObject *object, PyObject *dict)
{
  PyObject **own = _PyObject_GetDictPtr (object);
  return own && *own != dict && PyDict_CheckExact (dict);
}

/* Guards that the list, dict, set or object's dict that t's effects change is not the object over
 * which the given iterator walks. */
static void
guard_not_read (GmRecorder *r, const GmTracker *t, const GmTracker *iterator)
{
  Py_ssize_t at = gm_given_sequence_offset (Py_TYPE (iterator->real));
  PyObject *of = at ? *(PyObject **) ((char *) iterator->real + at) : NULL,
           *name = gm_record_take (r, PyUnicode_InternFromString ("sequence"));
  bool dict = at && gm_given_kind (Py_TYPE (iterator->real)) >= GM_GIVEN_TABLE;
  PyObject **own = dict && t->kind == &gm_kind_object ? _PyObject_GetDictPtr (t->real) : NULL;
  bool changes =
      dict ? t->kind == &gm_kind_dict || t->kind == &gm_kind_set || own : t->kind == &gm_kind_list;
  if (!changes || at == 0 || t->real == of || (own && *own == of))
    return;
  const GmSource *changed =
      own ? gm_source_part (r, t->source, GM_SOURCE_INSTANCE_DICT, 0, NULL) : t->source;
  if (of == NULL) /* another call's iterator may go on, and would see the change */
    gm_guard (r, MEMBER_ABSENT, iterator->source, .index = at, .key = name);
  else
    gm_guard (r, DISTINCT, changed, .other = gm_source_member (r, iterator->source, at, name));
}

/* Guards, for each object that an effect changes, that objects of the same type which were distinct
 * while recording are distinct in each call; that an existing dict is not the dict of a changed
 * object, and conversely; and that a given iterator does not walk over a changed container. */
static void
guard_distinct (GmRecorder *r)
{
  g_autoptr (GHashTable) done = g_hash_table_new (NULL, NULL);
  for (uint32_t i = 0; i < r->effects->len; i++) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    bool apart = e->kind != GM_EFFECT_GLOBAL && e->kind != GM_EFFECT_HOOK;
    const GmTracker *t = apart ? e->args[0] : NULL;
    if (t && !g_hash_table_add (done, (gpointer) t))
      continue;
    for (uint32_t k = 0; t && t->source && k < r->wrapped->len; k++) {
      const GmTracker *o = r->wrapped->pdata[k];
      if (o->kind == &gm_kind_given_iterator && o->source)
        guard_not_read (r, t, o);
      if (o->real != t->real && o->source && (o->kind == t->kind || gm_storage (o))
          && Py_TYPE (o->real) == Py_TYPE (t->real))
        gm_guard (r, DISTINCT, t->source, .other = o->source);
      const GmTracker *dict = t->kind == &gm_kind_dict ? t : o, *object = dict == t ? o : t;
      if (dict->kind == &gm_kind_dict && object->kind == &gm_kind_object && dict->source
          && object->source && has_own_dict (object->real, dict->real))
        gm_guard (r, DISTINCT, dict->source,
                  .other = gm_source_part (r, object->source, GM_SOURCE_INSTANCE_DICT, 0, NULL));
    }
  }
}

/* Adds an effect that sets the thread's autocast mode if the region ends inside of an autocast
 * context; contexts that were left have restored the mode. */
static void
leave_autocast (GmRecorder *r)
{
  uint8_t now = gm_autocast_mode_get (r),
          before = (uint8_t) (r->request->env.modes >> GM_MODE_AUTOCAST_SHIFT);
  for (int device = GM_DEVICE_CPU; device <= GM_DEVICE_CUDA; device++) {
    GmDtype dtype = gm_autocast_dtype (now, device);
    if (dtype == gm_autocast_dtype (before, device))
      continue;
    const GmTracker *args[] = {
      dtype == GM_N_DTYPES ? gm_none (r) : gm_from_constant (r, gm_host.dtype_object (dtype)),
      gm_from_constant (r, gm_record_take (r, PyUnicode_FromString (gm_device_name (device))))
    };
    gm_effect (r, GM_EFFECT_CALL, gm_host.set_autocast, NULL, args, 2);
  }
}

static void
leave_draws (GmRecorder *r)
{
  bool now = gm_refuses_draws_get (r);
  if (now == ((r->request->env.modes & GM_MODE_REFUSES_DRAWS) != 0))
    return;
  const GmTracker *arg = gm_from_bool (r, now);
  gm_effect (r, GM_EFFECT_CALL, gm_host.refuse_draws, NULL, &arg, 1);
}

/* Returns the effects to replay, a new array: operations on objects that existed before, checks of
 * numbers unknown while recording, and changes of the thread's modes. With keep_objects the
 * operations are left out. */
static GPtrArray *
effects_to_replay (GmRecorder *r)
{
  GPtrArray *all = gm_effects_merged (r), *kept;
  if (!r->request->keep_objects)
    return all;
  kept = g_ptr_array_new ();
  for (uint32_t i = 0; i < all->len; i++) {
    const GmEffect *e = all->pdata[i];
    bool sets_mode = e->fn == gm_host.set_autocast || e->fn == gm_host.refuse_draws
                     || e->fn == gm_host.fence_raise || e->fn == gm_host.fence_lower;
    if (e->kind == GM_EFFECT_CALL && (sets_mode || (e->n && e->args[0]->kind == &gm_kind_number)))
      g_ptr_array_add (kept, (gpointer) e);
  }
  g_ptr_array_free (all, TRUE);
  return kept;
}

/* -- The end of a recording ------------------------------------------------ */

static bool
is_number_input (const GmInput *in)
{
  const GmTracker *t = in->tracker;
  return t && (t->kind == &gm_kind_size || t->source->kind == GM_SOURCE_NUMBER);
}

/* Returns the source of an input that is a number and differs, in the call at hand, from the number
 * that was recorded, which no guard detects: code that ran while recording has changed it. NULL:
 * there is none. */
static const GmSource *
changed_number (const GmRecorder *r, const GmRecording *rec)
{
  const GmRecordRequest *req = r->request;
  uint32_t failed, n_numbers = 0;
  for (uint32_t i = 0; i < rec->n_inputs; i++)
    n_numbers += is_number_input (&g_array_index (r->inputs, GmInput, i));
  g_autofree PyObject **slots = n_numbers ? g_new0 (PyObject *, rec->guards->n_slots + 1) : NULL;
  if (!slots || !gm_guards_run (rec->guards, &req->env, req->locals, req->func, slots, &failed))
    return NULL;
  for (uint32_t i = 0; i < rec->n_inputs; i++) {
    const GmTracker *t = g_array_index (r->inputs, GmInput, i).tracker;
    if (!is_number_input (&g_array_index (r->inputs, GmInput, i)))
      continue;
    PyObject *now = slots[rec->inputs[i].slot];
    bool same = t->kind == &gm_kind_size
                    ? gm_long_equals (now, t->real)
                    : memcmp (gm_tensor_data (gm_host_tensor (now)),
                              gm_tensor_data (gm_host_tensor (t->real)), sizeof (double))
                          == 0;
    if (!same)
      return t->source;
  }
  return NULL;
}

static void
finish_guards (GmRecorder *r, GmResidualBuilder *b, GmRecording *rec, uint32_t *slots)
{
  g_autofree uint32_t *slot_of = g_new (uint32_t, r->sources->len + 1);
  g_autoptr (GPtrArray) extra = g_ptr_array_new ();
  for (uint32_t i = 0; i < r->inputs->len; i++) {
    const GmTracker *t = g_array_index (r->inputs, GmInput, i).tracker;
    if (t)
      g_ptr_array_add (extra, (gpointer) t->source);
  }
  for (uint32_t i = 0; i < b->sources->len; i++)
    g_ptr_array_add (extra, b->sources->pdata[i]);
  gm_random_draws_sources (r, extra);
  rec->guards = gm_guards_compile (r, (const GmSource *const *) extra->pdata, extra->len, slot_of);
  for (uint32_t i = 0; i < b->sources->len; i++)
    slots[i] = slot_of[((const GmSource *) b->sources->pdata[i])->number];
  rec->n_inputs = r->inputs->len;
  rec->inputs = gm_arena_newn (r->arena, GmRecordInput, r->inputs->len + 1);
  for (uint32_t i = 0; i < r->inputs->len; i++) {
    const GmInput *in = &g_array_index (r->inputs, GmInput, i);
    const GmSource *s = in->tracker ? in->tracker->source : NULL;
    rec->inputs[i] = (GmRecordInput){ in->value, s ? slot_of[s->number] : GM_SLOT_RNG,
                                      s ? s->name : "the generator", is_mutated (r, in->value),
                                      s && in->tracker->kind == &gm_kind_size };
  }
  rec->draws = gm_random_draws_finish (r, slot_of);
  rec->n_draws = r->draws->len;
  rec->n_looks = r->looks->len;
  rec->looks = gm_arena_copy (r->arena, r->looks->data, r->looks->len * sizeof (GmGraphLook));
  const GmRecordRequest *req = r->request;
  g_autofree char *failed = gm_guards_explain (rec->guards, &req->env, req->locals, req->func);
  const GmSource *changed = failed ? NULL : changed_number (r, rec);
  if (failed || changed)
    gm_record_break (r, GM_BREAK_GUARD_FAILED_AT_BIRTH, failed ? failed : changed->name);
}

/* Appends the value v as an output of the graph that nothing reads. */
static void
give_out (GmRecorder *r, GmValueId v, GPtrArray *outputs)
{
  g_ptr_array_add (outputs, (gpointer) gm_tensor_new_tracker (r, v));
  gm_graph_add_output (r->graph, v, GM_OUTPUT_USER);
}

/* Makes the value of a node with effects an output if the graph has none: a graph without outputs
 * does not run. */
static void
give_out_effects (GmRecorder *r, GPtrArray *outputs)
{
  for (uint32_t i = 0; i < r->graph->nodes->len && !r->stop; i++)
    if (gm_op_has_effects (gm_graph_node (r->graph, i)->op)) {
      give_out (r, gm_graph_node (r->graph, i)->out, outputs);
      return;
    }
}

/* Makes the generator's state after the graph an output, which only the plan reads, if the graph
 * determines how much is drawn. Returns the index of the output, or GM_NO_ID. */
static uint32_t
give_out_generator (GmRecorder *r, GPtrArray *outputs)
{
  GmValueId v = r->builder.rng;
  if (r->stop || v == GM_NO_ID || gm_graph_value (r->graph, v)->node == GM_NO_ID)
    return GM_NO_ID;
  g_ptr_array_add (outputs, (gpointer) gm_tensor_new_tracker (
                                r, gm_id_from_val (gm_graph_builder_state (&r->builder))));
  r->builder.rng_taken = 0;
  return outputs->len - 1;
}

/* Adds checks of the assumed conditions on numbers as outputs of a graph that writes to arguments.
 * The call's own checks are among the effects, after those writes; with these outputs the graph
 * itself fails. */
static void
give_out_truths (GmRecorder *r, GPtrArray *outputs)
{
  for (uint32_t i = 0; i < r->effects->len && r->mutated->len && !r->stop; i++) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    GmVal truth = e->kind == GM_EFFECT_CALL && e->n == 2 && gm_is_condition (e->args[0])
                      ? gm_number_truth (r, e->args[0])
                      : NULL;
    GmVal check = truth ? gm_graph_check_truth (&r->builder, truth) : NULL;
    if (check)
      give_out (r, gm_id_from_val (check), outputs);
  }
}

/* Adds outputs that fail where operations whose results are not used would fail. */
static void
give_out_checks (GmRecorder *r, GPtrArray *outputs)
{
  g_autoptr (GArray) checks = g_array_new (FALSE, FALSE, sizeof (GmValueId));
  if (r->stop)
    return;
  give_out_truths (r, outputs);
  gm_graph_add_checks (&r->builder, checks);
  for (uint32_t i = 0; i < checks->len; i++)
    give_out (r, g_array_index (checks, GmValueId, i), outputs);
  if (gm_b_failed (&r->builder.base)) {
    g_autoptr (GError) why = g_steal_pointer (&r->builder.base.error);
    gm_record_break (r, GM_BREAK_ESCAPE, why->message);
  }
}

void
gm_residual_finish (GmRecorder *r, const GmTracker *value, GmRecording *rec)
{
  GmResidualBuilder b = {
    .r = r,
    .insns = g_array_new (FALSE, TRUE, sizeof (GmInsn)),
    .sources = g_ptr_array_new (),
    .outputs = g_ptr_array_new (),
    .temps = g_hash_table_new (NULL, NULL),
    .cells = g_hash_table_new (NULL, NULL),
    .unfilled = g_ptr_array_new (),
    .busy = g_hash_table_new (NULL, NULL),
    .line = r->request->code->code->co_firstlineno,
  };
  rec->grad = gm_grad_mode_get (r);
  rec->sets_grad = rec->grad != ((r->request->env.modes & GM_MODE_GRAD) != 0);
  gm_generators_finish (r);
  leave_autocast (r);
  leave_draws (r);
  gm_fence_trace_leave (r);
  guard_distinct (r);
  g_autoptr (GPtrArray) effects = effects_to_replay (r);
  rec->n_effects = effects->len;
  rec->ret = effects->len ? NULL : short_form (&b, value);
  if (rec->ret == NULL) {
    for (uint32_t i = 0; i < effects->len && !r->stop; i++)
      emit_effect (&b, effects->pdata[i]);
    gm_residual_value (&b, value);
    fill_cells (&b);
    gm_residual_emit (&b, GM_INSN_RETURN_VALUE, 0, NULL);
  }
  rec->rng_output = give_out_generator (r, b.outputs);
  for (uint32_t i = 0; i < b.outputs->len; i++)
    gm_graph_add_output (r->graph, (GmValueId) gm_contents_of (r, b.outputs->pdata[i])->number,
                         GM_OUTPUT_USER);
  give_out_checks (r, b.outputs);
  if (b.outputs->len == 0)
    give_out_effects (r, b.outputs);
  uint32_t *slots = gm_arena_newn (r->arena, uint32_t, b.sources->len + 1);
  rec->fixed = gm_size_settle (r);
  rec->size_places =
      gm_arena_copy (r->arena, r->size_places->data, r->size_places->len * sizeof (GmWhere));
  rec->n_size_places = r->size_places->len;
  if (!r->stop)
    finish_guards (r, &b, rec, slots);
  if (!r->stop && rec->ret)
    slots_in_tree (rec->ret, slots);
  else if (!r->stop) {
    rec->residual = number (&b);
    rec->residual->in_slots = slots;
  }
  if (r->stop) {
    g_clear_pointer (&rec->guards, gm_guards_unref);
    g_clear_pointer (&rec->ret, gm_return_free);
    rec->n_inputs = rec->n_draws = 0;
  } else {
    rec->rng_taken = r->builder.rng_taken;
    rec->graph = g_steal_pointer (&r->graph);
  }
  g_array_unref (b.insns);
  g_ptr_array_unref (b.sources);
  g_ptr_array_unref (b.outputs);
  g_hash_table_unref (b.temps);
  g_hash_table_unref (b.cells);
  g_ptr_array_unref (b.unfilled);
  g_hash_table_unref (b.busy);
}
