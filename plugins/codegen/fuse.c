/* SPDX-License-Identifier: Apache-2.0
 * fuse.c -- divides an image into steps: decides which nodes share a loop.
 *
 * Nodes are processed in order.  A pointwise node, or a reduction over trailing dimensions, joins
 * the first loop in which all its operands exist already: made before that loop, or inside of it at
 * the same point of its space.  A reduction splits its loop's space into rows and the reduced part;
 * from then on values with one element per row live in the loop, too (CG_ROW), and the whole row
 * may use them: it is walked several times (loop_plan.h).  So a softmax becomes one loop.
 * The cast of a vector that one node spreads over many points waits for that node and is done again
 * at each of them, so that half weights of a layer norm do not split its loop.
 *
 * Invariant: a step reads memory that earlier steps have written, and its own tiles.
 * Rejected: recomputing other values, or in several loops.  That would save memory traffic, but
 * costs time when functions are accurate.
 */
#include "plugins/codegen/program.h"

#include <stdlib.h>

#define LOOK_BACK                                                                                  \
  8 /* loops that a node without ties to any is tried on: bounds the work, and lifetimes */

/* -- Values ------------------------------------------------------------------------------------ */

static uint32_t
skip_detach (const CgProgram *p, uint32_t value)
{
  while (p->values[value].view_of != CG_NONE
         && gramme_image_node (p->image, p->values[value].node)->op == GRAMME_OP_detach)
    value = p->values[value].view_of;
  return value;
}

/* Returns the bits of the number as one element of dtype.  Uses the host's own cast, so that there
 * is no second rule to keep equal to it. */
static uint64_t
element_bits (const CgProgram *p, uint32_t dtype, uint32_t kind, int64_t i, double d)
{
  uint64_t bits = 0;
  bool real = kind == GRAMME_SCALAR_FLOAT;
  uint32_t from = real ? GRAMME_DTYPE_F64 : GRAMME_DTYPE_I64;
  GrammeTileFn cast = p->tiles->find (p->tiles->ctx, GRAMME_TILE_CAST, 0, dtype, from, NULL);
  ((GrammeTileCast) cast) (&bits, real ? (const void *) &d : &i, 1);
  return bits;
}

static void
read_values (CgProgram *p)
{
  const GrammeImage *img = p->image;
  for (uint32_t i = 0; i < img->values.count; i++) {
    const GrammeValue *from = gramme_image_value (img, i);
    CgValue *v = &p->values[i];
    v->dtype = GRAMME_DTYPE_OF (from);
    v->elem_bytes = from->dtype_bits / 8;
    v->ndim = from->ndim;
    v->numel = 1;
    v->node = from->producer;
    v->view_of = v->step = CG_NONE;
    v->root = i;
    for (uint32_t d = 0; d < from->ndim; d++) {
      v->sizes[d] = codegen_size_read (p->sizes, img, gramme_value_size (img, from, d), true);
      v->strides[d] = codegen_size_read (p->sizes, img, gramme_value_stride (img, from, d),
                                         from->flags & GRAMME_VALUE_SYMBOLIC_STRIDES);
      v->numel = codegen_size_mul (p->sizes, v->numel, v->sizes[d]);
    }
  }
  for (uint32_t i = 0; i < img->inputs.count; i++) {
    CgValue *v = &p->values[gramme_image_input (img, i)->value];
    v->memory = CG_MEMORY_INPUT;
    v->index = i;
  }
}

static uint32_t
add_step (CgProgram *p, uint8_t kind, uint32_t node)
{
  CgStep *s = &p->steps[p->n_steps];
  s->kind = kind;
  s->node = node;
  s->split = -1;
  return p->n_steps++;
}

static int32_t
add_const (CgProgram *p, CgValue *v, uint64_t bytes, GrammeStatus *status)
{
  void *data = aligned_alloc (64, (bytes + 127) / 64 * 64);
  if (!data)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory for a constant of %llu bytes",
                        (unsigned long long) bytes);
  v->memory = CG_MEMORY_CONST;
  v->index = p->n_consts;
  p->consts[p->n_consts].data = data;
  p->consts[p->n_consts++].bytes = bytes;
  return GRAMME_OK;
}

/* Makes `value` readable as memory for steps that are added later: a literal is stored as a
 * constant, or filled in by a step of its own. */
static int32_t
need_memory (CgProgram *p, uint32_t value, GrammeStatus *status)
{
  CgValue *root = &p->values[p->values[value].root];
  root->stored = true;
  if (!root->literal || root->memory != CG_MEMORY_NONE || root->step != CG_NONE)
    return GRAMME_OK;
  if (codegen_is_symbolic (root->numel)) { /* filled in during each run, by the host's kernel */
    root->step = add_step (p, CG_CALL, root->node);
    return GRAMME_OK;
  }
  int32_t code = add_const (p, root, (uint64_t) root->numel * root->elem_bytes, status);
  if (code == GRAMME_OK) {
    GrammeTileFn gather = p->tiles->find (p->tiles->ctx, GRAMME_TILE_GATHER, 0, 0, 0, NULL);
    ((GrammeTileGather) gather) (p->consts[root->index].data, &root->bits, 0, (size_t) root->numel,
                                 root->elem_bytes);
  }
  return code;
}

static bool
made_before (const CgProgram *p, uint32_t value, uint32_t step)
{
  uint32_t at = p->values[p->values[value].root].step;
  return at == CG_NONE || at < step;
}

/* -- Joining a loop ---------------------------------------------------------------------------- */

/* True if the operand `value` of a node is a tile of step s. */
static bool
is_inside (const CgProgram *p, uint32_t s, uint32_t value)
{
  const CgValue *v = &p->values[skip_detach (p, value)];
  return v->view_of == CG_NONE && v->step == s && v->role == CG_FULL && p->steps[s].kind == CG_LOOP;
}

static bool
waits (const CgProgram *p, uint32_t value)
{
  return p->values[value].sinks && p->values[value].step == CG_NONE;
}

static bool
full_operand_fits (const CgProgram *p, uint32_t s, uint32_t value, int split)
{
  const CgStep *step = &p->steps[s];
  if (waits (p, value))
    value = gramme_node_in (p->image, gramme_image_node (p->image, p->values[value].node), 0);
  int64_t strides[8], run;
  if (codegen_literal (p, value) != CG_NONE || is_inside (p, s, value))
    return true;
  if (codegen_row_value (p, s, value, false) != CG_NONE)
    return true;
  return made_before (p, value, s) && codegen_strides (p, step, value, false, strides)
         && (split < 0
             || codegen_collapses (p, step->sizes, strides, split, (int) step->ndim, &run));
}

static bool
same_sizes (const CgStep *s, const CgValue *v)
{
  if (v->ndim != s->ndim)
    return false;
  for (uint32_t d = 0; d < v->ndim; d++)
    if (v->sizes[d] != s->sizes[d])
      return false;
  return true;
}

static bool
joins_as_full (const CgProgram *p, uint32_t s, const GrammeNode *n)
{
  const CgStep *step = &p->steps[s];
  int64_t strides[8], run;
  if (!same_sizes (step, &p->values[n->out]))
    return false;
  if (step->split >= 0
      && !(codegen_strides (p, step, n->out, false, strides)
           && codegen_collapses (p, step->sizes, strides, step->split, (int) step->ndim, &run)))
    return false;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (!full_operand_fits (p, s, gramme_node_in (p->image, n, i), step->split))
      return false;
  return true;
}

static bool
joins_as_row (const CgProgram *p, uint32_t s, const GrammeNode *n)
{
  const CgStep *step = &p->steps[s];
  int64_t strides[8];
  bool tied = false;
  if (step->split < 0 || !codegen_strides (p, step, n->out, true, strides)
      || p->values[n->out].numel != step->rows)
    return false;
  for (uint32_t i = 0; i < n->n_in; i++) {
    uint32_t value = gramme_node_in (p->image, n, i);
    if (codegen_literal (p, value) != CG_NONE)
      continue;
    if (codegen_row_value (p, s, value, true) != CG_NONE)
      tied = true;
    else if (waits (p, value) || !made_before (p, value, s)
             || !codegen_strides (p, step, value, true, strides))
      return false;
  }
  return tied;
}

static void
set_split (const CgProgram *p, CgStep *s, int split)
{
  s->split = split;
  s->rows = s->inner = 1;
  for (int d = 0; d < (int) s->ndim; d++)
    *(d < split ? &s->rows : &s->inner) =
        codegen_size_mul (p->sizes, d < split ? s->rows : s->inner, s->sizes[d]);
}

/* True if the node `reduce`, a reduction of `value` over the dimensions [split, ndim), can join
 * loop s.  Its operand has the loop's sizes, is no literal and no row value, and its result has one
 * element per row; and the loop has that split, or has none yet and all its accesses are contiguous
 * in those dimensions. */
static bool
joins_as_reduce (const CgProgram *p, uint32_t s, uint32_t value, int split,
                 const GrammeNode *reduce)
{
  uint32_t result = reduce->out, operand = gramme_node_in (p->image, reduce, 0);
  const CgStep *step = &p->steps[s];
  CgStep as_split = *step;
  int64_t strides[8], run;
  set_split (p, &as_split, split);
  if (p->values[result].numel != as_split.rows
      || !codegen_strides (p, &as_split, result, true, strides))
    return false; /* equal symbols are only known in a run */
  if (!same_sizes (step, &p->values[value]) || !same_sizes (step, &p->values[operand])
      || codegen_literal (p, value) != CG_NONE || codegen_row_value (p, s, value, false) != CG_NONE
      || !full_operand_fits (p, s, value, split))
    return false;
  if (step->split >= 0)
    return step->split == split;
  for (uint32_t m = 0; m < step->n_members; m++) {
    const GrammeNode *n = gramme_image_node (p->image, step->members[m]);
    if (!codegen_strides (p, step, n->out, false, strides)
        || !codegen_collapses (p, step->sizes, strides, split, (int) step->ndim, &run))
      return false;
    for (uint32_t i = 0; i < n->n_in; i++)
      if (!full_operand_fits (p, s, gramme_node_in (p->image, n, i), split))
        return false;
  }
  return true;
}

static uint32_t
add_loop (CgProgram *p, const CgValue *space)
{
  uint32_t s = add_step (p, CG_LOOP, CG_NONE);
  p->steps[s].ndim = space->ndim;
  for (uint32_t d = 0; d < space->ndim; d++)
    p->steps[s].sizes[d] = space->sizes[d];
  return s;
}

static int32_t
add_member (CgProgram *p, uint32_t s, uint32_t node, CgRole role, GrammeStatus *status)
{
  CgStep *step = &p->steps[s];
  const GrammeNode *n = gramme_image_node (p->image, node);
  step->members[step->n_members++] = node;
  p->values[n->out].step = s;
  p->values[n->out].role = role;
  for (uint32_t i = 0; i < n->n_in; i++) {
    uint32_t value = gramme_node_in (p->image, n, i);
    if (codegen_literal (p, value) == CG_NONE && made_before (p, value, s)) {
      int32_t code = need_memory (p, value, status);
      if (code)
        return code;
    }
  }
  return GRAMME_OK;
}

static int32_t
add_call (CgProgram *p, uint32_t node, GrammeStatus *status)
{
  const GrammeNode *n = gramme_image_node (p->image, node);
  for (uint32_t i = 0; i < n->n_in; i++) {
    int32_t code = need_memory (p, gramme_node_in (p->image, n, i), status);
    if (code)
      return code;
  }
  p->values[n->out].step = add_step (p, CG_CALL, node);
  p->values[n->out].stored = true;
  return GRAMME_OK;
}

/* Returns the first step that may contain a node that reads these values, none further back than
 * LOOK_BACK steps. */
static uint32_t
earliest (const CgProgram *p, const GrammeNode *n)
{
  uint32_t first = p->n_steps > LOOK_BACK ? p->n_steps - LOOK_BACK : 0;
  for (uint32_t i = 0; i < n->n_in; i++) {
    uint32_t at = p->values[p->values[gramme_node_in (p->image, n, i)].root].step;
    if (at != CG_NONE && at > first)
      first = at;
  }
  return first;
}

/* Adds the node to loop s, and before it the casts that were postponed to their single reader. */
static int32_t
add_full (CgProgram *p, uint32_t s, uint32_t node, GrammeStatus *status)
{
  const GrammeNode *n = gramme_image_node (p->image, node);
  for (uint32_t i = 0; i < n->n_in; i++) {
    uint32_t value = gramme_node_in (p->image, n, i);
    if (waits (p, value)) {
      int32_t code = add_member (p, s, p->values[value].node, CG_FULL, status);
      if (code)
        return code;
    }
  }
  return add_member (p, s, node, CG_FULL, status);
}

static int32_t
place_pointwise (CgProgram *p, uint32_t node, GrammeStatus *status)
{
  const GrammeNode *n = gramme_image_node (p->image, node);
  for (uint32_t s = earliest (p, n); s < p->n_steps; s++) {
    if (p->steps[s].kind != CG_LOOP || p->steps[s].n_members + n->n_in >= CG_MAX_MEMBERS)
      continue;
    if (joins_as_full (p, s, n))
      return add_full (p, s, node, status);
    if (joins_as_row (p, s, n))
      return add_member (p, s, node, CG_ROW, status);
  }
  uint32_t s = add_loop (p, &p->values[n->out]);
  if (joins_as_full (p, s, n))
    return add_full (p, s, node, status);
  p->n_steps--;
  for (uint32_t i = 0; i < n->n_in; i++) {
    uint32_t value = gramme_node_in (p->image, n, i);
    if (waits (p, value)) {
      int32_t code = add_call (p, p->values[value].node, status);
      if (code)
        return code;
    }
  }
  return add_call (p, node, status);
}

static bool
is_vector (const CgValue *v)
{
  uint32_t n = 0;
  for (uint32_t d = 0; d < v->ndim; d++)
    n += v->sizes[d] != 1;
  return n == 1;
}

/* Marks values that are computed in the loop of their single reader, which is pointwise and has
 * another shape. */
static int32_t
find_sinking (CgProgram *p, GrammeStatus *status)
{
  const GrammeImage *img = p->image;
  uint32_t *readers = calloc ((size_t) p->n_values + 1, sizeof *readers);
  if (!readers)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to read a graph of %u nodes",
                        img->nodes.count);
  for (uint32_t i = 0; i < img->nodes.count; i++)
    for (uint32_t k = 0; k < gramme_image_node (img, i)->n_in; k++)
      readers[gramme_node_in (img, gramme_image_node (img, i), k)]++;
  for (uint32_t i = 0; i < img->outputs.count; i++)
    readers[gramme_image_output (img, i)->value] += 2;
  for (uint32_t i = 0; i < img->nodes.count; i++) {
    const GrammeNode *n = gramme_image_node (img, i);
    for (uint32_t k = 0; k < n->n_in && gramme_op_facts (n->op).family == GRAMME_FAMILY_POINTWISE;
         k++) {
      uint32_t value = gramme_node_in (img, n, k);
      CgValue *v = &p->values[value];
      int64_t numel = p->values[n->out].numel;
      if (readers[value] != 1 || v->node == CG_NONE || numel == 0 || v->numel == numel
          || !is_vector (v))
        continue;
      const GrammeNode *made = gramme_image_node (img, v->node);
      v->sinks = made->op == GRAMME_OP_cast && codegen_tile (p, i, NULL)
                 && codegen_tile (p, v->node, NULL);
    }
  }
  free (readers);
  return GRAMME_OK;
}

/* -- Reductions -------------------------------------------------------------------------------- */

/* Returns the dimensions that a REDUCE node reduces, as bits; none listed means all. */
static uint32_t
reduced_dims (const CgProgram *p, const GrammeNode *n, uint32_t ndim)
{
  const GrammeAttr *dims = gramme_node_attr (p->image, n, GRAMME_ATTR_DIMS);
  if (!dims || dims->count == 0)
    return (1u << ndim) - 1;
  uint32_t mask = 0;
  for (uint32_t i = 0; i < dims->count; i++) {
    int64_t d = gramme_attr_int (p->image, dims, i);
    mask |= 1u << (d < 0 ? d + ndim : d);
  }
  return mask;
}

/* Returns where the reduced dimensions begin if kept ones come first and reduced ones last (sizes
 * of 1 count as either); else -1. */
static int
trailing_split (const CgValue *v, uint32_t mask)
{
  int split = (int) v->ndim;
  while (split > 0 && (mask >> (split - 1) & 1 || v->sizes[split - 1] == 1))
    split--;
  for (int d = 0; d < split; d++)
    if (mask >> d & 1 && v->sizes[d] != 1)
      return -1;
  return split;
}

/* Fills in a COLUMNS step if reduced dimensions come first, and kept ones last and contiguous;
 * false: the layout is another. */
static bool
column_geometry (const CgProgram *p, const CgValue *v, uint32_t mask, CgStep *s)
{
  int split = 0;
  int64_t kept_stride;
  while (split < (int) v->ndim && (mask >> split & 1 || v->sizes[split] == 1))
    split++;
  s->n_rows = s->width = 1;
  for (int d = 0; d < (int) v->ndim; d++) {
    if (d >= split && mask >> d & 1 && v->sizes[d] != 1)
      return false;
    *(d < split ? &s->n_rows : &s->width) =
        codegen_size_mul (p->sizes, d < split ? s->n_rows : s->width, v->sizes[d]);
  }
  return codegen_collapses (p, v->sizes, v->strides, 0, split, &s->row_stride)
         && codegen_collapses (p, v->sizes, v->strides, split, (int) v->ndim, &kept_stride)
         && (kept_stride == 1 || !codegen_size_may_exceed (s->width, 1));
}

/* Minimum of elements in a sum of columns that is worth dividing among threads, which the host's
 * kernel does. */
#define LARGE_COLUMNS (INT64_C (1) << 17)

static bool
is_small_reduction (const CgValue *v)
{
  return codegen_is_symbolic (v->numel) || v->numel < LARGE_COLUMNS;
}

static int32_t
place_reduce (CgProgram *p, uint32_t node, GrammeStatus *status)
{
  const GrammeNode *n = gramme_image_node (p->image, node);
  uint32_t value = skip_detach (p, gramme_node_in (p->image, n, 0));
  const CgValue *v = &p->values[value];
  uint32_t mask = reduced_dims (p, n, v->ndim);
  int split = v->numel == 0 ? -1 : trailing_split (v, mask);
  if (split >= 0) {
    for (uint32_t s = earliest (p, n); s < p->n_steps; s++)
      if (p->steps[s].kind == CG_LOOP && p->steps[s].n_members < CG_MAX_MEMBERS
          && joins_as_reduce (p, s, value, split, n)) {
        set_split (p, &p->steps[s], split);
        return add_member (p, s, node, CG_ROW, status);
      }
    uint32_t s = add_loop (p, v);
    if (joins_as_reduce (p, s, value, split, n)) {
      set_split (p, &p->steps[s], split);
      return add_member (p, s, node, CG_ROW, status);
    }
    p->n_steps--;
  }
  CgStep columns = { 0 };
  if (v->numel != 0 && is_small_reduction (v) && column_geometry (p, v, mask, &columns)
      && p->values[n->out].numel == columns.width
      && p->tiles->find (p->tiles->ctx, GRAMME_TILE_FOLD_COLUMNS, n->op, v->dtype, 0, NULL)) {
    int32_t code = need_memory (p, value, status);
    if (code)
      return code;
    uint32_t s = add_step (p, CG_COLUMNS, node);
    p->steps[s].n_rows = columns.n_rows;
    p->steps[s].width = columns.width;
    p->steps[s].row_stride = columns.row_stride;
    p->values[n->out].step = s;
    p->values[n->out].stored = true;
    return GRAMME_OK;
  }
  return add_call (p, node, status);
}

/* -- The program ------------------------------------------------------------------------------- */

static int32_t
place_constant (CgProgram *p, uint32_t node, GrammeStatus *status)
{
  const GrammeNode *n = gramme_image_node (p->image, node);
  CgValue *v = &p->values[n->out];
  for (uint32_t i = 0; i < p->image->constants.count; i++) {
    const GrammeConstant *c = gramme_image_constant (p->image, i);
    if (c->value != n->out)
      continue;
    const GrammeTensor *t = &p->constants[c->slot];
    uint64_t bytes =
        (uint64_t) gramme_value_extent (p->image, gramme_image_value (p->image, n->out))
        * v->elem_bytes;
    int32_t code = add_const (p, v, bytes, status);
    if (code == GRAMME_OK && bytes)
      memcpy (p->consts[v->index].data, gramme_tensor_address (t), bytes);
    v->stored = true;
    return code;
  }
  return gramme_fail (status, GRAMME_INVALID, (int32_t) node,
                      "the constant of node %u is not in the constants table", node);
}

static bool
has_symbols (const CgValue *v)
{
  for (uint32_t d = 0; d < v->ndim; d++)
    if (codegen_is_symbolic (v->sizes[d]) || codegen_is_symbolic (v->strides[d]))
      return true;
  return false;
}

/* Computes the distance of a view's first element from its input's, in bytes. Where all sizes are
 * numbers, the host computes it, and checks the strides. */
static int32_t
view_offset (const CgProgram *p, uint32_t node, int64_t *bytes, GrammeStatus *status)
{
  const GrammeNode *n = gramme_image_node (p->image, node);
  const CgValue *from = &p->values[gramme_node_in (p->image, n, 0)];
  if (!has_symbols (from) && !has_symbols (&p->values[n->out]))
    return p->kernels->view_offset (p->kernels->ctx, p->image, node, bytes, status);
  switch (n->op) {
  case GRAMME_OP_slice: {
    int64_t dim = gramme_node_int (p->image, n, GRAMME_ATTR_DIM, 0);
    int64_t start = codegen_size_read (p->sizes, p->image,
                                       gramme_node_int (p->image, n, GRAMME_ATTR_START, 0), true);
    *bytes = codegen_size_mul (p->sizes, codegen_size_mul (p->sizes, start, from->strides[dim]),
                               from->elem_bytes);
    return GRAMME_OK;
  }
  case GRAMME_OP_diagonal: {
    int64_t column =
        gramme_attr_int (p->image, gramme_node_attr (p->image, n, GRAMME_ATTR_DIMS), 1);
    int64_t start = codegen_size_read (p->sizes, p->image,
                                       gramme_node_int (p->image, n, GRAMME_ATTR_START, 0), true);
    *bytes = codegen_size_mul (p->sizes, codegen_size_mul (p->sizes, start, from->strides[column]),
                               from->elem_bytes);
    return GRAMME_OK;
  }
  case GRAMME_OP_permute:
  case GRAMME_OP_expand:
  case GRAMME_OP_view:
  case GRAMME_OP_unfold:
  case GRAMME_OP_bitcast:
  case GRAMME_OP_detach:
    *bytes = 0;
    return GRAMME_OK;
  default:
    return gramme_fail (status, GRAMME_UNSUPPORTED, (int32_t) node,
                        "%s of a tensor of symbolic shape", gramme_op_facts (n->op).name);
  }
}

static int32_t
place_node (CgProgram *p, uint32_t node, GrammeStatus *status)
{
  const GrammeNode *n = gramme_image_node (p->image, node);
  CgValue *out = &p->values[n->out];
  uint32_t family = gramme_op_facts (n->op).family;
  if (family == GRAMME_FAMILY_MOVEMENT) {
    uint32_t from = gramme_node_in (p->image, n, 0);
    int64_t bytes = 0;
    int32_t code = view_offset (p, node, &bytes, status);
    out->view_of = from;
    out->root = p->values[from].root;
    out->recast = n->op == GRAMME_OP_bitcast || p->values[from].recast;
    out->view_bytes = codegen_size_add (p->sizes, p->values[from].view_bytes, bytes);
    if (code == GRAMME_OK && out->recast && p->values[out->root].literal)
      code = need_memory (p, from, status); /* now, since the reader may join an earlier loop */
    return code;
  }
  if (n->op == GRAMME_OP_constant)
    return place_constant (p, node, status);
  const GrammeAttr *a = gramme_node_attr (p->image, n, GRAMME_ATTR_VALUE);
  if (n->op == GRAMME_OP_full && !gramme_attr_is_symbolic (p->image, a)) {
    out->literal = true;
    out->bits =
        element_bits (p, out->dtype, gramme_attr_scalar_kind (p->image, a),
                      gramme_attr_int (p->image, a, 1), gramme_attr_scalar_double (p->image, a));
    return GRAMME_OK;
  }
  if (out->sinks && made_before (p, gramme_node_in (p->image, n, 0), 0)
      && codegen_literal (p, gramme_node_in (p->image, n, 0)) == CG_NONE)
    return GRAMME_OK;
  out->sinks = false;
  if (out->numel != 0 && n->n_in > 0 && codegen_tile (p, node, NULL)) {
    if (family == GRAMME_FAMILY_REDUCE)
      return place_reduce (p, node, status);
    return place_pointwise (p, node, status);
  }
  return add_call (p, node, status);
}

static int32_t
place_outputs (CgProgram *p, GrammeStatus *status)
{
  for (uint32_t i = 0; i < p->image->outputs.count; i++) {
    uint32_t value = gramme_image_output (p->image, i)->value;
    CgValue *v = &p->values[value];
    if (v->view_of == CG_NONE && !v->literal && v->memory == CG_MEMORY_NONE) {
      v->memory = CG_MEMORY_OUTPUT;
      v->index = i;
      v->stored = true;
      continue;
    }
    int32_t code = need_memory (p, value, status);
    if (code)
      return code;
    uint32_t s = add_step (p, CG_COPY, CG_NONE);
    p->steps[s].from = value;
    p->steps[s].to = i;
  }
  for (uint32_t v = 0; v < p->n_values; v++)
    if (p->values[v].stored && p->values[v].root == v && p->values[v].memory == CG_MEMORY_NONE)
      p->values[v].memory = CG_MEMORY_TEMP;
  return GRAMME_OK;
}

int32_t
codegen_build (CgProgram *p, const GrammeImage *image, const GrammeTensor *constants,
               const GrammeTiles *tiles, const GrammeKernels *kernels, GrammeStatus *status)
{
  *p = (CgProgram){ .image = image,
                    .tiles = tiles,
                    .kernels = kernels,
                    .constants = constants,
                    .n_values = image->values.count };
  p->values = calloc (p->n_values + 1, sizeof (CgValue));
  p->steps = calloc (image->nodes.count + image->outputs.count + 1, sizeof (CgStep));
  p->consts = calloc (p->n_values + 1, sizeof *p->consts);
  p->sizes = calloc (1, sizeof *p->sizes);
  if (!p->values || !p->steps || !p->consts || !p->sizes)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to read a graph of %u nodes",
                        image->nodes.count);
  int32_t code = GRAMME_OK;
  read_values (p);
  code = find_sinking (p, status);
  /* Nodes without operands come first, so that no loop has to end before them. */
  for (int made = 0; made < 2; made++)
    for (uint32_t i = 0; i < image->nodes.count && code == GRAMME_OK; i++) {
      const GrammeNode *n = gramme_image_node (image, i);
      if ((n->n_in > 0) == made)
        code = place_node (p, i, status);
    }
  if (code == GRAMME_OK)
    code = place_outputs (p, status);
  if (code == GRAMME_OK)
    code = codegen_plan_memory (p, status);
  if (code == GRAMME_OK)
    code = codegen_find_shared (p, status);
  if (code == GRAMME_OK && p->sizes->oom)
    code = gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory for the sizes of a graph");
  return code;
}

void
codegen_free (CgProgram *p)
{
  for (uint32_t i = 0; i < p->n_consts; i++)
    free (p->consts[i].data);
  free (p->values);
  free (p->steps);
  free (p->consts);
  free (p->shared);
  if (p->sizes)
    codegen_sizes_free (p->sizes);
  free (p->sizes);
  *p = (CgProgram){ 0 };
}
