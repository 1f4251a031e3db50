/* SPDX-License-Identifier: Apache-2.0
 * source.h -- the arithmetic of the tiles as text for code generators.
 *
 * The build preprocesses this file once for each instruction set (core/build.mk); the host passes
 * the result to plugins, which take the functions that a kernel uses and print loops around them.
 * So a row of the op table is written once, and an inlined row has the bits of the tile.  In
 * addition to prelude.h and the rows there are
 *
 *      cast16_<from>_<to> (out, in)   casts 16 elements in memory, for every pair of tiles-casts.h
 *      rounded_<T> (v)                f16 and bf16: rounds a vector of f32 as a store and a load do
 */
/* clang-format off */
#define GM_TILES_SOURCE 1
#include "core/tiles/prelude.h"

#define GM_EACH_TYPE "core/tiles/source-rows.h"
#include "core/tiles/tiles-types.h"

#include "core/tiles/tiles-steps.h"

#define CAST16(from, to, lanes, statement) \
  GM_INLINE void cast16_##from##_##to (void *pout, const void *pin) \
  { \
    unsigned char *out = pout; \
    const unsigned char *in = pin; \
    GM_UNROLL for (int i = 0; i < 16; i += (lanes), in += (lanes) * sizeof (E_##from), out += (lanes) * sizeof (E_##to)) \
      statement; \
  }
CASTS (CAST16)

#define VIA16(from, middle, to) \
  GM_INLINE void cast16_##from##_##to (void *out, const void *in) \
  { \
    E_##middle between[16] __attribute__ ((aligned (64))); \
    cast16_##from##_##middle (between, in); \
    cast16_##middle##_##to (out, between); \
  }
VIA (VIA16)

#define ROUNDED(T) \
  GM_INLINE vf32 rounded_##T (vf32 v) \
  { \
    uint16_t words[L_f32]; \
    store_##T (words, v); \
    return load_##T (words); \
  }
ROUNDED (f16)
ROUNDED (bf16)
