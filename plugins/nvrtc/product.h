/* SPDX-License-Identifier: Apache-2.0
 * product.h -- matrix products by cuBLASLt, where it can be opened and takes the operands as they lie.
 *
 * A product is a launch without a kernel.  What follows it pointwise and is an addition (of a row, or of a matrix) or relu goes
 * into it: the product's own step is moved behind that one's, which is not printed; so what the product reads lives until it has
 * run, and its own value is in no memory.  Floats are summed in f32 (f64 in f64), without TF32, in cuBLAS's order: near the
 * kernel of matmul.c, not its bits.
 *
 * What cuBLASLt chooses for given sizes and alignments is asked for once and kept.  Thread: any.
 */
#ifndef NVRTC_PRODUCT_H
#define NVRTC_PRODUCT_H

#include "plugins/nvrtc/replay.h"
#include "plugins/nvrtc/unit.h"

#include <pthread.h>

typedef struct {
  int64_t ld, batch; /* elements: sizes */
  bool down;         /* neighbours in memory are of one column, and ld is from column to column */
} NvMatrix;

typedef struct NvChosen NvChosen;

struct NvProduct {
  uint32_t dtype;
  int64_t rows, cols, depth, batches; /* sizes */
  NvMatrix a, b, c;
  bool adds_row, adds_matrix, relu; /* the matrix lies as the result does */
  pthread_mutex_t lock;             /* of what follows */
  NvChosen *chosen;
  uint32_t n_chosen;
};

/* A product with what follows it. */
struct NvEpilogue {
  uint32_t product, last; /* nodes */
  uint32_t added;         /* a value, or CG_NONE */
  bool is_row, relu;
};

/* Whether the library takes this matmul node, and how. */
bool nv_product_read (const CgProgram *p, uint32_t node, NvProduct *out);
/* Finds products that end in additions and relu, and changes the program so that nv_unit_print can print them. */
int32_t nv_epilogue_find (CgProgram *p, NvEpilogue **out, uint32_t *n, GrammeStatus *status);
/* Is the step a product that is printed with another one?  The epilogue that this step is, or NULL. */
bool nv_epilogue_hides (const NvUnit *u, const CgStep *s);
const NvEpilogue *nv_epilogue_at (const NvUnit *u, const CgStep *s);

/* A launch for the node, with its epilogue or NULL.  False: the library does not take it, nothing was done. */
bool nv_print_product (NvUnit *u, uint32_t node, const NvEpilogue *e);
/* Its operands' addresses: a, b, the result, what is added; sizes as codegen_size_value takes them.  kept: see nv_keep. */
int32_t nv_product_run (NvProduct *q, NvDevice *d, const NvAddress *at, const int64_t *sizes, const char *what, NvKept *kept,
                        GrammeStatus *status);
void nv_product_free (NvProduct *q);

#endif
