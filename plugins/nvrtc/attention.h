/* SPDX-License-Identifier: Apache-2.0
 * attention.h -- softmax (q @ k^T * scale + mask) @ v as one kernel, where a graph has it written out.
 *
 * The pattern is looked for in a program before it is printed.  What lies between the two products is in no memory then: steps that
 * make it are moved behind the second product, which becomes the kernel, and are not printed; so what the kernel reads lives until
 * it has run.  The rows of scores are walked piece by piece with a running maximum and sum, in f32: near the written-out form, not
 * its bits.  Rejected: where a gradient wants the weights, which then are results of the graph.
 */
#ifndef NVRTC_ATTENTION_H
#define NVRTC_ATTENTION_H

#include "plugins/nvrtc/unit.h"

typedef enum { NV_MASK_NONE, NV_MASK_KEEPS, NV_MASK_DROPS, NV_MASK_ADDED, NV_MASK_CAUSAL } NvMask;

struct NvAttention {
  uint32_t node; /* the second product */
  uint32_t q, k, v, mask, scale; /* values; k is [..., e, s]; scale: a literal, or CG_NONE */
  bool divides;                  /* by the scale */
  NvMask kind;
  uint64_t *inner; /* nodes, as bits: all but `node` */
};

/* Finds all of them, and changes the program so that nv_unit_print can print them. */
int32_t nv_attention_find (CgProgram *p, NvAttention **out, uint32_t *n, GrammeStatus *status);
void nv_attention_free (NvAttention *list, uint32_t n);

/* Is the step a part of one that is not printed?  The one whose kernel it is, or NULL. */
bool nv_attention_hides (const NvUnit *u, const CgStep *s);
const NvAttention *nv_attention_at (const NvUnit *u, const CgStep *s);
void nv_print_attention (NvUnit *u, const NvAttention *a);

/* -- Of both kernels (attention_kernel.c) ------------------------------------------------------ */

typedef struct {
  uint32_t arg;
  const CgValue *v;
  int64_t row, col; /* strides of the last two dimensions, 0 where it is broadcast */
} NvOperand;

/* An argument; indices go up to `past` rows and columns beyond its end. */
NvOperand nv_attention_operand (NvUnit *u, uint32_t value, uint32_t ndim, int64_t past, bool writes);
/* Where the batch b0, b1 ... begins. */
void nv_attention_offset (NvUnit *u, const char *name, const NvOperand *o, uint32_t ndim);
/* Are n rows so many times `rows`?  Then nobody has to ask where they end. */
bool nv_attention_is_whole (int64_t n, int rows);
/* n, but not beyond the last row of `all`: what is read there is read once more, and dropped.  A piece of text in out. */
void nv_attention_clamp (NvUnit *u, char *out, size_t room, const char *n, int64_t all, int rows);
/* Statements on the score `a` of row i and column s, both of which there are; row: where the row begins in the mask. */
void nv_attention_scale (NvUnit *u, const NvAttention *a);
void nv_attention_mask (NvUnit *u, const NvAttention *a, const NvOperand *mask, const char *row);

/* attention_mma.c */
bool nv_attention_is_mma (const NvUnit *u, const NvAttention *a);
void nv_print_attention_mma (NvUnit *u, const NvAttention *a);

#endif
