/* SPDX-License-Identifier: Apache-2.0
 * backend.h -- back ends for the other rooms: get a back end by name, compile graphs, run them.
 *
 * gm_backend_compile asks the plugin about every node first.  The host's own eager executor runs
 * the nodes to which the plugin says NO, and those that it fails to compile as unsupported: the
 * result is right, and the reason is kept (gm_exec_fallback_reason, gm_exec_places_text), logged on
 * the channel graph_breaks and counted.  An error of a run is raised, never hidden by running
 * again.
 */
#ifndef GM_RUN_BACKEND_H
#define GM_RUN_BACKEND_H

#include "core/graph/graph.h"

typedef struct GmBackend GmBackend; /* a plugin that was loaded and opened; lives as long as the
                                     * process */
/* A compiled graph, perhaps with its backward (but see compiled_pair.h); immutable, with a
 * reference count. */
typedef struct GmExec GmExec;

/* Returns the back end `name` (a plugin's name or id), which is loaded on first use.  Borrowed;
 * lives as long as the process.  Fails with GM_ERROR_VALUE, which lists similar and installed names
 * or says why the file is refused, or with GM_ERROR_BACKEND if the plugin could not be started.
 * Thread: any. */
GmBackend *gm_backend_get (const char *name, GError **error);
const char *gm_backend_name (const GmBackend *b);

/* True if the "key=value" options (NULL: none) are allowed by the manifest; else sets
 * GM_ERROR_VALUE. */
bool gm_backend_check_options (const GmBackend *b, const char *const *options, GError **error);

/* Compiles a forward and, unless it is NULL, a backward, and returns a new reference.  Both graphs
 * are functional and borrowed for the call.  options: NULL, or a NULL-terminated list.  Errors:
 * GM_ERROR_VALUE (options), GM_ERROR_MEMORY, GM_ERROR_BACKEND (the plugin's message).  Thread:
 * any. */
GmExec *gm_backend_compile (GmBackend *b, const GmGraph *forward, const GmGraph *backward,
                            const char *const *options, GError **error);

/* Settings of a compilation.  All pointers are borrowed for the call. */
typedef struct {
  /* NULL, or an atomic int that becomes 1 when the result is not wanted any more: the compilation
   * then fails with an error. */
  const int *stop;
  /* True: the compilation fails, with an error that is not shown to the user, unless the code is in
   * the cache on disk. */
  bool cached_only;
  /* NULL, or the reason why the cache on disk is neither read nor written. */
  const char *no_cache;
  /* NULL, or a text that becomes part of the cache's key, to distinguish the code. */
  const char *cache_salt;
} GmCompileHow;
GmExec *gm_backend_compile_how (GmBackend *b, const GmGraph *forward, const GmGraph *backward,
                                const char *const *options, const GmCompileHow *how,
                                GError **error);

enum { GM_EXEC_FORWARD = 0, GM_EXEC_BACKWARD = 1 };

/* Runs a graph.  in, out: tensors for the graph's inputs and outputs, in order, with their sizes,
 * strides and dtypes (checked).  Outputs are the caller's memory; they overlap neither each other
 * nor the inputs.  Symbolic sizes are read from the tensors, and strides are compared only in
 * dimensions of more than one element.  Errors: GM_ERROR_RUNTIME if a tensor does not fit,
 * GM_ERROR_BACKEND, GM_ERROR_INDEX, GM_ERROR_MEMORY from the run.  Thread: any, also several at
 * once on one exec. */
bool gm_exec_run (GmExec *e, int role, GmTensor *const *in, int n_in, GmTensor *const *out,
                  int n_out, GError **error);

/* Runs a graph as gm_exec_run, for a caller who knows that all tensors fit, because the caller made
 * the outputs and checked the inputs.  symbols: NULL, or as in gm_exec_run_sized. */
bool gm_exec_run_known (GmExec *e, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
                        GmTensor *const *out, int n_out, GError **error);

/* The result of gm_exec_run_at, which runs a forward with symbolic sizes that is one piece of a
 * plugin's code, without any tensors.  data: the address of the first element of each input, then
 * of each output.  The caller guarantees that they have the layouts that the graph states for these
 * symbols, and that the graph's facts hold.  GM_RUN_UNABLE: the exec is not of this kind now (see
 * gm_exec_runs_at), and nothing was run. */
typedef enum { GM_RUN_FAILED, GM_RUN_DONE, GM_RUN_UNABLE } GmRunAt;
GmRunAt gm_exec_run_at (GmExec *e, const int64_t *symbols, void *const *data, GError **error);
bool gm_exec_runs_at (GmExec *e); /* true if gm_exec_run_at can run the exec now */

/* Runs a graph as gm_exec_run, with the value of each symbol of the forward graph, by number.
 * Needed for a backward whose inputs do not determine all of its symbols. */
bool gm_exec_run_sized (GmExec *e, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
                        GmTensor *const *out, int n_out, GError **error);

GmExec *gm_exec_ref (GmExec *e);
void gm_exec_unref (GmExec *e); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmExec, gm_exec_unref)

/* True if a run may be given the memory of input `in` as that of output `out`.  Both must have the
 * same layout, and nothing may read the input afterwards.  All pairs for which this function
 * returned true may be used in one run.  Must be called before the second run of the exec. */
bool gm_exec_may_share (GmExec *e, int role, uint32_t in, uint32_t out);

/* Returns the reason why the host's eager executor runs the graph or a part of it (the first, if
 * there are several); NULL: it runs none.  Borrowed. */
const char *gm_exec_fallback_reason (const GmExec *e);
double gm_exec_compile_ms (const GmExec *e);
const char *gm_exec_backend_name (const GmExec *e);
/* Returns a text that says which nodes run where and why, with a line for each part; with `every`,
 * for each node.  NULL: there is nothing to run.  The caller frees. */
char *gm_exec_places_text (const GmExec *e, bool every);
/* Returns a text of the given kind about a compiled graph ("cuda", "ptx"), made by the back end.
 * NULL: GM_ERROR_VALUE for an unknown kind, or the plugin's error.  The caller frees. */
char *gm_exec_text (GmExec *e, const char *kind, GError **error);
/* Returns a text of the given kind about the back end itself, such as "about": a few lines on what
 * the back end found on this machine.  NULL: there is none.  The caller frees. */
char *gm_backend_text (GmBackend *b, const char *kind);
/* Number of bytes that a run takes from gm_alloc and leaves for the next run. */
uint64_t gm_exec_workspace_bytes (const GmExec *e, int role);
/* Number of graphs compiled since the process began.  A backward in the request of its forward is
 * not counted; code from the cache on disk, and graphs that the host runs, are.  A graph with
 * symbolic sizes counts once where the back end takes symbols. */
uint64_t gm_backend_compiles (void);
/* Number of requests that fell back to the host's eager executor since the process began. */
uint64_t gm_backend_fallbacks (void);

#endif
