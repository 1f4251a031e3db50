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

/* Records the state of the process.  alone: no other thread does anything meanwhile, so
 * descriptors, threads, environment and mappings are recorded, too; in a program with other threads
 * it would be unknown which code changed them. */
GmSnapshot *gm_snapshot_new (bool alone);
void gm_snapshot_free (GmSnapshot *s); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmSnapshot, gm_snapshot_free)

/* Compares the state with that of now, and restores what can be restored (floating-point mode,
 * handlers, mask, locale, folder, umask, limits, attributes).  Refuses if anything had changed;
 * `when` ends the sentence: "when it was loaded". */
bool gm_snapshot_check (const GmSnapshot *before, const char *when, GmRefused *why);

#endif
