/* SPDX-License-Identifier: Apache-2.0
 * inline_hooks.c -- saved-tensor hooks written in Python, recorded as bodies of graphs.
 *
 * Both bodies are recorded at once, as the function unpack (pack (t)), with gradients off, for a
 * stand-in: a tensor that has the meta of the saved tensor and no memory.  A node between the two
 * hooks says where the recording is cut: nodes before it are pack, nodes after it are unpack, and
 * values of pack that unpack reads are carried: outputs of pack and inputs of unpack.  All else
 * that pack returns (numbers, dtypes, sizes, objects) goes to unpack inside of the recording, and
 * is part of what unpack does.
 * The globals and closures that the bodies read are in the guards of the recording.  They are kept,
 * with the stand-in, and checked again at each call under these hooks, as part of the entry's own
 * guards.
 * The stand-in of a saved tensor whose sizes are expressions has the example's sizes, all of them
 * symbols of the recording.  The body's sizes are then written in terms of the
 * tensor's, and what the recording found out of them is a fact of the graph's.
 * Hooks that read the elements of a tensor, which only the run knows, are called when the compiled
 * function runs, as hooks without a mark are.
 * Rejected: to run bodies on real tensors of the right shape.  They would need memory, and a branch
 * on a value would be taken by chance.  Also rejected: to record unpack for an object that is built
 * as pack returns it.  A size in it is a number there, and which size it was is not known any more.
 */
#include "core/capture/inline_hooks.h"

#include "core/aot/partition.h"
#include "core/base/log.h"
#include "core/capture/code_cache.h"
#include "core/objects/graph_object.h"
#include "core/capture/report.h"
#include "core/objects/tensor_object.h"
#include "core/objects/types.h"
#include "core/objects/break.h"
#include "core/objects/import.h"

#include <string.h>

/* Guards of a recorded body: they held when it was made, and must still hold at each call. */
typedef struct {
  GmGuards *guards; /* owned */
  PyObject *arg;    /* owned: the stand-in that it was recorded for */
} Body;

struct GmPyHooks {
  PyObject *pack, *unpack;           /* borrowed, of the call that compiles */
  PyObject *weak_pack, *weak_unpack; /* owned: they identify the hooks in later calls */
  PyObject *both; /* owned: the package's function that calls pack and then unpack */
  uint32_t modes; /* modes under which bodies are recorded */
  char *text;
  GArray *bodies; /* Body */
  GArray *metas;  /* GmMeta: metas whose bodies have guards */
  bool quiet;     /* true while bodies are recorded for display only, without guards */
};

/* Return the pair of hooks, borrowed.  While the call that compiles runs these are the call's
 * own; bodies for other sizes are made in a later call, and use the guarded pair, which is the
 * same. */
static PyObject *
pack_of (const GmPyHooks *h)
{
  return h->pack ? h->pack : PyWeakref_GET_OBJECT (h->weak_pack);
}

static PyObject *
unpack_of (const GmPyHooks *h)
{
  return h->unpack ? h->unpack : PyWeakref_GET_OBJECT (h->weak_unpack);
}

/* -- Making and freeing ------------------------------------------------------------------------ */

static void
clear_body (void *data)
{
  Body *b = data;

  gm_guards_unref (b->guards);
  Py_CLEAR (b->arg);
}

static char *
name_of (PyObject *hook)
{
  PyObject *name = PyObject_GetAttrString (hook, "__qualname__");
  char *text =
      g_strdup (name && PyUnicode_Check (name) ? PyUnicode_AsUTF8 (name) : Py_TYPE (hook)->tp_name);

  Py_XDECREF (name);
  PyErr_Clear ();
  return text;
}

/* Returns the modes under which bodies are recorded: those of the call without gradients, and
 * without the modes that turn an error of the function into an exception. */
static uint32_t
body_modes (uint32_t modes)
{
  return modes
         & ~(uint32_t) (GM_MODE_GRAD | GM_MODE_FULLGRAPH | GM_MODE_BREAK_RAISES
                        | GM_MODE_SAVED_HOOKS);
}

/* Returns the function of the package that is recorded for both hooks; a new reference, NULL
 * with an exception. */
static PyObject *
both_hooks (void)
{
  PyObject *module = gm_import ("gramme.autograd.graph"),
           *both = module ? PyObject_GetAttrString (module, "_pack_and_unpack") : NULL;

  Py_XDECREF (module);
  return both;
}

GmPyHooks *
gm_py_hooks_new (const GmCallEnv *env)
{
  PyObject *pack = PyWeakref_NewRef (env->pack, NULL),
           *unpack = pack ? PyWeakref_NewRef (env->unpack, NULL) : NULL;
  PyObject *both = unpack ? both_hooks () : NULL;

  if (!both) {
    Py_XDECREF (pack);
    Py_XDECREF (unpack);
    return NULL;
  }
  g_autofree char *pack_name = name_of (env->pack), *unpack_name = name_of (env->unpack);
  GmPyHooks *h = g_new0 (GmPyHooks, 1);
  *h = (GmPyHooks){ .pack = env->pack,
                    .unpack = env->unpack,
                    .weak_pack = pack,
                    .weak_unpack = unpack,
                    .both = both,
                    .modes = body_modes (env->modes),
                    .text = g_strdup_printf ("(%s, %s)", pack_name, unpack_name),
                    .bodies = g_array_new (FALSE, FALSE, sizeof (Body)),
                    .metas = g_array_new (FALSE, FALSE, sizeof (GmMeta)) };
  g_array_set_clear_func (h->bodies, clear_body);
  return h;
}

void
gm_py_hooks_free (GmPyHooks *h)
{
  if (!h)
    return;
  g_array_unref (h->bodies);
  g_array_unref (h->metas);
  Py_DECREF (h->weak_pack);
  Py_DECREF (h->weak_unpack);
  Py_DECREF (h->both);
  g_free (h->text);
  g_free (h);
}

/* -- Recording one body ------------------------------------------------------------------------ */

/* The call that is recorded: both (t, pack, unpack), by the names of the package. */
enum { N_LOCALS = 3 };
typedef struct {
  PyFunctionObject *both;
  PyObject *locals[N_LOCALS]; /* borrowed */
  GmRecording *rec;
  PyObject **slots; /* of rec's guards, borrowed */
  uint32_t cut;     /* index of the node of rec's graph between the two bodies */
  bool called;      /* true if the hooks have to be called at run time: no bodies */
} Recorded;

static void
recorded_clear (Recorded *x)
{
  g_clear_pointer (&x->rec, gm_recording_free);
  g_free (x->slots);
}

/* Sets *error to say that a hook, 1 for pack and 2 for unpack, cannot become a graph, with the
 * reason `why`.  Always returns false. */
static bool
refuse (const Recorded *x, int hook, const char *why, GError **error)
{
  g_autofree char *name = name_of (x->locals[hook]);
  PyCodeObject *code = (PyCodeObject *) ((PyFunctionObject *) x->locals[hook])->func_code;

  g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
               "%s:%d: the saved-tensor hook %s cannot be part of a graph: %s",
               PyUnicode_AsUTF8 (code->co_filename), code->co_firstlineno, name, why);
  return false;
}

/* Sets x->cut to the node between the two hooks.  The recorded function returns a tuple of this
 * node's value and the result of unpack.  False with *error. */
static bool
find_cut (Recorded *x, GError **error)
{
  const GmReturn *ret = x->rec->ret;
  const GmGraph *g = x->rec->graph;

  if (!ret || ret->kind != GM_RETURN_TUPLE || ret->n != 2 || ret->items[0].kind != GM_RETURN_OUTPUT)
    return refuse (x, 2, "unpack has to return one tensor", error);
  x->cut = gm_graph_value (g, g_array_index (g->outputs, GmGraphOutput, ret->items[0].index).value)
               ->node;
  return true;
}

/* Returns the hook that is the first to write to a tensor: 1 for pack, 2 for unpack. */
static int
writer (const Recorded *x)
{
  uint32_t i = 0;

  while (i < x->rec->graph->nodes->len
         && gm_ops[gm_graph_node (x->rec->graph, i)->op].family != GM_FAMILY_MUTATE)
    i++;
  return i < x->cut ? 1 : 2;
}

/* Records both hooks.  Sets x->called if they read a tensor's elements and so have to be called
 * at run time; else sets x->rec and all that depends on it.  dynamic: all sizes of the tensor are
 * symbols.  False with *error. */
static bool
record (Recorded *x, uint32_t modes, bool dynamic, GError **error)
{
  const GmCode *code = gm_code_cache_decode ((PyCodeObject *) x->both->func_code, error);

  if (!code)
    return false;
  GmCallEnv env = { .modes = modes };
  g_autoptr (GmProfile) profile = dynamic ? gm_profile_new () : NULL;
  GmSizes *was = gm_sizes_enter (NULL);
  x->rec = gm_record_function (
      &(GmRecordRequest){ .func = x->both,
                          .code = code,
                          .locals = x->locals,
                          .env = env,
                          .dynamic = dynamic ? GM_DYNAMIC_ALWAYS : GM_DYNAMIC_NEVER,
                          .profile = profile,
                          .backend_text = "saved-tensor hooks" });
  gm_sizes_enter (was);
  x->called = x->rec->stop && gm_breaks[x->rec->stop->id].reads_values;
  if (x->called)
    return true;
  if (x->rec->stop) {
    g_autofree char *text = gm_report_break_text (x->rec->stop);
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "a saved-tensor hook cannot be part of a graph\n%s", text);
    return false;
  }
  if (x->rec->n_effects || x->rec->sets_grad)
    return refuse (x, 1,
                   "it, or the one that unpacks, changes something that existed before; hooks that "
                   "do are called if they are not marked "
                   "as inlineable",
                   error);
  if (!find_cut (x, error))
    return false;
  for (uint32_t i = 0; i < x->rec->n_inputs; i++)
    if (x->rec->inputs[i].mutated)
      return refuse (x, writer (x),
                     "Saved tensors hooks with inputs mutations are not allowed: the program still "
                     "uses the tensor; change a "
                     "clone () instead",
                     error);
  x->slots = g_new0 (PyObject *, gm_guards_n_slots (x->rec->guards) + 1);
  if (!gm_guards_check (x->rec->guards, &env, x->locals, x->both, x->slots))
    return refuse (x, 1, "an object that it reads has died meanwhile", error);
  return true;
}

/* -- Nodes of a recording, with sizes of the surrounding graph --------------------------------- */

/* Copies the nodes from `first` up to, not including, `last` of the recording `from` to the
 * graph `to`, which outlives the recording.  map: by value of `from`, the value in `to`; the
 * operands are in it already, and the results are added.  False with *error. */
static bool
copy_nodes (GmGraph *to, const GmGraph *from, uint32_t first, uint32_t last,
            const GmCopySizes *sizes, GmValueId *map, GError **error)
{
  for (uint32_t i = first; i < last; i++) {
    GmNode n = *gm_graph_node (from, i);
    GmAttrs attrs = { 0 };
    if (gm_graph_attrs_are_symbolic (n.attrs)) {
      if (!gm_copy_attrs (sizes, n.attrs, &attrs, error))
        return false;
      n.attrs = &attrs;
    }
    n.where = n.where ? gm_arena_printf (to->arena, "%s", n.where) : NULL;
    map[n.out] = gm_copy_node (to, from, &n, map, error);
    if (map[n.out] == GM_NO_ID)
      return false;
  }
  return true;
}

/* -- The two graphs ---------------------------------------------------------------------------- */

static GmGraph *
new_graph (const char *name, GmArena *arena)
{
  GmGraph *g = gm_graph_new (name, arena);

  if (gm_sizes_current ()) {
    g->sizes = gm_sizes_ref (gm_sizes_current ());
    g->sym = g->sizes->sym;
  }
  return g;
}

/* Returns an id, beyond all values of the recording, that stands for its input tensor where no
 * node reads this. */
static GmValueId
unread (const Recorded *x)
{
  return x->rec->graph->values->len;
}

static bool
is_of_pack (const Recorded *x, GmValueId v)
{
  uint32_t node = v == unread (x) ? GM_NO_ID : gm_graph_value (x->rec->graph, v)->node;

  return node == GM_NO_ID || node < x->cut;
}

/* True if v is computed from values of pack alone, though it may come after the cut: then v is a
 * check of an operation of pack's that can fail. */
static bool
checks_pack (const Recorded *x, GmValueId v)
{
  const GmNode *n = is_of_pack (x, v)
                        ? NULL
                        : gm_graph_node (x->rec->graph, gm_graph_value (x->rec->graph, v)->node);
  bool all = !n || n->n_in > 0;

  for (uint32_t i = 0; n && i < n->n_in; i++)
    all = all && checks_pack (x, n->in[i]);
  return all;
}

/* Appends to `carried` the values that pack has to hand to unpack, in the order in which unpack
 * reads them; after these the checks of pack's operations, which no node reads.  False with *error:
 * an operation of unpack's can fail, and nothing reads its result. */
static bool
find_carried (const Recorded *x, GmValueId result, GArray *carried, GError **error)
{
  const GmGraph *g = x->rec->graph;
  g_autofree bool *seen = g_new0 (bool, g->values->len + 1);

  for (uint32_t i = x->cut + 1; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    for (uint32_t k = 0; k < n->n_in; k++)
      if (is_of_pack (x, n->in[k]) && !seen[n->in[k]]) {
        seen[n->in[k]] = true;
        g_array_append_val (carried, n->in[k]);
      }
  }
  if (is_of_pack (x, result) && !seen[result])
    g_array_append_val (carried, result);
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, i).value;
    if (v == result || gm_graph_value (g, v)->node == x->cut)
      continue;
    if (!checks_pack (x, v))
      return refuse (x, 2, "it computes what can fail, and does not read it", error);
    if (is_of_pack (x, v) && !seen[v])
      g_array_append_val (carried, v);
  }
  return true;
}

/* A carried value is an output of the forward: a value that was computed, and no view. */
static bool
add_output (GmGraph *g, GmValueId v, GError **error)
{
  uint32_t node = gm_graph_value (g, v)->node;

  if (node != GM_NO_ID && gm_ops[gm_graph_node (g, node)->op].family == GM_FAMILY_MOVEMENT)
    v = gm_graph_add_node (g, GM_OP_copy, &v, 1, NULL, gm_graph_node (g, node)->where, error);
  if (v == GM_NO_ID)
    return false;
  gm_graph_add_output (g, v, GM_OUTPUT_USER);
  return true;
}

/* Writes the recording, for a tensor with the meta `saved`, to the graphs `pack` and `unpack`,
 * which the caller has made empty.  False with *error. */
static bool
cut (const Recorded *x, const GmMeta *saved, GmGraph *pack, GmGraph *unpack, GmArena *arena,
     GError **error)
{
  const GmGraph *from = x->rec->graph;
  const GmReturn *back = &x->rec->ret->items[1];
  const GmMeta **inputs = gm_arena_newn (arena, const GmMeta *, x->rec->n_inputs + 1);
  g_autofree GmValueId *map = g_new0 (GmValueId, from->values->len + 1);
  g_autoptr (GArray) carried = g_array_new (FALSE, FALSE, sizeof (GmValueId));
  GmValueId t = gm_graph_add_input (pack, "t", saved), result = GM_NO_ID;

  for (uint32_t i = 0; i < x->rec->n_inputs; i++) {
    const GmRecordInput *in = &x->rec->inputs[i];
    if (in->slot == GM_SLOT_RNG || x->slots[in->slot] != x->locals[0])
      return refuse (x, 1,
                     in->slot == GM_SLOT_RNG
                         ? "it, or the one that unpacks, draws random numbers"
                         : "it, or the one that unpacks, reads a tensor that it was not given",
                     error);
    map[in->value] = t;
    inputs[i] = saved;
  }
  const GmCopySizes *sizes = gm_copy_sizes_new (from, inputs, arena);
  if (!sizes)
    return refuse (x, 1, "it reads a size of something else than the tensor", error);
  map[unread (x)] = t;
  if (back->kind == GM_RETURN_OUTPUT)
    result = g_array_index (from->outputs, GmGraphOutput, back->index).value;
  else if (back->kind == GM_RETURN_SLOT && x->slots[back->index] == x->locals[0])
    result = unread (x);
  if (result == GM_NO_ID)
    return refuse (x, 2, "unpack has to return one tensor", error);
  if (!find_carried (x, result, carried, error)
      || !copy_nodes (pack, from, 0, x->cut, sizes, map, error))
    return false;
  for (uint32_t i = 0; i < carried->len; i++) {
    GmValueId *v = &map[g_array_index (carried, GmValueId, i)];
    if (!add_output (pack, *v, error))
      return false;
    *v = gm_graph_add_input (
        unpack, carried->len == 1 ? "t" : gm_arena_printf (unpack->arena, "t%u", i),
        gm_graph_meta (pack, g_array_index (pack->outputs, GmGraphOutput, i).value));
  }
  if (!copy_nodes (unpack, from, x->cut + 1, from->nodes->len, sizes, map, error))
    return false;
  gm_graph_add_output (unpack, map[result], GM_OUTPUT_USER);
  return true;
}

/* -- Stand-ins --------------------------------------------------------------------------------- */

static void
keep_nothing (void *owner, void *data, size_t bytes)
{
  (void) owner, (void) data, (void) bytes;
}

/* Returns a tensor with the meta `like` and no memory, whose symbolic sizes are replaced by
 * their hints.  NULL without an exception: a size has no hint. */
static PyObject *
stand_in (const GmMeta *like)
{
  GmMeta m = *like;
  const GmSizes *sizes = gm_sizes_current ();

  for (int d = 0; sizes && d < m.ndim; d++)
    if (!gm_sizes_hint (sizes, like->sizes[d], &m.sizes[d])
        || !gm_sizes_hint (sizes, like->strides[d], &m.strides[d]))
      return NULL;
  m.requires_grad = 0;
  return gm_py_tensor_take (gm_tensor_new_foreign (&m, NULL, 0, false, keep_nothing, NULL));
}

/* -- Both -------------------------------------------------------------------------------------- */

/* True if bodies for an equal meta have been recorded: their guards are there already. */
static bool
is_known (const GmPyHooks *h, const GmMeta *m)
{
  for (uint32_t i = 0; i < h->metas->len; i++)
    if (memcmp (&g_array_index (h->metas, GmMeta, i), m, sizeof *m) == 0)
      return true;
  return false;
}

static bool
trace_functions (GmPyHooks *h, const GmMeta *saved, GmArena *arena, GmGraph **pack,
                 GmGraph **unpack, GError **error)
{
  PyObject *arg = stand_in (saved);
  Recorded x = { .both = (PyFunctionObject *) h->both,
                 .locals = { arg, pack_of (h), unpack_of (h) } };
  g_autoptr (GmGraph) first = new_graph ("saved_tensors_hooks_pack_0", arena);
  g_autoptr (GmGraph) second = new_graph ("saved_tensors_hooks_unpack_0", arena);
  bool ok = false;

  if (arg) {
    GmMeta example = gm_py_tensor_get (arg)->meta;
    ok = record (&x, h->modes, gm_meta_is_symbolic (saved), error)
         && (x.called || cut (&x, saved, first, second, arena, error));
    if (ok && !x.called && !h->quiet && !is_known (h, &example)) {
      Body b = { gm_guards_ref (x.rec->guards), Py_NewRef (arg) };
      g_array_append_val (h->bodies, b);
      g_array_append_val (h->metas, example);
    }
  } else if (PyErr_Occurred ())
    gm_py_error_set (error);
  else
    g_set_error (
        error, GM_ERROR, GM_ERROR_UNSUPPORTED,
        "saved-tensor hooks cannot be part of a graph that saves as much as only the run knows");
  if (x.called && !h->quiet)
    gm_log (GM_LOG_GRAPH_BREAKS,
            "the saved-tensor hooks %s are called when the function runs, and are no part of its "
            "graphs: %s",
            h->text, x.rec->stop->message);
  *pack = ok && !x.called ? g_steal_pointer (&first) : NULL;
  *unpack = ok && !x.called ? g_steal_pointer (&second) : NULL;
  recorded_clear (&x);
  Py_XDECREF (arg);
  return ok;
}

/* -- Hooks that are graphs --------------------------------------------------------------------- */

/* Returns the graph of a gramme.fx.GraphModule, borrowed; NULL if `module` is another object. */
static const GmGraph *
graph_of (PyObject *module)
{
  PyObject *core = PyFunction_Check (module) ? NULL : PyObject_GetAttrString (module, "_core");
  const GmGraph *g = core ? gm_py_graph_get (core) : NULL;

  Py_XDECREF (core); /* the module keeps it */
  PyErr_Clear ();
  return g;
}

bool
gm_py_hooks_trace (void *data, const GmMeta *saved, GmArena *arena, GmGraph **pack,
                   GmGraph **unpack, GError **error)
{
  GmPyHooks *h = data;
  GmHookGraphs graphs = { graph_of (pack_of (h)), graph_of (unpack_of (h)) };

  if (pack_of (h) == Py_None || unpack_of (h) == Py_None) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "the saved-tensor hooks have died meanwhile");
    return false;
  }
  if (graphs.pack && graphs.unpack)
    return gm_saved_hooks_retrace (&graphs, saved, arena, pack, unpack, error);
  return trace_functions (h, saved, arena, pack, unpack, error);
}

/* -- For display ------------------------------------------------------------------------------- */

void
gm_py_hooks_show (GmPyHooks *h, GmGraph *g)
{
  g_autoptr (GError) error = NULL;
  GmMeta like = gm_meta_make (GM_F32, 1, (const int64_t[]){ 2 });
  GmGraph *pack, *unpack;

  h->quiet = true;
  if (gm_py_hooks_trace (h, &like, g->arena, &pack, &unpack, &error) && pack) {
    GmGraph *both[] = { pack, unpack };
    g->hooks = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_graph_free);
    for (int i = 0; i < 2; i++) {
      both[i]->name = i ? "saved_tensors_hooks_unpack_0" : "saved_tensors_hooks_pack_0";
      /* A copy that does not need this arena. */
      g_ptr_array_add (g->hooks, gm_graph_simplify (both[i], 0, NULL));
      gm_graph_free (both[i]);
    }
  }
  PyErr_Clear ();
  h->quiet = false;
}

/* -- The guard --------------------------------------------------------------------------------- */

static bool
body_holds (const Body *b, const GmCallEnv *env, PyObject *both, PyObject *pack, PyObject *unpack)
{
  PyObject **slots = g_newa (PyObject *, gm_guards_n_slots (b->guards) + 1),
           *locals[N_LOCALS] = { b->arg, pack, unpack };

  return gm_guards_check (b->guards, env, locals, (PyFunctionObject *) both, slots);
}

static bool
holds (const void *data, const GmCallEnv *env)
{
  const GmPyHooks *h = data;
  GmCallEnv inner = { .modes = h->modes };

  if (PyWeakref_GET_OBJECT (h->weak_pack) != env->pack
      || PyWeakref_GET_OBJECT (h->weak_unpack) != env->unpack)
    return false;
  for (uint32_t i = 0; i < h->bodies->len; i++)
    if (!body_holds (&g_array_index (h->bodies, Body, i), &inner, h->both, env->pack, env->unpack))
      return false;
  return true;
}

static bool
is_dead (const void *data)
{
  const GmPyHooks *h = data;
  bool dead = PyWeakref_GET_OBJECT (h->weak_pack) == Py_None
              || PyWeakref_GET_OBJECT (h->weak_unpack) == Py_None;

  for (uint32_t i = 0; i < h->bodies->len; i++)
    dead |= gm_guards_dead (g_array_index (h->bodies, Body, i).guards);
  return dead;
}

static char *
text (const void *data)
{
  return g_strdup (((const GmPyHooks *) data)->text);
}

static void
destroy (void *data)
{
  gm_py_hooks_free (data);
}

void
gm_py_hooks_guard (GmPyHooks *h, GmGuards *guards)
{
  h->pack = h->unpack = NULL;
  gm_guards_add_call (guards, &(GmCallFact){ holds, is_dead, text, destroy, h });
}
