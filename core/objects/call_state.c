/* SPDX-License-Identifier: Apache-2.0
 * call_state.c -- see call_state.h.
 */
#include "core/objects/call_state.h"

GM_THREAD int gm_hook_suspended;
GM_THREAD uint32_t gm_failed_program_calls, gm_failed_operations;
