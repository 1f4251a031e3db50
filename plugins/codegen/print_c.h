/* SPDX-License-Identifier: Apache-2.0
 * print_c.h -- prints a program as a C driver over the host's tiles.
 *
 * The text includes nothing, and has no floating-point arithmetic (constants are given by their
 * bits) and no writable static data, so that the simplest C compiler gets every bit right.
 * Everything that it refers to is in the table of symbols.
 *
 * int NAME (char *const *in, char *const *out, char *ws, const long *sz, void *status)
 *
 * in, out: addresses of the first elements; ws: codegen_workspace() (call.h) bytes, 64-byte
 * aligned; sz: the values of the image's sizes; returns a GRAMME_ status.
 */
#ifndef CODEGEN_PRINT_C_H
#define CODEGEN_PRINT_C_H

#include "plugins/codegen/code_text.h"

/* Prints a program.  prefix: for names of data.  source NULL: symbols are declared as functions and
 * data themselves, for tcc; else as pointers to be filled in, and loops may have vectors.  Returns
 * GRAMME_OK, NO_MEMORY, or the code of preparing a kernel.  On success the caller owns everything
 * in `out`: codegen_text_free.  The text and its symbols refer to p->consts: keep them as long as
 * the code runs. */
int32_t codegen_print_c (const CgProgram *p, const char *name, const char *prefix,
                         const GrammeSource *source, bool vectors, CgText *out,
                         GrammeStatus *status);
/* Prints a LOOP step with vectors; false if it contains something that only tiles support
 * (print_v.c). */
bool codegen_put_vector_loop (CgText *t, const CgProgram *p, uint32_t step);

#endif
