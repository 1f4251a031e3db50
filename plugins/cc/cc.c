/* SPDX-License-Identifier: Apache-2.0
 * cc.c -- the back end "cc": C with explicit vectors, through the machine's C compiler.
 *
 * Both graphs of a request become one unit of C (codegen), which a job compiles in the background
 * (job.h).  The host waits for the job (cc_wait), or else the first run does; with the option
 * `wait` the compile waits, until `progress` says stop.  The arithmetic is the host's own text,
 * inlined, so the bits are those of eager and tcc.
 */
#include "plugins/cc/cc_folder.h"
#include "plugins/cc/job.h"
#include "plugins/cc/kept_units.h"
#include "plugins/cc/elf_object.h"
#include "plugins/cc/cc_unit.h"
#include "plugins/codegen/call.h"

#include <pthread.h>
#include <gramme-ext-draft.h>

#include <stdlib.h>
#include <string.h>

#define POLL_MS 20
#define CC_MAX_LIMIT_S 1000000 /* the manifest has the same number */

struct GrammeBackend {
  const GrammeHost *host;
  const GrammeTiles *tiles;
  const GrammeKernels *kernels;
  const GrammeSource *source;
  const GrammeThreads *threads; /* may be NULL */
  CgSource *declarations;       /* atomic; NULL until first needed */
  char *compiler, *flags;
  int limit_s; /* limit of requests that give none */
};

typedef struct {
  CgProgram program; /* the code uses its constants */
  CgText text;       /* has the symbols, fills and kernels; the text itself is freed */
  CgEntry entry;
} Role;

static const char *const role_names[] = { "forward", "backward" };

struct GrammeExecutable {
  GrammeBackend *backend;
  Role roles[2];
  CgText externals;
  CcJob *job; /* NULL: the code was loaded from the cache */
  CgDigest text;
  const void *artefact; /* the job's, once it is finished */
  size_t bytes;
  CcCode code;
  pthread_mutex_t lock; /* for finish */
  int finished;         /* atomic; a GRAMME_ code plus 1; 0: not finished */
};

/* -- Life -------------------------------------------------------------------------------------- */

static void
cc_close (GrammeBackend *b)
{
  codegen_source_free (b->declarations);
  free (b->compiler);
  free (b->flags);
  free (b);
}

/* Returns the seconds of GRAMME_CC_LIMIT, or the default.  Warns of what is no such number. */
static int
said_limit (const GrammeHost *host)
{
  const char *said = secure_getenv ("GRAMME_CC_LIMIT");
  char *end, text[256];
  if (!said || !*said)
    return CC_JOB_LIMIT_S;
  long limit_s = strtol (said, &end, 10);
  if (limit_s > 0 && *end == 0 && limit_s <= CC_MAX_LIMIT_S)
    return (int) limit_s;
  snprintf (text, sizeof text,
            "GRAMME_CC_LIMIT=%.99s is not used: it takes a number from 1 to %d; %d is taken", said,
            CC_MAX_LIMIT_S, CC_JOB_LIMIT_S);
  host->log (host->ctx, GRAMME_LOG_WARNING, "plugins", text, strlen (text));
  return CC_JOB_LIMIT_S;
}

static int32_t
cc_open (const GrammeHost *host, const GrammeOption *options, uint32_t n_options,
         GrammeBackend **out, GrammeStatus *status)
{
  (void) options;
  (void) n_options;
  const GrammeTiles *tiles = host->get_extension (host->ctx, GRAMME_TILES_ID);
  const GrammeKernels *kernels = host->get_extension (host->ctx, GRAMME_KERNELS_ID);
  const GrammeSource *source = host->get_extension (host->ctx, GRAMME_SOURCE_ID);
  const char *named = secure_getenv ("GRAMME_CC");
  if (!tiles || !kernels || !source)
    return gramme_fail (status, GRAMME_INCOMPATIBLE, -1, "this host has no %s",
                        !tiles     ? GRAMME_TILES_ID
                        : !kernels ? GRAMME_KERNELS_ID
                                   : GRAMME_SOURCE_ID);
  GrammeBackend *b = calloc (1, sizeof *b);
  size_t room = strlen (source->flags) + sizeof CC_UNIT_FLAGS + 1;
  if (b) {
    *b = (GrammeBackend){ .host = host,
                          .tiles = tiles,
                          .kernels = kernels,
                          .source = source,
                          .threads = host->get_extension (host->ctx, GRAMME_THREADS_ID) };
    b->limit_s = said_limit (host);
    b->compiler = strdup (named && *named ? named : CC_DEFAULT_COMPILER);
    b->flags = malloc (room);
  }
  if (!b || !b->compiler || !b->flags) {
    if (b)
      cc_close (b);
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to open");
  }
  snprintf (b->flags, room, "%s %s", source->flags, CC_UNIT_FLAGS);
  cc_folder_reap ();
  *out = b;
  return GRAMME_OK;
}

static int32_t
cc_get_support (GrammeBackend *b, const GrammeImage *image, GrammeVerdict *verdicts,
                uint32_t stride, GrammeStatus *status)
{
  (void) b;
  (void) status;
  gramme_kernels_support_sized (image, verdicts, stride);
  return GRAMME_OK;
}

/* -- Compile ----------------------------------------------------------------------------------- */

static void
cc_destroy (GrammeExecutable *e)
{
  cc_job_free (e->job);
  cc_unload (&e->code);
  for (int role = 0; role < 2; role++) {
    codegen_text_free (&e->roles[role].text, e->backend->kernels);
    codegen_free (&e->roles[role].program);
  }
  codegen_text_free (&e->externals, e->backend->kernels);
  pthread_mutex_destroy (&e->lock);
  free (e);
}

/* Returns the host's source in parsed form (borrowed from b). Parsed when first needed: that takes
 * some milliseconds, and a process that loads all its code from the cache never needs it. No lock,
 * since the child of a fork could find it taken. If two threads parse at once, one result is
 * dropped. */
static const CgSource *
declarations (GrammeBackend *b)
{
  CgSource *source = __atomic_load_n (&b->declarations, __ATOMIC_ACQUIRE);
  if (source)
    return source;
  CgSource *fresh = codegen_source_new (b->source->text);
  if (fresh
      && !__atomic_compare_exchange_n (&b->declarations, &source, fresh, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE)) {
    codegen_source_free (fresh);
    return source;
  }
  return fresh;
}

/* Prints the text of each role, and computes the digest of all. */
static int32_t
print (GrammeExecutable *e, const GrammeCompileRequest *request, GrammeStatus *status)
{
  const GrammeBackend *b = e->backend;
  const GrammeImage *images[] = { request->forward, request->backward };
  codegen_digest_init (&e->text);
  for (int role = 0; role < 2 && images[role]; role++) {
    Role *r = &e->roles[role];
    int32_t code = codegen_build (&r->program, images[role],
                                  request->constants + (role ? request->n_forward_constants : 0),
                                  b->tiles, b->kernels, status);
    r->program.threads = b->threads;
    if (code == GRAMME_OK)
      code = codegen_print_c (&r->program, role_names[role], role ? "b" : "", b->source, true,
                              &r->text, status);
    if (code != GRAMME_OK)
      return code;
    /* The compile's own pointers are not valid any more. */
    r->program.image = NULL;
    r->program.constants = NULL;
    codegen_digest_add (&e->text, r->text.text, r->text.len);
  }
  return GRAMME_OK;
}

static void
drop_texts (GrammeExecutable *e)
{
  for (int role = 0; role < 2; role++) {
    free (e->roles[role].text.text);
    e->roles[role].text.text = NULL;
  }
}

/* Returns the unit's text, from malloc; NULL: the status says why. */
static char *
write_unit (GrammeExecutable *e, size_t *len, GrammeStatus *status)
{
  GrammeBackend *b = e->backend;
  const CgSource *source = declarations (b);
  CgText *parts[2] = { &e->roles[0].text, &e->roles[1].text };
  char *text =
      source ? cc_unit_text (source, parts, parts[1]->text ? 2 : 1, &e->externals, len) : NULL;
  if (!text) {
    gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory for a unit of C");
    return NULL;
  }
  if (b->host->log_enabled (b->host->ctx, GRAMME_LOG_INFO, "output_code"))
    b->host->log (b->host->ctx, GRAMME_LOG_INFO, "output_code", text, *len);
  return text;
}

static int32_t
start (GrammeExecutable *e, const GrammeCompileRequest *request, GrammeStatus *status)
{
  const GrammeBackend *b = e->backend;
  size_t len;
  int32_t code = print (e, request, status);
  char *text = code == GRAMME_OK ? write_unit (e, &len, status) : NULL;
  drop_texts (e);
  if (!text)
    return code != GRAMME_OK ? code : GRAMME_NO_MEMORY;
  e->job = cc_job_start (
      b->compiler, b->flags, text, len,
      (int) gramme_option_int (request->options, request->n_options, "limit", b->limit_s), status);
  return e->job ? GRAMME_OK : status && status->code ? status->code : GRAMME_NO_MEMORY;
}

/* Loads the bytes of a shared object into this process, and fills in every pointer. */
static int32_t
bind (GrammeExecutable *e, const void *bytes, size_t n, GrammeStatus *status)
{
  int32_t code = cc_load (&e->code, bytes, n, status);
  if (code == GRAMME_OK)
    code = cc_unit_bind (&e->code, &e->externals, e->backend->source, status);
  for (int role = 0; role < 2 && code == GRAMME_OK; role++) {
    code = cc_unit_bind (&e->code, &e->roles[role].text, e->backend->source, status);
    e->roles[role].entry = (CgEntry) cc_symbol (&e->code, role_names[role]);
  }
  return code;
}

/* Loads the job's code, after waiting for the job. `job`: handle of the request while it is
 * compiled, for progress, or NULL. */
static int32_t
take (GrammeExecutable *e, void *job, GrammeStatus *status)
{
  const GrammeHost *host = e->backend->host;
  while (job && !cc_job_wait_for (e->job, POLL_MS))
    if (host->progress (job, "cc", 0, 1))
      return gramme_fail (status, GRAMME_CANCELLED, -1, "the C compiler was stopped");
  if (cc_job_wait (e->job) != CC_JOB_DONE)
    return gramme_fail (status, GRAMME_TOOLCHAIN, -1, "%s", cc_job_message (e->job));
  e->artefact = cc_job_artefact (e->job, &e->bytes);
  return bind (e, e->artefact, e->bytes, status);
}

static int32_t
finish (GrammeExecutable *e, void *job, GrammeStatus *status)
{
  pthread_mutex_lock (&e->lock);
  if (!e->finished) {
    int32_t code = take (e, job, status);
    __atomic_store_n (&e->finished, code + 1, __ATOMIC_RELEASE);
  } else if (e->finished != GRAMME_OK + 1)
    gramme_fail (status, e->finished - 1, -1, "this function's code could not be made: %s",
                 cc_job_message (e->job));
  int32_t code = e->finished - 1;
  pthread_mutex_unlock (&e->lock);
  return code;
}

static GrammeExecutable *
executable_new (GrammeBackend *b, GrammeStatus *status)
{
  GrammeExecutable *e = calloc (1, sizeof *e);
  if (!e) {
    gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to compile");
    return NULL;
  }
  e->backend = b;
  pthread_mutex_init (&e->lock, NULL);
  return e;
}

static int32_t
cc_compile (GrammeBackend *b, const GrammeCompileRequest *request, GrammeExecutable **out,
            GrammeStatus *status)
{
  if (gramme_request_newer_flags (request))
    return gramme_fail (status, GRAMME_UNSUPPORTED, -1, "request flags %#x are newer than cc",
                        gramme_request_newer_flags (request));
  GrammeExecutable *e = executable_new (b, status);
  if (!e)
    return GRAMME_NO_MEMORY;
  int32_t code = start (e, request, status);
  if (code == GRAMME_OK && gramme_option_bool (request->options, request->n_options, "wait", 0))
    code = finish (e, request->job, status);
  if (code != GRAMME_OK) {
    cc_destroy (e);
    return code;
  }
  *out = e;
  return GRAMME_OK;
}

static int32_t
cc_exec_info (GrammeExecutable *e, GrammeExecInfo *out, GrammeStatus *status)
{
  (void) status;
  codegen_describe (out, e->bytes, &e->roles[0].program, &e->roles[1].program);
  return GRAMME_OK;
}

/* -- Waiting ----------------------------------------------------------------------------------- */

static int32_t
cc_wait (GrammeExecutable *e, uint32_t timeout_ms, int32_t *done, GrammeStatus *status)
{
  bool there = __atomic_load_n (&e->finished, __ATOMIC_ACQUIRE) == GRAMME_OK + 1;
  *done = there || cc_job_wait_for (e->job, timeout_ms < INT32_MAX ? (int) timeout_ms : INT32_MAX);
  return there || !*done ? GRAMME_OK : finish (e, NULL, status);
}

/* -- Run --------------------------------------------------------------------------------------- */

static int32_t
cc_workspace (GrammeExecutable *e, uint32_t role, const int64_t *sizes, uint64_t *bytes,
              GrammeStatus *status)
{
  return codegen_workspace (&e->roles[role].program, &e->roles[role].text, sizes, bytes, status);
}

static int32_t
cc_run (GrammeExecutable *e, const GrammeRunArgs *args, GrammeStatus *status)
{
  if (__atomic_load_n (&e->finished, __ATOMIC_ACQUIRE) != GRAMME_OK + 1) {
    int32_t code = finish (e, NULL, status);
    if (code != GRAMME_OK)
      return code;
  }
  return codegen_call (e->roles[args->role].entry, args, status);
}

/* -- Kept code --------------------------------------------------------------------------------- */

static int32_t
cc_get_fingerprint (GrammeBackend *b, int32_t device_type, int32_t device_id, uint8_t out[32],
                    GrammeStatus *status)
{
  (void) device_type;
  (void) device_id;
  (void) status;
  cc_fingerprint (b->compiler, b->flags, out);
  return GRAMME_OK;
}

static int32_t
cc_size (GrammeExecutable *e, uint64_t *bytes, GrammeStatus *status)
{
  if (__atomic_load_n (&e->finished, __ATOMIC_ACQUIRE) != GRAMME_OK + 1 || !e->artefact)
    return gramme_fail (status, GRAMME_UNSUPPORTED, -1,
                        "the compiler is not done, or the code was kept already");
  *bytes = cc_kept_bytes (&e->externals, e->bytes);
  return GRAMME_OK;
}

static int32_t
cc_write (GrammeExecutable *e, void *out, uint64_t bytes, GrammeStatus *status)
{
  uint64_t wanted;
  int32_t code = cc_size (e, &wanted, status);
  if (code != GRAMME_OK || bytes != wanted)
    return code != GRAMME_OK
               ? code
               : gramme_fail (status, GRAMME_INVALID, -1, "%llu bytes are written, not %llu",
                              (unsigned long long) wanted, (unsigned long long) bytes);
  cc_kept_write (out, &e->text, &e->externals, e->artefact, e->bytes);
  return GRAMME_OK;
}

/* Makes an executable from cached code. The text is printed again, which costs a hundredth of
 * compiling it: it determines the symbols to bind, and its digest shows that the code fits. The
 * names of the parts of the host's source that the text uses were determined when the text was
 * compiled, and are stored with the code. */
static int32_t
cc_read (GrammeBackend *b, const GrammeCompileRequest *request, const void *bytes, uint64_t n,
         GrammeExecutable **out, GrammeStatus *status)
{
  GrammeExecutable *e = executable_new (b, status);
  const void *object = NULL;
  if (!e)
    return GRAMME_NO_MEMORY;
  int32_t code = print (e, request, status);
  drop_texts (e);
  if (code == GRAMME_OK)
    code = cc_kept_read (bytes, n, &e->text, &e->externals, &object, &e->bytes, status);
  if (code == GRAMME_OK && cc_object_damage (object, e->bytes))
    code = gramme_fail (status, GRAMME_DATA, -1, "the kept code %s",
                        cc_object_damage (object, e->bytes));
  if (code == GRAMME_OK)
    code = bind (e, object, e->bytes, status);
  e->finished = GRAMME_OK + 1;
  if (code != GRAMME_OK) {
    cc_destroy (e);
    return code;
  }
  *out = e;
  return GRAMME_OK;
}

static int32_t
cc_may_share (GrammeExecutable *e, uint32_t role, uint32_t input, uint32_t output)
{
  return codegen_may_share (&e->roles[role].program, input, output);
}

static const void *
cc_get_extension (GrammeBackend *b, const char *id)
{
  static const GrammeSerialize serialize = {
    .struct_size = sizeof serialize, .size = cc_size, .write = cc_write, .read = cc_read
  };
  static const GrammeDonation donation = { .struct_size = sizeof donation,
                                           .may_share = cc_may_share };
  static const GrammeWait waiting = { .struct_size = sizeof waiting, .wait = cc_wait };
  (void) b;
  return strcmp (id, GRAMME_SERIALIZE_ID) == 0  ? (const void *) &serialize
         : strcmp (id, GRAMME_DONATION_ID) == 0 ? (const void *) &donation
         : strcmp (id, GRAMME_WAIT_ID) == 0     ? &waiting
                                                : NULL;
}

static const GrammeBackendApi api = {
  .struct_size = sizeof (GrammeBackendApi),
  .open = cc_open,
  .close = cc_close,
  .fingerprint = cc_get_fingerprint,
  .get_support = cc_get_support,
  .compile = cc_compile,
  .exec_info = cc_exec_info,
  .workspace = cc_workspace,
  .run = cc_run,
  .destroy = cc_destroy,
  .get_extension = cc_get_extension,
};

GRAMME_PLUGIN_DEFINE (
    api, "id=org.gramme.cc\n"
         "name=cc\n"
         "version=0.1.0\n"
         "license=Apache-2.0\n"
         "summary=fused loops over vectors, compiled in the background by the C compiler\n"
         "rank=150\n"
         "bit-exact=true\n"
         "devices=cpu;\n"
         "dtypes=b1;u8;i8;i16;i32;i64;f8e4m3;f8e5m2;f16;bf16;f32;f64;\n"
         "flags=backward;run-concurrent;serialize;\n"
         "needs=cc;\n"
         "[option wait]\n"
         "type=bool\n"
         "default=false\n"
         "changes-code=false\n"
         "help=compile returns when the compiler is done, not before\n"
         "[option limit]\n"
         "type=int\n"
         "range=1..1000000\n"
         "changes-code=false\n"
         "help=seconds that the compiler may take for one function; by default GRAMME_CC_LIMIT, "
         "else 600\n");
