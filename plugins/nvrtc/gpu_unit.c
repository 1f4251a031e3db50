/* SPDX-License-Identifier: Apache-2.0
 * gpu_unit.c -- see gpu_unit.h: names of types, functions of operators, the frame of a kernel.
 */
#include "plugins/nvrtc/attention.h"
#include "plugins/nvrtc/count.h"
#include "plugins/nvrtc/product.h"

#include <stdlib.h>

/* -- Types ------------------------------------------------------------------------------------- */

typedef struct {
  uint32_t dtype;
  const char *elem, *work;
} Type;

static const Type types[] = {
  { GRAMME_DTYPE_BOOL, "b1", "b1" },     { GRAMME_DTYPE_U8, "u8", "u8" },
  { GRAMME_DTYPE_I8, "i8", "i8" },       { GRAMME_DTYPE_I16, "i16", "i16" },
  { GRAMME_DTYPE_I32, "i32", "i32" },    { GRAMME_DTYPE_I64, "i64", "i64" },
  { GRAMME_DTYPE_F16, "f16", "f32" },    { GRAMME_DTYPE_BF16, "bf16", "f32" },
  { GRAMME_DTYPE_F32, "f32", "f32" },    { GRAMME_DTYPE_F64, "f64", "f64" },
  { GRAMME_DTYPE_F8E4M3, "e4m3", "u8" }, /* only moved and cast: stored as bits */
  { GRAMME_DTYPE_F8E5M2, "e5m2", "u8" },
};

static const Type *
type_of (uint32_t dtype)
{
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].dtype == dtype)
      return &types[i];
  return NULL;
}

const char *
nv_elem (uint32_t dtype)
{
  const Type *t = type_of (dtype);
  return t ? t->elem : "unknown";
}

const char *
nv_work (uint32_t dtype)
{
  const Type *t = type_of (dtype);
  return t ? t->work : "unknown";
}

static int
work_number (const char *work)
{
  static const char *const works[NV_TYPES] = {
    "b1", "u8", "i8", "i16", "i32", "i64", "f32", "f64"
  };
  for (int i = 0; i < NV_TYPES; i++)
    if (strcmp (works[i], work) == 0)
      return i;
  return 0;
}

static bool
is_half (uint32_t dtype)
{
  return dtype == GRAMME_DTYPE_F16 || dtype == GRAMME_DTYPE_BF16;
}

static bool
is_eight (uint32_t dtype)
{
  return dtype == GRAMME_DTYPE_F8E4M3 || dtype == GRAMME_DTYPE_F8E5M2;
}

static bool
is_float (const char *work)
{
  return work[0] == 'f';
}

void
nv_load (char *out, size_t room, uint32_t dtype, const char *memory)
{
  if (is_half (dtype))
    snprintf (out, room, "widen_%s (%s)", nv_elem (dtype), memory);
  else
    snprintf (out, room, "%s", memory);
}

void
nv_store (char *out, size_t room, uint32_t dtype, const char *worked)
{
  if (is_half (dtype))
    snprintf (out, room, "narrow_%s (%s)", nv_elem (dtype), worked);
  else
    snprintf (out, room, "%s", worked);
}

/* Prints the cast of a worked value; like the CPU, through f32 or, for small integers, i32. */
void
nv_cast (char *out, size_t room, uint32_t from, uint32_t to, const char *worked)
{
  char wide[640], value[900];
  const char *work = nv_work (from), *target = nv_work (to);
  if (from == to) {
    snprintf (out, room, "%s", worked);
    return;
  }
  if (is_eight (from)) {
    snprintf (wide, sizeof wide, "widen_%s (%s)", nv_elem (from), worked);
    work = "f32";
  } else {
    snprintf (wide, sizeof wide, "%s", worked);
  }
  if (is_eight (to) || is_half (to)) {
    snprintf (value, sizeof value, "(E_f32) (%s)", wide);
    snprintf (out, room, "%s_%s (%s)", is_half (to) ? "rounded" : "narrow", nv_elem (to), value);
  } else if (to == GRAMME_DTYPE_BOOL) {
    snprintf (out, room, "(E_b1) (%s != 0)", wide);
  } else if (is_float (work) && !is_float (target)) {
    bool large = to == GRAMME_DTYPE_I64;
    snprintf (out, room, "(E_%s) %s_to_%s (%s)", target, work, large ? "i64" : "i32", wide);
  } else {
    snprintf (out, room, "(E_%s) (%s)", target, wide);
  }
}

void
nv_literal (const NvUnit *u, char *out, size_t room, uint32_t value)
{
  const CgValue *v = &u->p->values[value];
  uint64_t bits = v->bits;
  uint32_t dtype = v->dtype;
  if (is_half (dtype)) {
    /* The float that the literal equals, so that no instruction is needed at run time. */
    const GrammeTiles *tiles = u->p->tiles;
    uint32_t wide = 0;
    GrammeTileFn cast =
        tiles->find (tiles->ctx, GRAMME_TILE_CAST, 0, GRAMME_DTYPE_F32, dtype, NULL);
    ((GrammeTileCast) cast) (&wide, &bits, 1);
    bits = wide;
    dtype = GRAMME_DTYPE_F32;
  }
  if (dtype == GRAMME_DTYPE_F32)
    snprintf (out, room, "GM_F32_BITS (0x%08xu)", (unsigned) bits);
  else if (dtype == GRAMME_DTYPE_F64)
    snprintf (out, room, "GM_F64_BITS (0x%016llxull)", (unsigned long long) bits);
  else
    snprintf (out, room, "((E_%s) 0x%llxull)", nv_work (dtype), (unsigned long long) bits);
}

/* -- Operators --------------------------------------------------------------------------------- */

enum { ARITH, FLOAT, COMPARE, LOGICAL, BITWISE, SELECT };
typedef struct {
  const char *name, *value, *init; /* init: for REDUCE rows */
  uint8_t n, form;
} Row;

static const Row rows[NV_OPS] = {
#define POINTWISE(code, version, name, n, types, value, ...)                                       \
  [code] = { #name, #value, NULL, n, types },
#define REDUCE(code, version, name, types, init, combine, ...)                                     \
  [code] = { #name, #combine, #init, 2, types },
#include "plugin-api/gramme-ops.def"
};

void
nv_need_value (NvUnit *u, uint32_t op, const char *w)
{
  static const char names[] = "abc";
  const Row *r = &rows[op];
  uint8_t *used = &u->used[0][op][work_number (w)];
  CgText *t = &u->functions;
  if (*used)
    return;
  *used = 1;
  bool select = r->form == SELECT, compare = r->form == COMPARE;
  /* Both roles share a text. */
  put (t, "#ifndef GM_op_%s_%s\n#define GM_op_%s_%s\n", r->name, w, r->name, w);
  put (t, "#define GM_T %s\nGM_FN E_%s op_%s_%s (", w, compare ? "b1" : w, r->name, w);
  for (int i = 0; i < r->n; i++)
    put (t, "%sE_%s %c_", i ? ", " : "", select && i == 0 ? "b1" : w, names[i]);
  put (t, ")\n{\n");
  for (int i = 0; i < r->n; i++)
    put (t, "  %c_%s %c = (%c_%s) %c_;\n", compare || select ? 'E' : 'A',
         select && i == 0 ? "b1" : w, names[i], compare || select ? 'E' : 'A',
         select && i == 0 ? "b1" : w, names[i]);
  /* A row may ignore an operand. */
  for (int i = 0; i < r->n; i++)
    put (t, "  (void) %c;\n", names[i]);
  put (t, "  return (E_%s) (%s);\n}\n#undef GM_T\n#endif\n", compare ? "b1" : w, r->value);
}

void
nv_need_fold (NvUnit *u, uint32_t op, const char *w)
{
  const Row *r = &rows[op];
  uint8_t *used = &u->used[1][op][work_number (w)];
  CgText *t = &u->functions;
  if (*used)
    return;
  *used = 1;
  put (t, "#ifndef GM_fold_%s_%s\n#define GM_fold_%s_%s\n", r->name, w, r->name, w);
  put (t, "#define GM_T %s\nGM_FN E_%s fold_%s_%s (E_%s a_, E_%s b_)\n{\n", w, w, r->name, w, w, w);
  put (t, "  A_%s a = (A_%s) a_, b = (A_%s) b_;\n  return (E_%s) (%s);\n}\n", w, w, w, w, r->value);
  put (t, "GM_FN E_%s init_%s_%s (void) { return (E_%s) (%s); }\n#undef GM_T\n#endif\n", w, r->name,
       w, w, r->init);
}

/* True for operators that only move elements, so that a result in half precision needs no
 * rounding. */
static bool
only_moves (uint32_t op)
{
  return op == GRAMME_OP_copy || op == GRAMME_OP_where || op == GRAMME_OP_overwrite;
}

bool
nv_is_costly (uint32_t op)
{
  static const char *const words[] = { "EXP", "TANH", "LOG", "ERF", "SIN", "COS", "TAN", "POW" };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (op < NV_OPS && rows[op].value && strstr (rows[op].value, words[i]))
      return true;
  return false;
}

bool
nv_rounds (const NvUnit *u, const GrammeNode *n)
{
  uint32_t last = u->p->values[gramme_node_in (u->p->image, n, n->n_in - 1)].dtype,
           to = u->p->values[n->out].dtype;
  return is_half (to) && (n->op == GRAMME_OP_cast ? last != to : !only_moves (n->op));
}

/* True if the prelude has a form of this op for halves whose result is rounded to a half at once,
 * half_<name>_<elem>. */
static bool
has_half_form (const NvUnit *u, const GrammeNode *n, uint32_t dtype)
{
  for (uint32_t i = 0; i < n->n_in; i++)
    if (u->p->values[gramme_node_in (u->p->image, n, i)].dtype != dtype)
      return false;
  switch (n->op) {
  case GRAMME_OP_div:
  case GRAMME_OP_reciprocal:
  case GRAMME_OP_tanh:
  case GRAMME_OP_sigmoid:
    return is_half (dtype);
  case GRAMME_OP_exp:
    return dtype == GRAMME_DTYPE_BF16;
  default:
    return false;
  }
}

bool
nv_is_quick (const NvUnit *u, const GrammeNode *n)
{
  return n->op == GRAMME_OP_sigmoid && u->p->values[n->out].dtype != GRAMME_DTYPE_F64
         && !has_half_form (u, n, u->p->values[n->out].dtype);
}

void
nv_apply (NvUnit *u, char *out, size_t room, const GrammeNode *n, char operands[3][256])
{
  const CgValue *v = &u->p->values[n->out];
  uint32_t last = u->p->values[gramme_node_in (u->p->image, n, n->n_in - 1)].dtype;
  if (n->op == GRAMME_OP_cast) {
    nv_cast (out, room, last, v->dtype, operands[0]);
    return;
  }
  char call[1024];
  bool half = has_half_form (u, n, v->dtype), quick = u->quick && nv_is_quick (u, n);
  int len = snprintf (call, sizeof call, "%s_%s_%s (%s",
                      half      ? "half"
                      : quick   ? "quick"
                      : u->form ? u->form
                                : "op",
                      rows[n->op].name, half ? nv_elem (v->dtype) : nv_work (last),
                      quick ? "&odd, " : "");
  for (uint32_t i = 0; i < n->n_in; i++)
    len += snprintf (call + len, sizeof call - (size_t) len, "%s%s", i ? ", " : "", operands[i]);
  if (!half && !u->form)
    nv_need_value (u, n->op, nv_work (last));
  if (is_half (v->dtype) && !only_moves (n->op))
    snprintf (out, room, "rounded_%s (%s))", nv_elem (v->dtype), call);
  else
    snprintf (out, room, "%s)", call);
}

/* -- Kernels ----------------------------------------------------------------------------------- */

int32_t
nv_fail (NvUnit *u, int32_t code, int32_t node, const char *what)
{
  if (u->code == GRAMME_OK)
    u->code = gramme_fail (u->status, code, node, "%s", what);
  return code;
}

int64_t
nv_extent (NvUnit *u, const CgValue *v)
{
  CgSizes *s = u->p->sizes;
  int64_t last = 0;
  for (uint32_t d = 0; d < v->ndim; d++) {
    bool number = !codegen_is_symbolic (v->sizes[d]);
    if (number && v->sizes[d] <= 0)
      return 0;
    last = codegen_size_add (
        s, last, codegen_size_mul (s, number ? v->sizes[d] - 1 : v->sizes[d], v->strides[d]));
  }
  return codegen_size_add (s, last, 1);
}

void
nv_reach (NvUnit *u, int64_t size)
{
  u->k.most = codegen_size_max (u->p->sizes, u->k.most, size);
}

const char *
nv_size (NvUnit *u, int64_t size, char text[CG_SIZE_TEXT_BYTES])
{
  NvKernel *k = &u->k;
  if (!codegen_is_symbolic (size)) {
    snprintf (text, CG_SIZE_TEXT_BYTES, "%lldu", (long long) size);
    return text;
  }
  uint32_t i = 0;
  while (i < k->n_sizes && k->sizes[i] != size)
    i++;
  if (i == NV_MAX_SIZES)
    nv_fail (u, GRAMME_UNSUPPORTED, k->node, "a kernel would need too many sizes");
  else if (i == k->n_sizes)
    k->sizes[k->n_sizes++] = size;
  snprintf (text, CG_SIZE_TEXT_BYTES, "z%u", (unsigned) (size - CG_SIZE_ROW_0));
  return text;
}

NvArg
nv_scratch (NvUnit *u, int64_t bytes)
{
  NvArg at = { .memory = CG_MEMORY_TEMP, .dynamic = codegen_is_symbolic (bytes) };
  bytes = codegen_size_align (u->p->sizes, bytes, 256);
  if (at.dynamic) {
    at.offset = u->dynamic_bytes;
    u->dynamic_bytes = codegen_size_add (u->p->sizes, u->dynamic_bytes, bytes);
  } else {
    at.offset = (int64_t) u->ws_bytes;
    u->ws_bytes += (uint64_t) bytes;
  }
  return at;
}

CgText *
nv_begin (NvUnit *u, const char *label, uint32_t block, int32_t node)
{
  NvKernel *k = &u->k;
  k->block = block;
  k->n_args = 0;
  k->node = node;
  k->n_sizes = 0;
  k->beside = 0;
  k->most = 0;
  k->text.len = 0;
  if (k->text.text)
    k->text.text[0] = 0;
  snprintf (k->name, sizeof k->name, "%s%u_%.48s", u->prefix, u->n_names++, label);
  return &k->text;
}

static uint32_t
append_arg (NvUnit *u, NvArg arg, const char *elem, bool writes)
{
  NvKernel *k = &u->k;
  if (k->n_args == sizeof k->args / sizeof *k->args) {
    nv_fail (u, GRAMME_UNSUPPORTED, k->node, "a kernel would have too many arguments");
    return 0;
  }
  k->args[k->n_args].arg = arg;
  k->args[k->n_args].elem = elem;
  k->args[k->n_args].writes = writes;
  return k->n_args++;
}

static uint32_t
add_arg (NvUnit *u, NvArg arg, const char *elem, bool writes)
{
  NvKernel *k = &u->k;
  for (uint32_t i = 0; i < k->n_args; i++)
    if (k->args[i].arg.memory == arg.memory && k->args[i].arg.index == arg.index
        && k->args[i].arg.dynamic == arg.dynamic && k->args[i].arg.offset == arg.offset
        && k->args[i].writes == writes && strcmp (k->args[i].elem, elem) == 0)
      return i;
  return append_arg (u, arg, elem, writes);
}

static NvArg
place_of (NvUnit *u, uint32_t value)
{
  const CgValue *v = &u->p->values[value], *root = &u->p->values[v->root];
  NvArg arg = { .memory = root->memory,
                .index = root->memory == CG_MEMORY_TEMP ? 0 : root->index,
                .dynamic = root->memory == CG_MEMORY_TEMP && root->dynamic,
                .offset = v->view_bytes };
  if (root->memory == CG_MEMORY_TEMP)
    arg.offset = codegen_size_add (u->p->sizes, arg.offset, root->offset);
  return arg;
}

uint32_t
nv_arg (NvUnit *u, uint32_t value, bool writes)
{
  return add_arg (u, place_of (u, value), nv_elem (u->p->values[value].dtype), writes);
}

void
nv_slot (NvUnit *u, uint32_t value, bool writes)
{
  append_arg (u, place_of (u, value), nv_elem (u->p->values[value].dtype), writes);
}

uint32_t
nv_arg_output (NvUnit *u, uint32_t output, uint32_t dtype)
{
  return add_arg (u, (NvArg){ .memory = CG_MEMORY_OUTPUT, .index = output }, nv_elem (dtype), true);
}

uint32_t
nv_arg_scratch (NvUnit *u, NvArg place, const char *elem, bool writes)
{
  return add_arg (u, place, elem, writes);
}

uint32_t
nv_arg_error (NvUnit *u)
{
  u->checks_index = true;
  return add_arg (u, (NvArg){ .memory = NV_MEMORY_ERROR }, "i64", true);
}

static bool
grow (void *list, uint32_t n, uint32_t *room, size_t each)
{
  void **at = list;
  if (n < *room)
    return true;
  uint32_t more = *room * 2 + 16;
  void *bigger = realloc (*at, more * each);
  if (!bigger)
    return false;
  *at = bigger;
  *room = more;
  return true;
}

/* Prints the kernel's text with indices of type `index`; `suffix` is added to its name. */
static void
put_kernel (const NvKernel *k, CgText *t, const char *suffix, const char *index)
{
  put (t, "\nGM_KERNEL (%s%s, %u, %u, %u", k->name, suffix, k->n_args ? k->n_args : 1,
       k->n_sizes ? k->n_sizes : 1, k->block);
  if (k->beside)
    put (t, ", %u", k->beside);
  put (t, ")\n{\n  typedef %s gm_index;\n", index);
  for (uint32_t i = 0; i < k->n_args; i++) {
    const char *access = k->args[i].writes ? "" : "const ";
    put (t, "  %sE_%s *GM_RESTRICT p%u = (%sE_%s *) GM_ARG (%u);\n", access, k->args[i].elem, i,
         access, k->args[i].elem, i);
  }
  for (uint32_t i = 0; i < k->n_sizes; i++)
    put (t, "  const gm_index z%u = (gm_index) GM_SIZE (%u, %u);\n",
         (unsigned) (k->sizes[i] - CG_SIZE_ROW_0), k->n_args ? k->n_args : 1, i);
  put (t, "%s}\n", k->text.text ? k->text.text : "");
}

/* Adds the launch of the kernel that was printed last.  False: no memory. */
static bool
add_launch (NvUnit *u, int64_t grid, NvProduct *product)
{
  NvKernel *k = &u->k;
  if (!grow (&u->launches, u->n_launches, &u->launch_room, sizeof *u->launches))
    return false;
  NvLaunch *l = &u->launches[u->n_launches++];
  *l = (NvLaunch){ .product = product,
                   .grid = grid,
                   .most = k->most,
                   .block = k->block,
                   .first_arg = u->n_args,
                   .n_args = k->n_args,
                   .first_size = u->n_sizes,
                   .n_sizes = k->n_sizes,
                   .node = k->node };
  memcpy (l->name, k->name, sizeof l->name);
  for (uint32_t i = 0; i < k->n_args; i++) {
    if (!grow (&u->args, u->n_args, &u->arg_room, sizeof *u->args))
      return false;
    u->args[u->n_args++] = k->args[i].arg;
  }
  for (uint32_t i = 0; i < k->n_sizes; i++) {
    if (!grow (&u->sizes, u->n_sizes, &u->size_room, sizeof *u->sizes))
      return false;
    u->sizes[u->n_sizes++] = k->sizes[i];
  }
  return true;
}

void
nv_end (NvUnit *u, int64_t grid)
{
  NvKernel *k = &u->k;
  if (!codegen_is_symbolic (grid) && grid > INT32_MAX) {
    nv_fail (u, GRAMME_UNSUPPORTED, k->node, "a kernel would need more than 2^31 blocks");
    return;
  }
  if (!add_launch (u, grid, NULL)) {
    u->oom = true;
    return;
  }
  bool symbolic = codegen_is_symbolic (k->most);
  put_kernel (k, &u->kernels, "", symbolic || k->most < INT32_MAX ? "gm_u32" : "gm_u64");
  if (symbolic)
    put_kernel (k, &u->kernels, "_64", "gm_u64");
}

void
nv_end_product (NvUnit *u, NvProduct *product)
{
  u->k.n_sizes = 0; /* the product has its own */
  if (!add_launch (u, 1, product)) {
    u->oom = true;
    if (u->n_launches == 0 || u->launches[u->n_launches - 1].product != product)
      nv_product_free (product);
  }
}

/* -- Questions about a program ----------------------------------------------------------------- */

const GrammeNode *
nv_made_by (const CgProgram *p, uint32_t value, uint32_t op)
{
  const CgValue *v = &p->values[value];
  if (v->node == CG_NONE || v->view_of != CG_NONE)
    return NULL;
  const GrammeNode *n = gramme_image_node (p->image, v->node);
  return n->op == op ? n : NULL;
}

uint32_t
nv_uses (const CgProgram *p, uint32_t value)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->image->nodes.count; i++)
    for (uint32_t k = 0; k < gramme_image_node (p->image, i)->n_in; k++)
      n += gramme_node_in (p->image, gramme_image_node (p->image, i), k) == value;
  for (uint32_t i = 0; i < p->image->outputs.count; i++)
    n += gramme_image_output (p->image, i)->value == value;
  return n;
}

int64_t
nv_broadcast_stride (const CgValue *v, uint32_t ndim, uint32_t d)
{
  int own = (int) d - (int) (ndim - v->ndim);
  return own < 0 || v->sizes[own] == 1 ? 0 : v->strides[own];
}

/* -- The unit ---------------------------------------------------------------------------------- */

uint32_t
nv_unit_reason (const GrammeImage *image, const GrammeNode *n)
{
  GrammeOpFacts op = gramme_op_facts (n->op);
  if (op.family == GRAMME_FAMILY_NONE)
    return GRAMME_REASON_OP;
  if (n->op_version > op.version || gramme_node_is_newer (image, n))
    return GRAMME_REASON_OP_VERSION;
  for (uint32_t i = 0; i <= n->n_in; i++) {
    const GrammeValue *v =
        gramme_image_value (image, i < n->n_in ? gramme_node_in (image, n, i) : n->out);
    if (!type_of (GRAMME_DTYPE_OF (v)))
      return GRAMME_REASON_DTYPE;
    if (v->flags & ~GRAMME_VALUE_FLAGS)
      return GRAMME_REASON_LAYOUT; /* the attribute's meaning is newer than the header */
    if (v->device_type != 1 && v->device_type != 2)
      return GRAMME_REASON_DEVICE;
    if (op.family == GRAMME_FAMILY_CONVOLVE && gramme_value_numel (image, v) < 0)
      return GRAMME_REASON_DYNAMIC;
  }
  return GRAMME_REASON_NONE;
}

int32_t
nv_found_look (NvFound *found, CgProgram *p, GrammeStatus *status)
{
  int32_t code = nv_attention_find (p, &found->attentions, &found->n_attentions, status);
  if (code == GRAMME_OK && found->library)
    code = nv_epilogue_find (p, &found->epilogues, &found->n_epilogues, status);
  return code;
}

void
nv_found_clear (NvFound *found)
{
  nv_attention_free (found->attentions, found->n_attentions);
  free (found->epilogues);
  *found = (NvFound){ 0 };
}

int32_t
nv_unit_print (NvUnit *u, const CgProgram *p, const NvFound *found, const char *prefix,
               GrammeStatus *status)
{
  *u = (NvUnit){ .p = p, .prefix = prefix, .found = found, .status = status };
  u->ws_bytes = (p->temp_bytes + 255) / 256 * 256;
  u->dynamic_bytes = codegen_size_align (p->sizes, p->dynamic_bytes, 256);
  if (!nv_count_find (u))
    return nv_fail (u, GRAMME_NO_MEMORY, -1, "no memory to read a program");
  for (uint32_t s = 0; s < p->n_steps && u->code == GRAMME_OK; s++) {
    const NvAttention *attention = nv_attention_at (u, &p->steps[s]);
    if (attention)
      nv_print_attention (u, attention);
    const NvEpilogue *epilogue = nv_epilogue_at (u, &p->steps[s]);
    if (epilogue)
      nv_print_product (u, epilogue->product, epilogue);
    if (attention || epilogue || nv_attention_hides (u, &p->steps[s])
        || nv_epilogue_hides (u, &p->steps[s]))
      continue;
    switch ((CgKind) p->steps[s].kind) {
    case CG_LOOP:
      (p->steps[s].split >= 0 ? nv_print_rows : nv_print_points) (u, s);
      break;
    case CG_COLUMNS:
      nv_print_columns (u, s);
      break;
    case CG_CALL:
      nv_print_call (u, s);
      break;
    case CG_COPY:
      nv_print_copy (u, s);
      break;
    }
  }
  if (u->code == GRAMME_OK && (u->oom || u->k.text.oom || u->functions.oom || u->kernels.oom))
    nv_fail (u, GRAMME_NO_MEMORY, -1, "no memory for the text of kernels");
  return u->code;
}

void
nv_unit_clear (NvUnit *u)
{
  free (u->k.text.text);
  free (u->functions.text);
  free (u->kernels.text);
  for (uint32_t i = 0; i < u->n_launches && u->launches; i++)
    if (u->launches[i].product)
      nv_product_free (u->launches[i].product);
  free (u->launches);
  free (u->args);
  free (u->sizes);
  free (u->counted);
  *u = (NvUnit){ 0 };
}
