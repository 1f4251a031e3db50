/* SPDX-License-Identifier: Apache-2.0
 * profile.c -- rows of sizes that were seen, and their text.  See profile.h.
 */
#include "core/sym/profile.h"

#include <stdio.h>
#include <string.h>

static void
row_free (void *data)
{
  GmProfileRow *row = data;
  g_free (row->source);
  g_free (row);
}

static guint
row_hash (gconstpointer p)
{
  const GmProfileRow *row = p;
  return g_str_hash (row->source) + row->instance;
}

static gboolean
row_equal (gconstpointer p, gconstpointer q)
{
  const GmProfileRow *a = p, *b = q;
  return a->instance == b->instance && strcmp (a->source, b->source) == 0;
}

GmProfile *
gm_profile_new (void)
{
  GmProfile *p = g_new0 (GmProfile, 1);
  p->by_source = g_hash_table_new (row_hash, row_equal);
  p->rows = g_ptr_array_new_with_free_func (row_free);
  return p;
}

void
gm_profile_free (GmProfile *p)
{
  if (p) {
    g_hash_table_unref (p->by_source);
    g_ptr_array_unref (p->rows);
  }
  g_free (p);
}

static GmProfileRow *
find (const GmProfile *p, const char *source, uint32_t instance)
{
  const GmProfileRow key = { .source = (char *) source, .instance = instance };
  return g_hash_table_lookup (p->by_source, &key);
}

static GmProfileRow *
add (GmProfile *p, const char *source, uint32_t instance)
{
  GmProfileRow *row = g_new0 (GmProfileRow, 1);
  row->instance = instance;
  row->source = g_strdup (source);
  g_ptr_array_add (p->rows, row);
  g_hash_table_add (p->by_source, row);
  p->changed = true;
  return row;
}

static void
set_varies (GmProfile *p, uint8_t *was, uint8_t is)
{
  if (*was >= is)
    return;
  *was = is;
  p->changed = p->widened = true;
}

static void
note (GmProfile *p, int64_t *was, int64_t is, uint8_t *varies)
{
  if (*was == is)
    return;
  *was = is;
  p->changed = true;
  set_varies (p, varies, GM_VARIES);
}

const GmProfileRow *
gm_profile_see (GmProfile *p, const char *source, uint32_t ndim, const int64_t *sizes,
                const int64_t *strides)
{
  GmProfileRow *row = find (p, source, p->instance);
  if (row && row->ndim != ndim) { /* another kind of value under that name: its former sizes do not
                                   * matter */
    *row = (GmProfileRow){ .source = row->source, .instance = row->instance, .ndim = UINT8_MAX };
  }
  bool fresh = !row || row->ndim == UINT8_MAX;
  row = row ? row : add (p, source, p->instance);
  row->ndim = (uint8_t) ndim;
  for (uint32_t d = 0; d < ndim; d++) {
    if (fresh) {
      p->added = true;
      row->sizes[d] = sizes[d];
      row->strides[d] = strides ? strides[d] : 0;
      p->changed = true;
      continue;
    }
    note (p, &row->sizes[d], sizes[d], &row->size_varies[d]);
    if (strides)
      note (p, &row->strides[d], strides[d], &row->stride_varies[d]);
  }
  return row;
}

const GmProfileRow *
gm_profile_see_value (GmProfile *p, const char *source, int64_t value)
{
  bool added = p->added;
  GmProfileRow *row = (GmProfileRow *) gm_profile_see (p, source, 1, &value, NULL);
  p->added = added;
  row->value = true;
  return row;
}

bool
gm_profile_settle (GmProfile *p, const GmProfileRow *seen, uint32_t most, uint64_t recording)
{
  GmProfileRow *row = (GmProfileRow *) seen;
  if (row->special_in[0] == recording)
    return true;
  if (row->special[0] >= most)
    return false;
  row->special[0]++;
  row->special_in[0] = recording;
  p->changed = true;
  return true;
}

bool
gm_profile_special (GmProfile *p, const GmProfileRow *seen, uint32_t d, uint64_t recording)
{
  GmProfileRow *row = (GmProfileRow *) seen;
  if (row->special_in[d] == recording)
    return true;
  p->changed = true;
  if (row->special[d]) {
    set_varies (p, &row->size_varies[d], GM_VARIES_ALL);
    return false;
  }
  row->special[d] = 1;
  row->special_in[d] = recording;
  return true;
}

/* -- Text -------------------------------------------------------------------------------------- */

#define FIRST_LINE "gramme shape profile 1\n"

static void
print_list (GString *s, const int64_t *values, const uint8_t *varies, uint32_t n)
{
  g_string_append_c (s, ' ');
  for (uint32_t d = 0; d < n; d++)
    g_string_append_printf (s, "%s%" G_GINT64_FORMAT "%s", d ? "," : "", values[d],
                            varies[d] == GM_VARIES_ALL ? "**"
                            : varies[d]                ? "*"
                                                       : "");
}

/* Returns the profile as text, lines such as "2 7*,64 64,1 L['x']": a star marks a size that
 * varies, two stars a size that is recorded for all sizes from now on; "#1 " before the source: row
 * of another instance. */
char *
gm_profile_text (const GmProfile *p)
{
  GString *s = g_string_new (FIRST_LINE);
  for (uint32_t i = 0; i < p->rows->len; i++) {
    const GmProfileRow *row = p->rows->pdata[i];
    if (strchr (row->source, '\n') || (row->value && !row->size_varies[0]))
      continue;
    g_string_append_printf (s, "%u", row->ndim);
    print_list (s, row->sizes, row->size_varies, row->ndim);
    print_list (s, row->strides, row->stride_varies, row->ndim);
    if (row->instance)
      g_string_append_printf (s, " #%u", row->instance);
    g_string_append_printf (s, " %s\n", row->source);
  }
  return g_string_free (s, FALSE);
}

static bool
parse_list (const char **at, int64_t *values, uint8_t *varies, uint32_t n)
{
  if (*(*at)++ != ' ')
    return false;
  for (uint32_t d = 0; d < n; d++) {
    char *end;
    if (d && *(*at)++ != ',')
      return false;
    values[d] = g_ascii_strtoll (*at, &end, 10);
    if (end == *at)
      return false;
    size_t stars = strspn (end, "*");
    if (stars > 2)
      return false;
    varies[d] = (uint8_t) stars;
    *at = end + stars;
  }
  return true;
}

static bool
parse_line (const char *line, GmProfileRow *out)
{
  memset (out, 0, sizeof *out);
  if (line[0] < '0' || line[0] > '0' + GM_PROFILE_DIMS)
    return false;
  out->ndim = (uint8_t) (line[0] - '0');
  line++;
  if (!parse_list (&line, out->sizes, out->size_varies, out->ndim)
      || !parse_list (&line, out->strides, out->stride_varies, out->ndim) || line[0] != ' ')
    return false;
  if (line[1] == '#') {
    char *end;
    guint64 nr = g_ascii_strtoull (line + 2, &end, 10);
    if (end == line + 2 || nr == 0 || nr > UINT32_MAX || *end != ' ')
      return false;
    out->instance = (uint32_t) nr;
    line = end;
  }
  out->source = (char *) line + 1;
  return line[1] != 0;
}

static void
widen (GmProfile *p, const GmProfileRow *read)
{
  GmProfileRow *row = find (p, read->source, read->instance);
  if (!row) {
    char *source = (row = add (p, read->source, read->instance))->source;
    *row = *read;
    row->source = source;
    return;
  }
  for (uint32_t d = 0; row->ndim == read->ndim && d < row->ndim; d++) {
    set_varies (p, &row->size_varies[d], read->size_varies[d]);
    set_varies (p, &row->stride_varies[d], read->stride_varies[d]);
  }
}

bool
gm_profile_read (GmProfile *p, const char *text)
{
  if (!g_str_has_prefix (text, FIRST_LINE))
    return false;
  g_auto (GStrv) lines = g_strsplit (text + strlen (FIRST_LINE), "\n", -1);
  GmProfileRow row;
  for (char **l = lines; *l; l++)
    if (**l && !parse_line (*l, &row))
      return false;
  for (char **l = lines; *l; l++)
    if (**l && parse_line (*l, &row))
      widen (p, &row);
  return true;
}
