/* SPDX-License-Identifier: Apache-2.0
 * lapack.h -- factorizations of matrices, by the LAPACK that is in the BLAS library.
 */
#ifndef GM_OPS_LAPACK_H
#define GM_OPS_LAPACK_H

#include "core/tensor/tensor.h"

typedef enum {
  GM_LAPACK_CHOLESKY,   /* a -> lower triangle; info: the minor that is not positive */
  GM_LAPACK_SOLVE,      /* a, b -> x; info: a pivot is 0 */
  GM_LAPACK_DET,        /* a -> sign, log |det|, det [b] */
  GM_LAPACK_QR,         /* a -> q, r; full: q is square */
  GM_LAPACK_SVD,        /* a -> u, s, vh; full: u and vh are square; info: did not converge */
  GM_LAPACK_EIGH,       /* a, of which the lower triangle is read -> w, v; upper: the upper one */
  GM_LAPACK_TRIANGULAR, /* a, b -> x; upper; unit: the diagonal counts as ones; info: a 0 on the
                         * diagonal */
  GM_LAPACK_LU, /* a -> l below the diagonal and u on and above it, and as numbers of a's dtype the
                   row, from 1, that each row was exchanged with; info: a pivot is 0 */
  GM_N_LAPACK
} GmLapackOp;
extern const char *const gm_lapack_names[GM_N_LAPACK]; /* "cholesky" */

enum {
  GM_LAPACK_FULL = 1,
  GM_LAPACK_UPPER = 2,
  GM_LAPACK_UNIT = 4,
  GM_LAPACK_INFO = 8
}; /* flag info: one more result [b], info in a's dtype */

/* Computes `op` on each matrix of a batch, one after the other, on one thread. Shapes: a [b, m, n],
 * other [b, m, k] or NULL, row-major, float32 or float64, both of one dtype, on the CPU (checked).
 * Returns n, the number of results, 0 after an error. Owner: out[0 .. n) are new references. info[0
 * .. b), memory of the caller: LAPACK's info for each matrix, 0 for success. Errors:
 * GM_ERROR_UNSUPPORTED without a LAPACK, GM_ERROR_MEMORY, GM_ERROR_RUNTIME for operands that do not
 * fit. */
int gm_lapack_run (GmLapackOp op, const GmTensor *a, const GmTensor *other, int flags,
                   GmTensor *out[3], int64_t *info, GError **error);

#endif
