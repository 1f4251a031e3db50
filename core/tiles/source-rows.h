/* SPDX-License-Identifier: Apache-2.0
 * source-rows.h -- the rows of one element type, for source.h.
 */
/* clang-format off */
#include "core/tiles/tiles-values.h"
#include "core/tiles/tiles-values-end.h"
