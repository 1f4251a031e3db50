/* SPDX-License-Identifier: Apache-2.0
 * regions.h -- a graph cut into regions: those of a plugin, and those that the host runs itself.
 *
 * Regions stand in an order in which they can run, each once: every region is convex, and there is no
 * cycle between regions, whatever the verdicts were.  What one computes for another is a slot.  Views
 * and constants belong to no region: each that needs one has it, so that a view crosses no border.
 */
#ifndef GM_PLUGIN_REGIONS_H
#define GM_PLUGIN_REGIONS_H

#include "core/graph/graph.h"
#include "core/plugin/support.h"

typedef struct {
  bool host;
  bool has_effects;       /* runs even if nobody reads what it gives */
  uint32_t cluster;       /* the plugin's number; 0 for the host */
  GmGraph *graph;         /* of its own arena; outputs are never inputs, and no value twice */
  GArray *nodes;          /* uint32_t: of the whole graph, those that it computes for all */
  GArray *ins, *outs;     /* uint32_t: slots of the graph's inputs and outputs */
} GmRegion;

#define GM_REGION_NONE UINT32_MAX /* a node in no region of its own: computed wherever it is used */

typedef struct {
  GPtrArray *regions;  /* GmRegion */
  uint32_t n_slots;    /* the graph's inputs first, in their order */
  GArray *metas;       /* GmMeta, by slot */
  uint32_t *outputs;   /* by output of the graph: its slot */
  uint32_t *region_of; /* by node */
} GmRegions;

/* verdicts: one per node.  The graph is functional and borrowed; each output is a node's result, and no
 * value is an output twice. */
GmRegions *gm_regions_new (const GmGraph *g, const GmVerdict *verdicts);
void gm_regions_free (GmRegions *r); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmRegions, gm_regions_free)

#endif
