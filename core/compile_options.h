/* SPDX-License-Identifier: Apache-2.0
 * compile_options.h -- the host's options of a compilation.
 */
#ifndef GM_COMPILE_OPTIONS_H
#define GM_COMPILE_OPTIONS_H

#include "core/compile.h"

/* Reads c->ask.options: sets the fields of c->ask that belong to the host's options, and
 * c->ask.for_backend to the other options.  GM_ERROR_VALUE: a host option has a value that is not
 * allowed. */
bool gm_compile_options_read (GmCompile *c, GError **error);

/* Returns the value of the last option of the list with this key, or NULL; borrowed from the list.
 * options: "key=value", NULL at the end; or NULL. */
const char *gm_compile_option (char *const *options, const char *key);

#endif
