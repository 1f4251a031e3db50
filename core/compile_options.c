/* SPDX-License-Identifier: Apache-2.0
 * compile_options.c -- the host's options of a compilation, as the table host_options.
 *
 * Users pass options of the host and of the back end in one list of "key=value".  The host's are
 * taken out here, once, before the first stage runs: a plugin sees only its own.
 */
#include "core/compile_options.h"

#include <stdlib.h>
#include <string.h>

/* -- Values ------------------------------------------------------------------------------------ */

static bool
take_partition (GmCompile *c, const char *value)
{
  static const char *const names[] = { "auto", "default", "min-cut" };

  for (size_t i = 0; i < G_N_ELEMENTS (names); i++)
    if (strcmp (value, names[i]) == 0) {
      c->ask.partition.mode = (GmPartitionMode) i;
      return true;
    }
  return false;
}

/* Sets the memory budget, and selects the min-cut partitioner. */
static bool
take_budget (GmCompile *c, const char *value)
{
  char *end;
  double budget = g_ascii_strtod (value, &end);

  c->ask.partition = (GmPartitionOptions){ GM_PARTITION_MIN_CUT, budget };
  return end > value && *end == 0 && budget >= 0 && budget <= 1;
}

static bool
take_hooked (GmCompile *c, const char *value)
{
  static const char *const names[] = { "donated", "no_static", "all" };

  for (size_t i = 0; i < G_N_ELEMENTS (names); i++)
    if (strcmp (value, names[i]) == 0) {
      c->ask.hooked = (GmHookedFilter) i;
      return true;
    }
  return false;
}

static bool
take_dynamic (GmCompile *c, const char *value)
{
  static const char *const names[] = { "auto", "true", "false" };

  for (size_t i = 0; i < G_N_ELEMENTS (names); i++)
    if (strcmp (value, names[i]) == 0) {
      c->ask.dynamic = (uint8_t) i;
      return true;
    }
  return false;
}

static bool
take_backward (GmCompile *c, const char *value)
{
  c->ask.at_once = strcmp (value, "at-once") == 0;
  return c->ask.at_once || strcmp (value, "lazy") == 0;
}

/* Checks the value but stores nothing: the front end reads the limit before it compiles
 * anything. */
static bool
take_limit (GmCompile *c, const char *value)
{
  char *end;
  (void) c;
  return g_ascii_strtoll (value, &end, 10) >= 1 && *end == 0;
}

/* The options of the host.  `take` stores the value in c->ask; false: the value is none of
 * `values`. */
static const struct {
  const char *key;
  bool (*take) (GmCompile *c, const char *value);
  const char *values;
} host_options[] = {
  { "partition", take_partition, "auto, default or min-cut" },
  { "memory-budget", take_budget, "a number from 0 to 1" },
  { "dynamic", take_dynamic, "auto, true or false" },
  { "backward", take_backward, "lazy or at-once" },
  { "recompile-limit", take_limit, "a whole number from 1" },
  { "saved-tensors-hooks-filtering-mode", take_hooked, "donated, no_static or all" },
};

/* -- The list ---------------------------------------------------------------------------------- */

bool
gm_compile_options_read (GmCompile *c, GError **error)
{
  g_autoptr (GPtrArray) others = g_ptr_array_new_with_free_func (g_free);

  for (const char *const *o = c->ask.options; o && *o; o++) {
    const char *value = strchr (*o, '=');
    size_t i = 0, n = value ? (size_t) (value - *o) : 0;
    while (i < G_N_ELEMENTS (host_options)
           && !(strncmp (host_options[i].key, *o, n) == 0 && host_options[i].key[n] == 0))
      i++;
    if (i == G_N_ELEMENTS (host_options)) {
      g_ptr_array_add (others, g_strdup (*o));
    } else if (!host_options[i].take (c, value + 1)) {
      g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "option %s: the value of %s is %s", *o,
                   host_options[i].key, host_options[i].values);
      return false;
    }
  }
  g_ptr_array_add (others, NULL);
  c->ask.for_backend = (char **) g_ptr_array_steal (others, NULL);
  return true;
}

const char *
gm_compile_option (char *const *options, const char *key)
{
  const char *value = NULL;
  size_t n = strlen (key);

  for (; options && *options; options++)
    if (strncmp (*options, key, n) == 0 && (*options)[n] == '=')
      value = *options + n + 1;
  return value;
}
