/* SPDX-License-Identifier: Apache-2.0
 * recorder.h -- the state of a recording, and what may be done to it.
 *
 * Every mutable thing here is append-only, journaled in the heap, or a field of the mark: that is
 * why a mark is a few integers and a rollback is truncation plus undoing the journal's tail.
 * Whoever adds a field decides which of the three it is.
 */
#ifndef GM_TRACE_RECORDER_H
#define GM_TRACE_RECORDER_H

#include "core/guard/recorded_guard.h"
#include "core/trace/tracker.h"

#define GM_MAX_DEPTH 100 /* inlined frames; CPython's own limit is far above */

/* The use of the value that an inlined frame returns. */
typedef enum { GM_AFTER_PUSH, GM_AFTER_INIT, GM_AFTER_STOP } GmAfter;

/* A frame: immutable; its variables and stack are heap object `id`: n_slots variables, then the
 * stack. */
typedef struct GmFrame {
  const struct GmFrame *parent; /* NULL: the root */
  const GmCode *code;
  const GmTracker *func;        /* NULL for the root */
  const GmTracker *generator;   /* the generator that runs in this frame, or NULL */
  const GmTracker *names;       /* the namespace of a class body; else NULL */
  PyObject *globals, *builtins; /* dicts, borrowed */
  uint32_t id;
  uint32_t level;
  uint32_t handled_id;              /* heap object: the exception that is being handled, or NULL */
  uint32_t return_pc, return_depth; /* instruction and stack depth of the parent after the return */
  GmAfter after;
  const GmTracker
      *init_object; /* GM_AFTER_INIT: pushed instead of the None that __init__ returns */
} GmFrame;

typedef enum {
  GM_EFFECT_CALL,    /* real callable `fn` with args */
  GM_EFFECT_SETITEM, /* args: object, key, value */
  GM_EFFECT_DELITEM, /* args: object, key */
  GM_EFFECT_SETATTR, /* args: object, value; name */
  GM_EFFECT_DELATTR, /* args: object; name */
  GM_EFFECT_GLOBAL,  /* args: value; name, dict in fn */
  GM_EFFECT_CELL,    /* args: cell, value or null (del) */
  GM_EFFECT_HOOK,    /* args: tensor, hook, handle; or the tensor alone; name: the method */
} GmEffectKind;
/* A side effect on an object that existed before the region. */
typedef struct {
  GmEffectKind kind;
  PyObject *fn, *name;
  const GmTracker *const *args;
  uint32_t n;
  int line;
  const char *stack; /* the user's frames, if the request asks for it; or NULL */
} GmEffect;

/* Another source under which an object was reached. */
typedef struct {
  const GmTracker *tracker;
  const GmSource *source;
} GmAlias;

typedef struct {
  GmValueId value;
  const GmTracker *tracker;
} GmInput; /* tracker NULL: the generator's state */

typedef struct {
  const GmFrame *frame;
  uint32_t pc, depth, n_executed, n_frames;
  GmHeapMark heap;
  uint32_t guards, effects, inputs, sources, wrapped, mutated, draws, looks;
  GmGraphMark graph;
  GmValueId rng;
  int64_t rng_taken;
} GmMark;

/* A comparison of a number with a constant that comptime code declares to hold. */
typedef struct {
  const GmTracker *number;
  int op;
  int64_t with;
} GmFact;
#define GM_FACT_FIXED 6 /* op: the number becomes a constant, its value in this call */

#define GM_N_STATEMENTS 32 /* marks of statements that are kept, the newest ones */

typedef struct GmLifetime GmLifetime;

struct GmRecorder {
  const GmRecordRequest *request;
  uint64_t number; /* number of this recording in the process */
  GmArena *arena;
  /* the current place: fields of the mark */
  const GmFrame *frame;
  uint32_t pc, depth;
  uint32_t n_executed; /* instructions executed so far; limited by max_insns */
  /* journaled */
  GmHeap heap;
  uint32_t modes_id; /* heap object: contents trackers of the grad mode, whether a break raises,
                        autocast, whether draws are refused; two of fence_trace.c */
  uint32_t generators_id; /* heap object: the list of all generators that were made */
  /* append-only */
  GArray *guards;       /* GmGuard */
  GPtrArray *elements;  /* GmTracker: floats that only the run knows among the arguments of the call
                           of the library's that is recorded */
  const char *counting; /* the function of the library that is recorded; static */
  GArray *effects;      /* GmEffect */
  GArray *inputs;       /* GmInput */
  GArray *draws;        /* struct GmDrawCall */
  GPtrArray *sources;   /* GmSource */
  GPtrArray *wrapped;   /* GmTracker with real objects and identity, in order */
  GArray *mutated;      /* GmValueId that were written in place */
  PyObject *layer;      /* GmRecording.layer and layer_input */
  GmMeta layer_input;
  /* While the backward of an autograd.Function is recorded: its first value, and true if the
   * program has read strides of a value computed of gradients, which may be others when it runs. */
  struct {
    GmValueId from;
    bool asked;
  } strides;
  GArray *looks;        /* GmGraphLook */
  GPtrArray *refs;      /* PyObject: everything that must live as long as the recorder */
  size_t kept_bytes;    /* size of the strings in refs */
  GmLifetime *lifetime; /* see lifetime.c; NULL: no argument of this part could be seen to die */
  /* see class_made.c: NULL until needed; a rollback leaves entries in them to which nothing
   * refers */
  GHashTable *made;        /* PyTypeObject -> GmTracker */
  GHashTable *stand_ins;   /* PyObject -> GmTracker */
  GHashTable *stand_in_of; /* and back */
  bool classes_written;    /* sticky: lookups must ask the heap */
  GPtrArray *buffers;      /* memory of growing contents, see contents.c */
  GArray *symbols;         /* symbols of sizes, by number, and GmWhere by fact: see traced_size.c;
                              rows are written over after a rollback */
  GArray *size_places;
  /* indices of the append-only tables, cut with them */
  GHashTable *by_real;      /* PyObject -> GmTracker */
  GHashTable *source_index; /* GmSource set */
  GHashTable *guard_index;  /* GmGuard set */
  GmGraph *graph;
  GmGraphBuilder builder; /* rng, rng_taken: fields of the mark */
  GmBuilderVtable vtable;
  uint32_t n_frames;
  const GmTracker *stopped_value; /* result of a nested run; set and read at once */
  PyObject *plain_keys;  /* the dict whose keys were found to run no code when compared; borrowed */
  PyObject *cached_keys; /* see cached_call.c: dict, or NULL; a rollback leaves entries to which
                            nothing refers */
  GHashTable *user_keys; /* see keys.c: a key with a __hash__ of the user's -> what it was */
  uint32_t n_bodies; /* of operators and custom functions that are being run through; as before when
                        an operation ends */
  uint32_t n_graphs; /* those of them that become graphs of their own */
  bool enters_whole; /* the function that is entered next was to be a node, and is recorded after
                        all; as before when an operation ends */
  uint32_t nesting;  /* containers being looked through; as before when an operation ends */
  PyObject *stand_ins_made; /* see numpy_input.c: list of (object, place, tensor), or NULL */
  /* comptime: the session of the call that runs now; under stress the calls that have run, which no
   * rollback forgets */
  PyObject *comptime;
  GArray *comptime_done; /* uint64_t, the recorder's hash at each of those calls; or NULL */
  GArray *facts;         /* GmFact: what the last comptime call declared; or NULL */
  /* sticky; reset where an exception is caught */
  PyObject *raised; /* the exception that comptime code raised, or NULL */
  uint32_t polls;   /* instructions that the loop has executed, those undone by a rollback
                       included */
  bool interrupted; /* by a signal's handler that raised: `stop` stays */
  GmBreakInfo *stop;
  const GmTracker *pending; /* the exception that `stop` stands for, within one instruction */
  bool stress;
  /* the marks to which a break may go back: see resume.c */
  bool marked;
  GmMark mark;                    /* before the step that is executed now */
  GmMark lines[GM_MAX_DEPTH + 1]; /* start of the current line in the frame of each level, or the
                                     state before that frame handled an exception */
  GmMark statements[GM_N_STATEMENTS]; /* starts of statements of the root: a ring buffer */
  uint32_t n_statements;
  uint32_t break_every, n_steps; /* GM_STRESS=break:n; 0: never */
};

/* -- recorder.c ------------------------------------------------------------ */
GmMark gm_record_mark (const GmRecorder *r);
void gm_record_rollback (GmRecorder *r, const GmMark *m);
/* Returns a structural hash of everything that a mark covers: trackers, heap, graph, guards,
 * names. */
uint64_t gm_record_hash (const GmRecorder *r);
/* Returns a structural hash of one effect, with the contents of the new objects that it refers to;
 * their ids do not count. */
uint64_t gm_record_effect_hash (GmRecorder *r, const GmEffect *e);

/* Sets the break unless one is set; all arguments are strings. Returns poison. */
const GmTracker *gm_record_break (GmRecorder *r, GmBreak why, ...);
/* Stops the recording because an exception of a signal's handler is parked (interrupt.h).  Returns
 * poison. */
const GmTracker *gm_record_interrupt (GmRecorder *r);
/* Breaks when trackers and strings take too much memory: a container that grows in a loop is copied
 * in each round. */
void gm_record_limit_memory (GmRecorder *r);
/* Breaks if n items, which are about to be read, would take too much memory; false after a
 * break. */
bool gm_record_limit_items (GmRecorder *r, Py_ssize_t n);
/* Breaks after so many instructions, or items that one instruction reads. */
void gm_record_limit_trips (GmRecorder *r, uint32_t n);
/* Raises the pending Python exception in the region, and clears it. Returns poison. */
const GmTracker *gm_record_break_exception (GmRecorder *r);
/* Keeps a reference until the recorder is freed; returns o.  _take steals. */
PyObject *gm_record_keep (GmRecorder *r, PyObject *o);
PyObject *gm_record_take (GmRecorder *r, PyObject *o);
int gm_record_line (const GmRecorder *r);
/* Returns "  file:line in function\n" for each frame, the outermost first; in the arena. */
const char *gm_record_stack (GmRecorder *r);
bool gm_frame_is_ours (const GmFrame *f); /* true for a frame of the package's own Python code */
const char *
gm_record_where (GmRecorder *r); /* "train.py:12", the user's line; "train.py:12 (layers.py:45)"
                                    inside of the package's code; in the graph's arena */

void gm_push (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_pop (GmRecorder *r);
const GmTracker *gm_peek (GmRecorder *r, uint32_t from_top); /* 1 = top */
void gm_poke (GmRecorder *r, uint32_t from_top, const GmTracker *t);
const GmTracker *gm_local (GmRecorder *r, uint32_t slot);
void gm_local_set (GmRecorder *r, uint32_t slot, const GmTracker *t);

/* -- tracker_function.c ---------------------------------------------------- */
const GmCode *gm_function_code (GmRecorder *r, const GmTracker *t, PyObject **globals,
                                PyObject **builtins);

/* True for a function of the library that is called as a whole, never inlined. */
bool gm_function_left_alone (PyCodeObject *code, PyObject *globals);
/* True if a function with these globals is a debugger's. */
bool gm_function_starts_tracer (PyObject *globals);

/* -- frame.c --------------------------------------------------------------- */
/* Binds and enters a function tracker's code; the loop goes on inside.  False after a break. */
bool gm_frame_enter (GmRecorder *r, const GmTracker *func, const GmCallArgs *args, GmAfter after,
                     const GmTracker *init_object);
/* Leaves the current frame with a value. */
void gm_frame_leave (GmRecorder *r, const GmTracker *value);
/* Enters a function and runs it until it returns. Returns its value; poison after a break. */
const GmTracker *gm_frame_run (GmRecorder *r, const GmTracker *func, const GmCallArgs *args);
/* Runs the loop until the frame that is current now has returned, or a break.  rec: of the root's
 * loop, for breaks that are forced; NULL in a loop inside an instruction. */
void gm_record_loop (GmRecorder *r, const GmFrame *until, GmRecording *rec);

/* -- resume.c -------------------------------------------------------------- */
/* Called before each instruction of the outermost loop: remembers where a break here goes back to.
 * True: GM_STRESS wants a break here. */
bool gm_resume_mark (GmRecorder *r);
/* Goes back to the mark and fills rec with the recording up to there and the place to go on; false,
 * with r as it was at the mark, if that is not possible. */
bool gm_resume_at (GmRecorder *r, const GmMark *mark, GmResumeMode mode, GmRecording *rec);
/* Keeps, after a break, as much of the recording as possible. r->stop stays set if nothing can be
 * kept. */
void gm_resume_after_break (GmRecorder *r, GmRecording *rec);

/* -- guard.c --------------------------------------------------------------- */
void gm_guard_add (GmRecorder *r, const GmGuard *g);
#define gm_guard(r, k, src, ...)                                                                   \
  gm_guard_add ((r), &(GmGuard){ .kind = GM_GUARD_##k, .source = (src), __VA_ARGS__ })
guint gm_guard_hash (gconstpointer g);
gboolean gm_guard_equal (gconstpointer a, gconstpointer b);
/* Compiles the guards, and the sources that inputs and residual use, into a program: gm_guards_new.
 */
GmGuards *gm_guards_compile (GmRecorder *r, const GmSource *const *extra, uint32_t n_extra,
                             uint32_t *slot_of);

/* -- value_source.c -------------------------------------------------------- */
const GmSource *gm_source_add (GmRecorder *r, const GmSource *init, const char *format, ...)
    G_GNUC_PRINTF (3, 4);
/* Returns the interned source equal to s, which a rollback may have removed from the table; NULL
 * for NULL. */
const GmSource *gm_source_again (GmRecorder *r, const GmSource *s);
/* The same for the sources of parts; NULL for NULL. */
const GmKeyParts *gm_source_parts_again (GmRecorder *r, const GmKeyParts *parts);
guint gm_source_hash (gconstpointer s);
gboolean gm_source_equal (gconstpointer a, gconstpointer b);
/* The sources L['a'], G['a'], base.a ...; NULL for a NULL base. */
const GmSource *gm_source_local (GmRecorder *r, uint32_t i); /* argument i of the call */
const GmSource *gm_source_free (GmRecorder *r, uint32_t i, bool cell);
/* Number of free variables of the root's closure. In a resume function the cells of the original
 * code are among them. */
uint32_t gm_root_n_free (const GmRecorder *r);
const GmSlot *gm_root_free_slot (const GmRecorder *r, uint32_t i);
const GmSource *gm_source_global (GmRecorder *r, PyObject *dict, PyObject *name);
/* True if no other path has the source's name, as those do that begin at an object or go by a key
 * whose text is the program's. */
bool gm_source_is_unique (const GmSource *source);
const GmSource *gm_source_const (GmRecorder *r, PyObject *value, const char *name);
const GmSource *gm_source_attr (GmRecorder *r, const GmSource *base, PyObject *name);
const GmSource *gm_source_member (GmRecorder *r, const GmSource *base, int64_t offset,
                                  PyObject *name);
const GmSource *gm_source_class_attr (GmRecorder *r, PyTypeObject *type, PyObject *name);
const GmSource *gm_source_item (GmRecorder *r, const GmSource *base, GmRecordKind kind,
                                int64_t index);
/* True for an item of one of an nn.Module's dicts of members. */
bool gm_source_is_member (const GmSource *s);
const GmSource *gm_source_dict_item (GmRecorder *r, const GmSource *base, PyObject *key);
const GmSource *gm_source_part (GmRecorder *r, const GmSource *base, GmRecordKind kind,
                                int64_t index, PyObject *key);
/* Returns the source of what a cached function remembers under the key; in_link: where in the value
 * of its dict. */
const GmSource *gm_source_cached (GmRecorder *r, const GmSource *base, int64_t in_link,
                                  PyObject *key, const GmKeyParts *parts);

/* -- wrap.c ---------------------------------------------------------------- */
const GmTracker *gm_known (GmRecorder *r, PyObject *real,
                           const GmSource *source); /* the tracker of an object met before, or NULL;
                                                       guards SAME */
void gm_know (GmRecorder *r, const GmTracker *t);   /* interns t->real */

/* -- effect.c -------------------------------------------------------------- */
void gm_effect (GmRecorder *r, GmEffectKind kind, PyObject *fn, PyObject *name,
                const GmTracker *const *args, uint32_t n);
/* A store into a container (value NULL: a delete) that existed before, to be replayed: as an
 * instruction, or through the method of `owner`, if the real class may override it. */
void gm_effect_item (GmRecorder *r, PyTypeObject *owner, const GmTracker *t, const GmTracker *key,
                     const GmTracker *value);
/* Returns the effects that need code, in order: a new array of borrowed GmEffect. An effect that a
 * later one overrides is left out. */
GPtrArray *gm_effects_merged (GmRecorder *r);
/* True for a new object, and for an existing one if a store to it is pending. */
bool gm_is_modified (GmRecorder *r, const GmTracker *t);
bool gm_has_pending_mutation (GmRecorder *r, const GmTracker *t);
/* The effects since a mark, by value: nothing that happens to the recorder later changes them.
 * Changes of a container that were taken back are left out. */
typedef struct GmEffectState GmEffectState;
/* True if the effect, the last one on an attribute, a global or a captured variable, restores the
 * constant that was there before the region, which is then guarded. */
bool gm_effect_restores (GmRecorder *r, const GmEffect *e);
GmEffectState *gm_effects_state (GmRecorder *r, const GmMark *m);
/* NULL: the same effects.  Else a sentence that names an object and what each side does to it.
 * Caller frees. */
char *gm_effects_diff (const GmEffectState *first, const GmEffectState *second);
bool gm_effects_any (const GmEffectState *s);
void gm_effect_state_free (GmEffectState *s);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmEffectState, gm_effect_state_free)

/* -- numpy_input.c --------------------------------------------------------- */
/* Returns the tensor, borrowed, that stands in this recording for an input which each call makes
 * anew from `of`; NULL: no such tensor can be made. A second recording of the same step after a
 * rollback gets the same tensor. */
PyObject *gm_input_stand_in (GmRecorder *r, PyObject *of, Py_ssize_t place,
                             PyObject *(*make) (PyObject *of));

/* -- fence_trace.c --------------------------------------------------------- */
void gm_fence_trace_init (GmRecorder *r);
/* Record gm_fence_raise and gm_fence_lower; own: a tuple of tensors. */
void gm_fence_trace_raise (GmRecorder *r, const GmTracker *own);
void gm_fence_trace_lower (GmRecorder *r);
/* True if the innermost fence that was raised in the region may be about v's memory. */
bool gm_fence_trace_refuses (const GmRecorder *r, GmValueId v);
/* True in a frame above one that has raised a fence: the region cannot end there. */
bool gm_fence_trace_is_crossed (const GmRecorder *r);
/* Adds, at the end of a region, effects that give the thread the fences that stand now. */
void gm_fence_trace_leave (GmRecorder *r);

/* -- api_call.c ------------------------------------------------------------ */
/* Calls an API row; a failure becomes a break. */
const GmTracker *gm_call_api (GmRecorder *r, const GmApi *api, bool inplace,
                              const GmCallArgs *args);
const GmTracker *gm_call_api_name (GmRecorder *r, const char *name, const GmTracker *const *args,
                                   uint32_t n, bool inplace);
void gm_api_builder_init (GmRecorder *r);
/* Returns the generator's state at this point of the program, a value of the graph. */
GmVal gm_api_random_state (GmRecorder *r);

bool gm_grad_mode_get (const GmRecorder *r);
void gm_grad_mode_set (GmRecorder *r, bool on);
uint8_t gm_autocast_mode_get (const GmRecorder *r); /* value as gm_autocast_mode's */
void gm_autocast_mode_set (GmRecorder *r, uint8_t mode);
bool gm_refuses_draws_get (const GmRecorder *r); /* value as gm_draws_refused's */
void gm_refuses_draws_set (GmRecorder *r, bool on);
bool gm_break_raises_get (const GmRecorder *r);
void gm_break_raises_set (GmRecorder *r, bool on);

/* -- tracker_hook.c -------------------------------------------------------- */
/* Returns the bound method of a tensor that registers a hook or the like; NULL: the name is no such
 * method. */
const GmTracker *gm_hook_method (GmRecorder *r, const GmTracker *tensor, PyObject *name);
/* True if a hook waits to be registered on an input whose memory this value of the graph is. */
bool gm_hook_pending (GmRecorder *r, GmValueId input);
/* True if two inputs share memory in this call. A caller that relies on it writes to one of them,
 * and a written input's sharing is guarded. */
bool gm_inputs_share (const GmRecorder *r, GmValueId a, GmValueId b);
/* False if the handle's hook was removed. */
bool gm_hook_is_live (const GmRecorder *r, const GmTracker *handle);
/* Emits the registration of a handle's hook, unless it is emitted already, and first the
 * registrations before it. */
void gm_hook_emit (GmResidualBuilder *b, const GmTracker *handle);
void gm_hook_emit_retain (GmResidualBuilder *b, const GmTracker *tensor, PyObject *method);

/* -- residual.c ------------------------------------------------------------ */
/* Fills rec from the finished recorder and the value returned. */
void gm_residual_finish (GmRecorder *r, const GmTracker *value, GmRecording *rec);
/* The functions for `build` of a kind: */
void gm_residual_value (GmResidualBuilder *b, const GmTracker *t); /* pushes it */
void gm_residual_emit (GmResidualBuilder *b, GmInsnOp op, uint32_t arg, PyObject *obj);
GmRecorder *gm_residual_recorder (GmResidualBuilder *b);
/* Returns false the first time for a new object with identity: the caller allocates it, calls
 * _allocated (which pops the object into a temporary), then fills it. */
bool gm_residual_cached (GmResidualBuilder *b, const GmTracker *t);
void gm_residual_allocated (GmResidualBuilder *b, const GmTracker *t);
bool gm_residual_is_built (GmResidualBuilder *b, const GmTracker *t); /* emits nothing */
uint32_t gm_residual_temp (GmResidualBuilder *b, const GmTracker *t);
uint32_t gm_residual_cell (GmResidualBuilder *b,
                           const GmTracker *cell); /* slot of a new cell's variable, filled */
/* Calls gm_class_made_fill (t) after everything else is built. */
void gm_residual_fill_late (GmResidualBuilder *b, const GmTracker *t);
uint32_t gm_residual_output (GmResidualBuilder *b, const GmTracker *tensor);

#endif
