/* SPDX-License-Identifier: Apache-2.0
 * backend.h -- back ends as the rest of the house uses them: get one by name, compile graphs, run.
 *
 * gm_backend_compile asks the plugin about every node first, and the host's own eager executor runs
 * what it says NO to, or fails to compile as unsupported: the result is right, the reason is kept
 * (gm_exec_fallback_reason, gm_exec_places_text), logged on the channel graph_breaks and counted.  An
 * error of a run is raised, never hidden by running again.
 */
#ifndef GM_PLUGIN_BACKEND_H
#define GM_PLUGIN_BACKEND_H

#include "core/graph/graph.h"

typedef struct GmBackend GmBackend; /* a plugin that was loaded and opened; process lifetime */
typedef struct GmExec
    GmExec; /* a compiled graph, perhaps with its backward (but see pair.h); immutable, reference counted */

/* Loads on first use.  name: a plugin's name or id.  Borrowed.  Errors: GM_ERROR_VALUE lists the
 * near and the installed names, or says why the file is refused; GM_ERROR_BACKEND if it could not
 * be started.  Thread: any. */
GmBackend *gm_backend_get (const char *name, GError **error);
const char *gm_backend_name (const GmBackend *b);

/* Checks "key=value" options against the manifest; NULL: none.  GM_ERROR_VALUE. */
bool gm_backend_check_options (const GmBackend *b, const char *const *options, GError **error);

/* Both graphs are functional and borrowed for the call; backward may be NULL.  options: NULL, or a
 * NULL-terminated list.  New reference. Errors: GM_ERROR_VALUE (options), GM_ERROR_MEMORY,
 * GM_ERROR_BACKEND (the plugin's message).  Thread: any. */
GmExec *gm_backend_compile (GmBackend *b, const GmGraph *forward, const GmGraph *backward,
                            const char *const *options, GError **error);

/* The same, and how to go about it.  All borrowed for the call. */
typedef struct {
  const int *stop;        /* NULL, or atomic: becomes 1 when nobody wants the result; then there is an error */
  bool cached_only;       /* an error, which nobody is to see, unless the code is in the cache on disk */
  const char *no_cache;   /* not NULL: neither look there nor store, for this reason */
  const char *cache_salt; /* NULL, or what else makes the code what it is: part of the key */
} GmCompileHow;
GmExec *gm_backend_compile_how (GmBackend *b, const GmGraph *forward, const GmGraph *backward,
                                const char *const *options, const GmCompileHow *how, GError **error);

enum { GM_EXEC_FORWARD = 0, GM_EXEC_BACKWARD = 1 };

/* in, out: as the graph's inputs and outputs, in order, with their sizes, strides and dtypes
 * (checked).  Outputs are the caller's memory; they overlap neither each other nor the inputs.
 * Where sizes are symbolic, tensors say what they are, and their strides count only where it matters.
 * Errors: GM_ERROR_RUNTIME if a tensor does not fit, GM_ERROR_BACKEND, GM_ERROR_INDEX,
 * GM_ERROR_MEMORY from the run.  Thread: any, also at once on one exec. */
bool gm_exec_run (GmExec *e, int role, GmTensor *const *in, int n_in, GmTensor *const *out,
                  int n_out, GError **error);

/* The same of the forward, whose caller knows that all tensors fit: it has made the outputs, and checked the inputs.  symbols: NULL, or as
 * those of gm_exec_run_sized. */
bool gm_exec_run_known (GmExec *e, int role, const int64_t *symbols, GmTensor *const *in, int n_in, GmTensor *const *out, int n_out,
                        GError **error);

/* The same of a forward with symbolic sizes that is one piece of a plugin's code, without any tensors: data has where the elements of each
 * input begin, then of each output, which lie as the graph says for these symbols.  Known to whoever calls it: that they do, and that the facts hold.
 * UNABLE: it is not such an exec, at least not now; nothing was run. */
typedef enum { GM_RUN_FAILED, GM_RUN_DONE, GM_RUN_UNABLE } GmRunAt;
GmRunAt gm_exec_run_at (GmExec *e, const int64_t *symbols, void *const *data, GError **error);
bool gm_exec_runs_at (GmExec *e); /* whether it is such an exec now */

/* The same; symbols: the value of each symbol of the forward graph, by number.  Needed for a backward
 * whose inputs do not say all of them. */
bool gm_exec_run_sized (GmExec *e, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
                        GmTensor *const *out, int n_out, GError **error);

GmExec *gm_exec_ref (GmExec *e);
void gm_exec_unref (GmExec *e); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmExec, gm_exec_unref)

/* Whether a run may get the memory of input `in` as that of output `out`, of one layout, if nobody reads the input afterwards.  All
 * pairs of which that is said may be used in one run.  Whoever asks does so before the second run. */
bool gm_exec_may_share (GmExec *e, int role, uint32_t in, uint32_t out);

/* NULL, or why the host's eager executor runs it, or the first reason why it runs a part of it. */
const char *gm_exec_fallback_reason (const GmExec *e);
double gm_exec_compile_ms (const GmExec *e);
const char *gm_exec_backend_name (const GmExec *e);
/* Which nodes run where and why, a line for each part; or for each node, with `every`.  NULL: there is
 * nothing to run.  The caller frees. */
char *gm_exec_places_text (const GmExec *e, bool every);
/* What the back end shows of a compiled graph: text of a kind that it knows ("cuda", "ptx").  NULL: GM_ERROR_VALUE or the
 * plugin's.  The caller frees. */
char *gm_exec_text (GmExec *e, const char *kind, GError **error);
/* What it shows of itself: "about", a few lines on what it found on this machine ...  NULL: nothing.  The caller frees. */
char *gm_backend_text (GmBackend *b, const char *kind);
/* Bytes that a run takes from gm_alloc, kept from one run to the next. */
uint64_t gm_exec_workspace_bytes (const GmExec *e, int role);
/* Graphs that back ends have made code of since the process began, a backward in the request of its forward not counted: also what the
 * cache on disk gave, and what the host runs; for sizes that are symbols, once where a back end takes them. */
uint64_t gm_backend_compiles (void);
/* Requests that fell back since the process began. */
uint64_t gm_backend_fallbacks (void);

#endif
