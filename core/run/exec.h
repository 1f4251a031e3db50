/* SPDX-License-Identifier: Apache-2.0
 * exec.h -- the fields of GmExec, which backend.c makes and exec.c runs.
 */
#ifndef GM_RUN_EXEC_H
#define GM_RUN_EXEC_H

#include "core/base/log.h"
#include "core/base/yield.h"
#include "core/ops/packs.h"
#include "core/run/backend.h"
#include "core/run/artefacts.h"
#include "core/plugin/fpu.h"
#include "core/plugin/loader.h"

struct GmBackend {
  const GmPlugin *plugin;
  GrammeBackend *instance;
  const char *name;
  GmArtefacts artefacts;
  GmYieldLock compile_lock; /* used only if the manifest says compile-serial */
  bool compile_serial, run_concurrent;
  bool is_auto; /* not a plugin, but the combination of two: tiers.h */
};

/* An output that no code computes, because it is an input of the graph or the same value as an
 * earlier output: the host copies it. */
typedef struct {
  uint32_t out, from;
  bool from_input;
} GmExecCopy;

typedef struct GmExecSplit GmExecSplit; /* split.h */
typedef struct GmExecSized GmExecSized; /* sized.h */
typedef struct GmTiers GmTiers;         /* tiers.h */

/* The place of a node, and the reason for it. */
/* INSIDE: computed by each region that reads its result */
enum { GM_PLACE_INSIDE, GM_PLACE_PLUGIN, GM_PLACE_HOST };
typedef struct {
  /* region: number of the plugin's region, counted over both roles; GM_NO_ID: none */
  uint32_t where, region;
  /* NULL, or the reason why the host runs the node; owned by the manifest, the exec or `owned` */
  const char *why;
} GmExecPlace;
typedef struct {
  GmExecPlace *rows; /* by node of the graph */
  char **names;      /* by node: "exp at train.py:12" */
  GPtrArray *owned;  /* char: the reasons that this struct owns; NULL: none */
  uint32_t n;
} GmExecPlaces;

/* A graph of a request (a role), ready to run.  Immutable but for `spare`. */
typedef struct {
  bool present;
  /* The graph is the backward of a function; used in messages.  Such a graph may have been compiled
   * by itself, as a forward. */
  bool is_backward;
  uint32_t n_in, n_out;
  GmMeta *metas;    /* n_in, then n_out */
  uint32_t n_inner; /* number of outputs that the executable writes: the inner outputs */
  uint32_t *inner;  /* the numbers of the inner outputs among the n_out outputs */
  /* Descriptions, without data, of the tensors that the executable gets: n_in, then n_inner; they
   * point into metas.  NULL: nothing is run. */
  GrammeTensor *known;
  GArray *copies;      /* GmExecCopy */
  GmGraph *eager;      /* not NULL: the host runs this graph, whose outputs are the inner ones,
                        * itself */
  GmExecSplit *split;  /* not NULL: the plugin runs parts of this graph, whose outputs are the
                        * inner ones */
  GmExecPlaces places; /* of the inner graph's nodes */
  size_t workspace_bytes,
      block_bytes; /* size of the block that a run needs: the workspace, then descriptions of
                    * tensors if the stack has no room for them */
  void *spare;     /* atomic: a block for the next run, or NULL while a run has it */
} GmExecRole;

struct GmExec {
  gatomicrefcount refs;
  GmBackend *backend;
  GrammeExecutable *executable; /* NULL if nothing was given to the plugin */
  GMutex run_lock;              /* used only if the plugin does not say run-concurrent */
  GmExecRole roles[2];
  GmExecSized *sized; /* not NULL: sizes are symbolic, and each run determines their values */
  char *fallback_reason;
  double compile_ms;
  /* Not NULL: this exec stands for two others, one of which runs; it has only names and times. */
  GmTiers *tiers;
};

static inline const char *
gm_exec_role_name (const GmExec *e, int role)
{
  return role == GM_EXEC_BACKWARD || e->roles[role].is_backward ? "backward" : "forward";
}

/* Returns the phrase for the `doing` argument of gm_status_to_error, for a run of `role`. */
static inline const char *
gm_exec_run_name (const GmExec *e, int role)
{
  return role == GM_EXEC_BACKWARD || e->roles[role].is_backward ? "run of the backward" : "run";
}

/* The largest block, in bytes, that a run leaves for the next run.  A larger block costs little
 * compared with the run that needs it, and keeping it would take memory from other code: a
 * backward's block from the forward. */
#define GM_EXEC_KEPT_BYTES ((size_t) 64 * 1024)

/* The largest number of tensors of a run that are described on the stack. */
#define GM_EXEC_STACK_TENSORS 32

G_STATIC_ASSERT (offsetof (GmMeta, sizes) == sizeof (uint64_t));

/* True if the tensor has the meta's dtype, device, sizes and strides. */
static inline bool
gm_exec_fits (const GmTensor *t, const GmMeta *m)
{
  static const GmMeta all = { .dtype = 0xff, .ndim = 0xff, .device = 0xff };
  uint64_t have, want, mask; /* the bytes before the sizes, compared at once */
  int64_t differ = 0;
  if (G_UNLIKELY (!t))
    return false;
  memcpy (&have, &t->meta, sizeof have);
  memcpy (&want, m, sizeof want);
  memcpy (&mask, &all, sizeof mask);
  if ((have ^ want) & mask)
    return false;
  for (int i = 0; i < m->ndim; i++)
    differ |= (t->meta.sizes[i] ^ m->sizes[i]) | (t->meta.strides[i] ^ m->strides[i]);
  return differ == 0;
}

/* Fills *out with the description of a tensor of this meta for the plugin, without its data.  The
 * description points into m. */
static inline void
gm_exec_describe_meta (GrammeTensor *out, const GmMeta *m)
{
  const GmDtypeInfo *d = &gm_dtypes[m->dtype];
  out->data = NULL;
  out->device_type = m->device;
  out->device_id = 0;
  out->ndim = m->ndim;
  out->dtype_code = d->dlpack_code;
  out->dtype_bits = d->bits;
  out->dtype_lanes = 1;
  out->shape = (int64_t *) m->sizes;
  out->strides = (int64_t *) m->strides;
  out->byte_offset = 0;
}

/* Fills *out with the description of the caller's tensor for the plugin.  The description points
 * into t. */
static inline void
gm_exec_describe (GrammeTensor *out, const GmTensor *t)
{
  gm_exec_describe_meta (out, &t->meta);
  out->data = gm_tensor_data (t);
}

/* Fills `described`, which has room for n_in and n_inner tensors or is NULL, with descriptions of
 * the tensors that the executable gets, made from `known`.  Returns true if all tensors have the
 * layouts of `metas` (inputs, then outputs), or known_to_fit, which skips the comparison. */
__attribute__ ((always_inline)) static inline bool
gm_exec_take (const GmExecRole *r, const GmMeta *metas, const GrammeTensor *known,
              GmTensor *const *in, GmTensor *const *out, GrammeTensor *described, bool known_to_fit)
{
  const GmMeta *m = metas;
  uint32_t next = 0; /* next inner output, in the order of the outputs */
  for (uint32_t i = 0; i < r->n_in; i++, m++) {
    if (!known_to_fit && G_UNLIKELY (!gm_exec_fits (in[i], m)))
      return false;
    if (described) {
      *described = *known++;
      described++->data = gm_tensor_data (in[i]);
    }
  }
  for (uint32_t i = 0; i < r->n_out; i++, m++) {
    if (!known_to_fit && G_UNLIKELY (!gm_exec_fits (out[i], m) || out[i]->storage->readonly))
      return false;
    if (described && next < r->n_inner && r->inner[next] == i) {
      next++;
      *described = *known++;
      described++->data = gm_tensor_data (out[i]);
    }
  }
  return true;
}

/* Copies the elements of `from` into the memory of `to`, which has its shape. */
static inline bool
gm_exec_copy (GmTensor *from, GmTensor *to, GError **error)
{
  gm_tensor_share_companion (to, from);
  return gm_op_run_into (GM_OP_copy, &from, 1, NULL, to, error);
}

static inline int32_t
gm_exec_call_unlocked (const GmExec *e, GrammeExecutable *code, const GrammeRunArgs *args,
                       GrammeStatus *status)
{
  GmFpuControl before = gm_fpu_look ();
  bool outer = gm_packs_begin ();
  int32_t result = e->backend->plugin->api.run (code, args, status);
  gm_packs_end (outer);
  if (G_UNLIKELY (!gm_fpu_equal (before, gm_fpu_look ())))
    gm_fpu_restore (e->backend->plugin, before, "in a run");
  return result;
}

/* Calls the plugin's run, under the exec's lock if the plugin can't run concurrently. */
static inline int32_t
gm_exec_call (GmExec *e, GrammeExecutable *code, const GrammeRunArgs *args, GrammeStatus *status)
{
  if (G_LIKELY (e->backend->run_concurrent))
    return gm_exec_call_unlocked (e, code, args, status);
  g_mutex_lock (&e->run_lock);
  int32_t result = gm_exec_call_unlocked (e, code, args, status);
  g_mutex_unlock (&e->run_lock);
  return result;
}

/* Runs a role that is split between plugin and host.  symbols: values of its graph's symbols; NULL:
 * its sizes are numbers. */
bool gm_exec_run_split (GmExec *e, const GmExecRole *r, const int64_t *symbols, GmTensor *const *in,
                        GmTensor *const *out, GError **error);

#endif
