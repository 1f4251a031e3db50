/* SPDX-License-Identifier: Apache-2.0
 * break.c -- the table of reasons, expanded.
 */
#include "core/objects/break.h"

const GmBreakRow gm_breaks[GM_N_BREAKS] = {
  [GM_BREAK_NONE] = { "NONE", "", "", false },
#define BREAK(ID, ...) [GM_BREAK_##ID] = { #ID, __VA_ARGS__ },
#include "core/breaks.def"
};
