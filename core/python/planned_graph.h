/* SPDX-License-Identifier: Apache-2.0
 * planned_graph.h -- gramme._core.PlannedGraph: a recorded graph, compiled with a back end of its own.
 *
 * A back end in Python hands the graph that it is given to another one: to aot_autograd (...), or to lookup_backend ("tcc").
 * Requires: the GIL, everywhere.
 */
#ifndef GM_PYTHON_PLANNED_GRAPH_H
#define GM_PYTHON_PLANNED_GRAPH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int gm_py_init_planned_graph (PyObject *module);

#endif
