/* SPDX-License-Identifier: Apache-2.0
 * needed.c -- see needed.h.  A breadth-first walk that reads each file once.
 */
#include "core/plugin/needed.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/plugin/trust.h"

#define MAX_LIBRARIES 1000
#define DEEPEST 4 /* levels of folders for particular processors inside of each other, at most */
#define CACHE_FILE "/etc/ld.so.cache"
#define CACHE_MAGIC "glibc-ld.so.cache1.1"
#define MAX_CACHE_BYTES ((goffset) 64 << 20)

/* The loader's default folders, searched last. */
static const char *const system_folders[] = { "/lib64",
                                              "/usr/lib64",
                                              "/lib",
                                              "/usr/lib",
#if defined(__x86_64__)
                                              "/lib/x86_64-linux-gnu",
                                              "/usr/lib/x86_64-linux-gnu"
#else
                                              "/lib/aarch64-linux-gnu",
                                              "/usr/lib/aarch64-linux-gnu"
#endif
};

/* The names of folders for particular processors.  "glibc-hwcaps" may contain any; older loaders
 * know these. */
static const char *const processors[] = { "tls",      "haswell", "avx512_1",
                                          "xeon_phi", "x86_64",  "atomics" };

typedef struct {
  /* char: libraries found, named as the loader names them, with a first letter for their origin:
   * OWN, SYSTEM */
  GPtrArray *files;
  /* char: the files in `files`, names already searched for, and folders already checked */
  GHashTable *known;
  GPtrArray *own; /* char: the folders of LD_LIBRARY_PATH, then of the run paths read so far */
  GString *found; /* text whose digest is returned */
  char *cache;    /* CACHE_FILE's bytes, or NULL */
  gsize n_cache;
  GmRefused *why;
} Walk;

#define OWN 'o' /* found by a run path or by an absolute path: checked like the plugin itself */
/* The origin of a library that was found through settings of the administrator: a group may write
 * there, too, as for the libraries of all programs. */
#define SYSTEM 's'

/* -- The loader's cache ------------------------------------------------------------------------ */

/* The header of ldconfig's cache file (glibc, sysdeps/generic/dl-cache.h): rows follow, then the
 * texts to which the rows point. */
typedef struct {
  char magic[20];
  uint32_t n_rows, n_texts;
  uint32_t unused[5];
} CacheHeader;
typedef struct {
  int32_t flags;
  uint32_t name, path; /* offsets from the header */
  uint32_t unused;
  uint64_t processor;
} CacheRow;
G_STATIC_ASSERT (sizeof (CacheHeader) == 48 && sizeof (CacheRow) == 24);

static const char *
cache_text (const char *cache, gsize n, uint32_t at)
{
  return at < n && memchr (cache + at, 0, n - at) ? cache + at : NULL;
}

/* Appends the paths that the loader's cache has for `name`. */
static void
look_into_cache (const Walk *w, const char *name, GPtrArray *paths)
{
  /* A table of the old format may precede this table. */
  const char *cache =
      w->cache ? memmem (w->cache, w->n_cache, CACHE_MAGIC, strlen (CACHE_MAGIC)) : NULL;
  gsize n = cache ? w->n_cache - (gsize) (cache - w->cache) : 0;
  CacheHeader h;
  if (n < sizeof h)
    return;
  memcpy (&h, cache, sizeof h);
  for (uint32_t i = 0; i < MIN (h.n_rows, (n - sizeof h) / sizeof (CacheRow)); i++) {
    CacheRow row;
    memcpy (&row, cache + sizeof h + i * sizeof row, sizeof row);
    const char *of = cache_text (cache, n, row.name), *path = cache_text (cache, n, row.path);
    if (of && path && strcmp (of, name) == 0)
      g_ptr_array_add (paths, g_strdup (path));
  }
}

/* -- Folders ----------------------------------------------------------------------------------- */

static bool
is_new (Walk *w, const char *text)
{
  return g_hash_table_add (w->known, g_strdup (text));
}

/* Returns the folder itself if it exists, else its nearest parent that does, in which it could be
 * created.  The caller frees. */
static char *
nearest_folder (const char *folder)
{
  g_autofree char *at = g_strdup (folder);
  for (;;) {
    char *real = realpath (at, NULL);
    if (real || strcmp (at, "/") == 0)
      return real;
    char *up = g_path_get_dirname (at);
    g_free (at);
    at = up;
  }
}

static bool
check_folder (Walk *w, char whose, const char *of, const char *folder)
{
  if (!is_new (w, folder))
    return true;
  GmRefused inner = { 0 };
  char *real = nearest_folder (folder);
  bool good = real && gm_trust_check_folder (real, whose == SYSTEM, &inner);
  free (real);
  if (!good)
    gm_refuse (w->why, GM_REFUSAL_NEEDED, "%s looks for them in %s, which %s", of, folder,
               inner.text ? inner.text : "cannot be examined");
  gm_refused_clear (&inner);
  return good;
}

/* Appends the paths of the library `name` in the folder and in its subfolders for particular
 * processors. */
static void
look_into (const char *folder, const char *name, int depth, GPtrArray *paths)
{
  g_autofree char *file = g_build_filename (folder, name, NULL);
  g_autofree char *levels = g_build_filename (folder, "glibc-hwcaps", NULL);
  if (access (file, F_OK) == 0)
    g_ptr_array_add (paths, g_strdup (file));
  if (depth == 0)
    return;
  g_autoptr (GDir) dir = depth == DEEPEST ? g_dir_open (levels, 0, NULL) : NULL;
  for (const char *level = dir ? g_dir_read_name (dir) : NULL; level;
       level = g_dir_read_name (dir)) {
    g_autofree char *below = g_build_filename (levels, level, NULL);
    look_into (below, name, 0, paths);
  }
  for (unsigned i = 0; i < G_N_ELEMENTS (processors); i++) {
    g_autofree char *below = g_build_filename (folder, processors[i], NULL);
    if (g_file_test (below, G_FILE_TEST_IS_DIR))
      look_into (below, name, depth - 1, paths);
  }
}

/* Returns the path with $ORIGIN replaced by the folder of the file `of`.  The caller frees. */
static char *
with_origin (const char *of, const char *path)
{
  size_t n = gm_elf_origin_length (path);
  g_autofree char *folder = g_path_get_dirname (of);
  return n ? g_strconcat (folder, path + n, NULL) : g_strdup (path);
}

/* -- Files ------------------------------------------------------------------------------------- */

static void
add_file (Walk *w, char whose, const char *path)
{
  g_autofree char *file = g_strdup_printf ("%c%s", whose, path);
  if (is_new (w, path))
    g_ptr_array_add (w->files, g_steal_pointer (&file));
}

static bool
find_path (Walk *w, char whose, const char *of, const char *path)
{
  g_autofree char *folder = g_path_get_dirname (path);
  if (!check_folder (w, whose, of, folder))
    return false;
  if (access (path, F_OK) == 0)
    add_file (w, whose, path);
  else
    g_string_append_printf (w->found, "%s -\n", path);
  return true;
}

static void
find_name (Walk *w, char whose, const char *name)
{
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);
  if (!is_new (w, name))
    return;
  for (guint i = 0; i < w->own->len; i++)
    look_into (w->own->pdata[i], name, DEEPEST, paths);
  guint n_own = paths->len;
  look_into_cache (w, name, paths);
  for (unsigned i = 0; i < G_N_ELEMENTS (system_folders) && paths->len == n_own; i++)
    look_into (system_folders[i], name, DEEPEST, paths);
  for (guint i = 0; i < paths->len; i++)
    add_file (w, i < n_own ? whose : SYSTEM, paths->pdata[i]);
  if (paths->len == 0)
    g_string_append_printf (w->found, "%s -\n", name);
}

/* Adds the libraries that a file needs to the walk.  whose: the file's origin; of: its path. */
static bool
find_needs (Walk *w, char whose, const GmElfNeeds *needs, const char *of)
{
  for (guint i = 0; i < needs->folders->len; i++) {
    g_autofree char *folder = with_origin (of, needs->folders->pdata[i]);
    if (!check_folder (w, whose, of, folder))
      return false;
    g_ptr_array_add (w->own, g_steal_pointer (&folder));
  }
  for (guint i = 0; i < needs->libraries->len; i++) {
    const char *name = needs->libraries->pdata[i];
    g_autofree char *path = strchr (name, '/') ? with_origin (of, name) : NULL;
    if (!path)
      find_name (w, whose, name);
    else if (!find_path (w, whose, of, path))
      return false;
  }
  return true;
}

/* The result for a library that passed the checks. */
typedef struct {
  char *line; /* its line in the text whose digest is made */
  GmElfNeeds needs;
} Judged;

/* Protects the results for the system's libraries, by path.  Each is checked once per process:
 * checking them for every plugin would take as long as all the rest of a scan. */
static GMutex judged_lock;
static GHashTable *judged; /* path -> Judged, process lifetime */

static void
judged_free (Judged *j)
{
  if (!j)
    return;
  g_free (j->line);
  gm_elf_needs_clear (&j->needs);
  g_free (j);
}

static char *
line_of (const char *path, int fd)
{
  struct stat st = { 0 };
  fstat (fd, &st);
  return g_strdup_printf ("%s %" G_GINT64_MODIFIER "x.%" G_GINT64_MODIFIER "x.%" G_GINT64_MODIFIER
                          "x %ld.%ld %ld.%ld\n",
                          path, (guint64) st.st_dev, (guint64) st.st_ino, (guint64) st.st_size,
                          (long) st.st_mtim.tv_sec, (long) st.st_mtim.tv_nsec,
                          (long) st.st_ctim.tv_sec, (long) st.st_ctim.tv_nsec);
}

/* Checks a library, and returns the result, which the caller frees.  NULL and *why: it must not be
 * loaded. */
static Judged *
judge (char whose, const char *path, GmRefused *why)
{
  GmRefused inner = { 0 };
  char *real = realpath (path, NULL);
  int fd = real ? open (real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
  Judged *j = NULL;
  if (fd >= 0 && gm_trust_check_file (fd, real, whose == SYSTEM, &inner)) {
    j = g_new0 (Judged, 1);
    j->line = line_of (path, fd);
    /* The loader skips a file for another machine, and fails on a file that is no library, but runs
     * neither. */
    if (!gm_elf_read_needs (fd, &j->needs, &inner) && inner.code != GM_REFUSAL_NOT_ELF
        && inner.code != GM_REFUSAL_CLASS && inner.code != GM_REFUSAL_TYPE
        && inner.code != GM_REFUSAL_MACHINE)
      g_clear_pointer (&j, judged_free);
  }
  if (!j)
    gm_refuse (why, GM_REFUSAL_NEEDED, "%s %s", path, inner.text ? inner.text : "cannot be opened");
  if (fd >= 0)
    close (fd);
  gm_refused_clear (&inner);
  free (real);
  return j;
}

static const Judged *
find_judged (const char *path)
{
  g_mutex_lock (&judged_lock);
  const Judged *j = judged ? g_hash_table_lookup (judged, path) : NULL;
  g_mutex_unlock (&judged_lock);
  return j;
}

/* Keeps the result for `path`; steals `fresh`.  Returns the result that is kept, borrowed, which
 * may be another thread's. */
static const Judged *
keep_judged (const char *path, Judged *fresh)
{
  g_mutex_lock (&judged_lock);
  if (!judged)
    judged = g_hash_table_new (g_str_hash, g_str_equal);
  const Judged *j = g_hash_table_lookup (judged, path);
  if (j)
    judged_free (fresh);
  else
    g_hash_table_insert (judged, g_strdup (path), fresh);
  g_mutex_unlock (&judged_lock);
  return j ? j : fresh;
}

static bool
check_library (Walk *w, char whose, const char *path)
{
  if (whose != SYSTEM) {
    Judged *j = judge (whose, path, w->why);
    bool good = j && find_needs (w, whose, &j->needs, path);
    g_string_append (w->found, j ? j->line : "");
    judged_free (j);
    return good;
  }
  const Judged *j = find_judged (path);
  if (!j) {
    Judged *fresh = judge (whose, path, w->why);
    if (!fresh)
      return false;
    j = keep_judged (path, fresh);
  }
  g_string_append (w->found, j->line);
  return find_needs (w, whose, &j->needs, path);
}

/* -- The walk ---------------------------------------------------------------------------------- */

static void
walk_begin (Walk *w, GmRefused *why)
{
  const char *list = secure_getenv ("LD_LIBRARY_PATH");
  struct stat st;
  *w = (Walk){ .files = g_ptr_array_new_with_free_func (g_free),
               .known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL),
               .own = g_ptr_array_new_with_free_func (g_free),
               .found = g_string_new (NULL),
               .why = why };
  g_auto (GStrv) folders = g_strsplit_set (list ? list : "", ":;", -1);
  for (char **f = folders; *f; f++)
    /* The loader treats an empty entry as the current folder. */
    g_ptr_array_add (w->own, g_strdup (**f ? *f : "."));
  if (stat (CACHE_FILE, &st) == 0 && st.st_size <= MAX_CACHE_BYTES)
    g_file_get_contents (CACHE_FILE, &w->cache, &w->n_cache, NULL);
}

static void
walk_end (Walk *w)
{
  g_ptr_array_unref (w->files);
  g_hash_table_unref (w->known);
  g_ptr_array_unref (w->own);
  g_string_free (w->found, TRUE);
  g_free (w->cache);
}

bool
gm_needed_check (int fd, const char *canonical, uint64_t *digest, GmRefused *why)
{
  Walk w;
  g_auto (GmElfNeeds) needs = { 0 };
  walk_begin (&w, why);
  bool good = gm_elf_read_needs (fd, &needs, why) && find_needs (&w, OWN, &needs, canonical);
  for (guint i = 0; i < w.files->len && good; i++) {
    const char *file = w.files->pdata[i];
    good = i < MAX_LIBRARIES
               ? check_library (&w, file[0], file + 1)
               : gm_refuse (why, GM_REFUSAL_NEEDED, "more than %d of them", MAX_LIBRARIES);
  }
  g_autofree char *sum = g_compute_checksum_for_string (G_CHECKSUM_SHA256, w.found->str, -1);
  sum[16] = 0;
  *digest = g_ascii_strtoull (sum, NULL, 16);
  walk_end (&w);
  return good;
}
