/* SPDX-License-Identifier: Apache-2.0
 * parts.h -- divides a large loop into parts, which several threads compute.
 */
#ifndef CODEGEN_PARTS_H
#define CODEGEN_PARTS_H

#include "plugins/codegen/loop_plan.h"

/* Runs part (arg, i) for each i < n on the host's threads. Called by generated code. */
void codegen_run_parts (const GrammeThreads *threads, unsigned n, void (*part) (void *, unsigned),
                        void *arg);

/* Decides if l is divided, after loop_plan, and sets l->n_parts.  If so, the text printed until
 * codegen_parts_end is in the loop's scope. */
void codegen_parts_plan (Loop *l, const CgText *t);
/* Prints a loop of at most one tile of elements as a statement. */
typedef void (*CodegenPutTile) (CgText *t, Loop *l);
/* Enclose the printing of a loop, and do nothing for a loop that is not divided. `outside`: keeps
 * the program's text meanwhile. scratch_bytes: bytes that each part needs beside the program's
 * temporaries and the loop's buffers. put_one: NULL if a short loop is printed like any other. */
void codegen_parts_begin (CgText *t, const Loop *l, CgText *outside);
void codegen_parts_end (CgText *t, Loop *l, CgText *outside, uint64_t scratch_bytes,
                        CodegenPutTile put_one);

#endif
