/* SPDX-License-Identifier: Apache-2.0
 * sidecar.c -- see sidecar.h.
 */
#include "core/plugin/sidecar.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/plugin/trust.h"
#include "plugin-api/gramme-plugin.h"

#define SUFFIX ".manifest"

static char *
read_text (int fd, GmRefused *why)
{
  struct stat st;
  if (fstat (fd, &st) != 0 || st.st_size < 1 || st.st_size >= GRAMME_MANIFEST_MAX_BYTES) {
    gm_refuse (why, GM_REFUSAL_MANIFEST, "the file beside it has %lld bytes; 1 to %u are read",
               (long long) st.st_size, GRAMME_MANIFEST_MAX_BYTES - 1);
    return NULL;
  }
  g_autofree char *text = g_malloc0 ((gsize) st.st_size + 1);
  for (off_t at = 0; at < st.st_size;) {
    ssize_t n = pread (fd, text + at, (size_t) (st.st_size - at), at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      break;
    at += n;
  }
  if (strlen (text) != (size_t) st.st_size || !g_utf8_validate (text, -1, NULL)) {
    gm_refuse (why, GM_REFUSAL_MANIFEST, "the file beside it is not UTF-8 up to its end");
    return NULL;
  }
  return g_steal_pointer (&text);
}

char *
gm_manifest_read (int fd, const char *canonical, GmRefused *why)
{
  g_autofree char *path = g_strconcat (canonical, SUFFIX, NULL), *real = NULL;
  GmRefused in_file = { 0 };
  char *note = gm_elf_read_manifest (fd, &in_file);
  bool beside = g_file_test (path, G_FILE_TEST_EXISTS | G_FILE_TEST_IS_SYMLINK);
  /* There is no file beside the plugin, or its own note is damaged. */
  if (!beside || (!note && in_file.code != GM_REFUSAL_NO_NOTE)) {
    if (why->code == GM_REFUSAL_NONE)
      *why = in_file;
    else
      gm_refused_clear (&in_file);
    return note;
  }
  gm_refused_clear (&in_file);
  if (note) {
    g_free (note);
    gm_refuse (why, GM_REFUSAL_TWO_NOTES, "%s", path);
    return NULL;
  }
  int other = gm_trust_open_plain (path, &real, why);
  if (other < 0)
    return NULL;
  char *text = read_text (other, why);
  close (other);
  return text;
}
