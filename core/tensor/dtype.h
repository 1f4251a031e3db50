/* SPDX-License-Identifier: Apache-2.0
 * dtype.h -- element types, expanded from dtypes.def.
 */
#ifndef GM_TENSOR_DTYPE_H
#define GM_TENSOR_DTYPE_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
#define DTYPE(code, NAME, ...) GM_##NAME = code,
#include "core/tensor/dtypes.def"
  GM_N_DTYPES,
  GM_NONE = GM_N_DTYPES, /* the `compute` of dtypes that are only stored */
} GmDtype;

typedef enum { GM_CATEGORY_BOOL, GM_CATEGORY_INT, GM_CATEGORY_FLOAT } GmCategory;

typedef struct {
  const char *text;       /* "f32": graphs, logs */
  const char *torch_name; /* "float32": Python */
  uint8_t size_bytes, bits, dlpack_code;
  GmCategory category;
  uint8_t compute; /* a GmDtype, or GM_NONE */
  bool live;
} GmDtypeInfo;

extern const GmDtypeInfo gm_dtypes[GM_N_DTYPES];

#define gm_dtype_size(d) (gm_dtypes[d].size_bytes)
#define gm_dtype_is_float(d) (gm_dtypes[d].category == GM_CATEGORY_FLOAT)
/* Returns the dtype in which arithmetic on `d` is done and accumulated: `d` itself, f32 for f16 and
 * bf16, or GM_NONE. */
#define gm_dtype_compute(d) ((GmDtype) gm_dtypes[d].compute)
/* True if ops with arithmetic and comparisons accept `d`: all but the 8-bit floats, which are
 * stored and cast only. */
#define gm_dtype_computes(d) (gm_dtypes[d].compute != GM_NONE)

/* A number with its Python kind: the type of a Python scalar, an attribute or an element read from
 * a tensor. */
typedef struct {
  uint8_t kind; /* GmCategory */
  union {
    int64_t i; /* BOOL (0 or 1), INT */
    double d;  /* FLOAT */
  };
} GmScalar;

static inline GmScalar
gm_scalar_int (int64_t i)
{
  return (GmScalar){ .kind = GM_CATEGORY_INT, .i = i };
}
static inline GmScalar
gm_scalar_float (double d)
{
  return (GmScalar){ .kind = GM_CATEGORY_FLOAT, .d = d };
}
static inline GmScalar
gm_scalar_bool (bool b)
{
  return (GmScalar){ .kind = GM_CATEGORY_BOOL, .i = b };
}
static inline double
gm_scalar_as_double (GmScalar s)
{
  return s.kind == GM_CATEGORY_FLOAT ? s.d : (double) s.i;
}
static inline int64_t
gm_scalar_as_int (GmScalar s)
{
  return s.kind == GM_CATEGORY_FLOAT ? (int64_t) s.d : s.i;
}

/* gm_scalar_store stores `s` as one element of `d` at `out`, gm_scalar_load reads one element: C's
 * conversions, float to bool is != 0. A value stored as a float below 32 bits is rounded to f32
 * first and then to the nearest, ties to even: torch's two steps. */
void gm_scalar_store (GmScalar s, GmDtype d, void *out);
GmScalar gm_scalar_load (GmDtype d, const void *in);

/* Finds the range of integers that a dtype accepts as gm_scalar_fits says; false if it accepts all
 * of 64 bits. */
bool gm_dtype_int_range (GmDtype d, int64_t *low, int64_t *high);
/* True if `d` holds s, else sets GM_ERROR_RUNTIME. bool holds all numbers; an integer dtype those
 * in its range, with fractions cut off, no NaN, and if it is unsigned also negatives down to minus
 * its largest number, modulo 2^bits; a float dtype those from minus its largest to its largest
 * number, infinities and NaN. */
bool gm_scalar_fits (GmScalar s, GmDtype d, GError **error);

/* The layout of a floating dtype: sign, exponent, fraction.  f8e4m3 has no infinities: its highest
 * exponent holds numbers, and only all ones is a NaN. */
typedef struct {
  uint8_t exponent_bits, fraction_bits;
  bool infinities;
} GmFloatFormat;
GmFloatFormat gm_dtype_float_format (GmDtype d);
double gm_dtype_largest (GmDtype d); /* the largest finite number of a floating dtype */
double gm_dtype_epsilon (GmDtype d); /* distance from 1 to the next number */
double gm_dtype_smallest_normal (GmDtype d);

/* Returns the common dtype of two dtyped operands of equal priority.  Source: torch's promotion
 * table (docs, "Tensor Attributes"): u8 with a signed type is the next wider signed type. */
GmDtype gm_dtype_promote (GmDtype a, GmDtype b);

/* Finds the dtype named "f32" or "float32"; false if there is no such name. */
bool gm_dtype_parse (const char *name, size_t len, GmDtype *out);
bool gm_dtype_from_dlpack (uint8_t code, uint8_t bits, GmDtype *out);

/* Returns torch's name of the type of tensors of this dtype: "FloatTensor". */
const char *gm_dtype_tensor_name (GmDtype d);
/* Returns the dtype of "FloatTensor", "gramme.FloatTensor" ...; GM_N_DTYPES if there is none. */
GmDtype gm_dtype_of_tensor_name (const char *name);

/* Returns the dtype of new floating tensors, per thread: f32 until gm_default_dtype_set. */
GmDtype gm_default_dtype (void);
void gm_default_dtype_set (GmDtype d);

#endif
