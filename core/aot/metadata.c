/* SPDX-License-Identifier: Apache-2.0
 * metadata.c -- tensors that become others in place: t_, squeeze_, set_.
 *
 * In a graph set_ (dst, src) only says which value a name stands for from then on, so it goes: its
 * result is src.  The objects remain to be changed: the caller's tensor, or a tensor that the
 * function made and outputs, must have become src when the call is over.  So src leaves the graph
 * as one more output, which the inner layers treat like any other, and the shim turns the object
 * into it, last of all.  A write to the elements may go to a base; this never does.
 *
 * Requires: older names of a changed tensor are not used (the verifier).
 * Breaks: nothing; no later layer meets set_.
 * Rejected: noting the new shape and applying it at run time.  The history would have to be made
 * up; the view that src is has it.
 */
#include "core/aot/layer_facts.h"
#include "core/autograd/autograd.h"

/* -- Graph ------------------------------------------------------------------------------------- */

typedef struct {
  uint32_t node; /* set_ */
  bool within;   /* the object keeps its storage, so the change advances the version */
} Change;

typedef struct {
  const GmGraph *g;
  GmGraph *out;
  GmValueId *map; /* per value of g */
  bool *changes;  /* per object of g */
  bool *moved;    /* per object of g: set_ has given it other memory */
  bool *behind;   /* per view of g: it was taken of a view whose base had other memory by then,
                   * so that in eager that view is its base */
  GArray *sets;   /* Change: the changes that the caller can see, in order */
  GArray *lost;   /* GmValueId of `out`, each once: memory whose version was advanced by changes
                   * that are not made again after the call */
} Rewrite;

bool
gm_metadata_applies (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->nodes->len; i++)
    if (gm_graph_node (g, i)->op == GM_OP_set_)
      return true;
  return false;
}

/* Returns the object that v is; of inputs that are known to be one tensor, the first such input. */
static GmValueId
object_of (const GmGraph *g, GmValueId v)
{
  v = gm_views_object (g, v);
  const GmGraphAlias *a = gm_graph_value (g, v)->alias;
  return a && a->same != GM_NO_ID ? a->same : v;
}

static uint32_t
input_index (const GmGraph *g, GmValueId v)
{
  for (uint32_t i = 0; i < g->inputs->len; i++)
    if (g_array_index (g->inputs, GmValueId, i) == v)
      return i;
  return GM_NO_ID;
}

/* Returns the object of the new graph whose memory v uses; of inputs that are known to be one
 * tensor, the first such input. */
static GmValueId
memory_of (const Rewrite *r, GmValueId v)
{
  GmValueId root = gm_views_root (r->out, r->map[v]);
  uint32_t input = input_index (r->out, root);

  if (input == GM_NO_ID)
    return root;
  const GmGraphAlias *a =
      gm_graph_value (r->g, g_array_index (r->g->inputs, GmValueId, input))->alias;
  return a && a->same != GM_NO_ID ? r->map[a->same] : root;
}

/* Returns the first input in the same storage as input v of g.  *distance: number of elements from
 * its first element to that of v. */
static GmValueId
storage_of (const GmGraph *g, GmValueId v, int64_t *distance)
{
  GmValueId first = v;
  int64_t at = 0, of_first = 0;

  for (uint32_t i = 0; i < g->inputs->len; i++) {
    const GmGraphAlias *a = gm_graph_value (g, v)->alias;
    if (!a || a->shares == GM_NO_ID)
      break;
    at += a->offset;
    v = a->shares;
    if (v < first) {
      first = v;
      of_first = at;
    }
  }
  *distance = of_first;
  return first;
}

/* True if n leaves its object in the same storage.  If that depends on where inputs lie, appends
 * the fact that it rests on. */
static bool
stays_within (const Rewrite *r, const GmNode *n, GArray *overlaps)
{
  GmValueId from = memory_of (r, n->in[0]), to = memory_of (r, n->in[1]);
  uint32_t a = input_index (r->out, from), b = input_index (r->out, to);
  int64_t at_a, at_b;

  if (from == to || a == GM_NO_ID || b == GM_NO_ID)
    return from == to;
  bool same = storage_of (r->g, g_array_index (r->g->inputs, GmValueId, a), &at_a)
              == storage_of (r->g, g_array_index (r->g->inputs, GmValueId, b), &at_b);
  gm_overlap_add (overlaps, same ? GM_OVERLAP_AT : GM_OVERLAP_APART, (GmOuterInput){ a },
                  (GmOuterInput){ b }, same ? at_b - at_a : 0, NULL);
  return same;
}

/* True if n, a set_ to other memory, would bring a history along: a later write through another
 * name of that memory would not change this history, which no graph can express. */
static bool
takes_history_along (const Rewrite *r, const GmNode *n)
{
  return gm_graph_meta (r->g, n->in[1])->requires_grad
         && memory_of (r, n->in[0]) != memory_of (r, n->in[1]);
}

/* Notes the memory of n's object, which is not changed after the call, as memory whose version must
 * advance. */
static void
lose (Rewrite *r, const GmNode *n)
{
  GmValueId memory = memory_of (r, n->in[0]);
  g_array_append_val (r->lost, memory);
}

/* Sets *offset to the position of v's first element, from the beginning of its root or of the first
 * input in its storage.  False if it depends on sizes that are no numbers. */
static bool
find_offset (const Rewrite *r, GmValueId v, int64_t *offset)
{
  const GmGraph *g = r->out;
  int64_t at = 0, distance = 0;

  for (uint32_t node; (node = gm_graph_value (g, v)->node) != GM_NO_ID;
       v = gm_graph_node (g, node)->in[0]) {
    const GmNode *n = gm_graph_node (g, node);
    GmFamily family = gm_ops[n->op].family;
    if (family != GM_FAMILY_MOVEMENT && family != GM_FAMILY_MUTATE)
      break;
    if (family == GM_FAMILY_MUTATE)
      continue;
    int64_t step = gm_movement_offset (n->op, gm_graph_meta (g, n->in[0]), n->attrs,
                                       gm_graph_meta (g, n->out));
    if (gm_size_is_symbolic (step))
      return false;
    at += step;
  }
  uint32_t input = input_index (g, v);
  if (input != GM_NO_ID)
    storage_of (r->g, object_of (r->g, g_array_index (r->g->inputs, GmValueId, input)), &distance);
  *offset = at + distance;
  return true;
}

/* True if the changed tensor keeps all of its elements within its own memory; else the plain
 * program fails (core/autograd/inplace_metadata.c).  Checked here because later checks do not see a
 * tensor that is not used any more. */
static bool
keeps_elements (const Rewrite *r, const GmNode *n)
{
  const GmMeta *dst = gm_graph_meta (r->g, n->in[0]), *src = gm_graph_meta (r->g, n->in[1]);
  int64_t at_dst, at_src;

  if (gm_meta_is_symbolic (dst) || gm_meta_is_symbolic (src))
    return true; /* decided with numbers, at the call */
  return find_offset (r, r->map[n->in[0]], &at_dst) && find_offset (r, r->map[n->in[1]], &at_src)
         && at_dst == at_src && !gm_meta_overlaps_itself (src)
         && gm_meta_numel (dst) == gm_meta_numel (src)
         && gm_meta_extent (dst) == gm_meta_extent (src);
}

/* Returns the tensor that operand v of g is a view of, if set_ gave it other memory after the view
 * was taken; else GM_NO_ID.  A tensor that set_ returns counts as a tensor of its own. */
static GmValueId
left_behind_by (const Rewrite *r, GmValueId v)
{
  const GmGraph *g = r->g;
  bool is_view = false;

  for (uint32_t node; (node = gm_graph_value (g, v)->node) != GM_NO_ID;) {
    const GmNode *n = gm_graph_node (g, node);
    GmFamily family = gm_ops[n->op].family;
    if (n->op == GM_OP_set_ || (family != GM_FAMILY_MOVEMENT && family != GM_FAMILY_MUTATE))
      break;
    is_view |= family == GM_FAMILY_MOVEMENT;
    v = n->in[0];
  }
  if (is_view && r->moved[v])
    return v;
  const GmGraphAlias *a = gm_graph_value (g, v)->alias;
  return a && a->base != GM_NO_ID && r->moved[a->base] ? a->base : GM_NO_ID;
}

/* Refuses to read a view with a gradient whose base has been given other memory: a view finds its
 * history by its place in the base, so only the plain program knows what a write does to its
 * gradients. */
static bool
check_left_behind (const Rewrite *r, const GmNode *n, GError **error)
{
  for (uint32_t i = 0; i < n->n_in; i++)
    if (gm_graph_meta (r->g, n->in[i])->requires_grad && left_behind_by (r, n->in[i]) != GM_NO_ID) {
      g_set_error (
          error, GM_ERROR, GM_ERROR_UNSUPPORTED,
          "cannot compile the use of a view (%s) that takes part in the gradient, after set_ () "
          "gave what it is a view of other memory: keep set_ () out of the compiled function",
          n->where ? n->where : "line unknown");
      return false;
    }
  return true;
}

/* True if the tensor that n's object becomes is visible otherwise: it, or an alias of it, is an
 * input, an output, or read by another node. */
static bool
is_seen_apart (const Rewrite *r, const GmNode *n)
{
  const GmGraph *g = r->g;
  GmValueId src = gm_views_object (g, n->in[1]);

  if (gm_graph_value (g, src)->node == GM_NO_ID)
    return true;
  for (uint32_t k = 0; k < g->nodes->len; k++) {
    const GmNode *reader = gm_graph_node (g, k);
    for (uint32_t i = 0; i < reader->n_in && reader != n; i++)
      if (gm_views_object (g, reader->in[i]) == src)
        return true;
  }
  for (uint32_t i = 0; i < g->outputs->len; i++)
    if (gm_views_object (g, g_array_index (g->outputs, GmGraphOutput, i).value) == src)
      return true;
  return false;
}

static bool
has_writes (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (n->op != GM_OP_set_ && gm_ops[n->op].family == GM_FAMILY_MUTATE)
      return true;
  }
  return false;
}

static const GmGraphAlias *
alias_of (const GmGraph *g, uint32_t input)
{
  static const GmGraphAlias nothing = { .same = GM_NO_ID, .shares = GM_NO_ID, .base = GM_NO_ID };
  const GmGraphAlias *a = gm_graph_value (g, g_array_index (g->inputs, GmValueId, input))->alias;

  return a ? a : &nothing;
}

/* True if input i, which has a history, is another tensor in the memory of `input` and so may be a
 * view of it: a view with a hook on its gradient does not tell its base (overlap.c). */
static bool
may_be_view (const GmGraph *g, uint32_t i, uint32_t input)
{
  GmValueId v = g_array_index (g->inputs, GmValueId, i),
            of = g_array_index (g->inputs, GmValueId, input);
  const GmGraphAlias *a = alias_of (g, i), *b = alias_of (g, input);

  return i != input && gm_graph_meta (g, v)->requires_grad && a->same == GM_NO_ID
         && (a->shares == of || b->shares == v
             || (a->shares != GM_NO_ID && a->shares == b->shares));
}

/* True if the object of n is no view: views of it get a new history along with it. */
static bool
is_base (const Rewrite *r, const GmNode *n)
{
  GmValueId object = gm_views_object (r->out, r->map[n->in[0]]);
  uint32_t input = input_index (r->out, object);

  return gm_views_parent (r->out, object) == GM_NO_ID
         && (input == GM_NO_ID
             || (alias_of (r->g, input)->base == GM_NO_ID
                 && !alias_of (r->g, input)->has_base_meta));
}

/* True if the object of n, a base, has views besides the view that it becomes. */
static bool
has_views (const Rewrite *r, const GmNode *n)
{
  const GmGraph *g = r->g;
  uint32_t input = input_index (r->out, gm_views_object (r->out, r->map[n->in[0]]));

  for (uint32_t i = 0; i < g->inputs->len && input != GM_NO_ID; i++)
    if (may_be_view (g, i, input))
      return true;
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *view = gm_graph_node (g, i);
    if (gm_ops[view->op].family == GM_FAMILY_MOVEMENT && view->out != n->in[1]
        && object_of (g, view->in[0]) == object_of (g, n->in[0]))
      return true;
  }
  return false;
}

/* True if, after the set_ node n, two tensors that share memory would each have a history of their
 * own while that memory is written to.  Plain execution makes the history of whichever tensor is
 * refreshed first, and adds gradients in that order, whereas the graph has one value for both.
 * True also if the object of n has views, to which plain execution gives its new history. */
static bool
is_two_with_histories (const Rewrite *r, const GmNode *n)
{
  bool base = is_base (r, n), becomes_view = gm_views_root (r->out, r->map[n->in[1]])
                                             == gm_views_root (r->out, r->map[n->in[0]]);

  return gm_graph_meta (r->g, n->in[1])->requires_grad
         && (((has_writes (r->g) || (base && becomes_view)) && is_seen_apart (r, n))
             || (base && has_views (r, n)));
}

/* Tags the view that n's object becomes, with all of its elements, as the object itself: a write to
 * it is not a write to a view. */
static void
mark_itself (Rewrite *r, const GmNode *n)
{
  uint32_t node = gm_graph_value (r->g, n->in[1])->node;
  const GmNode *view = node == GM_NO_ID ? NULL : gm_graph_node (r->g, node);

  if (view && (view->op == GM_OP_view || view->op == GM_OP_permute) && view->tag == GM_TAG_NONE
      && r->map[view->in[0]] == r->map[n->in[0]] && !is_seen_apart (r, n))
    gm_graph_set_tag (r->out, r->map[n->in[1]], GM_TAG_ITSELF);
}

static bool
rewrite_set (Rewrite *r, uint32_t node, GArray *overlaps, GError **error)
{
  const GmNode *n = gm_graph_node (r->g, node);
  GmValueId object = object_of (r->g, n->in[0]);
  const GmMeta *dst = gm_graph_meta (r->g, n->in[0]), *src = gm_graph_meta (r->g, n->in[1]),
               *out = gm_graph_meta (r->g, n->out);

  if (src->requires_grad != out->requires_grad || (dst->requires_grad && !out->requires_grad)
      || takes_history_along (r, n)) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "cannot compile a change of shape or memory in place (%s) of a tensor that takes "
                 "part in the gradient, with gradients off or to other memory: keep this statement "
                 "out of the compiled function",
                 n->where ? n->where : "line unknown");
    return false;
  }
  if (object == object_of (r->g, n->in[1])) { /* itself: only the count changes */
    lose (r, n);
    r->map[n->out] = r->map[n->in[1]];
    return true;
  }
  if (is_two_with_histories (r, n)) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "cannot compile a tensor that becomes another one in place (%s), where that one "
                 "is used too and memory is written to or it is a view of the "
                 "tensor, or that has other views, and both take part in the gradient: keep this "
                 "statement out of the compiled function",
                 n->where ? n->where : "line unknown");
    return false;
  }
  /* Within one memory, the last change says all; to other memory and back is not the same as
   * never. */
  Change change = { node, stays_within (r, n, overlaps) };
  if (change.within && !keeps_elements (r, n)) {
    g_set_error (
        error, GM_ERROR, GM_ERROR_UNSUPPORTED,
        "cannot compile a change of shape in place (%s) that does not keep all elements of the "
        "tensor: plain Python refuses it",
        n->where ? n->where : "line unknown");
    return false;
  }
  for (uint32_t i = r->sets->len; i-- > 0;) {
    Change last = g_array_index (r->sets, Change, i);
    if (object_of (r->g, gm_graph_node (r->g, last.node)->in[0]) != object)
      continue;
    if (change.within) {
      lose (r, n);
      change.within = last.within;
      g_array_remove_index (r->sets, i);
    }
    break;
  }
  g_array_append_val (r->sets, change);
  mark_itself (r, n);
  r->moved[object] |= !change.within;
  r->map[n->out] = r->map[n->in[1]];
  r->changes[object] = true;
  return true;
}

static bool
rewrite_values (Rewrite *r, GArray *overlaps, GError **error)
{
  const GmGraph *g = r->g;

  for (GmValueId v = 0; v < g->values->len; v++) {
    const GmGraphValue *value = gm_graph_value (g, v);
    const GmNode *n = value->node == GM_NO_ID ? NULL : gm_graph_node (g, value->node);

    if (n && !check_left_behind (r, n, error))
      return false;
    if (n && n->op == GM_OP_set_) {
      if (!rewrite_set (r, value->node, overlaps, error))
        return false;
      continue;
    }
    r->behind[v] =
        n && gm_ops[n->op].family == GM_FAMILY_MOVEMENT && left_behind_by (r, n->in[0]) != GM_NO_ID;
    r->map[v] = n ? gm_copy_node (r->out, g, n, r->map, error)
                  : gm_graph_add_input (r->out, value->name, &value->meta);
    if (r->map[v] == GM_NO_ID)
      return false;
    gm_graph_meta (r->out, r->map[v])->requires_grad = value->meta.requires_grad;
  }
  gm_graph_carry_aliases (r->out, g, r->map);
  return true;
}

/* Returns the base that eager gives a view of v; a detached tensor is a base of its own. */
static GmValueId
base_of (const Rewrite *r, GmValueId v)
{
  const GmGraph *g = r->out;

  for (v = gm_views_object (g, r->map[v]);;) {
    uint32_t node = gm_graph_value (g, v)->node;
    GmValueId parent = gm_views_parent (g, v);
    if (parent == GM_NO_ID || gm_op_detaches (gm_graph_node (g, node)->op))
      break;
    v = parent;
  }
  uint32_t input = input_index (g, v);
  return input == GM_NO_ID
             ? v
             : r->map[object_of (r->g, g_array_index (r->g->inputs, GmValueId, input))];
}

/* Refuses views of an object that has been given other memory, or has become a view of another
 * tensor: they would be taken again of that tensor, because views are taken before objects
 * change. */
static bool
check_views_of_moved (const Rewrite *r, GError **error)
{
  const GmGraph *g = r->g;

  for (uint32_t i = 0; i < g->outputs->len; i++) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, i).value;
    bool is_view = false;
    for (uint32_t node; (node = gm_graph_value (g, v)->node) != GM_NO_ID;) {
      const GmNode *n = gm_graph_node (g, node);
      GmFamily family = gm_ops[n->op].family;
      if (family != GM_FAMILY_MOVEMENT && family != GM_FAMILY_MUTATE)
        break;
      is_view |= family == GM_FAMILY_MOVEMENT;
      bool other = n->op == GM_OP_set_ && is_view && base_of (r, n->in[0]) != base_of (r, n->in[1]);
      if (other || r->behind[n->out]) {
        g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                     "cannot compile a function that gives out a view of a tensor after making it "
                     "another one (%s): keep set_ () out of the compiled function",
                     n->where ? n->where : "line unknown");
        return false;
      }
      v = n->in[0];
    }
  }
  return true;
}

/* Makes each changed object an output as it was before: the caller has to get this very object,
 * which the shim then changes. */
static void
add_outer_outputs (Rewrite *r)
{
  for (uint32_t i = 0; i < r->g->outputs->len; i++) {
    const GmGraphOutput *o = &g_array_index (r->g->outputs, GmGraphOutput, i);
    GmValueId object = object_of (r->g, o->value);
    bool changed = r->changes[object];

    gm_graph_add_output (r->out, r->map[changed ? object : o->value], o->kind);
  }
}

static uint32_t
output_of (const GmGraph *g, GmValueId object)
{
  for (uint32_t i = 0; i < g->outputs->len; i++)
    if (object_of (g, g_array_index (g->outputs, GmGraphOutput, i).value) == object)
      return i;
  return GM_NO_ID;
}

/* Appends the changes that the caller can see, those of inputs and outputs, to `layer`. */
static void
add_renamed (Rewrite *r, GmArena *arena, GmMetadataLayer *layer)
{
  GmRenamed *renamed = gm_arena_newn (arena, GmRenamed, r->sets->len);

  for (uint32_t k = 0; k < r->sets->len; k++) {
    Change change = g_array_index (r->sets, Change, k);
    const GmNode *n = gm_graph_node (r->g, change.node);
    GmValueId object = object_of (r->g, n->in[0]);
    uint32_t input = input_index (r->g, object), output = output_of (r->g, object);

    if (input == GM_NO_ID && output == GM_NO_ID) {
      if (change.within)
        lose (r, n);
      continue;
    }
    renamed[layer->n_renamed++] = (GmRenamed){ .is_input = input != GM_NO_ID,
                                               .input = { input },
                                               .object = { output },
                                               .becomes = { r->out->outputs->len },
                                               .node = change.node };
    gm_graph_add_output (r->out, r->map[n->out], GM_OUTPUT_USER);
  }
  layer->renamed = renamed;
}

static void
add_touched (const Rewrite *r, GmArena *arena, GmMetadataLayer *layer)
{
  GmTouched *touched = gm_arena_newn (arena, GmTouched, r->lost->len);

  for (uint32_t k = 0; k < r->lost->len; k++) {
    GmValueId memory = g_array_index (r->lost, GmValueId, k);
    uint32_t input = input_index (r->out, memory), i = 0;
    while (i < r->out->outputs->len
           && gm_views_root (r->out, g_array_index (r->out->outputs, GmGraphOutput, i).value)
                  != memory)
      i++;
    if (input != GM_NO_ID || i < r->out->outputs->len)
      touched[layer->n_touched++] = (GmTouched){ input != GM_NO_ID, { input }, { i } };
  }
  layer->touched = touched;
}

/* Appends the facts that each changed input is another tensor than all others: a second name of the
 * same tensor would have to change with it. */
static void
note_distinct (const GmGraph *g, const GmMetadataLayer *layer, GArray *overlaps)
{
  for (uint32_t k = 0; k < layer->n_renamed; k++)
    for (uint32_t i = 0; i < g->inputs->len && layer->renamed[k].is_input; i++)
      if (object_of (g, g_array_index (g->inputs, GmValueId, i))
          != g_array_index (g->inputs, GmValueId, layer->renamed[k].input.i))
        gm_overlap_add (overlaps, GM_OVERLAP_DISTINCT, layer->renamed[k].input, (GmOuterInput){ i },
                        0, NULL);
}

GmGraph *
gm_metadata (const GmGraph *g, GmArena *arena, GmMetadataLayer *layer, GArray *overlaps,
             GError **error)
{
  g_autoptr (GmGraph) out = gm_graph_new_like (g, g->name, arena);
  g_autoptr (GArray) sets = g_array_new (FALSE, FALSE, sizeof (Change));
  g_autoptr (GArray) lost = g_array_new (FALSE, FALSE, sizeof (GmValueId));
  Rewrite r = { g,
                out,
                gm_arena_newn (arena, GmValueId, g->values->len),
                gm_arena_newn (arena, bool, g->values->len),
                gm_arena_newn (arena, bool, g->values->len),
                gm_arena_newn (arena, bool, g->values->len),
                sets,
                lost };

  gm_graph_share_tables (out, g);
  if (!rewrite_values (&r, overlaps, error) || !check_views_of_moved (&r, error))
    return NULL;
  *layer = (GmMetadataLayer){ .n_outer = g->outputs->len };
  add_outer_outputs (&r);
  add_renamed (&r, arena, layer);
  add_touched (&r, arena, layer);
  layer->n_inner = out->outputs->len;
  note_distinct (g, layer, overlaps);
  g_assert (!gm_metadata_applies (out) && layer->n_inner == layer->n_outer + layer->n_renamed);
  return g_steal_pointer (&out);
}

/* -- Expected facts about the result ----------------------------------------------------------- */

static bool
is_set (const GmGraph *g, GmValueId object)
{
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (n->op == GM_OP_set_ && object_of (g, n->in[0]) == object
        && object_of (g, n->in[1]) != object)
      return true;
  }
  return false;
}

GmFacts *
gm_metadata_expect (const GmGraph *g, const GmMetadataLayer *l, GmArena *arena)
{
  const GmFacts *before = gm_layer_facts_derive (g, arena);
  GmFacts *f = gm_layer_facts_new (arena, before->n_inputs, l->n_outer + l->n_renamed);

  g_assert (before->n_outputs == l->n_outer && f->n_outputs == l->n_inner);
  for (uint32_t i = 0; i < f->n_inputs; i++) {
    f->inputs[i] = before->inputs[i];
    f->inputs[i].shape = false;
  }
  for (uint32_t i = 0; i < l->n_outer; i++) {
    const GmGraphOutput *o = &g_array_index (g->outputs, GmGraphOutput, i);
    GmValueId object = object_of (g, o->value);
    f->outputs[i] =
        is_set (g, object) ? gm_layer_facts_of_output (g, object, o->kind) : before->outputs[i];
  }
  for (uint32_t k = 0; k < l->n_renamed; k++) {
    const GmRenamed *r = &l->renamed[k];
    f->outputs[r->becomes.i] =
        gm_layer_facts_of_output (g, gm_graph_node (g, r->node)->out, GM_OUTPUT_USER);
  }
  return f;
}

/* -- Run time ---------------------------------------------------------------------------------- */

bool
gm_metadata_leave (const GmMetadataLayer *l, GmTensor *const *inputs, GmTensor **inner,
                   GmTensor **outer, GError **error)
{
  bool ok = true;

  for (uint32_t k = 0; k < l->n_touched; k++) {
    const GmTouched *t = &l->touched[k];
    (*gm_tensor_writes (t->is_input ? inputs[t->input.i] : inner[t->output.i]))++;
  }
  for (uint32_t k = 0; ok && k < l->n_renamed; k++) {
    const GmRenamed *r = &l->renamed[k];
    GmTensor *object = r->is_input ? inputs[r->input.i] : inner[r->object.i];
    GmTensor *src = inner[r->becomes.i];
    bool late = gm_autograd_is_late (src); /* becoming src refreshes it, and the program did not
                                            * refresh it after the last write */
    if (object == src) /* by way of another tensor that had become this object */
      (*gm_tensor_writes (object))++;
    else
      ok = gm_autograd_set (object, src, error);
    if (late && ok) {
      gm_autograd_make_late (object);
      gm_autograd_make_late (src);
    }
  }
  for (uint32_t i = ok ? l->n_outer : 0; i < l->n_inner; i++)
    gm_tensor_unref (inner[i]);
  for (uint32_t i = 0; ok && i < l->n_outer; i++)
    outer[i] = inner[i];
  return ok;
}
