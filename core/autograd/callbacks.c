/* SPDX-License-Identifier: Apache-2.0
 * callbacks.c -- functions that are called at the end of the running backward.
 *
 * A hook queues a callback; it is called once, after everything else of this walk, in the order of
 * queueing.  A walk inside of it has callbacks of its own.  If the walk fails, none is called.
 */
#include "core/autograd/walk.h"

typedef struct {
  GmFinalCallback fn;
  void *data;
  void (*destroy) (void *data);
} Callback;

static GM_THREAD GmWalk *running; /* the innermost walk */

bool
gm_autograd_queue_callback (GmFinalCallback fn, void *data, void (*destroy) (void *data),
                            GError **error)
{
  Callback c = { fn, data, destroy };

  if (!running) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "a final callback can only be queued while a backward runs: call this in a hook "
                 "or in the backward of a Function");
    return false;
  }
  if (!running->callbacks)
    running->callbacks = g_array_new (FALSE, FALSE, sizeof (Callback));
  g_array_append_val (running->callbacks, c);
  return true;
}

void
gm_walk_enter (GmWalk *w)
{
  w->around = running;
  if (!w->through)
    running = w;
}

bool
gm_walk_leave (GmWalk *w, bool ok, GError **error)
{
  /* a callback may queue another */
  for (guint i = 0; ok && w->callbacks && i < w->callbacks->len; i++) {
    Callback *c = &g_array_index (w->callbacks, Callback, i);
    ok = c->fn (c->data, error);
  }
  running = w->around;
  if (!running)
    gm_anomaly_told = NULL;
  for (guint i = 0; w->callbacks && i < w->callbacks->len; i++) {
    Callback *c = &g_array_index (w->callbacks, Callback, i);
    if (c->destroy)
      c->destroy (c->data);
  }
  g_clear_pointer (&w->callbacks, g_array_unref);
  return ok;
}
