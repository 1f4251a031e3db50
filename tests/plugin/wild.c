/* SPDX-License-Identifier: Apache-2.0
 * wild.c -- a small correct back end (add, mul, neg of dense f32), with a place in each function
 * where tests/plugin/hostile.py inserts incorrect code: -DON_LOAD='abort ();' and so on.
 */
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <gramme-plugin-util.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#ifndef ON_LOAD
#define ON_LOAD
#endif
#ifndef ON_UNLOAD
#define ON_UNLOAD
#endif
#ifndef ON_QUERY
#define ON_QUERY
#endif
#ifndef ON_OPEN
#define ON_OPEN
#endif
#ifndef ON_CLOSE
#define ON_CLOSE
#endif
#ifndef ON_SUPPORT
#define ON_SUPPORT
#endif
#ifndef ON_COMPILE
#define ON_COMPILE
#endif
#ifndef ON_RUN
#define ON_RUN
#endif
#ifndef AFTER_RUN
#define AFTER_RUN
#endif
#ifndef ON_DESTROY
#define ON_DESTROY
#endif
#ifndef WORKSPACE
#define WORKSPACE 0
#endif
#ifndef ABI
#define ABI "0.1"
#endif
#ifndef NEEDS
#define NEEDS "0"
#endif
#ifndef NAME
#define NAME "wild"
#endif
#ifndef KEYS
#define KEYS ""
#endif

/* -- What hooks may use ------------------------------------------------------------------------ */

static inline void *
sleep_for_ever (void *unused)
{
  for (;;)
    pause ();
  return unused;
}

static inline void
start_thread (void)
{
  pthread_t t;
  pthread_create (&t, NULL, sleep_for_ever, NULL);
}

static inline int
overflow_stack (volatile int n)
{
  volatile char block[4096];
  block[0] = (char) n;
  return n < 0 ? 0 : overflow_stack (n + 1) + block[0];
}

static inline void
handler (int unused)
{
  (void) unused;
}

__attribute__ ((constructor)) static void
on_load (void)
{
  ON_LOAD
}

__attribute__ ((destructor)) static void
on_unload (void)
{
  ON_UNLOAD
}

/* -- The back end ------------------------------------------------------------------------------ */

#define MAX_NODES 64

struct GrammeBackend {
  int unused;
};
struct GrammeExecutable {
  uint32_t n_inputs, n_nodes, n_values, n_outputs;
  int64_t n;
  struct {
    uint32_t op, a, b, out;
  } nodes[MAX_NODES];
  uint32_t outputs[MAX_NODES];
};

static int32_t
wild_open (const GrammeHost *host, const GrammeOption *options, uint32_t n, GrammeBackend **out,
           GrammeStatus *status)
{
  (void) host, (void) options, (void) n, (void) status;
  *out = calloc (1, sizeof **out);
  ON_OPEN
  return GRAMME_OK;
}

static void
wild_close (GrammeBackend *b)
{
  ON_CLOSE
  free (b);
}

static int
is_dense_f32 (const GrammeImage *image, uint32_t value)
{
  const GrammeValue *v = gramme_image_value (image, value);
  int64_t stride = 1;
  for (uint32_t d = v->ndim; d-- > 0;) {
    if (gramme_value_size (image, v, d) < 0 || gramme_value_stride (image, v, d) != stride)
      return 0;
    stride *= gramme_value_size (image, v, d);
  }
  return GRAMME_DTYPE_OF (v) == GRAMME_DTYPE_F32
         && stride == gramme_value_numel (image, gramme_image_value (image, 0));
}

static uint32_t
reason_of (const GrammeImage *image, const GrammeNode *n)
{
  if (n->op != GRAMME_OP_add && n->op != GRAMME_OP_mul && n->op != GRAMME_OP_neg)
    return GRAMME_REASON_OP;
  if (!is_dense_f32 (image, n->out) || image->nodes.count > MAX_NODES
      || image->outputs.count > MAX_NODES)
    return GRAMME_REASON_LAYOUT;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (!is_dense_f32 (image, gramme_node_in (image, n, i)))
      return GRAMME_REASON_LAYOUT;
  return GRAMME_REASON_NONE;
}

static int32_t
wild_get_support (GrammeBackend *b, const GrammeImage *image, GrammeVerdict *verdicts,
                  uint32_t stride, GrammeStatus *status)
{
  (void) b, (void) status;
  for (uint32_t i = 0; i < image->nodes.count; i++) {
    GrammeVerdict *v = (GrammeVerdict *) (void *) ((char *) verdicts + (size_t) i * stride);
    v->reason = reason_of (image, gramme_image_node (image, i));
    v->support = v->reason == GRAMME_REASON_NONE;
  }
  ON_SUPPORT
  return GRAMME_OK;
}

static int32_t
wild_compile (GrammeBackend *b, const GrammeCompileRequest *request, GrammeExecutable **out,
              GrammeStatus *status)
{
  (void) b;
  const GrammeImage *image = request->forward;
  GrammeExecutable *e = calloc (1, sizeof *e);
  if (!e || request->backward)
    return gramme_fail (status, e ? GRAMME_UNSUPPORTED : GRAMME_NO_MEMORY, -1, "only a forward");
  e->n_inputs = image->inputs.count;
  e->n_nodes = image->nodes.count;
  e->n_values = image->values.count;
  e->n_outputs = image->outputs.count;
  e->n = gramme_value_numel (image, gramme_image_value (image, 0));
  for (uint32_t i = 0; i < e->n_nodes; i++) {
    const GrammeNode *n = gramme_image_node (image, i);
    e->nodes[i].op = n->op;
    e->nodes[i].a = gramme_node_in (image, n, 0);
    e->nodes[i].b = gramme_node_in (image, n, n->n_in - 1);
    e->nodes[i].out = n->out;
  }
  for (uint32_t i = 0; i < e->n_outputs; i++)
    e->outputs[i] = gramme_image_output (image, i)->value;
  *out = e;
  ON_COMPILE
  return GRAMME_OK;
}

static int32_t
wild_exec_info (GrammeExecutable *e, GrammeExecInfo *out, GrammeStatus *status)
{
  (void) e, (void) out, (void) status;
  return GRAMME_OK;
}

static int32_t
wild_workspace (GrammeExecutable *e, uint32_t role, const int64_t *sizes, uint64_t *bytes,
                GrammeStatus *status)
{
  (void) e, (void) role, (void) sizes, (void) status;
  *bytes = WORKSPACE;
  return GRAMME_OK;
}

static float
load (const GrammeExecutable *e, const GrammeRunArgs *args, const float *made, uint32_t value)
{
  (void) args;
  return made[value - e->n_inputs];
}

static int32_t
wild_run (GrammeExecutable *e, const GrammeRunArgs *args, GrammeStatus *status)
{
  (void) status;
  ON_RUN
  for (int64_t i = 0; i < e->n; i++) {
    float made[MAX_NODES];
    for (uint32_t k = 0; k < e->n_nodes; k++) {
      uint32_t in[2] = { e->nodes[k].a, e->nodes[k].b };
      float x[2];
      for (int j = 0; j < 2; j++)
        x[j] = in[j] < e->n_inputs
                   ? ((const float *) gramme_tensor_address (&args->inputs[in[j]]))[i]
                   : load (e, args, made, in[j]);
      made[k] = e->nodes[k].op == GRAMME_OP_add   ? x[0] + x[1]
                : e->nodes[k].op == GRAMME_OP_mul ? x[0] * x[1]
                                                  : -x[0];
    }
    for (uint32_t k = 0; k < e->n_outputs; k++)
      ((float *) gramme_tensor_address (&args->outputs[k]))[i] = made[e->outputs[k] - e->n_inputs];
  }
  AFTER_RUN
  return GRAMME_OK;
}

static void
wild_destroy (GrammeExecutable *e)
{
  ON_DESTROY
  free (e);
}

static const GrammeBackendApi api = {
#ifdef TABLE_BYTES
  .struct_size = TABLE_BYTES,
#else
  .struct_size = sizeof (GrammeBackendApi),
#endif
#ifdef TABLE_FLAGS
  .flags = TABLE_FLAGS,
#endif
#ifndef NO_open
  .open = wild_open,
#endif
#ifndef NO_close
  .close = wild_close,
#endif
#ifndef NO_get_support
  .get_support = wild_get_support,
#endif
#ifndef NO_compile
  .compile = wild_compile,
#endif
#ifndef NO_exec_info
  .exec_info = wild_exec_info,
#endif
  .workspace = wild_workspace,
#ifndef NO_run
  .run = wild_run,
#endif
#ifndef NO_destroy
  .destroy = wild_destroy,
#endif
};

/* -- Note and descriptor ----------------------------------------------------------------------- */

#ifndef TEXT
#define TEXT                                                                                       \
  "[gramme-plugin]\nabi=" ABI "\nmin-host-minor=" NEEDS "\nid=org.example." NAME "\nname=" NAME    \
  "\nversion=1\nbit-exact=true\ndevices=cpu;\n" KEYS
#endif
#ifndef NOTE_BYTES
#define NOTE_BYTES sizeof (TEXT)
#endif

#ifndef NO_NOTE
static const struct {
  uint32_t name_bytes, text_bytes, type;
  char name[8];
  char text[(sizeof (TEXT) + 3) / 4 * 4];
} note __attribute__ ((section (".note.gramme.plugin"), used, aligned (4))) = {
  sizeof (GRAMME_NOTE_NAME), NOTE_BYTES, GRAMME_NOTE_TYPE, GRAMME_NOTE_NAME, TEXT
};
#endif

#ifndef DESCRIPTOR_BYTES
#define DESCRIPTOR_BYTES sizeof (GrammePlugin)
#endif
#ifndef DESCRIPTOR_MINOR
#define DESCRIPTOR_MINOR 1
#endif
#ifndef DESCRIPTOR_TEXT
#define DESCRIPTOR_TEXT TEXT
#endif
#ifndef DESCRIPTOR_API
#define DESCRIPTOR_API &api
#endif
#ifndef SANITIZERS
#define SANITIZERS GRAMME_SANITIZERS
#endif
static const GrammePlugin descriptor = { DESCRIPTOR_BYTES, DESCRIPTOR_MINOR, 0,
                                         SANITIZERS,       DESCRIPTOR_TEXT,  DESCRIPTOR_API };

#ifdef OTHER_SYMBOL
#define gramme_plugin_query_v0 OTHER_SYMBOL
GRAMME_EXPORT const GrammePlugin *gramme_plugin_query_v0 (const GrammeHost *host,
                                                          GrammeStatus *status);
#endif

const GrammePlugin *
gramme_plugin_query_v0 (const GrammeHost *host, GrammeStatus *status)
{
  (void) host, (void) status;
  ON_QUERY
  return &descriptor;
}
