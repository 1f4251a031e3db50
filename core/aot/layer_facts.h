/* SPDX-License-Identifier: Apache-2.0
 * layer_facts.h -- facts about a graph's inputs and outputs, derived from the graph (layer_facts.c)
 * and foretold by each layer for its result; for the files of this room.
 */
#ifndef GM_AOT_LAYER_FACTS_H
#define GM_AOT_LAYER_FACTS_H

#include "core/aot/aot.h"

typedef struct {
  GmMeta meta;
  bool data;  /* elements of the input are written */
  bool shape; /* the input becomes another tensor */
} GmInputFact;

typedef struct {
  GmMeta meta;
  GmOutputKind kind;
  bool of_input, is_view; /* of_input: an input owns the output's memory; is_view: the output is
                           * a view of the owner */
  uint32_t input;         /* of_input: the number of the input */
} GmOutputFact;

typedef struct {
  uint32_t n_inputs, n_outputs;
  GmInputFact *inputs;
  GmOutputFact *outputs;
  bool outputs_are_new; /* the layer computes other values: only their types are foretold */
} GmFacts;

GmFacts *gm_layer_facts_new (GmArena *arena, uint32_t n_inputs, uint32_t n_outputs);
GmFacts *gm_layer_facts_derive (const GmGraph *g, GmArena *arena);
/* Returns the facts about value v as an output of kind `kind`, at the place where it is output. */
GmOutputFact gm_layer_facts_of_output (const GmGraph *g, GmValueId v, GmOutputKind kind);
/* Returns the first difference between the predicted facts and those derived from g, as text that
 * the caller frees; NULL: there is none.  Types are compared without strides that cannot matter. */
char *gm_layer_facts_difference (const GmFacts *foretold, const GmGraph *g, GmArena *arena);

/* Predicts the facts about each layer's result, in the layer's file: from the graph before it and
 * the layer's notes, never from the result.  Allocated in the arena. */
GmFacts *gm_metadata_expect (const GmGraph *before, const GmMetadataLayer *l, GmArena *arena);
GmFacts *gm_dedupe_expect (const GmGraph *before, const GmDedupeLayer *l, GmArena *arena);
GmFacts *gm_output_alias_expect (const GmGraph *before, const GmAliasLayer *l, GmArena *arena);
GmFacts *gm_synthetic_base_expect (const GmGraph *before, const GmBaseLayer *l, GmArena *arena);
GmFacts *gm_functionalize_expect (const GmGraph *before, const GmFunctionalLayer *l,
                                  bool differentiate, GmArena *arena);

#ifdef GM_DEBUG_CHECKS
#define GM_FACTS_COMPARE(foretold, graph, layer)                                                   \
  gm_layer_facts_compare ((foretold), (graph), w->arena, (layer))
/* Aborts, naming `layer`, if g does not verify or differs from the predicted facts: a bug of that
 * layer. */
void gm_layer_facts_compare (const GmFacts *foretold, GmGraph *g, GmArena *arena,
                             const char *layer);
/* Called, in tests, with each layer's result before it is checked, so that a test can break it;
 * NULL: unset. */
extern void (*gm_layer_facts_tamper) (const char *layer, GmGraph *g);
#else
#define GM_FACTS_COMPARE(foretold, graph, layer) ((void) 0)
#endif

#endif
