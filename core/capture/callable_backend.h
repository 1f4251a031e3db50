/* SPDX-License-Identifier: Apache-2.0
 * callable_backend.h -- Python callables as back ends.
 *
 * `fn (graph, example_inputs)` gets a gramme.fx.GraphModule and tensors, and returns a callable of
 * the same inputs that returns a tuple of tensors.  There are two ways.  Plainly, fn gets the
 * recorded graph, its result is called in the graph's place, and gradients are those of the eager
 * ops that run inside.  With `fn.aot` true, fn gets the functional forward and, where gradients are
 * needed, backward graphs, and the plan does all the rest.
 * Requires: the GIL, everywhere.
 */
#ifndef GM_CAPTURE_CALLABLE_BACKEND_H
#define GM_CAPTURE_CALLABLE_BACKEND_H

#include "core/capture/code_cache.h"

/* The result of fn for a recorded graph, called instead of a plan. */
struct GmDirect {
  PyObject *fn;      /* owned */
  char *name;        /* of the back end */
  uint32_t n_inputs; /* of the graph */
  uint32_t *slots;   /* by input: the guards' slot, or GM_SLOT_RNG */
  int64_t rng_draws; /* numbers drawn, by which the generator advances: a size */
  /* Number of the result that is the generator's state afterwards; GM_NO_ID: none. */
  uint32_t rng_output;
  uint32_t n_outputs;
  GmMeta *outputs;
  bool may_fail;                /* true if the graph fails for some values */
  bool changes_shapes;          /* true if the graph changes the shapes or the memory of inputs */
  uint32_t n_written, *written; /* inputs that the graph writes to */
  PyObject *graph; /* owned: the graph object, where it has symbolic sizes; else NULL */
};
void gm_callable_direct_free (GmDirect *d); /* NULL is fine */

/* True if fn takes forward and backward graphs: the value of its attribute `aot`. */
bool gm_callable_is_aot (PyObject *fn);
/* Calls fn with a recording whose inputs are slots[...].  Returns NULL with
 * BackendCompilerFailed. */
GmDirect *gm_callable_compile (const GmConfig *config, const GmRecording *rec, const GmGraph *graph,
                               PyObject *const *slots);
/* Runs the code.  outputs: new references.  False with an exception; *undone is then true if all of
 * its writes were undone. */
bool gm_callable_direct_run (const GmDirect *d, PyObject *const *slots, PyObject **outputs,
                             bool *undone);
/* Makes an exec; fits GmCompile.ask.make_exec.  data: the GmConfig. */
bool gm_callable_make_exec (const void *data, const GmGraph *forward, const GmGraph *backward,
                            bool at_once, GmPlanExec *out, GError **error);

/* gramme.compiler.BackendCompilerFailed, a BackendError. */
extern PyObject *gm_py_backend_failed;
int gm_py_init_callable_backend (PyObject *module);

#endif
