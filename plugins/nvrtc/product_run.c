/* SPDX-License-Identifier: Apache-2.0
 * product_run.c -- see product.h: calls cuBLASLt.
 *
 * Its matrices are stored by columns.  A result stored by rows is, by columns, its own transpose:
 * the transpose of b times the transpose of a.  So b is its first operand, a its second, and a row
 * to add is one of its columns.
 */
#include "plugins/nvrtc/product.h"

#include <stdlib.h>

/* Constants from the manuals of cuBLASLt and CUDA. */
enum { TYPE_F32 = 0, TYPE_F64 = 1, TYPE_F16 = 2, TYPE_BF16 = 14 };
enum { COMPUTE_F32 = 68, COMPUTE_F64 = 70 };
enum { DESC_FIRST_TRANSPOSED = 3, DESC_SECOND_TRANSPOSED = 4, DESC_EPILOGUE = 7, DESC_ROW = 8 };
enum { EPILOGUE_RELU = 2, EPILOGUE_ROW = 4 };
enum { LAYOUT_BATCHES = 5, LAYOUT_BATCH_STRIDE = 6 };
/* Attributes of a preference; the three after PREFER_ALIGNMENT, too: one for each operand. */
enum { PREFER_WORKSPACE = 1, PREFER_ALIGNMENT = 5 };

#define WORKSPACE_BYTES ((uint64_t) 32 << 20) /* recommended by its manual for the newest GPUs */
#define MAX_CHOSEN 256

typedef struct {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Found;

enum {
  ROWS,
  COLS,
  DEPTH,
  BATCHES,
  A_LD,
  B_LD,
  C_LD,
  A_BATCH,
  B_BATCH,
  C_BATCH,
  ALIGNMENT,
  DEVICE,
  N_KEYS
};

struct NvChosen {
  NvChosen *next;
  int64_t key[N_KEYS];
  void *desc, *first, *second, *result;
  Found found;
};

static pthread_mutex_t handle_lock = PTHREAD_MUTEX_INITIALIZER;
static void *handles[NV_MAX_DEVICES];

/* Returns the library's handle of a device, whose context is current. */
static void *
handle_of (const NvCublas *c, int32_t device)
{
  pthread_mutex_lock (&handle_lock);
  if (!handles[device] && c->cublasLtCreate (&handles[device]) != 0)
    handles[device] = NULL;
  void *handle = handles[device];
  pthread_mutex_unlock (&handle_lock);
  return handle;
}

static int
type_of (uint32_t dtype)
{
  return dtype == GRAMME_DTYPE_F64    ? TYPE_F64
         : dtype == GRAMME_DTYPE_F16  ? TYPE_F16
         : dtype == GRAMME_DTYPE_BF16 ? TYPE_BF16
                                      : TYPE_F32;
}

/* -- Choosing ---------------------------------------------------------------------------------- */

static void
chosen_free (const NvCublas *c, NvChosen *n)
{
  if (n->desc)
    c->cublasLtMatmulDescDestroy (n->desc);
  void *layouts[] = { n->first, n->second, n->result };
  for (int i = 0; i < 3; i++)
    if (layouts[i])
      c->cublasLtMatrixLayoutDestroy (layouts[i]);
  free (n);
}

static int
make_layout (const NvCublas *c, void **out, const NvProduct *q, int64_t rows, int64_t cols,
             int64_t ld, int64_t batch, int64_t batches)
{
  int32_t count = (int32_t) batches;
  int result =
      c->cublasLtMatrixLayoutCreate (out, type_of (q->dtype), (uint64_t) rows, (uint64_t) cols, ld);
  if (result == 0 && batches != 1)
    result = c->cublasLtMatrixLayoutSetAttribute (*out, LAYOUT_BATCHES, &count, sizeof count);
  if (result == 0 && batches != 1)
    result = c->cublasLtMatrixLayoutSetAttribute (*out, LAYOUT_BATCH_STRIDE, &batch, sizeof batch);
  return result;
}

static int
make_desc (const NvCublas *c, NvChosen *n, const NvProduct *q, NvAddress row)
{
  bool wide = q->dtype == GRAMME_DTYPE_F64;
  int32_t first = q->b.down, second = q->a.down;
  uint32_t epilogue = (q->relu ? EPILOGUE_RELU : 0) | (q->adds_row ? EPILOGUE_ROW : 0);
  int result = c->cublasLtMatmulDescCreate (&n->desc, wide ? COMPUTE_F64 : COMPUTE_F32,
                                            wide ? TYPE_F64 : TYPE_F32);
  if (result == 0)
    result =
        c->cublasLtMatmulDescSetAttribute (n->desc, DESC_FIRST_TRANSPOSED, &first, sizeof first);
  if (result == 0)
    result =
        c->cublasLtMatmulDescSetAttribute (n->desc, DESC_SECOND_TRANSPOSED, &second, sizeof second);
  if (result == 0 && epilogue)
    result = c->cublasLtMatmulDescSetAttribute (n->desc, DESC_EPILOGUE, &epilogue, sizeof epilogue);
  if (result == 0 && q->adds_row)
    result = c->cublasLtMatmulDescSetAttribute (n->desc, DESC_ROW, &row, sizeof row);
  return result;
}

static int
ask (const NvCublas *c, void *handle, NvChosen *n)
{
  void *preference = NULL;
  uint64_t workspace = WORKSPACE_BYTES;
  uint32_t alignment = (uint32_t) n->key[ALIGNMENT];
  int found = 0, result = c->cublasLtMatmulPreferenceCreate (&preference);
  if (result == 0)
    result = c->cublasLtMatmulPreferenceSetAttribute (preference, PREFER_WORKSPACE, &workspace,
                                                      sizeof workspace);
  for (int i = 0; i < 4 && result == 0; i++)
    result = c->cublasLtMatmulPreferenceSetAttribute (preference, PREFER_ALIGNMENT + i, &alignment,
                                                      sizeof alignment);
  if (result == 0)
    result = c->cublasLtMatmulAlgoGetHeuristic (handle, n->desc, n->first, n->second, n->result,
                                                n->result, preference, 1, &n->found, &found);
  if (preference)
    c->cublasLtMatmulPreferenceDestroy (preference);
  return result ? result : found < 1 ? 15 : n->found.state;
}

static NvChosen *
choose (const NvCublas *c, void *handle, const NvProduct *q, const int64_t key[N_KEYS],
        NvAddress row, int *result)
{
  NvChosen *n = calloc (1, sizeof *n);
  *result = n ? 0 : 3;
  if (!n)
    return NULL;
  memcpy (n->key, key, sizeof n->key);
  int64_t b_rows = q->b.down ? key[DEPTH] : key[COLS], b_cols = q->b.down ? key[COLS] : key[DEPTH];
  int64_t a_rows = q->a.down ? key[ROWS] : key[DEPTH], a_cols = q->a.down ? key[DEPTH] : key[ROWS];
  if ((*result = make_desc (c, n, q, row)) == 0
      && (*result =
              make_layout (c, &n->first, q, b_rows, b_cols, key[B_LD], key[B_BATCH], key[BATCHES]))
             == 0
      && (*result =
              make_layout (c, &n->second, q, a_rows, a_cols, key[A_LD], key[A_BATCH], key[BATCHES]))
             == 0
      && (*result = make_layout (c, &n->result, q, key[COLS], key[ROWS], key[C_LD], key[C_BATCH],
                                 key[BATCHES]))
             == 0)
    *result = ask (c, handle, n);
  if (*result == 0)
    return n;
  chosen_free (c, n);
  return NULL;
}

/* Returns the library's choice for these sizes, which is made if it is new; NULL: *result is the
 * error. The caller holds the lock. If *own, the choice is beyond the limit and owned by the
 * caller. */
static NvChosen *
find (const NvCublas *c, void *handle, NvProduct *q, const int64_t key[N_KEYS], NvAddress row,
      bool *own, int *result)
{
  *own = false;
  *result = 0;
  for (NvChosen *n = q->chosen; n; n = n->next)
    if (memcmp (n->key, key, sizeof n->key) == 0)
      return n;
  NvChosen *n = choose (c, handle, q, key, row, result);
  if (!n || q->n_chosen == MAX_CHOSEN) {
    *own = n != NULL;
    return n;
  }
  n->next = q->chosen;
  q->chosen = n;
  q->n_chosen++;
  return n;
}

/* -- Running ----------------------------------------------------------------------------------- */

static bool
read_key (const NvProduct *q, const NvAddress *at, const int64_t *sizes, int32_t device,
          int64_t key[N_KEYS])
{
  const int64_t of[] = { q->rows, q->cols, q->depth,   q->batches, q->a.ld,
                         q->b.ld, q->c.ld, q->a.batch, q->b.batch, q->c.batch };
  NvAddress all = 16;
  for (int i = 0; i < ALIGNMENT; i++)
    if ((key[i] = codegen_size_value (of[i], sizes)) < 0)
      return false;
  for (int i = 0; i < 3 + (q->adds_row || q->adds_matrix); i++)
    all |= at[i];
  key[ALIGNMENT] = (int64_t) (all & -all);
  key[DEVICE] = device;
  return key[BATCHES] <= INT32_MAX;
}

/* Makes each leading dimension at least as long as the rows or columns that it separates, also
 * where there is only one of these. */
static void
mend_leading (const NvProduct *q, int64_t key[N_KEYS])
{
  int64_t a = q->a.down ? key[ROWS] : key[DEPTH], b = q->b.down ? key[DEPTH] : key[COLS];
  key[A_LD] = key[A_LD] < a ? a : key[A_LD];
  key[B_LD] = key[B_LD] < b ? b : key[B_LD];
  key[C_LD] = key[C_LD] < key[COLS] ? key[COLS] : key[C_LD];
}

static int32_t
fail (int result, const char *what, GrammeStatus *status)
{
  static const struct {
    int number;
    const char *text;
  } texts[] = { { 1, "it is not initialized" },
                { 3, "no memory" },
                { 7, "an invalid value" },
                { 8, "not on this architecture" },
                { 13, "execution failed" },
                { 14, "an internal error" },
                { 15,
                  "it has none for such operands; option products=own takes gramme's kernel" } };
  const char *text = "see its manual";
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (texts[i].number == result)
      text = texts[i].text;
  return gramme_fail (status, result == 3 ? GRAMME_NO_MEMORY : GRAMME_DEVICE, -1,
                      "%s: cuBLASLt: result %d: %s", what, result, text);
}

int32_t
nv_product_run (NvProduct *q, NvDevice *d, const NvAddress *at, const int64_t *sizes,
                const char *what, NvKept *kept, GrammeStatus *status)
{
  static const float one = 1, zero = 0;
  static const double one_wide = 1, zero_wide = 0;
  const NvCublas *c = nv_cublas (NULL);
  int64_t key[N_KEYS];
  int32_t device = nv_device_number (d);
  bool wide = q->dtype == GRAMME_DTYPE_F64, own;
  int result;
  if (!read_key (q, at, sizes, device, key))
    return gramme_fail (status, GRAMME_NO_MEMORY, -1,
                        "%s: these sizes are more than a GPU counts to", what);
  if (key[ROWS] == 0 || key[COLS] == 0 || key[BATCHES] == 0)
    return GRAMME_OK;
  if (key[DEPTH] == 0)
    return nv_device_zero (d, at[2],
                           (uint64_t) (key[ROWS] * key[COLS] * key[BATCHES])
                               * (wide                           ? 8
                                  : q->dtype == GRAMME_DTYPE_F32 ? 4
                                                                 : 2),
                           status);
  mend_leading (q, key);
  void *handle = handle_of (c, device);
  if (!handle)
    return fail (1, what, status);
  pthread_mutex_lock (&q->lock);
  NvChosen *n = find (c, handle, q, key, q->adds_row ? at[3] : 0, &own, &result);
  NvAddress workspace = 0;
  int32_t code = GRAMME_OK;
  if (n && n->found.workspace)
    code = nv_device_alloc (d, n->found.workspace, &workspace, status);
  /* The row's address is part of the description, so it is set and used under one lock. */
  if (n && code == GRAMME_OK && q->adds_row)
    result = c->cublasLtMatmulDescSetAttribute (n->desc, DESC_ROW, &at[3], sizeof at[3]);
  if (n && code == GRAMME_OK && result == 0)
    result = c->cublasLtMatmul (
        handle, n->desc, wide ? (const void *) &one_wide : &one, at[1], n->first, at[0], n->second,
        q->adds_matrix ? wide ? (const void *) &one_wide : &one
        : wide         ? (const void *) &zero_wide
                       : &zero,
        q->adds_matrix ? at[3] : at[2], n->result, at[2], n->result, n->found.algorithm, workspace,
        n->found.workspace, nv_device_stream (d));
  if (own)
    chosen_free (c, n);
  pthread_mutex_unlock (&q->lock);
  nv_keep (d, kept, workspace);
  return code == GRAMME_OK && result ? fail (result, what, status) : code;
}

void
nv_product_free (NvProduct *q)
{
  while (q->chosen) {
    NvChosen *next = q->chosen->next;
    chosen_free (nv_cublas (NULL), q->chosen);
    q->chosen = next;
  }
  pthread_mutex_destroy (&q->lock);
  free (q);
}
