/* SPDX-License-Identifier: Apache-2.0
 * train.c -- trains a two-layer classifier in C, without Python:  ./train [BACKEND]
 *
 * The graph is built by hand, one operator at a time, up to the loss.  gramme differentiates
 * it, the back end named on the command line compiles forward and backward, and the loop below
 * does plain gradient descent on points around three circles. Prints the loss, and at the end a
 * hash of the weights: all back ends on the CPU give the same bits, hence the same hash.  Exit
 * status 1 if something failed or the loss did not fall.
 */
#include <gramme.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 96, FEATURES = 2, HIDDEN = 16, CLASSES = 3, STEPS = 200, N_WEIGHTS = 4 };

static const double learning_rate = 0.5;

/* -- The graph --------------------------------------------------------------------------------- */

typedef struct {
  GrammeGraph *g;
  GError *error; /* the first; after it every call does nothing */
} Program;

static GrammeValueId
input (Program *p, const char *name, int ndim, const int64_t *sizes, gboolean requires_grad)
{
  if (p->error)
    return GRAMME_NO_VALUE;
  return gramme_graph_add_input (p->g, name, "f32", ndim, sizes, requires_grad, &p->error);
}

static GrammeValueId
op1 (Program *p, const char *op, GrammeValueId a, const char *attributes)
{
  return p->error ? GRAMME_NO_VALUE : gramme_graph_add_op (p->g, op, &a, 1, attributes, &p->error);
}

static GrammeValueId
op2 (Program *p, const char *op, GrammeValueId a, GrammeValueId b)
{
  GrammeValueId in[2] = { a, b };

  return p->error ? GRAMME_NO_VALUE : gramme_graph_add_op (p->g, op, in, 2, NULL, &p->error);
}

static GrammeValueId
number (Program *p, const char *attributes)
{
  return p->error ? GRAMME_NO_VALUE
                  : gramme_graph_add_op (p->g, "full", NULL, 0, attributes, &p->error);
}

/* Inputs: points, one-hot labels, w1, b1, w2, b2.  Output: the mean cross-entropy. */
static GrammeGraph *
build (GError **error)
{
  Program p = { gramme_graph_new ("train"), NULL };
  GrammeValueId x = input (&p, "x", 2, (int64_t[]){ N, FEATURES }, FALSE);
  GrammeValueId labels = input (&p, "labels", 2, (int64_t[]){ N, CLASSES }, FALSE);
  GrammeValueId w1 = input (&p, "w1", 2, (int64_t[]){ FEATURES, HIDDEN }, TRUE);
  GrammeValueId b1 = input (&p, "b1", 1, (int64_t[]){ HIDDEN }, TRUE);
  GrammeValueId w2 = input (&p, "w2", 2, (int64_t[]){ HIDDEN, CLASSES }, TRUE);
  GrammeValueId b2 = input (&p, "b2", 1, (int64_t[]){ CLASSES }, TRUE);

  GrammeValueId hidden = op1 (&p, "tanh", op2 (&p, "add", op2 (&p, "matmul", x, w1), b1), NULL);
  GrammeValueId logits = op2 (&p, "add", op2 (&p, "matmul", hidden, w2), b2);

  /* log_softmax (logits) = z - log (sum (exp (z))), z = logits less the largest of each row */
  GrammeValueId largest =
      op1 (&p, "detach", op1 (&p, "amax", logits, "dims=[1] keepdim=true"), NULL);
  GrammeValueId z = op2 (&p, "sub", logits, largest);
  GrammeValueId total = op1 (&p, "sum", op1 (&p, "exp", z, NULL), "dims=[1] keepdim=true");
  GrammeValueId log_p = op2 (&p, "sub", z, op1 (&p, "log", total, NULL));
  GrammeValueId picked =
      op1 (&p, "sum", op2 (&p, "mul", log_p, labels), "dims=[0, 1] keepdim=false");
  GrammeValueId loss =
      op2 (&p, "div", op1 (&p, "neg", picked, NULL), number (&p, "sizes=[] dtype=f32 value=96.0"));

  if (!p.error)
    gramme_graph_add_output (p.g, loss, &p.error);
  if (p.error) {
    g_propagate_error (error, p.error);
    gramme_graph_free (p.g);
    return NULL;
  }
  return p.g;
}

/* -- Data and weights -------------------------------------------------------------------------- */

/* A small generator of its own, so that every machine trains on the same numbers: in [-1, 1). */
static float
next_number (uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return (float) (*state >> 8) / (float) (1 << 23) - 1.0f;
}

static void
fill_data (float *points, float *labels)
{
  uint32_t state = 7;

  for (int i = 0; i < N; i++) {
    int class = i % CLASSES;
    float angle = 3.14159265f * next_number (&state);
    float radius = 0.5f + (float) class + 0.1f * next_number (&state);

    points[i * FEATURES] = radius * cosf (angle);
    points[i * FEATURES + 1] = radius * sinf (angle);
    labels[i * CLASSES + class] = 1;
  }
}

static void
fill_weights (GrammeTensorObject *const *weights)
{
  const int counts[N_WEIGHTS] = { FEATURES * HIDDEN, HIDDEN, HIDDEN * CLASSES, CLASSES };
  uint32_t state = 42;

  for (int k = 0; k < N_WEIGHTS; k++) {
    float *w = gramme_tensor_data (weights[k]);
    for (int i = 0; i < counts[k]; i++)
      w[i] = k % 2 == 0 ? next_number (&state) : 0.0f;
  }
}

static size_t
count (const GrammeTensorObject *t)
{
  size_t n = 1;

  for (int i = 0; i < gramme_tensor_ndim (t); i++)
    n *= (size_t) gramme_tensor_sizes (t)[i];
  return n;
}

/* FNV-1a over the bytes of all weights. */
static uint64_t
hash_weights (GrammeTensorObject *const *weights)
{
  uint64_t h = 0xcbf29ce484222325u;

  for (int k = 0; k < N_WEIGHTS; k++) {
    const unsigned char *bytes = gramme_tensor_data (weights[k]);
    for (size_t i = 0; i < count (weights[k]) * sizeof (float); i++)
      h = (h ^ bytes[i]) * 0x100000001b3u;
  }
  return h;
}

/* -- Training ---------------------------------------------------------------------------------- */

/* One step of gradient descent: all inputs in, the loss out. */
static gboolean
train_step (GrammeFunction *f, GrammeTensorObject *const *in, float *loss, GError **error)
{
  GrammeTensorObject *const *weights = in + 2;
  GrammeTensorObject *out, *gradients[N_WEIGHTS];

  if (!gramme_function_run (f, in, 2 + N_WEIGHTS, &out, 1, error))
    return FALSE;
  *loss = *(float *) gramme_tensor_data (out);
  gboolean ok = gramme_function_backward (&out, NULL, 1, weights, gradients, N_WEIGHTS, error);
  gramme_tensor_unref (out);
  if (!ok)
    return FALSE;
  for (int k = 0; k < N_WEIGHTS; k++) {
    float *w = gramme_tensor_data (weights[k]);
    const float *g = gramme_tensor_data (gradients[k]); /* laid out as the weight is */
    for (size_t i = 0; i < count (weights[k]); i++)
      w[i] -= (float) learning_rate * g[i];
    gramme_tensor_unref (gradients[k]);
  }
  return TRUE;
}

static gboolean
make_inputs (GrammeTensorObject **in, GError **error)
{
  const int64_t sizes[2 + N_WEIGHTS][2] = { { N, FEATURES },      { N, CLASSES },
                                            { FEATURES, HIDDEN }, { HIDDEN },
                                            { HIDDEN, CLASSES },  { CLASSES } };
  const int ndims[2 + N_WEIGHTS] = { 2, 2, 2, 1, 2, 1 };

  for (int i = 0; i < 2 + N_WEIGHTS; i++) {
    in[i] = gramme_tensor_new ("f32", ndims[i], sizes[i], error);
    if (!in[i] || (i >= 2 && !gramme_tensor_set_requires_grad (in[i], TRUE, error)))
      return FALSE;
  }
  fill_data (gramme_tensor_data (in[0]), gramme_tensor_data (in[1]));
  fill_weights (in + 2);
  return TRUE;
}

int
main (int argc, char **argv)
{
  const char *backend = argc > 1 ? argv[1] : "eager";
  g_autoptr (GError) error = NULL;
  g_autoptr (GrammeGraph) g = build (&error);
  g_autoptr (GrammeFunction) f = g ? gramme_compile (g, backend, NULL, TRUE, &error) : NULL;
  GrammeTensorObject *in[2 + N_WEIGHTS] = { NULL };
  gboolean ok = f && make_inputs (in, &error);
  float first = 0, loss = 0;

  for (int step = 0; ok && step < STEPS; step++) {
    ok = train_step (f, in, &loss, &error);
    if (step == 0)
      first = loss;
    if (ok && (step % 40 == 0 || step == STEPS - 1))
      printf ("step %3d  loss %.6f\n", step, loss);
  }
  if (ok)
    printf ("back end %s, compiled in %.3f ms, weights %016" G_GINT64_MODIFIER "x\n", backend,
            gramme_function_compile_ms (f), hash_weights (in + 2));
  for (int i = 0; i < 2 + N_WEIGHTS; i++)
    gramme_tensor_unref (in[i]);
  if (!ok)
    fprintf (stderr, "train: %s\n", error->message);
  else if (!(loss < 0.5f * first))
    fprintf (stderr, "train: the loss did not fall: %g, then %g\n", (double) first, (double) loss);
  return ok && loss < 0.5f * first ? EXIT_SUCCESS : EXIT_FAILURE;
}
