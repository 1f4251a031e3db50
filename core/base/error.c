/* SPDX-License-Identifier: Apache-2.0
 * error.c -- the quark of GM_ERROR.  The codes and what they mean are in error.h.
 */
#include "core/base/error.h"

G_DEFINE_QUARK (gm-error-quark, gm_error)
