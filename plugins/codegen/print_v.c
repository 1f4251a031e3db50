/* SPDX-License-Identifier: Apache-2.0
 * print_v.c -- a LOOP step as C with explicit vectors.
 *
 * Sixteen elements are processed at a time, the number of partial results of a reduction, as one or
 * more vectors for each value; a value stays in registers as long as its phase lasts.  The code for
 * a point is in point_v.c; here a loop walks from point to point, and carries its reductions.
 *
 * The last, short step of a row is a second body, whose loads and stores are masked.  Elements
 * smaller than 32 bits have no masks on some machines: there pointers q lead to buffers on the
 * stack that hold the remaining elements, and results are copied out of them.  Nothing outside of a
 * row is touched.
 *
 * Arithmetic on 8- and 16-bit integers, and other rare operations, is left to tiles.
 */
#include "plugins/codegen/print_v.h"

#include "plugins/codegen/parts.h"
#include "plugins/codegen/print_c.h"

#include <stdlib.h>

#define BLOCK 512 /* elements whose partial results are combined before those of the next block */
/* Maximum of bytes of rows that are walked in pairs of blocks: larger rows come from memory, where
 * the processor does not predict two streams within a page */
#define PAIRS_TO (8 << 20)
#define NEXT_ROW_FROM 512 /* bytes of a row: the processor predicts shorter next rows itself */
#define NEXT_ROW_TO (1 << 14)
#define NEXT_ROW_TO_MUCH (1 << 17) /* limit where there is much to compute meanwhile */
#define PREFETCH_FROM (1 << 16)    /* bytes of a row from which on the caches need prefetches */
#define PREFETCH_AHEAD 2048

/* -- A phase ----------------------------------------------------------------------------------- */

static bool
is_fold_of (const VecPrinter *v, uint32_t m)
{
  return loop_is_fold (v->l, m) && v->l->phases[m] == v->phase;
}

/* Returns the type that a fold reads, which is that of its partial results. */
static const VecType *
fold_type (const VecPrinter *v, uint32_t m)
{
  return vec_type_of (v->l->p, gramme_node_in (v->l->p->image, loop_member (v->l, m), 0));
}

/* True if blocks are added up in float64, as the wide tiles do. */
static bool
folds_wide (const VecPrinter *v, uint32_t m)
{
  return codegen_folds_wide (v->l->p, loop_member (v->l, m), v->l->n);
}

/* Prints the variables that folds carry: from block to block, or, with `block`, within one block.
 */
static void
put_fold_start (VecPrinter *v, uint32_t m, char block)
{
  const VecType *type = fold_type (v, m);
  const GrammeNode *n = loop_member (v->l, m);
  const char *name = gramme_op_facts (n->op).name;
  if (type->class == MASK && !block) {
    put (v->t, "    M_f32 f%u[] = {", m);
    for (int q = 0; q < vec_parts (v, 4); q++)
      put (v->t, " (M_f32){ 0 } - %d,", !vec_mask_fold_is_any (n->op));
    put (v->t, " };\n");
  } else if (type->class == MASK) {
    return;
  } else if (!block && folds_wide (v, m)) {
    put (v->t, "    double a%u = 0;\n", m);
  } else if (!block) {
    put (v->t, "    A_%s a%u = init_%s_%s ();\n", type->work, m, name, type->work);
  } else {
    put (v->t, "    A_%s %c%u[%d];\n", type->work, block, m, vec_parts (v, type->work_bytes));
    for (int q = 0; q < vec_parts (v, type->work_bytes); q++)
      put (v->t, "    %c%u[%d] = init_%s_%s ();\n", block, m, q, name, type->work);
  }
}

static void
put_fold_block_end (VecPrinter *v, uint32_t m)
{
  const VecType *type = fold_type (v, m);
  if (type->class == VECTORS && folds_wide (v, m))
    put (v->t, "    a%u += (double) close_sum_f32 (f%u, init_sum_f32 ())[0];\n", m, m);
  else if (type->class == VECTORS)
    put (v->t, "    a%u = splat_%s (close_%s_%s (f%u, a%u)[0]);\n", m, type->work,
         gramme_op_facts (loop_member (v->l, m)->op).name, type->work, m, m);
}

/* Prints the row's value from the carried variables. */
static void
put_fold_end (VecPrinter *v, uint32_t m)
{
  const GrammeNode *n = loop_member (v->l, m);
  const VecType *from = fold_type (v, m), *type = vec_type_of (v->l->p, n->out);
  if (from->class == MASK) {
    int any = vec_mask_fold_is_any (n->op);
    v->widths[m] = 4;
    put (v->t, "      int o%u = %d;\n", m, any ? 0 : -1);
    put (v->t, "      for (int e = 0; e < %d; e++) o%u = o%u %c f%u[e / %d][e %% %d];\n", VEC_STEP,
         m, m, any ? '|' : '&', m, vec_lanes (v, 4), vec_lanes (v, 4));
    for (int q = 0; q < vec_parts (v, 4); q++)
      put (v->t, "      M_f32 v%u_%d = (M_f32){ 0 } + o%u;\n", m, q, m);
  } else {
    for (int q = 0; q < vec_parts (v, type->work_bytes); q++)
      put (v->t,
           folds_wide (v, m) ? "      A_%s v%u_%d = splat_f32 ((float) a%u);\n"
                             : "      A_%s v%u_%d = a%u;\n",
           type->work, m, q, m);
    vec_put_rounding (v, type, m);
  }
  vec_put_row_store (v, m);
}

/* True if this phase walks along access k, element after element; *reads, *writes: what the phase
 * does there. */
static bool
walks (VecPrinter *v, uint32_t k, bool *reads, bool *writes)
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
          && v->l->phases[which] < v->phase && v->l->buffers[which] == LOOP_NO_BUFFER
          && v->l->lenders[which] < 0)
        *reads = *reads
                 || (loop_remakes (v->l, (uint32_t) which)
                         ? loop_remake_reads (v->l, (uint32_t) which, k)
                         : a->store && loop_member (v->l, (uint32_t) which)->out == a->value);
    }
  }
  return *reads || *writes;
}

/* True if access k is so large that it needs prefetches. */
static bool
is_far (VecPrinter *v, uint32_t k)
{
  const CgProgram *p = v->l->p;
  bool reads, writes;
  return v->phase == 0 && walks (v, k, &reads, &writes) && reads
         && codegen_size_may_exceed (
             codegen_size_mul (p->sizes, v->l->n, p->values[v->l->access[k].value].elem_bytes),
             PREFETCH_FROM - 1);
}

/* True if this phase computes enough to hide both the combines of its folds and the prefetches. */
static bool
has_much_to_do (const VecPrinter *v)
{
  for (uint32_t m = 0; m < v->l->s->n_members; m++)
    if (v->l->phases[m] == v->phase && loop_reads_full (v->l, m)
        && vec_computes_much (loop_member (v->l, m)->op))
      return true;
  return false;
}

/* Prefetches the next row, in the second phase, when the row is in the caches and memory is
 * idle. */
static void
put_next_row (VecPrinter *v)
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

/* Prefetches elements ahead; if a row's length is symbolic, only where it is long. */
static void
put_prefetches (VecPrinter *v)
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

/* True if access k uses a buffer in the last, short step. */
static bool
is_buffered (VecPrinter *v, uint32_t k, bool *reads, bool *writes)
{
  return v->has_tail && walks (v, k, reads, writes)
         && !vec_has_masks (vec_type_of (v->l->p, v->l->access[k].value));
}

/* Prints the last, short step: accesses without masks are read from buffers, through pointers that
 * make the step's offsets valid, and copied out of them. */
static void
put_tail (VecPrinter *v, const CgText *body)
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

/* True if the first phase reads from memory rather than the caches. */
static bool
reads_much (VecPrinter *v)
{
  const Loop *l = v->l;
  double all = 0;
  bool reads, writes;
  for (uint32_t k = 0; k < l->n_access && v->phase == 0; k++) {
    double bytes = (double) l->n * l->p->values[l->access[k].value].elem_bytes;
    if (!walks (v, k, &reads, &writes) || !reads)
      continue;
    for (int d = 0; d < l->n_outer; d++)
      bytes *= codegen_is_symbolic (l->outer[d]) || l->access[k].strides[d] == 0
                   ? 1
                   : (double) l->outer[d];
    all += codegen_is_symbolic (l->n) ? 0 : bytes;
  }
  return all > PAIRS_TO;
}

/* True if two blocks of a row are walked at once: each combine waits for the one before it, but not
 * for those of the other block. */
static bool
walks_pairs (VecPrinter *v)
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

/* True if a row is a whole number of pairs of blocks. */
static bool
is_all_pairs (const Loop *l)
{
  return !codegen_is_symbolic (l->n) && !(l->n_parts && l->n_outer == 0) && l->n % (2 * BLOCK) == 0;
}

static void
put_steps (VecPrinter *v, const char *to, const CgText *body)
{
  put (v->t, "    for (; i < %s; i += %d) {\n", to, VEC_STEP);
  put_prefetches (v);
  put (v->t, "%s    }\n", body->text ? body->text : "");
}

/* Prints block j and the block behind it, as far as the row reaches; the rest of the latter becomes
 * block j. */
static void
put_pair (VecPrinter *v, const char *n, const CgText *body)
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
    put (v->t, "    const long both = whole - j - %d < %d ? whole - j - %d : %d;\n", BLOCK, BLOCK,
         BLOCK, BLOCK);
  put (v->t, "    for (const long to = i + both; i < to; i += %d) {\n", VEC_STEP);
  put_prefetches (v);
  put (v->t, "    {\n%s    }\n    const long here = i;\n    {\n    const long i = here + %d;\n",
       body->text ? body->text : "", BLOCK);
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
      for (int q = 0; q < vec_parts (v, fold_type (v, m)->work_bytes); q++)
        put (v->t, "    f%u[%d] = h%u[%d];\n", m, q, m, q);
    }
  put (v->t, "    j += %d;\n    i += both;\n    end = j + %d < whole ? j + %d : whole;\n    }\n",
       BLOCK, BLOCK, BLOCK);
}

static void
put_walk (VecPrinter *v, const CgText *body, const CgText *tail)
{
  Loop *l = v->l;
  const char *n = LENGTH (l);
  bool folds = false, reads, writes, far = false;
  for (uint32_t m = 0; m < l->s->n_members; m++)
    folds = folds || is_fold_of (v, m);
  for (uint32_t k = 0; k < l->n_access; k++)
    far = far || is_far (v, k);

  put (v->t, "    const long whole = %s / %d * %d, rest = %s - whole;\n", n, VEC_STEP, VEC_STEP, n);
  put (v->t, "    long i = 0, w = %d, end = whole;\n", VEC_STEP);
  if (far && codegen_is_symbolic (l->n))
    put (v->t, "    const int far = %s >= %d;\n", n, PREFETCH_FROM / 4);
  for (uint32_t k = 0; k < l->n_access; k++)
    if (walks (v, k, &reads, &writes))
      put (v->t, "    char *q%u = p%u;\n", k, k);
  if (folds)
    put (v->t,
         "    for (long j = 0; j < %s; j += %d) {\n    end = j + %d < whole ? j + %d : whole;\n", n,
         BLOCK, BLOCK, BLOCK);
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (is_fold_of (v, m))
      put_fold_start (v, m, 'f');
  bool pairs = walks_pairs (v);
  if (pairs)
    put_pair (v, n, body);
  if (codegen_size_may_exceed (l->n, VEC_STEP - 1) && !(pairs && is_all_pairs (l)))
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

/* Prints the work at every point to `body`; false: there is none. */
static bool
print_body (VecPrinter *v, CgText *body, bool in_tail)
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
      vec_put_member (v, m);
      any = true;
    }
  v->t = row;
  v->in_body = v->in_tail = false;
  memset (v->loaded, 0, sizeof v->loaded);
  return any;
}

static void
put_phase (VecPrinter *v)
{
  Loop *l = v->l;
  CgText body = { 0 }, tail = { 0 }, *row = v->t;
  for (uint32_t m = 0; m < l->s->n_members; m++)
    if (l->phases[m] == v->phase && !loop_reads_full (l, m)) {
      vec_put_member (v, m);
      vec_put_row_store (v, m);
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

bool
codegen_put_vector_loop (CgText *t, const CgProgram *p, uint32_t step)
{
  const CgStep *s = &p->steps[step];
  Loop *l = calloc (1, sizeof (Loop));
  VecPrinter *v = calloc (1, sizeof (VecPrinter));
  bool supported = l && v;
  if (supported) {
    *l = (Loop){ .p = p, .step = step, .s = s };
    memcpy (l->members, s->members, sizeof l->members);
  }
  for (uint32_t m = 0; supported && m < s->n_members; m++)
    supported = vec_supports (l, m);
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
  *v = (VecPrinter){ .t = &phases,
                     .row = &rows,
                     .l = l,
                     .vector_bytes = (int) t->source->vector_bytes,
                     .has_tail = codegen_is_symbolic (l->n) || l->n % VEC_STEP != 0 };
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
