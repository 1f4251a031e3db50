/* SPDX-License-Identifier: Apache-2.0
 * print_c.c -- see print_c.h.
 *
 * Loops are printed as calls of tiles, or by print_v.c for a compiler that has vectors.
 */
#include "plugins/codegen/print_c.h"
#include "plugins/codegen/parts.h"

#include <stdlib.h>

/* Bytes of a slot.  Slots of elements of 4 bytes alternate between the two halves of a page: a slot
 * that began a cache line behind another in its page would make each load wait for the store before
 * it (core/tensor/alloc.c), four times as long in some processes. */
#define TILE_BYTES (512 * 8 + 2048)
#define ROW_BYTES 64

/* Types that hold an element's bits, by its size. */
static const char *const elem_types[] = {
  [1] = "unsigned char", [2] = "unsigned short", [4] = "unsigned", [8] = "unsigned long"
};

/* -- Printing a loop --------------------------------------------------------------------------- */

static void
put_tile (CgText *t, Loop *l, int slot)
{
  loop_put_scratch (t, l, l->p->temp_bytes + (uint64_t) slot * TILE_BYTES);
}

/* Returns the bytes of the workspace's fixed part before a loop's buffers: temporaries of the
 * program, tiles, rows. */
static uint64_t
loop_buffers (const Loop *l)
{
  return l->p->temp_bytes + (uint64_t) l->n_tiles * TILE_BYTES + (uint64_t) l->n_rows * ROW_BYTES;
}

static void
put_row_slot (CgText *t, Loop *l, int slot)
{
  loop_put_scratch (
      t, l, l->p->temp_bytes + (uint64_t) l->n_tiles * TILE_BYTES + (uint64_t) slot * ROW_BYTES);
}

static void
put_row (CgText *t, Loop *l, uint32_t m)
{
  put_row_slot (t, l, l->rows[m]);
}

/* Prints the address of access k's elements of this chunk. */
static void
put_chunk (CgText *t, Loop *l, uint32_t k)
{
  const Access *a = &l->access[k];
  put (t, "p%u", k);
  if (l->chunked && !a->as_row && a->inner != 0)
    put (t, " + j * %s", BYTES (l->p, a->inner, l->p->values[a->value].elem_bytes));
}

/* Prints the address of member m's elements of this chunk, read or written. */
static void
put_place (CgText *t, Loop *l, uint32_t m)
{
  const CgValue *v = &l->p->values[loop_member (l, m)->out];
  if (l->tiles[m] >= 0) {
    put_tile (t, l, l->tiles[m]);
  } else if (l->buffers[m] != LOOP_NO_BUFFER) {
    loop_put_buffer (t, l, m, loop_buffers (l));
    if (l->chunked)
      put (t, " + j * %u", v->elem_bytes);
  } else if (l->lenders[m] >= 0)
    put_chunk (t, l, (uint32_t) l->lenders[m]);
  else
    put_chunk (t, l, (uint32_t) loop_access (l, loop_member (l, m)->out, false, true));
}

static void
put_length (CgText *t, Loop *l)
{
  if (l->chunked)
    put (t, "n");
  else
    put (t, "%s", LENGTH (l));
}

/* Prints the length of a tile that is filled for the whole row. */
static void
put_tile_length (CgText *t, const Loop *l)
{
  uint32_t tile = l->p->tiles->tile_elems;
  const char *n = SIZE (l->p, l->n);
  if (codegen_is_symbolic (l->n))
    put (t, "%s < %u ? %s : %u", n, tile, n, tile);
  else
    put (t, "%lld", (long long) (l->n < (int64_t) tile ? l->n : tile));
}

static void
put_gather (CgText *t, Loop *l, uint32_t k, bool in_chunk)
{
  const Access *a = &l->access[k];
  char name[GRAMME_TILE_NAME_BYTES];
  add_tile (t, l->p, GRAMME_TILE_GATHER, 0, 0, 0, name);
  put (t, "    %s (", name);
  put_tile (t, l, a->tile);
  put (t, ", ");
  if (in_chunk)
    put_chunk (t, l, k);
  else
    put (t, "p%u", k);
  put (t, ", %s, ", SIZE (l->p, a->inner));
  if (in_chunk)
    put_length (t, l);
  else
    put_tile_length (t, l);
  put (t, ", %u);\n", l->p->values[a->value].elem_bytes);
}

static void
put_operand (CgText *t, Loop *l, uint32_t m, uint32_t value)
{
  int which;
  switch (loop_operand (l, m, value, &which)) {
  case FROM_LITERAL:
    put (t, "%sk%u", t->prefix,
         add_fill (t, l->p, l->p->values[which].bits, l->p->values[which].elem_bytes));
    return;
  case FROM_TILE:
    put_place (t, l, (uint32_t) which);
    return;
  case FROM_ROW:
    if (loop_reads_full (l, m))
      put_tile (t, l, l->spread[which]);
    else
      put_row (t, l, (uint32_t) which);
    return;
  case FROM_MEMORY:
    if (l->access[which].tile >= 0)
      put_tile (t, l, l->access[which].tile);
    else if (loop_reads_full (l, m))
      put_chunk (t, l, (uint32_t) which);
    else
      put (t, "p%d", which);
    return;
  }
}

/* Prints the end of a row for member m: rounds an accumulated value; copies a row value to memory,
 * and over a tile for members that read it at every point. */
static void
put_row_done (CgText *t, Loop *l, uint32_t m)
{
  const CgValue *v = &l->p->values[loop_member (l, m)->out];
  char name[GRAMME_TILE_NAME_BYTES];
  if (loop_casts_at_end (l, m) && loop_fold_dtype (l, m) == GRAMME_DTYPE_F64) {
    put (t, "    *(float *) (");
    put_row (t, l, m);
    put (t, ") = (float) *(double *) ("); /* a call of the tile takes ten times as long */
    put_row_slot (t, l, l->accums[m]);
    put (t, ");\n");
  } else if (loop_casts_at_end (l, m)) {
    add_cast (t, l->p, loop_fold_dtype (l, m), v->dtype, name);
    put (t, "    %s (", name);
    put_row (t, l, m);
    put (t, ", ");
    put_row_slot (t, l, l->accums[m]);
    put (t, ", 1);\n");
  }
  if (v->stored) {
    put (t, "    *(%s *) p%d = *(%s *) (", elem_types[v->elem_bytes],
         loop_access (l, loop_member (l, m)->out, true, true), elem_types[v->elem_bytes]);
    put_row (t, l, m);
    put (t, ");\n");
  }
  if (l->spread[m] >= 0) {
    add_tile (t, l->p, GRAMME_TILE_GATHER, 0, 0, 0, name);
    put (t, "    %s (", name);
    put_tile (t, l, l->spread[m]);
    put (t, ", ");
    put_row (t, l, m);
    put (t, ", 0, ");
    put_tile_length (t, l);
    put (t, ", %u);\n", v->elem_bytes);
  }
}

/* Prints member m and the member before it as one primitive. */
static void
put_pair (CgText *t, Loop *l, uint32_t m)
{
  const GrammeNode *first = loop_member (l, m - 1), *second = loop_member (l, m);
  char name[GRAMME_TILE_NAME_BYTES];
  int which;
  GrammeTileFn fn = loop_pair (l, m - 1, name);
  add_symbol (t, name, GRAMME_TILE_POINTWISE, (const void *) (uintptr_t) fn);
  put (t, "    %s (", name);
  put_place (t, l, m);
  for (uint32_t i = 0; i < 2; i++) {
    put (t, ", ");
    if (i < first->n_in)
      put_operand (t, l, m - 1, gramme_node_in (l->p->image, first, i));
    else
      put (t, "0");
  }
  put (t, ", ");
  if (second->n_in == 1)
    put (t, "0");
  for (uint32_t i = 0; i < second->n_in; i++) {
    uint32_t value = gramme_node_in (l->p->image, second, i);
    if (second->n_in > 1
        && (loop_operand (l, m, value, &which) != FROM_TILE || which != (int) m - 1))
      put_operand (t, l, m, value);
  }
  put (t, ", ");
  put_length (t, l);
  put (t, ");\n");
}

static void
put_one (CgText *t, Loop *l, uint32_t m)
{
  const GrammeNode *n = loop_member (l, m);
  char name[GRAMME_TILE_NAME_BYTES];
  uint32_t family = gramme_op_facts (n->op).family;
  GrammeTileFn fn = codegen_tile (l->p, l->members[m], name);
  uint32_t kind = family == GRAMME_FAMILY_POINTWISE ? GRAMME_TILE_POINTWISE
                  : family == GRAMME_FAMILY_CAST    ? GRAMME_TILE_CAST
                                                    : GRAMME_TILE_FOLD;
  if (kind == GRAMME_TILE_FOLD && codegen_folds_wide (l->p, n, l->n))
    fn =
        l->p->tiles->find (l->p->tiles->ctx, kind, n->op, GRAMME_DTYPE_F32, GRAMME_TILE_WIDE, name);
  add_symbol (t, name, kind, (const void *) (uintptr_t) fn);
  put (t, "    %s (", name);
  if (loop_is_row (l, m))
    put_row_slot (t, l, l->accums[m]);
  else
    put_place (t, l, m);
  for (uint32_t i = 0; i < n->n_in; i++) {
    put (t, ", ");
    put_operand (t, l, m, gramme_node_in (l->p->image, n, i));
  }
  for (uint32_t i = n->n_in; family == GRAMME_FAMILY_POINTWISE && i < 3; i++)
    put (t, ", 0");
  put (t, ", ");
  if (loop_reads_full (l, m))
    put_length (t, l);
  else
    put (t, "1");
  put (t, ");\n");
}

static void
put_member (CgText *t, Loop *l, uint32_t m)
{
  const GrammeNode *n = loop_member (l, m);
  const CgValue *v = &l->p->values[n->out];
  char name[GRAMME_TILE_NAME_BYTES];
  if (l->pairs[m])
    return;
  if (m > 0 && l->pairs[m - 1])
    put_pair (t, l, m);
  else
    put_one (t, l, m);
  int store = v->stored && !loop_is_row (l, m) ? loop_access (l, n->out, false, true) : -1;
  if (store >= 0 && (l->tiles[m] >= 0 || l->buffers[m] != LOOP_NO_BUFFER)) {
    add_tile (t, l->p, GRAMME_TILE_SCATTER, 0, 0, 0, name);
    put (t, "    %s (", name);
    put_chunk (t, l, (uint32_t) store);
    put (t, ", %s, ", SIZE (l->p, l->access[store].inner));
    put_place (t, l, m);
    put (t, ", ");
    put_length (t, l);
    put (t, ", %u);\n", v->elem_bytes);
  }
  /* A fold ends after the last chunk. */
  if (loop_is_row (l, m) && !loop_is_fold (l, m))
    put_row_done (t, l, m);
}

static void
put_fold_starts (CgText *t, Loop *l, int phase)
{
  for (uint32_t m = 0; m < l->s->n_members; m++) {
    if (!loop_is_fold (l, m) || l->phases[m] != phase)
      continue;
    const CgValue *v = &l->p->values[loop_member (l, m)->out];
    uint64_t bits = 0;
    l->p->tiles->reduce_init (l->p->tiles->ctx, loop_member (l, m)->op, v->dtype, &bits);
    uint32_t accum = loop_fold_dtype (l, m);
    if (accum != loop_accum_dtype (l, m))
      bits = 0; /* as float64 */
    put (t, "    *(%s *) (", elem_types[GRAMME_DTYPE_BYTES (accum)]);
    put_row_slot (t, l, l->accums[m]);
    put (t, ") = 0x%llxul;\n", (unsigned long long) bits);
  }
}

/* Prints one walk along the row. */
static void
put_phase (CgText *t, Loop *l, int phase)
{
  uint32_t n = l->s->n_members, tile = l->p->tiles->tile_elems;
  bool any = false;
  for (uint32_t m = 0; m < n; m++) {
    if (l->phases[m] == phase && !loop_reads_full (l, m))
      put_member (t, l, m);
    any = any || (l->phases[m] == phase && loop_reads_full (l, m));
  }
  if (!any)
    return;
  put_fold_starts (t, l, phase);
  if (l->chunked) {
    const char *length = LENGTH (l);
    put (t,
         "    for (unsigned long j = 0; j < %s; j += %u) {\n    unsigned long n = %s - j < %u ? %s "
         "- j "
         ": %u;\n",
         length, tile, length, tile, length, tile);
  }
  for (uint32_t k = 0; k < l->n_access; k++) {
    const Access *a = &l->access[k];
    bool now = false, before = false; /* a row of one chunk is gathered once */
    for (uint32_t m = 0; m < n && a->tile >= 0 && !a->store && a->inner != 0; m++)
      if (loop_reads (l, m, k)) {
        now = now || l->phases[m] == phase;
        before = before || l->phases[m] < phase;
      }
    if (now && (l->chunked || !before))
      put_gather (t, l, k, true);
  }
  for (uint32_t m = 0; m < n; m++)
    if (l->phases[m] == phase && loop_reads_full (l, m))
      put_member (t, l, m);
  if (l->chunked)
    put (t, "    }\n");
  for (uint32_t m = 0; m < n; m++)
    if (l->phases[m] == phase && loop_is_fold (l, m))
      put_row_done (t, l, m);
}

static void
put_body (CgText *t, Loop *l)
{
  loop_put_head (t, l);
  for (uint32_t k = 0; k < l->n_access; k++)
    if (l->access[k].tile >= 0 && !l->access[k].store && l->access[k].inner == 0) {
      /* Elements that are the same at all points are gathered at the first one. */
      if (l->access[k].everywhere && l->n_outer > 0) {
        put (t, l->n_parts ? "    if (!((i0 - lo)" : "    if (!(i0");
        for (int d = 1; d < l->n_outer; d++)
          put (t, " | i%d", d);
        put (t, "))\n  ");
      }
      put_gather (t, l, k, false);
    }
  for (int phase = 0; phase < l->n_phases; phase++)
    put_phase (t, l, phase);
  put (t, "  }\n  }\n");
}

static void
put_loop (CgText *t, const CgProgram *p, uint32_t step)
{
  const CgStep *s = &p->steps[step];
  Loop *l = calloc (1, sizeof (Loop));
  if (!l) {
    t->oom = true;
    return;
  }
  loop_plan (l, p, step, false);
  if (l->unfit)
    t->code = gramme_fail (t->status, GRAMME_UNSUPPORTED, (int32_t) s->members[0],
                           "shapes that are equal only by what is known of symbols");
  CgText outside;
  codegen_parts_plan (l, t);
  codegen_parts_begin (t, l, &outside);
  put_body (t, l);
  loop_take_buffers (t, l, loop_buffers (l));
  codegen_parts_end (t, l, &outside, loop_buffers (l) - p->temp_bytes, put_body);
  free (l);
}

/* -- Other steps ------------------------------------------------------------------------------- */

/* Prints a COLUMNS step with accumulators of another dtype, a tile of columns at a time. */
static void
put_columns_and_cast (CgText *t, const CgProgram *p, const CgStep *s, const char *fold,
                      uint32_t fill, uint32_t dtype, uint32_t accum)
{
  uint32_t tile = p->tiles->tile_elems;
  uint32_t elem = GRAMME_DTYPE_BYTES (dtype);
  char gather[GRAMME_TILE_NAME_BYTES], cast[GRAMME_TILE_NAME_BYTES];
  add_tile (t, p, GRAMME_TILE_GATHER, 0, 0, 0, gather);
  add_cast (t, p, accum, dtype, cast);
  put (t, ", *a = ws + %llu;\n", (unsigned long long) p->temp_bytes);
  const char *width = SIZE (p, s->width), *n_rows = SIZE (p, s->n_rows);
  const char *stride = BYTES (p, s->row_stride, elem);
  put (t, "    for (unsigned long j = 0; j < %s; j += %u) {\n", width, tile);
  put (t, "      unsigned long n = %s - j < %u ? %s - j : %u;\n", width, tile, width, tile);
  put (t, "      %s (a, %sk%u, 0, n, %u);\n", gather, t->prefix, fill,
       (uint32_t) GRAMME_DTYPE_BYTES (accum));
  put (t, "      for (unsigned long r = 0; r < %s; r += %u)\n", n_rows, tile);
  put (t, "        %s (a, x + r * %s + j * %u, %s, %s - r < %u ? %s - r : %u, n);\n", fold, stride,
       elem, stride, n_rows, tile, n_rows, tile);
  put (t, "      %s (y + j * %u, a, n);\n    }\n  }\n", cast, elem);
  if (t->ws_bytes < p->temp_bytes + TILE_BYTES)
    t->ws_bytes = p->temp_bytes + TILE_BYTES;
}

static void
put_columns (CgText *t, const CgProgram *p, uint32_t step)
{
  const CgStep *s = &p->steps[step];
  const GrammeNode *n = gramme_image_node (p->image, s->node);
  uint32_t from = gramme_node_in (p->image, n, 0), elem = p->values[from].elem_bytes;
  uint32_t tile = p->tiles->tile_elems;
  char gather[GRAMME_TILE_NAME_BYTES], fold[GRAMME_TILE_NAME_BYTES];
  uint64_t bits = 0;
  uint32_t dtype = p->values[from].dtype;
  bool wide = codegen_folds_wide (p, n, s->n_rows);
  uint32_t accum = wide ? GRAMME_DTYPE_F64 : gramme_tile_accumulator (dtype);
  if (!wide)
    p->tiles->reduce_init (p->tiles->ctx, n->op, dtype, &bits);
  uint32_t fill = add_fill (t, p, bits, GRAMME_DTYPE_BYTES (accum));
  add_tile (t, p, GRAMME_TILE_GATHER, 0, 0, 0, gather);
  add_tile (t, p, GRAMME_TILE_FOLD_COLUMNS, n->op, dtype, wide ? GRAMME_TILE_WIDE : 0, fold);
  const char *width = SIZE (p, s->width), *n_rows = SIZE (p, s->n_rows);
  const char *stride = BYTES (p, s->row_stride, elem);
  put (t, "  { /* %u: %s of %s columns */\n    char *x = ", step, gramme_op_facts (n->op).name,
       width);
  put_address (t, p, from);
  put (t, ", *y = ");
  put_address (t, p, n->out);
  if (accum != dtype) {
    put_columns_and_cast (t, p, s, fold, fill, dtype, accum);
    return;
  }
  put (t, ";\n    %s (y, %sk%u, 0, %s, %u);\n", gather, t->prefix, fill, width, elem);
  put (t, "    for (unsigned long r = 0; r < %s; r += %u)\n", n_rows, tile);
  put (t, "      %s (y, x + r * %s, %s, %s - r < %u ? %s - r : %u, %s);\n  }\n", fold, stride,
       stride, n_rows, tile, n_rows, tile, width);
}

static GrammeKernel **
next_kernel (CgText *t)
{
  GrammeKernel **kernels = realloc (t->kernels, (t->n_kernels + 1) * sizeof *kernels);
  if (!kernels) {
    t->oom = true;
    return NULL;
  }
  t->kernels = kernels;
  t->kernels[t->n_kernels] = NULL;
  return &t->kernels[t->n_kernels++];
}

static void
put_call (CgText *t, const CgProgram *p, uint32_t step)
{
  const CgStep *s = &p->steps[step];
  GrammeKernel **kernel = next_kernel (t);
  char name[GRAMME_TILE_NAME_BYTES];
  if (!kernel || t->code)
    return;
  uint32_t n_in = 1;
  if (s->kind == CG_COPY) {
    t->code =
        p->kernels->prepare_copy (p->kernels->ctx, p->image, s->from, s->from, kernel, t->status);
    put (t, "  { /* %u: copy to output %u */\n", step, s->to);
  } else {
    const GrammeNode *n = gramme_image_node (p->image, s->node);
    n_in = n->n_in;
    t->code = p->kernels->prepare (p->kernels->ctx, p->image, s->node, kernel, t->status);
    put (t, "  { /* %u: %s */\n", step, gramme_op_facts (n->op).name);
  }
  if (t->code)
    return;
  snprintf (name, sizeof name, "%sh%u", t->prefix, t->n_kernels - 1);
  add_symbol (t, name, 0, *kernel);
  put (t, "    char *d[%u];\n", n_in + 1);
  for (uint32_t i = 0; i < n_in; i++) {
    put (t, "    d[%u] = ", i);
    put_address (t, p,
                 s->kind == CG_COPY
                     ? s->from
                     : gramme_node_in (p->image, gramme_image_node (p->image, s->node), i));
    put (t, ";\n");
  }
  put (t, "    d[%u] = ", n_in);
  if (s->kind == CG_COPY)
    put (t, "out[%u]", s->to);
  else
    put_address (t, p, gramme_image_node (p->image, s->node)->out);
  if (t->sized)
    put (t,
         ";\n    if ((code = gm_run_sized_kernel (%s, d, sz, status)))\n      return code;\n  }\n",
         name);
  else
    put (t, ";\n    if ((code = gm_run_kernel (%s, d, status)))\n      return code;\n  }\n", name);
}

/* -- Programs ---------------------------------------------------------------------------------- */

int32_t
codegen_print_c (const CgProgram *p, const char *name, const char *prefix,
                 const GrammeSource *source, bool vectors, CgText *out, GrammeStatus *status)
{
  CgText body = { .status = status,
                  .ws_bytes = p->temp_bytes,
                  .dynamic_bytes = p->dynamic_bytes,
                  .prefix = prefix,
                  .source = source,
                  .sized = p->image->sizes.count > 0 };
  if (body.sized && !GRAMME_HAS_FN (p->kernels, GrammeKernels, run_sized))
    return gramme_fail (status, GRAMME_UNSUPPORTED, -1,
                        "this host runs no kernels of symbolic sizes");
  if (body.sized)
    add_symbol (&body, "gm_run_sized_kernel", CG_SYMBOL_RUN_SIZED,
                (const void *) (uintptr_t) p->kernels->run_sized);
  else
    add_symbol (&body, "gm_run_kernel", CG_SYMBOL_RUN, (const void *) (uintptr_t) p->kernels->run);
  for (uint32_t s = 0; s < p->n_steps && !body.code; s++) {
    if (p->steps[s].kind == CG_LOOP && vectors && codegen_put_vector_loop (&body, p, s))
      continue;
    if (p->steps[s].kind == CG_LOOP)
      put_loop (&body, p, s);
    else if (p->steps[s].kind == CG_COLUMNS)
      put_columns (&body, p, s);
    else
      put_call (&body, p, s);
  }
  put (&body, "  return code;\n}\n");
  CgText head = { 0 };
  put_declarations (&head, &body);
  put (&head, "%s", body.functions ? body.functions : "");
  free (body.functions);
  body.functions = NULL;
  put (&head,
       "int\n%s (char *const *in, char *const *out, char *ws, const long *sz, void *status)\n{\n  "
       "int "
       "code = 0;\n",
       name);
  body.ws_bytes = (body.ws_bytes + 63) / 64 * 64;
  put_sizes (&head, p);
  if (body.sized)
    put (&head, "  char *dyn = ws + %llu;\n", (unsigned long long) body.ws_bytes);
  put (&head, "%s", body.text ? body.text : "");
  free (body.text);
  body.text = head.text;
  body.len = head.len;
  body.oom = body.oom || head.oom || p->sizes->oom;
  *out = body;
  if (body.oom)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1,
                        "no memory for the text of a graph of %u nodes", p->image->nodes.count);
  return body.code;
}
