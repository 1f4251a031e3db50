/* SPDX-License-Identifier: Apache-2.0
 * fence.c -- the fences of a thread, and the birth numbers of memory.
 *
 * Memory carries the number of the newest fence of the process at its birth, so that a write costs
 * one comparison if no fence is raised, and making memory one load. Numbers are compared by their
 * difference: they may wrap. Rejected: a copy of each shared argument, compared after each call. A
 * tensor that the function finds in a closure, a global or a module is no argument.
 */
#include "core/tensor/fence.h"

#include "core/base/thread.h"

typedef struct Fence {
  struct Fence *outer;
  uint32_t since; /* memory with a smaller birth number is shared */
  int n;
  GmTensor *own[];
} Fence;

uint32_t gm_storage_epoch;
static GM_THREAD Fence *innermost;

void
gm_fence_raise (GmTensor *const *own, int n)
{
  Fence *f = g_malloc (sizeof *f + (size_t) n * sizeof f->own[0]);
  *f = (Fence){ .outer = innermost, .n = n };
  f->since = __atomic_add_fetch (&gm_storage_epoch, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < n; i++)
    f->own[i] = gm_tensor_ref (own[i]);
  innermost = f;
}

bool
gm_fence_lower (void)
{
  Fence *f = innermost;
  if (!f)
    return false;
  innermost = f->outer;
  for (int i = 0; i < f->n; i++)
    gm_tensor_unref (f->own[i]);
  g_free (f);
  return true;
}

/* True if all elements of t are between the first and the last element of `own`. */
static bool
lies_in (const GmTensor *t, const GmTensor *own)
{
  int64_t size = (int64_t) gm_dtype_size (t->meta.dtype);
  int64_t own_size = (int64_t) gm_dtype_size (own->meta.dtype);
  int64_t end = t->offset + gm_meta_extent (&t->meta);
  int64_t own_end = own->offset + gm_meta_extent (&own->meta);
  return t->storage == own->storage && t->offset * size >= own->offset * own_size
         && end * size <= own_end * own_size;
}

bool
gm_fence_refuses (const GmTensor *t)
{
  const Fence *f = innermost;
  if (G_LIKELY (!f) || (int32_t) (t->storage->born - f->since) >= 0)
    return false;
  for (int i = 0; i < f->n; i++)
    if (lies_in (t, f->own[i]))
      return false;
  return true;
}
