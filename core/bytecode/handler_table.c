/* SPDX-License-Identifier: Apache-2.0
 * handler_table.c -- see handler_table.h.
 *
 * The table of 3.11 to 3.13 (Objects/exception_handling_notes.txt): four numbers an entry, in 6-bit
 * groups, the most significant first, 0x40 on all bytes but the last, 0x80 on an entry's first.
 */
#include "core/bytecode/handler_table.h"

static uint32_t
number (const uint8_t **p, const uint8_t *end)
{
  uint32_t v = 0;
  while (*p < end) {
    uint8_t byte = *(*p)++;
    v = v << 6 | (byte & 0x3f);
    if (!(byte & 0x40))
      break;
  }
  return v;
}

void
gm_handler_table_read (PyCodeObject *co, GArray *ranges)
{
  const uint8_t *p = (const uint8_t *) PyBytes_AS_STRING (co->co_exceptiontable);
  const uint8_t *end = p + PyBytes_GET_SIZE (co->co_exceptiontable);
  while (p < end) {
    GmRange r = { .start = number (&p, end) };
    r.end = r.start + number (&p, end);
    r.target = number (&p, end);
    uint32_t depth = number (&p, end);
    r.depth = depth >> 1;
    r.lasti = depth & 1;
    g_array_append_val (ranges, r);
  }
}

static void
put_number (GByteArray *b, uint32_t v, uint8_t mark)
{
  int shift = 0;
  while (v >> shift > 0x3f)
    shift += 6;
  for (; shift >= 0; shift -= 6, mark = 0) {
    uint8_t byte = (v >> shift & 0x3f) | (shift > 0 ? 0x40 : 0) | mark;
    g_byte_array_append (b, &byte, 1);
  }
}

void
gm_handler_table_put (GByteArray *table, const GmRange *r)
{
  if (r->start == r->end)
    return;
  put_number (table, r->start, 0x80); /* the first byte of an entry */
  put_number (table, r->end - r->start, 0);
  put_number (table, r->target, 0);
  put_number (table, r->depth << 1 | r->lasti, 0);
}
