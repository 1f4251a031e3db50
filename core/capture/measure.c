/* SPDX-License-Identifier: Apache-2.0
 * measure.c -- functions for benchmarks, for times that Python cannot measure from outside.
 */
#include "core/objects/cpython.h"

#include "core/autograd/autograd.h"
#include "core/compiled_pair.h"
#include "core/objects/errors.h"
#include "core/capture/measure.h"
#include "core/tiles/tiles.h"
#include "core/trace/recorder.h"

static PyObject *
isa (PyObject *module, PyObject *unused)
{
  const char *why = NULL;
  const GmTiles *tiles = gm_tiles_get (&why);
  return PyUnicode_FromString (tiles ? tiles->isa : why);
}

/* Gives a recorder n live objects, each written once after it was made, so that the journal has
 * n rows. */
static void
fill (GmRecorder *r, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    gm_heap_store (&r->heap, gm_heap_add (&r->heap, 1), 0, &gm_tracker_null);
}

static PyObject *
measure_mark (PyObject *module, PyObject *args)
{
  unsigned live, times, writes = 8;
  if (!PyArg_ParseTuple (args, "II|I", &live, &times, &writes) || times == 0)
    return NULL;
  g_autoptr (GArray) none = g_array_new (FALSE, FALSE, 1);
  g_autoptr (GPtrArray) nothing = g_ptr_array_new ();
  GmRecorder r = { .graph = gm_graph_new ("measure", NULL),
                   .guards = none,
                   .effects = none,
                   .inputs = none,
                   .mutated = none,
                   .draws = none,
                   .looks = none,
                   .sources = nothing,
                   .wrapped = nothing };
  gm_heap_init (&r.heap);
  fill (&r, live);
  uint32_t object = gm_heap_add (&r.heap, writes + 1);
  gint64 best = G_MAXINT64;
  for (int round = 0; round < 5; round++) {
    gint64 start_us = g_get_monotonic_time ();
    for (unsigned i = 0; i < times; i++) {
      GmMark m = gm_record_mark (&r);
      for (uint32_t key = 0; key < writes; key++)
        gm_heap_store (&r.heap, object, key, &gm_tracker_poison);
      gm_record_rollback (&r, &m);
    }
    best = MIN (best, g_get_monotonic_time () - start_us);
  }
  gm_heap_clear (&r.heap);
  gm_graph_free (r.graph);
  return PyFloat_FromDouble ((double) best * 1000 / times);
}

/* -- The call plan ----------------------------------------------------------------------------- */

typedef struct {
  GmCompile *c;
  GmGraph *graph;
  GmTensor *in[3], *gradient;
  GmTensor *forward[16], *back_in[32], *backward[16]; /* for the back end alone */
} PlanBench;

static bool
plan_bench_init (PlanBench *b, const char *backend, bool grad, GError **error)
{
  g_autofree char *text = g_strdup_printf (
      "f (%%x: f32[16]%s, %%y: f32[16]%s, %%z: f32[16]%s) -> (%%2) {\n"
      " %%0 = mul %%x %%y\n %%1 = add %%0 %%z\n %%2 = relu %%1\n}\n",
      grad ? " requires_grad" : "", grad ? " requires_grad" : "", grad ? " requires_grad" : "");
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, error);
  GmBackend *instance = gm_backend_get (backend, error);
  if (!graphs || !instance)
    return false;
  b->c = gm_compile_new ();
  b->c->ask.backend = instance;
  gm_compile_set_graph (b->c, g_ptr_array_steal_index (graphs, 0));
  if (!gm_compile_run (b->c, 's', 'l', error))
    return false;
  for (int i = 0; i < 3; i++) {
    b->in[i] = gm_tensor_new_zeros (gm_plan_input_meta (b->c->lower.plan, i), error);
    if (!b->in[i] || !gm_tensor_set_requires_grad (b->in[i], grad, error))
      return false;
  }
  b->gradient = gm_tensor_new_zeros (&b->in[0]->meta, error);
  return b->gradient != NULL;
}

static void
plan_bench_clear (PlanBench *b)
{
  for (int i = 0; i < 3; i++)
    gm_tensor_unref (b->in[i]);
  for (int i = 0; i < 16; i++) {
    gm_tensor_unref (b->forward[i]);
    gm_tensor_unref (b->backward[i]);
  }
  gm_tensor_unref (b->gradient);
  gm_compile_free (b->c);
}

static bool
outputs_of (const GmGraph *g, GmTensor **out, GError **error)
{
  bool ok = true;
  for (guint i = 0; ok && i < g->outputs->len; i++) {
    out[i] = gm_tensor_new (gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value),
                            error);
    ok = out[i] != NULL;
  }
  return ok;
}

/* Runs the back end's forward, and with `grad` its backward, `times` times without the plan
 * around them.  False with *error. */
static bool
run_alone (PlanBench *b, unsigned times, bool grad, GError **error)
{
  const GmParts *p = &b->c->partition;
  int roles[2];
  GmExec *execs[2] = { gm_compiled_pair_exec (b->c->lower.pair, GM_EXEC_FORWARD, &roles[0]),
                       gm_compiled_pair_exec (b->c->lower.pair, GM_EXEC_BACKWARD, &roles[1]) };
  int n_forward = (int) p->forward->outputs->len, n_saved = (int) p->n_saved;
  bool ok = true;
  for (int i = 0; i < n_saved; i++)
    b->back_in[i] = p->saved[i].is_input ? b->in[p->saved[i].index] : b->forward[p->saved[i].index];
  b->back_in[n_saved] = b->gradient;
  for (unsigned i = 0; ok && i < times; i++) {
    ok = gm_exec_run (execs[0], roles[0], b->in, 3, b->forward, n_forward, error);
    if (grad)
      ok = ok
           && gm_exec_run (execs[1], roles[1], b->back_in, n_saved + 1, b->backward,
                           (int) p->backward->outputs->len, error);
  }
  return ok;
}

static bool
run_planned (PlanBench *b, unsigned times, bool grad, GError **error)
{
  bool ok = true;
  for (unsigned i = 0; ok && i < times; i++) {
    GmTensor *out;
    ok = gm_plan_run (b->c->lower.plan, b->in, 3, &out, error);
    if (ok && grad) {
      for (int k = 0; k < 3; k++)
        gm_tensor_set_grad (b->in[k], NULL);
      ok = gm_autograd_backward (&out, &b->gradient, 1, false, false, error);
    }
    if (ok)
      gm_tensor_unref (out);
  }
  return ok;
}

static PyObject *
measure_plan (PyObject *module, PyObject *args)
{
  const char *backend;
  int grad;
  unsigned times;
  GError *error = NULL;
  if (!PyArg_ParseTuple (args, "spI", &backend, &grad, &times) || times == 0)
    return NULL;
  PlanBench b = { 0 };
  bool ok = plan_bench_init (&b, backend, grad, &error)
            && outputs_of (b.c->partition.forward, b.forward, &error)
            && (!grad || outputs_of (b.c->partition.backward, b.backward, &error));
  gint64 best[2] = { G_MAXINT64, G_MAXINT64 };
  for (int round = 0; ok && round < 15; round++) {
    gint64 start = g_get_monotonic_time ();
    ok = run_planned (&b, times, grad, &error);
    gint64 middle = g_get_monotonic_time ();
    ok = ok && run_alone (&b, times, grad, &error);
    best[0] = MIN (best[0], middle - start);
    best[1] = MIN (best[1], g_get_monotonic_time () - middle);
  }
  plan_bench_clear (&b);
  if (!ok)
    return gm_py_raise (error);
  return Py_BuildValue ("(dd)", (double) best[0] * 1000 / times, (double) best[1] * 1000 / times);
}

static PyMethodDef functions[] = {
  { "isa", isa, METH_NOARGS,
    "isa() -> str: the instruction set that the tiles use, \"avx2\" or \"avx512\"." },
  { "measure_mark", measure_mark, METH_VARARGS,
    "measure_mark(live, times, writes=8) -> float: ns for one mark, the writes and their rollback, "
    "with `live` variables in the recorder's heap." },
  { "measure_plan", measure_plan, METH_VARARGS,
    "measure_plan(backend, grad, times) -> (float, float)\n\nns for one call of relu(x * y + z) on "
    "16 floats through its call plan, and for the back\n"
    "end's own call; with grad, for forward and backward." },
  { NULL },
};

int
gm_py_init_measure (PyObject *module)
{
#ifdef GM_DEBUG_CHECKS
  /* Such a build compares remembered values with current ones, so its times are not those of
   * users. */
  const int debug_checks = 1;
#else
  const int debug_checks = 0;
#endif
  return PyModule_AddFunctions (module, functions) == 0
                 && PyModule_AddIntConstant (module, "debug_checks", debug_checks) == 0
             ? 0
             : -1;
}
