/* SPDX-License-Identifier: Apache-2.0
 * lapack.c -- factorizations of matrices, by the LAPACK that is in the BLAS library.
 *
 * LAPACK reads columns, tensors are rows: a matrix a here is its transpose there. This is used if
 * possible (a factor of the transpose is a transposed factor), else operands are transposed on
 * their way in and out. The library is loaded for the first call, as for products
 * (core/tiles/matmul.c); for a BLAS without LAPACK the error then says what to install.
 * Source of the calls: Anderson et al., LAPACK Users' Guide, 3rd edition.
 */
#include "core/ops/lapack.h"

#include "core/base/error.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <string.h>

const char *const gm_lapack_names[] = {
  [GM_LAPACK_CHOLESKY] = "cholesky",
  [GM_LAPACK_SOLVE] = "solve",
  [GM_LAPACK_DET] = "det",
  [GM_LAPACK_QR] = "qr",
  [GM_LAPACK_SVD] = "svd",
  [GM_LAPACK_EIGH] = "eigh",
  [GM_LAPACK_TRIANGULAR] = "solve_triangular",
  [GM_LAPACK_LU] = "lu",
};

/* -- The library ------------------------------------------------------------------------------- */

/* Type of the lengths of character arguments, which Fortran passes hidden at the end. */
typedef size_t Length;
/*    name    arguments */
#define LAPACK(X, T)                                                                               \
  X (potrf, (const char *uplo, const int *n, T *a, const int *lda, int *info, Length))             \
  X (getrf, (const int *m, const int *n, T *a, const int *lda, int *pivots, int *info))            \
  X (getrs, (const char *trans, const int *n, const int *k, const T *a, const int *lda,            \
             const int *pivots, T *b, const int *ldb, int *info, Length))                          \
  X (geqrf, (const int *m, const int *n, T *a, const int *lda, T *tau, T *work, const int *lwork,  \
             int *info))                                                                           \
  X (orgqr, (const int *m, const int *n, const int *k, T *a, const int *lda, const T *tau,         \
             T *work, const int *lwork, int *info))                                                \
  X (gesdd, (const char *job, const int *m, const int *n, T *a, const int *lda, T *s, T *u,        \
             const int *ldu, T *vt, const int *ldvt, T *work, const int *lwork, int *iwork,        \
             int *info, Length))                                                                   \
  X (syevd, (const char *job, const char *uplo, const int *n, T *a, const int *lda, T *w, T *work, \
             const int *lwork, int *iwork, const int *liwork, int *info, Length, Length))          \
  X (trtrs, (const char *uplo, const char *trans, const char *diag, const int *n, const int *k,    \
             const T *a, const int *lda, T *b, const int *ldb, int *info, Length, Length, Length))

#define FIELD(name, arguments) void (*name) arguments;
typedef struct {
  LAPACK (FIELD, float)
} Calls_f32;
typedef struct {
  LAPACK (FIELD, double)
} Calls_f64;
#undef FIELD

static struct {
  Calls_f32 f32;
  Calls_f64 f64;
  char *missing; /* message if LAPACK cannot be loaded, or NULL */
} lapack;

static void *
find (void *library, char letter, const char *name)
{
  g_autofree char *symbol = g_strdup_printf ("%c%s_", letter, name);
  void *f = library ? dlsym (library, symbol) : NULL;
  if (!f && !lapack.missing)
    lapack.missing =
        library ? g_strdup_printf (
            GM_BLAS_SONAME
            " has no %s: install a BLAS with LAPACK; on Debian: apt-get install libopenblas0",
            symbol)
                : g_strdup_printf ("%s. Install it; on Debian: apt-get install libopenblas0",
                                   dlerror ());
  return f;
}

static bool
load (GError **error)
{
  static gsize loaded;
  if (g_once_init_enter (&loaded)) {
    void *library = dlopen (GM_BLAS_SONAME, RTLD_NOW | RTLD_LOCAL);
#define FILL(name, arguments) lapack.f32.name = (void (*) arguments) find (library, 's', #name);
    LAPACK (FILL, float)
#undef FILL
#define FILL(name, arguments) lapack.f64.name = (void (*) arguments) find (library, 'd', #name);
    LAPACK (FILL, double)
#undef FILL
    g_once_init_leave (&loaded, 1);
  }
  if (lapack.missing)
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED, "linalg: there is no LAPACK: %s",
                 lapack.missing);
  return lapack.missing == NULL;
}

/* -- One matrix -------------------------------------------------------------------------------- */

typedef struct {
  GmLapackOp op;
  int m, n, k, r; /* a is m x n, the other m x k; r is the smaller of m and n */
  bool full, upper, unit;
  void *a, *work, *tau; /* scratch: a copy of a; LAPACK's workspace; r elements */
  int *ints;
  int lwork, liwork;
} Job;

#define WITH_TYPE(T, t)                                                                            \
  static void transpose_##t (T *out, const T *in, int rows, int cols)                              \
  {                                                                                                \
    for (int i = 0; i < rows; i++)                                                                 \
      for (int j = 0; j < cols; j++)                                                               \
        out[(size_t) j * (size_t) rows + (size_t) i] =                                             \
            in[(size_t) i * (size_t) cols + (size_t) j];                                           \
  }                                                                                                \
                                                                                                   \
  static int cholesky_##t (const Job *job, const T *a, T *l)                                       \
  {                                                                                                \
    int n = job->n, lda = MAX (1, n), info = 0;                                                    \
    memcpy (l, a, sizeof (T) * (size_t) n * (size_t) n);                                           \
    lapack.t.potrf ("U", &n, l, &lda, &info, 1); /* columns' upper triangle is rows' lower one */  \
    for (int i = 0; i < n; i++)                                                                    \
      for (int j = i + 1; j < n; j++)                                                              \
        l[(size_t) i * (size_t) n + (size_t) j] = 0;                                               \
    return info;                                                                                   \
  }                                                                                                \
                                                                                                   \
  static int solve_##t (const Job *job, const T *a, const T *b, T *x)                              \
  {                                                                                                \
    int n = job->n, k = job->k, lda = MAX (1, n), info = 0, none;                                  \
    T *columns = job->work;                                                                        \
    memcpy (job->a, a, sizeof (T) * (size_t) n * (size_t) n);                                      \
    lapack.t.getrf (&n, &n, job->a, &lda, job->ints, &info);                                       \
    transpose_##t (columns, b, n, k);                                                              \
    if (info == 0)                                                                                 \
      lapack.t.getrs ("T", &n, &k, job->a, &lda, job->ints, columns, &lda, &none, 1);              \
    transpose_##t (x, columns, k, n);                                                              \
    return info;                                                                                   \
  }                                                                                                \
                                                                                                   \
  static int det_##t (const Job *job, const T *a, T *sign, T *log_size, T *det)                    \
  {                                                                                                \
    int n = job->n, lda = MAX (1, n), info = 0;                                                    \
    T *lu = job->a;                                                                                \
    memcpy (lu, a, sizeof (T) * (size_t) n * (size_t) n);                                          \
    lapack.t.getrf (&n, &n, lu, &lda, job->ints, &info);                                           \
    *sign = *det = 1, *log_size = 0;                                                               \
    for (int i = 0; i < n; i++) {                                                                  \
      T d = lu[(size_t) i * (size_t) n + (size_t) i], turned = job->ints[i] != i + 1 ? -1 : 1;     \
      *det *= d * turned;                                                                          \
      *sign *= d > 0 ? turned : d < 0 ? -turned : d; /* 0 and NaN stay */                          \
      *log_size += (T) log (fabs ((double) d));                                                    \
    }                                                                                              \
    return 0;                                                                                      \
  }                                                                                                \
                                                                                                   \
  static int lu_##t (const Job *job, const T *a, T *lu, T *pivots)                                 \
  {                                                                                                \
    int m = job->m, n = job->n, lda = MAX (1, m), info = 0;                                        \
    transpose_##t (job->a, a, m, n);                                                               \
    lapack.t.getrf (&m, &n, job->a, &lda, job->ints, &info);                                       \
    transpose_##t (lu, job->a, n, m);                                                              \
    for (int i = 0; i < job->r; i++)                                                               \
      pivots[i] = (T) job->ints[i];                                                                \
    return info;                                                                                   \
  }                                                                                                \
                                                                                                   \
  static int qr_##t (const Job *job, const T *a, T *q, T *r)                                       \
  {                                                                                                \
    int m = job->m, n = job->n, small = job->r, cols = job->full ? m : small, lda = MAX (1, m),    \
        info = 0, height = cols;                                                                   \
    T *f = job->a; /* m x max (n, m) columns */                                                    \
    transpose_##t (f, a, m, n);                                                                    \
    lapack.t.geqrf (&m, &n, f, &lda, job->tau, job->work, &job->lwork, &info);                     \
    for (int i = 0; i < height; i++)                                                               \
      for (int j = 0; j < n; j++)                                                                  \
        r[(size_t) i * (size_t) n + (size_t) j] =                                                  \
            i <= j ? f[(size_t) j * (size_t) m + (size_t) i] : 0;                                  \
    if (cols > 0)                                                                                  \
      lapack.t.orgqr (&m, &cols, &small, f, &lda, job->tau, job->work, &job->lwork, &info);        \
    transpose_##t (q, f, cols, m);                                                                 \
    return info;                                                                                   \
  }                                                                                                \
                                                                                                   \
  static int svd_##t (const Job *job, const T *a, T *u, T *s, T *vh)                               \
  {                                                                                                \
    /* Decomposes the transpose, n x m: its left vectors are columns that are vh's rows ... */     \
    int rows = job->n, cols = job->m, lda = MAX (1, rows), info = 0, ldu = MAX (1, rows),          \
        ldv = MAX (1, job->full ? cols : job->r);                                                  \
    if (job->r == 0) { /* without an element; what is square is an identity */                     \
      for (int i = 0; job->full && i < cols * cols; i++)                                           \
        u[i] = i % (cols + 1) == 0;                                                                \
      for (int i = 0; job->full && i < rows * rows; i++)                                           \
        vh[i] = i % (rows + 1) == 0;                                                               \
      return 0;                                                                                    \
    }                                                                                              \
    memcpy (job->a, a, sizeof (T) * (size_t) rows * (size_t) cols);                                \
    lapack.t.gesdd (job->full ? "A" : "S", &rows, &cols, job->a, &lda, s, vh, &ldu, u, &ldv,       \
                    job->work, &job->lwork, job->ints, &info, 1);                                  \
    return info;                                                                                   \
  }                                                                                                \
                                                                                                   \
  static int eigh_##t (const Job *job, const T *a, T *w, T *v)                                     \
  {                                                                                                \
    int n = job->n, lda = MAX (1, n), info = 0;                                                    \
    transpose_##t (job->a, a, n, n); /* the triangle that is named is read as it is: vectors have  \
                                        the signs that others get */                               \
    lapack.t.syevd ("V", job->upper ? "U" : "L", &n, job->a, &lda, w, job->work, &job->lwork,      \
                    job->ints, &job->liwork, &info, 1, 1);                                         \
    transpose_##t (v, job->a, n, n);                                                               \
    return info;                                                                                   \
  }                                                                                                \
                                                                                                   \
  static int triangular_##t (const Job *job, const T *a, const T *b, T *x)                         \
  {                                                                                                \
    int n = job->n, k = job->k, lda = MAX (1, n), info = 0;                                        \
    T *columns = job->work;                                                                        \
    transpose_##t (columns, b, n, k);                                                              \
    lapack.t.trtrs (job->upper ? "L" : "U", "T", job->unit ? "U" : "N", &n, &k, a, &lda, columns,  \
                    &lda, &info, 1, 1, 1);                                                         \
    transpose_##t (x, columns, k, n);                                                              \
    return info;                                                                                   \
  }                                                                                                \
                                                                                                   \
  /* out[i]: where the matrix's results go. */                                                     \
  static int run_##t (const Job *job, const void *a, const void *b, void *const *out)              \
  {                                                                                                \
    switch (job->op) {                                                                             \
    case GM_LAPACK_CHOLESKY:                                                                       \
      return cholesky_##t (job, a, out[0]);                                                        \
    case GM_LAPACK_SOLVE:                                                                          \
      return solve_##t (job, a, b, out[0]);                                                        \
    case GM_LAPACK_DET:                                                                            \
      return det_##t (job, a, out[0], out[1], out[2]);                                             \
    case GM_LAPACK_QR:                                                                             \
      return qr_##t (job, a, out[0], out[1]);                                                      \
    case GM_LAPACK_SVD:                                                                            \
      return svd_##t (job, a, out[0], out[1], out[2]);                                             \
    case GM_LAPACK_EIGH:                                                                           \
      return eigh_##t (job, a, out[0], out[1]);                                                    \
    case GM_LAPACK_TRIANGULAR:                                                                     \
      return triangular_##t (job, a, b, out[0]);                                                   \
    case GM_LAPACK_LU:                                                                             \
      return lu_##t (job, a, out[0], out[1]);                                                      \
    case GM_N_LAPACK:                                                                              \
      break;                                                                                       \
    }                                                                                              \
    return -1;                                                                                     \
  }
WITH_TYPE (float, f32)
WITH_TYPE (double, f64)
#undef WITH_TYPE

/* -- Scratch ----------------------------------------------------------------------------------- */

/* Computes the numbers of elements of the copy of a, of LAPACK's workspace, and of ints: the
 * minimum of the Users' Guide, or the size for blocked algorithms. */
static void
measure (Job *job, size_t *copy, size_t *work, size_t *ints)
{
  size_t m = (size_t) job->m, n = (size_t) job->n, k = (size_t) job->k, r = (size_t) job->r,
         most = MAX (m, n);
  *copy = m * most + 1;
  *ints = 8 * most + 8;
  switch (job->op) {
  case GM_LAPACK_SOLVE:
  case GM_LAPACK_TRIANGULAR:
    *work = n * k + 1;
    break;
  case GM_LAPACK_QR:
    *work = 64 * most + 1;
    break;
  case GM_LAPACK_SVD:
    *work = 4 * r * r + 7 * r + 8 * most + 3 * r * r + 64;
    break;
  case GM_LAPACK_EIGH:
    *work = 1 + 6 * n + 2 * n * n;
    break;
  default:
    *work = 1;
  }
}

static const char *
problem (GmLapackOp op, const GmTensor *a, const GmTensor *other)
{
  bool floats = a->meta.dtype == GM_F32 || a->meta.dtype == GM_F64,
       square = a->meta.ndim == 3 && a->meta.sizes[1] == a->meta.sizes[2];
  bool takes_two = op == GM_LAPACK_SOLVE || op == GM_LAPACK_TRIANGULAR;
  if (!floats)
    return "takes float32 and float64: cast the matrix first";
  if (a->meta.ndim != 3 || a->meta.device != GM_DEVICE_CPU || !gm_meta_is_contiguous (&a->meta))
    return "takes row-major matrices [b, m, n] on the CPU";
  if (!square && op != GM_LAPACK_QR && op != GM_LAPACK_SVD && op != GM_LAPACK_LU)
    return "takes square matrices";
  if (a->meta.sizes[1] > 1 << 20 || a->meta.sizes[2] > 1 << 20)
    return "takes matrices of at most 2^20 rows and columns";
  if (takes_two != (other != NULL))
    return "got another number of operands";
  if (other
      && (other->meta.dtype != a->meta.dtype || other->meta.ndim != 3
          || other->meta.device != GM_DEVICE_CPU || !gm_meta_is_contiguous (&other->meta)
          || other->meta.sizes[0] != a->meta.sizes[0] || other->meta.sizes[1] != a->meta.sizes[1]
          || other->meta.sizes[2] > 1 << 20))
    return "takes a second operand [b, m, k] of the same dtype";
  return NULL;
}

/* Fills in the results' shapes after the batch, up to two sizes each; returns the number of
 * results. */
static int
results_of (const Job *job, int64_t sizes[3][2], int ndim[3])
{
  int64_t m = job->m, n = job->n, k = job->k, r = job->r;
  int64_t left = job->full ? m : r, right = job->full ? n : r;
#define RESULT(i, d, x, y) (ndim[i] = (d), sizes[i][0] = (x), sizes[i][1] = (y))
  switch (job->op) {
  case GM_LAPACK_CHOLESKY:
    RESULT (0, 2, n, n);
    return 1;
  case GM_LAPACK_SOLVE:
  case GM_LAPACK_TRIANGULAR:
    RESULT (0, 2, n, k);
    return 1;
  case GM_LAPACK_DET:
    RESULT (0, 0, 1, 1), RESULT (1, 0, 1, 1), RESULT (2, 0, 1, 1);
    return 3;
  case GM_LAPACK_QR:
    RESULT (0, 2, m, left), RESULT (1, 2, left, n);
    return 2;
  case GM_LAPACK_SVD:
    RESULT (0, 2, m, left), RESULT (1, 1, r, 1), RESULT (2, 2, right, n);
    return 3;
  case GM_LAPACK_EIGH:
    RESULT (0, 1, n, 1), RESULT (1, 2, n, n);
    return 2;
  case GM_LAPACK_LU:
    RESULT (0, 2, m, n), RESULT (1, 1, r, 1);
    return 2;
  case GM_N_LAPACK:
    break;
  }
#undef RESULT
  return 0;
}

/* -- The batch --------------------------------------------------------------------------------- */

int
gm_lapack_run (GmLapackOp op, const GmTensor *a, const GmTensor *other, int flags, GmTensor *out[3],
               int64_t *info, GError **error)
{
  const char *why = problem (op, a, other);
  if (why) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "linalg.%s: %s", gm_lapack_names[op], why);
    return 0;
  }
  if (!load (error))
    return 0;
  Job job = { .op = op,
              .m = (int) a->meta.sizes[1],
              .n = (int) a->meta.sizes[2],
              .k = other ? (int) other->meta.sizes[2] : 0,
              .full = flags & GM_LAPACK_FULL,
              .upper = flags & GM_LAPACK_UPPER,
              .unit = flags & GM_LAPACK_UNIT };
  job.r = MIN (job.m, job.n);
  size_t elem = gm_dtype_size (a->meta.dtype), copy, work, ints, step[3] = { 0 };
  int64_t b = a->meta.sizes[0], sizes[3][2];
  int ndim[3], n_own = results_of (&job, sizes, ndim), n_out = n_own;
  if (flags & GM_LAPACK_INFO && n_own < 3)
    ndim[n_out++] = 0;
  measure (&job, &copy, &work, &ints);
  if (work > INT_MAX / 2) {
    g_set_error (error, GM_ERROR, GM_ERROR_MEMORY, "linalg.%s: a matrix of %d x %d is too large",
                 gm_lapack_names[op], job.m, job.n);
    return 0;
  }
  job.lwork = (int) work;
  job.liwork = (int) ints;
  for (int i = 0; i < 3; i++)
    out[i] = NULL;
  bool ok = true;
  for (int i = 0; i < n_out && ok; i++) {
    GmMeta m = gm_meta_make ((GmDtype) a->meta.dtype, 1 + ndim[i],
                             (const int64_t[]){ b, sizes[i][0], sizes[i][1] });
    step[i] =
        elem * (size_t) (ndim[i] > 0 ? sizes[i][0] : 1) * (size_t) (ndim[i] > 1 ? sizes[i][1] : 1);
    ok = (out[i] = gm_tensor_new (&m, error)) != NULL;
  }
  size_t bytes = elem * (copy + work + (size_t) job.r + 1) + sizeof (int) * ints;
  char *scratch = ok ? gm_alloc (bytes) : NULL;
  if (ok && !scratch) {
    g_set_error (error, GM_ERROR, GM_ERROR_MEMORY, "linalg.%s: no memory for %zu bytes",
                 gm_lapack_names[op], bytes);
    ok = false;
  }
  if (ok) {
    job.a = scratch;
    job.work = scratch + elem * copy;
    job.tau = scratch + elem * (copy + work);
    job.ints = (int *) (void *) (scratch + elem * (copy + work + (size_t) job.r + 1));
    size_t a_step = elem * (size_t) job.m * (size_t) job.n,
           b_step = elem * (size_t) job.m * (size_t) job.k;
    for (int64_t i = 0; i < b; i++) {
      void *to[3];
      for (int j = 0; j < 3; j++)
        to[j] = j < n_own ? (char *) gm_tensor_data (out[j]) + (size_t) i * step[j] : NULL;
      const char *x = (const char *) gm_tensor_data (a) + (size_t) i * a_step,
                 *y = other ? (const char *) gm_tensor_data (other) + (size_t) i * b_step : NULL;
      info[i] = a->meta.dtype == GM_F32 ? run_f32 (&job, x, y, to) : run_f64 (&job, x, y, to);
      if (n_out > n_own && elem == sizeof (float))
        ((float *) gm_tensor_data (out[n_own]))[i] = (float) info[i];
      else if (n_out > n_own)
        ((double *) gm_tensor_data (out[n_own]))[i] = (double) info[i];
    }
    gm_free (scratch, bytes);
    return n_out;
  }
  for (int i = 0; i < 3; i++)
    g_clear_pointer (&out[i], gm_tensor_unref);
  return 0;
}
