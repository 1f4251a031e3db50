/* SPDX-License-Identifier: Apache-2.0
 * nvrtc.c -- the back end "nvrtc": fused CUDA kernels, compiled in this process by NVRTC, launched
 * through the driver.
 *
 * The plugin is built without CUDA, and opens without it: a missing library is reported when it is
 * needed.  Without a GPU, graphs can still be compiled for a named architecture.  Tensors of the
 * CPU are copied to the GPU and back in each call.
 */
#include "plugins/nvrtc/attention.h"
#include "plugins/nvrtc/gpu_keep.h"
#include "plugins/nvrtc/offers.h"
#include "plugins/nvrtc/gpu_prelude.h"
#include "plugins/nvrtc/gpu_program.h"

#include <stdlib.h>

struct GrammeBackend {
  const GrammeHost *host;
  const GrammeTiles *tiles;
  const GrammeKernels *kernels;
};

struct GrammeExecutable {
  NvProgram program;
  CgDigest text;
};

/* -- Life -------------------------------------------------------------------------------------- */

static int32_t
nvrtc_open (const GrammeHost *host, const GrammeOption *options, uint32_t n_options,
            GrammeBackend **out, GrammeStatus *status)
{
  (void) options;
  (void) n_options;
  const GrammeTiles *tiles = host->get_extension (host->ctx, GRAMME_TILES_ID);
  const GrammeKernels *kernels = host->get_extension (host->ctx, GRAMME_KERNELS_ID);
  if (!tiles || !kernels)
    return gramme_fail (status, GRAMME_INCOMPATIBLE, -1, "this host has no %s",
                        tiles ? GRAMME_KERNELS_ID : GRAMME_TILES_ID);
  GrammeBackend *b = malloc (sizeof *b);
  if (!b)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to open");
  *b = (GrammeBackend){ host, tiles, kernels };
  *out = b;
  return GRAMME_OK;
}

static void
nvrtc_close (GrammeBackend *b)
{
  free (b);
}

static int32_t
nvrtc_device_info (GrammeBackend *b, uint32_t index, GrammeDeviceInfo *out, GrammeStatus *status)
{
  const char *why;
  const NvCuda *c = nv_cuda (&why);
  (void) b;
  if (!c || index >= (uint32_t) c->n_devices)
    return gramme_fail (status, GRAMME_NOT_FOUND, -1, "%s", c ? "no more devices" : why);
  NvDevice *d = nv_device ((int32_t) index, status);
  if (!d)
    return GRAMME_DEVICE;
  out->index = index;
  out->device_type = 2;
  out->device_id = (int32_t) index;
  out->memory_bytes = nv_device_memory (d);
  snprintf (out->name, sizeof out->name, "%.100s", nv_device_name (d));
  return GRAMME_OK;
}

static int32_t
nvrtc_get_support (GrammeBackend *b, const GrammeImage *image, GrammeVerdict *verdicts,
                   uint32_t stride, GrammeStatus *status)
{
  (void) b;
  (void) status;
  for (uint32_t i = 0; i < image->nodes.count; i++) {
    GrammeVerdict *v = (GrammeVerdict *) (void *) ((char *) verdicts + (size_t) i * stride);
    v->reason = nv_unit_reason (image, gramme_image_node (image, i));
    v->support = v->reason == GRAMME_REASON_NONE ? GRAMME_YES : GRAMME_NO;
    v->cluster = 0;
    v->cost = 1;
  }
  return GRAMME_OK;
}

/* -- Compile ----------------------------------------------------------------------------------- */

static void
nvrtc_destroy (GrammeExecutable *e)
{
  nv_program_clear (&e->program);
  free (e);
}

/* Prints both graphs into one text. */
static int32_t
print_roles (GrammeBackend *b, NvProgram *program, const GrammeCompileRequest *q,
             const NvFound *with, CgText *text, GrammeStatus *status)
{
  const GrammeImage *images[] = { q->forward, q->backward };
  const GrammeDebug *debug[] = { q->forward_debug, q->backward_debug };
  int32_t code = GRAMME_OK;
  CgText kernels = { 0 };
  bool replays = gramme_option_bool (q->options, q->n_options, "replay", 0);
  for (int role = 0; role < 2 && images[role] && code == GRAMME_OK; role++) {
    CgProgram p;
    NvFound found = *with;
    NvUnit *u = calloc (1, sizeof *u); /* too large for a stack */
    code = codegen_build (&p, images[role], q->constants + (role ? q->n_forward_constants : 0),
                          b->tiles, b->kernels, status);
    if (code == GRAMME_OK)
      code = nv_found_look (&found, &p, status);
    if (code == GRAMME_OK)
      code = u ? nv_unit_print (u, &p, &found, role ? "b" : "f", status)
               : gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to print kernels");
    if (code == GRAMME_OK) {
      put (&kernels, "%s%s", u->functions.text ? u->functions.text : "",
           u->kernels.text ? u->kernels.text : "");
      for (uint32_t i = 0; i < u->n_launches; i++)
        program->has_kernels = program->has_kernels || !u->launches[i].product;
      code = nv_role_take (&program->roles[role], u, &p, debug[role], replays, status);
    }
    if (u)
      nv_unit_clear (u);
    free (u);
    nv_found_clear (&found);
    codegen_free (&p);
  }
  if (code == GRAMME_OK)
    nv_put_kernels (text, kernels.text ? kernels.text : "");
  text->oom = text->oom || kernels.oom;
  free (kernels.text);
  if (code == GRAMME_OK && text->oom)
    code = gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory for the text of kernels");
  return code;
}

static int32_t
compile_text (GrammeBackend *b, NvProgram *p, const GrammeCompileRequest *q, const char *text,
              bool keep, GrammeStatus *status)
{
  const char *why, *named = gramme_option (q->options, q->n_options, "arch", NULL);
  const NvCompiler *c = nv_compiler (&why);
  char *log = NULL;
  int capability = 0;
  if (!c)
    return gramme_fail (status, GRAMME_TOOLCHAIN, -1, "%s", why);
  if (!named || !*named) {
    NvDevice *d = nv_device (p->device_number, status);
    if (!d)
      return status ? status->code : GRAMME_DEVICE;
    capability = nv_device_capability (d);
  }
  int32_t code = nv_compiler_arch (c, named, capability, p->arch, status);
  if (code == GRAMME_OK && (p->has_kernels || keep))
    code = nv_compile (c, b->host, q->job, text, p->arch, keep, &p->image, &log, status);
  if (log && GRAMME_HAS_FN (b->host, GrammeHost, diag))
    b->host->diag (q->job, code == GRAMME_OK ? GRAMME_LOG_INFO : GRAMME_LOG_ERROR, -1, log,
                   strlen (log));
  free (log);
  return code;
}

static bool
has_products (const GrammeImage *image)
{
  for (uint32_t i = 0; image && i < image->nodes.count; i++)
    if (gramme_image_node (image, i)->op == GRAMME_OP_matmul)
      return true;
  return false;
}

/* Decides if the library makes matrix products. The library is large, so it is opened only for
 * graphs with products, and with a GPU to run them. */
static int32_t
choose_products (const GrammeCompileRequest *q, bool *library, GrammeStatus *status)
{
  const char *who = gramme_option (q->options, q->n_options, "products", "auto"),
             *arch = gramme_option (q->options, q->n_options, "arch", "");
  const char *why = "";
  bool must = strcmp (who, "cublas") == 0;
  if (strcmp (who, "own") == 0 || (!must && *arch)
      || (!has_products (q->forward) && !has_products (q->backward)))
    return GRAMME_OK;
  *library = nv_cuda (&why) && nv_cublas (&why);
  return must && !*library
             ? gramme_fail (status, GRAMME_TOOLCHAIN, -1, "option products=cublas: %s", why)
             : GRAMME_OK;
}

static GrammeExecutable *
executable_new (const GrammeCompileRequest *request, GrammeStatus *status)
{
  GrammeExecutable *e = calloc (1, sizeof *e);
  if (!e) {
    gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to compile");
    return NULL;
  }
  pthread_mutex_init (&e->program.lock, NULL);
  e->program.device_number = request->device_type == 2 ? request->device_id : 0;
  return e;
}

/* Returns the capability of the named architecture, else of the device; 0: there is neither, which
 * the compiler reports. */
static int
capability_of (const GrammeCompileRequest *q)
{
  const char *named = gramme_option (q->options, q->n_options, "arch", ""),
             *number = strchr (named, '_');
  if (number)
    return atoi (number + 1);
  NvDevice *d = nv_cuda (NULL) ? nv_device (q->device_type == 2 ? q->device_id : 0, NULL) : NULL;
  return d ? nv_device_capability (d) : 0;
}

/* Prints the launches and their text, and computes its digest. */
static int32_t
print (GrammeBackend *b, GrammeExecutable *e, const GrammeCompileRequest *request, CgText *text,
       GrammeStatus *status)
{
  NvFound with = { .capability = capability_of (request) };
  int32_t code = choose_products (request, &with.library, status);
  if (code == GRAMME_OK)
    code = print_roles (b, &e->program, request, &with, text, status);
  codegen_digest_init (&e->text);
  if (code == GRAMME_OK)
    codegen_digest_add (&e->text, text->text, text->len);
  return code;
}

static int32_t
nvrtc_compile (GrammeBackend *b, const GrammeCompileRequest *request, GrammeExecutable **out,
               GrammeStatus *status)
{
  CgText text = { 0 };
  if (gramme_request_newer_flags (request))
    return gramme_fail (status, GRAMME_UNSUPPORTED, -1, "request flags %#x are newer than nvrtc",
                        gramme_request_newer_flags (request));
  GrammeExecutable *e = executable_new (request, status);
  if (!e)
    return GRAMME_NO_MEMORY;
  bool keep = gramme_option_bool (request->options, request->n_options, "keep-text", 0);
  int32_t code = print (b, e, request, &text, status);
  if (code == GRAMME_OK && b->host->log_enabled (b->host->ctx, GRAMME_LOG_INFO, "output_code"))
    b->host->log (b->host->ctx, GRAMME_LOG_INFO, "output_code", text.text, text.len);
  if (code == GRAMME_OK)
    code = compile_text (b, &e->program, request, text.text, keep, status);
  if (keep && code == GRAMME_OK)
    e->program.text = text.text;
  else
    free (text.text);
  if (code != GRAMME_OK) {
    nvrtc_destroy (e);
    return code;
  }
  *out = e;
  return GRAMME_OK;
}

/* -- Stored kernels ---------------------------------------------------------------------------- */

static int32_t
nvrtc_fingerprint (GrammeBackend *b, int32_t device_type, int32_t device_id, uint8_t out[32],
                   GrammeStatus *status)
{
  (void) b, (void) device_type, (void) device_id, (void) status; /* covers all devices at once */
  nv_fingerprint (out);
  return GRAMME_OK;
}

static int32_t
nvrtc_size (GrammeExecutable *e, uint64_t *bytes, GrammeStatus *status)
{
  if (e->program.text)
    return gramme_fail (status, GRAMME_UNSUPPORTED, -1,
                        "what was compiled to be shown is not kept");
  *bytes = nv_kept_bytes (&e->program.image);
  return GRAMME_OK;
}

static int32_t
nvrtc_write (GrammeExecutable *e, void *out, uint64_t bytes, GrammeStatus *status)
{
  uint64_t wanted = 0;
  int32_t code = nvrtc_size (e, &wanted, status);
  if (code == GRAMME_OK && bytes != wanted)
    code = gramme_fail (status, GRAMME_INVALID, -1, "%llu bytes are written, not %llu",
                        (unsigned long long) wanted, (unsigned long long) bytes);
  if (code == GRAMME_OK)
    nv_kept_write (out, &e->text, e->program.arch, &e->program.image);
  return code;
}

static int32_t
nvrtc_read (GrammeBackend *b, const GrammeCompileRequest *request, const void *bytes, uint64_t n,
            GrammeExecutable **out, GrammeStatus *status)
{
  if (gramme_request_newer_flags (request))
    return gramme_fail (status, GRAMME_UNSUPPORTED, -1, "request flags %#x are newer than nvrtc",
                        gramme_request_newer_flags (request));
  GrammeExecutable *e = executable_new (request, status);
  CgText text = { 0 };
  if (!e)
    return GRAMME_NO_MEMORY;
  int32_t code = print (b, e, request, &text, status);
  free (text.text);
  if (code == GRAMME_OK)
    code = nv_kept_read (bytes, n, &e->text, e->program.arch, &e->program.image, status);
  if (code != GRAMME_OK) {
    nvrtc_destroy (e);
    return code;
  }
  *out = e;
  return GRAMME_OK;
}

static int32_t
nvrtc_exec_info (GrammeExecutable *e, GrammeExecInfo *out, GrammeStatus *status)
{
  (void) status;
  if (GRAMME_HAS (out, GrammeExecInfo, alignment))
    out->alignment = 16;
  if (GRAMME_HAS (out, GrammeExecInfo, code_bytes))
    out->code_bytes = e->program.image.bytes;
  for (int role = 0; role < 2 && GRAMME_HAS (out, GrammeExecInfo, constant_bytes); role++)
    for (uint32_t i = 0; i < e->program.roles[role].n_consts; i++)
      out->constant_bytes += e->program.roles[role].consts[i].bytes;
  return GRAMME_OK;
}

static int32_t
nvrtc_run (GrammeExecutable *e, const GrammeRunArgs *args, GrammeStatus *status)
{
  return nv_program_run (&e->program, args, status);
}

/* -- Texts about the plugin -------------------------------------------------------------------- */

static void
describe (CgText *t)
{
  const char *why;
  const NvCompiler *c = nv_compiler (&why);
  if (c) {
    put (t, "compiler   NVRTC %d.%d, %s\n           compiles for", c->major, c->minor,
         nv_compiler_file ());
    for (int i = 0; i < c->n_archs; i++)
      put (t, " sm_%d", c->archs[i]);
    put (t, "\n");
  } else {
    put (t, "compiler   none: %s\n", why);
  }
  if (nv_cublas (&why))
    put (t, "products   cuBLASLt %d.%d, %s\n", nv_cublas (NULL)->cublasLtGetVersion () / 10000,
         nv_cublas (NULL)->cublasLtGetVersion () / 100 % 100, nv_cublas_file ());
  else
    put (t, "products   gramme's own kernels: %s\n", why);
  const NvCuda *d = nv_cuda (&why);
  if (!d)
    put (t, "devices    none: %s\n", why);
  else
    put (t, "driver     %d.%d, %s\n", d->version / 1000, d->version % 1000 / 10, nv_cuda_file ());
  for (int i = 0; d && i < d->n_devices; i++) {
    GrammeStatus status;
    gramme_status_init (&status);
    NvDevice *device = nv_device (i, &status);
    if (device)
      put (t, "cuda:%d     %s, compute capability %d.%d, %.1f GiB\n", i, nv_device_name (device),
           nv_device_capability (device) / 10, nv_device_capability (device) % 10,
           (double) nv_device_memory (device) / 1073741824.0);
    else
      put (t, "cuda:%d     %s\n", i, status.message);
  }
}

/* Prints "in use, cached, peak": bytes of device 0. */
static void
count_memory (CgText *t)
{
  NvDevice *d = nv_cuda (NULL) ? nv_device (0, NULL) : NULL;
  NvMemoryCount count = { 0 };
  if (d)
    count = nv_device_count (d);
  put (t, "%llu %llu %llu", (unsigned long long) count.in_use, (unsigned long long) count.cached,
       (unsigned long long) count.peak);
}

/* Prints "major minor": the compute capability of device 0, or nothing without a device. */
static void
tell_capability (CgText *t)
{
  NvDevice *d = nv_cuda (NULL) ? nv_device (0, NULL) : NULL;
  if (d)
    put (t, "%d %d", nv_device_capability (d) / 10, nv_device_capability (d) % 10);
}

static int32_t
text_get (GrammeBackend *b, GrammeExecutable *e, const char *kind, char *out, uint64_t room,
          uint64_t *bytes, GrammeStatus *status)
{
  CgText about = { 0 };
  const char *text = NULL;
  (void) b;
  if (!e && !strcmp (kind, "about")) {
    describe (&about);
    text = about.text;
  } else if (!e && !strcmp (kind, "memory")) {
    count_memory (&about);
    text = about.text;
  } else if (!e && !strcmp (kind, "capability")) {
    tell_capability (&about);
    text = about.text;
  } else if (e && !strcmp (kind, "cuda")) {
    text = e->program.text;
  } else if (e && !strcmp (kind, "ptx")) {
    text = e->program.image.ptx;
  }
  if (!text) {
    free (about.text);
    return gramme_fail (status, GRAMME_NOT_FOUND, -1,
                        "there is no text '%s': there are cuda and ptx, of what was compiled with "
                        "option keep-text, and about",
                        kind);
  }
  *bytes = strlen (text);
  if (room)
    snprintf (out, (size_t) room, "%s", text);
  free (about.text);
  return GRAMME_OK;
}

static const void *
nvrtc_get_extension (GrammeBackend *b, const char *id)
{
  static const GrammeText texts = { .struct_size = sizeof (GrammeText), .get = text_get };
  static const GrammeSerialize serialize = {
    .struct_size = sizeof serialize, .size = nvrtc_size, .write = nvrtc_write, .read = nvrtc_read
  };
  (void) b;
  if (strcmp (id, GRAMME_MEMORY_ID) == 0)
    return &nv_memory;
  if (strcmp (id, GRAMME_STREAM_ID) == 0)
    return &nv_streams;
  if (strcmp (id, GRAMME_SERIALIZE_ID) == 0)
    return &serialize;
  return strcmp (id, GRAMME_TEXT_ID) == 0 ? &texts : NULL;
}

static const GrammeBackendApi api = {
  .struct_size = sizeof (GrammeBackendApi),
  .open = nvrtc_open,
  .close = nvrtc_close,
  .device_info = nvrtc_device_info,
  .fingerprint = nvrtc_fingerprint,
  .get_support = nvrtc_get_support,
  .compile = nvrtc_compile,
  .exec_info = nvrtc_exec_info,
  .run = nvrtc_run,
  .destroy = nvrtc_destroy,
  .get_extension = nvrtc_get_extension,
};

GRAMME_PLUGIN_DEFINE (api,
                      "id=org.gramme.nvrtc\n"
                      "name=nvrtc\n"
                      "version=0.1.0\n"
                      "license=Apache-2.0\n"
                      "summary=fused CUDA kernels, compiled in the process by NVRTC\n"
                      "rank=50\n"
                      "bit-exact=false\n"
                      "devices=cuda;\n"
                      "dtypes=b1;u8;i8;i16;i32;i64;f8e4m3;f8e5m2;f16;bf16;f32;f64;\n"
                      "flags=backward;run-concurrent;serialize;\n"
                      "[option arch]\n"
                      "type=string\n"
                      "default=\n"
                      "help=the architecture to compile for, as sm_90; without it the GPU's\n"
                      "[option keep-text]\n"
                      "type=bool\n"
                      "default=false\n"
                      "help=the CUDA text and the PTX stay with what was compiled, to be shown\n"
                      "[option replay]\n"
                      "type=bool\n"
                      "default=false\n"
                      "changes-code=false\n"
                      "help=what a graph launches becomes a CUDA graph, launched again for runs "
                      "with the same addresses and sizes\n"
                      "[option products]\n"
                      "type=choice\n"
                      "values=auto;cublas;own;\n"
                      "default=auto\n"
                      "help=who makes matrix products: cublas, own (kernels of gramme's), or auto: "
                      "cublas if it is there, but for a named arch\n");
