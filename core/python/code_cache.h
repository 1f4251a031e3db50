/* SPDX-License-Identifier: Apache-2.0
 * code_cache.h -- what is kept on a code object: its decoded form, and the compiled entries of all back ends.
 *
 * Entries are immutable once published, and a snapshot is an immutable array of them: adding one makes a new array and
 * swaps one pointer.  Readers walk a snapshot without a lock, and take a reference to the entry they chose before anything
 * can run that might publish (Python code, a release of the GIL).
 * Requires: the GIL, everywhere.
 */
#ifndef GM_PYTHON_CODE_CACHE_H
#define GM_PYTHON_CODE_CACHE_H

#include "core/aot/looks.h"
#include "core/plans.h"
#include "core/trace/trace.h"

#define GM_MAX_ENTRIES 8 /* per code object and configuration, unless recompile_limit of gramme._dynamo.config says another number */

/* Back end and options, interned: equal configurations are one object.  Its address is BACKEND_MATCH's key.  Those of installed
 * back ends live for ever, those of Python callables as long as a compiled function or an entry refers to them. */
typedef struct GmConfig {
  uint32_t refs;
  char *key;      /* what is interned */
  PyObject *callable, *kwargs; /* a back end in Python and what else it is called with; or NULL */
  char *backend;  /* "tcc"; a callable's name */
  char **options; /* NULL or "key=value" strings, sorted */
  char *text;     /* "tcc(opt=1)": for guards and logs */
} GmConfig;
/* New references. */
const GmConfig *gm_config_get (const char *backend, char **options);
const GmConfig *gm_config_for (PyObject *callable, PyObject *kwargs_or_null, char **options); /* NULL with an exception */
/* The same for what a program gives: a name or a callable, and None or a list of "key=value" strings.  NULL with an exception. */
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
  uint32_t modes; /* of the call that made it: fullgraph and the rest */
  GmGuards *guards;
  GmPlan *plan;            /* NULL if the graph computes nothing */
  GmPlans *plans;          /* instead of a plan, where sizes are symbols */
  GmDirect *direct;        /* instead of a plan: what a back end in Python made of the recorded graph */
  uint32_t n_inputs, n_outputs;
  uint32_t *input_slots;   /* per plan input: the guards' slot that holds the tensor */
  uint32_t n_ints, *ints;  /* those of the inputs that are ints, not tensors: see size.c of core/trace */
  GmLooks looks; /* at its inputs */
  struct GmDraws *draws;   /* numbers to draw before it runs; NULL: none */
  GmReturn *ret;           /* the short ending, or NULL */
  PyCodeObject *residual;  /* else the long one: called with slots[in_slots[0]] ..., then the outputs */
  uint32_t n_in_slots;
  uint32_t *in_slots;
  struct GmContinuation *rest; /* the ending gave the values of a call that goes on in Python; NULL: it gave the call's value */
  bool sets_grad, grad;        /* the grad mode after the ending */
  bool calls_program;          /* its graph calls functions of the program's */
  bool simple;                 /* nothing but a plan of tensors, or plans, and its one result: see callable.c */
  /* for explain and status */
  GmGraph *graph; /* as recorded */
  char *reason; /* why the entries before it did not fit; NULL for the first */
  char *fixed;  /* sizes that vary, and which the recording fixed: see GmRecording */
  struct GmPair *pair; /* the back end's code; NULL: nothing is to run, or a callable does */
  uint32_t n_nodes, n_effects, n_frames, n_insns;
  GmStageTime times[8];
  uint64_t hits;
  uint32_t to_fail; /* GM_STRESS=guards: how many records have yet to fail once; else 0 */
  double guard_ns, guard_cold_ns; /* one check of all guards when the entry was made: the best of a few, and the first */
} GmEntry;
GmEntry *gm_entry_ref (GmEntry *e);
void gm_entry_unref (GmEntry *e);

typedef struct {
  uint32_t n;
  GmEntry *entries[];
} GmSnapshot;

/* A break that was met, kept for explain, and so that the user is warned once. */
typedef struct {
  const GmConfig *config; /* owned */
  GmBreak id;
  char *text; /* whole report: place, caret, reason, hint */
  bool plain; /* nothing could be kept: the function ran as plain Python */
  uint32_t count;
} GmBreakRecord;

typedef struct GmCodeCache {
  PyCodeObject *code; /* borrowed: it owns us, unless there is a point */
  GmCode *decoded;    /* NULL until asked for */
  GmSnapshot *snapshot; /* never NULL */
  GArray *breaks;     /* GmBreakRecord */
  GmProfile *profile; /* which sizes were seen to change */
  bool profile_read;  /* what is on disk of it has been looked for */
  GPtrArray *instances; /* addresses of the modules whose method this is, by number; NULL: none yet */
  GPtrArray *hook_programs; /* of a hook on gradients: see hook_program.h; or NULL */
  uint32_t hook_tries;      /* recordings as such */
  uint32_t misses;
  unsigned long compiler; /* the thread that compiles an entry now; 0: none */
  pid_t compiler_pid;     /* and its process */
  bool limit_warned;
  bool called;            /* while the stance was eager_then_compile */
  PyCodeObject *shown;     /* of a resume function's code: the same, with the arguments of the original; owned, or NULL */
  bool whole;              /* allow_in_graph: it is called, never recorded through */
  uint8_t hook_all;        /* the same while every function is captured */
  uint8_t counted;         /* see counters.c: what was counted of it ... */
  uint32_t counted_in;     /* ... since which reset */
  uint8_t hook;            /* what the hook has decided about frames of this code: see hook.c */
  struct GmOriginal *original; /* of one with breaks, see resume_original.h; or NULL */
  const struct GmResumePoint *point; /* it is a resume function's: it belongs to the point, as does `code`; or NULL */
  struct GmCodeCache *after; /* in the walk with that number, see below */
  uint64_t walk;
  const void *visitor;     /* the compiled function through which the garbage collector sees what the entries hold, borrowed; or NULL */
} GmCodeCache;

/* The cache of a code object, made on first use; lives as long as the code object.  NULL with an exception. */
GmCodeCache *gm_code_cache_get (PyCodeObject *code);
/* Whether a function of the code is called as a whole. */
bool gm_code_is_whole (PyCodeObject *code);
/* Caches that are led to, each once, in the order in which they were added; goes on with `after`.  Takes no memory, which the garbage collector may
 * run without.  One at a time. */
typedef struct {
  GmCodeCache *last;
  uint64_t number;
} GmCacheWalk;
GmCacheWalk gm_cache_walk (GmCodeCache *first);
void gm_cache_walk_add (GmCacheWalk *walk, GmCodeCache *cache);
/* Visits what the entries hold, and those of the resume functions that they lead to, as far as nobody else does.  A code object is none of the
 * collector's: so one compiled function of the code, `visitor`, does it, and a cycle through an entry (a class's property, its
 * getter, the getter's globals, the compiled function) can be collected. */
int gm_code_cache_traverse (GmCodeCache *cache, const void *visitor, visitproc visit, void *arg);
void gm_code_cache_leave (GmCodeCache *cache, const void *visitor); /* another may take its place */
/* One that belongs to a point, which frees it. */
GmCodeCache *gm_code_cache_new (const struct GmResumePoint *point);
void gm_code_cache_free (GmCodeCache *cache); /* NULL is fine */
/* The decoded form, from the cache.  Fits GmTraceHost.decode. */
const GmCode *gm_code_cache_decode (PyCodeObject *code, GError **error);
/* Publishes; takes the reference. */
void gm_code_cache_add (GmCodeCache *cache, GmEntry *entry);
/* Drops the entries that can never fit again. */
void gm_code_cache_prune (GmCodeCache *cache);
uint32_t gm_code_cache_count (const GmCodeCache *cache, const GmConfig *config);
/* Calls that entries have answered: of all caches that live. */
uint64_t gm_code_cache_hits (void);
/* Drops all entries and breaks, of one code object or of all that live. */
void gm_code_cache_reset (GmCodeCache *cache);
void gm_code_cache_reset_all (void);

/* For each live cache and each configuration that has entries or breaks there; stops at false.  fn may run Python code. */
bool gm_code_cache_foreach (bool (*fn) (GmCodeCache *cache, const GmConfig *config, void *data), void *data);

int gm_py_init_code_cache (void);

#endif
