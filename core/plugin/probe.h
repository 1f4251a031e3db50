/* SPDX-License-Identifier: Apache-2.0
 * probe.h -- tries a plugin in a process of its own.
 *
 * That process is the program `gramme`, found beside libgramme, with limits on time, memory,
 * files and descriptors.  It loads the plugin, opens it, runs a first graph (trial.h), closes it,
 * compares itself before and after, and reports on a descriptor of its own; whatever else happens
 * to it is the plugin's doing.
 */
#ifndef GM_PLUGIN_PROBE_H
#define GM_PLUGIN_PROBE_H

#include "core/plugin/quarantine.h"

/* Tries the plugin in a process of its own.  BAD: *why says what happened.  NOT: there is no such
 * process or, with GM_REFUSAL_STOPPED in *why, a signal's handler has raised an error meanwhile:
 * nothing is known about the plugin then. */
GmTried gm_probe (const char *canonical, GmRefused *why);

/* Runs the trial, in the process that was made for it (`gramme probe FILE TOKEN`).  Never
 * returns. */
_Noreturn void gm_probe_main (const char *file, const char *token);

#endif
