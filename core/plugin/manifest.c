/* SPDX-License-Identifier: Apache-2.0
 * manifest.c -- the manifest's key file, and users' options held against it.
 *
 * The text comes from a file that has not been trusted yet: GKeyFile parses it, its size is limited
 * by the reader of the note, and a name may hold only letters, digits, '-', '_' and '.', because it
 * is shown on terminals and used in messages.
 */
#include "core/plugin/manifest.h"

#include <stdio.h>
#include <string.h>

#include "core/base/error.h"
#include "core/plugin/spelling.h"
#include "core/tensor/device.h"
#include "plugin-api/gramme-plugin.h"

#define GROUP "gramme-plugin"
#define OPTION_PREFIX "option "

/* -- Parsing ----------------------------------------------------------------------------------- */

static void
option_free (void *p)
{
  GmPluginOption *o = p;
  g_free (o->key);
  g_free (o->fallback);
  g_free (o->help);
  g_strfreev (o->values);
  g_free (o);
}

void
gm_manifest_free (GmManifest *m)
{
  if (!m)
    return;
  g_free (m->text);
  g_free (m->id);
  g_free (m->name);
  g_free (m->version);
  g_free (m->license);
  g_strfreev (m->devices);
  g_strfreev (m->dtypes);
  g_strfreev (m->flags);
  g_strfreev (m->needs);
  g_ptr_array_unref (m->options);
  g_hash_table_unref (m->reasons);
  g_free (m);
}

static char **
list (GKeyFile *f, const char *key)
{
  char **items = g_key_file_get_string_list (f, GROUP, key, NULL, NULL);
  return items ? items : g_new0 (char *, 1);
}

static bool
is_word (const char *s)
{
  if (!s || !*s || strlen (s) > 64)
    return false;
  for (; *s; s++)
    if (!g_ascii_isalnum (*s) && !strchr ("-_.", *s))
      return false;
  return true;
}

/* True if *s is a word; else sets *why, and frees *s, which becomes NULL. */
static bool
keep_word (char **s, const char *key, GmRefused *why)
{
  if (is_word (*s))
    return true;
  g_clear_pointer (s, g_free);
  return gm_refuse (why, GM_REFUSAL_MANIFEST,
                    "%s is missing or has other characters than letters, digits and - _ .", key);
}

static bool
parse_option (GKeyFile *f, const char *group, GmManifest *m, GmRefused *why)
{
  static const char *const types[] = { "string", "int", "bool", "choice" };
  GmPluginOption *o = g_new0 (GmPluginOption, 1);
  g_ptr_array_add (m->options, o);
  o->key = g_strstrip (g_strdup (group + strlen (OPTION_PREFIX)));
  o->fallback = g_key_file_get_string (f, group, "default", NULL);
  o->help = g_key_file_get_string (f, group, "help", NULL);
  o->values = g_key_file_get_string_list (f, group, "values", NULL, NULL);
  o->no_code = g_key_file_has_key (f, group, "changes-code", NULL)
               && !g_key_file_get_boolean (f, group, "changes-code", NULL);
  o->min = INT64_MIN;
  o->max = INT64_MAX;
  if (!is_word (o->key))
    return gm_refuse (why, GM_REFUSAL_MANIFEST,
                      "[%s]: an option's name has letters, digits and - _ .", group);

  g_autofree char *type = g_key_file_get_string (f, group, "type", NULL);
  unsigned i = 0;
  while (type && i < G_N_ELEMENTS (types) && strcmp (type, types[i]) != 0)
    i++;
  if (i == G_N_ELEMENTS (types))
    return gm_refuse (why, GM_REFUSAL_MANIFEST,
                      "[%s]: type \"%s\" is none of int, bool, string, choice", group, type);
  o->type = (GmOptionType) i;
  if (o->type == GM_OPTION_CHOICE && (!o->values || !o->values[0]))
    return gm_refuse (why, GM_REFUSAL_MANIFEST, "[%s]: a choice needs values=", group);

  g_autofree char *range = g_key_file_get_string (f, group, "range", NULL);
  if (range) {
    char *dots = strstr (range, ".."), *end;
    if (dots)
      o->min = g_ascii_strtoll (range, &end, 10);
    if (!dots || end != dots || end == range)
      return gm_refuse (why, GM_REFUSAL_MANIFEST, "[%s]: range \"%s\" is not like 0..3", group,
                        range);
    o->max = g_ascii_strtoll (dots + 2, &end, 10);
    if (*end || end == dots + 2 || o->max < o->min)
      return gm_refuse (why, GM_REFUSAL_MANIFEST, "[%s]: range \"%s\" is not like 0..3", group,
                        range);
  }
  return true;
}

static void
parse_reasons (GKeyFile *f, GmManifest *m)
{
  g_auto (GStrv) keys = g_key_file_get_keys (f, "reasons", NULL, NULL);
  for (char **k = keys; k && *k; k++) {
    uint64_t code = g_ascii_strtoull (*k, NULL, 0);
    if (code >= GRAMME_REASON_OWN && code <= UINT32_MAX)
      g_hash_table_insert (m->reasons, GUINT_TO_POINTER ((guint) code),
                           g_key_file_get_string (f, "reasons", *k, NULL));
  }
}

static bool
parse_version (GKeyFile *f, GmManifest *m, GmRefused *why)
{
  g_autofree char *abi = g_key_file_get_string (f, GROUP, "abi", NULL);
  int used = 0;
  if (!abi || sscanf (abi, "%d.%d%n", &m->abi_major, &m->abi_minor, &used) != 2 || abi[used]
      || m->abi_major < 0 || m->abi_minor < 0)
    return gm_refuse (why, GM_REFUSAL_MANIFEST, "abi \"%s\" is not like 0.0", abi ? abi : "");
  m->min_host_minor = g_key_file_get_integer (f, GROUP, "min-host-minor", NULL);
  if (m->min_host_minor < 0 || m->min_host_minor > m->abi_minor)
    return gm_refuse (why, GM_REFUSAL_MANIFEST, "min-host-minor %d is not between 0 and its abi %s",
                      m->min_host_minor, abi);
  if (m->abi_major != GRAMME_ABI_MAJOR)
    return gm_refuse (
        why, GM_REFUSAL_ABI,
        "it is %d.%d, this gramme has %d.%d; get a version of the plugin for this gramme",
        m->abi_major, m->abi_minor, GRAMME_ABI_MAJOR, GRAMME_ABI_MINOR);
  if (m->min_host_minor > GRAMME_ABI_MINOR)
    return gm_refuse (why, GM_REFUSAL_HOST_MINOR,
                      "it needs minor %d, this gramme has %d.%d; update gramme", m->min_host_minor,
                      GRAMME_ABI_MAJOR, GRAMME_ABI_MINOR);
  return true;
}

/* True if the plugin names a known device; else *why is set.  One known device suffices: a later
 * gramme may know the others. */
static bool
check_devices (const GmManifest *m, GmRefused *why)
{
  int device;
  for (char **d = m->devices; *d; d++)
    if (gm_device_find (*d, &device))
      return true;
  if (!m->devices[0])
    return true;
  g_autofree char *all = g_strjoinv (", ", m->devices);
  return gm_refuse (why, GM_REFUSAL_DEVICE, "it names %s; there are %s and %s", all,
                    gm_device_name (GM_DEVICE_CPU), gm_device_name (GM_DEVICE_CUDA));
}

static bool
parse (GKeyFile *f, GmManifest *m, GmRefused *why)
{
  m->id = g_key_file_get_string (f, GROUP, "id", NULL);
  m->name = g_key_file_get_string (f, GROUP, "name", NULL);
  m->version = g_key_file_get_string (f, GROUP, "version", NULL);
  m->license = g_key_file_get_string (f, GROUP, "license", NULL);
  m->rank = g_key_file_get_integer (f, GROUP, "rank", NULL);
  m->bit_exact = g_key_file_get_boolean (f, GROUP, "bit-exact", NULL);
  g_strfreev (m->devices);
  g_strfreev (m->dtypes);
  g_strfreev (m->flags);
  g_strfreev (m->needs);
  m->devices = list (f, "devices");
  m->dtypes = list (f, "dtypes");
  m->flags = list (f, "flags");
  m->needs = list (f, "needs");
  if (!keep_word (&m->id, "id", why) | !keep_word (&m->name, "name", why)
      | !keep_word (&m->version, "version", why))
    return false; /* every key was checked: a bad one must not reach a terminal */
  parse_reasons (f, m);
  g_auto (GStrv) groups = g_key_file_get_groups (f, NULL);
  for (char **g = groups; *g; g++)
    if (g_str_has_prefix (*g, OPTION_PREFIX) && !parse_option (f, *g, m, why))
      return false;
  return parse_version (f, m, why) && check_devices (m, why);
}

GmManifest *
gm_manifest_parse (char *text, GmManifest **partial, GmRefused *why)
{
  g_autoptr (GmManifest) m = g_new0 (GmManifest, 1);
  g_autoptr (GKeyFile) f = g_key_file_new ();
  g_autoptr (GError) error = NULL;
  m->text = text;
  m->options = g_ptr_array_new_with_free_func (option_free);
  m->reasons = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  m->devices = g_new0 (char *, 1);
  m->dtypes = g_new0 (char *, 1);
  m->flags = g_new0 (char *, 1);
  m->needs = g_new0 (char *, 1);
  bool good;
  if (!g_key_file_load_from_data (f, text, (gsize) -1, G_KEY_FILE_NONE, &error))
    good = gm_refuse (why, GM_REFUSAL_MANIFEST, "%s", error->message);
  else if (!g_key_file_has_group (f, GROUP))
    good = gm_refuse (why, GM_REFUSAL_MANIFEST, "the group [" GROUP "] is missing");
  else
    good = parse (f, m, why);
  if (good)
    return g_steal_pointer (&m);
  if (partial && m->name)
    *partial = g_steal_pointer (&m);
  return NULL;
}

/* -- Asking ------------------------------------------------------------------------------------ */

bool
gm_manifest_has_flag (const GmManifest *m, const char *flag)
{
  return g_strv_contains ((const char *const *) m->flags, flag);
}

const GmPluginOption *
gm_manifest_option (const GmManifest *m, const char *key)
{
  for (guint i = 0; i < m->options->len; i++) {
    const GmPluginOption *o = g_ptr_array_index (m->options, i);
    if (strcmp (o->key, key) == 0)
      return o;
  }
  return NULL;
}

const char *
gm_manifest_reason (const GmManifest *m, uint32_t reason)
{
  static const char *const standard[] = {
    [GRAMME_REASON_NONE] = "no reason was given",
    [GRAMME_REASON_OP] = "it does not know this operator",
    [GRAMME_REASON_OP_VERSION] = "it does not know this version of the operator",
    [GRAMME_REASON_DTYPE] = "it does not handle this dtype",
    [GRAMME_REASON_RANK] = "it does not handle this many dimensions",
    [GRAMME_REASON_DYNAMIC] = "it does not handle symbolic sizes here",
    [GRAMME_REASON_LAYOUT] = "it does not handle these strides",
    [GRAMME_REASON_DEVICE] = "it does not run on this device",
    [GRAMME_REASON_SIZE] = "the tensors are too large or too small for it",
    [GRAMME_REASON_CONTROL] = "it does not handle control flow",
  };
  if (reason < G_N_ELEMENTS (standard))
    return standard[reason];
  const char *own = g_hash_table_lookup (m->reasons, GUINT_TO_POINTER (reason));
  return own ? own : "a reason that its manifest does not list";
}

static bool
fail_key (const GmManifest *m, const char *key, GError **error)
{
  g_autoptr (GPtrArray) keys = g_ptr_array_new ();
  for (guint i = 0; i < m->options->len; i++)
    g_ptr_array_add (keys, ((GmPluginOption *) g_ptr_array_index (m->options, i))->key);
  g_ptr_array_add (keys, NULL);
  g_autofree char *near = gm_spelling_text (key, (const char *const *) keys->pdata);
  g_autofree char *all = g_strjoinv (", ", (char **) keys->pdata);
  g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
               "back end \"%s\" has no option \"%s\"%s; its options: %s", m->name, key, near,
               all[0] ? all : "none");
  return false;
}

bool
gm_manifest_check_option (const GmManifest *m, const char *key, const char *value, GError **error)
{
  const GmPluginOption *o = gm_manifest_option (m, key);
  if (!o)
    return fail_key (m, key, error);
  g_autofree char *wanted = NULL;
  char *end = NULL;
  switch (o->type) {
  case GM_OPTION_STRING:
    return true;
  case GM_OPTION_INT: {
    int64_t n = g_ascii_strtoll (value, &end, 10);
    if (end != value && !*end && n >= o->min && n <= o->max)
      return true;
    wanted = o->min == INT64_MIN
                 ? g_strdup ("a whole number")
                 : g_strdup_printf ("a whole number from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
                                    o->min, o->max);
    break;
  }
  case GM_OPTION_BOOL:
    if (strcmp (value, "true") == 0 || strcmp (value, "false") == 0 || strcmp (value, "1") == 0
        || strcmp (value, "0") == 0)
      return true;
    wanted = g_strdup ("true or false");
    break;
  case GM_OPTION_CHOICE: {
    if (g_strv_contains ((const char *const *) o->values, value))
      return true;
    g_autofree char *all = g_strjoinv (", ", o->values);
    wanted = g_strdup_printf ("one of %s", all);
    break;
  }
  }
  g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
               "back end \"%s\": option %s=%s is wrong, it takes %s", m->name, key, value, wanted);
  return false;
}
