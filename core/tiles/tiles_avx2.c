/* SPDX-License-Identifier: Apache-2.0
 * tiles_avx2.c -- the tile primitives for AVX2, FMA and F16C.  Compiled with -mavx2 -mfma -mf16c;
 * called only where CPUID has all.
 */
#define GM_ISA_AVX2 1
#define GM_TILES_ISA "avx2"
#define GM_TILES_TABLE gm_tiles_avx2
#include "core/tiles/tiles-tables.h"
#include "core/tiles/tiles-impl.h"
