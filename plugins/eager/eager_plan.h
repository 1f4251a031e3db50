/* SPDX-License-Identifier: Apache-2.0
 * eager_plan.h -- places of all values of an image while it runs, planned at compile time.
 *
 * A run has a table of base addresses: the inputs, the outputs, the workspace, the constants.  A
 * value is a base and a number of bytes after it.  A view has its input's base, so MOVEMENT nodes
 * cost nothing at run time.  Intermediate values share the workspace if their lifetimes do not
 * overlap.
 */
#ifndef GM_EAGER_EAGER_PLAN_H
#define GM_EAGER_EAGER_PLAN_H

#include <gramme-ext.h>
#include <gramme-plugin-util.h>

#include <stdbool.h>

typedef struct {
  uint32_t base;
  int64_t offset; /* bytes */
} Place;

typedef struct {
  GrammeKernel *kernel;
  uint32_t first_operand; /* index into operands: the inputs, then the result */
  uint32_t node;          /* node of the image, for messages; GRAMME_NONE: the copy of an output */
  /* The step reads an operand with the result's layout only where it writes. */
  bool elementwise;
} Step;

typedef struct {
  uint32_t n_in, n_out, n_steps, n_operands;
  Step *steps;
  Place *operands;
  uint64_t temporary_bytes; /* bytes of values in the workspace */
  void *constants;          /* of host->alloc: the bytes of all constants */
  uint64_t constant_bytes;
} Plan;

/* Numbers of the bases: inputs are 0 .. n_in - 1, then come n_out outputs, then these two. */
#define PLAN_WORKSPACE(p) ((p)->n_in + (p)->n_out)
#define PLAN_CONSTANTS(p) ((p)->n_in + (p)->n_out + 1)
#define PLAN_BASES(p) ((p)->n_in + (p)->n_out + 2)

/* Fills a zeroed plan, which must be cleared also after an error.  constants: by slot of this
 * image. */
int32_t plan_make (Plan *p, const GrammeHost *host, const GrammeKernels *kernels,
                   const GrammeImage *image, const GrammeTensor *constants, GrammeStatus *status);
/* True if output `output` may use the memory of input `input`, whose elements are not read after
 * the run. */
bool plan_may_share (const Plan *p, uint32_t input, uint32_t output);
void plan_clear (Plan *p, const GrammeHost *host, const GrammeKernels *kernels);

#endif
