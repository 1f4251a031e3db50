/* SPDX-License-Identifier: Apache-2.0
 * arena.h -- memory with the lifetime of one compilation.
 *
 * Blocks grow, nothing is freed singly.  In debug builds, or with GM_STRESS=arena, gm_arena_seal
 * makes full blocks read-only with mprotect, so that a write to a tracker faults where it happens.
 * Bookkeeping only: running out of memory aborts, as with GLib. Threads: one at a time.
 */
#ifndef GM_BASE_ARENA_H
#define GM_BASE_ARENA_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct GmArena GmArena;

GmArena *gm_arena_new (void);
void gm_arena_free (GmArena *a);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmArena, gm_arena_free)

void *gm_arena_alloc (GmArena *a, size_t bytes); /* zeroed, 16-byte aligned */
void *gm_arena_copy (GmArena *a, const void *data, size_t bytes);
char *gm_arena_strdup (GmArena *a, const char *s); /* NULL gives NULL */
char *gm_arena_printf (GmArena *a, const char *format, ...) G_GNUC_PRINTF (2, 3);
size_t gm_arena_bytes (const GmArena *a);
/* Makes everything allocated so far read-only until gm_arena_unseal or free; the next allocation
 * starts a new page. */
void gm_arena_seal (GmArena *a);
void gm_arena_unseal (GmArena *a);

#define gm_arena_new0(a, T) ((T *) gm_arena_alloc ((a), sizeof (T)))
#define gm_arena_newn(a, T, n) ((T *) gm_arena_alloc ((a), sizeof (T) * (size_t) (n)))

#endif
