/* SPDX-License-Identifier: Apache-2.0
 * code_cache.h -- data kept on a code object: its decoded form, and the compiled entries of all
 * back ends.
 *
 * Entries are immutable once published, and a snapshot is an immutable array of them: adding an
 * entry makes a new array and swaps one pointer.  Readers walk a snapshot without a lock, and take
 * a reference to the entry they chose before any code can run that might publish (Python code, a
 * release of the GIL).
 * Requires: the GIL, everywhere.
 */
#ifndef GM_CAPTURE_CODE_CACHE_H
#define GM_CAPTURE_CODE_CACHE_H

#include "core/aot/read_order.h"
#include "core/plan_cache.h"
#include "core/trace/trace.h"

/* Limit of entries per code object and configuration, unless recompile_limit of
 * gramme._dynamo.config is set. */
#define GM_MAX_ENTRIES 8

/* A back end with its options, interned: equal configurations are the same object, whose address
 * the guard BACKEND_MATCH compares.  Configurations of installed back ends are never freed; a
 * configuration of a Python callable lives as long as a compiled function or an entry refers to
 * it. */
typedef struct GmConfig {
  uint32_t refs;
  char *key;                   /* text under which the configuration is interned */
  PyObject *callable, *kwargs; /* a back end in Python and its keyword arguments; or NULL */
  char *backend;               /* name of the back end, "tcc", or of the callable */
  char **options;              /* NULL or "key=value" strings, sorted */
  char *text;                  /* "tcc(opt=1)": for guards and logs */
} GmConfig;
/* Return the interned configuration of an installed back end, or of a Python callable: a new
 * reference. */
const GmConfig *gm_config_get (const char *backend, char **options);
const GmConfig *gm_config_for (PyObject *callable, PyObject *kwargs_or_null,
                               char **options); /* NULL with an exception */
/* Returns the configuration for arguments given by a program: `backend` is a name or a callable,
 * `options` None or a list of "key=value" strings.  New reference, or NULL with an exception. */
const GmConfig *gm_config_of (PyObject *backend, PyObject *options);
const GmConfig *gm_config_ref (const GmConfig *config);
void gm_config_unref (const GmConfig *config); /* NULL is fine */

typedef struct {
  char letter;
  double ms;
} GmStageTime;

typedef struct GmDirect GmDirect;

typedef struct GmEntry {
  uint32_t refs;
  const GmConfig *config; /* owned */
  uint32_t modes;         /* modes of the call for which the entry was made: fullgraph and others */
  GmGuards *guards;
  GmPlan *plan;       /* NULL if the graph computes nothing */
  GmPlanCache *plans; /* used in place of `plan` where sizes are symbols */
  /* Callable of a Python back end that takes the recorded graph; used instead of a plan. */
  GmDirect *direct;
  uint32_t n_inputs, n_outputs;
  uint32_t *input_slots;  /* by plan input: the slot of the guards that holds the tensor */
  uint32_t n_ints, *ints; /* inputs that are ints, not tensors: see size.c of core/trace */
  GmReadOrder looks;      /* order in which the program refreshes stale views among the inputs */
  struct GmDraws *draws;  /* numbers to draw before the graph runs; NULL: none */
  GmReturn *ret;          /* the short ending: how the value is made of the outputs; or NULL */
  /* Long ending, used if `ret` is NULL: code called with slots[in_slots[0]] ..., then the
   * outputs. */
  PyCodeObject *residual;
  uint32_t n_in_slots;
  uint32_t *in_slots;
  /* Work after a break: not NULL if the ending returns the values with which the call continues
   * in Python; NULL: the ending returns the value of the call. */
  struct GmContinuation *rest;
  bool sets_grad, grad; /* sets_grad: the entry sets the grad mode to `grad` at its end */
  bool calls_program;   /* true if its graph calls functions of the program */
  /* True if gm_entry_is_simple: only tensors in, one tensor out, nothing else to do. */
  bool simple;
  /* The fields below are for explain and status. */
  GmGraph *graph; /* the graph as recorded */
  char *reason;   /* why the earlier entries did not fit the call; NULL for the first entry */
  char *fixed;    /* text: sizes that vary, but that the recording has fixed, see GmRecording */
  struct GmCompiledPair
      *pair; /* the back end's code; NULL: there is nothing to run, or a callable runs */
  uint32_t n_nodes, n_effects, n_frames, n_insns;
  GmStageTime times[GM_N_STAGES];
  uint64_t hits;
  uint32_t to_fail; /* GM_STRESS=guards: number of records that have yet to fail once; else 0 */
  /* Nanoseconds for a check of all guards when the entry was made: the least of a few checks,
   * and the time of the first check. */
  double guard_ns, guard_cold_ns;
} GmEntry;
GmEntry *gm_entry_ref (GmEntry *e);
void gm_entry_unref (GmEntry *e);

typedef struct {
  uint32_t n;
  GmEntry *entries[];
} GmSnapshot;

/* A break that a recording met, kept for explain, and so that the user is warned only once. */
typedef struct {
  const GmConfig *config; /* owned */
  GmBreak id;
  char *text; /* the whole report: place, caret, reason, hint */
  bool plain; /* true if nothing could be compiled, so that the function ran as plain Python */
  uint32_t count;
} GmBreakRecord;

typedef struct GmCodeCache {
  PyCodeObject *code;   /* borrowed: the code object owns this cache, or else `point` does */
  GmCode *decoded;      /* the decoded form; NULL until it is needed */
  GmSnapshot *snapshot; /* never NULL */
  GArray *breaks;       /* GmBreakRecord */
  GmProfile *profile;   /* the sizes that were seen to change */
  bool profile_read;    /* true once the profile on disk has been searched for */
  /* Addresses of the modules (gramme.nn.Module) whose method this code is; the index is the
   * number of the instance.  NULL: none yet. */
  GPtrArray *instances;
  GPtrArray *hook_programs; /* programs for hooks on gradients: see hook_program.h; or NULL */
  uint32_t hook_tries;      /* number of recordings for such programs */
  uint32_t misses;
  unsigned long compiler; /* the thread that compiles an entry now; 0: none */
  pid_t compiler_pid;     /* the process of `compiler` */
  bool limit_warned;
  bool called; /* true after a call while the stance was eager_then_compile */
  /* For a resume function's code: a copy of the code whose argument counts are those of the
   * original, shown to code that inspects the frame; owned, or NULL. */
  PyCodeObject *shown;
  bool whole; /* true if functions of this code are marked allow_in_graph: called, never inlined */
  uint8_t hook_all;            /* the hook's decision while every function is captured */
  uint8_t counted;             /* see counters.c: counts that include this function ... */
  uint32_t counted_in;         /* ... since the reset of this number */
  uint8_t hook;                /* the hook's decision about frames of this code: see hook.c */
  struct GmOriginal *original; /* for a code object with breaks, see resume_original.h; or NULL */
  /* For a resume function: the resume point, which owns the cache and `code`; or NULL. */
  const struct GmResumePoint *point;
  struct GmCodeCache *after; /* next cache in the walk with the number `walk`, see GmCacheWalk */
  uint64_t walk;
  /* The compiled function through which the garbage collector visits the objects of the entries,
   * borrowed; or NULL. */
  const void *visitor;
} GmCodeCache;

/* Returns the cache of a code object, made on first use; borrowed, it lives as long as the code
 * object.  NULL with an exception. */
GmCodeCache *gm_code_cache_get (PyCodeObject *code);
/* True if functions of this code are marked allow_in_graph: they are called, never inlined. */
bool gm_code_is_whole (PyCodeObject *code);
/* A walk over caches, which visits each cache once, in the order in which they were added;
 * `after` leads to the next cache.  The walk allocates no memory, since that might start the
 * garbage collector.  There can be only one walk at a time. */
typedef struct {
  GmCodeCache *last;
  uint64_t number;
} GmCacheWalk;
GmCacheWalk gm_cache_walk (GmCodeCache *first);
void gm_cache_walk_add (GmCacheWalk *walk, GmCodeCache *cache);
/* Visits, for the garbage collector, the objects held by the cache's entries and by the entries
 * of the resume functions that they lead to, except where these belong to another visitor.  The
 * collector does not track code objects, so one compiled function of the code, `visitor`, visits in
 * their place, and a cycle through an entry (a class's property, its getter, the getter's globals,
 * the compiled function) can be collected. */
int gm_code_cache_traverse (GmCodeCache *cache, const void *visitor, visitproc visit, void *arg);
/* Ends the role of `visitor` (a compiled function that dies) for this cache and the caches that
 * it visited; another compiled function may become their visitor. */
void gm_code_cache_leave (GmCodeCache *cache, const void *visitor);
/* Returns a new empty cache, which the resume point `point` has to own. */
GmCodeCache *gm_code_cache_new (const struct GmResumePoint *point);
void gm_code_cache_free (GmCodeCache *cache); /* NULL is fine */
/* Returns the decoded form of `code`, decoded at its first use and kept in the cache.  Borrowed;
 * NULL with *error.  Fits GmTraceHost.decode. */
const GmCode *gm_code_cache_decode (PyCodeObject *code, GError **error);
/* Adds an entry before all others, and publishes the new snapshot; steals the reference. */
void gm_code_cache_add (GmCodeCache *cache, GmEntry *entry);
/* Drops the entries whose guards can never hold again, since an object that they need has died. */
void gm_code_cache_prune (GmCodeCache *cache);
uint32_t gm_code_cache_count (const GmCodeCache *cache, const GmConfig *config);
/* Returns the number of calls that entries have answered, in all live caches. */
uint64_t gm_code_cache_hits (void);
/* Drop all entries and breaks, of one code object or of all live caches. */
void gm_code_cache_reset (GmCodeCache *cache);
void gm_code_cache_reset_all (void);

/* Calls fn for each live cache and each configuration that has entries or breaks there, until it
 * returns false.  fn may run Python code. */
bool gm_code_cache_foreach (bool (*fn) (GmCodeCache *cache, const GmConfig *config, void *data),
                            void *data);

int gm_py_init_code_cache (void);

#endif
