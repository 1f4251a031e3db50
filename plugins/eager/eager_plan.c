/* SPDX-License-Identifier: Apache-2.0
 * eager_plan.c -- places for values: roots and views, outputs in place, temporaries with lifetimes,
 * and the steps in their order.
 *
 * Passes, each over the nodes once:
 *   roots     each value's root (the value that owns the memory) and its distance from it
 *   outputs   a root that an output shows entirely lives in that output's memory; other outputs
 *             become copies
 *   steps     a kernel per computing node, copies right after what they copy is there; last uses
 *   storage   temporaries by first fit in the order of steps: a result's place is found before its
 *             operands' are given back, but an elementwise result may take over an operand's
 */
#include "plugins/eager/eager_plan.h"

#include <stdbool.h>
#include <stdlib.h>

#define ALIGN 64u
#define NOWHERE 0xffffffffu

typedef struct {
  uint32_t root;        /* a value; itself if it owns its memory */
  int64_t offset;       /* bytes from the root's first element */
  uint8_t whole;        /* true if it shows the same elements as the root, each once */
  uint32_t base;        /* for roots: NOWHERE until it is known */
  int64_t at;           /* for roots: bytes after the base */
  uint32_t first, last; /* for roots: the steps that write it and that use it last */
} Value;

typedef struct {
  uint64_t at, bytes;
} Gap;

typedef struct {
  Plan *p;
  const GrammeHost *host;
  const GrammeKernels *kernels;
  const GrammeImage *image;
  GrammeStatus *status;
  Value *values;
  uint32_t *copies; /* outputs that become copies */
  uint32_t n_copies;
  uint32_t *operand_values; /* by operand: the value, or NOWHERE for a copy's result */
  Gap *gaps;                /* free parts of the workspace, by address; disjoint and not adjacent */
  uint32_t n_gaps;
} Work;

static uint64_t
round_up (uint64_t bytes)
{
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static uint64_t
value_bytes (const GrammeImage *image, uint32_t v)
{
  const GrammeValue *row = gramme_image_value (image, v);
  return (uint64_t) gramme_value_extent (image, row) * (row->dtype_bits / 8u);
}

static int32_t
no_memory (Work *w)
{
  return gramme_fail (w->status, GRAMME_NO_MEMORY, -1,
                      "no memory for the plan of a graph with %u nodes", w->image->nodes.count);
}

/* -- Roots ------------------------------------------------------------------------------------- */

static int32_t
find_roots (Work *w)
{
  const GrammeImage *image = w->image;
  for (uint32_t i = 0; i < image->values.count; i++)
    w->values[i] = (Value){ .root = i, .whole = 1, .base = NOWHERE };
  for (uint32_t i = 0; i < image->inputs.count; i++)
    w->values[gramme_image_input (image, i)->value].base = i;
  uint64_t at = 0;
  for (uint32_t i = 0; i < image->constants.count; i++) {
    Value *v = &w->values[gramme_image_constant (image, i)->value];
    v->base = PLAN_CONSTANTS (w->p);
    v->at = (int64_t) at;
    at += round_up (value_bytes (image, gramme_image_constant (image, i)->value));
  }
  w->p->constant_bytes = at;
  for (uint32_t i = 0; i < image->nodes.count; i++) {
    const GrammeNode *n = gramme_image_node (image, i);
    if (gramme_op_facts (n->op).family != GRAMME_FAMILY_MOVEMENT)
      continue;
    int64_t offset;
    int32_t code = w->kernels->view_offset (w->kernels->ctx, image, i, &offset, w->status);
    if (code != GRAMME_OK)
      return code;
    uint32_t from = gramme_node_in (image, n, 0);
    Value *v = &w->values[n->out];
    v->root = w->values[from].root;
    v->offset = w->values[from].offset + offset;
    /* Compared step by step: a slice that is repeated may have as many elements as the root without
     * being the root. */
    v->whole = w->values[from].whole
               && gramme_value_numel (image, gramme_image_value (image, n->out))
                      == gramme_value_numel (image, gramme_image_value (image, from));
  }
  return GRAMME_OK;
}

static int32_t
copy_constants (Work *w, const GrammeTensor *constants)
{
  Plan *p = w->p;
  if (p->constant_bytes == 0)
    return GRAMME_OK;
  p->constants = w->host->alloc (w->host->ctx, p->constant_bytes, ALIGN);
  if (!p->constants)
    return gramme_fail (w->status, GRAMME_NO_MEMORY, -1, "no memory for %llu bytes of constants",
                        (unsigned long long) p->constant_bytes);
  for (uint32_t i = 0; i < w->image->constants.count; i++) {
    const GrammeConstant *c = gramme_image_constant (w->image, i);
    uint64_t bytes = value_bytes (w->image, c->value);
    if (bytes)
      memcpy ((char *) p->constants + w->values[c->value].at,
              gramme_tensor_address (&constants[c->slot]), bytes);
  }
  return GRAMME_OK;
}

/* -- Outputs ----------------------------------------------------------------------------------- */

static void
place_outputs (Work *w)
{
  for (uint32_t i = 0; i < w->image->outputs.count; i++) {
    const Value *v = &w->values[gramme_image_output (w->image, i)->value];
    Value *root = &w->values[v->root];
    if (root->base == NOWHERE && v->whole && v->offset == 0)
      root->base = w->p->n_in + i;
    else
      w->copies[w->n_copies++] = i;
  }
}

/* -- Steps ------------------------------------------------------------------------------------- */

static void
add_operand (Work *w, uint32_t value)
{
  Value *root = &w->values[w->values[value].root];
  root->last = w->p->n_steps;
  w->operand_values[w->p->n_operands++] = value;
}

static void
add_step (Work *w, GrammeKernel *kernel, uint32_t first_operand, uint32_t node)
{
  w->p->steps[w->p->n_steps++] = (Step){ kernel, first_operand, node };
}

static int32_t
add_kernel (Work *w, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (w->image, node);
  GrammeKernel *kernel;
  int32_t code = w->kernels->prepare (w->kernels->ctx, w->image, node, &kernel, w->status);
  if (code != GRAMME_OK)
    return code;
  uint32_t first = w->p->n_operands;
  for (uint32_t i = 0; i < n->n_in; i++)
    add_operand (w, gramme_node_in (w->image, n, i));
  w->values[n->out].first = w->p->n_steps;
  add_operand (w, n->out);
  add_step (w, kernel, first, node);
  return GRAMME_OK;
}

/* Adds copies of value v to the outputs that have to copy it, because v could not be made in their
 * memory. */
static int32_t
add_copies (Work *w, uint32_t v)
{
  for (uint32_t i = 0; i < w->n_copies; i++) {
    uint32_t output = w->copies[i];
    if (gramme_image_output (w->image, output)->value != v)
      continue;
    GrammeKernel *kernel;
    int32_t code = w->kernels->prepare_copy (w->kernels->ctx, w->image, v, v, &kernel, w->status);
    if (code != GRAMME_OK)
      return code;
    uint32_t first = w->p->n_operands;
    add_operand (w, v);
    w->p->operands[w->p->n_operands] = (Place){ w->p->n_in + output, 0 };
    w->operand_values[w->p->n_operands++] = NOWHERE;
    add_step (w, kernel, first, GRAMME_NONE);
  }
  return GRAMME_OK;
}

static int32_t
make_steps (Work *w)
{
  const GrammeImage *image = w->image;
  int32_t code = GRAMME_OK;
  for (uint32_t i = 0; i < image->inputs.count && code == GRAMME_OK; i++)
    code = add_copies (w, gramme_image_input (image, i)->value);
  for (uint32_t i = 0; i < image->nodes.count && code == GRAMME_OK; i++) {
    const GrammeNode *n = gramme_image_node (image, i);
    bool computes =
        gramme_op_facts (n->op).family != GRAMME_FAMILY_MOVEMENT && n->op != GRAMME_OP_constant;
    if (computes)
      code = add_kernel (w, i);
    if (code == GRAMME_OK)
      code = add_copies (w, n->out);
  }
  return code;
}

/* -- Storage ----------------------------------------------------------------------------------- */

static int64_t
take (Work *w, uint64_t bytes)
{
  for (uint32_t i = 0; i < w->n_gaps; i++) {
    Gap *g = &w->gaps[i];
    if (g->bytes < bytes)
      continue;
    uint64_t at = g->at;
    g->at += bytes;
    g->bytes -= bytes;
    if (g->bytes == 0)
      memmove (g, g + 1, (--w->n_gaps - i) * sizeof *g);
    return (int64_t) at;
  }
  /* No gap is large enough: the last one grows if it touches the end. */
  uint64_t at = w->p->temporary_bytes;
  if (w->n_gaps > 0 && w->gaps[w->n_gaps - 1].at + w->gaps[w->n_gaps - 1].bytes == at)
    at = w->gaps[--w->n_gaps].at;
  w->p->temporary_bytes = at + bytes;
  return (int64_t) at;
}

static void
give (Work *w, uint64_t at, uint64_t bytes)
{
  uint32_t i = 0;
  while (i < w->n_gaps && w->gaps[i].at < at)
    i++;
  bool joins_before = i > 0 && w->gaps[i - 1].at + w->gaps[i - 1].bytes == at;
  bool joins_after = i < w->n_gaps && at + bytes == w->gaps[i].at;
  if (joins_before && joins_after) {
    w->gaps[i - 1].bytes += bytes + w->gaps[i].bytes;
    memmove (&w->gaps[i], &w->gaps[i + 1], (--w->n_gaps - i) * sizeof *w->gaps);
  } else if (joins_before) {
    w->gaps[i - 1].bytes += bytes;
  } else if (joins_after) {
    w->gaps[i].at = at;
    w->gaps[i].bytes += bytes;
  } else {
    memmove (&w->gaps[i + 1], &w->gaps[i], (w->n_gaps++ - i) * sizeof *w->gaps);
    w->gaps[i] = (Gap){ at, bytes };
  }
}

/* Frees the temporaries that step s uses for the last time. */
static void
give_operands (Work *w, uint32_t s, uint32_t end)
{
  for (uint32_t i = w->p->steps[s].first_operand; i < end; i++) {
    uint32_t value = w->operand_values[i];
    if (value == NOWHERE)
      continue;
    Value *root = &w->values[w->values[value].root];
    if (root->base != PLAN_WORKSPACE (w->p) || root->last != s)
      continue;
    give (w, (uint64_t) root->at, round_up (value_bytes (w->image, w->values[value].root)));
    root->last = NOWHERE; /* freed only once, also if it is two operands */
  }
}

static bool
same_layout (const GrammeImage *image, uint32_t a, uint32_t b)
{
  const GrammeValue *x = gramme_image_value (image, a), *y = gramme_image_value (image, b);
  if (GRAMME_DTYPE_OF (x) != GRAMME_DTYPE_OF (y) || x->ndim != y->ndim)
    return false;
  for (uint32_t d = 0; d < x->ndim; d++)
    if (gramme_value_size (image, x, d) != gramme_value_size (image, y, d)
        || gramme_value_stride (image, x, d) != gramme_value_stride (image, y, d))
      return false;
  return true;
}

/* True if step s, which ends at operand `end`, may write its result over `value`: a temporary that
 * it reads for the last time, element by element and in no other way. */
static bool
may_overwrite (const Work *w, uint32_t s, uint32_t end, uint32_t value, uint32_t result)
{
  const Step *step = &w->p->steps[s];
  uint32_t root = w->values[value].root;
  if (step->node == GRAMME_NONE || root != value || w->values[root].last != s
      || w->values[root].base != PLAN_WORKSPACE (w->p)
      || gramme_op_facts (gramme_image_node (w->image, step->node)->op).family
             != GRAMME_FAMILY_POINTWISE)
    return false;
  for (uint32_t i = step->first_operand; i + 1 < end; i++)
    if (w->operand_values[i] != value && w->values[w->operand_values[i]].root == root)
      return false;
  return same_layout (w->image, value, result);
}

/* True if step s reads all operands of its result's size in their own layout, in the order of its
 * result. */
static bool
is_elementwise (const Work *w, uint32_t s, uint32_t end)
{
  const Step *step = &w->p->steps[s];
  if (step->node == GRAMME_NONE || w->operand_values[end - 1] == NOWHERE
      || gramme_op_facts (gramme_image_node (w->image, step->node)->op).family
             != GRAMME_FAMILY_POINTWISE)
    return false;
  for (uint32_t i = step->first_operand; i + 1 < end; i++) {
    uint32_t value = w->operand_values[i];
    if (value == NOWHERE)
      return false;
    bool is_input = w->values[w->values[value].root].base < w->p->n_in;
    if (is_input && !same_layout (w->image, value, w->operand_values[end - 1]))
      return false;
  }
  return true;
}

static void
place_result (Work *w, uint32_t s, uint32_t end, uint32_t result)
{
  Value *v = &w->values[result];
  v->base = PLAN_WORKSPACE (w->p);
  for (uint32_t i = w->p->steps[s].first_operand; i + 1 < end; i++) {
    uint32_t value = w->operand_values[i];
    if (!may_overwrite (w, s, end, value, result))
      continue;
    v->at = w->values[value].at;
    w->values[value].last = NOWHERE; /* its place is not freed, since it becomes the result's */
    return;
  }
  v->at = take (w, round_up (value_bytes (w->image, result)));
}

static void
place_temporaries (Work *w)
{
  Plan *p = w->p;
  for (uint32_t s = 0; s < p->n_steps; s++) {
    uint32_t end = s + 1 < p->n_steps ? p->steps[s + 1].first_operand : p->n_operands;
    uint32_t result = w->operand_values[end - 1];
    if (result != NOWHERE && w->values[result].base == NOWHERE)
      place_result (w, s, end, result);
    p->steps[s].elementwise = is_elementwise (w, s, end);
    for (uint32_t i = p->steps[s].first_operand; i < end; i++) {
      uint32_t value = w->operand_values[i];
      if (value != NOWHERE) {
        const Value *v = &w->values[value], *root = &w->values[v->root];
        p->operands[i] = (Place){ root->base, root->at + v->offset };
      }
    }
    give_operands (w, s, end);
  }
}

/* -- All --------------------------------------------------------------------------------------- */

static int32_t
make (Work *w, const GrammeTensor *constants)
{
  Plan *p = w->p;
  const GrammeImage *image = w->image;
  size_t n_steps = (size_t) image->nodes.count + image->outputs.count;
  size_t n_operands =
      (size_t) image->refs.count + image->nodes.count + 2 * (size_t) image->outputs.count;
  w->values = calloc (image->values.count + 1u, sizeof *w->values);
  w->copies = calloc (image->outputs.count + 1u, sizeof *w->copies);
  w->operand_values = calloc (n_operands + 1, sizeof *w->operand_values);
  w->gaps = calloc (image->values.count + 1u, sizeof *w->gaps);
  p->steps = calloc (n_steps + 1, sizeof *p->steps);
  p->operands = calloc (n_operands + 1, sizeof *p->operands);
  if (!w->values || !w->copies || !w->operand_values || !w->gaps || !p->steps || !p->operands)
    return no_memory (w);
  int32_t code = find_roots (w);
  if (code == GRAMME_OK)
    code = copy_constants (w, constants);
  if (code != GRAMME_OK)
    return code;
  place_outputs (w);
  code = make_steps (w);
  if (code == GRAMME_OK)
    place_temporaries (w);
  return code;
}

int32_t
plan_make (Plan *p, const GrammeHost *host, const GrammeKernels *kernels, const GrammeImage *image,
           const GrammeTensor *constants, GrammeStatus *status)
{
  p->n_in = image->inputs.count;
  p->n_out = image->outputs.count;
  Work w = { .p = p, .host = host, .kernels = kernels, .image = image, .status = status };
  int32_t code = make (&w, constants);
  free (w.values);
  free (w.copies);
  free (w.operand_values);
  free (w.gaps);
  return code;
}

/* True if all of the input is read before the first byte of the output is written, or by the step
 * that writes the output, element by element. */
bool
plan_may_share (const Plan *p, uint32_t input, uint32_t output)
{
  bool written = false;
  if (input >= p->n_in || output >= p->n_out)
    return false;
  for (uint32_t s = 0; s < p->n_steps; s++) {
    uint32_t end = s + 1 < p->n_steps ? p->steps[s + 1].first_operand : p->n_operands,
             last = end - 1;
    bool writes = p->operands[last].base == p->n_in + output;
    for (uint32_t i = p->steps[s].first_operand; i < last; i++)
      if (p->operands[i].base == input
          && (written
              || (writes
                  && (!p->steps[s].elementwise || p->operands[i].offset
                      || p->operands[last].offset))))
        return false;
    written |= writes;
  }
  return written;
}

void
plan_clear (Plan *p, const GrammeHost *host, const GrammeKernels *kernels)
{
  for (uint32_t i = 0; i < p->n_steps; i++)
    kernels->release (p->steps[i].kernel);
  host->free (host->ctx, p->constants, p->constant_bytes, ALIGN);
  free (p->steps);
  free (p->operands);
}
