/* SPDX-License-Identifier: Apache-2.0
 * node_py.h -- nodes of the tape as Python objects: Tensor.grad_fn, and gradient edges.
 */
#ifndef GM_OBJECTS_NODE_PY_H
#define GM_OBJECTS_NODE_PY_H

#include "core/autograd/node_user.h"
#include "core/objects/tensor_object.h"

/* Returns the Python object for node n, the same object as long as a reference to it exists;
 * steals the reference to n.  NULL with an exception. */
PyObject *gm_py_node_take (GmAgNode *n);

/* True if o is a GradientEdge, or any tuple (node, number, ...). */
bool gm_py_edge_check (PyObject *o);
/* Returns a new tensor without elements at the place in the gradient history that the edge
 * names; `like`: a meta for it, or NULL.  NULL with an exception. */
GmTensor *gm_py_edge_tensor (PyObject *edge, const GmMeta *like);
/* True if the edge was made from a tensor, and so knows the tensor's meta. */
bool gm_py_edge_knows (PyObject *edge);

extern PyTypeObject gm_py_node_type;
extern PyMethodDef gm_py_node_functions[];
int gm_py_init_node (PyObject *module);

#endif
