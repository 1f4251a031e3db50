/* SPDX-License-Identifier: Apache-2.0
 * api_create.c -- new tensors from numbers, copies, casts, and the writes that fill.
 */
#include "core/api/api_private.h"
#include "core/tensor/device.h"

#include <math.h>

#define FMT "%" G_GINT64_FORMAT

static GmArg
int_arg (int64_t i)
{
  return (GmArg){ .kind = GM_ARG_INT, .i = i };
}

/* Returns a tensor of this shape in which every element is the number, which d must hold. */
static GmVal
full_of (GmBuilder *b, const GmArg *value, GmDtype d, int n, const int64_t *sizes)
{
  if (value->kind != GM_ARG_ELEMENT)
    return gm_b_full (b, gm_arg_number (value), d, n, sizes);
  if (b->device != GM_DEVICE_CPU) /* the device of the result is not the element's */
    return gm_b_full (b, gm_scalar_float (gm_arg_settled (b, value)), d, n, sizes);
  GmVal all = gm_b_expand (b, gm_as_dtype (b, value, d), n, sizes);
  return all ? gm_b_op (b, GM_OP_copy, &all, 1, NULL) : NULL;
}

/* True if dtype d holds the number for all of these elements; else sets an error. A 16-bit dtype
 * accepts any number for a single element, and rounds it, also to infinity: torch checks only where
 * it fills more elements. */
static bool
fill_fits (GmBuilder *b, const GmArg *value, GmDtype d, int n, const int64_t *sizes)
{
  int64_t numel = 1;
  if (gm_dtypes[d].bits == 16 && gm_dtype_is_float (d)) {
    for (int i = 0; i < n; i++)
      numel = gm_size_mul (numel, sizes[i]);
    if (gm_size_eq (numel, 1))
      return !gm_b_failed (b);
  }
  return gm_arg_fits (b, value, d);
}

static GmVal
filled (const GmApi *api, GmBuilder *b, const GmArg *value, GmDtype d, int n, const int64_t *sizes)
{
  for (int i = 0; i < n; i++)
    if (gm_size_lt (sizes[i], 0))
      return gm_b_fail (b, GM_ERROR_RUNTIME,
                        "%s(): cannot create a tensor with negative dimension " FMT, api->name,
                        gm_size_number (sizes[i]));
  return fill_fits (b, value, d, n, sizes) ? full_of (b, value, d, n, sizes) : NULL;
}

static GmArg
run_sized (const GmApi *api, GmBuilder *b, GmArg *a, int value)
{
  int64_t sizes[GM_MAX_DIMS];
  int n = gm_arg_ints (api, b, a, 0, sizes);
  GmDtype d = gm_arg_dtype (api, b, a, 1, gm_default_dtype ());
  CHECK ();
  return gm_give (filled (api, b, (const GmArg[]){ int_arg (value) }, d, n, sizes));
}

RUN (zeros)
{
  return run_sized (api, b, a, 0);
}
RUN (ones)
{
  return run_sized (api, b, a, 1);
}

/* Returns argument i, the number to fill with; an argument that is no number is read as SCALAR
 * does, which may set an error. */
static GmArg
fill_value (const GmApi *api, GmBuilder *b, const GmArg *a, int i)
{
  if (gm_arg_is_number (&a[i]))
    return a[i];
  GmScalar s = SCALAR (i);
  return s.kind == GM_CATEGORY_FLOAT
             ? gm_float_arg (s.d)
             : (GmArg){ .kind = s.kind == GM_CATEGORY_BOOL ? GM_ARG_BOOL : GM_ARG_INT, .i = s.i };
}

/* Returns the dtype of a fill value: bool, int64, or the default dtype for floats. */
static GmDtype
dtype_of (const GmArg *value)
{
  return value->kind == GM_ARG_BOOL  ? GM_BOOL
         : value->kind == GM_ARG_INT ? GM_I64
                                     : gm_default_dtype ();
}

RUN (full)
{
  int64_t sizes[GM_MAX_DIMS];
  int n = gm_arg_ints (api, b, a, 0, sizes);
  GmArg value = fill_value (api, b, a, 1);
  GmDtype d = gm_arg_dtype (api, b, a, 2, dtype_of (&value));
  CHECK ();
  return gm_give (filled (api, b, &value, d, n, sizes));
}

static GmArg
run_like (const GmApi *api, GmBuilder *b, GmArg *a, GmArg value, int dtype_at)
{
  GmVal v = TENSOR (0);
  CHECK ();
  const GmMeta *m = META (v);
  GmDtype d = gm_arg_dtype (api, b, a, dtype_at, (GmDtype) m->dtype);
  CHECK ();
  bool fits = fill_fits (b, &value, d, m->ndim, m->sizes);
  return gm_give (fits ? full_of (b, &value, d, m->ndim, m->sizes) : NULL);
}

RUN (zeros_like)
{
  return run_like (api, b, a, int_arg (0), 1);
}
RUN (ones_like)
{
  return run_like (api, b, a, int_arg (1), 1);
}
RUN (full_like)
{
  return run_like (api, b, a, fill_value (api, b, a, 1), 2);
}

static GmArg
run_new (const GmApi *api, GmBuilder *b, GmArg *a, GmArg value, int dtype_at)
{
  int64_t sizes[GM_MAX_DIMS];
  GmVal v = TENSOR (0);
  CHECK ();
  int n = gm_arg_ints (api, b, a, 1, sizes);
  GmDtype d = gm_arg_dtype (api, b, a, dtype_at, (GmDtype) META (v)->dtype);
  CHECK ();
  return gm_give (filled (api, b, &value, d, n, sizes));
}

RUN (new_zeros)
{
  return run_new (api, b, a, int_arg (0), 2);
}
RUN (new_ones)
{
  return run_new (api, b, a, int_arg (1), 2);
}
RUN (new_full)
{
  return run_new (api, b, a, fill_value (api, b, a, 2), 3);
}

/* -- Sequences --------------------------------------------------------------------------------- */

/* Returns arange () of integers of which some are expressions. */
static GmArg
symbolic_arange (GmBuilder *b, int64_t start, int64_t end, int64_t step, GmDtype d)
{
  step = gm_size_number (step);
  if (step == 0)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "arange(): step must be nonzero"));
  if (step > 0 ? gm_size_lt (end, start) : gm_size_lt (start, end))
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME, "arange(): upper bound and lower bound inconsistent with step sign"));
  int64_t span = step > 0 ? gm_size_sub (end, start) : gm_size_sub (start, end), by = ABS (step);
  int64_t n = by == 1 ? span : gm_size_floordiv (gm_size_add (span, by - 1), by);
  return gm_give (gm_b_sequence (b, gm_scalar_int (start), gm_scalar_int (step), n, d));
}

RUN (arange)
{
  GmScalar start = SCALAR (0), end = start, step = SCALAR (2);
  if (IS_NONE (1))
    start = gm_scalar_int (0);
  else
    end = SCALAR (1);
  bool whole = start.kind != GM_CATEGORY_FLOAT && end.kind != GM_CATEGORY_FLOAT
               && step.kind != GM_CATEGORY_FLOAT;
  GmDtype d = gm_arg_dtype (api, b, a, 3, whole ? GM_I64 : gm_default_dtype ());
  CHECK ();
  if (gm_size_is_symbolic (start.i) || gm_size_is_symbolic (end.i)
      || gm_size_is_symbolic (step.i)) {
    if (whole && gm_sizes_current ())
      return symbolic_arange (b, start.i, end.i, step.i, d);
  }
  double from = gm_scalar_as_double (start), to = gm_scalar_as_double (end),
         by = gm_scalar_as_double (step);
  if (by == 0)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "arange(): step must be nonzero"));
  if ((by > 0 && to < from) || (by < 0 && to > from))
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME, "arange(): upper bound and lower bound inconsistent with step sign"));
  int64_t n;
  if (whole)
    n = (end.i - start.i + (step.i > 0 ? step.i - 1 : step.i + 1)) / step.i;
  else {
    double count = ceil ((to - from) / by);
    if (!(count >= 0 && count < 9e15))
      return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "arange(): unsupported range: %g to %g by %g",
                                 from, to, by));
    n = (int64_t) count;
  }
  if (gm_dtype_is_float (d)) {
    start = gm_scalar_float (from);
    step = gm_scalar_float (by);
  } else {
    start = gm_scalar_int (gm_scalar_as_int (start));
    step = gm_scalar_int (gm_scalar_as_int (step));
  }
  return gm_give (gm_b_sequence (b, start, step, n, d));
}

GmVal
gm_between (GmBuilder *b, double from, double to, int64_t n)
{
  int64_t low = gm_size_floordiv (n, 2), high = gm_size_sub (n, low);
  GmVal up = gm_b_arange (b, 0, 1, low, GM_F64),
        back = gm_b_arange (b, gm_size_sub (high, 1), -1, high, GM_F64);
  if (gm_size_is_symbolic (n)) {
    GmVal step = gm_num_apply (b, div, to - from,
                               gm_b_scalar (b, gm_scalar_int (gm_size_sub (n, 1)), GM_F64));
    up = gm_b (b, mul, up, step);
    back = gm_b (b, mul, back, step);
  } else {
    double step = (to - from) / (double) (n - 1);
    up = gm_apply_num (b, mul, up, step);
    back = gm_apply_num (b, mul, back, step);
  }
  GmVal parts[] = { gm_apply_num (b, add, up, from), gm_num_apply (b, sub, to, back) };
  return gm_cat (b, parts, 2, 0);
}

RUN (linspace)
{
  double from = FLOAT (0), to = FLOAT (1);
  int64_t n = INT (2);
  GmDtype d = gm_arg_dtype (api, b, a, 3, gm_default_dtype ());
  CHECK ();
  if (d == GM_BOOL)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "linspace(): is not implemented for bool"));
  if (!gm_number_fits (b, &a[0], d) || !gm_number_fits (b, &a[1], d))
    return gm_give (NULL);
  if (gm_size_lt (n, 0))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "linspace(): number of steps must be non-negative, not " FMT,
                               gm_size_number (n)));
  if (gm_size_lt (n, 2))
    return gm_give (gm_b_full (b, gm_scalar_float (from), d, 1, &n));
  return gm_give (gm_b_cast (b, gm_between (b, from, to, n), d));
}

RUN (eye)
{
  int64_t n = INT (0), m = IS_NONE (1) ? n : INT (1);
  GmDtype d = gm_arg_dtype (api, b, a, 2, gm_default_dtype ());
  CHECK ();
  if (gm_size_lt (n, 0) || gm_size_lt (m, 0))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "eye(): n and m must not be negative, but are " FMT " and " FMT, n,
                               m));
  GmVal hit = gm_b (b, eq, gm_unsqueeze (b, gm_b_arange (b, 0, 1, n, GM_I64), 1),
                    gm_b_arange (b, 0, 1, m, GM_I64));
  return gm_give (gm_b_cast (b, hit, d));
}

/* -- Copies and casts -------------------------------------------------------------------------- */

RUN (clone)
{
  GmVal v = TENSOR (0);
  CHECK ();
  return gm_give (gm_b (b, copy, v));
}

RUN (detach)
{
  GmVal v = TENSOR (0);
  CHECK ();
  return gm_give (gm_b (b, detach, v));
}

RUN (identity)
{
  return gm_give (TENSOR (0));
}

/* Sets an error if the argument x of to () asks for a device that the row does not handle. */
static void
check_device (const GmApi *api, GmBuilder *b, const GmArg *x, GmVal v)
{
  int device;
  if (x->kind == GM_ARG_NONE
      || (x->kind == GM_ARG_STR && gm_device_find (x->s, &device) && device == META (v)->device))
    return;
  gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): a copy from device '%s' to %s is no part of a graph",
             api->name, gm_device_name (META (v)->device),
             x->kind == GM_ARG_STR ? x->s : gm_arg_kind_name (x));
}

RUN (to)
{
  GmVal v = TENSOR (0);
  CHECK ();
  GmDtype d = gm_arg_dtype (api, b, a, 2, (GmDtype) META (v)->dtype);
  check_device (api, b, &a[3], v);
  bool copy = FLAG (5);
  for (int i = 0; i < a[1].n; i++) {
    const GmArg *x = &a[1].items[i];
    if (x->kind == GM_ARG_DTYPE)
      d = x->dtype;
    else if (x->kind == GM_ARG_TENSOR)
      d = (GmDtype) META (x->v)->dtype;
    else if (x->kind != GM_ARG_BOOL) /* non_blocking, copy by place: nothing to wait for */
      check_device (api, b, x, v);
  }
  CHECK ();
  return gm_give (copy && META (v)->dtype == d ? gm_b (b, copy, v) : gm_b_cast (b, v, d));
}

RUN (type_as)
{
  GmVal v = TENSOR (0), other = TENSOR (1);
  CHECK ();
  return gm_give (gm_b_cast (b, v, (GmDtype) META (other)->dtype));
}

static GmArg
run_cast (const GmApi *api, GmBuilder *b, GmArg *a, GmDtype d)
{
  GmVal v = TENSOR (0);
  CHECK ();
  return gm_give (gm_b_cast (b, v, d));
}

RUN (to_float32)
{
  return run_cast (api, b, a, GM_F32);
}
RUN (to_float64)
{
  return run_cast (api, b, a, GM_F64);
}
RUN (to_float16)
{
  return run_cast (api, b, a, GM_F16);
}
RUN (to_bfloat16)
{
  return run_cast (api, b, a, GM_BF16);
}
RUN (to_int64)
{
  return run_cast (api, b, a, GM_I64);
}
RUN (to_int32)
{
  return run_cast (api, b, a, GM_I32);
}
RUN (to_int16)
{
  return run_cast (api, b, a, GM_I16);
}
RUN (to_int8)
{
  return run_cast (api, b, a, GM_I8);
}
RUN (to_uint8)
{
  return run_cast (api, b, a, GM_U8);
}
RUN (to_bool)
{
  return run_cast (api, b, a, GM_BOOL);
}

/* -- Writes ------------------------------------------------------------------------------------ */

static GmArg
write_into (GmBuilder *b, GmVal dst, GmVal src)
{
  CHECK ();
  return gm_give (b->vt->into (b, dst, GM_OP_copy, &src, 1, NULL));
}

bool
gm_check_apart (GmBuilder *b, GmVal v)
{
  if (gm_b_failed (b) || !gm_meta_overlaps_itself (META (v)))
    return !gm_b_failed (b);
  g_autofree char *text = gm_meta_text (META (v));
  gm_b_fail (
      b, GM_ERROR_RUNTIME,
      "unsupported operation: more than one element of the written-to tensor refers to a single "
      "memory location. "
      "Please clone() the tensor before performing the operation (%s, expanded or made of windows)",
      text);
  return false;
}

RUN (copy_)
{
  GmVal dst = TENSOR (0);
  if (!gm_check_apart (b, dst))
    return gm_give (NULL);
  GmVal src = gm_arg_is_number (&a[1]) && dst ? gm_value_as (b, &a[1], (GmDtype) META (dst)->dtype)
                                              : TENSOR (1);
  return write_into (b, dst, src);
}

RUN (zero_)
{
  GmVal dst = TENSOR (0);
  CHECK ();
  return write_into (b, dst, gm_b_scalar (b, gm_scalar_int (0), (GmDtype) META (dst)->dtype));
}

RUN (fill_)
{
  GmVal dst = TENSOR (0);
  CHECK ();
  if (a[1].kind == GM_ARG_TENSOR && META (a[1].v)->ndim)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "fill_() takes a number or a 0-d tensor, not one of %d dimensions",
                               META (a[1].v)->ndim));
  if (a[1].kind != GM_ARG_TENSOR && !gm_arg_is_number (&a[1]))
    return gm_give (gm_arg_fail (api, b, a, 1, "Number"));
  const GmMeta *m = META (dst);
  if (gm_arg_is_number (&a[1]) && !fill_fits (b, &a[1], (GmDtype) m->dtype, m->ndim, m->sizes))
    return gm_give (NULL);
  return write_into (b, dst, gm_as_dtype (b, &a[1], (GmDtype) m->dtype));
}
