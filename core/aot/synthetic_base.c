/* SPDX-License-Identifier: Apache-2.0
 * synthetic_base.c -- inputs that overlap where one is written become one input: their base.
 *
 * In the graph each of them is then a view of the base, so that a write through one is seen through
 * the others.  The caller's tensors stay: what was written through one of them is copied back into
 * that tensor alone, since nothing else has changed; only where several that overlap were written,
 * all of the base is copied once.  Outputs that are views of merged inputs are no matter of this
 * layer: output_alias has removed them, and takes them again of the caller's tensors.
 *
 * Invariant: afterwards no two inputs overlap where one of them is written.  Only this file and
 * base_plan.c, which chooses the bases, know of bases.
 * Requires: no set_, no input twice.  Symbolic sizes never get here with aliases.
 */
#include "core/aot/base_plan.h"
#include "core/autograd/autograd.h"

#include <string.h>

/* -- Graph ------------------------------------------------------------------------------------- */

typedef struct {
  const GmBasePlan *p;
  GmGraph *out;
  GmArena *arena;
  GmValueId *map;
  bool *used; /* per value of the graph: some node or output reads it */
  GmBaseLayer *layer;
} Rewrite;

static void
find_used (Rewrite *r)
{
  const GmGraph *g = r->p->g;

  for (uint32_t k = 0; k < g->nodes->len; k++)
    for (uint32_t i = 0; i < gm_graph_node (g, k)->n_in; i++)
      r->used[gm_graph_node (g, k)->in[i]] = true;
  for (uint32_t i = 0; i < g->outputs->len; i++)
    r->used[g_array_index (g->outputs, GmGraphOutput, i).value] = true;
}

/* Returns the name of base c: that of the input that it is, if it is passed, else that of its first
 * member. */
static const char *
base_name (const GmBasePlan *p, uint32_t c)
{
  uint32_t named = p->bases[c].input;

  for (uint32_t i = 0; i < p->n; i++) {
    const GmGraphAlias *a = gm_graph_value (p->g, gm_base_value (p->g, i))->alias;
    if (p->members[i].base == c && a && a->base != GM_NO_ID)
      named = gm_base_index (p->g, a->base);
  }
  return gm_base_name (p->g, named);
}

static void
add_inputs (Rewrite *r)
{
  const GmBasePlan *p = r->p;
  uint32_t n_others = 0, n_outer = 0;

  for (uint32_t i = 0; i < p->n; i++)
    n_others += p->members[i].base == GM_NO_ID;
  GmBaseSource *sources = gm_arena_newn (r->arena, GmBaseSource, p->n_bases + n_others);
  uint32_t *first = gm_arena_newn (r->arena, uint32_t, p->n_bases + n_others + 1);
  GmOuterInput *outer = gm_arena_newn (r->arena, GmOuterInput, p->n);

  for (uint32_t c = 0; c < p->n_bases; c++) {
    const GmBaseChoice *base = &p->bases[c];
    int64_t offset =
        base->kind == GM_BASE_RAW ? base->position - p->members[base->input].position : 0;
    sources[c] = (GmBaseSource){ base->kind, { base->input }, offset, base->meta };
    first[c] = n_outer;
    gm_graph_add_input (r->out, gm_arena_printf (r->arena, "%s_base", base_name (p, c)),
                        &base->meta);
    for (uint32_t i = 0; i < p->n; i++)
      if (p->members[i].base == c)
        outer[n_outer++] = (GmOuterInput){ i };
  }
  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t k = r->out->inputs->len;
    if (p->members[i].base != GM_NO_ID)
      continue;
    sources[k] = (GmBaseSource){ GM_BASE_CALLER, { i }, 0, *gm_base_meta (p->g, i) };
    first[k] = n_outer;
    outer[n_outer++] = (GmOuterInput){ i };
    r->map[gm_base_value (p->g, i)] =
        gm_graph_add_input (r->out, gm_base_name (p->g, i), gm_base_meta (p->g, i));
  }
  first[r->out->inputs->len] = n_outer;
  g_assert (n_outer == p->n);
  *r->layer = (GmBaseLayer){ .n_outer = p->n,
                             .n_inner = r->out->inputs->len,
                             .n_bases = p->n_bases,
                             .n_outputs = gm_graph_n_elements (p->g),
                             .sources = sources,
                             .first = first,
                             .outer = outer };
}

/* Returns the numbers of the inputs, sorted by the time when their history was made; where that is
 * unknown, in the order in which they are passed.  The caller frees the array. */
static uint32_t *
by_age (const GmBasePlan *p)
{
  uint32_t *order = g_new (uint32_t, p->n + 1);

  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t at = i;
    for (; at > 0 && gm_base_made (p, order[at - 1]) > gm_base_made (p, i); at--)
      order[at] = order[at - 1];
    order[at] = i;
  }
  return order;
}

static bool
add_members (Rewrite *r, GError **error)
{
  const GmBasePlan *p = r->p;
  g_autofree uint32_t *order = by_age (p);
  GmGraphBuilder b;

  gm_graph_builder_init (&b, r->out);
  for (uint32_t k = 0; k < p->n && !gm_b_failed (&b.base); k++) {
    uint32_t i = order[k];
    GmValueId v = gm_base_value (p->g, i);
    if (p->members[i].base == GM_NO_ID || !r->used[v])
      continue;
    GmVal base = gm_val_from_id (gm_base_value (r->out, p->members[i].base));
    GmVal view = gm_base_member_view (&b.base, p, i, base);
    r->map[v] = view ? gm_id_from_val (view) : GM_NO_ID;
  }
  bool ok = !gm_b_failed (&b.base);
  if (!ok)
    g_propagate_error (error, g_steal_pointer (&b.base.error));
  gm_graph_builder_clear (&b);
  return ok;
}

static void
add_outputs (Rewrite *r)
{
  const GmBasePlan *p = r->p;
  GmPiece *pieces = gm_arena_newn (r->arena, GmPiece, p->n);
  bool *in_pieces = gm_arena_newn (r->arena, bool, r->layer->n_inner);

  for (uint32_t i = 0; i < r->layer->n_outputs; i++) {
    const GmGraphOutput *o = &g_array_index (p->g->outputs, GmGraphOutput, i);
    gm_graph_add_output (r->out, r->map[o->value], o->kind);
  }
  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t c = p->members[i].base;
    if (c == GM_NO_ID || !p->members[i].written || p->bases[c].whole)
      continue;
    in_pieces[c] = true;
    pieces[r->layer->n_pieces++] = (GmPiece){ { i }, { r->out->outputs->len } };
    gm_graph_add_output (r->out, r->map[gm_base_value (p->g, i)], GM_OUTPUT_MUTATION);
  }
  r->layer->pieces = pieces;
  r->layer->in_pieces = in_pieces;
}

/* Adds the outputs that are histories: those of the outer graph; then, where the function makes
 * them, those of each base of which pieces are written, and of the inputs that are views of a
 * base. */
static void
add_histories (Rewrite *r)
{
  const GmBasePlan *p = r->p;
  GmBaseHistory *histories = gm_arena_newn (r->arena, GmBaseHistory, p->n_bases + p->n);
  uint32_t n = 0;

  for (uint32_t i = r->layer->n_outputs; i < p->g->outputs->len; i++)
    gm_graph_add_output (r->out, r->map[g_array_index (p->g->outputs, GmGraphOutput, i).value],
                         GM_OUTPUT_HISTORY);
  r->layer->first_history = p->g->outputs->len - r->layer->n_outputs;
  for (uint32_t c = 0; c < p->n_bases; c++)
    if (p->bases[c].kind != GM_BASE_RAW && r->layer->in_pieces[c]) {
      histories[n++] = (GmBaseHistory){ true, c };
      gm_graph_add_output (r->out, gm_base_value (r->out, c), GM_OUTPUT_HISTORY);
    }
  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t c = p->members[i].base;
    GmValueId v = gm_base_value (p->g, i);
    if (c == GM_NO_ID || p->bases[c].kind == GM_BASE_RAW || !r->used[v]
        || r->map[v] == gm_base_value (r->out, c))
      continue;
    histories[n++] = (GmBaseHistory){ false, i };
    gm_graph_add_output (r->out, r->map[v], GM_OUTPUT_HISTORY);
  }
  r->layer->histories = histories;
  r->layer->n_histories = n;
}

GmGraph *
gm_synthetic_base (const GmGraph *g, const GmBasePlan *p, GmArena *arena, GmBaseLayer *layer,
                   GError **error)
{
  g_autoptr (GmGraph) out = gm_graph_new_like (g, g->name, arena);
  Rewrite r = { p,
                out,
                arena,
                gm_arena_newn (arena, GmValueId, g->values->len),
                gm_arena_newn (arena, bool, g->values->len),
                layer };

  gm_graph_share_tables (out, g);
  find_used (&r);
  add_inputs (&r);
  if (!add_members (&r, error) || !gm_copy_nodes (out, g, r.map, error))
    return NULL;
  add_outputs (&r);
  add_histories (&r);
  return g_steal_pointer (&out);
}

/* -- Expected facts about the result ----------------------------------------------------------- */

/* Predicts that bases are written and become no other tensors; all else is as before. */
GmFacts *
gm_synthetic_base_expect (const GmGraph *g, const GmBaseLayer *l, GmArena *arena)
{
  const GmFacts *before = gm_layer_facts_derive (g, arena);
  uint32_t n_real = l->n_outputs + l->n_pieces;
  GmFacts *f = gm_layer_facts_new (arena, l->n_inner, n_real + l->first_history + l->n_histories);

  g_assert (before->n_inputs == l->n_outer && before->n_outputs == l->n_outputs + l->first_history);
  for (uint32_t k = 0; k < l->first_history; k++)
    f->outputs[n_real + k] = before->outputs[l->n_outputs + k];
  for (uint32_t k = 0; k < l->n_histories; k++) {
    const GmBaseHistory *h = &l->histories[k];
    f->outputs[n_real + l->first_history + k] =
        (GmOutputFact){ .meta =
                            h->is_base ? l->sources[h->index].meta : before->inputs[h->index].meta,
                        .kind = GM_OUTPUT_HISTORY };
  }
  for (uint32_t i = 0; i < l->n_inner; i++) {
    f->inputs[i] = i < l->n_bases ? (GmInputFact){ l->sources[i].meta, true, false }
                                  : before->inputs[l->sources[i].input.i];
    g_assert (i < l->n_bases ? l->first[i + 1] > l->first[i] : l->first[i + 1] - l->first[i] == 1);
  }
  for (uint32_t i = 0; i < l->n_outputs; i++) {
    f->outputs[i] = before->outputs[i];
    g_assert (!f->outputs[i].of_input); /* output_alias has run before */
  }
  for (uint32_t k = 0; k < l->n_pieces; k++) {
    const GmPiece *piece = &l->pieces[k];
    GmOutputFact *o = &f->outputs[piece->contents.i];
    for (uint32_t base = 0; base < l->n_bases; base++)
      for (uint32_t i = l->first[base]; i < l->first[base + 1]; i++)
        if (l->outer[i].i == piece->target.i)
          o->input = base;
    o->meta = before->inputs[piece->target.i].meta;
    o->kind = GM_OUTPUT_MUTATION;
    o->of_input = true;
    const GmBaseSource *base = &l->sources[o->input];
    o->is_view = base->kind == GM_BASE_RAW
                     ? !gm_meta_same_layout (&base->meta, &o->meta)
                     : base->kind == GM_BASE_OF || base->input.i != piece->target.i;
  }
  return f;
}

/* -- Run time ---------------------------------------------------------------------------------- */

void
gm_synthetic_base_enter (const GmBaseLayer *l, GmTensor *const *outer, GmTensor **inner)
{
  for (uint32_t i = 0; i < l->n_inner; i++) {
    const GmBaseSource *s = &l->sources[i];
    GmTensor *t = outer[s->input.i];

    if (i >= l->n_bases) {
      inner[i] = t;
    } else if (s->kind != GM_BASE_RAW) {
      inner[i] = gm_tensor_ref (s->kind == GM_BASE_OF ? t->base : t);
    } else {
      inner[i] = gm_tensor_new_alias (t);
      inner[i]->meta = s->meta;
      inner[i]->offset += s->offset;
    }
  }
}

bool
gm_synthetic_base_leave (const GmBaseLayer *l, GmTensor *const *outer, GmTensor *const *inner,
                         GmTensor *const *inner_outputs, const GmHistories *histories,
                         GError **error)
{
  for (uint32_t i = 0; i < l->n_pieces; i++) {
    GmTensor *contents = inner_outputs[l->pieces[i].contents.i];
    GmTensor *target = outer[l->pieces[i].target.i];
    uint32_t version = gm_tensor_version (target); /* counted with the base's */
    if (gm_grad_enabled () && !gm_check_leaf (target, error))
      return false;
    bool was = gm_grad_set_enabled (false);
    bool ok = gm_autograd_into (target, GM_OP_copy, &contents, 1, NULL, error);
    gm_grad_set_enabled (was);
    if (!ok)
      return false;
    *gm_tensor_writes (target) = version;
  }
  for (uint32_t k = 0; histories->node && k < l->n_histories; k++) {
    const GmBaseHistory *h = &l->histories[k];
    int nr = histories->of[l->first_history + k];
    if (nr >= 0)
      gm_autograd_give_history (h->is_base ? inner[h->index] : outer[h->index], histories->node,
                                nr);
    else if (!h->is_base && histories->late[l->first_history + k] == GM_LATE_NOW)
      histories->looked[l->first_history + k] = gm_tensor_ref (outer[h->index]);
  }
  return true;
}
