/* SPDX-License-Identifier: Apache-2.0
 * dtype.c -- the dtype table, single elements, promotion, names.
 *
 * Conversions of one element agree with the casts of core/tiles: what x86 does.  A float that does not fit gives the most
 * negative integer of 32 or 64 bits; u8 takes the low byte of the 32-bit result; NaN is a true bool.
 */
#include "core/tensor/dtype.h"

#include <string.h>

const GmDtypeInfo gm_dtypes[GM_N_DTYPES] = {
#define DTYPE(code, NAME, text, torch_name, ctype, bits, dlpack_code, category, live) \
  [GM_##NAME] = { text, torch_name, sizeof (ctype), bits, dlpack_code, GM_CATEGORY_##category, live },
#include "core/tensor/dtypes.def"
};

/* -- Single elements --------------------------------------------------------------------------------------- */

static bool
scalar_is_true (GmScalar s)
{
  return s.kind == GM_CATEGORY_FLOAT ? s.d != 0 : s.i != 0;
}

/* By memcpy: foreign memory need not be aligned. */
#define STORE(ctype, value) \
  do { \
    ctype x_ = (ctype) (value); \
    memcpy (out, &x_, sizeof x_); \
  } while (0)

void
gm_scalar_store (GmScalar s, GmDtype d, void *out)
{
  bool f = s.kind == GM_CATEGORY_FLOAT;
  switch (d) {
  case GM_BOOL:
    STORE (uint8_t, scalar_is_true (s));
    return;
  case GM_U8:
    STORE (uint8_t, f ? (int64_t) (int32_t) s.d : s.i);
    return;
  case GM_I32:
    STORE (int32_t, f ? (int32_t) s.d : (int32_t) s.i);
    return;
  case GM_I64:
    STORE (int64_t, f ? (int64_t) s.d : s.i);
    return;
  case GM_F32:
    if (f)
      STORE (float, s.d);
    else
      STORE (float, s.i); /* rounded once */
    return;
  case GM_F64:
    STORE (double, f ? s.d : (double) s.i);
    return;
  default:
    g_assert_not_reached (); /* no tensor of it can exist */
  }
}
#undef STORE

#define LOAD(ctype, make) \
  do { \
    ctype x_; \
    memcpy (&x_, in, sizeof x_); \
    return make (x_); \
  } while (0)

GmScalar
gm_scalar_load (GmDtype d, const void *in)
{
  switch (d) {
  case GM_BOOL:
    return gm_scalar_bool (*(const uint8_t *) in != 0);
  case GM_U8:
    return gm_scalar_int (*(const uint8_t *) in);
  case GM_I32:
    LOAD (int32_t, gm_scalar_int);
  case GM_I64:
    LOAD (int64_t, gm_scalar_int);
  case GM_F32:
    LOAD (float, gm_scalar_float);
  case GM_F64:
    LOAD (double, gm_scalar_float);
  default:
    g_assert_not_reached ();
  }
}
#undef LOAD

/* -- Promotion --------------------------------------------------------------------------------------------- */

GmDtype
gm_dtype_promote (GmDtype a, GmDtype b)
{
  if (a == b)
    return a;
  const GmDtypeInfo *ia = &gm_dtypes[a], *ib = &gm_dtypes[b];
  if (ia->category != ib->category)
    return ia->category > ib->category ? a : b;
  GmDtype low = MIN (a, b), high = MAX (a, b);
  /* Within a category the row order is the order of promotion, but where neither holds the other's values. */
  if (low == GM_U8 && high == GM_I8)
    return GM_I16;
  if (ia->category == GM_CATEGORY_FLOAT && ia->bits == ib->bits)
    return GM_F32; /* f16 with bf16, the two f8s */
  return high;
}

/* -- Names ------------------------------------------------------------------------------------------------- */

bool
gm_dtype_parse (const char *name, size_t len, GmDtype *out)
{
  for (int d = 0; d < GM_N_DTYPES; d++) {
    const char *names[] = { gm_dtypes[d].text, gm_dtypes[d].torch_name };
    for (int i = 0; i < 2; i++)
      if (strlen (names[i]) == len && !memcmp (names[i], name, len)) {
        *out = (GmDtype) d;
        return true;
      }
  }
  return false;
}

bool
gm_dtype_from_dlpack (uint8_t code, uint8_t bits, GmDtype *out)
{
  for (int d = 0; d < GM_N_DTYPES; d++)
    if (gm_dtypes[d].dlpack_code == code && gm_dtypes[d].bits == bits) {
      *out = (GmDtype) d;
      return true;
    }
  return false;
}

/* -- The default ------------------------------------------------------------------------------------------- */

static __thread uint8_t default_dtype; /* 0: not set, f32; bool cannot be the default */

GmDtype
gm_default_dtype (void)
{
  return default_dtype ? (GmDtype) default_dtype : GM_F32;
}

void
gm_default_dtype_set (GmDtype d)
{
  g_return_if_fail (gm_dtype_is_float (d));
  default_dtype = (uint8_t) d;
}
