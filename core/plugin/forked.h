/* SPDX-License-Identifier: Apache-2.0
 * forked.h -- back ends that hold a device, in the child of a fork.
 *
 * A device's driver does not survive a fork: the child has its memory, but neither its threads nor its
 * connection, and a call may hang.  So there the plugin is not called any more, not even to destroy
 * what it has made; who asks for it is told why.
 */
#ifndef GM_PLUGIN_FORKED_H
#define GM_PLUGIN_FORKED_H

#include "core/plugin/loader.h"

/* p is about to be opened: if its manifest has other devices than the CPU, children of this process will
 * not call it.  Thread: any. */
void gm_forked_watch (GmPlugin *p);
/* Whether p was opened before a fork, here in the child: GM_ERROR_BACKEND. */
bool gm_forked_refuses (const GmPlugin *p, GError **error);

#endif
