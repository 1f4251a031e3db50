/* SPDX-License-Identifier: Apache-2.0
 * value_source.h -- where a value comes from: a path of accessors from the call's arguments,
 * closure and globals.
 *
 * Sources are interned: equal paths are one pointer.  A source becomes a slot of the guard program
 * only if something uses it: a guard, a graph input, the residual.  Its name is stable text without
 * addresses ("L['x']", "G['scale']", "L['self'].weight"): it is what users read in guard lists, and
 * the key for profiles.
 */
#ifndef GM_GUARD_VALUE_SOURCE_H
#define GM_GUARD_VALUE_SOURCE_H

#include "core/guard/guards.h"

typedef enum {
#define LOAD(NAME, ...) GM_SOURCE_##NAME,
#define GUARD(NAME, ...) GM_GUARD_##NAME,
#include "core/guard/guards.def"
  GM_N_RECORD_KINDS,
} GmRecordKind; /* numbers all kinds of records: loads first, then checks */

/* The items of a tuple, used as a key, that are objects which equal themselves alone, or the types
 * of such objects. The stored key has None in their places; a lookup puts the objects of its call
 * there. */
typedef struct {
  uint32_t n;
  struct {
    const struct GmSource *source; /* source of the object; only while recording */
    uint32_t at, slot; /* at: index in the tuple; slot: of the object in a guard program */
    bool is_type;
  } parts[];
} GmKeyParts;

/* True if sources of the kind are found in the value of another source, the base. */
static inline bool
gm_source_has_base (uint8_t kind)
{
  return kind != GM_SOURCE_LOCAL && kind != GM_SOURCE_FREE && kind != GM_SOURCE_FREE_CELL
         && kind != GM_SOURCE_GLOBAL && kind != GM_SOURCE_CONST && kind != GM_SOURCE_CLASS_ATTR;
}

typedef struct GmSource {
  uint8_t kind;                /* GM_SOURCE_* */
  const struct GmSource *base; /* NULL if not gm_source_has_base */
  PyObject *obj;               /* GLOBAL: the dict; CONST: the value; CLASS_ATTR: the class */
  PyObject *key;               /* a str, or a constant key of a dict; LOCAL, FREE: the variable's
                                  name, NULL for a value on the stack */
  int64_t index;
  const GmKeyParts *parts; /* CACHED: the parts of the key, or NULL */
  const char *name;
  uint32_t number; /* order of creation */
} GmSource;

#endif
