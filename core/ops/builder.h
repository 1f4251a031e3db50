/* SPDX-License-Identifier: Apache-2.0
 * builder.h -- programs over ops, written once, executed or recorded.
 *
 * Gradients (gradients.c) and everything above single ops (api.c: torch's functions) are written
 * against a builder. One implementation executes at once (core/autograd/eager_builder.c), another
 * appends nodes to a graph (core/graph/graph_builder.c). Errors are sticky: the first error is kept
 * in b->error, and after it every call returns NULL and does nothing, so programs are straight-line
 * and the caller tests once, at the end.
 */
#ifndef GM_OPS_BUILDER_H
#define GM_OPS_BUILDER_H

#include "core/ops/ops.h"

/* A value of some builder: opaque; owned by the builder; NULL is "none" (no gradient, or after an
 * error). */
typedef struct GmValue *GmVal;

typedef struct GmBuilder GmBuilder;
typedef struct {
  GmVal (*op) (GmBuilder *b, GmOp op, const GmVal *in, int n_in, const GmAttrs *attrs);
  const GmMeta *(*meta) (GmBuilder *b, GmVal v); /* borrowed, valid while the builder lives */
  /* Writes op (in ...), cast and broadcast to dst, into dst's elements; returns dst after the
   * write. op may be GM_OP_copy. */
  GmVal (*into) (GmBuilder *b, GmVal dst, GmOp op, const GmVal *in, int n_in, const GmAttrs *attrs);
  /* Returns the generator's state as a value for a RANDOM op with n elements; *offset: the offset
   * for the op's attributes. */
  GmVal (*random) (GmBuilder *b, uint64_t n_elements, int64_t *offset);
  /* Returns a tensor that exists already (a default of a library function, a saved tensor) as a
   * value; a tensor of the CPU is moved to b->device. */
  GmVal (*constant) (GmBuilder *b, GmTensor *t);
  /* Reads the single element of v as a number (item(), bool(), data-dependent sizes). False: an
   * error is set, which a recording builder may do for any v. */
  bool (*item) (GmBuilder *b, GmVal v, GmScalar *out);
  /* Reads v, the element of an argument of kind ELEMENT: its value in this call, to which each call
   * that the recording serves is then restricted. False: an error is set. NULL: the builder gets no
   * such argument. */
  bool (*number) (GmBuilder *b, GmVal v, double *out);
  /* True if the element v is finite and its magnitude is at most `most`, in this call and in each
   * that the recording serves. */
  bool (*within) (GmBuilder *b, GmVal v, double most);
  /* Makes dst equal to src (a view of dst, or another tensor of its dtype) in all but identity;
   * returns dst afterwards. NULL: this builder cannot. */
  GmVal (*set) (GmBuilder *b, GmVal dst, GmVal src);
  /* Returns the symbolic sizes that metas of this builder may have (borrowed). A NULL member or
   * result: all sizes are numbers. */
  GmSizes *(*sizes) (GmBuilder *b);
  /* Reads the single element of v, an i64 that is not negative, as a size. NULL: `item` reads the
   * size. */
  bool (*count) (GmBuilder *b, GmVal v, int64_t *out);
  /* Returns the number of elements of v's storage before v's first. NULL: the builder does not
   * know. */
  int64_t (*offset) (GmBuilder *b, GmVal v);
  /* Returns the tensor without gaps that v is a part of, with v's gradient history or without any;
   * *offset: number of its elements, in memory, before v's first. NULL: there is no such tensor. */
  GmVal (*around) (GmBuilder *b, GmVal v, int64_t *offset);
  /* Returns v's elements, and the elements behind v's in its memory, in a row-major shape; the
   * memory grows if necessary. NULL: this builder cannot. */
  GmVal (*resized) (GmBuilder *b, GmVal v, int n, const int64_t *sizes);
} GmBuilderVtable;

/* Marks of a node in a gradient that the program defines: the function that made the node, if the
 * op does not tell. OUTSIDE_RUNTIME: a function with R in api.def, so that an index out of bounds
 * is a RuntimeError. RESHAPE: a view if strides allow it, else a copy. CONTIGUOUS: the operand
 * itself if it is contiguous. */
typedef enum {
  GM_MARK_OUTSIDE_RUNTIME = 1,
  GM_MARK_RESHAPE = 2,
  GM_MARK_CONTIGUOUS = 4
} GmNodeMark;
enum { GM_N_NODE_MARKS = 3 };

struct GmBuilder {
  const GmBuilderVtable *vt;
  GError *error;    /* the first error; owned by the builder */
  uint8_t autocast; /* dtypes to which functions of api.def cast: gm_autocast_mode */
  bool outside;     /* true: the error is about an index among a tensor's elements */
  bool masked;      /* true: the error is about a size that the elements of a mask decide */
  bool gradient; /* a gradient that the program defines is being recorded, whose incoming gradients
                    may have other strides: nodes are marked */
  uint8_t marks; /* GmNodeMark of the nodes that are recorded */
  bool refuses_draws; /* functions that draw random numbers fail: gm_draws_refused */
  uint8_t device;     /* the device of tensors that functions of api.def make; 0: the CPU */
  GmVal generator; /* the generator of the call, an i64[2], seed and next draw; NULL: the process's
                      generator */
};

/* Sets the sticky error if there is none yet; returns NULL, so that `return gm_b_fail (...)` works.
 */
GmVal gm_b_fail (GmBuilder *b, GmError code, const char *format, ...) G_GNUC_PRINTF (3, 4);
#define gm_b_failed(b) ((b)->error != NULL)
/* Returns the sizes with which the builder's metas are read (gm_sizes_enter); NULL: all are
 * numbers. */
static inline GmSizes *
gm_b_sizes (GmBuilder *b)
{
  return b->vt->sizes ? b->vt->sizes (b) : NULL;
}

GmVal gm_b_op (GmBuilder *b, GmOp op, const GmVal *in, int n_in, const GmAttrs *attrs);
/* Applies an op without attributes: gm_b (b, mul, x, y) */
#define gm_b(b, name, ...)                                                                         \
  gm_b_op ((b), GM_OP_##name, (const GmVal[]){ __VA_ARGS__ },                                      \
           sizeof ((const GmVal[]){ __VA_ARGS__ }) / sizeof (GmVal), NULL)
GmVal gm_b_set (GmBuilder *b, GmVal dst, GmVal src);
const GmMeta *gm_b_meta (GmBuilder *b, GmVal v); /* a zero meta for NULL */

/* True if `dtype` holds s, as gm_scalar_fits tests; for an expression this becomes a fact. Else
 * sets the sticky error. */
bool gm_b_fits (GmBuilder *b, GmScalar s, GmDtype dtype);

/* Small programs that are used everywhere. Each returns its input unchanged when there is nothing
 * to do. */
GmVal gm_b_scalar (GmBuilder *b, GmScalar s,
                   GmDtype dtype); /* 0-d `full`, of the CPU: a number goes with every device */
GmVal gm_b_full (GmBuilder *b, GmScalar s, GmDtype dtype, int ndim,
                 const int64_t *sizes); /* on b->device */
/* gm_b_full_beside returns a `full` on the device of `like`, gm_b_full_like one of the shape and
 * device of `like`. */
GmVal gm_b_full_beside (GmBuilder *b, GmScalar s, GmDtype dtype, int ndim, const int64_t *sizes,
                        GmVal like);
GmVal gm_b_full_like (GmBuilder *b, GmScalar s, GmDtype dtype, const GmMeta *like);
/* Stores the builder's device in the attributes of an op that makes a tensor. */
void gm_b_attrs_device (const GmBuilder *b, GmAttrs *attrs);
GmVal gm_b_zeros_like (GmBuilder *b, GmVal v);
GmVal gm_b_cast (GmBuilder *b, GmVal v, GmDtype dtype);
GmVal gm_b_bitcast (GmBuilder *b, GmVal v,
                    GmDtype dtype); /* a view of the bytes as elements of another dtype */
GmVal gm_b_permute (GmBuilder *b, GmVal v, const int64_t *dims);
GmVal gm_b_transpose (GmBuilder *b, GmVal v, int dim0,
                      int dim1); /* negative dims count from the end */
GmVal gm_b_expand (GmBuilder *b, GmVal v, int ndim, const int64_t *sizes);
GmVal gm_b_view (GmBuilder *b, GmVal v, int ndim,
                 const int64_t *sizes); /* error if a copy were needed */
/* Returns another tensor of the same elements: a view that keeps shape and strides. */
GmVal gm_b_alias (GmBuilder *b, GmVal v);
GmVal gm_b_reshape (GmBuilder *b, GmVal v, int ndim,
                    const int64_t *sizes); /* view, or copy and view */
GmVal gm_b_contiguous (GmBuilder *b, GmVal v);
GmVal gm_b_slice (GmBuilder *b, GmVal v, int dim, int64_t start, int64_t stop, int64_t step);
/* Returns v, which has no gaps, with a single dimension in the order of memory. */
GmVal gm_b_flat (GmBuilder *b, GmVal v);
/* Returns elements of `flat` (one dimension) from `offset` on, with the sizes and strides of
 * `want`, as a chain of views (strided.c). Fails with GM_ERROR_UNSUPPORTED where strides are
 * negative or the result is not inside of `flat`. */
GmVal gm_b_strided (GmBuilder *b, GmVal flat, int64_t offset, const GmMeta *want);
/* Return the view of a diagonal, `start` >= 0 beside the main one, and the view of windows. */
GmVal gm_b_diagonal (GmBuilder *b, GmVal v, int row, int column, int64_t start);
GmVal gm_b_unfold (GmBuilder *b, GmVal v, int dim, int64_t window, int64_t step);
/* Returns `into` with src written at the positions of the view `op` (diagonal, or unfold whose
 * windows do not overlap), as slices and joins (embed.c). */
GmVal gm_b_embed (GmBuilder *b, GmOp op, const GmAttrs *attrs, GmVal into, GmVal src);
/* Returns `into` with src, the elements of its windows, added at the windows' positions. */
GmVal gm_b_add_windows (GmBuilder *b, const GmAttrs *attrs, GmVal into, GmVal src);
bool gm_windows_overlap (const GmAttrs *attrs);
/* Returns n elements, first, first + step ..., on b->device. */
GmVal gm_b_sequence (GmBuilder *b, GmScalar first, GmScalar step, int64_t n, GmDtype dtype);
GmVal gm_b_arange (GmBuilder *b, int64_t first, int64_t step, int64_t n, GmDtype dtype);
GmVal gm_b_reduce (GmBuilder *b, GmOp op, GmVal v, const int64_t *dims, int n_dims, bool keepdim);
/* Sums v so that its shape is `shape`'s: the inverse of broadcasting. */
GmVal gm_b_sum_to (GmBuilder *b, GmVal v, int ndim, const int64_t *sizes);

/* Reads a number of elements that depends on data, as a size: an expression if the builder cannot
 * know it yet (api_counted.c). */
bool gm_b_count (GmBuilder *b, GmVal v, int64_t *out);

/* -- Gradients (gradients.c) ------------------------------------------------------------------- */

/* Arguments and results of one op's backward. in[i] and out may be NULL where gm_op_saves says that
 * the value is not needed; metas are always there. */
typedef struct {
  GmBuilder *b;
  GmOp op;
  int n_in;
  const GmVal *in;
  GmVal out;
  const GmMeta *const *in_meta;
  const GmMeta *out_meta;
  const GmAttrs *attrs;
  GmVal grad;       /* gradient of the result, same shape and dtype */
  const bool *need; /* per input: its gradient is wanted */
  GmVal *result;    /* per input; NULL: no gradient */
} GmGradient;

void gm_op_gradient (GmGradient *x);
/* Returns the values that the gradient reads for the inputs in `need_mask`: bit i = input i,
 * GM_SAVES_OUT = the result. Computed once for each op and mask, by running the gradient on a
 * builder that only records which values are read, so it cannot disagree with the table. Thread:
 * any. */
#define GM_SAVES_OUT (1u << 31)
uint32_t gm_op_saves (GmOp op, int n_in, uint32_t need_mask);
bool gm_op_is_differentiable (GmOp op, int input);

#endif
