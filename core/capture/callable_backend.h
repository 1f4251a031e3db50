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

/* Callable that a Python back end made of a recorded graph, with what is needed to call it; used
 * instead of a plan. */
struct GmDirect {
  PyObject *fn;      /* owned */
  char *name;        /* name of the back end */
  uint32_t n_inputs; /* number of the graph's inputs */
  uint32_t *slots;   /* by input: the slot of the guards that holds it, or GM_SLOT_RNG */
  int64_t rng_draws; /* count of random numbers drawn, by which the generator advances: a size */
  /* Index of the result that is the random generator's state after the graph; GM_NO_ID: none. */
  uint32_t rng_output;
  uint32_t n_outputs;
  GmMeta *outputs;
  bool may_fail;                /* true if the graph fails for some values */
  bool changes_shapes;          /* true if the graph changes the shapes or the memory of inputs */
  uint32_t n_written, *written; /* inputs that the graph writes to */
  PyObject *graph; /* owned: the graph object, where it has symbolic sizes; else NULL */
};
void gm_callable_direct_free (GmDirect *d); /* NULL is fine */

/* True if the back end `fn` wants functional forward and backward graphs, which its attribute
 * `aot` says.  Never sets an exception. */
bool gm_callable_is_aot (PyObject *fn);
/* Compiles a recorded graph, whose inputs are slots[...], with the Python back end of `config`.
 * Returns NULL with BackendCompilerFailed. */
GmDirect *gm_callable_compile (const GmConfig *config, const GmRecording *rec, const GmGraph *graph,
                               PyObject *const *slots);
/* Runs the code of `d` and stores new references in outputs[...].  False with an exception;
 * *undone is then true if all its writes to the inputs were undone. */
bool gm_callable_direct_run (const GmDirect *d, PyObject *const *slots, PyObject **outputs,
                             bool *undone);
/* Compiles a pair of graphs with a Python back end and stores in *out what a plan needs to run
 * it; fits GmCompile.ask.make_exec.  data: the GmConfig; backward: NULL without gradients; at_once:
 * false leaves the backward to its first use.  False with *error. */
bool gm_callable_make_exec (const void *data, const GmGraph *forward, const GmGraph *backward,
                            bool at_once, GmPlanExec *out, GError **error);

/* The exception class gramme.compiler.BackendCompilerFailed, a BackendError. */
extern PyObject *gm_py_backend_failed;
int gm_py_init_callable_backend (PyObject *module);

#endif
