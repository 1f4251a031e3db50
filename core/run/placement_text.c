/* SPDX-License-Identifier: Apache-2.0
 * placement_text.c -- the text for explain and `gramme inspect --graph` that says which nodes run
 * where and why.
 *
 *   forward: 7 of 9 nodes in 2 regions of tcc
 *     region 0: mul, add, exp
 *     eager: cumsum at train.py:12: it does not know this operator
 *
 * Where sizes are symbolic and the plugin does not take them, the text gives the reason, and the
 * places for the last call's numbers.  Nodes that are equal in name, place and reason share a line,
 * with their number.
 */
#include <string.h>

#include "core/run/sized.h"
#include "core/run/tiers.h"

static void
add_counted (GString *text, const char *name, unsigned n, bool first)
{
  g_string_append_printf (text, "%s%s", first ? " " : ", ", name);
  if (n > 1)
    g_string_append_printf (text, " (%u)", n);
}

/* Appends the names of the region's nodes, in their order; equal neighbours are counted. */
static void
add_region (GString *text, const GmExecPlaces *p, uint32_t region)
{
  g_string_append_printf (text, "  region %u:", region);
  bool first = true;
  const char *name = NULL;
  unsigned n = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    if (p->rows[i].where != GM_PLACE_PLUGIN || p->rows[i].region != region)
      continue;
    if (name && strcmp (name, p->names[i]) != 0) {
      add_counted (text, name, n, first);
      first = false;
      n = 0;
    }
    name = p->names[i];
    n++;
  }
  add_counted (text, name, n, first);
  g_string_append_c (text, '\n');
}

static void
add_host (GString *text, const GmExecPlaces *p)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GPtrArray) lines = g_ptr_array_new ();
  for (uint32_t i = 0; i < p->n; i++) {
    if (p->rows[i].where != GM_PLACE_HOST)
      continue;
    char *line = g_strdup_printf ("%s%s%s", p->names[i], p->rows[i].why ? ": " : "",
                                  p->rows[i].why ? p->rows[i].why : "");
    unsigned n = GPOINTER_TO_UINT (g_hash_table_lookup (seen, line));
    if (n == 0) {
      g_ptr_array_add (lines, line);
      g_hash_table_insert (seen, line, GUINT_TO_POINTER (1));
    } else {
      /* Frees `line`, since the key is already in the table. */
      g_hash_table_insert (seen, line, GUINT_TO_POINTER (n + 1));
    }
  }
  for (guint i = 0; i < lines->len; i++) {
    unsigned n = GPOINTER_TO_UINT (g_hash_table_lookup (seen, lines->pdata[i]));
    g_string_append_printf (text, "  eager: %s", (char *) lines->pdata[i]);
    if (n > 1)
      g_string_append_printf (text, " (%u times)", n);
    g_string_append_c (text, '\n');
  }
}

static void
add_every (GString *text, const GmExecPlaces *p, const char *backend)
{
  for (uint32_t i = 0; i < p->n; i++) {
    const GmExecPlace *row = &p->rows[i];
    g_autofree char *where = row->where == GM_PLACE_PLUGIN
                                 ? g_strdup_printf ("%s, region %u", backend, row->region)
                             : row->where == GM_PLACE_HOST ? g_strdup ("eager")
                                                           : g_strdup ("wherever it is read");
    g_string_append_printf (text, "  %4u %-40s %s%s%s\n", i, p->names[i], where,
                            row->why ? ": " : "", row->why ? row->why : "");
  }
}

static void
add_role (GString *text, const GmExec *e, int role, bool every)
{
  const GmExecPlaces *p = &e->roles[role].places;
  uint32_t n_plugin = 0, n_host = 0, n_regions = 0, first = GM_NO_ID;
  for (uint32_t i = 0; i < p->n; i++) {
    n_plugin += p->rows[i].where == GM_PLACE_PLUGIN;
    n_host += p->rows[i].where == GM_PLACE_HOST;
    if (p->rows[i].where == GM_PLACE_PLUGIN) {
      n_regions = MAX (n_regions, p->rows[i].region + 1);
      first = MIN (first, p->rows[i].region);
    }
  }
  uint32_t n = n_plugin ? n_regions - first : 0;
  g_string_append_printf (text, "%s: %u of %u nodes in %u region%s of %s%s\n",
                          gm_exec_role_name (e, role), n_plugin, n_plugin + n_host, n,
                          n == 1 ? "" : "s", e->backend->name, n_host ? "" : ", nothing in eager");
  if (every) {
    add_every (text, p, e->backend->name);
    return;
  }
  for (uint32_t r = first; n_plugin && n_host && r < n_regions; r++) {
    bool there = false; /* false for a region that the host took over: it has no node */
    for (uint32_t i = 0; i < p->n && !there; i++)
      there = p->rows[i].where == GM_PLACE_PLUGIN && p->rows[i].region == r;
    if (there)
      add_region (text, p, r);
  }
  add_host (text, p);
}

char *
gm_exec_places_text (const GmExec *e, bool every)
{
  if (e->tiers) {
    char *now = gm_exec_places_text (gm_tiers_enter (e->tiers), every);
    gm_tiers_leave (e->tiers);
    return now;
  }
  GString *text = g_string_new (NULL);
  if (e->sized && gm_sized_why (e->sized)) { /* no call has run yet */
    g_autofree char *last = gm_sized_places_text (e->sized, every);
    g_string_append_printf (text, "%s compiles for the numbers of each call: %s\n%s",
                            e->backend->name, gm_sized_why (e->sized), last ? last : "");
    return g_string_free (text, FALSE);
  }
  for (int role = 0; role < 2; role++)
    if (e->roles[role].places.n > 0)
      add_role (text, e, role, every);
  return g_string_free (text, text->len == 0);
}
