/* SPDX-License-Identifier: Apache-2.0
 * break.h -- the reasons for which something cannot be traced, expanded from core/breaks.def.  No
 * Python here.
 */
#ifndef GM_OBJECTS_BREAK_H
#define GM_OBJECTS_BREAK_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
  GM_BREAK_NONE = 0,
#define BREAK(ID, ...) GM_BREAK_##ID,
#include "core/breaks.def"
  GM_N_BREAKS,
} GmBreak;

typedef struct {
  const char *id;      /* "DATA_DEPENDENT_BRANCH" */
  const char *message; /* a printf format whose arguments are all strings */
  const char *hint;
  bool shows_frames; /* the step raises, or calls code that reads frames: all of their variables are
                        needed */
  bool reads_values; /* the step needs the elements of a tensor */
} GmBreakRow;
extern const GmBreakRow gm_breaks[GM_N_BREAKS];

#endif
