/* SPDX-License-Identifier: Apache-2.0
 * slice.h -- selects the parts of the host's source that a text needs.
 *
 * Compiling the whole source would take longer than compiling the kernel itself.
 */
#ifndef CODEGEN_SLICE_H
#define CODEGEN_SLICE_H

#include "plugins/codegen/code_text.h"

typedef struct CgSource CgSource;

/* Reads the declarations of a source once; NULL: no memory.  `text` must outlive the result. */
CgSource *codegen_source_new (const char *text);
void codegen_source_free (CgSource *s);
/* Prints, in order, each declaration that `body` or another printed declaration mentions.  Externs
 * are printed as definitions; their names are added to `out` as symbols of kind CG_SYMBOL_EXTERNAL.
 * Thread: any. */
void codegen_slice (const CgSource *s, const char *body, CgText *out);

#endif
