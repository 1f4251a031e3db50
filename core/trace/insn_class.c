/* SPDX-License-Identifier: Apache-2.0
 * insn_class.c -- the instructions of a class body: names that live in the namespace of the class.
 *
 * The namespace is a dict tracker that the frame holds.  A frame without one (no class body) uses
 * none of these instructions.
 */
#include "core/trace/attrs.h"
#include "core/trace/cell.h"
#include "core/trace/exception.h"
#include "core/trace/insn_handlers.h"

static const GmTracker *namespace(GmRecorder *r)
{
  if (r->frame->names == NULL)
    gm_record_break (r, GM_BREAK_UNSUPPORTED_INSN, "a name outside of a function");
  return r->frame->names;
}

static const GmTracker *
lookup (GmRecorder *r, const GmTracker *names, PyObject *name)
{
  return names && !r->stop ? gm_dict_lookup (r, names, gm_from_constant (r, name)) : NULL;
}

static const GmTracker *
global (GmRecorder *r, PyObject *name)
{
  const GmTracker *v = gm_global_load (r, r->frame->globals, name);
  if (v == NULL)
    v = gm_global_load (r, r->frame->builtins, name);
  return v ? v
           : gm_raise_new (r, PyExc_NameError, "name '%s' is not defined", PyUnicode_AsUTF8 (name));
}

void
gm_insn_build_class (GmRecorder *r, const GmInsn *i)
{
  PyObject *name = gm_record_take (r, PyUnicode_InternFromString ("__build_class__"));
  const GmTracker *v = gm_global_load (r, r->frame->builtins, name);
  gm_push (r, v ? v : gm_record_break (r, GM_BREAK_CLASS_STATEMENT, " without __build_class__"));
}

void
gm_insn_load_name (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *v = lookup (r, namespace(r), i->obj);
  gm_push (r, v || r->stop ? v : global (r, i->obj));
}

void
gm_insn_store_name (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *value = gm_pop (r), *names = namespace(r);
  if (!r->stop)
    gm_setitem (r, names, gm_from_constant (r, i->obj), value);
}

void
gm_insn_delete_name (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *names = namespace(r);
  if (lookup (r, names, i->obj))
    gm_setitem (r, names, gm_from_constant (r, i->obj), NULL);
  else
    gm_raise_new (r, PyExc_NameError, "name '%s' is not defined", PyUnicode_AsUTF8 (i->obj));
}

/* Pushes the name's value in the namespace of the class body; if the body has not stored the name,
 * the variable of an outer function. */
static void
push_name_or_cell (GmRecorder *r, const GmTracker *names, const GmInsn *i)
{
  PyObject *name = r->frame->code->slots[i->arg].name;
  const GmTracker *v = lookup (r, names, name);
  if (v == NULL && !r->stop)
    v = gm_cell_load (r, gm_local (r, i->arg));
  if (v == NULL)
    gm_raise_new (r, PyExc_NameError,
                  "cannot access free variable '%s' where it is not associated with a value in "
                  "enclosing scope",
                  PyUnicode_AsUTF8 (name));
  gm_push (r, v);
}

void
gm_insn_load_classderef (GmRecorder *r, const GmInsn *i)
{
  push_name_or_cell (r, namespace(r), i);
}

void
gm_insn_load_locals (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *names = namespace(r);
  gm_push (r, names ? names : &gm_tracker_poison);
}

void
gm_insn_dict_or_deref (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *names = gm_realize (r, gm_pop (r));
  push_name_or_cell (r, names, i);
}

void
gm_insn_dict_or_globals (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *names = gm_realize (r, gm_pop (r)), *v = lookup (r, names, i->obj);
  gm_push (r, v || r->stop ? v : global (r, i->obj));
}

void
gm_insn_setup_annotations (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *names = namespace(r);
  PyObject *name = gm_record_take (r, PyUnicode_InternFromString ("__annotations__"));
  if (names && lookup (r, names, name) == NULL && !r->stop)
    gm_setitem (r, names, gm_from_constant (r, name), gm_dict_new (r));
}
