/* SPDX-License-Identifier: Apache-2.0
 * home.h -- the place of this user's files.
 */
#ifndef GM_BASE_HOME_H
#define GM_BASE_HOME_H

/* Returns the folder that the variable names if that is an absolute path; else `below`, a relative
 * path, in the user's home. NULL if the user has no home, like an unknown user in a container. The
 * caller frees. */
char *gm_home_folder (const char *variable, const char *below);

#endif
