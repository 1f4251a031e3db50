/* SPDX-License-Identifier: Apache-2.0
 * tiles-tables.h -- the tables from which tiles.c chooses.
 */
#ifndef GM_TILES_TABLES_H
#define GM_TILES_TABLES_H

#include "core/tiles/tiles.h"

extern const GmTiles gm_tiles_avx2, gm_tiles_avx512;

#endif
