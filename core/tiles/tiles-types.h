/* SPDX-License-Identifier: Apache-2.0
 * tiles-types.h -- includes the file GM_EACH_TYPE once for each element type that has arithmetic.
 *
 * For each, GM_T is the type, and GM_ARITH, GM_FLOAT, GM_COMPARE, GM_LOGICAL, GM_BITWISE and
 * GM_SELECT say which classes of rows of the op table it has.
 */
/* clang-format off */

#define GM_ARITH 1
#define GM_COMPARE 1
#define GM_SELECT 1
#define GM_LOGICAL 0

#define GM_FLOAT 1
#define GM_BITWISE 0
#define GM_T f32
#include GM_EACH_TYPE
#undef GM_T
#define GM_T f64
#include GM_EACH_TYPE
#undef GM_T
/* f16 and bf16 use the rows of i16 that only move elements, so that every NaN keeps its bits; see
 * `moves` in tiles-impl.h. */
#undef GM_SELECT
#define GM_SELECT 0
#define GM_T f16
#include GM_EACH_TYPE
#undef GM_T
#define GM_T bf16
#include GM_EACH_TYPE
#undef GM_T
#undef GM_SELECT
#define GM_SELECT 1
#undef GM_FLOAT
#undef GM_BITWISE

#define GM_FLOAT 0
#define GM_BITWISE 1
#define GM_T i32
#include GM_EACH_TYPE
#undef GM_T
#define GM_T i64
#include GM_EACH_TYPE
#undef GM_T
#define GM_T i16
#include GM_EACH_TYPE
#undef GM_T
#define GM_T i8
#include GM_EACH_TYPE
#undef GM_T
#define GM_T u8
#include GM_EACH_TYPE
#undef GM_T

/* Bool only has rows that u8 does not have; see `shared_with_u8` there. */
#undef GM_ARITH
#undef GM_COMPARE
#undef GM_SELECT
#undef GM_LOGICAL
#undef GM_BITWISE
#define GM_ARITH 0
#define GM_COMPARE 0
#define GM_SELECT 0
#define GM_LOGICAL 1
#define GM_BITWISE 0
#define GM_T b1
#include GM_EACH_TYPE
#undef GM_T
#undef GM_ARITH
#undef GM_COMPARE
#undef GM_SELECT
#undef GM_LOGICAL
#undef GM_FLOAT
#undef GM_BITWISE
