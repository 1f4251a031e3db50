/* SPDX-License-Identifier: Apache-2.0
 * parts.h -- a large loop in parts, which several threads compute.
 */
#ifndef CODEGEN_PARTS_H
#define CODEGEN_PARTS_H

#include "plugins/codegen/loop_plan.h"

/* What generated code calls for it. */
void codegen_run_parts (const GrammeThreads *threads, unsigned n, void (*part) (void *, unsigned), void *arg);

/* Decides whether l is done in parts, after loop_plan: l->n_parts.  If so, what is printed until codegen_parts_end is in the loop's scope. */
void codegen_parts_plan (Loop *l, const CgText *t);
/* Prints a loop of at most one tile of elements as a statement. */
typedef void (*CodegenPutTile) (CgText *t, Loop *l);
/* Around the text of a loop, scratch_bytes: what each part needs beside the program's temporaries and the loop's buffers.  Nothing happens to a loop
 * that is done as a whole.  put_one: NULL if such a loop is printed as any other. */
void codegen_parts_begin (CgText *t, const Loop *l, CgText *outside);
void codegen_parts_end (CgText *t, Loop *l, CgText *outside, uint64_t scratch_bytes, CodegenPutTile put_one);

#endif
