/* SPDX-License-Identifier: Apache-2.0
 * matmul.c -- products of two matrices: BLAS for floats, plain loops for integers.
 *
 * The strides alone decide what BLAS is asked: a row-major operand is passed as it is, a column-major one as transposed.  So two
 * callers with equal arguments get equal bits.  BLAS runs with a stated number of threads, GRAMME_BLAS_THREADS or 1: its
 * results may depend on it.
 * Integer products wrap.
 */
#include <cblas.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tiles/tiles.h"

#define MAX_BLAS_THREADS 1024

enum {
#define DTYPE(code, NAME, ...) TYPE_##NAME = code,
#include "core/tensor/dtypes.def"
};

/* -- Loading it -------------------------------------------------------------------------------------------- */

/* Loading BLAS takes longer than loading all the rest, and many programs never multiply matrices: so it is loaded for the first product. */
static struct {
  __typeof__ (&cblas_sgemm) sgemm;
  __typeof__ (&cblas_dgemm) dgemm;
} blas_library;

static void
load_blas (void)
{
  void *library = dlopen (GM_BLAS_SONAME, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf (stderr, "gramme: matrix products are slow: %s. Install it; on Debian: apt-get install libopenblas0\n", dlerror ());
    return;
  }
  /* OpenBLAS has it; with another BLAS the number of threads is that library's own affair. */
  void (*set_threads) (int n) = (void (*) (int)) dlsym (library, "openblas_set_num_threads");
  const char *s = getenv ("GRAMME_BLAS_THREADS");
  char *end = NULL;
  long n = s && *s ? strtol (s, &end, 10) : 1;
  if (n < 1 || n > MAX_BLAS_THREADS || (end && *end)) {
    fprintf (stderr, "gramme: GRAMME_BLAS_THREADS=%s is not used: it takes a number from 1 to %d; 1 is taken\n", s, MAX_BLAS_THREADS);
    n = 1;
  }
  if (set_threads)
    set_threads ((int) n);
  blas_library.sgemm = (__typeof__ (&cblas_sgemm)) dlsym (library, "cblas_sgemm");
  blas_library.dgemm = (__typeof__ (&cblas_dgemm)) dlsym (library, "cblas_dgemm");
}

static bool
blas_is_there (void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once (&once, load_blas);
  return blas_library.sgemm && blas_library.dgemm;
}

/* -- BLAS -------------------------------------------------------------------------------------------------- */

/* How BLAS may read a rows x cols operand; false if its strides do not allow it (a row of stride 0, say). */
static bool
as_blas (int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride, CBLAS_TRANSPOSE *trans, int *ld)
{
  int64_t lead;
  if (col_stride == 1 && (row_stride >= cols || rows == 1)) {
    *trans = CblasNoTrans;
    lead = row_stride >= cols ? row_stride : cols; /* with a single row the stride is never used */
  } else if (row_stride == 1 && (col_stride >= rows || cols == 1)) {
    *trans = CblasTrans;
    lead = col_stride >= rows ? col_stride : rows;
  } else
    return false;
  *ld = (int) (lead > 0 ? lead : 1);
  return lead <= INT_MAX;
}

/* -- Plain loops ------------------------------------------------------------------------------------------- */

/* Row by row of b, so that the inner loop runs along rows where b is row-major. */
#define PLAIN(name, T, P) \
  static void plain_##name (int64_t m, int64_t n, int64_t k, const T *a, int64_t ar, int64_t ac, const T *b, int64_t br, \
                            int64_t bc, T *c, int64_t ldc) \
  { \
    for (int64_t i = 0; i < m; i++) { \
      T *row = c + i * ldc; \
      for (int64_t j = 0; j < n; j++) \
        row[j] = 0; \
      for (int64_t l = 0; l < k; l++) { \
        const T x = a[i * ar + l * ac]; \
        const T *y = b + l * br; \
        if (bc == 1) \
          for (int64_t j = 0; j < n; j++) \
            row[j] = (T) (row[j] + (T) ((P) x * y[j])); \
        else \
          for (int64_t j = 0; j < n; j++) \
            row[j] = (T) (row[j] + (T) ((P) x * y[j * bc])); \
      } \
    } \
  }
PLAIN (u8, uint8_t, uint32_t)
PLAIN (u16, uint16_t, uint32_t) /* P: two of them must not become int */
PLAIN (u32, uint32_t, uint32_t) /* unsigned: overflow wraps */
PLAIN (u64, uint64_t, uint64_t)
PLAIN (f32, float, float)
PLAIN (f64, double, double)
#undef PLAIN

/* -- The interface ----------------------------------------------------------------------------------------- */

void
gm_tile_matmul (int dtype, int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row_stride, int64_t a_col_stride,
                const void *b, int64_t b_row_stride, int64_t b_col_stride, void *c, int64_t ldc)
{
  if (m <= 0 || n <= 0)
    return;
  CBLAS_TRANSPOSE ta, tb;
  int lda, ldb;
  bool blas = k > 0 && m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && ldc <= INT_MAX && (ldc >= n || m == 1) &&
              as_blas (m, k, a_row_stride, a_col_stride, &ta, &lda) &&
              as_blas (k, n, b_row_stride, b_col_stride, &tb, &ldb);
  int blas_ldc = (int) (ldc >= n ? ldc : n);
  blas = blas && (dtype == TYPE_F32 || dtype == TYPE_F64) && blas_is_there ();
  switch (dtype) {
  case TYPE_F32:
    if (blas)
      blas_library.sgemm (CblasRowMajor, ta, tb, (int) m, (int) n, (int) k, 1, a, lda, b, ldb, 0, c, blas_ldc);
    else
      plain_f32 (m, n, k, a, a_row_stride, a_col_stride, b, b_row_stride, b_col_stride, c, ldc);
    break;
  case TYPE_F64:
    if (blas)
      blas_library.dgemm (CblasRowMajor, ta, tb, (int) m, (int) n, (int) k, 1, a, lda, b, ldb, 0, c, blas_ldc);
    else
      plain_f64 (m, n, k, a, a_row_stride, a_col_stride, b, b_row_stride, b_col_stride, c, ldc);
    break;
  case TYPE_I32:
    plain_u32 (m, n, k, a, a_row_stride, a_col_stride, b, b_row_stride, b_col_stride, c, ldc);
    break;
  case TYPE_I64:
    plain_u64 (m, n, k, a, a_row_stride, a_col_stride, b, b_row_stride, b_col_stride, c, ldc);
    break;
  case TYPE_I16:
    plain_u16 (m, n, k, a, a_row_stride, a_col_stride, b, b_row_stride, b_col_stride, c, ldc);
    break;
  case TYPE_I8:
  case TYPE_U8:
    plain_u8 (m, n, k, a, a_row_stride, a_col_stride, b, b_row_stride, b_col_stride, c, ldc);
    break;
  }
}
