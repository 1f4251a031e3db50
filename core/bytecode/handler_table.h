/* SPDX-License-Identifier: Apache-2.0
 * handler_table.h -- reads and writes the exception table of a code object.
 */
#ifndef GM_BYTECODE_HANDLER_TABLE_H
#define GM_BYTECODE_HANDLER_TABLE_H

#include "core/objects/cpython.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* An entry of the exception table: a raise in [start, end) cuts the stack to `depth`, pushes the
 * instruction's offset if `lasti` is set, and continues at `target`.  All are code units. */
typedef struct {
  uint32_t start, end, target, depth;
  bool lasti;
} GmRange;

/* Appends the entries of the code's exception table to `ranges`, as GmRange, in their order. */
void gm_handler_table_read (PyCodeObject *co, GArray *ranges);

/* Appends an entry to an exception table; an empty range is ignored. */
void gm_handler_table_put (GByteArray *table, const GmRange *r);

#endif
