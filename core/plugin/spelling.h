/* SPDX-License-Identifier: Apache-2.0
 * spelling.h -- suggestions for a misspelt name: the names within a small edit distance of it.
 */
#ifndef GM_PLUGIN_SPELLING_H
#define GM_PLUGIN_SPELLING_H

#include <stdbool.h>

#include <glib.h>

/* Returns the number of insertions, deletions, replacements and swaps of neighbours that turn a
 * into b. */
unsigned gm_spelling_distance (const char *a, const char *b);
/* Returns a text such as " (did you mean \"tcc\" or \"cc\"?)", with the nearest names first, or ""
 * if no name is near.  names: NULL-terminated.  The caller frees. */
char *gm_spelling_text (const char *name, const char *const *names);

#endif
