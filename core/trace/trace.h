/* SPDX-License-Identifier: Apache-2.0
 * trace.h -- the recorder's boundary: what goes in (decoded code, arguments, a host), what comes
 * out.
 *
 * core/capture decodes a function, fills a request and calls gm_record_function. The recorder
 * executes the instructions symbolically and returns a recording: a graph, a guard program, and how
 * to finish a call once the graph has run. Each construct that it cannot trace has a row in
 * core/breaks.def; at such a break `stop` is set, the rest of the recording is empty, and the
 * function runs as Python. The recorder runs no user code and changes no user object. Threads: the
 * GIL is held by every caller of every function here.
 */
#ifndef GM_TRACE_TRACE_H
#define GM_TRACE_TRACE_H

#include "core/bytecode/code.h"
#include "core/guard/recorded_guard.h"
#include "core/objects/break.h"
#include "core/objects/interrupt.h"
#include "core/objects/python_host.h"
#include "core/sym/profile.h"

/* -- How a call ends ------------------------------------------------------- */

/* The short form: the returned value as a tree, for a call without side effects whose value needs
 * no bytecode. */
typedef enum {
  GM_RETURN_CONST,  /* obj, one object for all calls */
  GM_RETURN_OUTPUT, /* graph output `index`: the same Python tensor wherever the index recurs */
  GM_RETURN_SLOT,   /* slots[index] */
  GM_RETURN_TUPLE,
  GM_RETURN_SIZE, /* the type of Tensor.shape */
  GM_RETURN_LIST, /* items */
  GM_RETURN_DICT, /* items are key, value, key, value ... */
} GmReturnKind;
typedef struct GmReturn {
  uint8_t kind;
  uint32_t index, n;
  PyObject *obj;
  struct GmReturn *items;
} GmReturn;
/* Builds the value that `ret` describes; returns a new reference, or NULL with an exception. slots:
 * the values that the check of the guards has loaded; outputs: the graph's outputs as Python
 * tensors; both are borrowed. */
PyObject *gm_return_build (const GmReturn *ret, PyObject *const *slots, PyObject *const *outputs);
void gm_return_free (GmReturn *ret);
int gm_return_traverse (const GmReturn *ret, visitproc visit,
                        void *arg); /* visits what `ret` owns */

/* -- The place of a break -------------------------------------------------- */

typedef enum {
  GM_RESUME_AFTER, /* Python executes the instruction, a resume function goes on after it */
  GM_RESUME_AT,    /* a resume function starts with the instruction (GM_STRESS=break) */
  GM_RESUME_PLAIN, /* as GM_RESUME_AT, but the rest of the function runs as plain Python in one
                      frame; there is no other frame */
  GM_RESUME_SPAN,  /* Python executes the stretch that begins with the instruction, see
                      python_span.h; a resume function goes on after it */
  GM_RESUME_LEAVE, /* as GM_RESUME_SPAN, and the stretch ends outside of all handlers of the user's
                    */
} GmResumeMode;

/* A frame in its state at the break. The tuple that the recording returns has the frame's values
 * next to each other: the variables in the order of `locals`, then the stack from bottom to top
 * without the NULLs, then the cells of all cell and free variables in slot order. */
typedef struct {
  const GmCode *code;
  PyObject *globals; /* borrowed */
  uint32_t insn;  /* first instruction of the step that Python executes next; in a caller: its call,
                     whose operands are popped */
  uint32_t depth; /* stack entries */
  uint64_t nulls; /* bit k: entry k is the NULL of a call */
  uint64_t unbound; /* bit k: entry k is a variable without a value, saved by a comprehension */
  uint64_t away;    /* bit i: the i-th cell is on the stack, and its slot is a plain variable */
  const uint32_t *locals; /* slots of the variables that are bound and live, ascending in the
                             original code */
  uint32_t n_locals, n_stack, n_cells;
  bool init; /* the frame is an __init__: its caller gets the object, one more value at the end */
} GmBreakFrame;

typedef struct {
  GmResumeMode mode; /* of frames[0]; callers go on after their call */
  uint32_t n_frames;
  const GmBreakFrame *frames; /* innermost first */
} GmBreakPoint;

/* -- Recording ------------------------------------------------------------- */

/* The sizes that become symbols: none, those that the user marked, those that were seen to change
 * as well, all. */
typedef enum { GM_DYNAMIC_NEVER, GM_DYNAMIC_MARKED, GM_DYNAMIC_SEEN, GM_DYNAMIC_ALWAYS } GmDynamic;

/* A call of a Python function that draws a number, made after the guards and before the graph. */
typedef struct {
  PyObject *obj; /* or NULL: slots[slot] */
  uint32_t slot;
} GmRecordDrawPart;
typedef struct {
  const char *name;
  uint32_t n; /* number of parts: the function, then its arguments */
  const GmRecordDrawPart *parts;
  bool gives, is_float; /* gives: the call returns a number, which is put into slots[slot] as a
                           tensor: f64 if is_float, else i64 from lo to hi */
  uint32_t slot;
  int64_t lo, hi;
} GmRecordDraw;

typedef struct {
  GmBreak id;
  const char *message; /* names the operation and its operands */
  const char *hint;    /* advice for the user */
  const char *file, *function;
  int line, col, end_line, end_col;
  const char *stack; /* "  file:line in function\n" for each inlined frame, outermost first */
  bool error;        /* the break is raised as an error, also where breaks are allowed */
  bool drops_one;    /* the step that breaks drops an object whose death the program can notice */
} GmBreakInfo;

/* A place in the middle of a code object at which a resume function begins. The arguments of a call
 * are the variables `locals`, then the stack from bottom to top without the NULLs; the closure has
 * all cell and free variables of the code in slot order. nulls, unbound, away: as in
 * GmBreakFrame. */
typedef struct {
  uint32_t insn, depth;
  uint64_t nulls, unbound, away;
  uint32_t n_locals;
  const uint32_t *locals;
} GmRecordStart;

typedef struct {
  PyFunctionObject *func;
  const GmCode *code;
  PyObject *const *locals; /* the bound arguments, all non-NULL: n_args in localsplus order, or
                              those of `start` */
  GmCallEnv env;
  const char *backend_text;   /* for BACKEND_MATCH: "tcc" or "tcc(level=2)" */
  bool resumable;             /* a break may end the recording early; else it stops it */
  const GmRecordStart *start; /* for a resume function: its place in the code; else NULL */
  bool effect_stacks;         /* gm_recording_effects_text will be called */
  bool keep_objects;          /* existing objects are left unchanged: effects are not replayed; not
                                 resumable */
  uint8_t dynamic;            /* GmDynamic */
  GmProfile *profile; /* of the code: read and updated; NULL: no size and no number is a symbol */
  bool dynamic_parameters; /* sizes of a module's tensors become symbols as others do */
  bool counted;            /* sizes that depend on data stay in the graph */
  bool numbers;            /* item () of an integer tensor is traced, as an unknown number */
  uint32_t max_insns;      /* limit of executed instructions; 0: 1,000,000 */
  uint32_t max_nodes;      /* limit of graph nodes; 0: 100,000 */
} GmRecordRequest;

/* The result of a recording. The caller owns the struct; everything that its members point to lives
 * until gm_recording_free, except members that the caller steals. */
typedef struct GmRecording {
  const GmBreakInfo *stop;  /* not NULL: the function cannot be traced; all below is empty */
  const GmBreakInfo *broke; /* not NULL: the function was traced up to here, and goes on at
                               `point` */
  const GmBreakPoint *point;
  bool sets_grad, grad;  /* the grad mode after the graph, where it is not that of the entry */
  PyObject *raised;      /* after a break: the exception that comptime code raised, to be raised;
                            or NULL. Borrowed */
  PyObject *layer;       /* after a break: a lazy layer that must make its parameters before the
                            whole function can be traced; or NULL. Borrowed */
  GmMeta layer_input;    /* meta of the lazy layer's input */
  GmGraph *graph;        /* outputs are GM_OUTPUT_USER, in the order of gm_return_build's and the
                            residual's `outputs` */
  GmRecordInput *inputs; /* one per graph input, in order */
  uint32_t n_inputs;
  GmGraphLook *looks; /* reads of tensor state that are no nodes, in their order */
  uint32_t n_looks;
  const GmWhere *size_places; /* one per fact of the graph's sizes; may be fewer than the
                                     facts */
  uint32_t n_size_places;
  const char *fixed; /* sizes that became numbers though they might have stayed symbols, a line
                        each: "L['x'].size(0) == 5: FILE:LINE needs ..." */
  uint32_t n_draws;
  const GmRecordDraw *draws; /* in the order in which they are made */
  int64_t rng_taken;   /* number of draws by which the plan advances the generator; may be symbolic,
                          as a size */
  uint32_t rng_output; /* in place of rng_taken: the output that is the generator's state after the
                          graph, because bodies draw; GM_NO_ID: no body does */
  GmGuards *guards;    /* gm_guards_ref it to keep it */
  GmReturn *ret;       /* the short form, or NULL; who steals it sets the member to NULL */
  GmResidual *residual; /* the long form, or NULL */
  uint32_t n_effects;   /* side effects replayed by the residual */
  uint32_t n_insns_executed, n_frames_inlined;
  void *owner;
} GmRecording;

/* Records the function of `req`; returns a new recording, never NULL. Sets no Python exception. The
 * new guards are checked against the arguments of the request: guards that do not hold for the very
 * call that they were made from are reported as the break GUARD_FAILED_AT_BIRTH. */
GmRecording *gm_record_function (const GmRecordRequest *req);
/* Returns the changes that the residual will make to existing objects, each with the user's frames;
 * "" if there are none. Caller frees. */
char *gm_recording_effects_text (const GmRecording *rec);
void gm_recording_free (GmRecording *rec);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmRecording, gm_recording_free)

#endif
