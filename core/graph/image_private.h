/* SPDX-License-Identifier: Apache-2.0
 * image_private.h -- declarations shared by the validator and the reader of images.
 */
#ifndef GM_GRAPH_IMAGE_PRIVATE_H
#define GM_GRAPH_IMAGE_PRIVATE_H

#include "core/graph/image.h"

/* Reads a node's attributes into *out.  False if a key, type, count or value is not in the op
 * table. The words that the node refers to must exist.  A row of the image's sizes becomes
 * gm_size_from_row (that row), even if there is no such row. */
bool gm_image_read_attrs (const GrammeImage *img, const GrammeNode *n, GmAttrs *out);

#endif
