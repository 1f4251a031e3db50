/* SPDX-License-Identifier: Apache-2.0
 * guard.h -- the flat guard program.  Its meaning, record by record, is guards.def.
 */
#ifndef GM_TRACE_GUARD_H
#define GM_TRACE_GUARD_H

#include "core/trace/source.h"

typedef struct {
  uint8_t kind; /* GmRecordKind */
  uint32_t in;  /* the slot that is looked at: a load's base, a check's value */
  uint32_t out; /* a load's slot */
  int64_t index;
  PyObject *obj, *key; /* strong */
  Py_hash_t hash;      /* of key */
  const void *ptr;     /* TENSOR: GmMeta; CLASS_LOOKUP, CLASS_DICT: strong reference or NULL;
                          BACKEND_MATCH: the key */
  const char *ptr2;    /* a name for texts */
} GmCheck;

struct GmGuards {
  gatomicrefcount refs;
  GmCheck *checks;
  uint32_t n, n_slots, n_guards;
  char **sources; /* per record: name of what it looks at, or NULL */
  char **wheres;  /* per record: the user's line, or NULL */
  GStringChunk *text;
};

#endif
