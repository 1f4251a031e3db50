/* SPDX-License-Identifier: Apache-2.0
 * report.c -- see report.h.  One record feeds the log, the warning and explain, so that they cannot
 * disagree.
 */
#include "core/objects/cpython.h"

#include "core/compiled_pair.h"
#include "core/capture/report.h"
#include "core/capture/resume_call.h"

#include "core/objects/break.h"
#include "core/objects/import.h"

/* Returns the source line from linecache, without its newline; NULL if there is none.  The
 * caller frees.  The program may read linecache's dict of files, so a file that was added for this
 * line alone is removed again. */
static char *
source_line (const char *file, int line)
{
  char *text = NULL;
  PyObject *type, *value, *traceback;
  PyErr_Fetch (&type, &value, &traceback);
  PyObject *linecache = gm_import ("linecache");
  PyObject *cache = linecache ? PyObject_GetAttrString (linecache, "cache") : NULL;
  bool added = cache && PyDict_CheckExact (cache) && PyDict_GetItemString (cache, file) == NULL;
  PyObject *s = linecache ? PyObject_CallMethod (linecache, "getline", "si", file, line) : NULL;
  if (added && PyDict_GetItemString (cache, file))
    PyDict_DelItemString (cache, file);
  Py_XDECREF (cache);
  const char *utf8 = s && PyUnicode_Check (s) ? PyUnicode_AsUTF8 (s) : NULL;
  if (utf8 && *utf8)
    text = g_strchomp (g_strdup (utf8));
  Py_XDECREF (s);
  Py_XDECREF (linecache);
  PyErr_Restore (type, value, traceback);
  return text;
}

/* Appends the source line of the break `stop` without its indentation, and below it carets under
 * the columns, which count bytes of the line; under the whole line where the columns are
 * unknown. */
static void
append_marked (GString *s, const char *line, const GmBreakInfo *stop)
{
  int indent = (int) strspn (line, " \t"), end = (int) strlen (line), first = indent, last = end;
  if (stop->col >= indent && stop->col < end)
    first = stop->col;
  if (stop->col >= 0 && stop->end_line == stop->line && stop->end_col > first)
    last = MIN (stop->end_col, end);
  g_autofree char *before = g_strnfill ((gsize) g_utf8_strlen (line + indent, first - indent), ' ');
  g_autofree char *carets = g_strnfill ((gsize) g_utf8_strlen (line + first, last - first), '^');
  g_string_append_printf (s, "    %s\n    %s%s\n", line + indent, before, carets);
}

char *
gm_report_break_text (const GmBreakInfo *stop)
{
  GString *s = g_string_new (NULL);
  g_autofree char *line = source_line (stop->file, stop->line);
  g_string_append_printf (s, "%s:%d", stop->file, stop->line);
  /* CPython gives a lambda's return column 0 */
  if (stop->col >= 0 && (!line || stop->col >= (int) strspn (line, " \t")))
    g_string_append_printf (s, ":%d", stop->col + 1);
  g_string_append_printf (s, ": gramme cannot trace %s(): %s\n", stop->function, stop->message);
  if (line)
    append_marked (s, line, stop);
  g_string_append_printf (s, "  hint: %s [%s]", stop->hint, gm_breaks[stop->id].id);
  /* A stack of one frame is the place itself. */
  const char *second = stop->stack ? strchr (stop->stack, '\n') : NULL;
  if (second && second[1])
    g_string_append_printf (s, "\n  called from:\n%s", stop->stack);
  return g_string_free (s, FALSE);
}

static int
set_steal (PyObject *dict, const char *key, PyObject *value)
{
  int r = value ? PyDict_SetItemString (dict, key, value) : -1;
  Py_XDECREF (value);
  return r;
}

static PyObject *
text_or_none (const char *s)
{
  return s ? PyUnicode_FromString (s) : Py_NewRef (Py_None);
}

/* Adds the times that the stages took for one entry to the dict `stages` of sums, and to *total.
 * -1 with an exception. */
static int
add_times (PyObject *stages, const GmEntry *e, double *total)
{
  for (size_t i = 0; i < G_N_ELEMENTS (e->times); i++) {
    if (!e->times[i].letter)
      continue;
    char key[2] = { e->times[i].letter, 0 };
    PyObject *old = PyDict_GetItemString (stages, key);
    *total += e->times[i].ms;
    if (set_steal (stages, key,
                   PyFloat_FromDouble (e->times[i].ms + (old ? PyFloat_AS_DOUBLE (old) : 0)))
        < 0)
      return -1;
  }
  return 0;
}

/* Returns an array with the cache and, each once, the caches of all resume functions that the
 * entries of `config` (NULL: of all configurations) lead to.  The caller frees the array; the
 * caches are borrowed. */
static GPtrArray *
caches_of (const GmCodeCache *cache, const GmConfig *config)
{
  GPtrArray *all = g_ptr_array_new ();
  GmCacheWalk walk = gm_cache_walk ((GmCodeCache *) cache);
  for (const GmCodeCache *part = cache; part; part = part->after) {
    g_ptr_array_add (all, (void *) part);
    for (uint32_t i = 0; i < part->snapshot->n; i++)
      if (!config || part->snapshot->entries[i]->config == config)
        gm_continuation_caches (part->snapshot->entries[i]->rest, &walk);
  }
  return all;
}

/* True if explain counts the entry as a graph.  An entry that computes nothing counts only if it
 * covers a whole function. */
static bool
is_graph (const GmCodeCache *cache, const GmEntry *e)
{
  return e->n_nodes > 0 || (!cache->point && !e->rest);
}

static int
add_breaks (PyObject *breaks, const GmCodeCache *cache, const GmConfig *config)
{
  for (uint32_t i = 0; i < cache->breaks->len; i++) {
    const GmBreakRecord *b = &g_array_index (cache->breaks, GmBreakRecord, i);
    if (b->config != config)
      continue;
    PyObject *text = PyUnicode_FromString (b->text);
    int known = text ? PySequence_Contains (breaks, text) : -1;
    int r = known == 0 ? PyList_Append (breaks, text) : known;
    Py_XDECREF (text);
    if (r < 0)
      return -1;
  }
  return 0;
}

PyObject *
gm_report_status (const GmCodeCache *cache, const GmConfig *config)
{
  PyObject *status = PyDict_New (), *stages = PyDict_New (), *breaks = PyList_New (0);
  g_autoptr (GPtrArray) all = caches_of (cache, config);
  g_autofree char *sizes = gm_profile_text (cache->profile);
  uint64_t graphs = 0, hits = 0, nodes = 0;
  double total = 0;
  if (!status || !stages || !breaks)
    goto failed;
  for (uint32_t k = 0; k < all->len; k++) {
    const GmCodeCache *part = all->pdata[k];
    for (uint32_t i = 0; i < part->snapshot->n; i++) {
      const GmEntry *e = part->snapshot->entries[i];
      if (e->config != config)
        continue;
      graphs += is_graph (part, e);
      hits += part == cache ? e->hits : 0;
      nodes += e->n_nodes;
      if (add_times (stages, e, &total) < 0)
        goto failed;
    }
    if (add_breaks (breaks, part, config) < 0)
      goto failed;
  }
  if (set_steal (status, "backend", PyUnicode_FromString (config->text)) < 0
      || set_steal (status, "sizes", PyUnicode_FromString (sizes)) < 0
      || set_steal (status, "graphs", PyLong_FromUnsignedLongLong (graphs)) < 0
      || set_steal (status, "nodes", PyLong_FromUnsignedLongLong (nodes)) < 0
      || set_steal (status, "hits", PyLong_FromUnsignedLongLong (hits)) < 0
      || set_steal (status, "misses", PyLong_FromUnsignedLong (cache->misses)) < 0
      || set_steal (status, "compile_ms", PyFloat_FromDouble (total)) < 0
      || PyDict_SetItemString (status, "stages", stages) < 0
      || PyDict_SetItemString (status, "breaks", breaks) < 0)
    goto failed;
  Py_DECREF (stages);
  Py_DECREF (breaks);
  return status;
failed:
  Py_XDECREF (status);
  Py_XDECREF (stages);
  Py_XDECREF (breaks);
  return NULL;
}

static bool
add_guard_row (const GmGuardRow *row, void *list)
{
  PyObject *o = Py_BuildValue ("(sszziOO)", row->kind, row->text, row->source, row->where.file,
                               row->where.line, row->is_lookup ? Py_True : Py_False,
                               row->of_argument ? Py_True : Py_False);
  int r = o ? PyList_Append (list, o) : -1;
  Py_XDECREF (o);
  return r == 0;
}

/* Returns a list with a row for each guard, a new reference: (kind, text, source or None, file
 * or None, line, is_lookup, of_argument).  is_lookup: the guard is on how a name is found;
 * of_argument: the guard is on an argument, or on a part of an argument. */
static PyObject *
guard_rows (const GmGuards *g)
{
  PyObject *list = PyList_New (0);
  if (list && !gm_guards_foreach (g, add_guard_row, list))
    Py_CLEAR (list);
  return list;
}

static PyObject *
entry_dict (const GmEntry *e)
{
  PyObject *d = PyDict_New (), *stages = PyDict_New ();
  g_autofree char *guards = gm_guards_text (e->guards),
                  *graph = e->graph ? gm_graph_text (e->graph) : NULL,
                  *key = e->graph ? g_strdup_printf ("%016" G_GINT64_MODIFIER "x",
                                                     gm_graph_hash (e->graph))
                                  : NULL,
                  *places = e->pair ? gm_compiled_pair_places_text (e->pair, false) : NULL;
  double total = 0;
  if (!d || !stages || add_times (stages, e, &total) < 0
      || PyDict_SetItemString (d, "stages", stages) < 0
      || set_steal (d, "backend", PyUnicode_FromString (e->config->text)) < 0
      || set_steal (d, "graph", text_or_none (graph)) < 0
      || set_steal (d, "key", text_or_none (key)) < 0
      || set_steal (d, "guards", text_or_none (guards)) < 0
      || set_steal (d, "guard_rows", guard_rows (e->guards)) < 0
      || set_steal (d, "n_guards", PyLong_FromUnsignedLong (gm_guards_n_checks (e->guards))) < 0
      || set_steal (d, "guard_ns", PyFloat_FromDouble (e->guard_ns)) < 0
      || set_steal (d, "guard_cold_ns", PyFloat_FromDouble (e->guard_cold_ns)) < 0
      || set_steal (d, "reason", text_or_none (e->reason)) < 0
      || set_steal (d, "fallback",
                    text_or_none (e->pair ? gm_compiled_pair_fallback_reason (e->pair) : NULL))
             < 0
      || set_steal (d, "places", text_or_none (places)) < 0
      || set_steal (d, "fixed", text_or_none (e->fixed)) < 0
      || set_steal (d, "forms", text_or_none (e->plans ? gm_plan_cache_made (e->plans) : NULL)) < 0
      || set_steal (d, "nodes", PyLong_FromUnsignedLong (e->n_nodes)) < 0
      || set_steal (d, "code", Py_NewRef (e->residual ? (PyObject *) e->residual : Py_None)) < 0
      || set_steal (d, "effects", PyLong_FromUnsignedLong (e->n_effects)) < 0
      || set_steal (d, "insns", PyLong_FromUnsignedLong (e->n_insns)) < 0
      || set_steal (d, "frames_inlined", PyLong_FromUnsignedLong (e->n_frames)) < 0
      || set_steal (d, "hits", PyLong_FromUnsignedLongLong (e->hits)) < 0
      || set_steal (d, "compile_ms", PyFloat_FromDouble (total)) < 0)
    Py_CLEAR (d);
  Py_XDECREF (stages);
  return d;
}

PyObject *
gm_report_entries (const GmCodeCache *cache, const GmConfig *config)
{
  PyObject *list = PyList_New (0);
  g_autoptr (GPtrArray) all = caches_of (cache, config);
  for (uint32_t k = all->len; list && k-- > 0;) {
    /* In reverse, since resume functions come after the functions that break. */
    const GmCodeCache *part = all->pdata[k];
    for (uint32_t i = 0; list && i < part->snapshot->n; i++) {
      const GmEntry *e = part->snapshot->entries[i];
      if ((config && e->config != config) || !is_graph (part, e))
        continue;
      PyObject *d = entry_dict (e);
      if (!d || PyList_Append (list, d) < 0)
        Py_CLEAR (list);
      Py_XDECREF (d);
    }
  }
  return list;
}

PyObject *
gm_report_own_entries (const GmCodeCache *cache)
{
  PyObject *list = PyList_New (0);
  for (uint32_t i = 0; list && i < cache->snapshot->n; i++) {
    PyObject *d = entry_dict (cache->snapshot->entries[i]);
    if (!d || PyList_Append (list, d) < 0)
      Py_CLEAR (list);
    Py_XDECREF (d);
  }
  return list;
}
