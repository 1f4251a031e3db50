/* SPDX-License-Identifier: Apache-2.0
 * base_plan.c -- which inputs overlap so that they have to become one, and which base that is.
 *
 * As long as nothing is differentiated, the base is flat memory from the first element of the
 * members to the last.  Otherwise it is the tensor that all of them are views of: its history is
 * theirs, and where eager lets a write go into that history, a single view has it as its base as
 * well.
 *
 * Invariant: no two inputs overlap that have not the same base, where one of them is written
 * (assert_separate); every base is written.
 * Rejected: merging all that share storage.  Halves of one buffer do not disturb each other, and a
 * base costs memory traffic.
 */
#include "core/aot/base_plan.h"
#include "core/autograd/autograd.h"
#include "core/base/log.h"

#include <string.h>

/* -- Overlaps ---------------------------------------------------------------------------------- */

static bool
find_written (GmBasePlan *p)
{
  const GmGraph *g = p->g;
  bool any = false;

  for (uint32_t k = 0; k < g->nodes->len; k++) {
    const GmNode *n = gm_graph_node (g, k);
    if (gm_ops[n->op].family != GM_FAMILY_MUTATE)
      continue;
    uint32_t i = gm_base_index (g, gm_views_root (g, n->in[0]));
    if (i == GM_NO_ID)
      continue;
    any = p->members[i].written = true;
    p->members[i].gets_grad |= gm_graph_meta (g, n->in[1])->requires_grad;
    p->members[i].rewrites |= gm_graph_meta (g, n->out)->requires_grad;
  }
  return any;
}

/* Sets the group of each member: inputs that share memory, directly or through others, form one
 * group. */
static void
find_groups (GmBasePlan *p)
{
  const GmGraph *g = p->g;

  for (uint32_t i = 0; i < p->n; i++)
    p->members[i].group = p->members[i].base = GM_NO_ID;
  for (uint32_t start = 0; start < p->n; start++) {
    if (p->members[start].group != GM_NO_ID)
      continue;
    p->members[start].group = start;
    for (bool more = true; more;) {
      more = false;
      for (uint32_t i = 0; i < p->n; i++) {
        const GmGraphAlias *a = gm_graph_value (g, gm_base_value (g, i))->alias;
        uint32_t j = a && a->shares != GM_NO_ID ? gm_base_index (g, a->shares) : GM_NO_ID;
        if (j == GM_NO_ID || (p->members[i].group == start) == (p->members[j].group == start))
          continue;
        more = true;
        if (p->members[i].group == start) {
          p->members[j].group = start;
          p->members[j].position = p->members[i].position - a->offset;
        } else {
          p->members[i].group = start;
          p->members[i].position = p->members[j].position + a->offset;
        }
      }
    }
  }
}

static bool
overlap (const GmBasePlan *p, uint32_t i, uint32_t j)
{
  return p->members[i].group == p->members[j].group
         && gm_stride_overlap (gm_base_meta (p->g, i), gm_base_meta (p->g, j),
                               p->members[j].position - p->members[i].position);
}

/* Appends, for each pair of inputs of which one is written, the fact that they have no byte in
 * common or at which distance they lie.  Fails for two dtypes in one group. */
static bool
note_overlaps (const GmBasePlan *p, GArray *overlaps, GError **error)
{
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t j = 0; j < p->n; j++) {
      const GmBaseMember *a = &p->members[i], *b = &p->members[j];
      if (i == j || (i > j && b->written) || !a->written)
        continue;
      if (a->group != b->group) {
        gm_overlap_add (overlaps, GM_OVERLAP_APART, (GmOuterInput){ i }, (GmOuterInput){ j }, 0,
                        NULL);
        continue;
      }
      gm_overlap_add (overlaps, GM_OVERLAP_AT, (GmOuterInput){ i }, (GmOuterInput){ j },
                      b->position - a->position, NULL);
      if (gm_base_meta (p->g, i)->dtype != gm_base_meta (p->g, j)->dtype) {
        g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                     "inputs %s and %s share memory as %s and %s, and one of them is written to: "
                     "all that share memory need one dtype; pass a clone () of one of them",
                     gm_base_name (p->g, i), gm_base_name (p->g, j),
                     gm_dtypes[gm_base_meta (p->g, i)->dtype].torch_name,
                     gm_dtypes[gm_base_meta (p->g, j)->dtype].torch_name);
        return false;
      }
    }
  return true;
}

/* Appends the fact that an input is no view, for each input whose own history a write changes: a
 * write to a view changes the history of its base. */
static void
note_owners (const GmBasePlan *p, GArray *overlaps)
{
  for (uint32_t i = 0; i < p->n; i++) {
    const GmGraphAlias *a = gm_graph_value (p->g, gm_base_value (p->g, i))->alias;
    if (p->members[i].rewrites && (!a || (!a->has_base_meta && a->base == GM_NO_ID)))
      gm_overlap_add (overlaps, GM_OVERLAP_NO_VIEW, (GmOuterInput){ i }, (GmOuterInput){ i }, 0,
                      NULL);
  }
}

/* Returns the tensor that input i is a view of: an input (possibly itself), or a tensor that is not
 * passed. */
static GmBaseChoice
own_base (const GmBasePlan *p, uint32_t i)
{
  const GmGraphAlias *a = gm_graph_value (p->g, gm_base_value (p->g, i))->alias;
  uint32_t input = a && a->base != GM_NO_ID ? gm_base_index (p->g, a->base) : i;

  if (a && a->has_base_meta)
    return (GmBaseChoice){ .kind = GM_BASE_OF,
                           .input = i,
                           .meta = a->base_meta,
                           .position = p->members[i].position - a->base_offset };
  return (GmBaseChoice){ .kind = GM_BASE_CALLER,
                         .input = input,
                         .meta = *gm_base_meta (p->g, input),
                         .position = p->members[input].position };
}

static bool
same_base (const GmBaseChoice *a, const GmBaseChoice *b)
{
  if (a->kind != b->kind || a->position != b->position
      || memcmp (&a->meta, &b->meta, sizeof a->meta) != 0)
    return false;
  return a->kind == GM_BASE_OF || a->input == b->input;
}

/* True if input i can be made by slices of a tensor like `base`, starting at element `offset`. */
static bool
has_view (const GmBasePlan *p, uint32_t i, const GmMeta *base, int64_t offset)
{
  g_autoptr (GmGraph) scratch = gm_graph_new ("scratch", NULL);
  GmGraphBuilder b;
  GmVal v = gm_val_from_id (gm_graph_add_input (scratch, "base", base));

  gm_graph_builder_init (&b, scratch);
  gm_b_strided (&b.base, gm_b_flat (&b.base, v), offset, gm_base_meta (p->g, i));
  bool ok = !gm_b_failed (&b.base);
  gm_graph_builder_clear (&b);
  return ok;
}

/* True if input i is a view of a tensor that is not passed, eager refreshes it after writes through
 * other views of that tensor, and writes to i change that tensor's history. */
static bool
follows_base (const GmBasePlan *p, uint32_t i)
{
  const GmGraphAlias *a = gm_graph_value (p->g, gm_base_value (p->g, i))->alias;
  const GmMeta *m = gm_base_meta (p->g, i);

  return a && a->has_base_meta && !a->leaf && (m->requires_grad || p->members[i].gets_grad)
         && m->requires_grad == a->base_meta.requires_grad && gm_meta_is_dense (&a->base_meta)
         && !gm_meta_overlaps_itself (m) && has_view (p, i, &a->base_meta, a->base_offset);
}

/* True if inputs i and j have to be merged because one of them is written: they have an element in
 * common, or one base whose history the write changes. */
static bool
belong_together (const GmBasePlan *p, uint32_t i, uint32_t j)
{
  if (!p->members[i].written && !p->members[j].written)
    return false;
  if (overlap (p, i, j))
    return true;
  if (p->members[i].group != p->members[j].group)
    return false;
  GmBaseChoice a = own_base (p, i), b = own_base (p, j);
  bool rewrites = p->members[i].rewrites || p->members[j].rewrites;
  return same_base (&a, &b) && (rewrites || (follows_base (p, i) && follows_base (p, j)));
}

/* True if input i is a view whose base is unknown: nothing was noted, because a hook waits for its
 * gradient (overlap.c). */
static bool
is_view_of_unknown (const GmBasePlan *p, uint32_t i)
{
  const GmGraphAlias *a = gm_graph_value (p->g, gm_base_value (p->g, i))->alias;

  if (!gm_base_meta (p->g, i)->requires_grad
      || (a && (a->leaf || a->has_base_meta || a->base != GM_NO_ID)))
    return false;
  for (uint32_t k = 0; k < p->n; k++) {
    const GmGraphAlias *b = gm_graph_value (p->g, gm_base_value (p->g, k))->alias;
    if (b && b->base == gm_base_value (p->g, i))
      return false;
  }
  return true;
}

/* Refuses a written view whose gradient a hook waits for: the write to the base makes a new
 * history, inside of the function, and the hook would have to wait for its gradient, too. */
static bool
check_awaited (const GmBasePlan *p, GError **error)
{
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t j = 0; j < p->n; j++)
      if (i != j && p->members[i].group == p->members[j].group && p->members[i].written
          && follows_base (p, i) && is_view_of_unknown (p, j)) {
        g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                     "the gradient of input %s is awaited by a hook, kept, or summed with others, "
                     "and input %s, in the same "
                     "memory, is written to: keep the write out of the compiled function",
                     gm_base_name (p->g, j), gm_base_name (p->g, i));
        return false;
      }
  return true;
}

/* Numbers the connected sets of inputs that belong together, by their first members.  A single
 * input is no set, unless it is written and has a base. */
static void
find_components (GmBasePlan *p)
{
  uint32_t *root = g_newa (uint32_t, p->n), *number = g_newa (uint32_t, p->n);
  uint32_t *size = g_newa0 (uint32_t, p->n);

  for (uint32_t i = 0; i < p->n; i++)
    root[i] = i;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t j = 0; j < i; j++)
      if (root[i] != root[j] && belong_together (p, i, j))
        for (uint32_t k = 0, from = MAX (root[i], root[j]), to = MIN (root[i], root[j]); k < p->n;
             k++)
          root[k] = root[k] == from ? to : root[k];
  for (uint32_t i = 0; i < p->n; i++)
    size[root[i]]++;
  for (uint32_t i = 0; i < p->n; i++) {
    if (size[root[i]] < 2 && !(p->members[i].written && follows_base (p, i)))
      continue;
    if (root[i] == i)
      number[i] = p->n_bases++;
    p->members[i].base = number[root[i]];
  }
}

/* Sets [*low, *high) to the positions in their group that the members of base c cover; with_bases:
 * also those that the members' own bases cover. */
static void
span (const GmBasePlan *p, uint32_t c, bool with_bases, int64_t *low, int64_t *high)
{
  *low = INT64_MAX;
  *high = INT64_MIN;
  for (uint32_t i = 0; i < p->n; i++) {
    const GmGraphAlias *a = gm_graph_value (p->g, gm_base_value (p->g, i))->alias;
    int64_t at = p->members[i].position;
    if (p->members[i].base != c)
      continue;
    *low = MIN (*low, at);
    *high = MAX (*high, at + gm_meta_extent (gm_base_meta (p->g, i)));
    if (with_bases && a && a->has_base_meta) {
      *low = MIN (*low, at - a->base_offset);
      *high = MAX (*high, at - a->base_offset + gm_meta_extent (&a->base_meta));
    } else if (with_bases && a && a->base != GM_NO_ID) {
      uint32_t base = gm_base_index (p->g, a->base);
      *low = MIN (*low, p->members[base].position);
      *high = MAX (*high, p->members[base].position + gm_meta_extent (gm_base_meta (p->g, base)));
    }
  }
}

static uint32_t
first_member (const GmBasePlan *p, uint32_t c)
{
  for (uint32_t i = 0; i < p->n; i++)
    if (p->members[i].base == c)
      return i;
  return GM_NO_ID;
}

/* -- Merging ----------------------------------------------------------------------------------- */

/* True if all of base c has to be copied back: several members that overlap are written, or one
 * that has several elements in one place. */
static bool
is_whole (const GmBasePlan *p, uint32_t c)
{
  for (uint32_t i = 0; i < p->n; i++)
    if (p->members[i].base == c && p->members[i].written
        && gm_meta_overlaps_itself (gm_base_meta (p->g, i)))
      return true;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t j = 0; j < i; j++)
      if (p->members[i].base == c && p->members[j].base == c && p->members[i].written
          && p->members[j].written && overlap (p, i, j))
        return true;
  return false;
}

/* Merges input i, with all inputs that it was merged with before, into base c. */
static void
join (GmBasePlan *p, uint32_t i, uint32_t c)
{
  uint32_t old = p->members[i].base;

  for (uint32_t k = 0; k < p->n; k++)
    if (k == i || (old != GM_NO_ID && p->members[k].base == old))
      p->members[k].base = c;
}

/* Merges written inputs that lie in gaps of base c into it, so that no later layer meets both; and
 * any input in its range, if all of the base is copied back, so that the copy undoes no write. True
 * if an input was merged. */
static bool
take_in_range (GmBasePlan *p, uint32_t c)
{
  bool whole = is_whole (p, c), any = false;
  int64_t low, high;
  uint32_t first = first_member (p, c);

  if (first == GM_NO_ID)
    return false;
  span (p, c, true, &low, &high);
  for (uint32_t i = 0; i < p->n; i++) {
    const GmBaseMember *m = &p->members[i];
    int64_t end = m->position + gm_meta_extent (gm_base_meta (p->g, i));
    if (m->group == p->members[first].group && m->base != c && (whole || m->written)
        && m->position < high && end > low) {
      join (p, i, c);
      any = true;
    }
  }
  return any;
}

/* Merges inputs into the bases in whose range they lie, until nothing changes, and numbers the
 * bases by their first members again. */
static void
settle (GmBasePlan *p)
{
  uint32_t *number = g_newa (uint32_t, p->n_bases), n = 0;

  for (bool more = true; more;) {
    more = false;
    for (uint32_t c = 0; c < p->n_bases; c++)
      more |= take_in_range (p, c);
  }
  memset (number, 0xff, sizeof *number * p->n_bases);
  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t *base = &p->members[i].base;
    if (*base != GM_NO_ID && number[*base] == GM_NO_ID)
      number[*base] = n++;
    *base = *base == GM_NO_ID ? GM_NO_ID : number[*base];
  }
  p->n_bases = n;
}

/* -- Choosing the base ------------------------------------------------------------------------- */

/* Returns the names of the members of base c, such as "a, b and c"; the caller frees the string. */
static char *
member_names (const GmBasePlan *p, uint32_t c)
{
  GString *s = g_string_new (NULL);
  uint32_t n = 0, k = 0;

  for (uint32_t i = 0; i < p->n; i++)
    n += p->members[i].base == c;
  for (uint32_t i = 0; i < p->n; i++)
    if (p->members[i].base == c)
      g_string_append_printf (s, "%s%s",
                              k++ == 0 ? ""
                              : k == n ? " and "
                                       : ", ",
                              gm_base_name (p->g, i));
  return g_string_free (s, FALSE);
}

static bool
refuse (const GmBasePlan *p, uint32_t c, const char *why, GError **error)
{
  g_autofree char *names = member_names (p, c);

  g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
               "inputs %s share memory and one of them is written to, but %s: pass a clone () of "
               "one of them, or keep the write out of the compiled function",
               names, why);
  return false;
}

static bool
needs_grad (const GmBasePlan *p, uint32_t c)
{
  for (uint32_t i = 0; i < p->n; i++)
    if (p->members[i].base == c
        && (gm_base_meta (p->g, i)->requires_grad || p->members[i].gets_grad))
      return true;
  return false;
}

/* True if a write through one member of base c gives a history to other members that had none: the
 * graph does not say whether their readers ran with gradients on. */
static bool
gains_unseen (const GmBasePlan *p, uint32_t c)
{
  bool gains = false;
  uint32_t n = 0;

  for (uint32_t i = 0; i < p->n; i++) {
    if (p->members[i].base != c)
      continue;
    gains |= p->members[i].gets_grad;
    n += !gm_base_meta (p->g, i)->requires_grad;
  }
  return gains && n > 1;
}

/* True if input i of base c has several elements in one place and sends a gradient to the history
 * that it has before the call: the order in which such gradients are added depends on how the view
 * was made, which is not known here. */
static bool
adds_up_before (const GmBasePlan *p, uint32_t i, uint32_t c)
{
  const GmGraph *g = p->g;

  if (!gm_meta_overlaps_itself (gm_base_meta (g, i)))
    return false;
  for (uint32_t k = 0; k < g->nodes->len; k++) {
    const GmNode *n = gm_graph_node (g, k);
    bool reads = false;
    for (uint32_t m = 0; m < n->n_in; m++) {
      uint32_t from = gm_base_index (g, gm_views_root (g, n->in[m]));
      reads |= from == i;
      if (m == 0 && gm_ops[n->op].family == GM_FAMILY_MUTATE && from != GM_NO_ID
          && p->members[from].base == c)
        return reads;
    }
    if (reads && gm_graph_meta (g, n->out)->requires_grad
        && gm_ops[n->op].family != GM_FAMILY_MOVEMENT)
      return true;
  }
  return false;
}

uint32_t
gm_base_made (const GmBasePlan *p, uint32_t i)
{
  const GmGraphAlias *a = gm_graph_value (p->g, gm_base_value (p->g, i))->alias;

  return a ? a->made : 0;
}

static uint32_t
look_at (const GmBasePlan *p, uint32_t i)
{
  return gm_graph_value (p->g, gm_base_value (p->g, i))->look.nth;
}

/* Appends the order in which the program took the views of base c, as facts: gradients are added in
 * the opposite order. */
static void
note_order (const GmBasePlan *p, uint32_t c, GArray *overlaps)
{
  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t next = GM_NO_ID;
    for (uint32_t j = 0; j < p->n; j++)
      if (p->members[i].base == c && p->members[j].base == c && gm_base_made (p, i)
          && gm_base_made (p, j) > gm_base_made (p, i)
          && (next == GM_NO_ID || gm_base_made (p, j) < gm_base_made (p, next)))
        next = j;
    if (next != GM_NO_ID)
      gm_overlap_add (overlaps, GM_OVERLAP_MADE, (GmOuterInput){ i }, (GmOuterInput){ next },
                      gm_read_order_before (look_at (p, i), i, look_at (p, next), next), NULL);
  }
}

/* Chooses the tensor that all members of c are views of as their base, and appends the facts that
 * this relies on.  Fails if there is no such tensor. */
static bool
choose_differentiable (GmBasePlan *p, uint32_t c, GArray *overlaps, GError **error)
{
  uint32_t first = first_member (p, c);
  GmBaseChoice base = own_base (p, first);
  const GmGraphAlias *a = gm_graph_value (p->g, gm_base_value (p->g, first))->alias;
  bool leaf = a && a->leaf, any_leaf = leaf, any_other = false;

  for (uint32_t i = first; i < p->n; i++) {
    if (p->members[i].base != c)
      continue;
    GmBaseChoice other = own_base (p, i);
    const GmMeta *m = gm_base_meta (p->g, i);
    a = gm_graph_value (p->g, gm_base_value (p->g, i))->alias;
    leaf = a && a->leaf;
    any_leaf |= leaf;
    any_other |= m->requires_grad && !leaf;
    if (!same_base (&base, &other))
      return refuse (p, c, "they are not views of one tensor that can be differentiated", error);
    if (m->requires_grad != base.meta.requires_grad)
      return refuse (p, c, "not all of them, and what they are views of, take part in the gradient",
                     error);
    if (m->requires_grad && adds_up_before (p, i, c))
      return refuse (p, c, "one that has several elements in one place is read before that", error);
    if (base.kind == GM_BASE_CALLER && i != base.input)
      gm_overlap_add (overlaps, GM_OVERLAP_VIEW, (GmOuterInput){ base.input }, (GmOuterInput){ i },
                      p->members[i].position - base.position, NULL);
    else if (base.kind == GM_BASE_OF)
      gm_overlap_add (overlaps, i == first ? GM_OVERLAP_BASE : GM_OVERLAP_ONE_BASE,
                      (GmOuterInput){ first }, (GmOuterInput){ i },
                      i == first ? p->members[i].position - base.position : 0,
                      i == first ? &base.meta : NULL);
  }
  if (any_leaf && any_other)
    return refuse (p, c, "some of them are leaves of the gradient and others are not", error);
  if (!gm_meta_is_dense (&base.meta))
    return refuse (p, c, "what they are views of has gaps in its memory", error);
  if (gains_unseen (p, c))
    return refuse (p, c, "that makes others of them part of the gradient, which were not before",
                   error);
  base.whole = p->bases[c].whole;
  if (base.kind == GM_BASE_CALLER)
    p->members[base.input].base = c;
  p->bases[c] = base;
  note_order (p, c, overlaps);
  return true;
}

GmVal
gm_base_member_view (GmBuilder *b, const GmBasePlan *p, uint32_t i, GmVal base)
{
  const GmMeta *want = gm_base_meta (p->g, i), *has = gm_b_meta (b, base);
  const GmBaseChoice *c = &p->bases[p->members[i].base];

  if (p->members[i].position == c->position && gm_meta_same_layout (has, want)) {
    GmAttrs all = { .mask = 1u << GM_ATTR_SIZES, .n_list = want->ndim };
    memcpy (all.list, want->sizes, sizeof *all.list * want->ndim);
    bool is_base = c->kind == GM_BASE_RAW || (c->kind == GM_BASE_CALLER && c->input == i);
    /* a view of all, with a history of its own */
    return is_base ? base : gm_b_op (b, GM_OP_view, &base, 1, &all);
  }
  return gm_b_strided (b, gm_b_flat (b, base), p->members[i].position - c->position, want);
}

/* True if all members can be made as views of base c; tried on a scratch graph.  Else *error is
 * set. */
static bool
try_views (const GmBasePlan *p, uint32_t c, GError **error)
{
  g_autoptr (GmGraph) scratch = gm_graph_new_like (p->g, "scratch", NULL);
  GmGraphBuilder b;
  GmVal base = gm_val_from_id (gm_graph_add_input (scratch, "base", &p->bases[c].meta));

  gm_graph_builder_init (&b, scratch);
  for (uint32_t i = 0; i < p->n; i++)
    if (p->members[i].base == c)
      gm_base_member_view (&b.base, p, i, base);
  bool ok = !gm_b_failed (&b.base);
  if (!ok)
    g_propagate_prefixed_error (
        error, g_steal_pointer (&b.base.error),
        "an input shares memory with one that is written to (pass a clone () of one of them): ");
  gm_graph_builder_clear (&b);
  return ok;
}

/* Chooses flat memory under the members as base c, extended to the end of the members' own bases
 * where the last row of a member would not fit.  Appends the facts that this relies on. */
static bool
choose_raw (GmBasePlan *p, uint32_t c, GArray *overlaps, GError **error)
{
  GmBaseChoice *base = &p->bases[c];
  int64_t low, high;

  for (int with_bases = 0; with_bases < 2; with_bases++) {
    uint32_t first = first_member (p, c);
    span (p, c, with_bases, &low, &high);
    high -= low;
    *base = (GmBaseChoice){ base->whole, GM_BASE_RAW, first, low,
                            gm_meta_make (gm_base_meta (p->g, first)->dtype, 1, &high) };
    base->meta.device = gm_base_meta (p->g, first)->device;
    if (try_views (p, c, with_bases ? error : NULL)) {
      for (uint32_t i = 0; i < p->n && with_bases; i++) {
        const GmGraphAlias *a = gm_graph_value (p->g, gm_base_value (p->g, i))->alias;
        if (p->members[i].base == c && a && a->has_base_meta)
          gm_overlap_add (overlaps, GM_OVERLAP_BASE, (GmOuterInput){ i }, (GmOuterInput){ i },
                          a->base_offset, &a->base_meta);
      }
      return true;
    }
  }
  return false;
}

static bool
choose_base (GmBasePlan *p, uint32_t c, GArray *overlaps, GError **error)
{
  p->bases[c].whole = is_whole (p, c);
  if (p->bases[c].whole) {
    g_autofree char *names = member_names (p, c);
    gm_log (GM_LOG_AOT_GRAPHS,
            "inputs %s overlap and more than one of them is written to: all of their memory is "
            "copied back after each call",
            names);
  }
  return needs_grad (p, c)
             ? choose_differentiable (p, c, overlaps, error) && try_views (p, c, error)
             : choose_raw (p, c, overlaps, error);
}

static void
assert_separate (const GmBasePlan *p)
{
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t j = 0; j < i; j++)
      g_assert ((p->members[i].base == p->members[j].base && p->members[i].base != GM_NO_ID)
                || !(p->members[i].written || p->members[j].written) || !overlap (p, i, j));
}

GmBasePlan *
gm_synthetic_base_plan (const GmGraph *g, bool differentiate, GmArena *arena, GArray *overlaps,
                        GError **error)
{
  GmBasePlan *p = gm_arena_newn (arena, GmBasePlan, 1);

  *p = (GmBasePlan){ .g = g,
                     .n = g->inputs->len,
                     .members = gm_arena_newn (arena, GmBaseMember, g->inputs->len) };
  if (!find_written (p))
    return NULL;
  for (uint32_t i = 0; i < p->n; i++)
    p->members[i].gets_grad &= differentiate, p->members[i].rewrites &= differentiate;
  find_groups (p);
  if (!note_overlaps (p, overlaps, error) || (differentiate && !check_awaited (p, error)))
    return NULL;
  note_owners (p, overlaps);
  find_components (p);
  settle (p);
  p->bases = gm_arena_newn (arena, GmBaseChoice, p->n_bases);
  for (uint32_t c = 0; c < p->n_bases; c++)
    if (!choose_base (p, c, overlaps, error))
      return NULL;
  assert_separate (p);
  return p->n_bases > 0 ? p : NULL;
}
