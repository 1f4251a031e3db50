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

/* The graph for the values `symbols` of its symbols; reference counted. */
typedef struct {
  int refs;
  GmGraph *graph;
  int64_t *symbols;
} GmGraphNow;

/* Makes the object for a graph with symbolic sizes; NULL if all of g's sizes are numbers.  g
 * must outlive the result. */
GmGraphSizes *gm_graph_sizes_new (const GmGraph *g);
void gm_graph_sizes_free (GmGraphSizes *s); /* NULL is fine */

/* Returns the graph for these values of the symbols, by symbol number: a new reference; NULL
 * with an exception. */
GmGraphNow *gm_graph_sizes_at (GmGraphSizes *s, const int64_t *symbols);
/* Returns the graph for these inputs: tensors, or ints where an input is an int.  A symbol that
 * no input determines keeps the value of this thread's current run.  New reference; NULL with an
 * exception. */
GmGraphNow *gm_graph_sizes_now (GmGraphSizes *s, PyObject *const *inputs, Py_ssize_t n);
void gm_graph_now_unref (GmGraphNow *now); /* NULL is fine */

/* A scope in which this thread runs the graph for the numbers of `now`, so that reads of the
 * graph's sizes return them.  Enter and leave are properly nested; the caller keeps the reference
 * to `now`. */
typedef struct GmGraphEntered {
  const GmGraphSizes *sizes;
  const GmGraphNow *now;
  struct GmGraphEntered *before;
} GmGraphEntered;
void gm_graph_sizes_enter (const GmGraphSizes *s, const GmGraphNow *now, GmGraphEntered *entered);
void gm_graph_sizes_leave (void);
/* Returns the numbers of this thread's current run of the graph, borrowed; NULL if the thread
 * does not run it. */
const GmGraphNow *gm_graph_sizes_entered (const GmGraphSizes *s);

#endif
