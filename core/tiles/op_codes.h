/* SPDX-License-Identifier: Apache-2.0
 * op_codes.h -- how many places an array by operators has, from the operators' table.
 */
#ifndef GM_TILES_OP_CODES_H
#define GM_TILES_OP_CODES_H

union gm_op_codes {
#define GM_OP_ROW(code, version, name, ...) char name##_[(code) + 1];
#define POINTWISE GM_OP_ROW
#define CAST GM_OP_ROW
#define REDUCE GM_OP_ROW
#define ARGREDUCE GM_OP_ROW
#define MOVEMENT GM_OP_ROW
#define CONTRACT GM_OP_ROW
#define CONVOLVE GM_OP_ROW
#define INDEX GM_OP_ROW
#define SCAN GM_OP_ROW
#define RANDOM GM_OP_ROW
#define CREATE GM_OP_ROW
#define MUTATE GM_OP_ROW
#define CUSTOM GM_OP_ROW
#define HIGHER GM_OP_ROW
#include "plugin-api/gramme-ops.def"
#undef GM_OP_ROW
};

/* A number above the code of each operator: the length of an array that is indexed by operators. */
#define GM_OP_CODES sizeof (union gm_op_codes)

#endif
