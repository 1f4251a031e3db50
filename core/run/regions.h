/* SPDX-License-Identifier: Apache-2.0
 * regions.h -- a graph cut into regions: those of a plugin, and those that the host runs itself.
 *
 * Regions are listed in an order in which they can run, each once: every region is convex, and
 * there is no cycle between regions, whatever the verdicts were.  A value that one region computes
 * for another is a slot.  Views and constants belong to no region: each region that needs one
 * computes it, so that a view crosses no border.
 */
#ifndef GM_RUN_REGIONS_H
#define GM_RUN_REGIONS_H

#include "core/graph/graph.h"
#include "core/run/support.h"

typedef struct {
  bool host;
  bool has_effects; /* runs even if its results are not read */
  uint32_t cluster; /* the cluster that the plugin assigned to its nodes; 0 for the host */
  GmGraph *graph;   /* allocated in its own arena; its outputs are never inputs, and no value is
                     * output twice */
  /* uint32_t: the nodes of the whole graph that this region computes, on behalf of all regions */
  GArray *nodes;
  GArray *ins, *outs; /* uint32_t: the slots of the inputs, and of the outputs, of `graph` */
} GmRegion;

/* The region of a node that belongs to no region, but is computed by each region that reads it. */
#define GM_REGION_NONE UINT32_MAX

typedef struct {
  GPtrArray *regions;  /* GmRegion */
  uint32_t n_slots;    /* number of slots; those of the graph's inputs come first, in their
                        * order */
  GArray *metas;       /* GmMeta, by slot */
  uint32_t *outputs;   /* by output of the graph: its slot */
  uint32_t *region_of; /* per node: the number of its region, or GM_REGION_NONE */
} GmRegions;

/* Cuts a graph into regions.  verdicts: one per node.  The graph is functional and borrowed; each
 * output is a node's result, and no value is an output twice. */
GmRegions *gm_regions_new (const GmGraph *g, const GmVerdict *verdicts);
void gm_regions_free (GmRegions *r); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmRegions, gm_regions_free)

#endif
