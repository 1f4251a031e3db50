/* SPDX-License-Identifier: Apache-2.0
 * forked.h -- back ends that hold a device, in the child of a fork.
 *
 * A device's driver does not survive a fork: the child has its memory, but neither its threads nor
 * its connection, and a call may hang.  So the child never calls the plugin, not even to destroy
 * its objects, and callers get an error that says so.
 */
#ifndef GM_RUN_FORKED_H
#define GM_RUN_FORKED_H

#include "core/plugin/loader.h"

/* Registers a plugin that is about to be opened: if its manifest names a device other than the CPU,
 * children of this process will not call it.  Thread: any. */
void gm_forked_watch (GmPlugin *p);
/* True, with GM_ERROR_BACKEND, if p was opened before a fork and this process is the child. */
bool gm_forked_refuses (const GmPlugin *p, GError **error);

#endif
