/* SPDX-License-Identifier: Apache-2.0
 * graph_object.h -- gramme._core.Graph: a recorded graph that Python can read and run.
 */
#ifndef GM_OBJECTS_GRAPH_OBJECT_H
#define GM_OBJECTS_GRAPH_OBJECT_H

#include "core/graph/graph.h"
#include "core/objects/graph_sizes.h"
#include "core/objects/tensor_object.h"

/* Returns the graph of a graph object, borrowed; NULL if o is not a graph object. */
const GmGraph *gm_py_graph_get (PyObject *o);
/* Returns the symbolic sizes of a graph object, borrowed; NULL: all its sizes are numbers. */
GmGraphSizes *gm_py_graph_sizes (PyObject *o);
/* Calls fn (*args) while the graph's sizes are those of `now` (may be NULL).  Returns a new
 * reference, or NULL with an exception. */
PyObject *gm_py_graph_call (PyObject *graph, const GmGraphNow *now, PyObject *fn,
                            PyObject *const *args, Py_ssize_t n);
/* Returns gramme.fx.GraphModule (graph), or NULL with an exception.  Saved-tensor hooks of the
 * graph, and the functions that its cond, while_loop and scan run (cond_true_0, cond_false_0 ...),
 * are modules too, as its attributes. */
PyObject *gm_py_graph_module (const GmGraph *g);

int gm_py_init_graph (PyObject *module);

#endif
