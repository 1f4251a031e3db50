/* SPDX-License-Identifier: Apache-2.0
 * watched.c -- the plugin eager that checks when it is called: two compiles or two runs at once
 * raise an error, a run of a destroyed executable ends the process.  Its compile takes a while, and
 * calls the host from another thread meanwhile.
 *
 *   -DNAME=x      its name
 *   -DSERIAL      its manifest says compile-serial
 *   -DCONCURRENT  its manifest says run-concurrent
 *   -DDEVICE=x    its device, which dies with the process that opened it: a call in another process
 *                 aborts
 */
#include <gramme-plugin-util.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#pragma push_macro("GRAMME_PLUGIN_DEFINE")
#undef GRAMME_PLUGIN_DEFINE
#define GRAMME_PLUGIN_DEFINE(api_table, keys) static const GrammeBackendApi *eager_api (void)
#include "plugins/eager/eager.c"
#pragma pop_macro("GRAMME_PLUGIN_DEFINE")

static const GrammeBackendApi *
eager_api (void)
{
  return &api;
}

#define A_WHILE 20000 /* us */

typedef struct {
  const GrammeHost *host;
  void *job;
} Caller;

static int compiling, running, destroyed; /* atomic */
static pid_t opened_by;

static void
use_device (void)
{
#ifdef DEVICE
  if (getpid () != opened_by)
    abort ();
#endif
}

static int32_t
watched_open (const GrammeHost *host, const GrammeOption *options, uint32_t n, GrammeBackend **out,
              GrammeStatus *status)
{
  opened_by = getpid ();
  return eager_api ()->open (host, options, n, out, status);
}

static int32_t
watched_get_support (GrammeBackend *b, const GrammeImage *image, GrammeVerdict *verdicts,
                     uint32_t stride, GrammeStatus *status)
{
  use_device ();
  return eager_api ()->get_support (b, image, verdicts, stride, status);
}

static void *
call_the_host (void *data)
{
  const Caller *c = data;
  const GrammeHost *h = c->host;
  h->log (h->ctx, GRAMME_LOG_DEBUG, "plugins", "hello", 5);
  h->diag (c->job, GRAMME_LOG_DEBUG, -1, "hello", 5);
  h->progress (c->job, "hello", 1, 2);
  h->free (h->ctx, h->alloc (h->ctx, 100, 8), 100, 8);
  h->get_extension (h->ctx, GRAMME_TILES_ID);
  return NULL;
}

static int32_t
watched_compile (GrammeBackend *b, const GrammeCompileRequest *request, GrammeExecutable **out,
                 GrammeStatus *status)
{
  Caller c = { b->host, request->job };
  pthread_t other;
  use_device ();
  int n = __atomic_add_fetch (&compiling, 1, __ATOMIC_SEQ_CST);
  if (pthread_create (&other, NULL, call_the_host, &c) == 0)
    pthread_join (other, NULL);
  usleep (A_WHILE);
  int32_t code = eager_api ()->compile (b, request, out, status);
  __atomic_sub_fetch (&compiling, 1, __ATOMIC_SEQ_CST);
  if (code == GRAMME_OK && n > 1) {
    eager_api ()->destroy (*out);
    return gramme_fail (status, GRAMME_DEVICE, -1, "two compiles at once");
  }
  return code;
}

static int32_t
watched_run (GrammeExecutable *e, const GrammeRunArgs *args, GrammeStatus *status)
{
  use_device ();
  int n = __atomic_add_fetch (&running, 1, __ATOMIC_SEQ_CST);
  usleep (A_WHILE);
  if (__atomic_load_n (&destroyed, __ATOMIC_SEQ_CST))
    abort ();
  int32_t code = eager_api ()->run (e, args, status);
  __atomic_sub_fetch (&running, 1, __ATOMIC_SEQ_CST);
  return code == GRAMME_OK && n > 1 ? gramme_fail (status, GRAMME_DEVICE, -1, "two runs at once")
                                    : code;
}

static void
watched_destroy (GrammeExecutable *e)
{
  use_device ();
  if (__atomic_load_n (&running, __ATOMIC_SEQ_CST))
    __atomic_store_n (&destroyed, 1, __ATOMIC_SEQ_CST);
  eager_api ()->destroy (e);
}

static const GrammeBackendApi watched = {
  .struct_size = sizeof (GrammeBackendApi),
  .open = watched_open,
  .close = eager_close,
  .get_support = watched_get_support,
  .compile = watched_compile,
  .exec_info = eager_exec_info,
  .workspace = eager_workspace,
  .run = watched_run,
  .destroy = watched_destroy,
};

#ifdef SERIAL
#define COMPILE_FLAG "compile-serial;"
#else
#define COMPILE_FLAG ""
#endif
#ifdef CONCURRENT
#define RUN_FLAG "run-concurrent;"
#else
#define RUN_FLAG ""
#endif
#ifndef DEVICE
#define DEVICE cpu
#endif
GRAMME_PLUGIN_DEFINE (
    watched,
    "id=org.example." GRAMME_TEXT (
        NAME) "\n"
              "name=" GRAMME_TEXT (NAME) "\n"
                                         "version=1\n"
                                         "devices=" GRAMME_TEXT (
                                             DEVICE) ";\n"
                                                     "flags=backward;" COMPILE_FLAG RUN_FLAG "\n");
