/* SPDX-License-Identifier: Apache-2.0
 * measure.c -- what benchmarks ask that Python cannot measure from outside.
 */
#include "core/python/cpython.h"

#include "core/python/measure.h"
#include "core/tiles/tiles.h"
#include "core/trace/recorder.h"

static PyObject *
isa (PyObject *module, PyObject *unused)
{
  const char *why = NULL;
  const GmTiles *tiles = gm_tiles_get (&why);
  return PyUnicode_FromString (tiles ? tiles->isa : why);
}

/* A recorder with n live variables: an object each, written once after it was made, so that the journal is as long. */
static void
fill (GmRecorder *r, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    gm_heap_store (&r->heap, gm_heap_add (&r->heap, 1), 0, &gm_tracker_null);
}

static PyObject *
measure_mark (PyObject *module, PyObject *args)
{
  unsigned live, times;
  if (!PyArg_ParseTuple (args, "II", &live, &times) || times == 0)
    return NULL;
  g_autoptr (GArray) none = g_array_new (FALSE, FALSE, 1);
  g_autoptr (GPtrArray) nothing = g_ptr_array_new ();
  GmRecorder r = { .graph = gm_graph_new ("measure", NULL), .guards = none, .effects = none, .inputs = none,
                   .mutated = none, .sources = nothing, .wrapped = nothing };
  gm_heap_init (&r.heap);
  fill (&r, live);
  uint32_t object = gm_heap_add (&r.heap, 8);
  gint64 best = G_MAXINT64;
  for (int round = 0; round < 5; round++) {
    gint64 start_us = g_get_monotonic_time ();
    for (unsigned i = 0; i < times; i++) {
      GmMark m = gm_record_mark (&r);
      for (uint32_t key = 0; key < 8; key++)
        gm_heap_store (&r.heap, object, key, &gm_tracker_poison);
      gm_heap_rollback (&r.heap, m.heap);
    }
    best = MIN (best, g_get_monotonic_time () - start_us);
  }
  gm_heap_clear (&r.heap);
  gm_graph_free (r.graph);
  return PyFloat_FromDouble ((double) best * 1000 / times);
}

static PyMethodDef functions[] = {
  { "isa", isa, METH_NOARGS, "isa() -> str: the instruction set that the tiles use, \"avx2\" or \"avx512\"." },
  { "measure_mark", measure_mark, METH_VARARGS,
    "measure_mark(live, times) -> float: ns for one mark, eight writes and their rollback, with `live` variables in the recorder's heap." },
  { NULL },
};

int
gm_py_init_measure (PyObject *module)
{
  return PyModule_AddFunctions (module, functions);
}
