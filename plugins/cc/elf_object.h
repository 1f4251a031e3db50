/* SPDX-License-Identifier: Apache-2.0
 * elf_object.h -- checks that a file is a whole shared object as a compiler wrote it.
 *
 * A compiler may exit with 0 and leave a file that is truncated, or has zeros where a disk was full
 * or a machine stopped: loading the former ends the process by SIGBUS, and running the latter gives
 * wrong results.
 */
#ifndef GM_CC_ELF_OBJECT_H
#define GM_CC_ELF_OBJECT_H

#include <stddef.h>

/* Returns NULL if the object is whole, as far as its bytes show; else the damage (static text), as
 * the end of a sentence that begins with "the file". Thread: any. */
const char *cc_object_damage (const void *bytes, size_t n);

#endif
