/* SPDX-License-Identifier: Apache-2.0
 * gramme.c -- the C API: checks the arguments of a C program, and passes them to the rooms that do
 * the work.
 *
 * The public types are the inner ones under another name: a tensor object is a GmTensor, a function
 * a GmPlan.  So nothing is wrapped, and this file holds no logic but the checks that Python
 * programs get from their binding.
 */
#include "core/gramme.h"

#include "core/autograd/autograd.h"
#include "core/compile.h"
#include "core/plugin/registry.h"

#include <string.h>

struct GrammeGraph {
  GmGraph *g;
};

struct GrammeFunction {
  gatomicrefcount refs;
  GmPlan *plan;
  double compile_ms;
};

static GmTensor *
inner (const GrammeTensorObject *t)
{
  return (GmTensor *) t;
}

/* -- Errors ------------------------------------------------------------------------------------ */

GQuark
gramme_error_quark (void)
{
  return GM_ERROR;
}

#define SAME(code) G_STATIC_ASSERT ((int) GRAMME_ERROR_##code == (int) GM_ERROR_##code)
SAME (TYPE);
SAME (VALUE);
SAME (INDEX);
SAME (RUNTIME);
SAME (MEMORY);
SAME (UNSUPPORTED);
SAME (BACKEND);
SAME (IO);
SAME (NO_BACKEND);
#undef SAME

/* True if none of the n entries of `tensors` is NULL; else *error names the first that is, as one
 * of `what`. */
static bool
check_tensors (GrammeTensorObject *const *tensors, int n, const char *what, GError **error)
{
  for (int i = 0; i < n; i++)
    if (!tensors[i]) {
      g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                   "%s %d is NULL: each of the %d has to be a tensor", what, i, n);
      return false;
    }
  return true;
}

/* -- Back ends --------------------------------------------------------------------------------- */

char **
gramme_list_backends (void)
{
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  GPtrArray *names = g_ptr_array_new ();

  for (guint i = 0; i < plugins->len; i++) {
    const GmPluginInfo *info = g_ptr_array_index (plugins, i);
    if (info->refused.code == GM_REFUSAL_NONE)
      g_ptr_array_add (names, g_strdup (info->name));
  }
  g_ptr_array_add (names, NULL);
  return (char **) g_ptr_array_free (names, FALSE);
}

/* -- Graphs ------------------------------------------------------------------------------------ */

/* True if `s` is a valid name: letters, digits and '_', not beginning with a digit. */
static bool
is_name (const char *s)
{
  if (!g_ascii_isalpha (*s) && *s != '_')
    return false;
  while (g_ascii_isalnum (*s) || *s == '_')
    s++;
  return *s == 0;
}

GrammeGraph *
gramme_graph_new (const char *name)
{
  g_return_val_if_fail (name && is_name (name), NULL);
  GrammeGraph *g = g_new (GrammeGraph, 1);
  GmArena *arena;

  g->g = gm_graph_new ("", NULL);
  arena = g->g->arena;
  g->g->name = gm_arena_strdup (arena, name);
  return g;
}

void
gramme_graph_free (GrammeGraph *g)
{
  if (!g)
    return;
  gm_graph_free (g->g);
  g_free (g);
}

/* Sets *out to the row-major meta for a dtype and sizes that a program passed.  False with *error
 * if they are not valid. */
static bool
make_meta (const char *dtype, int ndim, const int64_t *sizes, GmMeta *out, GError **error)
{
  GmDtype d;

  if (!gm_dtype_parse (dtype, strlen (dtype), &d) || !gm_dtypes[d].live
      || strcmp (gm_dtypes[d].text, dtype) != 0) {
    g_autoptr (GString) all = g_string_new (NULL);
    for (int i = 0; i < GM_N_DTYPES; i++)
      if (gm_dtypes[i].live)
        g_string_append_printf (all, "%s%s", all->len ? ", " : "", gm_dtypes[i].text);
    g_set_error (error, GM_ERROR, GM_ERROR_TYPE,
                 "there are no tensors of dtype \"%s\"; there are %s", dtype, all->str);
    return false;
  }
  if (ndim < 0 || ndim > GM_MAX_DIMS) {
    g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "a tensor has 0 to %d dimensions, not %d",
                 GM_MAX_DIMS, ndim);
    return false;
  }
  for (int i = 0; i < ndim; i++)
    if (sizes[i] < 0) {
      g_autofree char *shape = gm_shape_text (ndim, sizes);
      g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "a size cannot be negative: %s", shape);
      return false;
    }
  *out = gm_meta_make (d, ndim, sizes);
  return true;
}

GrammeValueId
gramme_graph_add_input (GrammeGraph *g, const char *name, const char *dtype, int ndim,
                        const int64_t *sizes, gboolean requires_grad, GError **error)
{
  g_return_val_if_fail (g && name && dtype && (ndim == 0 || sizes), GRAMME_NO_VALUE);
  GmMeta m;

  if (!is_name (name)) {
    g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                 "\"%s\" cannot be the name of an input of the graph '%s': a name has letters, "
                 "digits and '_', and does not begin with a digit",
                 name, g->g->name);
    return GRAMME_NO_VALUE;
  }
  if (!make_meta (dtype, ndim, sizes, &m, error))
    return GRAMME_NO_VALUE;
  for (guint i = 0; i < g->g->inputs->len; i++)
    if (!strcmp (gm_graph_value (g->g, g_array_index (g->g->inputs, GmValueId, i))->name, name)) {
      g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "the graph '%s' has an input '%s' already",
                   g->g->name, name);
      return GRAMME_NO_VALUE;
    }
  m.requires_grad = requires_grad && gm_dtype_is_float (m.dtype);
  return gm_graph_add_input (g->g, gm_arena_strdup (g->g->arena, name), &m);
}

static bool
check_value (const GrammeGraph *g, GrammeValueId v, const char *what, GError **error)
{
  if (v < g->g->values->len)
    return true;
  g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
               "%s: %u is no value of the graph '%s', which has %u", what, v, g->g->name,
               g->g->values->len);
  return false;
}

GrammeValueId
gramme_graph_add_op (GrammeGraph *g, const char *op, const GrammeValueId *in, int n_in,
                     const char *attributes, GError **error)
{
  g_return_val_if_fail (g && op && n_in >= 0 && (n_in == 0 || in), GRAMME_NO_VALUE);
  GmOp code = gm_op_find (op, strlen (op));
  GmAttrs attrs = { 0 };

  if (code == GM_OP_NONE || code == GM_OP_constant) {
    g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                 "there is no operator \"%s\" to add; gramme-ops.def lists them", op);
    return GRAMME_NO_VALUE;
  }
  for (int i = 0; i < n_in; i++)
    if (!check_value (g, in[i], op, error))
      return GRAMME_NO_VALUE;
  if (attributes && !gm_graph_parse_attrs (attributes, &attrs, error)) {
    g_prefix_error (error, "%s: ", op);
    return GRAMME_NO_VALUE;
  }
  if (attrs.mask != gm_op_attr_mask (code)) {
    GString *want = g_string_new (NULL);
    for (int k = 1; k < GM_N_ATTRS; k++)
      if (gm_op_attr_mask (code) & 1u << k)
        g_string_append_printf (want, "%s%s", want->len ? ", " : "", gm_attrs[k].name);
    g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                 "%s takes the attributes [%s], but was given \"%s\"", op, want->str,
                 attributes ? attributes : "");
    g_string_free (want, TRUE);
    return GRAMME_NO_VALUE;
  }
  return gm_graph_add_node (g->g, code, in, n_in, attrs.mask ? &attrs : NULL, NULL, error);
}

gboolean
gramme_graph_add_output (GrammeGraph *g, GrammeValueId v, GError **error)
{
  g_return_val_if_fail (g, FALSE);
  if (!check_value (g, v, "output", error))
    return FALSE;
  gm_graph_add_output (g->g, v, GM_OUTPUT_USER);
  return TRUE;
}

GrammeGraph *
gramme_graph_parse (const char *text, GError **error)
{
  g_return_val_if_fail (text, NULL);
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, error);
  GrammeGraph *g;

  if (!graphs)
    return NULL;
  if (graphs->len != 1) {
    g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "the text holds %u graphs, one was expected",
                 graphs->len);
    return NULL;
  }
  g = g_new (GrammeGraph, 1);
  g->g = g_ptr_array_steal_index (graphs, 0);
  return g;
}

char *
gramme_graph_print (const GrammeGraph *g)
{
  g_return_val_if_fail (g, NULL);
  return gm_graph_text (g->g);
}

/* -- Tensors ----------------------------------------------------------------------------------- */

GrammeTensorObject *
gramme_tensor_new (const char *dtype, int ndim, const int64_t *sizes, GError **error)
{
  g_return_val_if_fail (dtype && (ndim == 0 || sizes), NULL);
  GmMeta m;

  return make_meta (dtype, ndim, sizes, &m, error)
             ? (GrammeTensorObject *) gm_tensor_new_zeros (&m, error)
             : NULL;
}

GrammeTensorObject *
gramme_tensor_ref (GrammeTensorObject *t)
{
  g_return_val_if_fail (t, NULL);
  gm_tensor_ref (inner (t));
  return t;
}

void
gramme_tensor_unref (GrammeTensorObject *t)
{
  gm_tensor_unref (inner (t));
}

void *
gramme_tensor_data (GrammeTensorObject *t)
{
  g_return_val_if_fail (t, NULL);
  return gm_tensor_data (inner (t));
}

const char *
gramme_tensor_dtype (const GrammeTensorObject *t)
{
  g_return_val_if_fail (t, NULL);
  return gm_dtypes[inner (t)->meta.dtype].text;
}

int
gramme_tensor_ndim (const GrammeTensorObject *t)
{
  g_return_val_if_fail (t, -1);
  return inner (t)->meta.ndim;
}

const int64_t *
gramme_tensor_sizes (const GrammeTensorObject *t)
{
  g_return_val_if_fail (t, NULL);
  return inner (t)->meta.sizes;
}

const int64_t *
gramme_tensor_strides (const GrammeTensorObject *t)
{
  g_return_val_if_fail (t, NULL);
  return inner (t)->meta.strides;
}

gboolean
gramme_tensor_set_requires_grad (GrammeTensorObject *t, gboolean on, GError **error)
{
  g_return_val_if_fail (t, FALSE);
  return gm_tensor_set_requires_grad (inner (t), on, error);
}

gboolean
gramme_graph_describe_inputs (GrammeGraph *g, GrammeTensorObject *const *inputs, int n_inputs,
                              GError **error)
{
  g_return_val_if_fail (g && (n_inputs <= 0 || inputs), FALSE);
  if ((guint) n_inputs != g->g->inputs->len) {
    g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "the graph '%s' has %u inputs, %d were given",
                 g->g->name, g->g->inputs->len, n_inputs);
    return FALSE;
  }
  if (!check_tensors (inputs, n_inputs, "input", error))
    return FALSE;
  gm_overlap_describe (g->g, (GmTensor *const *) inputs);
  return gm_graph_verify (g->g, false, error);
}

/* -- Functions --------------------------------------------------------------------------------- */

/* Returns a copy of the graph in `arena`, for the compilation, with inputs, nodes and outputs. */
static GmGraph *
copy_graph (const GmGraph *g, GmArena *arena, GError **error)
{
  g_autoptr (GmGraph) copy = gm_graph_new (g->name, arena);

  if (!gm_copy_values (copy, g, error))
    return NULL;
  for (guint i = 0; i < g->outputs->len; i++)
    gm_graph_add_output (copy, g_array_index (g->outputs, GmGraphOutput, i).value, GM_OUTPUT_USER);
  return g_steal_pointer (&copy);
}

GrammeFunction *
gramme_compile (const GrammeGraph *g, const char *backend, const char *const *options,
                gboolean with_backward, GError **error)
{
  g_return_val_if_fail (g && backend, NULL);
  g_autoptr (GmCompile) c = gm_compile_new ();
  gint64 start_us = g_get_monotonic_time ();
  GmGraph *graph;
  GrammeFunction *f;

  c->ask.backend = gm_backend_get (backend, error);
  c->ask.options = options;
  c->ask.differentiate = with_backward;
  if (!c->ask.backend || !(graph = copy_graph (g->g, c->arena, error)))
    return NULL;
  gm_compile_set_graph (c, graph);
  if (!gm_graph_verify (graph, false, error))
    return NULL;
  if (!gm_compile_run (c, 's', 'l', error))
    return NULL;
  f = g_new0 (GrammeFunction, 1);
  g_atomic_ref_count_init (&f->refs);
  f->plan = gm_plan_ref (c->lower.plan);
  f->compile_ms = (double) (g_get_monotonic_time () - start_us) / 1000;
  return f;
}

GrammeFunction *
gramme_function_ref (GrammeFunction *f)
{
  g_return_val_if_fail (f, NULL);
  g_atomic_ref_count_inc (&f->refs);
  return f;
}

void
gramme_function_unref (GrammeFunction *f)
{
  if (!f || !g_atomic_ref_count_dec (&f->refs))
    return;
  gm_plan_unref (f->plan);
  g_free (f);
}

int
gramme_function_n_inputs (const GrammeFunction *f)
{
  g_return_val_if_fail (f, -1);
  return gm_plan_n_inputs (f->plan);
}

int
gramme_function_n_outputs (const GrammeFunction *f)
{
  g_return_val_if_fail (f, -1);
  return gm_plan_n_outputs (f->plan);
}

double
gramme_function_compile_ms (const GrammeFunction *f)
{
  g_return_val_if_fail (f, 0);
  return f->compile_ms;
}

gboolean
gramme_function_run (GrammeFunction *f, GrammeTensorObject *const *inputs, int n_inputs,
                     GrammeTensorObject **outputs, int n_outputs, GError **error)
{
  g_return_val_if_fail (f && (n_inputs <= 0 || inputs) && (n_outputs <= 0 || outputs), FALSE);
  GmTensor *const *in = (GmTensor *const *) inputs;

  if (n_outputs > 0)
    memset (outputs, 0, sizeof *outputs * (size_t) n_outputs);
  if (n_outputs != gm_plan_n_outputs (f->plan)) {
    g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                 "the compiled function has %d outputs, room was given for %d",
                 gm_plan_n_outputs (f->plan), n_outputs);
    return FALSE;
  }
  return check_tensors (inputs, n_inputs, "input", error)
         && gm_plan_check (f->plan, in, n_inputs, error)
         && gm_plan_run (f->plan, in, n_inputs, (GmTensor **) outputs, error);
}

/* Replaces *g by a copy in the layout of `like`, if that has no gaps and differs, so that a C loop
 * can walk over both at once. */
static bool
lay_out (GmTensor **g, const GmMeta *like, GError **error)
{
  GmTensor *copy, *old = *g;

  if (!gm_meta_is_dense (like)
      || memcmp (old->meta.strides, like->strides, sizeof like->strides) == 0)
    return true;
  copy = gm_tensor_new (like, error);
  if (!copy)
    return false;
  if (!gm_op_run_into (GM_OP_copy, &old, 1, NULL, copy, error)) {
    gm_tensor_unref (copy);
    return false;
  }
  gm_tensor_unref (old);
  *g = copy;
  return true;
}

gboolean
gramme_function_backward (GrammeTensorObject *const *outputs, GrammeTensorObject *const *tangents,
                          int n_outputs, GrammeTensorObject *const *inputs,
                          GrammeTensorObject **gradients, int n_inputs, GError **error)
{
  g_return_val_if_fail (outputs && inputs && gradients && n_outputs > 0 && n_inputs > 0, FALSE);
  GmTensor **result = (GmTensor **) gradients;
  bool ok;

  memset (gradients, 0, sizeof *gradients * (size_t) n_inputs);
  if (!check_tensors (outputs, n_outputs, "output", error)
      || !check_tensors (inputs, n_inputs, "input", error))
    return FALSE;
  ok = gm_autograd_grad ((GmTensor *const *) outputs, (GmTensor *const *) tangents, n_outputs,
                         (GmTensor *const *) inputs, n_inputs, false, false, true, result, error);

  for (int i = 0; ok && i < n_inputs; i++)
    ok = !result[i] || lay_out (&result[i], &inner (inputs[i])->meta, error);
  for (int i = 0; !ok && i < n_inputs; i++)
    g_clear_pointer (&result[i], gm_tensor_unref);
  return ok;
}
