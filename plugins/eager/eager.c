/* SPDX-License-Identifier: Apache-2.0
 * eager.c -- the back end "eager": the host's kernels, one node after the other, over places that
 * were planned at compile time.
 *
 * Other back ends are compared with it, and a new op runs on it first, since it supports all that
 * the host's kernels do.  Compared with running the program eagerly it saves the allocation of
 * intermediate values, the copies that views do not need, and all decisions made per call in
 * Python.
 */
#include <gramme-ext-draft.h>

#include <stdlib.h>
#include <string.h>

#include "plugins/eager/eager_plan.h"

struct GrammeBackend {
  const GrammeHost *host;
  const GrammeKernels *kernels;
};

struct GrammeExecutable {
  const GrammeBackend *backend;
  Plan plans[2]; /* by role */
};

/* -- Life -------------------------------------------------------------------------------------- */

static int32_t
eager_open (const GrammeHost *host, const GrammeOption *options, uint32_t n_options,
            GrammeBackend **out, GrammeStatus *status)
{
  (void) options;
  (void) n_options; /* the manifest lists no options, so the host passes none */
  const GrammeKernels *kernels =
      (const GrammeKernels *) host->get_extension (host->ctx, GRAMME_KERNELS_ID);
  if (!kernels)
    return gramme_fail (status, GRAMME_INCOMPATIBLE, -1, "this host has no %s", GRAMME_KERNELS_ID);
  GrammeBackend *b = malloc (sizeof *b);
  if (!b)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to open");
  *b = (GrammeBackend){ host, kernels };
  *out = b;
  return GRAMME_OK;
}

static void
eager_close (GrammeBackend *b)
{
  free (b);
}

/* -- Support ----------------------------------------------------------------------------------- */

static int32_t
eager_get_support (GrammeBackend *b, const GrammeImage *image, GrammeVerdict *verdicts,
                   uint32_t stride, GrammeStatus *status)
{
  (void) b;
  (void) status;
  gramme_kernels_support (image, verdicts, stride);
  return GRAMME_OK;
}

/* -- Compile ----------------------------------------------------------------------------------- */

static void
eager_destroy (GrammeExecutable *e)
{
  for (int role = 0; role < 2; role++)
    plan_clear (&e->plans[role], e->backend->host, e->backend->kernels);
  free (e);
}

static int32_t
eager_compile (GrammeBackend *b, const GrammeCompileRequest *request, GrammeExecutable **out,
               GrammeStatus *status)
{
  if (gramme_request_newer_flags (request))
    return gramme_fail (status, GRAMME_UNSUPPORTED, -1, "request flags %#x are newer than eager",
                        gramme_request_newer_flags (request));
  GrammeExecutable *e = calloc (1, sizeof *e);
  if (!e)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to compile");
  e->backend = b;
  int32_t code = plan_make (&e->plans[GRAMME_FORWARD], b->host, b->kernels, request->forward,
                            request->constants, status);
  if (code == GRAMME_OK && request->backward)
    code = plan_make (&e->plans[GRAMME_BACKWARD], b->host, b->kernels, request->backward,
                      request->constants + request->n_forward_constants, status);
  if (code != GRAMME_OK) {
    eager_destroy (e);
    return code;
  }
  *out = e;
  return GRAMME_OK;
}

static int32_t
eager_exec_info (GrammeExecutable *e, GrammeExecInfo *out, GrammeStatus *status)
{
  (void) status;
  if (GRAMME_HAS (out, GrammeExecInfo, constant_bytes))
    out->constant_bytes = e->plans[0].constant_bytes + e->plans[1].constant_bytes;
  return GRAMME_OK;
}

/* -- Run --------------------------------------------------------------------------------------- */

/* Returns in *bytes the size of the workspace: the temporaries, then the table of bases, then the
 * addresses of all operands. */
static int32_t
eager_workspace (GrammeExecutable *e, uint32_t role, const int64_t *sizes, uint64_t *bytes,
                 GrammeStatus *status)
{
  (void) sizes;
  (void) status;
  const Plan *p = &e->plans[role];
  *bytes = p->temporary_bytes + ((uint64_t) PLAN_BASES (p) + p->n_operands) * sizeof (void *);
  return GRAMME_OK;
}

static int32_t
eager_run (GrammeExecutable *e, const GrammeRunArgs *args, GrammeStatus *status)
{
  const Plan *p = &e->plans[args->role];
  uintptr_t *bases = (uintptr_t *) (void *) ((char *) args->workspace + p->temporary_bytes);
  void **data = (void **) (bases + PLAN_BASES (p));
  for (uint32_t i = 0; i < p->n_in; i++)
    bases[i] = (uintptr_t) gramme_tensor_address (&args->inputs[i]);
  for (uint32_t i = 0; i < p->n_out; i++)
    bases[p->n_in + i] = (uintptr_t) gramme_tensor_address (&args->outputs[i]);
  bases[PLAN_WORKSPACE (p)] = (uintptr_t) args->workspace;
  bases[PLAN_CONSTANTS (p)] = (uintptr_t) p->constants;
  for (uint32_t i = 0; i < p->n_operands; i++)
    data[i] = (void *) (bases[p->operands[i].base] + (uintptr_t) p->operands[i].offset);

  const GrammeKernels *kernels = e->backend->kernels;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    int32_t code = kernels->run (p->steps[i].kernel, data + p->steps[i].first_operand, status);
    if (code != GRAMME_OK) {
      if (status && p->steps[i].node != GRAMME_NONE)
        status->node = (int32_t) p->steps[i].node;
      return code;
    }
  }
  return GRAMME_OK;
}

static int32_t
eager_may_share (GrammeExecutable *e, uint32_t role, uint32_t input, uint32_t output)
{
  return plan_may_share (&e->plans[role], input, output);
}

static const void *
eager_get_extension (GrammeBackend *b, const char *id)
{
  static const GrammeDonation donation = { .struct_size = sizeof donation,
                                           .may_share = eager_may_share };
  (void) b;
  return strcmp (id, GRAMME_DONATION_ID) == 0 ? &donation : NULL;
}

static const GrammeBackendApi api = {
  .struct_size = sizeof (GrammeBackendApi),
  .open = eager_open,
  .close = eager_close,
  .get_support = eager_get_support,
  .compile = eager_compile,
  .exec_info = eager_exec_info,
  .workspace = eager_workspace,
  .run = eager_run,
  .destroy = eager_destroy,
  .get_extension = eager_get_extension,
};

GRAMME_PLUGIN_DEFINE (api, "id=org.gramme.eager\n"
                           "name=eager\n"
                           "version=0.1.0\n"
                           "license=Apache-2.0\n"
                           "rank=10\n"
                           "bit-exact=true\n"
                           "devices=cpu;\n"
                           "dtypes=b1;u8;i8;i16;i32;i64;f8e4m3;f8e5m2;f16;bf16;f32;f64;\n"
                           "flags=backward;run-concurrent;\n");
