/* SPDX-License-Identifier: Apache-2.0
 * reserve.h -- libtcc may fail for lack of memory, but not end the process for it.
 */
#ifndef GM_PLUGINS_TCC_RESERVE_H
#define GM_PLUGINS_TCC_RESERVE_H

#include <stdbool.h>

/* Around all calls of libtcc, under the lock.  False: there is not enough for a compile. */
bool tcc_reserve_begin (void);
void tcc_reserve_end (void);

#endif
