/* SPDX-License-Identifier: Apache-2.0
 * print_v.c -- a LOOP step as C with explicit vectors.
 *
 * Sixteen elements are worked on at a time, the number of partial results of a reduction, as one or
 * more vectors for each value; a value stays in registers as long as its phase lasts.  The
 * arithmetic is inlined from the host's source (GrammeSource): value_<row>_<type>, casts, loads and
 * stores.  So each element sees the operations that a tile would have done, rounding of 16-bit floats
 * included, and the bits are the tile's.
 *
 * The last, short step of a row is a second body, whose loads and stores are masked.  Elements smaller
 * than 32 bits have no masks on every machine: there pointers q lead to buffers on the stack that hold what
 * is left, and results are copied out of them.  Nothing outside of a row is touched.
 *
 * Arithmetic on 8- and 16-bit integers, and what else is rare, is left to tiles.
 */
#include "plugins/codegen/parts.h"
#include "plugins/codegen/print_c.h"

#include <stdlib.h>

#define STEP 16   /* elements */
#define BLOCK 512 /* elements whose partial results are combined before those of the next */
#define PAIRS_TO (8 << 20) /* bytes: beyond, they come from memory, and the processor does not see two streams within a page coming */
#define NEXT_ROW_FROM 512 /* bytes of a row: below, the processor sees the next one itself */
#define NEXT_ROW_TO (1 << 14)
#define NEXT_ROW_TO_MUCH (1 << 17) /* where there is much to compute meanwhile */
#define PREFETCH_FROM (1 << 16) /* bytes of a row, from which on the caches need help */
#define PREFETCH_AHEAD 2048

/* -- Types ------------------------------------------------------------------------------------- */

typedef enum {
  VECTORS, /* of the type `work` */
  MASK,    /* a bool: vectors of 32 or 64 bits, 0 or -1 */
  STORED   /* only ever cast: its elements in memory */
} Class;

typedef struct {
  uint32_t dtype;
  Class class;
  const char *mem, *work; /* as the source's names end */
  int work_bytes;
  bool rounds;
} Type;

static const Type types[] = {
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

static const Type *
type_of (const CgProgram *p, uint32_t value)
{
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].dtype == p->values[value].dtype)
      return &types[i];
  return NULL;
}

/* What the op table says of a row's types. */
enum { NO_TYPES, ARITH, FLOAT, COMPARE, LOGICAL, BITWISE, SELECT };
static const uint8_t row_types[128] = {
#define POINTWISE(code, version, name, n, types, ...) [code] = types,
#include <gramme-ops.def>
};

/* Rows on masks. */
static const char *const mask_rows[128] = {
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
/* Reductions of masks: 1 where any does, 0 where all must. */
static int
mask_fold_is_any (uint32_t op)
{
  return op == GRAMME_OP_any || op == GRAMME_OP_amax   ? 1
         : op == GRAMME_OP_all || op == GRAMME_OP_amin ? 0
                                                       : -1;
}

/* -- State ------------------------------------------------------------------------------------- */

/* An operand: vectors <base>_0 ..., a literal mask, or memory at <base>. */
typedef struct {
  const Type *type;
  char base[64];
  bool memory;      /* STORED, and masks that nobody has loaded yet */
  int width, truth; /* of masks: bytes of a lane; 0: a literal, `truth` */
} Ref;

typedef struct {
  CgText *t;     /* where statements go: the row's, or the body's */
  CgText *row;   /* what is the same in the whole row */
  Loop *l;
  int vector_bytes;
  int phase;
  bool in_body, in_tail, has_tail;
  bool loaded[CG_MAX_MEMBERS * 4]; /* accesses, in this body */
  bool crossed[CG_MAX_MEMBERS];    /* members of earlier phases, in this body */
  bool splatted[CG_MAX_MEMBERS * 4];
  int widths[CG_MAX_MEMBERS];      /* of members that are masks */
  uint32_t fresh;                  /* the next name's number */
} Printer;

static int
parts (const Printer *v, int lane_bytes)
{
  return STEP * lane_bytes / v->vector_bytes;
}

static int
lanes (const Printer *v, int lane_bytes)
{
  return v->vector_bytes / lane_bytes;
}

/* The source's name of a mask's type: its functions end in it. */
static const char *
mask_type (int width)
{
  return width == 8 ? "f64" : "f32";
}

/* -- Memory ------------------------------------------------------------------------------------ */

/* Are a row's last elements of this type loaded and stored by masks? */
static bool
has_masks (const Type *type)
{
  return type->class == VECTORS && GRAMME_DTYPE_BYTES (type->dtype) >= 4;
}

/* Defines vectors <base>_q from 16 elements at `from`, or from the w that are left if `masked`. */
static void
load_vectors (Printer *v, const Type *type, const char *base, const char *from, bool masked)
{
  int elem = (int) GRAMME_DTYPE_BYTES (type->dtype), n = lanes (v, type->work_bytes);
  for (int q = 0; q < parts (v, type->work_bytes); q++)
    if (masked)
      put (v->t, "      A_%s %s_%d = load_part_%s (%s + %d, part_of (w, %d, %d), (A_%s){ 0 });\n",
           type->work, base, q, type->mem, from, q * n * elem, q * n, n, type->work);
    else
      put (v->t, "      A_%s %s_%d = load_%s (%s + %d);\n", type->work, base, q, type->mem, from,
           q * n * elem);
}

/* Makes `r`, as vectors, the element at `from` at every point. */
static void
splat_element (Printer *v, CgText *t, const Type *type, const char *base, const char *from)
{
  int elem = (int) GRAMME_DTYPE_BYTES (type->dtype);
  if (type->class == STORED) {
    put (t, "      char %s[%d]; for (int e = 0; e < %d; e++) ((E_%s *) %s)[e] = *(E_%s *) %s;\n",
         base, STEP * elem, STEP, type->mem, base, type->mem, from);
    return;
  }
  if (type->class == MASK) {
    put (t, "      char %s[%d]; for (int e = 0; e < %d; e++) %s[e] = *%s;\n", base, STEP, STEP, base,
         from);
    return;
  }
  for (int q = 0; q < parts (v, type->work_bytes); q++)
    if (strcmp (type->mem, type->work) == 0)
      put (t, "      A_%s %s_%d = splat_%s (*(E_%s *) (%s));\n", type->work, base, q, type->work,
           type->mem, from);
    else
      put (t, "      A_%s %s_%d = splat_%s (load_part_%s (%s, 1, (A_%s){ 0 })[0]);\n", type->work,
           base, q, type->work, type->mem, from, type->work);
}

/* -- Operands ---------------------------------------------------------------------------------- */

static Ref
literal_ref (Printer *v, uint32_t value)
{
  const CgValue *literal = &v->l->p->values[value];
  Ref r = { .type = type_of (v->l->p, value) };
  unsigned long long bits = literal->bits;
  if (r.type->class == MASK) {
    r.truth = bits != 0;
    return r;
  }
  snprintf (r.base, sizeof r.base, "k%u", v->fresh++);
  if (r.type->class == STORED) {
    r.memory = true;
    put (v->row, "      E_%s %s_[%d] = {", r.type->mem, r.base, STEP);
    for (int e = 0; e < STEP; e++)
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
  for (int q = 0; q < parts (v, r.type->work_bytes); q++)
    put (v->row, "      A_%s %s_%d = (A_%s) ((vu%d){ 0 } + 0x%llx%s);\n", r.type->work, r.base, q,
         r.type->work, r.type->work_bytes * 8, bits, r.type->work_bytes == 8 ? "ul" : "u");
  return r;
}

/* 16 elements at memory `from`, to be read now; `masked`: fewer, in a tail. */
static void
read_memory (Printer *v, Ref *r, const char *from, bool masked, bool *loaded)
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

static Ref
access_ref (Printer *v, uint32_t k)
{
  const Access *a = &v->l->access[k];
  Ref r = { .type = type_of (v->l->p, a->value) };
  int elem = (int) GRAMME_DTYPE_BYTES (r.type->dtype);
  char from[64];
  if (a->as_row || (a->inner == 0 && v->l->n != 1)) {
    /* Row accesses are used between phases, the others in bodies: both are the row's. */
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
           k, STEP * elem, r.type->mem, k, r.type->mem, k, SIZE (v->l->p, a->inner));
    snprintf (from, sizeof from, "g%u", k);
  }
  bool gathered = v->loaded[k];
  read_memory (v, &r, from, direct && v->in_tail && has_masks (r.type), &gathered);
  v->loaded[k] = true;
  return r;
}

static void put_pointwise (Printer *v, uint32_t m, const GrammeNode *n);

/* A value of an earlier phase: it is in memory, or is computed again. */
static Ref
crossed_ref (Printer *v, uint32_t m)
{
  uint32_t value = loop_member (v->l, m)->out;
  if (loop_remakes (v->l, m)) {
    Ref made = { .type = type_of (v->l->p, value) };
    snprintf (made.base, sizeof made.base, "v%u", m);
    if (!v->crossed[m])
      put_pointwise (v, m, loop_member (v->l, m));
    v->crossed[m] = true;
    return made;
  }
  bool lent = v->l->lenders[m] >= 0;
  if (v->l->buffers[m] == LOOP_NO_BUFFER && !lent)
    return access_ref (v, (uint32_t) loop_access (v->l, value, false, true));
  Ref r = { .type = type_of (v->l->p, value) };
  char from[64];
  snprintf (r.base, sizeof r.base, "c%u", m);
  snprintf (from, sizeof from, "(b%u + i * %d)", m, (int) GRAMME_DTYPE_BYTES (r.type->dtype));
  read_memory (v, &r, from, lent && v->in_tail, &v->crossed[m]);
  return r;
}

static Ref
operand (Printer *v, uint32_t m, uint32_t value)
{
  int which;
  From from = loop_operand (v->l, m, value, &which);
  if (from == FROM_LITERAL)
    return literal_ref (v, (uint32_t) which);
  if (from == FROM_MEMORY)
    return access_ref (v, (uint32_t) which);
  if (from == FROM_TILE && v->l->phases[which] < v->phase)
    return crossed_ref (v, (uint32_t) which);
  Ref r = { .type = type_of (v->l->p, loop_member (v->l, (uint32_t) which)->out) };
  snprintf (r.base, sizeof r.base, "v%d", which);
  r.width = v->widths[which];
  r.memory = r.type->class == STORED;
  return r;
}

/* The mask `r` in lanes of `width` bytes: afterwards <base>_0 ... */
static void
as_mask (Printer *v, Ref *r, int width)
{
  const char *to = mask_type (width);
  int n = lanes (v, width);
  if (!r->memory && r->width == width)
    return;
  uint32_t id = v->fresh++;
  if (!r->memory && r->width) {
    put (v->t, "      char y%u[%d];\n", id, STEP);
    for (int q = 0; q < parts (v, r->width); q++)
      put (v->t, "      store_mask_%s (y%u + %d, %s_%d);\n", mask_type (r->width), id,
           q * lanes (v, r->width), r->base, q);
    snprintf (r->base, sizeof r->base, "y%u", id);
    r->memory = true;
  }
  for (int q = 0; q < parts (v, width); q++)
    if (r->memory)
      put (v->t, "      M_%s x%u_%d = load_mask_%s (%s + %d);\n", to, id, q, to, r->base, q * n);
    else
      put (v->t, "      M_%s x%u_%d = (M_%s){ 0 } - %d;\n", to, id, q, to, r->truth);
  snprintf (r->base, sizeof r->base, "x%u", id);
  r->memory = false;
  r->width = width;
}

/* The elements of `r` in memory: vectors as their work type. */
static void
as_memory (Printer *v, Ref *r)
{
  if (r->memory)
    return;
  uint32_t id = v->fresh++;
  if (r->type->class == MASK) {
    as_mask (v, r, r->width ? r->width : 4);
    put (v->t, "      char y%u[%d];\n", id, STEP);
    for (int q = 0; q < parts (v, r->width); q++)
      put (v->t, "      store_mask_%s (y%u + %d, %s_%d);\n", mask_type (r->width), id,
           q * lanes (v, r->width), r->base, q);
  } else {
    put (v->t, "      char y%u[%d] __attribute__ ((aligned (64)));\n", id,
         STEP * r->type->work_bytes);
    for (int q = 0; q < parts (v, r->type->work_bytes); q++)
      put (v->t, "      store_%s (y%u + %d, %s_%d);\n", r->type->work, id, q * v->vector_bytes,
           r->base, q);
  }
  snprintf (r->base, sizeof r->base, "y%u", id);
  r->memory = true;
}

/* -- Members ----------------------------------------------------------------------------------- */

/* What 16-bit floats lose on the way to memory. */
static void
put_rounding (Printer *v, const Type *type, uint32_t m)
{
  for (int q = 0; type->rounds && q < parts (v, 4); q++)
    put (v->t, "      v%u_%d = rounded_%s (v%u_%d);\n", m, q, type->mem, m, q);
}

static void
put_mask_row (Printer *v, uint32_t m, const GrammeNode *n)
{
  Ref in[3];
  int width = 0;
  for (uint32_t i = 0; i < n->n_in; i++) {
    in[i] = operand (v, m, gramme_node_in (v->l->p->image, n, i));
    if (!width && !in[i].memory)
      width = in[i].width;
  }
  width = v->widths[m] = width ? width : 4;
  for (uint32_t i = 0; i < n->n_in; i++)
    as_mask (v, &in[i], width);
  for (int q = 0; q < parts (v, width); q++) {
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
put_pointwise (Printer *v, uint32_t m, const GrammeNode *n)
{
  const Type *type = type_of (v->l->p, gramme_node_in (v->l->p->image, n, n->n_in - 1));
  int kind = row_types[n->op];
  Ref in[3];
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
  for (int q = 0; q < parts (v, type->work_bytes); q++) {
    if (kind == COMPARE)
      put (v->t, "      M_%s v%u_%d", mask_type (type->work_bytes), m, q);
    else
      put (v->t, "      A_%s v%u_%d", type->work, m, q);
    put (v->t, " = value_%s_%s (", gramme_op_facts (n->op).name, type->work);
    for (uint32_t i = 0; i < 3; i++) {
      const Ref *r = &in[i < n->n_in ? i : n->n_in - 1];
      if (kind == COMPARE)
        put (v->t, "(C_%s) ", type->work);
      put (v->t, "%s_%d%s", r->base, q, i < 2 ? ", " : ");\n");
    }
  }
  if (kind != COMPARE)
    put_rounding (v, type, m);
}

static void
put_cast (Printer *v, uint32_t m, const GrammeNode *n)
{
  const Type *to = type_of (v->l->p, n->out);
  Ref r = operand (v, m, gramme_node_in (v->l->p->image, n, 0));
  const Type *from = r.type;
  int size = to->work_bytes;
  if (to->class == VECTORS && from->class == VECTORS && strcmp (to->work, from->work) == 0) {
    for (int q = 0; q < parts (v, size); q++)
      put (v->t, "      A_%s v%u_%d = %s_%d;\n", to->work, m, q, r.base, q);
  } else if (to->class == VECTORS && from->class == MASK) {
    as_mask (v, &r, size);
    for (int q = 0; q < parts (v, size); q++)
      put (v->t, "      A_%s v%u_%d = sel_%s (%s_%d, splat_%s (1), (A_%s){ 0 });\n", to->work, m, q,
           to->work, r.base, q, to->work, to->work);
  } else if (to->class == MASK && from->class == MASK) {
    v->widths[m] = r.width && !r.memory ? r.width : 4;
    as_mask (v, &r, v->widths[m]);
    for (int q = 0; q < parts (v, v->widths[m]); q++)
      put (v->t, "      M_%s v%u_%d = %s_%d;\n", mask_type (v->widths[m]), m, q, r.base, q);
  } else if (to->class == MASK && from->class == VECTORS) {
    v->widths[m] = from->work_bytes;
    for (int q = 0; q < parts (v, from->work_bytes); q++)
      put (v->t, "      M_%s v%u_%d = (M_%s) ((C_%s) %s_%d != (C_%s){ 0 });\n",
           mask_type (from->work_bytes), m, q, mask_type (from->work_bytes), from->work, r.base, q,
           from->work);
  } else {
    /* By way of memory, with the host's casts. */
    const char *name = from->class == VECTORS               ? from->work
                       : from->dtype == GRAMME_DTYPE_U8 ? "b1"
                                                        : from->mem;
    as_memory (v, &r);
    if (to->class == STORED && from->class == MASK && to->dtype == GRAMME_DTYPE_U8) {
      put (v->t, "      char *v%u = %s;\n", m, r.base);
      return;
    }
    bool real = from->dtype == GRAMME_DTYPE_F8E4M3 || from->dtype == GRAMME_DTYPE_F8E5M2;
    const char *test = real ? "f32" : "i32"; /* what is not 0 is true: fractions, too */
    const char *wide = to->class == VECTORS ? to->work : to->class == MASK ? test : to->mem;
    uint32_t id = to->class == STORED ? m : v->fresh++;
    char letter = to->class == STORED ? 'v' : 'y';
    put (v->t,
         "      char %c%u[%d] __attribute__ ((aligned (64)));\n"
         "      cast16_%s_%s (%c%u, %s);\n",
         letter, id, STEP * 8, name, wide, letter, id, r.base);
    if (to->class == VECTORS)
      for (int q = 0; q < parts (v, size); q++)
        put (v->t, "      A_%s v%u_%d = load_%s (y%u + %d);\n", to->work, m, q, to->work, id,
             q * v->vector_bytes);
    if (to->class == MASK) {
      v->widths[m] = 4;
      for (int q = 0; q < parts (v, 4); q++)
        put (v->t, "      M_f32 v%u_%d = (C_%s) load_%s (y%u + %d) != 0;\n", m, q, test, test, id,
             q * v->vector_bytes);
    }
  }
  if (to->class == VECTORS)
    put_rounding (v, to, m);
}

/* Combines this step's elements into partial results; a tail drops those past the end. */
static void
put_fold (Printer *v, uint32_t m, const GrammeNode *n)
{
  Ref r = operand (v, m, gramme_node_in (v->l->p->image, n, 0));
  const char *name = gramme_op_facts (n->op).name;
  if (r.type->class == MASK) {
    int any = mask_fold_is_any (n->op);
    as_mask (v, &r, 4);
    for (int q = 0; q < parts (v, 4); q++) {
      int first = q * lanes (v, 4);
      put (v->t, any ? "      f%u[%d] |= %s_%d" : "      f%u[%d] &= %s_%d", m, q, r.base, q);
      if (v->in_tail)
        put (v->t, any ? " & (iota_f32 () < (int) w - %d)" : " | (iota_f32 () >= (int) w - %d)",
             first);
      put (v->t, ";\n");
    }
    return;
  }
  const char *work = r.type->work;
  for (int q = 0; q < parts (v, r.type->work_bytes); q++) {
    put (v->t, "      { A_%s x = %s_%d;\n", work, r.base, q);
    if (v->in_tail)
      put (v->t,
           "      x = sel_%s ((M_%s) (iota_%s () < (%s) (w - %d)), x, init_%s_%s ());\n",
           work, work, r.type->work_bytes == 8 ? "f64" : "f32",
           r.type->work_bytes == 8 ? "long" : "int", q * lanes (v, r.type->work_bytes), name, work);
    put (v->t, "      f%u[%d] = value_combine_%s_%s (f%u[%d], x, x); }\n", m, q, name, work, m, q);
  }
}

/* Writes member m's elements of this step to memory at `to`; those that are left if `masked`. */
static void
put_store (Printer *v, uint32_t m, const Type *type, const char *to, bool masked)
{
  int elem = (int) GRAMME_DTYPE_BYTES (type->dtype);
  if (type->class == STORED) {
    put (v->t, "      __builtin_memcpy (%s, v%u, %d);\n", to, m, STEP * elem);
    return;
  }
  int size = type->class == MASK ? v->widths[m] : type->work_bytes;
  for (int q = 0; q < parts (v, size); q++)
    if (masked)
      put (v->t, "      store_part_%s (%s + %d, part_of (w, %d, %d), v%u_%d);\n", type->mem, to,
           q * lanes (v, size) * elem, q * lanes (v, size), lanes (v, size), m, q);
    else
      put (v->t, "      store_%s%s (%s + %d, v%u_%d);\n", type->class == MASK ? "mask_" : "",
         type->class == MASK ? mask_type (size) : type->mem, to, q * lanes (v, size) * elem, m, q);
}

static void
put_member (Printer *v, uint32_t m)
{
  const GrammeNode *n = loop_member (v->l, m);
  const CgValue *value = &v->l->p->values[n->out];
  const Type *type = type_of (v->l->p, n->out);
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
    put_store (v, m, type, to, v->in_tail && has_masks (type));
    return;
  }
  put (v->t, "      char g%u[%d] __attribute__ ((aligned (64)));\n", k,
       STEP * (int) value->elem_bytes);
  snprintf (to, sizeof to, "g%u", k);
  put_store (v, m, type, to, false);
  put (v->t,
       "      for (long e = 0; e < w; e++) ((E_%s *) p%u)[(i + e) * %s] = ((E_%s *) g%u)[e];\n",
       type->mem, k, SIZE (v->l->p, a->inner), type->mem, k);
}

/* A row's element goes to memory. */
static void
put_row_store (Printer *v, uint32_t m)
{
  const GrammeNode *n = loop_member (v->l, m);
  const Type *type = type_of (v->l->p, n->out);
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

/* -- A phase ----------------------------------------------------------------------------------- */

static bool
is_fold_of (const Printer *v, uint32_t m)
{
  return loop_is_fold (v->l, m) && v->l->phases[m] == v->phase;
}

/* Of the dtype that a fold reads: its partial results. */
static const Type *
fold_type (const Printer *v, uint32_t m)
{
  return type_of (v->l->p, gramme_node_in (v->l->p->image, loop_member (v->l, m), 0));
}

/* Declares what folds carry: from block to block, or, as `block`, within one. */
static void
put_fold_start (Printer *v, uint32_t m, char block)
{
  const Type *type = fold_type (v, m);
  const GrammeNode *n = loop_member (v->l, m);
  const char *name = gramme_op_facts (n->op).name;
  if (type->class == MASK && !block) {
    put (v->t, "    M_f32 f%u[] = {", m);
    for (int q = 0; q < parts (v, 4); q++)
      put (v->t, " (M_f32){ 0 } - %d,", !mask_fold_is_any (n->op));
    put (v->t, " };\n");
  } else if (type->class == MASK) {
    return;
  } else if (!block) {
    put (v->t, "    A_%s a%u = init_%s_%s ();\n", type->work, m, name, type->work);
  } else {
    put (v->t, "    A_%s %c%u[%d];\n", type->work, block, m, parts (v, type->work_bytes));
    for (int q = 0; q < parts (v, type->work_bytes); q++)
      put (v->t, "    %c%u[%d] = init_%s_%s ();\n", block, m, q, name, type->work);
  }
}

static void
put_fold_block_end (Printer *v, uint32_t m)
{
  const Type *type = fold_type (v, m);
  if (type->class == VECTORS)
    put (v->t, "    a%u = splat_%s (close_%s_%s (f%u, a%u)[0]);\n", m, type->work,
         gramme_op_facts (loop_member (v->l, m)->op).name, type->work, m, m);
}

/* The row's value from what was carried. */
static void
put_fold_end (Printer *v, uint32_t m)
{
  const GrammeNode *n = loop_member (v->l, m);
  const Type *from = fold_type (v, m), *type = type_of (v->l->p, n->out);
  if (from->class == MASK) {
    int any = mask_fold_is_any (n->op);
    v->widths[m] = 4;
    put (v->t, "      int o%u = %d;\n", m, any ? 0 : -1);
    put (v->t, "      for (int e = 0; e < %d; e++) o%u = o%u %c f%u[e / %d][e %% %d];\n", STEP, m, m,
         any ? '|' : '&', m, lanes (v, 4), lanes (v, 4));
    for (int q = 0; q < parts (v, 4); q++)
      put (v->t, "      M_f32 v%u_%d = (M_f32){ 0 } + o%u;\n", m, q, m);
  } else {
    for (int q = 0; q < parts (v, type->work_bytes); q++)
      put (v->t, "      A_%s v%u_%d = a%u;\n", type->work, m, q, m);
    put_rounding (v, type, m);
  }
  put_row_store (v, m);
}

/* Whether this phase walks along access k, element after element; and whether it reads or writes. */
static bool
walks (Printer *v, uint32_t k, bool *reads, bool *writes)
{
  const Access *a = &v->l->access[k];
  *reads = *writes = false;
  if (a->as_row || (a->inner != 1 && v->l->n != 1) || (a->inner == 0 && v->l->n != 1))
    return false;
  for (uint32_t m = 0; m < v->l->s->n_members; m++) {
    const GrammeNode *n = loop_member (v->l, m);
    if (v->l->phases[m] != v->phase || !loop_reads_full (v->l, m))
      continue;
    *reads = *reads || loop_reads (v->l, m, k);
    *writes = *writes || (a->store && !loop_is_row (v->l, m) && n->out == a->value);
    for (uint32_t i = 0; i < n->n_in; i++) {
      int which;
      if (loop_operand (v->l, m, gramme_node_in (v->l->p->image, n, i), &which) == FROM_TILE
          && v->l->phases[which] < v->phase && v->l->buffers[which] == LOOP_NO_BUFFER && v->l->lenders[which] < 0)
        *reads = *reads
                 || (loop_remakes (v->l, (uint32_t) which)
                         ? loop_remake_reads (v->l, (uint32_t) which, k)
                         : a->store && loop_member (v->l, (uint32_t) which)->out == a->value);
    }
  }
  return *reads || *writes;
}

/* Whether the caches need help with access k. */
static bool
is_far (Printer *v, uint32_t k)
{
  const CgProgram *p = v->l->p;
  bool reads, writes;
  return v->phase == 0 && walks (v, k, &reads, &writes) && reads
         && codegen_size_may_exceed (
             codegen_size_mul (p->sizes, v->l->n, p->values[v->l->access[k].value].elem_bytes),
             PREFETCH_FROM - 1);
}

/* Whether this phase computes enough to hide both the combines of its folds and the memory that it asks for. */
static bool
has_much_to_do (const Printer *v)
{
  for (uint32_t m = 0; m < v->l->s->n_members; m++)
    if (v->l->phases[m] == v->phase && loop_reads_full (v->l, m) && row_types[loop_member (v->l, m)->op] == FLOAT)
      return true;
  return false;
}

/* In the second phase the caches hold the row, and memory has nothing to do: the next row is asked for. */
static void
put_next_row (Printer *v)
{
  Loop *l = v->l;
  bool reads, writes;
  if (v->phase != 1 || l->n_outer == 0 || codegen_is_symbolic (l->n))
    return;
  const int64_t most = has_much_to_do (v) ? NEXT_ROW_TO_MUCH : NEXT_ROW_TO;
  v->phase = 0;
  for (uint32_t k = 0; k < l->n_access; k++) {
    int64_t elem = l->p->values[l->access[k].value].elem_bytes, bytes = elem * l->n;
    if (bytes >= NEXT_ROW_FROM && bytes <= most && walks (v, k, &reads, &writes) && reads
        && l->access[k].strides[l->n_outer - 1] != 0)
      put (v->t, "      __builtin_prefetch (p%u + i * %d + %s);\n", k, (int) elem,
           BYTES (l->p, l->access[k].strides[l->n_outer - 1], elem));
  }
  v->phase = 1;
}

/* Ahead of what is read; if a row's length is symbolic, only where that is long. */
static void
put_prefetches (Printer *v)
{
  Loop *l = v->l;
  uint32_t n = 0;
  put_next_row (v);
  for (uint32_t k = 0; k < l->n_access; k++) {
    uint32_t elem = l->p->values[l->access[k].value].elem_bytes;
    if (!is_far (v, k))
      continue;
    if (codegen_is_symbolic (l->n) && n++ == 0)
      put (v->t, "      if (far) {\n");
    put (v->t, "      __builtin_prefetch (q%u + i * %u + %d);\n", k, elem, PREFETCH_AHEAD);
  }
  if (n > 0)
    put (v->t, "      }\n");
}

/* Whether access k goes by way of a buffer in the last, short step. */
static bool
is_buffered (Printer *v, uint32_t k, bool *reads, bool *writes)
{
  return v->has_tail && walks (v, k, reads, writes)
         && !has_masks (type_of (v->l->p, v->l->access[k].value));
}

/* The last, short step: what has no masks is read from buffers, by pointers to where those would begin,
 * and copied out of them. */
static void
put_tail (Printer *v, const CgText *body)
{
  Loop *l = v->l;
  bool reads, writes;
  put (v->t, "    w = rest;\n");
  for (uint32_t k = 0; k < l->n_access; k++)
    if (is_buffered (v, k, &reads, &writes)) {
      int elem = (int) l->p->values[l->access[k].value].elem_bytes;
      put (v->t, "    char t%u[128] __attribute__ ((aligned (64)));\n", k);
      if (reads)
        put (v->t,
             "    __builtin_memset (t%u, 0, sizeof t%u);\n"
             "    copy_elements_%d (t%u, p%u + whole * %d, rest);\n",
             k, k, elem, k, k, elem);
      put (v->t, "    q%u = t%u - whole * %d;\n", k, k, elem);
    }
  put (v->t, "    {\n%s    }\n", body->text ? body->text : "");
  for (uint32_t k = 0; k < l->n_access; k++)
    if (is_buffered (v, k, &reads, &writes) && writes) {
      int elem = (int) l->p->values[l->access[k].value].elem_bytes;
      put (v->t, "    copy_elements_%d (p%u + whole * %d, t%u, rest);\n", elem, k, elem, k);
    }
}

/* Whether what the first phase reads comes from memory. */
static bool
reads_much (Printer *v)
{
  const Loop *l = v->l;
  double all = 0;
  bool reads, writes;
  for (uint32_t k = 0; k < l->n_access && v->phase == 0; k++) {
    double bytes = (double) l->n * l->p->values[l->access[k].value].elem_bytes;
    if (!walks (v, k, &reads, &writes) || !reads)
      continue;
    for (int d = 0; d < l->n_outer; d++)
      bytes *= codegen_is_symbolic (l->outer[d]) || l->access[k].strides[d] == 0 ? 1 : (double) l->outer[d];
    all += codegen_is_symbolic (l->n) ? 0 : bytes;
  }
  return all > PAIRS_TO;
}

/* Whether two blocks of a row are walked at once: each combine waits for the one before it, which the other block's do not. */
static bool
walks_pairs (Printer *v)
{
  bool folds = false;
  if (reads_much (v) || has_much_to_do (v))
    return false;
  for (uint32_t m = 0; m < v->l->s->n_members; m++)
    if (is_fold_of (v, m)) {
      if (fold_type (v, m)->class != VECTORS)
        return false;
      folds = true;
    }
  return folds && codegen_size_may_exceed (v->l->n, BLOCK + BLOCK / 2);
}

/* Is a row a whole number of pairs? */
static bool
is_all_pairs (const Loop *l)
{
  return !codegen_is_symbolic (l->n) && !(l->n_parts && l->n_outer == 0) && l->n % (2 * BLOCK) == 0;
}

static void
put_steps (Printer *v, const char *to, const CgText *body)
{
  put (v->t, "    for (; i < %s; i += %d) {\n", to, STEP);
  put_prefetches (v);
  put (v->t, "%s    }\n", body->text ? body->text : "");
}

/* Block j and the one behind it, as far as that reaches; what is left of the latter becomes block j. */
static void
put_pair (Printer *v, const char *n, const CgText *body)
{
  Loop *l = v->l;
  bool always = is_all_pairs (l);
  if (!always)
    put (v->t, "    if (j + %d < %s)\n", BLOCK, n);
  put (v->t, "    {\n");
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (is_fold_of (v, m))
      put_fold_start (v, m, 'h');
  if (always)
    put (v->t, "    const long both = %d;\n", BLOCK);
  else
    put (v->t, "    const long both = whole - j - %d < %d ? whole - j - %d : %d;\n", BLOCK, BLOCK, BLOCK, BLOCK);
  put (v->t, "    for (const long to = i + both; i < to; i += %d) {\n", STEP);
  put_prefetches (v);
  put (v->t, "    {\n%s    }\n    const long here = i;\n    {\n    const long i = here + %d;\n", body->text ? body->text : "", BLOCK);
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (is_fold_of (v, m))
      put (v->t, "    A_%s *const f%u = h%u;\n", fold_type (v, m)->work, m, m);
  put_prefetches (v);
  put (v->t, "%s    }\n    }\n", body->text ? body->text : "");
  if (!always)
    put_steps (v, "end", body);
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (is_fold_of (v, m)) {
      put_fold_block_end (v, m);
      for (int q = 0; q < parts (v, fold_type (v, m)->work_bytes); q++)
        put (v->t, "    f%u[%d] = h%u[%d];\n", m, q, m, q);
    }
  put (v->t, "    j += %d;\n    i += both;\n    end = j + %d < whole ? j + %d : whole;\n    }\n", BLOCK, BLOCK, BLOCK);
}

static void
put_walk (Printer *v, const CgText *body, const CgText *tail)
{
  Loop *l = v->l;
  const char *n = LENGTH (l);
  bool folds = false, reads, writes, far = false;
  for (uint32_t m = 0; m < l->s->n_members; m++)
    folds = folds || is_fold_of (v, m);
  for (uint32_t k = 0; k < l->n_access; k++)
    far = far || is_far (v, k);

  put (v->t, "    const long whole = %s / %d * %d, rest = %s - whole;\n", n, STEP, STEP, n);
  put (v->t, "    long i = 0, w = %d, end = whole;\n", STEP);
  if (far && codegen_is_symbolic (l->n))
    put (v->t, "    const int far = %s >= %d;\n", n, PREFETCH_FROM / 4);
  for (uint32_t k = 0; k < l->n_access; k++)
    if (walks (v, k, &reads, &writes))
      put (v->t, "    char *q%u = p%u;\n", k, k);
  if (folds)
    put (v->t, "    for (long j = 0; j < %s; j += %d) {\n    end = j + %d < whole ? j + %d : whole;\n", n, BLOCK, BLOCK, BLOCK);
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (is_fold_of (v, m))
      put_fold_start (v, m, 'f');
  bool pairs = walks_pairs (v);
  if (pairs)
    put_pair (v, n, body);
  if (codegen_size_may_exceed (l->n, STEP - 1) && !(pairs && is_all_pairs (l)))
    put_steps (v, "end", body);
  if (v->has_tail) {
    if (folds)
      put (v->t, "    if (rest && j + %d >= %s) {\n", BLOCK, n);
    else
      put (v->t, "    if (rest) {\n");
    put_tail (v, tail);
    put (v->t, "    }\n");
  }
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (is_fold_of (v, m))
      put_fold_block_end (v, m);
  if (folds)
    put (v->t, "    }\n");
}

/* What is done at every point, as text; false: nothing. */
static bool
print_body (Printer *v, CgText *body, bool in_tail)
{
  CgText *row = v->t;
  bool any = false;
  v->t = body;
  v->in_body = true;
  v->in_tail = in_tail;
  memset (v->loaded, 0, sizeof v->loaded);
  memset (v->crossed, 0, sizeof v->crossed);
  for (uint32_t m = 0; m < v->l->s->n_members; m++)
    if (v->l->phases[m] == v->phase && loop_reads_full (v->l, m)) {
      put_member (v, m);
      any = true;
    }
  v->t = row;
  v->in_body = v->in_tail = false;
  memset (v->loaded, 0, sizeof v->loaded);
  return any;
}

static void
put_phase (Printer *v)
{
  Loop *l = v->l;
  CgText body = { 0 }, tail = { 0 }, *row = v->t;
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (l->phases[m] == v->phase && !loop_reads_full (l, m)) {
      put_member (v, m);
      put_row_store (v, m);
    }
  if (print_body (v, &body, false)) {
    if (v->has_tail)
      print_body (v, &tail, true);
    for (uint32_t m = 0; m < l->s->n_members; m++)
      if (is_fold_of (v, m))
        put_fold_start (v, m, 0);
    put (row, "    {\n");
    put_walk (v, &body, &tail);
    put (row, "    }\n");
    for (uint32_t m = 0; m < l->s->n_members; m++)
      if (is_fold_of (v, m))
        put_fold_end (v, m);
  }
  row->oom = row->oom || body.oom || tail.oom;
  free (body.text);
  free (tail.text);
}

/* -- A loop ------------------------------------------------------------------------------------ */

static bool
member_is_supported (const Loop *l, uint32_t m)
{
  const CgProgram *p = l->p;
  const GrammeNode *n = loop_member (l, m);
  uint32_t last = gramme_node_in (p->image, n, n->n_in - 1);
  const Type *from = type_of (p, last), *to = type_of (p, n->out);
  uint32_t family = gramme_op_facts (n->op).family;
  if (!from || !to)
    return false;
  if (family == GRAMME_FAMILY_CAST) {
    bool bytes = from->dtype == GRAMME_DTYPE_U8 || from->dtype == GRAMME_DTYPE_I8;
    return from->dtype != to->dtype
           && !(bytes && (to->dtype == GRAMME_DTYPE_U8 || to->dtype == GRAMME_DTYPE_I8));
  }
  if (from->class == MASK)
    return family == GRAMME_FAMILY_REDUCE ? mask_fold_is_any (n->op) >= 0 : mask_rows[n->op] != NULL;
  return from->class == VECTORS;
}

bool
codegen_put_vector_loop (CgText *t, const CgProgram *p, uint32_t step)
{
  const CgStep *s = &p->steps[step];
  Loop *l = calloc (1, sizeof (Loop));
  Printer *v = calloc (1, sizeof (Printer));
  bool supported = l && v;
  if (supported) {
    *l = (Loop){ .p = p, .step = step, .s = s };
    memcpy (l->members, s->members, sizeof l->members);
  }
  for (uint32_t m = 0; supported && m < s->n_members; m++)
    supported = member_is_supported (l, m);
  if (!supported) {
    free (l);
    free (v);
    return false;
  }
  loop_plan (l, p, step, true);
  if (l->unfit) {
    free (l);
    free (v);
    return false;
  }
  CgText rows = { 0 }, phases = { 0 }, outside;
  codegen_parts_plan (l, t);
  *v = (Printer){ .t = &phases, .row = &rows, .l = l, .vector_bytes = (int) t->source->vector_bytes,
                  .has_tail = codegen_is_symbolic (l->n) || l->n % STEP != 0 };
  for (v->phase = 0; v->phase < l->n_phases; v->phase++)
    put_phase (v);
  codegen_parts_begin (t, l, &outside);
  loop_put_head (t, l);
  for (uint32_t m = 0; m < s->n_members; m++)
    if (l->buffers[m] != LOOP_NO_BUFFER) {
      put (t, "    char *b%u = ", m);
      loop_put_buffer (t, l, m, p->temp_bytes);
      put (t, ";\n");
    } else if (l->lenders[m] >= 0)
      put (t, "    char *b%u = p%d;\n", m, l->lenders[m]);
  put (t, "%s%s  }\n  }\n", rows.text ? rows.text : "", phases.text ? phases.text : "");
  loop_take_buffers (t, l, p->temp_bytes);
  codegen_parts_end (t, l, &outside, 0, NULL);
  t->oom = t->oom || rows.oom || phases.oom;
  free (rows.text);
  free (phases.text);
  free (l);
  free (v);
  return true;
}
