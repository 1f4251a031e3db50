/* SPDX-License-Identifier: Apache-2.0
 * counters.c -- see counters.h.
 *
 * A function (a code object that is not a resume function) is counted once in each period between
 * two resets: the cache remembers the period in which it was counted last.  Invariant: whole <=
 * captured <= total: a function with an entry is captured, and whole until its first break.
 */
#include "core/objects/cpython.h"

#include "core/capture/compiled_autograd.h"
#include "core/capture/counters.h"
#include "core/capture/resume_code.h"
#include "core/capture/resume_original.h"

#include "core/run/backend.h"

#include "core/objects/break.h"

#include <string.h>

typedef enum { SEEN = 1, BROKEN = 2, CAPTURED = 4 } FunctionState;

static uint32_t period = 1;
static uint64_t frames, frames_ok, missed, recompiles, retired, hits_before, compiles_before;
static uint64_t functions, functions_whole, functions_captured;
static uint64_t graphs, calls_captured, aot_total, aot_ok;
static GHashTable *breaks; /* text -> count */
static uint64_t breaks_by_id[GM_N_BREAKS];

static GmCodeCache *
function_of (GmCodeCache *cache)
{
  GmCodeCache *root = cache->point ? cache->point->original->cache : cache;
  if (root && root->counted_in != period) {
    root->counted_in = period;
    root->counted = 0;
  }
  return root;
}

static void
mark (GmCodeCache *cache, FunctionState state)
{
  GmCodeCache *root = function_of (cache);
  uint8_t before = root ? root->counted : 0, after = before | (uint8_t) state;
  if (!root || before == after)
    return;
  root->counted = after;
  functions += !(before & SEEN) && (after & SEEN);
  functions_captured += (after & CAPTURED) && !(before & CAPTURED);
  bool was_whole = (before & CAPTURED) && !(before & BROKEN),
       is_whole = (after & CAPTURED) && !(after & BROKEN);
  functions_whole += (uint64_t) is_whole - (uint64_t) was_whole;
}

void
gm_count_miss (void)
{
  missed++;
}

void
gm_count_frame (GmCodeCache *cache)
{
  frames++;
  mark (cache, SEEN);
}

void
gm_count_entry (GmCodeCache *cache, bool again)
{
  frames_ok++;
  recompiles += again;
  mark (cache, SEEN | CAPTURED);
}

void
gm_count_break (GmCodeCache *cache, GmBreak id, const char *text)
{
  breaks_by_id[id]++;
  g_autofree char *key = g_strdup_printf ("%s: %s", gm_breaks[id].id, text);
  uint64_t *n = g_hash_table_lookup (breaks, key);
  if (!n) {
    n = g_new0 (uint64_t, 1);
    g_hash_table_insert (breaks, g_steal_pointer (&key), n);
  }
  ++*n;
  mark (cache, BROKEN);
}

void
gm_count_graph (uint64_t calls)
{
  graphs++;
  calls_captured += calls;
}

void
gm_count_aot (bool ok)
{
  aot_total++;
  aot_ok += ok;
}

void
gm_count_retired (uint64_t hits)
{
  retired += hits;
}

/* -- Shown to Python --------------------------------------------------------------------------- */

static uint64_t
hits_ever (void)
{
  return retired + gm_code_cache_hits ();
}

void
gm_counters_reset (void)
{
  period++;
  frames = frames_ok = missed = recompiles = 0;
  functions = functions_whole = functions_captured = 0;
  graphs = calls_captured = aot_total = aot_ok = 0;
  hits_before = hits_ever ();
  compiles_before = gm_backend_compiles ();
  memset (breaks_by_id, 0, sizeof breaks_by_id);
  g_hash_table_remove_all (breaks);
  gm_stretch_cache_counts_reset ();
}

static PyObject *
breaks_dict (void)
{
  PyObject *dict = PyDict_New ();
  GHashTableIter it;
  void *key, *value;
  g_hash_table_iter_init (&it, breaks);
  while (dict && g_hash_table_iter_next (&it, &key, &value)) {
    PyObject *n = PyLong_FromUnsignedLongLong (*(uint64_t *) value);
    if (!n || PyDict_SetItemString (dict, key, n) < 0)
      Py_CLEAR (dict);
    Py_XDECREF (n);
  }
  return dict;
}

static PyObject *
ids_dict (void)
{
  PyObject *dict = PyDict_New ();
  for (int i = 0; dict && i < GM_N_BREAKS; i++) {
    PyObject *n = breaks_by_id[i] ? PyLong_FromUnsignedLongLong (breaks_by_id[i]) : NULL;
    if (breaks_by_id[i] && (!n || PyDict_SetItemString (dict, gm_breaks[i].id, n) < 0))
      Py_CLEAR (dict);
    Py_XDECREF (n);
  }
  return dict;
}

static PyObject *
counters (PyObject *module, PyObject *unused)
{
  return Py_BuildValue (
      "{s:{s:K,s:K},s:{s:K,s:K},s:{s:K,s:K,s:K},s:{s:K},s:{s:K},s:{s:K,s:K},s:{s:K,s:K,s:K},s:N,s:"
      "N,s:N,s:N}",
      "frames", "total", frames, "ok", frames_ok, "entries", "hit", hits_ever () - hits_before,
      "missed", missed, "functions", "total", functions, "captured", functions_captured, "whole",
      functions_whole, "recompiles", "total", recompiles, "backend", "compiles",
      gm_backend_compiles () - compiles_before, "stats", "unique_graphs", graphs, "calls_captured",
      calls_captured, "aot_autograd", "total", aot_total, "ok", aot_ok, "not_ok",
      aot_total - aot_ok, "graph_break", breaks_dict (), "graph_break_id", ids_dict (),
      "compiled_autograd", gm_compiled_autograd_counts (), "compiled_autograd_reason",
      gm_compiled_autograd_reasons ());
}

static PyObject *
counters_reset (PyObject *module, PyObject *unused)
{
  gm_counters_reset ();
  Py_RETURN_NONE;
}

static PyMethodDef functions_table[] = {
  { "counters", counters, METH_NOARGS,
    "counters() -> dict of dicts: see gramme._dynamo.utils.counters." },
  { "counters_reset", counters_reset, METH_NOARGS, "counters_reset(): all are 0 again." },
  { NULL },
};

int
gm_py_init_counters (PyObject *module)
{
  breaks = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  return PyModule_AddFunctions (module, functions_table);
}
