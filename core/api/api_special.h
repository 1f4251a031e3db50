/* SPDX-License-Identifier: Apache-2.0
 * api_special.h -- macros and helpers of the special functions in api_special.c and api_bessel.c.
 */
#ifndef GM_API_API_SPECIAL_H
#define GM_API_API_SPECIAL_H

#include "core/api/api_private.h"

#include <math.h>

#define NUM(op, x, d) gm_apply_num (b, op, x, d)
#define TWO(op, x, y) gm_b (b, op, x, y)
#define ONE(op, x) gm_b (b, op, x)

/* Returns argument i in f64; *own: the dtype to which the result is rounded. */
static inline GmVal
wide_input (const GmApi *api, GmBuilder *b, const GmArg *a, int i, GmDtype *own)
{
  GmVal x = TENSOR (i);
  if (gm_b_failed (b))
    return NULL;
  *own = (GmDtype) META (x)->dtype;
  if (!gm_dtype_is_float (*own))
    *own = gm_default_dtype ();
  return gm_b_cast (b, x, GM_F64);
}

static inline GmArg
finish (GmBuilder *b, GmVal y, GmDtype own)
{
  return gm_give (gm_b_failed (b) ? NULL : gm_b_cast (b, y, own));
}

static inline GmVal
choose (GmBuilder *b, GmVal mask, GmVal x, double otherwise)
{
  return gm_pick (b, mask, gm_tensor_arg (x), gm_float_arg (otherwise));
}

static inline GmVal
choose_other (GmBuilder *b, GmVal mask, GmVal x, double where_mask)
{
  return gm_pick (b, mask, gm_float_arg (where_mask), gm_tensor_arg (x));
}

/* Returns c[0] x^(n - 1) + ... + c[n - 1]. */
static inline GmVal
polynomial (GmBuilder *b, GmVal x, const double *c, int n)
{
  GmVal p = NUM (add, NUM (mul, x, c[0]), c[1]);
  for (int i = 2; i < n; i++)
    p = NUM (add, TWO (mul, p, x), c[i]);
  return p;
}

#endif
