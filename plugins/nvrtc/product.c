/* SPDX-License-Identifier: Apache-2.0
 * product.c -- see product.h: the products that the library takes, and their epilogues.
 * product_run.c runs them.
 */
#include "plugins/nvrtc/product.h"

#include <stdlib.h>

/* -- Layouts of operands ----------------------------------------------------------------------- */

static bool
is_at_least (int64_t stride, int64_t size)
{
  return stride == size
         || (!codegen_is_symbolic (stride) && !codegen_is_symbolic (size) && stride > size);
}

/* Reads the last two dimensions in the library's form: one of them dense, the other with a stride
 * of at least its length. False: the layout is another. */
static bool
read_matrix (const CgValue *v, NvMatrix *out)
{
  int64_t rows = v->sizes[v->ndim - 2], cols = v->sizes[v->ndim - 1], row = v->strides[v->ndim - 2],
          col = v->strides[v->ndim - 1];
  bool along = (cols == 1 || col == 1) && (rows == 1 || is_at_least (row, cols));
  bool down = (rows == 1 || row == 1) && (cols == 1 || is_at_least (col, rows));
  *out = (NvMatrix){ .down = !along };
  if (along)
    out->ld = rows == 1 ? cols : row;
  else
    out->ld = cols == 1 ? rows : col;
  return along || down;
}

/* Combines all dimensions before the last two into one batch dimension: sets q->batches and the
 * batch strides of q->a, q->b and q->c.  values: the two operands and the result; q's rows and
 * columns are not changed.  False: the strides of one of the three do not allow that. */
static bool
read_batches (const CgProgram *p, NvProduct *q, const CgValue *const values[3])
{
  NvMatrix *matrices[3] = { &q->a, &q->b, &q->c };
  uint32_t ndim = values[2]->ndim;
  q->batches = 1;
  for (int d = (int) ndim - 3; d >= 0; d--) {
    if (values[2]->sizes[d] == 1)
      continue;
    for (int i = 0; i < 3; i++) {
      int64_t stride = nv_broadcast_stride (values[i], ndim, (uint32_t) d);
      if (q->batches == 1)
        matrices[i]->batch = stride;
      else if (stride != codegen_size_mul (p->sizes, matrices[i]->batch, q->batches))
        return false;
    }
    q->batches = codegen_size_mul (p->sizes, q->batches, values[2]->sizes[d]);
  }
  return true;
}

/* Combines many matrices times one matrix into one tall matrix, if their layout allows that. */
static void
join_batches (const CgProgram *p, NvProduct *q)
{
  if (q->batches == 1 || q->b.batch != 0 || q->a.down
      || q->a.batch != codegen_size_mul (p->sizes, q->rows, q->a.ld)
      || q->c.batch != codegen_size_mul (p->sizes, q->rows, q->c.ld))
    return;
  q->rows = codegen_size_mul (p->sizes, q->rows, q->batches);
  q->batches = 1;
  q->a.batch = q->c.batch = 0;
}

static bool
is_taken (uint32_t dtype)
{
  return dtype == GRAMME_DTYPE_F16 || dtype == GRAMME_DTYPE_BF16 || dtype == GRAMME_DTYPE_F32
         || dtype == GRAMME_DTYPE_F64;
}

bool
nv_product_read (const CgProgram *p, uint32_t node, NvProduct *out)
{
  const GrammeNode *n = gramme_image_node (p->image, node);
  const CgValue *v[3] = { &p->values[gramme_node_in (p->image, n, 0)],
                          &p->values[gramme_node_in (p->image, n, 1)], &p->values[n->out] };
  *out = (NvProduct){ .dtype = v[2]->dtype };
  if (!is_taken (out->dtype) || v[0]->dtype != out->dtype || v[1]->dtype != out->dtype
      || v[0]->ndim < 2 || v[1]->ndim < 2 || v[2]->ndim < 2)
    return false;
  out->rows = v[2]->sizes[v[2]->ndim - 2];
  out->cols = v[2]->sizes[v[2]->ndim - 1];
  out->depth = v[0]->sizes[v[0]->ndim - 1];
  if (out->rows == 0 || out->cols == 0 || out->depth == 0 || !read_matrix (v[0], &out->a)
      || !read_matrix (v[1], &out->b) || !read_matrix (v[2], &out->c) || out->c.down
      || !read_batches (p, out, v))
    return false;
  join_batches (p, out);
  /* With a depth of 0 in some run, the result is cleared in one piece. */
  bool dense =
      out->c.ld == out->cols
      && (out->batches == 1 || out->c.batch == codegen_size_mul (p->sizes, out->rows, out->cols));
  return !codegen_is_symbolic (out->depth) || dense;
}

/* -- Epilogues --------------------------------------------------------------------------------- */

/* True if the value is its last dimension alone, dense, repeated along all others. */
static bool
is_row (const CgValue *v, const CgValue *of)
{
  if (v->ndim < 1 || v->sizes[v->ndim - 1] != of->sizes[of->ndim - 1]
      || (v->strides[v->ndim - 1] != 1 && v->sizes[v->ndim - 1] != 1))
    return false;
  for (uint32_t d = 0; d + 1 < v->ndim; d++)
    if (v->sizes[d] != 1 && v->strides[d] != 0)
      return false;
  return true;
}

static bool
lies_alike (const CgValue *a, const CgValue *b)
{
  return a->ndim == b->ndim && memcmp (a->sizes, b->sizes, a->ndim * sizeof *a->sizes) == 0
         && memcmp (a->strides, b->strides, a->ndim * sizeof *a->strides) == 0;
}

/* Returns the product to which `n` adds, or which it cuts off at 0 (relu), if no other node reads
 * the product; NULL: none. *other: the added value, or CG_NONE. */
static const GrammeNode *
product_before (const CgProgram *p, const GrammeNode *n, uint32_t *other)
{
  *other = CG_NONE;
  for (uint32_t i = 0; i < n->n_in; i++) {
    uint32_t value = gramme_node_in (p->image, n, i);
    const GrammeNode *m = nv_made_by (p, value, GRAMME_OP_matmul);
    NvProduct q;
    if (!m || nv_uses (p, value) != 1 || !nv_product_read (p, p->values[value].node, &q)
        || codegen_is_symbolic (q.depth))
      continue;
    if (n->n_in == 2)
      *other = gramme_node_in (p->image, n, 1 - i);
    return m;
  }
  return NULL;
}

static bool
matches (const CgProgram *p, const CgStep *s, NvEpilogue *e)
{
  if (s->kind != CG_LOOP || s->split >= 0 || s->n_members < 1 || s->n_members > 2)
    return false;
  const GrammeNode *first = gramme_image_node (p->image, s->members[0]),
                   *last = gramme_image_node (p->image, s->members[s->n_members - 1]);
  if ((first->op != GRAMME_OP_add && (first->op != GRAMME_OP_relu || s->n_members == 2))
      || (s->n_members == 2
          && (last->op != GRAMME_OP_relu || gramme_node_in (p->image, last, 0) != first->out
              || nv_uses (p, first->out) != 1)))
    return false;
  const GrammeNode *m = product_before (p, first, &e->added);
  if (!m)
    return false;
  const CgValue *made = &p->values[m->out], *result = &p->values[last->out];
  e->product = made->node;
  e->last = result->node;
  e->relu = last->op == GRAMME_OP_relu;
  /* The library has no other epilogues for products of f64. */
  if (made->dtype == GRAMME_DTYPE_F64 || result->dtype != made->dtype || !lies_alike (result, made))
    return false;
  if (e->added == CG_NONE)
    return true;
  const CgValue *added = &p->values[e->added];
  if (codegen_literal (p, e->added) != CG_NONE || added->dtype != made->dtype || e->added == m->out)
    return false;
  e->is_row = is_row (added, made);
  return e->is_row || lies_alike (added, made);
}

/* Moves the product's step behind the step that it becomes a part of. */
static void
move_step (CgProgram *p, const NvEpilogue *e, uint32_t to)
{
  uint32_t from = 0;
  while (from < p->n_steps
         && !(p->steps[from].kind == CG_CALL && p->steps[from].node == e->product))
    from++;
  if (from >= to)
    return; /* not a step of its own */
  CgStep moved = p->steps[from];
  memmove (&p->steps[from], &p->steps[from + 1], (to - from) * sizeof *p->steps);
  p->steps[to] = moved;
  for (uint32_t v = 0; v < p->n_values; v++) {
    CgValue *value = &p->values[v];
    if (value->step != CG_NONE && value->step > from && value->step <= to)
      value->step--;
    else if (value->step == from)
      value->step = to;
  }
  CgValue *made = &p->values[gramme_image_node (p->image, e->product)->out];
  made->memory = CG_MEMORY_NONE;
  made->stored = false;
}

int32_t
nv_epilogue_find (CgProgram *p, NvEpilogue **out, uint32_t *n, GrammeStatus *status)
{
  *out = NULL;
  *n = 0;
  for (uint32_t s = 0; s < p->n_steps; s++) {
    NvEpilogue e = { 0 };
    if (!matches (p, &p->steps[s], &e))
      continue;
    NvEpilogue *more = realloc (*out, (*n + 1) * sizeof *more);
    if (!more)
      return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to find what follows products");
    *out = more;
    more[(*n)++] = e;
    move_step (p, &e, s);
  }
  if (*n == 0)
    return GRAMME_OK;
  p->temp_bytes = 0;
  p->dynamic_bytes = 0;
  return codegen_plan_memory (p, status);
}

bool
nv_epilogue_hides (const NvUnit *u, const CgStep *s)
{
  for (uint32_t i = 0; i < u->found->n_epilogues && s->kind == CG_CALL; i++)
    if (u->found->epilogues[i].product == s->node)
      return true;
  return false;
}

const NvEpilogue *
nv_epilogue_at (const NvUnit *u, const CgStep *s)
{
  for (uint32_t i = 0; i < u->found->n_epilogues && s->kind == CG_LOOP; i++)
    if (u->found->epilogues[i].last == s->members[s->n_members - 1])
      return &u->found->epilogues[i];
  return NULL;
}

/* -- The launch -------------------------------------------------------------------------------- */

/* Prints the product as a comment, so that the digest of the unit's text covers it. */
static void
put_comment (NvUnit *u, const NvProduct *q)
{
  const int64_t sizes[] = { q->rows, q->cols, q->depth,   q->batches, q->a.ld,
                            q->b.ld, q->c.ld, q->a.batch, q->b.batch, q->c.batch };
  put (&u->kernels,
       "\n/* %s: cuBLASLt, %s, %s%s%s%s%s; rows, columns, depth, batches, leading dimensions, from "
       "batch to batch:",
       u->k.name, nv_elem (q->dtype), q->a.down ? "a down, " : "", q->b.down ? "b down, " : "",
       q->adds_row ? "a row is added, " : "", q->adds_matrix ? "a matrix is added, " : "",
       q->relu ? "relu" : "no relu");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    put (&u->kernels, " %s", NVZ (u, sizes[i]));
  put (&u->kernels, " */\n");
}

bool
nv_print_product (NvUnit *u, uint32_t node, const NvEpilogue *e)
{
  const GrammeNode *n = gramme_image_node (u->p->image, node);
  NvProduct *q = malloc (sizeof *q);
  if (!q) {
    u->oom = true;
    return true;
  }
  if (!nv_product_read (u->p, node, q)) {
    free (q);
    return false;
  }
  pthread_mutex_init (&q->lock, NULL);
  nv_begin (u, "product", 1, (int32_t) node);
  nv_slot (u, gramme_node_in (u->p->image, n, 0), false);
  nv_slot (u, gramme_node_in (u->p->image, n, 1), false);
  nv_slot (u, e ? gramme_image_node (u->p->image, e->last)->out : n->out, true);
  if (e && e->added != CG_NONE)
    nv_slot (u, e->added, false);
  q->adds_row = e && e->added != CG_NONE && e->is_row;
  q->adds_matrix = e && e->added != CG_NONE && !e->is_row;
  q->relu = e && e->relu;
  put_comment (u, q);
  nv_end_product (u, q);
  return true;
}
