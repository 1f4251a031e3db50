/* SPDX-License-Identifier: Apache-2.0
 * attention.h -- replaces softmax (q @ k^T * scale + mask) @ v, written out in a graph, by one
 * kernel.
 *
 * The pattern is searched in a program before it is printed.  Values between the two products are
 * then not stored: the steps that make them are moved behind the second product, which becomes the
 * kernel, and are not printed, so that the kernel's operands live until it has run.  The rows of
 * scores are walked piece by piece with a running maximum and sum, in f32: the results are near the
 * written-out form, but without its bits.  Rejected: where a gradient needs the weights, which are
 * then results of the graph.
 */
#ifndef NVRTC_ATTENTION_H
#define NVRTC_ATTENTION_H

#include "plugins/nvrtc/gpu_unit.h"

typedef enum { NV_MASK_NONE, NV_MASK_KEEPS, NV_MASK_DROPS, NV_MASK_ADDED, NV_MASK_CAUSAL } NvMask;

struct NvAttention {
  uint32_t node;                 /* the second product */
  uint32_t q, k, v, mask, scale; /* values; k is [..., e, s]; scale: a literal, or CG_NONE */
  bool divides;                  /* true if scores are divided by the scale */
  NvMask kind;
  uint64_t *inner; /* nodes of the pattern, as bits: all but `node` */
};

/* Finds all instances of the pattern, and changes the program so that nv_unit_print can print
 * them. */
int32_t nv_attention_find (CgProgram *p, NvAttention **out, uint32_t *n, GrammeStatus *status);
void nv_attention_free (NvAttention *list, uint32_t n);

/* nv_attention_hides: true if the step belongs to a pattern and is not printed.  nv_attention_at:
 * returns the pattern whose kernel the step is, or NULL. */
bool nv_attention_hides (const NvUnit *u, const CgStep *s);
const NvAttention *nv_attention_at (const NvUnit *u, const CgStep *s);
void nv_print_attention (NvUnit *u, const NvAttention *a);

/* -- Shared by both kernels (attention_kernel.c) ----------------------------------------------- */

typedef struct {
  uint32_t arg;
  const CgValue *v;
  int64_t row, col; /* strides of the last two dimensions, 0 where the operand is broadcast */
} NvOperand;

/* Adds an argument for `value`; the kernel's indices go up to `past` rows and columns beyond its
 * end. */
NvOperand nv_attention_operand (NvUnit *u, uint32_t value, uint32_t ndim, int64_t past,
                                bool writes);
/* Prints variable `name`, the offset of the batch with coordinates b0, b1 .... */
void nv_attention_offset (NvUnit *u, const char *name, const NvOperand *o, uint32_t ndim);
/* True if n is a multiple of `rows`, so that no bounds have to be checked. */
bool nv_attention_is_whole (int64_t n, int rows);
/* Writes to `out` the expression n, limited to the last row of `all`. Rows beyond the end read that
 * row once more, and are dropped. */
void nv_attention_clamp (NvUnit *u, char *out, size_t room, const char *n, int64_t all, int rows);
/* Print statements that scale and mask the score `a` of row i and column s, which exist; row:
 * offset of the row in the mask. */
void nv_attention_scale (NvUnit *u, const NvAttention *a);
void nv_attention_mask (NvUnit *u, const NvAttention *a, const NvOperand *mask, const char *row);

/* True if the kernel of attention_mma.c, on tensor cores, supports this pattern. */
bool nv_attention_is_mma (const NvUnit *u, const NvAttention *a);
void nv_print_attention_mma (NvUnit *u, const NvAttention *a);

#endif
