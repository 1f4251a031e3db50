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

/* Constants of more elements are left out of the text. */
#define GM_TEXT_MAX_CONSTANT 16384

void gm_text_scalar (GString *out, GmScalar s);
/* Appends the element of dtype `d` at `p`. */
void gm_text_element (GString *out, GmDtype d, const void *p);
/* Reads a number at *text and moves past it.  False, and *text stays, if there is none. */
bool gm_text_read_scalar (const char **text, GmScalar *out);
/* Reads a number into the element at `p`: false also if its kind does not fit `d`. */
bool gm_text_read_element (const char **text, GmDtype d, void *p);

#endif
