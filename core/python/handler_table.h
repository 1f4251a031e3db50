/* SPDX-License-Identifier: Apache-2.0
 * handler_table.h -- the exception table of a code object, read and written.
 */
#ifndef GM_PYTHON_HANDLER_TABLE_H
#define GM_PYTHON_HANDLER_TABLE_H

#include "core/python/cpython.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* What a raise in [start, end) does: the stack is cut to `depth`, lasti is pushed if asked for, and it goes on at `target`.  Code units. */
typedef struct {
  uint32_t start, end, target, depth;
  bool lasti;
} GmRange;

/* Appends the entries, GmRange, in their order. */
void gm_handler_table_read (PyCodeObject *co, GArray *ranges);

/* Appends an entry; one of no length is none. */
void gm_handler_table_put (GByteArray *table, const GmRange *r);

#endif
