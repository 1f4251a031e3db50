/* SPDX-License-Identifier: Apache-2.0
 * raw_code.h -- converts instructions of a new code object, GmRaw, to CPython's form: lays them
 * out, and makes the tables that depend on their places.
 */
#ifndef GM_BYTECODE_RAW_CODE_H
#define GM_BYTECODE_RAW_CODE_H

#include "core/objects/cpython.h"

#include <glib.h>
#include <stdint.h>

typedef struct {
  int line, col, end_line, end_col;
} GmPlace;

typedef struct {
  uint8_t opcode;
  uint32_t arg;
  int32_t target; /* for a jump: index of an instruction; else -1 */
  GmPlace place;
  uint32_t step;  /* for the original: as in GmInsn */
  uint32_t start; /* for new code: its first code unit */
  uint32_t units; /* for new code: with EXTENDED_ARGs and caches */
} GmRaw;

/* Sets start and units of every instruction (GmRaw), and the arguments of jumps, whose targets
 * are indices of `out`. */
void gm_raw_lay_out (GArray *out);
/* Return the code's bytes and its location table, for instructions that are laid out: new bytes
 * objects; NULL with an exception. */
PyObject *gm_raw_bytes (const GArray *out);
PyObject *gm_raw_lines (const GArray *out, int first_line);

#endif
