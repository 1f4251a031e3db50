/* SPDX-License-Identifier: Apache-2.0
 * backward_stretch.h -- a stretch of a walk: steps of the engine that follow each other, to be done
 * as one.
 *
 * While a runner is set on this thread, the engine does not run one node after the other: it
 * collects steps up to the next step that only the engine can do (user code: a hook, a Function; a
 * compiled function; a region of a checkpoint; a saved tensor that was changed, which is an error),
 * passes them to the runner, and puts the resulting gradients where the steps would have put them.
 */
#ifndef GM_AUTOGRAD_BACKWARD_STRETCH_H
#define GM_AUTOGRAD_BACKWARD_STRETCH_H

#include "core/autograd/autograd.h"
#include "core/base/thread.h"

typedef struct GmStretch GmStretch;

/* Runs the steps of s.  Sets out[k], for output k, to a new reference, or leaves NULL where no
 * gradient arrives or the leaf's present gradient stays; sets ran[i] if a gradient arrived at step
 * i.  Both arrays are zeroed before.  False: *error is set, and `out` is unchanged. */
typedef bool (*GmStretchRun) (void *data, GmStretch *s, GmTensor **out, bool *ran, GError **error);
/* A hook on a gradient that is a program over the gradient alone.  Counted: `free` is called when
 * the last reference is dropped. */
typedef struct GmHookProgram {
  gatomicrefcount refs;
  uint64_t id; /* unique among hook programs */
  GmMeta grad; /* the only dtype, shape and layout of gradients that the program is for */
  /* Returns the value of b that the hook makes of `grad`; NULL: the gradient stays as it is. */
  GmVal (*emit) (const struct GmHookProgram *p, GmBuilder *b, GmVal grad, const GmVal *captured);
  void (*free) (struct GmHookProgram *p);
} GmHookProgram;

/* Returns a new reference to the program that the hook is at this moment, for gradients of this
 * dtype and shape, and appends new references to the tensors that it reads beside the gradient to
 * `captured`.  NULL: the hook has to be called. */
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

extern GM_THREAD const GmStretchRunner *gm_stretch_runner_now; /* NULL: the engine runs node by
                                                                * node */

/* Returns the number of steps.  This and the following functions are for the runner. */
uint32_t gm_stretch_n_steps (const GmStretch *s);
uint32_t gm_stretch_n_operations (const GmStretch *s); /* the sum over all steps */
uint32_t gm_stretch_n_outputs (const GmStretch *s);    /* gradients that are left when the stretch
                                                        * is over */
/* Returns all *n tensors that the stretch reads, borrowed. */
GmTensor *const *gm_stretch_inputs (const GmStretch *s, uint32_t *n);
/* Returns a name for input i, such as "grad0" or "saved3"; the caller frees it. */
char *gm_stretch_input_name (const GmStretch *s, uint32_t i);
/* True if the results are to have a history (create_graph). */
bool gm_stretch_creates_graph (const GmStretch *s);
/* The two keys of a stretch, owned by it: stretches with equal bytes in both give the same program
 * in gm_stretch_emit.  `shape` has sizes, strides and dtypes of inputs, and attributes; `structure`
 * has the rest. */
const GByteArray *gm_stretch_structure (const GmStretch *s);
const GByteArray *gm_stretch_shape (const GmStretch *s);

/* Appends the steps to b as a program.  in, out and ran are as in GmStretchRun, but in and out are
 * values of b, and out is not owned.  note (b, name), if not NULL, is called before the operations
 * of the node of this name.  Gradients are added in the engine's order. */
void gm_stretch_emit (const GmStretch *s, GmBuilder *b, const GmVal *in, GmVal *out, bool *ran,
                      void (*note) (GmBuilder *b, const char *name));
/* Runs one operation after the other: a GmStretchRun. */
bool gm_stretch_run_eagerly (void *data, GmStretch *s, GmTensor **out, bool *ran, GError **error);

/* Runs the next step of a walk, or the next stretch if a runner is set; for the engine.  At least
 * one step must be ready.  False with *error set on failure. */
struct GmWalk;
bool gm_stretch_step (struct GmWalk *w, GError **error);

#endif
