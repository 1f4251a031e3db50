/* SPDX-License-Identifier: Apache-2.0
 * guard_run.c -- constants in one list or tuple, checked together.
 *
 * A constant in a list needs two records, one that loads it and one that compares it. A RUN record
 * precedes many such pairs and has the objects that they compare with: as long as the list holds
 * the same objects, or numbers and strings that are equal to them, all of the records hold and are
 * skipped. Else the records are checked one by one, so that the first that fails has its own text.
 *
 * The objects that a run compares with are immutable, and the guards hold them, or are dead when an
 * object dies: no other object can be at its address. The list's type and length are checked before
 * its first item is loaded, and all its items are gathered there.
 */
#include "core/guard/guard.h"

#include "core/objects/key_type.h"

typedef struct {
  PyObject *object;
  uint32_t at;
  bool by_value; /* any equal object matches, too */
} Item;

struct GmGuardRun {
  bool is_list;
  uint32_t n;
  Item items[];
};

/* -- The check --------------------------------------------------------------------------------- */

static bool
equal (const Item *i, PyObject *o)
{
  if (!i->by_value || Py_TYPE (o) != Py_TYPE (i->object))
    return false;
  if (PyFloat_CheckExact (o))
    return gm_float_bits (o) == gm_float_bits (i->object);
  if (PyUnicode_CheckExact (o))
    return gm_str_equal (o, i->object);
  return gm_long_equals (o, i->object);
}

bool
gm_guard_run_holds (const GmGuardRun *run, PyObject *container)
{
  PyObject *const *now =
      run->is_list ? ((PyListObject *) container)->ob_item : ((PyTupleObject *) container)->ob_item;
  for (const Item *i = run->items, *end = i + run->n; i < end; i++)
    if (now[i->at] != i->object && !equal (i, now[i->at]))
      return false;
  return true;
}

uint32_t
gm_guard_run_n (const GmGuardRun *run)
{
  return run->n;
}

/* -- Making ------------------------------------------------------------------------------------ */

/* True for a check that certainly holds for the very object that it compares with. */
static bool
by_identity (const GmCheck *c)
{
  switch ((GmRecordKind) c->kind) {
  case GM_GUARD_IS:
    return true;
  case GM_GUARD_INT:
    return PyLong_CheckExact (c->obj);
  case GM_GUARD_FLOAT:
    return PyFloat_CheckExact (c->obj);
  case GM_GUARD_STR:
    return PyUnicode_CheckExact (c->obj);
  case GM_GUARD_EQUALS:
    return gm_is_constant_type (Py_TYPE (c->obj));
  default:
    return false;
  }
}

bool
gm_guard_run_takes (const GmCheck *load, const GmCheck *check)
{
  return (load->kind == GM_SOURCE_LIST_ITEM || load->kind == GM_SOURCE_TUPLE_ITEM)
         && check->in == load->out && by_identity (check);
}

GmGuardRun *
gm_guard_run_new (const GmCheck *pairs, uint32_t n)
{
  GmGuardRun *run = g_malloc (sizeof *run + n * sizeof (Item));
  *run = (GmGuardRun){ .is_list = pairs->kind == GM_SOURCE_LIST_ITEM, .n = n };
  for (uint32_t i = 0; i < n; i++) {
    const GmCheck *load = &pairs[2 * i], *check = load + 1;
    g_assert (gm_guard_run_takes (load, check) && load->kind == pairs->kind
              && load->in == pairs->in);
    run->items[i] = (Item){ .object = check->obj,
                            .at = (uint32_t) load->index,
                            .by_value = check->kind == GM_GUARD_INT || check->kind == GM_GUARD_FLOAT
                                        || check->kind == GM_GUARD_STR };
  }
  return run;
}
