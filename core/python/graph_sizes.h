/* SPDX-License-Identifier: Apache-2.0
 * graph_sizes.h -- symbolic sizes of a graph that Python reads and runs: names for who reads, numbers while it runs.
 *
 * Requires: the GIL, everywhere.
 */
#ifndef GM_PYTHON_GRAPH_SIZES_H
#define GM_PYTHON_GRAPH_SIZES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/graph/graph.h"

typedef struct GmGraphSizes GmGraphSizes;

/* The graph for one set of numbers; counted. */
typedef struct {
  int refs;
  GmGraph *graph;
  int64_t *symbols;
} GmGraphNow;

/* NULL: g's sizes are numbers.  g must live as long. */
GmGraphSizes *gm_graph_sizes_new (const GmGraph *g);
void gm_graph_sizes_free (GmGraphSizes *s); /* NULL is fine */

/* For these numbers, by symbol: a new reference; NULL with an exception. */
GmGraphNow *gm_graph_sizes_at (GmGraphSizes *s, const int64_t *symbols);
/* For these inputs, tensors, and ints where an input is one; what no input says is as in the run that this thread is in. */
GmGraphNow *gm_graph_sizes_now (GmGraphSizes *s, PyObject *const *inputs, Py_ssize_t n);
void gm_graph_now_unref (GmGraphNow *now); /* NULL is fine */

/* Between enter and leave, properly nested, this thread runs the graph for these numbers: what it asks of sizes are they.  The caller holds `now`. */
typedef struct GmGraphEntered {
  const GmGraphSizes *sizes;
  const GmGraphNow *now;
  struct GmGraphEntered *before;
} GmGraphEntered;
void gm_graph_sizes_enter (const GmGraphSizes *s, const GmGraphNow *now, GmGraphEntered *entered);
void gm_graph_sizes_leave (void);
/* Borrowed; NULL: this thread does not run it. */
const GmGraphNow *gm_graph_sizes_entered (const GmGraphSizes *s);

#endif
