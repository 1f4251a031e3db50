/* SPDX-License-Identifier: Apache-2.0
 * number_text.h -- numbers in graph text, as print.c writes and parse.c reads them; private to this
 * room.
 *
 * A number is written so that reading it gives the same bits: the fewest digits that do, and an
 * unusual NaN with its bits, nan(0x7ff8000000000001).  A float always shows that it is one: 2.0,
 * 1e+30, inf.
 */
#ifndef GM_GRAPH_NUMBER_TEXT_H
#define GM_GRAPH_NUMBER_TEXT_H

#include "core/tensor/tensor.h"

/* Number of elements up to which a constant is written in the text. */
#define GM_TEXT_MAX_CONSTANT 16384

void gm_text_scalar (GString *out, GmScalar s);
/* Appends the element of dtype `d` at address `p`. */
void gm_text_element (GString *out, GmDtype d, const void *p);
/* Reads a number at *text and moves *text past it.  False, with *text unchanged, if there is
 * none. */
bool gm_text_read_scalar (const char **text, GmScalar *out);
/* Reads a number at *text into the element of dtype `d` at address `p`: false also if the
 * number's kind does not fit `d`. */
bool gm_text_read_element (const char **text, GmDtype d, void *p);

#endif
