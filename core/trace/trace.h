/* SPDX-License-Identifier: Apache-2.0
 * trace.h -- the recorder's boundary: what goes in (decoded code, arguments, a host), what comes
 * out.
 *
 * core/capture decodes a function, fills a request and calls gm_record_function.  The recorder
 * executes the instructions symbolically and returns a recording: a graph, a guard program, and how
 * to finish a call once the graph has run.  What it cannot trace is a row of core/breaks.def; then
 * `stop` is set, the rest of the recording is empty, and the function runs as Python. The recorder
 * runs no user code and changes no user object. Threads: the GIL is held by every caller of every
 * function here.
 */
#ifndef GM_TRACE_TRACE_H
#define GM_TRACE_TRACE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#include "core/base/thread.h"
#include "core/graph/graph.h"
#include "core/graph/higher.h"
#include "core/api/api.h"
#include "core/sym/profile.h"
#include "core/objects/break.h"
#include "core/objects/interrupt.h"

/* -- Decoded code ---------------------------------------------------------- */

typedef enum {
#define INSN(NAME, ...) GM_INSN_##NAME,
#include "core/bytecode/insns.def"
  GM_N_INSNS,
} GmInsnOp;

typedef enum {
  GM_OPERAND_NONE,
  GM_OPERAND_SLOT,
  GM_OPERAND_CONST,
  GM_OPERAND_NAME,
  GM_OPERAND_COUNT,
  GM_OPERAND_JUMP,
  GM_OPERAND_CALL,
} GmOperand;

typedef struct {
  const char *name;
  uint8_t operand;      /* GmOperand */
  uint16_t first, last; /* CPython versions, 311 ... */
} GmInsnInfo;
extern const GmInsnInfo gm_insns[GM_N_INSNS];
/* Change of the stack depth by an instruction, when it falls through or when it jumps. */
int gm_insn_effect (GmInsnOp op, uint32_t arg, bool jumps);

/* One instruction.  Meaning of arg, obj, target: insns.def.  obj is borrowed from the code object
 * (or the residual). */
typedef struct {
  uint8_t op; /* GmInsnOp */
  uint32_t arg;
  uint32_t target;
  uint32_t
      handler; /* 1 + index of the innermost entry of GmCode.handlers that covers it; 0: none */
  PyObject *obj;
  int32_t line, col, end_line, end_col; /* 1-based lines, 0-based columns; -1 where unknown */
  uint32_t step; /* twice the code unit of the opcode that the instruction was decoded from, plus 1
                    in the second half of an opcode that does two things; the instructions of one
                    step are executed together */
} GmInsn;

/* An entry of the exception table, in indices of instructions. */
typedef struct {
  uint32_t start, end, target; /* covers start <= i < end */
  uint32_t depth;
  bool lasti;
} GmHandler;

typedef enum { GM_SLOT_ARG = 1, GM_SLOT_LOCAL = 2, GM_SLOT_CELL = 4, GM_SLOT_FREE = 8 } GmSlotKind;
typedef struct {
  PyObject *name; /* borrowed */
  uint8_t kind;   /* GmSlotKind bits: an argument that is a cell variable has ARG | LOCAL | CELL */
} GmSlot;

static inline bool
gm_is_cell_slot (const GmSlot *s)
{
  return s->kind & (GM_SLOT_CELL | GM_SLOT_FREE);
}

/* A decoded code object.  Borrowed from the decoder's cache, immutable, valid as long as the code
 * object lives. */
typedef struct GmCode {
  PyCodeObject *code;
  const GmInsn *insns;
  uint32_t n_insns;
  const GmSlot *slots; /* CPython's localsplus order: arguments, locals, cells that are no locals,
                          free variables */
  uint32_t n_slots;
  uint32_t n_pos, n_posonly, n_kwonly; /* n_pos counts the positional-only ones */
  bool varargs, varkw;
  uint32_t
      n_args; /* slots that hold arguments: n_pos + n_kwonly + varargs + varkw, in this order */
  uint32_t n_free, first_free;
  uint32_t stack_size;
  uint32_t flags; /* co_flags */
  const GmHandler *handlers;
  uint32_t n_handlers;
  struct GmLiveness *liveness; /* made on first use, see liveness.h; freed with the code */
  struct GmOriginal *original; /* the host's record of the code whose resume functions run this one,
                                  borrowed; or NULL */
} GmCode;

/* Returns the text of all instructions, for dumps ("r" and "d" of GM_DEBUG). Caller frees. */
char *gm_code_text (const GmCode *code);

/* -- The host: what core/capture knows and the recorder must ask ------------ */

/* Results of a trial call of a host function. */
typedef struct {
  uint32_t n;
  GmMeta *metas;  /* owned */
  char container; /* 0: one tensor; 't', 'l': a tuple, a list of them */
  uint64_t flows; /* operands, by bit, that gradients flow to */
  uint64_t many;  /* those of them whose gradient is a sum of several */
  bool shares;    /* it is no node because of its results' memory, which is an argument's or another result's, or has holes */
} GmHostTrial;

/* Layout of the object that functools.lru_cache returns: offsets of its fields. */
typedef struct {
  bool known;    /* false: no other field is set */
  size_t dict;   /* PyObject *: key -> result, or an entry if maxsize is not -1 */
  size_t result; /* offset in an entry: PyObject * */
  size_t func;   /* PyObject * */
  size_t maxsize; /* Py_ssize_t; -1: without end; 0: nothing is remembered */
  size_t typed;  /* int: keys end with the types of the arguments */
  PyObject *(*mark) (PyObject *cache); /* the object before named arguments in a key; borrowed */
  /* Functions: again (cache, names or None, *args) calls it; missed (cache) counts a miss; remember (cache, result, names or None, *args) is the
   * call as if the function had given that result, without counting. */
  PyObject *again, *missed, *remember;
} GmCachedHost;

typedef struct {
  /* Tensors.  An instance of tensor_type or of a subclass has its GmTensor * at tensor_offset bytes
   * (NULL is not a tensor yet). */
  PyTypeObject *tensor_type;
  size_t tensor_offset;
  PyTypeObject
      *parameter_type; /* gramme.nn.Parameter or NULL while the package is being imported */
  PyTypeObject *members_type; /* gramme.nn.Module, whose attributes members.c models; or NULL */
  /* Functions and methods that are API rows: *inplace for the "name_" form. */
  PyTypeObject *api_type, *api_method_type; /* the second is a subtype of the first */
  const GmApi *(*api_get) (PyObject *o, bool *inplace);
  /* dtypes and devices: singletons, compared by identity. */
  PyTypeObject *dtype_type;
  GmDtype (*dtype_get) (PyObject *o); /* GM_N_DTYPES for names of dtypes that no tensor has */
  PyObject *(*dtype_object) (GmDtype d);   /* borrowed */
  PyTypeObject *device_type;               /* or NULL */
  PyObject *(*device_object) (int device); /* borrowed, GmDeviceType; or NULL */
  PyTypeObject *size_type; /* the type of Tensor.shape: a tuple subclass, or tuple itself */
  /* Context managers and functions that set the grad mode; borrowed, NULL where there is none. */
  PyObject *no_grad, *enable_grad, *set_grad_enabled, *is_grad_enabled;
  PyObject *set_grad_mode; /* the C function that they call */
  PyObject *set_autocast, *get_autocast; /* the C functions of autocast */
  PyObject *refuse_draws, *fence_raise, *fence_lower; /* C functions of vmap */
  PyObject *settle_lazy; /* the C function that makes a lazy layer's parameters */
  PyObject *get_default_dtype;
  PyObject *function_apply, *context_type; /* the functions of autograd.Function; borrowed, or
                                              NULL */
  PyObject *higher_order;  /* the C function behind gramme.cond and its kin; borrowed, or NULL */
  PyObject *checkpoint;    /* the C function behind gramme.utils.checkpoint; borrowed, or NULL */
  /* The type of the library's own named tuples, "max values indices": called with a tuple of the
   * values.  Borrowed; NULL if there is none. */
  PyObject *(*fields_type) (const char *fields);
  /* True if t requires a gradient; refreshes a stale view first. */
  bool (*requires_grad) (const GmTensor *t);
  /* True if a tensor may be written in place, with gradients on or off; else sets the error that
   * eager would raise. */
  bool (*may_write) (GmTensor *t, bool grad, GError **error);
  GmTensor *(*grad) (GmTensor *t); /* borrowed, NULL for none */
  PyObject *(*grad_object) (GmTensor *t); /* the same as an object, borrowed until the call ends */
  PyObject *(*array_object) (PyObject *array); /* a new tensor over its memory, borrowed likewise; NULL: there is none */
  /* A new tensor of a Python number, i64 or f64 without dimensions, borrowed likewise; for a type:
   * of its zero. */
  PyObject *(*number_object) (PyObject *number_or_type);
  PyObject *from_numpy, *as_tensor, *asarray; /* C functions that return a tensor over an array's
                                                 memory */
  PyObject *(*type_dict) (PyTypeObject *type); /* borrowed; of a type whose tp_dict is NULL */
  PyTypeObject *method_wrapper_type; /* the type of None.__repr__; CPython does not export it since
                                        3.13 */
  PyTypeObject *marked_type; /* the type of functions with a mark, see control.h; or NULL */
  PyTypeObject *hook_handle_type; /* the type of Tensor.register_hook's result */
  PyObject *(*graph_module) (const GmGraph *g); /* an object for comptime code; new reference */
  PyObject *compiled_type; /* the type of gramme.compile's result; its __wrapped__ is traced
                              through.  Or NULL */
  const GmCode *(*decode) (PyCodeObject *code, GError **error);
  bool (*is_whole) (PyCodeObject *code); /* true for code whose functions are called, never
                                            inlined */
  /* Returns the function as one that a graph can name. values: its arguments, NULL for operand
   * which[i]; `names` (a tuple or NULL) names the last of them. */
  GmHostFunction *(*host_function) (PyObject *fn, PyObject *const *values, const uint8_t *which, uint32_t n, PyObject *names);
  GmHostFunction *(*host_hook) (PyObject *fn);
  /* Calls the function once, on tensors with these metas, to learn the metas of its results. False:
   * the function cannot be a node, and *why (owned) says the reason. */
  bool (*host_try) (GmHostFunction *f, const GmMeta *in, uint32_t n_in, bool grad, GmHostTrial *out, char **why);
  PyObject *(*slot_owner_name) (PyTypeObject *type); /* how the AttributeError about an empty slot names the type; new reference */
  const char *no_dict_text; /* end of the AttributeError's text for an object without a __dict__ to
                               set the attribute in */
  size_t type_params_offset; /* offset of a function's type parameters, a tuple or NULL; 0: it has
                                none */
  /* Offset of a dict's version, a 64-bit number that no two states of any dict share. 0: the
   * interpreter has no versions. */
  size_t dict_version_offset;
  bool counts_dicts;
  /* Returns a counter that advances whenever the dict changes or dies; the counter lives for ever.
   * NULL: there is none for this dict. */
  const uint64_t *(*dict_counter) (PyObject *dict);
  size_t dict_kind_offset; /* see gm_dict_get */
  bool (*dict_find) (PyObject *dict, PyObject *key, Py_hash_t hash, PyObject **value);
  GmCachedHost cached;
  /* Only with dict versions: gm_identity_epoch, gm_identity_told and gm_dicts_quiet of
   * dict_version.h. identity_epoch is NULL if the interpreter cannot tell. */
  const uint64_t *identity_epoch;
  bool (*identity_told) (PyTypeObject *type);
  uint64_t (*dicts_quiet) (void);
} GmTraceHost;

/* Called once when the extension is loaded, and again when a field becomes known.  The struct is
 * copied. */
void gm_trace_set_host (const GmTraceHost *host);
extern GmTraceHost gm_host;

#define gm_host_tensor(o) (*(GmTensor *const *) ((const char *) (o) + gm_host.tensor_offset))

/* True if a string is laid out, as each one is since 3.12; without memory it is not, and no error
 * is left. */
static inline bool
gm_str_ready (PyObject *s)
{
  if (PY_VERSION_HEX >= 0x030c0000 || PyUnicode_READY (s) == 0)
    return true;
  PyErr_Clear ();
  return false;
}

/* Two strings, whose types are str or a subclass. */
static inline bool
gm_str_equal (PyObject *a, PyObject *b)
{
  if (a == b || !gm_str_ready (a) || !gm_str_ready (b))
    return a == b;
  Py_ssize_t n = PyUnicode_GET_LENGTH (a);
  return n == PyUnicode_GET_LENGTH (b) && PyUnicode_KIND (a) == PyUnicode_KIND (b)
         && memcmp (PyUnicode_DATA (a), PyUnicode_DATA (b), (size_t) n * PyUnicode_KIND (a)) == 0;
}

/* A type's own dict, borrowed.  Builtin static types keep it elsewhere since 3.12. */
static inline PyObject *
gm_type_dict (PyTypeObject *type)
{
  return G_LIKELY (type->tp_dict) ? type->tp_dict : gm_host.type_dict (type);
}

/* True for a class made in Python. C extensions make classes on the heap, too, but no program can
 * change those. */
static inline bool
gm_is_user_type (PyTypeObject *type)
{
  return (type->tp_flags & (Py_TPFLAGS_HEAPTYPE | Py_TPFLAGS_IMMUTABLETYPE)) == Py_TPFLAGS_HEAPTYPE;
}

/* Exported by every version, but since 3.13 declared in an internal header only. */
int _PySet_NextEntry (PyObject *set, Py_ssize_t *pos, PyObject **key, Py_hash_t *hash);

/* -- Guards ---------------------------------------------------------------- */

/* The state that a call runs under, compared as a whole before anything else. */
typedef struct {
  const void
      *backend;   /* an interned key of back end and options: equal pointers, equal configuration */
  uint32_t modes; /* GmMode bits */
  PyObject *pack, *unpack; /* GM_MODE_SAVED_HOOKS: the pair, borrowed; else NULL */
} GmCallEnv;
typedef enum {
  GM_MODE_GRAD = 1,        /* grad mode is on */
  GM_MODE_FULLGRAPH = 2,   /* a break is an error */
  GM_MODE_BREAK_RAISES = 4, /* the same, of this thread at this time: error_on_graph_break */
  GM_MODE_FUNCTION_MODE = 1 << 5, /* a mode with a __torch_function__ sees calls: none is recorded */
  GM_MODE_SAVED_HOOKS = 1 << 3, /* saved-tensor hooks are on that may become part of a graph */
  GM_MODE_REFUSES_DRAWS = 1 << 4, /* gm_draws_refused */
  GM_MODE_DTYPE_SHIFT = 8, /* the default dtype stands in bits 8 to 15 */
  GM_MODE_AUTOCAST_SHIFT = 16, /* gm_autocast_mode in bits 16 to 23 */
  GM_MODE_DEVICE_SHIFT = 24,   /* the default device in bits 24 to 31; 0: the CPU */
} GmMode;

/* A flat program of loads and checks.  Reference-counted; keeps no tensor, user instance, class, function or module
 * alive: when one that it compares with dies, it is dead, and so is the entry. */
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
/* Adds a record for each fact about the symbolic sizes that no other fact implies. `graph` is the
 * recorded one. Called before the program is used. */
struct GmRecording;
void gm_guards_add_sizes (GmGuards *g, const GmGraph *graph, const struct GmRecording *rec);
/* A fact about the call beside its arguments, found after recording; at most one per program. */
typedef struct {
  bool (*holds) (const void *data, const GmCallEnv *env); /* as gm_guards_check: runs no Python code */
  bool (*dead) (const void *data); /* the fact will never hold again */
  char *(*text) (const void *data); /* caller frees */
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

typedef struct {
  const char *file; /* NULL: nowhere in particular */
  int line;
} GmWhere;
/* A guard as users read it; all is borrowed for the call. */
typedef struct {
  const char *kind, *source, *text; /* source: NULL for a guard on no value; text names kind and
                                       source, too */
  GmWhere where;
  bool is_lookup; /* LOOKUP of guards.def */
} GmGuardRow;
/* Calls `row` for each guard, in the order of checks, until `row` returns false; then returns
 * false. */
bool gm_guards_foreach (const GmGuards *g, bool (*row) (const GmGuardRow *row, void *data), void *data);

/* -- How a call ends ------------------------------------------------------- */

/* Short form: the returned value as a tree, for a call without side effects whose value needs no
 * bytecode. */
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
/* Returns a new reference, or NULL with an exception. outputs[i]: the wrapped graph outputs,
 * borrowed. */
PyObject *gm_return_build (const GmReturn *ret, PyObject *const *slots, PyObject *const *outputs);
void gm_return_free (GmReturn *ret);
int gm_return_traverse (const GmReturn *ret, visitproc visit, void *arg); /* as gm_guards_traverse */

/* Long form: a function to call after the graph has run.  Its arguments, all positional:
 * slots[in_slots[0]], ..., then the wrapped graph outputs in order.  It replays the side effects in
 * their order and returns the value.  Straight-line code: no jumps. Slots: the arguments
 * (GM_SLOT_ARG | GM_SLOT_LOCAL), temporaries (LOCAL), new cells (CELL: the assembler emits
 * MAKE_CELL), then the free variables of the original code in their order (FREE; closure: the
 * called function's own). */
typedef struct {
  uint32_t n_in_slots;
  const uint32_t *in_slots;
  uint32_t n_args; /* n_in_slots + number of graph outputs */
  GmInsn *insns;   /* op, arg, obj and line are set; obj owned by the recording */
  uint32_t n_insns;
  GmSlot *slots;
  uint32_t n_slots;
  uint32_t n_free, first_free;
  uint32_t stack_size;
} GmResidual;

/* -- The place of a break -------------------------------------------------- */

typedef enum {
  GM_RESUME_AFTER, /* Python executes the instruction, a resume function goes on after it */
  GM_RESUME_AT,    /* a resume function starts with the instruction (GM_STRESS=break) */
  GM_RESUME_PLAIN, /* the same, and the rest of the function runs as plain Python in one frame;
                      there is no other frame */
  GM_RESUME_SPAN,  /* Python executes the stretch that begins with the instruction, see
                      python_span.h; a resume function goes on after it */
  GM_RESUME_LEAVE, /* the same, and the stretch reaches beyond all handlers of the user's */
} GmResumeMode;

/* A frame as it is at the break.  Its values, in the order of `locals`, then the stack bottom to
 * top without the NULLs, then the cells of all cell and free variables in slot order, stand next to
 * each other in the tuple that the recording returns. */
typedef struct {
  const GmCode *code;
  PyObject *globals; /* borrowed */
  uint32_t insn;     /* the first of the step to execute; in a caller: its call, operands popped */
  uint32_t depth;    /* stack entries */
  uint64_t nulls;    /* bit k: entry k is the NULL of a call */
  uint64_t unbound;  /* bit k: entry k is a variable without a value, saved by a comprehension */
  uint64_t away;     /* bit i: the i-th cell is on the stack, and its slot is a plain variable */
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

/* The place in the user's program where a fact about sizes was made. */
typedef struct {
  const char *file; /* NULL: nowhere in particular */
  int line;
} GmSizePlace;

/* The sizes that become symbols: none, those that the user marked, those that were seen to change
 * as well, all. */
typedef enum { GM_DYNAMIC_NEVER, GM_DYNAMIC_MARKED, GM_DYNAMIC_SEEN, GM_DYNAMIC_ALWAYS } GmDynamic;

#define GM_SLOT_RNG UINT32_MAX /* an input that is no Python value: the generator's state, i64[2]  \
                                */

typedef struct {
  GmValueId value;
  uint32_t slot;      /* into `slots` of gm_guards_check, a tensor; or GM_SLOT_RNG */
  const char *source; /* "L['x']" */
  bool mutated;       /* the graph writes to it */
  bool is_int;        /* the slot holds an int, the size of the input */
} GmRecordInput;

/* A call of a Python function that draws a number, made after the guards and before the graph. */
typedef struct {
  PyObject *obj; /* or NULL: slots[slot] */
  uint32_t slot;
} GmRecordDrawPart;
typedef struct {
  const char *name;
  uint32_t n; /* number of parts: the function, then its arguments */
  const GmRecordDrawPart *parts;
  bool gives, is_float; /* a number, for slots[slot], as a tensor: f64, or i64 between lo and hi */
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
  bool error; /* the break is raised as an error, also where breaks are allowed */
  bool drops_one; /* the step drops an object whose death the program can notice */
} GmBreakInfo;

/* A place in the middle of a code object, and the layout of a call that goes on there: its
 * arguments are the variables `locals`, then the stack bottom to top without the NULLs; its closure
 * has all cell and free variables of the code in slot order. nulls, unbound, away: as in
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
  PyObject *const *locals; /* the bound arguments, all non-NULL: n_args in localsplus order, or those of `start` */
  GmCallEnv env;
  const char *backend_text; /* for BACKEND_MATCH: "tcc" or "tcc(level=2)" */
  bool resumable;           /* a break may end the recording early; else it stops it */
  const GmRecordStart *start; /* for a resume function: its place in the code; else NULL */
  bool effect_stacks;       /* gm_recording_effects_text will be called */
  bool keep_objects;        /* existing objects are left unchanged: effects are not replayed; not
                               resumable */
  uint8_t dynamic;          /* GmDynamic */
  GmProfile *profile; /* of the code: read and updated; NULL: no size and no number is a symbol */
  bool counted;             /* sizes that depend on data stay in the graph */
  bool numbers;             /* item () of an integer tensor is traced, as an unknown number */
  uint32_t max_insns;       /* limit of executed instructions; 0: 1,000,000 */
  uint32_t max_nodes;       /* limit of graph nodes; 0: 100,000 */
} GmRecordRequest;

/* Owned by the caller; all that it points to lives until gm_recording_free, except members that the
 * caller steals. */
typedef struct GmRecording {
  const GmBreakInfo *stop; /* not NULL: the function cannot be traced; all below is empty */
  const GmBreakInfo *broke; /* not NULL: the function was traced up to here, and goes on at
                               `point` */
  const GmBreakPoint *point;
  bool sets_grad, grad; /* the grad mode after the graph, where it is not that of the entry */
  PyObject *raised;        /* after a break: the exception that comptime code raised, to be raised;
                              or NULL. Borrowed */
  PyObject *layer;         /* after a break: a lazy layer that must make its parameters before the
                              whole function can be traced; or NULL. Borrowed */
  GmMeta layer_input;      /* meta of the lazy layer's input */
  GmGraph *graph;          /* outputs are GM_OUTPUT_USER, in the order of gm_return_build's and the
                              residual's `outputs` */
  GmRecordInput *inputs;   /* one per graph input, in order */
  uint32_t n_inputs;
  GmGraphLook *looks; /* reads of tensor state that are no nodes, in their order */
  uint32_t n_looks;
  const GmSizePlace *size_places; /* one per fact of the graph's sizes; may be fewer than the
                                     facts */
  uint32_t n_size_places;
  const char *fixed;    /* sizes that became numbers though they might have stayed symbols, a line
                           each: "L['x'].size(0) == 5: FILE:LINE needs ..." */
  uint32_t n_draws;
  const GmRecordDraw *draws; /* in their order */
  int64_t rng_taken;    /* a size: number of draws by which the plan advances the generator */
  uint32_t rng_output;  /* instead: the output that is the generator's state after the graph,
                           because bodies draw; GM_NO_ID: no body does */
  GmGuards *guards;     /* gm_guards_ref it to keep it */
  GmReturn *ret;        /* the short form, or NULL: set to NULL to take it */
  GmResidual *residual; /* the long form, or NULL */
  uint32_t n_effects;   /* side effects replayed by the residual */
  uint32_t n_insns_executed, n_frames_inlined;
  void *owner;
} GmRecording;

/* Records the function; never NULL. Sets no Python exception. The new guards are checked once
 * against the request: guards that do not hold for the call that made them are reported as a break
 * (GUARD_FAILED_AT_BIRTH). */
GmRecording *gm_record_function (const GmRecordRequest *req);
/* Returns the changes that the residual will make to existing objects, each with the user's frames;
 * "" if there are none. Caller frees. */
char *gm_recording_effects_text (const GmRecording *rec);
void gm_recording_free (GmRecording *rec);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmRecording, gm_recording_free)

#endif
