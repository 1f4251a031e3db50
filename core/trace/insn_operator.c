/* SPDX-License-Identifier: Apache-2.0
 * insn_operator.c -- operators, subscripts and attributes.
 */
#include "core/trace/kinds.h"
#include "core/trace/insn_handlers.h"

void
gm_insn_unary_positive (GmRecorder *r, const GmInsn *i)
{
  gm_push (r, gm_unary (r, GM_UN_POS, gm_pop (r)));
}

void
gm_insn_unary_negative (GmRecorder *r, const GmInsn *i)
{
  gm_push (r, gm_unary (r, GM_UN_NEG, gm_pop (r)));
}

void
gm_insn_unary_invert (GmRecorder *r, const GmInsn *i)
{
  gm_push (r, gm_unary (r, GM_UN_INVERT, gm_pop (r)));
}

void
gm_insn_unary_not (GmRecorder *r, const GmInsn *i)
{
  gm_push (r, gm_from_bool (r, !gm_truth (r, gm_pop (r))));
}

void
gm_insn_to_bool (GmRecorder *r, const GmInsn *i)
{
  gm_push (r, gm_from_bool (r, gm_truth (r, gm_pop (r))));
}

void
gm_insn_binary_op (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *b = gm_pop (r), *a = gm_pop (r);
  bool inplace = i->arg >= GM_N_BIN;
  gm_push (r, gm_binary (r, (GmBinary) (inplace ? i->arg - GM_N_BIN : i->arg), a, b, inplace));
}

void
gm_insn_compare_op (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *b = gm_pop (r), *a = gm_pop (r);
  gm_push (r, gm_compare (r, (int) i->arg, a, b));
}

void
gm_insn_is_op (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *b = gm_pop (r), *a = gm_pop (r);
  const GmTracker *same = gm_is (r, a, b);
  gm_push (r, i->arg && !r->stop ? gm_from_bool (r, same->real != Py_True) : same);
}

void
gm_insn_contains_op (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *container = gm_pop (r), *item = gm_pop (r);
  const GmTracker *found = gm_contains (r, container, item);
  gm_push (r, i->arg && !r->stop ? gm_from_bool (r, found->real != Py_True) : found);
}

void
gm_insn_binary_subscr (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *key = gm_pop (r), *t = gm_pop (r);
  gm_push (r, gm_getitem (r, t, key));
}

void
gm_insn_store_subscr (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *key = gm_pop (r), *t = gm_pop (r), *value = gm_pop (r);
  gm_setitem (r, t, key, value);
}

void
gm_insn_delete_subscr (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *key = gm_pop (r), *t = gm_pop (r);
  gm_setitem (r, t, key, NULL);
}

void
gm_insn_binary_slice (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *stop = gm_pop (r), *start = gm_pop (r), *t = gm_pop (r);
  gm_push (r, gm_getitem (r, t, gm_slice_new (r, start, stop, gm_none (r))));
}

void
gm_insn_store_slice (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *stop = gm_pop (r), *start = gm_pop (r), *t = gm_pop (r), *value = gm_pop (r);
  gm_setitem (r, t, gm_slice_new (r, start, stop, gm_none (r)), value);
}

/* -- Attributes ------------------------------------------------------------ */

void
gm_insn_load_attr (GmRecorder *r, const GmInsn *i)
{
  gm_push (r, gm_getattr (r, gm_pop (r), i->obj));
}

/* LOAD_METHOD: pushes [method, self] for a plain Python method, else [NULL, attribute]. */
void
gm_insn_load_method (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *v = gm_getattr (r, gm_pop (r), i->obj);
  if (v->kind == &gm_kind_method && v->real == NULL) {
    gm_push (r, v->items[0]);
    gm_push (r, v->items[1]);
  } else {
    gm_push (r, v->kind == &gm_kind_builtin ? &gm_tracker_null_method : &gm_tracker_null);
    gm_push (r, v);
  }
}

void
gm_insn_load_super_attr (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *self = gm_pop (r), *cls = gm_pop (r), *super = gm_realize (r, gm_pop (r));
  const GmTracker *args[2] = { cls, self };
  uint32_t n = i->arg || super->real == (PyObject *) &PySuper_Type ? 2 : 0;
  gm_push (r, gm_getattr (r, gm_call_n (r, super, args, n), i->obj));
}

void
gm_insn_store_attr (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *t = gm_pop (r), *value = gm_pop (r);
  gm_setattr (r, t, i->obj, value);
}

void
gm_insn_delete_attr (GmRecorder *r, const GmInsn *i)
{
  gm_setattr (r, gm_pop (r), i->obj, NULL);
}
