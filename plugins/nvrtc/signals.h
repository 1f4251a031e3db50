/* SPDX-License-Identifier: Apache-2.0
 * signals.h -- NVIDIA's libraries are called between these two where they meddle with the program's signal handlers.
 *
 * NVRTC sets handlers while it compiles and puts the old ones back with signal (), which changes their flags: with SA_RESTART a
 * program's ^C no longer ends a read.  What is found before is put back.  Calls nest, in any threads: the first one looks, the last
 * one puts back.  A handler that the program itself sets meanwhile stays.
 */
#ifndef NVRTC_SIGNALS_H
#define NVRTC_SIGNALS_H

void nv_signals_keep (void);
void nv_signals_put_back (void);

#endif
