/* SPDX-License-Identifier: Apache-2.0
 * hygiene.h -- state of the process that a plugin's code may not change, compared before and after.
 *
 * Signal handlers and mask, timers, environment, descriptors, threads, children, locale, current
 * folder, umask, limits, floating-point mode, processors, priorities and other attributes of a
 * process (hygiene.c's table), and that the stack is not executable.
 */
#ifndef GM_PLUGIN_HYGIENE_H
#define GM_PLUGIN_HYGIENE_H

#include "core/plugin/elf.h"
#include "core/plugin/fpu.h"

typedef struct GmSnapshot GmSnapshot;

/* Returns a new record of the process's state.  alone: no other thread does anything meanwhile, so
 * descriptors, threads, environment and mappings are recorded, too; in a program with other threads
 * it would be unknown which code changed them. */
GmSnapshot *gm_snapshot_new (bool alone);
void gm_snapshot_free (GmSnapshot *s); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmSnapshot, gm_snapshot_free)

/* True if the state of the process still is that of `before`.  Else restores as much as possible
 * (floating-point mode, handlers, mask, locale, folder, umask, limits, attributes) and sets *why;
 * `when` ends its sentence: "when it was loaded". */
bool gm_snapshot_check (const GmSnapshot *before, const char *when, GmRefused *why);

#endif
