/* SPDX-License-Identifier: Apache-2.0
 * point_v.c -- the members of a LOOP step at a point, as C with explicit vectors.
 *
 * The arithmetic is inlined from the host's source (GrammeSource): value_<row>_<type>, casts, loads
 * and stores.  So each element undergoes the same operations as in a tile, rounding of 16-bit
 * floats included, and the bits are the tile's.
 *
 * Arithmetic on 8- and 16-bit integers, and other rare operations, is left to tiles.
 */
#include "plugins/codegen/print_v.h"

/* -- Types ------------------------------------------------------------------------------------- */

static const VecType types[] = {
  { GRAMME_DTYPE_F32, VECTORS, "f32", "f32", 4, false },
  { GRAMME_DTYPE_F64, VECTORS, "f64", "f64", 8, false },
  { GRAMME_DTYPE_F16, VECTORS, "f16", "f32", 4, true },
  { GRAMME_DTYPE_BF16, VECTORS, "bf16", "f32", 4, true },
  { GRAMME_DTYPE_I32, VECTORS, "i32", "i32", 4, false },
  { GRAMME_DTYPE_I64, VECTORS, "i64", "i64", 8, false },
  { GRAMME_DTYPE_BOOL, MASK, "b1", NULL, 0, false },
  { GRAMME_DTYPE_U8, STORED, "u8", NULL, 0, false },
  { GRAMME_DTYPE_I8, STORED, "i8", NULL, 0, false },
  { GRAMME_DTYPE_I16, STORED, "i16", NULL, 0, false },
  { GRAMME_DTYPE_F8E4M3, STORED, "e4m3", NULL, 0, false },
  { GRAMME_DTYPE_F8E5M2, STORED, "e5m2", NULL, 0, false },
};

const VecType *
vec_type_of (const CgProgram *p, uint32_t value)
{
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].dtype == p->values[value].dtype)
      return &types[i];
  return NULL;
}

/* Classes of element types for which the op table's rows have forms. */
enum { NO_TYPES, ARITH, FLOAT, COMPARE, LOGICAL, BITWISE, SELECT };
static const uint8_t row_types[GRAMME_OP_NEXT] = {
#define POINTWISE(code, version, name, n, types, ...) [code] = types,
#include <gramme-ops.def>
};

/* Texts of the rows on masks, by op. */
static const char *const mask_rows[GRAMME_OP_NEXT] = {
  [GRAMME_OP_copy] = "a",
  [GRAMME_OP_maximum] = "a | b",
  [GRAMME_OP_minimum] = "a & b",
  [GRAMME_OP_logical_and] = "a & b",
  [GRAMME_OP_logical_or] = "a | b",
  [GRAMME_OP_logical_xor] = "a ^ b",
  [GRAMME_OP_logical_not] = "~a",
  [GRAMME_OP_bitwise_and] = "a & b",
  [GRAMME_OP_bitwise_or] = "a | b",
  [GRAMME_OP_bitwise_xor] = "a ^ b",
  [GRAMME_OP_eq] = "~(a ^ b)",
  [GRAMME_OP_ne] = "a ^ b",
  [GRAMME_OP_lt] = "~a & b",
  [GRAMME_OP_le] = "~a | b",
  [GRAMME_OP_gt] = "a & ~b",
  [GRAMME_OP_ge] = "a | ~b",
  [GRAMME_OP_where] = "(a & b) | (~a & c)",
};

int
vec_mask_fold_is_any (uint32_t op)
{
  return op == GRAMME_OP_any || op == GRAMME_OP_amax   ? 1
         : op == GRAMME_OP_all || op == GRAMME_OP_amin ? 0
                                                       : -1;
}

bool
vec_computes_much (uint32_t op)
{
  return row_types[op] == FLOAT;
}

bool
vec_supports (const Loop *l, uint32_t m)
{
  const CgProgram *p = l->p;
  const GrammeNode *n = loop_member (l, m);
  uint32_t last = gramme_node_in (p->image, n, n->n_in - 1);
  const VecType *from = vec_type_of (p, last), *to = vec_type_of (p, n->out);
  uint32_t family = gramme_op_facts (n->op).family;
  if (!from || !to)
    return false;
  if (family == GRAMME_FAMILY_CAST) {
    bool bytes = from->dtype == GRAMME_DTYPE_U8 || from->dtype == GRAMME_DTYPE_I8;
    return from->dtype != to->dtype
           && !(bytes && (to->dtype == GRAMME_DTYPE_U8 || to->dtype == GRAMME_DTYPE_I8));
  }
  if (n->op == GRAMME_OP_prod && from->class == VECTORS && from->dtype != GRAMME_DTYPE_I32
      && from->dtype != GRAMME_DTYPE_I64)
    return false; /* a block may have to be multiplied again when its elements are gone */
  if (from->class == MASK)
    return family == GRAMME_FAMILY_REDUCE ? vec_mask_fold_is_any (n->op) >= 0
                                          : mask_rows[n->op] != NULL;
  return from->class == VECTORS;
}

/* -- Memory ------------------------------------------------------------------------------------ */

bool
vec_has_masks (const VecType *type)
{
  return type->class == VECTORS && GRAMME_DTYPE_BYTES (type->dtype) >= 4;
}

/* Defines vectors <base>_q from 16 elements at `from`, or from the first w if `masked`. */
static void
load_vectors (VecPrinter *v, const VecType *type, const char *base, const char *from, bool masked)
{
  int elem = (int) GRAMME_DTYPE_BYTES (type->dtype), n = vec_lanes (v, type->work_bytes);
  for (int q = 0; q < vec_parts (v, type->work_bytes); q++)
    if (masked)
      put (v->t, "      A_%s %s_%d = load_part_%s (%s + %d, part_of (w, %d, %d), (A_%s){ 0 });\n",
           type->work, base, q, type->mem, from, q * n * elem, q * n, n, type->work);
    else
      put (v->t, "      A_%s %s_%d = load_%s (%s + %d);\n", type->work, base, q, type->mem, from,
           q * n * elem);
}

/* Makes `r` vectors whose elements all are the element at `from`, in text t. */
static void
splat_element (VecPrinter *v, CgText *t, const VecType *type, const char *base, const char *from)
{
  int elem = (int) GRAMME_DTYPE_BYTES (type->dtype);
  if (type->class == STORED) {
    put (t, "      char %s[%d]; for (int e = 0; e < %d; e++) ((E_%s *) %s)[e] = *(E_%s *) %s;\n",
         base, VEC_STEP * elem, VEC_STEP, type->mem, base, type->mem, from);
    return;
  }
  if (type->class == MASK) {
    put (t, "      char %s[%d]; for (int e = 0; e < %d; e++) %s[e] = *%s;\n", base, VEC_STEP,
         VEC_STEP, base, from);
    return;
  }
  for (int q = 0; q < vec_parts (v, type->work_bytes); q++)
    if (strcmp (type->mem, type->work) == 0)
      put (t, "      A_%s %s_%d = splat_%s (*(E_%s *) (%s));\n", type->work, base, q, type->work,
           type->mem, from);
    else
      put (t, "      A_%s %s_%d = splat_%s (load_part_%s (%s, 1, (A_%s){ 0 })[0]);\n", type->work,
           base, q, type->work, type->mem, from, type->work);
}

/* -- Operands ---------------------------------------------------------------------------------- */

/* An operand: vectors <base>_0 ..., a literal mask, or memory at <base>. */
typedef struct {
  const VecType *type;
  char base[64];
  bool memory;      /* STORED values, and masks that are not loaded yet */
  int width, truth; /* for masks: bytes of a lane; 0: a literal, `truth` */
} VecRef;

/* Returns the suffix of the source's functions for a mask's type. */
static const char *
mask_type (int width)
{
  return width == 8 ? "f64" : "f32";
}

static VecRef
literal_ref (VecPrinter *v, uint32_t value)
{
  const CgValue *literal = &v->l->p->values[value];
  VecRef r = { .type = vec_type_of (v->l->p, value) };
  unsigned long long bits = literal->bits;
  if (r.type->class == MASK) {
    r.truth = bits != 0;
    return r;
  }
  snprintf (r.base, sizeof r.base, "k%u", v->fresh++);
  if (r.type->class == STORED) {
    r.memory = true;
    put (v->row, "      E_%s %s_[%d] = {", r.type->mem, r.base, VEC_STEP);
    for (int e = 0; e < VEC_STEP; e++)
      put (v->row, " (E_%s) %llu,", r.type->mem, bits);
    put (v->row, " };\n      char *%s = (char *) %s_;\n", r.base, r.base);
    return r;
  }
  if (r.type->rounds) {
    uint64_t wide = 0;
    GrammeTileFn cast = v->l->p->tiles->find (v->l->p->tiles->ctx, GRAMME_TILE_CAST, 0,
                                              GRAMME_DTYPE_F32, r.type->dtype, NULL);
    ((GrammeTileCast) cast) (&wide, &literal->bits, 1);
    bits = wide;
  }
  for (int q = 0; q < vec_parts (v, r.type->work_bytes); q++)
    put (v->row, "      A_%s %s_%d = (A_%s) ((vu%d){ 0 } + 0x%llx%s);\n", r.type->work, r.base, q,
         r.type->work, r.type->work_bytes * 8, bits, r.type->work_bytes == 8 ? "ul" : "u");
  return r;
}

/* Makes `r` the 16 elements at memory `from`, which are loaded now unless *loaded; `masked`: fewer,
 * in a tail. */
static void
read_memory (VecPrinter *v, VecRef *r, const char *from, bool masked, bool *loaded)
{
  if (r->type->class == VECTORS) {
    if (!*loaded)
      load_vectors (v, r->type, r->base, from, masked);
    *loaded = v->in_body;
    return;
  }
  r->memory = true;
  snprintf (r->base, sizeof r->base, "%s", from);
}

static VecRef
access_ref (VecPrinter *v, uint32_t k)
{
  const Access *a = &v->l->access[k];
  VecRef r = { .type = vec_type_of (v->l->p, a->value) };
  int elem = (int) GRAMME_DTYPE_BYTES (r.type->dtype);
  char from[64];
  if (a->as_row || (a->inner == 0 && v->l->n != 1)) {
    /* Row accesses are used between phases, the others in bodies; both are the row's. */
    snprintf (r.base, sizeof r.base, "s%u", k);
    r.memory = r.type->class != VECTORS;
    if (!v->splatted[k]) {
      snprintf (from, sizeof from, "p%u", k);
      splat_element (v, v->row, r.type, r.base, from);
      v->splatted[k] = true;
    }
    return r;
  }
  snprintf (r.base, sizeof r.base, "l%u", k);
  bool direct = a->inner == 1 || v->l->n == 1;
  if (direct) {
    snprintf (from, sizeof from, "(q%u + i * %d)", k, elem);
  } else {
    if (!v->loaded[k])
      put (v->t,
           "      char g%u[%d] __attribute__ ((aligned (64)));\n"
           "      for (long e = 0; e < w; e++) ((E_%s *) g%u)[e] = ((E_%s *) p%u)[(i + e) * %s];\n",
           k, VEC_STEP * elem, r.type->mem, k, r.type->mem, k, SIZE (v->l->p, a->inner));
    snprintf (from, sizeof from, "g%u", k);
  }
  bool gathered = v->loaded[k];
  read_memory (v, &r, from, direct && v->in_tail && vec_has_masks (r.type), &gathered);
  v->loaded[k] = true;
  return r;
}

static void put_pointwise (VecPrinter *v, uint32_t m, const GrammeNode *n);

/* Returns a value of an earlier phase, which is in memory, or is computed again. */
static VecRef
crossed_ref (VecPrinter *v, uint32_t m)
{
  uint32_t value = loop_member (v->l, m)->out;
  if (loop_remakes (v->l, m)) {
    VecRef made = { .type = vec_type_of (v->l->p, value) };
    snprintf (made.base, sizeof made.base, "v%u", m);
    if (!v->crossed[m])
      put_pointwise (v, m, loop_member (v->l, m));
    v->crossed[m] = true;
    return made;
  }
  bool lent = v->l->lenders[m] >= 0;
  if (v->l->buffers[m] == LOOP_NO_BUFFER && !lent)
    return access_ref (v, (uint32_t) loop_access (v->l, value, false, true));
  VecRef r = { .type = vec_type_of (v->l->p, value) };
  char from[64];
  snprintf (r.base, sizeof r.base, "c%u", m);
  snprintf (from, sizeof from, "(b%u + i * %d)", m, (int) GRAMME_DTYPE_BYTES (r.type->dtype));
  read_memory (v, &r, from, lent && v->in_tail, &v->crossed[m]);
  return r;
}

static VecRef
operand (VecPrinter *v, uint32_t m, uint32_t value)
{
  int which;
  From from = loop_operand (v->l, m, value, &which);
  if (from == FROM_LITERAL)
    return literal_ref (v, (uint32_t) which);
  if (from == FROM_MEMORY)
    return access_ref (v, (uint32_t) which);
  if (from == FROM_TILE && v->l->phases[which] < v->phase)
    return crossed_ref (v, (uint32_t) which);
  VecRef r = { .type = vec_type_of (v->l->p, loop_member (v->l, (uint32_t) which)->out) };
  snprintf (r.base, sizeof r.base, "v%d", which);
  r.width = v->widths[which];
  r.memory = r.type->class == STORED;
  return r;
}

/* Converts the mask `r` to vectors <base>_0 ... with lanes of `width` bytes. */
static void
as_mask (VecPrinter *v, VecRef *r, int width)
{
  const char *to = mask_type (width);
  int n = vec_lanes (v, width);
  if (!r->memory && r->width == width)
    return;
  uint32_t id = v->fresh++;
  if (!r->memory && r->width) {
    put (v->t, "      char y%u[%d];\n", id, VEC_STEP);
    for (int q = 0; q < vec_parts (v, r->width); q++)
      put (v->t, "      store_mask_%s (y%u + %d, %s_%d);\n", mask_type (r->width), id,
           q * vec_lanes (v, r->width), r->base, q);
    snprintf (r->base, sizeof r->base, "y%u", id);
    r->memory = true;
  }
  for (int q = 0; q < vec_parts (v, width); q++)
    if (r->memory)
      put (v->t, "      M_%s x%u_%d = load_mask_%s (%s + %d);\n", to, id, q, to, r->base, q * n);
    else
      put (v->t, "      M_%s x%u_%d = (M_%s){ 0 } - %d;\n", to, id, q, to, r->truth);
  snprintf (r->base, sizeof r->base, "x%u", id);
  r->memory = false;
  r->width = width;
}

/* Stores the elements of `r` to a buffer, vectors in their work type; `r` then is that memory. */
static void
as_memory (VecPrinter *v, VecRef *r)
{
  if (r->memory)
    return;
  uint32_t id = v->fresh++;
  if (r->type->class == MASK) {
    as_mask (v, r, r->width ? r->width : 4);
    put (v->t, "      char y%u[%d];\n", id, VEC_STEP);
    for (int q = 0; q < vec_parts (v, r->width); q++)
      put (v->t, "      store_mask_%s (y%u + %d, %s_%d);\n", mask_type (r->width), id,
           q * vec_lanes (v, r->width), r->base, q);
  } else {
    put (v->t, "      char y%u[%d] __attribute__ ((aligned (64)));\n", id,
         VEC_STEP * r->type->work_bytes);
    for (int q = 0; q < vec_parts (v, r->type->work_bytes); q++)
      put (v->t, "      store_%s (y%u + %d, %s_%d);\n", r->type->work, id, q * v->vector_bytes,
           r->base, q);
  }
  snprintf (r->base, sizeof r->base, "y%u", id);
  r->memory = true;
}

/* -- Members ----------------------------------------------------------------------------------- */

void
vec_put_rounding (VecPrinter *v, const VecType *type, uint32_t m)
{
  for (int q = 0; type->rounds && q < vec_parts (v, 4); q++)
    put (v->t, "      v%u_%d = rounded_%s (v%u_%d);\n", m, q, type->mem, m, q);
}

static void
put_mask_row (VecPrinter *v, uint32_t m, const GrammeNode *n)
{
  VecRef in[3];
  int width = 0;
  for (uint32_t i = 0; i < n->n_in; i++) {
    in[i] = operand (v, m, gramme_node_in (v->l->p->image, n, i));
    if (!width && !in[i].memory)
      width = in[i].width;
  }
  width = v->widths[m] = width ? width : 4;
  for (uint32_t i = 0; i < n->n_in; i++)
    as_mask (v, &in[i], width);
  for (int q = 0; q < vec_parts (v, width); q++) {
    put (v->t, "      M_%s v%u_%d = ", mask_type (width), m, q);
    for (const char *c = mask_rows[n->op]; *c; c++)
      if (*c >= 'a' && *c <= 'c')
        put (v->t, "%s_%d", in[*c - 'a'].base, q);
      else
        put (v->t, "%c", *c);
    put (v->t, ";\n");
  }
}

static void
put_pointwise (VecPrinter *v, uint32_t m, const GrammeNode *n)
{
  const VecType *type = vec_type_of (v->l->p, gramme_node_in (v->l->p->image, n, n->n_in - 1));
  int kind = row_types[n->op];
  VecRef in[3];
  if (type->class == MASK) {
    put_mask_row (v, m, n);
    return;
  }
  for (uint32_t i = 0; i < n->n_in; i++)
    in[i] = operand (v, m, gramme_node_in (v->l->p->image, n, i));
  if (kind == SELECT)
    as_mask (v, &in[0], type->work_bytes);
  if (kind == COMPARE)
    v->widths[m] = type->work_bytes;
  for (int q = 0; q < vec_parts (v, type->work_bytes); q++) {
    if (kind == COMPARE)
      put (v->t, "      M_%s v%u_%d", mask_type (type->work_bytes), m, q);
    else
      put (v->t, "      A_%s v%u_%d", type->work, m, q);
    put (v->t, " = value_%s_%s (", gramme_op_facts (n->op).name, type->work);
    for (uint32_t i = 0; i < 3; i++) {
      const VecRef *r = &in[i < n->n_in ? i : n->n_in - 1];
      if (kind == COMPARE)
        put (v->t, "(C_%s) ", type->work);
      put (v->t, "%s_%d%s", r->base, q, i < 2 ? ", " : ");\n");
    }
  }
  if (kind != COMPARE)
    vec_put_rounding (v, type, m);
}

static void
put_cast (VecPrinter *v, uint32_t m, const GrammeNode *n)
{
  const VecType *to = vec_type_of (v->l->p, n->out);
  VecRef r = operand (v, m, gramme_node_in (v->l->p->image, n, 0));
  const VecType *from = r.type;
  int size = to->work_bytes;
  if (to->class == VECTORS && from->class == VECTORS && strcmp (to->work, from->work) == 0) {
    for (int q = 0; q < vec_parts (v, size); q++)
      put (v->t, "      A_%s v%u_%d = %s_%d;\n", to->work, m, q, r.base, q);
  } else if (to->class == VECTORS && from->class == MASK) {
    as_mask (v, &r, size);
    for (int q = 0; q < vec_parts (v, size); q++)
      put (v->t, "      A_%s v%u_%d = sel_%s (%s_%d, splat_%s (1), (A_%s){ 0 });\n", to->work, m, q,
           to->work, r.base, q, to->work, to->work);
  } else if (to->class == MASK && from->class == MASK) {
    v->widths[m] = r.width && !r.memory ? r.width : 4;
    as_mask (v, &r, v->widths[m]);
    for (int q = 0; q < vec_parts (v, v->widths[m]); q++)
      put (v->t, "      M_%s v%u_%d = %s_%d;\n", mask_type (v->widths[m]), m, q, r.base, q);
  } else if (to->class == MASK && from->class == VECTORS) {
    v->widths[m] = from->work_bytes;
    for (int q = 0; q < vec_parts (v, from->work_bytes); q++)
      put (v->t, "      M_%s v%u_%d = (M_%s) ((C_%s) %s_%d != (C_%s){ 0 });\n",
           mask_type (from->work_bytes), m, q, mask_type (from->work_bytes), from->work, r.base, q,
           from->work);
  } else {
    /* Through memory, with the host's casts. */
    const char *name = from->class == VECTORS           ? from->work
                       : from->dtype == GRAMME_DTYPE_U8 ? "b1"
                                                        : from->mem;
    as_memory (v, &r);
    if (to->class == STORED && from->class == MASK && to->dtype == GRAMME_DTYPE_U8) {
      put (v->t, "      char *v%u = %s;\n", m, r.base);
      return;
    }
    bool real = from->dtype == GRAMME_DTYPE_F8E4M3 || from->dtype == GRAMME_DTYPE_F8E5M2;
    const char *test = real ? "f32" : "i32"; /* all numbers but 0 are true, fractions, too */
    const char *wide = to->class == VECTORS ? to->work : to->class == MASK ? test : to->mem;
    uint32_t id = to->class == STORED ? m : v->fresh++;
    char letter = to->class == STORED ? 'v' : 'y';
    put (v->t,
         "      char %c%u[%d] __attribute__ ((aligned (64)));\n"
         "      cast16_%s_%s (%c%u, %s);\n",
         letter, id, VEC_STEP * 8, name, wide, letter, id, r.base);
    if (to->class == VECTORS)
      for (int q = 0; q < vec_parts (v, size); q++)
        put (v->t, "      A_%s v%u_%d = load_%s (y%u + %d);\n", to->work, m, q, to->work, id,
             q * v->vector_bytes);
    if (to->class == MASK) {
      v->widths[m] = 4;
      for (int q = 0; q < vec_parts (v, 4); q++)
        put (v->t, "      M_f32 v%u_%d = (C_%s) load_%s (y%u + %d) != 0;\n", m, q, test, test, id,
             q * v->vector_bytes);
    }
  }
  if (to->class == VECTORS)
    vec_put_rounding (v, to, m);
}

/* Combines this step's elements into partial results; a tail ignores those past the end. */
static void
put_fold (VecPrinter *v, uint32_t m, const GrammeNode *n)
{
  VecRef r = operand (v, m, gramme_node_in (v->l->p->image, n, 0));
  const char *name = gramme_op_facts (n->op).name;
  if (r.type->class == MASK) {
    int any = vec_mask_fold_is_any (n->op);
    as_mask (v, &r, 4);
    for (int q = 0; q < vec_parts (v, 4); q++) {
      int first = q * vec_lanes (v, 4);
      put (v->t, any ? "      f%u[%d] |= %s_%d" : "      f%u[%d] &= %s_%d", m, q, r.base, q);
      if (v->in_tail)
        put (v->t, any ? " & (iota_f32 () < (int) w - %d)" : " | (iota_f32 () >= (int) w - %d)",
             first);
      put (v->t, ";\n");
    }
    return;
  }
  const char *work = r.type->work;
  for (int q = 0; q < vec_parts (v, r.type->work_bytes); q++) {
    put (v->t, "      { A_%s x = %s_%d;\n", work, r.base, q);
    if (v->in_tail)
      put (v->t, "      x = sel_%s ((M_%s) (iota_%s () < (%s) (w - %d)), x, init_%s_%s ());\n",
           work, work, r.type->work_bytes == 8 ? "f64" : "f32",
           r.type->work_bytes == 8 ? "long" : "int", q * vec_lanes (v, r.type->work_bytes), name,
           work);
    put (v->t, "      f%u[%d] = value_combine_%s_%s (f%u[%d], x, x); }\n", m, q, name, work, m, q);
  }
}

/* Writes member m's elements of this step to memory at `to`, fewer if `masked`. */
static void
put_store (VecPrinter *v, uint32_t m, const VecType *type, const char *to, bool masked)
{
  int elem = (int) GRAMME_DTYPE_BYTES (type->dtype);
  if (type->class == STORED) {
    put (v->t, "      __builtin_memcpy (%s, v%u, %d);\n", to, m, VEC_STEP * elem);
    return;
  }
  int size = type->class == MASK ? v->widths[m] : type->work_bytes;
  for (int q = 0; q < vec_parts (v, size); q++)
    if (masked)
      put (v->t, "      store_part_%s (%s + %d, part_of (w, %d, %d), v%u_%d);\n", type->mem, to,
           q * vec_lanes (v, size) * elem, q * vec_lanes (v, size), vec_lanes (v, size), m, q);
    else
      put (v->t, "      store_%s%s (%s + %d, v%u_%d);\n", type->class == MASK ? "mask_" : "",
           type->class == MASK ? mask_type (size) : type->mem, to, q * vec_lanes (v, size) * elem,
           m, q);
}

void
vec_put_member (VecPrinter *v, uint32_t m)
{
  const GrammeNode *n = loop_member (v->l, m);
  const CgValue *value = &v->l->p->values[n->out];
  const VecType *type = vec_type_of (v->l->p, n->out);
  uint32_t family = gramme_op_facts (n->op).family;
  char to[64];
  if (family == GRAMME_FAMILY_REDUCE) {
    put_fold (v, m, n);
    return;
  }
  if (family == GRAMME_FAMILY_CAST)
    put_cast (v, m, n);
  else
    put_pointwise (v, m, n);
  if (loop_is_row (v->l, m))
    return;
  bool lent = v->l->lenders[m] >= 0;
  if (v->l->buffers[m] != LOOP_NO_BUFFER || lent) {
    snprintf (to, sizeof to, "(b%u + i * %u)", m, value->elem_bytes);
    put_store (v, m, type, to, lent && v->in_tail);
  }
  if (!value->stored)
    return;
  uint32_t k = (uint32_t) loop_access (v->l, n->out, false, true);
  const Access *a = &v->l->access[k];
  if (a->inner == 1 || v->l->n == 1) {
    snprintf (to, sizeof to, "(q%u + i * %u)", k, value->elem_bytes);
    put_store (v, m, type, to, v->in_tail && vec_has_masks (type));
    return;
  }
  put (v->t, "      char g%u[%d] __attribute__ ((aligned (64)));\n", k,
       VEC_STEP * (int) value->elem_bytes);
  snprintf (to, sizeof to, "g%u", k);
  put_store (v, m, type, to, false);
  put (v->t,
       "      for (long e = 0; e < w; e++) ((E_%s *) p%u)[(i + e) * %s] = ((E_%s *) g%u)[e];\n",
       type->mem, k, SIZE (v->l->p, a->inner), type->mem, k);
}

void
vec_put_row_store (VecPrinter *v, uint32_t m)
{
  const GrammeNode *n = loop_member (v->l, m);
  const VecType *type = vec_type_of (v->l->p, n->out);
  if (!v->l->p->values[n->out].stored)
    return;
  int k = loop_access (v->l, n->out, true, true);
  if (type->class == VECTORS)
    put (v->t, "      store_part_%s (p%d, 1, v%u_0);\n", type->mem, k, m);
  else if (type->class == MASK)
    put (v->t, "      *p%d = v%u_0[0] & 1;\n", k, m);
  else
    put (v->t, "      *(E_%s *) p%d = *(E_%s *) v%u;\n", type->mem, k, type->mem, m);
}
