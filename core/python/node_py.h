/* SPDX-License-Identifier: Apache-2.0
 * node_py.h -- nodes of the tape as Python objects: Tensor.grad_fn, and gradient edges.
 */
#ifndef GM_PYTHON_NODE_PY_H
#define GM_PYTHON_NODE_PY_H

#include "core/autograd/node_user.h"
#include "core/python/tensor_object.h"

/* The object that stands for n, one as long as anybody holds it; takes n's reference. */
PyObject *gm_py_node_take (GmAgNode *n);
bool gm_py_node_check (PyObject *o);

/* A GradientEdge, or anything that is (node, number, ...). */
bool gm_py_edge_check (PyObject *o);
/* A tensor with that place in the history; like: a meta for it, or NULL.  NULL with an exception. */
GmTensor *gm_py_edge_tensor (PyObject *edge, const GmMeta *like);
/* Whether the edge knows what its tensor is like. */
bool gm_py_edge_knows (PyObject *edge);

extern PyTypeObject gm_py_node_type;
extern PyMethodDef gm_py_node_functions[];
int gm_py_init_node (PyObject *module);

#endif
