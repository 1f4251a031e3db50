/* SPDX-License-Identifier: Apache-2.0
 * insn_stack.c -- instructions on the stack, variables, cells and globals.
 *
 * One slot table: a slot that is a cell variable or free variable holds a cell tracker once the
 * prologue has run.
 */
#include "core/trace/attrs.h"
#include "core/trace/kinds.h"
#include "core/trace/cell.h"
#include "core/trace/exception.h"
#include "core/trace/insn_handlers.h"

#include <string.h>

void
gm_insn_nop (GmRecorder *r, const GmInsn *i)
{
}

void
gm_insn_pop_top (GmRecorder *r, const GmInsn *i)
{
  gm_pop (r);
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
  /* A tuple of the code is one object in all calls; so are the other constants, but no program can
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

/* Guards the type of `old`, an argument of a resume function that is dropped unread: another call
 * may pass an object of a class with a finalizer. Classes of C are not guarded: a variable that
 * holds iterators of many kinds in turn would need a recording for each kind. */
static void
guard_dropped (GmRecorder *r, const GmTracker *old)
{
  bool given = r->request->start && old && old->kind == &gm_kind_lazy && old->source
               && old->source->kind == GM_SOURCE_LOCAL;
  if (given && (Py_TYPE (old->real)->tp_flags & Py_TPFLAGS_HEAPTYPE))
    gm_guard (r, TYPE, old->source, .obj = (PyObject *) Py_TYPE (old->real));
}

void
gm_insn_store_fast (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *t = gm_pop (r);
  guard_dropped (r, gm_local (r, i->arg));
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
  guard_dropped (r, old);
  gm_local_set (r, i->arg, NULL);
}

/* -- Cells ----------------------------------------------------------------- */

/* Returns the cell of a slot, realized: the cell may have been an argument of a resume function,
 * because a comprehension had put it on the stack. */
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

/* -- Imports: only of loaded modules, without side effects ----------------- */

/* True if the frame's __import__ is CPython's own, so that an import statement does nothing
 * else. */
static bool
imports_as_usual (GmRecorder *r)
{
  PyObject *name = gm_record_take (r, PyUnicode_InternFromString ("__import__"));
  const GmTracker *importer = gm_global_load (r, r->frame->builtins, name);
  importer = importer ? gm_realize (r, importer) : NULL;
  return importer && !r->stop && importer->real && PyCFunction_Check (importer->real);
}

static PyObject *
loaded (PyObject *name)
{
  PyObject *module = name ? PyDict_GetItemWithError (PyImport_GetModuleDict (), name) : NULL;
  return module && PyModule_CheckExact (module) ? module : NULL;
}

static const GmTracker *
wrap_loaded (GmRecorder *r, PyObject *module, PyObject *name)
{
  const GmSource *table = gm_source_const (r, PyImport_GetModuleDict (), "sys.modules");
  return gm_wrap (r, module, gm_source_dict_item (r, table, name));
}

/* True if the module has all names as attributes. A name that a package lacks would be imported as
 * a submodule. */
static bool
has_all (PyObject *module, PyObject *names)
{
  PyObject *dict = PyModule_GetDict (module);
  if (!PyTuple_CheckExact (names) || !PyDict_GetItemString (dict, "__path__"))
    return true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (names); i++)
    if (!PyDict_GetItemWithError (dict, PyTuple_GET_ITEM (names, i)))
      return false;
  return true;
}

/* Returns the absolute name of the module `name`, `level` dots up from the frame's package; kept by
 * the recorder. NULL: the package is not known, or has fewer levels. */
static PyObject *
absolute (GmRecorder *r, PyObject *name, int64_t level)
{
  PyObject *key = gm_record_take (r, PyUnicode_InternFromString ("__package__"));
  const GmTracker *v = level ? gm_global_load (r, r->frame->globals, key) : NULL;
  PyObject *package = v ? gm_constant (r, gm_realize (r, v)) : NULL;
  if (level == 0)
    return name;
  if (level < 0 || package == NULL || !PyUnicode_CheckExact (package))
    return NULL;
  const char *text = PyUnicode_AsUTF8 (package), *rest = PyUnicode_AsUTF8 (name);
  g_autofree char *base = g_strdup (text);
  for (; level > 1; level--) {
    char *dot = strrchr (base, '.');
    if (dot == NULL)
      return NULL;
    *dot = '\0';
  }
  g_autofree char *full = *base == '\0' ? NULL
                          : *rest       ? g_strdup_printf ("%s.%s", base, rest)
                                        : g_strdup (base);
  return full ? gm_record_take (r, PyUnicode_InternFromString (full)) : NULL;
}

/* IMPORT_NAME: `import a.b` pushes a; `from a.b import c` and `import a` push the module that they
 * name. */
void
gm_insn_import_name (GmRecorder *r, const GmInsn *i)
{
  int64_t level = -1;
  const GmTracker *from = gm_realize (r, gm_pop (r)), *depth = gm_pop (r);
  PyObject *names = gm_constant (r, from), *top = NULL, *module = NULL;
  PyObject *name = gm_constant_int (r, depth, &level) ? absolute (r, i->obj, level) : NULL;
  if (name && names && !r->stop) {
    const char *text = PyUnicode_AsUTF8 (name), *dot = strchr (text, '.');
    bool first = dot && names == Py_None;
    top = first ? gm_record_take (r, PyUnicode_FromStringAndSize (text, dot - text)) : name;
    module = loaded (name);
  }
  if (module == NULL || loaded (top) == NULL || !has_all (module, names) || !imports_as_usual (r)) {
    gm_record_break (r, GM_BREAK_IMPORT, PyUnicode_AsUTF8 (i->obj));
    return;
  }
  const GmTracker *v = wrap_loaded (r, module, name);
  gm_push (r, top == name ? v : wrap_loaded (r, loaded (top), top));
}

/* IMPORT_FROM: pushes an attribute of the module. A missing attribute may be a module to import, or
 * an ImportError. */
void
gm_insn_import_from (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *v = gm_getattr_opt (r, gm_peek (r, 1), i->obj);
  bool none = gm_exception_caught (r, PyExc_AttributeError) || (v == NULL && !r->stop);
  if (none)
    gm_record_break (r, GM_BREAK_IMPORT, PyUnicode_AsUTF8 (i->obj));
  else
    gm_push (r, v);
}

void
gm_insn_assertion_error (GmRecorder *r, const GmInsn *i)
{
  PyObject *error = PyExc_AssertionError;
  gm_push (r, gm_wrap (r, error, gm_source_const (r, error, "AssertionError")));
}
