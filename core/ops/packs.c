/* SPDX-License-Identifier: Apache-2.0
 * packs.c -- right-hand sides of products, kept packed from their second product to the run's end.
 *
 * A product of few rows spends much of its time on packing the right-hand side.  Where one value of
 * a graph is the right-hand side of several products (the weight of a recurrence), its packed form
 * is kept.  The packs of a run are bounded in number and in bytes; a right-hand side that does not
 * fit is packed by each of its products.
 */
#include "core/ops/packs.h"
#include "core/base/threads.h"
#include "core/tensor/alloc.h"
#include "core/tensor/tensor.h"

#define MOST_PACKS 8
#define MOST_PACKED_BYTES ((size_t) 32 << 20) /* of all packs of a run */
#define LEAST_PACKED_BYTES 4096

typedef struct {
  uint32_t value;    /* of the graph */
  GmProduct product; /* the first product with this right-hand side */
  void *packed;      /* NULL: not packed yet */
  size_t bytes;
} Pack;

struct GmPacks {
  uint32_t n, next; /* next: the entry that the next new value may take */
  size_t bytes;
  Pack packs[MOST_PACKS];
};

GM_THREAD GmPacks *gm_packs;
GM_THREAD bool gm_packs_in_run;
GM_THREAD uint32_t gm_packs_value;
static uint64_t packs_made; /* atomic */

uint64_t
gm_packs_made (void)
{
  return __atomic_load_n (&packs_made, __ATOMIC_RELAXED);
}

void
gm_packs_drop (void)
{
  for (uint32_t i = 0; i < gm_packs->n; i++)
    if (gm_packs->packs[i].packed)
      gm_free (gm_packs->packs[i].packed, gm_packs->packs[i].bytes);
  gm_block_give (gm_packs, sizeof *gm_packs);
  gm_packs = NULL;
}

static bool
same_right (const GmProduct *a, const GmProduct *b)
{
  return a->b == b->b && a->n == b->n && a->k == b->k && a->dtype == b->dtype
         && a->b_row_stride == b->b_row_stride && a->b_col_stride == b->b_col_stride;
}

/* Returns the entry of the product's right-hand side; NULL at its first product, which is only
 * noted. */
static Pack *
find_pack (uint32_t value, const GmProduct *p)
{
  if (!gm_packs) {
    gm_packs = gm_block_take (sizeof *gm_packs);
    gm_packs->n = gm_packs->next = 0;
    gm_packs->bytes = 0;
  }
  for (uint32_t i = 0; i < gm_packs->n; i++)
    if (gm_packs->packs[i].value == value && same_right (&gm_packs->packs[i].product, p))
      return &gm_packs->packs[i];
  uint32_t i = gm_packs->next++ % MOST_PACKS;
  if (i == gm_packs->n || !gm_packs->packs[i].packed) /* a packed form is never replaced */
    gm_packs->packs[i] = (Pack){ value, *p, NULL, 0 };
  gm_packs->n = MAX (gm_packs->n, i + 1);
  return NULL;
}

typedef struct {
  const GmProduct *product;
  void *packed;
} PackJob;

static void
pack_part (void *arg, uint32_t part)
{
  const PackJob *j = arg;
  gm_product_pack (j->product, part, j->packed);
}

const void *
gm_packs_find (uint32_t value, const GmProduct *p, uint32_t blocks)
{
  size_t bytes = gm_product_packed_bytes (p);
  if (bytes < LEAST_PACKED_BYTES || bytes > MOST_PACKED_BYTES)
    return NULL;
  Pack *pack = find_pack (value, p);
  if (!pack || pack->packed || bytes > MOST_PACKED_BYTES - gm_packs->bytes)
    return pack ? pack->packed : NULL;
  if (!(pack->packed = gm_alloc (bytes)))
    return NULL;
  pack->bytes = bytes;
  gm_packs->bytes += bytes;
  gm_threads_run (blocks, pack_part, &(PackJob){ p, pack->packed });
  __atomic_fetch_add (&packs_made, 1, __ATOMIC_RELAXED);
  return pack->packed;
}
