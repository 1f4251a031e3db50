/* SPDX-License-Identifier: Apache-2.0
 * rerun.c -- the program's functions run once for a backward, also where its compiled code fails.
 *
 * A compiled backward that fails has added no gradient to any leaf, where the plain one would have
 * added some.  So the plain one runs instead (plan_history.c).  Hooks and histories of functions
 * that are nodes of the graph have run by then, and are the program's: what each of them returned,
 * or raised, is noted, and returned again where the plain backward comes to it.
 * Requires: one function is called in the same order by both (join.c).
 */
#include "core/aot/rerun.h"

typedef struct {
  const void *of;     /* identifies the function; NULL: the call has been taken */
  GmTensor **results; /* owned */
  uint32_t n;
  GError *error; /* owned */
} Noted;

static _Thread_local GmRerun *now;

static void
noted_clear (gpointer p)
{
  Noted *c = p;

  for (uint32_t i = 0; i < c->n; i++)
    if (c->results[i])
      gm_tensor_unref (c->results[i]);
  g_free (c->results);
  g_clear_error (&c->error);
}

void
gm_rerun_begin (GmRerun *r)
{
  *r = (GmRerun){ .around = now };
  now = r;
}

void
gm_rerun_end (GmRerun *r)
{
  now = r->around;
  g_clear_pointer (&r->calls, g_array_unref);
}

bool
gm_rerun_has_failed (const GmRerun *r)
{
  return r->calls && g_array_index (r->calls, Noted, r->calls->len - 1).error;
}

void
gm_rerun_note (const void *of, GmTensor *const *results, uint32_t n, const GError *error)
{
  if (!now || now->again)
    return;
  Noted c = { of, g_new0 (GmTensor *, n + 1), n, error ? g_error_copy (error) : NULL };
  for (uint32_t i = 0; i < n && !error; i++)
    c.results[i] = results[i] ? gm_tensor_ref (results[i]) : NULL;
  if (!now->calls) {
    now->calls = g_array_new (FALSE, FALSE, sizeof (Noted));
    g_array_set_clear_func (now->calls, noted_clear);
  }
  g_array_append_val (now->calls, c);
}

bool
gm_rerun_take (const void *of, GmTensor **results, uint32_t n, bool *ok, GError **error)
{
  Noted *c = NULL;

  for (uint32_t i = 0; now && now->again && now->calls && i < now->calls->len && !c; i++)
    if (g_array_index (now->calls, Noted, i).of == of)
      c = &g_array_index (now->calls, Noted, i);
  if (!c)
    return false;
  g_assert (c->n == n);
  c->of = NULL;
  *ok = !c->error;
  if (c->error)
    g_propagate_error (error, g_steal_pointer (&c->error));
  for (uint32_t i = 0; i < n && *ok; i++)
    results[i] = g_steal_pointer (&c->results[i]);
  return true;
}
