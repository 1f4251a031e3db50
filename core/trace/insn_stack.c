/* SPDX-License-Identifier: Apache-2.0
 * insn_stack.c -- instructions on the stack, variables, cells and globals.
 *
 * One slot table: a slot that is a cell variable or free variable holds a cell tracker once the
 * prologue has run.
 */
#include "core/trace/attrs.h"
#include "core/trace/builtin.h"
#include "core/trace/cell.h"
#include "core/trace/exception.h"
#include "core/trace/insns.h"

#include <string.h>

void
gm_insn_nop (GmRecorder *r, const GmInsn *i)
{
}

void
gm_insn_pop_top (GmRecorder *r, const GmInsn *i)
{
  gm_dropped (r, gm_pop (r));
}

void
gm_insn_push_null (GmRecorder *r, const GmInsn *i)
{
  gm_push (r, &gm_tracker_null);
}

void
gm_insn_copy (GmRecorder *r, const GmInsn *i)
{
  gm_push (r, gm_peek (r, i->arg));
}

void
gm_insn_swap (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *top = gm_peek (r, 1), *other = gm_peek (r, i->arg);
  gm_poke (r, 1, other);
  gm_poke (r, i->arg, top);
}

/* -- Variables ------------------------------------------------------------- */

static void
raise_unbound (GmRecorder *r, uint32_t slot)
{
  const char *name = PyUnicode_AsUTF8 (r->frame->code->slots[slot].name);
  if (r->frame->code->slots[slot].kind & GM_SLOT_FREE)
    gm_raise_new (r, PyExc_NameError,
                  "cannot access free variable '%s' where it is not associated with a value in "
                  "enclosing scope",
                  name);
  else
    gm_raise_new (r, PyExc_UnboundLocalError,
                  "cannot access local variable '%s' where it is not associated with a value",
                  name);
}

void
gm_insn_load_const (GmRecorder *r, const GmInsn *i)
{
  /* A tuple of the code is one object in all calls; the other constants are, too, but nobody can
   * tell. */
  gm_push (r, PyTuple_CheckExact (i->obj) ? gm_tuple_constant (r, i->obj)
                                          : gm_from_constant (r, i->obj));
}

void
gm_insn_load_fast (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *t = gm_local (r, i->arg);
  if (t)
    gm_push (r, t);
  else
    raise_unbound (r, i->arg);
}

void
gm_insn_load_fast_clear (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *t = gm_local (r, i->arg);
  gm_push (r, t ? t : &gm_tracker_unbound);
  gm_local_set (r, i->arg, NULL);
}

void
gm_insn_store_fast (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *t = gm_pop (r), *old = gm_local (r, i->arg);
  if (old != t) /* a resume function may be the last to hold it */
    gm_dropped (r, old);
  gm_local_set (r, i->arg, t == &gm_tracker_unbound ? NULL : t);
}

void
gm_insn_delete_fast (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *old = gm_local (r, i->arg);
  if (old == NULL) {
    raise_unbound (r, i->arg);
    return;
  }
  gm_dropped (r, old);
  gm_local_set (r, i->arg, NULL);
}

/* -- Cells ----------------------------------------------------------------- */

/* It may have come as an argument of a resume function: a comprehension had put it on the stack. */
static const GmTracker *
cell_in (GmRecorder *r, uint32_t slot)
{
  return gm_realize (r, gm_local (r, slot));
}

void
gm_insn_make_cell (GmRecorder *r, const GmInsn *i)
{
  gm_local_set (r, i->arg, gm_cell_new (r, gm_local (r, i->arg)));
}

void
gm_insn_copy_free_vars (GmRecorder *r, const GmInsn *i)
{
  const GmCode *code = r->frame->code;
  for (uint32_t k = 0; k < i->arg; k++)
    gm_local_set (r, code->first_free + k, gm_function_cell (r, r->frame->func, k));
}

void
gm_insn_load_deref (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *v = gm_cell_load (r, cell_in (r, i->arg));
  if (v)
    gm_push (r, v);
  else
    raise_unbound (r, i->arg);
}

void
gm_insn_store_deref (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *v = gm_pop (r);
  gm_cell_store (r, cell_in (r, i->arg), v);
}

void
gm_insn_delete_deref (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *cell = cell_in (r, i->arg);
  if (gm_cell_load (r, cell))
    gm_cell_store (r, cell, NULL);
  else
    raise_unbound (r, i->arg);
}

/* -- Globals --------------------------------------------------------------- */

void
gm_insn_load_global (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *v = gm_global_load (r, r->frame->globals, i->obj);
  if (v == NULL)
    v = gm_global_load (r, r->frame->builtins, i->obj);
  if (v)
    gm_push (r, v);
  else
    gm_raise_new (r, PyExc_NameError, "name '%s' is not defined", PyUnicode_AsUTF8 (i->obj));
}

void
gm_insn_store_global (GmRecorder *r, const GmInsn *i)
{
  gm_global_store (r, r->frame->globals, i->obj, gm_pop (r));
}

void
gm_insn_delete_global (GmRecorder *r, const GmInsn *i)
{
  if (gm_global_load (r, r->frame->globals, i->obj) != NULL)
    gm_global_store (r, r->frame->globals, i->obj, NULL);
  else
    gm_raise_new (r, PyExc_NameError, "name '%s' is not defined", PyUnicode_AsUTF8 (i->obj));
}

/* -- Imports: only of what is loaded already, without side effects --------- */

void
gm_insn_import_name (GmRecorder *r, const GmInsn *i)
{
  int64_t level = -1;
  const GmTracker *from = gm_realize (r, gm_pop (r)), *depth = gm_pop (r);
  const char *name = PyUnicode_AsUTF8 (i->obj);
  PyObject *modules = PyImport_GetModuleDict ();
  PyObject *importer = PyDict_GetItemString (r->frame->builtins, "__import__");
  PyObject *module = PyDict_GetItemWithError (modules, i->obj);
  bool dotted = strchr (name, '.') != NULL;
  if (!gm_constant_int (r, depth, &level) || level != 0 || module == NULL
      || !PyModule_CheckExact (module) || (dotted && from->real == Py_None) || importer == NULL
      || !PyCFunction_Check (importer)) {
    gm_record_break (r, GM_BREAK_IMPORT, name);
    return;
  }
  const GmSource *table = gm_source_const (r, modules, "sys.modules");
  gm_push (r, gm_wrap (r, module, gm_source_dict_item (r, table, i->obj)));
}

void
gm_insn_import_from (GmRecorder *r, const GmInsn *i)
{
  gm_push (r, gm_getattr (r, gm_peek (r, 1), i->obj));
}

void
gm_insn_assertion_error (GmRecorder *r, const GmInsn *i)
{
  PyObject *error = PyExc_AssertionError;
  gm_push (r, gm_wrap (r, error, gm_source_const (r, error, "AssertionError")));
}
