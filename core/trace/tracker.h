/* SPDX-License-Identifier: Apache-2.0
 * tracker.h -- what the recorder knows about a Python value: immutable, in the arena.
 *
 * A tracker is never written after it is made.  What has identity and changes has an object id, and
 * its contents are in the heap, so that any number of trackers and containers may hold the value
 * without copies to keep in step.  Values with identity are interned: one Python object, one
 * tracker, so `is` compares pointers.  The operations below dispatch on the kind; each returns
 * poison (truth 0, NULL) after a break, so callers go straight on and the loop tests once an
 * instruction.
 */
#ifndef GM_TRACE_TRACKER_H
#define GM_TRACE_TRACKER_H

#include "core/trace/heap.h"
#include "core/trace/source.h"

typedef struct GmRecorder GmRecorder;
typedef struct GmTrackerKind GmTrackerKind;
typedef struct GmResidualBuilder GmResidualBuilder;

#define GM_NO_OBJECT UINT32_MAX

struct GmTracker {
  const GmTrackerKind *kind;
  const GmSource *source; /* NULL: made in the region */
  PyObject *real;         /* a constant's value; the existing object; kept alive by the recorder */
  const GmTracker *const *items;
  uint32_t n;       /* of items */
  uint32_t id;      /* heap object or GM_NO_OBJECT */
  int64_t number;   /* a kind's small integer */
  const void *data; /* a kind's immutable rest */
};

/* Arguments of a call: positional, then the values of `names` (a tuple of str, or NULL). */
typedef struct {
  const GmTracker *const *args;
  uint32_t n; /* positional */
  PyObject *names;
} GmCallArgs;
#define gm_args_n_named(a) ((a)->names ? (uint32_t) PyTuple_GET_SIZE ((a)->names) : 0)

/* CPython's NB_* numbers without the in-place half. */
typedef enum {
  GM_BIN_ADD,
  GM_BIN_AND,
  GM_BIN_FLOORDIV,
  GM_BIN_LSHIFT,
  GM_BIN_MATMUL,
  GM_BIN_MUL,
  GM_BIN_MOD,
  GM_BIN_OR,
  GM_BIN_POW,
  GM_BIN_RSHIFT,
  GM_BIN_SUB,
  GM_BIN_DIV,
  GM_BIN_XOR,
  GM_N_BIN,
  GM_BIN_DIVMOD = GM_N_BIN, /* of objects and constants alone: no instruction */
} GmBinary;
typedef enum { GM_UN_POS, GM_UN_NEG, GM_UN_INVERT } GmUnary;

struct GmTrackerKind {
  const char *name;
  PyTypeObject *(*type) (GmRecorder *r, const GmTracker *t); /* what type () gives */
  int (*truth) (GmRecorder *r, const GmTracker *t);
  const GmTracker *(*iter) (GmRecorder *r, const GmTracker *t);
  const GmTracker *(*next) (GmRecorder *r, const GmTracker *t); /* NULL at the end */
  const GmTracker *(*call) (GmRecorder *r, const GmTracker *t, const GmCallArgs *args);
  const GmTracker *(*getattr) (GmRecorder *r, const GmTracker *t,
                               PyObject *name); /* NULL: there is none, and no break */
  void (*setattr) (GmRecorder *r, const GmTracker *t, PyObject *name,
                   const GmTracker *value); /* value NULL: delete */
  const GmTracker *(*getitem) (GmRecorder *r, const GmTracker *t, const GmTracker *key);
  void (*setitem) (GmRecorder *r, const GmTracker *t, const GmTracker *key,
                   const GmTracker *value); /* value NULL: delete */
  /* One operand at least is of this kind; `reflected`: t is the right one.  NULL: not implemented
   * here. */
  const GmTracker *(*binary) (GmRecorder *r, GmBinary op, const GmTracker *t,
                              const GmTracker *other, bool reflected, bool inplace);
  const GmTracker *(*unary) (GmRecorder *r, GmUnary op, const GmTracker *t);
  const GmTracker *(*compare) (GmRecorder *r, int op, const GmTracker *t,
                               const GmTracker *other); /* NULL: not implemented */
  int64_t (*len) (GmRecorder *r, const GmTracker *t);
  const GmTracker *(*contains) (GmRecorder *r, const GmTracker *t, const GmTracker *item);
  /* New reference to the value if it is known completely and made of exact builtin types, else NULL
   * without a break. */
  PyObject *(*constant) (GmRecorder *r, const GmTracker *t);
  /* Emits instructions that leave the value on the residual's stack; false: cannot leave the
   * region. */
  bool (*build) (GmResidualBuilder *b, const GmTracker *t);
  bool builds_anew; /* each `build` makes another object: the residual calls it once for a tracker */
};

#define TRACKER(name, file) extern const GmTrackerKind gm_kind_##name;
#include "core/trace/trackers.def"

/* null: of the call protocol; null_method: the same, below a method of C that LOAD_METHOD found, of which Python has the class's function and the
 * object there; unbound: a variable without a value, on the stack. */
extern const GmTracker gm_tracker_null, gm_tracker_null_method, gm_tracker_unbound, gm_tracker_poison;
static inline bool
gm_is_call_null (const GmTracker *t)
{
  return t == &gm_tracker_null || t == &gm_tracker_null_method;
}

/* What an object of a class with a C layout holds beside its attributes: a list, dict, set, tuple
 * or exception.  NULL for plain objects. */
static inline const GmTracker *
gm_storage (const GmTracker *t)
{
  return t->kind == &gm_kind_object && t->n ? t->items[0] : NULL;
}

/* The exact value inside of an instance of a subclass of int, float, str or bytes; else t. */
static inline const GmTracker *
gm_value_of (const GmTracker *t)
{
  const GmTracker *storage = gm_storage (t);
  return storage && storage->kind == &gm_kind_constant ? storage : t;
}

/* -- Making ---------------------------------------------------------------- */
/* `init` is copied into the arena. */
const GmTracker *gm_tracker_add (GmRecorder *r, const GmTracker *init);
#define gm_tracker(r, ...) gm_tracker_add ((r), &(GmTracker){ .id = GM_NO_OBJECT, __VA_ARGS__ })
const GmTracker **gm_tracker_array (GmRecorder *r, uint32_t n);
/* For arrays that are filled while code of the user's runs in between: the arena may be sealed by
 * then.  The caller frees it. */
static inline const GmTracker **
gm_tracker_array_own (uint32_t n)
{
  return g_new0 (const GmTracker *, n + 1);
}
static inline void
gm_tracker_copy (const GmTracker **to, const GmTracker *const *from, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) /* either may be NULL when n is 0 */
    to[i] = from[i];
}
/* A new object with one slot of contents. */
const GmTracker *gm_contents (GmRecorder *r, const GmTracker *const *items, uint32_t n);
const GmTracker *gm_contents_of (GmRecorder *r, const GmTracker *t);
void gm_contents_set (GmRecorder *r, const GmTracker *t, const GmTracker *contents);
/* A container that exists lets go of a value: a break if the program could tell that it dies (see lifetime.c), as the change is replayed later. */
void gm_dropped (GmRecorder *r, const GmTracker *old);
void gm_dropped_object (GmRecorder *r, PyObject *old);
/* False, with a break, if the user's code that ran since `contents` were read has changed them. */
bool gm_contents_still (GmRecorder *r, const GmTracker *t, const GmTracker *contents);

/* An existing object reached through `source`: lazy, no guard. */
const GmTracker *gm_wrap_lazy (GmRecorder *r, PyObject *real, const GmSource *source);
/* The same for what was found by asking whether it is there: that it is there is guarded. */
const GmTracker *gm_wrap_present (GmRecorder *r, PyObject *real, const GmSource *source);
/* The same, looked at: makes the guards that its kind needs. */
const GmTracker *gm_wrap (GmRecorder *r, PyObject *real, const GmSource *source);
/* What stands behind a lazy tracker; others are returned as they are. */
const GmTracker *gm_realize (GmRecorder *r, const GmTracker *t);
/* A value of exact builtin types, made while tracing (owner: a reference is taken): constants,
 * tuples, new lists, dicts ... */
const GmTracker *gm_from_constant (GmRecorder *r, PyObject *value);
const GmTracker *
gm_from_constant_take (GmRecorder *r,
                       PyObject *value); /* steals; NULL: a pending exception becomes a break */
const GmTracker *gm_from_bool (GmRecorder *r, bool b);
const GmTracker *gm_from_int (GmRecorder *r, int64_t i);
const GmTracker *gm_none (GmRecorder *r);

const GmTracker *gm_tuple_new (GmRecorder *r, const GmTracker *const *items,
                               uint32_t n); /* items are copied */
const GmTracker *gm_tuple_new_of (GmRecorder *r, PyTypeObject *type, const GmTracker *const *items,
                                  uint32_t n);
const GmTracker *
gm_tuple_constant (GmRecorder *r,
                   PyObject *tuple); /* of a code object's constants: keeps its identity */
const GmTracker *gm_list_new (GmRecorder *r, const GmTracker *const *items, uint32_t n);
const GmTracker *gm_dict_new (GmRecorder *r); /* empty */
const GmTracker *gm_dict_new_storage (GmRecorder *r, bool ordered);
void gm_dict_store (GmRecorder *r, const GmTracker *dict, const GmTracker *key,
                    const GmTracker *value); /* no effect recorded: new dicts */
const GmTracker *gm_set_new (GmRecorder *r, const GmTracker *const *items, uint32_t n);
/* The elements of an iterable, one after the other: the first that cannot be hashed ends it. */
const GmTracker *gm_set_of (GmRecorder *r, const GmTracker *from);
const GmTracker *gm_slice_new (GmRecorder *r, const GmTracker *start, const GmTracker *stop,
                               const GmTracker *step);
const GmTracker *gm_builtin_method (GmRecorder *r, const char *name, const GmTracker *self);
/* `bound`, if it is a row of a method table, as what `descriptor` of a base class gives for the object: rebuilt without
 * a look at what the object's own class has under that name. */
const GmTracker *gm_builtin_of (GmRecorder *r, const GmTracker *bound, PyObject *descriptor,
                                const GmTracker *self);
const GmTracker *gm_method_new (GmRecorder *r, const GmTracker *func, const GmTracker *self);
const GmTracker *gm_cell_new (GmRecorder *r, const GmTracker *contents);
const GmTracker *gm_tensor_new_tracker (GmRecorder *r, GmValueId value);
/* The program has asked t whether it has a history (looks.h in core/aot). */
void gm_tensor_look (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_iterator_over (GmRecorder *r, const GmTracker *sequence);
const GmTracker *gm_grad_mode_new (GmRecorder *r, bool on);

/* Wrap functions by kind, called by gm_wrap once it has chosen: the type is not guarded yet. */
const GmTracker *gm_wrap_constant (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_tensor (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_tuple (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_list (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_dict (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_deque (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_bytearray (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_set (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_function (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_method (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_builtin (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_class (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_module (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_object (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_cell (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_hook_handle (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_slice (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_wrap_api (GmRecorder *r, PyObject *real, const GmSource *source);
bool gm_is_constant_type (PyTypeObject *type);
/* The container inside of an instance of a subclass; its type is guarded already. */
const GmTracker *gm_list_storage (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_dict_storage (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_tuple_storage (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_set_storage (GmRecorder *r, PyObject *real, const GmSource *source);
/* The frozenset t that a call made, or t if the call made none; `of` is the set, dict or tuple whose
 * elements it has, or NULL. */
const GmTracker *gm_frozenset_made (GmRecorder *r, const GmTracker *t, const GmTracker *of);
/* The value under a key; NULL: there is none, or a break. */
/* Key, value, key, value ..., loaded if this is the first look at the whole; poison after a break. */
const GmTracker *gm_dict_contents (GmRecorder *r, const GmTracker *dict);
/* The class whose methods replay what was done to it. */
PyTypeObject *gm_dict_owner (const GmTracker *dict);
const GmTracker *gm_dict_of (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_dict_lookup (GmRecorder *r, const GmTracker *dict, const GmTracker *key);

/* A method of a builtin kind: a row of the kind's table, bound to a value. */
typedef struct {
  const char *name;
  const GmTracker *(*run) (GmRecorder *r, const GmTracker *self, const GmCallArgs *args);
} GmMethodRow;
/* NULL if no row (the table ends with a NULL name) is called so. */
const GmTracker *gm_method_row (GmRecorder *r, const GmMethodRow *rows, const GmTracker *self,
                                PyObject *name);
/* The arguments of f (*rest, **kwargs); kwargs NULL: none.  False after a break. */
bool gm_args_unpack (GmRecorder *r, const GmTracker *rest, const GmTracker *kwargs,
                     GmCallArgs *args);
/* Positional arguments only, min to max of them: else a break that names the method. */
bool gm_args_plain (GmRecorder *r, const char *name, const GmCallArgs *args, uint32_t min,
                    uint32_t max);
/* Those of index (value, start, stop) of a sequence of n items: where to look.  False after a break. */
bool gm_args_range (GmRecorder *r, const char *type, const GmCallArgs *args, int64_t n, int64_t *from, int64_t *to);
/* Positional and named arguments as out[n_names]; NULL where not given.  False after a break. */
bool gm_args_take (GmRecorder *r, const char *name, const GmCallArgs *args,
                   const char *const *names, uint32_t n_names, const GmTracker **out);

/* -- Operations (dispatch) ------------------------------------------------- */
PyTypeObject *
gm_type_of (GmRecorder *r,
            const GmTracker *t); /* borrowed; NULL after a break or if nobody may ask */
/* The same, where only the type is asked: an object that was not looked at before is guarded by its type alone. */
PyTypeObject *gm_type_only (GmRecorder *r, const GmTracker *t);
const char *gm_type_text (GmRecorder *r, const GmTracker *t); /* for messages */
int gm_truth (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_iter (GmRecorder *r, const GmTracker *t);
/* The same, with that text for any TypeError. */
const GmTracker *gm_iter_or (GmRecorder *r, const GmTracker *t, const char *text);
const GmTracker *gm_iter_searched (GmRecorder *r, const GmTracker *t); /* for an item, as `in` does */
const GmTracker *gm_next (GmRecorder *r, const GmTracker *it); /* NULL: exhausted, or a break */
/* All values of an iterable; NULL after a break. */
GPtrArray *gm_iterate (GmRecorder *r, const GmTracker *t);
/* The same as list () and tuple () read it, and as what takes any sequence does: a list or tuple is not iterated then, and the TypeError of what
 * cannot be is `text`. */
GPtrArray *gm_collect (GmRecorder *r, const GmTracker *t);
GPtrArray *gm_collect_fast (GmRecorder *r, const GmTracker *t, const char *text);
/* True, with a TypeError of that text about the name of the class, or with a break, if the class has no way to be iterated. */
bool gm_raise_not_iterable (GmRecorder *r, const GmTracker *t, const char *format) G_GNUC_PRINTF (3, 0);
/* What PyObject_LengthHint runs of the user's. */
void gm_ask_length (GmRecorder *r, const GmTracker *t);
/* Of a realized one: nothing of the user's runs meanwhile, and nothing but it is looked at. */
bool gm_iterates_alone (const GmTracker *t);
const GmTracker *gm_call (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);
const GmTracker *gm_call_n (GmRecorder *r, const GmTracker *f, const GmTracker *const *args,
                            uint32_t n);
/* NULL: absent without a break.  gm_getattr breaks then. */
const GmTracker *gm_getattr_opt (GmRecorder *r, const GmTracker *t, PyObject *name);
const GmTracker *gm_getattr (GmRecorder *r, const GmTracker *t, PyObject *name);
void gm_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
const GmTracker *gm_getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key);
void gm_setitem (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value);
const GmTracker *gm_binary (GmRecorder *r, GmBinary op, const GmTracker *a, const GmTracker *b,
                            bool inplace);
/* divmod (a, b); NULL without a break: left to Python. */
const GmTracker *gm_divmod (GmRecorder *r, const GmTracker *a, const GmTracker *b);
const GmTracker *gm_unary (GmRecorder *r, GmUnary op, const GmTracker *t);
const GmTracker *gm_compare (GmRecorder *r, int op, const GmTracker *a, const GmTracker *b);
const GmTracker *gm_is (GmRecorder *r, const GmTracker *a, const GmTracker *b);
/* Two values that the recording met as two objects are two objects in each call. */
void gm_told_apart (GmRecorder *r, const GmTracker *a, const GmTracker *b);
/* True if the guards of a value of this kind say which object it is. */
bool gm_is_guarded_as_itself (const GmTracker *t);
/* As containers compare: the same object, or equal.  False after a break. */
bool gm_same_or_equal (GmRecorder *r, const GmTracker *a, const GmTracker *b);
int64_t gm_len (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_contains (GmRecorder *r, const GmTracker *t, const GmTracker *item);
/* Borrowed (the recorder keeps it) or NULL: not a constant. */
PyObject *gm_constant (GmRecorder *r, const GmTracker *t);
bool gm_constant_int (GmRecorder *r, const GmTracker *t,
                      int64_t *out); /* exact int or bool in 64 bits, no break */

/* A method of a class found by type lookup and bound to t, called: "__add__" ...  NULL if the class
 * has none. */
const GmTracker *gm_call_special (GmRecorder *r, const GmTracker *t, const char *name,
                                  const GmTracker *const *args, uint32_t n);

#endif
