/* SPDX-License-Identifier: Apache-2.0
 * compile_options.h -- the host's options of a compilation.
 */
#ifndef GM_COMPILE_OPTIONS_H
#define GM_COMPILE_OPTIONS_H

#include "core/compile.h"

/* Reads c->ask.options: sets what the host's options say, and c->ask.for_backend to the others.
 * False, GM_ERROR_VALUE: an option of the host has a value that it cannot have. */
bool gm_compile_options_read (GmCompile *c, GError **error);

/* Returns the value of the last option of the list with this key, or NULL; borrowed from the list.
 * options: "key=value", NULL at the end; or NULL. */
const char *gm_compile_option (char *const *options, const char *key);

#endif
