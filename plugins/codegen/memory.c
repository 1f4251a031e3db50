/* SPDX-License-Identifier: Apache-2.0
 * memory.c -- places for temporaries in one workspace.
 *
 * Every temporary lives from the step that makes it to the last step that reads it, both included:
 * a step never writes where it reads.  Temporaries are placed one after another, each at the lowest
 * offset that is free for its whole life (first fit): in the order in which they are made, and
 * again with the largest first; the smaller plan is kept.
 *
 * Temporaries of symbolic size come after all others, in slots: such a temporary takes the slot of
 * another with an equal size whose life has ended, else a new slot behind the last.
 */
#include "plugins/codegen/program.h"

#include <stdlib.h>

#define ALIGN 64u
/* Alignment of large temporaries, which begin at the same place in a page as the host's tensors do,
 * or far from that: a result that began a few cache lines behind an operand would make each load
 * wait for a store. */
#define LARGE_ALIGN 512u
#define LARGE_FROM 4096u

typedef struct {
  uint32_t value, first, last;
  uint64_t bytes, offset;
} Life;

/* A slot of the dynamic part: symbolic bytes, its offset, and the last step that uses it. */
typedef struct {
  int64_t bytes, offset;
  uint32_t last;
} Slot;

static void
extend (const CgProgram *p, Life *lives, const uint32_t *life_of, uint32_t value, uint32_t step)
{
  uint32_t l = life_of[p->values[value].root];
  if (l != CG_NONE && lives[l].last < step)
    lives[l].last = step;
}

static void
extend_node (const CgProgram *p, Life *lives, const uint32_t *life_of, uint32_t node, uint32_t step)
{
  const GrammeNode *n = gramme_image_node (p->image, node);
  for (uint32_t i = 0; i < n->n_in; i++)
    extend (p, lives, life_of, gramme_node_in (p->image, n, i), step);
}

static int
compare_lives (const void *a, const void *b)
{
  const Life *x = a, *y = b;
  if (x->first != y->first)
    return x->first < y->first ? -1 : 1;
  return x->value < y->value ? -1 : 1;
}

static int
compare_bytes (const void *a, const void *b)
{
  const Life *x = a, *y = b;
  if (x->bytes != y->bytes)
    return x->bytes > y->bytes ? -1 : 1;
  return compare_lives (a, b);
}

static uint64_t
aligned (uint64_t at, uint64_t bytes)
{
  uint64_t by = bytes >= LARGE_FROM ? LARGE_ALIGN : ALIGN;
  return (at + by - 1) / by * by;
}

static uint64_t
first_fit (const Life *lives, uint32_t n, const Life *fresh)
{
  uint64_t at = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t i = 0; i < n; i++) {
      const Life *l = &lives[i];
      bool together = l->first <= fresh->last && fresh->first <= l->last;
      if (together && at < l->offset + l->bytes && l->offset < at + fresh->bytes) {
        at = aligned (l->offset + l->bytes, fresh->bytes);
        moved = true;
      }
    }
  }
  return at;
}

/* Places the temporaries in their order. The values get these offsets if the plan takes fewer bytes
 * than the program's plan so far. */
static void
place_all (CgProgram *p, Life *lives, uint32_t n)
{
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++) {
    lives[i].offset = first_fit (lives, i, &lives[i]);
    if (bytes < lives[i].offset + lives[i].bytes)
      bytes = lives[i].offset + lives[i].bytes;
  }
  if (bytes >= p->temp_bytes)
    return;
  p->temp_bytes = bytes;
  for (uint32_t i = 0; i < n; i++)
    p->values[lives[i].value].offset = (int64_t) lives[i].offset;
}

/* Returns an upper bound of the bytes that the value spans: its outermost dimension's stride times
 * that dimension's size, which is exact if it is laid out without gaps. */
static int64_t
symbolic_bytes (const CgProgram *p, const CgValue *v)
{
  int64_t all = 0;
  for (uint32_t d = 0; d < v->ndim; d++) {
    int64_t part = codegen_size_mul (p->sizes, v->sizes[d], v->strides[d]);
    if (part == v->numel)
      return codegen_size_align (p->sizes, codegen_size_mul (p->sizes, v->numel, v->elem_bytes),
                                 ALIGN);
    all = codegen_size_add (p->sizes, all, part);
  }
  return codegen_size_align (
      p->sizes, codegen_size_mul (p->sizes, codegen_size_add (p->sizes, all, 1), v->elem_bytes),
      ALIGN);
}

static bool
is_dynamic (const CgValue *v)
{
  for (uint32_t d = 0; d < v->ndim; d++)
    if (codegen_is_symbolic (v->sizes[d]) || codegen_is_symbolic (v->strides[d]))
      return true;
  return false;
}

static void
place_dynamic (CgProgram *p, const Life *l, Slot *slots, uint32_t *n_slots)
{
  CgValue *v = &p->values[l->value];
  int64_t bytes = symbolic_bytes (p, v);
  uint32_t at = 0;
  while (at < *n_slots && (slots[at].bytes != bytes || slots[at].last >= l->first))
    at++;
  if (at == *n_slots) {
    slots[at] = (Slot){ .bytes = bytes, .offset = p->dynamic_bytes };
    p->dynamic_bytes = codegen_size_add (p->sizes, p->dynamic_bytes, bytes);
    (*n_slots)++;
  }
  slots[at].last = l->last;
  v->offset = slots[at].offset;
}

int32_t
codegen_plan_memory (CgProgram *p, GrammeStatus *status)
{
  Life *lives = calloc (p->n_values + 1, sizeof (Life));
  uint32_t *life_of = malloc ((p->n_values + 1) * sizeof (uint32_t));
  Slot *slots = malloc ((p->n_values + 1) * sizeof (Slot));
  uint32_t n = 0, placed = 0, n_slots = 0;
  if (!lives || !life_of || !slots) {
    free (lives);
    free (life_of);
    free (slots);
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to plan the workspace");
  }
  for (uint32_t v = 0; v < p->n_values; v++) {
    CgValue *value = &p->values[v];
    life_of[v] = CG_NONE;
    if (value->memory != CG_MEMORY_TEMP || value->root != v)
      continue;
    uint64_t elems = 1;
    value->dynamic = is_dynamic (value);
    for (uint32_t d = 0; d < value->ndim && !value->dynamic; d++)
      if (value->sizes[d] > 0)
        elems += (uint64_t) (value->sizes[d] - 1) * (uint64_t) value->strides[d];
    life_of[v] = n;
    lives[n++] = (Life){ .value = v,
                         .first = value->step,
                         .last = value->step,
                         .bytes = (elems * value->elem_bytes + ALIGN - 1) / ALIGN * ALIGN };
  }
  for (uint32_t s = 0; s < p->n_steps; s++) {
    const CgStep *step = &p->steps[s];
    if (step->kind == CG_COPY)
      extend (p, lives, life_of, step->from, s);
    else if (step->kind != CG_LOOP)
      extend_node (p, lives, life_of, step->node, s);
    for (uint32_t m = 0; step->kind == CG_LOOP && m < step->n_members; m++)
      extend_node (p, lives, life_of, step->members[m], s);
  }
  /* Values are numbered in the order of nodes, which is nearly that of steps. */
  qsort (lives, n, sizeof (Life), compare_lives);
  for (uint32_t i = 0; i < n; i++) {
    if (p->values[lives[i].value].dynamic) {
      place_dynamic (p, &lives[i], slots, &n_slots);
      continue;
    }
    lives[placed++] = lives[i]; /* temporaries of known size move to the front */
  }
  p->temp_bytes = UINT64_MAX;
  place_all (p, lives, placed);
  qsort (lives, placed, sizeof (Life), compare_bytes);
  place_all (p, lives, placed);
  free (lives);
  free (life_of);
  free (slots);
  return GRAMME_OK;
}
