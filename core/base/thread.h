/* SPDX-License-Identifier: Apache-2.0
 * thread.h -- variables of the calling thread that every warm call reads.
 *
 * A library that is loaded late finds its thread's variables by a call into the dynamic linker, and
 * a warm call reads a dozen of them.  These variables are at a fixed distance from the thread's own
 * register instead, for which the dynamic linker has a kilobyte or so of room, shared by all
 * libraries: so they are few and small.
 */
#ifndef GM_BASE_THREAD_H
#define GM_BASE_THREAD_H

#define GM_THREAD _Thread_local __attribute__ ((tls_model ("initial-exec")))

#endif
