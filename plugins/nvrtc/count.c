/* SPDX-License-Identifier: Apache-2.0
 * count.c -- see count.h.
 *
 * A view of an arange has strides and an offset like any other value, so the offset that an access
 * would add to its address is the element's number, and no shape has to be examined.
 */
#include "plugins/nvrtc/count.h"

#include <stdlib.h>

#include "plugins/nvrtc/attention.h"
#include "plugins/nvrtc/product.h"

/* -- Choosing aranges -------------------------------------------------------------------------- */

static void
needs_memory (NvUnit *u, uint32_t value)
{
  if (value != CG_NONE)
    u->counted[u->p->values[value].root] = 0;
}

static void
operands_need_memory (NvUnit *u, uint32_t node)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  for (uint32_t i = 0; i < n->n_in; i++)
    needs_memory (u, gramme_node_in (u->p->image, n, i));
}

/* Marks aranges that have to be written, for a loop. A loop can compute an arange's element from
 * the index, unless only the run knows how many bytes a view skips, or the view reads the numbers'
 * bytes as another dtype. */
static void
look_at_loop (NvUnit *u, const CgStep *s)
{
  for (uint32_t m = 0; m < s->n_members; m++) {
    const GrammeNode *n = gramme_image_node (u->p->image, s->members[m]);
    for (uint32_t i = 0; i < n->n_in; i++) {
      uint32_t value = gramme_node_in (u->p->image, n, i);
      const CgValue *v = &u->p->values[value];
      if (codegen_is_symbolic (v->view_bytes) || v->dtype != u->p->values[v->root].dtype)
        needs_memory (u, value);
    }
  }
}

static void
look_at (NvUnit *u, const CgStep *s)
{
  const NvAttention *attention = nv_attention_at (u, s);
  const NvEpilogue *epilogue = nv_epilogue_at (u, s);
  if (attention) {
    needs_memory (u, attention->q);
    needs_memory (u, attention->k);
    needs_memory (u, attention->v);
    if (attention->kind != NV_MASK_CAUSAL)
      needs_memory (u, attention->mask);
  } else if (nv_attention_hides (u, s)) {
    return;
  } else if (epilogue) {
    for (uint32_t m = 0; m < s->n_members; m++)
      operands_need_memory (u, s->members[m]);
  } else if (s->kind == CG_LOOP) {
    look_at_loop (u, s);
  } else if (s->kind == CG_COPY) {
    needs_memory (u, s->from);
  } else {
    operands_need_memory (u, s->node);
  }
}

/* True if the numbers of arange n are integers. Others are computed in f64, which is slower than
 * reading them. */
static bool
is_whole (const NvUnit *u, const GrammeNode *n)
{
  const GrammeImage *img = u->p->image;
  return gramme_attr_scalar_kind (img, gramme_node_attr (img, n, GRAMME_ATTR_VALUE))
             != GRAMME_SCALAR_FLOAT
         && gramme_attr_scalar_kind (img, gramme_node_attr (img, n, GRAMME_ATTR_VALUE2))
                != GRAMME_SCALAR_FLOAT;
}

bool
nv_count_find (NvUnit *u)
{
  const CgProgram *p = u->p;
  u->counted = calloc ((size_t) p->n_values + 1, 1);
  if (!u->counted)
    return false;
  for (uint32_t s = 0; s < p->n_steps; s++) {
    const CgStep *step = &p->steps[s];
    const GrammeNode *n = step->kind == CG_CALL ? gramme_image_node (p->image, step->node) : NULL;
    if (n && n->op == GRAMME_OP_arange && is_whole (u, n))
      u->counted[n->out] = p->values[n->out].memory == CG_MEMORY_TEMP;
  }
  for (uint32_t s = 0; s < p->n_steps; s++)
    look_at (u, &p->steps[s]);
  return true;
}

bool
nv_counts (const NvUnit *u, uint32_t value)
{
  return u->counted[u->p->values[value].root];
}

/* -- Values ------------------------------------------------------------------------------------ */

void
nv_scalar_text (NvUnit *u, char *out, size_t room, const GrammeAttr *a, bool real)
{
  const GrammeImage *img = u->p->image;
  uint32_t kind = gramme_attr_scalar_kind (img, a);
  if (kind == GRAMME_SCALAR_SIZE) {
    /* The size is a row of the program's table. */
    int64_t size = codegen_size_read (u->p->sizes, img, -1 - gramme_attr_int (img, a, 1), true);
    nv_reach (u, size);
    snprintf (out, room, "((E_%s) %s)", real ? "f64" : "i64", NVZ (u, size));
  } else if (real) {
    double v = kind == GRAMME_SCALAR_FLOAT ? gramme_attr_scalar_double (img, a)
                                           : (double) gramme_attr_int (img, a, 1);
    unsigned long long bits;
    memcpy (&bits, &v, sizeof bits);
    snprintf (out, room, "GM_F64_BITS (0x%llxull)", bits);
  } else {
    snprintf (out, room, "((E_i64) %lluull)", (unsigned long long) gramme_attr_int (img, a, 1));
  }
}

void
nv_count_text (NvUnit *u, char *out, size_t room, uint32_t node, const char *index)
{
  const GrammeImage *img = u->p->image;
  const GrammeNode *n = gramme_image_node (img, node);
  const GrammeAttr *a[2] = { gramme_node_attr (img, n, GRAMME_ATTR_VALUE),
                             gramme_node_attr (img, n, GRAMME_ATTR_VALUE2) };
  bool real = false;
  char value[640], first[64], step[64];
  for (int i = 0; i < 2; i++)
    real = real || gramme_attr_scalar_kind (img, a[i]) == GRAMME_SCALAR_FLOAT;
  nv_scalar_text (u, first, sizeof first, a[0], real);
  nv_scalar_text (u, step, sizeof step, a[1], real);
  if (real)
    snprintf (value, sizeof value, "(%s + (E_f64) (%s) * %s)", first, index, step);
  else
    snprintf (value, sizeof value, "(E_i64) ((gm_u64) %s + (gm_u64) (%s) * (gm_u64) %s)", first,
              index, step);
  nv_cast (out, room, real ? GRAMME_DTYPE_F64 : GRAMME_DTYPE_I64, u->p->values[n->out].dtype,
           value);
}

void
nv_count_view (NvUnit *u, char *out, size_t room, uint32_t value, const char *index)
{
  const CgValue *v = &u->p->values[value], *root = &u->p->values[v->root];
  char at[384];
  snprintf (at, sizeof at, "%lldu + %s", (long long) (v->view_bytes / v->elem_bytes), index);
  nv_count_text (u, out, room, root->node, v->view_bytes ? at : index);
}
