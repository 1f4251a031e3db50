/* SPDX-License-Identifier: Apache-2.0
 * guards.h -- guards as their users see them: the state of a call, the check, texts.
 */
#ifndef GM_GUARD_GUARDS_H
#define GM_GUARD_GUARDS_H

#include "core/base/thread.h"
#include "core/graph/graph.h"
#include "core/objects/python_host.h"

/* The state that a call runs under, compared as a whole before anything else. */
typedef struct {
  const void
      *backend;   /* an interned key of back end and options: equal pointers, equal configuration */
  uint32_t modes; /* GmMode bits */
  PyObject *pack, *unpack; /* GM_MODE_SAVED_HOOKS: the pair, borrowed; else NULL */
} GmCallEnv;
typedef enum {
  GM_MODE_GRAD = 1,         /* grad mode is on */
  GM_MODE_FULLGRAPH = 2,    /* a break is an error */
  GM_MODE_BREAK_RAISES = 4, /* the same, of this thread at this time: error_on_graph_break */
  GM_MODE_FUNCTION_MODE =
      1 << 5,                   /* a mode with a __torch_function__ sees calls: none is recorded */
  GM_MODE_SAVED_HOOKS = 1 << 3, /* saved-tensor hooks are on that may become part of a graph */
  GM_MODE_REFUSES_DRAWS = 1 << 4, /* gm_draws_refused */
  GM_MODE_DTYPE_SHIFT = 8,        /* the default dtype stands in bits 8 to 15 */
  GM_MODE_AUTOCAST_SHIFT = 16,    /* gm_autocast_mode in bits 16 to 23 */
  GM_MODE_DEVICE_SHIFT = 24,      /* the default device in bits 24 to 31; 0: the CPU */
} GmMode;

/* A flat program of loads and checks.  Reference-counted; keeps no tensor, user instance, class,
 * function or module alive: when one that it compares with dies, it is dead, and so is the entry.
 */
typedef struct GmGuards GmGuards;
GmGuards *gm_guards_ref (GmGuards *g);
void gm_guards_unref (GmGuards *g);
/* For the garbage collector: visits every strong reference once. Only the owner of the guards may
 * call it. */
int gm_guards_traverse (const GmGuards *g, visitproc visit, void *arg);
/* Number of values that a successful check leaves in `slots` (the caller gives room for so many).
 */
uint32_t gm_guards_n_slots (const GmGuards *g);
/* Returns the slots that are filled after each check that holds; the other slots are scratch space
 * of the check. Borrowed. */
const uint32_t *gm_guards_lasting (const GmGuards *g, uint32_t *n);
uint32_t gm_guards_n_checks (const GmGuards *g);
/* Number of records that the last check which held has read; for a remembered tree, of the classes,
 * objects and dicts that were compared. */
uint32_t gm_guards_n_looked (const GmGuards *g);
/* A fact about the memory of two tensors, found after recording. */
typedef struct {
  bool (*holds) (const void *data, const GmTensor *a, const GmTensor *b);
  char *(*text) (const void *data); /* caller frees */
  void *data;                       /* freed with g_free */
} GmMemoryFact;
/* Adds a fact about the tensors in slots a and b; steals fact->data. Called before the program is
 * used. */
void gm_guards_add_memory (GmGuards *g, uint32_t a, uint32_t b, const GmMemoryFact *fact);
/* A fact about the call beside its arguments, found after recording; at most one per program. */
typedef struct {
  bool (*holds) (const void *data,
                 const GmCallEnv *env); /* as gm_guards_check: runs no Python code */
  bool (*dead) (const void *data);      /* the fact will never hold again */
  char *(*text) (const void *data);     /* caller frees */
  void (*destroy) (void *data);
  void *data;
} GmCallFact;
/* Adds the fact; steals fact->data. Called before the program is used. */
void gm_guards_add_call (GmGuards *g, const GmCallFact *fact);
/* True if the recording holds for this call.  locals: the bound arguments in localsplus order (NULL
 * beyond is fine).  slots[i] is then the value of source i, borrowed: take references before
 * anything that runs Python code or releases the GIL. Makes no Python object, runs no Python code,
 * sets no exception. */
bool gm_guards_check (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
                      PyFunctionObject *func, PyObject **slots);
/* GM_STRESS=guards: runs a check in which record `which` (below gm_guards_n_records) fails when its
 * turn comes, as if its condition did not hold. True if that made the check fail, as it must. */
bool gm_guards_fail (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
                     PyFunctionObject *func, uint32_t which);
uint32_t gm_guards_n_records (const GmGuards *g);
/* Set for the calling thread: remembered trees of objects are taken to be unchanged, without a
 * check. Unsafe: an object that was replaced in a tree since is used, even after it was freed. */
extern GM_THREAD bool gm_guards_trust_trees;
/* True if an object that the guards compare with has died: they will never hold again. */
bool gm_guards_dead (const GmGuards *g);
/* Returns NULL if the guards hold, else the first check that fails: "TENSOR L['x']: expected
 * f32[16], found f32[17]". Caller frees. */
char *gm_guards_explain (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
                         PyFunctionObject *func);
/* Returns one line per check, BACKEND_MATCH first, each with the user's line that made it
 * necessary. Caller frees. */
char *gm_guards_text (const GmGuards *g);

/* True if a guard depends on the grad of a tensor. */
bool gm_guards_read_grad (const GmGuards *g);

typedef struct {
  const char *file; /* NULL: nowhere in particular */
  int line;
} GmWhere;
/* A guard as users read it; all is borrowed for the call. */
typedef struct {
  const char *kind, *source, *text; /* source: NULL for a guard on no value; text names kind and
                                       source, too */
  GmWhere where;
  bool is_lookup;   /* LOOKUP of guards.def */
  bool of_argument; /* the source is an argument other than self, or leads through one */
} GmGuardRow;
/* Calls `row` for each guard, in the order of checks, until `row` returns false; then returns
 * false. */
bool gm_guards_foreach (const GmGuards *g, bool (*row) (const GmGuardRow *row, void *data),
                        void *data);

#endif
