/* SPDX-License-Identifier: Apache-2.0
 * environment.h -- numbers and switches that users set in environment variables.
 */
#ifndef GM_BASE_ENVIRONMENT_H
#define GM_BASE_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the number in a variable, or `otherwise` if the variable is not set, empty, or not a
 * number from `least` to `most`, which is warned of once. Nothing is read with raised privileges.
 * Thread: any. */
int64_t gm_environment_number (const char *name, int64_t least, int64_t most, int64_t otherwise);

/* Returns false if a variable is 0.  One that is neither that nor 1, empty or unset is warned of
 * once.  Nothing is read with raised privileges.  Thread: any. */
bool gm_environment_switch (const char *name);

#endif
