/* SPDX-License-Identifier: Apache-2.0
 * fake_cublas.c -- a cuBLASLt for the fake driver: GRAMME_CUBLASLT names the same library.
 *
 * It refuses operands that the real library refuses (leading dimensions that are too small, an
 * alignment that the operands do not have, a missing workspace), needs a workspace for every
 * product of odd depth, and sums in order, in f32 or f64.
 */
#include "tests/gpu/fake_cuda.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NO_MEMORY = 3, INVALID = 7, FAILED = 13, NOT_SUPPORTED = 15 };
enum { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };
enum { WORKSPACE = 512 };

typedef struct {
  int type, first_transposed, second_transposed;
  unsigned epilogue;
  uint64_t row;
} Desc;

typedef struct {
  int type, batches;
  uint64_t rows, cols;
  int64_t ld, batch;
} Layout;

typedef struct {
  uint64_t workspace;
  uint32_t alignment[4];
} Preference;

typedef struct {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Result;

typedef struct {
  Desc desc;
  Layout a, b, d;
  double beta;
  uint64_t a_at, b_at, c_at, d_at, workspace;
  size_t workspace_bytes;
} Job;

/* -- Elements ---------------------------------------------------------------------------------- */

static size_t
bytes_of (int type)
{
  return type == F64 ? 8 : type == F32 ? 4 : 2;
}

static double
read_element (const char *base, int type, int64_t i)
{
  uint16_t half;
  uint32_t bits;
  float f;
  if (type == F64)
    return ((const double *) (const void *) base)[i];
  if (type == F32)
    return ((const float *) (const void *) base)[i];
  memcpy (&half, base + 2 * i, 2);
  if (type == BF16) {
    bits = (uint32_t) half << 16;
    memcpy (&f, &bits, 4);
    return f;
  }
  _Float16 h;
  memcpy (&h, &half, 2);
  return (double) h;
}

static void
write_element (char *base, int type, int64_t i, double value)
{
  float f = (float) value;
  uint32_t bits;
  uint16_t half;
  if (type == F64) {
    ((double *) (void *) base)[i] = value;
  } else if (type == F32) {
    ((float *) (void *) base)[i] = f;
  } else if (type == BF16) {
    memcpy (&bits, &f, 4);
    half = f != f ? 0x7fc0 : (uint16_t) ((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    memcpy (base + 2 * i, &half, 2);
  } else {
    _Float16 h = (_Float16) f;
    memcpy (base + 2 * i, &h, 2);
  }
}

/* -- Descriptions ------------------------------------------------------------------------------ */

EXPORT size_t
cublasLtGetVersion (void)
{
  return 130000;
}

EXPORT int
cublasLtCreate (void **handle)
{
  static int one;
  *handle = &one;
  return OK;
}

EXPORT int
cublasLtMatmulDescCreate (void **desc, int compute_type, int scale_type)
{
  Desc *d = calloc (1, sizeof *d);
  if (!d)
    return NO_MEMORY;
  *d = (Desc){ .type = scale_type, .epilogue = 1 };
  *desc = d;
  return compute_type == (scale_type == F64 ? 70 : 68) ? OK : INVALID;
}

EXPORT int
cublasLtMatmulDescDestroy (void *desc)
{
  free (desc);
  return OK;
}

static int
set (void *to, size_t room, const void *value, size_t bytes)
{
  if (bytes != room)
    return INVALID;
  memcpy (to, value, bytes);
  return OK;
}

EXPORT int
cublasLtMatmulDescSetAttribute (void *desc, int attribute, const void *value, size_t bytes)
{
  Desc *d = desc;
  switch (attribute) {
  case 3:
    return set (&d->first_transposed, sizeof d->first_transposed, value, bytes);
  case 4:
    return set (&d->second_transposed, sizeof d->second_transposed, value, bytes);
  case 7:
    return set (&d->epilogue, sizeof d->epilogue, value, bytes);
  case 8:
    return set (&d->row, sizeof d->row, value, bytes);
  default:
    return INVALID;
  }
}

EXPORT int
cublasLtMatrixLayoutCreate (void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
  Layout *l = calloc (1, sizeof *l);
  if (!l)
    return NO_MEMORY;
  *l = (Layout){ .type = type, .batches = 1, .rows = rows, .cols = cols, .ld = ld };
  *layout = l;
  return OK;
}

EXPORT int
cublasLtMatrixLayoutDestroy (void *layout)
{
  free (layout);
  return OK;
}

EXPORT int
cublasLtMatrixLayoutSetAttribute (void *layout, int attribute, const void *value, size_t bytes)
{
  Layout *l = layout;
  return attribute == 5   ? set (&l->batches, sizeof l->batches, value, bytes)
         : attribute == 6 ? set (&l->batch, sizeof l->batch, value, bytes)
                          : INVALID;
}

EXPORT int
cublasLtMatmulPreferenceCreate (void **preference)
{
  *preference = calloc (1, sizeof (Preference));
  return *preference ? OK : NO_MEMORY;
}

EXPORT int
cublasLtMatmulPreferenceDestroy (void *preference)
{
  free (preference);
  return OK;
}

EXPORT int
cublasLtMatmulPreferenceSetAttribute (void *preference, int attribute, const void *value,
                                      size_t bytes)
{
  Preference *p = preference;
  if (attribute >= 5 && attribute <= 8)
    return set (&p->alignment[attribute - 5], 4, value, bytes);
  return attribute == 1 ? set (&p->workspace, 8, value, bytes) : INVALID;
}

/* -- Products ---------------------------------------------------------------------------------- */

static int
fits (const Desc *d, const Layout *a, const Layout *b, const Layout *out)
{
  uint64_t rows = d->first_transposed ? a->cols : a->rows,
           depth = d->first_transposed ? a->rows : a->cols;
  uint64_t cols = d->second_transposed ? b->rows : b->cols,
           depth_b = d->second_transposed ? b->cols : b->rows;
  const Layout *all[] = { a, b, out };
  for (int i = 0; i < 3; i++)
    if (all[i]->ld < (int64_t) all[i]->rows || all[i]->rows == 0 || all[i]->cols == 0
        || all[i]->type != out->type || all[i]->batches != out->batches
        || (out->type == F64) != (d->type == F64))
      return 0;
  return rows == out->rows && cols == out->cols && depth == depth_b
         && !(out->type == F64 && d->epilogue != 1);
}

EXPORT int
cublasLtMatmulAlgoGetHeuristic (void *handle, void *desc, void *a, void *b, void *c, void *d,
                                void *preference, int wanted, void *results, int *found)
{
  Result *r = results;
  const Preference *p = preference;
  const Layout *first = a;
  (void) handle;
  if (wanted < 1 || c != d || !fits (desc, a, b, d))
    return INVALID;
  *r = (Result){ .workspace =
                     (((const Desc *) desc)->first_transposed ? first->rows : first->cols) % 2
                         ? WORKSPACE
                         : 0 };
  for (int i = 0; i < 4; i++)
    r->algorithm[i] = p->alignment[i];
  *found = r->workspace <= p->workspace;
  return OK;
}

static double
sum (const Job *j, const char *a, const char *b, int64_t row, int64_t col)
{
  int64_t depth = (int64_t) (j->desc.first_transposed ? j->a.rows : j->a.cols);
  float narrow = 0;
  double wide = 0;
  for (int64_t k = 0; k < depth; k++) {
    double x = read_element (a, j->a.type,
                             j->desc.first_transposed ? row * j->a.ld + k : k * j->a.ld + row);
    double y = read_element (b, j->b.type,
                             j->desc.second_transposed ? k * j->b.ld + col : col * j->b.ld + k);
    narrow = fmaf ((float) x, (float) y, narrow);
    wide = fma (x, y, wide);
  }
  return j->d.type == F64 ? wide : narrow;
}

static char *
matrix (uint64_t at, const Layout *l, int64_t batch)
{
  size_t bytes = bytes_of (l->type);
  return fake_memory (at + (uint64_t) (batch * l->batch) * bytes,
                      ((size_t) (l->ld * (int64_t) (l->cols - 1)) + l->rows) * bytes);
}

static int
run (void *data)
{
  enum { ILLEGAL_ADDRESS = 700 };
  const Job *j = data;
  if (j->workspace_bytes) {
    char *w = fake_memory (j->workspace, j->workspace_bytes);
    if (!w)
      return ILLEGAL_ADDRESS;
    memset (w, 0x5a, j->workspace_bytes);
  }
  const char *row =
      j->desc.epilogue & 4 ? fake_memory (j->desc.row, j->d.rows * bytes_of (j->d.type)) : "";
  for (int64_t batch = 0; batch < j->d.batches; batch++) {
    const char *a = matrix (j->a_at, &j->a, batch), *b = matrix (j->b_at, &j->b, batch);
    const char *c = j->beta != 0 ? matrix (j->c_at, &j->d, batch) : "";
    char *d = matrix (j->d_at, &j->d, batch);
    if (!a || !b || !c || !d || !row)
      return ILLEGAL_ADDRESS;
    for (int64_t y = 0; y < (int64_t) j->d.cols; y++)
      for (int64_t x = 0; x < (int64_t) j->d.rows; x++) {
        double v = sum (j, a, b, x, y);
        if (j->beta != 0)
          v += j->beta * read_element (c, j->d.type, y * j->d.ld + x);
        if (j->desc.epilogue & 4)
          v += read_element (row, j->d.type, x);
        if (j->desc.epilogue & 2)
          v = v > 0 ? v : v != v ? v : 0;
        write_element (d, j->d.type, y * j->d.ld + x, v);
      }
  }
  return OK;
}

EXPORT int
cublasLtMatmul (void *handle, void *desc, const void *alpha, uint64_t a, void *a_layout, uint64_t b,
                void *b_layout, const void *beta, uint64_t c, void *c_layout, uint64_t d,
                void *d_layout, const void *algorithm, uint64_t workspace, size_t workspace_bytes,
                void *stream)
{
  const uint64_t *aligned = algorithm, at[] = { a, b, c, d };
  Job j = { .desc = *(const Desc *) desc,
            .a = *(const Layout *) a_layout,
            .b = *(const Layout *) b_layout,
            .d = *(const Layout *) d_layout,
            .a_at = a,
            .b_at = b,
            .c_at = c,
            .d_at = d,
            .workspace = workspace,
            .workspace_bytes = workspace_bytes };
  bool wide = j.desc.type == F64;
  double one = wide ? *(const double *) alpha : (double) *(const float *) alpha;
  (void) handle;
  (void) c_layout;
  j.beta = wide ? *(const double *) beta : (double) *(const float *) beta;
  bool good = one == 1 && fits (&j.desc, &j.a, &j.b, &j.d);
  for (int i = 0; i < 4; i++)
    good = good && aligned[i] && at[i] % aligned[i] == 0;
  if (!good)
    return INVALID;
  return fake_enqueue (stream, run, &j, sizeof j) ? FAILED : OK;
}
