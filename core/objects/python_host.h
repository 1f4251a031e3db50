/* SPDX-License-Identifier: Apache-2.0
 * python_host.h -- what the recorder and the guards must ask core/capture about Python and the
 * package: layouts, types, functions.  core/capture/trace_host.c fills the table.
 */
#ifndef GM_OBJECTS_PYTHON_HOST_H
#define GM_OBJECTS_PYTHON_HOST_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#include "core/api/api.h"
#include "core/graph/graph.h"
#include "core/graph/higher.h"

struct GmCode;

/* Results of a trial call of a host function, which host_try makes. */
typedef struct {
  uint32_t n;
  GmMeta *metas;  /* owned */
  char container; /* kind of the result: 0: a tensor; 't', 'l': a tuple or list of tensors */
  uint64_t flows; /* operands, by bit, that gradients flow to */
  uint64_t many;  /* operands among these whose gradient is a sum of several */
  bool shares;    /* it is no node because of its results' memory, which is an argument's or another
                     result's, or has holes */
} GmHostTrial;

/* Layout of the object that functools.lru_cache returns: offsets of its fields. */
typedef struct {
  bool known;     /* true if this CPython's layout is known; false: no other field is set */
  size_t dict;    /* PyObject *: key -> result, or an entry if maxsize is not -1 */
  size_t result;  /* offset in an entry: PyObject * */
  size_t func;    /* PyObject * */
  size_t maxsize; /* Py_ssize_t: limit of results; -1: none; 0: no result is kept */
  size_t typed;   /* int: keys end with the types of the arguments */
  PyObject *(*mark) (PyObject *cache); /* the object before named arguments in a key; borrowed */
  /* Functions for effects: again (cache, names or None, *args) calls the cached function; missed
   * (cache) counts a miss; remember (cache, result, names or None, *args) stores a result as if the
   * function had returned it, without counting. */
  PyObject *again, *missed, *remember;
} GmCachedHost;

typedef struct {
  /* Type of tensors.  An instance of tensor_type or of a subclass has its GmTensor * at
   * tensor_offset bytes (NULL: not a tensor yet). */
  PyTypeObject *tensor_type;
  size_t tensor_offset;
  PyTypeObject
      *parameter_type;        /* gramme.nn.Parameter or NULL while the package is being imported */
  PyTypeObject *members_type; /* gramme.nn.Module, whose attributes members.c models; or NULL */
  /* Types of functions and methods that are API rows; api_get sets *inplace for the form
   * "name_". */
  PyTypeObject *api_type, *api_method_type; /* the second is a subtype of the first */
  const GmApi *(*api_get) (PyObject *o, bool *inplace);
  /* dtypes and devices are singletons, compared by identity. */
  PyTypeObject *dtype_type;
  GmDtype (*dtype_get) (PyObject *o);      /* GM_N_DTYPES for names of dtypes that no tensor has */
  PyObject *(*dtype_object) (GmDtype d);   /* borrowed */
  PyTypeObject *device_type;               /* or NULL */
  PyObject *(*device_object) (int device); /* borrowed, GmDeviceType; or NULL */
  PyTypeObject *size_type; /* the type of Tensor.shape: a tuple subclass, or tuple itself */
  /* Context managers and functions that set the grad mode; borrowed, NULL where there is none. */
  PyObject *no_grad, *enable_grad, *set_grad_enabled, *is_grad_enabled;
  PyObject *set_grad_mode;                            /* the C function that these four call */
  PyObject *set_autocast, *get_autocast;              /* the C functions of autocast */
  PyObject *refuse_draws, *fence_raise, *fence_lower; /* C functions of vmap */
  PyObject *settle_lazy; /* the C function that makes a lazy layer's parameters */
  PyObject *get_default_dtype;
  PyObject *function_apply, *context_type; /* the functions of autograd.Function; borrowed, or
                                              NULL */
  PyObject *higher_order; /* the C function behind gramme.cond, scan ...; borrowed, or NULL */
  PyObject *checkpoint;   /* the C function behind gramme.utils.checkpoint; borrowed, or NULL */
  /* Returns the type of a result with named fields, such as "max values indices", which is
   * called with a tuple of the values.  Borrowed; NULL if there is none. */
  PyObject *(*fields_type) (const char *fields);
  /* Returns true if t requires a gradient; refreshes a stale view before. */
  bool (*requires_grad) (const GmTensor *t);
  /* Returns true if a tensor may be written in place, with gradients on or off (`grad`); else
   * sets the error that eager would raise. */
  bool (*may_write) (GmTensor *t, bool grad, GError **error);
  GmTensor *(*grad) (GmTensor *t);        /* borrowed, NULL for none */
  PyObject *(*grad_object) (GmTensor *t); /* like `grad`, an object; borrowed until the call ends */
  PyObject *(*array_object) (
      PyObject *array); /* a new tensor over its memory, borrowed until the call ends; NULL: none */
  /* Returns a new tensor, i64 or f64 without dimensions, of a Python number or, for a type, of
   * its zero; borrowed until the call ends. */
  PyObject *(*number_object) (PyObject *number_or_type);
  PyObject *from_numpy, *as_tensor, *asarray;  /* C functions that return a tensor over an array's
                                                  memory */
  PyObject *(*type_dict) (PyTypeObject *type); /* borrowed; for types whose tp_dict is NULL */
  PyTypeObject *method_wrapper_type; /* the type of None.__repr__; CPython does not export it since
                                        3.13 */
  PyTypeObject *marked_type;         /* the type of functions with a mark, see control.h; or NULL */
  PyTypeObject *hook_handle_type;    /* the type of Tensor.register_hook's result */
  PyObject *(*graph_module) (const GmGraph *g); /* an object for comptime code; new reference */
  PyObject *compiled_type; /* the type of gramme.compile's result; its __wrapped__ is traced
                              through.  Or NULL */
  const struct GmCode *(*decode) (PyCodeObject *code, GError **error);
  bool (*is_whole) (PyCodeObject *code); /* true for code whose functions are called, never
                                            inlined */
  /* Returns the function as a host function of a graph.  values: its n arguments, NULL where
   * argument i is the node's operand which[i]; `names` (a tuple or NULL): names of the last
   * arguments. */
  GmHostFunction *(*host_function) (PyObject *fn, PyObject *const *values, const uint8_t *which,
                                    uint32_t n, PyObject *names);
  GmHostFunction *(*host_hook) (PyObject *fn);
  /* Calls the function once, on tensors with these metas, to learn the metas of its results.
   * Returns false if the function cannot be a node, with the reason in *why (owned by the
   * caller). */
  bool (*host_try) (GmHostFunction *f, const GmMeta *in, uint32_t n_in, bool grad, GmHostTrial *out,
                    char **why);
  PyObject *(*slot_owner_name) (PyTypeObject *type); /* how the AttributeError about an empty slot
                                                        names the type; new reference */
  const char *no_dict_text;  /* end of the AttributeError's text for an object without a __dict__ to
                                set the attribute in */
  size_t type_params_offset; /* offset of a function's type parameters, a tuple or NULL; 0: it has
                                none */
  /* Offset of a dict's version, a 64-bit number that no two states of any dict share. 0: the
   * interpreter has no versions. */
  size_t dict_version_offset;
  bool counts_dicts;
  /* Returns a counter that advances whenever the dict changes or dies; the counter lives for
   * ever. NULL: there is none for this dict. */
  const uint64_t *(*dict_counter) (PyObject *dict);
  size_t dict_kind_offset; /* see gm_dict_get */
  bool (*dict_find) (PyObject *dict, PyObject *key, Py_hash_t hash, PyObject **value);
  GmCachedHost cached;
  /* Functions gm_identity_epoch, gm_identity_told and gm_dicts_quiet of dict_version.h, used
   * only with dict versions.  identity_epoch is NULL if the interpreter cannot tell. */
  const uint64_t *identity_epoch;
  bool (*identity_told) (PyTypeObject *type);
  uint64_t (*dicts_quiet) (void);
} GmTraceHost;

/* Sets gm_host to a copy of *host: when the extension is loaded, and again when a field becomes
 * known. */
void gm_trace_set_host (const GmTraceHost *host);
extern GmTraceHost gm_host;

#define gm_host_tensor(o) (*(GmTensor *const *) ((const char *) (o) + gm_host.tensor_offset))

/* True if the string's characters can be read, as those of each string since 3.12; false,
 * without an exception, if there is no memory to lay them out. */
static inline bool
gm_str_ready (PyObject *s)
{
  if (PY_VERSION_HEX >= 0x030c0000 || PyUnicode_READY (s) == 0)
    return true;
  PyErr_Clear ();
  return false;
}

/* True if two strings are equal; their types are str or a subclass. */
static inline bool
gm_str_equal (PyObject *a, PyObject *b)
{
  if (a == b || !gm_str_ready (a) || !gm_str_ready (b))
    return a == b;
  Py_ssize_t n = PyUnicode_GET_LENGTH (a);
  return n == PyUnicode_GET_LENGTH (b) && PyUnicode_KIND (a) == PyUnicode_KIND (b)
         && memcmp (PyUnicode_DATA (a), PyUnicode_DATA (b), (size_t) n * PyUnicode_KIND (a)) == 0;
}

/* Returns a type's own dict, borrowed.  Builtin static types keep it elsewhere since 3.12. */
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

/* Reads the next element of a set; every version exports this function, but since 3.13 only an
 * internal header declares it. */
int _PySet_NextEntry (PyObject *set, Py_ssize_t *pos, PyObject **key, Py_hash_t *hash);

#endif
