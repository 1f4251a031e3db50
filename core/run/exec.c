/* SPDX-License-Identifier: Apache-2.0
 * exec.c -- the warm call: check the tensors, describe them, call the plugin.
 *
 * This is on the path of every call of a compiled function, so it allocates nothing: descriptions
 * are on the stack, and the workspace is a block that a run takes from the exec by an atomic
 * exchange and leaves there for the next run, unless it is large.  A second run at the same time
 * finds no block and allocates one, so runs need no lock.  Everything that reaches a plugin was
 * checked (counts, shapes, strides, dtypes, no NULL, no read-only output), either by gm_exec_run or
 * by the caller of gm_exec_run_known; builds with checks verify the latter again.
 */
#include "core/run/exec.h"

#include <string.h>

#include "core/run/sized.h"
#include "core/run/split.h"
#include "core/plugin/status.h"
#include "core/run/tiers.h"

#include "plugin-api/gramme-ext-draft.h"

/* -- Checks ------------------------------------------------------------------------------------ */

G_GNUC_NO_INLINE static bool
fail_tensor (const GmExec *e, int role, const char *kind, uint32_t i, const GmTensor *t,
             const GmMeta *m, GError **error)
{
  g_autofree char *want = gm_meta_layout_text (m),
                  *have = t ? gm_meta_layout_text (&t->meta) : g_strdup ("NULL");
  g_set_error (
      error, GM_ERROR, GM_ERROR_RUNTIME,
      "compiled %s (%s): %s %u is %s, it was compiled for %s%s; compile again for these tensors",
      gm_exec_role_name (e, role), e->backend->name, kind, i, have, want,
      t && t->storage->readonly ? ", writable" : "");
  return false;
}

G_GNUC_NO_INLINE static bool
fail_count (const GmExec *e, int role, int n_in, int n_out, GError **error)
{
  const GmExecRole *r = &e->roles[role];
  const char *name = gm_exec_role_name (e, role);
  if (!r->present)
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "compiled %s (%s): it was compiled without one",
                 name, e->backend->name);
  else
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "compiled %s (%s): got %d inputs and %d outputs, it has %u and %u", name,
                 e->backend->name, n_in, n_out, r->n_in, r->n_out);
  return false;
}

/* Sets an error that names the first tensor of a run that does not fit.  Returns false. */
G_GNUC_NO_INLINE static bool
fail_fit (const GmExec *e, const GmExecRole *r, int role, GmTensor *const *in, GmTensor *const *out,
          GError **error)
{
  for (uint32_t i = 0; i < r->n_in; i++)
    if (!gm_exec_fits (in[i], &r->metas[i]))
      return fail_tensor (e, role, "input", i, in[i], &r->metas[i], error);
  for (uint32_t i = 0; i < r->n_out; i++) {
    const GmMeta *m = &r->metas[r->n_in + i];
    if (!gm_exec_fits (out[i], m) || out[i]->storage->readonly)
      return fail_tensor (e, role, "output", i, out[i], m, error);
  }
  g_assert_not_reached ();
}

__attribute__ ((always_inline)) static inline bool
check (const GmExec *e, const GmExecRole *r, int role, GmTensor *const *in, GmTensor *const *out,
       GrammeTensor *described, bool known_to_fit, GError **error)
{
  return G_LIKELY (gm_exec_take (r, r->metas, r->known, in, out, described, known_to_fit))
         || fail_fit (e, r, role, in, out, error);
}

/* -- The plugin's run -------------------------------------------------------------------------- */

static inline void *
block_take (GmExecRole *r)
{
  void *block = __atomic_exchange_n (&r->spare, NULL, __ATOMIC_ACQUIRE);
  return block ? block : gm_alloc (r->block_bytes);
}

static inline void
block_give (GmExecRole *r, void *block)
{
  void *none = NULL;
  if (r->block_bytes > GM_EXEC_KEPT_BYTES
      || !__atomic_compare_exchange_n (&r->spare, &none, block, false, __ATOMIC_RELEASE,
                                       __ATOMIC_RELAXED))
    gm_free (block, r->block_bytes);
}

/* Checks the tensors, unless known_to_fit, and calls the plugin's run of the role. */
__attribute__ ((always_inline)) static inline bool
run_plugin (GmExec *e, int role, GmTensor *const *in, GmTensor *const *out, bool known_to_fit,
            GError **error)
{
  GmExecRole *r = &e->roles[role];
  GrammeTensor stack[GM_EXEC_STACK_TENSORS], *tensors = stack;
  void *block = NULL;
  if (r->block_bytes) {
    block = block_take (r);
    if (!block) {
      g_set_error (error, GM_ERROR, GM_ERROR_MEMORY,
                   "no memory for the %zu bytes that a run of back end %s needs", r->block_bytes,
                   e->backend->name);
      return false;
    }
    if (r->block_bytes > r->workspace_bytes)
      tensors = (GrammeTensor *) ((char *) block + r->workspace_bytes);
  }
  if (!check (e, r, role, in, out, tensors, known_to_fit, error)) {
    if (block)
      block_give (r, block);
    return false;
  }
  const GrammeRunArgs args = {
    .struct_size = sizeof args,
    .role = (uint32_t) role,
    .inputs = tensors,
    .outputs = tensors + r->n_in,
    .n_inputs = r->n_in,
    .n_outputs = r->n_inner,
    .workspace = block,
    .workspace_bytes = r->workspace_bytes,
  };
  GrammeStatus status;
  gm_status_clear (&status);
  int32_t code = gm_exec_call (e, e->executable, &args, &status);
  if (block)
    block_give (r, block);
  if (G_LIKELY (code == GRAMME_OK))
    return true;
  gm_status_to_error (&status, code, e->backend->name, gm_exec_run_name (e, role), error);
  return false;
}

/* -- The host's own ---------------------------------------------------------------------------- */

/* Runs the whole graph of r node by node on the host, then copies the results into the caller's
 * memory. */
static bool
run_eager (const GmExecRole *r, GmTensor *const *in, GmTensor *const *out, GError **error)
{
  g_autofree GmTensor **made = g_new0 (GmTensor *, r->n_inner + 1);
  bool good = gm_graph_interpret (r->eager, in, made, error);
  for (uint32_t i = 0; i < r->n_inner; i++) {
    good = good && gm_exec_copy (made[i], out[r->inner[i]], error);
    gm_tensor_unref (made[i]);
  }
  return good;
}

static bool
run_copies (const GmExecRole *r, GmTensor *const *in, GmTensor *const *out, GError **error)
{
  for (guint i = 0; i < r->copies->len; i++) {
    const GmExecCopy *c = &g_array_index (r->copies, GmExecCopy, i);
    if (!gm_exec_copy (c->from_input ? in[c->from] : out[c->from], out[c->out], error))
      return false;
  }
  return true;
}

/* Runs a split role, whose outputs are the inner ones: passes the caller's tensors for these, in
 * their order. */
bool
gm_exec_run_split (GmExec *e, const GmExecRole *r, const int64_t *symbols, GmTensor *const *in,
                   GmTensor *const *out, GError **error)
{
  g_autofree GmTensor **inner = g_new (GmTensor *, r->n_inner + 1);
  for (uint32_t i = 0; i < r->n_inner; i++)
    inner[i] = out[r->inner[i]];
  return gm_split_run (e, r->split,
                       symbols ? gm_sized_graph (e->sized, (int) (r - e->roles)) : NULL, symbols,
                       in, inner, error);
}

/* Runs a role that the host executes itself, or that is split between the plugin and the host. */
G_GNUC_NO_INLINE static bool
run_other (GmExec *e, const GmExecRole *r, GmTensor *const *in, GmTensor *const *out,
           GError **error)
{
  return r->eager ? run_eager (r, in, out, error) : gm_exec_run_split (e, r, NULL, in, out, error);
}

/* Runs a role whose graph has symbolic sizes. */
G_GNUC_NO_INLINE static bool
run_sized (GmExec *e, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
           GmTensor *const *out, int n_out, GError **error)
{
  const GmExecRole *r = &e->roles[role];
  if (!r->present || (uint32_t) n_in != r->n_in || (uint32_t) n_out != r->n_out)
    return fail_count (e, role, n_in, n_out, error);
  return gm_sized_run (e, role, symbols, in, out, error)
         && (!r->copies || run_copies (r, in, out, error));
}

bool
gm_exec_run_sized (GmExec *e, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
                   GmTensor *const *out, int n_out, GError **error)
{
  if (e->tiers)
    return gm_tiers_run (e->tiers, role, symbols, in, n_in, out, n_out, error);
  return e->sized ? run_sized (e, role, symbols, in, n_in, out, n_out, error)
                  : gm_exec_run (e, role, in, n_in, out, n_out, error);
}

bool
gm_exec_run (GmExec *e, int role, GmTensor *const *in, int n_in, GmTensor *const *out, int n_out,
             GError **error)
{
  g_assert (role == GM_EXEC_FORWARD || role == GM_EXEC_BACKWARD);
  if (e->tiers)
    return gm_tiers_run (e->tiers, role, NULL, in, n_in, out, n_out, error);
  GmExecRole *r = &e->roles[role];
  if (G_UNLIKELY (e->sized))
    return run_sized (e, role, NULL, in, n_in, out, n_out, error);
  if (G_UNLIKELY (!r->present || (uint32_t) n_in != r->n_in || (uint32_t) n_out != r->n_out))
    return fail_count (e, role, n_in, n_out, error);
  if (G_LIKELY (r->n_inner > 0 && !r->eager && !r->split)) {
    if (!run_plugin (e, role, in, out, false, error))
      return false;
  } else if (!check (e, r, role, in, out, NULL, false, error)
             || (r->n_inner > 0 && !run_other (e, r, in, out, error))) {
    return false;
  }
  return !r->copies || run_copies (r, in, out, error);
}

bool
gm_exec_run_known (GmExec *e, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
                   GmTensor *const *out, int n_out, GError **error)
{
  GmExec *better = e->tiers ? gm_tiers_better (e->tiers) : e;
  const GmExecRole *r = better ? &better->roles[role] : NULL;
  if (G_LIKELY (r && !r->copies && r->n_inner > 0 && !r->eager)) {
    if (better->sized && symbols)
      return gm_sized_run_known (better, role, symbols, in, out, error);
    if (G_UNLIKELY (r->split))
      return gm_exec_run_sized (e, role, symbols, in, n_in, out, n_out, error);
#ifdef GM_DEBUG_CHECKS
    g_assert (better->sized || ((uint32_t) n_in == r->n_in && (uint32_t) n_out == r->n_out));
    for (int i = 0; i < n_in + n_out && !better->sized; i++)
      g_assert (gm_exec_fits (i < n_in ? in[i] : out[i - n_in], &r->metas[i]));
#endif
    if (!better->sized)
      return run_plugin (better, role, in, out, true, error);
  }
  return symbols ? gm_exec_run_sized (e, role, symbols, in, n_in, out, n_out, error)
                 : gm_exec_run (e, role, in, n_in, out, n_out, error);
}

bool
gm_exec_runs_at (GmExec *e)
{
  if (e->tiers) {
    bool does = gm_exec_runs_at (gm_tiers_enter (e->tiers));
    gm_tiers_leave (e->tiers);
    return does;
  }
  const GmExecRole *r = &e->roles[GM_EXEC_FORWARD];
  return e->sized && e->executable && !r->copies && !r->eager && !r->split
         && r->n_in + r->n_inner <= GM_EXEC_STACK_TENSORS;
}

GmRunAt
gm_exec_run_at (GmExec *e, const int64_t *symbols, void *const *data, GError **error)
{
  if (e->tiers)
    return gm_tiers_run_at (e->tiers, symbols, data, error);
  if (G_UNLIKELY (!gm_exec_runs_at (e)))
    return GM_RUN_UNABLE;
  return gm_sized_run_at (e, symbols, data, error) ? GM_RUN_DONE : GM_RUN_FAILED;
}

/* -- Donation ---------------------------------------------------------------------------------- */

bool
gm_exec_may_share (GmExec *e, int role, uint32_t in, uint32_t out)
{
  if (e->tiers)
    return gm_tiers_may_share (e->tiers, role, in, out);
  const GmExecRole *r = &e->roles[role];
  if (e->sized || !r->present || r->eager || r->split || !e->executable || in >= r->n_in)
    return false;
  const GrammeBackendApi *api = &e->backend->plugin->api;
  const GrammeDonation *d =
      api->get_extension ? api->get_extension (e->backend->instance, GRAMME_DONATION_ID) : NULL;
  for (guint i = 0; r->copies && i < r->copies->len; i++) {
    const GmExecCopy *c = &g_array_index (r->copies, GmExecCopy, i);
    if (c->from_input && c->from == in) /* the copy reads the input after the run */
      return false;
  }
  for (uint32_t k = 0; d && k < r->n_inner; k++)
    if (r->inner[k] == out)
      return d->may_share (e->executable, (uint32_t) role, in, k) == 1;
  return false;
}

/* -- Life -------------------------------------------------------------------------------------- */

GmExec *
gm_exec_ref (GmExec *e)
{
  g_atomic_ref_count_inc (&e->refs);
  return e;
}

static void
role_clear (GmExecRole *r, const GmBackend *b)
{
  gm_split_free (r->split, b);
  for (uint32_t i = 0; i < r->places.n; i++)
    g_free (r->places.names[i]);
  g_free (r->places.names);
  g_clear_pointer (&r->places.owned, g_ptr_array_unref);
  g_free (r->places.rows);
  if (r->spare)
    gm_free (r->spare, r->block_bytes);
  if (r->copies)
    g_array_unref (r->copies);
  if (r->eager)
    gm_graph_free (r->eager);
  g_free (r->known);
  g_free (r->metas);
  g_free (r->inner);
}

void
gm_exec_unref (GmExec *e)
{
  if (!e || !g_atomic_ref_count_dec (&e->refs))
    return;
  gm_tiers_free (e->tiers);
  if (e->executable)
    e->backend->plugin->api.destroy (e->executable);
  role_clear (&e->roles[GM_EXEC_FORWARD], e->backend);
  role_clear (&e->roles[GM_EXEC_BACKWARD], e->backend);
  gm_sized_free (e->sized);
  g_mutex_clear (&e->run_lock);
  g_free (e->fallback_reason);
  g_free (e);
}

const char *
gm_exec_fallback_reason (const GmExec *e)
{
  return e->fallback_reason;
}

double
gm_exec_compile_ms (const GmExec *e)
{
  return e->compile_ms;
}

const char *
gm_exec_backend_name (const GmExec *e)
{
  return e->backend->name;
}

uint64_t
gm_exec_workspace_bytes (const GmExec *e, int role)
{
  if (!e->tiers)
    return e->roles[role].workspace_bytes;
  uint64_t bytes = gm_exec_workspace_bytes (gm_tiers_enter (e->tiers), role);
  gm_tiers_leave (e->tiers);
  return bytes;
}
