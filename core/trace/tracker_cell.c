/* SPDX-License-Identifier: Apache-2.0
 * tracker_cell.c -- the kind of all cells: of the root frame, of inlined frames, of functions that
 * existed before.
 *
 * Contents are in the heap, so all functions that share a cell see each write. A guard is only ever
 * made on contents, when they are read; a write to an existing cell is a side effect. The heap slot
 * is NULL until an existing cell is first read, and the NULL tracker when it is empty.
 */
#include "core/trace/cell.h"

const GmTracker *
gm_cell_new (GmRecorder *r, const GmTracker *contents)
{
  uint32_t id = gm_heap_add (&r->heap, 1);
  const GmTracker *t = gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_cell, .id = id });
  gm_contents_set (r, t, contents ? contents : &gm_tracker_null);
  return t;
}

const GmTracker *
gm_wrap_cell (GmRecorder *r, PyObject *real, const GmSource *source)
{
  const GmTracker *t = gm_known (r, real, source);
  if (t)
    return t;
  uint32_t id = gm_heap_add (&r->heap, 1);
  t = gm_tracker_add (
      r, &(GmTracker){ .kind = &gm_kind_cell, .real = real, .source = source, .id = id });
  gm_know (r, t);
  return t;
}

const GmTracker *
gm_cell_load (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *v = gm_contents_of (r, t);
  if (v == NULL) { /* an existing cell is read for the first time */
    PyObject *contents = PyCell_GET (t->real);
    if (contents) {
      v = gm_wrap_present (r, contents, gm_source_part (r, t->source, GM_SOURCE_CONTENTS, 0, NULL));
    } else {
      gm_guard (r, UNBOUND, t->source);
      v = &gm_tracker_null;
    }
    gm_contents_set (r, t, v);
  }
  return v == &gm_tracker_null ? NULL : v;
}

void
gm_cell_store (GmRecorder *r, const GmTracker *t, const GmTracker *value)
{
  if (t->real && PyCell_GET (t->real))
    gm_dropped_object (r, PyCell_GET (t->real));
  if (t->real)
    gm_dropped (r, gm_contents_of (r, t));
  gm_contents_set (r, t, value ? value : &gm_tracker_null);
  if (t->real)
    gm_effect (r, GM_EFFECT_CELL, NULL, NULL,
               (const GmTracker *const[]){ t, value ? value : &gm_tracker_null }, 2);
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  if (PyUnicode_CompareWithASCIIString (name, "cell_contents") == 0) {
    const GmTracker *v = gm_cell_load (r, t);
    return v ? v : gm_record_break (r, GM_BREAK_EXCEPTION_RAISED, "ValueError: Cell is empty");
  }
  return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "cell");
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  gm_residual_emit (b, GM_INSN_LOAD_CLOSURE, gm_residual_cell (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_cell = { .name = "cell", .getattr = getattr, .build = build };
