/* SPDX-License-Identifier: Apache-2.0
 * api_call.c -- calls of gramme's functions become graph nodes, through the same rows of the API
 * table that eager runs.
 *
 * The recorder's builder is the graph's, with entries of its own: `op` marks results as free of
 * gradients while grad mode is off, `into` and `set` refuse changes in place that have no
 * functional form and record the others, `item` becomes a break and `random` an input. So a
 * recording can differ from eager only by the builder.
 */
#include "core/tensor/fence.h"
#include "core/models/models_private.h"
#include "core/trace/exception.h"
#include "core/trace/number.h"
#include "core/trace/traced_size.h"

#include <string.h>

#define recorder_of(b) ((GmRecorder *) ((char *) (b) -offsetof (GmRecorder, builder)))

static const GmBuilderVtable *graph_vtable;

/* -- The builder ----------------------------------------------------------- */

/* Returns the value at the root of v, whose memory v shares through views and in-place writes. */
static GmValueId
root_of (const GmGraph *g, GmValueId v)
{
  for (;;) {
    uint32_t node = gm_graph_value (g, v)->node;
    if (node == GM_NO_ID)
      return v;
    const GmNode *n = gm_graph_node (g, node);
    uint8_t family = gm_ops[n->op].family;
    if (family != GM_FAMILY_MOVEMENT && family != GM_FAMILY_MUTATE)
      return v;
    v = n->in[0];
  }
}

/* True if the graph has views of the memory of `root`.  quiet: only views count that were taken,
 * with gradients off, of a value that requires grad. */
static bool
has_views (const GmGraph *g, GmValueId root, bool quiet)
{
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (gm_ops[n->op].family == GM_FAMILY_MOVEMENT && root_of (g, n->out) == root
        && (!quiet
            || (!gm_op_detaches (n->op) && !gm_graph_meta (g, n->out)->requires_grad
                && gm_graph_meta (g, n->in[0])->requires_grad)))
      return true;
  }
  return false;
}

/* True for an operation that raises depending on a tensor's elements: it raises when the graph
 * runs, too late for an `except` of the program. */
static bool
fails_on_values (GmRecorder *r, GmOp op, const GmVal *in, int n_in)
{
  if (op == GM_OP_gather || op == GM_OP_index_select || op == GM_OP_scatter_add
      || op == GM_OP_index_add)
    return true;
  bool divides = op == GM_OP_floor_divide || op == GM_OP_remainder;
  return divides && n_in > 1 && in[1]
         && !gm_dtype_is_float (gm_graph_meta (r->graph, gm_id_from_val (in[1]))->dtype);
}

/* True for a cast of integers with gradients off.  Such a cast leaves no trace in the graph:
 * integers are not tested for gradients (core/aot/read_order.c). */
static bool
casts_unseen (const GmRecorder *r, GmOp op, const GmVal *in, const GmAttrs *attrs)
{
  return gm_ops[op].family == GM_FAMILY_CAST && in[0] && !gm_dtype_is_float ((GmDtype) attrs->dtype)
         && !gm_grad_mode_get (r)
         && gm_graph_meta (r->graph, gm_id_from_val (in[0]))->requires_grad;
}

static GmVal
record_op (GmBuilder *base, GmOp op, const GmVal *in, int n_in, const GmAttrs *attrs)
{
  GmRecorder *r = recorder_of (base);
  if (fails_on_values (r, op, in, n_in) && !base->error && gm_exception_guarded (r)) {
    gm_record_break (r, GM_BREAK_TRY_BLOCK, gm_ops[op].name);
    return gm_b_fail (base, GM_ERROR_UNSUPPORTED, "in a try block");
  }
  GmVal unseen =
      casts_unseen (r, op, in, attrs) ? graph_vtable->op (base, GM_OP_detach, in, 1, NULL) : NULL;
  if (unseen)
    in = &unseen;
  GmVal v = graph_vtable->op (base, op, in, n_in, attrs);
  if (v && !gm_grad_mode_get (r))
    gm_graph_meta (r->graph, gm_id_from_val (v))->requires_grad = 0;
  return v;
}

/* True if a detach lies between v and `root`, the root of its views, so that v's gradient does
 * not reach the root. */
static bool
is_detached (const GmGraph *g, GmValueId v, GmValueId root)
{
  while (v != root) {
    const GmNode *n = gm_graph_node (g, gm_graph_value (g, v)->node);
    if (gm_op_detaches (n->op))
      return true;
    v = n->in[0];
  }
  return false;
}

static const GmTracker *
tracker_of_input (const GmRecorder *r, GmValueId input)
{
  for (uint32_t i = 0; i < r->inputs->len; i++)
    if (g_array_index (r->inputs, GmInput, i).value == input)
      return g_array_index (r->inputs, GmInput, i).tracker;
  return NULL;
}

/* True if the graph may write to an input.  False, with a break, if the write may be refused for
 * a property that no graph shows: the input is a leaf, or its memory is read-only.  Eager would
 * raise here; a guard makes sure that a later call which eager would refuse does not use this
 * entry. */
static bool
may_write_input (GmRecorder *r, GmValueId input, GmOp op, bool grad)
{
  const GmTracker *t = tracker_of_input (r, input);
  g_autoptr (GError) error = NULL;
  if (t == NULL)
    return true;
  if (!gm_host.may_write (gm_host_tensor (t->real), grad, &error)) {
    gm_record_break (r, GM_BREAK_TENSOR_ERROR, gm_ops[op].name, error->message);
    return false;
  }
  gm_guard (r, WRITABLE, t->source, .index = grad);
  return true;
}

bool
gm_inputs_share (const GmRecorder *r, GmValueId a, GmValueId b)
{
  const GmTracker *one = tracker_of_input (r, a), *other = tracker_of_input (r, b);
  if (a == b || !one || !other)
    return a == b;
  return gm_host_tensor (one->real)->storage == gm_host_tensor (other->real)->storage;
}

/* True, with a break, if a hook on the value `root` is still to be registered when the region
 * has run: it must be registered before the write. */
static bool
has_hook (GmRecorder *r, GmValueId root)
{
  if (!gm_hook_pending (r, root))
    return false;
  gm_record_break (r, GM_BREAK_TENSOR_HOOK, "a hook", "changes in place after it");
  return true;
}

/* True if node n and the write of its result to `operand` are the same operation, as in x.sin_
 * (): then the gradient of n reads a copy of the operand.  x.copy_ (x.sin ()) is two operations,
 * and plain Python refuses the gradient of the sine. */
static bool
is_written_to (const GmGraph *g, const GmNode *n, GmValueId operand)
{
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *write = gm_graph_node (g, i);
    if (write->tag == GM_TAG_IN_PLACE && write->in[0] == operand && write->in[1] == n->out)
      return true;
  }
  return false;
}

/* True if the gradient of a recorded operation reads the memory of `root` as it is now: after a
 * write, plain Python refuses that gradient. */
static bool
is_kept_for_gradients (const GmGraph *g, GmValueId root)
{
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    uint32_t need = 0;
    if (!gm_graph_meta (g, n->out)->requires_grad || gm_op_is_higher (n->op)
        || n->op == GM_OP_custom || gm_ops[n->op].family == GM_FAMILY_MUTATE)
      continue;
    for (uint32_t k = 0; k < n->n_in; k++)
      if (gm_graph_meta (g, n->in[k])->requires_grad && gm_op_is_differentiable (n->op, (int) k))
        need |= 1u << MIN (k, 30);
    uint32_t saves = need ? gm_op_saves (n->op, (int) n->n_in, need) : 0;
    if (saves & GM_SAVES_OUT && n->out == root)
      return true;
    for (uint32_t k = 0; k < n->n_in && k < 30; k++)
      if (saves >> k & 1 && root_of (g, n->in[k]) == root && !is_written_to (g, n, n->in[k]))
        return true;
  }
  return false;
}

/* True if another input shares memory with `input` but has a write counter of its own, like x
 * and x.data. */
static bool
is_counted_twice (const GmRecorder *r, GmValueId input)
{
  const GmTracker *t = tracker_of_input (r, input);
  const GmTensor *real = t && t->real ? gm_host_tensor (t->real) : NULL;
  for (uint32_t i = 0; real && i < r->inputs->len; i++) {
    const GmTracker *o = g_array_index (r->inputs, GmInput, i).tracker;
    const GmTensor *other =
        o && o->real && o->kind == &gm_kind_tensor ? gm_host_tensor (o->real) : NULL;
    if (other && other->storage == real->storage && other->counter != real->counter)
      return true;
  }
  return false;
}

/* True, with a break, if the write to dst may be refused by vmap's fence. */
static bool
breaks_fence (GmRecorder *r, const char *name, GmValueId dst)
{
  if (!gm_fence_trace_refuses (r, dst))
    return false;
  gm_record_break (r, GM_BREAK_TENSOR_ERROR, name, GM_FENCE_REASON);
  return true;
}

/* Records an in-place write and returns the new value of dst; NULL with an error in the builder,
 * mostly after a break.  With gradients off, or through a detach, the elements of an input that
 * requires grad change and its gradient history does not: the input keeps its value in the graph,
 * which functionalize updates.  Breaks at a write that would change whether other tensors in the
 * memory require grad, or that would change only a part of a history. */
static GmVal
record_into (GmBuilder *base, GmVal dst, GmOp op, const GmVal *in, int n_in, const GmAttrs *attrs)
{
  GmRecorder *r = recorder_of (base);
  if (base->error || dst == NULL)
    return NULL;
  GmGraph *g = r->graph;
  GmValueId id = gm_id_from_val (dst), root = root_of (g, id);
  bool is_input = gm_graph_value (g, root)->node == GM_NO_ID;
  bool had = gm_graph_meta (g, id)->requires_grad,
       root_had = gm_graph_meta (g, root)->requires_grad;
  if (breaks_fence (r, gm_ops[op].name, id))
    return gm_b_fail (base, GM_ERROR_UNSUPPORTED, "in place");
  bool on = gm_grad_mode_get (r), gains = false;
  bool recorded = on && !is_detached (g, id, root);
  for (int i = 0; i < n_in && on; i++)
    gains |= in[i] && gm_graph_meta (g, gm_id_from_val (in[i]))->requires_grad;
  bool constant =
      !is_input && gm_graph_node (g, gm_graph_value (g, root)->node)->op == GM_OP_constant;
  bool refused = constant || (!is_input && !recorded && (root_had || had))
                 || (recorded && root_had && (!had || has_views (g, root, true)))
                 || (gains && !had && (id != root || has_views (g, root, false)))
                 || is_kept_for_gradients (g, root) || (is_input && is_counted_twice (r, root));
  if (refused)
    gm_record_break (r, GM_BREAK_TENSOR_INPLACE_GRAD, gm_ops[op].name);
  for (int i = 0; i < n_in && !refused; i++) { /* an operand with one element may be on the CPU */
    const GmMeta *m = in[i] ? gm_graph_meta (g, gm_id_from_val (in[i])) : NULL;
    refused = m && m->ndim > 0 && m->device != gm_graph_meta (g, id)->device;
    if (refused)
      gm_record_break (r, GM_BREAK_CALL_METHOD, "copy_", "tensor of another device");
  }
  if (refused || (is_input && !may_write_input (r, root, op, recorded)) || has_hook (r, root))
    return gm_b_fail (base, GM_ERROR_UNSUPPORTED, "in place");
  GmVal v = graph_vtable->into (base, dst, op, in, n_in, attrs);
  if (!v)
    return NULL;
  g_array_append_val (r->mutated, root);
  if (on)
    return v;
  gm_graph_meta (g, gm_id_from_val (v))->requires_grad = 0;
  return had ? dst : v;
}

/* True if v is x.data of some x, or a view of that: then v has a write counter of its own. */
static bool
is_counted_apart (const GmGraph *g, GmValueId v)
{
  for (uint32_t node; (node = gm_graph_value (g, v)->node) != GM_NO_ID;
       v = gm_graph_node (g, node)->in[0]) {
    const GmNode *n = gm_graph_node (g, node);
    if (n->op == GM_OP_data)
      return true;
    if (gm_ops[n->op].family != GM_FAMILY_MOVEMENT && gm_ops[n->op].family != GM_FAMILY_MUTATE)
      return false;
  }
  return false;
}

/* True if dst, which becomes the tensor src, has a write counter of its own before or
 * afterwards, while both share memory: the layer that gives tensors other shapes counts the change
 * as a write to the memory's owner.  Two inputs may share memory. */
static bool
changes_counter (const GmGraph *g, GmValueId dst, GmValueId src)
{
  GmValueId to = root_of (g, dst), from = root_of (g, src);
  bool may_share =
      to == from
      || (gm_graph_value (g, to)->node == GM_NO_ID && gm_graph_value (g, from)->node == GM_NO_ID);
  return is_counted_apart (g, dst) || (may_share && is_counted_apart (g, src));
}

/* Records set_ (): the tensor dst becomes the tensor src, and its object gets a new value.
 * Views of the old value keep that.  Returns the new value; NULL with an error in the builder. */
static GmVal
record_set (GmBuilder *base, GmVal dst, GmVal src)
{
  GmRecorder *r = recorder_of (base);
  if (base->error || dst == NULL || src == NULL)
    return NULL;
  GmValueId root = root_of (r->graph, gm_id_from_val (dst));
  if (root != root_of (r->graph, gm_id_from_val (src))
      && breaks_fence (r, "set_", gm_id_from_val (dst)))
    return gm_b_fail (base, GM_ERROR_UNSUPPORTED, "in place");
  if (changes_counter (r->graph, gm_id_from_val (dst), gm_id_from_val (src))) {
    gm_record_break (r, GM_BREAK_CALL_METHOD, "set_", "x.data");
    return gm_b_fail (base, GM_ERROR_UNSUPPORTED, "in place");
  }
  if (gm_graph_value (r->graph, root)->node == GM_NO_ID
      && gm_graph_meta (r->graph, root)->requires_grad
      && !may_write_input (r, root, GM_OP_set_, gm_grad_mode_get (r)))
    return gm_b_fail (base, GM_ERROR_UNSUPPORTED, "in place");
  if (has_hook (r, root))
    return gm_b_fail (base, GM_ERROR_UNSUPPORTED, "in place");
  GmVal v = graph_vtable->set (base, dst, src);
  if (v)
    g_array_append_val (r->mutated, root);
  return v;
}

static void
need_generator (GmRecorder *r)
{
  if (r->builder.rng != GM_NO_ID)
    return;
  GmMeta m = gm_meta_make (GM_I64, 1, (const int64_t[]){ 2 });
  r->builder.rng = gm_graph_add_input (r->graph, "generator", &m);
  GmInput in = { r->builder.rng, NULL };
  g_array_append_val (r->inputs, in);
}

static GmVal
record_random (GmBuilder *base, uint64_t n_elements, int64_t *offset)
{
  if (base->error)
    return NULL;
  need_generator (recorder_of (base));
  return graph_vtable->random (base, n_elements, offset);
}

GmVal
gm_api_random_state (GmRecorder *r)
{
  need_generator (r);
  return gm_graph_builder_state (&r->builder);
}

static bool
record_item (GmBuilder *base, GmVal v, GmScalar *out)
{
  if (base->error == NULL) {
    gm_record_break (recorder_of (base), GM_BREAK_DATA_DEPENDENT_VALUE, "this call");
    gm_b_fail (base, GM_ERROR_UNSUPPORTED, "data-dependent");
  }
  return false;
}

static const GmTracker *
float_of (GmRecorder *r, GmVal v)
{
  for (uint32_t i = 0; i < r->elements->len; i++) {
    const GmTracker *t = r->elements->pdata[i];
    if (gm_contents_of (r, gm_float_element (r, t))->number == (int64_t) gm_id_from_val (v))
      return t;
  }
  g_assert_not_reached ();
}

static bool
record_number (GmBuilder *base, GmVal v, double *out)
{
  GmRecorder *r = recorder_of (base);
  const GmTracker *t = float_of (r, v);
  if (!gm_float_value (t, out))
    gm_record_break (r, GM_BREAK_UNKNOWN_NUMBER, "the value");
  else
    gm_float_settled (r, t);
  if (r->stop)
    gm_b_fail (base, GM_ERROR_UNSUPPORTED, "data-dependent");
  return !r->stop;
}

static bool
record_within (GmBuilder *base, GmVal v, double most)
{
  GmRecorder *r = recorder_of (base);
  const GmTracker *t = float_of (r, v);
  bool holds = false;
  return gm_float_compares (r, t, Py_LE, most, &holds) && holds
         && gm_float_compares (r, t, Py_GE, -most, &holds) && holds;
}

/* Returns the number of elements in the memory of v before its first element, a size; guards the
 * offset of an input.  Sets an error in the builder where the offset is not known. */
static int64_t
record_offset (GmBuilder *base, GmVal v)
{
  GmRecorder *r = recorder_of (base);
  const GmGraph *g = r->graph;
  GmValueId id = gm_id_from_val (v);
  int64_t bytes = 0, bytes_each = (int64_t) gm_dtype_size (gm_graph_meta (g, id)->dtype);
  uint32_t node;
  for (; (node = gm_graph_value (g, id)->node) != GM_NO_ID; id = gm_graph_node (g, node)->in[0]) {
    const GmNode *n = gm_graph_node (g, node);
    const GmMeta *m = gm_graph_meta (g, n->in[0]);
    if (gm_ops[n->op].family == GM_FAMILY_MOVEMENT)
      bytes = gm_size_add (
          bytes, gm_size_mul (gm_movement_offset (n->op, m, n->attrs, gm_graph_meta (g, n->out)),
                              (int64_t) gm_dtype_size (m->dtype)));
    else if (n->op == GM_OP_set_)
      break;
    else if (gm_ops[n->op].family != GM_FAMILY_MUTATE)
      return gm_size_floordiv (bytes, bytes_each);
  }
  const GmTracker *t = node == GM_NO_ID ? tracker_of_input (r, id) : NULL;
  if (t == NULL) {
    gm_b_fail (base, GM_ERROR_UNSUPPORTED,
               "where the tensor lies in its storage is not known while recording");
    return 0;
  }
  const GmTensor *real = gm_host_tensor (t->real);
  gm_guard (r, OFFSET, t->source, .index = real->offset);
  return gm_size_floordiv (
      gm_size_add (bytes, real->offset * (int64_t) gm_dtype_size (real->meta.dtype)), bytes_each);
}

/* Returns the value that v is a view of, as far as autograd follows views, and sets *offset to
 * the number of elements before v's first.  NULL: v is no view, or the value has gaps. */
static GmVal
record_around (GmBuilder *base, GmVal v, int64_t *offset)
{
  const GmGraph *g = recorder_of (base)->graph;
  GmValueId id = gm_id_from_val (v);
  uint32_t node;
  for (*offset = 0; (node = gm_graph_value (g, id)->node) != GM_NO_ID;
       id = gm_graph_node (g, node)->in[0]) {
    const GmNode *n = gm_graph_node (g, node);
    const GmMeta *from = gm_graph_meta (g, n->in[0]), *m = gm_graph_meta (g, n->out);
    if (gm_ops[n->op].family != GM_FAMILY_MOVEMENT || gm_op_detaches (n->op)
        || from->requires_grad != m->requires_grad)
      break; /* a write, too: the written value has the history now */
    *offset = gm_size_add (*offset, gm_movement_offset (n->op, from, n->attrs, m));
  }
  return id != gm_id_from_val (v) && gm_meta_is_dense (gm_graph_meta (g, id)) ? gm_val_from_id (id)
                                                                              : NULL;
}

/* Stores in *out a size that is the element of a value computed by the graph: a new symbol.
 * False, with a break and an error in the builder, where such sizes are not captured. */
static bool
record_count (GmBuilder *base, GmVal v, int64_t *out)
{
  GmRecorder *r = recorder_of (base);
  if (base->error)
    return false;
  if (r->request->counted && r->n_bodies == 0) {
    GmVal own = gm_b_op (base, GM_OP_copy, &v, 1, NULL);
    g_autofree char *what =
        g_strdup_printf ("what %s() counts", r->counting ? r->counting : "a call");
    *out = own ? gm_size_counted (r, gm_id_from_val (own), what, 0, GM_SIZE_COUNT_MAX) : 0;
    return own != NULL;
  }
  gm_record_break (r, GM_BREAK_DYNAMIC_SHAPE,
                   "the size of the result depends on the values of a tensor");
  gm_b_fail (base, GM_ERROR_UNSUPPORTED, "data-dependent");
  return false;
}

void
gm_api_builder_init (GmRecorder *r)
{
  gm_graph_builder_init (&r->builder, r->graph);
  graph_vtable = r->builder.base.vt; /* the same for all recorders */
  r->vtable = *graph_vtable;
  r->vtable.op = record_op;
  r->vtable.into = record_into;
  r->vtable.set = record_set;
  r->vtable.random = record_random;
  r->vtable.item = record_item;
  r->vtable.number = record_number;
  r->vtable.within = record_within;
  r->vtable.count = record_count;
  r->vtable.offset = record_offset;
  r->vtable.around = record_around;
  r->builder.base.vt = &r->vtable;
  r->builder.may_set = true;
}

/* -- Values to arguments --------------------------------------------------- */

typedef struct {
  GmRecorder *r;
  const char *name; /* the function's name, for messages */
  bool index;       /* true for a subscript, in which lists become index tensors */
  bool floats;      /* the row takes floats that only the run knows; those among its arguments: */
  GPtrArray *elements;
  GPtrArray *tensors; /* trackers of the tensors passed, in order */
} Conversion;

static bool to_arg (Conversion *c, const GmTracker *t, GmArg *out);

static bool
refuse (Conversion *c, const GmTracker *t)
{
  gm_record_break (c->r, GM_BREAK_TENSOR_ARGUMENT, c->name, gm_type_text (c->r, t));
  return false;
}

static bool
to_list (Conversion *c, const GmTracker *const *items, uint32_t n, bool is_tuple, GmArg *out)
{
  c->floats = false;                              /* each item of a list of numbers is converted on
                                                     its own */
  g_autofree GmArg *found = g_new (GmArg, n + 1); /* on the heap: a conversion may run the user's
                                                     code, and the arena be sealed then */
  for (uint32_t i = 0; i < n; i++)
    if (!to_arg (c, items[i], &found[i]))
      return false;
  GmArg *args = gm_arena_newn (c->r->arena, GmArg, n + 1);
  memcpy (args, found, n * sizeof *args);
  *out = (GmArg){ .kind = GM_ARG_LIST, .is_tuple = is_tuple, .n = (uint16_t) n, .items = args };
  return n <= UINT16_MAX;
}

static bool
constant_to_arg (Conversion *c, const GmTracker *t, GmArg *out)
{
  PyObject *o = t->real;
  if (o == Py_None)
    *out = (GmArg){ .kind = GM_ARG_NONE };
  else if (PyBool_Check (o))
    *out = (GmArg){ .kind = GM_ARG_BOOL, .i = o == Py_True };
  else if (PyLong_Check (o)) {
    int64_t i;
    if (!gm_constant_int (c->r, t, &i) || (c->r->graph->sizes && gm_size_is_symbolic (i)))
      return refuse (c, t); /* the latter: the graph would take it for an expression */
    *out = (GmArg){ .kind = GM_ARG_INT, .i = i };
  } else if (PyFloat_Check (o))
    *out = (GmArg){ .kind = GM_ARG_FLOAT, .d = PyFloat_AS_DOUBLE (o) };
  else if (PyUnicode_Check (o)) {
    const char *s = PyUnicode_AsUTF8 (o);
    if (s == NULL)
      return refuse (c, t);
    *out = (GmArg){ .kind = GM_ARG_STR, .s = s };
  } else if (o == Py_Ellipsis)
    *out = (GmArg){ .kind = GM_ARG_ELLIPSIS };
  else if (Py_TYPE (o) == gm_host.dtype_type) {
    GmDtype d = gm_host.dtype_get (o);
    if (d == GM_N_DTYPES || !gm_dtypes[d].live)
      return refuse (c, t);
    *out = (GmArg){ .kind = GM_ARG_DTYPE, .dtype = d };
  } else if (gm_host.device_object && o == gm_host.device_object (GM_DEVICE_CPU))
    *out = (GmArg){ .kind = GM_ARG_STR, .s = "cpu" };
  else if (gm_host.device_object && o == gm_host.device_object (GM_DEVICE_CUDA))
    *out = (GmArg){ .kind = GM_ARG_STR, .s = "cuda" };
  else
    return refuse (c, t);
  return true;
}

/* True if t is a list of ints or bools used as a subscript; a list of tensors or lists is not an
 * index of its own. */
static bool
is_index_list (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_contents_of (r, t);
  for (uint32_t i = 0; i < contents->n; i++) {
    const GmTracker *item = gm_realize (r, contents->items[i]);
    if (item->kind != &gm_kind_constant
        || !(PyLong_CheckExact (item->real) || PyBool_Check (item->real)))
      return false;
  }
  return contents->n > 0;
}

static bool
to_arg (Conversion *c, const GmTracker *t, GmArg *out)
{
  GmRecorder *r = c->r;
  t = gm_scalar_number (gm_value_of (gm_realize (r, t)));
  if (r->stop)
    return false;
  if (t->kind == &gm_kind_tensor) {
    g_ptr_array_add (c->tensors, (gpointer) t);
    *out = (GmArg){ .kind = GM_ARG_TENSOR,
                    .v = gm_val_from_id ((GmValueId) gm_contents_of (r, t)->number) };
    return true;
  }
  if (r->request->counted && r->n_bodies == 0 && gm_is_number (t)) {
    *out = (GmArg){ .kind = GM_ARG_INT, .i = gm_number_as_size (r, t) };
    return !r->stop;
  }
  if (gm_is_size (t)) {
    *out = (GmArg){ .kind = GM_ARG_INT, .i = t->number };
    return true;
  }
  double known;
  if (t->kind == &gm_kind_float && (c->floats || !gm_float_value (t, &known))) {
    const GmTracker *element = c->floats ? gm_float_element (r, t) : NULL;
    if (!element || r->stop)
      return refuse (c, t);
    g_ptr_array_add (c->elements, (gpointer) t);
    *out = (GmArg){ .kind = GM_ARG_ELEMENT,
                    .v = gm_val_from_id ((GmValueId) gm_contents_of (r, element)->number) };
    return true;
  }
  t = gm_float_settled (r, t);
  if (r->stop)
    return false;
  if (t->kind == &gm_kind_constant)
    return constant_to_arg (c, t, out);
  if (t->kind == &gm_kind_tuple)
    return to_list (c, t->items, t->n, true, out);
  if (t->kind == &gm_kind_list && (!c->index || is_index_list (r, t))) {
    const GmTracker *contents = gm_contents_of (r, t);
    return to_list (c, contents->items, contents->n, false, out);
  }
  if (t->kind == &gm_kind_slice) {
    if (!to_list (c, t->items, 3, false, out))
      return false;
    out->kind = GM_ARG_SLICE;
    return true;
  }
  if (t->kind == &gm_kind_class
      && gm_host.dtype_get (t->real) != GM_N_DTYPES) { /* float, int, bool */
    *out = (GmArg){ .kind = GM_ARG_DTYPE, .dtype = gm_host.dtype_get (t->real) };
    return true;
  }
  if (t->kind == &gm_kind_object) { /* a Generator: the state tensor that it stands for */
    PyObject *name = gm_record_take (r, PyUnicode_InternFromString ("__gramme_tensor__"));
    const GmTracker *stands_for = gm_getattr_opt (r, t, name);
    stands_for = stands_for && !r->stop ? gm_realize (r, stands_for) : NULL;
    if (r->stop)
      return false;
    if (stands_for && stands_for->kind == &gm_kind_tensor)
      return to_arg (c, stands_for, out);
  }
  return refuse (c, t);
}

/* -- Results --------------------------------------------------------------- */

static const GmTracker *
from_arg (Conversion *c, const GmArg *a)
{
  GmRecorder *r = c->r;
  switch ((GmArgKind) a->kind) {
  case GM_ARG_TENSOR: {
    GmValueId id = gm_id_from_val (a->v);
    for (uint32_t i = 0; i < c->tensors->len;
         i++) { /* a function that returns its argument returns the same object */
      const GmTracker *t = c->tensors->pdata[i];
      if ((GmValueId) gm_contents_of (r, t)->number == id)
        return t;
    }
    return gm_tensor_new_tracker (r, id);
  }
  case GM_ARG_BOOL:
    return gm_from_bool (r, a->i != 0);
  case GM_ARG_INT:
    return gm_size_tracker (r, a->i);
  case GM_ARG_FLOAT:
    return gm_from_constant_take (r, PyFloat_FromDouble (a->d));
  case GM_ARG_STR:
    return gm_from_constant_take (r, PyUnicode_FromString (a->s));
  case GM_ARG_DTYPE:
    return gm_from_constant (r, gm_host.dtype_object (a->dtype));
  case GM_ARG_LIST: {
    const GmTracker **items = gm_tracker_array (r, a->n);
    for (uint32_t i = 0; i < a->n; i++)
      items[i] = from_arg (c, &a->items[i]);
    if (a->fields) /* a named tuple of the library: its fields are known, its type is made where it
                      leaves */
      return gm_tracker (r, .kind = &gm_kind_tuple, .items = items, .n = a->n, .number = 1,
                         .data = gm_arena_strdup (r->arena, a->fields));
    return a->is_tuple ? gm_tuple_new (r, items, a->n) : gm_list_new (r, items, a->n);
  }
  case GM_ARG_NONE:
  case GM_ARG_ABSENT:
    return gm_none (r);
  default:
    return gm_record_break (r, GM_BREAK_TENSOR_ARGUMENT, c->name, "result of unknown kind");
  }
}

/* -- Calls ----------------------------------------------------------------- */

/* Handles requires_grad= and device=.  The caller of a row sets requires_grad= on the result; a
 * tensor made in a graph is no leaf, so only False is traced.  device= of a row that has no such
 * parameter must be the CPU.  Returns 1 if handled, 0 if the row has the parameter, -1 after a
 * break. */
static int
take_extra (Conversion *c, const GmApi *api, const char *name, const GmTracker *value)
{
  GmRecorder *r = c->r;
  bool device = strcmp (name, "device") == 0;
  if (!device && strcmp (name, "requires_grad") != 0)
    return 0;
  for (int i = 0; i < api->n_args && device; i++)
    if (strcmp (api->arg_names[i], name) == 0)
      return 0;
  PyObject *o = gm_constant (r, value);
  bool cpu =
      o
      && (o == Py_None || (gm_host.device_object && o == gm_host.device_object (GM_DEVICE_CPU))
          || (PyUnicode_Check (o)
              && (PyUnicode_CompareWithASCIIString (o, "cpu") == 0
                  || PyUnicode_CompareWithASCIIString (o, "cpu:0") == 0)));
  if (device ? cpu : o == Py_False || o == Py_None)
    return 1;
  if (device)
    refuse (c, value);
  else
    gm_record_break (r, GM_BREAK_TENSOR_LEAF, api->name);
  return -1;
}

/* Makes v the value of the tensor object t from now on. */
static void
becomes (GmRecorder *r, const GmTracker *t, GmVal v)
{
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .number = gm_id_from_val (v)));
}

/* Makes the results of a call the values of the tensors given as out=, and returns these: `out`
 * itself, or a tuple. */
static const GmTracker *
out_written (Conversion *c, const GmTracker *out, const GmArg *result)
{
  GmRecorder *r = c->r;
  if (result->kind == GM_ARG_TENSOR) {
    becomes (r, out, result->v);
    return out;
  }
  const GmTracker *all = out->kind == &gm_kind_tuple ? out : gm_contents_of (r, out);
  const GmTracker **items = gm_tracker_array (r, result->n);
  for (uint32_t i = 0; i < result->n; i++) {
    items[i] = gm_realize (r, all->items[i]);
    becomes (r, items[i], result->items[i].v);
  }
  return result->fields
             ? gm_tracker (r, .kind = &gm_kind_tuple, .items = items, .n = result->n, .number = 1,
                           .data = gm_arena_strdup (r->arena, result->fields))
             : gm_tuple_new (r, items, result->n);
}

/* True if one of two operands is an integer that only the run knows and the other a tensor; then
 * `pair` gets the operands, with a tensor for the integer.  False also after a break. */
static bool
with_number (GmRecorder *r, const GmApi *api, const GmCallArgs *args, const GmTracker *pair[2])
{
  static const char *const rows[] = {
    "add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"
  };
  bool takes = false;
  for (size_t i = 0; i < G_N_ELEMENTS (rows) && args->n == 2; i++)
    takes |= strcmp (rows[i], api->name) == 0;
  if (!takes)
    return false;
  for (int i = 0; i < 2; i++)
    pair[i] = gm_realize (r, args->args[i]);
  int k = pair[0]->kind == &gm_kind_tensor ? 1 : 0;
  if (r->stop || pair[1 - k]->kind != &gm_kind_tensor)
    return false;
  GmValueId beside = (GmValueId) gm_contents_of (r, pair[1 - k])->number;
  const GmTracker *number = gm_number_operand (r, pair[k], gm_graph_meta (r->graph, beside));
  if (number)
    pair[k] = number;
  return number && !r->stop;
}

/* Returns the number of failed checks of the graph's sizes so far. */
static uint32_t
failed_sizes (const GmRecorder *r)
{
  return r->graph->sizes ? r->graph->sizes->n_failed : 0;
}

const GmTracker *
gm_call_api (GmRecorder *r, const GmApi *api, bool inplace, const GmCallArgs *args)
{
  const GmTracker *pair[2];
  GmCallArgs with = { pair, 2, args->names };
  if (!r->stop && args->names == NULL && with_number (r, api, args, pair))
    args = &with;
  uint32_t n_named = gm_args_n_named (args);
  g_autoptr (GPtrArray) tensors = g_ptr_array_new ();
  g_autoptr (GPtrArray) elements = g_ptr_array_new ();
  bool floats = api->where & GM_API_FLOATS;
  Conversion c = {
    r,      api->name, strcmp (api->name, "getitem") == 0 || strcmp (api->name, "setitem") == 0,
    floats, elements,  tensors
  };
  if (r->stop)
    return &gm_tracker_poison;
  g_autofree GmArg *positional = g_new (GmArg, args->n + 1);
  g_autofree GmArg *keywords = g_new (GmArg, n_named + 1);
  g_autofree const char **names = g_new (const char *, n_named + 1);
  int n_keywords = 0;
  const GmTracker *out = NULL;
  for (uint32_t i = 0; i < args->n; i++) {
    if (c.index && i == 2)
      c.index = false; /* the value stored */
    c.floats = floats && !c.index;
    if (!to_arg (&c, args->args[i], &positional[i]))
      return &gm_tracker_poison;
  }
  for (uint32_t i = 0; i < n_named; i++) {
    const char *name = PyUnicode_AsUTF8 (PyTuple_GET_ITEM (args->names, i));
    const GmTracker *value = args->args[args->n + i];
    int extra = take_extra (&c, api, name, value);
    if (extra < 0)
      return &gm_tracker_poison;
    if (extra)
      continue;
    names[n_keywords] = name;
    if (strcmp (name, "out") == 0)
      out = gm_realize (r, value);
    c.floats = floats;
    if (!to_arg (&c, value, &keywords[n_keywords++]))
      return &gm_tracker_poison;
  }
  if (r->request->env.modes & GM_MODE_FUNCTION_MODE)
    return gm_record_break (r, GM_BREAK_LEFT_TO_PYTHON,
                            api->name); /* the mode's __torch_function__ sees it */
  r->builder.where = gm_record_where (r);
  r->builder.base.autocast = gm_autocast_mode_get (r);
  r->builder.base.refuses_draws = gm_refuses_draws_get (r);
  r->counting = api->name;
  r->elements = elements;
  r->builder.base.masked = false;
  uint32_t n_failed = failed_sizes (r);
  GmArg result = gm_api_call (api, inplace, &r->builder.base, positional, (int) args->n, names,
                              keywords, n_keywords);
  if (r->builder.base.error) {
    const GError *e = r->builder.base.error;
    if (failed_sizes (r) != n_failed) {
      g_autofree char *text = gm_size_open_text (r, e->message, &r->graph->sizes->question);
      gm_record_break (r, GM_BREAK_DATA_DEPENDENT_SIZE, text);
    } else if (r->builder.base.masked)
      gm_record_break (r, GM_BREAK_DYNAMIC_SHAPE, e->message);
    else
      gm_record_break (r, GM_BREAK_TENSOR_ERROR, api->name, e->message);
    g_clear_error (&r->builder.base.error);
    gm_arg_clear (&result);
    return &gm_tracker_poison;
  }
  const GmTracker *t;
  if (out && out->kind != &gm_kind_constant) {
    t = out_written (&c, out, &result);
  } else if ((inplace || g_str_has_suffix (api->name, "_")) && result.kind == GM_ARG_TENSOR
             && tensors->len) { /* the same object, whose value is another one from now on */
    t = tensors->pdata[0];
    becomes (r, t, result.v);
  } else {
    t = from_arg (&c, &result);
  }
  gm_arg_clear (&result);
  return t;
}

const GmTracker *
gm_call_api_name (GmRecorder *r, const char *name, const GmTracker *const *args, uint32_t n,
                  bool inplace)
{
  const GmApi *api = gm_api_find (name);
  if (api == NULL)
    return gm_record_break (r, GM_BREAK_CALL_C, name);
  return gm_call_api (r, api, inplace, &(GmCallArgs){ args, n, NULL });
}

/* -- Function objects of rows ---------------------------------------------- */

const GmTracker *
gm_wrap_api (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, IS, source, .obj = real);
  bool inplace;
  const GmApi *api = gm_host.api_get (real, &inplace);
  const GmTracker *t = gm_tracker (r, .kind = &gm_kind_api, .real = real, .source = source,
                                   .data = api, .number = inplace);
  gm_know (r, t);
  return t;
}

/* Calls the function object t of a plain row, or of a bound row, whose items[0] is self.
 * Returns poison after a break. */
static const GmTracker *
call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  GmCallArgs all = *args;
  if (t->n) {
    uint32_t n = args->n + gm_args_n_named (args);
    const GmTracker **with_self = gm_tracker_array (r, n + 1);
    with_self[0] = t->items[0];
    gm_tracker_copy (with_self + 1, args->args, n);
    all.args = with_self;
    all.n++;
  }
  return gm_call_api (r, t->data, t->number != 0, &all);
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmApi *api = t->data;
  if (PyUnicode_CompareWithASCIIString (name, "__name__") == 0)
    return gm_from_constant_take (r,
                                  PyUnicode_FromFormat ("%s%s", api->name, t->number ? "_" : ""));
  return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "function of gramme");
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  if (t->n || t->real == NULL)
    return false;
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->real);
  return true;
}

const GmTrackerKind gm_kind_api = {
  .name = "gramme function", .call = call, .getattr = getattr, .truth = truth, .build = build
};
