/* SPDX-License-Identifier: Apache-2.0
 * plugins.c -- what plugins cost: listing, loading, trying, a call.
 *
 *   ./in-tree bench/plugins [NUMBER OF PLUGINS]      50; best of 20 rounds
 *
 * Copies the plugin null into a folder as often, each under its own id and name, and measures
 *   listing     gm_registry_scan, with all of them known good, and with none known
 *   trying      one in a process of its own: once in the life of a file
 *   loading     dlopen to opened, of one that was tried
 *   a call      gm_exec_call around a plugin's function, less a direct call of that function
 */
#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/run/exec.h"
#include "core/plugin/probe.h"
#include "core/plugin/trust.h"

static double
now_us (void)
{
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}

static char *
copy_plugin (const char *folder, const char *bytes, gsize n, unsigned i)
{
  static const char id[] = "org.gramme.null\nname=null";
  char other[sizeof id];
  g_snprintf (other, sizeof other, "org.gramme.n%03u\nname=n%03u", i, i);
  char *mine = g_memdup2 (bytes, n);
  for (gsize at = 0; at + sizeof id <= n; at++)
    if (memcmp (mine + at, id, sizeof id - 1) == 0)
      memcpy (mine + at, other, sizeof id - 1);
  char *file = g_strdup_printf ("%s/libgramme-n%03u.so", folder, i);
  if (!g_file_set_contents (file, mine, (gssize) n, NULL) || g_chmod (file, 0755) != 0)
    exit (2);
  g_free (mine);
  return file;
}

static double
list_us (unsigned want)
{
  double best = 1e12;
  for (int i = 0; i < 20; i++) {
    double start = now_us ();
    GPtrArray *all = gm_registry_scan ();
    double took = now_us () - start;
    unsigned good = 0;
    for (guint k = 0; k < all->len; k++)
      good += ((GmPluginInfo *) all->pdata[k])->refused.code == GM_REFUSAL_NONE;
    if (good < want)
      exit (3);
    g_ptr_array_unref (all);
    best = took < best ? took : best;
  }
  return best;
}

static int32_t
nothing (GrammeExecutable *e, const GrammeRunArgs *args, GrammeStatus *status)
{
  return args->n_inputs != 0;
}

/* The difference of two loops, so that only what the table adds is left. */
static void
measure_call (void)
{
  enum { N = 10000000 };
  GmPlugin plugin = { .api = { .run = nothing } };
  GmBackend b = { .plugin = &plugin, .name = "bench", .run_concurrent = true };
  GmExec e = { .backend = &b };
  GrammeRunArgs args = { .struct_size = sizeof args };
  int32_t (*volatile direct) (GrammeExecutable *, const GrammeRunArgs *, GrammeStatus *) = nothing;
  double through = 1e12, alone = 1e12;
  for (int round = 0; round < 5; round++) {
    double start = now_us ();
    for (int i = 0; i < N; i++)
      gm_exec_call (&e, NULL, &args, NULL);
    double middle = now_us ();
    for (int i = 0; i < N; i++)
      direct (NULL, &args, NULL);
    through = MIN (through, middle - start);
    alone = MIN (alone, now_us () - middle);
  }
  printf ("a call: %.2f ns through the table, %.2f ns directly: %.2f ns more\n", through * 1000 / N,
          alone * 1000 / N, (through - alone) * 1000 / N);
}

int
main (int argc, char **argv)
{
  unsigned n = argc > 1 ? (unsigned) atoi (argv[1]) : 50;
  char *folder = g_dir_make_tmp ("gramme-bench-XXXXXX", NULL),
       *state = g_build_filename (folder, "state", NULL);
  char **known = gm_registry_folders (), *bytes = NULL, **files = g_new0 (char *, n + 1);
  gsize length = 0;
  for (char **f = known; *f && !bytes; f++) {
    char *null = g_build_filename (*f, "libgramme-null.so", NULL);
    g_file_get_contents (null, &bytes, &length, NULL);
    g_free (null);
  }
  if (!bytes) {
    fprintf (stderr, "there is no libgramme-null.so to copy\n");
    return 2;
  }
  g_setenv ("GRAMME_PLUGIN_PATH", folder, TRUE);
  g_setenv ("GRAMME_PLUGIN_TRUST", folder, TRUE);
  g_setenv ("GM_STATE", state, TRUE);
  for (unsigned i = 0; i < n; i++)
    files[i] = copy_plugin (folder, bytes, length, i);

  printf ("listing %u plugins that nobody has tried: %.2f ms\n", n, list_us (n) / 1000);
  double try_us = 0, load_us = 1e12;
  for (unsigned i = 0; i < n; i++) {
    GmRefused why = { 0 };
    double start = now_us ();
    GmPlugin *p = gm_loader_load (files[i], &why);
    double took = now_us () - start;
    if (!p) {
      fprintf (stderr, "%s %s\n", files[i], why.text);
      return 3;
    }
    try_us = i == 0 || took < try_us ? took : try_us;
  }
  printf ("listing %u plugins that were tried: %.2f ms\n", n, list_us (n) / 1000);
  for (unsigned i = 0; i < n;
       i++) { /* the library is there already: what is left is the host's part */
    GmRefused why = { 0 };
    double start = now_us ();
    GmPlugin *p = gm_loader_load (files[i], &why);
    GrammeBackend *b = p ? gm_loader_open (p, &why) : NULL;
    load_us = MIN (load_us, now_us () - start);
    if (b)
      p->api.close (b);
  }
  printf ("trying one in a process of its own, and loading it: %.2f ms\n", try_us / 1000);
  printf ("loading one that was tried, mapped already: %.2f ms\n", load_us / 1000);
  fflush (stdout);
  pid_t child = fork (); /* a process that has mapped none of a fresh copy */
  if (child == 0) {
    char *fresh = copy_plugin (folder, bytes, length, 999);
    GmRefused why = { 0 };
    GmFileKey key;
    uint64_t libraries = 0;
    g_autofree char *canonical = NULL;
    gm_file_key_of (gm_trust_open (fresh, &canonical, &libraries, &why), libraries, &key);
    gm_quarantine_note (fresh, &key, &why);
    double start = now_us ();
    GmPlugin *p = gm_loader_load (fresh, &why);
    GrammeBackend *b = p ? gm_loader_open (p, &why) : NULL;
    printf ("loading one that was tried, from its file: %.2f ms\n", (now_us () - start) / 1000);
    fflush (stdout);
    _exit (b ? 0 : 1);
  }
  int status;
  if (waitpid (child, &status, 0) != child || status != 0)
    return 3;
  measure_call ();
  char *command = g_strdup_printf ("rm -rf '%s'", folder);
  return system (command) != 0;
}
