/* SPDX-License-Identifier: Apache-2.0
 * freestanding.h -- declarations that prelude.h needs from C's headers, without including these.
 *
 * Used for the text that code generators inline: it is preprocessed once, when gramme is built, and
 * compiled again with each kernel, where every line takes time.  Library functions become pointers,
 * which are filled in when the code is loaded.
 */
/* clang-format off */
#ifndef GM_TILES_FREESTANDING_H
#define GM_TILES_FREESTANDING_H

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
#define bool _Bool
#define INT8_MIN (-128)
#define INT8_MAX 127
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-9223372036854775807l - 1)
#define INT64_MAX 9223372036854775807l
#define INFINITY __builtin_inff ()
#define memcpy __builtin_memcpy
#define GM_EXTERNAL(f) (*f)
#define fmod gm_fmod /* pointers must not have the names of functions that the compiler knows */
#define fmodf gm_fmodf

#endif
