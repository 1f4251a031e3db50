/* SPDX-License-Identifier: Apache-2.0
 * home.c -- see home.h.
 *
 * Rejected: g_get_home_dir, which warns on stderr about a user whom the system does not know.
 */
#include "core/base/home.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include <glib.h>

static char *
home (void)
{
  const char *said = secure_getenv ("HOME");
  char room[4096];
  struct passwd user, *found = NULL;
  if (said && said[0] == '/')
    return g_strdup (said);
  getpwuid_r (getuid (), &user, room, sizeof room, &found);
  return found && found->pw_dir[0] == '/' ? g_strdup (found->pw_dir) : NULL;
}

char *
gm_home_folder (const char *variable, const char *below)
{
  const char *said = secure_getenv (variable);
  if (said && said[0] == '/')
    return g_strdup (said);
  g_autofree char *folder = home ();
  return folder ? g_build_filename (folder, below, NULL) : NULL;
}
