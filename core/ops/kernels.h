/* SPDX-License-Identifier: Apache-2.0
 * kernels.h -- loops over strided operands for the eager kernels, and one entry for each family of
 * ops.
 *
 * Private to this room.  Kernels get operands and a result that gm_op_infer has accepted, allocate
 * nothing but scratch, and do no arithmetic of their own: that is core/tiles.
 */
#ifndef GM_OPS_KERNELS_H
#define GM_OPS_KERNELS_H

#include "core/ops/ops.h"
#include "core/tiles/tiles.h"

/* The tables for this CPU; set before any kernel runs. */
extern const GmTiles *gm_run_tiles;

#define GM_TILE_BYTES (GM_TILE * 8) /* of the widest element */

/* -- Loops (loop.c) ---------------------------------------------------------------------------- */

#define GM_LOOP_OPERANDS 4 /* the result and at most three inputs */

/* A loop over a shape with several operands, dimensions merged where every operand allows it.
 * Dimension ndim - 1 is the innermost; ndim >= 1. Strides are in elements, 0 where an operand
 * repeats. */
typedef struct {
  int n, ndim;
  int64_t numel;
  int64_t sizes[GM_MAX_DIMS];
  ptrdiff_t strides[GM_LOOP_OPERANDS][GM_MAX_DIMS];
  size_t elem[GM_LOOP_OPERANDS]; /* bytes */
} GmLoop;

/* Makes a loop over `ndim` sizes; operand i has strides[i], broadcast already. `sorted`: dimensions
 * may be sorted by operand 0's strides; else they stay in the order given. */
void gm_loop_init (GmLoop *l, int ndim, const int64_t *sizes, int n, const int64_t *const *strides,
                   const size_t *elem, bool sorted);
/* Makes a loop over the shape of operands[0]; the other operands broadcast to it. */
void gm_loop_init_metas (GmLoop *l, int n, const GmMeta *const *operands);

/* The function that runs on contiguous stretches: exactly one member is set, or none of them for a
 * plain copy. */
typedef struct {
  GmTilePointwise pointwise;
  GmTileCast cast;
} GmLoopBody;

/* Computes data[0] = body (data[1], ...) over the whole loop, in any order. */
void gm_loop_run (const GmLoop *l, GmLoopBody body, char *const *data);

/* Position in a strided operand, which is read as one stream in the loop's order. */
typedef struct {
  const char *at;
  int ndim;
  const int64_t *sizes;
  const ptrdiff_t *strides;
  size_t elem;
  int64_t index[GM_MAX_DIMS];
} GmCursor;

void gm_cursor_init (GmCursor *c, const GmLoop *l, int operand, const void *data);
/* Returns the next n elements: a pointer into the operand where they are contiguous, else `buffer`,
 * filled. */
const void *gm_cursor_read (GmCursor *c, void *buffer, size_t n);
/* Stores the next n elements; the operand must be writable memory. */
void gm_cursor_write (GmCursor *c, const void *values, size_t n);
void gm_cursor_skip (GmCursor *c, size_t n);
/* True if the next n elements are contiguous. */
static inline bool
gm_cursor_is_run (const GmCursor *c, size_t n)
{
  int last = c->ndim - 1;
  return c->strides[last] == 1 && (int64_t) n <= c->sizes[last] - c->index[last];
}

/* Advances an odometer over `ndim` dimensions, the last fastest, and the pointers with it.  False
 * after the last. */
static inline bool
gm_odometer_next (int64_t *index, int ndim, const int64_t *sizes, int n, char **at,
                  const ptrdiff_t *const *strides, const size_t *elem)
{
  for (int d = ndim - 1; d >= 0; d--) {
    if (++index[d] < sizes[d]) {
      for (int i = 0; i < n; i++)
        at[i] += strides[i][d] * (ptrdiff_t) elem[i];
      return true;
    }
    for (int i = 0; i < n; i++)
      at[i] -= strides[i][d] * (ptrdiff_t) elem[i] * (sizes[d] - 1);
    index[d] = 0;
  }
  return false;
}

/* Moves to position i of the loop's dimensions before `ndim`, in their order: sets index, and
 * advances the pointers `at` to the first n operands. */
void gm_loop_go (const GmLoop *l, int ndim, int64_t i, int n, char **at, int64_t *index);

/* Returns the number of parts in which several threads do `items` pieces of work that touch so many
 * elements in all: 1 if no thread is worth waking.  No bit of a result may depend on it. */
uint32_t gm_loop_parts (int64_t items, int64_t elements);

/* Makes the loop over all dimensions but `dim` of operands[0], in which operands of the same rank
 * walk together; along[i] becomes operand i's stride in `dim` (elements). A 0-d tensor counts as
 * one dimension of size 1. */
void gm_lines_init (GmLoop *l, int n, GmTensor *const *operands, int64_t dim, int64_t *along);

/* Copies src's elements to dst, broadcast and cast. Memory must not overlap. */
void gm_copy_strided (GmTensor *dst, const GmTensor *src);

/* -- Families ---------------------------------------------------------------------------------- */

void gm_pointwise_run (GmOp op, GmTensor *const *in, int n_in, GmTensor *out); /* pointwise.c */
void gm_reduce_run (GmOp op, const GmTensor *x, const GmAttrs *attrs, GmTensor *out); /* reduce.c */
void gm_argreduce_run (GmOp op, const GmTensor *x, const GmAttrs *attrs,
                       GmTensor *out); /* reduce.c */
GmTensor *gm_movement_run (GmOp op, GmTensor *x, const GmAttrs *attrs, const GmMeta *meta,
                           GError **error);                                     /* movement.c */
bool gm_contract_run (GmTensor *a, GmTensor *b, GmTensor *out, GError **error); /* contract.c */
bool gm_convolve_run (GmOp op, GmTensor *const *in, const GmAttrs *attrs, GmTensor *out,
                      GError **error); /* convolve.c */
bool gm_pool_run (GmOp op, GmTensor *const *in, const GmAttrs *attrs, GmTensor *out,
                  GError **error); /* pool.c */
bool gm_index_run (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GmTensor *out,
                   GError **error); /* index.c */
bool gm_argsort_run (const GmTensor *x, const GmAttrs *attrs, GmTensor *out,
                     GError **error);                                                  /* scan.c */
void gm_running_run (GmOp op, const GmTensor *x, const GmAttrs *attrs, GmTensor *out); /* scan.c */
void gm_random_run (GmOp op, const GmTensor *state, const GmAttrs *attrs,
                    GmTensor *out);                                                /* random.c */
bool gm_create_run (GmOp op, const GmAttrs *attrs, GmTensor *out, GError **error); /* create.c */

#endif
