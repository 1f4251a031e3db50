/* SPDX-License-Identifier: Apache-2.0
 * hook_program.c -- see hook_program.h.
 *
 * A hook is called for real the first time.  Then the recorder traces it with a stand-in that has
 * the gradient's layout and no memory.  If the recording is whole, has no side effects and returns
 * None, the gradient or a new tensor, its graph is a program.  Later it is found by its code, and
 * its guards are checked with the stand-in in the gradient's place: closures, globals and
 * everything else that the hook read must be unchanged.  That the gradient has the stand-in's
 * layout is checked when the program is made part of a graph.
 * Refused: hooks that read the grad of a tensor.  In a stretch it is not yet accumulated.
 */
#include "core/objects/cpython.h"

#include "core/aot/aot.h"
#include "core/objects/autograd_py.h"
#include "core/bytecode/bind.h"
#include "core/capture/callable.h"
#include "core/capture/code_cache.h"
#include "core/capture/frontend.h"
#include "core/objects/host_function.h"
#include "core/capture/trace_host.h"
#include "core/capture/hook_program.h"
#include "core/objects/tensor_object.h"

#include <string.h>

/* Number of recordings that are tried for a hook's code: layouts and closures differ, and some
 * hooks cannot be recorded. */
enum { MAX_TRIES = 8 };

typedef enum { STAYS, REPLACED } Result;

typedef struct {
  GmHookProgram base;
  GmGuards *guards;
  GmGraph *graph;
  PyObject *stand_in; /* a Tensor */
  uint32_t n_inputs, *slots;
  Result result;
  uint32_t output; /* REPLACED: output of the graph */
} Program;

static const char configuration[] = "a hook"; /* its address is BACKEND_MATCH's key */

static GmCallEnv
env_now (void)
{
  GmTarget target = { .fullgraph = true };
  GmCallEnv env = gm_target_env (&target);

  env.backend = configuration;
  return env;
}

/* -- As a program ------------------------------------------------------------------------------ */

static GmVal
emit (const GmHookProgram *base, GmBuilder *b, GmVal grad, const GmVal *captured)
{
  const Program *p = (const Program *) base;
  const GmGraph *g = p->graph;

  if (p->result == STAYS)
    return NULL;
  g_autofree GmVal *map = g_new0 (GmVal, g->values->len + 1);
  for (uint32_t i = 0; i < p->n_inputs; i++)
    map[g_array_index (g->inputs, GmValueId, i)] = p->slots[i] == GM_NO_ID ? grad : *captured++;
  for (uint32_t k = 0; k < g->nodes->len && !gm_b_failed (b); k++) {
    const GmNode *n = gm_graph_node (g, k);
    g_autofree GmVal *in = g_new (GmVal, n->n_in + 1);
    for (uint32_t i = 0; i < n->n_in; i++)
      in[i] = map[n->in[i]];
    map[n->out] = n->op == GM_OP_constant
                      ? b->vt->constant (b, g_ptr_array_index (g->constants, n->attrs->offset))
                      : gm_b_op (b, n->op, in, (int) n->n_in, n->attrs);
  }
  return map[g_array_index (g->outputs, GmGraphOutput, p->output).value];
}

static void
program_free (GmHookProgram *base)
{
  Program *p = (Program *) base;

  gm_guards_unref (p->guards);
  gm_graph_free (p->graph);
  Py_XDECREF (p->stand_in);
  g_free (p->slots);
  g_free (p);
}

static void
program_unref (void *p)
{
  gm_hook_program_unref (p);
}

/* -- The function behind a hook ---------------------------------------------------------------- */

typedef struct {
  PyFunctionObject *func;
  PyObject *self; /* or NULL */
  GmCodeCache *cache;
} Function;

static bool
function_of (PyObject *hook, Function *f)
{
  PyObject *func = PyMethod_Check (hook) ? PyMethod_GET_FUNCTION (hook) : hook;

  if (!PyFunction_Check (func))
    return false;
  f->func = (PyFunctionObject *) func;
  f->self = PyMethod_Check (hook) ? PyMethod_GET_SELF (hook) : NULL;
  f->cache = gm_code_cache_get ((PyCodeObject *) f->func->func_code);
  g_autoptr (GError) error = NULL;
  if (f->cache && gm_code_cache_decode (f->cache->code, &error))
    return true;
  PyErr_Clear ();
  return false;
}

/* -- Recording --------------------------------------------------------------------------------- */

static void
keep_nothing (void *owner, void *data, size_t bytes)
{
  (void) owner, (void) data, (void) bytes;
}

/* Returns a tensor with the layout of `grad` but without memory, which the recording of a hook
 * uses as its gradient.  NULL with an exception. */
static PyObject *
stand_in_for (const GmTensor *grad)
{
  GmMeta m = grad->meta;

  m.requires_grad = 0;
  return gm_py_tensor_take (gm_tensor_new_foreign (&m, NULL, 0, false, keep_nothing, NULL));
}

static bool
is_plain (const GmGraph *g)
{
  for (uint32_t k = 0; k < g->nodes->len; k++) {
    uint8_t family = gm_ops[gm_graph_node (g, k)->op].family;
    if (family == GM_FAMILY_MUTATE || family == GM_FAMILY_CUSTOM || family == GM_FAMILY_RANDOM)
      return false;
  }
  return !g->sym;
}

/* Stores in p what the hook returned: None, the gradient or a new tensor; false if a program
 * cannot express the result. */
static bool
read_result (Program *p, const GmRecording *rec, uint32_t grad_slot)
{
  const GmReturn *ret = rec->ret;

  if (ret && ret->kind == GM_RETURN_CONST && ret->obj == Py_None)
    return true;
  if (ret && ret->kind == GM_RETURN_SLOT && ret->index == grad_slot)
    return true;
  if (!ret || ret->kind != GM_RETURN_OUTPUT)
    return false;
  const GmMeta *m = gm_graph_meta (
      rec->graph, g_array_index (rec->graph->outputs, GmGraphOutput, ret->index).value);
  p->result = REPLACED;
  p->output = ret->index;
  return gm_meta_same_shape (m, &p->base.grad) && m->dtype == p->base.grad.dtype;
}

/* Moves into p the parts of the recording that a program needs; false if this recording cannot
 * be a program. */
static bool
take (Program *p, GmRecording *rec, const GmBound *bound, PyFunctionObject *func)
{
  uint32_t grad_slot = GM_NO_ID;
  GmCallEnv env = env_now ();

  if (rec->stop || rec->point || rec->n_effects || rec->sets_grad || !rec->graph
      || !is_plain (rec->graph) || gm_guards_read_grad (rec->guards))
    return false;
  /* Zeroed, since a check fills only the slots that it must. */
  PyObject **slots = g_newa0 (PyObject *, gm_guards_n_slots (rec->guards) + 1);
  if (!gm_guards_check (rec->guards, &env, bound->locals, func, slots))
    return false;
  for (uint32_t i = 0; i < gm_guards_n_slots (rec->guards); i++)
    if (slots[i] == p->stand_in)
      grad_slot = i;
  p->n_inputs = rec->n_inputs;
  p->slots = g_new (uint32_t, rec->n_inputs + 1);
  for (uint32_t i = 0; i < rec->n_inputs; i++) {
    uint32_t slot = rec->inputs[i].slot;
    if (slot == GM_SLOT_RNG)
      return false;
    p->slots[i] = slots[slot] == p->stand_in ? GM_NO_ID : slot;
  }
  if (!read_result (p, rec, grad_slot))
    return false;
  p->guards = gm_guards_ref (rec->guards);
  p->graph = g_steal_pointer (&rec->graph);
  return true;
}

void
gm_hook_program_try (PyObject *hook, GmTensor *grad)
{
  static uint64_t next_id = 1;
  Function f;
  GmBound bound;

  if (!function_of (hook, &f) || f.cache->hook_tries >= MAX_TRIES || gm_grad_enabled ())
    return;
  f.cache->hook_tries++;
  Program *p = g_new0 (Program, 1);
  g_atomic_ref_count_init (&p->base.refs);
  p->base.id = next_id++;
  p->base.emit = emit;
  p->base.free = program_free;
  p->stand_in = stand_in_for (grad);
  p->base.grad = gm_py_tensor_get (p->stand_in)->meta;
  bool ok = false;
  if (gm_bind (&bound, f.cache->decoded, f.func, f.self, &p->stand_in, 1, NULL)) {
    gm_trace_host_tell ();
    GmRecordRequest request = { .func = f.func,
                                .code = f.cache->decoded,
                                .locals = bound.locals,
                                .env = env_now (),
                                .backend_text = configuration };
    g_autoptr (GmRecording) rec = gm_record_function (&request);
    ok = take (p, rec, &bound, f.func);
    gm_bind_clear (&bound);
  }
  PyErr_Clear ();
  if (!ok) {
    gm_hook_program_unref (&p->base);
    return;
  }
  if (!f.cache->hook_programs)
    f.cache->hook_programs = g_ptr_array_new_with_free_func (program_unref);
  g_ptr_array_add (f.cache->hook_programs, p);
}

/* -- Finding ----------------------------------------------------------------------------------- */

static bool
holds (Program *p, const Function *f, GPtrArray *captured)
{
  GmCallEnv env = env_now ();
  GmBound bound;
  PyObject **slots = g_newa (PyObject *, gm_guards_n_slots (p->guards) + 1);
  bool ok = gm_bind (&bound, f->cache->decoded, f->func, f->self, &p->stand_in, 1, NULL);

  if (!ok)
    return false;
  ok = gm_guards_check (p->guards, &env, bound.locals, f->func, slots);
  for (uint32_t i = 0; ok && i < p->n_inputs; i++)
    if (p->slots[i] != GM_NO_ID)
      g_ptr_array_add (captured, gm_tensor_ref (gm_py_tensor_get (slots[p->slots[i]])));
  gm_bind_clear (&bound);
  return ok;
}

GmHookProgram *
gm_hook_program_find (GmTensorHook hook, void *hook_data, const GmMeta *like, GPtrArray *captured)
{
  Function f;

  PyObject *callable = hook == gm_py_call_hook         ? hook_data
                       : hook == gm_gradient_hook_call ? gm_py_host_callable (hook_data)
                                                       : NULL;
  if (!callable || !function_of (callable, &f) || !f.cache->hook_programs)
    return NULL;
  for (guint i = 0; i < f.cache->hook_programs->len; i++) {
    Program *p = g_ptr_array_index (f.cache->hook_programs, i);
    if (p->base.grad.dtype != like->dtype || !gm_meta_same_shape (&p->base.grad, like)
        || !holds (p, &f, captured))
      continue;
    g_atomic_ref_count_inc (&p->base.refs);
    return &p->base;
  }
  return NULL;
}
