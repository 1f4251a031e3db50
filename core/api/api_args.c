/* SPDX-License-Identifier: Apache-2.0
 * api_args.c -- reads a row's arguments: checks the kind of each, and sets the error if it is
 * another.
 *
 * The rows' signatures name no types: the functions with which a row reads its arguments decide
 * what it accepts. Messages have torch's form, "sum(): argument 'dim' must be int, not str".
 */
#include "core/api/api_private.h"

const char *
gm_arg_kind_name (const GmArg *a)
{
  switch ((GmArgKind) a->kind) {
  case GM_ARG_NONE:
  case GM_ARG_ABSENT:
    return "NoneType";
  case GM_ARG_BOOL:
    return "bool";
  case GM_ARG_INT:
    return "int";
  case GM_ARG_FLOAT:
  case GM_ARG_ELEMENT:
    return "float";
  case GM_ARG_STR:
    return "str";
  case GM_ARG_DTYPE:
    return "dtype";
  case GM_ARG_TENSOR:
    return "Tensor";
  case GM_ARG_LIST:
    return a->is_tuple ? "tuple" : "list";
  case GM_ARG_SLICE:
    return "slice";
  case GM_ARG_ELLIPSIS:
    return "ellipsis";
  }
  return "object";
}

GmVal
gm_arg_fail (const GmApi *api, GmBuilder *b, const GmArg *a, int i, const char *wanted)
{
  return gm_b_fail (b, GM_ERROR_TYPE, "%s(): argument '%s' must be %s, not %s", api->name,
                    api->arg_names[i], wanted, gm_arg_kind_name (&a[i]));
}

bool
gm_arg_is_number (const GmArg *a)
{
  return a->kind == GM_ARG_BOOL || a->kind == GM_ARG_INT || a->kind == GM_ARG_FLOAT
         || a->kind == GM_ARG_ELEMENT;
}

GmVal
gm_arg_tensor (const GmApi *api, GmBuilder *b, const GmArg *a, int i)
{
  return a[i].kind == GM_ARG_TENSOR ? a[i].v : gm_arg_fail (api, b, a, i, "Tensor");
}

GmVal
gm_arg_spared (const GmApi *api, GmBuilder *b, const GmArg *a, int inplace_at)
{
  GmVal x = TENSOR (0);
  bool writes = GM_CALL_MODE (a) != GM_CALL_FRESH || (inplace_at >= 0 && FLAG (inplace_at)),
       recorded = false;
  if (gm_b_failed (b) || !writes)
    return gm_b_failed (b) ? NULL : x;
  for (int i = 0; i < api->n_args; i++)
    recorded |= a[i].kind == GM_ARG_TENSOR && META (a[i].v)->requires_grad;
  return recorded ? gm_b (b, copy, x) : x;
}

/* Reads a tensor of one element as a number, as torch does where a number is expected. False: x is
 * no such tensor, or an error is set. */
static bool
item (GmBuilder *b, const GmArg *a, GmScalar *out)
{
  return a->kind == GM_ARG_TENSOR && !gm_b_failed (b) && b->vt->item (b, a->v, out);
}

int64_t
gm_arg_int (const GmApi *api, GmBuilder *b, const GmArg *a, int i)
{
  GmScalar s;
  if (a[i].kind == GM_ARG_INT || a[i].kind == GM_ARG_BOOL)
    return a[i].i;
  if (a[i].kind == GM_ARG_TENSOR && !gm_b_failed (b) && !gm_dtype_is_float (META (a[i].v)->dtype)
      && item (b, &a[i], &s))
    return s.i;
  gm_arg_fail (api, b, a, i, "int");
  return 0;
}

double
gm_arg_settled (GmBuilder *b, const GmArg *a)
{
  double d = 0;
  return !gm_b_failed (b) && b->vt->number (b, a->v, &d) ? d : 0;
}

double
gm_arg_float (const GmApi *api, GmBuilder *b, const GmArg *a, int i)
{
  GmScalar s;
  if (a[i].kind == GM_ARG_FLOAT)
    return a[i].d;
  if (a[i].kind == GM_ARG_ELEMENT)
    return gm_arg_settled (b, &a[i]);
  if (a[i].kind == GM_ARG_INT || a[i].kind == GM_ARG_BOOL)
    return (double) gm_size_number (a[i].i);
  if (item (b, &a[i], &s))
    return gm_scalar_as_double (s);
  gm_arg_fail (api, b, a, i, "float");
  return 0;
}

bool
gm_arg_bool (const GmApi *api, GmBuilder *b, const GmArg *a, int i)
{
  if (a[i].kind == GM_ARG_BOOL || a[i].kind == GM_ARG_INT)
    return a[i].i != 0;
  gm_arg_fail (api, b, a, i, "bool");
  return false;
}

const char *
gm_arg_str (const GmApi *api, GmBuilder *b, const GmArg *a, int i)
{
  if (a[i].kind == GM_ARG_STR)
    return a[i].s;
  gm_arg_fail (api, b, a, i, "str");
  return "";
}

GmScalar
gm_arg_scalar (const GmApi *api, GmBuilder *b, const GmArg *a, int i)
{
  GmScalar s = gm_scalar_int (0);
  switch (a[i].kind) {
  case GM_ARG_BOOL:
    return gm_scalar_bool (a[i].i != 0);
  case GM_ARG_INT:
    return gm_scalar_int (a[i].i);
  case GM_ARG_FLOAT:
    return gm_scalar_float (a[i].d);
  case GM_ARG_ELEMENT:
    return gm_scalar_float (gm_arg_settled (b, &a[i]));
  default:
    break;
  }
  if (!item (b, &a[i], &s))
    gm_arg_fail (api, b, a, i, "Number");
  return s;
}

GmDtype
gm_arg_dtype (const GmApi *api, GmBuilder *b, const GmArg *a, int i, GmDtype or_else)
{
  if (a[i].kind == GM_ARG_DTYPE)
    return a[i].dtype;
  if (!IS_NONE (i))
    gm_arg_fail (api, b, a, i, "dtype");
  return or_else;
}

int
gm_arg_ints (const GmApi *api, GmBuilder *b, const GmArg *a, int i, int64_t out[GM_MAX_DIMS])
{
  if (a[i].kind == GM_ARG_INT) {
    out[0] = a[i].i;
    return 1;
  }
  if (a[i].kind != GM_ARG_LIST) {
    gm_arg_fail (api, b, a, i, "tuple of ints");
    return 0;
  }
  if (a[i].n > GM_MAX_DIMS) {
    gm_b_fail (b, GM_ERROR_RUNTIME,
               "%s(): argument '%s' has %d entries; a tensor has at most %d dimensions", api->name,
               api->arg_names[i], a[i].n, GM_MAX_DIMS);
    return 0;
  }
  for (int k = 0; k < a[i].n; k++) {
    const GmArg *x = &a[i].items[k];
    GmScalar s = { 0 };
    if (x->kind == GM_ARG_INT || x->kind == GM_ARG_BOOL)
      out[k] = x->i;
    else if (x->kind == GM_ARG_TENSOR && !gm_dtype_is_float (META (x->v)->dtype) && item (b, x, &s))
      out[k] = s.i;
    else {
      gm_b_fail (
          b, GM_ERROR_TYPE,
          "%s(): argument '%s' must be tuple of ints, but found element of type %s at pos %d",
          api->name, api->arg_names[i], gm_arg_kind_name (x), k);
      return 0;
    }
  }
  return a[i].n;
}

GmVal *
gm_arg_tensors (const GmApi *api, GmBuilder *b, const GmArg *a, int i, int *n)
{
  *n = 0;
  if (a[i].kind != GM_ARG_LIST) {
    gm_arg_fail (api, b, a, i, "tuple of Tensors");
    return NULL;
  }
  if (a[i].n == 0) {
    gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): expected a non-empty list of Tensors", api->name);
    return NULL;
  }
  GmVal *v = g_new (GmVal, a[i].n);
  for (int k = 0; k < a[i].n; k++) {
    if (a[i].items[k].kind != GM_ARG_TENSOR) {
      gm_b_fail (
          b, GM_ERROR_TYPE,
          "%s(): argument '%s' must be tuple of Tensors, but found element of type %s at pos %d",
          api->name, api->arg_names[i], gm_arg_kind_name (&a[i].items[k]), k);
      g_free (v);
      return NULL;
    }
    v[k] = a[i].items[k].v;
  }
  *n = a[i].n;
  return v;
}

int
gm_wrap_dim (const GmApi *api, GmBuilder *b, int64_t dim, int ndim)
{
  int range = MAX (ndim, 1);
  dim = gm_size_number (dim);
  if (dim >= -range && dim < range)
    return (int) (dim < 0 ? dim + range : dim);
  gm_b_fail (
      b, GM_ERROR_INDEX,
      "%s(): dimension out of range (expected to be in range of [%d, %d], but got %" G_GINT64_FORMAT
      ")",
      api->name, -range, range - 1, dim);
  return 0;
}

int
gm_arg_dim (const GmApi *api, GmBuilder *b, const GmArg *a, int i, int ndim)
{
  int64_t dim = gm_arg_int (api, b, a, i);
  return gm_b_failed (b) ? 0 : gm_wrap_dim (api, b, dim, ndim);
}

void
gm_arg_dims (const GmApi *api, GmBuilder *b, const GmArg *a, int i, int ndim,
             int64_t out[GM_MAX_DIMS], int *n)
{
  int64_t raw[GM_MAX_DIMS];
  uint32_t seen = 0;
  *n = 0;
  if (IS_NONE (i))
    return;
  int given = gm_arg_ints (api, b, a, i, raw);
  for (int k = 0; k < given && !gm_b_failed (b); k++) {
    int d = gm_wrap_dim (api, b, raw[k], ndim);
    if (seen >> d & 1)
      gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): dim %d appears multiple times in the list of dims",
                 api->name, d);
    seen |= 1u << d;
  }
  for (int d = 0; d < ndim; d++) /* dimension 0 of a 0-d tensor means all elements */
    if (seen >> d & 1)
      out[(*n)++] = d;
}
