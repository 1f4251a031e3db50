/* SPDX-License-Identifier: Apache-2.0
 * product.h -- matrix products by cuBLASLt, where it can be opened and supports the operands'
 * layouts.
 *
 * A product is a launch without a kernel.  A pointwise step after it that is an addition (of a row,
 * or of a matrix) or relu is merged into it as its epilogue: the product's own step is moved behind
 * that step, which is not printed; so the product's operands live until it has run, and its own
 * value is not stored. Floats are summed in f32 (f64 in f64), without TF32, in cuBLAS's order:
 * results are near those of the kernel of gpu_matmul.c, but do not have its bits.
 *
 * cuBLASLt's choice for given sizes and alignments is requested once and kept.  Thread: any.
 */
#ifndef NVRTC_PRODUCT_H
#define NVRTC_PRODUCT_H

#include "plugins/nvrtc/replay.h"
#include "plugins/nvrtc/gpu_unit.h"

#include <pthread.h>

typedef struct {
  int64_t ld, batch; /* in elements; may be symbolic */
  /* Neighbours in memory are in one column, and ld is the distance between columns. */
  bool down;
} NvMatrix;

typedef struct NvChosen NvChosen;

struct NvProduct {
  uint32_t dtype;
  int64_t rows, cols, depth, batches; /* may be symbolic */
  NvMatrix a, b, c;
  bool adds_row, adds_matrix, relu; /* the added matrix has the result's layout */
  pthread_mutex_t lock;             /* protects the fields below */
  NvChosen *chosen;
  uint32_t n_chosen;
};

/* A product with the steps that are merged into it. */
struct NvEpilogue {
  uint32_t product, last; /* nodes */
  uint32_t added;         /* a value, or CG_NONE */
  bool is_row, relu;
};

/* True if the library takes this matmul node; describes it in *out. */
bool nv_product_read (const CgProgram *p, uint32_t node, NvProduct *out);
/* Finds products that end in additions and relu, and changes the program so that nv_unit_print can
 * print them. */
int32_t nv_epilogue_find (CgProgram *p, NvEpilogue **out, uint32_t *n, GrammeStatus *status);
/* nv_epilogue_hides: true if the step is a product that is printed with another step.
 * nv_epilogue_at: returns the epilogue that this step is, or NULL. */
bool nv_epilogue_hides (const NvUnit *u, const CgStep *s);
const NvEpilogue *nv_epilogue_at (const NvUnit *u, const CgStep *s);

/* Prints a launch for the node, with its epilogue or NULL.  False: the library does not take it,
 * and nothing was printed. */
bool nv_print_product (NvUnit *u, uint32_t node, const NvEpilogue *e);
/* Runs a product. at: addresses of a, b, the result, the added value; sizes: as for
 * codegen_size_value; what: named in error messages. kept: see nv_keep. */
int32_t nv_product_run (NvProduct *q, NvDevice *d, const NvAddress *at, const int64_t *sizes,
                        const char *what, NvKept *kept, GrammeStatus *status);
void nv_product_free (NvProduct *q);

#endif
