/* SPDX-License-Identifier: Apache-2.0
 * level_life.c -- levels 3 and 4: the state of the process around a plugin, and opening and
 * closing.
 */
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "tools/kit/kit.h"

#define LIVES 50
#define LEAK_BYTES (48 * 1024)

/* Runs a whole life: opens, asks, compiles, runs, closes; does nothing if the plugin takes no small
 * graph. */
static void
live (Kit *k, const GmGraph *g)
{
  kit_open (k);
  if (g) {
    GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME), **want = kit_interpret (k, g, in);
    GrammeExecutable *e = kit_compile (k, g, NULL);
    kit_run (k, e, GRAMME_FORWARD, g, in, want, NULL);
    kit_destroy (k, e);
    kit_free_tensors (in, g->inputs->len);
    kit_free_tensors (want, g->outputs->len);
  }
  kit_close (k);
}

/* Returns a graph for the cases, and interprets it once, so that the host's own one-time work
 * (threads, tables) is done before and is not taken for the plugin's.  The plugin is loaded and
 * open for a while, since the graph depends on its verdicts. */
static GmGraph *
graph_for (Kit *k)
{
  kit_open (k);
  GmGraph *g = kit_small_graph (k, 4, 6);
  kit_close (k);
  GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME);
  kit_free_tensors (kit_interpret (k, g, in), g->outputs->len);
  kit_free_tensors (in, g->inputs->len);
  return g;
}

static void
check_snapshot (Kit *k, const GmSnapshot *before, const char *when)
{
  GmRefused why = { 0 };
  bool same = gm_snapshot_check (before, when, &why);
  for (int i = 0;
       i < 20 && !same
       && (why.code == GM_REFUSAL_CHANGED_THREADS || why.code == GM_REFUSAL_CHANGED_CHILDREN);
       i++) {
    /* Threads and processes may take a while to end, where the machine is busy. */
    g_usleep (100000);
    gm_refused_clear (&why);
    same = gm_snapshot_check (before, when, &why);
  }
  if (!same)
    kit_fail (k, why.code == GM_REFUSAL_CHANGED_CHILDREN ? "GPP-16" : NULL, "%s", why.text);
}

/* True if the plugin uses NVIDIA's driver, which opens descriptors once for a process, and keeps
 * them: a first life leaves them behind, and a second one adds none. */
static bool
has_driver (const Kit *k)
{
  return g_strv_contains ((const char *const *) k->manifest->devices, "cuda");
}

void
kit_hygiene_process (Kit *k)
{
  kit_host_init (k, k->host_minor);
  if (has_driver (k) && g_file_test ("/dev/nvidiactl", G_FILE_TEST_EXISTS)) {
    kit_note (
        k,
        "what its device's driver keeps for the process, threads and descriptors, is there before");
    kit_load (k);
    g_autoptr (GmGraph) first = graph_for (k);
    live (k, first);
  }
  g_autoptr (GmSnapshot) before = gm_snapshot_new (true);
  kit_load (k);
  check_snapshot (k, before, "when it was loaded and asked what it is");
  kit_open (k);
  kit_close (k);
  check_snapshot (k, before, "by open and close");
  kit_open (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 4, 6);
  GrammeExecutable *e = kit_compile (k, g, NULL);
  GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME);
  GmFpuControl fpu = gm_fpu_get ();
  kit_run (k, e, GRAMME_FORWARD, g, in, NULL, NULL);
  if (!gm_fpu_equal (fpu, gm_fpu_get ()))
    kit_fail (k, NULL, "a run changes the floating-point mode");
  kit_destroy (k, e);
  kit_close (k);
  check_snapshot (k, before, "by a compile, a run and close");
}

void
kit_hygiene_silent (Kit *k)
{
  FILE *output = tmpfile ();
  struct stat st;
  if (!output || dup2 (fileno (output), 1) < 0 || dup2 (fileno (output), 2) < 0)
    kit_skip (k, "the descriptors cannot be replaced");
  close (0);
  kit_load (k);
  g_autoptr (GmGraph) g = graph_for (k);
  live (k, g);
  fflush (NULL);
  char text[200] = "";
  if (fstat (fileno (output), &st) == 0 && st.st_size > 0) {
    ssize_t n = pread (fileno (output), text, sizeof text - 1, 0);
    text[MAX (n, 0)] = 0;
    kit_fail (k, NULL, "prints %ld bytes: \"%s\"; log and diag are for that", (long) st.st_size,
              text);
  }
}

/* Returns a descriptor above the standard ones that a child would inherit; -1: none. */
static int
find_open_at_exec (void)
{
  for (int fd = 3; fd < 1024; fd++) {
    int flags = fcntl (fd, F_GETFD);
    if (flags >= 0 && !(flags & FD_CLOEXEC))
      return fd;
  }
  return -1;
}

void
kit_hygiene_descriptors (Kit *k)
{
  for (int fd = 3; fd < 1024; fd++) /* descriptors that the kit itself was started with */
    if (fcntl (fd, F_GETFD) >= 0)
      fcntl (fd, F_SETFD, FD_CLOEXEC);
  kit_load (k);
  int fd = find_open_at_exec ();
  g_autoptr (GmGraph) g = fd < 0 ? graph_for (k) : NULL;
  if (fd < 0) {
    kit_open (k);
    GrammeExecutable *e = kit_compile (k, g, NULL);
    GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME);
    kit_run (k, e, GRAMME_FORWARD, g, in, NULL, NULL);
    fd = find_open_at_exec ();
    kit_destroy (k, e);
    kit_close (k);
  }
  if (fd >= 0)
    kit_fail (k, NULL, "opens descriptor %d without O_CLOEXEC: every child of the program gets it",
              fd);
}

void
kit_hygiene_children (Kit *k)
{
  kit_load (k);
  g_autoptr (GmGraph) g = graph_for (k);
  int status = 0;
  pid_t mine = fork ();
  if (mine == 0)
    _exit (42);
  if (mine < 0)
    kit_skip (k, "no process can be started");
  g_usleep (20000);
  live (k, g);
  if (waitpid (mine, &status, WNOHANG) != mine || WEXITSTATUS (status) != 42)
    kit_fail (k, NULL, "waits for a child that is not its own");
  siginfo_t info;
  int left = 0;
  for (int i = 0; i < 20 && (left = waitid (P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT)) == 0;
       i++)
    g_usleep (100000); /* stopping may take a while */
  if (left == 0)
    kit_fail (k, NULL, "leaves a process behind");
}

/* Returns the first entry of a folder, in a static buffer; NULL: it is empty. */
static const char *
first_entry (const char *folder)
{
  static char name[256];
  DIR *dir = opendir (folder);
  for (struct dirent *e = dir ? readdir (dir) : NULL; e; e = readdir (dir))
    if (strcmp (e->d_name, ".") != 0 && strcmp (e->d_name, "..") != 0) {
      g_strlcpy (name, e->d_name, sizeof name);
      closedir (dir);
      return name;
    }
  if (dir)
    closedir (dir);
  return NULL;
}

static bool
holds_only (const char *folder, const char *name)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const char *first = dir ? g_dir_read_name (dir) : NULL;
  return first && strcmp (first, name) == 0 && !g_dir_read_name (dir);
}

/* True if HOME contains only the cache of NVIDIA's driver, which is not a file of the plugin's. */
static bool
is_drivers_cache (const Kit *k, const char *home)
{
  g_autofree char *folder = g_build_filename (home, ".nv", NULL),
                  *cache = g_build_filename (folder, "ComputeCache", NULL);
  return has_driver (k) && holds_only (home, ".nv") && holds_only (folder, "ComputeCache")
         && g_file_test (cache, G_FILE_TEST_IS_DIR);
}

void
kit_hygiene_files (Kit *k)
{
  enum { HOME = 2, CACHE = 3 }; /* from here on: for caches, of its own or of a tool that it runs */
  static const char *const names[] = { "cwd", "TMPDIR", "HOME", "XDG_RUNTIME_DIR",
                                       "XDG_CACHE_HOME" };
  char *folders[G_N_ELEMENTS (names)];
  g_autofree char *root = g_dir_make_tmp ("gramme-kit-XXXXXX", NULL);
  if (!root)
    kit_skip (k, "there is no folder for temporary files");
  for (size_t i = 0; i < G_N_ELEMENTS (names); i++) {
    folders[i] = g_build_filename (root, names[i], NULL);
    g_mkdir (folders[i], 0700);
    if (i > 0)
      g_setenv (names[i], folders[i], TRUE);
  }
  if (g_chdir (folders[0]) != 0)
    kit_skip (k, "the current folder cannot be changed");
  kit_load (k);
  g_autoptr (GmGraph) g = graph_for (k);
  live (k, g);
  const char *left = NULL;
  g_autofree char *where = NULL;
  for (size_t i = 0; i < CACHE && !left; i++) {
    bool cache = i == HOME && is_drivers_cache (k, folders[i]);
    if (cache)
      kit_note (k, "the driver's own cache is HOME/.nv/ComputeCache");
    left = cache ? NULL : first_entry (folders[i]);
    where = left ? g_build_filename (names[i], left, NULL) : NULL;
  }
  (void) !g_chdir ("/");
  g_autofree char *command = g_strdup_printf ("rm -rf '%s'", root);
  (void) !system (command);
  if (where)
    kit_fail (k, NULL, "leaves the file %s behind", where);
}

/* -- Life -------------------------------------------------------------------------------------- */

static void
check_blocks (Kit *k)
{
  if (k->host.live_blocks)
    kit_fail (k, "GPP-12",
              "has %" G_GUINT64_FORMAT " blocks of the host's memory (%" G_GUINT64_FORMAT
              " bytes) after close",
              k->host.live_blocks, k->host.live_bytes);
}

void
kit_life_again (Kit *k)
{
  kit_load (k);
  g_autoptr (GmGraph) g = graph_for (k);
  live (k, g);
  g_autoptr (GmSnapshot) before = gm_snapshot_new (true);
  for (int i = 0; i < LIVES; i++) {
    kit_open (k);
    kit_close (k);
  }
  for (int i = 0; i < 3; i++)
    live (k, g);
  check_blocks (k);
  check_snapshot (k, before, "by opening and closing it again and again");
}

void
kit_life_nested (Kit *k)
{
  kit_open (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 3, 4), other = kit_small_graph (k, 5, 2);
  GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME), **want = kit_interpret (k, g, in);
  GmTensor **in2 = kit_inputs (other, 2, GM_RANDOM_TAME), **want2 = kit_interpret (k, other, in2);
  GrammeBackend *first = k->backend;
  GrammeExecutable *a = kit_compile (k, g, NULL);
  GrammeBackend *second = k->backend = kit_open_another (k);
  GrammeExecutable *b = kit_compile (k, other, NULL);
  kit_run (k, a, GRAMME_FORWARD, g, in, want, NULL);
  kit_run (k, b, GRAMME_FORWARD, other, in2, want2, NULL);
  kit_destroy (k, a);
  k->backend = first;
  kit_close (k);
  /* Closing the first one did not end the other. */
  kit_run (k, b, GRAMME_FORWARD, other, in2, want2, NULL);
  kit_destroy (k, b);
  k->backend = second;
  kit_close (k);
  check_blocks (k);
  kit_free_tensors (in, g->inputs->len);
  kit_free_tensors (want, g->outputs->len);
  kit_free_tensors (in2, other->inputs->len);
  kit_free_tensors (want2, other->outputs->len);
}

typedef struct {
  Kit *k;
  GrammeExecutable *e;
} Doomed;

static void
destroy_elsewhere (void *data, unsigned i)
{
  Doomed *d = data;
  kit_destroy (d->k, d->e);
}

void
kit_life_destroy (Kit *k)
{
  enum { N = 6 };
  static const uint8_t order[N] = { 3, 0, 5, 1, 4, 2 };
  kit_open (k);
  GmGraph *g[N];
  GmTensor **in[N], **want[N];
  GrammeExecutable *e[N];
  for (int i = 0; i < N; i++) {
    g[i] = kit_small_graph (k, 2 + i, 7 - i);
    in[i] = kit_inputs (g[i], (uint64_t) i, GM_RANDOM_TAME);
    want[i] = kit_interpret (k, g[i], in[i]);
    e[i] = kit_compile (k, g[i], NULL);
  }
  for (int n = 0; n < N; n++) {
    Doomed d = { k, e[order[n]] };
    if (n % 2)
      kit_destroy (k, d.e);
    else
      kit_on_threads (1, destroy_elsewhere, &d);
    for (int i = n + 1; i < N; i++) /* the others must be unaffected */
      kit_run (k, e[order[i]], GRAMME_FORWARD, g[order[i]], in[order[i]], want[order[i]], NULL);
  }
  kit_close (k);
  check_blocks (k);
  for (int i = 0; i < N; i++) {
    kit_free_tensors (in[i], g[i]->inputs->len);
    kit_free_tensors (want[i], g[i]->outputs->len);
    gm_graph_free (g[i]);
  }
}

void
kit_life_leaks (Kit *k)
{
  kit_open (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 3, 4);
  /* A plugin that starts compilers needs more time. */
  unsigned rounds = g_strv_length (k->manifest->needs) ? 8 : 200;
  size_t before = 0;
  for (unsigned i = 0; i < rounds + 20; i++) {
    if (i == 20)
      before = mallinfo2 ().uordblks + mallinfo2 ().hblkhd;
    GrammeExecutable *e = kit_compile (k, g, NULL);
    kit_destroy (k, e);
  }
  g_usleep (g_strv_length (k->manifest->needs) ? 300000 : 0); /* background work comes to an end */
  size_t after = mallinfo2 ().uordblks + mallinfo2 ().hblkhd;
  kit_close (k);
  check_blocks (k);
  if (after > before + LEAK_BYTES)
    kit_fail (k, NULL, "%u times compile and destroy leave %zu bytes", rounds, after - before);
}

/* Makes work for the host's services, which check each block, and checks that everything is freed.
 */
void
kit_life_memory (Kit *k)
{
  kit_open (k);
  kit_learn (k);
  for (uint32_t i = 0; i < MIN (k->n_graphs, 10u); i++) {
    uint64_t seed;
    g_autoptr (GmGraph) g = kit_random_graph (k, i, (GmRandomGraph){ .strided = true }, &seed);
    GmTensor **in = kit_inputs (g, seed, GM_RANDOM_TAME);
    if (g->outputs->len)
      kit_check_graph (k, g, in);
    kit_free_tensors (in, g->inputs->len);
  }
  kit_close (k);
  check_blocks (k);
  if (k->host.n_allocs == 0)
    kit_note (k, "it asked the host for no memory");
}
