/* SPDX-License-Identifier: Apache-2.0
 * gramme-graph.h -- the graph image: what a back end reads to know what it shall compute.
 *
 * An image is one block of flat, relocatable, little-endian bytes: a header, then tables. Positions
 * are byte offsets from the image's start, multiples of 8; indices count rows of a table.  A row is
 * read by stepping with its table's `stride`, which may be larger than the struct here, because
 * rows grow at the end: use the accessors below.  Unused bytes are zero, and equal graphs have
 * equal bytes, so that a hash of the image is a hash of the graph.  Names and source lines are not
 * in it.
 *
 * A node has one result.  Nodes are in an execution order which is a topological one.  No node
 * writes memory that another sees, but a MOVEMENT node's result may be taken as a view of its
 * input: no copy is asked for.  Every value has explicit strides, in elements.  They bind for
 * inputs, constants and outputs; for values in between they are what eager would use: a hint.
 *
 * Owner:   the host; valid and read-only during the call that passes it.  64-byte aligned, below 2
 * GiB. Checks:  the host has validated every image that a plugin sees, so accessors check nothing.
 * Needs:   C11 or C++17, and nothing else.
 */
#ifndef GRAMME_GRAPH_H
#define GRAMME_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define GRAMME_STATIC_ASSERT(cond, text) static_assert (cond, text)
extern "C" {
#else
#define GRAMME_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#endif

#define GRAMME_IMAGE_MAGIC 0x30474d47u /* "GMG0" */
#define GRAMME_IMAGE_MINOR 0u          /* the newest minor that this header describes */
#define GRAMME_NONE 0xffffffffu        /* "no row" */
#define GRAMME_IMAGE_MAX_BYTES 0x7fffffffu
#define GRAMME_MAX_DIMS 8u /* ndim of a value is never more */

/* -- Operators and attributes, from the table -------------------------------------------------- */

/* Its size is the largest code of an operator, plus 1. */
union gramme_op_codes {
#define GRAMME_OP_ROW(code, version, name, ...) char name##_[(code) + 1];
#define GRAMME_OP_ROW3(code, version, name) char name##_[(code) + 1];
#define POINTWISE GRAMME_OP_ROW
#define CAST GRAMME_OP_ROW3
#define REDUCE GRAMME_OP_ROW
#define ARGREDUCE GRAMME_OP_ROW
#define MOVEMENT GRAMME_OP_ROW
#define CONTRACT GRAMME_OP_ROW
#define CONVOLVE GRAMME_OP_ROW
#define INDEX GRAMME_OP_ROW
#define SCAN GRAMME_OP_ROW
#define RANDOM GRAMME_OP_ROW3
#define CREATE GRAMME_OP_ROW3
#define MUTATE GRAMME_OP_ROW3
#define CUSTOM GRAMME_OP_ROW3
#define HIGHER GRAMME_OP_ROW3
#include "gramme-ops.def"
#undef GRAMME_OP_ROW
#undef GRAMME_OP_ROW3
};

/* Operators: GRAMME_OP_add = 1 ...; each row of gramme-ops.def says what its op means.
 * GRAMME_OP_NEXT is larger than the code of each operator that this header knows. */
enum {
#define GRAMME_OP_ROW(code, version, name, ...) GRAMME_OP_##name = code,
#define GRAMME_OP_ROW3(code, version, name) GRAMME_OP_##name = code,
#define POINTWISE GRAMME_OP_ROW
#define CAST GRAMME_OP_ROW3
#define REDUCE GRAMME_OP_ROW
#define ARGREDUCE GRAMME_OP_ROW
#define MOVEMENT GRAMME_OP_ROW
#define CONTRACT GRAMME_OP_ROW
#define CONVOLVE GRAMME_OP_ROW
#define INDEX GRAMME_OP_ROW
#define SCAN GRAMME_OP_ROW
#define RANDOM GRAMME_OP_ROW3
#define CREATE GRAMME_OP_ROW3
#include "gramme-ops.def"
#undef GRAMME_OP_ROW
#undef GRAMME_OP_ROW3
  GRAMME_OP_NEXT = sizeof (union gramme_op_codes),
  GRAMME_OP_NONE = 0
};

/* Versions of the operators' rows that this header knows: GRAMME_OP_VERSION_add = 1 ... */
enum {
#define GRAMME_OP_ROW(code, version, name, ...) GRAMME_OP_VERSION_##name = version,
#define GRAMME_OP_ROW3(code, version, name) GRAMME_OP_VERSION_##name = version,
#define POINTWISE GRAMME_OP_ROW
#define CAST GRAMME_OP_ROW3
#define REDUCE GRAMME_OP_ROW
#define ARGREDUCE GRAMME_OP_ROW
#define MOVEMENT GRAMME_OP_ROW
#define CONTRACT GRAMME_OP_ROW
#define CONVOLVE GRAMME_OP_ROW
#define INDEX GRAMME_OP_ROW
#define SCAN GRAMME_OP_ROW
#define RANDOM GRAMME_OP_ROW3
#define CREATE GRAMME_OP_ROW3
#include "gramme-ops.def"
#undef GRAMME_OP_ROW
#undef GRAMME_OP_ROW3
  GRAMME_OP_VERSION_NONE = 0
};

/* Keys of attributes: GRAMME_ATTR_DIM = 1 ... */
enum {
#define ATTR(code, NAME, type, field) GRAMME_ATTR_##NAME = code,
#include "gramme-ops.def"
  GRAMME_ATTR_NONE = 0
};

/* Types of attributes: GRAMME_ATTR_TYPE_DIM = GRAMME_TYPE_I ..., from the type column. */
#define GRAMME_TYPE_I                                                                              \
  'I' /* one word: a signed number; in START and STOP a word < 0 is row -1 - word of `sizes` */
#define GRAMME_TYPE_B 'B' /* one word: 0 or 1 */
#define GRAMME_TYPE_L                                                                              \
  'L' /* `count` words: signed numbers; in SIZES a word < 0 is row -1 - word of `sizes` */
#define GRAMME_TYPE_W 'W' /* twelve words: signed numbers (WINDOW of gramme-ops.def) */
#define GRAMME_TYPE_D 'D' /* one word: DLPack code, bits << 8, lanes << 16 */
#define GRAMME_TYPE_S                                                                              \
  'S' /* two words: kind (GRAMME_SCALAR_...), then an int64_t or the bits of a double */
enum {
#define ATTR(code, NAME, type, field) GRAMME_ATTR_TYPE_##NAME = GRAMME_TYPE_##type,
#include "gramme-ops.def"
  GRAMME_ATTR_TYPE_NONE = 0
};
/* Kinds of a scalar attribute. SIZE: the word is a row of `sizes`, and the number is its value, an
 * integer. */
enum {
  GRAMME_SCALAR_BOOL = 0,
  GRAMME_SCALAR_INT = 1,
  GRAMME_SCALAR_FLOAT = 2,
  GRAMME_SCALAR_SIZE = 3
};

/* -- Rows -------------------------------------------------------------------------------------- */

typedef struct {
  uint32_t offset, count, stride,
      reserved; /* stride in bytes; rows are aligned to 8, those of `refs` to 4 */
} GrammeTable;

typedef struct {
  uint32_t magic, header_bytes, abi_minor, flags;
  uint64_t total_bytes;
  GrammeTable values;    /* GrammeValue */
  GrammeTable nodes;     /* GrammeNode */
  GrammeTable refs;      /* uint32_t: values */
  GrammeTable dims;      /* int64_t: sizes and strides */
  GrammeTable sizes;     /* GrammeSize; rows use earlier rows only */
  GrammeTable attrs;     /* GrammeAttr */
  GrammeTable payload;   /* uint64_t: the words of attributes */
  GrammeTable constants; /* GrammeConstant, by slot */
  GrammeTable inputs;    /* GrammeInput */
  GrammeTable outputs;   /* GrammeOutput */
  GrammeTable saved;     /* GrammeSaved; in forward images only */
  GrammeTable subgraphs; /* no rows in this minor */
} GrammeImage;

/* Flags of a value, GrammeValue.flags */
#define GRAMME_VALUE_CONSTANT                                                                      \
  1u /* the result of a `constant` node: its data is in the request's constants */
#define GRAMME_VALUE_SYMBOLIC_STRIDES                                                              \
  2u /* a stride < 0 is row -1 - stride of `sizes`; without the flag strides are numbers */
#define GRAMME_VALUE_FLAGS 3u

typedef struct {
  uint8_t dtype_code, dtype_bits; /* as DLPack has them; bool is code 6, 8 bits */
  uint16_t dtype_lanes;           /* 1 */
  uint32_t ndim;
  uint32_t first_dim;    /* in dims: ndim sizes; >= 0 is a number, < 0 is row -1 - d of `sizes` */
  uint32_t first_stride; /* in dims: ndim strides in elements */
  uint32_t producer;     /* the node whose result it is; GRAMME_NONE for an input */
  int32_t device_type;   /* DLPack's code: 1 CPU, 2 CUDA */
  uint32_t flags, reserved;
} GrammeValue;

typedef struct {
  uint32_t op, op_version;
  uint32_t first_in, n_in; /* in refs */
  uint32_t out;            /* the value it makes */
  uint32_t first_attr, n_attrs;
  uint32_t flags; /* none yet */
} GrammeNode;

typedef struct {
  uint32_t key, type;    /* GRAMME_ATTR_..., GRAMME_TYPE_...; a node's attributes are in ascending
                            order of key */
  uint32_t first, count; /* words of payload */
} GrammeAttr;

/* Kinds of a size, GrammeSize.kind. FLOORDIV and MOD round to minus infinity, as Python's // and %
 * do. */
enum {
  GRAMME_SIZE_CONST = 0,  /* value */
  GRAMME_SIZE_SYMBOL = 1, /* value: number of symbols before this one; names are not in an image */
  GRAMME_SIZE_ADD = 2,    /* rows a, b, and so on below */
  GRAMME_SIZE_MUL = 3,
  GRAMME_SIZE_FLOORDIV = 4,
  GRAMME_SIZE_MOD = 5,
  GRAMME_SIZE_MIN = 6,
  GRAMME_SIZE_MAX = 7
};
typedef struct {
  uint32_t kind, a, b, flags;
  int64_t value;
  int64_t min, max, multiple_of; /* bounds of its value, inclusive, and a divisor of it */
} GrammeSize;

typedef struct {
  uint32_t value, slot; /* slot: its place in the request's array of constants */
  uint64_t bytes;       /* of its elements, without gaps */
  uint8_t digest[32];   /* SHA-256 of the elements in row-major order, without gaps */
} GrammeConstant;

typedef struct {
  uint32_t value, flags; /* flags: none yet */
} GrammeInput;

/* Kinds of an output, GrammeOutput.kind */
enum { GRAMME_OUTPUT_USER = 0, GRAMME_OUTPUT_SAVED = 1, GRAMME_OUTPUT_GRAD = 2 };
typedef struct {
  uint32_t value, kind;
} GrammeOutput;

typedef struct {
  uint32_t output; /* row of `outputs`, of kind SAVED */
  uint32_t slot;   /* slot: its position among the saved values, the order in which the backward has
                    * them as inputs */
  uint32_t kind;   /* 0: a tensor */
  uint32_t reserved;
} GrammeSaved;

GRAMME_STATIC_ASSERT (sizeof (GrammeTable) == 16, "rows are frozen");
GRAMME_STATIC_ASSERT (sizeof (GrammeImage) == 24 + 12 * sizeof (GrammeTable), "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeImage) % 8 == 0, "tables begin at multiples of 8");
GRAMME_STATIC_ASSERT (sizeof (GrammeValue) == 32, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeNode) == 32, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeAttr) == 16, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeSize) == 48, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeConstant) == 48, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeInput) == 8, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeOutput) == 8, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeSaved) == 16, "no padding");

/* -- Access ------------------------------------------------------------------------------------ */

static inline const void *
gramme_image_row (const GrammeImage *img, const GrammeTable *t, uint32_t i)
{
  return (const uint8_t *) img + t->offset + (size_t) i * t->stride;
}

static inline const GrammeValue *
gramme_image_value (const GrammeImage *img, uint32_t i)
{
  return (const GrammeValue *) gramme_image_row (img, &img->values, i);
}

static inline const GrammeNode *
gramme_image_node (const GrammeImage *img, uint32_t i)
{
  return (const GrammeNode *) gramme_image_row (img, &img->nodes, i);
}

static inline uint32_t
gramme_image_ref (const GrammeImage *img, uint32_t i)
{
  return *(const uint32_t *) gramme_image_row (img, &img->refs, i);
}

static inline int64_t
gramme_image_dim (const GrammeImage *img, uint32_t i)
{
  return *(const int64_t *) gramme_image_row (img, &img->dims, i);
}

static inline const GrammeSize *
gramme_image_size (const GrammeImage *img, uint32_t i)
{
  return (const GrammeSize *) gramme_image_row (img, &img->sizes, i);
}

static inline const GrammeAttr *
gramme_image_attr (const GrammeImage *img, uint32_t i)
{
  return (const GrammeAttr *) gramme_image_row (img, &img->attrs, i);
}

static inline uint64_t
gramme_image_payload (const GrammeImage *img, uint32_t i)
{
  return *(const uint64_t *) gramme_image_row (img, &img->payload, i);
}

static inline const GrammeConstant *
gramme_image_constant (const GrammeImage *img, uint32_t i)
{
  return (const GrammeConstant *) gramme_image_row (img, &img->constants, i);
}

static inline const GrammeInput *
gramme_image_input (const GrammeImage *img, uint32_t i)
{
  return (const GrammeInput *) gramme_image_row (img, &img->inputs, i);
}

static inline const GrammeOutput *
gramme_image_output (const GrammeImage *img, uint32_t i)
{
  return (const GrammeOutput *) gramme_image_row (img, &img->outputs, i);
}

static inline const GrammeSaved *
gramme_image_saved (const GrammeImage *img, uint32_t i)
{
  return (const GrammeSaved *) gramme_image_row (img, &img->saved, i);
}

/* Returns 1 if an attribute is a number only in the run, else 0. All arguments may be NULL. */
static inline int32_t
gramme_attr_is_symbolic (const GrammeImage *img, const GrammeAttr *a)
{
  if (!a)
    return 0;
  if (a->type == GRAMME_TYPE_S)
    return gramme_image_payload (img, a->first) == GRAMME_SCALAR_SIZE;
  if (a->key != GRAMME_ATTR_SIZES && a->key != GRAMME_ATTR_START && a->key != GRAMME_ATTR_STOP)
    return 0;
  for (uint32_t i = 0; i < a->count; i++)
    if ((int64_t) gramme_image_payload (img, a->first + i) < 0)
      return 1;
  return 0;
}

/* Return the size and the stride of a value's dimension, as stored. */
static inline int64_t
gramme_value_size (const GrammeImage *img, const GrammeValue *v, uint32_t dim)
{
  return gramme_image_dim (img, v->first_dim + dim);
}

static inline int64_t
gramme_value_stride (const GrammeImage *img, const GrammeValue *v, uint32_t dim)
{
  return gramme_image_dim (img, v->first_stride + dim);
}

/* Returns the i-th input of a node, as an index of values. */
static inline uint32_t
gramme_node_in (const GrammeImage *img, const GrammeNode *n, uint32_t i)
{
  return gramme_image_ref (img, n->first_in + i);
}

/* Returns a node's attribute, or NULL if it has none of this key. */
static inline const GrammeAttr *
gramme_node_attr (const GrammeImage *img, const GrammeNode *n, uint32_t key)
{
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const GrammeAttr *a = gramme_image_attr (img, n->first_attr + i);
    if (a->key == key)
      return a;
  }
  return NULL;
}

/* Returns the i-th word of an attribute as a signed number: types I, B, L, and the value of an S
 * that is no float. */
static inline int64_t
gramme_attr_int (const GrammeImage *img, const GrammeAttr *a, uint32_t i)
{
  return (int64_t) gramme_image_payload (img, a->first + i);
}

/* Returns a node's attribute of type I or B, or `absent` if it has none of this key. */
static inline int64_t
gramme_node_int (const GrammeImage *img, const GrammeNode *n, uint32_t key, int64_t absent)
{
  const GrammeAttr *a = gramme_node_attr (img, n, key);
  return a ? gramme_attr_int (img, a, 0) : absent;
}

/* Return the kind of an attribute of type S, and its number if the kind is FLOAT. */
static inline uint32_t
gramme_attr_scalar_kind (const GrammeImage *img, const GrammeAttr *a)
{
  return (uint32_t) gramme_image_payload (img, a->first);
}

static inline double
gramme_attr_scalar_double (const GrammeImage *img, const GrammeAttr *a)
{
  union {
    uint64_t u;
    double d;
  } bits;
  bits.u = gramme_image_payload (img, a->first + 1);
  return bits.d;
}

#ifdef __cplusplus
}
#endif
#endif
