/* SPDX-License-Identifier: Apache-2.0
 * hash.c -- a structural hash of a graph, up to names of values, symbols and lines.
 *
 * Values are told apart by their origin (the place among the inputs, or of the node), symbols by
 * the order of their first appearance, constants by their elements.  Equal graphs have equal
 * hashes; the hash is for tables in one process, artefacts on disk are keyed by a digest of the
 * image.
 */
#include <string.h>

#include "core/graph/higher.h"
#include "core/sym/sym.h"

typedef struct {
  const GmGraph *g;
  uint64_t h;
  uint32_t *symbols; /* by symbol number: place of first appearance + 1 */
  uint32_t n_symbols;
} Hasher;

static void
mix (Hasher *s, uint64_t word)
{
  s->h = (s->h ^ word) * UINT64_C (0x9e3779b97f4a7c15);
  s->h ^= s->h >> 29;
}

static void
mix_bytes (Hasher *s, const void *data, size_t bytes)
{
  uint64_t word;
  mix (s, bytes);
  for (; bytes >= sizeof word; bytes -= sizeof word, data = (const char *) data + sizeof word) {
    memcpy (&word, data, sizeof word);
    mix (s, word);
  }
  word = 0;
  memcpy (&word, data, bytes);
  mix (s, word);
}

static void
mix_row (Hasher *s, uint32_t row)
{
  const GmSymRow *r = gm_sym_row (s->g->sym, row);
  mix (s, r->kind + 1000u);
  if (r->kind == GM_SYM_CONST)
    mix (s, (uint64_t) r->value);
  else if (r->kind == GM_SYM_SYMBOL) {
    if (!s->symbols[r->a])
      s->symbols[r->a] = ++s->n_symbols;
    mix (s, s->symbols[r->a]);
  } else {
    mix_row (s, r->a);
    mix_row (s, r->b);
  }
}

static void
mix_size (Hasher *s, int64_t size, bool may_be_row)
{
  if (may_be_row && gm_size_is_symbolic (size) && s->g->sym)
    mix_row (s, gm_size_row (size));
  else
    mix (s, (uint64_t) size);
}

static void
mix_meta (Hasher *s, const GmMeta *m)
{
  mix (s, m->dtype | (uint64_t) m->ndim << 8 | (uint64_t) m->device << 16
              | (uint64_t) m->requires_grad << 24);
  bool symbolic = gm_graph_meta_is_symbolic (m);
  for (int i = 0; i < m->ndim; i++) {
    mix_size (s, m->sizes[i], true);
    mix_size (s, m->strides[i], symbolic);
  }
}

static void
mix_attrs (Hasher *s, const GmAttrs *a)
{
  mix (s, a->mask);
  for (int k = 1; k < GM_N_ATTRS; k++) {
    const char *field = (const char *) a + gm_attrs[k].offset;
    if (!(a->mask & 1u << k))
      continue;
    switch (gm_attrs[k].type) {
    case 'I':
      mix_size (s, *(const int64_t *) field, GM_ATTRS_OF_SIZES >> k & 1);
      break;
    case 'B':
    case 'D':
      mix (s, *(const uint8_t *) field);
      break;
    case 'S':
      mix (s, ((const GmScalar *) field)->kind);
      mix_size (s, ((const GmScalar *) field)->i,
                ((const GmScalar *) field)->kind == GM_CATEGORY_INT);
      break;
    case 'W':
      for (size_t i = 0; i < G_N_ELEMENTS (a->window); i++)
        mix (s, (uint64_t) a->window[i]);
      break;
    default:
      mix (s, a->n_list);
      for (int i = 0; i < a->n_list; i++)
        mix_size (s, a->list[i], k == GM_ATTR_SIZES);
    }
  }
}

static void
mix_elements (Hasher *s, const GmTensor *t)
{
  size_t size = gm_dtype_size (t->meta.dtype);
  int64_t n = gm_meta_numel (&t->meta), index[GM_MAX_DIMS] = { 0 };
  if (gm_meta_is_contiguous (&t->meta)) {
    mix_bytes (s, n ? gm_tensor_data (t) : "", (size_t) n * size);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t at = t->offset;
    for (int d = 0; d < t->meta.ndim; d++)
      at += index[d] * t->meta.strides[d];
    mix_bytes (s, (const char *) t->storage->data + at * (int64_t) size, size);
    for (int d = t->meta.ndim - 1; d >= 0 && ++index[d] == t->meta.sizes[d]; d--)
      index[d] = 0;
  }
}

static uint64_t
place_of (const uint32_t *input_place, const GmGraph *g, GmValueId v)
{
  uint32_t node = gm_graph_value (g, v)->node;
  return node == GM_NO_ID ? UINT64_C (1) << 32 | input_place[v] : node;
}

static void
mix_alias (Hasher *s, const GmGraphAlias *a, const uint32_t *input_place, uint32_t i)
{
  GmValueId others[] = { a->same, a->shares, a->base };
  mix (s, (uint64_t) i << 2 | (uint64_t) a->leaf << 1 | a->has_base_meta);
  for (size_t k = 0; k < G_N_ELEMENTS (others); k++)
    mix (s, others[k] == GM_NO_ID ? UINT64_MAX : input_place[others[k]]);
  mix (s, (uint64_t) a->offset);
  mix (s, (uint64_t) a->base_offset);
  mix (s, a->made);
  if (a->has_base_meta)
    mix_meta (s, &a->base_meta);
}

/* Mixes a node of a call of graphs into the hash: its graphs, and the call by the index of its
 * first node; the row would not do, since a rewrite may change it. */
static void
mix_higher (Hasher *s, const GmNode *n)
{
  const GmHigher *h = gm_graph_higher (s->g, n);
  uint32_t first = 0;
  mix (s, (uint64_t) n->attrs->dim);
  if (!h)
    return;
  while (gm_graph_node (s->g, first)->op != n->op
         || gm_graph_node (s->g, first)->attrs->offset != n->attrs->offset)
    first++;
  mix (s, first);
  mix (s, (uint64_t) h->n_carried << 33 | (uint64_t) h->n_mapped << 1 | h->reverse);
  for (uint32_t b = 0; b < h->n_bodies; b++)
    mix (s, gm_graph_hash (h->bodies[b]));
  if (h->host)
    mix (s, h->host->key ? h->host->key : (uint64_t) (uintptr_t) h->host);
  mix (s, h->given);
  mix (s, h->begun);
  mix (s, h->flows);
  mix (s, h->many << 1 | h->ticket);
}

uint64_t
gm_graph_hash (const GmGraph *g)
{
  Hasher s = { .g = g, .h = UINT64_C (0x6772616d6d65) };
  g_autofree uint32_t *symbols = g_new0 (uint32_t, (g->sym ? gm_sym_n_symbols (g->sym) : 0) + 1);
  g_autofree uint32_t *input_place = g_new0 (uint32_t, g->values->len + 1);
  s.symbols = symbols;
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i);
    input_place[v] = i;
    mix_meta (&s, gm_graph_meta (g, v));
  }
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i);
    mix (&s, (uint64_t) gm_graph_value (g, v)->look.step << 32 | gm_graph_value (g, v)->look.nth);
    if (gm_graph_value (g, v)->alias)
      mix_alias (&s, gm_graph_value (g, v)->alias, input_place, i);
  }
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    mix (&s,
         (uint64_t) n->tag << 56 | (uint64_t) n->marks << 48 | (uint64_t) n->op << 32 | n->n_in);
    for (uint32_t k = 0; k < n->n_in; k++)
      mix (&s, place_of (input_place, g, n->in[k]));
    if (n->op == GM_OP_constant)
      mix_elements (
          &s, g_ptr_array_index (g->constants,
                                 n->attrs->offset)); /* not its row, which a rewrite may change */
    else if (gm_op_is_higher (n->op))
      mix_higher (&s, n);
    else if (n->attrs)
      mix_attrs (&s, n->attrs);
    mix_meta (&s, gm_graph_meta (g, n->out));
  }
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    const GmGraphOutput *o = &g_array_index (g->outputs, GmGraphOutput, i);
    mix (&s, place_of (input_place, g, o->value));
    mix (&s, o->kind);
  }
  mix (&s, (uint64_t) g->inputs->len << 32 | g->outputs->len);
  for (uint32_t i = 0; g->hooks && i < g->hooks->len; i++)
    mix (&s, gm_graph_hash (g->hooks->pdata[i]));
  return s.h ^ s.h >> 32;
}
