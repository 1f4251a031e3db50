/* SPDX-License-Identifier: Apache-2.0
 * handler_table.c -- see handler_table.h.
 *
 * The table of 3.11 to 3.13 (Objects/exception_handling_notes.txt): four numbers an entry, in 6-bit groups, the most significant
 * first, 0x40 on all bytes but the last.
 */
#include "core/python/handler_table.h"

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
