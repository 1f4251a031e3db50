/* SPDX-License-Identifier: Apache-2.0
 * autograd_py.h -- autograd for Python: Tensor attributes and methods, and the functions of
 * gramme.autograd.
 */
#ifndef GM_OBJECTS_AUTOGRAD_PY_H
#define GM_OBJECTS_AUTOGRAD_PY_H

#include "core/aot/stretch_cache.h"
#include "core/objects/tensor_object.h"

PyObject *gm_py_tensor_backward (PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *gm_py_tensor_register_hook (PyObject *self, PyObject *hook);
PyObject *gm_py_tensor_register_post_hook (PyObject *self, PyObject *hook);
extern PyTypeObject gm_py_hook_handle_type;
/* Returns a handle for hook `id` on node n: a new reference, or NULL with an exception.  before:
 * the hook runs before the node. */
PyObject *gm_py_node_handle (struct GmAgNode *n, bool before, uint64_t id);
/* True if the innermost saved-tensor hooks of this thread are marked as inlineable into a graph;
 * then sets *pack and *unpack, borrowed. */
bool gm_py_saved_hooks_traced (PyObject **pack, PyObject **unpack);
PyObject *gm_py_tensor_grad_fn (PyObject *self, void *closure);
PyObject *gm_py_tensor_get_grad (PyObject *self, void *closure);
int gm_py_tensor_set_grad (PyObject *self, PyObject *value, void *closure);

/* The state of a backward that may be compiled. */
typedef struct {
  bool entered;
  GmStretchCache *tape; /* owned while entered */
} GmBackwardScope;

/* The functions that core/capture sets when the module is loaded. */
typedef struct {
  /* Enters a tape if config.compiled_autograd says so and no tape is entered; false with an
   * exception.  Each begin is followed by an end. */
  bool (*begin) (GmBackwardScope *scope);
  void (*end) (GmBackwardScope *scope);
  /* Called after each call of a hook while a tape is entered. */
  void (*hook_called) (PyObject *hook, GmTensor *grad);
} GmBackwardWatch;
extern GmBackwardWatch gm_py_backward_watch;

extern PyMethodDef gm_py_autograd_functions[];

int gm_py_init_autograd (PyObject *module);

/* Calls a hook written in Python; fits GmTensorHook.  data: the callable, owned by the hook. */
GmTensor *gm_py_call_hook (void *data, GmTensor *grad, GError **error);

#endif
