/* SPDX-License-Identifier: Apache-2.0
 * callable_backend.h -- any Python callable as a back end.
 *
 * `fn (graph, example_inputs)` gets a gramme.fx.GraphModule and tensors, and returns a callable of the same inputs that
 * returns a tuple of tensors.  Two ways: plainly, the recorded graph goes to fn, the result is called in its place, and
 * gradients are those of the eager ops that run inside; with `fn.aot` true, fn gets the functional forward and, where
 * gradients are needed, backward graphs, and the plan does all else.
 * Requires: the GIL, everywhere.
 */
#ifndef GM_PYTHON_CALLABLE_BACKEND_H
#define GM_PYTHON_CALLABLE_BACKEND_H

#include "core/python/code_cache.h"

/* What fn made of a recorded graph: called instead of a plan. */
struct GmDirect {
  PyObject *fn;       /* owned */
  char *name;         /* of the back end */
  uint32_t n_inputs;  /* of the graph */
  uint32_t *slots;    /* per input: the guards' slot, or GM_SLOT_RNG */
  int64_t rng_draws;  /* by which the generator advances: a size */
  uint32_t rng_output; /* the result that is its state afterwards; GM_NO_ID: none is */
  uint32_t n_outputs;
  GmMeta *outputs;
  bool may_fail;       /* for some values */
  bool changes_shapes; /* of inputs, or their memory */
  uint32_t n_written, *written; /* inputs that it writes to */
  PyObject *graph;    /* owned: the graph object, where it has symbolic sizes; else NULL */
};
void gm_direct_free (GmDirect *d); /* NULL is fine */

/* Whether fn wants forward and backward graphs: its attribute `aot`. */
bool gm_callable_is_aot (PyObject *fn);
/* Calls fn for a recording whose inputs are slots[...].  NULL with BackendCompilerFailed. */
GmDirect *gm_callable_compile (const GmConfig *config, const GmRecording *rec, const GmGraph *graph, PyObject *const *slots);
/* outputs: new references.  False with an exception; then *undone says if all that it had done is undone. */
bool gm_direct_run (const GmDirect *d, PyObject *const *slots, PyObject **outputs, bool *undone);
/* Fits GmCompile.ask.make_exec; data: the GmConfig. */
bool gm_callable_make_exec (const void *data, const GmGraph *forward, const GmGraph *backward, bool at_once, GmPlanExec *out, GError **error);

/* gramme.compiler.BackendCompilerFailed, a BackendError. */
extern PyObject *gm_py_backend_failed;
int gm_py_init_callable_backend (PyObject *module);

#endif
