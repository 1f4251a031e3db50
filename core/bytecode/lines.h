/* SPDX-License-Identifier: Apache-2.0
 * lines.h -- reads lines and columns of a code object from front to back, and writes them.
 *
 * PyCode_Addr2Location reads the table from its beginning for each address, so reading the places
 * of all instructions is quadratic.  A cursor that only moves forward reads it once.
 */
#ifndef GM_BYTECODE_LINES_H
#define GM_BYTECODE_LINES_H

#include "core/objects/cpython.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  const uint8_t *p, *end; /* the rest of co_linetable: borrowed from the code object */
  uint32_t unit;          /* the first code unit that is not read yet */
  int line;               /* the line from which the next entry counts */
  int at[4]; /* the entry read last: line, column, last line, last column; -1 where unknown */
} GmCodeLines;

void gm_code_lines_init (GmCodeLines *l, PyCodeObject *co);
/* Stores the place of a code unit, -1 for what is unknown.  The unit must not be before that of
 * the last call. */
void gm_code_lines_at (GmCodeLines *l, uint32_t unit, int *line, int *col, int *end_line,
                       int *end_col);

/* Appends an entry for `units` code units to a location table.  line < 0: there is no place; col
 * < 0: only the line is known.  *last: the line from which the entry counts, co_firstlineno before
 * the first entry; updated. */
void gm_code_lines_put (GByteArray *table, uint32_t units, int *last, int line, int col,
                        int end_line, int end_col);

#endif
