/* SPDX-License-Identifier: Apache-2.0
 * attention.c -- see attention.h: finds the pattern.  attention_kernel.c prints it.
 */
#include "plugins/nvrtc/attention.h"

#include <stdlib.h>

#define MAX_HEAD 128

static bool
has (const uint64_t *bits, uint32_t i)
{
  return bits[i / 64] >> i % 64 & 1;
}

static void
mark (uint64_t *bits, uint32_t i)
{
  bits[i / 64] |= (uint64_t) 1 << i % 64;
}

/* -- The pattern ------------------------------------------------------------------------------- */

static uint32_t
operand (const CgProgram *p, const GrammeNode *n, uint32_t i)
{
  return gramme_node_in (p->image, n, i);
}

/* True if n reduces its last dimension alone, and keeps it with size 1. */
static bool
is_of_rows (const CgProgram *p, const GrammeNode *n)
{
  const GrammeAttr *dims = gramme_node_attr (p->image, n, GRAMME_ATTR_DIMS);
  uint32_t ndim = p->values[operand (p, n, 0)].ndim;
  return dims && dims->count == 1 && gramme_attr_int (p->image, dims, 0) == (int64_t) ndim - 1
         && gramme_node_int (p->image, n, GRAMME_ATTR_KEEPDIM, 0);
}

/* True if the value is a literal of minus infinity, compared by its stored bits. */
static bool
is_minus_infinity (const CgProgram *p, uint32_t value)
{
  uint32_t literal = codegen_literal (p, value);
  if (literal == CG_NONE)
    return false;
  uint64_t bits = p->values[literal].bits;
  switch (p->values[literal].dtype) {
  case GRAMME_DTYPE_F32:
    return bits == 0xff800000u;
  case GRAMME_DTYPE_F16:
    return bits == 0xfc00u;
  case GRAMME_DTYPE_BF16:
    return bits == 0xff80u;
  default:
    return false;
  }
}

/* Returns the operand of a cast to another floating dtype, or the value itself. `inner`: gets the
 * node's bit. */
static uint32_t
before_cast (const CgProgram *p, uint32_t value, uint64_t *inner)
{
  const GrammeNode *n = nv_made_by (p, value, GRAMME_OP_cast);
  if (!n)
    return value;
  mark (inner, p->values[value].node);
  return operand (p, n, 0);
}

/* True if the mask is ge (row numbers, column numbers). The mask is then not computed, unless other
 * nodes read it; its nodes are added to `inner`. */
static bool
is_causal (const CgProgram *p, uint32_t mask, uint64_t *inner)
{
  const GrammeNode *n = nv_made_by (p, mask, GRAMME_OP_ge);
  if (!n)
    return false;
  for (uint32_t i = 0; i < 2; i++) {
    const CgValue *v = &p->values[operand (p, n, i)], *root = &p->values[v->root];
    const GrammeNode *from =
        root->node == CG_NONE ? NULL : gramme_image_node (p->image, root->node);
    if (!from || from->op != GRAMME_OP_arange || v->view_bytes != 0)
      return false;
    /* [n, 1] and [n]: no other view keeps the numbers in order. */
    uint32_t want = i ? 1 : 2, along = v->ndim - want;
    if (v->ndim != want || root->ndim != 1 || v->sizes[along] != root->sizes[0]
        || v->strides[along] != root->strides[0] || (i == 0 && v->sizes[1] != 1))
      return false;
    const GrammeAttr *a[2] = { gramme_node_attr (p->image, from, GRAMME_ATTR_VALUE),
                               gramme_node_attr (p->image, from, GRAMME_ATTR_VALUE2) };
    for (int k = 0; k < 2; k++)
      if (gramme_attr_scalar_kind (p->image, a[k]) != GRAMME_SCALAR_INT
          || gramme_attr_int (p->image, a[k], 1) != k)
        return false;
  }
  if (nv_uses (p, mask) == 1)
    mark (inner, p->values[mask].node);
  return true;
}

/* Returns the scores if the value is masked scores, and stores the mask in a; else returns the
 * value. */
static uint32_t
before_mask (const CgProgram *p, uint32_t value, NvAttention *a)
{
  const GrammeNode *n = nv_made_by (p, value, GRAMME_OP_where);
  if (n) {
    bool keeps = is_minus_infinity (p, operand (p, n, 2)),
         drops = is_minus_infinity (p, operand (p, n, 1));
    if (keeps == drops)
      return value;
    a->mask = operand (p, n, 0);
    a->kind = keeps ? NV_MASK_KEEPS : NV_MASK_DROPS;
    if (keeps && is_causal (p, a->mask, a->inner))
      a->kind = NV_MASK_CAUSAL;
    mark (a->inner, p->values[value].node);
    return operand (p, n, keeps ? 1 : 2);
  }
  n = nv_made_by (p, value, GRAMME_OP_add);
  for (uint32_t i = 0; n && i < 2; i++) {
    uint32_t scores = operand (p, n, i);
    if (nv_made_by (p, scores, GRAMME_OP_matmul) || nv_made_by (p, scores, GRAMME_OP_mul)
        || nv_made_by (p, scores, GRAMME_OP_div)) {
      a->mask = operand (p, n, 1 - i);
      a->kind = NV_MASK_ADDED;
      mark (a->inner, p->values[value].node);
      return scores;
    }
  }
  return value;
}

static uint32_t
before_scale (const CgProgram *p, uint32_t value, NvAttention *a)
{
  const GrammeNode *mul = nv_made_by (p, value, GRAMME_OP_mul),
                   *div = nv_made_by (p, value, GRAMME_OP_div), *n = mul ? mul : div;
  for (uint32_t i = 0; n && i < (mul ? 2u : 1u); i++)
    if (codegen_literal (p, operand (p, n, 1 - i)) != CG_NONE) {
      a->scale = codegen_literal (p, operand (p, n, 1 - i));
      a->divides = div != NULL;
      mark (a->inner, p->values[value].node);
      return operand (p, n, i);
    }
  return value;
}

/* True if the weights are exponentials divided by their sum, or times its reciprocal.  Sets *exp
 * and *sum to the nodes of these. */
static bool
is_normalised (const CgProgram *p, uint32_t weights, NvAttention *a, const GrammeNode **exp,
               const GrammeNode **sum)
{
  const GrammeNode *div = nv_made_by (p, weights, GRAMME_OP_div),
                   *mul = nv_made_by (p, weights, GRAMME_OP_mul), *n = div ? div : mul;
  const GrammeNode *inverse =
      mul ? nv_made_by (p, operand (p, mul, 1), GRAMME_OP_reciprocal) : NULL;
  if (!n || (mul && !inverse) || !(*exp = nv_made_by (p, operand (p, n, 0), GRAMME_OP_exp))
      || !(*sum =
               nv_made_by (p, div ? operand (p, div, 1) : operand (p, inverse, 0), GRAMME_OP_sum)))
    return false;
  mark (a->inner, p->values[n->out].node);
  if (inverse)
    mark (a->inner, p->values[inverse->out].node);
  return true;
}

static bool
matches (const CgProgram *p, uint32_t node, NvAttention *a)
{
  const GrammeNode *last = gramme_image_node (p->image, node), *n, *exp, *sub, *sum, *amax;
  a->node = node;
  a->mask = a->scale = CG_NONE;
  a->v = operand (p, last, 1);
  uint32_t weights = before_cast (p, operand (p, last, 0), a->inner);
  if (!is_normalised (p, weights, a, &exp, &sum) || operand (p, sum, 0) != exp->out
      || !is_of_rows (p, sum) || !(sub = nv_made_by (p, operand (p, exp, 0), GRAMME_OP_sub))
      || !(amax = nv_made_by (p, operand (p, sub, 1), GRAMME_OP_amax))
      || operand (p, amax, 0) != operand (p, sub, 0) || !is_of_rows (p, amax))
    return false;
  const uint32_t values[] = { exp->out, sum->out, sub->out, amax->out };
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    mark (a->inner, p->values[values[i]].node);
  uint32_t scores = before_cast (p, operand (p, sub, 0), a->inner);
  scores = before_scale (p, before_mask (p, scores, a), a);
  if (!(n = nv_made_by (p, scores, GRAMME_OP_matmul)))
    return false;
  mark (a->inner, p->values[scores].node);
  a->q = operand (p, n, 0);
  a->k = operand (p, n, 1);
  return true;
}

static bool
is_fit (const CgProgram *p, const NvAttention *a)
{
  const CgValue *q = &p->values[a->q], *k = &p->values[a->k], *v = &p->values[a->v];
  int64_t e = q->sizes[q->ndim - 1], width = v->sizes[v->ndim - 1];
  bool narrow =
      q->dtype == GRAMME_DTYPE_F32 || q->dtype == GRAMME_DTYPE_F16 || q->dtype == GRAMME_DTYPE_BF16;
  const CgValue *out = &p->values[gramme_image_node (p->image, a->node)->out];
  if (a->kind != NV_MASK_NONE && a->kind != NV_MASK_CAUSAL && p->values[a->mask].ndim > out->ndim)
    return false;
  return narrow && k->dtype == q->dtype && v->dtype == q->dtype && out->dtype == q->dtype
         && !codegen_is_symbolic (e) && !codegen_is_symbolic (width) && e >= 1 && e <= MAX_HEAD
         && width >= 1 && width <= MAX_HEAD && out->numel != 0 && k->sizes[k->ndim - 1] != 0;
}

/* -- Checking that no other node needs the values ---------------------------------------------- */

static bool
is_inner (const CgProgram *p, const NvAttention *a, uint32_t value)
{
  uint32_t node = p->values[p->values[value].root].node;
  return node != CG_NONE && has (a->inner, node);
}

static bool
is_closed (const CgProgram *p, const NvAttention *a)
{
  for (uint32_t i = 0; i < p->image->outputs.count; i++)
    if (is_inner (p, a, gramme_image_output (p->image, i)->value))
      return false;
  for (uint32_t i = 0; i < p->image->nodes.count; i++) {
    const GrammeNode *n = gramme_image_node (p->image, i);
    bool view = gramme_op_facts (n->op).family == GRAMME_FAMILY_MOVEMENT;
    for (uint32_t k = 0; k < n->n_in && !view && i != a->node && !has (a->inner, i); k++)
      if (is_inner (p, a, operand (p, n, k)))
        return false;
  }
  /* A step is in the pattern as a whole or not at all. */
  for (uint32_t s = 0; s < p->n_steps; s++) {
    const CgStep *step = &p->steps[s];
    uint32_t n = 0;
    for (uint32_t m = 0; step->kind == CG_LOOP && m < step->n_members; m++)
      n += has (a->inner, step->members[m]);
    if (step->kind == CG_LOOP && n != 0 && n != step->n_members)
      return false;
  }
  return true;
}

static bool
hides (const NvAttention *a, const CgStep *s)
{
  return s->kind == CG_LOOP ? has (a->inner, s->members[0])
                            : s->kind != CG_COPY && has (a->inner, s->node);
}

/* Moves the steps that are hidden in the pattern behind the kernel's step. */
static int32_t
move_steps (CgProgram *p, const NvAttention *a, GrammeStatus *status)
{
  CgStep *steps = malloc ((p->n_steps + 1) * sizeof *steps);
  uint32_t *place = malloc ((p->n_steps + 1) * sizeof *place), n = 0;
  if (!steps || !place) {
    free (steps);
    free (place);
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to find attention");
  }
  for (uint32_t s = 0; s < p->n_steps; s++) {
    if (hides (a, &p->steps[s]))
      continue;
    place[s] = n;
    steps[n++] = p->steps[s];
    for (uint32_t h = 0;
         p->steps[s].kind == CG_CALL && p->steps[s].node == a->node && h < p->n_steps; h++)
      if (hides (a, &p->steps[h])) {
        place[h] = n;
        steps[n++] = p->steps[h];
      }
  }
  for (uint32_t v = 0; v < p->n_values; v++) {
    CgValue *value = &p->values[v];
    if (value->step != CG_NONE)
      value->step = place[value->step];
    if (value->root == v && value->node != CG_NONE && has (a->inner, value->node)) {
      value->memory = CG_MEMORY_NONE;
      value->stored = false;
    }
  }
  memcpy (p->steps, steps, n * sizeof *steps);
  free (steps);
  free (place);
  return GRAMME_OK;
}

/* -- All instances ----------------------------------------------------------------------------- */

int32_t
nv_attention_find (CgProgram *p, NvAttention **out, uint32_t *n, GrammeStatus *status)
{
  size_t words = p->image->nodes.count / 64 + 1;
  int32_t code = GRAMME_OK;
  *out = NULL;
  *n = 0;
  for (uint32_t i = 0; i < p->image->nodes.count && code == GRAMME_OK; i++) {
    if (gramme_image_node (p->image, i)->op != GRAMME_OP_matmul)
      continue;
    NvAttention a = { .inner = calloc (words, sizeof (uint64_t)) };
    bool good = a.inner && matches (p, i, &a) && is_fit (p, &a) && is_closed (p, &a);
    NvAttention *more = good ? realloc (*out, (*n + 1) * sizeof *more) : NULL;
    if (!a.inner || (good && !more))
      code = gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to find attention");
    if (!more) {
      free (a.inner);
      continue;
    }
    *out = more;
    more[(*n)++] = a;
    code = move_steps (p, &a, status);
  }
  if (code == GRAMME_OK && *n) { /* values that are not stored any more free their memory */
    p->temp_bytes = 0;
    p->dynamic_bytes = 0;
    code = codegen_plan_memory (p, status);
  }
  return code;
}

void
nv_attention_free (NvAttention *list, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    free (list[i].inner);
  free (list);
}

bool
nv_attention_hides (const NvUnit *u, const CgStep *s)
{
  for (uint32_t i = 0; i < u->found->n_attentions; i++)
    if (hides (&u->found->attentions[i], s))
      return true;
  return false;
}

const NvAttention *
nv_attention_at (const NvUnit *u, const CgStep *s)
{
  for (uint32_t i = 0; i < u->found->n_attentions && s->kind == CG_CALL; i++)
    if (u->found->attentions[i].node == s->node)
      return &u->found->attentions[i];
  return NULL;
}
