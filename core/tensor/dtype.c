/* SPDX-License-Identifier: Apache-2.0
 * dtype.c -- the dtype table, single elements, promotion, names.
 *
 * Conversions of one element agree with the casts of core/tiles, which do what x86 does. A float
 * that does not fit gives the most negative integer of 32 or 64 bits; 8 and 16 bits are the low
 * bits of the 32-bit result; NaN is a true bool. The floats below 32 bits are converted here by
 * arithmetic on their format, in the tiles by their bits: two ways, one result.
 */
#include "core/tensor/dtype.h"

#include <math.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/thread.h"

const GmDtypeInfo gm_dtypes[GM_N_DTYPES] = {
#define DTYPE(code, NAME, text, torch_name, ctype, bits, dlpack_code, category, compute, live)     \
  [GM_##NAME] = { text,         torch_name,  sizeof (ctype),                                       \
                  bits,         dlpack_code, GM_CATEGORY_##category,                               \
                  GM_##compute, live },
#include "core/tensor/dtypes.def"
};

/* -- Floating formats -------------------------------------------------------------------------- */

GmFloatFormat
gm_dtype_float_format (GmDtype d)
{
  switch (d) {
  case GM_F8E4M3:
    return (GmFloatFormat){ 4, 3, false };
  case GM_F8E5M2:
    return (GmFloatFormat){ 5, 2, true };
  case GM_F16:
    return (GmFloatFormat){ 5, 10, true };
  case GM_BF16:
    return (GmFloatFormat){ 8, 7, true };
  case GM_F32:
    return (GmFloatFormat){ 8, 23, true };
  case GM_F64:
    return (GmFloatFormat){ 11, 52, true };
  default:
    g_assert_not_reached ();
  }
}

double
gm_dtype_largest (GmDtype d)
{
  GmFloatFormat f = gm_dtype_float_format (d);
  int bias = (1 << (f.exponent_bits - 1)) - 1,
      unused = f.infinities ? 0 : 1; /* all ones is a NaN, the code below is a number */
  return ldexp (2 - (1 + unused) * ldexp (1, -f.fraction_bits), bias + unused);
}

double
gm_dtype_epsilon (GmDtype d)
{
  return ldexp (1, -gm_dtype_float_format (d).fraction_bits);
}

double
gm_dtype_smallest_normal (GmDtype d)
{
  return ldexp (1, 2 - (1 << (gm_dtype_float_format (d).exponent_bits - 1)));
}

/* Returns the nearest code of a format of at most 16 bits: fractions are counted in units of their
 * last place, so a carry out of them is the next exponent's first code. */
static uint32_t
small_float_encode (float x, GmFloatFormat f)
{
  uint32_t sign = (uint32_t) (signbit (x) != 0) << (f.exponent_bits + f.fraction_bits);
  uint32_t all_ones = (1u << (f.exponent_bits + f.fraction_bits)) - 1;
  uint32_t infinity = all_ones >> f.fraction_bits << f.fraction_bits;
  uint32_t nan =
      f.exponent_bits + f.fraction_bits == 7 ? all_ones : infinity | 1u << (f.fraction_bits - 1);
  uint32_t beyond = f.infinities ? infinity : nan; /* the first code that is no finite number */
  int lowest = 2 - (1 << (f.exponent_bits - 1)), exponent;
  if (isnan (x))
    return sign | nan;
  if (isinf (x))
    return sign | beyond;
  if (x == 0)
    return sign;
  frexpf (x, &exponent);
  exponent = MAX (exponent - 1, lowest);
  double units = nearbyint (ldexp (fabsf (x), f.fraction_bits - exponent));
  if (exponent - lowest > (int) (all_ones >> f.fraction_bits))
    return sign | beyond;
  uint32_t code = ((uint32_t) (exponent - lowest) << f.fraction_bits) + (uint32_t) units;
  return sign | MIN (code, beyond);
}

static float
small_float_decode (uint32_t code, GmFloatFormat f)
{
  uint32_t all_ones = (1u << (f.exponent_bits + f.fraction_bits)) - 1, size = code & all_ones;
  uint32_t field = size >> f.fraction_bits, fraction = size & ((1u << f.fraction_bits) - 1);
  bool negative = code > all_ones, top = field == all_ones >> f.fraction_bits;
  int lowest = 2 - (1 << (f.exponent_bits - 1));
  double d =
      field ? ldexp (fraction + (1u << f.fraction_bits), (int) field - 1 + lowest - f.fraction_bits)
            : ldexp (fraction, lowest - f.fraction_bits);
  if (f.infinities ? top : size == all_ones)
    d = f.infinities && !fraction ? INFINITY : NAN;
  return (float) (negative ? -d : d);
}

/* -- Single elements --------------------------------------------------------------------------- */

static bool
scalar_is_true (GmScalar s)
{
  return s.kind == GM_CATEGORY_FLOAT ? s.d != 0 : s.i != 0;
}

/* Stores a value at `out` by memcpy: foreign memory need not be aligned. */
#define STORE(ctype, value)                                                                        \
  do {                                                                                             \
    ctype x_ = (ctype) (value);                                                                    \
    memcpy (out, &x_, sizeof x_);                                                                  \
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
  case GM_I8:
    STORE (int8_t, f ? (int64_t) (int32_t) s.d : s.i);
    return;
  case GM_I16:
    STORE (int16_t, f ? (int64_t) (int32_t) s.d : s.i);
    return;
  case GM_I32:
    STORE (int32_t, f ? (int32_t) s.d : (int32_t) s.i);
    return;
  case GM_I64:
    STORE (int64_t, f ? (int64_t) s.d : s.i);
    return;
  case GM_F8E4M3:
  case GM_F8E5M2:
    STORE (uint8_t, small_float_encode (f ? (float) s.d : (float) s.i, gm_dtype_float_format (d)));
    return;
  case GM_F16:
  case GM_BF16:
    STORE (uint16_t, small_float_encode (f ? (float) s.d : (float) s.i, gm_dtype_float_format (d)));
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
    g_assert_not_reached (); /* no tensor of this dtype can exist */
  }
}
#undef STORE

#define LOAD(ctype, make)                                                                          \
  do {                                                                                             \
    ctype x_;                                                                                      \
    memcpy (&x_, in, sizeof x_);                                                                   \
    return make (x_);                                                                              \
  } while (0)

bool
gm_dtype_int_range (GmDtype d, int64_t *low, int64_t *high)
{
  int bits = gm_dtypes[d].bits;
  if (gm_dtypes[d].category == GM_CATEGORY_FLOAT && gm_dtype_largest (d) < 0x1p63) {
    *high = (int64_t) gm_dtype_largest (d);
    *low = -*high;
    return true;
  }
  if (gm_dtypes[d].category != GM_CATEGORY_INT || bits >= 64)
    return false;
  *high = (INT64_C (1) << (d == GM_U8 ? bits : bits - 1)) - 1;
  *low = d == GM_U8 ? -*high : -*high - 1;
  return true;
}

bool
gm_scalar_fits (GmScalar s, GmDtype d, GError **error)
{
  int bits = gm_dtypes[d].bits;
  bool is_unsigned = d == GM_U8, fits = bits == 64; /* every GmScalar of integers is an int64_t */
  if (gm_dtypes[d].category == GM_CATEGORY_BOOL) {
    return true;
  } else if (gm_dtypes[d].category == GM_CATEGORY_FLOAT) {
    double size = fabs (gm_scalar_as_double (s));
    fits = !(size > gm_dtype_largest (d)) || isinf (size);
  } else if (s.kind == GM_CATEGORY_FLOAT) {
    double end = ldexp (1, is_unsigned ? bits : bits - 1);
    fits = s.d >= (is_unsigned ? 0 : -end) && s.d < end; /* false for a NaN */
  } else if (!fits) {
    int64_t low, high;
    fits = !gm_dtype_int_range (d, &low, &high) || (low <= s.i && s.i <= high);
  }
  if (!fits)
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "value cannot be converted to type %s without overflow", gm_dtypes[d].torch_name);
  return fits;
}

GmScalar
gm_scalar_load (GmDtype d, const void *in)
{
  switch (d) {
  case GM_BOOL:
    return gm_scalar_bool (*(const uint8_t *) in != 0);
  case GM_U8:
    return gm_scalar_int (*(const uint8_t *) in);
  case GM_I8:
    return gm_scalar_int (*(const int8_t *) in);
  case GM_I16:
    LOAD (int16_t, gm_scalar_int);
  case GM_I32:
    LOAD (int32_t, gm_scalar_int);
  case GM_I64:
    LOAD (int64_t, gm_scalar_int);
  case GM_F8E4M3:
  case GM_F8E5M2:
    return gm_scalar_float (small_float_decode (*(const uint8_t *) in, gm_dtype_float_format (d)));
  case GM_F16:
  case GM_BF16: {
    uint16_t code;
    memcpy (&code, in, sizeof code);
    return gm_scalar_float (small_float_decode (code, gm_dtype_float_format (d)));
  }
  case GM_F32:
    LOAD (float, gm_scalar_float);
  case GM_F64:
    LOAD (double, gm_scalar_float);
  default:
    g_assert_not_reached ();
  }
}
#undef LOAD

/* -- Promotion --------------------------------------------------------------------------------- */

GmDtype
gm_dtype_promote (GmDtype a, GmDtype b)
{
  if (a == b)
    return a;
  const GmDtypeInfo *ia = &gm_dtypes[a], *ib = &gm_dtypes[b];
  if (ia->category != ib->category)
    return ia->category > ib->category ? a : b;
  GmDtype low = MIN (a, b), high = MAX (a, b);
  /* Within a category the row order is the order of promotion, except where neither dtype holds the
   * other's values. */
  if (low == GM_U8 && high == GM_I8)
    return GM_I16;
  if (ia->category == GM_CATEGORY_FLOAT && ia->bits == ib->bits)
    return GM_F32; /* f16 with bf16, the two f8s */
  return high;
}

/* -- Names ------------------------------------------------------------------------------------- */

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

const char *
gm_dtype_tensor_name (GmDtype d)
{
  static const char *const names[GM_N_DTYPES] = {
    [GM_BOOL] = "BoolTensor",
    [GM_U8] = "ByteTensor",
    [GM_I8] = "CharTensor",
    [GM_I16] = "ShortTensor",
    [GM_I32] = "IntTensor",
    [GM_I64] = "LongTensor",
    [GM_F8E4M3] = "Float8_e4m3fnTensor",
    [GM_F8E5M2] = "Float8_e5m2Tensor",
    [GM_F16] = "HalfTensor",
    [GM_BF16] = "BFloat16Tensor",
    [GM_F32] = "FloatTensor",
    [GM_F64] = "DoubleTensor",
  };
  return names[d];
}

GmDtype
gm_dtype_of_tensor_name (const char *name)
{
  const char *dot = strrchr (name, '.');
  int d = 0;
  while (d < GM_N_DTYPES
         && g_strcmp0 (gm_dtype_tensor_name ((GmDtype) d), dot ? dot + 1 : name) != 0)
    d++;
  return (GmDtype) d;
}

/* -- The default ------------------------------------------------------------------------------- */

static GM_THREAD uint8_t default_dtype; /* 0: not set, f32; bool cannot be the default */

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
