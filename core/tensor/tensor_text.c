/* SPDX-License-Identifier: Apache-2.0
 * tensor_text.c -- a tensor as text for people.
 *
 * The rules are torch's, and so are its print options, which stand here at their defaults: one
 * format for all elements, made from the elements shown; 4 digits; scientific when the finite,
 * nonzero magnitudes span more than 1000, exceed 1e8, or, unless all are whole, lie below 1e-4;
 * whole floats end in a point; lines of 80 columns; above 1000 elements only 3 at each edge of each
 * dimension.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/tensor/tensor.h"

GmPrintOptions gm_print_options = GM_PRINT_OPTIONS_DEFAULT;
#define PRECISION gm_print_options.precision
#define SUMMARIZE_ABOVE gm_print_options.threshold
#define EDGE gm_print_options.edge
#define LINE_WIDTH gm_print_options.line_width
#define PREFIX "tensor("

typedef struct {
  const GmTensor *t;
  bool summarize;
  bool is_float, whole, scientific;
  int width;
  double least, most; /* magnitudes of finite nonzero elements; most 0: there are none */
  GString *out;
} Printer;

/* -- Elements shown ---------------------------------------------------------------------------- */

static bool
is_cut (const Printer *p, int dim)
{
  return p->summarize && p->t->meta.sizes[dim] > 2 * EDGE;
}

/* Calls `visit` for each element that is shown. */
static void
each_shown (Printer *p, int dim, int64_t *index, void (*visit) (Printer *p, GmScalar s))
{
  if (dim == p->t->meta.ndim) {
    visit (p, gm_tensor_get (p->t, index));
    return;
  }
  int64_t size = p->t->meta.sizes[dim];
  for (int64_t i = 0; i < size; i++) {
    if (i == EDGE && is_cut (p, dim))
      i = size - EDGE;
    index[dim] = i;
    each_shown (p, dim + 1, index, visit);
  }
}

/* -- One format for all ------------------------------------------------------------------------ */

static int
element_text (const Printer *p, GmScalar s, char *buf, size_t buf_bytes)
{
  switch (s.kind) {
  case GM_CATEGORY_BOOL:
    return snprintf (buf, buf_bytes, "%s", s.i ? "True" : "False");
  case GM_CATEGORY_INT:
    return snprintf (buf, buf_bytes, "%" G_GINT64_FORMAT, s.i);
  default:
    if (isnan (s.d)) /* C may print a sign for a NaN */
      return snprintf (buf, buf_bytes, "nan");
    if (isinf (s.d))
      return snprintf (buf, buf_bytes, s.d < 0 ? "-inf" : "inf");
    if (p->scientific)
      return snprintf (buf, buf_bytes, "%.*e", PRECISION, s.d);
    return p->whole ? snprintf (buf, buf_bytes, "%.0f.", s.d)
                    : snprintf (buf, buf_bytes, "%.*f", PRECISION, s.d);
  }
}

static void
measure_magnitude (Printer *p, GmScalar s)
{
  if (s.kind != GM_CATEGORY_FLOAT || !isfinite (s.d) || s.d == 0)
    return;
  double m = fabs (s.d);
  p->least = p->most == 0 ? m : fmin (p->least, m);
  p->most = fmax (p->most, m);
  p->whole &= s.d == ceil (s.d);
}

/* Adapts the common width to s; like torch, zeros, infinities and NaNs of floats are padded to the
 * width of the other elements. */
static void
measure_width (Printer *p, GmScalar s)
{
  if (s.kind == GM_CATEGORY_FLOAT && (!isfinite (s.d) || s.d == 0))
    return;
  char buf[512];
  p->width = MAX (p->width, element_text (p, s, buf, sizeof buf));
}

static void
choose_format (Printer *p)
{
  int64_t index[GM_MAX_DIMS] = { 0 };
  p->whole = true;
  p->width = 1;
  each_shown (p, 0, index, measure_magnitude);
  if (gm_print_options.scientific >= 0)
    p->scientific = gm_print_options.scientific;
  else
    p->scientific =
        p->most > 0
        && (p->most / p->least > 1000 || p->most > 1e8 || (!p->whole && p->least < 1e-4));
  each_shown (p, 0, index, measure_width);
}

/* -- Writing ----------------------------------------------------------------------------------- */

static void
write_element (Printer *p, GmScalar s)
{
  char buf[512];
  element_text (p, s, buf, sizeof buf);
  g_string_append_printf (p->out, "%*s", p->width, buf);
}

static void
new_line (Printer *p, int lines, int indent)
{
  while (lines-- > 0)
    g_string_append_c (p->out, '\n');
  g_string_append_printf (p->out, "%*s", indent, "");
}

static void
write_row (Printer *p, int64_t *index, int indent)
{
  int dim = p->t->meta.ndim - 1;
  int64_t size = p->t->meta.sizes[dim];
  int per_line = MAX (1, (LINE_WIDTH - indent) / (p->width + 2)), n = 0;
  g_string_append_c (p->out, '[');
  for (int64_t i = 0; i < size; i++, n++) {
    if (n > 0) {
      g_string_append (p->out, n % per_line ? ", " : ",");
      if (n % per_line == 0)
        new_line (p, 1, indent + 1);
    }
    if (i == EDGE && is_cut (p, dim)) {
      g_string_append (p->out, " ...");
      i = size - EDGE - 1;
      continue;
    }
    index[dim] = i;
    write_element (p, gm_tensor_get (p->t, index));
  }
  g_string_append_c (p->out, ']');
}

static void
write_block (Printer *p, int dim, int64_t *index, int indent)
{
  int ndim = p->t->meta.ndim;
  if (ndim == 0) {
    write_element (p, gm_tensor_get (p->t, index));
    return;
  }
  if (dim == ndim - 1) {
    write_row (p, index, indent);
    return;
  }
  int64_t size = p->t->meta.sizes[dim];
  g_string_append_c (p->out, '[');
  for (int64_t i = 0; i < size; i++) {
    if (i > 0) {
      g_string_append_c (p->out, ',');
      new_line (p, ndim - dim - 1, indent + 1);
    }
    if (i == EDGE && is_cut (p, dim)) {
      g_string_append (p->out, "...,");
      new_line (p, ndim - dim - 1, indent + 1);
      i = size - EDGE;
    }
    index[dim] = i;
    write_block (p, dim + 1, index, indent + 1);
  }
  g_string_append_c (p->out, ']');
}

/* Writes the suffix on the last line if it fits, else on a line of its own. */
static void
write_suffix (Printer *p, const char *suffix)
{
  const char *line = strrchr (p->out->str, '\n');
  /* torch's count: two more than the characters */
  size_t len = line ? strlen (line) + 1 : p->out->len + 2;
  g_string_append_c (p->out, ',');
  if (len + strlen (suffix) + 2 > (size_t) LINE_WIDTH)
    new_line (p, 1, (int) strlen (PREFIX));
  else
    g_string_append_c (p->out, ' ');
  g_string_append (p->out, suffix);
}

static void
write_dtype (Printer *p)
{
  g_autofree char *text =
      g_strconcat ("dtype=gramme.", gm_dtypes[p->t->meta.dtype].torch_name, NULL);
  write_suffix (p, text);
}

char *
gm_tensor_text (const GmTensor *t, const char *suffix)
{
  Printer p = { .t = t, .out = g_string_new (PREFIX) };
  GmDtype dtype = (GmDtype) t->meta.dtype;
  int64_t numel = gm_meta_numel (&t->meta);
  if (numel == 0) {
    g_string_append (p.out, "[]");
    if (t->meta.ndim != 1) {
      GString *size = g_string_new ("size=(");
      for (int i = 0; i < t->meta.ndim; i++)
        g_string_append_printf (size, "%s%" G_GINT64_FORMAT, i ? ", " : "", t->meta.sizes[i]);
      g_string_append_c (size, ')');
      write_suffix (&p, size->str);
      g_string_free (size, TRUE);
    }
    if (dtype != gm_default_dtype ()) /* no element is shown that tells the dtype */
      write_dtype (&p);
  } else {
    int64_t index[GM_MAX_DIMS] = { 0 };
    p.summarize = numel > SUMMARIZE_ABOVE;
    choose_format (&p);
    write_block (&p, 0, index, (int) strlen (PREFIX));
    if (dtype != gm_default_dtype () && dtype != GM_I64 && dtype != GM_BOOL)
      write_dtype (&p);
  }
  if (suffix && *suffix)
    write_suffix (&p, g_str_has_prefix (suffix, ", ") ? suffix + 2 : suffix);
  g_string_append_c (p.out, ')');
  return g_string_free (p.out, FALSE);
}
