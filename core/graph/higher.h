/* SPDX-License-Identifier: Apache-2.0
 * higher.h -- operators over graphs: cond, while_loop, scan, invoke_subgraph.
 *
 * Such a call is a row of the graph's table (g->highers) and one node for each of its results that
 * is used: all with the row's operator and the same operands; OFFSET is the row, DIM the number of
 * the result.  The row has the bodies.  A value that a body reads of the graph around it is an
 * operand, so every rewrite that maps operands maps it too.
 *
 *   operator               operands                        bodies: inputs -> outputs
 *   cond                   pred, args ...                  true, false: args -> results
 *   while_loop             carried ..., args ...           test: carried, args
 *                                                                -> one bool[, the last of carried]
 *                                                          body: carried, args -> carried
 *   scan                   carried ..., mapped ..., args   body: carried, slices of mapped, args
 *                                                                -> carried, results of a step
 *   associative_scan       mapped ..., args ...            body: blocks of mapped, as many others,
 *                                                                args -> blocks of mapped
 *   associative_scan_grad  mapped ..., args ...,           body of the scan; step: blocks of
 *                          gradients of the results        mapped, as many others, args, gradients
 *                                                                -> gradients of both kinds of
 *                                                          blocks, and of the args that have one
 *   invoke_subgraph        args ...                        body: args -> results
 *   while_loop_grad        carried ..., args ...,          test, body of the loop; step: carried,
 *                          gradients of carried            args, gradients of carried
 *                                                                -> gradients of carried and of the
 *                                                          args that have one
 *   host_call              args ...                        none: a function of the host's
 *                                                          (host_node.c)
 *   gradient_hook          value                           none: the same; it runs on the gradient
 *                                                          of the value, where that is complete
 *
 * A scan slices its mapped operands along dimension 0 and stacks the results of its steps there;
 * results are the carried values at the end, then the stacks.  A loop that makes no step returns
 * its operands.
 * A block is some slices of a mapped operand along dimension 0.  Their number differs from call to
 * call of the body, so that size is a symbol of the body's own, also where all other sizes are
 * numbers.
 * All results are new tensors, row-major.  Bodies have no MUTATE nodes after stage f; the
 * generator's state is an operand, and as the call leaves it a result.  Bodies may hold such calls
 * themselves.
 */
#ifndef GM_GRAPH_HIGHER_H
#define GM_GRAPH_HIGHER_H

#include "core/graph/graph.h"

#define GM_HIGHER_MAX_BODIES 3

/* A function that a graph knows only by its address.  call: `in` is borrowed; `out` gets a new
 * reference for each result on success. */
typedef struct {
  char *name; /* owned; name in messages and texts */
  bool (*call) (void *data, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out,
                GError **error);
  void (*destroy) (void *data); /* or NULL */
  void *data;
  uint64_t key; /* for hashes: functions with equal keys do the same; 0: equal to itself only */
  gatomicrefcount refs;
} GmHostFunction;

GmHostFunction *gm_host_function_new (const char *name,
                                      bool (*call) (void *data, GmTensor *const *in, uint32_t n_in,
                                                    GmTensor **out, uint32_t n_out, GError **error),
                                      void *data, void (*destroy) (void *data));
GmHostFunction *gm_host_function_ref (GmHostFunction *f);
void gm_host_function_unref (GmHostFunction *f); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmHostFunction, gm_host_function_unref)

struct GmHigher {
  GmOp op;
  uint8_t n_bodies;
  bool reverse;       /* scan: from the last slice to the first; stacks keep their places */
  uint32_t n_carried; /* while_loop, scan, while_loop_grad */
  uint32_t n_mapped;  /* scan, associative_scan, associative_scan_grad */
  GmGraph *bodies[GM_HIGHER_MAX_BODIES]; /* owned */
  /* The rest is for host_call and gradient_hook. */
  GmHostFunction *host; /* owned; NULL: the graph comes from a text, or the hook was removed */
  uint32_t n_results;   /* host_call: number of results, as stated when it was recorded; each call
                         * is compared with them */
  GmMeta *results;      /* owned */
  bool ticket;          /* the last result stands for the call: its gradient is computed from that
                         * (core/aot/host_gradient.c) */
  uint64_t flows;       /* operands, by bit, that gradients flow to */
  uint64_t many;        /* operands among those whose gradient is a sum of several: it goes on with
                         * the sum that exists already */
  uint64_t given;       /* of the gradient of such a call: the call's results, by bit, whose
                         * gradients are operands */
  uint64_t begun; /* of the gradient of such a call: the call's operands whose sum so far is an
                     operand */
  /* Calls `host` with operands prepared for it; NULL: `host` is called with the node's operands. */
  bool (*run) (const struct GmHigher *h, GmTensor *const *in, uint32_t n_in, GmTensor **out,
               GError **error);
  gatomicrefcount refs;
};

/* Returns a new row for a call of graphs, without bodies yet. */
GmHigher *gm_higher_new (GmOp op);
GmHigher *gm_higher_new_like (const GmHigher *from); /* a copy without the bodies */
GmHigher *gm_higher_ref (GmHigher *h);
void gm_higher_unref (GmHigher *h); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmHigher, gm_higher_unref)
/* Returns the number of bodies that calls of this operator have. */
uint32_t gm_higher_n_bodies (GmOp op);

/* Adds h to the graph's table and steals it; returns the number of its row. */
uint32_t gm_graph_add_higher (GmGraph *g, GmHigher *h);
/* Returns the row of a node that is a call of graphs, borrowed; NULL if the table has no such
 * row. */
const GmHigher *gm_graph_higher (const GmGraph *g, const GmNode *n);
/* Makes `to` share the table of calls of `from`.  A rewrite that changes a body calls
 * gm_graph_own_highers, which gives g a table of its own, and replaces the row by
 * gm_graph_set_higher. */
void gm_graph_share_highers (GmGraph *to, const GmGraph *from);
void gm_graph_own_highers (GmGraph *g);
/* Gives g a table of its own that has only the rows that its nodes name. */
void gm_graph_compact_highers (GmGraph *g);
void gm_graph_set_higher (GmGraph *g, uint32_t row, GmHigher *h); /* steals h */

/* Returns a new row for a host_call of f; `results`, the metas of its results, are copied. */
GmHigher *gm_higher_new_host_call (GmHostFunction *f, const GmMeta *results, uint32_t n_results);
/* Runs a host_call or gradient_hook: calls the function, and compares its results with the metas
 * stated when it was recorded (host_node.c).  out: a new reference per result.  False with
 * *error. */
bool gm_higher_run_host (const GmHigher *h, GmTensor *const *in, uint32_t n_in, GmTensor **out,
                         GError **error);

/* Returns the meta of input i of a body. */
static inline const GmMeta *
gm_body_input (const GmGraph *g, uint32_t i)
{
  return gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i));
}
static inline const GmMeta *
gm_body_output (const GmGraph *g, uint32_t i)
{
  return gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value);
}
/* Returns the meta of `length` tensors like m, stacked along a new dimension 0. */
static inline GmMeta
gm_higher_stacked (GmMeta m, int64_t length)
{
  for (int d = m.ndim++; d > 0; d--)
    m.sizes[d] = m.sizes[d - 1];
  m.sizes[0] = length;
  gm_meta_set_contiguous (&m);
  return m;
}
/* Returns the meta of a hook's result, which has no elements. */
static inline GmMeta
gm_higher_hook_meta (void)
{
  return gm_meta_make (GM_BOOL, 1, (const int64_t[]){ 0 });
}

uint32_t gm_higher_n_results (const GmHigher *h);
/* True if operands with these metas fit the call; else false, with *error, which says which
 * operand does not fit, and why. */
bool gm_higher_check (const GmHigher *h, const GmMeta *const *in, uint32_t n_in, GError **error);
/* True if result `dim` requires grad whenever the operands do that required grad when the bodies
 * were recorded. */
bool gm_higher_requires_grad (const GmHigher *h, uint32_t dim);
/* Returns the meta of result `dim` for operands with the metas `in`, which fit. */
GmMeta gm_higher_meta (const GmHigher *h, uint32_t dim, const GmMeta *const *in);

/* Runs bodies in the caller's way.  run: runs body number `body` of h; in: laid out as the
 * body's inputs say; symbols: by symbol of the body, or NULL where its sizes are numbers; out: a
 * new reference for each output, on success. */
typedef struct {
  bool (*run) (void *data, const GmHigher *h, uint32_t body, const int64_t *symbols,
               GmTensor *const *in, GmTensor **out, GError **error);
  void *data;
} GmHigherRunner;
/* Runs a whole call of graphs, which defines what each operator means.  by: runs the bodies;
 * NULL: they are interpreted.  symbols: values of the surrounding graph's symbols, whose numbers
 * the bodies' symbols have; NULL: all sizes are numbers.  out: a new reference per result; nothing
 * is left there on error.  False with *error. */
bool gm_higher_run (const GmHigher *h, const int64_t *symbols, GmTensor *const *in, uint32_t n_in,
                    GmTensor **out, const GmHigherRunner *by, GError **error);
/* Does the same as gm_graph_interpret, with `by` to run the bodies; symbols: values of symbols
 * that no input determines, or NULL. */
bool gm_graph_interpret_with (const GmGraph *g, const int64_t *symbols, GmTensor *const *inputs,
                              GmTensor **outputs, const GmHigherRunner *by, GError **error);
/* Stores in `symbols` the values of the symbols that the sizes of these inputs determine. */
void gm_graph_bind_symbols (const GmGraph *g, GmTensor *const *inputs, int64_t *symbols);

/* Returns the body of an associative_scan over m operands for blocks whose slices are not
 * neighbours (blocks.c).  Three more symbols, after those of the body, say how many slices apart
 * the slices are in the first blocks, in the second blocks, and in the results.  Its outputs are
 * the wanted results (`wanted`: by operand).  NULL: the body cannot work on such blocks. */
GmGraph *gm_graph_blocks_apart (const GmGraph *body, uint32_t m, const bool *wanted);
/* Returns the step of an associative_scan_grad for blocks whose slices are not neighbours, with
 * sums to which it adds gradients; its inputs are the step's, then m blocks of sums.  is_rest true:
 * for combinations of a prefix with the slice after it.  A symbol after those of the step says how
 * many slices apart the slices of the first blocks are; in all other blocks they are every second
 * slice. Outputs, as neighbours: the sums plus the gradients of the first blocks, then the
 * gradients of the second blocks.  is_rest false: for combinations of pairs.  The slices of the
 * blocks are every second slice, those of gradients and sums are neighbours.  Outputs, at every
 * second slice: the sums plus the gradients of the first blocks, then 0 + the gradients of the
 * second blocks.  NULL: the step cannot work on such blocks. */
GmGraph *gm_graph_gradients_apart (const GmGraph *step, uint32_t m, bool is_rest);
/* Extends `wanted` by each operand whose first block a wanted result is computed from. */
void gm_graph_close_prefixes (const GmGraph *body, uint32_t m, bool *wanted);
/* Returns t in the layout of `want`, which has the same shape: t itself, a view of its elements
 * with these strides, or a copy; a new reference.  NULL with *error. */
GmTensor *gm_higher_laid_out (GmTensor *t, const GmMeta *want, GError **error);
bool gm_higher_is_true (const GmTensor *t); /* t has one element */

#endif
