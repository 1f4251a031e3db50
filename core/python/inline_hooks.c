/* SPDX-License-Identifier: Apache-2.0
 * inline_hooks.c -- saved-tensor hooks written in Python, recorded as bodies of graphs.
 *
 * A body is recorded like any function, with gradients off, for a stand-in: a tensor that has the meta of
 * what is saved and no memory.  What pack returns is then built for real, with stand-ins in the place of
 * the graph's results, and unpack is recorded for that object; so tuples, dtypes and sizes that go from
 * one to the other are constants, and only tensors are carried.  Python finds out which is which by
 * identity: an input of unpack is the stand-in of the output of pack that it was made for.
 * What the bodies read beside (globals, closures) is in the guards of their recordings.  They are kept, with
 * the stand-ins, and checked again at each call under these hooks, as part of the entry's own guards.
 * Where a saved tensor's sizes are expressions, the stand-in has those of the example and all of its sizes are symbols of the recording.  The
 * body's sizes are then written in terms of the tensor's, and what the recording found out of them is a fact of the graph's.
 * Rejected: bodies that are run on real tensors of the right shape.  They would need memory, and a branch
 * on a value would be taken by chance.
 */
#include "core/python/inline_hooks.h"

#include "core/aot/partition.h"
#include "core/python/code_cache.h"
#include "core/python/graph_object.h"
#include "core/python/report.h"
#include "core/python/tensor_object.h"
#include "core/python/types.h"

#include <string.h>

/* One recording that held when it was made, and has to hold still. */
typedef struct {
  GmGuards *guards;  /* owned */
  PyObject *code;    /* owned: what the function ran */
  PyObject *arg;     /* owned: what it was recorded for */
  bool is_unpack;
  GArray *same;      /* Same */
} Body;

/* A value that pack hands on as it is. */
typedef struct { uint32_t slot; PyObject *o; /* owned */ } Same;

struct GmPyHooks {
  PyObject *pack, *unpack;       /* borrowed, of the call that compiles */
  PyObject *weak_pack, *weak_unpack; /* owned: their identity, which outlives them */
  uint32_t modes;                /* bodies run under */
  char *text;
  GArray *bodies;                /* Body */
  GArray *metas;                 /* GmMeta: of which bodies there are guards */
  bool quiet;                    /* a stand-in for show: nothing is relied on */
};

/* A form for other sizes is made in a later call, under the same pair: that is guarded. */
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

static const char unfit[] = "unpack has to return one tensor";

/* -- Making and freeing ------------------------------------------------------------------------ */

static void
clear_same (void *data)
{
  Py_CLEAR (((Same *) data)->o);
}

static void
clear_body (void *data)
{
  Body *b = data;

  gm_guards_unref (b->guards);
  Py_CLEAR (b->code);
  Py_CLEAR (b->arg);
  g_array_unref (b->same);
}

static char *
name_of (PyObject *hook)
{
  PyObject *name = PyObject_GetAttrString (hook, "__qualname__");
  char *text = g_strdup (name && PyUnicode_Check (name) ? PyUnicode_AsUTF8 (name) : Py_TYPE (hook)->tp_name);

  Py_XDECREF (name);
  PyErr_Clear ();
  return text;
}

/* Bodies see the modes of the call, with gradients off; what is an error in the function is none here. */
static uint32_t
body_modes (uint32_t modes)
{
  return modes & ~(uint32_t) (GM_MODE_GRAD | GM_MODE_FULLGRAPH | GM_MODE_BREAK_RAISES | GM_MODE_SAVED_HOOKS);
}

GmPyHooks *
gm_py_hooks_new (const GmCallEnv *env)
{
  PyObject *pack = PyWeakref_NewRef (env->pack, NULL), *unpack = pack ? PyWeakref_NewRef (env->unpack, NULL) : NULL;

  if (!unpack) {
    Py_XDECREF (pack);
    return NULL;
  }
  g_autofree char *pack_name = name_of (env->pack), *unpack_name = name_of (env->unpack);
  GmPyHooks *h = g_new0 (GmPyHooks, 1);
  *h = (GmPyHooks){ .pack = env->pack, .unpack = env->unpack, .weak_pack = pack, .weak_unpack = unpack, .modes = body_modes (env->modes),
                    .text = g_strdup_printf ("(%s, %s)", pack_name, unpack_name),
                    .bodies = g_array_new (FALSE, FALSE, sizeof (Body)), .metas = g_array_new (FALSE, FALSE, sizeof (GmMeta)) };
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
  g_free (h->text);
  g_free (h);
}

/* -- Recording one body ------------------------------------------------------------------------ */

/* What is being recorded. */
typedef struct {
  PyFunctionObject *func;
  PyObject *arg;
  GmRecording *rec;
  PyObject **slots; /* of rec's guards, borrowed */
} Recorded;

static void
recorded_clear (Recorded *x)
{
  g_clear_pointer (&x->rec, gm_recording_free);
  g_free (x->slots);
}

static bool
refuse (const Recorded *x, const char *why, GError **error)
{
  g_autofree char *name = name_of ((PyObject *) x->func);
  PyCodeObject *code = (PyCodeObject *) x->func->func_code;

  g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED, "%s:%d: the saved-tensor hook %s cannot be part of a graph: %s",
               PyUnicode_AsUTF8 (code->co_filename), code->co_firstlineno, name, why);
  return false;
}

/* dynamic: all of the stand-in's sizes are symbols. */
static bool
record (Recorded *x, uint32_t modes, bool dynamic, GError **error)
{
  const GmCode *code = gm_code_cache_decode ((PyCodeObject *) x->func->func_code, error);

  if (!code)
    return false;
  PyCodeObject *py = (PyCodeObject *) x->func->func_code;
  if (py->co_argcount != 1 || py->co_kwonlyargcount || py->co_flags & (CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE))
    return refuse (x, "it has to be a function of one argument", error);
  GmCallEnv env = { .modes = modes };
  g_autoptr (GmProfile) profile = dynamic ? gm_profile_new () : NULL;
  GmSizes *was = gm_sizes_enter (NULL);
  x->rec = gm_record_function (&(GmRecordRequest){ .func = x->func, .code = code, .locals = &x->arg, .env = env,
                                                   .dynamic = dynamic ? GM_DYNAMIC_ALWAYS : GM_DYNAMIC_NEVER, .profile = profile,
                                                   .backend_text = "saved-tensor hooks" });
  gm_sizes_enter (was);
  if (x->rec->stop) {
    g_autofree char *text = gm_report_break_text (x->rec->stop);
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED, "a saved-tensor hook cannot be part of a graph\n%s", text);
    return false;
  }
  for (uint32_t i = 0; i < x->rec->n_inputs; i++)
    if (x->rec->inputs[i].mutated)
      return refuse (x, "Saved tensors hooks with inputs mutations are not allowed: the program still uses the tensor; change a "
                        "clone () instead", error);
  if (x->rec->n_effects || x->rec->sets_grad)
    return refuse (x, "it changes something that existed before; a hook that does is called if it is not marked as inlineable", error);
  if (!x->rec->ret)
    return refuse (x, "it returns something else than tensors, constants, and tuples, lists and dicts of them", error);
  x->slots = g_new0 (PyObject *, gm_guards_n_slots (x->rec->guards) + 1);
  if (!gm_guards_check (x->rec->guards, &env, &x->arg, x->func, x->slots))
    return refuse (x, "an object that it reads has died meanwhile", error);
  return true;
}

/* -- Sizes of a recording, in terms of the graph's that the body goes into --------------------------------- */

typedef struct {
  const GmGraph *from;
  int64_t *sizes; /* by row of the recording's expressions */
} Sizes;

static int64_t
size_of (const Sizes *s, int64_t size)
{
  return gm_size_is_symbolic (size) ? s->sizes[gm_size_row (size)] : size;
}

/* inputs: by input of the recording, what the body gets there.  False: the recording has a size of something else, or rests on what does not hold. */
static bool
read_sizes (Sizes *s, const GmMeta *const *inputs, GmArena *arena)
{
  const GmGraph *g = s->from;
  const GmSymbolSource *sources;
  uint32_t n = g->sym ? gm_sym_n_rows (g->sym) : 0;

  s->sizes = gm_arena_newn (arena, int64_t, n + 1);
  gm_graph_symbol_sources (g, arena, &sources);
  for (uint32_t i = 0; i < n; i++) {
    const GmSymRow *r = gm_sym_row (g->sym, i);
    if (r->kind == GM_SYM_CONST)
      s->sizes[i] = r->value;
    else if (r->kind != GM_SYM_SYMBOL)
      s->sizes[i] = gm_size_compute (r->kind, size_of (s, gm_size_from_row (r->a)), size_of (s, gm_size_from_row (r->b)));
    else if (sources[r->a].input == GM_NO_ID || !inputs[sources[r->a].input])
      return false;
    else
      s->sizes[i] = sources[r->a].is_stride ? inputs[sources[r->a].input]->strides[sources[r->a].dim]
                                            : inputs[sources[r->a].input]->sizes[sources[r->a].dim];
  }
  for (uint32_t i = 0; n && i < gm_size_facts_n (g->sizes->facts); i++) {
    GmSizeFact f = gm_size_facts_nth (g->sizes->facts, i);
    if (!gm_size_decide (f.rel, size_of (s, f.a), size_of (s, f.b)))
      return false;
  }
  return true;
}

static GmAttrs
attrs_with (const Sizes *s, const GmAttrs *attrs)
{
  GmAttrs a = *attrs;

  for (int i = 0; a.mask & 1u << GM_ATTR_SIZES && i < a.n_list; i++)
    a.list[i] = size_of (s, a.list[i]);
  a.start = size_of (s, a.start);
  a.stop = size_of (s, a.stop);
  if (gm_scalar_is_symbolic (a.value))
    a.value.i = size_of (s, a.value.i);
  if (gm_scalar_is_symbolic (a.value2))
    a.value2.i = size_of (s, a.value2.i);
  return a;
}

/* The nodes of the recording over inputs that `map` knows, in a graph that outlives it. */
static bool
copy_nodes (GmGraph *to, const GmGraph *from, const Sizes *sizes, GmValueId *map, GError **error)
{
  for (uint32_t i = 0; i < from->nodes->len; i++) {
    GmNode n = *gm_graph_node (from, i);
    GmAttrs attrs = { 0 };
    if (gm_graph_attrs_are_symbolic (n.attrs)) {
      attrs = attrs_with (sizes, n.attrs);
      n.attrs = &attrs;
    }
    n.where = n.where ? gm_arena_printf (to->arena, "%s", n.where) : NULL;
    map[n.out] = gm_copy_node (to, from, &n, map, error);
    if (map[n.out] == GM_NO_ID)
      return false;
  }
  return true;
}

/* Which of n stand-ins input i of the recording is; n if none. */
static uint32_t
stand_in_of (const Recorded *x, uint32_t i, PyObject *const *stand_ins, uint32_t n)
{
  uint32_t slot = x->rec->inputs[i].slot, k = 0;

  while (k < n && (slot == GM_SLOT_RNG || x->slots[slot] != stand_ins[k]))
    k++;
  return k;
}

/* A graph with one input per stand-in, of the metas that it stands for, and the nodes that were recorded.  NULL: *error is set. */
static GmGraph *
copy_body (const Recorded *x, const char *name, PyObject *const *stand_ins, const GmMeta *metas, uint32_t n, GmArena *arena, GmValueId *map,
           GError **error)
{
  const GmGraph *from = x->rec->graph;
  g_autoptr (GmGraph) to = gm_graph_new (name, arena);
  const GmMeta **inputs = gm_arena_newn (arena, const GmMeta *, x->rec->n_inputs + 1);
  Sizes sizes = { .from = from };

  if (gm_sizes_current ()) {
    to->sizes = gm_sizes_ref (gm_sizes_current ());
    to->sym = to->sizes->sym;
  }
  for (uint32_t k = 0; k < n; k++)
    gm_graph_add_input (to, n == 1 ? "t" : gm_arena_printf (to->arena, "t%u", k), &metas[k]);
  for (uint32_t i = 0; i < x->rec->n_inputs; i++) {
    uint32_t k = stand_in_of (x, i, stand_ins, n);
    if (k == n) {
      refuse (x, x->rec->inputs[i].slot == GM_SLOT_RNG ? "it draws random numbers"
                                                       : "it reads a tensor that it was not given", error);
      return NULL;
    }
    map[x->rec->inputs[i].value] = g_array_index (to->inputs, GmValueId, k);
    inputs[i] = &metas[k];
  }
  if (!read_sizes (&sizes, inputs, arena)) {
    refuse (x, "it reads a size of something else than the tensor", error);
    return NULL;
  }
  return copy_nodes (to, from, &sizes, map, error) ? g_steal_pointer (&to) : NULL;
}

/* -- Stand-ins --------------------------------------------------------------------------------- */

static void
keep_nothing (void *owner, void *data, size_t bytes)
{
  (void) owner, (void) data, (void) bytes;
}

/* NULL without an exception: a size has no example. */
static PyObject *
stand_in (const GmMeta *like)
{
  GmMeta m = *like;
  const GmSizes *sizes = gm_sizes_current ();

  for (int d = 0; sizes && d < m.ndim; d++)
    if (!gm_sizes_hint (sizes, like->sizes[d], &m.sizes[d]) || !gm_sizes_hint (sizes, like->strides[d], &m.strides[d]))
      return NULL;
  m.requires_grad = 0;
  return gm_py_tensor_take (gm_tensor_new_foreign (&m, NULL, 0, false, keep_nothing, NULL));
}

static bool
is_plain (PyObject *o)
{
  if (PyTuple_CheckExact (o) || Py_IS_TYPE (o, &gm_py_size_type)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (o); i++)
      if (!is_plain (PyTuple_GET_ITEM (o, i)))
        return false;
    return true;
  }
  return Py_IS_TYPE (o, &gm_py_dtype_type) || Py_IS_TYPE (o, &gm_py_device_type) || o == Py_None || o == Py_Ellipsis || PyBool_Check (o)
         || PyLong_CheckExact (o) || PyFloat_CheckExact (o) || PyComplex_CheckExact (o) || PyUnicode_CheckExact (o)
         || PyBytes_CheckExact (o);
}

/* Looks at what pack returns: tensors and constants alone.  *plain: its own tensor is among them. */
static bool
look_at (const Recorded *x, const GmReturn *ret, bool *plain, GArray *same)
{
  if (ret->kind == GM_RETURN_CONST)
    return is_plain (ret->obj);
  if (ret->kind == GM_RETURN_SLOT && x->slots[ret->index] == x->arg)
    return *plain = true;
  if (ret->kind == GM_RETURN_SLOT) {
    PyObject *o = x->slots[ret->index];
    Same s = { ret->index, Py_NewRef (o) };
    g_array_append_val (same, s);
    return is_plain (o);
  }
  for (uint32_t i = 0; i < ret->n; i++)
    if (!look_at (x, &ret->items[i], plain, same))
      return false;
  return true;
}

/* -- Both -------------------------------------------------------------------------------------- */

/* Takes `same`. */
static void
rely_on (GmPyHooks *h, const Recorded *x, bool is_unpack, GArray *same)
{
  Body b = { gm_guards_ref (x->rec->guards), Py_NewRef (x->func->func_code), Py_NewRef (x->arg), is_unpack, same };

  g_array_append_val (h->bodies, b);
}

/* What is carried is an output of the forward: a value that was computed, and no view. */
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

/* The body of pack; *packed: what it returns, *stand_ins: a tuple of the tensors in it, in the order of the outputs. */
static GmGraph *
trace_pack (GmPyHooks *h, Recorded *x, const GmMeta *saved, GmArena *arena, PyObject **packed, PyObject **stand_ins, bool relied, GError **error)
{
  if (!record (x, h->modes, gm_meta_is_symbolic (saved), error))
    return NULL;
  const GmGraph *from = x->rec->graph;
  g_autofree GmValueId *map = g_new0 (GmValueId, from->values->len + 1);
  g_autoptr (GmGraph) to = copy_body (x, "saved_tensors_hooks_pack_0", &x->arg, saved, 1, arena, map, error);
  g_autoptr (GArray) same = g_array_new (FALSE, FALSE, sizeof (Same));
  bool plain = false;

  g_array_set_clear_func (same, clear_same);
  if (!to)
    return NULL;
  if (!look_at (x, x->rec->ret, &plain, same)) {
    refuse (x, "it returns something else than tensors and constants", error);
    return NULL;
  }
  uint32_t n = from->outputs->len;
  *stand_ins = PyTuple_New (n + plain);
  for (uint32_t i = 0; *stand_ins && i < n; i++) {
    if (!add_output (to, map[g_array_index (from->outputs, GmGraphOutput, i).value], error))
      return NULL;
    PyObject *o = stand_in (gm_graph_meta (to, g_array_index (to->outputs, GmGraphOutput, i).value));
    PyTuple_SET_ITEM (*stand_ins, i, o);
    if (!o)
      Py_CLEAR (*stand_ins);
  }
  if (*stand_ins && plain) {
    gm_graph_add_output (to, g_array_index (to->inputs, GmValueId, 0), GM_OUTPUT_USER);
    PyTuple_SET_ITEM (*stand_ins, n, Py_NewRef (x->arg));
  }
  *packed = *stand_ins ? gm_return_build (x->rec->ret, x->slots, &PyTuple_GET_ITEM (*stand_ins, 0)) : NULL;
  if (!*packed) {
    gm_py_error_set (error);
    return NULL;
  }
  if (relied)
    rely_on (h, x, false, g_steal_pointer (&same));
  return g_steal_pointer (&to);
}

/* pack: whose outputs the stand-ins are. */
static GmGraph *
trace_unpack (GmPyHooks *h, Recorded *x, const GmGraph *pack, PyObject *stand_ins, GmArena *arena, bool relied, GError **error)
{
  bool dynamic = false;
  GmMeta *metas = gm_arena_newn (arena, GmMeta, pack->outputs->len + 1);

  for (uint32_t i = 0; i < pack->outputs->len; i++) {
    metas[i] = *gm_graph_meta (pack, g_array_index (pack->outputs, GmGraphOutput, i).value);
    dynamic |= gm_meta_is_symbolic (&metas[i]);
  }
  if (!record (x, h->modes, dynamic, error))
    return NULL;
  const GmGraph *from = x->rec->graph;
  const GmReturn *ret = x->rec->ret;
  uint32_t n = (uint32_t) PyTuple_GET_SIZE (stand_ins), k = 0;
  PyObject *const *items = &PyTuple_GET_ITEM (stand_ins, 0);
  g_autofree GmValueId *map = g_new0 (GmValueId, from->values->len + 1);
  g_autoptr (GmGraph) to = copy_body (x, "saved_tensors_hooks_unpack_0", items, metas, n, arena, map, error);

  if (!to)
    return NULL;
  if (ret->kind == GM_RETURN_SLOT)
    while (k < n && x->slots[ret->index] != items[k])
      k++;
  if (ret->kind == GM_RETURN_OUTPUT)
    gm_graph_add_output (to, map[g_array_index (from->outputs, GmGraphOutput, ret->index).value], GM_OUTPUT_USER);
  else if (ret->kind == GM_RETURN_SLOT && k < n)
    gm_graph_add_output (to, g_array_index (to->inputs, GmValueId, k), GM_OUTPUT_USER);
  else {
    refuse (x, unfit, error);
    return NULL;
  }
  if (relied)
    rely_on (h, x, true, g_array_new (FALSE, FALSE, sizeof (Same)));
  return g_steal_pointer (&to);
}

/* Bodies for equal metas rely on the same. */
static bool
is_known (const GmPyHooks *h, const GmMeta *m)
{
  for (uint32_t i = 0; i < h->metas->len; i++)
    if (memcmp (&g_array_index (h->metas, GmMeta, i), m, sizeof *m) == 0)
      return true;
  return false;
}

static bool
trace_functions (GmPyHooks *h, const GmMeta *saved, GmArena *arena, GmGraph **pack, GmGraph **unpack, GError **error)
{
  Recorded p = { .func = (PyFunctionObject *) pack_of (h), .arg = stand_in (saved) };
  PyObject *packed = NULL, *stand_ins = NULL;

  *pack = *unpack = NULL;
  if (!p.arg) {
    if (PyErr_Occurred ())
      gm_py_error_set (error);
    else
      g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED, "saved-tensor hooks cannot be part of a graph that saves as much as only the run knows");
    return false;
  }
  const GmMeta example = gm_py_tensor_get (p.arg)->meta;
  bool relied = !h->quiet && !is_known (h, &example), ok = false;
  *pack = trace_pack (h, &p, saved, arena, &packed, &stand_ins, relied, error);
  if (*pack) {
    Recorded u = { .func = (PyFunctionObject *) unpack_of (h), .arg = packed };
    *unpack = trace_unpack (h, &u, *pack, stand_ins, arena, relied, error);
    recorded_clear (&u);
    ok = *unpack != NULL;
  }
  if (ok && relied)
    g_array_append_val (h->metas, example);
  if (!ok)
    g_clear_pointer (pack, gm_graph_free);
  recorded_clear (&p);
  Py_XDECREF (packed);
  Py_XDECREF (stand_ins);
  Py_XDECREF (p.arg);
  return ok;
}

/* -- Hooks that are graphs --------------------------------------------------------------------- */

/* The graph of a gramme.fx.GraphModule, borrowed; NULL: it is none. */
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
gm_py_hooks_trace (void *data, const GmMeta *saved, GmArena *arena, GmGraph **pack, GmGraph **unpack, GError **error)
{
  GmPyHooks *h = data;
  GmHookGraphs graphs = { graph_of (pack_of (h)), graph_of (unpack_of (h)) };

  if (pack_of (h) == Py_None || unpack_of (h) == Py_None) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED, "the saved-tensor hooks have died meanwhile");
    return false;
  }
  if (graphs.pack && graphs.unpack)
    return gm_saved_hooks_retrace (&graphs, saved, arena, pack, unpack, error);
  return trace_functions (h, saved, arena, pack, unpack, error);
}

/* -- For the eye ------------------------------------------------------------------------------- */

void
gm_py_hooks_show (GmPyHooks *h, GmGraph *g)
{
  g_autoptr (GError) error = NULL;
  GmMeta like = gm_meta_make (GM_F32, 1, (const int64_t[]){ 2 });
  GmGraph *pack, *unpack;

  h->quiet = true;
  if (gm_py_hooks_trace (h, &like, g->arena, &pack, &unpack, &error)) {
    GmGraph *both[] = { pack, unpack };
    g->hooks = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_graph_free);
    for (int i = 0; i < 2; i++) {
      both[i]->name = i ? "saved_tensors_hooks_unpack_0" : "saved_tensors_hooks_pack_0";
      g_ptr_array_add (g->hooks, gm_graph_simplify (both[i], 0, NULL)); /* a copy that needs no arena of ours */
      gm_graph_free (both[i]);
    }
  }
  PyErr_Clear ();
  h->quiet = false;
}

/* -- The guard --------------------------------------------------------------------------------- */

static bool
body_holds (const Body *b, const GmCallEnv *env, PyFunctionObject *func)
{
  PyObject **slots = g_newa (PyObject *, gm_guards_n_slots (b->guards) + 1);

  if (func->func_code != b->code || !gm_guards_check (b->guards, env, &b->arg, func, slots))
    return false;
  for (uint32_t i = 0; i < b->same->len; i++)
    if (slots[g_array_index (b->same, Same, i).slot] != g_array_index (b->same, Same, i).o)
      return false;
  return true;
}

static bool
holds (const void *data, const GmCallEnv *env)
{
  const GmPyHooks *h = data;
  GmCallEnv inner = { .modes = h->modes };

  if (PyWeakref_GET_OBJECT (h->weak_pack) != env->pack || PyWeakref_GET_OBJECT (h->weak_unpack) != env->unpack)
    return false;
  for (uint32_t i = 0; i < h->bodies->len; i++) {
    const Body *b = &g_array_index (h->bodies, Body, i);
    if (!body_holds (b, &inner, (PyFunctionObject *) (b->is_unpack ? env->unpack : env->pack)))
      return false;
  }
  return true;
}

static bool
is_dead (const void *data)
{
  const GmPyHooks *h = data;
  bool dead = PyWeakref_GET_OBJECT (h->weak_pack) == Py_None || PyWeakref_GET_OBJECT (h->weak_unpack) == Py_None;

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
