/* SPDX-License-Identifier: Apache-2.0
 * tracker.h -- what the recorder knows about a Python value: immutable, in the arena.
 *
 * A tracker is never written after it is made. A tracker of a mutable object has an object id, and
 * its contents are in the heap, so that any number of trackers and containers may hold the value
 * without copies to keep in step. Values with identity are interned: one Python object, one
 * tracker, so `is` compares pointers. The operations below dispatch on the kind; each returns
 * poison (truth 0, NULL) after a break, so callers go straight on and the loop tests once an
 * instruction.
 */
#ifndef GM_TRACE_TRACKER_H
#define GM_TRACE_TRACKER_H

#include "core/trace/heap.h"
#include "core/guard/value_source.h"
#include "core/objects/key_type.h"
#include "core/trace/trace.h"

typedef struct GmRecorder GmRecorder;
typedef struct GmTrackerKind GmTrackerKind;
typedef struct GmResidualBuilder GmResidualBuilder;

#define GM_NO_OBJECT UINT32_MAX

struct GmTracker {
  const GmTrackerKind *kind;
  const GmSource *source; /* NULL: made in the region */
  PyObject *real;         /* a constant's value; the existing object; kept alive by the recorder */
  const GmTracker *const *items;
  uint32_t n;       /* number of items */
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
  GM_BIN_DIVMOD = GM_N_BIN, /* for objects and constants; no instruction does it */
} GmBinary;
typedef enum { GM_UN_POS, GM_UN_NEG, GM_UN_INVERT } GmUnary;

struct GmTrackerKind {
  const char *name;
  PyTypeObject *(*type) (GmRecorder *r, const GmTracker *t); /* the class that type (t) returns */
  int (*truth) (GmRecorder *r, const GmTracker *t);
  const GmTracker *(*iter) (GmRecorder *r, const GmTracker *t);
  const GmTracker *(*next) (GmRecorder *r, const GmTracker *t); /* NULL at the end */
  const GmTracker *(*call) (GmRecorder *r, const GmTracker *t, const GmCallArgs *args);
  const GmTracker *(*getattr) (GmRecorder *r, const GmTracker *t,
                               PyObject *name); /* NULL: no such attribute, and no break */
  void (*setattr) (GmRecorder *r, const GmTracker *t, PyObject *name,
                   const GmTracker *value); /* value NULL: delete */
  const GmTracker *(*getitem) (GmRecorder *r, const GmTracker *t, const GmTracker *key);
  void (*setitem) (GmRecorder *r, const GmTracker *t, const GmTracker *key,
                   const GmTracker *value); /* value NULL: delete */
  /* Returns the result of an operator; t is of this kind, and the right operand if `reflected`.
   * NULL, without a break: the kind does not implement the operator for these operands. */
  const GmTracker *(*binary) (GmRecorder *r, GmBinary op, const GmTracker *t,
                              const GmTracker *other, bool reflected, bool inplace);
  const GmTracker *(*unary) (GmRecorder *r, GmUnary op, const GmTracker *t);
  const GmTracker *(*compare) (GmRecorder *r, int op, const GmTracker *t,
                               const GmTracker *other); /* NULL: not implemented */
  int64_t (*len) (GmRecorder *r, const GmTracker *t);
  const GmTracker *(*contains) (GmRecorder *r, const GmTracker *t, const GmTracker *item);
  /* Returns a new reference to the value if the value is known completely and made of exact builtin
   * types, else NULL without a break. */
  PyObject *(*constant) (GmRecorder *r, const GmTracker *t);
  /* Emits instructions that push the value onto the residual's stack; false: a value of this kind
   * cannot leave the region. */
  bool (*build) (GmResidualBuilder *b, const GmTracker *t);
  bool
      builds_anew; /* each `build` makes another object: the residual calls it once for a tracker */
};

#define TRACKER(name, file) extern const GmTrackerKind gm_kind_##name;
#include "core/trace/trackers.def"

/* Trackers of entries of the stack that are no Python values. null: the NULL of the call protocol.
 * null_method: the same NULL below a C method that LOAD_METHOD found, where CPython's stack has the
 * class's function and the object. unbound: a variable without a value. poison: see above. */
extern const GmTracker gm_tracker_null, gm_tracker_null_method, gm_tracker_unbound,
    gm_tracker_poison;
static inline bool
gm_is_call_null (const GmTracker *t)
{
  return t == &gm_tracker_null || t == &gm_tracker_null_method;
}

/* Returns the storage of an object: the list, dict, set, tuple, exception or plain value that an
 * instance of a subclass of such a class has beside its attributes. NULL for plain objects. */
static inline const GmTracker *
gm_storage (const GmTracker *t)
{
  return t->kind == &gm_kind_object && t->n ? t->items[0] : NULL;
}

/* Returns the int, float, str or bytes that an instance of a subclass of these classes contains; t
 * for other values. */
static inline const GmTracker *
gm_value_of (const GmTracker *t)
{
  const GmTracker *storage = gm_storage (t);
  return storage && storage->kind == &gm_kind_constant ? storage : t;
}

/* -- Making ---------------------------------------------------------------- */
/* Returns a new tracker, a copy of `init` in the arena. */
const GmTracker *gm_tracker_add (GmRecorder *r, const GmTracker *init);
#define gm_tracker(r, ...) gm_tracker_add ((r), &(GmTracker){ .id = GM_NO_OBJECT, __VA_ARGS__ })
const GmTracker **gm_tracker_array (GmRecorder *r, uint32_t n);
/* Returns an array of n NULLs for a caller that runs the user's code while it fills the array: the
 * arena may be sealed by then. The caller frees the array with g_free. */
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
/* Returns a new contents tracker of n items, which are copied. Contents are the immutable list of
 * what a container or an object's attributes hold; the heap slot of the container refers to
 * them. */
const GmTracker *gm_contents (GmRecorder *r, const GmTracker *const *items, uint32_t n);
const GmTracker *gm_contents_of (GmRecorder *r, const GmTracker *t);
void gm_contents_set (GmRecorder *r, const GmTracker *t, const GmTracker *contents);
/* Records that an existing container drops its reference to the value `old`. Breaks if the program
 * could notice that the value dies (see lifetime.c), because the change is replayed after the
 * graph. */
void gm_dropped (GmRecorder *r, const GmTracker *old);
void gm_dropped_object (GmRecorder *r, PyObject *old);
/* True if t still has these `contents`. Breaks otherwise: the user's code that ran since they were
 * read has changed the container. */
bool gm_contents_still (GmRecorder *r, const GmTracker *t, const GmTracker *contents);

/* Returns a lazy tracker, without guards, of an existing object that is reached through
 * `source`. */
const GmTracker *gm_wrap_lazy (GmRecorder *r, PyObject *real, const GmSource *source);
/* Returns a lazy tracker as gm_wrap_lazy does, and guards that the object is there: for an object
 * that a test of presence has found. */
const GmTracker *gm_wrap_present (GmRecorder *r, PyObject *real, const GmSource *source);
/* Returns a realized tracker of an existing object: adds the guards of its kind. */
const GmTracker *gm_wrap (GmRecorder *r, PyObject *real, const GmSource *source);
/* Returns the realized tracker of a lazy one, and t itself for others. */
const GmTracker *gm_realize (GmRecorder *r, const GmTracker *t);
/* Returns the tracker of a value of exact builtin types that was made while recording: a constant,
 * a tuple, or a new list, dict ... Takes a new reference to the value. */
const GmTracker *gm_from_constant (GmRecorder *r, PyObject *value);
const GmTracker *gm_from_constant_take (GmRecorder *r,
                                        PyObject *value); /* steals the reference; NULL: the pending
                                                             exception becomes a break */
const GmTracker *gm_from_bool (GmRecorder *r, bool b);
const GmTracker *gm_from_int (GmRecorder *r, int64_t i);
const GmTracker *gm_none (GmRecorder *r);

const GmTracker *gm_tuple_new (GmRecorder *r, const GmTracker *const *items,
                               uint32_t n); /* items are copied */
const GmTracker *gm_tuple_new_of (GmRecorder *r, PyTypeObject *type, const GmTracker *const *items,
                                  uint32_t n);
const GmTracker *
gm_tuple_constant (GmRecorder *r,
                   PyObject *tuple); /* a constant of a code object: keeps its identity */
const GmTracker *gm_list_new (GmRecorder *r, const GmTracker *const *items, uint32_t n);
const GmTracker *gm_dict_new (GmRecorder *r); /* empty */
const GmTracker *gm_dict_new_storage (GmRecorder *r, bool ordered);
void gm_dict_store (GmRecorder *r, const GmTracker *dict, const GmTracker *key,
                    const GmTracker *value); /* for new dicts: records no effect */
const GmTracker *gm_set_new (GmRecorder *r, const GmTracker *const *items, uint32_t n);
/* Returns a new set of the elements of the iterable `from`, which are read one after the other: the
 * first element that cannot be hashed raises a TypeError and ends the reading. */
const GmTracker *gm_set_of (GmRecorder *r, const GmTracker *from);
const GmTracker *gm_slice_new (GmRecorder *r, const GmTracker *start, const GmTracker *stop,
                               const GmTracker *step);
const GmTracker *gm_builtin_method (GmRecorder *r, const char *name, const GmTracker *self);
/* Returns the method that `descriptor`, which was found in a base class, gives for the object
 * `self`. If `bound` is a row of a method table, the residual builds the method from the
 * descriptor, without a lookup of the name in the object's own class; any other `bound` is returned
 * unchanged. */
const GmTracker *gm_builtin_of (GmRecorder *r, const GmTracker *bound, PyObject *descriptor,
                                const GmTracker *self);
const GmTracker *gm_method_new (GmRecorder *r, const GmTracker *func, const GmTracker *self);
const GmTracker *gm_cell_new (GmRecorder *r, const GmTracker *contents);
const GmTracker *gm_tensor_new_tracker (GmRecorder *r, GmValueId value);
/* True if the tensor has attributes of the program's own, which the region may have stored. */
bool gm_tensor_has_attributes (GmRecorder *r, const GmTracker *t);
/* Records that the program has asked whether t has a gradient history, for the order of reads that
 * eager execution would have (read_order.h in core/aot). */
void gm_tensor_look (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_iterator_over (GmRecorder *r, const GmTracker *sequence);

/* The wrap function of each kind. gm_wrap has chosen the kind; the wrap function guards the type
 * and returns a tracker of the existing object. */
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
/* Return the storage of an existing instance of a subclass of list, dict, tuple or set. The
 * instance's type is guarded already. */
const GmTracker *gm_list_storage (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_dict_storage (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_tuple_storage (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_set_storage (GmRecorder *r, PyObject *real, const GmSource *source);
/* Returns the frozenset t marked as made in the region, with the elements of `of` (a set, dict or
 * tuple, or NULL) that are equal to its own. Any other t, and one that existed before the region,
 * is returned unchanged. */
const GmTracker *gm_frozenset_made (GmRecorder *r, const GmTracker *t, const GmTracker *of);
/* gm_dict_lookup, below, returns the value under a key. NULL: the key is absent, or the recording
 * has stopped. */
/* Returns the contents (key, value, key, value ...), loaded on the first read of the whole dict;
 * poison after a break. */
const GmTracker *gm_dict_contents (GmRecorder *r, const GmTracker *dict);
/* Returns dict or OrderedDict, whichever the dict is: the class whose methods the residual calls to
 * replay changes. Borrowed. */
PyTypeObject *gm_dict_owner (const GmTracker *dict);
const GmTracker *gm_dict_of (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_dict_lookup (GmRecorder *r, const GmTracker *dict, const GmTracker *key);

/* A method of a builtin kind: a row of the kind's table, bound to a value. */
typedef struct {
  const char *name;
  const GmTracker *(*run) (GmRecorder *r, const GmTracker *self, const GmCallArgs *args);
} GmMethodRow;
/* Returns the method bound to self; NULL if no row has the name. The table ends with a NULL
 * name. */
const GmTracker *gm_method_row (GmRecorder *r, const GmMethodRow *rows, const GmTracker *self,
                                PyObject *name);
/* Fills `args` with the arguments of the call f (*rest, **kwargs); kwargs may be NULL. False after
 * a break. */
bool gm_args_unpack (GmRecorder *r, const GmTracker *rest, const GmTracker *kwargs,
                     GmCallArgs *args);
/* True if there are `min` to `max` positional arguments and no named arguments; else breaks with
 * the method's `name` in the message. */
bool gm_args_plain (GmRecorder *r, const char *name, const GmCallArgs *args, uint32_t min,
                    uint32_t max);
/* Reads start and stop of index (value, start, stop) for a sequence of n items: the search is over
 * [*from, *to). False after a break. */
bool gm_args_range (GmRecorder *r, const char *type, const GmCallArgs *args, int64_t n,
                    int64_t *from, int64_t *to);
/* Fills out[n_names] with the positional and named arguments; NULL where an argument is not given.
 * False after a break. */
bool gm_args_take (GmRecorder *r, const char *name, const GmCallArgs *args,
                   const char *const *names, uint32_t n_names, const GmTracker **out);

/* -- Operations (dispatch) ------------------------------------------------- */
PyTypeObject *
gm_type_of (GmRecorder *r,
            const GmTracker *t); /* borrowed; NULL after a break or for a value that has no type */
/* Returns the type as gm_type_of does, for a caller that needs nothing else: a lazy tracker is not
 * realized, only its type is guarded. */
PyTypeObject *gm_type_only (GmRecorder *r, const GmTracker *t);
const char *gm_type_text (GmRecorder *r, const GmTracker *t); /* for messages */
int gm_truth (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_iter (GmRecorder *r, const GmTracker *t);
/* Returns iter (t) as gm_iter does; any TypeError gets the message `text`. */
const GmTracker *gm_iter_or (GmRecorder *r, const GmTracker *t, const char *text);
/* Returns iter (t) for a search by `in`, whose TypeError has a text of its own. */
const GmTracker *gm_iter_searched (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_next (GmRecorder *r, const GmTracker *it); /* NULL: exhausted, or a break */
/* Returns all values of an iterable in a new array of borrowed trackers; NULL after a break. */
GPtrArray *gm_iterate (GmRecorder *r, const GmTracker *t);
/* Return all values as gm_iterate does. gm_collect reads an iterable as list () and tuple () do:
 * its length is asked for first. gm_collect_fast reads as PySequence_Fast does: a list or tuple is
 * not iterated over, and a value that is not iterable raises a TypeError with the message
 * `text`. */
GPtrArray *gm_collect (GmRecorder *r, const GmTracker *t);
GPtrArray *gm_collect_fast (GmRecorder *r, const GmTracker *t, const char *text);
/* True if objects of the class of t cannot be iterated over: raises a TypeError, whose message is
 * `format` with the class's name; format NULL: breaks. */
bool gm_raise_not_iterable (GmRecorder *r, const GmTracker *t, const char *format)
    G_GNUC_PRINTF (3, 0);
/* Runs the user's methods that PyObject_LengthHint would run, __len__ and __length_hint__, because
 * they may raise or have effects; the length is not used. */
void gm_ask_length (GmRecorder *r, const GmTracker *t);
/* True if iterating over a realized value runs no code of the user's and reads no other object. */
bool gm_iterates_alone (const GmTracker *t);
const GmTracker *gm_call (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);
const GmTracker *gm_call_n (GmRecorder *r, const GmTracker *f, const GmTracker *const *args,
                            uint32_t n);
/* Return the value of an attribute. gm_getattr_opt returns NULL, without a break, if there is none;
 * gm_getattr raises or breaks. */
const GmTracker *gm_getattr_opt (GmRecorder *r, const GmTracker *t, PyObject *name);
const GmTracker *gm_getattr (GmRecorder *r, const GmTracker *t, PyObject *name);
void gm_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
const GmTracker *gm_getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key);
void gm_setitem (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value);
const GmTracker *gm_binary (GmRecorder *r, GmBinary op, const GmTracker *a, const GmTracker *b,
                            bool inplace);
/* Returns divmod (a, b). NULL, without a break: the operands have no model for it. */
const GmTracker *gm_divmod (GmRecorder *r, const GmTracker *a, const GmTracker *b);
const GmTracker *gm_unary (GmRecorder *r, GmUnary op, const GmTracker *t);
const GmTracker *gm_compare (GmRecorder *r, int op, const GmTracker *a, const GmTracker *b);
const GmTracker *gm_is (GmRecorder *r, const GmTracker *a, const GmTracker *b);
/* Guards that a and b, which are two objects in the recording, are two objects in each call. */
void gm_told_apart (GmRecorder *r, const GmTracker *a, const GmTracker *b);
/* True for classes, modules and C functions: their guards compare the object itself, so that no
 * other object passes. */
bool gm_is_guarded_as_itself (const GmTracker *t);
/* True if a and b are the same object or equal, as containers compare their items. False also after
 * a break. */
bool gm_same_or_equal (GmRecorder *r, const GmTracker *a, const GmTracker *b);
int64_t gm_len (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_contains (GmRecorder *r, const GmTracker *t, const GmTracker *item);
/* Returns the constant, borrowed from the recorder; NULL: t is not a constant. */
PyObject *gm_constant (GmRecorder *r, const GmTracker *t);
bool gm_constant_int (GmRecorder *r, const GmTracker *t,
                      int64_t *out); /* exact int or bool in 64 bits, no break */

/* Calls the Python method `name` ("__add__" ...) of the class of t, on t with n arguments, and
 * returns its result. NULL: the class has no such method in Python, or there was a break. */
const GmTracker *gm_call_special (GmRecorder *r, const GmTracker *t, const char *name,
                                  const GmTracker *const *args, uint32_t n);

#endif
