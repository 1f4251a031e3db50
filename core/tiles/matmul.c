/* SPDX-License-Identifier: Apache-2.0
 * matmul.c -- products of two matrices: tiles for floats with few rows or a small right-hand side,
 * BLAS for others, plain loops for integers.
 *
 * Sizes and strides alone decide which, and the calls of BLAS: a row-major operand is passed
 * unchanged, a column-major one as transposed, and a large product is cut into blocks.  So two
 * callers with equal arguments get equal bits.  BLAS runs with one thread, since its results may
 * depend on the number of threads; threads of the host compute the blocks.  Integer products wrap.
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

enum {
#define DTYPE(code, NAME, ...) TYPE_##NAME = code,
#include "core/tensor/dtypes.def"
};

/* -- Loading it -------------------------------------------------------------------------------- */

/* BLAS as it was loaded for the first product: loading it takes longer than loading all the rest,
 * and many programs never multiply matrices. */
static struct {
  __typeof__ (&cblas_sgemm) sgemm;
  __typeof__ (&cblas_dgemm) dgemm;
  __typeof__ (&cblas_sgemv) sgemv;
  __typeof__ (&cblas_dgemv) dgemv;
} blas_library;

static void
load_blas (void)
{
  void *library = dlopen (GM_BLAS_SONAME, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf (stderr,
             "gramme: matrix products are slow: %s. Install it; on Debian: apt-get install "
             "libopenblas0\n",
             dlerror ());
    return;
  }
  /* An OpenBLAS function; another BLAS chooses its number of threads itself. */
  void (*set_threads) (int n) = (void (*) (int)) dlsym (library, "openblas_set_num_threads");
  if (set_threads)
    set_threads (1);
  blas_library.sgemm = (__typeof__ (&cblas_sgemm)) dlsym (library, "cblas_sgemm");
  blas_library.dgemm = (__typeof__ (&cblas_dgemm)) dlsym (library, "cblas_dgemm");
  blas_library.sgemv = (__typeof__ (&cblas_sgemv)) dlsym (library, "cblas_sgemv");
  blas_library.dgemv = (__typeof__ (&cblas_dgemv)) dlsym (library, "cblas_dgemv");
}

static bool
blas_is_there (void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once (&once, load_blas);
  return blas_library.sgemm && blas_library.dgemm && blas_library.sgemv && blas_library.dgemv;
}

/* -- BLAS -------------------------------------------------------------------------------------- */

/* Describes a rows x cols operand for BLAS; false if its strides do not allow that (a row of stride
 * 0, for example). */
static bool
as_blas (int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride, CBLAS_TRANSPOSE *trans,
         int *ld)
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

/* -- Plain loops ------------------------------------------------------------------------------- */

/* Defines plain_<name>, which walks b row by row, so that the inner loop runs along rows where b is
 * row-major. */
#define PLAIN(name, T, P)                                                                          \
  static void plain_##name (int64_t m, int64_t n, int64_t k, const T *a, int64_t ar, int64_t ac,   \
                            const T *b, int64_t br, int64_t bc, T *c, int64_t ldc)                 \
  {                                                                                                \
    for (int64_t i = 0; i < m; i++) {                                                              \
      T *row = c + i * ldc;                                                                        \
      for (int64_t j = 0; j < n; j++)                                                              \
        row[j] = 0;                                                                                \
      for (int64_t l = 0; l < k; l++) {                                                            \
        const T x = a[i * ar + l * ac];                                                            \
        const T *y = b + l * br;                                                                   \
        if (bc == 1)                                                                               \
          for (int64_t j = 0; j < n; j++)                                                          \
            row[j] = (T) (row[j] + (T) ((P) x * y[j]));                                            \
        else                                                                                       \
          for (int64_t j = 0; j < n; j++)                                                          \
            row[j] = (T) (row[j] + (T) ((P) x * y[j * bc]));                                       \
      }                                                                                            \
    }                                                                                              \
  }
PLAIN (u8, uint8_t, uint32_t)
PLAIN (u16, uint16_t, uint32_t) /* P: a product of two u16 must not become int */
PLAIN (u32, uint32_t, uint32_t) /* unsigned: overflow wraps */
PLAIN (u64, uint64_t, uint64_t)
PLAIN (f32, float, float)
PLAIN (f64, double, double)
#undef PLAIN

/* -- Few rows ---------------------------------------------------------------------------------- */

/* Maximum number of elements of a B that is copied in rows; of a larger one whose rows are
 * contiguous, blocks that BLAS chooses are read faster. */
#define MOST_COPIED ((int64_t) 1 << 21)

#define FEW_ROWS 64
/* Maximum number of elements, and minimum of columns, of a small B: it fits into the first caches,
 * so tiles multiply by it whatever the number of rows: BLAS would pack A, too, and clear C first.
 */
#define SMALL_RIGHT ((int64_t) 1 << 14)
#define LEAST_COLUMNS 8

/* Returns the tiles for a product; NULL: BLAS or a plain loop computes it. */
static const GmFewTiles *
few_rows_of (const GmProduct *p)
{
  const bool by_rows = p->b_col_stride == 1 && p->n <= MOST_COPIED / p->k;
  const bool by_columns = p->b_col_stride != 1 && p->b_row_stride == 1;
  const char *why;
  const GmTiles *tiles = by_rows || by_columns ? gm_tiles_get (&why) : NULL;
  return tiles ? tiles->few_rows (p->dtype) : NULL;
}

static inline const GmFewTiles *
few_rows (const GmProduct *p)
{
  if (p->m <= 1 || p->n <= 1 || p->k <= 0)
    return NULL;
  bool small = p->n >= LEAST_COLUMNS && p->n <= SMALL_RIGHT / p->k;
  return p->m <= FEW_ROWS || small ? few_rows_of (p) : NULL;
}

__attribute__ ((noinline)) static void
multiply_in_little_room (const GmFewTiles *t, const GmProduct *p, int64_t j, int64_t j_end)
{
  char scratch[GM_FEW_ROOM] __attribute__ ((aligned (64)));
  t->multiply (p, j, j_end, scratch, sizeof scratch);
}

/* Computes columns j up to j_end with tiles. */
static void
multiply_few (const GmFewTiles *t, const GmProduct *p, int64_t j, int64_t j_end)
{
  const bool little = p->packed || (j_end - j) * p->k <= GM_FEW_ROOM / 8;
  void *scratch = little ? NULL : aligned_alloc (64, GM_FEW_SCRATCH);
  if (!scratch) {
    multiply_in_little_room (t, p, j, j_end);
    return;
  }
  t->multiply (p, j, j_end, scratch, GM_FEW_SCRATCH);
  free (scratch);
}

/* -- Blocks ------------------------------------------------------------------------------------ */

/* Numbers of pieces that C's rows and columns are cut into. BLAS packs each block anew, which costs
 * as much as some hundred of its multiply-adds an element: so blocks are large, and nearly square.
 * Measured with OpenBLAS 0.3.21 and AVX2: two blocks cost 2 to 10 % more than one, eight cost 10 to
 * 15 %. */
typedef struct {
  int64_t rows, cols;
} Grid;

/* Minimum of multiply-adds in a block of the product of a matrix and a vector, which is limited by
 * memory. */
#define VECTOR_BLOCK_WORK ((double) (1 << 18))
#define MOST_BLOCKS 16
#define SHORTEST 128 /* rows or columns of a block, at least */
#define UNIT 16      /* cuts are at multiples of this */

static bool
is_by_vector (const GmProduct *p)
{
  return p->m == 1 || p->n == 1;
}

/* Returns the maximum number of blocks: enough for several threads, but growing more slowly than
 * the work. */
static int64_t
most_blocks (const GmProduct *p)
{
  /* Multiply-adds for 2, 4, 8 and 16 blocks. */
  static const double from[] = { 1 << 22, 1 << 25, 1 << 27, 1 << 29 };
  double work = (double) p->m * (double) p->n * (double) p->k;
  if (is_by_vector (p))
    return work < MOST_BLOCKS * VECTOR_BLOCK_WORK ? (int64_t) (work / VECTOR_BLOCK_WORK)
                                                  : MOST_BLOCKS;
  int64_t most = 1;
  for (size_t i = 0; i < sizeof from / sizeof *from && work >= from[i]; i++)
    most *= 2;
  return most;
}

/* Minimum of multiply-adds in a block for tiles. A block packs no more for having few columns;
 * blocks with the same columns pack them each. */
#define FEW_BLOCK_WORK ((double) (1 << 19))

static Grid
grid_of_few (const GmProduct *p)
{
  double most = (double) p->m * (double) p->n * (double) p->k / FEW_BLOCK_WORK;
  int64_t cols = most < MOST_BLOCKS ? (int64_t) most : MOST_BLOCKS;
  int64_t blocks = cols > 1 ? cols : 1;
  if (cols > p->n / GM_FEW_UNIT)
    cols = p->n / GM_FEW_UNIT;
  if (cols < 1)
    cols = 1;
  int64_t rows = blocks / cols, most_rows = p->m / FEW_ROWS;
  if (rows > most_rows)
    rows = most_rows;
  return (Grid){ rows > 1 ? rows : 1, cols };
}

static Grid
grid_of (const GmProduct *p)
{
  if (few_rows (p))
    return grid_of_few (p);
  Grid best = { 1, 1 };
  int64_t most = most_blocks (p), most_rows = p->m / SHORTEST, most_cols = p->n / SHORTEST;
  for (int64_t rows = 1; rows <= most && (rows == 1 || rows <= most_rows); rows++) {
    int64_t cols = most / rows < most_cols ? most / rows : most_cols;
    Grid g = { rows, cols > 1 ? cols : 1 };
    int64_t n = g.rows * g.cols, best_n = best.rows * best.cols;
    /* Packed elements: each row of A for every piece of columns, and each column of B for every
     * piece of rows. */
    if (n > best_n
        || (n == best_n && p->m * g.cols + p->n * g.rows < p->m * best.cols + p->n * best.rows))
      best = g;
  }
  return best;
}

/* Returns the beginning of piece i of `pieces`. */
static int64_t
cut (int64_t size, int64_t unit, int64_t pieces, int64_t i)
{
  return i == pieces ? size : (size + unit - 1) / unit * i / pieces * unit;
}

/* -- The interface ----------------------------------------------------------------------------- */

/* Defines the product for f32 or f64. A vector and a matrix use gemv, which reads the matrix once,
 * where gemm would copy it first. gemv adds to y, so y is cleared before: its old contents may be
 * NaN. */
#define BY_BLAS(T, gemm, gemv)                                                                     \
  static void by_##gemm (const GmProduct *p, CBLAS_TRANSPOSE ta, int lda, CBLAS_TRANSPOSE tb,      \
                         int ldb)                                                                  \
  {                                                                                                \
    int m = (int) p->m, n = (int) p->n, k = (int) p->k,                                            \
        ldc = (int) (p->ldc >= p->n ? p->ldc : p->n);                                              \
    T *y = p->c;                                                                                   \
    if (p->n == 1) {                                                                               \
      for (int i = 0; i < m; i++)                                                                  \
        y[(size_t) i * (size_t) ldc] = 0;                                                          \
      blas_library.gemv (CblasRowMajor, ta, ta == CblasNoTrans ? m : k,                            \
                         ta == CblasNoTrans ? k : m, 1, p->a, lda, p->b,                           \
                         tb == CblasNoTrans ? ldb : 1, 1, y, ldc);                                 \
    } else if (p->m == 1) {                                                                        \
      memset (y, 0, (size_t) n * sizeof *y);                                                       \
      blas_library.gemv (CblasRowMajor, tb == CblasNoTrans ? CblasTrans : CblasNoTrans,            \
                         tb == CblasNoTrans ? k : n, tb == CblasNoTrans ? n : k, 1, p->b, ldb,     \
                         p->a, ta == CblasNoTrans ? 1 : lda, 1, y, 1);                             \
    } else                                                                                         \
      blas_library.gemm (CblasRowMajor, ta, tb, m, n, k, 1, p->a, lda, p->b, ldb, 0, y, ldc);      \
  }
BY_BLAS (float, sgemm, sgemv)
BY_BLAS (double, dgemm, dgemv)
#undef BY_BLAS

static void
product (const GmProduct *p)
{
  CBLAS_TRANSPOSE ta = CblasNoTrans, tb = CblasNoTrans;
  int lda = 1, ldb = 1;
  bool blas = p->k > 0 && p->m <= INT_MAX && p->n <= INT_MAX && p->k <= INT_MAX && p->ldc <= INT_MAX
              && (p->ldc >= p->n || p->m == 1)
              && as_blas (p->m, p->k, p->a_row_stride, p->a_col_stride, &ta, &lda)
              && as_blas (p->k, p->n, p->b_row_stride, p->b_col_stride, &tb, &ldb);
  blas = blas && (p->dtype == TYPE_F32 || p->dtype == TYPE_F64) && blas_is_there ();
#define PLAIN(name)                                                                                \
  plain_##name (p->m, p->n, p->k, p->a, p->a_row_stride, p->a_col_stride, p->b, p->b_row_stride,   \
                p->b_col_stride, p->c, p->ldc)
  switch (p->dtype) {
  case TYPE_F32:
    if (blas)
      by_sgemm (p, ta, lda, tb, ldb);
    else
      PLAIN (f32);
    break;
  case TYPE_F64:
    if (blas)
      by_dgemm (p, ta, lda, tb, ldb);
    else
      PLAIN (f64);
    break;
  case TYPE_I32:
    PLAIN (u32);
    break;
  case TYPE_I64:
    PLAIN (u64);
    break;
  case TYPE_I16:
    PLAIN (u16);
    break;
  case TYPE_I8:
  case TYPE_U8:
    PLAIN (u8);
    break;
  }
#undef PLAIN
}

static size_t
elem_of (int dtype)
{
  switch (dtype) {
  case TYPE_F64:
  case TYPE_I64:
    return 8;
  case TYPE_I16:
    return 2;
  case TYPE_I8:
  case TYPE_U8:
    return 1;
  default:
    return 4;
  }
}

/* State of a product by tiles: thread i computes the columns of block i. */
typedef struct {
  int64_t from, to;
} Columns;

static Columns
columns_of (const GmProduct *p, const Grid *g, uint32_t i)
{
  const int64_t col = i % g->cols;
  return (Columns){ cut (p->n, GM_FEW_UNIT, g->cols, col),
                    cut (p->n, GM_FEW_UNIT, g->cols, col + 1) };
}

/* Returns the product of piece i of the rows. */
static GmProduct
rows_of (const GmProduct *p, int64_t pieces, int64_t i)
{
  const int64_t row = cut (p->m, UNIT, pieces, i);
  const ptrdiff_t elem = (ptrdiff_t) elem_of (p->dtype);
  GmProduct rows = *p;
  rows.m = cut (p->m, UNIT, pieces, i + 1) - row;
  rows.a = (const char *) p->a + row * p->a_row_stride * elem;
  rows.c = (char *) p->c + row * p->ldc * elem;
  return rows;
}

size_t
gm_product_packed_bytes (const GmProduct *p)
{
  const GmFewTiles *few = few_rows (p);
  return few ? (size_t) (few->packed_width (p->n) * p->k) * elem_of (p->dtype) : 0;
}

void
gm_product_pack (const GmProduct *p, uint32_t i, void *packed)
{
  Grid g = grid_of_few (p);
  Columns c = columns_of (p, &g, i);
  if (i < g.cols) /* the first row of blocks packs for all */
    few_rows (p)->pack (p, c.from, c.to, packed);
}

uint32_t
gm_product_blocks (const GmProduct *p)
{
  Grid g = grid_of (p);
  return (uint32_t) (g.rows * g.cols);
}

void
gm_product_block (const GmProduct *p, uint32_t i)
{
  if (p->m <= 0 || p->n <= 0)
    return;
  const GmFewTiles *few = few_rows (p);
  if (few) {
    Grid g = grid_of_few (p);
    Columns c = columns_of (p, &g, i);
    if (g.rows == 1)
      multiply_few (few, p, c.from, c.to);
    else {
      GmProduct rows = rows_of (p, g.rows, i / g.cols);
      multiply_few (few, &rows, c.from, c.to);
    }
    return;
  }
  Grid g = grid_of (p);
  if (g.rows * g.cols == 1) { /* for small products the divisions below would take longer */
    product (p);
    return;
  }
  int64_t row = cut (p->m, UNIT, g.rows, i / g.cols), col = cut (p->n, UNIT, g.cols, i % g.cols);
  ptrdiff_t elem = (ptrdiff_t) elem_of (p->dtype);
  GmProduct block = *p;
  block.m = cut (p->m, UNIT, g.rows, i / g.cols + 1) - row;
  block.n = cut (p->n, UNIT, g.cols, i % g.cols + 1) - col;
  block.a = (const char *) p->a + row * p->a_row_stride * elem;
  block.b = (const char *) p->b + col * p->b_col_stride * elem;
  block.c = (char *) p->c + (row * p->ldc + col) * elem;
  product (&block);
}

void
gm_tile_matmul (int dtype, int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row_stride,
                int64_t a_col_stride, const void *b, int64_t b_row_stride, int64_t b_col_stride,
                void *c, int64_t ldc)
{
  GmProduct p = { dtype,        m, n,   k,   a, b, a_row_stride, a_col_stride, b_row_stride,
                  b_col_stride, c, ldc, NULL };
  for (uint32_t i = 0, blocks = gm_product_blocks (&p); i < blocks; i++)
    gm_product_block (&p, i);
}
