/* SPDX-License-Identifier: Apache-2.0
 * fuzz.h -- shared by tests on random graphs: random numbers, installed back ends, outputs in the
 * form that back ends expect.
 */
#ifndef GM_TESTS_FUZZ_FUZZ_H
#define GM_TESTS_FUZZ_FUZZ_H

#include "core/graph/graph.h"
#include "core/plugin/registry.h"

#include <stdio.h>
#include <string.h>

/* Returns the next random number, by splitmix64 (Steele, Lea, Flood 2014): the same on every
 * machine, unlike g_rand's doubles. */
static inline uint64_t
gm_fuzz_draw (uint64_t *state)
{
  uint64_t z = *state += UINT64_C (0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C (0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C (0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* Returns a count or a seed from the environment. */
static inline uint64_t
gm_fuzz_number (const char *name, uint64_t absent)
{
  const char *text = g_getenv (name);
  return text ? g_ascii_strtoull (text, NULL, 10) : absent;
}

/* True if the back end is installed; prints a line if not. */
static inline bool
gm_fuzz_has_backend (const char *name)
{
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  for (uint32_t i = 0; i < plugins->len; i++) {
    const GmPluginInfo *info = plugins->pdata[i];
    if (strcmp (info->name, name) == 0 && !info->refused.code)
      return true;
  }
  fprintf (stderr, "SKIPPED: back end %s is not installed\n", name);
  return false;
}

/* Makes outputs dense: an output is memory of its own, so one that repeats or skips elements
 * becomes a copy, as the layers above back ends do. */
static inline void
gm_fuzz_make_outputs_dense (GmGraph *g)
{
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    GmGraphOutput *o = &g_array_index (g->outputs, GmGraphOutput, i);
    if (!gm_meta_is_dense (gm_graph_meta (g, o->value)))
      o->value = gm_graph_add_node (g, GM_OP_copy, &o->value, 1, NULL, NULL, NULL);
  }
}

#endif
