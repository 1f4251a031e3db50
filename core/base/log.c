/* SPDX-License-Identifier: Apache-2.0
 * log.c -- channels, prefixes, and the environment that selects them.
 *
 * The set of open channels is one word, so a test is one load.  A message is put together first and
 * written with one call: lines of two threads do not mix.
 */
#include "core/base/log.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"

const GmLogInfo gm_logs[GM_N_LOGS] = {
#define LOG(NAME, text, help) [GM_LOG_##NAME] = { text, help },
#include "core/base/logs.def"
};

static uint32_t open_channels; /* bit k: channel k */
static const char *debug_letters, *stress_list;

G_STATIC_ASSERT (GM_N_LOGS <= 32);

/* -- Selection --------------------------------------------------------------------------------- */

/* Aliases of channels: torch's names where they differ. */
static const struct {
  const char *name;
  uint32_t channels;
} log_aliases[] = {
#define LOG_ALIAS(text, mask) { text, mask },
#define CHANNEL(NAME) (1u << GM_LOG_##NAME)
#include "core/base/logs.def"
#undef CHANNEL
};

/* Returns the channels that a name stands for; 0: there is none of this name. */
static uint32_t
channels_of (const char *name)
{
  if (!strcmp (name, "all"))
    return (uint32_t) ((1ull << GM_N_LOGS) - 1);
  for (int i = 0; i < GM_N_LOGS; i++)
    if (!strcmp (name, gm_logs[i].name))
      return 1u << i;
  for (size_t i = 0; i < G_N_ELEMENTS (log_aliases); i++)
    if (!strcmp (name, log_aliases[i].name))
      return log_aliases[i].channels;
  return 0;
}

/* Applies a list of channels. False if names in it are unknown, all of which the error lists; the
 * other names take effect. */
static bool
apply (const char *list, GError **error)
{
  g_auto (GStrv) names = g_strsplit (list, ",", -1);
  g_autoptr (GString) unknown = g_string_new (NULL);
  for (char **p = names; *p; p++) {
    char *name = g_strstrip (*p);
    if (!*name)
      continue;
    bool off = *name == '-';
    if (*name == '-' || *name == '+')
      name++;
    uint32_t mask = channels_of (name);
    if (!mask)
      g_string_append_printf (unknown, "%s\"%s\"", unknown->len ? ", " : "", name);
    else if (off)
      __atomic_fetch_and (&open_channels, ~mask, __ATOMIC_RELAXED);
    else
      __atomic_fetch_or (&open_channels, mask, __ATOMIC_RELAXED);
  }
  if (unknown->len == 0)
    return true;
  g_autoptr (GString) known = g_string_new ("all");
  for (int i = 0; i < GM_N_LOGS; i++)
    g_string_append_printf (known, ", %s", gm_logs[i].name);
  g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "there is no log %s; choose from: %s", unknown->str,
               known->str);
  return false;
}

static void
read_environment (void)
{
  static gsize done;
  if (!g_once_init_enter (&done))
    return;
  /* Copies: a later setenv may free what getenv returned. */
  debug_letters = g_strdup (g_getenv ("GM_DEBUG"));
  stress_list = g_strdup (g_getenv ("GM_STRESS"));
  const char *logs = g_getenv ("GRAMME_LOGS");
  g_autoptr (GError) error = NULL;
  if (logs && !apply (logs, &error))
    fprintf (stderr, "[gramme] warning: GRAMME_LOGS: %s\n", error->message);
  g_once_init_leave (&done, 1);
}

bool
gm_log_on (GmLogChannel ch)
{
  read_environment ();
  return __atomic_load_n (&open_channels, __ATOMIC_RELAXED) >> ch & 1;
}

bool
gm_log_set (const char *list, GError **error)
{
  read_environment ();
  return apply (list, error);
}

/* -- Writing ----------------------------------------------------------------------------------- */

static void
write_lines (const char *prefix, const char *text)
{
  g_autoptr (GString) out = g_string_new (NULL);
  for (const char *line = text; *line;) {
    size_t len = strcspn (line, "\n");
    g_string_append (out, prefix);
    g_string_append_len (out, line, (gssize) len);
    g_string_append_c (out, '\n');
    line += len + (line[len] == '\n');
  }
  fwrite (out->str, 1, out->len, stderr);
}

void
gm_log (GmLogChannel ch, const char *format, ...)
{
  if (!gm_log_on (ch))
    return;
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  g_autofree char *prefix = g_strdup_printf ("[gramme:%s] ", gm_logs[ch].name);
  write_lines (prefix, text);
}

void
gm_log_warn (const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  write_lines ("[gramme] warning: ", text);
}

/* -- Switches for development ------------------------------------------------------------------ */

bool
gm_debug_letter (char c)
{
  read_environment ();
  return c && debug_letters && strchr (debug_letters, c);
}

bool
gm_stress (const char *what)
{
  read_environment ();
  size_t len = strlen (what);
  for (const char *p = stress_list; p && *p;) {
    size_t n = strcspn (p, ",");
    if (n == len && !memcmp (p, what, n))
      return true;
    p += n + (p[n] == ',');
  }
  return false;
}

uint32_t
gm_stress_number (const char *what)
{
  read_environment ();
  size_t len = strlen (what);
  for (const char *p = stress_list; p && *p;) {
    size_t n = strcspn (p, ",");
    if (n >= len && !memcmp (p, what, len) && (n == len || p[len] == ':'))
      return n == len ? 1 : (uint32_t) strtoul (p + len + 1, NULL, 10);
    p += n + (p[n] == ',');
  }
  return 0;
}
