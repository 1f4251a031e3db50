/* SPDX-License-Identifier: Apache-2.0
 * api_private.h -- declarations for the rows' functions (api_*.c).
 *
 * A row's function is RUN (name): `api` is the row, `b` the builder, `a` the arguments in signature
 * order. Macros such as TENSOR read an argument, and set the builder's sticky error, in torch's
 * words, if it is of the wrong kind.
 */
#ifndef GM_API_API_PRIVATE_H
#define GM_API_API_PRIVATE_H

#include "core/api/api.h"

#include <string.h>

#define RUN(name) GmArg gm_run_##name (const GmApi *api, GmBuilder *b, GmArg *a)
#define API(name, run, ...) GmArg gm_run_##run (const GmApi *api, GmBuilder *b, GmArg *a);
#include "core/api/api.def"

/* Values of the hidden last argument of every call. FRESH: the result is a new value. INPLACE: the
 * result is to be written into argument 0. INPLACE_DONE: the row's function has written it. */
enum { GM_CALL_FRESH, GM_CALL_INPLACE, GM_CALL_INPLACE_DONE };
#define GM_CALL_MODE(a) ((a)[GM_API_MAX_ARGS].i)

/* Writes all results in *result into `out`, a tensor or a list of as many, as out= of any function
 * does; *result becomes what out is afterwards. For rows whose signature has an argument `out`
 * (api.c). */
void gm_api_put_out (const GmApi *api, GmBuilder *b, const GmArg *out, GmArg *result);

/* -- Reading arguments (api_args.c) ------------------------------------------------------------ */
GmVal gm_arg_tensor (const GmApi *api, GmBuilder *b, const GmArg *a, int i);
int64_t gm_arg_int (const GmApi *api, GmBuilder *b, const GmArg *a, int i);
double gm_arg_float (const GmApi *api, GmBuilder *b, const GmArg *a, int i);
bool gm_arg_bool (const GmApi *api, GmBuilder *b, const GmArg *a, int i);
const char *gm_arg_str (const GmApi *api, GmBuilder *b, const GmArg *a, int i);
GmScalar gm_arg_scalar (const GmApi *api, GmBuilder *b, const GmArg *a, int i);
GmDtype gm_arg_dtype (const GmApi *api, GmBuilder *b, const GmArg *a, int i, GmDtype or_else);
/* Reads one int or a list of ints, at most GM_MAX_DIMS. Returns their number, 0 after an error. */
int gm_arg_ints (const GmApi *api, GmBuilder *b, const GmArg *a, int i, int64_t out[GM_MAX_DIMS]);
/* Returns the n tensors of argument i, a list; NULL after an error. The caller frees the array. */
GmVal *gm_arg_tensors (const GmApi *api, GmBuilder *b, const GmArg *a, int i, int *n);
/* Reads argument i as a dimension, which counts from the end if negative; returns it in [0, ndim).
 * 0-d tensors have a dimension 0. */
int gm_arg_dim (const GmApi *api, GmBuilder *b, const GmArg *a, int i, int ndim);
/* Reads dimensions, sorted, without repeats. None or () means all: *n is 0 then. */
void gm_arg_dims (const GmApi *api, GmBuilder *b, const GmArg *a, int i, int ndim,
                  int64_t out[GM_MAX_DIMS], int *n);
/* Returns the value of an argument of kind ELEMENT. The recording then serves only calls in which
 * the argument has this value. 0 after an error. */
double gm_arg_settled (GmBuilder *b, const GmArg *a);
bool gm_arg_is_number (const GmArg *a);
const char *gm_arg_kind_name (const GmArg *a);
GmVal gm_arg_fail (const GmApi *api, GmBuilder *b, const GmArg *a, int i, const char *wanted);
int gm_wrap_dim (const GmApi *api, GmBuilder *b, int64_t dim, int ndim);

/* Returns argument 0, a tensor, to compute with. It is a copy if the call writes over the tensor
 * (as a method's in-place form, or because argument inplace_at is true; < 0: there is none) while a
 * gradient is recorded, which may read the old elements later. NULL after an error. */
GmVal gm_arg_spared (const GmApi *api, GmBuilder *b, const GmArg *a, int inplace_at);

#define TENSOR(i) gm_arg_tensor (api, b, a, (i))
#define INT(i) gm_arg_int (api, b, a, (i))
#define FLOAT(i) gm_arg_float (api, b, a, (i))
#define FLAG(i) gm_arg_bool (api, b, a, (i))
#define STR(i) gm_arg_str (api, b, a, (i))
#define SCALAR(i) gm_arg_scalar (api, b, a, (i))
#define IS_NONE(i) (a[i].kind == GM_ARG_NONE || a[i].kind == GM_ARG_ABSENT)
#define OPTIONAL_TENSOR(i) (IS_NONE (i) ? NULL : TENSOR (i))
#define META(v) gm_b_meta (b, (v))
#define BIT(key) (1u << GM_ATTR_##key)
/* Returns from the row's function after an error. Needed only where the code behind would read
 * NULL. */
#define CHECK()                                                                                    \
  do {                                                                                             \
    if (gm_b_failed (b))                                                                           \
      return (GmArg){ .kind = GM_ARG_NONE };                                                       \
  } while (0)

/* -- Results ----------------------------------------------------------------------------------- */
static inline GmArg
gm_give (GmVal v)
{
  return (GmArg){ .kind = v ? GM_ARG_TENSOR : GM_ARG_NONE, .v = v };
}
GmArg gm_give_list (const GmVal *v, int n, bool tuple, const char *fields);
static inline GmArg
gm_tensor_arg (GmVal v)
{
  return (GmArg){ .kind = GM_ARG_TENSOR, .v = v };
}
static inline GmArg
gm_float_arg (double d)
{
  return (GmArg){ .kind = GM_ARG_FLOAT, .d = d };
}

/* Returns the number of elements n as an argument to compute with: a float, as torch converts it,
 * or an expression. */
static inline GmArg
gm_count_arg (int64_t n)
{
  return gm_size_is_symbolic (n) ? (GmArg){ .kind = GM_ARG_INT, .i = n }
                                 : gm_float_arg ((double) n);
}

/* -- Promotion (api_promote.c) ----------------------------------------------------------------- */
/* Returns torch's result_type of tensors and numbers: dimensioned tensors take precedence over 0-d
 * tensors, and these over numbers, within a category. */
GmDtype gm_result_type (GmBuilder *b, const GmArg *x, int n);
/* Returns x as a tensor of `dtype`: a tensor cast, or a number made a 0-d tensor. */
GmVal gm_as_dtype (GmBuilder *b, const GmArg *x, GmDtype dtype);
/* Returns the number x as a scalar of its kind. x is not of kind ELEMENT. */
GmScalar gm_arg_number (const GmArg *x);
/* True if x is no number, or a number that `dtype` holds (gm_b_fits); else sets torch's error. */
bool gm_number_fits (GmBuilder *b, const GmArg *x, GmDtype dtype);
/* True if an operation on `dtype` can compute with the number x, as gm_number_fits, but every
 * number of f32 fits the halves; else sets torch's error. */
bool gm_factor_fits (GmBuilder *b, const GmArg *x, GmDtype dtype);
/* Returns the number x as operations on `dtype` use it: for integers, a float is cut to a whole
 * number; for bools, true if it is not 0. Sets an error as gm_factor_fits does. */
GmArg gm_factor (GmBuilder *b, const GmArg *x, GmDtype dtype);
/* True if dtype holds the number; else sets a RuntimeError. */
bool gm_arg_fits (GmBuilder *b, const GmArg *x, GmDtype dtype);
/* Returns x as a tensor of `dtype` as gm_as_dtype does, for a number that is stored and not
 * computed with: RuntimeError if dtype does not hold it. */
GmVal gm_value_as (GmBuilder *b, const GmArg *x, GmDtype dtype);
/* Returns a copy of x that requires every element of ok, a bool tensor, to be true: else the error
 * of the condition. */
GmVal gm_require (GmBuilder *b, GmVal x, GmVal ok, GmCondition which);
/* Returns a copy of x that requires low <= v <= high for all elements of v (NaN is outside), with
 * the error of the condition else; x itself if v has no elements. v may be x. */
GmVal gm_require_between (GmBuilder *b, GmVal x, GmVal v, double low, double high,
                          GmCondition which);
/* Checks, where x / y is a division of integers, that the divisor y has no 0: a number at once, a
 * tensor, or a number that only the run knows, when its elements are known (*y becomes the checked
 * value, which the caller must use). Else RuntimeError, "ZeroDivisionError", as in torch. */
void gm_check_divisor (GmBuilder *b, const GmArg *x, GmArg *y);
/* gm_widen casts v to the dtype in which its dtype is computed, gm_narrow a result back to the
 * tensor's own: an operation that is one kernel in torch is rounded once for f16 and bf16, though
 * it is several ops here. For every other dtype both return v itself. */
GmVal gm_widen (GmBuilder *b, GmVal v);
GmVal gm_narrow (GmBuilder *b, GmVal v, GmDtype own);
/* Applies a POINTWISE op to tensors and numbers with torch's promotion; the result is written into
 * x[0] if the call is in place. */
GmArg gm_pointwise (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op, const GmArg *x, int n);
/* Applies a POINTWISE op as gm_pointwise does, but never in place; for programs of several ops. */
GmVal gm_apply (GmBuilder *b, GmOp op, const GmArg *x, int n);
#define gm_apply1(b, op, x) gm_apply ((b), GM_OP_##op, (const GmArg[]){ gm_tensor_arg (x) }, 1)
#define gm_apply2(b, op, x, y)                                                                     \
  gm_apply ((b), GM_OP_##op, (const GmArg[]){ gm_tensor_arg (x), gm_tensor_arg (y) }, 2)
/* Apply an op to a tensor and a Python number; the number is the second or the first operand. */
#define gm_apply_num(b, op, x, d)                                                                  \
  gm_apply ((b), GM_OP_##op, (const GmArg[]){ gm_tensor_arg (x), gm_float_arg (d) }, 2)
#define gm_num_apply(b, op, d, x)                                                                  \
  gm_apply ((b), GM_OP_##op, (const GmArg[]){ gm_float_arg (d), gm_tensor_arg (x) }, 2)

/* -- Autocast (autocast.c) --------------------------------------------------------------------- */
GmAutocast gm_autocast_policy (const char *name);
/* Casts the bound arguments of a row that has a policy; b->autocast is set. */
void gm_autocast_args (const GmApi *api, GmBuilder *b, GmArg *args);

/* -- Programs that several files use ----------------------------------------------------------- */
GmVal gm_mean (GmBuilder *b, GmVal v, const int64_t *dims, int n, bool keepdim); /* api_reduce.c */
GmVal gm_sqrt_safe (GmBuilder *b, GmVal v); /* slope 0, not infinite, where v is 0 */
GmVal gm_norm (GmBuilder *b, GmVal v, double p, const int64_t *dims, int n, bool keepdim);
GmVal gm_softmax (GmBuilder *b, GmVal v, int dim, bool log);
GmVal gm_arg_extremum (GmBuilder *b, GmOp op, GmVal v, int dim,
                       bool keepdim);                /* dim < 0: of all elements */
GmVal gm_squeeze (GmBuilder *b, GmVal v, int dim);   /* api_shape.c */
GmVal gm_unsqueeze (GmBuilder *b, GmVal v, int dim); /* dim in [0, ndim] */
GmVal gm_cat (GmBuilder *b, const GmVal *v, int n, int dim);
GmVal gm_gather (GmBuilder *b, GmVal v, int dim, GmVal index); /* api_index.c */
GmVal gm_index_select (GmBuilder *b, GmVal v, int dim, GmVal index);
/* n >= 2 numbers of f64 at equal distance from `from` to `to`.  The second half counts down from
 * the end, so that the end is exact. */
GmVal gm_between (GmBuilder *b, double from, double to, int64_t n);             /* api_create.c */
GmVal gm_uniform (GmBuilder *b, GmDtype dtype, int ndim, const int64_t *sizes); /* api_random.c */
GmVal gm_dropout (GmBuilder *b, GmVal v, double p);
GmVal gm_lower_mask (GmBuilder *b, int64_t rows, int64_t cols, int64_t diagonal); /* api_index.c */
GmVal gm_matmul (const GmApi *api, GmBuilder *b, GmVal x, GmVal y);               /* api_linalg.c */
/* Returns x where the mask holds, else y, promoted. */
GmVal gm_pick (GmBuilder *b, GmVal mask, GmArg x, GmArg y); /* api_pointwise.c */
/* Returns the elements [from, to) of dim: a view. */
static inline GmVal
gm_cut (GmBuilder *b, GmVal v, int dim, int64_t from, int64_t to)
{
  return gm_b_slice (b, v, dim, from, to, 1);
}
GmVal *gm_join_inputs (const GmApi *api, GmBuilder *b, const GmArg *a, int *n); /* api_shape.c */
GmVal gm_reversed (GmBuilder *b, GmVal v, int dim);
/* Returns the diagonal of each matrix in d1 and d2, as the last dimension: a view. */
GmVal gm_diagonal (GmBuilder *b, GmVal v, int64_t offset, int d1, int d2);
/* Finds the places where a bool mask is True, as index tensors, one for each of its dimensions;
 * returns their number (api_counted.c). */
/* True if no two elements of v share memory, so that elements can be copied into v; else sets the
 * sticky error. (A fill does not need this.) */
bool gm_check_apart (GmBuilder *b, GmVal v);
int gm_mask_places (GmBuilder *b, GmVal mask, GmVal out[GM_MAX_DIMS]);
GmVal gm_at_least (GmBuilder *b, GmVal v,
                   int ndim); /* leading dimensions of size 1; api_arrange.c */
/* Returns argument i, an integer tensor, as int64; NULL after an error. */
GmVal gm_index_arg (const GmApi *api, GmBuilder *b, const GmArg *a, int i); /* api_index.c */
GmVal gm_argsort (GmBuilder *b, GmVal v, int dim, bool descending);
/* Returns beta (argument 3) times argument 0, plus alpha (argument 4) times the product p. */
GmArg gm_add_product (const GmApi *api, GmBuilder *b, GmArg *a, GmVal p); /* api_linalg.c */
/* Reads argument i, a number for all `space` dimensions or one for each, into `out`; sets an error
 * for a number below `least`. */
void gm_arg_numbers (const GmApi *api, GmBuilder *b, const GmArg *a, int i, int space, int64_t *out,
                     int64_t least); /* api_conv.c */
/* Returns x with zeros before and after dim; a negative width removes elements. */
GmVal gm_pad_zeros (GmBuilder *b, GmVal x, int dim, int64_t before, int64_t after);
/* Returns exp (t^2) erfc (t) of f64 from 0.46875 on; api_special.c. */
GmVal gm_scaled_tail (GmBuilder *b, GmVal t);
GmVal gm_log1p_exp (GmBuilder *b, GmVal v); /* returns log (1 + exp (v)), accurate on both sides of
                                             * 0; api_activation.c */
/* Returns v reduced by the mode in argument `at` (or by the older pair of arguments from average_at
 * on; < 0: there is none). */
GmVal gm_reduce_loss (const GmApi *api, GmBuilder *b, const GmArg *a, GmVal v, int at,
                      int average_at); /* api_loss.c */
/* gm_scatter_add returns a copy of `into` with src added, gm_scatter_replace a copy with src
 * written (the last of equal indices is kept), at index along dim; all have the same rank;
 * api_scatter.c */
GmVal gm_scatter_add (GmBuilder *b, GmVal into, int dim, GmVal index, GmVal src);
GmVal gm_scatter_replace (GmBuilder *b, GmVal x, int dim, GmVal index, GmVal src);
GmVal gm_log_add (GmBuilder *b, GmVal x, GmVal y);        /* api_math.c */
GmVal gm_clamp_min (GmBuilder *b, GmVal v, double least); /* api_pointwise.c */

#endif
