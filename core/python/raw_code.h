/* SPDX-License-Identifier: Apache-2.0
 * raw_code.h -- instructions of a new code object, GmRaw, as CPython reads them: laid out, and the tables that follow from where they stand.
 */
#ifndef GM_PYTHON_RAW_CODE_H
#define GM_PYTHON_RAW_CODE_H

#include "core/python/resume_original.h"

/* Gives every instruction its place, and jumps their distances; targets are indices. */
void gm_raw_lay_out (GArray *out);
/* Of instructions that are laid out; new bytes objects, NULL: an exception. */
PyObject *gm_raw_bytes (const GArray *out);
PyObject *gm_raw_lines (const GArray *out, int first_line);

#endif
