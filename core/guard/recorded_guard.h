/* SPDX-License-Identifier: Apache-2.0
 * recorded_guard.h -- guards as a recording leaves them, and the step that compiles them.
 */
#ifndef GM_GUARD_RECORDED_GUARD_H
#define GM_GUARD_RECORDED_GUARD_H

#include "core/guard/value_source.h"

/* A guard.  APART: the source is another object than all others of its group, whose guards stand
 * beside each other; index: the number of the group. */
typedef struct {
  uint8_t kind;           /* GM_GUARD_* */
  const GmSource *source; /* NULL for a guard on the call's state */
  const GmSource *other;  /* SAME, DISTINCT */
  PyObject *obj, *key;
  int64_t index;
  const void *ptr; /* APART, until the recording ends: GmKeyApart, of core/trace/keys.h */
  int line;
  const char *file;
} GmGuard;

/* All that the program is made of; borrowed. */
typedef struct {
  GArray *guards;           /* GmGuard, in the order of the recording */
  GPtrArray *sources;       /* GmSource, by number */
  PyFunctionObject *func;   /* the function that is called */
  const char *backend_text; /* for texts of BACKEND_MATCH; or NULL */
} GmGuardSet;

/* Compiles guards and sources into a program.  extra: further sources that are loaded.
 * slot_of[source->number] is filled: slots, or UINT32_MAX. */
GmGuards *gm_guards_new (const GmGuardSet *r, const GmSource *const *extra, uint32_t n_extra,
                         uint32_t *slot_of);

/* The slot of an input that is no Python value: the generator's state, i64[2]. */
#define GM_SLOT_RNG UINT32_MAX

typedef struct {
  GmValueId value;
  uint32_t slot;      /* into `slots` of gm_guards_check, a tensor; or GM_SLOT_RNG */
  const char *source; /* "L['x']" */
  bool mutated;       /* the graph writes to it */
  bool is_int;        /* the slot holds an int, the size of the input */
} GmRecordInput;

/* The symbolic sizes of a recording; borrowed. */
typedef struct {
  const GmGraph *graph;        /* as recorded */
  const GmRecordInput *inputs; /* one per graph input */
  uint32_t n_inputs;
  const GmWhere *places; /* one per fact about sizes, where it was made; may be fewer */
  uint32_t n_places;
} GmGuardSizes;

/* Adds a record for each fact about the sizes that no other fact implies.  Called before the
 * program is used. */
void gm_guards_add_sizes (GmGuards *g, const GmGuardSizes *sizes);

#endif
