/* SPDX-License-Identifier: Apache-2.0
 * graph_sizes.c -- see graph_sizes.h.
 *
 * A back end written in Python is given one graph for all sizes.  When its code runs, the inputs
 * determine the symbols, and the graph for these numbers is made, of which the latest few are kept:
 * nodes run on that one.
 */
#include "core/objects/graph_sizes.h"

#include <string.h>

#include "core/objects/tensor_object.h"

#define KEPT 8

struct GmGraphSizes {
  const GmGraph *graph;
  GmArena *arena;
  const GmSymbolSource *sources;
  uint32_t n_symbols;
  GmGraphNow *kept[KEPT]; /* the latest first; NULL after the last */
};

static _Thread_local GmGraphEntered *innermost;

GmGraphSizes *
gm_graph_sizes_new (const GmGraph *g)
{
  if (!gm_graph_is_symbolic (g))
    return NULL;
  GmGraphSizes *s = g_new0 (GmGraphSizes, 1);
  s->graph = g;
  s->arena = gm_arena_new ();
  s->n_symbols = gm_graph_symbol_sources (g, s->arena, &s->sources);
  return s;
}

void
gm_graph_now_unref (GmGraphNow *now)
{
  if (!now || --now->refs > 0)
    return;
  gm_graph_free (now->graph);
  g_free (now->symbols);
  g_free (now);
}

void
gm_graph_sizes_free (GmGraphSizes *s)
{
  if (!s)
    return;
  for (int i = 0; i < KEPT; i++)
    gm_graph_now_unref (s->kept[i]);
  gm_arena_free (s->arena);
  g_free (s);
}

static bool
read_symbol (const GmSymbolSource *from, PyObject *const *inputs, int64_t *out)
{
  PyObject *o = inputs[from->input];
  const GmTensor *t = gm_py_tensor_get (o);
  if (t && from->dim < t->meta.ndim)
    *out = from->is_stride ? t->meta.strides[from->dim] : t->meta.sizes[from->dim];
  else if (PyLong_Check (o))
    *out = PyLong_AsLongLong (o);
  else
    PyErr_Format (PyExc_TypeError,
                  "input %u of the graph says what a size is: it cannot be a %.100s%s",
                  (unsigned) from->input, Py_TYPE (o)->tp_name, t ? " of so few dimensions" : "");
  return !PyErr_Occurred ();
}

/* Moves or inserts `now` at the front of the graphs that are kept; drops the least recently used
 * graph if there are too many.  Steals the reference. */
static void
put_first (GmGraphSizes *s, GmGraphNow *now)
{
  int at = 0;
  while (at < KEPT - 1 && s->kept[at] && s->kept[at] != now)
    at++;
  if (s->kept[at] != now)
    gm_graph_now_unref (s->kept[at]);
  memmove (s->kept + 1, s->kept, (size_t) at * sizeof *s->kept);
  s->kept[0] = now;
}

const GmGraphNow *
gm_graph_sizes_entered (const GmGraphSizes *s)
{
  for (const GmGraphEntered *e = innermost; e; e = e->before)
    if (e->sizes == s)
      return e->now;
  return NULL;
}

GmGraphNow *
gm_graph_sizes_at (GmGraphSizes *s, const int64_t *symbols)
{
  GmGraphNow *now = NULL;
  GError *error = NULL;
  for (int i = 0; i < KEPT && s->kept[i] && !now; i++)
    if (memcmp (s->kept[i]->symbols, symbols, s->n_symbols * sizeof *symbols) == 0)
      now = s->kept[i];
  if (!now) {
    GmGraph *g = gm_graph_specialise (s->graph, symbols, NULL, &error);
    if (!g) {
      gm_py_raise (error);
      return NULL;
    }
    now = g_new (GmGraphNow, 1);
    *now = (GmGraphNow){ 1, g, g_memdup2 (symbols, s->n_symbols * sizeof *symbols) };
  }
  put_first (s, now);
  now->refs++;
  return now;
}

GmGraphNow *
gm_graph_sizes_now (GmGraphSizes *s, PyObject *const *inputs, Py_ssize_t n)
{
  const GmGraphNow *entered = gm_graph_sizes_entered (s);
  g_autofree int64_t *symbols = g_new0 (int64_t, s->n_symbols + 1);
  if (n != (Py_ssize_t) s->graph->inputs->len) {
    PyErr_Format (PyExc_TypeError, "the graph takes %u inputs, %zd were given",
                  (unsigned) s->graph->inputs->len, n);
    return NULL;
  }
  for (uint32_t i = 0; i < s->n_symbols; i++)
    if (s->sources[i].input == GM_NO_ID)
      symbols[i] = entered ? entered->symbols[i] : 0;
    else if (!read_symbol (&s->sources[i], inputs, &symbols[i]))
      return NULL;
  return gm_graph_sizes_at (s, symbols);
}

void
gm_graph_sizes_enter (const GmGraphSizes *s, const GmGraphNow *now, GmGraphEntered *entered)
{
  *entered = (GmGraphEntered){ s, now, innermost };
  innermost = entered;
}

void
gm_graph_sizes_leave (void)
{
  innermost = innermost->before;
}
