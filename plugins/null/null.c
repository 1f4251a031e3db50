/* SPDX-License-Identifier: Apache-2.0
 * null.c -- the skeleton of a back end: clone it, build it, and answer YES to one op after the
 * other.
 *
 * It loads, is listed, checks its option, and says NO to every node, so the host runs everything
 * itself and tells the user why.  To make a back end of it:
 *   1. Give it an id and a name of your own in the manifest below; the file is libgramme-NAME.so.
 *      Build it with
 *        gcc -std=c11 -shared -fPIC $(pkg-config --cflags gramme-plugin-1) -fvisibility=hidden
 *            -Wl,-z,nodelete,-z,noexecstack,-z,relro,-z,now,-z,defs -o libgramme-NAME.so *.c
 *   2. Put it into a folder that only you can write to and name that folder in
 *      GRAMME_PLUGIN_PATH; `gramme inspect` shows it.
 *   3. Answer YES to an op in node_reason.  Compile it in null_compile, run it in null_run.
 *   4. Run a program with GRAMME_LOGS=graph_breaks: it names the first node that sends a graph
 *      back to the host.
 *
 * On the CPU, host->get_extension gives the host's kernels and tiles (gramme-ext.h), whose results
 * are eager's to the last bit.
 */
#include <stdlib.h>

#include <gramme-plugin-util.h>

/* The state of an opened instance.  There may be several; keep nothing in static variables. */
struct GrammeBackend {
  const GrammeHost *host; /* valid until close */
};

/* A compiled request: your code, and copies of the parts of the images that it needs. */
struct GrammeExecutable {
  uint32_t n_in[2], n_out[2]; /* by role */
};

/* -- Life: [load] ------------------------------------------------------------------------------ */

/* Options here are for the whole instance; those of a compile come with the request. */
static int32_t
null_open (const GrammeHost *host, const GrammeOption *options, uint32_t n_options,
           GrammeBackend **out, GrammeStatus *status)
{
  (void) options;
  (void) n_options;
  GrammeBackend *b = malloc (sizeof *b);
  if (!b) /* never abort: set the status, and the host raises it */
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to open");
  b->host = host;
  *out = b;
  return GRAMME_OK;
}

/* Joins your threads and closes your descriptors. */
static void
null_close (GrammeBackend *b)
{
  free (b);
}

/* -- Support: [any] ---------------------------------------------------------------------------- */

/* Returns the reason for a NO; NONE means YES.  Look at the op, its version, the attributes, and
 * the dtypes, ranks and strides of operands and result; anything that you do not know is a NO with
 * a reason, because a newer host may send it.  Your own reasons have their text in the manifest. */
static uint32_t
node_reason (const GrammeImage *image, const GrammeNode *n)
{
  (void) image;
  GrammeOpFacts op = gramme_op_facts (n->op);
  if (op.family != GRAMME_FAMILY_NONE && n->op_version > op.version)
    return GRAMME_REASON_OP_VERSION;
  return GRAMME_REASON_OP;
}

static int32_t
null_get_support (GrammeBackend *b, const GrammeImage *image, GrammeVerdict *verdicts,
                  uint32_t stride, GrammeStatus *status)
{
  (void) b;
  (void) status;
  for (uint32_t i = 0; i < image->nodes.count; i++) {
    GrammeVerdict *v =
        (GrammeVerdict *) (void *) ((char *) verdicts
                                    + (size_t) i * stride); /* rows may be wider than yours */
    v->reason = node_reason (image, gramme_image_node (image, i));
    v->support = v->reason == GRAMME_REASON_NONE ? GRAMME_YES : GRAMME_NO;
    v->cluster = 0; /* nodes of one number are compiled together */
    v->cost = 1;
  }
  return GRAMME_OK;
}

/* -- Compile: [compile] ------------------------------------------------------------------------ */

/* Walk request->forward, and request->backward if there is one, in the order of their nodes.  The
 * images, the options and the constants are gone when this returns.  Report long compiles with
 * host->progress, a compiler's words with host->diag. */
static int32_t
null_compile (GrammeBackend *b, const GrammeCompileRequest *request, GrammeExecutable **out,
              GrammeStatus *status)
{
  (void) b;
  const GrammeImage *images[2] = { request->forward, request->backward };
  if (gramme_request_newer_flags (request))
    return gramme_fail (status, GRAMME_UNSUPPORTED, -1, "request flags %#x are newer than null",
                        gramme_request_newer_flags (request));
  for (int role = 0; role < 2; role++)
    for (uint32_t i = 0; images[role] && i < images[role]->nodes.count; i++)
      return gramme_fail (status, GRAMME_UNSUPPORTED, (int32_t) i, "null does not compile %s",
                          gramme_op_facts (gramme_image_node (images[role], i)->op).name);
  GrammeExecutable *e = calloc (1, sizeof *e);
  if (!e)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to compile");
  for (int role = 0; role < 2; role++)
    if (images[role]) {
      e->n_in[role] = images[role]->inputs.count;
      e->n_out[role] = images[role]->outputs.count;
    }
  *out = e;
  return GRAMME_OK;
}

static int32_t
null_exec_info (GrammeExecutable *e, GrammeExecInfo *out, GrammeStatus *status)
{
  (void) e;
  (void) status;
  if (GRAMME_HAS (out, GrammeExecInfo,
                  code_bytes)) /* the host's record may be an older, shorter one */
    out->code_bytes = 0;
  return GRAMME_OK;
}

static void
null_destroy (GrammeExecutable *e)
{
  free (e);
}

/* -- Run: [run] -------------------------------------------------------------------------------- */

/* Reads args->inputs, writes every element of args->outputs, or fails.  The host has compared
 * shapes, dtypes and strides with the image. A graph without nodes computes no output (those that
 * are inputs are copied by the host), so there is nothing to do here. */
static int32_t
null_run (GrammeExecutable *e, const GrammeRunArgs *args, GrammeStatus *status)
{
  if (args->n_inputs != e->n_in[args->role] || args->n_outputs != 0)
    return gramme_fail (status, GRAMME_STATE, -1,
                        "a run with %u inputs and %u outputs was not compiled", args->n_inputs,
                        args->n_outputs);
  return GRAMME_OK;
}

/* -- The plugin -------------------------------------------------------------------------------- */

static const GrammeBackendApi api = {
  .struct_size = sizeof (GrammeBackendApi),
  .open = null_open,
  .close = null_close,
  .get_support = null_get_support,
  .compile = null_compile,
  .exec_info = null_exec_info,
  .run = null_run,
  .destroy = null_destroy,
};

GRAMME_PLUGIN_DEFINE (api, "id=org.gramme.null\n"
                           "name=null\n"
                           "version=0.1.0\n"
                           "license=Apache-2.0\n"
                           "rank=0\n"
                           "devices=cpu;\n"
                           "flags=backward;run-concurrent;\n"
                           "[option level]\n"
                           "type=int\n"
                           "range=0..3\n"
                           "default=0\n"
                           "help=an example of an option; it changes nothing\n");
