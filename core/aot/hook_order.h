/* SPDX-License-Identifier: Apache-2.0
 * hook_order.h -- the order in which eager's backward would reach a function's results and
 * arguments: the order of their hooks.
 */
#ifndef GM_AOT_HOOK_ORDER_H
#define GM_AOT_HOOK_ORDER_H

#include "core/aot/aot.h"

/* Finds the numbers of joint's tangents and of its gradients, the first reached first; NULL:
 * ascending.  Allocated in the arena.  A result's gradient is complete when its node is the next
 * one; an argument's, when the first operation of g that reads it has been passed, and its last
 * operand there. */
void gm_hook_order_find (const GmGraph *g, const GmJoint *joint, GmArena *arena,
                         const uint32_t **of_results, const uint32_t **of_arguments);

#endif
