/* SPDX-License-Identifier: Apache-2.0
 * mutate_image.c -- see mutate_image.h.  Words are changed more often than bytes, small steps more
 * often than large ones, and the header's tables more often than their share of the bytes.
 */
#include "tests/fuzz/mutate_image.h"

#include <string.h>

#include "plugin-api/gramme-graph.h"

static uint64_t
draw (uint64_t *state)
{
  *state ^= *state << 13; /* xorshift64 (Marsaglia 2003); the state is never 0 */
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void
change_word (uint64_t *state, uint8_t *at)
{
  static const uint32_t odd[] = { 0,          1,          2,          7,       8,   9,  0x7fffffff,
                                  0x80000000, 0xffffffff, 0xfffffff8, 0x10000, 107, 110 };
  uint32_t word;
  memcpy (&word, at, sizeof word);
  switch (draw (state) % 5) {
  case 0:
    word += 1;
    break;
  case 1:
    word -= 1;
    break;
  case 2:
    word ^= 1u << draw (state) % 32;
    break;
  case 3:
    word = odd[draw (state) % (sizeof odd / sizeof *odd)];
    break;
  default:
    word = (uint32_t) draw (state) % 64;
  }
  memcpy (at, &word, sizeof word);
}

size_t
gm_mutate_image (uint64_t *state, uint8_t *bytes, size_t n)
{
  *state += !*state;
  for (unsigned k = 1 + draw (state) % 3; k > 0; k--) {
    size_t header = n < sizeof (GrammeImage) ? n : sizeof (GrammeImage),
           words = (draw (state) % 8 ? n : header) / 4;
    uint8_t *at = bytes + draw (state) % words * 4, *other = bytes + draw (state) % words * 4;
    switch (draw (state) % 8) {
    case 0:
      bytes[draw (state) % n] = (uint8_t) draw (state);
      break;
    case 1:
      memmove (at, other, 4);
      break;
    case 2: { /* replaces a row by another one */
      size_t row = 8u << draw (state) % 3, rows = n / row;
      if (rows)
        memmove (bytes + draw (state) % rows * row, bytes + draw (state) % rows * row, row);
      break;
    }
    default:
      change_word (state, at);
    }
  }
  return draw (state) % 50 ? n : draw (state) % (n + 1);
}
