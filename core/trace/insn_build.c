/* SPDX-License-Identifier: Apache-2.0
 * insn_build.c -- instructions that make and take apart tuples, lists, sets, dicts, slices and
 * strings.
 */
#include "core/trace/kinds.h"
#include "core/trace/exception.h"
#include "core/trace/insn_handlers.h"

#include <string.h>

/* Pops the top n values and returns them in a new array of the arena, bottom first. */
static const GmTracker **
pop_many (GmRecorder *r, uint32_t n)
{
  const GmTracker **items = gm_tracker_array (r, n);
  for (uint32_t k = n; k-- > 0;)
    items[k] = gm_pop (r);
  return items;
}

void
gm_insn_build_tuple (GmRecorder *r, const GmInsn *i)
{
  const GmTracker **items = pop_many (r, i->arg);
  gm_push (r, gm_tuple_new (r, items, i->arg));
}

void
gm_insn_build_list (GmRecorder *r, const GmInsn *i)
{
  const GmTracker **items = pop_many (r, i->arg);
  gm_push (r, gm_list_new (r, items, i->arg));
}

void
gm_insn_build_set (GmRecorder *r, const GmInsn *i)
{
  const GmTracker **items = pop_many (r, i->arg);
  gm_push (r, gm_set_new (r, items, i->arg));
}

void
gm_insn_build_map (GmRecorder *r, const GmInsn *i)
{
  const GmTracker **items = pop_many (r, 2 * i->arg);
  const GmTracker *d = gm_dict_new (r);
  for (uint32_t k = 0; k < i->arg && !r->stop; k++)
    gm_dict_store (r, d, items[2 * k], items[2 * k + 1]);
  gm_push (r, d);
}

void
gm_insn_build_key_map (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *keys = gm_realize (r, gm_pop (r));
  const GmTracker **values = pop_many (r, i->arg);
  const GmTracker *d = gm_dict_new (r);
  for (uint32_t k = 0; k < i->arg && !r->stop; k++)
    gm_dict_store (r, d, gm_realize (r, keys->items[k]), values[k]);
  gm_push (r, d);
}

void
gm_insn_build_slice (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *step = i->arg == 3 ? gm_pop (r) : gm_none (r), *stop = gm_pop (r),
                  *start = gm_pop (r);
  gm_push (r, gm_slice_new (r, start, stop, step));
}

/* -- Strings --------------------------------------------------------------- */

void
gm_insn_build_string (GmRecorder *r, const GmInsn *i)
{
  const GmTracker **items = pop_many (r, i->arg);
  PyObject *parts = gm_record_take (r, PyTuple_New (i->arg));
  for (uint32_t k = 0; k < i->arg && !r->stop; k++)
    PyTuple_SET_ITEM (parts, k, Py_NewRef (gm_realize (r, items[k])->real));
  if (r->stop)
    return;
  PyObject *empty = gm_record_take (r, PyUnicode_FromString (""));
  gm_push (r, gm_from_constant_take (r, PyUnicode_Join (empty, parts)));
}

void
gm_insn_format_value (GmRecorder *r, const GmInsn *i)
{
  PyObject *spec = i->arg & 4 ? gm_constant (r, gm_pop (r)) : NULL;
  const GmTracker *t = gm_pop (r);
  if ((i->arg & 4) && spec == NULL)
    gm_record_break (r, GM_BREAK_CALL_METHOD, "__format__", gm_type_text (r, t));
  gm_push (r, gm_format (r, t, i->arg & 3, spec));
}

/* -- Additions to containers on the stack ---------------------------------- */

static const GmTracker *
method (GmRecorder *r, const GmTracker *t, const char *name)
{
  return gm_getattr (r, t, gm_record_take (r, PyUnicode_InternFromString (name)));
}

static void
add_to (GmRecorder *r, const GmInsn *i, const char *name)
{
  const GmTracker *value = gm_pop (r);
  const GmTracker *t = gm_peek (r, i->arg);
  gm_call_n (r, method (r, t, name), &value, 1);
}

void
gm_insn_list_append (GmRecorder *r, const GmInsn *i)
{
  add_to (r, i, "append");
}

void
gm_insn_list_extend (GmRecorder *r, const GmInsn *i)
{
  if (!gm_raise_not_iterable (r, gm_peek (r, 1), "Value after * must be an iterable, not %.200s"))
    add_to (r, i, "extend");
}

void
gm_insn_list_to_tuple (GmRecorder *r, const GmInsn *i)
{
  g_autoptr (GPtrArray) all = gm_iterate (r, gm_pop (r));
  if (all)
    gm_push (r, gm_tuple_new (r, (const GmTracker *const *) all->pdata, all->len));
}

void
gm_insn_set_add (GmRecorder *r, const GmInsn *i)
{
  add_to (r, i, "add");
}

void
gm_insn_set_update (GmRecorder *r, const GmInsn *i)
{
  add_to (r, i, "update");
}

void
gm_insn_map_add (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *value = gm_pop (r), *key = gm_pop (r);
  if (!r->stop)
    gm_setitem (r, gm_peek (r, i->arg), key, value);
}

/* DICT_UPDATE, ** in a dict display: unlike dict.update (), accepts only mappings, which have keys
 * (). */
void
gm_insn_dict_update (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *from = gm_realize (r, gm_pop (r)), *to = gm_peek (r, i->arg);
  if (r->stop)
    return;
  PyTypeObject *type = gm_type_of (r, from);
  bool maps =
      from->kind == &gm_kind_dict || gm_dict_of (r, from)
      || (from->kind == &gm_kind_object
              ? gm_getattr_opt (r, from, gm_record_take (r, PyUnicode_InternFromString ("keys")))
                    != NULL
              : type && PyObject_HasAttrString ((PyObject *) type, "keys"));
  if (type && !maps && !r->stop)
    gm_raise_new (r, PyExc_TypeError, "'%.200s' object is not a mapping", type->tp_name);
  else if (!r->stop)
    gm_call_n (r, method (r, to, "update"), &from, 1);
}

/* DICT_MERGE, ** in a call: a key that is there already is an error. */
void
gm_insn_dict_merge (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *from = gm_realize (r, gm_pop (r)), *to = gm_peek (r, i->arg);
  if (!r->stop && from->kind != &gm_kind_dict) {
    gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "** of something that is no dict");
    return;
  }
  g_autoptr (GPtrArray) keys = gm_iterate (r, from);
  for (uint32_t k = 0; keys && k < keys->len && !r->stop; k++)
    if (gm_truth (r, gm_contains (r, to, keys->pdata[k])))
      gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "a keyword argument is given twice");
  if (!r->stop)
    gm_call_n (r, method (r, to, "update"), &from, 1);
}

/* -- Unpacking ------------------------------------------------------------- */

/* Returns the first n values of the iterator, or fewer if it ends, in a new array, and reads no
 * further; NULL after a break. */
static GPtrArray *
first_of (GmRecorder *r, const GmTracker *it, uint32_t n)
{
  const GmTracker *item;
  GPtrArray *all = g_ptr_array_new ();
  while (all->len < n && !r->stop && (item = gm_next (r, it)) != NULL)
    g_ptr_array_add (all, (gpointer) item);
  if (r->stop)
    g_clear_pointer (&all, g_ptr_array_unref);
  return all;
}

static const GmTracker *
iter_of_unpacked (GmRecorder *r)
{
  const GmTracker *t = gm_pop (r);
  return gm_raise_not_iterable (r, t, "cannot unpack non-iterable %.200s object")
             ? &gm_tracker_poison
             : gm_iter (r, t);
}

void
gm_insn_unpack_sequence (GmRecorder *r, const GmInsn *i)
{
  g_autoptr (GPtrArray) all = first_of (r, iter_of_unpacked (r), i->arg + 1);
  if (all == NULL)
    return;
  if (all->len < i->arg) {
    gm_raise_new (r, PyExc_ValueError, "not enough values to unpack (expected %u, got %u)", i->arg,
                  all->len);
    return;
  }
  if (all->len > i->arg) {
    gm_raise_new (r, PyExc_ValueError, "too many values to unpack (expected %u)", i->arg);
    return;
  }
  for (uint32_t k = all->len; k-- > 0;)
    gm_push (r, all->pdata[k]);
}

void
gm_insn_unpack_ex (GmRecorder *r, const GmInsn *i)
{
  uint32_t before = i->arg & 255, after = i->arg >> 8;
  const GmTracker *it = iter_of_unpacked (r);
  g_autoptr (GPtrArray) all = first_of (r, it, before);
  if (all && all->len == before) {
    g_autoptr (GPtrArray) rest = gm_collect (r, it);
    for (uint32_t k = 0; rest && k < rest->len; k++)
      g_ptr_array_add (all, rest->pdata[k]);
  }
  if (all == NULL || r->stop)
    return;
  if (all->len < before + after) {
    gm_raise_new (r, PyExc_ValueError, "not enough values to unpack (expected at least %u, got %u)",
                  before + after, all->len);
    return;
  }
  const GmTracker *const *items = (const GmTracker *const *) all->pdata;
  for (uint32_t k = 0; k < after; k++)
    gm_push (r, items[all->len - 1 - k]);
  gm_push (r, gm_list_new (r, items + before, all->len - before - after));
  for (uint32_t k = before; k-- > 0;)
    gm_push (r, items[k]);
}
