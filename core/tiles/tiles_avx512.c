/* SPDX-License-Identifier: Apache-2.0
 * tiles_avx512.c -- the tile primitives for AVX-512 (F, VL, BW, DQ).  Compiled with -mavx512*;
 * called only where CPUID has them.
 */
#define GM_ISA_AVX512 1
#define GM_TILES_ISA "avx512"
#define GM_TILES_TABLE gm_tiles_avx512
#include "core/tiles/tiles-tables.h"
#include "core/tiles/tiles-impl.h"
