/* SPDX-License-Identifier: Apache-2.0
 * switches.h -- the switches that programs set in modules of gramme: gramme._dynamo.config,
 * gramme._functorch.config, gramme.compiler.config.
 * Switches are read when a function is compiled, never by a call that an entry answers.  Requires:
 * the GIL.
 */
#ifndef GM_OBJECTS_SWITCHES_H
#define GM_OBJECTS_SWITCHES_H

#include "core/objects/cpython.h"

#include <glib.h>
#include <stdbool.h>

/* Returns the value of a switch, a new reference; NULL, without an exception, if the module or the
 * switch is not there. */
PyObject *gm_switch_value (const char *module, const char *name);
/* True if the switch of this name in gramme._dynamo.config is True. */
bool gm_switch_is_true (const char *name);
/* Returns the value of a switch of gramme._dynamo.config, at least 0; `otherwise` if it is not a
 * number. */
long gm_switch_number (const char *name, long otherwise);
/* Returns `options` ("key=value" strings, or NULL) after the settings of gramme._functorch.config
 * for keys that `options` does not have; NULL if both are empty.  The caller frees the result with
 * g_strfreev. */
char **gm_switch_options (char *const *options);

#endif
