/* SPDX-License-Identifier: Apache-2.0
 * number_text.c -- numbers in graph text, both ways.  The rules are in number_text.h.
 */
#include "core/graph/number_text.h"

#include <math.h>
#include <string.h>

#define USUAL_NAN UINT64_C (0x7ff8000000000000)
#define USUAL_NAN_F32 UINT32_C (0x7fc00000)

static uint64_t
bits_of (double d)
{
  uint64_t u;
  memcpy (&u, &d, sizeof u);
  return u;
}

/* Appends the shortest digits that read back as `d`, or as (float) d if `narrow`. */
static void
print_float (GString *out, double d, bool narrow)
{
  if (isinf (d)) {
    g_string_append (out, d < 0 ? "-inf" : "inf");
    return;
  }
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  for (int digits = 1; digits <= 17; digits++) {
    char format[8];
    g_snprintf (format, sizeof format, "%%.%dg", digits);
    g_ascii_formatd (text, sizeof text, format, d);
    double back = g_ascii_strtod (text, NULL);
    if (narrow ? (float) back == (float) d : back == d)
      break;
  }
  g_string_append (out, text);
  if (!strpbrk (text, ".e"))
    g_string_append (out, ".0");
}

void
gm_text_scalar (GString *out, GmScalar s)
{
  if (s.kind == GM_CATEGORY_BOOL)
    g_string_append (out, s.i ? "true" : "false");
  else if (s.kind == GM_CATEGORY_INT)
    g_string_append_printf (out, "%" G_GINT64_FORMAT, s.i);
  else if (!isnan (s.d))
    print_float (out, s.d, false);
  else if (bits_of (s.d) == USUAL_NAN)
    g_string_append (out, "nan");
  else
    g_string_append_printf (out, "nan(0x%" G_GINT64_MODIFIER "x)", bits_of (s.d));
}

/* True for float dtypes whose NaNs a double cannot carry. */
static bool
is_narrow (GmDtype d)
{
  return gm_dtype_is_float (d) && d != GM_F64;
}

static uint32_t
usual_nan (GmDtype d)
{
  uint32_t bits = 0;
  if (d == GM_F32)
    return USUAL_NAN_F32;
  gm_scalar_store (gm_scalar_float (NAN), d, &bits);
  return bits;
}

void
gm_text_element (GString *out, GmDtype d, const void *p)
{
  uint32_t narrow = 0;
  GmScalar s = gm_scalar_load (d, p);
  if (!is_narrow (d)) {
    gm_text_scalar (out, s);
    return;
  }
  memcpy (&narrow, p, gm_dtype_size (d));
  if (!isnan (s.d))
    print_float (out, s.d, true);
  else if (narrow == usual_nan (d))
    g_string_append (out, "nan");
  else
    g_string_append_printf (out, "nan(0x%x)", narrow);
}

/* -- Reading ----------------------------------------------------------------------------------- */

static bool
take_word (const char **text, const char *word)
{
  size_t n = strlen (word);
  if (strncmp (*text, word, n) || g_ascii_isalnum ((*text)[n]) || (*text)[n] == '_')
    return false;
  *text += n;
  return true;
}

/* Reads "nan" or "nan(0x...)" and moves *text past it; *bits: the NaN's bits, or 0 for the plain
 * NaN. False if there is none. */
static bool
take_nan (const char **text, uint64_t *bits)
{
  if (!take_word (text, "nan"))
    return false;
  *bits = 0;
  if (g_str_has_prefix (*text, "(0x")) {
    char *end;
    uint64_t u = g_ascii_strtoull (*text + 3, &end, 16);
    if (end > *text + 3 && *end == ')') {
      *bits = u;
      *text = end + 1;
    }
  }
  return true;
}

static bool
take_number (const char **text, GmScalar *out)
{
  const char *p = *text + (**text == '-'), *start = p;
  while (g_ascii_isdigit (*p))
    p++;
  if (p == start)
    return false;
  char *end;
  if (*p != '.' && *p != 'e' && *p != 'E') {
    bool negative = **text == '-';
    int64_t v = 0; /* negative numbers have a larger range */
    for (const char *c = start; c < p; c++)
      if (__builtin_mul_overflow (v, 10, &v) || __builtin_sub_overflow (v, *c - '0', &v))
        return false;
    if (!negative && __builtin_sub_overflow (0, v, &v))
      return false;
    *out = gm_scalar_int (v);
    *text = p;
    return true;
  }
  *out = gm_scalar_float (g_ascii_strtod (*text, &end));
  *text = end;
  return true;
}

bool
gm_text_read_scalar (const char **text, GmScalar *out)
{
  uint64_t nan_bits;
  if (take_word (text, "true"))
    *out = gm_scalar_bool (true);
  else if (take_word (text, "false"))
    *out = gm_scalar_bool (false);
  else if (take_word (text, "inf"))
    *out = gm_scalar_float (INFINITY);
  else if (take_word (text, "-inf"))
    *out = gm_scalar_float (-INFINITY);
  else if (take_nan (text, &nan_bits)) {
    nan_bits = nan_bits ? nan_bits : USUAL_NAN;
    *out = gm_scalar_float (0);
    memcpy (&out->d, &nan_bits, sizeof nan_bits);
    return isnan (out->d);
  } else
    return take_number (text, out);
  return true;
}

bool
gm_text_read_element (const char **text, GmDtype d, void *p)
{
  uint64_t nan_bits;
  GmScalar s;
  if (is_narrow (d) && take_nan (text, &nan_bits)) {
    uint32_t narrow = nan_bits ? (uint32_t) nan_bits : usual_nan (d);
    memcpy (p, &narrow, gm_dtype_size (d));
    return true;
  }
  if (!gm_text_read_scalar (text, &s) || s.kind != (uint8_t) gm_dtypes[d].category)
    return false;
  gm_scalar_store (s, d, p);
  return true;
}
