/* SPDX-License-Identifier: Apache-2.0
 * graph_object.h -- gramme._core.Graph: a recorded graph that Python can read and run.
 */
#ifndef GM_PYTHON_GRAPH_OBJECT_H
#define GM_PYTHON_GRAPH_OBJECT_H

#include "core/graph/graph.h"
#include "core/python/graph_sizes.h"
#include "core/python/tensor_object.h"

/* A new object around a copy of g. */
PyObject *gm_py_graph_new (const GmGraph *g);
/* What a graph object holds, borrowed; NULL: o is none. */
const GmGraph *gm_py_graph_get (PyObject *o);
/* Of a graph object, borrowed; NULL: all its sizes are numbers. */
GmGraphSizes *gm_py_graph_sizes (PyObject *o);
/* fn (*args), while the graph's sizes are those of `now`, or NULL.  A new reference, or NULL with an exception. */
PyObject *gm_py_graph_call (PyObject *graph, const GmGraphNow *now, PyObject *fn, PyObject *const *args, Py_ssize_t n);
/* gramme.fx.GraphModule (graph), NULL with an exception.  Saved-tensor hooks of the graph, and the
 * functions that its cond, while_loop and scan run (cond_true_0, cond_false_0 ...), are modules
 * too, its attributes. */
PyObject *gm_py_graph_module (const GmGraph *g);

int gm_py_init_graph (PyObject *module);

#endif
