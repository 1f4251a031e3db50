/* SPDX-License-Identifier: Apache-2.0
 * ops.c -- the op table as data: names, families, attributes, and the requirements of each family.
 *
 * Everything here is expanded from gramme-ops.def, or follows from an op's family. Only the
 * attributes of MOVEMENT, INDEX and CREATE rows are words in comments of the table: gm_op_attr_mask
 * has them as data.
 */
#include "core/ops/builder.h"
#include "core/ops/ops.h"

#include <string.h>

/* clang-format off */
const GmOpInfo gm_ops[GM_N_OPS] = {
#define ROW(code, v, op_name, text, fam, type, n) \
  [code] = { .name = #op_name, .value = text, .family = GM_FAMILY_##fam, .types = GM_TYPES_##type, .version = v, .arity = n },
#define POINTWISE(code, version, name, arity, types, value, ...) ROW (code, version, name, #value, POINTWISE, types, arity)
#define CAST(code, version, name)                              ROW (code, version, name, NULL, CAST, ANY, 1)
#define REDUCE(code, version, name, types, init, combine, ...) ROW (code, version, name, #combine, REDUCE, types, 1)
#define ARGREDUCE(code, version, name, ...)                    ROW (code, version, name, NULL, ARGREDUCE, ARITH, 1)
#define MOVEMENT(code, version, name, ...)                     ROW (code, version, name, NULL, MOVEMENT, ANY, 1)
#define CONTRACT(code, version, name, ...)                     ROW (code, version, name, NULL, CONTRACT, ARITH, 2)
#define CONVOLVE(code, version, name, ...)                     ROW (code, version, name, NULL, CONVOLVE, FLOAT, 2)
#define INDEX(code, version, name, arity, ...)                 ROW (code, version, name, NULL, INDEX, ANY, arity)
#define SCAN(code, version, name, ...)                         ROW (code, version, name, NULL, SCAN, ARITH, 1)
#define RANDOM(code, version, name)                            ROW (code, version, name, NULL, RANDOM, ANY, 1)
#define CREATE(code, version, name)                            ROW (code, version, name, NULL, CREATE, ANY, 0)
#define MUTATE(code, version, name)                            ROW (code, version, name, NULL, MUTATE, ANY, 2)
#define CUSTOM(code, version, name)                            ROW (code, version, name, NULL, CUSTOM, ANY, -1)
#define HIGHER(code, version, name)                            ROW (code, version, name, NULL, HIGHER, ANY, -1)
#include "plugin-api/gramme-ops.def"
#undef ROW
};

/* Has no purpose but to fail to compile if two rows share a code, in which case one row would
 * silently overwrite the other in the tables above. */
static inline void G_GNUC_UNUSED
codes_are_unique (GmOp op)
{
  switch (op) {
  case GM_OP_NONE:
  case GM_N_OPS:
#define ROW(code, ...) case code:
#define POINTWISE ROW
#define CAST ROW
#define REDUCE ROW
#define ARGREDUCE ROW
#define MOVEMENT ROW
#define CONTRACT ROW
#define CONVOLVE ROW
#define INDEX ROW
#define SCAN ROW
#define RANDOM ROW
#define CREATE ROW
#define MUTATE ROW
#define CUSTOM ROW
#define HIGHER ROW
#include "plugin-api/gramme-ops.def"
#undef ROW
    break;
  }
}

/* Lowers the letters of attribute names at compile time: rows are in upper case, graphs print in
 * lower case. */
#define LOWER(s, i) ((i) < sizeof (s) - 1 ? (s)[(i) < sizeof (s) ? (i) : 0] | 0x20 : 0)
static const char attr_names[GM_N_ATTRS][12] = {
#define ATTR(code, NAME, kind, field) \
  [code] = { LOWER (#NAME, 0), LOWER (#NAME, 1), LOWER (#NAME, 2), LOWER (#NAME, 3), LOWER (#NAME, 4),  LOWER (#NAME, 5), \
             LOWER (#NAME, 6), LOWER (#NAME, 7), LOWER (#NAME, 8), LOWER (#NAME, 9), LOWER (#NAME, 10), 0 },
#include "plugin-api/gramme-ops.def"
};
#define ATTR(code, NAME, kind, field) G_STATIC_ASSERT (sizeof (#NAME) <= 12 && sizeof (#kind) == 2);
#include "plugin-api/gramme-ops.def"

const GmAttrInfo gm_attrs[GM_N_ATTRS] = {
#define ATTR(code, NAME, kind, field) [code] = { .name = attr_names[code], .type = #kind[0], .offset = offsetof (GmAttrs, field) },
#include "plugin-api/gramme-ops.def"
};
G_STATIC_ASSERT (GM_N_ATTRS <= 32); /* they are bits of GmAttrs.mask */
/* clang-format on */

/* -- Names ------------------------------------------------------------------------------------- */

static GHashTable *
names_get (void)
{
  static GHashTable *names;
  if (g_once_init_enter (&names)) {
    GHashTable *h = g_hash_table_new (g_str_hash, g_str_equal);
    for (int op = 1; op < GM_N_OPS; op++)
      if (gm_ops[op].name)
        g_hash_table_insert (h, (char *) gm_ops[op].name, GINT_TO_POINTER (op));
    g_once_init_leave (&names, h);
  }
  return names;
}

GmOp
gm_op_find (const char *name, size_t len)
{
  char key[64];
  if (len >= sizeof key)
    return GM_OP_NONE;
  memcpy (key, name, len);
  key[len] = 0;
  return (GmOp) GPOINTER_TO_INT (g_hash_table_lookup (names_get (), key));
}

/* -- Properties that follow from a row --------------------------------------------------------- */

#define BIT(name) (1u << GM_ATTR_##name)

uint32_t
gm_op_attr_mask (GmOp op)
{
  switch ((GmFamily) gm_ops[op].family) {
  case GM_FAMILY_CAST:
    return BIT (DTYPE);
  case GM_FAMILY_REDUCE:
    return BIT (DIMS) | BIT (KEEPDIM);
  case GM_FAMILY_ARGREDUCE:
    return BIT (KEEPDIM);
  case GM_FAMILY_SCAN:
    return BIT (DIM) | BIT (REVERSE);
  case GM_FAMILY_CONVOLVE:
    return BIT (SIZES) | BIT (WINDOW);
  case GM_FAMILY_RANDOM:
    return BIT (SIZES) | BIT (DTYPE) | BIT (OFFSET);
  case GM_FAMILY_NONE:
  case GM_FAMILY_POINTWISE:
  case GM_FAMILY_CONTRACT:
  case GM_FAMILY_MUTATE:
    return 0;
  case GM_FAMILY_CUSTOM:
  case GM_FAMILY_HIGHER:
    return BIT (DIM) | BIT (OFFSET);
  case GM_FAMILY_MOVEMENT:
  case GM_FAMILY_INDEX:
  case GM_FAMILY_CREATE:
    break;
  }
  switch (op) {
  case GM_OP_permute:
    return BIT (DIMS);
  case GM_OP_expand:
  case GM_OP_view:
    return BIT (SIZES);
  case GM_OP_slice:
  case GM_OP_slice_scatter:
    return BIT (DIM) | BIT (START) | BIT (STOP) | BIT (STEP);
  case GM_OP_detach:
  case GM_OP_data:
    return 0;
  case GM_OP_bitcast:
    return BIT (DTYPE);
  case GM_OP_diagonal:
    return BIT (DIMS) | BIT (START);
  case GM_OP_unfold:
    return BIT (DIM) | BIT (SIZES) | BIT (STEP);
  case GM_OP_gather:
  case GM_OP_scatter_add:
  case GM_OP_index_select:
  case GM_OP_index_add:
  case GM_OP_cat:
    return BIT (DIM);
  case GM_OP_argsort:
    return BIT (DIM) | BIT (DESCENDING);
  case GM_OP_require:
    return BIT (OFFSET);
  case GM_OP_full:
    return BIT (SIZES) | BIT (DTYPE) | BIT (VALUE);
  case GM_OP_arange:
    return BIT (SIZES) | BIT (DTYPE) | BIT (VALUE) | BIT (VALUE2);
  case GM_OP_constant:
    return BIT (OFFSET);
  default:
    g_assert_not_reached ();
  }
}

uint32_t
gm_op_attr_optional (GmOp op)
{
  if (gm_ops[op].family == GM_FAMILY_ARGREDUCE)
    return BIT (DIM);
  if (gm_ops[op].family == GM_FAMILY_RANDOM || op == GM_OP_full || op == GM_OP_arange)
    return BIT (DEVICE);
  return op == GM_OP_constant ? BIT (SIZES) | BIT (DTYPE) : 0;
}

GmAttrs
gm_attrs_full (const GmMeta *like, GmScalar value)
{
  GmAttrs a = { .mask = BIT (SIZES) | BIT (DTYPE) | BIT (VALUE),
                .dtype = like->dtype,
                .n_list = like->ndim,
                .value = value };
  if (like->ndim)
    memcpy (a.list, like->sizes, (size_t) like->ndim * sizeof *a.list);
  if (like->device == GM_DEVICE_CUDA) {
    a.mask |= BIT (DEVICE);
    a.device = like->device;
  }
  return a;
}

bool
gm_op_accepts (GmOp op, GmDtype dtype)
{
  GmCategory c = gm_dtypes[dtype].category;
  bool computes = gm_dtype_computes (dtype);
  if (!gm_dtypes[dtype].live)
    return false;
  switch ((GmTypes) gm_ops[op].types) {
  case GM_TYPES_ANY:
    return computes || !(op == GM_OP_scatter_add || op == GM_OP_index_add || op == GM_OP_argsort);
  case GM_TYPES_SELECT:
    return true;
  case GM_TYPES_COMPARE:
    return computes;
  case GM_TYPES_ARITH:
    return (c != GM_CATEGORY_BOOL && computes) || op == GM_OP_copy;
  case GM_TYPES_FLOAT:
    return c == GM_CATEGORY_FLOAT && computes;
  case GM_TYPES_LOGICAL:
    return c == GM_CATEGORY_BOOL;
  case GM_TYPES_BITWISE:
    return c != GM_CATEGORY_FLOAT;
  }
  g_assert_not_reached ();
}

int
gm_op_index_input (GmOp op)
{
  switch (op) {
  case GM_OP_gather:
  case GM_OP_scatter_add:
  case GM_OP_index_select:
  case GM_OP_index_add:
    return 1;
  default:
    return -1;
  }
}

bool
gm_op_may_fail (GmOp op)
{
  static const bool fails[GM_N_OPS] = {
#define FAILS(name) [GM_OP_##name] = true,
#include "plugin-api/gramme-ops.def"
  };
  return fails[op];
}

/* Differentiable inputs of each op, as bits: set if the input's gradient column is not NONE. Inputs
 * past the third share bit 2's answer, only for rows of any arity, whose inputs are all alike. */
static const uint8_t slopes[GM_N_OPS] = {
#define SLOPE(text, bit)                                                                           \
  ((text)[0] == 'N' && (text)[1] == 'O' && (text)[2] == 'N' && (text)[3] == 'E' ? 0 : (bit))
#define POINTWISE(code, version, name, arity, types, value, da, db, dc)                            \
  [code] = SLOPE (#da, 1) | SLOPE (#db, 2) | SLOPE (#dc, 4),
#define WHOLE(code, grad) [code] = SLOPE (#grad, 7),
#define CAST(code, version, name) [code] = 1,
#define REDUCE(code, version, name, types, init, combine, grad) WHOLE (code, grad)
#define MOVEMENT(code, version, name, grad) WHOLE (code, grad)
#define CONTRACT(code, version, name, grad) WHOLE (code, grad)
#define CONVOLVE(code, version, name, grad)                                                        \
  [code] = (code) == GM_OP_window_pick || (code) == GM_OP_window_spread ? 2 : 3,
#define INDEX(code, version, name, arity, grad) WHOLE (code, grad)
#define SCAN(code, version, name, grad) WHOLE (code, grad)
/* Bit 0, dst, is set only for copy_: set_ replaces dst altogether. */
#define MUTATE(code, version, name) [code] = (code) == GM_OP_set_ ? 2 : 3,
#define CUSTOM(code, version, name) [code] = 6, /* the arguments alone, not the result */
#define HIGHER(code, version, name) [code] = 7,
#include "plugin-api/gramme-ops.def"
#undef WHOLE
#undef SLOPE
};

bool
gm_op_is_differentiable (GmOp op, int input)
{
  return (slopes[op] >> MIN (input, 2) & 1) && input != gm_op_index_input (op);
}
