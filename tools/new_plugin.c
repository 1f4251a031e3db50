/* SPDX-License-Identifier: Apache-2.0
 * new_plugin.c -- `gramme new-plugin`: writes the project of a new back end.
 *
 * The files are those of tools/new-plugin/, which the build turns into a table, so that the program
 * needs no other files.  In names and texts @NAME@ becomes the plugin's name and @C_NAME@
 * automake's spelling of it; @NAME8@ is its first seven letters.  Lines between @BEGIN minimal@ or
 * @BEGIN full@ and @END@ are for that template alone.  An existing folder is never written to.
 */
#include <errno.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/tools.h"

#define MAX_NAME_BYTES 40

/* clang-format off */
static const struct {
  const char *name, *text;
} files[] = {
#define FILE(name, text) { name, text },
#include "tools/new-plugin.inc"
#undef FILE
};
/* clang-format on */

/* True if the name can be part of a file's name, a key file's value and C strings. */
static bool
is_good_name (const char *name)
{
  if (!g_ascii_isalpha (name[0]) || strlen (name) > MAX_NAME_BYTES || g_str_has_suffix (name, "-"))
    return false;
  for (const char *c = name; *c; c++)
    if (!g_ascii_isalnum (*c) && *c != '-')
      return false;
  return true;
}

/* Returns the lines of a text that belong to a template. */
static GString *
choose (const char *text, const char *template)
{
  GString *s = g_string_new (NULL);
  g_autofree char *begin = g_strdup_printf ("@BEGIN %s@", template);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  bool wanted = true;
  for (char **l = lines; *l; l++)
    if (g_str_has_prefix (*l, "@BEGIN "))
      wanted = strcmp (*l, begin) == 0;
    else if (strcmp (*l, "@END@") == 0)
      wanted = true;
    else if (wanted && (l[1] || **l))
      g_string_append_printf (s, "%s\n", *l);
  return s;
}

static char *
fill (const char *text, const char *name, const char *template)
{
  g_autofree char *c_name = g_strdelimit (g_strdup (name), "-", '_'),
                  *short_name = g_strndup (name, 7);
  GString *s = choose (text, template);
  g_string_replace (s, "@NAME8@", short_name, 0);
  g_string_replace (s, "@NAME@", name, 0);
  g_string_replace (s, "@C_NAME@", c_name, 0);
  return g_string_free (s, FALSE);
}

static bool
write_files (const char *folder, const char *name, const char *template)
{
  for (unsigned i = 0; i < G_N_ELEMENTS (files); i++) {
    g_autofree char *base = strcmp (files[i].name, "plugin.c") == 0 ? g_strdup_printf ("%s.c", name)
                                                                    : g_strdup (files[i].name);
    g_autofree char *path = g_build_filename (folder, base, NULL);
    g_autofree char *text = fill (files[i].text, name, template);
    g_autoptr (GError) error = NULL;
    if (!g_file_set_contents (path, text, -1, &error)) {
      fprintf (stderr,
               "gramme new-plugin: %s\nThe folder %s is incomplete: remove it, and try again\n",
               error->message, folder);
      return false;
    }
  }
  return true;
}

int
gm_tool_new_plugin (int argc, char **argv)
{
  const char *name = NULL, *dir = NULL, *template = "minimal";
  for (int i = 1; i < argc; i++) {
    if (strcmp (argv[i], "--template") == 0 && i + 1 < argc)
      template = argv[++i];
    else if (g_str_has_prefix (argv[i], "--template="))
      template = argv[i] + strlen ("--template=");
    else if (strcmp (argv[i], "--dir") == 0 && i + 1 < argc)
      dir = argv[++i];
    else if (g_str_has_prefix (argv[i], "--dir="))
      dir = argv[i] + strlen ("--dir=");
    else if (strcmp (argv[i], "--dir") == 0)
      return gm_tool_misused (argv[0], "--dir wants a folder");
    else if (argv[i][0] == '-')
      return gm_tool_misused (argv[0], "there is no option %s", argv[i]);
    else if (name)
      return gm_tool_misused (argv[0], "one name at a time: %s or %s", name, argv[i]);
    else
      name = argv[i];
  }
  if (strcmp (template, "minimal") != 0 && strcmp (template, "full") != 0)
    return gm_tool_misused (argv[0], "the templates are minimal and full, not \"%s\"", template);
  if (!name)
    return gm_tool_misused (argv[0], "say what the back end is called");
  if (!is_good_name (name))
    return gm_tool_misused (argv[0],
                            "\"%s\" cannot be a plugin's name: take a letter, then at most %d "
                            "letters, digits and dashes (of ASCII), the last one no dash",
                            name, MAX_NAME_BYTES - 1);
  const char *folder = dir && dir[0] ? dir : name;
  if (g_mkdir (folder, 0755) != 0) {
    int why = errno;
    fprintf (stderr, "gramme new-plugin: the folder %s cannot be made: %s%s\n", folder,
             g_strerror (why),
             why == EEXIST   ? "; nothing was written. Name another one with --dir"
             : why == ENOENT ? "; make the folder that it is to lie in first"
                             : "; name a folder that you may write to with --dir");
    return 1;
  }
  if (!write_files (folder, name, template))
    return 1;
  printf ("%s is the project of a back end called \"%s\". To build and try it:\n"
          "  cd %s && autoreconf -fi && ./configure && make && make check\n",
          folder, name, folder);
  return 0;
}
