/* SPDX-License-Identifier: Apache-2.0
 * trial.c -- see trial.h.  This does not test a back end, which gramme check-plugin does: it keeps
 * a plugin that writes out of bounds out of a host's memory.
 */
#include "core/run/trial.h"

#include <math.h>
#include <string.h>

#include "core/run/request.h"
#include "core/plugin/status.h"
#include "core/run/support.h"

#define ZONE 256 /* bytes on each side of a buffer and of the workspace */
#define PATTERN 0xa7
#define N_ELEMS 6
#define TOLERANCE 1e-3f /* tolerance for a plugin that does not promise equal bits */

/* The graphs to try, from most to fewest ops: the first graph that the plugin supports as a whole
 * is run. */
static const char *const graphs[] = {
  "trial (%x: f32[2, 3], %y: f32[2, 3]) -> (%2) {\n %0 = mul %x %y\n %1 = add %0 %x\n %2 = neg "
  "%1\n}",
  "trial (%x: f32[2, 3], %y: f32[2, 3]) -> (%0) {\n %0 = add %x %y\n}",
  "trial (%x: f32[2, 3], %y: f32[2, 3]) -> (%0) {\n %0 = mul %x %y\n}",
  "trial (%x: f32[2, 3], %y: f32[2, 3]) -> (%0) {\n %0 = neg %x\n}",
  "trial (%x: f32[2, 3], %y: f32[2, 3]) -> (%0) {\n %0 = exp %y\n}",
};
static const float numbers[2][N_ELEMS] = { { 1, -2, 0.5f, 3, -0.25f, 7 },
                                           { 2, 3, -4, 0.125f, 1, -1 } };

/* A buffer between two zones that must stay unchanged. */
typedef struct {
  char *block;
  size_t bytes;
} Zoned;

static Zoned
zoned_new (size_t bytes)
{
  Zoned z = { g_malloc (bytes + 2 * ZONE), bytes };
  memset (z.block, PATTERN, bytes + 2 * ZONE);
  return z;
}

static bool
zoned_check (const Zoned *z, const char *what, GmRefused *why)
{
  for (size_t i = 0; i < ZONE; i++)
    if ((unsigned char) z->block[i] != PATTERN
        || (unsigned char) z->block[ZONE + z->bytes + i] != PATTERN)
      return gm_refuse (why, GM_REFUSAL_OVERRUN, "%s of %zu bytes, in a first run", what, z->bytes);
  return true;
}

static GrammeTensor
tensor (const Zoned *z, int64_t *shape, int64_t *strides)
{
  return (GrammeTensor){ .data = z->block + ZONE,
                         .device_type = 1,
                         .ndim = 2,
                         .dtype_code = 2,
                         .dtype_bits = 32,
                         .dtype_lanes = 1,
                         .shape = shape,
                         .strides = strides };
}

static bool
is_near (const float *got, const float *want, bool exact, GmRefused *why)
{
  for (int i = 0; i < N_ELEMS; i++)
    if (exact ? memcmp (&got[i], &want[i], sizeof *got) != 0
              : !(fabsf (got[i] - want[i]) <= TOLERANCE * (1 + fabsf (want[i]))))
      return gm_refuse (why, GM_REFUSAL_WRONG, "element %d is %.9g, eager has %.9g", i,
                        (double) got[i], (double) want[i]);
  return true;
}

static void
reference (const GmGraph *g, float out[N_ELEMS])
{
  GmMeta m = gm_meta_make (GM_F32, 2, (const int64_t[]){ 2, 3 });
  GmTensor *in[2], *made = NULL;
  for (int i = 0; i < 2; i++) {
    in[i] = gm_tensor_new (&m, NULL);
    memcpy (gm_tensor_data (in[i]), numbers[i], sizeof numbers[i]);
  }
  gm_graph_interpret (g, in, &made, NULL);
  memcpy (out, gm_tensor_data (made), N_ELEMS * sizeof *out);
  gm_tensor_unref (made);
  gm_tensor_unref (in[0]);
  gm_tensor_unref (in[1]);
}

static bool
run (const GmBackend *b, GrammeExecutable *e, const GmGraph *g, size_t workspace_bytes,
     GmRefused *why)
{
  int64_t shape[2] = { 2, 3 }, strides[2] = { 3, 1 };
  float want[N_ELEMS];
  Zoned in[2], out = zoned_new (sizeof want), workspace = zoned_new (workspace_bytes);
  for (int i = 0; i < 2; i++) {
    in[i] = zoned_new (sizeof want);
    memcpy (in[i].block + ZONE, numbers[i], sizeof want);
  }
  GrammeTensor inputs[2] = { tensor (&in[0], shape, strides), tensor (&in[1], shape, strides) },
               output = tensor (&out, shape, strides);
  const GrammeRunArgs args = { .struct_size = sizeof args,
                               .inputs = inputs,
                               .outputs = &output,
                               .n_inputs = 2,
                               .n_outputs = 1,
                               .workspace = workspace_bytes ? workspace.block + ZONE : NULL,
                               .workspace_bytes = workspace_bytes };
  GrammeStatus status;
  gm_status_clear (&status);
  reference (g, want);
  int32_t code = b->plugin->api.run (e, &args, &status);
  bool good = zoned_check (&out, "an output", why) && zoned_check (&in[0], "an input", why)
              && zoned_check (&in[1], "an input", why)
              && zoned_check (&workspace, "a workspace", why);
  for (int i = 0; i < 2 && good; i++)
    if (memcmp (in[i].block + ZONE, numbers[i], sizeof want) != 0)
      good = gm_refuse (why, GM_REFUSAL_OVERRUN, "an input, which is read-only, in a first run");
  good = good
         && (code != GRAMME_OK
             || is_near ((const float *) (void *) (out.block + ZONE), want,
                         b->plugin->manifest->bit_exact, why)); /* a failed run is not refused */
  g_free (in[0].block);
  g_free (in[1].block);
  g_free (out.block);
  g_free (workspace.block);
  return good;
}

/* Compiles and runs one graph, and compares the result.  False with a refusal in *why if the plugin
 * misbehaves; false without a refusal if it does not take this graph. */
static bool
try_graph (GmBackend *b, const GmGraph *g, GmRefused *why)
{
  g_auto (GmRequestPart) part = { 0 };
  g_autofree char *said = NULL;
  g_autofree GmVerdict *verdicts = NULL;
  if (!gm_request_part_init (&part, g, NULL))
    return false;
  uint32_t n = part.image->bytes->nodes.count;
  GmSupportCode told =
      gm_support_ask (b->plugin, b->instance, part.image->bytes, gm_op_minor, &verdicts, &said);
  if (told != GM_SUPPORT_TOLD)
    return told == GM_SUPPORT_OVERRUN && gm_refuse (why, GM_REFUSAL_OVERRUN, "%s", said);
  for (uint32_t i = 0; i < n; i++)
    if (!verdicts[i].yes)
      return false;

  GmCompileJob job;
  gm_compile_job_init (&job);
  g_autoptr (GArray) options = g_array_new (FALSE, FALSE, sizeof (GrammeOption));
  const GmRequest q = {
    .backend = b, .parts = { &part }, .options = options, .job = &job, .n_regions = 1
  };
  GrammeExecutable *e = NULL;
  GrammeStatus status;
  size_t workspace_bytes = 0;
  gm_status_clear (&status);
  g_autofree void *image = g_memdup2 (part.image->bytes, part.image->length);
  int32_t code = gm_request_compile (&q, &e, &status);
  if (memcmp (image, part.image->bytes, part.image->length) != 0)
    gm_refuse (why, GM_REFUSAL_OVERRUN, "the graph's image, which is read-only");
  gm_request_part_clear (&part); /* a pointer into it that the plugin kept is invalid now */
  if (code == GRAMME_OK)
    code = gm_request_workspace (b, e, GRAMME_FORWARD, &workspace_bytes, &status);
  bool good = code == GRAMME_OK && workspace_bytes < (size_t) 1 << 28
              && run (b, e, g, workspace_bytes, why);
  if (e)
    b->plugin->api.destroy (e);
  gm_compile_job_clear (&job);
  return good;
}

bool
gm_trial (const GmPlugin *p, GrammeBackend *instance, GmRefused *why)
{
  GmBackend b = { .plugin = p, .instance = instance, .name = p->manifest->name };
  bool done = !g_strv_contains ((const char *const *) p->manifest->devices, "cpu");
  for (unsigned i = 0; i < G_N_ELEMENTS (graphs) && !done && why->code == GM_REFUSAL_NONE; i++) {
    g_autoptr (GPtrArray) parsed = gm_graph_parse (graphs[i], NULL);
    done = try_graph (&b, parsed->pdata[0], why);
  }
  return why->code == GM_REFUSAL_NONE;
}
