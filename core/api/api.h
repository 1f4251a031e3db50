/* SPDX-License-Identifier: Apache-2.0
 * api.h -- torch's functions and methods, as programs over a builder.
 *
 * Python's eager calls and the recorder call the same rows: arguments become GmArg values,
 * gm_api_call binds them to the row's signature and runs the row's function on a builder.  No
 * Python here.  Each POINTWISE row of the op table is a function and method by itself; api.def
 * holds what is more than one op or has another signature.
 */
#ifndef GM_API_API_H
#define GM_API_API_H

#include "core/ops/builder.h"

typedef enum {
  GM_ARG_NONE,
  GM_ARG_BOOL,
  GM_ARG_INT,
  GM_ARG_FLOAT,
  GM_ARG_STR,
  GM_ARG_DTYPE,
  GM_ARG_TENSOR,
  GM_ARG_LIST,
  GM_ARG_SLICE,
  GM_ARG_ELLIPSIS,
  GM_ARG_ELEMENT, /* a float that only the run knows, the element of v: in a recorded call of a row
                     with FLOATS */
  GM_ARG_ABSENT,  /* not given and without default */
} GmArgKind;

typedef struct GmArg {
  uint8_t kind;
  bool is_tuple;      /* LIST: the Python object was, or shall become, a tuple */
  uint16_t n;         /* LIST: length; SLICE: 3 (start, stop, step, each NONE if it is absent) */
  const char *fields; /* LIST as a result: NULL, or "max values indices": a named tuple */
  union {
    int64_t i;     /* BOOL, INT */
    double d;      /* FLOAT */
    const char *s; /* STR, UTF-8 */
    GmDtype dtype;
    GmVal v;             /* TENSOR; ELEMENT: f64 without dimensions */
    struct GmArg *items; /* LIST, SLICE */
  };
} GmArg;

#define GM_API_MAX_ARGS 16

typedef enum {
  GM_API_FUNCTION = 1,
  GM_API_METHOD = 2,
  GM_API_INPLACE = 4,
  GM_API_NN = 8,
  GM_API_RESHAPES = 16,
  GM_API_SIZES = 32,
  GM_API_NUMBERS = 64,
  GM_API_VIEWS = 128,
  GM_API_RESIZES = 256,
  GM_API_OUTSIDE_RUNTIME = 512,
  GM_API_FLOATS = 1024,
  GM_API_FLOATING = 2048
} GmApiWhere;
/* Flags of a row: the names under which Python sees it, and the arguments that its function
 * accepts. FUNCTION: gramme.name. METHOD: Tensor.name (self is the first argument). INPLACE: also
 * Tensor.name_, whose result is written into self. NN: gramme.nn.functional.name. RESHAPES:
 * Tensor.name_ does not write: self becomes the result. SIZES: sizes of its tensors, and ints in
 * its lists, may be expressions. NUMBERS: its ints may be expressions, too. VIEWS: a result that
 * would be an argument is a view of that argument: another tensor, of the same shape. RESIZES:
 * Tensor.name_ that changes nothing is no write; else it is a write, as in torch. FLOATS: its
 * arguments may be of kind ELEMENT. FLOATING: its first argument is a tensor of a floating dtype;
 * other dtypes give NotImplementedError, a RuntimeError. */

typedef enum {
  GM_AUTOCAST_NONE,
  GM_AUTOCAST_LOWER,
  GM_AUTOCAST_F32,
  GM_AUTOCAST_WIDEST
} GmAutocast; /* autocast.def */

typedef struct GmApi {
  const char *name;
  const char *signature; /* "input, dim=None, keepdim=False, *, dtype=None"; "*dims" takes the rest,
                            or one list */
  const char *doc;       /* shapes, dtypes, errors */
  uint32_t where;
  GmOp op; /* POINTWISE rows: the op; else GM_OP_NONE */
  GmArg (*run) (const struct GmApi *api, GmBuilder *b,
                GmArg *args); /* args in signature order, defaults filled in */
  /* parsed signature, filled at start */
  int n_args, n_positional, star, generator, device,
      format; /* star: index of "*rest" or -1; generator, device, format (memory_format): indices of
                 the arguments of that name, or -1 */
  const char *arg_names[GM_API_MAX_ARGS];
  const char *aliases[GM_API_MAX_ARGS]; /* other names of an argument, "|split_size|split_sizes|",
                                           or NULL */
  uint32_t unread; /* bit i: argument i exists only for compatibility with torch; api.c checks its
                      value */
  GmArg defaults[GM_API_MAX_ARGS];
  uint8_t autocast; /* GmAutocast, filled at start */
} GmApi;

/* Returns all rows, sorted by name; *n: their number. Owner: the process. Thread: any. */
const GmApi *gm_api_rows (size_t *n);
const GmApi *gm_api_find (const char *name);

/* Binds the arguments to the row's signature, `positional` first and then keywords `names[i] =
 * keywords[i]`, and runs the row's function on b. inplace: the "name_" form. On failure b->error is
 * set and the result is GM_ARG_NONE. Lists in the result belong to the caller, who frees them with
 * gm_arg_clear; the arguments stay the caller's. */
GmArg gm_api_call (const GmApi *api, bool inplace, GmBuilder *b, const GmArg *positional,
                   int n_positional, const char *const *names, const GmArg *keywords,
                   int n_keywords);

/* Returns the autocast mode of this thread, a dtype or none for each device; 0: none for any
 * device. A builder that executes copies the mode when it is made. */
uint8_t gm_autocast_mode (void);
uint8_t gm_autocast_set (uint8_t mode); /* Sets the mode of this thread; returns the old one */
/* gm_autocast_dtype returns the dtype that a mode has for a device, GM_N_DTYPES: none.
 * gm_autocast_with returns the mode with this dtype instead. */
GmDtype gm_autocast_dtype (uint8_t mode, int device);
uint8_t gm_autocast_with (uint8_t mode, int device, GmDtype dtype);
void gm_arg_clear (GmArg *a); /* frees the items of a *result* list, recursively */

#endif
