/* SPDX-License-Identifier: Apache-2.0
 * fpu.c -- see fpu.h.
 */
#include "core/plugin/fpu.h"

#include <unistd.h>

#include "core/base/log.h"
#include "core/plugin/loader.h"
#include "core/plugin/quarantine.h"
#include "core/plugin/trust.h"

/* Records the refusal in the quarantine, so that later processes refuse the plugin, with this
 * reason, until its file changes. */
static void
note (const GmPlugin *p, const GmRefused *found)
{
  g_autofree char *canonical = NULL;
  GmRefused why = { 0 };
  GmFileKey key;
  uint64_t libraries;
  int fd = gm_trust_open (p->file, &canonical, &libraries, &why);
  gm_refused_clear (&why);
  if (fd < 0) /* the file is gone, or refused for another reason */
    return;
  gm_file_key_of (fd, libraries, &key);
  close (fd);
  gm_quarantine_note (canonical, &key, found);
}

/* True when called for a plugin for the first time. */
static bool
is_first (const GmPlugin *p)
{
  static GMutex lock;
  static GHashTable *told;
  g_mutex_lock (&lock);
  if (!told)
    told = g_hash_table_new (NULL, NULL);
  bool first = g_hash_table_add (told, (gpointer) p);
  g_mutex_unlock (&lock);
  return first;
}

void
gm_fpu_restore (const GmPlugin *p, GmFpuControl before, const char *when)
{
  GmFpuControl now = gm_fpu_get ();
  before = gm_fpu_exact (before);
  gm_fpu_set (before);
  if (!is_first (p))
    return;
  GmRefused found = { 0 };
  gm_refuse (&found, GM_REFUSAL_CHANGED_FPU, "MXCSR 0x%04x to 0x%04x, x87 0x%04x to 0x%04x, %s",
             before.mxcsr, now.mxcsr, before.x87, now.x87, when);
  gm_log_warn ("back end %s %s; the mode is put back each time, and other processes refuse it",
               p->manifest->name, found.text);
  note (p, &found);
  gm_refused_clear (&found);
}
