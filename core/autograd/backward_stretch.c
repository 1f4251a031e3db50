/* SPDX-License-Identifier: Apache-2.0
 * backward_stretch.c -- collects steps of a walk, describes them, and puts their results in place.
 *
 * Collecting goes through the heap exactly as the engine does, but computes nothing: which node is
 * ready when depends on edges and sequence numbers alone.  Afterwards the walk is as if the steps
 * had been taken, but for the gradients; these come from the runner and land in the order of the
 * steps.  A leaf, and an input that was asked for, is reached in a stretch, not left: what happens
 * there (adding up, keeping) is done by the engine when the stretch is over.  No code of the
 * program's can see that, because a step that runs such code ends the stretch.
 *
 * Saved-tensor hooks are the exception: tensors that a stretch reads are unpacked while it is
 * collected, in the order of use.
 * Rejected: one program for a whole backward, keyed before it starts.  A hook may return a gradient
 * with any strides, and the walk has to go on from there; a stretch begins with the gradients that
 * are there, so it is never undone for that.
 */
#include "core/autograd/backward_stretch_private.h"

#include <string.h>

GM_THREAD const GmStretchRunner *gm_stretch_runner_now;

typedef GmStretchStep Step;
typedef GmStretchHook Hook;
typedef GmStretchPlace Place;

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
  static const uint8_t bytes[] = {
    ['I'] = sizeof (int64_t), ['B'] = 1, ['D'] = 1, ['W'] = sizeof at->window
  };

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
add_input (GmStretch *s, GmTensor *t, GmStretchOrigin origin)
{
  g_ptr_array_add (s->inputs, t);
  g_array_append_val (s->origins, origin);
  put_meta (s->shape, &t->meta);
}

/* Returns the number, in the stretch, of the gradient of the slot's first output.  like: the meta
 * of the gradient that is about to arrive there, if none has. */
static uint32_t
place_of (GmStretch *s, GmSlot *slot, const GmMeta *like)
{
  if (slot->place)
    return GM_STRETCH_PLACE (s, slot)->first;
  Place p = { slot, s->n_gradients, s->inputs->len, false, { 0 } };
  if (slot->node->n_out == 1)
    p.like = slot->one ? slot->one->meta : like ? *like : p.like;
  s->n_gradients += slot->node->n_out;
  put_word (s->structure, slot->node->n_out);
  for (uint32_t nr = 0; nr < slot->node->n_out; nr++) {
    GmTensor *g = *gm_walk_gradient (slot, nr);
    put_word (s->structure, g != NULL);
    if (g)
      add_input (s, g, (GmStretchOrigin){ false, true });
  }
  g_array_append_val (s->places, p);
  slot->place = s->places->len;
  return p.first;
}

static bool
has_any (const GArray *hooks)
{
  return hooks && hooks->len > 0;
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
  return !saved->t || saved->is_packed || *gm_tensor_writes (saved->t) == saved->version;
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
  add_input (s, s->w->create ? gm_walk_with_history (t, edge) : t, (GmStretchOrigin){ own, false });
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

/* Notes that edge i of n has delivered, with a gradient or without, to the node that it leads
 * to. */
static void
tell_edge (GmStretch *s, const GmAgNode *n, uint32_t i, const GmMeta *like)
{
  GmSlot *to = n->edges[i].node ? gm_walk_slot (s->w, n->edges[i].node) : NULL;
  bool wanted = to && gm_stretch_is_wanted (to);

  put_word (s->structure, wanted && gm_walk_leads_on (to, n->edges[i].nr)
                              ? place_of (s, to, like) + n->edges[i].nr
                              : UINT32_MAX);
  if (to && --to->waiting == 0 && wanted)
    gm_walk_push (s->w, to);
}

static void
tell (GmStretch *s, const GmAgNode *n, GmMeta like)
{
  for (uint32_t i = 0; i < n->n_in; i++)
    tell_edge (s, n, i, n->extra ? &n->extra->in[i] : &like);
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
    if (g_array_index (s->origins, GmStretchOrigin, i).owned)
      gm_tensor_unref (g_ptr_array_index (s->inputs, i));
  g_ptr_array_set_size (s->inputs, (gint) from);
  g_array_set_size (s->origins, from);
}

/* The lengths of all arrays at one moment, to which go_back returns. */
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

/* True if the gradients at the slot are read by a capture or by retain_grad (), beside its node. */
static bool
is_watched (const GmStretch *s, const GmSlot *slot)
{
  return slot->captured
         || (s->w->accumulate && slot->node->retained && slot->node->retained->len > 0);
}

/* Returns the backward of the slot's function as a program, owned by s, if it has one and nothing
 * reads its gradients before it runs; else NULL.  The program depends on all gradients that have
 * arrived so far, so the function must be the first step of a stretch. */
static const GmAgProgram *
find_program (GmStretch *s, GmSlot *slot)
{
  GmAgNode *n = slot->node;
  bool may = n->kind == GM_NODE_FUNCTION && n->fn->program && s->steps->len == 0 && !s->w->create
             && !n->released;

  if (!may || gm_node_is_hooked (n) || is_watched (s, slot))
    return NULL;
  if (!gm_walk_greet (s->w, slot, &s->error) || (n->region && !gm_region_give (n, &s->error)))
    return NULL;
  GmAgProgram *p =
      n->fn->program (n, n->state, slot->many ? slot->many : &slot->one, s->structure, &s->error);
  if (p)
    g_ptr_array_add (s->programs, p);
  return p;
}

static bool
take_function (GmStretch *s, GmSlot *slot)
{
  GmAgNode *n = slot->node;
  Mark before = mark (s);
  Step step = { slot, true, 0 };

  put_word (s->structure, UINT32_MAX - 2);
  if (!(step.program = find_program (s, slot))) {
    go_back (s, before);
    return false;
  }
  step.first_hook = s->hooks->len;
  put_word (s->structure, place_of (s, slot, NULL));
  step.saved = s->inputs->len;
  for (uint32_t i = 0; i < step.program->n_in; i++)
    add_input (s, step.program->in[i], (GmStretchOrigin){ false, false });
  gm_walk_pop (s->w);
  g_array_append_val (s->steps, step);
  s->n_operations += step.program->n_operations;
  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t i = step.program->order ? step.program->order[k] : k;
    tell_edge (s, n, i, &step.program->results[i]);
  }
  return true;
}

/* True if t shares memory with the gradient of a leaf that the stretch adds to: t will have changed
 * when a step reads it. */
static bool
is_summed (const GmStretch *s, const GmTensor *t)
{
  for (guint i = 0; i < s->steps->len; i++) {
    const GmAgNode *n = GM_STRETCH_STEP (s, i)->slot->node;
    const GmTensor *grad = n->kind == GM_NODE_LEAF ? gm_tensor_grad (n->saved_in[0].t) : NULL;
    if (grad && grad->storage == t->storage)
      return true;
  }
  return false;
}

/* Takes the hooks at a slot into the stretch, as programs.  False, with nothing changed, if a hook
 * has no program. */
static bool
take_hooks (GmStretch *s, const GmSlot *slot, Step *step)
{
  const GmMeta *like = slot->place ? &GM_STRETCH_PLACE (s, slot)->like
                       : slot->one ? &slot->one->meta
                                   : NULL;
  const GArray *hooks = gm_stretch_hooks_of (slot->node);
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
    Hook one = { gm_stretch_runner_now->find_hook (h->fn, h->data, like, captured),
                 s->inputs->len };
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
      add_input (s, g_ptr_array_index (captured, k), (GmStretchOrigin){ true, false });
    }
    g_ptr_array_set_size (captured, 0);
    if (stale) {
      go_back (s, before);
      return false;
    }
  }
  step->n_hooks = hooks->len;
  return true;
}

/* Runs the user's code that has to run before the operation: hooks and regions.  Allowed only at
 * the start of a stretch.  False: it failed (s->error), or the operation can't run. */
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

/* Takes the step at the top of the heap into the stretch.  False if it can't be taken, with
 * s->error set if it failed. */
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
  tell (s, n, GM_STRETCH_PLACE (s, slot)->like);
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

static void
collect (GmStretch *s)
{
  bool more = true;

  put_word (s->structure, s->w->create);
  while (more && s->w->n_heap > 0) {
    GmSlot *slot = s->w->heap[0];
    bool runs = slot->needed && slot->node->kind != GM_NODE_LEAF;
    bool function = runs && slot->node->kind == GM_NODE_FUNCTION;
    more = function ? take_function (s, slot)
           : runs   ? take_operation (s, slot)
                    : take_arrival (s, slot);
  }
  for (guint i = 0; i < s->steps->len; i++)
    if (GM_STRETCH_STEP (s, i)->runs)
      GM_STRETCH_PLACE (s, GM_STRETCH_STEP (s, i)->slot)->inside =
          !is_watched (s, GM_STRETCH_STEP (s, i)->slot);
  for (guint i = 0; i < s->places->len; i++)
    put (s->structure, &g_array_index (s->places, Place, i).inside, sizeof (bool));
}

/* -- Functions for the runner ------------------------------------------------------------------ */

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
  return g_strdup_printf (
      g_array_index (s->origins, GmStretchOrigin, i).gradient ? "grad%u" : "saved%u", i);
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

/* -- In the walk ------------------------------------------------------------------------------- */

/* Distributes the results: gradients that only the stretch reads are freed, the others go to their
 * slots. */
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

/* True if the stretch may be undone: an operation has failed, and no user code has been called. */
static bool
may_undo (const GmStretch *s, const GError *error)
{
  bool operation = error->domain == GM_ERROR
                   && (error->code == GM_ERROR_INDEX || error->code == GM_ERROR_RUNTIME
                       || error->code == GM_ERROR_VALUE || error->code == GM_ERROR_MEMORY);

  return operation && (!s->calls_hooks || (s->hooks->len == 0 && s->programs->len == 0));
}

static int
by_arrival (gconstpointer a, gconstpointer b)
{
  const GmSlot *x = *(GmSlot *const *) a, *y = *(GmSlot *const *) b;

  return (x->arrived > y->arrived) - (x->arrived < y->arrived);
}

/* Undoes a stretch whose results have not been delivered: the slots that were ready before are
 * ready again, and the walk goes on node by node.  So the operation fails again, with its own error
 * text, after all that comes before it. */
static void
undo (GmStretch *s)
{
  GmWalk *w = s->w;
  g_autoptr (GPtrArray) slots = g_ptr_array_new ();

  for (uint32_t i = 0; i < w->n_heap; i++)
    g_ptr_array_add (slots, w->heap[i]);
  for (guint i = 0; i < s->steps->len; i++) {
    const Step *step = GM_STRETCH_STEP (s, i);
    const GmAgNode *n = step->slot->node;
    g_ptr_array_add (slots, step->slot);
    if (step->n_hooks > 0) /* the hooks were a part of the program */
      step->slot->greeted = false;
    for (uint32_t k = 0; step->runs && k < n->n_in; k++) {
      GmSlot *to = n->edges[k].node ? gm_walk_slot (w, n->edges[k].node) : NULL;
      if (to)
        to->waiting++;
    }
  }
  g_ptr_array_sort (slots, by_arrival);
  w->n_heap = 0;
  for (guint i = 0; i < slots->len; i++)
    if (((GmSlot *) slots->pdata[i])->waiting == 0)
      gm_walk_push (w, slots->pdata[i]);
  w->plainly = true;
}

static bool
run (GmStretch *s, GError **error)
{
  g_autofree GmTensor **out = g_new0 (GmTensor *, s->n_gradients + 1);
  g_autofree bool *ran = g_new0 (bool, s->steps->len + 1);
  const GmStretchRunner *r = gm_stretch_runner_now;
  GError *failed = NULL;
  bool ok = (s->n_operations == 0 && s->hooks->len == 0) || r->run (r->data, s, out, ran, &failed);
  bool again = failed && may_undo (s, failed);

  if (ok)
    put_gradients (s, out);
  drop_inputs (s, 0);
  if (again) {
    g_clear_error (&failed);
    g_clear_error (&s->error);
    undo (s);
    return true;
  }
  if (failed)
    g_propagate_error (error, failed);
  for (guint i = 0; i < s->places->len; i++)
    g_array_index (s->places, Place, i).slot->place = 0;
  for (guint i = 0; ok && i < s->steps->len; i++)
    ok = finish_step (s, GM_STRETCH_STEP (s, i), ran[i], error);
  return ok;
}

static void
free_program (void *p)
{
  ((GmAgProgram *) p)->free (p);
}

static void
stretch_init (GmStretch *s, GmWalk *w)
{
  *s = (GmStretch){ .w = w };
  s->steps = g_array_new (FALSE, FALSE, sizeof (Step));
  s->places = g_array_new (FALSE, FALSE, sizeof (Place));
  s->inputs = g_ptr_array_new ();
  s->origins = g_array_new (FALSE, FALSE, sizeof (GmStretchOrigin));
  s->hooks = g_array_new (FALSE, FALSE, sizeof (Hook));
  s->programs = g_ptr_array_new_with_free_func (free_program);
  s->structure = g_byte_array_new ();
  s->shape = g_byte_array_new ();
}

static void
stretch_clear (GmStretch *s)
{
  drop_inputs (s, 0);
  drop_hooks (s, 0);
  g_array_unref (s->hooks);
  g_ptr_array_unref (s->programs);
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
