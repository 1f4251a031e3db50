/* SPDX-License-Identifier: Apache-2.0
 * lines.h -- lines and columns of a code object, read from front to back, and written.
 *
 * PyCode_Addr2Location reads the table from its beginning for each address, which makes whatever asks for every
 * instruction quadratic.  A cursor that only goes forward reads it once.
 */
#ifndef GM_PYTHON_LINES_H
#define GM_PYTHON_LINES_H

#include "core/python/cpython.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  const uint8_t *p, *end; /* the rest of co_linetable: borrowed from the code object */
  uint32_t unit;          /* the first that is not read yet */
  int line;               /* that the next entry counts from */
  int at[4];              /* the entry read last: line, column, last line, last column; -1 where unknown */
} GmLines;

void gm_lines_init (GmLines *l, PyCodeObject *co);
/* Of a code unit that is not before the one asked for last. */
void gm_lines_at (GmLines *l, uint32_t unit, int *line, int *col, int *end_line, int *end_col);

/* Appends a place for so many code units.  line: below 0, there is none; col: below 0, the line is all that is known.  *last: the line that the entry
 * counts from, co_firstlineno before the first; moved on. */
void gm_lines_put (GByteArray *table, uint32_t units, int *last, int line, int col, int end_line, int end_col);

#endif
