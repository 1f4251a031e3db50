/* SPDX-License-Identifier: Apache-2.0
 * tcc.c -- the back end "tcc": a C driver over the host's tiles, compiled in memory in a fraction
 * of a millisecond.
 *
 * Pointwise chains and reductions run fused, through tiles that stay in the first-level cache;
 * other ops (matrix products, gathers, random numbers) are the host's own kernels.  The arithmetic
 * is the host's in both cases, so the bits are eager's.
 */
#include "plugins/codegen/call.h"
#include "plugins/tcc/jit.h"

#include <gramme-ext-draft.h>

#include <stdlib.h>
#include <string.h>

struct GrammeBackend {
  const GrammeHost *host;
  const GrammeTiles *tiles;
  const GrammeKernels *kernels;
  const GrammeThreads *threads; /* may be NULL */
};

typedef struct {
  CgProgram program; /* the code uses its constants */
  CgText text;       /* its fills and kernels are used, too; the text itself is freed */
  TccCode code;
} Role;

struct GrammeExecutable {
  const GrammeBackend *backend;
  Role roles[2];
};

/* -- Life -------------------------------------------------------------------------------------- */

static int32_t
tcc_open (const GrammeHost *host, const GrammeOption *options, uint32_t n_options,
          GrammeBackend **out, GrammeStatus *status)
{
  (void) options;
  (void) n_options; /* the manifest lists no options, so the host passes none */
  const GrammeTiles *tiles = host->get_extension (host->ctx, GRAMME_TILES_ID);
  const GrammeKernels *kernels = host->get_extension (host->ctx, GRAMME_KERNELS_ID);
  if (!tiles || !kernels)
    return gramme_fail (status, GRAMME_INCOMPATIBLE, -1, "this host has no %s",
                        tiles ? GRAMME_KERNELS_ID : GRAMME_TILES_ID);
  GrammeBackend *b = malloc (sizeof *b);
  if (!b)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to open");
  *b = (GrammeBackend){ host, tiles, kernels, host->get_extension (host->ctx, GRAMME_THREADS_ID) };
  *out = b;
  return GRAMME_OK;
}

static void
tcc_close (GrammeBackend *b)
{
  free (b);
}

static int32_t
tcc_get_support (GrammeBackend *b, const GrammeImage *image, GrammeVerdict *verdicts,
                 uint32_t stride, GrammeStatus *status)
{
  (void) b;
  (void) status;
  gramme_kernels_support_sized (image, verdicts, stride);
  return GRAMME_OK;
}

/* -- Compile ----------------------------------------------------------------------------------- */

static void
clear_role (Role *r, const GrammeKernels *kernels)
{
  tcc_jit_free (&r->code);
  codegen_text_free (&r->text, kernels);
  codegen_free (&r->program);
}

static void
tcc_destroy (GrammeExecutable *e)
{
  for (int role = 0; role < 2; role++)
    clear_role (&e->roles[role], e->backend->kernels);
  free (e);
}

static int32_t
compile_role (const GrammeBackend *b, Role *r, const char *name, const GrammeImage *image,
              const GrammeTensor *constants, void *job, GrammeStatus *status)
{
  const GrammeHost *host = b->host;
  int32_t code = codegen_build (&r->program, image, constants, b->tiles, b->kernels, status);
  r->program.threads = b->threads;
  if (code == GRAMME_OK)
    code = codegen_print_c (&r->program, name, "", NULL, false, &r->text, status);
  if (code != GRAMME_OK)
    return code;
  if (host->log_enabled (host->ctx, GRAMME_LOG_INFO, "output_code"))
    host->log (host->ctx, GRAMME_LOG_INFO, "output_code", r->text.text, r->text.len);
  code = tcc_jit (&r->code, &r->text, name, host, job, status);
  /* The compile's own pointers are not valid any more. */
  r->program.image = NULL;
  r->program.constants = NULL;
  free (r->text.text);
  r->text.text = NULL;
  return code;
}

static int32_t
tcc_compile (GrammeBackend *b, const GrammeCompileRequest *request, GrammeExecutable **out,
             GrammeStatus *status)
{
  if (gramme_request_newer_flags (request))
    return gramme_fail (status, GRAMME_UNSUPPORTED, -1, "request flags %#x are newer than tcc",
                        gramme_request_newer_flags (request));
  GrammeExecutable *e = calloc (1, sizeof *e);
  if (!e)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to compile");
  e->backend = b;
  int32_t code = compile_role (b, &e->roles[GRAMME_FORWARD], "forward", request->forward,
                               request->constants, request->job, status);
  if (code == GRAMME_OK && request->backward)
    code = compile_role (b, &e->roles[GRAMME_BACKWARD], "backward", request->backward,
                         request->constants + request->n_forward_constants, request->job, status);
  if (code != GRAMME_OK) {
    tcc_destroy (e);
    return code;
  }
  *out = e;
  return GRAMME_OK;
}

static int32_t
tcc_exec_info (GrammeExecutable *e, GrammeExecInfo *out, GrammeStatus *status)
{
  (void) status;
  codegen_describe (out, e->roles[0].code.bytes + e->roles[1].code.bytes, &e->roles[0].program,
                    &e->roles[1].program);
  return GRAMME_OK;
}

/* -- Run --------------------------------------------------------------------------------------- */

static int32_t
tcc_workspace (GrammeExecutable *e, uint32_t role, const int64_t *sizes, uint64_t *bytes,
               GrammeStatus *status)
{
  return codegen_workspace (&e->roles[role].program, &e->roles[role].text, sizes, bytes, status);
}

static int32_t
tcc_run (GrammeExecutable *e, const GrammeRunArgs *args, GrammeStatus *status)
{
  return codegen_call ((CgEntry) e->roles[args->role].code.entry, args, status);
}

static int32_t
tcc_may_share (GrammeExecutable *e, uint32_t role, uint32_t input, uint32_t output)
{
  return codegen_may_share (&e->roles[role].program, input, output);
}

static const void *
tcc_get_extension (GrammeBackend *b, const char *id)
{
  static const GrammeDonation donation = { .struct_size = sizeof donation,
                                           .may_share = tcc_may_share };
  (void) b;
  return strcmp (id, GRAMME_DONATION_ID) == 0 ? &donation : NULL;
}

static const GrammeBackendApi api = {
  .struct_size = sizeof (GrammeBackendApi),
  .open = tcc_open,
  .close = tcc_close,
  .get_support = tcc_get_support,
  .compile = tcc_compile,
  .exec_info = tcc_exec_info,
  .workspace = tcc_workspace,
  .run = tcc_run,
  .destroy = tcc_destroy,
  .get_extension = tcc_get_extension,
};

GRAMME_PLUGIN_DEFINE (api,
                      "id=org.gramme.tcc\n"
                      "name=tcc\n"
                      "version=0.1.0\n"
                      "license=Apache-2.0 AND LGPL-2.1-or-later\n"
                      "summary=fused drivers over the host's tiles, compiled in memory by libtcc\n"
                      "rank=200\n"
                      "bit-exact=true\n"
                      "devices=cpu;\n"
                      "dtypes=b1;u8;i8;i16;i32;i64;f8e4m3;f8e5m2;f16;bf16;f32;f64;\n"
                      "flags=backward;run-concurrent;compile-serial;\n");
