/* SPDX-License-Identifier: Apache-2.0
 * guards.h -- guards as their users see them: the state of a call, the check, texts.
 */
#ifndef GM_GUARD_GUARDS_H
#define GM_GUARD_GUARDS_H

#include "core/base/thread.h"
#include "core/graph/graph.h"
#include "core/objects/python_host.h"

/* The state of the thread and the compiled function in which a call runs; compared before anything
 * else. */
typedef struct {
  const void
      *backend;   /* interned text of back end and options: equal pointers, equal configuration */
  uint32_t modes; /* GmMode bits */
  PyObject *pack, *unpack; /* GM_MODE_SAVED_HOOKS: the pair, borrowed; else NULL */
} GmCallEnv;
typedef enum {
  GM_MODE_GRAD = 1,         /* grad mode is on */
  GM_MODE_FULLGRAPH = 2,    /* a break is an error */
  GM_MODE_BREAK_RAISES = 4, /* a break is an error in this thread: error_on_graph_break */
  GM_MODE_FUNCTION_MODE =
      1 << 5, /* a mode with a __torch_function__ is active and sees calls: no call is recorded */
  GM_MODE_SAVED_HOOKS = 1 << 3,   /* saved-tensor hooks are on that may become part of a graph */
  GM_MODE_REFUSES_DRAWS = 1 << 4, /* random draws are refused, see gm_draws_refused */
  GM_MODE_DTYPE_SHIFT = 8,        /* bits 8 to 15: the default dtype */
  GM_MODE_AUTOCAST_SHIFT = 16,    /* bits 16 to 23: gm_autocast_mode */
  GM_MODE_DEVICE_SHIFT = 24,      /* bits 24 to 31: the default device; 0: the CPU */
} GmMode;

/* A guard program: a flat array of loads and checks. Reference-counted. Keeps no tensor, user
 * instance, class, function or module alive: when such an object that the program compares with
 * dies, the program is dead, and so is the cache entry. */
typedef struct GmGuards GmGuards;
GmGuards *gm_guards_ref (GmGuards *g);
void gm_guards_unref (GmGuards *g);
/* Visits each strong reference once, for the garbage collector. Only the owner of the guards may
 * call it. */
int gm_guards_traverse (const GmGuards *g, visitproc visit, void *arg);
/* Returns the number of slots, for which the caller of gm_guards_check gives room. */
uint32_t gm_guards_n_slots (const GmGuards *g);
/* Returns the numbers (*n of them) of the slots that are filled after each check that holds; all
 * other slots are scratch space of the check. Borrowed. */
const uint32_t *gm_guards_lasting (const GmGuards *g, uint32_t *n);
uint32_t gm_guards_n_checks (const GmGuards *g);
/* Returns the number of records that the last successful check has read; for a remembered tree, the
 * number of classes, objects and dicts that were compared instead. */
uint32_t gm_guards_n_looked (const GmGuards *g);
/* A fact about the memory of two tensors, found after recording, which each call checks. */
typedef struct {
  bool (*holds) (const void *data, const GmTensor *a, const GmTensor *b);
  char *(*text) (const void *data); /* caller frees */
  void *data;                       /* freed with g_free */
} GmMemoryFact;
/* Adds a record for a fact about the tensors in slots a and b; steals fact->data. Must be called
 * before the program is used. */
void gm_guards_add_memory (GmGuards *g, uint32_t a, uint32_t b, const GmMemoryFact *fact);
/* A fact about the call beside its arguments, found after recording; at most one per program. */
typedef struct {
  bool (*holds) (const void *data,
                 const GmCallEnv *env); /* runs no Python code, as gm_guards_check */
  bool (*dead) (const void *data);      /* true if the fact will never hold again */
  char *(*text) (const void *data);     /* caller frees */
  void (*destroy) (void *data);
  void *data;
} GmCallFact;
/* Adds a record for the fact; steals fact->data. Must be called before the program is used. */
void gm_guards_add_call (GmGuards *g, const GmCallFact *fact);
/* True if the recording holds for this call. locals: the bound arguments in localsplus order (NULL
 * beyond them is fine). Fills slots[i] with the value of the source with slot i, borrowed: the
 * caller takes references before it runs Python code or releases the GIL. Makes no Python object
 * except in the loads and checks that guards.def names, runs no Python code, and sets no
 * exception. */
bool gm_guards_check (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
                      PyFunctionObject *func, PyObject **slots);
/* Runs, for GM_STRESS=guards, a check in which record `which` (below gm_guards_n_records) fails
 * when its turn comes, as if its condition did not hold. True if the whole check failed, as it
 * must. */
bool gm_guards_fail (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
                     PyFunctionObject *func, uint32_t which);
uint32_t gm_guards_n_records (const GmGuards *g);
/* If true, checks of the calling thread take remembered trees of objects to be unchanged without
 * comparing anything. Unsafe: an object that was replaced in a tree is still used, even after it
 * was freed. */
extern GM_THREAD bool gm_guards_trust_trees;
/* True if an object that the guards compare with has died, so that they will never hold again. */
bool gm_guards_dead (const GmGuards *g);
/* Returns NULL if the guards hold for the call, else a text of the first check that fails: "TENSOR
 * L['x']: expected f32[16], found f32[17]". The caller frees it. */
char *gm_guards_explain (const GmGuards *g, const GmCallEnv *env, PyObject *const *locals,
                         PyFunctionObject *func);
/* Returns a text with a line for each check, BACKEND_MATCH first, each with the user's line that
 * made the guard necessary. The caller frees it. */
char *gm_guards_text (const GmGuards *g);

/* True if a guard depends on the grad of a tensor. */
bool gm_guards_read_grad (const GmGuards *g);

typedef struct {
  const char *file; /* NULL: unknown */
  int line;
} GmWhere;
/* A guard in the form that users read; its strings are borrowed for the call of `row`. */
typedef struct {
  const char *kind, *source, *text; /* source: NULL for a guard on no value; text names kind and
                                                              source, too */
  GmWhere where;
  bool is_lookup;   /* a LOOKUP of guards.def */
  bool of_argument; /* the source is an argument other than self, or leads through one */
} GmGuardRow;
/* Calls `row` for each guard, in the order of the checks, until `row` returns false, and then
 * returns false; else true. */
bool gm_guards_foreach (const GmGuards *g, bool (*row) (const GmGuardRow *row, void *data),
                        void *data);

#endif
