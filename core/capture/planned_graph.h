/* SPDX-License-Identifier: Apache-2.0
 * planned_graph.h -- gramme._core.PlannedGraph: a recorded graph, compiled with a back end of its
 * own.
 *
 * For a back end in Python that passes the graph that it was given to another back end: by
 * aot_autograd (...), or lookup_backend ("tcc").
 * Requires: the GIL, everywhere.
 */
#ifndef GM_CAPTURE_PLANNED_GRAPH_H
#define GM_CAPTURE_PLANNED_GRAPH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int gm_py_init_planned_graph (PyObject *module);

#endif
