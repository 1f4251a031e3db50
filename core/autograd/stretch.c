/* SPDX-License-Identifier: Apache-2.0
 * stretch.c -- collects steps of a walk, describes them, and puts their results in place.
 *
 * Collecting goes through the heap exactly as the engine does, but computes nothing: which node is ready when depends on edges and sequence
 * numbers alone.  Afterwards the walk is as if the steps had been taken, but for the gradients; these come from
 * the runner and land in the order of the steps.  A leaf, and an input that was asked for, is reached in a stretch, not left: what
 * happens there (adding up, keeping) is done by the engine when the stretch is over.  Nobody can look before that, because a step
 * that runs code of the user's ends the stretch.
 *
 * Saved-tensor hooks are the exception: what a stretch reads is unpacked while it is collected, in the order of use.
 * Rejected: one program for a whole backward, keyed before it starts.  What comes out of a hook may have any strides, and the walk has to
 * go on from there; a stretch that starts at what is there needs no way back.
 */
#include "core/autograd/stretch.h"
#include "core/autograd/walk.h"

#include <string.h>

_Thread_local const GmStretchRunner *gm_stretch_runner_now;

typedef struct {
  GmSlot *slot;
  bool runs;      /* an operation; else something only arrives there */
  uint32_t saved; /* of an operation: the first of its saved tensors among the inputs */
  uint32_t first_hook, n_hooks;
} Step;

/* A hook that is part of the stretch. */
typedef struct {
  GmHookProgram *program; /* owned */
  uint32_t captured;      /* the first of what it reads, among the inputs */
} Hook;

/* A slot that a gradient of the stretch starts from or goes to. */
typedef struct {
  GmSlot *slot;
  uint32_t first;   /* its first gradient */
  uint32_t arrived; /* the first of those that were there before, among the inputs */
  bool inside;      /* an operation of the stretch, and nobody else looks at what arrives there */
  GmMeta like;      /* dtype and shape of what arrives; the layout may be another */
} Place;

typedef struct {
  bool owned;    /* unpacked, or made here; else something holds it until the stretch has landed */
  bool gradient; /* else it was saved */
} Origin;

struct GmStretch {
  GmWalk *w;
  GArray *steps;     /* Step */
  GArray *places;    /* Place; slot->place - 1 is the slot's */
  GPtrArray *inputs; /* GmTensor */
  GArray *origins;   /* Origin, per input */
  GArray *hooks;     /* Hook */
  GByteArray *structure, *shape;
  bool calls_hooks; /* instead of running their programs */
  uint32_t n_operations, n_gradients;
  GError *error; /* of what would have come next */
};

#define STEP(s, i) (&g_array_index ((s)->steps, Step, (i)))
#define PLACE(s, slot) (&g_array_index ((s)->places, Place, (slot)->place - 1))

/* -- Describing -------------------------------------------------------------------------------- */

static void
put (GByteArray *a, const void *data, size_t bytes)
{
  g_byte_array_append (a, data, (guint) bytes);
}

static void
put_word (GByteArray *a, uint32_t word)
{
  put (a, &word, sizeof word);
}

static void
put_meta (GByteArray *a, const GmMeta *m)
{
  const uint8_t head[4] = { m->dtype, m->ndim, m->device, m->requires_grad };

  put (a, head, sizeof head);
  put (a, m->sizes, m->ndim * sizeof *m->sizes);
  put (a, m->strides, m->ndim * sizeof *m->strides);
}

static void
put_attrs (GByteArray *a, const GmAttrs *at)
{
  static const uint8_t bytes[] = { ['I'] = sizeof (int64_t), ['B'] = 1, ['D'] = 1, ['W'] = sizeof at->window };

  put_word (a, at->mask);
  for (int k = 1; k < GM_N_ATTRS; k++) {
    const char *field = (const char *) at + gm_attrs[k].offset;
    char type = gm_attrs[k].type;
    if (!(at->mask >> k & 1))
      continue;
    if (type == 'S') {
      const GmScalar *s = (const GmScalar *) field;
      put_word (a, s->kind);
      put (a, &s->i, sizeof s->i);
    } else if ((size_t) type < sizeof bytes && bytes[(int) type]) {
      put (a, field, bytes[(int) type]);
    } else {
      put_word (a, at->n_list);
      put (a, at->list, at->n_list * sizeof *at->list);
    }
  }
}

/* -- Collecting -------------------------------------------------------------------------------- */

static void
add_input (GmStretch *s, GmTensor *t, Origin origin)
{
  g_ptr_array_add (s->inputs, t);
  g_array_append_val (s->origins, origin);
  put_meta (s->shape, &t->meta);
}

/* The number of the slot's first gradient; like: what arrives there, if nothing is there yet. */
static uint32_t
place_of (GmStretch *s, GmSlot *slot, const GmMeta *like)
{
  if (slot->place)
    return PLACE (s, slot)->first;
  Place p = { slot, s->n_gradients, s->inputs->len, false, { 0 } };
  if (slot->node->n_out == 1)
    p.like = slot->one ? slot->one->meta : like ? *like : p.like;
  s->n_gradients += slot->node->n_out;
  put_word (s->structure, slot->node->n_out);
  for (uint32_t nr = 0; nr < slot->node->n_out; nr++) {
    GmTensor *g = *gm_walk_gradient (slot, nr);
    put_word (s->structure, g != NULL);
    if (g)
      add_input (s, g, (Origin){ false, true });
  }
  g_array_append_val (s->places, p);
  slot->place = s->places->len;
  return p.first;
}

/* Whether something that was asked for is there or behind. */
static bool
is_wanted (const GmSlot *slot)
{
  return slot->needed || slot->captured;
}

/* Where edge i of n leads to in this walk, NULL if nobody wants to know. */
static GmSlot *
target (const GmStretch *s, const GmAgNode *n, uint32_t i)
{
  GmSlot *to = n->edges[i].node ? gm_walk_slot (s->w, n->edges[i].node) : NULL;

  return to && is_wanted (to) ? to : NULL;
}

static bool
has_any (const GArray *hooks)
{
  return hooks && hooks->len > 0;
}

static const GArray *
hooks_of (const GmAgNode *n)
{
  const GmAutograd *leaf = n->kind == GM_NODE_LEAF ? n->saved_in[0].t->autograd : NULL;

  return leaf ? leaf->hooks : n->hooks;
}

static bool
has_post_hooks (const GmAgNode *n)
{
  const GmAutograd *leaf = n->kind == GM_NODE_LEAF ? n->saved_in[0].t->autograd : NULL;

  return leaf && has_any (leaf->post_hooks);
}

static bool
is_unchanged (const GmSaved *saved)
{
  return !saved->t || saved->is_packed || saved->t->storage->version == saved->version;
}

static bool
is_intact (const GmAgNode *n)
{
  bool ok = is_unchanged (&n->saved_out);

  for (int i = 0; i < GM_NODE_INLINE && ok; i++)
    ok = is_unchanged (&n->saved_in[i]);
  return ok;
}

static bool
read_saved (GmStretch *s, const GmSaved *saved, GmEdge edge, GError **error)
{
  bool own = saved->is_packed || s->w->create;
  GmTensor *t = own ? gm_saved_get (saved, error) : saved->t;

  if (!t)
    return false;
  add_input (s, s->w->create ? gm_walk_with_history (t, edge) : t, (Origin){ own, false });
  return true;
}

static bool
read_all_saved (GmStretch *s, GmAgNode *n, GError **error)
{
  uint8_t which = 0;
  bool ok = true;

  for (int i = 0; i < GM_NODE_INLINE && i < (int) n->n_in && ok; i++)
    if (n->saved_in[i].t) {
      which |= 1u << i;
      ok = read_saved (s, &n->saved_in[i], n->edges[i], error);
    }
  if (ok && n->saved_out.t) {
    which |= 1u << GM_NODE_INLINE;
    ok = read_saved (s, &n->saved_out, (GmEdge){ n, 0 }, error);
  }
  put (s->structure, &which, sizeof which);
  return ok;
}

static void
describe (GmStretch *s, const GmAgNode *n)
{
  const uint32_t head[] = { n->op, n->n_in, n->extra != NULL };

  put (s->structure, head, sizeof head);
  if (!n->extra)
    return;
  put_attrs (s->shape, &n->extra->attrs);
  for (uint32_t i = 0; i < n->n_in; i++)
    put_meta (s->shape, &n->extra->in[i]);
}

/* Tells the nodes behind that an edge has delivered: something, or nothing. */
static void
tell (GmStretch *s, const GmAgNode *n, GmMeta like)
{
  for (uint32_t i = 0; i < n->n_in; i++) {
    GmSlot *to = n->edges[i].node ? gm_walk_slot (s->w, n->edges[i].node) : NULL;
    uint32_t place = to && is_wanted (to) ? place_of (s, to, n->extra ? &n->extra->in[i] : &like) + n->edges[i].nr : UINT32_MAX;
    put_word (s->structure, place);
    if (to && --to->waiting == 0 && is_wanted (to))
      gm_walk_push (s->w, to);
  }
}

static void
drop_hooks (GmStretch *s, uint32_t from)
{
  for (uint32_t i = from; i < s->hooks->len; i++)
    gm_hook_program_unref (g_array_index (s->hooks, Hook, i).program);
  g_array_set_size (s->hooks, from);
}

static void
drop_inputs (GmStretch *s, uint32_t from)
{
  for (uint32_t i = from; i < s->inputs->len; i++)
    if (g_array_index (s->origins, Origin, i).owned)
      gm_tensor_unref (g_ptr_array_index (s->inputs, i));
  g_ptr_array_set_size (s->inputs, (gint) from);
  g_array_set_size (s->origins, from);
}

/* How long everything is: to go back there. */
typedef struct {
  uint32_t structure, shape, inputs, hooks;
} Mark;

static Mark
mark (const GmStretch *s)
{
  return (Mark){ s->structure->len, s->shape->len, s->inputs->len, s->hooks->len };
}

static void
go_back (GmStretch *s, Mark m)
{
  g_byte_array_set_size (s->structure, m.structure);
  g_byte_array_set_size (s->shape, m.shape);
  drop_inputs (s, m.inputs);
  drop_hooks (s, m.hooks);
}

/* Whether t lies where a gradient will have been added up by then, when the stretch is over. */
static bool
is_summed (const GmStretch *s, const GmTensor *t)
{
  for (guint i = 0; i < s->steps->len; i++) {
    const GmAgNode *n = STEP (s, i)->slot->node;
    const GmTensor *grad = n->kind == GM_NODE_LEAF ? gm_tensor_grad (n->saved_in[0].t) : NULL;
    if (grad && grad->storage == t->storage)
      return true;
  }
  return false;
}

/* The hooks at a slot, as programs.  False: one of them is none, and nothing has changed. */
static bool
take_hooks (GmStretch *s, const GmSlot *slot, Step *step)
{
  const GmMeta *like = slot->place ? &PLACE (s, slot)->like : slot->one ? &slot->one->meta : NULL;
  const GArray *hooks = hooks_of (slot->node);
  Mark before = mark (s);
  g_autoptr (GPtrArray) captured = NULL;

  step->first_hook = s->hooks->len;
  put_word (s->structure, has_any (hooks) && !slot->greeted ? hooks->len : 0);
  if (!has_any (hooks) || slot->greeted)
    return true;
  if (s->w->create || slot->node->n_out != 1 || !like || !gm_stretch_runner_now->find_hook) {
    go_back (s, before);
    return false;
  }
  captured = g_ptr_array_new ();
  for (guint i = 0; i < hooks->len; i++) {
    const GmAgHook *h = &g_array_index (hooks, GmAgHook, i);
    Hook one = { gm_stretch_runner_now->find_hook (h->fn, h->data, like, captured), s->inputs->len };
    if (!one.program) {
      go_back (s, before);
      return false;
    }
    g_array_append_val (s->hooks, one);
    put (s->structure, &one.program->id, sizeof one.program->id);
    put_word (s->structure, captured->len);
    bool stale = false;
    for (guint k = 0; k < captured->len; k++) {
      stale |= is_summed (s, g_ptr_array_index (captured, k));
      add_input (s, g_ptr_array_index (captured, k), (Origin){ true, false });
    }
    g_ptr_array_set_size (captured, 0);
    step->n_hooks++;
    if (stale) {
      go_back (s, before);
      return false;
    }
  }
  return true;
}

/* Code of the user's that has to run before the operation can: at the start of a stretch alone.  False: it did not work out. */
static bool
prepare (GmStretch *s, GmSlot *slot, bool hooks_are_inside)
{
  GmAgNode *n = slot->node;

  if (has_any (n->hooks) && !slot->greeted && !hooks_are_inside) {
    slot->greeted = true;
    if (!gm_hooks_run (n->hooks, 0, &slot->one, &s->error))
      return false;
  }
  return !n->released && (!n->region || gm_region_give (n, &s->error));
}

/* The step at the top of the heap becomes part of the stretch; false if it cannot, or s->error. */
static bool
take_operation (GmStretch *s, GmSlot *slot)
{
  GmAgNode *n = slot->node;
  Step step = { slot, true, 0 };

  if (n->kind != GM_NODE_OP || n->released || gm_node_is_hooked (n))
    return false;
  if (s->steps->len > 0 && !gm_region_is_ready (n))
    return false;
  Mark before = mark (s);
  bool inlined = take_hooks (s, slot, &step);
  if ((!inlined && s->steps->len > 0) || !prepare (s, slot, inlined) || !is_intact (n)) {
    go_back (s, before);
    return false;
  }
  if (!inlined)
    put_word (s->structure, 0);
  put_word (s->structure, place_of (s, slot, NULL));
  before = mark (s);
  before.hooks = step.first_hook;
  step.saved = s->inputs->len;
  if (!read_all_saved (s, n, &s->error)) {
    go_back (s, before);
    return false;
  }
  slot->greeted = true;
  describe (s, n);
  gm_walk_pop (s->w);
  g_array_append_val (s->steps, step);
  s->n_operations++;
  tell (s, n, PLACE (s, slot)->like);
  return true;
}

static bool
take_arrival (GmStretch *s, GmSlot *slot)
{
  Step step = { slot, false, 0 };

  if (has_post_hooks (slot->node) || gm_node_is_hooked (slot->node) || !take_hooks (s, slot, &step))
    return false;
  slot->greeted = true;
  put_word (s->structure, UINT32_MAX - 1);
  put_word (s->structure, place_of (s, slot, NULL));
  gm_walk_pop (s->w);
  g_array_append_val (s->steps, step);
  return true;
}

/* What has arrived at the step's node is looked at by somebody else than the node. */
static bool
is_watched (const GmStretch *s, const GmSlot *slot)
{
  return slot->captured || (s->w->accumulate && slot->node->retained && slot->node->retained->len > 0);
}

static void
collect (GmStretch *s)
{
  bool more = true;

  put_word (s->structure, s->w->create);
  while (more && s->w->n_heap > 0) {
    GmSlot *slot = s->w->heap[0];
    bool runs = slot->needed && slot->node->kind != GM_NODE_LEAF;
    more = runs ? take_operation (s, slot) : take_arrival (s, slot);
  }
  for (guint i = 0; i < s->steps->len; i++)
    if (STEP (s, i)->runs)
      PLACE (s, STEP (s, i)->slot)->inside = !is_watched (s, STEP (s, i)->slot);
  for (guint i = 0; i < s->places->len; i++)
    put (s->structure, &g_array_index (s->places, Place, i).inside, sizeof (bool));
}

/* -- What the runner may ask ------------------------------------------------------------------- */

uint32_t
gm_stretch_n_steps (const GmStretch *s)
{
  return s->steps->len;
}

uint32_t
gm_stretch_n_operations (const GmStretch *s)
{
  return s->n_operations;
}

uint32_t
gm_stretch_n_outputs (const GmStretch *s)
{
  return s->n_gradients;
}

GmTensor *const *
gm_stretch_inputs (const GmStretch *s, uint32_t *n)
{
  *n = s->inputs->len;
  return (GmTensor *const *) s->inputs->pdata;
}

char *
gm_stretch_input_name (const GmStretch *s, uint32_t i)
{
  return g_strdup_printf (g_array_index (s->origins, Origin, i).gradient ? "grad%u" : "saved%u", i);
}

bool
gm_stretch_creates_graph (const GmStretch *s)
{
  return s->w->create;
}

const GByteArray *
gm_stretch_structure (const GmStretch *s)
{
  return s->structure;
}

const GByteArray *
gm_stretch_shape (const GmStretch *s)
{
  return s->shape;
}

/* -- As a program ------------------------------------------------------------------------------ */

/* What the hooks of a step make of what has arrived there. */
static void
emit_hooks (const GmStretch *s, const Step *step, GmBuilder *b, const GmVal *inputs, GmVal *grad)
{
  for (uint32_t i = 0; i < step->n_hooks && !gm_b_failed (b); i++) {
    const Hook *h = &g_array_index (s->hooks, Hook, step->first_hook + i);
    const GmMeta *have = gm_b_meta (b, *grad), *want = &h->program->grad;
    if (!gm_meta_same_shape (have, want) || have->dtype != want->dtype ||
        memcmp (have->strides, want->strides, sizeof have->strides)) {
      gm_b_fail (b, GM_ERROR_UNSUPPORTED, "a hook is known for gradients of another dtype, shape or layout");
      return;
    }
    GmVal replaced = h->program->emit (h->program, b, *grad, inputs + h->captured);
    *grad = replaced ? replaced : *grad;
  }
}

/* The same, for an executing builder, by calling them. */
static void
call_hooks (const Step *step, GmBuilder *b, GmVal *grad)
{
  GmTensor *g = gm_tensor_ref (gm_tensor_from_val (*grad));

  if (gm_hooks_run (hooks_of (step->slot->node), 0, &g, &b->error))
    *grad = b->vt->constant (b, g); /* the builder keeps it */
  gm_tensor_unref (g);
}

/* Sends what has arrived at n on; values: per gradient of the stretch. */
static void
emit_operation (const GmStretch *s, const Step *step, GmBuilder *b, const GmVal *inputs, GmVal *values)
{
  const GmAgNode *n = step->slot->node;
  GmVal grad = values[PLACE (s, step->slot)->first], in[n->n_in + 1], result[n->n_in + 1], out = NULL;
  const GmMeta *metas[n->n_in + 1], *meta = gm_b_meta (b, grad);
  GmSlot *to[n->n_in + 1];
  bool need[n->n_in + 1];
  uint32_t at = step->saved;

  for (uint32_t i = 0; i < n->n_in; i++) {
    in[i] = i < GM_NODE_INLINE && n->saved_in[i].t ? inputs[at++] : NULL;
    metas[i] = n->extra ? &n->extra->in[i] : meta;
    to[i] = target (s, n, i);
    need[i] = to[i] != NULL;
    result[i] = NULL;
  }
  if (n->saved_out.t)
    out = inputs[at];
  gm_op_gradient (&(GmGradient){ .b = b, .op = (GmOp) n->op, .n_in = (int) n->n_in, .in = in, .out = out, .in_meta = metas,
                                 .out_meta = meta, .attrs = n->extra ? &n->extra->attrs : NULL, .grad = grad, .need = need,
                                 .result = result });
  for (uint32_t i = 0; i < n->n_in; i++)
    if (to[i] && result[i]) {
      GmVal *sum = &values[PLACE (s, to[i])->first + n->edges[i].nr];
      *sum = *sum ? gm_b (b, add, *sum, result[i]) : result[i];
    }
}

/* What was there before, as values; values: per gradient of the stretch. */
static void
take_arrived (const GmStretch *s, const GmVal *in, GmVal *values)
{
  for (guint i = 0; i < s->places->len; i++) {
    const Place *p = &g_array_index (s->places, Place, i);
    uint32_t at = p->arrived;
    for (uint32_t nr = 0; nr < p->slot->node->n_out; nr++)
      values[p->first + nr] = *gm_walk_gradient (p->slot, nr) ? in[at++] : NULL;
  }
}

void
gm_stretch_emit (const GmStretch *s, GmBuilder *b, const GmVal *in, GmVal *out, bool *ran,
                 void (*note) (GmBuilder *b, const char *name))
{
  g_autofree GmVal *values = g_new0 (GmVal, s->n_gradients + 1);
  g_autofree GmVal *before = g_new0 (GmVal, s->n_gradients + 1);

  take_arrived (s, in, values);
  take_arrived (s, in, before);
  for (guint i = 0; i < s->steps->len && !gm_b_failed (b); i++) {
    const Step *step = STEP (s, i);
    GmVal *grad = &values[PLACE (s, step->slot)->first];
    if (note)
      note (b, NULL);
    if (*grad && step->n_hooks > 0)
      s->calls_hooks ? call_hooks (step, b, grad) : emit_hooks (s, step, b, in, grad);
    ran[i] = step->runs && *grad;
    if (!ran[i] || gm_b_failed (b))
      continue;
    if (note)
      note (b, gm_node_name (step->slot->node));
    emit_operation (s, step, b, in, values);
  }
  for (guint i = 0; i < s->places->len && !gm_b_failed (b); i++) {
    const Place *p = &g_array_index (s->places, Place, i);
    for (uint32_t k = p->first; !p->inside && k < p->first + p->slot->node->n_out; k++)
      out[k] = values[k] == before[k] ? NULL : values[k];
  }
}

typedef struct {
  GmEagerBuilder eager;
  const char *name; /* of the node whose gradient is made; NULL: a hook runs */
} Named;

static void
note_name (GmBuilder *b, const char *name)
{
  ((Named *) b)->name = name;
}

bool
gm_stretch_run_eagerly (void *data, GmStretch *s, GmTensor **out, bool *ran, GError **error)
{
  g_autofree GmVal *values = g_new0 (GmVal, s->n_gradients + 1);
  Named b = { .name = NULL };
  bool ok;

  (void) data;
  s->calls_hooks = true;
  gm_eager_builder_init (&b.eager);
  gm_stretch_emit (s, &b.eager.base, (const GmVal *) s->inputs->pdata, values, ran, note_name);
  ok = !gm_b_failed (&b.eager.base);
  if (!ok)
    g_propagate_prefixed_error (error, g_steal_pointer (&b.eager.base.error), "%s%s", b.name ? b.name : "", b.name ? ": " : "");
  for (uint32_t k = 0; ok && k < s->n_gradients; k++)
    out[k] = values[k] ? gm_tensor_ref (gm_tensor_from_val (values[k])) : NULL;
  gm_eager_builder_clear (&b.eager);
  return ok;
}

/* -- In the walk ------------------------------------------------------------------------------- */

/* Gradients are there: those of the stretch alone go, the others take their places. */
static void
put_gradients (GmStretch *s, GmTensor **out)
{
  for (guint i = 0; i < s->places->len; i++) {
    Place *p = &g_array_index (s->places, Place, i);
    if (p->inside)
      gm_walk_clear (p->slot);
    for (uint32_t nr = 0; nr < p->slot->node->n_out; nr++) {
      GmTensor **g = gm_walk_gradient (p->slot, nr);
      if (!out[p->first + nr])
        continue;
      gm_tensor_unref (*g);
      *g = out[p->first + nr];
    }
  }
}

static bool
finish_step (GmStretch *s, const Step *step, bool ran, GError **error)
{
  GmSlot *slot = step->slot;
  bool ok = true;

  if (!step->runs)
    return gm_walk_run_node (s->w, slot, error);
  if (is_watched (s, slot)) {
    slot->greeted = true;
    ok = gm_walk_arrive (s->w, slot, error);
    gm_walk_clear (slot);
  }
  if (ran && !s->w->retain)
    gm_node_release (slot->node);
  return ok;
}

static bool
run (GmStretch *s, GError **error)
{
  g_autofree GmTensor **out = g_new0 (GmTensor *, s->n_gradients + 1);
  g_autofree bool *ran = g_new0 (bool, s->steps->len + 1);
  const GmStretchRunner *r = gm_stretch_runner_now;
  bool ok = (s->n_operations == 0 && s->hooks->len == 0) || r->run (r->data, s, out, ran, error);

  if (ok)
    put_gradients (s, out);
  drop_inputs (s, 0);
  for (guint i = 0; i < s->places->len; i++)
    g_array_index (s->places, Place, i).slot->place = 0;
  for (guint i = 0; ok && i < s->steps->len; i++)
    ok = finish_step (s, STEP (s, i), ran[i], error);
  return ok;
}

static void
stretch_init (GmStretch *s, GmWalk *w)
{
  *s = (GmStretch){ .w = w };
  s->steps = g_array_new (FALSE, FALSE, sizeof (Step));
  s->places = g_array_new (FALSE, FALSE, sizeof (Place));
  s->inputs = g_ptr_array_new ();
  s->origins = g_array_new (FALSE, FALSE, sizeof (Origin));
  s->hooks = g_array_new (FALSE, FALSE, sizeof (Hook));
  s->structure = g_byte_array_new ();
  s->shape = g_byte_array_new ();
}

static void
stretch_clear (GmStretch *s)
{
  drop_inputs (s, 0);
  drop_hooks (s, 0);
  g_array_unref (s->hooks);
  for (guint i = 0; i < s->places->len; i++)
    g_array_index (s->places, Place, i).slot->place = 0;
  g_array_unref (s->steps);
  g_array_unref (s->places);
  g_ptr_array_unref (s->inputs);
  g_array_unref (s->origins);
  g_byte_array_unref (s->structure);
  g_byte_array_unref (s->shape);
}

bool
gm_stretch_step (GmWalk *w, GError **error)
{
  GmStretch s;
  bool ok = true;

  stretch_init (&s, w);
  collect (&s);
  if (s.steps->len > 0)
    ok = run (&s, error);
  bool alone = s.steps->len == 0 && !s.error;
  if (s.error && ok) {
    g_propagate_error (error, g_steal_pointer (&s.error));
    ok = false;
  }
  g_clear_error (&s.error);
  stretch_clear (&s);
  return alone ? gm_walk_run_node (w, gm_walk_pop (w), error) : ok;
}
