/* SPDX-License-Identifier: Apache-2.0
 * kit.h -- the conformance kit behind `gramme check-plugin`.
 *
 * A case is a function that returns if all is well, and else calls kit_fail or kit_skip.  It runs
 * in a process of its own, so that it may be killed, hang or exit without affecting others.  Memory
 * that it passes to the plugin lies between inaccessible pages, is read-only where it is the
 * host's, and becomes inaccessible when the call that it was for has returned.
 *
 *   kit.c         the program: options, processes, TAP, JSON, the summary
 *   kit_cases.def the cases, by level
 *   kit_host.c    the host that the plugin sees, of any minor; its services count, fail and stop
 *   kit_memory.c  buffers between inaccessible pages, and messages about accesses
 *   kit_graph.c   a graph through the plugin: asked, compiled, run, compared with the interpreter
 *   kit_sized.c   the same for graphs whose sizes are symbols
 *   level_*.c     the cases
 */
#ifndef GM_TOOLS_KIT_KIT_H
#define GM_TOOLS_KIT_KIT_H

#include "core/graph/graph.h"
#include "core/plugin/loader.h"
#include "core/run/support.h"
#include "plugin-api/gramme-ext-draft.h"
#include "tests/fuzz/random_graph.h"

typedef struct Kit Kit;
typedef void (*KitCaseFn) (Kit *k);

/* -- The result of a case ---------------------------------------------------------------------- */

typedef enum { KIT_BROKEN, KIT_PASSED, KIT_FAILED, KIT_SKIPPED } KitVerdict;

/* The result of a case, in memory that the case's process shares with its parent. */
typedef struct {
  uint32_t verdict; /* KitVerdict; BROKEN until the case has set it */
  uint32_t has_seed;
  uint64_t seed;   /* seed of the current graph, if has_seed */
  char rule[16];   /* "GPP-4": the rule that is broken */
  char text[1200]; /* what was wrong */
  char doing[200]; /* the last action that was begun */
  char note[200];  /* additional information, for any verdict */
} KitOutcome;

/* Set the case's result and end its process. rule NULL: the case's own rule. Thread: any. */
void kit_fail (Kit *k, const char *rule, const char *format, ...) G_GNUC_NORETURN
    G_GNUC_PRINTF (3, 4);
void kit_skip (Kit *k, const char *format, ...) G_GNUC_NORETURN G_GNUC_PRINTF (2, 3);
/* Records the next action, for the report of a crash. */
void kit_doing (Kit *k, const char *format, ...) G_GNUC_PRINTF (2, 3);
void kit_note (Kit *k, const char *format, ...) G_GNUC_PRINTF (2, 3);
void kit_seed (Kit *k, uint64_t seed);

/* -- Memory ------------------------------------------------------------------------------------ */

/* Kinds of buffers, which determine the rule that an illegal access breaks. */
typedef enum { KIT_RECORD, KIT_IMAGE, KIT_INPUT, KIT_OUTPUT, KIT_WORKSPACE, KIT_N_KINDS } KitKind;

typedef struct {
  char *data;
  size_t bytes;
  char *map; /* private from here */
  size_t map_bytes;
  uint32_t area;
} KitMem;

/* Returns a buffer of whole pages between two inaccessible ones, filled with a pattern. The buffer
 * ends at the end of the last page, as far as `align` allows, or (left) begins at the beginning of
 * the first. */
KitMem kit_mem_new (Kit *k, KitKind kind, size_t bytes, size_t align, bool left, const char *what);
void kit_mem_read_only (KitMem *m);
/* Makes the buffer inaccessible; a later access fails the case with a description of the buffer. */
void kit_mem_take_away (Kit *k, KitMem *m);
/* Fails the case if the bytes between the buffer and its pages were written to. */
void kit_mem_check (Kit *k, const KitMem *m);
void kit_mem_catch_faults (Kit *k);

/* -- The host ---------------------------------------------------------------------------------- */

typedef struct {
  const GrammeHost *table; /* at the end of a page; its size is that of this minor */
  uint32_t minor;
  uint64_t fail_at; /* number of the allocation that fails, counted from 1; 0: none */
  uint64_t n_allocs;
  uint64_t live_blocks, live_bytes;
  uint64_t stop_at; /* progress says stop from this call on; 0: never */
  uint64_t n_progress, n_diag, n_log;
  uint64_t last_ns, longest_ns; /* time between calls of progress, from kit_host_watch on */
  void (*called) (void *data);  /* called by every service, if not NULL */
  void *called_data;
  const GrammeThreads *threads; /* instead of the host's own */
  bool no_threads;              /* true: this host has no such extension */
  struct KitBlocks *blocks;
} KitHost;

void kit_host_init (Kit *k, uint32_t minor);
void kit_host_watch (KitHost *h);

/* -- The kit ----------------------------------------------------------------------------------- */

struct Kit {
  const char *file; /* canonical */
  const GmManifest *manifest;
  const char *rule;        /* the case's */
  const char *record_rule; /* rule that reading past a record breaks, if it is not GPP-2 */
  uint64_t first_seed;
  uint32_t n_graphs; /* number of random graphs, for each case that has some */
  uint32_t host_minor;
  KitOutcome *outcome;

  KitHost host;
  GmPlugin plugin; /* `api` is our copy of its table */
  const GrammePlugin *(*query) (const GrammeHost *, GrammeStatus *);
  const GrammePlugin *descriptor;
  GrammeBackend *backend;

  /* The fields below say how requests are made. */
  uint32_t wide;        /* additional bytes in each row of an image */
  uint32_t flags;       /* flags besides DETERMINISTIC */
  uint32_t max_threads; /* 0: as many as there are */
  bool left;            /* buffers begin at a page */
  bool null_status;
  uint32_t times;                /* a run is so many, one after the other; 0: one */
  GmOpSet ops;                   /* bit: an op that the plugin takes; see kit_learn */
  char said[480];                /* with the last error of compile */
  const GrammeSerialize *reader; /* executables are read from these bytes instead of compiled */
  const void *stored;
  size_t n_stored;
  const GrammeStream *streams; /* runs are on this stream */
  void *stream;
  const int64_t *sizes; /* values of the image's `sizes` rows for a run */
  uint32_t n_sizes;
};

/* Load the plugin for a host of k->host_minor; kit_open also opens it.  They fail the case on
 * error. */
void kit_load (Kit *k);
void kit_open (Kit *k);
GrammeBackend *kit_open_another (Kit *k);
void kit_close (Kit *k);
bool kit_has_flag (const Kit *k, const char *flag);
/* Returns a copy of a record for the plugin: `bytes` of ours, cut or extended to the size in the
 * host's minor. */
KitMem kit_record (Kit *k, const char *record, const void *ours, size_t bytes);
/* Returns a cleared status for one call, at the end of a page. Each thread has its own. */
GrammeStatus *kit_status (Kit *k);
uint64_t kit_now_ns (void);
/* Calls fn on n threads at once, each with its number; returns when all have ended. */
void kit_on_threads (unsigned n, void (*fn) (void *data, unsigned i), void *data);

/* -- Graphs ------------------------------------------------------------------------------------ */

/* Finds the ops that the plugin takes, of its manifest's dtypes: k->ops.  Skips the case if there
 * are none. */
void kit_learn (Kit *k);
/* Returns the i-th of the case's random graphs: half of them use ops that the plugin takes, half
 * use all ops.  Its outputs are dense, and results of nodes, each once. */
GmGraph *kit_random_graph (Kit *k, uint32_t i, GmRandomGraph more, uint64_t *seed);
GmGraph *kit_text_graph (Kit *k, const char *text);
GmGraph *kit_tidy_outputs (GmGraph *g); /* steals the graph */
/* Returns a small graph: a few nodes of f32 [rows, columns], all of which the plugin takes. Skips
 * the case if there is no such graph. */
GmGraph *kit_small_graph (Kit *k, int64_t rows, int64_t columns);
/* Returns a chain of n_nodes nodes of the first op of the small graph. */
GmGraph *kit_chain (Kit *k, int64_t rows, int64_t columns, uint32_t n_nodes);
/* kit_interpret returns reference results, a tensor for each output; kit_inputs returns random
 * inputs. The caller frees both with kit_free_tensors. */
GmTensor **kit_interpret (Kit *k, const GmGraph *g, GmTensor *const *in);
GmTensor **kit_inputs (const GmGraph *g, uint64_t seed, GmRandomNumbers numbers);
void kit_free_tensors (GmTensor **list, uint32_t n);

/* Returns the plugin's verdicts, one for each node, as the host understands them; the caller
 * frees. */
GmVerdict *kit_ask (Kit *k, const GmGraph *g);
/* Returns the raw verdicts for an image of any bytes: rows of sizeof (GrammeVerdict). */
GrammeVerdict *kit_ask_image (Kit *k, const void *image, size_t bytes, uint32_t n_nodes);
bool kit_takes_all (Kit *k, const GmGraph *g);

/* Compiles, and returns the plugin's code; *out is NULL unless it is OK.  backward may be NULL. */
int32_t kit_try_compile (Kit *k, const GmGraph *forward, const GmGraph *backward,
                         GrammeExecutable **out);
GrammeExecutable *kit_compile (Kit *k, const GmGraph *forward, const GmGraph *backward);
/* Runs a role and compares the outputs with `want`, unless that is NULL; fails the case if anything
 * is wrong. `made`, if not NULL, gets the outputs as tensors. */
void kit_run (Kit *k, GrammeExecutable *e, uint32_t role, const GmGraph *g, GmTensor *const *in,
              GmTensor *const *want, GmTensor **made);
/* Runs a role and returns the plugin's code. *why is set if the outputs differ from `want`. */
int32_t kit_try_run (Kit *k, GrammeExecutable *e, uint32_t role, const GmGraph *g,
                     GmTensor *const *in, GmTensor *const *want, GmTensor **made, char **why);
void kit_destroy (Kit *k, GrammeExecutable *e);
/* Compiles, region by region as the host does, the nodes of the graph that the plugin takes, runs
 * them and compares the results. Returns the number of these nodes. */
uint32_t kit_check_graph (Kit *k, const GmGraph *g, GmTensor *const *in);
/* Checks a graph with symbols as the host uses it: if the plugin takes all of it, compiles once and
 * runs it with each of n_sets values of the symbols; else compiles for each set. Returns true if
 * the plugin takes all of it. */
extern const char *const kit_sized_texts[]; /* examples of such graphs; NULL after the last */
bool kit_check_sized (Kit *k, const GmGraph *g, uint64_t seed, uint32_t n_sets);
/* Finds the plugin's ops, opens it, and calls kit_check_graph for k->n_graphs random graphs. */
void kit_check_random (Kit *k, GmRandomGraph more, GmRandomNumbers numbers);

/* -- The cases --------------------------------------------------------------------------------- */

#define CASE(level, group, name, rule, what) void kit_##group##_##name (Kit *k);
#include "tools/kit/kit_cases.def"

#endif
