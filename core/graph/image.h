/* SPDX-License-Identifier: Apache-2.0
 * image.h -- graphs as the flat bytes that back ends see (plugin-api/gramme-graph.h), and back.
 *
 * The layout is canonical: tables follow each other in the header's order, each at the next
 * multiple of 8; values are the inputs in their order, then the nodes' results in theirs; sizes and
 * constants are in the order of first use, and unused ones are left out.  So equal graphs, up to
 * names and ids, have equal bytes. Not in an image: names, lines, requires_grad.  MUTATE nodes
 * cannot be.
 */
#ifndef GM_GRAPH_IMAGE_H
#define GM_GRAPH_IMAGE_H

#include "core/graph/graph.h"
#include "plugin-api/gramme-graph.h"

typedef struct {
  const GrammeImage *bytes; /* 64-byte aligned, from gm_alloc */
  size_t length;
  GPtrArray *constants; /* GmTensor, owned, by slot */
  uint32_t *values;     /* the graph's value id -> row of values */
  uint32_t *size_rows;  /* row of sizes -> row of the graph's GmSym, which the host evaluates to
                         * fill `sizes` of a run */
} GmImage;

/* Returns the image of g.  Errors: GM_ERROR_VALUE for a MUTATE node or more than 2 GiB,
 * GM_ERROR_MEMORY. */
GmImage *gm_image_new (const GmGraph *g, GError **error);
void gm_image_free (GmImage *img);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmImage, gm_image_free)

/* True if n bytes at an address that is a multiple of 8 are an image of this version on which
 * every accessor may be used: bounds, layout, order, single producers, attributes and types are
 * checked against the op table.  Safe on any bytes.  False with *error. */
bool gm_image_validate (const void *bytes, size_t n, GError **error);

/* Validates an image and returns it as a graph in an arena of its own: inputs and symbols get
 * made-up names.  constants: by slot, referenced; each must have the size and digest that the image
 * says. n_constants must be the image's.  NULL with *error. */
GmGraph *gm_image_read (const void *bytes, size_t n, GmTensor *const *constants,
                        uint32_t n_constants, GError **error);

/* Computes the SHA-256 of a tensor's elements in row-major order. */
void gm_image_digest (const GmTensor *t, uint8_t digest[32]);

#endif
