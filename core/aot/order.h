/* SPDX-License-Identifier: Apache-2.0
 * order.h -- in which order eager's backward would come to a function's results and arguments: that of their hooks.
 */
#ifndef GM_AOT_ORDER_H
#define GM_AOT_ORDER_H

#include "core/aot/aot.h"

/* Numbers of joint's tangents and of its gradients, first come first; NULL: as they are.  Of the arena.  A result's gradient is
 * complete when its node is the next one; an argument's, when the first operation of g that reads it has been passed, and its
 * last operand there. */
void gm_find_order (const GmGraph *g, const GmJoint *joint, GmArena *arena, const uint32_t **of_results,
                    const uint32_t **of_arguments);

#endif
