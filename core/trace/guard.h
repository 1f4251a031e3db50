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
  PyObject *obj, *key; /* alive while the program is not dead */
  Py_hash_t hash;      /* of key */
  const void *ptr;     /* ATTR: what it found last, borrowed, see MEMO; TENSOR: GmMeta; CLASS_LOOKUP, CLASS_DICT: as obj, or NULL;
                          BACKEND_MATCH: the key */
  const char *ptr2;    /* a name for texts */
} GmCheck;

/* Immutable but for the memory of MEMO records, which the interpreter's lock protects: no check gives it up. */
struct GmGuards {
  gatomicrefcount refs;
  bool *dead;      /* an object that it compares with is gone: no call can fit; a g_rc_box, shared with weak references */
  GPtrArray *held; /* PyObject: strong references, and weak ones to classes, functions, modules ... of the program's */
  GmCheck *checks;
  uint32_t n, n_slots, n_guards;
  char **sources; /* per record: name of what it looks at, or NULL */
  char **wheres;  /* per record: the user's line, or NULL */
  GStringChunk *text;
};

#endif
