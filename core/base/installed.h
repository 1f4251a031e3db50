/* SPDX-License-Identifier: Apache-2.0
 * installed.h -- paths of the other files of this installation.
 */
#ifndef GM_BASE_INSTALLED_H
#define GM_BASE_INSTALLED_H

#include "core/base/layout.h"

/* Returns the absolute path of a file or folder of the installation that the running libgramme is
 * part of.  `way` is one of layout.h's GM_WAY_...: the way there from the library's folder, so an
 * installation that was moved as a whole finds itself.  The caller frees.  Thread: any. */
char *gm_installed_path (const char *way);

#endif
