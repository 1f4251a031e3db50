/* SPDX-License-Identifier: Apache-2.0
 * graph_sizes.h -- symbolic sizes of a graph that Python reads and runs: names when read, numbers
 * while running.
 *
 * Requires: the GIL, everywhere.
 */
#ifndef GM_OBJECTS_GRAPH_SIZES_H
#define GM_OBJECTS_GRAPH_SIZES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/graph/graph.h"

typedef struct GmGraphSizes GmGraphSizes;

/* The graph for one set of numbers; reference counted. */
typedef struct {
  int refs;
  GmGraph *graph;
  int64_t *symbols;
} GmGraphNow;

/* Returns NULL if all of g's sizes are numbers.  g must outlive the result. */
GmGraphSizes *gm_graph_sizes_new (const GmGraph *g);
void gm_graph_sizes_free (GmGraphSizes *s); /* NULL is fine */

/* Returns the graph for these numbers, by symbol: a new reference; NULL with an exception. */
GmGraphNow *gm_graph_sizes_at (GmGraphSizes *s, const int64_t *symbols);
/* Returns the graph for these inputs: tensors, and ints where an input is an int.  Symbols that no
 * input determines have the values of this thread's current run.  New reference; NULL with an
 * exception. */
GmGraphNow *gm_graph_sizes_now (GmGraphSizes *s, PyObject *const *inputs, Py_ssize_t n);
void gm_graph_now_unref (GmGraphNow *now); /* NULL is fine */

/* Between enter and leave, properly nested, this thread runs the graph for these numbers, and reads
 * of its sizes return them.  The caller holds `now`. */
typedef struct GmGraphEntered {
  const GmGraphSizes *sizes;
  const GmGraphNow *now;
  struct GmGraphEntered *before;
} GmGraphEntered;
void gm_graph_sizes_enter (const GmGraphSizes *s, const GmGraphNow *now, GmGraphEntered *entered);
void gm_graph_sizes_leave (void);
/* Returns the numbers of this thread's current run, borrowed; NULL if it does not run the graph. */
const GmGraphNow *gm_graph_sizes_entered (const GmGraphSizes *s);

#endif
