/* SPDX-License-Identifier: Apache-2.0
 * cache.c -- `gramme cache`: the folder of compiled code, listed, checked or cleared.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <glib.h>

#include "core/cache/cache.h"
#include "tools/tools.h"

static int
off (const char *why)
{
  fprintf (stderr, "gramme cache: no cache: %s\n", why ? why : "GRAMME_CACHE=0 turns it off");
  return 1;
}

static const char *
when (int64_t seconds, char text[32])
{
  time_t t = (time_t) seconds;
  struct tm local;
  if (!localtime_r (&t, &local) || !strftime (text, 32, "%Y-%m-%d %H:%M:%S", &local))
    g_strlcpy (text, "-", 32);
  return text;
}

/* Lists the cache; returns the exit status, 1 if entries are refused. all: every entry in a line;
 * else only refused entries. */
static int
list (bool all)
{
  g_autofree char *why = NULL, *path = gm_cache_path ();
  size_t n, bad = 0;
  uint64_t bytes = 0;
  GmCacheRow *rows = gm_cache_list (true, &n, &why);
  if (!rows)
    return off (why);
  for (size_t i = 0; i < n; i++) {
    const GmCacheRow *r = &rows[i];
    char text[32];
    bytes += r->bytes;
    bad += r->why != NULL;
    if (all && !r->why)
      printf ("%.16s  %10" G_GUINT64_FORMAT "  %s  %s\n", r->name, r->bytes, when (r->used_s, text),
              r->label);
    else if (r->why)
      printf ("%.16s  refused: %s\n", r->name, r->why);
  }
  printf ("%s: %zu entries, %.1f MB%s", path, n, (double) bytes / 1e6, bad ? "" : "\n");
  if (bad)
    printf (", %zu refused: they are removed when they are met, or by `gramme cache clear`\n", bad);
  gm_cache_rows_free (rows, n);
  return bad > 0;
}

static int
clear (void)
{
  g_autofree char *why = NULL, *path = gm_cache_path ();
  if (path && !g_file_test (path, G_FILE_TEST_EXISTS)) {
    printf ("%s: not there\n", path);
    return 0;
  }
  int64_t n = gm_cache_clear (&why);
  if (n < 0)
    return off (why);
  printf ("%s: %" G_GINT64_FORMAT " entries removed\n", path, n);
  if (why)
    fprintf (stderr, "gramme cache: %s: %s\n", path, why);
  return why != NULL;
}

int
gm_tool_cache (int argc, char **argv)
{
  if (argc == 2 && strcmp (argv[1], "ls") == 0)
    return list (true);
  if (argc == 2 && strcmp (argv[1], "verify") == 0)
    return list (false);
  if (argc == 2 && strcmp (argv[1], "clear") == 0)
    return clear ();
  return gm_tool_misused (argv[0], "%s", argc > 1 ? "one of ls, verify, clear" : "what about it?");
}
