/* SPDX-License-Identifier: Apache-2.0
 * random_graph.h -- random valid graphs, inputs for them, and the comparison of results: every back
 * end, rewrite and transformation is compared with gm_graph_interpret on them.
 *
 * A graph is functional, over every family of the op table, with small shapes (empty ones too),
 * views, strides, broadcasting, repeated operands and constants.  It is valid for every input:
 * positions are taken modulo the size that they index.  The same options give the same graph,
 * everywhere; print the seed when something fails.
 */
#ifndef GM_TESTS_FUZZ_RANDOM_GRAPH_H
#define GM_TESTS_FUZZ_RANDOM_GRAPH_H

#include "core/graph/graph.h"

typedef struct {
  uint64_t seed;
  int n_nodes;     /* approximate number; 0: between 1 and 40 */
  uint32_t dtypes; /* bit d: dtype d may occur (indices and masks need i64 and bool anyway); 0: all
                      that live */
  uint32_t families; /* bit f: family f may occur; 0: all but MUTATE */
  GmOpSet ops; /* bit of an op's code: it may be drawn (what operands are made of may occur anyway);
                      none: all */
  bool grad;   /* most floating inputs require grad */
  bool strided;      /* inputs may be transposed, sliced and expanded */
  bool far;          /* with strided: most elements lie thousands of elements apart */
  bool defined_only; /* no float to integer casts and no integer division, whose results for odd
                        operands are the machine's, and no bits of a computed NaN */
  bool no_empty;     /* no dimension of size 0 */
  bool wide;         /* some dimensions are longer than a tile, or a little shorter */
} GmRandomGraph;

GmGraph *gm_random_graph (const GmRandomGraph *options, GmArena *arena);

/* Kinds of numbers. */
typedef enum {
  GM_RANDOM_TAME, /* floats in (-2, 2) away from zero, integers in -9 .. 9: for gradients and
                     comparisons with a tolerance */
  GM_RANDOM_WILD, /* also -0, infinities, NaN, denormals, huge ones, the ends of the integers */
} GmRandomNumbers;

/* Makes a tensor of the graph's type for each input (numbers only): new references. */
void gm_random_inputs (const GmGraph *g, uint64_t seed, GmRandomNumbers numbers, GmTensor **inputs);

/* True if dtype, shape and all elements are equal; NaNs are equal, whatever their payload, unless
 * `payloads`.  Strides may differ.  Otherwise *why (if not NULL) says where; free it. */
bool gm_random_equal (const GmTensor *a, const GmTensor *b, bool payloads, char **why);

#endif
