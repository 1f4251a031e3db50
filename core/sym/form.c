/* SPDX-License-Identifier: Apache-2.0
 * form.c -- arithmetic on linear forms.  See form.h.
 */
#include "core/sym/form.h"

#include <glib.h>
#include <string.h>

bool
gm_form_add (const GmForm *x, const GmForm *y, int64_t times, GmForm *out)
{
  GmForm r;
  int64_t part;
  uint32_t i = 0, j = 0;
  r.n_terms = 0;
  if (__builtin_mul_overflow (y->constant, times, &part)
      || __builtin_add_overflow (x->constant, part, &r.constant))
    return false;
  while (i < x->n_terms || j < y->n_terms) {
    bool from_x = j == y->n_terms || (i < x->n_terms && x->terms[i].atom <= y->terms[j].atom);
    bool from_y = i == x->n_terms || (j < y->n_terms && y->terms[j].atom <= x->terms[i].atom);
    GmTerm t = { from_x ? x->terms[i].atom : y->terms[j].atom, from_x ? x->terms[i].times : 0 };
    if (from_y
        && (__builtin_mul_overflow (y->terms[j].times, times, &part)
            || __builtin_add_overflow (t.times, part, &t.times)))
      return false;
    i += from_x;
    j += from_y;
    if (!t.times)
      continue;
    if (r.n_terms == GM_FORM_MAX_TERMS)
      return false;
    r.terms[r.n_terms++] = t;
  }
  gm_form_copy (&r, out);
  return true;
}

bool
gm_form_scale (const GmForm *x, int64_t times, GmForm *out)
{
  uint32_t n = times ? x->n_terms : 0;
  if (__builtin_mul_overflow (x->constant, times, &out->constant))
    return false;
  for (uint32_t i = 0; i < n; i++) {
    out->terms[i].atom = x->terms[i].atom;
    if (__builtin_mul_overflow (x->terms[i].times, times, &out->terms[i].times))
      return false;
  }
  out->n_terms = n;
  return true;
}

bool
gm_form_equal (const GmForm *x, const GmForm *y)
{
  if (x->constant != y->constant || x->n_terms != y->n_terms)
    return false;
  for (uint32_t i = 0; i < x->n_terms; i++)
    if (x->terms[i].atom != y->terms[i].atom || x->terms[i].times != y->terms[i].times)
      return false;
  return true;
}

uint32_t
gm_form_hash (const GmForm *x)
{
  uint64_t h = (uint64_t) x->constant * UINT64_C (0x9e3779b97f4a7c15);
  for (uint32_t i = 0; i < x->n_terms; i++) {
    h = (h ^ x->terms[i].atom ^ h >> 31) * UINT64_C (0x9e3779b97f4a7c15);
    h = (h ^ (uint64_t) x->terms[i].times ^ h >> 29) * UINT64_C (0x9e3779b97f4a7c15);
  }
  return (uint32_t) (h >> 32);
}

int64_t
gm_form_times (const GmForm *x, uint32_t atom)
{
  for (uint32_t i = 0; i < x->n_terms; i++)
    if (x->terms[i].atom == atom)
      return x->terms[i].times;
  return 0;
}

int64_t
gm_gcd (int64_t a, int64_t b)
{
  uint64_t x = a < 0 ? -(uint64_t) a : (uint64_t) a, y = b < 0 ? -(uint64_t) b : (uint64_t) b;
  while (y) {
    uint64_t t = x % y;
    x = y;
    y = t;
  }
  return x > INT64_MAX ? 1 : (int64_t) x; /* 2^63 alone: 1 divides everything */
}

int64_t
gm_form_content (const GmForm *x)
{
  int64_t g = 0;
  for (uint32_t i = 0; i < x->n_terms && g != 1; i++)
    g = gm_gcd (g, x->terms[i].times);
  return g;
}

bool
gm_form_direction (const GmForm *x, GmForm *direction, int64_t *scale)
{
  gm_form_copy (x, direction);
  direction->constant = 0;
  *scale = gm_form_content (x);
  if (!*scale)
    return true;
  if (x->terms[0].times < 0)
    *scale = -*scale;
  for (uint32_t i = 0; i < x->n_terms; i++) {
    if (x->terms[i].times == INT64_MIN)
      return false;
    direction->terms[i].times /= *scale;
  }
  return true;
}

int64_t
gm_floor_div (int64_t a, int64_t b)
{
  g_assert (b > 0);
  int64_t q = a / b;
  return q - (a % b < 0);
}

int64_t
gm_floor_mod (int64_t a, int64_t b)
{
  int64_t m = a % b;
  return m < 0 ? m + b : m;
}
