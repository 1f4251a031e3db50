/* SPDX-License-Identifier: Apache-2.0
 * recorder.h -- the state of a recording, and what may be done to it.
 *
 * Every mutable thing here is append-only, journaled in the heap, or a field of the mark: that is
 * why a mark is a few integers and a rollback is truncation plus undoing the journal's tail. A new
 * field must be of one of these three sorts.
 */
#ifndef GM_TRACE_RECORDER_H
#define GM_TRACE_RECORDER_H

#include "core/guard/recorded_guard.h"
#include "core/trace/tracker.h"

#define GM_MAX_DEPTH 100 /* inlined frames; CPython's own limit is far above */

/* The use of the value that an inlined frame returns: the caller's frame pushes it, pushes
 * init_object in its place, or a nested loop (gm_frame_run) stops and takes it. */
typedef enum { GM_AFTER_PUSH, GM_AFTER_INIT, GM_AFTER_STOP } GmAfter;

/* A frame; immutable. Its variables and stack are the heap object `id`: n_slots variables, then the
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
  uint32_t return_pc, return_depth; /* instruction at which, and stack depth with which, the parent
                                       goes on after the return */
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
  const char *stack; /* text of the user's frames, if the request has effect_stacks; or NULL */
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

/* A comparison of a number with a constant that comptime code has declared to hold. */
typedef struct {
  const GmTracker *number;
  int op;
  int64_t with;
} GmFact;
#define GM_FACT_FIXED 6 /* value of `op`: the number becomes a constant, its value in this call */

#define GM_N_STATEMENTS 32 /* number of the newest statements whose marks are kept */

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
  uint32_t modes_id; /* heap object with a slot for each mode of the thread: the grad mode, whether
                        a break raises, autocast, whether draws are refused, and two slots of
                        fence_trace.c */
  uint32_t generators_id; /* heap object: the list of all generators that were made */
  /* append-only */
  GArray *guards;       /* GmGuard */
  GPtrArray *elements;  /* GmTracker: floats unknown while recording that are arguments of the
                           library call that is being recorded */
  const char *counting; /* name of the library function that is being recorded; static */
  GArray *effects;      /* GmEffect */
  GArray *inputs;       /* GmInput */
  GArray *draws;        /* struct GmDrawCall */
  GPtrArray *sources;   /* GmSource */
  GPtrArray *wrapped;   /* GmTracker with identity of existing objects, in the order in which they
                           were wrapped */
  GArray *mutated;      /* GmValueId that were written in place */
  PyObject *layer;      /* GmRecording.layer and layer_input */
  GmMeta layer_input;
  /* State while the backward of an autograd.Function is recorded. from: its first value. asked: the
   * program has read strides of a value computed from gradients; the strides may be others when the
   * backward runs. */
  struct {
    GmValueId from;
    bool asked;
  } strides;
  GArray *looks;        /* GmGraphLook */
  GPtrArray *refs;      /* PyObject: references that are kept until the recorder is freed */
  size_t kept_bytes;    /* size of the strings in refs */
  GmLifetime *lifetime; /* see lifetime.c; NULL: no argument of this region has a death that the
                           program could notice */
  /* Tables of class_made.c; NULL until needed. A rollback leaves entries in them to which nothing
   * refers. */
  GHashTable *made;        /* PyTypeObject -> GmTracker */
  GHashTable *stand_ins;   /* PyObject -> GmTracker */
  GHashTable *stand_in_of; /* GmTracker -> PyObject, the inverse of stand_ins */
  bool classes_written;    /* sticky; a class was written to, so that lookups must read the heap */
  GPtrArray *buffers;      /* memory of growing contents, see contents.c */
  GArray *symbols;         /* symbols of sizes, by number, and GmWhere by fact: see traced_size.c;
                              rows are written over after a rollback */
  GArray *size_places;
  /* indices of the append-only tables, which a rollback cuts as well */
  GHashTable *by_real;      /* PyObject -> GmTracker */
  GHashTable *source_index; /* GmSource set */
  GHashTable *guard_index;  /* GmGuard set */
  GmGraph *graph;
  GmGraphBuilder builder; /* rng, rng_taken: fields of the mark */
  GmBuilderVtable vtable;
  uint32_t n_frames;
  const GmTracker *stopped_value; /* result of a nested run; set and read at once */
  PyObject *plain_keys;  /* the last dict whose keys were found to run no code when they are
                            compared; borrowed */
  PyObject *cached_keys; /* see cached_call.c: dict, or NULL; a rollback leaves entries to which
                            nothing refers */
  GHashTable *user_keys; /* see keys.c: a key whose class has a Python __hash__ -> the recorder's
                            state when it was stored */
  uint32_t n_bodies; /* nesting of bodies of operators and custom functions that are being recorded;
                        restored when an operation ends */
  uint32_t n_graphs; /* nesting of such bodies that become graphs of their own */
  bool enters_whole; /* the next function that is entered is recorded, though it is marked to become
                        a node; restored when an operation ends */
  uint32_t nesting;  /* nesting of containers that are being read recursively; restored when an
                        operation ends */
  PyObject *stand_ins_made; /* see numpy_input.c: list of (object, place, tensor), or NULL */
  /* comptime: the session of the call that runs now; with GM_STRESS the calls that have run, which
   * no rollback removes */
  PyObject *comptime;
  GArray *comptime_done; /* uint64_t, the recorder's hash at each of those calls; or NULL */
  GArray *facts;         /* GmFact: facts that the last comptime call has declared; or NULL */
  /* sticky; reset where an exception is caught */
  PyObject *raised; /* the exception that comptime code raised, or NULL */
  uint32_t polls; /* number of instructions that the loop has executed, including instructions that
                     a rollback has undone */
  bool interrupted; /* a signal's handler has raised an exception: `stop` is never taken back */
  GmBreakInfo *stop;
  const GmTracker *pending; /* the exception that `stop` stands for; NULL between instructions */
  bool stress;
  /* The marks to which a break may roll back; see resume.c. */
  bool marked;
  GmMark mark;                    /* before the step that is executed now */
  GmMark lines[GM_MAX_DEPTH + 1]; /* for the frame of each level: the start of its current line, or
                                     the state before the frame began to handle an exception */
  GmMark statements[GM_N_STATEMENTS]; /* starts of statements of the root: a ring buffer */
  uint32_t n_statements;
  uint32_t break_every, n_steps; /* GM_STRESS=break:n; 0: never */
};

/* -- recorder.c ------------------------------------------------------------ */
GmMark gm_record_mark (const GmRecorder *r);
void gm_record_rollback (GmRecorder *r, const GmMark *m);
/* Returns a structural hash of all state that a rollback restores: trackers, heap, graph, guards,
 * effects, names of sources. */
uint64_t gm_record_hash (const GmRecorder *r);
/* Returns a structural hash of the effect, including the contents of new objects that it refers to.
 * Equal effects on equal new objects have one hash, whatever the ids of the objects are. */
uint64_t gm_record_effect_hash (GmRecorder *r, const GmEffect *e);

/* Ends the recording with the break `why`, unless it has ended already. The further arguments are
 * the strings of the row's message in breaks.def. Clears a pending Python exception. Returns
 * poison. */
const GmTracker *gm_record_break (GmRecorder *r, GmBreak why, ...);
/* Stops the recording because the handler of a signal has raised an exception, which is parked
 * until the call can raise it (interrupt.h). Returns poison. */
const GmTracker *gm_record_interrupt (GmRecorder *r);
/* Breaks if trackers and strings take too much memory: for instance, a container that grows in a
 * loop is copied in each round. */
void gm_record_limit_memory (GmRecorder *r);
/* Breaks if n items, which are about to be read, would take too much memory; false after a
 * break. */
bool gm_record_limit_items (GmRecorder *r, Py_ssize_t n);
/* Breaks if n, a number of executed instructions or of items that one instruction reads, exceeds
 * the request's max_insns. */
void gm_record_limit_trips (GmRecorder *r, uint32_t n);
/* Turns the pending Python exception into one that the recorded program raises, and clears it.
 * Returns poison. */
const GmTracker *gm_record_break_exception (GmRecorder *r);
/* Keep `o`, which is not NULL, alive until the recorder is freed, and return it. gm_record_keep
 * takes a new reference, gm_record_take steals the caller's. */
PyObject *gm_record_keep (GmRecorder *r, PyObject *o);
PyObject *gm_record_take (GmRecorder *r, PyObject *o);
int gm_record_line (const GmRecorder *r);
/* Returns "  file:line in function\n" for each frame, the outermost first; in the arena. */
const char *gm_record_stack (GmRecorder *r);
bool gm_frame_is_ours (const GmFrame *f); /* true for a frame of the package's own Python code */
const char *
gm_record_where (GmRecorder *r); /* "train.py:12", the user's line; "train.py:12 (layers.py:45)"
                                    inside of gramme's Python code; in the graph's arena */

void gm_push (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_pop (GmRecorder *r);
const GmTracker *gm_peek (GmRecorder *r, uint32_t from_top); /* 1 = top */
void gm_poke (GmRecorder *r, uint32_t from_top, const GmTracker *t);
const GmTracker *gm_local (GmRecorder *r, uint32_t slot);
void gm_local_set (GmRecorder *r, uint32_t slot, const GmTracker *t);

/* -- tracker_function.c ---------------------------------------------------- */
const GmCode *gm_function_code (GmRecorder *r, const GmTracker *t, PyObject **globals,
                                PyObject **builtins);

/* True for functions of Python's library that are never inlined, because they would break in many
 * places: a call of them breaks. */
bool gm_function_left_alone (PyCodeObject *code, PyObject *globals);
/* True if the globals are those of Python's debugger modules, pdb and bdb. */
bool gm_function_starts_tracer (PyObject *globals);

/* -- frame.c --------------------------------------------------------------- */
/* Binds `args` to the parameters of the function `func` and makes its frame the current one; the
 * loop goes on inside it. init_object: see GM_AFTER_INIT. False after a break. */
bool gm_frame_enter (GmRecorder *r, const GmTracker *func, const GmCallArgs *args, GmAfter after,
                     const GmTracker *init_object);
/* Leaves the current frame, which returns `value`. */
void gm_frame_leave (GmRecorder *r, const GmTracker *value);
/* Enters a function and runs the loop until the function has returned. Returns its value; poison
 * after a break. */
const GmTracker *gm_frame_run (GmRecorder *r, const GmTracker *func, const GmCallArgs *args);
/* Executes instructions until frame `until`, the current one, has returned, or until a break. rec:
 * the recording, in the root's loop, where GM_STRESS may force a break; NULL in a loop that runs
 * inside of an instruction. */
void gm_record_loop (GmRecorder *r, const GmFrame *until, GmRecording *rec);

/* -- resume.c -------------------------------------------------------------- */
/* Takes, before an instruction of the root's loop, the mark to which a break in its step rolls
 * back. True if GM_STRESS wants a break here. */
bool gm_resume_mark (GmRecorder *r);
/* Rolls back to the mark and fills rec with the recording up to there and the place at which a
 * resume function continues. False, with r as it was at the mark, if the state of the frames cannot
 * be left there. */
bool gm_resume_at (GmRecorder *r, const GmMark *mark, GmResumeMode mode, GmRecording *rec);
/* Keeps as much of the recording as possible after the break r->stop: rolls back to a place where
 * the recording can end, fills rec, and clears r->stop. r->stop stays set if nothing can be
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
/* Returns the interned source that equals s, and interns s anew if a rollback has removed it; NULL
 * for NULL. */
const GmSource *gm_source_again (GmRecorder *r, const GmSource *s);
/* Returns a copy of `parts` whose sources are interned anew in the same way; NULL for NULL. */
const GmKeyParts *gm_source_parts_again (GmRecorder *r, const GmKeyParts *parts);
guint gm_source_hash (gconstpointer s);
gboolean gm_source_equal (gconstpointer a, gconstpointer b);
/* The functions below return interned sources, such as L['a'], G['a'] and base.a; NULL for a NULL
 * base. */
const GmSource *gm_source_local (GmRecorder *r, uint32_t i); /* argument i of the call */
const GmSource *gm_source_free (GmRecorder *r, uint32_t i, bool cell);
/* Returns the number of free variables of the root's closure. In a resume function these include
 * the cell variables of the original code. */
uint32_t gm_root_n_free (const GmRecorder *r);
const GmSlot *gm_root_free_slot (const GmRecorder *r, uint32_t i);
const GmSource *gm_source_global (GmRecorder *r, PyObject *dict, PyObject *name);
/* True if the source's name determines its path. Paths that begin at an object, or that lead
 * through a key whose text is the program's, may share a name with another path. */
bool gm_source_is_unique (const GmSource *source);
const GmSource *gm_source_const (GmRecorder *r, PyObject *value, const char *name);
const GmSource *gm_source_attr (GmRecorder *r, const GmSource *base, PyObject *name);
const GmSource *gm_source_member (GmRecorder *r, const GmSource *base, int64_t offset,
                                  PyObject *name);
const GmSource *gm_source_class_attr (GmRecorder *r, PyTypeObject *type, PyObject *name);
const GmSource *gm_source_item (GmRecorder *r, const GmSource *base, GmRecordKind kind,
                                int64_t index);
/* True for an item of an nn.Module's _parameters, _buffers or _modules. */
bool gm_source_is_member (const GmSource *s);
const GmSource *gm_source_dict_item (GmRecorder *r, const GmSource *base, PyObject *key);
const GmSource *gm_source_part (GmRecorder *r, const GmSource *base, GmRecordKind kind,
                                int64_t index, PyObject *key);
/* Returns the source of the result that a function of functools.lru_cache (`base`) remembers under
 * `key`. in_link: offset of the result in the cache's link, which is the value of the cache's dict;
 * 0: the result is the value itself. parts: see GmKeyParts, or NULL. */
const GmSource *gm_source_cached (GmRecorder *r, const GmSource *base, int64_t in_link,
                                  PyObject *key, const GmKeyParts *parts);

/* -- wrap.c ---------------------------------------------------------------- */
const GmTracker *gm_known (GmRecorder *r, PyObject *real,
                           const GmSource *source); /* the tracker that `real` has already, or NULL;
                                                       guards SAME, or breaks */
void gm_know (GmRecorder *r, const GmTracker *t);   /* makes t the tracker of t->real */

/* -- effect.c -------------------------------------------------------------- */
void gm_effect (GmRecorder *r, GmEffectKind kind, PyObject *fn, PyObject *name,
                const GmTracker *const *args, uint32_t n);
/* Records a store into a container (value NULL: a deletion) that existed before the region. The
 * replay runs STORE_SUBSCR or DELETE_SUBSCR, or calls the method of the builtin class `owner` if
 * the container's class is a subclass, which may override the method. Nothing for new
 * containers. */
void gm_effect_item (GmRecorder *r, PyTypeObject *owner, const GmTracker *t, const GmTracker *key,
                     const GmTracker *value);
/* Returns the effects to replay, in order: a new array of borrowed GmEffect. Stores that a later
 * store to the same place overrides are left out. */
GPtrArray *gm_effects_merged (GmRecorder *r);
/* True for an object made in the region, and for an existing one to which a recorded effect
 * stores. */
bool gm_is_modified (GmRecorder *r, const GmTracker *t);
bool gm_has_pending_mutation (GmRecorder *r, const GmTracker *t);
/* The effects since a mark, as texts and hashes: nothing that happens to the recorder later changes
 * them. Changes of a container that were undone are left out. */
typedef struct GmEffectState GmEffectState;
/* True if the effect stores to its attribute, global or captured variable the value that was there
 * before the region: the same object, or an equal constant, which is then guarded. Must be the last
 * effect on that place. */
bool gm_effect_restores (GmRecorder *r, const GmEffect *e);
GmEffectState *gm_effects_state (GmRecorder *r, const GmMark *m);
/* Compares two lists of effects. Returns NULL if they are the same, else a sentence that names an
 * object and the effects of each side on it. The caller frees the text. */
char *gm_effects_diff (const GmEffectState *first, const GmEffectState *second);
bool gm_effects_any (const GmEffectState *s);
void gm_effect_state_free (GmEffectState *s);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmEffectState, gm_effect_state_free)

/* -- numpy_input.c --------------------------------------------------------- */
/* Returns the tensor that represents, in this recording, an input that each call makes anew from
 * `of`, such as a tensor over a numpy array: the result of make (of), which is called once for each
 * (of, place), also if the step is recorded again after a rollback. Borrowed; NULL, without an
 * exception, if `make` fails. */
PyObject *gm_input_stand_in (GmRecorder *r, PyObject *of, Py_ssize_t place,
                             PyObject *(*make) (PyObject *of));

/* -- fence_trace.c --------------------------------------------------------- */
void gm_fence_trace_init (GmRecorder *r);
/* Record calls of gm_fence_raise, which refuses in-place writes to memory that existed before, but
 * for that of the tensors in the tuple `own`, and of gm_fence_lower (core/tensor/fence.h). */
void gm_fence_trace_raise (GmRecorder *r, const GmTracker *own);
void gm_fence_trace_lower (GmRecorder *r);
/* True if the innermost fence that was raised in the region may cover the memory of v: v is neither
 * excepted nor newer than the fence. */
bool gm_fence_trace_refuses (const GmRecorder *r, GmValueId v);
/* True if a caller of the current frame has raised a fence that still stands: the region cannot end
 * here. */
bool gm_fence_trace_is_crossed (const GmRecorder *r);
/* Adds, at the end of a region, the effects that lower and raise fences of the thread as the region
 * has done. */
void gm_fence_trace_leave (GmRecorder *r);

/* -- api_call.c ------------------------------------------------------------ */
/* Calls the function of the API row `api` on the arguments and returns its result; a failure
 * becomes a break. */
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
/* Returns the tensor's method `name` as a bound method if it is register_hook,
 * register_post_accumulate_grad_hook or retain_grad, else NULL. */
const GmTracker *gm_hook_method (GmRecorder *r, const GmTracker *tensor, PyObject *name);
/* True if an effect will register a live hook on a tensor that shares the memory of `input`. */
bool gm_hook_pending (GmRecorder *r, GmValueId input);
/* True if the graph's inputs a and b share memory in this call; false for values that are no
 * inputs. A caller that relies on it writes to one of the two, and the sharing of an input that is
 * written to is guarded. */
bool gm_inputs_share (const GmRecorder *r, GmValueId a, GmValueId b);
/* False if the handle's hook was removed. */
bool gm_hook_is_live (const GmRecorder *r, const GmTracker *handle);
/* Emits the registration of the handle's hook, if it is not emitted yet, after the registrations of
 * earlier hooks on the same tensor. */
void gm_hook_emit (GmResidualBuilder *b, const GmTracker *handle);
void gm_hook_emit_retain (GmResidualBuilder *b, const GmTracker *tensor, PyObject *method);

/* -- residual.c ------------------------------------------------------------ */
/* Fills rec from the finished recorder and `value`, which the function returns: graph, inputs,
 * guards, and residual or short form. Sets r->stop if the value or an effect cannot leave the
 * region. */
void gm_residual_finish (GmRecorder *r, const GmTracker *value, GmRecording *rec);
/* The functions below are for the `build` of kinds. */
/* Emits the instructions that push the value of t. */
void gm_residual_value (GmResidualBuilder *b, const GmTracker *t);
void gm_residual_emit (GmResidualBuilder *b, GmInsnOp op, uint32_t arg, PyObject *obj);
GmRecorder *gm_residual_recorder (GmResidualBuilder *b);
/* True if the object of t has been allocated: emits a load of it. False: the caller emits its
 * allocation, calls gm_residual_allocated, which pops the object into a temporary variable, and
 * then fills the object. */
bool gm_residual_cached (GmResidualBuilder *b, const GmTracker *t);
void gm_residual_allocated (GmResidualBuilder *b, const GmTracker *t);
/* True if the object of t has been allocated. Emits nothing. */
bool gm_residual_is_built (GmResidualBuilder *b, const GmTracker *t);
uint32_t gm_residual_temp (GmResidualBuilder *b, const GmTracker *t);
uint32_t gm_residual_cell (GmResidualBuilder *b,
                           const GmTracker *cell); /* variable of a new cell; its contents are
                                                      stored later, see gm_residual_fill_late */
/* Has the residual call gm_class_made_fill (t) after all other objects are built. */
void gm_residual_fill_late (GmResidualBuilder *b, const GmTracker *t);
uint32_t gm_residual_output (GmResidualBuilder *b, const GmTracker *tensor);

#endif
