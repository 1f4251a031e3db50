/* SPDX-License-Identifier: Apache-2.0
 * rules.h -- the verifier's rules by name: rows of rules.def.
 */
#ifndef GM_GRAPH_RULES_H
#define GM_GRAPH_RULES_H

typedef enum {
  GM_RULE_NONE,
#define RULE(id, name, what) GM_RULE_##id,
#include "core/graph/rules.def"
  GM_N_RULES
} GmRule;

typedef struct {
  const char *name, *what;
} GmRuleRow;
extern const GmRuleRow gm_rules[GM_N_RULES]; /* that of GM_RULE_NONE has no name */

#endif
