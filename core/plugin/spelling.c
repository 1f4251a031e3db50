/* SPDX-License-Identifier: Apache-2.0
 * spelling.c -- optimal string alignment distance, and the sentence made of it.
 *
 * A name counts as near within two edits, or one for names of up to three letters, or when one
 * begins with the other.
 */
#include "core/plugin/spelling.h"

#include <string.h>

#define MAX_NAME 64 /* longer names are compared by their beginning */

unsigned
gm_spelling_distance (const char *a, const char *b)
{
  size_t n = MIN (strlen (a), MAX_NAME), m = MIN (strlen (b), MAX_NAME);
  unsigned rows[3][MAX_NAME + 1];
  unsigned *before = rows[0], *last = rows[1], *now = rows[2];
  for (size_t j = 0; j <= m; j++)
    last[j] = (unsigned) j;
  for (size_t i = 1; i <= n; i++) {
    now[0] = (unsigned) i;
    for (size_t j = 1; j <= m; j++) {
      unsigned d = last[j - 1] + (g_ascii_tolower (a[i - 1]) != g_ascii_tolower (b[j - 1]));
      d = MIN (d, MIN (last[j], now[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d = MIN (d, before[j - 2] + 1);
      now[j] = d;
    }
    unsigned *spare = before;
    before = last;
    last = now;
    now = spare;
  }
  return last[m];
}

static bool
is_near (const char *a, const char *b)
{
  size_t shorter = MIN (strlen (a), strlen (b));
  if (shorter >= 2 && g_ascii_strncasecmp (a, b, shorter) == 0)
    return true;
  return gm_spelling_distance (a, b) <= (shorter <= 3 ? 1u : 2u);
}

static int
by_distance (const void *a, const void *b, void *name)
{
  unsigned x = gm_spelling_distance (*(char *const *) a, name),
           y = gm_spelling_distance (*(char *const *) b, name);
  return (x > y) - (x < y);
}

char *
gm_spelling_text (const char *name, const char *const *names)
{
  g_autoptr (GPtrArray) near = g_ptr_array_new ();
  for (; *names; names++)
    if (is_near (name, *names))
      g_ptr_array_add (near, (void *) *names);
  if (near->len == 0)
    return g_strdup ("");
  g_ptr_array_sort_with_data (near, by_distance, (void *) name);
  GString *text = g_string_new (" (did you mean ");
  for (guint i = 0; i < near->len && i < 3; i++)
    g_string_append_printf (text, "%s\"%s\"", i ? " or " : "", (char *) near->pdata[i]);
  g_string_append (text, "?)");
  return g_string_free (text, FALSE);
}
