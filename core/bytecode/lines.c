/* SPDX-License-Identifier: Apache-2.0
 * lines.c -- see lines.h.
 *
 * The location table of 3.11 to 3.13 (Objects/locations.md): an entry begins with a byte 1kkkklll:
 * kind k, for l + 1 code units. Lines are differences to the entry before, numbers are 6 bits a
 * byte, low ones first, bit 6 says that more follows, and signed ones have their sign in bit 0.
 */
#include "core/bytecode/lines.h"

enum { SHORT_END = 10, ONE_LINE_END = 13, NO_COLUMNS = 13, LONG = 14, NONE = 15 };

void
gm_code_lines_init (GmCodeLines *l, PyCodeObject *co)
{
  const uint8_t *p = (const uint8_t *) PyBytes_AS_STRING (co->co_linetable);
  *l = (GmCodeLines){
    p, p + PyBytes_GET_SIZE (co->co_linetable), 0, co->co_firstlineno, { -1, -1, -1, -1 }
  };
}

static uint32_t
byte (GmCodeLines *l)
{
  return l->p < l->end ? *l->p++ : 0;
}

static uint32_t
number (GmCodeLines *l)
{
  uint32_t v = 0, b, shift = 0;
  do {
    b = byte (l);
    v |= (b & 63) << (shift & 31);
    shift += 6;
  } while (b & 64);
  return v;
}

static int
signed_number (GmCodeLines *l)
{
  uint32_t v = number (l);
  return v & 1 ? -(int) (v >> 1) : (int) (v >> 1);
}

static void
place (GmCodeLines *l, int col, int n_lines, int end_col)
{
  l->at[0] = l->line;
  l->at[1] = col;
  l->at[2] = l->line + n_lines;
  l->at[3] = end_col;
}

static void
read_entry (GmCodeLines *l)
{
  uint32_t head = byte (l), kind = head >> 3 & 15;
  l->unit += (head & 7) + 1;
  if (kind < SHORT_END) {
    uint32_t b = byte (l), col = kind << 3 | b >> 4;
    place (l, (int) col, 0, (int) (col + (b & 15)));
  } else if (kind < ONE_LINE_END) {
    l->line += (int) kind - SHORT_END;
    uint32_t col = byte (l);
    place (l, (int) col, 0, (int) byte (l));
  } else if (kind == NO_COLUMNS) {
    l->line += signed_number (l);
    place (l, -1, 0, -1);
  } else if (kind == LONG) {
    l->line += signed_number (l);
    int n_lines = (int) number (l), col = (int) number (l) - 1;
    place (l, col, n_lines, (int) number (l) - 1);
  } else {
    l->at[0] = l->at[1] = l->at[2] = l->at[3] = -1;
  }
}

void
gm_code_lines_at (GmCodeLines *l, uint32_t unit, int *line, int *col, int *end_line, int *end_col)
{
  while (l->unit <= unit && l->p < l->end)
    read_entry (l);
  bool known = unit < l->unit;
  *line = known ? l->at[0] : -1;
  *col = known ? l->at[1] : -1;
  *end_line = known ? l->at[2] : -1;
  *end_col = known ? l->at[3] : -1;
}

/* -- Writing ----------------------------------------------------------------------------------- */

static void
put_number (GByteArray *b, uint32_t v)
{
  do {
    uint8_t byte = (v & 0x3f) | (v > 0x3f ? 0x40 : 0);
    g_byte_array_append (b, &byte, 1);
    v >>= 6;
  } while (v);
}

static void
put_signed (GByteArray *b, int v)
{
  put_number (b, v < 0 ? (uint32_t) -v << 1 | 1 : (uint32_t) v << 1);
}

void
gm_code_lines_put (GByteArray *table, uint32_t units, int *last, int line, int col, int end_line,
                   int end_col)
{
  uint8_t kind = line < 0 ? NONE : col < 0 || end_line < line || end_col < 0 ? NO_COLUMNS : LONG;
  for (; units > 0; units -= MIN (units, 8)) {
    uint8_t first = (uint8_t) (0x80 | kind << 3 | (MIN (units, 8) - 1));
    g_byte_array_append (table, &first, 1);
    if (kind == NONE)
      continue;
    put_signed (table, line - *last);
    *last = line;
    if (kind == LONG) {
      put_number (table, (uint32_t) (end_line - line));
      put_number (table, (uint32_t) col + 1);
      put_number (table, (uint32_t) end_col + 1);
    }
  }
}
