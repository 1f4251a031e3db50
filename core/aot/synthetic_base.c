/* SPDX-License-Identifier: Apache-2.0
 * synthetic_base.c -- inputs that overlap where one is written become one input: their base.
 *
 * In the graph each of them is then a view of the base, so that a write through one is seen through
 * the others.  The caller's tensors stay: what was written through one of them is copied back into
 * that one alone, since nothing else has changed; only where several that overlap were written, all
 * of the base is copied once.  Outputs that are views of merged inputs are no matter of this layer:
 * output_alias has taken them off, and takes them again of the caller's tensors.
 *
 * The base is flat memory from the first of the places to the last, as long as nothing is
 * differentiated.  Otherwise it is the tensor that all of them are views of: its history is theirs,
 * and where in eager a write goes into that, a single view of it has it as its base as well.
 *
 * Invariant: afterwards no two inputs overlap where one of them is written (assert_separate), and
 * every base is written.  This file alone knows of bases.
 * Requires: no set_, no input twice.  Symbolic sizes never get here with aliases.
 * Rejected: merging all that share storage.  Halves of one buffer do not disturb each other, and a
 * base costs memory traffic.
 */
#include "core/aot/facts.h"
#include "core/autograd/autograd.h"
#include "core/base/log.h"

#include <string.h>

/* -- Who overlaps ------------------------------------------------------------------------------ */

typedef struct {
  uint32_t group;   /* inputs of one storage have one; GM_NO_ID: nothing is known */
  int64_t position; /* of the first element, in elements after that of the group's first input */
  bool written, gets_grad; /* gets_grad: something that requires grad is written to it */
  bool rewrites; /* what is written to it goes into the history of what it is a view of */
  uint32_t base;           /* its component among those that are merged, or GM_NO_ID */
} Member;

typedef struct {
  bool whole; /* several that overlap are written: all of it is copied back */
  GmBaseKind kind;
  uint32_t
      input; /* CALLER: it is that input; OF: what that one is a view of; RAW: the first member */
  int64_t position; /* of the base's first element, in the group */
  GmMeta meta;
} Base;

struct GmBasePlan {
  const GmGraph *g;
  uint32_t n, n_bases;
  Member *members; /* per input */
  Base *bases;     /* in the order of their first members */
};

static GmValueId
value_of (const GmGraph *g, uint32_t input)
{
  return g_array_index (g->inputs, GmValueId, input);
}

static const GmMeta *
meta_of (const GmGraph *g, uint32_t input)
{
  return gm_graph_meta (g, value_of (g, input));
}

static const char *
name_of (const GmGraph *g, uint32_t input)
{
  const char *name = gm_graph_value (g, value_of (g, input))->name;

  return name ? name : "?";
}

static uint32_t
index_of (const GmGraph *g, GmValueId v)
{
  for (uint32_t i = 0; i < g->inputs->len; i++)
    if (value_of (g, i) == v)
      return i;
  return GM_NO_ID;
}

static bool
find_written (GmBasePlan *p)
{
  const GmGraph *g = p->g;
  bool any = false;

  for (uint32_t k = 0; k < g->nodes->len; k++) {
    const GmNode *n = gm_graph_node (g, k);
    if (gm_ops[n->op].family != GM_FAMILY_MUTATE)
      continue;
    uint32_t i = index_of (g, gm_views_root (g, n->in[0]));
    if (i == GM_NO_ID)
      continue;
    any = p->members[i].written = true;
    p->members[i].gets_grad |= gm_graph_meta (g, n->in[1])->requires_grad;
    p->members[i].rewrites |= gm_graph_meta (g, n->out)->requires_grad;
  }
  return any;
}

/* Inputs that share memory, to and fro, are one group. */
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
        const GmGraphAlias *a = gm_graph_value (g, value_of (g, i))->alias;
        uint32_t j = a && a->shares != GM_NO_ID ? index_of (g, a->shares) : GM_NO_ID;
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
         && gm_geometry_overlaps (meta_of (p->g, i), meta_of (p->g, j),
                                  p->members[j].position - p->members[i].position);
}

/* What keeps inputs apart, or where it is, as far as a write makes it matter. */
static bool
note_overlaps (const GmBasePlan *p, GArray *overlaps, GError **error)
{
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t j = 0; j < p->n; j++) {
      const Member *a = &p->members[i], *b = &p->members[j];
      if (i == j || (i > j && b->written) || !a->written)
        continue;
      if (a->group != b->group) {
        gm_overlap_add (overlaps, GM_OVERLAP_APART, (GmOuterInput){ i }, (GmOuterInput){ j }, 0,
                        NULL);
        continue;
      }
      gm_overlap_add (overlaps, GM_OVERLAP_AT, (GmOuterInput){ i }, (GmOuterInput){ j },
                      b->position - a->position, NULL);
      if (meta_of (p->g, i)->dtype != meta_of (p->g, j)->dtype) {
        g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                     "inputs %s and %s share memory as %s and %s, and one of them is written to: "
                     "all that share memory need one dtype; pass a clone () of one of them",
                     name_of (p->g, i), name_of (p->g, j),
                     gm_dtypes[meta_of (p->g, i)->dtype].torch_name,
                     gm_dtypes[meta_of (p->g, j)->dtype].torch_name);
        return false;
      }
    }
  return true;
}

/* What is written to a tensor of its own becomes its history; to a view, that of what it is a view of. */
static void
note_owners (const GmBasePlan *p, GArray *overlaps)
{
  for (uint32_t i = 0; i < p->n; i++) {
    const GmGraphAlias *a = gm_graph_value (p->g, value_of (p->g, i))->alias;
    if (p->members[i].rewrites && (!a || (!a->has_base_meta && a->base == GM_NO_ID)))
      gm_overlap_add (overlaps, GM_OVERLAP_NO_VIEW, (GmOuterInput){ i }, (GmOuterInput){ i }, 0, NULL);
  }
}

/* What input i is a view of: an input (possibly itself), or a tensor that is not passed. */
static Base
own_base (const GmBasePlan *p, uint32_t i)
{
  const GmGraphAlias *a = gm_graph_value (p->g, value_of (p->g, i))->alias;
  uint32_t input = a && a->base != GM_NO_ID ? index_of (p->g, a->base) : i;

  if (a && a->has_base_meta)
    return (Base){ .kind = GM_BASE_OF,
                   .input = i,
                   .meta = a->base_meta,
                   .position = p->members[i].position - a->base_offset };
  return (Base){ .kind = GM_BASE_CALLER,
                 .input = input,
                 .meta = *meta_of (p->g, input),
                 .position = p->members[input].position };
}

static bool
same_base (const Base *a, const Base *b)
{
  if (a->kind != b->kind || a->position != b->position
      || memcmp (&a->meta, &b->meta, sizeof a->meta) != 0)
    return false;
  return a->kind == GM_BASE_OF || a->input == b->input;
}

/* Whether slices make input i out of a tensor like `base`. */
static bool
has_view (const GmBasePlan *p, uint32_t i, const GmMeta *base, int64_t offset)
{
  g_autoptr (GmGraph) scratch = gm_graph_new ("scratch", NULL);
  GmGraphBuilder b;
  GmVal v = gm_val_from_id (gm_graph_add_input (scratch, "base", base));

  gm_graph_builder_init (&b, scratch);
  gm_b_strided (&b.base, gm_b_flat (&b.base, v), offset, meta_of (p->g, i));
  bool ok = !gm_b_failed (&b.base);
  gm_graph_builder_clear (&b);
  return ok;
}

/* Whether input i follows, in eager, what is written through other views of a tensor that is not
 * passed, and what is written to it goes into the history of that one. */
static bool
follows_base (const GmBasePlan *p, uint32_t i)
{
  const GmGraphAlias *a = gm_graph_value (p->g, value_of (p->g, i))->alias;
  const GmMeta *m = meta_of (p->g, i);

  return a && a->has_base_meta && !a->leaf && (m->requires_grad || p->members[i].gets_grad)
         && m->requires_grad == a->base_meta.requires_grad && gm_meta_is_dense (&a->base_meta)
         && !gm_meta_overlaps_itself (m) && has_view (p, i, &a->base_meta, a->base_offset);
}

/* Whether a write makes inputs i and j one: they have an element in common, or one base that is part
 * of a history. */
static bool
belong_together (const GmBasePlan *p, uint32_t i, uint32_t j)
{
  if (!p->members[i].written && !p->members[j].written)
    return false;
  if (overlap (p, i, j))
    return true;
  if (p->members[i].group != p->members[j].group)
    return false;
  Base a = own_base (p, i), b = own_base (p, j);
  bool rewrites = p->members[i].rewrites || p->members[j].rewrites;
  return same_base (&a, &b) && (rewrites || (follows_base (p, i) && follows_base (p, j)));
}

/* An input that is a view of who knows what: nothing was said because its gradient is awaited
 * (overlap.c). */
static bool
is_view_of_unknown (const GmBasePlan *p, uint32_t i)
{
  const GmGraphAlias *a = gm_graph_value (p->g, value_of (p->g, i))->alias;

  if (!meta_of (p->g, i)->requires_grad || (a && (a->leaf || a->has_base_meta || a->base != GM_NO_ID)))
    return false;
  for (uint32_t k = 0; k < p->n; k++) {
    const GmGraphAlias *b = gm_graph_value (p->g, value_of (p->g, k))->alias;
    if (b && b->base == value_of (p->g, i))
      return false;
  }
  return true;
}

/* Who waits for the gradient of a view waits for that of its new history, which a write to what it is a
 * view of makes, and which would be inside of the function. */
static bool
check_awaited (const GmBasePlan *p, GError **error)
{
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t j = 0; j < p->n; j++)
      if (i != j && p->members[i].group == p->members[j].group && p->members[i].written
          && follows_base (p, i) && is_view_of_unknown (p, j)) {
        g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                     "the gradient of input %s is awaited by a hook, kept, or summed with others, and input %s, in the same "
                     "memory, is written to: keep the write out of the compiled function",
                     name_of (p->g, j), name_of (p->g, i));
        return false;
      }
  return true;
}

/* Numbers the sets of inputs that hang together, by their first members.  One alone is none, unless it
 * is written and has a base. */
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

/* The places that the inputs of base c cover, [*low, *high); n: how many inputs. */
static void
span (const GmBasePlan *p, uint32_t c, bool with_bases, int64_t *low, int64_t *high)
{
  *low = INT64_MAX;
  *high = INT64_MIN;
  for (uint32_t i = 0; i < p->n; i++) {
    const GmGraphAlias *a = gm_graph_value (p->g, value_of (p->g, i))->alias;
    int64_t at = p->members[i].position;
    if (p->members[i].base != c)
      continue;
    *low = MIN (*low, at);
    *high = MAX (*high, at + gm_meta_extent (meta_of (p->g, i)));
    if (with_bases && a && a->has_base_meta) {
      *low = MIN (*low, at - a->base_offset);
      *high = MAX (*high, at - a->base_offset + gm_meta_extent (&a->base_meta));
    } else if (with_bases && a && a->base != GM_NO_ID) {
      uint32_t base = index_of (p->g, a->base);
      *low = MIN (*low, p->members[base].position);
      *high = MAX (*high, p->members[base].position + gm_meta_extent (meta_of (p->g, base)));
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

/* -- Who joins whom ---------------------------------------------------------------------------- */

/* Whether several that overlap are written: then all of the base is copied back. */
static bool
is_whole (const GmBasePlan *p, uint32_t c)
{
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t j = 0; j < i; j++)
      if (p->members[i].base == c && p->members[j].base == c && p->members[i].written
          && p->members[j].written && overlap (p, i, j))
        return true;
  return false;
}

/* Input i joins base c, with all that it was merged with before. */
static void
join (GmBasePlan *p, uint32_t i, uint32_t c)
{
  uint32_t old = p->members[i].base;

  for (uint32_t k = 0; k < p->n; k++)
    if (k == i || (old != GM_NO_ID && p->members[k].base == old))
      p->members[k].base = c;
}

/* An input that is written in the gaps of the base joins it too, so that no later layer meets both;
 * and any input in its range, if all of it is copied back, so that nothing is undone. */
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
    const Member *m = &p->members[i];
    int64_t end = m->position + gm_meta_extent (meta_of (p->g, i));
    if (m->group == p->members[first].group && m->base != c && (whole || m->written)
        && m->position < high && end > low) {
      join (p, i, c);
      any = true;
    }
  }
  return any;
}

/* Bases take in what lies in their range until nothing changes, and are numbered by their first
 * members again. */
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

/* -- Which base -------------------------------------------------------------------------------- */

/* "a, b and c" */
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
                              name_of (p->g, i));
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
    if (p->members[i].base == c && (meta_of (p->g, i)->requires_grad || p->members[i].gets_grad))
      return true;
  return false;
}

/* Whether a write through one of them gives a history to others that had none.  Nothing says then
 * whether what reads those ran with gradients on. */
static bool
gains_unseen (const GmBasePlan *p, uint32_t c)
{
  bool gains = false;
  uint32_t n = 0;

  for (uint32_t i = 0; i < p->n; i++) {
    if (p->members[i].base != c)
      continue;
    gains |= p->members[i].gets_grad;
    n += !meta_of (p->g, i)->requires_grad;
  }
  return gains && n > 1;
}

/* Whether a gradient goes to the history that input i of base c comes with, and several of its elements are one place: how these were
 * made one is not known here, and in that order their gradients are added. */
static bool
adds_up_before (const GmBasePlan *p, uint32_t i, uint32_t c)
{
  const GmGraph *g = p->g;

  if (!gm_meta_overlaps_itself (meta_of (g, i)))
    return false;
  for (uint32_t k = 0; k < g->nodes->len; k++) {
    const GmNode *n = gm_graph_node (g, k);
    bool reads = false;
    for (uint32_t m = 0; m < n->n_in; m++) {
      uint32_t from = index_of (g, gm_views_root (g, n->in[m]));
      reads |= from == i;
      if (m == 0 && gm_ops[n->op].family == GM_FAMILY_MUTATE && from != GM_NO_ID && p->members[from].base == c)
        return reads;
    }
    if (reads && gm_graph_meta (g, n->out)->requires_grad && gm_ops[n->op].family != GM_FAMILY_MOVEMENT)
      return true;
  }
  return false;
}

/* When i's history was made, among those of the inputs; 0: nobody knows. */
static uint32_t
made (const GmBasePlan *p, uint32_t i)
{
  const GmGraphAlias *a = gm_graph_value (p->g, value_of (p->g, i))->alias;

  return a ? a->made : 0;
}

static uint32_t
look_at (const GmBasePlan *p, uint32_t i)
{
  const GmGraphAlias *a = gm_graph_value (p->g, value_of (p->g, i))->alias;

  return a ? a->look : GM_NO_ID;
}

/* The views of a base are taken in the order in which the program took them: gradients are added in the opposite one. */
static void
note_order (const GmBasePlan *p, uint32_t c, GArray *overlaps)
{
  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t next = GM_NO_ID;
    for (uint32_t j = 0; j < p->n; j++)
      if (p->members[i].base == c && p->members[j].base == c && made (p, i) && made (p, j) > made (p, i)
          && (next == GM_NO_ID || made (p, j) < made (p, next)))
        next = j;
    if (next != GM_NO_ID)
      gm_overlap_add (overlaps, GM_OVERLAP_MADE, (GmOuterInput){ i }, (GmOuterInput){ next },
                      gm_looks_before (look_at (p, i), i, look_at (p, next), next), NULL);
  }
}

/* The one tensor that all are views of, with the facts that make it so. */
static bool
choose_differentiable (GmBasePlan *p, uint32_t c, GArray *overlaps, GError **error)
{
  uint32_t first = first_member (p, c);
  Base base = own_base (p, first);
  const GmGraphAlias *a = gm_graph_value (p->g, value_of (p->g, first))->alias;
  bool leaf = a && a->leaf, any_leaf = leaf, any_other = false;

  for (uint32_t i = first; i < p->n; i++) {
    if (p->members[i].base != c)
      continue;
    Base other = own_base (p, i);
    const GmMeta *m = meta_of (p->g, i);
    a = gm_graph_value (p->g, value_of (p->g, i))->alias;
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
    return refuse (p, c, "that makes others of them part of the gradient, which were not before", error);
  base.whole = p->bases[c].whole;
  if (base.kind == GM_BASE_CALLER)
    p->members[base.input].base = c;
  p->bases[c] = base;
  note_order (p, c, overlaps);
  return true;
}

static GmVal
member_view (GmBuilder *b, const GmBasePlan *p, uint32_t i, GmVal base)
{
  const GmMeta *want = meta_of (p->g, i), *has = gm_b_meta (b, base);
  const Base *c = &p->bases[p->members[i].base];

  if (p->members[i].position == c->position && gm_meta_same_layout (has, want)) {
    GmAttrs all = { .mask = 1u << GM_ATTR_SIZES, .n_list = want->ndim };
    memcpy (all.list, want->sizes, sizeof *all.list * want->ndim);
    bool is_base = c->kind == GM_BASE_RAW || (c->kind == GM_BASE_CALLER && c->input == i);
    return is_base ? base : gm_b_op (b, GM_OP_view, &base, 1, &all); /* a view of all, with a history of its own */
  }
  return gm_b_strided (b, gm_b_flat (b, base), p->members[i].position - c->position, want);
}

/* Whether all members can be had as views of the base, tried on a graph that nobody sees. */
static bool
try_views (const GmBasePlan *p, uint32_t c, GError **error)
{
  g_autoptr (GmGraph) scratch = gm_graph_new_like (p->g, "scratch", NULL);
  GmGraphBuilder b;
  GmVal base = gm_val_from_id (gm_graph_add_input (scratch, "base", &p->bases[c].meta));

  gm_graph_builder_init (&b, scratch);
  for (uint32_t i = 0; i < p->n; i++)
    if (p->members[i].base == c)
      member_view (&b.base, p, i, base);
  bool ok = !gm_b_failed (&b.base);
  if (!ok)
    g_propagate_prefixed_error (error, g_steal_pointer (&b.base.error),
                                "an input shares memory with one that is written to (pass a clone () of one of them): ");
  gm_graph_builder_clear (&b);
  return ok;
}

/* Flat memory under the members; more of it, as far as tensors that they are views of reach, where
 * the last row of a member would stick out. */
static bool
choose_raw (GmBasePlan *p, uint32_t c, GArray *overlaps, GError **error)
{
  Base *base = &p->bases[c];
  int64_t low, high;

  for (int with_bases = 0; with_bases < 2; with_bases++) {
    uint32_t first = first_member (p, c);
    span (p, c, with_bases, &low, &high);
    high -= low;
    *base = (Base){ base->whole, GM_BASE_RAW, first, low,
                    gm_meta_make (meta_of (p->g, first)->dtype, 1, &high) };
    base->meta.device = meta_of (p->g, first)->device;
    if (try_views (p, c, with_bases ? error : NULL)) {
      for (uint32_t i = 0; i < p->n && with_bases; i++) {
        const GmGraphAlias *a = gm_graph_value (p->g, value_of (p->g, i))->alias;
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
                     .members = gm_arena_newn (arena, Member, g->inputs->len) };
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
  p->bases = gm_arena_newn (arena, Base, p->n_bases);
  for (uint32_t c = 0; c < p->n_bases; c++)
    if (!choose_base (p, c, overlaps, error))
      return NULL;
  assert_separate (p);
  return p->n_bases > 0 ? p : NULL;
}

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

/* A base is called after the tensor that it is, if that is passed, else after its first member. */
static const char *
base_name (const GmBasePlan *p, uint32_t c)
{
  uint32_t named = p->bases[c].input;

  for (uint32_t i = 0; i < p->n; i++) {
    const GmGraphAlias *a = gm_graph_value (p->g, value_of (p->g, i))->alias;
    if (p->members[i].base == c && a && a->base != GM_NO_ID)
      named = index_of (p->g, a->base);
  }
  return name_of (p->g, named);
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
    const Base *base = &p->bases[c];
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
    sources[k] = (GmBaseSource){ GM_BASE_CALLER, { i }, 0, *meta_of (p->g, i) };
    first[k] = n_outer;
    outer[n_outer++] = (GmOuterInput){ i };
    r->map[value_of (p->g, i)] = gm_graph_add_input (r->out, name_of (p->g, i), meta_of (p->g, i));
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

/* Inputs: those first whose history was made first; where nobody knows, as they are passed. */
static uint32_t *
by_age (const GmBasePlan *p)
{
  uint32_t *order = g_new (uint32_t, p->n + 1);

  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t at = i;
    for (; at > 0 && made (p, order[at - 1]) > made (p, i); at--)
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
    GmValueId v = value_of (p->g, i);
    if (p->members[i].base == GM_NO_ID || !r->used[v])
      continue;
    GmVal base = gm_val_from_id (value_of (r->out, p->members[i].base));
    GmVal view = member_view (&b.base, p, i, base);
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
    gm_graph_add_output (r->out, r->map[value_of (p->g, i)], GM_OUTPUT_MUTATION);
  }
  r->layer->pieces = pieces;
  r->layer->in_pieces = in_pieces;
}

/* The histories of the outer graph; then of each base of which pieces are written, and of the inputs
 * that are views of a base, where the function makes them. */
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
      gm_graph_add_output (r->out, value_of (r->out, c), GM_OUTPUT_HISTORY);
    }
  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t c = p->members[i].base;
    GmValueId v = value_of (p->g, i);
    if (c == GM_NO_ID || p->bases[c].kind == GM_BASE_RAW || !r->used[v]
        || r->map[v] == value_of (r->out, c))
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

/* -- What must be true of the result ------------------------------------------------------------
 */

/* Bases are written and never become other tensors; all else is as it was. */
GmFacts *
gm_synthetic_base_expect (const GmGraph *g, const GmBaseLayer *l, GmArena *arena)
{
  const GmFacts *before = gm_facts_derive (g, arena);
  uint32_t n_real = l->n_outputs + l->n_pieces;
  GmFacts *f =
      gm_layer_facts_new (arena, l->n_inner, n_real + l->first_history + l->n_histories);

  g_assert (before->n_inputs == l->n_outer
            && before->n_outputs == l->n_outputs + l->first_history);
  for (uint32_t k = 0; k < l->first_history; k++)
    f->outputs[n_real + k] = before->outputs[l->n_outputs + k];
  for (uint32_t k = 0; k < l->n_histories; k++) {
    const GmBaseHistory *h = &l->histories[k];
    f->outputs[n_real + l->first_history + k] = (GmOutputFact){
      .meta = h->is_base ? l->sources[h->index].meta : before->inputs[h->index].meta,
      .kind = GM_OUTPUT_HISTORY
    };
  }
  for (uint32_t i = 0; i < l->n_inner; i++) {
    f->inputs[i] = i < l->n_bases ? (GmInputFact){ l->sources[i].meta, true, false }
                                  : before->inputs[l->sources[i].input.i];
    g_assert (i < l->n_bases ? l->first[i + 1] > l->first[i]
                             : l->first[i + 1] - l->first[i] == 1);
  }
  for (uint32_t i = 0; i < l->n_outputs; i++) {
    f->outputs[i] = before->outputs[i];
    g_assert (!f->outputs[i].of_input); /* output_alias has been here */
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
    o->is_view = base->kind == GM_BASE_RAW ? !gm_meta_same_layout (&base->meta, &o->meta)
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
    target->storage->version = version;
  }
  for (uint32_t k = 0; histories->node && k < l->n_histories; k++) {
    const GmBaseHistory *h = &l->histories[k];
    int nr = histories->of[l->first_history + k];
    if (nr >= 0)
      gm_autograd_give_history (h->is_base ? inner[h->index] : outer[h->index], histories->node, nr);
    else if (!h->is_base && histories->late[l->first_history + k] == GM_LATE_NOW)
      histories->looked[l->first_history + k] = gm_tensor_ref (outer[h->index]);
  }
  return true;
}
