/* SPDX-License-Identifier: Apache-2.0
 * level_numeric.c -- level 7: results, compared with the host's interpreter.
 *
 * Bits are compared if the manifest says bit-exact, else the difference must be within a bound for
 * each dtype (kit_graph.c).
 */
#include <math.h>
#include <string.h>

#include "core/compile.h"
#include "core/graph/image.h"
#include "tools/kit/kit.h"

/* -- Forward ----------------------------------------------------------------------------------- */

/* Runs a graph or two of few nodes for every op that the plugin takes and every dtype that it
 * names. */
void
kit_numeric_ops (Kit *k)
{
  uint32_t taken = 0, first = (uint32_t) k->first_seed;
  kit_open (k);
  kit_learn (k);
  bool cheap = g_strv_length (k->manifest->needs) == 0;
  for (int op = 1; op < GM_N_OPS; op++) {
    if (!gm_op_set_has (&k->ops, op)
        || (!cheap && op % 8 != (int) first % 8)) /* a compiler for each takes minutes */
      continue;
    for (int d = 0; d < GM_N_DTYPES; d++) {
      if (!gm_dtypes[d].live
          || !g_strv_contains ((const char *const *) k->manifest->dtypes, gm_dtypes[d].text))
        continue;
      GmRandomGraph o = { .seed = first * 1000003 + (uint64_t) op * 64 + (uint64_t) d,
                          .n_nodes = 2,
                          .dtypes = 1u << d,
                          .strided = (op + d) % 2,
                          .defined_only = true,
                          .no_empty = true };
      gm_op_set_add (&o.ops, op);
      if (!gm_op_accepts ((GmOp) op, (GmDtype) d) && gm_ops[op].family == GM_FAMILY_POINTWISE
          && d != GM_BOOL)
        continue;
      kit_seed (k, k->first_seed);
      kit_doing (k, "trying %s of %s", gm_ops[op].name, gm_dtypes[d].text);
      g_autoptr (GmGraph) g = kit_tidy_outputs (gm_random_graph (&o, NULL));
      GmTensor **in = kit_inputs (g, o.seed, GM_RANDOM_TAME);
      if (g->outputs->len)
        taken += kit_check_graph (k, g, in);
      kit_free_tensors (in, g->inputs->len);
    }
  }
  kit_note (k, "%u nodes compared", taken);
  kit_close (k);
}

void
kit_numeric_odd_numbers (Kit *k)
{
  kit_check_random (k, (GmRandomGraph){ 0 }, GM_RANDOM_WILD);
}

void
kit_numeric_strided (Kit *k)
{
  kit_check_random (k, (GmRandomGraph){ .strided = true, .no_empty = true }, GM_RANDOM_TAME);
}

/* Runs each graph twice: buffers end where a page ends, then they begin where a page begins. */
void
kit_numeric_bounds (Kit *k)
{
  GmRandomGraph o = { .strided = true, .wide = true };
  uint32_t n = k->n_graphs;
  k->n_graphs = (n + 1) / 2;
  kit_check_random (k, o, GM_RANDOM_TAME);
  k->left = true;
  kit_check_random (k, o, GM_RANDOM_TAME);
}

void
kit_numeric_all_written (Kit *k)
{
  kit_check_random (k, (GmRandomGraph){ .n_nodes = 6 }, GM_RANDOM_TAME);
}

void
kit_numeric_read_only (Kit *k)
{
  kit_check_random (k, (GmRandomGraph){ .n_nodes = 3, .no_empty = true }, GM_RANDOM_TAME);
}

void
kit_numeric_random (Kit *k)
{
  k->n_graphs *= g_strv_length (k->manifest->needs) ? 1 : 5;
  kit_check_random (k, (GmRandomGraph){ .strided = k->first_seed % 2 }, GM_RANDOM_WILD);
}

void
kit_numeric_repeat (Kit *k)
{
  static const uint32_t threads[] = { 1, 2, 8 };
  kit_open (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 300, 70);
  GmTensor **in = kit_inputs (g, 9, GM_RANDOM_TAME),
           **first = g_new0 (GmTensor *, g->outputs->len + 1);
  for (size_t t = 0; t < G_N_ELEMENTS (threads); t++) {
    k->max_threads = threads[t];
    GrammeExecutable *e = kit_compile (k, g, NULL);
    for (int i = 0; i < 34; i++) {
      g_autofree GmTensor **made = g_new0 (GmTensor *, g->outputs->len + 1);
      kit_run (k, e, GRAMME_FORWARD, g, in, NULL, made);
      for (uint32_t o = 0; o < g->outputs->len; o++) {
        g_autofree char *why = NULL;
        if (!first[o])
          first[o] = gm_tensor_ref (made[o]);
        if (!gm_random_equal (first[o], made[o], true, &why))
          kit_fail (k, NULL,
                    "run %d with max_threads=%u gives other bits than the first: output %u, %s", i,
                    threads[t], o, why);
        gm_tensor_unref (made[o]);
      }
    }
    kit_destroy (k, e);
  }
  kit_free_tensors (first, g->outputs->len);
  kit_free_tensors (in, g->inputs->len);
  kit_close (k);
}

/* -- Gradients --------------------------------------------------------------------------------- */

/* Returns a graph with those outputs that a back end computes; shares all else with g. The caller
 * frees *outputs. */
static GmGraph
inner (const GmGraph *g, GArray **outputs)
{
  GmGraph i = *g;
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  i.owns_arena = false;
  i.outputs = *outputs = g_array_new (FALSE, FALSE, sizeof (GmGraphOutput));
  for (uint32_t n = 0; n < g->outputs->len; n++) {
    GmGraphOutput o = g_array_index (g->outputs, GmGraphOutput, n);
    if (gm_graph_value (g, o.value)->node != GM_NO_ID
        && g_hash_table_add (seen, GUINT_TO_POINTER (o.value + 1)))
      g_array_append_val (i.outputs, o);
  }
  return i;
}

/* Runs the host's stages on forward and backward; returns the compilation. */
static GmCompile *
differentiate (Kit *k, GmGraph *g)
{
  g_autoptr (GError) error = NULL;
  GmCompile *c = gm_compile_new ();
  c->ask.differentiate = true;
  gm_compile_set_graph (c, g);
  if (!gm_compile_run (c, 's', 'p', &error)) {
    gm_compile_free (c);
    return NULL;
  }
  return c;
}

static GmTensor **
backward_inputs (const GmCompile *c, GmTensor *const *in, GmTensor *const *forward, uint64_t seed)
{
  const GmParts *p = &c->partition;
  uint32_t n = p->backward->inputs->len;
  GmTensor **out = g_new0 (GmTensor *, n + 1);
  g_autofree GmTensor **made = g_new0 (GmTensor *, n + 1);
  gm_random_inputs (p->backward, seed, GM_RANDOM_TAME, made); /* values for the tangents */
  for (uint32_t i = 0; i < n; i++) {
    const GmTensor *saved = NULL;
    if (i < p->n_saved)
      saved = p->saved[i].is_input ? in[p->saved[i].index] : forward[p->saved[i].index];
    out[i] = gm_tensor_ref (saved ? (GmTensor *) saved : made[i]);
    gm_tensor_unref (made[i]);
  }
  return out;
}

/* Makes one request with forward and backward, if the plugin takes all of it in one cluster; else
 * checks each in regions. True if it was one request. */
static bool
check_both (Kit *k, const GmCompile *c, GmTensor *const *in, uint64_t seed)
{
  GArray *outputs[2];
  GmGraph f = inner (c->partition.forward, &outputs[0]),
          b = inner (c->partition.backward, &outputs[1]);
  GmTensor **all = kit_interpret (k, c->partition.forward, in),
           **back = backward_inputs (c, in, all, seed);
  bool whole = f.outputs->len && b.outputs->len && f.nodes->len && b.nodes->len
               && kit_takes_all (k, &f) && kit_takes_all (k, &b);
  if (whole) {
    GmTensor **want = kit_interpret (k, &f, in), **grads = kit_interpret (k, &b, back);
    GrammeExecutable *e = kit_compile (k, &f, &b);
    for (int i = 0; i < 2; i++) {
      kit_run (k, e, GRAMME_FORWARD, &f, in, want, NULL);
      kit_run (k, e, GRAMME_BACKWARD, &b, back, grads, NULL);
    }
    kit_destroy (k, e);
    kit_free_tensors (want, f.outputs->len);
    kit_free_tensors (grads, b.outputs->len);
  } else {
    if (f.outputs->len)
      kit_check_graph (k, &f, in);
    if (b.outputs->len)
      kit_check_graph (k, &b, back);
  }
  kit_free_tensors (all, c->partition.forward->outputs->len);
  kit_free_tensors (back, c->partition.backward->inputs->len);
  g_array_unref (outputs[0]);
  g_array_unref (outputs[1]);
  return whole;
}

void
kit_numeric_gradients (Kit *k)
{
  static const char *const texts[] = {
    /* graphs that the simplest plugins take as a whole */
    "plain (%x: f32[3, 4] requires_grad, %y: f32[3, 4] requires_grad) -> (%1) {\n %0 = mul %x %y\n "
    "%1 = add %0 %x\n}",
    "chain (%x: f32[7] requires_grad, %y: f32[7] requires_grad) -> (%2) {\n %0 = mul %x %y\n %1 = "
    "mul %0 %x\n %2 = add %1 %y\n}",
  };
  uint32_t whole = 0;
  if (!kit_has_flag (k, "backward"))
    kit_skip (k, "its manifest does not have the flag `backward`");
  kit_open (k);
  kit_learn (k);
  for (uint32_t i = 0; i < k->n_graphs + G_N_ELEMENTS (texts); i++) {
    uint64_t seed = k->first_seed;
    GmRandomGraph o = { .n_nodes = 8, .grad = true, .no_empty = true };
    GmGraph *g = i < G_N_ELEMENTS (texts)
                     ? kit_text_graph (k, texts[i])
                     : kit_random_graph (k, i - G_N_ELEMENTS (texts), o, &seed);
    GmTensor **in = kit_inputs (g, seed, GM_RANDOM_TAME);
    uint32_t n_in = g->inputs->len;
    g_autoptr (GmCompile) c = differentiate (k, g);
    if (c && c->partition.forward && c->partition.backward
        && c->partition.forward->inputs->len == n_in)
      whole += check_both (k, c, in, seed);
    kit_free_tensors (in, n_in);
  }
  kit_note (k, "%u requests with a backward", whole);
  kit_close (k);
}

/* Compares f (x + h) - f (x - h) with the gradient of the plugin's backward, all computed by the
 * plugin. */
void
kit_numeric_differences (Kit *k)
{
  static const char text[] = "smooth (%x: f64[5] requires_grad, %y: f64[5]) -> (%2) {\n %0 = mul "
                             "%x %y\n %1 = mul %0 %x\n %2 = add %1 %x\n}";
  if (!kit_has_flag (k, "backward"))
    kit_skip (k, "its manifest does not have the flag `backward`");
  kit_open (k);
  g_autoptr (GmCompile) c = differentiate (k, kit_text_graph (k, text));
  if (!c || !c->partition.backward)
    kit_skip (k, "there is no backward");
  const GmParts *p = &c->partition;
  GArray *outputs[2];
  GmGraph f = inner (p->forward, &outputs[0]), b = inner (p->backward, &outputs[1]);
  if (!kit_takes_all (k, &f) || !kit_takes_all (k, &b) || p->sources[0].is_input)
    kit_skip (k, "it does not take f64 multiplication and addition");
  GmTensor **in = kit_inputs (&f, 3, GM_RANDOM_TAME), **all = kit_interpret (k, p->forward, in);
  GmTensor **back = backward_inputs (c, in, all, 4),
           **grads = g_new0 (GmTensor *, b.outputs->len + 1);
  GmTensor *tangent = back[p->n_saved];
  for (int64_t i = 0; i < 5; i++)
    gm_tensor_set (tangent, &i, gm_scalar_float (1));
  GrammeExecutable *e = kit_compile (k, &f, &b);
  kit_run (k, e, GRAMME_BACKWARD, &b, back, NULL, grads);
  const double h = 1e-5;
  for (int64_t i = 0; i < 5; i++) {
    double f_of[2], x = gm_scalar_as_double (gm_tensor_get (in[0], &i));
    for (int s = 0; s < 2; s++) {
      GmTensor **made = g_new0 (GmTensor *, f.outputs->len + 1);
      gm_tensor_set (in[0], &i, gm_scalar_float (s ? x + h : x - h));
      kit_run (k, e, GRAMME_FORWARD, &f, in, NULL, made);
      f_of[s] = gm_scalar_as_double (gm_tensor_get (made[0], &i));
      kit_free_tensors (made, f.outputs->len);
    }
    gm_tensor_set (in[0], &i, gm_scalar_float (x));
    double want = (f_of[1] - f_of[0]) / (2 * h),
           got = gm_scalar_as_double (gm_tensor_get (grads[p->sources[0].index], &i));
    if (fabs (want - got) > 1e-5 * (1 + fabs (want)))
      kit_fail (k, NULL, "gradient %d is %.9g, the difference of its own forward %.9g", (int) i,
                got, want);
  }
  kit_destroy (k, e);
  kit_close (k);
}
