/* SPDX-License-Identifier: Apache-2.0
 * near.h -- what the user may have meant: names within a small edit distance of a misspelt one.
 */
#ifndef GM_PLUGIN_NEAR_H
#define GM_PLUGIN_NEAR_H

#include <stdbool.h>

#include <glib.h>

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b. */
unsigned gm_near_distance (const char *a, const char *b);
/* " (did you mean \"tcc\" or \"cc\"?)", nearest first, or "".  names: NULL-terminated.  The caller
 * frees. */
char *gm_near_text (const char *name, const char *const *names);

#endif
