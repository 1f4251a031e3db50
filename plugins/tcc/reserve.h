/* SPDX-License-Identifier: Apache-2.0
 * reserve.h -- lets libtcc fail for lack of memory instead of ending the process.
 */
#ifndef GM_PLUGINS_TCC_RESERVE_H
#define GM_PLUGINS_TCC_RESERVE_H

#include <stdbool.h>

/* Enclose all calls of libtcc, under the lock. tcc_reserve_begin returns false if there is not
 * enough memory for a compile. */
bool tcc_reserve_begin (void);
void tcc_reserve_end (void);

#endif
