/* SPDX-License-Identifier: Apache-2.0
 * key_type.h -- types of constants, and the ways in which types of keys are hashed and compared.
 */
#ifndef GM_OBJECTS_KEY_TYPE_H
#define GM_OBJECTS_KEY_TYPE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* Depth up to which nested containers are read where all of a value is read: a container may
 * hold itself. */
#define GM_MAX_NESTING 100

/* True for the exact types of constants: their values are known completely and hold no object
 * that may change. */
bool gm_is_constant_type (PyTypeObject *type);
/* True if the function is the __hash__ of Enum, which reads only the member's name. */
bool gm_is_enum_hash (PyObject *function);
/* True if comparing a key of this type with a constant runs no code of the user's, and such a
 * key equals a constant only if it is compared as constants are. */
bool gm_key_is_plain (const PyTypeObject *type);
/* True for a subclass of int or str that inherits their C hash and comparison: IntEnum, StrEnum,
 * class S (str, Enum). */
bool gm_key_is_by_value (const PyTypeObject *type);
/* Ways in which a guard can look up an object as a key of an existing dict without running code
 * of the user's. */
typedef enum {
  GM_KEY_OTHER,
  GM_KEY_FIXED,    /* a constant, or a tuple of constants: compared by value */
  GM_KEY_IDENTITY, /* a function, a plain class, a dtype, a member of an Enum: equal only to itself
                    */
} GmKeyKind;
GmKeyKind gm_key_kind (PyObject *key);

#endif
