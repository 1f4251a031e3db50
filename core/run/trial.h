/* SPDX-License-Identifier: Apache-2.0
 * trial.h -- the first graph that a plugin gets, run in the process that tries the plugin.
 */
#ifndef GM_RUN_TRIAL_H
#define GM_RUN_TRIAL_H

#include "core/plugin/loader.h"

/* Compiles and runs a graph of a few nodes that the plugin says it supports, its buffers between
 * red zones, and compares with eager.  True also if it supports none of them, or says that it
 * cannot compile now; false and *why if it writes where it may not or computes something else. */
bool gm_trial (const GmPlugin *p, GrammeBackend *instance, GmRefused *why);

#endif
