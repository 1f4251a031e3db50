/* SPDX-License-Identifier: Apache-2.0
 * object.h -- is it a whole shared object that a compiler wrote?
 *
 * A compiler may exit with 0 and leave a file that is cut, or zeros where a disk was full or a machine stopped: loading the former ends
 * the process by SIGBUS, and running the latter computes something else.
 */
#ifndef CC_OBJECT_H
#define CC_OBJECT_H

#include <stddef.h>

/* NULL: it is whole, as far as can be seen.  Else why not, as the end of a sentence that begins with "the file".  Thread: any. */
const char *cc_object_damage (const void *bytes, size_t n);

#endif
