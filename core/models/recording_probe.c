/* SPDX-License-Identifier: Apache-2.0
 * recording_probe.c -- gramme._core.probe: lets the recorder's tests act on a recording from inside
 * of it.
 *
 * probe (what, name, out) in a function that is being recorded puts its result into out[what, name]
 * at that moment, and does nothing else in plain Python. It reads state that no program can see
 * (the structural hash, pending stores), goes back to a mark of its own, and makes forbidden
 * changes on purpose, so that a test sees them being caught.
 */
#include "core/trace/cell.h"
#include "core/models/tracker_control.h"

typedef struct {
  uint64_t recording;
  GmMark mark;
  uint64_t hash;
} Point;

static const char point_name[] = "gramme.probe.mark", state_name[] = "gramme.probe.state";

static void
point_free (PyObject *capsule)
{
  g_free (PyCapsule_GetPointer (capsule, point_name));
}

static void
state_free (PyObject *capsule)
{
  gm_effect_state_free (PyCapsule_GetPointer (capsule, state_name));
}

/* -- Places ---------------------------------------------------------------- */

typedef struct {
  GmRecorder *r;
  PyObject *name; /* name of a variable or of a mark */
  PyObject *out;  /* a real dict */
} Probe;

static const GmTracker *
variable (const Probe *p, uint32_t *slot)
{
  const GmFrame *f = p->r->frame;
  for (*slot = 0; *slot < f->code->n_slots; ++*slot)
    if (gm_str_equal (f->code->slots[*slot].name, p->name)) {
      const GmTracker *t = gm_heap_load (&p->r->heap, f->id, *slot);
      if (t && t->kind == &gm_kind_cell)
        t = gm_cell_load (p->r, t);
      if (t && t != &gm_tracker_null)
        return gm_realize (p->r, t);
    }
  PyErr_Format (PyExc_KeyError, "no variable %R", p->name);
  return NULL;
}

static const Point *
point (const Probe *p)
{
  PyObject *key = Py_BuildValue ("(sO)", "mark", p->name);
  PyObject *capsule = key ? PyDict_GetItemWithError (p->out, key) : NULL;
  const Point *found = capsule ? PyCapsule_GetPointer (capsule, point_name) : NULL;
  Py_XDECREF (key);
  if (found && found->recording == p->r->number)
    return found;
  if (!PyErr_Occurred ())
    PyErr_Format (PyExc_KeyError, "no mark %R in this recording", p->name);
  return NULL;
}

/* -- Looking and going back ------------------------------------------------ */

/* Returns the name of the kind of the tracker in the variable's slot.  The slot of a variable
 * that an inner function captures has a cell, not the value. */
static PyObject *
probe_kind (const Probe *p)
{
  uint32_t slot;
  if (variable (p, &slot) == NULL)
    return NULL;
  return PyUnicode_FromString (gm_heap_load (&p->r->heap, p->r->frame->id, slot)->kind->name);
}

static PyObject *
probe_modified (const Probe *p)
{
  uint32_t slot;
  const GmTracker *t = variable (p, &slot);
  return t ? Py_BuildValue ("(OO)", gm_is_modified (p->r, t) ? Py_True : Py_False,
                            gm_has_pending_mutation (p->r, t) ? Py_True : Py_False)
           : NULL;
}

static PyObject *
probe_mark (const Probe *p)
{
  Point *made = g_new (Point, 1);
  *made = (Point){ p->r->number, gm_record_mark (p->r), gm_record_hash (p->r) };
  return PyCapsule_New (made, point_name, point_free);
}

static PyObject *
probe_state (const Probe *p)
{
  const Point *m = point (p);
  return m ? PyCapsule_New (gm_effects_state (p->r, &m->mark), state_name, state_free) : NULL;
}

/* Goes back to the probe's mark and returns (hash at the mark, hash before, hash after, writes
 * undone).  The recording is unusable afterwards: the function runs as Python. */
static PyObject *
probe_undo (const Probe *p)
{
  GmRecorder *r = p->r;
  const Point *m = point (p);
  if (m == NULL)
    return NULL;
  uint32_t n = r->heap.journal.len - m->mark.heap.writes;
  uint64_t before = gm_record_hash (r);
  gm_record_rollback (r, &m->mark);
  PyObject *found =
      Py_BuildValue ("(KKKI)", (unsigned long long) m->hash, (unsigned long long) before,
                     (unsigned long long) gm_record_hash (r), n);
  gm_record_break (r, GM_BREAK_STATE_DIFFERS, "a test went back to a mark of its own");
  return found;
}

/* -- Deliberate faults ----------------------------------------------------- */

/* Sets a variable to None without a row in the journal, which a test must notice. */
static PyObject *
fault_bypass (const Probe *p)
{
  uint32_t slot;
  if (variable (p, &slot) == NULL)
    return NULL;
  const GmHeapObject *o = &g_array_index (p->r->heap.objects, GmHeapObject, p->r->frame->id);
  p->r->heap.slots->pdata[o->first + slot] = (gpointer) gm_none (p->r);
  Py_RETURN_NONE;
}

/* Writes to a tracker, which must not be changed once it is made. */
static PyObject *
fault_write (const Probe *p)
{
  uint32_t slot;
  const GmTracker *t = variable (p, &slot);
  if (t == NULL)
    return NULL;
  ((GmTracker *) t)->number++;
  Py_RETURN_NONE;
}

/* Registers a hook on a tensor that the function makes, which is forbidden. */
static PyObject *
fault_hook (const Probe *p)
{
  uint32_t slot;
  const GmTracker *t = variable (p, &slot);
  if (t == NULL)
    return NULL;
  PyObject *method = gm_record_take (p->r, PyUnicode_InternFromString ("retain_grad"));
  gm_effect (p->r, GM_EFFECT_HOOK, NULL, method, &t, 1);
  Py_RETURN_NONE;
}

/* -- The function ---------------------------------------------------------- */

static const struct {
  const char *name;
  PyObject *(*run) (const Probe *p);
} rows[] = {
  { "kind", probe_kind },         { "modified", probe_modified }, { "mark", probe_mark },
  { "state", probe_state },       { "undo", probe_undo },         { "fault-bypass", fault_bypass },
  { "fault-write", fault_write }, { "fault-hook", fault_hook },
};

/* Implements probe ("diff", a, b), while recording or not: compares two states and returns a
 * sentence with their difference, or None if they are equal. */
static PyObject *
diff (PyObject *first, PyObject *second)
{
  const GmEffectState *a = PyCapsule_GetPointer (first, state_name);
  const GmEffectState *b = a ? PyCapsule_GetPointer (second, state_name) : NULL;
  if (b == NULL)
    return NULL;
  g_autofree char *text = gm_effects_diff (a, b);
  return text ? PyUnicode_FromString (text) : Py_NewRef (Py_None);
}

PyObject *
gm_py_probe (PyObject *module, PyObject *args)
{
  const char *what;
  PyObject *a, *b;
  if (!PyArg_ParseTuple (args, "sOO", &what, &a, &b))
    return NULL;
  return strcmp (what, "diff") == 0 ? diff (a, b) : Py_NewRef (Py_None);
}

const GmTracker *
gm_probe_call (GmRecorder *r, const GmCallArgs *args)
{
  PyObject *what = args->n == 3 ? gm_constant (r, args->args[0]) : NULL;
  PyObject *name = what ? gm_constant (r, args->args[1]) : NULL;
  PyObject *out = name ? args->args[2]->real : NULL;
  if (out == NULL || !PyDict_CheckExact (out) || !PyUnicode_Check (what))
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "probe (what, name, out)");
  const GmTracker *none = gm_none (r);
  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++) {
    if (PyUnicode_CompareWithASCIIString (what, rows[i].name) != 0)
      continue;
    PyObject *key = gm_record_take (r, PyTuple_Pack (2, what, name));
    PyObject *answer = rows[i].run (&(Probe){ r, name, out });
    if (answer == NULL || PyDict_SetItem (out, key, answer) < 0)
      gm_record_break_exception (r);
    Py_XDECREF (answer);
    return none;
  }
  return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "probe (): there is none of this name");
}
