/* SPDX-License-Identifier: Apache-2.0
 * memory_graph.h -- random graphs over tensors that share memory, with views, writes in place,
 * changes of shape and regions without gradients, as recorded graphs are; and the tensors that they
 * are for.
 *
 * Each node is tried on real tensors when it is drawn and left out where it fails, so that nearly
 * all graphs run to their end.  The same seed always gives the same graph and equal tensors.
 */
#ifndef GM_TESTS_FUZZ_MEMORY_GRAPH_H
#define GM_TESTS_FUZZ_MEMORY_GRAPH_H

#include "core/graph/graph.h"

enum { GM_MEMORY_BUFFERS = 3, GM_MEMORY_INPUTS = 4, GM_MEMORY_CHAIN = 3 };

/* The graph's inputs: input i is a chain of views of a buffer, or an input before it. */
typedef struct {
  uint64_t seed;
  int n_buffers, n_inputs;
  struct {
    GmMeta meta;
    /* INNER: computed from a leaf */
    enum { GM_MEMORY_PLAIN, GM_MEMORY_LEAF, GM_MEMORY_INNER } kind;
  } buffers[GM_MEMORY_BUFFERS];
  struct {
    int same; /* the earlier input that it is, or -1 */
    int buffer, n;
    struct {
      GmOp op;
      GmAttrs attrs;
    } chain[GM_MEMORY_CHAIN];
  } inputs[GM_MEMORY_INPUTS];
  GmGraph *graph; /* owned */
} GmMemoryGraph;

/* Returns NULL if this seed gives no graph. */
GmMemoryGraph *gm_memory_graph_new (uint64_t seed);
void gm_memory_graph_free (GmMemoryGraph *m);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmMemoryGraph, gm_memory_graph_free)

/* Makes the inputs: new references.  leaves[b] is the leaf of buffer b's history, or NULL. */
void gm_memory_graph_make (const GmMemoryGraph *m, GmTensor **leaves, GmTensor **inputs);
/* Returns a tensor of this type whose elements follow from the seed. */
GmTensor *gm_memory_tensor (const GmMeta *m, uint64_t seed);

#endif
