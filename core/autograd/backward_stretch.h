/* SPDX-License-Identifier: Apache-2.0
 * backward_stretch.h -- a stretch of a walk: steps of the engine that follow each other, to be done
 * as one.
 *
 * While a runner is set on this thread, the engine does not take one node after the other: it
 * collects the steps up to the next one that only it can do (user code: a hook, a Function; a
 * compiled function; a region that runs again; a saved tensor that was changed, which is an error),
 * hands them to the runner, and puts what comes out where the steps would have put it.
 */
#ifndef GM_AUTOGRAD_BACKWARD_STRETCH_H
#define GM_AUTOGRAD_BACKWARD_STRETCH_H

#include "core/autograd/autograd.h"
#include "core/base/thread.h"

typedef struct GmStretch GmStretch;

/* Runs the steps.  out[k], for output k: a new reference, or NULL where nothing arrives or the
 * present gradient stays; ran[i]: true if something arrived at step i.  Both are cleared before.
 * False: *error is set, and *out is as it was. */
typedef bool (*GmStretchRun) (void *data, GmStretch *s, GmTensor **out, bool *ran, GError **error);
/* A hook on a gradient that is no more than a program over the gradient.  Counted: free is called
 * at the last unref. */
typedef struct GmHookProgram {
  gatomicrefcount refs;
  uint64_t id; /* unique */
  GmMeta grad; /* the only dtype, shape and layout of gradients that the program is for */
  /* NULL: the gradient stays as it is */
  GmVal (*emit) (const struct GmHookProgram *p, GmBuilder *b, GmVal grad, const GmVal *captured);
  void (*free) (struct GmHookProgram *p);
} GmHookProgram;

/* Returns the program that the hook is at this moment for gradients of this dtype and shape, a new
 * reference, and appends what it reads beside the gradient to `captured` (GmTensor, new
 * references).  NULL: the hook has to be called. */
typedef GmHookProgram *(*GmHookFind) (GmTensorHook hook, void *hook_data, const GmMeta *like,
                                      GPtrArray *captured);

typedef struct {
  GmStretchRun run;
  void *data;
  GmHookFind find_hook; /* NULL: every hook has to be called */
} GmStretchRunner;
static inline void
gm_hook_program_unref (GmHookProgram *p)
{
  if (p && g_atomic_ref_count_dec (&p->refs))
    p->free (p);
}

extern GM_THREAD const GmStretchRunner *gm_stretch_runner_now; /* NULL: one node after the other */

/* Functions for the runner. */
uint32_t gm_stretch_n_steps (const GmStretch *s);
uint32_t gm_stretch_n_operations (const GmStretch *s); /* summed over the steps */
uint32_t gm_stretch_n_outputs (const GmStretch *s); /* gradients that the stretch leaves behind */
/* Returns all tensors that the stretch reads: borrowed. */
GmTensor *const *gm_stretch_inputs (const GmStretch *s, uint32_t *n);
/* Returns a name for input i: "grad0", "saved3".  Caller frees. */
char *gm_stretch_input_name (const GmStretch *s, uint32_t i);
/* True if new results are to have a history. */
bool gm_stretch_creates_graph (const GmStretch *s);
/* The two keys of a stretch: stretches with equal bytes in both give the same program in
 * gm_stretch_emit.  `shape`: sizes, strides and dtypes of inputs, and attributes; `structure`: the
 * rest. */
const GByteArray *gm_stretch_structure (const GmStretch *s);
const GByteArray *gm_stretch_shape (const GmStretch *s);

/* Emits the steps as a program: in, out, ran as above, but values of b; out[k] is not owned.  note
 * (b, name), if not NULL, is called before the operations of the node of this name.  Gradients are
 * added in the engine's order. */
void gm_stretch_emit (const GmStretch *s, GmBuilder *b, const GmVal *in, GmVal *out, bool *ran,
                      void (*note) (GmBuilder *b, const char *name));
/* A GmStretchRun: runs one operation after the other. */
bool gm_stretch_run_eagerly (void *data, GmStretch *s, GmTensor **out, bool *ran, GError **error);

/* Runs the next step, or stretch, of a walk; for the engine.  A step must be ready. */
struct GmWalk;
bool gm_stretch_step (struct GmWalk *w, GError **error);

#endif
