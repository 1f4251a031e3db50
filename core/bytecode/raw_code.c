/* SPDX-License-Identifier: Apache-2.0
 * raw_code.c -- see raw_code.h.
 */
#include "core/objects/cpython.h"

#include "core/bytecode/raw_code.h"

#include "core/bytecode/assemble.h"
#include "core/bytecode/lines.h"
#include "core/bytecode/opcodes.h"

#include <string.h>

static uint32_t
size_of (uint8_t opcode, uint32_t arg)
{
  return 1 + (arg > 0xff) + (arg > 0xffff) + (arg > 0xffffff) + gm_assemble_caches (opcode);
}

/* Repeats the layout until no instruction grows, which ends because instructions never shrink. */
void
gm_raw_lay_out (GArray *out)
{
  GmRaw *raw = (GmRaw *) (void *) out->data;
  for (uint32_t i = 0; i < out->len; i++)
    raw[i].units = size_of (raw[i].opcode, raw[i].target >= 0 ? 0 : raw[i].arg);
  for (bool again = true; again;) {
    again = false;
    uint32_t at = 0;
    for (uint32_t i = 0; i < out->len; i++) {
      raw[i].start = at;
      at += raw[i].units;
    }
    for (uint32_t i = 0; i < out->len; i++) {
      if (raw[i].target < 0)
        continue;
      uint32_t end = raw[i].start + raw[i].units, target = raw[raw[i].target].start;
      raw[i].arg = target >= end ? target - end : end - target;
      uint32_t units = size_of (raw[i].opcode, raw[i].arg);
      again |= units > raw[i].units;
      raw[i].units = MAX (units, raw[i].units);
    }
  }
}

PyObject *
gm_raw_bytes (const GArray *out)
{
  const GmRaw *last = &g_array_index (out, GmRaw, out->len - 1);
  PyObject *bytes = PyBytes_FromStringAndSize (NULL, 2 * (Py_ssize_t) (last->start + last->units));
  uint8_t *at = bytes ? (uint8_t *) PyBytes_AS_STRING (bytes) : NULL;
  if (!bytes)
    return NULL;
  for (uint32_t i = 0; i < out->len; i++) {
    const GmRaw *raw = &g_array_index (out, GmRaw, i);
    uint32_t caches = gm_assemble_caches (raw->opcode), n_extended = raw->units - 1 - caches;
    for (uint32_t k = n_extended; k > 0; k--) {
      *at++ = EXTENDED_ARG;
      *at++ = (uint8_t) (raw->arg >> 8 * k);
    }
    *at++ = raw->opcode;
    *at++ = (uint8_t) raw->arg;
    memset (at, 0, 2 * caches); /* a cold cache */
    at += 2 * caches;
  }
  return bytes;
}

PyObject *
gm_raw_lines (const GArray *out, int first_line)
{
  g_autoptr (GByteArray) b = g_byte_array_sized_new (8 * out->len);
  int last = first_line;
  for (uint32_t i = 0; i < out->len; i++) {
    const GmRaw *raw = &g_array_index (out, GmRaw, i);
    const GmPlace *p = &raw->place;
    gm_code_lines_put (b, raw->units, &last, p->line, p->col, p->end_line, p->end_col);
  }
  return PyBytes_FromStringAndSize ((char *) b->data, b->len);
}
