/* SPDX-License-Identifier: Apache-2.0
 * home.h -- where this user's files are.
 */
#ifndef GM_BASE_HOME_H
#define GM_BASE_HOME_H

/* The folder that the variable names if that is an absolute path; else what stands in `below`, a
 * relative path, in the user's home.  NULL if the user has none, as an unknown one in a
 * container has.  The caller frees. */
char *gm_home_folder (const char *variable, const char *below);

#endif
