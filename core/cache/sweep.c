/* SPDX-License-Identifier: Apache-2.0
 * sweep.c -- all entries at once: listed, checked, cleared, and evicted when they are too many.
 *
 * An entry's modification time is the time of its last use; finding it sets it.  Two processes may
 * sweep at once: a file that is gone already is no error, and at worst both together remove a
 * little more than one would have.
 */
#include "core/cache/private.h"
#include "core/base/environment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_MB 1024
#define TEMPORARY_AGE_S 3600

typedef struct {
  char name[2 * GM_CACHE_KEY_BYTES + 1];
  uint64_t bytes;
  struct timespec used;
} Item;

/* Returns the entries, unsorted, which the caller frees; calls `others` for each file that is no
 * entry. */
static GArray *
scan (int folder, void (*others) (int folder, const char *name, const struct stat *st))
{
  GArray *items = g_array_new (FALSE, FALSE, sizeof (Item));
  int own = openat (folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* fdopendir takes it over */
  DIR *dir = own >= 0 ? fdopendir (own) : NULL;
  if (!dir && own >= 0)
    close (own);
  for (struct dirent *d; dir && (d = readdir (dir)) != NULL;) {
    struct stat st;
    if (fstatat (folder, d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (!gm_cache_is_entry_name (d->d_name)) {
      if (others)
        others (folder, d->d_name, &st);
      continue;
    }
    Item item = { .bytes = (uint64_t) st.st_size, .used = st.st_mtim };
    memcpy (item.name, d->d_name, sizeof item.name);
    g_array_append_val (items, item);
  }
  if (dir)
    closedir (dir);
  return items;
}

static int
by_use (const void *a, const void *b)
{
  const Item *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec)
    return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* -- Room -------------------------------------------------------------------------------------- */

static uint64_t
limit_bytes (void)
{
  return (uint64_t) gm_environment_number ("GRAMME_CACHE_MB", 0, INT64_MAX >> 20, DEFAULT_MB) << 20;
}

static void
reap (int folder, const char *name, const struct stat *st)
{
  if (g_str_has_prefix (name, GM_CACHE_TEMPORARY) && st->st_mtime < time (NULL) - TEMPORARY_AGE_S)
    unlinkat (folder, name, 0);
}

void
gm_cache_make_room (int folder, uint64_t more)
{
  g_autoptr (GArray) items = scan (folder, reap);
  uint64_t limit = limit_bytes (), all = more;
  for (guint i = 0; i < items->len; i++)
    all += g_array_index (items, Item, i).bytes;
  if (all <= limit)
    return;
  g_array_sort (items, by_use);
  for (guint i = 0; i < items->len && all > limit - limit / 8; i++) {
    const Item *item = &g_array_index (items, Item, i);
    if (unlinkat (folder, item->name, 0) == 0)
      all -= item->bytes;
  }
}

/* -- For people -------------------------------------------------------------------------------- */

GmCacheRow *
gm_cache_list (bool do_check, size_t *n, char **why)
{
  uint8_t secret[GM_CACHE_SECRET_BYTES];
  int folder = gm_cache_open (true, secret, why);
  *n = 0;
  if (folder < 0)
    return NULL;
  g_autoptr (GArray) items = scan (folder, NULL);
  g_array_sort (items, by_use);
  GmCacheRow *rows = g_new0 (GmCacheRow, items->len + 1);
  for (guint i = items->len; i-- > 0;) {
    const Item *item = &g_array_index (items, Item, i);
    GmCacheRow *row = &rows[(*n)++];
    GmCacheEntry entry;
    memcpy (row->name, item->name, sizeof row->name);
    row->bytes = item->bytes;
    row->used_s = item->used.tv_sec;
    if (!do_check)
      continue;
    gm_cache_read_entry (folder, item->name, secret, &entry, row->label, &row->why);
    gm_cache_entry_clear (&entry);
    /* Reading an entry for a listing is no use of it. */
    const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, item->used };
    utimensat (folder, item->name, times, AT_SYMLINK_NOFOLLOW);
  }
  close (folder);
  return rows;
}

void
gm_cache_rows_free (GmCacheRow *rows, size_t n)
{
  for (size_t i = 0; i < n; i++)
    g_free (rows[i].why);
  g_free (rows);
}

static void
remove_own (int folder, const char *name, const struct stat *st)
{
  (void) st;
  if (g_str_has_prefix (name, GM_CACHE_TEMPORARY) || strcmp (name, GM_CACHE_SECRET) == 0)
    unlinkat (folder, name, 0);
}

int64_t
gm_cache_clear (char **why)
{
  int folder = gm_cache_open (false, NULL, why), failed = 0;
  int64_t n = 0, kept = 0;
  if (folder < 0)
    return -1;
  g_autoptr (GArray) items = scan (folder, remove_own);
  for (guint i = 0; i < items->len; i++)
    if (unlinkat (folder, g_array_index (items, Item, i).name, 0) == 0) {
      n++;
    } else if (errno != ENOENT) { /* else another process was faster */
      kept++;
      failed = errno;
    }
  close (folder);
  if (kept)
    gm_cache_fail (why, "%" G_GINT64_FORMAT " of %u entries cannot be removed: %s", kept,
                   items->len, g_strerror (failed));
  return n;
}
