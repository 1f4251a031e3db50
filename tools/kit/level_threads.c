/* SPDX-License-Identifier: Apache-2.0
 * level_threads.c -- level 9: many threads at once, as the manifest allows.
 */
#include <string.h>

#include "core/run/plugin_host.h"
#include "tools/kit/kit.h"

#define RUNNERS 32
#define WAIT_MS 5000

typedef struct {
  Kit *k;
  GMutex serial; /* taken only where the plugin allows one call at a time */
  bool is_serial;
  GmGraph *g[4];
  GmTensor **in[4], **want[4];
  GrammeExecutable *e[4];
  int rounds;
} Crowd;

static void
crowd_init (Crowd *c, Kit *k)
{
  *c = (Crowd){ .k = k };
  g_mutex_init (&c->serial);
  kit_open (k);
  for (int i = 0; i < 4; i++) {
    c->g[i] = i % 2 ? kit_chain (k, 3 + 40 * i, 5 + i, 4 + 7 * (uint32_t) i)
                    : kit_small_graph (k, 3 + 40 * i, 5 + i);
    c->in[i] = kit_inputs (c->g[i], (uint64_t) i + 1, GM_RANDOM_TAME);
    c->want[i] = kit_interpret (k, c->g[i], c->in[i]);
  }
}

static void
crowd_clear (Crowd *c)
{
  for (int i = 0; i < 4; i++) {
    kit_free_tensors (c->in[i], c->g[i]->inputs->len);
    kit_free_tensors (c->want[i], c->g[i]->outputs->len);
    gm_graph_free (c->g[i]);
  }
  kit_close (c->k);
}

static void
compile_some (void *data, unsigned i)
{
  Crowd *c = data;
  for (int round = 0; round < c->rounds; round++) {
    unsigned n = (i + (unsigned) round) % 4;
    if (c->is_serial)
      g_mutex_lock (&c->serial);
    GrammeExecutable *e = kit_compile (c->k, c->g[n], NULL);
    if (c->is_serial)
      g_mutex_unlock (&c->serial);
    kit_run (c->k, e, GRAMME_FORWARD, c->g[n], c->in[n], c->want[n], NULL);
    kit_destroy (c->k, e);
  }
}

void
kit_threads_compile (Kit *k)
{
  Crowd c;
  crowd_init (&c, k);
  c.is_serial = kit_has_flag (k, "compile-serial");
  c.rounds = g_strv_length (k->manifest->needs) ? 2 : 25;
  kit_on_threads (4, compile_some, &c);
  crowd_clear (&c);
}

static void
run_some (void *data, unsigned i)
{
  Crowd *c = data;
  for (int round = 0; round < 40; round++) {
    unsigned n = c->is_serial ? i % 4 : (i + (unsigned) round) % 4;
    if (c->is_serial)
      g_mutex_lock (&c->serial);
    kit_run (c->k, c->e[n], GRAMME_FORWARD, c->g[n], c->in[n], c->want[n], NULL);
    if (c->is_serial)
      g_mutex_unlock (&c->serial);
  }
}

/* Runs one executable in as many threads as there are, if the manifest says run-concurrent; else
 * each of four threads has its own. */
void
kit_threads_run (Kit *k)
{
  Crowd c;
  bool concurrent = kit_has_flag (k, "run-concurrent");
  crowd_init (&c, k);
  for (int i = 0; i < 4; i++)
    c.e[i] = kit_compile (k, c.g[i], NULL);
  c.is_serial = false;
  if (concurrent)
    kit_on_threads (RUNNERS, run_some, &c);
  else {
    c.rounds = 3;
    kit_on_threads (4, compile_some, &c); /* different executables may always run at once */
  }
  for (int i = 0; i < 4; i++)
    kit_destroy (k, c.e[i]);
  crowd_clear (&c);
}

/* -- Callbacks --------------------------------------------------------------------------------- */

/* State of two threads: while the plugin calls the host, the other thread calls a function of the
 * plugin that any thread may call. */
typedef struct {
  Kit *k;
  const GmGraph *g;
  GMutex lock;
  GCond changed;
  bool wanted, done, over;
  bool busy; /* true: do not wait again for a call by the other thread */
} Meeting;

static __thread bool is_the_other;

static void *
other_thread (void *data)
{
  Meeting *m = data;
  is_the_other = true;
  for (;;) {
    g_mutex_lock (&m->lock);
    while (!m->wanted && !m->over)
      g_cond_wait (&m->changed, &m->lock);
    bool over = m->over;
    g_mutex_unlock (&m->lock);
    if (over)
      return NULL;
    g_free (kit_ask (m->k, m->g));
    g_mutex_lock (&m->lock);
    m->wanted = false;
    m->done = true;
    g_cond_broadcast (&m->changed);
    g_mutex_unlock (&m->lock);
  }
}

static void
meet (void *data)
{
  Meeting *m = data;
  if (is_the_other)
    return;
  g_mutex_lock (&m->lock);
  if (!m->busy) {
    m->busy = m->wanted = true;
    m->done = false;
    g_cond_broadcast (&m->changed);
    gint64 end = g_get_monotonic_time () + WAIT_MS * G_TIME_SPAN_MILLISECOND;
    while (!m->done)
      if (!g_cond_wait_until (&m->changed, &m->lock, end))
        kit_fail (m->k, NULL,
                  "holds a lock while it calls the host: get_support in another thread does not "
                  "come back");
    m->busy = false;
  }
  g_mutex_unlock (&m->lock);
}

void
kit_threads_callbacks (Kit *k)
{
  kit_open (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 3, 4);
  GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME), **want = kit_interpret (k, g, in);
  Meeting m = { .k = k, .g = g };
  g_mutex_init (&m.lock);
  g_cond_init (&m.changed);
  GThread *other = g_thread_new ("other", other_thread, &m);
  k->host.called_data = &m;
  k->host.called = meet;
  GrammeExecutable *e = kit_compile (k, g, NULL);
  kit_run (k, e, GRAMME_FORWARD, g, in, want, NULL);
  kit_destroy (k, e);
  k->host.called = NULL;
  g_mutex_lock (&m.lock);
  m.over = true;
  g_cond_broadcast (&m.changed);
  g_mutex_unlock (&m.lock);
  g_thread_join (other);
  kit_close (k);
}

/* -- The host's threads ------------------------------------------------------------------------ */

static uint32_t n_tasks_at_once;

static uint32_t
some_count (void *ctx)
{
  return n_tasks_at_once;
}

/* Runs all tasks on the calling thread, the last task first. */
static void
run_backwards (void *ctx, uint32_t n, void (*task) (void *arg, uint32_t i), void *arg)
{
  while (n-- > 0)
    task (arg, n);
}

void
kit_threads_tasks (Kit *k)
{
  static const GrammeThreads backwards = { .struct_size = sizeof backwards,
                                           .count = some_count,
                                           .run = run_backwards };
  static const uint32_t counts[] = { 1, 8, 64 };
  for (size_t i = 0; i <= G_N_ELEMENTS (counts); i++) {
    k->query = NULL;
    kit_host_init (k, k->host_minor);
    k->host.no_threads = i == G_N_ELEMENTS (counts);
    k->host.threads = &backwards;
    n_tasks_at_once = i < G_N_ELEMENTS (counts) ? counts[i] : 1;
    kit_open (k);
    g_autoptr (GmGraph) g = kit_small_graph (k, 513, 129);
    GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME);
    kit_check_graph (k, g, in);
    kit_free_tensors (in, g->inputs->len);
    kit_close (k);
  }
}
