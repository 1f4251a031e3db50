/* SPDX-License-Identifier: Apache-2.0
 * signals.h -- encloses calls of NVIDIA's libraries that change the program's signal handlers.
 *
 * NVRTC sets handlers while it compiles and restores the old ones with signal (), which changes
 * their flags: with SA_RESTART a program's ^C no longer ends a read.  So the handlers are recorded
 * before, and restored after.  Calls nest, in any threads: the first one records, the last one
 * restores.  A handler that the program itself sets meanwhile stays.
 */
#ifndef NVRTC_SIGNALS_H
#define NVRTC_SIGNALS_H

void nv_signals_keep (void);
void nv_signals_put_back (void);

#endif
