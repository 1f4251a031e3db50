/* SPDX-License-Identifier: Apache-2.0
 * hook_order.h -- the order in which eager's backward would reach a function's results and
 * arguments: the order of their hooks.
 */
#ifndef GM_AOT_HOOK_ORDER_H
#define GM_AOT_HOOK_ORDER_H

#include "core/aot/aot.h"

/* Sorts joint's tangents and its gradients into the order in which eager's backward would complete
 * them, and sets *of_results and *of_arguments to their numbers in that order; NULL: ascending.
 * Allocated in the arena.  A result's gradient is complete when its node is the next to run; an
 * argument's, when the first operation of g that reads it has run, for its last operand. */
void gm_hook_order_find (const GmGraph *g, const GmJoint *joint, GmArena *arena,
                         const uint32_t **of_results, const uint32_t **of_arguments);

#endif
