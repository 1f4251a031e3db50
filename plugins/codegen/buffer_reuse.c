/* SPDX-License-Identifier: Apache-2.0
 * buffer_reuse.c -- finds outputs that may use the memory of an input whose elements are not read
 * after the run.
 *
 * All of the input must be read before the step that writes the output; or last in that step, by
 * the member that makes the output or by an earlier one, at the point of the space that is written:
 * a tile is read before it is written, and so is a vector.
 * Requires: steps, and values with their places.  The results are computed while the image exists,
 * and kept as a bit per pair.
 */
#include "plugins/codegen/program.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PAIRS = 1 << 16 };

static bool
is_input (const CgProgram *p, uint32_t value, uint32_t input)
{
  const CgValue *root = &p->values[p->values[value].root];
  return root->memory == CG_MEMORY_INPUT && root->index == input;
}

static bool
same_layout (const CgValue *a, const CgValue *b)
{
  if (a->dtype != b->dtype || a->ndim != b->ndim)
    return false;
  for (uint32_t d = 0; d < a->ndim; d++)
    if (a->sizes[d] != b->sizes[d] || a->strides[d] != b->strides[d]
        || codegen_is_symbolic (a->sizes[d]) || codegen_is_symbolic (a->strides[d]))
      return false;
  return true;
}

/* Returns the step that writes the output, the first if there are two; *value: the value that it
 * stores there. */
static uint32_t
writer_of (const CgProgram *p, uint32_t output, uint32_t *value)
{
  uint32_t step = CG_NONE;
  *value = CG_NONE;
  for (uint32_t s = 0; s < p->n_steps && step == CG_NONE; s++)
    if (p->steps[s].kind == CG_COPY && p->steps[s].to == output)
      step = s;
  for (uint32_t v = 0; v < p->n_values; v++) {
    const CgValue *x = &p->values[v];
    if (x->root == v && x->memory == CG_MEMORY_OUTPUT && x->index == output && x->step <= step) {
      step = x->step;
      *value = v;
    }
  }
  return step;
}

static bool
node_reads (const CgProgram *p, uint32_t node, uint32_t input)
{
  const GrammeNode *n = gramme_image_node (p->image, node);
  for (uint32_t i = 0; i < n->n_in; i++)
    if (is_input (p, gramme_node_in (p->image, n, i), input))
      return true;
  return false;
}

static bool
step_reads (const CgProgram *p, const CgStep *s, uint32_t input)
{
  if (s->kind == CG_COPY)
    return is_input (p, s->from, input);
  if (s->kind != CG_LOOP)
    return node_reads (p, s->node, input);
  for (uint32_t m = 0; m < s->n_members; m++)
    if (node_reads (p, s->members[m], input))
      return true;
  return false;
}

/* True if the loop reads the input only at the points at which it writes `value`, and not after
 * that. */
static bool
reads_in_place (const CgProgram *p, const CgStep *s, uint32_t input, uint32_t value)
{
  const CgValue *out = &p->values[value];
  bool made = false;
  if (s->kind != CG_LOOP || s->split >= 0 || out->ndim != s->ndim)
    return false;
  for (uint32_t d = 0; d < s->ndim; d++)
    if (s->sizes[d] != out->sizes[d])
      return false;
  for (uint32_t m = 0; m < s->n_members; m++) {
    const GrammeNode *n = gramme_image_node (p->image, s->members[m]);
    for (uint32_t i = 0; i < n->n_in; i++) {
      uint32_t v = gramme_node_in (p->image, n, i);
      if (is_input (p, v, input)
          && (made || p->values[v].root != v || !same_layout (&p->values[v], out)))
        return false;
    }
    made |= s->members[m] == out->node;
  }
  return made;
}

static bool
may_share (const CgProgram *p, uint32_t input, uint32_t output)
{
  uint32_t value, step = writer_of (p, output, &value);
  if (step == CG_NONE)
    return false;
  for (uint32_t s = step; s < p->n_steps; s++)
    if (step_reads (p, &p->steps[s], input)
        && (s > step || value == CG_NONE || !reads_in_place (p, &p->steps[s], input, value)))
      return false;
  return true;
}

int32_t
codegen_find_shared (CgProgram *p, GrammeStatus *status)
{
  uint32_t n_in = p->image->inputs.count, n_out = p->image->outputs.count;
  if ((uint64_t) n_in * n_out > MOST_PAIRS)
    return GRAMME_OK; /* then no pair may share */
  p->shared = calloc ((size_t) n_in * n_out + 1, 1);
  if (!p->shared)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to plan what inputs lend");
  p->shared_in = n_in;
  p->shared_out = n_out;
  for (uint32_t i = 0; i < n_in; i++)
    for (uint32_t o = 0; o < n_out; o++) {
      uint32_t in = gramme_image_input (p->image, i)->value,
               out = gramme_image_output (p->image, o)->value;
      p->shared[i * n_out + o] =
          same_layout (&p->values[in], &p->values[out]) && may_share (p, i, o);
    }
  return GRAMME_OK;
}

int32_t
codegen_may_share (const CgProgram *p, uint32_t input, uint32_t output)
{
  return p->shared && input < p->shared_in && output < p->shared_out
         && p->shared[input * p->shared_out + output];
}
