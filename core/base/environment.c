/* SPDX-License-Identifier: Apache-2.0
 * environment.c -- see environment.h.
 */
#include "core/base/environment.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"

/* True for the first call with a name. */
static bool
is_first (const char *name)
{
  static GMutex lock;
  static GHashTable *told;
  g_mutex_lock (&lock);
  if (!told)
    told = g_hash_table_new (g_str_hash, g_str_equal);
  bool first = g_hash_table_add (told, (gpointer) name);
  g_mutex_unlock (&lock);
  return first;
}

int64_t
gm_environment_number (const char *name, int64_t least, int64_t most, int64_t otherwise)
{
  const char *text = secure_getenv (name);
  if (!text || !*text)
    return otherwise;
  char *end;
  errno = 0;
  int64_t n = g_ascii_strtoll (text, &end, 10);
  if (errno == 0 && end != text && !*end && n >= least && n <= most)
    return n;
  if (is_first (name))
    gm_log_warn ("%s=%s is not used: it takes a number from %" G_GINT64_FORMAT
                 " to %" G_GINT64_FORMAT "; %" G_GINT64_FORMAT " is taken",
                 name, text, least, most, otherwise);
  return otherwise;
}

bool
gm_environment_switch (const char *name)
{
  const char *text = secure_getenv (name);
  if (text && *text && strcmp (text, "0") != 0 && strcmp (text, "1") != 0 && is_first (name))
    gm_log_warn ("%s=%s is not used: it takes 0 or 1; 1 is taken", name, text);
  return !text || strcmp (text, "0") != 0;
}
