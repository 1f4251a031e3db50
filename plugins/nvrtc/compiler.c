/* SPDX-License-Identifier: Apache-2.0
 * compiler.c -- see compiler.h.
 *
 * --fmad=false: no contraction, so that operations are computed as written.  A CUBIN is preferred,
 * since a driver older than the compiler refuses its PTX.
 */
#include "plugins/nvrtc/compiler.h"
#include "plugins/nvrtc/signals.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

int32_t
nv_compiler_arch (const NvCompiler *c, const char *named, int capability, char *out,
                  GrammeStatus *status)
{
  int best = 0, number = 0;
  char list[160] = "", kind[16];
  size_t len = 0;
  for (int i = 0; i < c->n_archs && len < sizeof list; i++) {
    len += (size_t) snprintf (list + len, sizeof list - len, "%s%d", i ? " " : "", c->archs[i]);
    if (c->archs[i] / 10 == capability / 10 && c->archs[i] <= capability && c->archs[i] > best)
      best = c->archs[i];
  }
  if (named && *named) {
    bool known = sscanf (named, "%8[a-z]_%d", kind, &number) == 2
                 && (!strcmp (kind, "sm") || !strcmp (kind, "compute"));
    bool listed = false;
    for (int i = 0; i < c->n_archs; i++)
      listed = listed || c->archs[i] == number;
    if (!known || !listed || strlen (named) > 24)
      return gramme_fail (status, GRAMME_INVALID, -1,
                          "option arch: '%s' is nothing that NVRTC %d.%d compiles for; say sm_N or "
                          "compute_N with N one of %s",
                          named, c->major, c->minor, list);
    snprintf (out, 32, "%s", named);
    return GRAMME_OK;
  }
  if (capability > c->archs[c->n_archs - 1]) {
    /* Newer than the compiler: the driver compiles from PTX. */
    snprintf (out, 32, "compute_%d", c->archs[c->n_archs - 1]);
    return GRAMME_OK;
  }
  if (best == 0)
    return gramme_fail (status, GRAMME_TOOLCHAIN, -1,
                        "the GPU's compute capability is %d.%d, which NVRTC %d.%d does not compile "
                        "for (it knows %s); install an older "
                        "NVRTC",
                        capability / 10, capability % 10, c->major, c->minor, list);
  snprintf (out, 32, "sm_%d", best);
  return GRAMME_OK;
}

static char *
read_log (const NvCompiler *c, void *program)
{
  size_t bytes = 0;
  if (c->nvrtcGetProgramLogSize (program, &bytes) != 0 || bytes < 2)
    return NULL;
  char *log = malloc (bytes + 1);
  if (log && c->nvrtcGetProgramLog (program, log) == 0) {
    log[bytes] = 0;
    return log;
  }
  free (log);
  return NULL;
}

static int32_t
take (int (*size) (void *, size_t *), int (*get) (void *, char *), void *program, char **out,
      size_t *bytes)
{
  *bytes = 0;
  if (size (program, bytes) != 0 || *bytes == 0)
    return GRAMME_OK; /* no PTX */
  *out = malloc (*bytes + 1);
  if (!*out)
    return GRAMME_NO_MEMORY;
  if (get (program, *out) != 0)
    return GRAMME_TOOLCHAIN;
  (*out)[*bytes] = 0;
  return GRAMME_OK;
}

static int32_t
take_image (const NvCompiler *c, void *program, bool keep_ptx, NvImage *out)
{
  size_t ptx_bytes = 0;
  int32_t code = take (c->nvrtcGetCUBINSize, c->nvrtcGetCUBIN, program, &out->image, &out->bytes);
  if (code == GRAMME_OK && (keep_ptx || out->bytes == 0))
    code = take (c->nvrtcGetPTXSize, c->nvrtcGetPTX, program, &out->ptx, &ptx_bytes);
  if (code != GRAMME_OK || out->bytes)
    return code;
  if (!ptx_bytes)
    return GRAMME_TOOLCHAIN;
  out->is_ptx = true;
  out->bytes = ptx_bytes;
  out->image = malloc (ptx_bytes + 1);
  if (!out->image)
    return GRAMME_NO_MEMORY;
  memcpy (out->image, out->ptx, ptx_bytes + 1);
  return GRAMME_OK;
}

/* Options of every compile. The last option only saves time, and compilers before 12.4 do not know
 * it. */
static const char *const fixed_options[] = { "--fmad=false", "--std=c++17", "-w", "--minimal" };
enum { N_FIXED = sizeof fixed_options / sizeof *fixed_options, UNKNOWN_OPTION = 5, CANCELLED = 16 };

/* Minimum time between two calls of the host's progress, since the compiler calls back more
 * often. */
#define ASK_NS 10000000

typedef struct {
  const GrammeHost *host;
  void *job;
  int64_t asked_ns;
  int stop;
} Flow;

static int64_t
now_ns (void)
{
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Called by NVRTC. Returns 1 if the compile is to stop, as the host says. After that it keeps
 * returning 1, as NVRTC requires. */
static int
goes_on (void *payload, void *reserved)
{
  Flow *f = payload;
  int64_t now = now_ns ();
  (void) reserved;
  if (!f->stop && now - f->asked_ns >= ASK_NS) {
    f->asked_ns = now;
    f->stop = f->host->progress (f->job, "nvrtc", 0, 1) != 0;
  }
  return f->stop;
}

/* Compiles once. Returns NVRTC's result; *program stays NULL if no program was made. */
static int
try_compile (const NvCompiler *c, Flow *flow, const char *text, const char *arch, int n_fixed,
             void **program)
{
  char option[64];
  const char *options[1 + N_FIXED] = { option };
  snprintf (option, sizeof option, "--gpu-architecture=%s", arch);
  memcpy (options + 1, fixed_options, (size_t) n_fixed * sizeof *options);
  int result = c->nvrtcCreateProgram (program, text, "gramme.cu", 0, NULL, NULL);
  if (result != 0)
    return result;
  if (c->nvrtcSetFlowCallback && flow->job && GRAMME_HAS_FN (flow->host, GrammeHost, progress))
    c->nvrtcSetFlowCallback (*program, goes_on, flow);
  nv_signals_keep ();
  result = c->nvrtcCompileProgram (*program, 1 + n_fixed, options);
  nv_signals_put_back ();
  return result;
}

int32_t
nv_compile (const NvCompiler *c, const GrammeHost *host, void *job, const char *text,
            const char *arch, bool keep_ptx, NvImage *out, char **log, GrammeStatus *status)
{
  static atomic_int known = N_FIXED;
  void *program = NULL;
  int n_fixed = atomic_load (&known);
  Flow flow = { .host = host, .job = job, .asked_ns = now_ns () };
  *out = (NvImage){ 0 };
  *log = NULL;
  int result = try_compile (c, &flow, text, arch, n_fixed, &program);
  if (result == UNKNOWN_OPTION && program && n_fixed == N_FIXED) {
    c->nvrtcDestroyProgram (&program);
    atomic_store (&known, N_FIXED - 1);
    result = try_compile (c, &flow, text, arch, N_FIXED - 1, &program);
  }
  if (!program)
    return gramme_fail (status, GRAMME_TOOLCHAIN, -1, "NVRTC makes no program: result %d", result);
  *log = read_log (c, program);
  int32_t code = GRAMME_OK;
  if (result == CANCELLED && flow.stop)
    code = gramme_fail (status, GRAMME_CANCELLED, -1, "progress said stop");
  else if (result == 7)
    code = gramme_fail (
        status, GRAMME_TOOLCHAIN, -1,
        "NVRTC cannot open libnvrtc-builtins, which belongs beside %s: install the whole package",
        nv_compiler_file ());
  else if (result != 0)
    code = gramme_fail (status, GRAMME_INTERNAL, -1,
                        "NVRTC does not accept generated text (result %d): %.300s", result,
                        *log ? *log : "");
  else
    code = take_image (c, program, keep_ptx, out);
  if (code == GRAMME_NO_MEMORY)
    gramme_fail (status, code, -1, "no memory for compiled kernels");
  else if (code == GRAMME_TOOLCHAIN && result == 0)
    gramme_fail (status, code, -1, "NVRTC compiled, and gives neither CUBIN nor PTX");
  c->nvrtcDestroyProgram (&program);
  if (code != GRAMME_OK)
    nv_image_clear (out);
  return code;
}

void
nv_image_clear (NvImage *image)
{
  free (image->image);
  free (image->ptx);
  *image = (NvImage){ 0 };
}
