/* SPDX-License-Identifier: Apache-2.0
 * ops.h -- the op table's C side: names, attributes, shape rules, eager execution.
 *
 * infer.c computes the meta of an op's result from metas alone; the eager kernels, the recorder,
 * the parser and the verifier all call it, so a fake and a real tensor cannot disagree. run_op.c
 * executes one op on real tensors, without autograd (core/autograd records, and is what other rooms
 * call).
 */
#ifndef GM_OPS_OPS_H
#define GM_OPS_OPS_H

#include "core/tensor/tensor.h"
#include "core/tiles/op_codes.h"

typedef enum {
  GM_OP_NONE = 0,
#define GM_OP_ROW(code, version, name, ...) GM_OP_##name = code,
#define POINTWISE GM_OP_ROW
#define CAST GM_OP_ROW
#define REDUCE GM_OP_ROW
#define ARGREDUCE GM_OP_ROW
#define MOVEMENT GM_OP_ROW
#define CONTRACT GM_OP_ROW
#define CONVOLVE GM_OP_ROW
#define INDEX GM_OP_ROW
#define SCAN GM_OP_ROW
#define RANDOM GM_OP_ROW
#define CREATE GM_OP_ROW
#define MUTATE GM_OP_ROW
#define CUSTOM GM_OP_ROW
#define HIGHER GM_OP_ROW
#include "plugin-api/gramme-ops.def"
#undef GM_OP_ROW
  GM_N_OPS = GM_OP_CODES,
} GmOp;

typedef enum {
  GM_FAMILY_NONE,
  GM_FAMILY_POINTWISE,
  GM_FAMILY_CAST,
  GM_FAMILY_REDUCE,
  GM_FAMILY_ARGREDUCE,
  GM_FAMILY_MOVEMENT,
  GM_FAMILY_CONTRACT,
  GM_FAMILY_INDEX,
  GM_FAMILY_SCAN,
  GM_FAMILY_RANDOM,
  GM_FAMILY_CREATE,
  GM_FAMILY_MUTATE,
  GM_FAMILY_CUSTOM,
  GM_FAMILY_HIGHER,
  GM_FAMILY_CONVOLVE,
} GmFamily;

typedef enum {
  GM_TYPES_ANY,
  GM_TYPES_ARITH,
  GM_TYPES_FLOAT,
  GM_TYPES_COMPARE,
  GM_TYPES_LOGICAL,
  GM_TYPES_BITWISE,
  GM_TYPES_SELECT,
} GmTypes;

typedef struct {
  const char *name;  /* NULL: no such op */
  const char *value; /* POINTWISE: its text; REDUCE: combine's text */
  uint8_t family, types, version;
  int8_t arity; /* -1: any number */
} GmOpInfo;
extern const GmOpInfo gm_ops[GM_N_OPS];

/* Numbers of any operator's attributes; zeroed: none. */
typedef struct {
  uint64_t words[(GM_N_OPS + 63) / 64];
} GmOpSet;

static inline bool
gm_op_set_has (const GmOpSet *set, int op)
{
  return set->words[op / 64] >> op % 64 & 1;
}

static inline void
gm_op_set_add (GmOpSet *set, int op)
{
  set->words[op / 64] |= (uint64_t) 1 << op % 64;
}

static inline bool
gm_op_set_is_empty (const GmOpSet *set)
{
  uint64_t any = 0;
  for (size_t i = 0; i < sizeof set->words / sizeof *set->words; i++)
    any |= set->words[i];
  return any == 0;
}

/* True for operators that run graphs or a function of the host's: cond and its kin
 * (core/graph/higher.h). */
static inline bool
gm_op_is_higher (GmOp op)
{
  return gm_ops[op].family == GM_FAMILY_HIGHER;
}
/* True if running the op may do more than compute results: a node with effects is never moved past
 * another one, merged, dropped or run again. */
static inline bool
gm_op_has_effects (GmOp op)
{
  return op == GM_OP_host_call;
}

/* True if running a node may fail for some values of its operands: the rows FAILS. Bodies and
 * functions of the host are handled by gm_graph_may_fail. */
bool gm_op_may_fail (GmOp op);

/* True if autograd does not follow the view to its base. */
static inline bool
gm_op_detaches (GmOp op)
{
  return op == GM_OP_detach || op == GM_OP_bitcast || op == GM_OP_data;
}

/* Conditions on data that `require` may check. */
typedef enum {
#define CONDITION(code, NAME, error, message) GM_CONDITION_##NAME = code,
#include "plugin-api/gramme-ops.def"
  GM_N_CONDITIONS,
} GmCondition;

GmOp gm_op_find (const char *name, size_t len); /* GM_OP_NONE if there is none */

/* Attribute keys, expanded from ATTR rows: GM_ATTR_DIM = 1 ... */
typedef enum {
#define ATTR(code, NAME, type, field) GM_ATTR_##NAME = code,
#include "plugin-api/gramme-ops.def"
  GM_N_ATTRS,
} GmAttrKey;

/* Attributes of one op. Fields not named by `mask` are zero, so that two records compare by memcmp.
 */
typedef struct {
  uint32_t mask; /* bit k: key k is set */
  uint8_t keepdim, reverse, descending, dtype, n_list;
  int64_t dim, start, stop, step, offset, device;
  int64_t list[GM_MAX_DIMS];
  int64_t window[12]; /* window.h */
  GmScalar value, value2;
} GmAttrs;
typedef struct {
  const char *name;
  char type;
  uint16_t offset;
} GmAttrInfo; /* key: lower-case name; offsetof in GmAttrs */
extern const GmAttrInfo gm_attrs[GM_N_ATTRS];
/* Returns the bit mask of the keys that a node of `op` must have. */
uint32_t gm_op_attr_mask (GmOp op);
/* Returns the bit mask of the keys that a node may have besides: ARGREDUCE's DIM (absent: all
 * elements, in row-major order), SIZES and DTYPE of `constant`, from which gm_op_infer makes a
 * row-major meta, and DEVICE of an op that makes a tensor on another device than the CPU. */
uint32_t gm_op_attr_optional (GmOp op);
/* Returns the attributes of a `full` of this dtype, shape and device. */
GmAttrs gm_attrs_full (const GmMeta *like, GmScalar value);
/* True if operands of `dtype` fit the row's types column (SELECT: b and c). */
bool gm_op_accepts (GmOp op, GmDtype dtype);
/* Returns the number of the input that holds positions (i64) and not values, or -1. */
int gm_op_index_input (GmOp op);

/* Computes the meta of an op's result (every op has one result). Strides: POINTWISE and CAST take
 * the strides of the first input that has the result's shape and is dense, else row-major; MOVEMENT
 * gives the view's strides; all others are row-major. requires_grad of *out is the OR of the
 * differentiable inputs', 0 for results that are not floating. Errors: GM_ERROR_RUNTIME,
 * GM_ERROR_INDEX, GM_ERROR_TYPE with both shapes or dtypes in the message. */
bool gm_op_infer (GmOp op, const GmMeta *const *in, int n_in, const GmAttrs *attrs, GmMeta *out,
                  GError **error);

/* Runs one op on CPU tensors, without autograd: requires_grad of the result is 0.  MOVEMENT returns
 * a view.  MUTATE writes in[0], advances its version and returns a new reference to it.  Result: a
 * new reference, NULL on error.  attrs may be NULL when the op has none. */
GmTensor *gm_op_run (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GError **error);
/* Runs one op whose result is on another device than the CPU, into `out`, which overlaps no input.
 * Set once, by core/plugin. */
extern bool (*gm_op_run_on_device) (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs,
                                    GmTensor *out, GError **error);
/* Runs one op into an existing tensor whose meta equals the inferred one in shape and dtype
 * (strides may differ). Not for MOVEMENT and MUTATE. `out` may be one of the inputs of a POINTWISE
 * op if it is exactly that tensor; where it overlaps them otherwise, a temporary is made. Refused:
 * read-only storage, and an `out` whose own elements share memory (expanded). Does not advance
 * versions. */
bool gm_op_run_into (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GmTensor *out,
                     GError **error);
/* Runs every op but MUTATE into `out`, as gm_op_run_into does; the result of a MOVEMENT op is
 * copied. For hosts of foreign memory. */
bool gm_op_run_copy_into (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs,
                          GmTensor *out, GError **error);
/* Returns the number of elements between the first element of the input and that of the result
 * `view` of a MOVEMENT op. */
int64_t gm_movement_offset (GmOp op, const GmMeta *x, const GmAttrs *attrs, const GmMeta *view);
/* True if two elements of a tensor with this meta share memory; decided by the examples of sizes
 * that are expressions. */
bool gm_meta_overlaps_itself (const GmMeta *m);
/* True if `m` differs from `is`, the result of an elementwise op, only in the layout of its
 * elements: a graph's output may be part of a tensor. */
bool gm_op_may_be_strided (GmOp op, const GmMeta *is, const GmMeta *m);

/* -- The generator (random.c) ------------------------------------------------------------------ */

/* The generator of the process. A RANDOM op over n elements uses (n + 3) / 4 draws; gm_random_take
 * returns the offset of the first draw. */
#define GM_DEFAULT_SEED                                                                            \
  1871 /* fixed, so that a program that never seeds is repeatable: the year of Gramme's machine */
void gm_random_seed (uint64_t seed);
uint64_t gm_random_current_seed (void);
uint64_t gm_random_take (uint64_t draws);
void gm_random_get_state (int64_t state[2]); /* {seed, next draw} */
void gm_random_set_state (const int64_t state[2]);
/* True while functions that draw random numbers fail on this thread. A builder that executes copies
 * this state when it is made. */
bool gm_draws_refused (void);
bool gm_draws_refuse (bool refuse); /* returns the old one */

#endif
